// inspect-verify: whether a PDI and its instruction stream may go to hardware (aie/verify), for
// files of anyone, or a PDI by itself. What the operands are is told by an option; without it they
// are taken as of any size and either direction, and that is said.
#include "inspect.h"

#include "aie/target/target.h"
#include "aie/verify/verify.h"
#include "kernel/kernel.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPERANDS = 32 };

struct question {
    const char *pdi, *insts, *operand_text;
    struct verify_operand operands[MOST_OPERANDS];
    int n_operands;
    int columns;
    bool arch_known;
    enum aie_arch arch;
};

bool verify_asked(int argc, char ** argv) {
    bool asked = false;
    for (int i = 1; i < argc; i++) {
        asked |= !strcmp(argv[i], "--verify");
    }
    return asked;
}

// "in:4096,in:4096,out:4096"
static bool parse_operands(const char * text, struct question * q) {
    static const struct {
        const char * word;
        enum verify_access access;
    } words[] = {{"in:", VERIFY_IN}, {"out:", VERIFY_OUT}, {"both:", VERIFY_BOTH}};
    while (q->n_operands < MOST_OPERANDS) {
        struct verify_operand * o = &q->operands[q->n_operands++];
        size_t i = 0;
        while (i < 3 && strncmp(text, words[i].word, strlen(words[i].word))) {
            i++;
        }
        if (i == 3) {
            return false;
        }
        o->access = words[i].access;
        text += strlen(words[i].word);
        char * end;
        errno = 0;
        o->bytes = isdigit((unsigned char) *text) ? strtoull(text, &end, 10) : 0;
        if (!isdigit((unsigned char) *text) || errno || (*end && *end != ',')) {
            return false;
        }
        if (!*end) {
            return true;
        }
        text = end + 1;
    }
    return false;
}

static int parse(int argc, char ** argv, struct question * q) {
    for (int i = 1; i < argc; i++) {
        const char * value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--verify")) {
            continue;
        }
        if (!strcmp(argv[i], "--operands")) {
            if (!parse_operands(value, q)) {
                return tool_usage(&inspect_subcommand,
                                  "--operands wants a list as in:4096,in:4096,out:4096 (bytes)");
            }
            q->operand_text = argv[++i];
        } else if (!strcmp(argv[i], "--arch")) {
            q->arch_known = kernel_arch_parse(value, &q->arch);
            if (!q->arch_known) {
                return tool_usage(&inspect_subcommand, "--arch wants aie2 or aie2p");
            }
            i++;
        } else if (!strcmp(argv[i], "--columns")) {
            q->columns = isdigit((unsigned char) value[0]) && !value[1] ? value[0] - '0' : 0;
            if (q->columns < 1 || q->columns > 8) {
                return tool_usage(&inspect_subcommand, "--columns wants a number from 1 to 8");
            }
            i++;
        } else if (argv[i][0] == '-') {
            return tool_usage(&inspect_subcommand, "no option '%s' with --verify", argv[i]);
        } else if (q->pdi && q->insts) {
            return tool_usage(&inspect_subcommand, "'%s' is one file too many", argv[i]);
        } else {
            *(q->pdi ? &q->insts : &q->pdi) = argv[i];
        }
    }
    if (!q->insts && q->operand_text) {
        return tool_usage(&inspect_subcommand, "--operands are of a stream: INSTS.bin is missing");
    }
    return q->pdi ? EXIT_OK
                  : tool_usage(&inspect_subcommand, "--verify wants FILE.pdi [INSTS.bin]");
}

// A PDI does not say what it is for. Where no option does, the first architecture that it may go to
// is taken.
static enum status answer_pdi(struct question * q, const uint8_t * pdi, size_t size,
                              struct error * err) {
    enum status st = ST_INVALID;
    for (int i = 0; i < AIE_ARCH_COUNT && st != ST_OK; i++) {
        if (!q->arch_known || q->arch == (enum aie_arch) i) {
            q->arch = (enum aie_arch) i;
            st = aie_verify_pdi(q->arch, q->columns, pdi, size, err);
        }
    }
    return st;
}

// The architecture is the stream's own, unless an option says which one it is for.
static enum status answer(struct question * q, struct error * err) {
    enum { MAX_BYTES = 64 << 20 };
    struct verify_job job = {.columns = q->columns, .operands = q->operands};
    uint8_t *pdi = NULL, *insts = NULL;
    enum status st = file_read(q->pdi, MAX_BYTES, &pdi, &job.pdi_size, err);
    if (st == ST_OK && !q->insts) {
        st = answer_pdi(q, pdi, job.pdi_size, err);
        free(pdi);
        return st;
    }
    if (st == ST_OK) {
        st = file_read(q->insts, MAX_BYTES, &insts, &job.insts_size, err);
    }
    if (st == ST_OK && !q->arch_known && image_is_txn(insts, job.insts_size)) {
        const struct aie_target * target = aie_target_of_generation(insts[2]);
        q->arch = target ? target->arch : q->arch;
    }
    job.n_operands = q->n_operands;
    for (; !q->operand_text && job.n_operands < MOST_OPERANDS; job.n_operands++) {
        q->operands[job.n_operands] = (struct verify_operand){VERIFY_UNKNOWN, VERIFY_BOTH};
    }
    if (st == ST_OK) {
        job.arch = q->arch;
        job.pdi = pdi;
        job.insts = insts;
        st = aie_verify(&job, err);
    }
    free(pdi);
    free(insts);
    return st;
}

int verify_run(int argc, char ** argv) {
    struct question q = {0};
    struct error err = {0};
    int code = parse(argc, argv, &q);
    if (code != EXIT_OK) {
        return code;
    }
    if (answer(&q, &err) != ST_OK) {
        fprintf(stderr, "ggml-hsa inspect: %s%s%s: %s\n", q.pdi, q.insts ? " + " : "",
                q.insts ? q.insts : "", err.text);
        return EXIT_BAD_INPUT;
    }
    printf("%s%s%s: passes as a %s of %s for %d columns\n", q.pdi, q.insts ? " + " : "",
           q.insts ? q.insts : "", q.insts ? "kernel" : "configuration", kernel_arch_name(q.arch),
           q.columns ? q.columns : aie_target(q.arch)->columns);
    if (q.insts && !q.operand_text) {
        printf("sizes and directions of operands were not looked at; --operands tells them\n");
    }
    return EXIT_OK;
}

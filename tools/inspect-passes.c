// inspect-passes: compiles one kernel and prints the programs of its cores after each pass of the
// assembler, in the form that it reads again (aie/asm/text.h). Nothing is kept or run.
#include "aie/aie.h"
#include "aie/asm/text.h"
#include "bench.h"
#include "inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct passes {
    int only; // -1: all
    int n_programs;
    struct buf * b;
};

static void print_pass(void * user, enum asm_pass pass, const char * text) {
    struct passes * p = user;
    p->n_programs += pass == ASM_PASS_BUILT;
    if (p->only < 0 || p->only == (int) pass) {
        buf_printf(p->b, "%s// program %d, %s\n%s", p->b->size ? "\n" : "", p->n_programs,
                   asm_pass_name(pass), text);
    }
}

bool passes_asked(int argc, char ** argv) {
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--passes") || !strcmp(argv[i], "--pass")) {
            return true;
        }
    }
    return false;
}

static int parse(int argc, char ** argv, const char * words[3], int * only, enum aie_arch * arch) {
    int n = 0;
    bool passes = false;
    for (int i = 1; i < argc; i++) {
        enum asm_pass pass;
        if (!strcmp(argv[i], "--passes")) {
            passes = true;
        } else if (!strcmp(argv[i], "--pass")) {
            if (i + 1 == argc || !asm_pass_parse(argv[i + 1], &pass)) {
                return tool_usage(&inspect_subcommand, "--pass wants built, dependences, schedule, "
                                                       "loops, bundles or bytes");
            }
            *only = (int) pass;
            i++;
        } else if (!strcmp(argv[i], "--arch")) {
            if (i + 1 == argc || !kernel_arch_parse(argv[i + 1], arch)) {
                return tool_usage(&inspect_subcommand, "--arch wants aie2 or aie2p");
            }
            i++;
        } else if (argv[i][0] == '-') {
            return tool_usage(&inspect_subcommand, "%s does not go with --passes", argv[i]);
        } else if (n == 3) {
            return tool_usage(&inspect_subcommand, "'%s' is one word too many", argv[i]);
        } else {
            words[n++] = argv[i];
        }
    }
    if (!passes) {
        return tool_usage(&inspect_subcommand, "--pass is for --passes");
    }
    return n == 3 ? EXIT_OK : tool_usage(&inspect_subcommand, "--passes wants OP, TYPE and SHAPE");
}

int passes_run(int argc, char ** argv) {
    struct buf b = {0};
    struct passes p = {.only = -1, .b = &b};
    const struct asm_listener to = {print_pass, &p};
    const char * words[3];
    struct bench_task task = {0};
    struct error err = {0};
    uint8_t * pdi = NULL;
    size_t size;
    enum aie_arch arch = AIE_ARCH_AIE2;
    int status = parse(argc, argv, words, &p.only, &arch);
    if (status != EXIT_OK) {
        return status;
    }
    enum status st = bench_task_make(words[0], words[1], words[2], &task, &err);
    if (st == ST_OK) {
        task.spec.arch = arch;
        asm_listen(&to);
        st = aie_compile_pdi(&task.spec, &pdi, &size, &err);
        asm_listen(NULL);
    }
    if (st == ST_OK && b.failed) {
        st = error_set(&err, ST_NO_MEMORY, "no memory for the programs");
    }
    if (b.data) { // of a program that failed, too: that is when one wants to see it
        fwrite(b.data, 1, b.size, stdout);
    }
    if (st != ST_OK) {
        fprintf(stderr, "ggml-hsa inspect: %s\n", err.text);
    }
    buf_free(&b);
    free(pdi);
    return st == ST_OK ? EXIT_OK : EXIT_BAD_INPUT;
}

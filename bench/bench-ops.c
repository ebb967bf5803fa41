// bench-ops [ARCH]: the whole op table, of aie2 or of another architecture. How many PDIs all ops
// and datatypes need, how long each takes to compile, and for every op the modelled cycles per
// output word and column beside the bound that the streams set (one word per cycle, channel and
// column).
#include "aie/aie.h"
#include "aie/target/target.h"
#include "emu/aie/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static enum aie_arch arch = AIE_ARCH_AIE2;

// Of the processor, not of the wall: compiling waits for nothing.
static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

// A spec of the op on n-element rows that the compiler takes: what comes out of a row op is tried.
static bool make_spec(enum kernel_op op, enum dtype t, int64_t n, int64_t rows,
                      struct kernel_spec * out) {
    const struct {
        enum dtype type;
        int64_t ne0, ne1;
    } results[] = {{t, n, rows}, {t, 1, rows}, {t, 1, 1}, {DTYPE_I32, rows, 1}, {DTYPE_I32, 1, 1}};
    const float one = 1.0f;
    for (size_t r = 0; r < sizeof results / sizeof results[0]; r++) {
        struct kernel_spec s = {.op = op, .arch = arch, .n_inputs = kernel_op_info(op)->n_inputs};
        for (; s.n_inputs > 0; s.n_inputs--) { // later inputs may be optional
            for (int i = 0; i < s.n_inputs; i++) {
                s.inputs[i] = tensor_contiguous(t, (const int64_t[4]){n, rows, 1, 1});
            }
            s.output = tensor_contiguous(results[r].type,
                                         (const int64_t[4]){results[r].ne0, results[r].ne1, 1, 1});
            for (int i = 0; i < KERNEL_MAX_PARAMS; i++) {
                memcpy(&s.params[i], &one, 4);
            }
            if (aie_supports(&s, NULL) == ST_OK) {
                *out = s;
                return true;
            }
        }
    }
    return false;
}

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) user;
    (void) len;
    (void) write;
    return (void *) (uintptr_t) addr;
}

// On an array of its own: where cores and streams meet in a bank depends on what ran before.
static double cycles_per_word(const struct emu_clock * clock, const struct kernel_spec * s,
                              const struct kernel_code * code) {
    const struct emu_config config = {.arch = arch,
                                      .columns = aie_target(arch)->columns,
                                      .resolve = resolve,
                                      .clock = clock,
                                      .trace_col = -1,
                                      .trace_row = -1};
    struct emu_machine * m = NULL;
    struct emu_operand operands[KERNEL_MAX_INPUTS + 1];
    void * data[KERNEL_MAX_INPUTS + 1];
    for (int i = 0; i <= s->n_inputs; i++) {
        size_t bytes = (size_t) tensor_bytes(i < s->n_inputs ? &s->inputs[i] : &s->output) + 64;
        data[i] = malloc(bytes);
        for (size_t b = 0; b + 4 <= bytes; b += 4) { // ordinary numbers in every datatype
            memcpy((uint8_t *) data[i] + b, &(uint32_t){0x3c013c01u + (uint32_t) b % 97}, 4);
        }
        operands[i] = (struct emu_operand){(uint64_t) (uintptr_t) data[i], bytes};
    }
    struct error err = {0};
    double result = -1;
    if (emu_machine_new(&config, &m, &err) == ST_OK &&
        emu_machine_run(m, code->pdi, code->pdi_size, code->insts, code->n_insts, operands,
                        s->n_inputs + 1, &err) == ST_OK) {
        struct emu_counters c;
        emu_machine_counters(m, &c);
        result = (double) c.last_cycles /
                 ((double) tensor_bytes(&s->inputs[0]) / (4 * aie_target(arch)->columns));
    } else {
        fprintf(stderr, "bench-ops: %s: %s\n", kernel_op_name(s->op), err.text);
    }
    for (int i = 0; i <= s->n_inputs; i++) {
        free(data[i]);
    }
    emu_machine_free(m);
    return result;
}

struct pdi {
    char name[KERNEL_NAME_MAX];
    double ms;
};

static int by_time(const void * a, const void * b) {
    double x = ((const struct pdi *) a)->ms, y = ((const struct pdi *) b)->ms;
    return x < y ? 1 : x > y ? -1 : 0;
}

int main(int argc, char ** argv) {
    if (argc > 2 || (argc == 2 && !kernel_arch_parse(argv[1], &arch))) {
        bool help = argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
        fprintf(
            help ? stdout : stderr,
            "usage: bench-ops [aie2|aie2p]\n\nMeasures modelled cycles of every op, in a table.\n");
        return help ? 0 : 2;
    }
    static struct pdi pdis[256];
    int n_pdis = 0;
    double total = 0;
    struct emu_clock clocks[2];
    struct error err = {0};
    if (emu_clock_parse("ideal", &clocks[0], &err) != ST_OK ||
        emu_clock_get(arch, &clocks[1], &err) != ST_OK) {
        fprintf(stderr, "bench-ops: %s\n", err.text);
        return 1;
    }
    printf("modelled cycles per word of the first input and column on the clocks 'ideal' and '%s'; "
           "1.0 is the bound of a stream\n%-16s",
           clocks[1].name, "op");
    for (int t = 0; t < DTYPE_COUNT; t++) {
        printf("%12s", dtype_name((enum dtype) t));
    }
    printf("\n");
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        printf("%-16s", kernel_op_name((enum kernel_op) op));
        for (int t = 0; t < DTYPE_COUNT; t++) {
            struct kernel_spec s;
            if (!make_spec((enum kernel_op) op, (enum dtype) t, 1024, 128, &s)) {
                printf("%12s", "-");
                continue;
            }
            char name[KERNEL_NAME_MAX];
            aie_program_name(&s, name);
            int known = 0;
            while (known < n_pdis && strcmp(pdis[known].name, name)) {
                known++;
            }
            struct kernel_code code = {0};
            double t0 = seconds();
            if (aie_compile(&s, &code, &err) != ST_OK) {
                printf("%12s", "error");
                fprintf(stderr, "bench-ops: %s\n", err.text);
                continue;
            }
            double ms = (seconds() - t0) * 1e3;
            if (known == n_pdis && n_pdis < 256) {
                memcpy(pdis[n_pdis].name, name, sizeof name);
                pdis[n_pdis++].ms = ms;
                total += ms;
            }
            double cycles[2] = {cycles_per_word(&clocks[0], &s, &code),
                                cycles_per_word(&clocks[1], &s, &code)};
            kernel_code_free(&code);
            // Near the bound the start of a run would show: a million elements there.
            if (cycles[0] < 5 && make_spec((enum kernel_op) op, (enum dtype) t, 1024, 1024, &s) &&
                aie_compile(&s, &code, &err) == ST_OK) {
                cycles[0] = cycles_per_word(&clocks[0], &s, &code);
                cycles[1] = cycles_per_word(&clocks[1], &s, &code);
                kernel_code_free(&code);
            }
            printf(" %5.2f %5.2f", cycles[0], cycles[1]);
        }
        printf("\n");
        fflush(stdout);
    }
    qsort(pdis, (size_t) n_pdis, sizeof pdis[0], by_time);
    printf("\n%d PDIs for the whole table (target <= 60), compiled in %.0f ms (target <= 1000)\n",
           n_pdis, total);
    printf("slowest:");
    for (int i = 0; i < 8 && i < n_pdis; i++) {
        printf(" %s %.1f ms", pdis[i].name, pdis[i].ms);
    }
    printf(" (target <= 5 each)\n");
    return 0;
}

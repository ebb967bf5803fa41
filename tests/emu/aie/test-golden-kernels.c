// test-golden-kernels: real kernels, made by other tools for real silicon, run on the machine to
// exact results. Each is dispatched twice in a row on one machine with different data: the second
// run shows that the first left locks, descriptors and queues as it found them. A second machine
// moves every word by itself (as in test-burst, here with cores) and must come to the same counts.
#include "base/base.h"
#include "base/cmocka-all.h"
#include "emu/aie/machine.h"

#include <stddef.h>
#include <time.h>

enum { MAX_OPERANDS = 4 };

struct kernel {
    uint8_t * pdi;
    uint8_t * insts;
    size_t pdi_size, insts_size;
    uint8_t * memory[MAX_OPERANDS];
    struct emu_operand operands[MAX_OPERANDS];
    int n;
    struct emu_machine *machine, *single;
};

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    struct kernel * k = user;
    for (int i = 0; i < k->n; i++) {
        uint64_t first = k->operands[i].addr, size = k->operands[i].size;
        if (addr >= first && addr - first <= size && len <= size - (addr - first)) {
            return write && i != k->n - 1 ? NULL : k->memory[i] + (addr - first);
        }
    }
    return NULL;
}

static uint8_t * golden_file(const char * name, const char * suffix, size_t * size) {
    char path[1024];
    snprintf(path, sizeof(path), "%s/aie2-kernels/%s%s", GOLDEN_DIR, name, suffix);
    struct error err;
    uint8_t * data = NULL;
    if (file_read(path, 1 << 20, &data, size, &err) != ST_OK) {
        skip_golden(path);
    }
    return data;
}

static void kernel_open(struct kernel * k, const char * name, int n, const size_t * sizes) {
    memset(k, 0, sizeof(*k));
    k->pdi = golden_file(name, ".pdi", &k->pdi_size);
    k->insts = golden_file(name, "_insts.bin", &k->insts_size);
    k->n = n;
    for (int i = 0; i < n; i++) {
        k->memory[i] = calloc(1, sizes[i]);
        k->operands[i] = (struct emu_operand){0x7f5000001000 + 0x10000000 * (uint64_t) i, sizes[i]};
    }
    struct emu_config config = {.arch = AIE_ARCH_AIE2,
                                .strict = true,
                                .columns = 4,
                                .resolve = resolve,
                                .user = k,
                                .trace_col = -1,
                                .trace_row = -1};
    struct error err;
    assert_int_equal(emu_machine_new(&config, &k->machine, &err), ST_OK);
    config.single_cycles = true;
    assert_int_equal(emu_machine_new(&config, &k->single, &err), ST_OK);
}

static void kernel_run(struct kernel * k, const char * name) {
    struct error err;
    struct timespec from, to;
    uint32_t * insts = malloc(k->insts_size);
    memcpy(insts, k->insts, k->insts_size);
    memset(k->memory[k->n - 1], 0xEE, k->operands[k->n - 1].size);
    enum status st = emu_machine_run(k->single, k->pdi, k->pdi_size, insts, k->insts_size / 4,
                                     k->operands, k->n, &err);
    assert_int_equal(st, ST_OK);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    st = emu_machine_run(k->machine, k->pdi, k->pdi_size, insts, k->insts_size / 4, k->operands,
                         k->n, &err);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    free(insts);
    if (st != ST_OK) {
        fail_msg("%s: %s", name, err.text);
    }
    struct emu_counters c, single;
    emu_machine_counters(k->machine, &c);
    emu_machine_counters(k->single, &single);
    assert_int_equal(c.last_cycles, single.last_cycles);
    assert_memory_equal(&c, &single, offsetof(struct emu_counters, account));
    double ms =
        (double) (to.tv_sec - from.tv_sec) * 1e3 + (double) (to.tv_nsec - from.tv_nsec) / 1e6;
    print_message("%s: %llu cycles, %llu bundles so far, %.1f ms of CPU time\n", name,
                  (unsigned long long) c.last_cycles, (unsigned long long) c.bundles, ms);
}

static void kernel_close(struct kernel * k) {
    struct emu_counters c;
    emu_machine_counters(k->machine, &c);
    assert_int_equal(c.pdi_loads, 1);
    emu_machine_free(k->machine);
    emu_machine_free(k->single);
    for (int i = 0; i < k->n; i++) {
        free(k->memory[i]);
    }
    free(k->pdi);
    free(k->insts);
}

static uint32_t next_random(uint32_t * state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

// Signs, all mantissas, and exponents from 2^-10 to 2^10.
static uint16_t random_bf16(uint32_t * state) {
    uint32_t r = next_random(state);
    return (uint16_t) ((r & 0x8000) | (117 + (r >> 16) % 21) << 7 | (r & 0x7f));
}

static float bf16_value(uint16_t bits16) {
    uint32_t u = (uint32_t) bits16 << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

// These kernels leave crRnd at 0, which silicon rounds towards minus infinity: positive sums are
// cut, negative ones that do not fit move one step away from zero.
static uint16_t add_rounded_down(uint16_t a, uint16_t b) {
    float sum = bf16_value(a) + bf16_value(b);
    uint32_t u;
    memcpy(&u, &sum, 4);
    return (uint16_t) ((u >> 16) + (u >> 31 && (u & 0xffff)));
}

static void bf16_sum(const char * name, int terms) {
    enum { N = 4096 };
    struct kernel k;
    kernel_open(&k, name, terms + 1, (size_t[]){2 * N, 2 * N, 2 * N, 2 * N});
    uint32_t seed = 20240607;
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < terms; i++) {
            for (int j = 0; j < N; j++) {
                ((uint16_t *) (void *) k.memory[i])[j] = random_bf16(&seed);
            }
        }
        kernel_run(&k, name);
        for (int j = 0; j < N; j++) {
            uint16_t want = ((const uint16_t *) (void *) k.memory[0])[j];
            for (int i = 1; i < terms; i++) {
                want = add_rounded_down(want, ((const uint16_t *) (void *) k.memory[i])[j]);
            }
            uint16_t got = ((const uint16_t *) (void *) k.memory[terms])[j];
            if (got != want) {
                fail_msg("%s, run %d, element %d: 0x%04x, want 0x%04x", name, turn, j, got, want);
            }
        }
    }
    kernel_close(&k);
}

static void i16_gemm(const char * name, int n) {
    struct kernel k;
    size_t in = (size_t) n * (size_t) n * 2;
    kernel_open(&k, name, 3, (size_t[]){in, in, 2 * in});
    int16_t * a = (void *) k.memory[0];
    int16_t * b = (void *) k.memory[1];
    const int32_t * c = (void *) k.memory[2];
    int32_t * want = malloc((size_t) n * sizeof(*want));
    uint32_t seed = 777;
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < n * n; i++) {
            a[i] = (int16_t) ((int) (next_random(&seed) % 201) - 100);
            b[i] = (int16_t) ((int) (next_random(&seed) % 201) - 100);
        }
        kernel_run(&k, name);
        for (int i = 0; i < n; i++) {
            memset(want, 0, (size_t) n * sizeof(*want));
            for (int l = 0; l < n; l++) {
                for (int j = 0; j < n; j++) {
                    want[j] += a[i * n + l] * b[l * n + j];
                }
            }
            for (int j = 0; j < n; j++) {
                if (c[i * n + j] != want[j]) {
                    fail_msg("%s, run %d, C[%d][%d]: %d, want %d", name, turn, i, j, c[i * n + j],
                             want[j]);
                }
            }
        }
    }
    free(want);
    kernel_close(&k);
}

static void single_add(void ** state) {
    (void) state;
    bf16_sum("single-add", 2);
}

static void fused_add_add(void ** state) {
    (void) state;
    bf16_sum("fused-add-add", 3);
}

static void gemm_256_one_core(void ** state) {
    (void) state;
    i16_gemm("gemm-i16-256-1core", 256);
}

static void gemm_512_sixteen_cores(void ** state) {
    (void) state;
    i16_gemm("gemm-i16-512-16core", 512);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_add),
        cmocka_unit_test(fused_add_add),
        cmocka_unit_test(gemm_256_one_core),
        cmocka_unit_test(gemm_512_sixteen_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

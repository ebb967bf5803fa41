// test-golden-aie2p: real aie2p designs, compiled by AMD's compilers, run on the machine to the
// right result. Inputs and checks come with the designs (check.c, taken in here as it is): most
// designs have one right answer to the bit, the others are compared as closely as their special
// functions are known.
//
// Each is dispatched twice on one strict machine, with other data: the second run shows that the
// first left locks, descriptors and queues as it found them. Where a core ends with `done` a
// design runs once for each load of its PDI: another PDI comes in between, or the stream asks for
// it to be loaded again. A third run is on a machine that is not strict and adds floats by the
// other of the two disputed rules.
#include "base/base.h"
#include "base/cmocka-all.h"
#include "emu/aie/machine.h"

#include <dirent.h>
#include <unistd.h>

#if defined(__GNUC__)
#    pragma GCC diagnostic push
#    pragma GCC diagnostic ignored "-Wconversion"
#    pragma GCC diagnostic ignored "-Wsign-conversion"
#    pragma GCC diagnostic ignored "-Wunused-function"
#endif
#define main check_main
#define bits check_bits
#include CHECK_C
#undef main
#undef bits
#if defined(__GNUC__)
#    pragma GCC diagnostic pop
#endif

enum { MAX_OPERANDS = 8 };

#ifndef TURNS
#    define TURNS 3
#endif

struct design {
    const char * name;
    enum { RUNS_ON, ANOTHER_PDI, LOAD_PDI } again; // what comes before the second run
};

static const struct design designs[] = {
    {"i32-add3", RUNS_ON},    {"i32-copy", RUNS_ON},      {"i32-add1", RUNS_ON},
    {"f32-square", RUNS_ON},  {"f32-mul", RUNS_ON},       {"f32-reciprocal", RUNS_ON},
    {"f32-div", RUNS_ON},     {"i8-gemm-1core", RUNS_ON}, {"i16-gemm", RUNS_ON},
    {"bf16-gemm", RUNS_ON},   {"bfp16-gemm", RUNS_ON},    {"flash-attention", ANOTHER_PDI},
    {"rmsnorm", ANOTHER_PDI}, {"q4-gemv", LOAD_PDI},      {"swiglu", LOAD_PDI},
};

struct world {
    char dir[64];
    struct emu_machine * machine;
    uint8_t *pdi, *insts;
    size_t pdi_size, insts_size;
    uint8_t * memory[MAX_OPERANDS];
    struct emu_operand operands[MAX_OPERANDS];
    bool writable[MAX_OPERANDS];
    int n;
};

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    struct world * w = user;
    for (int i = 0; i < w->n; i++) {
        uint64_t first = w->operands[i].addr, size = w->operands[i].size;
        if (addr >= first && addr - first <= size && len <= size - (addr - first)) {
            return write && !w->writable[i] ? NULL : w->memory[i] + (addr - first);
        }
    }
    return NULL;
}

static bool read_all(const char * path, uint8_t ** data, size_t * size) {
    struct error err;
    return file_read(path, 1 << 26, data, size, &err) == ST_OK;
}

static void read_design(struct world * w, const char * name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/aie2p-kernels/%s/design.pdi", GOLDEN_DIR, name);
    if (!read_all(path, &w->pdi, &w->pdi_size)) {
        skip_golden(path);
    }
    snprintf(path, sizeof path, "%s/aie2p-kernels/%s/insts.bin", GOLDEN_DIR, name);
    assert_true(read_all(path, &w->insts, &w->insts_size));
}

static void free_operands(struct world * w) {
    for (int i = 0; i < w->n; i++) {
        free(w->memory[i]);
    }
    w->n = 0;
}

static int number_of(const char * name) {
    for (int i = 0; i < (int) (sizeof all / sizeof *all); i++) {
        if (strcmp(all[i].name, name) == 0) {
            return i;
        }
    }
    fail_msg("check.c does not know %s", name);
    return 0;
}

// Inputs as check.c makes them, outputs full of something else. An operand that is written is one
// with a length, or the only one.
static void make_operands(struct world * w, int number, uint32_t with) {
    char path[128];
    dir = w->dir;
    seed = with;
    all[number].f(GEN);
    for (int i = 0; i < MAX_OPERANDS; i++) {
        size_t size = 0;
        uint8_t * data = NULL;
        snprintf(path, sizeof path, "%s/%d.len", w->dir, i);
        bool out = read_all(path, &data, &size);
        if (out) {
            size = (size_t) strtoul((const char *) data, NULL, 10);
            free(data);
            data = memset(malloc(size), 0xee, size);
            unlink(path);
        } else {
            snprintf(path, sizeof path, "%s/%d.in", w->dir, i);
            if (!read_all(path, &data, &size)) {
                break;
            }
        }
        w->memory[i] = data;
        w->writable[i] = out || (i == 0 && strcmp(all[number].name, "i32-add3") == 0);
        w->operands[i] = (struct emu_operand){0x7f5000001000 + 0x10000000 * (uint64_t) i, size};
        w->n = i + 1;
    }
}

static void run(struct world * w, const char * name) {
    struct error err;
    uint32_t * insts = malloc(w->insts_size);
    memcpy(insts, w->insts, w->insts_size);
    enum status st = emu_machine_run(w->machine, w->pdi, w->pdi_size, insts, w->insts_size / 4,
                                     w->operands, w->n, &err);
    free(insts);
    if (st != ST_OK) {
        fail_msg("%s: %s", name, err.text);
    }
}

static void check_results(struct world * w, int number) {
    for (int i = 0; i < w->n; i++) {
        if (w->writable[i]) {
            save(i, "out", w->memory[i], (size_t) w->operands[i].size);
        }
    }
    bad = total = 0;
    num = den = 0;
    printf("%s: ", all[number].name);
    assert_int_equal(all[number].f(CMP), 0);
}

static void clear_dir(const char * path) {
    DIR * d = opendir(path);
    for (struct dirent * e; d && (e = readdir(d));) {
        char file[512];
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        unlink(file);
    }
    if (d) {
        closedir(d);
    }
}

// Another design on the same machine: whatever comes next loads its PDI again.
static void load_another(struct world * w) {
    struct world other = {.machine = w->machine};
    memcpy(other.dir, w->dir, sizeof other.dir);
    int number = number_of("i32-add3");
    read_design(&other, "i32-add3");
    make_operands(&other, number, 1);
    struct world own = *w;
    *w = other; // whom resolve() asks
    run(w, "i32-add3");
    check_results(w, number);
    free_operands(w);
    free(w->pdi);
    free(w->insts);
    clear_dir(w->dir);
    *w = own;
}

// Puts the operation that loads the PDI before the others of the stream.
static void load_first(struct world * w) {
    enum { HEADER = 16, OPERATION = 16 };
    uint8_t * longer = calloc(1, w->insts_size + OPERATION);
    memcpy(longer, w->insts, HEADER);
    memcpy(longer + HEADER + OPERATION, w->insts + HEADER, w->insts_size - HEADER);
    w->insts_size += OPERATION;
    store_u32(longer + 8, load_u32(longer + 8) + 1);
    store_u32(longer + 12, (uint32_t) w->insts_size);
    store_u32(longer + HEADER, 8 | 1 << 16);
    free(w->insts);
    w->insts = longer;
}

static void runs_right(void ** state) {
    const struct design * d = *state;
    struct world w = {.dir = "/tmp/golden-aie2p-XXXXXX"};
    struct error err;
    struct emu_config config = {.arch = AIE_ARCH_AIE2P,
                                .strict = true,
                                .adder = EMU_ADDER_ALIGNED,
                                .columns = 8,
                                .resolve = resolve,
                                .user = &w,
                                .trace_col = -1,
                                .trace_row = -1};
    int number = number_of(d->name);
    read_design(&w, d->name);
    assert_non_null(mkdtemp(w.dir));
    assert_int_equal(emu_machine_new(&config, &w.machine, &err), ST_OK);
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        if (turn == 2) {
            emu_machine_free(w.machine);
            config.strict = false;
            config.adder = EMU_ADDER_IEEE;
            assert_int_equal(emu_machine_new(&config, &w.machine, &err), ST_OK);
        } else if (turn && d->again == ANOTHER_PDI) {
            load_another(&w);
        } else if (turn && d->again == LOAD_PDI) {
            load_first(&w);
        }
        make_operands(&w, number, (uint32_t) number + 1 + 1000 * turn);
        run(&w, d->name);
        check_results(&w, number);
        free_operands(&w);
        clear_dir(w.dir);
    }
    struct emu_counters c;
    emu_machine_counters(w.machine, &c);
    printf("  %llu cycles, %llu bundles\n", (unsigned long long) c.cycles,
           (unsigned long long) c.bundles);
    emu_machine_free(w.machine);
    free(w.pdi);
    free(w.insts);
    rmdir(w.dir);
}

int main(void) {
    enum { N = sizeof designs / sizeof designs[0] };
    struct CMUnitTest tests[N];
    for (int i = 0; i < N; i++) {
        tests[i] = (struct CMUnitTest){designs[i].name, runs_right, NULL, NULL,
                                       (void *) (uintptr_t) &designs[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// bench: what was measured beside what it should be. Times are of this machine and this run;
// modelled cycles are exact and the same everywhere. Prints a table, asserts nothing.
#include "bench.h"

#include "aie/aie.h"
#include "aie/ops/ops.h"
#include "emu/aie/core.h"
#include "emu/aie/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static void row(const char * what, double measured, const char * unit, const char * relation,
                double target) {
    printf("%-52s %10.3f %-22s %s %g\n", what, measured, unit, relation, target);
}

static void die(const struct error * err) {
    fprintf(stderr, "bench: %s\n", err->text);
    exit(1);
}

static struct kernel_spec add_spec(enum dtype t, int64_t n, int64_t rows) {
    struct kernel_spec s = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    s.inputs[0] = s.inputs[1] = s.output =
        tensor_contiguous(t, (const int64_t[TENSOR_DIMS]){n, rows, 1, 1});
    return s;
}

// ---- compiler ----

static void bench_compile(void) {
    struct error err = {0};
    double best = 1e9;
    for (int i = 0; i < 20; i++) {
        struct kernel_spec s = add_spec(DTYPE_F32, 1000 + i, 1);
        struct kernel_code code;
        double t0 = seconds();
        if (aie_compile(&s, &code, &err) != ST_OK) {
            die(&err);
        }
        double t = seconds() - t0;
        best = t < best ? t : best;
        kernel_code_free(&code);
    }
    row("compile one ADD f32 kernel, spec to bytes", best * 1e3, "ms", "<=", 2);

    double t0 = seconds();
    uint8_t * pdi;
    size_t pdi_size;
    struct kernel_spec first = add_spec(DTYPE_F32, 1, 1);
    if (aie_compile_pdi(&first, &pdi, &pdi_size, &err) != ST_OK) {
        die(&err);
    }
    for (int n = 1; n <= 1000; n++) {
        struct kernel_spec s = add_spec(DTYPE_F32, 37 * n, 1 + n % 5);
        uint32_t * insts;
        size_t n_words;
        if (aie_compile_insts(&s, &insts, &n_words, &err) != ST_OK) {
            die(&err);
        }
        free(insts);
    }
    row("1,000 shapes of ADD f32 on one PDI", (seconds() - t0) * 1e3, "ms", "<=", 100);
    free(pdi);
}

// ---- one core on its own: locks always open, memory its own ----

struct lone {
    uint8_t memory[65536];
};

static uint8_t * lone_memory(void * user, uint32_t addr, uint32_t len) {
    struct lone * l = user;
    uint32_t at = addr - aie_target(AIE_ARCH_AIE2)->own_window;
    return at < sizeof l->memory && len <= sizeof l->memory - at ? l->memory + at : NULL;
}

static int lone_lock(void * user, int id, int value) {
    (void) user;
    (void) id;
    (void) value;
    return 1;
}

static void bench_core(enum dtype t, double target) {
    struct error err = {0};
    struct ew_program program;
    struct kernel_spec spec = add_spec(t, 1, 1);
    if (elementwise_program(ew_program(&spec), spec.arch, &program, &err) != ST_OK) {
        die(&err);
    }
    struct lone * lone = calloc(1, sizeof *lone);
    const uint32_t params[EW_PARAM_COUNT] = {
        [EW_PARAM_CHUNKS] = 1u << 20,
        [EW_PARAM_TRIPS] =
            (uint32_t) (EW_CHUNK_WORDS / ew_trip_words(ew_program(&spec), spec.arch, spec.op)),
        [EW_PARAM_TRIPS_LAST] = 1,
        [EW_PARAM_OP] = ew_index(ew_program(&spec), spec.op),
        [EW_PARAM_STREAM_B] = 1,
    };
    memcpy(lone->memory + EW_PARAMS, params, sizeof params);
    for (int i = EW_BUFFER_A; i < EW_BUFFER_OUT; i += 4) {
        float v = (float) rand() / (float) RAND_MAX;
        memcpy(lone->memory + i, &v, 4);
    }
    struct core_env env = {
        .user = lone, .memory = lone_memory, .acquire = lone_lock, .release = lone_lock};
    struct core * core;
    if (core_new(AIE_ARCH_AIE2, &env, &core) != ST_OK) {
        exit(1);
    }
    memcpy(core_program(core), program.code.bytes, program.code.size);
    core_program_changed(core, 0, (uint32_t) program.code.size);
    core_reset(core);
    core_enable(core, true, 0);
    uint64_t limit = 8 * 1000 * 1000;
    double t0 = seconds();
    while (core_now(core) < limit && core_run(core, limit, limit) == CORE_READY) {
    }
    double t1 = seconds();
    if (core_get_state(core) == CORE_FAULT) {
        fprintf(stderr, "bench: %s\n", core_fault(core));
        exit(1);
    }
    char what[64];
    snprintf(what, sizeof what, "emulated core, ADD %s loop", dtype_name(t));
    row(what, (double) core_bundles(core) / (t1 - t0) * 1e-6, "M bundles/s", ">=", target);
    core_free(core);
    free(program.code.bytes);
    free(lone);
}

// ---- the array ----

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) user;
    (void) len;
    (void) write;
    return (void *) (uintptr_t) addr;
}

static void bench_array(enum dtype t, int64_t n, double target) {
    struct error err = {0};
    struct kernel_spec spec = add_spec(t, n, 1);
    struct kernel_code code;
    if (aie_compile(&spec, &code, &err) != ST_OK) {
        die(&err);
    }
    size_t bytes = (size_t) tensor_bytes(&spec.output) + 64;
    struct emu_operand operands[3];
    void * data[3];
    for (int i = 0; i < 3; i++) {
        data[i] = calloc(1, bytes);
        operands[i] = (struct emu_operand){(uint64_t) (uintptr_t) data[i], bytes};
    }
    struct emu_config config = {
        .arch = AIE_ARCH_AIE2, .columns = 4, .resolve = resolve, .trace_col = -1, .trace_row = -1};
    struct emu_machine * m;
    if (emu_machine_new(&config, &m, &err) != ST_OK) {
        die(&err);
    }
    double t0 = 0, t1 = 0;
    for (int i = 0; i < 2; i++) { // the first one also configures the array
        t0 = seconds();
        if (emu_machine_run(m, code.pdi, code.pdi_size, code.insts, code.n_insts, operands, 3,
                            &err) != ST_OK) {
            die(&err);
        }
        t1 = seconds();
    }
    struct emu_counters c;
    emu_machine_counters(m, &c);
    double words = (double) n * dtype_size(t) / 4 / 4; // per column
    char what[64];
    snprintf(what, sizeof what, "ADD %s, %lld elements", dtype_name(t), (long long) n);
    row(what, (double) c.last_cycles / words, "cycles/word/column", target > 0 ? "<=" : "bound",
        target > 0 ? target : 1);
    snprintf(what, sizeof what, "    emulated in");
    row(what, (t1 - t0) * 1e3, "ms", "", (double) c.last_cycles);
    emu_machine_free(m);
    kernel_code_free(&code);
    for (int i = 0; i < 3; i++) {
        free(data[i]);
    }
}

int main(int argc, char ** argv) {
    bench_no_arguments(argc, argv, "bench-npu", "how fast the compiler and the emulated array are");
    printf("%-52s %10s %-22s %s\n", "what", "measured", "unit", "target (or modelled cycles)");
    bench_compile();
    bench_core(DTYPE_F32, 20);
    bench_core(DTYPE_I32, 20);
    bench_array(DTYPE_F32, 1000000, 1.25);
    bench_array(DTYPE_BF16, 1000000, 0);
    bench_array(DTYPE_I8, 1000000, 0);
    bench_array(DTYPE_I32, 1000000, 0);
    bench_array(DTYPE_F16, 1000000, 0);
    return 0;
}

// bench-mul-mat [ARCH [TYPE M N K]]: matrix products on aie2, or on another architecture; all of a
// list, or one. TYPE bfp16 is bf16 by block floats, bfp16s of a stored so, q4_0s of a in q4_0. How
// often the inner loop multiplies, and how often two of its accesses meet in a memory bank; for
// each shape the modelled cycles on the ideal clock, on the device's (GGML_HSA_EMU_CLOCK) with host
// memory that is never slow, and on the device's as it is, beside what bounds them
// (multiplications, or words of the first operand through eight streams); where the time of the
// second went, how long its instruction stream and its PDI took to make, and how fast the emulator
// is. Every result is compared with a product of the host's at a few places.
#include "aie/aie.h"
#include "aie/ops/mul-mat/mul-mat-plan.h"
#include "aie/target/target.h"
#include "emu/aie/machine.h"
#include "kernel/shared.h"

#include "aie/ops/block-values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static enum aie_arch arch = AIE_ARCH_AIE2;
static bool shared;   // operands of the shape at hand are made block floats
static bool stored;   // and the first one is stored so
static int quantized; // the first operand of the one shape is, the second f32: its blocks, plus one

static int cores(void) {
    return aie_target(arch)->columns * aie_target(arch)->core_rows;
}

static int stream_words(void) { // that reach the array in a cycle
    return aie_target(arch)->columns * 2 * aie_target(arch)->stream_bytes / 4;
}

enum { IDEAL, FREE, DEVICE, CLOCKS }; // free: the device's array, host memory without a bound

// Of the processor, or of the wall.
static double seconds(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) user;
    (void) len;
    (void) write;
    return (void *) (uintptr_t) addr;
}

static int macs_per_cycle(enum dtype t) { // of a core
    if (shared) {
        return 512;
    }
    static const int macs[AIE_ARCH_COUNT][3] = {
        [AIE_ARCH_AIE2] = {128, 256, 64},
        [AIE_ARCH_AIE2P] = {64, 512, 128},
    };
    return macs[arch][t == DTYPE_BF16 ? 0 : t == DTYPE_I8 ? 1 : 2];
}

struct shape {
    enum dtype t;
    int64_t m, n, k;
    const char * beside[AIE_ARCH_COUNT]; // what is wanted, and what others measured
};

static const struct shape shapes[] = {
    {DTYPE_BF16, 512, 512, 512, {"target: 55 % of the peak", ""}},
    {DTYPE_BF16,
     2048,
     2048,
     512,
     {"target: 80 %; silicon, arXiv 2512.13282: 3.14 TFLOP/s end to end",
      "target: 60 %; silicon, mlir-air: 9.8 TFLOP/s"}},
    {DTYPE_BF16, 2048, 512, 2048, {"", ""}},
    {DTYPE_BF16, 500, 1000, 784, {"MNIST, first layer", "MNIST, first layer"}},
    {DTYPE_I8, 512, 512, 512, {"", ""}},
    {DTYPE_I8,
     2048,
     512,
     2048,
     {"target: 78 %; silicon, arXiv 2512.13282: 6.76 TOP/s end to end",
      "target: 65 %; silicon, arXiv 2512.13282: 38.1 TOP/s end to end"}},
    {DTYPE_I16, 512, 512, 512, {"", ""}},
    {DTYPE_I16, 1024, 1024, 1024, {"target: 60 %", ""}},
    {DTYPE_BF16, 4096, 1, 4096, {"target: 80 % of the streams", "target: 80 % of host memory"}},
    {DTYPE_BF16, 4096, 16, 4096, {"", ""}},
    {DTYPE_I8, 4096, 1, 4096, {"", ""}},
};
// The same with block floats, where the multiplier has them.
static const struct shape block_floats = {
    DTYPE_BF16, 2048, 2048, 512, {"", "silicon, arXiv 2511.16041: 24.6 TFLOP/s"}};

enum { FEW = 16 }; // rows of b that the cores make bf16

static enum dtype b_of(const struct shape * s) { // beside quantized blocks
    return s->n > FEW || shared ? DTYPE_BF16 : DTYPE_F32;
}

static struct kernel_spec spec_of(const struct shape * s) {
    enum dtype out = mm_type(arch, s->t)->out;
    if (quantized) {
        int bytes = kernel_block_bytes((enum kernel_blocks)(quantized - 1));
        int64_t words = s->k / kernel_block_k((enum kernel_blocks)(quantized - 1)) * bytes / 4;
        struct kernel_spec spec = {
            .op = KERNEL_OP_MUL_MAT_BLOCKS,
            .arch = arch,
            .n_inputs = 2,
            .inputs = {tensor_contiguous(DTYPE_I32, (const int64_t[4]){words, s->m, 1, 1}),
                       tensor_contiguous(DTYPE_F32, (const int64_t[4]){s->k, 1, 1, 1})},
            .output = tensor_contiguous(out, (const int64_t[4]){s->m, 1, 1, 1}),
            .params[0] = (uint32_t) quantized - 1,
        };
        struct kernel_panel panel; // as the plugin lays weights out
        aie_panel(&spec, &panel);
        spec.params[0] = (shared ? kernel_shared_param
                                 : kernel_blocks_param)((enum kernel_blocks)(quantized - 1), panel);
        spec.inputs[1] = tensor_contiguous(b_of(s), (const int64_t[4]){s->k, s->n, 1, 1});
        spec.output = tensor_contiguous(out, (const int64_t[4]){s->m, s->n, 1, 1});
        return spec;
    }
    return (struct kernel_spec){
        .op = shared ? KERNEL_OP_MUL_MAT_SHARED : KERNEL_OP_MUL_MAT,
        .arch = arch,
        .n_inputs = 2,
        .inputs = {stored ? tensor_contiguous(
                                DTYPE_I8, (const int64_t[4]){shared_row_bytes(s->k), s->m, 1, 1})
                          : tensor_contiguous(s->t, (const int64_t[4]){s->k, s->m, 1, 1}),
                   tensor_contiguous(s->t, (const int64_t[4]){s->k, s->n, 1, 1})},
        .output = tensor_contiguous(out, (const int64_t[4]){s->m, s->n, 1, 1}),
    };
}

enum { BLOCK_SCALE = 0x2400 }; // of all blocks: 2^-6

static double element(const struct shape * s, int operand, const uint8_t * data, int64_t i) {
    int16_t v;
    if (quantized && operand == 1 && b_of(s) == DTYPE_F32) {
        float f;
        memcpy(&f, data + 4 * i, 4);
        return (double) f;
    }
    if (quantized && operand == 0) {
        return block_value((enum kernel_blocks)(quantized - 1), data, i, true);
    }
    if (s->t == DTYPE_I8) {
        return (int8_t) data[i];
    }
    memcpy(&v, data + 2 * i, 2);
    if (s->t == DTYPE_I16) {
        return v;
    }
    uint32_t bits = (uint32_t) (uint16_t) v << 16;
    float f;
    memcpy(&f, &bits, 4);
    return (double) f;
}

// Small numbers: nothing overflows.
static void fill(const struct shape * s, int operand, uint8_t * data, size_t bytes, uint32_t seed) {
    size_t block = quantized ? (size_t) kernel_block_bytes((enum kernel_blocks)(quantized - 1)) : 0;
    for (size_t i = 0; block && i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t x = 0x3f00u << 16 | (seed & 0x807f0000); // bf16
        if (operand == 0) {
            bool scale = block_is_scale((enum kernel_blocks)(quantized - 1), (int) (i % block));
            data[i] = (uint8_t) (!scale ? seed >> 24 : i % 2 ? BLOCK_SCALE >> 8 : BLOCK_SCALE);
            if (quantized - 1 == KERNEL_MXFP4 && i % block == 0) {
                data[i] = 127; // its exponent
            }
        }
        if (operand == 1 && i % 4 == 0) {
            memcpy(data + i, &x, 4);
            i += 3;
        }
    }
    if (block && (operand == 0 || b_of(s) == DTYPE_F32)) {
        return;
    }
    for (size_t i = 0; i + 2 <= bytes; i += 2) {
        seed = seed * 1664525u + 1013904223u;
        uint16_t v = s->t == DTYPE_BF16  ? (uint16_t) (0x3f00 | (seed >> 16 & 0x807f))
                     : s->t == DTYPE_I16 ? (uint16_t) (int16_t) ((int) (seed >> 24) - 128)
                                         : (uint16_t) (seed >> 16);
        memcpy(data + i, &v, 2);
    }
}

enum { SUM_K = 16 }; // of blocks that are multiplied as they are unpacked: the shortest sums

static bool is_right(const struct shape * s, uint8_t * const data[3]) {
    bool fused = quantized && s->n <= FEW &&
                 mm_fuses(mm_type(arch, s->t), (enum kernel_blocks)(quantized - 1));
    for (int64_t i = 0; i < 64; i++) {
        int64_t n = i * 131 % s->n, m = i * 977 % s->m;
        double sum = 0, size = 0, block = 0, blocks = 0;
        for (int64_t k = 0; k < s->k; k++) {
            double p = element(s, 0, data[0], m * s->k + k) * element(s, 1, data[1], n * s->k + k);
            sum += p;
            size += fabs(p);
            block += p;
            if (fused && k % SUM_K == SUM_K - 1) { // of which bf16 is taken
                blocks += fabs(block);
                block = 0;
            }
        }
        float f;
        int32_t v;
        memcpy(&f, data[2] + 4 * (n * s->m + m), 4);
        memcpy(&v, data[2] + 4 * (n * s->m + m), 4);
        double got = s->t == DTYPE_BF16 ? (double) f : v;
        double most = s->t != DTYPE_BF16 ? 0
                                         : size * (shared  ? 0x1p-6
                                                   : fused ? 0x1p-14
                                                           : 0x1p-20) +
                                               blocks * 0x1p-8;
        if (!(fabs(got - sum) <= most)) {
            return false;
        }
    }
    return true;
}

// Weights as the plugin lays them out, from row behind row.
static bool to_panels(const struct kernel_spec * spec, const uint8_t * rows, uint8_t ** out) {
    struct kernel_panel panel = kernel_panel_of(spec);
    size_t bytes = (size_t) tensor_bytes(&spec->inputs[0]);
    *out = panel.rows ? malloc(bytes) : NULL;
    for (size_t done = 0, n; *out && done < bytes; done += n) {
        n = bytes - done;
        size_t at = kernel_panel_at(&panel, (size_t) spec->inputs[0].nb[1], done, &n);
        memcpy(*out + at, rows + done, n);
    }
    return *out || !panel.rows;
}

// The first operand as block floats, from rows of bf16.
static bool to_shared(const struct shape * s, const uint8_t * rows, uint8_t ** out) {
    float * row = malloc((size_t) s->k * sizeof *row);
    *out = malloc((size_t) (shared_row_bytes(s->k) * s->m));
    bool ok = row && *out;
    for (int64_t i = 0; ok && i < s->m; i++) {
        for (int64_t k = 0; k < s->k; k++) {
            row[k] = (float) element(s, 0, rows, i * s->k + k);
        }
        ok = shared_put_row(row, s->k, (int) (i % SHARED_EIGHT),
                            *out + i / SHARED_EIGHT * SHARED_EIGHT * shared_row_bytes(s->k));
    }
    free(row);
    return ok;
}

static bool run(struct emu_machine * const m[CLOCKS], const struct shape * s) {
    struct kernel_spec spec = spec_of(s);
    struct mm_plan plan;
    struct error err = {0};
    uint8_t *pdi = NULL, *data[3] = {0};
    uint32_t * insts = NULL;
    size_t pdi_size = 0, n_insts = 0;
    double t0 = seconds(CLOCK_PROCESS_CPUTIME_ID);
    bool ok = aie_compile_pdi(&spec, &pdi, &pdi_size, &err) == ST_OK;
    double t1 = seconds(CLOCK_PROCESS_CPUTIME_ID);
    ok = ok && aie_compile_insts(&spec, &insts, &n_insts, &err) == ST_OK &&
         mm_plan_make(&spec, &plan, &err) == ST_OK;
    double t2 = seconds(CLOCK_PROCESS_CPUTIME_ID);
    struct emu_operand operands[3];
    for (int i = 0; i < 3 && ok; i++) {
        size_t bytes = (size_t) tensor_bytes(i < 2 ? &spec.inputs[i] : &spec.output);
        // numbers that block floats are made of
        size_t room = i == 0 && stored ? (size_t) (2 * s->k * s->m) : bytes;
        data[i] = malloc(room);
        ok = data[i] != NULL;
        operands[i] = (struct emu_operand){(uint64_t) (uintptr_t) data[i], bytes};
        if (ok && i < 2) {
            fill(s, i, data[i], room, 7u + (uint32_t) i);
        }
    }
    uint8_t * paneled = NULL;
    ok = ok && (stored ? to_shared(s, data[0], &paneled) : to_panels(&spec, data[0], &paneled));
    if (paneled) {
        operands[0].addr = (uint64_t) (uintptr_t) paneled;
    }
    double t3 = 0, t4 = 0;
    struct emu_counters before = {0};
    for (int i = 0; i < CLOCKS && ok; i++) {
        memset(data[2], 0xff, operands[2].size);
        emu_machine_counters(m[i], &before);
        t3 = seconds(CLOCK_MONOTONIC);
        ok = emu_machine_run(m[i], pdi, pdi_size, insts, n_insts, operands, 3, &err) == ST_OK;
        t4 = seconds(CLOCK_MONOTONIC);
        if (ok && !is_right(s, data)) {
            ok = error_set(&err, ST_DEVICE, "the product is wrong") == ST_OK;
        }
    }
    if (ok) {
        struct emu_counters c[CLOCKS];
        double macs = (double) s->m * (double) s->n * (double) s->k;
        double words = (double) tensor_bytes(&spec.inputs[0]) / 4;
        double bound = macs / macs_per_cycle(s->t) / cores();
        printf("%-5s %5d %5d %5d  %s",
               quantized && shared ? "q4_0s"
               : quantized         ? kernel_block_name((enum kernel_blocks)(quantized - 1))
               : stored            ? "bfp16s"
               : shared            ? "bfp16"
                                   : dtype_name(s->t),
               (int) s->m, (int) s->n, (int) s->k, plan.is_vector ? "gemv" : "gemm");
        for (int i = 0; i < CLOCKS; i++) {
            emu_machine_counters(m[i], &c[i]);
            printf(" %8.0f %5.1f %%", (double) c[i].last_cycles,
                   100 * bound / (double) c[i].last_cycles);
        }
        double cycles = (double) c[DEVICE].last_cycles;
        double read = emu_machine_clock(m[DEVICE])->ddr_read * 1e-3; // bytes in a cycle
        printf("  %5.1f %% %5.1f %%  %5.2f ", 100 * words / stream_words() / cycles,
               read > 0 ? 100 * 4 * words / read / cycles : 0, // of a alone
               2 * macs / cycles * emu_machine_clock(m[DEVICE])->mhz * 1e-6);
        for (int i = EMU_CORE; i <= EMU_CONTROL; i++) {
            printf(" %5.1f",
                   100 * (double) c[FREE].last_account.cycles[i] / (double) c[FREE].last_cycles);
        }
        double moved = (double) (c[DEVICE].stream_words - before.stream_words);
        printf(" %5.2f %5.0f %5.2f %6.1f  %s\n", (t1 - t0) * 1e3, (t2 - t1) * 1e6,
               macs / (t4 - t3) * 1e-9, moved / (t4 - t3) * 1e-6, s->beside[arch]);
    } else {
        fprintf(stderr, "bench-mul-mat: %s\n", err.text);
    }
    free(pdi);
    free(insts);
    free(paneled);
    for (int i = 0; i < 3; i++) {
        free(data[i]);
    }
    fflush(stdout);
    return ok;
}

// Its order is written by hand: slots bound it, and no carried value is looked at.
static int product_loop(const struct asm_stats * s) {
    int i = 0;
    while (i + 1 < s->n_loops && (s->loop_recurrence_ii[i] || !s->loop_resource_ii[i])) {
        i++;
    }
    return i;
}

static bool inner_loops(void) {
    static const enum dtype types[] = {DTYPE_BF16, DTYPE_I8, DTYPE_I16};
    printf("inner loop: bundles that multiply (target 85 %% for bf16 and i8; "
           "scalable-analyses/xdna reports 86 %% of peak in one core)\n");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const struct mm_type * t = mm_type(arch, types[i]);
        struct asm_code code = {0};
        struct mm_bank_use use;
        struct error err = {0};
        if (mm_program(arch, t, &code, &use, &err) != ST_OK) {
            fprintf(stderr, "bench-mul-mat: %s\n", err.text);
            return false;
        }
        const struct asm_stats * stats = &code.stats;
        int loop = product_loop(stats), bundles = stats->loop_ii[loop], k = mm_slice_k(t);
        k = mm_block_k(t) < 8 && stats->n_loops > 1 ? k / t->slice_blocks : k;
        int macs = t->trip_x * t->trip_y * k / macs_per_cycle(types[i]);
        printf("%-5s %3d of %3d bundles  %5.1f %%   program %d bundles   accesses: tile %d, y %d, "
               "x %d, %d conflicts\n",
               dtype_name(types[i]), macs, bundles, 100.0 * macs / bundles, code.stats.bundles,
               use.accesses[MM_BANK_C], use.accesses[MM_BANK_Y], use.accesses[MM_BANK_X],
               use.conflicts);
        free(code.bytes);
    }
    return true;
}

int main(int argc, char ** argv) {
    struct shape one = {.beside = {"", ""}};
    bool is_one = argc == 6;
    for (int i = 0; is_one && i < KERNEL_BLOCKS; i++) {
        quantized = strcmp(argv[2], kernel_block_name((enum kernel_blocks) i)) ? quantized : i + 1;
    }
    stored = is_one && !strcmp(argv[2], "bfp16s");
    shared = stored || (is_one && !strcmp(argv[2], "bfp16"));
    if (is_one && !strcmp(argv[2], "q4_0s")) {
        quantized = KERNEL_Q4_0 + 1;
        shared = true;
    }
    if ((argc > 2 && !is_one) || (argc >= 2 && !kernel_arch_parse(argv[1], &arch)) ||
        (is_one && !dtype_parse(quantized || shared ? "bf16" : argv[2], &one.t))) {
        bool help = argc == 2 && !strcmp(argv[1], "--help");
        fprintf(help ? stdout : stderr, "usage: bench-mul-mat [aie2|aie2p [TYPE M N K]]\n");
        return help ? 0 : 2;
    }
    if (is_one) {
        one.m = atoi(argv[3]);
        one.n = atoi(argv[4]);
        one.k = atoi(argv[5]);
    }
    struct emu_config config = {.arch = arch,
                                .columns = aie_target(arch)->columns,
                                .resolve = resolve,
                                .trace_col = -1,
                                .trace_row = -1};
    struct emu_clock clocks[CLOCKS];
    struct emu_machine * m[CLOCKS] = {0};
    struct error err = {0};
    bool ok = emu_clock_parse("ideal", &clocks[IDEAL], &err) == ST_OK &&
              emu_clock_get(arch, &clocks[DEVICE], &err) == ST_OK;
    clocks[FREE] = clocks[DEVICE];
    clocks[FREE].ddr_read = clocks[FREE].ddr_write = clocks[FREE].ddr_both = 0;
    for (int i = 0; i < CLOCKS && ok; i++) {
        config.clock = &clocks[i];
        ok = emu_machine_new(&config, &m[i], &err) == ST_OK;
    }
    if (!ok) {
        fprintf(stderr, "bench-mul-mat: %s\n", err.text);
        return 1;
    }
    bool is_shared = shared;
    shared = false;
    ok = inner_loops();
    shared = is_shared;
    printf("\nAll cycles are modelled: on the clock 'ideal', on '%s' at %u MHz with host memory "
           "that has no bound,\nwith the share of each cause in %%, and on '%s' as it is\n"
           "type      m     n     k  way     ideal    macs no bound    macs   device    macs  "
           "streams  memory   TOPS ",
           clocks[DEVICE].name, clocks[DEVICE].mhz, clocks[DEVICE].name);
    for (int i = EMU_CORE; i <= EMU_CONTROL; i++) {
        printf(" %5.5s", emu_cause_names[i]);
    }
    printf(" PDI ms  us  GMAC/s Mwords/s\n");
    for (size_t i = 0; i < (is_one ? 1 : sizeof shapes / sizeof shapes[0]); i++) {
        ok &= run(m, is_one ? &one : &shapes[i]);
    }
    if (!is_one && mm_shared_type(arch, false)) {
        shared = true;
        ok &= run(m, &block_floats);
    }
    printf(
        "macs: of what %d cores can do; streams: words of the first operand, of %d a cycle, on the "
        "device; memory:\nof what host memory gives there. PDI (target 20 ms) and stream (us, "
        "target 1000) by processor time; GMAC/s "
        "and Mwords/s of the shim: the emulator's,\nby the wall (targets 1.5 for bf16, 60 for "
        "gemv of 8192 x 8192).\n",
        cores(), stream_words());
    for (int i = 0; i < CLOCKS; i++) {
        emu_machine_free(m[i]);
    }
    return ok ? 0 : 1;
}

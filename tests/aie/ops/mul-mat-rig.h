// mul-mat-rig: operands of a product, what the multiplier gets of each number, and the comparison
// of a result with sums in double precision (or modulo 2^32).
#pragma once

#include "block-values.h"
#include "kernel-rig.h"

#include "aie/ops/mul-mat/mul-mat.h"
#include "kernel/shared.h"

#include <math.h>

static uint64_t seed = 1;

static uint32_t next(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (seed >> 33);
}

struct shape {
    int64_t m, n, k;
    int64_t a2, a3, b2, b3;    // batches
    int64_t a_gap, b_gap, gap; // bytes between rows, multiples of 4
};

static struct tensor strided(enum dtype t, int64_t e0, int64_t e1, int64_t e2, int64_t e3,
                             int64_t gap) {
    struct tensor r = tensor_contiguous(t, (int64_t[]){e0, e1, e2, e3});
    r.nb[1] = (r.nb[1] + gap + 3) / 4 * 4;
    r.nb[2] = r.nb[1] * e1;
    r.nb[3] = r.nb[2] * e2;
    return r;
}

static bool is_integer(enum dtype t) {
    return t == DTYPE_I8 || t == DTYPE_I16;
}

static struct kernel_spec spec_with(enum dtype a, enum dtype b, const struct shape * s) {
    return (struct kernel_spec){
        .op = KERNEL_OP_MUL_MAT,
        .arch = rig_arch,
        .columns = rig_columns,
        .n_inputs = 2,
        .inputs = {strided(a, s->k, s->m, s->a2, s->a3, s->a_gap),
                   strided(b, s->k, s->n, s->b2, s->b3, s->b_gap)},
        .output = strided(is_integer(a) ? DTYPE_I32 : DTYPE_F32, s->m, s->n, s->b2, s->b3, s->gap),
    };
}

static struct kernel_spec spec_of(enum dtype t, const struct shape * s) {
    return spec_with(t, t, s);
}

// Quantized blocks: k is a multiple of two of them.
static inline struct kernel_spec spec_of_blocks(enum kernel_blocks kind, enum dtype b,
                                                const struct shape * s) {
    struct kernel_spec spec = spec_with(DTYPE_F32, b, s);
    int64_t words = s->k / kernel_block_k(kind) * kernel_block_bytes(kind) / 4;
    spec.op = KERNEL_OP_MUL_MAT_BLOCKS;
    spec.params[0] = kind;
    spec.inputs[0] = strided(DTYPE_I32, words, s->m, s->a2, s->a3, s->a_gap);
    return spec;
}

static float bf16_value(uint16_t v) {
    uint32_t bits = (uint32_t) v << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

// What the multiplier gets of a number: as bf16, rounded to nearest even.
static double float_value(enum dtype t, const uint8_t * row, int64_t i) {
    uint32_t v = 0;
    memcpy(&v, row + i * dtype_size(t), (size_t) dtype_size(t));
    if (t == DTYPE_BF16) {
        return (double) bf16_value((uint16_t) v);
    }
    if (t == DTYPE_F16) { // a normal number
        v = (v & 0x8000) << 16 | (((v & 0x7fff) << 13) + (112u << 23));
    }
    return (double) bf16_value((uint16_t) ((v + 0x7fff + (v >> 16 & 1)) >> 16));
}

enum {
    BLOCK_K = 32, // of the short ones
    FEW = 16,     // rows of b, of which blocks are multiplied as they are unpacked
};

// The same of a quantized number; where the sum of a block is made before it is multiplied with its
// factors, these are rounded and no more.
static double rounded_value(enum kernel_blocks kind, const uint8_t * row, int64_t i, bool few) {
    if (!few || !mm_fuses(mm_type(rig_arch, DTYPE_BF16), kind)) {
        return block_value(kind, row, i, true);
    }
    int k = kernel_block_k(kind);
    struct block_number n =
        block_number(kind, row + i / k * kernel_block_bytes(kind), (int) (i % k));
    return block_factored(kind, &n);
}

// What a minimum adds to that.
static double minimum_of(enum kernel_blocks kind, const uint8_t * row, int64_t i) {
    int k = kernel_block_k(kind);
    struct block_number n =
        block_number(kind, row + i / k * kernel_block_bytes(kind), (int) (i % k));
    return kind == KERNEL_Q6_K ? 0 : block_bf16((double) block_bf16(n.dmin) * n.b);
}

static bool has_blocks(const struct kernel_spec * spec) {
    return spec->op == KERNEL_OP_MUL_MAT_BLOCKS;
}

// Whether they are multiplied by gemv's program: not by that of many rows in bf16.
static bool is_few(const struct kernel_spec * spec) {
    return spec->output.ne[1] <= FEW || spec->inputs[1].dtype == DTYPE_F32 ||
           !mm_takes_many(mm_type(rig_arch, DTYPE_BF16), kernel_blocks_of(spec),
                          kernel_panel_of(spec).pair != 0);
}

// What a number is among the eight that share the exponent of the largest: a multiple of 2^-6 of
// that, to the nearest, and where a largest one would take more than seven bits, of 2^-5.
static double shared_of(const double eight[8], int64_t i) {
    double most = 0;
    for (int64_t j = 0; j < 8; j++) {
        most = fmax(most, fabs(eight[j]));
    }
    if (most == 0) {
        return 0;
    }
    double step = exp2(floor(log2(most)) - 6);
    step *= nearbyint(most / step) > 127 ? 2 : 1;
    return nearbyint(eight[i % 8] / step) * step;
}

static double shared_value(const uint8_t * row, int64_t i) {
    double eight[8];
    for (int64_t j = 0; j < 8; j++) {
        eight[j] = float_value(DTYPE_BF16, row, i / 8 * 8 + j);
    }
    return shared_of(eight, i);
}

// Of quantized ones, which come there in f32.
static double made_value(enum kernel_blocks kind, const uint8_t * row, int64_t i) {
    const int64_t k = kernel_block_k(kind), first = i / 8 * 8;
    double eight[8];
    for (int64_t j = 0; j < 8; j++) {
        struct block_number n =
            block_number(kind, row + first / k * kernel_block_bytes(kind), (int) (first % k + j));
        eight[j] = block_factored(kind, &n);
    }
    return shared_of(eight, i);
}

static bool is_shared(const struct kernel_spec * spec) {
    return spec->op == KERNEL_OP_MUL_MAT_SHARED || kernel_blocks_are_shared(spec);
}

static bool is_stored(const struct kernel_spec * spec) {
    return is_shared(spec) && spec->inputs[0].dtype == DTYPE_I8;
}

static double b_value(const struct kernel_spec * spec, const uint8_t * row, int64_t i) {
    return is_shared(spec) ? shared_value(row, i) : float_value(spec->inputs[1].dtype, row, i);
}

static double a_value(const struct kernel_spec * spec, const uint8_t * row, int64_t i) {
    return kernel_blocks_are_shared(spec) ? made_value(kernel_blocks_of(spec), row, i)
           : is_shared(spec)              ? shared_value(row, i)
           : has_blocks(spec) ? rounded_value(kernel_blocks_of(spec), row, i, is_few(spec))
                              : float_value(spec->inputs[0].dtype, row, i);
}

static int64_t int_value(enum dtype t, const uint8_t * at) {
    int16_t v;
    memcpy(&v, at, 2);
    return t == DTYPE_I8 ? (int8_t) *at : v;
}

// Between 2^-3 and 2, both signs; integers are any.
static void fill(struct rig * r, const struct kernel_spec * spec) {
    for (int i = 0; i < 2; i++) {
        enum dtype t = spec->inputs[i].dtype;
        size_t step = t == DTYPE_F32 ? 4 : 2;
        for (size_t b = 0; b + step <= r->size[i] - RIG_GUARD; b += step) {
            uint32_t v = next() ^ next() << 16, exponent = next() & 3;
            if (t == DTYPE_BF16) {
                v = (v & 0x807f) | (124 + exponent) << 7;
            } else if (t == DTYPE_F16) {
                v = (v & 0x83ff) | (12 + exponent) << 10;
            } else if (t == DTYPE_F32) {
                v = (v & 0x807fffff) | (124 + exponent) << 23;
            }
            memcpy(r->data[i] + b, &v, step);
        }
    }
    const struct tensor * a = &spec->inputs[0];
    for (size_t b = 0; is_stored(spec) && b < r->size[0] - RIG_GUARD; b++) {
        bool mantissa = b % SHARED_BLOCK_BYTES < SHARED_EIGHT * SHARED_EIGHT;
        r->data[0][b] = (uint8_t) (mantissa ? next() % 255 - 127 : 124 + next() % 4);
    }
    for (int64_t row = 0; has_blocks(spec) && row < a->ne[1] * a->ne[2] * a->ne[3]; row++) {
        size_t block = (size_t) kernel_block_bytes(kernel_blocks_of(spec));
        for (size_t b = 0; b < (size_t) a->ne[0] * 4; b += block) {
            uint8_t * at = r->data[0] + (size_t) row * (size_t) a->nb[1] + b;
            at[0] = kernel_blocks_of(spec) == KERNEL_MXFP4 ? (uint8_t) (121 + next() % 12) : at[0];
            for (int i = 0; i < (int) block; i += 2) {
                uint16_t d = (uint16_t) ((next() & 0x83ff) | (8 + (next() & 7)) << 10);
                if (block_is_scale(kernel_blocks_of(spec), i)) {
                    memcpy(at + i, &d, 2);
                }
            }
        }
    }
}

static const uint8_t * row_of(const struct rig * r, const struct kernel_spec * spec, int i,
                              int64_t row, int64_t i2, int64_t i3) {
    const struct tensor * t = rig_tensor(spec, i);
    i2 /= spec->output.ne[2] / t->ne[2];
    i3 /= spec->output.ne[3] / t->ne[3];
    return r->data[i] + row * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3];
}

// The float rows of an operand, as the multiplier gets them; NULL: they are integers.
static double * float_rows(const struct rig * r, const struct kernel_spec * spec, int operand,
                           int64_t i2, int64_t i3) {
    int64_t k = spec->inputs[1].ne[0], rows = spec->inputs[operand].ne[1];
    double * out = is_integer(spec->inputs[0].dtype) && !is_stored(spec)
                       ? NULL
                       : malloc((size_t) (rows * k) * sizeof *out);
    for (int64_t i = 0; out && i < rows * k; i++) {
        const uint8_t * row = row_of(r, spec, operand, i / k, i2, i3);
        if (operand == 0 && is_stored(spec)) {
            int of_eight = (int) (i / k % SHARED_EIGHT);
            row -= of_eight * spec->inputs[0].nb[1];
            out[i] = (double) shared_get(row, of_eight, i % k);
            continue;
        }
        out[i] = (operand ? b_value : a_value)(spec, row, i % k);
    }
    return out;
}

static void check(const struct rig * r, const struct kernel_spec * spec) {
    enum dtype t = is_stored(spec) ? DTYPE_BF16 : spec->inputs[0].dtype;
    const struct tensor * out = &spec->output;
    int64_t k = spec->inputs[1].ne[0];
    enum kernel_blocks kind = has_blocks(spec) ? kernel_blocks_of(spec) : KERNEL_BLOCKS;
    bool fused = has_blocks(spec) && is_few(spec) && mm_fuses(mm_type(rig_arch, DTYPE_BF16), kind);
    int sum_k = kind == KERNEL_Q4_0 ? BLOCK_K : BLOCK_K / 2;
    for (int64_t i3 = 0; i3 < out->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < out->ne[2]; i2++) {
            double *as = float_rows(r, spec, 0, i2, i3), *bs = float_rows(r, spec, 1, i2, i3);
            double * minima = fused ? malloc((size_t) (out->ne[0] * k) * sizeof *minima) : NULL;
            for (int64_t i = 0; minima && i < out->ne[0] * k; i++) {
                minima[i] = minimum_of(kind, row_of(r, spec, 0, i / k, i2, i3), i % k);
            }
            for (int64_t n = 0; n < out->ne[1]; n++) {
                const uint8_t *b = row_of(r, spec, 1, n, i2, i3),
                              *c = row_of(r, spec, 2, n, i2, i3);
                for (int64_t m = 0; m < out->ne[0]; m++) {
                    const uint8_t * a = row_of(r, spec, 0, m, i2, i3);
                    double sum = 0, size = 0, block = 0, least = 0, most = 0;
                    uint32_t isum = 0;
                    for (int64_t i = 0; i < k; i++) {
                        if (!is_integer(t)) {
                            double p = as[m * k + i] * bs[n * k + i];
                            sum += p;
                            size += fabs(p);
                            if (!fused) {
                                continue;
                            }
                            // Of numbers that are multiplied before they are scaled, what is too
                            // much of 128 + q, or 2048 + 16 q, times b is taken away, and what is
                            // left is rounded to bf16; so are the sums of b for the minima.
                            double low = minima[m * k + i] * bs[n * k + i];
                            size += fabs(low);
                            block = i % sum_k ? block + p + low : p + low;
                            least = i % BLOCK_K ? least + low : low;
                            most += i % sum_k == sum_k - 1 ? fabs(block) * 0x1p-8 : 0;
                            most += i % BLOCK_K == BLOCK_K - 1 ? fabs(least) * 0x1p-8 : 0;
                        } else {
                            int w = dtype_size(t);
                            isum += (uint32_t) (int_value(t, a + i * w) * int_value(t, b + i * w));
                        }
                    }
                    if (!is_integer(t)) {
                        float got;
                        memcpy(&got, c + 4 * m, 4);
                        // each addition rounds its terms at the last place of the largest
                        most += size * (fused ? 0x1p-14 : has_blocks(spec) ? 0x1p-19 : 0x1p-21);
                        if (!(fabs((double) got - sum) <= most)) {
                            print_message("dst[%d][%d] is %g, not %g\n", (int) n, (int) m,
                                          (double) got, sum);
                            fail();
                        }
                    } else {
                        uint32_t got;
                        memcpy(&got, c + 4 * m, 4);
                        if (got != isum) {
                            print_message("dst[%d][%d] is %d, not %d\n", (int) n, (int) m,
                                          (int) got, (int) isum);
                            fail();
                        }
                    }
                }
                // between the rows nothing is written
                for (int64_t g = 4 * out->ne[0]; n + 1 < out->ne[1] && g < out->nb[1]; g++) {
                    assert_int_equal(c[g], 0xa5);
                }
            }
            free(as);
            free(bs);
            free(minima);
        }
    }
}

static uint64_t run_spec(struct rig * r, struct kernel_spec spec, const struct shape * s) {
    struct kernel_code code;
    struct error err = {0};
    enum status st = rig_compile(&spec, &code, &err);
    if (st != ST_OK) {
        print_message("%dx%dx%d: %s\n", (int) s->m, (int) s->n, (int) s->k, err.text);
    }
    assert_int_equal(st, ST_OK);
    rig_allocate(r, &spec);
    uint64_t cycles = 0;
    for (int i = 0; i < (RIG_EVERY > 1 ? 1 : 2); i++) {
        fill(r, &spec);
        rig_run(r, &spec, &code);
        struct emu_counters counters;
        emu_machine_counters(r->machine, &counters);
        cycles = counters.last_cycles;
        check(r, &spec);
    }
    rig_free(r);
    kernel_code_free(&code);
    return cycles;
}

static inline uint64_t run(struct rig * r, enum dtype t, const struct shape * s) {
    return run_spec(r, spec_of(t, s), s);
}

// One in so many: an array of eight columns takes its time, and what is a matter of shapes alone is
// seen on the other one. Sanitizers look for what one shape of a program shows.
static inline int rig_one_of(void) {
    return RIG_EVERY > 1 ? 7 : rig_arch == AIE_ARCH_AIE2 || rig_whole ? 1 : 3;
}

static inline void refused_for(const struct kernel_spec * spec, enum status want,
                               const char * word) {
    struct error err = {0};
    assert_int_equal(aie_supports(spec, &err), want);
    if (!strstr(err.text, word)) {
        print_message("\"%s\" has no \"%s\"\n", err.text, word);
        fail();
    }
}

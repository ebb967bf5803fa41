// matrix: MFMA and WMMA, D = A x B + C. Matrices are gathered from the registers into rows,
// multiplied there, and scattered; what each instruction is stands in matrix.def.
//
// Where elements lie (AMD's ISA documents for CDNA3 and RDNA3):
// - A[i][k] of block b is in lane i + M * (b + blocks * (k / L)), element k % L, where L = K * M *
//   blocks / 64 elements lie one behind the other in the registers of a lane; B[k][j] likewise.
//   WMMA has all K of them in a lane (L = K) and every row once in each 16 lanes.
// - D[i][j] of block b, and C: H rows stand one behind the other in the registers of a lane (4 of
//   them; 1 for doubles and for WMMA). `across` the lanes one finds in turn `blocks_across` blocks
//   and then `runs_across` runs of H rows; the others follow in the registers, runs first.
//
// How it is computed: EXEC and MODE are not looked at. Floats, doubles and xf32 (floats without
// their low 13 bits) are fused multiply-adds in the order of k, each rounded to nearest even. On
// gfx90a halves and bf16 are summed in pairs (products of four elements, of two where A has two),
// each sum rounded, and then added to C; denormal operands are zeros and denormal results zeros of
// their sign: that is how MI200 was found to do it. gfx942 and gfx11 take them in the order of k,
// with fused steps in single precision and all denormals; of their hardware no order is documented.
// A result of 16 bits is rounded once, at the end.
#include "emu/gfx/lanes.h"

enum element { E_F16, E_BF16, E_F32, E_XF32, E_F64, E_I4, E_I8, E_I32 };

static const uint8_t element_bits[] = {[E_F16] = 16, [E_BF16] = 16, [E_F32] = 32, [E_XF32] = 32,
                                       [E_F64] = 64, [E_I4] = 4,    [E_I8] = 8,   [E_I32] = 32};

static const struct form {
    uint8_t ab, d; // enum element
    uint8_t m, n, k, blocks;
    bool wmma;
} forms[] = {
#define MFMA(name, gfx90a, gfx942, ab, d, m, n, k, blocks) {E_##ab, E_##d, m, n, k, blocks, false},
#define WMMA(name, gfx11, ab, d, m, n, k, blocks)          {E_##ab, E_##d, m, n, k, blocks, true},
#include "emu/gfx/matrix.def"
};

static const struct form * form_of(unsigned op) {
    return &forms[op - GFX_MATRIX_FIRST];
}

enum { MAX_AB = 512, MAX_CD = 2048, GROUP = 16 }; // elements; lanes that BLGP and WMMA know

// Elements of A or B in a lane.
static int in_lane(const struct form * f) {
    return f->wmma ? f->k : f->k * f->m * f->blocks / LANES;
}

int gfx_matrix_words_ab(enum gfx_op op) {
    const struct form * f = form_of(op);
    return in_lane(f) * element_bits[f->ab] / 32;
}

int gfx_matrix_words_cd(enum gfx_op op, int lanes) {
    const struct form * f = form_of(op);
    return f->m * f->n * f->blocks / lanes * (f->d == E_F64 ? 2 : 1);
}

// ---- registers to rows and back ----

// The group of 16 lanes of B that each group reads, by BLGP.
static const uint8_t lane_groups[8][4] = {
    {0, 1, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}, {1, 2, 3, 0},
    {0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3},
};

// A as rows [block][k][i], or B as [block][k][j]: `width` is M or N, and word chooses the half of
// an element of 64 bits. Narrower ones come as they are, in the low bits.
static void gather_ab(const struct gfx_wave * w, const struct form * f, unsigned reg, int width,
                      int word, unsigned blgp, uint32_t * out) {
    int count = in_lane(f), bits_each = element_bits[f->ab];
    uint32_t mask = bits_each < 32 ? (UINT32_C(1) << bits_each) - 1 : ~UINT32_C(0);
    for (int e = 0; e < count; e++) {
        const uint32_t * row = w->v[reg + (unsigned) (e * bits_each / 32 + word)];
        unsigned shift = (unsigned) (e * bits_each % 32);
        int lane = 0;
        for (int run = 0; run < f->k / count; run++) {
            for (int b = 0; b < f->blocks; b++) {
                uint32_t * to = out + (b * f->k + run * count + e) * width;
                for (int i = 0; i < width; i++, lane++) {
                    int from = lane_groups[blgp][lane / GROUP] * GROUP + lane % GROUP;
                    to[i] = row[from] >> shift & mask;
                }
            }
        }
    }
}

// How the rows of D lie in registers; each() is called for N elements in a row: those of `rows`
// from `at` on, and the lanes of register `item` from `lane` on.
struct spread {
    int height, blocks_across, runs_across, runs, words;
};

static struct spread spread_of(const struct form * f, int lanes) {
    struct spread s = {.height = f->wmma || f->d == E_F64 ? 1 : 4, .words = f->d == E_F64 ? 2 : 1};
    int lanes_of_block = f->n * f->m / s.height;
    s.blocks_across = lanes_of_block < lanes ? lanes / lanes_of_block : 1;
    s.runs_across = lanes / s.blocks_across / f->n;
    s.runs = f->m / (s.height * s.runs_across);
    return s;
}

static void move_cd(struct gfx_wave * w, const struct form * f, unsigned reg, int word,
                    uint32_t * rows, bool store) {
    struct spread s = spread_of(f, w->lanes);
    for (int item = 0; item < s.height * s.runs * (f->blocks / s.blocks_across); item++) {
        int in_run = item % s.height, run = item / s.height % s.runs;
        int block = item / s.height / s.runs * s.blocks_across;
        uint32_t * lanes = w->v[reg + (unsigned) (item * s.words + word)];
        for (int r = 0; r < s.runs_across; r++) {
            for (int b = 0; b < s.blocks_across; b++, lanes += f->n) {
                int i = in_run + s.height * (r + s.runs_across * run);
                uint32_t * row = rows + ((block + b) * f->m + i) * f->n;
                memcpy(store ? lanes : row, store ? row : lanes, (size_t) f->n * 4);
            }
        }
    }
}

static void gather_c(struct gfx_wave * w, const struct form * f, const struct gfx_operand * c,
                     int word, uint32_t * rows) {
    if (c->kind == GFX_K_VGPR) {
        move_cd(w, f, c->reg, word, rows, false);
        return;
    }
    uint32_t v = (uint32_t) (c->value >> 32 * word);
    bool is_integer = v <= 64 || v >= (uint32_t) -16;
    v = f->d == E_BF16 && !is_integer ? v >> 16 : v;
    for (int i = 0; i < f->m * f->n * f->blocks; i++) {
        rows[i] = v;
    }
}

// ---- elements ----

static void widen(uint32_t * v, int n, enum element e, bool is_signed) {
    switch (e) {
    case E_F16:
        for (int i = 0; i < n; i++) {
            v[i] = u32(f16(v[i]));
        }
        break;
    case E_BF16:
        for (int i = 0; i < n; i++) {
            v[i] <<= 16;
        }
        break;
    case E_XF32:
        for (int i = 0; i < n; i++) {
            bool nan = (v[i] & 0x7fffffff) > 0x7f800000; // stays one when its low bits go
            v[i] = (v[i] & 0xffffe000) | (nan ? 0x400000 : 0);
        }
        break;
    case E_I4:
    case E_I8: {
        uint32_t top = e == E_I4 ? 8 : 128;
        for (int i = 0; i < n && is_signed; i++) {
            v[i] = (v[i] ^ top) - top;
        }
        break;
    }
    default:
        break;
    }
}

// gfx90a: denormal operands are zeros.
static void flush_halves(uint32_t * v, int n, enum element e) {
    uint32_t exponent = e == E_F16 ? 0x7c00 : 0x7f80;
    for (int i = 0; i < n; i++) {
        v[i] = v[i] & exponent ? v[i] : 0;
    }
}

static uint32_t bf16_of(float f) {
    uint32_t u = u32(f);
    return f != f ? (u >> 16 | 0x40) : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

// ---- products: d[i][j] += a[k][i] * b[k][j] for one block ----

GFX_CLONES static void product_f32(const struct form * f, const uint32_t * a, const uint32_t * b,
                                   uint32_t * d) {
    int m = f->m, n = f->n;
    for (int k = 0; k < f->k; k++) {
        for (int i = 0; i < m; i++) {
            float x = f32(a[k * m + i]);
            const uint32_t * y = b + k * n;
            uint32_t * sum = d + i * n;
            for (int j = 0; j < n; j++) {
                sum[j] = u32(fmaf(x, f32(y[j]), f32(sum[j])));
            }
        }
    }
}

static GFX_INLINE float result_flushed(float f) {
    uint32_t u = u32(f);
    return f32(u & 0x7f800000 ? u : u & 0x80000000);
}

// gfx90a: a + 0 makes -0 the 0 that its first addition makes of it.
static GFX_INLINE float term(uint32_t a, uint32_t b) {
    return result_flushed(f32(a) * f32(b) + 0.0f);
}

GFX_CLONES static void product_pairs(const struct form * f, const uint32_t * a, const uint32_t * b,
                                     uint32_t * d) {
    int m = f->m, n = f->n, group = in_lane(f) < 4 ? 2 : 4;
    for (int i = 0; i < m * n; i++) {
        d[i] = d[i] & 0x7f800000 ? d[i] : 0;
    }
    for (int k = 0; k < f->k; k += group) {
        for (int i = 0; i < m; i++) {
            const uint32_t *x = a + k * m + i, *y = b + k * n;
            uint32_t * sum = d + i * n;
            for (int j = 0; j < n; j++) {
                float s = result_flushed(term(x[0], y[j]) + term(x[m], y[n + j]));
                if (group == 4) {
                    s = result_flushed(s + result_flushed(term(x[2 * m], y[2 * n + j]) +
                                                          term(x[3 * m], y[3 * n + j])));
                }
                sum[j] = u32(result_flushed(f32(sum[j]) + s));
            }
        }
    }
}

static void product_i32(const struct form * f, const uint32_t * a, const uint32_t * b, uint32_t * d,
                        bool clamp) {
    for (int i = 0; i < f->m; i++) {
        for (int j = 0; j < f->n; j++) {
            int64_t dot = 0, sum;
            for (int k = 0; k < f->k; k++) {
                dot += (int64_t) (int32_t) a[k * f->m + i] * (int32_t) b[k * f->n + j];
            }
            sum = dot + (int32_t) d[i * f->n + j];
            if (clamp) {
                sum = sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum;
            }
            d[i * f->n + j] = (uint32_t) sum;
        }
    }
}

// ---- doubles: each word by itself through the registers ----

struct doubles {
    uint32_t a[2][MAX_AB], b[2][MAX_AB], d[2][MAX_CD];
};

static void product_f64(const struct form * f, struct doubles * x, int block, uint64_t signs) {
    int a = block * f->k * f->m, b = block * f->k * f->n, d = block * f->m * f->n;
    uint64_t sign_a = (signs & 1) << 63, sign_b = (signs >> 1 & 1) << 63,
             sign_c = (signs >> 2 & 1) << 63;
    for (int i = 0; i < f->m; i++) {
        for (int j = 0; j < f->n; j++) {
            int at = d + i * f->n + j;
            double sum = f64(join(x->d[0][at], x->d[1][at]) ^ sign_c);
            for (int k = 0; k < f->k; k++) {
                int ka = a + k * f->m + i, kb = b + k * f->n + j;
                sum = fma(f64(join(x->a[0][ka], x->a[1][ka]) ^ sign_a),
                          f64(join(x->b[0][kb], x->b[1][kb]) ^ sign_b), sum);
            }
            x->d[0][at] = (uint32_t) u64(sum);
            x->d[1][at] = (uint32_t) (u64(sum) >> 32);
        }
    }
}

static void step_f64(struct gfx_wave * w, const struct gfx_inst * in) {
    const struct form * f = form_of(in->op);
    struct doubles x;
    for (int word = 0; word < 2; word++) {
        gather_ab(w, f, in->src[0].reg, f->m, word, 0, x.a[word]);
        gather_ab(w, f, in->src[1].reg, f->n, word, 0, x.b[word]);
        gather_c(w, f, &in->src[2], word, x.d[word]);
    }
    // gfx942 has signs in the place of BLGP, gfx90a nothing
    uint64_t signs = w->worker->gpu->config.arch == GFX_942 ? (uint64_t) in->imm2 : 0;
    for (int b = 0; b < f->blocks; b++) {
        product_f64(f, &x, b, signs);
    }
    for (int word = 0; word < 2; word++) {
        move_cd(w, f, in->dst.reg, word, x.d[word], true);
    }
}

// ---- WMMA's ways ----

// A and B stand in every 16 lanes once more; on a strict GPU a kernel that forgot that is told so.
static bool repeated(struct gfx_wave * w, const struct gfx_operand * o, int words) {
    for (int k = 0; k < words; k++) {
        const uint32_t * row = w->v[o->reg + k];
        for (int i = GROUP; i < w->lanes; i++) {
            if (row[i] != row[i % GROUP]) {
                gfx_fault(w, "v%d of lane %d is not what lane %d has: WMMA wants rows repeated",
                          o->reg + k, i, i % GROUP);
                return false;
            }
        }
    }
    return true;
}

// Signs of halves: neg for those in low halves, which are the even elements, neg_hi for the others.
static void negate_halves(const struct gfx_inst * in, int source, int width, uint32_t * v, int n) {
    uint32_t even = in->src[source].neg ? 0x8000 : 0;
    uint32_t odd = in->neg_hi >> source & 1 ? 0x8000 : 0;
    for (int i = 0; i < n; i++) {
        v[i] ^= i / width & 1 ? odd : even;
    }
}

static void c_of_wmma(const struct form * f, const struct gfx_inst * in, uint32_t * d, int n) {
    bool narrow = f->d != E_F32, upper = in->op_sel & 4 && in->src[2].kind == GFX_K_VGPR;
    for (int i = 0; i < n && narrow; i++) {
        d[i] = (upper ? d[i] >> 16 : d[i]) & 0xffff;
    }
    widen(d, n, (enum element) f->d, true);
    for (int i = 0; i < n; i++) {
        d[i] = in->neg_hi & 4 ? d[i] & 0x7fffffff : d[i];
        d[i] ^= in->src[2].neg ? 0x80000000 : 0;
    }
}

// Results of 16 bits leave the other halves of D as they are.
static void narrow_d(struct gfx_wave * w, const struct form * f, const struct gfx_inst * in,
                     uint32_t * d, int n) {
    uint32_t old[GROUP * GROUP];
    unsigned shift = in->op_sel & 4 ? 16 : 0;
    move_cd(w, f, in->dst.reg, 0, old, false);
    for (int i = 0; i < n; i++) {
        uint32_t v = f->d == E_F16 ? u16(f32(d[i])) : bf16_of(f32(d[i]));
        d[i] = (old[i] & ~(UINT32_C(0xffff) << shift)) | v << shift;
    }
}

// ---- the step ----

static bool registers_there(struct gfx_wave * w, const struct gfx_inst * in) {
    int words = gfx_matrix_words_cd((enum gfx_op) in->op, w->lanes);
    unsigned c = in->src[2].kind == GFX_K_VGPR ? in->src[2].reg & (GFX_VGPR_ACC - 1) : 0;
    unsigned d = in->dst.reg & (GFX_VGPR_ACC - 1);
    if ((c > d ? c : d) + (unsigned) words > GFX_VGPR_ACC) {
        gfx_fault(w, "%d vector registers from %u on are not there", words, c > d ? c : d);
        return false;
    }
    return true;
}

static bool prepare_wmma(struct gfx_wave * w, const struct gfx_inst * in) {
    int words = gfx_matrix_words_ab((enum gfx_op) in->op);
    return !w->worker->gpu->config.strict ||
           (repeated(w, &in->src[0], words) && repeated(w, &in->src[1], words));
}

void gfx_step_matrix(struct gfx_wave * w, const struct gfx_inst * in) {
    const struct form * f = form_of(in->op);
    if (!registers_there(w, in) || (f->wmma && !prepare_wmma(w, in))) {
        return;
    }
    if (f->d == E_F64) {
        step_f64(w, in);
        return;
    }
    uint32_t a[MAX_AB], b[MAX_AB], d[MAX_CD];
    int n_a = f->blocks * f->k * f->m, n_b = f->blocks * f->k * f->n;
    int n_d = f->blocks * f->m * f->n;
    bool is_integer = f->d == E_I32;
    bool pairs = w->worker->gpu->config.arch == GFX_90A && element_bits[f->ab] == 16;
    gather_ab(w, f, in->src[0].reg, f->m, 0, 0, a);
    gather_ab(w, f, in->src[1].reg, f->n, 0, (unsigned) in->imm2, b);
    gather_c(w, f, &in->src[2], 0, d);
    if (f->wmma && !is_integer) {
        negate_halves(in, 0, f->m, a, n_a);
        negate_halves(in, 1, f->n, b, n_b);
        c_of_wmma(f, in, d, n_d);
    }
    if (pairs) {
        flush_halves(a, n_a, (enum element) f->ab);
        flush_halves(b, n_b, (enum element) f->ab);
    }
    // the integers of MFMA have signs; those of WMMA where neg says so
    widen(a, n_a, (enum element) f->ab, !f->wmma || in->src[0].neg);
    widen(b, n_b, (enum element) f->ab, !f->wmma || in->src[1].neg);
    int shared = 1 << (in->imm & 7), abid = in->imm >> 4; // CBSZ: so many blocks have one A
    for (int block = 0; block < f->blocks; block++) {
        int of_a = ((block & ~(shared - 1)) + (shared > 1 ? abid : block % shared)) % f->blocks;
        const uint32_t *x = a + of_a * f->k * f->m, *y = b + block * f->k * f->n;
        uint32_t * sum = d + block * f->m * f->n;
        if (is_integer) {
            product_i32(f, x, y, sum, in->flags & GFX_F_CLAMP);
        } else {
            (pairs ? product_pairs : product_f32)(f, x, y, sum);
        }
    }
    if (f->d == E_F16 || f->d == E_BF16) {
        narrow_d(w, f, in, d, n_d);
    }
    move_cd(w, f, in->dst.reg, 0, d, true);
}

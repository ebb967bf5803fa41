// mul-mat-likely: about how long a product takes (aie_likely), for choosing between ways to make
// one: neither too many cycles nor too few. The cores' slices or host memory, whichever takes
// longer, and what every run has at its edges. Figures are those of bench-mul-mat and `ggml-hsa
// bench` of 2048 x 2048; tests/aie/ops/test-likely.c holds them against the emulated device.
#include "mul-mat-plan.h"

#include "aie/ops/ops.h"
#include "aie/target/times.h"

// Gemv: cycles of a slice of 64 k and 64 rows, and more for each four rows of b.
struct slice {
    int once, four;
};

static const struct slice plain[AIE_ARCH_COUNT] = {
    [AIE_ARCH_AIE2] = {250, 140},
    [AIE_ARCH_AIE2P] = {1700, 420},
};

static const struct slice blocks[AIE_ARCH_COUNT][KERNEL_BLOCKS] =
    {
        [AIE_ARCH_AIE2] =
            {
                [KERNEL_Q4_0] = {320, 480},
                [KERNEL_Q8_0] = {1400, 860},
                [KERNEL_Q4_K] = {810, 1000},
                [KERNEL_Q5_K] = {1350, 1000},
                [KERNEL_Q6_K] = {1730, 870},
                [KERNEL_IQ4_NL] = {4520, 860},
                [KERNEL_MXFP4] = {1200, 870},
                [KERNEL_Q4_1] = {2770, 75},
                [KERNEL_Q5_0] = {3260, 75},
                [KERNEL_Q5_1] = {3420, 75},
                [KERNEL_Q2_K] = {2740, 85},
                [KERNEL_Q3_K] = {3070, 75},
            },
        [AIE_ARCH_AIE2P] =
            {
                [KERNEL_Q4_0] = {950, 435},
                [KERNEL_Q8_0] = {1980, 350},
                [KERNEL_Q4_K] = {970, 510},
                [KERNEL_Q5_K] = {1970, 370},
                [KERNEL_Q6_K] = {2140, 640},
                [KERNEL_IQ4_NL] = {6840, 370},
                [KERNEL_MXFP4] = {1700, 370},
                [KERNEL_Q4_1] = {1740, 370},
                [KERNEL_Q5_0] = {2270, 370},
                [KERNEL_Q5_1] = {2380, 370},
                [KERNEL_Q2_K] = {2370, 370},
                [KERNEL_Q3_K] = {2780, 370},
            },
};

static int64_t bytes_of(const struct tensor * t) { // of a batch
    return t->ne[0] * t->ne[1] * dtype_size(t->dtype);
}

// Memory is paid by the run: for a short one as for RUN bytes.
static int64_t paid(int64_t bytes, int64_t run) {
    enum { RUN = 270 }; // as in bound.c
    return run < RUN ? bytes * RUN / run : bytes;
}

// The same by gemm's own program (gemm_by_blocks), whose b is bf16.
static const int by_gemm[KERNEL_BLOCKS] = {
    [KERNEL_Q4_0] = 850,  [KERNEL_Q8_0] = 1065,   [KERNEL_Q4_K] = 1235,  [KERNEL_Q5_K] = 1540,
    [KERNEL_Q6_K] = 2310, [KERNEL_IQ4_NL] = 5800, [KERNEL_MXFP4] = 1210,
};
enum { BY_GEMM_FOUR = 328 };

// Gemm where a slice becomes bf16 before it is multiplied (gemm_takes_blocks): what that takes, and
// the next one's way where there is one place for them.
static const int by_many[KERNEL_BLOCKS] = {
    [KERNEL_Q4_0] = 900,
    [KERNEL_Q8_0] = 1900,
    [KERNEL_Q4_K] = 1100,
    [KERNEL_Q6_K] = 2450,
};
enum { BY_TURNS = 1350 }; // of q8_0, where there are two

static int64_t few_slice(const struct kernel_spec * spec, const struct mm_plan * p) {
    const struct slice * s =
        p->blocks == KERNEL_BLOCKS ? &plain[spec->arch] : &blocks[spec->arch][p->blocks];
    if (!s->once) { // nobody has measured it: about what its row says
        return kernel_block(p->blocks)->cycles + ops_parts(p->x_rows, 4) * plain[spec->arch].four;
    }
    if (p->wide && p->t->gemm_by_blocks) {
        return by_gemm[p->blocks] + ops_parts(p->x_rows, 4) * BY_GEMM_FOUR;
    }
    return s->once + ops_parts(p->x_rows, 4) * s->four;
}

static int64_t gemm_slice(const struct kernel_spec * spec, const struct mm_plan * p) {
    const struct aie_likely_times * t = &aie_times(spec->arch)->likely;
    int64_t rows = p->x_groups * p->t->x_group;
    if (p->t->shared || p->t->in != DTYPE_BF16) { // trips that follow each other
        // of block floats also what a row takes to be made so
        enum { SET_UP = 80, SHARED_ROW = 4, SHARED_TRIP = 26, MADE = 950 };
        int64_t y_rows = p->y_groups * p->t->y_group;
        int64_t trips = ops_parts(rows, p->t->trip_x) * ops_parts(y_rows, p->t->trip_y);
        int64_t made = rows + (p->t->stored ? 0 : y_rows);
        return SET_UP + (mm_is_made(p) ? MADE : 0) +
               (p->t->shared ? trips * SHARED_TRIP + made * SHARED_ROW
                             : trips * p->t->trip_bundles);
    }
    return (!p->block_bytes     ? 0
            : mm_by_turns_of(p) ? BY_TURNS
                                : by_many[p->blocks]) +
           mm_tiles_each(p) * (t->gemm_slice + rows * t->gemm_row);
}

struct mm_likely mm_likely(const struct kernel_spec * spec, const struct mm_plan * p) {
    const struct aie_likely_times * t = &aie_times(spec->arch)->likely;
    int64_t a = p->beside * bytes_of(&spec->inputs[0]), b = bytes_of(&spec->inputs[1]);
    int64_t out = p->beside * bytes_of(&spec->output);
    int64_t work = p->m_steps * (int64_t) p->slices;
    if (!p->panel.rows) {
        a = paid(a, mm_chunk_bytes(p, p->y.chunk_k));
    }
    if (p->is_vector) { // every column has all of b, once for a step
        work *= few_slice(spec, p);
        b *= p->columns * ops_parts(p->m_steps, p->x_stays ? p->m_pass : 1);
    } else { // b comes for all tiles along m, a for all along n, unless they stay
        work *= p->n_tiles * (p->wide ? few_slice : gemm_slice)(spec, p);
        a *= p->y_stays ? ops_parts(p->n_tiles, p->pass) : p->n_tiles;
        b = paid(b, p->x.chunk_k * (uint32_t) dtype_size(spec->inputs[1].dtype)) *
            (p->x_held ? 1 : p->m_steps);
    }
    return (struct mm_likely){work, (a + b + out) * 10 / t->memory_tenths};
}

uint64_t mul_mat_likely(const struct kernel_spec * spec) {
    const struct aie_likely_times * t = &aie_times(spec->arch)->likely;
    struct mm_plan p;
    if (mm_plan_make(spec, &p, NULL) != ST_OK) {
        return mul_mat_bound(spec);
    }
    const struct mm_likely l = mm_likely(spec, &p);
    int64_t edges = p.is_vector ? t->edges : t->gemm_edges;
    if (p.is_vector && p.steps > 1) { // more tasks than are issued ahead (txn-ahead.h)
        edges *= 2;
    }
    return (uint64_t) ((l.work > l.memory ? l.work : l.memory) * mm_plan_turns(&p, spec) +
                       edges * ops_columns(spec) / aie_target(spec->arch)->columns);
}

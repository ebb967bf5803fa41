// mul-mat-bound: at most how long a product takes (plan/bound.h), from the rates of the multiplier
// and what the operands' way takes.
#include "mul-mat.h"

#include "aie/plan/bound.h"

enum {
    WORDS_PER_CYCLE = 4,
    EVEN_K = 128,     // a row of a multiple of these ends in no zeros
    CHAINED_K = 4096, // up to which other rows end in zeros but once
    SHORT_RUNS = 2,   // twice as long, as in bound.c
};

static uint64_t columns_of(const struct kernel_spec * spec, int all) {
    return (uint64_t) (spec->columns ? spec->columns : all);
}

static uint64_t padded(int64_t n) {
    return (uint64_t) (n + MM_TILE - 1) / MM_TILE * MM_TILE;
}

static uint64_t batches(const struct kernel_spec * spec) {
    return (uint64_t) (spec->output.ne[2] * spec->output.ne[3]);
}

// Four rows of cores, or as many as there are columns, have 64 rows each at a time, a column up to
// 128 rows of b; 64 k of that take so many cycles. Tiles of more rows may overlap.
static uint64_t of_many(const struct kernel_spec * spec) {
    enum { ROWS_OF_B = 128 };
    const struct tensor *out = &spec->output, *b = &spec->inputs[1];
    uint64_t columns = columns_of(spec, BOUND_COLUMNS);
    uint64_t rows = MM_TILE * (columns < BOUND_CORES ? columns : BOUND_CORES);
    uint64_t of_b = ROWS_OF_B * columns;
    uint64_t rounds = ((uint64_t) out->ne[0] + rows - 1) / rows;
    uint64_t turns = ((uint64_t) out->ne[1] + of_b - 1) / of_b;
    return rounds * (turns + (turns > 1)) * (uint64_t) (b->ne[0] / 64 + 2) *
           (uint64_t) aie_times(spec->arch)->gemm_slice * batches(spec);
}

// Gemv's program on gemm's array: four rows of cores, or as many as there are columns, have 64 rows
// each at a time, a column at least so many rows of b. A slice is the chip's own, so its factor is
// taken out again.
static uint64_t of_wide(const struct kernel_spec * spec, uint64_t slice) {
    enum { ROWS_OF_B = 8 };
    const struct tensor *out = &spec->output, *b = &spec->inputs[1];
    uint64_t columns = columns_of(spec, aie_target(spec->arch)->columns);
    uint64_t rows = MM_TILE * (columns < BOUND_CORES ? columns : BOUND_CORES);
    uint64_t rounds = ((uint64_t) out->ne[0] + rows - 1) / rows;
    uint64_t turns = ((uint64_t) out->ne[1] + ROWS_OF_B * columns - 1) / (ROWS_OF_B * columns);
    uint64_t each = rounds * (turns + 1) * (uint64_t) (b->ne[0] / 64 + 2) * slice;
    return (each / (uint64_t) aie_times(spec->arch)->core_factor +
            (uint64_t) aie_times(spec->arch)->batch) *
           batches(spec);
}

// Two cores a column have 64 rows each at a time; what of 64 k they unpack and multiply by four
// rows at a time is a matter of so many cycles. Numbers that are looked up, or go by planes, take
// longer. A batch begins and ends a run, of which the stream tells in more time than it computes.
static uint64_t of_blocks(const struct kernel_spec * spec) {
    const struct aie_times * t = aie_times(spec->arch);
    const struct tensor *out = &spec->output, *b = &spec->inputs[1];
    uint64_t rows = MM_TILE * 2 * columns_of(spec, aie_target(spec->arch)->columns);
    uint64_t rounds = ((uint64_t) out->ne[0] + rows - 1) / rows;
    enum kernel_blocks blocks = kernel_blocks_of(spec);
    int more = (bound_looks_up(blocks) ? t->gemv_look_up : 0) +
               (mm_by_planes(blocks) ? t->gemv_planes : 0);
    const struct mm_type * type = mm_type(spec->arch, DTYPE_BF16);
    bool many =
        b->dtype == DTYPE_BF16 && mm_takes_many(type, blocks, kernel_panel_of(spec).pair != 0);
    if (out->ne[1] > mm_few_rows(type, blocks, b->dtype == DTYPE_F32)) {
        return many ? of_many(spec)
                    : of_wide(spec, (uint64_t) (t->gemv_slice + more + 2 * t->gemv_four_rows));
    }
    uint64_t each =
        (uint64_t) (t->gemv_slice + more) + (uint64_t) ((out->ne[1] + 3) / 4 * t->gemv_four_rows);
    return (rounds * (uint64_t) (b->ne[0] / 64 + 1) * each + (uint64_t) t->batch) * batches(spec);
}

// Long rows that are no whole slices come in equal pieces, each with its zeros. How many times
// longer that takes where there are but short ones.
static uint64_t short_pieces(int64_t k) {
    enum { WHOLE_K = 8, MOST = 64, LONG = 9 };
    int64_t blocks = k / WHOLE_K, piece = 1;
    for (int64_t b = 2; b <= MOST; b++) {
        piece = blocks % b ? piece : b;
    }
    return (uint64_t) (piece < LONG ? (LONG + piece - 1) / piece : 1);
}

static uint64_t of_numbers(const struct kernel_spec * spec) {
    const struct aie_times * t = aie_times(spec->arch);
    const struct tensor * out = &spec->output;
    bool shared = spec->op == KERNEL_OP_MUL_MAT_SHARED; // also of i8, which are stored blocks
    enum dtype in = shared ? DTYPE_BF16 : spec->inputs[0].dtype;
    uint64_t results = padded(out->ne[0]) * padded(out->ne[1]) * batches(spec);
    uint64_t k = (uint64_t) (spec->inputs[1].ne[0] + EVEN_K - 1) / EVEN_K * EVEN_K;
    uint64_t macs = results * k /
                    (uint64_t) (in == DTYPE_I8    ? t->macs_i8
                                : in == DTYPE_I16 ? t->macs_i16
                                                  : t->macs_bf16);
    uint64_t longer = 1;
    if (k > CHAINED_K && (int64_t) k != spec->inputs[1].ne[0]) { // each piece ends in zeros
        macs *= 3;
        longer = short_pieces(spec->inputs[1].ne[0]);
    }
    uint64_t moved =
        (bound_words(&spec->inputs[0]) + bound_words(&spec->inputs[1]) + bound_words(out)) /
        WORDS_PER_CYCLE;
    if (in == DTYPE_F16) { // which the cores make bf16
        uint64_t rounds = (uint64_t) (out->ne[0] + 64 * 16 - 1) / (64 * 16);
        moved = 2 * moved + rounds * (uint64_t) t->f16_k * k * batches(spec);
    }
    // Both operands come for each tile. Eight columns want 512 rows of the one and 256 of the other
    // for as many results, and multiply i8 much faster than memory brings it; four want 256 of
    // both.
    uint64_t brought =
        results * k * (uint64_t) dtype_size(in) * SHORT_RUNS / 128 / (uint64_t) t->memory_bytes;
    uint64_t most = (brought > macs * 7 / 4 ? brought : macs * 7 / 4) * longer;
    moved *= longer;
    if (spec->columns) { // of which there are as many rows of cores, up to four
        uint64_t rows = spec->columns < BOUND_CORES ? (uint64_t) spec->columns : BOUND_CORES;
        return (most + moved) * (uint64_t) aie_target(spec->arch)->columns * BOUND_CORES /
               (rows * (uint64_t) spec->columns);
    }
    return most + moved;
}

uint64_t mul_mat_bound(const struct kernel_spec * spec) {
    const struct aie_times * t = aie_times(spec->arch);
    uint64_t start = (uint64_t) t->start;
    // One row of b, a token's, wants one accumulator: there the slice's own figure holds.
    uint64_t factor = spec->output.ne[1] == 1 ? 1 : (uint64_t) t->core_factor;
    return spec->op == KERNEL_OP_MUL_MAT_BLOCKS ? (start + of_blocks(spec)) * factor
                                                : start + of_numbers(spec);
}

// mul-mat-params: what the cores of a product are told, for a shape and a kind of blocks. The
// program (mul-mat.c) reads it; what each word means stands at its name in mul-mat.h.
#include "mul-mat.h"

#include "quant.h"

#include "aie/ops/convert/convert.h"
#include "kernel/shared.h"

// Parameters of blocks that are longer than a slice; see quant-k.c.
static const struct long_block {
    int scales;                 // of each row, in f16
    int one, minima;            // scales that stand before the minima in a slice's factors
    int group_bits, group_down; // which of a slice's groups of 16 numbers have scales of their own
    int table_shift, table_next, table_less;
    int at; // where a block begins
    int odd, d_at, d_second;
} long_blocks[KERNEL_BLOCKS + 1] = {
    [KERNEL_Q4_K] = {4, 0x3f80, 2, 2, 1, 8, 8 * 2 * MM_TILE, 0xc380, MM_LONG, 0, 0, 1},
    [KERNEL_Q5_K] = {4, 0x3f80, 2, 2, 1, 8, 8 * 2 * MM_TILE, 0xc380, MM_LONG, 0, 0, 1},
    [KERNEL_Q6_K] = {4, 0x4200, 0, 3, 0, 9, 2 * 2 * MM_TILE, 0xc3c0, MM_LONGER, 4, 208 * MM_TILE,
                     0},
};

// Parameters of blocks that are multiplied as they are unpacked (aie2-quant-inreg.c); where any
// have their scales.
static const struct fused_block {
    int passes, top, minus;
    int pair, pair_other;
    int numbers_next;
    int planes, planes_of, planes_shift, planes_next, minima;
} fused_blocks[KERNEL_BLOCKS + 1] = {
    [KERNEL_Q4_0] = {1, 0x4343, 0xc308 /* -136 */, .planes = MM_SCALES},
    [KERNEL_Q8_0] = {2, 0x4543, 0xc490 /* -2304 / 2 */, -1, -1, 2048, MM_SCALES, 0, 7, 0, 0},
    [KERNEL_Q4_K] = {2, 0x4343, 0xc300 /* -128 */, -1, 0, 0, MM_LONG_TABLE, -1, 7, 0,
                     8 * 2 * MM_TILE},
    [KERNEL_Q5_K] = {2, 0x4543, 0xc488 /* -2176 / 2 */, -1, -1, 2048, MM_LONG_TABLE, -1, 7, 0,
                     8 * 2 * MM_TILE},
    [KERNEL_Q6_K] = {2, 0x4543, 0xc48a /* -2208 / 2 */, -1, -1, 2048, MM_LONG_TABLE, -1, 8,
                     2 * MM_TILE, 0},
    [KERNEL_IQ4_NL] = {2, 0x4543, 0xc490, -1, -1, 2048, MM_SCALES, 0, 7, 0, 0},
    [KERNEL_MXFP4] = {2, 0x4543, 0xc490, -1, -1, 2048, MM_LONG_TABLE, 2 * 2 * MM_TILE, 7, 0, 0},
};

// Four bytes of a table; more by 128 where they are multiplied as they are, or in two parts.
static int32_t table_word(enum kernel_blocks blocks, int word, bool more) {
    uint32_t w = 0;
    for (int i = 0; i < 4; i++) {
        w |= (uint32_t) (uint8_t) (kernel_block(blocks)->table[4 * word + i] + (more ? 128 : 0))
             << 8 * i;
    }
    return (int32_t) w;
}

// Parameters of types that go by planes (ops/blocks). A vector is a word of 16 rows, or a factor of
// 32.
static void planes_params(const struct kernel_block_info * info, const struct mm_shape * s,
                          bool apart, int32_t p[MM_PARAM_COUNT]) {
    enum { WORD = 4 * MM_TILE, VECTORS = WORD / QUANT_VECTOR };
    bool first =
        !info->scale && info->bytes % 4; // of two blocks the first begins in a word's middle
    int groups = 64 / info->group, later = info->once / 64 - 1;
    bool scales = later > 0; // of scales
    // Factors stand once, twice, or four times, and minima behind scales or elsewhere.
    bool twice = s->many == MM_MANY_UNPACKS, four = !apart && !twice;
    for (int i = 0; i < info->n_halves; i++) {
        int byte = first && s->paired ? 2 * i : info->halves[i];
        p[MM_PARAM_HALVES + i] = byte / 4 * WORD + byte / 2 % 2;
    }
    p[MM_PARAM_N_HALVES] = info->n_halves;
    for (int i = 0; i < 2; i++) {
        int byte = info->numbers[i] + (first && s->paired && i == 0 ? 2 : 0);
        p[MM_PARAM_NUMBERS_AT + i] = byte / 4 * WORD;
    }
    p[MM_PARAM_BITS] = (int32_t) s->blocks;
    p[MM_PARAM_Y_TRIPS] = info->n_halves * MM_TILE / CV_TRIP;
    p[MM_PARAM_D_AT] = scales ? MM_LONG_SCALES : MM_LONG_TABLE;
    p[MM_PARAM_OTHER] = MM_BLOCKS_OTHER | (s->paired && !first ? MM_PAIRED_LATER : 0);
    p[MM_PARAM_RAW] = (scales ? MM_LONG : MM_BLOCKS) ^ p[MM_PARAM_OTHER];
    // Every other block begins there, and has its scale in the upper half of its last word, or in a
    // pair of the word before it.
    bool other = info->scale && info->bytes % 4;
    int words = (info->bytes + 3) / 4;
    p[MM_PARAM_ODD] = other ? later + 1 : first && !s->paired ? -1 : 0;
    p[MM_PARAM_ODD_BY] = !other ? 0 : s->paired ? 1 - words * WORD : 1;
    p[MM_PARAM_ALIGN] = s->paired ? 0
                        : other   ? words * VECTORS
                        : first   ? (info->bytes - 2) / 4 * VECTORS
                                  : 0;
    p[MM_PARAM_FACTORS] = (info->minima && !four ? 2 : 1) * groups * 2;
    p[MM_PARAM_GROUPS] = groups;
    p[MM_PARAM_SCALES_TOP] = info->top;
    p[MM_PARAM_TABLE_LESS] = info->less;
    p[MM_PARAM_ONE] = info->one;
    p[MM_PARAM_LESS] = !info->minima ? 0 : four ? MM_XY_OTHER : groups * 2 * MM_TILE << twice;
    p[MM_PARAM_PLANE_WORDS] = info->group / 4;
    p[MM_PARAM_GROUP] = info->group == 32 ? 2 : 3;
    p[MM_PARAM_GROUP_SHIFT] = (info->group == 32 ? 6 : 7) + (four ? 2 : twice);
    p[MM_PARAM_TABLE_SHIFT] = -8; // all slices have theirs at one place
}

// What the names below mean of a spec's block.
struct block_ways {
    const struct kernel_block_info * info;
    bool blocks;  // y is quantized
    bool fused;   // it is multiplied as it is unpacked
    bool columns; // by columns
    bool two;     // two slices at once
    bool tabled;  // its numbers come from a table
    bool tells;   // its scales are no f16
    bool apart;   // a number to each lane
};

static struct block_ways ways_of(const struct mm_type * t, const struct mm_shape * s) {
    const struct kernel_block_info * info = kernel_block(s->blocks);
    bool blocks = s->blocks != KERNEL_BLOCKS;
    bool fused = mm_fuses(t, s->blocks) && s->many != MM_MANY_UNPACKS;
    bool columns = fused && mm_by_columns(t, s->blocks, s->x_rows, s->x_raw);
    return (struct block_ways){.info = info,
                               .blocks = blocks,
                               .fused = fused,
                               .columns = columns,
                               .two = columns && s->blocks == KERNEL_Q6_K,
                               .tabled = info->way == KERNEL_WAY_TABLE,
                               .tells = info->power,
                               .apart = blocks && t->by_lanes && s->many != MM_MANY_UNPACKS};
}

// Tiles, slices, and the steps of the loop over them. A row of trips goes through all groups of y
// with one group of x.
static void trips_params(const struct mm_type * t, const struct mm_shape * s,
                         const struct block_ways * w, int32_t p[MM_PARAM_COUNT]) {
    const struct long_block * l = &long_blocks[s->blocks];
    int x_rows = s->x_groups * t->x_group, y_rows = s->y_groups * t->y_group;
    int y_pitch = w->blocks ? MM_TILE : y_rows; // in a slice that the core wrote itself
    int y_k = s->k < mm_slice_k(t) ? (int) s->k : mm_slice_k(t); // zeros need not become bf16
    int last_block = t->slice_blocks - 1, row = 4 * t->out_rows * y_rows;
    int x_trips = x_rows / t->trip_x, y_trips = y_rows / t->trip_y;
    int x_group = t->trip_x * t->block_bytes, y_group = t->trip_y * t->block_bytes;
    int x_step = x_rows * t->block_bytes, y_step = y_pitch * t->block_bytes;
    p[MM_PARAM_TILES] = (int32_t) s->tiles;
    p[MM_PARAM_SLICES] = (int32_t) s->slices;
    p[MM_PARAM_TRIPS] = s->is_vector && s->x_rows == 1 && t->by_lanes ? 0 : x_trips * y_trips;
    p[MM_PARAM_ROW] = row;
    p[MM_PARAM_LAST] = y_trips - 1;
    p[MM_PARAM_C_WRAP] = mm_trip_c_bytes(t) + row * (t->trip_x / t->out_rows - 1);
    p[MM_PARAM_X_STEP] = x_step;
    p[MM_PARAM_X_NEXT] = -last_block * x_step;
    p[MM_PARAM_X_WRAP] = -last_block * x_step + x_group;
    p[MM_PARAM_Y_STEP] = y_step;
    p[MM_PARAM_Y_NEXT] = -last_block * y_step + y_group;
    p[MM_PARAM_Y_WRAP] = -last_block * y_step - y_group * (y_trips - 1);
    if (t->shared) { // what fifos have gone on by is taken back
        int blocks = t->slice_blocks * SHARED_BLOCK_BYTES / SHARED_EIGHT; // bytes of a row's
        p[MM_PARAM_X_NEXT] = -t->trip_x * blocks;
        p[MM_PARAM_X_WRAP] = p[MM_PARAM_Y_NEXT] = 0;
        p[MM_PARAM_Y_WRAP] = -y_rows * blocks;
    }
    p[MM_PARAM_X_TRIPS] = s->many     ? s->many
                          : t->stored ? 0 // which is MM_PARAM_MANY
                          : t->shared ? x_rows * mm_slice_k(t) / MM_SHARED_TRIP
                          : s->x_raw  ? x_rows * mm_slice_k(t) / CV_TRIP
                                      : 0;
    p[MM_PARAM_Y_TRIPS] = t->stored   ? x_rows * mm_slice_k(t) / MM_SHARED_TRIP // y is made
                          : l->scales ? l->scales * MM_TILE / CV_TRIP
                          : w->blocks ? 2 * MM_TILE / CV_TRIP // the scales of blocks
                          : t->shared ? y_rows * mm_slice_k(t) / MM_SHARED_TRIP
                          : s->y_raw  ? (y_rows * y_k + CV_TRIP - 1) / CV_TRIP
                                      : 0;
    p[MM_PARAM_TASK] = t->stored && w->blocks                    ? s->y_groups
                       : !s->many || s->many >= MM_MANY_CONVERTS ? 0
                       : s->blocks == KERNEL_Q4_K                ? MM_KIND_Q4_K
                       : s->blocks == KERNEL_Q6_K                ? MM_KIND_Q6_K
                       : s->turns                                ? MM_KIND_Q8_0 | MM_KIND_TURNS
                                                                 : MM_KIND_Q8_0;
    p[MM_PARAM_ROWS] = y_rows * 4 / QUANT_VECTOR;
    p[MM_PARAM_PAIRS] = w->apart ? 0 : t->slice_blocks;
}

// Where a block's parts lie, and its scales.
static void scales_params(const struct mm_type * t, const struct mm_shape * s,
                          const struct block_ways * w, int32_t p[MM_PARAM_COUNT]) {
    const struct long_block * l = &long_blocks[s->blocks];
    int later = kernel_block_once(s->blocks) / mm_slice_k(t) - 1;
    int other = MM_BLOCKS_OTHER | (s->paired && w->info->scale ? MM_PAIRED_LATER : 0);
    p[MM_PARAM_BITS] = w->tells ? MM_BITS_POWER : w->info->bits;
    p[MM_PARAM_PAIRED] = s->paired && !w->info->scale && !w->tells ? 4 * MM_TILE : 0;
    p[MM_PARAM_LATER] = w->blocks ? later : 0;
    bool more =
        s->x_groups * t->x_group > MM_FEW_ROWS && l->at == MM_LONG && s->many != MM_MANY_UNPACKS;
    p[MM_PARAM_RAW] = (more    ? MM_LONG_MORE
                       : l->at ? l->at
                               : MM_BLOCKS) ^
                      other; // of the first is the other
    p[MM_PARAM_ONE] = l->one;
    p[MM_PARAM_LESS] = !w->apart ? l->minima * MM_TILE * 4 : l->minima ? l->table_next : 0;
    p[MM_PARAM_PLANE_WORDS] = 4 << l->group_down;
    p[MM_PARAM_GROUP] = l->group_bits;
    p[MM_PARAM_GROUP_SHIFT] = 8 - l->group_down;
    p[MM_PARAM_TABLE_SHIFT] = w->tells ? 8 : l->table_shift;
    p[MM_PARAM_TABLE_NEXT] = l->table_next;
    p[MM_PARAM_TABLE_LESS] = l->table_less;
    p[MM_PARAM_ODD] = s->paired ? 0 : l->odd;
    p[MM_PARAM_OTHER] = other;
    p[MM_PARAM_D_AT] = l->d_at;
    p[MM_PARAM_D_SECOND] = EVEN_16 + l->d_second;
    bool first = s->paired && w->tells; // all scales
    p[MM_PARAM_FIRST] = first ? 4 : w->tells ? 1 : 2;
    p[MM_PARAM_BLOCK] = w->info->bytes - first;
    p[MM_PARAM_BLOCK_TRIPS] = first ? 0 : w->info->bytes / 4 * MM_TILE * 4 / QUANT_VECTOR;
}

// Blocks that are multiplied as they are unpacked.
static void fused_params(const struct mm_shape * s, const struct block_ways * w,
                         int32_t p[MM_PARAM_COUNT]) {
    const struct fused_block * f = &fused_blocks[s->blocks];
    bool two = w->two, columns = w->columns;
    p[MM_PARAM_FUSED] = w->fused ? s->x_groups : 0;
    p[MM_PARAM_PASSES] = two        ? MM_BY_TWO_SLICES
                         : columns  ? MM_BY_COLUMNS
                         : w->fused ? f->passes
                                    : 0;
    p[MM_PARAM_TOP] = f->top;
    p[MM_PARAM_MINUS] = two ? 0xc308 /* -136 */ : f->minus;
    p[MM_PARAM_PAIR] = f->pair;
    p[MM_PARAM_PAIR_OTHER] = f->pair_other;
    p[MM_PARAM_NUMBERS_NEXT] = f->numbers_next;
    p[MM_PARAM_PLANES] = f->planes;
    p[MM_PARAM_PLANES_OF] = f->planes_of;
    p[MM_PARAM_PLANES_SHIFT] = two ? 2 : columns ? 4 : f->planes_shift;
    p[MM_PARAM_PLANES_NEXT] = two ? 4 * 2 * MM_TILE : columns ? 2 * MM_TILE : f->planes_next;
    p[MM_PARAM_MINIMA] = two ? 2 * MM_TILE : f->minima;
}

// Where a block's numbers come from, and those that stand in a table.
static void numbers_params(const struct mm_shape * s, const struct block_ways * w,
                           int32_t p[MM_PARAM_COUNT]) {
    bool more = w->fused || w->info->eight; // of the numbers of a table
    int apart = w->tabled ? 7 : w->info->bits == 8 ? 8 : 4;
    p[MM_PARAM_NUMBERS] = w->tabled ? MM_TABLED_BYTES : w->fused ? MM_LONG_BYTES : MM_BLOCKS;
    p[MM_PARAM_MORE] = w->fused && !w->tabled ? 0x80 : 0;
    p[MM_PARAM_WORDS] = w->tabled ? MM_TABLED_WORDS : MM_LONG_BYTES;
    p[MM_PARAM_APART] = apart * 4 * MM_TILE;
    p[MM_PARAM_AS_COME] = w->tabled ? 0 : -1;
    p[MM_PARAM_TABLED] = w->tabled;
    for (int i = 0; i < 4; i++) {
        p[MM_PARAM_TABLE + i] = table_word(s->blocks, i, more);
    }
    p[MM_PARAM_TABLE_BITS] = 0x08040201;
}

void mm_params(const struct mm_type * t, const struct mm_shape * s, uint32_t out[MM_PARAM_COUNT]) {
    struct block_ways w = ways_of(t, s);
    int32_t p[MM_PARAM_COUNT] = {0};
    trips_params(t, s, &w, p);
    scales_params(t, s, &w, p);
    fused_params(s, &w, p);
    numbers_params(s, &w, p);
    if (mm_by_planes(s->blocks)) {
        planes_params(w.info, s, w.apart, p);
    }
    for (int i = 0; i < MM_PARAM_COUNT; i++) {
        out[i] = (uint32_t) p[i];
    }
}

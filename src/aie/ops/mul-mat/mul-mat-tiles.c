// mul-mat-tiles: descriptors and tasks of memtiles. They are written once for a run and know
// nothing of steps; buffers take turns by their iteration.
#include "mul-mat-design.h"

#include "aie/ops/mixed.h"

// Descriptors of a memtile, within the half that a channel can use.
enum {
    BD_CHUNKS = 0,                 // chunks; those that go out behind them
    BD_TILES_OUT = 2 * MMP_CHUNKS, // two tiles
    BD_TILES_IN = 22,              // one or two
};
// In place of chunks, where x is held: the first one that comes, the others; and what goes out.
enum { BD_HELD_FIRST, BD_HELD_IN, BD_HELD_OUT, BD_HELD_AGAIN };
// Those of gemv: what leads to the cores is one range across both halves, which one operation
// writes. The second half begins with chunks, behind which goes x, of even steps and of odd ones.
enum {
    BD_VECTOR_OUT = 0,
    BD_VECTOR_IN = 2,
    BD_VECTOR_IN_ODD = ARRAY_MEM_BD_ODD - 1,
    BD_X = ARRAY_MEM_BD_ODD - 1, // behind chunks
};

const struct mm_ways mm_gemm_ways = {.out = 0, .tiles_in = 2, .tiles_out = 2};
const struct mm_ways mm_gemv_ways = {.out = MIXED_PRODUCT,
                                     .tiles_in = 2 + MIXED_PRODUCT,
                                     .tiles_out = 4,
                                     .x_out = 5,
                                     .locks = SPREAD_LOCKS,
                                     .first_core = MIXED_PRODUCT};

// ---- memtiles ----

// The descriptors of a channel are in its own half.
static int half(int channel) {
    return channel % 2 ? ARRAY_MEM_BD_ODD : 0;
}

static void mem_bd(const struct design * d, int bd, const struct array_bd * desc) {
    array_mem_bd(desc, d->sheet->words[bd]);
    d->sheet->set |= 1ull << bd;
}

void mm_write_sheet(const struct design * d, int col, int row) {
    struct sheet * s = d->sheet;
    uint32_t base = image_addr(col, row, row == ARRAY_ROW_MEM ? MEM_BD : SHIM_BD);
    for (uint32_t bd = 0, n; bd < ARRAY_MEM_BDS; bd += n + 1) {
        for (n = 0; bd + n < ARRAY_MEM_BDS && s->set >> (bd + n) & 1;) {
            n++;
        }
        if (n) {
            txn_block_write(d->flow.t, base + 0x20 * bd, s->words[bd], 8 * n);
        }
        for (uint32_t i = bd; i < bd + n && row == ARRAY_ROW_SHIM; i++) {
            txn_patch_address(d->flow.t, base + 0x20 * i + 4, s->operand[i], s->offset[i]);
        }
    }
    s->set = 0;
}

static uint32_t block_words(const struct design * d) {
    return (uint32_t) d->plan.t->block_bytes / 4;
}

// The first chunk that comes, within the half; and the first that goes.
static int bd_in(const struct design * d, int channel) {
    return d->plan.is_vector && !half(channel) ? BD_X - 2 * d->plan.y.chunks : BD_CHUNKS;
}

static int bd_out(const struct design * d, int channel) {
    bool x = !d->plan.is_vector && half(channel);
    int more = d->plan.joint && half(channel); // both cores' chunks come there
    return bd_in(d, channel) + (x ? &d->plan.x : &d->plan.y)->chunks + more;
}

// X goes out behind the chunks of the second half.
static int bd_x_out(const struct design * d, bool odd) {
    return bd_out(d, d->ways->x_out) + d->plan.y.chunks + odd;
}

// Rows go out k-block by k-block, each of them of all rows, with zeros behind the last; `further`
// words on from round to round. Blocks of one word and rows that lie a block apart need no
// dimension of their own, which leaves one to the zeros that can have more of them. `none` rows of
// zeros come behind the others: those that fill up a group are else what the memtile has there.
static void send_blocks(struct array_bd * out, uint32_t block, uint32_t rows, uint32_t none,
                        uint32_t row_words, uint32_t blocks, uint32_t zeros, uint32_t further) {
    int at = 0;
    if (row_words == block) {
        out->step[at] = 1;
        out->after[at] = none * block;
        out->wrap[at++] = rows * block;
    } else {
        if (block > 1) {
            out->step[at] = 1;
            out->wrap[at++] = block;
        }
        out->step[at] = row_words;
        out->after[at] = none;
        out->wrap[at++] = rows;
    }
    out->step[at] = block;
    out->wrap[at] = blocks;
    out->after[at++] = zeros;
    out->step[at] = further;
}

struct mm_turns mm_by_turns(uint32_t address, uint32_t words, int empty) {
    struct array_bd in = {.address = address,
                          .words = words,
                          .next = -1,
                          .acquire = empty,
                          .acquire_value = -1,
                          .release = empty + 1,
                          .release_value = 1,
                          .iterations = 2,
                          .iteration_step = words};
    struct array_bd out = in;
    out.acquire = in.release;
    out.release = in.acquire;
    return (struct mm_turns){in, out};
}

void mm_send_words(const struct mm_plan * p, struct array_bd * out, uint32_t rows,
                   uint32_t row_words, uint32_t slices) {
    uint32_t words = mm_slice_words(p);
    int at = 0;
    out->step[at] = row_words;
    out->wrap[at++] = rows;
    out->step[at] = 1;
    out->wrap[at++] = words;
    if (mm_is_between(p)) {
        out->step[at] = words - 1;
        out->wrap[at++] = 2;
    }
    out->step[at] = mm_is_between(p) ? 2 * words - 1 : words;
    out->words = slices * words * rows;
}

// Blocks for gemm.
static void send_pairs(const struct mm_plan * p, struct array_bd * out, uint32_t rows,
                       uint32_t row_words, uint32_t slices) {
    out->step[0] = 1;
    out->wrap[0] = MANY_UNIT;
    out->step[1] = row_words;
    out->wrap[1] = rows;
    out->step[2] = MANY_UNIT;
    out->wrap[2] = mm_many_units(p);
    out->step[3] = mm_slice_words(p);
    out->address -= mm_many_before(p) ? 4 * (MANY_UNIT - 1) : 0;
    out->words = slices * mm_many_units(p) * rows * MANY_UNIT;
}

// Stored block floats: a group of rows has its slices one behind the other, and goes out slice by
// slice, each of all groups.
static void send_stored(const struct mm_plan * p, struct array_bd * out, uint32_t rows,
                        uint32_t row_words, uint32_t slices) {
    uint32_t group = (uint32_t) p->panel.rows, slice = group * MM_STORED_WORDS;
    out->step[0] = 1;
    out->wrap[0] = slice;
    out->step[1] = group * row_words;
    out->wrap[1] = rows / group;
    out->step[2] = slice;
    out->words = slices * MM_STORED_WORDS * rows;
}

// A stream's rows: `rows` come, `sent` go on to the cores.
struct rows {
    const struct mm_cut * cut;
    uint32_t address; // of the buffers in the memtile: two, or one for each chunk that stays
    uint32_t rows, sent;
    int tiles; // that rows stay for; 0: they do not
    bool is_y;
};

// Gemm with blocks: of b's rows several tiles' come at once, and go out slice by slice, each tile's
// in turn.
static void write_turns(const struct design * d, int channel, const struct rows * r) {
    const struct mm_plan * p = &d->plan;
    uint32_t words = mm_words(d, false, r->cut->chunk_k), block = block_words(d);
    uint32_t blocks = (uint32_t) p->t->slice_blocks, buffer = mm_x_room(p) * words;
    uint32_t slices = r->cut->chunk_k / (uint32_t) mm_slice_k(p->t);
    int empty = d->ways->locks + LOCK_IN_EMPTY + 2 * channel, full = empty + 1;
    struct array_bd in = {.address = r->address,
                          .words = r->rows * words,
                          .next = -1,
                          .acquire = empty,
                          .acquire_value = -1,
                          .release = full,
                          .release_value = 1,
                          .iterations = 2,
                          .iteration_step = buffer};
    mem_bd(d, half(channel) + bd_in(d, channel), &in);
    for (uint32_t i = 0; i < slices; i++) {
        bool last = i + 1 == slices;
        int at = half(channel) + bd_out(d, channel) + (int) i;
        struct array_bd out = {.address = r->address + 4 * i * blocks * block,
                               .words = (uint32_t) p->many * r->sent * blocks * block,
                               .next = last ? -1 : at + 1,
                               .acquire = i == 0 ? full : -1,
                               .acquire_value = -1,
                               .release = last ? empty : -1,
                               .release_value = 1,
                               .iterations = 2,
                               .iteration_step = buffer};
        send_blocks(&out, block, r->sent, 0, words, blocks, 0, (uint32_t) p->x_rows * words);
        mem_bd(d, at, &out);
    }
}

// Gemm with blocks of q6_K, in panels. A chunk is pairs of blocks, of which d and d' are one word
// between both: it lies pair by pair, and goes out so, half a block after the other.
static uint32_t pairs_of(const struct mm_plan * p) {
    return p->y.chunk_k / (uint32_t) p->cut_k;
}

static void write_halves(const struct design * d, int channel, const struct rows * r) {
    enum { BLOCK = 53, LOWER = 32, SCALES = 48, D = 52, PARTS = 4, HALVES = 4 }; // words
    const struct mm_plan * p = &d->plan;
    const uint32_t pairs = pairs_of(p), pair = mm_chunk_bytes(p, (uint32_t) p->cut_k) / 4;
    const int empty = d->ways->locks + LOCK_IN_EMPTY + 2 * channel, full = empty + 1;
    struct array_bd in = {.address = r->address,
                          .words = r->rows * pairs * pair,
                          .next = -1,
                          .acquire = empty,
                          .acquire_value = -(int) pairs,
                          .release = full,
                          .release_value = (int) pairs,
                          .wrap = {pair, pairs},
                          .step = {1, r->sent * pair, pair},
                          .iterations = 2,
                          .iteration_step = pairs * r->sent * pair};
    mem_bd(d, half(channel) + bd_in(d, channel), &in);
    for (uint32_t i = 0; i < HALVES * PARTS; i++) {
        const uint32_t of = i / PARTS % 2, part = i % PARTS, block = i / PARTS / 2 * BLOCK;
        const uint32_t units = part == 0 ? MANY_HALF_LOWER : part == 1 ? MANY_HALF_UPPER : 1;
        const uint32_t word = part == 0   ? block + of * MANY_HALF_LOWER * MANY_UNIT
                              : part == 1 ? block + LOWER + of * MANY_HALF_UPPER * MANY_UNIT
                              : part == 2 ? block + SCALES + of * MANY_UNIT
                                          : D;
        const bool last = i + 1 == HALVES * PARTS;
        const int at = half(channel) + bd_out(d, channel) + (int) i;
        struct array_bd out = {.address = r->address + 4 * word,
                               .words = units * r->sent * MANY_UNIT,
                               .next = last ? -1 : at + 1,
                               .acquire = i == 0 ? full : -1,
                               .acquire_value = -1,
                               .release = last ? empty : -1,
                               .release_value = 1,
                               .wrap = {MANY_UNIT, r->sent},
                               .step = {1, pair, MANY_UNIT},
                               .iterations = 2 * pairs,
                               .iteration_step = r->sent * pair};
        mem_bd(d, at, &out);
    }
}

void mm_set_pairs(const struct design * d, int col, bool begins) {
    const uint32_t pairs = mm_by_halves(&d->plan) ? pairs_of(&d->plan) : 1;
    if (pairs > 1 && mm_plan_brings_y(&d->plan, col)) {
        uint32_t lock = (uint32_t) (d->ways->locks + LOCK_IN_EMPTY + 2 * MEM_IN);
        txn_write(d->flow.t, image_addr(col, ARRAY_ROW_MEM, MEM_LOCK + 0x10 * lock),
                  begins ? 2 * pairs : mm_mem_lock_init[LOCK_IN_EMPTY]);
    }
}

static void write_chunks(const struct design * d, int channel, const struct rows * r) {
    const struct mm_plan * p = &d->plan;
    const struct mm_cut * cut = r->cut;
    uint32_t buffer = r->sent * 4 * mm_words(d, r->is_y, cut->chunk_k);
    // of the locks' tokens each place has so many
    int tokens = p->is_vector ? mm_places(d->spec->arch) / p->places : 1;
    for (int i = 0; i < cut->chunks; i++) {
        bool is_last = i + 1 == cut->chunks;
        uint32_t k = is_last ? cut->last_k : cut->chunk_k, words = mm_words(d, r->is_y, k);
        uint32_t blocks = k / (uint32_t) mm_block_k(p->t), zeros = mm_chunk_zeros(p, k);
        int empty =
            d->ways->locks + (r->tiles ? LOCK_STAY_EMPTY + 2 * i : LOCK_IN_EMPTY + 2 * channel);
        int full = empty + 1;
        struct array_bd in = {
            .address = r->address + (uint32_t) (r->tiles ? i : i % 2) * buffer,
            .words = r->rows * words,
            .next = is_last ? -1 : half(channel) + bd_in(d, channel) + i + 1,
            .acquire = empty,
            .acquire_value = r->tiles ? -r->tiles : -tokens,
            .release = full,
            .release_value = r->tiles ? r->tiles : tokens,
        };
        struct array_bd out = in;
        uint32_t block = r->is_y ? block_words(d) : mm_x_block(p);
        out.words = r->sent * block * (blocks + zeros);
        out.next = is_last ? -1 : half(channel) + bd_out(d, channel) + i + 1;
        out.acquire = full;
        out.release = empty;
        out.acquire_value = -tokens;
        out.release_value = tokens;
        if (mm_is_made(p) && r->is_y) {
            send_pairs(p, &out, r->sent, words, k / (uint32_t) p->once_k);
        } else if (p->t->stored && r->is_y) {
            send_stored(p, &out, r->sent, words, k / (uint32_t) p->once_k);
        } else if (p->many && r->is_y) {
            send_pairs(p, &out, r->sent, words, k / (uint32_t) p->once_k);
        } else if (p->block_bytes && r->is_y) {
            mm_send_words(p, &out, r->sent, words, k / (uint32_t) p->once_k);
        } else {
            uint32_t none = p->t->shared ? r->sent - r->rows : 0; // in blocks they must be numbers
            send_blocks(&out, block, r->sent - none, none, words, blocks, zeros, 0);
        }
        if (cut->chunks == 1) {
            in.iterations = out.iterations = p->is_vector ? (uint32_t) p->places : 2;
            in.iteration_step = out.iteration_step = buffer / 4;
        }
        int first = half(channel) + bd_in(d, channel);
        if (p->joint) { // the first core's, then the second's
            first = half(MEM_IN + 1) + bd_in(d, MEM_IN + 1) + (channel != MEM_IN);
            in.next = channel == MEM_IN ? first + 1 : -1;
        }
        mem_bd(d, first + i, &in);
        mem_bd(d, half(channel) + bd_out(d, channel) + i, &out);
    }
}

// Gemm whose x is held. Its rows lie in full, one behind the other; they come chunk by chunk, and
// the first tile's go out so, as soon as each is there. All further tiles' go out by a descriptor
// that waits for nothing. Where x comes more than once in a run, its first chunk has a descriptor
// of its own, which waits for the last of these.
static void write_held(const struct design * d, const struct rows * r) {
    const struct mm_plan * p = &d->plan;
    const int channel = MEM_IN + 1, at = half(channel);
    const int empty = d->ways->locks + LOCK_IN_EMPTY + 2 * channel, full = empty + 1;
    const uint32_t row = mm_x_row(p), words = mm_words(d, false, p->x.chunk_k);
    const uint32_t chunks = (uint32_t) p->x.rounds, block = mm_x_block(p);
    const uint32_t none = p->t->shared ? r->sent - r->rows : 0; // in blocks they must be numbers
    struct array_bd in = {.address = r->address,
                          .words = r->rows * words,
                          .next = -1,
                          .acquire = -1,
                          .release = full,
                          .release_value = 1,
                          .wrap = {words},
                          .step = {1, row},
                          .iterations = chunks,
                          .iteration_step = words};
    if (!mm_plan_x_once(p)) {
        struct array_bd first = in;
        first.acquire = empty;
        first.acquire_value = 1 - p->x_held;
        first.iterations = first.iteration_step = 0;
        mem_bd(d, at + BD_HELD_FIRST, &first);
        in.address += 4 * words;
        in.iterations = chunks > 2 ? chunks - 1 : 0;
        in.iteration_step = chunks > 2 ? words : 0;
    }
    mem_bd(d, at + BD_HELD_IN, &in);
    struct array_bd out = {.address = r->address,
                           .words = r->sent * words,
                           .next = -1,
                           .acquire = full,
                           .acquire_value = -1,
                           .release = -1,
                           .iterations = chunks,
                           .iteration_step = words};
    send_blocks(&out, block, r->sent - none, none, row, words / block, 0, 0);
    mem_bd(d, at + BD_HELD_OUT, &out);
    const uint32_t parts = (uint32_t) mm_x_parts(p), blocks = row / block / parts;
    struct array_bd again = {.address = r->address,
                             .words = r->sent * row,
                             .next = -1,
                             .acquire = -1,
                             .release = mm_plan_x_once(p) ? -1 : empty,
                             .release_value = 1};
    send_blocks(&again, block, r->sent - none, none, row, blocks, 0, blocks * block);
    mem_bd(d, at + BD_HELD_AGAIN, &again);
}

// Gemv: all of x, twice, sent anew for each tile. Where it stays, it comes once a step and gives
// its lock a token for each tile. Nothing tells when a place is free again: a step begins when the
// one before the last, which had the same place, is complete.
static void write_x(const struct design * d, uint32_t address) {
    const struct mm_plan * p = &d->plan;
    uint32_t sent = (uint32_t) (p->x_groups * p->t->x_group), piece = mm_x_block(p);
    uint32_t block = (uint32_t) mm_block_k(p->t);
    uint32_t blocks = (p->y.chunks > 1 ? (uint32_t) p->k : p->y.last_k) / block;
    uint32_t zeros = mm_chunk_zeros(p, p->y.last_k);
    int empty = d->ways->locks + LOCK_X_EMPTY, full = d->ways->locks + LOCK_X_FULL;
    struct array_bd in = {
        .address = address,
        .words = (uint32_t) p->x_rows * mm_x_row(p),
        .next =
            p->x_stays || p->joint || p->y.rounds > 1 ? -1 : bd_in(d, MEM_IN), // then the rows of a
        .acquire = p->x_stays ? -1 : empty,
        .acquire_value = -1,
        .release = full,
        .release_value = p->x_stays ? (int) p->m_pass : 1,
        .iterations = p->x_stays && p->steps == 1 ? 0 : 2, // the next run finds it unchanged
        .iteration_step = mm_x_words(p),
    };
    struct array_bd out = in;
    out.words = sent * piece * (blocks + zeros) * (uint32_t) p->y.rounds;
    out.next = -1;
    out.acquire = full;
    out.acquire_value = -1;
    out.release = p->x_stays ? -1 : empty;
    out.release_value = 1;
    // from round to round as much further as a chunk has k, or from part to part
    uint32_t parts = p->y.rounds == 1 ? (uint32_t) mm_x_parts(p) : 1;
    uint32_t further = parts > 1 ? blocks / parts : p->y.chunk_k / block;
    uint32_t none = mm_by_columns(p->t, p->blocks, p->x_rows, p->x_raw) ? sent - 1 : 0;
    send_blocks(&out, piece, sent - none, none, mm_x_apart(p), blocks / parts, zeros,
                further * piece);
    mem_bd(d, half(MEM_IN) + BD_X, &in);
    for (int odd = 0; odd < (p->x_stays && p->steps > 1 ? 2 : 1); odd++) {
        out.iterations = p->x_stays ? 0 : 2;
        out.address = address + (odd ? 4 * mm_x_words(p) : 0);
        mem_bd(d, half(d->ways->x_out) + bd_x_out(d, odd), &out);
    }
}

static int bd_tile_in(const struct mm_plan * p, int core) {
    return !p->is_vector ? BD_TILES_IN + core / 2 : core % 2 ? BD_VECTOR_IN_ODD : BD_VECTOR_IN;
}

// The tiles of a column's cores.
static void write_tiles(const struct design * d, uint32_t address) {
    const struct mm_plan * p = &d->plan;
    uint32_t cols = (uint32_t) p->t->out_cols, rows = (uint32_t) p->t->out_rows,
             width = (uint32_t) (p->y_groups * p->t->y_group);
    uint32_t tile = width * (uint32_t) (p->x_groups * p->t->x_group);
    const struct mm_ways * w = d->ways;
    int each = mm_plan_each(p), bd_tile = p->is_vector ? BD_VECTOR_OUT : BD_TILES_OUT;
    for (int i = 0; i < p->core_rows; i++) {
        int empty = w->locks + LOCK_TILE_EMPTY + 2 * i, full = empty + 1;
        struct array_bd in = {
            .address = address + 4 * tile * (uint32_t) i,
            .words = tile,
            .next = -1,
            .acquire = empty,
            .acquire_value = -1,
            .release = full,
            .release_value = 1,
            .wrap = {cols, rows, width / cols},
            .step = {1, width, cols, rows * width},
        };
        if (p->many > 1) { // so that a core is rid of both before they leave
            in.iterations = 2;
            in.iteration_step = tile * (uint32_t) p->core_rows;
        }
        int channel = w->tiles_out + i / each, at = half(channel) + bd_tile + i % each;
        struct array_bd out = {
            .address = in.address,
            .words = (uint32_t) (p->x_rows * p->y_rows),
            .next = (i + 1) % each && i + 1 < p->core_rows ? at + 1 : -1,
            .acquire = full,
            .acquire_value = -1,
            .release = empty,
            .release_value = 1,
            .wrap = {(uint32_t) p->y_rows},
            .step = {1, width},
            .iterations = in.iterations,
            .iteration_step = in.iteration_step,
        };
        mem_bd(d, half(w->tiles_in + i) + bd_tile_in(p, i), &in);
        mem_bd(d, at, &out);
    }
}

void mm_set_tiles(const struct design * d, int col, uint32_t n) {
    for (int i = 0; i < d->plan.core_rows && d->plan.many > 1; i++) {
        uint32_t lock = (uint32_t) (d->ways->locks + LOCK_TILE_EMPTY + 2 * i);
        txn_write(d->flow.t, image_addr(col, ARRAY_ROW_MEM, MEM_LOCK + 0x10 * lock), n);
    }
}

void mm_set_held(const struct design * d, int col, uint32_t n) {
    if (d->plan.x_held && !mm_plan_x_once(&d->plan)) {
        uint32_t lock = (uint32_t) (d->ways->locks + LOCK_IN_EMPTY + 2 * (MEM_IN + 1));
        txn_write(d->flow.t, image_addr(col, ARRAY_ROW_MEM, MEM_LOCK + 0x10 * lock), n);
    }
}

void mm_write_memtile(const struct design * d, int col, bool outputs) {
    const struct mm_plan * p = &d->plan;
    uint32_t y_sent = (uint32_t) (p->y_groups * p->t->y_group);
    uint32_t x_sent = (uint32_t) (p->x_groups * p->t->x_group);
    struct rows y = {.cut = &p->y,
                     .address = p->many || mm_is_made(p) ? MM_BEFORE : 0,
                     .rows = (uint32_t) p->y_rows,
                     .sent = y_sent,
                     .is_y = true};
    struct rows x = {.cut = &p->x, .rows = (uint32_t) mm_x_taken(p), .sent = x_sent};
    struct rows second = p->is_vector ? y : x;
    y.tiles = p->y_stays ? (int) p->pass : 0;
    second.address = y.address + (p->y_stays ? (uint32_t) p->y.chunks : 2) * y_sent *
                                     mm_chunk_bytes(p, p->y.chunk_k);
    uint32_t end = second.address + (p->x_held ? (uint32_t) p->x.rounds : 2) * 4 *
                                        (p->is_vector ? y_sent : mm_x_room(p)) *
                                        mm_words(d, second.is_y, second.cut->chunk_k);
    if (p->joint) {
        y.address = MMP_PLACES_FIRST;
        second.address = MMP_PLACES_SECOND;
        end = 0;
    }
    uint32_t tiles = end + (p->is_vector ? 2 * 4 * mm_x_words(p) : 0);
    if (outputs) {
        mm_set_tiles(d, col, 2);
        write_tiles(d, tiles);
    } else {
        if (mm_plan_brings_y(p, col)) {
            mm_set_pairs(d, col, true);
            (mm_by_halves(p) ? write_halves : write_chunks)(d, MEM_IN, &y);
        }
        if (p->x_held) {
            mm_set_held(d, col, (uint32_t) p->x_held - 1);
            write_held(d, &second);
        } else {
            (p->many ? write_turns : write_chunks)(d, MEM_IN + 1, &second);
        }
        if (p->is_vector) {
            write_x(d, end);
        }
        for (uint32_t i = 0;
             p->y_stays && mm_plan_brings_y(p, col) && i < 2 * (uint32_t) p->y.chunks; i++) {
            txn_write(d->flow.t,
                      image_addr(col, ARRAY_ROW_MEM, MEM_LOCK + 0x10 * (LOCK_STAY_EMPTY + i)),
                      i % 2 ? 0 : (uint32_t) p->pass);
        }
    }
    mm_write_sheet(d, col, ARRAY_ROW_MEM);
}

// ---- tasks ----

static void push_mem(const struct design * d, int col, bool in, int channel, int bd, int64_t runs) {
    flow_push(&d->flow, (struct flow_tile){col, ARRAY_ROW_MEM},
              (in ? MEM_S2MM_QUEUE : MEM_MM2S_QUEUE) + 8 * (uint32_t) channel, half(channel) + bd,
              runs, false);
}

static void push_tiles(const struct design * d, int col, int64_t tiles) {
    const struct mm_plan * p = &d->plan;
    const struct mm_ways * w = d->ways;
    for (int i = 0; i < p->core_rows; i += p->is_vector ? 2 : 1) {
        int channel = w->tiles_in + i, first = half(channel) + bd_tile_in(p, i);
        if (p->is_vector) {
            mm_push_pair(d, (struct flow_tile){col, ARRAY_ROW_MEM},
                         MEM_S2MM_QUEUE + 8 * (uint32_t) channel,
                         (const int[]){first, half(channel + 1) + bd_tile_in(p, i + 1)},
                         (const int64_t[]){tiles, tiles});
        } else {
            push_mem(d, col, true, channel, bd_tile_in(p, i), tiles);
        }
    }
    for (int i = 0; i < mm_plan_ways(p); i++) {
        push_mem(d, col, false, w->tiles_out + i, p->is_vector ? BD_VECTOR_OUT : BD_TILES_OUT,
                 tiles);
    }
}

void mm_push_memtile(const struct design * d, int col, const struct group * g, bool outputs,
                     bool odd) {
    const struct mm_plan * p = &d->plan;
    const struct mm_ways * w = d->ways;
    int64_t y = g->tiles * p->y.rounds, second = g->tiles * (p->is_vector ? p->y : p->x).rounds;
    struct flow_tile at = {col, ARRAY_ROW_MEM};
    if (outputs) {
        push_tiles(d, col, g->tiles * mm_tiles_each(p));
        return;
    }
    bool brings_y = mm_plan_brings_y(p, col);
    int in = half(MEM_IN) + bd_in(d, MEM_IN), in_next = half(MEM_IN + 1) + bd_in(d, MEM_IN + 1);
    if (p->joint) {
        mm_push_pair(d, at, MEM_S2MM_QUEUE + 8 * MEM_IN,
                     (const int[]){half(MEM_IN) + BD_X, in_next},
                     (const int64_t[]){p->x_stays ? 1 : g->tiles, second});
        push_mem(d, col, false, w->x_out, bd_x_out(d, p->x_stays && odd), g->tiles);
    } else if (p->is_vector) { // x comes first, and where it does not stay, a follows it in one
                               // chain
        bool chain = !p->x_stays && p->y.rounds == 1;
        push_mem(d, col, true, MEM_IN, BD_X, chain ? 0 : p->x_stays ? 1 : g->tiles);
        mm_push_pair(d, at, MEM_S2MM_QUEUE + 8 * MEM_IN,
                     (const int[]){chain ? half(MEM_IN) + BD_X : in, in_next},
                     (const int64_t[]){y, second});
        push_mem(d, col, false, w->x_out, bd_x_out(d, p->x_stays && odd), g->tiles);
    } else {
        push_mem(d, col, true, MEM_IN, in, !brings_y ? 0 : p->y_stays ? g->steps : y);
        if (!p->x_held) {
            push_mem(d, col, true, MEM_IN + 1, in_next - half(MEM_IN + 1), second);
        } else if (g->x_comes) {
            bool once = mm_plan_x_once(p);
            push_mem(d, col, true, MEM_IN + 1, BD_HELD_FIRST, once ? 0 : 1);
            push_mem(d, col, true, MEM_IN + 1, BD_HELD_IN, p->x.rounds - !once);
        }
    }
    int x_out = bd_out(d, w->out + 1);
    if (p->x_held) { // the first tile's chunks, then the other tiles'
        x_out = g->x_comes ? BD_HELD_OUT : BD_HELD_AGAIN;
        second = g->x_comes ? p->x.rounds : g->tiles;
    }
    if (brings_y) {
        mm_push_pair(d, at, MEM_MM2S_QUEUE + 8 * (uint32_t) w->out,
                     (const int[]){half(w->out) + bd_out(d, w->out), half(w->out + 1) + x_out},
                     (const int64_t[]){mm_by_halves(p) ? y * pairs_of(p) : y, second});
    } else {
        push_mem(d, col, false, w->out + 1, x_out, second);
    }
    if (p->x_held && g->x_comes) {
        push_mem(d, col, false, w->out + 1, BD_HELD_AGAIN, g->tiles - 1);
    }
}

void mm_end_x(const struct design * d, int col) {
    if (mm_plan_x_left(&d->plan)) {
        int lock = d->ways->locks + LOCK_X_FULL;
        txn_write(d->flow.t, image_addr(col, ARRAY_ROW_MEM, MEM_LOCK + 0x10 * (uint32_t) lock), 0);
    }
}

// mul-mat-array: the array around the core program, and the instruction stream of a shape.
//
//     shim -> memtile: rows of a chunk of k -> cores: k-blocks, zeros behind the last of a row
//     cores: tiles, as the multiplier gives them -> memtile: plain rows -> shim
//
// Descriptors of cores and memtiles are written once; buffers take turns by their iteration. The
// work is done in steps: a step points the shims' descriptors at rows of a, b and dst. Two steps
// are in flight, with descriptors of their own; a step begins when the one before the last is
// complete. Tasks of cores and memtiles know nothing of steps; they are pushed for as many steps
// together as a task can hold.
//
// An operation of the instruction stream takes as long as a hundred bundles. Neighbouring
// descriptors are written by one, and what leads the first words to the cores comes before all that
// tiles will need on their way out.
#include "mul-mat-plan.h"

#include "aie/array/array.h"

#include <stdio.h>
#include <stdlib.h>

enum { OPERAND_A, OPERAND_B, OPERAND_OUT };

// Channels of a memtile: in from the shim, out to the cores, tiles in from up to four cores, tiles
// out to the shim by two channels.
enum { MEM_IN = 0, MEM_OUT = 0, MEM_TILES_IN = 2, MEM_TILES_OUT = 2, MEM_X_OUT = 4 };

// Locks of a memtile.
enum {
    LOCK_IN_EMPTY = 0,   // + 2 * channel
    LOCK_IN_FULL = 1,    // + 2 * channel
    LOCK_TILE_EMPTY = 4, // + 2 * core row
    LOCK_TILE_FULL = 5,  // + 2 * core row
    LOCK_X_EMPTY = 12,
    LOCK_X_FULL = 13,
    MEM_LOCKS = 14,
};
static const uint8_t mem_lock_init[MEM_LOCKS] = {2, 0, 2, 0, 1, 0, 1, 0, 1, 0, 1, 0, 2, 0};

// Descriptors of a memtile, within the half that a channel can use.
enum {
    BD_IN = 0,                     // chunks; those that go out behind them
    BD_TILES_OUT = 2 * MMP_CHUNKS, // two tiles
    BD_TILES_IN = 22,              // one or two
    BD_X_IN = 21,                  // gemv, even half, where there is but one tile each way
    BD_X_OUT = 23,
};

// Descriptors of a core.
enum { CORE_BD_Y, CORE_BD_X, CORE_BD_C };

// Descriptors of a shim, one set for every other step.
enum {
    SHIM_FIRST,                 // gemm: chunks of a; gemv: a by channel 0
    SHIM_SECOND,                // gemm: chunks of b; gemv: a by channel 1
    SHIM_LAST,                  // + SHIM_FIRST or SHIM_SECOND: the last chunk, where it is shorter
    SHIM_TILES = SHIM_LAST + 2, // up to four
    SHIM_SET = 8,
    SHIM_X = SHIM_TILES + 2, // gemv: b
};

struct design { // what the functions below write for
    const struct kernel_spec * spec;
    const struct aie_target * target;
    struct mm_plan plan;
    struct txn * t;
    struct sheet * sheet;
};

// Descriptors of one memtile or shim that are still to be written.
struct sheet {
    uint64_t set; // bit by number
    uint32_t words[ARRAY_MEM_BDS][8];
    int operand[ARRAY_MEM_BDS]; // shim: what the address is patched with
    uint32_t offset[ARRAY_MEM_BDS];
};

// ---- front door ----

enum status mul_mat_supports(const struct kernel_spec * spec, struct error * err) {
    struct mm_plan plan;
    return mm_plan_make(spec, &plan, err);
}

void mul_mat_name(const struct kernel_spec * spec, char name[KERNEL_NAME_MAX]) {
    struct mm_plan plan = {0};
    mm_plan_make(spec, &plan, NULL);
    snprintf(name, KERNEL_NAME_MAX, "mul_mat_%s_%s", dtype_name(spec->inputs[0].dtype),
             plan.is_vector ? "gemv" : "gemm");
}

// ---- configuration ----

static void route(struct array * a, int col, int row, int channel, int to_col, int to_row,
                  int to_channel) {
    array_route(a, (struct array_port){col, row, channel},
                &(struct array_port){to_col, to_row, to_channel}, 1);
}

static void route_gemm(struct array * a, int col) {
    struct array_port along[MMP_COLUMNS], up[MMP_CORE_ROWS_GEMM];
    for (int i = 0; i < MMP_COLUMNS; i++) {
        along[i] = (struct array_port){i, ARRAY_ROW_CORE + col, 0};
    }
    for (int i = 0; i < MMP_CORE_ROWS_GEMM; i++) {
        up[i] = (struct array_port){col, ARRAY_ROW_CORE + i, 1};
    }
    array_route(a, (struct array_port){col, ARRAY_ROW_MEM, MEM_OUT}, along, MMP_COLUMNS);
    array_route(a, (struct array_port){col, ARRAY_ROW_MEM, MEM_OUT + 1}, up, MMP_CORE_ROWS_GEMM);
}

static void route_gemv(struct array * a, int col) {
    struct array_port both[MMP_CORE_ROWS_GEMV];
    for (int i = 0; i < MMP_CORE_ROWS_GEMV; i++) {
        both[i] = (struct array_port){col, ARRAY_ROW_CORE + i, 1};
        route(a, col, ARRAY_ROW_MEM, MEM_OUT + i, col, ARRAY_ROW_CORE + i, 0);
    }
    array_route(a, (struct array_port){col, ARRAY_ROW_MEM, MEM_X_OUT}, both, MMP_CORE_ROWS_GEMV);
}

enum status mul_mat_pdi(const struct kernel_spec * spec, uint8_t ** pdi, size_t * size,
                        struct error * err) {
    struct mm_plan plan;
    struct asm_code code = {0};
    enum status st = mm_plan_make(spec, &plan, err);
    if (st == ST_OK) {
        st = mm_program(spec->arch, plan.t, &code, NULL, err);
    }
    if (st != ST_OK) {
        return st;
    }
    struct array a;
    array_begin(&a, spec->arch);
    for (int col = 0; col < MMP_COLUMNS; col++) {
        array_mem(&a, col, mem_lock_init, MEM_LOCKS);
        for (int i = 0; i < plan.core_rows; i++) {
            array_core(&a, col, ARRAY_ROW_CORE + i, code.bytes, code.size, mm_lock_init,
                       MM_LOCK_COUNT);
            route(&a, col, ARRAY_ROW_CORE + i, 0, col, ARRAY_ROW_MEM, MEM_TILES_IN + i);
        }
        for (int i = 0; i < 2; i++) {
            route(&a, col, ARRAY_ROW_SHIM, i, col, ARRAY_ROW_MEM, MEM_IN + i);
            route(&a, col, ARRAY_ROW_MEM, MEM_TILES_OUT + i, col, ARRAY_ROW_SHIM, i);
        }
        (plan.is_vector ? route_gemv : route_gemm)(&a, col);
        array_token_route(&a, col);
    }
    free(code.bytes);
    return array_end(&a, pdi, size, err);
}

// ---- memtiles ----

// The descriptors of a channel are in its own half.
static int half(int channel) {
    return channel % 2 ? ARRAY_MEM_BD_ODD : 0;
}

static void mem_bd(const struct design * d, int bd, const struct array_bd * desc) {
    array_mem_bd(desc, d->sheet->words[bd]);
    d->sheet->set |= 1ull << bd;
}

// Writes what is on the sheet, neighbours by one operation.
static void write_sheet(const struct design * d, int col, int row) {
    struct sheet * s = d->sheet;
    uint32_t base = image_addr(col, row, row == ARRAY_ROW_MEM ? MEM_BD : SHIM_BD);
    for (uint32_t bd = 0, n; bd < ARRAY_MEM_BDS; bd += n + 1) {
        for (n = 0; bd + n < ARRAY_MEM_BDS && s->set >> (bd + n) & 1;) {
            n++;
        }
        if (n) {
            txn_block_write(d->t, base + 0x20 * bd, s->words[bd], 8 * n);
        }
        for (uint32_t i = bd; i < bd + n && row == ARRAY_ROW_SHIM; i++) {
            txn_patch_address(d->t, base + 0x20 * i + 4, s->operand[i], s->offset[i]);
        }
    }
    s->set = 0;
}

static uint32_t block_words(const struct design * d) {
    return (uint32_t) d->plan.t->block_bytes / 4;
}

static uint32_t words_of(const struct design * d, uint32_t k) {
    return mm_chunk_bytes(&d->plan, k) / 4;
}

static int bd_out(const struct mm_plan * p) {
    return BD_IN + p->chunks;
}

// A stream's rows: `rows` come, `sent` go on to the cores.
struct rows {
    uint32_t address; // of two buffers in the memtile
    uint32_t rows, sent;
};

static void write_chunks(const struct design * d, int channel, const struct rows * r) {
    const struct mm_plan * p = &d->plan;
    uint32_t buffer = r->sent * mm_chunk_bytes(p, p->chunk_k);
    for (int i = 0; i < p->chunks; i++) {
        bool is_last = i + 1 == p->chunks;
        uint32_t k = is_last ? p->last_k : p->chunk_k, words = words_of(d, k);
        uint32_t blocks = k / (uint32_t) mm_block_k(p->t), zeros = mm_chunk_zeros(p, k);
        struct array_bd in = {
            .address = r->address + (uint32_t) (i % 2) * buffer,
            .words = r->rows * words,
            .next = is_last ? -1 : half(channel) + BD_IN + i + 1,
            .acquire = LOCK_IN_EMPTY + 2 * channel,
            .acquire_value = -1,
            .release = LOCK_IN_FULL + 2 * channel,
            .release_value = 1,
        };
        struct array_bd out = in;
        out.words = r->sent * block_words(d) * (blocks + zeros);
        out.next = is_last ? -1 : half(channel) + bd_out(p) + i + 1;
        out.acquire = LOCK_IN_FULL + 2 * channel;
        out.release = LOCK_IN_EMPTY + 2 * channel;
        out.step[0] = 1;
        out.wrap[0] = block_words(d);
        out.step[1] = words;
        out.wrap[1] = r->sent;
        out.step[2] = block_words(d);
        out.wrap[2] = blocks;
        out.after[2] = zeros;
        if (p->chunks == 1) {
            in.iterations = out.iterations = 2;
            in.iteration_step = out.iteration_step = buffer / 4;
        }
        mem_bd(d, half(channel) + BD_IN + i, &in);
        mem_bd(d, half(channel) + bd_out(p) + i, &out);
    }
}

// Gemv: all of x, twice, sent anew for each tile.
static void write_x(const struct design * d, uint32_t address) {
    const struct mm_plan * p = &d->plan;
    uint32_t sent = (uint32_t) (p->x_groups * MM_X_ROWS), row = words_of(d, (uint32_t) p->k);
    uint32_t block = (uint32_t) mm_block_k(p->t);
    uint32_t blocks = (p->chunks > 1 ? (uint32_t) p->k : p->last_k) / block;
    uint32_t zeros = mm_chunk_zeros(p, p->last_k);
    struct array_bd in = {
        .address = address,
        .words = (uint32_t) p->x_rows * row,
        .next = p->rounds == 1 ? BD_IN : -1, // then the rows of a
        .acquire = LOCK_X_EMPTY,
        .acquire_value = -1,
        .release = LOCK_X_FULL,
        .release_value = 1,
        .iterations = 2,
        .iteration_step = sent * row,
    };
    struct array_bd out = in;
    out.words = sent * block_words(d) * (blocks + zeros) * (uint32_t) p->rounds;
    out.next = -1;
    out.acquire = LOCK_X_FULL;
    out.release = LOCK_X_EMPTY;
    out.step[0] = 1;
    out.wrap[0] = block_words(d);
    out.step[1] = row;
    out.wrap[1] = sent;
    out.step[2] = block_words(d);
    out.wrap[2] = blocks;
    out.after[2] = zeros;
    out.step[3] = words_of(d, p->chunk_k); // from round to round
    mem_bd(d, BD_X_IN, &in);
    mem_bd(d, BD_X_OUT, &out);
}

// The tiles of a column's cores, which leave by two channels.
static void write_tiles(const struct design * d, uint32_t address) {
    const struct mm_plan * p = &d->plan;
    uint32_t cols = (uint32_t) p->t->out_cols, width = (uint32_t) (p->y_groups * MM_Y_ROWS);
    uint32_t tile = width * (uint32_t) (p->x_groups * MM_X_ROWS);
    int each = p->core_rows / 2;
    for (int i = 0; i < p->core_rows; i++) {
        struct array_bd in = {
            .address = address + 4 * tile * (uint32_t) i,
            .words = tile,
            .next = -1,
            .acquire = LOCK_TILE_EMPTY + 2 * i,
            .acquire_value = -1,
            .release = LOCK_TILE_FULL + 2 * i,
            .release_value = 1,
            .wrap = {cols, 4, width / cols},
            .step = {1, width, cols, 4 * width},
        };
        int channel = MEM_TILES_OUT + i / each, at = half(channel) + BD_TILES_OUT + i % each;
        struct array_bd out = {
            .address = in.address,
            .words = (uint32_t) (p->x_rows * p->y_rows),
            .next = (i + 1) % each ? at + 1 : -1,
            .acquire = LOCK_TILE_FULL + 2 * i,
            .acquire_value = -1,
            .release = LOCK_TILE_EMPTY + 2 * i,
            .release_value = 1,
            .wrap = {(uint32_t) p->y_rows},
            .step = {1, width},
        };
        mem_bd(d, half(MEM_TILES_IN + i) + BD_TILES_IN + i / 2, &in);
        mem_bd(d, at, &out);
    }
}

// A memtile's descriptors: what goes to the cores, or what comes from them.
static void write_memtile(const struct design * d, int col, bool outputs) {
    const struct mm_plan * p = &d->plan;
    uint32_t chunk = mm_chunk_bytes(p, p->chunk_k);
    struct rows y = {.rows = (uint32_t) p->y_rows, .sent = (uint32_t) (p->y_groups * MM_Y_ROWS)};
    struct rows x = {.rows = (uint32_t) p->x_rows, .sent = (uint32_t) (p->x_groups * MM_X_ROWS)};
    struct rows second = p->is_vector ? y : x;
    second.address = 2 * y.sent * chunk;
    uint32_t end = second.address + 2 * second.sent * chunk;
    uint32_t tiles = end + (p->is_vector ? 2 * x.sent * mm_chunk_bytes(p, (uint32_t) p->k) : 0);
    if (outputs) {
        write_tiles(d, tiles);
    } else {
        write_chunks(d, MEM_IN, &y);
        write_chunks(d, MEM_IN + 1, &second);
        if (p->is_vector) {
            write_x(d, end);
        }
    }
    write_sheet(d, col, ARRAY_ROW_MEM);
}

// ---- cores ----

static void write_core_bd(const struct design * d, int col, int row, int bd) {
    const struct mm_plan * p = &d->plan;
    uint32_t slice = block_words(d) * (uint32_t) p->t->slice_blocks;
    uint32_t x = (uint32_t) (p->x_groups * MM_X_ROWS), y = (uint32_t) (p->y_groups * MM_Y_ROWS);
    const struct {
        uint32_t address, other, words;
        int acquire, release;
    } streams[] = {
        [CORE_BD_Y] = {MM_Y, MM_XY_OTHER, y * slice, MM_LOCK_Y_EMPTY, MM_LOCK_Y_FULL},
        [CORE_BD_X] = {MM_X, MM_XY_OTHER, x * slice, MM_LOCK_X_EMPTY, MM_LOCK_X_FULL},
        [CORE_BD_C] = {MM_C, MM_C_OTHER, x * y, MM_LOCK_C_FULL, MM_LOCK_C_EMPTY},
    };
    uint32_t w[6];
    array_core_bd(&(struct array_bd){.address = streams[bd].address,
                                     .words = streams[bd].words,
                                     .next = -1,
                                     .acquire = streams[bd].acquire,
                                     .acquire_value = -1,
                                     .release = streams[bd].release,
                                     .release_value = 1,
                                     .iterations = 2,
                                     .iteration_step = streams[bd].other / 4},
                  w);
    txn_block_write(d->t, image_addr(col, row, CORE_BD + 0x20 * (uint32_t) bd), w, 6);
}

// The core reads its parameters when a first slice has come: they are there before its tasks.
static void write_params(const struct design * d, int col, int row, uint32_t tiles) {
    const struct mm_plan * p = &d->plan;
    uint32_t params[MM_PARAM_COUNT];
    mm_params(p->t, p->x_groups, p->y_groups, tiles, p->slices, params);
    txn_block_write(d->t, image_addr(col, row, MM_PARAMS), params, MM_PARAM_COUNT);
}

// ---- tasks of cores and memtiles ----

static void push(const struct design * d, int col, int row, uint32_t queue, int bd, int64_t runs) {
    for (; runs > 0; runs -= ARRAY_MAX_REPEAT) {
        int n = runs > ARRAY_MAX_REPEAT ? ARRAY_MAX_REPEAT : (int) runs;
        txn_write(d->t, image_addr(col, row, queue), array_queue_word(bd, n, false));
    }
}

static void push_mem(const struct design * d, int col, bool in, int channel, int bd, int64_t runs) {
    push(d, col, ARRAY_ROW_MEM, (in ? MEM_S2MM_QUEUE : MEM_MM2S_QUEUE) + 8 * (uint32_t) channel,
         half(channel) + bd, runs);
}

// A group of steps that are pushed together.
struct group {
    int64_t steps, tiles; // tiles of each core
};

static void push_memtile(const struct design * d, int col, const struct group * g, bool outputs) {
    const struct mm_plan * p = &d->plan;
    int64_t chains = g->tiles * p->rounds;
    for (int i = 0; i < p->core_rows && outputs; i++) {
        push_mem(d, col, true, MEM_TILES_IN + i, BD_TILES_IN + i / 2, g->tiles);
    }
    for (int i = 0; i < 2 && outputs; i++) {
        push_mem(d, col, false, MEM_TILES_OUT + i, BD_TILES_OUT, g->tiles);
    }
    if (outputs) {
        return;
    }
    if (p->is_vector) { // x comes first over channel 0; in one chain with a where that can be
        push_mem(d, col, true, MEM_IN, BD_X_IN, g->steps);
        push_mem(d, col, false, MEM_X_OUT, BD_X_OUT, g->tiles);
    }
    if (!p->is_vector || p->rounds > 1) {
        push_mem(d, col, true, MEM_IN, BD_IN, chains);
    }
    push_mem(d, col, true, MEM_IN + 1, BD_IN, chains);
    push_mem(d, col, false, MEM_OUT, bd_out(p), chains);
    push_mem(d, col, false, MEM_OUT + 1, bd_out(p), chains);
}

// ---- shims ----

static void shim_bd(const struct design * d, int bd, const struct array_bd * desc, int operand,
                    int64_t offset) {
    struct array_bd plain = *desc;
    plain.acquire = plain.release = -1;
    array_shim_bd(&plain, d->target, d->sheet->words[bd]);
    d->sheet->operand[bd] = operand;
    d->sheet->offset[bd] = (uint32_t) offset;
    d->sheet->set |= 1ull << bd;
}

static void push_shim(const struct design * d, int col, bool in, int channel, int bd,
                      int64_t runs) {
    uint32_t queue = (in ? SHIM_MM2S_QUEUE : SHIM_S2MM_QUEUE) + 8 * (uint32_t) channel;
    txn_write(d->t, image_addr(col, ARRAY_ROW_SHIM, queue), array_queue_word(bd, (int) runs, !in));
}

static uint32_t row_step(const struct tensor * t) {
    return t->ne[1] > 1 ? (uint32_t) (t->nb[1] / 4) : 1;
}

// A place in an operand, and how it moves on from n tile to n tile.
struct place {
    int operand;
    int64_t offset;
    uint32_t iterations, step;
};

static int64_t batch_offset(const struct kernel_spec * spec, const struct tensor * t,
                            const struct mm_step * s) {
    int64_t i2 = s->batch2 / (spec->output.ne[2] / t->ne[2]);
    int64_t i3 = s->batch3 / (spec->output.ne[3] / t->ne[3]);
    return i2 * t->nb[2] + i3 * t->nb[3];
}

static struct place place_of(const struct design * d, int operand, const struct mm_step * s,
                             int64_t row, bool per_tile) {
    const struct kernel_spec * spec = d->spec;
    const struct tensor * t = operand == OPERAND_OUT ? &spec->output : &spec->inputs[operand];
    struct place at = {.operand = operand, .offset = batch_offset(spec, t, s) + row * t->nb[1]};
    if (per_tile && s->tiles > 1) {
        at.iterations = (uint32_t) s->tiles;
        at.step = (uint32_t) (d->plan.n_step * t->nb[1] / 4);
    }
    return at;
}

// Chunks of rows: all but the last one, which is shorter, in one descriptor.
static void write_rows(const struct design * d, int bd, const struct place * at, uint32_t rows) {
    const struct mm_plan * p = &d->plan;
    uint32_t words = words_of(d, p->chunk_k), last = words_of(d, p->last_k);
    uint32_t full = (uint32_t) (p->chunks == 1 ? p->rounds : p->chunks - 1);
    struct array_bd first = {
        .words = full * rows * words,
        .next = p->chunks > 1 ? bd + SHIM_LAST : -1,
        .wrap = {words, rows},
        .step = {1, row_step(&d->spec->inputs[at->operand]), words},
        .iterations = at->iterations,
        .iteration_step = at->step,
    };
    shim_bd(d, bd, &first, at->operand, at->offset);
    if (p->chunks > 1) {
        struct array_bd second = first;
        second.words = rows * last;
        second.next = -1;
        second.wrap[0] = last;
        shim_bd(d, bd + SHIM_LAST, &second, at->operand, at->offset + 4 * (int64_t) (full * words));
    }
}

// One tile, or a second one `apart` elements of a row behind it as well.
static void write_tile_bd(const struct design * d, int bd, const struct place * at, int64_t apart,
                          int next) {
    const struct mm_plan * p = &d->plan;
    uint32_t rows = (uint32_t) p->x_rows, tile = rows * (uint32_t) p->y_rows;
    shim_bd(d, bd,
            &(struct array_bd){.words = apart ? 2 * tile : tile,
                               .next = next,
                               .wrap = {(uint32_t) p->y_rows, apart ? rows : 0},
                               .step = {1, row_step(&d->spec->output), (uint32_t) apart},
                               .iterations = at->iterations,
                               .iteration_step = at->step},
            at->operand, at->offset);
}

static void gemm_inputs(const struct design * d, int col, const struct mm_step * s, int set) {
    const struct mm_plan * p = &d->plan;
    int64_t n = s->n_first * p->n_step + p->n_start[col];
    struct place a = place_of(d, OPERAND_A, s, mm_plan_m(p, s->m_step, col), false);
    struct place b = place_of(d, OPERAND_B, s, n, true);
    write_rows(d, set + SHIM_FIRST, &a, (uint32_t) p->y_rows);
    write_rows(d, set + SHIM_SECOND, &b, (uint32_t) p->x_rows);
    write_sheet(d, col, ARRAY_ROW_SHIM);
    push_shim(d, col, true, 0, set + SHIM_FIRST, s->tiles);
    push_shim(d, col, true, 1, set + SHIM_SECOND, s->tiles);
}

// A channel brings the tiles of two cores, whose rows are the same and begin apart, unless the
// second one makes the first one's tile again.
static void gemm_outputs(const struct design * d, int col, const struct mm_step * s, int set) {
    const struct mm_plan * p = &d->plan;
    int first[2] = {set + SHIM_TILES, set + SHIM_TILES + 1};
    int64_t m[MMP_CORE_ROWS_GEMM];
    for (int i = 0; i < p->core_rows; i++) {
        m[i] = mm_plan_m(p, s->m_step, i);
    }
    bool together = m[0] < m[1] && m[2] < m[3];
    for (int i = 0; i < p->core_rows; i += together ? 2 : 1) {
        struct place c =
            place_of(d, OPERAND_OUT, s, s->n_first * p->n_step + p->n_start[col], true);
        int bd = set + SHIM_TILES + (together ? i / 2 : i);
        c.offset += 4 * m[i];
        write_tile_bd(d, bd, &c, together ? m[i + 1] - m[i] : 0, together || i % 2 ? -1 : bd + 1);
        first[i / 2] = i % 2 ? first[i / 2] : bd;
    }
    write_sheet(d, col, ARRAY_ROW_SHIM);
    for (int i = 0; i < 2; i++) {
        push_shim(d, col, false, i, first[i], s->tiles);
    }
}

static void gemv_inputs(const struct design * d, int col, const struct mm_step * s, int set) {
    const struct mm_plan * p = &d->plan;
    uint32_t piece = words_of(d, (uint32_t) p->k) / (uint32_t) p->x_pieces;
    struct place b = place_of(d, OPERAND_B, s, 0, false);
    struct array_bd x = {
        .words = (uint32_t) p->x_rows * words_of(d, (uint32_t) p->k),
        .next = set + SHIM_FIRST,
        .wrap = {piece, (uint32_t) p->x_pieces},
        .step = {1, piece, row_step(&d->spec->inputs[OPERAND_B])},
    };
    shim_bd(d, set + SHIM_X, &x, b.operand, b.offset);
    for (int i = 0; i < p->core_rows; i++) {
        int64_t m = mm_plan_m(p, s->m_step, MMP_CORE_ROWS_GEMV * col + i);
        struct place a = place_of(d, OPERAND_A, s, m, false);
        write_rows(d, set + (i ? SHIM_SECOND : SHIM_FIRST), &a, (uint32_t) p->y_rows);
    }
    write_sheet(d, col, ARRAY_ROW_SHIM);
    push_shim(d, col, true, 0, set + SHIM_X, 1);
    push_shim(d, col, true, 1, set + SHIM_SECOND, 1);
}

static void gemv_outputs(const struct design * d, int col, const struct mm_step * s, int set) {
    const struct mm_plan * p = &d->plan;
    for (int i = 0; i < p->core_rows; i++) {
        struct place c = place_of(d, OPERAND_OUT, s, 0, false);
        c.offset += 4 * mm_plan_m(p, s->m_step, MMP_CORE_ROWS_GEMV * col + i);
        write_tile_bd(d, set + SHIM_TILES + i, &c, 0, -1);
    }
    write_sheet(d, col, ARRAY_ROW_SHIM);
    for (int i = 0; i < p->core_rows; i++) {
        push_shim(d, col, false, i, set + SHIM_TILES + i, 1);
    }
}

// ---- the stream ----

static void wait_step(const struct design * d) {
    for (int col = 0; col < MMP_COLUMNS; col++) {
        for (int i = 0; i < 2; i++) {
            txn_wait(d->t, col, ARRAY_ROW_SHIM, 0, i);
        }
    }
}

// The steps from `first` on that one push of tasks can hold.
static struct group group_of(const struct design * d, int64_t first) {
    const struct mm_plan * p = &d->plan;
    int64_t most =
        MMP_RUNS / (int64_t) (p->slices > (uint32_t) p->rounds ? p->slices : (uint32_t) p->rounds);
    struct group g = {0};
    for (int64_t i = first; i < p->steps; i++) {
        int64_t more = mm_plan_step(p, d->spec, i).tiles;
        bool alone = p->is_vector && p->rounds > 1; // x and a take turns on channel 0
        if (g.steps > 0 && (alone || g.tiles + more > most)) {
            break;
        }
        g.tiles += more;
        g.steps++;
    }
    return g;
}

static uint32_t all_tiles(const struct design * d) {
    uint32_t tiles = 0;
    for (int64_t i = 0; i < d->plan.steps; i++) {
        tiles += (uint32_t) mm_plan_step(&d->plan, d->spec, i).tiles;
    }
    return tiles;
}

// What brings slices to the cores: memtiles and shims first, so that words are on their way while
// the cores are told.
static void write_inputs(const struct design * d, int64_t i, const struct mm_step * s,
                         const struct group * g) {
    const struct mm_plan * p = &d->plan;
    for (int col = 0; col < MMP_COLUMNS; col++) {
        if (i == 0) {
            write_memtile(d, col, false);
        }
        if (g->steps) {
            push_memtile(d, col, g, false);
        }
        (p->is_vector ? gemv_inputs : gemm_inputs)(d, col, s, i % 2 ? SHIM_SET : 0);
    }
    for (int n = 0; n < MMP_COLUMNS * p->core_rows && g->steps; n++) {
        int col = n / p->core_rows, row = ARRAY_ROW_CORE + n % p->core_rows;
        if (i == 0) {
            write_params(d, col, row, all_tiles(d));
            write_core_bd(d, col, row, CORE_BD_Y);
            write_core_bd(d, col, row, CORE_BD_X);
        }
        push(d, col, row, CORE_S2MM_QUEUE, CORE_BD_Y, g->tiles * p->slices);
        push(d, col, row, CORE_S2MM_QUEUE + 8, CORE_BD_X, g->tiles * p->slices);
    }
}

// What takes tiles from them.
static void write_outputs(const struct design * d, int64_t i, const struct mm_step * s,
                          const struct group * g) {
    const struct mm_plan * p = &d->plan;
    for (int col = 0; col < MMP_COLUMNS; col++) {
        if (i == 0) {
            array_token_controller(d->t, col, 0);
            array_token_controller(d->t, col, 1);
            write_memtile(d, col, true);
        }
        if (g->steps) {
            push_memtile(d, col, g, true);
        }
        (p->is_vector ? gemv_outputs : gemm_outputs)(d, col, s, i % 2 ? SHIM_SET : 0);
        for (int row = ARRAY_ROW_CORE; row < ARRAY_ROW_CORE + p->core_rows && g->steps; row++) {
            if (i == 0) {
                write_core_bd(d, col, row, CORE_BD_C);
            }
            push(d, col, row, CORE_MM2S_QUEUE, CORE_BD_C, g->tiles);
        }
    }
}

static void write_stream(const struct design * d) {
    int64_t steps = d->plan.steps, group_end = 0;
    for (int64_t i = 0; i < steps; i++) {
        if (i >= 2) {
            wait_step(d);
        }
        struct mm_step s = mm_plan_step(&d->plan, d->spec, i);
        struct group g = i == group_end ? group_of(d, i) : (struct group){0};
        group_end += g.steps;
        write_inputs(d, i, &s, &g);
        write_outputs(d, i, &s, &g);
    }
    for (int64_t i = steps < 2 ? steps : 2; i > 0; i--) {
        wait_step(d);
    }
}

enum status mul_mat_insts(const struct kernel_spec * spec, uint32_t ** insts, size_t * n_words,
                          struct error * err) {
    struct txn t;
    struct sheet sheet = {0};
    struct design d = {.spec = spec, .target = aie_target(spec->arch), .t = &t, .sheet = &sheet};
    enum status st = mm_plan_make(spec, &d.plan, err);
    if (st != ST_OK) {
        return st;
    }
    txn_begin(&t, d.target->columns, d.target->device_generation);
    write_stream(&d);
    return txn_end(&t, insts, n_words, err);
}

// unpack: rows of quantized blocks to rows of bf16, for the products of many rows that
// want them. A core takes a slice of 64 k of up to 64 rows as gemv would, its scales and numbers
// become bf16 by the same code (quant.h), and the slice leaves instead of being multiplied:
//
//     shim -> memtile: chunks of slices of all rows -> cores: word by word, each of all rows
//     cores: [k / 2][rows][2] -> memtile: rows of a unit -> shim
//
// A unit is what comes to a core at once. All cores of a column get all units and take turns with
// them; the others' pass into memory that nobody reads. Every other unit leaves by the second
// channel. Each column has rows of its own; all have as many, and where that is more than there
// are, the last ones are made twice.
#include "convert.h"

#include "aie/ops/mul-mat/mul-mat-design.h"
#include "aie/ops/ops.h"
#include "aie/plan/plan.h"

enum {
    MOST_SLICES = 1024,    // of a core: four tasks
    MOST_RUNS = 64,        // of a shim's descriptor that moves on
    CHUNK_SLICES = 8,      // at most
    SLICE = 64,            // numbers
    SHIM_WRAP = 1023,      // words of a descriptor's first dimension
    OUT_WORDS = SLICE / 2, // of a row of a slice
    CHANNEL = MEM_IN + 1,  // of a shim and a memtile: b's
    OPERAND_IN = 0,
    OPERAND_OUT = 1,
};

// Descriptors: of a core; of a memtile, within the half that a channel can use, units that come
// from up to two cores, and behind them those that leave; of a shim.
enum { CORE_BD_MINE = CORE_BDS, CORE_BD_OUT, CORE_BD_BEFORE, CORE_BD_AFTER };
enum { MEM_BD_UNITS = 0, MEM_BD_LEAVE = 2, MEM_BD_CHUNKS = 4 };
enum { SHIM_BD_IN = 0, SHIM_BD_OUT = 1 };

// Units for other cores are written to these few words, again and again.
enum { PASS_AT = 0xd000, PASS_WORDS = 128 };

// ---- which shapes ----

// The distance of rows in words, where it is the same in all dimensions; 0: it is not.
static int64_t row_step(const struct tensor * t) {
    int64_t n = 1, step = t->ne[0] * t->nb[0];
    for (int d = 1; d < TENSOR_DIMS; d++) {
        if (t->ne[d] == 1) {
            continue;
        }
        step = n == 1 ? t->nb[d] : step;
        if (t->nb[d] != step * n) {
            return 0;
        }
        n *= t->ne[d];
    }
    return step > 0 && step % 4 == 0 ? step / 4 : 0;
}

static enum status check(const struct kernel_spec * spec, struct error * err) {
    const struct tensor *in = &spec->inputs[0], *out = &spec->output;
    enum kernel_blocks kind = kernel_blocks_of(spec);
    if (spec->n_inputs != 1 || kernel_blocks_of(spec) >= KERNEL_BLOCKS || in->dtype != DTYPE_I32 ||
        out->dtype != DTYPE_BF16 || in->nb[0] != 4 || out->nb[0] != 2) {
        return error_set(err, ST_UNSUPPORTED, "unpack takes words of known blocks and makes bf16");
    }
    int64_t k = out->ne[0], blocks = k / kernel_block_k(kind);
    if (k <= 0 || k % kernel_block_cut(kind) ||
        in->ne[0] != blocks * kernel_block_bytes(kind) / 4) {
        return error_set(err, ST_UNSUPPORTED, "rows of %lld words are not %lld elements of %s",
                         (long long) in->ne[0], (long long) k, kernel_block_name(kind));
    }
    struct kernel_panel panel = kernel_panel_of(spec);
    if (!kernel_panel_check(&panel, kind, in->ne[0], in->ne[1]) ||
        (panel.rows && row_step(in) != in->ne[0])) {
        return error_set(err, ST_UNSUPPORTED,
                         "panels of %d rows and chunks of %d words do not fit %lld rows of %lld",
                         panel.rows, panel.words, (long long) in->ne[1], (long long) in->ne[0]);
    }
    if (!mm_unpacks(mm_type(spec->arch, DTYPE_BF16), kind, panel.pair > 0)) {
        return error_set(err, ST_UNSUPPORTED, "UNPACK takes no panels of %s on %s",
                         kernel_block_name(kind), aie_target(spec->arch)->name);
    }
    for (int d = 1; d < TENSOR_DIMS; d++) {
        if (in->ne[d] != out->ne[d] || in->ne[d] <= 0) {
            return error_set(err, ST_INVALID, "unpack: dimension %d has %lld and %lld rows", d,
                             (long long) in->ne[d], (long long) out->ne[d]);
        }
    }
    for (int i = 0; i < 2; i++) {
        int64_t bytes = tensor_bytes(i ? out : in);
        if (bytes < 0 || bytes > (int64_t) UINT32_MAX - 4 || !row_step(i ? out : in)) {
            return error_set(err, ST_UNSUPPORTED,
                             "unpack: rows at several distances, or 4 GiB and more");
        }
    }
    return ST_OK;
}

// Rows that a core takes at a time: whole panels.
static int64_t rows_of(const struct unpack_plan * u) {
    int64_t panel = u->panel.rows ? u->panel.rows : 1;
    return ops_parts(ops_parts(u->all, u->groups * u->columns), panel) * panel;
}

static enum status plan_make(const struct kernel_spec * spec, struct unpack_plan * u,
                             struct error * err) {
    enum status st = check(spec, err);
    if (st != ST_OK) {
        return st;
    }
    enum kernel_blocks kind = kernel_blocks_of(spec);
    *u = (struct unpack_plan){.blocks = {.t = mm_type(spec->arch, DTYPE_BF16),
                                         .blocks = kind,
                                         .block_bytes = kernel_block_bytes(kind),
                                         .block_k = kernel_block_k(kind),
                                         .once_k = kernel_block_once(kind),
                                         .cut_k = kernel_block_cut(kind)},
                              .columns = ops_columns(spec),
                              .slices = spec->output.ne[0] / SLICE,
                              .at_once = CHUNK_SLICES,
                              .all = spec->output.ne[1] * spec->output.ne[2] * spec->output.ne[3],
                              .in_step = row_step(&spec->inputs[0]),
                              .out_step = row_step(&spec->output)};
    u->panel = kernel_panel_of(spec);
    if (u->panel.rows) {
        u->at_once =
            (int64_t) u->panel.words * 4 / u->blocks.block_bytes * u->blocks.block_k / SLICE;
    }
    while (u->slices % u->at_once || u->at_once % (u->blocks.cut_k / SLICE)) {
        u->at_once--;
    }
    u->unit = u->blocks.once_k / SLICE;
    int64_t most = u->columns < MMP_CORE_ROWS_GEMM ? u->columns : MMP_CORE_ROWS_GEMM;
    for (u->cores = 1; 2 * u->cores <= most && u->slices / u->unit % (2 * u->cores) == 0;) {
        u->cores *= 2;
    }
    u->ways = u->cores > 1 ? 2 : 1;
    u->groups = ops_parts(u->all, MM_TILE * u->columns);
    u->rows = rows_of(u);
    while (u->groups * u->rows > u->all) { // of one column's
        u->groups++;
        u->rows = rows_of(u);
    }
    int64_t longest = u->in_step > u->out_step ? u->in_step : u->out_step;
    if (u->panel.rows &&
        (u->panel.rows * u->panel.words > SHIM_WRAP ||
         u->at_once * SLICE * u->blocks.block_bytes / u->blocks.block_k / 4 != u->panel.words)) {
        return error_set(err, ST_UNSUPPORTED,
                         "unpack: panels of %d rows and chunks of %d words are too long",
                         u->panel.rows, u->panel.words);
    }
    if (u->groups > MOST_RUNS || u->groups * u->slices / u->cores > MOST_SLICES ||
        u->rows * longest > MMP_STEP_LIMIT) {
        return error_set(err, ST_UNSUPPORTED, "unpack: %lld rows of %lld elements are too many",
                         (long long) u->all, (long long) spec->output.ne[0]);
    }
    return ST_OK;
}

enum status unpack_plan(struct aie_plan * p, struct error * err) {
    p->program =
        mm_by_planes(kernel_blocks_of(&p->spec))
            ? &aie_programs[AIE_PROGRAM_UNPACK_PLANES]
            : aie_program_for(p->spec.arch, AIE_LAYOUT_GEMM, KERNEL_OP_UNPACK, DTYPE_BF16, false);
    return plan_make(&p->spec, &p->of.unpack, err);
}

// ---- one column ----

// Working cores take turns: out of as many units as there are cores each takes one.
static void write_turns(const struct flow * f, struct flow_tile at, const struct unpack_plan * u,
                        int turn) {
    const struct mm_plan * b = &u->blocks;
    uint32_t rows = (uint32_t) u->rows, words = mm_slice_words(b) * rows;
    int64_t turns = u->groups * u->slices / u->unit / u->cores;
    struct array_bd pass = {.address = PASS_AT,
                            .next = -1,
                            .acquire = -1,
                            .release = -1,
                            .wrap = {PASS_WORDS},
                            .step = {1, 1}};
    struct array_bd mine = {.address = mm_blocks_at(b),
                            .words = words,
                            .next = turn + 1 < u->cores ? CORE_BD_AFTER : -1,
                            .acquire = MM_LOCK_X_EMPTY,
                            .acquire_value = -1,
                            .release = MM_LOCK_X_FULL,
                            .release_value = 1,
                            .wrap = {rows}, // words stand as far apart as those of 64 rows
                            .step = {1, MM_TILE},
                            .iterations = 2,
                            .iteration_step = MM_BLOCKS_OTHER / 4};
    if (turn < u->cores) {
        flow_core_bd(f, at, CORE_BD_MINE, &mine);
    }
    int before = turn < u->cores ? turn : u->cores, after = u->cores - before - 1;
    if (before) {
        pass.words = (uint32_t) before * words;
        pass.next = turn < u->cores ? CORE_BD_MINE : -1;
        flow_core_bd(f, at, CORE_BD_BEFORE, &pass);
    }
    if (after > 0) {
        pass.words = (uint32_t) after * words;
        pass.next = -1;
        flow_core_bd(f, at, CORE_BD_AFTER, &pass);
    }
    flow_push(f, at, CORE_S2MM_QUEUE + 8, before ? CORE_BD_BEFORE : CORE_BD_MINE, turns, false);
}

static void write_core(const struct flow * f, struct flow_tile at, const struct unpack_plan * u,
                       int turn) {
    const struct mm_plan * b = &u->blocks;
    uint32_t rows = (uint32_t) u->rows, params[MM_PARAM_COUNT];
    int64_t slices = u->groups * u->slices / u->cores;
    if (turn < u->cores) {
        struct array_bd out = {.address = MM_Y,
                               .words = OUT_WORDS * rows,
                               .next = -1,
                               .acquire = MM_LOCK_C_FULL,
                               .acquire_value = -1,
                               .release = MM_LOCK_C_EMPTY,
                               .release_value = 1,
                               .wrap = {rows},
                               .step = {1, MM_TILE},
                               .iterations = 2,
                               .iteration_step = MM_UNPACKED_OTHER / 4};
        mm_params(b->t,
                  &(struct mm_shape){.x_groups = MM_TILE / b->t->x_group,
                                     .y_groups = MM_TILE / b->t->y_group,
                                     .tiles = (uint32_t) slices,
                                     .slices = (uint32_t) slices,
                                     .k = SLICE,
                                     .blocks = b->blocks,
                                     .paired = u->panel.pair != 0,
                                     .many = MM_MANY_UNPACKS},
                  params);
        if (mm_is_between(b) &&
            u->cores > 1) { // all of its units begin in a word's middle, or none
            bool odd = turn % 2;
            params[MM_PARAM_ODD] =
                odd && (!u->panel.pair || mm_by_planes(b->blocks)) ? UINT32_MAX : 0;
            params[MM_PARAM_OTHER] = MM_BLOCKS_OTHER;
            params[MM_PARAM_RAW] = MM_BLOCKS_OTHER ^ mm_blocks_at(b); // the first is the other one
            params[MM_PARAM_RAW] += odd && u->panel.pair ? MM_PAIRED_LATER : 0;
        }
        txn_block_write(f->t, image_addr(at.col, at.row, MM_PARAMS), params, MM_PARAM_COUNT);
        flow_core_bd(f, at, CORE_BD_OUT, &out);
        flow_push(f, at, CORE_MM2S_QUEUE, CORE_BD_OUT, slices, false);
    }
    write_turns(f, at, u, turn);
}

// Sets how many units a core's place has room for. The PDI has set it to 1.
static void set_room(const struct flow * f, int col, const struct unpack_plan * u, uint32_t units) {
    for (int core = 0; core < u->cores; core++) {
        uint32_t lock = (uint32_t) (LOCK_TILE_EMPTY + 2 * core);
        txn_write(f->t, image_addr(col, ARRAY_ROW_MEM, MEM_LOCK + 0x10 * lock), units);
    }
}

static int half(int channel) {
    return channel % 2 ? ARRAY_MEM_BD_ODD : 0;
}

static void write_chunks(const struct flow * f, int col, const struct unpack_plan * u) {
    const struct mm_plan * b = &u->blocks;
    struct flow_tile at = {col, ARRAY_ROW_MEM};
    uint32_t rows = (uint32_t) u->rows, chunk_k = (uint32_t) u->at_once * SLICE;
    uint32_t words = mm_chunk_bytes(b, chunk_k) / 4;
    int empty = LOCK_IN_EMPTY + 2 * CHANNEL, bd = half(CHANNEL) + MEM_BD_CHUNKS;
    int64_t chunks = u->groups * u->slices / u->at_once;
    struct mm_turns turns = mm_by_turns(0, rows * words, empty);
    mm_send_words(b, &turns.out, rows, words, chunk_k / (uint32_t) b->once_k);
    flow_mem_bd(f, col, bd, &turns.in);
    flow_mem_bd(f, col, bd + 1, &turns.out);
    flow_push(f, at, MEM_S2MM_QUEUE + 8 * CHANNEL, bd, chunks, false);
    flow_push(f, at, MEM_MM2S_QUEUE + 8 * (uint32_t) (mm_gemm_ways.out + 1), bd + 1, chunks, false);
}

// Units of each core in two places; by a channel those of one core leave, or of two by turns.
static void write_units(const struct flow * f, int col, const struct unpack_plan * u) {
    const struct mm_plan * b = &u->blocks;
    struct flow_tile at = {col, ARRAY_ROW_MEM};
    uint32_t rows = (uint32_t) u->rows, chunk_k = (uint32_t) u->at_once * SLICE;
    uint32_t unit = (uint32_t) u->unit * OUT_WORDS;
    uint32_t first = 2 * rows * mm_chunk_bytes(b, chunk_k);
    int64_t turns = u->groups * u->slices / u->unit / u->cores;
    set_room(f, col, u, 2);
    for (int core = 0; core < u->cores; core++) {
        int in = mm_gemm_ways.tiles_in + core, way = mm_gemm_ways.tiles_out + core % u->ways;
        int second = core / u->ways, bd = half(way) + MEM_BD_LEAVE + second;
        int empty = LOCK_TILE_EMPTY + 2 * core;
        struct array_bd come = {.address = first + 2 * 4 * rows * unit * (uint32_t) core,
                                .words = rows * unit,
                                .next = -1,
                                .acquire = empty,
                                .acquire_value = -1,
                                .release = empty + 1,
                                .release_value = 1,
                                .wrap = {rows},
                                .step = {unit, 1},
                                .iterations = 2,
                                .iteration_step = rows * unit};
        struct array_bd leave = {.address = come.address,
                                 .words = rows * unit,
                                 .next = core + u->ways < u->cores ? bd + 1 : -1,
                                 .acquire = empty + 1,
                                 .acquire_value = -1,
                                 .release = empty,
                                 .release_value = 1,
                                 .iterations = 2,
                                 .iteration_step = rows * unit};
        flow_mem_bd(f, col, half(in) + MEM_BD_UNITS + second, &come);
        flow_mem_bd(f, col, bd, &leave);
        flow_push(f, at, MEM_S2MM_QUEUE + 8 * (uint32_t) in, half(in) + MEM_BD_UNITS + second,
                  turns, false);
    }
    for (int i = 0; i < u->ways; i++) {
        int way = mm_gemm_ways.tiles_out + i;
        flow_push(f, at, MEM_MM2S_QUEUE + 8 * (uint32_t) way, half(way) + MEM_BD_LEAVE, turns,
                  false);
    }
}

// A column's rows, of which a run takes as many as a core does: chunk by chunk, and unit by unit.
static void write_shim(const struct flow * f, int col, const struct unpack_plan * u) {
    struct flow_tile at = {col, ARRAY_ROW_SHIM};
    uint32_t rows = (uint32_t) u->rows, chunk_k = (uint32_t) u->at_once * SLICE;
    uint32_t unit = (uint32_t) u->unit * OUT_WORDS, ways = (uint32_t) u->ways;
    uint32_t words = mm_chunk_bytes(&u->blocks, chunk_k) / 4;
    uint32_t runs = u->groups > 1 ? (uint32_t) u->groups : 0; // none: one
    int64_t share = u->groups * u->rows;
    int64_t first = col * share < u->all - share ? col * share : u->all - share;
    struct array_bd out = {.words = rows * (uint32_t) u->slices * OUT_WORDS / ways,
                           .next = -1,
                           .wrap = {unit, rows},
                           .step = {1, (uint32_t) u->out_step, ways * unit},
                           .iterations = runs,
                           .iteration_step = runs ? rows * (uint32_t) u->out_step : 0};
    uint32_t panel = u->panel.rows ? (uint32_t) u->panel.rows : 1; // whose chunks are one run
    struct array_bd in = {.words = (uint32_t) (u->slices / u->at_once) * rows * words,
                          .next = -1,
                          .wrap = {panel * words, rows / panel},
                          .step = {1, panel * (uint32_t) u->in_step, panel * words},
                          .iterations = runs,
                          .iteration_step = runs ? rows * (uint32_t) u->in_step : 0};
    for (int i = 0; i < u->ways; i++) {
        int64_t offset = 4 * (first * u->out_step + i * (int64_t) unit);
        flow_shim_bd(f, col, SHIM_BD_OUT + i, &out, OPERAND_OUT, (uint32_t) offset);
        flow_push(f, at, SHIM_S2MM_QUEUE + 8 * (uint32_t) i, SHIM_BD_OUT + i, u->groups, true);
    }
    flow_shim_bd(f, col, SHIM_BD_IN, &in, OPERAND_IN, (uint32_t) (4 * first * u->in_step));
    flow_push(f, at, SHIM_MM2S_QUEUE + 8 * CHANNEL, SHIM_BD_IN, u->groups, false);
}

enum status unpack_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                          struct error * err) {
    const struct aie_target * target = aie_target(p->spec.arch);
    const struct unpack_plan * u = &p->of.unpack;
    int rows = u->columns < MMP_CORE_ROWS_GEMM ? u->columns : MMP_CORE_ROWS_GEMM;
    struct txn t;
    struct flow flow = {&t, target};
    txn_begin(&t, u->columns, target->device_generation);
    for (int col = 0; col < u->columns; col++) {
        for (int i = 0; i < u->ways; i++) {
            flow_expect(&flow, col, i);
        }
        for (int row = 0; row < rows; row++) {
            write_core(&flow, (struct flow_tile){col, ARRAY_ROW_CORE + row}, u, row);
        }
        write_chunks(&flow, col, u);
        write_units(&flow, col, u);
        write_shim(&flow, col, u);
    }
    for (int col = 0; col < u->columns; col++) {
        for (int i = 0; i < u->ways; i++) {
            flow_wait(&flow, col, i);
        }
        set_room(&flow, col, u, 1);
    }
    return txn_end(&t, insts, n_words, err);
}

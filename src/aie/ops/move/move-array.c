// move-array: the instruction streams of moves. The array is that of the elementwise ops of a
// decoder layer, or the mixed one that has their program too; a copy uses its shims and memtiles
// alone, a cast its cores too.
#include "move.h"

#include "aie/ops/mixed.h"

#include <stdio.h>

enum { SHIM_BD_IN, SHIM_BD_OUT };

// The elementwise kernel whose program and index stand for the move.
static struct kernel_spec stand_in(const struct kernel_spec * spec, enum kernel_op op) {
    struct tensor t = tensor_contiguous(DTYPE_F32, (const int64_t[TENSOR_DIMS]){64, 1, 1, 1});
    return (struct kernel_spec){.op = op,
                                .arch = spec->arch,
                                .columns = spec->columns,
                                .n_inputs = kernel_op_info(op)->n_inputs,
                                .inputs = {t, t},
                                .output = t};
}

static const struct {
    enum dtype from, to;
} casts[KERNEL_OP_COUNT] = {
    [KERNEL_OP_TO_F16] = {DTYPE_F32, DTYPE_F16},
    [KERNEL_OP_TO_BF16] = {DTYPE_F32, DTYPE_BF16},
    [KERNEL_OP_FROM_F16] = {DTYPE_F16, DTYPE_F32},
    [KERNEL_OP_FROM_BF16] = {DTYPE_BF16, DTYPE_F32},
};

enum status move_supports(const struct kernel_spec * spec, struct error * err) {
    const enum dtype from = spec->inputs[0].dtype, to = spec->output.dtype;
    bool copy = spec->op == KERNEL_OP_COPY;
    if (spec->n_inputs != 1) {
        return error_set(err, ST_INVALID, "%s takes one input", kernel_op_name(spec->op));
    }
    if (copy ? from != to : from != casts[spec->op].from || to != casts[spec->op].to) {
        return error_set(err, ST_UNSUPPORTED, "%s from %s to %s", kernel_op_name(spec->op),
                         dtype_name(from), dtype_name(to));
    }
    struct move_plan plan;
    return move_plan_make(spec, &plan, err);
}

enum status move_image(const struct kernel_spec * spec, struct array_program * out,
                       struct error * err) {
    struct kernel_spec add = stand_in(spec, KERNEL_OP_ADD);
    return elementwise_image(&add, out, err);
}

// ---- instruction stream ----

static void shim(const struct flow * f, int col, int bd, const struct plan_walk * w, int operand,
                 uint32_t queue) {
    bool moves = w->repeat > 1 && w->repeat_step;
    flow_shim_bd(f, col, bd,
                 &(struct array_bd){.words = w->words,
                                    .next = -1,
                                    .wrap = {w->wrap[0], w->wrap[1]},
                                    .step = {w->step[0], w->step[1], w->step[2]},
                                    .iterations = moves ? w->repeat : 0,
                                    .iteration_step = w->repeat_step},
                 operand, w->offset);
    flow_push(f, (struct flow_tile){col, ARRAY_ROW_SHIM}, queue, bd, w->repeat,
              queue == SHIM_S2MM_QUEUE);
}

// Chunks of whole trips; short pieces in about eight for each core.
static uint32_t chunk_elements(int64_t elements, int cores) {
    int64_t chunk = (elements / (8 * cores) + 63) / 64 * 64;
    return (uint32_t) (chunk < 128 ? 128 : chunk > EW_CHUNK_WORDS ? EW_CHUNK_WORDS : chunk);
}

static void start_cast(const struct flow * f, const struct kernel_spec * spec, int col,
                       const struct move_piece * piece, const struct spread_crew * crew) {
    int64_t elements = 2 * piece->units;
    uint32_t chunk = chunk_elements(elements, crew->cores), last = (uint32_t) (elements % chunk);
    struct spread s = {.buffers = ew_buffers,
                       .cores = crew->cores,
                       .mixed = crew->mixed,
                       .first = crew->mixed ? MIXED_ELEMENTWISE : 0};
    for (int o = 0; o < MOVE_OPERANDS; o++) {
        uint32_t size =
            (uint32_t) dtype_size(o == MOVE_IN ? spec->inputs[0].dtype : spec->output.dtype);
        s.streams[o == MOVE_IN ? SPREAD_A : SPREAD_OUT] =
            (struct spread_stream){.full = (uint32_t) (elements / chunk),
                                   .chunk = chunk * size / 4,
                                   .last = last * size / 4};
    }
    struct kernel_spec loop = stand_in(spec, spec->op);
    uint32_t trip = (uint32_t) ew_trip_words(&loop);
    for (int i = 0; i < crew->cores; i++) {
        if (!spread_chunks(&s, i)) {
            continue;
        }
        uint32_t end = spread_has_last(&s, i) ? last : chunk;
        uint32_t params[EW_PARAM_ARGS] = {
            [EW_PARAM_CHUNKS] = spread_chunks(&s, i),
            [EW_PARAM_TRIPS] = (chunk + trip - 1) / trip,
            [EW_PARAM_TRIPS_LAST] = (end + trip - 1) / trip,
            [EW_PARAM_OP] = ew_index(&loop),
        };
        struct flow_tile at = spread_core(&s, col, i);
        txn_block_write(f->t, image_addr(at.col, at.row, EW_PARAMS), params, EW_PARAM_ARGS);
    }
    spread_start(f, col, &s); // then data may come
}

static void start_column(const struct flow * f, const struct kernel_spec * spec, int col,
                         const struct move_piece * piece, const struct spread_crew * crew) {
    shim(f, col, SHIM_BD_IN, &piece->walk[MOVE_IN], 0, SHIM_MM2S_QUEUE);
    if (spec->op == KERNEL_OP_COPY) {
        spread_pass(f, col, (uint32_t) piece->units);
    } else {
        start_cast(f, spec, col, piece, crew);
    }
    flow_expect(f, col, 0);
    shim(f, col, SHIM_BD_OUT, &piece->walk[MOVE_OUT], 1, SHIM_S2MM_QUEUE);
}

static struct spread_crew crew_for(const struct kernel_spec * spec, const struct move_plan * plan) {
    bool copy = spec->op == KERNEL_OP_COPY;
    bool f16 = spec->inputs[0].dtype == DTYPE_F16 || spec->output.dtype == DTYPE_F16;
    uint64_t elements = (uint64_t) tensor_elements(&spec->output);
    uint64_t size = copy ? (uint64_t) dtype_size(spec->output.dtype) : 4;
    return spread_crew_for(
        &(struct spread_work){.words = elements * size / 4,
                              .all_words = elements * size / 4,
                              .words_a_cycle = ops_stream_words(spec),
                              .cycles = copy ? 0 : elements * (f16 ? 6 : 1),
                              .telling = copy ? 0 : 2000,
                              .least_columns = plan->runs > 1 ? ops_columns(spec) : 1,
                              .most_columns = ops_columns(spec),
                              .most_cores = copy ? 1 : SPREAD_CORES,
                              .may_mix = true,
                              .mixed_columns = copy ? 0 : mixed_columns(ops_columns(spec))});
}

void move_name(const struct kernel_spec * spec, char name[KERNEL_NAME_MAX]) {
    struct move_plan plan;
    if (move_plan_make(spec, &plan, NULL) == ST_OK && crew_for(spec, &plan).mixed) {
        snprintf(name, KERNEL_NAME_MAX, "%s", MIXED_NAME);
        return;
    }
    snprintf(name, KERNEL_NAME_MAX, "%s_%s",
             ew_program_name(ew_find(KERNEL_OP_ADD, DTYPE_F32), spec->arch, DTYPE_F32),
             dtype_name(DTYPE_F32));
}

enum status move_insts(const struct kernel_spec * spec, uint32_t ** insts, size_t * n_words,
                       struct error * err) {
    struct move_plan plan;
    enum status st = move_supports(spec, err);
    if (st == ST_OK) {
        st = move_plan_make(spec, &plan, err);
    }
    if (st != ST_OK) {
        return st;
    }
    const struct aie_target * target = aie_target(spec->arch);
    struct txn t;
    struct flow f = {&t, target};
    txn_begin(&t, ops_columns(spec), target->device_generation);
    struct spread_crew crew = crew_for(spec, &plan);
    struct move_cursor cursor = {0};
    struct move_piece piece;
    bool few = crew.mixed && spec->op != KERNEL_OP_COPY; // copies need no core
    int columns = few ? mixed_columns(ops_columns(spec)) : ops_columns(spec);
    for (int col = 0; move_plan_next(&plan, &cursor, crew.columns, &piece);) {
        start_column(&f, spec, col, &piece, &crew);
        if (++col == columns || cursor.run == plan.runs) {
            for (int c = 0; c < col; c++) {
                flow_wait(&f, c, 0);
            }
            col = 0;
        }
    }
    return txn_end(&t, insts, n_words, err);
}

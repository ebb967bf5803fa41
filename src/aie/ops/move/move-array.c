// move-array: the instruction streams of moves. The array is that of the elementwise ops of a
// decoder layer, or the mixed one that has their program too; a copy uses its shims and memtiles
// alone, a cast its cores too.
#include "aie/ops/mixed.h"
#include "aie/plan/plan.h"

enum { SHIM_BD_IN, SHIM_BD_OUT };

static const struct {
    enum dtype from, to;
} casts[KERNEL_OP_COUNT] = {
    [KERNEL_OP_TO_F16] = {DTYPE_F32, DTYPE_F16},
    [KERNEL_OP_TO_BF16] = {DTYPE_F32, DTYPE_BF16},
    [KERNEL_OP_FROM_F16] = {DTYPE_F16, DTYPE_F32},
    [KERNEL_OP_FROM_BF16] = {DTYPE_BF16, DTYPE_F32},
};

static enum status check(const struct kernel_spec * spec, struct error * err) {
    const enum dtype from = spec->inputs[0].dtype, to = spec->output.dtype;
    bool copy = spec->op == KERNEL_OP_COPY;
    if (spec->n_inputs != 1) {
        return error_set(err, ST_INVALID, "%s takes one input", kernel_op_name(spec->op));
    }
    if (copy ? from != to : from != casts[spec->op].from || to != casts[spec->op].to) {
        return error_set(err, ST_UNSUPPORTED, "%s from %s to %s", kernel_op_name(spec->op),
                         dtype_name(from), dtype_name(to));
    }
    if (spec->params[0] >= KERNEL_PLACES) {
        return error_set(err, ST_INVALID, "%s: there is no place %u", kernel_op_name(spec->op),
                         spec->params[0]);
    }
    return ST_OK;
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
    const struct aie_program * layer = &aie_programs[AIE_PROGRAM_LAYER_F32];
    uint32_t trip = (uint32_t) ew_trip_words(layer, spec->arch, spec->op);
    for (int i = 0; i < crew->cores; i++) {
        if (!spread_chunks(&s, i)) {
            continue;
        }
        uint32_t end = spread_has_last(&s, i) ? last : chunk;
        uint32_t params[EW_PARAM_ARGS] = {
            [EW_PARAM_CHUNKS] = spread_chunks(&s, i),
            [EW_PARAM_TRIPS] = (chunk + trip - 1) / trip,
            [EW_PARAM_TRIPS_LAST] = (end + trip - 1) / trip,
            [EW_PARAM_OP] = ew_index(layer, spec->op),
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
        &(struct spread_work){.times = aie_times(spec->arch),
                              .words = elements * size / 4,
                              .all_words = elements * size / 4,
                              .words_a_cycle = ops_stream_words(spec),
                              .cycles = copy ? 0 : elements * (f16 ? 6 : 1),
                              .telling = copy ? 0 : 2000,
                              .least_columns = plan->runs > 1 ? ops_columns(spec) : 1,
                              .most_columns = ops_columns(spec),
                              .most_cores = copy ? 1 : SPREAD_CORES,
                              .may_mix = spec->params[0] != KERNEL_ON_LAYER,
                              .mixed_columns = copy ? 0 : mixed_columns(ops_columns(spec))});
}

enum status move_plan(struct aie_plan * p, struct error * err) {
    struct move_plan * plan = &p->of.move;
    enum status st = check(&p->spec, err);
    st = st == ST_OK ? move_plan_make(&p->spec, plan, err) : st;
    if (st == ST_OK) {
        plan->crew = crew_for(&p->spec, plan);
        p->program = &aie_programs[plan->crew.mixed ? AIE_PROGRAM_DECODER : AIE_PROGRAM_LAYER_F32];
    }
    return st;
}

enum status move_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                        struct error * err) {
    const struct kernel_spec * spec = &p->spec;
    const struct move_plan * plan = &p->of.move;
    const struct spread_crew * crew = &plan->crew;
    const struct aie_target * target = aie_target(spec->arch);
    struct txn t;
    struct flow f = {&t, target};
    txn_begin(&t, p->columns, target->device_generation);
    struct move_cursor cursor = {0};
    struct move_piece piece;
    bool few = crew->mixed && spec->op != KERNEL_OP_COPY; // copies need no core
    int columns = few ? mixed_columns(p->columns) : p->columns;
    for (int col = 0; move_plan_next(plan, &cursor, crew->columns, &piece);) {
        start_column(&f, spec, col, &piece, crew);
        if (++col == columns || cursor.run == plan->runs) {
            for (int c = 0; c < col; c++) {
                flow_wait(&f, c, 0);
            }
            col = 0;
        }
    }
    return txn_end(&t, insts, n_words, err);
}

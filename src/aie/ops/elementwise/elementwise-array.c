// elementwise-array: the array around the elementwise core program. The PDI puts that program into
// every core, or into one of a column (mixed.h), and joins a column's cores through its memtile
// (array/spread.h). The instruction stream deals each piece of work to as many cores of a column as
// are worth the telling, writes their parameters, sets them going, points the shim's descriptors at
// the operands and waits. Tile descriptors are written for each run instead of looping for ever, so
// that lengths may be anything and every queue is empty when the run is over.
#include "aie/ops/mixed.h"
#include "aie/plan/bound.h"
#include "aie/plan/plan.h"

#include <string.h>

enum { OPERAND_A, OPERAND_B, OPERAND_OUT };

// Shim descriptors: a, out, then a chain for b, or those of the second way.
enum { SHIM_BD_A, SHIM_BD_OUT, SHIM_BD_B, SHIM_BDS_OF_WAY = SHIM_BD_B };

const struct spread_buffer ew_buffers[SPREAD_STREAMS] = {
    [SPREAD_A] = {EW_BUFFER_A, EW_CHUNK_BYTES, EW_LOCK_A_EMPTY, EW_LOCK_A_FULL},
    [SPREAD_B] = {EW_BUFFER_B, EW_CHUNK_BYTES, EW_LOCK_B_EMPTY, EW_LOCK_B_FULL},
    [SPREAD_OUT] = {EW_BUFFER_OUT, EW_BUFFER_OUT_PONG - EW_BUFFER_OUT, EW_LOCK_OUT_EMPTY,
                    EW_LOCK_OUT_FULL},
};

static enum status check(const struct kernel_spec * spec, struct error * err) {
    const struct tensor *a = &spec->inputs[0], *out = &spec->output;
    int n_inputs = kernel_op_info(spec->op)->n_inputs;
    if (spec->n_inputs != n_inputs) {
        return error_set(err, ST_INVALID, "%s takes %d inputs, %d given", kernel_op_name(spec->op),
                         n_inputs, spec->n_inputs);
    }
    for (int i = 0; i < n_inputs; i++) {
        const struct tensor * in = &spec->inputs[i];
        if (in->dtype != out->dtype) {
            return error_set(err, ST_UNSUPPORTED, "the datatypes %s and %s differ",
                             dtype_name(in->dtype), dtype_name(out->dtype));
        }
        if (tensor_elements(in) <= 0) {
            return error_set(err, ST_UNSUPPORTED, "a tensor without elements");
        }
        if (!tensor_can_repeat(in, out) || (i == 0 && !tensor_same_shape(a, out))) {
            return error_set(err, ST_INVALID, "input %d does not repeat to the shape of the output",
                             i);
        }
    }
    for (int i = 0; i <= n_inputs; i++) {
        int64_t bytes = tensor_bytes(i < n_inputs ? &spec->inputs[i] : out);
        if (bytes < 0 || bytes > (int64_t) UINT32_MAX - 4) {
            return error_set(err, ST_UNSUPPORTED, "a tensor of 4 GiB or more");
        }
    }
    if (spec->op == KERNEL_OP_ROTATE && (a->ne[0] % 2 || spec->inputs[1].ne[0] != a->ne[0])) {
        return error_set(err, ST_INVALID, "rows of %lld are not pairs with an angle each",
                         (long long) a->ne[0]);
    }
    if (kernel_has_place(spec->op) && spec->params[0] >= KERNEL_PLACES) {
        return error_set(err, ST_INVALID, "%s: there is no place %u", kernel_op_name(spec->op),
                         spec->params[0]);
    }
    if (!ew_find(spec->op, out->dtype)) {
        return error_set(err, ST_UNSUPPORTED, "no %s for %s", kernel_op_name(spec->op),
                         dtype_name(out->dtype));
    }
    return ST_OK;
}

enum status elementwise_image(const struct aie_program * of, enum aie_arch arch,
                              struct array_program * out, struct error * err) {
    struct ew_program program;
    enum status st = elementwise_program(of, arch, &program, err);
    if (st != ST_OK) {
        return st;
    }
    *out = (struct array_program){.code = program.code.bytes,
                                  .size = program.code.size,
                                  .locks = ew_lock_init,
                                  .n_locks = EW_LOCK_COUNT,
                                  .mem_locks = SPREAD_PLAIN_LOCKS};
    return array_program_data(out, program.pool_at, program.pool, program.pool_size, err);
}

// ---- instruction stream ----

static struct array_bd shim_bd(const struct plan_walk * walk, int next) {
    bool moves = walk->repeat > 1 && walk->repeat_step;
    return (struct array_bd){.words = walk->words,
                             .next = next,
                             .wrap = {walk->wrap[0], walk->wrap[1]},
                             .step = {walk->step[0], walk->step[1], walk->step[2]},
                             .iterations = moves ? walk->repeat : 0,
                             .iteration_step = walk->repeat_step};
}

// Descriptors of b, where it repeats: one that is repeated, as far as a task allows; else a chain
// of equal ones, which is repeated, and its tail once more for the rest. Writing a descriptor and
// patching its address takes the instruction stream longer than most rows take.
static int chain_of(const struct plan_piece * piece) {
    return piece->mode == PLAN_PERIOD
               ? (int) ((piece->rows + ARRAY_MAX_REPEAT - 1) / ARRAY_MAX_REPEAT)
               : 1;
}

static int shim_bds(const struct kernel_spec * spec, const struct plan_piece * piece,
                    struct array_bd * d) {
    int n = SHIM_BD_B;
    d[SHIM_BD_A] = shim_bd(&piece->walk[PLAN_A], -1);
    d[SHIM_BD_OUT] = shim_bd(&piece->walk[PLAN_OUT], -1);
    for (int i = 0, chain = chain_of(piece); spec->n_inputs > 1 && i < chain; i++, n++) {
        d[n] = shim_bd(&piece->walk[PLAN_B], i + 1 < chain ? n + 1 : -1);
    }
    return n;
}

// Queues of a shim, as flow_tasks counts them.
enum { QUEUE_OUT, QUEUE_IN = 2, QUEUE_B };

static void start_shim_b(const struct flow * f, struct flow_tasks * t, int col,
                         const struct plan_piece * piece) {
    const struct plan_walk * walk = &piece->walk[PLAN_B];
    int chain = chain_of(piece);
    for (int i = 0; i < chain; i++) {
        flow_shim_aim(f, col, SHIM_BD_B + i, OPERAND_B, walk->offset);
    }
    if (piece->mode == PLAN_PERIOD) {
        uint32_t rest = piece->rows % (uint32_t) chain;
        flow_task(t, QUEUE_B, SHIM_BD_B, piece->rows / (uint32_t) chain, false);
        flow_task(t, QUEUE_B, SHIM_BD_B + chain - (int) rest, rest > 0, false);
    } else {
        flow_task(t, QUEUE_B, SHIM_BD_B, walk->repeat, false);
    }
}

// ---- who does how much ----

// Tenths of a cycle that a core with wide loads takes for a word, locks and the loop's ends with
// it; of f16 it is for ops on bits.
static const struct {
    enum kernel_op op;
    uint8_t f32, bf16, bits;
} tenths[] = {
    {KERNEL_OP_ADD, 3, 5, 3},           {KERNEL_OP_SUB, 3, 5, 3},
    {KERNEL_OP_MUL, 13, 4, 6},          {KERNEL_OP_SQR, 10, 3, 0},
    {KERNEL_OP_SCALE, 11, 6, 0},        {KERNEL_OP_LEAKY_RELU, 16, 5, 0},
    {KERNEL_OP_CLAMP, 7, 7, 7},         {KERNEL_OP_RELU, 4, 4, 4},
    {KERNEL_OP_STEP, 5, 5, 5},          {KERNEL_OP_SGN, 7, 7, 7},
    {KERNEL_OP_ABS, 3, 3, 3},           {KERNEL_OP_NEG, 3, 3, 3},
    {KERNEL_OP_FLOOR, 12, 10, 0},       {KERNEL_OP_CEIL, 12, 9, 0},
    {KERNEL_OP_ROUND, 13, 7, 0},        {KERNEL_OP_TRUNC, 10, 7, 0},
    {KERNEL_OP_HARDSIGMOID, 8, 8, 0},   {KERNEL_OP_HARDSWISH, 16, 13, 0},
    {KERNEL_OP_REGLU, 10, 19, 0},       {KERNEL_OP_EXP, 11, 20, 0},
    {KERNEL_OP_EXPM1, 12, 22, 0},       {KERNEL_OP_ELU, 13, 22, 0},
    {KERNEL_OP_SILU, 14, 26, 0},        {KERNEL_OP_SIGMOID, 15, 26, 0},
    {KERNEL_OP_SWIGLU, 19, 34, 0},      {KERNEL_OP_GELU, 21, 36, 0},
    {KERNEL_OP_GEGLU, 25, 46, 0},       {KERNEL_OP_GELU_QUICK, 15, 28, 0},
    {KERNEL_OP_GEGLU_QUICK, 23, 35, 0}, {KERNEL_OP_TANH, 22, 42, 0},
    {KERNEL_OP_SOFTPLUS, 32, 83, 0},    {KERNEL_OP_LOG, 29, 71, 0},
    {KERNEL_OP_SQRT, 28, 83, 0},        {KERNEL_OP_DIV, 34, 76, 0},
    {KERNEL_OP_GELU_ERF, 31, 54, 0},    {KERNEL_OP_GEGLU_ERF, 33, 65, 0},
};

static uint64_t wide_tenths(const struct kernel_spec * spec, enum ew_weight weight) {
    enum { FUNCTION = 35, FUNCTION_BF16 = 75, IN_STAGES = 120 };
    enum dtype t = spec->output.dtype;
    if (weight == EW_STAGES && ew_exact(spec)) {
        return IN_STAGES;
    }
    for (size_t i = 0; i < sizeof tenths / sizeof tenths[0]; i++) {
        if (tenths[i].op == spec->op) {
            return t == DTYPE_F32    ? tenths[i].f32
                   : t == DTYPE_BF16 ? tenths[i].bf16
                                     : tenths[i].bits;
        }
    }
    return t == DTYPE_BF16 ? FUNCTION_BF16 : FUNCTION;
}

// About how many cycles a core takes for so many words.
static uint64_t core_cycles(const struct kernel_spec * spec, uint64_t words) {
    static const uint8_t cycles[EW_WEIGHTS][DTYPE_COUNT] = {
        [EW_NATIVE] = {[DTYPE_F32] = 1, [DTYPE_F16] = 1, [DTYPE_BF16] = 1, 1, 1, 1},
        [EW_SUM] = {[DTYPE_F32] = 1, [DTYPE_F16] = 8, [DTYPE_BF16] = 1},
        [EW_LANES] = {[DTYPE_F32] = 2, [DTYPE_F16] = 12, [DTYPE_BF16] = 2},
        [EW_STAGES] = {[DTYPE_F32] = 12, [DTYPE_F16] = 20, [DTYPE_BF16] = 16, 8, 8, 8},
    };
    enum dtype t = spec->output.dtype;
    enum ew_weight weight = ew_weight(ew_find(spec->op, t));
    if (aie_target(spec->arch)->load_bytes > 32 &&
        (t == DTYPE_F32 || t == DTYPE_BF16 || weight == EW_NATIVE)) {
        return words * wide_tenths(spec, weight) / 10;
    }
    return words * cycles[weight][t];
}

// Where there are several runs, columns take them by turns: then all do.
static struct spread_crew crew_for(const struct kernel_spec * spec,
                                   const struct aie_program * program, int64_t runs, int columns) {
    uint64_t words =
        (uint64_t) (tensor_elements(&spec->output) * dtype_size(spec->output.dtype)) / 4;
    bool streams_b = spec->n_inputs > 1 && tensor_elements(&spec->inputs[1]) > 1;
    int inputs = streams_b ? 2 : 1;
    return spread_crew_for(&(struct spread_work){
        .times = aie_times(spec->arch),
        .words = words,
        .all_words = (uint64_t) inputs * words,
        .words_a_cycle = ops_stream_words(spec),
        .shared_words = (uint64_t) inputs * words,
        .cycles = core_cycles(spec, words),
        .most_words = PLAN_LONE_WORDS,
        .telling = streams_b ? 1550 : 1200,
        .way_telling = streams_b ? 3500 : 2000,
        .lone_telling = streams_b ? 0 : 900,
        .least_columns = runs > 1 ? columns : 1,
        .most_columns = columns,
        .most_cores = SPREAD_CORES,
        .most_ways = spec->n_inputs > 1 ? 1 : 2,
        .leads = runs == 1 && words / (uint64_t) columns >= PLAN_LEADS_FROM,
        .may_mix = program == &aie_programs[AIE_PROGRAM_LAYER_F32] &&
                   !(kernel_has_place(spec->op) && spec->params[0] == KERNEL_ON_LAYER),
        .mixed_columns = mixed_columns(columns),
    });
}

enum status elementwise_plan(struct aie_plan * p, struct error * err) {
    struct ew_plan * plan = &p->of.elementwise;
    enum status st = check(&p->spec, err);
    st = st == ST_OK ? ew_plan_make(&p->spec, plan, err) : st;
    if (st == ST_OK) {
        plan->program = ew_program(&p->spec);
        plan->crew = crew_for(&p->spec, plan->program, plan->runs, p->columns);
        plan->lead = (int64_t) plan->crew.lead;
        plan->cores = plan->crew.cores;
        plan->ways = plan->crew.ways;
        p->program = plan->crew.mixed ? &aie_programs[AIE_PROGRAM_DECODER] : plan->program;
    }
    return st;
}

uint64_t elementwise_bound(const struct kernel_spec * spec) {
    const struct aie_times * t = aie_times(spec->arch);
    return spec->op == KERNEL_OP_ROTATE
               ? bound_scattered(spec, &t->heavy)
               : bound_elements(spec, ew_is_plain(spec->op) ? &t->plain : &t->heavy);
}

// Long pieces move in full chunks; short ones in about eight for each core, so that loading,
// computing and storing overlap there too. Chunks that come out even save descriptors.
static uint32_t chunk_words(uint32_t words, uint32_t cores, uint32_t trip) {
    uint32_t chunk = (words / (8 * cores) + 63) / 64 * 64;
    chunk = chunk < 128 ? 128 : chunk > EW_CHUNK_WORDS ? EW_CHUNK_WORDS : chunk;
    uint32_t least = (words + chunk - 1) / chunk;
    for (uint32_t n = least; n < least + least / 4 + 2; n++) {
        if (words % n == 0 && words / n % trip == 0) {
            return words / n;
        }
    }
    return words < chunk ? words : chunk;
}

// Whole rows of pairs whose halves lie apart, each brought together by itself.
static uint32_t whole_rows(uint32_t chunk, uint32_t row) {
    return chunk > row ? chunk / row * row : row;
}

static uint32_t trip_words(const struct aie_plan * p) {
    return (uint32_t) ew_trip_words(p->of.elementwise.program, p->spec.arch, p->spec.op);
}

static void write_params(const struct flow * f, const struct aie_plan * p, int col, int core,
                         const struct spread * s, const struct plan_piece * piece) {
    const struct kernel_spec * spec = &p->spec;
    uint32_t trip = trip_words(p);
    bool has_b = spec->n_inputs > 1, splat = piece->mode == PLAN_SPLAT;
    uint32_t chunk = s->streams[SPREAD_A].chunk;
    uint32_t last = spread_has_last(s, core) ? s->streams[SPREAD_A].last : chunk;
    uint32_t params[EW_PARAM_COUNT] = {
        [EW_PARAM_CHUNKS] = spread_chunks(s, core),
        [EW_PARAM_TRIPS] = (chunk + trip - 1) / trip,
        [EW_PARAM_TRIPS_LAST] = (last + trip - 1) / trip,
        [EW_PARAM_OP] = ew_index(p->of.elementwise.program, spec->op),
        [EW_PARAM_STREAM_B] = has_b && !splat,
        [EW_PARAM_SPLAT_B] = has_b && splat,
        [EW_PARAM_SPLAT_BYTE] = piece->splat_byte,
    };
    ew_args(spec, params + EW_PARAM_ARGS);
    int n_params = ew_n_args(spec->op);
    struct flow_tile at = spread_core(s, col, core);
    txn_block_write(f->t, image_addr(at.col, at.row, EW_PARAMS), params,
                    (size_t) (EW_PARAM_ARGS + n_params));
}

static struct spread spread_of(const struct aie_plan * p, const struct plan_piece * piece,
                               int way) {
    const struct spread_crew * crew = &p->of.elementwise.crew;
    bool has_b = p->spec.n_inputs > 1, splat = piece->mode == PLAN_SPLAT;
    uint32_t trip = trip_words(p);
    struct spread s = {.buffers = ew_buffers,
                       .cores = crew->cores,
                       .mixed = crew->mixed,
                       .ways = !crew->mixed,
                       .way = way,
                       .first = crew->mixed ? MIXED_ELEMENTWISE : spread_first(way, crew->cores)};
    uint32_t chunk = chunk_words(piece->words, (uint32_t) crew->cores, trip);
    uint32_t half = p->of.elementwise.half;
    chunk = half ? whole_rows(chunk, 2 * half) : chunk;
    for (int i = 0; i < SPREAD_STREAMS; i++) {
        if (i != SPREAD_B || (has_b && !splat)) {
            s.streams[i].full = piece->words / chunk;
            s.streams[i].chunk = chunk;
            s.streams[i].last = piece->words % chunk;
        }
        if (half && i != SPREAD_B) {
            s.streams[i].layout = (struct flow_layout){{half, 2}, {2, 1, 2 * half}};
        }
    }
    s.word = (struct spread_word){.there = has_b && splat,
                                  .address = EW_BUFFER_B,
                                  .acquire = EW_LOCK_B_EMPTY,
                                  .release = EW_LOCK_B_FULL};
    return s;
}

// Inputs and results of a column's ways, at the shim. What several kernels in one dispatch say of
// its tokens is said once, if it is said by itself: so the mixed ones do.
static void start_shim(const struct flow * f, const struct kernel_spec * spec, int col,
                       const struct plan_piece * pieces, int ways, bool mixed) {
    struct array_bd d[SHIM_BD_B + PLAN_PERIOD_BDS];
    struct flow_tasks t = {.at = {col, ARRAY_ROW_SHIM}, .first = SHIM_S2MM_QUEUE};
    int n = 0, out = spec->n_inputs; // operands are the inputs, then the output
    for (int i = 0; i < ways; i++) {
        n += shim_bds(spec, &pieces[i], d + n);
    }
    flow_shim_bds(f, col, 0, d, n);
    for (int i = 0; i < ways; i++) {
        const struct plan_walk *from = &pieces[i].walk[PLAN_A], *to = &pieces[i].walk[PLAN_OUT];
        int first = i * SHIM_BDS_OF_WAY;
        flow_shim_aim(f, col, first + SHIM_BD_A, OPERAND_A, from->offset);
        flow_shim_aim(f, col, first + SHIM_BD_OUT, out, to->offset);
        flow_task(&t, QUEUE_IN + i, first + SHIM_BD_A, from->repeat, false);
        if (!mixed) {
            flow_task(&t, QUEUE_OUT + i, first + SHIM_BD_OUT, to->repeat, true);
        }
    }
    if (spec->n_inputs > 1) {
        start_shim_b(f, &t, col, &pieces[0]);
    }
    flow_push_all(f, &t);
    if (mixed) {
        flow_expect(f, col, 0);
        flow_push(f, t.at, SHIM_S2MM_QUEUE, SHIM_BD_OUT, pieces[0].walk[PLAN_OUT].repeat, true);
    }
}

// Shims first, so that data is on its way while the cores are told, and a core's parameters before
// data can come to it.
static void start_column(const struct flow * f, const struct aie_plan * p, int col,
                         const struct plan_piece * pieces, int ways) {
    const struct spread_crew * crew = &p->of.elementwise.crew;
    struct spread s[SPREAD_PAIR];
    start_shim(f, &p->spec, col, pieces, ways, crew->mixed);
    for (int way = 0; way < ways; way++) {
        s[way] = spread_of(p, &pieces[way], way);
        for (int i = 0; i < crew->cores; i++) {
            if (spread_chunks(&s[way], i)) {
                write_params(f, p, col, i, &s[way], &pieces[way]);
            }
        }
    }
    spread_start_ways(f, col, s, ways);
}

static void wait_for(const struct flow * f, int col, int ways) {
    for (int way = 0; way < ways; way++) {
        flow_wait(f, col, way);
    }
}

enum status elementwise_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                               struct error * err) {
    const struct ew_plan * plan = &p->of.elementwise;
    const struct spread_crew * crew = &plan->crew;
    const struct aie_target * target = aie_target(p->spec.arch);
    struct txn t;
    struct flow f = {&t, target};
    txn_begin(&t, p->columns, target->device_generation);
    struct plan_cursor cursor = {0};
    // A column gets its next pieces when it is done with the last; the others go on meanwhile.
    int columns = crew->mixed ? mixed_columns(p->columns) : p->columns, n = 0;
    int busy[ARRAY_COLUMNS_MOST] = {0}; // ways
    for (int more = 1; more;) {
        struct plan_piece pieces[SPREAD_PAIR];
        int col = n % columns, ways = 0;
        while (more && ways < crew->ways) {
            more = ew_plan_next(plan, &cursor, crew->columns * crew->ways, &pieces[ways]);
            ways += more;
        }
        wait_for(&f, col, ways ? busy[col] : 0);
        if (ways) {
            start_column(&f, p, col, pieces, ways);
            busy[col] = ways;
            n++;
        }
    }
    for (int i = 0, first = n > columns ? n : 0; i < columns; i++) { // as they were told
        wait_for(&f, (first + i) % columns, busy[(first + i) % columns]);
    }
    return txn_end(&t, insts, n_words, err);
}

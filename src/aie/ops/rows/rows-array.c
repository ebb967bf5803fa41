// rows-array: the array around the row programs. All cores of a column have the program, or one of
// them (mixed.h), and hang on its memtile (array/spread.h), like the elementwise family. Chunks of
// whole rows are dealt to as many cores as are worth the telling; a row that is longer than a
// chunk, and a total, are one core's work in each column. Rows are set apart in the cores' memory
// by the descriptors, so that each starts on a vector; results that are one word a row lie a vector
// half apart there and are gathered on the way out.
//
// A total runs through the columns from west to east: each hands its share to its neighbour, the
// last one writes. It holds what earlier rounds gave, so the columns of a short round are the
// eastern ones.
#include "aie/ops/mixed.h"
#include "aie/plan/plan.h"

#include <string.h>

enum { SHIM_BD_A, SHIM_BD_A_PAD, SHIM_BD_OUT, SHIM_BD_SINK, SHIM_BD_B };

enum { PARAMS_AT = RW_POOL + RW_SLOT_PARAMS * LANES_POOL_SLOT_BYTES };

static const struct spread_buffer buffers[SPREAD_STREAMS] = {
    [SPREAD_A] = {RW_BUFFER_A, RW_CHUNK_BYTES, RW_LOCK_A_EMPTY, RW_LOCK_A_FULL},
    [SPREAD_B] = {RW_BUFFER_B, RW_CHUNK_BYTES, RW_LOCK_B_EMPTY, RW_LOCK_B_FULL},
    [SPREAD_OUT] = {RW_BUFFER_OUT, RW_CHUNK_BYTES, RW_LOCK_OUT_EMPTY, RW_LOCK_OUT_FULL},
};

static const struct flow_layout packed, results = {.step = {8}};

// ---- what is done ----

static enum status check_tensor(const struct tensor * t, int i, struct error * err) {
    if (!tensor_is_contiguous(t)) {
        return error_set(err, ST_UNSUPPORTED, "tensor %d is not contiguous", i);
    }
    if (tensor_bytes(t) < 0 || tensor_bytes(t) > (int64_t) UINT32_MAX - 4) {
        return error_set(err, ST_UNSUPPORTED, "a tensor of 4 GiB or more");
    }
    return ST_OK;
}

static enum status check_mask_and_sinks(const struct kernel_spec * spec, struct error * err) {
    const struct tensor *x = &spec->inputs[0], *mask = &spec->inputs[1], *sinks = &spec->inputs[2];
    if (rows_input_there(spec, 1)) {
        if (mask->dtype != DTYPE_F32 && mask->dtype != DTYPE_F16) {
            return error_set(err, ST_UNSUPPORTED, "a mask of %s", dtype_name(mask->dtype));
        }
        if (mask->ne[0] != x->ne[0] || mask->ne[1] < x->ne[1] || x->ne[2] % mask->ne[2] ||
            x->ne[3] % mask->ne[3]) {
            return error_set(err, ST_INVALID, "the mask does not fit the rows");
        }
    }
    if (rows_input_there(spec, 2) &&
        (sinks->dtype != DTYPE_F32 || tensor_elements(sinks) != x->ne[2])) {
        return error_set(err, ST_INVALID, "sinks are f32, one for each head");
    }
    return ST_OK;
}

// Rows of weights: one for all, or one for each.
static enum status check_weights(const struct kernel_spec * spec, struct error * err) {
    const struct tensor *x = &spec->inputs[0], *b = &spec->inputs[1];
    int64_t rows = tensor_elements(x) / x->ne[0];
    if (b->ne[0] != x->ne[0] || (tensor_elements(b) != b->ne[0] && !tensor_same_shape(x, b))) {
        return error_set(err, ST_INVALID, "the weights are neither a row nor as many as x has");
    }
    if (rows > RW_ROWS_AGAIN && !tensor_same_shape(x, b)) {
        return error_set(err, ST_UNSUPPORTED, "a row of weights comes %d times, not %lld",
                         RW_ROWS_AGAIN, (long long) rows);
    }
    return ST_OK;
}

static enum status check_output(const struct kernel_spec * spec, const struct rows_op * op,
                                struct error * err) {
    const struct tensor *x = &spec->inputs[0], *out = &spec->output;
    int64_t rows = x->ne[1] * x->ne[2] * x->ne[3], n = tensor_elements(out);
    bool fits = op->out == RW_OUT_ROW      ? tensor_same_shape(x, out)
                : op->out == RW_OUT_SCALAR ? n == rows
                                           : n == 1 || (n == 2 && op->op == KERNEL_OP_COUNT_EQUAL);
    if (!fits) {
        return error_set(err, ST_INVALID, "the output does not have the shape that %s gives",
                         kernel_op_name(spec->op));
    }
    if (out->dtype != op->result) {
        return error_set(err, ST_UNSUPPORTED, "%s gives %s, not %s", kernel_op_name(spec->op),
                         dtype_name(op->result), dtype_name(out->dtype));
    }
    return ST_OK;
}

static enum status check(const struct kernel_spec * spec, struct error * err) {
    const struct rows_op * op = rows_find(spec->op);
    int most = kernel_op_info(spec->op)->n_inputs;
    int least = spec->op == KERNEL_OP_SOFT_MAX ? 1 : most;
    if (spec->n_inputs < least || spec->n_inputs > most) {
        return error_set(err, ST_INVALID, "%s takes %d inputs, %d given", kernel_op_name(spec->op),
                         most, spec->n_inputs);
    }
    enum status st = ST_OK;
    for (int i = 0; i < spec->n_inputs && st == ST_OK; i++) {
        const struct tensor * in = &spec->inputs[i];
        if (tensor_elements(in) <= 0 && (i == 0 || least == most)) {
            return error_set(err, ST_UNSUPPORTED, "a tensor without elements");
        }
        if (in->dtype != op->in && (i == 0 || least == most)) {
            return error_set(err, ST_UNSUPPORTED, "no %s for %s", kernel_op_name(spec->op),
                             dtype_name(in->dtype));
        }
        if (i > 0 && least == most && spec->op != KERNEL_OP_RMS_NORM_MUL &&
            !tensor_same_shape(in, &spec->inputs[0])) {
            return error_set(err, ST_INVALID, "the inputs differ in shape");
        }
        st = rows_input_there(spec, i) ? check_tensor(in, i, err) : ST_OK;
    }
    if (st == ST_OK) {
        st = check_tensor(&spec->output, spec->n_inputs, err);
    }
    if (st == ST_OK) {
        st = check_output(spec, op, err);
    }
    if (st == ST_OK && spec->op == KERNEL_OP_SOFT_MAX) {
        st = check_mask_and_sinks(spec, err);
    }
    if (st == ST_OK && spec->op == KERNEL_OP_RMS_NORM_MUL) {
        st = check_weights(spec, err);
    }
    return st;
}

enum status rows_image(const struct aie_program * of, enum aie_arch arch,
                       struct array_program * out, struct error * err) {
    struct rows_code program;
    enum status st = rows_compile(of, arch, &program, err);
    if (st != ST_OK) {
        return st;
    }
    *out = (struct array_program){.code = program.code.bytes,
                                  .size = program.code.size,
                                  .locks = rows_lock_init,
                                  .n_locks = RW_LOCK_COUNT,
                                  .mem_locks = SPREAD_LOCKS};
    st = array_program_data(out, RW_POOL, program.pool, sizeof program.pool, err);
    return st == ST_OK
               ? array_program_data(out, RW_TABLES, program.tables, sizeof program.tables, err)
               : st;
}

// ---- descriptors ----

struct column { // what the functions below write for
    struct flow flow;
    const struct kernel_spec * spec;
    const struct rows_plan * plan;
    const struct rows_piece * piece;
    int col;
    struct spread_crew crew;
};

// Words from an operand, `wrap` of them `stride` apart, twice each `stride2` apart (0: plainly on).
struct source {
    int operand;
    uint32_t offset; // bytes
    uint32_t words;
    uint32_t wrap, stride, stride2;
};

static void shim_bd(const struct column * c, int bd, const struct source * from, int next) {
    flow_shim_bd(&c->flow, c->col, bd,
                 &(struct array_bd){.words = from->words,
                                    .next = next,
                                    .wrap = {from->wrap, from->stride2 ? 2 : 0},
                                    .step = {1, from->stride, from->stride2}},
                 from->operand, from->offset);
}

static void push_shim(const struct column * c, uint32_t queue, int bd, int64_t runs) {
    flow_push(&c->flow, (struct flow_tile){c->col, ARRAY_ROW_SHIM}, queue, bd, runs,
              queue == SHIM_S2MM_QUEUE);
}

// ---- streams in, whole rows ----

// The layout of a chunk of rows, each of which starts on a vector; a row alone needs none.
static struct flow_layout chunk_layout(uint32_t rows, uint32_t words, uint32_t stride) {
    return rows == 1 || words == stride
               ? packed
               : (struct flow_layout){.wrap = {words}, .step = {1, stride}};
}

// Rows of b as they lie in memory; `row` counts from b's first.
static struct source b_rows(const struct rows_plan * plan, int64_t row, int64_t rows) {
    bool half = plan->b_dtype == DTYPE_F16, odd = half && plan->row % 2;
    uint32_t n = (uint32_t) plan->row, words = half ? (n + 1) / 2 : n;
    struct source s = {.operand = 1,
                       .words = words * (uint32_t) rows,
                       .offset = (uint32_t) (row * plan->row * dtype_size(plan->b_dtype)) & ~3u};
    if (odd && rows > 1) { // two rows of odd length share a word
        s.wrap = words;
        s.stride = row % 2 ? (n + 1) / 2 : (n - 1) / 2;
        s.stride2 = n;
    }
    return s;
}

static uint32_t b_words(const struct rows_plan * plan) {
    return plan->b_dtype == DTYPE_F16 ? (uint32_t) (plan->row + 1) / 2 : (uint32_t) plan->row;
}

static void start_shim_b_rows(const struct column * c) {
    const struct rows_piece * piece = c->piece;
    uint32_t queue = SHIM_MM2S_QUEUE + 8;
    int64_t left = piece->rows, at = piece->b_row;
    int64_t end = piece->b_period_row + c->plan->b_period;
    int bd = SHIM_BD_B;
    while (left > 0) {
        int64_t take = end - at < left ? end - at : left;
        int64_t repeat = at == piece->b_period_row && take == c->plan->b_period ? left / take : 1;
        repeat = repeat > ARRAY_MAX_REPEAT ? ARRAY_MAX_REPEAT : repeat;
        struct source s = b_rows(c->plan, at, take);
        shim_bd(c, bd, &s, -1);
        push_shim(c, queue, bd++, repeat);
        left -= take * repeat;
        at = piece->b_period_row;
    }
}

// f16 rows of odd length begin in the middle of every other word. A core takes them by turns, so
// its chunks must begin alike: they are even, or one core has them all.
static bool is_odd(const struct rows_plan * plan) {
    return plan->b_dtype == DTYPE_F16 && plan->row % 2;
}

// Rows of a chunk: about four chunks for each core, so that things overlap.
static uint32_t resident_rows(const struct column * c) {
    uint32_t most = rows_per_chunk(c->plan), each = 4 * (uint32_t) c->crew.cores;
    uint32_t rows = ((uint32_t) c->piece->rows + each - 1) / each;
    rows = rows > most ? most : rows;
    return c->crew.cores > 1 && is_odd(c->plan) ? (rows + 1) / 2 * 2 : rows;
}

static struct spread_stream chunks_of(uint32_t rows, uint32_t chunk, uint32_t words,
                                      const struct flow_layout * lay) {
    return (struct spread_stream){
        .full = rows / chunk, .chunk = chunk * words, .last = rows % chunk * words, .layout = *lay};
}

static void spread_resident(const struct column * c, struct spread * s) {
    const struct rows_plan * plan = c->plan;
    uint32_t n = (uint32_t) plan->row, stride = rows_stride(n), rows = (uint32_t) c->piece->rows;
    uint32_t chunk = resident_rows(c);
    struct flow_layout lay = chunk_layout(chunk, n, stride);
    s->streams[SPREAD_A] = chunks_of(rows, chunk, n, &lay);
    if (plan->has_b) {
        uint32_t words = b_words(plan), b_stride = stride / (plan->b_dtype == DTYPE_F16 ? 2 : 1);
        struct flow_layout b_lay = chunk_layout(chunk, words, b_stride);
        s->streams[SPREAD_B] = chunks_of(rows, chunk, words, &b_lay);
    }
    if (plan->op->out == RW_OUT_ROW) {
        s->streams[SPREAD_OUT] = chunks_of(rows, chunk, n, &lay);
    } else if (plan->op->out == RW_OUT_SCALAR) {
        s->streams[SPREAD_OUT] = chunks_of(rows, chunk, 1, &results);
    }
}

// Rows that the memtile holds, one a chunk.
static void spread_held(const struct column * c, struct spread * s) {
    const struct rows_plan * plan = c->plan;
    struct spread_stream row = {.full = (uint32_t) c->piece->rows, .chunk = (uint32_t) plan->row};
    s->held = rows_held(plan);
    s->streams[SPREAD_A] = s->streams[SPREAD_OUT] = row;
    if (plan->has_b) {
        row.chunk = b_words(plan);
        s->streams[SPREAD_B] = row;
    }
}

static void feed_resident(const struct column * c) {
    const struct rows_plan * plan = c->plan;
    shim_bd(c, SHIM_BD_A,
            &(struct source){.operand = 0,
                             .words = (uint32_t) (c->piece->rows * plan->row),
                             .offset = (uint32_t) (c->piece->first_row * plan->row * 4)},
            -1);
    push_shim(c, SHIM_MM2S_QUEUE, SHIM_BD_A, 1);
    if (plan->has_b) {
        start_shim_b_rows(c);
    }
}

// ---- streams in, one row chunk by chunk ----

struct stretch {              // a row or, of a total, a stretch of elements
    uint32_t first, elements; // first: of the tensor
    uint32_t b_first;
    uint32_t chunk, chunks;
};

static struct stretch stretch_of(const struct column * c) {
    const struct rows_plan * plan = c->plan;
    struct stretch s = {.chunk = plan->chunk};
    if (plan->flat) {
        s.first = s.b_first = c->piece->offset;
        s.elements = c->piece->elements;
    } else {
        s.first = (uint32_t) (c->piece->first_row * plan->row);
        s.b_first = (uint32_t) (c->piece->b_row * plan->row);
        s.elements = (uint32_t) plan->row;
    }
    s.chunks = (s.elements + s.chunk - 1) / s.chunk;
    return s;
}

static bool in_halves(const struct rows_plan * plan) { // the second input of a row in chunks
    return plan->has_b && plan->b_dtype == DTYPE_F16;
}

// All chunks of a pass are equal: the last one is filled up with words from the start of the row,
// which the core does not look at. In f16 they overlap by a word, because a row may start in the
// middle of one.
static void spread_streamed(const struct column * c, struct spread * s) {
    const struct rows_plan * plan = c->plan;
    struct stretch row = stretch_of(c);
    uint32_t chunk = row.chunks == 1 ? row.elements : row.chunk;
    struct spread_stream in = {.full = row.chunks * (uint32_t) plan->op->passes, .chunk = chunk};
    s->streams[SPREAD_A] = in;
    if (plan->has_b) {
        in.chunk = in_halves(plan) ? row.chunk / 2 + 1 : chunk;
        s->streams[SPREAD_B] = in;
    }
    if (plan->op->out == RW_OUT_ROW) {
        s->streams[SPREAD_OUT] = (struct spread_stream){
            .full = row.elements / row.chunk, .chunk = row.chunk, .last = row.elements % row.chunk};
    } else if (plan->op->out == RW_OUT_SCALAR) {
        s->streams[SPREAD_OUT] = (struct spread_stream){.last = 1, .layout = results};
    }
}

static void feed_words(const struct column * c, const struct stretch * row, uint32_t queue,
                       int operand, uint32_t first, int bd) {
    uint32_t chunk = row->chunks == 1 ? row->elements : row->chunk;
    uint32_t pad = chunk * row->chunks - row->elements;
    shim_bd(c, bd,
            &(struct source){.operand = operand, .offset = 4 * first, .words = row->elements},
            pad ? bd + 1 : -1);
    if (pad) {
        shim_bd(c, bd + 1, &(struct source){.operand = operand, .offset = 4 * first, .words = pad},
                -1);
    }
    push_shim(c, queue, bd, c->plan->op->passes);
}

static void feed_halves(const struct column * c, const struct stretch * row, int bd) {
    uint32_t step = row->chunk / 2, words = step + 1, offset = 2 * row->b_first & ~3u;
    uint32_t before = row->chunks - 1;
    uint32_t last = (row->b_first % 2 + row->elements - before * row->chunk + 1) / 2;
    shim_bd(
        c, bd,
        &(struct source){
            .operand = 1, .offset = offset, .words = before * words, .wrap = words, .stride = step},
        bd + 1);
    shim_bd(c, bd + 1,
            &(struct source){.operand = 1, .offset = offset + 4 * before * step, .words = last},
            last < words ? bd + 2 : -1);
    if (last < words) {
        shim_bd(c, bd + 2, &(struct source){.operand = 1, .offset = offset, .words = words - last},
                -1);
    }
    push_shim(c, SHIM_MM2S_QUEUE + 8, bd, c->plan->op->passes);
}

static void feed_streamed(const struct column * c) {
    struct stretch row = stretch_of(c);
    feed_words(c, &row, SHIM_MM2S_QUEUE, 0, row.first, SHIM_BD_A);
    if (in_halves(c->plan)) {
        feed_halves(c, &row, SHIM_BD_B);
    } else if (c->plan->has_b) {
        feed_words(c, &row, SHIM_MM2S_QUEUE + 8, 1, row.b_first, SHIM_BD_B);
    }
}

// ---- parameters ----

static uint32_t float_bits(double v) {
    float f = (float) v;
    uint32_t pattern;
    memcpy(&pattern, &f, 4);
    return pattern;
}

// A float as three bf16 pieces, each twice in a word: what f_factor makes of it, cut.
static void put_pieces(uint32_t * args, float v) {
    for (int i = 0; i < 3; i++) {
        uint32_t bits_ = float_bits(v) & 0xffff0000;
        float piece;
        memcpy(&piece, &bits_, 4);
        args[i] = bits_ | bits_ >> 16;
        v -= piece;
    }
}

static void op_arguments(const struct column * c, uint32_t args[RW_N_ARGS]) {
    const struct kernel_spec * spec = c->spec;
    uint32_t one = float_bits(1), share = float_bits(1.0 / (double) c->plan->row);
    float param;
    memcpy(&param, &spec->params[0], 4);
    switch (spec->op) {
    case KERNEL_OP_MEAN:
        args[RW_ARG_TOTAL] = share;
        break;
    case KERNEL_OP_NORM:
    case KERNEL_OP_RMS_NORM:
    case KERNEL_OP_RMS_NORM_MUL:
        args[RW_ARG_FACTOR] = share;
        args[RW_ARG_ADD] = spec->params[0];
        args[RW_ARG_MOST] = 0x7f800000;
        break;
    case KERNEL_OP_L2_NORM:
        args[RW_ARG_FACTOR] = one;
        args[RW_ARG_MOST] = float_bits(1 / (double) param);
        break;
    case KERNEL_OP_SOFT_MAX:
        put_pieces(args + RW_ARG_SCALE, param);
        put_pieces(
            args + RW_ARG_SLOPE,
            rows_slope(spec, c->piece->first_row / spec->inputs[0].ne[1] % spec->inputs[0].ne[2]));
        args[RW_ARG_SINK] = 0xff800000; // -infinity: none
        break;
    case KERNEL_OP_ARGSORT:
    case KERNEL_OP_SORT_PAIRS:
        args[RW_ARG_ASCENDING] = spec->params[0] ? 0 : UINT32_MAX;
        break;
    case KERNEL_OP_CROSS_ENTROPY_LOSS:
        args[RW_ARG_TOTAL] = float_bits(1.0 / (double) c->plan->rows);
        break;
    default:
        args[RW_ARG_TOTAL] = one;
        break;
    }
}

static uint32_t set_tail(uint32_t * p, uint32_t elements) { // of the row, or of its last chunk
    uint32_t trips = (elements + RW_PAIR_WORDS - 1) / RW_PAIR_WORDS;
    uint32_t left = elements - (trips - 1) * RW_PAIR_WORDS; // 1..32
    uint32_t mask = left == 32 ? UINT32_MAX : (1u << left) - 1;
    p[RW_PARAM_TAIL0] = mask & 0xffff;
    p[RW_PARAM_TAIL1] = mask >> 16;
    p[RW_PARAM_TAIL_AT] = (trips - 1) * RW_PAIR_WORDS * 4;
    return trips;
}

struct place { // of a column in its round
    bool first_round, from_west, to_east;
};

static void shape_params(const struct column * c, const struct spread * s, int core, uint32_t * p) {
    const struct rows_plan * plan = c->plan;
    if (plan->streamed) {
        struct stretch row = stretch_of(c);
        p[RW_PARAM_CHUNKS] = row.chunks * (uint32_t) plan->op->passes;
        p[RW_PARAM_CHUNKS] *= plan->held ? spread_chunks(s, core) : 1;
        p[RW_PARAM_MORE] = row.chunks - 1;
        p[RW_PARAM_ROWS] = 1;
        p[RW_PARAM_TRIPS] = row.chunk / RW_PAIR_WORDS;
        p[RW_PARAM_TRIPS_DIFF] =
            set_tail(p, row.elements - (row.chunks - 1) * row.chunk) - p[RW_PARAM_TRIPS];
    } else {
        uint32_t stride = rows_stride(plan->row), chunk = resident_rows(c);
        p[RW_PARAM_CHUNKS] = spread_chunks(s, core);
        p[RW_PARAM_ROWS] = chunk;
        p[RW_PARAM_ROWS_DIFF] =
            spread_has_last(s, core) ? (uint32_t) c->piece->rows % chunk - chunk : 0;
        p[RW_PARAM_TRIPS] = set_tail(p, (uint32_t) plan->row);
        p[RW_PARAM_STRIDE_A] = 4 * stride;
        p[RW_PARAM_STRIDE_B] = (uint32_t) dtype_size(plan->b_dtype) * stride;
        p[RW_PARAM_STRIDE_OUT] = plan->op->out == RW_OUT_ROW ? 4 * stride : 32;
    }
}

static void write_params(const struct column * c, const struct spread * s, int core,
                         struct place place) {
    const struct rows_plan * plan = c->plan;
    bool odd = is_odd(plan);
    bool out_chunk = !plan->streamed && plan->op->out != RW_OUT_TOTAL;
    uint32_t p[RW_PARAM_NOW_TAIL0] = {
        [RW_PARAM_OP] = (uint32_t) plan->op->index,
        [RW_PARAM_STREAMED] = plan->streamed,
        [RW_PARAM_B_TAKE] = plan->has_b ? UINT32_MAX : 0,
        [RW_PARAM_B_GIVE] = plan->has_b,
        [RW_PARAM_B_ODD] = odd && c->piece->b_row % 2,
        [RW_PARAM_B_FLIP] = odd,
        [RW_PARAM_OUT_LOCK] =
            (uint32_t) (c->flow.target->own_locks + (out_chunk ? RW_LOCK_OUT_EMPTY : RW_LOCK_NONE)),
        [RW_PARAM_OUT_TAKE] = out_chunk ? UINT32_MAX : 0,
        [RW_PARAM_INTEGER] = plan->op->result == DTYPE_I32 ? UINT32_MAX : 0,
        [RW_PARAM_FIRST] =
            place.first_round || place.to_east || plan->op->out != RW_OUT_TOTAL ? UINT32_MAX : 0,
        [RW_PARAM_FROM_WEST] = place.from_west,
        [RW_PARAM_TO_EAST] = place.to_east,
        [RW_PARAM_SINK_TAKE] = s->word.there ? UINT32_MAX : 0,
        [RW_PARAM_MASK] = !plan->has_b                 ? RW_B_NONE
                          : plan->b_dtype == DTYPE_F16 ? RW_B_F16
                                                       : RW_B_F32,
        [RW_PARAM_ROUND] = rows_fast(c->spec) ? AIE_ROUND_NEAREST_EVEN : plan->op->round,
    };
    p[RW_PARAM_ROW_LOCK] = p[RW_PARAM_OUT_LOCK];
    p[RW_PARAM_ROW_TAKE] = p[RW_PARAM_OUT_TAKE];
    shape_params(c, s, core, p);
    op_arguments(c, p + RW_PARAM_ARGS);
    struct flow_tile at = spread_core(s, c->col, core);
    txn_block_write(c->flow.t, image_addr(at.col, at.row, PARAMS_AT), p, RW_PARAM_NOW_TAIL0);
}

static void feed_sink(const struct column * c) {
    uint32_t head =
        (uint32_t) (c->piece->first_row / c->spec->inputs[0].ne[1] % c->spec->inputs[0].ne[2]);
    shim_bd(c, SHIM_BD_SINK, &(struct source){.operand = 2, .offset = 4 * head, .words = 1}, -1);
    push_shim(c, SHIM_MM2S_QUEUE + 8, SHIM_BD_SINK, 1);
}

static void start_shim_out(const struct column * c) {
    const struct rows_plan * plan = c->plan;
    struct source to = {.operand = c->spec->n_inputs,
                        .words = (uint32_t) tensor_elements(&c->spec->output)};
    if (plan->op->out == RW_OUT_ROW) {
        to.offset = (uint32_t) (c->piece->first_row * plan->row * 4);
        to.words = (uint32_t) (c->piece->rows * plan->row);
    } else if (plan->op->out == RW_OUT_SCALAR) {
        to.offset = (uint32_t) (c->piece->first_row * 4);
        to.words = (uint32_t) c->piece->rows;
    }
    shim_bd(c, SHIM_BD_OUT, &to, -1);
    flow_expect(&c->flow, c->col, 0);
    push_shim(c, SHIM_S2MM_QUEUE, SHIM_BD_OUT, 1);
}

static int first_core(const struct spread_crew * crew) {
    return crew->mixed ? MIXED_ROWS : 0;
}

static struct spread spread_of(const struct column * c, struct place place) {
    struct spread s = {
        .buffers = buffers,
        .cores = c->crew.cores,
        .mixed = c->crew.mixed,
        .first = first_core(&c->crew),
        .word = {.there = c->spec->op == KERNEL_OP_SOFT_MAX && rows_input_there(c->spec, 2),
                 .address = PARAMS_AT + 4 * (RW_PARAM_ARGS + RW_ARG_SINK),
                 .acquire = -1,
                 .release = RW_LOCK_SINK},
    };
    (c->plan->held ? spread_held : c->plan->streamed ? spread_streamed : spread_resident)(c, &s);
    if (c->plan->op->out == RW_OUT_TOTAL && !place.to_east) {
        s.streams[SPREAD_OUT] = (struct spread_stream){
            .last = (uint32_t) tensor_elements(&c->spec->output), .layout = results};
    }
    return s;
}

// Parameters before descriptors: a sink is put among them. Then all is told, and the cores go.
static void start_column(const struct column * c, struct place place) {
    struct spread s = spread_of(c, place);
    if (s.word.there) {
        feed_sink(c);
    }
    (c->plan->streamed && !c->plan->held ? feed_streamed : feed_resident)(c);
    for (int i = 0; i < c->crew.cores; i++) {
        if (spread_chunks(&s, i)) {
            write_params(c, &s, i, place);
        }
    }
    spread_start(&c->flow, c->col, &s);
    for (int i = 0; i < c->crew.cores; i++) {
        if (spread_chunks(&s, i)) {
            flow_go(&c->flow, spread_core(&s, c->col, i), RW_LOCK_GO);
        }
    }
    if (!place.to_east) {
        start_shim_out(c);
    }
}

// ---- who does how much ----

// About how many cycles a core takes for a word of a row, and for a row.
static uint64_t word_cycles(const struct rows_plan * plan) {
    uint64_t passes = (uint64_t) plan->op->passes;
    return plan->op->op == KERNEL_OP_SOFT_MAX      ? 8
           : plan->op->op == KERNEL_OP_ARGSORT     ? 10 + (uint64_t) plan->row / 2
           : plan->op->op == KERNEL_OP_SORT_PAIRS  ? 24
           : plan->op->op == KERNEL_OP_MERGE_PAIRS ? 3
           : plan->held                            ? passes + 2
                                                   : passes;
}

enum { ROW_CYCLES = 150 }; // in each pass

// Where there are several runs, columns take them by turns: then all do.
static struct spread_crew crew_for(const struct kernel_spec * spec, const struct rows_plan * plan,
                                   const struct aie_program * program, int columns) {
    uint64_t words = (uint64_t) tensor_elements(&spec->inputs[0]), rows = (uint64_t) plan->rows;
    bool alone = (plan->streamed && !plan->held) || plan->op->out == RW_OUT_TOTAL ||
                 (is_odd(plan) && rows_per_chunk(plan) < 2);
    return spread_crew_for(&(struct spread_work){
        .times = aie_times(spec->arch),
        .words = words,
        .all_words = plan->has_b ? 2 * words : words,
        .words_a_cycle = ops_stream_words(spec),
        .may_mix = program == &aie_programs[AIE_PROGRAM_ROWS_LAYER],
        .mixed_columns = mixed_columns(columns),
        .cycles = words * word_cycles(plan) +
                  (plan->flat ? 0 : rows * (uint64_t) plan->op->passes * ROW_CYCLES),
        .telling = 2300,
        .shares = rows,
        .least_columns = plan->runs > 1 ? columns : 1,
        .most_columns = columns,
        .most_cores = alone        ? 1
                      : plan->held ? plan->held
                                   : SPREAD_CORES});
}

enum status rows_plan(struct aie_plan * p, struct error * err) {
    const struct kernel_spec * spec = &p->spec;
    struct rows_plan * plan = &p->of.rows;
    enum status st = check(spec, err);
    st = st == ST_OK ? rows_plan_make(spec, plan, err) : st;
    if (st == ST_OK) {
        bool exact = kernel_has_exact(spec) && spec->precision == KERNEL_EXACT;
        p->program = aie_program_for(spec->arch, AIE_LAYOUT_ALIKE, spec->op, DTYPE_F32, exact);
        plan->crew = crew_for(spec, plan, p->program, p->columns);
        p->program = plan->crew.mixed ? &aie_programs[AIE_PROGRAM_DECODER] : p->program;
    }
    return st;
}

static void end_held(const struct flow * f, const struct rows_plan * plan, struct spread_crew crew,
                     int columns) {
    struct spread s = {.cores = crew.cores, .first = first_core(&crew), .held = rows_held(plan)};
    s.streams[SPREAD_A].full = 1;
    s.streams[SPREAD_B].full = plan->has_b;
    for (int col = 0; col < columns; col++) {
        spread_end(f, col, &s);
    }
}

enum status rows_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                        struct error * err) {
    const struct kernel_spec * spec = &p->spec;
    const struct rows_plan * plan = &p->of.rows;
    const struct aie_target * target = aie_target(spec->arch);
    struct txn t;
    struct flow flow = {&t, target};
    txn_begin(&t, p->columns, target->device_generation);
    struct rows_cursor cursor = {0};
    struct rows_piece piece;
    bool total = plan->op->out == RW_OUT_TOTAL;
    struct spread_crew crew = plan->crew;
    int used = 0; // columns
    for (bool first_round = true;; first_round = false) {
        int n = (int) rows_plan_pieces_left(plan, spec, cursor, crew.columns);
        int first = total ? p->columns - n : 0;
        for (int i = 0; i < n; i++) {
            rows_plan_next(plan, spec, &cursor, crew.columns, &piece);
            struct column c = {flow, spec, plan, &piece, first + i, crew};
            start_column(&c, (struct place){first_round, total && i > 0, total && i + 1 < n});
        }
        if (n == 0) {
            break;
        }
        used = n > used ? n : used;
        for (int i = total ? n - 1 : 0; i < n; i++) {
            flow_wait(&flow, first + i, 0);
        }
    }
    if (plan->held) {
        end_held(&flow, plan, crew, used);
    }
    return txn_end(&t, insts, n_words, err);
}

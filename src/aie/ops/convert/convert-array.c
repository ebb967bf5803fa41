// convert-array: how operands come to the cores that make them bf16, and back. One core a column,
// of those that products of few rows have (mixed.h), through the memtile (array/spread.h). The
// instruction stream gives a core one piece of work at a time and waits for it before the next;
// descriptors are written for each piece, and every queue is empty when the run is over.
#include "aie/ops/mixed.h"
#include "aie/plan/plan.h"

enum { OPERAND_IN = 0, OPERAND_OUT = 1 };
enum { SHIM_BD_IN, SHIM_BD_OUT };

static const struct spread_buffer buffers[SPREAD_STREAMS] = {
    [SPREAD_A] = {CV_BUFFER_IN, CV_IN_BYTES, CV_LOCK_IN_EMPTY, CV_LOCK_IN_FULL},
    [SPREAD_OUT] = {CV_BUFFER_OUT, CV_OUT_BYTES, CV_LOCK_OUT_EMPTY, CV_LOCK_OUT_FULL},
};

// How a shim's words lie in memory.
struct walk {
    struct flow_layout run;
    uint32_t runs, step; // 0, or how often, and how far from one to the next
};

// ---- what is done ----

static enum status check_tensors(const struct kernel_spec * spec, struct error * err) {
    const struct tensor *in = &spec->inputs[0], *out = &spec->output;
    if (in->dtype != DTYPE_F32 && in->dtype != DTYPE_F16) {
        return error_set(err, ST_UNSUPPORTED, "no conversion from %s", dtype_name(in->dtype));
    }
    if (out->dtype != DTYPE_BF16) {
        return error_set(err, ST_UNSUPPORTED, "no conversion to %s", dtype_name(out->dtype));
    }
    if (tensor_elements(in) <= 0) {
        return error_set(err, ST_UNSUPPORTED, "a tensor without elements");
    }
    int64_t row = (in->ne[0] + 7) / 8 * 8 * (convert_has_pieces(spec) ? 3 : 1);
    bool same = out->ne[0] == row;
    for (int d = 1; d < TENSOR_DIMS; d++) {
        same = same && out->ne[d] == in->ne[d];
    }
    if (!same) {
        return error_set(err, ST_INVALID,
                         "the output must have rows of %lld elements, as many as the "
                         "input",
                         (long long) row);
    }
    if (!tensor_is_contiguous(out)) {
        return error_set(err, ST_UNSUPPORTED, "the output is not contiguous");
    }
    if (in->nb[0] != dtype_size(in->dtype) && in->ne[0] > 1) {
        return error_set(err, ST_UNSUPPORTED, "the elements of a row do not follow each other");
    }
    for (int d = 1; d < TENSOR_DIMS; d++) {
        if (in->ne[d] > 1 && (in->nb[d] % 4 || in->nb[d] < 0)) {
            return error_set(err, ST_UNSUPPORTED,
                             "rows do not start on words: stride %lld in "
                             "dimension %d",
                             (long long) in->nb[d], d);
        }
    }
    for (int i = 0; i < 2; i++) {
        int64_t bytes = tensor_bytes(i ? out : in);
        if (bytes < 0 || bytes > (int64_t) UINT32_MAX - 4) {
            return error_set(err, ST_UNSUPPORTED, "a tensor of 4 GiB or more");
        }
    }
    return ST_OK;
}

enum status convert_plan(struct aie_plan * p, struct error * err) {
    const struct kernel_spec * spec = &p->spec;
    if (spec->op == KERNEL_OP_UNPACK) {
        return unpack_plan(p, err);
    }
    if (spec->n_inputs != 1) {
        return error_set(err, ST_INVALID, "convert takes one input, %d given", spec->n_inputs);
    }
    if (spec->params[0] >= CV_PLACES) {
        return error_set(err, ST_INVALID, "convert knows no layout %u", spec->params[0]);
    }
    enum status st = check_tensors(spec, err);
    if (st == ST_OK && spec->params[0] >= CV_HI_MANY && !convert_is_many(spec)) {
        return error_set(err, ST_UNSUPPORTED,
                         "where products of many rows are, numbers of f32 become bf16 that follow "
                         "each other, an even number and at least %d of them",
                         2 * CV_CHUNK);
    }
    st = st == ST_OK ? convert_plan_make(spec, &p->of.convert, err) : st;
    p->program = convert_is_many(spec) ? mm_beside(spec->arch, convert_beside(spec))
                                       : &aie_programs[AIE_PROGRAM_DECODER];
    return st;
}

// ---- instruction stream ----

struct worker { // a core and its piece of work
    struct flow flow;
    const struct kernel_spec * spec;
    const struct convert_plan * plan;
    const struct convert_piece * piece;
    int col;
    struct spread spread;
    uint32_t rows, chunk; // rows in all, and in each chunk but the last
    uint32_t full, last;  // chunks before the last, rows in that one
};

// All chunks of a stream whose rows are that many words.
static void set_stream(struct worker * w, int stream, uint32_t row,
                       const struct flow_layout * lay) {
    bool alike = w->last == w->chunk;
    w->spread.streams[stream] = (struct spread_stream){.full = w->full + alike,
                                                       .chunk = w->chunk * row,
                                                       .last = alike ? 0 : w->last * row,
                                                       .layout = *lay};
}

static void start_shim(const struct worker * w, int bd, uint32_t queue, int operand,
                       uint64_t offset, uint32_t words, const struct walk * walk) {
    const struct flow_layout * lay = &walk->run;
    flow_shim_bd(&w->flow, w->col, bd,
                 &(struct array_bd){.words = words,
                                    .next = -1,
                                    .wrap = {lay->wrap[0], lay->wrap[1]},
                                    .step = {lay->step[0], lay->step[1], lay->step[2]},
                                    .iterations = walk->runs,
                                    .iteration_step = walk->step},
                 operand, (uint32_t) offset);
    flow_push(&w->flow, (struct flow_tile){w->col, ARRAY_ROW_SHIM}, queue, bd,
              walk->runs ? walk->runs : 1, queue == SHIM_S2MM_QUEUE);
}

static void write_params(const struct worker * w) {
    const struct convert_plan * plan = w->plan;
    uint32_t width = w->piece->width, padded = convert_padded(width);
    uint32_t stride = padded * (uint32_t) plan->element, layout = w->spec->params[0];
    bool clear = convert_words(plan, width) * 4 != stride;
    uint32_t at = w->chunk == 1 ? (stride - 1) / 32 * 32 : 0; // one row: its end alone is padding
    bool odd = plan->element == 2 && width % 2;
    uint32_t p[CV_PARAM_COUNT] = {
        [CV_PARAM_CHUNKS] = w->full + 1,
        [CV_PARAM_TRIPS] = (w->chunk * padded + CV_TRIP - 1) / CV_TRIP,
        [CV_PARAM_TRIPS_LAST] = (w->last * padded + CV_TRIP - 1) / CV_TRIP,
        [CV_PARAM_PIECES] = convert_has_pieces(w->spec),
        [CV_PARAM_HI_AT] = layout == CV_HI_LO_HI ? 2 * CV_PIECE_BYTES : CV_PIECE_BYTES,
        [CV_PARAM_LO_AT] = layout == CV_HI_LO_HI ? CV_PIECE_BYTES : 2 * CV_PIECE_BYTES,
        [CV_PARAM_CLEAR] = clear ? (w->chunk * stride - at + 63) / 64 : 0,
        [CV_PARAM_CLEAR_AT] = at,
        [CV_PARAM_ODD] = odd ? w->chunk : 0,
        [CV_PARAM_ODD_AT] = (convert_words(plan, width) - 1) * 4,
        [CV_PARAM_ODD_STRIDE] = stride,
    };
    struct flow_tile core = spread_core(&w->spread, w->col, 0);
    txn_block_write(w->flow.t, image_addr(core.col, core.row, CV_PARAMS), p, CV_PARAM_COUNT);
    txn_write(w->flow.t, image_addr(core.col, core.row, MM_TASK),
              w->plan->element == 2 ? MM_CONVERT_F16 : MM_CONVERT_F32);
    flow_go(&w->flow, core, MM_LOCK_X_FULL);
}

static void start_in(struct worker * w) {
    const struct convert_piece * piece = w->piece;
    uint32_t words = convert_words(w->plan, piece->width);
    uint32_t stride = convert_words(w->plan, convert_padded(piece->width));
    struct flow_layout core = {0};
    struct walk shim = {0};
    if (words != stride && w->chunk > 1) {
        core = (struct flow_layout){.wrap = {words}, .step = {1, stride}};
    }
    if (piece->n2 > 1 || (piece->n1 > 1 && piece->step1 != 4 * (int64_t) words)) {
        shim.run =
            (struct flow_layout){.wrap = {words}, .step = {1, (uint32_t) (piece->step1 / 4)}};
    }
    if (piece->n2 > 1) {
        shim.run.wrap[1] = (uint32_t) piece->n1;
        shim.run.step[2] = (uint32_t) (piece->step2 / 4);
    }
    if (piece->n3 > 1) {
        shim.runs = (uint32_t) piece->n3;
        shim.step = (uint32_t) (piece->step3 / 4);
    }
    set_stream(w, SPREAD_A, words, &core);
    start_shim(w, SHIM_BD_IN, SHIM_MM2S_QUEUE, OPERAND_IN, piece->in,
               (uint32_t) (piece->n1 * piece->n2) * words, &shim);
}

static void start_out(struct worker * w) {
    const struct convert_piece * piece = w->piece;
    uint32_t words = convert_padded(piece->width) / 2, pieces = (uint32_t) w->plan->pieces;
    uint32_t row_step = (uint32_t) (piece->out_step / 4);
    struct flow_layout core = {0};
    struct walk shim = {0};
    if (pieces > 1 && w->chunk > 1) { // a row's pieces, then the next row's
        core =
            (struct flow_layout){.wrap = {words, pieces}, .step = {1, CV_PIECE_BYTES / 4, words}};
    } else if (pieces > 1) { // rows may be longer than a core's descriptor counts
        core = (struct flow_layout){.wrap = {4, words / 4}, .step = {1, 4, CV_PIECE_BYTES / 4}};
    }
    if (!piece->packed_out && pieces > 1) {
        shim.run = (struct flow_layout){
            .wrap = {words, pieces},
            .step = {1, (uint32_t) (w->plan->padded / 2), w->rows > 1 ? row_step : 0}};
    } else if (!piece->packed_out && w->rows > 1) {
        shim.run = (struct flow_layout){.wrap = {words}, .step = {1, row_step}};
    }
    set_stream(w, SPREAD_OUT, words * pieces, &core);
    start_shim(w, SHIM_BD_OUT, SHIM_S2MM_QUEUE, OPERAND_OUT, piece->out, w->rows * words * pieces,
               &shim);
}

static void start_piece(struct worker * w) {
    w->rows = (uint32_t) (w->piece->n1 * w->piece->n2 * w->piece->n3);
    w->chunk = convert_chunk_rows(w->plan, w->piece->width, w->rows);
    w->full = (w->rows - 1) / w->chunk;
    w->last = w->rows - w->full * w->chunk;
    start_out(w);
    start_in(w);
    spread_start(&w->flow, w->col, &w->spread);
    write_params(w);
}

enum status convert_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                           struct error * err) {
    const struct kernel_spec * spec = &p->spec;
    if (spec->op == KERNEL_OP_UNPACK) {
        return unpack_stream(p, insts, n_words, err);
    }
    if (!aie_program_is_mixed(p->program)) {
        return convert_many_stream(p, insts, n_words, err);
    }
    const struct convert_plan * plan = &p->of.convert;
    const struct aie_target * target = aie_target(spec->arch);
    int columns = p->columns;
    struct txn t;
    struct flow flow = {&t, target};
    txn_begin(&t, columns, target->device_generation);
    struct convert_cursor cursor = {0};
    struct convert_piece piece;
    int64_t n = 0;
    for (; convert_plan_next(plan, &cursor, columns, &piece); n++) {
        int col = (int) (n % columns);
        struct worker w = {
            .flow = flow,
            .spec = spec,
            .plan = plan,
            .piece = &piece,
            .col = col,
            .spread = {.buffers = buffers, .cores = 1, .mixed = true, .first = MIXED_PRODUCT}};
        if (n < columns) {
            flow_expect(&flow, col, 0);
        } else {
            flow_wait(&flow, col, 0);
        }
        start_piece(&w);
    }
    for (int col = 0; col < columns && col < n; col++) {
        flow_wait(&flow, col, 0);
    }
    return txn_end(&t, insts, n_words, err);
}

// elementwise-array: the array around the elementwise core program. The PDI puts one core with two
// streams in and one out into every column. The instruction stream writes, for each piece of work,
// the core's parameters and descriptors, sets the core going, points the shim's descriptors at the
// operands and waits. Tile descriptors are written for each run instead of looping for ever, so
// that lengths may be anything and every queue is empty when the run is over.
#include "elementwise-plan.h"

#include "aie/array/flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERAND_A, OPERAND_B, OPERAND_OUT };

// Shim descriptors: a, out, then a chain for b.
enum { SHIM_BD_A, SHIM_BD_OUT, SHIM_BD_B };

static const struct flow_stream streams[3] = {
    {CORE_S2MM_QUEUE, EW_BUFFER_A, EW_CHUNK_BYTES, EW_LOCK_A_EMPTY, EW_LOCK_A_FULL, 0},
    {CORE_S2MM_QUEUE + 8, EW_BUFFER_B, EW_CHUNK_BYTES, EW_LOCK_B_EMPTY, EW_LOCK_B_FULL, FLOW_BDS},
    {CORE_MM2S_QUEUE, EW_BUFFER_OUT, EW_CHUNK_BYTES, EW_LOCK_OUT_FULL, EW_LOCK_OUT_EMPTY,
     2 * FLOW_BDS},
};

static const struct flow_layout packed;

enum status elementwise_supports(const struct kernel_spec * spec, struct error * err) {
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
    if (!ew_find(spec->op, out->dtype)) {
        return error_set(err, ST_UNSUPPORTED, "no %s for %s", kernel_op_name(spec->op),
                         dtype_name(out->dtype));
    }
    struct plan plan;
    return plan_make(spec, &plan, err);
}

void elementwise_name(const struct kernel_spec * spec, char name[KERNEL_NAME_MAX]) {
    enum dtype t = spec->output.dtype;
    snprintf(name, KERNEL_NAME_MAX, "%s_%s%s", ew_program_name(ew_find(spec->op, t)), dtype_name(t),
             kernel_has_exact(spec) && spec->precision == KERNEL_EXACT ? "_exact" : "");
}

enum status elementwise_pdi(const struct kernel_spec * spec, uint8_t ** pdi, size_t * size,
                            struct error * err) {
    struct ew_program program;
    enum status st = elementwise_program(spec, &program, err);
    if (st != ST_OK) {
        return st;
    }
    struct array a;
    array_begin(&a, spec->arch);
    for (int col = 0; col < aie_target(spec->arch)->columns; col++) {
        array_core(&a, col, ARRAY_ROW_CORE, program.code.bytes, program.code.size, ew_lock_init,
                   EW_LOCK_COUNT);
        array_data(&a, col, ARRAY_ROW_CORE, program.pool_at, program.pool, program.pool_size);
        for (int channel = 0; channel < 2; channel++) {
            array_route(&a, (struct array_port){col, ARRAY_ROW_SHIM, channel},
                        &(struct array_port){col, ARRAY_ROW_CORE, channel}, 1);
        }
        array_route(&a, (struct array_port){col, ARRAY_ROW_CORE, 0},
                    &(struct array_port){col, ARRAY_ROW_SHIM, 0}, 1);
        array_token_route(&a, col);
    }
    free(program.code.bytes);
    return array_end(&a, pdi, size, err);
}

// ---- instruction stream ----

static void shim_bd(const struct flow * f, int col, int bd, const struct plan_walk * walk, int next,
                    int operand) {
    bool moves = walk->repeat > 1 && walk->repeat_step;
    flow_shim_bd(f, col, bd,
                 &(struct array_bd){.words = walk->words,
                                    .next = next,
                                    .wrap = {walk->wrap[0], walk->wrap[1]},
                                    .step = {walk->step[0], walk->step[1], walk->step[2]},
                                    .iterations = moves ? walk->repeat : 0,
                                    .iteration_step = walk->repeat_step},
                 operand, walk->offset);
}

static void push_shim(const struct flow * f, int col, uint32_t queue, int bd, uint32_t runs) {
    flow_push(f, (struct flow_tile){col, ARRAY_ROW_SHIM}, queue, bd, runs,
              queue == SHIM_S2MM_QUEUE);
}

static void start_shim_b(const struct flow * f, int col, const struct plan_piece * piece) {
    uint32_t queue = SHIM_MM2S_QUEUE + 8;
    if (piece->mode == PLAN_PERIOD) {
        // Equal descriptors in a chain, the chain repeated, and once more its tail for the rest.
        int chain = piece->rows < PLAN_PERIOD_BDS ? (int) piece->rows : PLAN_PERIOD_BDS;
        for (int i = 0; i < chain; i++) {
            shim_bd(f, col, SHIM_BD_B + i, &piece->walk[PLAN_B],
                    i + 1 < chain ? SHIM_BD_B + i + 1 : -1, OPERAND_B);
        }
        push_shim(f, col, queue, SHIM_BD_B, piece->rows / (uint32_t) chain);
        if (piece->rows % (uint32_t) chain) {
            push_shim(f, col, queue, SHIM_BD_B + chain - (int) (piece->rows % (uint32_t) chain), 1);
        }
    } else {
        shim_bd(f, col, SHIM_BD_B, &piece->walk[PLAN_B], -1, OPERAND_B);
        push_shim(f, col, queue, SHIM_BD_B, piece->walk[PLAN_B].repeat);
    }
}

// Long pieces move in full chunks; short ones in about eight, so that loading, computing and
// storing overlap there too.
static uint32_t chunk_words(uint32_t words) {
    uint32_t chunk = (words / 8 + 63) / 64 * 64;
    return chunk < 128 ? 128 : chunk > EW_CHUNK_WORDS ? EW_CHUNK_WORDS : chunk;
}

static void write_params(struct txn * t, const struct kernel_spec * spec, int col,
                         const struct plan_piece * piece, uint32_t chunk, uint32_t full,
                         uint32_t last) {
    uint32_t trip = (uint32_t) ew_trip_words(spec);
    bool splat = piece->mode == PLAN_SPLAT;
    uint32_t params[EW_PARAM_COUNT] = {
        [EW_PARAM_CHUNKS] = full + 1,
        [EW_PARAM_TRIPS] = chunk / trip,
        [EW_PARAM_TRIPS_LAST] = (last + trip - 1) / trip,
        [EW_PARAM_OP] = ew_index(spec),
        [EW_PARAM_STREAM_B] = spec->n_inputs > 1 && !splat,
        [EW_PARAM_SPLAT_B] = spec->n_inputs > 1 && splat,
        [EW_PARAM_SPLAT_BYTE] = piece->splat_byte,
    };
    ew_args(spec, params + EW_PARAM_ARGS);
    int n_params = ew_n_args(spec->op);
    txn_block_write(t, image_addr(col, ARRAY_ROW_CORE, EW_PARAMS), params,
                    (size_t) (EW_PARAM_ARGS + n_params));
}

static void start_column(const struct flow * f, const struct kernel_spec * spec, int col,
                         const struct plan_piece * piece) {
    struct flow_tile core = {col, ARRAY_ROW_CORE};
    uint32_t chunk = chunk_words(piece->words);
    uint32_t full = (piece->words - 1) / chunk, last = piece->words - full * chunk;
    bool has_b = spec->n_inputs > 1;
    write_params(f->t, spec, col, piece, chunk, full, last);
    flow_start(f, core, &streams[OPERAND_A], full, chunk, last, &packed);
    if (has_b && piece->mode == PLAN_SPLAT) {
        flow_start(f, core, &streams[OPERAND_B], 0, chunk, 1, &packed);
    } else if (has_b) {
        flow_start(f, core, &streams[OPERAND_B], full, chunk, last, &packed);
    }
    flow_start(f, core, &streams[OPERAND_OUT], full, chunk, last, &packed);
    flow_go(f, core, EW_LOCK_GO);

    int out = spec->n_inputs; // operands are the inputs, then the output
    const struct plan_walk *from = &piece->walk[PLAN_A], *to = &piece->walk[PLAN_OUT];
    shim_bd(f, col, SHIM_BD_OUT, to, -1, out);
    flow_expect(f, col, 0);
    push_shim(f, col, SHIM_S2MM_QUEUE, SHIM_BD_OUT, to->repeat);
    shim_bd(f, col, SHIM_BD_A, from, -1, OPERAND_A);
    push_shim(f, col, SHIM_MM2S_QUEUE, SHIM_BD_A, from->repeat);
    if (has_b) {
        start_shim_b(f, col, piece);
    }
}

enum status elementwise_insts(const struct kernel_spec * spec, uint32_t ** insts, size_t * n_words,
                              struct error * err) {
    struct plan plan;
    enum status st = elementwise_supports(spec, err);
    if (st == ST_OK) {
        st = plan_make(spec, &plan, err);
    }
    if (st != ST_OK) {
        return st;
    }
    const struct aie_target * target = aie_target(spec->arch);
    struct txn t;
    struct flow f = {&t, target};
    txn_begin(&t, target->columns, target->device_generation);
    struct plan_cursor cursor = {0};
    struct plan_piece piece;
    for (int col = 0; plan_next(&plan, &cursor, target->columns, &piece);) {
        start_column(&f, spec, col, &piece);
        bool more = cursor.run < plan.runs;
        if (++col == target->columns || !more) {
            for (int c = 0; c < col; c++) {
                flow_wait(&f, c, 0);
            }
            col = 0;
        }
    }
    return txn_end(&t, insts, n_words, err);
}

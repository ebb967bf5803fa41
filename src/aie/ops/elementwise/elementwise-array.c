// elementwise-array: the array around the elementwise core program. The PDI puts one core with two
// streams in and one out into every column. The instruction stream writes, for each piece of work,
// the core's parameters and descriptors, sets the core going, points the shim's descriptors at the
// operands and waits. Tile descriptors are written for each run instead of looping for ever, so
// that lengths may be anything and every queue is empty when the run is over.
#include "elementwise-plan.h"

#include "aie/array/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERAND_A, OPERAND_B, OPERAND_OUT };

// Core-tile descriptors of one stream: ping and pong chained, a lone ping, the last chunk.
enum { BD_PING, BD_PONG, BD_LONE, BD_LAST, BDS_PER_STREAM };

// Shim descriptors: a, out, then a chain for b.
enum { SHIM_BD_A, SHIM_BD_OUT, SHIM_BD_B };

struct stream { // one of the core's three, as data
    uint32_t queue;
    uint32_t buffer;
    int acquire, release;
    int first_bd;
};

static const struct stream streams[3] = {
    {CORE_S2MM_QUEUE, EW_BUFFER_A, EW_LOCK_A_EMPTY, EW_LOCK_A_FULL, 0},
    {CORE_S2MM_QUEUE + 8, EW_BUFFER_B, EW_LOCK_B_EMPTY, EW_LOCK_B_FULL, BDS_PER_STREAM},
    {CORE_MM2S_QUEUE, EW_BUFFER_OUT, EW_LOCK_OUT_FULL, EW_LOCK_OUT_EMPTY, 2 * BDS_PER_STREAM},
};

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
    for (int col = 0; col < array_target(spec->arch)->columns; col++) {
        array_core(&a, col, ARRAY_ROW_CORE, program.code.bytes, program.code.size, ew_lock_init,
                   EW_LOCK_COUNT);
        array_data(&a, col, ARRAY_ROW_CORE, EW_POOL, program.pool, sizeof program.pool);
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

static void write_core_bd(struct txn * t, int col, const struct stream * s, int which, bool pong,
                          uint32_t words, int next) {
    uint32_t w[6];
    array_core_bd(&(struct array_bd){.address = s->buffer ^ (pong ? EW_CHUNK_BYTES : 0),
                                     .words = words,
                                     .next = next,
                                     .acquire = s->acquire,
                                     .acquire_value = -1,
                                     .release = s->release,
                                     .release_value = 1},
                  w);
    uint32_t bd = (uint32_t) (s->first_bd + which);
    txn_block_write(t, image_addr(col, ARRAY_ROW_CORE, CORE_BD + 0x20 * bd), w, 6);
}

static void push_core(struct txn * t, int col, const struct stream * s, int which, int repeat) {
    txn_write(t, image_addr(col, ARRAY_ROW_CORE, s->queue),
              array_queue_word(s->first_bd + which, repeat, false));
}

// Descriptors and queue entries for `full` chunks of `chunk` words and one of `last`.
static void start_core_stream(struct txn * t, int col, const struct stream * s, int full,
                              uint32_t chunk, uint32_t last) {
    if (full >= 2) {
        write_core_bd(t, col, s, BD_PING, false, chunk, s->first_bd + BD_PONG);
        write_core_bd(t, col, s, BD_PONG, true, chunk, -1);
        push_core(t, col, s, BD_PING, full / 2);
    }
    if (full % 2) {
        write_core_bd(t, col, s, BD_LONE, false, chunk, -1);
        push_core(t, col, s, BD_LONE, 1);
    }
    write_core_bd(t, col, s, BD_LAST, full % 2, last, -1);
    push_core(t, col, s, BD_LAST, 1);
}

static void write_shim_bd(struct txn * t, const struct array_target * target, int col, int bd,
                          const struct plan_walk * walk, int next, int operand) {
    uint32_t w[8];
    bool moves = walk->repeat > 1 && walk->repeat_step;
    array_shim_bd(&(struct array_bd){.words = walk->words,
                                     .next = next,
                                     .acquire = -1,
                                     .release = -1,
                                     .wrap = {walk->wrap[0], walk->wrap[1]},
                                     .step = {walk->step[0], walk->step[1], walk->step[2]},
                                     .iterations = moves ? walk->repeat : 0,
                                     .iteration_step = walk->repeat_step},
                  target, w);
    uint32_t addr = image_addr(col, ARRAY_ROW_SHIM, SHIM_BD + 0x20 * (uint32_t) bd);
    txn_block_write(t, addr, w, 8);
    txn_patch_address(t, addr + 4, operand, walk->offset);
}

static void push_shim(struct txn * t, int col, uint32_t queue, int bd, int repeat, bool token) {
    txn_write(t, image_addr(col, ARRAY_ROW_SHIM, queue), array_queue_word(bd, repeat, token));
}

static void start_shim_b(struct txn * t, const struct array_target * target, int col,
                         const struct plan_piece * piece) {
    uint32_t queue = SHIM_MM2S_QUEUE + 8;
    if (piece->mode == PLAN_PERIOD) {
        // Equal descriptors in a chain, the chain repeated, and once more its tail for the rest.
        int chain = piece->rows < PLAN_PERIOD_BDS ? (int) piece->rows : PLAN_PERIOD_BDS;
        for (int i = 0; i < chain; i++) {
            write_shim_bd(t, target, col, SHIM_BD_B + i, &piece->walk[PLAN_B],
                          i + 1 < chain ? SHIM_BD_B + i + 1 : -1, OPERAND_B);
        }
        push_shim(t, col, queue, SHIM_BD_B, (int) piece->rows / chain, false);
        if (piece->rows % (uint32_t) chain) {
            push_shim(t, col, queue, SHIM_BD_B + chain - (int) (piece->rows % (uint32_t) chain), 1,
                      false);
        }
    } else {
        write_shim_bd(t, target, col, SHIM_BD_B, &piece->walk[PLAN_B], -1, OPERAND_B);
        push_shim(t, col, queue, SHIM_BD_B, (int) piece->walk[PLAN_B].repeat, false);
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

static void start_column(struct txn * t, const struct kernel_spec * spec, int col,
                         const struct plan_piece * piece) {
    const struct array_target * target = array_target(spec->arch);
    uint32_t chunk = chunk_words(piece->words);
    uint32_t full = (piece->words - 1) / chunk, last = piece->words - full * chunk;
    bool has_b = spec->n_inputs > 1;
    write_params(t, spec, col, piece, chunk, full, last);
    start_core_stream(t, col, &streams[OPERAND_A], (int) full, chunk, last);
    if (has_b && piece->mode == PLAN_SPLAT) {
        start_core_stream(t, col, &streams[OPERAND_B], 0, chunk, 1);
    } else if (has_b) {
        start_core_stream(t, col, &streams[OPERAND_B], (int) full, chunk, last);
    }
    start_core_stream(t, col, &streams[OPERAND_OUT], (int) full, chunk, last);
    txn_write(t, image_addr(col, ARRAY_ROW_CORE, CORE_LOCK + 0x10 * EW_LOCK_GO), 1);

    int out = spec->n_inputs; // operands are the inputs, then the output
    const struct plan_walk *from = &piece->walk[PLAN_A], *to = &piece->walk[PLAN_OUT];
    write_shim_bd(t, target, col, SHIM_BD_OUT, to, -1, out);
    array_token_controller(t, col, 0);
    push_shim(t, col, SHIM_S2MM_QUEUE, SHIM_BD_OUT, (int) to->repeat, true);
    write_shim_bd(t, target, col, SHIM_BD_A, from, -1, OPERAND_A);
    push_shim(t, col, SHIM_MM2S_QUEUE, SHIM_BD_A, (int) from->repeat, false);
    if (has_b) {
        start_shim_b(t, target, col, piece);
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
    const struct array_target * target = array_target(spec->arch);
    struct txn t;
    txn_begin(&t, target->columns, target->device_generation);
    struct plan_cursor cursor = {0};
    struct plan_piece piece;
    for (int col = 0; plan_next(&plan, &cursor, target->columns, &piece);) {
        start_column(&t, spec, col, &piece);
        bool more = cursor.run < plan.runs;
        if (++col == target->columns || !more) {
            for (int c = 0; c < col; c++) {
                txn_wait(&t, c, ARRAY_ROW_SHIM, 0, 0);
            }
            col = 0;
        }
    }
    return txn_end(&t, insts, n_words, err);
}

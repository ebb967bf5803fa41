// tasks-array: which tasks there are, and the instruction stream of one. Columns have as many
// units as each other, or one more. What is left of a column's last round goes to its last cores,
// so that the memtile's chain to the shim ends with them.
#include "tasks.h"

#include "aie/ops/elementwise/elementwise-plan.h"
#include "aie/ops/mul-mat/mul-mat-design.h"
#include "aie/ops/ops.h"
#include "aie/plan/bound.h"
#include "aie/plan/plan.h"
#include "aie/target/times.h"

#include <string.h>

_Static_assert(4 * TASK_MOST_PART + EW_MARGIN <= MM_XY_OTHER, "a margin fits behind a unit");

enum {
    MOST_UNITS = ARRAY_QUEUE_DEPTH * ARRAY_MAX_REPEAT, // of a column: tasks that a queue holds
    NORM_TRIP = 32,                                    // words that a trip of a norm takes
    OPERAND_A = 0,
    OPERAND_B,
    OPERAND_OUT,
};

static const struct task {
    enum kernel_op op;
    int which;
    enum kernel_op of; // the op that it is
} tasks[] = {
    {KERNEL_OP_TASK_ADD, TASK_ADD, KERNEL_OP_ADD},
    {KERNEL_OP_TASK_SWIGLU, TASK_SWIGLU, KERNEL_OP_SWIGLU},
    {KERNEL_OP_TASK_RMS_NORM_MUL, TASK_NORM, KERNEL_OP_RMS_NORM_MUL},
};

static const struct task * task_of(enum kernel_op op) {
    const struct task * t = tasks;
    while (t->op != op) {
        t++;
    }
    return t;
}

// ---- plan ----

static bool same_shape(const struct tensor * a, const struct tensor * b) {
    return !memcmp(a->ne, b->ne, sizeof a->ne);
}

static enum status check_tensors(const struct kernel_spec * spec, bool norm, struct error * err) {
    const struct tensor *a = &spec->inputs[0], *b = &spec->inputs[1], *out = &spec->output;
    const struct tensor * all[] = {a, b, out};
    const char * name = kernel_op_name(spec->op);
    if (spec->n_inputs != 2) {
        return error_set(err, ST_INVALID, "%s takes two inputs, %d given", name, spec->n_inputs);
    }
    for (int i = 0; i < 3; i++) {
        if (all[i]->dtype != DTYPE_F32 || !tensor_is_contiguous(all[i])) {
            return error_set(err, ST_UNSUPPORTED, "%s takes f32 that lies without gaps", name);
        }
        if (tensor_elements(all[i]) <= 0 || tensor_bytes(all[i]) > (int64_t) UINT32_MAX - 4) {
            return error_set(err, ST_UNSUPPORTED, "%s of no elements, or of 4 GiB and more", name);
        }
    }
    bool weights = b->ne[0] == a->ne[0] && tensor_elements(b) == b->ne[0];
    if (!same_shape(a, out) || !(norm ? weights : same_shape(b, out))) {
        return error_set(err, ST_UNSUPPORTED, "%s takes operands of one shape%s", name,
                         norm ? ", and a row of weights" : "");
    }
    return ST_OK;
}

// The largest part of a row that is a unit; of a norm it is the whole. 0: there is none.
static int64_t unit_of(int64_t row, bool norm) {
    for (int64_t unit = norm ? TASK_MOST_ROW : TASK_MOST_PART; unit > 0; unit -= TASK_GRAIN) {
        if (row % unit == 0 && (!norm || unit == row)) {
            return unit;
        }
    }
    return 0;
}

// Of the columns' units the first ones' are one more where they do not come out even.
static int64_t units_of(const struct task_plan * t, int col) {
    return t->units / t->columns + (col < t->units % t->columns);
}

static int64_t first_of(const struct task_plan * t, int col) {
    int64_t rest = t->units % t->columns;
    return col * (t->units / t->columns) + (col < rest ? col : rest);
}

enum status task_plan(struct aie_plan * p, struct error * err) {
    const struct kernel_spec * spec = &p->spec;
    const struct task * task = task_of(spec->op);
    bool norm = task->which == TASK_NORM;
    enum status st = check_tensors(spec, norm, err);
    if (st != ST_OK) {
        return st;
    }
    struct task_plan * t = &p->of.task;
    int rows = p->columns < MMP_CORE_ROWS_GEMM ? p->columns : MMP_CORE_ROWS_GEMM;
    *t = (struct task_plan){.which = task->which, .rows = rows};
    t->unit = unit_of(spec->inputs[0].ne[0], norm);
    if (!t->unit) {
        return error_set(err, ST_UNSUPPORTED, "%s takes no rows of %lld elements: %s %d%s",
                         kernel_op_name(spec->op), (long long) spec->inputs[0].ne[0],
                         norm ? "up to" : "they are a multiple of",
                         norm ? TASK_MOST_ROW : TASK_GRAIN,
                         norm ? ", in multiples of 64, are taken" : "");
    }
    t->units = tensor_elements(&spec->output) / t->unit;
    t->columns = t->units < p->columns ? (int) t->units : p->columns;
    int64_t most = norm ? MOST_UNITS - ARRAY_MAX_REPEAT : MOST_UNITS; // weights are a task as well
    if (units_of(t, 0) > most) {
        return error_set(err, ST_UNSUPPORTED, "%s of more than %lld parts of %lld elements",
                         kernel_op_name(spec->op), (long long) most * p->columns,
                         (long long) t->unit);
    }
    uint32_t products = spec->params[kernel_op_info(spec->op)->n_params - 1];
    p->program = mm_beside(spec->arch, products);
    if (!p->program) {
        return error_set(err, ST_UNSUPPORTED, "%s: there are no products %u on %s",
                         kernel_op_name(spec->op), products, kernel_arch_name(spec->arch));
    }
    return ST_OK;
}

uint64_t task_bound(const struct kernel_spec * spec) {
    const struct aie_times * t = aie_times(spec->arch);
    bool heavy = task_of(spec->op)->which != TASK_ADD;
    return bound_elements(spec, heavy ? &t->heavy : &t->plain);
}

// Host memory, or the stream up a column, which brings what all operands have.
uint64_t task_likely(const struct kernel_spec * spec) {
    int edges = aie_times(spec->arch)->likely.gemm_edges;
    uint64_t memory = bound_likely(spec, edges), words = 0;
    for (int i = 0; i < spec->n_inputs; i++) {
        words += (uint64_t) tensor_elements(&spec->inputs[i]);
    }
    uint64_t stream = words / (uint64_t) ops_columns(spec) + (uint64_t) edges;
    return memory > stream ? memory : stream;
}

// ---- a column ----

struct column {
    const struct flow * flow;
    const struct task_plan * t;
    uint32_t factor, add; // of a norm
    uint32_t trips;
    int col;
    int64_t units, rounds;
    int rest; // units behind the last whole round
};

static bool is_norm(const struct column * c) {
    return c->t->which == TASK_NORM;
}

// Buffers that a unit takes: both, where it is longer than one.
static int buffers(const struct column * c) {
    return c->t->unit > TASK_BY_TURNS ? 2 : 1;
}

// Units that a core has.
static int64_t own(const struct column * c, int row) {
    return c->rounds + (row >= c->t->rows - c->rest);
}

// Descriptors of a memtile: of even channels, and of odd ones.
enum {
    MEM_BD_A_IN = 0,
    MEM_BD_TILE_IN = 1,  // of cores 0 and 2
    MEM_BD_TILE_OUT = 4, // of all cores, a chain
    MEM_BD_B_IN = ARRAY_MEM_BD_ODD,
    MEM_BD_A_OUT,
    MEM_BD_B_OUT,
    MEM_BD_TILE_IN_ODD, // of cores 1 and 3
};

static int bd_tile_in(int row) {
    return (row % 2 ? MEM_BD_TILE_IN_ODD : MEM_BD_TILE_IN) + row / 2;
}

// Bytes of a memtile: two units of a, two of b, and one of each core's results.
static void write_memtile(const struct column * c) {
    const struct flow * f = c->flow;
    const struct mm_ways * ways = &mm_gemm_ways;
    struct flow_tile at = {c->col, ARRAY_ROW_MEM};
    uint32_t words = (uint32_t) c->t->unit, bytes = 4 * words;
    struct mm_turns a = mm_by_turns(0, words, LOCK_IN_EMPTY),
                    b = mm_by_turns(2 * bytes, words, LOCK_IN_EMPTY + 2);
    a.out.next = is_norm(c) ? -1 : MEM_BD_B_OUT;
    flow_mem_bd(f, c->col, MEM_BD_A_IN, &a.in);
    flow_mem_bd(f, c->col, MEM_BD_A_OUT, &a.out);
    flow_mem_bd(f, c->col, MEM_BD_B_IN, &b.in);
    flow_mem_bd(f, c->col, MEM_BD_B_OUT, &b.out);
    for (int row = 0; row < c->t->rows; row++) {
        struct array_bd tile = {.address = (4 + (uint32_t) row) * bytes,
                                .words = words,
                                .next = -1,
                                .acquire = LOCK_TILE_EMPTY + 2 * row,
                                .acquire_value = -1,
                                .release = LOCK_TILE_FULL + 2 * row,
                                .release_value = 1};
        flow_mem_bd(f, c->col, bd_tile_in(row), &tile);
        tile.acquire = LOCK_TILE_FULL + 2 * row;
        tile.release = LOCK_TILE_EMPTY + 2 * row;
        tile.next = row + 1 < c->t->rows ? MEM_BD_TILE_OUT + row + 1 : -1;
        flow_mem_bd(f, c->col, MEM_BD_TILE_OUT + row, &tile);
        flow_push(f, at, MEM_S2MM_QUEUE + 8 * (uint32_t) (ways->tiles_in + row), bd_tile_in(row),
                  own(c, row), false);
    }
    uint32_t up = MEM_MM2S_QUEUE + 8 * (uint32_t) (ways->out + 1);
    uint32_t out = MEM_MM2S_QUEUE + 8 * (uint32_t) ways->tiles_out;
    flow_push(f, at, MEM_S2MM_QUEUE + 8 * MEM_IN, MEM_BD_A_IN, c->units, false);
    flow_push(f, at, MEM_S2MM_QUEUE + 8 * (MEM_IN + 1), MEM_BD_B_IN, is_norm(c) ? 1 : c->units,
              false);
    flow_push(f, at, up, MEM_BD_B_OUT, is_norm(c), false);
    flow_push(f, at, up, MEM_BD_A_OUT, c->units, false);
    flow_push(f, at, out, MEM_BD_TILE_OUT, c->rounds, false);
    flow_push(f, at, out, MEM_BD_TILE_OUT + c->t->rows - c->rest, c->rest > 0, false);
}

// Descriptors of a core, behind gemm's.
enum {
    CORE_BD_OUT = CORE_BDS,
    CORE_BD_WEIGHTS,
    CORE_BD_ROUND, // of a whole round, up to four, and of the rest
    CORE_BD_REST = CORE_BD_ROUND + 4,
};

static void pass(const struct column * c, struct flow_tile at, int bd, int64_t units, bool last) {
    uint32_t words = (uint32_t) (units * c->t->unit * (is_norm(c) ? 1 : 2));
    struct array_bd d = {.address = TASK_PASSED,
                         .words = words,
                         .next = last ? -1 : bd + 1,
                         .acquire = -1,
                         .release = -1,
                         .wrap = {TASK_PASSED_ROW},
                         .step = {1, 1}};
    flow_core_bd(c->flow, at, bd, &d);
}

// A round of so many units, of which the core has number `mine`, or none: -1. The first of a run
// goes to the buffer `first`, and so on by turns.
static void write_round(const struct column * c, struct flow_tile at, int bd, int units, int mine,
                        int64_t first, int64_t runs) {
    int from = bd, behind = units - 1 - mine;
    if (mine != 0) {
        pass(c, at, bd++, mine < 0 ? units : mine, mine < 0);
    }
    if (mine >= 0) {
        bool turns = runs > 1 && buffers(c) == 1;
        uint32_t other = first % 2 && buffers(c) == 1 ? MM_XY_OTHER : 0;
        struct array_bd a = {.address = MM_X ^ other,
                             .words = (uint32_t) c->t->unit,
                             .next = bd + 1,
                             .acquire = MM_LOCK_X_EMPTY,
                             .acquire_value = -buffers(c),
                             .release = -1,
                             .iterations = turns ? 2 : 0,
                             .iteration_step = turns ? MM_XY_OTHER / 4 : 0};
        struct array_bd b = a;
        b.address = MM_Y ^ other;
        b.acquire = -1;
        struct array_bd * last = is_norm(c) ? &a : &b;
        last->release = MM_LOCK_X_FULL;
        last->release_value = 1;
        last->next = behind ? bd + 1 + !is_norm(c) : -1;
        flow_core_bd(c->flow, at, bd++, &a);
        if (!is_norm(c)) {
            flow_core_bd(c->flow, at, bd++, &b);
        }
        if (behind) {
            pass(c, at, bd++, behind, true);
        }
    }
    flow_push(c->flow, at, CORE_S2MM_QUEUE + 8, from, runs, false);
}

static void write_core(const struct column * c, int row) {
    const struct flow * f = c->flow;
    struct flow_tile at = {c->col, ARRAY_ROW_CORE + row};
    int64_t units = own(c, row);
    int rest_mine = row - (c->t->rows - c->rest);
    bool turns = buffers(c) == 1;
    if (units) {
        uint32_t params[MM_PARAM_MANY + 1] = {
            [TASK_PARAM_UNITS] = (uint32_t) units,
            [TASK_PARAM_TRIPS] = c->trips,
            [TASK_PARAM_FACTOR] = c->factor,
            [TASK_PARAM_ADD] = c->add,
            [TASK_PARAM_BUFFERS] = (uint32_t) buffers(c),
            [TASK_PARAM_X_OTHER] = turns ? MM_XY_OTHER : 0,
            [TASK_PARAM_C_OTHER] = turns ? MM_C_OTHER : 0,
            [MM_PARAM_MANY] = (uint32_t) (MM_MANY_TASK + c->t->which),
        };
        struct array_bd out = {.address = TASK_OUT,
                               .words = (uint32_t) c->t->unit,
                               .next = -1,
                               .acquire = MM_LOCK_C_FULL,
                               .acquire_value = -1,
                               .release = MM_LOCK_C_EMPTY,
                               .release_value = buffers(c),
                               .iterations = turns ? 2 : 0,
                               .iteration_step = turns ? MM_C_OTHER / 4 : 0};
        txn_block_write(f->t, image_addr(at.col, at.row, MM_PARAMS), params, MM_PARAM_MANY + 1);
        flow_core_bd(f, at, CORE_BD_OUT, &out);
        flow_push(f, at, CORE_MM2S_QUEUE, CORE_BD_OUT, units, false);
    }
    if (is_norm(c)) {
        struct array_bd weights = {.address = MM_Y,
                                   .words = (uint32_t) c->t->unit,
                                   .next = -1,
                                   .acquire = -1,
                                   .release = -1};
        flow_core_bd(f, at, CORE_BD_WEIGHTS, &weights);
        flow_push(f, at, CORE_S2MM_QUEUE + 8, CORE_BD_WEIGHTS, 1, false);
    }
    if (c->rounds) {
        write_round(c, at, CORE_BD_ROUND, c->t->rows, row, 0, c->rounds);
    }
    if (c->rest) {
        write_round(c, at, CORE_BD_REST, c->rest, rest_mine < 0 ? -1 : rest_mine, c->rounds, 1);
    }
}

static void write_shim(const struct column * c) {
    enum { BD_A, BD_B, BD_OUT };
    struct flow_tile shim = {c->col, ARRAY_ROW_SHIM};
    uint32_t words = (uint32_t) (c->units * c->t->unit);
    uint32_t at = (uint32_t) (4 * first_of(c->t, c->col) * c->t->unit);
    struct array_bd all = {.words = words, .next = -1}, b = all;
    b.words = is_norm(c) ? (uint32_t) c->t->unit : words;
    flow_shim_bd(c->flow, c->col, BD_A, &all, OPERAND_A, at);
    flow_shim_bd(c->flow, c->col, BD_B, &b, OPERAND_B, is_norm(c) ? 0 : at);
    flow_shim_bd(c->flow, c->col, BD_OUT, &all, OPERAND_OUT, at);
    flow_push(c->flow, shim, SHIM_S2MM_QUEUE, BD_OUT, 1, true);
    flow_push(c->flow, shim, SHIM_MM2S_QUEUE + 8, BD_B, 1, false);
    flow_push(c->flow, shim, SHIM_MM2S_QUEUE, BD_A, 1, false);
}

enum status task_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                        struct error * err) {
    const struct task_plan * t = &p->of.task;
    const struct aie_target * target = aie_target(p->spec.arch);
    const struct aie_program * layer = &aie_programs[AIE_PROGRAM_LAYER_F32];
    bool norm = t->which == TASK_NORM;
    int trip = norm ? NORM_TRIP : ew_trip_words(layer, p->spec.arch, task_of(p->spec.op)->of);
    float factor = 1 / (float) t->unit;
    struct txn txn;
    struct flow flow = {&txn, target};
    txn_begin(&txn, p->columns, target->device_generation);
    for (int col = 0; col < t->columns; col++) {
        struct column c = {.flow = &flow,
                           .t = t,
                           .add = p->spec.params[0],
                           .trips = (uint32_t) (t->unit / trip),
                           .col = col,
                           .units = units_of(t, col)};
        c.rounds = c.units / t->rows;
        c.rest = (int) (c.units % t->rows);
        if (norm) {
            memcpy(&c.factor, &factor, sizeof factor);
        }
        flow_expect(&flow, col, 0);
        for (int row = 0; row < t->rows; row++) {
            write_core(&c, row);
        }
        write_memtile(&c);
        write_shim(&c);
    }
    for (int col = 0; col < t->columns; col++) {
        flow_wait(&flow, col, 0);
    }
    return txn_end(&txn, insts, n_words, err);
}

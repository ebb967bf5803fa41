// weigh: see the header. All parts of a row are equally long and whole trips of the core's loop, so
// that rows of other lengths are refused; who has such multiplies and adds.
#include "weigh.h"

#include "aie/ops/mixed.h"
#include "aie/plan/bound.h"
#include "aie/plan/plan.h"

enum { OPERAND_A, OPERAND_B, OPERAND_OUT };
enum { SHIM_BD_A, SHIM_BD_OUT, SHIM_BD_B, SHIM_BDS };
enum {
    MOST_ROWS = 64,   // that are added up
    MOST_TOKENS = 16, // of an instruction stream
    MOST_PART = 512,  // words: a dimension of a descriptor has 1,023
};

static const struct aie_program * layer(void) {
    return &aie_programs[AIE_PROGRAM_LAYER_F32];
}

static enum status check(const struct kernel_spec * spec, struct error * err) {
    const struct tensor *a = &spec->inputs[0], *b = &spec->inputs[1], *out = &spec->output;
    if (spec->n_inputs != 2 || a->dtype != DTYPE_F32 || b->dtype != DTYPE_F32 ||
        out->dtype != DTYPE_F32) {
        return error_set(err, ST_UNSUPPORTED, "a weighted sum is of f32, and has two inputs");
    }
    bool shapes = a->ne[3] == 1 && b->ne[0] == 1 && b->ne[1] == a->ne[1] && b->ne[2] == a->ne[2] &&
                  b->ne[3] == 1 && out->ne[0] == a->ne[0] && out->ne[1] == a->ne[2] &&
                  out->ne[2] == 1 && out->ne[3] == 1;
    if (!shapes || tensor_elements(a) <= 0) {
        return error_set(err, ST_INVALID, "the shapes of a weighted sum do not match");
    }
    if (!tensor_is_contiguous(a) || !tensor_is_contiguous(b) || !tensor_is_contiguous(out)) {
        return error_set(err, ST_UNSUPPORTED, "rows of a weighted sum lie apart");
    }
    if (a->ne[1] > MOST_ROWS || a->ne[2] > MOST_TOKENS) {
        return error_set(err, ST_UNSUPPORTED, "%lld rows for each of %lld tokens, at most %d of %d",
                         (long long) a->ne[1], (long long) a->ne[2], MOST_ROWS, MOST_TOKENS);
    }
    if (a->ne[0] > 1 << 20) {
        return error_set(err, ST_UNSUPPORTED, "rows of %lld numbers fit no descriptor",
                         (long long) a->ne[0]);
    }
    return ST_OK;
}

// As many columns as there are, then parts as long as fit.
static bool share(int64_t trips, int64_t most, int columns, struct weigh_plan * out) {
    for (int c = columns; c > 0; c--) {
        for (int64_t chunks = 1; trips % c == 0 && chunks <= ARRAY_MAX_REPEAT; chunks++) {
            if (trips / c % chunks == 0 && trips / c / chunks <= most) {
                *out = (struct weigh_plan){c, (uint32_t) (trips / c / chunks), (uint32_t) chunks};
                return true;
            }
        }
    }
    return false;
}

enum status weigh_plan(struct aie_plan * p, struct error * err) {
    const struct kernel_spec * spec = &p->spec;
    enum status st = check(spec, err);
    if (st != ST_OK) {
        return st;
    }
    int64_t trip = ew_trip_words(layer(), spec->arch, spec->op), m = spec->inputs[0].ne[0];
    int64_t most = EW_CHUNK_WORDS / spec->inputs[0].ne[1];
    most = (most < MOST_PART ? most : MOST_PART) / trip;
    if (m % trip || !share(m / trip, most, mixed_columns(p->columns), &p->of.weigh)) {
        return error_set(err, ST_UNSUPPORTED,
                         "rows of %lld numbers, %lld of them, are no equal parts of whole trips",
                         (long long) m, (long long) spec->inputs[0].ne[1]);
    }
    p->of.weigh.part *= (uint32_t) trip;
    p->program = &aie_programs[AIE_PROGRAM_DECODER];
    return ST_OK;
}

uint64_t weigh_bound(const struct kernel_spec * spec) {
    return bound_elements(spec, &aie_times(spec->arch)->heavy);
}

// ---- instruction stream ----

// Parameters before data can come, as for every elementwise op.
static void start_column(const struct flow * f, const struct aie_plan * p, int col, int64_t token) {
    const struct weigh_plan * plan = &p->of.weigh;
    const struct tensor * a = &p->spec.inputs[0];
    uint32_t n = (uint32_t) a->ne[1], row = (uint32_t) a->ne[0], part = plan->part;
    uint32_t own = part * plan->chunks,
             trip = (uint32_t) ew_trip_words(layer(), p->spec.arch, p->spec.op);
    const struct array_bd d[SHIM_BDS] = {
        [SHIM_BD_A] = {.words = n * own,
                       .next = -1,
                       .wrap = {part, n},
                       .step = {1, n > 1 ? row : 1, part}},
        [SHIM_BD_OUT] = {.words = own, .next = -1},
        [SHIM_BD_B] = {.words = n, .next = -1},
    };
    uint32_t at = (uint32_t) col * own;
    flow_shim_bds(f, col, 0, d, SHIM_BDS);
    flow_shim_aim(f, col, SHIM_BD_A, OPERAND_A, 4 * ((uint32_t) token * n * row + at));
    flow_shim_aim(f, col, SHIM_BD_OUT, OPERAND_OUT, 4 * ((uint32_t) token * row + at));
    flow_shim_aim(f, col, SHIM_BD_B, OPERAND_B, 4 * (uint32_t) token * n);
    struct flow_tile shim = {col, ARRAY_ROW_SHIM};
    flow_push(f, shim, SHIM_MM2S_QUEUE, SHIM_BD_A, 1, false);
    flow_push(f, shim, SHIM_MM2S_QUEUE + 8, SHIM_BD_B, plan->chunks, false);
    flow_expect(f, col, 0);
    flow_push(f, shim, SHIM_S2MM_QUEUE, SHIM_BD_OUT, 1, true);
    const struct spread s = {.buffers = ew_buffers,
                             .cores = 1,
                             .mixed = true,
                             .first = MIXED_ELEMENTWISE,
                             .streams = {[SPREAD_A] = {.full = plan->chunks, .chunk = n * part},
                                         [SPREAD_B] = {.full = plan->chunks, .chunk = n},
                                         [SPREAD_OUT] = {.full = plan->chunks, .chunk = part}}};
    const uint32_t params[EW_PARAM_ARGS + 1] = {
        [EW_PARAM_CHUNKS] = plan->chunks,
        [EW_PARAM_TRIPS] = part / trip,
        [EW_PARAM_TRIPS_LAST] = part / trip,
        [EW_PARAM_OP] = ew_index(layer(), p->spec.op),
        [EW_PARAM_STREAM_B] = 1,
        [EW_PARAM_ARGS] = n,
    };
    struct flow_tile core = spread_core(&s, col, 0);
    txn_block_write(f->t, image_addr(core.col, core.row, EW_PARAMS), params, EW_PARAM_ARGS + 1);
    spread_start(f, col, &s);
}

enum status weigh_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                         struct error * err) {
    const struct aie_target * target = aie_target(p->spec.arch);
    struct txn t;
    struct flow f = {&t, target};
    txn_begin(&t, p->columns, target->device_generation);
    for (int64_t token = 0; token < p->spec.inputs[0].ne[2]; token++) {
        for (int col = 0; col < p->of.weigh.columns; col++) {
            if (token) {
                flow_wait(&f, col, 0); // the others go on meanwhile
            }
            start_column(&f, p, col, token);
        }
    }
    for (int col = 0; col < p->of.weigh.columns; col++) {
        flow_wait(&f, col, 0);
    }
    return txn_end(&t, insts, n_words, err);
}

// convert-plan: cuts a conversion into pieces of work, one core each. Rows that follow each other
// without a gap merge; where nothing is padded and there is one piece a number, even the whole
// tensor becomes a single row. Everything that a piece asks of a descriptor fits its fields.
#include "convert.h"

#include "aie/array/array.h"
#include "aie/ops/ops.h"
#include "aie/plan/bound.h"

enum {
    GRAIN = 8,               // rows are padded to a multiple of this
    MAX_WIDTH = 255 * GRAIN, // of a slice: a core's descriptor counts blocks of 8
    MAX_APART = 1023,        // words that a shim descriptor sets apart
    MAX_CORE_APART = 255,    // and a core's
    MAX_STEP = 4 << 20,      // bytes between rows, or pieces, that a shim descriptor can say
    MAX_CHUNKS = 2 * ARRAY_MAX_REPEAT, // ping and pong
    MAX_BLOCKS = 1 << 14,              // beyond that the instruction stream gets too long
    LEAST_WORK = 1024,                 // elements for which it pays to start a core
    LEAST_AGAIN = 4096,                // and to start it once more
    MANY_BLOCKS = 4,                   // for each core: then they need not be cut
    LEAST_CHUNK = 256,
    CHUNKS = 8,    // of a short piece: loading, computing and storing overlap
    MAX_RUNS = 64, // of a shim descriptor that moves on
    CORES = 4,     // for which a few long rows are cut
};

static int64_t round_up(int64_t v, int64_t to) {
    return (v + to - 1) / to * to;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

uint32_t convert_padded(uint32_t width) {
    return (uint32_t) round_up(width, GRAIN);
}

uint32_t convert_words(const struct convert_plan * plan, uint32_t width) {
    return (uint32_t) ops_parts((int64_t) width * plan->element, 4);
}

uint32_t convert_chunk_rows(const struct convert_plan * plan, uint32_t width, int64_t rows) {
    uint32_t padded = convert_padded(width), words = convert_words(plan, width);
    bool apart = words != convert_words(plan, padded);
    if ((apart && words > MAX_CORE_APART) || (plan->pieces > 1 && padded / 2 > MAX_CORE_APART)) {
        return 1;
    }
    int64_t few = most(ops_parts(rows, CHUNKS), ops_parts(LEAST_CHUNK, padded));
    return (uint32_t) least(rows, least(few, CV_CHUNK / padded));
}

// ---- shape ----

static bool step_fits(int64_t step) {
    return step > 0 && step <= MAX_STEP;
}

// Dimensions of rows, without those of one row, and with those merged that are one.
static void merge_rows(const struct tensor * t, struct convert_plan * plan) {
    int n = 0;
    for (int d = 1; d < TENSOR_DIMS; d++) {
        if (t->ne[d] == 1) {
            continue;
        }
        if (n > 0 && t->nb[d] == plan->n[n - 1] * plan->step[n - 1]) {
            plan->n[n - 1] *= t->ne[d];
        } else {
            plan->n[n] = t->ne[d];
            plan->step[n++] = t->nb[d];
        }
    }
    for (; n < 3; n++) {
        plan->n[n] = 1;
        plan->step[n] = 0;
    }
}

static void merge_elements(struct convert_plan * plan) {
    if (plan->pieces == 1 && plan->row % GRAIN == 0 && plan->n[0] > 1 &&
        plan->step[0] == plan->row * plan->element) {
        plan->row *= plan->n[0];
        for (int d = 0; d < 3; d++) {
            plan->n[d] = d < 2 ? plan->n[d + 1] : 1;
            plan->step[d] = d < 2 ? plan->step[d + 1] : 0;
        }
    }
}

// How many dimensions of rows one descriptor can walk.
static int inner_dims(const struct convert_plan * plan) {
    if (!step_fits(plan->step[0]) || plan->n[0] == 1) {
        return 0;
    }
    return plan->n[1] > 1 && step_fits(plan->step[1]) && plan->n[0] <= MAX_APART ? 2 : 1;
}

static int64_t rows_of(const struct convert_plan * plan) {
    return plan->n[0] * plan->n[1] * plan->n[2];
}

// ---- slices ----

static void add_layer(struct convert_plan * plan, struct convert_layer layer) {
    layer.blocks = layer.along ? rows_of(plan) : layer.slices * ops_parts(plan->outer, plan->group);
    plan->blocks += layer.blocks;
    plan->layers[plan->n_layers++] = layer;
}

// A width of at most `width`, and not much less, that divides the row; `width` where there is none.
static int64_t even_width(int64_t row, int64_t width) {
    for (int64_t w = width; w >= width / 2; w -= GRAIN) {
        if (row % w == 0) {
            return w;
        }
    }
    return width;
}

// Where two dimensions are small and a third is not, one descriptor runs several times, and each
// run begins one step of the third dimension further.
static int64_t group_of(const struct convert_plan * plan) {
    int64_t rows = plan->n[0] * plan->n[1];
    if (plan->inner < 2 || !step_fits(plan->step[2])) {
        return 1;
    }
    int64_t fits = MAX_CHUNKS * most(1, CV_CHUNK / least(CV_CHUNK, plan->padded)) / rows;
    fits = plan->padded > MAX_CORE_APART ? MAX_CHUNKS / rows : fits; // one row a chunk
    return most(1, least(least(MAX_RUNS, fits), plan->outer / (MANY_BLOCKS * CORES)));
}

static void make_layers(struct convert_plan * plan) {
    int64_t words = ops_parts(plan->row * plan->element, 4), rows = rows_of(plan);
    bool apart = plan->inner == 2 || (plan->inner == 1 && plan->step[0] != 4 * words);
    int64_t most_apart = least(MAX_WIDTH, MAX_APART * 4 / plan->element / GRAIN * GRAIN);
    if (plan->row <= (apart ? most_apart : MAX_WIDTH)) {
        add_layer(plan, (struct convert_layer){.width = (uint32_t) plan->row, .slices = 1});
        return;
    }
    int64_t across = ops_parts(plan->row, most_apart);
    bool far = plan->inner > 0 && plan->pieces * plan->padded * 2 > MAX_STEP;
    bool along = far || rows < across;
    int64_t width = round_up(ops_parts(plan->row, across), GRAIN);
    if (along) {
        width = round_up(ops_parts(plan->row * rows, CORES * CHUNKS), GRAIN);
        width = even_width(plan->row, least(MAX_WIDTH, most(LEAST_CHUNK, width)));
    }
    int64_t full = plan->row / width, rest = plan->row % width;
    add_layer(plan,
              (struct convert_layer){.width = (uint32_t) width, .slices = full, .along = along});
    if (rest) {
        add_layer(plan, (struct convert_layer){.first = full * width,
                                               .width = (uint32_t) rest,
                                               .slices = 1,
                                               .along = along});
    }
}

enum status convert_plan_make(const struct kernel_spec * spec, struct convert_plan * plan,
                              struct error * err) {
    const struct tensor * t = &spec->inputs[0];
    *plan = (struct convert_plan){.element = dtype_size(t->dtype),
                                  .pieces = convert_has_pieces(spec) ? 3 : 1,
                                  .row = t->ne[0]};
    merge_rows(t, plan);
    merge_elements(plan);
    plan->padded = round_up(plan->row, GRAIN);
    plan->inner = inner_dims(plan);
    plan->outer = rows_of(plan);
    for (int d = 0; d < plan->inner; d++) {
        plan->outer /= plan->n[d];
    }
    plan->group = group_of(plan);
    make_layers(plan);
    if (plan->pieces > 1 && plan->row > MAX_WIDTH && plan->padded * 2 > MAX_STEP) {
        return error_set(err, ST_UNSUPPORTED,
                         "rows of %lld elements in pieces, at most %d are done",
                         (long long) plan->row, MAX_STEP / 2);
    }
    if (plan->blocks > MAX_BLOCKS) {
        return error_set(err, ST_UNSUPPORTED, "%lld pieces of work, at most %d are done",
                         (long long) plan->blocks, MAX_BLOCKS);
    }
    return ST_OK;
}

// ---- pieces ----

// Byte in the source of a row, by its number.
static int64_t row_at(const struct convert_plan * plan, int64_t row) {
    return row % plan->n[0] * plan->step[0] + row / plan->n[0] % plan->n[1] * plan->step[1] +
           row / (plan->n[0] * plan->n[1]) * plan->step[2];
}

static struct convert_piece block_at(const struct convert_plan * plan,
                                     const struct convert_layer * layer, int64_t block) {
    struct convert_piece b = {.width = layer->width, .n1 = 1, .n2 = 1, .n3 = 1};
    int64_t first = layer->first, row, out_row = plan->pieces * plan->padded * 2;
    if (layer->along) {
        row = block;
        b.n1 = layer->slices;
        b.step1 = (int64_t) layer->width * plan->element;
        b.out_step = 2 * (int64_t) layer->width;
        b.packed_out = plan->pieces == 1;
    } else {
        int64_t rows = rows_of(plan) / plan->outer, blocks = ops_parts(plan->outer, plan->group);
        int64_t at = block % blocks * plan->group;
        row = at * rows;
        first += block / blocks * layer->width;
        b.n1 = plan->inner > 0 ? plan->n[0] : 1;
        b.n2 = plan->inner > 1 ? plan->n[1] : 1;
        b.n3 = least(plan->group, plan->outer - at);
        b.step1 = plan->step[0];
        b.step2 = plan->step[1];
        b.step3 = plan->step[2];
        b.out_step = out_row;
        b.packed_out = layer->width == plan->row || (rows * b.n3 == 1 && plan->pieces == 1);
    }
    b.in = (uint64_t) (row_at(plan, row) + first * plan->element);
    b.out = (uint64_t) (row * out_row + first * 2);
    return b;
}

// The number of parts of a block that gives all cores equally many.
static int64_t parts_of_block(int64_t blocks, int cores) {
    int64_t parts = 1;
    while (blocks < MANY_BLOCKS * (int64_t) cores && blocks * parts % cores) {
        parts++;
    }
    return parts;
}

bool convert_plan_next(const struct convert_plan * plan, struct convert_cursor * c, int cores,
                       struct convert_piece * out) {
    if (c->layer == plan->n_layers) {
        return false;
    }
    const struct convert_layer * layer = &plan->layers[c->layer];
    *out = block_at(plan, layer, c->block);
    int64_t n1 = out->n1, n2 = out->n2, rows = n1 * n2, padded = convert_padded(out->width);
    int64_t parts = parts_of_block(layer->blocks, cores);
    int64_t work = parts * layer->blocks > cores ? LEAST_AGAIN : LEAST_WORK;
    int64_t share = most(ops_parts(rows, parts), ops_parts(work, padded));
    int64_t chunk = convert_chunk_rows(plan, out->width, least(share, rows));
    if (share > 2 * CHUNKS * chunk) { // whole pairs of buffers take fewer descriptors
        share = round_up(share, 2 * chunk);
    }
    share = least(share, MAX_CHUNKS * chunk);
    out->in += (uint64_t) (c->i1 * out->step1 + c->i2 * out->step2);
    out->out += (uint64_t) ((c->i1 + c->i2 * n1) * out->out_step);
    if (plan->group > 1 && !layer->along) {
        c->i2 = n2; // chosen so that it is work for one core
    } else if (c->i1 == 0 && share >= n1) {
        out->n2 = least(share / n1, n2 - c->i2);
        c->i2 += out->n2;
    } else {
        out->n2 = 1;
        out->n1 = least(share, n1 - c->i1);
        c->i1 += out->n1;
        c->i2 += c->i1 == n1;
        c->i1 = c->i1 == n1 ? 0 : c->i1;
    }
    if (c->i2 == n2) {
        c->i2 = 0;
        c->block++;
    }
    if (c->block == layer->blocks) {
        c->block = 0;
        c->layer++;
    }
    return true;
}

// ---- how long it takes ----

// Each column has its share of 64 rows at a time. The bound counts one core of a column, because
// the shape may leave no turns to the others.
static uint64_t unpack_bound(const struct kernel_spec * spec) {
    enum { UNITS = 4 };
    const struct aie_times * t = aie_times(spec->arch);
    const struct tensor * out = &spec->output;
    enum kernel_blocks kind = kernel_blocks_of(spec);
    uint64_t n = (uint64_t) ops_columns(spec);
    uint64_t all = (uint64_t) (out->ne[1] * out->ne[2] * out->ne[3]);
    int once = kernel_block_once(kind);
    bool turns = n >= UNITS && once > 0 && out->ne[0] % (UNITS * once) == 0;
    const int * slice = turns ? t->unpack_turn : t->unpack_slice;
    uint64_t slices = (all + 64 * n - 1) / (64 * n) * (uint64_t) (out->ne[0] / 64) + UNITS;
    return (uint64_t) t->start +
           slices * (uint64_t) (slice[0] + (bound_looks_up(kind) ? slice[1] : 0));
}

uint64_t convert_bound(const struct kernel_spec * spec) {
    return spec->op == KERNEL_OP_UNPACK ? unpack_bound(spec)
                                        : bound_elements(spec, &aie_times(spec->arch)->plain);
}

// Host memory bounds both. UNPACK writes runs of as many numbers as come to a core at once; memory
// charges these like longer ones.
uint64_t convert_likely(const struct kernel_spec * spec) {
    enum { RUN = 270 }; // bytes, as in bound.c
    const struct aie_likely_times * t = &aie_times(spec->arch)->likely;
    const struct tensor *in = &spec->inputs[0], *out = &spec->output;
    int64_t read = tensor_elements(in) * dtype_size(in->dtype);
    int64_t written = tensor_elements(out) * dtype_size(out->dtype);
    if (spec->op == KERNEL_OP_UNPACK) {
        int64_t run = kernel_block_once(kernel_blocks_of(spec)) * dtype_size(out->dtype);
        written = run < RUN ? written / run * RUN : written;
    }
    return (uint64_t) ((read + written) * 10 / t->memory_tenths + t->edges);
}

// mat-ways: which of the ways to make a product is taken. Layouts are cut until there are kernels
// for every part: into batches first, then into blocks of rows of either operand; along k only
// where no kernel takes all of it, or not of as many rows of b as it could. Quantized weights have
// many ways, of which the cheapest is taken (mat-cost.c).
#include "mat-plan-impl.h"

#include "kernel/shared.h"

#include <string.h>

// ---- fitting ----

static bool can(const struct mat_world * w, const struct kernel_spec * spec) {
    return plan_can(w->store, spec, w->by_command);
}

// Are there kernels for all parts of k of a chunk of this size?
static bool fits_along_k(const struct mat_world * w, const struct mat_plan * p,
                         const int64_t ne[GGML_MAX_DIMS]) {
    int64_t k = p->a.kernel.ne[0], rest = k % p->chunk_k;
    struct kernel_spec first = mat_product(p, w->arch, ne, p->chunk_k);
    if (!can(w, &first)) {
        return false;
    }
    if (p->chunk_k == k || p->stored) { // groups of block floats are not cut along k
        return p->chunk_k == k;
    }
    int64_t blocks =
        p->a.source.panel.words * DMA_WORD / (int64_t) ggml_type_size(p->a.kernel.type);
    if (mat_is_in_panels(p) && p->chunk_k % (blocks * ggml_blck_size(p->a.kernel.type))) {
        return false; // of which whole chunks can be had
    }
    struct kernel_spec later = first, last = mat_product(p, w->arch, ne, rest),
                       sum = mat_sum(p, w->arch, ne);
    later.output = last.output = mat_partial(p, ne);
    return can(w, &later) && (rest == 0 || can(w, &last)) && can(w, &sum);
}

// Is there a kernel for a whole chunk, and for each that the edges cut short?
static bool fits(const struct mat_world * w, const struct mat_plan * p) {
    const int64_t * whole = p->result.kernel.ne;
    for (int short_ones = 0; short_ones < 1 << GGML_MAX_DIMS; short_ones++) {
        int64_t ne[GGML_MAX_DIMS];
        bool exists = true;
        for (int d = 0; d < GGML_MAX_DIMS; d++) {
            bool is_short = short_ones >> d & 1;
            ne[d] = is_short ? whole[d] % p->chunk[d] : p->chunk[d];
            exists &= ne[d] > 0;
        }
        if (exists && !fits_along_k(w, p, ne)) {
            return false;
        }
    }
    return true;
}

static int64_t half(int64_t n, int64_t multiple) {
    return n <= multiple ? 1 : ((n + 1) / 2 + multiple - 1) / multiple * multiple;
}

// Cuts along k where even the smallest result takes too long, in halves whose length every kernel
// takes.
static bool cut_k(const struct mat_world * w, struct mat_plan * p) {
    const int64_t multiple = aie_target(w->arch)->product_cut_k;
    const int64_t * ne = p->result.kernel.ne;
    int64_t least[GGML_MAX_DIMS] = {ne[0] < 16 ? ne[0] : 16, ne[1] < 16 ? ne[1] : 16, 1, 1};
    while (!fits_along_k(w, p, least)) {
        if (p->chunk_k <= multiple) {
            return false;
        }
        p->chunk_k = half(p->chunk_k, multiple);
    }
    return true;
}

// Batches are cut between the repetitions of a, or singly.
static bool cut(struct mat_plan * p) {
    const int64_t least = 16;
    for (int d = GGML_MAX_DIMS - 1; d >= 2; d--) {
        if (p->chunk[d] > 1) {
            p->chunk[d] = half(p->chunk[d], mat_repeats(p, d));
            return true;
        }
    }
    int64_t * larger = p->chunk[0] >= p->chunk[1] ? &p->chunk[0] : &p->chunk[1];
    if (*larger <= least) {
        return false;
    }
    *larger = half(*larger, least);
    return true;
}

// ---- choosing ----

// What the product of a whole chunk runs on; NULL: our compiler has none.
static const struct aie_program * program_of(const struct mat_ask * r, const struct mat_plan * p) {
    const struct aie_program * at;
    struct kernel_spec product = mat_product(p, r->world->arch, p->chunk, p->chunk_k);
    store_likely(r->world->store, &product, &at);
    return at;
}

static bool is_mixed(const struct mat_ask * r, const struct mat_plan * p) {
    const struct aie_program * at = program_of(r, p);
    return at && aie_program_is_mixed(at);
}

// The conversion on the PDI of a product, where it can be.
static void place_beside(const struct mat_ask * r, const struct aie_program * product,
                         struct kernel_spec * convert) {
    static const enum mat_pieces places[] = {MAT_HI_MANY, MAT_HI_STORED, MAT_HI_BLOCKS};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const struct aie_program * at = NULL;
        struct kernel_spec there = *convert;
        there.params[0] = (uint32_t) places[i];
        if (store_can_itself(r->world->store, &there)) {
            store_likely(r->world->store, &there, &at);
        }
        if (at && at == product) {
            *convert = there;
            return;
        }
    }
}

// What packs an operand for a product of many rows is on that one's PDI, so that none is loaded
// between the two.
static void place_conversions(const struct mat_ask * r, struct mat_plan * p) {
    struct mat_operand * operands[] = {&p->a, &p->b};
    if (p->chunk[1] <= MAT_FEW_ROWS) {
        return;
    }
    const struct aie_program * at = program_of(r, p);
    for (int i = 0; i < 2; i++) {
        struct mat_operand * o = operands[i];
        if (o->way == MAT_BY_KERNEL && o->convert.op == KERNEL_OP_CONVERT && o->pieces == MAT_HI) {
            place_beside(r, at, &o->convert);
        }
    }
}

// Blocks go to the cores once for every few rows of b, as many as a kernel takes; and where the
// last time would have fewer, each has about as many, in fours, which the multiplier takes.
// More than 16 only where they are still few.
static bool few_at_a_time(const struct mat_ask * r, struct mat_plan * p, int64_t most) {
    static const int64_t few[] = {32, 24, MAT_FEW_ROWS, 12, 8, 4, 2, 1};
    int64_t n = p->result.kernel.ne[1];
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++) {
        int64_t times = (n + few[i] - 1) / few[i], even = ((n + times - 1) / times + 3) / 4 * 4;
        p->chunk[1] = n < few[i] ? n : even < few[i] ? even : few[i];
        if (few[i] <= most && fits(r->world, p) && (few[i] <= MAT_FEW_ROWS || is_mixed(r, p))) {
            return true;
        }
    }
    return false;
}

// How many rows of b go at once. The array takes so many in a step, and a step of one row takes as
// long as one of many: then two halves take less, or a few rows for themselves, of which there have
// to be enough that they are not the decoder's.
enum rows { FEW, ALL, HALF, ALL_BUT_FEW };

static bool many_at_a_time(const struct mat_ask * r, struct mat_plan * p, enum rows rows) {
    const int64_t n = p->result.kernel.ne[1], least = MAT_FEW_ROWS + 1;
    if (rows != ALL) {
        p->chunk[1] = rows == HALF ? GGML_PAD((n + 1) / 2, 8) : (n - least) / 16 * 16;
        int64_t rest = n % (p->chunk[1] > 0 ? p->chunk[1] : 1);
        return p->chunk[1] >= least && (rest == 0 || rest >= least) && fits(r->world, p);
    }
    bool found = fits(r->world, p);
    while (!found && cut(p) && p->chunk[1] > MAT_FEW_ROWS) {
        found = fits(r->world, p);
    }
    return found;
}

// Ways for quantized weights, all of which kernels go: by few rows of b as they are or as bf16, and
// by many, whose program takes some blocks as they are and others when they are unpacked.
//
// Along k they are cut where b is too long for as many rows as a kernel could take: every part of
// the weights is still read once.
static const struct {
    enum mat_layout layout;
    enum rows rows;
    int parts; // of k
} ways[] = {
    {MADE_BY_CORES, FEW, 1},
    {MADE_BY_CORES, FEW, 2},
    {MADE_BY_CORES, FEW, 4},
    {MADE_BY_CORES, ALL, 1},
    {MADE_BY_CORES, ALL, 2},
    {MADE_BY_CORES, ALL, 4},
    {BLOCKS_BY_CORES, FEW, 1},
    {BLOCKS_BY_CORES, FEW, 2},
    {BLOCKS_BY_CORES, FEW, 4},
    {BLOCKS_BY_CORES, ALL, 1},
    {AS_IT_STANDS, ALL, 1},
    {MADE_BY_CORES, HALF, 1},
    {BLOCKS_BY_CORES, HALF, 1},
    {AS_IT_STANDS, HALF, 1},
    {MADE_BY_CORES, ALL_BUT_FEW, 1},
    {BLOCKS_BY_CORES, ALL_BUT_FEW, 1},
    {AS_IT_STANDS, ALL_BUT_FEW, 1},
    {STORED, ALL, 1},
    {STORED, HALF, 1},
    {STORED, ALL_BUT_FEW, 1},
    {MADE, ALL, 1},
    {MADE, HALF, 1},
    {MADE, ALL_BUT_FEW, 1},
};

static bool cut_along_k(struct mat_plan * p, int parts) {
    const struct view *a = &p->a.kernel, *result = &p->result.kernel;
    enum kernel_blocks blocks;
    p->chunk_k = a->ne[0] / parts;
    return parts == 1 || (p->a.way == MAT_AS_IT_STANDS && mat_blocks_of(a->type, &blocks) &&
                          a->ne[0] % (parts * kernel_block_cut(blocks)) == 0 &&
                          result->ne[2] == 1 && result->ne[3] == 1);
}

// Rows of b that products of few may have: on some chips more where b comes as bf16.
static int64_t most_few(const struct mat_ask * r, enum mat_layout layout) {
    return layout == BLOCKS_BY_CORES ? aie_target(r->world->arch)->product_few : MAT_FEW_ROWS;
}

// As many rows at once as there can be?
static bool has_most(const struct mat_plan * p, enum rows rows, int64_t most) {
    int64_t n = p->result.kernel.ne[1], times = (n + most - 1) / most;
    return rows == FEW ? (n + p->chunk[1] - 1) / p->chunk[1] == times : p->chunk[1] == n;
}

// By block floats only who asked for them, and weights that can be kept so.
static bool may_store(const struct mat_ask * r) {
    bool form = r->world->precision == MAT_BLOCK || !mat_streams(&r->a, r->a_pieces); // else none
    return mat_by_block_floats(r->world) && form && !r->world->unstored && r->a_is_kept &&
           r->a_pieces == MAT_HI && mat_can_store(&r->a);
}

// Pairs of q4_0, where nothing is to be kept beside them.
static bool may_make(const struct mat_ask * r) {
    const enum mat_precision precision = r->world->precision;
    enum kernel_blocks blocks;
    return (precision == MAT_LEAN || precision == MAT_AS_ASKED) &&
           aie_target(r->world->arch)->mac_block.m && r->a_pieces == MAT_HI &&
           r->b_pieces == MAT_HI && r->a.panel.pair > 0 && mat_blocks_of(r->a.view.type, &blocks) &&
           blocks == KERNEL_Q4_0 && r->a.view.ne[0] % SHARED_SLICE == 0 &&
           r->a.view.ne[1] % SHARED_EIGHT == 0;
}

static bool choose_way(const struct mat_ask * r, struct mat_plan * out) {
    uint64_t least = UINT64_MAX;
    bool whole = false; // k, for as many rows as there can be
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct mat_plan p;
        if ((ways[i].layout == STORED && !may_store(r)) ||
            (ways[i].layout == MADE && !may_make(r))) {
            continue;
        }
        mat_lay_out(r, ways[i].layout, &p);
        bool many = ways[i].rows != FEW;
        const int64_t most = most_few(r, ways[i].layout);
        whole &= ways[i].parts > 1;
        if (whole || (many && p.result.kernel.ne[1] <= MAT_FEW_ROWS) ||
            (p.a.way == MAT_BY_HOST && !p.stored) || !cut_along_k(&p, ways[i].parts) ||
            !(many ? many_at_a_time(r, &p, ways[i].rows) : few_at_a_time(r, &p, most))) {
            continue;
        }
        whole = has_most(&p, ways[i].rows, most);
        if (ways[i].parts > 1) {
            p.partial = view_contiguous(p.result.kernel.type, p.chunk, NULL);
        }
        place_conversions(r, &p);
        if (ways[i].layout == MADE && !mat_is_limited(&p.b)) {
            continue;
        }
        const struct route_way way = mat_cost(r->world, &p);
        uint64_t cost = mat_cost_at(r->world, &way);
        if (r->world->ways) {
            route_add(r->world->ways, way);
        }
        if (cost < least) {
            least = cost;
            *out = p;
        }
        if (i == 0 && p.chunk[1] == p.result.kernel.ne[1]) {
            break; // one pass over the weights
        }
    }
    return least < UINT64_MAX;
}

static bool choose_layout(const struct mat_ask * r, bool streams, struct mat_plan * out) {
    if (may_store(r) && r->result.ne[1] > MAT_FEW_ROWS) {
        mat_lay_out(r, STORED, out);
        if (many_at_a_time(r, out, ALL)) {
            return true;
        }
    }
    for (int layout = streams ? BLOCKS_BY_CORES : 0; layout < N_LAYOUTS; layout++) {
        mat_lay_out(r, (enum mat_layout) layout, out);
        // Pieces may fit where few rows do not. A product of few rows is better cut than unpacked.
        bool better_cut = out->by_pieces && out->result.kernel.ne[1] <= MAT_FEW_ROWS;
        if (!better_cut && fits(r->world, out)) {
            return true;
        }
    }
    for (int layout = 0; layout < N_LAYOUTS; layout++) {
        mat_lay_out(r, (enum mat_layout) layout, out);
        bool few = out->result.kernel.ne[1] <= MAT_FEW_ROWS; // many are not cut into few
        bool blocks = layout == BLOCKS_BY_CORES;             // not along k, nor into few rows of b
        bool may_fit =
            blocks ? !few && streams : (few || layout != MADE_BY_CORES) && cut_k(r->world, out);
        bool found = may_fit && fits(r->world, out);
        while (may_fit && !found && cut(out) && (!blocks || out->chunk[1] > MAT_FEW_ROWS)) {
            found = fits(r->world, out);
        }
        if (found) {
            out->partial = view_contiguous(out->result.kernel.type, out->chunk, NULL);
            return true;
        }
    }
    return false;
}

bool mat_choose(const struct mat_ask * r, struct mat_plan * out) {
    const bool streams = mat_streams(&r->a, r->a_pieces);
    bool found = streams && choose_way(r, out); // which places them for their price
    if (!found && choose_layout(r, streams, out)) {
        place_conversions(r, out);
        found = true;
    }
    if (found && out->by_pieces) {
        out->a.packed.ne[1] = out->chunk[0];
    }
    return found;
}

void mat_ways(struct mat_world w, const struct ggml_tensor * node, struct route_stop * out) {
    struct mat_plan p;
    w.ways = out;
    if (mat_plan_node(w, node, &p, NULL) == ST_OK && !out->n && !ggml_is_empty(node) &&
        !p.nothing_to_add) { // there is but one
        route_add(out, mat_cost(&w, &p));
    }
}

// steps-sort: ARGSORT and TOP_K of rows that no core keeps. Elements are pairs, a key and a place
// in the row, and lie in blocks of 512. SORT_PAIRS sorts two blocks in a core, MERGE_PAIRS merges
// two that are sorted; groups of blocks become twice as long by Batcher's odd-even merge, in which
// two blocks take the place of two elements. Where the first k are asked for and half a group has
// them, the other half is left behind, so that a few of many take about as long as two passes.
//
// Rows are filled up to a power of two of groups with pairs that come behind all others.
#include "steps.h"

enum {
    KEPT = 2048, // elements of a row that a core keeps
    LANES = 16,
    PAIR = 2 * LANES,  // words of a vector of keys and one of places
    BLOCK = 512,       // elements
    WORDS = 2 * BLOCK, // of a block
    GROUP = 2,         // blocks that a core sorts
    LONGEST = 1 << 20, // elements of a row
    PLACE_0 = 1 << 23, // as a float, place 0; see SORT_PAIRS
};

// Sorted groups, largest first, the same number in each row of the tensor.
struct groups {
    struct view at;       // [WORDS, blocks of a group, groups of all rows]
    int64_t size, in_row; // blocks of a group, groups of a row
};

bool steps_is_long_sort(const struct ggml_tensor * node) {
    return (node->op == GGML_OP_ARGSORT || node->op == GGML_OP_TOP_K) && node->src[0] &&
           node->src[0]->ne[0] > KEPT;
}

// Keys or places of the first pairs of each row, into or out of a tensor of rows: whole vectors,
// then what is left. `rows` lies without gaps; where it goes in, an only row goes to all.
static void move_pairs(struct steps * s, struct view pairs, struct view rows, bool in) {
    int64_t n = rows.ne[0], n_rows = in ? pairs.ne[2] : rows.ne[1];
    const struct {
        int64_t first, lanes, n;
    } parts[2] = {{0, LANES, n / LANES}, {n / LANES, n % LANES, 1}};
    for (int i = 0; i < 2; i++) {
        struct view a = rows, b = pairs;
        a.data += (size_t) parts[i].first * LANES * sizeof(float);
        b.data += (size_t) parts[i].first * PAIR * sizeof(float);
        a.ne[0] = b.ne[0] = parts[i].lanes;
        a.ne[1] = b.ne[1] = parts[i].n;
        a.ne[2] = rows.ne[1];
        b.ne[2] = n_rows;
        a.nb[2] = rows.nb[1];
        a.nb[1] = LANES * sizeof(float);
        b.nb[1] = PAIR * sizeof(float);
        a.nb[3] = a.nb[2] * (size_t) a.ne[2];
        b.nb[3] = b.nb[2] * (size_t) b.ne[2];
        steps_move(s, in ? a : b, in ? b : a);
    }
}

// ---- the first groups ----

// Keys, and places that only the row's own have.
static void put_pairs(struct steps * s, struct view x, struct view to) {
    size_t used = s->used;
    int64_t n = x.ne[0], all = to.ne[1] * BLOCK;
    struct view place = steps_temp(s, GGML_TYPE_F32, all, 1, 1, 1);
    steps_params(s, KERNEL_OP_SCALE, steps_count(s, n), steps_row(place, 0, 0, n), 1, PLACE_0);
    steps_fill(s, steps_row(place, 0, n, all - n), 1); // 0 might be -0
    move_pairs(s, to, x, true);
    to.data += LANES * sizeof(float);
    move_pairs(s, to, place, true);
    s->used = used;
}

static struct groups sort_groups(struct steps * s, const struct view rooms[2], bool falls) {
    int64_t in_row = rooms[0].ne[1] / GROUP, n = in_row * rooms[0].ne[2];
    steps_pairs(s, KERNEL_OP_SORT_PAIRS, steps_as(&rooms[0], GROUP * WORDS, n, 1, 1),
                steps_as(&rooms[1], GROUP * WORDS, n, 1, 1), falls);
    return (struct groups){
        .at = steps_as(&rooms[1], WORDS, GROUP, n, 1), .size = GROUP, .in_row = in_row};
}

// ---- merges ----

// Blocks of all groups that a pass takes: runs, each of which meets the one behind it.
struct pass {
    int64_t first, runs, apart; // the first block, how many pairs of runs, a run's blocks
};

static struct view side(struct view groups, const struct pass * p, int which) {
    size_t block = groups.nb[1];
    struct view v = steps_row(groups, 1, p->first + which * p->apart, p->apart);
    v.ne[3] = groups.ne[2];
    v.nb[3] = groups.nb[2];
    v.ne[2] = p->runs;
    v.nb[2] = (size_t) (2 * p->apart) * block;
    return v;
}

// Each block of one view with its like in the other. Where the results are to lie side by side, as
// the kernel leaves them, that is `out`.
static void merge(struct steps * s, const struct view from[2], const struct view to[2],
                  const struct view * out) {
    const int64_t * ne = from[0].ne;
    int64_t rows = ne[1] * ne[2] * ne[3];
    size_t used = s->used;
    struct view in = steps_temp(s, GGML_TYPE_F32, 2 * WORDS, rows, 1, 1),
                done = out ? steps_as(out, 2 * WORDS, rows, 1, 1) : steps_like(s, &in);
    struct view halves = steps_as(&in, WORDS, 2 * ne[1], ne[2], ne[3]);
    for (int i = 0; i < 2; i++) {
        steps_move(s, from[i], steps_every(steps_row(halves, 1, i, 2 * ne[1] - i), 1, 2));
    }
    steps_pairs(s, KERNEL_OP_MERGE_PAIRS, in, done, 0);
    halves.data = done.data;
    for (int i = 0; i < 2 && !out; i++) {
        steps_move(s, steps_every(steps_row(halves, 1, i, 2 * ne[1] - i), 1, 2), to[i]);
    }
    s->used = used;
}

// Two groups that follow each other become one. First each block of a group meets its like in the
// next one, then those within the new group that may still stand wrong.
static struct groups merged(struct steps * s, struct groups g, char * room) {
    int64_t n = g.at.ne[2] / 2, size = 2 * g.size;
    struct view to = steps_as(&(struct view){.type = g.at.type, .data = room}, WORDS, size, n, 1);
    struct view from[2], both[2];
    struct pass first = {0, 1, g.size};
    for (int i = 0; i < 2; i++) {
        struct view every = steps_every(steps_row(g.at, 2, i, 2 * n - i), 2, 2);
        from[i] = side(every, &first, 0);
        both[i] = side(to, &first, i);
    }
    merge(s, from, both, g.size == 1 ? &to : NULL);
    for (int64_t apart = g.size / 2; apart > 0; apart /= 2) {
        struct pass p = {apart, g.size / apart - 1, apart};
        const struct view in_place[2] = {side(to, &p, 0), side(to, &p, 1)};
        merge(s, in_place, in_place, NULL);
    }
    return (struct groups){.at = to, .size = size, .in_row = g.in_row / 2};
}

// ---- nodes ----

static bool fits(const struct ggml_tensor * node) {
    const struct ggml_tensor * x = node->src[0];
    bool ok = x->type == GGML_TYPE_F32 && node->type == GGML_TYPE_I32 && node->ne[0] > 0 &&
              (node->op == GGML_OP_TOP_K ? node->ne[0] <= x->ne[0] : node->ne[0] == x->ne[0]);
    for (int d = 1; d < GGML_MAX_DIMS; d++) {
        ok = ok && node->ne[d] == x->ne[d];
    }
    return ok;
}

void steps_sort(struct steps * s, const struct ggml_tensor * node) {
    struct view x = steps_src(s, 0), to = steps_dst(s);
    steps_need(s, fits(node) && view_is_packed(&to), "datatypes, shapes or strides");
    steps_need(s, x.ne[0] <= LONGEST, "rows of more than 1048576 elements");
    if (s->status != ST_OK) {
        return;
    }
    int64_t n = x.ne[0], k = to.ne[0], rows = x.ne[1] * x.ne[2] * x.ne[3], blocks = GROUP;
    while (blocks * BLOCK < n) {
        blocks *= 2;
    }
    struct view rooms[2];
    for (int i = 0; i < 2; i++) {
        rooms[i] = steps_temp(s, GGML_TYPE_F32, WORDS, blocks, rows, 1);
    }
    x = steps_packed(s, x);
    bool falls = node->op == GGML_OP_TOP_K || node->op_params[0] == GGML_SORT_ORDER_DESC;
    put_pairs(s, steps_as(&x, n, rows, 1, 1), rooms[0]);
    struct groups g = sort_groups(s, rooms, falls);
    for (int i = 0; s->status == ST_OK; i ^= 1) {
        for (; g.size > 1 && g.size / 2 * BLOCK >= k; g.size /= 2) {
            g.at.ne[1] /= 2;
        }
        if (g.in_row == 1) {
            break;
        }
        g = merged(s, g, rooms[i].data);
    }
    struct view places = g.at;
    places.type = GGML_TYPE_I32;
    places.data += LANES * sizeof(float);
    move_pairs(s, places, steps_as(&to, k, rows, 1, 1), false);
}

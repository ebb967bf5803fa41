// asm/network: network simplex. The distances that are as short as they may be make up a tree. An
// edge of it that would rather be longer (what hangs on it gains more than it loses) leaves, the
// one that stops it first takes its place, until no edge wants to.
#include "network.h"

#include <stdlib.h>

enum { MOST_PIVOTS = 2000 };

struct tree {
    struct network * w;
    int * parent;  // node, -1 = the root or not yet in the tree
    int * by;      // the edge to it
    int * balance; // weights out of a node less those into it
    int * sum;     // of a node and all below it
    int * order;   // parents first
    int *child, *sibling;
    bool * below;
};

static int slack(const struct network * w, const struct network_edge * e) {
    return w->rank[e->to] - w->rank[e->from] - e->least;
}

static void rank_early(struct network * w) {
    for (int i = 0; i < w->n; i++) {
        w->rank[i] = 0;
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int k = 0; k < w->n_edges; k++) {
            const struct network_edge * e = &w->edges[k];
            int at = w->rank[e->from] + e->least;
            if (at > w->rank[e->to]) {
                w->rank[e->to] = at;
                moved = true;
            }
        }
    }
}

// Every node early has an edge that keeps it there, back to node 0.
static void begin(struct tree * t) {
    const struct network * w = t->w;
    for (int i = 0; i < w->n; i++) {
        t->parent[i] = -1;
        t->balance[i] = 0;
    }
    for (int k = 0; k < w->n_edges; k++) {
        const struct network_edge * e = &w->edges[k];
        t->balance[e->from] += e->weight;
        t->balance[e->to] -= e->weight;
        if (t->parent[e->to] < 0 && slack(w, e) == 0) {
            t->parent[e->to] = e->from;
            t->by[e->to] = k;
        }
    }
}

static void put_in_order(struct tree * t) {
    int n = t->w->n, filled = 1;
    for (int i = 0; i < n; i++) {
        t->child[i] = -1;
    }
    for (int i = n - 1; i > 0; i--) {
        t->sibling[i] = t->child[t->parent[i]];
        t->child[t->parent[i]] = i;
    }
    t->order[0] = 0;
    for (int k = 0; k < filled && filled < n; k++) {
        for (int c = t->child[t->order[k]]; c >= 0; c = t->sibling[c]) {
            t->order[filled++] = c;
        }
    }
    for (int i = 0; i < n; i++) {
        t->sum[i] = t->balance[i];
    }
    for (int k = n - 1; k > 0; k--) {
        t->sum[t->parent[t->order[k]]] += t->sum[t->order[k]];
    }
}

// The node whose edge up gains most by growing longer; 0 = none.
static int leaving(const struct tree * t) {
    int best = 0, most = 0;
    for (int i = 1; i < t->w->n; i++) {
        bool up = t->w->edges[t->by[i]].to == i; // the edge leads down to it
        int gain = up ? t->sum[i] : -t->sum[i];
        if (gain > most) {
            most = gain;
            best = i;
        }
    }
    return best;
}

static void mark_below(struct tree * t, int top) {
    int n = t->w->n;
    for (int i = 0; i < n; i++) {
        t->below[i] = false;
    }
    t->below[top] = true;
    for (int k = 1; k < n; k++) {
        int i = t->order[k];
        t->below[i] |= t->below[t->parent[i]] && i != 0;
    }
}

// The edge that stops the part below `top`: the one with the least slack in the other direction.
static int entering(const struct tree * t, int top) {
    bool later = t->w->edges[t->by[top]].to == top; // that part goes later
    int best = -1, least = 0;
    for (int k = 0; k < t->w->n_edges; k++) {
        const struct network_edge * e = &t->w->edges[k];
        bool out = t->below[e->from] && !t->below[e->to],
             in = t->below[e->to] && !t->below[e->from];
        if (later ? out : in) {
            int s = slack(t->w, e);
            if (best < 0 || s < least) {
                best = k;
                least = s;
            }
        }
    }
    return best;
}

static void exchange(struct tree * t, int top, int edge) {
    const struct network_edge * e = &t->w->edges[edge];
    bool later = t->w->edges[t->by[top]].to == top;
    int by = later ? slack(t->w, e) : -slack(t->w, e);
    for (int i = 0; i < t->w->n; i++) {
        t->w->rank[i] += t->below[i] ? by : 0;
    }
    int at = t->below[e->from] ? e->from : e->to, up = at == e->from ? e->to : e->from;
    while (true) { // the way from there to the top turns round
        int next = t->parent[at], next_edge = t->by[at];
        t->parent[at] = up;
        t->by[at] = edge;
        if (at == top) {
            break;
        }
        up = at;
        edge = next_edge;
        at = next;
    }
}

bool network_solve(struct network * w) {
    struct tree t = {.w = w};
    size_t n = (size_t) w->n;
    int * all = malloc(7 * n * sizeof *all);
    t.below = malloc(n * sizeof *t.below);
    bool ok = all && t.below;
    if (ok) {
        t.parent = all;
        t.by = all + n;
        t.balance = all + 2 * n;
        t.sum = all + 3 * n;
        t.order = all + 4 * n;
        t.child = all + 5 * n;
        t.sibling = all + 6 * n;
        rank_early(w);
        begin(&t);
        for (int pivot = 0; pivot < MOST_PIVOTS; pivot++) {
            put_in_order(&t);
            int top = leaving(&t), edge = -1;
            if (top > 0) {
                mark_below(&t, top);
                edge = entering(&t, top);
            }
            if (edge < 0) {
                break;
            }
            exchange(&t, top, edge);
        }
    }
    free(all);
    free(t.below);
    return ok;
}

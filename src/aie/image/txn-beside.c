// txn-beside: see the header.
#include "txn-beside.h"

#include <stdlib.h>

bool beside_keep(struct beside_list * l, const struct image_command * c, int part) {
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 512;
        struct image_command * ops = realloc(l->ops, room * sizeof *ops);
        l->ops = ops ? ops : l->ops;
        uint16_t * of = realloc(l->of, room * sizeof *of);
        l->of = of ? of : l->of;
        if (!ops || !of) {
            return false;
        }
        l->room = room;
    }
    l->of[l->n] = (uint16_t) part;
    l->ops[l->n++] = *c;
    return true;
}

int beside_columns(const struct beside_list * l, size_t from, struct ahead_part * scratch) {
    int columns = 0;
    ahead_scan(scratch, l->ops + from, l->n - from, 0);
    for (size_t i = from; i < l->n && !scratch->rigid; i++) {
        const struct image_command * c = &l->ops[i];
        int col = c->op == IMAGE_WAIT ? c->col : txn_tile(c->addr) / AIE_ROWS;
        columns = col >= columns ? col + 1 : columns;
    }
    return columns;
}

static size_t first_wait(const struct beside_list * l, size_t from) {
    while (from < l->n && l->ops[from].op != IMAGE_WAIT) {
        from++;
    }
    return from;
}

static void reverse(struct beside_list * l, size_t from, size_t to) {
    for (; from + 1 < to; from++, to--) {
        struct image_command c = l->ops[from];
        uint16_t of = l->of[from];
        l->ops[from] = l->ops[to - 1];
        l->of[from] = l->of[to - 1];
        l->ops[to - 1] = c;
        l->of[to - 1] = of;
    }
}

void beside_merge(struct beside_list * l, size_t from, int columns) {
    for (size_t i = from; i < l->n; i++) {
        struct image_command * c = &l->ops[i];
        if (c->op == IMAGE_WAIT) {
            c->col += columns;
        } else {
            c->addr += image_addr(columns, 0, 0);
        }
    }
    // What it tells changes places with the others' waits.
    size_t waits = first_wait(l, 0), told = first_wait(l, from);
    reverse(l, waits, from);
    reverse(l, from, told);
    reverse(l, waits, told);
}

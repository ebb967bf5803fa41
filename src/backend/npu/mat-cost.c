// mat-cost: about how long a plan takes, for choosing between plans of one product: its kernels,
// the loads of PDIs between them, and the PDIs that its first and its last one want. What it costs
// to come there and to leave depends on the nodes around it, see route.h.
#include "mat.h"

#include "aie/target/times.h"

struct sum {
    const struct mat_world * world;
    struct route_way way;
};

static void add(struct sum * s, const struct kernel_spec * spec) {
    const struct aie_program *wanted, *at = s->way.at.last;
    s->way.cycles += store_likely(s->world->store, spec, &wanted);
    if (wanted) {
        bool loads = at && !route_is_same(wanted, at);
        s->way.cycles += loads ? (uint64_t) aie_times(s->world->arch)->likely.load : 0;
        s->way.at.first = at ? s->way.at.first : wanted;
        s->way.at.last = wanted;
    }
}

static void add_operand(struct sum * s, const struct mat_operand * o) {
    if (o->way == MAT_BY_KERNEL) {
        add(s, &o->convert);
    }
}

static void add_piece(struct sum * s, const struct mat_plan * p, int64_t rows) {
    struct kernel_spec piece = p->a.convert;
    piece.inputs[0].ne[1] = piece.output.ne[1] = rows;
    add(s, &piece);
}

struct route_way mat_cost(const struct mat_world * w, const struct mat_plan * p) {
    struct sum s = {.world = w};
    struct mat_at at = {0};
    if (!mat_begins_piece(p, &at)) {
        add_operand(&s, &p->a);
    }
    if (!w->shares_b) {
        add_operand(&s, &p->b);
    }
    do {
        char * addr[PLAN_OPERANDS];
        struct kernel_spec spec = mat_part(p, w->arch, &at, addr);
        if (mat_begins_piece(p, &at)) {
            add_piece(&s, p, spec.output.ne[0]);
        }
        add(&s, &spec);
    } while (mat_next(p, &at));
    return s.way;
}

uint64_t mat_cost_at(const struct mat_world * w, const struct route_way * way) {
    const struct route_place * wanted = &w->place;
    uint64_t load = (uint64_t) aie_times(w->arch)->likely.load;
    bool comes = wanted->first && !route_is_same(wanted->first, way->at.first);
    bool leaves = wanted->last && !route_is_same(wanted->last, way->at.last);
    return way->cycles + (comes ? load : 0) + (leaves ? load : 0);
}

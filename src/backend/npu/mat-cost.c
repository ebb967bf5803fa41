// mat-cost: about how long a plan takes, for choosing between plans of one product: its kernels,
// and the PDIs that they make the array load. Products follow products of the same kind: a plan
// whose kernels are all on one PDI finds it there, but for what the rest of a layer, on the
// decoder's, costs them all. All sizes of a model's products are to go one way, and those of its
// keys and values are small: so rows of weights count as at least as many as these are long, and
// what packs b, which such products share, but once.
#include "mat.h"

#include "aie/plan/programs.h"
#include "aie/target/times.h"

enum { SHARED_BY = 2 }; // products, on average: query, key and value; gate and up; one; one

struct sum {
    const struct mat_world * world;
    const struct aie_program *first, *at; // PDIs of the array
    uint64_t cycles, loads;
};

static void add(struct sum * s, const struct kernel_spec * spec) {
    const struct aie_program * wanted;
    s->cycles += store_likely(s->world->store, spec, &wanted);
    if (wanted) {
        s->loads += s->at && wanted != s->at;
        s->first = s->first ? s->first : wanted;
        s->at = wanted;
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

uint64_t mat_cost(const struct mat_world * w, const struct mat_plan * p) {
    struct sum s = {.world = w};
    struct mat_at at = {0};
    const int64_t k = p->a.kernel.ne[0], m = p->result.kernel.ne[0];
    add_operand(&s, &p->b);
    const uint64_t packing = s.cycles;
    if (!mat_begins_piece(p, &at)) {
        add_operand(&s, &p->a);
    }
    do {
        char * addr[PLAN_OPERANDS];
        struct kernel_spec spec = mat_part(p, w->arch, &at, addr);
        if (mat_begins_piece(p, &at)) {
            add_piece(&s, p, spec.output.ne[0]);
        }
        add(&s, &spec);
    } while (mat_next(p, &at));
    uint64_t larger = m < k ? (uint64_t) k : (uint64_t) m;
    uint64_t load = (uint64_t) aie_times(w->arch)->likely.load;
    s.loads += s.at != s.first; // the next product's
    bool leaves = s.at && s.at != &aie_programs[AIE_PROGRAM_DECODER];
    return (s.cycles - packing) / (uint64_t) m * larger + packing + s.loads * load +
           (leaves ? load / SHARED_BY : 0);
}

// mat-cost: about how long a plan takes, for choosing between plans of one product: its kernels,
// and the PDIs that they make the array load. Products follow products of the same kind: a plan
// whose kernels are all on one PDI finds it there, but for what the rest of a layer, on the
// decoder's, costs them all. All sizes of a model's products are to go one way, and those of its
// keys and values are small: so rows of weights count as at least as many as these are long, up
// from what the array takes at a time; but what a kernel takes at its edges as often as there are
// kernels, and what packs b, which such products share, once.
#include "mat.h"

#include "aie/plan/programs.h"
#include "aie/target/times.h"

// A layer's seven products leave the decoder's PDI four times, and it is loaded again behind each:
// query, key and value; one; gate and up; one. Where what stands between them runs on the products'
// own (tasks.c), they leave it once, behind attention, and it is loaded again for the next one's.
enum { LOADS = 8, LOADS_WITH_TASKS = 2, PRODUCTS = 7 };

static bool has_tasks(enum aie_arch arch, const struct aie_program * p) {
    return p == aie_program_for(arch, AIE_LAYOUT_GEMM, KERNEL_OP_TASK_ADD, DTYPE_BF16, false);
}

struct sum {
    const struct mat_world * world;
    const struct aie_program *first, *at; // PDIs of the array
    uint64_t cycles, loads;
    uint64_t edges; // of the cycles: what kernels take however long they are
};

static void add(struct sum * s, const struct kernel_spec * spec) {
    const struct aie_likely_times * t = &aie_times(s->world->arch)->likely;
    const struct aie_program * wanted;
    uint64_t cycles = store_likely(s->world->store, spec, &wanted);
    s->cycles += cycles;
    if (wanted) {
        uint64_t edges = (uint64_t) (aie_program_is_mixed(wanted) ? t->edges : t->gemm_edges);
        s->edges += edges < cycles ? edges : cycles;
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
    s.edges = 0;
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
    const struct aie_likely_times * t = &aie_times(w->arch)->likely;
    const uint64_t load = (uint64_t) t->load, work = s.cycles - packing - s.edges;
    s.loads += s.at != s.first; // the next product's
    bool leaves = s.at && s.at != &aie_programs[AIE_PROGRAM_DECODER];
    uint64_t loads = has_tasks(w->arch, s.at) ? LOADS_WITH_TASKS : LOADS;
    int64_t step = s.at && aie_program_is_mixed(s.at) ? t->rows : t->gemm_rows;
    int64_t rows = (m + step - 1) / step * step;
    return (rows < k ? work / (uint64_t) rows * (uint64_t) k : work) + s.edges + packing +
           s.loads * load + (leaves ? load * loads / PRODUCTS : 0);
}

// plan: the front door of what needs no core program: which kernels there are, and the instruction
// streams that drive them. An op belongs to a family; the family knows the rest. Who links this
// without pdi.c has no compiler: streams are not code.
#include "plan.h"

#include "bound.h"

#include "aie/aie.h"

#include <stdio.h>

struct aie_family {
    // Fills in the program and its own part of the plan, whose spec and columns are there.
    enum status (*plan)(struct aie_plan *, struct error *);
    uint64_t (*bound)(const struct kernel_spec *); // cycles of the cores, see bound.h
    enum status (*stream)(const struct aie_plan *, uint32_t **, size_t *, struct error *);
};

// What its cores are loaded with is in pdi.c.
static const struct aie_family families[KERNEL_FAMILIES] = {
    [KERNEL_ELEMENTWISE] = {elementwise_plan, elementwise_bound, elementwise_stream},
    [KERNEL_ROWS] = {rows_plan, rows_bound, rows_stream},
    [KERNEL_PRODUCT] = {mul_mat_plan, mul_mat_bound, mul_mat_stream},
    [KERNEL_CONVERSION] = {convert_plan, convert_bound, convert_stream},
    [KERNEL_MOVE] = {move_plan, move_bound, move_stream},
    [KERNEL_ATTENTION] = {attention_plan, attention_bound, attention_stream},
    [KERNEL_TASK] = {task_plan, task_bound, task_stream},
    [KERNEL_WEIGH] = {weigh_plan, weigh_bound, weigh_stream},
};

static const struct aie_family * family_of(enum kernel_op op) {
    return &families[kernel_op_info(op)->family];
}

static bool has_family(const struct aie_target * t, enum kernel_family family) {
    switch (family) {
    case KERNEL_ROWS:
        return t->has_rows;
    case KERNEL_PRODUCT:
    case KERNEL_TASK:
        return t->has_products;
    case KERNEL_CONVERSION:
    case KERNEL_ATTENTION: // which converts, too
        return t->has_conversions;
    default:
        return t->has_programs;
    }
}

enum status aie_plan(const struct kernel_spec * spec, struct aie_plan * out, struct error * err) {
    if ((unsigned) spec->op >= KERNEL_OP_COUNT) {
        return error_set(err, ST_UNSUPPORTED, "no NPU kernel for operation %d", (int) spec->op);
    }
    const struct aie_target * t = aie_target(spec->arch);
    if (!t->has_programs) {
        return error_set(err, ST_UNSUPPORTED, "core programs are not yet there on %s",
                         kernel_arch_name(spec->arch));
    }
    if (!has_family(t, kernel_op_info(spec->op)->family)) {
        return error_set(err, ST_UNSUPPORTED, "%s is not yet there on %s", kernel_op_name(spec->op),
                         kernel_arch_name(spec->arch));
    }
    if (spec->columns < 0 || spec->columns > t->columns) {
        return error_set(err, ST_INVALID, "%d columns, %s has %d", spec->columns,
                         kernel_arch_name(spec->arch), t->columns);
    }
    if (spec != &out->spec) {
        out->spec = *spec;
    }
    out->columns = ops_columns(spec);
    enum status st = family_of(spec->op)->plan(out, err);
    if (st == ST_OK) {
        out->cycles = aie_cycles(spec);
    }
    return st;
}

uint64_t aie_cycles(const struct kernel_spec * spec) {
    uint64_t cores = family_of(spec->op)->bound(spec), host = bound_host(spec);
    return cores > host ? cores : host;
}

// Of what runs on one PDI or another: the cores that work on that one, or host memory.
static uint64_t placed_likely(const struct kernel_spec * spec) {
    const int edges = aie_times(spec->arch)->likely.edges;
    uint64_t memory = bound_likely(spec, edges), cores = 0;
    struct aie_plan p;
    if (aie_plan(spec, &p, NULL) == ST_OK) {
        bool move = kernel_op_info(spec->op)->family == KERNEL_MOVE;
        cores = (move ? p.of.move.crew.cycles : p.of.elementwise.crew.cycles) + (uint64_t) edges;
    }
    return memory > cores ? memory : cores;
}

uint64_t aie_likely(const struct kernel_spec * spec) {
    if (kernel_has_place(spec->op)) {
        return placed_likely(spec);
    }
    switch (kernel_op_info(spec->op)->family) {
    case KERNEL_PRODUCT:
        return mul_mat_likely(spec);
    case KERNEL_CONVERSION:
        return convert_likely(spec);
    case KERNEL_TASK:
        return task_likely(spec);
    case KERNEL_ELEMENTWISE:
    case KERNEL_ROWS:
    case KERNEL_WEIGH:
        return bound_likely(spec, aie_times(spec->arch)->likely.edges);
    default:
        return aie_cycles(spec);
    }
}

enum status aie_stream(const struct aie_plan * plan, uint32_t ** insts, size_t * n_words,
                       struct error * err) {
    return family_of(plan->spec.op)->stream(plan, insts, n_words, err);
}

// ---- for who has a spec and asks one question of it ----

enum status aie_supports(const struct kernel_spec * spec, struct error * err) {
    struct aie_plan plan;
    return aie_plan(spec, &plan, err);
}

void aie_program_name(const struct kernel_spec * spec, char name[KERNEL_NAME_MAX]) {
    struct aie_plan plan;
    name[0] = '\0';
    if (aie_plan(spec, &plan, NULL) == ST_OK) {
        aie_pdi_name(plan.program, spec->columns, name);
    }
}

enum status aie_compile_insts(const struct kernel_spec * spec, uint32_t ** insts, size_t * n_words,
                              struct error * err) {
    struct aie_plan plan;
    enum status st = aie_plan(spec, &plan, err);
    return st == ST_OK ? aie_stream(&plan, insts, n_words, err) : st;
}

bool aie_panel(const struct kernel_spec * product, struct kernel_panel * out) {
    return mul_mat_panel(product, out);
}

bool aie_reads_by(const struct kernel_spec * product, int64_t rows) {
    return mul_mat_reads_by(product, rows);
}

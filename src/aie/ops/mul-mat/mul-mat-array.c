// mul-mat-array: the array around the core program, and the instruction stream of a shape.
//
//     shim -> memtile: rows of a chunk of k -> cores: k-blocks, zeros behind the last of a row
//     cores: tiles, as the multiplier gives them -> memtile: plain rows -> shim
//
// Descriptors of cores and memtiles are written once; buffers take turns by their iteration. The
// work is done in steps: a step points the shims' descriptors at rows of a, b and dst. Two steps
// are in flight, with descriptors of their own; a step begins when the one before the last is
// complete, or the last one, where a queue does not hold the tasks of two. Tasks of cores and
// memtiles know nothing of steps; they are pushed for as many steps together as a task can hold.
//
// An operation of the instruction stream takes as long as a hundred bundles. Neighbouring
// descriptors are written by one, and what leads the first words to the cores comes before all that
// tiles will need on their way out.
#include "mul-mat-design.h"

#include "aie/ops/ops.h"
#include "aie/plan/plan.h"

const uint8_t mm_mem_lock_init[MM_MEM_LOCKS] = {2, 0, 2, 0, 1, 0, 1, 0, 1, 0, 1, 0, 2, 0};

// ---- front door ----

// Those of few rows in bf16 run among the decoder's programs.
static bool is_mixed(const struct mm_plan * p) {
    return p->is_vector && p->t->in == DTYPE_BF16;
}

enum status mul_mat_plan(struct aie_plan * p, struct error * err) {
    struct mm_plan * plan = &p->of.product;
    enum status st = mm_plan_make(&p->spec, plan, err);
    if (st == ST_OK) {
        bool planes =
            p->spec.op == KERNEL_OP_MUL_MAT_BLOCKS && mm_by_planes(kernel_blocks_of(&p->spec));
        enum aie_layout layout = plan->is_vector ? AIE_LAYOUT_GEMV : AIE_LAYOUT_GEMM;
        p->program = is_mixed(plan)
                         ? &aie_programs[planes ? AIE_PROGRAM_DECODER_PLANES : AIE_PROGRAM_DECODER]
                     : plan->wide
                         ? &aie_programs[plan->t->gemm_by_blocks ? AIE_PROGRAM_GEMM_BY_BLOCKS
                                                                 : AIE_PROGRAM_GEMM_BLOCKS]
                     : plan->many && !mm_beside_numbers(plan->blocks)
                         ? &aie_programs[AIE_PROGRAM_GEMM_QUANTS]
                     : plan->t->stored
                         ? &aie_programs[AIE_PROGRAM_GEMM_STORED]
                         : aie_program_for(p->spec.arch, layout, p->spec.op, plan->t->in, false);
    }
    return st;
}

const struct aie_program * mm_beside(enum aie_arch arch, uint32_t which) {
    const struct aie_program * const programs[MM_BESIDES] = {
        aie_program_for(arch, AIE_LAYOUT_GEMM, KERNEL_OP_CONVERT, DTYPE_BF16, false),
        &aie_programs[AIE_PROGRAM_GEMM_STORED],
        &aie_programs[mm_type(arch, DTYPE_BF16)->gemm_by_blocks ? AIE_PROGRAM_GEMM_BY_BLOCKS
                                                                : AIE_PROGRAM_GEMM_QUANTS],
    };
    const struct aie_program * p = which < MM_BESIDES ? programs[which] : NULL;
    return p && p->chips >> arch & 1 ? p : NULL;
}

// ---- configuration ----

static void route(struct array * a, int col, int row, int channel, int to_col, int to_row,
                  int to_channel) {
    array_route(a, (struct array_port){col, row, channel},
                &(struct array_port){to_col, to_row, to_channel}, 1);
}

// tasks: rows of a come by every column, for what is no product (tasks.h).
static void route_gemm(struct array * a, const struct mm_plan * p, int col, bool tasks) {
    struct array_port along[ARRAY_COLUMNS_MOST], up[MMP_CORE_ROWS_GEMM];
    const struct mm_ways * w = &mm_gemm_ways;
    for (int i = 0; i < p->columns; i++) {
        along[i] = (struct array_port){i, ARRAY_ROW_CORE + col, 0};
    }
    for (int i = 0; i < p->core_rows; i++) {
        up[i] = (struct array_port){col, ARRAY_ROW_CORE + i, 1};
        route(a, col, ARRAY_ROW_CORE + i, 0, col, ARRAY_ROW_MEM, w->tiles_in + i);
    }
    for (int i = 0; i < 2; i++) {
        if (i > 0 || tasks || mm_plan_brings_y(p, col)) {
            route(a, col, ARRAY_ROW_SHIM, i, col, ARRAY_ROW_MEM, MEM_IN + i);
        }
        if (i < mm_plan_ways(p)) {
            route(a, col, ARRAY_ROW_MEM, w->tiles_out + i, col, ARRAY_ROW_SHIM, i);
        }
    }
    if (mm_plan_brings_y(p, col)) {
        array_route(a, (struct array_port){col, ARRAY_ROW_MEM, w->out}, along, p->columns);
    }
    array_route(a, (struct array_port){col, ARRAY_ROW_MEM, w->out + 1}, up, p->core_rows);
    array_token_route(a, col);
}

static const struct mm_type * type_of(const struct aie_program * of, enum aie_arch arch) {
    bool stored = of->code == AIE_CODE_GEMM_STORED;
    return stored || of->code == AIE_CODE_GEMM_SHARED ? mm_shared_type(arch, stored)
                                                      : mm_type(arch, of->dtype);
}

enum status mul_mat_image(const struct aie_program * of, enum aie_arch arch,
                          struct array_program * out, struct error * err) {
    struct asm_code code = {0};
    bool planes = of->code == AIE_CODE_GEMV_PLANES || of->code == AIE_CODE_UNPACK_PLANES;
    bool converts = of->code == AIE_CODE_GEMV || of->code == AIE_CODE_GEMV_PLANES;
    bool unpacks = of->code == AIE_CODE_UNPACK || of->code == AIE_CODE_UNPACK_PLANES;
    enum status st = converts ? mm_vector_program(arch, planes, &code, err)
                     : of->code == AIE_CODE_GEMM_BY_BLOCKS ? mm_blocks_program(arch, &code, err)
                     : unpacks ? mm_unpack_program(arch, planes, &code, err)
                               : mm_program(arch, type_of(of, arch), &code, NULL, err);
    *out = (struct array_program){.code = code.bytes,
                                  .size = code.size,
                                  .locks = mm_lock_init,
                                  .n_locks = converts ? MM_LOCK_ALL : MM_LOCK_COUNT,
                                  .mem_locks = SPREAD_LOCKS + MM_MEM_LOCKS};
    return st;
}

enum status mul_mat_pdi(const struct aie_program * of, enum aie_arch arch, int columns,
                        const struct array_program * program, uint8_t ** pdi, size_t * size,
                        struct error * err) {
    const struct mm_plan any = {// all plans of gemm have these
                                .t = type_of(of, arch),
                                .columns = columns,
                                .core_rows =
                                    columns < MMP_CORE_ROWS_GEMM ? columns : MMP_CORE_ROWS_GEMM};
    const bool joins = of->code == AIE_CODE_GEMM || of->code == AIE_CODE_GEMM_STORED ||
                       of->code == AIE_CODE_GEMM_BY_BLOCKS;
    struct array a;
    array_begin(&a, arch);
    for (int col = 0; col < any.columns; col++) {
        array_mem(&a, col, mm_mem_lock_init, MM_MEM_LOCKS);
        for (int i = 0; i < any.core_rows; i++) {
            array_core(&a, col, ARRAY_ROW_CORE + i, program);
        }
        route_gemm(&a, &any, col, joins && mm_has_tasks(any.t));
    }
    return array_end(&a, pdi, size, err);
}

// ---- the stream ----

static void wait_step(const struct design * d) {
    for (int col = 0; col < d->plan.columns; col++) {
        for (int i = 0; i < mm_plan_ways(&d->plan); i++) {
            flow_wait(&d->flow, col, i);
        }
    }
}

// The steps from `first` on that one push of tasks can hold.
static struct group group_of(const struct design * d, int64_t first) {
    const struct mm_plan * p = &d->plan;
    int64_t slices = p->slices * mm_tiles_each(p);
    int64_t most = MMP_RUNS / (slices > p->x.rounds ? slices : p->x.rounds);
    struct group g = {0};
    for (int64_t i = first; i < p->steps; i++) {
        struct mm_step s = mm_plan_step(p, d->spec, i);
        int64_t more = s.tiles;
        // x and a take turns on channel 0
        bool alone = p->is_vector && (p->x_stays || p->y.rounds > 1);
        alone |= p->x_held && mm_plan_x_comes(p, &s); // a queue holds the tasks of two
        if (g.steps > 0 && (alone || g.tiles + more > most)) {
            break;
        }
        g.x_comes |= mm_plan_x_comes(p, &s);
        g.tiles += more;
        g.steps++;
    }
    return g;
}

static uint32_t all_tiles(const struct design * d) {
    uint32_t tiles = 0;
    for (int64_t i = 0; i < d->plan.steps; i++) {
        tiles += (uint32_t) mm_plan_step(&d->plan, d->spec, i).tiles;
    }
    return tiles;
}

static struct flow_tile core_of(const struct design * d, int col, int row) {
    return (struct flow_tile){col, ARRAY_ROW_CORE + d->ways->first_core + row};
}

// What brings slices to the cores: memtiles and shims first, so that words are on their way while
// the cores are told.
static void write_inputs(const struct design * d, int64_t i, const struct mm_step * s,
                         const struct group * g) {
    const struct mm_plan * p = &d->plan;
    for (int col = 0; col < p->columns; col++) {
        if (i == 0) {
            mm_write_memtile(d, col, false);
        }
        if (g->steps) {
            mm_push_memtile(d, col, g, false, i % 2);
        }
        mm_shim_inputs(d, col, s, i % 2);
    }
    for (int n = 0; n < p->columns * p->core_rows && g->steps; n++) {
        struct flow_tile at = core_of(d, n / p->core_rows, n % p->core_rows);
        if (i == 0) {
            mm_write_params(d, at, all_tiles(d), is_mixed(p) || p->wide);
            mm_write_core_bd(d, at, CORE_BD_Y);
            mm_write_core_bd(d, at, CORE_BD_X);
        }
        int64_t slices = g->tiles * p->slices;
        mm_push_pair(d, at, CORE_S2MM_QUEUE, (const int[]){CORE_BD_Y, CORE_BD_X},
                     (const int64_t[]){slices / mm_slices_at_once(p), slices * mm_tiles_each(p)});
    }
}

// What takes tiles from them.
static void write_outputs(const struct design * d, int64_t i, const struct mm_step * s,
                          const struct group * g) {
    const struct mm_plan * p = &d->plan;
    for (int col = 0; col < p->columns; col++) {
        if (i == 0) {
            for (int way = 0; way < mm_plan_ways(p); way++) {
                flow_expect(&d->flow, col, way);
            }
            mm_write_memtile(d, col, true);
        }
        if (g->steps) {
            mm_push_memtile(d, col, g, true, i % 2);
        }
        mm_shim_outputs(d, col, s, i % 2);
        for (int row = 0; row < p->core_rows && g->steps; row++) {
            struct flow_tile at = core_of(d, col, row);
            if (i == 0) {
                mm_write_core_bd(d, at, CORE_BD_C);
            }
            flow_push(&d->flow, at, CORE_MM2S_QUEUE, CORE_BD_C, g->tiles * mm_tiles_each(p), false);
        }
    }
}

// Of gemv channel 0 of a memtile has the most tasks: x, where a does not follow it in one chain,
// and a, whose runs may be more than one task holds. Such steps are groups of their own.
static int64_t steps_in_flight(const struct design * d) {
    const struct mm_plan * p = &d->plan;
    bool chain = !p->x_stays && p->y.rounds == 1;
    if (!p->is_vector || chain) {
        return 2;
    }
    int64_t tasks = 0;
    for (int64_t i = 0; i < p->steps; i++) {
        int64_t runs = mm_plan_step(p, d->spec, i).tiles * p->y.rounds;
        int64_t needed = 1 + ops_parts(runs, ARRAY_MAX_REPEAT);
        tasks = needed > tasks ? needed : tasks;
    }
    return 2 * tasks <= ARRAY_QUEUE_DEPTH ? 2 : 1;
}

static void write_stream(const struct design * d) {
    int64_t steps = d->plan.steps, group_end = 0, ahead = steps_in_flight(d);
    for (int64_t i = 0; i < steps; i++) {
        if (i >= ahead) {
            wait_step(d);
        }
        struct mm_step s = mm_plan_step(&d->plan, d->spec, i);
        struct group g = i == group_end ? group_of(d, i) : (struct group){0};
        group_end += g.steps;
        write_inputs(d, i, &s, &g);
        write_outputs(d, i, &s, &g);
    }
    for (int64_t i = steps < ahead ? steps : ahead; i > 0; i--) {
        wait_step(d);
    }
    for (int col = 0; col < d->plan.columns; col++) {
        mm_set_tiles(d, col, 1); // as the PDI has it
        mm_set_held(d, col, mm_mem_lock_init[LOCK_IN_EMPTY]);
        mm_set_pairs(d, col, false);
        mm_end_x(d, col);
    }
}

enum status mul_mat_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                           struct error * err) {
    struct txn t;
    struct sheet sheet = {0};
    struct design d = {.spec = &p->spec,
                       .plan = p->of.product,
                       .flow = {.t = &t, .target = aie_target(p->spec.arch)},
                       .sheet = &sheet};
    d.ways = d.plan.is_vector ? &mm_gemv_ways : &mm_gemm_ways;
    txn_begin(&t, p->columns, d.flow.target->device_generation);
    write_stream(&d);
    return txn_end(&t, insts, n_words, err);
}

// mul-mat-cores: descriptors and parameters of cores. They are written once for a run. None stands
// in the PDI: kernels that are issued ahead are given any number that no kernel in flight uses
// (txn-ahead.h), so what a PDI brought may be gone when a product comes.
#include "mul-mat-design.h"

static struct array_bd core_bd(const struct mm_type * t, int x_groups, int y_groups, bool x_raw,
                               int bd) {
    uint32_t slice = (uint32_t) (t->block_bytes * t->slice_blocks) / 4;
    uint32_t x = (uint32_t) (x_groups * t->x_group), y = (uint32_t) (y_groups * t->y_group);
    const struct {
        uint32_t address, other, words;
        int acquire, release;
    } streams[] = {
        [CORE_BD_Y] = {MM_Y, MM_XY_OTHER, t->stored ? y * MM_STORED_WORDS : y * slice,
                       MM_LOCK_Y_EMPTY, MM_LOCK_Y_FULL},
        [CORE_BD_X] = {MM_X + (x_raw ? MM_X_RAW : 0), MM_XY_OTHER, x * slice * (x_raw ? 2 : 1),
                       MM_LOCK_X_EMPTY, MM_LOCK_X_FULL},
        [CORE_BD_C] = {MM_C, MM_C_OTHER, x * y, MM_LOCK_C_FULL, MM_LOCK_C_EMPTY},
    };
    struct array_bd desc = {.address = streams[bd].address,
                            .words = streams[bd].words,
                            .next = -1,
                            .acquire = streams[bd].acquire,
                            .acquire_value = -1,
                            .release = streams[bd].release,
                            .release_value = 1,
                            .iterations = 2,
                            .iteration_step = streams[bd].other / 4};
    if (t->shared && bd != CORE_BD_C &&
        !(t->stored && bd == CORE_BD_Y)) { // all k-blocks of a group of rows one behind the other
        bool is_x = bd == CORE_BD_X;
        uint32_t group = (uint32_t) ((is_x ? t->x_group : t->y_group) * t->block_bytes) / 4;
        desc.wrap[0] = group;
        desc.step[0] = 1;
        desc.wrap[1] = (uint32_t) (is_x ? x_groups : y_groups);
        desc.step[1] = group * (uint32_t) t->slice_blocks;
        desc.step[2] = group;
    }
    return desc;
}

// Units that stand as far apart as those of 64 rows.
static void many_units(uint32_t units, uint32_t rows, struct array_bd * desc) {
    desc->words = units * rows * MANY_UNIT;
    desc->wrap[0] = rows * MANY_UNIT;
    desc->step[0] = 1;
    desc->step[1] = MM_TILE * MANY_UNIT;
}

// One place for blocks, for which both empty ones are wanted, or two. Of those that are longer than
// a slice each slice's numbers have a descriptor; all but the first one's come where these were.
static void write_many(const struct design * d, struct flow_tile at, struct array_bd * desc) {
    const struct mm_plan * p = &d->plan;
    const uint32_t rows = (uint32_t) (p->y_groups * p->t->y_group), later = mm_many_later(p);
    const uint32_t slices = later ? mm_slices_at_once(p) : 1;
    const uint32_t first = mm_many_units(p) - (slices - 1) * later;
    if (mm_by_turns_of(p)) {
        desc->address = MM_MANY_BLOCKS_EVEN;
        desc->iteration_step = (MM_MANY_BLOCKS - MM_MANY_BLOCKS_EVEN) / 4;
        many_units(first, rows, desc);
        flow_core_bd(&d->flow, at, CORE_BD_Y, desc);
        return;
    }
    desc->address = MM_MANY_BLOCKS;
    desc->acquire_value = -mm_lock_init[MM_LOCK_Y_EMPTY];
    desc->iterations = 0;
    desc->iteration_step = 0;
    for (uint32_t i = 0; i < slices; i++) {
        int bd = i ? CORE_BDS + (int) i - 1 : CORE_BD_Y;
        desc->next = i + 1 < slices ? CORE_BDS + (int) i : -1;
        many_units(i ? later : first, rows, desc);
        flow_core_bd(&d->flow, at, bd, desc);
        desc->address = MM_MANY_BLOCKS + (first - later) * 4 * MANY_UNIT * MM_TILE;
    }
}

// Of q4_0 that becomes block floats: units that stand as far apart as those of 64 rows.
static void made_bd(const struct mm_plan * p, struct array_bd * desc) {
    desc->address = MM_Y + MM_MADE_RAW;
    many_units(mm_many_units(p), (uint32_t) (p->y_groups * p->t->y_group), desc);
}

void mm_write_core_bd(const struct design * d, struct flow_tile at, int bd) {
    const struct mm_plan * p = &d->plan;
    struct array_bd desc = core_bd(p->t, p->x_groups, p->y_groups, p->x_raw, bd);
    if (p->many && bd == CORE_BD_Y) {
        write_many(d, at, &desc);
        return;
    }
    if (mm_is_made(p) && bd == CORE_BD_Y) {
        made_bd(p, &desc);
    } else if (p->block_bytes && !p->t->stored &&
               bd == CORE_BD_Y) { // words stand as far apart as those of 64 rows
        uint32_t rows = (uint32_t) (p->y_groups * p->t->y_group);
        desc.address = mm_blocks_at(p);
        desc.iteration_step = MM_BLOCKS_OTHER / 4;
        desc.words = mm_slice_words(p) * rows;
        desc.wrap[0] = rows;
        desc.step[0] = 1;
        desc.step[1] = MM_TILE;
    }
    flow_core_bd(&d->flow, at, bd, &desc);
}

void mm_push_pair(const struct design * d, struct flow_tile at, uint32_t queue, const int bds[2],
                  const int64_t runs[2]) {
    const int64_t most = ARRAY_MAX_REPEAT;
    for (int64_t done = 0; done < runs[0] || done < runs[1]; done += most) {
        uint32_t words[3] = {0};
        bool has[2];
        for (int i = 0; i < 2; i++) {
            int64_t left = runs[i] - done;
            has[i] = left > 0;
            words[2 * i] =
                has[i] ? array_queue_word(bds[i], (int) (left < most ? left : most), false) : 0;
        }
        uint32_t addr = image_addr(at.col, at.row, queue);
        if (has[0] && has[1]) {
            txn_block_write(d->flow.t, addr, words, 3);
        } else {
            txn_write(d->flow.t, addr + (has[0] ? 0 : 8), words[has[0] ? 0 : 2]);
        }
    }
}

// Parameters that gemv in bf16 wants: with more ways for a slice to go come more of them.
static int vector_params(const struct mm_plan * p) {
    bool fused = mm_fuses(p->t, p->blocks);
    if (p->blocks == KERNEL_BLOCKS) {
        return MM_PARAM_FEW;
    }
    switch (kernel_block(p->blocks)->way) {
    case KERNEL_WAY_LONG:
        return fused ? MM_PARAM_BEFORE_WORDS : MM_PARAM_BEFORE_FUSED;
    case KERNEL_WAY_TABLE:
        return MM_PARAM_COUNT;
    case KERNEL_WAY_PLANES:
        return kernel_block(p->blocks)->eight ? MM_PARAM_COUNT : MM_PARAM_AFTER_PLANES;
    case KERNEL_WAY_SHORT:
        break;
    }
    return kernel_block(p->blocks)->bits == 8 ? fused ? MM_PARAM_COUNT : MM_PARAM_MORE_THAN_FEW
           : fused                            ? MM_PARAM_BEFORE_WORDS
                                              : MM_PARAM_FEW;
}

void mm_write_params(const struct design * d, struct flow_tile at, uint32_t tiles, bool task) {
    const struct mm_plan * p = &d->plan;
    uint32_t params[MM_PARAM_COUNT];
    mm_params(p->t,
              &(struct mm_shape){.x_groups = p->x_groups,
                                 .y_groups = p->y_groups,
                                 .x_rows = p->x_rows,
                                 .is_vector = p->is_vector,
                                 .tiles = tiles,
                                 .slices = p->slices,
                                 .x_raw = p->x_raw,
                                 .y_raw = p->y_raw,
                                 .k = p->k,
                                 .blocks = p->blocks,
                                 .paired = p->panel.pair != 0,
                                 .many = p->many,
                                 .turns = mm_by_turns_of(p)},
              params);
    txn_block_write(d->flow.t, image_addr(at.col, at.row, MM_PARAMS), params,
                    task                                       ? (uint32_t) vector_params(p)
                    : p->t->stored                             ? MM_PARAM_TASK + 1
                    : p->t->shared                             ? MM_PARAM_TASK
                    : p->is_vector || !mm_has_tasks(p->t)      ? MM_PARAM_X_TRIPS
                    : p->many && !mm_beside_numbers(p->blocks) ? MM_PARAM_TASK + 1
                                                               : MM_PARAM_MANY + 1);
}

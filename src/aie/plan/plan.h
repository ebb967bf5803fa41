// plan: all that is decided of a kernel, once. A spec becomes a plan or a refusal; the plan names
// the PDI that the kernel runs on, says how long it takes, and is what its instruction stream is
// written from. So what is promised, priced, named and sent cannot differ.
//
// Plain data: it lies on the caller's stack or in the store's entry, may be copied, and owns
// nothing.
#pragma once

#include "programs.h"

#include "aie/ops/attention/attention.h"
#include "aie/ops/convert/convert.h"
#include "aie/ops/elementwise/elementwise-plan.h"
#include "aie/ops/elementwise/weigh.h"
#include "aie/ops/move/move.h"
#include "aie/ops/mul-mat/mul-mat-plan.h"
#include "aie/ops/rows/rows-plan.h"
#include "aie/ops/tasks/tasks.h"

struct aie_plan {
    struct kernel_spec spec;
    const struct aie_program * program;
    int columns;     // of the array: the spec's, or all
    uint64_t cycles; // about how many it takes, rather too many than too few
    union {          // by the family of the spec's op
        struct ew_plan elementwise;
        struct rows_plan rows;
        struct mm_plan product;
        struct convert_plan convert;
        struct unpack_plan unpack;
        struct move_plan move;
        struct at_plan attention;
        struct task_plan task;
        struct weigh_plan weigh;
    } of;
};

// Cheap: ST_OK when this kernel can be made, ST_UNSUPPORTED or ST_INVALID with the reason
// otherwise. Never allocates, never compiles. The spec may be that of *out, which stays as it is.
enum status aie_plan(const struct kernel_spec * spec, struct aie_plan * out, struct error * err);

// The instruction stream of a plan; the caller owns *insts. Microseconds.
enum status aie_stream(const struct aie_plan * plan, uint32_t ** insts, size_t * n_words,
                       struct error * err);

// A PDI, the same for all plans that name it; the caller owns *pdi. Milliseconds. columns as the
// spec has them.
enum status aie_pdi(const struct aie_program * program, enum aie_arch arch, int columns,
                    uint8_t ** pdi, size_t * size, struct error * err);

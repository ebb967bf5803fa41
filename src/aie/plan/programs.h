// programs: the PDIs that there are, as data (programs.def), and which of them an op runs on. No
// core program is made or named here, so that who has no compiler has the names.
#pragma once

#include "kernel/kernel.h"

// The program that the cores run.
enum aie_code {
    AIE_CODE_NONE, // others', see aie_decoders
    AIE_CODE_ELEMENTWISE,
    AIE_CODE_ROWS_LAYER,
    AIE_CODE_ROWS_REDUCE,
    AIE_CODE_ROWS_SORT,
    AIE_CODE_GEMM,           // products, and bf16's further tasks
    AIE_CODE_GEMM_SHARED,    // of block floats
    AIE_CODE_GEMM_STORED,    // of those, whose first operand comes so
    AIE_CODE_GEMM_BY_BLOCKS, // in bf16, whose first operand is quantized blocks
    AIE_CODE_GEMV,           // products of few rows in bf16, and conversions
    AIE_CODE_GEMV_PLANES,    // the same of blocks that go by planes (ops/blocks)
    AIE_CODE_UNPACK,
    AIE_CODE_UNPACK_PLANES,
    AIE_CODE_ATTENTION,
    AIE_CODE_ATTENTION_MATRIX, // prompts, products in matrix mode
    AIE_CODE_ATTENTION_HALVES, // of heads in two halves
    AIE_CODES,
};

// How the array around them is joined.
enum aie_layout {
    AIE_LAYOUT_PART_ONLY, // it is there among the decoder's programs alone
    AIE_LAYOUT_MIXED,     // the decoder's: the rows of the array have different programs
    AIE_LAYOUT_WAYS,      // all cores alike, a column has two ways through it (spread.h)
    AIE_LAYOUT_ALIKE,     // all cores alike
    AIE_LAYOUT_GEMV,      // as the decoder's, with a product's program alone
    AIE_LAYOUT_GEMM,      // streams along the rows of the array
    AIE_LAYOUT_ATTENTION, // streams to all cores of a column
};

struct aie_program { // a row of programs.def
    const char * name;
    unsigned chips; // bits of enum aie_arch
    enum aie_code code;
    enum aie_layout layout;
    enum dtype dtype;
    bool exact;
    const enum kernel_op * ops; // ended by KERNEL_OP_COUNT
};

enum aie_program_id {
#define PROGRAM(id, ...) AIE_PROGRAM_##id,
#define PART(...)
#include "programs.def"
#undef PROGRAM
#undef PART
    AIE_PROGRAMS,
};
extern const struct aie_program aie_programs[];

// What a decoder's PDI holds: a program, in so many cores of a column from the first on, and in
// which columns.
enum aie_columns { AIE_IN_ALL, AIE_IN_FIRST_HALF, AIE_IN_SECOND_HALF };
struct aie_decoder_part {
    enum aie_program_id of, program;
    int first_core, n_cores;
    enum aie_columns columns;
};
enum {
#define PROGRAM(...)
#define PART(of, id, ...) AIE_PART_##of##_##id,
#include "programs.def"
#undef PROGRAM
#undef PART
    AIE_DECODER_PARTS,
};
extern const struct aie_decoder_part aie_decoders[AIE_DECODER_PARTS];

// The program on which an op of that datatype runs where the array is laid out so; NULL: none.
const struct aie_program * aie_program_for(enum aie_arch arch, enum aie_layout layout,
                                           enum kernel_op op, enum dtype t, bool exact);
static inline bool aie_program_is_mixed(const struct aie_program * p) {
    return p->layout == AIE_LAYOUT_MIXED;
}

// The PDI's name, on so many columns; 0: as many as the architecture has.
void aie_pdi_name(const struct aie_program * p, int columns, char name[KERNEL_NAME_MAX]);

// The programs, one after the other from i = 0, that together serve every shape of the spec's op
// and datatypes, and what else such a node may want; NULL when there are no more. An op of other
// shapes may run on another program, so that who keeps programs for machines without a compiler
// keeps all of these.
const struct aie_program * aie_related(const struct kernel_spec * spec, int i);

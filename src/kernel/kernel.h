// kernel: what a kernel computes (its spec) and what it is called. The name is canonical and
// injective: equal specs have equal names, different specs different ones.
#pragma once

#include "base/arch.h"
#include "tensor/tensor.h"

enum kernel_op {
#define KERNEL(id, name, ggml_name, source, least, inputs, params) KERNEL_OP_##id,
#include "kernel/ops.def"
#undef KERNEL
    KERNEL_OP_COUNT,
};

// What kernels have in common, and what tables of them are indexed by.
enum kernel_family {
    KERNEL_ELEMENTWISE, // each element from the elements at the same place: operands may be
                        // repeated, flattened and cut anywhere
    KERNEL_ROWS,
    KERNEL_PRODUCT,
    KERNEL_CONVERSION,
    KERNEL_MOVE, // the same numbers elsewhere, in another layout or datatype
    KERNEL_ATTENTION,
    KERNEL_TASK,  // on the PDI of products of many rows
    KERNEL_WEIGH, // rows by their weights, added up
    KERNEL_FAMILIES,
};

struct kernel_op_info {     // a row of ops.def
    const char * name;      // "add"
    const char * ggml_name; // "ggml_op_add"
    const char * source;    // "binary_ops"
    enum kernel_family family;
    int least_inputs; // the rest of n_inputs, at the end, may be missing
    int n_inputs;
    int n_params;
};

const struct kernel_op_info * kernel_op_info(enum kernel_op op); // never NULL for a valid op
const char * kernel_op_name(enum kernel_op op);                  // "add"

#define KERNEL_MAX_INPUTS 5
#define KERNEL_MAX_PARAMS 8

// Blocks of quantized numbers, as ggml has them, that the cores of a product make into bf16: the
// parameter of MUL_MAT_BLOCKS and UNPACK. A row is cut at a whole number of words.
enum kernel_blocks {
#define BLOCKS(id, ...) KERNEL_##id,
#include "kernel/blocks.def"
    KERNEL_BLOCKS
};

// How the numbers of blocks come to be: what the program of a core is to do with them.
enum kernel_block_way {
    KERNEL_WAY_SHORT,  // two blocks a slice: a scale, and numbers as they are
    KERNEL_WAY_LONG,   // four slices a block: scales of scales
    KERNEL_WAY_TABLE,  // a scale, and places in a table of 16 numbers
    KERNEL_WAY_PLANES, // bytes, and scales and minima of groups: whatever else there is
};

struct kernel_block_info { // a row of blocks.def
    const char * name;     // "q4_0"
    int bytes, k;
    int once, cut;
    enum kernel_block_way way;
    int bits;        // of a number
    int scale;       // byte of a block at which it has d
    unsigned paired; // bits, by architecture: blocks of a panel have their scales together
    bool power;      // d is the exponent of a power of two, not an f16
    bool gemm;       // products of many rows take them as they are, where gemm does so
    int cycles;      // about, of aie2p: 64 numbers of 64 rows, times one row
    int8_t table[16];
    // Of those that go by planes: a number is its byte times a scale, less `one` times a minimum
    // or, where there is none, a scale.
    int n_halves, halves[4]; // f16 numbers of what comes at once: bytes at which they stand
    int numbers[2];          // bytes of that at which the numbers of two blocks of 32 begin
    int group;               // numbers that have one scale: 16 or 32
    bool minima;
    bool eight; // bytes of numbers go up to 255, which are multiplied in two parts: `one` is 128
                // more
    int one;    // in bf16
    // Scales that are bytes, times an f16 number of the block: upper bytes of two of them, and in
    // bf16 what is too much of one with those.
    int top, less;
};
const struct kernel_block_info * kernel_block(enum kernel_blocks b); // of nonsense: "invalid"

int kernel_block_bytes(enum kernel_blocks b);         // 0: there is no such block
int kernel_block_k(enum kernel_blocks b);             // numbers of a block
int kernel_block_once(enum kernel_blocks b);          // numbers that come to a core at once
int kernel_block_cut(enum kernel_blocks b);           // numbers that a row may be cut behind
const char * kernel_block_name(enum kernel_blocks b); // "q4_0"
// Products read them as they are. Of all other types a product's weights are kept as bf16.
bool kernel_block_is_streamed(enum kernel_blocks b);

// How a matrix of blocks lies in memory. ggml has row behind row. Cores take a chunk of many rows
// at a time, and memory is paid by the run; so `rows` rows, a panel, may lie chunk by chunk:
//
//     a panel: [row length / words][rows][words]
//
// What a shim reads of a panel for one chunk is one run. Panels follow each other as rows would.
//
// Blocks that are whole words by twos have numbers that begin in the middle of a word: of q6_K the
// second one's, of q4_0 and q8_0 the first one's; those of mxfp4 are whole words by fours. In a
// panel the scales of so many stand together, between the numbers of two or before all, so that
// none do.
struct kernel_panel {
    int rows;  // 0: row behind row
    int words; // 32-bit words of a chunk
    int pair;  // bytes of so many blocks; 0: blocks are as they are
    int block; // of one
    int scale; // where it has its scale: at its beginning or its end
    int width; // bytes of that
};
enum { KERNEL_PANEL_ROWS = 16 }; // at most; a power of two
enum { KERNEL_NO_PAIR = -1 };    // of `pair`: a parameter asks for what there is not
// Where byte `at` of rows of row_bytes lies; *n is lowered to how many follow it there.
size_t kernel_panel_at(const struct kernel_panel * p, size_t row_bytes, size_t at, size_t * n);

// Where ROTATE and moves run, their parameter: on the decoder's PDI or on layer_f32's, by which is
// better for the kernel alone; or on layer_f32's, for there its neighbours are.
enum kernel_place { KERNEL_BEST_ALONE, KERNEL_ON_LAYER, KERNEL_PLACES };
bool kernel_has_place(enum kernel_op op);

// How near to the exact result a kernel comes: an NMSE of 1e-9 at most, or 5 units of f32's last
// place.
enum kernel_precision { KERNEL_FAST, KERNEL_EXACT };

struct kernel_spec {
    enum kernel_op op;
    enum aie_arch arch;
    int columns;                     // of the device's array; 0: as many as the architecture has
    enum kernel_precision precision; // KERNEL_FAST where kernel_has_exact() says that there is one
    int n_inputs;
    struct tensor inputs[KERNEL_MAX_INPUTS];
    struct tensor output;
    uint32_t params[KERNEL_MAX_PARAMS]; // the first n_params of the op count, the rest is 0
};

// The parameter of MUL_MAT_BLOCKS and UNPACK: the blocks, and how they lie. What it says may be
// nonsense; kernel_panel_check tells, for rows of so many words.
uint32_t kernel_blocks_param(enum kernel_blocks b, struct kernel_panel panel);
// The same, and of MUL_MAT_BLOCKS: the cores make them block floats (shared.h), and b as well.
uint32_t kernel_shared_param(enum kernel_blocks b, struct kernel_panel panel);
bool kernel_blocks_are_shared(const struct kernel_spec * spec);
enum kernel_blocks kernel_blocks_of(const struct kernel_spec * spec);
struct kernel_panel kernel_panel_of(const struct kernel_spec * spec);
// Panels of such blocks as they are best laid out. On aie2 those of q4_0 and q8_0 do not lie in
// pairs: there a shift is a matter of b's order, or done with what else there is to do.
struct kernel_panel kernel_panel(enum aie_arch arch, enum kernel_blocks b, int rows, int words);
bool kernel_panel_check(const struct kernel_panel * panel, enum kernel_blocks b, int64_t words,
                        int64_t rows);

// Whether exact is a kernel of its own: for the float functions, where the result is f32.
// Everything else has one kernel, which does for both.
bool kernel_has_exact(const struct kernel_spec * spec);
const char * kernel_precision_name(enum kernel_precision p); // "fast"
bool kernel_precision_parse(const char * text, enum kernel_precision * out);
// What GGML_HSA_PRECISION asks for; false: its value is not known, *out is fast.
bool kernel_precision_asked(enum kernel_precision * out);

const char * kernel_arch_name(enum aie_arch arch); // "aie2"
bool kernel_arch_parse(const char * text, enum aie_arch * out);

#define KERNEL_NAME_MAX 200

// Writes e.g. "add_f32_1024x1x1x1_f32_1024x1x1x1_f32_1024x1x1x1"; strides appear where not
// contiguous, op parameters as hexadecimal words at the end ("_p3f000000x0"), then "_exact" where
// that is another kernel than the fast one, and "_c2" where there are but so many columns. Only
// letters, digits,
// '_' and '-'; what would be too long ends in a SHA-256 of the whole. The architecture is not part
// of it: it is the directory that a kernel's files lie in.
void kernel_name(const struct kernel_spec * spec, char name[KERNEL_NAME_MAX]);

// The binaries of one kernel: a configuration for the array, shared by every shape of an op and
// datatype, and the instruction stream that drives it for one shape. The stream's operands are the
// inputs in order, then the output.
struct kernel_code {
    uint8_t * pdi; // malloc'ed
    size_t pdi_size;
    uint32_t * insts; // malloc'ed
    size_t n_insts;   // 32-bit words
};

void kernel_code_free(struct kernel_code * code);

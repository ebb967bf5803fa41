// mat: matrix multiplication. MUL_MAT's kernel takes bf16 (or i8, or i16) with k contiguous, a
// multiple of 8, and every other stride a multiple of a word; ggml's operands are of any datatype
// and lie in any way. What is here brings them to that form and cuts what is too large.
//
// A number is a sum of bf16 pieces: hi = bf16(x), lo = bf16(x - hi). Where products must be better
// than bf16, a row of the left operand holds [hi | lo | hi] and one of the right [hi | hi | lo], so
// that the same kernel on a three times longer k adds hi*hi + lo*hi + hi*lo.
#pragma once

#include "aie/target/target.h"
#include "npu.h"
#include "route.h"

#define MAT_K_MULTIPLE AIE_PRODUCT_K
#define MAT_FEW_ROWS   16 // of b, for which there are kernels that want little else

enum mat_pieces {
    MAT_HI = 0, // these six are CONVERT's parameter
    MAT_LEFT = 1,
    MAT_RIGHT = 2,
    MAT_HI_MANY = 3,   // MAT_HI, where products of many rows are
    MAT_HI_STORED = 4, // or those of stored block floats,
    MAT_HI_BLOCKS = 5, // or of quantized blocks
    MAT_STORED = 6,    // numbers that share exponents in eights (kernel/shared.h)
    MAT_PADDED = 7,    // quantized blocks as they are, rows padded to where kernels take them
};

// ---- mat-stage.c: operands laid out by the host ----

struct mat_source {   // an operand as ggml has it
    struct view view; // [k, rows, dim 2, dim 3]
    bool columns;     // [rows, k, dim 2, dim 3]: quantized and of OUT_PROD, others are swapped
    struct kernel_panel panel; // how its bytes lie, of quantized weights
};

static inline bool mat_is_integer(enum ggml_type t) { // of those that kernels multiply
    return t == GGML_TYPE_I8 || t == GGML_TYPE_I16;
}

bool mat_same_source(const struct mat_source * a, const struct mat_source * b);
struct mat_source mat_source_of(struct view view, bool columns);
int64_t mat_source_k(const struct mat_source * s);
// Is it of a datatype, and does it lie in a way, that mat_stage can read?
bool mat_can_stage(const struct mat_source * s);
// Its packed form, as long as the pieces make it; k is padded with zeros.
struct view mat_packed(const struct mat_source * s, enum mat_pieces pieces, void * data);
enum status mat_stage(const struct mat_source * s, enum mat_pieces pieces, char * out,
                      struct error * err);
// The form of rows of blocks whose length no kernel takes, with blocks of zeros behind each: a
// little longer than it has to be where it lies in panels then. False: padding is not needed, or
// does not help.
struct mat_world;
bool mat_padded(const struct mat_world * w, const struct mat_source * s, struct mat_source * out);
void mat_stage_padded(const struct mat_source * s, const struct view * out);
// Whether products of many rows may have it as stored block floats.
bool mat_can_store(const struct mat_source * s);
// A row of k floats as bf16 pieces, each padded with zeros.
void mat_put_row(const float * row, int64_t k, enum mat_pieces pieces, uint16_t * out);

// ---- shadow.c: weights in packed form, kept with their buffer ----

struct shadow;

// The converted weights that a buffer keeps. A form is dropped when the bytes that it was made of
// may have changed; one that somebody still holds goes when it is released.
struct shadows {
    pthread_mutex_t lock;
    struct hsac_agent * agent;
    uint32_t forks; // of the process that made it: in a child of it nobody gives back the lock
    struct shadow * first;
    atomic_size_t count; // so that the usual write, where there are none, locks nothing
    bool warned;
    struct padding { // of one of several matrices of a shape
        struct mat_source of, to;
        bool pads;
    } paddings[4];
    unsigned n_paddings; // ever made
};

void shadows_init(struct shadows * all, struct hsac_agent * agent);
void shadows_free(struct shadows * all); // nothing is held any more
// The bytes from begin on were written, or will be by what is in flight.
void shadows_drop(struct shadows * all, const void * begin, size_t bytes);
// NULL when there is none yet; the caller holds it otherwise.
struct shadow * shadow_find(struct shadows * all, const struct mat_source * source,
                            enum mat_pieces pieces);
// mat_padded, which plans some kernels: the last answers are kept.
bool shadows_padded(struct shadows * all, const struct mat_world * w, const struct mat_source * s,
                    struct mat_source * out);
// Makes the form, unless another thread has made it; padded: of MAT_PADDED. NULL when there is no
// memory: the log says so once, and the weights are then converted each time.
struct shadow * shadow_make(struct shadows * all, const struct mat_source * source,
                            enum mat_pieces pieces, const struct mat_source * padded);
struct view shadow_view(const struct shadow * s);
struct kernel_panel shadow_panel(const struct shadow * s); // how it lies, of padded blocks
void shadow_release(struct shadow * s);

// ---- mat-plan.c: how a product becomes kernels ----

// MAT_AS_ASKED: quantized weights that the cores can make block floats may go so, for ggml's CPU
// gives their products no more bits of b; all else has bf16, or more. MAT_LANES: all has.
// MAT_BLOCK: as asked, and where bf16 would do, by block floats if the chip has them. MAT_LEAN: the
// same, and quantized weights that products take as they are have no second form.
enum mat_precision {
    MAT_AS_ASKED,
    MAT_LANES,
    MAT_ALWAYS_BF16,
    MAT_ALWAYS_PRECISE,
    MAT_BLOCK,
    MAT_LEAN,
};

enum mat_precision mat_precision_asked(void); // by GGML_HSA_MUL_MAT; warns of what it cannot read

struct mat_world { // what a plan depends on beside its node
    struct store * store;
    enum aie_arch arch;
    enum mat_precision precision;
    bool unstored;             // the weights have no form as block floats, or there is no memory
    bool by_command;           // kernels of GGML_HSA_JIT_COMMAND count as well
    struct kernel_panel panel; // how the node's weights lie
    struct route_place place;  // where it is to be computed
    bool shares_b;             // with the product before it: b is packed already
    struct route_stop * ways;  // gets all ways that were looked at; may be NULL
};

enum mat_way {
    MAT_AS_IT_STANDS,
    MAT_BY_KERNEL, // CONVERT or UNPACK in front of the product, in the same queue
    MAT_BY_HOST,
};

struct mat_operand {
    struct mat_source source;
    enum mat_pieces pieces;
    enum mat_way way;
    const struct ggml_tensor * weights; // which a shadow may be kept of; NULL: none
    struct view packed;                 // what mat_way makes; no place yet
    struct kernel_spec convert;         // MAT_BY_KERNEL
    struct view kernel; // as MUL_MAT's kernel has it: as it stands, or the packed one, with
                        // dimensions 1 to 3 as one where that makes no difference
};

struct mat_plan {
    bool nothing_to_add; // k is 0: the result is zeros
    struct mat_operand a, b;
    struct plan_operand result;
    bool shared;                  // by block floats
    bool stored;                  // as which a is kept
    bool made;                    // which the cores make of a's blocks
    bool by_pieces;               // a is made bf16 for one chunk of its rows after the other
    int64_t chunk[GGML_MAX_DIMS]; // what one dispatch makes of the result
    int64_t chunk_k;              // out of so much of k
    struct view partial;          // where k is cut: a chunk's sums of its later parts; no place yet
};

struct mat_at { // a dispatch of a plan; zero: the first
    int64_t at[GGML_MAX_DIMS], k;
    bool add; // the partial sums to those before, by the ADD kernel
};

// Does CONVERT make large numbers of what is not finite, for block floats have nothing else?
bool mat_is_limited(const struct mat_operand * o);
// Can the kernel read it as it stands?
bool mat_stands(const struct mat_source * s, enum mat_pieces pieces);
// Is it of quantized blocks that the cores make into numbers? Then no packed form is kept of it.
bool mat_streams(const struct mat_source * s, enum mat_pieces pieces);
// The layout of weights that their products are fastest with. False: row behind row.
bool mat_panel(const struct mat_world * w, const struct view * weights, struct kernel_panel * out);
bool mat_is_product(enum ggml_op op); // of two operands: MUL_MAT, OUT_PROD
// Are products of the node better than bf16?
bool mat_is_precise(const struct mat_world * w, const struct ggml_tensor * node);
// Cheap and never compiles, as plan_node.
enum status mat_plan_node(struct mat_world w, const struct ggml_tensor * node,
                          struct mat_plan * out, struct error * err);
// The same for a right operand that is in the kernel's form already.
enum status mat_plan_prepared(struct mat_world w, const struct mat_source * a, bool precise,
                              const struct view * b, const struct view * result,
                              struct mat_plan * out, struct error * err);
// All ways of a product, for the route of its graph.
void mat_ways(struct mat_world w, const struct ggml_tensor * node, struct route_stop * out);
// How many rows are computed where n depends on data: few sizes, so that few kernels are made.
int64_t mat_padded_rows(int64_t n);
// Whether a dispatch is the first one of a chunk of rows of a that has to be made bf16 before.
bool mat_begins_piece(const struct mat_plan * p, const struct mat_at * at);
// The kernel of a dispatch, and where its operands lie.
struct kernel_spec mat_part(const struct mat_plan * p, enum aie_arch arch, const struct mat_at * at,
                            char * addr[PLAN_OPERANDS]);
bool mat_next(const struct mat_plan * p, struct mat_at * at); // false after the last

// ---- mat-cost.c ----

// About how long a plan takes, and where, to compare it with others of the same product.
struct route_way mat_cost(const struct mat_world * w, const struct mat_plan * p);
// The same in cycles, with the loads that it takes where the product is to be computed elsewhere.
uint64_t mat_cost_at(const struct mat_world * w, const struct route_way * way);

// ---- mat-run.c ----

struct hsa_stream;

// What a stream packed lately: products that follow each other often share an operand.
struct mat_recent {
    struct mat_source source;
    enum mat_pieces pieces;
    bool limited; // what is not finite became a number
    char * data;  // NULL: nothing
};

// The bytes from begin on will be others.
void mat_forget(struct hsa_stream * s, const void * begin, size_t bytes);

struct mat_world mat_world_of(const struct hsa_device * device);
struct mat_world mat_world_here(const struct hsa_stream * s); // and the place of the node at hand
void mat_put_zeros(struct hsac_agent * a, const struct ggml_tensor * t); // sums of nothing
enum status mat_compute(struct hsa_stream * s, const struct ggml_tensor * node, struct error * err);
// The same with weights of which the caller knows how they lie.
enum status mat_compute_as(struct hsa_stream * s, const struct ggml_tensor * node,
                           struct kernel_panel panel, struct error * err);

// The steps of mat_compute. The packed form of weights, held by the caller; NULL when none is kept.
enum status mat_shadow(struct hsa_stream * s, const struct ggml_tensor * weights,
                       const struct mat_source * source, enum mat_pieces pieces,
                       const struct mat_source * padded, struct shadow ** out, struct error * err);
void mat_use(struct mat_operand * o, const struct view * packed); // instead of making it
size_t mat_scratch(const struct mat_plan * p);                    // bytes that mat_place hands out
void mat_place(struct mat_plan * p, char * room);  // gives what is not there yet its place
bool mat_reads_on_host(const struct mat_plan * p); // are operands laid out by the host?
// Lays out the operands and sends the kernels. Who reads on the host has waited before.
enum status mat_send(struct hsa_stream * s, const struct mat_plan * p, struct error * err);

// ---- expert.c: MUL_MAT_ID ----

enum status expert_check(const struct mat_world * w, const struct ggml_tensor * node,
                         struct error * err);
enum status expert_compute(struct hsa_stream * s, const struct ggml_tensor * node,
                           struct error * err);
void expert_ways(struct mat_world w, const struct ggml_tensor * node, struct route_stop * out);

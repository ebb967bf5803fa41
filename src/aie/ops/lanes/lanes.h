// lanes: an op is written once, over lanes. A val is one vector of lanes: target->lanes numbers of
// 32 bits when the op computes in f32 (whatever the datatype in memory), or a full vector of the
// datatype's own width when it works on the bits. Datatypes live at the edges: a load turns memory
// into lanes, a store turns lanes into memory, rounding to nearest even.
//
// f32 lanes may stand in a vector register (integer and bit operations) or in an accumulator (the
// float adder); a val moves over when it is needed there. Constants stand in a pool in data memory
// and are loaded where they are used, unless a loop keeps them in registers.
#pragma once

#include "aie/asm/asm.h"
#include "kernel/kernel.h"

// The pool: one number a slot, as often as it fits.
enum { LANES_POOL_SLOTS = 64, LANES_POOL_SLOT_BYTES = 32, LANES_PARAMS = KERNEL_MAX_PARAMS };
enum { LANES_MOST_KEPT = 8, LANES_MOST_ACC = 2, LANES_MOST_VECTORS = 2 };

struct lanes {
    struct asm_program * p;
    enum dtype dtype;
    bool fast;                               // f32 functions need 15 bits only
    bool full;                               // all bits of f32, whatever the datatype
    int vectors;                             // that a val of f32 lanes fills: see lanes_set_vectors
    struct asm_reg pool;                     // pointer to the middle of the pool
    struct asm_reg minus_one, one;           // scalars
    struct asm_reg float_config;             // adder: f32 lanes, nothing negated
    struct asm_reg mul_config;               // multiplier: two bf16 products a lane
    struct asm_reg shift0, shift13, shift16; // f16 only
    bool side_by_side;                       // constants of long vals stand in two slots: a vector
    uint32_t consts[LANES_POOL_SLOTS];       // one 32-bit pattern a slot
    int n_consts;
    int hole, hole_end; // slots that are kept free of constants, where hole_end is not 0
    // Constants that stand in registers, as vectors of equal lanes; uses: where not NULL, how often
    // each slot is wanted so is counted there.
    struct lanes_kept {
        int slot;
        struct asm_reg x;
    } kept[LANES_MOST_KEPT];
    int n_kept;
    uint8_t * uses;
    // The same of accumulators.
    struct lanes_kept acc[LANES_MOST_ACC];
    int n_acc;
    uint8_t * acc_uses;
};

struct val {
    struct asm_reg x[LANES_MOST_VECTORS], bm;
    bool has_x, has_bm;
    bool in_memory, in_bf16; // as in registers, or as bf16: at an offset from a pointer,
    uint8_t memory;
    struct asm_reg pointer;
    int32_t offset;
    int slot; // of the pool, where it stands in no register yet; else -1
};

// Some of the lanes: a scalar for each vector.
struct mask {
    struct asm_reg of[LANES_MOST_VECTORS];
};

static inline struct mask mask_in(struct asm_reg scalar) {
    return (struct mask){.of = {scalar}};
}

// Memory numbers for the scheduler: the pool is written before any loop runs.
enum { MEM_PARAMS, MEM_A, MEM_B, MEM_OUT, MEM_POOL, MEM_SPILLS = 15 };

// ---- the program around an op ----

// Scalars, rounding mode, pool pointer. Once, first; pool_address is the pool's first byte.
// fast: functions need no more than 15 bits, and conversions round to nearest.
void lanes_begin(struct lanes * l, struct asm_program * p, enum dtype t, bool fast,
                 int32_t pool_address);
// Behind it, in a program of another datatype whose loops have f16 at an edge.
void lanes_begin_f16(struct lanes * l);
// From here on they are fast, or not.
void lanes_set_fast(struct lanes * l, bool fast);
// From here on a val of f32 lanes is so many vectors long: two where the target's accumulators have
// room for more than one (wide_is_there). Then constants are one vector for both, and a piece of
// all lanes fills a vector (pieces.h). Not for f_factor and what is made of it.
void lanes_set_vectors(struct lanes * l, int n);
// Uses another pool from here on. Its constants are up to the caller.
void lanes_use_pool(struct lanes * l, int32_t pool_address);
// The pool's content for the PDI: LANES_POOL_SLOTS slots.
void lanes_pool_bytes(const struct lanes * l,
                      uint8_t bytes[LANES_POOL_SLOTS * LANES_POOL_SLOT_BYTES]);
// A vector of a slot's number in all lanes.
void lanes_load_slot(struct lanes * l, struct asm_reg x, int slot);
// Where a slot is, seen from the pool pointer.
static inline int32_t lanes_slot_offset(int slot) {
    return (slot - LANES_POOL_SLOTS / 2) * LANES_POOL_SLOT_BYTES;
}
// Puts parameter i (an f32 or integer pattern in a scalar) into its pool slot.
void lanes_set_param(struct lanes * l, int i, struct asm_reg scalar);

// One number in all lanes, from and to a slot that the program sets.
struct val lanes_get(int slot);
void lanes_put(struct lanes * l, int slot, struct val v);

// Called once, before the first loop. It reserves registers, which nothing else uses where
// constants are kept.
void lanes_may_keep(struct lanes * l);
// Keeps a constant in a register until all are let go: called before a loop, and lanes_let_go
// behind it.
void lanes_keep(struct lanes * l, int slot);
void lanes_keep_acc(struct lanes * l, int slot);
void lanes_let_go(struct lanes * l);
// The register of a slot that is kept; NULL: it is not.
const struct asm_reg * lanes_kept(struct lanes * l, int slot);

// ---- edges ----

// Bytes of memory behind one val of f32 lanes / of native lanes.
int lanes_step(enum aie_arch arch, enum dtype t, bool native);
struct val lanes_load(struct lanes * l, struct asm_reg pointer, int memory, bool native);
// f32 lanes of the f16 numbers in the low half of a vector, or in all of it where a val has two.
struct val lanes_of_f16(struct lanes * l, struct asm_reg raw);
// f32 lanes from an offset, the pointer staying where it is: what is wanted again can be loaded
// again.
struct val lanes_load_at(struct lanes * l, struct asm_reg pointer, int32_t offset, int memory);
// Into an accumulator, from where it is in memory.
void lanes_load_acc(struct lanes * l, const struct val * v, struct asm_reg bm);
// A val that is used much later. Where it has two vectors, it leaves the accumulators, which are
// few, until then.
struct val lanes_wait(struct lanes * l, struct val v);
void lanes_store_at(struct lanes * l, struct val v, struct asm_reg pointer, int32_t offset,
                    int memory);
void lanes_store(struct lanes * l, struct val v, struct asm_reg pointer, int memory, bool native);

// ---- registers ----

// Has the value in vectors, and in an accumulator; the (first) register of it.
struct asm_reg lanes_x(struct lanes * l, struct val * v);
struct asm_reg lanes_bm(struct lanes * l, struct val * v);
// New ones of a value's size.
struct val lanes_new_x(struct lanes * l);
struct asm_reg lanes_new_acc(struct lanes * l);
struct mask lanes_new_mask(struct lanes * l);
// What of an accumulator is vector i.
struct asm_reg lanes_part(const struct lanes * l, struct asm_reg bm, int i);
struct val val_x(struct asm_reg x);
struct val val_bm(struct asm_reg bm);
// All lanes folded into one number, which stands in all of them.
typedef struct val (*lanes_fold)(struct lanes * l, struct val a, struct val b);
struct val lanes_across(struct lanes * l, lanes_fold fold, struct val v);

// ---- 32-bit lanes: constants, bits, integers ----

struct val k_bits(struct lanes * l, uint32_t pattern);
struct val k_float(struct lanes * l, float v);
struct val k_param(struct lanes * l, int i);
struct val b_and(struct lanes * l, struct val a, struct val b);
struct val b_or(struct lanes * l, struct val a, struct val b);
struct val i_add(struct lanes * l, struct val a, struct val b);
struct val i_sub(struct lanes * l, struct val a, struct val b);
struct val i_max(struct lanes * l, struct val a, struct val b); // signed
struct val i_min(struct lanes * l, struct val a, struct val b);

struct mask m_less(struct lanes * l, struct val a, struct val b); // a < b, signed integers
struct mask m_greater_equal(struct lanes * l, struct val a, struct val b);
struct mask m_zero(struct lanes * l, struct val a);
struct val v_select(struct lanes * l, struct mask mask, struct val if_clear, struct val if_set);

// ---- f32 lanes ----
// The core's adder keeps 24 bits and no more: it rounds the smaller operand at the larger one's
// last place before adding. Products are exact sums of bf16 pieces through the same adder.

struct val f_add(struct lanes * l, struct val a, struct val b);
struct val f_sub(struct lanes * l, struct val a, struct val b);
struct val f_neg(struct lanes * l, struct val a);
struct val f_abs(struct lanes * l, struct val a);
struct mask m_negative(struct lanes * l, struct val a); // sign bit set
struct mask m_nan(struct lanes * l, struct val a);
// a < b for any two numbers; false when one is a NaN.
struct mask m_float_less(struct lanes * l, struct val a, struct val b);

// A factor taken apart into bf16 pieces, from which products are made; worth keeping when a value
// is multiplied more than once. pieces: 1 is bf16 (8 bits), 2 is 16 bits, 3 all 24; FACTOR_EXACT is
// 3 with the products of the small pieces as well, for the last bit. Each member is a vector with
// one piece in its low half and one in its high half; t is the first piece and zero.
enum factor_side { FACTOR_LEFT = 1, FACTOR_RIGHT = 2, FACTOR_BOTH = 3 };
enum { FACTOR_EXACT = 4 };
struct factor {
    struct asm_reg t, p12, p21, p13, p31, p23, p32;
    int pieces;
};
struct factor f_factor(struct lanes * l, struct val a, int pieces, enum factor_side sides);
// c + left * right, or left * right. Finite operands; infinities and NaNs come out as NaN.
struct val f_mac(struct lanes * l, struct val c, const struct factor * left,
                 const struct factor * right);
struct val f_product(struct lanes * l, const struct factor * left, const struct factor * right);
// a * b in full, with infinities and NaNs as IEEE 754 has them.
struct val f_mul(struct lanes * l, struct val a, struct val b);

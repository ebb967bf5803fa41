// lanes: registers, constants and 32-bit lane operations for aie2, and the program's start. The
// datatype edges are in lanes-edge.c, float arithmetic in lanes-float.c.
#include "lanes.h"

#include "aie/isa/aie2.h"

#include <string.h>

// Rounding modes of the conversions. f32 has nothing to round at its edges, and truncating keeps
// the bf16 pieces of the largest numbers finite; the others, and the fast functions, which look
// after the largest numbers themselves, round to nearest even.
enum { ROUND_TO_ZERO = 2, ROUND_NEAREST_EVEN = 12 };

// Configuration words as compilers for this core give them: f32 lanes, nothing negated; and bf16
// products lane by lane, two each.
enum { FLOAT_ADD_CONFIG = 28, FLOAT_MUL_CONFIG = 60 };

static struct asm_reg scalar(struct lanes * l, int32_t value) {
    struct asm_reg r = asm_global(l->p, ASM_R);
    ASM(l->p, AIE2_MOVX_alu_cg, A_REG(r), A_IMM(value));
    return r;
}

static struct asm_reg shift_by(struct lanes * l, int amount) {
    struct asm_reg r = asm_local(l->p, ASM_R);
    struct asm_reg s = asm_global(l->p, ASM_S);
    ASM(l->p, AIE2_MOVX_alu_cg, A_REG(r), A_IMM(amount));
    ASM(l->p, AIE2_MOV_mv_scl, A_REG(s), A_REG(r));
    return s;
}

static bool is_float(enum dtype t) {
    return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;
}

void lanes_begin(struct lanes * l, struct asm_program * p, enum dtype t, bool fast,
                 int32_t pool_address) {
    *l = (struct lanes){.p = p, .dtype = t, .fast = fast, .n_consts = LANES_PARAMS};
    l->pool = asm_global(p, ASM_P);
    ASM(p, AIE2_MOVXM_lng_cg, A_REG(l->pool),
        A_IMM(pool_address + LANES_POOL_SLOTS / 2 * LANES_POOL_SLOT_BYTES));
    l->minus_one = scalar(l, -1);
    l->one = scalar(l, 1);
    if (!is_float(t)) {
        return;
    }
    struct asm_reg mode = asm_local(p, ASM_R);
    ASM(p, AIE2_MOVX_alu_cg, A_REG(mode),
        A_IMM(t == DTYPE_F32 && !fast ? ROUND_TO_ZERO : ROUND_NEAREST_EVEN));
    ASM(p, AIE2_MOVX_mvx_scl, A_FIXED(AIE_REG(AIE_CR, AIE_CR_RND)), A_REG(mode));
    l->float_config = scalar(l, FLOAT_ADD_CONFIG);
    l->mul_config = scalar(l, FLOAT_MUL_CONFIG);
    if (t == DTYPE_F16) {
        l->shift0 = shift_by(l, 0);
        l->shift13 = shift_by(l, 13);
        l->shift16 = shift_by(l, 16);
    }
}

// ---- pool ----

void lanes_pool_bytes(const struct lanes * l,
                      uint8_t bytes[LANES_POOL_SLOTS * LANES_POOL_SLOT_BYTES]) {
    memset(bytes, 0, LANES_POOL_SLOTS * LANES_POOL_SLOT_BYTES);
    for (int s = 0; s < l->n_consts; s++) {
        for (int i = 0; i < LANES_POOL_SLOT_BYTES; i += 4) {
            store_u32(bytes + s * LANES_POOL_SLOT_BYTES + i, l->consts[s]);
        }
    }
}

static int32_t slot_offset(int slot) {
    return (slot - LANES_POOL_SLOTS / 2) * LANES_POOL_SLOT_BYTES;
}

void lanes_set_param(struct lanes * l, int i, struct asm_reg r) {
    struct asm_reg x = asm_local(l->p, ASM_X);
    ASM(l->p, AIE2_VBCST_32, A_REG(x), A_REG(r));
    ASM_MEM(l->p, AIE2_VST_dmw_sts_w_ag_idx_imm, MEM_POOL, A_LO(x), A_REG(l->pool),
            A_IMM(slot_offset(i)));
}

static struct val from_slot(int slot) {
    return (struct val){.slot = slot};
}

struct val k_param(struct lanes * l, int i) {
    (void) l;
    return from_slot(i);
}

struct val k_bits(struct lanes * l, uint32_t pattern) {
    for (int s = LANES_PARAMS; s < l->n_consts; s++) {
        if (l->consts[s] == pattern) {
            return from_slot(s);
        }
    }
    if (l->n_consts == l->hole && l->hole_end) {
        l->n_consts = l->hole_end;
    }
    if (l->n_consts == LANES_POOL_SLOTS) { // reported as a register that nothing wrote
        return val_x(asm_local(l->p, ASM_X));
    }
    l->consts[l->n_consts] = pattern;
    return from_slot(l->n_consts++);
}

struct val k_float(struct lanes * l, float v) {
    uint32_t pattern;
    memcpy(&pattern, &v, 4);
    return k_bits(l, pattern);
}

// ---- registers ----

struct val val_x(struct asm_reg x) {
    return (struct val){.x = x, .has_x = true, .slot = -1};
}

struct val val_bm(struct asm_reg bm) {
    return (struct val){.bm = bm, .has_bm = true, .slot = -1};
}

static void load_halves(struct lanes * l, int op, struct asm_reg to, int slot) {
    for (int half = 0; half < 2; half++) { // all lanes of a constant are alike
        ASM_MEM(l->p, op, MEM_POOL, A_REG(asm_half(to, half)), A_REG(l->pool),
                A_IMM(slot_offset(slot)));
    }
}

struct asm_reg lanes_x(struct lanes * l, struct val * v) {
    if (!v->has_x) {
        v->x = asm_local(l->p, ASM_X);
        v->has_x = true;
        if (v->has_bm) {
            ASM(l->p, AIE2_VMOV_mv_x, A_REG(v->x), A_REG(v->bm));
        } else {
            load_halves(l, AIE2_VLDA_dmw_lda_w_ag_idx_imm, v->x, v->slot);
        }
    }
    return v->x;
}

struct asm_reg lanes_bm(struct lanes * l, struct val * v) {
    if (!v->has_bm) {
        v->bm = asm_local(l->p, ASM_BM);
        v->has_bm = true;
        if (v->has_x) {
            ASM(l->p, AIE2_VMOV_mv_x, A_REG(v->bm), A_REG(v->x));
        } else {
            load_halves(l, AIE2_VLDA_dmw_lda_am_ag_idx_imm, v->bm, v->slot);
        }
    }
    return v->bm;
}

// ---- bits and integers ----

static struct val vector2(struct lanes * l, int op, struct val a, struct val b) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b), d = asm_local(l->p, ASM_X);
    ASM(l->p, op, A_REG(d), A_REG(xa), A_REG(xb));
    return val_x(d);
}

struct val b_and(struct lanes * l, struct val a, struct val b) {
    return vector2(l, AIE2_VBAND, a, b);
}

struct val b_or(struct lanes * l, struct val a, struct val b) {
    return vector2(l, AIE2_VBOR, a, b);
}

struct val i_add(struct lanes * l, struct val a, struct val b) {
    return vector2(l, AIE2_VADD_32, a, b);
}

struct val i_sub(struct lanes * l, struct val a, struct val b) {
    return vector2(l, AIE2_VSUB_32, a, b);
}

static struct val min_max(struct lanes * l, int op, struct val a, struct val b) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b);
    struct asm_reg d = asm_local(l->p, ASM_X), which = asm_local(l->p, ASM_MASK);
    ASM(l->p, op, A_REG(d), A_REG(which), A_REG(xa), A_REG(xb));
    return val_x(d);
}

struct val i_max(struct lanes * l, struct val a, struct val b) {
    return min_max(l, AIE2_VMAX_LT_S32, a, b);
}

struct val i_min(struct lanes * l, struct val a, struct val b) {
    return min_max(l, AIE2_VMIN_GE_S32, a, b);
}

struct val i_shift_left(struct lanes * l, struct val a, int n) {
    lanes_x(l, &a);
    while (n-- > 0) {
        a = i_add(l, a, a);
    }
    return a;
}

static struct asm_reg compare(struct lanes * l, int op, struct val a, struct val b) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b), mask = asm_local(l->p, ASM_MASK);
    ASM(l->p, op, A_REG(mask), A_REG(xa), A_REG(xb));
    return mask;
}

struct asm_reg m_less(struct lanes * l, struct val a, struct val b) {
    return compare(l, AIE2_VLT_S32, a, b);
}

struct asm_reg m_greater_equal(struct lanes * l, struct val a, struct val b) {
    return compare(l, AIE2_VGE_S32, a, b);
}

struct asm_reg m_zero(struct lanes * l, struct val a) {
    struct asm_reg x = lanes_x(l, &a), mask = asm_local(l->p, ASM_MASK);
    ASM(l->p, AIE2_VEQZ_32, A_REG(mask), A_REG(x));
    return mask;
}

struct val v_select(struct lanes * l, struct asm_reg mask, struct val if_clear, struct val if_set) {
    struct asm_reg a = lanes_x(l, &if_clear), b = lanes_x(l, &if_set), d = asm_local(l->p, ASM_X);
    ASM(l->p, AIE2_VSEL_32, A_REG(d), A_REG(a), A_REG(b), A_REG(mask));
    return val_x(d);
}

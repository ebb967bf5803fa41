// lanes: registers, constants and 32-bit lane operations, and the program's start. The
// datatype edges are in lanes-edge.c, float arithmetic in lanes-float.c.
#include "lanes.h"

#include "aie/target/verbs.h"

#include <string.h>

static struct asm_reg scalar(struct lanes * l, int32_t value) {
    struct asm_reg r = asm_global(l->p, ASM_R);
    emit_set_small(l->p, r, value);
    return r;
}

static struct asm_reg shift_by(struct lanes * l, int amount) {
    struct asm_reg r = asm_local(l->p, ASM_R);
    struct asm_reg s = asm_global(l->p, ASM_S);
    emit_set_small(l->p, r, amount);
    emit_copy(l->p, s, r);
    return s;
}

static bool is_float(enum dtype t) {
    return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;
}

// f32 has nothing to round at its edges, and truncating keeps the bf16 pieces of the largest
// numbers finite; the others, and the fast functions, which look after the largest numbers
// themselves, round to nearest even.
static void set_rounding(struct lanes * l) {
    bool cut = l->dtype == DTYPE_F32 && !l->fast;
    struct asm_reg mode = asm_local(l->p, ASM_R);
    emit_set_small(l->p, mode, cut ? AIE_ROUND_TO_ZERO : AIE_ROUND_NEAREST_EVEN);
    emit_control(l->p, AIE_CONTROL_ROUND, mode);
}

void lanes_set_fast(struct lanes * l, bool fast) {
    l->fast = fast;
    if (l->dtype == DTYPE_F32) {
        set_rounding(l);
    }
}

void lanes_begin(struct lanes * l, struct asm_program * p, enum dtype t, bool fast,
                 int32_t pool_address) {
    *l = (struct lanes){.p = p, .dtype = t, .fast = fast, .n_consts = LANES_PARAMS};
    emit_begin(p);
    l->pool = asm_global(p, ASM_P);
    lanes_use_pool(l, pool_address);
    l->minus_one = scalar(l, -1);
    l->one = scalar(l, 1);
    if (!is_float(t)) {
        return;
    }
    set_rounding(l);
    l->float_config = scalar(l, (int32_t) asm_target(p)->add_config);
    l->mul_config = scalar(l, (int32_t) asm_target(p)->mul_config);
    if (t == DTYPE_F16) {
        lanes_begin_f16(l);
    }
}

void lanes_begin_f16(struct lanes * l) {
    l->shift0 = shift_by(l, 0);
    l->shift13 = shift_by(l, 13);
    l->shift16 = shift_by(l, 16);
}

// ---- pool ----

void lanes_use_pool(struct lanes * l, int32_t pool_address) {
    emit_set(l->p, l->pool, pool_address + LANES_POOL_SLOTS / 2 * LANES_POOL_SLOT_BYTES);
}

void lanes_pool_bytes(const struct lanes * l,
                      uint8_t bytes[LANES_POOL_SLOTS * LANES_POOL_SLOT_BYTES]) {
    memset(bytes, 0, LANES_POOL_SLOTS * LANES_POOL_SLOT_BYTES);
    for (int s = 0; s < l->n_consts; s++) {
        for (int i = 0; i < LANES_POOL_SLOT_BYTES; i += 4) {
            store_u32(bytes + s * LANES_POOL_SLOT_BYTES + i, l->consts[s]);
        }
    }
}

void lanes_set_param(struct lanes * l, int i, struct asm_reg r) {
    struct asm_reg x = emit_new_value(l->p);
    emit_splat(l->p, LANE_32, x, r);
    emit_store(l->p, MEM_POOL, asm_half(x, 0), l->pool, lanes_slot_offset(i));
}

struct val k_param(struct lanes * l, int i) {
    (void) l;
    return lanes_get(i);
}

struct val k_bits(struct lanes * l, uint32_t pattern) {
    for (int s = LANES_PARAMS; s < l->n_consts; s++) {
        if (l->consts[s] == pattern) {
            return lanes_get(s);
        }
    }
    if (l->n_consts == l->hole && l->hole_end) {
        l->n_consts = l->hole_end;
    }
    if (l->n_consts == LANES_POOL_SLOTS) { // reported as a register that nothing wrote
        return val_x(emit_new_value(l->p));
    }
    l->consts[l->n_consts] = pattern;
    return lanes_get(l->n_consts++);
}

struct val k_float(struct lanes * l, float v) {
    uint32_t pattern;
    memcpy(&pattern, &v, 4);
    return k_bits(l, pattern);
}

void lanes_may_keep(struct lanes * l) {
    struct asm_reg x[LANES_MOST_KEPT], acc[LANES_MOST_ACC];
    int n_acc = l->dtype == DTYPE_F32 ? LANES_MOST_ACC : 0; // integers have others
    for (int i = 0; i < LANES_MOST_KEPT; i++) {
        x[i] = asm_global(l->p, ASM_X);
    }
    for (int i = 0; i < n_acc; i++) {
        acc[i] = asm_global(l->p, (enum asm_class) asm_target(l->p)->acc_class);
    }
    for (int i = 0; i < n_acc; i++) {
        asm_release(l->p, acc[i]);
    }
    for (int i = 0; i < LANES_MOST_KEPT; i++) { // a register that was released once has gaps
        asm_release(l->p, x[i]);
    }
}

void lanes_keep(struct lanes * l, int slot) {
    if (l->n_kept < LANES_MOST_KEPT) {
        struct asm_reg x = asm_global(l->p, ASM_X);
        emit_load_same(l->p, MEM_POOL, x, l->pool, lanes_slot_offset(slot));
        l->kept[l->n_kept++] = (struct lanes_kept){slot, x};
    }
}

void lanes_keep_acc(struct lanes * l, int slot) {
    if (l->n_acc < LANES_MOST_ACC) {
        struct asm_reg bm = asm_global(l->p, (enum asm_class) asm_target(l->p)->acc_class);
        emit_load_same(l->p, MEM_POOL, bm, l->pool, lanes_slot_offset(slot));
        l->acc[l->n_acc++] = (struct lanes_kept){slot, bm};
    }
}

static const struct asm_reg * kept_acc(struct lanes * l, int slot) {
    if (l->acc_uses) {
        l->acc_uses[slot]++;
    }
    for (int i = 0; i < l->n_acc; i++) {
        if (l->acc[i].slot == slot) {
            return &l->acc[i].x;
        }
    }
    return NULL;
}

void lanes_let_go(struct lanes * l) {
    while (l->n_acc) {
        asm_release(l->p, l->acc[--l->n_acc].x);
    }
    while (l->n_kept) {
        asm_release(l->p, l->kept[--l->n_kept].x);
    }
}

const struct asm_reg * lanes_kept(struct lanes * l, int slot) {
    if (l->uses && slot >= 0) {
        l->uses[slot]++;
    }
    for (int i = 0; i < l->n_kept; i++) {
        if (l->kept[i].slot == slot) {
            return &l->kept[i].x;
        }
    }
    return NULL;
}

struct val lanes_get(int slot) {
    return (struct val){.slot = slot};
}

void lanes_put(struct lanes * l, int slot, struct val v) {
    struct asm_reg x = lanes_x(l, &v);
    emit_store(l->p, MEM_POOL, asm_half(x, 0), l->pool, lanes_slot_offset(slot));
}

struct val lanes_across(struct lanes * l, lanes_fold fold, struct val v) {
    // Turned by half the lanes, a quarter, ...: at the end every lane holds all of them.
    for (int bytes = 2 * asm_target(l->p)->lanes; bytes >= 4; bytes /= 2) {
        struct asm_reg by = asm_local(l->p, ASM_R), turned = emit_new_value(l->p);
        struct asm_reg x = lanes_x(l, &v);
        emit_set_small(l->p, by, bytes);
        emit_shift_bytes(l->p, turned, x, x, by);
        v = fold(l, v, val_x(turned));
    }
    return v;
}

// ---- registers ----

struct val val_x(struct asm_reg x) {
    return (struct val){.x = x, .has_x = true, .slot = -1};
}

struct val val_bm(struct asm_reg bm) {
    return (struct val){.bm = bm, .has_bm = true, .slot = -1};
}

struct asm_reg lanes_x(struct lanes * l, struct val * v) {
    if (!v->has_x) {
        bool loads = !v->in_memory && !v->has_bm;
        const struct asm_reg * kept = loads ? lanes_kept(l, v->slot) : NULL;
        v->has_x = true;
        if (kept) {
            v->x = *kept;
            return v->x;
        }
        v->x = emit_new_value(l->p);
        if (v->in_memory) {
            emit_load(l->p, v->memory, v->x, v->pointer, v->offset);
        } else if (v->has_bm) {
            emit_move(l->p, v->x, v->bm);
        } else {
            emit_load_same(l->p, MEM_POOL, v->x, l->pool, lanes_slot_offset(v->slot));
        }
    }
    return v->x;
}

struct asm_reg lanes_bm(struct lanes * l, struct val * v) {
    if (!v->has_bm) {
        const struct asm_reg * kept = v->has_x ? NULL : kept_acc(l, v->slot);
        v->has_bm = true;
        if (kept) {
            v->bm = *kept;
            return v->bm;
        }
        v->bm = emit_new_acc(l->p);
        if (v->has_x) {
            emit_move(l->p, v->bm, v->x);
        } else {
            emit_load_same(l->p, MEM_POOL, v->bm, l->pool, lanes_slot_offset(v->slot));
        }
    }
    return v->bm;
}

// ---- bits and integers ----

static struct val vector2(struct lanes * l, enum lane_op op, struct val a, struct val b) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b), d = emit_new_value(l->p);
    emit_lanes(l->p, op, LANE_32, d, xa, xb);
    return val_x(d);
}

struct val b_and(struct lanes * l, struct val a, struct val b) {
    return vector2(l, LANE_AND, a, b);
}

struct val b_or(struct lanes * l, struct val a, struct val b) {
    return vector2(l, LANE_OR, a, b);
}

struct val i_add(struct lanes * l, struct val a, struct val b) {
    return vector2(l, LANE_ADD, a, b);
}

struct val i_sub(struct lanes * l, struct val a, struct val b) {
    return vector2(l, LANE_SUB, a, b);
}

static struct val min_max(struct lanes * l, enum lane_choice op, struct val a, struct val b) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b);
    struct asm_reg d = emit_new_value(l->p), which = emit_new_mask(l->p, LANE_32);
    emit_choose(l->p, op, LANE_32, d, which, xa, xb);
    return val_x(d);
}

struct val i_max(struct lanes * l, struct val a, struct val b) {
    return min_max(l, LANE_MAX, a, b);
}

struct val i_min(struct lanes * l, struct val a, struct val b) {
    return min_max(l, LANE_MIN, a, b);
}

struct val i_shift_left(struct lanes * l, struct val a, int n) {
    lanes_x(l, &a);
    while (n-- > 0) {
        a = i_add(l, a, a);
    }
    return a;
}

static struct asm_reg compare(struct lanes * l, enum lane_compare op, struct val a, struct val b) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b), mask = emit_new_mask(l->p, LANE_32);
    emit_compare(l->p, op, LANE_32, mask, xa, xb);
    return mask;
}

struct asm_reg m_less(struct lanes * l, struct val a, struct val b) {
    return compare(l, LANE_LESS, a, b);
}

struct asm_reg m_greater_equal(struct lanes * l, struct val a, struct val b) {
    return compare(l, LANE_NOT_LESS, a, b);
}

struct asm_reg m_zero(struct lanes * l, struct val a) {
    struct asm_reg x = lanes_x(l, &a), mask = emit_new_mask(l->p, LANE_32);
    emit_is_zero(l->p, LANE_32, mask, x);
    return mask;
}

struct val v_select(struct lanes * l, struct asm_reg mask, struct val if_clear, struct val if_set) {
    struct asm_reg a = lanes_x(l, &if_clear), b = lanes_x(l, &if_set), d = emit_new_value(l->p);
    emit_select(l->p, LANE_32, d, a, b, mask);
    return val_x(d);
}

// lanes: registers, constants and 32-bit lane operations, and the program's start. The
// datatype edges are in lanes-edge.c, float arithmetic in lanes-float.c.
#include "f16.h"
#include "lanes.h"

#include "aie/verbs/verbs.h"

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

void lanes_set_vectors(struct lanes * l, int n) {
    l->vectors = n;
}

void lanes_begin(struct lanes * l, struct asm_program * p, enum dtype t, bool fast,
                 int32_t pool_address) {
    *l = (struct lanes){.p = p, .dtype = t, .fast = fast, .vectors = 1, .n_consts = LANES_PARAMS};
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
    l->shift13 = shift_by(l, F16_RAISE);
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

// A constant whose slots fill a vector of memory is loaded at once, into an accumulator as well
// without a move. Slots are few, so only the first constants of a loop stand so. f16 has more of
// them, for its conversions.
enum { SIDE_BY_SIDE_UNTIL = 52, SIDE_BY_SIDE_UNTIL_F16 = 40 };

static bool is_vector(const struct lanes * l, int slot) {
    return l->side_by_side && slot >= LANES_PARAMS && slot % 2 == 0 && slot + 1 < l->n_consts &&
           l->consts[slot] == l->consts[slot + 1];
}

static int slot_side_by_side(struct lanes * l, uint32_t pattern) { // -1: there is no room
    for (int s = LANES_PARAMS; s < l->n_consts; s += 2) {
        if (l->consts[s] == pattern && is_vector(l, s)) {
            return s;
        }
    }
    int at = l->n_consts + l->n_consts % 2;
    if (at + 2 > (l->dtype == DTYPE_F16 ? SIDE_BY_SIDE_UNTIL_F16 : SIDE_BY_SIDE_UNTIL)) {
        return -1;
    }
    for (; l->n_consts < at + 2; l->n_consts++) {
        l->consts[l->n_consts] = pattern;
    }
    return at;
}

void lanes_load_slot(struct lanes * l, struct asm_reg x, int slot) {
    (is_vector(l, slot) ? emit_load : emit_load_same)(l->p, MEM_POOL, x, l->pool,
                                                      lanes_slot_offset(slot));
}

struct val k_bits(struct lanes * l, uint32_t pattern) {
    if (l->side_by_side && l->vectors > 1) {
        int slot = slot_side_by_side(l, pattern);
        if (slot >= 0) {
            return lanes_get(slot);
        }
    }
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
    return (struct val){.x = {x}, .has_x = true, .slot = -1};
}

struct val val_bm(struct asm_reg bm) {
    return (struct val){.bm = bm, .has_bm = true, .slot = -1};
}

struct asm_reg lanes_new_acc(struct lanes * l) {
    struct asm_reg acc = emit_new_acc(l->p);
    if (l->vectors > 1) {
        asm_keep_both(l->p, acc);
    }
    return acc;
}

struct asm_reg lanes_part(const struct lanes * l, struct asm_reg bm, int i) {
    return l->vectors > 1 ? asm_quarter(bm, i) : bm;
}

struct val lanes_new_x(struct lanes * l) {
    struct val v = {.has_x = true, .slot = -1};
    for (int i = 0; i < l->vectors; i++) {
        v.x[i] = emit_new_value(l->p);
    }
    return v;
}

// A constant is one vector.
static void load_constant(struct lanes * l, struct val * v) {
    const struct asm_reg * kept = lanes_kept(l, v->slot);
    struct asm_reg x = kept ? *kept : emit_new_value(l->p);
    if (!kept) {
        lanes_load_slot(l, x, v->slot);
    }
    for (int i = 0; i < l->vectors; i++) {
        v->x[i] = x;
    }
}

struct asm_reg lanes_x(struct lanes * l, struct val * v) {
    if (v->has_x) {
        return v->x[0];
    }
    if (v->in_bf16) {
        lanes_bm(l, v);
    }
    v->has_x = true;
    if (!v->in_memory && !v->has_bm) {
        load_constant(l, v);
        return v->x[0];
    }
    struct val to = lanes_new_x(l);
    for (int i = 0; i < l->vectors; i++) {
        v->x[i] = to.x[i];
        if (v->in_memory) {
            emit_load(l->p, v->memory, v->x[i], v->pointer,
                      v->offset + i * asm_target(l->p)->vector_bytes);
        } else {
            emit_move(l->p, v->x[i], lanes_part(l, v->bm, i));
        }
    }
    return v->x[0];
}

struct asm_reg lanes_bm(struct lanes * l, struct val * v) {
    if (v->has_bm) {
        return v->bm;
    }
    bool loads = v->in_memory || v->in_bf16;
    const struct asm_reg * kept = v->has_x || loads ? NULL : kept_acc(l, v->slot);
    v->bm = kept ? *kept : lanes_new_acc(l);
    if (loads) {
        lanes_load_acc(l, v, v->bm);
    } else if (!kept && !v->has_x && l->vectors == 1) {
        emit_load_same(l->p, MEM_POOL, v->bm, l->pool, lanes_slot_offset(v->slot));
    } else if (!kept && !v->has_x && is_vector(l, v->slot)) {
        for (int i = 0; i < l->vectors; i++) {
            lanes_load_slot(l, lanes_part(l, v->bm, i), v->slot);
        }
    } else if (!kept) {
        lanes_x(l, v);
        for (int i = 0; i < l->vectors; i++) {
            emit_move(l->p, lanes_part(l, v->bm, i), v->x[i]);
        }
    }
    v->has_bm = true;
    return v->bm;
}

struct mask lanes_new_mask(struct lanes * l) {
    struct mask m = {.of = {{0}}};
    for (int i = 0; i < l->vectors; i++) {
        m.of[i] = emit_new_mask(l->p, LANE_32);
    }
    return m;
}

// ---- bits and integers ----

static struct val vector2(struct lanes * l, enum lane_op op, struct val a, struct val b) {
    lanes_x(l, &a);
    lanes_x(l, &b);
    struct val d = lanes_new_x(l);
    for (int i = 0; i < l->vectors; i++) {
        emit_lanes(l->p, op, LANE_32, d.x[i], a.x[i], b.x[i]);
    }
    return d;
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
    lanes_x(l, &a);
    lanes_x(l, &b);
    struct val d = lanes_new_x(l);
    struct mask which = lanes_new_mask(l);
    for (int i = 0; i < l->vectors; i++) {
        emit_choose(l->p, op, LANE_32, d.x[i], which.of[i], a.x[i], b.x[i]);
    }
    return d;
}

struct val i_max(struct lanes * l, struct val a, struct val b) {
    return min_max(l, LANE_MAX, a, b);
}

struct val i_min(struct lanes * l, struct val a, struct val b) {
    return min_max(l, LANE_MIN, a, b);
}

static struct mask compare(struct lanes * l, enum lane_compare op, struct val a, struct val b) {
    lanes_x(l, &a);
    lanes_x(l, &b);
    struct mask m = lanes_new_mask(l);
    for (int i = 0; i < l->vectors; i++) {
        emit_compare(l->p, op, LANE_32, m.of[i], a.x[i], b.x[i]);
    }
    return m;
}

struct mask m_less(struct lanes * l, struct val a, struct val b) {
    return compare(l, LANE_LESS, a, b);
}

struct mask m_greater_equal(struct lanes * l, struct val a, struct val b) {
    return compare(l, LANE_NOT_LESS, a, b);
}

struct mask m_zero(struct lanes * l, struct val a) {
    lanes_x(l, &a);
    struct mask m = lanes_new_mask(l);
    for (int i = 0; i < l->vectors; i++) {
        emit_is_zero(l->p, LANE_32, m.of[i], a.x[i]);
    }
    return m;
}

struct val v_select(struct lanes * l, struct mask mask, struct val if_clear, struct val if_set) {
    lanes_x(l, &if_clear);
    lanes_x(l, &if_set);
    struct val d = lanes_new_x(l);
    for (int i = 0; i < l->vectors; i++) {
        emit_select(l->p, LANE_32, d.x[i], if_clear.x[i], if_set.x[i], mask.of[i]);
    }
    return d;
}

// aie2p-wide: two values at once; see the header.
#include "aie2p-wide.h"

#include "pieces.h"

bool wide_is_there(const struct aie_target * t) {
    return t->classes[t->acc_class].quarter != AIE_NONE;
}

struct asm_reg wide_new(struct lanes * l) {
    struct asm_reg acc = emit_new_acc(l->p);
    asm_keep_both(l->p, acc);
    return acc;
}

struct asm_reg wide_load(struct lanes * l, struct asm_reg pointer, int memory) {
    struct asm_reg acc = wide_new(l);
    for (int i = 0; i < WIDE_VALUES; i++) {
        emit_load_next(l->p, memory, asm_quarter(acc, i), pointer);
    }
    return acc;
}

struct asm_reg wide_same(struct lanes * l, struct val k) {
    struct asm_reg acc = wide_new(l), x = lanes_x(l, &k);
    for (int i = 0; i < WIDE_VALUES; i++) {
        emit_move(l->p, asm_quarter(acc, i), x);
    }
    return acc;
}

struct val wide_half(struct asm_reg acc, int i) {
    return val_bm(asm_quarter(acc, i));
}

struct asm_reg wide_each(struct lanes * l, enum lane_product op, const struct asm_reg * c,
                         struct asm_reg a, struct asm_reg b) {
    struct asm_reg d = wide_new(l);
    emit_each(l->p, op, d, c ? *c : d, a, b, l->mul_config);
    return d;
}

struct asm_reg wide_constant(struct lanes * l, float v) {
    return p_constants(l, v, v).x[0];
}

void wide_split(struct lanes * l, struct asm_reg acc, struct asm_reg * pieces, int n) {
    for (int i = 0; i < n; i++) {
        pieces[i] = asm_local(l->p, ASM_X);
        emit_to_bf16(l->p, pieces[i], asm_half(acc, 0));
        if (i + 1 < n) {
            acc = wide_each(l, LANE_LESS_PRODUCT, &acc, pieces[i], wide_constant(l, 1));
        }
    }
}

struct asm_reg wide_product(struct lanes * l, const struct asm_reg * c, const struct asm_reg * a,
                            const struct asm_reg * b, bool exact) {
    static const uint8_t order[][2] = {{2, 1}, {1, 2}, {2, 0}, {0, 2},
                                       {1, 0}, {0, 1}, {1, 1}, {0, 0}};
    enum { ALL = sizeof order / sizeof order[0], SMALL = 2 };
    struct asm_reg sum = {0};
    for (int i = exact ? 0 : SMALL; i < ALL; i++) {
        sum = wide_each(l, c ? LANE_PLUS_PRODUCT : LANE_PRODUCT, c, a[order[i][0]], b[order[i][1]]);
        c = &sum;
    }
    return sum;
}

struct val wide_known(struct lanes * l, struct asm_reg full, struct asm_reg rough, int i) {
    struct val v = wide_half(full, i);
    lanes_x(l, &v);
    return v_select(l, m_nan(l, v), v, wide_half(rough, i));
}

// ops-pairs: what ROPE is made of. Numbers come in pairs, one behind the other, and b has for each
// pair the cosine and the sine of the angle that it is turned by:
//
//     x y    c s    gives    x c - y s    x s + y c
//
// Lanes look at their neighbours by two turns of the whole vector and a choice between them, so
// that there is one product of a number with the cosine and one of its partner with the sine.
#include "elementwise-ops.h"

#include "aie/target/verbs.h"

// Lane n of the result is lane n + by, around the end.
static struct val turned(struct lanes * l, struct val v, int by) {
    struct asm_reg bytes = asm_local(l->p, ASM_R), d = emit_new_value(l->p), x = lanes_x(l, &v);
    const int lanes = asm_target(l->p)->lanes;
    emit_set_small(l->p, bytes, 4 * ((lanes + by) % lanes));
    emit_shift_bytes(l->p, d, x, x, bytes);
    return val_x(d);
}

struct val ew_rotate(struct lanes * l, struct val a, struct val b) {
    struct asm_reg second = emit_new_mask(l->p, LANE_32); // of its pair
    emit_set(l->p, second, (int32_t) 0xaaaaaaaa);
    lanes_x(l, &a);
    lanes_x(l, &b);
    struct val partner = v_select(l, second, turned(l, a, 1), turned(l, a, -1));
    struct val cosine = v_select(l, second, b, turned(l, b, -1));
    struct val sine = v_select(l, second, f_neg(l, turned(l, b, 1)), b);
    return f_add(l, f_mul(l, a, cosine), f_mul(l, partner, sine));
}

struct val ew_same(struct lanes * l, struct val a, struct val b) {
    (void) l, (void) b;
    return a;
}

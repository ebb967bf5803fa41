// ops-pairs: what ROPE is made of. Numbers come in pairs, one behind the other, and b has for each
// pair the cosine and the sine of the angle that it is turned by:
//
//     x y    c s    gives    x c - y s    x s + y c
//
// Lanes look at their neighbours by two turns of the whole vector and a choice between them. The
// multiplier makes two products of bf16 a lane and adds them, which is what a turn wants: a lane's
// pair is the number and its partner, or the cosine and the sine, piece by piece.
#include "elementwise-ops.h"

#include "aie/ops/lanes/pieces.h"
#include "aie/verbs/verbs.h"

// Lane n of the result is lane n + by, around the end.
static struct val turned(struct lanes * l, struct val v, int by) {
    struct asm_reg bytes = asm_local(l->p, ASM_R), d = emit_new_value(l->p), x = lanes_x(l, &v);
    const int lanes = asm_target(l->p)->lanes;
    emit_set_small(l->p, bytes, 4 * ((lanes + by) % lanes));
    emit_shift_bytes(l->p, d, x, x, bytes);
    return val_x(d);
}

// Two values as three pieces each, one value's below and the other's above.
struct both {
    struct pair piece[3];
};

static struct both split(struct lanes * l, struct val low, struct val high) {
    struct both b;
    for (int i = 0; i < 3; i++) {
        lanes_bm(l, &low);
        lanes_bm(l, &high);
        b.piece[i] = p_two(l, low, high);
        if (i < 2) {
            low = p_msc(l, low, b.piece[i], p_constants(l, 1, 0));
            high = p_msc(l, high, b.piece[i], p_constants(l, 0, 1));
        }
    }
    return b;
}

struct val ew_rotate(struct lanes * l, struct val a, struct val b) {
    static const int8_t order[][2] = {{0, 2}, {2, 0}, {1, 1}, {0, 1}, {1, 0}, {0, 0}};
    struct mask second = lanes_new_mask(l); // of its pair
    emit_set(l->p, second.of[0], (int32_t) 0xaaaaaaaa);
    lanes_x(l, &a);
    lanes_x(l, &b);
    struct val before = turned(l, a, -1);
    struct val partner = v_select(l, second, turned(l, a, 1), before);
    struct val cosine = v_select(l, second, b, turned(l, b, -1));
    struct val sine = v_select(l, second, f_neg(l, turned(l, b, 1)), b);
    struct both x = split(l, a, partner), by = split(l, cosine, sine);
    struct val sum = p_mul(l, x.piece[0], by.piece[2]);
    for (int i = 1; i < 6; i++) { // smallest first
        sum = p_mac(l, sum, x.piece[order[i][0]], by.piece[order[i][1]]);
    }
    // What is left of an infinity is a NaN; the first pieces alone know better.
    struct val rough = p_mul(l, x.piece[0], by.piece[0]);
    return v_select(l, m_nan(l, sum), sum, rough);
}

struct val ew_same(struct lanes * l, struct val a, struct val b) {
    (void) l, (void) b;
    return a;
}

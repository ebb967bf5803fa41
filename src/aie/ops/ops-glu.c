// ops-glu: gated linear units, an activation of the first input times the second.
#include "elementwise-ops.h"
#include "math.h"

enum { OAI_ALPHA, OAI_LIMIT, CLAMP_LIMIT = 1 }; // parameters

struct val ew_reglu(struct lanes * l, struct val a, struct val b) {
    lanes_x(l, &a);
    struct val none = k_bits(l, 0), normal = k_bits(l, 0x00800000);
    struct val y = v_select(l, m_less(l, a, normal), f_times(l, a, b), none);
    return v_select(l, m_nan(l, a), y, none);
}

struct val ew_geglu(struct lanes * l, struct val a, struct val b) {
    return f_times(l, ew_gelu(l, a, b), b);
}

struct val ew_geglu_erf(struct lanes * l, struct val a, struct val b) {
    return f_times(l, ew_gelu_erf(l, a, b), b);
}

struct val ew_geglu_quick(struct lanes * l, struct val a, struct val b) {
    return f_times(l, ew_gelu_quick(l, a, b), b);
}

struct val ew_swiglu(struct lanes * l, struct val a, struct val b) {
    return f_times(l, ew_silu(l, a, b), b);
}

// limit < a ? limit : a
static struct val at_most(struct lanes * l, struct val a, struct val limit) {
    lanes_x(l, &a);
    return v_select(l, m_float_less(l, limit, a), a, limit);
}

// Between -limit and limit, which is not negative; a NaN stays.
static struct val within(struct lanes * l, struct val a, struct val limit) {
    lanes_x(l, &a);
    struct val sign = b_and(l, a, k_bits(l, 0x80000000));
    struct val y = b_or(l, i_min(l, f_abs(l, a), limit), sign);
    return v_select(l, m_nan(l, a), y, a);
}

struct val ew_swiglu_oai(struct lanes * l, struct val a, struct val b) {
    struct val x = at_most(l, a, k_param(l, OAI_LIMIT));
    struct val y = f_add(l, within(l, b, k_param(l, OAI_LIMIT)), k_float(l, 1));
    return f_times(l, f_times_sigmoid_of_any(l, x, f_times(l, x, k_param(l, OAI_ALPHA))), y);
}

struct val ew_swiglu_clamp(struct lanes * l, struct val a, struct val b) {
    struct val gate = at_most(l, a, k_param(l, CLAMP_LIMIT));
    return f_times(l, ew_silu(l, gate, b), within(l, b, k_param(l, CLAMP_LIMIT)));
}

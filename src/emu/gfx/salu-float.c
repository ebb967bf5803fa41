// salu-float: scalar arithmetic on floats and halves, which RDNA 3.5 has.
//
// Kept true: as lanes-float.c, all rounds to nearest even and keeps denormals, whatever MODE says,
// and fused operations round once. A half leaves zeros above it.
#include "emu/gfx/salu.h"

#include "emu/gfx/lanes.h"

#define ROW(name, ...)                                                                             \
    void gfx_salu_##name(struct salu * x) {                                                        \
        __VA_ARGS__;                                                                               \
    }
#define A32 f32((uint32_t) x->a)
#define B32 f32((uint32_t) x->b)
#define A16 f16((uint32_t) x->a & 0xffff)
#define B16 f16((uint32_t) x->b & 0xffff)

#define BOTH(op, expr)                                                                             \
    ROW(s_##op##_f32, const float a = A32, b = B32; x->d = u32(expr))                              \
    ROW(s_##op##_f16, const float a = A16, b = B16; x->d = u16(expr))
BOTH(add, a + b)
BOTH(sub, a - b)
BOTH(mul, a * b)
BOTH(min, min_f(a, b))
BOTH(max, max_f(a, b))
ROW(s_fmac_f32, x->d = u32(fmaf(A32, B32, f32((uint32_t) x->d))))
ROW(s_fmaak_f32, x->d = u32(fmaf(A32, B32, f32(x->c))))
ROW(s_fmamk_f32, x->d = u32(fmaf(A32, B32, f32(x->c))))
ROW(s_fmac_f16, x->d = fma_h(A16, B16, f16((uint32_t) x->d & 0xffff)))
ROW(s_cvt_pk_rtz_f16_f32, x->d = u16_rtz(A32) | u16_rtz(B32) << 16)

#define ROUND(op, fn)                                                                              \
    ROW(s_##op##_f32, x->d = u32(fn(A32)))                                                         \
    ROW(s_##op##_f16, x->d = u16(fn(A16)))
ROUND(ceil, ceilf)
ROUND(floor, floorf)
ROUND(trunc, truncf)
ROUND(rndne, rintf)

// ---- conversions ----

ROW(s_cvt_f32_i32, x->d = u32((float) (int32_t) (uint32_t) x->a))
ROW(s_cvt_f32_u32, x->d = u32((float) (uint32_t) x->a))
ROW(s_cvt_i32_f32, x->d = (uint32_t) to_i32(A32))
ROW(s_cvt_u32_f32, x->d = to_u32(A32))
ROW(s_cvt_f16_f32, x->d = u16(A32))
ROW(s_cvt_f32_f16, x->d = u32(A16))
ROW(s_cvt_hi_f32_f16, x->d = u32(f16((uint32_t) x->a >> 16)))

// ---- comparisons: o and u ask for NaN; the others with n are true of it ----

#define COMPARE(op, expr)                                                                          \
    ROW(s_cmp_##op##_f32, const float a = A32, b = B32; x->scc = (expr))                           \
    ROW(s_cmp_##op##_f16, const float a = A16, b = B16; x->scc = (expr))
COMPARE(lt, a < b)
COMPARE(eq, a == b)
COMPARE(le, a <= b)
COMPARE(gt, a > b)
COMPARE(lg, a<b || a> b)
COMPARE(ge, a >= b)
COMPARE(o, a == a && b == b)
COMPARE(u, a != a || b != b)
COMPARE(nge, !(a >= b))
COMPARE(nlg, !(a < b || a > b))
COMPARE(ngt, !(a > b))
COMPARE(nle, !(a <= b))
COMPARE(neq, !(a == b))
COMPARE(nlt, !(a < b))

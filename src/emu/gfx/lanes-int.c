// lanes-int: integer arithmetic of lanes, words and pairs of words.
//
// Kept true: sums and products wrap, unless the instruction has the clamp bit, where the few
// operations that know it saturate. Shift counts are taken modulo the width.
#include "emu/gfx/lanes.h"

LANE_FN(v_nop) {
    (void) x;
}

V1_U(v_mov_b32, a)
V1_U(v_accvgpr_read_b32, a)
V1_U(v_accvgpr_write_b32, a)
V1_U(v_not_b32, ~a)
SHAPE1_2(v_mov_b64, uint64_t, , TO_Q, a)

LANE_FN(v_swap_b32) { // what goes to the source register is the second row of the result
    ROW_D2;
    ROW_1(0, pa);
    ROW_1(1, pb); // the destination's old value
    EACH_LANE(x->n) {
        const uint32_t a = pa[i], b = pb[i];
        d0[i] = a;
        d1[i] = b;
    }
}

// ---- bits ----

static GFX_INLINE uint32_t reverse(uint32_t v) {
    v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
    v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
    v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
    v = (v >> 8 & 0x00ff00ff) | (v & 0x00ff00ff) << 8;
    return v >> 16 | v << 16;
}

static GFX_INLINE uint32_t count(uint32_t v) {
    v -= v >> 1 & 0x55555555;
    v = (v & 0x33333333) + (v >> 2 & 0x33333333);
    v = (v + (v >> 4)) & 0x0f0f0f0f;
    return v * 0x01010101 >> 24;
}

static GFX_INLINE uint32_t spread_down(uint32_t v) { // all bits below the highest
    v |= v >> 1;
    v |= v >> 2;
    v |= v >> 4;
    v |= v >> 8;
    return v | v >> 16;
}

static GFX_INLINE uint32_t first_high(uint32_t v) { // counted from the top; ~0: none
    return v ? 32 - count(spread_down(v)) : ~0u;
}

V1_U(v_bfrev_b32, reverse(a))
V1_U(v_clz_i32_u32, first_high(a))
V1_U(v_ctz_i32_b32, a ? count((a & (0 - a)) - 1) : ~0u)
V1_U(v_cls_i32, first_high((int32_t) a < 0 ? ~a : a))
V2_U(v_and_b32, a & b)
V2_U(v_or_b32, a | b)
V2_U(v_xor_b32, a ^ b)
V2_U(v_xnor_b32, ~(a ^ b))
V2_W(v_and_b16, a & b)
V2_W(v_or_b16, a | b)
V2_W(v_xor_b16, a ^ b)
V1_W(v_mov_b16, a)
V1_W(v_not_b16, ~a)
V2_U(v_bcnt_u32_b32, count(a) + b)
V2_U(v_bfm_b32, ((1u << (a & 31)) - 1) << (b & 31))
V3_U(v_bfi_b32, (a & b) | (~a & c))
V3_U(v_and_or_b32, (a & b) | c)
V3_U(v_or3_b32, a | b | c)
V3_U(v_xor3_b32, a ^ b ^ c)

// Bits n of v from b up; n = 0 gives 0.
static GFX_INLINE uint32_t take(uint32_t v, uint32_t from, uint32_t n) {
    return v >> (from & 31) & ((1u << (n & 31)) - 1);
}

V3_U(v_bfe_u32, take(a, b, c))

LANE_FN(v_bfe_i32) {
    ROW_D;
    ROW_1(0, pa);
    ROW_1(1, pb);
    ROW_1(2, pc);
    EACH_LANE(x->n) {
        const uint32_t n = pc[i] & 31, sign = n ? 1u << (n - 1) : 0;
        const uint32_t shifted = (uint32_t) ((int32_t) pa[i] >> (pb[i] & 31));
        d[i] = ((shifted & ((1u << n) - 1)) ^ sign) - sign;
    }
}

V3_U(v_alignbit_b32, (uint32_t) (join(b, a) >> (c & 31)))
V3_U(v_alignbyte_b32, (uint32_t) (join(b, a) >> 8 * (c & 3)))

// Byte `sel` of the eight of b (low) and a (high), or a constant.
static GFX_INLINE uint32_t pick(uint32_t a, uint32_t b, uint32_t sel) {
    const uint64_t all = join(b, a);
    uint32_t byte = (uint32_t) (all >> 8 * (sel & 7)) & 255;
    const uint32_t signs = (uint32_t) (all >> (sel - 8) % 4 * 16 >> 15) & 1; // of words 0..3
    byte = sel >= 8 ? (signs ? 255 : 0) : byte;
    byte = sel == 12 ? 0 : byte;
    return sel > 12 ? 255 : byte;
}

V3_U(v_perm_b32, pick(a, b, c & 255) | pick(a, b, c >> 8 & 255) << 8 |
                     pick(a, b, c >> 16 & 255) << 16 | pick(a, b, c >> 24) << 24)

// Lanes below this one whose bit of a is on, in the low or the high half of the wave.
LANE_FN(v_mbcnt_lo_u32_b32) {
    ROW_D;
    ROW_1(0, pa);
    ROW_1(1, pb);
    for (int i = 0; i < x->n; i++) {
        d[i] = count(pa[i] & (i < 32 ? (1u << i) - 1 : ~0u)) + pb[i];
    }
}

LANE_FN(v_mbcnt_hi_u32_b32) {
    ROW_D;
    ROW_1(0, pa);
    ROW_1(1, pb);
    for (int i = 0; i < x->n; i++) {
        d[i] = count(pa[i] & (i < 32 ? 0 : (1u << (i - 32)) - 1)) + pb[i];
    }
}

// ---- shifts ----

V2_U(v_lshrrev_b32, b >> (a & 31))
V2_U(v_lshlrev_b32, b << (a & 31))
V2_I(v_ashrrev_i32, b >> (a & 31))
V2_W(v_lshrrev_b16, b >> (a & 15))
V2_W(v_lshlrev_b16, (uint32_t) b << (a & 15))
V2_S(v_ashrrev_i16, b >> (a & 15))
V3_U(v_lshl_add_u32, (a << (b & 31)) + c)
V3_U(v_add_lshl_u32, (a + b) << (c & 31))
V3_U(v_lshl_or_b32, (a << (b & 31)) | c)

#define SHIFT64(name, ...)                                                                         \
    LANE_FN(name) {                                                                                \
        ROW_D2;                                                                                    \
        ROW_1(0, pa);                                                                              \
        ROW_2(1, pb, qb);                                                                          \
        EACH_LANE(x->n) {                                                                          \
            const uint32_t n = pa[i] & 63;                                                         \
            const uint64_t b = join(pb[i], qb[i]), r = (uint64_t) (__VA_ARGS__);                   \
            d0[i] = (uint32_t) r;                                                                  \
            d1[i] = (uint32_t) (r >> 32);                                                          \
        }                                                                                          \
    }
SHIFT64(v_lshlrev_b64, b << n)
SHIFT64(v_lshrrev_b64, b >> n)
SHIFT64(v_ashrrev_i64, (int64_t) b >> n)

LANE_FN(v_lshl_add_u64) {
    ROW_D2;
    ROW_2(0, pa, qa);
    ROW_1(1, pb);
    ROW_2(2, pc, qc);
    EACH_LANE(x->n) {
        const uint64_t r = (join(pa[i], qa[i]) << (pb[i] & 7)) + join(pc[i], qc[i]);
        d0[i] = (uint32_t) r;
        d1[i] = (uint32_t) (r >> 32);
    }
}

// ---- sums ----

// With and without saturation: `sat` is the result with the clamp bit.
#define SUM(name, SHAPE, sum, sat)                                                                 \
    static SHAPE(name##_wrap, sum) static SHAPE(name##_sat, sat) LANE_FN(name) {                   \
        if (x->clamp) {                                                                            \
            gfx_do_##name##_sat(x);                                                                \
        } else {                                                                                   \
            gfx_do_##name##_wrap(x);                                                               \
        }                                                                                          \
    }

static GFX_INLINE uint32_t clamp_i32(int64_t v) {
    v = v < INT32_MIN ? INT32_MIN : v;
    return (uint32_t) (v > INT32_MAX ? INT32_MAX : v);
}

static GFX_INLINE uint32_t clamp_i16(int32_t v) {
    v = v < INT16_MIN ? INT16_MIN : v;
    return (uint32_t) (v > INT16_MAX ? INT16_MAX : v);
}

static GFX_INLINE uint32_t clamp_u16(int32_t v) {
    v = v < 0 ? 0 : v;
    return (uint32_t) (v > 0xffff ? 0xffff : v);
}

SUM(v_add_nc_u32, V2_U, a + b, a + b < a ? ~0u : a + b)
SUM(v_sub_nc_u32, V2_U, a - b, a < b ? 0 : a - b)
SUM(v_subrev_nc_u32, V2_U, b - a, b < a ? 0 : b - a)
SUM(v_add_nc_i32, V2_I, (uint32_t) a + (uint32_t) b, clamp_i32((int64_t) a + b))
SUM(v_sub_nc_i32, V2_I, (uint32_t) a - (uint32_t) b, clamp_i32((int64_t) a - b))
SUM(v_add_nc_u16, V2_W, a + b, clamp_u16(a + b))
SUM(v_sub_nc_u16, V2_W, a - b, clamp_u16(a - b))
SUM(v_subrev_nc_u16, V2_W, b - a, clamp_u16(b - a))
SUM(v_add_nc_i16, V2_S, a + b, clamp_i16(a + b))
SUM(v_sub_nc_i16, V2_S, a - b, clamp_i16(a - b))
V3_U(v_add3_u32, a + b + c)
V3_U(v_xad_u32, (a ^ b) + c)

// Sum and carry; `in` is the carry that comes in, `over` says whether one goes out.
#define CARRY(name, sum, over)                                                                     \
    LANE_FN(name) {                                                                                \
        ROW_D;                                                                                     \
        ROW_1(0, pa);                                                                              \
        ROW_1(1, pb);                                                                              \
        uint8_t flag[LANES];                                                                       \
        uint32_t in_row[LANES];                                                                    \
        row_of_mask(in_row, x->mask, x->n);                                                        \
        const bool clamp = x->clamp;                                                               \
        EACH_LANE(x->n) {                                                                          \
            const uint32_t a = pa[i], b = pb[i], in = in_row[i] & 1;                               \
            (void) in;                                                                             \
            const uint32_t r = (sum);                                                              \
            flag[i] = (over);                                                                      \
            d[i] = r;                                                                              \
        }                                                                                          \
        x->mask = mask_of_flags(flag, x->n);                                                       \
        if (clamp) { /* carries saturate up, borrows down */                                       \
            saturate(x, d);                                                                        \
        }                                                                                          \
    }

static void saturate(const struct gfx_lanes * x, uint32_t * d) {
    const bool up = x->in->op == GFX_v_add_co_u32 || x->in->op == GFX_v_add_co_ci_u32;
    for (int i = 0; i < x->n; i++) {
        d[i] = x->mask >> i & 1 ? (up ? ~0u : 0) : d[i];
    }
}

CARRY(v_add_co_u32, a + b, r < a)
CARRY(v_sub_co_u32, a - b, a < b)
CARRY(v_subrev_co_u32, b - a, b < a)
CARRY(v_add_co_ci_u32, a + b + in, (r < a) | ((r == a) & in))
CARRY(v_sub_co_ci_u32, a - b - in, (a < b) | ((a == b) & in))
CARRY(v_subrev_co_ci_u32, b - a - in, (b < a) | ((a == b) & in))

// ---- products ----

static GFX_INLINE int32_t i24(uint32_t v) {
    return (int32_t) (v << 8) >> 8;
}

static GFX_INLINE uint32_t u24(uint32_t v) {
    return v & 0xffffff;
}

V2_U(v_mul_lo_u32, a * b)
V2_U(v_mul_hi_u32, (uint64_t) a * b >> 32)
V2_I(v_mul_hi_i32, (int64_t) a * b >> 32)
V2_U(v_mul_i32_i24, (uint32_t) i24(a) * (uint32_t) i24(b))
V2_U(v_mul_hi_i32_i24, (int64_t) i24(a) * i24(b) >> 32)
V2_U(v_mul_u32_u24, u24(a) * u24(b))
V2_U(v_mul_hi_u32_u24, (uint64_t) u24(a) * u24(b) >> 32)
V2_W(v_mul_lo_u16, (uint32_t) a * b)
V3_U(v_mad_i32_i24, (uint32_t) i24(a) * (uint32_t) i24(b) + c)
V3_U(v_mad_u32_u24, u24(a) * u24(b) + c)
V3_U(v_mad_u32_u16, (a & 0xffff) * (b & 0xffff) + c)
V3_U(v_mad_i32_i16, (uint32_t) ((int32_t) (int16_t) a *(int16_t) b) + c)
V3_W(v_mad_u16, (uint32_t) a * b + c)
V3_S(v_mad_i16, (int32_t) a * b + c)

// d = a * b + c in 64 bits, carry out.
#define MAD64(name, AS, over)                                                                      \
    LANE_FN(name) {                                                                                \
        ROW_D2;                                                                                    \
        ROW_1(0, pa);                                                                              \
        ROW_1(1, pb);                                                                              \
        ROW_2(2, pc, qc);                                                                          \
        uint8_t flag[LANES];                                                                       \
        EACH_LANE(x->n) {                                                                          \
            const uint64_t p = (uint64_t) (AS(pa[i]) * AS(pb[i])), c = join(pc[i], qc[i]);         \
            const uint64_t r = p + c;                                                              \
            flag[i] = (over);                                                                      \
            d0[i] = (uint32_t) r;                                                                  \
            d1[i] = (uint32_t) (r >> 32);                                                          \
        }                                                                                          \
        x->mask = mask_of_flags(flag, x->n);                                                       \
    }
#define UNSIGNED(v) (uint64_t)(v)
#define SIGNED(v)   (int64_t)(int32_t)(v)
MAD64(v_mad_u64_u32, UNSIGNED, r < p)
MAD64(v_mad_i64_i32, SIGNED, (~(p ^ c) & (p ^ r)) >> 63)

// ---- order ----

#define LOW(a, b)  ((a) < (b) ? (a) : (b))
#define HIGH(a, b) ((a) > (b) ? (a) : (b))
#define MIDDLE     HIGH(LOW(a, b), LOW(HIGH(a, b), c))
V2_I(v_min_i32, LOW(a, b))
V2_I(v_max_i32, HIGH(a, b))
V2_U(v_min_u32, LOW(a, b))
V2_U(v_max_u32, HIGH(a, b))
V2_S(v_min_i16, LOW(a, b))
V2_S(v_max_i16, HIGH(a, b))
V2_W(v_min_u16, LOW(a, b))
V2_W(v_max_u16, HIGH(a, b))
V3_I(v_min3_i32, LOW(LOW(a, b), c))
V3_U(v_min3_u32, LOW(LOW(a, b), c))
V3_I(v_max3_i32, HIGH(HIGH(a, b), c))
V3_U(v_max3_u32, HIGH(HIGH(a, b), c))
V3_I(v_med3_i32, MIDDLE)
V3_U(v_med3_u32, MIDDLE)
V3_I(v_minmax_i32, HIGH(LOW(a, b), c))
V3_U(v_minmax_u32, HIGH(LOW(a, b), c))
V3_I(v_maxmin_i32, LOW(HIGH(a, b), c))
V3_U(v_maxmin_u32, LOW(HIGH(a, b), c))
V3_S(v_min3_i16, LOW(LOW(a, b), c))
V3_W(v_min3_u16, LOW(LOW(a, b), c))
V3_S(v_max3_i16, HIGH(HIGH(a, b), c))
V3_W(v_max3_u16, HIGH(HIGH(a, b), c))
V3_S(v_med3_i16, MIDDLE)
V3_W(v_med3_u16, MIDDLE)

// ---- bytes ----

static GFX_INLINE uint32_t apart(uint32_t a, uint32_t b) {
    return a > b ? a - b : b - a;
}

static GFX_INLINE uint32_t byte(uint32_t v, int k) {
    return v >> 8 * k & 255;
}

static GFX_INLINE uint32_t sad(uint32_t a, uint32_t b) {
    return apart(byte(a, 0), byte(b, 0)) + apart(byte(a, 1), byte(b, 1)) +
           apart(byte(a, 2), byte(b, 2)) + apart(byte(a, 3), byte(b, 3));
}

static GFX_INLINE uint32_t sad_where(uint32_t a, uint32_t b) { // bytes of b that are 0 do not count
    uint32_t r = 0;
    for (int k = 0; k < 4; k++) {
        r += byte(b, k) ? apart(byte(a, k), byte(b, k)) : 0;
    }
    return r;
}

static GFX_INLINE uint32_t lerp(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r = 0;
    for (int k = 0; k < 4; k++) {
        r |= (byte(a, k) + byte(b, k) + (c >> 8 * k & 1)) >> 1 << 8 * k;
    }
    return r;
}

V3_U(v_sad_u8, sad(a, b) + c)
V3_U(v_sad_hi_u8, (sad(a, b) << 16) + c)
V3_U(v_sad_u16, apart(a & 0xffff, b & 0xffff) + apart(a >> 16, b >> 16) + c)
V3_U(v_sad_u32, apart(a, b) + c)
V3_U(v_msad_u8, sad_where(a, b) + c)
V3_U(v_lerp_u8, lerp(a, b, c))

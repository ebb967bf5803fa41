// sem-lane: arithmetic and comparison on the lanes of x registers (512 bit). One line per record:
// the lane type, what becomes of a lane, and which condition its mask bit stands for.
//
// Kept true: lanes wrap (no saturation here); the d8 / d16 / d32 forms take their sign from
// crVaddSign and are the s forms when it is 1; mask bit i belongs to lane i, higher bits are 0.
#include "emu/aie/sem.h"

#include <string.h>

enum { X_BYTES = 64 };

// A mask bit for each lane travels through the loops as a byte (0 or not), so that they stay vector
// code; eight at a time become bits, or come from them, in one multiplication.

static inline uint64_t bits_of_flags(const uint8_t * flag, int n) {
    uint64_t mask = 0;
    for (int i = 0; i < n; i += 8) { // each byte is 0 or 1
        mask |= (load_u64(flag + i) * 0x0102040810204080 >> 56) << i;
    }
    return mask;
}

static inline void flags_of_bits(uint8_t * flag, uint64_t mask, int n) {
    for (int i = 0; i < n; i += 8) {
        uint64_t spread = (mask >> i & 255) * 0x0101010101010101 & 0x8040201008040201;
        memcpy(flag + i, &spread, 8);
    }
}

// The mask register is l (64 bit) for 8-bit lanes and r (32 bit) for wider ones.
static inline void put_mask(uint8_t * out, const uint8_t * flag, int n) {
    uint64_t mask = bits_of_flags(flag, n);
    store_u32(out, (uint32_t) mask);
    if (n == 64) {
        store_u32(out + 4, (uint32_t) (mask >> 32));
    }
}

static inline void get_mask(uint8_t * flag, const uint8_t * in, int n) {
    flags_of_bits(flag, n == 64 ? load_u64(in) : load_u32(in), n);
}

static bool signed_lanes(const struct core_exec * x) {
    return sem_sign(x);
}

// ---- shapes: bodies over lanes of type T; `a`, `b` are the source lanes, `bit` the mask bit ----

#define LANES(T) (int) (X_BYTES / sizeof(T))

// d = lane
#define SHAPE_D(T, A, B, lane, cond)                                                               \
    T va[LANES(T)], vb[LANES(T)], vd[LANES(T)];                                                    \
    memcpy(va, x->in[A], X_BYTES);                                                                 \
    memcpy(vb, x->in[B], X_BYTES);                                                                 \
    for (int i = 0; i < LANES(T); i++) {                                                           \
        T a = va[i], b = vb[i];                                                                    \
        vd[i] = (T) (lane);                                                                        \
    }                                                                                              \
    memcpy(x->out[0], vd, X_BYTES)

// cmp = cond
#define SHAPE_C(T, A, B, lane, cond)                                                               \
    T va[LANES(T)], vb[LANES(T)];                                                                  \
    uint8_t flag[LANES(T)];                                                                        \
    memcpy(va, x->in[A], X_BYTES);                                                                 \
    memcpy(vb, x->in[B], X_BYTES);                                                                 \
    for (int i = 0; i < LANES(T); i++) {                                                           \
        T a = va[i], b = vb[i];                                                                    \
        (void) b;                                                                                  \
        flag[i] = (cond);                                                                          \
    }                                                                                              \
    put_mask(x->out[0], flag, LANES(T))

// d, cmp = lane, cond
#define SHAPE_DC(T, A, B, lane, cond)                                                              \
    T va[LANES(T)], vb[LANES(T)], vd[LANES(T)];                                                    \
    uint8_t flag[LANES(T)];                                                                        \
    memcpy(va, x->in[A], X_BYTES);                                                                 \
    memcpy(vb, x->in[B], X_BYTES);                                                                 \
    for (int i = 0; i < LANES(T); i++) {                                                           \
        T a = va[i], b = vb[i];                                                                    \
        (void) b;                                                                                  \
        vd[i] = (T) (lane);                                                                        \
        flag[i] = (cond);                                                                          \
    }                                                                                              \
    memcpy(x->out[0], vd, X_BYTES);                                                                \
    put_mask(x->out[1], flag, LANES(T))

// d = lane, where `bit` is this lane's bit of the mask operand
#define SHAPE_M(T, A, B, lane, cond)                                                               \
    T va[LANES(T)], vb[LANES(T)], vd[LANES(T)];                                                    \
    uint8_t flag[LANES(T)];                                                                        \
    get_mask(flag, x->in[3], LANES(T));                                                            \
    memcpy(va, x->in[A], X_BYTES);                                                                 \
    memcpy(vb, x->in[B], X_BYTES);                                                                 \
    for (int i = 0; i < LANES(T); i++) {                                                           \
        T a = va[i], b = vb[i];                                                                    \
        bool bit = flag[i] != 0;                                                                   \
        vd[i] = (T) (lane);                                                                        \
    }                                                                                              \
    memcpy(x->out[0], vd, X_BYTES)

#define FN(name, SHAPE, T, A, B, lane, cond)                                                       \
    static bool name(struct core_exec * x) {                                                       \
        SHAPE(T, A, B, lane, cond);                                                                \
        return true;                                                                               \
    }

// One function whose lanes are S or U as crVaddSign says, and one that is always S.
#define FN_SIGN(name, SHAPE, S, U, A, B, lane, cond)                                               \
    FN(name##_s, SHAPE, S, A, B, lane, cond)                                                       \
    FN(name##_u, SHAPE, U, A, B, lane, cond)                                                       \
    static bool name##_d(struct core_exec * x) {                                                   \
        return signed_lanes(x) ? name##_s(x) : name##_u(x);                                        \
    }

// ---- bf16 order ----

// bf16 as an integer that grows with the value.
static inline int32_t bf16_key(uint16_t v) {
    int32_t m = v & 0x7fff;
    return v & 0x8000 ? -m : m;
}

static inline bool bf16_nan(uint16_t v) {
    return (v & 0x7fff) > 0x7f80;
}

static inline bool bf16_lt(uint16_t a, uint16_t b) {
    return bf16_key(a) < bf16_key(b);
}

// ---- records: shape, lane, condition ----

// Sums wrap in the promoted type and are cut to the lane; unsigned keeps that defined.
FN(vadd_8, SHAPE_D, uint8_t, 1, 2, a + b, 0)
FN(vadd_16, SHAPE_D, uint16_t, 1, 2, a + b, 0)
FN(vadd_32, SHAPE_D, uint32_t, 1, 2, a + b, 0)
FN(vsub_8, SHAPE_D, uint8_t, 1, 2, a - b, 0)
FN(vsub_16, SHAPE_D, uint16_t, 1, 2, a - b, 0)
FN(vsub_32, SHAPE_D, uint32_t, 1, 2, a - b, 0)
FN(vband, SHAPE_D, uint64_t, 1, 2, a & b, 0)
FN(vbor, SHAPE_D, uint64_t, 1, 2, a | b, 0)
FN(vsel_8, SHAPE_M, uint8_t, 1, 2, bit ? b : a, 0)
FN(vsel_16, SHAPE_M, uint16_t, 1, 2, bit ? b : a, 0)
FN(vsel_32, SHAPE_M, uint32_t, 1, 2, bit ? b : a, 0)
FN(vaddsub_8, SHAPE_M, uint8_t, 1, 2, bit ? a - b : a + b, 0)
FN(vaddsub_16, SHAPE_M, uint16_t, 1, 2, bit ? a - b : a + b, 0)
FN(vaddsub_32, SHAPE_M, uint32_t, 1, 2, bit ? a - b : a + b, 0)
FN(veqz_8, SHAPE_C, uint8_t, 1, 1, a, a == 0)
FN(veqz_16, SHAPE_C, uint16_t, 1, 1, a, a == 0)
FN(veqz_32, SHAPE_C, uint32_t, 1, 1, a, a == 0)

#define SIGNED3(name, SHAPE, A, B, lane, cond)                                                     \
    FN_SIGN(name##8, SHAPE, int8_t, uint8_t, A, B, lane, cond)                                     \
    FN_SIGN(name##16, SHAPE, int16_t, uint16_t, A, B, lane, cond)                                  \
    FN_SIGN(name##32, SHAPE, int32_t, uint32_t, A, B, lane, cond)

// Differences go through uint32_t: a lane may wrap, an int may not.
#define DIFF ((uint32_t) a - (uint32_t) b)

SIGNED3(vge_, SHAPE_C, 1, 2, a, a >= b)
SIGNED3(vlt_, SHAPE_C, 1, 2, a, a < b)
SIGNED3(vmax_lt_, SHAPE_DC, 2, 3, a < b ? b : a, a < b)
SIGNED3(vmin_ge_, SHAPE_DC, 2, 3, a >= b ? b : a, a >= b)
SIGNED3(vsub_lt_, SHAPE_DC, 2, 3, DIFF, a < b)
SIGNED3(vsub_ge_, SHAPE_DC, 2, 3, DIFF, a >= b)
SIGNED3(vmaxdiff_lt_, SHAPE_DC, 2, 3, a < b ? 0 : DIFF, a < b)
SIGNED3(vabs_gtz_, SHAPE_DC, 2, 2, a > 0 ? (uint32_t) a : 0 - (uint32_t) a, a > 0)

FN(vneg_gtz8, SHAPE_DC, int8_t, 2, 2, 0 - (uint32_t) a, a > 0)
FN(vneg_gtz16, SHAPE_DC, int16_t, 2, 2, 0 - (uint32_t) a, a > 0)
FN(vneg_gtz32, SHAPE_DC, int32_t, 2, 2, 0 - (uint32_t) a, a > 0)
FN(vbneg_ltz_8, SHAPE_DC, int8_t, 2, 2, ~a, a < 0)
FN(vbneg_ltz_16, SHAPE_DC, int16_t, 2, 2, ~a, a < 0)
FN(vbneg_ltz_32, SHAPE_DC, int32_t, 2, 2, ~a, a < 0)

FN(vlt_bf16, SHAPE_C, uint16_t, 1, 2, a, bf16_lt(a, b) && !bf16_nan(a) && !bf16_nan(b))
FN(vge_bf16, SHAPE_C, uint16_t, 1, 2, a, !bf16_lt(a, b) && !bf16_nan(a) && !bf16_nan(b))
FN(vmax_lt_bf16, SHAPE_DC, uint16_t, 2, 3, bf16_lt(a, b) && !bf16_nan(a) && !bf16_nan(b) ? b : a,
   bf16_lt(a, b) && !bf16_nan(a) && !bf16_nan(b))
FN(vmin_ge_bf16, SHAPE_DC, uint16_t, 2, 3, !bf16_lt(a, b) && !bf16_nan(a) && !bf16_nan(b) ? b : a,
   !bf16_lt(a, b) && !bf16_nan(a) && !bf16_nan(b))

#define SIGN_ROWS(NAME, name)                                                                      \
    {NAME "D8", name##8_d}, {NAME "D16", name##16_d}, {NAME "D32", name##32_d},                    \
        {NAME "S8", name##8_s}, {NAME "S16", name##16_s}, {                                        \
        NAME "S32", name##32_s                                                                     \
    }

// clang-format off
#define ROWS_OF_BOTH \
    {"VADD_8", vadd_8}, {"VADD_16", vadd_16}, {"VADD_32", vadd_32}, {"VSUB_8", vsub_8}, \
    {"VSUB_16", vsub_16}, {"VSUB_32", vsub_32}, {"VBAND", vband}, {"VBOR", vbor}, \
    {"VSEL_8", vsel_8}, {"VSEL_16", vsel_16}, {"VSEL_32", vsel_32}, {"VADDSUB_8", vaddsub_8}, \
    {"VADDSUB_16", vaddsub_16}, {"VADDSUB_32", vaddsub_32}, {"VEQZ_8", veqz_8}, \
    {"VEQZ_16", veqz_16}, {"VEQZ_32", veqz_32}
// clang-format on

static const struct core_semantic rows[] = {
    ROWS_OF_BOTH,
    SIGN_ROWS("VGE_", vge_),
    SIGN_ROWS("VLT_", vlt_),
    SIGN_ROWS("VMAX_LT_", vmax_lt_),
    SIGN_ROWS("VMIN_GE_", vmin_ge_),
    SIGN_ROWS("VSUB_LT_", vsub_lt_),
    SIGN_ROWS("VSUB_GE_", vsub_ge_),
    SIGN_ROWS("VMAXDIFF_LT_", vmaxdiff_lt_),
    SIGN_ROWS("VABS_GTZ_", vabs_gtz_),
    {"VNEG_GTZ8", vneg_gtz8},
    {"VNEG_GTZ16", vneg_gtz16},
    {"VNEG_GTZ32", vneg_gtz32},
    {"VBNEG_LTZ_S8", vbneg_ltz_8},
    {"VBNEG_LTZ_S16", vbneg_ltz_16},
    {"VBNEG_LTZ_S32", vbneg_ltz_32},
    {"VLT_BF16", vlt_bf16},
    {"VGE_BF16", vge_bf16},
    {"VMAX_LT_BF16", vmax_lt_bf16},
    {"VMIN_GE_BF16", vmin_ge_bf16},
};

const struct sem_family sem_lanes = SEM_FAMILY(rows);

// ---- aie2p: the same lanes; the mask goes to a register that no field names, the first implicit
// operand, behind n sources ----

static bool masked(const struct core_exec * x, core_semantic_fn fn, int n) {
    struct core_exec y = *x;
    y.out[1] = x->out[n + 1];
    y.in[2] = x->in[1];
    y.in[3] = x->in[n];
    return fn(&y);
}

#define MASKED(name, fn, n)                                                                        \
    static bool name(struct core_exec * x) {                                                       \
        return masked(x, fn, n);                                                                   \
    }
#define MASKED_SIGN(name, n)                                                                       \
    static bool name##8_masked(struct core_exec * x) {                                             \
        return masked(x, sem_sign(x) ? name##8_s : name##8_u, n);                                  \
    }                                                                                              \
    static bool name##16_masked(struct core_exec * x) {                                            \
        return masked(x, sem_sign(x) ? name##16_s : name##16_u, n);                                \
    }                                                                                              \
    static bool name##32_masked(struct core_exec * x) {                                            \
        return masked(x, sem_sign(x) ? name##32_s : name##32_u, n);                                \
    }

MASKED_SIGN(vmax_lt_, 2)
MASKED_SIGN(vmin_ge_, 2)
MASKED_SIGN(vsub_lt_, 2)
MASKED_SIGN(vsub_ge_, 2)
MASKED_SIGN(vmaxdiff_lt_, 2)
MASKED_SIGN(vabs_gtz_, 1)
MASKED(vneg_gtz8_masked, vneg_gtz8, 1)
MASKED(vneg_gtz16_masked, vneg_gtz16, 1)
MASKED(vneg_gtz32_masked, vneg_gtz32, 1)
MASKED(vbneg_ltz_8_masked, vbneg_ltz_8, 1)
MASKED(vbneg_ltz_16_masked, vbneg_ltz_16, 1)
MASKED(vbneg_ltz_32_masked, vbneg_ltz_32, 1)

// The order of NaN and of the two zeros is aie2's; nobody has published it of this core.
MASKED(vmax_lt_bf16_masked, vmax_lt_bf16, 2)
MASKED(vmin_ge_bf16_masked, vmin_ge_bf16, 2)

#define WIDTH_ROWS(NAME, name, tail)                                                               \
    {NAME "8_*", name##8##tail}, {NAME "16_*", name##16##tail}, {                                  \
        NAME "32_*", name##32##tail                                                                \
    }

static const struct core_semantic rows_aie2p[] = {
    ROWS_OF_BOTH,
    WIDTH_ROWS("VGE_", vge_, _d),
    WIDTH_ROWS("VLT_", vlt_, _d),
    WIDTH_ROWS("VMAX_LT_", vmax_lt_, _masked),
    WIDTH_ROWS("VMIN_GE_", vmin_ge_, _masked),
    WIDTH_ROWS("VSUB_LT_", vsub_lt_, _masked),
    WIDTH_ROWS("VSUB_GE_", vsub_ge_, _masked),
    WIDTH_ROWS("VMAXDIFF_LT_", vmaxdiff_lt_, _masked),
    WIDTH_ROWS("VABS_GTZ_", vabs_gtz_, _masked),
    {"VNEG_GTZ_8", vneg_gtz8_masked},
    {"VNEG_GTZ_16", vneg_gtz16_masked},
    {"VNEG_GTZ_32", vneg_gtz32_masked},
    {"VBNEG_LTZ_s8", vbneg_ltz_8_masked},
    {"VBNEG_LTZ_s16", vbneg_ltz_16_masked},
    {"VBNEG_LTZ_s32", vbneg_ltz_32_masked},
    {"VLT_bf16", vlt_bf16},
    {"VGE_bf16", vge_bf16},
    {"VMAX_LT_bf16", vmax_lt_bf16_masked},
    {"VMIN_GE_bf16", vmin_ge_bf16_masked},
};

const struct sem_family sem_lanes_aie2p = SEM_FAMILY(rows_aie2p);

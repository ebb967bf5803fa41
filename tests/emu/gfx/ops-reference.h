// ops-reference: what operations compute, in the host's own arithmetic: the rows of reference.def,
// and compares by their names.
#pragma once

#include "emu/gfx/ops-rig.h"

// ---- helpers of the references ----

static inline uint32_t reversed(uint32_t v) {
    uint32_t r = 0;
    for (int i = 0; i < 32; i++) {
        r = r << 1 | (v >> i & 1);
    }
    return r;
}

static inline int64_t low24(int32_t v) {
    int64_t w = v & 0xffffff;
    return w >= 0x800000 ? w - 0x1000000 : w;
}

static inline uint64_t middle_of(int64_t a, int64_t b, int64_t c, int which) {
    int64_t v[3] = {a, b, c};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++) {
            if (v[k] > v[k + 1]) {
                int64_t t = v[k];
                v[k] = v[k + 1];
                v[k + 1] = t;
            }
        }
    }
    return (uint64_t) v[which];
}

static inline uint32_t permuted(uint32_t a, uint32_t b, uint32_t c) {
    uint8_t bytes[8];
    memcpy(bytes, &b, 4);
    memcpy(bytes + 4, &a, 4);
    uint32_t r = 0;
    for (int k = 0; k < 4; k++) {
        unsigned s = c >> 8 * k & 255;
        uint32_t v = s < 8     ? bytes[s]
                     : s < 12  ? (bytes[(s - 8) * 2 + 1] & 128 ? 255u : 0)
                     : s == 12 ? 0
                               : 255;
        r |= v << 8 * k;
    }
    return r;
}

static inline uint64_t bytes_apart(uint32_t a, uint32_t b) {
    uint64_t s = 0;
    for (int k = 0; k < 4; k++) {
        s += (uint64_t) abs((int) (a >> 8 * k & 255) - (int) (b >> 8 * k & 255));
    }
    return s;
}

static inline int64_t dotted(uint32_t a, uint32_t b, int width, bool is_signed) {
    int64_t s = 0;
    for (int k = 0; k < 32; k += width) {
        int64_t x = a >> k & ((1 << width) - 1), y = b >> k & ((1 << width) - 1);
        if (is_signed) {
            x -= x >> (width - 1) << width;
            y -= y >> (width - 1) << width;
        }
        s += x * y;
    }
    return s;
}

static inline double mantissa(double v) {
    int e;
    return frexp(v, &e);
}

static inline int64_t exponent(double v) {
    int e;
    return frexp(v, &e), e;
}

static inline uint64_t toward_zero(float f) {
    half h = (half) f;
    uint64_t u = bits_h(h);
    if (f == f && fabsf((float) h) > fabsf(f)) { // one step back
        u--;
    }
    return u;
}

// Minimum in IEEE mode: a signalling NaN wins, a quiet one loses.
static inline bool signalling(double v, uint64_t quiet_bit, uint64_t bits) {
    return v != v && !(bits & quiet_bit);
}

static inline bool half_signals(uint16_t u) {
    return (u & 0x7fff) > 0x7c00 && !(u & 0x200);
}

static inline float least(float a, float b) {
    if (signalling((double) a, 1 << 22, bits_f(a)) || signalling((double) b, 1 << 22, bits_f(b))) {
        return NAN;
    }
    return a == 0 && b == 0 ? (signbit(a) ? a : b) : fminf(a, b);
}

static inline float most(float a, float b) {
    return -least(-a, -b);
}

static inline double least_d(double a, double b) {
    uint64_t quiet = UINT64_C(1) << 51;
    if (signalling(a, quiet, bits_d(a)) || signalling(b, quiet, bits_d(b))) {
        return NAN;
    }
    return a == 0 && b == 0 ? (signbit(a) ? a : b) : fmin(a, b);
}

struct operands {
    uint64_t a, b, c, old;
    bool bit;
    int i;
};

#define REF(op, ...)                                                                               \
    static inline uint64_t ref_##op(const struct operands * o, bool * carry_out) {                 \
        const uint64_t a = o->a, b = o->b, c = o->c, old = o->old;                                 \
        const uint32_t au = (uint32_t) a, bu = (uint32_t) b, cu = (uint32_t) c;                    \
        const int32_t ai = (int32_t) au, bi = (int32_t) bu, ci = (int32_t) cu;                     \
        const int64_t al = (int64_t) a, bl = (int64_t) b, cl = (int64_t) c;                        \
        const uint16_t aw = (uint16_t) a, bw = (uint16_t) b, cw = (uint16_t) c;                    \
        const int16_t as = (int16_t) aw, bs = (int16_t) bw, cs = (int16_t) cw;                     \
        const float af = f_bits(a), bf = f_bits(b), cf = f_bits(c);                                \
        const double ad = d_bits(a), bd = d_bits(b), cd = d_bits(c);                               \
        const half ah = h_bits(a), bh = h_bits(b), ch = h_bits(c);                                 \
        const bool bit = o->bit;                                                                   \
        const int i = o->i;                                                                        \
        bool carry = false;                                                                        \
        (void) al, (void) bl, (void) cl, (void) aw, (void) bw, (void) cw, (void) as, (void) bs;    \
        (void) cs, (void) af, (void) bf, (void) cf, (void) ad, (void) bd, (void) cd, (void) ah;    \
        (void) bh, (void) ch, (void) bit, (void) i, (void) old, (void) ai, (void) bi, (void) ci;   \
        (void) au, (void) bu, (void) cu;                                                           \
        const uint64_t r = (uint64_t) (__VA_ARGS__);                                               \
        *carry_out = carry;                                                                        \
        return r;                                                                                  \
    }
#include "emu/gfx/reference.def"
#undef REF

static const struct reference {
    enum gfx_op op;
    uint64_t (*fn)(const struct operands * o, bool * carry);
} references[] = {
#define REF(op, ...) {GFX_##op, ref_##op},
#include "emu/gfx/reference.def"
};

static inline bool same(enum gfx_op op, enum gfx_type t, uint64_t got, uint64_t want) {
    bool approximate =
        op == GFX_v_exp_f32 || op == GFX_v_log_f32 || op == GFX_v_sin_f32 || op == GFX_v_cos_f32;
    if (got == want || (is_nan(t, got) && is_nan(t, want))) {
        return true;
    }
    if (t == GFX_T_P16) {
        return same(op, GFX_T_F16, got & 0xffff, want & 0xffff) &&
               same(op, GFX_T_F16, got >> 16, want >> 16);
    }
    if (t == GFX_T_P32) {
        return same(op, GFX_T_F32, (uint32_t) got, (uint32_t) want) &&
               same(op, GFX_T_F32, got >> 32, want >> 32);
    }
    if (approximate) { // a unit in the last place, and what is absolutely small for sines
        float g = f_bits(got), w = f_bits(want);
        return llabs((int64_t) got - (int64_t) want) <= 1 ||
               (op != GFX_v_exp_f32 && fabsf(g - w) < 1e-7f);
    }
    return false;
}

static inline const struct reference * reference_of(const char * name) {
    for (size_t k = 0; k < sizeof references / sizeof *references; k++) {
        if (!strcmp(gfx_op_info[references[k].op].name, name)) {
            return &references[k];
        }
    }
    fail_msg("no reference of %s", name);
    return NULL;
}

// ---- compares: what the name says ----

static inline int order(const char * type, uint64_t a, uint64_t b) { // -1, 0, 1; 2: unordered
    double x, y;
    int64_t i, j;
    if (type[0] == 'f') {
        x = !strcmp(type, "f16")   ? (double) h_bits(a)
            : !strcmp(type, "f32") ? f_bits(a)
                                   : d_bits(a);
        y = !strcmp(type, "f16")   ? (double) h_bits(b)
            : !strcmp(type, "f32") ? f_bits(b)
                                   : d_bits(b);
        return isnan(x) || isnan(y) ? 2 : x < y ? -1 : x > y;
    }
    if (!strcmp(type, "u64")) {
        return a < b ? -1 : a > b;
    }
    bool is_signed = type[0] == 'i';
    int width = atoi(type + 1);
    i = (int64_t) (a << (64 - width));
    j = (int64_t) (b << (64 - width));
    i = is_signed ? i >> (64 - width) : (int64_t) ((uint64_t) i >> (64 - width));
    j = is_signed ? j >> (64 - width) : (int64_t) ((uint64_t) j >> (64 - width));
    return i < j ? -1 : i > j;
}

static inline bool holds(const char * name, int o) { // "lt_f32"
    static const struct {
        const char * name;
        bool less, equal, more, unordered;
    } conditions[] = {
        {"f_", 0, 0, 0, 0},   {"lt_", 1, 0, 0, 0},  {"eq_", 0, 1, 0, 0},  {"le_", 1, 1, 0, 0},
        {"gt_", 0, 0, 1, 0},  {"lg_", 1, 0, 1, 0},  {"ge_", 0, 1, 1, 0},  {"o_", 1, 1, 1, 0},
        {"u_", 0, 0, 0, 1},   {"nge_", 1, 0, 0, 1}, {"nlg_", 0, 1, 0, 1}, {"ngt_", 1, 1, 0, 1},
        {"nle_", 0, 0, 1, 1}, {"neq_", 1, 0, 1, 1}, {"nlt_", 0, 1, 1, 1}, {"t_", 1, 1, 1, 1},
        {"ne_", 1, 0, 1, 1},
    };
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++) {
        if (!strncmp(name, conditions[i].name, strlen(conditions[i].name))) {
            return o == -1  ? conditions[i].less
                   : o == 0 ? conditions[i].equal
                   : o == 1 ? conditions[i].more
                            : conditions[i].unordered;
        }
    }
    fail_msg("no condition in %s", name);
    return false;
}

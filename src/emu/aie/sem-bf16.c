// sem-bf16: the bf16 multiply-accumulate of sem-float.c, on the host's float unit. The rule aligns
// all terms of a lane to the largest exponent and rounds each one there; scaled by that exponent, a
// term is rounded by the host's conversion to integer, and the sum by its conversion back. A bf16
// product, a power of two and the scaling by one are exact in fp32 as long as nothing leaves the
// range of normal numbers.
//
// Kept true: the function declines any operand for which that could happen - infinities, NaN, and
// magnitudes near either end of the range - and gives the bits of sem_bf16_mac for all others.
// Hosts with wider vectors go the same way faster (sem-x86.c).
#include "emu/aie/sem-x86.h"

#include <string.h>

// SEM_PLAIN leaves out what not all hosts have, for the test that compares the ways.
#if defined(SEM_PLAIN)
#elif defined(__ARM_NEON)
#    include <arm_neon.h>
#elif defined(__SSE2__)
#    include <emmintrin.h>
#endif

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "lanes lie as the host has them");

typedef int16_t v8h __attribute__((vector_size(16)));
typedef uint16_t v8u __attribute__((vector_size(16)));

// ---- what C has no word for ----

#if !defined(SEM_PLAIN) && defined(__ARM_NEON)
static inline v4i round_even(v4f v) {
    return (v4i) vcvtnq_s32_f32((float32x4_t) v);
}
static inline v4f larger(v4f a, v4f b) {
    return (v4f) vmaxq_f32((float32x4_t) a, (float32x4_t) b);
}
static inline v8h larger16(v8h a, v8h b) {
    return (v8h) vmaxq_s16((int16x8_t) a, (int16x8_t) b);
}
#elif !defined(SEM_PLAIN) && defined(__SSE2__)
static inline v4i round_even(v4f v) {
    return (v4i) _mm_cvtps_epi32((__m128) v);
}
static inline v4f larger(v4f a, v4f b) {
    return (v4f) _mm_max_ps((__m128) a, (__m128) b);
}
static inline v8h larger16(v8h a, v8h b) {
    return (v8h) _mm_max_epi16((__m128i) a, (__m128i) b);
}
#else
static inline v4i round_even(v4f v) {
    const float whole = 8388608.0f; // 2^23: nothing from there on has a fraction
    v4i out;
    for (int i = 0; i < 4; i++) {
        float a = v[i] < 0 ? -v[i] : v[i];
        a = a < whole ? (a + whole) - whole : a;
        out[i] = (int32_t) (v[i] < 0 ? -a : a);
    }
    return out;
}
static inline v4f larger(v4f a, v4f b) {
    for (int i = 0; i < 4; i++) {
        a[i] = a[i] > b[i] ? a[i] : b[i];
    }
    return a;
}
static inline v8h larger16(v8h a, v8h b) {
    for (int i = 0; i < 8; i++) {
        a[i] = a[i] > b[i] ? a[i] : b[i];
    }
    return a;
}
#endif

#define SPLAT(v, lane) __builtin_shufflevector(v, v, lane, lane, lane, lane)

static inline bool any(v8h v) {
    uint64_t half[2];
    memcpy(half, &v, sizeof(half));
    return half[0] | half[1];
}

// ---- factors ----

static inline v8h load8(const uint8_t * bytes) {
    v8h v;
    memcpy(&v, bytes, sizeof(v));
    return v;
}

// Four bf16 lanes as fp32.
static inline v4f low_half(v8h v) {
    return (v4f) __builtin_shufflevector((v8h){0}, v, 0, 8, 1, 9, 2, 10, 3, 11);
}

static inline v4f high_half(v8h v) {
    return (v4f) __builtin_shufflevector((v8h){0}, v, 4, 12, 5, 13, 6, 14, 7, 15);
}

static inline v4f power_of(v4f v) {
    return (v4f) ((v4u) v & EXPONENT);
}

// Whether all factors are in range or zero. 0x8000 - magnitude grows as the magnitude falls; of
// zero it is the lowest of all.
static inline bool in_range(const uint8_t * x, const uint8_t * y) {
    v8h high = {0}, low = {0};
    for (int i = 0; i < 64; i += 16) {
        v8u a = (v8u) load8(x + i) & 0x7fff, b = (v8u) load8(y + i) & 0x7fff;
        high = larger16(high, larger16((v8h) a, (v8h) b));
        low = larger16(low, larger16((v8h) (0x8000 - a), (v8h) (0x8000 - b)));
    }
    return !any((high > (FACTOR_MAX << 7 | 127)) | (low > 0x8000 - (FACTOR_MIN << 7)));
}

// ---- sums, four lanes at a time ----

static inline v4f load_acc(const uint8_t * acc, int i) {
    v4f v = {0};
    if (acc) {
        memcpy(&v, acc + 16 * i, sizeof(v));
    }
    return v;
}

static inline v4f first_top(v4f acc) {
    return larger(power_of(acc), (v4f) ((v4u){0} + ((uint32_t) TOP_NONE << 23)));
}

// What scales a term to units of the last place of the largest one, 2^(150 - top) with the biased
// top, and what scales the sum back.
static inline v4f to_units(v4f top) {
    return (v4f) ((277u << 23) - (v4u) top);
}

static inline v4f from_units(v4i sum, v4f top) {
    return __builtin_convertvector(sum, v4f) * (v4f) ((v4u) top - (23u << 23));
}

// Accumulators count with their exponents, which nobody has looked at yet: one that is too large is
// the top of its lane, and one that is too small matters where there is nothing else.
static inline v4i bad_top(v4f top, v4f acc) {
    v4i mute = ((v4u) top == (uint32_t) TOP_NONE << 23) & (((v4u) acc << 1) != 0);
    return mute | ((v4u) top > (uint32_t) TOP_MAX << 23);
}

static inline void store_lanes(uint8_t * out, int i, v4f v) {
    memcpy(out + 16 * i, &v, sizeof(v));
}

#define EACH_K(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)

// The loops over the four rows lie inside, so that their sums do not wait for one another.
bool sem_bf16_mac_4x8x4(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y) {
#if SEM_X86 && !defined(SEM_PLAIN)
    if (sem_x86_has_512()) {
        return sem_x86_512_bf16_4x8x4(out, acc, x, y);
    }
    if (sem_x86_has_256()) {
        return sem_x86_256_bf16_4x8x4(out, acc, x, y);
    }
#endif
    if (!in_range(x, y)) {
        return false;
    }
    v4f a[4][2], b[8], c[4], top[4], units[4];
    v4i sum[4], bad = {0};
    for (int i = 0; i < 4; i++) {
        v8h xs = load8(x + 16 * i), ys = load8(y + 16 * i);
        a[i][0] = low_half(xs);
        a[i][1] = high_half(xs);
        b[2 * i] = low_half(ys);
        b[2 * i + 1] = high_half(ys);
        c[i] = load_acc(acc, i);
        top[i] = first_top(c[i]);
    }
#define TOP(k)                                                                                     \
    for (int i = 0; i < 4; i++) {                                                                  \
        top[i] = larger(top[i], SPLAT(power_of(a[i][(k) / 4]), (k) % 4) * power_of(b[k]));         \
    }
    EACH_K(TOP);
#undef TOP
    for (int i = 0; i < 4; i++) {
        bad |= bad_top(top[i], c[i]);
    }
    if (any((v8h) bad)) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        units[i] = to_units(top[i]);
        sum[i] = round_even(c[i] * units[i]);
    }
#define ADD(k)                                                                                     \
    for (int i = 0; i < 4; i++) {                                                                  \
        sum[i] += round_even(SPLAT(a[i][(k) / 4], (k) % 4) * b[k] * units[i]);                     \
    }
    EACH_K(ADD);
#undef ADD
    for (int i = 0; i < 4; i++) {
        store_lanes(out, i, from_units(sum[i], top[i]));
    }
    return true;
}

bool sem_bf16_mac_pairs(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y) {
#if SEM_X86 && !defined(SEM_PLAIN)
    if (sem_x86_has_512()) {
        return sem_x86_512_bf16_pairs(out, acc, x, y);
    }
    if (sem_x86_has_256()) {
        return sem_x86_256_bf16_pairs(out, acc, x, y);
    }
#endif
    if (!in_range(x, y)) {
        return false;
    }
    v4f a[8], b[8], c[4], top[4];
    v4i bad = {0};
    for (int i = 0; i < 4; i++) {
        v8h xs = load8(x + 16 * i), ys = load8(y + 16 * i);
        a[2 * i] = low_half(xs);
        a[2 * i + 1] = high_half(xs);
        b[2 * i] = low_half(ys);
        b[2 * i + 1] = high_half(ys);
    }
    for (int i = 0; i < 4; i++) {
        c[i] = load_acc(acc, i);
        top[i] = larger(first_top(c[i]), power_of(a[i]) * power_of(b[i]));
        top[i] = larger(top[i], power_of(a[i + 4]) * power_of(b[i + 4]));
        bad |= bad_top(top[i], c[i]);
    }
    if (any((v8h) bad)) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        v4f units = to_units(top[i]);
        v4i sum = round_even(c[i] * units) + round_even(a[i] * b[i] * units) +
                  round_even(a[i + 4] * b[i + 4] * units);
        store_lanes(out, i, from_units(sum, top[i]));
    }
    return true;
}

// ---- one product to each lane ----

#define ELEMENTS        elements_4
#define ELEMENTS_TARGET // what every host has
#define ELEMENTS_WIDTH  4
#include "emu/aie/sem-elements.h"

static uint64_t elements(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                         int lanes, int products, uint32_t flip) {
#if !defined(SEM_PLAIN) && SEM_X86
    if (sem_x86_has_512()) {
        return sem_x86_512_bf16_elements(out, acc, x, y, lanes, products, flip);
    }
    if (sem_x86_has_256()) {
        return sem_x86_256_bf16_elements(out, acc, x, y, lanes, products, flip);
    }
#endif
    return elements_4(out, acc, x, y, lanes, products, flip);
}

static uint16_t factor_of(const uint8_t * v, int lane, int products, uint32_t flip) {
    uint16_t f = 0;
    if (lane < products) {
        memcpy(&f, v + 2 * lane, 2);
    }
    return f ^ (uint16_t) (flip >> 16);
}

void sem_bf16_mac_lanes(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                        int lanes, int products, uint32_t flip) {
    for (uint64_t left = elements(out, acc, x, y, lanes, products, flip); left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        uint16_t vx = factor_of(x, i, products, 0), vy = factor_of(y, i, products, flip);
        store_u32(out + 4 * i, sem_bf16_mac(&vx, &vy, 1, acc ? load_u32(acc + 4 * i) : 0, 0));
    }
}

void sem_bf16_mac_elements(uint32_t * restrict out, const uint32_t * acc1, const uint32_t * acc2,
                           const uint16_t * x, const uint16_t * y, int lanes) {
    for (int at = 0; at < lanes; at += 16) {
        uint64_t left = elements((uint8_t *) (out + at), (const uint8_t *) (acc1 + at),
                                 (const uint8_t *) (x + at), (const uint8_t *) (y + at), 16, 16, 0);
        for (int i = 0; acc2 && i < 16; i++) {
            left |= (uint64_t) (acc2[at + i] != 0) << i;
        }
        for (; left; left &= left - 1) {
            int i = at + __builtin_ctzll(left);
            out[i] = sem_bf16_mac(x + i, y + i, 1, acc1[i], acc2 ? acc2[i] : 0);
        }
    }
}

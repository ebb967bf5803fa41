// sem-x86: the multiply-accumulates of inner loops with the wide vectors of x86-64 hosts that have
// them. The ways are those of sem-bf16.c and sem-mac.c, sixteen or eight lanes at a time; who calls
// asks the host first (sem_x86_has), so the library itself needs no more than its baseline.
//
// Kept true: each function gives the bits of its namesake, and declines the same operands. test-sem
// compares them with the rules, lane by lane.
#include "emu/aie/sem-x86.h"

#if SEM_X86

#    include <immintrin.h>
#    include <string.h>

#    define AVX2   __attribute__((target("avx2")))
#    define AVX512 __attribute__((target("avx512f,avx512bw")))

enum { FACTOR_LOW = FACTOR_MIN << 7, FACTOR_HIGH = FACTOR_MAX << 7 | 127 }; // as bits of a bf16

AVX2 static inline __m256i load_256(const uint8_t * p) {
    return _mm256_loadu_si256((const __m256i *) (const void *) p);
}

// ---- bf16, sixteen lanes: a 128-bit part of a vector is a row ----

// Constants that lie in memory: a vector unit that fills a register from a number is one that the
// products need. Whoever uses them says so to the compiler, which would rather make them itself.
static const struct constants {
    _Alignas(64) uint16_t magnitude[32], low[32], range[32], exponent[32], nothing[32];
    uint8_t rows[16];
    int32_t upper, power, none, top_min, top_max, bits, units, whole, acc_range;
} constants = {
#    define ALL(v)                                                                                 \
        {                                                                                          \
            v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, \
                v, v, v                                                                            \
        }
    .magnitude = ALL(0x7fff),
    .low = ALL(FACTOR_LOW),
    .range = ALL(FACTOR_HIGH - FACTOR_LOW),
    .exponent = ALL(0x7f80),
    .nothing = ALL(0xc000),
#    undef ALL
    .rows = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15}, // two side by side
    .upper = (int32_t) 0xffff0000,
    .power = EXPONENT,
    .none = TOP_NONE << 23,
    .top_min = TOP_MIN << 23,
    .top_max = TOP_MAX << 23,
    .bits = 0x7fffffff,
    .units = (int32_t) (277u << 23),
    .whole = 23 << 23,
    .acc_range = 0x7f000000 - (TOP_MIN << 23),
};

static inline const struct constants * in_memory(void) {
    const struct constants * k = &constants;
    __asm__("" : "+r"(k));
    return k;
}

// The exponents of factors as 16 bits, less the least one that they may have; zeros get one so low
// that no sum with it counts. False: not all factors are in range or zero.
AVX512 static inline __attribute__((always_inline)) bool exponents_512(const struct constants * k,
                                                                       __m512i v, __m512i * out) {
    __m512i magnitude = _mm512_load_si512(k->magnitude);
    __mmask32 some = _mm512_test_epi16_mask(v, magnitude);
    v = _mm512_sub_epi16(_mm512_and_si512(v, magnitude), _mm512_load_si512(k->low));
    __m512i exponent = _mm512_and_si512(v, _mm512_load_si512(k->exponent));
    *out = _mm512_mask_mov_epi16(_mm512_load_si512(k->nothing), some, exponent);
    return !_mm512_mask_cmpgt_epu16_mask(some, v, _mm512_load_si512(k->range));
}

// The sums: acc and n products a[k] * b[k] in each lane, of which `top` is the largest power of two
// (as the bits of one, or less than TOP_NONE); false as in sem-bf16.c.
AVX512 static inline __attribute__((always_inline)) bool sum_512(const struct constants * k,
                                                                 uint8_t * out, const uint8_t * acc,
                                                                 const __m512 * a, const __m512 * b,
                                                                 int n, __m512i top) {
    const __m512i none = _mm512_set1_epi32(k->none);
    __m512i c = acc ? _mm512_loadu_si512(acc) : _mm512_setzero_si512();
    __m512i power = _mm512_and_si512(c, _mm512_set1_epi32(k->power));
    top = _mm512_max_epi32(top, _mm512_max_epi32(power, none));
    __mmask16 bad = _mm512_cmpgt_epi32_mask(top, _mm512_set1_epi32(k->top_max));
    bad |= _mm512_mask_test_epi32_mask(_mm512_cmpeq_epi32_mask(top, none), c,
                                       _mm512_set1_epi32(k->bits));
    if (bad) {
        return false;
    }
    __m512 units = _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_set1_epi32(k->units), top));
    __m512i sum[2] = {_mm512_cvtps_epi32(_mm512_mul_ps(_mm512_castsi512_ps(c), units)),
                      _mm512_setzero_si512()};
    for (int j = 0; j < n; j++) {
        __m512i term = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_mul_ps(a[j], b[j]), units));
        sum[j & 1] = _mm512_add_epi32(sum[j & 1], term);
    }
    __m512 scale = _mm512_castsi512_ps(_mm512_sub_epi32(top, _mm512_set1_epi32(k->whole)));
    __m512 whole = _mm512_cvtepi32_ps(_mm512_add_epi32(sum[0], sum[1]));
    _mm512_storeu_ps(out, _mm512_mul_ps(whole, scale));
    return true;
}

// Exponents of products, the lower half of each lane, as the bits of powers of two.
AVX512 static inline __m512i top_512(const struct constants * k, __m512i exponents) {
    return _mm512_add_epi32(_mm512_slli_epi32(exponents, 16), _mm512_set1_epi32(k->top_min));
}

// The row of a matrix in all four rows of lanes.
AVX512 static inline __m512i everywhere(const uint8_t * matrix, int row) {
    const void * from = matrix + 16 * row;
    return _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *) from));
}

// Exponents are added and compared in pairs of k, before the factors become fp32. Rows of y go by
// way of memory, from where they come back to all four rows of lanes.
AVX512 bool sem_x86_512_bf16_4x8x4(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                                   const uint8_t * y) {
    const struct constants * k = in_memory();
    const __m512i upper = _mm512_set1_epi32(k->upper);
    __m512i xs = _mm512_loadu_si512(x), ys = _mm512_loadu_si512(y), ex, ey;
    bool fine = exponents_512(k, xs, &ex);
    if (!(exponents_512(k, ys, &ey) & fine)) {
        return false;
    }
    _Alignas(64) uint8_t even[64], odd[64], exponent[64];
    __m512i rows = _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *) (const void *) k->rows));
    _mm512_store_si512(even, _mm512_unpacklo_epi16(_mm512_setzero_si512(), ys));
    _mm512_store_si512(odd, _mm512_unpackhi_epi16(_mm512_setzero_si512(), ys));
    _mm512_store_si512(exponent, _mm512_shuffle_epi8(ey, rows));
    __asm__("" : "+m"(even), "+m"(odd), "+m"(exponent)); // not by shuffling registers
    __m512 a[8], b[8];
    __m512i e[4];
#    define PAIR(j)                                                                                \
        do {                                                                                       \
            __m512i pair = _mm512_shuffle_epi32(xs, (_MM_PERM_ENUM) ((j) *0x55));                  \
            a[2 * (j)] = _mm512_castsi512_ps(_mm512_slli_epi32(pair, 16));                         \
            a[2 * (j) + 1] = _mm512_castsi512_ps(_mm512_and_si512(pair, upper));                   \
            b[2 * (j)] = _mm512_castsi512_ps(everywhere(even, j));                                 \
            b[2 * (j) + 1] = _mm512_castsi512_ps(everywhere(odd, j));                              \
            e[j] = _mm512_add_epi16(_mm512_shuffle_epi32(ex, (_MM_PERM_ENUM) ((j) *0x55)),         \
                                    everywhere(exponent, j));                                      \
        } while (0)
    PAIR(0);
    PAIR(1);
    PAIR(2);
    PAIR(3);
#    undef PAIR
    __m512i most = _mm512_max_epi16(_mm512_max_epi16(e[0], e[1]), _mm512_max_epi16(e[2], e[3]));
    most = _mm512_max_epi16(most, _mm512_srli_epi32(most, 16));
    return sum_512(k, out, acc, a, b, 8, top_512(k, most));
}

AVX512 static inline __m512 widen_512(__m256i v) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}

AVX512 bool sem_x86_512_bf16_pairs(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                                   const uint8_t * y) {
    const struct constants * k = in_memory();
    __m512i xs = _mm512_loadu_si512(x), ys = _mm512_loadu_si512(y), ex, ey;
    bool fine = exponents_512(k, xs, &ex);
    if (!(exponents_512(k, ys, &ey) & fine)) {
        return false;
    }
    __m512 a[2] = {widen_512(_mm512_castsi512_si256(xs)),
                   widen_512(_mm512_extracti64x4_epi64(xs, 1))};
    __m512 b[2] = {widen_512(_mm512_castsi512_si256(ys)),
                   widen_512(_mm512_extracti64x4_epi64(ys, 1))};
    __m512i e = _mm512_add_epi16(ex, ey);
    __m256i most = _mm256_max_epi16(_mm512_castsi512_si256(e), _mm512_extracti64x4_epi64(e, 1));
    return sum_512(k, out, acc, a, b, 2, top_512(k, _mm512_cvtepu16_epi32(most)));
}

// Sixteen lanes with a product each, the factors as fp32; *slow: lanes that are left to the rule.
AVX512 static inline __attribute__((always_inline)) __m512i
elements_512(__m512i a, __m512i vx, __m512i vy, __mmask16 * slow_lanes) {
    const __m512i magnitude = _mm512_set1_epi32(MAGNITUDE), exponent = _mm512_set1_epi32(EXPONENT);
    const __m512i sign = _mm512_set1_epi32(INT32_MIN), zero = _mm512_setzero_si512();
    __m512i ex = _mm512_and_si512(vx, exponent), ey = _mm512_and_si512(vy, exponent);
    __m512i ma = _mm512_and_si512(a, magnitude), of_acc = _mm512_and_si512(a, exponent);
    __mmask16 some = _mm512_test_epi32_mask(vx, magnitude) & _mm512_test_epi32_mask(vy, magnitude);
    // halved, for the sum may have a ninth bit
    __m512i power =
        _mm512_sub_epi32(_mm512_add_epi32(_mm512_srli_epi32(ex, 1), _mm512_srli_epi32(ey, 1)),
                         _mm512_set1_epi32(127 << 22));
    __mmask16 stays = _mm512_cmpeq_epi32_mask(of_acc, exponent) &
                      _mm512_cmplt_epi32_mask(power, _mm512_set1_epi32(225 << 22));
    __mmask16 slow = ~stays & _mm512_cmpge_epi32_mask(ma, _mm512_set1_epi32(0x7f000000));
    slow |= _mm512_cmpeq_epi32_mask(ex, exponent) | _mm512_cmpeq_epi32_mask(ey, exponent);
    slow |= some & (_mm512_cmpeq_epi32_mask(ex, zero) | _mm512_cmpeq_epi32_mask(ey, zero) |
                    _mm512_cmplt_epi32_mask(power, _mm512_set1_epi32(2 << 22)) |
                    _mm512_cmpgt_epi32_mask(power, _mm512_set1_epi32(250 << 22)));
    __m512i product =
        _mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(vx), _mm512_castsi512_ps(vy)));
    __m512i mp = _mm512_and_si512(product, magnitude);
    power = _mm512_max_epi32(_mm512_maskz_slli_epi32(some, power, 1), of_acc);
    __m512 top = _mm512_castsi512_ps(power);
    // what lies below the larger power is aligned to it
    __m512i da =
        _mm512_castps_si512(_mm512_sub_ps(_mm512_add_ps(_mm512_castsi512_ps(ma), top), top));
    __m512i dp =
        _mm512_castps_si512(_mm512_sub_ps(_mm512_add_ps(_mm512_castsi512_ps(mp), top), top));
    da = _mm512_mask_mov_epi32(ma, _mm512_cmplt_epi32_mask(ma, power), da);
    dp = _mm512_mask_mov_epi32(mp, _mm512_cmplt_epi32_mask(mp, power), dp);
    da = _mm512_or_si512(da, _mm512_and_si512(a, sign));
    dp = _mm512_or_si512(dp, _mm512_and_si512(product, sign));
    __m512i r =
        _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(da), _mm512_castsi512_ps(dp)));
    __m512i m = _mm512_and_si512(r, magnitude);
    // too small for a normal number: zero, with the sign that it had
    __mmask16 small = _mm512_cmplt_epi32_mask(m, _mm512_set1_epi32(SMALLEST));
    r = _mm512_mask_and_epi32(r, small, r, sign);
    r = _mm512_maskz_mov_epi32(_mm512_test_epi32_mask(m, m), r);
    __m512i kept = _mm512_and_si512(a, _mm512_or_si512(sign, exponent));
    kept = _mm512_mask_or_epi32(kept, _mm512_cmpgt_epi32_mask(ma, exponent), kept,
                                _mm512_set1_epi32(1));
    *slow_lanes = slow;
    return _mm512_mask_mov_epi32(r, stays, kept);
}

// The same for numbers of ordinary size: half of the steps. What is below the larger power is
// aligned to it by adding that power and taking it away again.
AVX512 static inline __attribute__((always_inline)) __m512i
ordinary_512(const struct constants * k, __m512i a, __m256i x, __m256i y, __m256i exponents) {
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    __m512 product = _mm512_mul_ps(widen_512(x), widen_512(y));
    __m512i of_product = top_512(k, _mm512_cvtepu16_epi32(exponents));
    __m512i of_acc = _mm512_and_si512(a, _mm512_set1_epi32(k->power));
    __m512i top = _mm512_max_epi32(of_product, of_acc);
    // the power with the sign of what it is added to: bits of the first, of the second where `sign`
    __m512 with_a = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(top, a, sign, 0xd8));
    __m512 with_p = _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(top, _mm512_castps_si512(product), sign, 0xd8));
    __m512 acc = _mm512_castsi512_ps(a);
    acc = _mm512_mask_sub_ps(acc, _mm512_cmplt_epi32_mask(of_acc, top), _mm512_add_ps(acc, with_a),
                             with_a);
    product = _mm512_mask_sub_ps(product, _mm512_cmplt_epi32_mask(of_product, top),
                                 _mm512_add_ps(product, with_p), with_p);
    // no zero is negative
    return _mm512_castps_si512(_mm512_add_ps(_mm512_add_ps(acc, product), _mm512_setzero_ps()));
}

// Lanes of accumulators that are neither zero nor of ordinary size.
AVX512 static inline __mmask16 odd_acc_512(const struct constants * k, __m512i a) {
    __m512i magnitude = _mm512_and_si512(a, _mm512_set1_epi32(k->bits));
    __m512i above = _mm512_sub_epi32(magnitude, _mm512_set1_epi32(k->top_min));
    return _mm512_mask_cmpge_epu32_mask(_mm512_test_epi32_mask(magnitude, magnitude), above,
                                        _mm512_set1_epi32(k->acc_range));
}

AVX512 uint64_t sem_x86_512_bf16_elements(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                                          const uint8_t * y, int lanes, int products,
                                          uint32_t flip) {
    const struct constants * k = in_memory();
    const __m256i flips = _mm256_set1_epi16((int16_t) (flip >> 16));
    uint64_t left = 0;
    for (int at = 0; at < lanes; at += 32) {
        int n = lanes - at < 32 ? 1 : 2; // vectors of sixteen
        __m512i a[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()}, ex, ey;
        __m256i vx[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, vy[2] = {flips, flips};
        for (int i = 0; i < n; i++) {
            int first = at + 16 * i;
            a[i] = acc ? _mm512_loadu_si512(acc + 4 * first) : a[i];
            if (first < products) {
                vx[i] = load_256(x + 2 * first);
                vy[i] = _mm256_xor_si256(load_256(y + 2 * first), flips);
            }
        }
        bool fine =
            exponents_512(k, _mm512_inserti64x4(_mm512_castsi256_si512(vx[0]), vx[1], 1), &ex);
        fine &= exponents_512(k, _mm512_inserti64x4(_mm512_castsi256_si512(vy[0]), vy[1], 1), &ey);
        fine &= (odd_acc_512(k, a[0]) | odd_acc_512(k, a[1])) == 0;
        __m512i e = _mm512_add_epi16(ex, ey);
        for (int i = 0; i < n; i++) {
            uint8_t * to = out + 4 * (at + 16 * i);
            if (fine) {
                __m256i half = i ? _mm512_extracti64x4_epi64(e, 1) : _mm512_castsi512_si256(e);
                _mm512_storeu_si512(to, ordinary_512(k, a[i], vx[i], vy[i], half));
                continue;
            }
            __mmask16 slow;
            __m512i sum = elements_512(a[i], _mm512_castps_si512(widen_512(vx[i])),
                                       _mm512_castps_si512(widen_512(vy[i])), &slow);
            _mm512_mask_storeu_epi32(to, (__mmask16) ~slow, sum);
            left |= (uint64_t) slow << (at + 16 * i);
        }
    }
    return left;
}

// ---- bf16, eight lanes: two rows at a time ----

AVX2 static inline __m256i bad_factors_256(__m256i v) {
    const __m256i low = _mm256_set1_epi16(FACTOR_LOW), high = _mm256_set1_epi16(FACTOR_HIGH);
    v = _mm256_and_si256(v, _mm256_set1_epi16(0x7fff));
    __m256i small = _mm256_andnot_si256(_mm256_cmpeq_epi16(v, _mm256_setzero_si256()),
                                        _mm256_cmpgt_epi16(low, v));
    return _mm256_or_si256(small, _mm256_cmpgt_epi16(v, high));
}

AVX2 static inline __m256 power_256(__m256 v) {
    return _mm256_castsi256_ps(
        _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(EXPONENT)));
}

#    define ELEMENTS        elements_256
#    define ELEMENTS_TARGET AVX2
#    define ELEMENTS_WIDTH  8
#    include "emu/aie/sem-elements.h"

uint64_t sem_x86_256_bf16_elements(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                                   const uint8_t * y, int lanes, int products, uint32_t flip) {
    return elements_256(out, acc, x, y, lanes, products, flip);
}

// As sum_512, for half of the lanes; what is bad is reported, not acted upon.
AVX2 static inline __attribute__((always_inline)) __m256
sum_256(__m256 c, const __m256 * a, const __m256 * b, int n, __m256i * bad) {
    const __m256i none = _mm256_set1_epi32(TOP_NONE << 23);
    __m256i top = _mm256_max_epi32(_mm256_castps_si256(power_256(c)), none);
    for (int k = 0; k < n; k++) {
        __m256 power = _mm256_mul_ps(power_256(a[k]), power_256(b[k]));
        top = _mm256_max_epi32(top, _mm256_castps_si256(power));
    }
    __m256i magnitude = _mm256_slli_epi32(_mm256_castps_si256(c), 1);
    __m256i mute = _mm256_andnot_si256(_mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256()),
                                       _mm256_cmpeq_epi32(top, none));
    __m256i large = _mm256_cmpgt_epi32(top, _mm256_set1_epi32(TOP_MAX << 23));
    *bad = _mm256_or_si256(*bad, _mm256_or_si256(mute, large));
    __m256 units =
        _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_set1_epi32((int) (277u << 23)), top));
    __m256i sum = _mm256_cvtps_epi32(_mm256_mul_ps(c, units));
    for (int k = 0; k < n; k++) {
        __m256 product = _mm256_mul_ps(a[k], b[k]);
        sum = _mm256_add_epi32(sum, _mm256_cvtps_epi32(_mm256_mul_ps(product, units)));
    }
    __m256 scale = _mm256_castsi256_ps(_mm256_sub_epi32(top, _mm256_set1_epi32(23 << 23)));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale);
}

AVX2 static inline bool store_256(uint8_t * out, const __m256 half[2], __m256i bad) {
    if (!_mm256_testz_si256(bad, bad)) {
        return false;
    }
    _mm256_storeu_ps((float *) (void *) out, half[0]);
    _mm256_storeu_ps((float *) (void *) (out + 32), half[1]);
    return true;
}

AVX2 static inline __m256 load_acc_256(const uint8_t * acc, int half) {
    return acc ? _mm256_castsi256_ps(load_256(acc + 32 * half)) : _mm256_setzero_ps();
}

AVX2 bool sem_x86_256_bf16_4x8x4(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                                 const uint8_t * y) {
    const __m256i upper = _mm256_set1_epi32((int) 0xffff0000), zero = _mm256_setzero_si256();
    __m256i bad = zero;
    __m256 b[8], half[2];
    for (int i = 0; i < 2; i++) {
        __m256i ys = load_256(y + 32 * i);
        __m256i even = _mm256_unpacklo_epi16(zero, ys), odd = _mm256_unpackhi_epi16(zero, ys);
        b[4 * i] = _mm256_castsi256_ps(_mm256_permute2x128_si256(even, even, 0x00));
        b[4 * i + 1] = _mm256_castsi256_ps(_mm256_permute2x128_si256(odd, odd, 0x00));
        b[4 * i + 2] = _mm256_castsi256_ps(_mm256_permute2x128_si256(even, even, 0x11));
        b[4 * i + 3] = _mm256_castsi256_ps(_mm256_permute2x128_si256(odd, odd, 0x11));
        bad = _mm256_or_si256(bad, bad_factors_256(ys));
    }
    for (int i = 0; i < 2; i++) {
        __m256i xs = load_256(x + 32 * i);
        __m256 a[8];
#    define PAIR(j)                                                                                \
        do {                                                                                       \
            __m256i pair = _mm256_shuffle_epi32(xs, (j) *0x55);                                    \
            a[2 * (j)] = _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16));                         \
            a[2 * (j) + 1] = _mm256_castsi256_ps(_mm256_and_si256(pair, upper));                   \
        } while (0)
        PAIR(0);
        PAIR(1);
        PAIR(2);
        PAIR(3);
#    undef PAIR
        bad = _mm256_or_si256(bad, bad_factors_256(xs));
        half[i] = sum_256(load_acc_256(acc, i), a, b, 8, &bad);
    }
    return store_256(out, half, bad);
}

AVX2 static inline __m256 widen_256(const uint8_t * v) {
    __m128i lanes = _mm_loadu_si128((const __m128i *) (const void *) v);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(lanes), 16));
}

AVX2 bool sem_x86_256_bf16_pairs(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                                 const uint8_t * y) {
    __m256i bad = _mm256_setzero_si256();
    __m256 half[2];
    for (int i = 0; i < 2; i++) {
        bad = _mm256_or_si256(bad, bad_factors_256(load_256(x + 32 * i)));
        bad = _mm256_or_si256(bad, bad_factors_256(load_256(y + 32 * i)));
        __m256 a[2] = {widen_256(x + 16 * i), widen_256(x + 32 + 16 * i)};
        __m256 b[2] = {widen_256(y + 16 * i), widen_256(y + 32 + 16 * i)};
        half[i] = sum_256(load_acc_256(acc, i), a, b, 2, &bad);
    }
    return store_256(out, half, bad);
}

// ---- integers: neighbouring k in pairs of 16 bits, two products and their sum at once ----

AVX2 static inline __m256i pair_of(const int32_t * pairs, int i) {
    return _mm256_set1_epi32(pairs[i]);
}

// Sixteen lanes of 8 bits as 16.
AVX2 static inline __m256i widen_8(__m128i v, bool is_signed) {
    return is_signed ? _mm256_cvtepi8_epi16(v) : _mm256_cvtepu8_epi16(v);
}

AVX2 static inline __m128i load_128(const uint8_t * p) {
    return _mm_loadu_si128((const __m128i *) (const void *) p);
}

AVX2 void sem_x86_256_i8_4x8x8(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                               const uint8_t * y, bool x_signed, bool y_signed) {
    const __m128i zip = _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    _Alignas(32) int32_t a[16]; // row by row, four pairs each
    __m256i b[4];
    for (int i = 0; i < 2; i++) {
        __m256i rows = widen_8(load_128(x + 16 * i), x_signed);
        _mm256_store_si256((__m256i *) (void *) (a + 8 * i), rows);
    }
    for (int j = 0; j < 4; j++) {
        b[j] = widen_8(_mm_shuffle_epi8(load_128(y + 16 * j), zip), y_signed);
    }
    for (int r = 0; r < 4; r++) {
        __m256i sum = acc ? load_256(acc + 32 * r) : _mm256_setzero_si256();
        for (int j = 0; j < 4; j++) {
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pair_of(a, 4 * r + j), b[j]));
        }
        _mm256_storeu_si256((__m256i *) (void *) (out + 32 * r), sum);
    }
}

// The sum of two products fits 32 bits but for one: 2^31 reads as -2^31, which is no other sum. So
// one less than the sum always fits; `ones` gives back what that takes.
AVX2 static inline __m256i sum_64(__m256i sum, const int32_t * pair, const __m128i * b, int step) {
    const __m128i one = _mm_set1_epi32(1);
    const __m256i ones = _mm256_set1_epi64x(2);
    for (int j = 0; j < 2; j++) {
        __m128i products = _mm_madd_epi16(_mm_set1_epi32(pair[j]), b[j * step]);
        sum = _mm256_add_epi64(sum, _mm256_cvtepi32_epi64(_mm_sub_epi32(products, one)));
    }
    return _mm256_add_epi64(sum, ones);
}

AVX2 void sem_x86_256_i16_64(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                             const uint8_t * y, bool wide) {
    int32_t a[16];
    __m128i b[4];
    memcpy(a, x, sizeof(a));
    for (int j = 0; j < 2; j++) {
        __m128i k0 = load_128(y + (wide ? 32 : 16) * j);
        __m128i k1 = wide ? load_128(y + 32 * j + 16) : _mm_srli_si128(k0, 8);
        b[2 * j] = _mm_unpacklo_epi16(k0, k1);
        b[2 * j + 1] = _mm_unpackhi_epi16(k0, k1); // columns 4 to 7
    }
    for (int i = 0; i < 4; i++) {
        __m256i sum = acc ? load_256(acc + 32 * i) : _mm256_setzero_si256();
        sum = wide ? sum_64(sum, a + i / 2 * 2, b + i % 2, 2) : sum_64(sum, a + 2 * i, b, 2);
        _mm256_storeu_si256((__m256i *) (void *) (out + 32 * i), sum);
    }
}

AVX2 void sem_x86_256_i16_4x2x8(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                                const uint8_t * y) {
    int32_t a[4];
    memcpy(a, x, sizeof(a));
    __m128i k0 = load_128(y), k1 = load_128(y + 16);
    __m256i b = _mm256_set_m128i(_mm_unpackhi_epi16(k0, k1), _mm_unpacklo_epi16(k0, k1));
    for (int r = 0; r < 4; r++) {
        __m256i sum = acc ? load_256(acc + 32 * r) : _mm256_setzero_si256();
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pair_of(a, r), b));
        _mm256_storeu_si256((__m256i *) (void *) (out + 32 * r), sum);
    }
}

#else
typedef int sem_x86_nothing; // a file without a declaration is not ISO C
#endif

// sha256: see the header. Names in the rounds are those of FIPS 180-4. x86 processors of the last
// years have instructions for it, which are six times as fast.
#include "sha256.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__) && !defined(SHA256_PORTABLE)
#    include <cpuid.h>
#    include <immintrin.h>
#endif

enum { BLOCK = 64 };

// The first 32 bits behind the point of the cube roots of the first 64 primes.
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static uint32_t big_endian(const uint8_t * p) {
    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
}

// One round: instead of all eight words moving on, the next round takes them shifted by one.
static inline void mix(uint32_t a, uint32_t b, uint32_t c, uint32_t * d, uint32_t e, uint32_t f,
                       uint32_t g, uint32_t * h, uint32_t word) {
    uint32_t choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
    uint32_t t1 = *h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choice + word;
    *d += t1;
    *h = t1 + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority;
}

static void add_block(uint32_t hash[8], const uint8_t * block) {
    uint32_t w[64];
    for (int t = 0; t < 16; t++) {
        w[t] = big_endian(block + 4 * t);
    }
    for (int t = 16; t < 64; t++) {
        uint32_t x = w[t - 15], y = w[t - 2];
        w[t] = w[t - 16] + (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + w[t - 7] +
               (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
    }
    uint32_t a = hash[0], b = hash[1], c = hash[2], d = hash[3];
    uint32_t e = hash[4], f = hash[5], g = hash[6], h = hash[7];
    for (int t = 0; t < 64; t += 8) {
        const uint32_t *k = constants + t, *v = w + t;
        mix(a, b, c, &d, e, f, g, &h, k[0] + v[0]);
        mix(h, a, b, &c, d, e, f, &g, k[1] + v[1]);
        mix(g, h, a, &b, c, d, e, &f, k[2] + v[2]);
        mix(f, g, h, &a, b, c, d, &e, k[3] + v[3]);
        mix(e, f, g, &h, a, b, c, &d, k[4] + v[4]);
        mix(d, e, f, &g, h, a, b, &c, k[5] + v[5]);
        mix(c, d, e, &f, g, h, a, &b, k[6] + v[6]);
        mix(b, c, d, &e, f, g, h, &a, k[7] + v[7]);
    }
    const uint32_t mixed[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++) {
        hash[i] += mixed[i];
    }
}

static void add_blocks(uint32_t hash[8], const uint8_t * p, size_t n) {
    for (; n; n--, p += BLOCK) {
        add_block(hash, p);
    }
}

#if defined(__x86_64__) && !defined(SHA256_PORTABLE)
// Asked once: in a virtual machine the answer takes as long as the digest of a kilobyte.
static bool has_instructions(void) {
    enum { UNKNOWN, NO, YES };
    static atomic_int known;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == UNKNOWN) {
        unsigned a, b = 0, c = 0, d;
        bool sse = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) && (c & bit_SSSE3);
        answer = sse && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA) ? YES : NO;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == YES;
}

// Words a, b, e, f are in one register and c, d, g, h in the other; an instruction does two rounds.
__attribute__((target("sha,sse4.1,ssse3"))) static void
add_blocks_x86(uint32_t hash[8], const uint8_t * p, size_t n) {
    const __m128i big_endian_words = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *) hash), 0xb1);
    __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *) (hash + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, hgfe, 8), cdgh = _mm_blend_epi16(hgfe, cdab, 0xf0);
    for (; n; n--, p += BLOCK) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4]; // the words of these four rounds, and of the next twelve
        for (int i = 0; i < 4; i++) {
            w[i] = _mm_loadu_si128((const __m128i *) (p + 16 * i));
            w[i] = _mm_shuffle_epi8(w[i], big_endian_words);
        }
        for (int t = 0; t < 64; t += 4) {
            const __m128i k = _mm_loadu_si128((const __m128i *) (constants + t));
            const __m128i sum = _mm_add_epi32(w[0], k);
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
            __m128i next =
                _mm_add_epi32(_mm_sha256msg1_epu32(w[0], w[1]), _mm_alignr_epi8(w[3], w[2], 4));
            next = _mm_sha256msg2_epu32(next, w[3]);
            w[0] = w[1];
            w[1] = w[2];
            w[2] = w[3];
            w[3] = next;
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *) hash, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *) (hash + 4), _mm_alignr_epi8(dchg, feba, 8));
}
#endif

typedef void (*adder)(uint32_t hash[8], const uint8_t * p, size_t n);

static adder fastest(void) {
#if defined(__x86_64__) && !defined(SHA256_PORTABLE)
    if (has_instructions()) {
        return add_blocks_x86;
    }
#endif
    return add_blocks;
}

void sha256(const void * data, size_t size, uint8_t digest[SHA256_BYTES]) {
    // Likewise the square roots of the first eight.
    uint32_t hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t last[2 * BLOCK] = {0}; // what is left over, a 1 bit, zeros, and the length in bits
    size_t left = size % BLOCK;
    adder add = fastest();
    add(hash, data, size / BLOCK);
    if (left) { // no bytes may have no address
        memcpy(last, (const uint8_t *) data + (size - left), left);
    }
    last[left] = 0x80;
    size_t padded = left < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    for (int i = 0; i < 8; i++) {
        last[padded - 1 - (size_t) i] = (uint8_t) ((uint64_t) size << 3 >> 8 * i);
    }
    add(hash, last, padded / BLOCK);
    for (int i = 0; i < SHA256_BYTES; i++) {
        digest[i] = (uint8_t) (hash[i / 4] >> (24 - 8 * (i % 4)));
    }
}

void sha256_print(const uint8_t digest[SHA256_BYTES], char text[SHA256_TEXT]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < SHA256_BYTES; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[2 * SHA256_BYTES] = '\0';
}

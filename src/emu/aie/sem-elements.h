// sem-elements: one product to each lane, ELEMENTS_WIDTH lanes at a time: four as every host has
// them (sem-bf16.c), eight with AVX2 (sem-x86.c). Who includes it names the function, ELEMENTS, and
// what its host must have, ELEMENTS_TARGET.
//
// The host's adder does it, as in sem-float.c's add4: a product of bf16 numbers is exact, and both
// are aligned to the larger of two powers, its own being the product of its factors'. Lanes with
// infinite or NaN factors, subnormal ones or exponents at either end are left to the rule. An
// infinity or a NaN that was there before stays, and of its mantissa nothing, where the product is
// too small to change that: rows of padding have them, and all of their products follow.
#include <string.h>

#include "emu/aie/sem-v4.h"

typedef float elements_f __attribute__((vector_size(4 * ELEMENTS_WIDTH)));
typedef int32_t elements_i __attribute__((vector_size(4 * ELEMENTS_WIDTH)));
typedef uint32_t elements_u __attribute__((vector_size(4 * ELEMENTS_WIDTH)));
typedef uint16_t elements_h __attribute__((vector_size(2 * ELEMENTS_WIDTH)));

#define ELEMENTS_SELECT(mask, yes, no) (((yes) & (mask)) | ((no) & ~(mask)))

// The first `products` of up to 64 lanes have a product. Returns, as bits, the lanes that are left
// to the rule; these are not written.
ELEMENTS_TARGET static uint64_t ELEMENTS(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                                         const uint8_t * y, int lanes, int products,
                                         uint32_t flip) {
    enum { WIDTH = ELEMENTS_WIDTH };
    uint64_t left = 0;
    for (int at = 0; at < lanes; at += WIDTH) {
        elements_i before = {0};
        elements_h hx = {0}, hy = {0};
        if (acc) {
            memcpy(&before, acc + 4 * at, sizeof before);
        }
        if (at < products) {
            memcpy(&hx, x + 2 * at, sizeof hx);
            memcpy(&hy, y + 2 * at, sizeof hy);
        }
        elements_i vx = __builtin_convertvector(hx, elements_i) << 16;
        elements_i vy = (__builtin_convertvector(hy, elements_i) << 16) ^ (int32_t) flip;
        elements_i ex = vx & EXPONENT, ey = vy & EXPONENT, ma = before & MAGNITUDE;
        elements_i none = ((vx & MAGNITUDE) == 0) | ((vy & MAGNITUDE) == 0);
        // halved, for the sum may have a ninth bit
        elements_i power = (ex >> 1) + (ey >> 1) - (127 << 22);
        elements_i stays = (ma >= EXPONENT) & (power < 225 << 22);
        elements_i slow =
            (~stays & (ma >= 0x7f000000)) | (ex == EXPONENT) | (ey == EXPONENT) |
            (~none & ((ex == 0) | (ey == 0) | (power < 2 << 22) | (power > 250 << 22)));
        elements_i product = (elements_i) ((elements_f) vx * (elements_f) vy);
        elements_i mp = product & MAGNITUDE, of_acc = ma & EXPONENT;
        // of slow lanes beyond what an int holds
        power = (elements_i) ((elements_u) (power & ~none) * 2);
        power = ELEMENTS_SELECT(power > of_acc, power, of_acc);
        elements_f top = (elements_f) power;
        elements_i a = (elements_i) (((elements_f) ma + top) - top);
        elements_i p = (elements_i) (((elements_f) mp + top) - top);
        a = ELEMENTS_SELECT(ma < power, a, ma) | (before & INT32_MIN);
        p = ELEMENTS_SELECT(mp < power, p, mp) | (product & INT32_MIN);
        elements_i r = (elements_i) ((elements_f) a + (elements_f) p), m = r & MAGNITUDE;
        r = (r & (m >= SMALLEST)) | (r & INT32_MIN & (m != 0));
        r = ELEMENTS_SELECT(stays, (before & (INT32_MIN | EXPONENT)) | ((ma > EXPONENT) & 1), r);
        uint64_t words[WIDTH / 2], any = 0;
        memcpy(words, &slow, sizeof words);
        for (int i = 0; i < WIDTH / 2; i++) {
            any |= words[i];
        }
        if (!any) { // nearly always, and lanes one by one take longer than all of the above
            memcpy(out + 4 * at, &r, sizeof r);
            continue;
        }
        for (int i = 0; i < WIDTH; i++) {
            if (slow[i]) {
                left |= UINT64_C(1) << (at + i);
            } else {
                memcpy(out + 4 * (at + i), (char *) &r + 4 * i, 4);
            }
        }
    }
    return left;
}
#undef ELEMENTS
#undef ELEMENTS_TARGET
#undef ELEMENTS_WIDTH
#undef ELEMENTS_SELECT

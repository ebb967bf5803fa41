// pack_k: f32 to ggml's blocks of 256 numbers, q2_K to q6_K and iq4_xs, by ggml's own search for
// scales and in its order, so that a cache holds the same bits as the CPU's. A block's numbers are
// found together, by one work-item: each of the parts has a scale, which is then rounded to a
// multiple of the block's, and by that the numbers are made.
#ifndef ROCM_KERNELS_PACK_K_H
#define ROCM_KERNELS_PACK_K_H

#include "pack.h"

// Sums are made of products that were rounded, here and in all that follows, as the CPU's are.
#ifdef __clang__
#    pragma clang fp contract(off)
#endif

DEVICE i32 nearest(f32 v, i32 least, i32 most) {
    i32 n = (i32) m_rint(v);
    return n < least ? least : n > most ? most : n;
}
#define NO_SIZE 1e-15f // what is less than it counts as 0

// ---- numbers from a minimum up ----

// How far numbers that are l * mul + add lie from x; larger ones weigh more.
template <int N, bool SQUARE>
DEVICE f32 error_of(const f32 * x, f32 weight, const u8 * l, f32 mul, f32 add) {
    f32 sum = 0;
    for (u32 i = 0; i < N; i++) {
        f32 off = mul * (f32) l[i] + add - x[i];
        sum += (weight + m_abs(x[i])) * (SQUARE ? off * off : m_abs(off));
    }
    return sum;
}

// Scale and offset for numbers up to MOST: those of the range, and then by least squares for what
// the numbers would be with STEPS + 1 other scales, of which the best stays. l: its numbers.
template <int N, int MOST, int STEPS, bool SQUARE>
DEVICE scale fit_range(const f32 * x, f32 weight, f32 first, u8 * l) {
    f32 least = x[0], most = x[0], sum_w = weight + m_abs(x[0]), sum_x = sum_w * x[0];
    for (u32 i = 1; i < N; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
        f32 w = weight + m_abs(x[i]);
        sum_w += w;
        sum_x += w * x[i];
    }
    least = least > 0 ? 0 : least;
    bool even = most == least;
    f32 steps = even ? 0 : (f32) MOST / (most - least);
    for (u32 i = 0; i < N; i++) {
        l[i] = (u8) nearest(steps * (x[i] - least), 0, MOST);
    }
    scale best = scale_of(even ? 0 : 1 / steps, least);
    f32 error = even ? 0 : error_of<N, SQUARE>(x, weight, l, best.mul, best.add);
#pragma unroll 1
    for (i32 step = 0; step <= STEPS && !even; step++) {
        u8 other[N];
        f32 sum_l = 0, sum_l2 = 0, sum_xl = 0;
        steps = (first + 0.1f * (f32) step + (f32) MOST) / (most - best.add);
        for (u32 i = 0; i < N; i++) {
            f32 w = weight + m_abs(x[i]);
            other[i] = (u8) nearest(steps * (x[i] - best.add), 0, MOST);
            sum_l += w * (f32) other[i];
            sum_l2 += w * (f32) other[i] * (f32) other[i];
            sum_xl += w * (f32) other[i] * x[i];
        }
        f32 all = sum_w * sum_l2 - sum_l * sum_l;
        scale s = scale_of((sum_w * sum_xl - sum_x * sum_l) / all,
                           (sum_l2 * sum_x - sum_l * sum_xl) / all);
        s = s.add > 0 ? scale_of(sum_xl / sum_l2, 0) : s;
        f32 e = all > 0 ? error_of<N, SQUARE>(x, weight, other, s.mul, s.add) : error;
        if (e < error) {
            error = e;
            best = s;
            __builtin_memcpy(l, other, N);
        }
    }
    return best;
}

struct parts { // scales, and what is taken away; the greatest of both, 0 at least
    scale of[16];
    f32 most_mul, most_sub;
};
DEVICE void add_part(parts & p, u32 i, scale s) {
    p.of[i] = s;
    p.most_mul = s.mul > p.most_mul ? s.mul : p.most_mul;
    p.most_sub = -s.add > p.most_sub ? -s.add : p.most_sub;
}
// By the block's own scales. Where one is 0, what was found before stays.
template <int N, int MOST, class Q> DEVICE void numbers_of(const f32 * x, const Q * y, u8 * l) {
#pragma unroll 1
    for (u32 i = 0; i < 256; i += N) {
        scale s = y->scale_at(i);
        for (u32 j = i; j < i + N && s.mul != 0; j++) {
            l[j] = (u8) nearest((x[j] - s.add) / s.mul, 0, MOST);
        }
    }
}

// Two bits of each, and the others, which are `bits` at `shift`, four to a byte.
DEVICE void put_fours(const u8 * l, u32 shift, u8 * q) {
    for (u32 i = 0; i < 64; i++) {
        const u8 * at = l + i / 32 * 128 + i % 32;
        q[i] = (u8) ((at[0] >> shift & 3) | (at[32] >> shift & 3) << 2 |
                     (at[64] >> shift & 3) << 4 | (at[96] >> shift & 3) << 6);
    }
}
// Four bits, of each STEP numbers and those behind them.
template <int STEP> DEVICE void put_nibbles(const u8 * l, u8 * q) {
    for (u32 i = 0; i < 128; i++) {
        const u8 * at = l + i / STEP * (2 * STEP) + i % STEP;
        q[i] = (u8) ((at[0] & 15) | (at[STEP] & 15) << 4);
    }
}
// One bit: of 32 numbers each one its byte.
DEVICE void put_eighths(const u8 * l, u32 shift, u8 * high) {
    for (u32 i = 0; i < 32; i++) {
        u32 bits = 0;
        for (u32 k = 0; k < 8; k++) {
            bits |= (u32) (l[32 * k + i] >> shift & 1) << k;
        }
        high[i] = (u8) bits;
    }
}

DEVICE void pack(const f32 * x, q2_K * y) {
    u8 l[256];
    parts p = {};
#pragma unroll 1
    for (u32 i = 0; i < 16; i++) {
        add_part(p, i, fit_range<16, 3, 15, false>(x + 16 * i, 0, -0.5f, l + 16 * i));
    }
    f32 mul = p.most_mul > 0 ? 15 / p.most_mul : 0, sub = p.most_sub > 0 ? 15 / p.most_sub : 0;
    put_half(y->d, p.most_mul / 15);
    put_half(y->min, p.most_sub / 15);
    for (u32 i = 0; i < 16; i++) {
        u32 low = (u32) (i32) m_rint(mul * p.of[i].mul),
            top = (u32) (i32) m_rint(sub * -p.of[i].add);
        y->scales[i] = (u8) (low | top << 4);
    }
    numbers_of<16, 3>(x, y, l);
    put_fours(l, 0, y->q);
}

// Eight scales and eight minima of 6 bits in 12 bytes.
DEVICE void put_sixes(const parts & p, u8 * s) {
    f32 mul = p.most_mul > 0 ? 63 / p.most_mul : 0, sub = p.most_sub > 0 ? 63 / p.most_sub : 0;
    for (u32 i = 0; i < 8; i++) {
        u32 a = (u8) (i32) m_rint(mul * p.of[i].mul), b = (u8) (i32) m_rint(sub * -p.of[i].add);
        a = a < 63 ? a : 63;
        b = b < 63 ? b : 63;
        if (i < 4) {
            s[i] = (u8) a;
            s[i + 4] = (u8) b;
        } else {
            s[i + 4] = (u8) ((a & 15) | (b & 15) << 4);
            s[i - 4] = (u8) (s[i - 4] | a >> 4 << 6);
            s[i] = (u8) (s[i] | b >> 4 << 6);
        }
    }
}
template <int MOST, int STEPS, class Q>
DEVICE void pack_sixes(const f32 * x, f32 first, Q * y, u8 * l) {
    parts p = {};
#pragma unroll 1
    for (u32 i = 0; i < 8; i++) {
        f32 squares = 0;
        for (u32 j = 0; j < 32; j++) {
            squares += x[32 * i + j] * x[32 * i + j];
        }
        f32 weight = m_sqrt(squares / 32);
        add_part(p, i, fit_range<32, MOST, STEPS, true>(x + 32 * i, weight, first, l + 32 * i));
    }
    put_half(y->d, p.most_mul / 63);
    put_half(y->min, p.most_sub / 63);
    put_sixes(p, y->scales);
    numbers_of<32, MOST>(x, y, l);
}
DEVICE void pack(const f32 * x, q4_K * y) {
    u8 l[256];
    pack_sixes<15, 20>(x, -1, y, l);
    put_nibbles<32>(l, y->q);
}
DEVICE void pack(const f32 * x, q5_K * y) {
    u8 l[256];
    pack_sixes<31, 15>(x, -0.5f, y, l);
    put_nibbles<32>(l, y->q);
    put_eighths(l, 4, y->high);
}

// ---- numbers on both sides of 0 ----

DEVICE f32 farthest(const f32 * x, u32 n) { // from 0, the first of several
    f32 far = 0, size = 0;
    for (u32 i = 0; i < n; i++) {
        far = m_abs(x[i]) > size ? x[i] : far;
        size = m_abs(x[i]) > size ? m_abs(x[i]) : size;
    }
    return far;
}

struct squares { // for a scale by least squares: sums of w x l and w l l, where w is x x
    f32 xl, l2;
};
DEVICE void add_number(squares & s, f32 x, f32 l) {
    f32 w = x * x;
    s.xl += w * x * l;
    s.l2 += w * l * l;
}

// The farthest of 16 numbers is -4; then, five times at most, each one becomes what it should be
// beside the others, where that is better.
DEVICE f32 fit_thirds(const f32 * x, u8 * l) {
    f32 far = farthest(x, 16);
    bool none = m_abs(far) < NO_SIZE;
    squares s = {0, 0};
    for (u32 i = 0; i < 16; i++) {
        i32 n = none ? 0 : nearest(-4 / far * x[i], -4, 3);
        l[i] = (u8) (n + (none ? 0 : 4));
        add_number(s, x[i], (f32) n);
    }
    bool changed = !none;
#pragma unroll 1
    for (u32 turn = 0; turn < 5 && changed; turn++) {
        changed = false;
#pragma unroll 1
        for (u32 i = 0; i < 16; i++) {
            f32 w = x[i] * x[i], old = (f32) l[i] - 4;
            squares t = {s.xl - w * x[i] * old, s.l2 - w * old * old};
            i32 n = t.xl > 0 ? nearest(x[i] * t.l2 / t.xl, -4, 3) : l[i] - 4;
            add_number(t, x[i], (f32) n);
            if (n != l[i] - 4 && t.l2 > 0 && t.xl * t.xl * s.l2 > s.xl * s.xl * t.l2) {
                l[i] = (u8) (n + 4);
                s = t;
                changed = true;
            }
        }
    }
    return s.l2 > 0 && !none ? s.xl / s.l2 : 0;
}

// By the block's own scales, for numbers from -HALF to HALF - 1, which stand HALF higher.
template <int HALF, class Q> DEVICE void centered_of(const f32 * x, const Q * y, u8 * l) {
#pragma unroll 1
    for (u32 i = 0; i < 256; i += 16) {
        f32 d = y->scale_at(i).mul;
        for (u32 j = i; j < i + 16 && d != 0; j++) {
            l[j] = (u8) (nearest(x[j] / d, -HALF, HALF - 1) + HALF);
        }
    }
}

DEVICE void pack(const f32 * x, q3_K * y) {
    u8 l[256];
    f32 scales[16];
#pragma unroll 1
    for (u32 i = 0; i < 16; i++) {
        scales[i] = fit_thirds(x + 16 * i, l + 16 * i);
    }
    f32 far = farthest(scales, 16), each = far != 0 ? -32 / far : 0;
    put_half(y->d, far != 0 ? 1 / each : 0);
    u32 s[16];
    for (u32 i = 0; i < 16; i++) {
        s[i] = far != 0 ? (u32) (nearest(each * scales[i], -32, 31) + 32) : 0;
    }
    for (u32 i = 0; i < 8; i++) {
        y->scales[i] = (u8) ((s[i] & 15) | (s[i + 8] & 15) << 4);
    }
    for (u32 i = 0; i < 4; i++) {
        y->scales[8 + i] =
            (u8) (s[i] >> 4 | s[i + 4] >> 4 << 2 | s[i + 8] >> 4 << 4 | s[i + 12] >> 4 << 6);
    }
    centered_of<4>(x, y, l);
    put_eighths(l, 2, y->high);
    put_fours(l, 0, y->q);
}

// Scales around the one by which the farthest of 16 numbers is -32, of which the best stays.
DEVICE f32 fit_centered(const f32 * x, u8 * l) {
    f32 far = farthest(x, 16), mul = 0, best = 0;
    bool none = m_abs(far) < NO_SIZE;
    for (u32 i = 0; i < 16; i++) {
        l[i] = 0;
    }
#pragma unroll 1
    for (i32 turn = 0; turn < 19 && !none; turn++) { // the middle one first
        i32 step = turn == 0 ? 0 : turn <= 9 ? turn - 10 : turn - 9;
        f32 each = -(32 + 0.1f * (f32) step) / far;
        squares s = {0, 0};
        for (u32 i = 0; i < 16; i++) {
            add_number(s, x[i], (f32) nearest(each * x[i], -32, 31));
        }
        if (turn == 0 || (s.l2 > 0 && s.xl * s.xl > best * s.l2)) {
            for (u32 i = 0; i < 16; i++) {
                l[i] = (u8) (nearest(each * x[i], -32, 31) + 32);
            }
            mul = s.l2 != 0 ? s.xl / s.l2 : 0;
            best = mul * s.xl;
        }
    }
    return mul;
}
DEVICE void pack(const f32 * x, q6_K * y) {
    u8 l[256];
    f32 scales[16];
#pragma unroll 1
    for (u32 i = 0; i < 16; i++) {
        scales[i] = fit_centered(x + 16 * i, l + 16 * i);
    }
    f32 far = farthest(scales, 16);
    bool none = m_abs(far) < NO_SIZE; // then all is 0
    f32 each = none ? 0 : -128 / far;
    put_half(y->d, none ? 0 : 1 / each);
    for (u32 i = 0; i < 16; i++) {
        i32 n = (i32) m_rint(each * scales[i]);
        y->scales[i] = (u8) (int8_t) (n < 127 ? n : 127);
    }
    for (u32 i = 0; i < 256 && none; i++) {
        l[i] = 0;
    }
    centered_of<32>(x, y, l);
    put_nibbles<64>(l, y->low);
    put_fours(l, 4, y->high);
}

// Scales around those by which the farthest of 32 numbers is the first or last of the uneven ones.
DEVICE f32 fit_uneven(const f32 * x) {
    f32 far = farthest(x, 32), mul = 0, best = 0;
    bool none = m_abs(far) < NO_SIZE;
#pragma unroll 1
    for (i32 step = -8; step <= 7 && !none; step++) {
        f32 each = step < -7 ? 1 / (-far / (f32) uneven(0)) : (f32) (step + uneven(0)) / far;
        squares s = {0, 0};
        for (u32 i = 0; i < 32; i++) {
            f32 l = (f32) uneven(nearest_uneven(each * x[i])), w = x[i] * x[i];
            s.xl += w * l * x[i]; // in this order
            s.l2 += w * l * l;
        }
        if (s.l2 > 0 && (step < -7 || s.xl * s.xl > best * s.l2)) {
            mul = s.xl / s.l2;
            best = mul * s.xl;
        }
    }
    return mul;
}
DEVICE void pack(const f32 * x, iq4_xs * y) {
    f32 scales[8];
#pragma unroll 1
    for (u32 i = 0; i < 8; i++) {
        scales[i] = fit_uneven(x + 32 * i);
    }
    f32 d = -farthest(scales, 8) / 32;
    u32 low = 0, high = 0;
    put_half(y->d, d);
#pragma unroll 1
    for (u32 i = 0; i < 8; i++) {
        i32 n = nearest(inverse(d) * scales[i], -32, 31);
        f32 each = inverse(d * (f32) n);
        low |= (u32) ((n + 32) & 15) << 4 * i;
        high |= (u32) ((n + 32) >> 4) << 2 * i;
        for (u32 j = 0; j < 16; j++) {
            u32 a = nearest_uneven(each * x[32 * i + j]);
            y->q[16 * i + j] = (u8) (a | nearest_uneven(each * x[32 * i + 16 + j]) << 4);
        }
    }
    for (u32 i = 0; i < 4; i++) {
        y->low[i] = (u8) (low >> 8 * i);
        y->high[i % 2] = (u8) (high >> 8 * (i % 2));
    }
}

#endif

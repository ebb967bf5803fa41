// matvec_quant: products of a quantized matrix with up to eight columns of bytes. The matrix is
// read once, as it lies in memory, 16 bytes a load whatever a block's length: through LDS, where
// each lane takes a part of 32 numbers of two rows and multiplies it with that of every column,
// four bytes an instruction. While a span of 1024 numbers of the rows is multiplied, the next is on
// its way to registers.
#include "matmul.h"
#include "parts.h"

enum { SPAN = 1024, TEAM = 32 };

// ggml's CPU multiplies blocks of 32 with bytes whose scale is an f16, and longer ones with bytes
// whose scale is an f32. Rounded as there, sums differ by their order alone.
template <class Q> DEVICE rk_scale scale_for(rk_scale s) {
    s.d = Q::LENGTH == 32 ? widen(narrow<f16>(s.d)) : s.d;
    return s;
}

template <class P>
DEVICE f32 product(const P & a, const sixteen_bytes & low, const sixteen_bytes & high,
                   const rk_scale & s) {
    i32 x = 0, y = 0;
#pragma unroll
    for (u32 n = 0; n < 4; n++) {
        x = dot4(a.word[n], low.word[n], x);
    }
    y = P::SCALES == 1 ? x : 0;
#pragma unroll
    for (u32 n = 0; n < 4; n++) {
        y = dot4(a.word[n + 4], high.word[n], y);
    }
    f32 sum = 0;
    if (P::SCALES == 1) {
        sum = a.s[0].mul * (f32) y + a.s[0].add * (f32) (s.sums[0] + s.sums[1]);
    } else {
        sum = a.s[0].mul * (f32) x + a.s[0].add * (f32) s.sums[0] +
              a.s[P::SCALES - 1].mul * (f32) y + a.s[P::SCALES - 1].add * (f32) s.sums[1];
    }
    return s.d * sum;
}

template <class Q, u32 COLUMNS> DEVICE void matvec_q8(const rk_matmul & args) {
    enum {
        BYTES = SPAN / Q::LENGTH * sizeof(Q), // of a row's span
        TEAMS = RK_BLOCK / TEAM,
        EACH = RK_ROWS / TEAMS,
        HELD = COLUMNS == 1 ? 1 : 2, // rows in registers: several, where several columns want them
        CHUNKS = (BYTES + 14 + 15) / 16, // a span may begin in the midst of one, and end in one
        LOADS = (EACH * CHUNKS + TEAM - 1) / TEAM,
    };
    // And the word that is read behind the last.
    __shared__ sixteen_bytes stages[TEAMS][EACH * CHUNKS + 1];
    batch_place place = find_batch(args, group_index_z());
    u32 t = thread_index(), lane = t % TEAM, first = group_index() * RK_ROWS + t / TEAM * EACH;
    u32 column = group_index_y() * COLUMNS;
    u32 n_columns = args.n_columns - column < COLUMNS ? args.n_columns - column : COLUMNS;
    u32 parts = args.n_inner / 32, column_bytes = RK_Q8_BYTES(args.n_inner);
    const u8 * columns = (const u8 *) args.b +
                         (uint64_t) (group_index_z() * args.n_columns + column) * column_bytes;
    // Places of bytes count from 16 that hold the first of the team's rows.
    u32 row_bytes = args.a_stride[0] * (u32) sizeof(Q);
    const u8 * a = (const u8 *) ((const Q *) args.a + place.a) + (uint64_t) first * row_bytes;
    u32 before = (u32) (uint64_t) a % 16, length = args.n_inner / Q::LENGTH * (u32) sizeof(Q);
    sixteen_bytes * stage = stages[t / TEAM];
    f32 sum[EACH][COLUMNS] = {};
    u32 next[LOADS][4] = {}; // words, so that no compiler takes it for memory
    u32 at[LOADS], end[LOADS];
    a -= before;
#pragma unroll
    for (u32 l = 0; l < LOADS; l++) {
        u32 i = lane + l * TEAM, row = i / CHUNKS, begin = before + row * row_bytes;
        at[l] = begin + i % CHUNKS * 16;
        end[l] = row < EACH && first + row < args.n_rows ? begin + length : 0;
    }

    for (u32 begin = 0; begin < length + BYTES; begin += BYTES) {
        if (begin > 0) {
            lanes_barrier(); // nobody reads the last span any more
#pragma unroll
            for (u32 l = 0; l < LOADS; l++) {
                u32 i = lane + l * TEAM;
                if (i < EACH * CHUNKS) {
                    sixteen_bytes whole = {{next[l][0], next[l][1], next[l][2], next[l][3]}};
                    stage[i] = whole;
                }
            }
            lanes_barrier();
        }
#pragma unroll
        for (u32 l = 0; l < LOADS; l++) {
            u32 from = (at[l] + begin) & ~15u;
            if (from < end[l]) {
                sixteen_bytes whole = *(const sixteen_bytes *) (a + from);
#pragma unroll
                for (u32 n = 0; n < 4; n++) {
                    next[l][n] = whole.word[n];
                }
            }
        }
        u32 p = (begin / BYTES - 1) * TEAM + lane;
        if (begin == 0 || p >= parts) {
            continue;
        }
#pragma unroll
        for (u32 e = 0; e < EACH; e += HELD) {
            typename part_reader<Q>::part mine[HELD];
#pragma unroll
            for (u32 h = 0; h < HELD; h++) {
                u32 shift = (before + (e + h) * row_bytes + (begin - BYTES)) % 16;
                staged from = {(const u32 *) (const void *) stage,
                               (e + h) * CHUNKS * 16 + shift +
                                   lane * 32 / Q::LENGTH * (u32) sizeof(Q)};
                mine[h] = part_reader<Q>::read(from, lane % (Q::LENGTH / 32));
            }
#pragma unroll
            for (u32 c = 0; c < COLUMNS; c++) {
                if (c < n_columns) {
                    const u8 * b = columns + (uint64_t) c * column_bytes;
                    sixteen_bytes low = ((const sixteen_bytes *) b)[p];
                    sixteen_bytes high = ((const sixteen_bytes *) b)[parts + p];
                    rk_scale s = scale_for<Q>(((const rk_scale *) (b + args.n_inner))[p]);
#pragma unroll
                    for (u32 h = 0; h < HELD; h++) {
                        sum[e + h][c] += product(mine[h], low, high, s);
                    }
                }
            }
        }
    }
    f32 * y = (f32 *) args.y + place.y;
#pragma unroll
    for (u32 e = 0; e < EACH; e++) {
#pragma unroll
        for (u32 c = 0; c < COLUMNS; c++) {
            f32 whole = sum_lanes<TEAM>(sum[e][c]);
            u32 row = first + e;
            if (lane == 0 && row < args.n_rows && c < n_columns) {
                y[row * args.y_stride[0] + (column + c) * args.y_stride[1]] = whole;
            }
        }
    }
}

// ---- one column, blocks of 32 numbers ----

// A block as it lies in memory.
template <class Q> struct direct_reader {
    static __device__ typename part_reader<Q>::part read(const u8 * block) {
        u32 before = (u32) (uint64_t) block % 4;
        staged from = {(const u32 *) (const void *) (block - before), before};
        return part_reader<Q>::read(from, 0);
    }
};
// 18 bytes from an even one on: they lie in 24 that are aligned.
template <> struct direct_reader<q4_0> {
    struct alignas(8) pair {
        u32 word[2];
    };
    static __device__ part_of<1> read(const u8 * block) {
        u32 before = (u32) (uint64_t) block % 8;
        const pair * from = (const pair *) (const void *) (block - before);
        pair a = from[0], b = from[1], c = from[2];
        u32 word[6] = {a.word[0], a.word[1], b.word[0], b.word[1], c.word[0], c.word[1]};
#pragma unroll
        for (u32 n = 0; n < 5; n++) {
            word[n] = before & 4 ? word[n + 1] : word[n];
        }
        staged five = {word, before % 4};
        return part_reader<q4_0>::read(five, 0);
    }
};

// v has four sums: the lane's own of them, over 32 lanes. That is sum number lane / 8.
DEVICE f32 sum_four(f32 (&v)[4], u32 lane) {
    bool high = lane & 16, odd = lane & 8;
    f32 a = (high ? v[2] : v[0]) + shuffle_xor(high ? v[0] : v[2], 16);
    f32 b = (high ? v[3] : v[1]) + shuffle_xor(high ? v[1] : v[3], 16);
    f32 c = (odd ? b : a) + shuffle_xor(odd ? a : b, 8);
    return sum_lanes<8>(c);
}

// The work-items of a group take the parts of its rows in turn, straight to registers, and use
// their part of the column for each row. Shuffles and LDS add up what they have.
template <class Q> DEVICE void matvec_direct(const rk_matmul & args) {
    enum { ROWS = RK_ROWS_DIRECT, TEAMS = RK_BLOCK / TEAM };
    __shared__ f32 sums[TEAMS][ROWS];
    batch_place place = find_batch(args, group_index_z());
    u32 t = thread_index(), lane = t % TEAM, first = group_index() * ROWS;
    u32 parts = args.n_inner / 32;
    const Q * a = (const Q *) args.a + place.a;
    const u8 * b = (const u8 *) args.b +
                   (uint64_t) group_index_z() * args.n_columns * RK_Q8_BYTES(args.n_inner);
    const Q * rows[ROWS];
    f32 sum[ROWS] = {};
#pragma unroll
    for (u32 e = 0; e < ROWS; e++) { // a row that is not there is another's, and not written
        u32 row = first + e < args.n_rows ? first + e : first;
        rows[e] = a + (uint64_t) row * args.a_stride[0];
    }
#pragma unroll 2
    for (u32 p = t; p < parts; p += group_size()) {
        typename part_reader<Q>::part mine[ROWS];
        sixteen_bytes low = ((const sixteen_bytes *) b)[p];
        sixteen_bytes high = ((const sixteen_bytes *) b)[parts + p];
        rk_scale s = scale_for<Q>(((const rk_scale *) (b + args.n_inner))[p]);
#pragma unroll
        for (u32 e = 0; e < ROWS; e++) {
            mine[e] = direct_reader<Q>::read((const u8 *) (rows[e] + p));
        }
#pragma unroll
        for (u32 e = 0; e < ROWS; e++) {
            sum[e] += product(mine[e], low, high, s);
        }
    }
    f32 whole = sum_four(sum, lane);
    if (lane % 8 == 0) {
        sums[t / TEAM][lane / 8] = whole;
    }
    barrier();
    if (t < ROWS && first + t < args.n_rows) {
        f32 all = 0;
        for (u32 team = 0; team < group_size() / TEAM; team++) {
            all += sums[team][t];
        }
        ((f32 *) args.y)[place.y + (first + t) * args.y_stride[0]] = all;
    }
}

#define MATVEC(name)                                                                               \
    KERNEL_FOR(2, matvec_##name##_q8, rk_matmul) {                                                 \
        matvec_q8<name, RK_COLUMNS>(args);                                                         \
    }
#define MATVEC_ONE(name)                                                                           \
    MATVEC(name)                                                                                   \
    KERNEL_FOR(4, matvec_one_##name##_q8, rk_matmul) {                                             \
        matvec_q8<name, 1>(args);                                                                  \
    }
#define MATVEC_DIRECT(name)                                                                        \
    MATVEC(name)                                                                                   \
    KERNEL_FOR(4, matvec_direct_##name##_q8, rk_matmul) {                                          \
        matvec_direct<name>(args);                                                                 \
    }
#define MATVEC_q4_0 MATVEC_DIRECT(q4_0)
#define MATVEC_q4_1 MATVEC_DIRECT(q4_1)
#define MATVEC_q5_0 MATVEC_DIRECT(q5_0)
#define MATVEC_q5_1 MATVEC_DIRECT(q5_1)
#define MATVEC_q8_0 MATVEC_DIRECT(q8_0)
#define MATVEC_q4_K MATVEC_ONE(q4_K)
#define MATVEC_q5_K MATVEC_ONE(q5_K)
#define MATVEC_q6_K MATVEC_ONE(q6_K)

#ifndef RK_TYPES
#    define RK_TYPES FOR_PARTS
#endif
#define BY_NAME(t) MATVEC_##t
RK_TYPES(BY_NAME)

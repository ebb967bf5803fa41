// matvec_quant: products of a quantized matrix with up to eight columns of bytes. The matrix is
// read once, as it lies in memory, 16 bytes a load whatever a block's length: through LDS, where
// each lane takes a part of 32 numbers of two rows and multiplies it with that of every column,
// four bytes an instruction. While a span of 1024 numbers of the rows is multiplied, the next is on
// its way to registers.
#include "matmul.h"
#include "parts.h"

enum { SPAN = 1024, TEAM = 32 };

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
                    sixteen_bytes low = ((const sixteen_bytes *) b)[p * 2];
                    sixteen_bytes high = ((const sixteen_bytes *) b)[p * 2 + 1];
                    rk_scale s = ((const rk_scale *) (b + args.n_inner))[p];
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

#define MATVEC(name)                                                                               \
    KERNEL_FOR(2, matvec_##name##_q8, rk_matmul) {                                                 \
        matvec_q8<name, RK_COLUMNS>(args);                                                         \
    }                                                                                              \
    KERNEL_FOR(4, matvec_one_##name##_q8, rk_matmul) {                                             \
        matvec_q8<name, 1>(args);                                                                  \
    }

#ifndef RK_TYPES
#    define RK_TYPES FOR_PARTS
#endif
RK_TYPES(MATVEC)

// attention_few: ggml's FLASH_ATTN_EXT for few rows, as when one token is made at a time: K and V
// are read once for up to four rows, 16 bytes a load, and nothing waits for anything else in the
// loop. As many lanes as a key has eights have a key; each holds its eight numbers of every row's
// query and of every row's sums, and they add their products up between them. Every such team of
// lanes goes over its own keys with a maximum of its own; in the end the group's are joined.
#include "attention.h"
#include "matmul_blocks.h"

enum { KEYS = 4, EIGHT = 8 }; // keys of a team at a time

template <class T, u32 ROWS> DEVICE void attention_few(const rk_attention & args) {
    __shared__ f32 joined[RK_BLOCK * EIGHT];
    __shared__ f32 most_of[RK_BLOCK / EIGHT], share_of[RK_BLOCK / EIGHT];
    const f32 to_log2 = 1.44269504f, none = -__builtin_inff();
    u32 t = thread_index(), batch = group_index_y() / args.n_kv_heads;
    u32 kv_head = group_index_y() - batch * args.n_kv_heads, first_row = group_index() * ROWS;
    u32 size = args.k_size > args.v_size ? args.k_size : args.v_size, lanes = 8;
    while (lanes * EIGHT < size) {
        lanes *= 2;
    }
    u32 at = t % lanes * EIGHT, team = t / lanes, teams = RK_BLOCK / lanes;
    const T * k = (const T *) args.k + kv_head * args.k_stride[1] +
                  batch / args.kv_repeats * args.k_stride[2];
    const T * v = (const T *) args.v + kv_head * args.v_stride[1] +
                  batch / args.kv_repeats * args.v_stride[2];
    bool k_whole = args.k_stride[0] * sizeof(T) % 16 == 0 && piece<T, EIGHT>::is_whole(k, 1);
    bool v_whole = args.v_stride[0] * sizeof(T) % 16 == 0 && piece<T, EIGHT>::is_whole(v, 1);

    f32 q[ROWS][EIGHT], sums[ROWS][EIGHT], most[ROWS], share[ROWS], slope[ROWS];
    u32 mask_at[ROWS];
#pragma unroll
    for (u32 r = 0; r < ROWS; r++) {
        row_at p = find_row(args, first_row + r, kv_head);
        const f32 * from = (const f32 *) args.q + p.query * args.q_stride[0] +
                           p.head * args.q_stride[1] + batch * args.q_stride[2];
#pragma unroll
        for (u32 i = 0; i < EIGHT; i++) {
            q[r][i] = at + i < args.k_size ? from[at + i] * args.scale : 0;
            sums[r][i] = 0;
        }
        most[r] = none;
        share[r] = 0;
        slope[r] = slope_of(args, p.head);
        mask_at[r] = p.query * args.mask_stride[0] +
                     p.head % args.mask_dims[0] * args.mask_stride[1] +
                     batch % args.mask_dims[1] * args.mask_stride[2];
    }
    u32 begin = group_index_z() * args.split_keys, end = begin + args.split_keys;
    end = end < args.n_keys ? end : args.n_keys;

    for (u32 first = begin; first < end; first += teams * KEYS) {
        piece<T, EIGHT> ks[KEYS], vs[KEYS];
        f32 score[ROWS][KEYS];
#pragma unroll
        for (u32 i = 0; i < KEYS; i++) {
            u32 key = first + i * teams + team;
            bool in = key < end;
            key = in ? key : begin;
            ks[i].fetch(k + key * args.k_stride[0], at, 1, in ? args.k_size : 0, k_whole);
            vs[i].fetch(v + key * args.v_stride[0], at, 1, in ? args.v_size : 0, v_whole);
        }
#pragma unroll
        for (u32 i = 0; i < KEYS; i++) {
#pragma unroll
            for (u32 r = 0; r < ROWS; r++) {
                score[r][i] = 0;
#pragma unroll
                for (u32 j = 0; j < EIGHT; j++) {
                    score[r][i] += q[r][j] * ks[i].at(j);
                }
            }
        }
#pragma unroll 1
        for (u32 by = lanes / 2; by > 0; by /= 2) {
#pragma unroll
            for (u32 n = 0; n < ROWS * KEYS; n++) {
                score[n / KEYS][n % KEYS] += shuffle_xor(score[n / KEYS][n % KEYS], by);
            }
        }
        if (args.cap != 0) {
#pragma unroll
            for (u32 n = 0; n < ROWS * KEYS; n++) {
                score[n / KEYS][n % KEYS] = args.cap * m_tanh(score[n / KEYS][n % KEYS]);
            }
        }
#pragma unroll
        for (u32 i = 0; i < KEYS; i++) {
            u32 key = first + i * teams + team;
#pragma unroll
            for (u32 r = 0; r < ROWS; r++) {
                if (key >= end) {
                    score[r][i] = none;
                } else if (args.mask) {
                    score[r][i] += slope[r] * widen(((const f16 *) args.mask)[mask_at[r] + key]);
                }
            }
        }
#pragma unroll
        for (u32 r = 0; r < ROWS; r++) {
            f32 now = most[r];
#pragma unroll
            for (u32 i = 0; i < KEYS; i++) {
                now = score[r][i] > now ? score[r][i] : now;
            }
            f32 base = now == none ? 0 : now * to_log2; // all are masked so far
            f32 fade = power_of_2(most[r] * to_log2 - base);
            most[r] = now;
            share[r] *= fade;
#pragma unroll
            for (u32 j = 0; j < EIGHT; j++) {
                sums[r][j] *= fade;
            }
#pragma unroll
            for (u32 i = 0; i < KEYS; i++) {
                f32 w = power_of_2(score[r][i] * to_log2 - base);
                share[r] += w;
#pragma unroll
                for (u32 j = 0; j < EIGHT; j++) {
                    sums[r][j] += w * vs[i].at(j);
                }
            }
        }
    }

#pragma unroll
    for (u32 r = 0; r < ROWS; r++) {
        row_at p = find_row(args, first_row + r, kv_head);
        barrier(); // nobody reads the last row any more
        if (at == 0) {
            most_of[team] = most[r];
            share_of[team] = share[r];
        }
#pragma unroll
        for (u32 j = 0; j < EIGHT; j++) {
            joined[team * lanes * EIGHT + at + j] = sums[r][j];
        }
        barrier();
        f32 all = none, total = 0;
        for (u32 i = 0; i < teams; i++) {
            all = most_of[i] > all ? most_of[i] : all;
        }
        f32 base = all == none ? 0 : all * to_log2;
        for (u32 i = 0; i < teams; i++) {
            total += share_of[i] * power_of_2(most_of[i] * to_log2 - base);
        }
        if (!p.in) {
            continue;
        }
        row_result result = finish_row(args, p, first_row + r, batch, all, total);
        for (u32 c = t; c < args.v_size; c += RK_BLOCK) {
            f32 sum = 0;
            for (u32 i = 0; i < teams; i++) {
                sum += joined[i * lanes * EIGHT + c] * power_of_2(most_of[i] * to_log2 - base);
            }
            result.y[c] = sum * result.keep;
        }
    }
}

#define FEW(kv)                                                                                    \
    KERNEL_FOR(2, attention_few_##kv, rk_attention) {                                              \
        attention_few<kv, RK_FEW_ROWS>(args);                                                      \
    }                                                                                              \
    KERNEL_FOR(2, attention_one_##kv, rk_attention) {                                              \
        attention_few<kv, 1>(args);                                                                \
    }

#ifndef RK_TYPES
#    define RK_TYPES(X) X(f32) X(f16) X(bf16) FOR_BLOCKS(X)
#endif
RK_TYPES(FEW)

// attention: ggml's FLASH_ATTN_EXT. A group has some rows, pairs of a query and a head that use the
// same head of K and V, and goes over the keys in tiles: a part of K through LDS to scores, the
// scores to weights with a running maximum, and V, each number read once, times the weights.
//
// This is for prompts, and for heads that attention_few does not take. Where there are few groups
// the keys are split among several; each leaves its sums, its maximum and its share in memory, and
// attention_join makes one result of them.
#include "attention.h"
#include "blocks.h"

enum { PART = 32, LANES = 32 };

template <class K, class V, u32 ROWS, u32 EACH> DEVICE void attention(const rk_attention & args) {
    enum { KEYS = RK_BLOCK * EACH / ROWS, LINE = PART + 1 };
    __shared__ f32 q_rows[ROWS][RK_HEAD];
    __shared__ f32 k_part[KEYS * LINE]; // and sums, in the end
    __shared__ f32 weights[ROWS][KEYS];
    __shared__ f32 greatest[ROWS], share[ROWS], fade[ROWS];
    u32 t = thread_index(), batch = group_index_y() / args.n_kv_heads;
    u32 kv_head = group_index_y() - batch * args.n_kv_heads, first_row = group_index() * ROWS;
    const K * k = (const K *) args.k + kv_head * args.k_stride[1] +
                  batch / args.kv_repeats * args.k_stride[2];
    const V * v = (const V *) args.v + kv_head * args.v_stride[1] +
                  batch / args.kv_repeats * args.v_stride[2];
    for (u32 r = 0; r < ROWS; r++) {
        row_at p = find_row(args, first_row + r, kv_head);
        const f32 * q = (const f32 *) args.q + p.query * args.q_stride[0] +
                        p.head * args.q_stride[1] + batch * args.q_stride[2];
        for (u32 i = t; i < args.k_size; i += RK_BLOCK) {
            q_rows[r][i] = q[i];
        }
    }
    if (t < ROWS) {
        greatest[t] = -__builtin_inff();
        share[t] = 0;
    }
    u32 my_key = t % KEYS, my_rows = t / KEYS * EACH;
    f32 slope[EACH];
    const f16 * mask[EACH];
    for (u32 e = 0; e < EACH; e++) {
        row_at p = find_row(args, first_row + my_rows + e, kv_head);
        slope[e] = slope_of(args, p.head);
        mask[e] = (const f16 *) args.mask + p.query * args.mask_stride[0] +
                  p.head % args.mask_dims[0] * args.mask_stride[1] +
                  batch % args.mask_dims[1] * args.mask_stride[2];
    }
    // V: four columns to a work-item, and keys in turn to as many of them as the group has.
    u32 fours = args.v_size / 4, turns = RK_BLOCK / fours, turn = t / fours;
    u32 my_column = (t - turn * fours) * 4;
    f32 sums[ROWS][4] = {};
    u32 begin = group_index_z() * args.split_keys, end = begin + args.split_keys;
    end = end < args.n_keys ? end : args.n_keys;

    for (u32 key = begin; key < end; key += KEYS) {
        u32 n = end - key < KEYS ? end - key : KEYS;
        f32 score[EACH] = {};
        for (u32 part = 0; part < args.k_size; part += PART) {
            barrier(); // nobody reads the last part any more; q_rows are there
            for (u32 i = t * 4; i < KEYS * PART; i += RK_BLOCK * 4) {
                u32 row = i / PART, at = i % PART;
                if (row < n && part + at < args.k_size) {
                    four f = row_reader<K>::at(k + (key + row) * args.k_stride[0], part + at);
                    for (u32 j = 0; j < 4; j++) {
                        k_part[row * LINE + at + j] = f.v[j];
                    }
                }
            }
            barrier();
            u32 length = args.k_size - part < PART ? args.k_size - part : PART;
#pragma unroll 8
            for (u32 i = 0; i < length; i++) {
                f32 kv = k_part[my_key * LINE + i];
                for (u32 e = 0; e < EACH; e++) {
                    score[e] += kv * q_rows[my_rows + e][part + i];
                }
            }
        }
        for (u32 e = 0; e < EACH; e++) {
            f32 s = score[e] * args.scale;
            s = args.cap != 0 ? args.cap * m_tanh(s) : s;
            if (args.mask && my_key < n) {
                s += slope[e] * widen(mask[e][key + my_key]);
            }
            weights[my_rows + e][my_key] = my_key < n ? s : -__builtin_inff();
        }
        barrier();
        if (t / LANES < ROWS) { // a row of lanes for each
            u32 r = t / LANES, lane = t % LANES;
            f32 most = -__builtin_inff(), sum = 0, before = greatest[r];
            for (u32 i = lane; i < KEYS; i += LANES) {
                most = weights[r][i] > most ? weights[r][i] : most;
            }
            most = max_lanes<LANES>(most);
            most = most > before ? most : before;
            f32 base = most == -__builtin_inff() ? 0 : most; // all are masked so far
            for (u32 i = lane; i < KEYS; i += LANES) {
                f32 w = m_exp(weights[r][i] - base);
                weights[r][i] = w;
                sum += w;
            }
            sum = sum_lanes<LANES>(sum);
            if (lane == 0) {
                fade[r] = m_exp(before - base);
                share[r] = share[r] * fade[r] + sum;
                greatest[r] = most;
            }
        }
        barrier();
        for (u32 r = 0; r < ROWS; r++) {
            f32 f = fade[r];
            for (u32 j = 0; j < 4; j++) {
                sums[r][j] *= f;
            }
        }
        if (turn < turns) {
            for (u32 i = turn; i < n; i += turns) {
                four f = row_reader<V>::at(v + (key + i) * args.v_stride[0], my_column);
                for (u32 r = 0; r < ROWS; r++) {
                    f32 w = weights[r][i];
                    for (u32 j = 0; j < 4; j++) {
                        sums[r][j] += w * f.v[j];
                    }
                }
            }
        }
    }

    for (u32 r = 0; r < ROWS; r++) {
        barrier();
        if (turn < turns) {
            for (u32 j = 0; j < 4; j++) {
                k_part[turn * args.v_size + my_column + j] = sums[r][j];
            }
        }
        barrier();
        row_at p = find_row(args, first_row + r, kv_head);
        if (!p.in) {
            continue;
        }
        row_result result =
            finish_row(args, p, first_row + r, batch, greatest[r], share[r], t == 0);
        for (u32 i = t; i < args.v_size; i += RK_BLOCK) {
            f32 sum = 0;
            for (u32 j = 0; j < turns; j++) {
                sum += k_part[j * args.v_size + i];
            }
            result.y[i] = sum * result.keep;
        }
    }
}

#define ATTENTION(kv)                                                                              \
    KERNEL(attention_##kv, rk_attention) {                                                         \
        attention<kv, kv, 8, 2>(args);                                                             \
    }

#ifndef RK_TYPES
#    define RK_TYPES(X) X(f32) X(f16) X(bf16) FOR_BLOCKS(X)
#endif
RK_TYPES(ATTENTION)

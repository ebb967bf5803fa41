// attention_few: ggml's FLASH_ATTN_EXT for few rows, as when one token is made at a time: K and V
// are read once for up to four rows, 16 bytes a load, and nothing waits for anything else in the
// loop. As many lanes as a key has eights have a key, eight or more; each holds its eight numbers of
// every row's query and of every row's sums. Every such team of lanes goes over its own keys with
// maxima of its own; in the end the group's are joined.
//
// Scores are added up between lanes so that each eighth lane ends with some of them: a lane does
// the softmax of those alone, and gives the weights to the others.
#include "attention.h"
#include "matmul_blocks.h"

enum { EIGHT = 8 };

// Scores n = row * KEYS + key of a team's turn; those from code * HOLD on are a lane's.
template <u32 ROWS, u32 KEYS> struct shares {
    enum { N = ROWS * KEYS, HOLD = N / 8 };
    static __device__ u32 code(void) { // the lane's three lowest bits, the lowest first
        u32 t = thread_index();
        return (t & 1) << 2 | (t & 2) | (t >> 2 & 1);
    }
    static __device__ u32 lane_of(u32 n) { // of the 32
        u32 c = n / HOLD;
        return thread_index() % 32 / 8 * 8 + (c >> 2 & 1) + (c & 2) + (c & 1) * 4;
    }
    template <u32 HALF> static __device__ void exchange(f32 (&v)[N], u32 by) {
        bool upper = (thread_index() & by) != 0;
#pragma unroll
        for (u32 n = 0; n < HALF; n++) {
            f32 keep = upper ? v[n + HALF] : v[n], give = upper ? v[n] : v[n + HALF];
            v[n] = keep + shuffle_xor(give, by);
        }
    }
    // Half of the values go to the other lane, thrice; the lanes beyond eight have the same.
    static __device__ void add_up(f32 (&v)[N], u32 lanes) {
        exchange<N / 2>(v, 1);
        exchange<N / 4>(v, 2);
        exchange<N / 8>(v, 4);
#pragma unroll 1
        for (u32 by = 8; by < lanes; by *= 2) {
#pragma unroll
            for (u32 n = 0; n < HOLD; n++) {
                v[n] += shuffle_xor(v[n], by);
            }
        }
    }
    // Over the lanes that have keys of the same row.
    static __device__ f32 greatest(f32 v) {
#pragma unroll
        for (u32 i = 1, by = 4; i < KEYS / HOLD; i *= 2, by /= 2) {
            f32 other = shuffle_xor(v, by);
            v = other > v ? other : v;
        }
        return v;
    }
    static __device__ f32 sum(f32 v) {
#pragma unroll
        for (u32 i = 1, by = 4; i < KEYS / HOLD; i *= 2, by /= 2) {
            v += shuffle_xor(v, by);
        }
        return v;
    }
};

template <class T, u32 ROWS, u32 KEYS> DEVICE void attention_few(const rk_attention & args) {
    typedef shares<ROWS, KEYS> S;
    enum { WAVES = RK_BLOCK / 32, HELD = ROWS < 2 ? ROWS : 2 }; // of 32 lanes; rows in LDS
    __shared__ f32 joined[HELD][WAVES][RK_FEW_HEAD];
    __shared__ f32 most_of[ROWS][WAVES], share_of[ROWS][WAVES];
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
    bool k_whole = piece<T, EIGHT>::all_whole(k, args.k_stride[0]);
    bool v_whole = piece<T, EIGHT>::all_whole(v, args.v_stride[0]);

    f32 q[ROWS][EIGHT], sums[ROWS][EIGHT];
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
    }
    u32 my_first = S::code() * S::HOLD, my_key = my_first % KEYS; // of a turn's scores
    row_at mine = find_row(args, first_row + my_first / KEYS, kv_head);
    f32 slope = slope_of(args, mine.head), most = none, share = 0;
    const f16 * mask = (const f16 *) args.mask + mine.query * args.mask_stride[0] +
                       mine.head % args.mask_dims[0] * args.mask_stride[1] +
                       batch % args.mask_dims[1] * args.mask_stride[2];
    u32 begin = group_index_z() * args.split_keys, end = begin + args.split_keys;
    end = end < args.n_keys ? end : args.n_keys;

    for (u32 first = begin; first < end; first += teams * KEYS) {
        piece<T, EIGHT> ks[KEYS], vs[KEYS];
        f32 score[S::N];
#pragma unroll
        for (u32 i = 0; i < KEYS; i++) {
            u32 key = first + i * teams + team;
            bool in = key < end;
            key = in ? key : begin;
            ks[i].fetch(k + key * args.k_stride[0], at, 1, in ? args.k_size : 0, k_whole);
            vs[i].fetch(v + key * args.v_stride[0], at, 1, in ? args.v_size : 0, v_whole);
        }
#pragma unroll
        for (u32 n = 0; n < S::N; n++) {
            score[n] = 0;
#pragma unroll
            for (u32 j = 0; j < EIGHT; j++) {
                score[n] += q[n / KEYS][j] * ks[n % KEYS].at(j);
            }
        }
        S::add_up(score, lanes);
        f32 now = most;
#pragma unroll
        for (u32 n = 0; n < S::HOLD; n++) {
            u32 key = first + (my_key + n) * teams + team;
            f32 s = args.cap != 0 ? args.cap * m_tanh(score[n]) : score[n];
            if (args.mask && key < end) {
                s += slope * widen(mask[key]);
            }
            score[n] = key < end ? s : none;
            now = score[n] > now ? score[n] : now;
        }
        now = S::greatest(now);
        f32 base = now == none ? 0 : now * to_log2; // all are masked so far
        f32 fade = power_of_2(most * to_log2 - base);
        most = now;
        share *= fade;
#pragma unroll
        for (u32 n = 0; n < S::HOLD; n++) {
            score[n] = power_of_2(score[n] * to_log2 - base);
            share += score[n];
        }
#pragma unroll
        for (u32 r = 0; r < ROWS; r++) {
            f32 f = shuffle_from(fade, S::lane_of(r * KEYS));
#pragma unroll
            for (u32 j = 0; j < EIGHT; j++) {
                sums[r][j] *= f;
            }
        }
#pragma unroll
        for (u32 n = 0; n < S::N; n++) {
            f32 w = shuffle_from(score[n % S::HOLD], S::lane_of(n));
#pragma unroll
            for (u32 j = 0; j < EIGHT; j++) {
                sums[n / KEYS][j] += w * vs[n % KEYS].at(j);
            }
        }
    }

    share = S::sum(share);
    // The teams of 32 lanes join by shuffles, the group's eight of those through LDS.
    u32 wave = t / 32;
#pragma unroll
    for (u32 r = 0; r < ROWS; r++) {
        f32 my_most = shuffle_from(most, S::lane_of(r * KEYS)), all = my_most;
        f32 my_share = shuffle_from(share, S::lane_of(r * KEYS));
#pragma unroll 1
        for (u32 by = lanes; by < 32; by *= 2) {
            f32 other = shuffle_xor(all, by);
            all = other > all ? other : all;
        }
        f32 base = all == none ? 0 : all * to_log2, fade = power_of_2(my_most * to_log2 - base);
        my_share *= fade;
#pragma unroll
        for (u32 j = 0; j < EIGHT; j++) {
            sums[r][j] *= fade;
        }
#pragma unroll 1
        for (u32 by = lanes; by < 32; by *= 2) {
            my_share += shuffle_xor(my_share, by);
#pragma unroll
            for (u32 j = 0; j < EIGHT; j++) {
                sums[r][j] += shuffle_xor(sums[r][j], by);
            }
        }
        if (t % 32 == 0) {
            most_of[r][wave] = all;
            share_of[r][wave] = my_share;
        }
    }
#pragma unroll
    for (u32 half = 0; half < ROWS; half += HELD) {
        barrier(); // nobody reads the last half any more
#pragma unroll
        for (u32 i = 0; i < HELD * EIGHT && t % 32 < lanes; i++) {
            joined[i / EIGHT][wave][at + i % EIGHT] = sums[half + i / EIGHT][i % EIGHT];
        }
        barrier();
        for (u32 i = t; i < HELD * args.v_size; i += RK_BLOCK) {
            u32 h = i / args.v_size, c = i - h * args.v_size, r = half + h;
            row_at p = find_row(args, first_row + r, kv_head);
            f32 all = none, total = 0, sum = 0;
#pragma unroll
            for (u32 w = 0; w < WAVES; w++) {
                all = most_of[r][w] > all ? most_of[r][w] : all;
            }
            f32 base = all == none ? 0 : all * to_log2;
#pragma unroll
            for (u32 w = 0; w < WAVES; w++) {
                f32 weight = power_of_2(most_of[r][w] * to_log2 - base);
                total += share_of[r][w] * weight;
                sum += joined[h][w][c] * weight;
            }
            if (p.in) {
                row_result result =
                    finish_row(args, p, first_row + r, batch, all, total, c == 0);
                result.y[c] = sum * result.keep;
            }
        }
    }
}

#define FEW(kv)                                                                                    \
    KERNEL_FOR(2, attention_few_##kv, rk_attention) {                                              \
        attention_few<kv, RK_FEW_ROWS, 4>(args);                                                   \
    }                                                                                              \
    KERNEL_FOR(2, attention_one_##kv, rk_attention) {                                              \
        attention_few<kv, 1, 8>(args);                                                             \
    }

#ifndef RK_TYPES
#    define RK_TYPES(X) X(f32) X(f16) X(bf16) FOR_BLOCKS(X)
#endif
RK_TYPES(FEW)

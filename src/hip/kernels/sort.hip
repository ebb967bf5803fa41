// sort: the order of a row's elements. Runs of RK_RUN are sorted in LDS; then pairs of runs become
// one, each element finding its place by a search in the other run, until a row is one run. Where
// only the first are wanted, no run is longer than that.
//
// A word holds the number, as bits that sort as it does, above its column. Of equal numbers the
// first is first, and no two words are equal. NaN is beyond the infinity of its sign.
#include "rows.h"

DEVICE uint64_t word_of(f32 v, u32 column, bool descending) {
    u32 bits = __builtin_bit_cast(u32, v);
    bits ^= bits >> 31 ? 0xffffffffu : 0x80000000u;
    bits = descending ? ~bits : bits;
    return (uint64_t) bits << 32 | column;
}

// A group for each run of each row: grid.x runs, y rows.
KERNEL(sort_runs, rk_sort) {
    __shared__ uint64_t words[RK_RUN];
    u32 row = group_index_y(), first = group_index() * RK_RUN, t = thread_index();
    u32 n = args.rows.n_columns - first, size = 1;
    n = n < RK_RUN ? n : RK_RUN;
    while (size < n) {
        size *= 2;
    }
    const f32 * x = (const f32 *) args.x + find_row(args.rows, row).at;
    for (u32 i = t; i < size; i += group_size()) {
        words[i] = i < n ? word_of(x[(first + i) * args.rows.step], first + i, args.descending)
                         : ~(uint64_t) 0;
    }
    // Bitonic: two runs of which the second is turned round become one by halves.
    for (u32 run = 2; run <= size; run *= 2) {
        for (u32 half = run / 2; half > 0; half /= 2) {
            barrier();
            for (u32 i = t; i < size / 2; i += group_size()) {
                u32 low = i / half * half * 2 + i % half, high = low + half;
                if (half == run / 2) {
                    high = i / half * half * 2 + run - 1 - i % half;
                }
                uint64_t a = words[low], b = words[high];
                words[low] = a < b ? a : b;
                words[high] = a < b ? b : a;
            }
        }
    }
    barrier();
    for (u32 i = t; i < n && i < args.n_wanted; i += group_size()) {
        if (args.to) {
            args.to[row * args.rows.n_columns + first + i] = words[i];
        } else {
            args.y[row * args.n_wanted + i] = (i32) (u32) words[i];
        }
    }
}

DEVICE u32 least(u32 a, u32 b) {
    return a < b ? a : b;
}

// A work-item for each column of each row: runs of args.run become runs of twice that.
KERNEL(sort_merge, rk_sort) {
    u32 i = global_index(), row = group_index_y(), n = args.rows.n_columns, run = args.run;
    if (i >= n) {
        return;
    }
    u32 mine = i / run * run, place = i - mine, pair = i / (2 * run) * 2 * run;
    u32 other = mine == pair ? pair + run : pair;
    if (place >= args.n_wanted) { // more than is kept of a run
        return;
    }
    const uint64_t * from = args.from + row * n;
    uint64_t word = from[i];
    // How many of the other run are before it.
    u32 low = 0, high = other < n ? least(least(run, n - other), args.n_wanted) : 0;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (from[other + middle] < word) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    place += low;
    if (place >= args.n_wanted) {
        return;
    }
    if (args.to) {
        args.to[row * n + pair + place] = word;
    } else {
        args.y[row * args.n_wanted + place] = (i32) (u32) word;
    }
}

// reduce: each row becomes one element: its sum, least, greatest, or where that is.
#include "rows.h"

template <class C> struct best {
    C value;
    u32 index;
};

// NaN wins over every number; of equals the first wins.
struct pick_least {
    template <class C> static __device__ bool better(C a, C b) {
        return a < b || (a != a && b == b);
    }
};
struct pick_greatest {
    template <class C> static __device__ bool better(C a, C b) {
        return a > b || (a != a && b == b);
    }
};

template <class C> struct sums { // whole numbers wrap around
    typedef C type;
};
template <> struct sums<i32> {
    typedef u32 type;
};
template <> struct sums<i64> {
    typedef uint64_t type;
};
template <> struct sums<u8> {
    typedef u32 type;
};

template <class T> DEVICE void reduce_sum(const rk_reduce & args) {
    typedef typename calc<T>::type C;
    typedef typename sums<C>::type S;
    const T * x = (const T *) args.x + find_row(args.rows, group_index()).at;
    S sum = 0;
    for (u32 c = thread_index(); c < args.rows.n_columns; c += group_size()) {
        sum += (S) widen(x[c * args.rows.step]);
    }
    sum = over_group<pick_sum>(sum);
    if (thread_index() == 0) {
        ((T *) args.y)[group_index()] = narrow<T>((C) sum);
    }
}

template <class Pick, class C> DEVICE best<C> best_of(best<C> a, best<C> b) {
    bool take_b = Pick::better(b.value, a.value) ||
                  (!Pick::better(a.value, b.value) && b.index < a.index);
    return take_b ? b : a;
}

// Work-items without an element hold the row's first one, which changes nothing.
template <class T, class Pick>
DEVICE best<typename calc<T>::type> reduce_best(const rk_reduce & args) {
    typedef typename calc<T>::type C;
    const T * x = (const T *) args.x + find_row(args.rows, group_index()).at;
    u32 t = thread_index();
    best<C> mine = {widen(x[0]), 0};
    for (u32 c = t; c < args.rows.n_columns; c += group_size()) {
        best<C> next = {widen(x[c * args.rows.step]), c};
        mine = best_of<Pick>(mine, next);
    }
    __shared__ C values[RK_BLOCK];
    __shared__ u32 indices[RK_BLOCK];
    values[t] = mine.value;
    indices[t] = mine.index;
    for (u32 half = group_size() / 2; half > 0; half /= 2) {
        barrier();
        if (t < half) {
            best<C> other = {values[t + half], indices[t + half]};
            mine = best_of<Pick>(mine, other);
            values[t] = mine.value;
            indices[t] = mine.index;
        }
    }
    return mine; // of work-item 0
}

#define VALUE(name, t, pick)                                                                       \
    KERNEL(reduce_##name##_##t, rk_reduce) {                                                       \
        best<calc<t>::type> b = reduce_best<t, pick>(args);                                        \
        if (thread_index() == 0) {                                                                 \
            ((t *) args.y)[group_index()] = narrow<t>(b.value);                                    \
        }                                                                                          \
    }
#define PLACE(name, t, pick)                                                                       \
    KERNEL(reduce_##name##_##t, rk_reduce) {                                                       \
        best<calc<t>::type> b = reduce_best<t, pick>(args);                                        \
        if (thread_index() == 0) {                                                                 \
            ((u32 *) args.y)[group_index()] = b.index;                                             \
        }                                                                                          \
    }
#define REDUCE(t)                                                                                  \
    KERNEL(reduce_sum_##t, rk_reduce) {                                                            \
        reduce_sum<t>(args);                                                                       \
    }                                                                                              \
    VALUE(min, t, pick_least)                                                                      \
    VALUE(max, t, pick_greatest)                                                                   \
    PLACE(argmin, t, pick_least)                                                                   \
    PLACE(argmax, t, pick_greatest)

#ifndef RK_TYPES
#    define RK_TYPES FOR_ALL
#endif
RK_TYPES(REDUCE)

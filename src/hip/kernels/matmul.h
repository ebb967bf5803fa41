// matmul: products of matrices. A group makes a square of the output, 64 x 64 or 128 x 128; each of
// its 256 work-items holds 4 x 4 or 8 x 8 of it in registers. The strips of a and b that the square
// needs go through LDS, so that each element is fetched from memory once for 64 or 128 uses. There
// are two of each: while one is multiplied, a work-item has its piece of the next in registers.
#ifndef ROCM_KERNELS_MATMUL_H
#define ROCM_KERNELS_MATMUL_H

#include "rows.h"

struct alignas(16) sixteen_bytes {
    u32 word[4];
};
template <class T> struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) quad { T v[4]; };

// N elements of a line along k, as they lie in memory, by loads of 16 bytes; `whole` says that all
// of them are there, one behind the other and aligned.
template <class T, int N> struct piece {
    T raw[N];
    __device__ void fetch(const T * line, u32 k, u32 k_stride, u32 n_inner, bool whole) {
        if (whole && k + N <= n_inner) {
            sixteen_bytes from[sizeof raw / 16];
            for (u32 i = 0; i < sizeof raw / 16; i++) {
                from[i] = ((const sixteen_bytes *) (const void *) (line + k))[i];
            }
            __builtin_memcpy(raw, from, sizeof raw);
            return;
        }
        for (u32 i = 0; i < N; i++) {
            raw[i] = T();
            if (line && k + i < n_inner) {
                raw[i] = line[(k + i) * k_stride];
            }
        }
    }
    __device__ typename calc<T>::type at(u32 i) const {
        return widen(raw[i]);
    }
    static __device__ bool is_whole(const T * line, u32 k_stride) {
        return line && k_stride == 1 && ((uint64_t) line & 15) == 0;
    }
    static __device__ bool all_whole(const T * first, u32 line_stride) { // of lines so far apart
        return is_whole(first, 1) && line_stride * sizeof(T) % 16 == 0;
    }
};

// Four rows of a column, in one store where they lie one behind the other.
template <class Y, class C>
DEVICE void put_four(Y * y, u32 stride, u32 n, const C (&from)[4], bool aligned) {
    quad<Y> made;
    for (u32 i = 0; i < 4; i++) {
        made.v[i] = narrow<Y>(from[i]);
    }
    if (aligned && n >= 4) {
        *(quad<Y> *) (void *) y = made;
        return;
    }
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        if (i < n) {
            y[i * stride] = made.v[i];
        }
    }
}

// The work of one group. C: what is summed; EACH x EACH: of a work-item.
template <class A, class B, class C, int EACH> struct square {
    enum {
        SIZE = 16 * EACH,
        PIECES = RK_BLOCK / SIZE,        // of a line: each work-item fetches one of a and one of b
        LENGTH = sizeof(C) == 8 ? 4 : 8, // of a piece
        DEPTH = PIECES * LENGTH,
        QUADS = EACH / 4, // a work-item's lines are fours, SIZE / QUADS apart
    };
    struct strips {
        alignas(16) C a[2][DEPTH * SIZE], b[2][DEPTH * SIZE];
    };
    C sum[EACH][EACH];

    // Lines of a strip are turned around in each piece, so that neither the 32 lanes that write
    // pieces meet in a bank nor those that read lines.
    static __device__ u32 place(u32 d, u32 line) {
        return d * SIZE + (line ^ d / LENGTH * (32 / PIECES));
    }
    // Neighbours fetch along k where it lies in memory one behind the other, and along lines
    // otherwise.
    static __device__ u32 my_line(u32 k_stride) {
        return k_stride == 1 ? thread_index() / PIECES : thread_index() % SIZE;
    }
    static __device__ u32 my_piece(u32 k_stride) {
        return k_stride == 1 ? thread_index() % PIECES : thread_index() / SIZE;
    }
    // 4 x 8 work-items of a row of lanes, so that they share what they read.
    static __device__ u32 my_row(u32 i) {
        return i / 4 * (SIZE / QUADS) + (thread_index() / 64 * 4 + thread_index() % 32 / 8) * 4 +
               i % 4;
    }
    static __device__ u32 my_column(u32 j) {
        return j / 4 * (SIZE / QUADS) + (thread_index() / 32 % 2 * 8 + thread_index() % 8) * 4 +
               j % 4;
    }

    template <class P> static __device__ void store(C * strip, const P & p, u32 k_stride) {
        u32 line = my_line(k_stride), first = my_piece(k_stride) * LENGTH;
        u32 at = place(first, line);
#pragma unroll
        for (u32 i = 0; i < LENGTH; i++) {
            strip[at + i * SIZE] = (C) p.at(i);
        }
    }

    __device__ void multiply(const C * a, const C * b) {
#pragma unroll 1
        for (u32 first = 0; first < DEPTH; first += LENGTH) {
            const C *rows[QUADS], *columns[QUADS];
            for (u32 q = 0; q < QUADS; q++) {
                rows[q] = a + place(first, my_row(4 * q));
                columns[q] = b + place(first, my_column(4 * q));
            }
#pragma unroll 2
            for (u32 d = 0; d < LENGTH; d++) {
                quad<C> row[QUADS], column[QUADS];
                for (u32 q = 0; q < QUADS; q++) {
                    row[q] = *(const quad<C> *) (const void *) (rows[q] + d * SIZE);
                    column[q] = *(const quad<C> *) (const void *) (columns[q] + d * SIZE);
                }
                for (u32 i = 0; i < EACH; i++) {
                    for (u32 j = 0; j < EACH; j++) {
                        sum[i][j] += row[i / 4].v[i % 4] * column[j / 4].v[j % 4];
                    }
                }
            }
        }
    }

    // a and b: the lines that my_line names; NULL: there is none, and it counts as 0.
    __device__ void run(strips & s, const A * a, u32 a_stride, const B * b, u32 b_stride,
                        u32 n_inner) {
        piece<A, LENGTH> pa;
        piece<B, LENGTH> pb;
        bool a_whole = pa.is_whole(a, a_stride), b_whole = pb.is_whole(b, b_stride);
        u32 a_first = my_piece(a_stride) * LENGTH, b_first = my_piece(b_stride) * LENGTH, side = 0;
        for (u32 i = 0; i < EACH; i++) {
            for (u32 j = 0; j < EACH; j++) {
                sum[i][j] = 0;
            }
        }
#pragma unroll 1
        for (u32 k = 0; k < n_inner + DEPTH; k += DEPTH, side ^= 1) {
            bool more = k < n_inner;
            if (more) {
                pa.fetch(a, k + a_first, a_stride, n_inner, a_whole);
                pb.fetch(b, k + b_first, b_stride, n_inner, b_whole);
            }
            if (k > 0) {
                multiply(s.a[side ^ 1], s.b[side ^ 1]);
            }
            if (more) {
                store(s.a[side], pa, a_stride);
                store(s.b[side], pb, b_stride);
            }
            barrier();
        }
    }

    // The column's rows begin at `row`; `aligned`: each fourth is so for stores of four.
    template <class Y>
    __device__ void put_column(Y * y, u32 stride, u32 j, u32 row, u32 n_rows, bool aligned) const {
#pragma unroll
        for (u32 q = 0; q < QUADS; q++) {
            u32 r = row + my_row(4 * q);
            C four[4] = {sum[4 * q][j], sum[4 * q + 1][j], sum[4 * q + 2][j], sum[4 * q + 3][j]};
            put_four(y + r * stride, stride, r < n_rows ? n_rows - r : 0, four, aligned);
        }
    }
};

struct batch_place {
    u32 a, b, y;
};

DEVICE batch_place find_batch(const rk_matmul & args, u32 z) {
    u32 second = z / args.dim, first = z - second * args.dim;
    batch_place p;
    p.a = first / args.a_share[0] * args.a_batch[0] + second / args.a_share[1] * args.a_batch[1];
    p.b = first * args.b_batch[0] + second * args.b_batch[1];
    p.y = first * args.y_batch[0] + second * args.y_batch[1];
    return p;
}

template <class A, class B, class Y, int EACH> DEVICE void matmul(const rk_matmul & args) {
    typedef square<A, B, typename calc<Y>::type, EACH> S;
    __shared__ typename S::strips strips;
    S s;
    batch_place place = find_batch(args, group_index_z());
    u32 row = group_index_y() * S::SIZE, column = group_index() * S::SIZE;
    u32 r = row + S::my_line(args.a_stride[1]), c = column + S::my_line(args.b_stride[0]);
    const A * a = (const A *) args.a + place.a + r * args.a_stride[0];
    const B * b = (const B *) args.b + place.b + c * args.b_stride[1];
    s.run(strips, r < args.n_rows ? a : 0, args.a_stride[1], c < args.n_columns ? b : 0,
          args.b_stride[0], args.n_inner);
    Y * y = (Y *) args.y + place.y;
    bool aligned = args.y_stride[0] == 1 &&
                   ((uint64_t) y | args.y_stride[1] * sizeof(Y)) % (4 * sizeof(Y)) == 0;
#pragma unroll
    for (u32 j = 0; j < EACH; j++) {
        c = column + S::my_column(j);
        if (c < args.n_columns) {
            s.put_column(y + c * args.y_stride[1], args.y_stride[0], j, row, args.n_rows, aligned);
        }
    }
}

// How a row of a is multiplied with a column, STEP elements along k at a time; quantized ones have
// a way of their own.
template <class T> struct matrix {
    enum { STEP = 1 };
    template <class C, class B>
    static __device__ C dot(const T * row, u32 stride, const B * column, u32 column_stride, u32 k) {
        return (C) widen(row[k * stride]) * (C) widen(column[k * column_stride]);
    }
};

// Rows of floats whose numbers lie one behind the other, and aligned, are read eight at a time by
// loads of 16 bytes; how many of them were multiplied is in *done.
template <class C, class A, class B>
DEVICE C dot_eights(const A * a, const B * b, u32 n_inner, u32 * done) {
    C sum = 0;
    *done = n_inner / 8 * 8;
#pragma unroll 2
    for (u32 k = thread_index() * 8; k < *done; k += group_size() * 8) {
        piece<A, 8> pa;
        piece<B, 8> pb;
        pa.fetch(a, k, 1, k + 8, true);
        pb.fetch(b, k, 1, k + 8, true);
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            sum += (C) pa.at(i) * (C) pb.at(i);
        }
    }
    return sum;
}

// A group for each element: for one or a few columns, where squares would be mostly empty.
template <class A, class B, class Y> DEVICE void matvec(const rk_matmul & args) {
    typedef typename calc<Y>::type C;
    batch_place place = find_batch(args, group_index_z());
    u32 row = group_index(), column = group_index_y(), done = 0;
    const A * a = (const A *) args.a + place.a + row * args.a_stride[0];
    const B * b = (const B *) args.b + place.b + column * args.b_stride[1];
    C sum = 0;
    if (matrix<A>::STEP == 1 && piece<A, 8>::is_whole(a, args.a_stride[1]) &&
        piece<B, 8>::is_whole(b, args.b_stride[0])) {
        sum = dot_eights<C>(a, b, args.n_inner, &done);
    }
    for (u32 k = done + thread_index() * matrix<A>::STEP; k < args.n_inner;
         k += group_size() * matrix<A>::STEP) {
        sum += matrix<A>::template dot<C>(a, args.a_stride[1], b, args.b_stride[0], k);
    }
    sum = over_group<pick_sum>(sum);
    if (thread_index() == 0) {
        ((Y *) args.y)[place.y + row * args.y_stride[0] + column * args.y_stride[1]] =
            narrow<Y>(sum);
    }
}

#define MATMUL(name, a, b, y)                                                                      \
    KERNEL(matmul_##name, rk_matmul) {                                                             \
        matmul<a, b, y, RK_TILE / 16>(args);                                                       \
    }                                                                                              \
    KERNEL(matvec_##name, rk_matmul) {                                                             \
        matvec<a, b, y>(args);                                                                     \
    }
#define MATMUL_WIDE(name, a, b, y)                                                                 \
    KERNEL_FOR(2, matmul_wide_##name, rk_matmul) {                                                 \
        matmul<a, b, y, RK_TILE_WIDE / 16>(args);                                                  \
    }

#endif

// matrix_cores: a square of a product by matrix instructions, MFMA of gfx90a and gfx942 and WMMA of
// gfx11. Strips of a and b go through LDS as f16 or bf16, whatever they are in memory; sums are
// f32. There are two of each: while one is multiplied, a work-item has its chunks of the next in
// registers. Where a GPU has no such instructions RK_MATRIX_CORES is not defined.
//
// A chunk is eight numbers along k, 16 bytes. The order of k within a strip does not matter as long
// as a and b have the same, and so a lane's operands are whole chunks, one load from LDS each.
#ifndef ROCM_KERNELS_MATRIX_CORES_H
#define ROCM_KERNELS_MATRIX_CORES_H

#include "matmul.h"

#if defined(__gfx90a__) || defined(__gfx942__)
#    define RK_MATRIX_CORES

template <int N> struct vectors {
    typedef _Float16 halves __attribute__((ext_vector_type(N)));
    typedef short shorts __attribute__((ext_vector_type(N)));
    typedef float floats __attribute__((ext_vector_type(N)));
};

// v_mfma_f32_32x32x8: a lane has four k of line lane % 32 of a and of b. It reads a chunk, which is
// for two instructions. Of the result it has column lane % 32, four rows out of each eight.
struct core {
    enum { UNIT = 32, CHUNKS = 2, QUADS = 4, WAVES_DOWN = 2, WAVES_ACROSS = 2, LANES = 64 };
    typedef vectors<16>::floats sums;
    struct lines {
        sixteen_bytes chunk;
    };
    template <class P> static __device__ lines read(P at, u32 line, u32 step, bool) {
        u32 lane = thread_index() % LANES;
        lines l = {*at(line + lane % UNIT, step * CHUNKS + lane / UNIT)};
        return l;
    }
    static __device__ u32 row(u32 quad) {
        return quad * 8 + thread_index() % LANES / UNIT * 4;
    }
    static __device__ u32 column(void) {
        return thread_index() % UNIT;
    }
    static __device__ sums multiply(f16, const lines & a, const lines & b, sums c) {
        vectors<4>::halves x[2], y[2];
        __builtin_memcpy(x, &a, sizeof x);
        __builtin_memcpy(y, &b, sizeof y);
        c = __builtin_amdgcn_mfma_f32_32x32x8f16(x[0], y[0], c, 0, 0, 0);
        return __builtin_amdgcn_mfma_f32_32x32x8f16(x[1], y[1], c, 0, 0, 0);
    }
    static __device__ sums multiply(bf16, const lines & a, const lines & b, sums c) {
        vectors<4>::shorts x[2], y[2];
        __builtin_memcpy(x, &a, sizeof x);
        __builtin_memcpy(y, &b, sizeof y);
        c = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(x[0], y[0], c, 0, 0, 0);
        return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(x[1], y[1], c, 0, 0, 0);
    }
};

#elif defined(__GFX11__) && __AMDGCN_WAVEFRONT_SIZE__ == 32
#    define RK_MATRIX_CORES

template <int N> struct vectors {
    typedef _Float16 halves __attribute__((ext_vector_type(N)));
    typedef short shorts __attribute__((ext_vector_type(N)));
    typedef float floats __attribute__((ext_vector_type(N)));
};

// v_wmma_f32_16x16x16: a lane has 16 k of line lane % 16 of a and of b, each line twice. Of the
// result it has column lane % 16 and every second row: so line i of a is given as 2 i, or 2 i - 15
// from the eighth on, and a lane's eight rows lie one behind the other.
struct core {
    enum { UNIT = 16, CHUNKS = 2, QUADS = 2, WAVES_DOWN = 2, WAVES_ACROSS = 4, LANES = 32 };
    typedef vectors<8>::floats sums;
    struct lines {
        sixteen_bytes chunk[CHUNKS];
    };
    template <class P> static __device__ lines read(P at, u32 line, u32 step, bool rows) {
        u32 i = thread_index() % UNIT;
        line += rows ? i % 2 * 8 + i / 2 : i;
        lines l = {{*at(line, step * CHUNKS), *at(line, step * CHUNKS + 1)}};
        return l;
    }
    static __device__ u32 row(u32 quad) {
        return thread_index() % LANES / UNIT * 8 + quad * 4;
    }
    static __device__ u32 column(void) {
        return thread_index() % UNIT;
    }
    static __device__ sums multiply(f16, const lines & a, const lines & b, sums c) {
        vectors<16>::halves x, y;
        __builtin_memcpy(&x, &a, sizeof x);
        __builtin_memcpy(&y, &b, sizeof y);
        return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, c);
    }
    static __device__ sums multiply(bf16, const lines & a, const lines & b, sums c) {
        vectors<16>::shorts x, y;
        __builtin_memcpy(&x, &a, sizeof x);
        __builtin_memcpy(&y, &b, sizeof y);
        return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(x, y, c);
    }
};
#endif

#ifdef RK_MATRIX_CORES

// Eight numbers as E.
template <class E, class P> DEVICE sixteen_bytes chunk_of(E, const P & p) {
    E made[8];
#    pragma unroll
    for (u32 i = 0; i < 8; i++) {
        made[i] = narrow<E>(p.at(i));
    }
    sixteen_bytes out;
    __builtin_memcpy(&out, made, sizeof out);
    return out;
}
template <class E> DEVICE sixteen_bytes chunk_of(E, const piece<E, 8> & p) {
    sixteen_bytes out;
    __builtin_memcpy(&out, p.raw, sizeof out);
    return out;
}

// The work of one group: SIZE x SIZE of the result, of a and b as E.
template <class A, class B, class E, int SIZE> struct matrix_square {
    enum {
        CHUNKS = 4, // of a line in a strip
        DEPTH = CHUNKS * 8,
        FETCHED = SIZE * CHUNKS / RK_BLOCK, // chunks of each matrix by a work-item
        DOWN = SIZE / core::WAVES_DOWN / core::UNIT,
        ACROSS = SIZE / core::WAVES_ACROSS / core::UNIT,
    };
    struct strips {
        sixteen_bytes a[2][SIZE * CHUNKS], b[2][SIZE * CHUNKS];
    };
    core::sums sum[DOWN][ACROSS];

    // Chunks of a line are exchanged, so that eight lanes that read eight lines, in their order or
    // in core's, do not meet in a bank.
    static __device__ u32 place(u32 line, u32 chunk) {
        return line * CHUNKS + (chunk ^ ((line / 2 ^ line / 8 * 2) % CHUNKS));
    }
    static __device__ u32 my_line(u32 i) {
        return thread_index() / CHUNKS + i * (RK_BLOCK / CHUNKS);
    }
    static __device__ u32 my_row(u32 i) {
        u32 wave = thread_index() / core::LANES;
        return (wave / core::WAVES_ACROSS * DOWN + i) * core::UNIT;
    }
    static __device__ u32 my_column(u32 j) {
        u32 wave = thread_index() / core::LANES;
        return (wave % core::WAVES_ACROSS * ACROSS + j) * core::UNIT;
    }

    __device__ void multiply(const sixteen_bytes * a, const sixteen_bytes * b) {
#    pragma unroll
        for (u32 step = 0; step < CHUNKS / core::CHUNKS; step++) {
            core::lines rows[DOWN], columns[ACROSS];
#    pragma unroll
            for (u32 i = 0; i < DOWN; i++) {
                rows[i] = core::read([=](u32 line, u32 c) { return a + place(line, c); }, my_row(i),
                                     step, true);
            }
#    pragma unroll
            for (u32 j = 0; j < ACROSS; j++) {
                columns[j] = core::read([=](u32 line, u32 c) { return b + place(line, c); },
                                        my_column(j), step, false);
            }
#    pragma unroll
            for (u32 i = 0; i < DOWN; i++) {
#    pragma unroll
                for (u32 j = 0; j < ACROSS; j++) {
                    sum[i][j] = core::multiply(E(), rows[i], columns[j], sum[i][j]);
                }
            }
        }
    }

    // a and b: the lines that my_line names; NULL: there is none, and it counts as 0.
    __device__ void run(strips & s, const A * const (&a)[FETCHED], u32 a_stride,
                        const B * const (&b)[FETCHED], u32 b_stride, u32 n_inner) {
        piece<A, 8> pa[FETCHED];
        piece<B, 8> pb[FETCHED];
        u32 chunk = thread_index() % CHUNKS, side = 0;
#    pragma unroll
        for (u32 i = 0; i < DOWN; i++) {
#    pragma unroll
            for (u32 j = 0; j < ACROSS; j++) {
                sum[i][j] = core::sums();
            }
        }
#    pragma unroll 1
        for (u32 k = 0; k < n_inner + DEPTH; k += DEPTH, side ^= 1) {
            bool more = k < n_inner;
            if (more) {
#    pragma unroll
                for (u32 i = 0; i < FETCHED; i++) {
                    pa[i].fetch(a[i], k + chunk * 8, a_stride, n_inner,
                                pa[i].is_whole(a[i], a_stride));
                    pb[i].fetch(b[i], k + chunk * 8, b_stride, n_inner,
                                pb[i].is_whole(b[i], b_stride));
                }
            }
            if (k > 0) {
                multiply(s.a[side ^ 1], s.b[side ^ 1]);
            }
            if (more) {
#    pragma unroll
                for (u32 i = 0; i < FETCHED; i++) {
                    s.a[side][place(my_line(i), chunk)] = chunk_of(E(), pa[i]);
                    s.b[side][place(my_line(i), chunk)] = chunk_of(E(), pb[i]);
                }
            }
            barrier();
        }
    }

    // Column core::column() of unit j, from `row` of the product on.
    __device__ void put_column(f32 * y, u32 stride, u32 j, u32 row, u32 n_rows,
                               bool aligned) const {
#    pragma unroll
        for (u32 i = 0; i < DOWN; i++) {
#    pragma unroll
            for (u32 q = 0; q < core::QUADS; q++) {
                u32 r = row + my_row(i) + core::row(q);
                f32 four[4] = {sum[i][j][4 * q], sum[i][j][4 * q + 1], sum[i][j][4 * q + 2],
                               sum[i][j][4 * q + 3]};
                put_four(y + r * stride, stride, r < n_rows ? n_rows - r : 0, four, aligned);
            }
        }
    }
};

#endif
#endif

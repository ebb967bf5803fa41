// compat: one source, three compilers. clang++ alone (ROCM_KERNELS_FREESTANDING: no headers, no
// device library), hipcc with AMD's headers, and nvcc, for which the same source is CUDA.
//
// A kernel is written as KERNEL(name, struct) and gets its arguments as `args`. KERNEL_FOR is one
// that is to have few enough registers for so many groups at a time on a compute unit.
#ifndef ROCM_KERNELS_COMPAT_H
#define ROCM_KERNELS_COMPAT_H

#if defined(ROCM_KERNELS_FREESTANDING)
#    define __global__ __attribute__((global))
#    define __device__ __attribute__((device))
#    define __shared__ __attribute__((shared))
// As AMD's headers have it: clang's attribute of that name is CUDA's, and does nothing here.
#    define LAUNCH_BOUNDS_1(n)                 __attribute__((amdgpu_flat_work_group_size(1, n)))
#    define LAUNCH_BOUNDS_2(n, m)              LAUNCH_BOUNDS_1(n) __attribute__((amdgpu_waves_per_eu(m)))
#    define LAUNCH_BOUNDS_OF(a, b, which, ...) which
#    define __launch_bounds__(...)                                                                 \
        LAUNCH_BOUNDS_OF(__VA_ARGS__, LAUNCH_BOUNDS_2, LAUNCH_BOUNDS_1, 0)(__VA_ARGS__)
#elif defined(__CUDACC__) && !defined(__HIP__)
#    include <cuda_fp16.h>
#    include <cuda_runtime.h>
#else
#    include <hip/hip_runtime.h>
#endif

#include "kernels.h"

#define DEVICE static inline __device__
#define KERNEL(name, arguments)                                                                    \
    extern "C" __global__ __launch_bounds__(RK_BLOCK) void name(struct arguments args)
#define KERNEL_FOR(groups, name, arguments)                                                        \
    extern "C" __global__ __launch_bounds__(RK_BLOCK, groups) void name(struct arguments args)

// ---- where we are ----

#ifdef ROCM_KERNELS_FREESTANDING
DEVICE uint32_t thread_index(void) {
    return __builtin_amdgcn_workitem_id_x();
}
DEVICE uint32_t group_size(void) {
    return __builtin_amdgcn_workgroup_size_x();
}
DEVICE uint32_t group_index(void) {
    return __builtin_amdgcn_workgroup_id_x();
}
DEVICE uint32_t group_index_y(void) {
    return __builtin_amdgcn_workgroup_id_y();
}
DEVICE uint32_t group_index_z(void) {
    return __builtin_amdgcn_workgroup_id_z();
}
DEVICE void barrier(void) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#else
DEVICE uint32_t thread_index(void) {
    return threadIdx.x;
}
DEVICE uint32_t group_size(void) {
    return blockDim.x;
}
DEVICE uint32_t group_index(void) {
    return blockIdx.x;
}
DEVICE uint32_t group_index_y(void) {
    return blockIdx.y;
}
DEVICE uint32_t group_index_z(void) {
    return blockIdx.z;
}
DEVICE void barrier(void) {
    __syncthreads();
}
#endif

DEVICE uint32_t global_index(void) {
    return group_index() * group_size() + thread_index();
}

// ---- other lanes of a wave: all of a row of 32 must be there ----

// What the 32 wrote to LDS they may read from each other.
DEVICE void lanes_barrier(void) {
#if defined(__CUDACC__) && !defined(__HIP__)
    __syncwarp();
#else
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
#endif
}

#if defined(ROCM_KERNELS_FREESTANDING)
DEVICE float shuffle_xor(float v, uint32_t mask) {
    uint32_t lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
    int bits = __builtin_bit_cast(int, v);
    bits = __builtin_amdgcn_ds_bpermute((int) ((lane ^ mask) * 4), bits);
    return __builtin_bit_cast(float, bits);
}
#elif defined(__CUDACC__) && !defined(__HIP__)
DEVICE float shuffle_xor(float v, uint32_t mask) {
    return __shfl_xor_sync(~0u, v, (int) mask);
}
#else
DEVICE float shuffle_xor(float v, uint32_t mask) {
    return __shfl_xor(v, (int) mask);
}
#endif

// What lane `from` of the 32 has.
DEVICE float shuffle_from(float v, uint32_t from) {
#if defined(ROCM_KERNELS_FREESTANDING)
    uint32_t lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
    int bits = __builtin_bit_cast(int, v);
    bits = __builtin_amdgcn_ds_bpermute((int) ((lane / 32 * 32 + from) * 4), bits);
    return __builtin_bit_cast(float, bits);
#elif defined(__CUDACC__) && !defined(__HIP__)
    return __shfl_sync(~0u, v, (int) from);
#else
    return __shfl(v, (int) from, 32);
#endif
}

// The sum over N lanes, a power of two up to 32, that begin at a multiple of it.
template <int N> DEVICE float sum_lanes(float v) {
    for (int by = N / 2; by > 0; by /= 2) {
        v += shuffle_xor(v, (uint32_t) by);
    }
    return v;
}
template <int N> DEVICE float max_lanes(float v) {
    for (int by = N / 2; by > 0; by /= 2) {
        float other = shuffle_xor(v, (uint32_t) by);
        v = other > v ? other : v;
    }
    return v;
}

// ---- products of bytes ----

// c and four products of signed bytes.
DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c) {
#if defined(__CUDACC__) && !defined(__HIP__)
    return __dp4a((int) a, (int) b, c);
#elif defined(__GFX11__) || defined(__GFX12__)
    return __builtin_amdgcn_sudot4(true, (int) a, true, (int) b, c, false);
#elif defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) ||  \
    defined(__gfx950__) || defined(__gfx1030__) || defined(__gfx1031__) || defined(__gfx1032__)
    return __builtin_amdgcn_sdot4((int) a, (int) b, c, false);
#else
    for (int i = 0; i < 32; i += 8) {
        c += (int32_t) (int8_t) (a >> i) * (int32_t) (int8_t) (b >> i);
    }
    return c;
#endif
}

// Four bytes of two words, from byte 0 to 4 of the first on.
DEVICE uint32_t word_from(uint32_t low, uint32_t high, uint32_t byte) {
#if defined(__CUDACC__) && !defined(__HIP__)
    return __byte_perm(low, high, 0x3210 + byte * 0x1111);
#else
    return __builtin_amdgcn_perm(high, low, 0x03020100 + byte * 0x01010101);
#endif
}

// ---- types ----

typedef float f32;
typedef double f64;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint32_t u32;
#if defined(__CUDACC__) && !defined(__HIP__)
typedef __half f16;
#else
typedef _Float16 f16;
#endif
struct bf16 {
    uint16_t bits;
};

// What a type is computed in, and the way there and back.
template <class T> struct calc { typedef T type; };
template <> struct calc<f16> { typedef f32 type; };
template <> struct calc<bf16> { typedef f32 type; };

template <class T> DEVICE T widen(T v) {
    return v;
}
DEVICE f32 widen(bf16 v) {
    return __builtin_bit_cast(f32, (u32) v.bits << 16);
}
#if defined(__CUDACC__) && !defined(__HIP__)
DEVICE f32 widen(f16 v) {
    return __half2float(v);
}
#else
DEVICE f32 widen(f16 v) {
    return (f32) v;
}
#endif

template <class T> struct narrow_to {
    template <class C> static __device__ T from(C v) {
        return (T) v;
    }
};
template <> struct narrow_to<f16> {
    static __device__ f16 from(f32 v) {
#if defined(__CUDACC__) && !defined(__HIP__)
        return __float2half_rn(v);
#else
        return (f16) v;
#endif
    }
};
template <> struct narrow_to<bf16> {
    // To nearest even by adding just less than half of the last place, or half where it is odd. A
    // NaN must not be carried into infinity: it keeps its sign and becomes quiet.
    static __device__ bf16 from(f32 v) {
        u32 bits = __builtin_bit_cast(u32, v);
        u32 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        u32 nan = bits >> 16 | 0x40;
        bf16 out = {(uint16_t) (v != v ? nan : rounded)};
        return out;
    }
};
template <class T> DEVICE T narrow(typename calc<T>::type v) {
    return narrow_to<T>::from(v);
}

#define FOR_FLOATS(X, ...)                                                                         \
    X(f32, ##__VA_ARGS__) X(f16, ##__VA_ARGS__) X(bf16, ##__VA_ARGS__) X(f64, ##__VA_ARGS__)
#define FOR_INTEGERS(X, ...)                                                                       \
    X(i32, ##__VA_ARGS__) X(i64, ##__VA_ARGS__) X(u8, ##__VA_ARGS__) X(u32, ##__VA_ARGS__)
#define FOR_ALL(X, ...) FOR_FLOATS(X, ##__VA_ARGS__) FOR_INTEGERS(X, ##__VA_ARGS__)
// A family is compiled in parts, so that nobody waits for types that he does not use: who compiles
// a part defines RK_TYPES. Left alone, a source is all of its family.

// 2^x by the instruction for it: right to a few last places, and 0 where that is less than a normal
// number.
DEVICE f32 power_of_2(f32 x) {
#if defined(__CUDACC__) && !defined(__HIP__)
    f32 y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#elif defined(ROCM_KERNELS_FREESTANDING)
    return __builtin_amdgcn_exp2f(x);
#else
    return __builtin_exp2f(x);
#endif
}

// ---- strided elements ----

// Places of element i in up to N tensors. The loop is not unrolled: it is the same for all lanes,
// and code that is loaded once beats code that is long.
template <int N> struct places { u32 at[N]; };

template <int N>
DEVICE places<N> locate(const rk_shape & shape, u32 i, const uint32_t * const (&strides)[N]) {
    places<N> p;
    bool contiguous = shape.n_dims == 0;
    for (int t = 0; t < N; t++) {
        p.at[t] = contiguous ? i : 0;
    }
    // The last dimension needs no division: what is left is its index.
#pragma unroll 1
    for (u32 d = 0; d < shape.n_dims; d++) {
        u32 index = i;
        if (d + 1 < shape.n_dims) {
            u32 rest = i / shape.dims[d];
            index = i - rest * shape.dims[d];
            i = rest;
        }
        for (int t = 0; t < N; t++) {
            p.at[t] += index * strides[t][d];
        }
    }
    return p;
}

#endif

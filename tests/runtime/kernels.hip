// Kernels for test-hsa-kernels: compiled freestanding, without headers or device libraries.
#define GLOBAL extern "C" __attribute__((global)) void
#define DEVICE __attribute__((device))
#define SHARED __attribute__((shared))

typedef unsigned int u32;
typedef unsigned long long u64;

static DEVICE inline u32 local() {
    return __builtin_amdgcn_workitem_id_x();
}

static DEVICE inline u32 size() {
    return __builtin_amdgcn_workgroup_size_x();
}

static DEVICE inline u32 global() {
    return __builtin_amdgcn_workgroup_id_x() * size() + local();
}

static DEVICE inline void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

GLOBAL add(const float * a, const float * b, float * c, u32 n) {
    u32 i = global();
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}

// A sum for each group of 256.
GLOBAL reduce(const u32 * in, u64 * out, u32 n) {
    SHARED u64 part[256];
    u32 l = local(), i = global();
    part[l] = i < n ? (u64) in[i] * in[i] : 0;
    barrier();
    for (u32 half = 128; half; half /= 2) {
        if (l < half) {
            part[l] += part[l + half];
        }
        barrier();
    }
    if (l == 0) {
        out[__builtin_amdgcn_workgroup_id_x()] = part[0];
    }
}

// A histogram, the total, and the maximum, all by atomic operations.
GLOBAL count(const u32 * in, u32 * bins, u64 * total, u32 * max, u32 n) {
    u32 i = global();
    if (i < n) {
        __hip_atomic_fetch_add(&bins[in[i] % 16], 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        __hip_atomic_fetch_add(total, in[i], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        __hip_atomic_fetch_max(max, in[i], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    }
}

// Three dimensions, and an array of each work-item that lies in memory.
GLOBAL volume(u32 * out, u32 w, u32 h, u32 d, u32 turn) {
    u32 x = global();
    u32 y = __builtin_amdgcn_workgroup_id_y() * __builtin_amdgcn_workgroup_size_y() +
            __builtin_amdgcn_workitem_id_y();
    u32 z = __builtin_amdgcn_workgroup_id_z() * __builtin_amdgcn_workgroup_size_z() +
            __builtin_amdgcn_workitem_id_z();
    volatile u32 mine[8];
    for (u32 i = 0; i < 8; i++) {
        mine[(i + turn) % 8] = x * 10000 + y * 100 + z + i;
    }
    if (x < w && y < h && z < d) {
        out[(z * h + y) * w + x] = mine[turn % 8] + mine[(turn + 7) % 8];
    }
}

DEVICE u32 counter = 40;
DEVICE u32 * pointer = &counter; // has to be relocated

GLOBAL variables(u32 * out) {
    *out = *pointer + 2;
    counter = 100;
}

// What must fail: a store to wherever the argument says.
GLOBAL poke(u32 * where) {
    *where = 1;
}

// Many bytes of memory of each work-item's own.
GLOBAL deep(u32 * out, u32 turn) {
    volatile u32 mine[3000];
    u32 i = global();
    for (u32 k = 0; k < 3000; k++) {
        mine[(k * 7 + turn) % 3000] = k * i;
    }
    out[i] = mine[(7 * 2999 + turn) % 3000];
}

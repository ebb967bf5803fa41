// corpus: kernels that make the compiler use most of the instruction set. Freestanding: neither HIP
// headers nor device libraries.
#define GLOBAL extern "C" __attribute__((global)) void
#define DEVICE static __attribute__((device))
#define SHARED __attribute__((shared))
#define NOINLINE __attribute__((noinline))

typedef unsigned uint;
typedef unsigned char uchar;
typedef signed char schar;
typedef unsigned short ushort;
typedef long long llong;
typedef unsigned long long ullong;
typedef _Float16 half;
typedef half half2 __attribute__((ext_vector_type(2)));
typedef short short2 __attribute__((ext_vector_type(2)));
typedef float float2v __attribute__((ext_vector_type(2)));
typedef float float4v __attribute__((ext_vector_type(4)));

DEVICE inline uint local_x() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE inline uint local_y() { return __builtin_amdgcn_workitem_id_y(); }
DEVICE inline uint local_z() { return __builtin_amdgcn_workitem_id_z(); }
DEVICE inline uint group_x() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE inline uint group_y() { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE inline uint group_z() { return __builtin_amdgcn_workgroup_id_z(); }
DEVICE inline uint size_x() { return __builtin_amdgcn_workgroup_size_x(); }
DEVICE inline uint size_y() { return __builtin_amdgcn_workgroup_size_y(); }
DEVICE inline uint size_z() { return __builtin_amdgcn_workgroup_size_z(); }
DEVICE inline int global_x() { return (int) (group_x() * size_x() + local_x()); }
DEVICE inline void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DEVICE inline int lane() {
    return (int) __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
}
#ifndef WAVE
#define WAVE __AMDGCN_WAVEFRONT_SIZE
#endif

// ---- helpers of elementwise.def; the test has the same ----

DEVICE inline float bf16_value(ushort h) {
    return __builtin_bit_cast(float, (uint) h << 16);
}
DEVICE inline ushort bf16_bits(float f) {
    uint u = __builtin_bit_cast(uint, f);
    return f != f ? (ushort) (u >> 16 | 64) : (ushort) ((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
DEVICE inline int saturated(int a, int b) {
    llong s = (llong) a + b;
    return s > 0x7fffffff ? 0x7fffffff : s < -0x7fffffff - 1 ? -0x7fffffff - 1 : (int) s;
}
DEVICE inline int dot_bytes(uint a, uint b) {
    int s = 0;
    for (int k = 0; k < 4; k++) {
        s += (schar) (a >> 8 * k) * (schar) (b >> 8 * k);
    }
    return s;
}

#define ROW(name, A, B, R, units, ...)                                                             \
    GLOBAL el_##name(const A * x, const B * y, R * z, int n, int stride) {                         \
        int i = global_x();                                                                        \
        if (i < n) {                                                                               \
            A a = x[(llong) i * stride];                                                           \
            B b = y[i];                                                                            \
            (void) a, (void) b;                                                                    \
            z[i] = (R) (__VA_ARGS__);                                                              \
        }                                                                                          \
    }
#include "elementwise.def"

// ---- the four of the bench ----

GLOBAL add(const float * a, const float * b, float * c, int n) {
    int i = global_x();
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}

GLOBAL gelu(const float * a, float * c, int n) {
    int i = global_x();
    if (i < n) {
        float x = a[i];
        float t = 0.7978845608f * (x + 0.044715f * x * x * x);
        float e = __builtin_expf(2.0f * t);
        c[i] = 0.5f * x * (1.0f + (1.0f - 2.0f / (e + 1.0f)));
    }
}

GLOBAL softmax(const float * a, float * c, int columns) {
    SHARED float part[256];
    const float * x = a + (llong) group_x() * columns;
    float * y = c + (llong) group_x() * columns;
    int t = (int) local_x(), n = (int) size_x();
    float most = -__builtin_inff();
    for (int i = t; i < columns; i += n) {
        most = __builtin_fmaxf(most, x[i]);
    }
    part[t] = most;
    barrier();
    for (int s = n / 2; s > 0; s >>= 1) {
        if (t < s) {
            part[t] = __builtin_fmaxf(part[t], part[t + s]);
        }
        barrier();
    }
    most = part[0];
    barrier();
    float sum = 0;
    for (int i = t; i < columns; i += n) {
        sum += __builtin_expf(x[i] - most);
    }
    part[t] = sum;
    barrier();
    for (int s = n / 2; s > 0; s >>= 1) {
        if (t < s) {
            part[t] += part[t + s];
        }
        barrier();
    }
    sum = part[0];
    for (int i = t; i < columns; i += n) {
        y[i] = __builtin_expf(x[i] - most) / sum;
    }
}

GLOBAL matmul(const float * a, const float * b, float * c, int m, int n, int k) {
    SHARED float ta[16][17], tb[16][17];
    int x = (int) local_x(), y = (int) local_y();
    int row = (int) group_y() * 16 + y, column = (int) group_x() * 16 + x;
    float sum = 0;
    for (int at = 0; at < k; at += 16) {
        ta[y][x] = row < m && at + x < k ? a[(llong) row * k + at + x] : 0.0f;
        tb[y][x] = column < n && at + y < k ? b[(llong) (at + y) * n + column] : 0.0f;
        barrier();
        for (int i = 0; i < 16; i++) {
            sum = __builtin_fmaf(ta[y][i], tb[i][x], sum);
        }
        barrier();
    }
    if (row < m && column < n) {
        c[(llong) row * n + column] = sum;
    }
}

// ---- lanes that see each other ----

DEVICE inline int shuffle(int v, int from) {
    return __builtin_amdgcn_ds_bpermute(from << 2, v);
}

GLOBAL wave_sum(const int * a, int * c, int n) { // ds_bpermute
    int i = global_x(), v = i < n ? a[i] : 0;
    for (int s = WAVE / 2; s > 0; s >>= 1) {
        v += shuffle(v, lane() ^ s);
    }
    if (lane() == 0) {
        c[i / WAVE] = v;
    }
}

GLOBAL row_sum_dpp(const int * a, int * c) { // sums of 16 lanes: row_shr with bound_ctrl
    int i = global_x(), v = a[i];
    v += __builtin_amdgcn_update_dpp(0, v, 0x111, 15, 15, true);
    v += __builtin_amdgcn_update_dpp(0, v, 0x112, 15, 15, true);
    v += __builtin_amdgcn_update_dpp(0, v, 0x114, 15, 15, true);
    v += __builtin_amdgcn_update_dpp(0, v, 0x118, 15, 15, true);
    c[i] = v;
}

GLOBAL quad_dpp(const int * a, int * c) { // quad_perm [3,2,1,0], and a masked row mirror
    int i = global_x(), v = a[i];
    int q = __builtin_amdgcn_update_dpp(v, v, 0x1b, 15, 15, false);
    int m = __builtin_amdgcn_update_dpp(-1, v, 0x140, 5, 15, false);
    int r = __builtin_amdgcn_update_dpp(0, v, 0x123, 15, 15, false);
    c[i] = q * 3 + m * 5 + r;
}

GLOBAL swizzle(const int * a, int * c) {
    int i = global_x(), v = a[i];
    c[i] = __builtin_amdgcn_ds_swizzle(v, 0x401f) + 3 * __builtin_amdgcn_ds_swizzle(v, 0x80b1) +
           7 * __builtin_amdgcn_ds_swizzle(v, 0x0018);
}

GLOBAL lanes(const int * a, int * c) {
    int i = global_x(), v = a[i];
    int first = __builtin_amdgcn_readfirstlane(v), fifth = __builtin_amdgcn_readlane(v, 5);
    int pushed = __builtin_amdgcn_ds_permute(((lane() + 3) & (WAVE - 1)) << 2, v);
    c[i] = first + 3 * fifth + 5 * pushed;
}

GLOBAL ballot(const int * a, ullong * c, int n) {
    int i = global_x();
    if (i < n && a[i] % 3 == 0) {
        ullong m = __builtin_amdgcn_read_exec();
        c[i] = m;
    }
}

GLOBAL scan(const int * a, int * c) { // of a whole group, through LDS
    SHARED int part[256];
    int t = (int) local_x(), i = global_x();
    part[t] = a[i];
    barrier();
    for (int s = 1; s < (int) size_x(); s <<= 1) {
        int v = t >= s ? part[t - s] : 0;
        barrier();
        part[t] += v;
        barrier();
    }
    c[i] = part[t];
}

// ---- atomics ----

GLOBAL histogram(const uint * a, uint * bins, int n) {
    SHARED uint part[64];
    if (local_x() < 64) {
        part[local_x()] = 0;
    }
    barrier();
    for (int i = global_x(); i < n; i += (int) size_x() * 8) {
        __hip_atomic_fetch_add(&part[a[i] & 63], 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    }
    barrier();
    if (local_x() < 64) {
        __hip_atomic_fetch_add(&bins[local_x()], part[local_x()], __ATOMIC_RELAXED,
                               __HIP_MEMORY_SCOPE_AGENT);
    }
}

GLOBAL atomics(const int * a, int * c, ullong * d, float * f, double * e, int n) {
    int i = global_x();
    if (i >= n) {
        return;
    }
    int v = a[i];
    __hip_atomic_fetch_min(&c[0], v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_max(&c[1], v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_and(&c[2], v | 0xff, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_or(&c[3], v & 0xffff, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_xor(&c[4], v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_sub(&c[5], v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_add(&d[0], (ullong) (uint) v, __ATOMIC_SEQ_CST, __HIP_MEMORY_SCOPE_SYSTEM);
    __hip_atomic_fetch_max(&d[1], (ullong) (uint) v << 7, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_add(f, 0.25f, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_add(e, 0.125, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    uint old = __hip_atomic_load((uint *) &c[6], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    while (!__hip_atomic_compare_exchange_strong((uint *) &c[6], &old, old * 3 + 1, __ATOMIC_RELAXED,
                                                 __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)) {
    }
    c[8 + i] = (int) __hip_atomic_fetch_add((uint *) &c[7], 1u, __ATOMIC_RELAXED,
                                            __HIP_MEMORY_SCOPE_AGENT);
}

// The last group to arrive sums what the others wrote: release and acquire between groups.
GLOBAL last_group(const int * a, int * part, uint * arrived, int * out, int groups) {
    SHARED int sum, is_last;
    if (local_x() == 0) {
        sum = 0;
    }
    barrier();
    __hip_atomic_fetch_add(&sum, a[global_x()], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    barrier();
    if (local_x() == 0) {
        part[group_x()] = sum;
        uint before = __hip_atomic_fetch_add(arrived, 1u, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
        is_last = before == (uint) groups - 1;
        if (is_last) {
            int all = 0;
            for (int i = 0; i < groups; i++) {
                all += part[i];
            }
            *out = all;
        }
    }
}

// ---- scratch, calls, registers by index ----

GLOBAL scratch(const int * a, int * c, int n) {
    int i = global_x();
    int own[24];
    for (int k = 0; k < 24; k++) {
        own[k] = a[(i * 24 + k) % n];
    }
    for (int k = 0; k < 24; k++) { // a permutation that depends on the data
        int j = own[k] & 15, t = own[k];
        own[k] = own[j + 8];
        own[j + 8] = t;
    }
    int s = 0;
    for (int k = 0; k < 24; k++) {
        s = s * 31 + own[(k * 7 + i) % 24];
    }
    c[i] = s;
}

GLOBAL scratch_bytes(const uchar * a, uchar * c, int n) {
    int i = global_x();
    volatile uchar own[64];
    volatile short wide[16];
    for (int k = 0; k < 64; k++) {
        own[k] = a[(i + k) % n];
    }
    for (int k = 0; k < 16; k++) {
        wide[k] = (short) (own[k * 3 & 63] * 257 - 30000);
    }
    int s = 0;
    for (int k = 0; k < 16; k++) {
        s += wide[(k * 5 + i) & 15] * (own[(k + i) & 63] + 1);
    }
    c[i] = (uchar) (s >> 3);
}

DEVICE NOINLINE int twice_and_more(int v, const int * table) {
    int own[8];
    for (int k = 0; k < 8; k++) {
        own[k] = table[(v + k) & 31];
    }
    return own[v & 7] * 2 + own[(v >> 3) & 7];
}

DEVICE NOINLINE int deep(int v, const int * table, int depth) {
    if (depth == 0) {
        return twice_and_more(v, table);
    }
    return deep(v * 5 + depth, table, depth - 1) + v;
}

GLOBAL calls(const int * a, const int * table, int * c, int n) {
    int i = global_x();
    if (i < n) {
        c[i] = deep(a[i] & 1023, table, a[i] & 3);
    }
}

GLOBAL flat_pointer(const int * a, int * c, int n) { // a pointer that is LDS or scratch or global
    SHARED int shared[64];
    int i = global_x(), own[4] = {i, i * 2, i * 3, i * 5};
    shared[local_x() & 63] = i ^ 21;
    barrier();
    const int * p = i % 3 == 0 ? &a[i % n] : i % 3 == 1 ? &shared[local_x() & 63] : &own[i & 3];
    asm volatile("" : "+v"(p));
    c[i] = *p + own[(i >> 2) & 3];
}

GLOBAL vector_index(const float * a, float * c, int k) { // a uniform index into registers
    typedef float v16 __attribute__((ext_vector_type(16)));
    int i = global_x();
    v16 v;
    for (int j = 0; j < 16; j++) {
        v[j] = a[i * 16 + j];
    }
    v[(k + 3) & 15] = 7.0f;
    c[i] = v[k & 15] + v[(k * 5) & 15];
}

// ---- packed and dotted ----

GLOBAL packed_half(const half2 * a, const half2 * b, half2 * c, int n) {
    int i = global_x();
    if (i < n) {
        half2 x = a[i], y = b[i];
        half2 s = x * y + x;
        s = __builtin_elementwise_max(s, -y);
        s = __builtin_elementwise_min(s, (half2) (half) 100.0f);
        c[i] = s.yx - x;
    }
}

GLOBAL packed_short(const short2 * a, const short2 * b, short2 * c, int n) {
    int i = global_x();
    if (i < n) {
        short2 x = a[i], y = b[i];
        c[i] = __builtin_elementwise_max(x * y + y, x - y) << (short2) 1;
    }
}

GLOBAL packed_float(const float2v * a, const float2v * b, float2v * c, int n) {
    int i = global_x();
    if (i < n) {
        float2v x = a[i], y = b[i];
        float2v s = x * y + y;
        c[i] = s * s.yx + x * 3.0f;
    }
}

GLOBAL copy16(const float4v * a, float4v * c, int n) {
    int i = global_x();
    if (i < n) {
        c[i] = a[n - 1 - i] * 2.0f;
    }
}

GLOBAL copy_bytes(const uchar * a, uchar * c, const ushort * b, ushort * d, int n) {
    int i = global_x();
    if (i < n) {
        c[3 * i] = a[i];
        c[3 * i + 1] = (uchar) (a[i] ^ 255);
        d[2 * i + 1] = (ushort) (b[i] + ((schar) a[i]));
    }
}

struct block_q4 { half d; uchar q[16]; };
struct block_q8 { half d; schar q[32]; };

GLOBAL q4_dot(const block_q4 * a, const block_q8 * b, float * c, int blocks) {
    float sum = 0;
    const block_q4 * row = a + (llong) group_x() * blocks;
    for (int k = (int) local_x(); k < blocks; k += (int) size_x()) {
        int s = 0;
        for (int j = 0; j < 16; j++) {
            s += ((row[k].q[j] & 15) - 8) * b[k].q[j] + ((row[k].q[j] >> 4) - 8) * b[k].q[j + 16];
        }
        sum += (float) row[k].d * (float) b[k].d * (float) s;
    }
    for (int s = WAVE / 2; s > 0; s >>= 1) {
        sum += __builtin_bit_cast(float, shuffle(__builtin_bit_cast(int, sum), lane() ^ s));
    }
    if (local_x() == 0) {
        c[group_x()] = sum;
    }
}

// ---- control ----

GLOBAL grid3(int * c) { // who am I
    uint x = group_x() * size_x() + local_x(), y = group_y() * size_y() + local_y(),
         z = group_z() * size_z() + local_z();
    c[(z * 5 + y) * 7 + x] = (int) (x | y << 8 | z << 16);
}

GLOBAL diverge(const int * a, int * c, int n) {
    int i = global_x();
    if (i >= n) {
        return;
    }
    int v = a[i], steps = 0;
    uint u = (uint) v & 0xffff;
    while (u > 1 && steps < 500) { // of different length in every lane
        u = u & 1 ? u * 3 + 1 : u >> 1;
        steps++;
        if (u == 4096) {
            break;
        }
    }
    switch (v & 7) {
    case 0:
        steps *= 3;
        break;
    case 1:
        steps += v;
        break;
    case 2:
        steps ^= v;
        break;
    case 5:
        steps = -steps;
        break;
    default:
        steps -= 1;
    }
    c[i] = steps;
}

GLOBAL bitonic(int * a) { // 256 of a group, through LDS
    SHARED int s[256];
    int t = (int) local_x();
    s[t] = a[global_x()];
    barrier();
    for (int k = 2; k <= 256; k <<= 1) {
        for (int j = k >> 1; j > 0; j >>= 1) {
            int o = t ^ j;
            if (o > t && (s[t] > s[o]) == ((t & k) == 0)) {
                int v = s[t];
                s[t] = s[o];
                s[o] = v;
            }
            barrier();
        }
    }
    a[global_x()] = s[t];
}

GLOBAL rope(const float * a, float * c, int half_width) {
    int i = global_x();
    float angle = (float) (i % 128) * __builtin_expf(-0.1f * (float) (i % half_width));
    float s = __builtin_sinf(angle), o = __builtin_cosf(angle);
    c[2 * i] = a[2 * i] * o - a[2 * i + 1] * s;
    c[2 * i + 1] = a[2 * i] * s + a[2 * i + 1] * o;
}

GLOBAL dynamic_lds(const int * a, int * c) {
    extern SHARED int room[];
    room[local_x()] = a[global_x()];
    barrier();
    c[global_x()] = room[size_x() - 1 - local_x()];
}

// ---- what goes wrong ----

GLOBAL bad_store(int * c) {
    c[(llong) 1 << 40] = 1;
}

GLOBAL forever(volatile int * c) {
    while (c[0] == 0) {
    }
    c[1] = 1;
}

GLOBAL trap(int * c) {
    if (c[0] == 0) {
        __builtin_trap();
    }
}

GLOBAL masked(const int * a, int * c, int n) { // only lanes below n may touch memory
    int i = global_x();
    int v = 0;
    if (i < n) {
        v = a[i];
    }
    if (v) {
        c[i] = v + 1;
    }
}

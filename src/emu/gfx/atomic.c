// atomic: read-modify-write of one word or pair. Outside memory is shared with other host threads,
// so there it is a host atomic or a loop around compare-and-exchange, sequentially consistent:
// kernels build their releases and acquires around these. LDS and scratch belong to this thread
// alone.
#include "emu/gfx/lanes.h"

static uint32_t add_halves(uint32_t a, uint32_t b) {
    return u16(f16(a & 0xffff) + f16(b & 0xffff)) | u16(f16(a >> 16) + f16(b >> 16)) << 16;
}

static uint32_t bf16_of(float f) {
    uint32_t u = u32(f);
    return f != f ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

static uint32_t add_bf16(uint32_t a, uint32_t b) {
    return bf16_of(f32(a << 16) + f32(b << 16)) | bf16_of(f32(a & 0xffff0000) + f32(b & 0xffff0000))
                                                      << 16;
}

// What memory holds afterwards.
static uint32_t next32(enum gfx_op op, uint32_t m, uint32_t v, uint32_t c) {
    switch (op) {
    case GFX_atomic_swap_b32:
        return v;
    case GFX_atomic_cmpswap_b32:
        return m == c ? v : m;
    case GFX_atomic_cmpswap_f32:
        return f32(m) == f32(c) ? v : m;
    case GFX_atomic_add_u32:
        return m + v;
    case GFX_atomic_sub_u32:
        return m - v;
    case GFX_atomic_rsub_u32:
        return v - m;
    case GFX_atomic_min_i32:
        return (int32_t) m < (int32_t) v ? m : v;
    case GFX_atomic_min_u32:
        return m < v ? m : v;
    case GFX_atomic_max_i32:
        return (int32_t) m > (int32_t) v ? m : v;
    case GFX_atomic_max_u32:
        return m > v ? m : v;
    case GFX_atomic_and_b32:
        return m & v;
    case GFX_atomic_or_b32:
        return m | v;
    case GFX_atomic_xor_b32:
        return m ^ v;
    case GFX_atomic_inc_u32:
        return m >= v ? 0 : m + 1;
    case GFX_atomic_dec_u32:
        return m == 0 || m > v ? v : m - 1;
    case GFX_atomic_mskor_b32: // v: the bits that go, c: those that come
        return (m & ~v) | c;
    case GFX_atomic_wrap_b32:
        return m >= v ? m - v : m + c;
    case GFX_atomic_add_f32:
        return u32(f32(m) + f32(v));
    case GFX_atomic_min_f32:
        return u32(min_f(f32(m), f32(v)));
    case GFX_atomic_max_f32:
        return u32(max_f(f32(m), f32(v)));
    case GFX_atomic_pk_add_f16:
        return add_halves(m, v);
    case GFX_atomic_pk_add_bf16:
        return add_bf16(m, v);
    default:
        return m;
    }
}

static uint64_t next64(enum gfx_op op, uint64_t m, uint64_t v, uint64_t c) {
    switch (op) {
    case GFX_atomic_swap_b64:
        return v;
    case GFX_atomic_cmpswap_b64:
        return m == c ? v : m;
    case GFX_atomic_cmpswap_f64:
        return f64(m) == f64(c) ? v : m;
    case GFX_atomic_add_u64:
        return m + v;
    case GFX_atomic_sub_u64:
        return m - v;
    case GFX_atomic_rsub_u64:
        return v - m;
    case GFX_atomic_min_i64:
        return (int64_t) m < (int64_t) v ? m : v;
    case GFX_atomic_min_u64:
        return m < v ? m : v;
    case GFX_atomic_max_i64:
        return (int64_t) m > (int64_t) v ? m : v;
    case GFX_atomic_max_u64:
        return m > v ? m : v;
    case GFX_atomic_and_b64:
        return m & v;
    case GFX_atomic_or_b64:
        return m | v;
    case GFX_atomic_xor_b64:
        return m ^ v;
    case GFX_atomic_inc_u64:
        return m >= v ? 0 : m + 1;
    case GFX_atomic_dec_u64:
        return m == 0 || m > v ? v : m - 1;
    case GFX_atomic_mskor_b64:
        return (m & ~v) | c;
    case GFX_atomic_add_f64:
        return u64(f64(m) + f64(v));
    case GFX_atomic_min_f64:
        return u64(min_d(f64(m), f64(v)));
    case GFX_atomic_max_f64:
        return u64(max_d(f64(m), f64(v)));
    default:
        return m;
    }
}

#define EXCHANGE(T, next)                                                                          \
    T * q = (T *) (void *) p;                                                                      \
    T old = __atomic_load_n(q, __ATOMIC_SEQ_CST);                                                  \
    while (                                                                                        \
        !__atomic_compare_exchange_n(q, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {  \
    }                                                                                              \
    return old

static uint32_t shared32(enum gfx_op op, uint8_t * p, uint32_t v, uint32_t c) {
    EXCHANGE(uint32_t, next32(op, old, v, c));
}

static uint64_t shared64(enum gfx_op op, uint8_t * p, uint64_t v, uint64_t c) {
    EXCHANGE(uint64_t, next64(op, old, v, c));
}

uint64_t gfx_atomic(enum gfx_op op, uint8_t * p, uint64_t value, uint64_t compare, bool shared) {
    if (gfx_op_info[op].bytes == 8) {
        if (shared) {
            return shared64(op, p, value, compare);
        }
        uint64_t old, next;
        memcpy(&old, p, 8);
        next = next64(op, old, value, compare);
        memcpy(p, &next, 8);
        return old;
    }
    uint32_t v = (uint32_t) value, c = (uint32_t) compare;
    if (shared) {
        return shared32(op, p, v, c);
    }
    uint32_t old, next;
    memcpy(&old, p, 4);
    next = next32(op, old, v, c);
    memcpy(p, &next, 4);
    return old;
}

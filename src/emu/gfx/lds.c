// lds: the memory that the work-items of a group share, and the permutes of its unit. A group runs
// on one host thread, so nothing here is atomic for the host.
//
// Kept true: every offset is checked against the group's own LDS; what lies beyond reads 0.
// Unaligned accesses work, as the hardware is set up for them; atomics must be aligned.
#include "emu/gfx/impl.h"

// Beyond the end hardware reads 0 and forgets writes, and there are kernels that clear registers
// so. A strict GPU calls it an error.
static GFX_COLD uint8_t * beyond_lds(struct gfx_wave * w, uint64_t at) {
    struct gfx_worker * k = w->worker;
    if (k->gpu->config.strict) {
        gfx_fault(w, "LDS offset 0x%llx lies beyond its %u bytes", (unsigned long long) at,
                  w->group->lds_bytes);
        return NULL;
    }
    memset(k->nowhere, 0, sizeof k->nowhere);
    return k->nowhere;
}

// Bytes at lane i's address plus `offset`, NULL after a fault; good until the next call.
static GFX_INLINE uint8_t * lds_at(struct gfx_wave * w, uint32_t addr, uint32_t offset,
                                   uint32_t bytes) {
    uint64_t at = (uint64_t) addr + offset;
    if (GFX_LIKELY(at + bytes <= w->group->lds_bytes)) {
        return w->group->lds + at;
    }
    return beyond_lds(w, at);
}

// All lanes on and every offset inside: words from anywhere, without a check for each.
static bool all_inside(const struct gfx_wave * w, const uint32_t * addr, uint32_t offset,
                       uint32_t bytes) {
    uint32_t most = 0;
    for (int i = 0; i < w->lanes; i++) {
        most = addr[i] > most ? addr[i] : most;
    }
    return (uint64_t) most + offset + bytes <= w->group->lds_bytes;
}

static bool load_words(struct gfx_wave * w, unsigned dst, const uint32_t * addr, uint32_t offset,
                       uint32_t words, uint64_t exec) {
    if (exec == w->all && all_inside(w, addr, offset, 4 * words)) {
        const uint8_t * base = w->group->lds + offset;
        if (words == 1) {
            uint32_t * d = w->v[dst];
            for (int i = 0; i < w->lanes; i++) {
                uint32_t v;
                memcpy(&v, base + addr[i], 4);
                d[i] = v;
            }
            return true;
        }
        uint32_t from[LANES]; // the destination may be the address register
        memcpy(from, addr, sizeof from);
        for (uint32_t k = 0; k < words; k++) {
            for (int i = 0; i < w->lanes; i++) {
                memcpy(&w->v[dst + k][i], base + from[i] + 4 * k, 4);
            }
        }
        return true;
    }
    for (int i = 0; i < w->lanes; i++) {
        if (exec >> i & 1) {
            const uint8_t * p = lds_at(w, addr[i], offset, 4 * words);
            if (!p) {
                return false;
            }
            for (uint32_t k = 0; k < words; k++) {
                memcpy(&w->v[dst + k][i], p + 4 * k, 4);
            }
        }
    }
    return true;
}

static bool store_words(struct gfx_wave * w, unsigned src, const uint32_t * addr, uint32_t offset,
                        uint32_t words, uint64_t exec) {
    for (int i = 0; i < w->lanes; i++) {
        if (exec >> i & 1) {
            uint8_t * p = lds_at(w, addr[i], offset, 4 * words);
            if (!p) {
                return false;
            }
            for (uint32_t k = 0; k < words; k++) {
                memcpy(p + 4 * k, &w->v[src + k][i], 4);
            }
        }
    }
    return true;
}

static void narrow(struct gfx_wave * w, const struct gfx_inst * in, uint64_t exec) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    const uint32_t * addr = w->v[in->src[0].reg];
    for (int i = 0; i < w->lanes; i++) {
        if (!(exec >> i & 1)) {
            continue;
        }
        uint8_t * p = lds_at(w, addr[i], (uint32_t) in->imm, info->bytes);
        if (!p) {
            return;
        }
        if (info->kind == GFX_M_LOAD) {
            uint32_t * d = &w->v[in->dst.reg][i];
            uint32_t v = p[0] | (info->bytes == 2 ? (uint32_t) p[1] << 8 : 0);
            *d = gfx_extend(w, info->form, info->bytes, v, *d);
            continue;
        }
        uint32_t v = w->v[in->src[1].reg][i] >> (info->form == GFX_X_D16_HI ? 16 : 0);
        p[0] = (uint8_t) v;
        if (info->bytes == 2) {
            p[1] = (uint8_t) (v >> 8);
        }
    }
}

static uint64_t lane_value(const struct gfx_wave * w, unsigned reg, int i, uint32_t bytes) {
    return w->v[reg][i] | (bytes == 8 ? (uint64_t) w->v[reg + 1][i] << 32 : 0);
}

static void atomics(struct gfx_wave * w, const struct gfx_inst * in, uint64_t exec) {
    uint32_t bytes = gfx_op_info[in->op].bytes;
    for (int i = 0; i < w->lanes; i++) {
        if (!(exec >> i & 1)) {
            continue;
        }
        uint32_t addr = w->v[in->src[0].reg][i];
        uint8_t * p = lds_at(w, addr, (uint32_t) in->imm, bytes);
        if (!p) {
            return;
        }
        if ((addr + (uint32_t) in->imm) & (bytes - 1)) {
            gfx_fault(w, "atomic at LDS offset 0x%x, which is no multiple of %u",
                      addr + (uint32_t) in->imm, bytes);
            return;
        }
        uint64_t old = gfx_atomic(in->op, p, lane_value(w, in->src[1].reg, i, bytes),
                                  lane_value(w, in->src[2].reg, i, bytes), false);
        if (in->flags & GFX_F_RETURN) {
            w->v[in->dst.reg][i] = (uint32_t) old;
            if (bytes == 8) {
                w->v[in->dst.reg + 1][i] = (uint32_t) (old >> 32);
            }
        }
    }
}

void gfx_step_lds(struct gfx_wave * w, const struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    uint64_t exec = exec_of(w);
    const uint32_t * addr = w->v[in->src[0].reg];
    if (info->kind == GFX_M_ATOMIC) {
        atomics(w, in, exec);
    } else if (info->bytes < 4) {
        narrow(w, in, exec);
    } else if (info->kind == GFX_M_LOAD) {
        load_words(w, in->dst.reg, addr, (uint32_t) in->imm, info->bytes / 4, exec);
    } else {
        store_words(w, in->src[1].reg, addr, (uint32_t) in->imm, info->bytes / 4, exec);
    }
}

// ---- two addresses ----

static void exchange_two(struct gfx_wave * w, const struct gfx_inst * in, uint64_t exec) {
    uint32_t bytes = gfx_op_info[in->op].bytes, words = bytes / 4;
    for (int i = 0; i < w->lanes; i++) {
        if (!(exec >> i & 1)) {
            continue;
        }
        uint32_t addr = w->v[in->src[0].reg][i];
        uint32_t old[4];
        for (uint32_t k = 0; k < 2; k++) {
            uint8_t * p = lds_at(w, addr, (uint32_t) (k ? in->imm2 : in->imm), bytes);
            if (!p) {
                return;
            }
            memcpy(&old[k * words], p, bytes);
            uint64_t v = lane_value(w, in->src[1 + k].reg, i, bytes);
            memcpy(p, &v, bytes);
        }
        for (uint32_t k = 0; k < 2 * words; k++) {
            w->v[in->dst.reg + k][i] = old[k];
        }
    }
}

// ---- permutes ----

// The lane that lane i reads under the pattern of ds_swizzle.
static int swizzle_source(uint32_t pattern, int i) {
    if (pattern >= 0xe000) { // the FFT patterns
        return i;
    }
    if (pattern >= 0xc000) { // rotate within 32 lanes
        int by = (int) (pattern >> 5 & 31), mask = (int) (pattern & 31);
        int to = pattern & 0x400 ? i - by : i + by;
        return (i & 32) | (((i & mask) | (to & ~mask)) & 31);
    }
    if (pattern & 0x8000) {
        return (i & ~3) | (int) (pattern >> 2 * (i & 3) & 3);
    }
    int and = (int) (pattern & 31), or = (int) (pattern >> 5 & 31),
        xor = (int) (pattern >> 10 & 31);
    return (i & 32) | ((((i & 31) & and) | or) ^ xor);
}

static void permute(struct gfx_wave * w, const struct gfx_inst * in, uint64_t exec) {
    uint32_t data[LANES], moved[LANES] = {0};
    unsigned n = (unsigned) w->lanes;
    const uint32_t * addr = w->v[in->src[0].reg];
    if (in->op == GFX_ds_swizzle_b32) {
        memcpy(data, addr, sizeof data);
    } else {
        memcpy(data, w->v[in->src[1].reg], sizeof data);
    }
    for (unsigned i = 0; i < n; i++) {
        unsigned other;
        bool on = exec >> i & 1;
        switch (in->op) {
        case GFX_ds_swizzle_b32:
            other = (unsigned) swizzle_source((uint32_t) in->imm, (int) i);
            moved[i] = exec >> other & 1 ? data[other] : 0;
            break;
        case GFX_ds_bpermute_b32: // pull
            other = (addr[i] + (uint32_t) in->imm) / 4 & (n - 1);
            moved[i] = exec >> other & 1 ? data[other] : 0;
            break;
        default: // ds_permute_b32: push; the highest lane wins
            other = (addr[i] + (uint32_t) in->imm) / 4 & (n - 1);
            if (on) {
                moved[other] = data[i];
            }
        }
    }
    uint32_t * d = w->v[in->dst.reg];
    const uint32_t * on = gfx_exec_row(&w->worker->t, exec);
    for (unsigned i = 0; i < n; i++) {
        d[i] = (moved[i] & on[i]) | (d[i] & ~on[i]);
    }
}

void gfx_step_ds(struct gfx_wave * w, const struct gfx_inst * in) {
    uint64_t exec = exec_of(w);
    uint32_t words = gfx_op_info[in->op].bytes / 4u;
    uint32_t addr[LANES];
    memcpy(addr, w->v[in->src[0].reg], sizeof addr);
    switch (in->op) {
    case GFX_ds_load_2addr_b32:
    case GFX_ds_load_2addr_b64:
        if (load_words(w, in->dst.reg, addr, (uint32_t) in->imm, words, exec)) {
            load_words(w, in->dst.reg + words, addr, (uint32_t) in->imm2, words, exec);
        }
        break;
    case GFX_ds_store_2addr_b32:
    case GFX_ds_store_2addr_b64:
        if (store_words(w, in->src[1].reg, addr, (uint32_t) in->imm, words, exec)) {
            store_words(w, in->src[2].reg, addr, (uint32_t) in->imm2, words, exec);
        }
        break;
    case GFX_ds_storexchg_2addr_rtn_b32:
    case GFX_ds_storexchg_2addr_rtn_b64:
        exchange_two(w, in, exec);
        break;
    case GFX_ds_nop:
        break;
    default:
        permute(w, in, exec);
    }
}

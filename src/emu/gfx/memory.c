// memory: global, flat, scratch and buffer accesses of lanes.
//
// Every address passes gfx_at: a direct-mapped table of the pages that `resolve` allowed in this
// dispatch, filled with as much of a page as is allocated around the address. Waves mostly touch
// consecutive or equal addresses, and those are one lookup for all lanes.
//
// Kept true: a lane that EXEC has off computes an address but never looks it up. Results go to the
// registers only after every lane's address was good, so a fault leaves no half of a load behind.
#include "emu/gfx/impl.h"

// ---- addresses that were resolved ----

void gfx_tlb_clear(struct gfx_worker * k) {
    for (int i = 0; i < 2 * TLB_ENTRIES; i++) {
        k->tlb[i / TLB_ENTRIES][i % TLB_ENTRIES].page = ~UINT64_C(0);
    }
}

static uint8_t * ask(struct gfx_wave * w, uint64_t addr, uint64_t len, bool write) {
    const struct gfx_config * c = &w->worker->gpu->config;
    return c->resolve(c->user, addr, len, write);
}

// How far memory reaches from `from` towards `to`, which is not all there: the allocation is in one
// piece, so halving finds its end. Steps of 16 bytes; what is left over is asked for each time.
static uint64_t reach(struct gfx_wave * w, uint64_t from, uint64_t to, uint64_t addr, bool write) {
    uint64_t good = from, bad = to;
    while ((good < bad ? bad - good : good - bad) > 16) {
        uint64_t mid = good < bad ? good + ((bad - good) / 2 & ~UINT64_C(15))
                                  : good - ((good - bad) / 2 & ~UINT64_C(15));
        if (mid == good) {
            break;
        }
        bool up = bad > good;
        bool there = up ? ask(w, addr, mid - addr, write) != NULL
                        : ask(w, mid, addr - mid + 1, write) != NULL;
        *(there ? &good : &bad) = mid;
    }
    return good;
}

uint8_t * gfx_at_slow(struct gfx_wave * w, uint64_t addr, uint32_t len, bool write) {
    uint64_t page = addr & ~(uint64_t) (PAGE_BYTES - 1), end = page + PAGE_BYTES;
    struct gfx_tlb * table = w->worker->tlb[write];
    if (addr + len > end && addr + len > addr) { // crosses into the next page
        const struct gfx_tlb * a = &table[addr >> PAGE_SHIFT & (TLB_ENTRIES - 1)];
        const struct gfx_tlb * b = &table[end >> PAGE_SHIFT & (TLB_ENTRIES - 1)];
        if (a->page == addr >> PAGE_SHIFT && b->page == end >> PAGE_SHIFT &&
            addr - page >= a->low && a->high == PAGE_BYTES && b->low == 0 &&
            addr + len - end <= b->high && a->host + PAGE_BYTES == b->host) {
            return a->host + (addr - page);
        }
    }
    uint8_t * p = addr + len > addr ? ask(w, addr, len, write) : NULL;
    if (!p) {
        gfx_fault(w, "%s %u bytes at 0x%llx, which %s", write ? "writes" : "reads", len,
                  (unsigned long long) addr,
                  write && ask(w, addr, len, false) ? "may not be written" : "are not allocated");
        return NULL;
    }
    if (page == 0 || end < page) {
        return p;
    }
    // Remember the page, or what of it is there.
    uint64_t last = addr + len < end ? addr + len : end;
    uint64_t low = page, high = end;
    if (!ask(w, page, PAGE_BYTES, write)) {
        high = ask(w, addr, end - addr, write) ? end : reach(w, last, end, addr, write);
        low = ask(w, page, addr - page + 1, write) ? page : reach(w, addr, page, addr, write);
    }
    struct gfx_tlb * e = &table[addr >> PAGE_SHIFT & (TLB_ENTRIES - 1)];
    e->page = addr >> PAGE_SHIFT;
    e->low = (uint32_t) (low - page);
    e->high = (uint32_t) (high - page);
    e->host = p - (addr - page);
    return p;
}

// ---- addresses of lanes ----

// What became of the addresses: where each lane goes, in this thread's own memory or outside.
struct access {
    uint64_t addr[LANES]; // outside: addresses; inside (LDS, scratch): offsets
    uint64_t exec;
};

static bool global_addresses(struct gfx_wave * w, const struct gfx_inst * in, struct access * a) {
    int64_t imm = in->imm;
    const struct gfx_operand * base = &in->src[2];
    const uint32_t *low = w->v[in->src[0].reg], *high = w->v[in->src[0].reg + 1];
    if (base->kind != GFX_K_NONE) {
        uint64_t from = gfx_scalar(w, base, 2) + (uint64_t) imm;
        if (in->src[0].kind == GFX_K_NONE) {
            for (int i = 0; i < w->lanes; i++) {
                a->addr[i] = from;
            }
            return true;
        }
        for (int i = 0; i < w->lanes; i++) {
            a->addr[i] = from + low[i];
        }
        return true;
    }
    for (int i = 0; i < w->lanes; i++) {
        a->addr[i] = (low[i] | (uint64_t) high[i] << 32) + (uint64_t) imm;
    }
    return true;
}

// Offsets into a lane's own memory.
static bool scratch_offsets(struct gfx_wave * w, const struct gfx_inst * in, struct access * a) {
    uint32_t base = in->src[2].kind != GFX_K_NONE ? (uint32_t) gfx_scalar(w, &in->src[2], 1) : 0;
    const uint32_t * v = in->src[0].kind == GFX_K_VGPR ? w->v[in->src[0].reg] : NULL;
    for (int i = 0; i < w->lanes; i++) {
        a->addr[i] = base + (v ? v[i] : 0) + (uint32_t) in->imm;
    }
    return true;
}

enum { BUFFER_ADD_TID = 1 << 23 };

// Buffers: the scratch descriptor that kernels get in s[0:3] is the one that adds the lane's
// number. Its scalar offset counts bytes of the whole wave.
static bool buffer_addresses(struct gfx_wave * w, const struct gfx_inst * in, struct access * a,
                             bool * scratch) {
    unsigned r = in->src[2].reg;
    uint32_t s1 = sgpr(w, r + 1), s3 = sgpr(w, r + 3), size = sgpr(w, r + 2);
    uint64_t base = sgpr64(w, r) & 0xffffffffffff;
    uint32_t soffset = (uint32_t) gfx_scalar(w, &in->src[3], 1);
    uint32_t stride = s1 >> 16 & 0x3fff;
    const uint32_t *index = NULL, *offset = NULL;
    if (in->flags & GFX_F_IDXEN) {
        index = w->v[in->src[0].reg];
    }
    if (in->flags & GFX_F_OFFEN) {
        offset = w->v[in->src[0].reg + (index ? 1 : 0)];
    }
    *scratch = s3 & BUFFER_ADD_TID;
    uint32_t bytes = gfx_op_info[in->op].bytes;
    for (int i = 0; i < w->lanes; i++) {
        uint32_t at = (offset ? offset[i] : 0) + (uint32_t) in->imm;
        if (*scratch) {
            a->addr[i] = at + soffset / (uint32_t) w->lanes;
            continue;
        }
        uint64_t whole = (uint64_t) at + (index ? (uint64_t) index[i] * stride : 0);
        bool inside = index ? index[i] < size && at + bytes <= stride
                            : soffset + whole + bytes <= size; // raw buffers: bytes, all offsets
        a->addr[i] = base + soffset + whole;
        if (!inside) {
            a->exec &= ~(UINT64_C(1) << i); // loads give 0, stores are dropped
        }
    }
    return true;
}

// ---- between rows and memory ----

enum { MAX_WORDS = 4 };

// Words that lie aligned are read and written whole: another host thread may be at them, with an
// atomic or as a flag that kernels poll.
static GFX_INLINE uint32_t word_at(const uint8_t * p) {
    uint32_t v;
    if (GFX_LIKELY(!((uintptr_t) p & 3))) {
        return __atomic_load_n((const uint32_t *) (const void *) p, __ATOMIC_RELAXED);
    }
    memcpy(&v, p, 4);
    return v;
}

static GFX_INLINE void put_word(uint8_t * p, uint32_t v) {
    if (GFX_LIKELY(!((uintptr_t) p & 3))) {
        __atomic_store_n((uint32_t *) (void *) p, v, __ATOMIC_RELAXED);
    } else {
        memcpy(p, &v, 4);
    }
}

static GFX_INLINE uint64_t pair_at(const uint8_t * p) {
    if (GFX_LIKELY(!((uintptr_t) p & 7))) {
        return __atomic_load_n((const uint64_t *) (const void *) p, __ATOMIC_RELAXED);
    }
    return word_at(p) | (uint64_t) word_at(p + 4) << 32;
}

static GFX_INLINE void put_pair(uint8_t * p, uint64_t v) {
    if (GFX_LIKELY(!((uintptr_t) p & 7))) {
        __atomic_store_n((uint64_t *) (void *) p, v, __ATOMIC_RELAXED);
    } else {
        put_word(p, (uint32_t) v);
        put_word(p + 4, (uint32_t) (v >> 32));
    }
}

// Every lane on: 1 when lane i's address is addr[0] + i * step, 2 when all are equal, else 0.
static int shape_of(const uint64_t * addr, int n, uint64_t step) {
    uint64_t apart = 0, unequal = 0, first = addr[0];
    if (addr[1] != first && addr[1] != first + step) {
        return 0;
    }
    for (int i = 0; i < n; i++) {
        apart |= addr[i] - first - (uint64_t) i * step;
        unequal |= addr[i] ^ first;
    }
    return !apart ? 1 : !unequal ? 2 : 0;
}

static void load_word_run(uint32_t (*rows)[LANES], const uint8_t * p, int words, int n) {
    switch (words) {
    case 1:
        memcpy(rows[0], p, (size_t) n * 4);
        break;
    default:
        for (int k = 0; k < words; k++) {
            for (int i = 0; i < n; i++) {
                memcpy(&rows[k][i], p + 4 * (i * words + k), 4);
            }
        }
    }
}

static bool load_lanes(struct gfx_wave * w, const struct gfx_inst * in, const struct access * a,
                       uint32_t (*rows)[LANES]) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    const uint32_t bytes = info->bytes;
    const int words = bytes > 4 ? (int) bytes / 4 : 1;
    int shape = a->exec == w->all && bytes >= 4 ? shape_of(a->addr, w->lanes, bytes) : 0;
    if (shape == 1) {
        const uint8_t * p = gfx_at(w, a->addr[0], bytes * (uint32_t) w->lanes, false);
        if (p) {
            load_word_run(rows, p, words, w->lanes);
        }
        return p;
    }
    if (shape == 2) {
        const uint8_t * p = gfx_at(w, a->addr[0], bytes, false);
        for (int k = 0; p && k < words; k++) {
            uint32_t v = words == 2 ? (uint32_t) (pair_at(p) >> 32 * k) : word_at(p + 4 * k);
            for (int i = 0; i < w->lanes; i++) {
                rows[k][i] = v;
            }
        }
        return p;
    }
    uint64_t exec = a->exec;
    for (int i = 0; i < w->lanes; i++) {
        if (!(exec >> i & 1)) {
            continue;
        }
        const uint8_t * p = gfx_at(w, a->addr[i], bytes, false);
        if (!p) {
            return false;
        }
        if (bytes == 4) {
            rows[0][i] = word_at(p);
        } else if (bytes == 8) {
            uint64_t v = pair_at(p);
            rows[0][i] = (uint32_t) v;
            rows[1][i] = (uint32_t) (v >> 32);
        } else if (bytes == 1) {
            rows[0][i] = gfx_extend(w, info->form, 1, *p, w->v[in->dst.reg][i]);
        } else if (bytes == 2) {
            uint16_t v;
            memcpy(&v, p, 2);
            rows[0][i] = gfx_extend(w, info->form, 2, v, w->v[in->dst.reg][i]);
        } else {
            for (int k = 0; k < words; k++) {
                memcpy(&rows[k][i], p + 4 * k, 4);
            }
        }
    }
    return true;
}

static void commit_load(struct gfx_wave * w, const struct gfx_inst * in, uint32_t (*rows)[LANES],
                        uint64_t exec) {
    uint32_t bytes = gfx_op_info[in->op].bytes;
    int words = bytes > 4 ? (int) bytes / 4 : 1;
    if (exec == w->all) {
        memcpy(w->v[in->dst.reg], rows, (size_t) words * sizeof rows[0]);
        return;
    }
    const uint32_t * on = gfx_exec_row(&w->worker->t, exec);
    for (int k = 0; k < words; k++) {
        uint32_t * d = w->v[in->dst.reg + k];
        for (int i = 0; i < w->lanes; i++) {
            d[i] = (rows[k][i] & on[i]) | (d[i] & ~on[i]);
        }
    }
}

static GFX_INLINE void store_one(uint8_t * p, const uint32_t (*rows)[LANES], int i, uint32_t bytes,
                                 bool high) {
    uint32_t v = high ? rows[0][i] >> 16 : rows[0][i];
    if (bytes == 4) {
        put_word(p, v);
    } else if (bytes == 8) {
        put_pair(p, rows[0][i] | (uint64_t) rows[1][i] << 32);
    } else if (bytes == 1) {
        *p = (uint8_t) v;
    } else if (bytes == 2) {
        uint16_t half = (uint16_t) v;
        memcpy(p, &half, 2);
    } else {
        for (uint32_t k = 0; k < bytes / 4; k++) {
            memcpy(p + 4 * k, &rows[k][i], 4);
        }
    }
}

static bool store_lanes(struct gfx_wave * w, const struct gfx_inst * in, const struct access * a,
                        const uint32_t (*rows)[LANES]) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    const uint32_t bytes = info->bytes;
    const bool high = info->form == GFX_X_D16_HI;
    if (a->exec == w->all && bytes >= 4 && shape_of(a->addr, w->lanes, bytes) == 1) {
        uint8_t * p = gfx_at(w, a->addr[0], bytes * (uint32_t) w->lanes, true);
        if (!p) {
            return false;
        }
        if (bytes == 4) {
            memcpy(p, rows[0], (size_t) w->lanes * 4);
            return true;
        }
        for (int i = 0; i < w->lanes; i++) {
            store_one(p + bytes * (uint32_t) i, rows, i, bytes, false);
        }
        return true;
    }
    for (int i = 0; i < w->lanes; i++) {
        if (a->exec >> i & 1) {
            uint8_t * p = gfx_at(w, a->addr[i], bytes, true);
            if (!p) {
                return false;
            }
            store_one(p, rows, i, bytes, high);
        }
    }
    return true;
}

// ---- one lane at a time: apertures, scratch, atomics ----

// Memory of lane i: outside, in LDS or in its own scratch. *shared: other threads may touch it.
static uint8_t * lane_memory(struct gfx_wave * w, const struct gfx_inst * in, uint64_t addr, int i,
                             bool scratch, uint32_t bytes, bool write, bool * shared) {
    uint32_t high = (uint32_t) (addr >> 32);
    *shared = false;
    if (in->segment == GFX_FLAT && high == GFX_APERTURE_SHARED) {
        uint32_t at = (uint32_t) addr;
        if ((uint64_t) at + bytes > w->group->lds_bytes) {
            gfx_fault(w, "LDS offset 0x%x lies beyond its %u bytes", at, w->group->lds_bytes);
            return NULL;
        }
        return w->group->lds + at;
    }
    if (scratch || (in->segment == GFX_FLAT && high == GFX_APERTURE_PRIVATE)) {
        uint32_t at = (uint32_t) addr, size = w->group->private_bytes;
        if ((uint64_t) at + bytes > size) {
            gfx_fault(w, "scratch offset 0x%x lies beyond the %u bytes of a work-item", at, size);
            return NULL;
        }
        return w->scratch + (size_t) i * size + at;
    }
    *shared = true;
    return gfx_at(w, addr, bytes, write);
}

static bool move_singly(struct gfx_wave * w, const struct gfx_inst * in, const struct access * a,
                        bool scratch, uint32_t (*rows)[LANES]) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    bool write = info->kind == GFX_M_STORE, shared;
    for (int i = 0; i < w->lanes; i++) {
        if (!(a->exec >> i & 1)) {
            continue;
        }
        uint8_t * p = lane_memory(w, in, a->addr[i], i, scratch, info->bytes, write, &shared);
        if (!p) {
            return false;
        }
        if (write) {
            store_one(p, (const uint32_t(*)[LANES]) w->v[in->src[1].reg], i, info->bytes,
                      info->form == GFX_X_D16_HI);
        } else if (info->bytes >= 4) {
            for (uint32_t k = 0; k < info->bytes / 4u; k++) {
                rows[k][i] = word_at(p + 4 * k);
            }
        } else {
            uint32_t v = p[0] | (info->bytes == 2 ? (uint32_t) p[1] << 8 : 0);
            rows[0][i] = gfx_extend(w, info->form, info->bytes, v, w->v[in->dst.reg][i]);
        }
    }
    return true;
}

static uint64_t lane_value(const struct gfx_wave * w, unsigned reg, int i, uint32_t bytes) {
    return w->v[reg][i] | (bytes == 8 ? (uint64_t) w->v[reg + 1][i] << 32 : 0);
}

static void atomics(struct gfx_wave * w, const struct gfx_inst * in, const struct access * a,
                    bool scratch) {
    uint32_t bytes = gfx_op_info[in->op].bytes;
    unsigned data = in->src[1].reg, compare = data + bytes / 4;
    for (int i = 0; i < w->lanes; i++) {
        if (!(a->exec >> i & 1)) {
            continue;
        }
        bool shared;
        if (a->addr[i] & (bytes - 1)) {
            gfx_fault(w, "atomic at 0x%llx, which is no multiple of %u",
                      (unsigned long long) a->addr[i], bytes);
            return;
        }
        uint8_t * p = lane_memory(w, in, a->addr[i], i, scratch, bytes, true, &shared);
        if (!p) {
            return;
        }
        if ((uintptr_t) p & (bytes - 1)) { // resolve may put it anywhere
            gfx_fault(w, "atomic at 0x%llx, whose host address is not aligned",
                      (unsigned long long) a->addr[i]);
            return;
        }
        uint64_t old = gfx_atomic(in->op, p, lane_value(w, data, i, bytes),
                                  lane_value(w, compare, i, bytes), shared);
        if (in->flags & GFX_F_RETURN) {
            w->v[in->dst.reg][i] = (uint32_t) old;
            if (bytes == 8) {
                w->v[in->dst.reg + 1][i] = (uint32_t) (old >> 32);
            }
        }
    }
}

// ---- the step ----

static bool any_aperture(const struct access * a, int n) {
    bool any = false;
    for (int i = 0; i < n; i++) {
        uint32_t high = (uint32_t) (a->addr[i] >> 32);
        any |= (high == GFX_APERTURE_SHARED) | (high == GFX_APERTURE_PRIVATE);
    }
    return any;
}

void gfx_step_mem(struct gfx_wave * w, const struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    if (info->kind == GFX_M_FENCE) {
        gfx_fence(w);
        return;
    }
    struct access a;
    uint64_t exec = a.exec = exec_of(w);
    if (!exec) {
        return;
    }
    bool scratch = in->segment == GFX_SCRATCH, single = scratch;
    if (scratch) {
        scratch_offsets(w, in, &a);
    } else if (in->segment == GFX_BUFFER) {
        buffer_addresses(w, in, &a, &scratch);
        single = true;
    } else {
        global_addresses(w, in, &a);
        single = in->segment == GFX_FLAT && any_aperture(&a, w->lanes);
    }
    if (info->kind == GFX_M_ATOMIC) {
        atomics(w, in, &a, scratch);
        w->stored = true;
        return;
    }
    if (info->kind == GFX_M_STORE) {
        w->stored = true;
        if (single) {
            move_singly(w, in, &a, scratch, NULL);
        } else {
            store_lanes(w, in, &a, (const uint32_t(*)[LANES]) & w->v[in->src[1].reg]);
        }
        return;
    }
    uint32_t rows[MAX_WORDS][LANES];
    if (a.exec != exec) {
        memset(rows, 0, sizeof rows); // beyond the end of a buffer
        for (int i = 0; i < w->lanes && info->bytes < 4; i++) {
            rows[0][i] = gfx_extend(w, info->form, info->bytes, 0, w->v[in->dst.reg][i]);
        }
    }
    if (single ? move_singly(w, in, &a, scratch, rows) : load_lanes(w, in, &a, rows)) {
        commit_load(w, in, rows, exec);
    }
}

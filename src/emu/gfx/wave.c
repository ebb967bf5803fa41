// wave: fetching, decoding and running the instructions of a wave.
//
// Code is decoded once: a worker keeps pages of decoded instructions, with the bytes that they came
// from. The first use of a page in a dispatch compares those bytes with memory, so that code that
// was unloaded or replaced between dispatches is decoded anew. Code that a kernel changes while it
// runs is not seen to change, as on hardware without an instruction cache flush.
#include "emu/gfx/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

// ---- faults ----

void gfx_fault(struct gfx_wave * w, const char * fmt, ...) {
    struct gfx_worker * k = w->worker;
    if (k->failed) {
        return;
    }
    k->failed = true;
    char what[240], at[160] = "", name[48];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    const struct gfx_page * page = w->page;
    uint64_t pc = w->at, slot = page ? (pc - page->base) / 4 : PAGE_BYTES;
    if (slot < PAGE_BYTES / 4) {
        snprintf(at, sizeof at, ": %s (%08x %08x)",
                 gfx_inst_name(&page->inst[slot], name, sizeof name), page->words[slot],
                 page->words[slot + 1]);
    }
    uint64_t offset = pc - k->gpu->entry; // modulo 2^64, and told as the shorter way
    bool back = offset >> 63;
    error_set(&k->error, ST_CORRUPT, "kernel 0x%" PRIx64 ", %s0x%" PRIx64 " from its entry%s: %s",
              k->gpu->dispatch.kernel_object, back ? "-" : "+", back ? -offset : offset, at, what);
}

// ---- pages of code ----

void gfx_code_forget(struct gfx_worker * k) {
    for (int i = 0; i < CODE_PAGES; i++) {
        if (k->code[i]) {
            free(k->code[i]->second);
            free(k->code[i]);
            k->code[i] = NULL;
        }
    }
}

static const void * code_bytes(struct gfx_worker * k, uint64_t addr, uint64_t len) {
    const struct gfx_config * c = &k->gpu->config;
    return addr + len < addr ? NULL : c->resolve(c->user, addr, len, false);
}

// Reads what is there of the page around pc, a word at a time where it is not all there.
static void page_read(struct gfx_worker * k, struct gfx_page * p, uint64_t pc) {
    enum { ALL = PAGE_BYTES + 4 * MAX_INST_WORDS };
    const void * bytes = code_bytes(k, p->base, ALL);
    p->low = 0;
    p->high = ALL;
    if (bytes) {
        memcpy(p->words, bytes, ALL);
        return;
    }
    uint32_t at = (uint32_t) (pc - p->base) & ~3u;
    p->low = p->high = at;
    while (p->high + 4 <= ALL && (bytes = code_bytes(k, p->base + p->high, 4))) {
        memcpy((uint8_t *) p->words + p->high, bytes, 4);
        p->high += 4;
    }
    while (p->low >= 4 && (bytes = code_bytes(k, p->base + p->low - 4, 4))) {
        p->low -= 4;
        memcpy((uint8_t *) p->words + p->low, bytes, 4);
    }
}

static bool page_current(struct gfx_worker * k, const struct gfx_page * p) {
    const void * bytes =
        p->high > p->low ? code_bytes(k, p->base + p->low, p->high - p->low) : NULL;
    return bytes && !memcmp(bytes, (const uint8_t *) p->words + p->low, p->high - p->low);
}

static void forget_page(struct gfx_worker * k, const struct gfx_page * p) {
    for (struct gfx_group * group = k->ring; group; group = group->next) {
        for (int i = 0; i < group->n_waves; i++) {
            if (group->waves[i].page == p) {
                group->waves[i].page = NULL;
            }
        }
    }
}

// The page of pc, read and in step with memory; NULL when there is no memory for it.
static GFX_COLD struct gfx_page * page_of(struct gfx_worker * k, uint64_t pc) {
    uint64_t base = pc & ~(uint64_t) (PAGE_BYTES - 1);
    int slot = -1;
    for (int i = 0; i < CODE_PAGES; i++) {
        struct gfx_page * p = k->code[i];
        if (p && p->base == base) {
            uint32_t at = (uint32_t) (pc - base);
            bool fresh = p->dispatch == k->gpu->serial || page_current(k, p);
            if (fresh && at >= p->low && at < p->high) {
                p->dispatch = k->gpu->serial;
                return p;
            }
            slot = i;
        }
    }
    if (slot <
        0) { // the slots are used in turn; waves keep no pointers across this (page_of sets it)
        slot = k->next_code;
        k->next_code = (k->next_code + 1) % CODE_PAGES;
    }
    struct gfx_page * p = k->code[slot];
    if (p) {
        forget_page(k, p);
        free(p->second);
    } else {
        p = k->code[slot] = malloc(sizeof *p);
        if (!p) {
            return NULL;
        }
    }
    memset(p, 0, sizeof *p);
    p->base = base;
    p->dispatch = k->gpu->serial;
    page_read(k, p, pc);
    return (uint32_t) (pc - base) < p->high ? p : NULL;
}

// ---- decoding ----

// words: what the decoder said of them.
static void not_executed(struct gfx_wave * w, uint32_t word, int words,
                         const struct gfx_inst * in) {
    enum gfx_arch arch = w->worker->gpu->config.arch;
    char text[48];
    const char * name =
        words > 0 ? gfx_inst_name(in, text, sizeof text) : gfx_absent_name(arch, word);
    if (words < 0) {
        gfx_fault(w, "the code ends here");
    } else if (name) {
        gfx_fault(w, "%s%s is an instruction of %s that is not emulated", name,
                  in->flags & GFX_F_LDS_DMA ? " to LDS" : "", gfx_arch_name(arch));
    } else {
        gfx_fault(w, "no instruction of %s", gfx_arch_name(arch));
    }
}

static GFX_COLD bool decode_at(struct gfx_wave * w, struct gfx_page * p, uint32_t slot) {
    struct gfx_worker * k = w->worker;
    struct gfx_inst out[2];
    memset(out, 0, sizeof out);
    // What lies before the first byte that is there reads as zeros, which are instructions.
    int count = slot * 4 < p->low ? 0 : ((int) p->high - (int) slot * 4) / 4;
    count = count > MAX_INST_WORDS ? MAX_INST_WORDS : count;
    int words = count > 0 ? k->gpu->decode(k->gpu->config.arch, &p->words[slot], count, out) : -1;
    if (words <= 0 || !gfx_prepare(&out[0])) {
        p->inst[slot].op = words > 0 ? out[0].op : GFX_OP_INVALID; // for the message
        not_executed(w, p->words[slot], words, &out[0]);
        return false;
    }
    out[0].size = (uint8_t) (words * 4);
    if (out[0].flags & GFX_F_PAIR) {
        if (!p->second) {
            p->second = calloc(PAGE_BYTES / 4, sizeof *p->second);
        }
        if (!p->second || !gfx_prepare(&out[1])) {
            gfx_fault(w, "no memory for its second half");
            return false;
        }
        p->second[slot] = out[1];
    }
    p->inst[slot] = out[0];
    return true;
}

// ---- running ----

// Faults here are the jump's: w->at is still where it came from.
static GFX_COLD bool enter_page(struct gfx_wave * w) {
    if (w->pc & 3) {
        gfx_fault(w, "jumps to 0x%" PRIx64 ", which is no multiple of 4", w->pc);
        return false;
    }
    struct gfx_page * page = page_of(w->worker, w->pc);
    if (!page) {
        gfx_fault(w, "jumps to 0x%" PRIx64 ", where there is no code", w->pc);
        return false;
    }
    w->page = page;
    return true;
}

static inline void count_kind(struct gfx_worker * k, const struct gfx_wave * w,
                              const struct gfx_inst * in) {
    k->kinds[in->kind]++;
    if (in->bytes) {
        int lanes = in->kind == GFX_KIND_CONST ? 1 : __builtin_popcountll(exec_of(w));
        k->bytes[in->kind] += (uint64_t) in->bytes * (unsigned) lanes;
    }
}

static void run(struct gfx_wave * w, uint64_t slice) {
    struct gfx_worker * k = w->worker;
    uint64_t budget = k->gpu->config.wave_budget;
    uint64_t start = w->count, end = start + slice < budget ? start + slice : budget;
    uint64_t count = start;
    while (count < end && w->state == WAVE_READY && !k->failed) {
        uint64_t at = w->page ? w->pc - w->page->base : PAGE_BYTES;
        if (at >= PAGE_BYTES || at & 3 || (w->page && w->page->dispatch != k->gpu->serial)) {
            if (!enter_page(w)) {
                break;
            }
            at = w->pc - w->page->base;
        }
        uint32_t slot = (uint32_t) at / 4;
        w->at = w->pc;
        const struct gfx_inst * in = &w->page->inst[slot];
        if (!in->size && !decode_at(w, (struct gfx_page *) (uintptr_t) w->page, slot)) {
            break;
        }
        w->pc += in->size;
        count++;
        count_kind(k, w, in);
        if (in->flags & GFX_F_PAIR) {
            k->kinds[GFX_KIND_DUAL]++;
            gfx_step_pair(w, in, &w->page->second[slot]);
        } else {
            in->step(w, in);
        }
    }
    w->count = count;
    k->instructions += count - start;
    if (count >= budget && w->state == WAVE_READY && !k->failed) {
        gfx_fault(w, "still runs after %" PRIu64 " instructions", count);
    }
}

// ---- waiting ----

enum { LOOP = 256 }; // instructions of a loop that may be one that waits

// Once round the loop in which the wave is; false: it did not come back, or another wave's turn is
// due.
static bool lap(struct gfx_wave * w) {
    uint64_t pc = w->pc;
    for (int i = 0; i < LOOP && w->state == WAVE_READY && !w->worker->failed; i++) {
        run(w, 1);
        if (w->pc == pc) {
            return w->state == WAVE_READY && !w->worker->failed;
        }
    }
    return false;
}

static uint64_t vectors_hashed(const struct gfx_wave * w) {
    uint64_t hash = w->scc;
    for (int reg = 0; reg < w->worker->gpu->n_vgprs; reg++) {
        for (int i = 0; i < LANES; i += 2) {
            uint64_t v;
            memcpy(&v, &w->v[reg][i], sizeof v);
            hash = (hash ^ v) * UINT64_C(0x9e3779b97f4a7c15);
            hash ^= hash >> 29;
        }
    }
    return hash;
}

// A loop that comes round with every register as it was goes on for ever, unless somebody else
// writes the memory that it reads. Most loops count in scalars and are told after one lap.
static bool only_waits(struct gfx_wave * w) {
    uint32_t before[GFX_SGPR_COUNT];
    memcpy(before, w->s, sizeof before);
    if (!lap(w) || memcmp(before, w->s, sizeof before)) {
        return false;
    }
    uint64_t hash = vectors_hashed(w);
    return lap(w) && !memcmp(before, w->s, sizeof before) && hash == vectors_hashed(w);
}

void gfx_wave_run(struct gfx_wave * w) {
    bool alone = w->worker->gpu->total_groups == 1; // nobody else to turn to
    run(w, w->slice);
    w->idle = !alone && w->state == WAVE_READY && !w->worker->failed && only_waits(w);
    w->slice = w->idle                  ? IDLE_SLICE
               : w->slice < FIRST_SLICE ? FIRST_SLICE
               : w->slice < SLICE       ? 2 * w->slice
                                        : SLICE;
}

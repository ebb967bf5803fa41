// join: see join.h. Operands of a joined stream are windows, parts of the allocations in which the
// operands of its kernels lie: a few, where these would be dozens. Its address patches name a
// window and how far behind its beginning an operand lies; they are all of it that depends on
// addresses, so a stream is made once and aimed anew each time; but for which operands no kernel of
// the chain writes before they are read, which is looked at each time. Between two waits the first
// chain of kernels takes the first stream, the second the second, and so on: a graph that is
// computed again finds its own.
//
// The parts of a gathered operand (join.h) are told apart by how far behind its beginning a patch
// goes. Such a kernel is always sent by an aimed stream, also where it is alone.
//
// Kept true: a stream is written to only when nothing is in flight that may read it; it is used
// again only for the same kernels in the same order, none of which has gone from the store since.
#include "dispatch.h"

#include "aie/plan/join.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_KERNELS = 192,   // of a chain
    MOST_CHAINS = 128,    // between two waits that have a stream of their own
    MOST_WORDS = 1 << 18, // of its kernels' streams
    MOST_BYTES = 8 << 20, // of all of a stream's chains, in the device heap
};
// Of a window: a packet says how large it is, and a patch how far behind its beginning it goes.
#define WINDOW_STEP ((uint64_t) 1 << 31)
#define WINDOW_MOST ((uint64_t) UINT32_MAX - 4095)

struct window {
    char * base;
    uint64_t size;
};

struct link { // a kernel of a chain
    struct store_kernel * kernel;
    struct hsac_dispatch d;
    struct join_gather gather; // where operands lie; n is 0: as they say
    uint32_t ready;            // operands that no kernel before it writes, by bit
    bool beside;               // it may run beside the one before it (aie_stream_part)
};

struct chain { // what was made of one
    int n;
    struct store_kernel * kernels[MOST_KERNELS];
    uint32_t ready[MOST_KERNELS];
    bool beside[MOST_KERNELS];
    uint64_t gone;    // of the store, when it was made
    uint32_t * insts; // in the device heap
    size_t n_words, room;
    struct txn_aim * aims;
    size_t n_aims;
    bool fresh; // the NPU has not seen it
};

struct join {
    int n; // that wait
    struct link links[MOST_KERNELS];
    struct window written; // from their first result to the end of their last one
    int n_windows;
    struct window windows[HSAC_MAX_OPERANDS];
    uint64_t us;
    size_t words;

    int n_chains, next; // streams, and the one that the next chain takes
    size_t bytes;
    struct chain chains[MOST_CHAINS];
};

struct join * join_new(void) {
    return calloc(1, sizeof(struct join));
}

static void chain_free(struct join * j, struct chain * c, struct hsac_agent * agent) {
    if (c->insts) {
        hsac_free(agent, c->insts);
        j->bytes -= c->room;
    }
    free(c->aims);
    *c = (struct chain){0};
}

void join_forget(struct join * j, struct hsac_agent * agent) {
    for (int i = 0; j && i < j->n_chains; i++) {
        chain_free(j, &j->chains[i], agent);
    }
    if (j) {
        j->n_chains = j->next = 0;
    }
}

void join_free(struct join * j, struct hsac_agent * agent) {
    join_forget(j, agent);
    free(j);
}

// ---- windows ----

// The number of the window that holds the bytes. -1: no window does, and there is no room for
// another.
static int window_of(struct window * windows, int * n, struct hsac_agent * agent, char * addr,
                     uint64_t size) {
    for (int i = 0; i < *n; i++) {
        uint64_t at = (uint64_t) (addr - windows[i].base);
        if (addr >= windows[i].base && at < windows[i].size && size <= windows[i].size - at) {
            return i;
        }
    }
    char * base;
    uint64_t bytes;
    if (*n == HSAC_MAX_OPERANDS || !hsac_agent_block(agent, addr, &base, &bytes)) {
        return -1;
    }
    uint64_t at = (uint64_t) (addr - base) / WINDOW_STEP * WINDOW_STEP, left = bytes - at;
    struct window w = {base + at, left < WINDOW_MOST ? left : WINDOW_MOST};
    if ((uint64_t) (addr - w.base) + size > w.size) {
        return -1;
    }
    windows[*n] = w;
    return (*n)++;
}

// The parts of an operand; NULL: it lies as it says.
static const struct join_parts * parts_of(const struct join_gather * g,
                                          const struct hsac_dispatch * d, int operand) {
    const struct join_parts * p = !g || !g->n                    ? NULL
                                  : operand == 0                 ? &g->in
                                  : operand == d->n_operands - 1 ? &g->out
                                                                 : NULL;
    const char * addr = d->operands[operand].addr;
    bool begins = p && p->base && addr >= p->base && addr < p->base + (size_t) g->n * p->unit;
    return begins ? p : NULL;
}

static bool is_gathered(const struct join_gather * g, const struct hsac_dispatch * d) {
    return parts_of(g, d, 0) || parts_of(g, d, d->n_operands - 1);
}

// An operand where it lies, piece by piece: one, or a gathered one's parts. False: there are no
// more.
static bool piece_of(const struct join_gather * g, const struct hsac_dispatch * d, int operand,
                     int i, struct window * out) {
    const struct join_parts * p = parts_of(g, d, operand);
    *out = p && i < g->n ? (struct window){p->at[i], p->unit}
                         : (struct window){d->operands[operand].addr, d->operands[operand].size};
    return i < (p ? g->n : 1);
}

// What lies there is not in an operand of another kernel.
static bool is_clear_of(const struct window * at, const struct link * of, int operand) {
    bool clear = true;
    struct window w;
    for (int i = 0; piece_of(&of->gather, &of->d, operand, i, &w); i++) {
        clear &= at->base >= w.base + w.size || w.base >= at->base + at->size;
    }
    return clear;
}

// What lies there is not among the results, the last operands, of the kernels before.
static bool is_apart(const struct join * j, const struct window * at) {
    bool apart = true;
    if (at->base + at->size <= j->written.base ||
        at->base >= j->written.base + j->written.size) { // most weights
        return true;
    }
    for (int l = 0; l < j->n && apart; l++) {
        apart = is_clear_of(at, &j->links[l], j->links[l].d.n_operands - 1);
    }
    return apart;
}

// The results of one more kernel.
static void add_written(struct window * to, const struct link * l) {
    struct window w;
    for (int i = 0; piece_of(&l->gather, &l->d, l->d.n_operands - 1, i, &w); i++) {
        char * end = to->size ? to->base + to->size : w.base;
        end = w.base + w.size > end ? w.base + w.size : end;
        to->base = to->size && to->base < w.base ? to->base : w.base;
        to->size = (uint64_t) (end - to->base);
    }
}

// Neither kernel writes what the other one reads or writes.
static bool are_apart(const struct link * a, const struct link * b) {
    const int a_out = a->d.n_operands - 1, b_out = b->d.n_operands - 1;
    bool apart = true;
    for (int operand = 0; operand <= a_out && apart; operand++) {
        struct window w;
        for (int i = 0; apart && piece_of(&a->gather, &a->d, operand, i, &w); i++) {
            for (int other = operand == a_out ? 0 : b_out; other <= b_out; other++) {
                apart &= is_clear_of(&w, b, other);
            }
        }
    }
    return apart;
}

// Whether the next kernel may run beside the one before it, and beside all that that one may run
// beside: the stream is joined so for kernels of a decoder's PDI.
static bool is_beside(const struct join * j, const struct link * next) {
    bool beside = j->n > 0 && next->kernel->decoder != STORE_NO_DECODER;
    for (int l = j->n - 1; beside && l >= 0; l--) {
        beside = are_apart(next, &j->links[l]);
        if (!j->links[l].beside) {
            break;
        }
    }
    return beside;
}

// Operands of the next kernel that no kernel before it writes, by bit.
static uint32_t ready_operands(const struct join * j, const struct hsac_dispatch * d,
                               const struct join_gather * gather) {
    uint32_t ready = 0;
    for (int operand = 0; operand < d->n_operands - 1; operand++) {
        bool apart = true; // of a gathered one every part
        struct window w;
        for (int i = 0; apart && piece_of(gather, d, operand, i, &w); i++) {
            apart = is_apart(j, &w);
        }
        ready |= (uint32_t) apart << operand;
    }
    return ready;
}

// Windows for the operands of one more kernel; false: there are too many.
static bool take_windows(struct join * j, struct hsac_agent * agent, const struct hsac_dispatch * d,
                         const struct join_gather * gather) {
    struct window windows[HSAC_MAX_OPERANDS];
    int n = j->n_windows;
    memcpy(windows, j->windows, sizeof windows);
    for (int operand = 0; operand < d->n_operands; operand++) {
        struct window w;
        for (int i = 0; piece_of(gather, d, operand, i, &w); i++) {
            if (window_of(windows, &n, agent, w.base, w.size) < 0) {
                return false;
            }
        }
    }
    memcpy(j->windows, windows, sizeof windows);
    j->n_windows = n;
    return true;
}

// ---- streams ----

static bool is_of(const struct chain * c, const struct join * j, uint64_t gone) {
    bool same = c->insts && c->n == j->n && c->gone == gone;
    for (int i = 0; i < j->n && same; i++) {
        same = c->kernels[i] == j->links[i].kernel && c->ready[i] == j->links[i].ready &&
               c->beside[i] == j->links[i].beside;
    }
    return same;
}

static bool make_chain(struct hsa_stream * s, struct chain * c) {
    struct join * j = s->npu->join;
    struct aie_stream_part parts[MOST_KERNELS];
    struct aie_joined all;
    chain_free(j, c, s->device->agent);
    for (int i = 0; i < j->n; i++) {
        const struct store_kernel * k = j->links[i].kernel;
        parts[i] = (struct aie_stream_part){.insts = k->insts,
                                            .n_words = k->n_insts,
                                            .n_operands = j->links[i].d.n_operands,
                                            .ready = j->links[i].ready,
                                            .beside = j->links[i].beside,
                                            .foreign = k->foreign};
    }
    if (aie_stream_join(parts, j->n, &all, NULL) != ST_OK) {
        return false;
    }
    size_t room = 4 * all.n_words;
    c->insts =
        j->bytes + room <= MOST_BYTES ? hsac_alloc(s->device->agent, HSAC_POOL_STREAM, room) : NULL;
    if (c->insts) {
        memcpy(c->insts, all.insts, room);
        c->fresh = true;
        c->n_words = all.n_words;
        c->aims = all.aims;
        c->n_aims = all.n_aims;
        all.aims = NULL; // the chain's now
        c->room = room;
        j->bytes += room;
        c->n = j->n;
        c->gone = store_gone(s->device->npu->store);
        for (int i = 0; i < j->n; i++) {
            c->kernels[i] = j->links[i].kernel;
            c->ready[i] = j->links[i].ready;
            c->beside[i] = j->links[i].beside;
        }
    }
    aie_joined_free(&all);
    return c->insts != NULL;
}

// NULL: the kernels are sent one by one.
static struct chain * chain_of(struct hsa_stream * s) {
    struct join * j = s->npu->join;
    if (j->next == MOST_CHAINS) {
        return NULL;
    }
    struct chain * c = &j->chains[j->next];
    if (!is_of(c, j, store_gone(s->device->npu->store)) && !make_chain(s, c)) {
        return NULL;
    }
    j->next++;
    j->n_chains = j->n_chains > j->next ? j->n_chains : j->next;
    return c;
}

// A graph that is computed again has most of its tensors where they were: only lines of the stream
// in which something changes are written, and flushed. A fresh one is flushed as a whole.
static void aim(struct chain * c, const struct txn_aim * aim, int window, uint32_t offset,
                struct hsac_agent * agent) {
    uint32_t size, *at = txn_aim(c->insts, aim, window, offset, &size);
    if (size && !c->fresh) {
        hsac_host_end(agent, at, size);
    }
}

static struct hsac_dispatch aimed(const struct join * j, struct chain * c,
                                  struct hsac_agent * agent) {
    struct hsac_dispatch d = j->links[0].d;
    struct window windows[HSAC_MAX_OPERANDS];
    int n = j->n_windows;
    memcpy(windows, j->windows, sizeof windows);
    for (size_t i = 0; i < c->n_aims; i++) {
        const struct txn_aim * a = &c->aims[i];
        const struct link * of = &j->links[a->part];
        const struct join_parts * p = parts_of(&of->gather, &of->d, a->operand);
        char * addr = of->d.operands[a->operand].addr;
        uint64_t size = of->d.operands[a->operand].size, offset = a->byte_offset;
        if (p) {
            offset += (uint64_t) (addr - p->base);
            addr = p->at[offset / p->unit];
            size = p->unit;
            offset %= p->unit;
        }
        int w = window_of(windows, &n, agent, addr, size);
        aim(c, a, w, (uint32_t) ((uint64_t) (addr - windows[w].base) + offset), agent);
    }
    if (c->fresh) {
        hsac_host_end(agent, c->insts, 4 * c->n_words);
        c->fresh = false;
    }
    d.insts = c->insts;
    d.n_insts = (uint32_t) c->n_words;
    d.us = j->us;
    d.n_operands = n;
    for (int i = 0; i < n; i++) {
        d.operands[i].addr = windows[i].base;
        d.operands[i].size = windows[i].size;
    }
    return d;
}

// ---- sending ----

static void join_begin(struct join * j) {
    j->n = j->n_windows = 0;
    j->written = (struct window){0};
    j->us = 0;
    j->words = 0;
}

static enum status dispatch(struct hsa_stream * s, const struct hsac_dispatch * d,
                            struct error * err) {
    enum status st = hsac_queue_dispatch(s->queue, d, err);
    if (st == ST_OK) {
        atomic_fetch_add(&s->device->packets, 1);
        atomic_fetch_add(&s->device->operations, txn_header_operations(d->insts));
    }
    return st;
}

// In a trace: the first and the last, and behind a line end all of them with their program.
static const char * joined_name(const struct join * j, struct buf * b) {
    const char *first = j->links[0].d.name, *last = j->links[j->n - 1].d.name;
    if (!first || !last) {
        return NULL;
    }
    buf_printf(b, "%.*s .. %.*s, %d kernels\n", (int) strcspn(first, "\n"), first,
               (int) strcspn(last, "\n"), last, j->n);
    for (int i = 0; i < j->n; i++) {
        const char * name = j->links[i].d.name;
        buf_printf(b, "%s%.*s", i ? ", " : "", (int) strcspn(name, "\n"), name);
    }
    const char * program = strchr(first, '\n');
    buf_printf(b, ": %s", program ? program + 1 : "?");
    return b->failed ? NULL : (const char *) b->data;
}

static bool gathers(const struct join * j) {
    bool any = false;
    for (int i = 0; i < j->n; i++) {
        any |= j->links[i].gather.n > 0;
    }
    return any;
}

enum status join_send(struct hsa_stream * s, struct error * err) {
    struct join * j = s->npu->join;
    enum status st = ST_OK;
    bool must = j && gathers(j);
    struct chain * c = j && (j->n > 1 || must) ? chain_of(s) : NULL;
    if (must && !c) {
        st = error_set(err, ST_NO_MEMORY, "no memory for the instruction stream of %d kernels",
                       j->n);
    }
    if (c) {
        struct hsac_dispatch d = aimed(j, c, s->device->agent);
        struct buf name = {0};
        d.name = joined_name(j, &name);
        st = dispatch(s, &d, err);
        buf_free(&name);
    }
    for (int i = 0; j && !c && i < j->n && st == ST_OK; i++) {
        st = dispatch(s, &j->links[i].d, err);
    }
    if (j) {
        join_begin(j);
    }
    return st;
}

// One decoder's PDI for all of a chain, where its kernels leave the choice (store_decoder): each
// change of decoders is a load.
static void share_decoder(struct join * j, const struct store_kernel * kernel,
                          struct hsac_dispatch * d) {
    if (!j->n || j->links[0].d.pdi == d->pdi || !kernel->decoder || !j->links[0].kernel->decoder) {
        return;
    }
    if (kernel->decoder == STORE_ANY_DECODER) {
        d->pdi = j->links[0].d.pdi;
        d->pdi_size = j->links[0].d.pdi_size;
        return;
    }
    bool movable = true;
    for (int i = 0; i < j->n; i++) {
        movable &= j->links[i].kernel->decoder == STORE_ANY_DECODER;
    }
    for (int i = 0; i < j->n && movable; i++) {
        j->links[i].d.pdi = d->pdi;
        j->links[i].d.pdi_size = d->pdi_size;
    }
}

static bool belongs(const struct join * j, const struct hsac_agent * agent,
                    const struct store_kernel * kernel, const struct hsac_dispatch * d) {
    return !kernel->foreign && j->n < MOST_KERNELS && j->links[0].d.pdi == d->pdi &&
           j->us + d->us <= hsac_most_us(agent) && j->words + kernel->n_insts <= MOST_WORDS;
}

enum status join_room(struct hsa_stream * s, struct error * err) {
    struct join * j = s->npu->join;
    if (!j || (j->next < MOST_CHAINS && j->bytes + 8 * (size_t) MOST_WORDS <= MOST_BYTES)) {
        return ST_OK;
    }
    enum status st = stream_wait(s, err);
    join_forget(j, s->device->agent);
    return st;
}

enum status join_add(struct hsa_stream * s, struct store_kernel * kernel,
                     const struct hsac_dispatch * asked, const struct join_gather * gather,
                     struct error * err) {
    struct join * j = s->npu->join;
    struct hsac_dispatch shared = *asked, *d = &shared;
    enum status st = ST_OK;
    gather = is_gathered(gather, d) ? gather : NULL;
    if (j) {
        share_decoder(j, kernel, d);
    }
    if (j && j->n &&
        !(belongs(j, s->device->agent, kernel, d) &&
          take_windows(j, s->device->agent, d, gather))) {
        st = join_send(s, err);
        shared = *asked;
    }
    // A kernel is sent alone where the profile counts kernels one by one, where its operands fit
    // no window, and where others made it: that one is sent as it was verified, its own stream with
    // its own operands.
    bool apart = !j || kernel->foreign || (!j->n && !take_windows(j, s->device->agent, d, gather));
    if (st != ST_OK) {
        return st;
    }
    if (apart && gather) {
        return error_set(err, ST_UNSUPPORTED, "an operand in parts needs a stream of our own");
    }
    if (apart || (s->device->profile && !gather)) {
        return dispatch(s, d, err);
    }
    struct hsac_dispatch real = *d;
    for (int i = 0; i < d->n_operands; i++) {
        struct window w;
        piece_of(gather, d, i, 0, &w);
        real.operands[i].addr = w.base;
        real.operands[i].size = w.size;
    }
    st = hsac_queue_admits(s->queue, &real, err);
    if (st == ST_OK) {
        struct link next = {.kernel = kernel,
                            .d = *d,
                            .gather = gather ? *gather : (struct join_gather){.n = 0},
                            .ready = ready_operands(j, d, gather)};
        next.beside = is_beside(j, &next);
        j->links[j->n++] = next;
        add_written(&j->written, &next);
        j->us += d->us;
        j->words += kernel->n_insts;
    }
    return st == ST_OK && s->device->profile ? join_send(s, err) : st;
}

void join_settled(struct hsa_stream * s) {
    if (s->npu->join) {
        join_begin(s->npu->join);
        s->npu->join->next = 0;
    }
}

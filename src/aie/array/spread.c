// spread: descriptors and tasks that deal a column's chunks to its cores; see spread.h.
#include "spread.h"

// Channels of a memtile.
enum { IN_A = 0, IN_B = 1, IN_OUT = 2, OUT_CORE = 0, OUT_OUT = 4, OUT_LONE_B = 5 };

// Locks of a memtile: a pair for each stream of each core.
enum { LOCK_WORD = 6 * SPREAD_CORES };

enum {
    SLOT_BYTES = 4 * SPREAD_MOST_WORDS,
    WORD_AT = SPREAD_STREAMS * SPREAD_CORES * 2 * SLOT_BYTES,
};

// Descriptors of a memtile. Even channels use those below 24, odd ones the others; those that are
// written together follow each other, because one write of many words is cheaper than many.
struct core_bds {
    uint8_t in[2];   // S2MM 0 and 1: a and b for this core
    uint8_t send[2]; // MM2S of this core: a, b
    uint8_t result;  // S2MM of this core
    uint8_t out;     // MM2S 4: its results
    uint8_t word;    // MM2S of this core
};
static const struct core_bds core_bds[SPREAD_CORES] = {
    {{1, 25}, {3, 0}, 2, 4, 19},
    {{5, 26}, {28, 29}, 27, 6, 40},
    {{7, 30}, {10, 11}, 9, 8, 20},
    {{12, 31}, {33, 34}, 32, 13, 41},
};
enum { BD_LONE_B = 24, BD_WORD_IN = 39 };
// Of the shorter chunk at the end; one core has it, whose channels are even or odd.
static const struct core_bds last_bds[2] = {
    {{14, 35}, {15, 16}, 17, 18, 0},
    {{14, 35}, {36, 37}, 38, 18, 0},
};
enum { BD_LAST_LONE_B = 42 };

// Descriptors of a core.
enum { CORE_A, CORE_B, CORE_OUT, CORE_LAST, CORE_WORD = CORE_LAST + SPREAD_STREAMS };

static uint32_t rounds(const struct spread * s) {
    return s->full / (uint32_t) s->cores;
}

static int rest(const struct spread * s) { // cores that work in the last, incomplete round
    return (int) (s->full % (uint32_t) s->cores);
}

static bool has_rest(const struct spread * s, int core) {
    return core >= s->cores - rest(s);
}

bool spread_has_last(const struct spread * s, int core) {
    return s->last[SPREAD_A] && core == s->cores - rest(s) - 1;
}

static uint32_t full_chunks(const struct spread * s, int core) {
    return core < s->cores ? rounds(s) + has_rest(s, core) : 0;
}

uint32_t spread_chunks(const struct spread * s, int core) {
    return full_chunks(s, core) + spread_has_last(s, core);
}

struct flow_tile spread_core(int col, int core) {
    return (struct flow_tile){col, ARRAY_ROW_CORE + core};
}

// One core alone gets b by a channel of its own, so that both inputs come at full speed.
static bool lone_b(const struct spread * s) {
    return s->cores == 1 && s->chunk[SPREAD_B];
}

// ---- configuration ----

void spread_column(struct array * a, int col) {
    uint8_t locks[SPREAD_LOCKS] = {0};
    for (int i = 0; i < 3 * SPREAD_CORES; i++) {
        locks[2 * i] = 2; // buffers are empty
    }
    array_mem(a, col, locks, SPREAD_LOCKS);
    struct array_port shim = {col, ARRAY_ROW_SHIM, 0}, mem = {col, ARRAY_ROW_MEM, 0};
    for (int i = 0; i < 2; i++) {
        shim.channel = mem.channel = i;
        array_route(a, shim, &mem, 1);
    }
    for (int i = 0; i < SPREAD_CORES; i++) {
        struct array_port core = {col, ARRAY_ROW_CORE + i, 0};
        mem.channel = OUT_CORE + i;
        array_route(a, mem, &core, 1);
        mem.channel = IN_OUT + i;
        array_route(a, core, &mem, 1);
    }
    mem.channel = OUT_LONE_B;
    array_route(a, mem, &(struct array_port){col, ARRAY_ROW_CORE, 1}, 1);
    mem.channel = OUT_OUT;
    shim.channel = 0;
    array_route(a, mem, &shim, 1);
    array_token_route(a, col);
}

// ---- memtile ----

struct mem_bds { // what is to be written
    uint32_t words[ARRAY_MEM_BDS][8];
    uint64_t set;
};

static void put(struct mem_bds * m, int bd, const struct array_bd * d) {
    array_mem_bd(d, m->words[bd]);
    m->set |= UINT64_C(1) << bd;
}

static void write_mem_bds(const struct flow * f, int col, const struct mem_bds * m) {
    for (int bd = 0, n; bd < ARRAY_MEM_BDS; bd += n ? n : 1) {
        for (n = 0; bd + n < ARRAY_MEM_BDS && m->set >> (bd + n) & 1; n++) {
        }
        if (n) {
            txn_block_write(f->t, image_addr(col, ARRAY_ROW_MEM, MEM_BD + 0x20 * (uint32_t) bd),
                            m->words[bd], 8 * (size_t) n);
        }
    }
}

// A buffer of a core's stream in the memtile, being filled or emptied.
static struct array_bd slot_bd(int core, int stream, bool fills, uint32_t words) {
    int empty = 2 * (SPREAD_STREAMS * core + stream), full = empty + 1;
    return (struct array_bd){
        .address = (uint32_t) (2 * (SPREAD_STREAMS * core + stream)) * SLOT_BYTES,
        .words = words,
        .next = -1,
        .acquire = fills ? empty : full,
        .acquire_value = -1,
        .release = fills ? full : empty,
        .release_value = 1,
        .iterations = 2,
        .iteration_step = SLOT_BYTES / 4,
    };
}

// The last chunk's: no turns to take, in the buffer whose turn it is.
static struct array_bd last_slot_bd(const struct spread * s, int core, int stream, bool fills) {
    struct array_bd d = slot_bd(core, stream, fills, s->last[stream]);
    d.iterations = 0;
    d.address += full_chunks(s, core) % 2 * SLOT_BYTES;
    return d;
}

static void put_core(struct mem_bds * m, const struct spread * s, int core) {
    const struct core_bds *own = &core_bds[core], *next = own + 1;
    bool is_last = core + 1 == s->cores;
    for (int i = SPREAD_A; i <= SPREAD_B && s->chunk[i]; i++) {
        struct array_bd in = slot_bd(core, i, true, s->chunk[i]);
        struct array_bd send = slot_bd(core, i, false, s->chunk[i]);
        in.next = is_last ? -1 : next->in[i];
        send.next = i == SPREAD_A && s->chunk[SPREAD_B] && !lone_b(s) ? own->send[SPREAD_B] : -1;
        put(m, own->in[i], &in);
        put(m, i == SPREAD_B && lone_b(s) ? BD_LONE_B : own->send[i], &send);
    }
    struct array_bd result = slot_bd(core, SPREAD_OUT, true, s->chunk[SPREAD_OUT]);
    struct array_bd out = slot_bd(core, SPREAD_OUT, false, s->chunk[SPREAD_OUT]);
    out.next = is_last ? -1 : next->out;
    put(m, own->result, &result);
    put(m, own->out, &out);
}

static void put_last(struct mem_bds * m, const struct spread * s, int core) {
    const struct core_bds * own = &last_bds[core % 2];
    for (int i = SPREAD_A; i <= SPREAD_B && s->chunk[i]; i++) {
        struct array_bd in = last_slot_bd(s, core, i, true);
        struct array_bd send = last_slot_bd(s, core, i, false);
        send.next = i == SPREAD_A && s->chunk[SPREAD_B] && !lone_b(s) ? own->send[SPREAD_B] : -1;
        put(m, own->in[i], &in);
        put(m, i == SPREAD_B && lone_b(s) ? BD_LAST_LONE_B : own->send[i], &send);
    }
    struct array_bd result = last_slot_bd(s, core, SPREAD_OUT, true);
    struct array_bd out = last_slot_bd(s, core, SPREAD_OUT, false);
    put(m, own->result, &result);
    put(m, own->out, &out);
}

static void put_word(struct mem_bds * m, const struct spread * s) {
    struct array_bd in = {.address = WORD_AT,
                          .words = 1,
                          .next = -1,
                          .acquire = -1,
                          .release = LOCK_WORD,
                          .release_value = 0};
    for (int i = 0; i < s->cores; i++) {
        if (spread_chunks(s, i)) {
            struct array_bd out = {.address = WORD_AT,
                                   .words = 1,
                                   .next = -1,
                                   .acquire = LOCK_WORD,
                                   .acquire_value = -1,
                                   .release = -1};
            put(m, core_bds[i].word, &out);
            in.release_value++;
        }
    }
    put(m, BD_WORD_IN, &in);
}

static void push_in(const struct flow * f, int col, int channel, int bd, int64_t runs) {
    flow_push(f, (struct flow_tile){col, ARRAY_ROW_MEM}, MEM_S2MM_QUEUE + 8 * (uint32_t) channel,
              bd, runs, false);
}

static void push_out(const struct flow * f, int col, int channel, int bd, int64_t runs) {
    flow_push(f, (struct flow_tile){col, ARRAY_ROW_MEM}, MEM_MM2S_QUEUE + 8 * (uint32_t) channel,
              bd, runs, false);
}

// What all cores share: their chains, the chain's tail, the shorter chunk.
static void push_shared(const struct flow * f, int col, const struct spread * s) {
    int first_of_rest = s->cores - rest(s);
    const struct core_bds *first = &core_bds[0], *tail = &core_bds[first_of_rest % SPREAD_CORES];
    if (s->word.there) {
        push_in(f, col, IN_B, BD_WORD_IN, 1);
    }
    for (int i = SPREAD_A; i <= SPREAD_B && s->chunk[i]; i++) {
        push_in(f, col, IN_A + i, first->in[i], rounds(s));
        push_in(f, col, IN_A + i, tail->in[i], rest(s) > 0);
        push_in(f, col, IN_A + i, last_bds[0].in[i], s->last[SPREAD_A] > 0);
    }
    push_out(f, col, OUT_OUT, first->out, rounds(s));
    push_out(f, col, OUT_OUT, tail->out, rest(s) > 0);
    push_out(f, col, OUT_OUT, last_bds[0].out, s->last[SPREAD_A] > 0);
}

static void push_core(const struct flow * f, int col, const struct spread * s, int core) {
    const struct core_bds *own = &core_bds[core], *last = &last_bds[core % 2];
    uint32_t full = full_chunks(s, core);
    bool is_last = spread_has_last(s, core);
    push_out(f, col, OUT_CORE + core, own->word, s->word.there);
    push_out(f, col, OUT_CORE + core, own->send[SPREAD_A], full);
    push_out(f, col, OUT_CORE + core, last->send[SPREAD_A], is_last);
    if (lone_b(s)) {
        push_out(f, col, OUT_LONE_B, BD_LONE_B, full);
        push_out(f, col, OUT_LONE_B, BD_LAST_LONE_B, is_last);
    }
    push_in(f, col, IN_OUT + core, own->result, full);
    push_in(f, col, IN_OUT + core, last->result, is_last);
}

// ---- cores ----

static struct array_bd core_bd(const struct spread * s, int stream, uint32_t words) {
    const struct spread_buffer * b = &s->buffers[stream];
    const struct flow_layout * lay = &s->layout[stream];
    bool fills = stream != SPREAD_OUT;
    return (struct array_bd){
        .address = b->address,
        .words = words,
        .next = -1,
        .acquire = fills ? b->empty : b->full,
        .acquire_value = -1,
        .release = fills ? b->full : b->empty,
        .release_value = 1,
        .wrap = {lay->wrap[0], lay->wrap[1]},
        .step = {lay->step[0], lay->step[1], lay->step[2]},
        .iterations = 2,
        .iteration_step = b->other / 4,
    };
}

// Full chunks of a core, or its last one.
static void write_core_bds(const struct flow * f, const struct spread * s, struct flow_tile at,
                           int bd, uint32_t before, const uint32_t words[SPREAD_STREAMS]) {
    for (int i = 0; i < SPREAD_STREAMS; i++) {
        if (s->chunk[i]) {
            struct array_bd d = core_bd(s, i, words[i]);
            if (bd == CORE_LAST) {
                d.iterations = 0;
                d.address += before % 2 * s->buffers[i].other;
            }
            d.next = i == SPREAD_A && s->chunk[SPREAD_B] && !lone_b(s) ? bd + SPREAD_B : -1;
            flow_core_bd(f, at, bd + i, &d);
        }
    }
}

static void push_chunks(const struct flow * f, const struct spread * s, struct flow_tile at, int bd,
                        int64_t runs) {
    flow_push(f, at, CORE_S2MM_QUEUE, bd + SPREAD_A, runs, false);
    if (lone_b(s)) {
        flow_push(f, at, CORE_S2MM_QUEUE + 8, bd + SPREAD_B, runs, false);
    }
    flow_push(f, at, CORE_MM2S_QUEUE, bd + SPREAD_OUT, runs, false);
}

static void start_core(const struct flow * f, int col, const struct spread * s, int core) {
    struct flow_tile at = spread_core(col, core);
    uint32_t full = full_chunks(s, core);
    if (s->word.there) {
        flow_core_bd(f, at, CORE_WORD,
                     &(struct array_bd){.address = s->word.address,
                                        .words = 1,
                                        .next = -1,
                                        .acquire = s->word.acquire,
                                        .acquire_value = -1,
                                        .release = s->word.release,
                                        .release_value = 1});
        flow_push(f, at, CORE_S2MM_QUEUE, CORE_WORD, 1, false);
    }
    if (full) {
        write_core_bds(f, s, at, CORE_A, 0, s->chunk);
        push_chunks(f, s, at, CORE_A, full);
    }
    if (spread_has_last(s, core)) {
        write_core_bds(f, s, at, CORE_LAST, full, s->last);
        push_chunks(f, s, at, CORE_LAST, 1);
    }
}

void spread_start(const struct flow * f, int col, const struct spread * s) {
    struct mem_bds m = {.set = 0};
    for (int i = 0; i < s->cores; i++) {
        if (full_chunks(s, i)) {
            put_core(&m, s, i);
        }
        if (spread_has_last(s, i)) {
            put_last(&m, s, i);
        }
    }
    if (s->word.there) {
        put_word(&m, s);
    }
    write_mem_bds(f, col, &m);
    push_shared(f, col, s);
    for (int i = 0; i < s->cores; i++) {
        if (spread_chunks(s, i)) {
            push_core(f, col, s, i);
            start_core(f, col, s, i);
        }
    }
}

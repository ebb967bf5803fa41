// spread: descriptors and tasks that deal a column's chunks to its cores; see spread.h.
#include "spread.h"

// Channels of a memtile.
enum { IN_A = 0, IN_B = 1, IN_OUT = 2, OUT_CORE = 0, OUT_OUT = 4, OUT_SECOND = 5 };

// Locks of a memtile: a pair for each stream of each core, and another for a and b where they are
// held, which count parts. The instruction stream says how many.
enum { LOCK_WORD = SPREAD_PLAIN_LOCKS - 1, LOCK_HELD };

enum { SLOT_WORDS = SPREAD_MOST_WORDS, WORD_AT = ARRAY_MEM_BYTES - 32 };

// Descriptors of a memtile: what fills a buffer and what sends it on, for each stream of a core.
// Even channels use those below 24, odd ones the others; those that are written together follow
// each other, because one write of many words is cheaper than many.
struct bds {
    uint8_t fill, send;
};
static const struct bds bds[SPREAD_CORES][SPREAD_STREAMS] = {
    {{1, 3}, {25, 0}, {2, 4}},
    {{5, 28}, {26, 29}, {27, 6}},
    {{7, 10}, {30, 11}, {9, 8}},
    {{12, 33}, {31, 34}, {32, 13}},
};
// The descriptors of the shorter chunk at the end, which one core has. Its channels are even or
// odd.
static const struct bds last_bds[2][SPREAD_STREAMS] = {
    {{14, 15}, {35, 16}, {17, 18}},
    {{14, 36}, {35, 37}, {38, 18}},
};
// The same of the second way, which has no b: its stream in and its stream out are odd channels.
static const struct bds second_bds[SPREAD_PAIR][SPREAD_STREAMS] = {
    {{30, 7}, {0, 0}, {8, 29}},
    {{31, 33}, {0, 0}, {32, 34}},
};
static const struct bds second_last_bds[2][SPREAD_STREAMS] = {
    {{35, 16}, {0, 0}, {21, 44}},
    {{35, 37}, {0, 0}, {43, 44}},
};
static const uint8_t word_bds[SPREAD_CORES] = {19, 40, 20, 41};
enum { BD_LONE_B = 24, BD_LAST_LONE_B = 42, BD_WORD_IN = 39 };

// Descriptors of a core.
enum { CORE_A, CORE_B, CORE_OUT, CORE_LAST, CORE_WORD = CORE_LAST + SPREAD_STREAMS };

// To one core alone the memtile passes words on in blocks of its own, smaller ones as a rule, so
// that the first of them are not long on their way.
static void regroup(struct spread_stream * t) {
    enum { BLOCK = 512 };
    uint32_t words = t->full * t->chunk + t->last, block = BLOCK;
    while (words / block > ARRAY_MAX_REPEAT && block < SPREAD_MOST_WORDS) {
        block *= 2;
    }
    for (uint32_t n = (words + block - 1) / block; words && (n == 1 || words / n >= block / 2);
         n++) {
        if (words % n == 0) { // comes out even
            block = words / n;
            break;
        }
    }
    *t = (struct spread_stream){.full = words / block, .chunk = block, .last = words % block};
}

enum { SECOND = SPREAD_CORES - SPREAD_PAIR }; // the second way's first seat

int spread_first(int way, int cores) {
    return !way ? 0 : cores == 1 ? SPREAD_CORES - 1 : SECOND;
}

// A core's number in its column.
static int seat(const struct spread * s, int core) {
    return s->first + core;
}

static const struct bds * bds_of(const struct spread * s, int core) {
    return s->way ? second_bds[seat(s, core) - SECOND] : bds[seat(s, core)];
}

static const struct bds * last_bds_of(const struct spread * s, int core) {
    return (s->way ? second_last_bds : last_bds)[seat(s, core) % 2];
}

static uint32_t rounds(const struct spread * s, int stream) {
    return s->streams[stream].full / (uint32_t) s->cores;
}

static int rest(const struct spread * s, int stream) { // cores in the last, incomplete round
    return (int) (s->streams[stream].full % (uint32_t) s->cores);
}

static bool has_last(const struct spread * s, int stream, int core) {
    return s->streams[stream].last && core == s->cores - rest(s, stream) - 1;
}

static uint32_t full_chunks(const struct spread * s, int stream, int core) {
    return core < s->cores ? rounds(s, stream) + (core >= s->cores - rest(s, stream)) : 0;
}

// Transfers between memtile and core, of full chunks.
static uint32_t runs_of(const struct spread * s, int stream, int core) {
    uint32_t n = full_chunks(s, stream, core);
    return s->held.parts == 0     ? n
           : stream == SPREAD_OUT ? n * s->held.parts
                                  : n * s->held.parts * s->held.passes;
}

bool spread_has_last(const struct spread * s, int core) {
    return has_last(s, SPREAD_A, core);
}

uint32_t spread_chunks(const struct spread * s, int core) {
    return full_chunks(s, SPREAD_A, core) + spread_has_last(s, core);
}

struct flow_tile spread_core(const struct spread * s, int col, int core) {
    return (struct flow_tile){col, ARRAY_ROW_CORE + seat(s, core)};
}

static bool is_there(const struct spread * s, int stream) {
    return s->streams[stream].full || s->streams[stream].last;
}

static bool is_held(const struct spread * s) {
    return s->held.parts > 0;
}

// One core alone gets b by a channel of its own, so that both inputs come at full speed.
static bool lone_b(const struct spread * s) {
    return s->cores == 1 && !is_held(s) && !s->mixed && !s->ways;
}

// A chunk of a with b's behind it.
static bool b_follows(const struct spread * s, int stream) {
    return stream == SPREAD_A && is_there(s, SPREAD_B) && !lone_b(s);
}

// ---- configuration ----

void spread_locks(uint8_t locks[SPREAD_LOCKS]) {
    for (int i = 0; i < SPREAD_LOCKS; i++) {
        locks[i] = i < LOCK_WORD && i % 2 == 0 ? 2 : 0; // buffers are empty
    }
}

void spread_column(struct array * a, int col, enum spread_kind kind) {
    struct array_port shim = {col, ARRAY_ROW_SHIM, 0}, mem = {col, ARRAY_ROW_MEM, 0};
    struct array_port second[SPREAD_PAIR] = {
        {col, kind == SPREAD_WAYS ? ARRAY_ROW_SHIM : ARRAY_ROW_CORE, 1}};
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
    for (int i = 0; i < SPREAD_PAIR && kind == SPREAD_MIXED; i++) {
        second[i] = (struct array_port){col, ARRAY_ROW_CORE + SPREAD_CORES - SPREAD_PAIR + i, 1};
    }
    mem.channel = OUT_SECOND;
    array_route(a, mem, second, kind == SPREAD_MIXED ? SPREAD_PAIR : 1);
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

static uint32_t held_words(const struct spread_held * h, int stream) {
    return (h->parts * h->part[stream] + 7) / 8 * 8;
}

static uint32_t held_all(const struct spread_held * h) { // of a core; results have two places
    return held_words(h, SPREAD_A) + held_words(h, SPREAD_B) + 2 * held_words(h, SPREAD_OUT);
}

// Cycles until all is done, and for telling everyone. Sets them and the lead of a crew.
static uint64_t crew_cycles(const struct spread_work * w, struct spread_crew * crew) {
    uint64_t ways = (uint64_t) (crew->columns * crew->ways), all = ways * (uint64_t) crew->cores;
    uint64_t flow = (crew->mixed ? w->all_words : w->words) / (ways * w->words_a_cycle);
    uint64_t work = w->cycles / all;
    uint64_t way = (uint64_t) crew->cores * w->telling +
                   (w->way_telling ? w->way_telling : (uint64_t) w->times->column) +
                   (crew->ways == 1 ? w->lone_telling : 0);
    uint64_t busy = work > flow ? work : flow;
    if (!crew->mixed) { // between two chunks a channel rests
        uint64_t channel = w->shared_words * 65 / 64 / (all * w->words_a_cycle);
        busy = channel > busy ? channel : busy;
    }
    if (w->most_words) { // a core that gets more is programmed again when the first part is done
        uint64_t most = (uint64_t) crew->cores * w->most_words;
        busy +=
            (w->words / ways > 0 ? (w->words / ways - 1) / most : 0) * (uint64_t) w->times->again;
    }
    crew->lead = busy ? w->words / ways * way / busy : 0;
    // The last column keeps at least a fourth of an even share. Where programming the columns
    // takes longer than that can even out, a column that finishes early waits, and its token delays
    // the programming of the next.
    uint64_t told = ways * way, evened = busy + busy / 2;
    uint64_t late = told > evened ? (told - evened) * 3 / 2 : 0;
    crew->cycles = busy + (w->leads ? told / 2 + late : told);
    return crew->cycles;
}

static void try_crew(const struct spread_work * w, struct spread_crew crew,
                     struct spread_crew * best, uint64_t * least) {
    uint64_t cycles = crew_cycles(w, &crew);
    if (cycles < *least) {
        *least = cycles;
        *best = crew;
    }
}

// The mixed PDI is the one that stays in the array. To load another one pays where that saves more
// than three quarters of what a load takes (0.52 ms, 530,000 cycles of Phoenix): several kernels in
// a row that stay on the mixed one share a load, and each on its own PDI has one.
struct spread_crew spread_crew_for(const struct spread_work * w) {
    uint64_t least = UINT64_MAX, least_mixed = UINT64_MAX;
    struct spread_crew best = {.columns = 1, .ways = 1, .cores = 1}, best_mixed = best;
    for (int columns = w->least_columns;;) {
        for (int ways = 1; ways == 1 || ways <= w->most_ways; ways++) {
            for (int cores = 1; ways * cores <= w->most_cores; cores *= 2) {
                if (cores > 1 && w->shares && w->shares < (uint64_t) (columns * ways * cores)) {
                    break; // some would get nothing
                }
                try_crew(w, (struct spread_crew){.columns = columns, .ways = ways, .cores = cores},
                         &best, &least);
            }
        }
        bool all = !w->mixed_columns || columns <= w->mixed_columns;
        try_crew(
            w,
            (struct spread_crew){
                .columns = all ? columns : w->mixed_columns, .ways = 1, .cores = 1, .mixed = true},
            &best_mixed, &least_mixed);
        if (columns == w->most_columns) {
            return w->may_mix && least_mixed < least + (uint64_t) w->times->load ? best_mixed
                                                                                 : best;
        }
        columns = 2 * columns < w->most_columns ? 2 * columns : w->most_columns;
    }
}

int spread_holds(const struct spread_held * h, bool word) {
    uint32_t room = (word ? WORD_AT : ARRAY_MEM_BYTES) / 4;
    int cores = SPREAD_CORES;
    while (cores && (uint32_t) cores * held_all(h) > room) {
        cores /= 2;
    }
    return h->parts * h->passes <= SPREAD_HELD_RUNS ? cores : 0;
}

// Where a core's buffers of a stream begin, and how many words each has.
static uint32_t slot_words(const struct spread * s, int stream) {
    return is_held(s) ? held_words(&s->held, stream) : SLOT_WORDS;
}

static uint32_t slot_at(const struct spread * s, int stream, int core) {
    if (!is_held(s)) {
        return 4 * (uint32_t) (2 * (SPREAD_STREAMS * seat(s, core) + stream)) * SLOT_WORDS;
    }
    uint32_t at = (uint32_t) core * held_all(&s->held);
    for (int i = 0; i < stream; i++) {
        at += held_words(&s->held, i);
    }
    return 4 * at;
}

static int held_lock(const struct spread * s, int stream, int core) {
    return LOCK_HELD + 2 * (2 * seat(s, core) + stream);
}

// A buffer of a core's stream in the memtile, being filled or emptied.
static struct array_bd slot_bd(const struct spread * s, int stream, int core, bool fills,
                               uint32_t words) {
    int empty = 2 * (SPREAD_STREAMS * seat(s, core) + stream), full = empty + 1;
    return (struct array_bd){
        .address = slot_at(s, stream, core),
        .words = words,
        .next = -1,
        .acquire = fills ? empty : full,
        .acquire_value = -1,
        .release = fills ? full : empty,
        .release_value = 1,
        .iterations = 2,
        .iteration_step = slot_words(s, stream),
    };
}

// The same for a chunk that is held: filled when all its parts are gone, as often as they go.
static struct array_bd held_bd(const struct spread * s, int stream, int core, bool fills) {
    const struct spread_held * h = &s->held;
    uint32_t part = h->part[stream];
    if (stream == SPREAD_OUT) {
        return slot_bd(s, stream, core, fills, fills ? h->parts * part : s->streams[stream].chunk);
    }
    struct array_bd d = slot_bd(s, stream, core, fills, fills ? s->streams[stream].chunk : part);
    int times = fills ? (int) (h->parts * h->passes) : 1, empty = held_lock(s, stream, core);
    d.acquire = fills ? empty : empty + 1;
    d.release = fills ? empty + 1 : empty;
    d.acquire_value = -times;
    d.release_value = times;
    d.iterations = fills ? 0 : h->parts;
    d.iteration_step = part;
    return d;
}

static struct array_bd full_bd(const struct spread * s, int stream, int core, bool fills) {
    return is_held(s) ? held_bd(s, stream, core, fills)
                      : slot_bd(s, stream, core, fills, s->streams[stream].chunk);
}

// Buffers of a stream of a core, filled and sent on.
static void put_stream(struct mem_bds * m, const struct spread * s, int stream, int core) {
    const struct bds * own = &bds_of(s, core)[stream];
    struct array_bd fill = full_bd(s, stream, core, true);
    struct array_bd send = full_bd(s, stream, core, false);
    if (core + 1 < s->cores) { // channels that all cores share go on to the next
        const struct bds * next = &bds_of(s, core + 1)[stream];
        *(stream == SPREAD_OUT ? &send.next : &fill.next) =
            stream == SPREAD_OUT ? next->send : next->fill;
    }
    if (b_follows(s, stream)) {
        send.next = bds_of(s, core)[SPREAD_B].send;
    }
    put(m, own->fill, &fill);
    put(m, stream == SPREAD_B && lone_b(s) ? BD_LONE_B : own->send, &send);
}

// The last chunk: no turns to take, in the buffer whose turn it is.
static void put_last(struct mem_bds * m, const struct spread * s, int stream, int core) {
    const struct bds *last = last_bds_of(s, core), *own = &last[stream];
    for (int fills = 0; fills < 2; fills++) {
        struct array_bd d = slot_bd(s, stream, core, fills, s->streams[stream].last);
        d.iterations = 0;
        d.address += full_chunks(s, stream, core) % 2 * 4 * SLOT_WORDS;
        if (!fills && b_follows(s, stream)) {
            d.next = last[SPREAD_B].send;
        }
        bool lone = !fills && stream == SPREAD_B && lone_b(s);
        put(m, lone ? BD_LAST_LONE_B : fills ? own->fill : own->send, &d);
    }
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
            put(m, word_bds[seat(s, i)], &out);
            in.release_value++;
        }
    }
    put(m, BD_WORD_IN, &in);
}

// Tasks of the memtile; those of all ways are pushed together.
enum { MEM_CHANNELS = 6 };

static void push_in(struct flow_tasks * t, int channel, int bd, int64_t runs) {
    flow_task(t, channel, bd, runs, false);
}

static void push_out(struct flow_tasks * t, int channel, int bd, int64_t runs) {
    flow_task(t, MEM_CHANNELS + channel, bd, runs, false);
}

static struct flow_tasks mem_tasks(int col) {
    return (struct flow_tasks){.at = {col, ARRAY_ROW_MEM}, .first = MEM_S2MM_QUEUE};
}

// What all cores share: their chain, the chain's tail, the shorter chunk.
static void push_shared(struct flow_tasks * t, const struct spread * s) {
    if (s->word.there) {
        push_in(t, IN_B, BD_WORD_IN, 1);
    }
    const int out = s->way ? OUT_SECOND : OUT_OUT, in = s->way ? IN_B : IN_A;
    for (int i = 0; i < SPREAD_STREAMS; i++) {
        const struct bds *first = &bds_of(s, 0)[i], *last = &last_bds_of(s, 0)[i];
        const struct bds * tail = &bds_of(s, rest(s, i) ? s->cores - rest(s, i) : 0)[i];
        if (i == SPREAD_OUT) {
            push_out(t, out, first->send, rounds(s, i));
            push_out(t, out, tail->send, rest(s, i) > 0);
            push_out(t, out, last->send, s->streams[i].last > 0);
        } else {
            push_in(t, in + i, first->fill, rounds(s, i));
            push_in(t, in + i, tail->fill, rest(s, i) > 0);
            push_in(t, in + i, last->fill, s->streams[i].last > 0);
        }
    }
}

static void push_core(struct flow_tasks * t, const struct spread * s, int core) {
    int at = seat(s, core);
    const struct bds *own = bds_of(s, core), *last = last_bds_of(s, core);
    push_out(t, OUT_CORE + at, word_bds[at], s->word.there);
    push_out(t, OUT_CORE + at, own[SPREAD_A].send, runs_of(s, SPREAD_A, core));
    push_out(t, OUT_CORE + at, last[SPREAD_A].send, has_last(s, SPREAD_A, core));
    if (lone_b(s)) {
        push_out(t, OUT_SECOND, BD_LONE_B, full_chunks(s, SPREAD_B, core));
        push_out(t, OUT_SECOND, BD_LAST_LONE_B, has_last(s, SPREAD_B, core));
    }
    push_in(t, IN_OUT + at, own[SPREAD_OUT].fill, full_chunks(s, SPREAD_OUT, core));
    push_in(t, IN_OUT + at, last[SPREAD_OUT].fill, has_last(s, SPREAD_OUT, core));
}

// ---- cores ----

// A stream's buffers in a core, filled or sent; for the last chunk the one whose turn it is.
static void write_core_bd(const struct flow * f, const struct spread * s, struct flow_tile at,
                          int stream, int core, bool last) {
    const struct spread_stream * t = &s->streams[stream];
    const struct spread_buffer * b = &s->buffers[stream];
    const struct flow_layout * lay = &t->layout;
    bool fills = stream != SPREAD_OUT;
    int bd = last ? CORE_LAST : CORE_A;
    struct array_bd d = {
        .address = b->address,
        .words = last         ? t->last
                 : is_held(s) ? s->held.part[stream]
                              : t->chunk,
        .next = b_follows(s, stream) ? bd + SPREAD_B : -1,
        .acquire = fills ? b->empty : b->full,
        .acquire_value = -1,
        .release = fills ? b->full : b->empty,
        .release_value = 1,
        .wrap = {lay->wrap[0], lay->wrap[1]},
        .step = {lay->step[0], lay->step[1], lay->step[2]},
        .iterations = last ? 0 : 2,
        .iteration_step = b->other / 4,
    };
    if (last) {
        d.address += full_chunks(s, stream, core) % 2 * b->other;
    }
    flow_core_bd(f, at, bd + stream, &d);
}

static void start_core(const struct flow * f, int col, const struct spread * s, int core) {
    static const uint32_t queues[SPREAD_STREAMS] = {CORE_S2MM_QUEUE, CORE_S2MM_QUEUE + 8,
                                                    CORE_MM2S_QUEUE};
    struct flow_tile at = spread_core(s, col, core);
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
    for (int last = 0; last < 2; last++) {
        for (int i = SPREAD_STREAMS - 1; i >= 0; i--) { // b before a, which goes on to it
            uint32_t runs = last ? has_last(s, i, core) : runs_of(s, i, core);
            if (runs) {
                write_core_bd(f, s, at, i, core, last);
                flow_push(f, at, queues[i], (last ? CORE_LAST : CORE_A) + i,
                          i == SPREAD_B && !lone_b(s) ? 0 : runs, false);
            }
        }
    }
}

// How many parts the buffers of held chunks are good for.
static void set_held(const struct flow * f, int col, const struct spread * s, uint32_t parts) {
    for (int core = 0; core < s->cores; core++) {
        for (int i = SPREAD_A; i <= SPREAD_B && is_held(s); i++) {
            uint32_t lock = MEM_LOCK + 0x10 * (uint32_t) held_lock(s, i, core);
            if (is_there(s, i)) {
                txn_write(f->t, image_addr(col, ARRAY_ROW_MEM, lock), parts);
            }
        }
    }
}

static void put_way(struct mem_bds * m, struct flow_tasks * t, const struct spread * s) {
    for (int core = 0; core < s->cores; core++) {
        for (int i = 0; i < SPREAD_STREAMS; i++) {
            if (full_chunks(s, i, core)) {
                put_stream(m, s, i, core);
            }
            if (has_last(s, i, core)) {
                put_last(m, s, i, core);
            }
        }
    }
    if (s->word.there) {
        put_word(m, s);
    }
    push_shared(t, s);
    for (int i = 0; i < s->cores; i++) {
        if (spread_chunks(s, i)) {
            push_core(t, s, i);
        }
    }
}

// A way as the memtile sees it.
static struct spread in_memtile(const struct spread * s) {
    struct spread mem = *s;
    for (int i = 0; i < SPREAD_STREAMS && s->cores == 1 && !is_held(s); i++) {
        if (i == SPREAD_OUT || !b_follows(s, SPREAD_A)) {
            regroup(&mem.streams[i]);
        }
    }
    return mem;
}

void spread_start_ways(const struct flow * f, int col, const struct spread * ways, int n) {
    struct mem_bds m = {.set = 0};
    struct flow_tasks tasks = mem_tasks(col);
    for (int i = 0; i < n; i++) {
        const struct spread mem = in_memtile(&ways[i]);
        set_held(f, col, &mem, mem.held.parts * mem.held.passes);
        put_way(&m, &tasks, &mem);
    }
    write_mem_bds(f, col, &m);
    flow_push_all(f, &tasks);
    for (int i = 0; i < n; i++) {
        for (int core = 0; core < ways[i].cores; core++) {
            if (spread_chunks(&ways[i], core)) {
                start_core(f, col, &ways[i], core);
            }
        }
    }
}

void spread_start(const struct flow * f, int col, const struct spread * s) {
    spread_start_ways(f, col, s, 1);
}

void spread_end(const struct flow * f, int col, const struct spread * s) {
    set_held(f, col, s, 0);
}

void spread_pass(const struct flow * f, int col, uint32_t words) {
    struct spread s = {.cores = 1};
    struct spread_stream * t = &s.streams[SPREAD_A];
    t->chunk = words;
    t->full = 1;
    regroup(t);
    struct mem_bds m = {.set = 0};
    const struct bds *own = &bds[0][SPREAD_A], *last = &last_bds[0][SPREAD_A];
    if (t->full) {
        put_stream(&m, &s, SPREAD_A, 0);
    }
    if (t->last) {
        put_last(&m, &s, SPREAD_A, 0);
    }
    struct flow_tasks tasks = mem_tasks(col);
    write_mem_bds(f, col, &m);
    push_in(&tasks, IN_A, own->fill, t->full);
    push_in(&tasks, IN_A, last->fill, t->last > 0);
    push_out(&tasks, OUT_OUT, own->send, t->full);
    push_out(&tasks, OUT_OUT, last->send, t->last > 0);
    flow_push_all(f, &tasks);
}

// test-trace: a run of a small design that was traced on a Phoenix, event by event. 64 words go
// from the shim to a memtile (objects of 16 words), on to a core (objects of 8), which adds one,
// and all the way back; every buffer is there twice. A design of our own does the same here, and
// each of the 96 events of the trace is looked up in it: the word of a stream port that began or
// ended a run of words, a request to a lock, a stall. When the run began is chosen so that half of
// the events are early and half are late.
//
// What the core does between its requests to locks was measured too and is padded to what the trace
// shows. All the rest is the model's: how long words, descriptors and locks take.
// In the place of the library's: looks on while words enter and leave the switches. It comes first
// because cmocka has macros of its own.
#define source_enter source_enter_unseen
#define sink_take    sink_take_unseen
#include "emu/aie/array-stream.c"
#undef source_enter
#undef sink_take

#include "emu/aie/array-bench.h"
#include "emu/aie/array-program.h"
#include "emu/aie/timing/rows.h"

enum { WORDS = 64, MEM_OBJECT = 16, CORE_OBJECT = 8, MAX_EVENTS = 128, REQUESTS = 32 };
enum { IN_BUFFER = 0x400, OUT_BUFFER = 0x8400, APART = 0x4000 };

enum port { MEM_IN, MEM_TO_CORE, MEM_TO_SHIM, CORE_IN, CORE_OUT, PORTS };

static const struct {
    const char * name; // in the trace
    int row, channel;
    enum dma_dir dir;
    int object; // words of a descriptor
} ports[PORTS] = {
    [MEM_IN] = {"memtile S2MM0", 1, 0, DMA_S2MM, MEM_OBJECT},
    [MEM_TO_CORE] = {"memtile MM2S0", 1, 0, DMA_MM2S, MEM_OBJECT},
    [MEM_TO_SHIM] = {"memtile MM2S1", 1, 1, DMA_MM2S, MEM_OBJECT},
    [CORE_IN] = {"RUNNING S2MM0 (stream into core", 2, 0, DMA_S2MM, CORE_OBJECT},
    [CORE_OUT] = {"RUNNING MM2S0 (stream out of core", 2, 0, DMA_MM2S, CORE_OBJECT},
};

struct seen {
    struct bench bench;            // first, see resolve()
    uint64_t word[PORTS][WORDS];   // when it went through the stream port
    uint64_t ready[PORTS][WORDS];  // of a storing channel: when it had come there
    uint64_t stored[PORTS][WORDS]; // and when it was stored
    int sent[PORTS], n[PORTS];
    uint64_t request[REQUESTS];
    int n_requests;
    uint64_t queued; // when the stream wrote its last queue
};

static struct seen * looking; // the array's functions know only the array

static int port_of(const struct channel * c) {
    int p = 0;
    while (p < PORTS && !(c && c->tile->row == ports[p].row && c->dir == ports[p].dir &&
                          c->index == ports[p].channel)) {
        p++;
    }
    return p;
}

// In single cycles words come one by one, and on this clock a tick is a cycle.
void source_enter(struct source * s, const struct route * r, const uint32_t * words, uint32_t n,
                  uint64_t tick, bool last) {
    int p = port_of(s->channel);
    assert_int_equal(n, 1);
    if (p < PORTS) {
        looking->word[p][looking->n[p]++] = tick;
    }
    for (int i = 0; i < r->n_sinks; i++) {
        int to = port_of(r->sinks[i].sink->channel);
        if (to < PORTS) {
            assert_true(looking->sent[to] < WORDS);
            looking->ready[to][looking->sent[to]++] = tick + r->sinks[i].latency;
        }
    }
    source_enter_unseen(s, r, words, n, tick, last);
}

// The port in front of a storing channel takes a word when it has come and the channel's FIFO has
// room, and rests between two descriptors; the model keeps the words of switches and FIFO together.
void sink_take(struct sink * sink, uint32_t * words, uint32_t n, uint64_t tick) {
    struct seen * s = looking;
    int p = port_of(sink->channel);
    assert_int_equal(n, 1);
    if (p < PORTS) {
        int i = s->n[p]++, fifo = emu_machine_clock(s->bench.machine)->fifo_in;
        int gap = i % ports[p].object ? 0 : emu_machine_clock(s->bench.machine)->bd_gap;
        uint64_t room = i >= fifo ? s->stored[p][i - fifo] + 1 : 0;
        uint64_t after = i ? s->word[p][i - 1] + 1 + (uint64_t) gap : 0, at = s->ready[p][i];
        at = at > room ? at : room;
        s->word[p][i] = at > after ? at : after;
        s->stored[p][i] = tick;
    }
    sink_take_unseen(sink, words, n, tick);
}

static void saw_bundle(void * user, const char * line) {
    struct seen * s = user;
    if (strstr(line, "acq ") || strstr(line, "rel ")) {
        assert_true(s->n_requests < REQUESTS);
        // The line is written behind the stall.
        s->request[s->n_requests++] =
            strtoull(line, NULL, 10) - emu_machine_clock(s->bench.machine)->lock_stall;
    }
}

static void saw_event(void * user, const struct emu_event * e) {
    if (e->kind == EMU_EVENT_CONTROL && strcmp(e->what, "write") == 0) {
        ((struct seen *) user)->queued = e->start;
    }
}

// ---- the design ----

// Two objects; bundles between requests as in the trace, each request with its stall cycle.
static void object(struct program * p, int turn) {
    ins(p, "ACQ_mLockId_imm", "ib", 48 + 1, R(0));
    nops(p, 12);
    ins(p, "ACQ_mLockId_imm", "ib", 48 + 2, R(0));
    for (int i = 0; i < CORE_OBJECT; i++) {
        ins(p, "LDA_dms_lda_idx_imm", "dpi", R(2 + i), P(turn), 4 * i);
    }
    for (int i = 0; i < CORE_OBJECT; i++) {
        ins(p, "ADD_add_r_ri", "dai", R(2 + i), R(2 + i), 1);
    }
    for (int i = 0; i < CORE_OBJECT; i++) {
        ins(p, "ST_dms_sts_idx_imm", "api", R(2 + i), P(2 + turn), 4 * i);
    }
    ins(p, "REL_mLockId_imm", "ib", 48 + 0, R(1));
    nops(p, 12);
    ins(p, "REL_mLockId_imm", "ib", 48 + 3, R(1));
}

static void add_one(struct program * p) {
    ins(p, "MOVX_alu_cg", "di", R(0), -1);
    ins(p, "MOVX_alu_cg", "di", R(1), 1);
    ins(p, "MOVX_alu_cg", "di", R(10), WORDS / CORE_OBJECT / 2);
    for (int i = 0; i < 4; i++) {
        ins(p, "MOVXM_lng_cg", "di", P(i),
            0x70000 + (i < 2 ? IN_BUFFER : OUT_BUFFER) + i % 2 * APART);
    }
    uint32_t again = here(p);
    object(p, 0);
    nops(p, 12);
    object(p, 1);
    ins(p, "ADD_add_r_ri", "dai", R(10), R(10), -1);
    nops(p, 12);
    ins(p, "JNZ", "ai", R(10), (int) again);
    nops(p, 5);
    ins(p, "DONE", "");
}

static struct bd_desc descriptor(uint32_t words, uint32_t address, int next, int take, int give) {
    return (struct bd_desc){.length = words,
                            .address = address,
                            .next = 1 + next,
                            .acquire = take,
                            .acquire_value = -1,
                            .release = give,
                            .release_value = 1};
}

static void design(struct bench * b) {
    struct words * cdo = &b->cdo;
    struct program p = {.n = 0};
    shim_ends(cdo, 0, true);
    circuit(cdo, 0, 0, SHIM_MM2S0, 12); // to North0
    circuit(cdo, 0, 1, 7, 0);           // South0 to DMA0
    circuit(cdo, 0, 1, 0, 11);          // DMA0 to North0
    circuit(cdo, 0, 2, 5, 1);           // South0 to DMA0
    circuit(cdo, 0, 2, 1, 5);           // DMA0 to South0
    circuit(cdo, 0, 1, 13, 1);          // North0 to DMA1
    circuit(cdo, 0, 1, 1, 7);           // DMA1 to South0
    circuit(cdo, 0, 0, 14, SHIM_S2MM0);
    for (int row = 1; row <= 2; row++) { // room, words; of the way in and of the way out
        for (int i = 0; i < 4; i++) {
            set_lock(cdo, 0, row, i, i % 2 ? 0 : 2);
        }
    }
    for (int i = 0; i < 2; i++) {
        int other = 1 - i;
        uint32_t at = 0x20000 + 0x100 * (uint32_t) i;
        struct bd_desc d = descriptor(MEM_OBJECT, at, other, 64, 65);
        mem_bd(cdo, 0, i, &d);
        d = descriptor(MEM_OBJECT, at, 2 + other, 65, 64);
        mem_bd(cdo, 0, 2 + i, &d);
        d = descriptor(MEM_OBJECT, at + 0x1000, 24 + other, 66, 67);
        mem_bd(cdo, 0, 24 + i, &d);
        d = descriptor(MEM_OBJECT, at + 0x1000, 26 + other, 67, 66);
        mem_bd(cdo, 0, 26 + i, &d);
        uint32_t in = (IN_BUFFER + (uint32_t) i * APART) / 4;
        uint32_t out = (OUT_BUFFER + (uint32_t) i * APART) / 4;
        d = descriptor(CORE_OBJECT, in, other, 0, 1);
        core_bd(cdo, 0, 2, i, &d);
        d = descriptor(CORE_OBJECT, out, 2 + other, 3, 2);
        core_bd(cdo, 0, 2, 2 + i, &d);
    }
    push_task(cdo, 0, 1, false, 0, 0);
    push_task(cdo, 0, 1, true, 0, 2);
    push_task(cdo, 0, 1, false, 1, 24);
    push_task(cdo, 0, 1, true, 1, 26);
    push_task(cdo, 0, 2, false, 0, 0);
    push_task(cdo, 0, 2, true, 0, 2);
    add_one(&p);
    load_core(cdo, 0, 2, &p);
    enable_core(cdo, 0, 2);
    struct shim_desc out = {.length = WORDS, .operand = OUT, .token = true};
    struct shim_desc in = {.length = WORDS, .operand = A};
    txn_transfer(&b->txn, 0, false, 0, 1, &out); // first, so that it is ready when words come
    txn_transfer(&b->txn, 0, true, 0, 0, &in);
    txn_sync(&b->txn, 0, false, 0);
}

// ---- the trace ----

struct traced {
    char tile[16], name[80];
    int64_t start, length;
    int64_t ours, ours_end; // its last cycle; both after the shift to the trace's clock
};

static int read_trace(struct traced * t) {
    static const char path[] = GOLDEN_DIR "/timing/aie2-addone-events.tsv";
    FILE * f = fopen(path, "r");
    if (!f) {
        skip_golden(path);
    }
    char line[256];
    int n = 0;
    while (fgets(line, sizeof line, f)) {
        long long start, length;
        assert_true(n < MAX_EVENTS);
        if (sscanf(line, "%15[^\t]\t%*d\t%79[^\t]\t%lld\t%lld", t[n].tile, t[n].name, &start,
                   &length) == 4) {
            t[n].start = start;
            t[n++].length = length;
        }
    }
    fclose(f);
    return n;
}

static int by_value(const void * a, const void * b) {
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;
    return (x > y) - (x < y);
}

// Finds each event of the trace in what was seen. The trace begins inside of the first acquire,
// which waits for the first object: of it there is only the stall.
static void find(const struct seen * s, struct traced * t, int n) {
    int words[PORTS] = {0}, requests = 1;
    for (int i = 0; i < n; i++) {
        int p = 0;
        while (p < PORTS && !strstr(t[i].name, ports[p].name)) {
            p++;
        }
        if (p < PORTS) {
            int last = words[p] + (int) t[i].length - 1;
            assert_true(last < s->n[p]);
            t[i].ours = (int64_t) s->word[p][words[p]];
            t[i].ours_end = (int64_t) s->word[p][last];
            words[p] = last + 1;
        } else if (strstr(t[i].name, "_REQ")) {
            assert_true(requests < s->n_requests);
            t[i].ours = t[i].ours_end = (int64_t) s->request[requests++];
        } else {
            assert_non_null(strstr(t[i].name, "LOCK_STALL"));
            // An uncontended stall is 3 cycles behind its request and one long. The end of the
            // first is known by the request behind it, 10 cycles later.
            t[i].ours = (int64_t) s->request[requests - 1] + 3;
            t[i].ours_end = i ? t[i].ours : (int64_t) s->request[1] - 11;
        }
    }
    int64_t off[MAX_EVENTS];
    for (int i = 0; i < n; i++) {
        off[i] = t[i].start + t[i].length - 1 - t[i].ours_end;
    }
    qsort(off, (size_t) n, sizeof off[0], by_value);
    for (int i = 0; i < n; i++) {
        t[i].ours += off[n / 2];
        t[i].ours_end += off[n / 2];
    }
    assert_int_equal(requests, s->n_requests);
    for (int p = 0; p < PORTS; p++) {
        assert_int_equal(words[p], WORDS);
    }
}

// Rows B17 to B21, which were read off the same trace by others.
static void check_interval(const char * id, const char * what, int64_t ours) {
    double silicon = row_value(id);
    print_message("%s: %s: %.0f, ours %lld\n", id, what, silicon, (long long) ours);
    assert_between(ours, silicon - 2, silicon + 2);
}

static void check_intervals(const struct seen * s) {
    enum { ACQUIRE_IN, ACQUIRE_OUT, RELEASE_IN, RELEASE_OUT, EACH };
    check_interval(
        "B17", "last word in to the end of the core's stall",
        (int64_t) (s->request[ACQUIRE_OUT] - 10 - s->word[CORE_IN][CORE_OBJECT - 1] - 1));
    for (int i = 0; i < WORDS / CORE_OBJECT; i++) {
        check_interval(
            "B18", "release to the first word out",
            (int64_t) (s->word[CORE_OUT][CORE_OBJECT * i] - s->request[EACH * i + RELEASE_OUT]));
    }
    // Two objects are in buffers and two in the FIFO when the first buffer is given back.
    for (int i = 0; i < WORDS / CORE_OBJECT - 4; i++) {
        check_interval("B19", "release to the next word in",
                       (int64_t) (s->word[CORE_IN][CORE_OBJECT * (4 + i)] -
                                  s->request[EACH * i + RELEASE_IN]));
    }
    check_interval("B20", "memtile, last word in to first word out",
                   (int64_t) (s->word[MEM_TO_CORE][0] - s->word[MEM_IN][MEM_OBJECT - 1] - 1));
    check_interval("B21", "memtile's port to the core tile's",
                   (int64_t) (s->word[CORE_IN][0] - s->word[MEM_TO_CORE][0]));
}

static void add_one_trace(void ** state) {
    (void) state;
    static struct traced events[MAX_EVENTS];
    int n = read_trace(events);
    assert_int_equal(n, 96);
    struct seen * s = calloc(1, sizeof *s);
    struct emu_clock clock;
    struct emu_config config = bench_config(&s->bench);
    struct error err;
    assert_int_equal(emu_clock_parse("phoenix", &clock, &err), ST_OK);
    config.clock = &clock;
    config.single_cycles = true;
    config.trace = saw_bundle;
    config.event = saw_event;
    config.trace_col = 0;
    config.trace_row = 2;
    assert_true(bench_open(&s->bench, &config));
    looking = s;
    design(&s->bench);
    run_ok(&s->bench);
    for (uint32_t i = 0; i < WORDS; i++) {
        assert_int_equal(s->bench.host[OUT][i], pattern(A, i) + 1);
    }
    find(s, events, n);
    print_message("%-10s %-52s %8s %6s %8s %6s\n", "tile", "event", "trace", "length", "ours",
                  "off");
    int within = 0, worst = 0;
    for (int i = 0; i < n; i++) {
        const struct traced * t = &events[i];
        int first = (int) (t->ours - t->start),
            last = (int) (t->ours_end - t->start - t->length + 1);
        first = i ? first : last; // the trace begins inside of the first event
        print_message("%-10s %-52s %8lld %6lld %8lld %+3d%+3d\n", t->tile, t->name,
                      (long long) t->start, (long long) t->length, (long long) t->ours, first,
                      last);
        int off = abs(first) > abs(last) ? abs(first) : abs(last);
        within += off <= 2;
        worst = off > worst ? off : worst;
    }
    print_message("%d of %d events within 2 cycles, worst %d\n", within, n, worst);
    assert_int_equal(within, n);
    check_intervals(s);
    print_message("D92: queue to 16 words in the memtile: %.0f, ours %d; reported\n",
                  row_value("D92"), (int) (s->word[MEM_IN][MEM_OBJECT - 1] - s->queued));
    bench_close(&s->bench);
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(add_one_trace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

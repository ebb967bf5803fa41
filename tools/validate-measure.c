// validate-measure: what a controller, a shim, host memory, a core and a dispatch take. Each price
// is the difference of two times by HSA's clock, of streams or programs that differ in one thing,
// so that what both have in common need not be known. Cycles are times by the clock that a loop of
// a known number of bundles was found to run at.
#include "validate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CORE_ROW = ARRAY_ROW_CORE };

struct bench {
    struct validate * v;
    struct lab * l;
    struct step * step;
    struct lab_pdi pipe, cell;
    double mhz;
    struct error err; // the first one ends it all
};

static bool fine(const struct bench * b) {
    return b->err.status == ST_OK && !validate_interrupted();
}

static double cycles(const struct bench * b, double ns) {
    return ns * b->mhz / 1000;
}

// The time of a stream on the pipe, n times in one go.
static double took(struct bench * b, struct txn * t, int n) {
    double ns = 0;
    if (fine(b)) {
        lab_run(b->l, &b->pipe, t, n, &ns, &b->err);
    } else {
        buf_free(&t->words);
    }
    return ns;
}

static void tell(struct bench * b, const char * name, const char * key, const char * unit,
                 double value, const char * depends) {
    if (fine(b)) {
        validate_figure(b->v, name, key, unit, value, depends);
    }
    if (fine(b) && value < -1) { // a cycle or a nanosecond is what a clock is worth
        validate_bad(b->step,
                     "%s came out as %g %s: times vary by more than it takes; is the "
                     "machine busy?",
                     name, value, unit);
    }
}

// ---- the clock, banks and locks: programs of a core ----

typedef void (*body_fn)(struct code * c, int argument);

// The time of one trip around `body`, by one program with n trips and one with twice as many.
static double trip_ns(struct bench * b, body_fn body, int argument, int32_t trips, int * bundles) {
    double ns[2] = {0};
    for (int i = 0; i < 2 && fine(b); i++) {
        struct code c;
        struct txn t;
        code_begin(&c, b->l);
        code_set(&c, AIE_REG(AIE_R, 4), -1);
        code_set(&c, AIE_REG(AIE_R, 5), 1);
        code_set(&c, AIE_REG(AIE_P, 0), (int32_t) b->l->target->own_window + 0x400);
        code_set(&c, AIE_REG(AIE_P, 1), (int32_t) b->l->target->own_window + 0x400 + argument);
        code_nops(&c, 4);
        uint32_t start = code_loop(&c, trips * (i + 1));
        body(&c, argument);
        *bundles = code_loop_end(&c, start);
        code_finish(&c);
        if (c.err.status != ST_OK) {
            b->err = c.err;
            return 0;
        }
        lab_begin(b->l, &t);
        design_program(b->l, &t, 0, FIRST_CORE_ROW, &c, 16);
        lab_run(b->l, &b->cell, &t, 1, &ns[i], &b->err);
    }
    return (ns[1] - ns[0]) / trips;
}

static void nothing(struct code * c, int argument) {
    (void) c;
    (void) argument;
}

enum { MEETINGS = 8 };

// Bundles that load a word and store one, so far apart.
static void meet(struct code * c, int argument) {
    const struct aie_isa * isa = aie_isa_get(c->l->arch);
    int load = aie_isa_find(isa, "LDA_dms_lda_idx_imm");
    int store = aie_isa_find(isa, "ST_dms_sts_idx_imm");
    (void) argument;
    for (int i = 0; i < MEETINGS; i++) {
        code_put(c, load, (const int32_t[]){AIE_REG(AIE_R, 2), AIE_REG(AIE_P, 0), 0}, 3);
        code_put(c, store, (const int32_t[]){AIE_REG(AIE_R, 3), AIE_REG(AIE_P, 1), 0}, 3);
        code_end(c);
    }
}

static void locks(struct code * c, int argument) {
    (void) argument;
    code_lock(c, false, 2, AIE_REG(AIE_R, 5));
    code_lock(c, true, 2, AIE_REG(AIE_R, 4));
}

static void measure_core(struct bench * b) {
    int bundles = 0;
    double ns = trip_ns(b, nothing, 0, 20000, &bundles);
    b->mhz = ns > 0 ? bundles * 1000.0 / ns : 0;
    tell(b, "array clock", "mhz", "MHz", round(b->mhz), "everything that is computed");
    if (fine(b) && b->mhz <= 0) {
        error_set(&b->err, ST_DEVICE, "a loop of %d bundles takes no time by HSA's clock", bundles);
    }
    // Stalls of a meeting, by the distance of the two. The bank's bit is the least one that tells
    // them apart.
    double stall[4] = {0};
    static const int apart[4] = {0, 16, 32, 64};
    int bit = 0;
    for (int i = 0; i < 4 && fine(b); i++) {
        ns = trip_ns(b, meet, apart[i], 4000, &bundles);
        stall[i] = (cycles(b, ns) - bundles) / MEETINGS;
        bit = i && !bit && stall[i] < 0.5 && stall[0] > 0.5 ? 3 + i : bit;
    }
    tell(b, "two accesses in one bank", NULL, "cycles lost", stall[0], "products, attention");
    tell(b, "bit that chooses a bank's half", "bank_bit", "", bit, "where buffers are put");
    ns = trip_ns(b, locks, 0, 4000, &bundles);
    tell(b, "lock taken or given back", "lock_stall", "cycles", (cycles(b, ns) - bundles) / 2,
         "short kernels");
}

// ---- the controller ----

typedef void (*ops_fn)(struct txn * t, int n);

static void blocks_of_2(struct txn * t, int n) {
    design_blocks(t, n, 2);
}

static void blocks_of_8(struct txn * t, int n) {
    design_blocks(t, n, 8);
}

static double op_cycles(struct bench * b, ops_fn ops) {
    enum { N = 200 };
    double ns[2];
    for (int i = 0; i < 2; i++) {
        struct txn t;
        lab_begin(b->l, &t);
        ops(&t, N * (i + 1));
        ns[i] = took(b, &t, 1);
    }
    return cycles(b, ns[1] - ns[0]) / N;
}

static void measure_controller(struct bench * b) {
    const char * who = "short kernels, streams of many operations";
    double two = op_cycles(b, blocks_of_2), eight = op_cycles(b, blocks_of_8);
    double word = (eight - two) / 6;
    tell(b, "controller: a write", "txn_write", "cycles", op_cycles(b, design_writes), who);
    tell(b, "controller: a masked write", "txn_mask", "cycles", op_cycles(b, design_masks), who);
    tell(b, "controller: a block of words", "txn_block", "cycles", two - 2 * word, who);
    tell(b, "controller: a word of a block", "txn_block_word", "cycles", word, who);
    tell(b, "controller: an address", "txn_patch", "cycles", op_cycles(b, design_patches), who);
}

// ---- tokens and the start of a task ----

// Tasks wait in the queue of a channel for a lock of the shim's, so that when they begin is known
// to the cycle: with the write that opens it.
enum {
    TASKS = 4,
    WORDS = 16,
    PADS = 60,
    OFTEN = 16, // in one go: a nanosecond is two cycles
    // From an open lock to the first word, as traces of both chips have it; less than a hundredth
    // of what is measured with it.
    AHEAD_WRITING = 9,
    AHEAD_READING = 13,
};

struct gated {
    bool reads;
    int tokens;     // bit for each task
    int pads;       // writes before the lock opens
    int pads_after; // and behind
    bool free;      // tasks do not wait for the lock
    int tasks;
    uint32_t behind; // words of a task on the other channel, for which is waited first,
    int repeat;      // and how often it runs
};

static double gated(struct bench * b, const struct gated * g) {
    struct txn t;
    lab_begin(b->l, &t);
    if (g->behind) {
        const struct task k = {.channel = 1,
                               .bd = 8,
                               .reads = g->reads,
                               .words = g->behind,
                               .repeat = g->repeat,
                               .offset = 1 << 15,
                               .token = true,
                               .lock = -1};
        design_task(b->l, &t, &k);
    }
    design_gate(&t, 0, 0, 0);
    for (int i = 0; i < g->tasks; i++) {
        const struct task k = {.bd = i,
                               .reads = g->reads,
                               .words = WORDS,
                               .offset = 4096 * (uint32_t) i,
                               .token = g->tokens >> i & 1,
                               .lock = g->free ? -1 : 0};
        design_task(b->l, &t, &k);
    }
    design_writes(&t, g->pads);
    design_gate(&t, 0, 0, g->free ? 0 : g->tasks);
    design_writes(&t, g->pads_after);
    if (g->behind) {
        design_sync(&t, 0, g->reads, 1);
    }
    for (int i = 0; i < g->tasks; i++) {
        if (g->tokens >> i & 1) {
            design_sync(&t, 0, g->reads, 0);
        }
    }
    return cycles(b, took(b, &t, OFTEN)) / OFTEN;
}

// Three tokens that come while something else is waited for cost their syncs alone.
static double sync_cycles(struct bench * b) {
    struct gated g = {.tasks = 3, .behind = 4096, .repeat = 16};
    double without = gated(b, &g);
    g.tokens = 7;
    return (gated(b, &g) - without) / 3;
}

// Three that come while the controller writes hold it up, and are waited for afterwards.
static double hold_cycles(struct bench * b, double sync) {
    struct gated g = {.tasks = 3, .pads_after = 400};
    double without = gated(b, &g);
    g.tokens = 7;
    return (gated(b, &g) - without) / 3 - sync;
}

// The write that opens the lock takes its time while the task is under way.
static double token_cycles(struct bench * b, double write, double sync, double word) {
    struct gated g = {.tasks = 1, .pads = PADS};
    double without = gated(b, &g);
    g.tokens = 1;
    return gated(b, &g) - without + write - sync - AHEAD_WRITING - WORDS * word;
}

// The first task of a channel starts up while the lock is closed; the next ones behind the one
// before them. start[i] is what task i takes before its words.
static void start_ups(struct bench * b, bool reads, double write, double word,
                      double start[TASKS]) {
    double ends[TASKS];
    for (int i = 0; i < TASKS; i++) {
        const struct gated g = {.tasks = TASKS, .reads = reads, .pads = PADS, .tokens = 1 << i};
        ends[i] = gated(b, &g);
        start[i] = i ? ends[i] - ends[i - 1] - (WORDS - 1) * word : 0;
    }
    struct gated one = {.tasks = 1, .reads = reads, .pads = PADS, .tokens = 1};
    double waited = gated(b, &one);
    one.free = true;
    one.pads = 0;
    double at_once = gated(b, &one);
    // Where nothing waits, the gate's write and the sync are over before the task is.
    start[0] = waited - at_once;
    start[0] = (PADS + 1) * write + (reads ? AHEAD_READING : AHEAD_WRITING) - start[0];
}

static void measure_tokens(struct bench * b, double write, const double word[2]) {
    double sync = sync_cycles(b);
    tell(b, "controller: a sync", "txn_sync", "cycles", sync, "kernels that wait often");
    tell(b, "controller: held up by a token", "txn_token", "cycles", hold_cycles(b, sync),
         "streams with many tokens");
    tell(b, "token, from a task's end to its sync", "token", "cycles",
         token_cycles(b, write, sync, word[0]), "every kernel");
    for (int reads = 0; reads < 2; reads++) {
        double s[TASKS];
        start_ups(b, reads, write, word[reads], s);
        double decay = s[0] > s[1] ? (s[1] - s[2]) / (s[0] - s[1]) : 0;
        decay = decay > 0.02 && decay < 1 ? decay : 0;
        double cold = (s[0] - s[1]) / (1 - decay), steady = s[0] - cold;
        const char * who = "kernels of many short transfers";
        tell(b, reads ? "shim, reading: start of the first task" : "shim, writing: the first task",
             reads ? "mm2s_cold" : "s2mm_cold", "cycles", cold, who);
        tell(b, reads ? "shim, reading: start of any task" : "shim, writing: start of any task",
             reads ? "mm2s_steady" : "s2mm_steady", "cycles", steady, who);
        tell(b, reads ? "shim, reading: what is left of it" : "shim, writing: what is left of it",
             reads ? "mm2s_decay" : "s2mm_decay", "of 1000", 1000 * decay, who);
    }
}

// ---- streams and host memory ----

enum { AREA = 1 << 20 };

struct move {
    int columns, channels;
    uint32_t run;
    int apart; // writes between the starts of two channels; 0: they start when they are queued
};

// ns for so many words on each channel, written and read.
static double moved(struct bench * b, const struct move * m, const uint32_t words[2]) {
    enum { QUEUE, START, SYNC, PASSES };
    int columns = m->columns, channels = m->channels;
    struct txn t;
    double ns;
    size_t before = b->l->touched;
    lab_begin(b->l, &t);
    for (int pass = 0; pass < PASSES; pass++) {
        if (pass == START && m->apart) {
            design_writes(&t, PADS);
        }
        for (int i = 0; i < columns * channels * 2; i++) {
            struct task k = {.col = i / 2 / channels,
                             .channel = i / 2 % channels,
                             .reads = i % 2,
                             .words = words[i % 2],
                             .run = m->run,
                             .token = true,
                             .lock = m->apart ? i % 4 : -1};
            k.bd = 2 * k.channel + k.reads;
            k.offset = (uint32_t) (i / 2) * AREA;
            if (k.words == 0) {
                continue;
            }
            if (pass == QUEUE) {
                design_task(b->l, &t, &k);
            } else if (pass == START && m->apart) {
                design_gate(&t, k.col, k.lock, 1);
                design_writes(&t, m->apart - 1);
            } else if (pass == SYNC) {
                design_sync(&t, k.col, k.reads, k.channel);
            }
        }
    }
    b->l->touched = (size_t) (columns * channels) * AREA;
    ns = took(b, &t, 1);
    b->l->touched = before;
    return ns;
}

static double inverse(double x) {
    return x > 0 ? 1 / x : 0;
}

// GB/s beyond what the start takes: twice as many words against so many.
static double rate_of(struct bench * b, const struct move * m, bool writes, bool reads) {
    enum { MANY = AREA / 4 / 8 };
    const uint32_t n[2] = {writes * MANY, reads * MANY}, twice[2] = {2 * n[0], 2 * n[1]};
    double first = moved(b, m, n), ns = moved(b, m, twice) - first;
    return 4.0 * MANY * m->columns * m->channels * (writes + reads) * inverse(ns);
}

static double rate(struct bench * b, int columns, int channels, bool reads, uint32_t run) {
    const struct move m = {.columns = columns, .channels = channels, .run = run};
    return rate_of(b, &m, !reads, reads);
}

// How much goes both ways together depends on how reads and writes take turns, and that on when the
// channels start: what memory can do is the most of several starts.
static double most_both_ways(struct bench * b) {
    double most = 0;
    for (int columns = 1; columns <= 4 && columns <= b->l->columns; columns *= 2) {
        for (int apart = 1; apart <= 3; apart++) {
            const struct move m = {.columns = columns, .channels = 2, .apart = apart};
            double r = rate_of(b, &m, true, true);
            most = r > most ? r : most;
        }
    }
    return most;
}

static void measure_streams(struct bench * b, double word[2]) {
    for (int reads = 0; reads < 2; reads++) {
        double r = rate(b, 1, 1, reads, 0);         // GB/s
        word[reads] = r > 0 ? cycles(b, 4 / r) : 0; // cycles for 4 bytes
    }
    double burst = 128; // words that a channel asks for at once [D]
    tell(b, "words that a stream carries in a cycle", "stream_words", "", 1 / word[0],
         "all kernels");
    tell(b, "gap between two bursts of a reader", "burst_gap", "cycles",
         burst * (word[1] - word[0]), "kernels that read through few channels");
}

static void measure_memory(struct bench * b) {
    enum { WRITTEN, READ, BOTH };
    static const struct {
        const char *name, *key;
    } rows[] = {[WRITTEN] = {"host memory, written", "ddr_write"},
                [READ] = {"host memory, read", "ddr_read"},
                [BOTH] = {"host memory, both ways", "ddr_both"}};
    static char names[3][VALIDATE_COLUMNS + 1][48];
    const char * who = "products by few rows: the tokens a second of a model";
    double all = 0;
    for (int columns = 1; columns <= b->l->columns; columns *= 2) {
        double r[3];
        r[WRITTEN] = rate(b, columns, 2, false, 0);
        r[READ] = rate(b, columns, 2, true, 0);
        r[BOTH] = rate_of(b, &(struct move){.columns = columns, .channels = 2}, true, true);
        for (int i = 0; i < 3; i++) {
            char * name = names[i][columns];
            snprintf(name, sizeof names[0][0], "%s by %d column%s", rows[i].name, columns,
                     columns > 1 ? "s" : "");
            tell(b, name, NULL, "GB/s", r[i], who);
            if (2 * columns > b->l->columns) {
                double most = i == BOTH ? most_both_ways(b) : 0;
                tell(b, rows[i].name, rows[i].key, "bytes in 1000 cycles",
                     (most > r[i] ? most : r[i]) * 1e6 / b->mhz, who);
            }
        }
        all = r[READ];
    }
    enum { RUN = 16 };
    double shorter = rate(b, b->l->columns, 2, true, RUN);
    tell(b, "bytes that a run costs at least", "run_bytes", "bytes",
         shorter > 0 ? 4 * RUN * all / shorter : 0, "quantized weights, strided tensors");
}

// ---- dispatches and PDIs ----

static double idle_ns(struct bench * b, const struct lab_pdi * const * pdis, int n_pdis, int n) {
    struct txn t;
    double ns = 0;
    lab_begin(b->l, &t);
    design_writes(&t, 1);
    if (fine(b)) {
        lab_turns(b->l, pdis, n_pdis, &t, n, &ns, &b->err);
    } else {
        buf_free(&t.words);
    }
    return ns;
}

// What loading the PDI takes that design_padded makes: two copies of it take turns.
static double pdi_ns(struct bench * b, int commands, int words, double dispatch,
                     double * n_commands, double * n_words) {
    enum { TURNS = 8 };
    struct lab_pdi p[2] = {{0}};
    const struct lab_pdi * both[2] = {&p[0], &p[1]};
    double ns[2] = {0};
    for (int i = 0; i < 2 && fine(b); i++) {
        uint8_t * pdi = NULL;
        size_t size = 0;
        if (design_padded(b->l, commands, words, &pdi, &size, &b->err) == ST_OK) {
            lab_place(b->l, pdi, size, &p[i], &b->err);
        }
    }
    ns[0] = idle_ns(b, both, 2, TURNS);
    ns[1] = idle_ns(b, both, 2, 2 * TURNS);
    *n_commands = (double) p[0].commands;
    *n_words = (double) p[0].words;
    for (int i = 0; i < 2; i++) {
        lab_unplace(b->l, &p[i]);
    }
    return (ns[1] - ns[0]) / TURNS - dispatch;
}

static void measure_dispatch(struct bench * b, double first_ns, double write) {
    enum { CHAIN = 16 };
    const struct lab_pdi * pipe = &b->pipe;
    double one = idle_ns(b, &pipe, 1, 1), some = idle_ns(b, &pipe, 1, CHAIN),
           more = idle_ns(b, &pipe, 1, 2 * CHAIN);
    double each = (more - some) / CHAIN, op = write * 1000 / b->mhz;
    tell(b, "empty dispatch, alone", NULL, "us", one / 1000, "every graph");
    tell(b, "empty dispatch, in a chain", NULL, "us", each / 1000, "every kernel");
    tell(b, "a dispatch", "dispatch_ns", "ns", each - op, "every kernel");
    tell(b, "a submission", "submit_ns", "ns", one - each, "every graph");
    double c[3], w[3], ns[3];
    ns[0] = pdi_ns(b, 0, 0, each, &c[0], &w[0]);
    ns[1] = pdi_ns(b, 1000, 0, each, &c[1], &w[1]);
    ns[2] = pdi_ns(b, 0, 1 << 17, each, &c[2], &w[2]);
    if (!fine(b)) {
        return;
    }
    // ns = base + command * c + word * w, three times.
    double dc1 = c[1] - c[0], dw1 = w[1] - w[0], dc2 = c[2] - c[0], dw2 = w[2] - w[0];
    double det = dc1 * dw2 - dc2 * dw1;
    double command = ((ns[1] - ns[0]) * dw2 - (ns[2] - ns[0]) * dw1) / det;
    double word = ((ns[2] - ns[0]) * dc1 - (ns[1] - ns[0]) * dc2) / det;
    double base = ns[0] - command * c[0] - word * w[0];
    const char * who = "graphs whose kernels run on several PDIs";
    static char name[64];
    snprintf(name, sizeof name, "PDI of %.0f commands and %.0f words", c[0], w[0]);
    tell(b, name, NULL, "us", ns[0] / 1000, who);
    tell(b, "PDI load, whatever is in it", "pdi_ns", "ns", base, who);
    tell(b, "PDI load, a command", "pdi_command_ns", "ns", command, who);
    tell(b, "PDI load, a word", "pdi_word_ns", "ns", word, who);
    double load = base + command * (double) b->pipe.commands + word * (double) b->pipe.words;
    if (first_ns > 0) {
        tell(b, "a hardware context", "context_ns", "ns", first_ns - one - load,
             "a program's start");
    } else {
        validate_say(b->step, "a hardware context was not measured: no second process could be "
                              "started");
    }
}

// Lines of the CPU's caches, by the CPU: what is clean costs as much as what is not.
static void measure_flush(struct bench * b) {
    enum { BYTES = 8 * 1000 * 1000 };
    uint8_t * at = fine(b) ? hsac_alloc(b->l->agent, HSAC_POOL_DATA, BYTES) : NULL;
    if (!at) {
        return;
    }
    uint64_t start = hsac_time_ns(b->l->h);
    hsac_host_end(b->l->agent, at, BYTES);
    double ns = (double) (hsac_time_ns(b->l->h) - start);
    tell(b, "10^6 bytes of the CPU's caches, flushed", "flush_mb_ns", "ns", ns * 1e6 / BYTES,
         "uploads, and what a program reads back");
    hsac_free(b->l->agent, at);
}

// ---- all of it ----

static void open_designs(struct bench * b) {
    uint8_t * pdi = NULL;
    size_t size = 0;
    if (design_pipe(b->l, &pdi, &size, &b->err) == ST_OK) {
        lab_place(b->l, pdi, size, &b->pipe, &b->err);
    }
    if (fine(b) && design_cells(b->l, FIRST_CORE_ROW, &pdi, &size, &b->err) == ST_OK) {
        lab_place(b->l, pdi, size, &b->cell, &b->err);
    }
}

// In a process of its own, whose first dispatch it is: what that takes, in ns, on standard output.
int part_context(struct validate * v) {
    struct bench b = {.v = v, .l = &v->lab};
    double ns = 0;
    struct txn t;
    open_designs(&b);
    lab_begin(b.l, &t);
    design_writes(&t, 1);
    if (fine(&b) && lab_cold(b.l, &b.pipe, &t, &ns, &b.err) == ST_OK) {
        printf("%.0f\n", ns);
    } else {
        fprintf(stderr, "%s\n", b.err.text);
    }
    lab_unplace(b.l, &b.pipe);
    lab_unplace(b.l, &b.cell);
    return b.err.status == ST_OK ? EXIT_OK : EXIT_BAD_INPUT;
}

void step_measure(struct validate * v) {
    struct step * s = validate_step(v, "prices");
    struct bench b = {.v = v, .l = &v->lab, .step = s};
    struct buf said = {0};
    double word[2] = {1, 1};
    int before = v->n_figures;
    double first = validate_child(v, "@context", &said) == EXIT_OK && said.data
                       ? strtod((const char *) said.data, NULL)
                       : 0;
    buf_free(&said);
    open_designs(&b);
    measure_core(&b);
    measure_controller(&b);
    const struct figure * f = validate_find(v, "txn_write");
    double write = f ? f->measured : 0;
    measure_streams(&b, word);
    measure_tokens(&b, write, word);
    measure_memory(&b);
    measure_dispatch(&b, first, write);
    measure_flush(&b);
    lab_unplace(b.l, &b.pipe);
    lab_unplace(b.l, &b.cell);
    if (b.err.status != ST_OK) {
        validate_bad(s, "%s", b.err.text);
    }
    snprintf(s->detail, sizeof s->detail, "%d figures by HSA's clock%s", v->n_figures - before,
             v->emulated ? ", which is the model's here" : "");
    validate_done(v, s);
}

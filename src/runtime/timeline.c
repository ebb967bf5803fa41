// timeline: GGML_HSA_TRACE=file.json, what the tiles of emulated NPUs did over modelled time, in
// the format that Perfetto and chrome://tracing read. The machine reports what is over
// (emu_config.event); its clock stands still while the host hands a batch over and while a PDI is
// loaded, and the timeline does not: what a dispatch told is kept until its account says how long
// these took, and then written behind them.
//
// A dispatch has the name that the program gave it (hsa_emu_name), and what tiles did for it says
// so too. Where a PDI was loaded there is a mark across all of its agent.
//
// The file appears under its name when the runtime ends, whole, or not at all (base/out.h); it
// holds at most MAX_EVENTS. A file that cannot be written is one message, and the program goes on
// without it. It is the process's that began it: a forked child leaves it alone.
#include "timeline.h"

#include "base/out.h"
#include "base/quiet.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef EMU_TIMELINE_EVENTS
#    define EMU_TIMELINE_EVENTS 400000 // some 50 MB; Perfetto still opens it at once
#endif

enum {
    MAX_EVENTS = EMU_TIMELINE_EVENTS,
    // Threads of an agent's process.
    TID_HOST = 1,
    TID_DISPATCH,
    TID_CONTROL,
    TID_TILES = 64, // + 64 for each tile, its core first, then S2MM and MM2S channels
    TIDS = TID_TILES + 64 * 8 * 8,
};

struct stretch { // of the machine's clock: from this cycle on it lies so much further on the
                 // timeline
    uint64_t from, offset;
};

struct track {                 // one agent
    struct emu_event * events; // of the dispatch at hand
    size_t n, capacity;
    struct stretch * stretches;
    size_t n_stretches, stretches_capacity;
    struct emu_account account; // until the last dispatch
    uint64_t ended;             // the last dispatch, on the timeline
    uint64_t end;               // all that is written: the array goes on behind a dispatch
    bool named;
    const char * name; // of the dispatch at hand, or NULL; its first line
    size_t name_size;
    bool told[TIDS];
    size_t last[TIDS]; // of the events at hand, + 1
};

struct rt_timeline {
    pthread_mutex_t lock;
    struct out out;
    char * path;
    pid_t process;
    size_t n_events, left_out;
    bool first; // nothing is written yet
    bool over;  // nothing will be any more; atomic
    struct emu_clock clock;
    struct track tracks[RT_MAX_AGENTS];
};

// ---- the file ----

static void drop_file(struct rt_timeline * t, const char * why) {
    rt_say("GGML_HSA_TRACE=%s: %s; no trace is written", t->path, why);
    out_drop(&t->out);
    __atomic_store_n(&t->over, true, __ATOMIC_RELAXED);
}

struct rt_timeline * rt_timeline_new(void) {
    const char * path = secure_getenv("GGML_HSA_TRACE");
    if (!path || !*path) {
        return NULL;
    }
    struct rt_timeline * t = calloc(1, sizeof *t);
    char * name = strdup(path);
    struct error err;
    if (!t || !name || pthread_mutex_init(&t->lock, NULL)) {
        rt_say("GGML_HSA_TRACE=%s: no memory; no trace is written", path);
        free(t);
        free(name);
        return NULL;
    }
    t->path = name;
    t->process = getpid();
    t->first = true;
    if (out_begin(path, &t->out, &err) != ST_OK) {
        rt_say("GGML_HSA_TRACE=%s; no trace is written", err.text);
        t->over = true;
    } else {
        fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", t->out.file);
    }
    return t;
}

void rt_timeline_end(struct rt_timeline * t) {
    if (!t || t->process != getpid()) {
        return;
    }
    struct quiet quiet; // a limit on the size of files ends the trace, not the program
    pthread_mutex_lock(&t->lock);
    quiet_begin(&quiet);
    if (t->out.file) {
        fprintf(t->out.file, "\n],\"otherData\":{\"time\":\"modelled\",\"clock\":\"%s\",\"mhz\":%u",
                t->clock.name ? t->clock.name : "", t->clock.mhz);
        if (t->left_out) {
            fprintf(t->out.file, ",\"note\":\"stopped after %d events, %zu were left out\"",
                    MAX_EVENTS, t->left_out);
        }
        fputs("}}\n", t->out.file);
        struct error err;
        if (out_end(&t->out, &err) != ST_OK) {
            drop_file(t, err.text);
        }
    }
    quiet_end(&quiet);
    __atomic_store_n(&t->over, true, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&t->lock);
}

void rt_timeline_free(struct rt_timeline * t) {
    if (!t || t->process != getpid()) {
        return;
    }
    rt_timeline_end(t);
    for (int i = 0; i < RT_MAX_AGENTS; i++) {
        free(t->tracks[i].events);
        free(t->tracks[i].stretches);
    }
    pthread_mutex_destroy(&t->lock);
    free(t->path);
    free(t);
}

// Begins an event; the caller writes the rest of its object.
static bool begin_event(struct rt_timeline * t) {
    if (t->n_events == MAX_EVENTS) {
        t->left_out++;
        return false;
    }
    t->n_events++;
    fputs(t->first ? "\n" : ",\n", t->out.file);
    t->first = false;
    return true;
}

static void put_name(struct rt_timeline * t, int pid, int tid, const char * what,
                     const char * text) {
    fprintf(t->out.file,
            "%s\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":\"%s\"}}",
            t->first ? "" : ",", pid, tid, what, text);
    t->first = false;
    if (tid) {
        fprintf(t->out.file,
                ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_sort_index\",\"args\":"
                "{\"sort_index\":%d}}",
                pid, tid, tid);
    }
}

// ---- events ----

static int tid_of(const struct emu_event * e, char name[64]) {
    static const char * const rows[] = {"shim", "mem", "core"};
    if (e->kind == EMU_EVENT_DISPATCH) {
        strcpy(name, "dispatch");
        return TID_DISPATCH;
    }
    if (e->col < 0 || e->col > 7 || e->row < 0 || e->row > 7) {
        strcpy(name, "instruction stream");
        return TID_CONTROL;
    }
    int channel = e->kind == EMU_EVENT_DMA || e->kind == EMU_EVENT_DMA_WAIT ? e->channel : -1;
    int at = snprintf(name, 64, "%s (%d,%d)", rows[e->row < 2 ? e->row : 2], e->col, e->row);
    if (channel >= 0) {
        snprintf(name + at, 64 - (size_t) at, " %s%d", channel < 16 ? "S2MM" : "MM2S",
                 channel % 16);
    }
    // Tiles of a column stand together, the shim first.
    return TID_TILES + 64 * (8 * e->col + e->row) + (channel < 0 ? 0 : 1 + channel % 32);
}

static uint64_t place(const struct track * k, uint64_t cycle) {
    for (size_t i = k->n_stretches; i-- > 0;) {
        if (cycle >= k->stretches[i].from) {
            return cycle + k->stretches[i].offset;
        }
    }
    return cycle;
}

// Whole nanoseconds, so that what touches does not overlap by rounding.
static uint64_t nanoseconds(uint64_t cycles, uint32_t mhz) {
    return cycles * 1000 / mhz;
}

// Tensors are named by others: what JSON does not take as it is becomes '?'.
static void put_text(struct rt_timeline * t, const char * text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        bool plain = (text[i] >= ' ' && text[i] < 0x7f && text[i] != '"' && text[i] != '\\');
        putc(plain ? text[i] : text[i] == '\n' ? ' ' : '?', t->out.file);
    }
}

// Leaves the event's args open.
static bool put_slice(struct rt_timeline * t, int pid, int tid, const char * what, size_t size,
                      uint64_t from, uint64_t to, uint32_t mhz) {
    uint64_t ns = nanoseconds(from, mhz), long_ns = nanoseconds(to, mhz) - ns;
    if (to <= from || !begin_event(t)) {
        return false;
    }
    fprintf(t->out.file, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"name\":\"", pid, tid);
    put_text(t, what, size);
    fprintf(t->out.file,
            "\",\"ts\":%" PRIu64 ".%03" PRIu64 ",\"dur\":%" PRIu64 ".%03" PRIu64
            "%s,\"args\":{\"cycles\":%" PRIu64,
            ns / 1000, ns % 1000, long_ns / 1000, long_ns % 1000,
            tid == TID_DISPATCH ? ",\"cat\":\"dispatch\"" : "", to - from);
    return true;
}

static void put_arg(struct rt_timeline * t, const char * key, const char * text, size_t size) {
    if (text && size) {
        fprintf(t->out.file, ",\"%s\":\"", key);
        put_text(t, text, size);
        putc('"', t->out.file);
    }
}

static void put_event(struct rt_timeline * t, int pid, struct track * k, const struct emu_event * e,
                      uint32_t mhz) {
    char name[64], what[64];
    int tid = tid_of(e, name);
    uint64_t from = place(k, e->start), to = place(k, e->end);
    k->end = to > k->end ? to : k->end;
    if (e->kind == EMU_EVENT_LOCK) { // a counter has a name and no thread
        uint64_t ns = nanoseconds(to, mhz);
        if (begin_event(t)) {
            fprintf(t->out.file,
                    "{\"ph\":\"C\",\"pid\":%d,\"tid\":0,\"name\":\"%s lock %d\",\"ts\":%" PRIu64
                    ".%03" PRIu64 ",\"args\":{\"value\":%" PRId64 "}}",
                    pid, name, e->channel, ns / 1000, ns % 1000, (int64_t) e->words);
        }
        return;
    }
    if (!k->told[tid]) {
        k->told[tid] = true;
        put_name(t, pid, tid, "thread_name", name);
    }
    bool waits = e->kind == EMU_EVENT_WAIT || e->kind == EMU_EVENT_DMA_WAIT;
    snprintf(what, sizeof what, "%s%s", waits ? "waits: " : "", e->what ? e->what : "");
    bool whole = tid == TID_DISPATCH && k->name;
    if (!put_slice(t, pid, tid, whole ? k->name : what, whole ? k->name_size : strlen(what), from,
                   to, mhz)) {
        return;
    }
    if (e->words) {
        fprintf(t->out.file, ",\"words\":%" PRIu64, e->words);
    }
    if (whole) {
        const char * more = k->name + k->name_size; // the line end, or the end
        put_arg(t, "kernels", *more ? more + 1 : NULL, *more ? strlen(more + 1) : 0);
    } else {
        put_arg(t, "of", k->name, k->name_size);
    }
    fputs("}}", t->out.file);
}

void rt_timeline_event(void * user, const struct emu_event * e) {
    struct rt_agent * agent = user;
    struct rt_timeline * t = agent->rt->timeline;
    struct track * k = &t->tracks[agent->node];
    if (__atomic_load_n(&t->over, __ATOMIC_RELAXED)) {
        return;
    }
    char name[64];
    size_t * last = &k->last[tid_of(e, name)];
    struct emu_event * before = *last ? &k->events[*last - 1] : NULL;
    if (before && before->kind == e->kind && before->what == e->what && before->end == e->start &&
        (e->kind == EMU_EVENT_WAIT || e->kind == EMU_EVENT_DMA_WAIT)) {
        before->end = e->end; // looked, and waits on
        return;
    }
    if (k->n == k->capacity) {
        size_t more = k->capacity ? 2 * k->capacity : 1024;
        struct emu_event * events =
            k->n < MAX_EVENTS ? realloc(k->events, more * sizeof *events) : NULL;
        if (!events) {
            t->left_out++; // counted once more than exact when threads meet: only a remark
            return;
        }
        k->events = events;
        k->capacity = more;
    }
    k->events[k->n++] = *e;
    if (e->kind != EMU_EVENT_LOCK) {
        *last = k->n;
    }
}

static bool add_stretch(struct track * k, uint64_t from, uint64_t offset) {
    if (k->n_stretches == k->stretches_capacity) {
        size_t more = k->stretches_capacity ? 2 * k->stretches_capacity : 64;
        struct stretch * s = realloc(k->stretches, more * sizeof *s);
        if (!s) {
            return false;
        }
        k->stretches = s;
        k->stretches_capacity = more;
    }
    k->stretches[k->n_stretches++] = (struct stretch){from, offset};
    return true;
}

static void put_outside(struct rt_timeline * t, int pid, struct track * k,
                        const struct emu_account * now, uint64_t from, uint32_t mhz) {
    static const struct {
        enum emu_cause cause;
        const char * what;
    } parts[] = {{EMU_FLUSH, "caches are flushed"},
                 {EMU_HOST, "host and driver"},
                 {EMU_RECONFIG, "PDI is loaded"}};
    if (!k->told[TID_HOST]) {
        k->told[TID_HOST] = true;
        put_name(t, pid, TID_HOST, "thread_name", "host and firmware");
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        uint64_t cycles = now->cycles[parts[i].cause] - k->account.cycles[parts[i].cause];
        if (put_slice(t, pid, TID_HOST, parts[i].what, strlen(parts[i].what), from, from + cycles,
                      mhz)) {
            put_arg(t, "for", k->name, k->name_size);
            fputs("}}", t->out.file);
        }
        from += cycles;
    }
    uint64_t ns = nanoseconds(from, mhz);
    if (now->cycles[EMU_RECONFIG] > k->account.cycles[EMU_RECONFIG] && begin_event(t)) {
        fprintf(
            t->out.file,
            "{\"ph\":\"i\",\"s\":\"p\",\"pid\":%d,\"tid\":%d,\"name\":\"PDI load\",\"ts\":%" PRIu64
            ".%03" PRIu64 ",\"args\":{\"cycles\":%" PRIu64,
            pid, TID_HOST, ns / 1000, ns % 1000,
            now->cycles[EMU_RECONFIG] - k->account.cycles[EMU_RECONFIG]);
        put_arg(t, "for", k->name, k->name_size);
        fputs("}}", t->out.file);
    }
}

// ---- names ----

static char ** name_at(struct rt_agent * agent, uint64_t dispatch) {
    return &agent->names[dispatch % (sizeof agent->names / sizeof agent->names[0])];
}

void rt_timeline_name(struct rt_agent * agent, uint64_t dispatch, const char * text) {
    char ** name = name_at(agent, dispatch);
    free(*name);
    *name = strdup(text); // without memory it has none
}

void rt_timeline_forget(struct rt_agent * agent) {
    for (size_t i = 0; i < sizeof agent->names / sizeof agent->names[0]; i++) {
        free(agent->names[i]);
        agent->names[i] = NULL;
    }
}

void rt_timeline_dispatched(struct rt_agent * agent) {
    struct rt_timeline * t = agent->rt->timeline;
    if (!t) {
        return;
    }
    struct track * k = &t->tracks[agent->node];
    t->clock = *emu_machine_clock(agent->machine);
    const uint32_t mhz = t->clock.mhz;
    const int pid = (int) agent->node;
    struct emu_counters c;
    emu_machine_counters(agent->machine, &c);
    const struct emu_event * whole = NULL;
    for (size_t i = 0; i < k->n; i++) {
        whole = k->events[i].kind == EMU_EVENT_DISPATCH ? &k->events[i] : whole;
    }
    char ** name = name_at(agent, c.dispatches);
    k->name = *name && **name ? *name : NULL;
    k->name_size = k->name ? strcspn(k->name, "\n") : 0;
    struct quiet quiet;
    pthread_mutex_lock(&t->lock);
    quiet_begin(&quiet);
    if (t->out.file && whole) {
        if (!k->named) {
            char name[160];
            k->named = true;
            snprintf(name, sizeof name, "%s (%s, emulated)", agent->name, agent->product);
            put_name(t, pid, 0, "process_name", name);
        }
        uint64_t outside = c.account.cycles[EMU_HOST] - k->account.cycles[EMU_HOST] +
                           c.account.cycles[EMU_RECONFIG] - k->account.cycles[EMU_RECONFIG] +
                           c.account.cycles[EMU_FLUSH] - k->account.cycles[EMU_FLUSH];
        uint64_t start = k->ended + outside > k->end ? k->ended + outside : k->end;
        if (add_stretch(k, whole->start, start - whole->start)) {
            put_outside(t, pid, k, &c.account, k->ended, mhz);
            for (size_t i = 0; i < k->n; i++) {
                put_event(t, pid, k, &k->events[i], mhz);
            }
            k->ended = place(k, whole->end);
        }
        if (ferror(t->out.file)) {
            drop_file(t, strerror(errno));
        }
    }
    quiet_end(&quiet);
    free(*name);
    *name = NULL;
    k->name = NULL;
    k->account = c.account;
    k->n = 0;
    memset(k->last, 0, sizeof k->last);
    pthread_mutex_unlock(&t->lock);
}

// profile: where the time of a device went, by op and datatype, printed when its last stream ends
// or the process does. An emulated NPU says of each dispatch how long it took by its clock and why;
// a dispatch belongs to the node that caused it. Any other device is measured by the wall, a node
// at a time. With GGML_HSA_PROFILE=kernels each kernel that was sent has a row, the dearest first;
// with GGML_HSA_PROFILE=order they stay in the order in which they went out.
//
// Row 0 is what no node caused. Streams of several threads share the table; it locks itself.
#include "backend.h"
#include "base/quiet.h"
#include "base/runs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ROWS = 256, MAX_KERNELS = 1 << 14 };

struct row {
    char name[100];
    uint64_t nodes, dispatches, pdi_loads, words, flushed, ns, causes[HSAC_CAUSES];
    uint64_t number; // of a kernel, in the order in which they went out
    uint64_t read[HSAC_RUNS], written[HSAC_RUNS]; // bytes by the length of their runs
};

struct profile {
    pthread_mutex_t lock;
    const char * device;
    bool modelled, each; // kernel of an emulated NPU
    bool in_order;
    int streams;
    int n, most;
    struct row * rows;
    const char * causes[HSAC_CAUSES]; // names
    uint64_t below[HSAC_RUNS];        // bytes; 0: longer ones
    const char * clock;
    uint64_t mhz;
};

static void add(struct row * r, const struct hsac_account * a) {
    r->dispatches += a->dispatches;
    r->pdi_loads += a->pdi_loads;
    r->words += a->stream_words;
    r->flushed += a->flushed;
    r->ns += a->ns;
    for (int i = 0; i < HSAC_CAUSES; i++) {
        r->causes[i] += a->causes[i].cycles;
    }
    for (int i = 0; i < HSAC_RUNS; i++) {
        r->read[i] += a->runs[i].read;
        r->written[i] += a->runs[i].written;
    }
}

static void on_dispatch(void * user, uint32_t tag, const struct hsac_account * account) {
    struct profile * p = user;
    pthread_mutex_lock(&p->lock);
    add(&p->rows[tag < (uint32_t) p->n ? tag : 0], account);
    p->clock = account->clock;
    p->mhz = account->mhz;
    for (int i = 0; i < HSAC_CAUSES; i++) {
        p->causes[i] = account->causes[i].name;
    }
    for (int i = 0; i < HSAC_RUNS; i++) {
        p->below[i] = account->runs[i].below;
    }
    pthread_mutex_unlock(&p->lock);
}

static void profile_begin(struct profile * p) {
    memset(p->rows, 0, (size_t) p->most * sizeof p->rows[0]);
    snprintf(p->rows[0].name, sizeof p->rows[0].name, "(other)");
    p->n = 1;
}

struct profile * profile_new(struct hsac_agent * agent, const char * device) {
    const char * value = getenv("GGML_HSA_PROFILE");
    bool in_order = value && !strcmp(value, "order");
    bool each = in_order || (value && !strcmp(value, "kernels"));
    struct profile * p = each || env_flag("GGML_HSA_PROFILE", false) ? calloc(1, sizeof *p) : NULL;
    struct hsac_account account;
    int most = each ? MAX_KERNELS : MAX_ROWS;
    struct row * rows = p ? calloc((size_t) most, sizeof *rows) : NULL;
    if (!rows || pthread_mutex_init(&p->lock, NULL)) {
        free(rows);
        free(p);
        return NULL;
    }
    p->rows = rows;
    p->most = most;
    p->device = device;
    p->modelled = hsac_agent_account(agent, &account);
    p->each = each && p->modelled;
    p->in_order = in_order;
    profile_begin(p);
    if (p->modelled) {
        hsac_agent_watch(agent, on_dispatch, p);
    }
    return p;
}

void profile_stream_begins(struct profile * p) {
    if (p) {
        pthread_mutex_lock(&p->lock);
        p->streams++;
        pthread_mutex_unlock(&p->lock);
    }
}

void profile_stream_ends(struct profile * p) {
    if (p) {
        pthread_mutex_lock(&p->lock);
        bool last = --p->streams == 0;
        pthread_mutex_unlock(&p->lock);
        if (last) {
            profile_print(p);
        }
    }
}

uint32_t profile_node(struct profile * p, const struct ggml_tensor * node) {
    if (!p || p->each) {
        return 0;
    }
    char name[sizeof p->rows[0].name];
    enum ggml_type from = node->src[0] ? node->src[0]->type : node->type;
    if (from == node->type) {
        snprintf(name, sizeof name, "%s %s", op_label(node), ggml_type_name(from));
    } else {
        snprintf(name, sizeof name, "%s %s to %s", op_label(node), ggml_type_name(from),
                 ggml_type_name(node->type));
    }
    pthread_mutex_lock(&p->lock);
    int i = 1;
    while (i < p->n && strcmp(p->rows[i].name, name)) {
        i++;
    }
    if (i == p->n && p->n < p->most) {
        memcpy(p->rows[p->n++].name, name, sizeof name);
    }
    i = i < p->n ? i : 0;
    p->rows[i].nodes++;
    pthread_mutex_unlock(&p->lock);
    return (uint32_t) i;
}

bool profile_is_each(const struct profile * p) {
    return p && p->each;
}

uint32_t profile_kernel(struct profile * p, const char * name) {
    pthread_mutex_lock(&p->lock);
    uint32_t row = 0;
    if (p->n < p->most) {
        row = (uint32_t) p->n++;
        p->rows[row].number = row;
        snprintf(p->rows[row].name, sizeof p->rows[row].name, "%s", name);
    }
    p->rows[row].nodes++;
    pthread_mutex_unlock(&p->lock);
    return row;
}

bool profile_is_measured(const struct profile * p) {
    return p && !p->modelled;
}

void profile_measured(struct profile * p, uint32_t row, uint64_t ns) {
    if (p) {
        pthread_mutex_lock(&p->lock);
        p->rows[row].ns += ns;
        pthread_mutex_unlock(&p->lock);
    }
}

uint64_t profile_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

// ---- the table ----

static int by_time(const void * a, const void * b) {
    const struct row *x = a, *y = b;
    return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : strcmp(x->name, y->name);
}

enum { NAME_WIDTH = 28, KERNEL_WIDTH = 68 };

static double percent(uint64_t part, uint64_t of) {
    return of ? 100.0 * (double) part / (double) of : 0;
}

static uint64_t sum(const uint64_t * v, int n) {
    uint64_t s = 0;
    for (int i = 0; i < n; i++) {
        s += v[i];
    }
    return s;
}

static double short_runs(const struct profile * p, const struct row * r) {
    int n = 0;
    while (n < HSAC_RUNS && p->below[n] && p->below[n] <= RUN_SHORT) {
        n++;
    }
    return percent(sum(r->read, n) + sum(r->written, n),
                   sum(r->read, HSAC_RUNS) + sum(r->written, HSAC_RUNS));
}

static void print_runs(const struct profile * p, const struct row * r) {
    const struct {
        const char * name;
        const uint64_t * bytes;
    } ways[] = {{"read", r->read}, {"written", r->written}};
    int width = p->each ? KERNEL_WIDTH : NAME_WIDTH;
    char text[16];
    fprintf(stderr, "%-*s %10s", width, "% of the bytes, in runs of", "MB");
    for (int i = 0; i < HSAC_RUNS; i++) {
        fprintf(stderr, " %9s", run_label(p->below[i], text));
    }
    for (int k = 0; k < 2; k++) {
        uint64_t all = sum(ways[k].bytes, HSAC_RUNS);
        fprintf(stderr, "\n%-*s %10.3f", width, ways[k].name, (double) all / 1e6);
        for (int i = 0; i < HSAC_RUNS; i++) {
            fprintf(stderr, " %9.1f", percent(ways[k].bytes[i], all));
        }
    }
    fprintf(stderr, "\n");
}

static void print_row(const struct profile * p, const struct row * r) {
    fprintf(stderr, "%-*s %7" PRIu64, p->each ? KERNEL_WIDTH : NAME_WIDTH, r->name,
            r->number ? r->number : r->nodes);
    if (!p->modelled) {
        fprintf(stderr, " %11.3f\n", (double) r->ns / 1e6);
        return;
    }
    if (!r->dispatches) {
        fprintf(stderr, " %7d           -  by the host\n", 0);
        return;
    }
    uint64_t cycles = sum(r->causes, HSAC_CAUSES);
    fprintf(stderr, " %7" PRIu64 " %11.3f ", r->dispatches, (double) r->ns / 1e6);
    for (int i = 0; i < HSAC_CAUSES; i++) {
        fprintf(stderr, " %8.1f", percent(r->causes[i], cycles));
    }
    fprintf(stderr, " %6" PRIu64 " %10.3f %8.1f\n", r->pdi_loads, (double) r->words * 4 / 1e6,
            short_runs(p, r));
}

static void print_table(struct profile * p) {
    struct row total = {.name = "total"};
    if (!p->in_order) {
        qsort(p->rows + 1, (size_t) p->n - 1, sizeof p->rows[0], by_time);
    }
    if (p->modelled) {
        fprintf(stderr,
                "ggml-hsa: %s, modelled, clock %s (%" PRIu64 " MHz); causes in %% of the time\n",
                p->device, p->clock && *p->clock ? p->clock : "not used", p->mhz);
    } else {
        fprintf(stderr, "ggml-hsa: %s, measured by the wall, each node waited for\n", p->device);
    }
    fprintf(stderr, "%-*s %7s", p->each ? KERNEL_WIDTH : NAME_WIDTH,
            p->each ? "kernel, its operands and PDI" : "op", p->each ? "sent as" : "nodes");
    if (p->modelled) {
        fprintf(stderr, " %7s %11s ", "kernels", "ms");
        for (int i = 0; i < HSAC_CAUSES; i++) {
            fprintf(stderr, " %8s", p->causes[i] ? p->causes[i] : "");
        }
        fprintf(stderr, " %6s %10s %8s\n", "PDIs", "MB", "% short");
    } else {
        fprintf(stderr, " %11s\n", "ms");
    }
    for (int i = 1; i <= p->n; i++) {
        const struct row * r = &p->rows[i % p->n]; // what no node caused stands last
        if (!r->nodes && !r->dispatches) {
            continue;
        }
        print_row(p, r);
        total.nodes += r->nodes;
        total.dispatches += r->dispatches;
        total.pdi_loads += r->pdi_loads;
        total.words += r->words;
        total.flushed += r->flushed;
        total.ns += r->ns;
        for (int k = 0; k < HSAC_CAUSES; k++) {
            total.causes[k] += r->causes[k];
        }
        for (int k = 0; k < HSAC_RUNS; k++) {
            total.read[k] += r->read[k];
            total.written[k] += r->written[k];
        }
    }
    print_row(p, &total);
    if (p->modelled) {
        print_runs(p, &total);
        fprintf(stderr, "%-*s %10.3f\n", p->each ? KERNEL_WIDTH : NAME_WIDTH,
                "flushed from the CPU's caches", (double) total.flushed / 1e6);
    }
}

void profile_clear(struct profile * p) {
    if (p) {
        pthread_mutex_lock(&p->lock);
        profile_begin(p);
        pthread_mutex_unlock(&p->lock);
    }
}

void profile_print(struct profile * p) {
    if (!p) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    bool ran = p->n > 1;
    for (int i = 0; i < p->n; i++) {
        ran |= p->rows[i].dispatches != 0;
    }
    if (ran) {
        struct quiet quiet; // a table that cannot be written ends no program
        quiet_begin(&quiet);
        print_table(p);
        quiet_end(&quiet);
        profile_begin(p);
    }
    pthread_mutex_unlock(&p->lock);
}

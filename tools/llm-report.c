// llm-report: see llm-report.h. What comes back from a process of its own is the struct itself,
// through a pipe: both are one program.
#include "llm-report.h"

#include "base/runs.h"
#include "kernel/kernel.h"
#include "llm-replay.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- one clock ----

// A gigabyte of blocks takes about two minutes on two cores, one of floats much less.
#define MOST_BYTES (3e9)

enum llm_way llm_way_of(const struct llm_ask * ask) {
    if (ask->way != LLM_BY_SIZE) {
        return ask->way;
    }
    const struct decoder_model * m = ask->model;
    const struct decoder * d = &m->decoder;
    double bytes = (double) llm_cache_bytes(m, ask->context);
    for (int i = 0; i < DECODER_WEIGHTS; i++) {
        enum decoder_weight w = (enum decoder_weight) i;
        for (int k = 0; k < m->n_kinds && i < DECODER_LAYER_WEIGHTS && d->has[i]; k++) {
            bytes += (double) m->kinds[k].layers *
                     (double) decoder_weight_bytes(d, w, m->kinds[k].types[w], true);
        }
        bool head = w == (d->has[DECODER_OUTPUT] ? DECODER_OUTPUT : DECODER_EMBD);
        bytes += head ? (double) decoder_weight_bytes(d, w, d->types[w], true) : 0;
    }
    return ask->tokens == 1 && bytes <= MOST_BYTES ? LLM_AS_WHOLE : LLM_BY_PARTS;
}

static const char * by_parts(struct llm_device * device, const struct llm_ask * ask,
                             struct llm_report * out) {
    const char * why = NULL;
    const struct decoder_model * m = ask->model;
    out->n_parts = m->n_kinds + 1;
    for (int i = 0; i < out->n_parts && !why; i++) {
        bool head = i == m->n_kinds;
        enum llm_part part = head ? LLM_HEAD : LLM_LAYER;
        if (ask->progress) {
            ask->progress(i, out->n_parts);
        }
        int64_t tokens = head ? 1 : ask->tokens, context = head ? 1 : ask->context;
        if (out->way == LLM_COUNTED) {
            llm_count(device, m, part, i, tokens, context, &out->parts[i]);
        } else {
            why = llm_measure(device, m, part, i, tokens, context, &out->parts[i]);
        }
        llm_add(&out->all, &out->parts[i], head ? 1 : (double) m->kinds[i].layers);
    }
    return why;
}

// The architecture of the emulated device: "aie2p:4" is aie2p.
static enum aie_arch own_arch(void) {
    enum aie_arch arch = AIE_ARCH_AIE2;
    char name[16];
    const char * emulated = getenv("GGML_HSA_EMULATE");
    emulated = emulated ? emulated : "";
    snprintf(name, sizeof name, "%.*s", (int) strcspn(emulated, ":, "), emulated);
    kernel_arch_parse(name, &arch);
    return arch;
}

// What the device could do at best: every weight and what is cached once from host memory, every
// multiplication in its cycle.
static enum status bounds(uint64_t cache, struct llm_report * out, struct error * err) {
    enum { MACS = 2048 }; // of all cores in a cycle, bf16: 16 with 128 each, 32 with 64
    struct emu_clock clock;
    enum status st = emu_clock_get(own_arch(), &clock, err);
    if (st != ST_OK) {
        return st;
    }
    double per_ms = (double) clock.mhz * 1000, rate = (double) clock.ddr_read / 1000;
    double bytes = (double) out->all.weights + (double) cache;
    out->ddr_ms = rate > 0 ? bytes / rate / per_ms : 0;
    out->mac_ms = (double) out->all.macs / MACS / per_ms;
    return ST_OK;
}

static const char * of_model(struct llm_device * device, const struct llm_ask * ask,
                             struct llm_report * out) {
    out->way = llm_way_of(ask);
    return out->way == LLM_AS_WHOLE
               ? llm_measure(device, ask->model, LLM_WHOLE, 0, ask->tokens, ask->context, &out->all)
               : by_parts(device, ask, out);
}

// It is computed twice. What is taken at once, a text, a picture or sound, is computed by parts, as
// a prompt is.
static const char * of_graph(struct llm_device * device, const struct llm_ask * ask,
                             struct ggml_cgraph * graph, bool at_once, struct llm_report * out) {
    const char * why = llm_replay_count(device, graph, &out->all);
    bool small = (double) (out->all.weights + out->all.states) <= MOST_BYTES / 2;
    out->way = ask->way != LLM_BY_SIZE ? ask->way : small && !at_once ? LLM_AS_WHOLE : LLM_BY_PARTS;
    if (!why && out->way != LLM_COUNTED) {
        int gaps = out->all.gaps, splits = out->all.splits;
        why = out->way == LLM_AS_WHOLE ? llm_replay_whole(device, graph, &out->all)
                                       : llm_replay_parts(device, graph, ask->progress, &out->all);
        out->all.gaps = gaps; // parts have theirs at their ends, too
        out->all.splits = splits;
    }
    return why;
}

static enum status of_llama(struct llm_device * device, const struct llm_ask * ask,
                            struct llm_report * out, struct error * err) {
    struct llama_graph g;
    enum status st = llama_graph_open(ask->llama, device->dev, ask->context, &g, err);
    const char * why = NULL;
    if (st == ST_OK) {
        out->facts = g.facts;
        why = of_graph(device, ask, g.graph, g.facts.tokens > 1, out);
    }
    llama_graph_close(&g);
    return why ? error_set(err, ST_DEVICE, "%s", why) : st;
}

static enum status of_part(struct llm_device * device, const struct llm_ask * ask,
                           struct llm_report * out, struct error * err) {
    struct part_graph g;
    enum status st = part_graph_open(ask->part, device->dev, ask->context, &g, err);
    const char * why = NULL;
    if (st == ST_OK) {
        out->facts = g.facts;
        out->tensors = (uint64_t) g.file.n;
        out->bytes = g.file.bytes;
        why = of_graph(device, ask, g.maker.graph, ask->part->kind != PART_DECODER, out);
        if (*g.left) {
            struct llm_left left = {.op = "FLASH_ATTN_EXT"};
            snprintf(left.why, sizeof left.why, "%s", g.left);
            llm_add_left(&out->all, &left, 1);
        }
    }
    part_graph_close(&g);
    return why ? error_set(err, ST_DEVICE, "%s", why) : st;
}

enum status llm_report(struct llm_device * device, const struct llm_ask * ask,
                       struct llm_report * out, struct error * err) {
    *out = (struct llm_report){.way = ask->way};
    device->once = ask->once;
    enum status st = ST_OK;
    if (ask->llama) {
        st = of_llama(device, ask, out, err);
    } else if (ask->part) {
        st = of_part(device, ask, out, err);
    } else {
        const char * why = of_model(device, ask, out);
        st = why ? error_set(err, ST_DEVICE, "%s", why) : ST_OK;
    }
    memcpy(out->clock, device->clock, sizeof out->clock);
    memcpy(out->causes, device->causes, sizeof out->causes);
    memcpy(out->below, device->below, sizeof out->below);
    out->mhz = device->mhz;
    out->compiled = device->compiled;
    bool ours = !ask->llama && !ask->part;
    uint64_t cache = ours ? llm_cache_bytes(ask->model, ask->context) : out->all.states;
    return st == ST_OK ? bounds(cache, out, err) : st;
}

double llm_short_runs(const struct llm_report * r, const struct llm_figures * f) {
    double few = 0, all = 0;
    for (int i = 0; i < LLM_RUNS; i++) {
        double bytes = f->read[i] + f->written[i];
        few += r->below[i] && r->below[i] <= RUN_SHORT ? bytes : 0;
        all += bytes;
    }
    return all > 0 ? 100 * few / all : 0;
}

// ---- three ----

// Kernels are compiled once for all three: where no cache of them is on disk, a directory that is
// gone when the run is over stands in for one.
static const char * const cache_size = "GGML_HSA_KERNEL_CACHE_MAX_SIZE";
static const char * const cache_place = "GGML_HSA_KERNEL_CACHE_DIR";

static bool cache_open(char directory[256]) {
    const char *size = getenv(cache_size), *place = getenv("TMPDIR");
    place = place && *place ? place : "/tmp";
    int n = snprintf(directory, 256, "%s/ggml-hsa-range-XXXXXX", place);
    if (!size || strcmp(size, "0") != 0 || n >= 256 || !mkdtemp(directory)) {
        return false;
    }
    setenv(cache_size, "1G", 1);
    setenv(cache_place, directory, 1);
    return true;
}

static int remove_one(const char * path, const struct stat * info, int kind, struct FTW * at) {
    (void) info, (void) kind, (void) at;
    return remove(path);
}

static void cache_close(const char * directory) {
    nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS); // made by mkdtemp, all of it is ours
    setenv(cache_size, "0", 1);
    unsetenv(cache_place);
}

static bool write_all(int file, const void * data, size_t size) {
    const char * at = data;
    while (size > 0) {
        ssize_t n = write(file, at, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        at += n;
        size -= (size_t) n;
    }
    return true;
}

static bool read_all(int file, void * data, size_t size) {
    char * at = data;
    while (size > 0) {
        ssize_t n = read(file, at, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        at += n;
        size -= (size_t) n;
    }
    return true;
}

struct answer {
    enum status st;
    struct error err;
    struct llm_report report;
};

static void in_child(const char * plugin, const struct llm_ask * ask, struct answer * out) {
    struct llm_device device;
    const char * why = llm_open(plugin, &device);
    if (why) {
        out->st = error_set(&out->err, ST_DEVICE, "%s", why);
    } else {
        out->st = llm_report(&device, ask, &out->report, &out->err);
    }
    llm_close(&device);
}

static enum status apart(const char * plugin, const char * clock, const struct llm_ask * ask,
                         struct llm_report * out, struct error * err) {
    static struct answer answer;
    int ends[2];
    if (pipe(ends) != 0) {
        return error_set(err, ST_DEVICE, "no pipe for %s: %s", clock, strerror(errno));
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        setenv("GGML_HSA_EMU_CLOCK", clock, 1);
        in_child(plugin, ask, &answer);
        bool ok = write_all(ends[1], &answer, sizeof answer);
        fflush(NULL);
        _exit(ok ? 0 : 1);
    }
    int why = errno;
    close(ends[1]);
    bool ok = pid > 0 && read_all(ends[0], &answer, sizeof answer);
    close(ends[0]);
    if (pid < 0) {
        return error_set(err, ST_DEVICE, "no process for %s: %s", clock, strerror(why));
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    if (!ok) {
        return error_set(err, ST_DEVICE, "the process for %s ended early", clock);
    }
    *out = answer.report;
    return answer.st == ST_OK ? ST_OK : error_set(err, answer.st, "%s", answer.err.text);
}

enum status llm_report_range(const char * plugin, const struct llm_ask * ask,
                             struct llm_report out[EMU_RANGES], struct error * err) {
    char directory[256], clock[RANGE_TEXT];
    const char * own = emu_clock_default(own_arch())->name;
    bool opened = cache_open(directory);
    enum status st = ST_OK;
    for (int r = 0; r < EMU_RANGES && st == ST_OK; r++) {
        st = range_clock(getenv("GGML_HSA_EMU_CLOCK"), own, (enum emu_range) r, clock, err);
        if (st == ST_OK) {
            st = apart(plugin, clock, ask, &out[r], err);
        }
    }
    if (opened) {
        cache_close(directory);
    }
    return st;
}

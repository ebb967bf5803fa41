// ggml-hsa-model PLUGIN FILE.gguf CONTEXT [--json] [--count] [--layers] [--whole] [--range]
// [--llama DIR] [--progress FD]: what `ggml-hsa model` runs, a program of its own because it needs
// ggml, which the tool does without. The model is computed on the emulated NPU with made-up
// weights; the file's are never read. The graph is llama.cpp's where its library is, and else made
// from the file's sizes.
#include "base/json.h"
#include "base/runs.h"
#include "llm-report.h"
#include "model-file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct report {
    struct model_file file;
    int64_t context;
    bool range;
    bool of_llama;                   // the graph is llama.cpp's
    const char * unit;               // of what is computed at once
    struct error apart;              // why it is not llama.cpp's, though its library is there
    struct llm_report r[EMU_RANGES]; // without a range, the likely one alone
};

static const struct llm_report * likely(const struct report * r) {
    return &r->r[EMU_LIKELY];
}

// Tokens a second.
static double rate(const struct report * r, double ms) {
    double tokens = r->of_llama ? (double) likely(r)->facts.tokens : 1;
    return ms > 0 ? 1000 * tokens / ms : 0;
}

// The embedding's rows are looked up by the CPU in llama.cpp, whatever the device could do: its own
// graph has a node for it.
static int splits(const struct report * r) {
    const struct llm_figures * f = &likely(r)->all;
    return r->of_llama ? f->splits : 2 + 2 * f->gaps;
}

static uint64_t cache_bytes(const struct report * r) {
    return r->of_llama ? likely(r)->all.states : llm_cache_bytes(&r->file.model, r->context);
}

// What the tool shows of it on a terminal; two bytes are never half written to a pipe.
static int progress_to = -1;

static void progress(int part, int parts) {
    uint8_t told[2] = {(uint8_t) (part + 1), (uint8_t) (parts < 255 ? parts : 255)};
    if (progress_to >= 0 && write(progress_to, told, sizeof told) < 0) {
        progress_to = -1;
    }
}

static enum status measure(const char * plugin, enum llm_way way, const struct llama_way * llama,
                           struct report * r, struct error * err) {
    struct llm_ask ask = {&r->file.model, 1, r->context, way, false, progress, llama};
    r->of_llama = llama != NULL;
    if (r->range) {
        return llm_report_range(plugin, &ask, r->r, err);
    }
    struct llm_device device;
    const char * why = llm_open(plugin, &device);
    enum status st = why ? error_set(err, ST_DEVICE, "%s", why)
                         : llm_report(&device, &ask, &r->r[EMU_LIKELY], err);
    llm_close(&device);
    return st;
}

// By llama.cpp's graph where that can be had. Who names a library wants that one and no other; else
// a file that we can read ourselves is not refused because llama.cpp cannot.
static enum status measure_either(const char * plugin, const char * path, enum llm_way way,
                                  const char * library, struct report * r, struct error * err) {
    struct error unread = {0}, none = {0};
    struct llama_way llama = {library, path};
    enum status known = model_file_read(path, &r->file, &unread), st = ST_NOT_FOUND;
    bool none_wanted = library && !strcmp(library, "none");
    if (known != ST_OK && !*r->file.architecture) { // no GGUF file
        *err = unread;
        return known;
    }
    if (!none_wanted && llama_graph_there(&llama, &none)) {
        st = measure(plugin, way, &llama, r, err);
    } else if (!none_wanted) {
        error_set(err, st, "llama.cpp: %s", none.text);
    }
    if (st == ST_OK || (library && !none_wanted) || (known != ST_OK && st != ST_NOT_FOUND)) {
        return st == ST_OK ? ST_OK : error_prefix(err, st, "%.200s", path);
    }
    if (known != ST_OK) {
        const char * more = none_wanted ? "" : "; llama.cpp knows more: ";
        return error_set(err, known, "%.250s%s%.200s", unread.text, more, none.text);
    }
    r->apart = *err;
    r->apart.status = st == ST_NOT_FOUND ? ST_OK : st;
    st = measure(plugin, way, NULL, r, err);
    return st == ST_OK ? ST_OK : error_prefix(err, st, "%.200s", path);
}

// ---- text ----

static void print_kinds(const struct report * r) {
    static const struct {
        enum decoder_weight weight;
        const char * label;
    } told[] = {
        {DECODER_Q, "q"},
        {DECODER_K, "k"},
        {DECODER_V, "v"},
        {DECODER_QKV, "q, k and v"},
        {DECODER_OUT, "out"},
        {DECODER_GATE, "gate"},
        {DECODER_UP, "up"},
        {DECODER_GATE_UP, "gate and up"},
        {DECODER_DOWN, "down"},
        {DECODER_ROUTER, "router"},
        {DECODER_GATE_EXPERTS, "experts' gate"},
        {DECODER_UP_EXPERTS, "up"},
        {DECODER_DOWN_EXPERTS, "down"},
    };
    const struct decoder_model * m = &r->file.model;
    const struct decoder * d = &m->decoder;
    for (int i = 0; i < m->n_kinds; i++) {
        printf("  %-11s %lld layers", i ? "" : "weights", (long long) m->kinds[i].layers);
        if (m->kinds[i].slides) {
            printf(" that look back at %lld tokens", (long long) d->window);
        }
        const char * before = ":";
        for (size_t k = 0; k < sizeof told / sizeof told[0]; k++) {
            if (d->has[told[k].weight]) {
                printf("%s %s %s", before, told[k].label,
                       ggml_type_name(m->kinds[i].types[told[k].weight]));
                before = ",";
            }
        }
        printf("\n");
    }
    printf("  %-11s embedding %s, output %s\n", "", ggml_type_name(d->types[DECODER_EMBD]),
           d->has[DECODER_OUTPUT] ? ggml_type_name(d->types[DECODER_OUTPUT]) : "the same");
}

// "; low 10.1, high 20.2" behind a figure at likely.
static void print_others(const struct report * r, bool bound) {
    for (int i = 0; i < EMU_RANGES && r->range; i++) {
        if (i != EMU_LIKELY) {
            printf("%s %s %.*f", i ? "," : ";", emu_range_names[i], bound ? 1 : 2,
                   rate(r, bound ? r->r[i].ddr_ms : r->r[i].all.ms));
        }
    }
    printf("\n");
}

static void print_runs(const struct llm_report * r) {
    char text[16];
    printf("\n  %-11s %10s %10s   MB through the shim, by the length of runs\n", "runs of", "read",
           "written");
    for (int i = 0; i < LLM_RUNS; i++) {
        printf("  %-11s %10.3f %10.3f\n", run_label(r->below[i], text), r->all.read[i] * 1e-6,
               r->all.written[i] * 1e-6);
    }
}

static void print_left(const struct llm_figures * f) {
    for (int i = 0; i < f->n_left; i++) {
        const struct llm_left * left = &f->left[i];
        if (left->nodes > 0) {
            printf("  %-11s %.0f of %s: %s\n", "on the CPU", left->nodes, left->op, left->why);
        } else {
            printf("  %-11s by products, not %s: %s\n", "attention", left->op, left->why);
        }
    }
}

static void print_sizes(const struct report * r) {
    const struct decoder * d = &r->file.model.decoder;
    const struct llama_facts * facts = &likely(r)->facts;
    if (r->of_llama) {
        printf("  %-11s llama.cpp's, %s\n", "graph", facts->version);
        printf("  %-11s %lld layers of %lld, %lld words\n", "sizes", (long long) facts->layers,
               (long long) facts->embd, (long long) facts->vocab);
        return;
    }
    if (r->apart.status != ST_OK) {
        printf("  %-11s made from the file's sizes: %s\n", "graph", r->apart.text);
    }
    printf("  %-11s %lld layers of %lld, %lld heads of %lld, %lld of keys, %lld in between, %lld "
           "words\n",
           "sizes", (long long) d->layers, (long long) d->embd, (long long) d->heads,
           (long long) d->head_dim, (long long) d->kv_heads, (long long) d->ff,
           (long long) d->vocab);
    if (d->experts) {
        printf("  %-11s %lld of %lld for a token, in each layer\n", "experts", (long long) d->used,
               (long long) d->experts);
    }
    print_kinds(r);
}

static void print_heading(const struct report * r) {
    const struct llama_facts * facts = &likely(r)->facts;
    printf("%s%s%s, ", r->file.architecture, *r->file.name ? ", " : "", r->file.name);
    if (r->of_llama && facts->tokens > 1) {
        printf("a text of %lld tokens\n\n", (long long) facts->tokens);
    } else {
        printf("a token at a context of %lld\n\n",
               (long long) (r->of_llama ? facts->context : r->context));
    }
}

static void print_text(const struct report * r) {
    const struct llm_report * l = likely(r);
    const struct llm_figures * f = &l->all;
    print_heading(r);
    print_sizes(r);
    printf("  %-11s %llu tensors, %.1f MB\n", "file", (unsigned long long) r->file.tensors,
           (double) r->file.bytes * 1e-6);
    printf("  %-11s %.1f MB\n", "cache", (double) cache_bytes(r) * 1e-6);
    printf("  %-11s %d, %d on the NPU, in %d splits%s\n", "nodes", f->nodes, f->on_device,
           splits(r), r->of_llama ? "" : "; the embedding is looked up by the CPU");
    print_left(f);
    printf("  %-11s %.1f tokens/s, by host memory", "at most", rate(r, l->ddr_ms));
    print_others(r, true);
    if (l->way == LLM_COUNTED) {
        return;
    }
    printf("  %-11s %s\n", "computed",
           l->way == LLM_AS_WHOLE
               ? "all layers and the head in one graph"
               : "one layer of each kind and the head, each by itself; the rest multiplied");
    printf("  %-11s %.0f a %s in %.0f dispatches, %.0f PDIs loaded, %.0f operations of their "
           "streams\n",
           "kernels", f->kernels, r->unit, f->dispatches, f->pdi_loads, f->operations);
    printf("  %-11s %.0f nodes, %.0f waits within a %s, %.3f MB flushed from caches\n",
           "by the host", f->by_host, f->waits, r->unit, f->flushed * 1e-6);
    printf("  %-11s %.1f MB on the device, %.1f MB through the shim for a %s\n", "memory",
           f->memory * 1e-6, f->bytes * 1e-6, r->unit);
    printf("  %-11s %.3f ms a %s, modelled, clock %s (%llu MHz)%s%s\n", "time", f->ms, r->unit,
           l->clock, (unsigned long long) l->mhz, r->range ? ", likely" : "",
           r->of_llama && f->on_device < f->nodes ? "; the CPU's nodes are not in it" : "");
    printf("  %-11s %.2f tokens/s", "expected", rate(r, f->ms));
    print_others(r, false);
    print_runs(l);
    printf("\n  where the time goes\n");
    for (int i = 0; i < LLM_CAUSES; i++) {
        static const char whole[] = "########################################";
        double part = f->ms > 0 ? f->causes[i] / f->ms : 0;
        int bar = (int) (part * (double) (sizeof whole - 1) + 0.5);
        printf("  %-11s %5.1f %% %12.3f ms%s%.*s\n", l->causes[i], 100 * part, f->causes[i],
               bar > 0 ? "  " : "", bar, whole);
    }
}

// ---- JSON ----

enum { DIGITS = 6 }; // of numbers that are not whole

static json_t * range_json(const struct report * report, const struct llm_report * r) {
    json_t * o = json_object();
    if (r->way != LLM_COUNTED) {
        json_put(&o, "ns", json_integer((json_int_t) (r->all.ms * 1e6)));
        json_put(&o, "tokens_per_s", json_real(rate(report, r->all.ms)));
        json_put(&o, "kernels_compiled", json_integer((json_int_t) r->compiled));
    }
    json_put(&o, "most_tokens_per_s", json_real(rate(report, r->ddr_ms)));
    return o;
}

static json_t * runs_json(const struct llm_report * r) {
    json_t * list = json_array();
    for (int i = 0; i < LLM_RUNS; i++) {
        json_t * o = json_object();
        json_put(&o, "below", json_integer((json_int_t) r->below[i]));
        json_put(&o, "read", json_integer((json_int_t) r->all.read[i]));
        json_put(&o, "written", json_integer((json_int_t) r->all.written[i]));
        json_append(&list, o);
    }
    return list;
}

static json_t * left_json(const struct llm_figures * f) {
    json_t * list = json_array();
    for (int i = 0; i < f->n_left; i++) {
        json_t * o = json_object();
        json_put(&o, "op", json_string(f->left[i].op));
        json_put(&o, "nodes", json_integer((json_int_t) f->left[i].nodes));
        json_put(&o, "why", json_string(f->left[i].why));
        json_append(&list, o);
    }
    return list;
}

static void put_sizes(json_t ** root, const struct report * r) {
    const struct decoder * d = &r->file.model.decoder;
    const struct llama_facts * facts = &likely(r)->facts;
    const struct {
        const char * name;
        int64_t value;
    } ours[] = {{"layers", d->layers},      {"embedding", d->embd},
                {"heads", d->heads},        {"key_heads", d->kv_heads},
                {"head_size", d->head_dim}, {"feed_forward", d->ff},
                {"vocabulary", d->vocab},   {"kinds_of_layers", r->file.model.n_kinds}},
      theirs[] = {{"layers", facts->layers},
                  {"embedding", facts->embd},
                  {"vocabulary", facts->vocab},
                  {"tokens", facts->tokens}};
    int n = r->of_llama ? 4 : 8;
    if (r->of_llama) {
        json_put(root, "llama_cpp", json_string(facts->version));
    }
    for (int i = 0; i < n; i++) {
        json_put(root, r->of_llama ? theirs[i].name : ours[i].name,
                 json_integer((json_int_t) (r->of_llama ? theirs[i].value : ours[i].value)));
    }
}

static void put_computed(json_t ** root, const struct report * r) {
    const struct llm_report * l = likely(r);
    const struct llm_figures * f = &l->all;
    json_put(root, "computed", json_string(l->way == LLM_AS_WHOLE ? "whole" : "layers"));
    json_put(root, "clock", json_string(l->clock));
    json_put(root, "ns", json_integer((json_int_t) (f->ms * 1e6)));
    json_put(root, "tokens_per_s", json_real(rate(r, f->ms)));
    json_t * causes = json_object();
    for (int i = 0; i < LLM_CAUSES; i++) {
        json_put(&causes, l->causes[i], json_integer((json_int_t) (f->causes[i] * 1e6)));
    }
    json_put(root, "causes_ns", causes);
    json_put(root, "runs", runs_json(l));
}

static int print_json(const struct report * r) {
    const struct llm_report * l = likely(r);
    const struct llm_figures * f = &l->all;
    json_t *root = json_object(), *range = json_object();
    json_put(&root, "architecture", json_string(r->file.architecture));
    json_put(&root, "context",
             json_integer(r->of_llama ? (json_int_t) l->facts.context : r->context));
    put_sizes(&root, r);
    const struct {
        const char * name;
        double value;
    } whole[] = {
        {"tensors", (double) r->file.tensors},
        {"file_bytes", (double) r->file.bytes},
        {"cache_bytes", (double) cache_bytes(r)},
        {"nodes", f->nodes},
        {"nodes_on_npu", f->on_device},
        {"splits", splits(r)},
        {"kernels", f->kernels},
        {"pdi_loads", f->pdi_loads},
        {"stream_operations", f->operations},
        {"nodes_by_host", f->by_host},
        {"waits", f->waits},
        {"memory_bytes", f->memory},
        {"shim_bytes", f->bytes},
        {"dispatches", f->dispatches},
        {"flushed_bytes", f->flushed},
    };
    int n = l->way == LLM_COUNTED ? 6 : (int) (sizeof whole / sizeof whole[0]);
    for (int i = 0; i < n; i++) {
        json_put(&root, whole[i].name, json_integer((json_int_t) whole[i].value));
    }
    json_put(&root, "left_to_cpu", left_json(f));
    json_put(&root, "most_tokens_per_s", json_real(rate(r, l->ddr_ms)));
    if (l->way != LLM_COUNTED) {
        put_computed(&root, r);
    }
    for (int i = 0; i < EMU_RANGES && r->range; i++) {
        json_put(&range, emu_range_names[i], range_json(r, &r->r[i]));
    }
    if (r->range) {
        json_put(&root, "range", range);
    } else {
        json_decref(range);
    }
    return json_tell(root, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS), "ggml-hsa model") ? 0 : 1;
}

int main(int argc, char ** argv) {
    if (argc < 4) {
        fprintf(stderr, "ggml-hsa-model is run by `ggml-hsa model`\n");
        return 2;
    }
    static struct report r;
    struct error err = {0};
    enum llm_way way = LLM_BY_SIZE;
    const char * library = NULL;
    bool json = false;
    r.context = strtoll(argv[3], NULL, 10);
    for (int i = 4; i < argc; i++) {
        if (!strcmp(argv[i], "--llama") && i + 1 < argc) {
            library = argv[++i];
            continue;
        }
        if (!strcmp(argv[i], "--progress") && i + 1 < argc) {
            progress_to = atoi(argv[++i]);
            continue;
        }
        json |= !strcmp(argv[i], "--json");
        r.range |= !strcmp(argv[i], "--range");
        way = !strcmp(argv[i], "--count")    ? LLM_COUNTED
              : !strcmp(argv[i], "--layers") ? LLM_BY_PARTS
              : !strcmp(argv[i], "--whole")  ? LLM_AS_WHOLE
                                             : way;
    }
    if (measure_either(argv[1], argv[2], way, library, &r, &err) != ST_OK) {
        fprintf(stderr, "ggml-hsa model: %s\n", err.text);
        return 1;
    }
    r.unit = r.of_llama && likely(&r)->facts.tokens > 1 ? "text" : "token";
    int status = 0;
    if (json) {
        status = print_json(&r);
    } else {
        print_text(&r);
    }
    if ((fflush(stdout) || ferror(stdout)) && errno != EPIPE) { // a closed pager is no error
        fprintf(stderr, "ggml-hsa model: standard output: %s\n", strerror(errno));
        return 1;
    }
    return status;
}

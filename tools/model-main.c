// ggml-hsa-model PLUGIN FILE CONTEXT [--json] [--count] [--layers] [--whole] [--range]
// [--llama DIR] [--progress FD]: what `ggml-hsa model` runs, a program of its own because it needs
// ggml, which the tool does without. The model is computed on the emulated NPU with made-up
// weights; the file's are never read. The graph is llama.cpp's where its library is, and else made
// from the file's sizes. What sees and what hears has graphs of its own (part-graph.h), of
// whisper.cpp's models two: 30 seconds of sound, and a token of the text.
#include "base/json.h"
#include "base/runs.h"
#include "llm-report.h"
#include "model-file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum source { OF_FILE, OF_LLAMA, OF_VISION, OF_ENCODER, OF_DECODER }; // whose the graph is

// What is computed at once, and what there is of it in a second.
struct unit {
    const char *one, *rate, *key;
};
static const struct unit units[] = {[OF_FILE] = {"token", "tokens/s", "tokens_per_s"},
                                    [OF_LLAMA] = {"token", "tokens/s", "tokens_per_s"},
                                    [OF_VISION] = {"picture", "pictures/s", "pictures_per_s"},
                                    [OF_ENCODER] = {"window", "s of sound/s", "sound_s_per_s"},
                                    [OF_DECODER] = {"token", "tokens/s", "tokens_per_s"}};
static const struct unit text = {"text", "tokens/s", "tokens_per_s"};
enum { WINDOW_S = 30 }; // of sound

struct report {
    struct model_file file;
    int64_t context;
    bool range;
    enum source source;
    const struct unit * unit;
    struct error apart;              // why it is not llama.cpp's, though its library is there
    struct llm_report r[EMU_RANGES]; // without a range, the likely one alone
};

struct options {
    enum llm_way way;
    const char * library;
    bool json, range;
};

static const struct llm_report * likely(const struct report * r) {
    return &r->r[EMU_LIKELY];
}

static bool is_part(const struct report * r) {
    return r->source >= OF_VISION;
}

// By the unit's rate.
static double rate(const struct report * r, double ms) {
    double units = r->source == OF_LLAMA     ? (double) likely(r)->facts.tokens
                   : r->source == OF_ENCODER ? WINDOW_S
                                             : 1;
    return ms > 0 ? 1000 * units / ms : 0;
}

// What a token takes at least is told by host memory; of many rows at once each weight is used
// often, and the multiplications may take longer.
static double least_ms(const struct report * r, const struct llm_report * l) {
    return is_part(r) && l->mac_ms > l->ddr_ms ? l->mac_ms : l->ddr_ms;
}

// The embedding's rows are looked up by the CPU in llama.cpp, whatever the device could do: its own
// graph has a node for it.
static int splits(const struct report * r) {
    const struct llm_figures * f = &likely(r)->all;
    return r->source == OF_FILE ? 2 + 2 * f->gaps : f->splits;
}

static uint64_t cache_bytes(const struct report * r) {
    return r->source == OF_FILE ? llm_cache_bytes(&r->file.model, r->context)
                                : likely(r)->all.states;
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
                           const struct part_way * part, struct report * r, struct error * err) {
    struct llm_ask ask = {&r->file.model, 1, r->context, way, false, progress, llama, part};
    r->source = part ? (enum source)(OF_VISION + (int) part->kind) : llama ? OF_LLAMA : OF_FILE;
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

// The reason of a refusal has the file's name.
static enum status measure_part(const char * plugin, const char * path, enum part_kind kind,
                                enum llm_way way, struct report * r, struct error * err) {
    struct part_way part = {path, kind};
    enum status st = measure(plugin, way, NULL, &part, r, err);
    r->file.tensors = likely(r)->tensors;
    r->file.bytes = likely(r)->bytes;
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
    if (!strcmp(r->file.architecture, "clip")) {
        return measure_part(plugin, path, PART_VISION, way, r, err);
    }
    if (known != ST_OK && !*r->file.architecture) { // no GGUF file
        *err = unread;
        return known;
    }
    if (!none_wanted && llama_graph_there(&llama, &none)) {
        st = measure(plugin, way, &llama, NULL, r, err);
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
    st = measure(plugin, way, NULL, NULL, r, err);
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
                   rate(r, bound ? least_ms(r, &r->r[i]) : r->r[i].all.ms));
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

static void print_part(const struct report * r) {
    const struct graph_facts * f = &likely(r)->facts;
    printf("  %-11s made of the file's tensors, as %s makes it\n", "graph",
           r->source == OF_VISION ? "llama.cpp's mtmd" : "whisper.cpp");
    printf("  %-11s %lld layers of %lld, %lld heads of %lld", "sizes", (long long) f->layers,
           (long long) f->embd, (long long) f->heads, (long long) (f->embd / f->heads));
    if (r->source == OF_VISION) {
        printf(", %lld patches of %lld x %lld dots; %lld tokens by the projector %s",
               (long long) f->patches, (long long) f->patch, (long long) f->patch,
               (long long) f->made, f->projector);
    } else {
        printf(", %lld steps of sound", (long long) f->steps);
    }
    if (r->source == OF_DECODER) {
        printf(", %lld words", (long long) f->vocab);
    }
    printf("\n");
}

static void print_sizes(const struct report * r) {
    const struct decoder * d = &r->file.model.decoder;
    const struct graph_facts * facts = &likely(r)->facts;
    if (is_part(r)) {
        print_part(r);
        return;
    }
    if (r->source == OF_LLAMA) {
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
    const struct graph_facts * facts = &likely(r)->facts;
    printf("%s%s%s, ", r->file.architecture, *r->file.name ? ", " : "", r->file.name);
    if (r->source == OF_VISION) {
        printf("a picture of %lld x %lld\n\n", (long long) facts->side, (long long) facts->side);
    } else if (r->source == OF_ENCODER) {
        printf("%d s of sound\n\n", WINDOW_S);
    } else if (r->source == OF_LLAMA && facts->tokens > 1) {
        printf("a text of %lld tokens\n\n", (long long) facts->tokens);
    } else {
        printf("a token at a context of %lld\n\n",
               (long long) (r->source == OF_FILE ? r->context : facts->context));
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
           splits(r), r->source == OF_FILE ? "; the embedding is looked up by the CPU" : "");
    print_left(f);
    printf("  %-11s %.1f %s, by %s", "at most", rate(r, least_ms(r, l)), r->unit->rate,
           least_ms(r, l) > l->ddr_ms ? "its multiplications" : "host memory");
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
           "kernels", f->kernels, r->unit->one, f->dispatches, f->pdi_loads, f->operations);
    printf("  %-11s %.0f nodes, %.0f waits within a %s, %.3f MB flushed from caches\n",
           "by the host", f->by_host, f->waits, r->unit->one, f->flushed * 1e-6);
    printf("  %-11s %.1f MB on the device, %.1f MB through the shim for a %s\n", "memory",
           f->memory * 1e-6, f->bytes * 1e-6, r->unit->one);
    printf("  %-11s %.3f ms a %s, modelled, clock %s (%llu MHz)%s%s\n", "time", f->ms, r->unit->one,
           l->clock, (unsigned long long) l->mhz, r->range ? ", likely" : "",
           r->source != OF_FILE && f->on_device < f->nodes ? "; the CPU's nodes are not in it"
                                                           : "");
    printf("  %-11s %.2f %s", "expected", rate(r, f->ms), r->unit->rate);
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

static void put_most(json_t ** to, const struct report * report, const struct llm_report * r) {
    char key[32];
    snprintf(key, sizeof key, "most_%s", report->unit->key);
    json_put(to, key, json_real(rate(report, least_ms(report, r))));
}

static json_t * range_json(const struct report * report, const struct llm_report * r) {
    json_t * o = json_object();
    if (r->way != LLM_COUNTED) {
        json_put(&o, "ns", json_integer((json_int_t) (r->all.ms * 1e6)));
        json_put(&o, report->unit->key, json_real(rate(report, r->all.ms)));
        json_put(&o, "kernels_compiled", json_integer((json_int_t) r->compiled));
    }
    put_most(&o, report, r);
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
    const struct graph_facts * f = &likely(r)->facts;
    enum { FILE_ = 1 << OF_FILE, LLAMA = 1 << OF_LLAMA, VISION = 1 << OF_VISION };
    enum { ENCODER = 1 << OF_ENCODER, DECODER = 1 << OF_DECODER };
    const struct {
        int of; // whose graphs have it
        const char * name;
        int64_t value;
    } told[] = {{FILE_, "layers", d->layers},
                {FILE_, "embedding", d->embd},
                {FILE_, "heads", d->heads},
                {FILE_, "key_heads", d->kv_heads},
                {FILE_, "head_size", d->head_dim},
                {FILE_, "feed_forward", d->ff},
                {FILE_, "vocabulary", d->vocab},
                {FILE_, "kinds_of_layers", r->file.model.n_kinds},
                {~FILE_, "layers", f->layers},
                {~FILE_, "embedding", f->embd},
                {VISION | ENCODER | DECODER, "heads", f->heads},
                {LLAMA | DECODER, "vocabulary", f->vocab},
                {LLAMA | DECODER, "tokens", f->tokens},
                {VISION, "picture", f->side},
                {VISION, "patches", f->patches},
                {VISION, "tokens", f->made},
                {ENCODER | DECODER, "steps", f->steps}};
    if (r->source == OF_LLAMA) {
        json_put(root, "llama_cpp", json_string(f->version));
    } else if (r->source == OF_VISION) {
        json_put(root, "projector", json_string(f->projector));
    }
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        if (told[i].of & 1 << r->source) {
            json_put(root, told[i].name, json_integer((json_int_t) told[i].value));
        }
    }
}

static void put_computed(json_t ** root, const struct report * r) {
    const struct llm_report * l = likely(r);
    const struct llm_figures * f = &l->all;
    json_put(root, "computed", json_string(l->way == LLM_AS_WHOLE ? "whole" : "layers"));
    json_put(root, "clock", json_string(l->clock));
    json_put(root, "ns", json_integer((json_int_t) (f->ms * 1e6)));
    json_put(root, r->unit->key, json_real(rate(r, f->ms)));
    json_t * causes = json_object();
    for (int i = 0; i < LLM_CAUSES; i++) {
        json_put(&causes, l->causes[i], json_integer((json_int_t) (f->causes[i] * 1e6)));
    }
    json_put(root, "causes_ns", causes);
    json_put(root, "runs", runs_json(l));
}

static json_t * report_json(const struct report * r) {
    const struct llm_report * l = likely(r);
    const struct llm_figures * f = &l->all;
    json_t *root = json_object(), *range = json_object();
    json_put(&root, "architecture", json_string(r->file.architecture));
    if (r->source != OF_VISION && r->source != OF_ENCODER) {
        int64_t context = r->source == OF_FILE ? r->context : l->facts.context;
        json_put(&root, "context", json_integer((json_int_t) context));
    }
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
    put_most(&root, r, l);
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
    return root;
}

// Two reports are printed one by one, each under the name of its part.
static int print_json(const struct report * r, int n) {
    json_t * root = n == 1 ? report_json(r) : json_object();
    for (int i = 0; i < n && n > 1; i++) {
        json_put(&root, r[i].source == OF_ENCODER ? "encoder" : "decoder", report_json(&r[i]));
    }
    return json_tell(root, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS), "ggml-hsa model") ? 0 : 1;
}

// The name is the file's, which says no other.
static enum status measure_whisper(const char * plugin, const char * path, enum llm_way way,
                                   struct report r[2], struct error * err) {
    enum status st = ST_OK;
    r[1].context = r[0].context;
    r[1].range = r[0].range;
    for (int i = 0; i < 2 && st == ST_OK; i++) {
        bool hears = i == 0;
        snprintf(r[i].file.architecture, sizeof r[i].file.architecture, "whisper");
        snprintf(r[i].file.name, sizeof r[i].file.name, "%s", hears ? "encoder" : "decoder");
        st = measure_part(plugin, path, hears ? PART_ENCODER : PART_DECODER, way, &r[i], err);
    }
    return st;
}

static void read_words(int argc, char ** argv, struct options * o) {
    for (int i = 4; i < argc; i++) {
        if (!strcmp(argv[i], "--llama") && i + 1 < argc) {
            o->library = argv[++i];
            continue;
        }
        if (!strcmp(argv[i], "--progress") && i + 1 < argc) {
            progress_to = atoi(argv[++i]);
            continue;
        }
        o->json |= !strcmp(argv[i], "--json");
        o->range |= !strcmp(argv[i], "--range");
        o->way = !strcmp(argv[i], "--count")    ? LLM_COUNTED
                 : !strcmp(argv[i], "--layers") ? LLM_BY_PARTS
                 : !strcmp(argv[i], "--whole")  ? LLM_AS_WHOLE
                                                : o->way;
    }
}

int main(int argc, char ** argv) {
    if (argc < 4) {
        fprintf(stderr, "ggml-hsa-model is run by `ggml-hsa model`\n");
        return 2;
    }
    static struct report r[2];
    struct error err = {0};
    struct options o = {.way = LLM_BY_SIZE};
    read_words(argc, argv, &o);
    r->context = strtoll(argv[3], NULL, 10);
    r->range = o.range;
    bool whisper = part_file_is_whisper(argv[2]);
    enum status st = whisper ? measure_whisper(argv[1], argv[2], o.way, r, &err)
                             : measure_either(argv[1], argv[2], o.way, o.library, r, &err);
    if (st != ST_OK) {
        fprintf(stderr, "ggml-hsa model: %s\n", err.text);
        return 1;
    }
    int n = whisper ? 2 : 1, status = 0;
    for (int i = 0; i < n; i++) {
        bool at_once = r[i].source == OF_LLAMA && likely(&r[i])->facts.tokens > 1;
        r[i].unit = at_once ? &text : &units[r[i].source];
    }
    if (o.json) {
        status = print_json(r, n);
    }
    for (int i = 0; i < n && !o.json; i++) {
        printf("%s", i ? "\n" : "");
        print_text(&r[i]);
    }
    if ((fflush(stdout) || ferror(stdout)) && errno != EPIPE) { // a closed pager is no error
        fprintf(stderr, "ggml-hsa model: standard output: %s\n", strerror(errno));
        return 1;
    }
    return status;
}

// ggml-hsa-model PLUGIN FILE.gguf CONTEXT [--json] [--count] [--layers] [--whole] [--range]: what
// `ggml-hsa model` runs, a program of its own because it needs ggml, which the tool does without.
// The model is computed on the emulated NPU with made-up weights; the file's are never read.
#include "base/json.h"
#include "base/runs.h"
#include "llm-report.h"
#include "model-file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct report {
    struct model_file file;
    int64_t context;
    bool range;
    struct llm_report r[EMU_RANGES]; // without a range, the likely one alone
};

static const struct llm_report * likely(const struct report * r) {
    return &r->r[EMU_LIKELY];
}

static double rate(double ms) {
    return ms > 0 ? 1000 / ms : 0;
}

// The embedding's rows are looked up by the CPU in llama.cpp, whatever the device could do.
static int splits(const struct report * r) {
    return 2 + 2 * likely(r)->all.gaps;
}

static enum status measure(const char * plugin, enum llm_way way, struct report * r,
                           struct error * err) {
    struct llm_ask ask = {&r->file.model, 1, r->context, way, false};
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
                   rate(bound ? r->r[i].ddr_ms : r->r[i].all.ms));
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

static void print_text(const struct report * r) {
    const struct decoder * d = &r->file.model.decoder;
    const struct llm_report * l = likely(r);
    const struct llm_figures * f = &l->all;
    printf("%s%s%s, a token at a context of %lld\n\n", r->file.architecture,
           *r->file.name ? ", " : "", r->file.name, (long long) r->context);
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
    printf("  %-11s %llu tensors, %.1f MB\n", "file", (unsigned long long) r->file.tensors,
           (double) r->file.bytes * 1e-6);
    printf("  %-11s %.1f MB\n", "cache",
           (double) llm_cache_bytes(&r->file.model, r->context) * 1e-6);
    printf("  %-11s %d, %d on the NPU, in %d splits; the embedding is looked up by the CPU\n",
           "nodes", f->nodes, f->on_device, splits(r));
    print_left(f);
    printf("  %-11s %.1f tokens/s, by host memory", "at most", rate(l->ddr_ms));
    print_others(r, true);
    if (l->way == LLM_COUNTED) {
        return;
    }
    printf("  %-11s %s\n", "computed",
           l->way == LLM_AS_WHOLE
               ? "all layers and the head in one graph"
               : "one layer of each kind and the head, each by itself; the rest multiplied");
    printf("  %-11s %.0f a token in %.0f dispatches, %.0f PDIs loaded, %.0f operations of their "
           "streams\n",
           "kernels", f->kernels, f->dispatches, f->pdi_loads, f->operations);
    printf("  %-11s %.0f nodes, %.0f waits within a token, %.3f MB flushed from caches\n",
           "by the host", f->by_host, f->waits, f->flushed * 1e-6);
    printf("  %-11s %.1f MB on the device, %.1f MB through the shim for a token\n", "memory",
           f->memory * 1e-6, f->bytes * 1e-6);
    printf("  %-11s %.3f ms a token, modelled, clock %s (%llu MHz)%s\n", "time", f->ms, l->clock,
           (unsigned long long) l->mhz, r->range ? ", likely" : "");
    printf("  %-11s %.2f tokens/s", "expected", rate(f->ms));
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

static json_t * range_json(const struct llm_report * r) {
    json_t * o = json_object();
    if (r->way != LLM_COUNTED) {
        json_put(&o, "ns", json_integer((json_int_t) (r->all.ms * 1e6)));
        json_put(&o, "tokens_per_s", json_real(rate(r->all.ms)));
        json_put(&o, "kernels_compiled", json_integer((json_int_t) r->compiled));
    }
    json_put(&o, "most_tokens_per_s", json_real(rate(r->ddr_ms)));
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

static int print_json(const struct report * r) {
    const struct decoder * d = &r->file.model.decoder;
    const struct llm_report * l = likely(r);
    const struct llm_figures * f = &l->all;
    json_t *root = json_object(), *range = json_object();
    json_put(&root, "architecture", json_string(r->file.architecture));
    json_put(&root, "context", json_integer(r->context));
    const struct {
        const char * name;
        double value;
    } whole[] = {
        {"layers", (double) d->layers},
        {"embedding", (double) d->embd},
        {"heads", (double) d->heads},
        {"key_heads", (double) d->kv_heads},
        {"head_size", (double) d->head_dim},
        {"feed_forward", (double) d->ff},
        {"vocabulary", (double) d->vocab},
        {"kinds_of_layers", r->file.model.n_kinds},
        {"tensors", (double) r->file.tensors},
        {"file_bytes", (double) r->file.bytes},
        {"cache_bytes", (double) llm_cache_bytes(&r->file.model, r->context)},
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
    int n = l->way == LLM_COUNTED ? 14 : (int) (sizeof whole / sizeof whole[0]);
    for (int i = 0; i < n; i++) {
        json_put(&root, whole[i].name, json_integer((json_int_t) whole[i].value));
    }
    json_put(&root, "left_to_cpu", left_json(f));
    json_put(&root, "most_tokens_per_s", json_real(rate(l->ddr_ms)));
    if (l->way != LLM_COUNTED) {
        json_put(&root, "computed", json_string(l->way == LLM_AS_WHOLE ? "whole" : "layers"));
        json_put(&root, "clock", json_string(l->clock));
        json_put(&root, "ns", json_integer((json_int_t) (f->ms * 1e6)));
        json_put(&root, "tokens_per_s", json_real(rate(f->ms)));
        json_t * causes = json_object();
        for (int i = 0; i < LLM_CAUSES; i++) {
            json_put(&causes, l->causes[i], json_integer((json_int_t) (f->causes[i] * 1e6)));
        }
        json_put(&root, "causes_ns", causes);
        json_put(&root, "runs", runs_json(l));
    }
    for (int i = 0; i < EMU_RANGES && r->range; i++) {
        json_put(&range, emu_range_names[i], range_json(&r->r[i]));
    }
    if (r->range) {
        json_put(&root, "range", range);
    } else {
        json_decref(range);
    }
    struct buf b = {0};
    json_print(root, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS), &b);
    json_decref(root);
    if (b.failed) {
        fprintf(stderr, "ggml-hsa model: %s\n", json_trouble());
        buf_free(&b);
        return 1;
    }
    fwrite(b.data, 1, b.size, stdout);
    putchar('\n');
    buf_free(&b);
    return 0;
}

int main(int argc, char ** argv) {
    if (argc < 4) {
        fprintf(stderr, "ggml-hsa-model is run by `ggml-hsa model`\n");
        return 2;
    }
    static struct report r;
    struct error err = {0};
    enum llm_way way = LLM_BY_SIZE;
    bool json = false;
    r.context = strtoll(argv[3], NULL, 10);
    for (int i = 4; i < argc; i++) {
        json |= !strcmp(argv[i], "--json");
        r.range |= !strcmp(argv[i], "--range");
        way = !strcmp(argv[i], "--count")    ? LLM_COUNTED
              : !strcmp(argv[i], "--layers") ? LLM_BY_PARTS
              : !strcmp(argv[i], "--whole")  ? LLM_AS_WHOLE
                                             : way;
    }
    if (model_file_read(argv[2], &r.file, &err) != ST_OK) {
        fprintf(stderr, "ggml-hsa model: %s\n", err.text);
        return 1;
    }
    if (measure(argv[1], way, &r, &err) != ST_OK) {
        error_prefix(&err, err.status, "%.200s", argv[2]);
        fprintf(stderr, "ggml-hsa model: %s\n", err.text);
        return 1;
    }
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

// ggml-hsa-model PLUGIN FILE.gguf CONTEXT [--json] [--count]: what `ggml-hsa model` runs, a program
// of its own because it needs ggml, which the tool does without. One layer of each kind, and the
// head, are computed on the emulated NPU with made-up weights; the file's are never read.
#include "base/json.h"
#include "emu/aie/clock.h"
#include "kernel/kernel.h"
#include "llm.h"
#include "model-file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct report {
    struct model_file file;
    struct llm_device device;
    int64_t context;
    bool counted; // nothing was computed
    struct llm_figures all;
    int splits;      // parts of the graph, by who computes them
    double ddr_rate; // tokens a second that host memory allows
};

static struct decoder kind_of(const struct model_file * f, int kind) {
    struct decoder d = f->decoder;
    memcpy(d.types, f->kinds[kind].types, sizeof f->kinds[kind].types);
    return d;
}

// The embedding's rows are looked up by the CPU in llama.cpp, whatever the device could do.
static const char * measure(struct report * r) {
    const char * why = NULL;
    struct llm_figures f;
    for (int i = 0; i <= r->file.n_kinds && !why; i++) {
        bool head = i == r->file.n_kinds;
        struct decoder d = head ? r->file.decoder : kind_of(&r->file, i);
        enum llm_part part = head ? LLM_HEAD : LLM_LAYER;
        if (r->counted) {
            llm_count(&r->device, &d, part, 1, r->context, &f);
        } else {
            why = llm_measure(&r->device, &d, part, 1, r->context, &f);
        }
        llm_add(&r->all, &f, head ? 1 : (double) r->file.kinds[i].layers);
    }
    r->splits = 2 + 2 * r->all.gaps;
    enum aie_arch arch = AIE_ARCH_AIE2;
    const char * asked = getenv("GGML_HSA_EMULATE");
    kernel_arch_parse(asked ? asked : "", &arch);
    const struct emu_clock * clock = emu_clock_default(arch);
    double bytes = (double) r->all.weights + (double) llm_cache_bytes(&r->file.decoder, r->context);
    r->ddr_rate = (double) clock->ddr_read / 1000 * clock->mhz * 1e6 / bytes;
    return why;
}

// ---- text ----

static void print_kinds(const struct report * r) {
    for (int i = 0; i < r->file.n_kinds; i++) {
        const struct model_kind * k = &r->file.kinds[i];
        printf("  %-11s %lld layers: q %s, k %s, v %s, out %s, gate %s, up %s, down %s\n",
               i ? "" : "weights", (long long) k->layers, ggml_type_name(k->types[DECODER_Q]),
               ggml_type_name(k->types[DECODER_K]), ggml_type_name(k->types[DECODER_V]),
               ggml_type_name(k->types[DECODER_OUT]), ggml_type_name(k->types[DECODER_GATE]),
               ggml_type_name(k->types[DECODER_UP]), ggml_type_name(k->types[DECODER_DOWN]));
    }
    const struct decoder * d = &r->file.decoder;
    printf("  %-11s embedding %s, output %s\n", "", ggml_type_name(d->types[DECODER_EMBD]),
           d->has[DECODER_OUTPUT] ? ggml_type_name(d->types[DECODER_OUTPUT]) : "the same");
}

static void print_text(const struct report * r) {
    const struct decoder * d = &r->file.decoder;
    const struct llm_figures * f = &r->all;
    printf("%s%s%s, a token at a context of %lld\n\n", r->file.architecture,
           *r->file.name ? ", " : "", r->file.name, (long long) r->context);
    printf("  %-11s %lld layers of %lld, %lld heads of %lld, %lld of keys, %lld in between, %lld "
           "words\n",
           "sizes", (long long) d->layers, (long long) d->embd, (long long) d->heads,
           (long long) d->head_dim, (long long) d->kv_heads, (long long) d->ff,
           (long long) d->vocab);
    print_kinds(r);
    printf("  %-11s %llu tensors, %.1f MB\n", "file", (unsigned long long) r->file.tensors,
           (double) r->file.bytes * 1e-6);
    printf("  %-11s %.1f MB\n", "cache", (double) llm_cache_bytes(d, r->context) * 1e-6);
    printf("  %-11s %d, %d on the NPU, in %d splits; the embedding is looked up by the CPU\n",
           "nodes", f->nodes, f->on_device, r->splits);
    printf("  %-11s %.1f tokens/s, by host memory\n", "at most", r->ddr_rate);
    if (r->counted) {
        return;
    }
    printf("  %-11s %.0f a token in %.0f dispatches, %.0f PDIs loaded, %.0f operations of their "
           "streams\n",
           "kernels", f->kernels, f->dispatches, f->pdi_loads, f->operations);
    printf("  %-11s %.0f nodes, %.0f waits within a token\n", "by the host", f->by_host, f->waits);
    printf("  %-11s %.1f MB on the device, %.1f MB through the shim for a token\n", "memory",
           f->memory * 1e-6, f->bytes * 1e-6);
    printf("  %-11s %.3f ms a token, modelled, clock %s (%llu MHz)\n", "time", f->ms,
           r->device.clock, (unsigned long long) r->device.mhz);
    printf("  %-11s %.2f tokens/s\n\n  where the time goes\n", "expected", 1000 / f->ms);
    for (int i = 0; i < LLM_CAUSES; i++) {
        printf("  %-11s %5.1f %% %12.3f ms\n", r->device.causes[i], 100 * f->causes[i] / f->ms,
               f->causes[i]);
    }
}

// ---- JSON ----

static int print_json(const struct report * r) {
    const struct decoder * d = &r->file.decoder;
    const struct llm_figures * f = &r->all;
    json_t * root = json_object();
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
        {"kinds_of_layers", r->file.n_kinds},
        {"tensors", (double) r->file.tensors},
        {"file_bytes", (double) r->file.bytes},
        {"cache_bytes", (double) llm_cache_bytes(d, r->context)},
        {"nodes", f->nodes},
        {"nodes_on_npu", f->on_device},
        {"splits", r->splits},
        {"kernels", f->kernels},
        {"pdi_loads", f->pdi_loads},
        {"stream_operations", f->operations},
        {"nodes_by_host", f->by_host},
        {"waits", f->waits},
        {"memory_bytes", f->memory},
        {"shim_bytes", f->bytes},
        {"dispatches", f->dispatches},
    };
    int n = r->counted ? 14 : (int) (sizeof whole / sizeof whole[0]);
    for (int i = 0; i < n; i++) {
        json_put(&root, whole[i].name, json_integer((json_int_t) whole[i].value));
    }
    json_put(&root, "most_tokens_per_1000_s", json_integer((json_int_t) (1000 * r->ddr_rate)));
    if (!r->counted) {
        json_put(&root, "clock", json_string(r->device.clock));
        json_put(&root, "ns", json_integer((json_int_t) (f->ms * 1e6)));
        json_put(&root, "tokens_per_1000_s", json_integer((json_int_t) (1e6 / f->ms)));
        json_t * causes = json_object();
        for (int i = 0; i < LLM_CAUSES; i++) {
            json_put(&causes, r->device.causes[i], json_integer((json_int_t) (f->causes[i] * 1e6)));
        }
        json_put(&root, "causes_ns", causes);
    }
    struct buf b = {0};
    json_print(root, JSON_INDENT(2), &b);
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
    bool json = false;
    r.context = strtoll(argv[3], NULL, 10);
    for (int i = 4; i < argc; i++) {
        json |= !strcmp(argv[i], "--json");
        r.counted |= !strcmp(argv[i], "--count");
    }
    if (model_file_read(argv[2], &r.file, &err) != ST_OK) {
        fprintf(stderr, "ggml-hsa model: %s\n", err.text);
        return 1;
    }
    const char * why = llm_open(argv[1], &r.device);
    why = why ? why : measure(&r);
    int status = 1;
    if (why) {
        fprintf(stderr, "ggml-hsa model: %s: %s\n", argv[2], why);
    } else if (json) {
        status = print_json(&r);
    } else {
        print_text(&r);
        status = 0;
    }
    llm_close(&r.device);
    return status;
}

// bench-llm [MODEL [TYPE [CASE [once] [kernels]]]]: what language models would take on an NPU,
// modelled: one layer and the head are computed on the emulated device with made-up weights, and a
// model is so many layers and one head. Each word may be a part of a name, "all" is all; without
// any a short form runs, for `make bench`. Each part is computed twice, and the second time is
// told, in which plans are there and the array is as the part leaves it; with `once`, which takes
// half as long, the first; with `kernels` each kernel is told at the end, in order, as a dispatch
// of its own. Waits are those before a part's end; its end is one of the model's only once.
#include "bench.h"
#include "emu/aie/clock.h"
#include "tools/llm.h"

#include <stdbool.h>
#include <strings.h>

static const struct {
    const char * name;
    struct decoder sizes;
} models[] = {
    {"Qwen2.5-0.5B",
     {.layers = 24,
      .embd = 896,
      .heads = 14,
      .kv_heads = 2,
      .head_dim = 64,
      .ff = 4864,
      .vocab = 151936,
      .rope_base = 1e6f,
      .neox = true,
      .has = {[DECODER_Q_BIAS] = true, [DECODER_K_BIAS] = true, [DECODER_V_BIAS] = true}}},
    {"Llama-3.2-1B",
     {.layers = 16,
      .embd = 2048,
      .heads = 32,
      .kv_heads = 8,
      .head_dim = 64,
      .ff = 8192,
      .vocab = 128256,
      .rope_base = 5e5f,
      .has = {[DECODER_ROPE_FACTORS] = true}}},
    {"Llama-3.1-8B",
     {.layers = 32,
      .embd = 4096,
      .heads = 32,
      .kv_heads = 8,
      .head_dim = 128,
      .ff = 14336,
      .vocab = 128256,
      .rope_base = 5e5f,
      .has = {[DECODER_ROPE_FACTORS] = true, [DECODER_OUTPUT] = true}}},
};

static const enum ggml_type types[] = {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K,
                                       GGML_TYPE_BF16};

static const struct {
    const char * name;
    int64_t tokens, context;
} cases[] = {
    {"decode-512", 1, 512},
    {"decode-4096", 1, 4096},
    {"prefill-512", 512, 512},
};

// ---- models ----

// Where rows are no whole blocks llama.cpp takes a type of smaller ones.
static enum ggml_type type_for(enum ggml_type type, int64_t columns) {
    return columns % ggml_blck_size(type) == 0 ? type : GGML_TYPE_Q5_0;
}

static struct decoder model(size_t which, enum ggml_type type) {
    struct decoder d = models[which].sizes;
    static const enum decoder_weight all[] = {
        DECODER_ATTN_NORM, DECODER_Q,        DECODER_K,          DECODER_V,
        DECODER_OUT,       DECODER_FFN_NORM, DECODER_GATE,       DECODER_UP,
        DECODER_DOWN,      DECODER_EMBD,     DECODER_OUTPUT_NORM};
    d.rope_dims = d.head_dim;
    d.eps = 1e-5f;
    d.rope_scale = 1;
    d.kv = GGML_TYPE_F16;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        d.has[all[i]] = true;
    }
    for (int w = 0; w < DECODER_WEIGHTS; w++) {
        int64_t ne[2];
        decoder_weight_shape(&d, (enum decoder_weight) w, ne);
        d.types[w] = ne[1] ? type_for(type, ne[0]) : GGML_TYPE_F32;
    }
    return d;
}

// ---- the table ----

static void head(const struct llm_device * device) {
    printf("modelled, clock %s (%d MHz); a layer and the head computed, the rest multiplied%s\n",
           device->clock, (int) device->mhz,
           device->once ? "; first runs, which load all that they need" : "");
    printf("%-13s %-5s %-12s %-6s %9s %7s %8s %6s %9s %6s %9s %8s", "model", "type", "case", "part",
           "ms", "kernels", "dispatch", "PDIs", "MB", "waits", "stream-op", "GB");
    for (int i = 0; i < LLM_CAUSES; i++) {
        printf(" %8s", device->causes[i]);
    }
    printf("   causes in %% of the time\n");
}

static void row(const char * name, enum ggml_type type, const char * what, const char * part,
                const struct llm_figures * f) {
    printf("%-13s %-5s %-12s %-6s %9.3f %7.0f %8.0f %6.0f %9.1f %6.0f %9.0f %8.3f", name,
           ggml_type_name(type), what, part, f->ms, f->kernels, f->dispatches, f->pdi_loads,
           f->bytes * 1e-6, f->waits, f->operations, f->memory * 1e-9);
    for (int i = 0; i < LLM_CAUSES; i++) {
        printf(" %8.1f", f->ms > 0 ? 100 * f->causes[i] / f->ms : 0);
    }
    printf("\n");
    fflush(stdout);
}

// What the device could do at best: every weight and what is cached once from host memory, every
// multiplication in its cycle.
static void limits(const struct llm_device * device, const struct decoder * d,
                   const struct llm_figures * all, int64_t tokens, int64_t context,
                   const char * name) {
    struct emu_clock clock;
    struct error err = {0};
    const char * asked = getenv("GGML_HSA_EMU_CLOCK");
    enum { MACS = 2048 }; // of all cores in a cycle, bf16: 16 with 128 each, 32 with 64
    if (emu_clock_parse(asked && *asked ? asked : device->clock, &clock, &err) != ST_OK) {
        return; // the device has said so
    }
    double per_ms = (double) device->mhz * 1000;
    double bytes = (double) all->weights + (double) llm_cache_bytes(d, context);
    double ddr = clock.ddr_read ? bytes / ((double) clock.ddr_read / 1000) / per_ms : 0;
    double macs = (double) all->macs / MACS / per_ms;
    printf("%-13s   %.2f tokens/s; DDR would allow %.1f, the MACs %.1f; %.2f bytes through the "
           "shim for a byte of weights; %d of %d nodes on the device, %.0f of them by the host, "
           "%.0f planned before\n",
           name, 1000 * (double) tokens / all->ms, 1000 * (double) tokens / ddr,
           1000 * (double) tokens / macs, all->bytes / (double) all->weights, all->on_device,
           all->nodes, all->by_host, all->kept);
}

static bool run(struct llm_device * device, size_t m, enum ggml_type type, size_t c) {
    struct decoder d = model(m, type);
    struct llm_figures layer, last, all = {0};
    static bool begun;
    const char * why =
        llm_measure(device, &d, LLM_LAYER, cases[c].tokens, cases[c].context, &layer);
    if (!why) {
        why = llm_measure(device, &d, LLM_HEAD, 1, 1, &last);
    }
    if (why) {
        fprintf(stderr, "bench-llm: %s %s %s: %s\n", models[m].name, ggml_type_name(type),
                cases[c].name, why);
        return false;
    }
    if (!begun) {
        head(device);
        begun = true;
    }
    llm_add(&all, &layer, (double) d.layers);
    llm_add(&all, &last, 1);
    row(models[m].name, type, cases[c].name, "layer", &layer);
    row(models[m].name, type, cases[c].name, "head", &last);
    row(models[m].name, type, cases[c].name, "model", &all);
    limits(device, &d, &all, cases[c].tokens, cases[c].context, models[m].name);
    return true;
}

static bool matches(const char * word, const char * name) {
    return !strcmp(word, "all") || strcasestr(name, word);
}

int main(int argc, char ** argv) {
    const char *model_asked = argc > 1 ? argv[1] : "Qwen",
               *type_asked = argc > 2 ? argv[2] : "q4_0";
    const char * case_asked = argc > 3 ? argv[3] : "decode-512";
    if (argc == 2 && !strcmp(argv[1], "all")) {
        type_asked = case_asked = "all";
    }
    bool once = false;
    for (int i = 4; i < argc; i++) {
        once |= !strcmp(argv[i], "once");
        if (!strcmp(argv[i], "kernels")) {
            setenv("GGML_HSA_PROFILE", "kernels", 1);
        }
    }
    struct llm_device device;
    setenv("GGML_HSA_EMULATE", "aie2", 0);
    const char * why = llm_open(PLUGIN, &device);
    if (why) {
        fprintf(stderr, "bench-llm: %s\n", why);
        return 1;
    }
    int ran = 0;
    bool ok = true;
    device.once = once;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
                if (matches(model_asked, models[m].name) &&
                    matches(type_asked, ggml_type_name(types[t])) &&
                    matches(case_asked, cases[c].name)) {
                    ok &= run(&device, m, types[t], c);
                    ran++;
                }
            }
        }
    }
    llm_close(&device);
    if (!ran) {
        fprintf(stderr, "bench-llm: no model, type or case of that name\n");
    }
    return ran && ok ? 0 : 1;
}

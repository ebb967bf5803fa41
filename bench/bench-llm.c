// bench-llm [MODEL [TYPE [CASE]]] [WORDS]: what language models would take on an NPU, modelled,
// with made-up weights of the datatypes that llama-quantize gives a file. A token is computed
// whole, all layers and the head in one graph, where that takes minutes at most; a prompt, which
// would take hours, by parts: one layer of each kind and the head, and the rest is multiplied.
// MODEL, TYPE and CASE are names or parts of them, "all" is all; without any a short form runs, for
// `make bench`. `whole` and `layers` ask for one of the two ways, `once` for first runs, which load
// what they need; with `kernels` each kernel is told at the end, in order, as a dispatch of its
// own. --range computes all of it under three clocks, low, likely and high.
#include "base/runs.h"
#include "bench.h"
#include "tools/file-type.h"
#include "tools/llm-report.h"

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
    {"Qwen3-30B-A3B",
     {.layers = 48,
      .embd = 2048,
      .heads = 32,
      .kv_heads = 4,
      .head_dim = 128,
      .ff = 768,
      .vocab = 151936,
      .rope_base = 1e6f,
      .neox = true,
      .experts = 128,
      .used = 8,
      .has = {[DECODER_Q_NORM] = true, [DECODER_K_NORM] = true, [DECODER_OUTPUT] = true}}},
    {"gpt-oss-20b",
     {.layers = 24,
      .embd = 2880,
      .heads = 64,
      .kv_heads = 8,
      .head_dim = 64,
      .ff = 2880,
      .vocab = 201088,
      .rope_base = 150000,
      .neox = true,
      .experts = 32,
      .used = 4,
      .chosen_first = true,
      .oai = true,
      .window = 128,
      .has = {[DECODER_Q_BIAS] = true,
              [DECODER_K_BIAS] = true,
              [DECODER_V_BIAS] = true,
              [DECODER_OUT_BIAS] = true,
              [DECODER_SINKS] = true,
              [DECODER_ROUTER_BIAS] = true,
              [DECODER_GATE_EXPERTS_BIAS] = true,
              [DECODER_UP_EXPERTS_BIAS] = true,
              [DECODER_DOWN_EXPERTS_BIAS] = true,
              [DECODER_OUTPUT] = true}}},
};
enum { USUAL_MODELS = 3 }; // a mixture of experts is meant where these are not

struct llm_case {
    const char * name;
    int64_t tokens, context;
};
static const struct llm_case cases[] = {
    {"decode-512", 1, 512},    {"decode-4096", 1, 4096},
    {"prefill-512", 512, 512}, {"prefill-64", 64, 64},
    {"prefill-128", 128, 128}, {"draft-4", 4, 512}, // tokens of one sequence
};
enum { CASES = sizeof cases / sizeof cases[0] };

// A kind of case and a number, as prefill-200: that one alone, so that a sweep sees between the
// cases above.
static bool case_of_size(const char * word, struct llm_case * out) {
    enum { DRAFT_CONTEXT = 512, MOST = 131072 };
    static const struct {
        const char * kind;
        enum { OF_CONTEXT, OF_PROMPT, OF_DRAFT } what;
    } kinds[] = {{"decode-", OF_CONTEXT}, {"prefill-", OF_PROMPT}, {"draft-", OF_DRAFT}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t n = strlen(kinds[i].kind);
        char * end;
        if (strncasecmp(word, kinds[i].kind, n) != 0 || word[n] < '1' || word[n] > '9') {
            continue;
        }
        long size = strtol(word + n, &end, 10);
        bool draft = kinds[i].what == OF_DRAFT, one = kinds[i].what == OF_CONTEXT;
        *out = (struct llm_case){word, one ? 1 : size, draft ? DRAFT_CONTEXT : size};
        return !*end && size <= (draft ? DRAFT_CONTEXT : MOST);
    }
    return false;
}

// ---- models ----

static struct decoder_model model(size_t which, size_t type) {
    static const enum decoder_weight all[] = {
        DECODER_ATTN_NORM, DECODER_Q,        DECODER_K,    DECODER_V,
        DECODER_OUT,       DECODER_FFN_NORM, DECODER_EMBD, DECODER_OUTPUT_NORM};
    static const enum decoder_weight dense[] = {DECODER_GATE, DECODER_UP, DECODER_DOWN},
                                     experts[] = {DECODER_ROUTER, DECODER_GATE_EXPERTS,
                                                  DECODER_UP_EXPERTS, DECODER_DOWN_EXPERTS};
    struct decoder d = models[which].sizes;
    struct decoder_model m;
    d.rope_dims = d.head_dim;
    d.eps = 1e-5f;
    d.rope_scale = 1;
    d.kv = GGML_TYPE_F16;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        d.has[all[i]] = true;
    }
    for (int i = 0; i < (d.experts ? 4 : 3); i++) {
        d.has[d.experts ? experts[i] : dense[i]] = true;
    }
    file_type_model(&file_types[type], &d, &m);
    return m;
}

// ---- the table ----

static void head(const struct llm_report * r, bool once, bool range) {
    static enum llm_way told = LLM_BY_SIZE;
    if (r->way == told) {
        return;
    }
    told = r->way;
    printf("modelled, clock %s (%d MHz%s); %s%s\n", r->clock, (int) r->mhz,
           range ? ", rows at likely" : "",
           r->way == LLM_AS_WHOLE ? "a token whole: all layers and the head in one graph, layers "
                                    "of the same datatypes with the same weights"
                                  : "by parts: one layer of each kind and the head computed, each "
                                    "submitted by itself, the rest multiplied",
           once ? "; first runs, which load all that they need" : "");
    printf("%-13s %-9s %-12s %-9s %9s %7s %8s %6s %9s %7s %6s %9s %8s %8s", "model", "file", "case",
           "part", "ms", "kernels", "dispatch", "PDIs", "MB", "% short", "waits", "stream-op", "GB",
           "flush MB");
    for (int i = 0; i < LLM_CAUSES; i++) {
        printf(" %8s", r->causes[i]);
    }
    printf("   causes in %% of the time\n");
}

struct names {
    const char *model, *file, *what;
};

static void row(const struct names * n, const char * part, const struct llm_report * r,
                const struct llm_figures * f) {
    printf("%-13s %-9s %-12s %-9s %9.3f %7.0f %8.0f %6.0f %9.1f %7.1f %6.0f %9.0f %8.3f %8.3f",
           n->model, n->file, n->what, part, f->ms, f->kernels, f->dispatches, f->pdi_loads,
           f->bytes * 1e-6, llm_short_runs(r, f), f->waits, f->operations, f->memory * 1e-9,
           f->flushed * 1e-6);
    for (int i = 0; i < LLM_CAUSES; i++) {
        printf(" %8.1f", f->ms > 0 ? 100 * f->causes[i] / f->ms : 0);
    }
    printf("\n");
    fflush(stdout);
}

static double rate(int64_t tokens, double ms) {
    return ms > 0 ? 1000 * (double) tokens / ms : 0;
}

static void runs(const char * way, const struct llm_report * r, const double bytes[LLM_RUNS]) {
    double all = 0;
    char text[16];
    for (int i = 0; i < LLM_RUNS; i++) {
        all += bytes[i];
    }
    printf("%s %.1f MB:", way, all * 1e-6);
    for (int i = 0; i < LLM_RUNS; i++) {
        printf("%s %s %.1f %%", i ? "," : "", run_label(r->below[i], text),
               all > 0 ? 100 * bytes[i] / all : 0);
    }
}

static void rows(const struct names * n, const struct decoder_model * m, int64_t tokens,
                 const struct llm_report * r) {
    for (int i = 0; i < r->n_parts; i++) {
        char part[32];
        bool is_head = i == r->n_parts - 1;
        snprintf(part, sizeof part, is_head ? "head" : "layer x%d",
                 is_head ? 0 : (int) m->kinds[i].layers);
        row(n, part, r, &r->parts[i]);
    }
    row(n, r->way == LLM_AS_WHOLE ? "token" : "model", r, &r->all);
    char ddr[32] = "no limit";
    if (r->ddr_ms > 0) {
        snprintf(ddr, sizeof ddr, "%.1f", rate(tokens, r->ddr_ms));
    }
    printf("%-13s   %.2f tokens/s; DDR would allow %s, the MACs %.1f; %.2f bytes through the shim "
           "for a byte of weights; %d of %d nodes on the device, %.0f of them by the host, %.0f "
           "planned before\n",
           n->model, rate(tokens, r->all.ms), ddr, rate(tokens, r->mac_ms),
           r->all.bytes / (double) r->all.weights, r->all.on_device, r->all.nodes, r->all.by_host,
           r->all.kept);
    printf("%-13s   bytes by the length of their runs, ", n->model);
    runs("read", r, r->all.read);
    runs("; written", r, r->all.written);
    printf("\n");
}

static void range_line(const struct names * n, int64_t tokens,
                       const struct llm_report r[EMU_RANGES]) {
    printf("%-13s   low %.2f, likely %.2f, high %.2f tokens/s; DDR would allow %.1f, %.1f, %.1f\n",
           n->model, rate(tokens, r[EMU_LOW].all.ms), rate(tokens, r[EMU_LIKELY].all.ms),
           rate(tokens, r[EMU_HIGH].all.ms), rate(tokens, r[EMU_LOW].ddr_ms),
           rate(tokens, r[EMU_LIKELY].ddr_ms), rate(tokens, r[EMU_HIGH].ddr_ms));
}

// ---- the command line ----

struct asked {
    const char * words[3]; // model, file type, case
    enum llm_way way;
    bool once, range;
};

static struct llm_device device; // open unless each clock of a range has a process of its own

static bool run(const struct asked * a, size_t m, size_t type, const struct llm_case * c) {
    static struct llm_report r[EMU_RANGES];
    struct decoder_model made = model(m, type);
    struct names n = {models[m].name, file_types[type].name, c->name};
    struct llm_ask ask = {
        .model = &made, .tokens = c->tokens, .context = c->context, .way = a->way, .once = a->once};
    struct error err = {0};
    enum status st = a->range ? llm_report_range(PLUGIN, &ask, r, &err)
                              : llm_report(&device, &ask, &r[EMU_LIKELY], &err);
    if (st != ST_OK) {
        fprintf(stderr, "bench-llm: %s %s %s: %s\n", n.model, n.file, n.what, err.text);
        return false;
    }
    head(&r[EMU_LIKELY], a->once, a->range);
    rows(&n, &made, c->tokens, &r[EMU_LIKELY]);
    if (a->range) {
        range_line(&n, c->tokens, r);
    }
    fflush(stdout);
    return true;
}

static bool matches(const char * word, const char * name) {
    return !strcmp(word, "all") || strcasestr(name, word);
}

static bool model_matches(const char * word, size_t model) {
    bool usual = false;
    for (size_t i = 0; i < USUAL_MODELS; i++) {
        usual |= matches(word, models[i].name);
    }
    return (model < USUAL_MODELS) == usual && matches(word, models[model].name);
}

// A whole name is no part of another's. What is rarely meant has to be named.
static bool type_matches(const char * word, size_t type) {
    bool whole = false, usual = type < FILE_TYPES_USUAL;
    for (size_t i = 0; i < FILE_TYPES; i++) {
        whole |= !strcasecmp(word, file_types[i].name);
    }
    return whole                  ? !strcasecmp(word, file_types[type].name)
           : !strcmp(word, "all") ? usual
                                  : matches(word, file_types[type].name);
}

static bool parse(int argc, char ** argv, struct asked * a) {
    *a = (struct asked){.words = {"Qwen", "Q4_0", "decode-512"}};
    int n = 0;
    for (int i = 1; i < argc; i++) {
        const char * word = argv[i];
        if (!strcmp(word, "--range")) {
            a->range = true;
        } else if (!strcmp(word, "once")) {
            a->once = true;
        } else if (!strcmp(word, "whole") || !strcmp(word, "layers")) {
            a->way = *word == 'w' ? LLM_AS_WHOLE : LLM_BY_PARTS;
        } else if (!strcmp(word, "kernels")) {
            setenv("GGML_HSA_PROFILE", "order", 1);
        } else if (n < 3 && *word != '-') {
            a->words[n++] = word;
        } else {
            fprintf(stderr,
                    "bench-llm: '%s' is not known\nusage: bench-llm [MODEL [TYPE [CASE]]] "
                    "[whole|layers] [once] [kernels] [--range]\n",
                    word);
            return false;
        }
    }
    if (n == 1 && !strcmp(a->words[0], "all")) {
        a->words[1] = a->words[2] = "all";
    }
    return true;
}

int main(int argc, char ** argv) {
    struct asked a;
    if (!parse(argc, argv, &a)) {
        return 2;
    }
    setenv("GGML_HSA_EMULATE", "aie2", 0);
    const char * why = a.range ? NULL : llm_open(PLUGIN, &device);
    if (why) {
        fprintf(stderr, "bench-llm: %s\n", why);
        return 1;
    }
    int ran = 0;
    bool ok = true;
    struct llm_case one;
    bool sized = case_of_size(a.words[2], &one);
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        for (size_t t = 0; t < FILE_TYPES; t++) {
            for (size_t c = 0; c < (sized ? 1 : CASES); c++) {
                if (model_matches(a.words[0], m) && type_matches(a.words[1], t) &&
                    (sized || matches(a.words[2], cases[c].name))) {
                    ok &= run(&a, m, t, sized ? &one : &cases[c]);
                    ran++;
                }
            }
        }
    }
    llm_close(&device);
    if (!ran) {
        fprintf(stderr,
                "bench-llm: no model, file type and case by '%s %s %s'; models are 0.5B, 1B, 8B, "
                "Qwen3 and gpt-oss, types Q4_0, Q4_K_M, Q8_0 and F16, cases decode-N, prefill-N "
                "and draft-N\n",
                a.words[0], a.words[1], a.words[2]);
    }
    return ran && ok ? 0 : 1;
}

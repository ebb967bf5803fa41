// ggml-hsa model, as people run it, over files with no weights in them: what it says follows from
// the sizes alone. Files that lie about themselves are refused with a reason, whatever byte of them
// was changed.
#include "base/harmful.h"
#include "base/json.h"
#include "tool-run.h"

#include "ggml.h"
#include "gguf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EMBD = 64, FF = 96, VOCAB = 256, EXPERTS = 4 };

struct change { // of a file that is right
    const char * key;
    uint32_t value;
    const char * without; // a tensor
    int64_t columns;      // of attn_q instead of its own
    bool alike;           // both layers are of one kind
    const char * name;    // of the model
    int64_t words;        // of its vocabulary
    enum ggml_type type;  // of all matrices; F32, which is 0: q4_0, and q8_0 of some
};

static char path[64];

static int make_path(void ** state) {
    (void) state;
    snprintf(path, sizeof path, "/tmp/test-model-XXXXXX");
    int file = mkstemp(path);
    return file >= 0 ? close(file) : -1;
}

static int remove_path(void ** state) {
    (void) state;
    return unlink(path);
}

// ---- files ----

static void add(struct ggml_context * ctx, struct gguf_context * g, const struct change * c,
                const char * name, enum ggml_type type, int64_t columns, int64_t rows,
                int64_t experts) {
    if (c->without && strstr(name, c->without)) {
        return;
    }
    type = c->type && rows ? c->type : type;
    columns = c->columns && strstr(name, "attn_q.weight") ? c->columns : columns;
    struct ggml_tensor * t = experts ? ggml_new_tensor_3d(ctx, type, columns, rows, experts)
                             : rows  ? ggml_new_tensor_2d(ctx, type, columns, rows)
                                     : ggml_new_tensor_1d(ctx, GGML_TYPE_F32, columns);
    ggml_set_name(t, name);
    gguf_add_tensor(g, t);
}

enum {
    LLAMA = 1,
    QWEN2 = 2,
    GEMMA2 = 4,
    QWEN3MOE = 8,
    GPT_OSS = 16,
    PHI3 = 32,
    GRANITE = 64,
    DENSE = LLAMA | QWEN2 | GEMMA2 | GRANITE,
    MIXED = QWEN3MOE | GPT_OSS,
    ALL = 127
};

static int bit_of(const char * architecture) {
    static const char * const names[] = {"llama",   "qwen2", "gemma2", "qwen3moe",
                                         "gpt-oss", "phi3",  "granite"};
    int i = 0;
    while (i < 7 && strcmp(names[i], architecture) != 0) {
        i++;
    }
    return i < 7 ? 1 << i : LLAMA;
}

static void add_layer(struct ggml_context * ctx, struct gguf_context * g, const struct change * c,
                      int layer, int of, enum ggml_type down) {
    static const struct {
        int of;
        const char * name;
        int64_t columns, rows, experts;
    } rows[] = {
        {ALL, "attn_norm.weight", EMBD, 0, 0},
        {ALL & ~PHI3, "attn_q.weight", EMBD, EMBD, 0},
        {ALL & ~PHI3, "attn_k.weight", EMBD, EMBD / 2, 0},
        {ALL & ~PHI3, "attn_v.weight", EMBD, EMBD / 2, 0},
        {PHI3, "attn_qkv.weight", EMBD, 2 * EMBD, 0},
        {ALL, "attn_output.weight", EMBD, EMBD, 0},
        {ALL & ~GPT_OSS, "ffn_norm.weight", EMBD, 0, 0},
        {DENSE, "ffn_gate.weight", EMBD, FF, 0},
        {DENSE, "ffn_up.weight", EMBD, FF, 0},
        {PHI3, "ffn_up.weight", EMBD, 2 * FF, 0},
        {DENSE | PHI3, "ffn_down.weight", FF, EMBD, 0},
        {QWEN2 | GPT_OSS, "attn_q.bias", EMBD, 0, 0},
        {QWEN2 | GPT_OSS, "attn_k.bias", EMBD / 2, 0, 0},
        {QWEN2 | GPT_OSS, "attn_v.bias", EMBD / 2, 0, 0},
        {GPT_OSS, "attn_output.bias", EMBD, 0, 0},
        {GPT_OSS, "attn_sinks.weight", 4, 0, 0},
        {GEMMA2 | GPT_OSS, "post_attention_norm.weight", EMBD, 0, 0},
        {GEMMA2, "post_ffw_norm.weight", EMBD, 0, 0},
        {MIXED, "ffn_gate_inp.weight", EMBD, EXPERTS, 0},
        {MIXED, "ffn_gate_exps.weight", EMBD, FF, EXPERTS},
        {MIXED, "ffn_up_exps.weight", EMBD, FF, EXPERTS},
        {MIXED, "ffn_down_exps.weight", FF, EMBD, EXPERTS},
        {GPT_OSS, "ffn_gate_inp.bias", EXPERTS, 0, 0},
        {GPT_OSS, "ffn_gate_exps.bias", FF, EXPERTS, 0},
        {GPT_OSS, "ffn_up_exps.bias", FF, EXPERTS, 0},
        {GPT_OSS, "ffn_down_exps.bias", EMBD, EXPERTS, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[64];
        bool is_down = strstr(rows[i].name, "ffn_down") && strstr(rows[i].name, ".weight");
        bool is_plain = strstr(rows[i].name, ".bias") || strstr(rows[i].name, "gate_inp");
        snprintf(name, sizeof name, "blk.%d.%s", layer, rows[i].name);
        if (rows[i].of & of) {
            add(ctx, g, c, name,
                is_plain  ? GGML_TYPE_F32
                : is_down ? down
                          : GGML_TYPE_Q4_0,
                rows[i].columns, rows[i].rows, rows[i].experts);
        }
    }
}

static void write_file(const char * architecture, struct change c) {
    struct ggml_context * ctx = ggml_init(
        (struct ggml_init_params){.mem_size = 128 * ggml_tensor_overhead(), .no_alloc = true});
    struct gguf_context * g = gguf_init_empty();
    gguf_set_val_str(g, "general.architecture", architecture);
    if (c.name) {
        gguf_set_val_str(g, "general.name", c.name);
    }
    int of = bit_of(architecture);
    const struct {
        int of;
        const char * key;
        uint32_t value;
    } numbers[] = {{ALL, "block_count", 2},
                   {ALL, "embedding_length", EMBD},
                   {ALL, "feed_forward_length", FF},
                   {ALL, "attention.head_count", 4},
                   {ALL, "attention.head_count_kv", 2},
                   {MIXED, "expert_count", EXPERTS},
                   {MIXED, "expert_used_count", 2},
                   {MIXED, "expert_feed_forward_length", FF}};
    char key[96];
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (!(numbers[i].of & of)) {
            continue;
        }
        bool changed = c.key && !strcmp(c.key, numbers[i].key);
        snprintf(key, sizeof key, "%s.%s", architecture, numbers[i].key);
        gguf_set_val_u32(g, key, changed ? c.value : numbers[i].value);
    }
    if (of == GRANITE) {
        gguf_set_val_f32(g, "granite.residual_scale", 0.25f);
        gguf_set_val_f32(g, "granite.logit_scale", 8);
    }
    if (of == GEMMA2) {
        gguf_set_val_f32(g, "gemma2.attn_logit_softcapping", 50);
        gguf_set_val_f32(g, "gemma2.final_logit_softcapping", 30);
    }
    add(ctx, g, &c, "token_embd.weight", GGML_TYPE_Q8_0, EMBD, c.words ? c.words : VOCAB, 0);
    add(ctx, g, &c, "output_norm.weight", GGML_TYPE_F32, EMBD, 0, 0);
    add_layer(ctx, g, &c, 0, of, GGML_TYPE_Q4_0);
    add_layer(ctx, g, &c, 1, of, c.alike ? GGML_TYPE_Q4_0 : GGML_TYPE_Q8_0);
    assert_true(gguf_write_to_file(g, path, true)); // no weights
    gguf_free(g);
    ggml_free(ctx);
}

static struct result run_model(const char * arguments) {
    char words[300];
    snprintf(words, sizeof words, "model %s %s", path, arguments);
    return run(words);
}

static void expect(const char * what, const char * arguments, int status, const char * text) {
    struct result r = run_model(arguments);
    if (r.status != status || !strstr((char *) r.text.data, text)) {
        fail_msg("%s: ggml-hsa model %s: exit status %d, not %d with '%s':\n%s", what, arguments,
                 r.status, status, text, (char *) r.text.data);
    }
    buf_free(&r.text);
}

// ---- tests ----

static int64_t number(const json_t * object, const char * key) {
    const json_t * v = json_object_get(object, key);
    assert_true(json_is_integer(v));
    return json_integer_value(v);
}

static double real(const json_t * object, const char * key) {
    const json_t * v = json_object_get(object, key);
    assert_true(json_is_real(v));
    return json_real_value(v);
}

static void architectures(void ** state) {
    (void) state;
    static const struct {
        const char * name;
        int64_t nodes; // two layers and the head, with attention as one node or as four
    } rows[] = {
        // llama: 2 norms of 2, 7 products, 2 turns, 2 rows, SWIGLU, 2 sums; the head 3.
        {"llama", 2 * 18 + 3},
        {"qwen2", 2 * 21 + 3},      // and three biases
        {"gemma2", 2 * 22 + 3 + 3}, // and two norms of two, and the cap of the output
        // Instead of three products and SWIGLU: 7 to choose, 5 and a sum for two experts.
        {"qwen3moe", 2 * (14 + 7 + 6) + 3},
        {"gpt-oss", 2 * (18 + 5 + 9) + 3}, // four biases; 5 to choose, four more for experts
        {"phi3", 2 * 16 + 3},              // 4 products, and queries are scaled
        {"granite", 2 * (18 + 2) + 3 + 1}, // sums and the output are scaled
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_file(rows[i].name, (struct change){0});
        struct result r = run_model("--context 64 --json");
        struct error err = {0};
        json_t * root = NULL;
        if (r.status || json_read((char *) r.text.data, r.text.size - 1, &root, &err) != ST_OK) {
            fail_msg("%s: exit status %d, %s:\n%s", rows[i].name, r.status, err.text,
                     (char *) r.text.data);
        }
        int64_t flash = rows[i].nodes + 2 * 1, plain = rows[i].nodes + 2 * 5;
        int64_t nodes = number(root, "nodes");
        if (!strcmp(rows[i].name, "gemma2")) { // a cap is three more where attention is not one
            plain += 2 * 3;
        }
        assert_true(nodes == flash || nodes == plain);
        assert_int_equal(number(root, "nodes_on_npu"), nodes);
        assert_int_equal(number(root, "splits"), 2);
        assert_int_equal(number(root, "kinds_of_layers"), 2);
        assert_int_equal(number(root, "cache_bytes"), 2 * 2 * 64 * 32 * 2);
        // Copies may be the host's; a norm and what it is multiplied with are one, and so are the
        // products of keys and values, and of gate and up.
        assert_true(number(root, "kernels") >= nodes - 2 - 2 * 7);
        const json_t * causes = json_object_get(root, "causes_ns");
        int64_t sum = 0, ns = number(root, "ns");
        static const char * const names[] = {"core", "bank",    "lock",     "stream", "start-up",
                                             "DDR",  "control", "reconfig", "host",   "flush"};
        for (int c = 0; c < 10; c++) {
            sum += number(causes, names[c]);
        }
        assert_true(llabs(sum - ns) <= ns / 1000 + 9);
        double product = real(root, "tokens_per_s") * (double) ns; // of six digits
        assert_true(product > 0.99999e9 && product < 1.00001e9);
        json_decref(root);
        buf_free(&r.text);
    }
}

static json_t * run_json(const char * arguments) {
    struct result r = run_model(arguments);
    struct error err = {0};
    json_t * root = NULL;
    if (r.status || json_read((char *) r.text.data, r.text.size - 1, &root, &err) != ST_OK) {
        fail_msg("ggml-hsa model %s: exit status %d, %s:\n%s", arguments, r.status, err.text,
                 (char *) r.text.data);
    }
    buf_free(&r.text);
    return root;
}

// One graph of all layers is the same kernels and the same bytes as its parts, with fewer
// submissions: the array's time is the same but for what a chain of kernels need not do again.
static void whole_and_parts(void ** state) {
    (void) state;
    static const char * const same[] = {"nodes", "nodes_on_npu", "splits", "kernels", "shim_bytes"};
    write_file("llama", (struct change){0});
    json_t *whole = run_json("--context 64 --json"),
           *parts = run_json("--context 64 --json --layers");
    assert_string_equal(json_string_value(json_object_get(whole, "computed")), "whole");
    assert_string_equal(json_string_value(json_object_get(parts, "computed")), "layers");
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        assert_int_equal(number(whole, same[i]), number(parts, same[i]));
    }
    assert_true(real(whole, "most_tokens_per_s") == real(parts, "most_tokens_per_s"));
    assert_int_equal(number(whole, "pdi_loads"), 0); // the run before has left its configuration
    assert_true(number(whole, "dispatches") < number(parts, "dispatches"));
    const json_t *a = json_object_get(whole, "causes_ns"), *b = json_object_get(parts, "causes_ns");
    int64_t saved = number(b, "host") - number(a, "host"); // two submissions of three, at least
    assert_true(saved >= 2 * 82300 - 2);
    assert_true(number(whole, "ns") < number(parts, "ns") - saved / 2);
    int64_t bytes = 0;
    const json_t * runs = json_object_get(whole, "runs");
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t * one = json_array_get(runs, i);
        bytes += number(one, "read") + number(one, "written");
    }
    assert_int_equal(bytes, number(whole, "shim_bytes"));
    // Layers of one kind share their weights here, and in a program each has its own.
    write_file("llama", (struct change){.alike = true});
    json_t * alike = run_json("--context 64 --json");
    assert_int_equal(number(alike, "kinds_of_layers"), 1);
    int64_t kept = number(whole, "memory_bytes") - number(alike, "memory_bytes"),
            in_files = number(whole, "file_bytes") - number(alike, "file_bytes");
    assert_true(llabs(kept - in_files) <= 4096);
    json_decref(alike);
    json_decref(whole);
    json_decref(parts);
}

// Each figure is that of its clock by itself, of kernels that are compiled once, whether there is a
// cache or not.
static void range(void ** state) {
    (void) state;
    char directory[] = "/tmp/test-model-XXXXXX";
    write_file("llama", (struct change){0});
    assert_non_null(mkdtemp(directory));
    setenv("TMPDIR", directory, 1);
    json_t * root = run_json("--context 64 --json --range");
    unsetenv("TMPDIR");
    assert_int_equal(rmdir(directory), 0); // nothing is left there
    static const char * const names[] = {"low", "likely", "high"};
    double most = 0;
    for (int i = 0; i < 3; i++) {
        const json_t * one = json_object_get(json_object_get(root, "range"), names[i]);
        assert_true(real(one, "most_tokens_per_s") > most);
        assert_true(i == 0 ? number(one, "kernels_compiled") > 0
                           : number(one, "kernels_compiled") == 0);
        most = real(one, "most_tokens_per_s");
        char clock[32];
        snprintf(clock, sizeof clock, "phoenix,range=%s", names[i]);
        setenv("GGML_HSA_EMU_CLOCK", clock, 1);
        json_t * alone = run_json("--context 64 --json");
        unsetenv("GGML_HSA_EMU_CLOCK");
        assert_int_equal(number(one, "ns"), number(alone, "ns"));
        assert_true(most == real(alone, "most_tokens_per_s"));
        json_decref(alone);
    }
    const json_t * likely = json_object_get(json_object_get(root, "range"), "likely");
    assert_int_equal(number(likely, "ns"), number(root, "ns"));
    json_decref(root);
    setenv("GGML_HSA_EMU_CLOCK", "phoenix,ddr=5", 1);
    expect("a memory", "--range", 1, "says which memory");
    unsetenv("GGML_HSA_EMU_CLOCK");
}

// The bound is by the bytes that the device reads: quantized blocks as they are where products take
// them so, and two bytes a number of all other types, be they longer or shorter in the file.
static void bounds(void ** state) {
    (void) state;
    static const struct {
        enum ggml_type type;
        bool planes;
        double as_bf16; // the bound of the same model in bf16, times this
    } rows[] = {
        {GGML_TYPE_F16, false, 1},     {GGML_TYPE_Q5_0, false, 1}, {GGML_TYPE_IQ4_NL, false, 3.5},
        {GGML_TYPE_Q5_0, true, 2.9}, // 22 bytes of 32 numbers, and the cache and norms are the same
        {GGML_TYPE_Q8_0, false, 1.88},
    };
    write_file("llama", (struct change){.type = GGML_TYPE_BF16});
    json_t * root = run_json("--count --json --context 1");
    double bf16 = real(root, "most_tokens_per_s");
    json_decref(root);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_file("llama", (struct change){.type = rows[i].type});
        setenv("GGML_HSA_PLANES", rows[i].planes ? "1" : "0", 1);
        root = run_json("--count --json --context 1");
        unsetenv("GGML_HSA_PLANES");
        double ratio = real(root, "most_tokens_per_s") / bf16;
        if (fabs(ratio / rows[i].as_bf16 - 1) > (rows[i].as_bf16 == 1 ? 1e-6 : 0.03)) {
            fail_msg("%s: %.3f times the bound of bf16, not %.3f", ggml_type_name(rows[i].type),
                     ratio, rows[i].as_bf16);
        }
        json_decref(root);
    }
}

static void files_that_lie(void ** state) {
    (void) state;
    static const struct {
        const char * architecture;
        struct change change;
        const char * text;
    } rows[] = {
        {"mamba", {0}, "the architecture 'mamba' is not known"},
        {"llama", {.key = "block_count", .value = 0}, "block_count is 0"},
        {"llama", {.key = "block_count", .value = 4000000000u}, "1 to 1024"},
        {"llama", {.key = "block_count", .value = 3}, "has no tensor 'blk.2.attn_norm.weight'"},
        {"llama", {.key = "embedding_length", .value = 32}, "not [32, 256, 1]"},
        {"llama", {.key = "attention.head_count", .value = 3}, "do not go together"},
        {"llama", {.key = "attention.head_count", .value = 8}, "attn_k.weight is [64, 32"},
        {"llama", {.key = "feed_forward_length", .value = 128}, "ffn_gate.weight is"},
        {"llama", {.without = "token_embd"}, "has no tensor 'token_embd.weight'"},
        {"llama", {.without = "blk.1.ffn_up"}, "has no tensor 'blk.1.ffn_up.weight'"},
        {"qwen2", {.without = "blk.1.attn_k.bias"}, "layer 1 is not like the first one"},
        {"llama", {.columns = 96}, "attn_q.weight is [96, 64"},
        {"qwen3moe", {.key = "expert_used_count", .value = 5}, "5 experts for a token, of 4"},
        {"qwen3moe", {.key = "expert_used_count", .value = 17}, "1 to 16 makes sense"},
        {"qwen3moe", {.key = "expert_count", .value = 8}, "ffn_gate_inp.weight is [64, 4"},
        {"qwen3moe", {.without = "blk.1.ffn_up_exps"}, "has no tensor 'blk.1.ffn_up_exps.weight'"},
        {"gpt-oss", {.without = "attn_sinks"}, "has no tensor 'blk.0.attn_sinks.weight'"},
        {"phi3", {.without = "attn_qkv"}, "has no tensor 'blk.0.attn_qkv.weight'"},
        {"llama", {.words = 1 << 24}, "a vocabulary of 16777216"}, // it would compute for minutes
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_file(rows[i].architecture, rows[i].change);
        expect(rows[i].text, "--count", 1, rows[i].text);
    }
    write_file("llama", (struct change){.words = 1 << 20});
    expect("", "--count", 0, "1048576 words");
    struct result r = run("model /nonexistent/file.gguf --count");
    assert_int_equal(r.status, 1);
    assert_non_null(
        strstr((char *) r.text.data, "/nonexistent/file.gguf: No such file or directory"));
    buf_free(&r.text);
    r = run("model / --count");
    assert_int_equal(r.status, 1);
    assert_non_null(strstr((char *) r.text.data, "/: Is a directory"));
    buf_free(&r.text);
    r = run("model /dev/null --count");
    assert_non_null(strstr((char *) r.text.data, "/dev/null: no GGUF file: it is empty"));
    buf_free(&r.text);
}

// A profile sends each kernel by itself, and takes nothing from what is expected.
static void profiled(void ** state) {
    (void) state;
    write_file("llama", (struct change){0});
    json_t * plain = run_json("--context 64 --json");
    struct result without = run_model("--context 64");
    setenv("GGML_HSA_PROFILE", "kernels", 1);
    struct result r = run_model("--context 64");
    unsetenv("GGML_HSA_PROFILE");
    assert_int_equal(r.status, 0);
    // The report is the same to the last byte, and the table is behind it.
    assert_true(r.text.size > without.text.size);
    assert_memory_equal(r.text.data, without.text.data, without.text.size - 1);
    buf_free(&without.text);
    const char * table = strstr((char *) r.text.data, "kernel, its operands and PDI");
    assert_non_null(table);
    assert_null(strstr(table + 1, "kernel, its operands and PDI")); // one, and of one token
    double before = 1e9;
    int rows = 0;
    for (const char * line = strchr(table, '\n'); line && strncmp(line + 1, "total", 5);
         line = strchr(line + 1, '\n')) {
        const char * colon = strchr(line, ':');
        double ms;
        if (!colon || sscanf(colon, ": %*s %*d %*d %lf", &ms) != 1) {
            continue;
        }
        assert_true(ms <= before); // the dearest first
        before = ms;
        rows++;
    }
    assert_int_equal(rows, number(plain, "kernels"));
    buf_free(&r.text);
    json_decref(plain);
}

// What the NPU does not compute is named with the limit that was met: attention as one node first,
// then what a row as long as the context is too long for.
static void reasons(void ** state) {
    (void) state;
    write_file("llama", (struct change){0});
    // which attention has no kernel for, so that it is made of products
    assert_int_equal(setenv("GGML_HSA_MUL_MAT", "precise", 1), 0);
    expect("attention", "--count --context 1048576", 0,
           "attention   by products, not FLASH_ATTN_EXT: FLASH_ATTN_EXT: ");
    expect("a long row", "--count --context 1048576", 0, "on the CPU  2 of SOFT_MAX: ");
    expect("its limit", "--count --context 1048576", 0, "too long for soft_max, which takes ");
    json_t * many = run_json("--count --json --context 1048576");
    assert_int_equal(unsetenv("GGML_HSA_MUL_MAT"), 0);
    json_t * few = run_json("--count --json --context 64");
    assert_int_equal(json_array_size(json_object_get(few, "left_to_cpu")), 0);
    const json_t * left = json_object_get(many, "left_to_cpu");
    assert_true(json_array_size(left) >= 2);
    int64_t nodes = 0;
    for (size_t i = 0; i < json_array_size(left); i++) {
        nodes += number(json_array_get(left, i), "nodes");
    }
    assert_int_equal(nodes, number(many, "nodes") - number(many, "nodes_on_npu"));
    json_decref(few);
    json_decref(many);
}

// Names are whatever the file has.
static void harmful_names(void ** state) {
    (void) state;
    static const char * const arguments[] = {"--count", "--count --json"};
    for (int i = 0; i < 4; i++) {
        write_file(i < 2 ? "llama" : HARMFUL, (struct change){.name = "a " HARMFUL});
        struct result r = run_model(arguments[i % 2]);
        assert_int_equal(r.status, i < 2 ? 0 : 1);
        if (harmful_in((char *) r.text.data)) {
            fail_msg("%s", (char *) r.text.data);
        }
        buf_free(&r.text);
    }
}

// Cut short anywhere, or with a byte turned: an answer, or an error with a reason; never a signal.
static void damaged_files(void ** state) {
    (void) state;
    write_file("llama", (struct change){0});
    FILE * file = fopen(path, "rb");
    static uint8_t bytes[1 << 16];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(size > 1000);
    for (size_t i = 0; i < 24; i++) {
        size_t at = size * i / 24;
        file = fopen(path, "wb");
        bytes[at] ^= i % 2 ? 0xff : 0;
        fwrite(bytes, 1, i % 2 ? size : at, file);
        bytes[at] ^= i % 2 ? 0xff : 0;
        fclose(file);
        struct result r = run_model("--count");
        assert_true(r.status == 0 || r.status == 1);
        assert_null(strstr((char *) r.text.data, "signal"));
        buf_free(&r.text);
    }
}

static void command_line(void ** state) {
    (void) state;
    write_file("llama", (struct change){0});
    static const struct {
        const char * arguments;
        int status;
        const char * text;
    } rows[] = {
        {"--count", 0, "2 layers of 64, 4 heads of 16, 2 of keys"},
        {"--count", 0, "1 layers: q q4_0"},
        {"--count --context 4096", 0, "a context of 4096"},
        {"--context 0", 2, "a context of '0'"},
        {"--context", 2, "wants a value"},
        {"--arch aie7", 2, "no architecture 'aie7'"},
        {"--contxt 3", 2, "did you mean '--context'"},
        {"another.gguf", 2, "one file at a time"},
        {"--count --layers", 2, "one of --count, --layers and --whole"},
        {"--count --range", 0, "by host memory; low"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect("", rows[i].arguments, rows[i].status, rows[i].text);
    }
    struct result r = run("model");
    assert_int_equal(r.status, 2);
    buf_free(&r.text);
    r = run("model /nowhere.gguf");
    assert_int_equal(r.status, 1);
    assert_non_null(strstr((char *) r.text.data, "No such file"));
    buf_free(&r.text);
}

int main(void) {
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 0);
    unsetenv("GGML_HSA_EMU_CLOCK");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(architectures), cmocka_unit_test(whole_and_parts),
        cmocka_unit_test(range),         cmocka_unit_test(files_that_lie),
        cmocka_unit_test(profiled),      cmocka_unit_test(reasons),
        cmocka_unit_test(bounds),        cmocka_unit_test(harmful_names),
        cmocka_unit_test(damaged_files), cmocka_unit_test(command_line),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}

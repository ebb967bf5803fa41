// The datatypes of weights in files, against llama-quantize: a table of what it writes for three
// models, and, where `make llama` has built it, the tool itself over files of holes, which have the
// right sizes and nothing in them.
#include "base/cmocka-all.h"
#include "file-type.h"
#include "skip.h"

#include "ggml.h"
#include "gguf.h"

#include <string.h>
#include <sys/stat.h>

struct model {
    const char *name, *architecture;
    struct decoder sizes;
};

static const struct model models[] = {
    {"0.5B",
     "qwen2",
     {.layers = 24,
      .embd = 896,
      .heads = 14,
      .kv_heads = 2,
      .head_dim = 64,
      .ff = 4864,
      .vocab = 151936}},
    {"1B",
     "llama",
     {.layers = 16,
      .embd = 2048,
      .heads = 32,
      .kv_heads = 8,
      .head_dim = 64,
      .ff = 8192,
      .vocab = 128256}},
    {"8B",
     "llama",
     {.layers = 32,
      .embd = 4096,
      .heads = 32,
      .kv_heads = 8,
      .head_dim = 128,
      .ff = 14336,
      .vocab = 128256,
      .has = {[DECODER_OUTPUT] = true}}},
    // Rows that are no whole blocks of 32.
    {"odd",
     "llama",
     {.layers = 9, .embd = 80, .heads = 4, .kv_heads = 2, .head_dim = 20, .ff = 288, .vocab = 64}},
};
enum { MODELS = sizeof models / sizeof models[0] };

static const struct file_type * type_of(const char * name) {
    int i = 0;
    while (i < FILE_TYPES && strcmp(file_types[i].name, name) != 0) {
        i++;
    }
    assert_true(i < FILE_TYPES);
    return &file_types[i];
}

// ---- the table ----

// One letter a layer: which has the better of the two datatypes of values, and of what leads down.
static const struct {
    const char * file;
    int model;
    const char *most, *v[2], *down[2], *embd, *output, *better;
} rows[] = {
    {"Q4_0", 0, "q4_0", {"q4_0"}, {"q4_0"}, "q8_0", NULL, NULL},
    {"Q4_0", 1, "q4_0", {"q4_0"}, {"q4_0"}, "q6_K", NULL, NULL},
    {"Q4_0", 2, "q4_0", {"q4_0"}, {"q4_0"}, "q4_0", "q6_K", NULL},
    {"Q4_K_M",
     0,
     "q5_0",
     {"q5_0", "q8_0"},
     {"q4_K", "q6_K"},
     "q8_0",
     NULL,
     "+++..+..+..+..+..+..++++"},
    {"Q4_K_M", 1, "q4_K", {"q4_K", "q6_K"}, {"q4_K", "q6_K"}, "q6_K", NULL, "++..+..+..+..+++"},
    {"Q4_K_M",
     2,
     "q4_K",
     {"q4_K", "q6_K"},
     {"q4_K", "q6_K"},
     "q4_K",
     "q6_K",
     "++++..+..+..+..+..+..+..+..+++++"},
    {"Q8_0", 0, "q8_0", {"q8_0"}, {"q8_0"}, "q8_0", NULL, NULL},
    {"Q8_0", 1, "q8_0", {"q8_0"}, {"q8_0"}, "q8_0", NULL, NULL},
    {"Q8_0", 2, "q8_0", {"q8_0"}, {"q8_0"}, "q8_0", "q8_0", NULL},
    {"F16", 0, "f16", {"f16"}, {"f16"}, "f16", NULL, NULL},
    {"F16", 1, "f16", {"f16"}, {"f16"}, "f16", NULL, NULL},
    {"F16", 2, "f16", {"f16"}, {"f16"}, "f16", "f16", NULL},
};

static void expect(const char * file, const struct decoder * d, enum decoder_weight w, int64_t i,
                   const char * want) {
    const char * got = ggml_type_name(file_type_weight(type_of(file), d, w, i));
    if (strcmp(got, want) != 0) {
        fail_msg("%s, %lld layers of %lld: %s of layer %lld is %s, not %s", file,
                 (long long) d->layers, (long long) d->embd, decoder_weight_name(w), (long long) i,
                 got, want);
    }
}

static void table(void ** state) {
    (void) state;
    static const enum decoder_weight plain[] = {DECODER_Q, DECODER_K, DECODER_OUT, DECODER_GATE,
                                                DECODER_UP};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const struct decoder * d = &models[rows[r].model].sizes;
        for (int64_t i = 0; i < d->layers; i++) {
            bool better = rows[r].better && rows[r].better[i] == '+';
            expect(rows[r].file, d, DECODER_V, i, rows[r].v[better]);
            expect(rows[r].file, d, DECODER_DOWN, i, rows[r].down[better]);
            expect(rows[r].file, d, DECODER_ATTN_NORM, i, "f32");
            for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++) {
                expect(rows[r].file, d, plain[k], i, rows[r].most);
            }
        }
        expect(rows[r].file, d, DECODER_EMBD, 0, rows[r].embd);
        if (rows[r].output) {
            expect(rows[r].file, d, DECODER_OUTPUT, 0, rows[r].output);
        }
    }
}

// As many layers as there are, in kinds by their datatypes, each where it belongs.
static void kinds(void ** state) {
    (void) state;
    struct decoder_model m;
    file_type_model(type_of("Q4_K_M"), &models[2].sizes, &m);
    assert_int_equal(m.n_layers, 32);
    assert_int_equal(m.n_kinds, 2);
    assert_int_equal(m.kinds[0].layers, 16);
    assert_int_equal(m.kinds[1].layers, 16);
    for (int i = 0; i < 32; i++) {
        assert_int_equal(m.kind_of[i], rows[5].better[i] != '+');
    }
    assert_int_equal(decoder_of_kind(&m, 0).types[DECODER_V], GGML_TYPE_Q6_K);
    assert_int_equal(decoder_of_kind(&m, 1).types[DECODER_V], GGML_TYPE_Q4_K);
    assert_int_equal(decoder_of_kind(&m, 1).types[DECODER_OUTPUT], GGML_TYPE_Q6_K);
    file_type_model(type_of("Q8_0"), &models[0].sizes, &m);
    assert_int_equal(m.n_kinds, 1);
    assert_int_equal(m.kinds[0].layers, 24);
}

// ---- the tool ----

static const enum decoder_weight layer_weights[] = {
    DECODER_ATTN_NORM, DECODER_Q,    DECODER_K,  DECODER_V,   DECODER_OUT,
    DECODER_FFN_NORM,  DECODER_GATE, DECODER_UP, DECODER_DOWN};
enum { LAYER_WEIGHTS = sizeof layer_weights / sizeof layer_weights[0] };

static void add(struct ggml_context * ctx, struct gguf_context * g, const struct decoder * d,
                enum decoder_weight w, const char * before) {
    int64_t ne[3];
    char name[64];
    decoder_weight_shape(d, w, ne);
    snprintf(name, sizeof name, "%s%s", before, decoder_weight_name(w));
    struct ggml_tensor * t = ne[1] ? ggml_new_tensor_2d(ctx, GGML_TYPE_F32, ne[0], ne[1])
                                   : ggml_new_tensor_1d(ctx, GGML_TYPE_F32, ne[0]);
    ggml_set_name(t, name);
    gguf_add_tensor(g, t);
}

// Weights of f32 that are a hole in the file.
static void write_file(const struct model * m, const char * to) {
    const struct decoder * d = &m->sizes;
    size_t tensors = (size_t) d->layers * LAYER_WEIGHTS + 3;
    struct ggml_context * ctx = ggml_init(
        (struct ggml_init_params){.mem_size = tensors * ggml_tensor_overhead(), .no_alloc = true});
    struct gguf_context * g = gguf_init_empty();
    gguf_set_val_str(g, "general.architecture", m->architecture);
    const struct {
        const char * key;
        int64_t value;
    } numbers[] = {{"context_length", 512},
                   {"vocab_size", d->vocab},
                   {"block_count", d->layers},
                   {"embedding_length", d->embd},
                   {"feed_forward_length", d->ff},
                   {"attention.head_count", d->heads},
                   {"attention.head_count_kv", d->kv_heads}};
    char key[96];
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        snprintf(key, sizeof key, "%s.%s", m->architecture, numbers[i].key);
        gguf_set_val_u32(g, key, (uint32_t) numbers[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", m->architecture);
    gguf_set_val_f32(g, key, 1e-5f);
    add(ctx, g, d, DECODER_EMBD, "");
    add(ctx, g, d, DECODER_OUTPUT_NORM, "");
    if (d->has[DECODER_OUTPUT]) {
        add(ctx, g, d, DECODER_OUTPUT, "");
    }
    for (int64_t i = 0; i < d->layers; i++) {
        char before[32];
        snprintf(before, sizeof before, "blk.%lld.", (long long) i);
        for (int w = 0; w < LAYER_WEIGHTS; w++) {
            add(ctx, g, d, layer_weights[w], before);
        }
    }
    assert_true(gguf_write_to_file(g, to, true));
    size_t last = (size_t) gguf_get_n_tensors(g) - 1;
    size_t end =
        gguf_get_tensor_offset(g, (int64_t) last) + gguf_get_tensor_size(g, (int64_t) last);
    assert_int_equal(truncate(to, (off_t) (gguf_get_meta_size(g) + end)), 0);
    gguf_free(g);
    ggml_free(ctx);
}

// The weight that a tensor is, by its name; false: none of ours.
static bool find_weight(const char * name, enum decoder_weight * w, int64_t * layer) {
    long long at = 0;
    int n = 0;
    *layer = sscanf(name, "blk.%lld.%n", &at, &n) == 1 ? at : 0;
    for (int i = 0; i < DECODER_WEIGHTS; i++) {
        if (!strcmp(name + n, decoder_weight_name((enum decoder_weight) i))) {
            *w = (enum decoder_weight) i;
            return true;
        }
    }
    return false;
}

// A line is "[   1/ 147]  blk.0.attn_v.weight - [ 896, 128, 1, 1], type = f32, size = 0.44 MiB ->
// 0.08 MiB (q5_0)", without an arrow where the datatype stays.
static int compare(const struct model * m, const struct file_type * f, const char * from) {
    char command[1200], line[512], said[512] = "";
    bool pure = f->pure;
    snprintf(command, sizeof command, "'%s/llama-quantize' --dry-run %s '%s' %.*s 2>&1", LLAMA,
             pure ? "--pure" : "", from, (int) strcspn(f->name, "-"), f->name);
    FILE * out = popen(command, "r");
    assert_non_null(out);
    int n = 0;
    while (fgets(line, sizeof line, out)) {
        char name[64], type[16] = "f32";
        enum decoder_weight w;
        int64_t layer;
        const char * end = strrchr(line, '(');
        if (sscanf(line, "[%*d/%*d] %63s - [", name) != 1 || !find_weight(name, &w, &layer)) {
            snprintf(said, sizeof said, "%s", line);
            continue;
        }
        if (strstr(line, "->") && end) {
            sscanf(end, "(%15[a-zA-Z0-9_])", type);
        }
        const char * ours = ggml_type_name(file_type_weight(f, &m->sizes, w, layer));
        if (strcmp(ours, type) != 0) {
            fail_msg("%s %s: %s is %s, llama-quantize has %s", m->name, f->name, name, ours, type);
        }
        n++;
    }
    int status = pclose(out);
    if (status != 0) {
        fail_msg("%s: exit status %d: %s", command, status, said);
    }
    return n;
}

static char path[64];

static int make_path(void ** state) {
    (void) state;
    snprintf(path, sizeof path, "/tmp/test-file-type-XXXXXX");
    int file = mkstemp(path);
    return file >= 0 ? close(file) : -1;
}

static int remove_path(void ** state) {
    (void) state;
    return unlink(path);
}

static void tool(void ** state) {
    (void) state;
    if (access(LLAMA "/llama-quantize", X_OK) != 0) {
        skip_test("no llama-quantize in %s; `make llama` builds it", LLAMA);
    }
    for (int i = 0; i < MODELS; i++) {
        const struct decoder * d = &models[i].sizes;
        write_file(&models[i], path);
        for (int f = 0; f < FILE_TYPES; f++) {
            int tensors = (int) d->layers * LAYER_WEIGHTS + 2 + d->has[DECODER_OUTPUT];
            assert_int_equal(compare(&models[i], &file_types[f], path), tensors);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table), cmocka_unit_test(kinds),
        cmocka_unit_test_setup_teardown(tool, make_path, remove_path)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// logits BACKENDS MODEL DEVICE OUT, logits --compare A B: what llama.cpp's library computes with a
// model, on that device or, where it is "none", on the CPU. BACKENDS is the directory of ggml's.
// The tokens are the same ones each time, whatever the model would have said: a prompt, then one by
// one. Of a model that embeds, the mean of all is taken. OUT gets the numbers as they are, and what
// the library logs goes to the standard error, where ggml's scheduler tells (GGML_SCHED_DEBUG=2)
// which node it gave to whom. Comparing prints the mean of the squared differences over that of the
// squares of A.
#include "llama.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 20, ALONE = 6, FIRST_WORD = 259, WORDS = 240, CONTEXT = 128 };

static int fail(const char * what, const char * name) {
    fprintf(stderr, "logits: %s: %s\n", what, name);
    return 1;
}

static void tell(enum ggml_log_level level, const char * text, void * user) {
    (void) level, (void) user;
    fputs(text, stderr);
}

static bool keep(FILE * out, const float * numbers, int n) {
    return numbers && fwrite(numbers, sizeof *numbers, (size_t) n, out) == (size_t) n;
}

static bool run(struct llama_context * ctx, int vocabulary, FILE * out) {
    llama_token tokens[PROMPT + ALONE];
    for (int i = 0; i < PROMPT + ALONE; i++) {
        tokens[i] = FIRST_WORD + i * 37 % WORDS;
    }
    bool ok = llama_decode(ctx, llama_batch_get_one(tokens, PROMPT)) == 0 &&
              keep(out, llama_get_logits_ith(ctx, -1), vocabulary);
    for (int i = 0; i < ALONE && ok; i++) {
        ok = llama_decode(ctx, llama_batch_get_one(tokens + PROMPT + i, 1)) == 0 &&
             keep(out, llama_get_logits_ith(ctx, -1), vocabulary);
    }
    return ok;
}

static bool embed(struct llama_context * ctx, int width, FILE * out) {
    struct llama_batch batch = llama_batch_init(PROMPT, 0, 1);
    for (int i = 0; i < PROMPT; i++) {
        batch.token[i] = FIRST_WORD + i * 37 % WORDS;
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    batch.n_tokens = PROMPT;
    bool ok = llama_encode(ctx, batch) == 0 && keep(out, llama_get_embeddings_seq(ctx, 0), width);
    llama_batch_free(batch);
    return ok;
}

static int compute(const char * backends, const char * path, const char * device, const char * to) {
    llama_log_set(tell, NULL);
    ggml_backend_load_all_from_path(backends);
    ggml_backend_dev_t devices[2] = {NULL, NULL};
    bool on_cpu = !strcmp(device, "none");
    devices[0] = on_cpu ? NULL : ggml_backend_dev_by_name(device);
    if (!on_cpu && !devices[0]) {
        return fail("no such device", device);
    }
    struct llama_model_params mp = llama_model_default_params();
    mp.devices = devices;
    mp.n_gpu_layers = on_cpu ? 0 : 99;
    struct llama_model * model = llama_model_load_from_file(path, mp);
    if (!model) {
        return fail("the model cannot be loaded", path);
    }
    char architecture[32] = "";
    llama_model_meta_val_str(model, "general.architecture", architecture, sizeof architecture);
    bool embeds = !strcmp(architecture, "bert");
    struct llama_context_params cp = llama_context_default_params();
    cp.n_ctx = cp.n_batch = cp.n_ubatch = CONTEXT;
    cp.n_threads = cp.n_threads_batch = 1;
    cp.embeddings = embeds;
    struct llama_context * ctx = llama_init_from_model(model, cp);
    FILE * out = ctx ? fopen(to, "wb") : NULL;
    bool ok = out && (embeds ? embed(ctx, llama_model_n_embd(model), out)
                             : run(ctx, llama_vocab_n_tokens(llama_model_get_vocab(model)), out));
    ok = out && fclose(out) == 0 && ok;
    llama_free(ctx);
    llama_model_free(model);
    return ok ? 0 : fail("it cannot be computed", path);
}

static int compare(const char * a, const char * b) {
    FILE *one = fopen(a, "rb"), *other = fopen(b, "rb");
    double off = 0, all = 0;
    float x, y;
    size_t n = 0;
    while (one && other && fread(&x, sizeof x, 1, one) == 1) {
        if (fread(&y, sizeof y, 1, other) != 1) {
            return fail("is shorter", b);
        }
        off += ((double) x - y) * ((double) x - y);
        all += (double) x * x;
        n++;
    }
    if (n == 0 || !(all > 0) || fread(&y, sizeof y, 1, other) == 1) {
        return fail("is not like the other", a);
    }
    printf("%.2e\n", off / all);
    return 0;
}

int main(int argc, char ** argv) {
    if (argc == 4 && !strcmp(argv[1], "--compare")) {
        return compare(argv[2], argv[3]);
    }
    if (argc != 5) {
        fprintf(stderr, "usage: logits BACKENDS MODEL DEVICE OUT | logits --compare A B\n");
        return 2;
    }
    return compute(argv[1], argv[2], argv[3], argv[4]);
}

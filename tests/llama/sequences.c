// sequences BACKENDS MODEL DEVICES LAYERS: what llama.cpp's library writes with a model, as servers
// ask it for text. DEVICES are names with commas between them, over which the last LAYERS layers
// are divided evenly, or "none". Eight sequences, each with a prompt of its own length, go on
// together, one token of each in a batch; then one sequence has tokens drafted, some of them wrong,
// which are computed together, and what was wrong is taken back from the cache. A line each: the
// tokens, the most likely each time. Fails where drafts change the text, or where none was taken,
// or none taken back.
#include "llama.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLOTS = 8,
    TOKENS = 6,
    DRAFTED = 4,
    LENGTH = 14,
    CONTEXT = 64,
    FIRST_WORD = 259,
    WORDS = 240
};

static int fail(const char * what, const char * name) {
    fprintf(stderr, "sequences: %s: %s\n", what, name);
    return 1;
}

static llama_token word(int slot, int i) {
    return FIRST_WORD + (slot * 53 + i * 37) % WORDS;
}

static void add(struct llama_batch * b, llama_token token, int slot, int position, bool told) {
    int i = b->n_tokens++;
    b->token[i] = token;
    b->pos[i] = position;
    b->n_seq_id[i] = 1;
    b->seq_id[i][0] = slot;
    b->logits[i] = told;
}

static llama_token likely(struct llama_context * ctx, int row, int words) {
    const float * logits = llama_get_logits_ith(ctx, row);
    llama_token best = 0;
    for (int i = 1; logits && i < words; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

static bool together(struct llama_context * ctx, int words) {
    struct llama_batch b = llama_batch_init(CONTEXT * SLOTS, 0, 1);
    llama_token text[SLOTS][TOKENS];
    int length[SLOTS], row[SLOTS];
    bool ok = true;
    for (int s = 0; s < SLOTS; s++) {
        length[s] = 2 + s;
        for (int i = 0; i < length[s]; i++) {
            add(&b, word(s, i), s, i, i == length[s] - 1);
        }
        row[s] = b.n_tokens - 1;
    }
    for (int t = 0; t < TOKENS && ok; t++) {
        ok = llama_decode(ctx, b) == 0;
        for (int s = 0; s < SLOTS && ok; s++) {
            text[s][t] = likely(ctx, row[s], words);
        }
        b.n_tokens = 0;
        for (int s = 0; s < SLOTS && ok; s++) {
            row[s] = b.n_tokens;
            add(&b, text[s][t], s, length[s]++, true);
        }
    }
    for (int s = 0; s < SLOTS && ok; s++) {
        printf("slot %d:", s);
        for (int t = 0; t < TOKENS; t++) {
            printf(" %d", (int) text[s][t]);
        }
        printf("\n");
    }
    llama_batch_free(b);
    return ok;
}

// Without drafts: `drafts` is NULL. Returns how many batches it took, 0 where it failed.
static int alone(struct llama_context * ctx, int words, const llama_token * drafts,
                 llama_token text[LENGTH], int * rejected) {
    struct llama_batch b = llama_batch_init(CONTEXT, 0, 1);
    llama_memory_t memory = llama_get_memory(ctx);
    int batches = 0, n = 0, position = 3, row = 2;
    bool ok = true;
    llama_memory_clear(memory, true);
    for (int i = 0; i < 3; i++) {
        add(&b, word(3, i), 0, i, i == 2);
    }
    while (ok && n < LENGTH) {
        int first = b.n_tokens, n_drafts = 0;
        for (; batches && drafts && n_drafts < DRAFTED && n + n_drafts < LENGTH; n_drafts++) {
            add(&b, drafts[n + n_drafts], 0, position + n_drafts, true);
        }
        ok = llama_decode(ctx, b) == 0;
        batches++;
        int kept = 0;
        for (bool right = true; ok && right && n < LENGTH;) {
            text[n] = likely(ctx, row + kept, words);
            right = kept < n_drafts && b.token[first + kept] == text[n];
            kept += right;
            n++;
        }
        *rejected += n_drafts - kept;
        position += kept;
        ok = ok && llama_memory_seq_rm(memory, 0, position, -1);
        b.n_tokens = 0;
        row = 0;
        add(&b, text[n - 1], 0, position++, true);
    }
    llama_batch_free(b);
    return ok ? batches : 0;
}

static bool drafted(struct llama_context * ctx, int words) {
    llama_token plain[LENGTH], drafts[LENGTH], text[LENGTH];
    int rejected = 0, slow = alone(ctx, words, NULL, plain, &rejected);
    for (int i = 0; i < LENGTH && slow; i++) {
        drafts[i] = plain[i] + (i % 5 == 3);
    }
    int fast = slow ? alone(ctx, words, drafts, text, &rejected) : 0;
    if (!fast || memcmp(plain, text, sizeof text) || fast >= slow || !rejected) {
        fprintf(stderr, "sequences: %d batches with drafts, %d without, %d drafts were wrong\n",
                fast, slow, rejected);
        return false;
    }
    printf("drafted:");
    for (int i = 0; i < LENGTH; i++) {
        printf(" %d", (int) text[i]);
    }
    printf("\n");
    return true;
}

static void tell(enum ggml_log_level level, const char * text, void * user) {
    (void) level, (void) user;
    fputs(text, stderr);
}

int main(int argc, char ** argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: sequences BACKENDS MODEL DEVICES LAYERS\n");
        return 2;
    }
    llama_log_set(tell, NULL);
    ggml_backend_load_all_from_path(argv[1]);
    ggml_backend_dev_t devices[5] = {NULL};
    float even[128] = {1, 1, 1, 1};
    int n = 0;
    for (char * name = strtok(argv[3], ","); name && n < 4; name = strtok(NULL, ",")) {
        if (strcmp(name, "none") && !(devices[n++] = ggml_backend_dev_by_name(name))) {
            return fail("no such device", name);
        }
    }
    struct llama_model_params mp = llama_model_default_params();
    mp.devices = devices;
    mp.n_gpu_layers = atoi(argv[4]);
    mp.tensor_split = even;
    struct llama_model * model = llama_model_load_from_file(argv[2], mp);
    if (!model) {
        return fail("the model cannot be loaded", argv[2]);
    }
    struct llama_context_params cp = llama_context_default_params();
    cp.n_ctx = CONTEXT * SLOTS;
    cp.n_batch = cp.n_ubatch = CONTEXT;
    cp.n_seq_max = SLOTS;
    cp.n_threads = cp.n_threads_batch = 1;
    struct llama_context * ctx = llama_init_from_model(model, cp);
    int words = llama_vocab_n_tokens(llama_model_get_vocab(model));
    bool ok = ctx && together(ctx, words) && drafted(ctx, words);
    llama_free(ctx);
    llama_model_free(model);
    return ok ? 0 : fail("it cannot be computed", argv[2]);
}

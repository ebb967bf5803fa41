// token BACKENDS MODEL DEVICE CONTEXT: what a token costs on an emulated NPU when llama.cpp's
// library itself computes it: kernels, dispatches, loads of PDIs and nanoseconds of the model's
// clock. Five tokens come before it, so that what it needs is loaded and planned. llama.cpp's
// attention looks at 256 tokens of the cache at least, however few are in it: with a CONTEXT of 256
// the token is one at that context. BACKENDS is the directory of ggml's.
#include "ggml-hsa.h"
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEFORE = 5, FIRST_WORD = 259, WORDS = 240 };

static int fail(const char * what, const char * name) {
    fprintf(stderr, "token: %s: %s\n", what, name);
    return 1;
}

static void keep_quiet(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

struct counted {
    struct ggml_backend_hsa_stats stats;
    struct ggml_backend_hsa_account account;
};

static bool count(ggml_backend_dev_t dev, struct counted * out) {
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(dev);
    void * of_stats = ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_get_stats");
    void * of_account = ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_get_account");
    ggml_backend_hsa_get_stats_t get_stats;
    ggml_backend_hsa_get_account_t get_account;
    memcpy(&get_stats, &of_stats, sizeof get_stats);
    memcpy(&get_account, &of_account, sizeof get_account);
    *out = (struct counted){.account = {.size = sizeof out->account}};
    return get_stats && get_account && get_stats(dev, &out->stats) &&
           get_account(dev, &out->account);
}

int main(int argc, char ** argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: token BACKENDS MODEL DEVICE CONTEXT\n");
        return 2;
    }
    llama_log_set(keep_quiet, NULL);
    ggml_backend_load_all_from_path(argv[1]);
    ggml_backend_dev_t devices[] = {ggml_backend_dev_by_name(argv[3]), NULL};
    if (!devices[0]) {
        return fail("no such device", argv[3]);
    }
    struct llama_model_params mp = llama_model_default_params();
    mp.devices = devices;
    mp.n_gpu_layers = -1;
    struct llama_model * model = llama_model_load_from_file(argv[2], mp);
    struct llama_context_params cp = llama_context_default_params();
    cp.n_ctx = (uint32_t) atoi(argv[4]);
    cp.n_batch = cp.n_ubatch = 1;
    struct llama_context * ctx = model ? llama_init_from_model(model, cp) : NULL;
    if (!ctx) {
        return fail("the model cannot be loaded", argv[2]);
    }
    struct counted a = {0}, b = {0};
    bool ok = true;
    for (int i = 0; i <= BEFORE && ok; i++) {
        llama_token token = FIRST_WORD + i * 37 % WORDS;
        ok = count(devices[0], &a) && llama_decode(ctx, llama_batch_get_one(&token, 1)) == 0 &&
             llama_get_logits_ith(ctx, -1) && count(devices[0], &b);
    }
    if (!ok) {
        return fail("the model cannot be computed", argv[2]);
    }
    printf("%llu %llu %llu %llu\n", (unsigned long long) (b.stats.dispatches - a.stats.dispatches),
           (unsigned long long) (b.account.dispatches - a.account.dispatches),
           (unsigned long long) (b.account.pdi_loads - a.account.pdi_loads),
           (unsigned long long) (b.account.ns - a.account.ns));
    llama_free(ctx);
    llama_model_free(model);
    return 0;
}

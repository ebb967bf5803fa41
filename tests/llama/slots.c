// slots BACKENDS MODEL on|off SLOTS: what a token costs on an emulated NPU when llama.cpp's library
// decodes for so many sequences at once, as a server does for its clients, with flash attention or
// without. Each sequence has a prompt of its own and a cache of its own. Two tokens of each come
// behind the prompts; the first makes kernels and weights ready, of the second a line is printed:
// what the plugin counted, the modelled time in milliseconds, and three of its causes. BACKENDS is
// the directory of ggml's.
#include "ggml-hsa.h"
#include "llama.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 5, CONTEXT = 256, MOST_SLOTS = 16, FIRST_WORD = 259, WORDS = 240 };

static ggml_backend_dev_t device;
static ggml_backend_hsa_get_stats_t get_stats;
static ggml_backend_hsa_get_account_t get_account;

struct state {
    struct ggml_backend_hsa_stats stats;
    struct ggml_backend_hsa_account account;
};

static struct state look(void) {
    struct state s = {.account.size = sizeof s.account};
    get_stats(device, &s.stats);
    get_account(device, &s.account);
    return s;
}

static int fail(const char * what, const char * name) {
    fprintf(stderr, "slots: %s: %s\n", what, name);
    return 1;
}

static void say_nothing(enum ggml_log_level level, const char * text, void * user) {
    (void) level, (void) text, (void) user;
}

static bool open_device(const char * backends) {
    llama_log_set(say_nothing, NULL);
    ggml_backend_load_all_from_path(backends);
    device = ggml_backend_dev_by_name("HSA0");
    ggml_backend_reg_t reg = device ? ggml_backend_dev_backend_reg(device) : NULL;
    void * stats =
        reg ? ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_get_stats") : NULL;
    void * account =
        reg ? ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_get_account") : NULL;
    memcpy(&get_stats, &stats, sizeof stats);
    memcpy(&get_account, &account, sizeof account);
    struct ggml_backend_hsa_account a = {.size = sizeof a};
    return stats && account && get_account(device, &a);
}

// Of each sequence n tokens that begin at a place.
static bool decode(struct llama_context * ctx, int slots, int at, int n) {
    struct llama_batch batch = llama_batch_init(slots * n, 0, 1);
    for (int slot = 0; slot < slots; slot++) {
        for (int i = at; i < at + n; i++) {
            int k = batch.n_tokens++;
            batch.token[k] = FIRST_WORD + (i * 37 + slot * 11) % WORDS;
            batch.pos[k] = i;
            batch.n_seq_id[k] = 1;
            batch.seq_id[k][0] = slot;
            batch.logits[k] = i == at + n - 1;
        }
    }
    bool ok = llama_decode(ctx, batch) == 0;
    llama_synchronize(ctx);
    llama_batch_free(batch);
    return ok;
}

static double cause_ms(const struct state * a, const struct state * b, const char * name) {
    for (int i = 0; i < GGML_BACKEND_HSA_CAUSES; i++) {
        const char * one = b->account.causes[i].name;
        if (one && !strcmp(one, name)) {
            uint64_t cycles = b->account.causes[i].cycles - a->account.causes[i].cycles;
            return (double) cycles / (double) b->account.mhz * 1e-3;
        }
    }
    return 0;
}

static void tell(const char * flash, int slots, const struct state * a, const struct state * b) {
    const struct ggml_backend_hsa_stats *x = &a->stats, *y = &b->stats;
    printf("%-5s %5d %7llu %10llu %5llu %5llu %8llu %4llu %8.3f %8.3f %8.3f %8.3f\n", flash, slots,
           (unsigned long long) (y->dispatches - x->dispatches),
           (unsigned long long) (b->account.dispatches - a->account.dispatches),
           (unsigned long long) (b->account.pdi_loads - a->account.pdi_loads),
           (unsigned long long) (y->waits - x->waits),
           (unsigned long long) (y->host_copies - x->host_copies),
           (unsigned long long) (y->cpu_nodes - x->cpu_nodes),
           (double) (b->account.ns - a->account.ns) * 1e-6, cause_ms(a, b, "control"),
           cause_ms(a, b, "lock"), cause_ms(a, b, "host"));
}

int main(int argc, char ** argv) {
    int slots = argc == 5 ? atoi(argv[4]) : 0;
    if (slots < 1 || slots > MOST_SLOTS) {
        fprintf(stderr, "usage: slots BACKENDS MODEL on|off SLOTS\n");
        return 2;
    }
    if (!open_device(argv[1])) {
        return fail("no emulated NPU", "HSA0");
    }
    ggml_backend_dev_t devices[] = {device, NULL};
    struct llama_model_params mp = llama_model_default_params();
    mp.devices = devices;
    mp.n_gpu_layers = 99;
    struct llama_model * model = llama_model_load_from_file(argv[2], mp);
    if (!model) {
        return fail("the model cannot be loaded", argv[2]);
    }
    struct llama_context_params cp = llama_context_default_params();
    cp.n_ctx = (uint32_t) (CONTEXT * slots);
    cp.n_seq_max = (uint32_t) slots;
    cp.n_threads = cp.n_threads_batch = 1;
    cp.flash_attn_type =
        strcmp(argv[3], "off") ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    struct llama_context * ctx = llama_init_from_model(model, cp);
    bool ok = ctx && decode(ctx, slots, 0, PROMPT) && decode(ctx, slots, PROMPT, 1);
    struct state before = look();
    ok = ok && decode(ctx, slots, PROMPT + 1, 1);
    struct state after = look();
    if (ok) {
        tell(argv[3], slots, &before, &after);
    }
    llama_free(ctx);
    llama_model_free(model);
    return ok ? 0 : fail("it cannot be computed", argv[2]);
}

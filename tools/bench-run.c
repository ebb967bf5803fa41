// bench-run: one kernel on the emulated array, through the same store, client and runtime as the
// backend's. It runs twice: the first dispatch finds another configuration, the second its own. A
// range is three runtimes one after the other, each with its clock, and one kernel.
#include "bench.h"
#include "range.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct told {
    int n;
    struct hsac_account * accounts[2];
};

static void on_dispatch(void * user, uint32_t tag, const struct hsac_account * account) {
    struct told * told = user;
    if (tag && told->n < 2) { // not the client's own packets
        struct hsac_account * to = told->accounts[told->n++];
        *to = *account;
        to->clock = NULL; // the runtime's texts go with it
        for (int i = 0; i < HSAC_CAUSES; i++) {
            to->causes[i].name = NULL;
        }
    }
}

// Ordinary numbers in every datatype: near 1 as floats, small as integers.
static void fill(enum dtype t, uint8_t * data, size_t bytes, uint32_t seed) {
    size_t size = (size_t) dtype_size(t);
    for (size_t i = 0; i + size <= bytes; i += size) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t v = seed >> 16;
        float f = 1.0f + (float) (v & 0xff) / 256;
        uint32_t bits;
        memcpy(&bits, &f, 4);
        bits = t == DTYPE_F32    ? bits
               : t == DTYPE_BF16 ? bits >> 16
               : t == DTYPE_F16  ? 0x3c00 | (v & 0x3ff)
                                 : (v & 0x3f) + 1;
        store_u32(data + i, bits); // little-endian: the low bytes come first
        if (i + 4 > bytes) {
            break;
        }
    }
}

static const char * source_of(const struct store_stats * s) {
    return s->pack_hits ? "from a pack" : s->cache_hits ? "from the cache" : "compiled";
}

static enum status get_kernel(const struct bench_task * t, const char * pack, struct store ** store,
                              struct store_kernel ** kernel, struct bench_result * out,
                              struct error * err) {
    enum status st;
    if (pack) {
        setenv("GGML_HSA_KERNEL_DIR", pack, 1);
        setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
        unsetenv("GGML_HSA_JIT_COMMAND");
        snprintf(out->pack, sizeof out->pack, "%s", pack);
        st = store_new_with(NULL, store, err);
    } else {
        st = store_new(store, err);
    }
    if (st == ST_OK && pack && !store_can(*store, &t->spec)) {
        char name[KERNEL_NAME_MAX];
        kernel_name(&t->spec, name);
        return error_set(err, ST_NOT_FOUND,
                         "no kernel %s of %s in this pack; ggml-hsa-gen-kernels --list "
                         "--output-dir %.80s tells what it holds",
                         name, kernel_arch_name(t->spec.arch), pack);
    }
    if (st == ST_OK) {
        st = store_get(*store, &t->spec, kernel, err);
    }
    if (st == ST_OK) {
        struct store_stats stats;
        store_get_stats(*store, &stats);
        out->source = source_of(&stats);
        out->pdi_bytes = (*kernel)->pdi->size;
        out->insts_words = (*kernel)->n_insts;
    }
    return st;
}

static enum status place(struct hsac_agent * a, enum hsac_pool pool, const void * from, size_t size,
                         void ** out, struct error * err) {
    *out = hsac_alloc(a, pool, size);
    if (!*out) {
        return error_set(err, ST_NO_MEMORY, "no device memory for %zu bytes; take a smaller shape",
                         size);
    }
    return from ? hsac_write(a, *out, from, size, err) : ST_OK;
}

static enum status place_operands(struct hsac_agent * a, const struct kernel_spec * spec,
                                  struct hsac_dispatch * d, struct error * err) {
    enum status st = ST_OK;
    d->n_operands = spec->n_inputs + 1;
    for (int i = 0; i < d->n_operands && st == ST_OK; i++) {
        const struct tensor * t = i < spec->n_inputs ? &spec->inputs[i] : &spec->output;
        size_t bytes = ((size_t) tensor_bytes(t) + 3) / 4 * 4;
        uint8_t * data = calloc(1, bytes + 4);
        if (!data) {
            return error_set(err, ST_NO_MEMORY, "no memory for %zu bytes; take a smaller shape",
                             bytes);
        }
        if (i < spec->n_inputs) {
            fill(t->dtype, data, bytes, 7u + (uint32_t) i);
        }
        d->operands[i].size = bytes;
        st = place(a, HSAC_POOL_DATA, data, bytes, &d->operands[i].addr, err);
        free(data);
    }
    return st;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static enum status dispatch(struct hsac_agent * a, struct hsac_queue * q,
                            const struct hsac_dispatch * d, struct bench_result * out,
                            struct error * err) {
    struct told told = {.accounts = {&out->first, &out->again}};
    hsac_agent_watch(a, on_dispatch, &told);
    enum status st = ST_OK;
    for (int i = 0; i < 2 && st == ST_OK; i++) {
        double start = seconds();
        st = hsac_queue_dispatch(q, d, err);
        if (st == ST_OK) {
            st = hsac_queue_wait(q, err);
        }
        out->wall_seconds = seconds() - start; // of the last one
    }
    hsac_agent_watch(a, NULL, NULL);
    if (st == ST_OK && told.n != 2) {
        st = error_set(err, ST_DEVICE, "%s gives no account of its time", hsac_agent_name(a));
    }
    return st;
}

static enum status run_on(struct hsac_agent * a, const struct bench_task * t,
                          const struct store_kernel * kernel, struct bench_result * out,
                          struct error * err) {
    char name[KERNEL_NAME_MAX];
    kernel_name(&t->spec, name);
    struct hsac_dispatch d = {.pdi_size = kernel->pdi->size,
                              .n_insts = (uint32_t) kernel->n_insts,
                              .tag = 1,
                              .name = hsac_agent_traces(a) ? name : NULL};
    struct hsac_queue * q = NULL;
    void *pdi = NULL, *insts = NULL;
    enum status st = hsac_queue_new(a, &q, err);
    if (st == ST_OK) {
        st = place(a, HSAC_POOL_DEV, kernel->pdi->data, kernel->pdi->size, &pdi, err);
    }
    if (st == ST_OK) {
        st = place(a, HSAC_POOL_STREAM, kernel->insts, 4 * kernel->n_insts, &insts, err);
    }
    if (st == ST_OK) {
        st = place_operands(a, &t->spec, &d, err);
    }
    d.pdi = pdi;
    d.insts = insts;
    if (st == ST_OK) {
        st = dispatch(a, q, &d, out, err);
    }
    const int last = t->spec.n_inputs;
    if (st == ST_OK) {
        out->output_bytes = (size_t) tensor_bytes(&t->spec.output);
        out->output = malloc(out->output_bytes);
        st = out->output ? hsac_read(a, out->output, d.operands[last].addr, out->output_bytes, err)
                         : error_set(err, ST_NO_MEMORY, "no memory for the result");
    }
    hsac_queue_free(q);
    for (int i = 0; i <= last; i++) {
        hsac_free(a, d.operands[i].addr);
    }
    hsac_free(a, insts);
    hsac_free(a, pdi);
    return st;
}

// The runtime reads its clock when it is opened.
static enum status run_under(const char * clock, const struct bench_task * t,
                             const struct store_kernel * kernel, struct bench_result * out,
                             struct error * err) {
    struct hsac * h = NULL;
    if (clock) {
        setenv("GGML_HSA_EMU_CLOCK", clock, 1);
    }
    enum status st = hsac_open(&h, err);
    if (st == ST_OK) {
        st = run_on(hsac_agent_get(h, 0), t, kernel, out, err);
        hsac_close(h);
    }
    return st;
}

static enum status run_range(const struct bench_task * t, const struct store_kernel * kernel,
                             struct bench_result * out, struct error * err) {
    static const enum emu_range order[EMU_RANGES] = {EMU_LOW, EMU_HIGH, EMU_LIKELY};
    char clock[RANGE_TEXT];
    const char * before = getenv("GGML_HSA_EMU_CLOCK");
    char * asked = before ? strdup(before) : NULL;
    enum status st =
        before && !asked ? error_set(err, ST_NO_MEMORY, "no memory for a clock") : ST_OK;
    for (int i = 0; i < EMU_RANGES && st == ST_OK; i++) {
        st = range_clock(asked, t->clock.name, order[i], clock, err);
        if (st == ST_OK) {
            bench_result_free(out);
            st = run_under(clock, t, kernel, out, err);
            out->range[order[i]] = out->again;
        }
    }
    if (asked) {
        setenv("GGML_HSA_EMU_CLOCK", asked, 1);
    } else {
        unsetenv("GGML_HSA_EMU_CLOCK");
    }
    free(asked);
    return st;
}

enum status bench_run(const struct bench_task * t, const char * pack, struct bench_result * out,
                      struct error * err) {
    struct store * store = NULL;
    struct store_kernel * kernel = NULL;
    *out = (struct bench_result){0};
    enum status st = get_kernel(t, pack, &store, &kernel, out, err);
    if (st == ST_OK) {
        char device[32];
        snprintf(device, sizeof device, "%s:%d", kernel_arch_name(t->spec.arch),
                 bench_columns(&t->spec));
        setenv("GGML_HSA_EMULATE", device, 1);
        unsetenv("GGML_HSA_RUNTIME");
        st = t->range ? run_range(t, kernel, out, err) : run_under(NULL, t, kernel, out, err);
    }
    if (store) {
        store_free(store);
    }
    return st;
}

void bench_result_free(struct bench_result * r) {
    free(r->output);
    r->output = NULL;
}

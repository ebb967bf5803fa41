// validate-ops: the program that `ggml-hsa validate` runs for what needs ggml: graphs of one op, or
// of a decoder's layer, computed by a device of the plugin and by ggml's CPU from the same numbers,
// and compared. A line goes to standard output for each, with tabs:
//
//     ok|bad|absent  FAMILY  NAME TYPE SIZES  what is wrong
//     figure         NAME    UNIT             number
//
// Times are HSA's, of the runtime that the plugin has opened.
#include "validate-cases.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"

#include <dlfcn.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 512 };

struct world {
    ggml_backend_dev_t device, cpu;
    ggml_backend_t streams[2]; // the device's, the CPU's
    int (*info)(int attribute, void * value);
};

// ---- libraries ----

static ggml_backend_reg_t registry(const char * path) {
    void * library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ggml_backend_reg_t (*init)(void);
    void * address = library ? dlsym(library, "ggml_backend_init") : NULL;
    memcpy(&init, &address, sizeof init);
    return address ? init() : NULL;
}

// Takes the one of several builds that says that it fits this processor best.
static ggml_backend_reg_t best_cpu(const char * dir) {
    char pattern[600];
    glob_t found = {0};
    ggml_backend_reg_t best = NULL;
    int most = -1;
    snprintf(pattern, sizeof pattern, "%.500s/libggml-cpu*.so", dir);
    size_t n = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    for (size_t i = 0; i < n; i++) {
        void * library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
        void * address = library ? dlsym(library, "ggml_backend_score") : NULL;
        int (*score)(void);
        memcpy(&score, &address, sizeof score);
        int points = address ? score() : library != NULL;
        if (library && points > most) {
            most = points;
            best = registry(found.gl_pathv[i]);
        }
    }
    globfree(&found);
    return best;
}

static ggml_backend_dev_t find_cpu(const char * plugin) {
    Dl_info info;
    char dirs[3][512] = {{0}};
    void * inside;
    struct ggml_context * (*in_base)(struct ggml_init_params) = ggml_init;
    memcpy(&inside, &in_base, sizeof inside);
    snprintf(dirs[0], sizeof dirs[0], "%.*s", (int) (strrchr(plugin, '/') - plugin), plugin);
    if (dladdr(inside, &info) && info.dli_fname && strrchr(info.dli_fname, '/')) {
        int n = (int) (strrchr(info.dli_fname, '/') - info.dli_fname);
        snprintf(dirs[1], sizeof dirs[1], "%.*s", n, info.dli_fname);
        snprintf(dirs[2], sizeof dirs[2], "%.*s/../bin", n, info.dli_fname);
    }
    for (int i = 0; i < 3; i++) {
        ggml_backend_reg_t reg = dirs[i][0] ? best_cpu(dirs[i]) : NULL;
        if (reg && ggml_backend_reg_dev_count(reg)) {
            return ggml_backend_reg_dev_get(reg, 0);
        }
    }
    return NULL;
}

static const char * open_world(struct world * w, const char * plugin, const char * runtime,
                               size_t device) {
    ggml_backend_reg_t reg = registry(plugin);
    if (!reg || ggml_backend_reg_dev_count(reg) <= device) {
        return "the plugin does not offer this device";
    }
    w->device = ggml_backend_reg_dev_get(reg, device);
    w->cpu = find_cpu(plugin);
    if (!w->cpu) {
        return "ggml's CPU backend, libggml-cpu.so, is nowhere near libggml-base.so";
    }
    w->streams[0] = ggml_backend_dev_init(w->device, NULL);
    w->streams[1] = ggml_backend_dev_init(w->cpu, NULL);
    void * library = dlopen(runtime, RTLD_NOW | RTLD_NOLOAD);
    void * address = library ? dlsym(library, "hsa_system_get_info") : NULL;
    memcpy(&w->info, &address, sizeof address);
    return w->streams[0] && w->streams[1] ? NULL : "no stream";
}

static double now_ns(const struct world * w) {
    enum { TIMESTAMP = 2, FREQUENCY = 3 }; // of hsa_system_info_t
    uint64_t ticks = 0, frequency = 0;
    if (!w->info || w->info(FREQUENCY, &frequency) || !frequency || w->info(TIMESTAMP, &ticks)) {
        return 0;
    }
    return (double) ticks / (double) frequency * 1e9;
}

// ---- numbers ----

static uint32_t seed;

static float any(void) {
    seed = seed * 1664525u + 1013904223u;
    return (float) (seed >> 8) / (float) (1 << 23) - 1;
}

static void set_numbers(struct ggml_tensor * t) {
    int64_t n = ggml_nelements(t), rows = ggml_nrows(t);
    const char * name = ggml_get_name(t);
    size_t bytes = ggml_nbytes(t);
    float * f = malloc((size_t) n * sizeof *f);
    void * data = calloc(1, bytes);
    for (int64_t i = 0; f && i < n; i++) {
        f[i] = any();
        f[i] = !strcmp(name, "plus") ? 0.2f + 0.5f * (f[i] + 1) : f[i];
        f[i] = !strcmp(name, "mask") ? 0 : f[i];
        f[i] = strstr(name, ".weight") ? 0.05f * f[i] : f[i];
        f[i] = strstr(name, "_norm") ? 1 + 0.1f * f[i] : f[i];
    }
    if (f && data && t->type == GGML_TYPE_I32) {
        long most = !strncmp(name, "ids:", 4) ? strtol(name + 4, NULL, 10) : 7;
        for (int64_t i = 0; i < n; i++) {
            ((int32_t *) data)[i] = (int32_t) ((f[i] + 1) / 2 * (float) most) % (int32_t) most;
        }
    } else if (f && data && t->type == GGML_TYPE_I64) {
        ((int64_t *) data)[0] = 3; // the row of a cache
    } else if (f && data && t->type == GGML_TYPE_F32) {
        memcpy(data, f, bytes);
    } else if (f && data) {
        ggml_quantize_chunk(t->type, f, data, 0, rows, n / rows, NULL);
    }
    if (data) {
        ggml_backend_tensor_set(t, data, 0, bytes);
    }
    free(f);
    free(data);
}

static double number(const struct ggml_tensor * t, const void * data, int64_t i) {
    switch (t->type) {
    case GGML_TYPE_F16:
        return ggml_fp16_to_fp32(((const ggml_fp16_t *) data)[i]);
    case GGML_TYPE_BF16:
        return ggml_bf16_to_fp32(((const ggml_bf16_t *) data)[i]);
    case GGML_TYPE_I32:
        return ((const int32_t *) data)[i];
    default:
        return ((const float *) data)[i];
    }
}

// ---- one case ----

struct result {
    double * values;
    int64_t n;
    double ns; // of the second run
};

static bool computes(ggml_backend_dev_t dev, struct ggml_cgraph * graph) {
    bool all = true;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        all = all && ggml_backend_dev_supports_op(dev, ggml_graph_node(graph, i));
    }
    return all;
}

// "": it was computed; else why not, and "absent" where the device has no such op.
static const char * compute(const struct world * w, const struct ops_case * c, int side,
                            struct result * r) {
    struct ggml_context * ctx = ggml_init((struct ggml_init_params){
        .mem_size = NODES * ggml_tensor_overhead() + ggml_graph_overhead_custom(NODES, false),
        .no_alloc = true});
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, NODES, false);
    struct ggml_tensor * out = c->build(ctx, graph, c);
    ggml_backend_buffer_t buffer = NULL;
    const char * why = "";
    ggml_build_forward_expand(graph, out);
    if (!computes(side ? w->cpu : w->device, graph)) {
        why = "absent";
    } else if (!(buffer = ggml_backend_alloc_ctx_tensors(ctx, w->streams[side]))) {
        why = "no memory";
    }
    seed = 7;
    for (struct ggml_tensor * t = *why ? NULL : ggml_get_first_tensor(ctx); t;
         t = ggml_get_next_tensor(ctx, t)) {
        if (t->op == GGML_OP_NONE && !t->view_src) {
            set_numbers(t);
        }
    }
    for (int turn = 0; turn < (c->is_timed && !side ? 2 : 1) && !*why; turn++) {
        double start = now_ns(w);
        if (ggml_backend_graph_compute(w->streams[side], graph) != GGML_STATUS_SUCCESS) {
            why = "the device could not compute it";
        }
        r->ns = now_ns(w) - start;
    }
    if (!*why) {
        void * data = malloc(ggml_nbytes(out));
        r->n = ggml_nelements(out);
        r->values = malloc((size_t) r->n * sizeof *r->values);
        ggml_backend_tensor_get(out, data, 0, ggml_nbytes(out));
        for (int64_t i = 0; i < r->n; i++) {
            r->values[i] = number(out, data, i);
        }
        free(data);
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return why;
}

static bool compare(const struct ops_case * c, const struct result * got,
                    const struct result * want, char text[160]) {
    double error = 0, sum = 0, worst = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < got->n; i++) {
        double d = got->values[i] - want->values[i];
        if (isnan(d) != 0 || fabs(d) > worst) {
            worst = isnan(d) ? INFINITY : fabs(d);
            at = i;
        }
        error += d * d;
        sum += want->values[i] * want->values[i];
    }
    double nmse = sum > 0 ? error / sum : error;
    if (!(nmse <= c->nmse)) {
        snprintf(text, 160, "NMSE %.2g, may be %.0e; element %lld is %g, the CPU has %g", nmse,
                 c->nmse, (long long) at, got->values[at], want->values[at]);
    }
    return nmse <= c->nmse;
}

static void run_case(const struct world * w, const struct ops_case * c) {
    struct result r[2] = {{0}};
    char text[160] = "", shape[96];
    const int64_t * s = c->sizes;
    snprintf(shape, sizeof shape, "%s %s %lldx%lldx%lldx%lld", c->name, ggml_type_name(c->type),
             (long long) s[0], (long long) s[1], (long long) s[2], (long long) s[3]);
    const char * why = compute(w, c, 1, &r[1]);
    why = *why ? "absent" : compute(w, c, 0, &r[0]);
    if (!strcmp(why, "absent")) {
        printf("absent\t%s\t%s\t\n", c->family, shape);
    } else if (*why) {
        printf("bad\t%s\t%s\t%s\n", c->family, shape, why);
    } else {
        bool same = compare(c, &r[0], &r[1], text);
        printf("%s\t%s\t%s\t%s\n", same ? "ok" : "bad", c->family, shape, text);
        if (c->is_timed && r[0].ns > 0) {
            printf("figure\t%s, a token\tus\t%.3f\n", c->name, r[0].ns / 1000);
        }
    }
    fflush(stdout);
    free(r[0].values);
    free(r[1].values);
}

int main(int argc, char ** argv) {
    struct world w = {0};
    if (argc != 6) {
        fprintf(stderr, "ggml-hsa-validate-ops is run by `ggml-hsa validate`\n");
        return 2;
    }
    bool whole = !strcmp(argv[4], "whole"), decoder = !strcmp(argv[5], "decoder");
    const char * why = open_world(&w, argv[1], argv[2], strtoul(argv[3], NULL, 10));
    if (why) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    for (int i = 0; i < n_ops_cases; i++) {
        if (ops_cases[i].decoder == decoder && (whole || !ops_cases[i].whole)) {
            run_case(&w, &ops_cases[i]);
        }
    }
    ggml_backend_free(w.streams[0]);
    ggml_backend_free(w.streams[1]);
    return 0;
}

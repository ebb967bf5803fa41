// bench-op: the program that `ggml-hsa bench` runs for what is not one kernel: a graph of one node
// of ggml, of any type and any op that the backend has, computed by the plugin on an emulated NPU
// as a program would get it computed. It runs twice; what is told is of the second run, which finds
// weights laid out and the array configured. A sweep does that for several sizes, and draws them.
//
//     ggml-hsa-bench-op PLUGIN OP TYPE SHAPE [--sweep rows=A..B] [--svg FILE] [--json]
//     ggml-hsa-bench-op PLUGIN OP TYPE SHAPE --gpu ARCH [--json]
#include "base/base.h"
#include "base/json.h"
#include "roofline.h"
#include "ggml-hsa.h"
#include "llm.h"
#include "words.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { OK = 0, FAILED = 1, USAGE = 2 };
enum { MOST_POINTS = 64 };

// ---- nodes ----

// What a node is made of. The numbers are the shape's: innermost first, or what `shape` names.
struct node {
    struct ggml_context *weights, *rest; // tensors of a model's file, and the others
    enum ggml_type type, to;
    int64_t n[5];
};

typedef struct ggml_tensor * (*node_fn)(const struct node *);

static struct ggml_tensor * input(const struct node * p) {
    return ggml_new_tensor_4d(p->rest, p->type, p->n[0], p->n[1], p->n[2], p->n[3]);
}

static struct ggml_tensor * f32(const struct node * p, int64_t a, int64_t b, int64_t c) {
    return ggml_new_tensor_3d(p->rest, GGML_TYPE_F32, a, b, c);
}

static struct ggml_tensor * mul_mat(const struct node * p) {
    struct ggml_tensor * a = ggml_new_tensor_2d(p->weights, p->type, p->n[2], p->n[0]);
    return ggml_mul_mat(p->rest, a, f32(p, p->n[2], p->n[1], 1));
}

static struct ggml_tensor * mul_mat_id(const struct node * p) {
    enum { EXPERTS = 8, USED = 2 };
    struct ggml_tensor * a = ggml_new_tensor_3d(p->weights, p->type, p->n[2], p->n[0], EXPERTS);
    struct ggml_tensor * ids = ggml_new_tensor_2d(p->rest, GGML_TYPE_I32, USED, p->n[1]);
    return ggml_mul_mat_id(p->rest, a, f32(p, p->n[2], USED, p->n[1]), ids);
}

static struct ggml_tensor * out_prod(const struct node * p) {
    struct ggml_tensor * a = ggml_new_tensor_2d(p->rest, p->type, p->n[0], p->n[2]);
    return ggml_out_prod(p->rest, a, f32(p, p->n[1], p->n[2], 1));
}

static struct ggml_tensor * attention(const struct node * p) {
    int64_t d = p->n[0], heads = p->n[1], of_keys = p->n[2], queries = p->n[3], keys = p->n[4];
    struct ggml_tensor * q = f32(p, d, queries, heads);
    struct ggml_tensor * k = ggml_new_tensor_3d(p->rest, p->type, d, keys, of_keys);
    struct ggml_tensor * v = ggml_new_tensor_3d(p->rest, p->type, d, keys, of_keys);
    struct ggml_tensor * mask = ggml_new_tensor_2d(p->rest, GGML_TYPE_F16, keys, queries);
    return ggml_flash_attn_ext(p->rest, q, k, v, mask, 0.125f, 0, 0);
}

static struct ggml_tensor * rope(const struct node * p) {
    struct ggml_tensor * a = input(p);
    return ggml_rope(p->rest, a, ggml_new_tensor_1d(p->rest, GGML_TYPE_I32, p->n[2]), (int) p->n[0],
                     0);
}

static struct ggml_tensor * get_rows(const struct node * p) {
    struct ggml_tensor * a = ggml_new_tensor_2d(p->weights, p->type, p->n[0], p->n[1]);
    return ggml_get_rows(p->rest, a, ggml_new_tensor_1d(p->rest, GGML_TYPE_I32, p->n[2]));
}

static struct ggml_tensor * set_rows(const struct node * p) {
    struct ggml_tensor * a = ggml_new_tensor_2d(p->rest, p->type, p->n[0], p->n[1]);
    return ggml_set_rows(p->rest, a, f32(p, p->n[0], p->n[2], 1),
                         ggml_new_tensor_1d(p->rest, GGML_TYPE_I64, p->n[2]));
}

static struct ggml_tensor * cpy(const struct node * p) {
    struct ggml_tensor * a = input(p);
    return ggml_cpy(p->rest, a, ggml_new_tensor(p->rest, p->to, GGML_MAX_DIMS, a->ne));
}

static struct ggml_tensor * cont(const struct node * p) {
    return ggml_cont(p->rest, ggml_transpose(p->rest, input(p)));
}

static struct ggml_tensor * repeat(const struct node * p) {
    struct ggml_tensor * a = input(p);
    return ggml_repeat_4d(p->rest, a, a->ne[0], 2 * a->ne[1], a->ne[2], a->ne[3]);
}

static struct ggml_tensor * concat(const struct node * p) {
    return ggml_concat(p->rest, input(p), input(p), 0);
}

static struct ggml_tensor * add_id(const struct node * p) {
    struct ggml_tensor * ids = ggml_new_tensor_2d(p->rest, GGML_TYPE_I32, p->n[1], p->n[2]);
    return ggml_add_id(p->rest, input(p), ggml_new_tensor_2d(p->rest, p->type, p->n[0], 8), ids);
}

static struct ggml_tensor * top_k(const struct node * p) {
    return ggml_top_k(p->rest, input(p), p->n[0] < 8 ? (int) p->n[0] : 8);
}

#define TWO(name, call)                                                                            \
    static struct ggml_tensor * name(const struct node * p) {                                      \
        return call(p->rest, input(p), input(p));                                                  \
    }
TWO(add, ggml_add)
TWO(sub, ggml_sub)
TWO(mul, ggml_mul)
TWO(divide, ggml_div)

#define ONE(name, ...)                                                                             \
    static struct ggml_tensor * name(const struct node * p) {                                      \
        return __VA_ARGS__;                                                                        \
    }
ONE(soft_max, ggml_soft_max(p->rest, input(p)))
ONE(rms_norm, ggml_rms_norm(p->rest, input(p), 1e-6f))
ONE(norm, ggml_norm(p->rest, input(p), 1e-6f))
ONE(l2_norm, ggml_l2_norm(p->rest, input(p), 1e-6f))
ONE(sum_rows, ggml_sum_rows(p->rest, input(p)))
ONE(sum, ggml_sum(p->rest, input(p)))
ONE(mean, ggml_mean(p->rest, input(p)))
ONE(argmax, ggml_argmax(p->rest, input(p)))
ONE(argsort, ggml_argsort(p->rest, input(p), GGML_SORT_ORDER_ASC))
ONE(scale, ggml_scale(p->rest, input(p), 0.5f))
ONE(sqr, ggml_sqr(p->rest, input(p)))

// `rows`: which number of the shape a sweep changes.
static const struct op {
    const char * name;
    node_fn make;
    const char * shape; // NULL: up to four numbers with x between them
    int numbers, rows;
} ops[] = {
    {"MUL_MAT", mul_mat, "m,n,k", 3, 1},
    {"MUL_MAT_ID", mul_mat_id, "m,n,k (of 8 experts 2)", 3, 1},
    {"OUT_PROD", out_prod, "m,n,k", 3, 1},
    {"FLASH_ATTN_EXT", attention, "head,heads,heads of keys,queries,keys", 5, 3},
    {"ROPE", rope, NULL, 0, 2},
    {"GET_ROWS", get_rows, "length,rows,picked", 3, 2},
    {"SET_ROWS", set_rows, "length,rows,set", 3, 2},
    {"CPY", cpy, NULL, 0, 1},
    {"CONT", cont, NULL, 0, 1},
    {"REPEAT", repeat, NULL, 0, 1},
    {"CONCAT", concat, NULL, 0, 1},
    {"ADD_ID", add_id, NULL, 0, 2},
    {"TOP_K", top_k, NULL, 0, 1},
    {"ADD", add, NULL, 0, 1},
    {"SUB", sub, NULL, 0, 1},
    {"MUL", mul, NULL, 0, 1},
    {"DIV", divide, NULL, 0, 1},
    {"SOFT_MAX", soft_max, NULL, 0, 1},
    {"RMS_NORM", rms_norm, NULL, 0, 1},
    {"NORM", norm, NULL, 0, 1},
    {"L2_NORM", l2_norm, NULL, 0, 1},
    {"SUM_ROWS", sum_rows, NULL, 0, 1},
    {"SUM", sum, NULL, 0, 1},
    {"MEAN", mean, NULL, 0, 1},
    {"ARGMAX", argmax, NULL, 0, 1},
    {"ARGSORT", argsort, NULL, 0, 1},
    {"SCALE", scale, NULL, 0, 1},
    {"SQR", sqr, NULL, 0, 1},
};
enum { OPS = sizeof ops / sizeof ops[0] };

// Unary and GLU ops have no function of their own in the table: their names are ggml's.
static int unary = -1, glu = -1;

static struct ggml_tensor * by_number(const struct node * p) {
    return unary >= 0 ? ggml_unary(p->rest, input(p), (enum ggml_unary_op) unary)
                      : ggml_glu(p->rest, input(p), (enum ggml_glu_op) glu, false);
}

static const struct op numbered = {"", by_number, NULL, 0, 1};

// ---- from words ----

static const struct op * op_named(const char * text, struct nearest * near) {
    for (int i = 0; i < OPS; i++) {
        if (!strcasecmp(text, ops[i].name)) {
            return &ops[i];
        }
        words_consider(text, ops[i].name, near);
    }
    for (int i = 0; i < GGML_UNARY_OP_COUNT; i++) {
        const char * name = ggml_unary_op_name((enum ggml_unary_op) i);
        unary = !strcasecmp(text, name) ? i : unary;
        words_consider(text, name, near);
    }
    for (int i = 0; i < GGML_GLU_OP_COUNT; i++) {
        const char * name = ggml_glu_op_name((enum ggml_glu_op) i);
        glu = !strcasecmp(text, name) ? i : glu;
        words_consider(text, name, near);
    }
    return unary >= 0 || glu >= 0 ? &numbered : NULL;
}

static bool type_named(const char * text, size_t size, enum ggml_type * out) {
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        const char * name = ggml_type_name((enum ggml_type) t);
        if (name && ggml_type_size((enum ggml_type) t) && strlen(name) == size &&
            !strncasecmp(name, text, size)) {
            *out = (enum ggml_type) t;
            return true;
        }
    }
    return false;
}

static void print_types(void) {
    fprintf(stderr, "types:");
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        const char * name = ggml_type_name((enum ggml_type) t);
        if (name && ggml_type_size((enum ggml_type) t)) {
            fprintf(stderr, " %s", name);
        }
    }
    fprintf(stderr, "\n");
}

static int numbers(const char * text, char between, int64_t * out, int most) {
    for (int n = 0; n < most;) {
        char * end;
        long long v = isdigit((unsigned char) *text) ? strtoll(text, &end, 10) : 0;
        if (v < 1 || v > INT32_MAX) {
            return 0;
        }
        out[n++] = v;
        if (!*end) {
            return n;
        }
        if (*end != between) {
            return 0;
        }
        text = end + 1;
    }
    return 0;
}

// ---- measuring ----

struct figures {
    int64_t at;               // of a sweep: how many rows
    struct gpu_account * gpu; // of a GPU, which has nothing of what follows; NULL: of a NPU
    struct ggml_backend_hsa_account account;
    double kernels, dispatches, pdis, bytes, us;
    double causes[GGML_BACKEND_HSA_CAUSES];
};

static struct ggml_backend_hsa_account account_of(const struct llm_device * d) {
    struct ggml_backend_hsa_account a = {.size = sizeof a};
    ggml_backend_hsa_get_account_t get;
    memcpy(&get, &d->get_account, sizeof get);
    get(d->dev, &a);
    return a;
}

static double kernels_of(const struct llm_device * d) {
    struct ggml_backend_hsa_stats s = {0};
    ggml_backend_hsa_get_stats_t get;
    memcpy(&get, &d->get_stats, sizeof get);
    get(d->dev, &s);
    return (double) s.dispatches;
}

// Zeros of every type are numbers: blocks with a scale of 0, rows number 0, tokens at place 0.
static void fill(struct ggml_context * ctx) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t)) {
        void * zeros = t->op == GGML_OP_NONE && !t->view_src ? calloc(1, ggml_nbytes(t)) : NULL;
        if (zeros) {
            ggml_backend_tensor_set(t, zeros, 0, ggml_nbytes(t));
            free(zeros);
        }
    }
}

static const char * compute(const struct llm_device * d, struct ggml_context * ctx,
                            struct ggml_tensor * node, struct figures * out) {
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, node);
    if (out->gpu) {
        return gpu_compute(d, graph, node, out->gpu);
    }
    struct ggml_backend_hsa_account before = {0};
    double kernels = 0;
    for (int run = 0; run < 2; run++) {
        before = account_of(d);
        kernels = kernels_of(d);
        if (ggml_backend_graph_compute(d->stream, graph) != GGML_STATUS_SUCCESS) {
            return "computing it failed";
        }
    }
    out->account = account_of(d);
    const struct ggml_backend_hsa_account * a = &out->account;
    out->kernels = kernels_of(d) - kernels;
    out->dispatches = (double) (a->dispatches - before.dispatches);
    out->pdis = (double) (a->pdi_loads - before.pdi_loads);
    out->bytes = 4 * (double) (a->stream_words - before.stream_words);
    out->us = (double) (a->ns - before.ns) * 1e-3;
    for (int i = 0; i < GGML_BACKEND_HSA_CAUSES; i++) {
        out->causes[i] = (double) (a->causes[i].cycles - before.causes[i].cycles) / (double) a->mhz;
    }
    return out->kernels > 0 ? NULL : "no kernel ran: the host computes this one for the NPU";
}

static const char * measure(const struct llm_device * d, const struct op * op, struct node p,
                            struct figures * out) {
    struct ggml_init_params params = {.mem_size = (size_t) 4 << 20, .no_alloc = true};
    const char * why = "no memory for its tensors";
    p.weights = ggml_init(params);
    p.rest = ggml_init(params);
    struct ggml_tensor * node = p.weights && p.rest ? op->make(&p) : NULL;
    ggml_backend_buffer_t buffers[2] = {0};
    if (node && !ggml_backend_supports_op(d->stream, node)) {
        why = out->gpu ? "the GPU has no kernel for it; GGML_HSA_EXPLAIN=1 says why"
                       : "the NPU has no kernel for it; GGML_HSA_HOST_FALLBACK=1 "
                         "GGML_HSA_ENABLE_LOG=1 says why";
    } else if (node) {
        if (ggml_get_first_tensor(p.weights)) {
            buffers[0] = ggml_backend_alloc_ctx_tensors(p.weights, d->stream);
            if (buffers[0]) {
                ggml_backend_buffer_set_usage(buffers[0], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
            }
        }
        buffers[1] = ggml_backend_alloc_ctx_tensors(p.rest, d->stream);
        if (buffers[1] && (buffers[0] || !ggml_get_first_tensor(p.weights))) {
            fill(p.weights);
            fill(p.rest);
            why = compute(d, p.rest, node, out);
        }
    }
    for (int i = 0; i < 2; i++) {
        ggml_backend_buffer_free(buffers[i]);
    }
    ggml_free(p.weights);
    ggml_free(p.rest);
    return why;
}

// ---- telling ----

static void print_text(const char * op, const char * type, const char * shape,
                       const struct figures * f) {
    printf("%s %s %s, a node of ggml, modelled, clock %s (%llu MHz)\n\n", op, type, shape,
           f->account.clock, (unsigned long long) f->account.mhz);
    printf(
        "  time            %.3f us\n  cycles          %.0f\n  kernels         %.0f in %.0f "
        "dispatches\n  PDIs loaded     %.0f\n  through shim    %.3f MB\n\n  where the time went\n",
        f->us, f->us * (double) f->account.mhz, f->kernels, f->dispatches, f->pdis,
        f->bytes * 1e-6);
    for (int i = 0; i < GGML_BACKEND_HSA_CAUSES; i++) {
        printf("  %-15s %5.1f %% %12.3f us\n", f->account.causes[i].name,
               f->us > 0 ? 100 * f->causes[i] / f->us : 0, f->causes[i]);
    }
}

static void print_sweep(const char * op, const char * type, const char * shape,
                        const struct figures * f, int n) {
    printf("%s %s %s, a node of ggml, modelled, clock %s (%llu MHz)\n\n", op, type, shape,
           f->account.clock, (unsigned long long) f->account.mhz);
    printf("%8s %14s %14s %8s %6s %12s\n", "rows", "us", "us a row", "kernels", "PDIs", "MB");
    for (int i = 0; i < n; i++) {
        printf("%8lld %14.3f %14.3f %8.0f %6.0f %12.3f\n", (long long) f[i].at, f[i].us,
               f[i].us / (double) f[i].at, f[i].kernels, f[i].pdis, f[i].bytes * 1e-6);
    }
}

static int print_json(const char * op, const char * type, const char * shape,
                      const struct figures * f, int n) {
    json_t *root = json_pack("{s:s,s:s,s:s,s:s}", "op", op, "type", type, "shape", shape, "clock",
                             f->account.clock),
           *points = json_array();
    for (int i = 0; i < n; i++) {
        json_t * causes = json_object();
        for (int c = 0; c < GGML_BACKEND_HSA_CAUSES; c++) {
            json_put(&causes, f[i].account.causes[c].name,
                     json_integer((json_int_t) (f[i].causes[c] * 1000)));
        }
        json_array_append_new(
            points, json_pack("{s:I,s:I,s:I,s:I,s:I,s:o}", "rows", (json_int_t) f[i].at, "ns",
                              (json_int_t) (f[i].us * 1000), "kernels", (json_int_t) f[i].kernels,
                              "pdi_loads", (json_int_t) f[i].pdis, "bytes", (json_int_t) f[i].bytes,
                              "causes_ns", causes));
    }
    json_put(&root, "points", points);
    return json_tell(root, JSON_INDENT(2), "ggml-hsa bench") ? OK : FAILED;
}

// How many powers of two, from *from on, all times lie in.
static int octaves_of(const struct figures * f, int n, double * from) {
    double most = 0, least = 1e300;
    for (int i = 0; i < n; i++) {
        most = f[i].us > most ? f[i].us : most;
        least = f[i].us < least ? f[i].us : least;
    }
    double low = 1, high;
    while (low > least) {
        low /= 2;
    }
    while (2 * low <= least) {
        low *= 2;
    }
    int octaves = 0;
    for (high = low; high < most; high *= 2) {
        octaves++;
    }
    *from = low;
    return octaves ? octaves : 1;
}

// Time over rows; both by powers of two, so that what doubles is a straight line.
static int draw(const char * path, const char * title, const struct figures * f, int n) {
    enum { W = 640, H = 400, LEFT = 76, BOTTOM = 44, TOP = 44, RIGHT = 20 };
    FILE * out = fopen(path, "w");
    if (!out) {
        perror(path);
        return FAILED;
    }
    double low;
    int octaves = octaves_of(f, n, &low);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<style>:root{color-scheme:light dark}"
            ".l{stroke:#8885;fill:none}.d{stroke:#1f6feb;stroke-width:2;fill:none}.p{fill:#1f6feb}"
            "text{fill:currentColor}</style>\n<text x=\"%d\" y=\"22\" font-size=\"14\">%s</text>\n",
            W, H, LEFT, title);
    double at = low;
    for (int i = 0; i <= octaves; i++, at *= 2) {
        double y = H - BOTTOM - (double) i * (H - BOTTOM - TOP) / octaves;
        fprintf(out,
                "<path class=\"l\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%g us</text>\n",
                LEFT, y, W - RIGHT, LEFT - 6, y + 4, at);
    }
    struct buf line = {0};
    for (int i = 0; i < n; i++) {
        double x = LEFT + 16 + (n > 1 ? (double) i * (W - RIGHT - LEFT - 32) / (n - 1) : 0);
        double up = 0, v = f[i].us / low; // log2, with what is between two powers by a line
        while (v >= 2) {
            v /= 2;
            up++;
        }
        double y = H - BOTTOM - (up + v - 1) * (H - BOTTOM - TOP) / octaves;
        buf_printf(&line, "%c%.1f %.1f", i ? 'L' : 'M', x, y);
        fprintf(out,
                "<circle class=\"p\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%lld rows: %.3f "
                "us</title></circle><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%lld</text>\n",
                x, y, (long long) f[i].at, f[i].us, x, H - BOTTOM + 18, (long long) f[i].at);
    }
    fprintf(out,
            "<path class=\"d\" d=\"%s\"/>\n<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">rows"
            "</text>\n</svg>\n",
            line.data ? (char *) line.data : "", (LEFT + W - RIGHT) / 2, H - 8);
    buf_free(&line);
    if (ferror(out) | fclose(out)) {
        perror(path);
        return FAILED;
    }
    return OK;
}

// ---- all of it ----

static int usage(const char * text, const char * word, const char * more) {
    fprintf(stderr, "ggml-hsa bench: %s '%.60s'%s (see ggml-hsa bench --help)\n", text, word, more);
    return USAGE;
}

struct arguments {
    const char *plugin, *op_word, *type, *shape, *svg, *sweep, *gpu;
    bool json;
    const struct op * op;
    struct node node;
    long long low, high; // rows
};

static void read_words(int argc, char ** argv, struct arguments * a) {
    *a = (struct arguments){
        .plugin = argv[1], .op_word = argv[2], .type = argv[3], .shape = argv[4]};
    for (int i = 5; i < argc; i++) {
        a->json |= !strcmp(argv[i], "--json");
        a->gpu = !strcmp(argv[i], "--gpu") && i + 1 < argc ? argv[i + 1] : a->gpu;
        a->svg = !strcmp(argv[i], "--svg") && i + 1 < argc ? argv[i + 1] : a->svg;
        a->sweep = !strcmp(argv[i], "--sweep") && i + 1 < argc ? argv[i + 1] : a->sweep;
    }
    a->node = (struct node){.n = {1, 1, 1, 1, 1}};
}

static int find_op(struct arguments * a) {
    struct nearest near = {0};
    char hint[WORDS_HINT];
    a->op = op_named(a->op_word, &near);
    if (a->op) {
        return OK;
    }
    usage("no op", a->op_word, words_hint(&near, hint));
    fprintf(stderr, "ops:");
    for (int i = 0; i < OPS; i++) {
        fprintf(stderr, " %s", ops[i].name);
    }
    fprintf(stderr, ", and ggml's unary and GLU ops\n");
    return USAGE;
}

// One datatype, or two with a dash between them.
static int find_types(struct arguments * a) {
    struct node * p = &a->node;
    size_t first = strcspn(a->type, "-");
    const char * second = a->type[first] ? a->type + first + 1 : NULL;
    bool known = type_named(a->type, first, &p->type);
    if (known && second) {
        known = type_named(second, strlen(second), &p->to);
    } else {
        p->to = p->type;
    }
    if (!known) {
        usage("no datatype", a->type, "");
        print_types();
    }
    return known ? OK : USAGE;
}

static int read_shape(struct arguments * a) {
    const struct op * op = a->op;
    struct node * p = &a->node;
    char of[64], more[128];
    snprintf(of, sizeof of, "no shape of %.40s", a->op_word);
    int most = op->shape ? op->numbers : 4;
    int n = numbers(a->shape, op->shape ? ',' : 'x', p->n, most);
    if (op->shape ? n != most : n == 0) {
        snprintf(more, sizeof more, ": %s",
                 op->shape ? op->shape : "up to four numbers, innermost first, as in 1024x1024");
        return usage(of, a->shape, more);
    }
    int64_t block = ggml_blck_size(p->type),
            row = p->n[op->make == mul_mat || op->make == mul_mat_id ? 2 : 0];
    if (row % block) {
        snprintf(more, sizeof more, ": a row of %.32s is a multiple of %lld", a->type,
                 (long long) block);
        return usage(of, a->shape, more);
    }
    a->low = a->high = p->n[op->rows];
    if (a->sweep && (sscanf(a->sweep, "rows=%lld..%lld", &a->low, &a->high) != 2 || a->low < 1 ||
                     a->high < a->low || a->high > 1 << 20)) {
        return usage("no such sweep", a->sweep, ": rows=A..B, as in rows=1..512");
    }
    return OK;
}

// Rows from low to high, twice as many each time. What is wrong, or NULL.
static const char * measure_all(struct llm_device * device, struct arguments * a,
                                struct figures f[MOST_POINTS], int * points) {
    const char * why = NULL;
    for (int64_t at = a->low; !why && *points < MOST_POINTS;
         at = 2 * at < a->high ? 2 * at : a->high) {
        a->node.n[a->op->rows] = at;
        f[*points].at = at;
        why = measure(device, a->op, a->node, &f[*points]);
        *points += !why;
        if (at == a->high) {
            break;
        }
    }
    return why;
}

static int tell_all(const struct arguments * a, struct figures f[MOST_POINTS], int points) {
    int status = OK;
    if (f[0].gpu) {
        status = gpu_print(a->op_word, a->type, a->shape, f[0].gpu, a->json);
    } else if (a->json) {
        status = print_json(a->op_word, a->type, a->shape, f, points);
    } else if (a->sweep) {
        print_sweep(a->op_word, a->type, a->shape, f, points);
    } else {
        print_text(a->op_word, a->type, a->shape, f);
    }
    if (a->svg && status == OK) {
        char title[160];
        snprintf(title, sizeof title, "%.32s %.32s %.60s", a->op_word, a->type, a->shape);
        status = draw(a->svg, title, f, points);
    }
    return status;
}

int main(int argc, char ** argv) {
    if (argc < 5) {
        fprintf(stderr, "ggml-hsa-bench-op is run by `ggml-hsa bench`\n");
        return USAGE;
    }
    struct arguments a;
    read_words(argc, argv, &a);
    if (find_op(&a) != OK || find_types(&a) != OK || read_shape(&a) != OK) {
        return USAGE;
    }
    struct llm_device device;
    static struct gpu_account account;
    static struct figures f[MOST_POINTS];
    if (a.gpu) {
        char known[160];
        account.chip = gpu_chip_named(a.gpu);
        gpu_chips_list(known, sizeof known);
        if (!account.chip) {
            fprintf(stderr, "ggml-hsa bench: no figures of '%.40s': %s\n", a.gpu, known);
            return USAGE;
        }
        f[0].gpu = &account;
    }
    const char * why =
        a.gpu ? gpu_open(a.plugin, account.chip, &device) : llm_open(a.plugin, &device);
    int points = 0;
    why = why ? why : measure_all(&device, &a, f, &points);
    if (why) {
        fprintf(stderr, "ggml-hsa bench: %s %s %s: %s\n", a.op_word, a.type, a.shape, why);
        return FAILED;
    }
    int status = tell_all(&a, f, points);
    llm_close(&device);
    if (fflush(stdout) || ferror(stdout)) {
        perror("ggml-hsa bench: standard output");
        return FAILED;
    }
    return status;
}

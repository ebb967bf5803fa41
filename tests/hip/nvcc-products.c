// nvcc-products: products of many columns, squares of 4096 or 2048, and those of experts. On an
// NVIDIA GPU all are computed in f32: matrix instructions are AMD's alone here. So what they can be
// is what cuBLAS makes of f32 without TF32.
#include "nvcc-rig.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOME = 256 }; // elements that are compared with double precision

typedef int (*create_fn)(void **);
typedef int (*stream_fn)(void *, CUstream);
typedef int (*mode_fn)(void *, int);
typedef int (*gemm_fn)(void *, int, int, int, int, int, const void *, const void *, int, int,
                       const void *, int, int, const void *, void *, int, int, int, int);
struct job {
    const char * kernel;
    struct rk_matmul_id id; // plain products use its m
    uint32_t tile, groups_z;
};
static gemm_fn gemm;
static void * cublas;

static bool open_cublas(void) {
    const char * names[] = {getenv("CUBLAS"), "libcublas.so.13", "libcublas.so.12",
                            "/usr/local/cuda/lib64/libcublas.so"};
    void * lib = NULL;
    for (int i = 0; i < 4 && !lib; i++) {
        lib = names[i] ? dlopen(names[i], RTLD_NOW) : NULL;
    }
    create_fn create = lib ? (create_fn) dlsym(lib, "cublasCreate_v2") : NULL;
    gemm = lib ? (gemm_fn) dlsym(lib, "cublasGemmEx") : NULL;
    if (!create || !gemm || create(&cublas) ||
        ((stream_fn) dlsym(lib, "cublasSetStream_v2"))(cublas, bench_stream) ||
        ((mode_fn) dlsym(lib, "cublasSetMathMode"))(cublas, 0)) { // 0: no TF32
        printf("cuBLAS: not found; name its library in CUBLAS\n");
        return false;
    }
    return true;
}

// y[j][i] = sum a[i][k] b[j][k]: of columns behind each other that is a's transpose times b.
static void call_cublas(void * user, int turn) {
    const struct rk_matmul * m = &((struct job *) user)->id.m;
    int n = (int) m->n_rows;
    float one = 1, zero = 0;
    (void) turn;
    if (gemm(cublas, 1, 0, n, n, n, &one, m->a, 0, n, m->b, 0, n, &zero, m->y, 0, n, 68, -1)) {
        fprintf(stderr, "nvcc-bench: cuBLAS refuses\n");
        exit(1);
    }
}

static void call_matmul(void * user, int turn) {
    const struct job * j = user;
    const struct rk_matmul * m = &j->id.m;
    (void) turn;
    bench_launch(j->kernel, m, sizeof *m, (m->n_columns + j->tile - 1) / j->tile,
                 (m->n_rows + j->tile - 1) / j->tile, 1, RK_BLOCK);
}

static void call_experts(void * user, int turn) {
    const struct job * j = user;
    const struct rk_matmul * m = &j->id.m;
    (void) turn;
    if (j->tile == 1) {
        bench_launch(j->kernel, &j->id, sizeof j->id, m->n_rows, m->n_columns, 1, RK_BLOCK);
        return;
    }
    bench_launch("matmul_id_lists", &j->id, sizeof j->id, j->id.n_experts + 1, 1, 1, RK_BLOCK);
    bench_launch(j->kernel, &j->id, sizeof j->id, (m->n_columns + j->tile - 1) / j->tile,
                 (m->n_rows + j->tile - 1) / j->tile, j->id.n_experts, RK_BLOCK);
}

// How far `have` is from row r of a times column c of b, beside the root of the sum of squares.
static double error_of(const struct bench_type * ta, const void * a, size_t r,
                       const struct bench_type * tb, const void * b, size_t c, size_t n,
                       double have) {
    double *v = malloc(n * sizeof *v), *w = malloc(n * sizeof *w), sum = 0, all = 0;
    bench_decode(ta, a, r * n, n, v);
    bench_decode(tb, b, c * n, n, w);
    for (size_t k = 0; k < n; k++) {
        sum += v[k] * w[k];
        all += v[k] * w[k] * v[k] * w[k];
    }
    free(v), free(w);
    return fabs(sum - have) / sqrt(all);
}

static double worse(double a, double b) { // a NaN is the worst
    return b > a || b != b ? b : a;
}

// A square of n. b's type is f32 or named behind a's.
static void bench_square(const char * kernel, const char * a_name, const char * b_name, size_t n) {
    struct bench_type ta = bench_type_of(a_name), tb = bench_type_of(b_name);
    uint32_t size = (uint32_t) n, step = ta.blocks ? size / (uint32_t) ta.blocks->length : size;
    static double best[2]; // what cuBLAS makes of f32, of 4096 and of others
    double *of = &best[n != 4096], flops = 2.0 * (double) n * (double) n * (double) n, wrong = 0;
    if (!bench_has(kernel)) {
        return;
    }
    void *a = bench_random(&ta, n * n), *b = bench_random(&tb, n * n);
    float * y = malloc(n * n * 4);
    CUdeviceptr da = bench_put(a, bench_bytes(&ta, n * n)),
                db = bench_put(b, bench_bytes(&tb, n * n)), dy = bench_fill(n * n);
    struct job j = {.kernel = kernel,
                    .tile = strstr(kernel, "_wide") ? RK_TILE_WIDE : RK_TILE,
                    .id.m = {.n_rows = size,
                             .n_columns = size,
                             .n_inner = size,
                             .dim = 1,
                             .a_share = {1, 1},
                             .a_stride = {step, 1},
                             .b_stride = {1, size},
                             .y_stride = {1, size},
                             .a = (void *) da,
                             .b = (void *) db,
                             .y = (void *) dy}};
    char what[64];
    if (*of == 0 && cublas && ta.floats == T_F32 && tb.floats == T_F32) {
        double took = bench_time(call_cublas, &j, 3);
        *of = flops / took;
        snprintf(what, sizeof what, "cuBLAS, f32 %zu^3", n);
        bench_line(what, took, flops, BENCH_FLOPS, 66.9e12, "data sheet", 0, 0);
        bench_must(cuMemsetD32(dy, 0x7fc00000, n * n), "set");
    }
    double took = bench_time(call_matmul, &j, 3);
    bench_must(cuMemcpyDtoH(y, dy, n * n * 4), "copy");
    for (int t = 0; t < SOME; t++) {
        size_t r = bench_draw() % n, c = bench_draw() % n;
        wrong = worse(wrong, error_of(&ta, a, r, &tb, b, c, n, (double) y[c * n + r]));
    }
    snprintf(what, sizeof what, "%s %zu^3", kernel, n);
    bench_line(what, took, flops, BENCH_FLOPS, *of > 0 ? *of : 66.9e12,
               *of > 0 ? "cuBLAS f32" : "data sheet", wrong, 1e-4);
    cuMemFree(da), cuMemFree(db), cuMemFree(dy);
    free(a), free(b), free(y);
}

// Matrices of 2048 x 2048 of 8 experts, two for each token.
static void bench_experts(const char * type, uint32_t tokens, bool vector) {
    enum { N = 2048, EXPERTS = 8, SLOTS = 2 };
    struct bench_type t = bench_type_of(type), f32 = bench_type_of("f32");
    uint32_t step = t.blocks ? N / (uint32_t) t.blocks->length : N, pairs = tokens * SLOTS;
    char kernel[64], what[128];
    snprintf(kernel, sizeof kernel, "%s_id_%s_f32", vector ? "matvec" : "matmul", type);
    if (!bench_has(kernel) || !bench_has("matmul_id_lists")) {
        return;
    }
    size_t of_a = (size_t) EXPERTS * N * N;
    void *a = bench_random(&t, of_a), *b = bench_random(&f32, (size_t) tokens * N);
    float * y = malloc((size_t) pairs * N * 4);
    int32_t * ids = malloc(pairs * sizeof *ids);
    double wrong = 0, flops = 2.0 * pairs * N * N;
    for (uint32_t i = 0; i < pairs; i++) { // the two of a token differ
        ids[i] = i % 2 ? (ids[i - 1] + 1 + (int32_t) (bench_draw() % 7)) % 8
                       : (int32_t) (bench_draw() % 8);
    }
    CUdeviceptr da = bench_put(a, bench_bytes(&t, of_a)),
                db = bench_put(b, (size_t) tokens * N * 4),
                di = bench_put(ids, pairs * sizeof *ids), dy = bench_fill((size_t) pairs * N),
                lists = bench_room((size_t) EXPERTS * (pairs + 1) * 4);
    struct job j = {.kernel = kernel,
                    .tile = vector ? 1 : RK_TILE,
                    .id = {.m = {.n_rows = N,
                                 .n_columns = pairs,
                                 .n_inner = N,
                                 .dim = 1,
                                 .a_share = {1, 1},
                                 .a_stride = {step, 1},
                                 .b_stride = {1, 0},
                                 .y_stride = {1, N},
                                 .a_batch = {N * step, 0},
                                 .b_batch = {N, 0},
                                 .y_batch = {SLOTS * N, 0},
                                 .a = (void *) da,
                                 .b = (void *) db,
                                 .y = (void *) dy},
                           .n_slots = SLOTS,
                           .b_slots = 1,
                           .n_experts = EXPERTS,
                           .ids_stride = {1, SLOTS},
                           .ids = (const int32_t *) di,
                           .lists = (uint32_t *) lists}};
    double took = bench_time(call_experts, &j, 8);
    bench_must(cuMemcpyDtoH(y, dy, (size_t) pairs * N * 4), "copy");
    for (int i = 0; i < SOME; i++) {
        size_t pair = bench_draw() % pairs, r = bench_draw() % N;
        double have = (double) y[pair * N + r];
        wrong = worse(wrong,
                      error_of(&t, a, (size_t) ids[pair] * N + r, &f32, b, pair / SLOTS, N, have));
    }
    snprintf(what, sizeof what, "%s 8 of 2048^2, %u token%s", kernel, tokens,
             tokens == 1 ? "" : "s");
    if (vector) { // two experts' matrices, which are in the cache
        bench_line(what, took, (double) bench_bytes(&t, (size_t) pairs * N * N), BENCH_BYTES,
                   bench_bandwidth, "memory", wrong, 1e-4);
    } else {
        bench_line(what, took, flops, BENCH_FLOPS, 66.9e12, "data sheet", wrong, 1e-4);
    }
    cuMemFree(da), cuMemFree(db), cuMemFree(dy), cuMemFree(di), cuMemFree(lists);
    free(a), free(b), free(y), free(ids);
}

static const char * const of_matrix[] = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl",
                                         "q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_xs"};
static const char * const of_blocks[] = {
    "q4_0",  "q4_1",   "q5_0",    "q5_1",  "q8_0",    "iq4_nl", "mxfp4",  "nvfp4", "q1_0",
    "q2_0",  "q2_K",   "q3_K",    "q4_K",  "q5_K",    "q6_K",   "iq4_xs", "tq1_0", "tq2_0",
    "iq2_s", "iq2_xs", "iq2_xxs", "iq3_s", "iq3_xxs", "iq1_s",  "iq1_m"};
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static const struct {
    const char *names, *a, *b;
} of_floats[] = {
    {"f32", "f32", "f32"},         {"f16_f32", "f16", "f32"},     {"bf16_f32", "bf16", "f32"},
    {"f16_f16_f32", "f16", "f16"}, {"f32_f16_f32", "f32", "f16"}, {"bf16_bf16_f32", "bf16", "bf16"},
};

void bench_products(void) {
    char kernel[64];
    open_cublas();
    for (int wide = 1; wide >= 0; wide--) {
        size_t n = wide ? 4096 : 2048;
        for (size_t i = 0; i < COUNT(of_floats); i++) {
            for (int matrix = 0; matrix < 2; matrix++) {
                bool mixed = of_floats[i].a[0] == 'f' && of_floats[i].a[1] == '3';
                snprintf(kernel, sizeof kernel, "matmul%s%s_%s", matrix ? "_matrix" : "",
                         wide ? "_wide" : "", of_floats[i].names);
                if (!matrix || !mixed) {
                    bench_square(kernel, of_floats[i].a, of_floats[i].b, n);
                }
            }
        }
        for (size_t i = 0; i < COUNT(of_matrix); i++) {
            snprintf(kernel, sizeof kernel, "matmul_matrix%s_%s_f32", wide ? "_wide" : "",
                     of_matrix[i]);
            bench_square(kernel, of_matrix[i], "f32", n);
        }
    }
    for (size_t i = 0; i < COUNT(of_blocks); i++) {
        snprintf(kernel, sizeof kernel, "matmul_%s_f32", of_blocks[i]);
        bench_square(kernel, of_blocks[i], "f32", 2048);
    }
    for (size_t i = 0; i < COUNT(of_blocks) + 3; i++) {
        static const char * const floats[] = {"f32", "f16", "bf16"};
        const char * type = i < 3 ? floats[i] : of_blocks[i - 3];
        bench_experts(type, 512, false);
        bench_experts(type, 1, true);
    }
}

// nvcc-bench: how fast the kernels are as CUDA on an NVIDIA GPU, beside what that GPU can do:
// products of matrices beside cuBLAS without TF32, products with few columns and attention beside
// its memory. nvcc-bench.sh builds and runs it; it is no part of the test suite.
//
//   nvcc-bench FILE.cubin...
//
// Kept true: what is timed is compared first with cuBLAS or with double precision, computed here;
// inputs are random and larger than the GPU's caches, or several that take turns.
#include "hip/kernels/kernels.h"

#include <cuda.h>
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MODULES = 64, REPEATS = 7, HEAD = 128 };

static CUmodule modules[MAX_MODULES];
static int n_modules, n_wrong;
static CUstream stream;
static double bandwidth; // bytes a second, the best that was seen

static void must(CUresult result, const char * what) {
    const char * text = "unknown";
    if (result != CUDA_SUCCESS) {
        cuGetErrorString(result, &text);
        fprintf(stderr, "nvcc-bench: %s: %s\n", what, text);
        exit(1);
    }
}

static CUfunction find(const char * kernel) {
    CUfunction f;
    for (int i = 0; i < n_modules; i++) {
        if (cuModuleGetFunction(&f, modules[i], kernel) == CUDA_SUCCESS) {
            return f;
        }
    }
    fprintf(stderr, "nvcc-bench: no kernel %s\n", kernel);
    exit(1);
}

static void launch(const char * kernel, const void * args, size_t size, unsigned x, unsigned y,
                   unsigned z, unsigned group) {
    void * extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *) (uintptr_t) args,
                      CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    must(cuLaunchKernel(find(kernel), x, y, z, group, 1, 1, 0, stream, NULL, extra), kernel);
}

static CUdeviceptr room(size_t size) {
    CUdeviceptr p;
    must(cuMemAlloc(&p, size), "memory");
    return p;
}

static CUdeviceptr put(const void * from, size_t size) {
    CUdeviceptr p = room(size);
    must(cuMemcpyHtoD(p, from, size), "copy");
    return p;
}

// Seconds of one of `turns` calls, the median of several times that a graph of all of them ran.
static double time_of(void (*call)(void * user, int turn), void * user, int turns) {
    CUgraph graph;
    CUgraphExec exec;
    CUevent from, to;
    float ms[REPEATS];
    must(cuEventCreate(&from, 0), "event");
    must(cuEventCreate(&to, 0), "event");
    must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "capture");
    for (int i = 0; i < turns; i++) {
        call(user, i);
    }
    must(cuStreamEndCapture(stream, &graph), "capture");
    must(cuGraphInstantiate(&exec, graph, 0), "graph");
    must(cuGraphLaunch(exec, stream), "graph");
    for (int i = 0; i < REPEATS; i++) {
        must(cuEventRecord(from, stream), "event");
        must(cuGraphLaunch(exec, stream), "graph");
        must(cuEventRecord(to, stream), "event");
        must(cuStreamSynchronize(stream), "kernel");
        must(cuEventElapsedTime(&ms[i], from, to), "event");
        for (int j = i; j > 0 && ms[j] < ms[j - 1]; j--) {
            float t = ms[j];
            ms[j] = ms[j - 1];
            ms[j - 1] = t;
        }
    }
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    return ms[REPEATS / 2] / 1e3 / turns;
}

// ---- numbers ----

static uint64_t state = 88172645463325252u;
static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}
static float draw_float(void) { // in [-1, 1)
    return (float) (int32_t) (draw() >> 32) / 2147483648.0f;
}

static float from_half(uint16_t h) {
    int e = h >> 10 & 31, m = h & 1023;
    float v = e ? ldexpf((float) (1024 + m), e - 25) : ldexpf((float) m, -24);
    return h & 0x8000 ? -v : v;
}
static uint16_t draw_half(void) { // in (-1, 1), no subnormals
    return (uint16_t) ((draw() & 0x83ff) | (11 + draw() % 4) << 10);
}
static float from_bf16(uint16_t h) {
    uint32_t bits = (uint32_t) h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void line(const char * what, double seconds, double amount, const char * unit, double best,
                 const char * of, double wrong, double allowed) {
    bool right = wrong <= allowed; // not of a NaN
    n_wrong += !right;
    printf("%-44s %9.1f us %8.2f %-7s %5.1f %% of %-8s %s (%.1e)\n", what, seconds * 1e6,
           amount / seconds / 1e12, unit, 100 * amount / seconds / best, of,
           right ? "right" : "WRONG", wrong);
}

// ---- memory ----

struct read_args {
    const void * x;
    uint32_t n; // of 16 bytes
    uint32_t * y;
};
struct copy_job {
    CUdeviceptr from, to;
    size_t size;
};

static void call_copy(void * user, int turn) {
    struct copy_job * j = user;
    (void) turn;
    must(cuMemcpyDtoDAsync(j->to, j->from, j->size, stream), "copy");
}
static void call_read(void * user, int turn) {
    struct copy_job * j = user;
    struct read_args a = {(const void *) j->from, (uint32_t) (j->size / 16), (uint32_t *) j->to};
    (void) turn;
    launch("bench_read", &a, sizeof a, 132 * 16, 1, 1, RK_BLOCK);
}

static void bench_memory(void) {
    struct copy_job j = {.size = (size_t) 1 << 30};
    j.from = room(j.size);
    j.to = room(j.size);
    must(cuMemsetD32(j.from, 0x3f9d70a4, j.size / 4), "set");
    double copy = 2.0 * (double) j.size / time_of(call_copy, &j, 4);
    double read = (double) j.size / time_of(call_read, &j, 4);
    bandwidth = read > copy ? read : copy;
    printf("memory: copied %.2f TB/s (read and written), read %.2f TB/s; 4.80 by its data sheet\n",
           copy / 1e12, read / 1e12);
    cuMemFree(j.from);
    cuMemFree(j.to);
}

// ---- products of matrices ----

typedef int (*create_fn)(void **);
typedef int (*stream_fn)(void *, CUstream);
typedef int (*mode_fn)(void *, int);
typedef int (*gemm_fn)(void *, int, int, int, int, int, const void *, const void *, int, int,
                       const void *, int, int, const void *, void *, int, int, int, int);
struct gemm_job {
    int n, a_type, b_type; // cuBLAS's: 0 f32, 2 f16, 14 bf16
    const char * kernel;
    CUdeviceptr a, b, y, want;
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
        ((stream_fn) dlsym(lib, "cublasSetStream_v2"))(cublas, stream) ||
        ((mode_fn) dlsym(lib, "cublasSetMathMode"))(cublas, 0)) { // 0: no TF32
        printf("cuBLAS: not found; name its library in CUBLAS\n");
        return false;
    }
    return true;
}

// y[j][i] = sum a[i][k] b[j][k]: of columns behind each other that is a's transpose times b.
static void call_cublas(void * user, int turn) {
    struct gemm_job * j = user;
    float one = 1, zero = 0;
    (void) turn;
    if (gemm(cublas, 1, 0, j->n, j->n, j->n, &one, (void *) j->a, j->a_type, j->n, (void *) j->b,
             j->b_type, j->n, &zero, (void *) j->want, 0, j->n, 68, -1)) { // in f32
        fprintf(stderr, "nvcc-bench: cuBLAS refuses %s\n", j->kernel);
        exit(1);
    }
}
static void call_matmul(void * user, int turn) {
    struct gemm_job * j = user;
    uint32_t n = (uint32_t) j->n, groups = (n + RK_TILE_WIDE - 1) / RK_TILE_WIDE;
    struct rk_matmul a = {.n_rows = n,
                          .n_columns = n,
                          .n_inner = n,
                          .dim = 1,
                          .a_share = {1, 1},
                          .a_stride = {n, 1},
                          .b_stride = {1, n},
                          .y_stride = {1, n},
                          .a = (void *) j->a,
                          .b = (void *) j->b,
                          .y = (void *) j->y};
    (void) turn;
    launch(j->kernel, &a, sizeof a, groups, groups, 1, RK_BLOCK);
}

static void * draw_matrix(int type, size_t n) {
    uint16_t * half = malloc(n * 4);
    float * whole = (float *) half;
    for (size_t i = 0; half && i < n; i++) {
        float f = draw_float();
        if (type == 0) {
            whole[i] = f;
        } else if (type == 2) {
            half[i] = draw_half();
        } else {
            memcpy(&half[i], (char *) &f + 2, 2);
        }
    }
    return half;
}

static void bench_matmul(const char * kernel, int n, int a_type, int b_type) {
    struct gemm_job j = {.n = n, .a_type = a_type, .b_type = b_type, .kernel = kernel};
    size_t count = (size_t) n * (size_t) n, size = count * 4;
    void *a = draw_matrix(a_type, count), *b = draw_matrix(b_type, count);
    float *have = malloc(size), *want = malloc(size);
    double flops = 2.0 * n * (double) count, wrong = 0, best = 1, took;
    bool ours = a_type == b_type && cublas;
    char what[64];
    j.a = put(a, size);
    j.b = put(b, size);
    j.y = room(size);
    j.want = room(size);
    must(cuMemsetD32(j.y, 0x7fc00000, count), "set");
    took = time_of(call_matmul, &j, 3);
    must(cuMemcpyDtoH(have, j.y, size), "copy");
    if (ours) {
        best = flops / time_of(call_cublas, &j, 3);
        must(cuMemcpyDtoH(want, j.want, size), "copy");
        for (size_t i = 0; i < count; i++) {
            double off = fabs((double) have[i] - (double) want[i]);
            wrong = off > wrong || off != off ? off : wrong;
        }
    } else { // some elements in double precision
        for (int t = 0; t < 512; t++) {
            size_t r = draw() % (size_t) n, c = draw() % (size_t) n;
            double sum = 0;
            for (size_t k = 0; k < (size_t) n; k++) {
                size_t at = r * (size_t) n + k;
                float v = a_type == 0   ? ((float *) a)[at]
                          : a_type == 2 ? from_half(((uint16_t *) a)[at])
                                        : from_bf16(((uint16_t *) a)[at]);
                at = c * (size_t) n + k;
                float w = b_type == 0   ? ((float *) b)[at]
                          : b_type == 2 ? from_half(((uint16_t *) b)[at])
                                        : from_bf16(((uint16_t *) b)[at]);
                sum += (double) v * (double) w;
            }
            double off = fabs(sum - (double) have[c * (size_t) n + r]);
            wrong = off > wrong || off != off ? off : wrong;
        }
    }
    snprintf(what, sizeof what, "%s %d^3", kernel, n);
    line(what, took, flops, "TFLOP/s", ours ? best : 66.9e12, ours ? "cuBLAS" : "f32 peak",
         wrong / sqrt(n), 1e-4);
    cuMemFree(j.a), cuMemFree(j.b), cuMemFree(j.y), cuMemFree(j.want);
    free(a), free(b), free(have), free(want);
}

// ---- few columns ----

enum { Q4_BYTES = 18, Q4_LENGTH = 32, SETS = 4 };
struct vec_job {
    uint32_t rows, inner, columns;
    int sets;
    CUdeviceptr a[SETS], b, bytes, y; // bytes: what columns_q8 makes of b
};

static void call_matvec(void * user, int turn) {
    struct vec_job * j = user;
    struct rk_matmul a = {.n_rows = j->rows,
                          .n_columns = j->columns,
                          .n_inner = j->inner,
                          .dim = 1,
                          .a_share = {1, 1},
                          .a_stride = {j->inner / Q4_LENGTH, 1},
                          .b_stride = {1, j->inner},
                          .y_stride = {1, j->rows},
                          .a = (void *) j->a[turn % j->sets],
                          .b = (void *) j->b,
                          .y = (void *) j->y};
    struct rk_matmul bytes = a;
    bytes.y = (void *) j->bytes;
    a.b = (void *) j->bytes;
    launch("columns_q8", &bytes, sizeof bytes, (j->inner / 4 + RK_BLOCK - 1) / RK_BLOCK, j->columns,
           1, RK_BLOCK);
    if (j->columns == 1) {
        launch("matvec_direct_q4_0_q8", &a, sizeof a,
               (j->rows + RK_ROWS_DIRECT - 1) / RK_ROWS_DIRECT, 1, 1, RK_DIRECT_GROUP(j->inner));
    } else {
        launch("matvec_q4_0_q8", &a, sizeof a, (j->rows + RK_ROWS - 1) / RK_ROWS,
               (j->columns + RK_COLUMNS - 1) / RK_COLUMNS, 1, RK_BLOCK);
    }
}

static void bench_matvec(uint32_t rows, uint32_t inner, uint32_t columns, int sets) {
    struct vec_job j = {.rows = rows, .inner = inner, .columns = columns, .sets = sets};
    size_t blocks = (size_t) rows * inner / Q4_LENGTH, size = blocks * Q4_BYTES;
    uint8_t * a = malloc(size + 8);
    float *b = malloc(inner * columns * 4), *y = malloc((size_t) rows * columns * 4);
    double wrong = 0;
    char what[64];
    for (size_t i = 0; i < size; i += 8) {
        uint64_t v = draw();
        memcpy(a + i, &v, 8);
    }
    for (size_t i = 0; i < blocks; i++) {
        uint16_t d = draw_half();
        memcpy(a + i * Q4_BYTES, &d, 2);
    }
    for (size_t i = 0; i < (size_t) inner * columns; i++) {
        b[i] = draw_float();
    }
    for (int s = 0; s < sets; s++) {
        j.a[s] = put(a, size);
    }
    j.b = put(b, inner * columns * 4);
    j.y = room((size_t) rows * columns * 4);
    j.bytes = room((size_t) RK_Q8_BYTES(inner) * columns);
    must(cuMemsetD32(j.y, 0x7fc00000, (size_t) rows * columns), "set");
    double took = time_of(call_matvec, &j, 4 * sets);
    must(cuMemcpyDtoH(y, j.y, (size_t) rows * columns * 4), "copy");
    for (int t = 0; t < 512; t++) {
        uint32_t r = t == 0 ? rows - 1 : (uint32_t) (draw() % rows), c = (uint32_t) t % columns;
        double sum = 0, all = 0;
        for (uint32_t k = 0; k < inner; k++) {
            const uint8_t * q = a + ((size_t) r * (inner / 32) + k / 32) * Q4_BYTES;
            int v = k % 32 < 16 ? q[2 + k % 16] & 15 : q[2 + k % 16] >> 4;
            uint16_t d;
            memcpy(&d, q, 2);
            double term = (double) from_half(d) * (v - 8) * (double) b[c * inner + k];
            sum += term;
            all += term * term;
        }
        double off = fabs(sum - (double) y[(size_t) c * rows + r]) / sqrt(all);
        wrong = off > wrong || off != off ? off : wrong;
    }
    snprintf(what, sizeof what, "q4_0 %u x %u, %u column%s", rows, inner, columns,
             columns == 1 ? "" : "s");
    line(what, took, (double) size, "TB/s", bandwidth, "memory", wrong, 2e-2);
    for (int s = 0; s < sets; s++) {
        cuMemFree(j.a[s]);
    }
    cuMemFree(j.b), cuMemFree(j.y), cuMemFree(j.bytes);
    free(a), free(b), free(y);
}

// ---- attention: one query, K and V of f16 ----

struct attention_job {
    struct rk_attention a;
    uint32_t batches, rows_of_group;
    const char * kernel;
    size_t set; // bytes of K, or of V, of a turn
    int sets;
};

static void call_attention(void * user, int turn) {
    struct attention_job * j = user;
    struct rk_attention a = j->a;
    uint32_t rows = a.share, heads = a.n_kv_heads * j->batches;
    a.k = (const char *) a.k + (size_t) (turn % j->sets) * j->set;
    a.v = (const char *) a.v + (size_t) (turn % j->sets) * j->set;
    launch(j->kernel, &a, sizeof a, (rows + j->rows_of_group - 1) / j->rows_of_group, heads,
           a.n_splits, RK_BLOCK);
    if (a.n_splits > 1) {
        launch("attention_join", &a, sizeof a, rows * heads, 1, 1, RK_BLOCK);
    }
}

static void bench_attention(uint32_t keys, uint32_t kv_heads, uint32_t share, uint32_t batches,
                            uint32_t splits, const char * kernel, uint32_t rows_of_group,
                            int sets) {
    size_t each = (size_t) keys * kv_heads * batches * HEAD,
           n_q = (size_t) kv_heads * share * batches * HEAD;
    uint16_t *k = malloc(each * 2 * (size_t) sets), *v = malloc(each * 2 * (size_t) sets);
    float *q = malloc(n_q * 4), *y = malloc(n_q * 4), *w = malloc(keys * 4);
    double wrong = 0;
    char what[64];
    for (size_t i = 0; i < each * (size_t) sets; i++) {
        k[i] = draw_half();
        v[i] = draw_half();
    }
    for (size_t i = 0; i < n_q; i++) {
        q[i] = draw_float();
    }
    CUdeviceptr dk = put(k, each * 2 * (size_t) sets), dv = put(v, each * 2 * (size_t) sets),
                dq = put(q, n_q * 4), dy = room(n_q * 4),
                parts = room(n_q / HEAD * splits * (HEAD + 2) * 4);
    // As llama.cpp's cache has it: a key's heads one behind the other.
    struct attention_job j = {
        .a = {.k_size = HEAD,
              .v_size = HEAD,
              .n_queries = 1,
              .n_keys = keys,
              .n_kv_heads = kv_heads,
              .share = share,
              .kv_repeats = 1,
              .q_stride = {kv_heads * share * HEAD, HEAD, kv_heads * share * HEAD},
              .k_stride = {kv_heads * HEAD, HEAD, keys * kv_heads * HEAD},
              .v_stride = {kv_heads * HEAD, HEAD, keys * kv_heads * HEAD},
              .y_stride = {HEAD, kv_heads * share * HEAD, kv_heads * share * HEAD},
              .mask_dims = {1, 1},
              .n_splits = splits,
              .split_keys = keys / splits,
              .scale = 0.5f,
              .q = (void *) dq,
              .k = (void *) dk,
              .v = (void *) dv,
              .y = (void *) dy,
              .parts = (float *) parts},
        .batches = batches,
        .rows_of_group = rows_of_group,
        .kernel = kernel,
        .set = each * 2,
        .sets = sets};
    must(cuMemsetD32(dy, 0x7fc00000, n_q), "set");
    double took = time_of(call_attention, &j, 4 * sets);
    call_attention(&j, 0);
    must(cuStreamSynchronize(stream), "kernel");
    must(cuMemcpyDtoH(y, dy, n_q * 4), "copy");
    for (int t = 0; t < 8; t++) {
        uint32_t batch = (uint32_t) (draw() % batches),
                 head = (uint32_t) (draw() % (kv_heads * share));
        size_t kv = ((size_t) batch * keys * kv_heads + head / share) * HEAD;
        const float * mine = q + ((size_t) batch * kv_heads * share + head) * HEAD;
        double most = -INFINITY, sum = 0, out[HEAD] = {0};
        for (uint32_t i = 0; i < keys; i++) {
            double s = 0;
            for (uint32_t d = 0; d < HEAD; d++) {
                s +=
                    (double) mine[d] * (double) from_half(k[kv + (size_t) i * kv_heads * HEAD + d]);
            }
            w[i] = (float) (s * 0.5);
            most = w[i] > most ? w[i] : most;
        }
        for (uint32_t i = 0; i < keys; i++) {
            double e = exp((double) w[i] - most);
            sum += e;
            for (uint32_t d = 0; d < HEAD; d++) {
                out[d] += e * (double) from_half(v[kv + (size_t) i * kv_heads * HEAD + d]);
            }
        }
        for (uint32_t d = 0; d < HEAD; d++) {
            double off = fabs(out[d] / sum -
                              (double) y[((size_t) batch * kv_heads * share + head) * HEAD + d]);
            wrong = off > wrong || off != off ? off : wrong;
        }
    }
    snprintf(what, sizeof what, "%s %u keys, %u/%u heads, batch %u, splits %u", kernel + 10, keys,
             kv_heads * share, kv_heads, batches, splits);
    line(what, took, 4.0 * (double) each, "TB/s", bandwidth, "memory", wrong, 1e-4);
    cuMemFree(dk), cuMemFree(dv), cuMemFree(dq), cuMemFree(dy), cuMemFree(parts);
    free(k), free(v), free(q), free(y), free(w);
}

int main(int argc, char ** argv) {
    CUdevice device;
    CUcontext context;
    char name[128] = "";
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS) {
        fprintf(stderr, "nvcc-bench: no NVIDIA GPU\n");
        return 1;
    }
    cuDeviceGetName(name, sizeof name, device);
    must(cuStreamCreate(&stream, 0), "stream");
    for (int i = 1; i < argc && n_modules < MAX_MODULES; i++) {
        must(cuModuleLoad(&modules[n_modules++], argv[i]), argv[i]);
    }
    printf("%s\n", name);
    open_cublas();
    bench_memory();
    bench_matmul("matmul_wide_f32", 4096, 0, 0);
    bench_matmul("matmul_wide_f32", 2048, 0, 0);
    bench_matmul("matmul_wide_f16_f32", 4096, 2, 0);
    bench_matmul("matmul_wide_bf16_f32", 4096, 14, 0);
    bench_matmul("matmul_wide_f16_f16_f32", 4096, 2, 2);
    bench_matvec(128256, 4096, 1, 1);
    bench_matvec(14336, 4096, 1, SETS);
    bench_matvec(4096, 14336, 1, SETS);
    bench_matvec(14336, 4096, 4, SETS);
    bench_matvec(14336, 4096, 8, SETS);
    bench_attention(4096, 8, 4, 1, 32, "attention_few_f16", RK_FEW_ROWS, 8);
    bench_attention(4096, 8, 4, 8, 4, "attention_few_f16", RK_FEW_ROWS, 2);
    bench_attention(4096, 8, 4, 32, 1, "attention_few_f16", RK_FEW_ROWS, 1);
    bench_attention(4096, 32, 1, 1, 8, "attention_one_f16", 1, 4);
    bench_attention(4096, 32, 1, 8, 2, "attention_one_f16", 1, 1);
    return n_wrong != 0;
}

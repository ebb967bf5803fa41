// nvcc-columns: products of few columns, whose bound is memory. Beside the time of the node, with
// its columns made into bytes first, stand the last kernel's alone and that of a kernel that reads
// as many bytes and does nothing else: what starting and ending cost there is no product's fault.
// Several at a time, which do not wait for each other, hide that.
#include "nvcc-rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job {
    struct rk_matmul a;
    const char * kernel;
    CUdeviceptr first, bytes, b; // of all sets; bytes: what columns_q8 makes of b
    size_t set;
    int sets;
    uint32_t x, y, group;
};

static void call_node(void * user, int turn) {
    struct job * j = user;
    struct rk_matmul a = j->a;
    a.a = (void *) (j->first + (size_t) (turn % j->sets) * j->set);
    if (j->bytes) {
        struct rk_matmul bytes = a;
        bytes.b = (void *) j->b;
        bytes.y = (void *) j->bytes;
        bench_launch("columns_q8", &bytes, sizeof bytes, (a.n_inner / 4 + RK_BLOCK - 1) / RK_BLOCK,
                     a.n_columns, 1, RK_BLOCK);
    }
    bench_launch(j->kernel, &a, sizeof a, j->x, j->y, 1, j->group);
}

static void call_last(void * user, int turn) {
    struct job * j = user;
    struct rk_matmul a = j->a;
    a.a = (void *) (j->first + (size_t) (turn % j->sets) * j->set);
    bench_launch(j->kernel, &a, sizeof a, j->x, j->y, 1, j->group);
}

// As src/backend/gpu/mat.c chooses.
static bool choose(struct job * j, const char * type, bool blocks, char * kernel, size_t size) {
    static const char * const ways[] = {"direct_", "one_", ""};
    uint32_t rows = j->a.n_rows, columns = j->a.n_columns, each = blocks ? 32 : 64;
    static const char bytes[] = " q4_0 q4_1 q5_0 q5_1 q8_0 q4_K q5_K q6_K ";
    char word[16];
    snprintf(word, sizeof word, " %s ", type);
    if (strstr(bytes, word)) {
        int way = columns > 1 ? 2 : strstr(type, "_K") ? 1 : 0;
        uint32_t of_group = way == 0 ? RK_ROWS_DIRECT : RK_ROWS;
        snprintf(kernel, size, "matvec_%s%s_q8", ways[way], type);
        j->x = (rows + of_group - 1) / of_group;
        j->y = (columns + RK_COLUMNS - 1) / RK_COLUMNS;
        j->group = way == 0 ? RK_DIRECT_GROUP(j->a.n_inner) : RK_BLOCK;
        return true;
    }
    snprintf(kernel, size, strcmp(type, "f32") ? "matvec_%s_f32" : "matvec_%s", type);
    j->x = rows;
    j->y = columns;
    for (j->group = 64; j->group < RK_BLOCK && j->group < j->a.n_inner / each; j->group *= 2) {
    }
    return false;
}

static void bench_matvec(const char * type, uint32_t rows, uint32_t inner, uint32_t columns) {
    struct bench_type t = bench_type_of(type), f32 = bench_type_of("f32");
    size_t numbers = (size_t) rows * inner, size = bench_bytes(&t, numbers);
    uint32_t step = t.blocks ? inner / (uint32_t) t.blocks->length : inner;
    struct job j = {.a = {.n_rows = rows,
                          .n_columns = columns,
                          .n_inner = inner,
                          .dim = 1,
                          .a_share = {1, 1},
                          .a_stride = {step, 1},
                          .b_stride = {1, inner},
                          .y_stride = {1, rows}},
                    .set = (size + 255) / 256 * 256};
    double wrong = 0, *v = malloc(inner * sizeof *v);
    char kernel[64], what[128];
    bool as_bytes = choose(&j, type, t.blocks != NULL, kernel, sizeof kernel);
    if (!bench_has(kernel) || (as_bytes && !bench_has("columns_q8"))) {
        free(v);
        return;
    }
    uint8_t * a = bench_random(&t, numbers);
    float *b = bench_random(&f32, (size_t) inner * columns),
          *y = malloc((size_t) rows * columns * 4);
    j.kernel = kernel;
    j.sets = bench_sets(size);
    j.first = bench_room(j.set * (size_t) j.sets);
    for (int s = 0; s < j.sets; s++) {
        bench_must(cuMemcpyHtoD(j.first + (size_t) s * j.set, a, size), "copy");
    }
    j.b = bench_put(b, (size_t) inner * columns * 4);
    CUdeviceptr dy = bench_fill((size_t) rows * columns);
    j.bytes = as_bytes ? bench_room((size_t) RK_Q8_BYTES(inner) * columns) : 0;
    j.a.b = (void *) (as_bytes ? j.bytes : j.b);
    j.a.y = (void *) dy;
    double took = bench_time(call_node, &j, 4 * j.sets), alone = took;
    bench_must(cuMemcpyDtoH(y, dy, (size_t) rows * columns * 4), "copy");
    if (as_bytes) {
        alone = bench_time(call_last, &j, 4 * j.sets);
    }
    for (int i = 0; i < 256; i++) {
        uint32_t r = i == 0 ? rows - 1 : (uint32_t) (bench_draw() % rows),
                 c = (uint32_t) i % columns;
        double sum = 0, all = 0;
        bench_decode(&t, a, (size_t) r * inner, inner, v);
        for (uint32_t k = 0; k < inner; k++) {
            double term = v[k] * (double) b[(size_t) c * inner + k];
            sum += term;
            all += term * term;
        }
        double off = fabs(sum - (double) y[(size_t) c * rows + r]) / sqrt(all);
        wrong = off > wrong || off != off ? off : wrong;
    }
    snprintf(what, sizeof what, "%s %u x %u, %u column%s", kernel, rows, inner, columns,
             columns == 1 ? "" : "s");
    bench_line(what, took, (double) size, BENCH_BYTES, bench_bandwidth, "memory", wrong,
               as_bytes ? 2e-2 : 1e-4);
    printf("%50s %9.2f us; reading as much, and no more: %.2f us\n",
           as_bytes ? "without columns_q8:" : "", alone * 1e6, bench_read_time(size) * 1e6);
    double beside = bench_time_beside(call_last, &j, 4 * j.sets);
    printf("%46s %d at a time: %9.2f us, %.1f %% of memory; reading: %.2f us\n", "", BENCH_BESIDE,
           beside * 1e6, 100 * (double) size / beside / bench_bandwidth,
           bench_read_time_beside(size) * 1e6);
    cuMemFree(j.first), cuMemFree(j.b), cuMemFree(dy);
    if (j.bytes) {
        cuMemFree(j.bytes);
    }
    free(a), free(b), free(y), free(v);
}

void bench_columns(void) {
    static const char * const types[] = {
        "f32",   "f16",    "bf16",  "q4_1",   "q5_0",    "q5_1",  "q8_0",    "q4_K",  "q5_K",
        "q6_K",  "iq4_nl", "mxfp4", "nvfp4",  "q1_0",    "q2_0",  "q2_K",    "q3_K",  "iq4_xs",
        "tq1_0", "tq2_0",  "iq2_s", "iq2_xs", "iq2_xxs", "iq3_s", "iq3_xxs", "iq1_s", "iq1_m"};
    bench_matvec("q4_0", 128256, 4096, 1);
    bench_matvec("q4_0", 14336, 4096, 1);
    bench_matvec("q4_0", 4096, 14336, 1);
    bench_matvec("q4_0", 4096, 4096, 1);
    bench_matvec("q4_0", 14336, 4096, 4);
    bench_matvec("q4_0", 14336, 4096, 8);
    bench_matvec("q4_K", 14336, 4096, 8);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        bench_matvec(types[i], 14336, 4096, 1);
    }
}

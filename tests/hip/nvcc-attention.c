// nvcc-attention: attention, of one query over a long cache, whose bound is memory, and of a
// prompt. With several splits attention_join is a launch of its own, whose share stands beside it.
#include "nvcc-rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 128 };

struct job {
    struct rk_attention a;
    uint32_t batches, rows_of_group;
    const char * kernel;
    size_t set; // bytes of K, or of V, of a turn
    int sets;
    bool join;
};

static void call_attention(void * user, int turn) {
    struct job * j = user;
    struct rk_attention a = j->a;
    uint32_t rows = a.n_queries * a.share, heads = a.n_kv_heads * j->batches;
    a.k = (const char *) a.k + (size_t) (turn % j->sets) * j->set;
    a.v = (const char *) a.v + (size_t) (turn % j->sets) * j->set;
    bench_launch(j->kernel, &a, sizeof a, (rows + j->rows_of_group - 1) / j->rows_of_group, heads,
                 a.n_splits, RK_BLOCK);
    if (a.n_splits > 1 && j->join) {
        bench_launch("attention_join", &a, sizeof a, rows * heads, 1, 1, RK_BLOCK);
    }
}

struct shape {
    uint32_t keys, kv_heads, share, batches, queries, splits;
};

// One row of y in double precision, and how far the one that is there is from it. `first`: the
// row's head of the first key, in numbers.
static double error_of(const struct shape * s, const struct bench_type * t, const void * k,
                       const void * v, size_t first, const float * q, const float * y) {
    double *w = malloc(s->keys * sizeof *w), most = -INFINITY, sum = 0, out[HEAD] = {0}, wrong = 0;
    size_t step = (size_t) s->kv_heads * HEAD;
    double row[HEAD];
    for (uint32_t i = 0; i < s->keys; i++) {
        w[i] = 0;
        bench_decode(t, k, first + i * step, HEAD, row);
        for (uint32_t d = 0; d < HEAD; d++) {
            w[i] += 0.5 * (double) q[d] * row[d];
        }
        most = w[i] > most ? w[i] : most;
    }
    for (uint32_t i = 0; i < s->keys; i++) {
        double e = exp(w[i] - most);
        sum += e;
        bench_decode(t, v, first + i * step, HEAD, row);
        for (uint32_t d = 0; d < HEAD; d++) {
            out[d] += e * row[d];
        }
    }
    for (uint32_t d = 0; d < HEAD; d++) {
        double off = fabs(out[d] / sum - (double) y[d]);
        wrong = off > wrong || off != off ? off : wrong;
    }
    free(w);
    return wrong;
}

static void bench_shape(const char * type, const char * kind, uint32_t rows_of_group,
                        struct shape s) {
    struct bench_type t = bench_type_of(type), f32 = bench_type_of("f32");
    uint32_t heads = s.kv_heads * s.share, length = t.blocks ? (uint32_t) t.blocks->length : 1;
    uint32_t head = HEAD / length, step = s.kv_heads * head; // in elements or blocks
    size_t each = (size_t) s.keys * s.kv_heads * HEAD, all = each * s.batches,
           n_q = (size_t) heads * s.batches * s.queries * HEAD, bytes = bench_bytes(&t, all);
    double wrong = 0;
    char kernel[64], what[128];
    snprintf(kernel, sizeof kernel, "attention_%s%s", kind, type);
    if (!bench_has(kernel) || (s.splits > 1 && !bench_has("attention_join"))) {
        return;
    }
    int sets = bench_sets(2 * bytes);
    void *k = bench_random(&t, all), *v = bench_random(&t, all);
    float *q = bench_random(&f32, n_q), *y = malloc(n_q * 4);
    CUdeviceptr dk = bench_room(bytes * (size_t) sets), dv = bench_room(bytes * (size_t) sets),
                dq = bench_put(q, n_q * 4), dy = bench_fill(n_q),
                parts = bench_room(n_q / HEAD * s.splits * (HEAD + 4) * 4);
    for (int i = 0; i < sets; i++) {
        bench_must(cuMemcpyHtoD(dk + (size_t) i * bytes, k, bytes), "copy");
        bench_must(cuMemcpyHtoD(dv + (size_t) i * bytes, v, bytes), "copy");
    }
    // As llama.cpp's cache has it: a key's heads one behind the other.
    struct job j = {.a = {.k_size = HEAD,
                          .v_size = HEAD,
                          .n_queries = s.queries,
                          .n_keys = s.keys,
                          .n_kv_heads = s.kv_heads,
                          .share = s.share,
                          .kv_repeats = 1,
                          .q_stride = {heads * HEAD, HEAD, s.queries * heads * HEAD},
                          .k_stride = {step, head, s.keys * step},
                          .v_stride = {step, head, s.keys * step},
                          .y_stride = {HEAD, heads * HEAD, s.queries * heads * HEAD},
                          .mask_dims = {1, 1},
                          .n_splits = s.splits,
                          .split_keys = s.keys / s.splits,
                          .scale = 0.5f,
                          .q = (void *) dq,
                          .k = (void *) dk,
                          .v = (void *) dv,
                          .y = (void *) dy,
                          .parts = (float *) parts},
                    .batches = s.batches,
                    .rows_of_group = rows_of_group,
                    .kernel = kernel,
                    .set = bytes,
                    .sets = sets};
    double alone = bench_time(call_attention, &j, 4 * sets);
    double beside =
        bench_time_beside(call_attention, &j, 4 * sets); // their parts are not looked at
    j.join = true;
    double took = s.splits > 1 ? bench_time(call_attention, &j, 4 * sets) : alone;
    bench_must(cuMemcpyDtoH(y, dy, n_q * 4), "copy");
    for (int i = 0; i < 4; i++) {
        size_t batch = bench_draw() % s.batches, at = bench_draw() % heads,
               query = bench_draw() % s.queries, first = batch * each + at / s.share * HEAD,
               row = ((batch * s.queries + query) * heads + at) * HEAD;
        double off = error_of(&s, &t, k, v, first, q + row, y + row);
        wrong = off > wrong || off != off ? off : wrong;
    }
    snprintf(what, sizeof what, "%s %u keys, %u/%u heads, batch %u", kernel + 10, s.keys, heads,
             s.kv_heads, s.batches);
    if (s.queries > 1) {
        double flops = 4.0 * s.keys * s.queries * heads * s.batches * HEAD;
        bench_line(what, took, flops, BENCH_FLOPS, 66.9e12, "data sheet", wrong, 1e-4);
    } else {
        bench_line(what, took, 2.0 * (double) bytes, BENCH_BYTES, bench_bandwidth, "memory", wrong,
                   t.blocks ? 1e-3 : 1e-4);
        printf("%38s %3u splits: %9.2f us; reading as much, and no more: %.2f us\n",
               "without the join of", s.splits, alone * 1e6, bench_read_time(2 * bytes) * 1e6);
        printf("%46s %d at a time: %9.2f us, %.1f %% of memory; reading: %.2f us\n", "",
               BENCH_BESIDE, beside * 1e6, 200 * (double) bytes / beside / bench_bandwidth,
               bench_read_time_beside(2 * bytes) * 1e6);
    }
    cuMemFree(dk), cuMemFree(dv), cuMemFree(dq), cuMemFree(dy), cuMemFree(parts);
    free(k), free(v), free(q), free(y);
}

void bench_attention(void) {
    static const char * const types[] = {"f32",  "bf16", "q8_0", "q4_0",
                                         "q4_1", "q5_0", "q5_1", "iq4_nl"};
    // keys, heads of K, of Q for each, batches, queries, splits (as gpu/attention.c has them)
    bench_shape("f16", "few_", RK_FEW_ROWS, (struct shape){4096, 8, 4, 1, 1, 32});
    bench_shape("f16", "few_", RK_FEW_ROWS, (struct shape){4096, 8, 4, 8, 1, 4});
    bench_shape("f16", "few_", RK_FEW_ROWS, (struct shape){4096, 8, 4, 32, 1, 1});
    bench_shape("f16", "few_", RK_FEW_ROWS, (struct shape){32768, 8, 4, 1, 1, 32});
    bench_shape("f16", "one_", 1, (struct shape){4096, 32, 1, 1, 1, 8});
    bench_shape("f16", "one_", 1, (struct shape){4096, 32, 1, 8, 1, 1});
    bench_shape("f16", "", 8, (struct shape){512, 8, 4, 1, 512, 1});
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        bench_shape(types[i], "few_", RK_FEW_ROWS, (struct shape){4096, 8, 4, 8, 1, 4});
        bench_shape(types[i], "one_", 1, (struct shape){4096, 32, 1, 2, 1, 4});
        bench_shape(types[i], "", 8, (struct shape){512, 8, 4, 1, 512, 1});
    }
}

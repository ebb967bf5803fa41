// consumer: a program that links ggml-hsa and adds two vectors on its first device. Ends with 0
// when the sums are right.
#include <ggml-alloc.h>
#include <ggml-hsa.h>
#include <stdio.h>

int main(void) {
    enum { N = 1000 };
    float a[N], b[N], c[N];
    int wrong = 0;
    ggml_backend_t backend = ggml_backend_hsa_init(0);
    if (!backend) {
        fprintf(stderr, "consumer: no device\n");
        return 1;
    }
    struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * 8 + ggml_graph_overhead(), .no_alloc = true};
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_tensor * ta = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N);
    struct ggml_tensor * tb = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N);
    struct ggml_tensor * tc = ggml_add(ctx, ta, tb);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, tc);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    for (int i = 0; i < N; i++) {
        a[i] = (float) i;
        b[i] = (float) (2 * i) + 0.5f;
    }
    ggml_backend_tensor_set(ta, a, 0, sizeof a);
    ggml_backend_tensor_set(tb, b, 0, sizeof b);
    if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) {
        fprintf(stderr, "consumer: the graph did not compute\n");
        return 1;
    }
    ggml_backend_tensor_get(tc, c, 0, sizeof c);
    for (int i = 0; i < N; i++) {
        wrong += c[i] != a[i] + b[i];
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_backend_free(backend);
    printf("consumer: %d of %d sums are wrong\n", wrong, N);
    return wrong != 0;
}

// test-plugin-steps: nodes that are made of several kernels, against the CPU backend. Each graph is
// computed three times with other data: what the host had to do for it is counted and is nothing,
// and the third time it is sent as planned before, unless a product is among its steps or they are
// too many to be kept. With parameters that contradict the shapes a node is refused.
#include "cpu-world.h"

enum { ROUNDS = 3 };

// ---- graphs: up to two sources go in ----

typedef struct ggml_tensor * build(struct ggml_context * ctx, struct ggml_tensor * a,
                                   struct ggml_tensor * b);

#define BUILD(name, value)                                                                         \
    static struct ggml_tensor * name(struct ggml_context * ctx, struct ggml_tensor * a,            \
                                     struct ggml_tensor * b) {                                     \
        (void) b;                                                                                  \
        return value;                                                                              \
    }

BUILD(pad, ggml_pad_ext(ctx, a, 1, 2, 3, 0, 0, 1, 2, 0))
BUILD(circular, ggml_pad_ext_circular(ctx, a, 1, 2, 3, 0, 0, 1, 1, 0))
BUILD(reflect, ggml_pad_reflect_1d(ctx, a, 4, 3))
BUILD(roll, ggml_roll(ctx, a, 3, -2, 1, 0))
BUILD(set, ggml_set_2d(ctx, a, b, a->nb[1], 8))
BUILD(acc, ggml_acc(ctx, a, b, a->nb[1], a->nb[2], a->nb[3], 8))
BUILD(acc_in_place, ggml_acc_inplace(ctx, a, b, a->nb[1], a->nb[2], a->nb[3], 8))
BUILD(diag, ggml_diag(ctx, a))
BUILD(filled, ggml_fill(ctx, a, -2.5f))
BUILD(filled_f16,
      ggml_cast(ctx, ggml_fill(ctx, ggml_cast(ctx, a, GGML_TYPE_F16), 1.5f), GGML_TYPE_F32))
BUILD(repeat_back, ggml_repeat_back(ctx, a, b))
BUILD(arange, ggml_add(ctx, a, ggml_arange(ctx, 3, 3 + 0.5f * (float) a->ne[0], 0.5f)))
BUILD(cumsum, ggml_cumsum(ctx, a))
BUILD(tri, ggml_tri(ctx, a, GGML_TRI_TYPE_LOWER))
BUILD(mask, ggml_exp(ctx, ggml_diag_mask_inf(ctx, a, 2)))
BUILD(timestep, ggml_timestep_embedding(ctx, a, 33, 1000))
BUILD(group_norm, ggml_group_norm(ctx, a, 3, 1e-5f))
BUILD(rms_norm_back, ggml_rms_norm_back(ctx, a, b, 1e-5f))
BUILD(soft_max_back, ggml_soft_max_ext_back(ctx, a, b, 0.5f, 0))
BUILD(im2col, ggml_im2col(ctx, b, a, 1, 2, 1, 0, 1, 1, true, GGML_TYPE_F32))
BUILD(conv, ggml_conv_2d_direct(ctx, b, a, 1, 2, 1, 0, 1, 1))
BUILD(conv_dw, ggml_conv_2d_dw_direct(ctx, b, a, 1, 2, 1, 0, 1, 1))
BUILD(conv_transpose, ggml_conv_transpose_1d(ctx, b, a, 3, 0, 1))
BUILD(pool_max, ggml_pool_2d(ctx, a, GGML_OP_POOL_MAX, 2, 3, 2, 1, 1, 1))
BUILD(pool_avg, ggml_pool_1d(ctx, a, GGML_OP_POOL_AVG, 3, 2, 1))
BUILD(ssm_conv, ggml_ssm_conv(ctx, a, b))
BUILD(nearest, ggml_interpolate(ctx, a, 11, 6, 4, 1, GGML_SCALE_MODE_NEAREST))
BUILD(bilinear, ggml_interpolate(ctx, a, 14, 9, 2, 1, GGML_SCALE_MODE_BILINEAR))
BUILD(corners, ggml_interpolate(ctx, a, 13, 3, 2, 1,
                                GGML_SCALE_MODE_BILINEAR | GGML_SCALE_FLAG_ALIGN_CORNERS))
BUILD(antialias,
      ggml_interpolate(ctx, a, 4, 6, 2, 1, GGML_SCALE_MODE_BILINEAR | GGML_SCALE_FLAG_ANTIALIAS))
BUILD(bicubic, ggml_interpolate(ctx, a, 13, 9, 2, 1, GGML_SCALE_MODE_BICUBIC))
BUILD(bicubic_corners,
      ggml_interpolate(ctx, a, 4, 6, 3, 1, GGML_SCALE_MODE_BICUBIC | GGML_SCALE_FLAG_ALIGN_CORNERS))
// Numbers near 1.5: what is above the diagonal must not matter, and nothing is divided by 0.
BUILD(solve, ggml_solve_tri(ctx, ggml_scale_bias(ctx, a, 0.1f, 1.5f), b, true, true, false))
// Numbers below the diagonal as large as those on it: each row makes the error of those before it
// larger.
BUILD(solve_growing,
      ggml_solve_tri(ctx, ggml_scale_bias(ctx, a, 0.45f, 0.55f), b, true, true, false))
// Two rows of a are added to each of three, in whatever order, and the others get nothing.
static struct ggml_tensor * rows_back(struct ggml_context * ctx, struct ggml_tensor * a,
                                      struct ggml_tensor * b) {
    struct ggml_tensor *first = ggml_argsort(ctx, ggml_view_1d(ctx, b, 3, 0), GGML_SORT_ORDER_ASC),
                       *second =
                           ggml_argsort(ctx, ggml_view_1d(ctx, b, 3, 64), GGML_SORT_ORDER_ASC);
    return ggml_get_rows_back(ctx, ggml_scale(ctx, a, 0.5f), ggml_concat(ctx, first, second, 0), b);
}

BUILD(col2im, ggml_col2im_1d(ctx, a, 2, 3, 1))

// States that go on for three tokens of two sequences, of the size that ggml's CPU takes for
// granted. The nodes that make their sources are kept, whatever becomes of themselves.
enum { SIZE = 64, HEADS = 2, TOKENS = 3, SEQUENCES = 2 };

static struct ggml_tensor * some(struct ggml_context * ctx, struct ggml_tensor * a, int64_t n,
                                 int64_t tokens, int64_t sequences, float scale) {
    struct ggml_tensor * t = ggml_view_4d(ctx, a, n, HEADS, tokens, sequences, n * 4, n * 4 * HEADS,
                                          n * 4 * HEADS * tokens, 0);
    return ggml_cont(ctx, ggml_scale(ctx, t, scale));
}

static struct ggml_tensor * delta_net(struct ggml_context * ctx, struct ggml_tensor * a,
                                      struct ggml_tensor * b) {
    struct ggml_tensor *x = some(ctx, a, SIZE, TOKENS, SEQUENCES, 0.5f),
                       *y = some(ctx, b, SIZE, TOKENS, SEQUENCES, 0.25f),
                       *one = some(ctx, b, 1, TOKENS, SEQUENCES, -0.5f),
                       *state = ggml_cont(ctx, ggml_view_4d(ctx, a, SIZE, SIZE, HEADS, SEQUENCES,
                                                            a->nb[1], a->nb[2], a->nb[3], 0));
    return ggml_gated_delta_net(ctx, x, y, x, one, one, state, 2);
}

#define STATE(name, value)                                                                         \
    static struct ggml_tensor * name(struct ggml_context * ctx, struct ggml_tensor * a,            \
                                     struct ggml_tensor * b) {                                     \
        struct ggml_tensor *x = some(ctx, a, SIZE, TOKENS * SEQUENCES, 1, 0.5f),                   \
                           *y = some(ctx, b, SIZE, TOKENS * SEQUENCES, 1, 0.25f),                  \
                           *first =                                                                \
                               ggml_cont(ctx, ggml_view_2d(ctx, b, SIZE, HEADS, b->nb[1], 0)),     \
                           *state = ggml_reshape_2d(ctx, a, SIZE * SIZE * HEADS, SEQUENCES);       \
        (void) first;                                                                              \
        return value;                                                                              \
    }

STATE(rwkv6, ggml_rwkv_wkv6(ctx, x, y, x, first, y, state))
STATE(rwkv7, ggml_rwkv_wkv7(ctx, x, y, x, y, x, y, state))
STATE(linear, ggml_gated_linear_attn(ctx, x, y, x, y, state, 0.3f))

// Four heads of two groups, each of whose states decays as a whole; or heads of one row, whose
// every element has its own decay. The states are those that a kernel's result names.
static struct ggml_tensor * scan(struct ggml_context * ctx, struct ggml_tensor * a,
                                 struct ggml_tensor * b, int64_t rows, int64_t kept) {
    int64_t heads = SIZE * HEADS / rows, decays = rows == 1 ? SIZE : 1;
    struct ggml_tensor *x = some(ctx, a, SIZE, TOKENS, SEQUENCES, 0.5f),
                       *y = some(ctx, b, SIZE, TOKENS, SEQUENCES, 0.25f),
                       *dt = ggml_cont(ctx, ggml_view_3d(ctx, b, heads, TOKENS, SEQUENCES,
                                                         heads * 4, b->nb[1] * 4, 64)),
                       *decay = ggml_cont(
                           ctx, ggml_view_2d(ctx, b, decays, heads, (size_t) decays * 4, 128)),
                       *ids = ggml_argsort(ctx, ggml_view_1d(ctx, b, SEQUENCES, 0),
                                           GGML_SORT_ORDER_ASC);
    return ggml_ssm_scan(ctx, ggml_reshape_4d(ctx, a, SIZE, rows, SIZE * HEADS / rows, SEQUENCES),
                         ggml_reshape_4d(ctx, x, rows, heads, TOKENS, SEQUENCES), dt, decay, y, y,
                         ids, (int) kept);
}

BUILD(mamba2, scan(ctx, a, b, SIZE / 2, 2))
BUILD(mamba1, scan(ctx, a, b, 1, 1))

static const struct {
    const char * name;
    build * of;
    int64_t a[GGML_MAX_DIMS], b[GGML_MAX_DIMS];
    bool planned; // each time: there is a product, or there are more steps than are kept
    double off;   // of the largest number; 0: what float kernels take
    int sorted;   // nodes before it that the host has, as it has a few numbers to sort (small.c)
} cases[] = {
    {.name = "PAD", .of = pad, .a = {5, 4, 3, 2}},
    {.name = "PAD circular", .of = circular, .a = {5, 4, 2, 1}},
    {.name = "PAD_REFLECT_1D", .of = reflect, .a = {9, 4, 3, 1}},
    {.name = "ROLL", .of = roll, .a = {7, 5, 3, 2}},
    {.name = "SET", .of = set, .a = {16, 6, 1, 1}, .b = {9, 3, 1, 1}},
    {.name = "ACC", .of = acc, .a = {16, 6, 2, 1}, .b = {9, 3, 2, 1}},
    {.name = "ACC in place", .of = acc_in_place, .a = {16, 6, 2, 1}, .b = {9, 3, 2, 1}},
    {.name = "DIAG", .of = diag, .a = {11, 1, 3, 1}},
    {.name = "FILL", .of = filled, .a = {33, 7, 1, 1}},
    {.name = "FILL f16", .of = filled_f16, .a = {32, 7, 1, 1}},
    {.name = "REPEAT_BACK", .of = repeat_back, .a = {12, 6, 2, 1}, .b = {6, 3, 1, 1}},
    {.name = "ARANGE", .of = arange, .a = {77, 1, 1, 1}},
    {.name = "CUMSUM", .of = cumsum, .a = {37, 5, 1, 1}},
    {.name = "TRI", .of = tri, .a = {9, 9, 2, 1}},
    {.name = "DIAG_MASK_INF", .of = mask, .a = {9, 7, 2, 1}},
    {.name = "TIMESTEP_EMBEDDING", .of = timestep, .a = {5, 1, 1, 1}},
    {.name = "GROUP_NORM", .of = group_norm, .a = {8, 4, 7, 2}},
    {.name = "RMS_NORM_BACK", .of = rms_norm_back, .a = {65, 3, 2, 1}, .b = {65, 3, 2, 1}},
    {.name = "SOFT_MAX_BACK", .of = soft_max_back, .a = {65, 3, 2, 1}, .b = {65, 3, 2, 1}},
    {.name = "IM2COL", .of = im2col, .a = {8, 9, 3, 2}, .b = {3, 2, 3, 4}},
    {.name = "CONV_2D",
     .of = conv,
     .a = {8, 9, 3, 2},
     .b = {3, 2, 3, 4},
     .planned = true,
     .off = 1e-3},
    {.name = "CONV_2D_DW", .of = conv_dw, .a = {8, 9, 3, 2}, .b = {3, 2, 1, 3}},
    {.name = "CONV_TRANSPOSE_1D",
     .of = conv_transpose,
     .a = {6, 5, 1, 1},
     .b = {4, 3, 5, 1},
     .planned = true,
     .off = 1e-3},
    {.name = "POOL_2D", .of = pool_max, .a = {8, 9, 3, 1}, .planned = true},
    {.name = "POOL_1D", .of = pool_avg, .a = {9, 3, 2, 1}},
    {.name = "SSM_CONV", .of = ssm_conv, .a = {8, 64, 2, 1}, .b = {4, 64, 1, 1}},
    {.name = "GATED_DELTA_NET",
     .of = delta_net,
     .a = {SIZE, SIZE, HEADS, SEQUENCES},
     .b = {SIZE, SIZE, HEADS, SEQUENCES}},
    {.name = "RWKV_WKV6",
     .of = rwkv6,
     .a = {SIZE, SIZE, HEADS, SEQUENCES},
     .b = {SIZE, SIZE, HEADS, SEQUENCES}},
    {.name = "RWKV_WKV7",
     .of = rwkv7,
     .a = {SIZE, SIZE, HEADS, SEQUENCES},
     .b = {SIZE, SIZE, HEADS, SEQUENCES}},
    {.name = "GATED_LINEAR_ATTN",
     .of = linear,
     .a = {SIZE, SIZE, HEADS, SEQUENCES},
     .b = {SIZE, SIZE, HEADS, SEQUENCES}},
    {.name = "COL2IM_1D", .of = col2im, .a = {12, 5, 1, 1}},
    {.name = "UPSCALE", .of = nearest, .a = {5, 3, 2, 1}},
    {.name = "UPSCALE bilinear", .of = bilinear, .a = {7, 6, 2, 1}},
    {.name = "UPSCALE to the corners", .of = corners, .a = {7, 5, 2, 1}},
    {.name = "UPSCALE antialias", .of = antialias, .a = {8, 9, 2, 1}, .planned = true},
    {.name = "SSM_SCAN",
     .of = mamba2,
     .a = {SIZE, SIZE, HEADS, SEQUENCES},
     .b = {SIZE, SIZE, HEADS, SEQUENCES},
     .sorted = 1},
    {.name = "SSM_SCAN by element",
     .of = mamba1,
     .a = {SIZE, SIZE, HEADS, SEQUENCES},
     .b = {SIZE, SIZE, HEADS, SEQUENCES},
     .sorted = 1},
    {.name = "UPSCALE bicubic", .of = bicubic, .a = {7, 6, 2, 1}, .planned = true},
    {.name = "UPSCALE bicubic to the corners",
     .of = bicubic_corners,
     .a = {7, 11, 2, 1},
     .planned = true},
    {.name = "SOLVE_TRI", .of = solve, .a = {5, 5, 2, 1}, .b = {6, 5, 2, 1}},
    {.name = "SOLVE_TRI that grows",
     .of = solve_growing,
     .a = {48, 48, 1, 1},
     .b = {3, 48, 1, 1},
     .off = 1e-5},
    {.name = "GET_ROWS_BACK", .of = rows_back, .a = {9, 6, 1, 1}, .b = {9, 8, 1, 1}, .sorted = 2},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static struct ggml_tensor * source(struct world * w, const int64_t ne[GGML_MAX_DIMS]) {
    return ne[0] ? ggml_new_tensor(w->ctx, GGML_TYPE_F32, GGML_MAX_DIMS, ne) : NULL;
}

// The same graph on a backend; the numbers of its result. The caller frees them.
static double * compute(ggml_backend_t backend, int i, int64_t * n) {
    struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * 32 + ggml_graph_overhead(), .no_alloc = true};
    struct world w = {.ctx = ggml_init(params)};
    struct ggml_tensor *a = source(&w, cases[i].a), *b = source(&w, cases[i].b),
                       *out = cases[i].of(w.ctx, a, b);
    struct ggml_cgraph * graph = ggml_new_graph(w.ctx);
    ggml_build_forward_expand(graph, out);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(w.ctx, backend);
    assert_non_null(buffer);
    if (backend == stream) {
        assert_true(ggml_backend_dev_supports_op(dev, out));
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fill(a, 3 * round + 1);
        if (b) {
            fill(b, 3 * round + 2);
        }
        assert_int_equal(ggml_backend_graph_compute(backend, graph), GGML_STATUS_SUCCESS);
    }
    double * got = values(out);
    *n = ggml_nelements(out);
    ggml_backend_buffer_free(buffer);
    ggml_free(w.ctx);
    return got;
}

static void as_the_cpu(void ** state) {
    (void) state;
    for (int i = 0; i < N_CASES; i++) {
        struct ggml_backend_hsa_stats before = stats();
        int64_t n, m;
        double *got = compute(stream, i, &n), *want = compute(reference, i, &m), largest = 0;
        struct ggml_backend_hsa_stats after = stats();
        for (int64_t k = 0; k < n; k++) {
            largest = isfinite(want[k]) ? fmax(largest, fabs(want[k])) : largest;
        }
        double off = (cases[i].off ? cases[i].off : 1e-4) * largest;
        for (int64_t k = 0; k < n; k++) {
            if (!(got[k] == want[k] || fabs(got[k] - want[k]) <= off)) {
                fail_msg("%s: element %d is %g, not %g", cases[i].name, (int) k, got[k], want[k]);
            }
        }
        bool kept = after.kept_nodes > before.kept_nodes;
        uint64_t copies = after.host_copies - before.host_copies;
        if (n != m || copies != (uint64_t) (ROUNDS * cases[i].sorted) ||
            after.staged_operands != before.staged_operands ||
            after.cpu_nodes != before.cpu_nodes || kept == cases[i].planned) {
            fail_msg("%s: %d copies by the host, %d operands, %d nodes on the CPU, kept %d",
                     cases[i].name, (int) copies,
                     (int) (after.staged_operands - before.staged_operands),
                     (int) (after.cpu_nodes - before.cpu_nodes), kept);
        }
        free(got);
        free(want);
    }
}

// ---- what is refused ----

static void contradictions(void ** state) {
    (void) state;
    // word: which parameter is another than the constructor's
    static const struct {
        int of, word;
        int32_t value;
    } wrong[] = {
        {0, 0, -1}, {0, 1, 7},  {2, 0, 9},  {4, 3, 1 << 20}, {4, 0, -4}, {5, 3, 1 << 20},
        {13, 0, 4}, {16, 0, 0}, {19, 0, 0}, {19, 2, 5},      {20, 0, 0}, {20, 4, 1 << 30},
        {23, 0, 2}, {23, 3, 0}, {24, 1, 0}, {30, 0, 0},      {30, 1, 5}, {22, 0, 0},
        {35, 0, 0}, {35, 0, 9}, {31, 0, 5}, {32, 0, 3},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct world w = world_new();
        int of = wrong[i].of;
        struct ggml_tensor * out =
            cases[of].of(w.ctx, source(&w, cases[of].a), source(&w, cases[of].b));
        bool before = ggml_backend_dev_supports_op(dev, out);
        out->op_params[wrong[i].word] = wrong[i].value;
        if (!before || ggml_backend_dev_supports_op(dev, out)) {
            fail_msg("%s with parameter %d as %d", cases[of].name, wrong[i].word, wrong[i].value);
        }
        world_free(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_cpu),
        cmocka_unit_test(contradictions),
    };
    return cmocka_run_group_tests(tests, load_both, unload_both);
}

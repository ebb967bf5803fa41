// test-plugin-experts: MUL_MAT_ID on the device against doubles, with any number of rows for an
// expert, weights that change, and ids that name no expert.
#include "mat-world.h"

struct moe {
    struct world w;
    struct ggml_tensor *as, *b, *ids, *out;
};

static struct moe moe_new(enum ggml_type type, int64_t k, int64_t m, int64_t experts, int64_t slots,
                          int64_t b_slots, int64_t tokens, bool as_weights) {
    struct moe e = {.w = world_new()};
    e.as = ggml_new_tensor_3d(as_weights ? e.w.weights : e.w.ctx, type, k, m, experts);
    e.b = ggml_new_tensor_3d(e.w.ctx, GGML_TYPE_F32, k, b_slots, tokens);
    // A part of a larger tensor, as the choice of the best ones is.
    struct ggml_tensor * all = ggml_new_tensor_2d(e.w.ctx, GGML_TYPE_I32, slots + 3, tokens);
    e.ids = ggml_view_2d(e.w.ctx, all, slots, tokens, all->nb[1], 0);
    e.out = ggml_mul_mat_id(e.w.ctx, e.as, e.b, e.ids);
    world_alloc(&e.w, e.out);
    return e;
}

// Ids of a token differ, unless all are asked to be one.
static void choose(struct moe * e, uint32_t seed, int64_t always) {
    int64_t n = e->as->ne[2], stride = e->ids->view_src->ne[0];
    int32_t * data = calloc((size_t) ggml_nelements(e->ids->view_src), sizeof *data);
    for (int64_t token = 0; token < e->ids->ne[1]; token++) {
        int64_t first = (int64_t) ((next_value(&seed) + 1) * (float) n / 2) % n;
        for (int64_t slot = 0; slot < e->ids->ne[0]; slot++) {
            data[token * stride + slot] = (int32_t) (always >= 0 ? always : (first + slot) % n);
        }
    }
    ggml_backend_tensor_set(e->ids->view_src, data, 0, ggml_nbytes(e->ids->view_src));
    free(data);
}

static void moe_check(struct moe * e, uint32_t seed, int64_t always) {
    fill(e->as, seed + 1);
    fill(e->b, seed + 2);
    choose(e, seed, always);
    world_compute(&e->w);
    check_experts(e->out, TOLERANCE_BF16);
}

static void any_number_of_rows(void ** state) {
    (void) state;
    static const int64_t tokens[] = {1, 2, 16, 17, 70, 3, 4};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        for (int as_weights = 0; as_weights < 2; as_weights++) {
            static const enum ggml_type types[] = {GGML_TYPE_F16,  GGML_TYPE_Q4_0, GGML_TYPE_Q4_K,
                                                   GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL,
                                                   GGML_TYPE_MXFP4};
            struct moe e = moe_new(types[i], 512, 24, 5, 2, 1 + as_weights, tokens[i], as_weights);
            moe_check(&e, 1, -1);
            moe_check(&e, 50, 4); // all to one
            world_free(&e.w);
        }
    }
}

static void odd_sizes_and_types(void ** state) {
    (void) state;
    static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};
    for (int t = 0; t < 3; t++) {
        for (int as_weights = 0; as_weights < 2; as_weights++) {
            struct moe e = moe_new(types[t], 37, 11, 3, 2, 2, 4, as_weights);
            moe_check(&e, 3, -1);
            world_free(&e.w);
            e = moe_new(types[t], 1, 1, 1, 1, 1, 1, as_weights);
            moe_check(&e, 4, -1);
            world_free(&e.w);
        }
    }
}

// More than go together before the host waits.
static void many_experts(void ** state) {
    (void) state;
    struct moe e = moe_new(GGML_TYPE_Q8_0, 32, 8, 70, 40, 40, 3, true);
    moe_check(&e, 5, -1);
    world_free(&e.w);
}

static void precise(void ** state) {
    (void) state;
    struct moe e = moe_new(GGML_TYPE_F32, 45, 10, 3, 2, 1, 5, true);
    ggml_prec_set_acc(e.out, GGML_PREC_F32);
    moe_check(&e, 6, -1);
    check_experts(e.out, TOLERANCE_PRECISE);
    world_free(&e.w);
}

static void weights_that_change(void ** state) {
    (void) state;
    struct moe e = moe_new(GGML_TYPE_F32, 24, 6, 4, 2, 2, 3, true);
    moe_check(&e, 7, -1);
    float one = 9;
    ggml_backend_tensor_set(e.as, &one, 3 * e.as->nb[2] + 8, sizeof one); // in the last expert
    choose(&e, 8, 3);
    world_compute(&e.w);
    check_experts(e.out, TOLERANCE_BF16);
    world_free(&e.w);
}

static char last_error[1024];

static void listen(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level == GGML_LOG_LEVEL_ERROR) {
        snprintf(last_error, sizeof last_error, "%s", text);
    }
}

// An error that names the id; nothing is written, and the stream is good for the next graph.
static void bad_ids(void ** state) {
    (void) state;
    static const int32_t bad[] = {-1, 4, INT32_MAX, INT32_MIN};
    struct moe e = moe_new(GGML_TYPE_F32, 24, 6, 4, 2, 2, 3, false);
    moe_check(&e, 9, -1);
    for (int i = 0; i < 4; i++) {
        char number[16];
        snprintf(number, sizeof number, "expert %d ", (int) bad[i]);
        ggml_backend_tensor_set(e.ids->view_src, &bad[i], e.ids->nb[1] + sizeof bad[i],
                                sizeof bad[i]);
        ggml_backend_tensor_memset(e.out, 0x55, 0, ggml_nbytes(e.out));
        ggml_log_set(listen, NULL);
        assert_int_equal(ggml_backend_graph_compute(stream, e.w.graph), GGML_STATUS_FAILED);
        ggml_log_set(NULL, NULL);
        assert_non_null(strstr(last_error, number));
        assert_non_null(strstr(last_error, "token 1"));
        double * got = values(e.out);
        for (int64_t k = 0; k < ggml_nelements(e.out); k++) {
            assert_true((float) got[k] == got[0]);
        }
        free(got);
    }
    moe_check(&e, 10, -1);
    world_free(&e.w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_rows),  cmocka_unit_test(odd_sizes_and_types),
        cmocka_unit_test(many_experts),        cmocka_unit_test(precise),
        cmocka_unit_test(weights_that_change), cmocka_unit_test(bad_ids),
    };
    return cmocka_run_group_tests(tests, load, unload);
}

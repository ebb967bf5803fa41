// test-plugin-experts: MUL_MAT_ID on the device against doubles, with any number of rows for an
// expert, weights that change, ids that name no expert; and what the experts of a token's layer
// cost, whose ids a kernel has made.
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

// Rows of blocks that do not begin at words, with any number of rows for an expert.
static void rows_that_are_padded(void ** state) {
    (void) state;
    static const int64_t tokens[] = {1, 3, 20};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        for (int as_weights = 0; as_weights < 2; as_weights++) {
            struct moe e = moe_new(i % 2 ? GGML_TYPE_MXFP4 : GGML_TYPE_IQ4_NL, 96, 24, 5, 2,
                                   1 + as_weights, tokens[i], as_weights);
            moe_check(&e, 20, -1);
            moe_check(&e, 30, -1); // other weights, too
            moe_check(&e, 60, 4);
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

static struct ggml_backend_hsa_account account(void) {
    void * address = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(dev),
                                                       "ggml_backend_hsa_get_account");
    ggml_backend_hsa_get_account_t get_account;
    memcpy(&get_account, &address, sizeof get_account);
    struct ggml_backend_hsa_account out = {.size = sizeof out};
    assert_true(get_account(dev, &out));
    return out;
}

// The second and later tokens, each with other experts: the host waits for the ids and no more,
// plans and lays out nothing, and the bytes are those of the experts that were chosen. Rows that
// do not begin at words are laid out anew when their expert is first met, and are no bf16 then. No
// PDI is loaded, with the gate of gpt-oss either.
static void layer_of_a_token(enum ggml_type type, int64_t k, int64_t ff, bool padded, double most) {
    enum { EXPERTS = 4, USED = 2, TOKENS = 2 };
    struct world w = world_new();
    struct ggml_tensor * up_w = ggml_new_tensor_3d(w.weights, type, k, ff, EXPERTS);
    struct ggml_tensor * gate_w = ggml_new_tensor_3d(w.weights, type, k, ff, EXPERTS);
    struct ggml_tensor * down_w = ggml_new_tensor_3d(w.weights, type, ff, k, EXPERTS);
    struct ggml_tensor * x = ggml_new_tensor_3d(w.ctx, GGML_TYPE_F32, k, 1, 1);
    struct ggml_tensor * logits = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, EXPERTS, 1);
    struct ggml_tensor * ids = ggml_scale(w.ctx, logits, 2); // on the decoder, as a router is
    ids = ggml_argsort(w.ctx, ids, GGML_SORT_ORDER_DESC);
    ids = ggml_view_2d(w.ctx, ids, USED, 1, ids->nb[1], 0);
    struct ggml_tensor * up = ggml_mul_mat_id(w.ctx, up_w, x, ids);
    struct ggml_tensor * gate = ggml_mul_mat_id(w.ctx, gate_w, x, ids);
    struct ggml_tensor * gated = type == GGML_TYPE_MXFP4
                                     ? ggml_swiglu_oai(w.ctx, gate, up, 1.702f, 7)
                                     : ggml_swiglu_split(w.ctx, gate, up);
    struct ggml_tensor * down = ggml_mul_mat_id(w.ctx, down_w, gated, ids);
    world_alloc(&w, down);
    fill(up_w, 1);
    fill(gate_w, 2);
    fill(down_w, 3);
    fill(x, 4);
    double used = (double) USED *
                  (double) (ggml_nbytes(up_w) + ggml_nbytes(gate_w) + ggml_nbytes(down_w)) /
                  EXPERTS;
    for (uint32_t i = 0; i < 2 * TOKENS; i++) { // the same again
        fill(logits, 10 + i % TOKENS);
        struct ggml_backend_hsa_stats before = stats();
        struct ggml_backend_hsa_account from = account();
        world_compute(&w);
        struct ggml_backend_hsa_stats after = stats();
        struct ggml_backend_hsa_account to = account();
        double bytes = 4 * (double) (to.stream_words - from.stream_words);
        check_experts(up, TOLERANCE_BF16);
        check_experts(gate, TOLERANCE_BF16);
        check_experts(down, TOLERANCE_BF16);
        if (i >= (padded ? TOKENS : 1)) {
            assert_int_equal(after.staged_operands, before.staged_operands);
            assert_int_equal(after.waits - before.waits, 2); // for the ids, and at the end
            assert_int_equal(after.kept_nodes - before.kept_nodes, 2 + 3);
            assert_int_equal(to.pdi_loads - from.pdi_loads, 0);
            if (bytes < used || bytes > most * used) {
                fail_msg("%s: %.0f bytes for experts of %.0f", ggml_type_name(type), bytes, used);
            }
        }
    }
    world_free(&w);
}

static void experts_of_a_token(void ** state) {
    (void) state;
    layer_of_a_token(GGML_TYPE_Q4_0, 512, 1024, false, 1.1);
    // Small sizes, where a row's padding is much: bf16 would be 3.8 and 2.4.
    layer_of_a_token(GGML_TYPE_MXFP4, 448, 320, true, 1.5);
    layer_of_a_token(GGML_TYPE_Q6_K, 768, 256, true, 1.9);
}

static uint64_t operations_of(struct world * w) {
    uint64_t before = stats().operations;
    world_compute(w);
    return stats().operations - before;
}

// One row for experts that are chosen all about: that is told the array as a product with one
// matrix of so many rows is, not expert by expert.
static void rows_of_all(void ** state) {
    (void) state;
    enum { K = 256, ROWS = 768, USED = 8, EXPERTS = 16 };
    static const int32_t chosen[][USED] = {{3, 14, 0, 9, 5, 12, 7, 1}, {15, 2, 8, 6, 0, 13, 4, 11}};
    struct world plain = world_new();
    struct ggml_tensor * a =
        ggml_new_tensor_2d(plain.weights, GGML_TYPE_Q4_0, K, (int64_t) ROWS * USED);
    struct ggml_tensor * b = ggml_new_tensor_1d(plain.ctx, GGML_TYPE_F32, K);
    world_alloc(&plain, ggml_mul_mat(plain.ctx, a, b));
    fill(a, 72);
    fill(b, 73);
    operations_of(&plain);
    uint64_t most = operations_of(&plain);
    world_free(&plain);

    struct moe e = moe_new(GGML_TYPE_Q4_0, K, ROWS, EXPERTS, USED, 1, 1, true);
    fill(e.as, 70);
    fill(e.b, 71);
    for (int i = 0; i < 4; i++) {
        ggml_backend_tensor_set(e.ids->view_src, chosen[i % 2], 0, sizeof chosen[0]);
        uint64_t now = operations_of(&e.w);
        check_experts(e.out, TOLERANCE_BF16);
        if (now > most + most / 10) {
            fail_msg("%d operations instead of %d", (int) now, (int) most);
        }
    }
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
        cmocka_unit_test(any_number_of_rows),
        cmocka_unit_test(odd_sizes_and_types),
        cmocka_unit_test(rows_that_are_padded),
        cmocka_unit_test(many_experts),
        cmocka_unit_test(precise),
        cmocka_unit_test(weights_that_change),
        cmocka_unit_test(experts_of_a_token),
        cmocka_unit_test(rows_of_all),
        cmocka_unit_test(bad_ids),
    };
    return cmocka_run_group_tests(tests, load, unload);
}

// test-plan: how ADD nodes are laid out for kernels, with a compiler that takes little: contiguous
// tensors of one shape, at most 10,000 elements.
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "backend/backend.h"

#define MOST 10000

static enum status supports(const struct kernel_spec * spec, struct error * err) {
    const struct tensor *a = &spec->inputs[0], *b = &spec->inputs[1], *out = &spec->output;
    bool ok = tensor_is_contiguous(a) && tensor_is_contiguous(b) && tensor_is_contiguous(out) &&
              tensor_same_shape(a, out) && tensor_same_shape(b, out) && a->dtype == out->dtype &&
              b->dtype == out->dtype && tensor_elements(out) <= MOST;
    return ok ? ST_OK : error_set(err, ST_UNSUPPORTED, "too much for this test");
}

static void program_name(const struct kernel_spec * spec, char name[KERNEL_NAME_MAX]) {
    snprintf(name, KERNEL_NAME_MAX, "add_%s", dtype_name(spec->output.dtype));
}

static enum status never_pdi(const struct kernel_spec * spec, uint8_t ** pdi, size_t * size,
                             struct error * err) {
    (void) spec, (void) pdi, (void) size, (void) err;
    fail_msg("planning must not compile");
    return ST_UNSUPPORTED;
}

static enum status never_insts(const struct kernel_spec * spec, uint32_t ** insts, size_t * n,
                               struct error * err) {
    (void) spec, (void) insts, (void) n, (void) err;
    fail_msg("planning must not compile");
    return ST_UNSUPPORTED;
}

static const struct store_compiler small_compiler = {.supports = supports,
                                                     .program_name = program_name,
                                                     .compile_pdi = never_pdi,
                                                     .compile_insts = never_insts};

static struct store * store;
static struct ggml_context * ctx;

static int setup(void ** state) {
    (void) state;
    struct ggml_init_params params = {.mem_size = 64 << 20, .mem_buffer = NULL, .no_alloc = false};
    ctx = ggml_init(params);
    return ctx && store_new_with(&small_compiler, &store, NULL) == ST_OK ? 0 : -1;
}

static int teardown(void ** state) {
    (void) state;
    store_free(store);
    ggml_free(ctx);
    return 0;
}

static struct plan plan(struct ggml_tensor * node) {
    struct plan p;
    struct error err = {0};
    if (plan_add(store, AIE_ARCH_AIE2, node, &p, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return p;
}

static void assert_staged(const struct plan * p, bool a, bool b, bool out) {
    assert_int_equal(p->stage[0], a);
    assert_int_equal(p->stage[1], b);
    assert_int_equal(p->stage[2], out);
}

static struct ggml_tensor * tensor(enum ggml_type type, int64_t ne0, int64_t ne1) {
    struct ggml_tensor * t = ggml_new_tensor_2d(ctx, type, ne0, ne1);
    t->data =
        (void *) (((uintptr_t) t->data + 127) & ~(uintptr_t) 127); // as a device buffer aligns
    return t;
}

static void as_it_stands(void ** state) {
    (void) state;
    struct plan p =
        plan(ggml_add(ctx, tensor(GGML_TYPE_F32, 100, 3), tensor(GGML_TYPE_F32, 100, 3)));
    assert_staged(&p, false, false, false);
    assert_int_equal(p.chunk, 300);
    assert_int_equal(p.spec.output.ne[0], 100);
    assert_int_equal(p.spec.output.ne[1], 3);
}

static void broadcast(void ** state) {
    (void) state;
    struct plan p =
        plan(ggml_add(ctx, tensor(GGML_TYPE_F32, 100, 3), tensor(GGML_TYPE_F32, 100, 1)));
    assert_staged(&p, false, true, false);
    assert_true(tensor_same_shape(&p.spec.inputs[1], &p.spec.output));
}

static void transposed(void ** state) {
    (void) state;
    struct ggml_tensor * a = ggml_transpose(ctx, tensor(GGML_TYPE_F32, 20, 30));
    struct plan p = plan(ggml_add(ctx, a, tensor(GGML_TYPE_F32, 30, 20)));
    assert_staged(&p, true, false, false);
    // In place: the result is a transposed view as well.
    p = plan(ggml_add_inplace(ctx, a, tensor(GGML_TYPE_F32, 30, 20)));
    assert_staged(&p, true, false, true);
}

static void mixed_types(void ** state) {
    (void) state;
    struct plan p = plan(ggml_add(ctx, tensor(GGML_TYPE_F16, 64, 1), tensor(GGML_TYPE_F32, 64, 1)));
    assert_staged(&p, true, false, true);
    assert_int_equal(p.type, GGML_TYPE_F32);
    assert_int_equal(p.spec.output.dtype, DTYPE_F32);
}

static void odd_tail_inside_a_tensor(void ** state) {
    (void) state;
    struct ggml_tensor * whole = tensor(GGML_TYPE_I8, 103, 1);
    struct ggml_tensor * part = ggml_view_1d(ctx, whole, 21, 4);
    struct plan p = plan(ggml_add_inplace(ctx, part, tensor(GGML_TYPE_I8, 21, 1)));
    assert_staged(&p, false, false, true); // its last word is shared
    p = plan(ggml_add_inplace(ctx, whole, tensor(GGML_TYPE_I8, 103, 1)));
    assert_staged(&p, false, false, false); // the tail of a whole tensor is padding
    p = plan(ggml_add_inplace(ctx, ggml_view_1d(ctx, whole, 20, 3), tensor(GGML_TYPE_I8, 20, 1)));
    assert_staged(&p, true, false, true); // begins inside a word
}

static void overlap(void ** state) {
    (void) state;
    struct ggml_tensor * whole = tensor(GGML_TYPE_F32, 200, 1);
    struct ggml_tensor * a = ggml_view_1d(ctx, whole, 100, 0);
    struct ggml_tensor * b = ggml_view_1d(ctx, whole, 100, 40);
    struct plan p = plan(ggml_add_inplace(ctx, a, a)); // each element over itself
    assert_staged(&p, false, false, false);
    p = plan(ggml_add_inplace(ctx, a, b)); // writes a[10] before b[0] is read
    assert_staged(&p, false, false, true);
    p = plan(ggml_add(ctx, a, b)); // reading twice harms nobody
    assert_staged(&p, false, false, false);
}

static void chunks(void ** state) {
    (void) state;
    struct plan p =
        plan(ggml_add(ctx, tensor(GGML_TYPE_F32, 1001, 50), tensor(GGML_TYPE_F32, 1001, 50)));
    assert_staged(&p, false, false, false);
    assert_int_equal(p.n, 50050);
    assert_in_range(p.chunk, 1, MOST);
    assert_int_equal(p.chunk % 64, 0);
    assert_int_equal(tensor_elements(&p.spec.output), p.chunk);
    assert_int_equal(tensor_elements(&p.rest.output), p.n % p.chunk);
}

static void refused(void ** state) {
    (void) state;
    struct plan p;
    struct error err = {0};
    struct ggml_tensor * node =
        ggml_add(ctx, tensor(GGML_TYPE_I32, 8, 1), tensor(GGML_TYPE_I32, 8, 1));
    node->src[1] = tensor(GGML_TYPE_F32, 8, 1);
    assert_int_equal(plan_add(store, AIE_ARCH_AIE2, node, &p, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "i32 and f32"));
    node->src[1] = tensor(GGML_TYPE_Q8_0, 32, 1);
    assert_int_equal(plan_add(store, AIE_ARCH_AIE2, node, &p, &err), ST_INVALID);
    node->src[1] = tensor(GGML_TYPE_I64, 8, 1);
    assert_int_equal(plan_add(store, AIE_ARCH_AIE2, node, &p, &err), ST_UNSUPPORTED);

    // Without any compiler and without packs nothing is left.
    struct store * empty;
    assert_int_equal(store_new_with(NULL, &empty, &err), ST_OK);
    node = ggml_add(ctx, tensor(GGML_TYPE_F32, 8, 1), tensor(GGML_TYPE_F32, 8, 1));
    assert_int_equal(plan_add(empty, AIE_ARCH_AIE2, node, &p, &err), ST_UNSUPPORTED);
    store_free(empty);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_it_stands), cmocka_unit_test(broadcast),
        cmocka_unit_test(transposed),   cmocka_unit_test(mixed_types),
        cmocka_unit_test(overlap),      cmocka_unit_test(odd_tail_inside_a_tensor),
        cmocka_unit_test(chunks),       cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

// test-plan: how nodes are laid out for kernels, with compilers that take little: contiguous
// tensors of one shape and datatype, at most 10,000 elements; or rows that follow each other at a
// distance.
#include "base/cmocka-all.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "never-compile.h"

#define MOST 10000

static bool rows_may_be_apart; // what the compiler takes beside

static bool takes(const struct tensor * t, const struct tensor * out) {
    struct tensor packed = tensor_contiguous(t->dtype, t->ne);
    bool rows = t->nb[0] == packed.nb[0] && t->ne[2] == 1 && t->ne[3] == 1;
    return (tensor_is_contiguous(t) || (rows_may_be_apart && rows)) && tensor_same_shape(t, out) &&
           t->dtype == out->dtype;
}

// A plan of which nothing is asked.
static enum status plans(const struct kernel_spec * spec, struct aie_plan * plan,
                         struct error * err) {
    (void) plan;
    const struct tensor * out = &spec->output;
    bool ok = tensor_is_contiguous(out) && tensor_elements(out) <= MOST;
    for (int i = 0; i < spec->n_inputs; i++) {
        ok &= takes(&spec->inputs[i], out);
    }
    return ok ? ST_OK : error_set(err, ST_UNSUPPORTED, "too much for this test");
}

static const struct store_compiler small_compiler = {
    .plan = plans, .pdi = never_pdi, .stream = never_stream};

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
    if (plan_node(store, AIE_ARCH_AIE2, node, &p, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return p;
}

static void assert_staged(const struct plan * p, bool a, bool b, bool out) {
    assert_int_equal(p->n_operands, 3);
    assert_int_equal(p->operands[0].staged, a);
    assert_int_equal(p->operands[1].staged, b);
    assert_int_equal(p->operands[2].staged, out);
    for (int i = 0; i < 3; i++) { // a staged operand has no place yet, any other one is the tensor
        assert_ptr_equal(p->operands[i].kernel.data,
                         p->operands[i].staged ? NULL : p->operands[i].tensor.data);
    }
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
    assert_int_equal(p.chunk, p.n);
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
    for (int i = 0; i < 3; i++) {
        assert_int_equal(p.operands[i].kernel.type, GGML_TYPE_F32);
    }
    assert_int_equal(p.spec.inputs[0].dtype, DTYPE_F32);
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

static void rows_apart(void ** state) {
    (void) state;
    struct ggml_tensor * whole = tensor(GGML_TYPE_F32, 100, 4);
    struct ggml_tensor * part = ggml_view_2d(ctx, whole, 60, 4, whole->nb[1], 0);
    struct ggml_tensor * node = ggml_add(ctx, part, tensor(GGML_TYPE_F32, 60, 1));
    struct plan p = plan(node);
    assert_staged(&p, true, true, false);
    rows_may_be_apart = true;
    p = plan(node); // only packing a helps nobody: b is the one that does not fit
    assert_staged(&p, true, true, false);
    p = plan(ggml_add(ctx, part, tensor(GGML_TYPE_F32, 60, 4)));
    assert_staged(&p, false, false, false);
    assert_int_equal(p.spec.inputs[0].nb[1], 400);
    rows_may_be_apart = false;
}

static void chunks(void ** state) {
    (void) state;
    struct plan p =
        plan(ggml_add(ctx, tensor(GGML_TYPE_F32, 1001, 50), tensor(GGML_TYPE_F32, 1001, 50)));
    assert_staged(&p, false, false, false);
    assert_int_equal(p.n, 50050);
    assert_between(p.chunk, 1, MOST);
    assert_int_equal(p.chunk % 64, 0);
    assert_int_equal(tensor_elements(&p.spec.output), p.chunk);
    assert_int_equal(tensor_elements(&p.rest.output), p.n % p.chunk);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(p.operands[i].step, sizeof(float));
    }
}

static void chunks_of_mixed_types(void ** state) {
    (void) state;
    struct plan p =
        plan(ggml_mul(ctx, tensor(GGML_TYPE_F32, 1001, 50), tensor(GGML_TYPE_F16, 1001, 1)));
    assert_staged(&p, false, true, false);
    assert_int_equal(p.n, 50050);
    assert_true(tensor_same_shape(&p.spec.inputs[1], &p.spec.output));
    assert_int_equal(p.spec.inputs[1].dtype, DTYPE_F32);
}

static struct op_call call(struct ggml_tensor * node) {
    struct op_call c;
    struct error err = {0};
    if (op_call_of(node, &c, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return c;
}

// More elements than 32 bits count: many chunks, and nothing overflows on the way there.
static void beyond_32_bits(void ** state) {
    (void) state;
    struct ggml_init_params params = {.mem_size = 1 << 20, .mem_buffer = NULL, .no_alloc = true};
    struct ggml_context * none = ggml_init(params);
    struct ggml_tensor * a =
        ggml_new_tensor_3d(none, GGML_TYPE_I8, (int64_t) 1 << 20, (int64_t) 1 << 10, 9);
    struct plan p = plan(ggml_add(none, a, a));
    assert_staged(&p, false, false, false);
    assert_true(p.n == (int64_t) 9 << 30);
    assert_between(p.chunk, 1, MOST);
    p = plan(ggml_add(none, a, ggml_new_tensor_1d(none, GGML_TYPE_I8, 1 << 20)));
    assert_staged(&p, false, true, false);
    assert_true(view_bytes(&p.operands[1].kernel) == (size_t) 9 << 30);

    // A count of so many would not fit into what the kernel has for it.
    struct error err = {0};
    a = ggml_new_tensor_2d(none, GGML_TYPE_I32, (int64_t) 1 << 31, 1);
    assert_int_equal(plan_node(store, AIE_ARCH_AIE2, ggml_count_equal(none, a, a), &p, &err),
                     ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "so many"));
    ggml_free(none);
}

static void halves_of_rows(void ** state) {
    (void) state;
    for (int swapped = 0; swapped < 2; swapped++) {
        struct ggml_tensor * a = tensor(GGML_TYPE_F16, 20, 3);
        struct ggml_tensor * node = swapped ? ggml_swiglu_swapped(ctx, a) : ggml_swiglu(ctx, a);
        struct op_call c = call(node);
        assert_int_equal(c.n_inputs, 2);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(c.inputs[i].ne[0], 10);
            assert_int_equal(c.inputs[i].nb[1], 40);
            assert_ptr_equal(c.inputs[i].data, (char *) a->data + (i == swapped ? 0 : 20));
        }
        struct plan p = plan(node);
        assert_staged(&p, true, true, false);
    }
    // Without an address nothing is known of the second half's alignment.
    struct ggml_tensor odd = *tensor(GGML_TYPE_F16, 6, 3);
    odd.data = NULL;
    struct op_call c = call(ggml_swiglu(ctx, &odd));
    assert_null(c.inputs[1].data);
}

// Parameters are found behind the words that say which op it is.
static void parameters(void ** state) {
    (void) state;
    struct ggml_tensor * a = tensor(GGML_TYPE_F32, 8, 2);
    const struct {
        struct ggml_tensor * node;
        float want[4];
        int n;
    } cases[] = {
        {ggml_scale_bias(ctx, a, 2.5f, -1.0f), {2.5f, -1.0f}, 2},
        {ggml_clamp(ctx, a, -0.5f, 7.0f), {-0.5f, 7.0f}, 2},
        {ggml_leaky_relu(ctx, a, 0.1f, false), {0.1f}, 1},
        {ggml_swiglu_oai(ctx, a, a, 1.7f, 7.0f), {1.7f, 7.0f}, 2},
        {ggml_rms_norm(ctx, a, 1e-5f), {1e-5f}, 1},
        {ggml_soft_max_ext(ctx, a, NULL, 0.25f, 0.0f), {0.25f, 0.0f}, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct op_call c = call(cases[i].node);
        for (int k = 0; k < KERNEL_MAX_PARAMS; k++) {
            float got;
            memcpy(&got, &c.params[k], sizeof got);
            assert_true(got == (k < cases[i].n ? cases[i].want[k] : 0));
        }
    }
    struct op_call c = call(ggml_xielu(ctx, a, 0.8f, 0.7f, 0.5f, -1e-6f));
    float beta, eps;
    memcpy(&beta, &c.params[2], sizeof beta);
    memcpy(&eps, &c.params[3], sizeof eps);
    assert_true(beta == 0.5f && eps == -1e-6f);
}

// Sinks without a mask: the place between is a tensor without elements.
static void absent_inputs(void ** state) {
    (void) state;
    struct ggml_tensor * node = ggml_soft_max_ext(ctx, tensor(GGML_TYPE_F32, 8, 2), NULL, 1, 0);
    assert_int_equal(call(node).n_inputs, 1);
    ggml_soft_max_add_sinks(node, tensor(GGML_TYPE_F32, 1, 1));
    struct op_call c = call(node);
    assert_int_equal(c.n_inputs, 3);
    assert_int_equal(c.inputs[1].ne[0], 0);
    assert_false(c.rows_alike);
}

static void nothing(void ** state) {
    (void) state;
    struct plan p = plan(ggml_add(ctx, tensor(GGML_TYPE_F32, 0, 3), tensor(GGML_TYPE_F32, 0, 3)));
    assert_int_equal(p.n, 0); // no dispatch
}

// Every row of the op table belongs to an op that ggml has, under the name that ggml gives it, or
// is one of our own.
static void every_kernel_has_an_op(void ** state) {
    (void) state;
    struct ggml_tensor node = {.op = GGML_OP_NONE};
    struct ggml_tensor * a = tensor(GGML_TYPE_F32, 8, 1);
    bool seen[KERNEL_OP_COUNT] = {false};
    struct op_call c;
    node.src[0] = a;
    for (int op = 0; op < GGML_OP_COUNT; op++) {
        int subs = op == GGML_OP_UNARY ? GGML_UNARY_OP_COUNT
                   : op == GGML_OP_GLU ? GGML_GLU_OP_COUNT
                                       : 1;
        for (int sub = 0; sub < subs; sub++) {
            node.op = (enum ggml_op) op;
            node.op_params[0] = sub;
            if (op_call_of(&node, &c, NULL) == ST_OK) {
                seen[c.op] = true;
                assert_true(c.n_inputs >= 1);
            }
        }
    }
    for (int i = 0; i < KERNEL_OP_COUNT; i++) {
        const char * name = kernel_op_info((enum kernel_op) i)->ggml_name;
        bool is_own = !strncmp(name, "ggml_hsa_", strlen("ggml_hsa_"));
        if (seen[i] == is_own) {
            fail_msg("%s is %s op of ggml", name, is_own ? "an" : "no");
        }
    }
}

static void found_by_name(void ** state) {
    (void) state;
    struct ggml_tensor * a = tensor(GGML_TYPE_F32, 8, 2);
    assert_int_equal(call(ggml_sub(ctx, a, a)).op, KERNEL_OP_SUB);
    struct op_call c = call(ggml_neg(ctx, a));
    assert_int_equal(c.op, KERNEL_OP_NEG);
    assert_int_equal(c.n_inputs, 1);
    assert_true(c.elementwise);
    struct ggml_tensor * node = ggml_relu(ctx, a);
    assert_int_equal(call(node).op, KERNEL_OP_RELU);

    struct error err = {0};
    node->op_params[0] = GGML_UNARY_OP_COUNT; // of a later ggml
    assert_int_equal(op_call_of(node, &c, &err), ST_UNSUPPORTED);
    node->op_params[0] = -1;
    assert_int_equal(op_call_of(node, &c, &err), ST_UNSUPPORTED);
    node = ggml_relu(ctx, a);
    node->op_params[3] = 7; // a parameter that no kernel knows
    assert_int_equal(op_call_of(node, &c, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "parameter"));
    node = ggml_relu(ctx, a);
    node->src[1] = a;
    assert_int_equal(op_call_of(node, &c, &err), ST_UNSUPPORTED);
    assert_int_equal(op_call_of(ggml_roll(ctx, a, 1, 0, 0, 0), &c, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "ROLL"));

    assert_int_equal(call(ggml_sum(ctx, a)).op, KERNEL_OP_SUM);
    assert_int_equal(op_call_of(ggml_sum(ctx, ggml_transpose(ctx, a)), &c, &err), ST_UNSUPPORTED);
}

static void refused(void ** state) {
    (void) state;
    struct plan p;
    struct error err = {0};
    struct ggml_tensor * node =
        ggml_add(ctx, tensor(GGML_TYPE_I32, 8, 1), tensor(GGML_TYPE_I32, 8, 1));
    node->src[1] = tensor(GGML_TYPE_F32, 8, 1);
    assert_int_equal(plan_node(store, AIE_ARCH_AIE2, node, &p, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "add_i32_8x1x1x1_f32_8x1x1x1_i32"));
    node->src[1] = tensor(GGML_TYPE_Q8_0, 32, 1);
    assert_int_equal(plan_node(store, AIE_ARCH_AIE2, node, &p, &err), ST_UNSUPPORTED);
    node->src[1] = tensor(GGML_TYPE_I32, 3, 1);
    assert_int_equal(plan_node(store, AIE_ARCH_AIE2, node, &p, &err), ST_INVALID);
    node->src[1] = tensor(GGML_TYPE_I32, 0, 1);
    assert_int_equal(plan_node(store, AIE_ARCH_AIE2, node, &p, &err), ST_INVALID);
    node->src[1] = tensor(GGML_TYPE_I64, 8, 1);
    assert_int_equal(plan_node(store, AIE_ARCH_AIE2, node, &p, &err), ST_UNSUPPORTED);

    // Without any compiler and without packs nothing is left.
    struct store * empty;
    assert_int_equal(store_new_with(NULL, &empty, &err), ST_OK);
    node = ggml_add(ctx, tensor(GGML_TYPE_F32, 8, 1), tensor(GGML_TYPE_F32, 8, 1));
    assert_int_equal(plan_node(empty, AIE_ARCH_AIE2, node, &p, &err), ST_UNSUPPORTED);
    store_free(empty);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_it_stands),
        cmocka_unit_test(broadcast),
        cmocka_unit_test(transposed),
        cmocka_unit_test(mixed_types),
        cmocka_unit_test(overlap),
        cmocka_unit_test(odd_tail_inside_a_tensor),
        cmocka_unit_test(rows_apart),
        cmocka_unit_test(chunks),
        cmocka_unit_test(chunks_of_mixed_types),
        cmocka_unit_test(beyond_32_bits),
        cmocka_unit_test(halves_of_rows),
        cmocka_unit_test(parameters),
        cmocka_unit_test(absent_inputs),
        cmocka_unit_test(nothing),
        cmocka_unit_test(refused),
        cmocka_unit_test(every_kernel_has_an_op),
        cmocka_unit_test(found_by_name),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

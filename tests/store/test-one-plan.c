// test-one-plan: a kernel is planned once, and its spec is made canonical and hashed once. What a
// node asks of the store before it is sent (could there be such a kernel, how long would it take,
// give it to me) is answered from one plan, which the PDI's choice and the instruction stream come
// from as well. The linker counts: every call of mm_plan_make, spec_canonical or spec_hash from
// another file goes through here (--wrap).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "aie/ops/mul-mat/mul-mat-plan.h"
#include "store/store.h"
#include "store/table.h"

enum status __real_mm_plan_make(const struct kernel_spec * spec, struct mm_plan * p,
                                struct error * err);
enum status __wrap_mm_plan_make(const struct kernel_spec * spec, struct mm_plan * p,
                                struct error * err);

struct kernel_spec __real_spec_canonical(const struct kernel_spec * spec);
struct kernel_spec __wrap_spec_canonical(const struct kernel_spec * spec);
uint64_t __real_spec_hash(const struct kernel_spec * spec);
uint64_t __wrap_spec_hash(const struct kernel_spec * spec);

static int plans, canonicals, hashes;

struct kernel_spec __wrap_spec_canonical(const struct kernel_spec * spec) {
    canonicals++;
    return __real_spec_canonical(spec);
}

uint64_t __wrap_spec_hash(const struct kernel_spec * spec) {
    hashes++;
    return __real_spec_hash(spec);
}

enum status __wrap_mm_plan_make(const struct kernel_spec * spec, struct mm_plan * p,
                                struct error * err) {
    plans++;
    return __real_mm_plan_make(spec, p, err);
}

// One row of b by m rows of q4_0 weights.
static struct kernel_spec q4_0(enum aie_arch arch, int64_t m) {
    const int64_t k = 2048, words = k / 32 * 18 / 4;
    return (struct kernel_spec){
        .op = KERNEL_OP_MUL_MAT_BLOCKS,
        .arch = arch,
        .n_inputs = 2,
        .inputs = {tensor_contiguous(DTYPE_I32, (int64_t[]){words, m, 1, 1}),
                   tensor_contiguous(DTYPE_F32, (int64_t[]){k, 1, 1, 1})},
        .output = tensor_contiguous(DTYPE_F32, (int64_t[]){m, 1, 1, 1}),
        .params[0] = KERNEL_Q4_0,
    };
}

static int plans_of(struct store * s, const struct kernel_spec * spec) {
    struct store_kernel * k;
    struct error err = {0};
    plans = canonicals = hashes = 0;
    assert_true(store_us(s, spec) > 0);
    assert_true(store_can(s, spec));
    if (store_get(s, spec, &k, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    store_put(s, k);
    assert_int_equal(canonicals, 1);
    assert_int_equal(hashes, 1);
    return plans;
}

static void test_one_plan(void ** state) {
    (void) state;
    struct store * s;
    assert_int_equal(store_new(&s, NULL), ST_OK);
    for (int arch = 0; arch < AIE_ARCH_COUNT; arch++) {
        struct kernel_spec first = q4_0((enum aie_arch) arch, 2048);
        struct kernel_spec second = q4_0((enum aie_arch) arch, 1024);
        int cold = plans_of(s, &first), next = plans_of(s, &second), again = plans_of(s, &first);
        print_message("%s: %d plans with the PDI, %d on the same PDI, %d again\n",
                      kernel_arch_name((enum aie_arch) arch), cold, next, again);
        assert_int_equal(cold, 1);
        assert_int_equal(next, 1);
        assert_int_equal(again, 0);
    }
    store_free(s);
}

// Neither another spec nor another array is taken for what was asked before.
static void test_what_was_asked_last(void ** state) {
    (void) state;
    struct store * s;
    struct store_kernel *k, *other;
    assert_int_equal(store_new(&s, NULL), ST_OK);
    struct kernel_spec first = q4_0(AIE_ARCH_AIE2, 2048), second = first;
    second.inputs[0].ne[1] = second.output.ne[0] = 1024;
    second.inputs[0] = tensor_contiguous(DTYPE_I32, second.inputs[0].ne);
    second.output = tensor_contiguous(DTYPE_F32, second.output.ne);
    assert_true(store_can(s, &first));
    assert_int_equal(store_get(s, &second, &other, NULL), ST_OK);
    assert_int_equal(store_get(s, &first, &k, NULL), ST_OK);
    assert_ptr_not_equal(k, other);
    store_put(s, other);
    store_set_columns(s, 2);
    assert_int_equal(store_get(s, &first, &other, NULL), ST_OK);
    assert_ptr_not_equal(k, other);
    assert_true(k->n_insts != other->n_insts);
    store_put(s, other);
    store_put(s, k);
    store_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_plan),
                                       cmocka_unit_test(test_what_was_asked_last)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

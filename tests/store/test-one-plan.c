// test-one-plan: a kernel is planned once. What a node asks of the store before it is sent (could
// there be such a kernel, how long would it take, give it to me) is answered from one plan, which
// the PDI's choice and the instruction stream come from as well. The linker counts: every call of
// mm_plan_make from another file goes through here (--wrap).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "aie/ops/mul-mat/mul-mat-plan.h"
#include "store/store.h"

enum status __real_mm_plan_make(const struct kernel_spec * spec, struct mm_plan * p,
                                struct error * err);
enum status __wrap_mm_plan_make(const struct kernel_spec * spec, struct mm_plan * p,
                                struct error * err);

static int plans;

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
    plans = 0;
    assert_true(store_us(s, spec) > 0);
    assert_true(store_can(s, spec));
    if (store_get(s, spec, &k, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    store_put(s, k);
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_plan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test-likely [ARCH]: what products and conversions are said to take (aie_likely), by which the
// plugin chooses between ways, against what they take on the emulated device. Values are others'
// subject: operands are zeros.
#include "base/cmocka-all.h"

#include "kernel-rig.h"

enum { MORE = 130, LESS = 77 }; // per cent of what is said

struct product {
    enum kernel_blocks blocks; // KERNEL_BLOCKS: a is bf16
    enum dtype b;
    int m, n, k;
    unsigned archs;
};

#define ON(arch) (1u << AIE_ARCH_##arch)
#define BOTH     (ON(AIE2) | ON(AIE2P))

static const struct product products[] = {
    {KERNEL_Q4_0, DTYPE_F32, 2048, 1, 1024, BOTH},
    {KERNEL_Q4_0, DTYPE_F32, 2048, 8, 1024, BOTH},
    {KERNEL_Q4_0, DTYPE_F32, 2048, 16, 512, BOTH},
    {KERNEL_Q8_0, DTYPE_F32, 2048, 12, 512, BOTH},
    {KERNEL_Q4_K, DTYPE_F32, 2048, 16, 512, BOTH},
    {KERNEL_Q6_K, DTYPE_F32, 2048, 8, 1024, BOTH},
    {KERNEL_MXFP4, DTYPE_F32, 2048, 4, 1024, BOTH},
    {KERNEL_Q4_1, DTYPE_F32, 2048, 4, 1024, BOTH},
    {KERNEL_Q4_0, DTYPE_BF16, 1024, 64, 1024, ON(AIE2)},
    {KERNEL_Q4_0, DTYPE_BF16, 1024, 128, 512, ON(AIE2)},
    {KERNEL_Q4_K, DTYPE_F32, 1024, 64, 512, ON(AIE2)},
    {KERNEL_Q4_0, DTYPE_BF16, 2048, 17, 1024, ON(AIE2P)},
    {KERNEL_Q8_0, DTYPE_BF16, 2048, 32, 512, ON(AIE2P)},
    {KERNEL_Q4_K, DTYPE_BF16, 2048, 24, 512, ON(AIE2P)},
    {KERNEL_Q4_0, DTYPE_BF16, 1024, 64, 1024, ON(AIE2P)},
    {KERNEL_Q4_0, DTYPE_BF16, 1024, 256, 1024, ON(AIE2P)},
    {KERNEL_Q4_K, DTYPE_BF16, 1024, 64, 1024, ON(AIE2P)},
    {KERNEL_Q6_K, DTYPE_BF16, 1024, 64, 512, ON(AIE2P)},
    {KERNEL_MXFP4, DTYPE_BF16, 1024, 128, 512, ON(AIE2P)},
    {KERNEL_BLOCKS, DTYPE_BF16, 1024, 64, 512, BOTH},
    {KERNEL_BLOCKS, DTYPE_BF16, 1024, 128, 512, BOTH},
};

static void hold(struct rig * r, const struct kernel_spec * spec) {
    struct kernel_code code;
    struct emu_counters counters;
    struct error err = {0};
    if (rig_compile(spec, &code, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    rig_allocate(r, spec);
    for (int i = 0; i < spec->n_inputs; i++) {
        memset(r->data[i], 0, r->size[i] - RIG_GUARD);
    }
    rig_run(r, spec, &code);
    emu_machine_counters(r->machine, &counters);
    char name[KERNEL_NAME_MAX];
    kernel_name(spec, name);
    uint64_t said = aie_likely(spec), taken = counters.last_cycles;
    print_message("%s: %llu, likely %llu, %d %%\n", name, (unsigned long long) taken,
                  (unsigned long long) said, (int) (100 * taken / said));
    if (100 * taken > MORE * said || 100 * taken < LESS * said) {
        fail_msg("%s takes %llu cycles, and %llu are said to be likely", name,
                 (unsigned long long) taken, (unsigned long long) said);
    }
    rig_free(r);
    kernel_code_free(&code);
}

static struct tensor tensor_of(enum dtype t, int64_t ne0, int64_t ne1) {
    return tensor_contiguous(t, (int64_t[]){ne0, ne1, 1, 1});
}

static struct kernel_spec product_of(const struct product * p) {
    bool blocks = p->blocks != KERNEL_BLOCKS;
    int64_t words =
        blocks ? p->k / kernel_block_k(p->blocks) * kernel_block_bytes(p->blocks) / 4 : 0;
    struct kernel_spec spec = {
        .op = blocks ? KERNEL_OP_MUL_MAT_BLOCKS : KERNEL_OP_MUL_MAT,
        .arch = rig_arch,
        .n_inputs = 2,
        .inputs = {blocks ? tensor_of(DTYPE_I32, words, p->m) : tensor_of(DTYPE_BF16, p->k, p->m),
                   tensor_of(p->b, p->k, 1)},
        .output = tensor_of(DTYPE_F32, p->m, 1)};
    struct kernel_panel panel = {0};
    spec.params[0] = blocks ? kernel_blocks_param(p->blocks, panel) : 0;
    if (blocks && aie_panel(&spec, &panel)) {
        spec.params[0] = kernel_blocks_param(p->blocks, panel);
    }
    spec.inputs[1] = tensor_of(p->b, p->k, p->n);
    spec.output = tensor_of(DTYPE_F32, p->m, p->n);
    return spec;
}

static void of_products(void ** state) {
    (void) state;
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        if (products[i].archs >> rig_arch & 1) {
            struct kernel_spec spec = product_of(&products[i]);
            struct rig r;
            rig_open_with(&r, emu_clock_default(rig_arch));
            hold(&r, &spec);
            rig_close(&r);
        }
    }
}

static void of_conversions(void ** state) {
    (void) state;
    static const enum kernel_blocks kinds[] = {KERNEL_Q8_0, KERNEL_Q4_K};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        enum { M = 1024, K = 2048 };
        int64_t words = K / kernel_block_k(kinds[i]) * kernel_block_bytes(kinds[i]) / 4;
        struct kernel_spec spec = {.op = KERNEL_OP_UNPACK,
                                   .arch = rig_arch,
                                   .n_inputs = 1,
                                   .inputs[0] = tensor_of(DTYPE_I32, words, M),
                                   .output = tensor_of(DTYPE_BF16, K, M),
                                   .params[0] =
                                       kernel_blocks_param(kinds[i], (struct kernel_panel){0})};
        struct rig r;
        rig_open_with(&r, emu_clock_default(rig_arch));
        hold(&r, &spec);
        rig_close(&r);
    }
}

static void of_tasks(void ** state) {
    (void) state;
    for (int op = KERNEL_OP_TASK_ADD; op <= KERNEL_OP_TASK_RMS_NORM_MUL; op++) {
        enum { ROW = 2048, ROWS = 128 };
        struct tensor all = tensor_of(DTYPE_F32, ROW, ROWS), one = tensor_of(DTYPE_F32, ROW, 1);
        struct kernel_spec spec = {.op = (enum kernel_op) op,
                                   .arch = rig_arch,
                                   .n_inputs = 2,
                                   .inputs = {all, op == KERNEL_OP_TASK_RMS_NORM_MUL ? one : all},
                                   .output = all};
        struct rig r;
        rig_open_with(&r, emu_clock_default(rig_arch));
        hold(&r, &spec);
        rig_close(&r);
    }
}

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_products),
        cmocka_unit_test(of_conversions),
        cmocka_unit_test(of_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// every-kernel: all ops on all datatypes that have a kernel, in a few shapes each, for who
// looks at what the compiler makes of everything: the tuner and tests.
#pragma once

#include "aie/aie.h"

#include <string.h>

static enum aie_arch every_arch = AIE_ARCH_AIE2; // that the kernels are for

typedef void (*visit_fn)(void * user, const struct kernel_spec * spec);

static void visit_one(visit_fn visit, void * user, const struct kernel_spec * spec, int * n) {
    if (aie_supports(spec, NULL) == ST_OK) {
        visit(user, spec);
        ++*n;
    }
}

// The op on rows of one type, with each result and number of inputs that it may have.
static int visit_op(enum kernel_op op, enum dtype t, const int64_t ne[4], visit_fn visit,
                    void * user) {
    const struct tensor results[] = {
        tensor_contiguous(t, ne),
        tensor_contiguous(t, (const int64_t[4]){1, ne[1], ne[2], ne[3]}),
        tensor_contiguous(t, (const int64_t[4]){ne[0] / 2, ne[1], ne[2], ne[3]}),
        tensor_contiguous(t, (const int64_t[4]){1, 1, 1, 1}),
        tensor_contiguous(DTYPE_I32, (const int64_t[4]){ne[1], 1, 1, 1}),
        tensor_contiguous(DTYPE_BF16, ne),
    };
    const float half = 0.5f;
    int n = 0;
    for (int inputs = 1; inputs <= kernel_op_info(op)->n_inputs; inputs++) {
        for (size_t r = 0; r < sizeof results / sizeof results[0]; r++) {
            bool seen = false; // a row of one is its own sum
            for (size_t before = 0; before < r; before++) {
                seen |= memcmp(&results[before], &results[r], sizeof results[r]) == 0;
            }
            struct kernel_spec s = {
                .op = op, .arch = every_arch, .n_inputs = inputs, .output = results[r]};
            for (int i = 0; i < inputs; i++) {
                s.inputs[i] = tensor_contiguous(t, ne);
            }
            for (int i = 0; i < KERNEL_MAX_PARAMS; i++) {
                memcpy(&s.params[i], &half, 4);
            }
            if (kernel_has_place(s.op)) {
                s.params[0] = KERNEL_BEST_ALONE;
            }
            if (!seen) {
                visit_one(visit, user, &s, &n);
            }
        }
    }
    return n;
}

static int visit_product(enum dtype t, int64_t m, int64_t n, int64_t k, visit_fn visit,
                         void * user) {
    int count = 0;
    for (int result = 0; result < 2; result++) {
        struct kernel_spec s = {
            .op = KERNEL_OP_MUL_MAT,
            .arch = every_arch,
            .n_inputs = 2,
            .inputs = {tensor_contiguous(t, (const int64_t[4]){k, m, 1, 1}),
                       tensor_contiguous(t, (const int64_t[4]){k, n, 1, 1})},
            .output =
                tensor_contiguous(result ? DTYPE_I32 : DTYPE_F32, (const int64_t[4]){m, n, 1, 1}),
        };
        visit_one(visit, user, &s, &count);
    }
    return count;
}

static int visit_attention(enum dtype t, int64_t d, int64_t heads, int64_t shared, int64_t queries,
                           int64_t keys, visit_fn visit, void * user) {
    const float args[3] = {0.125f, 0, 0}, others[3] = {0.125f, 8, 30};
    int count = 0;
    for (int inputs = 3; inputs <= 5; inputs++) {
        struct kernel_spec s = {
            .op = KERNEL_OP_FLASH_ATTN_EXT,
            .arch = every_arch,
            .n_inputs = inputs,
            .inputs = {tensor_contiguous(DTYPE_F32, (const int64_t[4]){d, queries, heads, 1}),
                       tensor_contiguous(t, (const int64_t[4]){d, keys, shared, 1}),
                       tensor_contiguous(t, (const int64_t[4]){d, keys, shared, 1})},
            .output = tensor_contiguous(DTYPE_F32, (const int64_t[4]){d, heads, queries, 1}),
        };
        if (inputs > 3) {
            s.inputs[3] = tensor_contiguous(DTYPE_F16, (const int64_t[4]){keys, queries, 1, 1});
        }
        if (inputs > 4) {
            s.inputs[4] = tensor_contiguous(DTYPE_F32, (const int64_t[4]){heads, 1, 1, 1});
        }
        memcpy(s.params, inputs > 4 ? others : args, sizeof args);
        visit_one(visit, user, &s, &count);
    }
    return count;
}

static int visit_blocks_in(enum kernel_blocks kind, struct kernel_panel panel, enum dtype b,
                           int64_t m, int64_t n, int64_t k, visit_fn visit, void * user) {
    int count = 0;
    int64_t words = k / kernel_block_k(kind) * kernel_block_bytes(kind) / 4;
    struct kernel_spec s = {
        .op = KERNEL_OP_MUL_MAT_BLOCKS,
        .arch = every_arch,
        .n_inputs = 2,
        .inputs = {tensor_contiguous(DTYPE_I32, (const int64_t[4]){words, m, 1, 1}),
                   tensor_contiguous(b, (const int64_t[4]){k, n, 1, 1})},
        .output = tensor_contiguous(DTYPE_F32, (const int64_t[4]){m, n, 1, 1}),
        .params[0] = kernel_blocks_param(kind, panel),
    };
    visit_one(visit, user, &s, &count);
    return count;
}

static int visit_blocks(enum kernel_blocks kind, enum dtype b, int64_t m, int64_t n, int64_t k,
                        visit_fn visit, void * user) {
    return visit_blocks_in(kind, (struct kernel_panel){0}, b, m, n, k, visit, user);
}

static int visit_unpacking(enum kernel_blocks kind, int64_t rows, int64_t k, visit_fn visit,
                           void * user) {
    int count = 0;
    int64_t words = k / kernel_block_k(kind) * kernel_block_bytes(kind) / 4;
    struct kernel_spec s = {
        .op = KERNEL_OP_UNPACK,
        .arch = every_arch,
        .n_inputs = 1,
        .inputs = {tensor_contiguous(DTYPE_I32, (const int64_t[4]){words, rows, 1, 1})},
        .output = tensor_contiguous(DTYPE_BF16, (const int64_t[4]){k, rows, 1, 1}),
        .params[0] = kind,
    };
    visit_one(visit, user, &s, &count);
    return count;
}

static int visit_task(enum kernel_op op, int64_t row, int64_t rows, visit_fn visit, void * user) {
    int count = 0;
    bool norm = op == KERNEL_OP_TASK_RMS_NORM_MUL;
    struct tensor all = tensor_contiguous(DTYPE_F32, (const int64_t[4]){row, rows, 1, 1});
    struct tensor one = tensor_contiguous(DTYPE_F32, (const int64_t[4]){row, 1, 1, 1});
    struct kernel_spec s = {.op = op,
                            .arch = every_arch,
                            .n_inputs = 2,
                            .inputs = {all, norm ? one : all},
                            .output = all};
    visit_one(visit, user, &s, &count);
    return count;
}

static int visit_sum(int64_t row, int64_t rows, visit_fn visit, void * user) {
    int count = 0;
    struct kernel_spec s = {
        .op = KERNEL_OP_WEIGHTED_SUM,
        .arch = every_arch,
        .n_inputs = 2,
        .inputs = {tensor_contiguous(DTYPE_F32, (const int64_t[4]){row, rows, 1, 1}),
                   tensor_contiguous(DTYPE_F32, (const int64_t[4]){1, rows, 1, 1})},
        .output = tensor_contiguous(DTYPE_F32, (const int64_t[4]){row, 1, 1, 1})};
    visit_one(visit, user, &s, &count);
    return count;
}

static int visit_all(visit_fn visit, void * user) {
    static const int64_t shapes[][4] = {{1024, 16, 1, 1}, {33, 5, 3, 2}, {1, 1, 1, 1}};
    static const int64_t products[][3] = {
        {512, 512, 512}, {100, 37, 200}, {4096, 1, 512}, {5, 3, 8}};
    static const int64_t attentions[][5] = {
        {64, 32, 8, 1, 4096}, {128, 8, 2, 35, 512}, {40, 6, 3, 2, 114}, {576, 4, 1, 1, 80}};
    int n = 0;
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        bool task = kernel_op_info((enum kernel_op) op)->family == KERNEL_TASK;
        for (int t = 0; t < DTYPE_COUNT && !task; t++) {
            for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
                n += visit_op((enum kernel_op) op, (enum dtype) t, shapes[i], visit, user);
            }
        }
    }
    for (int t = 0; t < DTYPE_COUNT; t++) {
        for (size_t i = 0; i < sizeof attentions / sizeof attentions[0]; i++) {
            const int64_t * a = attentions[i];
            n += visit_attention((enum dtype) t, a[0], a[1], a[2], a[3], a[4], visit, user);
        }
        for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
            const int64_t * p = products[i];
            n += visit_product((enum dtype) t, p[0], p[1], p[2], visit, user);
        }
    }
    for (int kind = 0; kind < KERNEL_BLOCKS; kind++) {
        n += visit_blocks((enum kernel_blocks) kind, DTYPE_F32, 4096, 1, 512, visit, user);
        n += visit_blocks((enum kernel_blocks) kind, DTYPE_F32, 5, 3, 64, visit, user);
        n += visit_blocks((enum kernel_blocks) kind, DTYPE_BF16, 100, 68, 512, visit, user);
        n += visit_unpacking((enum kernel_blocks) kind, 100, 512, visit, user);
    }
    for (int op = KERNEL_OP_TASK_ADD; op <= KERNEL_OP_TASK_RMS_NORM_MUL; op++) {
        n += visit_task((enum kernel_op) op, 896, 17, visit, user);
    }
    n += visit_attention(DTYPE_F16, 64, 16, 4, 96, 200, visit, user); // a prompt
    n += visit_attention(DTYPE_BF16, 64, 16, 4, 96, 200, visit, user);
    n += visit_attention(DTYPE_F16, 128, 16, 4, 96, 256, visit, user); // in halves
    n += visit_sum(2048, 8, visit, user);
    for (int op = KERNEL_OP_SORT_PAIRS; op <= KERNEL_OP_MERGE_PAIRS; op++) { // of one length alone
        n += visit_op((enum kernel_op) op, DTYPE_F32, (int64_t[4]){2048, 5, 1, 1}, visit, user);
    }
    n += visit_blocks_in(KERNEL_Q6_K, kernel_panel(every_arch, KERNEL_Q6_K, 4, 210), DTYPE_BF16,
                         100, 68, 2048, visit, user); // two pairs of blocks in a chunk
    return n;
}

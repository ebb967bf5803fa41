// random-spec: kernels of any op, datatype, shape, strides, parameters and columns, as a number
// says: the same number gives the same kernel. Some of them have none; the caller asks.
#pragma once

#include "kernel/kernel.h"

#include <string.h>

struct random {
    uint64_t state;
};

static uint32_t random_bits(struct random * r) { // splitmix64
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t) (z >> 32);
}

static uint32_t random_below(struct random * r, uint32_t n) {
    return random_bits(r) % n;
}

// Small and large alike: so many bits at most.
static int64_t random_size(struct random * r, uint32_t most_bits) {
    uint32_t n = random_below(r, most_bits + 1);
    return 1 + (int64_t) (random_bits(r) & ((1u << n) - 1));
}

// Rows may lie apart, and dimensions in another order.
static void random_layout(struct random * r, struct tensor * t) {
    if (tensor_elements(t) <= 0) {
        return;
    }
    if (random_below(r, 4) == 0) {
        int64_t pad = 4 * (int64_t) random_below(r, 9);
        for (int d = 1; d < TENSOR_DIMS; d++) {
            t->nb[d] += pad * (d == 1 ? 1 : t->nb[d] / (t->nb[1] - pad));
        }
    }
    if (random_below(r, 8) == 0) {
        int a = 1 + (int) random_below(r, 3), b = 1 + (int) random_below(r, 3);
        int64_t nb = t->nb[a];
        t->nb[a] = t->nb[b];
        t->nb[b] = nb;
    }
}

static struct tensor random_input(struct random * r, enum dtype t, const int64_t shape[4]) {
    int64_t ne[4];
    memcpy(ne, shape, sizeof ne);
    for (int d = 0; d < TENSOR_DIMS; d++) { // repeated along some dimensions
        uint32_t how = random_below(r, 8);
        ne[d] = how == 0 ? 1 : how == 1 && ne[d] % 2 == 0 ? ne[d] / 2 : ne[d];
    }
    return tensor_contiguous(t, random_below(r, 2) ? shape : ne);
}

static void random_product(struct random * r, struct kernel_spec * s) {
    static const enum dtype types[] = {DTYPE_BF16, DTYPE_I8, DTYPE_I16, DTYPE_F16, DTYPE_F32};
    enum dtype t = types[random_below(r, 5)];
    int64_t k = random_size(r, 12), m = random_size(r, 11), n = random_size(r, 10);
    int64_t b2 = random_size(r, 2), b3 = random_size(r, 1), times = 1 + random_below(r, 2);
    k = random_below(r, 3) ? (k + 7) / 8 * 8 : k;
    s->inputs[0] = tensor_contiguous(t, (const int64_t[4]){k, m, b2, b3});
    s->inputs[1] = tensor_contiguous(t, (const int64_t[4]){k, n, b2 * times, b3});
    bool whole = t == DTYPE_I8 || t == DTYPE_I16;
    s->output =
        tensor_contiguous(whole ? DTYPE_I32 : DTYPE_F32, (const int64_t[4]){m, n, b2 * times, b3});
}

static void random_conversion(struct random * r, struct kernel_spec * s) {
    int64_t ne[4] = {random_size(r, 12), random_size(r, 8), random_size(r, 3), random_size(r, 2)};
    s->params[0] = random_below(r, 3);
    s->inputs[0] = tensor_contiguous(random_below(r, 2) ? DTYPE_F32 : DTYPE_F16, ne);
    ne[0] = (ne[0] + 7) / 8 * 8 * (s->params[0] ? 3 : 1);
    s->output = tensor_contiguous(DTYPE_BF16, ne);
}

static void random_plain(struct random * r, struct kernel_spec * s) {
    enum dtype t = random_below(r, 2) ? DTYPE_F32 : (enum dtype) random_below(r, DTYPE_COUNT);
    int64_t ne[4] = {random_size(r, 13), random_size(r, 8), random_size(r, 4), random_size(r, 2)};
    const struct kernel_op_info * info = kernel_op_info(s->op);
    s->n_inputs = info->least_inputs +
                  (int) random_below(r, (uint32_t) (info->n_inputs - info->least_inputs) + 1);
    for (int i = 0; i < s->n_inputs; i++) {
        s->inputs[i] = i ? random_input(r, t, ne) : tensor_contiguous(t, ne);
    }
    const struct tensor results[] = {
        tensor_contiguous(t, ne),
        tensor_contiguous(t, (const int64_t[4]){1, ne[1], ne[2], ne[3]}),
        tensor_contiguous(t, (const int64_t[4]){ne[0] / 2, ne[1], ne[2], ne[3]}),
        tensor_contiguous(t, (const int64_t[4]){1, 1, 1, 1}),
        tensor_contiguous(DTYPE_I32, (const int64_t[4]){1 + random_below(r, 2), 1, 1, 1}),
        tensor_contiguous(DTYPE_I32, (const int64_t[4]){ne[1], 1, 1, 1}),
    };
    s->output = results[info->family == KERNEL_ROWS ? random_below(r, 6) : 0];
    static const enum dtype casts[KERNEL_OP_COUNT][2] = {
        [KERNEL_OP_TO_F16] = {DTYPE_F32, DTYPE_F16},
        [KERNEL_OP_TO_BF16] = {DTYPE_F32, DTYPE_BF16},
        [KERNEL_OP_FROM_F16] = {DTYPE_F16, DTYPE_F32},
        [KERNEL_OP_FROM_BF16] = {DTYPE_BF16, DTYPE_F32},
    };
    if (casts[s->op][0] != casts[s->op][1]) {
        s->inputs[0] = random_input(r, casts[s->op][0], ne);
        s->output = tensor_contiguous(casts[s->op][1], ne);
    }
    if (s->op == KERNEL_OP_SOFT_MAX && s->n_inputs > 1) {
        int64_t mask[4] = {ne[0], ne[1] + random_below(r, 3), 1, 1};
        s->inputs[1] = tensor_contiguous(random_below(r, 2) ? DTYPE_F32 : DTYPE_F16, mask);
        s->inputs[2] = tensor_contiguous(DTYPE_F32, (const int64_t[4]){ne[2], 1, 1, 1});
    }
}

static struct kernel_spec random_spec(uint64_t number) {
    struct random r = {number * 0x10001};
    struct kernel_spec s = {
        .op = (enum kernel_op) random_below(&r, KERNEL_OP_COUNT),
        .arch = (enum aie_arch) random_below(&r, AIE_ARCH_COUNT),
        .precision = random_below(&r, 8) ? KERNEL_FAST : KERNEL_EXACT,
    };
    if (random_below(&r, 8) == 0) {
        s.columns = 1 + (int) random_below(&r, 4);
    }
    const struct kernel_op_info * info = kernel_op_info(s.op);
    s.n_inputs = info->n_inputs;
    for (int i = 0; i < info->n_params && i < KERNEL_MAX_PARAMS; i++) {
        float p = (float) random_below(&r, 64) / 16;
        memcpy(&s.params[i], &p, 4);
    }
    if (kernel_has_place(s.op)) {
        s.params[0] = random_below(&r, KERNEL_PLACES);
    }
    if (info->family == KERNEL_PRODUCT) {
        random_product(&r, &s);
    } else if (info->family == KERNEL_CONVERSION) {
        random_conversion(&r, &s);
    } else {
        random_plain(&r, &s);
    }
    for (int i = 0; i < s.n_inputs; i++) {
        random_layout(&r, &s.inputs[i]);
    }
    if (random_below(&r, 4) == 0) {
        random_layout(&r, &s.output);
    }
    return s;
}

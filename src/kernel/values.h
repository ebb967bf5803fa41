// values: what the elementwise ops compute, in double precision, from the rows of elementwise.def;
// for the tests of both devices. Who includes it says before what becomes of a number below the
// smallest normal one on its way to a product:
//
//   static double flush(double v);
#pragma once

#include "kernel/kernel.h"

#include <math.h>

struct value_test {
    double ulps;      // an f32 result may be off by so many units of its last place
    double absolute;  // and by that, for results near zero
    double low, high; // exponents (powers of two) of the random magnitudes; equal: no test
    float params[4];
    bool of_larger; // ulps count in the last place of the larger operand (sums)
    bool series;    // a 16-bit program of the NPU keeps fewer bits than f32 has
    double scale;   // on a GPU ulps count in the last place of this where the result is smaller
};

struct value {
    double (*of)(double a, double b, const double * p); // NULL: the op is none of these
    struct value_test test;
};

// ---- what the rows are written in ----

static double sigmoid(double v) {
    return 1 / (1 + exp(-v));
}

static double gelu(double a) {
    return 0.5 * a * (1 + tanh(0.79788456080286535588 * a * (1 + (double) 0.044715f * a * a)));
}

static double gelu_erf(double a) {
    return 0.5 * a * (1 + erf(a * 0.70710678118654752440));
}

static double gelu_quick(double a) {
    return a * sigmoid((double) 1.702f * a);
}

static double hardsigmoid(double a) {
    return fmin(1, fmax(0, (a + 3) / 6));
}

static double at_most(double a, double limit) {
    return limit < a ? limit : a;
}

static double within(double a, double limit) {
    return a < -limit ? -limit : at_most(a, limit);
}

// ---- the rows ----

#define ELEMENTWISE(id, name, ggml_name, source, inputs, params, npu, gpu, value, ...)             \
    static double value_##name(double a, double b, const double * p) {                             \
        (void) b, (void) p;                                                                        \
        return (value);                                                                            \
    }
#include "kernel/elementwise.def"
#undef ELEMENTWISE

static const struct value values[KERNEL_OP_COUNT] = {
#define ELEMENTWISE(id, name, ggml_name, source, inputs, params, npu, gpu, value, ...)             \
    [KERNEL_OP_##id] = {value_##name, {__VA_ARGS__}},
#include "kernel/elementwise.def"
#undef ELEMENTWISE
};

// Of an op with the parameters of its test, or with others.
static double value_with(enum kernel_op op, double a, double b, const float params[4]) {
    const double p[4] = {params[0], params[1], params[2], params[3]};
    return values[op].of(a, b, p);
}

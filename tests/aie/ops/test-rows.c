// Row ops against double precision, through the compiler and the emulated array: rows of every odd
// length, longer than a tile's memory, many short ones; masks, sinks and slopes of softmax;
// infinities and NaNs. Every kernel runs twice on the same array with different data.
#include "kernel-rig.h"
#include "reference.h"

#include "aie/image/image.h"
#include "aie/ops/rows/rows.h"

typedef float (*fill_fn)(int operand, int64_t i);

static double uniform(double low, double high) {
    return low + (high - low) * rand() / (double) RAND_MAX;
}

static float fill_plain(int operand, int64_t i) {
    (void) operand;
    (void) i;
    return (float) uniform(-1, 1);
}

static float fill_wide(int operand, int64_t i) {
    (void) operand;
    (void) i;
    return (float) (uniform(-1, 1) * exp2(uniform(-8, 8)));
}

static float fill_few(int operand, int64_t i) { // many equal ones
    (void) operand;
    (void) i;
    return (float) (rand() % 5 - 2);
}

struct shape {
    int64_t ne[4];
};

static struct tensor tensor_of(enum dtype t, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t ne[4] = {a, b, c, d};
    return tensor_contiguous(t, ne);
}

// Which kernels are tried, where an op has two; and for the fast ones, the squares of what they are
// off and of what they should be.
static enum kernel_precision precision;
static double error_power, power;

static int take_exact(void ** state) {
    (void) state;
    precision = KERNEL_EXACT;
    return 0;
}

static int take_fast(void ** state) {
    (void) state;
    precision = KERNEL_FAST;
    return 0;
}

static struct kernel_spec spec_of(enum kernel_op op, const int64_t ne[4], float param) {
    struct kernel_spec s = {.op = op, .arch = rig_arch, .precision = precision, .n_inputs = 1};
    s.inputs[0] = s.inputs[1] = s.output = tensor_of(DTYPE_F32, ne[0], ne[1], ne[2], ne[3]);
    memcpy(&s.params[0], &param, 4);
    if (!kernel_op_info(op)->n_params) {
        s.params[0] = 0;
    }
    switch (op) {
    case KERNEL_OP_SUM_ROWS:
    case KERNEL_OP_MEAN:
        s.output.ne[0] = 1;
        s.output = tensor_contiguous(DTYPE_F32, s.output.ne);
        break;
    case KERNEL_OP_ARGMAX:
        s.output = tensor_of(DTYPE_I32, ne[1] * ne[2] * ne[3], 1, 1, 1);
        break;
    case KERNEL_OP_ARGSORT:
        s.output = tensor_contiguous(DTYPE_I32, ne);
        s.params[0] = param != 0;
        break;
    case KERNEL_OP_SUM:
        s.output = tensor_of(DTYPE_F32, 1, 1, 1, 1);
        break;
    case KERNEL_OP_CROSS_ENTROPY_LOSS:
        s.n_inputs = 2;
        s.output = tensor_of(DTYPE_F32, 1, 1, 1, 1);
        break;
    case KERNEL_OP_RMS_NORM_MUL: // weights: a row, or as many as there are
        s.n_inputs = 2;
        if (ne[0] % 2 || ne[1] > 512) {
            s.inputs[1] = ne[1] > 512 ? s.inputs[0] : tensor_of(DTYPE_F32, ne[0], 1, 1, 1);
        }
        break;
    case KERNEL_OP_COUNT_EQUAL:
        s.n_inputs = 2;
        s.inputs[0] = s.inputs[1] = tensor_contiguous(DTYPE_I32, ne);
        s.output = tensor_of(DTYPE_I32, 2, 1, 1, 1);
        break;
    default:
        break;
    }
    return s;
}

static const float * floats(struct rig * r, int i) {
    return (const float *) (const void *) r->data[i];
}

static void expect(const struct kernel_spec * s, int64_t i, double got, double want,
                   double allowed) {
    if (kernel_has_exact(s) && s->precision == KERNEL_FAST && isfinite(want)) {
        allowed += 0x1p-12 * fabs(want) + 0x1p-34; // what is small beside the row has fewer bits
        error_power += (got - want) * (got - want);
        power += want * want;
    }
    if (isnan(want) ? isnan(got) : got == want || fabs(got - want) <= allowed) {
        return;
    }
    char name[KERNEL_NAME_MAX];
    kernel_name(s, name);
    print_message("%s: element %lld is %.9g, not %.9g (off %.3g, allowed %.3g)\n", name,
                  (long long) i, got, want, got - want, allowed);
    fail();
}

// ---- references ----

static const double eps32 = 0x1p-23;

static void check_rows(struct rig * r, const struct kernel_spec * s) {
    const float *x = floats(r, 0), *out = floats(r, s->n_inputs);
    int64_t n = s->inputs[0].ne[0], rows = tensor_elements(&s->inputs[0]) / n;
    float param;
    memcpy(&param, &s->params[0], 4);
    double total = 0, total_abs = 0;
    for (int64_t i = 0; i < rows; i++) {
        const float * row = x + i * n;
        double sum = 0, magnitude = 0, squares = 0, high = -INFINITY;
        int64_t best = 0;
        for (int64_t k = 0; k < n; k++) {
            sum += row[k];
            magnitude += fabs(row[k]);
            squares += (double) row[k] * row[k];
            if (row[k] >= high) {
                high = row[k];
                best = k;
            }
        }
        total += sum;
        total_abs += magnitude;
        double mean = sum / (double) n, variance = 0, logsum = 0, loss = 0, scale = 0, shift = 0;
        switch (s->op) {
        case KERNEL_OP_SUM_ROWS:
            expect(s, i, out[i], sum, 8 * eps32 * magnitude);
            continue;
        case KERNEL_OP_MEAN:
            expect(s, i, out[i], mean, 8 * eps32 * magnitude / (double) n);
            continue;
        case KERNEL_OP_ARGMAX:
            expect(s, i, ((const int32_t *) (const void *) r->data[1])[i], (double) best, 0);
            continue;
        case KERNEL_OP_SUM:
            continue;
        case KERNEL_OP_CROSS_ENTROPY_LOSS:
            for (int64_t k = 0; k < n; k++) {
                logsum += exp(row[k] - high);
            }
            for (int64_t k = 0; k < n; k++) {
                loss += (row[k] - high - log(logsum)) * floats(r, 1)[i * n + k];
                magnitude += fabs((row[k] - high - log(logsum)) * floats(r, 1)[i * n + k]);
            }
            total += loss - sum;
            total_abs += magnitude;
            continue;
        case KERNEL_OP_NORM:
            for (int64_t k = 0; k < n; k++) {
                variance += (row[k] - mean) * (row[k] - mean);
            }
            scale = 1 / sqrt(variance / (double) n + param);
            shift = mean;
            break;
        case KERNEL_OP_RMS_NORM:
        case KERNEL_OP_RMS_NORM_MUL:
            scale = 1 / sqrt(squares / (double) n + param);
            break;
        case KERNEL_OP_L2_NORM:
            scale = 1 / fmax(sqrt(squares), param);
            break;
        default:
            fail();
        }
        for (int64_t k = 0; k < n; k++) {
            double want = (row[k] - shift) * scale;
            if (s->op == KERNEL_OP_RMS_NORM_MUL) {
                want *= floats(r, 1)[(i * n + k) % tensor_elements(&s->inputs[1])];
            }
            double off = 6 * eps32 * fabs(want) + 4 * eps32 *
                                                      (fabs(row[k]) + magnitude / (double) n) *
                                                      scale * (s->op == KERNEL_OP_NORM);
            expect(s, i * n + k, out[i * n + k], want, off + 0x1p-126);
        }
    }
    if (s->op == KERNEL_OP_SUM) {
        expect(s, 0, out[0], total, 16 * eps32 * total_abs);
    } else if (s->op == KERNEL_OP_CROSS_ENTROPY_LOSS) {
        expect(s, 0, out[0], -total / (double) rows, 16 * eps32 * total_abs / (double) rows);
    }
}

// Largest or smallest first, NaNs last; those that are alike in the order in which they stood.
static bool comes_first(float a, float b, bool descending) {
    return isnan(b) ? !isnan(a) : descending ? a > b : a < b;
}

static void check_sort(struct rig * r, const struct kernel_spec * s) {
    int64_t n = s->inputs[0].ne[0], rows = tensor_elements(&s->inputs[0]) / n;
    for (int64_t i = 0; i < rows; i++) {
        const float * row = floats(r, 0) + i * n;
        const int32_t * got = (const int32_t *) (const void *) r->data[1] + i * n;
        for (int64_t k = 0; k < n; k++) {
            int64_t before = 0;
            for (int64_t j = 0; j < n; j++) {
                bool first = comes_first(row[j], row[k], s->params[0]);
                bool alike = !first && !comes_first(row[k], row[j], s->params[0]);
                before += first || (alike && j < k);
            }
            expect(s, i * n + before, got[before], (double) k, 0);
        }
    }
}

static void check_count(struct rig * r, const struct kernel_spec * s) {
    int64_t count = 0;
    for (int64_t i = 0; i < tensor_elements(&s->inputs[0]); i++) {
        count += ref_get(DTYPE_I32, r->data[0], i) == ref_get(DTYPE_I32, r->data[1], i);
    }
    int64_t got;
    memcpy(&got, r->data[2], 8);
    expect(s, 0, (double) got, (double) count, 0);
}

// ---- running ----

static void compile(const struct kernel_spec * s, struct kernel_code * code) {
    struct error err = {0};
    enum status st = rig_compile(s, code, &err);
    if (st != ST_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(st, ST_OK);
}

static void check_nmse(void) {
    if (power > 1 && error_power > 1e-9 * power) { // a row of one less its mean is nothing
        fail_msg("NMSE %g", error_power / power);
    }
    error_power = power = 0;
}

static uint64_t run_op(struct rig * r, const struct kernel_spec * s, fill_fn fill) {
    struct kernel_code code;
    struct emu_counters c;
    compile(s, &code);
    for (int again = 0; again < 2; again++) {
        rig_allocate(r, s);
        for (int k = 0; k < s->n_inputs; k++) {
            for (int64_t i = 0; i < tensor_elements(&s->inputs[k]); i++) {
                float v = fill(k, i);
                int32_t integer = (int32_t) v;
                memcpy(r->data[k] + 4 * i,
                       s->inputs[k].dtype == DTYPE_I32 ? (void *) &integer : (void *) &v, 4);
            }
        }
        rig_run(r, s, &code);
        if (s->op == KERNEL_OP_COUNT_EQUAL) {
            check_count(r, s);
        } else if (s->op == KERNEL_OP_ARGSORT) {
            check_sort(r, s);
        } else {
            check_rows(r, s);
            check_nmse();
        }
        emu_machine_counters(r->machine, &c);
        rig_free(r);
    }
    kernel_code_free(&code);
    return c.last_cycles;
}

// Short rows, such as a core keeps, such as a memory tile does, and longer ones; few and many. The
// first are those that are always run.
enum { FEW_SHAPES = 7 };
static const struct shape shapes[] = {
    {{1000, 9, 1, 1}},  {{64, 5, 4, 3}},    {{4, 1023, 1, 1}},  {{1, 500, 1, 1}},
    {{257, 17, 1, 1}},  {{2050, 10, 1, 1}}, {{5438, 3, 1, 1}},  {{2048, 5, 1, 1}},
    {{2049, 5, 1, 1}},  {{33, 7, 1, 1}},    {{1000, 1, 1, 1}},  {{4097, 3, 1, 1}},
    {{1025, 5, 4, 3}},  {{32, 513, 1, 1}},  {{70001, 2, 1, 1}}, {{3, 9001, 1, 1}},
    {{8192, 5, 1, 1}},  {{255, 40, 1, 1}},  {{256, 40, 1, 1}},  {{2050, 37, 1, 1}},
    {{4100, 21, 1, 1}}, {{12000, 9, 1, 1}},
};

static void all_shapes(enum kernel_op op, float param, fill_fn fill) {
    struct rig r;
    srand(7);
    rig_open(&r);
    for (int64_t n = 1; n <= 40; n++) {
        if (!rig_length(n)) {
            continue;
        }
        const int64_t ne[4] = {n, 1 + n % 5, 1, 1};
        struct kernel_spec s = spec_of(op, ne, param);
        run_op(&r, &s, fill);
    }
    size_t some = rig_whole ? sizeof shapes / sizeof shapes[0] : FEW_SHAPES;
    for (size_t i = 0; i < some; i++) {
        struct kernel_spec s = spec_of(op, shapes[i].ne, param);
        run_op(&r, &s, fill);
    }
    rig_close(&r);
}

static void sum_rows(void ** state) {
    (void) state;
    all_shapes(KERNEL_OP_SUM_ROWS, 0, fill_wide);
    all_shapes(KERNEL_OP_MEAN, 0, fill_plain);
}

static void sums(void ** state) {
    (void) state;
    all_shapes(KERNEL_OP_SUM, 0, fill_wide);
}

static void argmax(void ** state) {
    (void) state;
    all_shapes(KERNEL_OP_ARGMAX, 0, fill_wide);
    all_shapes(KERNEL_OP_ARGMAX, 0, fill_few);
}

static void count_equal(void ** state) {
    (void) state;
    all_shapes(KERNEL_OP_COUNT_EQUAL, 0, fill_few);
}

static void norms(void ** state) {
    (void) state;
    all_shapes(KERNEL_OP_RMS_NORM, 1e-6f, fill_wide);
    all_shapes(KERNEL_OP_RMS_NORM_MUL, 1e-6f, fill_wide);
    all_shapes(KERNEL_OP_L2_NORM, 1e-6f, fill_plain);
    all_shapes(KERNEL_OP_NORM, 1e-5f, fill_plain);
}

// More long rows than a column's queues take at once.
static void many_long_rows(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    struct kernel_spec s =
        spec_of(KERNEL_OP_RMS_NORM, (int64_t[]){2050, rig_whole ? 801 : 21, 1, 1}, 1e-6f);
    run_op(&r, &s, fill_plain);
    rig_close(&r);
}

static void loss(void ** state) {
    (void) state;
    all_shapes(KERNEL_OP_CROSS_ENTROPY_LOSS, 0, fill_plain);
}

// ---- softmax ----

struct soft_case {
    int64_t ne[4];
    enum { NO_MASK, MASK_F32, MASK_F16 } mask;
    int64_t mask_ne[3]; // rows, and dimensions 2 and 3; 0: like x
    bool sinks;
    float scale, max_bias;
};

static struct kernel_spec soft_spec(const struct soft_case * k) {
    struct kernel_spec s = {
        .op = KERNEL_OP_SOFT_MAX, .arch = rig_arch, .precision = precision, .n_inputs = 1};
    s.inputs[0] = s.output = tensor_contiguous(DTYPE_F32, k->ne);
    s.inputs[1] = tensor_of(DTYPE_F32, 0, 0, 0, 0);
    if (k->mask != NO_MASK) {
        s.inputs[1] = tensor_of(k->mask == MASK_F16 ? DTYPE_F16 : DTYPE_F32, k->ne[0],
                                k->mask_ne[0] ? k->mask_ne[0] : k->ne[1],
                                k->mask_ne[1] ? k->mask_ne[1] : k->ne[2],
                                k->mask_ne[2] ? k->mask_ne[2] : k->ne[3]);
        s.n_inputs = 2;
    }
    if (k->sinks) {
        s.inputs[2] = tensor_of(DTYPE_F32, k->ne[2], 1, 1, 1);
        s.n_inputs = 3;
    }
    memcpy(&s.params[0], &k->scale, 4);
    memcpy(&s.params[1], &k->max_bias, 4);
    return s;
}

static double mask_value(struct rig * r, const struct tensor * m, int64_t i) {
    return m->dtype == DTYPE_F16 ? ref_widen(ref_get(DTYPE_F16, r->data[1], i), 10, 5)
                                 : (double) floats(r, 1)[i];
}

static void check_soft_max(struct rig * r, const struct kernel_spec * s,
                           const struct soft_case * k) {
    const struct tensor * m = &s->inputs[1];
    const float *x = floats(r, 0), *out = floats(r, s->n_inputs);
    int64_t n = k->ne[0];
    double heads = exp2(floor(log2((double) k->ne[2])));
    double * t = malloc((size_t) n * sizeof *t);
    for (int64_t row = 0; row < k->ne[1] * k->ne[2] * k->ne[3]; row++) {
        int64_t i1 = row % k->ne[1], i2 = row / k->ne[1] % k->ne[2], i3 = row / k->ne[1] / k->ne[2];
        double slope = 1;
        if (k->max_bias > 0) {
            slope = i2 < heads ? pow(exp2(-k->max_bias / heads), (double) i2 + 1)
                               : pow(exp2(-k->max_bias / 2 / heads), 2 * ((double) i2 - heads) + 1);
        }
        double sink = k->sinks ? (double) floats(r, 2)[i2] : -INFINITY;
        double high = sink, sum = 0;
        for (int64_t i = 0; i < n; i++) {
            t[i] = (double) x[row * n + i] * k->scale;
            if (k->mask != NO_MASK) {
                int64_t at = (i3 % m->ne[3] * m->ne[2] + i2 % m->ne[2]) * m->ne[1] + i1;
                t[i] += slope * mask_value(r, m, at * n + i);
            }
            high = t[i] > high || isnan(t[i]) ? t[i] : high;
        }
        for (int64_t i = 0; i < n; i++) {
            sum += exp(t[i] - high);
        }
        sum += k->sinks ? exp(sink - high) : 0;
        for (int64_t i = 0; i < n; i++) {
            double want = exp(t[i] - high) / sum;
            // t - max is rounded at the larger of the two, and so is t
            double place = fmax(fabs(t[i]), fabs(high));
            expect(s, row * n + i, out[row * n + i], want,
                   (16 + (isfinite(place) ? 4 * place : 0)) * eps32 * want + 0x1p-120);
        }
    }
    free(t);
}

typedef void (*soft_fill)(struct rig * r, const struct kernel_spec * s);

static void fill_soft(struct rig * r, const struct kernel_spec * s) {
    for (int k = 0; k < s->n_inputs; k++) {
        for (int64_t i = 0; i < tensor_elements(&s->inputs[k]); i++) {
            float v = (float) uniform(-8, 8);
            if (k == 1 && rand() % 3 == 0) {
                v = -INFINITY; // what masks are for
            }
            if (k == 1 && s->inputs[1].ne[0] < 4) {
                v = 1; // never a row without anything
            }
            uint32_t half = ref_pack(v, 10, 5);
            memcpy(r->data[k] + i * dtype_size(s->inputs[k].dtype),
                   s->inputs[k].dtype == DTYPE_F16 ? (void *) &half : (void *) &v,
                   (size_t) dtype_size(s->inputs[k].dtype));
        }
    }
}

static uint64_t run_soft(struct rig * r, const struct soft_case * k, soft_fill fill) {
    struct kernel_spec s = soft_spec(k);
    struct kernel_code code;
    struct emu_counters c;
    compile(&s, &code);
    for (int again = 0; again < 2; again++) {
        rig_allocate(r, &s);
        fill(r, &s);
        rig_run(r, &s, &code);
        check_soft_max(r, &s, k);
        check_nmse();
        emu_machine_counters(r->machine, &c);
        rig_free(r);
    }
    kernel_code_free(&code);
    return c.last_cycles;
}

// In the quick form those of few elements, one with rows that a memory tile holds, and one of long
// ones.
static bool takes_seconds(const int64_t ne[4]) {
    return ne[0] * ne[1] * ne[2] * ne[3] > 4500 && ne[0] * ne[1] != 20500 && ne[0] != 9001;
}

static const struct soft_case soft_cases[] = {
    {{16, 16, 1, 1}, NO_MASK, {0}, false, 1, 0},
    {{15, 15, 1, 1}, MASK_F32, {0}, false, 0.1f, 0},
    {{15, 15, 1, 1}, MASK_F16, {0}, true, 1, 8},
    {{1023, 33, 1, 1}, MASK_F16, {0}, false, 1, 0},
    {{1024, 33, 1, 1}, MASK_F16, {0}, true, 1, 0},
    {{16, 16, 1, 3}, MASK_F32, {0, 1, 1}, false, 1, 0},
    {{31, 5, 6, 4}, MASK_F16, {0, 2, 2}, true, 0.1f, 8},
    {{30, 5, 6, 4}, MASK_F16, {0, 1, 1}, false, 0.1f, 0},
    {{30, 5, 6, 4}, MASK_F16, {0, 1, 4}, false, 0.1f, 0},
    {{31, 5, 6, 4}, MASK_F16, {0, 1, 1}, false, 0.1f, 0},
    {{31, 5, 6, 4}, MASK_F32, {9, 3, 2}, false, 0.1f, 0},
    {{16, 2, 32, 1}, MASK_F16, {32, 1, 1}, false, 0.1f, 0},
    {{16, 2, 32, 1}, NO_MASK, {0}, true, 0.1f, 0},
    {{32, 2, 32, 1}, MASK_F32, {0, 1, 1}, true, 0.1f, 8},
    {{32, 2, 12, 1}, MASK_F16, {0, 1, 1}, false, -0.5f, 8},
    {{4, 1023, 1, 1}, NO_MASK, {0}, false, 1, 0},
    {{9001, 1, 2, 1}, MASK_F16, {0, 1, 1}, true, 0.1f, 8},
    {{20001, 2, 3, 1}, MASK_F32, {0, 1, 1}, true, 0.1f, 8},
    {{20001, 2, 3, 1}, MASK_F16, {0, 1, 1}, true, 0.1f, 8},
    {{2047, 3, 2, 1}, MASK_F16, {0, 1, 1}, false, 0.1f, 0},
    {{2050, 3, 1, 1}, MASK_F16, {0, 1, 1}, false, 0.1f, 0},
    {{70001, 1, 1, 1}, NO_MASK, {0}, false, 1, 0},
    {{2050, 10, 1, 1}, MASK_F32, {0}, false, 1, 0},
    {{2050, 37, 1, 1}, NO_MASK, {0}, false, 1, 0},
    {{2052, 11, 3, 1}, MASK_F32, {0, 1, 1}, false, 0.1f, 0},
    {{3000, 21, 1, 1}, MASK_F16, {0}, false, 1, 0},
    {{3001, 13, 2, 1}, MASK_F16, {0, 1, 1}, false, 0.1f, 0},
    {{8192, 17, 1, 1}, MASK_F32, {0}, true, 1, 0},
    {{4098, 5, 4, 1}, MASK_F16, {0, 1, 1}, true, 0.1f, 8},
};

static void soft_max(void ** state) {
    (void) state;
    struct rig r;
    srand(9);
    rig_open(&r);
    for (int64_t n = 1; n <= 40; n++) {
        for (int mask = NO_MASK; mask <= MASK_F16; mask++) {
            if ((n == 1 && mask == MASK_F16) || !rig_length(n)) {
                continue;
            }
            struct soft_case k = {
                {n, 1 + n % 7, 1 + n % 3, 1}, mask, {0}, n % 2, 0.5f, n % 4 > 1 ? 4 : 0};
            run_soft(&r, &k, fill_soft);
        }
    }
    for (size_t i = 0; i < sizeof soft_cases / sizeof soft_cases[0]; i++) {
        if (rig_whole || !takes_seconds(soft_cases[i].ne)) {
            run_soft(&r, &soft_cases[i], fill_soft);
        }
    }
    rig_close(&r);
}

// ---- special values ----

// Rows 0, 3, 6, ... are masked throughout: NaN, as in ggml.
static void fill_masked_out(struct rig * r, const struct kernel_spec * s) {
    fill_soft(r, s);
    float * mask = (float *) (void *) r->data[1];
    for (int64_t i = 0; i < tensor_elements(&s->inputs[1]); i++) {
        mask[i] = i / s->inputs[1].ne[0] % 3 == 0 ? -INFINITY : i % 7 == 0 ? -INFINITY : 0;
    }
}

static void fill_huge(struct rig * r, const struct kernel_spec * s) {
    fill_soft(r, s);
    float * x = (float *) (void *) r->data[0];
    for (int64_t i = 0; i < tensor_elements(&s->inputs[0]); i++) {
        x[i] = (float) (uniform(-1, 1) * 3e38);
    }
}

static void fill_infinities(struct rig * r, const struct kernel_spec * s) {
    fill_soft(r, s);
    float * x = (float *) (void *) r->data[0];
    for (int64_t row = 0; row < tensor_elements(&s->inputs[0]) / s->inputs[0].ne[0]; row++) {
        float * at = x + row * s->inputs[0].ne[0];
        at[row % s->inputs[0].ne[0]] = row % 3 == 0 ? NAN : row % 3 == 1 ? -INFINITY : 0;
        if (row % 6 == 4) {
            at[(row + 5) % s->inputs[0].ne[0]] = -NAN;
        }
    }
}

static void soft_max_specials(void ** state) {
    (void) state;
    static const struct soft_case cases[] = {
        {{33, 12, 1, 1}, MASK_F32, {0}, false, 1, 0},
        {{5000, 4, 1, 1}, MASK_F32, {0}, false, 1, 0},
    };
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < 2; i++) {
        run_soft(&r, &cases[i], fill_masked_out);
        run_soft(&r, &cases[i], fill_infinities);
        struct soft_case plain = cases[i];
        plain.mask = NO_MASK;
        run_soft(&r, &plain, fill_huge);
        run_soft(&r, &plain, fill_infinities);
    }
    rig_close(&r);
}

static float fill_big(int operand, int64_t i) {
    (void) operand;
    (void) i;
    return (float) (uniform(-1, 1) * 0x1p55);
}

static float fill_tiny(int operand, int64_t i) {
    (void) operand;
    (void) i;
    return (float) (uniform(-1, 1) * 0x1p-48);
}

static float fill_zero(int operand, int64_t i) {
    (void) operand;
    (void) i;
    return 0;
}

static float fill_with_nan(int operand, int64_t i) {
    return i % 41 == 17 ? (i & 1 ? NAN : -NAN) : fill_plain(operand, i);
}

static float fill_with_inf(int operand, int64_t i) {
    return i % 41 == 17 ? (i & 1 ? INFINITY : -INFINITY) : fill_plain(operand, i);
}

static void specials(void ** state) {
    (void) state;
    const int64_t shapes[][4] = {{37, 9, 1, 1}, {4100, 2, 1, 1}};
    struct rig r;
    rig_open(&r);
    for (int i = 0; i < 2; i++) {
        const int64_t * ne = shapes[i];
        const struct {
            enum kernel_op op;
            float param;
            fill_fn fill;
        } runs[] = {
            {KERNEL_OP_RMS_NORM, 1e-6f, fill_big},
            {KERNEL_OP_NORM, 1e-6f, fill_big},
            {KERNEL_OP_L2_NORM, 1e-6f, fill_big},
            {KERNEL_OP_RMS_NORM, 0, fill_tiny},
            {KERNEL_OP_L2_NORM, 1e-12f, fill_zero},
            {KERNEL_OP_RMS_NORM, 1e-6f, fill_zero},
            {KERNEL_OP_NORM, 1e-6f, fill_zero},
            {KERNEL_OP_SUM_ROWS, 0, fill_with_nan},
            {KERNEL_OP_MEAN, 0, fill_with_inf},
            {KERNEL_OP_SUM_ROWS, 0, fill_with_inf},
            {KERNEL_OP_SUM, 0, fill_with_nan},
            {KERNEL_OP_RMS_NORM, 1e-6f, fill_with_nan},
            {KERNEL_OP_NORM, 1e-6f, fill_with_nan},
            {KERNEL_OP_ARGMAX, 0, fill_with_inf},
            {KERNEL_OP_ARGMAX, 0, fill_with_nan},
            {KERNEL_OP_ARGMAX, 0, fill_zero},
            {KERNEL_OP_CROSS_ENTROPY_LOSS, 0, fill_zero},
        };
        for (size_t k = 0; k < sizeof runs / sizeof runs[0]; k++) {
            struct kernel_spec s = spec_of(runs[k].op, ne, runs[k].param);
            run_op(&r, &s, runs[k].fill);
        }
    }
    rig_close(&r);
}

static void argsort(void ** state) {
    (void) state;
    static const struct shape sorts[] = {{{64, 5, 4, 3}},  {{128, 33, 1, 1}}, {{257, 17, 1, 1}},
                                         {{8, 200, 1, 1}}, {{1000, 1, 1, 1}}, {{2048, 3, 1, 1}}};
    struct rig r;
    srand(7);
    rig_open(&r);
    for (int64_t n = 1; n <= 40; n++) {
        for (int order = 0; order < 2 && rig_length(n); order++) {
            const int64_t ne[4] = {n, 1 + n % 5, 1, 1};
            struct kernel_spec s = spec_of(KERNEL_OP_ARGSORT, ne, (float) order);
            run_op(&r, &s, n % 2 ? fill_few : fill_wide);
        }
    }
    for (size_t i = 0; i < (rig_whole ? 6 : 4); i++) {
        static const fill_fn fills[] = {fill_wide, fill_few, fill_with_nan, fill_with_inf};
        struct kernel_spec s = spec_of(KERNEL_OP_ARGSORT, sorts[i].ne, (float) (i % 2));
        run_op(&r, &s, fills[i % 4]);
        s.params[0] = !s.params[0];
        run_op(&r, &s, fills[(i + 1) % 4]);
    }
    rig_close(&r);
    struct error err = {0};
    const int64_t long_row[4] = {2049, 1, 1, 1};
    struct kernel_spec s = spec_of(KERNEL_OP_ARGSORT, long_row, 1);
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "2048"));
}

// ---- what is refused, what is sent ----

static void refusals(void ** state) {
    (void) state;
    const int64_t ne[4] = {16, 4, 2, 1};
    struct error err = {0};
    struct kernel_spec good = spec_of(KERNEL_OP_RMS_NORM, ne, 1e-6f), s = good;
    assert_int_equal(aie_supports(&good, &err), ST_OK);
    s.inputs[0].nb[1] *= 2;
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    s = good;
    s.inputs[0].dtype = DTYPE_F16;
    s.inputs[0] = tensor_contiguous(DTYPE_F16, ne);
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    s = good;
    s.output = tensor_of(DTYPE_F32, 16, 4, 1, 1);
    assert_int_equal(aie_supports(&s, &err), ST_INVALID);
    s = good;
    s.n_inputs = 2;
    assert_int_equal(aie_supports(&s, &err), ST_INVALID);
    s = good;
    s.inputs[0] = s.output = tensor_of(DTYPE_F32, 0, 4, 1, 1);
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    s.inputs[0] = s.output = tensor_of(DTYPE_F32, 1 << 20, 1 << 12, 1, 1);
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    s.inputs[0] = s.output =
        tensor_of(DTYPE_F32, 3 << 20, 1, 1, 1); // longer than the queues can repeat
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "too long"));

    struct soft_case k = {{16, 4, 2, 1}, MASK_F16, {0}, true, 1, 8};
    s = soft_spec(&k);
    assert_int_equal(aie_supports(&s, &err), ST_OK);
    s.inputs[2] = tensor_of(DTYPE_F32, 3, 1, 1, 1);
    assert_int_equal(aie_supports(&s, &err), ST_INVALID);
    s = soft_spec(&k);
    s.inputs[1] = tensor_of(DTYPE_F16, 16, 3, 1, 1);
    assert_int_equal(aie_supports(&s, &err), ST_INVALID);
    s.inputs[1] = tensor_of(DTYPE_BF16, 16, 4, 1, 1);
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
}

static bool only_golden_commands(void * user, const struct image_command * c) {
    (void) user;
    assert_true(c->op == IMAGE_WRITE || c->op == IMAGE_MASK_WRITE || c->op == IMAGE_BLOCK_WRITE ||
                c->op == IMAGE_NOP || c->op == IMAGE_WAIT || c->op == IMAGE_PATCH);
    return true;
}

static void check_commands(const struct kernel_spec * s) {
    struct kernel_code code;
    struct error err = {0};
    compile(s, &code);
    assert_int_equal(pdi_read(code.pdi, code.pdi_size, only_golden_commands, NULL, &err), ST_OK);
    assert_int_equal(
        txn_read((const uint8_t *) code.insts, 4 * code.n_insts, only_golden_commands, NULL, &err),
        ST_OK);
    kernel_code_free(&code);
}

static const enum kernel_op plain_ops[] = {
    KERNEL_OP_SUM_ROWS, KERNEL_OP_SUM,         KERNEL_OP_MEAN,
    KERNEL_OP_NORM,     KERNEL_OP_RMS_NORM,    KERNEL_OP_L2_NORM,
    KERNEL_OP_ARGMAX,   KERNEL_OP_COUNT_EQUAL, KERNEL_OP_CROSS_ENTROPY_LOSS};

static void commands_are_known(void ** state) {
    (void) state;
    for (size_t i = 0; i < sizeof plain_ops / sizeof plain_ops[0]; i++) {
        for (int k = 0; k < 2; k++) {
            const int64_t ne[4] = {k ? 5000 : 50, 7, 1, 1};
            struct kernel_spec s = spec_of(plain_ops[i], ne, 1e-6f);
            check_commands(&s);
        }
    }
    for (size_t i = 0; i < sizeof soft_cases / sizeof soft_cases[0]; i++) {
        struct kernel_spec s = soft_spec(&soft_cases[i]);
        check_commands(&s);
    }
}

// ---- figures ----

static void report(const char * what, const struct kernel_spec * s, uint64_t cycles) {
    struct rows_code program;
    struct error err = {0};
    const struct aie_program * of =
        aie_program_for(s->arch, AIE_LAYOUT_ALIKE, s->op, DTYPE_F32, s->precision == KERNEL_EXACT);
    assert_int_equal(rows_compile(of, s->arch, &program, &err), ST_OK);
    print_message("%-28s %5d bundles, %6.2f cycles per element and column\n", what,
                  program.code.stats.bundles,
                  (double) cycles * 4 / (double) tensor_elements(&s->inputs[0]));
    free(program.code.bytes);
}

static void figures(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    const int64_t sizes[][4] = {
        {1024, rig_whole ? 64 : 8, 1, 1}, {16, 1024, 1, 1}, {20000, 4, 1, 1}};
    for (int k = 0; k < (rig_whole ? 3 : 1); k++) {
        for (size_t i = 0; i < sizeof plain_ops / sizeof plain_ops[0]; i++) {
            struct kernel_spec s = spec_of(plain_ops[i], sizes[k], 1e-6f);
            char what[64];
            snprintf(what, sizeof what, "%s %lldx%lld", kernel_op_name(s.op),
                     (long long) sizes[k][0], (long long) sizes[k][1]);
            report(what, &s, run_op(&r, &s, s.op == KERNEL_OP_COUNT_EQUAL ? fill_few : fill_plain));
        }
        for (int mask = NO_MASK; mask <= MASK_F16; mask++) {
            struct soft_case c = {{sizes[k][0], sizes[k][1], 1, 1}, mask, {0}, false, 0.5f, 0};
            struct kernel_spec s = soft_spec(&c);
            static const char * const names[] = {"", " f32 mask", " f16 mask"};
            char what[64];
            snprintf(what, sizeof what, "soft_max%s %lldx%lld", names[mask],
                     (long long) sizes[k][0], (long long) sizes[k][1]);
            report(what, &s, run_soft(&r, &c, fill_soft));
        }
    }
    rig_close(&r);
}

#define EXACT(test) cmocka_unit_test_setup_teardown(test, take_exact, take_fast)

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),
        cmocka_unit_test(commands_are_known),
        cmocka_unit_test(sum_rows),
        cmocka_unit_test(sums),
        cmocka_unit_test(argmax),
        cmocka_unit_test(argsort),
        cmocka_unit_test(count_equal),
        cmocka_unit_test(norms),
        cmocka_unit_test(many_long_rows),
        cmocka_unit_test(loss),
        cmocka_unit_test(soft_max),
        cmocka_unit_test(soft_max_specials),
        cmocka_unit_test(specials),
        cmocka_unit_test(figures),
        EXACT(norms),
        EXACT(soft_max),
        EXACT(soft_max_specials),
        EXACT(specials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Attention against double precision: head sizes, odd numbers of keys, groups of heads that share
// keys, masks, slopes, caps, sinks; one query and many. Each kernel runs twice, with other data.
#include "kernel-rig.h"
#include "reference.h"

#include "aie/ops/attention/attention.h"

struct shape {
    int64_t dk, dv, heads, kv_heads, queries, keys, batches, kv_batches;
    enum dtype type;
    bool mask, sinks;
    float max_bias, cap;
    bool permuted; // heads within a query, keys of all heads side by side, as a cache has them
};

// Bits of quantized ones, which come as words; 0: they are of the shape's type.
static int k_bits, v_bits;
static bool head_masks; // each head has its own
static double rise;     // not 0: later keys are larger, so that the largest score rises
static bool parts;      // results are parts, to be put together with those of other keys

// ---- operands ----

static struct tensor permuted(enum dtype t, int64_t d, int64_t rows, int64_t heads,
                              int64_t batches) {
    struct tensor x = tensor_contiguous(t, (const int64_t[4]){d, heads, rows, batches});
    int64_t nb = x.nb[1];
    x.ne[1] = rows;
    x.ne[2] = heads;
    x.nb[1] = x.nb[2];
    x.nb[2] = nb;
    return x;
}

static struct tensor operand(const struct shape * s, enum dtype t, int64_t d, int64_t rows,
                             int64_t heads, int64_t batches) {
    return s->permuted ? permuted(t, d, rows, heads, batches)
                       : tensor_contiguous(t, (const int64_t[4]){d, rows, heads, batches});
}

// Blocks of ggml: 32 numbers behind a scale of f16.
enum { BLOCK = 32 };

static int64_t block_bytes(int bits) {
    return 2 + BLOCK * bits / 8;
}

static struct tensor shared(const struct shape * s, int bits, int64_t d) {
    int64_t n = bits ? d / BLOCK * block_bytes(bits) / 4 : d;
    return operand(s, bits ? DTYPE_I32 : s->type, n, s->keys, s->kv_heads, s->kv_batches);
}

static struct kernel_spec spec_of(const struct shape * s) {
    struct kernel_spec spec = {
        .op = KERNEL_OP_FLASH_ATTN_EXT, .arch = rig_arch, .columns = rig_columns, .n_inputs = 3};
    const float args[] = {1 / sqrtf((float) s->dk), s->max_bias, s->cap};
    spec.inputs[AT_Q] = operand(s, DTYPE_F32, s->dk, s->queries, s->heads, s->batches);
    spec.inputs[AT_K] = shared(s, k_bits, s->dk);
    spec.inputs[AT_V] = shared(s, v_bits, s->dv);
    if (s->mask || s->sinks) {
        spec.inputs[AT_MASK] = tensor_contiguous(
            DTYPE_F16, (const int64_t[4]){s->mask ? (s->keys + 1) / 2 * 2 : 0, s->queries,
                                          head_masks ? s->heads : 1, s->batches});
        spec.n_inputs = 4;
    }
    if (s->sinks) {
        spec.inputs[AT_SINKS] = tensor_contiguous(DTYPE_F32, (const int64_t[4]){s->heads, 1, 1, 1});
        spec.n_inputs = 5;
    }
    int64_t words = s->dv + (parts ? AT_PART_WORDS : 0);
    spec.output =
        tensor_contiguous(DTYPE_F32, (const int64_t[4]){words, s->heads, s->queries, s->batches});
    memcpy(spec.params, args, sizeof args);
    return spec;
}

static double get(const struct rig * r, const struct kernel_spec * spec, int o, int64_t i0,
                  int64_t i1, int64_t i2, int64_t i3) {
    const struct tensor * t = rig_tensor(spec, o);
    const uint8_t * at = r->data[o] + i0 * t->nb[0] + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3];
    return ref_widen(ref_get(t->dtype, at, 0), ref_float[t->dtype].mantissa,
                     ref_float[t->dtype].exponent);
}

static double widen(enum dtype t, const uint8_t * at) {
    return ref_widen(ref_get(t, at, 0), ref_float[t].mantissa, ref_float[t].exponent);
}

// Of keys or values that may be quantized.
static double get_shared(const struct rig * r, const struct kernel_spec * spec, int o, int bits,
                         int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    if (!bits) {
        return get(r, spec, o, i0, i1, i2, i3);
    }
    const struct tensor * t = rig_tensor(spec, o);
    const uint8_t * block =
        r->data[o] + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3] + i0 / BLOCK * block_bytes(bits);
    int64_t i = i0 % BLOCK;
    int q = bits == 8 ? (int8_t) block[2 + i]
                      : (i < BLOCK / 2 ? block[2 + i] & 15 : block[2 + i - BLOCK / 2] >> 4) - 8;
    return widen(DTYPE_F16, block) * q;
}

static double uniform(void) {
    return 2.0 * rand() / RAND_MAX - 1;
}

// All bytes are numbers; of the scales some are negative, zero, or denormal.
static void fill_blocks(uint8_t * data, int64_t blocks, int bits) {
    for (int64_t i = 0; i < blocks; i++, data += block_bytes(bits)) {
        double most = bits == 8 ? 127 : 8, d = uniform() / most * (rand() % 9 ? 1 : 1e-3);
        uint32_t scale = ref_pack(d, ref_float[DTYPE_F16].mantissa, ref_float[DTYPE_F16].exponent);
        memcpy(data, &scale, 2);
        for (int64_t b = 2; b < block_bytes(bits); b++) {
            data[b] = (uint8_t) (rand() >> 8);
        }
    }
}

static void fill(struct rig * r, const struct kernel_spec * spec) {
    for (int o = 0; o < spec->n_inputs; o++) {
        const struct tensor * t = &spec->inputs[o];
        int bits = o == AT_K ? k_bits : o == AT_V ? v_bits : 0;
        if (bits) {
            fill_blocks(r->data[o], tensor_elements(t) * 4 / block_bytes(bits), bits);
            continue;
        }
        for (int64_t i = 0; i < tensor_elements(t); i++) {
            int64_t index = i, at = 0;
            for (int d = 0; d < 4; d++) {
                at += index % t->ne[d] * t->nb[d];
                index /= t->ne[d];
            }
            double v = o == AT_Q ? 3 * uniform() : o == AT_SINKS ? 5 * uniform() : uniform();
            if (o == AT_K && rise != 0) {
                v *= rise * (double) (i / t->ne[0] % t->ne[1]) / (double) t->ne[1];
            }
            if (o == AT_MASK) { // also whole rows of nothing
                bool none = rand() % 3 == 0 || i / t->ne[0] % 7 == 3;
                v = none ? -INFINITY : 2 * uniform();
            }
            uint32_t bits_ =
                ref_pack(v, ref_float[t->dtype].mantissa, ref_float[t->dtype].exponent);
            memcpy(r->data[o] + at, &bits_, (size_t) dtype_size(t->dtype));
        }
    }
}

// ---- the reference ----

static double slope_of(const struct shape * s, int64_t head) {
    if (s->max_bias <= 0) {
        return 1;
    }
    double whole = pow(2, floor(log2((double) s->heads)));
    return (double) head < whole
               ? pow(2, -(double) s->max_bias / whole * (double) (head + 1))
               : pow(2, -(double) s->max_bias / 2 / whole * (2 * ((double) head - whole) + 1));
}

// What a part ends with: the largest score in all lanes, and a sum of exponentials in each.
static void check_end(const struct rig * r, const struct kernel_spec * spec, const int64_t at[4],
                      double most, double sum) {
    double m = get(r, spec, spec->n_inputs, at[0], at[1], at[2], at[3]), all = 0;
    for (int64_t i = 0; i < AT_LANES; i++) {
        all += get(r, spec, spec->n_inputs, at[0] + AT_LANES + i, at[1], at[2], at[3]);
    }
    if (sum == 0) {
        assert_true(all == 0);
        return;
    }
    double error = (m + log(all)) - (most + log(sum));
    if (!(fabs(error) < 0.02)) {
        fail_msg("the sum of a row is %g, of a largest score %g, instead of %g of %g", all, m, sum,
                 most);
    }
}

// The squares of the errors and of the results, of one row.
static void check_row(const struct rig * r, const struct kernel_spec * spec, const struct shape * s,
                      int64_t query, int64_t head, int64_t batch, double squares[2]) {
    int64_t kv_head = head / (s->heads / s->kv_heads),
            kv_batch = batch / (s->batches / s->kv_batches);
    double *score = malloc((size_t) s->keys * sizeof *score), most = -INFINITY, sum = 0;
    float args[3];
    memcpy(args, spec->params, sizeof args);
    for (int64_t key = 0; key < s->keys; key++) {
        double dot = 0;
        for (int64_t d = 0; d < s->dk; d++) {
            dot += get(r, spec, AT_Q, d, query, head, batch) *
                   get_shared(r, spec, AT_K, k_bits, d, key, kv_head, kv_batch);
        }
        dot *= (double) args[0];
        if (s->cap != 0) {
            dot = (double) s->cap * tanh(dot / (double) s->cap);
        }
        if (s->mask) {
            dot +=
                slope_of(s, head) * get(r, spec, AT_MASK, key, query, head_masks ? head : 0, batch);
        }
        score[key] = dot;
        most = dot > most ? dot : most;
    }
    double sink = s->sinks ? get(r, spec, AT_SINKS, head, 0, 0, 0) : -INFINITY;
    most = sink > most ? sink : most;
    for (int64_t key = 0; key < s->keys; key++) {
        score[key] = isinf(score[key]) ? 0 : exp(score[key] - most);
        sum += score[key];
    }
    sum += isinf(sink) ? 0 : exp(sink - most);
    if (parts) {
        check_end(r, spec, (const int64_t[]){s->dv, head, query, batch}, most, sum);
    }
    for (int64_t d = 0; d < s->dv; d++) {
        double want = 0;
        for (int64_t key = 0; key < s->keys; key++) {
            want += score[key] == 0
                        ? 0
                        : score[key] * get_shared(r, spec, AT_V, v_bits, d, key, kv_head, kv_batch);
        }
        want = sum == 0 ? 0 : want / sum;
        double got = get(r, spec, spec->n_inputs, d, head, query, batch);
        if (!(fabs(got - want) < 0.1)) {
            fail_msg("query %lld, head %lld, batch %lld, element %lld: %g instead of %g",
                     (long long) query, (long long) head, (long long) batch, (long long) d, got,
                     want);
        }
        squares[0] += (got - want) * (got - want);
        squares[1] += want * want;
    }
    free(score);
}

static const char * name_of(const struct shape * s) {
    return k_bits == 8 ? "q8_0" : k_bits == 4 ? "q4_0" : dtype_name(s->type);
}

static void check_shape(const struct shape * s) {
    struct rig r;
    struct error err = {0};
    struct kernel_code code;
    struct kernel_spec spec = spec_of(s);
    enum status st = rig_compile(&spec, &code, &err);
    if (st != ST_OK) {
        fail_msg("%s", err.text);
    }
    rig_open(&r);
    rig_allocate(&r, &spec);
    struct emu_counters counters;
    for (int run = 0; run < (RIG_EVERY > 1 ? 1 : 2); run++) {
        double squares[2] = {0, 0};
        fill(&r, &spec);
        memset(r.data[spec.n_inputs], 0xa5, (size_t) tensor_bytes(&spec.output));
        rig_run(&r, &spec, &code);
        int64_t rows = s->queries * s->heads * s->batches, step = rows / 64 + 1;
        for (int64_t i = 0; i < rows; i += step) {
            check_row(&r, &spec, s, i / s->heads % s->queries, i % s->heads,
                      i / s->heads / s->queries, squares);
        }
        // Of larger scores bf16 loses more.
        if (squares[0] > (rise != 0 ? 1e-4 : 5e-5) * squares[1]) {
            fail_msg("%lld x %lld of %lld, %lld queries, %lld keys: NMSE %g", (long long) s->heads,
                     (long long) s->kv_heads, (long long) s->dk, (long long) s->queries,
                     (long long) s->keys, squares[0] / squares[1]);
        }
        emu_machine_counters(r.machine, &counters);
        print_message("%lld/%lld heads of %lld, %lld queries, %lld keys, %s: NMSE %.2g, %llu "
                      "cycles, of %llu\n",
                      (long long) s->heads, (long long) s->kv_heads, (long long) s->dk,
                      (long long) s->queries, (long long) s->keys, name_of(s),
                      squares[0] / squares[1], (unsigned long long) counters.last_cycles,
                      (unsigned long long) aie_cycles(&spec));
    }
    rig_free(&r);
    rig_close(&r);
    kernel_code_free(&code);
}

// Each of a table, or with a sanitizer every third: the subject is values.
static bool wanted(size_t i) {
    return i % (RIG_EVERY > 1 ? 3 : 1) == 0;
}

static void check_shapes(const struct shape * shapes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (wanted(i)) {
            check_shape(&shapes[i]);
        }
    }
}

// ---- tests ----

static void test_plain(void ** state) {
    (void) state;
    static const struct shape shapes[] = {
        {64, 64, 1, 1, 1, 16, 1, 1, DTYPE_BF16, 0, 0, 0, 0, 0},
        {64, 64, 4, 1, 1, 128, 1, 1, DTYPE_F16, 0, 0, 0, 0, 0},
        {64, 64, 8, 2, 1, 300, 1, 1, DTYPE_F16, 0, 0, 0, 0, 1},
        {128, 128, 4, 4, 1, 113, 1, 1, DTYPE_F16, 0, 0, 0, 0, 0},
        {8, 8, 8, 4, 1, 31, 1, 1, DTYPE_F16, 0, 0, 0, 0, 1},
        {8, 8, 8, 4, 5, 257, 1, 1, DTYPE_BF16, 0, 0, 0, 0, 1},
    };
    check_shapes(shapes, sizeof shapes / sizeof shapes[0]);
}

static void test_masked(void ** state) {
    (void) state;
    static const struct shape shapes[] = {
        {64, 64, 4, 1, 1, 256, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1},
        {64, 64, 4, 2, 7, 130, 1, 1, DTYPE_F16, 1, 0, 0, 0, 0},
        {64, 64, 6, 3, 3, 200, 1, 1, DTYPE_F16, 1, 0, 8, 0, 0},
        {64, 64, 4, 1, 35, 112, 1, 1, DTYPE_BF16, 1, 1, 0, 0, 1},
        {40, 40, 4, 4, 3, 114, 1, 1, DTYPE_F16, 1, 1, 8, 10, 0},
        {72, 72, 4, 1, 3, 114, 1, 1, DTYPE_F16, 1, 0, 0, 10, 0},
        {80, 80, 16, 1, 2, 64, 1, 1, DTYPE_F16, 0, 1, 0, 0, 0},
        {128, 128, 8, 2, 3, 512, 2, 1, DTYPE_F16, 1, 0, 0, 0, 1},
        {256, 256, 2, 1, 2, 128, 1, 1, DTYPE_F16, 1, 0, 0, 30, 0},
        {192, 128, 4, 1, 2, 96, 1, 1, DTYPE_F16, 1, 0, 0, 0, 0},
        {576, 512, 4, 1, 1, 80, 1, 1, DTYPE_F16, 1, 0, 0, 0, 0},
        {576, 64, 1, 1, 1, 2100, 1, 1, DTYPE_BF16, 1, 0, 0, 0, 0},
        {64, 64, 80, 1, 1, 64, 3, 3, DTYPE_F16, 1, 0, 0, 0, 0},
    };
    check_shapes(shapes, sizeof shapes / sizeof shapes[0]);
}

static void test_two_items(void ** state) { // in a column
    (void) state;
    static const struct shape shapes[] = {
        {64, 64, 40, 10, 1, 300, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1},
        {32, 48, 9, 9, 1, 77, 1, 1, DTYPE_BF16, 0, 0, 0, 0, 0},
        {64, 64, 18, 9, 3, 258, 2, 1, DTYPE_F16, 1, 0, 8, 0, 1},
        {128, 128, 12, 12, 1, 31, 1, 1, DTYPE_F16, 1, 0, 0, 0, 0},
    };
    check_shapes(shapes, sizeof shapes / sizeof shapes[0]);
}

static void test_lone_cores(void ** state) { // among other programs, without a PDI of its own
    (void) state;
    static const struct {
        struct shape shape;
        enum { NO, YES } mixed;
    } cases[] = {
        {{64, 64, 32, 8, 1, 256, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, YES}, // blocks are alike
        {{64, 64, 10, 5, 1, 128, 1, 1, DTYPE_BF16, 0, 0, 0, 20, 1}, YES},
        {{64, 64, 28, 7, 1, 200, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, YES}, // the last is not
        {{64, 64, 14, 2, 1, 640, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, YES}, // seven heads in two items
        {{256, 256, 5, 1, 1, 300, 1, 1, DTYPE_F16, 1, 0, 0, 0, 0}, YES},
        {{64, 64, 8, 8, 1, 64, 1, 1, DTYPE_F16, 1, 1, 0, 0, 1}, YES}, // sinks
        {{64, 64, 16, 2, 2, 256, 1, 1, DTYPE_BF16, 0, 1, 0, 0, 1}, YES},
        {{64, 64, 40, 20, 1, 128, 1, 1, DTYPE_F16, 1, 1, 0, 0, 1}, YES}, // several items of a core
        {{64, 64, 8, 8, 1, 200, 1, 1, DTYPE_F16, 1, 1, 0, 0, 1}, NO},    // a last block unlike
        {{64, 64, 8, 8, 1, 64, 1, 1, DTYPE_F16, 1, 0, 8, 0, 1}, NO},     // slopes
        {{64, 64, 32, 8, 4, 130, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, YES},  // as many rows as fit
        {{64, 64, 24, 4, 7, 128, 2, 1, DTYPE_F16, 1, 0, 0, 0, 1}, YES},  // and more: several items
        {{64, 64, 32, 8, 17, 64, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, YES},  // a short prompt
        {{64, 64, 8, 2, 128, 64, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, NO},   // of a longer one
        // More blocks than a descriptor repeats, and twice as many; and a short one behind them.
        {{512, 512, 2, 1, 1, 1056, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, YES},
        {{512, 512, 2, 1, 1, 2048, 1, 1, DTYPE_BF16, 0, 0, 0, 0, 0}, YES},
        {{512, 512, 2, 1, 1, 1056, 1, 1, DTYPE_F16, 1, 1, 0, 0, 1}, NO},
        {{512, 512, 2, 1, 1, 1060, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, NO},
        {{512, 512, 2, 1, 1, 2064, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, NO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kernel_spec spec = spec_of(&cases[i].shape);
        char name[KERNEL_NAME_MAX];
        aie_program_name(&spec, name);
        assert_int_equal(strcmp(name, "decoder") == 0, cases[i].mixed);
        if (wanted(i)) {
            check_shape(&cases[i].shape);
        }
    }
}

static void test_matrix(void ** state) { // prompts, by units of 16 queries and blocks of 64 keys
    (void) state;
    static const struct {
        struct shape shape;
        enum { LANES, MATRIX, HALVES } way;
    } cases[] = {
        {{64, 64, 4, 1, 64, 64, 1, 1, DTYPE_BF16, 0, 0, 0, 0, 0}, MATRIX},
        {{64, 64, 8, 2, 96, 192, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, MATRIX},
        {{64, 64, 8, 8, 77, 128, 1, 1, DTYPE_BF16, 0, 0, 0, 0, 1}, MATRIX}, // one unit of a core
        {{64, 64, 14, 2, 50, 136, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, MATRIX}, // seven
        {{64, 64, 6, 2, 61, 101, 2, 1, DTYPE_BF16, 0, 0, 0, 0, 0}, MATRIX}, // cores without any
        {{64, 64, 10, 1, 49, 97, 1, 1, DTYPE_F16, 0, 0, 0, 0, 1}, MATRIX},  // eight heads of ten
        {{64, 64, 4, 2, 130, 200, 2, 2, DTYPE_BF16, 1, 0, 0, 0, 0}, MATRIX},
        // K and V of several heads of a column: twice in a memtile, once, and passing through it.
        {{64, 64, 6, 6, 80, 128, 1, 1, DTYPE_F16, 1, 0, 0, 0, 0}, MATRIX},
        {{64, 64, 5, 5, 64, 1088, 1, 1, DTYPE_BF16, 1, 0, 0, 0, 0}, MATRIX},
        {{64, 64, 1, 1, 160, 2048, 1, 1, DTYPE_F16, 0, 0, 0, 0, 0}, MATRIX},
        {{64, 64, 1, 1, 130, 2000, 1, 1, DTYPE_BF16, 1, 0, 0, 0, 0}, MATRIX},
        // Heads of 128, in two halves: even blocks, a short one behind others and alone, cores
        // without rows, a unit a core, several items; twice in a memtile, once, passing through it.
        {{128, 128, 8, 2, 96, 192, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, HALVES},
        {{128, 128, 8, 2, 77, 136, 1, 1, DTYPE_BF16, 1, 0, 0, 0, 1}, HALVES},
        {{128, 128, 16, 4, 128, 56, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, HALVES},
        {{128, 128, 6, 2, 61, 101, 2, 1, DTYPE_BF16, 0, 0, 0, 0, 0}, HALVES},
        {{128, 128, 8, 8, 64, 128, 1, 1, DTYPE_F16, 0, 0, 0, 0, 0}, HALVES},
        {{128, 128, 14, 2, 50, 136, 2, 2, DTYPE_F16, 1, 0, 0, 0, 1}, HALVES},
        {{128, 128, 6, 6, 80, 512, 1, 1, DTYPE_BF16, 1, 0, 0, 0, 0}, HALVES},
        {{128, 128, 4, 1, 130, 1000, 1, 1, DTYPE_F16, 1, 0, 0, 0, 0}, HALVES},
        {{128, 64, 4, 1, 64, 64, 1, 1, DTYPE_BF16, 0, 0, 0, 0, 0}, LANES},
        {{64, 64, 4, 1, 64, 130, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, LANES}, // not by eight keys
        {{64, 64, 4, 1, 64, 64, 1, 1, DTYPE_BF16, 1, 1, 0, 0, 1}, LANES}, // sinks
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kernel_spec spec = spec_of(&cases[i].shape);
        char name[KERNEL_NAME_MAX];
        aie_program_name(&spec, name);
        if (rig_arch == AIE_ARCH_AIE2) {
            const char * const ways[] = {"attention", "attention_matrix", "attention_halves"};
            assert_string_equal(name, ways[cases[i].way]);
        }
        if (wanted(i)) {
            check_shape(&cases[i].shape);
        }
    }
    rise = 8; // what was summed up has to be made smaller
    check_shape(&cases[1].shape);
    check_shape(&(struct shape){128, 128, 8, 2, 96, 192, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1});
    rise = 0;
}

static void test_quantized(void ** state) {
    (void) state;
    static const struct {
        struct shape shape;
        int k_bits, v_bits;
    } cases[] = {
        {{64, 64, 1, 1, 1, 16, 1, 1, DTYPE_F16, 0, 0, 0, 0, 0}, 8, 0},
        {{64, 64, 1, 1, 1, 16, 1, 1, DTYPE_BF16, 0, 0, 0, 0, 0}, 0, 8},
        {{64, 64, 1, 1, 1, 16, 1, 1, DTYPE_F16, 0, 0, 0, 0, 0}, 4, 0},
        {{64, 64, 1, 1, 1, 16, 1, 1, DTYPE_F16, 0, 0, 0, 0, 0}, 0, 4},
        {{64, 64, 8, 2, 3, 113, 1, 1, DTYPE_F16, 1, 1, 8, 10, 0}, 8, 8},
        {{128, 64, 8, 2, 1, 300, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, 4, 8},
        {{64, 64, 40, 10, 1, 300, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, 4, 4}, // two items in a column
        {{64, 64, 32, 8, 1, 256, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, 8, 8},  // among other programs
        {{576, 512, 4, 1, 1, 80, 1, 1, DTYPE_F16, 1, 0, 0, 0, 0}, 8, 8},
        {{256, 256, 2, 1, 2, 100, 1, 1, DTYPE_F16, 1, 0, 0, 0, 0}, 4, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        k_bits = cases[i].k_bits;
        v_bits = cases[i].v_bits;
        if (wanted(i)) {
            check_shape(&cases[i].shape);
        }
    }
    k_bits = v_bits = 0;
}

static void test_head_masks(void ** state) {
    (void) state;
    static const struct shape shapes[] = {
        {64, 64, 4, 1, 1, 256, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1},
        {64, 64, 6, 3, 5, 130, 2, 1, DTYPE_BF16, 1, 1, 8, 0, 0},
        {64, 64, 32, 8, 1, 200, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, // among other programs
        {64, 64, 80, 1, 1, 64, 1, 1, DTYPE_F16, 1, 0, 0, 0, 0},  // more heads than an item has
    };
    head_masks = true;
    check_shapes(shapes, sizeof shapes / sizeof shapes[0]);
    head_masks = false;
}

static void test_parts(void ** state) { // whose rows end with what puts them together
    (void) state;
    static const struct shape shapes[] = {
        {64, 64, 4, 1, 1, 256, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1},
        {64, 64, 40, 10, 1, 300, 1, 1, DTYPE_F16, 1, 0, 0, 0, 1}, // two items in a column
        {64, 64, 4, 2, 7, 130, 2, 1, DTYPE_F16, 1, 1, 8, 0, 0},
        {192, 128, 4, 1, 2, 96, 1, 1, DTYPE_F16, 1, 0, 0, 30, 0},
        {64, 64, 6, 1, 9, 2100, 1, 1, DTYPE_BF16, 0, 0, 0, 0, 0},
        {576, 64, 1, 1, 1, 2100, 1, 1, DTYPE_BF16, 1, 0, 0, 0, 0}, // the mask of two blocks at once
    };
    parts = true;
    check_shapes(shapes, sizeof shapes / sizeof shapes[0]);
    k_bits = v_bits = 8;
    check_shape(&shapes[0]);
    k_bits = v_bits = 0;
    parts = false;
}

static void test_columns(void ** state) { // an array with fewer of them
    (void) state;
    for (rig_columns = 1; rig_columns < 3; rig_columns++) {
        check_shape(&(struct shape){32, 32, 6, 3, 2, 50, 1, 1, DTYPE_F16, 1, 0, 0, 0, 0});
    }
    rig_columns = 0;
}

// One shape by hand: DK,DV,HEADS,KV_HEADS,QUERIES,KEYS,TYPE[,mask]
static struct shape by_hand;

static void test_by_hand(void ** state) {
    (void) state;
    check_shape(&by_hand);
}

static bool read_shape(const char * text) {
    int64_t * const to[] = {&by_hand.dk,       &by_hand.dv,      &by_hand.heads,
                            &by_hand.kv_heads, &by_hand.queries, &by_hand.keys};
    char type[8] = "";
    for (size_t i = 0; i < sizeof to / sizeof to[0]; i++) {
        char * end;
        *to[i] = strtoll(text, &end, 10);
        if (*end != ',') {
            return false;
        }
        text = end + 1;
    }
    size_t n = strcspn(text, ",");
    memcpy(type, text, n < sizeof type ? n : 0);
    by_hand.batches = by_hand.kv_batches = 1;
    by_hand.permuted = true;
    by_hand.mask = !strcmp(text + n, ",mask");
    k_bits = v_bits = !strcmp(type, "q8_0") ? 8 : !strcmp(type, "q4_0") ? 4 : 0;
    return k_bits || dtype_parse(type, &by_hand.type);
}

int main(int argc, char ** argv) {
    bool one = argc > 1 && strchr(argv[1], ',');
    if (one && !read_shape(argv[1])) {
        fprintf(stderr, "%s: a shape is DK,DV,HEADS,KV_HEADS,QUERIES,KEYS,TYPE[,mask]\n", argv[0]);
        return 2;
    }
    rig_arguments(argc, argv, one ? 2 : 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),     cmocka_unit_test(test_masked),
        cmocka_unit_test(test_two_items), cmocka_unit_test(test_lone_cores),
        cmocka_unit_test(test_columns),   cmocka_unit_test(test_quantized),
        cmocka_unit_test(test_matrix),    cmocka_unit_test(test_head_masks),
        cmocka_unit_test(test_parts),
    };
    const struct CMUnitTest shapes[] = {cmocka_unit_test(test_by_hand)};
    return one ? cmocka_run_group_tests(shapes, NULL, NULL)
               : cmocka_run_group_tests(tests, NULL, NULL);
}

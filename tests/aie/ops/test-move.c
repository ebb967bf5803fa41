// Moves: copies, repetitions and casts of tensors that lie in all kinds of ways, bit by bit, and
// what ROPE is made of, pairs that are turned, against double precision. What lies between the rows
// of an output must stay as it was, and everything runs twice, with other data.
#include "kernel-rig.h"
#include "reference.h"

#include "aie/plan/plan.h"

static int64_t offset_of(const struct tensor * t, int64_t index, const struct tensor * shape) {
    int64_t at = 0;
    for (int d = 0; d < TENSOR_DIMS; d++) {
        at += index % shape->ne[d] % t->ne[d] * t->nb[d];
        index /= shape->ne[d];
    }
    return at;
}

static double widen(enum dtype t, uint32_t v) {
    return ref_widen(v, ref_float[t].mantissa, ref_float[t].exponent);
}

// ---- moves ----

// Any bits for a copy; for a cast numbers of all sizes, and what is none.
static void fill(struct rig * r, const struct kernel_spec * spec) {
    const struct tensor * t = &spec->inputs[0];
    static const double odd[] = {0, -0.0, INFINITY, -INFINITY, NAN, 65504, 65519.99, 65520, 1e-5};
    for (size_t i = 0, n = (size_t) tensor_bytes(t); i < n; i++) {
        r->data[0][i] = (uint8_t) rand();
    }
    for (int64_t i = 0; i < tensor_elements(t) && spec->op != KERNEL_OP_COPY; i++) {
        double v = (rand() % 2 ? 1 : -1) * ldexp(1 + rand() / (double) RAND_MAX, rand() % 45 - 28);
        v = rand() % 16 ? v : odd[rand() % (int) (sizeof odd / sizeof odd[0])];
        uint32_t packed = ref_pack(v, ref_float[t->dtype].mantissa, ref_float[t->dtype].exponent);
        memcpy(r->data[0] + offset_of(t, i, t), &packed, (size_t) dtype_size(t->dtype));
    }
}

static void check_move(const struct rig * r, const struct kernel_spec * spec, int64_t i) {
    const struct tensor *in = &spec->inputs[0], *out = &spec->output;
    uint32_t a = ref_get(in->dtype, r->data[0] + offset_of(in, i, out), 0);
    uint32_t got = ref_get(out->dtype, r->data[1] + offset_of(out, i, out), 0), want = a;
    if (spec->op != KERNEL_OP_COPY) {
        want = ref_pack(widen(in->dtype, a), ref_float[out->dtype].mantissa,
                        ref_float[out->dtype].exponent);
        if (ref_is_nan(out->dtype, want) && ref_is_nan(out->dtype, got)) {
            return;
        }
    }
    if (got != want) {
        fail_msg("%s, element %lld of %lldx%lldx%lldx%lld: %08x becomes %08x instead of %08x",
                 kernel_op_name(spec->op), (long long) i, (long long) out->ne[0],
                 (long long) out->ne[1], (long long) out->ne[2], (long long) out->ne[3], a, got,
                 want);
    }
}

// ---- pairs ----

static void fill_pairs(struct rig * r, const struct kernel_spec * spec) {
    for (int o = 0; o < 2; o++) {
        const struct tensor * t = &spec->inputs[o];
        for (int64_t i = 0; i < tensor_elements(t); i++) {
            double angle = rand() % 100000 / 7.0;
            double v = o == 0 ? ldexp(rand() / (double) RAND_MAX - 0.5, rand() % 20 - 10)
                              : (i % 2 ? sin(angle) : cos(angle)) * 1.25;
            float f = (float) v;
            memcpy(r->data[o] + offset_of(t, i, t), &f, 4);
        }
    }
}

static double number(const struct rig * r, const struct kernel_spec * spec, int o, int64_t i) {
    const struct tensor * t = o < 2 ? &spec->inputs[o] : &spec->output;
    float f;
    memcpy(&f, r->data[o] + offset_of(t, i, &spec->output), 4);
    return f;
}

static void check_pair(const struct rig * r, const struct kernel_spec * spec, int64_t i) {
    bool second = i % 2;
    double x = number(r, spec, 0, i), partner = number(r, spec, 0, i ^ 1);
    double c = number(r, spec, 1, i & ~(int64_t) 1), s = number(r, spec, 1, i | 1);
    double want = x * c + (second ? partner * s : -partner * s), got = number(r, spec, 2, i);
    double bound = (fabs(x * c) + fabs(partner * s)) * 0x1p-22 + 1e-37;
    if (!(fabs(got - want) <= bound)) {
        fail_msg("element %lld: %.9g instead of %.9g", (long long) i, got, want);
    }
}

// ---- one kernel ----

static void run_case(struct rig * r, const struct kernel_spec * spec) {
    bool pairs = spec->op == KERNEL_OP_ROTATE;
    struct kernel_code code;
    struct error err = {0};
    if (rig_compile(spec, &code, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    rig_allocate(r, spec);
    const struct tensor * out = &spec->output;
    uint8_t * touched = calloc((size_t) tensor_bytes(out), 1);
    for (int round = 0; round < 2; round++) {
        (pairs ? fill_pairs : fill)(r, spec);
        rig_run(r, spec, &code);
        for (int64_t i = 0; i < tensor_elements(out); i++) {
            (pairs ? check_pair : check_move)(r, spec, i);
            memset(touched + offset_of(out, i, out), 1, (size_t) dtype_size(out->dtype));
        }
    }
    for (int64_t i = 0; i < tensor_bytes(out); i++) {
        assert_true(touched[i] || r->data[spec->n_inputs][i] == 0xa5);
    }
    free(touched);
    rig_free(r);
    kernel_code_free(&code);
}

static struct kernel_spec move(enum kernel_op op, struct tensor in, struct tensor out) {
    return (struct kernel_spec){
        .op = op, .arch = rig_arch, .n_inputs = 1, .inputs = {in}, .output = out};
}

// Packed, but with so many bytes between rows, and dimensions in another order.
static struct tensor laid_out(enum dtype t, const int64_t ne[4], int64_t gap, const int order[4]) {
    struct tensor out = tensor_contiguous(t, ne);
    int64_t at = dtype_size(t);
    for (int i = 0; i < 4; i++) {
        out.nb[order[i]] = at;
        at *= ne[order[i]];
        at += i == 0 ? gap : 0;
    }
    return out;
}

static const int64_t shapes[][4] = {
    {64, 1, 1, 1},  {2, 1, 1, 1},     {100003, 1, 1, 1}, {48, 9, 5, 3}, {130, 7, 1, 1},
    {36, 16, 3, 2}, {4096, 33, 1, 1}, {8, 1031, 2, 1},   {1, 70, 3, 1}, {6, 2, 1, 5},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };
static const int straight[4] = {0, 1, 2, 3}, exchanged[4] = {0, 2, 1, 3}, across[4] = {1, 0, 2, 3};

// What the plan refuses the backend leaves to the host; how much that is, is said. Every other one
// is told its place.
static void run_supported(struct rig * r, const struct kernel_spec * given, int * n,
                          int * refused) {
    struct kernel_spec spec = *given;
    spec.params[0] = *n % 2 ? KERNEL_ON_LAYER : KERNEL_BEST_ALONE;
    if (aie_supports(&spec, NULL) == ST_OK) {
        run_case(r, &spec);
        ++*n;
    } else {
        ++*refused;
    }
}

static void copies(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    srand(31);
    int n = 0, refused = 0;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_I8};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (int i = (int) t % RIG_EVERY; i < N_SHAPES; i += RIG_EVERY) {
            const struct tensor plain = tensor_contiguous(types[t], shapes[i]);
            const struct tensor kinds[] = {plain, laid_out(types[t], shapes[i], 12, straight),
                                           laid_out(types[t], shapes[i], 0, exchanged),
                                           laid_out(types[t], shapes[i], 0, across)};
            for (int k = 0; k < 4; k++) {
                struct kernel_spec in = move(KERNEL_OP_COPY, kinds[k], plain);
                struct kernel_spec out = move(KERNEL_OP_COPY, plain, kinds[k]);
                run_supported(&r, &in, &n, &refused);
                run_supported(&r, &out, &n, &refused);
            }
        }
    }
    print_message("%d copies, %d refused\n", n, refused);
    assert_true(RIG_EVERY * n >= 130);
    rig_close(&r);
}

static void repetitions(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    srand(32);
    static const int64_t cases[][2][4] = {
        {{64, 1, 1, 1}, {64, 5, 3, 1}},    {{64, 2, 1, 1}, {64, 6, 1, 2}},
        {{10, 5, 4, 3}, {10, 5, 4, 6}},    {{10, 5, 4, 3}, {20, 5, 4, 3}},
        {{8, 1, 4, 1}, {8, 32, 4, 2}},     {{2, 1, 1, 1}, {2, 700, 1, 1}},
        {{128, 3, 1, 1}, {128, 3, 16, 2}},
    };
    int n = 0, refused = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int t = 0; t < 2; t++) {
            enum dtype type = t ? DTYPE_BF16 : DTYPE_F32;
            struct kernel_spec s = move(KERNEL_OP_COPY, tensor_contiguous(type, cases[i][0]),
                                        tensor_contiguous(type, cases[i][1]));
            run_supported(&r, &s, &n, &refused);
        }
    }
    print_message("%d repetitions, %d refused\n", n, refused);
    assert_true(n >= 12);
    rig_close(&r);
}

static void casts(void ** state) {
    (void) state;
    static const struct {
        enum kernel_op op;
        enum dtype from, to;
    } ops[] = {{KERNEL_OP_TO_F16, DTYPE_F32, DTYPE_F16},
               {KERNEL_OP_TO_BF16, DTYPE_F32, DTYPE_BF16},
               {KERNEL_OP_FROM_F16, DTYPE_F16, DTYPE_F32},
               {KERNEL_OP_FROM_BF16, DTYPE_BF16, DTYPE_F32}};
    struct rig r;
    rig_open(&r);
    srand(33);
    int n = 0, refused = 0;
    for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++) {
        for (int i = (int) o % RIG_EVERY; i < N_SHAPES; i += RIG_EVERY) {
            struct tensor out = tensor_contiguous(ops[o].to, shapes[i]);
            const struct tensor kinds[] = {tensor_contiguous(ops[o].from, shapes[i]),
                                           laid_out(ops[o].from, shapes[i], 4, straight),
                                           laid_out(ops[o].from, shapes[i], 0, exchanged),
                                           laid_out(ops[o].from, shapes[i], 0, across)};
            for (int k = 0; k < 4; k++) {
                struct kernel_spec s = move(ops[o].op, kinds[k], out);
                run_supported(&r, &s, &n, &refused);
            }
        }
    }
    print_message("%d casts, %d refused\n", n, refused);
    assert_true(RIG_EVERY * n >= 90);
    rig_close(&r);
}

// a [half rows of two that lie apart, or pairs | tokens | heads], an angle for each pair and token.
static void pairs(void ** state) {
    (void) state;
    static const struct {
        int64_t dims, row, tokens, heads;
    } cases[] = {{128, 128, 1, 32}, {64, 64, 2, 71}, {20, 80, 2, 32},  {2, 2, 1, 1},
                 {10, 12, 3, 5},    {36, 36, 57, 4}, {16, 16, 517, 2}, {256, 512, 5, 8}};
    struct rig r;
    rig_open(&r);
    srand(34);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int apart = 0; apart < 2; apart++) {
            int64_t dims = cases[i].dims, row = cases[i].row, tokens = cases[i].tokens;
            int64_t heads = cases[i].heads, half = dims / 2;
            struct tensor x = {.dtype = DTYPE_F32};
            struct tensor angles = {.dtype = DTYPE_F32};
            if (apart) {
                x = (struct tensor){
                    DTYPE_F32, {2, half, tokens, heads}, {4 * half, 4, 4 * row * heads, 4 * row}};
                angles = tensor_contiguous(DTYPE_F32, (const int64_t[4]){2, half, tokens, 1});
            } else {
                x = (struct tensor){DTYPE_F32,
                                    {dims, tokens, heads, 1},
                                    {4, 4 * row * heads, 4 * row, 4 * row * heads * tokens}};
                angles = tensor_contiguous(DTYPE_F32, (const int64_t[4]){dims, tokens, 1, 1});
            }
            struct kernel_spec s = {.op = KERNEL_OP_ROTATE,
                                    .arch = rig_arch,
                                    .n_inputs = 2,
                                    .inputs = {x, angles},
                                    .output = x,
                                    .params[0] = (i + (size_t) apart) % KERNEL_PLACES};
            run_case(&r, &s);
        }
    }
    rig_close(&r);
}

// By itself each of these is the decoder's. There are no other places than the two.
static void places(void ** state) {
    (void) state;
    static const struct {
        enum kernel_op op;
        enum dtype to;
        int inputs;
    } ops[] = {{KERNEL_OP_COPY, DTYPE_F32, 1},
               {KERNEL_OP_TO_F16, DTYPE_F16, 1},
               {KERNEL_OP_ROTATE, DTYPE_F32, 2}};
    static const int programs[KERNEL_PLACES] = {AIE_PROGRAM_DECODER, AIE_PROGRAM_LAYER_F32};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        struct tensor x = tensor_contiguous(DTYPE_F32, shapes[0]);
        struct kernel_spec s = {.op = ops[i].op,
                                .arch = rig_arch,
                                .n_inputs = ops[i].inputs,
                                .inputs = {x, x},
                                .output = tensor_contiguous(ops[i].to, shapes[0])};
        for (s.params[0] = 0; s.params[0] < KERNEL_PLACES; s.params[0]++) {
            struct aie_plan plan;
            assert_int_equal(aie_plan(&s, &plan, NULL), ST_OK);
            assert_ptr_equal(plan.program, &aie_programs[programs[s.params[0]]]);
        }
        assert_int_equal(aie_supports(&s, NULL), ST_INVALID);
    }
}

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies), cmocka_unit_test(repetitions), cmocka_unit_test(casts),
        cmocka_unit_test(pairs),  cmocka_unit_test(places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

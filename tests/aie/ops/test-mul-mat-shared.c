// MUL_MAT of block floats, numbers that share an exponent by eights, where a chip has them: both
// operands of bf16, the first one stored so, and one that the cores make of q4_0. Sums are those of
// the numbers as they are rounded, and these as near to the product as ggml asks.
#include "mul-mat-rig.h"

static struct kernel_spec spec_of_shared(const struct shape * s) {
    struct kernel_spec spec = spec_of(DTYPE_BF16, s);
    spec.op = KERNEL_OP_MUL_MAT_SHARED;
    return spec;
}

// The same with the first operand stored as block floats: m in eights, k in whole slices.
static struct kernel_spec spec_of_stored(const struct shape * s) {
    struct kernel_spec spec = spec_of_shared(s);
    const struct tensor * a = &spec.inputs[0];
    spec.inputs[0] = tensor_contiguous(
        DTYPE_I8, (const int64_t[4]){shared_row_bytes(s->k), s->m, a->ne[2], a->ne[3]});
    return spec;
}

// Weights in panels, from row behind row.
static void lay_out(uint8_t * data, const struct kernel_spec * spec, const uint8_t * rows) {
    const struct kernel_panel panel = kernel_panel_of(spec);
    const size_t bytes = (size_t) tensor_bytes(&spec->inputs[0]);
    for (size_t done = 0, n; done < bytes; done += n) {
        n = bytes - done;
        size_t at = kernel_panel_at(&panel, (size_t) spec->inputs[0].nb[1], done, &n);
        memcpy(data + at, rows + done, n);
    }
}

// Pairs of q4_0 that the cores make block floats.
static void run_made(struct rig * r, const struct shape * s, int rows, int slices) {
    struct kernel_spec spec = spec_of_blocks(KERNEL_Q4_0, DTYPE_BF16, s);
    struct kernel_code code;
    struct error err = {0};
    spec.params[0] =
        kernel_shared_param(KERNEL_Q4_0, kernel_panel(rig_arch, KERNEL_Q4_0, rows, 9 * slices));
    if (rig_compile(&spec, &code, &err) != ST_OK) {
        fail_msg("%dx%dx%d: %s", (int) s->m, (int) s->n, (int) s->k, err.text);
    }
    rig_allocate(r, &spec);
    const size_t bytes = (size_t) tensor_bytes(&spec.inputs[0]);
    uint8_t * plain = malloc(bytes);
    for (int i = 0; i < (RIG_EVERY > 1 ? 1 : 2); i++) {
        fill(r, &spec);
        memcpy(plain, r->data[0], bytes);
        lay_out(r->data[0], &spec, plain);
        rig_run(r, &spec, &code);
        memcpy(r->data[0], plain, bytes);
        check(r, &spec);
    }
    free(plain);
    rig_free(r);
    kernel_code_free(&code);
}

// As above: one tile and many, tiles of fewer rows, b held and brought again, batches; and what
// there is none of.
static void test_made(void ** state) {
    (void) state;
    static const struct {
        struct shape s;
        int rows, slices; // of a panel, of its chunk
    } some[] = {
        {{64, 64, 64, 1, 1, 1, 1, 0, 0, 0}, 16, 1},    {{16, 17, 192, 1, 1, 1, 1, 0, 0, 0}, 8, 1},
        {{1040, 24, 512, 1, 1, 1, 1, 0, 0, 0}, 16, 4}, {{264, 600, 320, 1, 1, 1, 1, 0, 8, 4}, 8, 1},
        {{48, 40, 128, 2, 1, 4, 2, 0, 0, 0}, 16, 2},   {{2048, 3, 256, 1, 1, 1, 1, 0, 0, 0}, 16, 4},
        {{1000, 20, 128, 1, 1, 1, 1, 0, 0, 0}, 4, 2},  {{24, 33, 64, 1, 1, 1, 1, 0, 0, 0}, 2, 1},
    };
    if (!aie_target(rig_arch)->mac_block.m) {
        struct kernel_spec spec = spec_of_blocks(KERNEL_Q4_0, DTYPE_BF16, &some[0].s);
        spec.params[0] =
            kernel_shared_param(KERNEL_Q4_0, kernel_panel(rig_arch, KERNEL_Q4_0, 16, 9));
        assert_int_equal(aie_supports(&spec, NULL), ST_UNSUPPORTED);
        return;
    }
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        const struct shape * s = &some[i].s;
        print_message("made block floats %dx%dx%d\n", (int) s->m, (int) s->n, (int) s->k);
        run_made(&r, s, some[i].rows, some[i].slices);
    }
    struct kernel_spec none[] = {spec_of_blocks(KERNEL_Q4_0, DTYPE_BF16, &some[0].s),
                                 spec_of_blocks(KERNEL_Q8_0, DTYPE_BF16, &some[0].s),
                                 spec_of_blocks(KERNEL_Q4_0, DTYPE_F32, &some[0].s)};
    none[0].params[0] = kernel_shared_param(KERNEL_Q4_0, (struct kernel_panel){0});
    none[1].params[0] =
        kernel_shared_param(KERNEL_Q8_0, kernel_panel(rig_arch, KERNEL_Q8_0, 16, 17));
    none[2].params[0] =
        kernel_shared_param(KERNEL_Q4_0, kernel_panel(rig_arch, KERNEL_Q4_0, 16, 9));
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_int_equal(aie_supports(&none[i], NULL), ST_UNSUPPORTED);
    }
    rig_close(&r);
}

// Block floats: what comes out is the product of the numbers that share exponents, up to the f32
// sums; and that is as near to the product as ggml asks (NMSE 5e-4), at numbers of four exponents.
static void test_shared(void ** state) {
    (void) state;
    static const struct shape some[] = {
        {64, 64, 64, 1, 1, 1, 1, 0, 0, 0},     {256, 256, 128, 1, 1, 1, 1, 0, 0, 0},
        {300, 1030, 264, 1, 1, 1, 1, 0, 0, 0}, {30, 600, 136, 1, 1, 4, 1, 4, 8, 12},
        {1, 17, 8, 1, 1, 1, 1, 0, 0, 0},       {100, 33, 104, 1, 1, 1, 1, 0, 0, 0},
        {20, 24, 11008, 1, 1, 1, 1, 0, 0, 0},  {48, 40, 72, 2, 1, 6, 2, 0, 0, 0},
        {50, 3, 64, 1, 2, 1, 2, 4, 100, 4},
    };
    if (!aie_target(rig_arch)->mac_block.m) {
        struct kernel_spec spec = spec_of_shared(&some[0]);
        assert_int_equal(aie_supports(&spec, NULL), ST_UNSUPPORTED);
        return;
    }
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        struct kernel_spec spec = spec_of_shared(&some[i]);
        print_message("block floats %dx%dx%d\n", (int) some[i].m, (int) some[i].n, (int) some[i].k);
        run_spec(&r, spec, &some[i]);
    }
    // stored: one tile and many, tiles that overlap, b held and brought again, an odd number of
    // slices, batches that share a, and rows of b apart
    static const struct shape kept[] = {
        {64, 64, 64, 1, 1, 1, 1, 0, 0, 0},    {8, 17, 192, 1, 1, 1, 1, 0, 0, 0},
        {1032, 24, 512, 1, 1, 1, 1, 0, 0, 0}, {264, 600, 320, 1, 1, 1, 1, 0, 8, 4},
        {48, 40, 128, 2, 1, 4, 2, 0, 0, 0},   {2056, 3, 256, 1, 1, 1, 1, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        struct kernel_spec stored = spec_of_stored(&kept[i]);
        print_message("stored block floats %dx%dx%d\n", (int) kept[i].m, (int) kept[i].n,
                      (int) kept[i].k);
        run_spec(&r, stored, &kept[i]);
    }
    // how far from bf16
    struct kernel_spec spec = spec_of(DTYPE_BF16, &some[1]);
    double off = 0, all = 0;
    rig_allocate(&r, &spec);
    fill(&r, &spec);
    for (int64_t i = 0; i < some[1].m * 16; i++) {
        const uint8_t *a = row_of(&r, &spec, 0, i / 16, 0, 0),
                      *b = row_of(&r, &spec, 1, i % 16, 0, 0);
        double exact = 0, sum = 0;
        for (int64_t k = 0; k < some[1].k; k++) {
            exact += float_value(DTYPE_BF16, a, k) * float_value(DTYPE_BF16, b, k);
            sum += shared_value(a, k) * shared_value(b, k);
        }
        off += (sum - exact) * (sum - exact);
        all += exact * exact;
    }
    print_message("block floats: NMSE %.2g\n", off / all);
    assert_true(off / all < 5e-4);
    rig_free(&r);
    rig_close(&r);
}

static void test_refusals(void ** state) {
    (void) state;
    const struct shape whole = {64, 64, 128, 1, 1, 1, 1, 0, 0, 0};
    struct kernel_spec spec = spec_of_stored(&whole);
    if (!aie_target(rig_arch)->mac_block.m) { // a target without block floats refuses all of them
        assert_int_equal(aie_supports(&spec, NULL), ST_UNSUPPORTED);
        return;
    }
    spec.inputs[0].ne[0] -= 4;
    refused_for(&spec, ST_UNSUPPORTED, "no block floats of 128");
    spec = spec_of_stored(&whole);
    spec.inputs[0].nb[1] += 4;
    refused_for(&spec, ST_UNSUPPORTED, "without gaps");
    spec = spec_of_stored(&(struct shape){60, 64, 128, 1, 1, 1, 1, 0, 0, 0});
    refused_for(&spec, ST_UNSUPPORTED, "60 rows");
    spec = spec_of_stored(&(struct shape){64, 64, 136, 1, 1, 1, 1, 0, 0, 0});
    refused_for(&spec, ST_UNSUPPORTED, "elements by 64");
}

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_made),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

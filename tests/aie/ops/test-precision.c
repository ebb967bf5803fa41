// The two precisions: an exact kernel is told from a fast one by its name, its program and its
// bytes, in configurations too; and where kernel_has_exact() says that one kernel does for both,
// everything is the same.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "aie/aie.h"
#include "kernel/config.h"

static struct kernel_spec spec_of(enum kernel_op op, enum dtype t, enum kernel_precision p) {
    const int64_t ne[4] = {64, 4, 1, 1};
    const float half = 0.5f;
    struct kernel_spec s = {
        .op = op, .arch = AIE_ARCH_AIE2, .precision = p, .n_inputs = kernel_op_info(op)->n_inputs};
    if (op == KERNEL_OP_SOFT_MAX) {
        s.n_inputs = 1;
    }
    for (int i = 0; i < s.n_inputs; i++) {
        s.inputs[i] = tensor_contiguous(t, ne);
    }
    for (int i = 0; i < kernel_op_info(op)->n_params; i++) {
        memcpy(&s.params[i], &half, 4);
    }
    s.output = tensor_contiguous(t, ne);
    return s;
}

static void one_program_or_two(void ** state) {
    (void) state;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_I16};
    int n_two = 0;
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            char names[2][KERNEL_NAME_MAX], programs[2][KERNEL_NAME_MAX];
            struct kernel_code code[2];
            struct error err = {0};
            struct kernel_spec spec = spec_of((enum kernel_op) op, types[t], KERNEL_FAST);
            if (aie_supports(&spec, &err) != ST_OK) {
                continue;
            }
            bool two = kernel_has_exact(&spec);
            n_two += two;
            for (int p = KERNEL_FAST; p <= KERNEL_EXACT; p++) {
                spec.precision = (enum kernel_precision) p;
                kernel_name(&spec, names[p]);
                aie_program_name(&spec, programs[p]);
                assert_int_equal(aie_compile(&spec, &code[p], &err), ST_OK);
            }
            bool same = code[0].pdi_size == code[1].pdi_size &&
                        !memcmp(code[0].pdi, code[1].pdi, code[0].pdi_size);
            if (same == two || !strcmp(names[0], names[1]) == two ||
                !strcmp(programs[0], programs[1]) == two) {
                fail_msg("%s: %s programs", names[0], same ? "equal" : "different");
            }
            kernel_code_free(&code[0]);
            kernel_code_free(&code[1]);
        }
    }
    assert_true(n_two > 20);
}

static void names(void ** state) {
    (void) state;
    char name[KERNEL_NAME_MAX];
    enum kernel_precision p;
    struct kernel_spec s = spec_of(KERNEL_OP_SILU, DTYPE_F32, KERNEL_EXACT);
    kernel_name(&s, name);
    assert_string_equal(name, "silu_f32_64x4x1x1_f32_64x4x1x1_exact");
    assert_true(kernel_precision_parse("fast", &p) && p == KERNEL_FAST);
    assert_true(kernel_precision_parse("exact", &p) && p == KERNEL_EXACT);
    assert_false(kernel_precision_parse("Exact", &p));
    static const struct {
        const char * value;
        bool known;
        enum kernel_precision is;
    } rows[] = {{"", true, KERNEL_FAST},
                {"fast", true, KERNEL_FAST},
                {"exact", true, KERNEL_EXACT},
                {"most", false, KERNEL_FAST}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv("GGML_HSA_PRECISION", rows[i].value, 1);
        assert_int_equal(kernel_precision_asked(&p), rows[i].known);
        assert_int_equal(p, rows[i].is);
    }
    unsetenv("GGML_HSA_PRECISION");
    assert_true(kernel_precision_asked(&p) && p == KERNEL_FAST);
}

static void configurations(void ** state) {
    (void) state;
    for (int p = KERNEL_FAST; p <= KERNEL_EXACT; p++) {
        struct kernel_spec s = spec_of(KERNEL_OP_SILU, DTYPE_F32, (enum kernel_precision) p);
        struct buf text = {0};
        struct kernel_config back;
        struct error err = {0};
        json_t * entry;
        kernel_config_print(&s, "silu", &text);
        assert_int_equal(json_read((const char *) text.data, text.size, &entry, &err), ST_OK);
        assert_int_equal(kernel_config_parse(entry, NULL, &back, &err), ST_OK);
        assert_int_equal(back.spec.precision, p);
        json_put(&entry, "precision", json_string("finest"));
        assert_int_not_equal(kernel_config_parse(entry, NULL, &back, &err), ST_OK);
        assert_non_null(
            strstr(err.text, "'precision' must be \"fast\" or \"exact\", not 'finest'"));
        json_decref(entry);
        buf_free(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_program_or_two),
        cmocka_unit_test(names),
        cmocka_unit_test(configurations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// What bench-llm computes that `ggml-hsa model` does not: first runs, on a decoder of no model.
#include "base/cmocka-all.h"
#include "file-type.h"
#include "llm-report.h"

#include <stdlib.h>

enum { RECONFIG = 7 }; // of the causes

static struct decoder_model tiny(void) {
    static const enum decoder_weight has[] = {
        DECODER_ATTN_NORM, DECODER_Q,        DECODER_K,          DECODER_V,
        DECODER_OUT,       DECODER_FFN_NORM, DECODER_GATE,       DECODER_UP,
        DECODER_DOWN,      DECODER_EMBD,     DECODER_OUTPUT_NORM};
    struct decoder d = {.layers = 3,
                        .embd = 64,
                        .heads = 4,
                        .kv_heads = 2,
                        .head_dim = 16,
                        .ff = 96,
                        .vocab = 256,
                        .rope_dims = 16,
                        .eps = 1e-5f,
                        .rope_base = 10000,
                        .rope_scale = 1,
                        .kv = GGML_TYPE_F16};
    struct decoder_model m;
    for (size_t i = 0; i < sizeof has / sizeof has[0]; i++) {
        d.has[has[i]] = true;
    }
    file_type_model(&file_types[0], &d, &m);
    return m;
}

// A process makes one hardware context (2.6 ms), whatever it computes then: in the figures of a
// layer it would be multiplied.
static void first_runs(void ** state) {
    (void) state;
    struct decoder_model m = tiny();
    struct llm_device device;
    struct llm_ask ask = {&m, 1, 64, LLM_BY_PARTS, true, NULL, NULL, NULL};
    static struct llm_report first, again;
    struct error err = {0};
    assert_null(llm_open(PLUGIN, &device));
    assert_int_equal(llm_report(&device, &ask, &first, &err), ST_OK);
    assert_string_equal(first.causes[RECONFIG], "reconfig");
    assert_int_equal(first.n_parts, 2);
    assert_true(first.parts[0].causes[RECONFIG] < 2.6);
    assert_true(first.all.causes[RECONFIG] < 2.6);
    ask.once = false;
    assert_int_equal(llm_report(&device, &ask, &again, &err), ST_OK);
    assert_true(again.all.causes[RECONFIG] == 0);
    assert_true(again.all.kernels == first.all.kernels && again.all.bytes == first.all.bytes);
    llm_close(&device);
}

// A token whole where that does not take long, a prompt by parts.
static void ways(void ** state) {
    (void) state;
    struct decoder_model m = tiny();
    struct llm_ask ask = {&m, 1, 64, LLM_BY_SIZE, false, NULL, NULL, NULL};
    assert_int_equal(llm_way_of(&ask), LLM_AS_WHOLE);
    ask.tokens = 64;
    assert_int_equal(llm_way_of(&ask), LLM_BY_PARTS);
    ask.way = LLM_AS_WHOLE;
    assert_int_equal(llm_way_of(&ask), LLM_AS_WHOLE);
    m.kinds[0].layers = 200000; // of 22 kB each
    ask = (struct llm_ask){&m, 1, 64, LLM_BY_SIZE, false, NULL, NULL, NULL};
    assert_int_equal(llm_way_of(&ask), LLM_BY_PARTS);
}

int main(void) {
    setenv("GGML_HSA_EMULATE", "aie2", 1);
    unsetenv("GGML_HSA_EMU_CLOCK");
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_runs), cmocka_unit_test(ways)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

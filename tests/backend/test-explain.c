// test-explain: GGML_HSA_EXPLAIN=1 says why a device does not compute a node. Each row of the table
// plants one reason: a node that differs from one that is computed in nothing else, which the test
// makes sure of, and words of the line that must be said, the limit included. Every line comes
// once, and ggml_backend_hsa_why_not gives the same reason to a program.
#include "base/cmocka-all.h"
#include "gpu-env.h"

#include <unistd.h>

#include "ggml-backend.h"
#include "ggml-hsa.h"

static ggml_backend_dev_t dev;
static ggml_backend_hsa_why_not_t why_not;
static struct ggml_context * ctx;
static const char * mode = "";

// ---- nodes, each with and without its fault ----

static struct ggml_tensor * floats(int64_t a, int64_t b) {
    return ggml_new_tensor_2d(ctx, GGML_TYPE_F32, a, b);
}

static struct ggml_tensor * no_op(bool fault) {
    return fault ? ggml_win_part(ctx, floats(64, 16), 4) : ggml_abs(ctx, floats(64, 16));
}

static struct ggml_tensor * datatype(bool fault) {
    enum ggml_type t = fault ? GGML_TYPE_F64 : GGML_TYPE_F32;
    return ggml_add(ctx, ggml_new_tensor_1d(ctx, t, 64), ggml_new_tensor_1d(ctx, t, 64));
}

static struct ggml_tensor * parameter(bool fault) {
    struct ggml_tensor * node = ggml_mul(ctx, floats(64, 4), floats(64, 4));
    node->op_params[3] = fault;
    return node;
}

static struct ggml_tensor * more_inputs(bool fault) {
    struct ggml_tensor * node = ggml_sub(ctx, floats(64, 4), floats(64, 4));
    node->src[4] = fault ? floats(64, 4) : NULL;
    return node;
}

static struct ggml_tensor * result_type(bool fault) {
    struct ggml_tensor * node = ggml_mul_mat(ctx, floats(256, 64), floats(256, 32));
    node->type = fault ? GGML_TYPE_F16 : node->type;
    return node;
}

static struct ggml_tensor * copy_type(bool fault) {
    struct ggml_tensor * from = ggml_new_tensor_1d(ctx, GGML_TYPE_F16, 64);
    return ggml_cpy(ctx, from, ggml_new_tensor_1d(ctx, fault ? GGML_TYPE_I8 : GGML_TYPE_F32, 64));
}

static struct ggml_tensor * rope_type(bool fault) {
    struct ggml_tensor * x =
        ggml_new_tensor_3d(ctx, fault ? GGML_TYPE_BF16 : GGML_TYPE_F32, 64, 2, 4);
    return ggml_rope(ctx, x, ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 4), 64, 0);
}

static struct ggml_tensor * rope_mode(bool fault) {
    struct ggml_tensor * x = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 64, 2, 4);
    return ggml_rope(ctx, x, ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 4), 64, fault ? 1 << 20 : 0);
}

static struct ggml_tensor * transposed(bool fault) {
    struct ggml_tensor * x = floats(64, 16);
    return ggml_sum(ctx, fault ? ggml_transpose(ctx, x) : x);
}

static struct ggml_tensor * long_row(bool fault) {
    return ggml_rms_norm(ctx, floats(fault ? 4 << 20 : 4096, 1), 1e-6f);
}

static struct ggml_tensor * attention(enum ggml_type t, int64_t head, int64_t keys) {
    struct ggml_tensor * q = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, head, 1, 32, 1);
    struct ggml_tensor * k = ggml_new_tensor_4d(ctx, t, head, keys, 8, 1);
    struct ggml_tensor * v = ggml_new_tensor_4d(ctx, t, head, keys, 8, 1);
    return ggml_flash_attn_ext(ctx, q, k, v, NULL, 0.125f, 0.0f, 0.0f);
}

// One sum over all rows, which no kernel makes in parts.
static struct ggml_tensor * long_sum(bool fault) {
    int64_t rows = fault ? 4096 : 4;
    return ggml_cross_entropy_loss(ctx, floats(32000, rows), floats(32000, rows));
}

static struct ggml_tensor * key_type(bool fault) {
    return attention(fault ? GGML_TYPE_NVFP4 : GGML_TYPE_F16, 64, 256);
}

static struct ggml_tensor * odd_head(bool fault) {
    return attention(GGML_TYPE_F16, fault ? 100 : 64, 256);
}

// Blocks of q5_0 become bf16 by twos.
static struct ggml_tensor * odd_blocks(bool fault) {
    int64_t keys = fault ? 113 : 114;
    struct ggml_tensor * q = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, 32, 1, 4, 1);
    struct ggml_tensor * k = ggml_new_tensor_4d(ctx, GGML_TYPE_Q5_0, 32, keys, 1, 1);
    return ggml_flash_attn_ext(ctx, q, k, k, NULL, 0.125f, 0.0f, 0.0f);
}

static struct ggml_tensor * precise(bool fault) {
    return fault ? attention(GGML_TYPE_F16, 64, 256)
                 : ggml_mul_mat(ctx, floats(256, 64), floats(256, 32));
}

static struct ggml_tensor * in_no_pack(bool fault) {
    return fault ? ggml_neg(ctx, floats(64, 16)) : ggml_cont(ctx, floats(64, 16));
}

static const struct {
    const char * mode; // of the process: the variable that it needs
    struct ggml_tensor * (*make)(bool fault);
    const char * says[3];
} rows[] = {
    {"", no_op, {"WIN_PART f32[64,16] -> ", "there is no kernel for WIN_PART"}},
    {"", datatype, {"ADD f64[64] f64[64] -> f64[64] ", "ADD of f64 is not supported"}},
    {"", parameter, {"MUL f32[64,4] ", "MUL has an op parameter more than its kernel"}},
    {"", more_inputs, {"SUB f32[64,4] ", "SUB has more inputs than its kernel"}},
    {"", result_type, {"-> f16[64,32]", "MUL_MAT of f32 and f32 to f16 is not supported"}},
    {"", copy_type, {"CPY f16[64] ", "CPY of f16 to i8", "between equal types"}},
    {"", rope_type, {"ROPE bf16[64,2,4] ", "ROPE of bf16 to bf16: both are f32, or both f16"}},
    {"", rope_mode, {"ROPE f32[64,2,4] ", "ROPE: mode 1048576 with 64 of 64 dimensions"}},
    {"", transposed, {"SUM f32[16,64] strided", "SUM over rows that are not contiguous"}},
    {"",
     long_row,
     {"RMS_NORM f32[4194304]", "rows of 4194304 elements are too long", "which takes "}},
    {"",
     key_type,
     {"FLASH_ATTN_EXT ", "nvfp4[64,256,8]", "no core unpacks keys or values of nvfp4"}},
    {"", odd_blocks, {"q5_0[32,113]", "in runs of 3616 numbers, no multiple of 64"}},
    {"",
     long_sum,
     {"CROSS_ENTROPY_LOSS f32[32000,4096]", "us at the lowest clock", "at most 33000 us"}},
    {"", odd_head, {"f16[100,256,8]", "heads of a size that is no multiple of 8"}},
    {"precise", precise, {"FLASH_ATTN_EXT ", "GGML_HSA_MUL_MAT=precise"}},
    {"packs", in_no_pack, {"NEG f32[64,16] ", "GGML_HSA_KERNEL_DIR"}},
    {"gpu", no_op, {"WIN_PART f32[64,16] -> ", "there is no kernel for WIN_PART on a GPU"}},
    {"gpu", datatype, {NULL}}, // a GPU has f64
    {"gpu", copy_type, {"CPY f16[64] ", "f16 to i8: a GPU does not copy these"}},
};

// ---- what is said ----

static char text[16384];

// What supports_op says to standard error, and its answer.
static bool supported(const struct ggml_tensor * node) {
    FILE * file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int old = dup(STDERR_FILENO);
    assert_true(old >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    bool ok = ggml_backend_dev_supports_op(dev, node);
    fflush(stderr);
    dup2(old, STDERR_FILENO);
    close(old);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return ok;
}

static void test_reasons(void ** state) {
    (void) state;
    int n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].mode, mode) != 0) {
            continue;
        }
        char reason[512];
        struct ggml_tensor *good = rows[i].make(false), *bad = rows[i].make(true);
        if (!supported(good) || *text || why_not(dev, good, reason, sizeof reason) || *reason) {
            fail_msg("row %zu: without its fault it is refused: %s", i, text);
        }
        if (!rows[i].says[0]) {
            assert_true(supported(bad));
            continue;
        }
        ggml_set_name(bad, "planted");
        assert_false(supported(bad));
        for (size_t k = 0; k < 3 && rows[i].says[k]; k++) {
            if (!strstr(text, rows[i].says[k])) {
                fail_msg("row %zu: no \"%s\" in: %s", i, rows[i].says[k], text);
            }
        }
        assert_non_null(strstr(text, "first: planted\n"));
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); // one line
        assert_null(strstr(text, "no elements"));
        char said[sizeof text];
        memcpy(said, text, sizeof said);
        assert_false(supported(bad));
        assert_string_equal(text, ""); // once
        assert_true(why_not(dev, bad, reason, sizeof reason));
        assert_non_null(strstr(said, reason));
        assert_true(why_not(dev, bad, reason, 8)); // cut, not written beyond
        assert_int_equal(strlen(reason), 7);
        n++;
    }
    assert_true(n > 0);
}

// Another shape is another line, up to a number; then one says so.
static void test_many(void ** state) {
    (void) state;
    int lines = 0;
    for (int i = 0; i < 100; i++) {
        assert_false(supported(ggml_get_rel_pos(ctx, floats(64, 2 * i + 1), i + 1, i + 1)));
        lines += *text != '\0';
        assert_true(lines == i + 1 || !*text); // none is left out before
        assert_int_equal(lines == 33 && *text, strstr(text, "more shapes than the 32") != NULL);
    }
    assert_int_equal(lines, 33);
    assert_false(supported(ggml_win_unpart(ctx, floats(64, 16), 4, 4, 4)));
    assert_non_null(strstr(text, "WIN_UNPART")); // other ops are not
}

static void no_log(enum ggml_log_level level, const char * line, void * user) {
    (void) level, (void) line, (void) user;
}

static int setup(void ** state) {
    (void) state;
    gpu_env(strcmp(mode, "gpu") ? "aie2" : "gfx1100");
    setenv("GGML_HSA_EXPLAIN", "1", 1);
    setenv("GGML_HSA_HOST_FALLBACK", "0", 1);
    if (!strcmp(mode, "precise")) {
        setenv("GGML_HSA_MUL_MAT", "precise", 1);
    }
    if (!strcmp(mode, "packs")) {
        setenv("GGML_HSA_JIT", "0", 1);
    }
    ggml_log_set(no_log, NULL); // programs do so while they ask; the reasons are said all the same
    ggml_backend_reg_t reg = ggml_backend_load(PLUGIN);
    dev = reg ? ggml_backend_reg_dev_get(reg, 0) : NULL;
    if (!dev) {
        return -1;
    }
    void * address = ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_why_not");
    memcpy(&why_not, &address, sizeof address);
    ctx = ggml_init((struct ggml_init_params){.mem_size = 8 << 20, .no_alloc = true});
    return address && ctx ? 0 : -1;
}

static int teardown(void ** state) {
    (void) state;
    ggml_free(ctx);
    return 0;
}

int main(int argc, char ** argv) {
    mode = argc > 1 ? argv[1] : mode;
    if (!strcmp(mode, "gpu") && !gpu_have_compiler()) {
        return skip_say("no clang with a linker to make kernels of GPUs");
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reasons), cmocka_unit_test(test_many)};
    const struct CMUnitTest one[] = {cmocka_unit_test(test_reasons)};
    return *mode ? cmocka_run_group_tests(one, setup, teardown)
                 : cmocka_run_group_tests(tests, setup, teardown);
}

// enums: are ggml's numbers the ones that this plugin was compiled with? Ops and datatypes cross
// the border between libggml-base and the plugin as bare integers. A ggml of a version that we
// know, but built with an op more in its midst, would have us add where it wants to subtract. Each
// number that the backend knows by name is asked for its name when the plugin is loaded; who names
// another one in src/backend puts it here (test-enums holds that line).
#include "backend.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

// clang-format off
#define OPS(X) \
    X(NONE) X(DUP) X(ADD) X(SUB) X(MUL) X(DIV) X(SQR) X(SQRT) X(LOG) X(SIN) X(COS) X(SUM) X(SUM_ROWS) X(MEAN) \
    X(ARGMAX) X(REPEAT) X(CONCAT) X(NORM) X(RMS_NORM) X(L2_NORM) X(MUL_MAT) X(MUL_MAT_ID) X(OUT_PROD) X(SCALE) \
    X(CPY) X(CONT) X(RESHAPE) X(VIEW) X(PERMUTE) X(TRANSPOSE) X(GET_ROWS) X(SET_ROWS) X(SOFT_MAX) X(ROPE) \
    X(ROPE_BACK) X(ADD_ID) X(TOP_K) X(FLASH_ATTN_EXT) X(CLAMP) X(LEAKY_RELU) X(UNARY) X(GLU) \
    X(CROSS_ENTROPY_LOSS) X(OPT_STEP_ADAMW) X(ACC) X(ADD1) X(ARGSORT) X(SET) X(SOFT_MAX_BACK)
#define UNARY_OPS(X) X(GELU) X(GELU_QUICK) X(GELU_ERF) X(SILU) X(SIGMOID)
#define GLU_OPS(X) X(SWIGLU_OAI)
#define TYPES(X) \
    X(F32) X(F16) X(BF16) X(F64) X(I8) X(I16) X(I32) X(I64) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q2_K) X(Q3_K) \
    X(Q4_K) X(Q5_K) X(Q6_K) X(IQ1_S) X(IQ1_M) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) X(IQ3_XXS) X(IQ3_S) X(IQ4_NL) X(IQ4_XS) \
    X(MXFP4)
// clang-format on

static const char * op_name(int i) {
    return ggml_op_name((enum ggml_op) i);
}

static const char * unary_name(int i) {
    return ggml_unary_op_name((enum ggml_unary_op) i);
}

static const char * glu_name(int i) {
    return ggml_glu_op_name((enum ggml_glu_op) i);
}

static const char * type_name(int i) {
    return ggml_type_name((enum ggml_type) i);
}

static const struct {
    const char * kind;
    const char * (*name)(int value);
    int value;
    const char * want; // type names are in lower case
} enums[] = {
#define OP(x)    {"op", op_name, GGML_OP_##x, #x},
#define UNARY(x) {"unary op", unary_name, GGML_UNARY_OP_##x, #x},
#define GLU(x)   {"gated op", glu_name, GGML_GLU_OP_##x, #x},
#define TYPE(x)  {"datatype", type_name, GGML_TYPE_##x, #x},
    OPS(OP) UNARY_OPS(UNARY) GLU_OPS(GLU) TYPES(TYPE)};

// Programs may build ggml with another GGML_MAX_NAME, which moves all fields behind the name. The
// ggml in this process is asked to write a name that is too long for either layout.
enum status enums_check_tensor(struct error * err) {
    enum { LONG = 512 };
    struct ggml_context * ctx = ggml_init((struct ggml_init_params){
        .mem_size = 4 * ggml_tensor_overhead() + 2 * LONG, .no_alloc = true});
    if (!ctx) {
        return error_set(err, ST_NO_MEMORY, "no memory for a tensor");
    }
    char name[LONG];
    memset(name, 'n', LONG - 1);
    name[LONG - 1] = '\0';
    struct ggml_tensor * t = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 7);
    const char * at = (const char *) t + offsetof(struct ggml_tensor, name);
    ggml_set_name(t, name);
    size_t n = strnlen(at, LONG);
    bool same = n == GGML_MAX_NAME - 1 && !strncmp(at, name, n) && t->ne[0] == 7;
    ggml_free(ctx);
    return same ? ST_OK
                : error_set(err, ST_UNSUPPORTED,
                            "a tensor's name has room for %zu bytes there, and had %d where this "
                            "plugin was built (GGML_MAX_NAME)",
                            n + 1, GGML_MAX_NAME);
}

enum status enums_check(struct error * err) {
    for (size_t i = 0; i < sizeof enums / sizeof enums[0]; i++) {
        const char * name = enums[i].name(enums[i].value);
        if (!name || strcasecmp(name, enums[i].want)) {
            return error_set(err, ST_UNSUPPORTED,
                             "%s %d is '%.40s' there, and was %s where this plugin was built",
                             enums[i].kind, enums[i].value, name ? name : "", enums[i].want);
        }
    }
    return ST_OK;
}

// sources: how many sources a node of an op has at least. ggml's own constructors see to it, but
// nodes may come from elsewhere (an RPC client sends them field by field), and ggml's CPU backend
// looks for them without asking. Ops go by their names: ggml of another version has others, and
// other numbers for them.
#include "backend.h"

#include <string.h>

// Ops that are not here have one. Sources behind these may be there or not: a mask, a scale.
static const struct {
    const char * op;
    int least;
} rows[] = {
    {"NONE", 0},
    {"ARANGE", 0},
    {"CUSTOM", 0},
    {"ADD", 2},
    {"ADD1", 2},
    {"ACC", 2},
    {"SUB", 2},
    {"MUL", 2},
    {"DIV", 2},
    {"COUNT_EQUAL", 2},
    {"CONCAT", 2},
    {"SILU_BACK", 2},
    {"RMS_NORM_BACK", 2},
    {"MUL_MAT", 2},
    {"OUT_PROD", 2},
    {"SET", 2},
    {"GET_ROWS", 2},
    {"GET_ROWS_BACK", 2},
    {"SET_ROWS", 2},
    {"SOFT_MAX_BACK", 2},
    {"ROPE", 2},
    {"ROPE_BACK", 2},
    {"CONV_TRANSPOSE_1D", 2},
    {"IM2COL", 2},
    {"IM2COL_BACK", 2},
    {"IM2COL_3D", 2},
    {"CONV_2D", 2},
    {"CONV_3D", 2},
    {"CONV_2D_DW", 2},
    {"CONV_TRANSPOSE_2D", 2},
    {"POOL_2D_BACK", 2},
    {"SSM_CONV", 2},
    {"SOLVE_TRI", 2},
    {"CROSS_ENTROPY_LOSS", 2},
    {"MAP_CUSTOM2", 2},
    {"DSV4_HC_PRE", 2},
    {"ADD_ID", 3},
    {"MUL_MAT_ID", 3},
    {"FLASH_ATTN_EXT", 3},
    {"ADD_REL_POS", 3},
    {"MAP_CUSTOM3", 3},
    {"CROSS_ENTROPY_LOSS_BACK", 3},
    {"OPT_STEP_SGD", 3},
    {"DSV4_HC_COMB", 3},
    {"FLASH_ATTN_BACK", 4},
    {"LIGHTNING_INDEXER", 4},
    {"DSV4_HC_POST", 4},
    {"GATED_LINEAR_ATTN", 5},
    {"OPT_STEP_ADAMW", 5},
    {"RWKV_WKV6", 6},
    {"GATED_DELTA_NET", 6},
    {"RWKV_WKV7", 7},
    {"SSM_SCAN", 7},
};

bool op_has_sources(const struct ggml_tensor * node) {
    if (op_is_view(node->op)) {
        return true; // nothing is done for it
    }
    // An op of a later ggml is not known here, and its name must not be asked for.
    bool later = (unsigned) node->op >= GGML_OP_COUNT;
    const char * name = later ? "" : ggml_op_name(node->op);
    int least = 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        least = strcmp(rows[i].op, name) ? least : rows[i].least;
    }
    bool all = true;
    for (int i = 0; i < least; i++) {
        all = all && node->src[i];
    }
    return all;
}

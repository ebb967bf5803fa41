// op-map: which kernel a node of a graph is, by name. src/kernel/ops.def says what ggml calls each
// kernel ("ggml_op_add", "ggml_unary_op_relu", "ggml_glu_op_swiglu"), libggml-base says what it
// calls each of its ops, and where the two agree the op is ours: a new row there needs no edit
// here. What an op wants beyond that (a view that is not a source as it stands) is in op_call_of.
//
// The map is built once and never changes.
#include "backend.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NO_KERNEL = -1 };

static int16_t by_op[GGML_OP_COUNT], by_unary[GGML_UNARY_OP_COUNT], by_glu[GGML_GLU_OP_COUNT];
static pthread_once_t map_once = PTHREAD_ONCE_INIT;

static int16_t kernel_by_name(const char * prefix, const char * ggml_name) {
    char name[64];
    int n = snprintf(name, sizeof name, "%s%s", prefix, ggml_name);
    if (n < 0 || (size_t) n >= sizeof name) {
        return NO_KERNEL;
    }
    for (char * c = name; *c; c++) {
        *c = (char) tolower((unsigned char) *c);
    }
    for (int i = 0; i < KERNEL_OP_COUNT; i++) {
        if (!strcmp(kernel_op_info((enum kernel_op) i)->ggml_name, name)) {
            return (int16_t) i;
        }
    }
    return NO_KERNEL;
}

static void build_map(void) {
    for (int i = 0; i < GGML_OP_COUNT; i++) {
        by_op[i] = kernel_by_name("ggml_op_", ggml_op_name((enum ggml_op) i));
    }
    for (int i = 0; i < GGML_UNARY_OP_COUNT; i++) {
        by_unary[i] = kernel_by_name("ggml_unary_op_", ggml_unary_op_name((enum ggml_unary_op) i));
    }
    for (int i = 0; i < GGML_GLU_OP_COUNT; i++) {
        by_glu[i] = kernel_by_name("ggml_glu_op_", ggml_glu_op_name((enum ggml_glu_op) i));
    }
}

// Where an op's own parameters begin in op_params: UNARY keeps the unary op in word 0, GLU its op
// and which half is the gate in words 0 and 1.
static int16_t find_kernel(const struct ggml_tensor * node, int * first_param) {
    int32_t sub = node->op_params[0];
    *first_param = 0;
    pthread_once(&map_once, build_map);
    switch (node->op) {
    case GGML_OP_UNARY:
        *first_param = 1;
        return sub >= 0 && sub < GGML_UNARY_OP_COUNT ? by_unary[sub] : NO_KERNEL;
    case GGML_OP_GLU:
        *first_param = 2;
        return sub >= 0 && sub < GGML_GLU_OP_COUNT ? by_glu[sub] : NO_KERNEL;
    default:
        return (unsigned) node->op < GGML_OP_COUNT ? by_op[node->op] : NO_KERNEL;
    }
}

enum kernel_op op_kernel(enum ggml_op op) {
    pthread_once(&map_once, build_map);
    bool has = (unsigned) op < GGML_OP_COUNT && by_op[op] != NO_KERNEL;
    return has ? (enum kernel_op) by_op[op] : KERNEL_OP_COUNT;
}

// ggml_op_desc trusts op_params, which may come from another machine.
const char * op_label(const struct ggml_tensor * node) {
    int32_t sub = node->op_params[0];
    bool odd = (node->op == GGML_OP_UNARY && (sub < 0 || sub >= GGML_UNARY_OP_COUNT)) ||
               (node->op == GGML_OP_GLU && (sub < 0 || sub >= GGML_GLU_OP_COUNT));
    return (unsigned) node->op >= GGML_OP_COUNT ? "an op that is not known"
           : odd                                ? ggml_op_name(node->op)
                                                : ggml_op_desc(node);
}

static struct view op_half(struct view v, bool second) {
    v.ne[0] /= 2;
    if (second && v.data) {
        v.data += (size_t) v.ne[0] * v.nb[0];
    }
    return v;
}

static void glu_inputs(const struct ggml_tensor * node, struct op_call * out) {
    struct view both = view_of(node->src[0]);
    bool swapped = node->op_params[1] != 0;
    out->inputs[0] = op_half(both, swapped);
    out->inputs[1] = op_half(both, !swapped);
    out->n_inputs = 2;
}

enum status op_call_of(const struct ggml_tensor * node, struct op_call * out, struct error * err) {
    int first_param;
    int16_t kernel = find_kernel(node, &first_param);
    if (kernel == NO_KERNEL) {
        return error_set(err, ST_UNSUPPORTED, "there is no kernel for %s", op_label(node));
    }
    if (node->op == GGML_OP_RMS_NORM && node->src[1]) { // two nodes in one (fuse.c)
        kernel = KERNEL_OP_RMS_NORM_MUL;
    }
    if (node->op == GGML_OP_SUM_ROWS && node->src[1]) { // more than two
        kernel = KERNEL_OP_WEIGHTED_SUM;
    }
    const struct kernel_op_info * info = kernel_op_info((enum kernel_op) kernel);
    *out = (struct op_call){
        .op = (enum kernel_op) kernel,
        .elementwise = info->family == KERNEL_ELEMENTWISE,
        .rows_alike = true,
    };
    // Words that the kernel does not know would change the result behind its back.
    int n_words = (int) (sizeof node->op_params / sizeof node->op_params[0]);
    for (int i = first_param; i < n_words; i++) {
        uint32_t word = (uint32_t) node->op_params[i];
        if (i - first_param < info->n_params) {
            out->params[i - first_param] = word;
        } else if (word) {
            return error_set(err, ST_UNSUPPORTED, "%s has an op parameter more than its kernel",
                             op_label(node));
        }
    }
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (node->src[i] && i >= info->n_inputs) {
            return error_set(err, ST_UNSUPPORTED, "%s has more inputs than its kernel",
                             op_label(node));
        }
        if (node->src[i]) {
            out->inputs[i] = view_of(node->src[i]);
            out->n_inputs = i + 1;
        }
    }
    if (!node->src[0]) {
        return error_set(err, ST_INVALID, "%s has no input", op_label(node));
    }
    if (node->op == GGML_OP_GLU && !node->src[1]) {
        glu_inputs(node, out);
    }
    // ggml has no sum over rows that are not contiguous: its CPU backend takes them for contiguous
    // ones, and CUDA, Vulkan, SYCL and Metal refuse, so that a result of ours would be the odd one.
    if (node->op == GGML_OP_SUM && out->inputs[0].nb[0] != ggml_type_size(out->inputs[0].type)) {
        return error_set(err, ST_UNSUPPORTED, "SUM over rows that are not contiguous");
    }
    if (node->op == GGML_OP_SOFT_MAX) {
        out->rows_alike =
            out->params[1] == 0 && !node->src[2]; // slope and sink are those of a head
    }
    return ST_OK;
}

int op_writes(const struct ggml_tensor * node, const struct ggml_tensor * out[OP_MAX_WRITES]) {
    int n = 0;
    out[n++] = node;
    for (int i = 2; i <= 3 && node->op == GGML_OP_OPT_STEP_ADAMW; i++) { // the moments
        if (node->src[i]) {
            out[n++] = node->src[i];
        }
    }
    return n;
}

// kernel: names of kernels. A name is a file name on every system (letters, digits, '_', 'x', 's',
// '-'), says what the kernel computes, and belongs to one spec alone within an architecture: each
// tensor prints all of its dimensions, and its strides where they are not the packed ones. Where
// that would be too long the end gives way to "-h" and a SHA-256 of the whole; '-' before a letter
// appears in no other name.
#include "kernel.h"
#include "base/base.h"
#include "base/sha256.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { // by the sources of ops.def
    FAMILY_OF_binary_ops = KERNEL_ELEMENTWISE,
    FAMILY_OF_unary_ops = KERNEL_ELEMENTWISE,
    FAMILY_OF_glu_ops = KERNEL_ELEMENTWISE,
    FAMILY_OF_row_ops = KERNEL_ROWS,
    FAMILY_OF_mul_mat_ops = KERNEL_PRODUCT,
    FAMILY_OF_convert_ops = KERNEL_CONVERSION,
    FAMILY_OF_pair_ops = KERNEL_ELEMENTWISE,
    FAMILY_OF_move_ops = KERNEL_MOVE,
    FAMILY_OF_attention_ops = KERNEL_ATTENTION,
    FAMILY_OF_task_ops = KERNEL_TASK,
    FAMILY_OF_weigh_ops = KERNEL_WEIGH,
};

static const struct kernel_op_info op_infos[KERNEL_OP_COUNT] = {
#define KERNEL(id, name, ggml_name, source, least, inputs, params)                                 \
    [KERNEL_OP_##id] = {name,  ggml_name, #source, (enum kernel_family) FAMILY_OF_##source,        \
                        least, inputs,    params},
#include "kernel/ops.def"
#undef KERNEL
};

static const char * const arch_names[AIE_ARCH_COUNT] = {
    [AIE_ARCH_AIE2] = "aie2",
    [AIE_ARCH_AIE2P] = "aie2p",
};

static const char * const precision_names[] = {[KERNEL_FAST] = "fast", [KERNEL_EXACT] = "exact"};

// Functions whose exact kernels for f32 are others than the fast ones.
static const bool has_exact[KERNEL_OP_COUNT] = {
#define LANES(...)                                                         false
#define BITS(...)                                                          false
#define STAGES(...)                                                        false
#define FAST(...)                                                          true
#define BOTH(...)                                                          true
#define ELEMENTWISE(id, name, ggml_name, source, inputs, params, npu, ...) [KERNEL_OP_##id] = npu,
#include "kernel/elementwise.def"
#undef LANES
#undef BITS
#undef STAGES
#undef FAST
#undef BOTH
#undef ELEMENTWISE
    [KERNEL_OP_NORM] = true,    [KERNEL_OP_RMS_NORM] = true, [KERNEL_OP_RMS_NORM_MUL] = true,
    [KERNEL_OP_L2_NORM] = true, [KERNEL_OP_SOFT_MAX] = true,
};

const struct kernel_op_info * kernel_op_info(enum kernel_op op) {
    return &op_infos[op];
}

const char * kernel_op_name(enum kernel_op op) {
    return (unsigned) op < KERNEL_OP_COUNT ? op_infos[op].name : "invalid";
}

const char * kernel_arch_name(enum aie_arch arch) {
    return (unsigned) arch < AIE_ARCH_COUNT ? arch_names[arch] : "invalid";
}

bool kernel_arch_parse(const char * text, enum aie_arch * out) {
    for (int i = 0; i < AIE_ARCH_COUNT; i++) {
        if (!strcmp(text, arch_names[i])) {
            *out = (enum aie_arch) i;
            return true;
        }
    }
    return false;
}

#define ON(arch) (1u << AIE_ARCH_##arch)
static const struct kernel_block_info blocks[KERNEL_BLOCKS + 1] = {
#define BLOCKS(id, name, bytes, k, once, cut, ...)                                                 \
    [KERNEL_##id] = {name, bytes, k, once, cut, __VA_ARGS__},
#include "kernel/blocks.def"
    [KERNEL_BLOCKS] = {.name = "invalid", .k = 1, .once = 1, .cut = 1},
};
#undef ON

const struct kernel_block_info * kernel_block(enum kernel_blocks b) {
    return &blocks[(unsigned) b < KERNEL_BLOCKS ? b : KERNEL_BLOCKS];
}

int kernel_block_bytes(enum kernel_blocks b) {
    return kernel_block(b)->bytes;
}

int kernel_block_k(enum kernel_blocks b) {
    return kernel_block(b)->k;
}

int kernel_block_once(enum kernel_blocks b) {
    return kernel_block(b)->once;
}

int kernel_block_cut(enum kernel_blocks b) {
    return kernel_block(b)->cut;
}

const char * kernel_block_name(enum kernel_blocks b) {
    return kernel_block(b)->name;
}

// Blocks that go by planes want another PDI than the products of all other types: in a model that
// has both, a layer would load PDIs again and again, for longer than bf16 takes. Who knows that a
// model has no others says GGML_HSA_PLANES=1.
bool kernel_block_is_streamed(enum kernel_blocks b) {
    return (unsigned) b < KERNEL_BLOCKS &&
           (kernel_block(b)->way != KERNEL_WAY_PLANES || env_flag("GGML_HSA_PLANES", false));
}

enum { // bits of the parameter
    PANEL_ROWS_AT = 8,
    SHARED_AT = 14,
    PANEL_PAIRED_AT = 15,
    PANEL_WORDS_AT = 16
};

uint32_t kernel_blocks_param(enum kernel_blocks b, struct kernel_panel panel) {
    return (uint32_t) b | (uint32_t) panel.rows << PANEL_ROWS_AT |
           (uint32_t) (panel.pair != 0) << PANEL_PAIRED_AT |
           (uint32_t) panel.words << PANEL_WORDS_AT;
}

uint32_t kernel_shared_param(enum kernel_blocks b, struct kernel_panel panel) {
    return kernel_blocks_param(b, panel) | 1u << SHARED_AT;
}

bool kernel_blocks_are_shared(const struct kernel_spec * spec) {
    return spec->op == KERNEL_OP_MUL_MAT_BLOCKS && spec->params[0] >> SHARED_AT & 1;
}

enum kernel_blocks kernel_blocks_of(const struct kernel_spec * spec) {
    return (enum kernel_blocks)(spec->params[0] & 0xff);
}

struct kernel_panel kernel_panel_of(const struct kernel_spec * spec) {
    struct kernel_panel p = kernel_panel(spec->arch, kernel_blocks_of(spec),
                                         (int) (spec->params[0] >> PANEL_ROWS_AT & 0x3f),
                                         (int) (spec->params[0] >> PANEL_WORDS_AT));
    if (!(spec->params[0] >> PANEL_PAIRED_AT & 1)) {
        return (struct kernel_panel){.rows = p.rows, .words = p.words};
    }
    p.pair = p.pair ? p.pair : KERNEL_NO_PAIR;
    return p;
}

struct kernel_panel kernel_panel(enum aie_arch arch, enum kernel_blocks b, int rows, int words) {
    const struct kernel_block_info * info = kernel_block(b);
    if (!rows || !(info->paired >> arch & 1)) {
        return (struct kernel_panel){.rows = rows, .words = words};
    }
    int width = info->power ? 1 : 2;
    return (struct kernel_panel){.rows = rows,
                                 .words = words,
                                 .pair = 4 / width * info->bytes,
                                 .block = info->bytes,
                                 .scale = info->scale,
                                 .width = width};
}

// Where byte `at` of blocks whose scales are a word lies, and how many follow it there.
static size_t pair_at(const struct kernel_panel * p, size_t at, size_t * n) {
    size_t block = (size_t) p->block, scale = (size_t) p->scale, width = (size_t) p->width;
    size_t i = at / block, in = at % block;
    bool is_scale = in >= scale && in < scale + width;
    size_t end = is_scale ? scale + width : in < scale ? scale : block;
    *n = end - in < *n ? end - in : *n;
    if (is_scale) {
        return in + i * width;
    }
    return at + i * (scale ? width : 0) + (scale ? 0 : ((size_t) p->pair / block - 1 - i) * width);
}

size_t kernel_panel_at(const struct kernel_panel * p, size_t row_bytes, size_t at, size_t * n) {
    size_t chunk = (size_t) p->words * 4, rows = (size_t) p->rows;
    size_t row = at / row_bytes, column = at % row_bytes, rest = chunk - column % chunk;
    *n = rest < *n ? rest : *n;
    if (p->pair) {
        size_t in_pair = column % (size_t) p->pair;
        column = column - in_pair + pair_at(p, in_pair, n);
    }
    return row / rows * rows * row_bytes + column / chunk * rows * chunk + row % rows * chunk +
           column % chunk;
}

bool kernel_panel_check(const struct kernel_panel * panel, enum kernel_blocks b, int64_t words,
                        int64_t rows) {
    if (panel->rows == 0 || panel->pair < 0) {
        return panel->words == 0 && panel->pair == 0;
    }
    int64_t cut = (int64_t) kernel_block_cut(b) / kernel_block_k(b) * kernel_block_bytes(b) / 4;
    return panel->rows <= KERNEL_PANEL_ROWS && (panel->rows & (panel->rows - 1)) == 0 &&
           panel->words > 0 && cut > 0 && panel->words % cut == 0 && words % panel->words == 0 &&
           rows % panel->rows == 0;
}

bool kernel_has_place(enum kernel_op op) {
    return op == KERNEL_OP_ROTATE || kernel_op_info(op)->family == KERNEL_MOVE;
}

bool kernel_has_exact(const struct kernel_spec * spec) {
    return (unsigned) spec->op < KERNEL_OP_COUNT && has_exact[spec->op] &&
           spec->output.dtype == DTYPE_F32;
}

const char * kernel_precision_name(enum kernel_precision p) {
    return precision_names[p == KERNEL_EXACT];
}

bool kernel_precision_parse(const char * text, enum kernel_precision * out) {
    for (int i = KERNEL_FAST; i <= KERNEL_EXACT; i++) {
        if (!strcmp(text, precision_names[i])) {
            *out = (enum kernel_precision) i;
            return true;
        }
    }
    return false;
}

bool kernel_precision_asked(enum kernel_precision * out) {
    const char * value = getenv("GGML_HSA_PRECISION");
    *out = KERNEL_FAST;
    return !value || !*value || kernel_precision_parse(value, out);
}

// Longest text of one tensor: "_dtype_" and twice four numbers of up to 20 characters and a
// separator.
#define TENSOR_TEXT_MAX (16 + 2 * TENSOR_DIMS * 21)
#define NAME_TEXT_MAX   (60 + (KERNEL_MAX_INPUTS + 1) * TENSOR_TEXT_MAX + 10 * KERNEL_MAX_PARAMS)
#define HASH_TEXT       (2 + 2 * SHA256_BYTES)

static_assert(HASH_TEXT + 100 < KERNEL_NAME_MAX, "a cut name still tells what it is of");

static int print_list(char * at, size_t room, const int64_t v[TENSOR_DIMS]) {
    return snprintf(at, room, "%lldx%lldx%lldx%lld", (long long) v[0], (long long) v[1],
                    (long long) v[2], (long long) v[3]);
}

static int print_tensor(char * at, size_t room, const struct tensor * raw) {
    struct tensor t = tensor_canonical(raw);
    int n = snprintf(at, room, "_%s_", dtype_name(t.dtype));
    n += print_list(at + n, room - (size_t) n, t.ne);
    if (!tensor_is_contiguous(&t)) {
        at[n++] = 's';
        n += print_list(at + n, room - (size_t) n, t.nb);
    }
    return n;
}

void kernel_name(const struct kernel_spec * spec, char name[KERNEL_NAME_MAX]) {
    char text[NAME_TEXT_MAX];
    size_t n = (size_t) snprintf(text, sizeof text, "%s", kernel_op_name(spec->op));
    for (int i = 0; i < spec->n_inputs && i < KERNEL_MAX_INPUTS; i++) {
        n += (size_t) print_tensor(text + n, sizeof text - n, &spec->inputs[i]);
    }
    n += (size_t) print_tensor(text + n, sizeof text - n, &spec->output);
    for (int i = 0; (unsigned) spec->op < KERNEL_OP_COUNT && i < op_infos[spec->op].n_params; i++) {
        n += (size_t) snprintf(text + n, sizeof text - n, i ? "x%x" : "_p%x", spec->params[i]);
    }
    if (spec->precision == KERNEL_EXACT && kernel_has_exact(spec)) {
        n += (size_t) snprintf(text + n, sizeof text - n, "_exact");
    }
    if (spec->columns) {
        n += (size_t) snprintf(text + n, sizeof text - n, "_c%d", spec->columns);
    }
    if (n < KERNEL_NAME_MAX) {
        memcpy(name, text, n + 1);
        return;
    }
    uint8_t digest[SHA256_BYTES];
    sha256(text, n, digest);
    size_t kept = KERNEL_NAME_MAX - 1 - HASH_TEXT;
    memcpy(name, text, kept);
    memcpy(name + kept, "-h", 2);
    sha256_print(digest, name + kept + 2);
}

void kernel_code_free(struct kernel_code * code) {
    free(code->pdi);
    free(code->insts);
    *code = (struct kernel_code){0};
}

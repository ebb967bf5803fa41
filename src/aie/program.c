// program: the front door of the compiler proper, which makes the PDIs with the cores' programs.
// And which programs belong together: an op of other shapes may run on another one, so that who
// keeps programs for machines without a compiler keeps all of those.
#include "aie.h"

#include "aie/ops/attention/attention.h"
#include "aie/ops/convert/convert.h"
#include "aie/ops/mixed.h"
#include "aie/ops/move/move.h"
#include "aie/ops/mul-mat/mul-mat.h"
#include "aie/ops/ops.h"
#include "aie/ops/rows/rows.h"

#include <string.h>

// ---- programs that belong together ----

// Of 1,024 elements each, for which no op runs on the mixed PDI.
enum { LARGE_ROWS = 16384 };

static struct tensor packed(enum dtype t, int64_t ne0, int64_t ne1) {
    return tensor_contiguous(t, (int64_t[]){ne0, ne1, 1, 1});
}

static struct kernel_spec unary(enum kernel_op op, enum aie_arch arch, struct tensor in,
                                struct tensor out) {
    return (struct kernel_spec){
        .op = op, .arch = arch, .n_inputs = 1, .inputs = {in}, .output = out};
}

static struct kernel_spec product(const struct kernel_spec * of, int64_t n) {
    const int64_t k = 64, m = 64;
    struct kernel_spec spec = *of;
    spec.inputs[0] = packed(of->inputs[0].dtype, k, m);
    spec.inputs[1] = packed(of->inputs[1].dtype, k, n);
    spec.output = packed(of->output.dtype, m, n);
    return spec;
}

static struct kernel_spec sum(const struct kernel_spec * of, int64_t rows) {
    struct tensor t = packed(of->output.dtype, 1024, rows);
    return (struct kernel_spec){
        .op = KERNEL_OP_ADD, .arch = of->arch, .n_inputs = 2, .inputs = {t, t}, .output = t};
}

// Of one kind of blocks: the program is for all.
static struct kernel_spec unpacking(enum aie_arch arch) {
    int64_t k = 256, words = k / kernel_block_k(KERNEL_Q8_0) * kernel_block_bytes(KERNEL_Q8_0) / 4;
    struct kernel_spec spec =
        unary(KERNEL_OP_UNPACK, arch, packed(DTYPE_I32, words, 1), packed(DTYPE_BF16, k, 1));
    spec.params[0] = KERNEL_Q8_0;
    return spec;
}

// Few columns, many columns, sums of what was cut along k, and the operands' way to bf16.
static bool product_related(const struct kernel_spec * spec, int i, struct kernel_spec * out) {
    static const enum dtype sources[] = {DTYPE_F32, DTYPE_F16};
    const int first_source = 4, blocks = first_source + (int) (sizeof sources / sizeof sources[0]);
    int n = spec->inputs[0].dtype == DTYPE_BF16 ? blocks + 1 : first_source;
    if (i >= n) {
        return false;
    }
    if (i == blocks) {
        *out = unpacking(spec->arch);
    } else if (i >= first_source) {
        *out = unary(KERNEL_OP_CONVERT, spec->arch, packed(sources[i - first_source], 64, 1),
                     packed(DTYPE_BF16, 64, 1));
    } else {
        *out = i >= 2 ? sum(spec, i == 2 ? 1 : LARGE_ROWS) : product(spec, i == 0 ? 1 : 64);
    }
    return true;
}

// One program for all shapes.
static bool same_program(const struct kernel_spec * spec, int i, struct kernel_spec * out) {
    *out = *spec;
    return i == 0;
}

// One program where all kernels of the op are in the mixed PDI or none is, else that and one with
// the program in all cores.
static bool by_size(const struct kernel_spec * spec, int i, struct kernel_spec * out) {
    static const int64_t sizes[] = {1, LARGE_ROWS};
    *out = *spec;
    if (i == 0 || i > 2) {
        return i == 0;
    }
    for (int t = 0; t < spec->n_inputs; t++) {
        out->inputs[t] = packed(spec->inputs[t].dtype, 1024, sizes[i - 1]);
    }
    out->output = packed(spec->output.dtype, 1024, sizes[i - 1]);
    return aie_supports(out, NULL) == ST_OK;
}

// One query of few keys is in the mixed PDI, many queries are not.
static bool by_queries(const struct kernel_spec * spec, int i, struct kernel_spec * out) {
    enum { HEAD = 64, HEADS = 32, SHARED = 8, KEYS = 256, MANY = 64 };
    *out = *spec;
    if (i == 0 || i > 2) {
        return i == 0;
    }
    int64_t queries = i == 1 ? 1 : MANY;
    out->n_inputs = 3;
    out->inputs[0] = tensor_contiguous(DTYPE_F32, (int64_t[]){HEAD, queries, HEADS, 1});
    for (int t = 1; t < 3; t++) {
        out->inputs[t] = tensor_contiguous(DTYPE_F16, (int64_t[]){HEAD, KEYS, SHARED, 1});
    }
    out->output = tensor_contiguous(DTYPE_F32, (int64_t[]){HEAD, HEADS, queries, 1});
    return aie_supports(out, NULL) == ST_OK;
}

// ---- the families ----

typedef enum status image_fn(const struct kernel_spec *, struct array_program *, struct error *);

static const struct {
    image_fn * image; // what a core is loaded with; NULL: another family's programs do it
    // Kernels of other programs that serve other shapes, see aie_related.
    bool (*related)(const struct kernel_spec *, int i, struct kernel_spec *);
} families[KERNEL_FAMILIES] = {
    [KERNEL_ELEMENTWISE] = {.image = elementwise_image, .related = by_size},
    [KERNEL_ROWS] = {.image = rows_image, .related = by_size},
    [KERNEL_PRODUCT] = {.image = mul_mat_image, .related = product_related},
    [KERNEL_CONVERSION] = {.related = same_program},
    [KERNEL_MOVE] = {.image = move_image, .related = by_size},
    [KERNEL_ATTENTION] = {.image = attention_image, .related = by_queries},
};

// ---- PDIs ----

// A column's cores have a program each, or none.
struct column {
    const struct array_program * cores[SPREAD_CORES];
};

static enum status write_pdi(const struct kernel_spec * spec, enum spread_kind kind,
                             const struct column columns[ARRAY_COLUMNS_MOST], uint8_t ** pdi,
                             size_t * size, struct error * err) {
    struct array a;
    uint8_t locks[SPREAD_LOCKS + MM_MEM_LOCKS];
    int n_locks = 0;
    spread_locks(locks);
    memcpy(locks + SPREAD_LOCKS, mm_mem_lock_init, MM_MEM_LOCKS);
    array_begin(&a, spec->arch);
    for (int col = 0; col < ops_columns(spec); col++) {
        const struct array_program * const * cores = columns[col].cores;
        for (int i = 0; i < SPREAD_CORES; i++) {
            if (cores[i]) {
                array_core(&a, col, ARRAY_ROW_CORE + i, cores[i]);
                n_locks = cores[i]->mem_locks > n_locks ? cores[i]->mem_locks : n_locks;
            }
        }
        array_mem(&a, col, locks, n_locks);
        spread_column(&a, col, kind);
    }
    return array_end(&a, pdi, size, err);
}

// What the mixed PDI holds: for each program a kernel that runs on it.
enum { MIXED_PROGRAMS = 4 };
enum in_columns { IN_ALL, IN_FIRST_HALF, IN_SECOND_HALF };

static const struct {
    enum kernel_op op;
    enum dtype in, out;
    int n_inputs, rows; // of the first input
    int first_core, n_cores;
    enum in_columns where;
} mixed[MIXED_PROGRAMS] = {
    {KERNEL_OP_ADD, DTYPE_F32, DTYPE_F32, 2, 1, MIXED_ELEMENTWISE, 1, IN_FIRST_HALF},
    {KERNEL_OP_RMS_NORM, DTYPE_F32, DTYPE_F32, 1, 1, MIXED_ROWS, 1, IN_FIRST_HALF},
    {KERNEL_OP_FLASH_ATTN_EXT, DTYPE_F32, DTYPE_F32, 3, 1, MIXED_ATTENTION, 2, IN_SECOND_HALF},
    {KERNEL_OP_MUL_MAT, DTYPE_BF16, DTYPE_F32, 2, 64, MIXED_PRODUCT, SPREAD_PAIR, IN_ALL},
};

static bool has_program(enum in_columns where, int col, int columns) {
    return where == IN_ALL || (where == IN_FIRST_HALF) == (col < mixed_columns(columns));
}

static enum status mixed_pdi(const struct kernel_spec * spec, uint8_t ** pdi, size_t * size,
                             struct error * err) {
    struct array_program programs[MIXED_PROGRAMS] = {0};
    struct column columns[ARRAY_COLUMNS_MOST] = {0};
    enum status st = ST_OK;
    for (int i = 0; i < MIXED_PROGRAMS && st == ST_OK; i++) {
        struct kernel_spec one = {
            .op = mixed[i].op,
            .arch = spec->arch,
            .n_inputs = mixed[i].n_inputs,
            .inputs = {packed(mixed[i].in, 64, mixed[i].rows), packed(mixed[i].in, 64, 1)},
            .output = packed(mixed[i].out, 64, 1)};
        st = families[kernel_op_info(one.op)->family].image(&one, &programs[i], err);
        for (int at = 0; at < ops_columns(spec) * mixed[i].n_cores; at++) {
            int col = at / mixed[i].n_cores, core = mixed[i].first_core + at % mixed[i].n_cores;
            if (has_program(mixed[i].where, col, ops_columns(spec))) {
                columns[col].cores[core] = &programs[i];
            }
        }
    }
    if (st == ST_OK) {
        st = write_pdi(spec, SPREAD_MIXED, columns, pdi, size, err);
    }
    for (int i = 0; i < MIXED_PROGRAMS; i++) {
        array_program_free(&programs[i]);
    }
    return st;
}

// One program: in all cores, or where products have it.
static enum status single_pdi(const struct kernel_spec * spec, uint8_t ** pdi, size_t * size,
                              struct error * err) {
    enum kernel_family family = kernel_op_info(spec->op)->family;
    struct array_program program = {0};
    enum status st = families[family].image(spec, &program, err);
    if (st == ST_OK && family == KERNEL_PRODUCT && !mul_mat_is_vector(spec)) {
        st = mul_mat_pdi(spec, &program, pdi, size, err);
    } else if (st == ST_OK && family == KERNEL_ATTENTION) {
        st = attention_pdi(spec, &program, pdi, size, err);
    } else if (st == ST_OK) {
        struct column columns[ARRAY_COLUMNS_MOST] = {0};
        for (int i = family == KERNEL_PRODUCT ? MIXED_PRODUCT : 0; i < SPREAD_CORES; i++) {
            for (int col = 0; col < ops_columns(spec); col++) {
                columns[col].cores[i] = &program;
            }
        }
        // Moves run on elementwise programs, which one of both loads.
        bool ways = family == KERNEL_ELEMENTWISE || family == KERNEL_MOVE;
        enum spread_kind kind = family == KERNEL_PRODUCT ? SPREAD_MIXED
                                : ways                   ? SPREAD_WAYS
                                                         : SPREAD_ALIKE;
        st = write_pdi(spec, kind, columns, pdi, size, err);
    }
    array_program_free(&program);
    return st;
}

enum status aie_compile_pdi(const struct kernel_spec * spec, uint8_t ** pdi, size_t * size,
                            struct error * err) {
    enum status st = aie_supports(spec, err);
    if (st != ST_OK) {
        return st;
    }
    char name[KERNEL_NAME_MAX];
    aie_program_name(spec, name);
    bool is_mixed = !strncmp(name, MIXED_NAME, sizeof MIXED_NAME - 1);
    struct kernel_spec many;
    bool alone = unpack_is_alone(spec);
    if (!is_mixed && (spec->op == KERNEL_OP_UNPACK ||
                      spec->op == KERNEL_OP_CONVERT)) { // where products of many rows are
        many = *spec;
        many.op = KERNEL_OP_MUL_MAT;
        many.n_inputs = 2;
        many.params[0] = 0;
        many.inputs[0] = many.inputs[1] = packed(DTYPE_BF16, 64, 64);
        many.output = packed(DTYPE_F32, 64, 64);
        spec = &many;
    }
    if (alone) { // by their array, with another program
        struct array_program program = {0};
        st = mm_unpack_image(spec, &program, err);
        st = st == ST_OK ? mul_mat_pdi(spec, &program, pdi, size, err) : st;
        array_program_free(&program);
        return st;
    }
    return (is_mixed ? mixed_pdi : single_pdi)(spec, pdi, size, err);
}

enum status aie_compile(const struct kernel_spec * spec, struct kernel_code * out,
                        struct error * err) {
    memset(out, 0, sizeof *out);
    enum status st = aie_compile_pdi(spec, &out->pdi, &out->pdi_size, err);
    if (st == ST_OK) {
        st = aie_compile_insts(spec, &out->insts, &out->n_insts, err);
    }
    if (st != ST_OK) {
        kernel_code_free(out);
    }
    return st;
}

bool aie_related(const struct kernel_spec * spec, int i, struct kernel_spec * out) {
    return families[kernel_op_info(spec->op)->family].related(spec, i, out);
}

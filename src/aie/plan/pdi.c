// pdi: the front door of the compiler proper, which makes the PDIs with the cores' programs, from
// the rows of programs.def.
#include "plan.h"

#include "aie/aie.h"
#include "aie/ops/mixed.h"

#include <string.h>

typedef enum status image_fn(const struct aie_program *, enum aie_arch, struct array_program *,
                             struct error *);

// What a core is loaded with.
static image_fn * const images[AIE_CODES] = {
    [AIE_CODE_ELEMENTWISE] = elementwise_image,
    [AIE_CODE_ROWS_LAYER] = rows_image,
    [AIE_CODE_ROWS_REDUCE] = rows_image,
    [AIE_CODE_ROWS_SORT] = rows_image,
    [AIE_CODE_GEMM] = mul_mat_image,
    [AIE_CODE_GEMM_SHARED] = mul_mat_image,
    [AIE_CODE_GEMM_STORED] = mul_mat_image,
    [AIE_CODE_GEMM_BY_BLOCKS] = mul_mat_image,
    [AIE_CODE_GEMV] = mul_mat_image,
    [AIE_CODE_GEMV_PLANES] = mul_mat_image,
    [AIE_CODE_UNPACK] = mul_mat_image,
    [AIE_CODE_UNPACK_PLANES] = mul_mat_image,
    [AIE_CODE_ATTENTION] = attention_image,
    [AIE_CODE_ATTENTION_MATRIX] = attention_image,
    [AIE_CODE_ATTENTION_HALVES] = attention_image,
};

// A column's cores have a program each, or none.
struct column {
    const struct array_program * cores[SPREAD_CORES];
};

struct device {
    enum aie_arch arch;
    int columns;
};

static enum status write_pdi(struct device on, enum spread_kind kind,
                             const struct column columns[ARRAY_COLUMNS_MOST], uint8_t ** pdi,
                             size_t * size, struct error * err) {
    struct array a;
    uint8_t locks[SPREAD_LOCKS + MM_MEM_LOCKS];
    int n_locks = 0;
    spread_locks(locks);
    memcpy(locks + SPREAD_LOCKS, mm_mem_lock_init, MM_MEM_LOCKS);
    for (int channel = 0; channel < 2; channel++) { // which has two locks, the first is that
        locks[SPREAD_LOCKS + 2 * channel] = (uint8_t) mm_places(on.arch);
    }
    array_begin(&a, on.arch);
    for (int col = 0; col < on.columns; col++) {
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

static void put(struct column columns[ARRAY_COLUMNS_MOST], struct device on,
                const struct aie_decoder_part * part, const struct array_program * program) {
    for (int col = 0; col < on.columns; col++) {
        bool first_half = col < mixed_columns(on.columns);
        bool there =
            part->columns == AIE_IN_ALL || (part->columns == AIE_IN_FIRST_HALF) == first_half;
        for (int i = 0; there && i < part->n_cores; i++) {
            columns[col].cores[part->first_core + i] = program;
        }
    }
}

static enum status mixed_pdi(const struct aie_program * decoder, struct device on, uint8_t ** pdi,
                             size_t * size, struct error * err) {
    struct array_program programs[AIE_DECODER_PARTS] = {0};
    struct column columns[ARRAY_COLUMNS_MOST] = {0};
    enum status st = ST_OK;
    for (int i = 0; i < AIE_DECODER_PARTS && st == ST_OK; i++) {
        const struct aie_program * p = &aie_programs[aie_decoders[i].program];
        if (&aie_programs[aie_decoders[i].of] == decoder) {
            st = images[p->code](p, on.arch, &programs[i], err);
            put(columns, on, &aie_decoders[i], &programs[i]);
        }
    }
    if (st == ST_OK) {
        st = write_pdi(on, SPREAD_MIXED, columns, pdi, size, err);
    }
    for (int i = 0; i < AIE_DECODER_PARTS; i++) {
        array_program_free(&programs[i]);
    }
    return st;
}

// One program, in all cores or where products of few rows have it.
static enum status spread_pdi(struct device on, enum aie_layout layout,
                              const struct array_program * program, uint8_t ** pdi, size_t * size,
                              struct error * err) {
    const int first = layout == AIE_LAYOUT_GEMV ? MIXED_PRODUCT : 0;
    struct column columns[ARRAY_COLUMNS_MOST] = {0};
    put(columns, on,
        &(struct aie_decoder_part){
            .first_core = first, .n_cores = SPREAD_CORES - first, .columns = AIE_IN_ALL},
        program);
    enum spread_kind kind = layout == AIE_LAYOUT_GEMV   ? SPREAD_MIXED
                            : layout == AIE_LAYOUT_WAYS ? SPREAD_WAYS
                                                        : SPREAD_ALIKE;
    return write_pdi(on, kind, columns, pdi, size, err);
}

enum status aie_pdi(const struct aie_program * p, enum aie_arch arch, int columns, uint8_t ** pdi,
                    size_t * size, struct error * err) {
    struct device on = {arch, columns ? columns : aie_target(arch)->columns};
    if (p->layout == AIE_LAYOUT_MIXED) {
        return mixed_pdi(p, on, pdi, size, err);
    }
    struct array_program program = {0};
    enum status st = images[p->code](p, arch, &program, err);
    if (st == ST_OK && p->layout == AIE_LAYOUT_GEMM) {
        st = mul_mat_pdi(p, arch, on.columns, &program, pdi, size, err);
    } else if (st == ST_OK && p->layout == AIE_LAYOUT_ATTENTION) {
        st = attention_pdi(p, arch, on.columns, &program, pdi, size, err);
    } else if (st == ST_OK) {
        st = spread_pdi(on, p->layout, &program, pdi, size, err);
    }
    array_program_free(&program);
    return st;
}

// ---- for who has a spec ----

enum status aie_compile_pdi(const struct kernel_spec * spec, uint8_t ** pdi, size_t * size,
                            struct error * err) {
    struct aie_plan plan;
    enum status st = aie_plan(spec, &plan, err);
    return st == ST_OK ? aie_pdi(plan.program, spec->arch, spec->columns, pdi, size, err) : st;
}

enum status aie_compile(const struct kernel_spec * spec, struct kernel_code * out,
                        struct error * err) {
    struct aie_plan plan;
    memset(out, 0, sizeof *out);
    enum status st = aie_plan(spec, &plan, err);
    if (st == ST_OK) {
        st = aie_pdi(plan.program, spec->arch, spec->columns, &out->pdi, &out->pdi_size, err);
    }
    if (st == ST_OK) {
        st = aie_stream(&plan, &out->insts, &out->n_insts, err);
    }
    if (st != ST_OK) {
        kernel_code_free(out);
    }
    return st;
}

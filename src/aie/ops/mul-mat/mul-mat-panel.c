// mul-mat-panel: how a matrix of quantized weights best lies in memory. Gemv reads a chunk of each
// row of a tile, and the next chunk when all rows had their turn: runs of 72 to 300 bytes, where
// memory takes as long for each as for twice that and more. In panels the chunks of several rows
// are one run.
//
// The layout is chosen for one row of b, which memory bounds. All other products take it as it is:
// their tiles are whole panels, and their chunks the panel's.
#include "mul-mat.h"
#include "mul-mat-plan.h"

enum { WHOLE_RUN = 512 }; // bytes, from which on a run is long: what a shim asks for at once

// What reading all rows costs, in bytes; 0: no such kernel.
static int64_t cost(const struct kernel_spec * spec, int64_t chunk_bytes) {
    struct mm_plan p;
    if (mm_plan_make(spec, &p, NULL) != ST_OK || !p.is_vector) {
        return 0;
    }
    int64_t rows = p.m_steps * p.y_rows * p.columns * p.core_rows;
    int64_t run = (p.panel.rows ? p.panel.rows : 1) * chunk_bytes;
    return rows * p.k / p.block_k * p.block_bytes * (run < WHOLE_RUN ? WHOLE_RUN : run) / run;
}

// Words of a chunk: as many slices as make few enough chunks of a row.
static int chunk_words(enum kernel_blocks kind, int slice, int64_t k) {
    int64_t slices = k / slice, once = kernel_block_cut(kind) / slice;
    for (int64_t q = once; k % slice == 0 && once && q <= slices; q += once) {
        if (slices % q == 0 && slices / q <= MMP_CHUNKS) {
            return (int) (q * slice / kernel_block_k(kind) * kernel_block_bytes(kind) / 4);
        }
    }
    return 0;
}

bool mul_mat_panel(const struct kernel_spec * product, struct kernel_panel * out) {
    struct kernel_spec spec = *product;
    enum kernel_blocks kind = kernel_blocks_of(&spec);
    const struct mm_type * t = mm_type(spec.arch, DTYPE_BF16);
    *out = (struct kernel_panel){0};
    if (spec.op != KERNEL_OP_MUL_MAT_BLOCKS || kind >= KERNEL_BLOCKS || !t ||
        spec.output.ne[1] != 1) {
        return false;
    }
    int words = chunk_words(kind, mm_slice_k(t), spec.inputs[1].ne[0]);
    spec.params[0] = kernel_blocks_param(kind, *out);
    int64_t best = words ? cost(&spec, 4 * (int64_t) words) : 0;
    for (int rows = 2; best && rows <= KERNEL_PANEL_ROWS; rows *= 2) {
        struct kernel_panel panel = kernel_panel(spec.arch, kind, rows, words);
        spec.params[0] = kernel_blocks_param(kind, panel);
        int64_t now = cost(&spec, 4 * (int64_t) words);
        if (now && now <= best) {
            best = now;
            *out = panel;
        }
    }
    return out->rows != 0;
}

bool mul_mat_reads_by(const struct kernel_spec * product, int64_t rows) {
    struct mm_plan p;
    bool op = product->op == KERNEL_OP_MUL_MAT || product->op == KERNEL_OP_MUL_MAT_BLOCKS;
    bool apart = op && rows > 0 && mm_plan_make(product, &p, NULL) == ST_OK && p.is_vector;
    for (int64_t i = 0; apart && i < p.steps; i++) {
        struct mm_step s = mm_plan_step(&p, product, i);
        int64_t read = (p.m_pass > 1 ? s.tiles : 1) * mm_plan_rows(&p); // by one descriptor
        for (int stream = 0; stream < p.columns * p.core_rows;
             stream += p.joint ? p.core_rows : 1) {
            int64_t first = mm_plan_m(&p, s.m_step, stream);
            apart &= first / rows == (first + read - 1) / rows;
        }
    }
    return apart;
}

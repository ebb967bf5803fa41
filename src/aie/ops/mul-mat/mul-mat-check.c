// mul-mat-check: which operands there is a product for, as far as types, shapes and strides say;
// what does not fit memtiles and descriptors the plan finds out (mul-mat-plan.c).
#include "mul-mat-plan.h"

#include "kernel/shared.h"

static enum status check_strides(const struct tensor * t, const char * name, struct error * err) {
    int size = dtype_size(t->dtype);
    bool whole = t->nb[0] == size || t->ne[0] == 1;
    for (int i = 1; i < TENSOR_DIMS; i++) {
        whole &= t->nb[i] % 4 == 0 || t->ne[i] == 1;
    }
    if (!whole) {
        return error_set(err, ST_UNSUPPORTED,
                         "%s: rows must be contiguous and begin at whole words", name);
    }
    if (t->ne[1] > 1 && (t->nb[1] < 4 || t->nb[1] / 4 > MMP_STEP_LIMIT)) {
        return error_set(err, ST_UNSUPPORTED, "%s: rows lie %lld bytes apart, not 4 to 4 MiB", name,
                         (long long) t->nb[1]);
    }
    int64_t bytes = tensor_bytes(t);
    if (bytes < 0 || bytes > (int64_t) UINT32_MAX - 4) {
        return error_set(err, ST_UNSUPPORTED, "%s: a tensor of 4 GiB or more", name);
    }
    return ST_OK;
}

// Rows of quantized blocks are words, and whole slices.
static enum status check_blocks(const struct kernel_spec * spec, struct error * err) {
    const struct tensor *a = &spec->inputs[0], *b = &spec->inputs[1];
    int bytes = kernel_block_bytes(kernel_blocks_of(spec));
    const struct mm_type * t = mm_type(spec->arch, DTYPE_BF16);
    if (spec->n_inputs != 2 || !t || !bytes || a->dtype != DTYPE_I32 ||
        (b->dtype != DTYPE_F32 && b->dtype != DTYPE_BF16) || spec->output.dtype != DTYPE_F32) {
        return error_set(err, ST_UNSUPPORTED,
                         "a product of blocks takes words of known ones, and f32 or bf16");
    }
    enum kernel_blocks kind = kernel_blocks_of(spec);
    if (b->ne[0] % kernel_block_cut(kind)) {
        return error_set(err, ST_UNSUPPORTED, "rows of %lld quantized elements, no multiple of %d",
                         (long long) b->ne[0], kernel_block_cut(kind));
    }
    struct kernel_panel panel = kernel_panel_of(spec);
    // Rows may go on behind what is taken of them, by whole chunks.
    if (!kernel_panel_check(&panel, kind, a->ne[0], a->ne[1]) ||
        (panel.rows && a->ne[1] > 1 && (a->nb[1] < a->ne[0] * 4 || a->nb[1] % (panel.words * 4)))) {
        return error_set(err, ST_UNSUPPORTED,
                         "panels of %d rows and chunks of %d words do not fit %lld rows of %lld",
                         panel.rows, panel.words, (long long) a->ne[1], (long long) a->ne[0]);
    }
    // What becomes block floats is pairs of q4_0, eight rows at a time.
    if (kernel_blocks_are_shared(spec) &&
        (kind != KERNEL_Q4_0 || !mm_shared_type(spec->arch, true) || b->dtype != DTYPE_BF16 ||
         panel.pair <= 0 || a->ne[1] % SHARED_EIGHT || b->ne[0] % SHARED_SLICE)) {
        return error_set(err, ST_UNSUPPORTED,
                         "block floats are made of q4_0 in panels, eight rows at a time");
    }
    if (a->ne[0] != b->ne[0] / kernel_block_k(kind) * bytes / 4) {
        return error_set(err, ST_INVALID, "rows of %lld words are not %lld elements of %s",
                         (long long) a->ne[0], (long long) b->ne[0], kernel_block_name(kind));
    }
    return ST_OK;
}

// Stored block floats are groups of eight rows, one behind the other.
static enum status check_stored(const struct kernel_spec * spec, struct error * err) {
    const struct tensor *a = &spec->inputs[0], *b = &spec->inputs[1];
    if (b->ne[0] % SHARED_SLICE || a->ne[0] != shared_row_bytes(b->ne[0]) ||
        a->ne[1] % SHARED_EIGHT || a->nb[1] != a->ne[0]) {
        return error_set(err, ST_UNSUPPORTED,
                         "%lld rows of %lld bytes are no block floats of %lld elements: rows come "
                         "by %d, without gaps, elements by %d",
                         (long long) a->ne[1], (long long) a->ne[0], (long long) b->ne[0],
                         SHARED_EIGHT, SHARED_SLICE);
    }
    return ST_OK;
}

enum status mm_check(const struct kernel_spec * spec, struct error * err) {
    const struct tensor *a = &spec->inputs[0], *b = &spec->inputs[1], *out = &spec->output;
    if (spec->n_inputs != 2) {
        return error_set(err, ST_INVALID, "mul_mat takes 2 inputs, %d given", spec->n_inputs);
    }
    bool blocks = spec->op == KERNEL_OP_MUL_MAT_BLOCKS;
    enum status st = blocks ? check_blocks(spec, err) : ST_OK;
    if (st != ST_OK) {
        return st;
    }
    const struct mm_type * t = mm_type_for(spec);
    bool b_fits =
        t && (b->dtype == t->in || (t->in == DTYPE_BF16 && b->dtype == DTYPE_F32 && !t->shared));
    b_fits = b_fits && (!t->shared || t->stored || a->dtype == t->in);
    if (!b_fits || out->dtype != t->out) {
        return error_set(err, ST_UNSUPPORTED,
                         "no mul_mat of %s and %s to %s on %s; there are bf16 or f16 with bf16 or "
                         "f32 to f32, i8 with i8 and i16 with i16 to i32",
                         dtype_name(a->dtype), dtype_name(b->dtype), dtype_name(out->dtype),
                         kernel_arch_name(spec->arch));
    }
    for (int i = 0; i < TENSOR_DIMS; i++) {
        if (a->ne[i] <= 0 || b->ne[i] <= 0 || out->ne[i] <= 0) {
            return error_set(err, ST_UNSUPPORTED, "a tensor without elements");
        }
    }
    st = t->stored && !blocks ? check_stored(spec, err) : ST_OK;
    if (st != ST_OK) {
        return st;
    }
    bool fits = (blocks || t->stored || a->ne[0] == b->ne[0]) && out->ne[0] == a->ne[1];
    for (int i = 1; i < TENSOR_DIMS; i++) {
        fits &= out->ne[i] == b->ne[i] && (i == 1 || b->ne[i] % a->ne[i] == 0);
    }
    if (!fits) {
        return error_set(err, ST_INVALID, "the shapes do not fit a product");
    }
    if (b->ne[0] % MM_WHOLE_K) {
        return error_set(err, ST_UNSUPPORTED, "rows of %lld elements, no multiple of %d",
                         (long long) b->ne[0], MM_WHOLE_K);
    }
    st = check_strides(a, "first input", err);
    st = st == ST_OK ? check_strides(b, "second input", err) : st;
    return st == ST_OK ? check_strides(out, "output", err) : st;
}

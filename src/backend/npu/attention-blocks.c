// attention-blocks: see the header.
#include "attention-blocks.h"

#include <string.h>

enum {
    ROW = 64,        // numbers that a row is a multiple of
    GOOD_ROW = 512,  // of what lies without gaps: all cores of a column have work
    MOST_ROW = 4096, // of what does not
};

// Blocks as rows of numbers, `step` bytes apart; as many of them as the other dimensions say.
struct rows {
    enum kernel_blocks kind;
    enum ggml_type type;
    int64_t length, n;
    size_t step;
    int64_t outer[2];
    size_t outer_step[2];
};

static bool kind_of(enum ggml_type type, enum kernel_blocks * out) {
    static const enum ggml_type types[KERNEL_BLOCKS] = {
#define BLOCKS(id, ...) [KERNEL_##id] = GGML_TYPE_##id,
#include "kernel/blocks.def"
    };
    int i = 0;
    while (i < KERNEL_BLOCKS && types[i] != type) {
        i++;
    }
    *out = (enum kernel_blocks) i;
    return i < KERNEL_BLOCKS;
}

// Dimensions 1 to 3, the one whose elements lie closest first; those of one element are last.
static void order_of(const struct view * v, int order[GGML_MAX_DIMS - 1]) {
    for (int i = 0; i < GGML_MAX_DIMS - 1; i++) {
        int d = i + 1, at = i;
        size_t step = v->ne[d] > 1 ? v->nb[d] : SIZE_MAX;
        for (; at > 0; at--) {
            int before = order[at - 1];
            if ((v->ne[before] > 1 ? v->nb[before] : SIZE_MAX) <= step) {
                break;
            }
            order[at] = before;
        }
        order[at] = d;
    }
}

static struct rows rows_of(const struct view * v, enum kernel_blocks kind) {
    struct rows r = {.kind = kind, .type = v->type, .n = 1, .outer = {1, 1}};
    int order[GGML_MAX_DIMS - 1], i = 0;
    order_of(v, order);
    int64_t run = v->ne[0];
    for (; i < 3 && (v->ne[order[i]] == 1 || v->nb[order[i]] == ggml_row_size(v->type, run)); i++) {
        run *= v->ne[order[i]];
    }
    r.length = run;
    r.step = ggml_row_size(v->type, run);
    if (i < 3 && run <= MOST_ROW) { // rows as they are
        r.n = v->ne[order[i]];
        r.step = v->nb[order[i]];
        i++;
    } else {
        int64_t row = GOOD_ROW;
        while (row > ROW && run % row) {
            row /= 2;
        }
        r.length = run % row ? run : row;
        r.n = run / r.length;
        r.step = ggml_row_size(v->type, r.length);
    }
    for (int k = 0; i < 3; i++, k++) {
        r.outer[k] = v->ne[order[i]];
        r.outer_step[k] = v->nb[order[i]];
    }
    return r;
}

// The kernel for n rows.
static struct kernel_spec spec_of(const struct hsa_device * device, const struct rows * r,
                                  int64_t n) {
    int64_t words = (int64_t) ggml_row_size(r->type, r->length) / DMA_WORD;
    struct view in = view_contiguous(GGML_TYPE_I32, (int64_t[]){words, n, 1, 1}, NULL),
                out = view_contiguous(GGML_TYPE_BF16, (int64_t[]){r->length, n, 1, 1}, NULL);
    in.nb[1] = r->step;
    in.nb[2] = in.nb[3] = r->step * (size_t) n;
    return (struct kernel_spec){
        .op = KERNEL_OP_UNPACK,
        .arch = device->npu->arch,
        .n_inputs = 1,
        .inputs[0] = plan_tensor(&in),
        .output = plan_tensor(&out),
        .params[0] = kernel_blocks_param(r->kind, (struct kernel_panel){0}),
    };
}

static bool can(const struct hsa_device * device, const struct rows * r, int64_t n) {
    struct kernel_spec spec = spec_of(device, r, n);
    return plan_can(device->npu->store, &spec, false);
}

// Rows that one kernel makes; 0: there is none.
static int64_t chunk_of(const struct hsa_device * device, const struct rows * r) {
    int64_t n = r->n;
    while (n > 1 && !(can(device, r, n) && (r->n % n == 0 || can(device, r, r->n % n)))) {
        n = (n + 1) / 2;
    }
    return can(device, r, n) ? n : 0;
}

struct view attention_unpacked(const struct view * blocks) {
    struct view v = view_contiguous(GGML_TYPE_BF16, blocks->ne, NULL);
    int order[GGML_MAX_DIMS - 1];
    order_of(blocks, order);
    size_t step = (size_t) v.ne[0] * v.nb[0];
    for (int i = 0; i < GGML_MAX_DIMS - 1; i++) {
        v.nb[order[i]] = step;
        step *= (size_t) v.ne[order[i]];
    }
    return v;
}

enum status attention_blocks_check(struct hsa_device * device, const struct view * blocks,
                                   struct error * err) {
    enum kernel_blocks kind;
    if (!kind_of(blocks->type, &kind)) {
        return error_set(err, ST_UNSUPPORTED, "no core unpacks keys or values of %s",
                         ggml_type_name(blocks->type));
    }
    struct rows r = rows_of(blocks, kind);
    if (r.length % kernel_block_cut(kind) || r.step % DMA_WORD || r.outer_step[0] % DMA_WORD ||
        r.outer_step[1] % DMA_WORD) {
        return error_set(err, ST_UNSUPPORTED,
                         "keys or values of %s that lie in runs of %lld numbers, no multiple of %d",
                         ggml_type_name(blocks->type), (long long) r.length,
                         kernel_block_cut(kind));
    }
    if (!chunk_of(device, &r)) {
        struct kernel_spec spec = spec_of(device, &r, 1);
        struct error why;
        plan_why_not(device->npu->store, &spec, &why);
        return error_set(err, ST_UNSUPPORTED, "%s", why.text);
    }
    return ST_OK;
}

enum status attention_blocks_send(struct hsa_stream * s, const struct view * blocks,
                                  const struct view * to, struct error * err) {
    enum kernel_blocks kind;
    enum status st = attention_blocks_check(s->device, blocks, err);
    if (st != ST_OK || !kind_of(blocks->type, &kind)) {
        return st;
    }
    struct rows r = rows_of(blocks, kind);
    int64_t chunk = chunk_of(s->device, &r);
    char * out = to->data;
    for (int64_t k = 0; k < r.outer[0] * r.outer[1] && st == ST_OK; k++) {
        char * in = blocks->data + (size_t) (k % r.outer[0]) * r.outer_step[0] +
                    (size_t) (k / r.outer[0]) * r.outer_step[1];
        for (int64_t row = 0, n; row < r.n && st == ST_OK; row += n) {
            n = r.n - row < chunk ? r.n - row : chunk;
            struct kernel_spec spec = spec_of(s->device, &r, n);
            char * at[PLAN_OPERANDS] = {in + (size_t) row * r.step, out};
            st = npu_dispatch(s, &spec, at, err);
            out += n * r.length * (int64_t) ggml_type_size(GGML_TYPE_BF16);
        }
    }
    return st;
}

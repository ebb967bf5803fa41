// mat-plan: how MUL_MAT and OUT_PROD become kernels. An operand goes to the kernel as it stands
// where the kernel can read it, else it is packed: by the CONVERT kernel, or by the host. What is
// too large for one kernel is cut into parts (mat-ways.c says how), of which each is a dispatch;
// where k is cut, the ADD kernel sums up what they come to.
// supports_op and graph_compute both come here.
#include "mat-plan-impl.h"

#include "kernel/shared.h"

#include <stdlib.h>
#include <string.h>

#define RESULT_SIZE 4 // bytes of a sum: f32, or i32
#define FEW_DOTS    16
#define PIECE_ROWS  256
#define PIECE       ((int64_t) 1 << 23) // numbers of quantized weights that are bf16 at a time

// ---- precision ----

static enum mat_precision asked;
static pthread_once_t asked_once = PTHREAD_ONCE_INIT;

static void read_environment(void) {
    const char * value = getenv("GGML_HSA_MUL_MAT");
    if (!value || !*value) {
        asked = MAT_AS_ASKED;
    } else if (!strcmp(value, "lanes")) {
        asked = MAT_LANES;
    } else if (!strcmp(value, "bf16")) {
        asked = MAT_ALWAYS_BF16;
    } else if (!strcmp(value, "precise")) {
        asked = MAT_ALWAYS_PRECISE;
    } else if (!strcmp(value, "block")) {
        asked = MAT_BLOCK;
    } else if (!strcmp(value, "block-lean")) {
        asked = MAT_LEAN;
    } else {
        log_warn("GGML_HSA_MUL_MAT=%.40s is not known and is ignored: it may be lanes, bf16, "
                 "precise, block or block-lean",
                 value);
    }
}

enum mat_precision mat_precision_asked(void) {
    pthread_once(&asked_once, read_environment);
    return asked;
}

// True where ggml's CPU rounds nothing and the result is a few dot products. Errors of bf16 may be
// all that is left of a sum near zero, and three times little work is little.
static bool is_few_dots(const struct ggml_tensor * node) {
    return node->src[0]->type == GGML_TYPE_F32 && node->src[1]->type == GGML_TYPE_F32 &&
           ggml_nelements(node) <= FEW_DOTS;
}

// Word 0 says how sums are accumulated, word 3 what src1 may be rounded to. Both are more than bf16
// where F32 is asked for.
bool mat_is_precise(const struct mat_world * w, const struct ggml_tensor * node) {
    bool has_words = node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID;
    bool wished =
        has_words && (node->op_params[0] == GGML_PREC_F32 || node->op_params[3] == GGML_PREC_F32);
    return w->precision == MAT_ALWAYS_PRECISE ||
           (w->precision != MAT_ALWAYS_BF16 && (wished || is_few_dots(node)));
}

// ---- views ----

// Elements that follow each other, in rows that begin at whole words.
static bool has_word_rows(const struct view * v) {
    bool ok = v->nb[0] == ggml_type_size(v->type) && (uintptr_t) v->data % DMA_WORD == 0;
    for (int d = 1; d < GGML_MAX_DIMS; d++) {
        ok &= v->ne[d] == 1 || v->nb[d] % DMA_WORD == 0;
    }
    return ok;
}

bool mat_is_limited(const struct mat_operand * o) {
    return o->way == MAT_BY_KERNEL && o->convert.op == KERNEL_OP_CONVERT &&
           o->convert.params[0] == MAT_HI_STORED;
}

bool mat_stands(const struct mat_source * s, enum mat_pieces pieces) {
    const struct view * v = &s->view;
    return pieces == MAT_HI && !s->columns &&
           (v->type == GGML_TYPE_BF16 || mat_is_integer(v->type)) &&
           v->ne[0] % MAT_K_MULTIPLE == 0 && has_word_rows(v);
}

// ---- quantized blocks ----

static const enum ggml_type streamed[KERNEL_BLOCKS] = {
#define BLOCKS(id, ...) [KERNEL_##id] = GGML_TYPE_##id,
#include "kernel/blocks.def"
};

bool mat_blocks_of(enum ggml_type type, enum kernel_blocks * out) {
    for (int i = 0; i < KERNEL_BLOCKS; i++) {
        if (streamed[i] == type) {
            *out = (enum kernel_blocks) i;
            return kernel_block_is_streamed(*out);
        }
    }
    return false;
}

bool mat_streams(const struct mat_source * s, enum mat_pieces pieces) {
    enum kernel_blocks blocks;
    return pieces == MAT_HI && !s->columns && mat_blocks_of(s->view.type, &blocks) &&
           s->view.ne[0] % kernel_block_cut(blocks) == 0 && has_word_rows(&s->view);
}

// Rows of blocks as the kernel has them: words.
static struct tensor words_of(const struct view * v) {
    struct view words = *v;
    words.type = GGML_TYPE_I32;
    words.ne[0] = v->ne[0] / ggml_blck_size(v->type) * (int64_t) ggml_type_size(v->type) / DMA_WORD;
    words.nb[0] = DMA_WORD;
    return plan_tensor(&words);
}

bool mat_panel(const struct mat_world * w, const struct view * weights, struct kernel_panel * out) {
    struct mat_source s = {.view = *weights};
    enum kernel_blocks blocks;
    *out = (struct kernel_panel){0};
    if (!mat_streams(&s, MAT_HI) || !mat_blocks_of(weights->type, &blocks)) {
        return false;
    }
    struct view a = *weights;
    a.ne[2] = a.ne[3] = 1;
    struct view b = view_contiguous(GGML_TYPE_F32, (int64_t[]){a.ne[0], 1, 1, 1}, NULL);
    struct view sums = view_contiguous(GGML_TYPE_F32, (int64_t[]){a.ne[1], 1, 1, 1}, NULL);
    struct kernel_spec spec = {
        .op = KERNEL_OP_MUL_MAT_BLOCKS,
        .arch = w->arch,
        .n_inputs = 2,
        .inputs = {words_of(&a), plan_tensor(&b)},
        .output = plan_tensor(&sums),
        .params[0] = kernel_blocks_param(blocks, *out),
    };
    if (!store_panel(w->store, &spec, out)) {
        return false;
    }
    spec.params[0] = kernel_blocks_param(blocks, *out);
    bool can = store_can_itself(w->store, &spec); // where packs decide, they may lack it
    *out = can ? *out : (struct kernel_panel){0};
    return can;
}

// Dimensions 1 to 3 as one, where the rows follow each other at one distance.
static bool flatten(struct view * v) {
    int64_t n = 1;
    size_t step = v->nb[1];
    for (int d = 1; d < GGML_MAX_DIMS; d++) {
        if (v->ne[d] == 1) {
            continue;
        }
        if (n == 1) {
            step = v->nb[d];
        } else if (v->nb[d] != step * (size_t) n) {
            return false;
        }
        n *= v->ne[d];
    }
    v->ne[1] = n;
    v->nb[1] = step;
    v->ne[2] = v->ne[3] = 1;
    return true;
}

// ---- operands ----

// Blocks become bf16 as many rows at a time as a kernel takes, so one kernel for some rows is
// enough.
static bool can_unpack(const struct mat_ask * r, struct mat_operand * o) {
    const struct view * from = &o->source.view;
    enum kernel_blocks blocks;
    if (!mat_streams(&o->source, o->pieces) || !mat_blocks_of(from->type, &blocks)) {
        return false;
    }
    o->convert = (struct kernel_spec){
        .op = KERNEL_OP_UNPACK,
        .arch = r->world->arch,
        .n_inputs = 1,
        .inputs[0] = words_of(from),
        .output = plan_tensor(&o->packed),
        .params[0] = kernel_blocks_param(blocks, o->source.panel),
    };
    struct kernel_spec one = o->convert;
    for (int d = 1; d < TENSOR_DIMS; d++) {
        one.inputs[0].ne[d] = one.output.ne[d] =
            d == 1 && o->source.panel.rows ? o->source.panel.rows : 1;
    }
    return store_can_itself(r->world->store, &one);
}

static bool can_convert(const struct mat_ask * r, struct mat_operand * o) {
    const struct view * from = &o->source.view;
    if (can_unpack(r, o)) {
        return true;
    }
    if ((from->type != GGML_TYPE_F32 && from->type != GGML_TYPE_F16) || !has_word_rows(from)) {
        return false;
    }
    o->convert = (struct kernel_spec){
        .op = KERNEL_OP_CONVERT,
        .arch = r->world->arch,
        .n_inputs = 1,
        .inputs[0] = plan_tensor(from),
        .output = plan_tensor(&o->packed),
        .params[0] = (uint32_t) o->pieces,
    };
    return store_can_itself(r->world->store, &o->convert);
}

// Can the cores of a product make it bf16?
static bool cores_take(const struct mat_source * s, enum mat_pieces pieces, enum ggml_type type) {
    const struct view * v = &s->view;
    return pieces == MAT_HI && !s->columns && v->type == type && v->ne[0] % MAT_K_MULTIPLE == 0 &&
           has_word_rows(v);
}

static struct mat_operand lay_out(const struct mat_ask * r, const struct mat_source * source,
                                  enum mat_pieces pieces, bool stands) {
    struct mat_operand o = {
        .source = *source, .pieces = pieces, .packed = mat_packed(source, pieces, NULL)};
    if (stands) {
        o.way = MAT_AS_IT_STANDS;
        o.kernel = source->view;
        return o;
    }
    o.way = can_convert(r, &o) ? MAT_BY_KERNEL : MAT_BY_HOST;
    o.kernel = o.packed;
    return o;
}

// Block floats, which are kept with the weights: as long as their rows are, for who counts
// elements.
static struct mat_operand lay_out_stored(const struct mat_source * source) {
    struct mat_operand o = {.source = *source,
                            .pieces = MAT_STORED,
                            .way = MAT_BY_HOST,
                            .packed = mat_packed(source, MAT_STORED, NULL)};
    o.kernel = o.packed;
    o.kernel.ne[0] = source->view.ne[0];
    return o;
}

static void lay_out_result(const struct mat_ask * r, bool packed, struct mat_plan * p) {
    struct plan_operand * o = &p->result;
    o->tensor = r->result;
    o->kernel = o->tensor;
    o->staged = packed || !has_word_rows(&o->tensor);
    // The kernel writes its first sums while it still reads its last rows, so the result may
    // overlap neither operand.
    for (int i = 0; i < 2; i++) {
        const struct mat_operand * in = i ? &p->b : &p->a;
        o->staged |= in->way == MAT_AS_IT_STANDS && plan_clobbers(&o->tensor, &in->kernel);
    }
    if (o->staged) {
        o->kernel = view_contiguous(o->tensor.type, o->tensor.ne, NULL);
    }
}

static void try_flattening(struct mat_plan * p) {
    struct view b = p->b.kernel, result = p->result.kernel;
    if (p->a.kernel.ne[2] == 1 && p->a.kernel.ne[3] == 1 && flatten(&b) && flatten(&result)) {
        p->b.kernel = b;
        p->result.kernel = result;
    }
}

// Heads of one query each that share a key are rows of one product: a is read once for all of them.
static void join_heads(struct mat_plan * p) {
    struct view *b = &p->b.kernel, *result = &p->result.kernel;
    int64_t heads = p->a.kernel.ne[2] > 0 ? result->ne[2] / p->a.kernel.ne[2] : 0;
    if (b->ne[1] != 1 || heads < 2 || heads > MAT_FEW_ROWS || p->a.kernel.ne[2] == 1) {
        return; // one key for all is try_flattening's
    }
    struct view * const views[] = {b, result};
    for (int i = 0; i < 2; i++) {
        views[i]->ne[1] = heads;
        views[i]->nb[1] = views[i]->nb[2];
        views[i]->ne[2] /= heads;
        views[i]->nb[2] *= (size_t) heads;
    }
}

bool mat_by_block_floats(const struct mat_world * w) {
    return (w->precision == MAT_BLOCK || w->precision == MAT_LEAN) &&
           aie_target(w->arch)->mac_block.m;
}

// Block floats are used for products of many rows of bf16. Products of few rows are bound by
// memory.
static bool is_shared(const struct mat_ask * r, const struct mat_plan * p) {
    return mat_by_block_floats(r->world) && !r->world->unstored && r->a_pieces == MAT_HI &&
           r->b_pieces == MAT_HI && p->a.kernel.type == GGML_TYPE_BF16 &&
           p->b.kernel.type == GGML_TYPE_BF16 && p->result.kernel.ne[1] > MAT_FEW_ROWS;
}

void mat_lay_out(const struct mat_ask * r, enum mat_layout layout, struct mat_plan * p) {
    bool packed = layout == OPERANDS_PACKED || layout == ALL_PACKED,
         by_cores = layout == MADE_BY_CORES;
    bool blocks = (by_cores || layout == BLOCKS_BY_CORES || layout == MADE) &&
                  mat_streams(&r->a, r->a_pieces);
    bool a_stands = (!packed && mat_stands(&r->a, r->a_pieces)) ||
                    (by_cores && !r->a_is_kept && cores_take(&r->a, r->a_pieces, GGML_TYPE_F16)) ||
                    blocks;
    *p = (struct mat_plan){.a = layout == STORED ? lay_out_stored(&r->a)
                                                 : lay_out(r, &r->a, r->a_pieces, a_stands)};
    if (r->prepared) {
        p->b = (struct mat_operand){.way = MAT_AS_IT_STANDS, .kernel = *r->prepared};
    } else {
        bool b_stands = (!packed && mat_stands(&r->b, r->b_pieces)) ||
                        (by_cores && cores_take(&r->b, r->b_pieces, GGML_TYPE_F32));
        p->b = lay_out(r, &r->b, r->b_pieces, b_stands);
    }
    lay_out_result(r, layout == ALL_PACKED, p);
    try_flattening(p);
    join_heads(p);
    p->stored = layout == STORED;
    p->made = layout == MADE;
    p->shared = p->stored || p->made || is_shared(r, p);
    memcpy(p->chunk, p->result.kernel.ne, sizeof p->chunk);
    p->chunk_k = p->a.kernel.ne[0];
    p->by_pieces = p->a.way == MAT_BY_KERNEL && p->a.convert.op == KERNEL_OP_UNPACK &&
                   p->a.kernel.ne[2] == 1 && p->a.kernel.ne[3] == 1;
    int64_t rows = PIECE / p->chunk_k / PIECE_ROWS * PIECE_ROWS;
    if (p->by_pieces && p->chunk[0] > rows) {
        p->chunk[0] = rows > PIECE_ROWS ? rows : PIECE_ROWS;
    }
}

// ---- parts of a result ----

// How often a repeats along dimension 2 or 3.
int64_t mat_repeats(const struct mat_plan * p, int d) {
    return p->result.kernel.ne[d] / p->a.kernel.ne[d];
}

struct kernel_spec mat_product(const struct mat_plan * p, enum aie_arch arch,
                               const int64_t ne[GGML_MAX_DIMS], int64_t k) {
    struct view a = p->a.kernel, b = p->b.kernel, result = p->result.kernel;
    a.ne[0] = b.ne[0] = k;
    a.ne[1] = ne[0];
    b.ne[1] = ne[1];
    for (int d = 2; d < GGML_MAX_DIMS; d++) {
        a.ne[d] = ne[d] == 1 ? 1 : ne[d] / mat_repeats(p, d);
        b.ne[d] = ne[d];
    }
    memcpy(result.ne, ne, sizeof result.ne);
    enum kernel_blocks blocks;
    bool has_blocks = mat_blocks_of(a.type, &blocks);
    a.ne[0] = p->stored ? shared_row_bytes(k) : k;
    return (struct kernel_spec){
        .op = has_blocks  ? KERNEL_OP_MUL_MAT_BLOCKS
              : p->shared ? KERNEL_OP_MUL_MAT_SHARED
                          : KERNEL_OP_MUL_MAT,
        .arch = arch,
        .n_inputs = 2,
        .inputs = {has_blocks ? words_of(&a) : plan_tensor(&a), plan_tensor(&b)},
        .output = plan_tensor(&result),
        .params[0] = !has_blocks ? 0
                     : p->made   ? kernel_shared_param(blocks, p->a.source.panel)
                                 : kernel_blocks_param(blocks, p->a.source.panel),
    };
}

struct tensor mat_partial(const struct mat_plan * p, const int64_t ne[GGML_MAX_DIMS]) {
    struct view sums = view_contiguous(p->result.kernel.type, ne, NULL);
    return plan_tensor(&sums);
}

struct kernel_spec mat_sum(const struct mat_plan * p, enum aie_arch arch,
                           const int64_t ne[GGML_MAX_DIMS]) {
    struct view result = p->result.kernel;
    memcpy(result.ne, ne, sizeof result.ne);
    return (struct kernel_spec){
        .op = KERNEL_OP_ADD,
        .arch = arch,
        .n_inputs = 2,
        .inputs = {plan_tensor(&result), mat_partial(p, ne)},
        .output = plan_tensor(&result),
    };
}

bool mat_is_in_panels(const struct mat_plan * p) {
    return p->a.way == MAT_AS_IT_STANDS && p->a.source.panel.rows;
}

static char * place_in(const struct view * v, size_t offset) {
    return v->data ? v->data + offset : NULL;
}

// Where a was packed as a whole, before, it is no matter.
static bool by_pieces(const struct mat_plan * p) {
    return p->by_pieces && p->a.way == MAT_BY_KERNEL;
}

bool mat_begins_piece(const struct mat_plan * p, const struct mat_at * at) {
    return by_pieces(p) && !at->k && !at->add && !at->at[1] && !at->at[2] && !at->at[3];
}

struct kernel_spec mat_part(const struct mat_plan * p, enum aie_arch arch, const struct mat_at * at,
                            char * addr[PLAN_OPERANDS]) {
    const struct view *a = &p->a.kernel, *b = &p->b.kernel, *result = &p->result.kernel;
    int64_t ne[GGML_MAX_DIMS], left_k = a->ne[0] - at->k;
    size_t a_at = (size_t) (at->k / ggml_blck_size(a->type)) * a->nb[0], out_at = 0;
    a_at *=
        mat_is_in_panels(p) ? (size_t) p->a.source.panel.rows : 1; // chunks of them stand together
    size_t b_at = (size_t) at->k * b->nb[0] + (size_t) at->at[1] * b->nb[1];
    a_at += by_pieces(p) ? 0 : (size_t) at->at[0] * a->nb[1];
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        int64_t left = result->ne[d] - at->at[d];
        ne[d] = left < p->chunk[d] ? left : p->chunk[d];
        out_at += (size_t) at->at[d] * result->nb[d];
        if (d >= 2) {
            a_at += (size_t) (at->at[d] / mat_repeats(p, d)) * a->nb[d];
            b_at += (size_t) at->at[d] * b->nb[d];
        }
    }
    if (at->add) {
        addr[0] = addr[2] = place_in(result, out_at);
        addr[1] = p->partial.data;
        return mat_sum(p, arch, ne);
    }
    addr[0] = place_in(a, a_at);
    addr[1] = place_in(b, b_at);
    addr[2] = at->k ? p->partial.data : place_in(result, out_at);
    struct kernel_spec spec = mat_product(p, arch, ne, left_k < p->chunk_k ? left_k : p->chunk_k);
    spec.output = at->k ? mat_partial(p, ne) : spec.output;
    return spec;
}

bool mat_next(const struct mat_plan * p, struct mat_at * at) {
    if (at->k && !at->add) {
        return at->add = true;
    }
    at->add = false;
    at->k += p->chunk_k;
    if (at->k < p->a.kernel.ne[0]) {
        return true;
    }
    at->k = 0;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        int d = by_pieces(p) ? (i + 1) % GGML_MAX_DIMS : i; // a piece is for all of b
        at->at[d] += p->chunk[d];
        if (at->at[d] < p->result.kernel.ne[d]) {
            return true;
        }
        at->at[d] = 0;
    }
    return false;
}

static enum status plan(struct mat_world * w, struct mat_ask * r, struct mat_plan * out,
                        struct error * err) {
    r->world = w;
    if (mat_choose(r, out)) {
        return ST_OK;
    }
    w->by_command = store_has_command(w->store);
    if (w->by_command && mat_choose(r, out)) {
        return ST_OK;
    }
    char name[KERNEL_NAME_MAX];
    mat_lay_out(r, AS_IT_STANDS, out);
    struct kernel_spec spec = mat_product(out, w->arch, out->chunk, out->chunk_k);
    kernel_name(&spec, name);
    struct error why;
    plan_why_not(w->store, &spec, &why);
    return error_set(err, ST_UNSUPPORTED, "%s: no kernel like %s: %s", r->label, name, why.text);
}

// ---- nodes ----

bool mat_is_product(enum ggml_op op) {
    return op == GGML_OP_MUL_MAT || op == GGML_OP_OUT_PROD;
}

static bool shapes_match(const struct mat_source * a, const struct mat_source * b,
                         const struct view * result) {
    bool ok = mat_source_k(a) == mat_source_k(b) && result->ne[0] == a->view.ne[!a->columns] &&
              result->ne[1] == b->view.ne[!b->columns];
    for (int d = 2; d < GGML_MAX_DIMS; d++) {
        ok &= result->ne[d] == b->view.ne[d] && a->view.ne[d] > 0 &&
              b->view.ne[d] % a->view.ne[d] == 0;
    }
    return ok;
}

static bool types_match(const struct mat_source * a, const struct mat_source * b,
                        const struct view * result) {
    if (!mat_can_stage(a) || !mat_can_stage(b)) {
        return false;
    }
    if (mat_is_integer(a->view.type) || mat_is_integer(b->view.type)) {
        return a->view.type == b->view.type && result->type == GGML_TYPE_I32;
    }
    return result->type == GGML_TYPE_F32;
}

// The lower pieces of two bf16 operands are zero, and integers have none.
static bool has_lower_pieces(enum ggml_type a, enum ggml_type b) {
    return !mat_is_integer(a) && !(a == GGML_TYPE_BF16 && b == GGML_TYPE_BF16);
}

// One row times many rows is computed as many rows times one, because the kernels for few columns
// are made for that.
static bool swap_operands(struct mat_ask * r) {
    struct view * out = &r->result;
    if (out->ne[0] != 1 || out->ne[1] == 1 || out->nb[1] != RESULT_SIZE ||
        r->a.view.ne[2] != out->ne[2] || r->a.view.ne[3] != out->ne[3]) {
        return false;
    }
    struct mat_source a = r->a;
    r->a = r->b;
    r->b = a;
    out->ne[0] = out->ne[1];
    out->ne[1] = 1;
    return true;
}

enum status mat_plan_node(struct mat_world w, const struct ggml_tensor * node,
                          struct mat_plan * out, struct error * err) {
    const struct ggml_tensor *src0 = node->src[0], *src1 = node->src[1];
    const char * label = op_label(node);
    if (!mat_is_product(node->op) || !src0 || !src1) {
        return error_set(err, ST_INVALID, "%s is not a product of two tensors", label);
    }
    bool columns = node->op == GGML_OP_OUT_PROD;
    struct mat_ask r = {.label = label,
                        .a = mat_source_of(view_of(src0), columns),
                        .b = mat_source_of(view_of(src1), columns),
                        .result = view_of(node)};
    if (!types_match(&r.a, &r.b, &r.result)) {
        return error_set(err, ST_UNSUPPORTED, "%s of %s and %s to %s is not supported", label,
                         ggml_type_name(src0->type), ggml_type_name(src1->type),
                         ggml_type_name(node->type));
    }
    if (!shapes_match(&r.a, &r.b, &r.result)) {
        return error_set(err, ST_INVALID, "%s: the shapes of its operands and result do not match",
                         label);
    }
    r.a.panel = w.panel;
    *out = (struct mat_plan){.nothing_to_add = mat_source_k(&r.a) == 0};
    out->result.tensor = r.result;
    if (ggml_is_empty(node) || out->nothing_to_add) {
        return ST_OK;
    }
    bool swapped = swap_operands(&r);
    r.a_is_kept = !swapped && src0->buffer &&
                  ggml_backend_buffer_get_usage(src0->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
    if (mat_is_precise(&w, node) && has_lower_pieces(src0->type, src1->type)) {
        r.a_pieces = MAT_LEFT;
        r.b_pieces = MAT_RIGHT;
    }
    enum status st = plan(&w, &r, out, err);
    (swapped ? &out->b : &out->a)->weights = src0;
    return st;
}

enum status mat_plan_prepared(struct mat_world w, const struct mat_source * a, bool precise,
                              const struct view * b, const struct view * result,
                              struct mat_plan * out, struct error * err) {
    struct mat_ask r = {.label = "MUL_MAT_ID",
                        .a = *a,
                        .prepared = b,
                        .a_pieces = precise ? MAT_LEFT : MAT_HI,
                        .result = *result};
    return plan(&w, &r, out, err);
}

// Up to 16 rows each number has a kernel of its own. Above, sizes are an eighth of the next power
// of two apart, and at least 8.
int64_t mat_padded_rows(int64_t n) {
    int64_t step = n <= 16 ? 1 : 8;
    while (n > 16 && step * 8 < n) {
        step *= 2;
    }
    return (n + step - 1) / step * step;
}

// attention: FLASH_ATTN_EXT on the array. One kernel, or where that would take too long one for
// each batch and so many queries, heads and keys of it; what kernels made of some keys each is put
// together by the host (attention-parts.c), so that there is no limit to keys but memory. Keys and
// values of f32 are made bf16 by the array first, and so are those of quantized blocks
// (attention-blocks.c) but q8_0 and q4_0, which go to the cores as they are; a mask whose rows do
// not begin on words is laid out by the host. What else the kernel does not take (head sizes, keys
// of types that no core unpacks) is left to the CPU.
//
// Of many queries, as a prompt has them, most do not see all keys: those behind them, those that a
// window has left. The host reads the mask, goes by a few queries at a time, and leaves out the
// keys that none of them sees.
#include "attention-blocks.h"
#include "attention-parts.h"
#include "kept.h"
#include "mat.h"
#include "moves.h"
#include "touch.h"

#include "aie/ops/attention/attention.h"

#include <string.h>

enum { Q, K, V, MASK, SINKS, INPUTS };

enum {
    SEEN_QUERIES = 128, // that keys are left out for together, and how many keys at least
    MINUS_INFINITY = 0xfc00,
};

struct attend { // a node as it is computed
    struct view in[INPUTS], out;
    bool there[INPUTS], staged[INPUTS];
    uint32_t params[3]; // scale, max_bias, cap
};

static bool is_halves(enum ggml_type t) {
    return t == GGML_TYPE_F16 || t == GGML_TYPE_BF16;
}

static bool is_blocks(enum ggml_type t) {
    return t == GGML_TYPE_Q8_0 || t == GGML_TYPE_Q4_0;
}

// Does the kernel take such rows of keys or values? Blocks go to the cores by twos, which are
// words.
static bool stands(const struct view * v) {
    return is_halves(v->type) ||
           (is_blocks(v->type) && v->ne[0] / ggml_blck_size(v->type) % 2 == 0);
}

// Blocks as the kernel knows them: words.
static struct tensor tensor_of(const struct view * v) {
    struct view words = *v;
    if (is_blocks(v->type)) {
        words.type = GGML_TYPE_I32;
        words.ne[0] = (int64_t) ggml_row_size(v->type, v->ne[0]) / DMA_WORD;
        words.nb[0] = DMA_WORD;
    }
    return plan_tensor(&words);
}

static struct attend attend_of(const struct ggml_tensor * node) {
    struct attend a = {.out = view_of(node)};
    memcpy(a.params, node->op_params, sizeof a.params);
    for (int i = 0; i < INPUTS; i++) {
        a.there[i] = node->src[i] != NULL;
        if (a.there[i]) {
            a.in[i] = view_of(node->src[i]);
        }
    }
    for (int i = K; i <= V; i++) {
        if (a.in[i].type == GGML_TYPE_F32) {
            a.in[i] = view_contiguous(GGML_TYPE_BF16, a.in[i].ne, NULL);
            a.staged[i] = true;
        } else if (!stands(&a.in[i])) {
            a.in[i] = attention_unpacked(&a.in[i]);
            a.staged[i] = true;
        }
    }
    struct view * mask = &a.in[MASK];
    if (a.there[MASK]) {
        mask->ne[0] = a.in[K].ne[1];
        mask->ne[1] = a.in[Q].ne[1];
        a.staged[MASK] = mask->ne[0] % 2 || mask->nb[1] % DMA_WORD || mask->nb[2] % DMA_WORD ||
                         mask->nb[3] % DMA_WORD;
    }
    if (a.staged[MASK]) {
        int64_t ne[GGML_MAX_DIMS] = {GGML_PAD(mask->ne[0], 2), mask->ne[1], mask->ne[2],
                                     mask->ne[3]};
        *mask = view_contiguous(mask->type, ne, NULL);
    }
    return a;
}

// ---- kernels ----

// The queries, heads of K and V, keys and batches that one kernel computes. It takes all batches or
// one of them.
struct part {
    int64_t query, queries, head, heads, key, keys, batch, batches;
    bool open;  // its results are put together with those of other keys
    bool sinks; // an open one's: the first keys have them
};

// Heads of Q to a head of K and V.
static int64_t group_of(const struct attend * a) {
    return a->in[Q].ne[2] / a->in[K].ne[2];
}

// Results of open parts: rows of all heads, query by query, each followed by its largest score and
// its sum.
static struct tensor open_results(const struct attend * a, const struct part * p) {
    int64_t words = a->out.ne[0] + AT_PART_WORDS, heads = p->heads * group_of(a);
    struct tensor t =
        tensor_contiguous(DTYPE_F32, (const int64_t[TENSOR_DIMS]){words, heads, p->queries, 1});
    t.nb[2] = t.nb[1] * a->in[Q].ne[2];
    t.nb[3] = t.nb[2] * p->queries;
    return t;
}

static struct kernel_spec spec_of(const struct attend * a, enum aie_arch arch,
                                  const struct part * p) {
    struct kernel_spec spec = {.op = KERNEL_OP_FLASH_ATTN_EXT, .arch = arch};
    int64_t heads = p->heads * group_of(a);
    for (int i = 0; i < INPUTS; i++) {
        if (!a->there[i] || (i == SINKS && p->open && !p->sinks)) {
            spec.inputs[i] = tensor_contiguous(i == MASK ? DTYPE_F16 : DTYPE_F32,
                                               (const int64_t[TENSOR_DIMS]){0, 1, 1, 1});
            continue;
        }
        spec.n_inputs = i + 1;
        spec.inputs[i] = tensor_of(&a->in[i]);
        if (p->batches < a->in[Q].ne[3] && i != SINKS) {
            spec.inputs[i].ne[3] = 1;
        }
    }
    spec.output = plan_tensor(&a->out);
    spec.inputs[K].ne[1] = spec.inputs[V].ne[1] = p->keys;
    spec.inputs[Q].ne[1] = spec.output.ne[2] = p->queries;
    spec.inputs[Q].ne[3] = spec.output.ne[3] = p->batches;
    if (a->there[MASK]) {
        spec.inputs[MASK].ne[0] = GGML_PAD(p->keys, a->staged[MASK] ? 2 : 1);
        spec.inputs[MASK].ne[1] = p->queries;
    }
    if (p->heads < a->in[K].ne[2]) {
        spec.inputs[K].ne[2] = spec.inputs[V].ne[2] = p->heads;
        spec.inputs[Q].ne[2] = spec.output.ne[1] = heads;
        spec.inputs[MASK].ne[2] = spec.inputs[MASK].ne[2] > 1 ? heads : 1;
        spec.inputs[SINKS].ne[0] = spec.inputs[SINKS].ne[0] ? heads : 0;
    }
    spec.output.nb[3] = spec.output.nb[2] * p->queries;
    if (p->open) {
        spec.output = open_results(a, p);
    }
    memcpy(spec.params, a->params, sizeof a->params);
    return spec;
}

static bool can(struct npu * npu, const struct attend * a, struct part part) {
    struct kernel_spec spec = spec_of(a, npu->arch, &part);
    return plan_can(npu->store, &spec, false);
}

// Is there a kernel for the part, and for the rests of queries, heads and keys behind parts of that
// size?
static bool can_all(struct npu * npu, const struct attend * a, struct part p) {
    bool good = true;
    for (int rest = 0; rest < 8 && good; rest++) {
        struct part some = p;
        some.queries = rest & 1 ? a->in[Q].ne[1] % p.queries : p.queries;
        some.heads = rest & 2 ? a->in[K].ne[2] % p.heads : p.heads;
        some.keys = rest & 4 ? a->in[K].ne[1] % p.keys : p.keys;
        some.sinks = !(rest & 4); // with fewer keys others have them
        good = !some.queries || !some.heads || !some.keys || can(npu, a, some);
    }
    return good;
}

static int64_t halved(int64_t n, int64_t to) {
    return n > to ? GGML_PAD((n + 1) / 2, to) : 0;
}

// May heads be computed by different kernels? Not with slopes (max_bias), which depend on how many
// heads there are, nor with a mask that repeats over some of them.
static bool has_heads_apart(const struct attend * a) {
    return !a->params[AT_ARG_MAX_BIAS] &&
           (!a->there[MASK] || a->in[MASK].ne[2] == 1 || a->in[MASK].ne[2] == a->in[Q].ne[2]);
}

// Finds the part that one kernel computes; false: there is none. Batches are cut first, then
// queries while enough are left to share keys and values, then heads while each column has one.
// Keys are cut last, because the host has to merge their results. p is the part that was tried
// last.
static bool cut(struct npu * npu, const struct attend * a, struct part * p) {
    enum { FEW_QUERIES = 16, HEADS = ARRAY_COLUMNS_MOST };
    int64_t keys = a->in[K].ne[1], heads = a->in[K].ne[2];
    *p = (struct part){.queries = a->in[Q].ne[1],
                       .heads = heads,
                       .keys = keys,
                       .batches = a->in[Q].ne[3],
                       .sinks = true};
    if (can(npu, a, *p)) {
        return true;
    }
    p->batches = 1;
    int64_t * const of[] = {&p->queries, &p->heads, &p->keys};
    const int64_t least[] = {FEW_QUERIES, has_heads_apart(a) ? HEADS : heads, SEEN_QUERIES};
    for (int i = 0; i < 3; i++) {
        for (int64_t n = *of[i]; n; n = halved(n, least[i])) {
            *of[i] = n;
            p->open = p->keys < keys;
            if (can_all(npu, a, *p)) {
                return true;
            }
        }
    }
    return false;
}

static char * at(const struct view * v, int64_t batch, int64_t row, int dim) {
    return v->data + (size_t) batch * v->nb[3] + (size_t) row * v->nb[dim];
}

// to: where results of an open part go.
static enum status send(struct hsa_stream * s, const struct attend * a, const struct part * p,
                        char * to, struct error * err) {
    struct kernel_spec spec = spec_of(a, s->device->npu->arch, p);
    int64_t shared = p->batch / (a->in[Q].ne[3] / a->in[K].ne[3]);
    size_t kv_head = (size_t) p->head, head = kv_head * (size_t) group_of(a);
    char * places[PLAN_OPERANDS] = {
        at(&a->in[Q], p->batch, p->query, 1) + head * a->in[Q].nb[2],
        at(&a->in[K], shared, p->key, 1) + kv_head * a->in[K].nb[2],
        at(&a->in[V], shared, p->key, 1) + kv_head * a->in[V].nb[2],
    };
    if (a->there[MASK]) {
        const struct view * mask = &a->in[MASK];
        places[MASK] = at(mask, p->batch % mask->ne[3], p->query, 1) +
                       (size_t) p->key * mask->nb[0] + (mask->ne[2] > 1 ? head * mask->nb[2] : 0);
    }
    if (a->there[SINKS]) {
        places[SINKS] = a->in[SINKS].data + head * a->in[SINKS].nb[0];
    }
    places[spec.n_inputs] = p->open ? to + head * (size_t) spec.output.nb[1]
                                    : at(&a->out, p->batch, p->query, 2) + head * a->out.nb[1];
    return npu_dispatch(s, &spec, places, err);
}

// ---- keys by parts ----

// The bytes that open parts of so many queries take, over all keys.
static size_t open_bytes(const struct attend * a, const struct part * each) {
    struct tensor one = open_results(a, each);
    int64_t parts = (a->in[K].ne[1] + each->keys - 1) / each->keys;
    return each->open ? (size_t) (one.nb[3] * parts) : 0;
}

// All heads and keys of some queries; keys that are more than each kernel takes by parts, which
// have room.
static enum status send_parts(struct hsa_stream * s, const struct attend * a,
                              const struct part * all, const struct part * each, char * room,
                              struct error * err) {
    enum status st = ST_OK;
    struct part p = *all;
    p.open = all->keys > each->keys;
    size_t step = p.open ? (size_t) open_results(a, all).nb[3] : 0, n = 0;
    for (int64_t key = 0; key < all->keys; key += each->keys, n++) {
        int64_t keys = all->keys - key;
        p.key = all->key + key;
        p.keys = keys < each->keys ? keys : each->keys;
        p.sinks = key == 0;
        for (p.head = 0; p.head < all->heads && st == ST_OK; p.head += each->heads) {
            int64_t heads = all->heads - p.head;
            p.heads = heads < each->heads ? heads : each->heads;
            st = send(s, a, &p, room + n * step, err);
        }
    }
    if (!p.open || st != ST_OK) {
        return st;
    }
    kept_void(s->npu->kept);
    st = stream_wait(s, err);
    if (st == ST_OK) {
        struct view rows = a->out;
        rows.data = at(&a->out, all->batch, all->query, 2);
        rows.ne[2] = all->queries;
        rows.ne[3] = 1;
        hsac_host_begin(s->device->agent, room, n * step);
        touch_begin(s->device->agent, &rows);
        attention_merge(room, n, step, &rows);
        touch_end(s->device->agent, &rows);
    }
    return st;
}

// ---- keys that nobody sees ----

// Widens the keys [*from, *to) to those that a row of the mask shows.
static void see_row(const uint16_t * row, int64_t keys, int64_t * from, int64_t * to) {
    for (int64_t i = keys; i > *to; i--) {
        *to = row[i - 1] != MINUS_INFINITY ? i : *to;
    }
    for (int64_t i = 0; i < *from; i++) {
        *from = row[i] != MINUS_INFINITY ? i : *from;
    }
}

// Narrows the part to the keys that its queries see, if there is a kernel for so many. The last
// queries are looked at first: in a causal mask they see all keys that any of them sees.
static struct part seen(struct npu * npu, const struct attend * a, struct part p,
                        const struct part * each) {
    const struct view * mask = &a->in[MASK];
    int64_t keys = a->in[K].ne[1], from = keys, to = 0;
    for (int64_t b = 0; b < (p.batches > 1 ? mask->ne[3] : 1); b++) {
        for (int64_t h = 0; h < mask->ne[2]; h++) {
            for (int64_t q = p.query + p.queries - 1; q >= p.query; q--) {
                const char * row = at(mask, (p.batch + b) % mask->ne[3], q, 1);
                see_row((const uint16_t *) (const void *) (row + (size_t) h * mask->nb[2]), keys,
                        &from, &to);
            }
        }
    }
    struct part less = p;
    less.key = from < to ? from / SEEN_QUERIES * SEEN_QUERIES : 0; // none: any will do
    less.keys = GGML_PAD(from < to ? to - less.key : 1, SEEN_QUERIES);
    less.keys = less.keys < keys - less.key ? less.keys : keys - less.key;
    struct part one = less;
    one.keys = less.keys < each->keys ? less.keys : each->keys;
    one.heads = each->heads;
    one.open = less.keys > each->keys;
    return can(npu, a, one) ? less : p;
}

// Decides whether the mask is worth reading, and then waits for it. The node's kernels depend on
// its data, so they are planned each time.
static enum status look_at_mask(struct hsa_stream * s, const struct ggml_tensor * node,
                                const struct attend * a, bool * look, struct error * err) {
    *look = a->there[MASK] && a->in[MASK].nb[0] == 2 && a->in[Q].ne[1] >= SEEN_QUERIES &&
            a->in[K].ne[1] > SEEN_QUERIES;
    if (!*look) {
        return ST_OK;
    }
    kept_void(s->npu->kept);
    const struct ggml_tensor * mask = node->src[MASK];
    enum status st = npu_is_pending(s, mask->data, ggml_nbytes(mask)) ? stream_wait(s, err) : ST_OK;
    touch_begin(s->device->agent, &a->in[MASK]);
    return st;
}

// ---- nodes ----

bool attention_is(const struct ggml_tensor * node) {
    return node->op == GGML_OP_FLASH_ATTN_EXT;
}

static enum status refuse(const struct ggml_tensor * node, const char * why, struct error * err) {
    return error_set(err, ST_UNSUPPORTED, "%s: %s", op_label(node), why);
}

// What of its inputs and parameters the kernel does not know; NULL: nothing.
static const char * unknown(const struct ggml_tensor * node) {
    const struct ggml_tensor * const * src = (const struct ggml_tensor * const *) node->src;
    if (!src[Q] || !src[K] || !src[V] || src[Q]->type != GGML_TYPE_F32 ||
        node->type != GGML_TYPE_F32) {
        return "queries and results are f32";
    }
    // Its kernel multiplies in bf16. Programs that may choose (llama.cpp with -fa auto) then
    // compute attention by products, which are precise.
    if (mat_precision_asked() == MAT_ALWAYS_PRECISE) {
        return "GGML_HSA_MUL_MAT=precise, and its kernel multiplies in bf16";
    }
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (src[i] && (i >= INPUTS || src[i]->view_offs % DMA_WORD)) {
            return "an input that its kernel does not know";
        }
    }
    for (int i = K; i <= V; i++) {
        if (src[i]->type != GGML_TYPE_F32 && !is_halves(src[i]->type) &&
            !ggml_is_quantized(src[i]->type)) {
            return "keys and values are f32, f16, bf16 or quantized";
        }
    }
    if ((src[MASK] && (src[MASK]->type != GGML_TYPE_F16 || src[MASK]->ne[0] < src[K]->ne[1] ||
                       src[MASK]->ne[1] < src[Q]->ne[1])) ||
        (src[SINKS] && src[SINKS]->type != GGML_TYPE_F32)) {
        return "masks are f16 and sinks f32";
    }
    // No ggml that we know has parameters behind scale, max_bias, cap, precision and a hint about
    // the mask.
    for (size_t i = 5; i < sizeof node->op_params / sizeof node->op_params[0]; i++) {
        if (node->op_params[i]) {
            return "an op parameter that its kernel does not know";
        }
    }
    return NULL;
}

enum status attention_check(struct hsa_device * device, const struct ggml_tensor * node,
                            struct error * err) {
    const struct ggml_tensor * const * src = (const struct ggml_tensor * const *) node->src;
    const char * not_known = unknown(node);
    if (not_known) {
        return refuse(node, not_known, err);
    }
    if (ggml_is_empty(node)) {
        return ST_OK;
    }
    struct attend a = attend_of(node);
    struct part part;
    for (int i = K; i <= V; i++) {
        struct view given = view_of(src[i]);
        struct error why;
        if (!a.staged[i]) {
            continue;
        }
        if (given.type != GGML_TYPE_F32) {
            if (attention_blocks_check(device, &given, &why) != ST_OK) {
                return refuse(node, why.text, err);
            }
        } else if (!moves_can(device->npu, &given, &a.in[i])) {
            return refuse(node, "descriptors of words cannot walk keys or values", err);
        }
    }
    if (cut(device->npu, &a, &part)) {
        return ST_OK;
    }
    struct kernel_spec spec = spec_of(&a, device->npu->arch, &part);
    struct error why;
    plan_why_not(device->npu->store, &spec, &why);
    return refuse(node, why.text, err);
}

// Operands that the kernel does not take as they are, in scratch; behind them there is room for
// parts.
static enum status stage(struct hsa_stream * s, const struct ggml_tensor * node, struct attend * a,
                         size_t parts, char ** parts_at, struct error * err) {
    size_t bytes = parts;
    for (int i = 0; i < INPUTS; i++) {
        bytes += a->staged[i] ? GGML_PAD(view_bytes(&a->in[i]), BUFFER_ALIGNMENT) : 0;
    }
    char * room = NULL;
    enum status st = bytes ? stream_scratch(s, bytes, &room, err) : ST_OK;
    for (int i = 0; i < INPUTS && st == ST_OK; i++) {
        if (!a->staged[i]) {
            continue;
        }
        struct view given = view_of(node->src[i]), to;
        a->in[i].data = room;
        room += GGML_PAD(view_bytes(&a->in[i]), BUFFER_ALIGNMENT);
        atomic_fetch_add(&s->device->staged_operands, 1);
        if (i != MASK) {
            st = given.type == GGML_TYPE_F32 ? moves_send(s, &given, &a->in[i], err)
                                             : attention_blocks_send(s, &given, &a->in[i], err);
            continue;
        }
        if (npu_is_pending(s, given.data, ggml_nbytes(node->src[i]))) {
            st = stream_wait(s, err);
        }
        to = a->in[i];
        given.ne[0] = to.ne[0] = a->in[K].ne[1];
        given.ne[1] = to.ne[1];
        st = st == ST_OK ? npu_copy_by_host(s, &given, &to, err) : st;
    }
    *parts_at = room;
    return st;
}

enum status attention_run(struct hsa_stream * s, struct ggml_tensor * node, struct error * err) {
    enum status st = attention_check(s->device, node, err);
    if (st != ST_OK || ggml_is_empty(node)) {
        return st;
    }
    struct attend a = attend_of(node);
    struct part each;
    if (!cut(s->device->npu, &a, &each)) {
        return refuse(node, "no kernel", err);
    }
    char * room = NULL;
    st = stage(s, node, &a, open_bytes(&a, &each), &room, err);
    bool look = false;
    st = st == ST_OK ? look_at_mask(s, node, &a, &look, err) : st;
    int64_t queries = a.in[Q].ne[1], batches = a.in[Q].ne[3];
    int64_t most = look && each.queries > SEEN_QUERIES ? SEEN_QUERIES : each.queries;
    for (int64_t b = 0; b < batches; b += each.batches) {
        for (int64_t q = 0; q < queries && st == ST_OK; q += most) {
            struct part all = {.query = q,
                               .queries = queries - q < most ? queries - q : most,
                               .heads = a.in[K].ne[2],
                               .keys = a.in[K].ne[1],
                               .batch = b,
                               .batches = each.batches};
            all = look ? seen(s->device->npu, &a, all, &each) : all;
            st = send_parts(s, &a, &all, &each, room, err);
        }
    }
    return st;
}

// Of all keys, those that nobody sees among them.
void attention_ways(struct hsa_device * device, const struct ggml_tensor * node, bool shares,
                    struct route_stop * out) {
    (void) shares;
    if (attention_check(device, node, NULL) != ST_OK || ggml_is_empty(node)) {
        return;
    }
    struct attend a = attend_of(node);
    struct part each;
    if (cut(device->npu, &a, &each)) {
        bool look = a.there[MASK] && a.in[Q].ne[1] >= SEEN_QUERIES && a.in[K].ne[1] > SEEN_QUERIES;
        each.queries = look && each.queries > SEEN_QUERIES ? SEEN_QUERIES : each.queries;
        struct kernel_spec spec = spec_of(&a, device->npu->arch, &each);
        route_add_kernel(out, device->npu->store, &spec);
    }
}

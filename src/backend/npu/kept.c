// kept: see kept.h. A node is known by its key: op, parameters, its place, and for each of its
// tensors datatype, shape, strides, how its address is aligned, whether it is of weights, and how
// far tensors that overlap lie apart. Layers of a model have the same keys, and so one entry. The
// hash leads to an entry, the whole key decides.
//
// Kept true: an entry that is replayed was recorded without a wait, and every operand of it lies in
// a tensor of the node, its table of ROPE, or the room of its steps (steps.h): so nothing of it was
// computed by the host, and its addresses follow from the node's. Kernels are not held: the store
// says whether one has gone, and then the node is planned anew. The table belongs to a stream,
// which one thread uses at a time; it holds so many entries, and begins anew when they are full.
#include "kept.h"

#include "dispatch.h"
#include "panels.h"
#include "steps.h"
#include "touch.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_ENTRIES = 2048,
    BUCKETS = 1024,
    MOST_TENSORS = GGML_MAX_SRC + 1, // the node, then its operands
    MOST_SENT = 32,                  // kernels of a node
    MOST_TRIES = 3,                  // to write a node down: a wait may have been for another one
    TENSOR_WORDS = 1 + 2 * GGML_MAX_DIMS,
    PARAM_WORDS = GGML_MAX_OP_PARAMS / 8,
    MOST_WORDS = 2 + PARAM_WORDS + MOST_TENSORS * TENSOR_WORDS + MOST_TENSORS * MOST_TENSORS / 2,
};

struct key {
    size_t n;
    uint64_t hash;
    uint64_t words[MOST_WORDS];
};

enum from { FROM_TENSOR, FROM_ROW, FROM_TABLE, FROM_ROOM };

struct kept_operand {
    uint8_t from, tensor; // 0: the node, i + 1: src i
    uint64_t offset, size;
};

struct kept_kernel {
    struct store_kernel * kernel; // good as long as the store says so
    uint64_t us;
    int n_operands;
    struct kept_operand operands[PLAN_OPERANDS];
};

struct entry {
    struct entry * next; // in its bucket
    uint64_t hash;
    int tries;      // that came to nothing
    uint64_t gone;  // of the store when it was written down
    int row_tensor; // as in struct kept
    bool has_table;
    size_t room; // bytes of it that are used
    size_t n_kernels, n_words;
    struct kept_kernel * kernels; // NULL: there is nothing to replay
    uint64_t words[];             // the key
};

struct kept {
    struct entry * buckets[BUCKETS];
    size_t n_entries;
    struct key key; // of the node at hand

    // The recording. entry is NULL when nothing is recorded.
    struct entry * entry;
    const struct ggml_tensor * node;
    const char * table;
    size_t table_bytes;
    const char * room;
    size_t room_bytes, room_used;
    int row_tensor; // -1: none
    uint64_t row_offset;
    size_t n;
    struct kept_kernel sent[MOST_SENT];
};

// ---- keys ----

static void key_put(struct key * k, uint64_t word) {
    k->hash = (k->hash ^ word) * 0x9e3779b97f4a7c15u;
    k->hash ^= k->hash >> 32;
    k->words[k->n++] = word;
}

static const struct ggml_tensor * tensor_at(const struct ggml_tensor * node, int i) {
    return i ? node->src[i - 1] : node;
}

// What a plan looks at beside shape and strides: plan.c asks whether the last word is the result's
// alone, mat-plan.c whether weights are kept in another form, and how they lie.
static uint64_t kind_of(const struct ggml_tensor * t) {
    const struct ggml_tensor * base = t->view_src;
    bool whole = !base || (t->view_offs == 0 && ggml_nbytes(t) == ggml_nbytes(base));
    bool weights =
        t->buffer && ggml_backend_buffer_get_usage(t->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
    struct view v = view_of(t);
    struct kernel_panel panel = panels_of(buffer_panels(t), &v);
    return (uint64_t) t->type | (uint64_t) (panel.rows + panel.words * 32) << 8 |
           (uint64_t) whole << 32 | (uint64_t) weights << 33 |
           (uint64_t) ((uintptr_t) t->data % BUFFER_ALIGNMENT) << 40;
}

static uint64_t number_of(const struct aie_program * p) {
    return p ? (uint64_t) (p - aie_programs) + 1 : 0;
}

// place: where the node is computed, see route.h.
static void make_key(struct key * k, const struct ggml_tensor * node, struct route_place place) {
    const char *begin[MOST_TENSORS], *end[MOST_TENSORS];
    int n = 0;
    k->n = 0;
    k->hash = 0;
    uint64_t present = 0;
    for (int i = 0; i < MOST_TENSORS; i++) {
        present |= (uint64_t) (tensor_at(node, i) != NULL) << i;
    }
    key_put(k, (uint64_t) node->op | present << 32);
    key_put(k, number_of(place.first) | number_of(place.last) << 32);
    for (int i = 0; i < PARAM_WORDS; i++) {
        uint64_t word;
        memcpy(&word, (const char *) node->op_params + 8 * i, sizeof word);
        key_put(k, word);
    }
    for (int i = 0; i < MOST_TENSORS; i++) {
        const struct ggml_tensor * t = tensor_at(node, i);
        if (!t) {
            continue;
        }
        key_put(k, kind_of(t));
        for (int d = 0; d < GGML_MAX_DIMS; d++) {
            key_put(k, (uint64_t) t->ne[d]);
            key_put(k, t->nb[d]);
        }
        begin[n] = t->data;
        end[n] = begin[n] + ggml_nbytes(t);
        n++;
    }
    for (int i = 0; i < n; i++) {
        for (int j = i + 1; j < n; j++) { // far apart is like any other far apart
            bool overlap = begin[i] < end[j] && begin[j] < end[i];
            key_put(k, overlap ? (uint64_t) (begin[j] - begin[i]) : UINT64_MAX);
        }
    }
}

uint64_t kept_hash(const struct ggml_tensor * node) {
    struct key key;
    make_key(&key, node, (struct route_place){0});
    return key.hash;
}

// ---- the table ----

static void forget_all(struct kept * k) {
    for (int i = 0; i < BUCKETS; i++) {
        for (struct entry *e = k->buckets[i], *next; e; e = next) {
            next = e->next;
            free(e->kernels);
            free(e);
        }
        k->buckets[i] = NULL;
    }
    k->n_entries = 0;
}

static struct entry * kept_find(const struct kept * k, const struct key * key) {
    struct entry * e = k->buckets[key->hash % BUCKETS];
    while (e && (e->hash != key->hash || e->n_words != key->n ||
                 memcmp(e->words, key->words, key->n * sizeof key->words[0]))) {
        e = e->next;
    }
    return e;
}

static struct entry * add(struct kept * k, const struct key * key) {
    if (k->n_entries == MOST_ENTRIES) {
        forget_all(k);
    }
    size_t bytes = key->n * sizeof key->words[0];
    struct entry * e = malloc(sizeof *e + bytes);
    if (!e) {
        return NULL;
    }
    *e = (struct entry){
        .next = k->buckets[key->hash % BUCKETS], .hash = key->hash, .n_words = key->n};
    memcpy(e->words, key->words, bytes);
    k->buckets[key->hash % BUCKETS] = e;
    k->n_entries++;
    return e;
}

struct kept * kept_new(void) {
    return calloc(1, sizeof(struct kept));
}

void kept_free(struct kept * k) {
    if (k) {
        forget_all(k);
        free(k);
    }
}

// ---- writing down ----

static void kept_begin(struct kept * k, struct entry * e, const struct ggml_tensor * node) {
    k->entry = e;
    k->node = node;
    k->table = NULL;
    k->room = NULL;
    k->room_used = 0;
    k->row_tensor = -1;
    k->n = 0;
}

void kept_void(struct kept * k) {
    if (k && k->entry) {
        k->entry->tries++;
        k->entry = NULL;
    }
}

void kept_table(struct kept * k, const void * table, size_t bytes) {
    if (k && k->entry) {
        k->table = table;
        k->table_bytes = bytes;
    }
}

void kept_room(struct kept * k, const void * room, size_t bytes) {
    if (k && k->entry) {
        k->room = room;
        k->room_bytes = bytes;
    }
}

void kept_row(struct kept * k, int src, int64_t row) {
    if (k && k->entry) {
        const struct ggml_tensor * t = tensor_at(k->node, src + 1);
        k->row_tensor = src + 1;
        k->row_offset = (uint64_t) row * t->nb[1];
    }
}

// Finds the tensor that an operand lies in. Where tensors overlap, any of them will do: they lie
// equally far apart in all nodes of the key.
static bool place(struct kept * k, const char * at, struct kept_operand * out) {
    if (k->room && at >= k->room && at < k->room + k->room_bytes) {
        size_t end = (size_t) (at - k->room) + out->size;
        out->from = FROM_ROOM;
        out->offset = (uint64_t) (at - k->room);
        k->room_used = end > k->room_used ? end : k->room_used;
        return true;
    }
    if (k->table && at >= k->table && at < k->table + k->table_bytes) {
        out->from = FROM_TABLE;
        out->offset = (uint64_t) (at - k->table);
        return true;
    }
    for (int i = 0; i < MOST_TENSORS; i++) {
        const struct ggml_tensor * t = tensor_at(k->node, i);
        const char * data = t ? t->data : NULL;
        if (data && at >= data && at < data + ggml_nbytes(t)) {
            out->from = i == k->row_tensor ? FROM_ROW : FROM_TENSOR;
            out->tensor = (uint8_t) i;
            out->offset = (uint64_t) (at - data) - (out->from == FROM_ROW ? k->row_offset : 0);
            return true;
        }
    }
    return false;
}

void kept_sent(struct kept * k, struct store_kernel * kernel, const struct hsac_dispatch * d,
               uint64_t us) {
    if (!k || !k->entry) {
        return;
    }
    bool ok = k->n < MOST_SENT;
    struct kept_kernel * to = &k->sent[ok ? k->n++ : 0];
    *to = (struct kept_kernel){.kernel = kernel, .us = us, .n_operands = d->n_operands};
    for (int i = 0; i < d->n_operands && ok; i++) {
        to->operands[i].size = d->operands[i].size;
        ok = place(k, d->operands[i].addr, &to->operands[i]);
    }
    if (!ok) {
        kept_void(k);
    }
}

void kept_end(struct hsa_stream * s, bool ok) {
    struct kept * k = s->npu->kept;
    struct entry * e = k ? k->entry : NULL;
    if (!e) {
        return;
    }
    k->entry = NULL;
    size_t bytes = k->n * sizeof k->sent[0];
    e->kernels = ok && k->n ? malloc(bytes) : NULL;
    e->tries += !e->kernels;
    if (e->kernels) {
        memcpy(e->kernels, k->sent, bytes);
        e->n_kernels = k->n;
        e->row_tensor = k->row_tensor;
        e->has_table = k->table != NULL;
        e->room = k->room_used;
        e->gone = store_gone(s->device->npu->store); // they are held until the next wait
    }
}

// ---- again ----

// The row that the index names. False: the index is wrong, and planning the node again reports it.
static bool find_row(struct hsa_stream * s, const struct ggml_tensor * node, int tensor,
                     uint64_t * offset) {
    const struct ggml_tensor *index = node->src[1], *t = tensor_at(node, tensor);
    if (npu_is_pending(s, index->data, ggml_nbytes(index))) {
        return false;
    }
    touch_tensor(s->device->agent, index);
    int64_t row = rows_index(index, 0, 0, 0);
    *offset = (uint64_t) row * t->nb[1];
    return row >= 0 && row < t->ne[1];
}

static enum status replay(struct hsa_stream * s, const struct ggml_tensor * node,
                          const struct entry * e, bool * done, struct error * err) {
    uint64_t row = 0;
    const char * table = e->has_table ? rope_table_kept(s, node) : NULL;
    if ((e->has_table && !table) ||
        (e->row_tensor >= 0 && !find_row(s, node, e->row_tensor, &row))) {
        return ST_OK;
    }
    enum status st = steps_room_reserve(s, e->room, err);
    if (st != ST_OK) {
        return st;
    }
    struct store_kernel * kernels[MOST_SENT];
    for (size_t i = 0; i < e->n_kernels; i++) {
        kernels[i] = e->kernels[i].kernel;
    }
    if (!store_get_again(s->device->npu->store, kernels, e->n_kernels, e->gone)) {
        return ST_OK;
    }
    *done = true;
    atomic_fetch_add(&s->device->kept_nodes, 1);
    for (size_t i = 0; i < e->n_kernels; i++) {
        const struct kept_kernel * k = &e->kernels[i];
        struct hsac_dispatch d = {.n_operands = k->n_operands, .tag = s->row};
        for (int o = 0; o < k->n_operands; o++) {
            const struct kept_operand * from = &k->operands[o];
            const char * base = from->from == FROM_TABLE  ? table
                                : from->from == FROM_ROOM ? s->npu->room
                                                          : tensor_at(node, from->tensor)->data;
            uint64_t at = from->offset + (from->from == FROM_ROW ? row : 0);
            d.operands[o].addr = (char *) (uintptr_t) base + at;
            d.operands[o].size = from->size;
        }
        // All kernels are held by now. Those that are not sent must be released.
        if (st == ST_OK) {
            st = npu_send(s, kernels[i], &d, k->us, err);
        } else {
            store_put(s->device->npu->store, kernels[i]);
        }
    }
    return st;
}

enum status kept_node(struct hsa_stream * s, const struct ggml_tensor * node, bool * done,
                      struct error * err) {
    struct kept * k = s->npu->kept;
    *done = false;
    if (!k || profile_is_each(s->device->profile)) { // which wants to know of specs
        return ST_OK;
    }
    k->entry = NULL;
    make_key(&k->key, node, s->npu->place);
    struct entry * e = kept_find(k, &k->key);
    if (e && e->kernels) {
        enum status st = replay(s, node, e, done, err);
        if (*done || e->gone == store_gone(s->device->npu->store)) {
            return st;
        }
        free(e->kernels);
        e->kernels = NULL;
    }
    e = e ? e : add(k, &k->key);
    if (e && e->tries < MOST_TRIES) {
        kept_begin(k, e, node);
    }
    return ST_OK;
}

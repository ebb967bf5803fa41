// panels-heads: caches of keys and values whose heads lie apart. A cache has a row of all heads for
// each token; attention reads one head of all tokens, in runs of 128 bytes. As one panel of all
// rows the tokens of a head follow each other. Attention and SET_ROWS take that as tensors of other
// strides; who else comes for the cache finds row behind row, from then on for good.
#include "panels-impl.h"

#include "backend/backend.h"

enum { LONG_RUN = 512 }; // bytes of a head's part of a row that are a run by themselves

// The whole tensor that keys are a view of: a cache [heads * size, tokens, sequences], of which
// they are [size, tokens, heads, sequences].
static bool cache_of(const struct ggml_tensor * keys, struct paneled * out) {
    const struct ggml_tensor * root = keys->view_src;
    if (!root || !root->data || root->type != keys->type || !ggml_is_contiguous(root)) {
        return false;
    }
    size_t part = ggml_row_size(keys->type, keys->ne[0]), row = root->nb[1], all = root->nb[2];
    size_t from = (size_t) ((char *) keys->data - (char *) root->data);
    *out = (struct paneled){.view = view_of(root),
                            .bytes = ggml_nbytes(root),
                            .row_bytes = row,
                            .panel = {.rows = (int) root->ne[1], .words = (int) (part / 4)},
                            .kind = HEADS};
    return part % 4 == 0 && part < LONG_RUN && keys->ne[2] > 1 &&
           (size_t) keys->ne[2] * part == row && keys->nb[1] == row && keys->nb[2] == part &&
           keys->nb[0] == ggml_type_size(keys->type) && from % all == 0 &&
           (keys->ne[3] == 1 || keys->nb[3] % all == 0) && keys->ne[1] <= root->ne[1] &&
           root->ne[1] <= INT32_MAX;
}

static bool same_heads(const struct paneled * there, const struct paneled * cache) {
    return there->kind == HEADS && panels_is_same(there, &cache->view) &&
           there->panel.words == cache->panel.words;
}

bool panels_wants_heads(struct panels * all, const struct ggml_tensor * keys, bool * there) {
    struct paneled cache;
    *there = false;
    if (!all || !cache_of(keys, &cache)) {
        return false;
    }
    pthread_mutex_lock(&all->lock);
    char * begin = cache.view.data;
    const struct paneled * p = panels_next(all, begin, begin + cache.bytes);
    *there = p && same_heads(p, &cache);
    bool may = !p || *there;
    pthread_mutex_unlock(&all->lock);
    return may;
}

bool panels_make_heads(struct panels * all, const struct ggml_tensor * keys) {
    struct paneled cache;
    bool ok = cache_of(keys, &cache);
    pthread_mutex_lock(&all->lock);
    char * begin = cache.view.data;
    if (ok && !panels_next(all, begin, begin + cache.bytes) && panels_lay_out(all, &cache, true)) {
        ok = panels_remember(all, &cache);
        if (!ok) {
            panels_lay_out(all, &cache, false);
        }
    }
    pthread_mutex_unlock(&all->lock);
    return ok;
}

static bool is_apart(const struct ggml_tensor * keys, size_t * part, size_t * head) {
    struct paneled cache;
    struct panels * all = buffer_panels(keys);
    bool there = false;
    if (all && atomic_load(&all->count) && panels_wants_heads(all, keys, &there) && there) {
        cache_of(keys, &cache);
        *part = (size_t) cache.panel.words * 4;
        *head = (size_t) cache.panel.rows * *part;
    }
    return there;
}

// The heads of a row are what keys would be for attention: [size, tokens, heads].
static bool heads_of_rows(const struct ggml_tensor * dst, struct ggml_tensor * keys) {
    struct panels * all = buffer_panels(dst);
    if (!all || atomic_load(&all->count) == 0 || dst->ne[2] != 1 || dst->ne[3] != 1) {
        return false;
    }
    pthread_mutex_lock(&all->lock);
    const struct paneled * p = panels_next(all, dst->data, (char *) dst->data + 1);
    struct paneled found = p ? *p : (struct paneled){.kind = PLAIN};
    pthread_mutex_unlock(&all->lock);
    size_t part = (size_t) found.panel.words * 4;
    bool ok = found.kind == HEADS && found.view.data == dst->data &&
              found.row_bytes == dst->nb[1] && found.view.ne[1] == dst->ne[1] &&
              found.bytes == ggml_nbytes(dst) && found.view.type == dst->type;
    if (ok) {
        *keys = *dst;
        keys->ne[2] = (int64_t) (dst->nb[1] / part);
        keys->ne[0] = dst->ne[0] / keys->ne[2];
        keys->nb[1] = part;
        keys->nb[2] = (size_t) dst->ne[1] * part;
        keys->nb[3] = ggml_nbytes(dst);
    }
    return ok;
}

// Whether rows of a token are added as heads, each of which is a row.
static bool adds_heads(const struct ggml_tensor * node, struct ggml_tensor * dst) {
    const struct ggml_tensor *src = node->src[0], *index = node->src[1];
    return node->op == GGML_OP_SET_ROWS && src && index && src->type == GGML_TYPE_F32 &&
           src->nb[0] == sizeof(float) && src->ne[2] == 1 && src->ne[3] == 1 && index->ne[1] == 1 &&
           index->ne[2] == 1 && heads_of_rows(node, dst);
}

const struct ggml_tensor * panels_restride(const struct ggml_tensor * node,
                                           struct panels_node * room) {
    struct ggml_tensor dst;
    if (adds_heads(node, &dst)) {
        room->node = dst;
        room->src[0] = *node->src[0];
        room->src[0].ne[0] = dst.ne[0];
        room->src[0].ne[2] = dst.ne[2];
        room->src[0].nb[2] = (size_t) dst.ne[0] * sizeof(float);
        room->src[0].nb[3] = room->src[0].nb[2] * (size_t) dst.ne[2];
        room->node.src[0] = &room->src[0];
        return &room->node;
    }
    if (node->op != GGML_OP_FLASH_ATTN_EXT) {
        return node;
    }
    bool any = false;
    room->node = *node;
    for (int i = 1; i <= 2; i++) {
        size_t part = 0, head = 0;
        if (node->src[i] && is_apart(node->src[i], &part, &head)) {
            room->src[i] = *node->src[i];
            room->src[i].nb[1] = part;
            room->src[i].nb[2] = head;
            room->node.src[i] = &room->src[i];
            any = true;
        }
    }
    return any ? &room->node : node;
}

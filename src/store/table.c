// table: chained hashing over specs. A lookup hashes some 50 words and compares one spec, far below
// a microsecond, because graphs of small tensors ask for a kernel at every node.
#include "table.h"

#include <stdlib.h>
#include <string.h>

struct kernel_spec spec_canonical(const struct kernel_spec * spec) {
    struct kernel_spec out = {.op = spec->op, .arch = spec->arch, .n_inputs = spec->n_inputs};
    out.columns = spec->columns;
    out.precision =
        kernel_has_exact(spec) ? spec->precision : KERNEL_FAST; // else one does for both
    for (int i = 0; i < spec->n_inputs; i++) {
        out.inputs[i] = tensor_canonical(&spec->inputs[i]);
    }
    out.output = tensor_canonical(&spec->output);
    memcpy(out.params, spec->params,
           (size_t) kernel_op_info(spec->op)->n_params * sizeof out.params[0]);
    return out;
}

// ---- hash: a multiplication spreads each number over all bits before the next comes in ----

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u; // 2^64 / golden ratio
    return hash ^ hash >> 32;
}

static uint64_t mix_tensor(uint64_t hash, const struct tensor * t) {
    hash = mix(hash, (uint64_t) t->dtype);
    for (int i = 0; i < TENSOR_DIMS; i++) {
        hash = mix(hash, (uint64_t) t->ne[i]);
        hash = mix(hash, (uint64_t) t->nb[i]);
    }
    return hash;
}

uint64_t spec_hash(const struct kernel_spec * s) {
    uint64_t hash = mix(mix(mix(0, (uint64_t) s->op), (uint64_t) s->arch), (uint64_t) s->n_inputs);
    hash = mix(mix(hash, (uint64_t) s->precision), (uint64_t) s->columns);
    for (int i = 0; i < s->n_inputs; i++) {
        hash = mix_tensor(hash, &s->inputs[i]);
    }
    for (int i = 0; i < kernel_op_info(s->op)->n_params; i++) {
        hash = mix(hash, s->params[i]);
    }
    return mix_tensor(hash, &s->output);
}

// Field by field: padding between fields is nobody's.
static bool tensor_equal(const struct tensor * a, const struct tensor * b) {
    return a->dtype == b->dtype && !memcmp(a->ne, b->ne, sizeof a->ne) &&
           !memcmp(a->nb, b->nb, sizeof a->nb);
}

bool spec_equal(const struct kernel_spec * a, const struct kernel_spec * b) {
    if (a->op != b->op || a->arch != b->arch || a->n_inputs != b->n_inputs ||
        a->precision != b->precision || a->columns != b->columns ||
        !tensor_equal(&a->output, &b->output) || memcmp(a->params, b->params, sizeof a->params)) {
        return false;
    }
    for (int i = 0; i < a->n_inputs; i++) {
        if (!tensor_equal(&a->inputs[i], &b->inputs[i])) {
            return false;
        }
    }
    return true;
}

// ---- table ----

struct entry * table_find(const struct table * t, const struct kernel_spec * canonical,
                          uint64_t hash) {
    struct entry * e = t->n_buckets ? t->buckets[hash & (t->n_buckets - 1)] : NULL;
    while (e && (e->hash != hash || !spec_equal(&e->asked->plan.spec, canonical))) {
        e = e->next;
    }
    return e;
}

static bool grow(struct table * t) {
    size_t n = t->n_buckets ? t->n_buckets * 2 : 64;
    struct entry ** buckets = calloc(n, sizeof *buckets);
    if (!buckets) {
        return t->n_buckets > 0; // longer chains still work
    }
    for (size_t i = 0; i < t->n_buckets; i++) {
        for (struct entry *e = t->buckets[i], *next; e; e = next) {
            next = e->next;
            e->next = buckets[e->hash & (n - 1)];
            buckets[e->hash & (n - 1)] = e;
        }
    }
    free(t->buckets);
    t->buckets = buckets;
    t->n_buckets = n;
    return true;
}

struct entry * table_add(struct table * t, const struct kernel_spec * canonical, uint64_t hash) {
    if (t->n_entries >= t->n_buckets && !grow(t)) {
        return NULL;
    }
    struct entry * e = calloc(1, sizeof *e);
    struct asked * asked = malloc(sizeof *asked);
    if (!e || !asked) {
        free(e);
        free(asked);
        return NULL;
    }
    e->hash = hash;
    e->asked = asked;
    asked->plan.spec = *canonical;
    asked->planned = false;
    e->next = t->buckets[hash & (t->n_buckets - 1)];
    t->buckets[hash & (t->n_buckets - 1)] = e;
    t->n_entries++;
    return e;
}

static void entry_free(struct entry * e) {
    free(e->asked);
    free(e->insts);
    free(e->error);
    free(e);
}

void table_remove(struct table * t, struct entry * e) {
    struct entry ** at = &t->buckets[e->hash & (t->n_buckets - 1)];
    while (*at != e) {
        at = &(*at)->next;
    }
    *at = e->next;
    t->n_entries--;
    entry_free(e);
}

void table_free(struct table * t) {
    for (size_t i = 0; i < t->n_buckets; i++) {
        for (struct entry *e = t->buckets[i], *next; e; e = next) {
            next = e->next;
            entry_free(e);
        }
    }
    free(t->buckets);
    *t = (struct table){0};
}

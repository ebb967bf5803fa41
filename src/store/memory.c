// memory: the kernels and PDIs that a store holds, and which of them go. When they take up more
// than GGML_HSA_KERNEL_MEMORY, the kernel that nobody has for longest is dropped, and its PDI with
// the last kernel that used it.
//
// Kept true: what is pinned (entry.pins, pdi_node.uses) stays where it is, so pointers that were
// handed out are good until they are given back; every entry without a pin is in the list by age;
// stats.bytes is what all entries and PDIs together take up.
#include "store-impl.h"

#include <stdlib.h>
#include <string.h>

static void pdi_free(struct pdi_node * p) {
    free(p->data);
    free(p);
}

// ---- what goes ----

static struct pdi_node * node_of(struct store_pdi * pdi) {
    return (struct pdi_node *) (void *) ((char *) pdi - offsetof(struct pdi_node, pdi));
}

static struct entry * entry_of(struct store_kernel * k) {
    return (struct entry *) (void *) ((char *) k - offsetof(struct entry, kernel));
}

static size_t pdi_bytes(const struct pdi_node * p) {
    return sizeof *p + p->pdi.size;
}

static void drop_programs(struct store * s, const struct pdi_node * pdi) {
    for (struct program **at = &s->programs, *p = *at; p; p = *at) {
        if (p->pdi == pdi) {
            *at = p->next;
            free(p);
        } else {
            at = &p->next;
        }
    }
}

static bool drop_pdi(struct store * s, struct pdi_node * p) {
    if (p->uses || p->stays) {
        return false;
    }
    if (s->uploads.drop_pdi && !s->uploads.drop_pdi(s->uploads.user, &p->pdi)) {
        p->stays = true;
        return false;
    }
    struct pdi_node ** at = &s->pdis;
    while (*at != p) {
        at = &(*at)->next;
    }
    *at = p->next;
    drop_programs(s, p);
    s->stats.bytes -= pdi_bytes(p);
    pdi_free(p);
    return true;
}

// Without a compiler a question whether there is a kernel brings PDIs that no kernel came for.
static bool drop_unused_pdi(struct store * s) {
    for (struct pdi_node *p = s->pdis, *next; p; p = next) {
        next = p->next;
        if (drop_pdi(s, p)) {
            return true;
        }
    }
    return false;
}

static void unlink_entry(struct store * s, struct entry * e) {
    *(e->newer ? &e->newer->older : &s->newest) = e->older;
    *(e->older ? &e->older->newer : &s->oldest) = e->newer;
    e->newer = e->older = NULL;
}

static void drop_entry(struct store * s, struct entry * e) {
    unlink_entry(s, e);
    s->stats.bytes -= e->bytes;
    struct pdi_node * pdi = e->kernel.pdi ? node_of(e->kernel.pdi) : NULL;
    if (pdi) {
        if (s->uploads.drop_kernel) {
            s->uploads.drop_kernel(s->uploads.user, &e->kernel);
        }
        pdi->uses--;
        s->stats.dropped++;
    }
    table_remove(&s->kernels, e);
    if (pdi) {
        drop_pdi(s, pdi);
    }
}

void memory_make_room(struct store * s) {
    while (s->stats.bytes > s->most) {
        if (s->oldest) {
            drop_entry(s, s->oldest);
        } else if (!drop_unused_pdi(s)) {
            break; // all the rest is pinned
        }
    }
}

void memory_pin(struct store * s, struct entry * e) {
    if (e->pins++ == 0) {
        unlink_entry(s, e);
    }
}

void memory_add(struct store * s, struct entry * e) {
    e->older = s->newest;
    *(s->newest ? &s->newest->newer : &s->oldest) = e;
    s->newest = e;
}

void memory_unpin(struct store * s, struct entry * e) {
    if (--e->pins == 0) {
        memory_add(s, e);
        memory_make_room(s);
    }
}

void store_put(struct store * s, struct store_kernel * k) {
    pthread_mutex_lock(&s->lock);
    memory_unpin(s, entry_of(k));
    pthread_mutex_unlock(&s->lock);
}

void store_program_name(struct store_kernel * k, char name[KERNEL_NAME_MAX]) {
    const struct asked * asked = entry_of(k)->asked;
    name[0] = '\0';
    if (asked->planned && !k->foreign) {
        aie_pdi_name(asked->plan.program, asked->plan.spec.columns, name);
    }
}

uint64_t store_gone(struct store * s) {
    pthread_mutex_lock(&s->lock);
    uint64_t gone = s->stats.dropped;
    pthread_mutex_unlock(&s->lock);
    return gone;
}

bool store_get_again(struct store * s, struct store_kernel * const * kernels, size_t n,
                     uint64_t gone) {
    pthread_mutex_lock(&s->lock);
    bool all = s->stats.dropped == gone;
    for (size_t i = 0; i < n && all; i++) {
        memory_pin(s, entry_of(kernels[i]));
        s->stats.memory_hits++;
    }
    pthread_mutex_unlock(&s->lock);
    return all;
}

void store_set_uploads(struct store * s, const struct store_uploads * uploads) {
    pthread_mutex_lock(&s->lock);
    s->uploads = *uploads;
    pthread_mutex_unlock(&s->lock);
}

// ---- PDIs ----

struct pdi_node * memory_find_pdi(struct store * s, const uint8_t digest[SHA256_BYTES],
                                  bool foreign) {
    struct pdi_node * p = s->pdis;
    while (p && (p->foreign != foreign || memcmp(p->digest, digest, sizeof p->digest))) {
        p = p->next;
    }
    return p;
}

struct pdi_node * memory_intern_pdi(struct store * s, uint8_t * data, size_t size, bool foreign) {
    struct pdi_node * fresh = calloc(1, sizeof *fresh);
    if (!fresh) {
        free(data);
        return NULL;
    }
    *fresh = (struct pdi_node){.foreign = foreign, .pdi = {data, size, NULL}, .data = data};
    sha256(data, size, fresh->digest);
    pthread_mutex_lock(&s->lock);
    struct pdi_node * p = memory_find_pdi(s, fresh->digest, foreign);
    if (!p) {
        fresh->next = s->pdis;
        s->pdis = p = fresh;
        s->stats.bytes += pdi_bytes(p);
        fresh = NULL;
    }
    p->uses++;
    pthread_mutex_unlock(&s->lock);
    if (fresh) {
        pdi_free(fresh);
    }
    return p;
}

void memory_release_pdi(struct store * s, struct pdi_node * p) {
    if (p) {
        pthread_mutex_lock(&s->lock);
        p->uses--;
        pthread_mutex_unlock(&s->lock);
    }
}

struct program * memory_find_program(struct store * s, const struct aie_plan * plan) {
    const struct kernel_spec * spec = &plan->spec;
    struct program * p = s->programs;
    while (p && (p->of != plan->program || p->arch != spec->arch || p->columns != spec->columns)) {
        p = p->next;
    }
    return p;
}

void memory_free(struct store * s) {
    table_free(&s->kernels);
    for (struct pdi_node *p = s->pdis, *next; p; p = next) {
        next = p->next;
        pdi_free(p);
    }
    for (struct program *p = s->programs, *next; p; p = next) {
        next = p->next;
        free(p->absent);
        free(p);
    }
}

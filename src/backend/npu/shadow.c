// shadow: the packed form of weights, kept with the buffer that holds them, so that they are
// converted once and not at each product. A shadow is known by what it was made of: address,
// datatype, shape, strides and pieces. A write to any of those bytes drops it.
//
// Dispatches read shadows while the host goes on. Who sends one holds it until the queue has
// drained; a shadow that was dropped meanwhile is out of the list, so that nobody finds it any
// more, and its memory goes with the last who held it.
#include "mat.h"
#include "panels.h"
#include "touch.h"

#include <stdlib.h>

struct shadow {
    struct shadow * next;
    struct shadows * owner;
    struct mat_source source;
    enum mat_pieces pieces;
    struct view view;
    struct kernel_panel panel;
    size_t holders;
    bool dropped;
};

void shadows_init(struct shadows * all, struct hsac_agent * agent) {
    *all = (struct shadows){.agent = agent, .forks = hsac_forks()};
    pthread_mutex_init(&all->lock, NULL);
}

static void destroy(struct shadow * s) {
    hsac_free(s->owner->agent, s->view.data);
    free(s);
}

void shadows_free(struct shadows * all) {
    if (all->forks != hsac_forks()) {
        return;
    }
    while (all->first) {
        struct shadow * s = all->first;
        all->first = s->next;
        destroy(s);
    }
    pthread_mutex_destroy(&all->lock);
}

static bool overlaps(const struct shadow * s, const char * begin, size_t bytes) {
    const char * data = s->source.view.data;
    return begin < data + view_bytes(&s->source.view) && data < begin + bytes;
}

void shadows_drop(struct shadows * all, const void * begin, size_t bytes) {
    if (atomic_load(&all->count) == 0 || bytes == 0 || all->forks != hsac_forks()) {
        return;
    }
    pthread_mutex_lock(&all->lock);
    for (struct shadow ** at = &all->first; *at;) {
        struct shadow * s = *at;
        if (!overlaps(s, begin, bytes)) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        atomic_fetch_sub(&all->count, 1);
        s->dropped = true;
        if (s->holders == 0) {
            destroy(s);
        }
    }
    pthread_mutex_unlock(&all->lock);
}

static struct shadow * find(struct shadows * all, const struct mat_source * source,
                            enum mat_pieces pieces) {
    for (struct shadow * s = all->first; s; s = s->next) {
        if (s->pieces == pieces && mat_same_source(&s->source, source)) {
            s->holders++;
            return s;
        }
    }
    return NULL;
}

struct shadow * shadow_find(struct shadows * all, const struct mat_source * source,
                            enum mat_pieces pieces) {
    pthread_mutex_lock(&all->lock);
    struct shadow * s = find(all, source, pieces);
    pthread_mutex_unlock(&all->lock);
    return s;
}

static struct shadow * make(struct shadows * all, const struct mat_source * source,
                            enum mat_pieces pieces, const struct mat_source * padded) {
    bool pads = pieces == MAT_PADDED;
    struct view view = pads ? padded->view : mat_packed(source, pieces, NULL);
    struct kernel_panel panel = pads ? padded->panel : (struct kernel_panel){0};
    struct shadow * s = calloc(1, sizeof *s);
    view.data = s ? hsac_alloc(all->agent, HSAC_POOL_DATA, view_bytes(&view)) : NULL;
    if (view.data) {
        touch_begin(all->agent, &source->view);
    }
    bool ok = view.data && pads;
    if (ok) {
        mat_stage_padded(source, &view);
        ok = !panel.rows || panels_arrange(&panel, view.data, view_bytes(&view), view.nb[1], true);
    } else if (view.data) {
        ok = mat_stage(source, pieces, view.data, NULL) == ST_OK;
    }
    if (view.data) {
        touch_end(all->agent, &view);
    }
    if (!ok) {
        if (view.data) {
            hsac_free(all->agent, view.data);
        }
        free(s);
        return NULL;
    }
    *s = (struct shadow){.next = all->first,
                         .owner = all,
                         .source = *source,
                         .pieces = pieces,
                         .view = view,
                         .panel = panel,
                         .holders = 1};
    all->first = s;
    atomic_fetch_add(&all->count, 1);
    return s;
}

struct shadow * shadow_make(struct shadows * all, const struct mat_source * source,
                            enum mat_pieces pieces, const struct mat_source * padded) {
    pthread_mutex_lock(&all->lock);
    struct shadow * s = find(all, source, pieces);
    if (!s) {
        s = make(all, source, pieces, padded);
    }
    bool warn = !s && !all->warned;
    all->warned |= warn;
    pthread_mutex_unlock(&all->lock);
    if (warn) {
        log_warn("no memory to keep weights as bf16: they are converted at each use, which is "
                 "slow; a smaller model, or fewer layers on the device, would fit");
    }
    return s;
}

bool shadows_padded(struct shadows * all, const struct mat_world * w, const struct mat_source * s,
                    struct mat_source * out) {
    enum { MOST = sizeof all->paddings / sizeof all->paddings[0] };
    const struct padding * p = NULL;
    struct mat_source of = *s;
    of.view.data = NULL;
    pthread_mutex_lock(&all->lock);
    for (unsigned i = 0; i < all->n_paddings && i < MOST && !p; i++) {
        bool same = mat_same_source(&all->paddings[i].of, &of);
        p = same ? &all->paddings[i] : NULL;
    }
    if (!p) {
        struct padding * made = &all->paddings[all->n_paddings++ % MOST];
        *made = (struct padding){.of = of};
        made->pads = mat_padded(w, &of, &made->to);
        p = made;
    }
    *out = p->to;
    bool pads = p->pads;
    pthread_mutex_unlock(&all->lock);
    return pads;
}

struct view shadow_view(const struct shadow * s) {
    return s->view;
}

struct kernel_panel shadow_panel(const struct shadow * s) {
    return s->panel;
}

void shadow_release(struct shadow * s) {
    struct shadows * all = s->owner;
    pthread_mutex_lock(&all->lock);
    bool last = --s->holders == 0 && s->dropped;
    pthread_mutex_unlock(&all->lock);
    if (last) {
        destroy(s);
    }
}

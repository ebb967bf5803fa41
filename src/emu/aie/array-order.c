// array-order: what a strict array sees of the order of host memory. A word that a shim channel
// has sent is on its way: silicon may show the old one to a channel that reads, until the
// controller has waited for the token of the task that wrote it. And a task that reads may do so
// from the moment on at which it is queued, however long its words then wait for room. So a task
// may read a word only if no task wrote it in this dispatch, or if that one was waited for when
// the reading one was queued; else the dispatch ends with an error, whatever the word holds here.
//
// A design that keeps its own order by locks has them: a descriptor that gives a lock back tells
// that its words are there, and one that takes a lock reads from then on.
//
// Pages of host memory that were written are found by a hash of their address; for each word there
// is the number of the task that wrote it last.
#include "emu/aie/array-model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 4096, PAGE_WORDS = PAGE_BYTES / 4, NOT_SYNCED = -1 };

struct page {
    uintptr_t at; // address / PAGE_BYTES
    uint32_t writer[PAGE_WORDS];
};

struct writer { // a task that writes, by its number
    uint8_t col, channel;
    bool token;
    int64_t synced; // the sync that waited for it; NOT_SYNCED
};

struct order {
    struct page ** pages; // by hash, a power of two
    size_t n_pages, room;
    struct writer * writers; // the first one is nobody
    uint32_t n_writers, writers_room;
    uint32_t waited; // writers before this one were all waited for
};

bool order_new(struct array * a) {
    a->order = calloc(1, sizeof *a->order);
    return a->order != NULL;
}

void order_begin(struct array * a) {
    struct order * o = a->order;
    a->syncs = 0;
    for (size_t i = 0; o && i < o->room; i++) {
        free(o->pages[i]);
        o->pages[i] = NULL;
    }
    if (o) {
        o->n_pages = 0;
        o->n_writers = o->waited = 1;
    }
}

void order_free(struct array * a) {
    if (a->order) {
        order_begin(a);
        free(a->order->pages);
        free(a->order->writers);
        free(a->order);
    }
}

// ---- pages ----

static struct page ** place_of(struct page ** pages, size_t room, uintptr_t at) {
    size_t i = (size_t) (at * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (room - 1);
    while (pages[i] && pages[i]->at != at) {
        i = (i + 1) & (room - 1);
    }
    return &pages[i];
}

static bool grow(struct order * o) {
    size_t room = o->room ? 2 * o->room : 64;
    struct page ** more = calloc(room, sizeof(struct page *));
    if (!more) {
        return false;
    }
    for (size_t i = 0; i < o->room; i++) {
        if (o->pages[i]) {
            *place_of(more, room, o->pages[i]->at) = o->pages[i];
        }
    }
    free(o->pages);
    o->pages = more;
    o->room = room;
    return true;
}

static struct page * page_of(struct order * o, uintptr_t at, bool make) {
    if (make && 2 * o->n_pages >= o->room && !grow(o)) {
        return NULL;
    }
    struct page ** p = o->room ? place_of(o->pages, o->room, at) : NULL;
    if (p && !*p && make && (*p = calloc(1, sizeof **p)) != NULL) {
        (*p)->at = at;
        o->n_pages++;
    }
    return p ? *p : NULL;
}

// ---- tasks ----

void order_task(struct channel * c) {
    struct array * a = c->tile->array;
    struct order * o = a->order;
    if (!o || c->tile->kind != TILE_SHIM || c->dir != DMA_S2MM) {
        return;
    }
    if (o->n_writers >= o->writers_room) {
        uint32_t room = o->writers_room ? 2 * o->writers_room : 256;
        struct writer * more = realloc(o->writers, room * sizeof *more);
        if (!more) {
            array_fail(a, ST_NO_MEMORY, "no memory for the order of host memory");
            return;
        }
        o->writers = more;
        o->writers_room = room;
    }
    c->order_task = o->n_writers;
    o->writers[o->n_writers++] = (struct writer){
        .col = (uint8_t) c->tile->col,
        .channel = c->index,
        .token = c->task.token,
        .synced = NOT_SYNCED,
    };
}

void order_ended(struct channel * c) {
    struct array * a = c->tile->array;
    if (a->order && c->tile->kind == TILE_SHIM && c->dir == DMA_S2MM) {
        a->order->writers[c->order_task].synced = ++a->syncs;
    }
}

// Tasks of a channel end one after the other: with the first one that has a token and was not
// waited for, those before it are known to have ended.
void order_synced(struct channel * c) {
    struct array * a = c->tile->array;
    struct order * o = a->order;
    a->syncs++;
    if (!o || c->tile->kind != TILE_SHIM || c->dir != DMA_S2MM) {
        return;
    }
    while (o->waited < o->n_writers && o->writers[o->waited].synced != NOT_SYNCED) {
        o->waited++;
    }
    bool more = true;
    for (uint32_t i = o->waited; more && i < o->n_writers; i++) {
        struct writer * w = &o->writers[i];
        if (w->col == c->tile->col && w->channel == c->index && w->synced == NOT_SYNCED) {
            w->synced = a->syncs;
            more = !w->token;
        }
    }
}

// ---- words ----

static void look(struct channel * c, const struct page * p, const uint8_t * at) {
    struct array * a = c->tile->array;
    uint32_t number = p->writer[(uintptr_t) at % PAGE_BYTES / 4];
    const struct writer * w = &a->order->writers[number];
    if (number && (w->synced == NOT_SYNCED || w->synced > c->task.synced)) {
        array_fail(a, ST_DEVICE,
                   "shim tile (%d,0) MM2S%d BD %d reads a word of 0x%" PRIx64
                   " that S2MM%d of column %d wrote, but the task was queued before that one was "
                   "waited for: silicon may still hold what was there before",
                   c->tile->col, c->index, c->bd_id, c->bd.address, w->channel, w->col);
    }
}

void order_read(struct channel * c, const uint8_t * at, uint32_t step, uint32_t n) {
    struct order * o = c->tile->array->order;
    const struct page * p = NULL;
    uintptr_t in = 0;
    for (uint32_t i = 0; i < n && o->n_pages; i++, at += 4 * (size_t) step) {
        uintptr_t page = (uintptr_t) at / PAGE_BYTES;
        if (!i || page != in) {
            p = page_of(o, page, false);
            in = page;
        }
        if (p) {
            look(c, p, at);
        }
    }
}

void order_wrote(struct channel * c, const uint8_t * at, uint32_t step, uint32_t n) {
    struct array * a = c->tile->array;
    for (uint32_t i = 0; i < n; i++, at += 4 * (size_t) step) {
        struct page * p = page_of(a->order, (uintptr_t) at / PAGE_BYTES, true);
        if (!p) {
            array_fail(a, ST_NO_MEMORY, "no memory for the order of host memory");
            return;
        }
        p->writer[(uintptr_t) at % PAGE_BYTES / 4] = c->order_task;
    }
}

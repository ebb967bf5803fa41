// array-stream: moves words. A source hands over one word at a time; it goes into the FIFO of every
// sink on its way or, when one of them is full, into none. In a framed (packet) way the first word
// is the header: it decides the way and takes the arbiters on it, which stay taken until the last
// word.
//
// Arbiters of a way are taken all at once, in the order of tickets: nobody overtakes one who waits
// for the same arbiter, so a busy sender cannot starve another.
#include "emu/aie/array-model.h"

#include <stdlib.h>
#include <string.h>

void sink_init(struct sink * s, struct tile * t, struct channel * c) {
    memset(s, 0, sizeof(*s));
    s->tile = t;
    s->channel = c;
    s->capacity = FIFO_WORDS_ENDPOINT;
}

void source_init(struct source * s, struct tile * t, struct channel * c, int slave) {
    memset(s, 0, sizeof(*s));
    s->tile = t;
    s->channel = c;
    s->slave = slave;
}

void source_free(struct source * s) {
    for (int i = 0; i < 32; i++) {
        free(s->by_id[i]);
    }
}

static void arbiters_release(struct source * s) {
    struct array * a = s->tile->array;
    for (int i = 0; s->current && i < s->current->n_arbiters; i++) {
        struct arbiter * arb = &a->arbiters[s->current->arbiters[i]];
        if (arb->holder == s) {
            arb->holder = NULL;
        }
    }
}

void source_reset(struct source * s) {
    struct array * a = s->tile->array;
    if (s->open) {
        arbiters_release(s);
    }
    if (s->ticket) {
        for (int i = 0; i < a->columns * ARRAY_ROWS * TILE_ARBITERS; i++) {
            if (a->arbiters[i].waiter == s) {
                a->arbiters[i].waiter = NULL;
            }
        }
    }
    s->open = s->header = false;
    s->ticket = 0;
    s->current = NULL;
}

static bool arbiters_take(struct source * s, const struct route * r) {
    struct array * a = s->tile->array;
    bool free_all = true;
    for (int i = 0; i < r->n_arbiters; i++) {
        const struct arbiter * arb = &a->arbiters[r->arbiters[i]];
        bool others_turn =
            arb->waiter && arb->waiter != s && (s->ticket == 0 || arb->waiter->ticket < s->ticket);
        free_all = free_all && !arb->holder && !others_turn;
    }
    if (!free_all && s->ticket == 0) {
        s->ticket = ++a->next_ticket;
    }
    for (int i = 0; i < r->n_arbiters; i++) {
        struct arbiter * arb = &a->arbiters[r->arbiters[i]];
        if (free_all) {
            arb->holder = s;
            arb->waiter = arb->waiter == s ? NULL : arb->waiter;
        } else if (!arb->waiter || arb->waiter->ticket > s->ticket) {
            arb->waiter = s;
        }
    }
    if (free_all) {
        s->ticket = 0;
    }
    return free_all;
}

const struct route * source_route(struct source * s) {
    if (s->fixed.generation != s->tile->array->generation) {
        route_trace(s->tile, s->slave, -1, &s->fixed);
    }
    return &s->fixed;
}

static struct route * packet_route(struct source * s, uint32_t header) {
    struct array * a = s->tile->array;
    struct route ** r = &s->by_id[header & 31];
    if (!*r) {
        *r = calloc(1, sizeof(**r));
        if (!*r) {
            array_fail(a, ST_NO_MEMORY, "out of memory for a packet route");
            return NULL;
        }
    }
    if ((*r)->generation != a->generation) {
        route_trace(s->tile, s->slave, (int) (header & 31), *r);
    }
    return *r;
}

// The sleeper of a full FIFO is woken by the next word that leaves it.
static void block_on(struct source * s, struct sink * sink) {
    sink->blocked = s;
    if (s->channel) {
        channel_sleep(s->channel);
    }
}

static void sink_push(struct sink * s, uint32_t word, bool last, uint64_t ready) {
    struct sink_word * w = &s->ring[(s->head + s->count) % FIFO_RING];
    w->word = word;
    w->last = last;
    w->ready = ready;
    s->count++;
    if (s->channel) {
        channel_wake(s->channel);
    } else if (s->tile->wait == WAIT_STREAM_IN) {
        tile_core_wake(s->tile, ready);
    }
}

// Finds the way of the next word; NULL when it cannot go yet.
static struct route * way(struct source * s, uint32_t word) {
    if (s->open) {
        return s->current;
    }
    struct route * r = (struct route *) source_route(s);
    if (r->packet) {
        r = packet_route(s, word);
        if (r && !r->dead_end && !arbiters_take(s, r)) {
            return NULL; // stays awake: whoever waits in line asks again every cycle
        }
    }
    if (!r) {
        return NULL;
    }
    s->current = r;
    if (r->dead_end) {
        if (s->channel) {
            channel_sleep(s->channel);
        }
        return NULL;
    }
    s->open = s->header = r->packet;
    return r;
}

bool source_push(struct source * s, uint32_t word, bool last) {
    const struct route * r = way(s, word);
    if (!r) {
        return false;
    }
    uint64_t now = s->tile->array->now;
    for (int i = 0; i < r->n_sinks; i++) {
        struct sink * sink = r->sinks[i].sink;
        if (sink->count >= sink->capacity && !(s->header && r->sinks[i].drop_header)) {
            block_on(s, sink); // a header keeps its arbiters, so no one else can block here
            return false;
        }
    }
    for (int i = 0; i < r->n_sinks; i++) {
        if (!(s->header && r->sinks[i].drop_header)) {
            sink_push(r->sinks[i].sink, word, last, now + r->sinks[i].latency);
        }
    }
    s->header = false;
    if (last && s->open) {
        arbiters_release(s);
        s->open = false;
    }
    return true;
}

bool sink_pop(struct sink * s, uint32_t * word, bool * last) {
    if (s->count == 0) {
        if (s->channel) {
            channel_sleep(s->channel);
        }
        return false;
    }
    const struct sink_word * w = &s->ring[s->head];
    struct array * a = s->tile->array;
    if (w->ready > a->now) {
        if (!s->channel) {
            tile_core_wake(s->tile, w->ready);
        }
        return false;
    }
    *word = w->word;
    *last = w->last;
    s->head = (s->head + 1) % FIFO_RING;
    s->count--;
    if (s->blocked) {
        struct source * b = s->blocked;
        s->blocked = NULL;
        if (b->channel) {
            channel_wake(b->channel);
        } else {
            tile_core_wake(b->tile, a->now + 1);
        }
    }
    return true;
}

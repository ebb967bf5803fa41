// array-stream: the ways of words and the FIFOs at their ends. A source hands words over to every
// sink on its way or, when one of them is full, to none. In a framed (packet) way the first word is
// the header: it decides the way and takes the arbiters on it, which stay taken until the last
// word.
//
// A FIFO keeps for its words when they will be through the switches, and for the places that became
// free when that was; both as runs of words that follow each other without a gap. From these the
// time of every word follows, no matter who is asked first: word k enters at the earliest when word
// k less the capacity of its way has left and the free place has come back the same way.
//
// Arbiters of a way are taken all at once, in the order of tickets: nobody overtakes one who waits
// for the same arbiter, so a busy sender cannot starve another.
#include "emu/aie/array-model.h"

#include <stdlib.h>
#include <string.h>

// Whoever asks at the array's time: the control port if it is one, else the tile's core.
static void wake(struct tile * t, struct control * c, uint64_t at) {
    if (c) {
        control_wake(c, at);
    } else {
        tile_core_wake(t, at);
    }
}

// Both are made of zeros.
void sink_init(struct sink * s, struct tile * t, struct channel * c) {
    s->tile = t;
    s->channel = c;
    s->ready.ring = s->ready_ring;
    s->freed.ring = s->freed_ring;
}

void sink_reset(struct sink * s) {
    s->blocked = NULL;
    s->pushed = s->popped = 0;
    s->ready.head = s->ready.count = 0;
    s->freed.head = s->freed.count = 0;
    s->freed_words = 0;
}

void source_init(struct source * s, struct tile * t, struct channel * c, int slave) {
    s->tile = t;
    s->channel = c;
    s->slave = slave;
}

void source_free(struct source * s) {
    for (int i = 0; i < 32; i++) {
        free(s->by_id[i]);
    }
}

// ---- arbiters ----

// Those who stand in line ask again.
static void line_moves(struct array * a) {
    for (int i = 0; a->in_line && i < a->columns * ARRAY_ROWS; i++) {
        struct tile * t = &a->tiles[i];
        for (int j = 0; j < tile_traits[t->kind].channels; j++) {
            if (t->channels[DMA_MM2S][j].source.ticket) {
                channel_try(&t->channels[DMA_MM2S][j]);
            }
        }
    }
}

static void leave_line(struct source * s) {
    if (s->ticket && s->channel) {
        s->tile->array->in_line--;
    }
    s->ticket = 0;
}

static void arbiters_release(struct source * s) {
    struct array * a = s->tile->array;
    for (int i = 0; s->current && i < s->current->n_arbiters; i++) {
        struct arbiter * arb = &a->arbiters[s->current->arbiters[i]];
        if (arb->holder == s) {
            arb->holder = NULL;
        }
    }
    line_moves(a);
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
    leave_line(s);
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
        a->in_line += s->channel != NULL;
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
    if (free_all && s->ticket) {
        leave_line(s);
        line_moves(a);
    }
    return free_all;
}

// ---- ways ----

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

struct route * source_way(struct source * s, uint32_t word) {
    if (s->open) {
        return s->current;
    }
    struct route * r = (struct route *) source_route(s);
    if (r->packet) {
        r = packet_route(s, word);
        if (r && !r->dead_end && !arbiters_take(s, r)) {
            return NULL; // a channel asks again when the line moves, others every cycle
        }
    }
    if (!r) {
        return NULL;
    }
    s->current = r;
    if (r->dead_end) {
        return NULL;
    }
    s->open = s->header = r->packet;
    return r;
}

void source_close(struct source * s) {
    if (s->open) {
        arbiters_release(s);
        s->open = false;
    }
}

// ---- runs ----

static struct run * run_at(struct runs * r, uint32_t i) {
    return &r->ring[(r->head + i) % FIFO_RING];
}

static void runs_append(struct runs * r, uint64_t tick, uint32_t n) {
    if (r->count) {
        struct run * last = run_at(r, r->count - 1);
        if (last->tick + last->n == tick) {
            last->n += n;
            return;
        }
    } else {
        r->head = 0;
    }
    *run_at(r, r->count++) = (struct run){tick, n};
}

static void runs_drop(struct runs * r, uint32_t n) {
    while (n) {
        struct run * first = run_at(r, 0);
        uint32_t part = first->n < n ? first->n : n;
        first->tick += part;
        first->n -= part;
        n -= part;
        if (first->n == 0) {
            r->head = (r->head + 1) % FIFO_RING;
            r->count--;
        }
    }
}

// How many of n words can follow each other from `tick` on without meeting a time that comes later,
// `after` words of the runs left out and `lag` added to their times.
static uint32_t runs_match(const struct runs * r, uint64_t after, uint64_t lag, uint64_t tick,
                           uint32_t n) {
    uint32_t match = 0;
    for (uint32_t i = 0; i < r->count && match < n; i++) {
        const struct run * run = &r->ring[(r->head + i) % FIFO_RING];
        if (after >= run->n) {
            after -= run->n;
            continue;
        }
        if (run->tick + after + lag > tick + match) {
            break;
        }
        match += run->n - (uint32_t) after;
        after = 0;
    }
    return match < n ? match : n;
}

// ---- room ----

// Words that find a place that was never taken, or left so long ago that nobody knows.
static uint64_t long_free(const struct sink * s, uint32_t capacity) {
    uint64_t known = s->popped - s->freed_words + capacity; // the first word with a known place
    return known > s->pushed ? known - s->pushed : 0;
}

// When the next word finds a place; false: not known, the FIFO is full.
static bool place_free(const struct sink * s, uint32_t capacity, uint64_t * tick) {
    *tick = 0;
    if (long_free(s, capacity)) {
        return true;
    }
    uint64_t after = s->pushed - capacity - (s->popped - s->freed_words);
    for (uint32_t i = 0; i < s->freed.count; i++) {
        const struct run * run = &s->freed.ring[(s->freed.head + i) % FIFO_RING];
        if (after < run->n) {
            *tick = run->tick + after;
            return true;
        }
        after -= run->n;
    }
    return false;
}

uint32_t sink_places(const struct sink * s, uint32_t n, uint32_t capacity, uint64_t back,
                     uint64_t tick) {
    uint64_t free = long_free(s, capacity);
    if (free >= n) {
        return n;
    }
    uint64_t base = s->popped - s->freed_words;
    uint64_t first = s->pushed + free - capacity; // word whose place comes next
    return (uint32_t) free +
           runs_match(&s->freed, first - base, back, tick + free, n - (uint32_t) free);
}

// How many of n words can enter one after the other, the first at *tick or as soon after it as all
// sinks have a place; 0: nobody knows yet.
uint32_t source_room(struct source * s, const struct route * r, uint64_t * tick, uint32_t n) {
    n = s->header ? 1 : n;
    for (int i = 0; i < r->n_sinks; i++) {
        struct sink * sink = r->sinks[i].sink;
        uint64_t free;
        if (s->header && r->sinks[i].drop_header) {
            continue;
        }
        if (!place_free(sink, r->sinks[i].capacity, &free)) {
            sink->blocked = s; // the next word that leaves wakes
            return 0;
        }
        if (free && free + r->sinks[i].back > *tick) {
            *tick = free + r->sinks[i].back;
        }
    }
    for (int i = 0; i < r->n_sinks && n > 1; i++) {
        n = sink_places(r->sinks[i].sink, n, r->sinks[i].capacity, r->sinks[i].back, *tick);
    }
    return n;
}

// ---- words in ----

static void append(struct sink * s, const uint32_t * words, uint32_t n, uint64_t ready, bool last) {
    uint32_t at = (uint32_t) (s->pushed % FIFO_RING), first = FIFO_RING - at;
    first = first < n ? first : n;
    memcpy(&s->words[at], words, (size_t) first * 4);
    memcpy(&s->words[0], words + first, (size_t) (n - first) * 4);
    runs_append(&s->ready, ready, n);
    s->pushed += n;
    if (s->channel) {
        channel_used(s->channel);
        channel_wake(s->channel);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        s->last[(at + i) % FIFO_RING] = last && i + 1 == n;
    }
    if (s->control || s->tile->wait == WAIT_STREAM_IN) {
        struct array * a = s->tile->array;
        uint64_t at_cycle = cycle_of(a, ready + ticks(a, 1) - 1);
        wake(s->tile, s->control, at_cycle > a->now ? at_cycle : a->now + 1);
    }
}

void source_enter(struct source * s, const struct route * r, const uint32_t * words, uint32_t n,
                  uint64_t tick, bool last) {
    for (int i = 0; i < r->n_sinks; i++) {
        if (!(s->header && r->sinks[i].drop_header)) {
            append(r->sinks[i].sink, words, n, tick + r->sinks[i].latency, last);
        }
    }
    s->header = false;
}

bool source_push(struct source * s, uint32_t word, bool last) {
    struct array * a = s->tile->array;
    const struct route * r = source_way(s, word);
    uint64_t now = ticks(a, a->now), tick = now;
    if (!r || !source_room(s, r, &tick, 1)) {
        return false;
    }
    if (tick > now) { // a place that someone will leave
        wake(s->tile, s->control, cycle_of(a, tick + ticks(a, 1) - 1));
        return false;
    }
    source_enter(s, r, &word, 1, tick, last);
    if (last) {
        source_close(s);
    }
    return true;
}

// ---- words out ----

uint32_t sink_ready(const struct sink * s, uint64_t * tick, uint32_t n) {
    if (s->ready.count == 0) {
        return 0;
    }
    uint64_t first = s->ready.ring[s->ready.head].tick;
    *tick = first > *tick ? first : *tick;
    return runs_match(&s->ready, 0, 0, *tick, n);
}

// Only as many free places are kept as somebody can ask for.
static void left(struct sink * s, uint32_t n, uint64_t tick) {
    uint32_t keep = n < s->capacity ? n : s->capacity;
    s->popped += n;
    if (s->freed_words + keep > s->capacity) {
        uint32_t old = s->freed_words + keep - s->capacity;
        runs_drop(&s->freed, old);
        s->freed_words -= old;
    }
    runs_append(&s->freed, tick + n - keep, keep);
    s->freed_words += keep;
    if (s->blocked) {
        struct source * b = s->blocked;
        s->blocked = NULL;
        if (b->channel) {
            channel_wake(b->channel);
        } else {
            wake(b->tile, b->control, s->tile->array->now + 1);
        }
    }
}

void sink_take(struct sink * s, uint32_t * words, uint32_t n, uint64_t tick) {
    uint32_t at = (uint32_t) (s->popped % FIFO_RING), first = FIFO_RING - at;
    first = first < n ? first : n;
    memcpy(words, &s->words[at], (size_t) first * 4);
    memcpy(words + first, &s->words[0], (size_t) (n - first) * 4);
    runs_drop(&s->ready, n);
    left(s, n, tick);
}

void sink_pass(struct sink * s, uint32_t n, uint64_t tick) {
    s->pushed += n;
    left(s, n, tick);
}

bool sink_pop(struct sink * s, uint32_t * word, bool * last) {
    struct array * a = s->tile->array;
    uint64_t now = ticks(a, a->now), tick = now;
    if (!sink_ready(s, &tick, 1)) {
        return false;
    }
    if (tick > now) {
        wake(s->tile, s->control, cycle_of(a, tick + ticks(a, 1) - 1));
        return false;
    }
    *last = s->last[s->popped % FIFO_RING];
    sink_take(s, word, 1, tick);
    return true;
}

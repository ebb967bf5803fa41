// array-burst: many cycles at once. While every awake channel only moves a word a cycle, and nobody
// finishes, blocks, wakes or is woken, a stretch of cycles is a copy: words leave the FIFOs for
// memory, words from memory follow them, and what is last in stays in the FIFOs.
//
// Kept true: array_burst leaves memory, FIFOs and counters as that many single cycles would, or
// does nothing. Whatever it does not understand is left to single cycles.
#include "emu/aie/array-model.h"

#include <string.h>

// Shorter ones cost more to plan than they save, and so does asking again in the next cycle. The
// test of this file plans all of them.
#ifndef BURST_MIN
#    define BURST_MIN   8 // cycles
#    define BURST_PAUSE 6 // cycles after an attempt that failed
#endif

enum {
    BURST_MAX = 512, // words; a buffer of them lies on the stack
    MAX_MOVERS = ARRAY_MAX_COLUMNS * ARRAY_COLUMN_CHANNELS,
};

struct burst {
    uint64_t now;
    uint64_t cycles; // that it may last
    int n_out, n_in; // channels that move: memory to stream, stream to memory
    struct channel * out[MAX_MOVERS];
    struct channel * in[MAX_MOVERS];
};

static void limit(struct burst * b, uint64_t cycles) {
    b->cycles = cycles < b->cycles ? cycles : b->cycles;
}

static int place(const struct channel * c) { // in the order of a cycle
    return c->tile->col * ARRAY_COLUMN_CHANNELS + c->bit;
}

// ---- who moves ----

// The way that the next words take, all of them sinks of channels; NULL when that is not sure.
static const struct route * open_route(const struct source * s) {
    const struct route * r = s->open ? s->current : &s->fixed;
    if (!r || s->header || s->ticket || r->generation != s->tile->array->generation ||
        (r->packet && !s->open) || r->dead_end || r->n_sinks == 0) {
        return NULL;
    }
    for (int i = 0; i < r->n_sinks; i++) {
        if (!r->sinks[i].sink->channel) {
            return NULL;
        }
    }
    return r;
}

// Looks at the channels that are awake; false when one of them is about to do something else.
static bool find_movers(struct array * a, struct burst * b) {
    for (int col = 0; col < a->columns; col++) {
        for (uint32_t left = a->awake[col]; left; left &= left - 1) {
            struct channel * c = a->by_bit[col][__builtin_ctz(left)];
            if (c->state != CHANNEL_RUN || c->left == 1) {
                return false;
            }
            if (a->now < c->resume) {
                limit(b, c->resume - a->now);
                continue;
            }
            limit(b, c->left - 1);
            if (c->dir == DMA_MM2S) {
                if (c->header_due || !open_route(&c->source)) {
                    return false;
                }
                b->out[b->n_out++] = c;
            } else if (c->sink.blocked) {
                return false;
            } else {
                b->in[b->n_in++] = c;
            }
        }
    }
    return b->n_out + b->n_in > 0;
}

// ---- for how long ----

static uint64_t ready_at(const struct sink * s, uint32_t i) {
    return s->ring[(s->head + i) % FIFO_RING].ready;
}

// The first cycles in which a word is ready in each.
static uint64_t ready_run(const struct sink * s, uint64_t now) {
    uint32_t i = 0;
    while (i < s->count && ready_at(s, i) <= now + i) {
        i++;
    }
    return i;
}

static bool plan_feeds(struct burst * b) {
    for (int i = 0; i < b->n_out; i++) {
        const struct channel * c = b->out[i];
        const struct route * r = open_route(&c->source);
        for (int j = 0; j < r->n_sinks; j++) {
            struct sink * s = r->sinks[j].sink;
            if (s->feeder) {
                return false;
            }
            s->feeder = c;
            s->feed_latency = r->sinks[j].latency;
            if (s->channel->state != CHANNEL_RUN) {
                return false; // asked again at every word
            }
        }
    }
    return true;
}

// A channel that has no word ready only waits, and words gather in its FIFO.
static bool plan_sinks(struct burst * b) {
    int moving = 0;
    for (int i = 0; i < b->n_in; i++) {
        struct channel * c = b->in[i];
        struct sink * s = &c->sink;
        if (s->count == 0) {
            if (!s->feeder) {
                return false;
            }
            limit(b, s->feed_latency);
        } else if (ready_at(s, 0) > b->now) {
            limit(b, ready_at(s, 0) - b->now);
        } else {
            uint64_t run = ready_run(s, b->now);
            // behind them the words that come in now, if the FIFO is as long as their way
            if (run < s->count || !s->feeder || s->count < s->feed_latency) {
                limit(b, run);
            }
            if (s->feeder && place(s->feeder) < place(c) && s->count >= s->capacity) {
                return false;
            }
            s->drained = true;
            b->in[moving++] = c;
        }
    }
    b->n_in = moving;
    for (int i = 0; i < b->n_out; i++) {
        const struct route * r = open_route(&b->out[i]->source);
        for (int j = 0; j < r->n_sinks; j++) {
            const struct sink * s = r->sinks[j].sink;
            if (s->drained) {
                continue;
            }
            if (s->count >= s->capacity) {
                return false;
            }
            limit(b, s->capacity - s->count);
            if (s->count == 0) { // perhaps asleep: the first word wakes it
                limit(b, s->feed_latency);
            }
        }
    }
    return true;
}

// The bytes that a channel may touch in so many cycles: all of its descriptor's, unless it walks
// straight on.
static void touched(const struct channel * c, uint64_t cycles, uintptr_t * first, uintptr_t * end) {
    *first = (uintptr_t) c->base;
    *end = *first + c->span;
    if (c->bd.wrap[0] == 0 && c->bd.step[0] == 1 && !c->bd.pads) {
        *first += c->offset * 4;
        *end = *first + cycles * 4;
    }
}

// Copies are not made word by word in turn: nobody may read what another writes meanwhile.
static bool apart(const struct burst * b) {
    for (int i = 0; i < b->n_in; i++) {
        uintptr_t first, end;
        touched(b->in[i], b->cycles, &first, &end);
        for (int j = 0; j < b->n_out; j++) {
            uintptr_t other_first, other_end;
            if (b->in[i]->tile->row != b->out[j]->tile->row) {
                continue; // another memory
            }
            touched(b->out[j], b->cycles, &other_first, &other_end);
            if (first < other_end && other_first < end) {
                return false;
            }
        }
    }
    return true;
}

// ---- the copies ----

static void fifo_append(struct sink * s, const uint32_t * words, uint32_t n, uint64_t ready) {
    for (uint32_t i = 0; i < n; i++) {
        s->ring[(s->head + s->count + i) % FIFO_RING] =
            (struct sink_word){.word = words[i], .ready = ready + i};
    }
    s->count += n;
}

static void fifo_take(struct sink * s, uint32_t * words, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        words[i] = s->ring[(s->head + i) % FIFO_RING].word;
    }
    s->head = (s->head + n) % FIFO_RING;
    s->count -= n;
}

// n words come to a FIFO in n cycles, and as many leave it if it is drained.
static void pass_on(struct sink * s, const uint32_t * words, uint32_t n, uint64_t now) {
    uint64_t ready = now + s->feed_latency;
    if (!s->drained) {
        if (s->count == 0) {
            channel_wake(s->channel);
        }
        fifo_append(s, words, n, ready);
        return;
    }
    uint32_t old[FIFO_RING], first = s->count < n ? s->count : n, direct = n - first;
    fifo_take(s, old, first);
    channel_write_words(s->channel, old, first);
    channel_write_words(s->channel, words, direct);
    fifo_append(s, words + direct, first, ready + direct);
}

static void copy(struct array * a, struct burst * b) {
    uint32_t n = (uint32_t) b->cycles, words[BURST_MAX];
    for (int i = 0; i < b->n_out; i++) {
        struct channel * c = b->out[i];
        const struct route * r = open_route(&c->source);
        channel_read_words(c, words, n);
        for (int j = 0; j < r->n_sinks; j++) {
            pass_on(r->sinks[j].sink, words, n, b->now);
        }
        a->stream_words += c->tile->kind == TILE_SHIM ? n : 0;
    }
    for (int i = 0; i < b->n_in; i++) {
        struct channel * c = b->in[i];
        if (!c->sink.feeder) {
            fifo_take(&c->sink, words, n);
            channel_write_words(c, words, n);
        }
        a->stream_words += c->tile->kind == TILE_SHIM ? n : 0;
    }
}

static void forget_plan(struct burst * b, int n_in) {
    for (int i = 0; i < n_in; i++) {
        b->in[i]->sink.drained = false;
    }
    for (int i = 0; i < b->n_out; i++) {
        const struct route * r = open_route(&b->out[i]->source);
        for (int j = 0; j < r->n_sinks; j++) {
            r->sinks[j].sink->feeder = NULL;
        }
    }
}

void array_burst(struct array * a, uint64_t until) {
    struct burst b;
    if (a->config.single_cycles || a->now < a->next_burst || until < a->now + BURST_MIN) {
        return;
    }
    b.now = a->now;
    b.cycles = until - a->now < BURST_MAX ? until - a->now : BURST_MAX;
    b.n_out = b.n_in = 0;
    bool found = find_movers(a, &b) && b.cycles >= BURST_MIN;
    if (found) {
        bool ok = plan_feeds(&b) && plan_sinks(&b) && b.cycles >= BURST_MIN && apart(&b);
        if (ok) {
            copy(a, &b);
            a->now += b.cycles;
        }
        forget_plan(&b, b.n_in);
        found = ok;
    }
    if (!found) {
        a->next_burst = a->now + BURST_PAUSE;
    }
}

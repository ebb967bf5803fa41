// array-burst: the channels' part of a cycle, and how words move. A channel moves as many words at
// once as it knows the times of: those that wait in its FIFO, those for which there is a place, and
// the rest of a transfer when the channel at the other end has nothing else to do. They may move
// ahead of the clock, for a FIFO's times say when (array-stream.c); nobody sees a transfer's memory
// before its lock, and locks follow the clock.
//
// Kept true: times, memory and counters are those of words that move one by one, each in its own
// cycle, which is what happens when config.single_cycles is set. In a cycle first the words move
// (of that cycle, if single), then descriptors end, then channels ask for tasks, locks, arbiters
// and host memory, each in the order of columns and channels.
#include "emu/aie/array-model.h"

#include <string.h>

enum { CHUNK = 1024 }; // words; a buffer of them lies on the stack

// ---- what a channel may move ----

// Words that host memory has granted. Begins the next burst when the last one is through.
static uint32_t granted(struct channel * c) {
    if (c->burst_left == 0) {
        struct array * a = c->tile->array;
        if (!c->granted) {
            return 0;
        }
        if (c->dir == DMA_MM2S) {
            c->next += ticks(a, a->clock.burst_gap);
        }
        if (c->burst_ready > c->next) {
            c->ddr_from = c->next;
            c->next = c->ddr_till = c->burst_ready;
        }
        c->burst_left = c->left < a->clock.burst_words ? c->left : a->clock.burst_words;
        c->granted = c->burst_begun = false;
    }
    return c->burst_left;
}

static void moved(struct channel * c, uint32_t n, uint64_t tick) {
    struct array * a = c->tile->array;
    uint64_t end = tick + n;
    if (c->left + n == c->bd.length) {
        c->first = tick;
    }
    c->next = end;
    c->burst_left -= n;
    a->reached = end > a->reached ? end : a->reached;
    if (c->tile->kind == TILE_SHIM) {
        a->stream_words += n;
        shim_tell(c);
        if (!c->burst_begun && c->left > c->burst_left) {
            channel_event(c, cycle_of(a, tick), REQUEST_BURST);
        }
        c->burst_begun = true;
    } else if (end > a->tiles_moving) {
        a->tiles_moving = end;
    }
    if (c->left == 0) {
        channel_event(c, cycle_of(a, end - 1), REQUEST_NONE);
    }
}

// How many of n words from `tick` on may move now; none: the channel looks again when it is time.
static uint32_t in_time(struct channel * c, uint64_t tick, uint32_t n) {
    const struct array * a = c->tile->array;
    bool single = a->config.single_cycles;
    uint64_t end = ticks(a, single ? a->now + 1 : a->until);
    if (tick >= end) {
        c->look = cycle_of(a, tick);
        channel_set_wake(c);
        return 0;
    }
    n = single ? 1 : n < CHUNK ? n : CHUNK;
    return end - tick < n ? (uint32_t) (end - tick) : n;
}

// ---- stream to memory ----

static void move_in(struct channel * c) {
    uint32_t words[FIFO_RING];
    while (c->left) {
        uint64_t tick = 0;
        uint32_t n = granted(c);
        tick = c->next;
        n = n ? sink_ready(&c->sink, &tick, n) : 0;
        n = n ? in_time(c, tick, n) : 0;
        if (n == 0) {
            return;
        }
        sink_take(&c->sink, words, n, tick);
        walk_write(c, words, n);
        moved(c, n, tick);
    }
}

// ---- memory to stream ----

// The way that the next words take; NULL when it is still to be asked for or leads nowhere.
static const struct route * open_way(struct channel * c) {
    struct source * s = &c->source;
    struct array * a = c->tile->array;
    if (s->open) {
        return s->current;
    }
    const struct route * r = source_route(s);
    if (!r->packet) {
        s->current = (struct route *) r;
        return r->dead_end ? NULL : r; // asked again when a switch changes
    }
    if (s->ticket == 0 && (c->request != REQUEST_WAY || c->event == NEVER)) {
        uint64_t cycle = cycle_of(a, c->next);
        channel_event(c, cycle > a->now ? cycle : a->now, REQUEST_WAY);
    }
    return NULL;
}

// How many of n words can go straight on to the memories at the other end, the first entering the
// switch at `tick`: each receiver has an empty FIFO and takes each word at the same time after it
// was sent, soon enough for its place to be free again.
static uint32_t straight(const struct channel * c, const struct route * r, uint64_t tick,
                         uint32_t n) {
    const struct array * a = c->tile->array;
    uint64_t end = ticks(a, a->until);
    for (int i = 0; i < r->n_sinks && n; i++) {
        const struct sink * s = r->sinks[i].sink;
        struct channel * to = s->channel;
        if (!to || to->state != CHANNEL_RUN || to->left == 0 || s->ready.count) {
            return 0;
        }
        uint32_t room = granted(to);
        uint64_t first = tick + r->sinks[i].latency;
        first = first > to->next ? first : to->next;
        if (first - tick + r->sinks[i].back > r->sinks[i].capacity || first >= end) {
            return 0;
        }
        n = n < room ? n : room;
        n = end - first < n ? (uint32_t) (end - first) : n;
        // With places for all that can be on its way there are places for what follows.
        uint32_t way = n < r->sinks[i].capacity ? n : r->sinks[i].capacity;
        uint32_t free = sink_places(s, way, r->sinks[i].capacity, r->sinks[i].back, tick);
        n = free < way ? free : n;
    }
    return r->n_sinks ? n : 0;
}

// words NULL: they are there.
static void pass_on(const struct route * r, const uint32_t * words, uint32_t n, uint64_t tick) {
    for (int i = 0; i < r->n_sinks; i++) {
        struct sink * s = r->sinks[i].sink;
        struct channel * to = s->channel;
        uint64_t first = tick + r->sinks[i].latency;
        first = first > to->next ? first : to->next;
        if (words) {
            walk_write(to, words, n);
        } else {
            walk_written(to, n);
        }
        sink_pass(s, n, first);
        moved(to, n, first);
    }
}

// Where n words go when they go to one place, in other memory than they come from.
static uint32_t * only_place(const struct channel * c, const struct route * r, uint32_t n) {
    const struct channel * to = r->sinks[0].sink->channel;
    bool other = to->tile->kind != c->tile->kind && to->tile->kind != TILE_SHIM;
    return r->n_sinks == 1 && other ? walk_place(to, n) : NULL;
}

static void move_out(struct channel * c) {
    uint32_t words[CHUNK];
    struct array * a = c->tile->array;
    while (c->left) {
        uint32_t most = granted(c);
        const struct route * r = most ? open_way(c) : NULL;
        if (!r) {
            return;
        }
        uint64_t tick = c->next;
        bool header = c->header_due, frame = c->source.header;
        uint32_t room = source_room(&c->source, r, &tick, header ? 1 : most);
        uint32_t n = room ? in_time(c, tick, room) : 0;
        if (n == 0) {
            return;
        }
        if (header) {
            words[0] = packet_header(c);
            source_enter(&c->source, r, words, 1, tick, false);
            c->header_due = false;
            c->next = tick + 1;
            a->reached = c->next > a->reached ? c->next : a->reached;
            continue;
        }
        uint32_t all =
            a->config.single_cycles || frame ? 0 : straight(c, r, tick, in_time(c, tick, most));
        if (all) {
            uint32_t * place = only_place(c, r, all);
            walk_read(c, place ? place : words, all);
            pass_on(r, place ? NULL : words, all, tick);
            moved(c, all, tick);
            continue;
        }
        walk_read(c, words, n);
        source_enter(&c->source, r, words, n, tick, c->left == 0 && !c->bd.suppress_tlast);
        moved(c, n, tick);
    }
}

// ---- the cycle ----

static void move_all(struct array * a) {
    for (bool any = true; any && !a->failed;) {
        any = false;
        for (int col = 0; col < a->columns; col++) {
            while (a->awake[col]) {
                struct channel * c = a->by_bit[col][__builtin_ctz(a->awake[col])];
                a->awake[col] &= a->awake[col] - 1;
                any = true;
                if (c->state == CHANNEL_RUN) {
                    c->dir == DMA_MM2S ? move_out(c) : move_in(c);
                }
            }
        }
    }
}

static void find_due_in(struct array * a, int col, uint32_t * due) {
    uint64_t next = NEVER;
    for (uint32_t left = a->armed[col]; left; left &= left - 1) {
        int bit = __builtin_ctz(left);
        uint64_t wake = a->wake[col][bit];
        if (wake <= a->now) {
            struct channel * c = a->by_bit[col][bit];
            if (c->look <= a->now) {
                c->look = NEVER;
                a->awake[col] |= 1u << bit;
            }
            if (c->event <= a->now) {
                *due |= 1u << bit;
                c->event = NEVER;
            }
            channel_set_wake(c);
            wake = a->wake[col][bit];
        }
        next = wake < next ? wake : next;
    }
    a->column_wake[col] = next;
}

// Wakes those whose time to look has come, marks those whose event has, and finds the next time.
static void find_due(struct array * a, uint32_t due[]) {
    uint64_t next = NEVER;
    for (int col = 0; col < a->columns; col++) {
        if (a->column_wake[col] <= a->now) {
            find_due_in(a, col, &due[col]);
        }
        next = a->column_wake[col] < next ? a->column_wake[col] : next;
    }
    a->next_wake = next;
}

// Ways are traced anew; those who stood before a dead end look again.
static void follow_switches(struct array * a) {
    a->switch_changed = false;
    for (int i = 0; i < a->columns * ARRAY_ROWS; i++) {
        struct tile * t = &a->tiles[i];
        for (int j = 0; j < tile_traits[t->kind].channels; j++) {
            if (t->channels[DMA_MM2S][j].state == CHANNEL_RUN) {
                channel_wake(&t->channels[DMA_MM2S][j]);
            }
        }
        if (t->wait == WAIT_STREAM_OUT) {
            tile_core_wake(t, a->now + 1);
        }
        if (t->control.state == CONTROL_ANSWER) {
            control_wake(&t->control, a->now + 1);
        }
    }
}

void array_channels(struct array * a) {
    uint32_t due[ARRAY_MAX_COLUMNS] = {0};
    if (!a->woken && a->next_wake > a->now) {
        return;
    }
    if (a->switch_changed) {
        follow_switches(a);
    }
    if (a->next_wake <= a->now) {
        find_due(a, due);
    }
    move_all(a);
    if (a->next_wake <= a->now) { // a descriptor's last word, just now
        find_due(a, due);
    }
    for (int col = 0; col < a->columns; col++) {
        for (uint32_t left = due[col]; left && !a->failed; left &= left - 1) {
            struct channel * c = a->by_bit[col][__builtin_ctz(left)];
            if (c->state == CHANNEL_RUN && c->left == 0) {
                channel_finish(c);
            } else {
                channel_try(c);
            }
        }
    }
    struct channel * trying[ARRAY_MAX_COLUMNS * ARRAY_COLUMN_CHANNELS];
    int n = 0;
    for (int col = 0; col < a->columns; col++) {
        for (uint32_t left = a->trying[col]; left; left &= left - 1) {
            trying[n++] = a->by_bit[col][__builtin_ctz(left)];
        }
        a->trying[col] = 0;
    }
    for (int i = 0; i < n && !a->failed; i++) {
        channel_ask(trying[i]);
    }
    move_all(a);
    a->woken = false;
    for (int col = 0; col < a->columns; col++) {
        a->woken |= a->trying[col] != 0; // by those who asked in this cycle
    }
}

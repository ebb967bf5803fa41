// array-report: says who waits for what when a dispatch cannot end. The text is for the person who
// wrote the design, so it names tiles, channels, locks and values, most telling first.
#include "emu/aie/array-model.h"

#include <stdio.h>
#include <string.h>

struct text {
    char s[400];
    size_t n;
    int left_out;
};

static void add(struct text * t, const char * item) {
    size_t len = strlen(item);
    if (t->n + len + 3 > sizeof(t->s)) {
        t->left_out++;
        return;
    }
    t->n += (size_t) snprintf(t->s + t->n, sizeof(t->s) - t->n, "; %s", item);
}

static void add_core(struct text * out, struct tile * t) {
    char s[120];
    int have;
    static const char sides[4][6] = {"south", "west", "north", "own"};
    uint32_t pc = core_pc(t->core);
    switch (t->wait) {
    case WAIT_LOCK: {
        static const int8_t cols[4] = {0, -1, 0, 0}, rows[4] = {-1, 0, 1, 0};
        int side = t->wait_id / 16;
        struct tile * owner = array_tile(t->array, t->col + cols[side], t->row + rows[side]);
        have = owner ? owner->locks[t->wait_id % 16] : -1;
        snprintf(s, sizeof(s), "core (%d,%d) pc 0x%x acquires %s lock %d by %d, it is %d", t->col,
                 t->row, pc, sides[side], t->wait_id % 16, t->wait_value, have);
        break;
    }
    case WAIT_STREAM_IN:
        snprintf(s, sizeof(s), "core (%d,%d) pc 0x%x reads an empty stream", t->col, t->row, pc);
        break;
    case WAIT_STREAM_OUT:
        snprintf(s, sizeof(s), "core (%d,%d) pc 0x%x writes a full stream", t->col, t->row, pc);
        break;
    case WAIT_CASCADE_IN:
        snprintf(s, sizeof(s), "core (%d,%d) pc 0x%x reads an empty cascade", t->col, t->row, pc);
        break;
    case WAIT_CASCADE_OUT:
        snprintf(s, sizeof(s), "core (%d,%d) pc 0x%x writes a full cascade", t->col, t->row, pc);
        break;
    default:
        return;
    }
    add(out, s);
}

static void add_channel(struct text * out, struct channel * c) {
    char s[200];
    const struct tile * t = c->tile;
    int n = snprintf(s, sizeof(s), "%s%d (%d,%d) BD %d ", dir_name(c->dir), c->index, t->col,
                     t->row, c->bd_id);
    char * rest = s + n;
    size_t room = sizeof(s) - (size_t) n;
    if (c->state == CHANNEL_ACQUIRE) {
        struct tile * owner;
        int lock;
        lock_of_channel(c, c->bd.acquire_id, &owner, &lock);
        snprintf(rest, room, "acquires lock %d of (%d,%d) by %d, it is %d", lock, owner->col,
                 owner->row, c->bd.acquire_value, owner->locks[lock]);
    } else if (c->state == CHANNEL_IDLE) {
        return;
    } else if (c->dir == DMA_S2MM) {
        snprintf(rest, room, "has %u of %u words, stream empty", c->bd.length - c->left,
                 c->bd.length);
    } else {
        const struct route * r = c->source.current ? c->source.current : source_route(&c->source);
        if (r->dead_end) {
            snprintf(rest, room, "has no route: at tile (%d,%d) port %d %s", r->dead_col,
                     r->dead_row, r->dead_port, r->dead_end);
        } else {
            snprintf(rest, room, "sent %u of %u words, stream full", c->bd.length - c->left,
                     c->bd.length);
        }
    }
    add(out, s);
}

static void add_control(struct text * out, struct control * c) {
    char s[200];
    const struct tile * t = c->tile;
    int left = control_words_left(c), id = control_answer_id(c);
    if (id >= 0) {
        const struct route * r = c->out.current;
        bool none = r && r->dead_end;
        int n =
            snprintf(s, sizeof(s), "control port (%d,%d) answers with id %d, ", t->col, t->row, id);
        if (none) {
            snprintf(s + n, sizeof(s) - (size_t) n, "at tile (%d,%d) port %d %s", r->dead_col,
                     r->dead_row, r->dead_port, r->dead_end);
        } else {
            snprintf(s + n, sizeof(s) - (size_t) n, "stream full");
        }
        add(out, s);
    } else if (left) {
        snprintf(s, sizeof(s), "control port (%d,%d) waits for %d more words of a packet", t->col,
                 t->row, left);
        add(out, s);
    }
}

// Shim channels first: they are what a sync waits for.
static void add_waiting(struct array * a, struct text * out) {
    for (int row = 0; row < ARRAY_ROWS; row++) {
        for (int col = 0; col < a->columns; col++) {
            struct tile * t = array_tile(a, col, row);
            for (int dir = DMA_S2MM; dir <= DMA_MM2S; dir++) {
                for (int i = 0; i < tile_traits[t->kind].channels; i++) {
                    add_channel(out, &t->channels[dir][i]);
                }
            }
            if (t->core) {
                add_core(out, t);
            }
            add_control(out, &t->control);
        }
    }
}

bool array_fail_deadlock(struct array * a) {
    struct text out = {.n = 0};
    txn_sync_text(a, out.s, 100);
    out.n = strlen(out.s);
    add_waiting(a, &out);
    return array_fail(a, ST_DEVICE, "deadlock: %s%s", out.s, out.left_out ? "; and more" : "");
}

bool array_shim_busy(const struct array * a) {
    for (int col = 0; col < a->columns; col++) {
        const struct tile * t = &a->tiles[col * ARRAY_ROWS];
        for (int i = 0; i < tile_traits[TILE_SHIM].channels; i++) {
            for (int dir = DMA_S2MM; dir <= DMA_MM2S; dir++) {
                const struct channel * c = &t->channels[dir][i];
                if (c->state != CHANNEL_IDLE || c->queued) {
                    return true;
                }
            }
        }
    }
    return false;
}

bool array_fail_unfinished(struct array * a) {
    struct text out = {.n = 0};
    add_waiting(a, &out);
    return array_fail(a, ST_DEVICE,
                      "the instruction stream ended while shim DMA still has work%s%s", out.s,
                      out.left_out ? "; and more" : "");
}

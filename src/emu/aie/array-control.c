// array-control: a tile's control port, which takes packets from the stream switch and writes or
// reads the tile's registers and memory as they say. A control packet is the packet's own header,
// which the switch must have left on, a control header and up to four words:
//
//     31 parity, odd | 30:24 id of the answer | 23:22 operation | 21:20 words - 1 | 19:0 address
//
// A write ends its packet with its last word, a read with its control header, and is answered by a
// packet from the same port: a header with the id that was asked for, and the words. Form and ids
// are those of public designs that run on silicon (mlir-aie's test/npu-xrt/add_one_ctrl_packet,
// iree-amd-aie's control packets). On silicon a broken packet sets a bit of the tile's packet
// handler status and raises an error event; here it ends the dispatch, with its reason, so that no
// design can live with one.
//
// Kept true: registers change on the array's clock, a word at a time and in the order of the words;
// the port takes no further word before that, so that two packets never mix.
#include "emu/aie/array-model.h"
#include "emu/aie/core-target.h"

#include <inttypes.h>

enum { OP_WRITE, OP_READ };
enum { PACKET_IDS = 32, TILE_BYTES = 1 << 20 };

static const uint8_t control_slave[TILE_KIND_COUNT] = {
    [TILE_SHIM] = 0, [TILE_MEM] = 6, [TILE_CORE] = 3};

void control_init(struct control * c, struct tile * t) {
    c->tile = t;
    sink_init(&c->in, t, NULL);
    source_init(&c->out, t, NULL, control_slave[t->kind]);
    c->in.control = c->out.control = c;
}

void control_reset(struct control * c) {
    struct array * a = c->tile->array;
    c->state = CONTROL_PACKET;
    sink_reset(&c->in);
    source_reset(&c->out);
    a->control_wake[c->tile->col * ARRAY_ROWS + c->tile->row] = NEVER;
}

void control_wake(struct control * c, uint64_t at) {
    struct array * a = c->tile->array;
    uint64_t * wake = &a->control_wake[c->tile->col * ARRAY_ROWS + c->tile->row];
    *wake = at < *wake ? at : *wake;
    a->next_control = at < a->next_control ? at : a->next_control;
}

static uint32_t address_of(const struct control * c) {
    return bits(c->header, 19, 0);
}

static uint32_t words_of(const struct control * c) {
    return bits(c->header, 21, 20) + 1;
}

static bool reads(const struct control * c) {
    return bits(c->header, 23, 22) == OP_READ;
}

static uint32_t answer_id(const struct control * c) {
    return bits(c->header, 30, 24);
}

uint32_t odd_parity(uint32_t word) {
    uint32_t p = word & 0x7fffffff;
    for (int s = 16; s; s >>= 1) {
        p ^= p >> s;
    }
    return (word & 0x7fffffff) | (~p & 1) << 31;
}

// ---- what a packet must be ----

static bool fail(const struct control * c, enum status st, const char * what, uint32_t word,
                 const char * why) {
    const struct tile * t = c->tile;
    return array_fail(t->array, st, "%s tile (%d,%d) control port: %s 0x%08x %s",
                      tile_traits[t->kind].name, t->col, t->row, what, word, why);
}

static bool check_packet(const struct control * c, uint32_t word, bool last) {
    if (odd_parity(word) != word) {
        return fail(c, ST_DEVICE, "packet header", word,
                    "has an even number of ones (First_Header_Parity_Error)");
    }
    return !last || fail(c, ST_DEVICE, "packet header", word,
                         "ends its packet, without a control header (Tlast_Error)");
}

static bool check_header(const struct control * c) {
    const struct tile * t = c->tile;
    uint32_t op = bits(c->header, 23, 22), address = address_of(c), words = words_of(c);
    const char * kind = tile_traits[t->kind].name;
    if (odd_parity(c->header) != c->header) {
        return fail(c, ST_DEVICE, "control header", c->header,
                    "has an even number of ones (Second_Header_Parity_Error)");
    }
    if (op != OP_WRITE && op != OP_READ) {
        return array_fail(t->array, ST_UNSUPPORTED,
                          "%s tile (%d,%d) control port: operation %u of control header 0x%08x is "
                          "not modelled, 0 writes and 1 reads",
                          kind, t->col, t->row, op, c->header);
    }
    if (address % 4) {
        return array_fail(t->array, ST_DEVICE,
                          "%s tile (%d,%d) control port: address 0x%x is not a multiple of 4", kind,
                          t->col, t->row, address);
    }
    if (address + 4 * words > TILE_BYTES) {
        return array_fail(t->array, ST_DEVICE,
                          "%s tile (%d,%d) control port: %u words at 0x%x leave the tile "
                          "(SLVERR_On_Access)",
                          kind, t->col, t->row, words, address);
    }
    if (op == OP_READ && answer_id(c) >= PACKET_IDS) {
        return array_fail(t->array, ST_DEVICE,
                          "%s tile (%d,%d) control port: asked for an answer with id %u, packets "
                          "have 0 to %d",
                          kind, t->col, t->row, answer_id(c), PACKET_IDS - 1);
    }
    return true;
}

// The packet's last word is where the header says. A write that goes on is an error of its own on
// Phoenix; Strix lets the next packet follow, its header first [?].
static bool check_last(const struct control * c, uint32_t have, bool last) {
    const struct tile * t = c->tile;
    uint32_t want = reads(c) ? 0 : words_of(c);
    bool may_go_on = !reads(c) && core_target_of(t->array->config.arch)->packets_follow;
    if (last && have < want) {
        return array_fail(t->array, ST_DEVICE,
                          "%s tile (%d,%d) control port: the packet with control header 0x%08x "
                          "ends after %u of %u words (Tlast_Error)",
                          tile_traits[t->kind].name, t->col, t->row, c->header, have, want);
    }
    return last || have < want || may_go_on ||
           fail(c, ST_DEVICE, "the packet with control header", c->header,
                "goes on behind its last word (Tlast_Error); send each one by itself");
}

// ---- words in ----

static void access_begins(struct control * c) {
    struct array * a = c->tile->array;
    c->state = CONTROL_ACCESS;
    c->done = 0;
    c->due = a->now + a->clock.packet_word;
    control_wake(c, c->due);
}

static void take(struct control * c, uint32_t word, bool last) {
    switch (c->state) {
    case CONTROL_PACKET:
        if (check_packet(c, word, last)) {
            c->state = CONTROL_HEADER;
        }
        break;
    case CONTROL_HEADER:
        c->header = word;
        c->have = 0;
        if (!check_header(c) || !check_last(c, 0, last)) {
            return;
        }
        c->state = CONTROL_DATA;
        if (reads(c)) {
            access_begins(c);
            return;
        }
        break;
    default: // CONTROL_DATA
        c->words[c->have++] = word;
        if (!check_last(c, c->have, last)) {
            return;
        }
        if (c->have == words_of(c)) {
            access_begins(c);
            return;
        }
        break;
    }
    control_wake(c, c->tile->array->now + 1); // 32 bits wide: a word a cycle
}

// ---- the access, and words out ----

static void access_word(struct control * c) {
    struct array * a = c->tile->array;
    uint32_t offset = address_of(c) + 4 * c->done;
    if (a->now < c->due) { // woken by a word that may wait
        control_wake(c, c->due);
        return;
    }
    bool ok = reads(c) ? tile_packet_read(c->tile, offset, &c->words[c->done])
                       : tile_packet_write(c->tile, offset, c->words[c->done]);
    if (!ok) {
        error_prefix(&a->error, a->error.status, "control packet 0x%08x", c->header);
        return;
    }
    if (++c->done < words_of(c)) {
        c->due = a->now + a->clock.packet_word;
        control_wake(c, c->due);
        return;
    }
    c->state = reads(c) ? CONTROL_ANSWER : CONTROL_PACKET;
    c->done = 0;
    control_wake(c, a->now + 1);
}

// The answer's header comes first. A token is a packet of one word from the same port, and whoever
// gets tokens does not know the one from the other.
static void answer(struct control * c) {
    struct array * a = c->tile->array;
    uint32_t word = c->done ? c->words[c->done - 1]
                            : odd_parity(answer_id(c) | (uint32_t) c->tile->row << 16 |
                                         (uint32_t) c->tile->col << 21);
    bool last = c->done == words_of(c);
    if (!source_push(&c->out, word, last)) {
        if (c->out.ticket) { // in line for an arbiter: ask every cycle
            control_wake(c, a->now + 1);
        }
        return;
    }
    if (c->out.current->to_firmware) {
        fail(c, ST_DEVICE, "the answer to control header", c->header,
             "goes to South0 of the shim, where it would be taken for a token");
        return;
    }
    c->done++;
    if (last) {
        c->state = CONTROL_PACKET;
    }
    control_wake(c, a->now + 1);
}

static void step(struct control * c) {
    uint32_t word;
    bool last;
    if (c->state == CONTROL_ACCESS) {
        access_word(c);
    } else if (c->state == CONTROL_ANSWER) {
        answer(c);
    } else if (sink_pop(&c->in, &word, &last)) {
        take(c, word, last);
    }
}

void array_controls(struct array * a) {
    if (a->next_control > a->now) {
        return;
    }
    a->next_control = NEVER;
    for (int i = 0; i < a->columns * ARRAY_ROWS && !a->failed; i++) {
        if (a->control_wake[i] <= a->now) {
            a->control_wake[i] = NEVER;
            step(&a->tiles[i].control);
        } else if (a->control_wake[i] < a->next_control) {
            a->next_control = a->control_wake[i];
        }
    }
}

int control_words_left(const struct control * c) {
    return c->state == CONTROL_HEADER ? 1
           : c->state == CONTROL_DATA ? (int) (words_of(c) - c->have)
                                      : 0;
}

int control_answer_id(const struct control * c) {
    return c->state == CONTROL_ANSWER ? (int) answer_id(c) : -1;
}

// array-bd: buffer descriptors. The three kinds of tile keep the same fields at different places;
// the table says where, and everything after decoding knows one form.
#include "emu/aie/array-model.h"

// clang-format off
enum bd_field {
    F_LENGTH, F_ADDR, F_ADDR_HIGH, F_PACKET, F_PACKET_TYPE, F_PACKET_ID, F_OOO_ID, F_COMPRESS,
    F_TLAST, F_NEXT, F_USE_NEXT, F_VALID, F_REL_VALUE, F_REL_ID, F_ACQ_ENABLE, F_ACQ_VALUE,
    F_ACQ_ID, F_STEP0, F_STEP1, F_STEP2, F_STEP3, F_WRAP0, F_WRAP1, F_WRAP2,
    F_BEFORE0, F_BEFORE1, F_BEFORE2, F_AFTER0, F_AFTER1, F_AFTER2,
    F_ITER_CURRENT, F_ITER_WRAP, F_ITER_STEP, F_COUNT
};
// clang-format on

struct field {
    uint8_t word, hi, lo;
    bool present;
};

#define AT(word, hi, lo)                                                                           \
    { word, hi, lo, true }

// clang-format off
static const struct field layout[TILE_KIND_COUNT][F_COUNT] = {
    [TILE_SHIM] = {
        [F_LENGTH] = AT(0, 31, 0), [F_ADDR] = AT(1, 31, 2), [F_ADDR_HIGH] = AT(2, 15, 0),
        [F_PACKET] = AT(2, 30, 30), [F_OOO_ID] = AT(2, 29, 24), [F_PACKET_ID] = AT(2, 23, 19),
        [F_PACKET_TYPE] = AT(2, 18, 16),
        [F_WRAP0] = AT(3, 29, 20), [F_STEP0] = AT(3, 19, 0),
        [F_WRAP1] = AT(4, 29, 20), [F_STEP1] = AT(4, 19, 0),
        [F_STEP2] = AT(5, 19, 0),
        [F_ITER_CURRENT] = AT(6, 31, 26), [F_ITER_WRAP] = AT(6, 25, 20),
        [F_ITER_STEP] = AT(6, 19, 0),
        [F_TLAST] = AT(7, 31, 31), [F_NEXT] = AT(7, 30, 27), [F_USE_NEXT] = AT(7, 26, 26),
        [F_VALID] = AT(7, 25, 25), [F_REL_VALUE] = AT(7, 24, 18), [F_REL_ID] = AT(7, 16, 13),
        [F_ACQ_ENABLE] = AT(7, 12, 12), [F_ACQ_VALUE] = AT(7, 11, 5), [F_ACQ_ID] = AT(7, 3, 0),
    },
    [TILE_MEM] = {
        [F_PACKET] = AT(0, 31, 31), [F_PACKET_TYPE] = AT(0, 30, 28), [F_PACKET_ID] = AT(0, 27, 23),
        [F_OOO_ID] = AT(0, 22, 17), [F_LENGTH] = AT(0, 16, 0),
        [F_BEFORE0] = AT(1, 31, 26), [F_NEXT] = AT(1, 25, 20), [F_USE_NEXT] = AT(1, 19, 19),
        [F_ADDR] = AT(1, 18, 0),
        [F_TLAST] = AT(2, 31, 31), [F_WRAP0] = AT(2, 26, 17), [F_STEP0] = AT(2, 16, 0),
        [F_BEFORE1] = AT(3, 31, 27), [F_WRAP1] = AT(3, 26, 17), [F_STEP1] = AT(3, 16, 0),
        [F_COMPRESS] = AT(4, 31, 31), [F_BEFORE2] = AT(4, 30, 27), [F_WRAP2] = AT(4, 26, 17),
        [F_STEP2] = AT(4, 16, 0),
        [F_AFTER2] = AT(5, 31, 28), [F_AFTER1] = AT(5, 27, 23), [F_AFTER0] = AT(5, 22, 17),
        [F_STEP3] = AT(5, 16, 0),
        [F_ITER_CURRENT] = AT(6, 28, 23), [F_ITER_WRAP] = AT(6, 22, 17),
        [F_ITER_STEP] = AT(6, 16, 0),
        [F_VALID] = AT(7, 31, 31), [F_REL_VALUE] = AT(7, 30, 24), [F_REL_ID] = AT(7, 23, 16),
        [F_ACQ_ENABLE] = AT(7, 15, 15), [F_ACQ_VALUE] = AT(7, 14, 8), [F_ACQ_ID] = AT(7, 7, 0),
    },
    [TILE_CORE] = {
        [F_ADDR] = AT(0, 27, 14), [F_LENGTH] = AT(0, 13, 0),
        [F_COMPRESS] = AT(1, 31, 31), [F_PACKET] = AT(1, 30, 30), [F_OOO_ID] = AT(1, 29, 24),
        [F_PACKET_ID] = AT(1, 23, 19), [F_PACKET_TYPE] = AT(1, 18, 16),
        [F_STEP1] = AT(2, 25, 13), [F_STEP0] = AT(2, 12, 0),
        [F_WRAP1] = AT(3, 28, 21), [F_WRAP0] = AT(3, 20, 13), [F_STEP2] = AT(3, 12, 0),
        [F_ITER_CURRENT] = AT(4, 24, 19), [F_ITER_WRAP] = AT(4, 18, 13),
        [F_ITER_STEP] = AT(4, 12, 0),
        [F_TLAST] = AT(5, 31, 31), [F_NEXT] = AT(5, 30, 27), [F_USE_NEXT] = AT(5, 26, 26),
        [F_VALID] = AT(5, 25, 25), [F_REL_VALUE] = AT(5, 24, 18), [F_REL_ID] = AT(5, 16, 13),
        [F_ACQ_ENABLE] = AT(5, 12, 12), [F_ACQ_VALUE] = AT(5, 11, 5), [F_ACQ_ID] = AT(5, 3, 0),
    },
};
// clang-format on

static uint32_t get(enum tile_kind kind, const uint32_t * words, enum bd_field f) {
    const struct field * at = &layout[kind][f];
    return at->present ? bits(words[at->word], at->hi, at->lo) : 0;
}

static int8_t get_signed7(enum tile_kind kind, const uint32_t * words, enum bd_field f) {
    uint32_t v = get(kind, words, f);
    return (int8_t) (v >= 64 ? (int) v - 128 : (int) v);
}

void bd_decode(enum tile_kind kind, const uint32_t w[BD_WORDS], struct bd * bd) {
    bd->valid = get(kind, w, F_VALID);
    bd->use_next = get(kind, w, F_USE_NEXT);
    bd->next = (uint8_t) get(kind, w, F_NEXT);
    bd->acquire_enable = get(kind, w, F_ACQ_ENABLE);
    bd->acquire_id = (uint8_t) get(kind, w, F_ACQ_ID);
    bd->acquire_value = get_signed7(kind, w, F_ACQ_VALUE);
    bd->release_id = (uint8_t) get(kind, w, F_REL_ID);
    bd->release_value = get_signed7(kind, w, F_REL_VALUE);
    bd->packet = get(kind, w, F_PACKET);
    bd->packet_id = (uint8_t) get(kind, w, F_PACKET_ID);
    bd->packet_type = (uint8_t) get(kind, w, F_PACKET_TYPE);
    bd->out_of_order_id = (uint8_t) get(kind, w, F_OOO_ID);
    bd->suppress_tlast = get(kind, w, F_TLAST);
    bd->compressed = get(kind, w, F_COMPRESS);
    bd->length = get(kind, w, F_LENGTH);
    bd->address = (uint64_t) get(kind, w, F_ADDR) << 2 | (uint64_t) get(kind, w, F_ADDR_HIGH) << 32;
    bd->pads = false;
    for (int d = 0; d < 4; d++) { // steps are kept less one, wraps as they are
        bd->step[d] = get(kind, w, (enum bd_field)(F_STEP0 + d)) + 1;
    }
    for (int d = 0; d < 3; d++) {
        bd->wrap[d] = get(kind, w, (enum bd_field)(F_WRAP0 + d));
        bd->before[d] = get(kind, w, (enum bd_field)(F_BEFORE0 + d));
        bd->after[d] = get(kind, w, (enum bd_field)(F_AFTER0 + d));
        bd->pads = bd->pads || bd->before[d] || bd->after[d];
    }
    bd->iter_current = get(kind, w, F_ITER_CURRENT);
    bd->iter_wrap = get(kind, w, F_ITER_WRAP) + 1;
    bd->iter_step = get(kind, w, F_ITER_STEP) + 1;
}

void bd_store_iteration(enum tile_kind kind, uint32_t words[BD_WORDS], uint32_t current) {
    const struct field * at = &layout[kind][F_ITER_CURRENT];
    uint32_t mask = (uint32_t) ((1ull << (at->hi - at->lo + 1)) - 1) << at->lo;
    words[at->word] = (words[at->word] & ~mask) | (current << at->lo & mask);
}

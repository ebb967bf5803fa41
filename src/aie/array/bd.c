// array/bd: what a transfer is to be, as descriptors and queue words. Where their fields lie is the
// table of image/bd-fields.def.
#include "array.h"

#include "aie/image/bd-fields.h"

#include <assert.h>
#include <string.h>

uint32_t array_queue_word(int bd, int repeat, bool token) {
    assert(bd >= 0 && bd < ARRAY_MEM_BDS && repeat >= 1 && repeat <= ARRAY_MAX_REPEAT);
    return (uint32_t) token << 31 | (uint32_t) (repeat - 1) << 16 | (uint32_t) bd;
}

// ---- fields ----

// A descriptor that is being written.
struct bd_writer {
    enum image_tile tile;
    uint32_t * words;
};

static void put(const struct bd_writer * w, enum image_bd_field f, uint32_t value) {
    enum bd_form form = image_bd_fields[f].form;
    if (form == BD_FORM_LESS_1) { // 0 stands for 1
        value -= value > 0;
    } else if (form == BD_FORM_SIGNED) {
        assert((int) value >= -64 && (int) value < 64);
        value &= 0x7f;
    }
    image_bd_set(w->tile, w->words, f, value);
}

// What only a memtile has is not asked of others.
static void put_where_there(const struct bd_writer * w, int f, uint32_t value) {
    if (image_bd_has(w->tile, (enum image_bd_field) f)) {
        put(w, (enum image_bd_field) f, value);
    } else {
        assert(value == 0);
    }
}

// Locks are numbered from `own` on: a neighbour's come first.
static void put_common(const struct bd_writer * w, const struct array_bd * bd, int own) {
    static const int steps[] = {BD_STEP0, BD_STEP1, BD_STEP2, BD_STEP3};
    static const int wraps[] = {BD_WRAP0, BD_WRAP1, BD_WRAP2};
    assert(bd->words > 0);
    put(w, BD_WORDS, bd->words);
    for (int d = 0; d < 4; d++) {
        put_where_there(w, steps[d], bd->step[d]);
    }
    for (int d = 0; d < 3; d++) {
        put_where_there(w, wraps[d], bd->wrap[d]);
        assert(bd->wrap[d] || (bd->before[d] == 0 && bd->after[d] == 0));
        put_where_there(w, BD_BEFORE0 + d, bd->before[d]);
        put_where_there(w, BD_AFTER0 + d, bd->after[d]);
    }
    if (bd->iterations > 1) {
        assert(bd->iteration_step >= 1); // a step between runs of 0 cannot be said
        put(w, BD_ITERATIONS, bd->iterations);
        put(w, BD_ITERATION_STEP, bd->iteration_step);
    }
    if (bd->next >= 0) {
        put(w, BD_NEXT, (uint32_t) bd->next);
        put(w, BD_CHAINED, 1);
    }
    if (bd->release >= 0) {
        put(w, BD_RELEASE_VALUE, (uint32_t) bd->release_value);
        put(w, BD_RELEASE, (uint32_t) (own + bd->release));
    }
    if (bd->acquire >= 0) {
        put(w, BD_ACQUIRES, 1);
        put(w, BD_ACQUIRE_VALUE, (uint32_t) bd->acquire_value);
        put(w, BD_ACQUIRE, (uint32_t) (own + bd->acquire));
    }
    if (bd->packet) {
        assert(bd->packet > 0 && bd->packet <= 32);
        put(w, BD_PACKET, 1);
        put(w, BD_PACKET_ID, (uint32_t) (bd->packet - 1));
    }
    put(w, BD_VALID, 1);
}

// ---- descriptors ----

void array_core_bd(const struct array_bd * bd, uint32_t words[6]) {
    struct bd_writer w = {IMAGE_CORE, words};
    memset(words, 0, IMAGE_CORE_BD_WORDS * sizeof *words);
    assert(bd->address % 4 == 0);
    put(&w, BD_ADDRESS, bd->address / 4);
    put_common(&w, bd, 0);
}

enum { MEM_OWN_LOCKS = 64, MEM_OWN_WORDS = 0x20000 }; // the west neighbour's come first

void array_mem_bd(const struct array_bd * bd, uint32_t words[8]) {
    struct bd_writer w = {IMAGE_MEM, words};
    memset(words, 0, IMAGE_BD_WORDS * sizeof *words);
    assert(bd->address % 4 == 0 && bd->address < ARRAY_MEM_BYTES && bd->next < ARRAY_MEM_BDS);
    assert(bd->acquire < ARRAY_MEM_LOCKS && bd->release < ARRAY_MEM_LOCKS);
    put(&w, BD_ADDRESS, MEM_OWN_WORDS + bd->address / 4);
    put_common(&w, bd, MEM_OWN_LOCKS);
}

enum { SHIM_CACHE = 2 }; // attributes as in every real kernel

void array_shim_bd(const struct array_bd * bd, const struct aie_target * target,
                   uint32_t words[8]) {
    struct bd_writer w = {IMAGE_SHIM, words};
    memset(words, 0, IMAGE_BD_WORDS * sizeof *words); // the address is patched at dispatch
    put(&w, BD_BURST, target->shim_burst);
    put(&w, BD_CACHE, SHIM_CACHE);
    put_common(&w, bd, 0);
}

// array-account: where the time of a dispatch goes. A stretch of time is shared out among the cores
// that are switched on: the running ones' part is theirs, the waiting ones' part goes to what the
// array waits for. So the causes add up to the time, and a design in which one core of sixteen
// works while the rest waits for words is seen to wait. Stalls at banks are within the running time
// and are taken out of it at the end.
#include "emu/aie/array-model.h"

enum { ACCOUNT_PARTS = 1024 }; // of a cycle, while the account is open

static bool shim_is(const struct array * a, bool (*what)(const struct channel * c)) {
    for (int col = 0; col < a->columns; col++) {
        const struct tile * t = &a->tiles[col * ARRAY_ROWS];
        for (int i = 0; i < tile_traits[TILE_SHIM].channels; i++) {
            if (what(&t->channels[DMA_S2MM][i]) || what(&t->channels[DMA_MM2S][i])) {
                return true;
            }
        }
    }
    return false;
}

// A stream-to-memory channel that has its descriptor and no word waits for the array, as the cores
// do.
static bool is_moving(const struct channel * c) {
    return c->state == CHANNEL_RUN && c->tile->array->now >= c->resume &&
           (c->dir == DMA_MM2S || c->sink.count > 0);
}

static bool is_starting(const struct channel * c) {
    return c->state == CHANNEL_RUN && c->tile->array->now < c->resume;
}

enum emu_cause array_wait_cause(const struct array * a) {
    if (shim_is(a, is_moving)) {
        return EMU_STREAM;
    }
    if (shim_is(a, is_starting)) {
        return EMU_START;
    }
    return a->txn.time == NEVER ? EMU_LOCK : EMU_CONTROL;
}

void account_step(struct array * a, struct emu_account * account) {
    uint64_t cycles = a->now - a->counted;
    if (cycles == 0) {
        return;
    }
    a->counted = a->now;
    uint64_t on = (uint64_t) a->cores_on, share = cycles * ACCOUNT_PARTS;
    uint64_t waiting = on ? share * (uint64_t) a->cores_waiting / on : share;
    account->cycles[EMU_CORE] += share - waiting;
    if (waiting) {
        account->cycles[array_wait_cause(a)] += waiting;
    }
    a->most_cores = a->cores_on > a->most_cores ? a->cores_on : a->most_cores;
}

void account_close(struct array * a, struct emu_account * account, uint64_t cycles,
                   uint64_t bank_stalls) {
    uint64_t sum = 0;
    for (int i = 0; i < EMU_CAUSES; i++) {
        account->cycles[i] /= ACCOUNT_PARTS;
        sum += account->cycles[i];
    }
    uint64_t bank = a->most_cores ? bank_stalls / (uint64_t) a->most_cores : 0;
    bank = bank < account->cycles[EMU_CORE] ? bank : account->cycles[EMU_CORE];
    account->cycles[EMU_BANK] += bank;
    account->cycles[EMU_CORE] -= bank;
    account->cycles[EMU_LOCK] += cycles > sum ? cycles - sum : 0; // left over by the divisions
    a->most_cores = 0;
}

// array-account: where the time of a dispatch goes. A stretch of time is shared out among the cores
// that are switched on: the running ones' part is theirs, the waiting ones' part goes to what the
// array waits for. So the causes add up to the time, and a design in which one core of sixteen
// works while the rest waits for words is seen to wait. Stalls at banks are within the running time
// and are taken out of it at the end.
#include "emu/aie/array-model.h"

enum { ACCOUNT_PARTS = 1024 }; // of a cycle, while the account is open

// What shim channels do at a tick, and until when that is sure if none of them changes: channels
// know some time ahead (array-burst.c). EMU_CONTROL: nothing. A stream-to-memory channel that has
// its descriptor and no word waits for the array, as the cores do.
static void look_at_shim(struct array * a, uint64_t tick) {
    bool moves = false, starts = false, waits = false;
    uint64_t change = NEVER;
    for (int col = 0; col < a->columns; col++) {
        for (int i = 0; i < SHIM_CHANNELS; i++) {
            const struct shim_times * c = &a->shim[col][i];
            if (c->next <= tick) {
                continue; // at rest, or without words
            }
            // started, ddr_from, ddr_till, next: in this order once it has started
            uint64_t edge = c->next;
            if (tick < c->started) {
                starts = true;
                edge = c->started;
                edge = c->ddr_till > tick && c->ddr_till < edge ? c->ddr_till : edge;
                edge = c->ddr_from > tick && c->ddr_from < edge ? c->ddr_from : edge;
            } else if (tick < c->ddr_from) {
                moves = true;
                edge = c->ddr_from;
            } else if (tick < c->ddr_till) {
                waits = true;
                edge = c->ddr_till;
            } else {
                moves = true;
            }
            change = edge < change ? edge : change;
        }
    }
    a->shim_cause = waits ? EMU_DDR : moves ? EMU_STREAM : starts ? EMU_START : EMU_CONTROL;
    a->shim_holds = change;
}

// What the array waits for in a cycle before *holds, which becomes the first cycle for which that
// is not sure.
static enum emu_cause wait_cause(struct array * a, uint64_t cycle, uint64_t * holds) {
    uint64_t tick = ticks(a, cycle), end = ticks(a, *holds);
    if (a->shim_changed || tick >= a->shim_holds) {
        a->shim_changed = false;
        look_at_shim(a, tick);
    }
    uint64_t change = a->shim_holds < end ? a->shim_holds : end;
    enum emu_cause cause = a->shim_cause;
    if (cause == EMU_CONTROL) {
        cause = tick < a->tiles_moving || a->txn.time == NEVER ? EMU_LOCK : EMU_CONTROL;
        change = tick < a->tiles_moving && a->tiles_moving < change ? a->tiles_moving : change;
    }
    *holds = cycle_of(a, change) > cycle ? cycle_of(a, change) : cycle + 1;
    return cause;
}

// share * waiting / on; cores are mostly on by twos, fours ... and divisions take their time.
static uint64_t part_of(uint64_t share, uint64_t waiting, uint64_t on) {
    return on & (on - 1) ? share * waiting / on : share * waiting >> __builtin_ctzll(on);
}

void account_step(struct array * a, struct emu_account * account) {
    uint64_t on = (uint64_t) a->cores_on, waiting = on ? (uint64_t) a->cores_waiting : 1;
    a->most_cores = a->cores_on > a->most_cores ? a->cores_on : a->most_cores;
    while (a->counted < a->now) {
        uint64_t holds = a->now;
        enum emu_cause cause = waiting ? wait_cause(a, a->counted, &holds) : EMU_CORE;
        uint64_t share = (holds - a->counted) * ACCOUNT_PARTS;
        uint64_t idle = on ? part_of(share, waiting, on) : share;
        account->cycles[EMU_CORE] += share - idle;
        account->cycles[cause] += idle;
        a->counted = holds;
    }
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

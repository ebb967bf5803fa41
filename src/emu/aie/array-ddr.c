// array-ddr: host memory, as the shim's channels share it. A channel asks for a burst of words at a
// time and gets its turn in the order of asking. What a turn takes depends on two things: the
// bytes, and the runs that they lie in. Memory takes its time for each address, so that a run of
// few bytes takes as long as one of `run_bytes`.
//
// Kept true: a turn depends on the descriptor and on which of its words are asked for, never on how
// many of the words before have moved already.
#include "emu/aie/array-model.h"

enum { DDR_BOTH = 2 }; // beside the two directions

// Words at addresses that follow each other, from the first word of the descriptor on; all runs of
// a descriptor but the last have this length.
static uint32_t run_words_of(const struct bd * bd) {
    uint64_t run = 1, covered = 1;
    for (int d = 0; d < 4; d++) {
        if (bd->step[d] != covered) {
            break;
        }
        covered = d < 3 && bd->wrap[d] ? covered * bd->wrap[d] : UINT64_MAX;
        run = covered;
        if (covered == UINT64_MAX) {
            break;
        }
    }
    return run < bd->length ? (uint32_t) run : bd->length;
}

// What the runs that end among words first .. first + n cost beyond their bytes.
static uint64_t short_runs(const struct array * a, const struct channel * c, uint32_t first,
                           uint32_t n) {
    uint32_t run = c->run_words, least = a->clock.run_bytes, rest = c->bd.length % run;
    uint64_t end = (uint64_t) first + n, ended = end / run - first / run;
    uint64_t extra = run * UINT64_C(4) < least ? ended * (least - run * 4) : 0;
    bool tail = end == c->bd.length && rest && rest * UINT64_C(4) < least;
    return extra + (tail ? least - rest * 4 : 0);
}

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static void use(uint64_t * free, uint64_t at, uint64_t bytes, uint32_t rate) {
    if (rate) {
        *free = at + bytes * 1000000 / rate;
    }
}

// The cycle in which host memory has time for n words of the channel, of which `left` are to come.
static uint64_t turn(const struct channel * c, uint32_t left, uint32_t n) {
    struct array * a = c->tile->array;
    bool reads = c->dir == DMA_MM2S;
    uint32_t rate = reads ? a->clock.ddr_read : a->clock.ddr_write;
    uint64_t bytes = n * UINT64_C(4) + short_runs(a, c, c->bd.length - left, n);
    uint64_t at = a->now * 1000;
    at = later(at, rate ? a->ddr_free[c->dir] : 0);
    at = later(at, a->clock.ddr_both ? a->ddr_free[DDR_BOTH] : 0);
    use(&a->ddr_free[c->dir], at, bytes, rate);
    use(&a->ddr_free[DDR_BOTH], at, bytes, a->clock.ddr_both);
    return (at + 999) / 1000;
}

static bool in_bursts(const struct channel * c) {
    const struct emu_clock * clock = &c->tile->array->clock;
    bool limit = clock->ddr_both || (c->dir == DMA_MM2S ? clock->ddr_read : clock->ddr_write);
    return c->tile->kind == TILE_SHIM && clock->burst_words &&
           (limit || (c->dir == DMA_MM2S && clock->burst_gap));
}

static uint32_t burst_of(const struct array * a, uint32_t left) {
    return left < a->clock.burst_words ? left : a->clock.burst_words;
}

// ---- bytes by the length of their runs ----

const uint32_t emu_run_limits[EMU_RUN_KINDS] = {64, 128, 256, 512, 1024, 4096, 0};

static int kind_of(uint64_t bytes) {
    int i = 0;
    while (emu_run_limits[i] && bytes >= emu_run_limits[i]) {
        i++;
    }
    return i;
}

static void count_runs(const struct bd * bd, uint32_t run, struct emu_runs * to, bool reads) {
    uint64_t * bytes = reads ? to->read : to->written;
    uint32_t rest = bd->length % run;
    bytes[kind_of(run * UINT64_C(4))] += (bd->length - rest) * UINT64_C(4);
    bytes[kind_of(rest * UINT64_C(4))] += rest * UINT64_C(4);
}

// ---- turns ----

void ddr_begin(struct channel * c) {
    struct array * a = c->tile->array;
    if (c->tile->kind == TILE_SHIM) {
        c->run_words = run_words_of(&c->bd);
        count_runs(&c->bd, c->run_words, &a->runs, c->dir == DMA_MM2S);
    }
}

void ddr_first_burst(struct channel * c) {
    struct array * a = c->tile->array;
    c->burst_left = c->left;
    c->granted = c->burst_begun = false;
    if (in_bursts(c)) {
        c->burst_left = burst_of(a, c->left);
        uint64_t ready = ticks(a, turn(c, c->left, c->burst_left));
        if (ready > c->next) {
            c->ddr_from = c->next;
            c->next = c->ddr_till = ready;
        }
    }
}

void ddr_ask_burst(struct channel * c) {
    struct array * a = c->tile->array;
    uint32_t left = c->left - c->burst_left;
    channel_event(c, NEVER, REQUEST_NONE);
    c->burst_ready = ticks(a, turn(c, left, burst_of(a, left)));
    c->granted = true;
    channel_wake(c);
}

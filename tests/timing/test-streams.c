// test-streams: how fast words move inside of the array, on both devices. A memtile sends a buffer
// of 8 KiB to a core tile: on a Strix, whose streams are 64 bits wide, that was seen to take 1,024
// cycles (row A20), on a Phoenix it takes a cycle a word. While the core tile's descriptor waits
// for its lock, so many words are taken as its FIFO holds (rows A21 and B13).
#include "emu/array-bench.h"
#include "timing/rows.h"

enum { WORDS = 2048, MAX_EVENTS = 64 };

struct seen {
    struct bench bench; // first, see resolve()
    struct emu_event events[MAX_EVENTS];
    int n;
};

static void saw(void * user, const struct emu_event * e) {
    struct seen * s = user;
    if (e->kind == EMU_EVENT_DMA) {
        assert_true(s->n < MAX_EVENTS);
        s->events[s->n++] = *e;
    }
}

// Cycles from the first to the last word of the buffer at each end: sent, stored.
// The array is the same on both devices, and no core runs.
static void send(enum aie_arch clock_of, uint64_t cycles[2]) {
    struct seen * s = calloc(1, sizeof *s);
    struct emu_config config = bench_config(&s->bench);
    config.clock = emu_clock_default(clock_of);
    config.event = saw;
    assert_true(bench_open(&s->bench, &config));
    struct words * cdo = &s->bench.cdo;
    struct stream * txn = &s->bench.txn;
    circuit(cdo, 0, 1, 0, 11); // memtile's DMA0 to North0
    circuit(cdo, 0, 2, 5, 1);  // South0 to DMA0
    struct bd_desc out = {.length = WORDS, .address = 0x20000};
    struct bd_desc in = {.length = WORDS, .address = 0};
    mem_bd(cdo, 0, 0, &out);
    core_bd(cdo, 0, 2, 0, &in);
    push_task(cdo, 0, 2, false, 0, 0);
    push_task(cdo, 0, 1, true, 0, 0);
    for (int i = 0; i < 64; i++) { // for as long as it takes
        txn_write(txn, REG(0, 3, 0x400), 0);
    }
    run_ok(&s->bench);
    cycles[0] = cycles[1] = 0;
    for (int i = 0; i < s->n; i++) {
        const struct emu_event * e = &s->events[i];
        assert_int_equal(e->words, WORDS);
        cycles[e->row == 1 ? 0 : 1] = e->end - e->start;
    }
    bench_close(&s->bench);
    free(s);
}

static void a_buffer_of_8_kib(void ** state) {
    (void) state;
    uint64_t strix[2], phoenix[2], want = (uint64_t) row_value("A20");
    send(AIE_ARCH_AIE2P, strix);
    send(AIE_ARCH_AIE2, phoenix);
    print_message("A20: silicon %llu cycles; strix %llu and %llu, phoenix %llu and %llu\n",
                  (unsigned long long) want, (unsigned long long) strix[0],
                  (unsigned long long) strix[1], (unsigned long long) phoenix[0],
                  (unsigned long long) phoenix[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(strix[i], want);
        assert_int_equal(phoenix[i], WORDS);
    }
}

// The figures are the model's words in front of a channel.
static void words_in_front_of_a_lock(void ** state) {
    (void) state;
    const struct emu_clock * strix = emu_clock_default(AIE_ARCH_AIE2P);
    assert_int_equal(strix->fifo_in / strix->stream_words, (int) row_value("A21"));
    // The silicon says so 15 cycles after the lock stall began, when the sixteenth word finds no
    // place.
    assert_int_equal(emu_clock_default(AIE_ARCH_AIE2)->fifo_in, (int) row_value("B13") + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_of_8_kib),
        cmocka_unit_test(words_in_front_of_a_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

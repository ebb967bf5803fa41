// test-stream-timing: how long words take, against silicon. Small designs without cores are run on
// a machine that tells its timeline, and intervals of it are compared with what was read off traces
// and counters of a Phoenix and a Strix; each check names the row of the collection that it comes
// from. Rules of the clock's table are checked to the cycle, measurements with their scatter within
// it.
#include "array-bench.h"

enum { MAX_EVENTS = 4096, MM2S = 16 };

static struct {
    struct emu_event at[MAX_EVENTS];
    int n;
} seen;

static void note(void * user, const struct emu_event * e) {
    (void) user;
    if (seen.n < MAX_EVENTS) {
        seen.at[seen.n++] = *e;
    }
}

static void use_clock(struct bench * b, const char * text) {
    struct emu_clock clock;
    assert_int_equal(emu_clock_parse(text, &clock, &b->err), ST_OK);
    struct emu_config config = {.arch = AIE_ARCH_AIE2,
                                .clock = &clock,
                                .columns = 4,
                                .resolve = resolve,
                                .user = b,
                                .max_cycles = 2000000,
                                .trace_col = -1,
                                .trace_row = -1,
                                .event = note};
    emu_machine_free(b->machine);
    assert_int_equal(emu_machine_new(&config, &b->machine, &b->err), ST_OK);
    seen.n = 0;
}

static int on_phoenix(void ** state) {
    int rc = setup(state);
    if (rc == 0) {
        use_clock(*state, "phoenix");
    }
    return rc;
}

// The i-th event of a kind in a tile; channel -1: any.
static const struct emu_event * find(enum emu_event_kind kind, int col, int row, int channel,
                                     int i) {
    for (int k = 0; k < seen.n; k++) {
        const struct emu_event * e = &seen.at[k];
        if (e->kind == kind && e->col == col && e->row == row &&
            (channel < 0 || e->channel == channel) && i-- == 0) {
            return e;
        }
    }
    fail_msg("no event of kind %d at (%d,%d) channel %d", (int) kind, col, row, channel);
    return NULL;
}

static const struct emu_event * words(int col, int row, int channel, int i) {
    return find(EMU_EVENT_DMA, col, row, channel, i);
}

static void within(const char * row, double have, double want, double percent) {
    print_message("%s: %.3f, silicon %.3f\n", row, have, want);
    assert_true(have > want * (1 - percent / 100) && have < want * (1 + percent / 100));
}

// ---- inside the array ----

// Memtile DMA0 to the DMA of the core tile above.
static void up(struct bench * b) {
    circuit(&b->cdo, 0, 1, 0, 11);
    circuit(&b->cdo, 0, 2, 5, 1);
}

// The dispatch ends when a transfer of the shim is through, long after what is looked at.
static void pass_time(struct bench * b) {
    loop_routes(b, 3, true);
    loop_memtile(b, 3, 64, (struct bd_desc){.length = 64, .address = 0x20000});
    in_and_out(b, 3, 64, 64);
}

static void descriptors_and_hops(void ** state) {
    struct bench * b = *state;
    up(b);
    for (int i = 0; i < 4; i++) {
        struct bd_desc out = {.length = 16, .address = 0x20000, .next = i < 3 ? 1 + i + 1 : 0};
        mem_bd(&b->cdo, 0, i, &out);
    }
    for (int i = 0; i < 8; i++) {
        struct bd_desc in = {.length = 8, .next = i < 7 ? 1 + i + 1 : 0};
        core_bd(&b->cdo, 0, 2, i, &in);
    }
    push_task(&b->cdo, 0, 2, false, 0, 0);
    push_task(&b->cdo, 0, 1, true, 0, 0);
    pass_time(b);
    run_ok(b);
    for (int i = 0; i < 4; i++) { // B22: 16 on, 1 off
        const struct emu_event * e = words(0, 1, MM2S + 0, i);
        assert_int_equal(e->end - e->start, 16);
        assert_int_equal(e->words, 16);
        if (i) {
            assert_int_equal(e->start - words(0, 1, MM2S + 0, i - 1)->end, 1);
        }
    }
    for (int i = 1; i < 8; i++) { // 8 on, 1 off
        const struct emu_event * e = words(0, 2, 0, i);
        assert_int_equal(e->end - e->start, 8);
        assert_in_range(e->start - words(0, 2, 0, i - 1)->end, 1, 2);
    }
    // B21: 8, give or take 2; AM020: 4 to leave the memtile, 3 to enter the core tile's DMA
    assert_int_equal(words(0, 2, 0, 0)->start - words(0, 1, MM2S + 0, 0)->start, 7);
}

// B20: 19 cycles without a word, while the memtile's buffer is handed from one channel to the
// other.
static void memtile_hands_over(void ** state) {
    struct bench * b = *state;
    loop_routes(b, 0, true);
    loop_memtile(b, 0, 16, (struct bd_desc){.length = 16, .address = 0x20000});
    in_and_out(b, 0, 64, 64);
    run_ok(b);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(words(0, 1, MM2S + 0, i)->start - words(0, 1, 0, i)->end, 19);
    }
}

// B19, B18: from the release of a lock 8 or 9 cycles until a waiting channel takes words, 12 or 13
// until one sends them. Here the controller gives the lock back, in the cycle of the lock's event.
static void locks_wake_channels(void ** state) {
    struct bench * b = *state;
    up(b);
    circuit(&b->cdo, 0, 2, 2, 5);  // core tile, DMA1 to South0
    circuit(&b->cdo, 0, 1, 13, 2); // memtile, North0 to DMA2
    struct bd_desc out = {.length = 38, .address = 0x20000};
    struct bd_desc in = {.length = 8, .acquire = 0, .acquire_value = -1, .next = 1 + 0};
    struct bd_desc back = {.length = 8, .acquire = 1, .acquire_value = -1};
    struct bd_desc end = {.length = 8, .address = 0x21000};
    mem_bd(&b->cdo, 0, 0, &out);
    core_bd(&b->cdo, 0, 2, 0, &in);
    core_bd(&b->cdo, 0, 2, 1, &back);
    mem_bd(&b->cdo, 0, 2, &end);
    push_task(&b->cdo, 0, 1, true, 0, 0);
    push_task(&b->cdo, 0, 2, false, 0, 0);
    push_task(&b->cdo, 0, 2, true, 1, 1);
    push_task(&b->cdo, 0, 1, false, 2, 2);
    txn_write(&b->txn, REG(0, 0, 0x14000), 0); // time for the FIFO to fill
    txn_write(&b->txn, REG(0, 2, 0x1F000), 1);
    txn_write(&b->txn, REG(0, 2, 0x1F010), 1);
    pass_time(b);
    run_ok(b);
    uint64_t released[2] = {0, 0};
    for (int k = 0; k < seen.n; k++) {
        const struct emu_event * e = &seen.at[k];
        if (e->kind == EMU_EVENT_LOCK && e->col == 0 && e->row == 2 && e->words == 1) {
            released[e->channel] = e->start;
        }
    }
    assert_int_equal(words(0, 2, 0, 0)->start - released[0], 8);
    assert_in_range(words(0, 2, MM2S + 1, 0)->start - released[1], 12, 13);
    assert_string_equal(find(EMU_EVENT_DMA_WAIT, 0, 2, 0, 0)->what, "lock");
    // The memtile had sent the 30 words that fit. The last of its 38 follows when the place of the
    // last one that was taken has come back, the way of a word and a cycle. The trace of add_one
    // has 7 for the way back where it has 8 for the way there, by two timers.
    assert_int_equal(words(0, 1, MM2S + 0, 0)->end - words(0, 2, 0, 0)->end, 7 + 1);
}

// B15, the trace of add_one: the memtile stops after 46 words when 16 have been stored: 16 wait in
// front of the channel (B13), 6 and 8 in the two switches.
static void fifos_hold_what_they_hold(void ** state) {
    struct bench * b = *state;
    up(b);
    struct bd_desc out = {.length = 64, .address = 0x20000};
    struct bd_desc in = {.length = 8, .acquire = 0, .acquire_value = -1, .next = 1 + 0};
    set_lock(&b->cdo, 0, 2, 0, 2);
    mem_bd(&b->cdo, 0, 0, &out);
    core_bd(&b->cdo, 0, 2, 0, &in);
    push_task(&b->cdo, 0, 1, true, 0, 0);
    push_task(&b->cdo, 0, 2, false, 0, 0);
    loop_routes(b, 3, true);
    in_and_out(b, 3, 64, 64); // never comes
    expect_error(b, ST_DEVICE, "MM2S0 (0,1) BD 0 sent 46 of 64 words, stream full");
}

// A word a cycle. (B09, B11: 244 and 251 cycles from a task's start to its finish, as counters of a
// core tile and a memtile see them: its last words are then fetched and not sent.)
static void long_transfers(void ** state) {
    struct bench * b = *state;
    up(b);
    struct bd_desc out = {.length = 256, .address = 0x20000}, in = {.length = 256};
    mem_bd(&b->cdo, 0, 0, &out);
    core_bd(&b->cdo, 0, 2, 0, &in);
    push_task(&b->cdo, 0, 1, true, 0, 0);
    push_task(&b->cdo, 0, 2, false, 0, 0);
    pass_time(b);
    run_ok(b);
    const struct emu_event * sent = words(0, 1, MM2S + 0, 0);
    assert_int_equal(sent->end - sent->start, 256);
    assert_int_equal(words(0, 2, 0, 0)->end - words(0, 2, 0, 0)->start, 256);
}

// Strix: 8 KiB in 1,024 cycles without a gap, 8 cycles from lock to channel, 1 between descriptors.
static void streams_of_64_bits(void ** state) {
    struct bench * b = *state;
    use_clock(b, "strix");
    up(b);
    struct bd_desc out = {.length = 2048, .address = 0x20000, .next = 1 + 2};
    struct bd_desc more = {.length = 2048, .address = 0x20000}, in = {.length = 2048};
    mem_bd(&b->cdo, 0, 0, &out);
    mem_bd(&b->cdo, 0, 2, &more);
    core_bd(&b->cdo, 0, 2, 0, &in);
    push_task(&b->cdo, 0, 1, true, 0, 0);
    push_task(&b->cdo, 0, 2, false, 0, 0);
    push_task(&b->cdo, 0, 2, false, 0, 0);
    pass_time(b);
    run_ok(b);
    assert_int_equal(words(0, 1, MM2S + 0, 0)->end - words(0, 1, MM2S + 0, 0)->start, 1024);
    assert_int_equal(words(0, 2, 0, 0)->end - words(0, 2, 0, 0)->start, 1024);
    assert_int_equal(words(0, 1, MM2S + 0, 1)->start - words(0, 1, MM2S + 0, 0)->end, 1);
}

// ---- shim and DDR ----

static void one_task(struct bench * b, bool mm2s, uint32_t length) {
    struct shim_desc d = {.length = length, .operand = mm2s ? A : OUT, .token = true};
    txn_transfer(&b->txn, 0, mm2s, 0, mm2s ? 0 : 1, &d);
    txn_sync(&b->txn, 0, mm2s, 0);
}

// From the start of the task to its last word.
static double duration(bool mm2s, int i) {
    int channel = mm2s ? MM2S : 0;
    return (double) (words(0, 0, channel, i)->end -
                     find(EMU_EVENT_DMA_WAIT, 0, 0, channel, i)->start);
}

// D9M, D9S: medians of 50 runs; tasks of 64 words, each queued when the one before was through.
static void shim_tasks_start(void ** state) {
    struct bench * b = *state;
    static const double in[8] = {1739, 804, 497, 422, 398, 399, 364, 369};
    static const double out[8] = {509, 233, 250, 250, 248, 249, 249, 248};
    loop_routes(b, 0, true);
    loop_memtile(b, 0, 64, (struct bd_desc){.length = 64, .address = 0x20000});
    for (int i = 0; i < 8; i++) {
        one_task(b, true, 64);
        one_task(b, false, 64);
    }
    run_ok(b);
    for (int i = 0; i < 8; i++) {
        within("D9M", duration(true, i), in[i], 6);
        within("D9S", duration(false, i), out[i], 7);
    }
    // the next dispatch finds the channels cold again
    seen.n = 0;
    run_ok(b);
    within("D9M", duration(true, 0), in[0], 6);
    within("D9M", duration(true, 1), in[1], 6);
}

// D08192 and D16384: cycles for each of the 8192 words more, in one run each. A memtile takes or
// sends whatever comes.
static double shim_task(struct bench * b, bool mm2s, uint32_t length) {
    b->cdo.n = 0;
    txn_begin(&b->txn);
    loop_routes(b, 0, true);
    struct bd_desc all = {.length = 16384, .address = 0x20000, .next = 1 + 0};
    mem_bd(&b->cdo, 0, 0, &all);
    push_task(&b->cdo, 0, 1, !mm2s, 0, 0);
    one_task(b, mm2s, length);
    seen.n = 0;
    run_ok(b);
    return duration(mm2s, 0);
}

static void shim_words(void ** state) {
    struct bench * b = *state;
    double in = shim_task(b, true, 16384) - shim_task(b, true, 8192);
    double out = shim_task(b, false, 16384) - shim_task(b, false, 8192);
    within("D MM2S, cycles a word", in / 8192, (17963. - 9121) / 8192, 4);
    within("D S2MM, cycles a word", out / 8192, (16525. - 8357) / 8192, 1);
}

// All channels together get what host memory gives: eight readers of 4 bytes a cycle share 15.6.
static void channels_share_host_memory(void ** state) {
    struct bench * b = *state;
    enum { WORDS = 8192, REPEATS = 16 };
    for (int col = 0; col < 4; col++) {
        loop_routes(b, col, true);
        circuit(&b->cdo, col, 0, SHIM_MM2S1, 13); // North1
        circuit(&b->cdo, col, 1, 8, 1);           // memtile, South1 to DMA1
        struct bd_desc sink = {.length = WORDS, .address = 0x20000, .next = 1 + 0};
        mem_bd(&b->cdo, col, 0, &sink);
        sink.next = 1 + 24;
        mem_bd(&b->cdo, col, 24, &sink);
        push_task(&b->cdo, col, 1, false, 0, 0);
        push_task(&b->cdo, col, 1, false, 1, 24);
        for (int i = 0; i < 2; i++) {
            struct shim_desc from = {
                .length = WORDS, .operand = A, .token = true, .repeat = REPEATS};
            txn_transfer(&b->txn, col, true, i, i, &from);
        }
    }
    for (int i = 0; i < 8; i++) {
        txn_sync(&b->txn, i / 2, true, i % 2);
    }
    run_ok(b);
    uint64_t first = UINT64_MAX, end = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t start = words(i / 2, 0, MM2S + i % 2, 0)->start;
        uint64_t last = words(i / 2, 0, MM2S + i % 2, REPEATS - 1)->end;
        first = start < first ? start : first;
        end = last > end ? last : end;
    }
    double rate = 8. * REPEATS * WORDS * 4 / (double) (end - first);
    print_message("%.1f bytes a cycle\n", rate);
    assert_true(rate <= 15.6 && rate > 15); // channels do not all begin and end at once
}

#undef TEST
#define TEST(f) cmocka_unit_test_setup_teardown(f, on_phoenix, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(descriptors_and_hops),      TEST(memtile_hands_over), TEST(locks_wake_channels),
        TEST(fifos_hold_what_they_hold), TEST(long_transfers),     TEST(streams_of_64_bits),
        TEST(shim_tasks_start),          TEST(shim_words),         TEST(channels_share_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test-array: the array without cores. Small designs route words from host memory through memtiles
// and core tiles and back; the expected words are computed here with plain loops.
#include "array-bench.h"

static void linear_twice(void ** state) {
    struct bench * b = *state;
    loop_routes(b, 2, true);
    loop_memtile(b, 2, 512, (struct bd_desc){.length = 512, .address = 0x20000});
    in_and_out(b, 2, 4096, 4096);
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < 4096; i++) {
            b->host[A][i] = pattern((uint32_t) turn + 7, i);
        }
        run_ok(b);
        for (uint32_t i = 0; i < 4096; i++) {
            assert_int_equal(b->host[OUT][i], pattern((uint32_t) turn + 7, i));
        }
        assert_int_equal(b->host[OUT][4096], 0xdeadbeef);
    }
    struct emu_counters c;
    emu_machine_counters(b->machine, &c);
    assert_int_equal(c.dispatches, 2);
    assert_int_equal(c.pdi_loads, 1);
    assert_int_equal(c.stream_words, 2 * 2 * 4096);
    // One buffer: filling and emptying take turns, each handed over by a lock: 19 cycles from the
    // last word in to the first word out, 8 from the last word out to the next word in. Besides
    // there are the start of a cold shim channel, the instruction stream and the token.
    const struct emu_clock * clock = emu_machine_clock(b->machine);
    uint64_t turns = 8 * (512 + 19 + 512 + 8), most = turns + 1649 + 4000;
    assert_true(c.last_cycles > turns + clock->token && c.last_cycles < most + clock->token);
    uint64_t sum = 0;
    for (int i = 0; i < EMU_CAUSES; i++) {
        sum += c.last_account.cycles[i];
    }
    sum -= (uint64_t) clock->dispatch_ns * clock->mhz / 1000;
    assert_int_equal(sum, c.last_cycles);
}

// The memtile's four dimensions turn a [4][6][8] block of pairs around.
static void four_dimensions(void ** state) {
    struct bench * b = *state;
    loop_routes(b, 0, true);
    loop_memtile(b, 0, 384,
                 (struct bd_desc){
                     .length = 384, .address = 0x20000, .wrap = {2, 6, 4}, .step = {1, 16, 96, 2}});
    in_and_out(b, 0, 768, 768);
    run_ok(b);
    uint32_t at = 0;
    for (uint32_t block = 0; block < 2; block++) {
        for (uint32_t d3 = 0; d3 < 8; d3++) {
            for (uint32_t d2 = 0; d2 < 4; d2++) {
                for (uint32_t d1 = 0; d1 < 6; d1++) {
                    for (uint32_t d0 = 0; d0 < 2; d0++, at++) {
                        uint32_t from = block * 384 + d3 * 2 + d2 * 96 + d1 * 16 + d0;
                        assert_int_equal(b->host[OUT][at], pattern(A, from));
                    }
                }
            }
        }
    }
}

static void padding(void ** state) {
    struct bench * b = *state;
    enum { W = 5, H = 3, D = 2 }; // data
    const uint32_t before[3] = {2, 1, 1}, after[3] = {3, 2, 0};
    const uint32_t ext[3] = {W + 5, H + 3, D + 1};
    loop_routes(b, 1, true);
    loop_memtile(b, 1, W * H * D,
                 (struct bd_desc){.length = ext[0] * ext[1] * ext[2],
                                  .address = 0x20000,
                                  .wrap = {W, H, D},
                                  .step = {1, W, W * H, 1},
                                  .before = {2, 1, 1},
                                  .after = {3, 2, 0}});
    in_and_out(b, 1, W * H * D, ext[0] * ext[1] * ext[2]);
    run_ok(b);
    uint32_t at = 0;
    for (uint32_t z = 0; z < ext[2]; z++) {
        for (uint32_t y = 0; y < ext[1]; y++) {
            for (uint32_t x = 0; x < ext[0]; x++, at++) {
                bool data = x >= before[0] && x < ext[0] - after[0] && y >= before[1] &&
                            y < ext[1] - after[1] && z >= before[2] && z < ext[2] - after[2];
                uint32_t from = ((z - before[2]) * H + (y - before[1])) * W + (x - before[0]);
                assert_int_equal(b->host[OUT][at], data ? pattern(A, from) : 0);
            }
        }
    }
}

// The shim's three dimensions, its iteration and repeats, and the iteration of a memtile
// descriptor.
static void shim_walk_with_repeats(void ** state) {
    struct bench * b = *state;
    loop_routes(b, 0, true);
    loop_memtile(b, 0, 48, (struct bd_desc){.length = 48, .address = 0x20000});
    struct shim_desc in = {.length = 48,
                           .operand = A,
                           .offset = 40,
                           .wrap = {4, 3},
                           .step = {2, 100, 9},
                           .iter_wrap = 3,
                           .iter_step = 1000,
                           .repeat = 6};
    struct shim_desc out = {.length = 144,
                            .operand = OUT,
                            .offset = 8,
                            .token = true,
                            .repeat = 2,
                            .iter_wrap = 2,
                            .iter_step = 200};
    txn_transfer(&b->txn, 0, true, 0, 3, &in);
    txn_transfer(&b->txn, 0, false, 0, 9, &out);
    txn_sync(&b->txn, 0, false, 0);
    for (int turn = 0; turn < 2; turn++) {
        memset(b->host[OUT], 0, HOST_WORDS * 4);
        run_ok(b);
        uint32_t at = 0;
        for (uint32_t run_no = 0; run_no < 6; run_no++) {
            for (uint32_t i = 0; i < 48; i++, at++) {
                uint32_t from = 10 + run_no % 3 * 1000 + i % 4 * 2 + i / 4 % 3 * 100 + i / 12 * 9;
                uint32_t to = 2 + at / 144 * 200 + at % 144;
                assert_int_equal(b->host[OUT][to], pattern(A, from));
            }
        }
    }
}

// One source, two memtile channels, both sent back: the same words twice.
static void broadcast(void ** state) {
    struct bench * b = *state;
    loop_routes(b, 3, true);
    circuit(&b->cdo, 3, 0, SHIM_MM2S0, 13); // also to North1
    circuit(&b->cdo, 3, 1, 8, 1);           // South1 to DMA1
    circuit(&b->cdo, 3, 1, 1, 8);           // DMA1 to South1
    circuit(&b->cdo, 3, 0, 15, SHIM_S2MM1);
    loop_memtile(b, 3, 256, (struct bd_desc){.length = 256, .address = 0x20000});
    struct bd_desc in = {.length = 64,
                         .address = 0x28000,
                         .next = 1 + 24,
                         .acquire = 74,
                         .acquire_value = -1,
                         .release = 75,
                         .release_value = 1};
    struct bd_desc out = {.length = 64,
                          .address = 0x28000,
                          .next = 1 + 25,
                          .acquire = 75,
                          .acquire_value = -1,
                          .release = 74,
                          .release_value = 1};
    set_lock(&b->cdo, 3, 1, 10, 1);
    mem_bd(&b->cdo, 3, 24, &in);
    mem_bd(&b->cdo, 3, 25, &out);
    push_task(&b->cdo, 3, 1, false, 1, 24);
    push_task(&b->cdo, 3, 1, true, 1, 25);
    struct shim_desc from = {.length = 1024, .operand = A};
    struct shim_desc to0 = {.length = 1024, .operand = OUT, .token = true};
    struct shim_desc to1 = {.length = 1024, .operand = OUT, .offset = 8192, .token = true};
    txn_transfer(&b->txn, 3, true, 0, 0, &from);
    txn_transfer(&b->txn, 3, false, 0, 1, &to0);
    txn_transfer(&b->txn, 3, false, 1, 2, &to1);
    txn_sync(&b->txn, 3, false, 0);
    txn_sync(&b->txn, 3, false, 1);
    run_ok(b);
    run_ok(b);
    for (uint32_t i = 0; i < 1024; i++) {
        assert_int_equal(b->host[OUT][i], pattern(A, i));
        assert_int_equal(b->host[OUT][2048 + i], pattern(A, i));
    }
}

// Through the data memory of a core tile, west and back east, with the third dimension and a
// self-timed iteration of the core descriptor.
static void core_tile_dma(void ** state) {
    struct bench * b = *state;
    shim_ends(&b->cdo, 1, true);
    circuit(&b->cdo, 1, 0, SHIM_MM2S0, 12); // N0
    circuit(&b->cdo, 1, 1, 7, 11);          // memtile S0 to N0
    circuit(&b->cdo, 1, 2, 5, 9);           // S0 to West0
    circuit(&b->cdo, 0, 2, 19, 2);          // tile (0,2): East0 to DMA1
    circuit(&b->cdo, 0, 2, 1, 21);          // DMA0 to East2
    circuit(&b->cdo, 1, 2, 13, 7);          // tile (1,2): West2 to South2
    circuit(&b->cdo, 1, 1, 15, 9);          // memtile N2 to S2
    circuit(&b->cdo, 1, 0, 16, SHIM_S2MM0); // shim N2
    set_lock(&b->cdo, 0, 2, 3, 2);
    struct bd_desc in = {.length = 60,
                         .address = 100,
                         .iter_wrap = 2,
                         .iter_step = 1000,
                         .next = 1 + 7,
                         .acquire = 3,
                         .acquire_value = -1,
                         .release = 4,
                         .release_value = 1};
    struct bd_desc out = {.length = 60,
                          .address = 100,
                          .wrap = {5, 4},
                          .step = {3, 15, 1},
                          .iter_wrap = 2,
                          .iter_step = 1000,
                          .next = 1 + 8,
                          .acquire = 4,
                          .acquire_value = -1,
                          .release = 3,
                          .release_value = 1};
    core_bd(&b->cdo, 0, 2, 7, &in);
    core_bd(&b->cdo, 0, 2, 8, &out);
    push_task(&b->cdo, 0, 2, false, 1, 7);
    push_task(&b->cdo, 0, 2, true, 0, 8);
    in_and_out(b, 1, 600, 600);
    run_ok(b);
    run_ok(b);
    for (uint32_t i = 0; i < 600; i++) {
        uint32_t k = i % 60;
        uint32_t from = i / 60 * 60 + k % 5 * 3 + k / 5 % 4 * 15 + k / 20;
        assert_int_equal(b->host[OUT][i], pattern(A, from));
    }
}

// A memtile channel works in its neighbours' memories with its neighbours' locks: window 0 is the
// west, window 2 the east.
static void memtile_neighbour(struct bench * b, int window) {
    loop_routes(b, 1, true);
    uint32_t base = 0x20000 * (uint32_t) window + 16;
    int lock = 64 * window + 5;
    struct bd_desc in = {.length = 32,
                         .address = base,
                         .next = 1 + 0,
                         .acquire = lock,
                         .acquire_value = -1,
                         .release = lock + 1,
                         .release_value = 1};
    struct bd_desc out = in;
    out.next = 1 + 1;
    out.acquire = lock + 1;
    out.release = lock;
    mem_bd(&b->cdo, 1, 0, &in);
    mem_bd(&b->cdo, 1, 1, &out);
    set_lock(&b->cdo, window, 1, 5, 1);
    push_task(&b->cdo, 1, 1, false, 0, 0);
    push_task(&b->cdo, 1, 1, true, 0, 1);
    in_and_out(b, 1, 640, 640);
    run_ok(b);
    for (uint32_t i = 0; i < 640; i++) {
        assert_int_equal(b->host[OUT][i], pattern(A, i));
    }
}

static void memtile_west(void ** state) {
    memtile_neighbour(*state, 0);
}

static void memtile_east(void ** state) {
    memtile_neighbour(*state, 2);
}

// Two flows share one wire in both directions: ids choose the memtile channel on the way in (header
// dropped); on the way out an arbiter merges whole packets (header kept, parity odd). The receiver
// is there from the start, or only after both senders have run into its full FIFO.
static void packets_received_after(struct bench * b, uint32_t late) {
    enum { LEN = 16, N = 8 };
    shim_ends(&b->cdo, 0, true);
    circuit(&b->cdo, 0, 0, SHIM_MM2S0, 12);
    packet_slave(&b->cdo, 0, 1, 7, 0, 4, 0x1E, 0, 1); // ids 4 and 5 to DMA0
    packet_slave(&b->cdo, 0, 1, 7, 1, 9, 0x1F, 1, 1); // id 9 to DMA2
    packet_master(&b->cdo, 0, 1, 0, 1, 1, true);
    packet_master(&b->cdo, 0, 1, 2, 2, 1, true);
    packet_slave(&b->cdo, 0, 1, 0, 0, 2, 0x1F, 0, 2); // DMA0 and DMA2 both to South0
    packet_slave(&b->cdo, 0, 1, 2, 0, 3, 0x1F, 0, 2);
    packet_master(&b->cdo, 0, 1, 7, 1, 2, false);
    circuit(&b->cdo, 0, 0, 14, SHIM_S2MM0);
    for (int flow = 0; flow < 2; flow++) {
        int bd = 2 * flow, lock = 64 + 2 * flow;
        struct bd_desc in = {.length = LEN,
                             .address = 0x20000 + 1024 * (uint32_t) flow,
                             .next = 1 + bd,
                             .acquire = lock,
                             .acquire_value = -1,
                             .release = lock + 1,
                             .release_value = 1};
        struct bd_desc out = in;
        out.next = 1 + bd + 1;
        out.acquire = lock + 1;
        out.release = lock;
        out.packet = 1 + 2 + flow;
        mem_bd(&b->cdo, 0, bd, &in);
        mem_bd(&b->cdo, 0, bd + 1, &out);
        set_lock(&b->cdo, 0, 1, 2 * flow, 1);
        push_task(&b->cdo, 0, 1, false, 2 * flow, bd);
        push_task(&b->cdo, 0, 1, true, 2 * flow, bd + 1);
    }
    struct shim_desc out = {.length = 2 * N * (LEN + 1), .operand = OUT, .token = true};
    for (uint32_t i = 0; i < 2 * N; i++) { // more tasks than the queue holds, so wait for each
        if (i == late) {
            txn_transfer(&b->txn, 0, false, 0, 15, &out);
        }
        struct shim_desc in = {.length = LEN,
                               .operand = i % 2 ? B : A,
                               .offset = i / 2 * LEN * 4,
                               .packet = 1 + (i % 2 ? 9 : 4 + (int) (i / 2 % 2)),
                               .token = true};
        txn_transfer(&b->txn, 0, true, 0, (int) i % 8, &in);
        txn_sync(&b->txn, 0, true, 0);
    }
    txn_sync(&b->txn, 0, false, 0);
    run_ok(b);
    uint32_t seen[2] = {0, 0};
    for (uint32_t i = 0; i < 2 * N; i++) {
        const uint32_t * p = b->host[OUT] + i * (LEN + 1);
        uint32_t flow = (p[0] & 31) - 2;
        assert_true(flow < 2);
        assert_int_equal(p[0] & 0x7fffffff, (flow + 2) | 1 << 16); // type 0, from row 1, column 0
        assert_int_equal(__builtin_popcount(p[0]) % 2, 1);
        for (uint32_t j = 0; j < LEN; j++) {
            assert_int_equal(p[1 + j], pattern(flow ? B : A, seen[flow] * LEN + j));
        }
        seen[flow]++;
    }
    assert_int_equal(seen[0], N);
    assert_int_equal(seen[1], N);
}

static void packets(void ** state) {
    packets_received_after(*state, 0);
}

static void packets_under_pressure(void ** state) {
    packets_received_after(*state, 4);
}

// Three senders that never rest share one wire: each gets its turn.
static void arbitration_is_fair(void ** state) {
    struct bench * b = *state;
    enum { SENDERS = 3, LEN = 16, N = 24 };
    shim_ends(&b->cdo, 0, true);
    for (int i = 0; i < SENDERS; i++) {
        struct bd_desc out = {
            .length = LEN, .address = 0x20000, .next = 1 + 2 * i, .packet = 1 + 2 * i};
        mem_bd(&b->cdo, 0, 2 * i, &out);
        packet_slave(&b->cdo, 0, 1, 2 * i, 0, 2 * i, 0x1F, 0, 3);
        push_task(&b->cdo, 0, 1, true, 2 * i, 2 * i);
    }
    packet_master(&b->cdo, 0, 1, 7, 1, 3, false);
    circuit(&b->cdo, 0, 0, 14, SHIM_S2MM0);
    struct shim_desc to = {.length = N * (LEN + 1), .operand = OUT, .token = true};
    txn_transfer(&b->txn, 0, false, 0, 0, &to);
    txn_sync(&b->txn, 0, false, 0);
    run_ok(b);
    int seen[SENDERS] = {0};
    for (uint32_t i = 0; i < N; i++) {
        uint32_t sender = (b->host[OUT][i * (LEN + 1)] & 31) / 2;
        assert_true(sender < SENDERS);
        seen[sender]++;
    }
    for (int i = 0; i < SENDERS; i++) {
        assert_int_equal(seen[i], N / SENDERS);
    }
}

// The instruction stream joins a channel that stood before a dead end to the way out.
static void switches_change_on_the_way(void ** state) {
    struct bench * b = *state;
    loop_routes(b, 0, true);
    loop_memtile(b, 0, 64, (struct bd_desc){.length = 64, .address = 0x20000});
    uint32_t constants[8] = {11, 12, 13, 14, 15, 16, 17, 18};
    cdo_block(&b->cdo, REG(0, 1, 0x8000), constants, 8);
    struct bd_desc other = {.length = 8, .address = 0x20000 + 0x2000};
    mem_bd(&b->cdo, 0, 4, &other);
    push_task(&b->cdo, 0, 1, true, 2, 4);
    in_and_out(b, 0, 64, 64);
    txn_write(&b->txn, REG(0, 1, 0xB0108), 0x80000000); // slave DMA2 on
    txn_write(&b->txn, REG(0, 1, 0xB001C), 0x80000002); // South0 from DMA2
    struct shim_desc to = {.length = 8, .operand = OUT, .offset = 4096, .token = true};
    txn_transfer(&b->txn, 0, false, 0, 2, &to);
    txn_sync(&b->txn, 0, false, 0);
    run_ok(b);
    assert_int_equal(b->host[OUT][63], pattern(A, 63));
    assert_memory_equal(b->host[OUT] + 1024, constants, sizeof(constants));
}

// Two PDIs of one size that differ in a word of data: the memtile sends what the PDI put there.
static void different_pdi_reloads(void ** state) {
    struct bench * b = *state;
    struct bd_desc out = {.length = 8, .address = 0x20000 + 256, .next = 1 + 1, .acquire = 64};
    for (uint32_t turn = 0; turn < 3; turn++) {
        b->cdo.n = 0;
        txn_begin(&b->txn);
        loop_routes(b, 0, true);
        loop_memtile(b, 0, 8, out);
        cdo_write(&b->cdo, REG(0, 1, 1024), 700 + turn / 2);
        in_and_out(b, 0, 8, 8);
        run_ok(b);
        assert_int_equal(b->host[OUT][0], 700 + turn / 2);
        struct emu_counters c;
        emu_machine_counters(b->machine, &c);
        assert_int_equal(c.dispatches, turn + 1);
        assert_int_equal(c.pdi_loads, 1 + turn / 2);
    }
}

// What one PDI leaves in a memtile's memory is gone under the next one: written by DMA from the
// east, from the tile itself and from the west, by a block of the configuration, word by word.
static void memory_does_not_outlive_a_pdi(void ** state) {
    struct bench * b = *state;
    enum { LAST = 0x20000 - 16, BLOCK = 3, WORDS = 4, WAYS = 5 }; // LAST: in words of a memtile
    for (uint32_t way = 0; way < WAYS; way++) {
        uint32_t at = way % 3 * 0x20000 + LAST;
        int col = (int) (way % 3); // of the memory that column 1 sees there
        struct bd_desc in = {.length = 16, .address = at, .release = 64, .release_value = 1};
        struct bd_desc out = {.length = 16, .address = at};
        struct shim_desc from = {.length = 16, .operand = A};
        struct shim_desc to = {.length = 16, .operand = OUT, .token = true};
        for (int turn = 0; turn < 2; turn++) { // written and read, only read
            b->cdo.n = 0;
            txn_begin(&b->txn);
            loop_routes(b, 1, true);
            out.acquire = turn == 0 && way < BLOCK ? 64 : 0; // own lock 0: the words are there
            out.acquire_value = -(int) (out.acquire != 0);
            mem_bd(&b->cdo, 1, 0, &in);
            mem_bd(&b->cdo, 1, 1, &out);
            if (turn == 0 && way == BLOCK) {
                cdo_block(&b->cdo, REG(col, 1, 4 * LAST), b->host[A], 16);
            } else if (turn == 0 && way == WORDS) {
                for (uint32_t i = 0; i < 16; i++) {
                    cdo_mask_write(&b->cdo, REG(col, 1, 4 * (LAST + i)), UINT32_MAX, b->host[A][i]);
                }
            } else if (turn == 0) {
                push_task(&b->cdo, 1, 1, false, 0, 0);
                txn_transfer(&b->txn, 1, true, 0, 0, &from);
            }
            push_task(&b->cdo, 1, 1, true, 0, 1);
            txn_transfer(&b->txn, 1, false, 0, 1, &to);
            txn_sync(&b->txn, 1, false, 0);
            run_ok(b);
            for (uint32_t i = 0; i < 16; i++) {
                assert_int_equal(b->host[OUT][i], turn == 0 ? pattern(A, i) : 0);
            }
        }
    }
}

static void same_input_same_cycles(void ** state) {
    struct bench * b = *state;
    loop_routes(b, 0, true);
    loop_memtile(b, 0, 64, (struct bd_desc){.length = 64, .address = 0x20000});
    in_and_out(b, 0, 1024, 1024);
    struct emu_counters c;
    run_ok(b);
    emu_machine_counters(b->machine, &c);
    uint64_t first = c.last_cycles;
    run_ok(b);
    emu_machine_counters(b->machine, &c);
    assert_int_equal(c.last_cycles, first);
    assert_int_equal(c.cycles, 2 * first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(linear_twice),
        TEST(four_dimensions),
        TEST(padding),
        TEST(shim_walk_with_repeats),
        TEST(broadcast),
        TEST(core_tile_dma),
        TEST(memtile_west),
        TEST(memtile_east),
        TEST(packets),
        TEST(packets_under_pressure),
        TEST(arbitration_is_fair),
        TEST(switches_change_on_the_way),
        TEST(different_pdi_reloads),
        TEST(memory_does_not_outlive_a_pdi),
        TEST(same_input_same_cycles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test-burst: moving many words in one go changes nothing. Random designs - walks, zero padding,
// one or two buffers, broadcasts, packets, four columns at different paces - run on two machines,
// one of which moves every word by itself in its own cycle; results, modelled cycles and all other
// counters must agree, on each device's clock, with and without the delays of a strict machine.
#include "array-bench.h"

#include <stddef.h>

enum { DESIGNS = 240, BLOCKS = 6 };

static uint32_t seed = 1;

static uint32_t below(uint32_t n) { // 0 .. n - 1
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % n;
}

// Three dimensions in any order over a block of their product's size.
static uint32_t random_walk(struct bd_desc * d) {
    uint32_t size[3] = {1 + below(12), 1 + below(10), 1 + below(8)}, inner[3];
    uint32_t order = below(3), total = 1;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t k = (i + order) % 3;
        inner[k] = total;
        total *= size[k];
    }
    for (uint32_t i = 0; i < 3; i++) {
        d->wrap[i] = size[i];
        d->step[i] = inner[i];
    }
    d->step[3] = 1;
    d->length = total;
    return total;
}

static void memtile(struct words * cdo, int col, uint32_t words, const struct bd_desc * in,
                    const struct bd_desc * out) {
    int buffers = 1 + (int) below(2);
    set_lock(cdo, col, 1, 0, buffers);
    for (int i = 0; i < buffers; i++) {
        struct bd_desc fill = *in, drain = *out;
        int next = (i + 1) % buffers;
        fill.length = words;
        fill.address = drain.address = 0x20000 + 0x8000 * (uint32_t) i;
        fill.acquire = drain.release = 64;
        fill.release = drain.acquire = 65;
        fill.acquire_value = drain.acquire_value = -1;
        fill.release_value = drain.release_value = 1;
        fill.next = 1 + next;
        drain.next = 1 + 8 + next;
        mem_bd(cdo, col, i, &fill);
        mem_bd(cdo, col, 8 + i, &drain);
    }
    push_task(cdo, col, 1, false, 0, 0);
    push_task(cdo, col, 1, true, 0, 8);
}

// Through the memory of the lower core tile and back; the upper one gets the same words for itself.
static void core_tiles(struct words * cdo, int col, uint32_t words) {
    struct bd_desc in = {.length = words,
                         .next = 1 + 0,
                         .acquire = 0,
                         .acquire_value = -1,
                         .release = 1,
                         .release_value = 1};
    struct bd_desc out = {.length = words,
                          .next = 1 + 1,
                          .acquire = 1,
                          .acquire_value = -1,
                          .release = 0,
                          .release_value = 1};
    struct bd_desc other = {.length = 1 + below(300), .next = 1 + 0};
    set_lock(cdo, col, 2, 0, 1);
    core_bd(cdo, col, 2, 0, &in);
    core_bd(cdo, col, 2, 1, &out);
    core_bd(cdo, col, 3, 0, &other);
    push_task(cdo, col, 2, false, 0, 0);
    push_task(cdo, col, 2, true, 0, 1);
    push_task(cdo, col, 3, false, 0, 0);
}

static void routes(struct words * cdo, int col) {
    shim_ends(cdo, col, true);
    circuit(cdo, col, 0, SHIM_MM2S0, 12); // shim, to North0
    circuit(cdo, col, 1, 7, 0);           // memtile, South0 to DMA0
    circuit(cdo, col, 1, 0, 11);          // DMA0 to North0
    circuit(cdo, col, 2, 5, 1);           // lower core tile, South0 to DMA0
    circuit(cdo, col, 2, 5, 13);          // and to North0
    circuit(cdo, col, 3, 5, 1);           // upper core tile, South0 to DMA0
    circuit(cdo, col, 2, 1, 5);           // lower core tile, DMA0 to South0
    circuit(cdo, col, 1, 13, 7);          // memtile, North0 to South0
    circuit(cdo, col, 0, 14, SHIM_S2MM0); // shim, North0 to the DMA
}

static void design(struct bench * b) {
    txn_begin(&b->txn);
    b->cdo.n = 0;
    for (int col = 0; col < 4; col++) {
        struct bd_desc in = {0}, out = {0}, straight = {0};
        uint32_t words = random_walk(below(3) ? &in : &out), sent = words;
        if (in.length == 0) { // the walk is on the way out, perhaps with zeros around the data
            in = straight;
            sent = 1;
            for (int d = 0; d < 3; d++) {
                out.before[d] = below(2) ? 0 : below(4);
                out.after[d] = below(2) ? 0 : below(4);
                sent *= out.before[d] + out.wrap[d] + out.after[d];
            }
        }
        out.length = sent;
        routes(&b->cdo, col);
        memtile(&b->cdo, col, words, &in, &out);
        core_tiles(&b->cdo, col, sent);
        struct shim_desc from = {
            .length = BLOCKS * words, .operand = below(2) ? A : B, .offset = 4 * below(64)};
        struct shim_desc to = {.length = BLOCKS * sent, .operand = OUT, .token = true};
        if (BLOCKS * sent > HOST_WORDS / 4) {
            to.length = HOST_WORDS / 4; // the rest stays in the array
            from.length = (to.length + sent - 1) / sent * words;
        }
        to.offset = 4 * (uint32_t) col * (HOST_WORDS / 4);
        uint32_t ahead = below(20);
        if (below(4) == 0 && sent == words && ahead + from.length <= HOST_WORDS / 4) {
            // in place, or nearly so: what is read is never behind what is written
            from.operand = OUT;
            from.offset = to.offset + 4 * ahead;
        } else if (below(2)) {
            from.wrap[0] = 1 + below(40);
            from.step[0] = 1 + below(2);
            from.step[1] = below(60);
            from.wrap[1] = 4;
            from.step[2] = 1;
        }
        txn_transfer(&b->txn, col, true, 0, 0, &from);
        txn_transfer(&b->txn, col, false, 0, 1, &to);
    }
    for (int col = 0; col < 4; col++) {
        txn_sync(&b->txn, col, false, 0);
    }
}

// Four columns in each of which three senders share the wire to the host, and the host sends
// packets of two kinds; some packets go on over two descriptors.
static void packet_design(struct bench * b) {
    txn_begin(&b->txn);
    b->cdo.n = 0;
    for (int col = 0; col < 4; col++) {
        shim_ends(&b->cdo, col, true);
        for (int i = 0; i < 3; i++) {
            int bd = 2 * i;
            bool two = below(3) == 0;
            struct bd_desc out = {.length = 1 + below(80),
                                  .address = 0x20000 + below(64),
                                  .next = 1 + bd + two,
                                  .packet = 1 + i,
                                  .no_tlast = two};
            struct bd_desc rest = {
                .length = 1 + below(50), .address = 0x20000 + below(64), .next = 1 + bd};
            mem_bd(&b->cdo, col, bd, &out);
            mem_bd(&b->cdo, col, bd + 1, &rest);
            packet_slave(&b->cdo, col, 1, 2 * i, 0, i, 0x1F, 0, 3);
            push_task(&b->cdo, col, 1, true, 2 * i, bd);
        }
        packet_master(&b->cdo, col, 1, 7, 1, 3, below(2));
        circuit(&b->cdo, col, 0, 14, SHIM_S2MM0);
        circuit(&b->cdo, col, 0, SHIM_MM2S0, 12);
        packet_slave(&b->cdo, col, 1, 7, 0, 4, 0x1E, 0, 1); // ids 4 and 5 to DMA0
        packet_slave(&b->cdo, col, 1, 7, 1, 9, 0x1F, 1, 1); // id 9 to DMA2
        packet_master(&b->cdo, col, 1, 0, 1, 1, true);
        packet_master(&b->cdo, col, 1, 2, 2, 1, below(2));
        for (int i = 0; i < 2; i++) {
            struct bd_desc in = {.length = 1 + below(60), .address = 0x24000, .next = 1 + 8 + i};
            mem_bd(&b->cdo, col, 8 + i, &in);
            push_task(&b->cdo, col, 1, false, 2 * i, 8 + i);
        }
        for (int i = 0; i < 3; i++) {
            struct shim_desc in = {.length = 1 + below(200),
                                   .operand = A,
                                   .repeat = 1 + (int) below(6),
                                   .packet = 1 + (below(2) ? 9 : 4)};
            txn_transfer(&b->txn, col, true, 0, i, &in);
        }
        struct shim_desc to = {.length = 500 + below(2000),
                               .operand = OUT,
                               .offset = 4 * (uint32_t) col * (HOST_WORDS / 4),
                               .token = true};
        txn_transfer(&b->txn, col, false, 0, 8, &to);
    }
    for (int col = 0; col < 4; col++) {
        txn_sync(&b->txn, col, false, 0);
    }
}

static void same_as_single_cycles(void ** state) {
    static const char * const clocks[] = {"phoenix", "strix", "ideal", "phoenix,ddr=4"};
    struct bench * b = *state;
    int finished = 0;
    uint32_t * first = malloc(HOST_WORDS * 4);
    for (int i = 0; i < DESIGNS; i++) {
        struct emu_clock clock;
        assert_int_equal(emu_clock_parse(clocks[i % 4], &clock, &b->err), ST_OK);
        seed = (uint32_t) i * 77 + 5;
        if (i % 5 == 4) {
            packet_design(b);
        } else {
            design(b);
        }
        struct emu_counters counters[2] = {{0}};
        enum status st[2];
        for (int single = 0; single < 2; single++) {
            struct emu_config config = {.arch = AIE_ARCH_AIE2,
                                        .clock = &clock,
                                        .columns = 4,
                                        .resolve = resolve,
                                        .user = b,
                                        .max_cycles = 200000,
                                        .single_cycles = single,
                                        .strict = i % 3 == 2,
                                        .trace_col = -1,
                                        .trace_row = -1};
            emu_machine_free(b->machine);
            assert_int_equal(emu_machine_new(&config, &b->machine, &b->err), ST_OK);
            for (uint32_t j = 0; j < HOST_WORDS; j++) {
                b->host[OUT][j] = pattern(OUT, j);
            }
            st[single] = run(b);
            if (st[single] == ST_OK) { // from where the first one left the array
                st[single] = run(b);
            }
            emu_machine_counters(b->machine, &counters[single]);
            if (!single) {
                memcpy(first, b->host[OUT], HOST_WORDS * 4);
            }
        }
        finished += st[0] == ST_OK;
        assert_int_equal(st[0], st[1]);
        assert_memory_equal(first, b->host[OUT], HOST_WORDS * 4);
        assert_int_equal(counters[0].last_cycles, counters[1].last_cycles);
        // The account takes words that were moved at once for a stretch without gaps.
        assert_memory_equal(&counters[0], &counters[1], offsetof(struct emu_counters, account));
    }
    free(first);
    print_message("%d of %d designs ran to their end\n", finished, DESIGNS);
    assert_true(finished > DESIGNS / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(same_as_single_cycles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

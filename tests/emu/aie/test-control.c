// test-control: control packets. A shim channel sends them to the control port of a shim, a memtile
// and a core; what they write is seen by reading it back with packets, by tasks that they start and
// by locks that they open. Packets that a tile cannot take end the dispatch with the reason.
// Routes, headers and packets are written here by hand, on both architectures, and words move one
// by one as well as in bursts.
#include "array-bench.h"

enum { SEND = 1, BACK = 2 }; // packet ids
enum { OP_WRITE, OP_READ };

static const struct {
    enum aie_arch arch;
    uint32_t version; // of the instruction stream
    bool single;
} machines[] = {
    {AIE_ARCH_AIE2, 0x06030100, false},
    {AIE_ARCH_AIE2, 0x06030100, true},
    {AIE_ARCH_AIE2P, 0x06040100, false},
    {AIE_ARCH_AIE2P, 0x06040100, true},
};
enum { N_MACHINES = sizeof machines / sizeof machines[0] };

static void open_machine(struct bench * b, int i) {
    memset(b, 0, sizeof *b);
    struct emu_config config = bench_config(b);
    config.arch = machines[i].arch;
    config.single_cycles = machines[i].single;
    assert_true(bench_open(b, &config));
    b->txn.s.w[0] = machines[i].version;
}

static uint32_t odd(uint32_t word) { // with the parity bit that it needs
    return word | (__builtin_popcount(word) % 2 ? 0 : 1u << 31);
}

static uint32_t control_header(uint32_t op, uint32_t address, uint32_t words, uint32_t answer) {
    return odd(answer << 24 | op << 22 | (words - 1) << 20 | address);
}

// ---- ways ----

static const int control_slave[] = {0, 6, 3}, control_master[] = {0, 6, 3}; // by row

// From the shim's MM2S0 to the control port of the tile in that row, and from there to S2MM0.
static void ways(struct bench * b, int row, bool drop_out, bool drop_back) {
    struct words * s = &b->cdo;
    shim_ends(s, 0, true);
    for (int r = 0; r <= row; r++) {
        int in = r == 0 ? SHIM_MM2S0 : r == 1 ? 7 : 5; // South0 of a tile
        int out = r == row ? control_master[r] : r == 0 ? 12 : 11;
        packet_slave(s, 0, r, in, 0, SEND, 0x1f, 0, 1);
        packet_master(s, 0, r, out, 1, 1, r == row && drop_out);
    }
    for (int r = row; r >= 0; r--) {
        int in = r == row ? control_slave[r] : r == 0 ? 14 : 13; // North0 of a tile
        int out = r == 0 ? SHIM_S2MM0 : r == 1 ? 7 : 5;
        packet_slave(s, 0, r, in, 1, BACK, 0x1f, 0, 2);
        packet_master(s, 0, r, out, 1, 2, r == 0 && drop_back);
    }
}

// One transfer of MM2S0 for each packet, from operand A; `at` counts the words there.
static void send(struct bench * b, uint32_t * at, const uint32_t * words, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        b->host[A][*at + i] = words[i];
    }
    struct shim_desc d = {
        .length = n, .packet = 1 + SEND, .operand = A, .offset = *at * 4, .token = true};
    txn_transfer(&b->txn, 0, true, 0, 0, &d);
    txn_sync(&b->txn, 0, true, 0);
    *at += n;
}

static void receive(struct bench * b, uint32_t words) {
    struct shim_desc d = {.length = words, .operand = OUT, .token = true};
    txn_transfer(&b->txn, 0, false, 0, 1, &d);
}

// ---- what packets do ----

// Words that are written can be read, in every kind of tile; answers are packets of their own.
static void written_and_read(void ** state) {
    (void) state;
    static const struct {
        int row;
        uint32_t address;
    } cases[] = {
        {0, 0x1d0a0},                             // a descriptor of the shim
        {1, 0x00400}, {1, 0x7fff0}, {1, 0xa0040}, // memory, its end, a descriptor
        {2, 0x00440}, {2, 0x1d020}, {2, 0x20010}, // the same, and a program
    };
    for (size_t i = 0; i < N_MACHINES * sizeof cases / sizeof cases[0]; i++) {
        struct bench b;
        size_t k = i / N_MACHINES;
        open_machine(&b, i % N_MACHINES);
        ways(&b, cases[k].row, false, false);
        receive(&b, 2 + 3 + 5);
        uint32_t at = 0, address = cases[k].address;
        const uint32_t four[] = {control_header(OP_WRITE, address, 4, 0), 0x1234567, 2, 3, 0xfffff};
        const uint32_t one[] = {control_header(OP_WRITE, address + 4, 1, 31), 0xabcdef};
        send(&b, &at, four, 5);
        send(&b, &at, one, 2); // an id for an answer that never comes says nothing
        for (uint32_t n = 1; n <= 4; n *= 2) {
            send(&b, &at, (uint32_t[]){control_header(OP_READ, address, n, BACK)}, 1);
        }
        txn_sync(&b.txn, 0, false, 0);
        run_ok(&b);
        uint32_t head = odd(BACK | (uint32_t) cases[k].row << 16);
        const uint32_t want[] = {head, 0x1234567, head,     0x1234567, 0xabcdef,
                                 head, 0x1234567, 0xabcdef, 3,         0xfffff};
        assert_memory_equal(b.host[OUT], want, sizeof want);
        assert_int_equal(b.host[OUT][10], 0xdeadbeef);
        bench_close(&b);
    }
}

// As in AMD's example with one core: the shim's DMA leaves the headers of answers out.
static void answers_without_headers(void ** state) {
    (void) state;
    for (int i = 0; i < N_MACHINES; i++) {
        struct bench b;
        open_machine(&b, i);
        ways(&b, 2, false, true);
        for (uint32_t w = 0; w < 8; w++) {
            cdo_write(&b.cdo, REG(0, 2, 0x440 + 4 * w), 8 + w);
        }
        receive(&b, 8);
        uint32_t at = 0;
        send(&b, &at, (uint32_t[]){control_header(OP_READ, 0x440, 4, BACK)}, 1);
        send(&b, &at, (uint32_t[]){control_header(OP_READ, 0x450, 4, BACK)}, 1);
        txn_sync(&b.txn, 0, false, 0);
        run_ok(&b);
        for (uint32_t w = 0; w < 8; w++) {
            assert_int_equal(b.host[OUT][w], 8 + w);
        }
        bench_close(&b);
    }
}

// A descriptor of the shim is written and its task started by packets alone: words that the stream
// never pointed at go from B through the memtile.
static void task_is_started(void ** state) {
    (void) state;
    enum { WORDS = 64, FROM = 100 };
    struct emu_counters counters[N_MACHINES];
    for (int i = 0; i < N_MACHINES; i++) {
        struct bench b;
        open_machine(&b, i);
        ways(&b, 0, false, true);
        circuit(&b.cdo, 0, 0, SHIM_MM2S1, 13);
        circuit(&b.cdo, 0, 1, 8, 0);
        circuit(&b.cdo, 0, 1, 0, 8);
        circuit(&b.cdo, 0, 0, 15, SHIM_S2MM1);
        loop_memtile(&b, 0, WORDS, (struct bd_desc){.length = WORDS, .address = 0x20000});
        struct shim_desc d = {.length = WORDS, .operand = OUT, .token = true};
        txn_transfer(&b.txn, 0, false, 1, 2, &d);
        uint64_t from = host_base[B] + 4 * FROM;
        const uint32_t low[] = {control_header(OP_WRITE, 0x1d0a0, 4, 0), WORDS, (uint32_t) from,
                                (uint32_t) (from >> 32), 0};
        const uint32_t high[] = {control_header(OP_WRITE, 0x1d0b0, 4, 0), 0x80000000, 0x02000000, 0,
                                 0x02000000};
        const uint32_t queue[] = {control_header(OP_WRITE, 0x1d21c, 1, 0), 5};
        uint32_t at = 0;
        send(&b, &at, low, 5);
        send(&b, &at, high, 5);
        send(&b, &at, queue, 2);
        txn_sync(&b.txn, 0, false, 1);
        run_ok(&b);
        for (uint32_t w = 0; w < WORDS; w++) {
            assert_int_equal(b.host[OUT][w], pattern(B, FROM + w));
        }
        emu_machine_counters(b.machine, &counters[i]);
        bench_close(&b);
    }
    for (int i = 0; i < N_MACHINES; i += 2) { // in bursts and one by one
        assert_int_equal(counters[i].last_cycles, counters[i + 1].last_cycles);
    }
}

// A memtile's channel waits for a lock that nobody but a packet opens.
static void lock_is_opened(void ** state) {
    (void) state;
    for (int i = 0; i < N_MACHINES; i++) {
        struct bench b;
        open_machine(&b, i);
        ways(&b, 1, false, true);
        circuit(&b.cdo, 0, 1, 0, 8);
        circuit(&b.cdo, 0, 0, 15, SHIM_S2MM1);
        mem_bd(&b.cdo, 0, 0,
               &(struct bd_desc){
                   .length = 2, .address = 0x20000, .acquire = 64 + 7, .acquire_value = -1});
        cdo_write(&b.cdo, REG(0, 1, 0), 11);
        cdo_write(&b.cdo, REG(0, 1, 4), 12);
        push_task(&b.cdo, 0, 1, true, 0, 0);
        struct shim_desc d = {.length = 2, .operand = OUT, .token = true};
        txn_transfer(&b.txn, 0, false, 1, 2, &d);
        uint32_t at = 0;
        send(&b, &at, (uint32_t[]){control_header(OP_WRITE, 4, 1, 0), 13}, 2);
        send(&b, &at, (uint32_t[]){control_header(OP_WRITE, 0xc0070, 1, 0), 1}, 2);
        txn_sync(&b.txn, 0, false, 1);
        run_ok(&b);
        assert_int_equal(b.host[OUT][0], 11);
        assert_int_equal(b.host[OUT][1], 13);
        bench_close(&b);
    }
}

// Two tiles are asked again and again at the same time, and answer over one arbiter to one channel:
// each answer stays in one piece, and none is lost.
static void answers_meet(void ** state) {
    (void) state;
    enum { TIMES = 16, OTHER = 4 };
    for (int i = 0; i < N_MACHINES; i++) {
        struct bench b;
        open_machine(&b, i);
        ways(&b, 2, false, false);
        packet_slave(&b.cdo, 0, 0, SHIM_MM2S1, 0, OTHER, 0x1f, 0, 3);
        packet_master(&b.cdo, 0, 0, 13, 1, 3, false);
        packet_slave(&b.cdo, 0, 1, 8, 0, OTHER, 0x1f, 0, 3);
        packet_master(&b.cdo, 0, 1, control_master[1], 1, 3, false);
        packet_slave(&b.cdo, 0, 1, control_slave[1], 0, BACK, 0x1f, 0, 2);
        for (uint32_t w = 0; w < 4; w++) {
            cdo_write(&b.cdo, REG(0, 1, 0x400 + 4 * w), 0x100 + w);
            cdo_write(&b.cdo, REG(0, 2, 0x400 + 4 * w), 0x200 + w);
        }
        receive(&b, 2 * TIMES * 5);
        b.host[A][0] = control_header(OP_READ, 0x400, 4, BACK);
        for (int channel = 0; channel < 2; channel++) {
            struct shim_desc d = {
                .length = 1, .packet = 1 + (channel ? OTHER : SEND), .operand = A, .repeat = TIMES};
            txn_transfer(&b.txn, 0, true, channel, 2 + channel, &d);
        }
        txn_sync(&b.txn, 0, false, 0);
        run_ok(&b);
        int from[3] = {0, 0, 0};
        for (uint32_t k = 0; k < 2 * TIMES; k++) {
            const uint32_t * got = b.host[OUT] + 5 * k;
            uint32_t row = got[0] >> 16 & 31;
            assert_true(row == 1 || row == 2);
            assert_int_equal(got[0], odd(BACK | row << 16));
            for (uint32_t w = 0; w < 4; w++) {
                assert_int_equal(got[1 + w], 0x100 * row + w);
            }
            from[row]++;
        }
        assert_int_equal(from[1], TIMES);
        assert_int_equal(from[2], TIMES);
        bench_close(&b);
    }
}

// ---- time ----

static uint64_t sent, came; // when MM2S0 was done, when S2MM0 began

static void note(void * user, const struct emu_event * e) {
    (void) user;
    if (e->kind == EMU_EVENT_DMA && e->row == 0) {
        *(e->channel ? &sent : &came) = e->channel ? e->end : e->start;
    }
}

// A port takes a word a cycle, then needs `packet_word` cycles for each register.
static void time_of_reads(void ** state) {
    (void) state;
    for (int i = 0; i < N_MACHINES * 4; i++) {
        struct bench b = {.machine = NULL};
        struct emu_clock clock = *emu_clock_default(machines[i / 4].arch);
        struct emu_config config = bench_config(&b);
        config.arch = machines[i / 4].arch;
        config.single_cycles = machines[i / 4].single;
        config.clock = &clock;
        config.event = note;
        uint32_t words = (uint32_t) i % 4 + 1, at = 0;
        clock.packet_word = (uint8_t) (3 + i);
        assert_true(bench_open(&b, &config));
        b.txn.s.w[0] = machines[i / 4].version;
        ways(&b, 1, false, true);
        receive(&b, words);
        send(&b, &at, (uint32_t[]){control_header(OP_READ, 0x400, words, BACK)}, 1);
        txn_sync(&b.txn, 0, false, 0);
        run_ok(&b);
        // To the memtile and back; the answer's header leaves a cycle behind the last access, and
        // its first word another one behind that. A channel's last word is in the cycle before its
        // end; on streams of two words a cycle it is the second, which the port takes in the next.
        uint64_t hops = 2 * (clock.hop_local + clock.hop_outside);
        uint64_t second = clock.stream_words - 1u;
        assert_int_equal(came - (sent - 1), second + hops + words * clock.packet_word + 2);
        bench_close(&b);
    }
}

// ---- packets behind each other in one transfer ----

static void two_in_one(void ** state) {
    (void) state;
    for (int i = 0; i < N_MACHINES; i++) {
        struct bench b;
        open_machine(&b, i);
        ways(&b, 2, false, true);
        receive(&b, 2);
        uint32_t at = 0;
        const uint32_t both[] = {control_header(OP_WRITE, 0x100, 1, 0), 21, odd(SEND),
                                 control_header(OP_WRITE, 0x104, 1, 0), 22};
        send(&b, &at, both, 5);
        send(&b, &at, (uint32_t[]){control_header(OP_READ, 0x100, 2, BACK)}, 1);
        txn_sync(&b.txn, 0, false, 0);
        if (machines[i].arch == AIE_ARCH_AIE2) {
            expect_error(&b, ST_DEVICE, "goes on behind its last word");
        } else {
            run_ok(&b);
            assert_int_equal(b.host[OUT][0], 21);
            assert_int_equal(b.host[OUT][1], 22);
        }
        bench_close(&b);
    }
}

// ---- what a tile cannot take ----

static void refused(void ** state) {
    (void) state;
#define HEADER(op, address, words) control_header(op, address, words, BACK)
    const struct {
        int row;
        uint32_t n, words[6];
        enum status status;
        const char * text;
    } cases[] = {
        {2,
         2,
         {HEADER(OP_WRITE, 0x440, 1) ^ 1u << 31, 1},
         ST_DEVICE,
         "core tile (0,2) control port: control header 0x82000440 has an even number of ones"},
        {2, 2, {HEADER(OP_WRITE, 0x442, 1), 1}, ST_DEVICE, "0x442 is not a multiple of 4"},
        {1,
         3,
         {HEADER(OP_WRITE, 0xffffc, 2), 1, 2},
         ST_DEVICE,
         "2 words at 0xffffc leave the tile"},
        {0, 2, {HEADER(OP_WRITE, 0x15000, 1), 1}, ST_UNSUPPORTED, "register 0x15000"},
        {2, 3, {HEADER(OP_WRITE, 0x0fffc, 2), 1, 2}, ST_UNSUPPORTED, "register 0x10000"},
        {1, 1, {HEADER(OP_READ, 0x8fffc, 1)}, ST_UNSUPPORTED, "register 0x8fffc"},
        {1, 1, {HEADER(OP_READ, 0x94000, 1)}, ST_UNSUPPORTED, "timer control"},
        {2, 1, {HEADER(OP_READ, 0x1de04, 1)}, ST_UNSUPPORTED, "DMA channel"},
        {2, 2, {HEADER(2, 0x440, 1), 1}, ST_UNSUPPORTED, "operation 2"},
        {2, 2, {HEADER(3, 0x440, 1), 1}, ST_UNSUPPORTED, "operation 3"},
        {2, 2, {HEADER(OP_WRITE, 0x440, 2), 1}, ST_DEVICE, "ends after 1 of 2 words"},
        {2, 1, {HEADER(OP_WRITE, 0x440, 1)}, ST_DEVICE, "ends after 0 of 1 words"},
        {2, 2, {HEADER(OP_READ, 0x440, 1), 1}, ST_DEVICE, "goes on behind its last word"},
        {2, 1, {control_header(OP_READ, 0x440, 1, 32)}, ST_DEVICE, "answer with id 32"},
        {2,
         1,
         {control_header(OP_READ, 0x440, 1, 5)},
         ST_DEVICE,
         "control port (0,2) answers with id 5, at tile (0,2) port 3 no packet slot"},
        {0, 1, {control_header(OP_READ, 0x1d000, 1, 15)}, ST_DEVICE, "would be taken for a token"},
        {2, 2, {HEADER(OP_WRITE, 0x1f008, 1), 1}, ST_DEVICE, "lock 0"},
        {2, 2, {HEADER(OP_WRITE, 0x1de04, 1), 0x40}, ST_DEVICE, "bits that have no meaning"},
    };
    for (size_t i = 0; i < N_MACHINES * sizeof cases / sizeof cases[0]; i++) {
        struct bench b;
        size_t k = i / N_MACHINES;
        open_machine(&b, i % N_MACHINES);
        ways(&b, cases[k].row, false, true);
        receive(&b, 1);
        uint32_t at = 0;
        send(&b, &at, cases[k].words, cases[k].n);
        txn_sync(&b.txn, 0, false, 0);
        expect_error(&b, cases[k].status, cases[k].text);
        bench_close(&b);
    }
}

// Ways on which a packet does not come with both of its headers.
static void broken_ways(void ** state) {
    (void) state;
    for (int i = 0; i < N_MACHINES; i++) {
        struct bench b;
        open_machine(&b, i);
        ways(&b, 1, true, true);
        uint32_t at = 0;
        const uint32_t words[] = {control_header(OP_WRITE, 0x400, 1, 0), 1};
        send(&b, &at, words, 2);
        expect_error(&b, ST_DEVICE, "a control port needs the packet's header");
        bench_close(&b);

        open_machine(&b, i); // a circuit, on which the sender has to write it
        shim_ends(&b.cdo, 0, true);
        circuit(&b.cdo, 0, 0, SHIM_MM2S0, 12);
        circuit(&b.cdo, 0, 1, 7, 6);
        at = 0;
        b.host[A][0] = odd(SEND) ^ 1;
        b.host[A][1] = words[0];
        b.host[A][2] = 1;
        struct shim_desc d = {.length = 3, .operand = A, .token = true};
        txn_transfer(&b.txn, 0, true, 0, 0, &d);
        txn_sync(&b.txn, 0, true, 0);
        expect_error(&b, ST_DEVICE, "packet header 0x00000000 has an even number of ones");
        bench_close(&b);

        open_machine(&b, i); // half a packet, from a memtile whose descriptor does not end it
        shim_ends(&b.cdo, 0, true);
        circuit(&b.cdo, 0, 1, 0, 11);
        circuit(&b.cdo, 0, 2, 5, 3);
        cdo_write(&b.cdo, REG(0, 1, 0), odd(SEND));
        cdo_write(&b.cdo, REG(0, 1, 4), control_header(OP_WRITE, 0x400, 3, 0));
        mem_bd(&b.cdo, 0, 0, &(struct bd_desc){.length = 2, .address = 0x20000, .no_tlast = true});
        push_task(&b.cdo, 0, 1, true, 0, 0);
        receive(&b, 1);
        txn_sync(&b.txn, 0, false, 0);
        expect_error(&b, ST_DEVICE, "control port (0,2) waits for 3 more words of a packet");
        bench_close(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_and_read), cmocka_unit_test(answers_without_headers),
        cmocka_unit_test(answers_meet),     cmocka_unit_test(task_is_started),
        cmocka_unit_test(lock_is_opened),   cmocka_unit_test(two_in_one),
        cmocka_unit_test(time_of_reads),    cmocka_unit_test(refused),
        cmocka_unit_test(broken_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

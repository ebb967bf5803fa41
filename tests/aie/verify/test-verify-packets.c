// test-verify-packets: streams to control ports. One kernel that is right, if it is ours: a shim's
// packets reach a memtile's control port, by the id that its descriptor puts on. Then the same by
// others, and with one thing that is not right.
#include "hostile.h"

enum { ID = 1, SHIM_NORTH = 12, MEM_SOUTH_IN = 7, MEM_NORTH_IN = 13, MEM_CONTROL = 6 };
#define PACKETS  0xc0000000u
#define CIRCUIT  0x80000000u
#define DROP     0x80u
#define ARBITER  1u
#define SELECT_0 (1u << 3)

enum wrong {
    NOTHING,
    FOREIGN,
    NO_HEADER,   // in the shim's descriptor
    DROPPED,     // by the switch
    BY_CIRCUIT,  // at the control port
    BY_CORE,     // a core's own stream has a way there
    BY_TRACE,    // a memtile's trace
    BY_ANSWER,   // the control port's own packets
    CORE_DMA,    // a core's channel, which puts its header on: this is right
    CORE_PLAIN,  // and does not
    THROUGH_FIFO // a core's stream, by way of its switch's FIFO
};

static void port(struct array * a, int row, bool master, int i, uint32_t value) {
    uint32_t base = row == 0   ? (master ? SHIM_MASTER : SHIM_SLAVE)
                    : row == 1 ? (master ? MEM_MASTER : MEM_SLAVE)
                               : (master ? CORE_MASTER : CORE_SLAVE);
    cdo_write(&a->setup, image_addr(0, row, base + 4 * (uint32_t) i), value);
}

// Packets with any id that the mask lets through go from a slave to the arbiter of `out`.
static void slave(struct array * a, int row, int i, uint32_t id, uint32_t mask, uint32_t arbiter) {
    uint32_t base = (row == 1 ? 0xb0200u : 0x3f200u) + 0x10 * (uint32_t) i;
    port(a, row, false, i, PACKETS);
    cdo_write(&a->setup, image_addr(0, row, base), id << 24 | mask << 16 | 0x100 | arbiter);
}

static enum status run(enum wrong w) {
    struct array a;
    uint8_t * image;
    size_t size;
    array_begin(&a, arch);
    array_token_route(&a, 0);
    array_route(&a, (struct array_port){0, 2, 0}, &(struct array_port){0, 0, 0}, 1);
    array_write_switches(&a);
    cdo_mask_write(&a.setup, image_addr(0, 0, SHIM_MUX), 3u << 10, 1u << 10);
    slave(&a, 0, 5, ID, 0x1f, ARBITER);
    port(&a, 0, true, SHIM_NORTH, PACKETS | SELECT_0 | ARBITER);
    slave(&a, 1, MEM_SOUTH_IN, ID, 0x1f, ARBITER);
    port(&a, 1, true, MEM_CONTROL,
         w == BY_CIRCUIT ? CIRCUIT | MEM_SOUTH_IN
                         : PACKETS | SELECT_0 | ARBITER | (w == DROPPED ? DROP : 0));
    if (w == BY_CORE || w == CORE_DMA || w == CORE_PLAIN || w == THROUGH_FIFO) {
        // to South 1, below which the memtile takes it from North 1
        int from = w == BY_CORE ? 0 : w == THROUGH_FIFO ? 4 : 2;
        slave(&a, 2, from, 0, 0, 2);
        port(&a, 2, true, 6, PACKETS | SELECT_0 | 2);
        slave(&a, 1, MEM_NORTH_IN + 1, 0, 0, ARBITER);
    }
    if (w == THROUGH_FIFO) {
        port(&a, 2, false, 0, CIRCUIT);
        port(&a, 2, true, 4, CIRCUIT);
    }
    if (w == BY_TRACE || w == BY_ANSWER) {
        slave(&a, 1, w == BY_TRACE ? 17 : MEM_CONTROL, 9, 0x1f, ARBITER);
    }
    assert_int_equal(
        pdi_write((struct cdo[]){a.programs, a.setup, a.enable}, 3, &image, &size, NULL), ST_OK);
    cdo_free(&a.programs);
    cdo_free(&a.setup);
    cdo_free(&a.enable);

    struct txn t;
    begin(&t);
    struct array_bd d = plain(N);
    put_words(&t, 0, &d, 2, 0, w == NO_HEADER ? 0 : 1u << 30 | ID << 19);
    txn_patch_address(&t, bd_at(0, 1), A, 0);
    start(&t, true, 0, 1);
    if (w == CORE_DMA || w == CORE_PLAIN) {
        uint32_t words[6];
        array_core_bd(&d, words);
        words[1] |= w == CORE_DMA ? 1u << 30 : 0;
        txn_block_write(&t, image_addr(0, 2, CORE_BD), words, 6);
        txn_write(&t, image_addr(0, 2, CORE_MM2S_QUEUE + 8), array_queue_word(0, 1, false));
    }
    take(&t);
    uint32_t * insts;
    size_t n;
    struct error err = {0};
    assert_int_equal(txn_end(&t, &insts, &n, &err), ST_OK);
    const struct verify_operand operands[] = {
        {BYTES, VERIFY_IN}, {BYTES, VERIFY_IN}, {BYTES, VERIFY_OUT}};
    struct verify_job job = {.arch = arch,
                             .pdi = image,
                             .pdi_size = size,
                             .insts = (const uint8_t *) insts,
                             .insts_size = n * 4,
                             .operands = operands,
                             .n_operands = 3,
                             .own = w != FOREIGN};
    enum status st = aie_verify(&job, &err);
    memcpy(said, err.text, sizeof err.text);
    if (w == FOREIGN) { // nor the PDI by itself
        assert_int_equal(aie_verify_pdi(arch, 0, image, size, NULL), ST_CORRUPT);
    }
    free(insts);
    free(image);
    return st;
}

static void test_ways(void ** state) {
    (void) state;
    static const struct {
        enum wrong wrong;
        const char * words; // NULL: it passes
    } cases[] = {
        {NOTHING, NULL},
        {CORE_DMA, NULL},
        {FOREIGN, "packets are led to the control port of memtile (0,1): which registers they "
                  "write stands in memory"},
        {NO_HEADER, "MM2S0 of shim (0,0), which leads to a control port, is started with "
                    "descriptor 0, whose first word"},
        {DROPPED, "without their headers"},
        {BY_CIRCUIT, "a stream is led to the control port of memtile (0,1)"},
        {BY_CORE, "the core of core (0,2) can send packets to the control port of memtile (0,1)"},
        {BY_TRACE, "the trace of memtile (0,1) can send packets"},
        {BY_ANSWER, "the control port of memtile (0,1) can send packets"},
        {CORE_PLAIN, "MM2S1 of core (0,2), which leads to a control port"},
        {THROUGH_FIFO, "the core of core (0,2) can send packets"},
    };
    for (int i = 0; i < AIE_ARCH_COUNT; i++) {
        arch = (enum aie_arch) i;
        for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
            enum status st = run(cases[k].wrong);
            if (cases[k].words) {
                check_said(st, cases[k].words);
            } else if (st != ST_OK) {
                fail_msg("case %zu: %s", k, said);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ways)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// fuzz-machine: arbitrary bytes as what the emulated NPU gets: a PDI and an instruction stream. The
// machine ends every dispatch within its cycles, touches only the memory that it was given, and
// runs the next dispatch as if nothing had been.
#include "dispatch.h"

#include "emu/aie/machine.h"

const int fuzz_rounds = 40;
const int fuzz_longest = 4096;

enum { OPERANDS = 4, OPERAND_BYTES = 64 * 1024, MAX_CYCLES = 2500 };
#define BASE_ADDRESS UINT64_C(0x400000000000) // of operand 0; the others follow, with gaps

static uint8_t memory[OPERANDS][OPERAND_BYTES];

static uint64_t address(int operand) {
    return BASE_ADDRESS + (uint64_t) operand * 2 * OPERAND_BYTES;
}

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) user, (void) write;
    for (int i = 0; i < OPERANDS; i++) {
        uint64_t at = addr - address(i);
        if (addr >= address(i) && at <= OPERAND_BYTES && len <= OPERAND_BYTES - at) {
            return memory[i] + at;
        }
    }
    return NULL;
}

// One for all inputs: after a dispatch that failed it is as after power-on.
static struct emu_machine * machine(void) {
    static struct emu_machine * m;
    struct emu_config config = {.arch = ARCH,
                                .columns = 4,
                                .resolve = resolve,
                                .max_cycles = MAX_CYCLES,
                                .threads = 1, // designs without locks do the same each time
                                .trace_col = -1,
                                .trace_row = -1};
    if (!m && emu_machine_new(&config, &m, NULL) != ST_OK) {
        abort();
    }
    struct error err;
    if (emu_machine_run(m, NULL, 0, NULL, 0, NULL, 0, &err) == ST_OK) {
        abort(); // nothing is no PDI
    }
    return m;
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    struct dispatch d;
    if (!dispatch_read(data, size, &d)) {
        return 0;
    }
    memset(memory, 0, sizeof memory);
    struct emu_operand operands[OPERANDS];
    for (int i = 0; i < OPERANDS; i++) {
        operands[i] = (struct emu_operand){address(i), OPERAND_BYTES};
    }
    struct emu_machine * m = machine();
    // A second dispatch meets what the first one left behind: after a failure, which is nothing,
    // that is looked at now and then.
    enum status st = ST_OK;
    for (int i = 0; i < 2 && (st == ST_OK || size % 8 == 0); i++) {
        struct error err = {0};
        st = emu_machine_run(m, d.pdi, d.pdi_size, d.insts, d.n_insts, operands, OPERANDS, &err);
        if (st != ST_OK && !err.text[0]) {
            abort(); // an error says why
        }
    }
    free(d.insts);
    free(d.pdi);
    return 0;
}

// A memtile that sends control packets to itself, out of its memory: one that writes four words,
// one that reads them, and the way of the answer.
static void packet_seed(uint8_t ** data, size_t * size) {
    enum { MEM = 1, SEND = 1, BACK = 2 };
    static const uint32_t packets[] = {0x00300400, 1, 2, 3, 4, 0x02700400}; // odd parity
    static const uint32_t bds[][8] = {
        {5u | 1u << 31 | SEND << 23, 0x20000 | 1u << 19 | 1u << 20, 0, 0, 0, 0, 0, 1u << 31},
        {1u | 1u << 31 | SEND << 23, 0x20005, 0, 0, 0, 0, 0, 1u << 31},
        {5, 0x20200, 0, 0, 0, 0, 0, 1u << 31}};
    struct cdo c;
    struct txn t;
    uint8_t * pdi;
    uint32_t * insts;
    size_t pdi_size, n;
    cdo_begin(&c);
    cdo_block_write(&c, image_addr(0, MEM, 0), packets, sizeof packets / 4);
    cdo_block_write(&c, image_addr(0, MEM, MEM_BD), bds[0], sizeof bds / 4);
    cdo_write(&c, image_addr(0, MEM, MEM_SLAVE), 0xc0000000); // MM2S0 to the control port
    cdo_write(&c, image_addr(0, MEM, MEM_SLAVE_SLOT), SEND << 24 | 0x1f0101);
    cdo_write(&c, image_addr(0, MEM, MEM_MASTER + 4 * 6), 0xc0000009);
    cdo_write(&c, image_addr(0, MEM, MEM_SLAVE + 4 * 6), 0xc0000000); // and from there to S2MM0
    cdo_write(&c, image_addr(0, MEM, MEM_SLAVE_SLOT + 0x10 * 6), BACK << 24 | 0x1f0102);
    cdo_write(&c, image_addr(0, MEM, MEM_MASTER), 0xc000000a);
    cdo_write(&c, image_addr(0, MEM, MEM_S2MM_QUEUE), 2);
    cdo_write(&c, image_addr(0, MEM, MEM_MM2S_QUEUE), 0);
    txn_begin(&t, 1, (int) txn_generation(ARCH));
    txn_write(&t, image_addr(0, MEM, MEM_LOCK), 1);
    if (pdi_write(&c, 1, &pdi, &pdi_size, NULL) != ST_OK ||
        txn_end(&t, &insts, &n, NULL) != ST_OK) {
        abort();
    }
    cdo_free(&c);
    join_bare(pdi, (uint8_t *) insts, n * 4, data, size);
    free(pdi);
    free(insts);
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    if (i == 0) {
        packet_seed(data, size);
        return true;
    }
    return dispatch_seed(i - 1, data, size);
}

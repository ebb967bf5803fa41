// fuzz-machine: arbitrary bytes as what the emulated NPU gets: a PDI and an instruction stream. The
// machine ends every dispatch within its cycles, touches only the memory that it was given, and
// runs the next dispatch as if nothing had been. Input: the PDI's size (4 bytes), the PDI, the
// stream.
#include "fuzz.h"

#include "aie/image/image.h"
#include "emu/aie/machine.h"

#include <stdlib.h>
#include <string.h>

const int fuzz_rounds = 60;

enum { OPERANDS = 4, OPERAND_BYTES = 256 * 1024, MAX_CYCLES = 40000 };
#define BASE_ADDRESS UINT64_C(0x400000000000) // of operand 0; the others follow, with gaps

struct memory {
    uint8_t bytes[OPERANDS][OPERAND_BYTES];
};

static uint64_t address(int operand) {
    return BASE_ADDRESS + (uint64_t) operand * 2 * OPERAND_BYTES;
}

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    struct memory * m = user;
    (void) write;
    for (int i = 0; i < OPERANDS; i++) {
        uint64_t at = addr - address(i);
        if (addr >= address(i) && at <= OPERAND_BYTES && len <= OPERAND_BYTES - at) {
            return m->bytes[i] + at;
        }
    }
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    if (size < 4) {
        return 0;
    }
    size_t pdi_size = load_u32(data);
    data += 4;
    size -= 4;
    if (pdi_size > size) {
        pdi_size = size;
    }
    // The stream arrives as aligned words, as in the queue's packet; copies are exact for a
    // sanitizer.
    size_t n_insts = (size - pdi_size) / 4;
    uint8_t * pdi = malloc(pdi_size ? pdi_size : 1);
    uint32_t * insts = malloc(n_insts ? n_insts * 4 : 1);
    struct memory * memory = calloc(1, sizeof *memory);
    if (!pdi || !insts || !memory) {
        abort();
    }
    memcpy(pdi, data, pdi_size);
    memcpy(insts, data + pdi_size, n_insts * 4);

    struct emu_config config = {.arch = AIE_ARCH_AIE2,
                                .columns = 4,
                                .resolve = resolve,
                                .user = memory,
                                .max_cycles = MAX_CYCLES,
                                .threads = 1, // designs without locks do the same each time
                                .trace_col = -1,
                                .trace_row = -1};
    struct emu_operand operands[OPERANDS];
    for (int i = 0; i < OPERANDS; i++) {
        operands[i] = (struct emu_operand){address(i), OPERAND_BYTES};
    }
    struct emu_machine * m;
    struct error err;
    if (emu_machine_new(&config, &m, &err) != ST_OK) {
        abort();
    }
    for (int i = 0; i < 2; i++) { // a second dispatch meets what the first one left behind
        err = (struct error){0};
        enum status st =
            emu_machine_run(m, pdi, pdi_size, insts, n_insts, operands, OPERANDS, &err);
        if (st != ST_OK && !err.text[0]) {
            abort(); // an error says why
        }
    }
    emu_machine_free(m);
    free(memory);
    free(insts);
    free(pdi);
    return 0;
}

static void join(const uint8_t * pdi, size_t pdi_size, const uint8_t * insts, size_t insts_size,
                 uint8_t ** data, size_t * size) {
    *size = 4 + pdi_size + insts_size;
    *data = malloc(*size);
    if (!*data) {
        abort();
    }
    store_u32(*data, (uint32_t) pdi_size);
    memcpy(*data + 4, pdi, pdi_size);
    memcpy(*data + 4 + pdi_size, insts, insts_size);
}

// From the host through the switches of column 0 and back, no core: BDs, queues, patches and a
// token.
static void loop_seed(uint8_t ** data, size_t * size) {
    struct cdo c;
    cdo_begin(&c);
    cdo_write(&c, image_addr(0, 0, 0x3f010), 0x80000005); // master S2 <- slave S3
    cdo_write(&c, image_addr(0, 0, 0x3f10c + 8), 0x80000000);
    cdo_write(&c, image_addr(0, 0, 0x3f008), 0xc0000045); // the token's way out
    cdo_write(&c, image_addr(0, 0, 0x3f100), 0xc0000000);
    cdo_write(&c, image_addr(0, 0, 0x3f200), 0x0f1f0135);
    cdo_mask_write(&c, image_addr(0, 0, 0x1f000), 0xc00, 0x400);
    cdo_mask_write(&c, image_addr(0, 0, 0x1f004), 0x30, 0x10);
    uint8_t * pdi;
    size_t pdi_size, n;
    if (pdi_write(&c, 1, &pdi, &pdi_size, NULL) != ST_OK) {
        abort();
    }
    cdo_free(&c);
    static const uint32_t bd[8] = {64, 0, 0, 0, 0x80000000, 0x02000000, 0, 0x02000000};
    struct txn t;
    uint32_t * insts;
    txn_begin(&t, 4, 3);
    for (uint32_t i = 0; i < 2; i++) {
        txn_block_write(&t, 0x1d000 + 0x20 * i, bd, 8);
        txn_patch_address(&t, 0x1d004 + 0x20 * i, (int) i, 0);
    }
    txn_mask_write(&t, 0x1d200, 0x1f00, 0xf00);
    txn_write(&t, 0x1d204, 0x80000001);
    txn_write(&t, 0x1d214, 0);
    txn_wait(&t, 0, 0, 0, 0);
    if (txn_end(&t, &insts, &n, NULL) != ST_OK) {
        abort();
    }
    join(pdi, pdi_size, (uint8_t *) insts, n * 4, data, size);
    free(pdi);
    free(insts);
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const names[] = {"single-add", "fused-add-add", "gemm-i16-256-1core"};
    if (i == 0) {
        loop_seed(data, size);
        return true;
    }
    if (i - 1 >= (int) (sizeof names / sizeof names[0])) {
        return false;
    }
    struct buf path = {0};
    uint8_t *pdi, *insts;
    size_t pdi_size, insts_size;
    buf_printf(&path, "%s/aie2-kernels/%s.pdi", GOLDEN_DIR, names[i - 1]);
    fuzz_golden((char *) path.data, &pdi, &pdi_size);
    path.size = 0;
    buf_printf(&path, "%s/aie2-kernels/%s_insts.bin", GOLDEN_DIR, names[i - 1]);
    fuzz_golden((char *) path.data, &insts, &insts_size);
    *data = NULL;
    if (pdi && insts) {
        join(pdi, pdi_size, insts, insts_size, data, size);
    }
    buf_free(&path);
    free(pdi);
    free(insts);
    return true;
}

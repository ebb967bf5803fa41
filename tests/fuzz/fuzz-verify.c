// fuzz-verify: the verifier against the emulator, which have nothing in common: what the verifier
// passes, the emulator never stops for leaving the array, a tile's memory or an operand, and never
// writes to an operand that is only read.
#include "dispatch.h"

#include "aie/verify/verify.h"
#include "emu/aie/machine.h"

const int fuzz_rounds = 40;
const int fuzz_longest = 4096;

enum { OPERANDS = 4, OPERAND_BYTES = 16 * 1024, MAX_CYCLES = 2500, COLUMNS = 4 };
#define BASE_ADDRESS UINT64_C(0x400000000000) // of operand 0; the others follow, with gaps

// What a kernel may declare: a function of one and of two inputs, and anything. An output must be
// written, so that one of them does not fit the kernels of another.
static const struct declared {
    int n;
    struct verify_operand operands[OPERANDS];
} declared[] = {
    {2, {{OPERAND_BYTES, VERIFY_IN}, {OPERAND_BYTES, VERIFY_OUT}}},
    {3, {{OPERAND_BYTES, VERIFY_IN}, {OPERAND_BYTES, VERIFY_IN}, {OPERAND_BYTES, VERIFY_OUT}}},
    {4,
     {{OPERAND_BYTES, VERIFY_IN},
      {OPERAND_BYTES, VERIFY_BOTH},
      {OPERAND_BYTES, VERIFY_BOTH},
      {OPERAND_BYTES, VERIFY_BOTH}}},
};
static const struct declared * now;
static uint8_t memory[OPERANDS][OPERAND_BYTES];
static bool strayed; // the machine asked for what the verifier must not have passed

static uint64_t address(int operand) {
    return BASE_ADDRESS + (uint64_t) operand * 2 * OPERAND_BYTES;
}

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) user;
    for (int i = 0; i < now->n; i++) {
        uint64_t at = addr - address(i);
        if (addr >= address(i) && at <= OPERAND_BYTES && len <= OPERAND_BYTES - at) {
            strayed |= !(now->operands[i].access & (write ? VERIFY_OUT : VERIFY_IN));
            return memory[i] + at;
        }
    }
    strayed = true;
    return NULL;
}

static struct emu_machine * machine(void) {
    static struct emu_machine * m;
    struct emu_config config = {.arch = ARCH,
                                .columns = COLUMNS,
                                .resolve = resolve,
                                .max_cycles = MAX_CYCLES,
                                .threads = 1,
                                .trace_col = -1,
                                .trace_row = -1};
    struct error err;
    if ((!m && emu_machine_new(&config, &m, NULL) != ST_OK) ||
        emu_machine_run(m, NULL, 0, NULL, 0, NULL, 0, &err) == ST_OK) {
        abort();
    }
    return m;
}

static bool says_that_it_left(const char * text) {
    static const char * const words[] = {
        "lie in no allocation",         "leave the tile's memory", "outside the array",
        "address of a shim descriptor", "names operand",           "no token route",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strstr(text, words[i])) {
            return true;
        }
    }
    return false;
}

static bool passes(const struct dispatch * d) {
    struct error err = {0};
    struct verify_job job = {.arch = ARCH,
                             .columns = COLUMNS,
                             .pdi = d->pdi,
                             .pdi_size = d->pdi_size,
                             .insts = (const uint8_t *) d->insts,
                             .insts_size = 4 * d->n_insts,
                             .operands = now->operands,
                             .n_operands = now->n};
    enum status st = aie_verify(&job, &err);
    if (st != ST_OK && (st != ST_CORRUPT || !err.text[0])) {
        abort();
    }
    return st == ST_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    struct dispatch d;
    if (!dispatch_read(data, size, &d)) {
        return 0;
    }
    bool passed = false;
    for (size_t i = 0; i < sizeof declared / sizeof declared[0] && !passed; i++) {
        now = &declared[i];
        passed = passes(&d);
    }
    if (passed) {
        struct emu_operand operands[OPERANDS];
        struct error err = {0};
        for (int i = 0; i < now->n; i++) {
            operands[i] = (struct emu_operand){address(i), OPERAND_BYTES};
        }
        struct emu_machine * m = machine();
        strayed = false;
        emu_machine_run(m, d.pdi, d.pdi_size, d.insts, d.n_insts, operands, now->n, &err);
        if (strayed || says_that_it_left(err.text)) {
            abort();
        }
    }
    free(d.insts);
    free(d.pdi);
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    return dispatch_seed(i, data, size);
}

// What the verifier passes, the emulator never stops for leaving the array, a tile's memory or an
// operand: kernels of our compiler in which a few words are changed, so that most are still
// something. The two know nothing of each other. The first argument says how many (600 without
// one), the second where the numbers begin.
//
// A kernel that passes may still do nothing useful: cores run into garbage, locks are waited for in
// vain. That is not looked at here.
#include "aie/verify/verify.h"

#include "aie/aie.h"
#include "base/cmocka-all.h"
#include "emu/aie/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 3, ROOM = 1 << 16, MAX_CYCLES = 100000, CONFIGURATION_WORDS = 4000 };
#define BASE_ADDRESS UINT64_C(0x400000000000) // of operand 0; the others follow, with gaps

static unsigned long asked = 600;
static uint64_t state = 88172645463325252;

static uint32_t below(uint32_t n) { // xorshift
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t) (state >> 16) % n;
}

// ---- the machine's memory ----

static struct verify_operand operands[VERIFY_KERNEL_OPERANDS];
static uint8_t memory[OPERANDS][ROOM];
static bool strayed;

static uint64_t address(int operand) {
    return BASE_ADDRESS + (uint64_t) operand * 0x10000000;
}

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) user;
    for (int i = 0; i < OPERANDS; i++) {
        uint64_t at = addr - address(i), room = (operands[i].bytes + 3) / 4 * 4;
        if (addr >= address(i) && at <= room && len <= room - at) {
            strayed |= !(operands[i].access & (write ? VERIFY_OUT : VERIFY_IN));
            return memory[i] + at;
        }
    }
    strayed = true;
    return NULL;
}

static bool says_that_it_left(const char * text) {
    static const char * const words[] = {
        "lie in no allocation",
        "leave the tile's memory",
        "outside the array",
        "address of a shim descriptor",
        "names operand",
        "no token route",
        "lock that does not exist",
        "cannot use that descriptor",
        "is not modelled",
        "are not modelled",
        "waits for a channel outside",
    };
    bool left = false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        left |= strstr(text, words[i]) != NULL;
    }
    return left;
}

// ---- kernels ----

static struct kernel_spec spec_of(int which, enum aie_arch arch) {
    static const struct {
        enum kernel_op op;
        enum dtype in, out;
        int64_t a[2], b[2], c[2];
    } kinds[] = {
        {KERNEL_OP_ADD, DTYPE_F32, DTYPE_F32, {1024, 1}, {1024, 1}, {1024, 1}},
        {KERNEL_OP_ADD, DTYPE_I16, DTYPE_I16, {34, 5}, {34, 1}, {34, 5}},
        {KERNEL_OP_MUL_MAT, DTYPE_BF16, DTYPE_F32, {64, 40}, {64, 33}, {40, 33}},
    };
    const int64_t *a = kinds[which].a, *b = kinds[which].b, *c = kinds[which].c;
    return (struct kernel_spec){
        .op = kinds[which].op,
        .arch = arch,
        .n_inputs = 2,
        .inputs = {tensor_contiguous(kinds[which].in, (const int64_t[4]){a[0], a[1], 1, 1}),
                   tensor_contiguous(kinds[which].in, (const int64_t[4]){b[0], b[1], 1, 1})},
        .output = tensor_contiguous(kinds[which].out, (const int64_t[4]){c[0], c[1], 1, 1}),
    };
}
enum { KINDS = 3 };

// One word: a bit, one more or less, another one's value, or a field of ten bits.
static void change(uint8_t * words, size_t first, size_t n) {
    uint8_t * at = words + 4 * (first + below((uint32_t) n));
    uint32_t w = load_u32(at), shift = below(23);
    switch (below(5)) {
    case 0:
        w ^= 1u << below(32);
        break;
    case 1:
        w++;
        break;
    case 2:
        w--;
        break;
    case 3:
        w = load_u32(words + 4 * (first + below((uint32_t) n)));
        break;
    default:
        w = (w & ~(0x3ffu << shift)) | below(0x400) << shift;
    }
    store_u32(at, w);
}

// In the stream, or in the PDI behind the programs, where the array is set up.
static void mutate(struct kernel_code * code) {
    for (uint32_t i = below(3) + 1; i > 0; i--) {
        if (below(3) == 0) {
            size_t words = code->pdi_size / 4, n = words - 0x164 / 4;
            n = n < CONFIGURATION_WORDS ? n : CONFIGURATION_WORDS;
            change(code->pdi, words - n, n);
        } else {
            change((uint8_t *) code->insts, 4, code->n_insts - 4);
        }
    }
}

static void run_on(enum aie_arch arch) {
    struct kernel_code kernels[KINDS], code;
    unsigned long passed = 0, ended = 0;
    struct emu_machine * m;
    struct error err = {0};
    struct emu_config config = {.arch = arch,
                                .columns = arch == AIE_ARCH_AIE2 ? 4 : 8,
                                .resolve = resolve,
                                .max_cycles = MAX_CYCLES,
                                .threads = 1,
                                .trace_col = -1,
                                .trace_row = -1};
    assert_int_equal(emu_machine_new(&config, &m, &err), ST_OK);
    for (int i = 0; i < KINDS; i++) {
        struct kernel_spec spec = spec_of(i, arch);
        assert_int_equal(aie_compile(&spec, &kernels[i], &err), ST_OK);
    }
    for (unsigned long n = 0; n < asked; n++) {
        int kind = (int) below(KINDS);
        struct kernel_spec spec = spec_of(kind, arch);
        code = kernels[kind];
        code.pdi = memcpy(malloc(code.pdi_size), code.pdi, code.pdi_size);
        code.insts = memcpy(malloc(4 * code.n_insts), code.insts, 4 * code.n_insts);
        mutate(&code);
        aie_verify_operands(&spec, operands);
        if (aie_verify_files(&spec, code.pdi, code.pdi_size, (const uint8_t *) code.insts,
                             4 * code.n_insts, &err) == ST_OK) {
            struct emu_operand given[OPERANDS];
            for (int i = 0; i < OPERANDS; i++) {
                given[i] = (struct emu_operand){address(i), operands[i].bytes};
            }
            strayed = false;
            err = (struct error){0};
            enum status st = emu_machine_run(m, code.pdi, code.pdi_size, code.insts, code.n_insts,
                                             given, OPERANDS, &err);
            if (strayed || (st != ST_OK && says_that_it_left(err.text))) {
                fail_msg("%s, input %lu: %s", kernel_arch_name(arch), n, err.text);
            }
            passed++;
            ended += st == ST_OK;
        }
        kernel_code_free(&code);
    }
    printf("%s: of %lu changed kernels %lu pass, and stay where they may be; %lu run to the end\n",
           kernel_arch_name(arch), asked, passed, ended);
    assert_true(asked < 100 || passed > asked / 10); // else nothing was shown
    for (int i = 0; i < KINDS; i++) {
        kernel_code_free(&kernels[i]);
    }
    emu_machine_free(m);
}

static void test_aie2(void ** user) {
    (void) user;
    run_on(AIE_ARCH_AIE2);
}

static void test_aie2p(void ** user) {
    (void) user;
    run_on(AIE_ARCH_AIE2P);
}

int main(int argc, char ** argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_aie2), cmocka_unit_test(test_aie2p)};
    asked = argc > 1 ? strtoul(argv[1], NULL, 10) : asked;
    state += argc > 2 ? strtoul(argv[2], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) : 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

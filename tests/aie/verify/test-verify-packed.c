// Packed PDIs, as AMD's own overlays are: a kernel of ours in that form is read as the same
// commands, passes the verifier and gives the same bytes on the emulator; and whatever is wrong
// with it, both refuse it, each by its own reader.
#include "aie/verify/verify.h"

#include "aie/aie.h"
#include "aie/image/image.h"
#include "aie/image/packed.h"
#include "base/cmocka-all.h"
#include "emu/aie/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 256, BYTES = 4 * N, OPERANDS = 3, MAX_CYCLES = 100000 };
#define BASE_ADDRESS UINT64_C(0x400000000000)

static enum aie_arch arch;
static struct kernel_spec spec;
static struct kernel_code code;
static struct emu_machine * machine;
static float memory[OPERANDS][N];

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) user;
    (void) write;
    uint64_t at = addr - BASE_ADDRESS;
    return addr >= BASE_ADDRESS && at <= sizeof memory && len <= sizeof memory - at
               ? (uint8_t *) memory + at
               : NULL;
}

static int set_up(void ** state) {
    (void) state;
    struct tensor t = tensor_contiguous(DTYPE_F32, (const int64_t[4]){N, 1, 1, 1});
    struct emu_config config = {.arch = arch,
                                .columns = arch == AIE_ARCH_AIE2 ? 4 : 8,
                                .resolve = resolve,
                                .max_cycles = MAX_CYCLES,
                                .threads = 1,
                                .trace_col = -1,
                                .trace_row = -1};
    spec = (struct kernel_spec){.op = KERNEL_OP_ADD,
                                .arch = arch,
                                .columns = 1,
                                .n_inputs = 2,
                                .inputs = {t, t},
                                .output = t};
    return aie_compile(&spec, &code, NULL) != ST_OK ||
           emu_machine_new(&config, &machine, NULL) != ST_OK;
}

static int tear_down(void ** state) {
    (void) state;
    kernel_code_free(&code);
    emu_machine_free(machine);
    return 0;
}

// What the emulator makes of it.
static enum status run(const uint8_t * pdi, size_t size, struct error * err) {
    struct emu_operand operands[OPERANDS];
    for (int i = 0; i < OPERANDS; i++) {
        operands[i] = (struct emu_operand){BASE_ADDRESS + (uint64_t) i * BYTES, BYTES};
    }
    for (int i = 0; i < N; i++) {
        memory[0][i] = (float) i;
        memory[1][i] = 0.5f;
        memory[2][i] = -1;
    }
    return emu_machine_run(machine, pdi, size, code.insts, code.n_insts, operands, OPERANDS, err);
}

static enum status verify(const uint8_t * pdi, size_t size, struct error * err) {
    return aie_verify_files(&spec, pdi, size, (const uint8_t *) code.insts, 4 * code.n_insts, err);
}

// A copy of exactly its bytes, for a sanitizer.
static uint8_t * exact(const uint8_t * bytes, size_t size) {
    return memcpy(malloc(size ? size : 1), bytes, size);
}

// ---- right ones ----

struct list {
    struct buf text;
    uint32_t missing;
};

// A line a command, without what only the form makes.
static bool note(void * user, const struct image_command * c) {
    struct list * l = user;
    if (c->op != IMAGE_NOP) {
        buf_printf(&l->text, "%d %x %x %x %u", c->op, c->addr, c->mask, c->value, c->n_words);
        for (uint32_t i = 0; i < c->n_words; i++) {
            buf_printf(&l->text, " %x", load_u32(c->data + 4 * i));
        }
        buf_printf(&l->text, "\n");
    }
    l->missing += c->missing;
    return true;
}

static void test_same(void ** state) {
    (void) state;
    struct list plain = {0}, packed = {0};
    struct error err = {0};
    struct pdi_packing packing;
    size_t size;
    uint8_t * made = packed_make(code.pdi, false, &size);
    assert_int_equal(pdi_read(code.pdi, code.pdi_size, note, &plain, &err), ST_OK);
    assert_int_equal(pdi_read(made, size, note, &packed, &err), ST_OK);
    assert_string_equal((char *) plain.text.data, (char *) packed.text.data);
    assert_int_equal(packed.missing, 0);
    assert_true(pdi_packing(made, size, &packing) && packing.missing == 0);
    assert_false(pdi_packing(code.pdi, code.pdi_size, &packing));
    if (verify(made, size, &err) != ST_OK || run(made, size, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    for (int i = 0; i < N; i++) {
        assert_true(memory[2][i] == (float) i + 0.5f);
    }
    struct emu_counters before, after; // it is resident, and a plain one is another
    emu_machine_counters(machine, &before);
    assert_int_equal(run(made, size, &err), ST_OK);
    assert_int_equal(run(code.pdi, code.pdi_size, &err), ST_OK);
    emu_machine_counters(machine, &after);
    assert_int_equal(after.pdi_loads - before.pdi_loads, 1);
    buf_free(&plain.text);
    buf_free(&packed.text);
    free(made);
}

// As the vendor's tool leaves them: shown as far as they go, with what is missing; never run.
static void test_cut(void ** state) {
    (void) state;
    struct list seen = {0};
    struct error err = {0};
    struct pdi_packing packing;
    size_t size;
    uint8_t *made = packed_make(code.pdi, true, &size), *copy = exact(made, size);
    assert_int_equal(pdi_read(copy, size, note, &seen, &err), ST_OK);
    assert_int_equal(seen.missing, 5);
    assert_true(pdi_packing(copy, size, &packing) && packing.missing == PACKED_SHORT);
    assert_int_equal(verify(copy, size, &err), ST_CORRUPT);
    assert_non_null(strstr(err.text, "the file ends before its last "));
    assert_int_equal(run(copy, size, &err), ST_CORRUPT);
    assert_non_null(strstr(err.text, "AMD's packer leaves the last 20 out"));
    buf_free(&seen.text);
    free(made);
    free(copy);
}

// ---- wrong ones ----

// Where the first run of a command begins.
static size_t run_of(const uint8_t * pdi, uint32_t id) {
    static const uint32_t words[] = {[2] = 3, [3] = 2, [5] = 4};
    size_t at = PACKED_COMMANDS, end = at + load_u32(pdi + 0x144);
    while (at < end && load_u32(pdi + at) != id) {
        at += 8 + 4 * (size_t) load_u32(pdi + at + 4) * words[load_u32(pdi + at)];
    }
    assert_true(at < end);
    return at;
}

enum { WRITES = 3, MASKS = 2, BLOCKS = 5 };

// A word of the first run of a kind: 0 its command, 1 its count, from 2 on the first item's. `add`:
// to what stands there.
static const struct fault {
    uint32_t run, word, value;
    bool add;
    const char *reader, *emulator; // words of the refusals
} faults[] = {
    {WRITES, 0, 4, 0, "packed CDO command 0x4", "unknown packed command 0x4"},
    {WRITES, 0, 0x103, 0, "packed CDO command 0x103", "unknown packed command 0x103"},
    {WRITES, 0, 0x11, 0, "packed CDO command 0x11", "unknown packed command 0x11"},
    {WRITES, 1, 0, 0, "a run of 0 WRITE", "a run of 0 packed commands"},
    {WRITES, 1, 40000, 0, "a run of 40000 WRITE", "a run of 40000 packed commands"},
    {WRITES, 1, 65536, 0, "a run of 65536 WRITE", "a run of 65536 packed commands"},
    {MASKS, 1, UINT32_MAX, 0, "a run of 4294967295 MASK_WRITE", "a run of 4294967295"},
    {BLOCKS, 1, 0x10000001, 0, "a run of 268435457 DMA_WRITE", "a run of 268435457"},
    {WRITES, 2, 2, 1, "which is no word", "is not a multiple of 4"},
    {WRITES, 2, 60u << 25 | 2u << 20, 0, "column 60, row 2, outside", "column 60, row 2: outside"},
    {WRITES, 2, 11u << 20, 0, "row 11, outside", "row 11: outside"},
    {MASKS, 2, 0xfffff, 0, "which is no word", "is not a multiple of 4"},
    {BLOCKS, 2, 1, 0, "beyond 32 bits", "outside the array"},
    {BLOCKS, 3, 2, 1, "which is no word", "is not a multiple of 4"},
    {BLOCKS, 3, 60u << 25 | 2u << 20, 0, "outside the partition", "outside the array"},
    {BLOCKS, 4, 2, 0, "at byte 0x2 of the data", "at byte 0x2 of the data"},
    {BLOCKS, 4, 0x7ffffffc, 0, "at byte 0x7ffffffc of the data", "truncated"},
    {BLOCKS, 4, 0xfffffffc, 0, "at byte 0xfffffffc of the data", "truncated"},
    {BLOCKS, 5, 0xffff, 0, ": 65535 words at byte", "truncated"},
    {BLOCKS, 5, 0x2000, 0, "register 0x24000 of core (0,2)", "register 0x24000"},
    {BLOCKS, 5, 0x10000, 0, ": 0 words at byte", "has 0 words"},
    {BLOCKS, 5, 0x20000, 1, "flags 0x2 are not known", "flags 0x2"},
    {BLOCKS, 5, 0x10000, 1, "is marked as zeros", "is marked as zeros"},
};

static void check(const uint8_t * pdi, size_t size, size_t which, const char * reader,
                  const char * emulator) {
    struct error err = {0};
    uint8_t * copy = exact(pdi, size);
    if (verify(copy, size, &err) == ST_OK || !strstr(err.text, reader) || !strstr(err.text, "; ")) {
        fail_msg("fault %zu: \"%s\", not \"%s\"", which, err.text, reader);
    }
    if (arch == AIE_ARCH_AIE2) {
        printf("    %s\n", err.text);
    }
    if (run(copy, size, &err) == ST_OK || !strstr(err.text, emulator)) {
        fail_msg("fault %zu: \"%s\", not \"%s\"", which, err.text, emulator);
    }
    free(copy);
}

static void test_faults(void ** state) {
    (void) state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        size_t size;
        uint8_t * pdi = packed_make(code.pdi, false, &size);
        uint8_t * at = pdi + run_of(pdi, faults[i].run) + 4 * (size_t) faults[i].word;
        store_u32(at, faults[i].value + (faults[i].add ? load_u32(at) : 0));
        check(pdi, size, i, faults[i].reader, faults[i].emulator);
        free(pdi);
    }
}

static void set_length(uint8_t * pdi, uint32_t bytes) {
    store_u32(pdi + 0x144, bytes);
    store_u32(pdi + 0x148, 0x8966 | bytes << 16 | bytes >> 16); // a mark that fits
}

static void test_lengths(void ** state) {
    (void) state;
    static const uint32_t lengths[] = {2, 0x00ffff00, 0x7fffff00};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        size_t size;
        uint8_t * pdi = packed_make(code.pdi, false, &size);
        set_length(pdi, load_u32(pdi + 0x144) + lengths[i]);
        check(pdi, size, i, "bytes of packed commands", "bytes of packed commands");
        free(pdi);
    }
    for (uint32_t more = 4; more <= 8; more += 4) { // commands that end in the middle of one
        size_t size;
        uint8_t * pdi = packed_make(code.pdi, false, &size);
        size_t end = PACKED_COMMANDS + load_u32(pdi + 0x144);
        pdi = realloc(pdi, size + more);
        memmove(pdi + end + more, pdi + end, size - end);
        store_u32(pdi + end, WRITES);
        store_u32(pdi + end + 4, more == 8 ? 1 : load_u32(pdi + end + 4));
        set_length(pdi, load_u32(pdi + 0x144) + more);
        check(pdi, size + more, more, more == 8 ? "wants 8 bytes, 0 are left" : "are no command",
              "a run of ");
        free(pdi);
    }
    size_t size; // data that begin in the file and end behind it
    uint8_t * pdi = packed_make(code.pdi, false, &size);
    uint32_t data = (uint32_t) (size - PACKED_COMMANDS - load_u32(pdi + 0x144));
    store_u32(pdi + run_of(pdi, BLOCKS) + 16, data - 4);
    check(pdi, size, 98, "of the data, which has", "truncated");
    free(pdi);
    // a mark that does not fit: firmware takes it for a plain one, which it is not
    pdi = packed_make(code.pdi, false, &size);
    store_u32(pdi + 0x148, load_u32(pdi + 0x148) ^ 0x100);
    check(pdi, size, 99, "PDI", "PDI");
    free(pdi);
}

static bool touch(void * user, const struct image_command * c) {
    uint32_t * sum = user;
    for (uint32_t i = 0; i < c->n_words && c->data; i++) {
        *sum += load_u32(c->data + 4 * i);
    }
    return true;
}

// Cut anywhere, and words that tend to break arithmetic anywhere: an answer, and nobody reads
// behind the end.
static void test_any_bytes(void ** state) {
    (void) state;
    static const uint32_t values[] = {0, 1, 2, 3, 5, 0xffff, 0x10000, 0x7fffffff, 0xfffffffc};
    size_t size;
    struct error err;
    uint8_t * pdi = packed_make(code.pdi, false, &size);
    for (size_t n = 0; n < size; n += n < 0x170 || n + 40 > size ? 1 : 397) {
        uint8_t * copy = exact(pdi, n);
        assert_true(verify(copy, n, &err) != ST_OK);
        assert_true(run(copy, n, &err) != ST_OK);
        free(copy);
    }
    size_t end = PACKED_COMMANDS + load_u32(pdi + 0x144), n = 0;
    for (size_t at = PACKED_COMMANDS; at < end; at += 4 * (1 + n % 5)) {
        uint32_t old = load_u32(pdi + at);
        store_u32(pdi + at, values[n++ % (sizeof values / sizeof values[0])]);
        uint8_t * copy = exact(pdi, size);
        uint32_t sum = 0;
        if (pdi_read(copy, size, touch, &sum, &err) == ST_OK && n % 16 == 0) {
            run(copy, size, &err);
        }
        free(copy);
        store_u32(pdi + at, old);
    }
    free(pdi);
}

int main(void) {
    int failed = 0;
    for (int a = 0; a < AIE_ARCH_COUNT; a++) {
        arch = (enum aie_arch) a;
        const struct CMUnitTest tests[] = {
            cmocka_unit_test(test_same),      cmocka_unit_test(test_cut),
            cmocka_unit_test(test_faults),    cmocka_unit_test(test_lengths),
            cmocka_unit_test(test_any_bytes),
        };
        failed += cmocka_run_group_tests_name(kernel_arch_name(arch), tests, set_up, tear_down);
    }
    return failed;
}

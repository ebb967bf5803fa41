// test-accel-npu: commands whose stream the host has patched itself: START_NPU with and without
// preemption, and control code that brings its PDI along. Streams are those of our compiler; their
// address patches become plain writes here, as a client would make them.
#include "accel-world.h"

enum { OP_WRITE = 0, OP_BLOCK = 1, OP_MASK = 3, OP_LOAD_PDI = 8, OP_SYNC = 0x80, OP_PATCH = 0x81 };
enum { HEADER = 4, N_OPERATIONS = 2, N_BYTES = 3, PATCH_WORDS = 12, BD_FIRST = 0x1d000 };

static uint32_t words_of(const uint32_t * w) {
    return w[0] == OP_WRITE   ? 6
           : w[0] == OP_BLOCK ? w[3] / 4
           : w[0] == OP_MASK  ? 7
           : w[0] == OP_SYNC  ? 4
                              : PATCH_WORDS;
}

// What an earlier block write of the stream put into a register.
static uint32_t written(const uint32_t * insts, size_t end, uint32_t reg) {
    uint32_t value = 0;
    for (size_t at = HEADER; at < end; at += words_of(insts + at)) {
        const uint32_t * w = insts + at;
        uint32_t n = words_of(w) - 4;
        if (w[0] == OP_BLOCK && reg >= w[2] && reg < w[2] + 4 * n) {
            value = w[4 + (reg - w[2]) / 4];
        }
    }
    return value;
}

static void put_write(uint32_t * to, uint32_t reg, uint32_t value) {
    const uint32_t w[6] = {OP_WRITE, 0, reg, 0, value, 24};
    memcpy(to, w, sizeof w);
}

// The stream of kernel k with the operands' addresses in it, behind `before` more words. Two writes
// take as many words as a patch.
static size_t patched(const struct world * w, int k, uint64_t aperture, uint32_t before,
                      uint32_t * out) {
    const uint32_t * insts = code[k].insts;
    size_t n = code[k].n_insts;
    memcpy(out, insts, 4 * HEADER);
    memcpy(out + HEADER + before, insts + HEADER, 4 * (n - HEADER));
    for (size_t at = HEADER; at < n; at += words_of(insts + at)) {
        const uint32_t * p = insts + at;
        if (p[0] == OP_PATCH) {
            uint64_t address = (uint64_t) (uintptr_t) w->data[p[8]] + p[10] + aperture;
            uint32_t high = written(insts, at, p[6] + 4) & 0xffff0000u;
            put_write(out + before + at, p[6], (uint32_t) address);
            put_write(out + before + at + 6, p[6] + 4, high | (uint32_t) (address >> 32));
            out[N_OPERATIONS]++;
        }
    }
    out[N_OPERATIONS] += before != 0;
    out[N_BYTES] += 4 * before;
    return n + before;
}

static const enum aie_arch archs[] = {AIE_ARCH_AIE2, AIE_ARCH_AIE2P};
static const char * const devices[] = {"npu1", "npu4"};

static void take_arch(int i) {
    discard(NULL);
    world_arch = archs[i];
    assert_int_equal(compile(NULL), 0);
}

static uint32_t run(const struct world * w, struct command c, uint32_t insts, uint32_t pdi) {
    const uint32_t named[] = {insts, w->operand[0], w->operand[1], w->operand[2], pdi};
    uint64_t seq;
    assert_int_equal(rig_exec(w->f.fd, w->context, c.handle, named, pdi ? 5 : 4, &seq), 0);
    assert_int_equal(rig_wait_point(w->f.fd, w->syncobj, seq, INT64_MAX), 0);
    return XDNA_COMMAND_STATE(c.words[0]);
}

static struct command start_npu(const struct world * w, uint32_t insts, size_t words,
                                uint32_t n_args) {
    struct command c = command_new(w->f.fd, 4096);
    uint64_t at = rig_info(w->f.fd, insts).xdna_addr;
    c.words[0] = XDNA_COMMAND(XDNA_OP_START_NPU, 1 + 4 + n_args);
    c.words[1] = 1;
    memcpy(c.words + 2, &at, 8);
    c.words[4] = 4 * (uint32_t) words;
    c.words[6] = XDNA_KERNEL_STREAM;
    return c;
}

static void test_start_npu(void ** state) {
    (void) state;
    for (int i = 0; i < 2; i++) {
        take_arch(i);
        rig_settings("DEVICE", devices[i], NULL);
        struct world w = world_new(false);
        uint32_t stream[4096];
        size_t n = patched(&w, ADD, XDNA_SHIM_APERTURE, 0, stream);
        uint32_t insts = upload(&w.f, stream, 4 * n);
        assert_int_equal(run(&w, start_npu(&w, insts, n, 1), insts, 0), XDNA_STATE_COMPLETED);
        assert_int_equal(wrong(&w, ADD), 0);
        // 26 arguments and no more; without the 3 the firmware does not know what it is.
        assert_int_equal(run(&w, start_npu(&w, insts, n, 26), insts, 0), XDNA_STATE_COMPLETED);
        assert_int_equal(run(&w, start_npu(&w, insts, n, 27), insts, 0), XDNA_STATE_NEW);
        assert_int_equal(run(&w, start_npu(&w, insts, n, 0), insts, 0), XDNA_STATE_ERROR);
        struct command c = start_npu(&w, insts, n, 1);
        c.words[0] = XDNA_COMMAND(XDNA_OP_START_NPU, 4); // less than its fields
        assert_int_equal(run(&w, c, insts, 0), XDNA_STATE_NEW);
        c = start_npu(&w, insts, n, 1);
        c.words[5] = 1; // properties
        assert_int_equal(run(&w, c, insts, 0), XDNA_STATE_ERROR);
        c = start_npu(&w, insts, n, 1);
        c.words[1] = 0; // for no CU
        assert_int_equal(run(&w, c, insts, 0), XDNA_STATE_NEW);
        // Without the aperture they are addresses of something else.
        n = patched(&w, ADD, 0, 0, stream);
        insts = upload(&w.f, stream, 4 * n);
        assert_int_equal(run(&w, start_npu(&w, insts, n, 1), insts, 0), XDNA_STATE_TIMEOUT);
        // Patches of the firmware have no operands here.
        assert_int_equal(
            run(&w, start_npu(&w, w.insts[ADD], code[ADD].n_insts, 1), w.insts[ADD], 0),
            XDNA_STATE_ERROR);
        world_free(&w);
    }
}

// Slots of 56 bytes: 73 of them in 4 KiB; of older drivers 24 and 34 arguments.
static void test_slots(void ** state) {
    (void) state;
    static const struct {
        const char * kernel;
        uint32_t fit, args;
    } rows[] = {{"7.2", 73, 26}, {"6.18", 146, 34}};
    take_arch(0);
    for (int i = 0; i < 2; i++) {
        rig_settings("KERNEL", rows[i].kernel, NULL);
        struct world w = world_new(false);
        uint32_t stream[4096];
        size_t n = patched(&w, ADD, XDNA_SHIM_APERTURE, 0, stream);
        uint32_t insts = upload(&w.f, stream, 4 * n);
        struct command part = start_npu(&w, insts, n, 1), parts[160];
        for (int k = 0; k < 160; k++) {
            parts[k] = part; // the same again
        }
        assert_int_equal(run(&w, chain(&w, parts, rows[i].fit + 1), insts, 0), XDNA_STATE_NEW);
        assert_true(untouched(&w));
        assert_int_equal(run(&w, chain(&w, parts, rows[i].fit), insts, 0), XDNA_STATE_COMPLETED);
        assert_int_equal(wrong(&w, ADD), 0);
        assert_int_equal(run(&w, start_npu(&w, insts, n, rows[i].args), insts, 0),
                         XDNA_STATE_COMPLETED);
        assert_int_equal(run(&w, start_npu(&w, insts, n, rows[i].args + 1), insts, 0),
                         XDNA_STATE_NEW);
        world_free(&w);
    }
}

// ---- aie2p only ----

static struct command start_preempt(const struct world * w, uint32_t opcode, uint32_t insts,
                                    size_t words, uint32_t n_args) {
    struct command c = command_new(w->f.fd, 4096);
    struct xdna_start_preempt a = {.insts = rig_info(w->f.fd, insts).xdna_addr,
                                   .insts_bytes = 4 * (uint32_t) words};
    c.words[0] = XDNA_COMMAND(opcode, 1 + sizeof a / 4 + n_args);
    c.words[1] = 1;
    memcpy(c.words + 2, &a, sizeof a);
    c.words[2 + sizeof a / 4] = XDNA_KERNEL_STREAM;
    return c;
}

static void test_preempt(void ** state) {
    (void) state;
    take_arch(1);
    static const struct {
        const char * kernel;
        uint32_t state;
    } rows[] = {
        {"7.2", XDNA_STATE_COMPLETED}, {"7.0", XDNA_STATE_COMPLETED}, {"6.18", XDNA_STATE_NEW}};
    for (int i = 0; i < 3; i++) {
        rig_settings("KERNEL", rows[i].kernel, "DEVICE", "npu4", NULL);
        struct world w = world_new(false);
        uint32_t stream[4096];
        size_t n = patched(&w, ADD, XDNA_SHIM_APERTURE, 0, stream);
        uint32_t insts = upload(&w.f, stream, 4 * n);
        struct command c = start_preempt(&w, XDNA_OP_START_NPU_PREEMPT, insts, n, 1);
        assert_int_equal(run(&w, c, insts, 0), rows[i].state);
        assert_int_equal(wrong(&w, ADD) == 0, i < 2);
        if (i == 0) {
            c = start_preempt(&w, XDNA_OP_START_NPU_PREEMPT, insts, n, 27);
            assert_int_equal(run(&w, c, insts, 0), XDNA_STATE_NEW);
            c = start_preempt(&w, XDNA_OP_START_NPU_PREEMPT, insts, n, 1);
            c.words[4] = 0x04000100; // to save, in a buffer that is not named
            c.words[9] = 16;
            assert_int_equal(run(&w, c, insts, 0), XDNA_STATE_ERROR);
        }
        world_free(&w);
    }
}

static void test_elf(void ** state) {
    (void) state;
    take_arch(1);
    rig_settings("DEVICE", "npu4", NULL);
    struct world w = world_new(false);
    // A context without CUs.
    assert_int_equal(rig_destroy(w.f.fd, w.context), 0);
    assert_int_equal(rig_create_timed(w.f.fd, RIG_TILES, &w.context, &w.syncobj), 0);
    uint32_t stream[4096];
    size_t n = patched(&w, ADD, XDNA_SHIM_APERTURE, 4, stream);
    uint64_t pdi = rig_info(w.f.fd, w.pdi[ADD]).xdna_addr;
    stream[HEADER] = OP_LOAD_PDI;
    stream[HEADER + 1] = (uint32_t) code[ADD].pdi_size;
    memcpy(stream + HEADER + 2, &pdi, 8); // at 0x18
    uint32_t insts = upload(&w.f, stream, 4 * n);
    struct command c = start_preempt(&w, XDNA_OP_START_NPU_PREEMPT_ELF, insts, n, 0);
    assert_int_equal(run(&w, c, insts, w.pdi[ADD]), XDNA_STATE_COMPLETED);
    assert_int_equal(wrong(&w, ADD), 0);
    c = start_preempt(&w, XDNA_OP_START_NPU_PREEMPT_ELF, insts, n, 0);
    c.words[1] = 0; // any mask
    assert_int_equal(run(&w, c, insts, w.pdi[ADD]), XDNA_STATE_COMPLETED);
    c = start_preempt(&w, XDNA_OP_START_NPU_PREEMPT_ELF, insts, n, 0);
    assert_int_equal(run(&w, c, insts, 0), XDNA_STATE_ERROR); // its PDI was not named
    // Control code that begins elsewhere than at 16 KiB is accepted and never ends.
    uint32_t other = rig_bo(w.f.fd, XDNA_BO_DEV, 4 * n + 4096);
    memcpy((uint8_t *) (uintptr_t) rig_info(w.f.fd, other).vaddr + 4096, stream, 4 * n);
    c = start_preempt(&w, XDNA_OP_START_NPU_PREEMPT_ELF, other, n, 0);
    c.words[2] += 4096;
    assert_int_equal(run(&w, c, other, w.pdi[ADD]), XDNA_STATE_TIMEOUT);
    // 73 in a chain, all of the same kind.
    struct command part = start_preempt(&w, XDNA_OP_START_NPU_PREEMPT_ELF, insts, n, 0), parts[74];
    for (int k = 0; k < 74; k++) {
        parts[k] = part;
    }
    assert_int_equal(run(&w, chain(&w, parts, 74), insts, w.pdi[ADD]), XDNA_STATE_NEW);
    assert_int_equal(run(&w, chain(&w, parts, 2), insts, w.pdi[ADD]), XDNA_STATE_COMPLETED);
    world_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_npu),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_preempt),
        cmocka_unit_test(test_elf),
    };
    return cmocka_run_group_tests(tests, compile, discard);
}

// test-forms: the instructions that our compiler emits and that neither a row read on silicon nor a
// foreign kernel for this core exercises. Their bytes are those of the vendor's assembler tests;
// what they must do is written out from the vendor's headers, not from the emulator. What each
// rests on is told in docs/fidelity.md.
#include "emu/aie/core-rig.h"

enum { DRAIN = 14, SHIFT = 4, BYTES = 32 };

// ---- the vendor's bytes ----

static uint8_t * vectors;
static size_t vectors_size;

static int read_vectors(void ** state) {
    (void) state;
    struct error err;
    if (file_read(GOLDEN_DIR "/vectors/aie2_vectors.tsv", 1 << 20, &vectors, &vectors_size, &err) !=
        ST_OK) {
        vectors = NULL; // put_text says so
    }
    return 0;
}

static int free_vectors(void ** state) {
    (void) state;
    free(vectors);
    return 0;
}

// Puts the bundle that the vendor's assembler makes of the text at r->at.
static void put_text(struct rig * r, const char * text) {
    if (!vectors) {
        skip_golden(GOLDEN_DIR "/vectors/aie2_vectors.tsv");
    }
    size_t want = strlen(text);
    for (const char *at = (const char *) vectors, *end = at + vectors_size; at < end;) {
        const char * line_end = memchr(at, '\n', (size_t) (end - at));
        line_end = line_end ? line_end : end;
        const char * tab = memchr(at, '\t', (size_t) (line_end - at));
        if (tab && (size_t) (line_end - tab - 1) == want && memcmp(tab + 1, text, want) == 0) {
            for (; at < tab; at += 3) {
                char pair[3] = {at[0], at[1], 0};
                core_program(r->core)[r->at++] = (uint8_t) strtoul(pair, NULL, 16);
            }
            core_program_changed(r->core, 0, CORE_PM_BYTES);
            return;
        }
        at = line_end + 1;
    }
    fail_msg("the vectors have no \"%s\"", text);
}

// ---- two-dimensional walks ----

// As aie_api and the compiler's header fill the four parts of d: num is one less than the elements
// of a row, inc the step inside it, and the step to the next row counts from the last element.
struct walk {
    uint32_t elements;      // of a row
    int32_t step, row_step; // bytes, from element to element and from row to row
};

static const struct walk walks[] = {
    {4, 64, 1024}, // rows of a matrix
    {4, 64, 0},    // a circular buffer of four
    {3, 0, 32},    // each element three times
    {1, 96, 96},   // rows of one: the element's own step is never taken
    {5, -32, 256}, // backwards
};

enum data { PLAIN, UPS, SRS };

static const struct {
    const char * text;
    aie_reg reg;
    int p, d;
    bool stores;
    enum data data;
} forms[] = {
    {"vlda.2d wl3, [p2], d4", W(6), 2, 4, false, PLAIN},
    {"vlda.2d amll3, [p2], d4", AM(12), 2, 4, false, PLAIN},
    {"vldb.2d wl3, [p2], d4", W(6), 2, 4, false, PLAIN},
    {"vst.2d amll3, [p2], d2", AM(12), 2, 2, true, PLAIN},
    {"vlda.2d.ups.s64.s32 bml7, s3, [p5], d0", BM(14), 5, 0, false, UPS},
    {"vst.2d.srs.s32.s64 bmh7, s3, [p7], d5", BM(15), 7, 5, true, SRS},
};

static uint32_t value_at(uint32_t word, uint32_t turn) {
    return (word + 1) * 2654435761u + turn * 40503;
}

// What stands in the register for 32 bytes of memory: those, or eight 64-bit numbers.
static int in_register(enum data data, const uint8_t * memory, uint8_t reg[128]) {
    if (data == PLAIN) {
        memcpy(reg, memory, BYTES);
        return BYTES;
    }
    for (int i = 0; i < 8; i++) {
        uint64_t v = (uint64_t) (int64_t) (int32_t) load_u32(memory + 4 * i) << SHIFT;
        memcpy(reg + 8 * i, &v, 8);
    }
    return 2 * BYTES;
}

static void a_walk(struct rig * r, size_t form, const struct walk * w) {
    const uint32_t base = RIG_BASE + 0x4000;
    int p = forms[form].p, d = forms[form].d;
    uint32_t pointer = base, count = 0;
    for (uint32_t turn = 0; turn < 3 * w->elements; turn++) {
        uint32_t row = turn / w->elements, element = turn % w->elements;
        uint32_t at = base + row * (uint32_t) w->row_step + element * (uint32_t) w->step;
        assert_int_equal(pointer, at);
        for (uint32_t i = 0; i < 0x4000; i++) {
            store_u32(r->memory + 4 * i, value_at(i, turn));
        }
        core_reset(r->core);
        r->at = 0;
        set(r, P(p), pointer);
        set(r, S(3), SHIFT);
        set(r, AIE_REG(AIE_DN, d), w->elements - 1);
        set(r, AIE_REG(AIE_DJ, d), (uint32_t) w->step);
        int32_t last = (int32_t) (w->elements - 1) * w->step;
        set(r, AIE_REG(AIE_M, d), (uint32_t) (w->row_step - last));
        set(r, AIE_REG(AIE_DC, d), count);
        uint8_t want[128], got[128] = {0}, memory[BYTES];
        for (int i = 0; i < 8; i++) { // what is stored stood nowhere in memory
            store_u32(memory + 4 * i, value_at(0x10000 + (uint32_t) i, turn));
        }
        if (forms[form].stores) {
            in_register(forms[form].data, memory, want);
            assert_true(core_reg_set(r->core, forms[form].reg, want) > 0);
        }
        put_text(r, forms[form].text);
        nops(r, DRAIN);
        emit_done(r);
        core_enable(r->core, true, core_now(r->core));
        assert_int_equal(core_run(r->core, UINT64_MAX, core_now(r->core) + 1000), CORE_DONE);
        if (forms[form].stores) {
            assert_memory_equal(r->memory + (at - RIG_BASE), memory, BYTES);
            store_u32(got, value_at((at - RIG_BASE) / 4 + 8, turn)); // and nothing after it
            assert_memory_equal(r->memory + (at - RIG_BASE) + BYTES, got, 4);
        } else {
            int n = in_register(forms[form].data, r->memory + (at - RIG_BASE), want);
            core_reg_get(r->core, forms[form].reg, got);
            assert_memory_equal(got, want, (size_t) n);
        }
        pointer = get(r, P(p));
        count = get(r, AIE_REG(AIE_DC, d));
    }
}

static void walks_in_two_dimensions(void ** state) {
    (void) state;
    struct rig * r = rig_new(false);
    for (size_t form = 0; form < sizeof(forms) / sizeof(forms[0]); form++) {
        for (size_t i = 0; i < sizeof(walks) / sizeof(walks[0]); i++) {
            a_walk(r, form, &walks[i]);
        }
    }
    rig_free(r);
}

// ---- a lock by register ----

// The vendor's compiler makes either form from the same call: the number in a register means the
// same as the number in the instruction.
static void a_lock_by_register(void ** state) {
    (void) state;
    for (int id = 48; id < 64; id += 5) {
        for (int by_register = 0; by_register < 2; by_register++) {
            struct rig * r = rig_new(false);
            set(r, R(1), (uint32_t) id);
            set(r, R(27), (uint32_t) -2);
            if (by_register) {
                put_text(r, "acq r1, r27");
            } else {
                EMIT(r, ins(r, "ACQ_mLockId_imm", "ib", id, R(27)));
            }
            emit_done(r);
            for (int i = 0; i < 64; i++) {
                r->lock[i] = i == id ? 1 : 9;
            }
            core_enable(r->core, true, 0);
            assert_int_equal(core_run(r->core, UINT64_MAX, 100), CORE_BLOCKED); // needs two
            r->lock[id] = 5;
            assert_int_equal(core_run(r->core, UINT64_MAX, 100), CORE_DONE);
            for (int i = 0; i < 64; i++) {
                assert_int_equal(r->lock[i], i == id ? 3 : 9);
            }
            rig_free(r);
        }
    }
}

// ---- a jump by pointer ----

// Beside "ret lr", which foreign kernels execute in every function: five delay slots, then the
// target, in the same cycle.
static void a_jump_by_pointer(void ** state) {
    (void) state;
    uint64_t cycles[2];
    for (int i = 0; i < 2; i++) {
        struct rig * r = rig_new(false);
        set(r, P(2), 0x200);
        set(r, LR, 0x200);
        if (i) {
            put_text(r, "j p2");
        } else {
            EMIT(r, ins(r, "RET", ""));
        }
        for (int k = 0; k < 7; k++) {
            EMIT(r, ins(r, "ADD_add_r_ri", "dai", R(k), R(k), 1));
        }
        r->at = 0x200;
        EMIT(r, ins(r, "ADD_add_r_ri", "dai", R(10), R(10), 1));
        emit_done(r);
        run_to(r, CORE_DONE);
        for (int k = 0; k < 7; k++) {
            assert_int_equal(get(r, R(k)), k < 5);
        }
        assert_int_equal(get(r, R(10)), 1);
        cycles[i] = core_now(r->core);
        rig_free(r);
    }
    assert_int_equal(cycles[0], cycles[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_in_two_dimensions),
        cmocka_unit_test(a_lock_by_register),
        cmocka_unit_test(a_jump_by_pointer),
    };
    return cmocka_run_group_tests(tests, read_vectors, free_vectors);
}

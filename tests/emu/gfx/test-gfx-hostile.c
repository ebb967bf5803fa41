// test-gfx-hostile: code that no compiler makes, word by word: it ends with an error that says
// where, and nothing but its own memory was touched. What fuzz-gfx found stays here.
#include "base/cmocka-all.h"

#include "emu/gfx/gfx.h"

enum { WORDS = 16 };

static struct {
    _Alignas(4096) uint8_t descriptor[64];
    uint8_t gap[1024];
    uint32_t code[WORDS]; // in the middle of a page: nobody has what is before and behind it
    uint32_t n;
    _Alignas(4096) uint32_t data[64];
} memory;

static bool within(uint64_t addr, uint64_t len, const void * p, uint64_t size) {
    return addr >= (uintptr_t) p && len <= size && addr - (uintptr_t) p <= size - len;
}

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) user;
    bool there = within(addr, len, memory.data, sizeof memory.data) ||
                 (!write && (within(addr, len, memory.descriptor, 64) ||
                             within(addr, len, memory.code, 4 * memory.n)));
    return there ? (void *) (uintptr_t) addr : NULL;
}

static void put_u64(uint8_t * p, uint64_t v) {
    store_u32(p, (uint32_t) v);
    store_u32(p + 4, (uint32_t) (v >> 32));
}

// Runs the words, which begin `skip` bytes behind the kernel's entry.
static enum status run(enum gfx_arch arch, const uint32_t * words, uint32_t n, uint64_t skip,
                       struct error * err) {
    struct gfx * gpu;
    struct gfx_config config = {
        .arch = arch, .threads = 1, .resolve = resolve, .strict = true, .wave_budget = 1000};
    memcpy(memory.code, words, 4 * n);
    memory.n = n;
    put_u64(memory.descriptor + 16, (uintptr_t) memory.code - (uintptr_t) memory.descriptor - skip);
    store_u32(memory.descriptor + 52, 2 << 1 | 0x80);
    store_u32(memory.descriptor + 56, 0x408);
    assert_int_equal(gfx_new(&config, &gpu, err), ST_OK);
    struct gfx_dispatch d = {.kernel_object = (uintptr_t) memory.descriptor,
                             .kernarg = (uintptr_t) memory.data,
                             .packet = (uintptr_t) memory.data,
                             .grid = {64, 1, 1},
                             .group = {64, 1, 1}};
    *err = (struct error){0};
    enum status st = gfx_run(gpu, &d, err);
    gfx_free(gpu);
    return st;
}

static const struct {
    enum gfx_arch arch;
    uint32_t back, end, nop; // s_branch to two instructions before it
} archs[] = {
    {GFX_90A, 0xbf82fffd, 0xbf810000, 0xbf800000},
    {GFX_942, 0xbf82fffd, 0xbf810000, 0xbf800000},
    {GFX_1100, 0xbfa0fffd, 0xbfb00000, 0xbf800000},
    {GFX_1151, 0xbfa0fffd, 0xbfb00000, 0xbf800000},
};

// The bytes around code that is not all of a page are nobody's, not zeros.
static void code_ends_on_both_sides(void ** state) {
    (void) state;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        struct error err;
        const uint32_t good[] = {archs[i].nop, archs[i].end};
        assert_int_equal(run(archs[i].arch, good, 2, 0, &err), ST_OK);
        const uint32_t before[] = {archs[i].back, archs[i].end};
        assert_int_equal(run(archs[i].arch, before, 2, 0, &err), ST_CORRUPT);
        assert_non_null(strstr(err.text, "-0x8 from its entry"));
        assert_non_null(strstr(err.text, "the code ends here"));
        const uint32_t behind[] = {archs[i].nop, archs[i].nop};
        assert_int_equal(run(archs[i].arch, behind, 2, 0, &err), ST_CORRUPT);
        assert_non_null(strstr(err.text, "+0x8 from its entry"));
    }
}

// An entry where no code is, wherever that may be.
static void entry_is_anywhere(void ** state) {
    (void) state;
    static const uint64_t skips[] = {4, 4096, UINT64_C(1) << 63, UINT64_MAX - 3, 1, 2};
    for (size_t i = 0; i < sizeof skips / sizeof skips[0]; i++) {
        struct error err;
        const uint32_t good[] = {archs[0].nop, archs[0].end};
        assert_int_equal(run(GFX_90A, good, 1, skips[i], &err), ST_CORRUPT);
        assert_non_null(strstr(err.text, "from its entry"));
    }
}

// What a GPU has and the machine does not is called by its name; what it has not, is not.
static void said_by_name(void ** state) {
    (void) state;
    static const struct {
        enum gfx_arch arch;
        uint32_t words[2];
        const char * text;
    } cases[] = {
        {GFX_942,
         {0xd3e20008, 0x05427928},
         "v_smfmac_f32_16x16x32_f16 is an instruction of gfx942"},
        {GFX_942, {0xd3f30008, 0x05427928}, "v_mfma_f32_16x16x32_fp8_fp8 is an instruction of"},
        {GFX_90A, {0xd3e20008, 0x05427928}, "no instruction of gfx90a"},
        {GFX_90A, {0xc20a0202, 0x00000000}, "s_atomic_add is an instruction of gfx90a"},
        {GFX_90A, {0xe0000000, 0x80020604}, "buffer_load_format_x is an instruction of gfx90a"},
        {GFX_90A, {0xe0510000, 0x80020604}, "buffer_load_b32 to LDS is an instruction of gfx90a"},
        {GFX_1100, {0xd6670008, 0x042a0d04}, "v_dot2_bf16_bf16 is an instruction of gfx1100"},
        {GFX_1151, {0xd6660008, 0x042a0d04}, "v_dot2_f16_f16 is an instruction of gfx1151"},
        {GFX_1100, {0xf06c0f04, 0x00000000}, "image is an instruction of gfx1100"},
        {GFX_1100, {0xcc464002, 0x1c160701}, "no instruction of gfx1100"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err;
        assert_int_equal(run(cases[i].arch, cases[i].words, 2, 0, &err), ST_CORRUPT);
        if (!strstr(err.text, cases[i].text)) {
            fail_msg("%s: %s", cases[i].text, err.text);
        }
        assert_int_equal(!strstr(err.text, "not emulated"), !strncmp(cases[i].text, "no ", 3));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_ends_on_both_sides),
        cmocka_unit_test(entry_is_anywhere),
        cmocka_unit_test(said_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

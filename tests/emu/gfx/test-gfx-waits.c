// test-gfx-waits: work-groups that wait for each other, on fewer host threads than there are
// groups. Each group writes to its LDS, then all meet three times at a counter in memory, and at
// the end each work-item stores what its LDS and its registers still hold. The groups wait in a
// loop that does nothing else, that sleeps, and that counts. What one group alone executes is known
// to the last instruction, so that the counters are held against it.
#include "base/cmocka-all.h"

#include "emu/gfx/gfx.h"

enum { SLOT = 29, WORDS = 49, GROUPS = 40, ITEMS = 128, MEETINGS = 3 };

// Arguments: address of the counter, of the results; number of groups, of work-items in one. The
// word at SLOT is the first one of the loop that waits.
// clang-format off
static const uint32_t gfx9[WORDS] = {
    0xc00a0100, 0x00000000, // s_load_dwordx4 s[4:7], s[0:1], 0x0
    0xc0060200, 0x00000010, // s_load_dwordx2 s[8:9], s[0:1], 0x10
    0xbf8cc07f,             // s_waitcnt lgkmcnt(0)
    0x260000ff, 0x000003ff, // v_and_b32_e32 v0, 0x3ff, v0
    0x920a0902,             // s_mul_i32 s10, s2, s9
    0x6802000a,             // v_add_u32_e32 v1, s10, v0
    0x24040082,             // v_lshlrev_b32_e32 v2, 2, v0
    0x680602ff, 0x000003e8, // v_add_u32_e32 v3, 0x3e8, v1
    0xd81a0000, 0x00000302, // ds_write_b32 v2, v3
    0xbf8cc07f,             // s_waitcnt lgkmcnt(0)
    0xbf8a0000,             // s_barrier
    0xbe8b0080,             // s_mov_b32 s11, 0
    0xbe8c0083,             // s_mov_b32 s12, 3
    0x800b080b,             // s_add_u32 s11, s11, s8
    0x7e1a0500,             // v_readfirstlane_b32 s13, v0
    0xbf07800d,             // s_cmp_lg_u32 s13, 0
    0xbf85000f,             // s_cbranch_scc1 arrived
    0xbe8e017e,             // s_mov_b64 s[14:15], exec
    0xbefe0181,             // s_mov_b64 exec, 1
    0x7e080280,             // v_mov_b32_e32 v4, 0
    0x7e0a0281,             // v_mov_b32_e32 v5, 1
    0xdd088000, 0x00040504, // global_atomic_add v4, v5, s[4:5]
    0xbf8c0f70,             // s_waitcnt vmcnt(0)
    0xbf800000,             // s_nop 0
    0xdc518000, 0x06040004, // global_load_dword v6, v4, s[4:5] glc
    0xbf8c0f70,             // s_waitcnt vmcnt(0)
    0x7e200506,             // v_readfirstlane_b32 s16, v6
    0xbf0a0b10,             // s_cmp_lt_u32 s16, s11
    0xbf85fff9,             // s_cbranch_scc1 spin
    0xbefe010e,             // s_mov_b64 exec, s[14:15]
    0xbf8a0000,             // s_barrier
    0x808c810c,             // s_sub_u32 s12, s12, 1
    0xbf07800c,             // s_cmp_lg_u32 s12, 0
    0xbf85ffe9,             // s_cbranch_scc1 round
    0xd86c0000, 0x07000002, // ds_read_b32 v7, v2
    0xbf8cc07f,             // s_waitcnt lgkmcnt(0)
    0x680e0307,             // v_add_u32_e32 v7, v7, v1
    0x24100282,             // v_lshlrev_b32_e32 v8, 2, v1
    0xdc708000, 0x00060708, // global_store_dword v8, v7, s[6:7]
    0xbf810000,             // s_endpgm
};

static const uint32_t gfx11[WORDS] = {
    0xf4080100, 0xf8000000, // s_load_b128 s[4:7], s[0:1], null
    0xf4040200, 0xf8000010, // s_load_b64 s[8:9], s[0:1], 0x10
    0xbf89fc07,             // s_waitcnt lgkmcnt(0)
    0x360000ff, 0x000003ff, // v_and_b32_e32 v0, 0x3ff, v0
    0x960a0902,             // s_mul_i32 s10, s2, s9
    0x4a02000a,             // v_add_nc_u32_e32 v1, s10, v0
    0x30040082,             // v_lshlrev_b32_e32 v2, 2, v0
    0x4a0602ff, 0x000003e8, // v_add_nc_u32_e32 v3, 0x3e8, v1
    0xd8340000, 0x00000302, // ds_store_b32 v2, v3
    0xbf89fc07,             // s_waitcnt lgkmcnt(0)
    0xbfbd0000,             // s_barrier
    0xbe8b0080,             // s_mov_b32 s11, 0
    0xbe8c0083,             // s_mov_b32 s12, 3
    0x800b080b,             // s_add_u32 s11, s11, s8
    0x7e1a0500,             // v_readfirstlane_b32 s13, v0
    0xbf07800d,             // s_cmp_lg_u32 s13, 0
    0xbfa2000f,             // s_cbranch_scc1 arrived
    0xbe8e017e,             // s_mov_b64 s[14:15], exec
    0xbefe0181,             // s_mov_b64 exec, 1
    0x7e080280,             // v_mov_b32_e32 v4, 0
    0x7e0a0281,             // v_mov_b32_e32 v5, 1
    0xdcd60000, 0x00040504, // global_atomic_add_u32 v4, v5, s[4:5]
    0xbf8903f7,             // s_waitcnt vmcnt(0)
    0xbf800000,             // s_nop 0
    0xdc524000, 0x06040004, // global_load_b32 v6, v4, s[4:5] glc
    0xbf8903f7,             // s_waitcnt vmcnt(0)
    0x7e200506,             // v_readfirstlane_b32 s16, v6
    0xbf0a0b10,             // s_cmp_lt_u32 s16, s11
    0xbfa2fff9,             // s_cbranch_scc1 spin
    0xbefe010e,             // s_mov_b64 exec, s[14:15]
    0xbfbd0000,             // s_barrier
    0x808c810c,             // s_sub_u32 s12, s12, 1
    0xbf07800c,             // s_cmp_lg_u32 s12, 0
    0xbfa2ffe9,             // s_cbranch_scc1 round
    0xd8d80000, 0x07000002, // ds_load_b32 v7, v2
    0xbf89fc07,             // s_waitcnt lgkmcnt(0)
    0x4a0e0307,             // v_add_nc_u32_e32 v7, v7, v1
    0x30100282,             // v_lshlrev_b32_e32 v8, 2, v1
    0xdc6a0000, 0x00060708, // global_store_b32 v8, v7, s[6:7]
    0xbfb00000,             // s_endpgm
};
// clang-format on

static const struct {
    enum gfx_arch arch;
    const uint32_t * code;
    uint32_t sleep, properties;
} gpus[] = {
    {GFX_90A, gfx9, 0xbf8e0001, 1 << 3},
    {GFX_942, gfx9, 0xbf8e0001, 1 << 3},
    {GFX_1100, gfx11, 0xbf830001, 1 << 3 | 1 << 10},
    {GFX_1151, gfx11, 0xbf830001, 1 << 3},
};

static struct {
    _Alignas(4096) uint32_t descriptor[16];
    uint32_t code[WORDS];
    _Alignas(4096) struct { // in another page than code, which is read as a whole
        uint64_t counter, out;
        uint32_t groups, items;
    } args;
    _Alignas(64) uint32_t counter;
    uint32_t out[GROUPS * ITEMS + 1];
} memory;

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) user, (void) write;
    uint64_t at = addr - (uintptr_t) &memory;
    return at < sizeof memory && len <= sizeof memory - at ? (void *) (uintptr_t) addr : NULL;
}

static struct gfx_counters counted; // of the last run

// word: what the loop that waits begins with.
static enum status run(int gpu, uint32_t word, int threads, uint32_t groups, uint32_t expected,
                       const struct gfx_config * more, struct error * err) {
    memset(&memory, 0, sizeof memory);
    memory.descriptor[4] = 64; // where the code begins
    memory.descriptor[13] = 2 << 1 | 1 << 7;
    memory.descriptor[14] = gpus[gpu].properties;
    memcpy(memory.code, gpus[gpu].code, sizeof memory.code);
    memory.code[SLOT] = word;
    memory.args.counter = (uintptr_t) &memory.counter;
    memory.args.out = (uintptr_t) memory.out;
    memory.args.groups = expected;
    memory.args.items = ITEMS;
    struct gfx_config config = {.arch = gpus[gpu].arch,
                                .threads = threads,
                                .resolve = resolve,
                                .strict = more->strict,
                                .wave_budget = more->wave_budget};
    struct gfx_dispatch d = {.kernel_object = (uintptr_t) memory.descriptor,
                             .kernarg = (uintptr_t) &memory.args,
                             .packet = (uintptr_t) &memory.args,
                             .grid = {groups * ITEMS, 1, 1},
                             .group = {ITEMS, 1, 1},
                             .group_bytes = ITEMS * 4};
    struct gfx * g;
    assert_int_equal(gfx_new(&config, &g, err), ST_OK);
    enum status st = gfx_run(g, &d, err);
    gfx_counters_get(g, &counted);
    assert_true(st != ST_OK || counted.waves == (uint64_t) groups * ITEMS / (gpu == 2 ? 32 : 64));
    gfx_free(g);
    return st;
}

static void meet(uint32_t (*word)(int gpu), uint32_t groups, int max_threads, int step) {
    for (int gpu = 0; gpu < 4; gpu += step) {
        for (int threads = 1; threads <= max_threads; threads++) {
            struct error err;
            struct gfx_config more = {.strict = threads == 2};
            if (run(gpu, word(gpu), threads, groups, groups, &more, &err) != ST_OK) {
                fail_msg("%s", err.text);
            }
            assert_int_equal(memory.counter, MEETINGS * groups);
            for (uint32_t i = 0; i <= GROUPS * ITEMS; i++) {
                assert_int_equal(memory.out[i], i < groups * ITEMS ? 2 * i + 1000 : 0);
            }
        }
    }
}

static uint32_t nothing(int gpu) {
    (void) gpu;
    return 0xbf800000; // s_nop 0
}

static uint32_t sleeps(int gpu) {
    return gpus[gpu].sleep;
}

static uint32_t counts(int gpu) {
    (void) gpu;
    return 0x80148114; // s_add_u32 s20, s20, 1
}

static void idle_groups_meet(void ** state) {
    (void) state;
    meet(nothing, GROUPS, 3, 1);
}

static void sleeping_groups_meet(void ** state) {
    (void) state;
    meet(sleeps, GROUPS, 3, 1);
}

// Nobody can tell that these wait, so that they get turns of some length.
static void counting_groups_meet(void ** state) {
    (void) state;
    meet(counts, 2, 1, 2);
}

// Who waits for a group that never comes ends with an error, sleeping or not.
static void nobody_comes(void ** state) {
    (void) state;
    for (int gpu = 0; gpu < 4; gpu++) {
        uint32_t words[] = {nothing(gpu), sleeps(gpu), counts(gpu)};
        for (int k = 0; k < 3; k++) {
            struct error err = {0};
            struct gfx_config more = {.wave_budget = 100000};
            assert_int_equal(run(gpu, words[k], 2, 2, 3, &more, &err), ST_CORRUPT);
            assert_non_null(strstr(err.text, "still runs after"));
            assert_in_range(memory.counter, 1, 2);
        }
    }
}

// Each wave meets three times; the first one adds to the counter and reads it, with one lane on.
static void kinds_are_counted(void ** state) {
    (void) state;
    for (int gpu = 0; gpu < 4; gpu++) {
        const uint64_t waves = ITEMS / (gpu == 2 ? 32 : 64);
        const struct {
            enum gfx_kind kind;
            uint64_t instructions, bytes;
        } wanted[] = {
            {GFX_KIND_SCALAR, 22 * waves + 15, 0},
            {GFX_KIND_WAIT, 7 * waves + 9, 0},
            {GFX_KIND_CONST, 2 * waves, 24 * waves},
            {GFX_KIND_VECTOR, 9 * waves + 9, 0},
            {GFX_KIND_LOAD, MEETINGS, 4 * MEETINGS},
            {GFX_KIND_STORE, waves + MEETINGS, 4 * ITEMS + 4 * MEETINGS},
            {GFX_KIND_LDS, 2 * waves, 8 * ITEMS},
        };
        struct error err;
        struct gfx_config more = {.strict = false};
        assert_int_equal(run(gpu, nothing(gpu), 1, 1, 1, &more, &err), ST_OK);
        uint64_t sum = 0;
        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
            assert_int_equal(counted.kinds[wanted[i].kind], wanted[i].instructions);
            assert_int_equal(counted.bytes[wanted[i].kind], wanted[i].bytes);
            sum += wanted[i].instructions;
        }
        assert_int_equal(counted.instructions, sum);
        assert_int_equal(counted.lanes, gpu == 2 ? 32 : 64);
        assert_int_equal(counted.vgprs, gpu == 3 ? 4 : 8);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_counted),    cmocka_unit_test(idle_groups_meet),
        cmocka_unit_test(sleeping_groups_meet), cmocka_unit_test(counting_groups_meet),
        cmocka_unit_test(nobody_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

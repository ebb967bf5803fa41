// test-descriptors: what the packers make is, bit for bit, what real kernels hold; where those use
// no such field, the published layout written out by hand.
#include "aie/image/golden.h"

#include "aie/array/array.h"

struct wanted {
    uint32_t addr;
    uint32_t words[8];
    uint32_t n;
    int seen;
};

static bool compare(void * user, const struct image_command * c) {
    struct wanted * w = user;
    if (c->op == IMAGE_BLOCK_WRITE && c->addr == w->addr) {
        w->seen++;
        assert_int_equal(c->n_words, w->n);
        for (uint32_t i = 0; i < w->n; i++) {
            assert_int_equal(load_u32(c->data + 4 * i), w->words[i]);
        }
    }
    return true;
}

static void expect_in_gemm(struct wanted w) {
    struct bytes pdi = golden(AIE2 "gemm-i16-512-16core.pdi");
    struct error err = {0};
    assert_int_equal(pdi_read(pdi.data, pdi.size, compare, &w, &err), ST_OK);
    assert_int_equal(w.seen, 1);
    free(pdi.data);
}

static void memtile_as_in_gemm(void ** state) {
    (void) state;
    struct wanted w = {.addr = image_addr(0, ARRAY_ROW_MEM, MEM_BD), .n = 8};
    array_mem_bd(&(struct array_bd){.address = 0x4000 * 4,
                                    .words = 2048,
                                    .next = 1,
                                    .acquire = 9,
                                    .acquire_value = -1,
                                    .release = 8,
                                    .release_value = 1,
                                    .wrap = {2, 4, 16},
                                    .step = {1, 32, 2, 128}},
                 w.words);
    expect_in_gemm(w);
}

static void core_as_in_gemm(void ** state) {
    (void) state;
    struct wanted w = {.addr = image_addr(0, 2, CORE_BD + 0x20 * 3), .n = 6};
    array_core_bd(&(struct array_bd){.address = 0x2740 * 4,
                                     .words = 1024,
                                     .next = 2,
                                     .acquire = 2,
                                     .acquire_value = -1,
                                     .release = 3,
                                     .release_value = 1},
                  w.words);
    expect_in_gemm(w);
}

// Every field at its largest: neighbours must not touch.
static void largest_fields(void ** state) {
    (void) state;
    uint32_t w[8];
    array_mem_bd(&(struct array_bd){.address = ARRAY_MEM_BYTES - 4,
                                    .words = (1 << 17) - 1,
                                    .next = 47,
                                    .acquire = 63,
                                    .acquire_value = -64,
                                    .release = 63,
                                    .release_value = 63,
                                    .wrap = {1023, 1023, 1023},
                                    .step = {1 << 17, 1 << 17, 1 << 17, 1 << 17},
                                    .before = {63, 31, 15},
                                    .after = {63, 31, 15},
                                    .iterations = 64,
                                    .iteration_step = 1 << 17},
                 w);
    const uint32_t mem[8] = {0x0001ffff, 0xfefbffff, 0x07ffffff, 0xffffffff,
                             0x7fffffff, 0xffffffff, 0x007fffff, 0xbf7fc07f};
    assert_memory_equal(w, mem, sizeof(mem));

    array_core_bd(&(struct array_bd){.address = 0xfffc,
                                     .words = (1 << 14) - 1,
                                     .next = 15,
                                     .acquire = 15,
                                     .acquire_value = -64,
                                     .release = 15,
                                     .release_value = 63,
                                     .wrap = {255, 255},
                                     .step = {1 << 13, 1 << 13, 1 << 13},
                                     .iterations = 64,
                                     .iteration_step = 1 << 13},
                  w);
    const uint32_t core[6] = {0x0fffffff, 0, 0x03ffffff, 0x1fffffff, 0x0007ffff, 0x7efdf80f};
    assert_memory_equal(w, core, sizeof(core));

    array_shim_bd(&(struct array_bd){.words = UINT32_MAX,
                                     .next = 15,
                                     .acquire = -1,
                                     .release = -1,
                                     .wrap = {1023, 1023},
                                     .step = {1 << 20, 1 << 20, 1 << 20},
                                     .iterations = 64,
                                     .iteration_step = 1 << 20},
                  aie_target(AIE_ARCH_AIE2), w);
    const uint32_t shim[8] = {UINT32_MAX, 0,          0,          0x3fffffff,
                              0xbfffffff, 0x020fffff, 0x03ffffff, 0x7e000000};
    assert_memory_equal(w, shim, sizeof(shim));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memtile_as_in_gemm),
        cmocka_unit_test(core_as_in_gemm),
        cmocka_unit_test(largest_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

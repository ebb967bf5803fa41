// Quantized weights that lie in panels: products and UNPACK come to the same bits as of the same
// weights row behind row, which other tests hold against exact sums; what is read of them is long
// runs; and panels that do not fit are refused.
#include "block-values.h"
#include "kernel-rig.h"

#include "aie/ops/mul-mat/mul-mat.h"

static uint64_t seed = 7;

static uint32_t next(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (seed >> 33);
}

static int64_t words_of(enum kernel_blocks kind, int64_t k) {
    return k / kernel_block_k(kind) * kernel_block_bytes(kind) / 4;
}

static struct kernel_spec product(enum kernel_blocks kind, enum dtype b, int64_t m, int64_t n,
                                  int64_t k, int64_t batch) {
    return (struct kernel_spec){
        .op = KERNEL_OP_MUL_MAT_BLOCKS,
        .arch = rig_arch,
        .columns = rig_columns,
        .n_inputs = 2,
        .inputs = {tensor_contiguous(DTYPE_I32, (int64_t[]){words_of(kind, k), m, batch, 1}),
                   tensor_contiguous(b, (int64_t[]){k, n, batch, 1})},
        .output = tensor_contiguous(DTYPE_F32, (int64_t[]){m, n, batch, 1}),
        .params[0] = kind,
    };
}

static struct kernel_spec unpacking(enum kernel_blocks kind, int64_t m, int64_t k) {
    return (struct kernel_spec){
        .op = KERNEL_OP_UNPACK,
        .arch = rig_arch,
        .columns = rig_columns,
        .n_inputs = 1,
        .inputs = {tensor_contiguous(DTYPE_I32, (int64_t[]){words_of(kind, k), m, 1, 1})},
        .output = tensor_contiguous(DTYPE_BF16, (int64_t[]){k, m, 1, 1}),
        .params[0] = kind,
    };
}

static void fill(struct rig * r, const struct kernel_spec * spec) {
    enum kernel_blocks kind = kernel_blocks_of(spec);
    size_t block = (size_t) kernel_block_bytes(kind), bytes = r->size[0] - RIG_GUARD;
    for (size_t i = 0; i < bytes; i++) {
        r->data[0][i] = (uint8_t) next();
    }
    for (size_t at = 0; at < bytes; at += block) {
        r->data[0][at] = kind == KERNEL_MXFP4 ? (uint8_t) (121 + next() % 12) : r->data[0][at];
        for (size_t i = 0; i + 1 < block; i += 2) {
            uint16_t d = (uint16_t) ((next() & 0x83ff) | (8 + (next() & 7)) << 10);
            if (block_is_scale(kind, (int) i)) {
                memcpy(r->data[0] + at + i, &d, 2);
            }
        }
    }
    for (size_t i = 0; spec->n_inputs > 1 && i < r->size[1] - RIG_GUARD; i += 4) {
        uint32_t v = (next() & 0x807f) << 16 | (124 + (next() & 3)) << 23;
        v = spec->inputs[1].dtype == DTYPE_F32 ? v | (next() & 0xffff) : v | v >> 16;
        memcpy(r->data[1] + i, &v, 4);
    }
}

// By its definition: word by word, and what pairs of blocks have between them.
static void to_panels(uint8_t * data, int64_t rows, int64_t row_words, struct kernel_panel p) {
    size_t bytes = (size_t) (rows * row_words) * 4;
    uint8_t * from = malloc(bytes);
    memcpy(from, data, bytes);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t w = 0; w < row_words; w++) {
            int64_t panel = row / p.rows, chunk = w / p.words;
            int64_t to =
                ((panel * (row_words / p.words) + chunk) * p.rows + row % p.rows) * p.words +
                w % p.words;
            memcpy(data + 4 * to, from + 4 * (row * row_words + w), 4);
        }
    }
    for (size_t at = 0; p.pair && at < bytes; at += (size_t) p.pair) { // chunks are whole pairs
        size_t width = (size_t) p.width, blocks = 4 / width;
        size_t block = (size_t) p.pair / blocks, numbers = block - width;
        uint8_t old[512], *to = data + at;
        memcpy(old, to, blocks * block);
        for (size_t i = 0; i < blocks; i++) { // scales before all, or between two
            const uint8_t * from = old + i * block;
            memcpy(to + (p.scale ? numbers : 0) + width * i, from + p.scale, width);
            memcpy(to + (p.scale ? i * (numbers + 4) : 4 + i * numbers),
                   from + (p.scale ? 0 : width), numbers);
        }
    }
    free(from);
}

static uint64_t short_reads(const struct rig * r) { // bytes so far, in runs of less than 512
    struct emu_counters c;
    emu_machine_counters(r->machine, &c);
    uint64_t sum = 0;
    for (int i = 0; i < EMU_RUN_KINDS && emu_run_limits[i] && emu_run_limits[i] <= 512; i++) {
        sum += c.runs.read[i];
    }
    return sum;
}

static void same_bits(struct rig * r, struct kernel_spec spec, struct kernel_panel panel) {
    struct kernel_code plain, paneled;
    struct error err = {0};
    const struct tensor * a = &spec.inputs[0];
    int64_t rows = a->ne[1] * a->ne[2];
    char name[KERNEL_NAME_MAX];
    assert_int_equal(rig_compile(&spec, &plain, &err), ST_OK);
    struct kernel_spec other = spec;
    other.params[0] = kernel_blocks_param(kernel_blocks_of(&spec), panel);
    kernel_name(&other, name);
    if (rig_compile(&other, &paneled, &err) != ST_OK) {
        fail_msg("%s: %s", name, err.text);
    }
    rig_allocate(r, &spec);
    for (int round = 0; round < 2; round++) {
        fill(r, &spec);
        int out = spec.n_inputs;
        rig_run(r, &spec, &plain);
        uint8_t * want = malloc(r->size[out]);
        memcpy(want, r->data[out], r->size[out]);
        memset(r->data[out], 0xa5, r->size[out]);
        to_panels(r->data[0], rows, a->ne[0], panel);
        uint64_t before = short_reads(r);
        rig_run(r, &other, &paneled);
        if (memcmp(want, r->data[out], r->size[out])) {
            fail_msg("%s: other bits than of the same weights row behind row", name);
        }
        bool vector =
            spec.n_inputs == 1 || spec.output.ne[1] <= 16; // more rows of b come in pieces
        vector &= panel.rows * panel.words * 4 >= 512;
        if (vector && short_reads(r) != before) {
            fail_msg("%s: %llu bytes were read in short runs", name,
                     (unsigned long long) (short_reads(r) - before));
        }
        free(want);
    }
    rig_free(r);
    kernel_code_free(&plain);
    kernel_code_free(&paneled);
}

// What gemm makes of blocks comes to the bits of what it makes of their numbers in bf16, which
// UNPACK has made.
static void as_unpacked(struct rig * r, enum kernel_blocks kind, struct kernel_panel panel,
                        int64_t m, int64_t n, int64_t k) {
    struct kernel_spec blocks = product(kind, DTYPE_BF16, m, n, k, 1),
                       unpack = unpacking(kind, m, k), numbers = blocks;
    struct kernel_code code;
    struct error err = {0};
    blocks.params[0] = unpack.params[0] = kernel_blocks_param(kind, panel);
    if (rig_compile(&blocks, &code, &err) != ST_OK) {
        fail_msg("%s: %s", kernel_block_name(kind), err.text);
    }
    rig_allocate(r, &blocks);
    fill(r, &blocks);
    to_panels(r->data[0], m, blocks.inputs[0].ne[0], panel);
    rig_run(r, &blocks, &code);
    size_t size[3];
    uint8_t * held[3];
    for (int i = 0; i < 3; i++) {
        size[i] = r->size[i] - RIG_GUARD;
        held[i] = malloc(size[i]);
        memcpy(held[i], r->data[i], size[i]);
    }
    rig_free(r);
    kernel_code_free(&code);
    assert_int_equal(rig_compile(&unpack, &code, &err), ST_OK);
    rig_allocate(r, &unpack);
    memcpy(r->data[0], held[0], size[0]);
    rig_run(r, &unpack, &code);
    uint8_t * bf16 = malloc((size_t) (2 * m * k));
    memcpy(bf16, r->data[1], (size_t) (2 * m * k));
    rig_free(r);
    kernel_code_free(&code);
    numbers.op = KERNEL_OP_MUL_MAT;
    numbers.inputs[0] = unpack.output;
    numbers.params[0] = 0;
    assert_int_equal(rig_compile(&numbers, &code, &err), ST_OK);
    rig_allocate(r, &numbers);
    memcpy(r->data[0], bf16, (size_t) (2 * m * k));
    memcpy(r->data[1], held[1], size[1]);
    rig_run(r, &numbers, &code);
    for (int64_t i = 0; i < m * n; i++) {
        if (memcmp(held[2] + 4 * i, r->data[2] + 4 * i, 4)) {
            fail_msg(
                "%s, %lld x %lld x %lld: row %lld times row %lld is not what its bf16 comes to",
                kernel_block_name(kind), (long long) m, (long long) n, (long long) k,
                (long long) (i % m), (long long) (i / m));
        }
    }
    rig_free(r);
    kernel_code_free(&code);
    free(bf16);
    for (int i = 0; i < 3; i++) {
        free(held[i]);
    }
}

static int64_t whole(enum kernel_blocks kind, int64_t k) {
    int64_t cut = kernel_block_cut(kind);
    return (k + cut - 1) / cut * cut;
}

// As the layout is chosen, for the shapes of models; and for any number of rows of b.
static void products(void ** state) {
    (void) state;
    static const struct {
        int64_t m, k, batch;
    } shapes[] = {{256, 2048, 1}, {448, 896, 1}, {1104, 512, 1}, {64, 2048, 3}};
    static const int64_t ns[] = {1, 2, 3, 5, 8, 16};
    struct rig r;
    rig_open(&r);
    int n = 0, chosen = 0;
    for (int kind = 0; kind < KERNEL_BLOCKS; kind++) {
        enum kernel_blocks b = (enum kernel_blocks) kind;
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            int64_t k = whole(b, shapes[i].k);
            struct kernel_spec one = product(b, DTYPE_F32, shapes[i].m, 1, k, 1);
            struct kernel_panel panel;
            if (!aie_panel(&one, &panel)) {
                continue;
            }
            chosen++;
            assert_true(panel.rows * panel.words * 4 >= 512);
            for (size_t j = 0; j < sizeof ns / sizeof ns[0]; j++) {
                struct kernel_spec spec = product(b, n % 2 ? DTYPE_BF16 : DTYPE_F32, shapes[i].m,
                                                  ns[j], k, shapes[i].batch);
                if (aie_supports(&spec, NULL) == ST_OK &&
                    n++ % (rig_whole ? 1 : 11 * RIG_EVERY) == 0) {
                    same_bits(&r, spec, panel);
                }
            }
        }
    }
    print_message("%d layouts, %d products\n", chosen, n);
    assert_true(chosen >= 3 * KERNEL_BLOCKS);
    rig_close(&r);
}

static void many_rows(void ** state) {
    (void) state;
    static const int64_t ns[] = {17, 300, 40};
    const struct mm_type * t = mm_type(rig_arch, DTYPE_BF16);
    struct rig r;
    int n = 0;
    rig_open(&r);
    for (int kind = 0; kind < KERNEL_BLOCKS; kind++) {
        enum kernel_blocks b = (enum kernel_blocks) kind;
        bool many = mm_takes_many(t, b, true), by_gemm = mm_by_gemm(t, b);
        if (kind % RIG_EVERY) {
            continue;
        }
        size_t shapes = rig_whole || (by_gemm && RIG_EVERY == 1) ? 3
                        : many && RIG_EVERY == 1                 ? 2
                                                                 : 1;
        for (size_t i = 0; i < shapes; i++) {
            int64_t k = many || rig_whole ? 2048 : 512;
            struct kernel_spec one = product(b, DTYPE_F32, 272, 1, k, 1), spec;
            struct kernel_panel panel;
            spec =
                product(b, many || by_gemm || kind % 2 ? DTYPE_BF16 : DTYPE_F32, 272, ns[i], k, 1);
            if (!mm_takes_many(t, b, false) && many) {
                continue; // row behind row gemv's program takes it
            }
            bool some = many || by_gemm || rig_whole || b == KERNEL_Q8_0 || b == KERNEL_Q6_K;
            if (some && aie_panel(&one, &panel) && aie_supports(&spec, NULL) == ST_OK) {
                same_bits(&r, spec, panel);
                n++;
            }
        }
    }
    print_message("%d products\n", n);
    assert_true(n > 0);
    rig_close(&r);
}

// Chunks of one pair of blocks, and of several; one tile of a core, two, and rows that are left.
static void many_as_unpacked(void ** state) {
    (void) state;
    static const struct {
        int64_t m, n, k;
    } shapes[] = {{272, 40, 2048}, {256, 300, 512}, {64, 17, 8192}, {528, 520, 1024}};
    const struct mm_type * t = mm_type(rig_arch, DTYPE_BF16);
    struct rig r;
    int n = 0;
    rig_open(&r);
    for (int kind = 0; kind < KERNEL_BLOCKS; kind++) {
        enum kernel_blocks b = (enum kernel_blocks) kind;
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            struct kernel_spec one = product(b, DTYPE_F32, shapes[i].m, 1, shapes[i].k, 1);
            struct kernel_panel panel;
            if (mm_takes_many(t, b, true) && (i + (size_t) kind) % RIG_EVERY == 0 &&
                aie_panel(&one, &panel)) {
                as_unpacked(&r, b, panel, shapes[i].m, shapes[i].n, shapes[i].k);
                n++;
            }
        }
    }
    print_message("%d products\n", n);
    assert_true(n > 0 || !t->gemm_takes_blocks || RIG_EVERY > 1);
    rig_close(&r);
}

static void unpacked(void ** state) {
    (void) state;
    static const int64_t ms[] = {16, 80, 528, 272};
    const struct mm_type * t = mm_type(rig_arch, DTYPE_BF16);
    struct rig r;
    rig_open(&r);
    for (int kind = 0; kind < KERNEL_BLOCKS; kind++) {
        enum kernel_blocks b = (enum kernel_blocks) kind;
        for (size_t i = (size_t) kind % 2; i < sizeof ms / sizeof ms[0];
             i += rig_whole ? 1 : 2 * RIG_EVERY) {
            struct kernel_spec one = product(b, DTYPE_F32, ms[i], 1, 2048, 1);
            struct kernel_panel panel;
            if (!aie_panel(&one, &panel)) {
                continue;
            }
            struct kernel_spec unpack = unpacking(b, ms[i], 2048);
            if (mm_unpacks(t, b, panel.pair > 0)) {
                same_bits(&r, unpack, panel);
            } else {
                unpack.params[0] = kernel_blocks_param(b, panel);
                assert_int_not_equal(aie_supports(&unpack, NULL), ST_OK);
            }
        }
    }
    rig_close(&r);
}

// Panels whose blocks lie as ggml has them are other ones, and are taken as well.
static void without_pairs(void ** state) {
    (void) state;
    static const enum kernel_blocks kinds[] = {KERNEL_Q4_0, KERNEL_Q8_0, KERNEL_Q6_K};
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct kernel_spec spec = product(kinds[i], DTYPE_F32, 64, 1, 1024, 1);
        struct kernel_panel panel;
        assert_true(aie_panel(&spec, &panel));
        assert_int_equal(panel.pair != 0, kinds[i] == KERNEL_Q6_K || rig_arch == AIE_ARCH_AIE2P);
        uint32_t paired = kernel_blocks_param(kinds[i], panel);
        panel.pair = panel.scale = 0;
        assert_int_equal(paired != kernel_blocks_param(kinds[i], panel),
                         kinds[i] == KERNEL_Q6_K || rig_arch == AIE_ARCH_AIE2P);
        same_bits(&r, spec, panel);
        same_bits(&r, unpacking(kinds[i], 64, 1024), panel);
    }
    rig_close(&r);
}

// Names tell the layouts apart, and nonsense is refused.
static void refused(void ** state) {
    (void) state;
    static const struct {
        int rows, words;
    } wrong[] = {{3, 36}, {32, 36}, {255, 36}, {8, 0},    {8, 35},
                 {8, 40}, {8, 360}, {0, 36},   {8, 65535}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct kernel_spec specs[] = {product(KERNEL_Q4_0, DTYPE_F32, 512, 1, 2048, 1),
                                      unpacking(KERNEL_Q4_0, 512, 2048)};
        for (int s = 0; s < 2; s++) {
            struct error err = {0};
            struct kernel_panel panel = {.rows = wrong[i].rows, .words = wrong[i].words};
            specs[s].params[0] = kernel_blocks_param(KERNEL_Q4_0, panel);
            assert_int_not_equal(aie_supports(&specs[s], &err), ST_OK);
            assert_true(err.text[0]);
        }
    }
    struct kernel_spec rows = product(KERNEL_Q4_0, DTYPE_F32, 500, 1, 2048, 1);
    rows.params[0] = kernel_blocks_param(KERNEL_Q4_0, kernel_panel(rig_arch, KERNEL_Q4_0, 8, 36));
    assert_int_not_equal(aie_supports(&rows, NULL), ST_OK); // 500 rows are no panels of 8
    rows = product(KERNEL_Q4_0, DTYPE_F32, 512, 1, 2048, 1);
    rows.params[0] = kernel_blocks_param(KERNEL_Q4_0, kernel_panel(rig_arch, KERNEL_Q4_0, 8, 36));
    assert_int_equal(aie_supports(&rows, NULL), ST_OK);
    rows.inputs[0].nb[1] += 4;
    assert_int_not_equal(aie_supports(&rows, NULL), ST_OK); // nor rows apart
    rows = product(KERNEL_Q4_K, DTYPE_F32, 512, 1, 2048, 1);
    struct kernel_panel panel = {.rows = 8, .words = 36};
    rows.params[0] = kernel_blocks_param(KERNEL_Q4_K, panel);
    assert_int_equal(aie_supports(&rows, NULL), ST_OK);
    panel.pair = 288;
    rows.params[0] = kernel_blocks_param(KERNEL_Q4_K, panel);
    assert_int_not_equal(aie_supports(&rows, NULL), ST_OK); // which has no pairs
}

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products), cmocka_unit_test(many_rows),
        cmocka_unit_test(unpacked), cmocka_unit_test(without_pairs),
        cmocka_unit_test(refused),  cmocka_unit_test(many_as_unpacked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

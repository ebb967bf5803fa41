// test-listing: a matrix multiplication that was traced on a Strix, cycle by cycle, walked bundle
// by bundle. Its time on the silicon was the number of its bundles and, for some addresses of its
// operands, one cycle for each pair of loads that met in a bank: the rule that the emulator's banks
// follow, held against 1,234 windows of the silicon.
#include "emu/aie/timing/walk.h"

static const char * const file = "aie2p-gemm/matmul_bf16_f32_bfp16_64x64x48.objdump.txt";

enum { PROGRAM = 0x1000, STACK = 0x0, C_ADDR = 0x3d00 };

// Pointers to the operands are in p0, p1 and p2.
static void walk_function(struct walk * w, const struct listing * l, int32_t a, int32_t b,
                          int32_t c) {
    memset(w, 0, sizeof *w);
    w->isa = aie_isa_get(AIE_ARCH_AIE2P);
    w->clock = emu_clock_default(AIE_ARCH_AIE2P);
    w->program = l;
    w->base = w->pc = PROGRAM;
    walk_set(w, AIE_REG(AIE_P, 0), a);
    walk_set(w, AIE_REG(AIE_P, 1), b);
    walk_set(w, AIE_REG(AIE_P, 2), c);
    walk_set(w, AIE_REG(AIE_P, 6), 0);
    walk_set(w, AIE_REG(AIE_P, 7), 0);
    walk_set(w, AIE_REG(AIE_SPC, AIE_SPC_SP), STACK);
    walk_run(w);
}

// Rows A01, A02, A03. Where C lies changes nothing: no bundle both loads and stores.
static void matrix_multiplication(void ** state) {
    (void) state;
    struct listing l;
    struct walk w;
    listing_read(&l, file, "matmul_bf16_f32");
    // The four places that the reference says are to be linked.
    assert_int_equal(l.n_relocations, 4);
    assert_int_equal(listing_label(&l, ".LBB0_3"), 0x1f0);
    assert_int_equal(listing_label(&l, ".L_LEnd0"), 0x250);
    static const struct {
        int32_t a, b, c;
        uint64_t conflicts;
    } layouts[] = {{0x6d00, 0xad00, 0xd00, 84},
                   {0x6d00, 0xad00, 0x3d00, 84},
                   {0x8d00, 0xc500, 0xd00, 0},
                   {0x8d00, 0xc500, 0x3d00, 0}};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        walk_function(&w, &l, layouts[i].a, layouts[i].b, layouts[i].c);
        print_message("A 0x%x, B 0x%x, C 0x%x: %d bundles, %d with a multiplication, %d accesses, "
                      "%d conflicts, %d jumps, %d back edges\n",
                      layouts[i].a, layouts[i].b, layouts[i].c, (int) w.bundles,
                      (int) w.multiplications, (int) w.accesses, (int) w.conflicts, (int) w.jumps,
                      (int) w.back_edges);
        assert_int_equal(w.bundles, 1385);
        assert_int_equal(w.multiplications, 576);
        assert_int_equal(w.conflicts, layouts[i].conflicts);
    }
}

// Row A04: the rest of that design's core, 192 trips of three bundles.
static void zeros(void ** state) {
    (void) state;
    struct listing l;
    struct walk w;
    listing_read(&l, file, "zero_f32");
    walk_function(&w, &l, C_ADDR, 0, 0);
    print_message("zero_f32: %d bundles, %d conflicts\n", (int) w.bundles, (int) w.conflicts);
    assert_int_equal(w.bundles, 582);
    assert_int_equal(w.conflicts, 0);
}

// ---- the windows themselves ----

enum { MAX_STALLS = 512 };

struct windows {
    int n;
    int stalls[MAX_STALLS]; // how many windows had so many at banks
};

// All windows of a program in the traces. Less its stalls each of them took so many cycles, and so
// many of these had a vector instruction.
static void windows_read(struct windows * w, const char * program, uint64_t issued,
                         uint64_t vectors) {
    static const char path[] = GOLDEN_DIR "/timing/aie2p-windows.tsv";
    FILE * f = fopen(path, "r");
    if (!f) {
        skip_golden(path);
    }
    memset(w, 0, sizeof *w);
    char line[512], name[64];
    while (fgets(line, sizeof line, f)) {
        unsigned cycles, issue, vec, mem, lock, stream;
        if (sscanf(line, "%*[^\t]\t%*[^\t]\t%63[^\t]\t%u\t%u\t%u\t%u\t%u\t%u", name, &cycles,
                   &issue, &vec, &mem, &lock, &stream) != 7 ||
            strcmp(name, program) != 0) {
            continue;
        }
        assert_int_equal(cycles - mem - lock - stream, issued);
        assert_int_equal(issue, issued);
        assert_int_equal(vec, vectors);
        assert_true(mem < MAX_STALLS);
        w->stalls[mem]++;
        w->n++;
    }
    fclose(f);
}

// The stalls that most windows had, those without `but`.
static int most_windows(const struct windows * w, int but) {
    int most = -1;
    for (int i = 0; i < MAX_STALLS; i++) {
        most = i != but && (most < 0 || w->stalls[i] > w->stalls[most]) ? i : most;
    }
    return most;
}

// The core took its operands from two pairs of buffers in turn. DMA was at work too, so that many
// windows have some stalls more than the core's own.
static void all_windows(void ** state) {
    (void) state;
    struct listing l;
    struct walk apart, near, zero;
    struct windows w;
    listing_read(&l, file, "matmul_bf16_f32");
    walk_function(&apart, &l, 0x8d00, 0xc500, C_ADDR);
    walk_function(&near, &l, 0x6d00, 0xad00, C_ADDR);
    windows_read(&w, "mm_bfp16_64x64x48", apart.bundles, apart.multiplications);
    int first = most_windows(&w, -1), second = most_windows(&w, first);
    print_message("%d windows; %d have %d stalls, %d have %d\n", w.n, w.stalls[first], first,
                  w.stalls[second], second);
    assert_int_equal(w.n, 1234);
    assert_int_equal(first < second ? first : second, apart.conflicts);
    assert_int_equal(first < second ? second : first, near.conflicts);
    listing_read(&l, file, "zero_f32");
    walk_function(&zero, &l, C_ADDR, 0, 0);
    windows_read(&w, "zero_f32_3072", zero.bundles, 0);
    assert_int_equal(w.n, 224);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix_multiplication),
        cmocka_unit_test(zeros),
        cmocka_unit_test(all_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

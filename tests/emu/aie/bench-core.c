// How fast the core executes bundles, each time under a zero-overhead loop: a software-pipelined
// f32 vector add (load, load, add, store), a scalar loop, the inner loops of matrix products and
// their multiply-accumulates alone. Prints; asserts only that the sums are right.
#include "core-rig.h"

#include <time.h>

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static void report(struct rig * r, const char * what) {
    double from = seconds();
    run_to(r, CORE_READY);
    double took = seconds() - from;
    printf("%-28s %8.2f million bundles/s\n", what, 1e-6 * (double) core_bundles(r->core) / took);
}

static uint32_t loop_head(struct rig * r, int bundles) {
    uint32_t start = 16 * 12;
    EMIT(r, ins(r, "MOVXM_lng_cg", "di", LS, start));
    EMIT(r, ins(r, "MOVXM_lng_cg", "di", LE, start + 16 * (uint32_t) (bundles - 1)));
    EMIT(r, ins(r, "MOVXM_lng_cg", "di", LC, 0x7fffffff));
    nops(r, 9);
    return start;
}

static struct rig * f32_operands(void) {
    struct rig * r = rig_new(false);
    loop_head(r, 4);
    set(r, P(0), RIG_BASE);
    set(r, P(1), RIG_BASE + 0x100);
    set(r, P(2), RIG_BASE + 0x200);
    set(r, R(0), 60);
    for (int i = 0; i < 64; i++) {
        float a = (float) i, b = (float) (1000 * i);
        memcpy(r->memory + 4 * i, &a, 4);
        memcpy(r->memory + 0x100 + 4 * i, &b, 4);
    }
    return r;
}

static void check_sum(struct rig * r) {
    float last;
    memcpy(&last, r->memory + 0x200 + 60, 4);
    assert_int_equal((int) last, 15015);
    rig_free(r);
}

// 16 lanes in 4 bundles, as one load unit for accumulators allows: 4 loads, 1 add, 2 stores.
static void f32_vector_add(void ** state) {
    (void) state;
    struct rig * r = f32_operands();
    for (int i = 0; i < 4; i++) {
        struct aie_inst b[3] = {
            ins(r, "VLDA_dmw_lda_am_ag_idx_imm", "dpi", AM(i), P(i / 2), 32 * (i & 1)),
            ins(r, "VADD_F", "dabc", BM(2), BM(0), BM(1), R(0)),
            ins(r, "VST_dmw_sts_am_ag_idx_imm", "api", AM(4 + (i & 1)), P(2), 32 * (i & 1))};
        b[1] = i == 0 ? b[1] : b[2];
        emit_n(r, i == 0 || i == 2 || i == 3 ? 2 : 1, b);
    }
    report(r, "f32 add, 16 lanes a turn");
    check_sum(r);
}

// Every bundle loads twice, adds and stores: more than an f32 loop can ask for.
static void f32_full_bundles(void ** state) {
    (void) state;
    struct rig * r = f32_operands();
    for (int i = 0; i < 4; i++) {
        EMIT(r, ins(r, "VLDA_dmw_lda_am_ag_idx_imm", "dpi", AM(i), P(i / 2), 32 * (i & 1)),
             ins(r, "VLDB_dmw_ldb_ag_idx_imm", "dpi", W(i), P(0), 32),
             ins(r, "VADD_F", "dabc", BM(2), BM(0), BM(1), R(0)),
             ins(r, "VST_dmw_sts_am_ag_idx_imm", "api", AM(4 + (i & 1)), P(2), 32 * (i & 1)));
    }
    report(r, "f32 add, 4 slots a bundle");
    check_sum(r);
}

static void scalar_loop(void ** state) {
    (void) state;
    struct rig * r = rig_new(false);
    loop_head(r, 4);
    for (int i = 0; i < 4; i++) {
        EMIT(r, ins(r, "ADD_add_r_ri", "dai", R(i), R(i), 1),
             ins(r, "MOV_mv_scl", "da", R(8 + i), R(i)));
    }
    report(r, "scalar add and move");
    assert_int_equal(get(r, R(0)), get(r, R(8)) + 1);
    rig_free(r);
}

// ---- matrix products ----

enum { MIX_BUNDLES = 54, MIX_MACS = 48, MIX_OUT = 0x8000 };

struct mix {
    const char * what;
    const char * mac;
    int accs, acc_parts; // accumulators in turn, 32-byte parts of one
    uint32_t conf, shuffle;
    int products; // of one multiply-accumulate
};

static const struct mix mixes[] = {
    {"bf16 4x8x4", "VMAC_F_vmac_bm_core_dense", 8, 2, 28, 29, 128},
    {"i8 4x8x8", "VMAC_vmac_cm_core_dense", 4, 4, 0x308, 35, 256},
};

static aie_reg mix_acc(const struct mix * m, int i) {
    return m->acc_parts == 2 ? BM(i % m->accs) : CM(i % m->accs);
}

// Values of either type: bf16 with exponents near 1, or bytes.
static struct rig * mix_rig(const struct mix * m, int bundles) {
    struct rig * r = rig_new(false);
    uint32_t seed = 12345;
    for (int i = 0; i < 0x4000; i++) {
        seed = seed * 1664525 + 1013904223;
        uint32_t e = 120 + (seed >> 8) % 10;
        uint16_t v = (uint16_t) ((seed >> 16 & 0x8000) | e << 7 | (seed >> 20 & 127));
        memcpy(r->memory + 2 * i, &v, 2);
    }
    for (int i = 0; i < 8; i++) {
        set(r, P(i), RIG_BASE + (i == 7 ? MIX_OUT : 0x1000 * (uint32_t) i));
    }
    for (int i = 0; i < 4; i++) {
        core_reg_set(r->core, X(i), r->memory + 64 * i);
    }
    set(r, AIE_REG(AIE_DJ, 0), 0x400);
    set(r, R(0), m->conf);
    set(r, R(1), m->shuffle);
    loop_head(r, bundles);
    return r;
}

// The instructions of one k-step of a 4 x 4 block of tiles, spread over the bundles as a pipelined
// loop has them: 72 vector loads, 16 accumulator loads and stores, 24 shuffles.
static void mix_loop(const struct mix * m, bool full) {
    int bundles = full ? MIX_BUNDLES : MIX_MACS;
    struct rig * r = mix_rig(m, bundles);
    for (int i = 0; i < bundles; i++) {
        struct aie_inst b[5];
        // a part of an accumulator that no result reaches in the same cycle
        int n = 0, part = (i + 4) % m->accs * m->acc_parts + i / 3 % m->acc_parts;
        if (i < MIX_MACS) {
            b[n++] = ins(r, m->mac, "deabc", mix_acc(m, i), mix_acc(m, i), X(i % 2),
                         X(2 + i / 2 % 2), R(0));
        }
        if (full && i < MIX_MACS) {
            if (i % 3 == 0) {
                b[n++] = ins(r, "VLDA_dmw_lda_am_ag_idx_imm", "dpi", AM(part), P(6), 32 * (i / 3));
            } else {
                b[n++] =
                    ins(r, "VLDA_dmw_lda_w_ag_idx_imm", "dpi", W(i % 4), P(i % 4), 32 * (i % 8));
            }
            b[n++] = i % 4 == 3 ? ins(r, "VLDB_dmw_ldb_ag_idx", "dpj", W(4 + i % 4), P(4),
                                      AIE_REG(AIE_DJ, 0))
                                : ins(r, "VLDB_dmw_ldb_ag_pstm_nrm_imm", "dpi", W(4 + i % 4), P(5),
                                      i % 4 == 0 ? -64 : 32);
            if (i % 3 == 2) {
                b[n++] = ins(r, "VST_dmw_sts_am_ag_idx_imm", "api", AM(part), P(7), 32 * (i / 3));
            }
            if (i % 2 == 1) {
                b[n++] = ins(r, "VSHUFFLE", "dabm", X(4 + i % 8), X(1), X(2), R(1));
            }
        }
        emit_n(r, n, b);
    }
    double from = seconds();
    run_to(r, CORE_READY);
    double took = seconds() - from;
    double n = (double) core_bundles(r->core), macs = n * MIX_MACS / bundles;
    printf("%-10s %-10s %8.2f million bundles/s %8.1f ns a MAC instruction %6.2f G MAC/s\n",
           m->what, full ? "whole loop" : "MAC alone", 1e-6 * n / took, 1e9 * took / macs,
           1e-9 * macs * m->products / took);
    rig_free(r);
}

static void bf16_matrix(void ** state) {
    (void) state;
    mix_loop(&mixes[0], true);
    mix_loop(&mixes[0], false);
}

static void i8_matrix(void ** state) {
    (void) state;
    mix_loop(&mixes[1], true);
    mix_loop(&mixes[1], false);
}

// An argument picks the benchmarks whose names match it ("*matrix").
int main(int argc, char ** argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_vector_add), cmocka_unit_test(f32_full_bundles),
        cmocka_unit_test(scalar_loop),    cmocka_unit_test(bf16_matrix),
        cmocka_unit_test(i8_matrix),
    };
    if (argc > 1 && argv[1][0] == '-') {
        bool help = !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h");
        fprintf(help ? stdout : stderr, "usage: bench-core [PATTERN]\n\n"
                                        "Measures how fast an emulated core is. The pattern, as "
                                        "f32_*, chooses loops.\n");
        return help ? 0 : 2;
    }
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

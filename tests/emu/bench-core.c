// How fast the core executes bundles: a software-pipelined f32 vector add (load, load, add, store)
// and a scalar loop, both under a zero-overhead loop. Prints; asserts only that the sums are right.
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_vector_add),
        cmocka_unit_test(f32_full_bundles),
        cmocka_unit_test(scalar_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

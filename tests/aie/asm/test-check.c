// The static checker against programs written by hand: each hazard that silicon does not forgive is
// shown once as it fails and once, one bundle later, as it passes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "aie/asm/asm.h"
#include "aie/isa/aie2.h"

enum { MAX_BUNDLES = 64 };

struct prog {
    uint8_t bytes[MAX_BUNDLES * 16];
    int n;
};

static const struct aie_isa * isa(void) {
    return aie_isa_get(AIE_ARCH_AIE2);
}

// One bundle with up to two instructions.
static void bundle2(struct prog * p, const struct aie_inst * a, const struct aie_inst * b) {
    struct aie_bundle out = {.size = 16};
    const struct aie_inst * const given[2] = {a, b};
    bool lng = false;
    for (int i = 0; i < 2; i++) {
        lng |= given[i] && aie_isa_instr(isa(), given[i]->op)->slot == AIE_SLOT_LNG;
    }
    for (int s = 0; s < AIE_SLOT_NOP; s++) {
        if (lng ? s == AIE_SLOT_ALU || s == AIE_SLOT_MV : s == AIE_SLOT_LNG) {
            continue;
        }
        out.present |= (uint8_t) (1u << s);
        out.slot[s].op = (uint16_t) aie_isa_nop(isa(), s);
    }
    for (int i = 0; i < 2; i++) {
        if (given[i]) {
            out.slot[aie_isa_instr(isa(), given[i]->op)->slot] = *given[i];
        }
    }
    int size = 0;
    struct error err = {0};
    assert_int_equal(aie_bundle_encode(isa(), &out, p->bytes + 16 * p->n, &size, &err), ST_OK);
    p->n++;
}

static void one(struct prog * p, struct aie_inst inst) {
    bundle2(p, &inst, NULL);
}

static void nops(struct prog * p, int n) {
    while (n-- > 0) {
        bundle2(p, NULL, NULL);
    }
}

// Ends every program: jump to itself.
static void finish(struct prog * p) {
    nops(p, 12);
    one(p, (struct aie_inst){AIE2_J_jump_imm, {16 * p->n}});
    nops(p, 5);
}

static void expect(struct prog * p, const char * reason) {
    finish(p);
    struct error err = {0};
    enum status st = asm_check(AIE_ARCH_AIE2, p->bytes, (size_t) p->n * 16, &err);
    if (!reason) {
        if (st != ST_OK) {
            print_message("%s\n", err.text);
        }
        assert_int_equal(st, ST_OK);
    } else {
        assert_int_equal(st, ST_INVALID);
        if (!strstr(err.text, reason)) {
            print_message("%s\n", err.text);
        }
        assert_non_null(strstr(err.text, reason));
    }
}

#define R(n)  AIE_REG(AIE_R, n)
#define P(n)  AIE_REG(AIE_P, n)
#define X(n)  AIE_REG(AIE_X, n)
#define W(n)  AIE_REG(AIE_W, n)
#define BM(n) AIE_REG(AIE_BM, n)
#define AM(n) AIE_REG(AIE_AM, n)

static const char in_flight[] = "still in flight";

static struct aie_inst lda(int r) {
    return (struct aie_inst){AIE2_LDA_dms_lda_idx_imm, {R(r), P(0), 0}};
}
static struct aie_inst add(int d, int a, int b) {
    return (struct aie_inst){AIE2_ADD, {R(d), R(a), R(b)}};
}
static struct aie_inst vadd(int d, int a, int b) {
    return (struct aie_inst){AIE2_VADD_32, {X(d), X(a), X(b)}};
}
static struct aie_inst vaddf(int d, int a, int b) {
    return (struct aie_inst){AIE2_VADD_F, {BM(d), BM(a), BM(b), R(0)}};
}
static struct aie_inst vst(int w) {
    return (struct aie_inst){AIE2_VST_dmw_sts_w_ag_pstm_nrm_imm, {P(1), W(w), 32}};
}
static struct aie_inst vst_am(int am) {
    return (struct aie_inst){AIE2_VST_dmw_sts_am_ag_pstm_nrm_imm, {P(1), AM(am), 32}};
}

// producer, `gap` idle bundles, consumer
static void pair(struct aie_inst first, int gap, struct aie_inst second, const char * reason) {
    struct prog p = {.n = 0};
    one(&p, first);
    nops(&p, gap);
    one(&p, second);
    expect(&p, reason);
}

static void reads_in_flight(void ** state) {
    (void) state;
    pair(add(1, 2, 3), 0, add(4, 1, 1), NULL); // scalar: next bundle
    pair(lda(1), 5, add(4, 1, 1), in_flight);  // load: seven
    pair(lda(1), 6, add(4, 1, 1), NULL);
    pair(vadd(1, 2, 3), 0, vadd(4, 1, 1), NULL); // bypass: next bundle
    pair(vadd(1, 2, 3), 0, vst(2), in_flight);   // the store has no bypass
    pair(vadd(1, 2, 3), 1, vst(2), NULL);
    pair(vadd(1, 2, 3), 0, vst(4), NULL);               // another register
    pair(vaddf(1, 2, 3), 2, vaddf(4, 1, 1), in_flight); // float adder to itself: four
    pair(vaddf(1, 2, 3), 3, vaddf(4, 1, 1), NULL);
    pair(vaddf(1, 2, 3), 4, vst_am(2), in_flight); // and to a store: six
    pair(vaddf(1, 2, 3), 5, vst_am(2), NULL);
}

static void results_that_collide(void ** state) {
    (void) state;
    pair(lda(1), 5, (struct aie_inst){AIE2_MOVA_lda_cg, {R(1), 5}}, "lands with or before");
    pair(lda(1), 6, (struct aie_inst){AIE2_MOVA_lda_cg, {R(1), 5}}, NULL);
    pair(lda(1), 5, (struct aie_inst){AIE2_MOVA_lda_cg, {R(2), 5}}, "one write port");
    pair(lda(1), 4, (struct aie_inst){AIE2_MOVA_lda_cg, {R(2), 5}}, NULL);
    // vadd.f reads its accumulators two cycles late; a move that lands before that spoils them
    pair(vaddf(4, 1, 1), 0, (struct aie_inst){AIE2_VMOV_mv_x, {BM(1), X(0)}}, NULL);
    struct prog p = {.n = 0};
    struct aie_inst late = {AIE2_ST_S16_ag_pstm_nrm_imm, {P(2), R(5), 2}};
    one(&p, late); // reads r5 in its seventh cycle
    one(&p, add(5, 6, 7));
    expect(&p, "late read");
}

static void locks_and_memory(void ** state) {
    (void) state;
    const struct aie_inst acq = {AIE2_ACQ_mLockId_imm, {48, R(3)}};
    const struct aie_inst rel = {AIE2_REL_mLockId_imm, {48, R(3)}};
    pair(acq, 2, lda(1), "too near behind a lock");
    pair(acq, 3, lda(1), NULL);
    pair(vst(0), 2, rel, "too near behind memory");
    pair(vst(0), 3, rel, NULL);
}

static void loop(int margin, int body, bool store_last, const char * reason) {
    struct prog p = {.n = 0};
    int first = 3 + margin;
    one(&p, (struct aie_inst){AIE2_MOVXM_lng_cg, {AIE_REG(AIE_SPC, AIE_SPC_LS), 16 * first}});
    one(&p, (struct aie_inst){AIE2_MOVXM_lng_cg,
                              {AIE_REG(AIE_SPC, AIE_SPC_LE), 16 * (first + body - 1)}});
    one(&p, (struct aie_inst){AIE2_ADD_NC, {AIE_REG(AIE_SPC, AIE_SPC_LC), R(1), 0}});
    nops(&p, margin + body - 1);
    if (store_last) {
        one(&p, vst(0));
    } else {
        nops(&p, 1);
    }
    expect(&p, reason);
}

static void loops(void ** state) {
    (void) state;
    loop(8, 1, false, NULL);
    loop(0, 10, false, NULL);
    loop(2, 4, false, "too near before the end of the loop");
    loop(8, 4, true, "a store in the last bundle");

    // across the back edge: a load at the end is not there when the first bundle reads it
    for (int late = 0; late < 2; late++) {
        struct prog p = {.n = 0};
        one(&p, (struct aie_inst){AIE2_MOVXM_lng_cg, {AIE_REG(AIE_SPC, AIE_SPC_LS), 16 * 11}});
        one(&p, (struct aie_inst){AIE2_MOVXM_lng_cg, {AIE_REG(AIE_SPC, AIE_SPC_LE), 16 * 19}});
        one(&p, (struct aie_inst){AIE2_ADD_NC, {AIE_REG(AIE_SPC, AIE_SPC_LC), R(1), 0}});
        nops(&p, 8);
        one(&p, add(4, 2, 2)); // 11: reads r2
        nops(&p, late ? 4 : 1);
        one(&p, lda(2));
        nops(&p, late ? 3 : 6);
        expect(&p, late ? in_flight : NULL);
    }
}

// A loop of `body` bundles with up to three instructions in it, each at its place; idle otherwise.
struct placed {
    int at;
    struct aie_inst inst;
};

static void overlapped(int body, const struct placed * placed, int n, const char * reason) {
    struct prog p = {.n = 0};
    one(&p, (struct aie_inst){AIE2_MOVXM_lng_cg, {AIE_REG(AIE_SPC, AIE_SPC_LS), 16 * 11}});
    one(&p, (struct aie_inst){AIE2_MOVXM_lng_cg, {AIE_REG(AIE_SPC, AIE_SPC_LE), 16 * (10 + body)}});
    one(&p, (struct aie_inst){AIE2_ADD_NC, {AIE_REG(AIE_SPC, AIE_SPC_LC), R(1), 0}});
    nops(&p, 8);
    for (int b = 0; b < body; b++) {
        const struct aie_inst * here[2] = {NULL, NULL};
        for (int i = 0, k = 0; i < n; i++) {
            if (placed[i].at == b && k < 2) {
                here[k++] = &placed[i].inst;
            }
        }
        bundle2(&p, here[0], here[1]);
    }
    expect(&p, reason);
}
#define OVERLAPPED(body, reason, ...)                                                              \
    overlapped((body), (const struct placed[]){__VA_ARGS__},                                       \
               (int) (sizeof((const struct placed[]){__VA_ARGS__}) / sizeof(struct placed)),       \
               (reason))

// Trips in flight together: what one trip began must not meet what the next one does.
static void trips_overlap(void ** state) {
    (void) state;
    const struct aie_inst mova = {AIE2_MOVA_lda_cg, {R(3), 5}};
    const struct aie_inst st16 = {AIE2_ST_S16_ag_pstm_nrm_imm, {P(2), R(5), 2}};
    // a load begun in one trip, used in the next: right in seven bundles, wrong in six
    OVERLAPPED(7, NULL, {0, add(4, 2, 2)}, {0, lda(2)});
    OVERLAPPED(6, in_flight, {0, add(4, 2, 2)}, {0, lda(2)});
    OVERLAPPED(4, NULL, {1, add(4, 2, 2)}, {3, lda(7)});
    // used two trips later, with one register: the load of the trip between has not landed
    OVERLAPPED(5, in_flight, {3, add(4, 2, 2)}, {3, lda(2)});
    // a load on top of the load of the trip before: with seven bundles it has landed
    OVERLAPPED(6, "lands with or before", {0, lda(2)},
               {3, (struct aie_inst){AIE2_MOVA_lda_cg, {R(2), 5}}});
    OVERLAPPED(8, NULL, {0, lda(2)}, {7, (struct aie_inst){AIE2_MOVA_lda_cg, {R(2), 5}}});
    // the write port: the load of one trip lands with a move of the next
    OVERLAPPED(5, "one write port", {0, lda(2)}, {1, mova});
    OVERLAPPED(5, NULL, {0, lda(2)}, {3, mova});
    // a late read (E7) against a write of the next trip
    OVERLAPPED(6, "late read", {4, st16}, {2, add(5, 6, 7)});
    OVERLAPPED(8, NULL, {0, st16}, {7, add(5, 6, 7)});
    // a late read and a quick write in one bundle: the write comes first
    OVERLAPPED(12, "late read", {3, st16}, {3, add(5, 6, 7)});
    OVERLAPPED(12, NULL, {3, st16}, {3, add(6, 5, 7)});
    // accumulators are read in E3: a vmov (E2) of the next trip spoils them, one bundle later not
    const struct aie_inst vmov = {AIE2_VMOV_mv_x, {BM(1), X(0)}};
    OVERLAPPED(9, "late read", {8, vaddf(4, 1, 1)}, {8, vmov});
    OVERLAPPED(9, NULL, {7, vaddf(4, 1, 1)}, {8, vmov});
}

static void branches(void ** state) {
    (void) state;
    const struct aie_inst jump = {AIE2_J_jump_imm, {16 * 10}};
    pair(jump, 3, jump, "delay slots");
    // the path through the branch arrives with a load in flight, the other one does not
    for (int late = 0; late < 2; late++) {
        struct prog p = {.n = 0};
        one(&p, (struct aie_inst){AIE2_JZ, {R(1), 16 * 12}});
        nops(&p, 4);
        one(&p, late ? lda(2) : add(2, 2, 2)); // last delay slot
        nops(&p, 6);
        one(&p, add(3, 2, 2)); // 12
        expect(&p, late ? in_flight : NULL);
    }
    // a bypass that is there on one of two paths only does not help
    for (int both = 0; both < 2; both++) {
        struct prog p = {.n = 0};
        one(&p, (struct aie_inst){AIE2_JZ, {R(1), 16 * 13}});
        nops(&p, 4);
        one(&p, vadd(1, 2, 3)); // 5: last delay slot, then to 13
        nops(&p, 6);
        one(&p,
            both ? vadd(1, 2, 3) : (struct aie_inst){AIE2_VMOV_mv_w, {W(3), W(4)}}); // 12, then 13
        one(&p, vadd(4, 1, 1));
        expect(&p, both ? NULL : in_flight);
    }
    struct prog p = {.n = 0};
    one(&p, (struct aie_inst){AIE2_J_jump_imm, {16 * 900}});
    expect(&p, "outside the program");
    struct prog q = {.n = 0};
    nops(&q, 3);
    struct error err = {0};
    assert_int_equal(asm_check(AIE_ARCH_AIE2, q.bytes, 48, &err), ST_INVALID);
    assert_non_null(strstr(err.text, "runs off the end"));
}

// ---- short bundles ----

struct bytes {
    uint8_t at[512];
    size_t n;
};

// A bundle of the given size with one instruction or none; 0 = the shortest.
static void sized(struct bytes * p, int size, const struct aie_inst * inst) {
    struct aie_bundle out = {.size = (uint8_t) size};
    struct error err = {0};
    uint8_t bytes[AIE_MAX_BUNDLE_BYTES];
    if (inst) {
        enum aie_slot slot = aie_isa_instr(isa(), inst->op)->slot;
        out.present = (uint8_t) (1u << slot);
        out.slot[slot] = *inst;
    }
    assert_int_equal(aie_bundle_encode(isa(), &out, bytes, &size, &err), ST_OK);
    memcpy(p->at + p->n, bytes, (size_t) size);
    p->n += (size_t) size;
}

static void idle(struct bytes * p, int size, int n) {
    while (n-- > 0) {
        sized(p, size, NULL);
    }
}

static void expect_bytes(struct bytes * p, const char * reason) {
    while (p->n % 16) {
        sized(p, 2, NULL);
    }
    sized(p, 6, &(struct aie_inst){AIE2_J_jump_imm, {(int32_t) p->n}});
    idle(p, 2, 5);
    struct error err = {0};
    assert_int_equal(asm_check(AIE_ARCH_AIE2, p->at, p->n, &err), reason ? ST_INVALID : ST_OK);
    if (reason && !strstr(err.text, reason)) {
        print_message("%s\n", err.text);
    }
    assert_true(!reason || strstr(err.text, reason));
}

// A loop of eight bundles of 2 bytes and a last one, behind `between` bytes in bundles of `size`.
static void short_loop(int size, int between, int first, int last, int last_size,
                       const char * reason) {
    struct bytes p = {.n = 0};
    sized(&p, 6, &(struct aie_inst){AIE2_MOVXM_lng_cg, {AIE_REG(AIE_SPC, AIE_SPC_LS), first}});
    sized(&p, 6, &(struct aie_inst){AIE2_MOVXM_lng_cg, {AIE_REG(AIE_SPC, AIE_SPC_LE), last}});
    sized(&p, 4, &(struct aie_inst){AIE2_ADD_NC, {AIE_REG(AIE_SPC, AIE_SPC_LC), R(1), 0}});
    idle(&p, size, between / size);
    idle(&p, 2, 8);
    idle(&p, last_size, 16 / last_size);
    expect_bytes(&p, reason);
}

static void short_bundles(void ** state) {
    (void) state;
    short_loop(16, 96, 112, 128, 16, NULL);
    short_loop(2, 96, 112, 128, 16, NULL);
    short_loop(16, 80, 96, 112, 16, "too near before the end of the loop");
    short_loop(16, 96, 114, 128, 16, "no aligned bundle");
    short_loop(16, 96, 112, 126, 16, "no aligned bundle");
    short_loop(16, 96, 112, 128, 4, "not a full one");
    // latencies count in bundles, whatever their size: a load is there in the seventh
    for (int size = 2; size <= 16; size += 14) {
        for (int wait = 5; wait <= 6; wait++) {
            struct bytes p = {.n = 0};
            struct aie_inst load = lda(2), use = add(4, 2, 2);
            sized(&p, 0, &load);
            idle(&p, size, wait);
            sized(&p, 0, &use);
            expect_bytes(&p, wait == 5 ? in_flight : NULL);
        }
    }
    for (int to = 46; to <= 50; to += 2) { // delay slots behind 22 bytes, idle bundles from 32 on
        struct bytes p = {.n = 0};
        sized(&p, 6, &(struct aie_inst){AIE2_J_jump_imm, {to}});
        idle(&p, 2, 21);
        expect_bytes(&p, to == 48 ? NULL : "no aligned bundle");
    }
    struct bytes p = {.n = 0}; // an address in the middle of a bundle
    sized(&p, 6, &(struct aie_inst){AIE2_J_jump_imm, {32}});
    idle(&p, 2, 12);
    idle(&p, 4, 1);
    expect_bytes(&p, "no aligned bundle");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_in_flight),  cmocka_unit_test(results_that_collide),
        cmocka_unit_test(locks_and_memory), cmocka_unit_test(loops),
        cmocka_unit_test(trips_overlap),    cmocka_unit_test(branches),
        cmocka_unit_test(short_bundles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Late loops: registers that are read while their next values are on the way. The checker follows
// each value through the bytes (asm/check-flow.c), so that a register that is not the right one is
// refused, and so is a loop of which nobody says what is meant.
#include "aie/aie.h"
#include "aie/asm/program.h"
#include "aie/asm/text.h"
#include "base/cmocka-all.h"

static const char two_vectors[] = "target aie2p\n"
                                  "global $p0 $p1 $r2\n"
                                  "loop $r2 every 1 late {\n"
                                  " -7: vlda %x3, [$p0], #64 @1\n"
                                  "  0: vadd.32 %x4, %x3, %x3\n"
                                  "  2: vst %x4, [$p1], #64 @2\n"
                                  "}\n"
                                  "L0:\n"
                                  "  j #L0\n";

struct made {
    struct asm_program * p;
    struct asm_code code;
    const struct asm_flow * flows[64];
    int n;
    int * pcs; // of bundles
};

static struct made make(const char * text) {
    struct made m = {0};
    struct error err = {0};
    enum status st = asm_read(text, &m.p, &err);
    st = st == ST_OK ? asm_finish(m.p, &m.code, &err) : st;
    assert_string_equal(err.text, "");
    assert_int_equal(st, ST_OK);
    for (int i = 0; i < m.p->n_items; i++) {
        if (m.p->items[i].flow) {
            assert_true(m.n < 64);
            m.flows[m.n++] = m.p->items[i].flow;
        }
    }
    m.pcs = m.p->addresses;
    return m;
}

static void free_made(struct made * m) {
    free(m->code.bytes);
    asm_free(m->p);
}

static bool holds(struct made * m, const char * reason) {
    struct error err = {0};
    enum status st =
        asm_check_flows(AIE_ARCH_AIE2P, m->code.bytes, m->code.size, m->flows, m->n, &err);
    if (st != ST_OK && reason && !strstr(err.text, reason)) {
        fail_msg("%s", err.text);
    }
    return st == ST_OK;
}

// The bytes alone do not say which value is meant.
static void is_refused_unexplained(void ** state) {
    (void) state;
    struct made m = make(two_vectors);
    struct error err = {0};
    assert_int_equal(m.n, 1);
    assert_true(holds(&m, NULL));
    assert_int_equal(asm_check(AIE_ARCH_AIE2P, m.code.bytes, m.code.size, &err), ST_INVALID);
    assert_non_null(strstr(err.text, "still in flight"));
    free_made(&m);
}

// Another value than the one that arrives is meant.
static void distances_count(void ** state) {
    (void) state;
    struct made m = make(two_vectors);
    struct asm_flow * f = m.p->items[0].flow;
    for (int i = 1; i < m.p->n_items && !f; i++) {
        f = m.p->items[i].flow;
    }
    int said = 0;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < ASM_FLOW_ARGS; k++) {
            int16_t * distance = &f->nodes[i].from[k][0].distance;
            if (*distance == ASM_FLOW_NONE) {
                continue;
            }
            for (int by = -1; by <= 1; by += 2) {
                *distance = (int16_t) (*distance + by);
                assert_false(holds(&m, "another value"));
                *distance = (int16_t) (*distance - by);
            }
            said++;
        }
    }
    assert_int_equal(said, 3); // vadd reads twice, vst once
    assert_true(holds(&m, NULL));
    free_made(&m);
}

// ---- registers ----

static bool is_of_flow(const struct asm_flow * f, aie_reg reg) {
    uint8_t units[8];
    int n = reg ? aie_reg_units(reg, units) : 0;
    for (int u = 0; u < n; u++) {
        if (asm_flow_has(f, units[u])) {
            return true;
        }
    }
    return false;
}

// Does anybody read what is issued here? Of the trips that lead in and out some parts are not
// wanted. A source counts bundles as they are executed, so that one in the repeated part may be a
// turn, or several, before.
static bool is_read(const struct asm_flow * f, const struct asm_issue * issue) {
    int length = f->to - f->from;
    for (int i = 0; i < f->n_issues; i++) {
        const struct asm_issue * reader = &f->issues[i];
        const struct asm_source * from = f->nodes[reader->node].from[0];
        for (int s = 0; s < ASM_FLOW_ARGS * ASM_FLOW_UNITS; s++) {
            if (from[s].distance == ASM_FLOW_NONE || from[s].slot != issue->slot) {
                continue;
            }
            int at = reader->bundle - from[s].distance;
            bool repeats = reader->bundle >= f->from && issue->bundle >= f->from &&
                           issue->bundle < f->to && at <= issue->bundle;
            if (at == issue->bundle || (repeats && (issue->bundle - at) % length == 0)) {
                return true;
            }
        }
    }
    return false;
}

// One instruction with another register of the same kind in one operand.
static void spoil(struct made * m, const struct asm_flow * f, const struct asm_issue * issue, int k,
                  int step, int * tried, int * refused) {
    const struct aie_isa * isa = aie_isa_get(AIE_ARCH_AIE2P);
    size_t pc = (size_t) m->pcs[f->first + issue->bundle];
    struct aie_bundle b;
    uint8_t bytes[AIE_MAX_BUNDLE_BYTES], old[AIE_MAX_BUNDLE_BYTES];
    struct error err;
    int size;
    assert_int_equal(aie_bundle_decode(isa, m->code.bytes + pc, m->code.size - pc, &b, &err),
                     ST_OK);
    struct aie_inst * inst = &b.slot[issue->slot];
    const struct aie_instr * instr = aie_isa_instr(isa, inst->op);
    const struct aie_operand * o = &instr->operands[k];
    aie_reg reg = (o->role & (AIE_USE | AIE_DEF)) ? aie_inst_reg(instr, inst, k) : 0;
    bool reads = f->nodes[issue->node].from[k][0].distance != ASM_FLOW_NONE;
    bool tells = (o->role & AIE_DEF) && is_read(f, issue);
    if (!is_of_flow(f, reg) || !(reads || tells)) {
        return;
    }
    inst->values[k] = AIE_REG(AIE_REG_KIND(reg), AIE_REG_NUM(reg) + step);
    b.size = (uint8_t) aie_bundle_size(isa, m->code.bytes[pc]);
    if (aie_bundle_encode(isa, &b, bytes, &size, &err) != ST_OK || size != b.size) {
        return; // there is no such register
    }
    memcpy(old, m->code.bytes + pc, (size_t) size);
    memcpy(m->code.bytes + pc, bytes, (size_t) size);
    bool held = holds(m, NULL);
    memcpy(m->code.bytes + pc, old, (size_t) size);
    if (held) { // which is wrong
        struct buf text = {0};
        aie_inst_print(isa, inst, &text);
        print_message("holds with operand %d changed: %s\n", k, (char *) text.data);
        buf_free(&text);
    }
    ++*tried;
    *refused += !held;
}

static void spoil_all(struct made * m, int every, int * tried, int * refused) {
    for (int n = 0; n < m->n; n++) {
        const struct asm_flow * f = m->flows[n];
        for (int i = 0; i < f->n_issues; i += every) {
            for (int k = 0; k < ASM_FLOW_ARGS; k++) {
                spoil(m, f, &f->issues[i], k, 1, tried, refused);
                spoil(m, f, &f->issues[i], k, -1, tried, refused);
            }
        }
    }
}

static void other_registers_are_refused(void ** state) {
    (void) state;
    struct made m = make(two_vectors);
    int tried = 0, refused = 0;
    spoil_all(&m, 1, &tried, &refused);
    assert_true(tried > 20);
    assert_int_equal(refused, tried);
    free_made(&m);
}

// The programs of a decoder's PDI: functions in late loops that roll, vectors and accumulators.
struct texts {
    char * of[16];
    int n;
};

static void keep(void * user, enum asm_pass pass, const char * text) {
    struct texts * t = user;
    if (pass == ASM_PASS_BUILT) {
        assert_true(t->n < 16);
        t->of[t->n++] = strdup(text);
    }
}

static void spoiled_kernels_are_refused(void ** state) {
    (void) state;
    struct texts texts = {0};
    const struct asm_listener to = {keep, &texts};
    struct tensor t = tensor_contiguous(DTYPE_F32, (const int64_t[4]){1024, 16, 1, 1});
    struct kernel_spec spec = {
        .op = KERNEL_OP_SILU, .arch = AIE_ARCH_AIE2P, .n_inputs = 1, .inputs = {t}, .output = t};
    uint8_t * pdi = NULL;
    size_t size;
    struct error err;
    asm_listen(&to);
    assert_int_equal(aie_compile_pdi(&spec, &pdi, &size, &err), ST_OK);
    asm_listen(NULL);
    free(pdi);
    int tried = 0, refused = 0, loops = 0;
    for (int i = 0; i < texts.n; i++) {
        struct made m = make(texts.of[i]);
        assert_true(holds(&m, NULL));
        loops += m.n;
        spoil_all(&m, 29, &tried, &refused);
        free_made(&m);
        free(texts.of[i]);
    }
    print_message("%d late loops, %d of %d wrong registers refused\n", loops, refused, tried);
    assert_true(loops > 0 && tried > 100);
    assert_int_equal(refused, tried);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_refused_unexplained),
                                       cmocka_unit_test(distances_count),
                                       cmocka_unit_test(other_registers_are_refused),
                                       cmocka_unit_test(spoiled_kernels_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The targets' data agrees with their instruction tables: every basic instruction has the operands
// that the assembler gives it, alternatives differ in nothing but the slot, classes name registers
// that exist and whose parts are parts of them. A target without programs says so and does not
// crash.
#include "base/cmocka-all.h"

#include <string.h>

#include "aie/aie.h"
#include "aie/asm/asm.h"
#include "aie/asm/program.h"

// The operands of each: r a register, # a number, d and u: defined, used.
static const char * const operands[AIE_BASICS] = {
    [AIE_BASIC_JUMP] = "#",
    [AIE_BASIC_JUMP_IF_ZERO] = "u#",
    [AIE_BASIC_JUMP_IF_NONZERO] = "u#",
    [AIE_BASIC_JUMP_POINTER] = "u",
    [AIE_BASIC_ACQUIRE] = "#u",
    [AIE_BASIC_ACQUIRE_ANY] = "uu",
    [AIE_BASIC_RELEASE] = "#u",
    [AIE_BASIC_COUNT] = "du#",
    [AIE_BASIC_SET] = "d#",
    [AIE_BASIC_SET_SMALL] = "d#",
    [AIE_BASIC_SET_MOVABLE] = "d#",
    [AIE_BASIC_COPY] = "du",
    [AIE_BASIC_CONTROL] = "du",
    [AIE_BASIC_ADD_SMALL] = "du#",
    [AIE_BASIC_ADD] = "duu",
    [AIE_BASIC_SUB] = "duu",
    [AIE_BASIC_AND] = "duu",
    [AIE_BASIC_OR] = "duu",
    [AIE_BASIC_XOR] = "duu",
    [AIE_BASIC_SHIFT] = "duu",
    [AIE_BASIC_SHIFT_SIGNED] = "duu",
    [AIE_BASIC_LESS] = "duu",
    [AIE_BASIC_NOT_ZERO] = "du",
    [AIE_BASIC_MARK] = "",
    [AIE_BASIC_MARK_END] = "",
};

static void basics_have_their_operands(void ** state) {
    (void) state;
    for (int arch = 0; arch < AIE_ARCH_COUNT; arch++) {
        const struct aie_target * t = aie_target((enum aie_arch) arch);
        const struct aie_isa * isa = aie_isa_get(t->arch);
        assert_int_equal(t->arch, arch);
        for (int b = 0; b < AIE_BASICS; b++) {
            if (b >= AIE_BASIC_MARK && !t->basic[AIE_BASIC_MARK_END]) {
                continue;
            }
            const struct aie_instr * instr = aie_isa_instr(isa, t->basic[b]);
            char is[AIE_MAX_OPERANDS + 1] = "";
            for (int k = 0; k < instr->n_explicit; k++) {
                const struct aie_operand * o = &instr->operands[k];
                is[k] = o->is_imm ? '#' : (o->role & AIE_DEF) ? 'd' : 'u';
            }
            if (strcmp(is, operands[b])) {
                print_error("%s: basic %d is %s: %s\n", t->name, b, instr->name, is);
            }
            assert_string_equal(is, operands[b]);
            assert_int_equal(instr->branches, b <= AIE_BASIC_JUMP_POINTER);
            assert_int_equal(instr->locks, b >= AIE_BASIC_ACQUIRE && b <= AIE_BASIC_RELEASE);
        }
    }
}

static void alternatives_differ_in_the_slot(void ** state) {
    (void) state;
    for (int arch = 0; arch < AIE_ARCH_COUNT; arch++) {
        const struct aie_target * t = aie_target((enum aie_arch) arch);
        const struct aie_isa * isa = aie_isa_get(t->arch);
        assert_in_range(t->n_alternatives, 1, AIE_MOST_ALTERNATIVES);
        for (int i = 0; i < t->n_alternatives; i++) {
            const struct aie_instr * a = aie_isa_instr(isa, t->alternatives[i][0]);
            const struct aie_instr * b = aie_isa_instr(isa, t->alternatives[i][1]);
            assert_true(a->slot != b->slot);
            assert_int_equal(a->n_operands, b->n_operands);
            assert_int_equal(a->mem_cycle, b->mem_cycle);
            for (int k = 0; k < a->n_operands; k++) {
                assert_int_equal(a->operands[k].role, b->operands[k].role);
                assert_int_equal(a->operands[k].is_imm, b->operands[k].is_imm);
                assert_int_equal(a->operands[k].def_cycle, b->operands[k].def_cycle);
                assert_int_equal(a->operands[k].use_cycle, b->operands[k].use_cycle);
            }
        }
    }
}

// Halves and quarters, put together, are the register.
static void classes_name_registers(void ** state) {
    (void) state;
    for (int arch = 0; arch < AIE_ARCH_COUNT; arch++) {
        const struct aie_target * t = aie_target((enum aie_arch) arch);
        for (int c = 0; c < ASM_CLASS_COUNT; c++) {
            const struct aie_class * cls = &t->classes[c];
            for (int n = 0; n < 64; n++) {
                if (!(cls->set >> n & 1)) {
                    continue;
                }
                uint8_t whole[8], part[8];
                int size = aie_reg_units(asm_phys(t, (enum asm_class) c, n, -1), whole);
                assert_in_range(size, 1, 8);
                assert_int_equal(aie_target_file(t, whole[0]), cls->file);
                int parts = cls->half != AIE_NONE ? 2 : 0, at = 0;
                for (int i = 0; i < parts; i++) {
                    int of = aie_reg_units(asm_phys(t, (enum asm_class) c, n, i), part);
                    assert_in_range(of, 1, size);
                    assert_memory_equal(part, whole + at, of);
                    at += of;
                }
                assert_int_equal(at, parts ? size : 0);
                at = 0;
                for (int q = 0; cls->quarter != AIE_NONE && q < 4; q++) {
                    int of = aie_reg_units(asm_phys(t, (enum asm_class) c, n, 2 + q), part);
                    assert_memory_equal(part, whole + at, of);
                    at += of;
                }
                assert_true(at == 0 || at == size);
            }
        }
        assert_true(t->classes[t->value_class].set && t->classes[t->acc_class].set &&
                    t->classes[t->pair_class].set);
        assert_ptr_equal(aie_target_of_generation((unsigned) t->device_generation), t);
    }
    assert_null(aie_target_of_generation(99));
}

// What a target cannot do is refused by its name: products of f16 are those of bf16.
// Tables of tiles have room for each target's array.
static void arrays_fit(void ** state) {
    (void) state;
    for (int arch = 0; arch < AIE_ARCH_COUNT; arch++) {
        const struct aie_target * t = aie_target((enum aie_arch) arch);
        assert_in_range(t->columns, 1, AIE_MOST_COLUMNS);
        assert_in_range(t->core_rows, 1, AIE_MOST_CORE_ROWS);
        assert_in_range(t->lane_products, 1, t->vector_bytes / 2 / t->lanes);
    }
}

static void what_is_missing_is_named(void ** state) {
    (void) state;
    struct error err;
    struct tensor x = tensor_contiguous(DTYPE_F16, (const int64_t[4]){64, 64, 1, 1});
    struct kernel_spec spec = {.op = KERNEL_OP_MUL_MAT,
                               .arch = AIE_ARCH_AIE2P,
                               .n_inputs = 2,
                               .inputs = {x, x},
                               .output = tensor_contiguous(DTYPE_F32, x.ne)};
    assert_int_equal(aie_supports(&spec, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "aie2p"));
    struct kernel_code code;
    assert_int_equal(aie_compile(&spec, &code, &err), ST_UNSUPPORTED);
    spec.inputs[0].dtype = spec.inputs[1].dtype = DTYPE_BF16;
    assert_int_equal(aie_supports(&spec, &err), ST_OK);
}

// Nothing is written into a program whose meaning rests on nothing.
static void without_evidence_nothing_is_emitted(void ** state) {
    (void) state;
    struct asm_program * p = NULL;
    struct asm_code code;
    struct error err;
    assert_int_equal(asm_new(AIE_ARCH_AIE2P, &p), ST_OK);
    const struct aie_isa * isa = aie_isa_get(AIE_ARCH_AIE2P);
    int op = 0;
    while (aie_isa_instr(isa, op)->evidence != AIE_EVIDENCE_NONE ||
           aie_isa_instr(isa, op)->n_explicit != 1) {
        op++;
    }
    asm_emit(p, op, 0, (struct asm_arg[]){A_IMM(0)}, 1);
    assert_int_equal(asm_finish(p, &code, &err), ST_INVALID);
    assert_non_null(strstr(err.text, "nobody has told"));
    asm_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(basics_have_their_operands),
        cmocka_unit_test(alternatives_differ_in_the_slot),
        cmocka_unit_test(classes_name_registers),
        cmocka_unit_test(arrays_fit),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(without_evidence_nothing_is_emitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// verbs: what every target has as one instruction, and the way from a verb to its target's
// function.
#include "verbs.h"

extern const struct aie_verbs verbs_aie2, verbs_aie2p;

static const struct aie_verbs * const verbs[AIE_ARCH_COUNT] = {
    [AIE_ARCH_AIE2] = &verbs_aie2,
    [AIE_ARCH_AIE2P] = &verbs_aie2p,
};

static void missing(struct asm_program * p, const char * verb) {
    asm_misuse(p, "asm: %s is not yet there on %s", verb, asm_target(p)->name);
}

// clang-format off
#define V(name, parameters, arguments)                                                             \
    void emit_##name parameters {                                                                  \
        const struct aie_verbs * of = verbs[asm_target(p)->arch];                                  \
        if (of && of->name) {                                                                      \
            of->name arguments;                                                                    \
        } else {                                                                                   \
            missing(p, #name);                                                                     \
        }                                                                                          \
    }
#include "verbs.def"
#undef V
// clang-format on

// ---- registers ----

struct asm_reg emit_new_value(struct asm_program * p) {
    return asm_local(p, (enum asm_class) asm_target(p)->value_class);
}

struct asm_reg emit_new_acc(struct asm_program * p) {
    return asm_local(p, (enum asm_class) asm_target(p)->acc_class);
}

struct asm_reg emit_new_pair(struct asm_program * p) {
    return asm_local(p, (enum asm_class) asm_target(p)->pair_class);
}

struct asm_reg emit_new_mask(struct asm_program * p, int width) {
    return asm_local(p, width == LANE_8 ? ASM_L : ASM_MASK);
}

// ---- scalars ----

static int basic(const struct asm_program * p, enum aie_basic op) {
    return asm_target(p)->basic[op];
}

void emit_set(struct asm_program * p, struct asm_reg d, int32_t value) {
    ASM(p, basic(p, AIE_BASIC_SET), A_REG(d), A_IMM(value));
}

void emit_set_small(struct asm_program * p, struct asm_reg d, int32_t value) {
    ASM(p, basic(p, AIE_BASIC_SET_SMALL), A_REG(d), A_IMM(value));
}

void emit_set_fixed(struct asm_program * p, aie_reg d, int32_t value) {
    ASM(p, basic(p, AIE_BASIC_SET), A_FIXED(d), A_IMM(value));
}

void emit_set_walk(struct asm_program * p, int walk, int times, int32_t step, int32_t last) {
    emit_set_fixed(p, AIE_REG(AIE_DN, walk), times - 1);
    emit_set_fixed(p, AIE_REG(AIE_DC, walk), 0);
    emit_set_fixed(p, AIE_REG(AIE_DJ, walk), step);
    emit_set_fixed(p, AIE_REG(AIE_M, walk), last);
}

void emit_set_shift(struct asm_program * p, struct asm_reg s, int amount) {
    ASM(p, basic(p, AIE_BASIC_SET_MOVABLE), A_REG(s), A_IMM(amount));
}

void emit_set_label(struct asm_program * p, struct asm_reg pointer, int label) {
    ASM(p, basic(p, AIE_BASIC_SET), A_REG(pointer), A_LABEL(label));
}

void emit_copy(struct asm_program * p, struct asm_reg d, struct asm_reg a) {
    ASM(p, basic(p, AIE_BASIC_COPY), A_REG(d), A_REG(a));
}

void emit_alu(struct asm_program * p, enum aie_basic op, struct asm_reg d, struct asm_reg a,
              struct asm_reg b) {
    ASM(p, basic(p, op), A_REG(d), A_REG(a), A_REG(b));
}

void emit_add_small(struct asm_program * p, struct asm_reg d, struct asm_reg a, int n) {
    ASM(p, basic(p, AIE_BASIC_ADD_SMALL), A_REG(d), A_REG(a), A_IMM(n));
}

void emit_not_zero(struct asm_program * p, struct asm_reg d, struct asm_reg a) {
    ASM(p, basic(p, AIE_BASIC_NOT_ZERO), A_REG(d), A_REG(a));
}

void emit_control(struct asm_program * p, enum aie_control which, struct asm_reg a) {
    ASM(p, basic(p, AIE_BASIC_CONTROL), A_FIXED(asm_target(p)->controls[which]), A_REG(a));
}

void emit_load_word(struct asm_program * p, int memory, struct asm_reg d, struct asm_reg pointer,
                    int32_t offset) {
    emit_load_scalar(p, memory, LANE_32, A_REG(d), pointer, offset);
}

void emit_spill_to(struct asm_program * p, int memory, int32_t address, int vectors) {
    const struct aie_target * t = asm_target(p);
    if (t->spill_base) {
        emit_set_fixed(p, t->spill_base, address + vectors * t->vector_bytes);
        asm_spill_to(p, memory, vectors);
    }
}

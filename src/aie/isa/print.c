// print: assembly text in LLVM's syntax, from the text column of the tables.
#include "aie/isa/target.h"

#include <inttypes.h>
#include <string.h>

// "%{p.lf}": the part of an operand, which is one of the implicit registers; its index, -1 if none.
static int part_operand(const struct aie_instr * in, const char * at, size_t length) {
    uint8_t part = isa_part_by_name(at + 4, length - 4);
    for (int k = in->n_explicit; k < in->n_operands; k++) {
        if (in->operands[k].field == at[2] && in->operands[k].part == part) {
            return k;
        }
    }
    return -1;
}

void aie_instr_print(const struct aie_instr * in, aie_operand_print * operand, void * user,
                     struct buf * b) {
    for (const char * at = in->text; *at;) {
        size_t plain = strcspn(at, "%");
        buf_append(b, at, plain);
        at += plain;
        if (!*at) {
            break;
        }
        size_t length = at[1] == '{' ? strcspn(at, "}") : 1;
        int k = length > 1 ? part_operand(in, at, length) : aie_instr_operand(in, at[1]);
        at += length + 1;
        if (k >= 0) {
            operand(user, in, k, b);
        }
    }
}

static void print_operand(void * user, const struct aie_instr * in, int k, struct buf * b) {
    const struct aie_inst * inst = user;
    char name[AIE_REG_NAME_SIZE];
    if (in->operands[k].is_imm) {
        buf_printf(b, "%" PRId32, inst->values[k]);
    } else {
        buf_printf(b, "%s", aie_reg_name(aie_inst_reg(in, inst, k), name));
    }
}

void aie_inst_print(const struct aie_isa * isa, const struct aie_inst * inst, struct buf * b) {
    struct aie_inst copy = *inst;
    aie_instr_print(aie_isa_instr(isa, inst->op), print_operand, &copy, b);
}

void aie_bundle_print(const struct aie_isa * isa, const struct aie_bundle * bundle,
                      struct buf * b) {
    static const enum aie_slot order[] = {AIE_SLOT_LDB, AIE_SLOT_LDA, AIE_SLOT_ST,  AIE_SLOT_LNG,
                                          AIE_SLOT_ALU, AIE_SLOT_MV,  AIE_SLOT_VEC, AIE_SLOT_NOP};
    bool first = true;
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        if (bundle->present >> order[i] & 1) {
            buf_printf(b, first ? "" : "; ");
            first = false;
            aie_inst_print(isa, &bundle->slot[order[i]], b);
        }
    }
}

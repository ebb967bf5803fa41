// print: assembly text in LLVM's syntax, from the text column of the tables.
#include "aie/isa/target.h"

#include <inttypes.h>
#include <string.h>

static void print_reg(aie_reg reg, struct buf * b) {
    char name[AIE_REG_NAME_SIZE];
    buf_printf(b, "%s", aie_reg_name(reg, name));
}

// "%{p.lf}": the part of an operand, which is one of the implicit registers. Returns what follows.
static const char * print_part(const struct aie_instr * in, const struct aie_inst * inst,
                               const char * at, struct buf * b) {
    size_t length = strcspn(at, "}");
    uint8_t part = isa_part_by_name(at + 4, length - 4);
    for (int k = in->n_explicit; k < in->n_operands; k++) {
        if (in->operands[k].field == at[2] && in->operands[k].part == part) {
            print_reg(aie_inst_reg(in, inst, k), b);
            break;
        }
    }
    return at + length + 1;
}

void aie_inst_print(const struct aie_isa * isa, const struct aie_inst * inst, struct buf * b) {
    const struct aie_instr * in = aie_isa_instr(isa, inst->op);
    for (const char * at = in->text; *at;) {
        size_t plain = strcspn(at, "%");
        buf_append(b, at, plain);
        at += plain;
        if (!*at) {
            break;
        }
        if (at[1] == '{') {
            at = print_part(in, inst, at, b);
            continue;
        }
        int k = aie_instr_operand(in, at[1]);
        at += 2;
        if (in->operands[k].is_imm) {
            buf_printf(b, "%" PRId32, inst->values[k]);
        } else {
            print_reg((aie_reg) inst->values[k], b);
        }
    }
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

// slot: one slot's word to an instruction and back. A word belongs to the first candidate row whose
// fixed bits match and whose register codes all exist; encoding refuses what its fields cannot
// hold, so a word that was encoded decodes to the same instruction.
#include "aie/isa/target.h"

#include <inttypes.h>
#include <string.h>

static uint64_t get_field(const struct isa_field * f, uint64_t word) {
    uint64_t code = 0;
    for (int r = 0; r < f->n_runs; r++) {
        uint64_t piece = word >> f->runs[r].lsb & ((1ull << f->runs[r].width) - 1);
        code = code << f->runs[r].width | piece;
    }
    return code;
}

// A code is no wider than its field, and most fields are in one piece.
static uint64_t put_field(const struct isa_field * f, uint64_t code) {
    uint64_t word = 0;
    for (int r = f->n_runs - 1; r > 0; r--) {
        word |= (code & ((1ull << f->runs[r].width) - 1)) << f->runs[r].lsb;
        code >>= f->runs[r].width;
    }
    return word | code << f->runs[0].lsb;
}

// ---- values and codes ----

static int32_t imm_value(const struct isa_class * cls, uint64_t code) {
    int64_t v = (int64_t) code;
    int64_t span = (int64_t) 1 << cls->bits;
    if (cls->imm == 'n' || (cls->imm == 's' && v >= span / 2)) {
        v -= span;
    }
    return (int32_t) (v * cls->imm_step);
}

static void imm_range(const struct isa_class * cls, int64_t * min, int64_t * max) {
    int64_t span = (int64_t) 1 << cls->bits;
    *min = cls->imm == 'u' ? 0 : cls->imm == 'n' ? -span : -span / 2;
    *max = *min + span - 1;
    *min *= cls->imm_step;
    *max *= cls->imm_step;
}

static bool imm_code(const struct isa_class * cls, int32_t value, uint64_t * code) {
    int64_t min, max;
    imm_range(cls, &min, &max);
    if (value < min || value > max || value % cls->imm_step) {
        return false;
    }
    *code = (uint64_t) (value / cls->imm_step) & ((1ull << cls->bits) - 1);
    return true;
}

static bool reg_code(const struct aie_isa * isa, int cls, int32_t value, uint64_t * code) {
    unsigned kind = (uint32_t) value >> 8, number = value & 0xff;
    if (kind >= AIE_REG_KIND_COUNT || number >= ISA_MAX_NUMBERS) {
        return false;
    }
    unsigned after = isa->reg_codes[isa->kind_codes[cls][kind]][number];
    *code = after - 1;
    return after != 0;
}

static inline bool value_code(const struct aie_isa * isa, int cls, int32_t value, uint64_t * code) {
    const struct isa_class * c = &isa->target->classes[cls];
    return c->imm ? imm_code(c, value, code) : reg_code(isa, cls, value, code);
}

bool aie_operand_fits(const struct aie_isa * isa, int op, int k, int32_t value) {
    uint64_t code;
    const struct aie_instr * in = aie_isa_instr(isa, op);
    return k >= 0 && k < in->n_explicit && value_code(isa, in->operands[k].cls, value, &code);
}

struct aie_range aie_operand_range(const struct aie_isa * isa, int op, int k) {
    const struct isa_class * c = &isa->target->classes[aie_isa_instr(isa, op)->operands[k].cls];
    struct aie_range r = {.min = 0, .max = -1, .step = 1};
    if (c->imm) {
        imm_range(c, &r.min, &r.max);
        r.step = c->imm_step;
    }
    return r;
}

aie_reg aie_operand_reg(const struct aie_isa * isa, int op, int k, const char * name,
                        size_t length) {
    const struct aie_operand * o = &aie_isa_instr(isa, op)->operands[k];
    const struct isa_class * c = &isa->target->classes[o->cls];
    for (int i = 0; !c->imm && i < c->n_codes; i++) {
        for (int n = 0; n < c->codes[i].count; n++) {
            aie_reg reg = AIE_REG(c->codes[i].kind, c->codes[i].first + n * c->codes[i].step);
            char text[AIE_REG_NAME_SIZE];
            if (!strncmp(aie_reg_name(reg, text), name, length) && !text[length]) {
                return reg;
            }
        }
    }
    return 0;
}

// ---- words ----

static bool try_row(const struct aie_isa * isa, int op, uint64_t word, struct aie_inst * out) {
    const struct aie_instr * in = &isa->instrs[op];
    if ((word & in->mask) != in->value) {
        return false;
    }
    for (int k = 0; k < in->n_explicit; k++) {
        uint64_t code = get_field(&isa->fields[op][k], word);
        int cls = in->operands[k].cls;
        if (in->operands[k].is_imm) {
            out->values[k] = imm_value(&isa->target->classes[cls], code);
        } else {
            out->values[k] = isa->codes[isa->class_codes[cls] + code];
            if (!out->values[k]) {
                return false;
            }
        }
    }
    out->op = (uint16_t) op;
    memset(out->values + in->n_explicit, 0,
           sizeof(out->values[0]) * (size_t) (AIE_MAX_OPERANDS - in->n_explicit));
    return true;
}

enum status aie_slot_decode(const struct aie_isa * isa, enum aie_slot slot, uint64_t word,
                            struct aie_inst * out, struct error * err) {
    if (slot >= AIE_SLOT_COUNT || word >> isa->target->slot_bits[slot]) {
        return error_set(err, ST_INVALID, "slot word 0x%" PRIx64 " is wider than slot %s", word,
                         slot < AIE_SLOT_COUNT ? isa_slot_names[slot] : "?");
    }
    const uint16_t * bucket = &isa->bucket[slot][word & (ISA_BUCKETS - 1)];
    for (int i = bucket[0]; i < bucket[1]; i++) {
        if (try_row(isa, isa->candidates[i], word, out)) {
            return ST_OK;
        }
    }
    return error_set(err, ST_INVALID, "slot %s: 0x%" PRIx64 " is no instruction",
                     isa_slot_names[slot], word);
}

static enum status misfit(const struct aie_isa * isa, const struct aie_inst * inst, int k,
                          struct error * err) {
    const struct aie_instr * in = &isa->instrs[inst->op];
    const struct isa_class * cls = &isa->target->classes[in->operands[k].cls];
    int32_t value = inst->values[k];
    if (cls->imm) {
        int64_t min, max;
        imm_range(cls, &min, &max);
        return error_set(err, ST_INVALID,
                         "%s: operand %%%c of \"%s\" is %" PRId32 ", it holds %" PRId64
                         " to %" PRId64 " in steps of %d",
                         in->name, in->operands[k].field, in->text, value, min, max, cls->imm_step);
    }
    char name[AIE_REG_NAME_SIZE];
    bool named = value > 0 && value <= UINT16_MAX;
    return error_set(err, ST_INVALID,
                     "%s: operand %%%c of \"%s\" is %s, which class %s does not hold", in->name,
                     in->operands[k].field, in->text,
                     named ? aie_reg_name((aie_reg) value, name) : "no register", cls->name);
}

enum status aie_slot_encode(const struct aie_isa * isa, const struct aie_inst * inst,
                            uint64_t * word, struct error * err) {
    if (inst->op >= isa->target->n_rows) {
        return error_set(err, ST_INVALID, "op %d is not in this target's table", inst->op);
    }
    const struct aie_instr * in = &isa->instrs[inst->op];
    uint64_t bits = in->value;
    for (int k = 0; k < in->n_explicit; k++) {
        uint64_t code;
        if (!value_code(isa, in->operands[k].cls, inst->values[k], &code)) {
            return misfit(isa, inst, k, err);
        }
        bits |= put_field(&isa->fields[inst->op][k], code);
    }
    *word = bits;
    return ST_OK;
}

// asm/text-match: how registers and instructions are written. An instruction is found by the text
// that the ISA's tables print for it: literal characters must be there, an operand is whatever
// stands in its place, and it must be one that the record's operand can hold. Printing asks the
// same question, so that what is printed is always found again.
#include "text-impl.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char * const text_class_names[ASM_CLASS_COUNT] = {
    [ASM_R] = "r", [ASM_MASK] = "m", [ASM_P] = "p",   [ASM_S] = "s",
    [ASM_X] = "x", [ASM_BM] = "bm",  [ASM_L] = "l",   [ASM_CM] = "cm",
    [ASM_Y] = "y", [ASM_J] = "dj",   [ASM_EX] = "ex",
};

const char * const text_part_names[6] = {"lo", "hi", "q0", "q1", "q2", "q3"};

static bool is(struct text_token t, const char * name) {
    return t.length == strlen(name) && !memcmp(t.at, name, t.length);
}

bool text_arch_parse(const char * name, size_t length, enum aie_arch * out) {
    for (int i = 0; i < AIE_ARCH_COUNT; i++) {
        if (is((struct text_token){name, length}, aie_target((enum aie_arch) i)->name)) {
            *out = (enum aie_arch) i;
            return true;
        }
    }
    return false;
}

// ---- registers ----

static struct text_token take(const char ** at, const char * end, int (*belongs)(int)) {
    struct text_token t = {*at, 0};
    while (*at < end && belongs((unsigned char) **at)) {
        ++*at;
    }
    t.length = (size_t) (*at - t.at);
    return t;
}

bool text_vreg_parse(struct text_token t, struct text_vreg * out) {
    const char *at = t.at + 1, *end = t.at + t.length;
    if (t.length < 3 || (*t.at != '%' && *t.at != '$')) {
        return false;
    }
    *out = (struct text_vreg){.global = *t.at == '$', .reg = {0, -1}};
    struct text_token name = take(&at, end, isalpha), number = take(&at, end, isdigit);
    int cls = 0;
    while (cls < ASM_CLASS_COUNT && !is(name, text_class_names[cls])) {
        cls++;
    }
    long id = number.length > 0 && number.length < 6 ? strtol(number.at, NULL, 10) : -1;
    if (cls == ASM_CLASS_COUNT || id < 0 || id > INT16_MAX) {
        return false;
    }
    out->cls = (enum asm_class) cls;
    out->reg.id = (int16_t) id;
    if (at < end && *at == '.') {
        at++;
        struct text_token part = take(&at, end, isalnum);
        while (out->reg.part < 6 &&
               (out->reg.part < 0 || !is(part, text_part_names[out->reg.part]))) {
            out->reg.part++;
        }
        if (out->reg.part == 6) {
            return false;
        }
    }
    if (at < end && *at == '=') {
        out->phys = (struct text_token){at + 1, (size_t) (end - at - 1)};
        at = end;
    }
    return at == end;
}

// ---- instructions ----

static bool is_name_char(char c) {
    return c && (isalnum((unsigned char) c) || strchr("%$_.:=", c));
}

static struct text_token operand_at(const char ** at, bool is_imm) {
    struct text_token t = {*at, 0};
    if (is_imm && (**at == '-' || **at == '+')) {
        ++*at;
    }
    while (is_name_char(**at)) {
        ++*at;
    }
    t.length = (size_t) (*at - t.at);
    return t;
}

static bool is_number(struct text_token t) {
    return t.length && (isdigit((unsigned char) *t.at) || *t.at == '-' || *t.at == '+');
}

static bool virtual_fits(const struct asm_program * p, int op, int k, const struct text_vreg * v) {
    for (uint64_t set = asm_class_set(p, v->cls); set; set &= set - 1) {
        if (aie_operand_fits(p->isa, op, k,
                             asm_phys(p->target, v->cls, __builtin_ctzll(set), v->reg.part))) {
            return true;
        }
    }
    return false;
}

static bool operand_fits(const struct asm_program * p, int op, int k, struct text_token t) {
    struct text_vreg v;
    if (!t.length) {
        return false;
    }
    if (asm_instr(p, op)->operands[k].is_imm) { // or a label
        return !is_number(t) || aie_operand_fits(p->isa, op, k, (int32_t) strtol(t.at, NULL, 0));
    }
    return text_vreg_parse(t, &v) ? virtual_fits(p, op, k, &v)
                                  : aie_operand_reg(p->isa, op, k, t.at, t.length) != 0;
}

// What follows an instruction: the end, the next slot, a buffer or the record's name.
static bool ends(const char * at) {
    while (*at == ' ') {
        at++;
    }
    return !*at || strchr(";@!\n", *at);
}

static bool matches(const struct asm_program * p, int op, const char * at,
                    struct text_match * out) {
    const struct aie_instr * in = asm_instr(p, op);
    memset(out->operands, 0, sizeof out->operands);
    for (const char * t = in->text; *t; t++) {
        if (*t == ' ') {
            if (*at != ' ') {
                return false;
            }
            while (*at == ' ') {
                at++;
            }
        } else if (*t == '%' && t[1] == '{') { // a part of another operand
            t += strcspn(t, "}");
            operand_at(&at, false);
        } else if (*t == '%') {
            int k = aie_instr_operand(in, *++t);
            struct text_token token = operand_at(&at, in->operands[k].is_imm);
            struct text_token * slot = &out->operands[k]; // one that is tied stands there twice
            if (slot->at ? slot->length != token.length || memcmp(slot->at, token.at, token.length)
                         : !operand_fits(p, op, k, token)) {
                return false;
            }
            *slot = token;
        } else if (*t != *at++) {
            return false;
        }
    }
    out->end = at;
    return ends(at);
}

int text_find(const struct asm_program * p, const char * text, int named, struct text_match * out) {
    if (named >= 0) {
        return matches(p, named, text, out) ? named : -1;
    }
    size_t word = strcspn(text, " ;@!\n");
    for (int op = 0; op < aie_isa_count(p->isa); op++) {
        const char * name = asm_instr(p, op)->text;
        if (!strncmp(name, text, word) && (name[word] == ' ' || !name[word]) &&
            matches(p, op, text, out)) {
            return op;
        }
    }
    return -1;
}

// validate-instr: every instruction that our kernels consist of and that nobody has read on
// silicon, in a tiny program of its own: registers are set, the instruction runs, registers and
// memory are stored. The same stream runs on a machine of the emulator here, in this process, which
// is what we take the instruction for; one that does something else is named, with its operands.
//
// Kept true: operands are such that the emulator knows a meaning for them, and floats are finite.
#include "validate-instr.h"

#include "emu/aie/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ATTEMPTS = 12,   // operands that are tried before an instruction is given up
    MOST_UNITS = 40, // of an instruction
    UNIT_BYTES = 64,
    // Behind CODE_OUT: units, an area that loads and stores may use, and what units begin with.
    AREA_AT = 0x1000,
    AREA_BYTES = 0x800,
    FIRST_AT = AREA_AT + AREA_BYTES,
    OUT_WORDS = (AREA_AT + AREA_BYTES) / 4,
    SEED_WORDS = (AREA_BYTES + MOST_UNITS * UNIT_BYTES) / 4,
    MIDDLE = AREA_BYTES / 2,
    BEFORE = 14, // bundles in which everything has landed
};

static const struct {
    enum aie_arch arch;
    const char * name;
} emitted[] = {
#define X(arch, name) {AIE_ARCH_##arch, #name},
#include "validate-emitted.def"
#undef X
};
enum { EMITTED = sizeof emitted / sizeof emitted[0] };

struct trial {
    struct lab * l;
    const struct aie_isa * isa;
    struct lab_pdi cell;
    struct emu_machine *machine, *ieee; // aie2p has another adder in its second
    uint8_t * host[LAB_BUFFERS];        // the machine's buffers
    uint32_t seed;

    int op;
    const struct aie_instr * in;
    struct aie_inst inst;
    int units[MOST_UNITS], n_units;
    uint32_t words[SEED_WORDS]; // the area, then the units
    struct code code;
};

static uint32_t draw(struct trial * t) {
    t->seed = t->seed * 1664525u + 1013904223u;
    return t->seed >> 8 | t->seed << 24;
}

// ---- operands ----

static bool has(const char * name, const char * part) {
    return strstr(name, part) != NULL;
}

static bool is_float(const char * name) {
    return has(name, "_f_") || has(name, "bf16") || has(name, "fp32") || has(name, "BF16") ||
           has(name, "FP32") || has(name, "_F_") || has(name, "bfp");
}

// A pair of bf16, or a float: finite, not tiny, with exponents that differ.
static uint32_t any_word(struct trial * t) {
    uint32_t w = draw(t);
    if (!is_float(t->in->name)) {
        return w;
    }
    uint32_t exponents = (118 + w % 20) << 23 | (118 + (w >> 8) % 20) << 7;
    return (draw(t) & 0x807f807fu) | exponents;
}

// What a scalar operand steers is not known here: configurations of the multiplier, small numbers
// and any ones, in turn.
static uint32_t any_scalar(struct trial * t, int attempt) {
    const struct aie_target * g = t->l->target;
    const uint32_t tries[ATTEMPTS] = {draw(t),
                                      g->add_config,
                                      g->mul_config,
                                      g->mac_bf16.config,
                                      g->mac_i8.config,
                                      g->mac_i16.config,
                                      g->mac_block.config,
                                      draw(t) % 8,
                                      draw(t) % 32,
                                      draw(t) % 3,
                                      0,
                                      4 * (draw(t) % 16)};
    bool configures = t->in->slot == AIE_SLOT_VEC;
    return tries[(attempt + (configures ? 1 : 0)) % ATTEMPTS];
}

// What a register of that kind may begin with.
static uint32_t first_word(struct trial * t, aie_reg reg, int attempt) {
    bool memory = t->in->loads || t->in->stores;
    switch (AIE_REG_KIND(reg)) {
    case AIE_P:
        return t->l->target->own_window + CODE_OUT + AREA_AT + MIDDLE;
    case AIE_M:
    case AIE_DJ:
        return 64;
    case AIE_DN:
        return 2;
    case AIE_DC:
        return 0;
    case AIE_S:
        return 1 + draw(t) % 8;
    case AIE_R:
        return memory ? draw(t) : any_scalar(t, attempt);
    case AIE_SPC:
        return t->l->target->own_window + CODE_OUT + AREA_AT + MIDDLE;
    default:
        return any_word(t);
    }
}

// A register that the operand takes and that nobody has, ours included.
static bool choose_register(struct trial * t, int k, uint8_t taken[AIE_UNIT_COUNT]) {
    for (int kind = 1; kind < AIE_REG_KIND_COUNT; kind++) {
        for (int n = 0; n < 32; n++) {
            aie_reg reg = AIE_REG(kind, n);
            uint8_t units[8];
            if (!aie_operand_fits(t->isa, t->op, k, reg)) {
                continue;
            }
            int n_units = aie_reg_units(reg, units);
            bool free = n_units > 0;
            for (int i = 0; i < n_units; i++) {
                free = free && !taken[units[i]];
            }
            if (free) {
                t->inst.values[k] = reg;
                for (int i = 0; i < n_units; i++) {
                    taken[units[i]] = 1;
                }
                return true;
            }
        }
    }
    return false;
}

static bool choose_operands(struct trial * t, int attempt) {
    uint8_t taken[AIE_UNIT_COUNT] = {0};
    taken[AIE_UNIT_P + 7] = taken[AIE_UNIT_R + 28] = 1;
    t->inst = (struct aie_inst){.op = (uint16_t) t->op};
    for (int k = 0; k < t->in->n_operands; k++) { // those that it has of itself
        uint8_t units[8];
        if (k >= t->in->n_explicit && t->in->operands[k].fixed) {
            for (int n = aie_reg_units(t->in->operands[k].fixed, units); n > 0; n--) {
                taken[units[n - 1]] = 1;
            }
        }
    }
    for (int k = 0; k < t->in->n_explicit; k++) {
        if (t->in->operands[k].is_imm) {
            struct aie_range r = aie_operand_range(t->isa, t->op, k);
            int64_t steps = (r.max - r.min) / r.step;
            bool memory = t->in->loads || t->in->stores;
            int64_t near = r.min > 0 ? r.min : r.max < 0 ? r.max : attempt % 2 ? 0 : r.step;
            int64_t any = r.min + r.step * (int64_t) (draw(t) % (uint32_t) (steps % 65536 + 1));
            int64_t value = memory || attempt % 3 == 2 ? near : any;
            t->inst.values[k] = (int32_t) (value > r.max ? r.max : value < r.min ? r.min : value);
        } else if (!choose_register(t, k, taken)) {
            return false;
        }
    }
    return true;
}

// The units of all operands that can be set and seen.
static void list_units(struct trial * t) {
    t->n_units = 0;
    for (int k = 0; k < t->in->n_operands; k++) {
        uint8_t units[8];
        int n =
            t->in->operands[k].is_imm ? 0 : aie_reg_units(aie_inst_reg(t->in, &t->inst, k), units);
        for (int i = 0; i < n; i++) {
            bool known = false;
            for (int u = 0; u < t->n_units; u++) {
                known = known || t->units[u] == units[i];
            }
            // Flags and modes stay as a reset leaves them.
            bool steers = units[i] >= AIE_UNIT_CR && units[i] < AIE_UNIT_SPC;
            steers = steers || (units[i] >= AIE_UNIT_CRP && units[i] < AIE_UNIT_E);
            if (!known && !steers && t->n_units < MOST_UNITS) {
                t->units[t->n_units++] = units[i];
            }
        }
    }
}

// ---- programs ----

// False: a register has no way from or to memory.
static bool write_program(struct trial * t, int attempt) {
    struct code * c = &t->code;
    bool ok = choose_operands(t, attempt);
    list_units(t);
    for (int i = 0; i < SEED_WORDS; i++) {
        t->words[i] = any_word(t);
    }
    code_begin(c, t->l);
    for (int u = 0; u < t->n_units && ok; u++) {
        int bytes;
        aie_reg reg = register_of_unit(t->units[u], &bytes);
        uint32_t * first = t->words + (AREA_BYTES + u * UNIT_BYTES) / 4;
        if (bytes == 4) {
            *first = first_word(t, reg, attempt);
        }
        ok = bytes && register_set(c, reg, CODE_OUT + FIRST_AT + (uint32_t) u * UNIT_BYTES);
    }
    code_nops(c, BEFORE);
    code_put(c, t->op, t->inst.values, t->in->n_explicit);
    code_end(c);
    code_nops(c, BEFORE);
    for (int u = 0; u < t->n_units && ok; u++) {
        int bytes;
        aie_reg reg = register_of_unit(t->units[u], &bytes);
        ok = register_store(c, reg, CODE_OUT + (uint32_t) u * UNIT_BYTES);
    }
    code_finish(c);
    return ok && c->err.status == ST_OK;
}

static void write_stream(struct trial * t, struct txn * out) {
    lab_begin(t->l, out);
    design_program_at(t->l, out, 0, ARRAY_ROW_CORE, &t->code, CODE_OUT + AREA_AT, t->words,
                      SEED_WORDS, OUT_WORDS);
}

// ---- what we take it for ----

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    struct trial * t = user;
    (void) write;
    for (int i = 0; i < LAB_BUFFERS; i++) {
        uint64_t base = (uint64_t) (uintptr_t) t->host[i];
        if (addr >= base && addr - base <= 4 * OUT_WORDS && len <= 4 * OUT_WORDS - (addr - base)) {
            return t->host[i] + (addr - base);
        }
    }
    return NULL;
}

static bool expected(struct trial * t, struct emu_machine * machine, uint8_t out[4 * OUT_WORDS],
                     struct error * err) {
    struct txn stream;
    uint32_t * insts = NULL;
    size_t n = 0;
    struct emu_operand operands[LAB_BUFFERS];
    for (int i = 0; i < LAB_BUFFERS; i++) {
        operands[i] = (struct emu_operand){(uint64_t) (uintptr_t) t->host[i], 4 * OUT_WORDS};
    }
    write_stream(t, &stream);
    bool ok = txn_end(&stream, &insts, &n, err) == ST_OK &&
              emu_machine_run(machine, t->cell.bytes, t->cell.size, insts, n, operands, LAB_BUFFERS,
                              err) == ST_OK;
    free(insts);
    memcpy(out, t->host[LAB_WRITTEN], 4 * OUT_WORDS);
    return ok;
}

// ---- the step ----

static void name_operands(struct trial * t, struct buf * b) {
    char name[AIE_REG_NAME_SIZE];
    aie_inst_print(t->isa, &t->inst, b);
    for (int u = 0; u < t->n_units && b->size < 300; u++) {
        int bytes;
        aie_reg reg = register_of_unit(t->units[u], &bytes);
        const uint32_t * first = t->words + (AREA_BYTES + u * UNIT_BYTES) / 4;
        buf_printf(b, "%s%s=%x%s", u ? ", " : " with ", aie_reg_name(reg, name), *first,
                   bytes > 4 ? ".." : "");
    }
    buf_append(b, "", 1);
}

// The first word that differs, by the register or the memory that it is of; NULL: none.
static const char * differs(struct trial * t, const uint8_t * want, const uint8_t * got,
                            char text[160]) {
    char name[AIE_REG_NAME_SIZE];
    for (int u = 0; u < t->n_units; u++) {
        int bytes;
        aie_reg reg = register_of_unit(t->units[u], &bytes);
        for (int i = u * UNIT_BYTES; i < u * UNIT_BYTES + bytes; i += 4) {
            if (load_u32(want + i) != load_u32(got + i)) {
                snprintf(text, 160, "word %d of %s is %08x, expected %08x",
                         (i - u * UNIT_BYTES) / 4, aie_reg_name(reg, name), load_u32(got + i),
                         load_u32(want + i));
                return text;
            }
        }
    }
    for (int i = AREA_AT; i < AREA_AT + AREA_BYTES; i += 4) {
        if (load_u32(want + i) != load_u32(got + i)) {
            snprintf(text, 160, "memory at %+d from the pointer is %08x, expected %08x",
                     i - AREA_AT - MIDDLE, load_u32(got + i), load_u32(want + i));
            return text;
        }
    }
    return NULL;
}

// Is it what the other rule for adding floats gives?
static bool adds_as_ieee(struct trial * t, const uint8_t * got) {
    static uint8_t other[4 * OUT_WORDS];
    struct error err = {0};
    char text[160];
    return t->ieee && expected(t, t->ieee, other, &err) && !differs(t, other, got, text);
}

static void compare(struct trial * t, struct step * s, const uint8_t * want) {
    static uint8_t got[4 * OUT_WORDS];
    struct error err = {0};
    struct txn stream;
    struct buf with = {0};
    char text[160];
    double ns;
    name_operands(t, &with);
    write_stream(t, &stream);
    enum status st = lab_cold(t->l, &t->cell, &stream, &ns, &err);
    st = st == ST_OK ? lab_get(t->l, LAB_WRITTEN, got, sizeof got, &err) : st;
    if (st != ST_OK) {
        validate_bad(s, "%s: %s: %.200s", t->in->name, (char *) with.data, err.text);
    } else if (differs(t, want, got, text)) {
        validate_bad(s, "%s: %s: %s%s", t->in->name, (char *) with.data, text,
                     adds_as_ieee(t, got) ? ", which is how IEEE 754 adds "
                                            "(GGML_HSA_EMU_ADDER=ieee)"
                                          : "");
    }
    buf_free(&with);
}

// How often operands were found that mean something: at most `times`.
static int try_instruction(struct trial * t, struct step * s, int times) {
    static uint8_t want[4 * OUT_WORDS];
    struct error err = {0};
    int tried = 0;
    for (int attempt = 0; attempt < ATTEMPTS && tried < times; attempt++) {
        if (!write_program(t, attempt)) {
            return tried;
        }
        if (expected(t, t->machine, want, &err)) {
            compare(t, s, want);
            tried++;
        }
    }
    return tried;
}

static enum status begin(struct validate * v, struct trial * t, struct error * err) {
    uint8_t * pdi = NULL;
    size_t size = 0;
    *t = (struct trial){.l = &v->lab, .isa = aie_isa_get(v->arch), .seed = 29};
    struct emu_config config = {.arch = v->arch,
                                .columns = v->columns,
                                .resolve = resolve,
                                .user = t,
                                .adder = EMU_ADDER_ALIGNED,
                                .threads = 1,
                                .trace_col = -1,
                                .trace_row = -1};
    for (int i = 0; i < LAB_BUFFERS; i++) {
        t->host[i] = aligned_alloc(4096, (4 * OUT_WORDS + 4095) / 4096 * 4096);
        if (!t->host[i]) {
            return error_set(err, ST_NO_MEMORY, "no memory for a machine");
        }
    }
    enum status st = emu_machine_new(&config, &t->machine, err);
    if (st == ST_OK && v->arch == AIE_ARCH_AIE2P) {
        config.adder = EMU_ADDER_IEEE;
        st = emu_machine_new(&config, &t->ieee, err);
    }
    st = st == ST_OK ? design_cells(&v->lab, ARRAY_ROW_CORE, &pdi, &size, err) : st;
    return st == ST_OK ? lab_place(&v->lab, pdi, size, &t->cell, err) : st;
}

// Jumps, locks and marks are in every program that comes to its end.
static bool runs_anyway(const struct aie_instr * in) {
    return in->branches || in->locks || !strncmp(in->name, "EVENT", 5) || in->n_explicit == 0;
}

void step_instructions(struct validate * v) {
    struct step * s = validate_step(v, "instructions");
    static struct trial trial; // too large for a stack
    struct trial * t = &trial;
    struct error err = {0};
    struct buf left = {0};
    int known = 0, tested = 0, n_left = 0, anyway = 0;
    if (begin(v, t, &err) != ST_OK) {
        validate_bad(s, "%s", err.text);
    }
    for (int i = 0; i < EMITTED && err.status == ST_OK && !validate_interrupted(); i++) {
        t->op = aie_isa_find(t->isa, emitted[i].name);
        if (emitted[i].arch != v->arch || t->op < 0) {
            continue;
        }
        t->in = aie_isa_instr(t->isa, t->op);
        bool silicon = t->in->evidence == AIE_EVIDENCE_SILICON;
        known += silicon;
        anyway += runs_anyway(t->in) && !silicon;
        if ((silicon && !v->whole) || runs_anyway(t->in)) {
            continue;
        }
        validate_progress(v, "instructions: %s ...", emitted[i].name);
        if (try_instruction(t, s, v->whole ? 6 : 2)) {
            tested++;
        } else {
            n_left++;
            buf_printf(&left, "%s%s", n_left > 1 ? ", " : "", emitted[i].name);
        }
    }
    if (n_left) {
        buf_append(&left, "", 1);
        validate_say(s, "not alone, but in kernels: %.400s", (char *) left.data);
    }
    snprintf(s->detail, sizeof s->detail, "%d tested, %d in every program; %d were read on silicon",
             tested, anyway, known);
    buf_free(&left);
    lab_unplace(&v->lab, &t->cell);
    emu_machine_free(t->machine);
    emu_machine_free(t->ieee);
    for (int i = 0; i < LAB_BUFFERS; i++) {
        free(t->host[i]);
    }
    validate_done(v, s);
}

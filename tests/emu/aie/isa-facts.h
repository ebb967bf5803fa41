// isa-facts: the cycles of operands as LLVM's itineraries have them, read from the tables of facts
// that lie beside the golden data, not from src/aie/isa. An operand of ours is found there by the
// place of its field, by what it is part of, or by its register's name; aie2's table has no names,
// and there the order of the assembly text tells.
#pragma once

#include "base/cmocka-all.h"

#include <ctype.h>

#include "aie/isa/isa.h"

struct fact {
    uint8_t def_cycle, use_cycle; // 0: not told
    uint8_t def_bypass, use_bypass;
};

struct facts {
    struct fact (*ops)[AIE_MAX_OPERANDS]; // by opcode
    bool * known;                         // by opcode: there is a row
};

enum { FACT_CELLS = 20, FACT_OPERANDS = 20, FACT_TEXT = 48 };

// One operand of a row, in the order of the itinerary.
struct fact_operand {
    char name[FACT_TEXT], cls[FACT_TEXT];
    bool is_def, is_implicit;
};

static inline int fact_numbers(const char * cell, int * out, int max) {
    int n = 0;
    for (const char * at = cell; *at && n < max; at += strcspn(at, ","), at += *at == ',') {
        if (isdigit((unsigned char) *at)) {
            out[n++] = atoi(at);
        }
    }
    return n;
}

static inline uint8_t fact_bypass(const char * cell, int i) {
    for (; i && *cell; i--) {
        cell += strcspn(cell, ",");
        cell += *cell == ',';
    }
    return strncmp(cell, "MOV_B", 5) == 0 || strncmp(cell, "MV_B", 4) == 0 ? AIE_BYPASS_MOV
           : strncmp(cell, "VEC_B", 5) == 0                                ? AIE_BYPASS_VEC
                                                                           : AIE_BYPASS_NONE;
}

// ---- aie2p: "outs dst:eR ptr_out:eP | ins ptr:eP mod:eM" ----

static inline int fact_names(const char * cell, bool is_def, bool is_implicit,
                             struct fact_operand * out, int n) {
    while (*cell) {
        cell += strspn(cell, " ");
        size_t length = strcspn(cell, " "), name = strcspn(cell, ": ");
        if (length && n < FACT_OPERANDS) {
            struct fact_operand * o = &out[n++];
            *o = (struct fact_operand){.is_def = is_def, .is_implicit = is_implicit};
            snprintf(o->name, sizeof o->name, "%.*s", (int) name, cell);
            snprintf(o->cls, sizeof o->cls, "%.*s", (int) (length - name), cell + name);
        }
        cell += length;
    }
    return n;
}

// Lowest bit of the field of that name in the slot word; -1: none.
static inline int fact_field_bit(const char * fields, const char * name) {
    size_t n = strlen(name);
    for (const char * at = fields; (at = strstr(at, name)); at += n) {
        if ((at == fields || at[-1] == ' ') && at[n] == '(') {
            const char * bit = strchr(at, '@');
            return bit ? atoi(bit + 1) : -1;
        }
    }
    return -1;
}

// The bits of the slot word that an explicit operand has, found by changing it.
static inline uint64_t fact_operand_bits(const struct aie_isa * isa, struct aie_inst inst, int k) {
    struct error err;
    uint64_t first = 0, word = 0, bits = 0;
    int32_t old = inst.values[k];
    if (aie_slot_encode(isa, &inst, &first, &err) != ST_OK) {
        return 0;
    }
    for (int n = 0; n < 256; n++) {
        const struct aie_operand * o = &aie_isa_instr(isa, inst.op)->operands[k];
        for (int kind = o->is_imm ? -1 : 1; kind < (o->is_imm ? 0 : AIE_REG_KIND_COUNT); kind++) {
            inst.values[k] = kind < 0 ? old + n - 128 : (int32_t) AIE_REG(kind, n);
            if (n < 64 && aie_operand_fits(isa, inst.op, k, inst.values[k]) &&
                aie_slot_encode(isa, &inst, &word, &err) == ST_OK) {
                bits |= word ^ first;
            }
        }
    }
    return bits;
}

// Whether the fixed register or part of a register that ours is has the name of theirs.
static inline bool fact_is_implicit(const struct aie_operand * ours,
                                    const struct fact_operand * theirs) {
    static const struct {
        const char * cls;
        uint8_t part;
        const char * reg;
    } classes[] = {
        {":eDC", AIE_PART_DC, ""},   {":eDCL", AIE_PART_DC, ""},
        {":eDCH", AIE_PART_DC2, ""}, {":eLdFifoReg", AIE_PART_LF, ""},
        {":eRF2", AIE_PART_POS, ""}, {":mStFifo", 0, "sf"},
        {":mPfs", 0, "p2"},          {":mL8m", 0, "r17:r16"},
        {":mS2", 0, "s2"},           {":mS3", 0, "s3"},
    };
    char name[AIE_REG_NAME_SIZE] = "", lower[FACT_TEXT];
    if (!ours->part) {
        aie_reg_name(ours->fixed, name);
    }
    if (theirs->is_implicit) {
        size_t n = strlen(theirs->name);
        for (size_t i = 0; i <= n; i++) {
            lower[i] = (char) tolower((unsigned char) theirs->name[i]);
        }
        return *name && strcmp(lower, name) == 0;
    }
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (strcmp(theirs->cls, classes[i].cls) == 0) {
            return ours->part == classes[i].part && strcmp(name, classes[i].reg) == 0;
        }
    }
    int number = -1; // mR26_lock
    return sscanf(theirs->cls, ":mR%d_", &number) == 1 && *name == 'r' && !strchr(name, ':') &&
           atoi(name + 1) == number;
}

static inline void fact_row_by_names(const struct aie_isa * isa, int op, char ** cells,
                                     struct fact * out) {
    const struct aie_instr * in = aie_isa_instr(isa, op);
    struct fact_operand theirs[FACT_OPERANDS];
    int cycles[FACT_OPERANDS], n = 0, n_cycles = fact_numbers(cells[8], cycles, FACT_OPERANDS);
    char * ins = strstr(cells[10], "| ins");
    if (ins) {
        *ins = 0;
        n = fact_names(cells[10] + strlen("outs"), true, false, theirs, n);
        n = fact_names(ins + strlen("| ins"), false, false, theirs, n);
    }
    n = fact_names(cells[13], true, true, theirs, n);
    n = fact_names(cells[14], false, true, theirs, n);
    assert_int_equal(n, n_cycles);
    struct aie_inst inst = {0};
    struct error err;
    uint64_t bits[AIE_MAX_OPERANDS] = {0};
    assert_int_equal(aie_slot_decode(isa, in->slot, in->value, &inst, &err), ST_OK);
    for (int k = 0; k < in->n_explicit && inst.op == op; k++) {
        bits[k] = fact_operand_bits(isa, inst, k);
    }
    bool taken[FACT_OPERANDS] = {0};
    for (int k = 0; k < in->n_operands; k++) {
        for (int i = 0; i < n; i++) {
            char field[FACT_TEXT];
            memcpy(field, theirs[i].name, sizeof field);
            char * tied = strstr(cells[15], "tied:"); // tied:a0=d0
            char *suffix = strstr(field, "_out"), other[2][FACT_TEXT] = {"", ""};
            if (suffix) {
                *suffix = 0;
            }
            if (tied) {
                (void) sscanf(tied, "tied:%47[^=]=%47[^ ]", other[0], other[1]);
            }
            int bit = fact_field_bit(cells[5], field);
            for (int j = 0; bit < 0 && j < 2; j++) {
                bit = strcmp(field, other[j]) ? bit : fact_field_bit(cells[5], other[!j]);
            }
            bool same = k < in->n_explicit
                            ? bit >= 0 && bits[k] >> bit & 1
                            : bit < 0 && fact_is_implicit(&in->operands[k], &theirs[i]);
            bool role = in->operands[k].role & (theirs[i].is_def ? AIE_DEF : AIE_USE);
            uint8_t * cycle = theirs[i].is_def ? &out[k].def_cycle : &out[k].use_cycle;
            if (same && role && !taken[i] && !*cycle) {
                taken[i] = true;
                *cycle = (uint8_t) cycles[i];
                *(theirs[i].is_def ? &out[k].def_bypass : &out[k].use_bypass) =
                    fact_bypass(cells[9], i);
            }
        }
    }
}

// ---- aie2: results in our order, sources as the text has them, then fixed registers ----

static inline void fact_row_by_order(const struct aie_isa * isa, int op, char ** cells,
                                     struct fact * out) {
    const struct aie_instr * in = aie_isa_instr(isa, op);
    int cycles[FACT_OPERANDS], n = fact_numbers(cells[8], cycles, FACT_OPERANDS), at = 0;
    int order[3 * AIE_MAX_OPERANDS], count = 0, results = 0;
    for (int k = 0; k < in->n_operands; k++) {
        if (in->operands[k].role & AIE_DEF && (k < in->n_explicit || in->operands[k].part)) {
            order[count++] = k;
        }
    }
    results = count;
    bool named[AIE_MAX_OPERANDS] = {0};
    for (const char * t = in->text; *t; t++) {
        int k = *t == '%' ? aie_instr_operand(in, t[1]) : -1;
        if (k >= 0 && in->operands[k].role & AIE_USE && !named[k]) {
            named[k] = true;
            order[count++] = k;
        }
    }
    int sources = count, fixed_results = 0;
    for (int pass = 0; pass < 3; pass++) { // r26 and the like are sources that the text names
        for (int k = in->n_explicit; k < in->n_operands; k++) {
            const struct aie_operand * o = &in->operands[k];
            bool r = AIE_REG_KIND(o->fixed) == AIE_R;
            if (!o->part && (pass == 1 ? o->role & AIE_DEF : o->role & AIE_USE && r == !pass)) {
                order[count++] = k;
            }
        }
        sources = pass == 0 ? count : sources;
        fixed_results = pass == 1 ? count : fixed_results;
    }
    for (int i = 0; i < count && at < n; i++, at++) {
        bool def = i < results || (i >= sources && i < fixed_results);
        struct fact * f = &out[order[i]];
        *(def ? &f->def_bypass : &f->use_bypass) = fact_bypass(cells[9], at);
        *(def ? &f->def_cycle : &f->use_cycle) = (uint8_t) cycles[at];
    }
}

// Leaves the test when the table is not there.
static inline struct facts facts_read(enum aie_arch arch) {
    const char * path = arch == AIE_ARCH_AIE2 ? GOLDEN_DIR "/../facts/aie2_isa.tsv"
                                              : GOLDEN_DIR "/../facts/aie2p_isa.tsv";
    const struct aie_isa * isa = aie_isa_get(arch);
    FILE * f = fopen(path, "r");
    if (!f) {
        skip_test("no facts about LLVM's itineraries in %s/../facts", GOLDEN_DIR);
    }
    size_t n = (size_t) aie_isa_count(isa);
    struct facts facts = {calloc(n, sizeof *facts.ops), calloc(n, sizeof *facts.known)};
    assert_true(facts.ops && facts.known);
    static char line[16384];
    while (fgets(line, sizeof line, f)) {
        char * cells[FACT_CELLS] = {0};
        line[strcspn(line, "\r\n")] = 0;
        int columns = 0;
        for (char * at = line; at && columns < FACT_CELLS; columns++) {
            cells[columns] = at;
            at = strchr(at, '\t');
            if (at) {
                *at++ = 0;
            }
        }
        for (int i = columns; i < FACT_CELLS; i++) {
            cells[i] = line + strlen(line); // empty
        }
        int op = columns > 8 ? aie_isa_find(isa, cells[1]) : -1;
        if (op >= 0 && arch == AIE_ARCH_AIE2) {
            fact_row_by_order(isa, op, cells, facts.ops[op]);
        } else if (op >= 0) {
            fact_row_by_names(isa, op, cells, facts.ops[op]);
        }
        if (op >= 0) {
            facts.known[op] = true;
        }
    }
    fclose(f);
    return facts;
}

static inline void facts_free(struct facts * facts) {
    free(facts->ops);
    free(facts->known);
}

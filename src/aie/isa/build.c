// build: reads a target's tables once and makes what decoding and encoding need: masks, field
// positions, operands, registers by code, candidate rows by low bits. The tables are part of the
// program, so a row that does not parse is a bug: it is named and the process ends. Afterwards
// everything is immutable, and all threads share it.
#include "aie/isa/target.h"

#include <assert.h>
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void wrong(const char * row, const char * what, const char * where) {
    fprintf(stderr, "isa table: %s: %s at \"%s\"\n", row, what, where);
    abort();
}

// ---- operands: "d=r@7 p=:p m:d =m.dc LOAD@5" ----

struct cursor {
    const char * row; // its name, for wrong()
    const char * at;
};

static int number(struct cursor * c) {
    if (!isdigit((unsigned char) *c->at)) {
        wrong(c->row, "number expected", c->at);
    }
    int n = 0;
    while (isdigit((unsigned char) *c->at)) {
        n = n * 10 + (*c->at++ - '0');
    }
    return n;
}

static bool accept(struct cursor * c, char ch) {
    bool here = *c->at == ch;
    c->at += here;
    return here;
}

static size_t word_length(const char * at) {
    size_t n = 0;
    while (at[n] && at[n] != ' ' && at[n] != '@') {
        n++;
    }
    return n;
}

static void parse_stage(struct cursor * c, uint8_t * cycle, uint8_t * bypass) {
    *cycle = (uint8_t) number(c);
    *bypass = accept(c, 'm')   ? AIE_BYPASS_MOV
              : accept(c, 'v') ? AIE_BYPASS_VEC
              : accept(c, 'x') ? AIE_BYPASS_MOV_LOW
                               : AIE_BYPASS_NONE;
}

// "@5v/3v": result, then source; one alone stands for both, none for E1.
static void parse_stages(struct cursor * c, struct aie_operand * o) {
    uint8_t def = 1, use, def_bypass = AIE_BYPASS_NONE, use_bypass;
    bool given = accept(c, '@');
    if (given) {
        parse_stage(c, &def, &def_bypass);
    }
    use = def;
    use_bypass = def_bypass;
    if (given && accept(c, '/')) {
        parse_stage(c, &use, &use_bypass);
    }
    if (o->role & AIE_DEF) {
        o->def_cycle = def;
        o->def_bypass = def_bypass;
    }
    if (o->role & AIE_USE) {
        o->use_cycle = use;
        o->use_bypass = use_bypass;
    }
}

static uint8_t parse_role(struct cursor * c) {
    uint8_t role = 0;
    role |= accept(c, '=') ? AIE_DEF : 0;
    role |= accept(c, ':') ? AIE_USE : 0;
    return role;
}

static int class_by_name(const struct isa_target * target, struct cursor * c) {
    size_t length = word_length(c->at);
    for (int i = 0; i < target->n_classes; i++) {
        const char * name = target->classes[i].name;
        if (*name == *c->at && !strncmp(name, c->at, length) && !name[length]) {
            c->at += length;
            return i;
        }
    }
    wrong(c->row, "unknown class", c->at);
    return -1;
}

uint8_t isa_part_by_name(const char * name, size_t length) {
    static const char * const names[] = {
        [AIE_PART_DC] = "dc",
        [AIE_PART_DC2] = "dc2",
        [AIE_PART_LF] = "lf",
        [AIE_PART_POS] = "pos",
    };
    for (uint8_t part = AIE_PART_DC; part <= AIE_PART_POS; part++) {
        if (!strncmp(names[part], name, length) && !names[part][length]) {
            return part;
        }
    }
    return AIE_PART_ALL;
}

static void parse_implicit(struct cursor * c, struct aie_operand * o) {
    size_t length = word_length(c->at);
    if (c->at[1] == '.') { // m.dc
        o->field = c->at[0];
        o->part = isa_part_by_name(c->at + 2, length - 2);
        if (!o->part) {
            wrong(c->row, "unknown part", c->at);
        }
    } else {
        o->fixed = isa_reg_by_name(c->at, length);
        if (!o->fixed) {
            wrong(c->row, "unknown register", c->at);
        }
    }
    c->at += length;
}

static bool parse_flag(struct cursor * c, struct aie_instr * in) {
    static const struct {
        const char * name;
        bool loads, stores, branches, locks;
    } flags[] = {
        {"LOAD", true, false, false, false}, {"STORE", false, true, false, false},
        {"RMW", true, true, false, false},   {"BRANCH", false, false, true, false},
        {"LOCK", false, false, false, true},
    };
    if (!isupper((unsigned char) *c->at)) {
        return false;
    }
    size_t length = word_length(c->at);
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (strncmp(flags[i].name, c->at, length) || flags[i].name[length]) {
            continue;
        }
        c->at += length;
        in->loads |= flags[i].loads;
        in->stores |= flags[i].stores;
        in->branches |= flags[i].branches;
        in->locks |= flags[i].locks;
        if (accept(c, '@')) {
            in->mem_first = in->mem_cycle = (uint8_t) number(c);
            if (accept(c, '/')) {
                in->mem_cycle = (uint8_t) number(c);
            }
        }
        return true;
    }
    return false;
}

static void parse_operands(const struct isa_target * target, const char * text,
                           struct aie_instr * in) {
    struct cursor c = {in->name, text};
    while (*c.at) {
        if (accept(&c, ' ') || parse_flag(&c, in)) {
            continue;
        }
        if (in->n_operands == AIE_MAX_OPERANDS) {
            wrong(in->name, "too many operands", c.at);
        }
        struct aie_operand * o = &in->operands[in->n_operands++];
        o->role = parse_role(&c);
        if (o->role) {
            parse_implicit(&c, o);
            parse_stages(&c, o);
            in->has_fixed |= o->fixed && (AIE_REG_KIND(o->fixed) != AIE_SR || o->role != AIE_DEF);
            continue;
        }
        if (in->n_explicit != in->n_operands - 1) {
            wrong(in->name, "explicit operand after an implicit one", c.at);
        }
        in->n_explicit++;
        o->field = *c.at++;
        o->is_imm = accept(&c, '#');
        o->role = o->is_imm ? AIE_USE : parse_role(&c);
        if (!o->role) {
            wrong(in->name, "=, : or # expected", c.at);
        }
        o->cls = (uint8_t) class_by_name(target, &c);
        parse_stages(&c, o);
    }
}

static uint16_t operands_of(const struct aie_instr * in, enum aie_role role) {
    unsigned found = 0;
    for (int k = 0; k < in->n_operands; k++) {
        found |= in->operands[k].role & role ? 1u << k : 0;
    }
    return (uint16_t) found;
}

static uint8_t last_cycle(const struct aie_instr * in) {
    uint8_t last = 1;
    for (int k = 0; k < in->n_operands; k++) {
        const struct aie_operand * o = &in->operands[k];
        uint8_t cycle = o->role & AIE_DEF ? o->def_cycle : o->use_cycle;
        last = AIE_REG_KIND(o->fixed) != AIE_SR && cycle > last ? cycle : last;
    }
    return last;
}

// ---- patterns ----

static void add_bit(struct isa_field * f, const char * row, int bit) {
    if (f->n_runs && f->runs[f->n_runs - 1].lsb == bit + 1) {
        f->runs[f->n_runs - 1].lsb--;
        f->runs[f->n_runs - 1].width++;
        return;
    }
    if (f->n_runs == ISA_MAX_RUNS) {
        wrong(row, "field in too many pieces", "");
    }
    f->runs[f->n_runs].lsb = (uint8_t) bit;
    f->runs[f->n_runs].width = 1;
    f->n_runs++;
}

static void parse_pattern(const struct isa_target * target, const char * pattern,
                          struct aie_instr * in, struct isa_field * fields) {
    int bits = (int) strlen(pattern);
    if (bits != target->slot_bits[in->slot]) {
        wrong(in->name, "pattern is not as wide as its slot", pattern);
    }
    for (int i = 0; i < bits; i++) {
        int bit = bits - 1 - i;
        char ch = pattern[i];
        if (ch == '0' || ch == '1') {
            in->mask |= 1ull << bit;
            in->value |= (uint64_t) (ch == '1') << bit;
        } else if (ch != '-') {
            int k = aie_instr_operand(in, ch);
            if (k < 0) {
                wrong(in->name, "letter without an operand", pattern + i);
            }
            add_bit(&fields[k], in->name, bit);
        }
    }
    for (int k = 0; k < in->n_explicit; k++) {
        int width = 0;
        for (int r = 0; r < fields[k].n_runs; r++) {
            width += fields[k].runs[r].width;
        }
        if (width != target->classes[in->operands[k].cls].bits) {
            wrong(in->name, "field is not as wide as its class",
                  (char[]){in->operands[k].field, 0});
        }
    }
}

// ---- formats: "00010 alu 0011001" ----

const char * const isa_slot_names[AIE_SLOT_COUNT] = {
    [AIE_SLOT_LDA] = "lda", [AIE_SLOT_LDB] = "ldb", [AIE_SLOT_ALU] = "alu", [AIE_SLOT_MV] = "mv",
    [AIE_SLOT_ST] = "st",   [AIE_SLOT_VEC] = "vec", [AIE_SLOT_LNG] = "lng", [AIE_SLOT_NOP] = "nop",
};

static void parse_format(const struct isa_target * target, const struct isa_format_row * row,
                         struct isa_format * f) {
    f->name = row->name;
    f->bytes = (uint8_t) row->bytes;
    int bit = row->bytes * 8;
    for (const char * at = row->layout; *at;) {
        size_t length = strcspn(at, " ");
        if (strchr("01-", *at)) {
            for (size_t i = 0; i < length && bit > 0; i++) {
                bit--;
                f->mask[bit / 64] |= (uint64_t) (at[i] != '-') << bit % 64;
                f->value[bit / 64] |= (uint64_t) (at[i] == '1') << bit % 64;
            }
        } else {
            int s = 0;
            while (s < AIE_SLOT_COUNT &&
                   (strncmp(isa_slot_names[s], at, length) || isa_slot_names[s][length])) {
                s++;
            }
            if (s == AIE_SLOT_COUNT || bit < target->slot_bits[s]) {
                wrong(row->name, "no such slot, or no room for it", at);
            }
            bit -= target->slot_bits[s];
            f->lsb[s] = (uint8_t) bit;
            f->slots |= (uint8_t) (1 << s);
        }
        at += length;
        at += *at == ' ';
    }
    if (bit) {
        wrong(row->name, "layout is not as wide as the bundle", row->layout);
    }
}

// ---- registers by code, codes by register ----

// A register that has several codes keeps the first.
static void note_code(struct aie_isa * isa, int c, const struct isa_code * run, int i, int * rows) {
    int number = run->first + i * run->step;
    uint8_t * row = &isa->kind_codes[c][run->kind];
    if (number >= ISA_MAX_NUMBERS || (!*row && *rows == ISA_MAX_KINDS)) {
        wrong(isa->target->classes[c].name, "no room for its registers", "");
    }
    *row = *row ? *row : (uint8_t) (*rows)++;
    uint16_t * code = &isa->reg_codes[*row][number];
    *code = *code ? *code : (uint16_t) (1 + run->code + i * run->stride);
}

static void build_codes(struct aie_isa * isa) {
    int used = 0, rows = 1;
    for (int c = 0; c < isa->target->n_classes; c++) {
        const struct isa_class * cls = &isa->target->classes[c];
        if (cls->imm) {
            continue;
        }
        int size = 1 << cls->bits;
        if (used + size > ISA_MAX_CODES) {
            wrong(cls->name, "no room for its codes", "");
        }
        isa->class_codes[c] = (uint16_t) used;
        aie_reg * codes = isa->codes + used;
        for (int r = 0; r < cls->n_codes; r++) {
            const struct isa_code * run = &cls->codes[r];
            for (int i = 0; i < run->count; i++) {
                int code = run->code + i * run->stride;
                note_code(isa, c, run, i, &rows);
                // every subset of the ignored bits
                for (int x = run->ignore;; x = (x - 1) & run->ignore) {
                    if ((code | x) >= size || codes[code | x]) {
                        wrong(cls->name, "code too large or given twice", "");
                    }
                    codes[code | x] = AIE_REG(run->kind, run->first + i * run->step);
                    if (!x) {
                        break;
                    }
                }
            }
        }
        used += size;
    }
}

// ---- candidates ----

static int popcount(uint64_t v) {
    int n = 0;
    for (; v; v &= v - 1) {
        n++;
    }
    return n;
}

// The ops of a slot, most fixed bits first.
static int slot_order(const struct aie_isa * isa, enum aie_slot slot,
                      uint16_t order[ISA_MAX_INSTRS]) {
    uint8_t fixed[ISA_MAX_INSTRS]; // parallel to order
    int n = 0;
    for (int op = 0; op < isa->target->n_rows; op++) {
        if (isa->instrs[op].slot != slot) {
            continue;
        }
        uint8_t bits = (uint8_t) popcount(isa->instrs[op].mask);
        int i = n++;
        for (; i > 0 && fixed[i - 1] < bits; i--) {
            order[i] = order[i - 1];
            fixed[i] = fixed[i - 1];
        }
        order[i] = (uint16_t) op;
        fixed[i] = bits;
    }
    return n;
}

static void build_buckets(struct aie_isa * isa) {
    int used = 0;
    for (int s = 0; s < AIE_SLOT_COUNT; s++) {
        uint16_t order[ISA_MAX_INSTRS];
        uint8_t mask[ISA_MAX_INSTRS], value[ISA_MAX_INSTRS]; // low bits, parallel to order
        int n = slot_order(isa, (enum aie_slot) s, order);
        for (int i = 0; i < n; i++) {
            mask[i] = (uint8_t) (isa->instrs[order[i]].mask & (ISA_BUCKETS - 1));
            value[i] = (uint8_t) (isa->instrs[order[i]].value & (ISA_BUCKETS - 1));
        }
        for (int b = 0; b < ISA_BUCKETS; b++) {
            isa->bucket[s][b] = (uint16_t) used;
            for (int i = 0; i < n; i++) {
                if ((b & mask[i]) == value[i]) {
                    assert(used < ISA_MAX_CANDIDATES);
                    isa->candidates[used++] = order[i];
                }
            }
        }
        isa->bucket[s][ISA_BUCKETS] = (uint16_t) used;
    }
}

static int compare_names(const void * a, const void * b) {
    return strcmp((*(const struct isa_row * const *) a)->name,
                  (*(const struct isa_row * const *) b)->name);
}

static void build_names(struct aie_isa * isa) {
    const struct isa_row * sorted[ISA_MAX_INSTRS];
    for (int op = 0; op < isa->target->n_rows; op++) {
        sorted[op] = &isa->target->rows[op];
    }
    qsort(sorted, (size_t) isa->target->n_rows, sizeof(sorted[0]), compare_names);
    for (int i = 0; i < isa->target->n_rows; i++) {
        isa->by_name[i] = (uint16_t) (sorted[i] - isa->target->rows);
    }
}

// An exact name counts before a beginning, a longer beginning before a shorter one.
static uint8_t evidence_of(const struct isa_target * target, const char * name) {
    size_t longest = 0;
    enum aie_evidence best = target->evidence ? AIE_EVIDENCE_NONE : AIE_EVIDENCE_SILICON;
    for (int i = 0; i < target->n_evidence; i++) {
        const struct isa_evidence_row * row = &target->evidence[i];
        size_t same = 0; // characters
        while (name[same] && row->name[same] == name[same]) {
            same++;
        }
        if (row->name[same] == name[same]) {
            return (uint8_t) row->evidence;
        }
        if (row->name[same] == '*' && same + 1 > longest) {
            longest = same + 1;
            best = row->evidence;
        }
    }
    return (uint8_t) best;
}

static void isa_build(struct aie_isa * isa, const struct isa_target * target) {
    assert(target->n_rows <= ISA_MAX_INSTRS && target->n_formats <= ISA_MAX_FORMATS);
    assert(target->n_classes <= ISA_MAX_CLASSES);
    isa->target = target;
    for (int op = 0; op < target->n_rows; op++) {
        const struct isa_row * row = &target->rows[op];
        struct aie_instr * in = &isa->instrs[op];
        in->name = row->name;
        in->text = row->text;
        in->slot = row->slot;
        in->evidence = evidence_of(target, row->name);
        parse_operands(target, row->operands, in);
        in->last_cycle = last_cycle(in);
        in->defs = operands_of(in, AIE_DEF);
        in->uses = operands_of(in, AIE_USE);
        parse_pattern(target, row->pattern, in, isa->fields[op]);
    }
    for (int f = 0; f < target->n_formats; f++) {
        parse_format(target, &target->formats[f], &isa->formats[f]);
        assert(f == 0 || isa->formats[f].bytes >= isa->formats[f - 1].bytes);
        for (int half = isa->formats[f].bytes / 2 + 1; half <= AIE_MAX_BUNDLE_BYTES / 2 + 1;
             half++) {
            isa->formats_from[half] = (uint8_t) (f + 1);
        }
    }
    build_codes(isa);
    build_buckets(isa);
    build_names(isa);
    isa_build_formats(isa);
}

// ---- access ----

static struct aie_isa isas[AIE_ARCH_COUNT];

static void build_aie2(void) {
    isa_build(&isas[AIE_ARCH_AIE2], &isa_aie2);
}

static void build_aie2p(void) {
    isa_build(&isas[AIE_ARCH_AIE2P], &isa_aie2p);
}

const struct aie_isa * aie_isa_get(enum aie_arch arch) {
    static pthread_once_t once[AIE_ARCH_COUNT] = {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT};
    static void (*const build[AIE_ARCH_COUNT])(void) = {build_aie2, build_aie2p};
    assert(arch < AIE_ARCH_COUNT);
    pthread_once(&once[arch], build[arch]);
    return &isas[arch];
}

int aie_isa_count(const struct aie_isa * isa) {
    return isa->target->n_rows;
}

const struct aie_instr * aie_isa_instr(const struct aie_isa * isa, int op) {
    assert(op >= 0 && op < isa->target->n_rows);
    return &isa->instrs[op];
}

int aie_isa_find(const struct aie_isa * isa, const char * name) {
    int lo = 0, hi = isa->target->n_rows;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        int order = strcmp(isa->instrs[isa->by_name[mid]].name, name);
        if (!order) {
            return isa->by_name[mid];
        }
        if (order < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return -1;
}

int aie_isa_nop(const struct aie_isa * isa, enum aie_slot slot) {
    return isa->target->nops[slot];
}

int aie_slot_bits(const struct aie_isa * isa, enum aie_slot slot) {
    return isa->target->slot_bits[slot];
}

int aie_instr_operand(const struct aie_instr * instr, char field) {
    for (int k = 0; k < instr->n_explicit; k++) {
        if (instr->operands[k].field == field) {
            return k;
        }
    }
    return -1;
}

aie_reg aie_inst_reg(const struct aie_instr * instr, const struct aie_inst * inst, int k) {
    const struct aie_operand * o = &instr->operands[k];
    if (k < instr->n_explicit) {
        return o->is_imm ? 0 : (aie_reg) inst->values[k];
    }
    if (!o->part) {
        return o->fixed;
    }
    int n = AIE_REG_NUM((aie_reg) inst->values[aie_instr_operand(instr, o->field)]);
    switch (o->part) {
    case AIE_PART_DC:
        return AIE_REG(AIE_DC, n);
    case AIE_PART_DC2:
        return AIE_REG(AIE_DC, n + 4);
    case AIE_PART_LF:
        return AIE_REG(AIE_LF, n);
    default:
        return AIE_REG(AIE_R, 24 + n);
    }
}

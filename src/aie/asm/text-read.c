// asm/text-read: programs read from text, with the calls that an author would make. Virtual
// registers keep the numbers that they have in the text, so that a program that was printed is read
// as the same program and becomes the same bytes. A mistake in a line is reported with the line and
// a mark at the place; what is wrong with the program as such is asm_finish's to report.
#include "text-impl.h"

#include "base/plain.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 240, MAX_LABELS = 512, MAX_NAME = 24, MAX_VREGS = 16384, MOST_SPILLS = 1024 };

struct reader {
    struct asm_program * p;
    char line[MAX_LINE]; // without its comment
    int number;          // of it
    struct error * err;
    enum status st;
    struct text_vreg * vregs; // by number; phys.at NULL and cls of ASM_CLASS_COUNT: not mentioned
    int n_vregs, cap_vregs;
    struct {
        char name[MAX_NAME];
        int label;
    } labels[MAX_LABELS];
    int n_labels;
};

// ---- errors ----

static bool fail(struct reader * r, const char * at, const char * fmt, ...) BASE_PRINTF(3, 4);

static bool fail(struct reader * r, const char * at, const char * fmt, ...) {
    char what[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (r->st == ST_OK) {
        size_t skip = strspn(r->line, " ");
        int column = at >= r->line + skip ? (int) (at - r->line - (ptrdiff_t) skip) : 0;
        plain_make(what, false);
        r->st = error_set_lines(r->err, ST_INVALID, "asm: line %d: %s\n  %s\n  %*s^", r->number,
                                what, r->line + skip, column, "");
    }
    return false;
}

// ---- lines ----

// The next line into r->line; false at the end of the text.
static bool next_line(struct reader * r, const char ** text) {
    if (!**text || r->st != ST_OK) {
        return false;
    }
    size_t length = strcspn(*text, "\n"), kept = length;
    for (size_t i = 0; i + 1 < length; i++) {
        if ((*text)[i] == '/' && (*text)[i + 1] == '/') {
            kept = i;
            break;
        }
    }
    r->number++;
    bool fits = kept < sizeof r->line;
    kept = fits ? kept : sizeof r->line - 1;
    memcpy(r->line, *text, kept);
    while (kept > 0 && isspace((unsigned char) r->line[kept - 1])) {
        kept--;
    }
    r->line[kept] = 0;
    for (size_t i = 0; i < kept; i++) {
        r->line[i] = r->line[i] == '\t' ? ' ' : r->line[i];
    }
    *text += length + ((*text)[length] == '\n');
    return fits || fail(r, r->line, "the line is longer than %d characters", MAX_LINE - 1);
}

static char * skip_blanks(char * at) {
    return at + strspn(at, " ");
}

// The word at *at, which moves behind it; false when another one stands there.
static bool take_word(char ** at, const char * word) {
    size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0 || ((*at)[n] && (*at)[n] != ' ')) {
        return false;
    }
    *at = skip_blanks(*at + n);
    return true;
}

static bool take_number(char ** at, long * out) {
    char * end;
    if (!isdigit((unsigned char) **at) && **at != '-') {
        return false;
    }
    *out = strtol(*at, &end, 10);
    bool ok = end != *at;
    *at = end;
    return ok;
}

static struct text_token take_token(char ** at) {
    struct text_token t = {*at, strcspn(*at, " ")};
    *at = skip_blanks(*at + t.length);
    return t;
}

// ---- virtual registers ----

// Room for one with that number, and those below it that are not mentioned yet.
static bool room_for(struct reader * r, struct text_token t, int id) {
    if (id >= r->cap_vregs) {
        int cap = id < 32 ? 64 : 2 * id;
        struct text_vreg * grown = realloc(r->vregs, (size_t) cap * sizeof *grown);
        if (!grown) {
            fail(r, t.at, "no memory for so many registers");
            r->st = ST_NO_MEMORY;
            return false;
        }
        r->vregs = grown;
        r->cap_vregs = cap;
    }
    for (; r->n_vregs <= id; r->n_vregs++) {
        r->vregs[r->n_vregs] = (struct text_vreg){.cls = ASM_CLASS_COUNT};
    }
    return true;
}

static bool note_vreg(struct reader * r, struct text_token t) {
    struct text_vreg v;
    if (!text_vreg_parse(t, &v)) {
        return fail(r, t.at, "'%.*s' is no virtual register", (int) t.length, t.at);
    }
    if (v.reg.id >= MAX_VREGS) {
        return fail(r, t.at, "registers are numbered up to %d", MAX_VREGS - 1);
    }
    if (!room_for(r, t, v.reg.id)) {
        return false;
    }
    struct text_vreg * known = &r->vregs[v.reg.id];
    if (known->cls == ASM_CLASS_COUNT) {
        *known = (struct text_vreg){.cls = v.cls, .global = v.global};
    } else if (known->cls != v.cls || known->global != v.global) {
        return fail(r, t.at, "register %d is another one above", v.reg.id);
    }
    return true;
}

// All that the text names, so that they can be made in the order of their numbers.
static bool note_vregs(struct reader * r, const char * text) {
    while (next_line(r, &text)) {
        for (char * at = r->line; (at = strpbrk(at, "%$"));) {
            struct text_token t = {at, strcspn(at, " ,;[]")};
            if (!note_vreg(r, t)) {
                return false;
            }
            at += t.length;
        }
    }
    r->number = 0;
    return r->st == ST_OK;
}

// A global is one from its line on; one that nobody names keeps its number free.
static void make_vregs(struct reader * r) {
    for (int i = 0; i < r->n_vregs; i++) {
        const struct text_vreg * v = &r->vregs[i];
        asm_vreg_new(r->p, v->cls == ASM_CLASS_COUNT ? ASM_R : v->cls, -1);
    }
}

// The number of the register of that name in a class, -1: none.
static int phys_of(const struct asm_program * p, enum asm_class cls, struct text_token name) {
    for (uint64_t set = asm_class_set(p, cls); set; set &= set - 1) {
        char text[AIE_REG_NAME_SIZE];
        int n = __builtin_ctzll(set);
        aie_reg_name(asm_phys(p->target, cls, n, -1), text);
        if (strlen(text) == name.length && !memcmp(text, name.at, name.length)) {
            return n;
        }
    }
    return -1;
}

// "$p0", and it gets what asm_global would give it; "$p0=p7": that very register.
static bool read_global(struct reader * r, struct text_token t) {
    struct asm_program * p = r->p;
    struct text_vreg v;
    if (!text_vreg_parse(t, &v) || !v.global) {
        return fail(r, t.at, "'%.*s' is no global register", (int) t.length, t.at);
    }
    struct asm_vreg * vreg = &p->vregs[v.reg.id];
    uint64_t left = asm_class_set(p, v.cls) & ~p->global_taken[v.cls];
    int n = v.phys.length ? phys_of(p, v.cls, v.phys) : left ? 63 - __builtin_clzll(left) : -1;
    if (vreg->global) {
        return fail(r, t.at, "$%s%d is there already", text_class_names[v.cls], v.reg.id);
    }
    if (n < 0 || !(left >> n & 1)) {
        return fail(r, t.at,
                    n < 0 && v.phys.length ? "this is no register of its class"
                    : v.phys.length        ? "this register is another global's"
                                           : "no register of its class is left");
    }
    asm_note_class(p, v.cls);
    vreg->global = true;
    asm_give_register(p, vreg, n);
    return asm_list_global(p, (int) (vreg - p->vregs));
}

// The register that a token names; false, and it is reported, when it is a global before its line.
static bool vreg_of(struct reader * r, struct text_token t, struct asm_reg * out) {
    struct text_vreg v;
    if (!text_vreg_parse(t, &v)) {
        return false;
    }
    if (v.global && !r->p->vregs[v.reg.id].global) {
        fail(r, t.at, "$%s%d wants a line \"global $%s%d\" before", text_class_names[v.cls],
             v.reg.id, text_class_names[v.cls], v.reg.id);
    }
    asm_note_class(r->p, v.cls);
    *out = v.reg;
    return true;
}

// ---- labels ----

static int label_of(struct reader * r, struct text_token t) {
    for (int i = 0; i < r->n_labels; i++) {
        if (strlen(r->labels[i].name) == t.length && !memcmp(r->labels[i].name, t.at, t.length)) {
            return r->labels[i].label;
        }
    }
    if (r->n_labels == MAX_LABELS || t.length >= MAX_NAME) {
        fail(r, t.at, "a program has at most %d labels of %d letters", MAX_LABELS, MAX_NAME - 1);
        return 0;
    }
    memcpy(r->labels[r->n_labels].name, t.at, t.length);
    r->labels[r->n_labels].label = asm_label_new(r->p);
    return r->labels[r->n_labels++].label;
}

// ---- instructions ----

struct instr {
    int op, memory;
    struct asm_arg args[ASM_MAX_ARGS];
};

static struct asm_arg arg_of(struct reader * r, int op, int k, struct text_token t) {
    const struct aie_instr * in = asm_instr(r->p, op);
    struct asm_reg reg;
    if (in->operands[k].is_imm) {
        bool number = isdigit((unsigned char) *t.at) || *t.at == '-' || *t.at == '+';
        return number ? A_IMM((int32_t) strtol(t.at, NULL, 0)) : A_LABEL(label_of(r, t));
    }
    if (vreg_of(r, t, &reg)) {
        return A_REG(reg);
    }
    return A_FIXED(aie_operand_reg(r->p->isa, op, k, t.at, t.length));
}

// The record that "!RECORD" names in this slot, -1: none; -2, with the error reported: there is no
// such.
static int named_record(struct reader * r, const char * at) {
    size_t length = strcspn(at, ";"), mark = strcspn(at, ";!");
    char name[64] = "";
    if (mark == length) {
        return -1;
    }
    size_t n = strcspn(at + mark + 1, " ;");
    if (n < sizeof name) {
        memcpy(name, at + mark + 1, n);
        name[n] = 0;
    }
    int op = aie_isa_find(r->p->isa, name);
    if (op < 0) {
        fail(r, at + mark, "there is no record %s", name);
    }
    return op < 0 ? -2 : op;
}

// Says how an instruction of that name would be written.
static bool no_instr(struct reader * r, const char * at) {
    size_t word = strcspn(at, " ;");
    for (int op = 0; op < aie_isa_count(r->p->isa); op++) {
        const char * text = asm_instr(r->p, op)->text;
        if (!strncmp(text, at, word) && (text[word] == ' ' || !text[word])) {
            return fail(r, at, "no %.*s takes these operands; one is written \"%s\"", (int) word,
                        at, text);
        }
    }
    return fail(r, at, "there is no instruction %.*s", (int) word, at);
}

// One instruction with what belongs to it; *at moves behind it.
static bool read_instr(struct reader * r, char ** at, struct instr * out) {
    struct text_match match;
    int named = named_record(r, *at);
    out->op = named < -1 ? -1 : text_find(r->p, *at, named, &match);
    out->memory = 0;
    if (out->op < 0) {
        return no_instr(r, *at);
    }
    const struct aie_instr * in = asm_instr(r->p, out->op);
    if (in->n_explicit > ASM_MAX_ARGS) {
        return fail(r, *at, "%s has too many operands", in->name);
    }
    for (int k = 0; k < in->n_explicit; k++) {
        out->args[k] = arg_of(r, out->op, k, match.operands[k]);
    }
    *at = skip_blanks(*at + (match.end - *at));
    if (**at == '@') {
        long memory = 0;
        ++*at;
        if (!take_number(at, &memory) || memory < 0 || memory > UINT8_MAX) {
            return fail(r, *at, "a buffer is a number up to 255");
        }
        out->memory = (int) memory;
        *at = skip_blanks(*at);
    }
    if (**at == '!') {
        *at += strcspn(*at, " ;");
        *at = skip_blanks(*at);
    }
    return r->st == ST_OK;
}

static bool add_instr(struct reader * r, char * at) {
    struct instr i;
    if (!read_instr(r, &at, &i)) {
        return false;
    }
    if (*at) {
        return fail(r, at, "one instruction a line, but in bundles");
    }
    const struct aie_instr * in = asm_instr(r->p, i.op);
    if (in->branches || in->locks) {
        asm_single(r->p, in->branches ? ASM_ITEM_JUMP : ASM_ITEM_LOCK, i.op, i.args,
                   in->n_explicit);
    } else {
        asm_emit(r->p, i.op, i.memory, i.args, in->n_explicit);
    }
    return true;
}

static bool add_loop(struct reader * r, char * at) {
    struct asm_reg count;
    struct text_token t = take_token(&at);
    long every = 0;
    if (!vreg_of(r, t, &count)) {
        return fail(r, t.at, "a loop wants the register with its count");
    }
    bool rolls = take_word(&at, "rolling");
    at = skip_blanks(at);
    bool alone = take_word(&at, "alone");
    at = skip_blanks(at);
    if (take_word(&at, "every") && (!take_number(&at, &every) || every < 1 || every > 4096)) {
        return fail(r, at, "a trip begins every so many bundles, from 1 on");
    }
    at = skip_blanks(at);
    bool late = take_word(&at, "late");
    at = skip_blanks(at);
    if (!take_word(&at, "{") || *at) {
        return fail(r, at, "{ is wanted here, and the region on lines of its own");
    }
    if (rolls) {
        asm_loop_begin_rolling(r->p, count);
    } else {
        asm_loop_begin(r->p, count);
    }
    if (alone) {
        asm_loop_alone(r->p);
    }
    if (every && r->p->n_items) {
        r->p->items[r->p->n_items - 1].interval = (int) every;
    }
    if (late) {
        asm_loop_late(r->p);
    }
    return r->st == ST_OK;
}

// ---- bundles ----

static bool add_bundle(struct reader * r, char * at) {
    struct asm_program * p = r->p;
    long idle = 0;
    if (take_word(&at, "idle")) {
        if (!take_number(&at, &idle) || idle < 1 || idle > 4096 || *at) {
            return fail(r, at, "idle wants the number of bundles");
        }
        asm_idle(p, (int) idle);
        return true;
    }
    int index = asm_bundle_add(p);
    unsigned taken = 0;
    while (*at && index >= 0) {
        struct instr i;
        char * start = at;
        if (!read_instr(r, &at, &i)) {
            return false;
        }
        const struct aie_instr * in = asm_instr(p, i.op);
        if (taken >> in->slot & 1) {
            return fail(r, start, "the slot of %s is taken in this bundle", in->name);
        }
        taken |= asm_excludes(in->slot);
        int node = asm_node_new(p, i.op, i.memory, i.args, in->n_explicit);
        asm_put(p, index, node, i.op);
        if (*at == ';') {
            at = skip_blanks(at + 1);
        } else if (*at) {
            return fail(r, at, "a ; is wanted between instructions");
        }
    }
    return true;
}

// ---- lines that are no instruction ----

static bool read_target(struct reader * r, char * at) {
    struct text_token t = take_token(&at);
    enum aie_arch arch;
    if (!text_arch_parse(t.at, t.length, &arch)) {
        return fail(r, t.at, "no target '%.*s': aie2 or aie2p", (int) t.length, t.at);
    }
    if (r->p) {
        return fail(r, r->line, "the target stands once, before everything else");
    }
    if (asm_new(arch, &r->p) != ST_OK) {
        r->st = error_set(r->err, ST_NO_MEMORY, "asm: out of memory");
        return false;
    }
    make_vregs(r);
    return true;
}

static bool read_label(struct reader * r, char * at) {
    int label = label_of(r, (struct text_token){at, strlen(at) - 1});
    if (r->st != ST_OK) {
        return false;
    }
    if (r->p->placed) {
        r->p->labels[label] = r->p->n_bundles;
    } else {
        asm_label(r->p, label);
    }
    return true;
}

static bool read_globals(struct reader * r, char * at) {
    while (*at) {
        if (!read_global(r, take_token(&at))) {
            return false;
        }
    }
    return true;
}

// "memory @2 bank 3", "memory @2 bank 3 margin 256", "memory @2 margin 256", "memory @2 bank 3
// again 64 4096": from 64 on it stands 4096 further, too.
static bool read_memory(struct reader * r, char * at) {
    long memory = -1, bank = -1, first = 0, further = 0, margin = 0;
    bool known =
        *at == '@' && (at++, take_number(&at, &memory)) && memory >= 0 && memory < ASM_MIRROR;
    at = skip_blanks(at);
    bool has_bank = known && take_word(&at, "bank");
    if (has_bank) {
        known = take_number(&at, &bank) && bank >= 0 && bank < ASM_BANKS;
        at = skip_blanks(at);
    }
    bool has_margin = known && take_word(&at, "margin");
    if (has_margin) {
        known = take_number(&at, &margin) && margin >= 0 && margin <= INT32_MAX;
        at = skip_blanks(at);
    }
    known &= has_bank || has_margin;
    bool again = known && take_word(&at, "again");
    if (again) {
        known = take_number(&at, &first) && (at = skip_blanks(at), take_number(&at, &further));
    }
    if (!known || *at || first < INT32_MIN || first > INT32_MAX || further < 0 ||
        further > INT32_MAX) {
        return fail(r, at, "a buffer up to @%d and its bank are wanted: memory @1 bank 0",
                    ASM_MIRROR - 1);
    }
    r->p->memories[memory].bank = (int8_t) (bank + 1);
    r->p->memories[memory].margin = (int32_t) margin;
    if (again) {
        asm_mirror(r->p, (int) memory, (int32_t) first, (int32_t) further);
    }
    return true;
}

// "spill @5 40": values without a register go to 40 vectors of memory 5.
static bool read_spill(struct reader * r, char * at) {
    long memory = -1, vectors = 0;
    if (*at != '@' || (at++, !take_number(&at, &memory)) || memory < 0 || memory >= ASM_MIRROR ||
        (at = skip_blanks(at), !take_number(&at, &vectors)) || vectors < 1 ||
        vectors > MOST_SPILLS || *at) {
        return fail(r, at, "a buffer up to @%d and at most %d vectors are wanted: spill @1 8",
                    ASM_MIRROR - 1, MOST_SPILLS);
    }
    asm_spill_to(r->p, (int) memory, (int) vectors);
    return true;
}

static bool read_release(struct reader * r, char * at) {
    while (*at) {
        struct asm_reg reg;
        struct text_token t = take_token(&at);
        if (!vreg_of(r, t, &reg)) {
            return fail(r, t.at, "'%.*s' is no global register", (int) t.length, t.at);
        }
        asm_release(r->p, reg);
    }
    return r->st == ST_OK;
}

static bool read_line(struct reader * r) {
    char * at = skip_blanks(r->line);
    size_t length = strlen(at);
    if (!*at) {
        return true;
    }
    if (take_word(&at, "target")) {
        return read_target(r, at);
    }
    if (!r->p) {
        return fail(r, at, "\"target aie2\" is wanted first");
    }
    if (take_word(&at, "small")) {
        asm_keep_small(r->p);
        return true;
    }
    if (take_word(&at, "ready")) {
        r->p->ready = true;
        return true;
    }
    if (take_word(&at, "bundles")) {
        r->p->placed = true;
        return r->p->n_items == 0 || fail(r, r->line, "a program is bundles or it is not");
    }
    if (take_word(&at, "global")) {
        return read_globals(r, at);
    }
    if (take_word(&at, "memory")) {
        return read_memory(r, at);
    }
    if (take_word(&at, "spill")) {
        return read_spill(r, at);
    }
    if (take_word(&at, "release")) {
        return read_release(r, at);
    }
    if (!strcmp(at, "section")) {
        asm_section(r->p);
        return true;
    }
    if (take_word(&at, "loop")) {
        return add_loop(r, at);
    }
    if (!strcmp(at, "}")) {
        asm_loop_end(r->p);
        return true;
    }
    if (at[length - 1] == ':' && !strchr(at, ' ') && isalpha((unsigned char) *at)) {
        return read_label(r, at);
    }
    long bundle;
    char * behind = at;
    if (take_number(&behind, &bundle) && *behind == ':') {
        asm_at(r->p, (int) bundle);
        at = skip_blanks(behind + 1);
    }
    return (r->p->placed ? add_bundle(r, at) : add_instr(r, at)) && r->st == ST_OK;
}

enum status asm_read(const char * text, struct asm_program ** out, struct error * err) {
    struct reader * r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r) {
        return error_set(err, ST_NO_MEMORY, "asm: out of memory");
    }
    r->err = err;
    const char * at = text;
    bool ok = note_vregs(r, text);
    while (ok && next_line(r, &at)) {
        ok = read_line(r);
    }
    if (ok && !r->p) {
        ok = fail(r, r->line, "\"target aie2\" is wanted first");
    }
    enum status st = r->st;
    if (ok) {
        *out = r->p;
    } else {
        asm_free(r->p);
    }
    free(r->vregs);
    free(r);
    return st;
}

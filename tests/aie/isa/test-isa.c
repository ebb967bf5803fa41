// Checks the instruction tables of every target: against bytes that others assembled (LLVM's tests,
// programs that ran on silicon) where those are present, and against themselves: what encodes
// decodes to the same, no word belongs to two rows, no bytes crash the decoder.
#include "base/cmocka-all.h"

#include <ctype.h>

#include "aie/isa/aie2.h"
#include "aie/isa/aie2p.h"

static const struct {
    enum aie_arch arch;
    const char * vectors;
    int n_vectors;
} targets[] = {
    {AIE_ARCH_AIE2, GOLDEN_DIR "/vectors/aie2_vectors.tsv", 1550},
    {AIE_ARCH_AIE2P, GOLDEN_DIR "/vectors/aie2p_vectors.tsv", 2767},
};
#define N_TARGETS (sizeof(targets) / sizeof(targets[0]))

static uint64_t random_state = 0x9e3779b97f4a7c15ull;

static uint64_t random_u64(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

// ---- golden files ----

// Calls row(cells, n) for every line. Leaves the test when the file is not there.
static void for_each_row(const char * path, void (*row)(char ** cells, int n, void * ctx),
                         void * ctx) {
    FILE * f = fopen(path, "r");
    if (!f) {
        skip_golden(path);
    }
    static char line[65536];
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\r\n")] = 0;
        char * cells[24];
        int n = 0;
        for (char * at = line; at && n < 24;) {
            cells[n++] = at;
            at = strchr(at, '\t');
            if (at) {
                *at++ = 0;
            }
        }
        row(cells, n, ctx);
    }
    fclose(f);
}

static int parse_hex(const char * text, uint8_t * bytes, int max) {
    int n = 0;
    while (*text) {
        if (*text == ' ') {
            text++;
            continue;
        }
        assert_true(n < max);
        assert_true(isxdigit((unsigned char) text[0]) && isxdigit((unsigned char) text[1]));
        char pair[3] = {text[0], text[1], 0};
        bytes[n++] = (uint8_t) strtoul(pair, NULL, 16);
        text += 2;
    }
    return n;
}

static int compare_text(const void * a, const void * b) {
    return strcmp(a, b);
}

// "nopb ; nopa" and "nopa; nopb" become the same: parts trimmed and sorted.
static void normalise(const char * text, char * out, size_t size) {
    char parts[8][160] = {{0}};
    int n = 0, length = 0;
    for (; *text && n < 8; text++) {
        bool wildcard =
            !strncmp(text, "{{.*}}", 6); // some of LLVM's tests leave the separator open
        if (*text == ';' || wildcard) {
            text += wildcard ? 5 : 0;
            n++;
            length = 0;
        } else if (!isspace((unsigned char) *text) || length) {
            bool space = isspace((unsigned char) *text);
            if (!space || parts[n][length - 1] != ' ') {
                parts[n][length++] = space ? ' ' : *text;
            }
        }
    }
    n++;
    for (int i = 0; i < n; i++) {
        size_t l = strlen(parts[i]);
        if (l && parts[i][l - 1] == ' ') {
            parts[i][l - 1] = 0;
        }
    }
    qsort(parts, (size_t) n, sizeof(parts[0]), compare_text);
    out[0] = 0;
    for (int i = 0; i < n; i++) {
        strncat(out, parts[i], size - strlen(out) - 1);
        strncat(out, ";", size - strlen(out) - 1);
    }
}

static void assert_encodes(const struct aie_isa * isa, const struct aie_bundle * bundle,
                           const uint8_t * bytes, int n, const char * text) {
    uint8_t again[AIE_MAX_BUNDLE_BYTES];
    int size;
    struct error err;
    if (aie_bundle_encode(isa, bundle, again, &size, &err)) {
        fail_msg("%s: %s", text, err.text);
    }
    if (size != n || memcmp(again, bytes, (size_t) n)) {
        fail_msg("%s: encodes to other bytes", text);
    }
}

struct vector_counts {
    const struct aie_isa * isa;
    int seen, wrong;
};

static void check_vector(char ** cells, int n, void * ctx) {
    struct vector_counts * c = ctx;
    if (n < 2) {
        return;
    }
    uint8_t bytes[32];
    int size = parse_hex(cells[0], bytes, 32);
    struct aie_bundle bundle;
    struct error err;
    c->seen++;
    if (aie_bundle_decode(c->isa, bytes, (size_t) size, &bundle, &err)) {
        printf("%s: %s\n", cells[1], err.text);
        c->wrong++;
        return;
    }
    struct buf b = {0};
    aie_bundle_print(c->isa, &bundle, &b);
    buf_append(&b, "", 1);
    char ours[512], theirs[512];
    normalise((char *) b.data, ours, sizeof(ours));
    normalise(cells[1], theirs, sizeof(theirs));
    if (bundle.size != size || strcmp(ours, theirs)) {
        printf("%s is \"%s\", decoded as \"%s\"\n", cells[0], cells[1], (char *) b.data);
        c->wrong++;
    }
    buf_free(&b);
    assert_encodes(c->isa, &bundle, bytes, size, cells[1]);
}

static void test_vectors(void ** state) {
    (void) state;
    for (size_t t = 0; t < N_TARGETS; t++) {
        struct vector_counts c = {.isa = aie_isa_get(targets[t].arch)};
        for_each_row(targets[t].vectors, check_vector, &c);
        printf("%d vectors, %d wrong\n", c.seen, c.wrong);
        assert_int_equal(c.wrong, 0);
        assert_int_equal(c.seen, targets[t].n_vectors);
    }
}

static void check_silicon(char ** cells, int n, void * ctx) {
    struct vector_counts * c = ctx;
    if (n < 8 || !strcmp(cells[0], "id")) {
        return;
    }
    int op = aie_isa_find(c->isa, cells[1]);
    assert_true(op >= 0);
    c->seen++;
    for (int column = 4; column <= 6; column += 2) { // bytes, bytes16
        uint8_t bytes[AIE_MAX_BUNDLE_BYTES];
        int size = parse_hex(cells[column], bytes, AIE_MAX_BUNDLE_BYTES);
        struct aie_bundle bundle;
        struct error err;
        if (aie_bundle_decode(c->isa, bytes, (size_t) size, &bundle, &err)) {
            fail_msg("%s %s: %s", cells[0], cells[1], err.text);
        }
        enum aie_slot slot = aie_isa_instr(c->isa, op)->slot;
        assert_true(bundle.present >> slot & 1);
        const char * name = aie_isa_instr(c->isa, bundle.slot[slot].op)->name;
        if (strcmp(name, cells[1])) {
            fail_msg("%s: %s is %s, decoded as %s", cells[0], cells[column], cells[1], name);
        }
        assert_encodes(c->isa, &bundle, bytes, size, cells[3]);
    }
}

static void test_silicon(void ** state) {
    (void) state;
    static const char * const paths[] = {GOLDEN_DIR "/silicon/dev/silicon-aie2.tsv",
                                         GOLDEN_DIR "/silicon/dev/silicon-aie2-exotic.tsv"};
    struct vector_counts c = {.isa = aie_isa_get(AIE_ARCH_AIE2)};
    for (int i = 0; i < 2; i++) {
        for_each_row(paths[i], check_silicon, &c);
    }
    printf("%d rows from silicon\n", c.seen);
    assert_true(c.seen > 3000);
}

// ---- whole programs ----

// Decodes and re-encodes size bytes of code, to the end or to zero padding; returns the bundles.
static int check_program(const struct aie_isa * isa, const char * what, const uint8_t * code,
                         size_t size) {
    int n = 0;
    for (size_t at = 0; at < size; n++) {
        struct aie_bundle bundle;
        struct error err;
        char where[64];
        snprintf(where, sizeof(where), "%s at 0x%zx", what, at);
        if (aie_bundle_decode(isa, code + at, size - at, &bundle, &err)) {
            size_t rest = at;
            while (rest < size && !code[rest]) {
                rest++;
            }
            if (rest == size) {
                break;
            }
            fail_msg("%s: %s", where, err.text);
        }
        assert_encodes(isa, &bundle, code + at, bundle.size, where);
        at += bundle.size;
    }
    return n;
}

// A PDI's command list: DMA_WRITEs to 0x20000 of a tile are core programs.
static void test_kernels(void ** state) {
    (void) state;
    static const char * const names[] = {"single-add", "fused-add-add", "gemm-i16-256-1core",
                                         "gemm-i16-512-16core"};
    const struct aie_isa * isa = aie_isa_get(AIE_ARCH_AIE2);
    int programs = 0, bundles = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[512];
        uint8_t * pdi;
        size_t size;
        struct error err;
        snprintf(path, sizeof(path), "%s/aie2-kernels/%s.pdi", GOLDEN_DIR, names[i]);
        if (file_read(path, 1 << 24, &pdi, &size, &err)) {
            skip_golden(path);
        }
        for (size_t at = 0x150 + 5 * 4; at + 8 <= size;) {
            uint32_t command = load_u32(pdi + at), words = command >> 16;
            at += 4;
            if (words == 255) {
                words = load_u32(pdi + at);
                at += 4;
            }
            if (!command || words > (size - at) / 4) {
                break;
            }
            bool program = (command & 0xffff) == 0x105 && words > 2 &&
                           (load_u32(pdi + at + 4) & 0xfffff) == 0x20000;
            if (program) {
                bundles += check_program(isa, names[i], pdi + at + 8, (words - 2) * 4);
                programs++;
            }
            at += words * 4;
        }
        free(pdi);
    }
    printf("%d aie2 core programs, %d bundles\n", programs, bundles);
    assert_int_equal(programs, 1 + 2 + 1 + 16);
    assert_true(bundles > 1000);
}

// The executable sections of an ELF file.
static void test_elf(void ** state) {
    (void) state;
    uint8_t * elf;
    size_t size;
    struct error err;
    const char * path = GOLDEN_DIR "/aie2p-project/main_core_0_2.elf";
    if (file_read(path, 1 << 24, &elf, &size, &err)) {
        skip_golden(path);
    }
    assert_true(size > 52);
    uint32_t sections = load_u32(elf + 32), n = elf[48] | elf[49] << 8, bundles = 0;
    for (uint32_t i = 0; i < n && sections + (i + 1) * 40 <= size; i++) {
        const uint8_t * header = elf + sections + i * 40;
        uint32_t type = load_u32(header + 4), flags = load_u32(header + 8);
        uint32_t offset = load_u32(header + 16), bytes = load_u32(header + 20);
        if (type == 1 && flags & 4 && offset <= size && bytes <= size - offset) {
            bundles += (uint32_t) check_program(aie_isa_get(AIE_ARCH_AIE2P), "main_core_0_2.elf",
                                                elf + offset, bytes);
        }
    }
    free(elf);
    printf("%u aie2p bundles\n", bundles);
    assert_true(bundles > 50);
}

// ---- tables against themselves ----

// A random register that operand k can hold; the registers of a class are listed on first use.
static int32_t random_reg(const struct aie_isa * isa, int op, int k) {
    static struct {
        int n;
        aie_reg regs[160];
    } lists[N_TARGETS][256];
    int target = isa == aie_isa_get(targets[0].arch) ? 0 : 1;
    int cls = aie_isa_instr(isa, op)->operands[k].cls;
    if (!lists[target][cls].n) {
        for (int reg = 1 << 8; reg < AIE_REG_KIND_COUNT << 8; reg++) {
            if (aie_operand_fits(isa, op, k, reg)) {
                assert_true(lists[target][cls].n < 160);
                lists[target][cls].regs[lists[target][cls].n++] = (aie_reg) reg;
            }
        }
    }
    assert_true(lists[target][cls].n > 0);
    return lists[target][cls].regs[random_u64() % (uint64_t) lists[target][cls].n];
}

static int32_t random_imm(const struct aie_isa * isa, int op, int k) {
    for (int tries = 0; tries < 100000; tries++) {
        int bits = 1 + (int) (random_u64() % 32);
        uint32_t value = (uint32_t) (random_u64() >> (64 - bits)) << random_u64() % 7;
        int32_t signed_value = (int32_t) (random_u64() & 1 ? value : 0 - value);
        if (aie_operand_fits(isa, op, k, signed_value)) {
            return signed_value;
        }
    }
    fail_msg("%s: operand %d holds nothing", aie_isa_instr(isa, op)->name, k);
    return 0;
}

static void random_inst(const struct aie_isa * isa, int op, struct aie_inst * out) {
    *out = (struct aie_inst){.op = (uint16_t) op};
    const struct aie_instr * in = aie_isa_instr(isa, op);
    for (int k = 0; k < in->n_explicit; k++) {
        out->values[k] = in->operands[k].is_imm ? random_imm(isa, op, k) : random_reg(isa, op, k);
    }
}

static void test_round_trip(void ** state) {
    (void) state;
    for (size_t t = 0; t < N_TARGETS; t++) {
        const struct aie_isa * isa = aie_isa_get(targets[t].arch);
        for (int op = 0; op < aie_isa_count(isa); op++) {
            const struct aie_instr * in = aie_isa_instr(isa, op);
            for (int i = 0; i < 100; i++) {
                struct aie_inst inst, again;
                struct error err;
                uint64_t word;
                random_inst(isa, op, &inst);
                assert_int_equal(aie_slot_encode(isa, &inst, &word, &err), ST_OK);
                assert_int_equal(aie_slot_decode(isa, in->slot, word, &again, &err), ST_OK);
                if (again.op != op || memcmp(inst.values, again.values, sizeof(inst.values))) {
                    fail_msg("%s: 0x%llx decodes to %s", in->name, (unsigned long long) word,
                             aie_isa_instr(isa, again.op)->name);
                }
                // alone in every size of bundle that has room for it
                for (int size = 0; size <= 16; size += 2) {
                    struct aie_bundle bundle = {.size = (uint8_t) size,
                                                .present = (uint8_t) (1 << in->slot)};
                    struct aie_bundle back;
                    uint8_t bytes[AIE_MAX_BUNDLE_BYTES];
                    int n;
                    bundle.slot[in->slot] = inst;
                    if (aie_bundle_encode(isa, &bundle, bytes, &n, &err)) {
                        assert_true(size && (size < 16 || in->slot == AIE_SLOT_NOP));
                        continue;
                    }
                    assert_int_equal(aie_bundle_decode(isa, bytes, (size_t) n, &back, &err), ST_OK);
                    assert_int_equal(back.size, n);
                    assert_int_equal(back.slot[in->slot].op, op);
                    assert_memory_equal(back.slot[in->slot].values, inst.values,
                                        sizeof(inst.values));
                }
            }
        }
    }
}

static void test_tables(void ** state) {
    (void) state;
    for (size_t t = 0; t < N_TARGETS; t++) {
        const struct aie_isa * isa = aie_isa_get(targets[t].arch);
        int n = aie_isa_count(isa);
        for (int op = 0; op < n; op++) {
            const struct aie_instr * in = aie_isa_instr(isa, op);
            assert_int_equal(aie_isa_find(isa, in->name), op);
            assert_int_equal(in->value & ~in->mask, 0);
            assert_true(in->loads || in->stores ? in->mem_cycle >= 4 && in->mem_first >= 4
                                                : !in->mem_cycle);
            for (int k = 0; k < in->n_operands; k++) {
                const struct aie_operand * o = &in->operands[k];
                assert_true(o->role);
                assert_true(!(o->role & AIE_DEF) == !o->def_cycle);
                assert_true(!(o->role & AIE_USE) == !o->use_cycle);
                if (k < in->n_explicit) {
                    char letter[3] = {'%', o->field, 0};
                    if (!strstr(in->text, letter)) {
                        fail_msg("%s: %s is not in its text", in->name, letter);
                    }
                } else {
                    assert_true(o->fixed || o->part);
                }
            }
            for (const char * at = strchr(in->text, '%'); at; at = strchr(at + 1, '%')) {
                assert_true(at[1] == '{' || aie_instr_operand(in, at[1]) >= 0);
            }
        }
        for (int s = 0; s < AIE_SLOT_COUNT; s++) {
            const struct aie_instr * nop = aie_isa_instr(isa, aie_isa_nop(isa, (enum aie_slot) s));
            assert_int_equal(nop->slot, s);
            assert_memory_equal(nop->name, "NOP", 3);
        }
        assert_int_equal(aie_isa_find(isa, "NO_SUCH"), -1);
        assert_int_equal(aie_isa_find(isa, ""), -1);
    }
}

// Every register names itself once and lies inside the unit space.
static void test_registers(void ** state) {
    (void) state;
    char seen[1024][AIE_REG_NAME_SIZE];
    int n_seen = 0;
    for (int kind = 1; kind < AIE_REG_KIND_COUNT; kind++) {
        for (int n = 0; n < 64; n++) {
            uint8_t units[8];
            int n_units = aie_reg_units(AIE_REG(kind, n), units);
            if (!n_units) {
                continue;
            }
            for (int i = 0; i < n_units; i++) {
                assert_true(units[i] < AIE_UNIT_COUNT);
                for (int j = 0; j < i; j++) {
                    assert_int_not_equal(units[i], units[j]);
                }
            }
            char name[AIE_REG_NAME_SIZE];
            aie_reg_name(AIE_REG(kind, n), name);
            for (int i = 0; i < n_seen && kind != AIE_D3 && name[0] != '?'; i++) {
                assert_string_not_equal(name, seen[i]);
            }
            memcpy(seen[n_seen++], name, sizeof(name));
        }
    }
    uint8_t units[8];
    assert_int_equal(aie_reg_units(AIE_REG(AIE_L, 1), units), 2);
    assert_int_equal(units[0], AIE_UNIT_R + 18);
    assert_int_equal(aie_reg_units(AIE_REG(AIE_D3, 1), units), 8);
    assert_int_equal(units[7], AIE_UNIT_DC + 5);
    assert_int_equal(aie_reg_units(AIE_REG(AIE_BM, 17), units), 2);
    assert_int_equal(units[1], AIE_UNIT_AM + 35);
    assert_int_equal(aie_reg_units(0xffff, units), 0);
}

static const struct aie_operand * find_operand(const struct aie_instr * in, char field,
                                               aie_reg fixed) {
    for (int k = 0; k < in->n_operands; k++) {
        const struct aie_operand * o = &in->operands[k];
        if (field ? o->field == field && k < in->n_explicit : o->fixed == fixed && !o->field) {
            return o;
        }
    }
    fail_msg("%s has no such operand", in->name);
    return NULL;
}

// Spot checks of what schedulers and emulators stand on.
static void test_operands(void ** state) {
    (void) state;
    const struct aie_isa * isa = aie_isa_get(AIE_ARCH_AIE2);
    const struct aie_instr * in = aie_isa_instr(isa, AIE2_VMAC_vmac_cm_core_dense);
    assert_int_equal(find_operand(in, 'd', 0)->def_cycle, 5);
    assert_int_equal(find_operand(in, 'e', 0)->use_cycle, 3);
    assert_int_equal(find_operand(in, 'e', 0)->use_bypass, AIE_BYPASS_VEC);

    in = aie_isa_instr(isa, AIE2_VLDA_UPS_S32_D16_ag_pstm_nrm);
    assert_int_equal(find_operand(in, 'd', 0)->def_cycle, 9);
    assert_int_equal(find_operand(in, 's', 0)->use_cycle, 7);
    assert_int_equal(find_operand(in, 'p', 0)->role, AIE_DEF | AIE_USE);
    assert_int_equal(find_operand(in, 0, AIE_REG(AIE_CR, AIE_CR_UPS_SIGN))->use_cycle, 7);
    assert_int_equal(find_operand(in, 0, AIE_REG(AIE_SR, AIE_SR_UPS_OF))->def_cycle, 8);
    assert_true(in->loads && !in->stores && in->mem_cycle == 5);

    in = aie_isa_instr(isa, AIE2_ST_S8_ag_idx);
    assert_true(in->loads && in->stores && in->mem_cycle == 11 && in->mem_first == 5);
    assert_int_equal(find_operand(in, 'a', 0)->use_cycle, 7);
    in = aie_isa_instr(isa, AIE2_VST_CONV_BF16_FP32_ag_idx);
    assert_true(in->stores && in->mem_cycle == 7);
    assert_int_equal(find_operand(in, 0, AIE_REG(AIE_CR, AIE_CR_RND))->role, AIE_USE);

    assert_int_equal(find_operand(aie_isa_instr(isa, AIE2_SELNEZ), 0, AIE_REG(AIE_R, 27))->role,
                     AIE_USE);
    assert_int_equal(find_operand(aie_isa_instr(isa, AIE2_DIVS), 0, AIE_REG(AIE_R, 31))->role,
                     AIE_DEF | AIE_USE);
    assert_int_equal(
        find_operand(aie_isa_instr(isa, AIE2_JL), 0, AIE_REG(AIE_SPC, AIE_SPC_LR))->def_cycle, 4);
    assert_true(aie_isa_instr(isa, AIE2_JL)->branches && aie_isa_instr(isa, AIE2_RET)->branches);
    assert_true(aie_isa_instr(isa, AIE2_ACQ_mLockId_imm)->locks);

    // a 3d walk reads d1, d5 and writes dc1, dc5
    in = aie_isa_instr(isa, AIE2_PADDA_3D);
    struct aie_inst inst = {.op = AIE2_PADDA_3D};
    inst.values[aie_instr_operand(in, 'p')] = AIE_REG(AIE_P, 3);
    inst.values[aie_instr_operand(in, 'm')] = AIE_REG(AIE_D3, 1);
    assert_int_equal(in->n_operands, 4);
    assert_int_equal(aie_inst_reg(in, &inst, 2), AIE_REG(AIE_DC, 1));
    assert_int_equal(aie_inst_reg(in, &inst, 3), AIE_REG(AIE_DC, 5));
    assert_int_equal(in->operands[3].role, AIE_DEF);

    // aie2p: a pop from the fifo of p1 moves lf1 and r25
    isa = aie_isa_get(AIE_ARCH_AIE2P);
    in = aie_isa_instr(isa, AIE2P_VLDA_POP_512_2D);
    inst = (struct aie_inst){.op = AIE2P_VLDA_POP_512_2D};
    inst.values[aie_instr_operand(in, 'd')] = AIE_REG(AIE_X, 7);
    inst.values[aie_instr_operand(in, 'p')] = AIE_REG(AIE_P, 1);
    inst.values[aie_instr_operand(in, 'm')] = AIE_REG(AIE_D, 6);
    struct buf b = {0};
    aie_inst_print(isa, &inst, &b);
    buf_append(&b, "", 1);
    assert_string_equal((char *) b.data, "vlda.pop.512.2d x7, [p1, lf1, r25, d6]");
    buf_free(&b);
    assert_int_equal(aie_inst_reg(in, &inst, in->n_explicit), AIE_REG(AIE_LF, 1));
    assert_int_equal(in->operands[in->n_explicit].def_cycle, 7);
    assert_int_equal(find_operand(in, 'd', 0)->def_cycle, 8);
    in = aie_isa_instr(isa, AIE2P_VMAX_LT_8_vaddSign0);
    assert_int_equal(find_operand(in, 0, AIE_REG(AIE_L, 0))->role, AIE_DEF); // r17:r16
    assert_int_equal(find_operand(in, 0, AIE_REG(AIE_CRP, AIE_CRP_VADD_SIGN0))->role, AIE_USE);

    assert_int_equal(aie_bypass_of(AIE_BYPASS_MOV_LOW, AIE_REG(AIE_W, 2)), AIE_BYPASS_MOV);
    assert_int_equal(aie_bypass_of(AIE_BYPASS_MOV_LOW, AIE_REG(AIE_W, 3)), AIE_BYPASS_NONE);
}

static void test_nop_bundle(void ** state) {
    (void) state;
    static const struct {
        enum aie_arch arch;
        uint16_t nopx;
        uint8_t bytes[16], first_of_two;
    } nops[] = {
        {AIE_ARCH_AIE2, AIE2_NOPX, {0xc0, 0x03, 0x00, 0x88, 0x03}, 0x01},
        {AIE_ARCH_AIE2P,
         AIE2P_NOPX,
         {0xe1, 0, 0, 0x78, 0xa5, 0x01, 0, 0, 0, 0x5b, 0x01, 0x20, 0, 0xf0, 0x2c},
         0x00},
    };
    for (size_t i = 0; i < sizeof(nops) / sizeof(nops[0]); i++) {
        const struct aie_isa * isa = aie_isa_get(nops[i].arch);
        struct aie_bundle bundle = {.size = 16, .present = 1 << AIE_SLOT_ALU};
        uint8_t bytes[AIE_MAX_BUNDLE_BYTES];
        int size;
        struct error err;
        bundle.slot[AIE_SLOT_ALU].op = nops[i].nopx;
        assert_int_equal(aie_bundle_encode(isa, &bundle, bytes, &size, &err), ST_OK);
        assert_int_equal(size, 16);
        assert_memory_equal(bytes, nops[i].bytes, 16);
        bundle = (struct aie_bundle){0};
        assert_int_equal(aie_bundle_encode(isa, &bundle, bytes, &size, &err), ST_OK);
        assert_int_equal(size, 2);
        assert_int_equal(bytes[0], nops[i].first_of_two);
        for (int byte = 0; byte < 256; byte++) {
            int n = aie_bundle_size(isa, (uint8_t) byte);
            assert_true(n >= 2 && n <= 16 && n % 2 == 0);
        }
    }
}

static void test_refusals(void ** state) {
    (void) state;
    const struct aie_isa * isa = aie_isa_get(AIE_ARCH_AIE2);
    struct aie_bundle bundle = {.present = 1 << AIE_SLOT_ALU};
    uint8_t bytes[AIE_MAX_BUNDLE_BYTES];
    int size;
    struct error err;
    struct aie_inst * add = &bundle.slot[AIE_SLOT_ALU];
    *add = (struct aie_inst){AIE2_ADD_add_r_ri, {AIE_REG(AIE_R, 1), AIE_REG(AIE_R, 2), 64}};
    assert_int_equal(aie_bundle_encode(isa, &bundle, bytes, &size, &err), ST_INVALID);
    assert_non_null(strstr(err.text, "ADD_add_r_ri"));
    assert_non_null(strstr(err.text, "64"));
    add->values[2] = -64;
    assert_int_equal(aie_bundle_encode(isa, &bundle, bytes, &size, &err), ST_OK);
    add->values[1] = AIE_REG(AIE_P, 2);
    assert_int_equal(aie_bundle_encode(isa, &bundle, bytes, &size, &err), ST_INVALID);
    assert_non_null(strstr(err.text, "p2"));
    add->values[1] = -5;
    assert_int_equal(aie_bundle_encode(isa, &bundle, bytes, &size, &err), ST_INVALID);
    *add = (struct aie_inst){AIE2_NOPM, {0}};
    assert_int_equal(aie_bundle_encode(isa, &bundle, bytes, &size, &err), ST_INVALID);
    *add = (struct aie_inst){60000, {0}};
    assert_int_equal(aie_bundle_encode(isa, &bundle, bytes, &size, &err), ST_INVALID);
    *add = (struct aie_inst){AIE2_NOPX, {0}};
    bundle.present = 1 << AIE_SLOT_ALU | 1 << AIE_SLOT_LNG;
    assert_int_equal(aie_bundle_encode(isa, &bundle, bytes, &size, &err), ST_INVALID);

    static const uint8_t cut[] = {0xc0, 0x03, 0x00};
    assert_int_equal(aie_bundle_decode(isa, cut, sizeof(cut), &bundle, &err), ST_INVALID);
    assert_non_null(strstr(err.text, "c0 03 00"));
    assert_int_equal(aie_bundle_decode(isa, cut, 0, &bundle, &err), ST_INVALID);
    struct aie_inst inst;
    assert_int_equal(aie_slot_decode(isa, AIE_SLOT_ALU, 1ull << 20, &inst, &err), ST_INVALID);
    assert_int_equal(aie_slot_decode(isa, (enum aie_slot) 99, 0, &inst, &err), ST_INVALID);
}

static void test_any_bytes(void ** state) {
    (void) state;
    for (size_t t = 0; t < N_TARGETS; t++) {
        const struct aie_isa * isa = aie_isa_get(targets[t].arch);
        int decoded = 0, canonical = 0;
        for (int i = 0; i < 200000; i++) {
            uint8_t bytes[16], again[AIE_MAX_BUNDLE_BYTES];
            uint64_t r[2] = {random_u64(), random_u64()};
            memcpy(bytes, r, 16);
            size_t available = (size_t) (random_u64() % 17);
            uint8_t * exact = malloc(available ? available : 1); // so that ASan sees an overread
            memcpy(exact, bytes, available);
            struct aie_bundle bundle, back;
            struct error err = {ST_OK, ""};
            int size;
            if (aie_bundle_decode(isa, exact, available, &bundle, &err)) {
                assert_true(strlen(err.text) > 0);
            } else {
                struct buf b = {0};
                aie_bundle_print(isa, &bundle, &b);
                assert_true(b.size > 0);
                buf_free(&b);
                // a decoded bundle encodes, and what it encodes to is the same bundle
                assert_int_equal(aie_bundle_encode(isa, &bundle, again, &size, &err), ST_OK);
                assert_int_equal(size, bundle.size);
                memset(&back, 0, sizeof(back));
                assert_int_equal(aie_bundle_decode(isa, again, (size_t) size, &back, &err), ST_OK);
                for (int s = 0; s < AIE_SLOT_COUNT; s++) {
                    if (bundle.present >> s & 1) {
                        assert_int_equal(bundle.slot[s].op, back.slot[s].op);
                        assert_memory_equal(bundle.slot[s].values, back.slot[s].values,
                                            sizeof(back.slot[s].values));
                    }
                }
                decoded++;
                canonical += !memcmp(again, exact, (size_t) size);
            }
            free(exact);
        }
        printf("%d of 200000 random byte strings decoded, %d of them canonical\n", decoded,
               canonical);
        assert_true(decoded > 0 && canonical > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),    cmocka_unit_test(test_registers),
        cmocka_unit_test(test_operands),  cmocka_unit_test(test_nop_bundle),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_any_bytes), cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_silicon),   cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_elf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test-silicon: replays results that were read on a real NPU, through the real core: registers and
// memory set, the instruction's own bytes in program memory, NOPs until the pipeline is empty, the
// read-out instructions, compare. A row comes out equal, refused (the core stops with a fault that
// says so) or different. Different rows are what must not be: a program would compute with them.
//
// Kept true: the table `pins` says for each file how many rows it has and how each came out. Rows
// of silicon-aie2-exotic are inputs that no compiler emits; only there may any be refused.
#include "emu/aie/sem.h"
#include "emu/aie/core-rig.h"

#include <ctype.h>
#include <strings.h>
#include <sys/stat.h>

enum { MAX_COLUMNS = 16, DRAIN = 14, IN = 0x71000, OUT = 0x75000 };

// ---- tables ----

static const struct {
    const char *prefix, *family;
} families[] = {
    // the first prefix that fits
    {"VADD_F", "acc VADD.f/VSUB.f/VNEG.f"},
    {"VSUB_F", "acc VADD.f/VSUB.f/VNEG.f"},
    {"VNEG_F", "acc VADD.f/VSUB.f/VNEG.f"},
    {"VNEGADD_F", "acc VADD.f/VSUB.f/VNEG.f"},
    {"VNEGSUB_F", "acc VADD.f/VSUB.f/VNEG.f"},
    {"VMUL_F_", "VMAC.f family"},
    {"VMAC_F_", "VMAC.f family"},
    {"VMSC_F_", "VMAC.f family"},
    {"VNEGMUL_F_", "VMAC.f family"},
    {"VADDMAC_F_", "VMAC.f family"},
    {"VADDMSC_F_", "VMAC.f family"},
    {"VMUL_", "VMAC family int"},
    {"VMAC_", "VMAC family int"},
    {"VMSC_", "VMAC family int"},
    {"VNEGM", "VMAC family int"},
    {"VADDM", "VMAC family int"},
    {"VSUBM", "VMAC family int"},
    {"VADDSUB", "VSUB_LT/GE, VMAXDIFF, VADDSUB"},
    {"VSUB_LT", "VSUB_LT/GE, VMAXDIFF, VADDSUB"},
    {"VSUB_GE", "VSUB_LT/GE, VMAXDIFF, VADDSUB"},
    {"VMAXDIFF", "VSUB_LT/GE, VMAXDIFF, VADDSUB"},
    {"VADD_", "VADD/VSUB 8/16/32"},
    {"VSUB_", "VADD/VSUB 8/16/32"},
    {"VABS", "VABS/VNEG/VBNEG"},
    {"VNEG_GTZ", "VABS/VNEG/VBNEG"},
    {"VBNEG", "VABS/VNEG/VBNEG"},
    {"VADD", "acc VADD/VSUB/VNEG int"},
    {"VSUB", "acc VADD/VSUB/VNEG int"},
    {"VNEG", "acc VADD/VSUB/VNEG int"},
    {"VMAX_LT", "VMAX_LT/VMIN_GE"},
    {"VMIN_GE", "VMAX_LT/VMIN_GE"},
    {"VGE_", "VGE/VLT/VEQZ"},
    {"VLT_", "VGE/VLT/VEQZ"},
    {"VEQZ", "VGE/VLT/VEQZ"},
    {"VSEL", "VSEL"},
    {"VB", "VBAND/VBOR/VBCST/VBCSTSHFL"},
    {"VEXT", "VEXT/VINSERT/VPUSH"},
    {"VINSERT", "VEXT/VINSERT/VPUSH"},
    {"VPUSH", "VEXT/VINSERT/VPUSH"},
    {"VSHUFFLE", "VSHUFFLE"},
    {"VSHIFT", "VSHIFT"},
    {"VUPS", "VUPS"},
    {"VSRS", "VSRS/VSRSM"},
    {"VUNPACK", "VUNPACK"},
    {"VCONV", "VCONV"},
    {"VMOV", "VMOV/VCLR"},
    {"VCLR", "VMOV/VCLR"},
    {"LDA", "loads"},
    {"VLD", "loads"},
    {"ST", "stores"},
    {"VST", "stores"},
    {"", "scalar"},
};

enum outcome { EQUAL, REFUSED, DIFFERENT, OUTCOMES };

// Refused are: float modes on the integer multiplier (25), a shift of the accumulator in the float
// adder (11) or beside an integer mode of a .f product (5), sparse .f forms in integer modes (2).
static const struct pin {
    const char * file;
    int rows, count[OUTCOMES];
} pins[] = {
    // equal, refused, different
    {"silicon-aie2.tsv", 3280, {3280, 0, 0}},
    {"silicon-aie2-exotic.tsv", 586, {543, 43, 0}},
    {"vector-verify.tsv", 563, {563, 0, 0}},
    {"silicon-conv.tsv", 20, {20, 0, 0}},
};

static void check_pin(const char * file, const int count[OUTCOMES]) {
    int rows = count[EQUAL] + count[REFUSED] + count[DIFFERENT];
    printf("%s: %d rows, %d equal, %d refused, %d different\n", file, rows, count[EQUAL],
           count[REFUSED], count[DIFFERENT]);
    for (size_t i = 0; i < sizeof pins / sizeof pins[0]; i++) {
        const struct pin * p = &pins[i];
        if (strcmp(p->file, file) == 0) {
            if (rows != p->rows || memcmp(count, p->count, sizeof p->count) != 0) {
                fail_msg("%s: the table says %d rows, %d equal, %d refused, %d different", file,
                         p->rows, p->count[EQUAL], p->count[REFUSED], p->count[DIFFERENT]);
            }
            return;
        }
    }
    fail_msg("%s has no line in the table", file);
}

struct score {
    const char * family;
    int count[OUTCOMES];
};

static struct score scores[64];
static int n_scores;

static struct score * score_of(const char * instr) {
    const char * family = NULL;
    for (size_t i = 0; family == NULL; i++) {
        if (strncmp(instr, families[i].prefix, strlen(families[i].prefix)) == 0) {
            family = families[i].family;
        }
    }
    for (int i = 0; i < n_scores; i++) {
        if (strcmp(scores[i].family, family) == 0) {
            return &scores[i];
        }
    }
    scores[n_scores].family = family;
    return &scores[n_scores++];
}

static void print_scores(const char * title) {
    printf("%s: equal, refused, different\n", title);
    for (int i = 0; i < n_scores; i++) {
        const int * n = scores[i].count;
        printf("  %-32s %4d %4d %4d\n", scores[i].family, n[EQUAL], n[REFUSED], n[DIFFERENT]);
    }
}

// ---- reading ----

static char * read_table(const char * name) {
    char path[1024];
    struct stat st;
    snprintf(path, sizeof path, "%s/silicon/dev/%s", GOLDEN_DIR, name);
    if (stat(path, &st) != 0) {
        skip_golden(path);
    }
    FILE * f = fopen(path, "rb");
    assert_non_null(f);
    char * text = malloc((size_t) st.st_size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t) st.st_size, f), st.st_size);
    text[st.st_size] = 0;
    fclose(f);
    return text;
}

// Cuts the next line into columns; returns how many, 0 at the end.
static int next_row(char ** text, char * column[MAX_COLUMNS]) {
    char * line = *text;
    if (*line == 0) {
        return 0;
    }
    char * end = strchr(line, '\n');
    *text = end ? end + 1 : line + strlen(line);
    if (end) {
        *end = 0;
    }
    int n = 0;
    for (char * at = line; at != NULL && n < MAX_COLUMNS; n++) {
        column[n] = at;
        at = strchr(at, '\t');
        if (at) {
            *at++ = 0;
        }
    }
    return n;
}

static int hex_bytes(const char * hex, uint8_t * bytes, int max) {
    int n = 0;
    for (; isxdigit((unsigned char) hex[0]) && isxdigit((unsigned char) hex[1]); hex += 2) {
        char pair[3] = {hex[0], hex[1], 0};
        assert_true(n < max);
        bytes[n++] = (uint8_t) strtoul(pair, NULL, 16);
    }
    return n;
}

static aie_reg reg_by_name(const char * name, size_t length) {
    static const enum aie_reg_kind kinds[] = {AIE_R, AIE_P,  AIE_M,  AIE_DN, AIE_DJ, AIE_DC,
                                              AIE_S, AIE_CR, AIE_SR, AIE_W,  AIE_Q,  AIE_AM};
    char text[16];
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (int n = 0; n < 36; n++) {
            uint8_t units[8];
            aie_reg reg = AIE_REG(kinds[k], n);
            if (aie_reg_units(reg, units) == 0) {
                break;
            }
            aie_reg_name(reg, text);
            if (strlen(text) == length && strncasecmp(text, name, length) == 0) {
                return reg;
            }
        }
    }
    fail_msg("no register %.*s", (int) length, name);
    return 0;
}

// Vectors are byte strings, the rest are numbers.
static void set_value(struct rig * r, aie_reg reg, const char * value) {
    uint8_t bytes[128] = {0};
    enum aie_reg_kind kind = AIE_REG_KIND(reg);
    if (kind == AIE_W || kind == AIE_Q || kind == AIE_AM) {
        hex_bytes(value, bytes, 128);
    } else {
        store_u32(bytes, (uint32_t) strtoul(value, NULL, 16));
    }
    assert_true(core_reg_set(r->core, reg, bytes) > 0);
}

// ---- running ----

static void put_bytes(struct rig * r, const uint8_t * bytes, int n) {
    memcpy(core_program(r->core) + r->at, bytes, (size_t) n);
    r->at += (uint32_t) n;
}

static void start(struct rig * r) {
    core_reset(r->core);
    r->at = 0;
}

// False when the core faults: then there is no result to compare.
static bool finish(struct rig * r) {
    emit_done(r); // also tells the core that its program changed
    core_enable(r->core, true, core_now(r->core));
    return core_run(r->core, UINT64_MAX, core_now(r->core) + 5000) == CORE_DONE;
}

struct row {
    const char *id, *instr, *bytes, *in, *memin, *postbytes, *out, *class;
};

static bool run_row(struct rig * r, const struct row * row, const char * hex, char why[256]) {
    uint8_t bytes[16];
    char list[4096];
    start(r);
    snprintf(list, sizeof list, "%s", row->in);
    for (char * at = strtok(list, " "); at; at = strtok(NULL, " ")) {
        char * eq = strchr(at, '=');
        if (eq) {
            set_value(r, reg_by_name(at, (size_t) (eq - at)), eq + 1);
        }
    }
    memset(r->memory, 0, 0x10000);
    snprintf(list, sizeof list, "%s", row->memin);
    for (char * at = strtok(list, " "); at; at = strtok(NULL, " ")) {
        char * colon = strchr(at, ':');
        if (colon) {
            uint32_t addr = (uint32_t) strtoul(at, NULL, 16) - RIG_BASE;
            assert_true(addr < 0x10000 - 256);
            hex_bytes(colon + 1, r->memory + addr, 256);
        }
    }
    put_bytes(r, bytes, hex_bytes(hex, bytes, 16));
    nops(r, DRAIN);
    snprintf(list, sizeof list, "%s", row->postbytes);
    for (char * at = strtok(list, "; "); at; at = strtok(NULL, "; ")) {
        if (*at != '-') {
            put_bytes(r, bytes, hex_bytes(at, bytes, 16));
            nops(r, DRAIN);
        }
    }
    if (!finish(r)) {
        snprintf(why, 256, "%s", core_fault(r->core));
        return false;
    }
    return true;
}

// Compares one "name=value" of the out column; byte[] gets what the core has.
static bool same_value(struct rig * r, char * item, char why[256]) {
    uint8_t want[256] = {0}, got[256] = {0};
    char * eq = strchr(item, '=');
    assert_non_null(eq);
    int n, lo = 0;
    if (strncmp(item, "mem:", 4) == 0) {
        uint32_t addr = (uint32_t) strtoul(item + 4, NULL, 16) - RIG_BASE;
        n = hex_bytes(eq + 1, want, 256);
        assert_true(addr + (uint32_t) n <= 0x10000);
        memcpy(got, r->memory + addr, (size_t) n);
    } else {
        char * bracket = memchr(item, '[', (size_t) (eq - item));
        aie_reg reg = reg_by_name(item, (size_t) ((bracket ? bracket : eq) - item));
        int size = core_reg_get(r->core, reg, got);
        enum aie_reg_kind kind = AIE_REG_KIND(reg);
        if (kind == AIE_W || kind == AIE_Q || kind == AIE_AM) {
            lo = bracket ? (int) strtol(bracket + 1, NULL, 10) : 0;
            n = hex_bytes(eq + 1, want, 128);
            assert_true(lo + n <= size);
        } else {
            store_u32(want, (uint32_t) strtoul(eq + 1, NULL, 16));
            n = 4;
        }
    }
    if (memcmp(got + lo, want, (size_t) n) == 0) {
        return true;
    }
    int at = snprintf(why, 256, "%.24s got ", item);
    for (int i = 0; i < n && at < 250; i++) {
        at += snprintf(why + at, 256 - (size_t) at, "%02x", got[lo + i]);
    }
    return false;
}

static enum outcome row_outcome(struct rig * r, const struct row * row, const char * hex,
                                char why[256]) {
    char list[4096];
    if (!run_row(r, row, hex, why)) {
        return strstr(why, "no meaning is known") ? REFUSED : DIFFERENT;
    }
    snprintf(list, sizeof list, "%s", row->out);
    char * save = NULL;
    for (char * at = strtok_r(list, " ", &save); at; at = strtok_r(NULL, " ", &save)) {
        if (!same_value(r, at, why)) {
            return DIFFERENT;
        }
    }
    return EQUAL;
}

static void replay(const char * name) {
    char *text = read_table(name), *at = text, *c[MAX_COLUMNS];
    struct rig * r = rig_new(false);
    int count[OUTCOMES] = {0};
    memset(scores, 0, sizeof scores);
    n_scores = 0;
    assert_true(next_row(&at, c) > 12);
    while (next_row(&at, c) > 12) {
        struct row row = {.id = c[0],
                          .instr = c[1],
                          .bytes = c[4],
                          .in = c[7],
                          .memin = c[8],
                          .postbytes = c[10],
                          .out = c[11],
                          .class = c[12]};
        char why[256] = "";
        enum outcome worst = EQUAL;
        for (int format = 0; format < 2 && worst == EQUAL; format++) { // both of the bundle
            worst = row_outcome(r, &row, c[format ? 6 : 4], why);
        }
        count[worst]++;
        score_of(row.instr)->count[worst]++;
        if (worst != EQUAL) {
            printf("  %s %s %s: %s\n", worst == REFUSED ? "refused" : "DIFFERENT", row.id, c[3],
                   why);
        }
    }
    print_scores(name);
    rig_free(r);
    free(text);
    check_pin(name, count);
}

static void test_silicon(void ** state) {
    (void) state;
    replay("silicon-aie2.tsv");
}

static void test_exotic(void ** state) {
    (void) state;
    replay("silicon-aie2-exotic.tsv");
}

// ---- vector operations with whole results ----

static uint32_t config_value(const char * config, const char * name, int base) {
    const char * at = strstr(config, name);
    return at ? (uint32_t) strtoul(at + strlen(name), NULL, base) : 0;
}

static void set_bytes(struct rig * r, aie_reg reg, const uint8_t * bytes) {
    assert_true(core_reg_set(r->core, reg, bytes) > 0);
}

static void set_control(struct rig * r, enum aie_cr cr, uint32_t value) {
    uint8_t bytes[128] = {0};
    store_u32(bytes, value);
    assert_true(core_reg_set(r->core, AIE_REG(AIE_CR, cr), bytes) > 0);
}

static void test_vector_verify(void ** state) {
    (void) state;
    char *text = read_table("vector-verify.tsv"), *at = text, *c[MAX_COLUMNS];
    struct rig * r = rig_new(false);
    int count[OUTCOMES] = {0};
    assert_true(next_row(&at, c) > 6);
    while (next_row(&at, c) > 6) {
        const char *op = c[1], *config = c[3];
        uint8_t a[128] = {0}, b[128] = {0}, want[128], got[128] = {0};
        char * first = strchr(c[4], '=');
        assert_non_null(first);
        char * second = strchr(first + 1, '=');
        hex_bytes(first + 1, a, 128);
        if (second) {
            hex_bytes(second + 1, b, 128);
        }
        int n = hex_bytes(c[5], want, 128);
        start(r);
        set_control(r, AIE_CR_RND, config_value(config, "crRnd=", 10));
        set_control(r, AIE_CR_SAT, config_value(config, "crSat=", 10));
        set(r, S(0), config_value(config, "shift=", 10));
        set(r, S(1), 0);
        set(r, R(0), config_value(config, "conf=", 16));
        aie_reg result = W(0);
        if (strcmp(op, "conv fp32->bf16") == 0) {
            set_bytes(r, BM(0), a);
            EMIT(r, ins(r, "VCONV_BF16_FP32", "da", W(0), BM(0)));
        } else if (strcmp(op, "conv bf16->fp32") == 0) {
            set_bytes(r, W(2), a);
            result = BM(0);
            EMIT(r, ins(r, "VCONV_FP32_BF16", "da", BM(0), W(2)));
        } else if (strncmp(op, "pack", 4) == 0) {
            set_bytes(r, X(1), a);
            EMIT(r, ins(r, "VPACK_S8_S16", "da", W(0), X(1)));
        } else if (strncmp(op, "ups", 3) == 0) {
            set_bytes(r, W(2), a);
            result = BM(0);
            EMIT(r, ins(r, "VUPS_S32_S16_mv_ups_w2b", "das", BM(0), W(2), S(0)));
        } else if (strncmp(op, "srs", 3) == 0) {
            set_bytes(r, X(1), a);
            EMIT(r, ins(r, "VUPS_S64_S32_mv_ups_x2c", "das", CM(0), X(1), S(1)));
            nops(r, DRAIN);
            EMIT(r, ins(r, "VSRS_S16_S64_mv_w_srs", "das", W(0), CM(0), S(0)));
        } else if (strncmp(op, "floor", 5) == 0) {
            set_bytes(r, W(2), a);
            result = X(0);
            EMIT(r, ins(r, "VFLOOR_S32_BF16_mFl2FxSrc_W", "das", X(0), W(2), S(0)));
        } else if (strncmp(op, "mmul", 4) == 0) {
            bool is_float = strstr(op, "bf16") != NULL;
            set_bytes(r, X(1), a);
            set_bytes(r, X(2), b);
            result = is_float ? BM(0) : CM(0);
            EMIT(r, ins(r, is_float ? "VMUL_F_vmac_bm_core_dense" : "VMUL_vmac_cm_core_dense",
                        "dabc", result, X(1), X(2), R(0)));
        } else if (strcmp(op, "add") == 0) {
            set_bytes(r, X(1), a);
            set_bytes(r, X(2), b);
            EMIT(r, ins(r, "VADD_32", "dab", X(0), X(1), X(2)));
        } else {
            fail_msg("%s: unknown operation %s", c[0], op);
        }
        nops(r, DRAIN);
        bool ok = finish(r);
        core_reg_get(r->core, result, got);
        bool same = ok && memcmp(got, want, (size_t) n) == 0;
        count[same ? EQUAL : DIFFERENT]++;
        if (!same) {
            printf("  DIFFERENT %s %s %s %s\n", c[0], op, config, ok ? "" : core_fault(r->core));
        }
    }
    rig_free(r);
    free(text);
    check_pin("vector-verify.tsv", count);
}

// ---- fused loads and stores ----

// What stands for a row of silicon-conv: a load, perhaps fused, and a store, perhaps fused, with
// the data in reg between them. wide: 64 bytes on that side of memory.
static const struct {
    const char *mnemonic, *load, *store;
    aie_reg reg;
    bool wide_in, wide_out;
} conv_rows[] = {
    {"vlda.conv.fp32.bf16", "VLDA_CONV_FP32_BF16_ag_idx_imm", "VST_CONV_BF16_FP32_ag_idx_imm",
     BM(0), 0, 0},
    {"vst.conv.bf16.fp32", "VLDA_CONV_FP32_BF16_ag_idx_imm", "VST_CONV_BF16_FP32_ag_idx_imm", BM(0),
     0, 0},
    {"vlda.ups.s32.d16", "VLDA_UPS_S32_D16_ag_idx_imm", "VST_SRS_S16_S32_ag_idx_imm", BM(0), 0, 0},
    {"vlda.ups.s32.s16", "VLDA_UPS_S32_S16_ag_idx_imm", "VST_SRS_S16_S32_ag_idx_imm", BM(0), 0, 0},
    {"vlda.ups.s32.d8", "VLDA_UPS_S32_D8_ag_idx_imm", "VST_SRS_S8_S32_ag_idx_imm", CM(0), 0, 0},
    {"vlda.ups.s32.s8", "VLDA_UPS_S32_S8_ag_idx_imm", "VST_SRS_S8_S32_ag_idx_imm", CM(0), 0, 0},
    {"vlda.ups.s64.d16", "VLDA_UPS_S64_D16_ag_idx_imm", "VST_SRS_S16_S64_ag_idx_imm", CM(0), 0, 0},
    {"vlda.ups.s64.s16", "VLDA_UPS_S64_S16_ag_idx_imm", "VST_SRS_S16_S64_ag_idx_imm", CM(0), 0, 0},
    {"vlda.ups.s64.d32", "VLDA_UPS_S64_D32_ag_idx_imm", "VST_SRS_S32_S64_ag_idx_imm", BM(0), 0, 0},
    {"vlda.ups.s64.s32", "VLDA_UPS_S64_S32_ag_idx_imm", "VST_SRS_S32_S64_ag_idx_imm", BM(0), 0, 0},
    {"vst.srs.d16.s32", "VLDA_UPS_S32_S16_ag_idx_imm", "VST_SRS_D16_S32_ag_idx_imm", BM(0), 0, 0},
    {"vst.srs.s16.s32", "VLDA_UPS_S32_S16_ag_idx_imm", "VST_SRS_S16_S32_ag_idx_imm", BM(0), 0, 0},
    {"vst.srs.d8.s32", "VLDA_UPS_S32_S8_ag_idx_imm", "VST_SRS_D8_S32_ag_idx_imm", CM(0), 0, 0},
    {"vst.srs.s8.s32", "VLDA_UPS_S32_S8_ag_idx_imm", "VST_SRS_S8_S32_ag_idx_imm", CM(0), 0, 0},
    {"vst.srs.d16.s64", "VLDA_UPS_S64_S16_ag_idx_imm", "VST_SRS_D16_S64_ag_idx_imm", CM(0), 0, 0},
    {"vst.srs.s16.s64", "VLDA_UPS_S64_S16_ag_idx_imm", "VST_SRS_S16_S64_ag_idx_imm", CM(0), 0, 0},
    {"vst.srs.d32.s64", "VLDA_UPS_S64_S32_ag_idx_imm", "VST_SRS_D32_S64_ag_idx_imm", BM(0), 0, 0},
    {"vst.srs.s32.s64", "VLDA_UPS_S64_S32_ag_idx_imm", "VST_SRS_S32_S64_ag_idx_imm", BM(0), 0, 0},
    {"vldb.unpack.d16.d8", "VLDB_UNPACK_D16_D8_ag_idx", "VST_dmw_sts_w_ag_idx_imm", X(0), 0, 1},
    {"vldb.unpack.s16.s8", "VLDB_UNPACK_S16_S8_ag_idx", "VST_dmw_sts_w_ag_idx_imm", X(0), 0, 1},
    {"vldb.unpack.d8.d4", "VLDB_UNPACK_D8_D4_ag_idx", "VST_dmw_sts_w_ag_idx_imm", X(0), 0, 1},
    {"vldb.unpack.s8.s4", "VLDB_UNPACK_S8_S4_ag_idx", "VST_dmw_sts_w_ag_idx_imm", X(0), 0, 1},
    {"vst.pack.d8.d16", "VLDA_dmw_lda_w_ag_idx_imm", "VST_PACK_D8_D16_ag_idx_imm", X(0), 1, 0},
    {"vst.pack.s8.s16", "VLDA_dmw_lda_w_ag_idx_imm", "VST_PACK_S8_S16_ag_idx_imm", X(0), 1, 0},
    {"vst.pack.d4.d8", "VLDA_dmw_lda_w_ag_idx_imm", "VST_PACK_D4_D8_ag_idx_imm", X(0), 1, 0},
    {"vst.pack.s4.s8", "VLDA_dmw_lda_w_ag_idx_imm", "VST_PACK_S4_S8_ag_idx_imm", X(0), 1, 0},
};

static void emit_access(struct rig * r, const char * name, aie_reg data, aie_reg ptr, int offset) {
    int op = aie_isa_find(r->isa, name);
    const struct aie_instr * instr = aie_isa_instr(r->isa, op);
    struct aie_inst i = {.op = (uint16_t) op};
    for (int k = 0; k < instr->n_explicit; k++) {
        switch (instr->operands[k].field) {
        case 'p':
            i.values[k] = ptr;
            break;
        case 'i':
            i.values[k] = offset;
            break;
        case 'j':
            i.values[k] = AIE_REG(AIE_DJ, 0);
            break;
        case 's':
            i.values[k] = S(0);
            break;
        default:
            i.values[k] = data;
        }
    }
    EMIT(r, i);
}

static void test_conv(void ** state) {
    (void) state;
    char *text = read_table("silicon-conv.tsv"), *at = text, *c[MAX_COLUMNS];
    struct rig * r = rig_new(false);
    int count[OUTCOMES] = {0};
    assert_true(next_row(&at, c) > 4);
    while (next_row(&at, c) > 4) {
        size_t k = 0, n_rows = sizeof conv_rows / sizeof conv_rows[0];
        while (k < n_rows && strcmp(conv_rows[k].mnemonic, c[1]) != 0) {
            k++;
        }
        assert_true(k < n_rows);
        uint8_t want[64];
        int n = hex_bytes(c[4], want, 64);
        memset(r->memory, 0xa5, 0x10000);
        hex_bytes(c[3], r->memory + IN - RIG_BASE, 64);
        start(r);
        set(r, P(0), IN);
        set(r, P(1), OUT);
        bool wide_in = conv_rows[k].wide_in, wide_out = conv_rows[k].wide_out;
        emit_access(r, conv_rows[k].load, wide_in ? W(0) : conv_rows[k].reg, P(0), 0);
        if (wide_in) {
            emit_access(r, conv_rows[k].load, W(1), P(0), 32);
        }
        nops(r, DRAIN);
        emit_access(r, conv_rows[k].store, wide_out ? W(0) : conv_rows[k].reg, P(1), 0);
        if (wide_out) {
            emit_access(r, conv_rows[k].store, W(1), P(1), 32);
        }
        nops(r, DRAIN);
        bool ok = finish(r);
        bool same = ok && memcmp(r->memory + OUT - RIG_BASE, want, (size_t) n) == 0;
        count[same ? EQUAL : DIFFERENT]++;
        if (!same) {
            printf("  DIFFERENT %s %s %s\n", c[0], c[1], ok ? "" : core_fault(r->core));
        }
    }
    rig_free(r);
    free(text);
    check_pin("silicon-conv.tsv", count);
}

// ---- the fast lane loops against the rule spelt out ----

enum { TILES = 70000 }; // of 16 lanes: more than a million lanes for each operation

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint32_t random32(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t) (seed >> 16);
}

// Numbers that meet: mostly near one exponent, some anywhere, some zero, denormal, infinite or NaN.
static uint32_t random_fp32(uint32_t tile) {
    uint32_t v = random32(), pick = random32() & (tile & 128 ? 31 : 63); // the half: all near
    uint32_t near = 100 + (tile & 31) + (v >> 23 & (tile & 64 ? 31 : 3));
    if (pick < 48) {
        return (v & 0x807fffff) | near << 23;
    }
    if (pick < 50) {
        return v & 0x80000000;
    }
    if (pick < 52) {
        return v & 0x807fffff;
    }
    if (pick < 54 && (tile & 15) == 0) {
        return v | 0x7f800000;
    }
    if (pick < 55 && (tile & 15) == 1) {
        return (v & 0x80000000) | 0x7f800000;
    }
    return pick < 60 ? (v & 0x80000fff) | near << 23 : v;
}

static void test_fast_add(void ** state) {
    (void) state;
    for (uint32_t t = 0; t < TILES; t++) {
        uint32_t a[16], b[16], out[16];
        for (int i = 0; i < 16; i++) {
            a[i] = random_fp32(t);
            b[i] = random_fp32(t);
            if ((t & 3) == 3 && (i & 1)) { // cancel all but the last bits
                b[i] = a[i] ^ 0x80000000 ^ (random32() & 7);
            }
        }
        uint32_t flip = t & 1 ? 0x80000000 : 0;
        sem_fp32_add_lanes((uint8_t *) out, (const uint8_t *) a, (const uint8_t *) b, 16, 0, flip);
        for (int i = 0; i < 16; i++) {
            uint32_t want = sem_fp32_add(a[i], b[i] ^ flip);
            if (out[i] != want) {
                fail_msg("%08x + %08x: fast %08x, rule %08x", a[i], b[i] ^ flip, out[i], want);
            }
        }
    }
}

// Calls a semantic function on plain operands, as the core would.
static void call(const char * name, uint8_t * out, const void * const in[], int n) {
    const struct aie_isa * isa = aie_isa_get(AIE_ARCH_AIE2);
    core_semantic_fn fn = semantic_of(AIE_ARCH_AIE2, name);
    struct core_exec x = {.instr = aie_isa_instr(isa, aie_isa_find(isa, name))};
    assert_non_null(fn);
    x.out[0] = out;
    for (int i = 0; i < n; i++) {
        x.in[i] = in[i];
    }
    assert_true(fn(&x));
}

static void test_fast_mac(void ** state) {
    (void) state;
    for (uint32_t t = 0; t < TILES; t++) {
        uint32_t acc[16], out[16];
        uint16_t x[32], y[32];
        uint32_t conf = t & 4 ? 0x3c : 0x1c; // element-wise, 4x8 times 8x4
        for (int i = 0; i < 16; i++) {
            acc[i] = random_fp32(t + 27); // products of numbers near 2^e are near 2^2e
        }
        for (int i = 0; i < 32; i++) {
            x[i] = (uint16_t) (random_fp32(t) >> 16);
            y[i] = (uint16_t) (random_fp32(t) >> 16);
        }
        uint32_t negate_products = t & 8 ? 0x8000 : 0, negate_acc = t & 16 ? 0x80000000 : 0;
        uint32_t full = conf | negate_products >> 4 | negate_acc >> 19; // bits 11 and 12
        call("VMAC_F_vmac_bm_core_dense", (uint8_t *) out,
             (const void * const[]){NULL, acc, x, y, &full}, 5);
        for (int i = 0; i < 16; i++) {
            uint16_t vx[8], vy[8];
            int n = conf == 0x1c ? 8 : 2;
            for (int k = 0; k < n; k++) {
                vx[k] = conf == 0x1c ? x[i / 4 * 8 + k] : x[16 * k + i];
                vy[k] = conf == 0x1c ? y[4 * k + i % 4] : y[16 * k + i];
                vy[k] ^= (uint16_t) negate_products;
            }
            uint32_t want = sem_bf16_mac(vx, vy, n, acc[i] ^ negate_acc, 0);
            if (out[i] != want) {
                fail_msg("tile %u lane %d: fast %08x, rule %08x", t, i, out[i], want);
            }
        }
    }
}

// Plain integer matrix products, signed and not, against the sum written out.
static void test_fast_int(void ** state) {
    (void) state;
    static const struct {
        uint32_t conf;
        int bits, rows, inner, cols, acc_bits;
    } modes[] = {{0x08, 8, 4, 8, 8, 32},
                 {0x18, 16, 4, 2, 8, 32},
                 {0x1a, 16, 2, 4, 8, 64},
                 {0x3a, 16, 4, 4, 4, 64}};
    for (uint32_t t = 0; t < TILES / 8; t++) {
        uint32_t conf = modes[t & 3].conf | (random32() & 3) << 8;
        int inner = modes[t & 3].inner, cols = modes[t & 3].cols;
        bool x_signed = conf & 0x200, y_signed = conf & 0x100, bytes = modes[t & 3].bits == 8;
        uint32_t x[16], y[16];
        uint64_t acc[16], out[16];
        for (int i = 0; i < 16; i++) {
            x[i] = random32();
            y[i] = random32();
            acc[i] = (uint64_t) random32() << 32 | random32();
        }
        call("VMAC_vmac_cm_core_dense", (uint8_t *) out,
             (const void * const[]){NULL, acc, x, y, &conf}, 5);
        for (int r = 0; r < modes[t & 3].rows; r++) {
            for (int c = 0; c < cols; c++) {
                int64_t sum = 0;
                for (int k = 0; k < inner; k++) {
                    int xi = r * inner + k, yi = k * cols + c;
                    int64_t vx = bytes ? ((uint8_t *) x)[xi] : ((uint16_t *) x)[xi];
                    int64_t vy = bytes ? ((uint8_t *) y)[yi] : ((uint16_t *) y)[yi];
                    vx -= x_signed && vx >> (modes[t & 3].bits - 1) ? 1 << modes[t & 3].bits : 0;
                    vy -= y_signed && vy >> (modes[t & 3].bits - 1) ? 1 << modes[t & 3].bits : 0;
                    sum += vx * vy;
                }
                int lane = r * cols + c;
                if (modes[t & 3].acc_bits == 32) {
                    uint32_t want = ((uint32_t *) acc)[lane] + (uint32_t) sum;
                    assert_int_equal(((uint32_t *) out)[lane], want);
                } else {
                    assert_true(out[lane] == acc[lane] + (uint64_t) sum);
                }
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silicon),       cmocka_unit_test(test_exotic),
        cmocka_unit_test(test_vector_verify), cmocka_unit_test(test_conv),
        cmocka_unit_test(test_fast_add),      cmocka_unit_test(test_fast_mac),
        cmocka_unit_test(test_fast_int),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

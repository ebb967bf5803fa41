// test-gfx-decode: the decoder against LLVM's disassembler on the whole corpus (sizes, operations,
// the registers of destinations), and against random bytes: whatever is decoded runs without harm.
#include "emu/gfx/rig.h"

#include "emu/gfx/isa.h"

#include <ctype.h>

// ---- names: what LLVM calls it on older GPUs, and the operation ----

static const char * const renamed[][2] = {
    {"s_andn2_b", "s_and_not1_b"},
    {"s_orn2_b", "s_or_not1_b"},
    {"s_andn2_saveexec", "s_and_not1_saveexec"},
    {"s_orn2_saveexec", "s_or_not1_saveexec"},
    {"s_andn1_saveexec", "s_and_not0_saveexec"},
    {"s_orn1_saveexec", "s_or_not0_saveexec"},
    {"s_ff1_i32", "s_ctz_i32"},
    {"s_flbit_i32_b32", "s_clz_i32_u32"},
    {"s_flbit_i32_b64", "s_clz_i32_u64"},
    {"v_ffbh_u32", "v_clz_i32_u32"},
    {"v_ffbl_b32", "v_ctz_i32_b32"},
    {"v_ffbh_i32", "v_cls_i32"},
    {"v_add_u32", "v_add_nc_u32"},
    {"v_sub_u32", "v_sub_nc_u32"},
    {"v_subrev_u32", "v_subrev_nc_u32"},
    {"v_add_i32", "v_add_nc_i32"},
    {"v_sub_i32", "v_sub_nc_i32"},
    {"v_add_u16", "v_add_nc_u16"},
    {"v_sub_u16", "v_sub_nc_u16"},
    {"v_subrev_u16", "v_subrev_nc_u16"},
    {"v_addc_co_u32", "v_add_co_ci_u32"},
    {"v_subb_co_u32", "v_sub_co_ci_u32"},
    {"v_subbrev_co_u32", "v_subrev_co_ci_u32"},
    {"v_accvgpr_mov_b32", "v_accvgpr_read_b32"},
    {"v_mad_legacy_u16", "v_mad_u16"},
    {"v_mad_legacy_i16", "v_mad_i16"},
    {"s_load_dwordx16", "s_load_b512"},
    {"s_load_dwordx8", "s_load_b256"},
    {"s_load_dwordx4", "s_load_b128"},
    {"s_load_dwordx2", "s_load_b64"},
    {"s_load_dword", "s_load_b32"},
    {"ds_read2_", "ds_load_2addr_"},
    {"ds_read2st64_", "ds_load_2addr_"},
    {"ds_write2_", "ds_store_2addr_"},
    {"ds_write2st64_", "ds_store_2addr_"},
    {"ds_read_", "ds_load_"},
    {"ds_write_", "ds_store_"},
};

static const char * const parts[][2] = {
    // of vector memory
    {"ubyte_d16_hi", "d16_hi_u8"},
    {"sbyte_d16_hi", "d16_hi_i8"},
    {"short_d16_hi", "d16_hi_b16"},
    {"byte_d16_hi", "d16_hi_b8"},
    {"ubyte_d16", "d16_u8"},
    {"sbyte_d16", "d16_i8"},
    {"short_d16", "d16_b16"},
    {"ubyte", "u8"},
    {"sbyte", "i8"},
    {"ushort", "u16"},
    {"sshort", "i16"},
    {"dwordx4", "b128"},
    {"dwordx3", "b96"},
    {"dwordx2", "b64"},
    {"dword", "b32"},
    {"store_byte", "store_b8"},
    {"store_short", "store_b16"},
};

// Operations that are one here, whatever they are called.
static bool is_hint(const char * name) {
    static const char * const hints[] = {"s_nop",        "s_clause",   "s_delay_alu",
                                         "s_sleep",      "s_setprio",  "s_set_inst_prefetch",
                                         "s_sethalt",    "s_waitcnt",  "s_wakeup",
                                         "s_icache_inv", "buffer_gl0", "buffer_gl1",
                                         "buffer_inv",   "buffer_wb",  "buffer_invl2",
                                         "s_sendmsg"};
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        if (!strncmp(name, hints[i], strlen(hints[i]))) {
            return true;
        }
    }
    return false;
}

static void replace(char * name, size_t size, const char * from, const char * to) {
    char * at = strstr(name, from);
    if (at) {
        char rest[96];
        snprintf(rest, sizeof rest, "%s", at + strlen(from));
        snprintf(at, size - (size_t) (at - name), "%s%s", to, rest);
    }
}

static void canonical(char * name, size_t size) {
    static const char * const endings[] = {"_e32", "_e64", "_dpp", "_sdwa", "_e64_dpp", "_dpp8"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = strlen(name), e = strlen(endings[i]);
        if (n > e && !strcmp(name + n - e, endings[i])) {
            name[n - e] = 0;
        }
    }
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        if (!strncmp(name, renamed[i][0], strlen(renamed[i][0]))) {
            replace(name, size, renamed[i][0], renamed[i][1]);
            break;
        }
    }
    bool memory = !strncmp(name, "global_", 7) || !strncmp(name, "flat_", 5) ||
                  !strncmp(name, "scratch_", 8) || !strncmp(name, "buffer_", 7);
    for (size_t i = 0; memory && i < sizeof parts / sizeof *parts; i++) {
        if (strstr(name, parts[i][0])) {
            replace(name, size, parts[i][0], parts[i][1]);
            break;
        }
    }
    replace(name, size, "_rtn_", "_");
    replace(name, size, "v_cmp_tru_", "v_cmp_t_");
}

// Atomics and d16 forms of LDS have names of their own on gfx9; the corpus test runs them.
static bool compared(const char * name) {
    return !strstr(name, "atomic") && !strstr(name, "d16") &&
           !(name[0] == 'd' && strchr("asmiocxdr", name[3]) && strncmp(name, "ds_store", 8));
}

static int decode(enum gfx_arch arch, const uint32_t * words, int count, struct gfx_inst out[2]) {
    memset(out, 0, 2 * sizeof *out);
    return (arch >= GFX_1100 ? gfx11_decode : gfx9_decode)(arch, words, count, out);
}

// A line: "	v_add_f32_e32 v1, v2, v3          // 000000001234: 02060702". Returns 1 when wrong.
static int check_line(enum gfx_arch arch, char * line) {
    char * comment = strstr(line, "// ");
    if (line[0] != '\t' || !comment) {
        return 0;
    }
    uint32_t words[5];
    int count = 0;
    char * at = strchr(comment, ':');
    while (at && count < 5) {
        char * end;
        unsigned long v = strtoul(at + 1, &end, 16);
        if (end == at + 1) {
            break;
        }
        words[count++] = (uint32_t) v;
        at = *end == ' ' ? end : NULL;
    }
    char name[96], ours[96];
    if (count == 0 || sscanf(line, " %95s", name) != 1) {
        return 0;
    }
    if (!strcmp(name, "s_code_end")) { // padding behind the code, which nobody may reach
        return 0;
    }
    struct gfx_inst out[2];
    int used = decode(arch, words, count, out);
    if (used != count) {
        fprintf(stderr, "%s: %d words instead of %d: %s", gfx_arch_name(arch), used, count, line);
        return 1;
    }
    char second[96] = "";
    if (out[0].flags & GFX_F_PAIR) { // "v_dual_mul_f32 v0, .. :: v_dual_add_f32 v1, .."
        char * other = strstr(line, ":: ");
        replace(name, sizeof name, "v_dual_", "v_");
        if (!other || sscanf(other + 3, "%95s", second) != 1) {
            return 1;
        }
        replace(second, sizeof second, "v_dual_", "v_");
        gfx_inst_name(&out[1], ours, sizeof ours);
        if (strcmp(second, ours)) {
            fprintf(stderr, "%s: %s: %s", gfx_arch_name(arch), ours, line);
            return 1;
        }
    }
    canonical(name, sizeof name);
    gfx_inst_name(&out[0], ours, sizeof ours);
    if (!is_hint(name) && compared(name) && strcmp(name, ours)) {
        fprintf(stderr, "%s: %s instead of %s: %s", gfx_arch_name(arch), ours, name, line);
        return 1;
    }
    // the number of the first register
    char kind;
    unsigned reg;
    char * operands = line + 1 + strcspn(line + 1, " ");
    bool first =
        sscanf(operands, " %c%u", &kind, &reg) == 2 || sscanf(operands, " %c[%u", &kind, &reg) == 2;
    bool is_store = strstr(name, "store") || strstr(name, "atomic") || strstr(name, "add_u32 v") ||
                    gfx_op_info[out[0].op].class == GFX_C_MEM ||
                    gfx_op_info[out[0].op].class == GFX_C_DS || !strncmp(name, "s_cmp", 5) ||
                    !strncmp(name, "s_bitcmp", 8) || !strncmp(name, "v_cmp", 5) ||
                    !strncmp(name, "s_setreg", 8) || !strncmp(name, "s_setpc", 7) ||
                    !strncmp(name, "s_set_gpr", 9);
    if (first && !is_store && !is_hint(name) && (kind == 'v' || kind == 's' || kind == 'a')) {
        unsigned got = out[0].dst.reg - (kind == 'a' ? GFX_VGPR_ACC : 0);
        if (got != reg || out[0].dst.kind != (kind == 's' ? GFX_K_SGPR : GFX_K_VGPR)) {
            fprintf(stderr, "%s: destination %u: %s", gfx_arch_name(arch), got, line);
            return 1;
        }
    }
    return 0;
}

static void disassembled(void ** unused) {
    (void) unused;
    char * tool = process_find("llvm-objdump-19");
    if (!rig_have_compiler() || !tool) {
        free(tool);
        skip_test("no " RIG_COMPILER ", no lld or no llvm-objdump of its version");
    }
    free(tool);
    for (int arch = GFX_90A; arch <= GFX_1151; arch++) {
        char out[] = "/tmp/gfx-decode-XXXXXX";
        int fd = mkstemp(out);
        assert_true(fd >= 0);
        close(fd);
        assert_true(rig_compile(gfx_arch_name((enum gfx_arch) arch), CORPUS, out));
        char * argv[] = {"llvm-objdump-19", "-d", out, NULL};
        struct process p = {.argv = argv, .time_limit_s = 120, .capture = true, .keep = 16 << 20};
        struct process_end end;
        struct error err;
        assert_int_equal(process_run(&p, &end, &err), ST_OK);
        unlink(out);
        int bad = 0, lines = 0;
        for (char *line = (char *) end.output.data, *stop; line && *line && bad < 20; line = stop) {
            stop = strchr(line, '\n');
            stop = stop ? stop + 1 : line + strlen(line);
            char copy[512];
            snprintf(copy, sizeof copy, "%.*s", (int) (stop - line), line);
            bad += check_line((enum gfx_arch) arch, copy);
            lines += copy[0] == '\t';
        }
        buf_free(&end.output);
        print_message("%s: %d instructions\n", gfx_arch_name((enum gfx_arch) arch), lines);
        assert_int_equal(bad, 0);
        assert_true(lines > 5000);
    }
}

// ---- random bytes ----

static uint64_t state = 0x853c49e6748fea9bu;

static uint32_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t) (state >> 24);
}

static void random_words(void ** unused) {
    (void) unused;
    int known = 0;
    for (int i = 0; i < 400000; i++) {
        uint32_t words[5];
        for (int k = 0; k < 5; k++) {
            words[k] = next();
        }
        struct gfx_inst out[2];
        enum gfx_arch arch = (enum gfx_arch)(i % 3);
        int count = 1 + i % 5, used = decode(arch, words, count, out);
        assert_between(used + 1, 0, count + 1);
        if (used > 0) {
            known++;
            assert_between(out[0].op, 1, GFX_OP_COUNT - 1);
            assert_true(out[0].dst.reg < GFX_VGPR_COUNT);
            for (int k = 0; k < 4; k++) {
                assert_true(out[0].src[k].reg < GFX_VGPR_COUNT);
                if (out[0].src[k].kind == GFX_K_SGPR) {
                    assert_true(out[0].src[k].reg < GFX_SGPR_COUNT);
                }
            }
        }
    }
    assert_true(known > 50000);
}

// Programs of random instructions: each ends in an error or in s_endpgm, and never harms the host.
static void random_programs(void ** unused) {
    (void) unused;
    enum { WORDS = 256 };
    static _Alignas(4096) uint8_t memory[3 * 4096];
    for (int arch = GFX_90A; arch <= GFX_1151; arch++) {
        struct rig r = {0};
        struct error err;
        struct gfx_config c = {.arch = (enum gfx_arch) arch,
                               .threads = 2,
                               .resolve = rig_resolve,
                               .user = &r,
                               .wave_budget = 3000};
        assert_int_equal(gfx_new(&c, &r.gpu, &err), ST_OK);
        rig_allow(&r, memory, sizeof memory, true);
        for (int round = 0; round < 1500; round++) {
            uint32_t * code = (uint32_t *) (void *) (memory + 4096);
            memset(memory, 0, 4096);
            for (int i = 0; i < WORDS;) { // mostly what decodes, so that programs get somewhere
                struct gfx_inst out[2];
                uint32_t words[5];
                int used = 0;
                for (int tries = 0; tries < 50 && used <= 0; tries++) {
                    for (int k = 0; k < 5; k++) {
                        words[k] = next() & (k && next() % 2 ? 0x0f0f0f0f : ~0u);
                    }
                    used = decode((enum gfx_arch) arch, words, 5, out);
                }
                used = used <= 0 ? 1 : used;
                for (int k = 0; k < used && i < WORDS; k++) {
                    code[i++] = words[k];
                }
            }
            store_u32(memory + 16, 4096);            // entry
            store_u32(memory + 48, next());          // rsrc1
            store_u32(memory + 52, next() & 0x1fff); // rsrc2
            store_u32(memory + 56, next() & 0x047f); // properties
            struct gfx_dispatch d = {.kernel_object = (uintptr_t) memory,
                                     .kernarg = (uintptr_t) memory + 8192,
                                     .packet = (uintptr_t) memory + 8192,
                                     .grid = {256, 2, 1},
                                     .group = {128, 1, 1},
                                     .group_bytes = next() % 1024,
                                     .private_bytes = next() % 256};
            enum status st = gfx_run(r.gpu, &d, &err);
            if (st != ST_OK) {
                assert_true(st == ST_CORRUPT && err.text[0]);
            }
        }
        gfx_free(r.gpu);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disassembled),
        cmocka_unit_test(random_words),
        cmocka_unit_test(random_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test-gfx-scalar: scalar floats as those of lanes, scalar arithmetic with its SCC, atomics in
// memory and in LDS, and what loads leave of registers, each against its meaning.
#include "emu/gfx/ops-reference.h"

// ---- floats of scalars: as those of lanes ----

static void scalar_floats(void ** unused) {
    (void) unused;
    enum { SA = 10, SB = 12, SC = 14, SD = 16 };
    int n = 0;
    for (int op = GFX_s_add_f32; op <= GFX_s_cmp_nlt_f16; op++, n++) {
        const struct gfx_op_info * info = &gfx_op_info[op];
        bool compare = info->dst == GFX_T_N, high = op == GFX_s_cvt_hi_f32_f16;
        char name[64];
        bool literal = op == GFX_s_fmaak_f32 || op == GFX_s_fmamk_f32;
        snprintf(name, sizeof name, "v%s",
                 high                   ? "_cvt_f32_f16"
                 : literal              ? "_fma_f32"
                 : op == GFX_s_fmac_f16 ? "_fma_f16"
                                        : info->name + 1);
        const struct reference * ref = compare ? NULL : reference_of(name);
        for (int round = 0; round < 64 * ROUNDS; round++) {
            struct gfx_inst in = instruction((enum gfx_op) op);
            struct operands o = {.a = word(info->src[0], 0), .b = word(info->src[1], 0)};
            uint32_t old = word(info->dst, 0), third = word(info->dst, 0);
            o.b = round % 5 ? o.b : o.a; // equal ones are rare by chance
            sgpr_put(wave, SA, (uint32_t) o.a);
            sgpr_put(wave, SB, (uint32_t) o.b);
            sgpr_put(wave, SC, third);
            sgpr_put(wave, SD, old);
            in.dst = (struct gfx_operand){.kind = GFX_K_SGPR, .reg = SD};
            in.src[0] = (struct gfx_operand){.kind = GFX_K_SGPR, .reg = SA};
            in.src[1] = (struct gfx_operand){.kind = GFX_K_SGPR, .reg = SB};
            in.src[2] = (struct gfx_operand){.kind = GFX_K_NONE};
            o.c = o.old = old; // s_fmac
            if (op == GFX_s_fmaak_f32) {
                in.src[2] = (struct gfx_operand){.kind = GFX_K_CONST, .value = third};
                o.c = third;
            } else if (op == GFX_s_fmamk_f32) {
                in.src[1] = (struct gfx_operand){.kind = GFX_K_CONST, .value = (uint32_t) o.b};
                in.src[2] = (struct gfx_operand){.kind = GFX_K_SGPR, .reg = SC};
                o.c = third;
            }
            wave->scc = round & 1;
            assert_true(gfx_prepare(&in));
            in.step(wave, &in);
            bool carry = false, right;
            if (compare) {
                const char * type = strrchr(info->name, '_') + 1;
                right = wave->scc == holds(info->name + 6, order(type, o.a, o.b)) &&
                        sgpr(wave, SD) == old;
            } else {
                o.a = high ? o.a >> 16 : o.a;
                uint64_t want = ref->fn(&o, &carry) & width_mask(info->dst);
                right = same((enum gfx_op) op, info->dst, sgpr(wave, SD), want) &&
                        wave->scc == (round & 1);
            }
            if (!right) {
                fail_msg("%s of %llx, %llx, %x: %x, SCC %d", info->name, (unsigned long long) o.a,
                         (unsigned long long) o.b, (unsigned) o.c, sgpr(wave, SD), wave->scc);
            }
        }
    }
    assert_int_equal(n, 58);
}

// ---- scalar arithmetic ----

static wide scalar_want(enum gfx_op op, uint64_t a, uint64_t b, bool scc, int * out_scc) {
    const uint32_t x = (uint32_t) a, y = (uint32_t) b;
    const int64_t i = (int32_t) x, j = (int32_t) y;
    wide r = 0;
    *out_scc = -1; // as before
    switch (op) {
    case GFX_s_add_u32:
        r = (wide) x + y;
        *out_scc = r >> 32 != 0;
        return r;
    case GFX_s_addc_u32:
        r = (wide) x + y + scc;
        *out_scc = r >> 32 != 0;
        return r;
    case GFX_s_sub_u32:
        *out_scc = y > x;
        return (wide) x - y;
    case GFX_s_subb_u32:
        *out_scc = (wide) y + scc > x;
        return (wide) x - y - scc;
    case GFX_s_add_i32:
        *out_scc = i + j > INT32_MAX || i + j < INT32_MIN;
        return (wide) (uint64_t) (i + j);
    case GFX_s_sub_i32:
        *out_scc = i - j > INT32_MAX || i - j < INT32_MIN;
        return (wide) (uint64_t) (i - j);
    case GFX_s_mul_i32:
        return (wide) x * y;
    case GFX_s_mul_hi_u32:
        return (wide) x * y >> 32;
    case GFX_s_mul_hi_i32:
        return (wide) (uint64_t) (i * j >> 32);
    case GFX_s_and_b64:
        *out_scc = (a & b) != 0;
        return a & b;
    case GFX_s_and_not1_b64:
        *out_scc = (a & ~b) != 0;
        return a & ~b;
    case GFX_s_xnor_b64:
        *out_scc = a != ~b;
        return ~(a ^ b);
    case GFX_s_lshl_b32:
        *out_scc = (uint32_t) ((uint64_t) x << y % 32) != 0;
        return (wide) x << y % 32;
    case GFX_s_lshl_b64:
        *out_scc = a << b % 64 != 0;
        return a << b % 64;
    case GFX_s_ashr_i64:
        *out_scc = ((int64_t) a >> b % 64) != 0;
        return (uint64_t) ((int64_t) a >> b % 64);
    case GFX_s_bfe_u32: {
        uint64_t n = y >> 16 & 127, v = x >> y % 32;
        v = n >= 32 ? v : v & ((UINT64_C(1) << n) - 1);
        *out_scc = v != 0;
        return v;
    }
    case GFX_s_bfe_i64: {
        unsigned from = y % 64, n = y >> 16 & 127;
        n = n > 64 - from ? 64 - from : n;
        int64_t v = n ? (int64_t) (a << (64 - from - n)) >> (64 - n) : 0;
        *out_scc = v != 0;
        return (uint64_t) v;
    }
    case GFX_s_bcnt1_i32_b64:
        *out_scc = a != 0;
        return (wide) __builtin_popcountll(a);
    case GFX_s_ctz_i32_b64:
        return a ? (wide) __builtin_ctzll(a) : UINT32_MAX;
    case GFX_s_clz_i32_u32:
        return x ? (wide) __builtin_clz(x) : UINT32_MAX;
    case GFX_s_clz_i32_u64:
        return a ? (wide) __builtin_clzll(a) : UINT32_MAX;
    case GFX_s_brev_b32:
        return reversed(x);
    case GFX_s_cselect_b32:
        return scc ? x : y;
    case GFX_s_min_i32:
        *out_scc = i < j;
        return (wide) (uint64_t) (i < j ? i : j);
    case GFX_s_max_u32:
        *out_scc = x > y;
        return x > y ? x : y;
    case GFX_s_abs_i32:
        *out_scc = x != 0;
        return (wide) (uint64_t) llabs(i);
    case GFX_s_sext_i32_i8:
        return (wide) (uint64_t) (int64_t) (int8_t) x;
    case GFX_s_cmp_lt_i32:
        *out_scc = i < j;
        return 0;
    case GFX_s_cmp_ge_u32:
        *out_scc = x >= y;
        return 0;
    case GFX_s_cmp_lg_u64:
        *out_scc = a != b;
        return 0;
    case GFX_s_bitcmp1_b32:
        *out_scc = x >> y % 32 & 1;
        return 0;
    case GFX_s_pack_lh_b32_b16:
        return (x & 0xffff) | (y & 0xffff0000);
    case GFX_s_lshl3_add_u32:
        r = (wide) x * 8 + y;
        *out_scc = r >> 32 != 0;
        return r;
    default:
        fail_msg("no reference");
        return 0;
    }
}

static void scalar(void ** unused) {
    (void) unused;
    static const enum gfx_op ops[] = {
        GFX_s_add_u32,       GFX_s_addc_u32,      GFX_s_sub_u32,      GFX_s_subb_u32,
        GFX_s_add_i32,       GFX_s_sub_i32,       GFX_s_mul_i32,      GFX_s_mul_hi_u32,
        GFX_s_mul_hi_i32,    GFX_s_and_b64,       GFX_s_and_not1_b64, GFX_s_xnor_b64,
        GFX_s_lshl_b32,      GFX_s_lshl_b64,      GFX_s_ashr_i64,     GFX_s_bfe_u32,
        GFX_s_bfe_i64,       GFX_s_bcnt1_i32_b64, GFX_s_ctz_i32_b64,  GFX_s_clz_i32_u32,
        GFX_s_clz_i32_u64,   GFX_s_brev_b32,      GFX_s_cselect_b32,  GFX_s_min_i32,
        GFX_s_max_u32,       GFX_s_abs_i32,       GFX_s_sext_i32_i8,  GFX_s_cmp_lt_i32,
        GFX_s_cmp_ge_u32,    GFX_s_cmp_lg_u64,    GFX_s_bitcmp1_b32,  GFX_s_pack_lh_b32_b16,
        GFX_s_lshl3_add_u32,
    };
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        const struct gfx_op_info * info = &gfx_op_info[ops[k]];
        for (int round = 0; round < 200; round++) {
            struct gfx_inst in = instruction(ops[k]);
            uint64_t a = word(GFX_T_B32, 0) | (uint64_t) word(GFX_T_B32, 0) << 32;
            uint64_t b = round % 5 ? word(GFX_T_B32, 0) | (uint64_t) word(GFX_T_B32, 0) << 32 : a;
            in.src[0] = (struct gfx_operand){.kind = GFX_K_SGPR, .reg = 10};
            in.src[1] = (struct gfx_operand){.kind = GFX_K_SGPR, .reg = 12};
            in.dst = (struct gfx_operand){.kind = GFX_K_SGPR, .reg = 14};
            sgpr_put64(wave, 10, a);
            sgpr_put64(wave, 12, b);
            sgpr_put64(wave, 14, 0x5555555555555555);
            bool scc = wave->scc = next() & 1;
            int want_scc;
            wide want = scalar_want(ops[k], a, b, scc, &want_scc);
            assert_true(gfx_prepare(&in));
            in.step(wave, &in);
            uint64_t got = sgpr64(wave, 14), expected = 0x5555555555555555;
            if (info->dst == GFX_T_B64) {
                expected = (uint64_t) want;
            } else if (info->dst == GFX_T_B32) {
                expected = (expected & ~UINT64_C(0xffffffff)) | (uint32_t) want;
            }
            if (got != expected || wave->scc != (want_scc < 0 ? scc : want_scc != 0)) {
                fail_msg("%s: %llx %llx: %llx instead of %llx, scc %d", info->name,
                         (unsigned long long) a, (unsigned long long) b, (unsigned long long) got,
                         (unsigned long long) expected, wave->scc);
            }
        }
    }
}

// ---- atomics, in memory and in LDS ----

static uint64_t after(const char * what, uint64_t m, uint64_t v, uint64_t c, int bytes) {
    bool wide_one = bytes == 8;
    int64_t sm = wide_one ? (int64_t) m : (int32_t) m, sv = wide_one ? (int64_t) v : (int32_t) v;
    if (!strncmp(what, "swap", 4)) {
        return v;
    }
    if (!strncmp(what, "cmpswap_b", 9)) {
        return m == c ? v : m;
    }
    if (!strncmp(what, "add_u", 5)) {
        return m + v;
    }
    if (!strncmp(what, "sub_u", 5)) {
        return m - v;
    }
    if (!strncmp(what, "rsub_u", 6)) {
        return v - m;
    }
    if (!strncmp(what, "min_i", 5)) {
        return sm < sv ? m : v;
    }
    if (!strncmp(what, "max_i", 5)) {
        return sm > sv ? m : v;
    }
    if (!strncmp(what, "min_u", 5)) {
        return m < v ? m : v;
    }
    if (!strncmp(what, "max_u", 5)) {
        return m > v ? m : v;
    }
    if (!strncmp(what, "and_", 4)) {
        return m & v;
    }
    if (!strncmp(what, "or_", 3)) {
        return m | v;
    }
    if (!strncmp(what, "xor_", 4)) {
        return m ^ v;
    }
    if (!strncmp(what, "inc_", 4)) {
        return m >= v ? 0 : m + 1;
    }
    if (!strncmp(what, "dec_", 4)) {
        return m == 0 || m > v ? v : m - 1;
    }
    if (!strncmp(what, "add_f", 5)) {
        return wide_one ? bits_d(d_bits(m) + d_bits(v)) : bits_f(f_bits(m) + f_bits(v));
    }
    return UINT64_MAX;
}

static void atomics(void ** unused) {
    (void) unused;
    static const enum gfx_op skipped[] = {
        GFX_atomic_min_f32, GFX_atomic_max_f32, GFX_atomic_cmpswap_f32, GFX_atomic_mskor_b32,
        GFX_atomic_min_f64, GFX_atomic_max_f64, GFX_atomic_cmpswap_f64, GFX_atomic_mskor_b64,
    };
    static _Alignas(8) uint64_t memory[LANES];
    group->lds_bytes = 4096;
    set_lanes(64);
    for (int op = GFX_atomic_swap_b32; op <= GFX_atomic_mskor_b64; op++) {
        bool skip_it = false;
        for (size_t k = 0; k < sizeof skipped / sizeof *skipped; k++) {
            skip_it |= (int) skipped[k] == op;
        }
        for (int round = 0; round < 8 && !skip_it; round++) {
            int bytes = gfx_op_info[op].bytes;
            bool lds = round & 1;
            struct gfx_inst in = instruction((enum gfx_op) op);
            uint64_t exec = next() | 1, old[LANES];
            set_exec(exec);
            in.segment = lds ? GFX_LDS : GFX_GLOBAL;
            in.flags = GFX_F_RETURN;
            in.dst.reg = 20;
            in.src[0].reg = 10;
            in.src[1].reg = 12;
            in.src[2] =
                lds ? (struct gfx_operand){.kind = GFX_K_VGPR, .reg = (uint16_t) (12 + bytes / 4)}
                    : (struct gfx_operand){.kind = GFX_K_NONE};
            for (int i = 0; i < LANES; i++) {
                old[i] = next() >> (i % 3 * 13);
                old[i] = bytes == 4 ? (uint32_t) old[i] : old[i];
                uint8_t * p = lds ? group->lds + i * bytes : (uint8_t *) memory + i * bytes;
                memcpy(p, &old[i], (size_t) bytes);
                uint64_t at = lds ? (uint64_t) (i * bytes) : (uintptr_t) p;
                wave->v[10][i] = (uint32_t) at;
                wave->v[11][i] = (uint32_t) (at >> 32);
                for (int k = 12; k < 16; k++) {
                    wave->v[k][i] = (uint32_t) next();
                }
                if (i % 2) { // so that the comparison holds
                    memcpy(&wave->v[12 + bytes / 4][i], &old[i], 4);
                    wave->v[15][i] = bytes == 8 ? (uint32_t) (old[i] >> 32) : 0;
                }
                wave->v[20][i] = wave->v[21][i] = 0;
            }
            assert_true(gfx_prepare(&in));
            in.step(wave, &in);
            assert_false(worker->failed);
            for (int i = 0; i < LANES; i++) {
                uint64_t v = wave->v[12][i], c = wave->v[12 + bytes / 4][i], now = 0, returned;
                if (bytes == 8) {
                    v |= (uint64_t) wave->v[13][i] << 32;
                    c |= (uint64_t) wave->v[15][i] << 32;
                }
                const uint8_t * p = lds ? group->lds + i * bytes : (uint8_t *) memory + i * bytes;
                memcpy(&now, p, (size_t) bytes);
                uint64_t want = after(gfx_op_info[op].name + 7, old[i], v, c, bytes);
                want = exec >> i & 1 ? bytes == 4 ? (uint32_t) want : want : old[i];
                returned = wave->v[20][i] | (bytes == 8 ? (uint64_t) wave->v[21][i] << 32 : 0);
                bool nan = strstr(gfx_op_info[op].name, "_f") && now != want &&
                           is_nan(bytes == 8 ? GFX_T_F64 : GFX_T_F32, want);
                if ((now != want && !nan) || returned != (exec >> i & 1 ? old[i] : 0)) {
                    fail_msg("%s: %llx and %llx: %llx instead of %llx", gfx_op_info[op].name,
                             (unsigned long long) old[i], (unsigned long long) v,
                             (unsigned long long) now, (unsigned long long) want);
                }
            }
        }
    }
}

// ---- loads ----

// Halves: what a load leaves of the rest of its register is zero on gfx90a and gfx942, as it was on
// the others; from global memory, from LDS, and from beyond the end of a buffer.
static void loads_of_halves(void ** unused) {
    (void) unused;
    static const struct {
        enum gfx_op op;
        uint32_t loaded, kept; // of the bytes 0x84 0x83
    } ops[] = {
        {GFX_load_d16_b16, 0x8384, 0xffff0000},
        {GFX_load_d16_hi_b16, 0x83840000, 0xffff},
        {GFX_load_d16_u8, 0x0084, 0xffff0000},
        {GFX_load_d16_hi_u8, 0x00840000, 0xffff},
        {GFX_load_d16_i8, 0xff84, 0xffff0000},
        {GFX_load_d16_hi_i8, 0xff840000, 0xffff},
        {GFX_load_u16, 0x8384, 0},
        {GFX_load_i8, 0xffffff84, 0},
    };
    static _Alignas(8) uint8_t bytes[8] = {0x84, 0x83};
    static const enum gfx_segment segments[] = {GFX_GLOBAL, GFX_LDS, GFX_BUFFER};
    set_lanes(64);
    set_exec(~UINT64_C(0));
    group->lds_bytes = 4096;
    memcpy(group->lds, bytes, sizeof bytes);
    for (int arch = GFX_90A; arch <= GFX_1151; arch++) {
        for (size_t k = 0; k < 3 * sizeof ops / sizeof *ops; k++) {
            enum gfx_segment segment = segments[k % 3];
            struct gfx_inst in = instruction(ops[k / 3].op);
            uint64_t at = segment == GFX_GLOBAL ? (uintptr_t) bytes : 0;
            machine.config.arch = (enum gfx_arch) arch;
            in.segment = (uint8_t) segment;
            in.dst.reg = 20;
            in.src[0].reg = 10;
            in.src[2] = in.src[3] = (struct gfx_operand){.kind = GFX_K_NONE};
            if (segment == GFX_BUFFER) { // of no bytes
                in.src[2] = (struct gfx_operand){.kind = GFX_K_SGPR, .reg = 40};
                in.src[3] = (struct gfx_operand){.kind = GFX_K_CONST};
                sgpr_put64(wave, 40, (uintptr_t) bytes);
                sgpr_put64(wave, 42, 0);
            }
            for (int i = 0; i < LANES; i++) {
                wave->v[10][i] = (uint32_t) at;
                wave->v[11][i] = (uint32_t) (at >> 32);
                wave->v[20][i] = 0x12345678;
            }
            assert_true(gfx_prepare(&in));
            in.step(wave, &in);
            assert_false(worker->failed);
            uint32_t want = segment == GFX_BUFFER ? 0 : ops[k / 3].loaded;
            want |= arch >= GFX_1100 ? 0x12345678 & ops[k / 3].kept : 0;
            if (wave->v[20][7] != want) {
                fail_msg("%s, segment %d, %s: %x instead of %x", gfx_op_info[in.op].name, segment,
                         gfx_arch_name((enum gfx_arch) arch), wave->v[20][7], want);
            }
        }
    }
    machine.config.arch = GFX_90A;
}

// Beyond the end of LDS are zeros, which no store changes; a strict GPU calls that an error.
static void end_of_lds(void ** unused) {
    (void) unused;
    static const enum gfx_op ops[] = {GFX_store_b32, GFX_load_b32, GFX_load_b128, GFX_load_u16,
                                      GFX_atomic_add_u32};
    set_lanes(64);
    set_exec(~UINT64_C(0));
    group->lds_bytes = 64;
    for (size_t k = 0; k < 2 * sizeof ops / sizeof *ops; k++) {
        struct gfx_inst in = instruction(ops[k / 2]);
        bool stores = ops[k / 2] == GFX_store_b32;
        uint32_t bytes = gfx_op_info[in.op].bytes, fit = 64 / bytes;
        machine.config.strict = k & 1;
        in.segment = GFX_LDS;
        in.flags = ops[k / 2] == GFX_atomic_add_u32 ? GFX_F_RETURN : 0;
        in.dst.reg = 20;
        in.src[0].reg = 10;
        in.src[1].reg = 12;
        memset(group->lds, 0x11, 256);
        for (uint32_t i = 0; i < LANES; i++) {
            wave->v[10][i] = i < fit ? i * bytes : i * bytes + (i & 1 ? 0xf00000 : 0);
            wave->v[12][i] = wave->v[20][i] = 0x11111111;
        }
        assert_true(gfx_prepare(&in));
        in.step(wave, &in);
        assert_int_equal(worker->failed, machine.config.strict);
        assert_true(!worker->failed || strstr(worker->error.text, "lies beyond its 64 bytes"));
        for (uint32_t i = 0; i < LANES && !worker->failed; i++) {
            uint32_t all = bytes == 2 ? 0x1111 : 0x11111111;
            assert_int_equal(wave->v[20][i], stores ? 0x11111111 : i < fit ? all : 0);
        }
        for (int i = 64; i < 256; i++) { // where others' LDS might be
            assert_int_equal(group->lds[i], 0x11);
        }
        worker->failed = false;
    }
    machine.config.strict = false;
}

// The end of a raw buffer holds for all offsets together: of the lane, of the instruction and of
// the scalar register.
static void ends_of_buffers(void ** unused) {
    (void) unused;
    static uint32_t words[16 + LANES];
    set_lanes(64);
    set_exec(~UINT64_C(0));
    for (uint32_t soffset = 0; soffset <= 64; soffset += 16) {
        struct gfx_inst in = instruction(GFX_load_b32);
        in.segment = GFX_BUFFER;
        in.flags = GFX_F_OFFEN;
        in.imm = 8;
        in.dst.reg = 20;
        in.src[0].reg = 10;
        in.src[2] = (struct gfx_operand){.kind = GFX_K_SGPR, .reg = 40};
        in.src[3] = (struct gfx_operand){.kind = GFX_K_SGPR, .reg = 44};
        sgpr_put64(wave, 40, (uintptr_t) words);
        sgpr_put64(wave, 42, 64); // bytes
        sgpr_put(wave, 44, soffset);
        for (uint32_t i = 0; i < LANES; i++) {
            wave->v[10][i] = 4 * i;
        }
        for (uint32_t i = 0; i < 16 + LANES; i++) {
            words[i] = 100 + i;
        }
        assert_true(gfx_prepare(&in));
        in.step(wave, &in);
        assert_false(worker->failed);
        for (uint32_t i = 0; i < LANES; i++) {
            uint32_t at = i + 2 + soffset / 4;
            assert_int_equal(wave->v[20][i], at < 16 ? 100 + at : 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalar_floats),   cmocka_unit_test(scalar),
        cmocka_unit_test(atomics),         cmocka_unit_test(loads_of_halves),
        cmocka_unit_test(ends_of_buffers), cmocka_unit_test(end_of_lds),
    };
    return cmocka_run_group_tests(tests, start, finish);
}

// test-gfx-matrix: MFMA and WMMA against plain loops. The machine sees the words of
// matrix-code.def, the reference their text: sizes and types from LLVM's names, numbers of blocks
// from the registers, and of each register which element of a matrix it holds, as AMD's documents
// have it (the machine goes the other way, from elements to registers). Numbers, special ones
// included, must agree bit by bit with the order of additions that src/emu/gfx/matrix.c states, and
// be near what doubles say.
#include "emu/gfx/ops-rig.h"

#include <ctype.h>

static const struct row {
    enum gfx_arch arch;
    int lanes;
    const char * text;
    uint32_t words[2];
} rows[] = {
#define ROW(arch, lanes, text, a, b) {arch, lanes, text, {a, b}},
#include "emu/gfx/matrix-code.def"
};

enum { N_ROWS = sizeof rows / sizeof *rows, MAX_K = 32, MAX_SIDE = 32, MAX_BLOCKS = 16 };

// ---- what a text says ----

struct operand {
    int reg, count; // count 0: constant
    double constant;
    bool is_bits; // of a whole number: floats take it as their bits
};

struct text {
    char name[64], d_type[8], type[8]; // "f32", "bf16"
    bool wmma;
    int m, n, k, blocks, lanes;
    struct operand o[4]; // D, A, B, C
    int cbsz, abid, blgp, clamp, half;
    int neg_lo[3], neg_hi[3];
};

static int number_of(const char * text, const char * name) {
    const char * at = strstr(text, name);
    return at ? atoi(at + strlen(name)) : 0;
}

static void three(const char * text, const char * name, int v[3]) {
    const char * at = strstr(text, name);
    v[0] = v[1] = v[2] = 0;
    if (at) {
        assert_int_equal(sscanf(at + strlen(name), "[%d,%d,%d]", &v[0], &v[1], &v[2]), 3);
    }
}

static struct operand operand_of(const char * at) {
    int base = *at == 'a' ? GFX_VGPR_ACC : 0, first, last;
    if (*at != 'v' && *at != 'a') {
        bool is_float = strcspn(at, ".") < strcspn(at, " ,");
        return (struct operand){.constant = atof(at), .is_bits = !is_float};
    }
    if (sscanf(at + 1, "[%d:%d]", &first, &last) == 2) {
        return (struct operand){.reg = base + first, .count = last - first + 1};
    }
    return (struct operand){.reg = base + atoi(at + 1), .count = 1};
}

static struct text parse(const struct row * r) {
    struct text t = {.lanes = r->lanes};
    char rest[32];
    int sel[3];
    const char * at = r->text + strcspn(r->text, " ");
    snprintf(t.name, sizeof t.name, "%.*s", (int) (at - r->text), r->text);
    t.wmma = !strncmp(t.name, "v_wmma", 6);
    assert_int_equal(
        sscanf(t.name + 7, "%7[a-z0-9]_%dx%dx%d%31s", t.d_type, &t.m, &t.n, &t.k, rest), 5);
    char * end = strstr(rest, "_1k");
    if (end) {
        *end = 0;
    }
    // the type is what comes last: "_2b_f32", "f32", "_bf16"
    char * type = strrchr(rest, '_');
    snprintf(t.type, sizeof t.type, "%.7s", type ? type + 1 : rest);
    for (int i = 0; i < 4; i++) {
        at += strspn(at, " ,");
        t.o[i] = operand_of(at);
        at += strcspn(at, " ,");
    }
    int words = !strcmp(t.d_type, "f64") ? 2 : 1;
    t.blocks = t.o[0].count / words * t.lanes / (t.m * t.n);
    t.cbsz = number_of(at, "cbsz:");
    t.abid = number_of(at, "abid:");
    t.blgp = number_of(at, "blgp:");
    t.clamp = strstr(at, "clamp") != NULL;
    three(at, "op_sel:", sel);
    t.half = sel[2];
    three(at, "neg_lo:", t.neg_lo);
    three(at, "neg_hi:", t.neg_hi);
    if (strstr(at, "neg:")) {
        three(at, "neg:", t.neg_lo);
    }
    return t;
}

// ---- what registers hold ----

static int bits_of(const char * type) {
    return !strcmp(type, "iu4") ? 4 : atoi(type + strcspn(type, "0123456789"));
}

static uint32_t (*before)[LANES]; // registers

static uint64_t element(int reg, int lane, int e, int bits) {
    uint64_t v = before[reg + e * bits / 32][lane] >> e * bits % 32;
    if (bits == 64) {
        v |= (uint64_t) before[reg + e * 2 + 1][lane] << 32;
    }
    return bits == 64 ? v : v & ((UINT64_C(1) << bits) - 1);
}

static double value_of(const char * type, uint64_t bits, bool is_signed) {
    if (!strcmp(type, "f64")) {
        return d_bits(bits);
    }
    if (!strcmp(type, "f32")) {
        return (double) f_bits(bits);
    }
    if (!strcmp(type, "xf32")) {
        return isnan(f_bits(bits)) ? NAN : (double) f_bits(bits >> 13 << 13);
    }
    if (!strcmp(type, "f16")) {
        return (double) h_bits(bits);
    }
    if (!strcmp(type, "bf16")) {
        return (double) f_bits(bits << 16);
    }
    if (!strcmp(type, "i32")) {
        return (int32_t) bits;
    }
    int width = bits_of(type);
    return is_signed && bits >> (width - 1) ? (double) bits - (1 << width) : (double) bits;
}

static int lane_of_b(int blgp, int lane) {
    switch (blgp) {
    case 0:
        return lane;
    case 1:
        return lane % 32;
    case 2:
        return 32 + lane % 32;
    case 3:
        return (lane + 16) % 64;
    default:
        return 16 * (blgp - 4) + lane % 16;
    }
}

static double a[MAX_BLOCKS][MAX_SIDE][MAX_K], b[MAX_BLOCKS][MAX_SIDE][MAX_K];

// source: 1 for A, 2 for B; the side is the row of A, the column of B.
static void take_ab(const struct text * t, int source, double to[MAX_BLOCKS][MAX_SIDE][MAX_K]) {
    int bits = bits_of(t->type), each = t->o[source].count * 32 / bits;
    int side = source == 1 ? t->m : t->n, s = source - 1;
    bool integer = t->type[0] == 'i', f64 = !strcmp(t->type, "f64");
    for (int lane = 0; lane < t->lanes; lane++) {
        int from = source == 2 && !f64 ? lane_of_b(t->blgp, lane) : lane;
        for (int e = 0; e < each; e++) {
            uint64_t v = element(t->o[source].reg, from, e, bits);
            double d = value_of(t->type, v, !t->wmma || t->neg_lo[s]);
            bool negate =
                t->wmma ? !integer && (e % 2 ? t->neg_hi[s] : t->neg_lo[s]) : f64 && t->neg_lo[s];
            int block = t->wmma ? 0 : lane / side % t->blocks;
            int k = t->wmma ? e : lane / (side * t->blocks) * each + e;
            to[block][lane % side][k] = negate ? -d : d;
        }
    }
}

struct place {
    int block, i, j;
};

// Which element of D (and of C) register `g` of a lane is.
static struct place place_of(const struct text * t, int g, int lane) {
    int j = lane % t->n;
    if (t->wmma) {
        return (struct place){0, t->lanes / 16 * g + lane / 16, j};
    }
    if (!strcmp(t->d_type, "f64")) {
        return t->m == 16 ? (struct place){0, 4 * g + lane / 16, j}
                          : (struct place){lane / 4 % 4, lane / 16, j};
    }
    switch (t->m) {
    case 32:
        return (struct place){g / 16, 8 * (g / 4) % 32 + 4 * (lane / 32) + g % 4, j};
    case 16:
        return (struct place){g / 4, 4 * (lane / 16) + g % 4, j};
    default:
        return (struct place){lane / 4, g % 4, j};
    }
}

// ---- the sums ----

static float flushed(float f, bool keeps_sign) {
    bool is_small = fabsf(f) < 0x1p-126f;
    return !is_small ? f : keeps_sign ? copysignf(0, f) : 0;
}

static float operand90(double d, double smallest) {
    return fabs(d) < smallest ? 0 : (float) d;
}

// MI200's way: pairs, then pairs of pairs.
static float by_pairs(const struct text * t, const double * x, const double * y, float c) {
    double smallest = !strcmp(t->type, "f16") ? 0x1p-14 : 0x1p-126;
    int group = t->o[1].count == 1 ? 2 : 4;
    float sum = flushed(c, false);
    for (int k = 0; k < t->k; k += group) {
        float p[4];
        for (int e = 0; e < group; e++) {
            float product = operand90(x[k + e], smallest) * operand90(y[k + e], smallest);
            p[e] = flushed(product == 0 ? 0 : product, true);
        }
        float s = flushed(p[0] + p[1], true);
        if (group == 4) {
            s = flushed(s + flushed(p[2] + p[3], true), true);
        }
        sum = flushed(sum + s, true);
    }
    return sum;
}

static float bf16_rounded(float f) { // to nearest even, through the distance to both neighbours
    uint32_t u = (uint32_t) bits_f(f);
    if (isnan(f) || isinf(f)) {
        return f;
    }
    double low = (double) f_bits(u & 0xffff0000), exact = (double) f;
    uint32_t up = (u & 0xffff0000) + 0x10000;
    double high = (up & 0x7f800000) == 0x7f800000 ? copysign(0x1p128, exact) : (double) f_bits(up);
    double to_low = fabs(exact - low), to_high = fabs(high - exact);
    bool takes_high = to_high < to_low || (to_high == to_low && u >> 16 & 1);
    return takes_high ? f_bits(up) : (float) low;
}

struct sum {
    uint64_t bits;       // as the machine must have it
    double near, within; // what doubles say, and how far off it may be
};

static struct sum integer_sum(const struct text * t, const double * x, const double * y, double c) {
    int64_t s = (int64_t) c;
    for (int k = 0; k < t->k; k++) {
        s += (int64_t) x[k] * (int64_t) y[k];
    }
    if (t->clamp) {
        s = s > INT32_MAX ? INT32_MAX : s < INT32_MIN ? INT32_MIN : s;
    }
    return (struct sum){(uint32_t) s, (int32_t) (uint32_t) s, 0};
}

static struct sum sum_of(const struct row * r, const struct text * t, const double * x,
                         const double * y, double c) {
    if (!strcmp(t->d_type, "i32")) {
        return integer_sum(t, x, y, c);
    }
    struct sum s = {0, c, fabs(c)};
    bool f64 = !strcmp(t->type, "f64");
    bool pairs = r->arch == GFX_90A && bits_of(t->type) == 16;
    double chain_d = c;
    float chain = (float) c;
    for (int k = 0; k < t->k; k++) {
        s.near += x[k] * y[k];
        s.within += fabs(x[k] * y[k]);
        chain_d = fma(x[k], y[k], chain_d);
        chain = fmaf((float) x[k], (float) y[k], chain);
    }
    chain = pairs ? by_pairs(t, x, y, (float) c) : chain;
    double unit = f64                         ? 0x1p-52
                  : !strcmp(t->d_type, "f32") ? 0x1p-23
                  : !strcmp(t->d_type, "f16") ? 0x1p-10
                                              : 0x1p-7;
    // what is flushed may be missing, and what underflows: a denormal of each term
    double lost = !pairs ? 0x1p-24 : !strcmp(t->type, "f16") ? 0x1p-13 : 0x1p-125;
    double most = 0;
    for (int k = 0; k < t->k; k++) {
        most += fabs(x[k]) + fabs(y[k]);
    }
    s.within = s.within * unit * (t->k + 2) + (pairs ? lost * most : 0x1p-24 * !f64) + 0x1p-125;
    if (f64) {
        s.bits = bits_d(chain_d);
    } else if (!strcmp(t->d_type, "f32")) {
        s.bits = bits_f(chain);
    } else if (!strcmp(t->d_type, "f16")) {
        s.bits = bits_h((half) chain);
    } else {
        s.bits = bits_f(bf16_rounded(chain)) >> 16;
    }
    return s;
}

// ---- registers at random ----

enum kind { SMALL, EVERYDAY, SPECIAL, KINDS };

static uint64_t special(int bits, const char * type) {
    static const uint32_t f32s[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff,
                                    0x00800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
                                    0x7fc00000, 0x7f800001, 0x3f800000, 0xbf800000, 0x3f801fff};
    static const uint16_t f16s[] = {0,      0x8000, 1,      0x8001, 0x03ff, 0x0400, 0x7bff,
                                    0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0x3c00, 0xbc00};
    uint64_t r = next() >> 8;
    if (bits == 64) {
        uint32_t high = (uint32_t) special(32, "f32");
        return (uint64_t) high << 32 | (r & 1);
    }
    if (!strcmp(type, "f16")) {
        return f16s[r % (sizeof f16s / sizeof *f16s)];
    }
    uint32_t v = f32s[r % (sizeof f32s / sizeof *f32s)];
    return bits == 16 ? v >> 16 | (v == 1 || v == 0x80000001) : v;
}

static uint64_t drawn(const char * type, enum kind kind) {
    int bits = bits_of(type), whole = (int) (next() >> 20) % 17 - 8;
    if (type[0] == 'i') {
        return kind == SMALL ? (uint64_t) (int64_t) whole : next() >> 13;
    }
    if (kind == SPECIAL && next() >> 40 & 1) {
        return special(bits, type);
    }
    double v = whole;
    if (kind == EVERYDAY) {
        v = ldexp((double) (int32_t) (next() >> 16), -31 + (int) (next() >> 50) % 8);
    }
    return bits == 64              ? bits_d(v)
           : bits == 32            ? bits_f((float) v)
           : !strcmp(type, "bf16") ? bits_f((float) v) >> 16
                                   : bits_h((half) v);
}

static void put_element(int reg, int lane, int e, int bits, uint64_t v) {
    uint32_t mask = bits < 32 ? (1u << bits) - 1 : ~0u;
    uint32_t * word = &wave->v[reg + e * bits / 32][lane];
    *word = (*word & ~(mask << e * bits % 32)) | ((uint32_t) v & mask) << e * bits % 32;
    if (bits == 64) {
        wave->v[reg + e * 2 + 1][lane] = (uint32_t) (v >> 32);
    }
}

static void fill(const struct text * t, enum kind kind) {
    for (int reg = 0; reg < GFX_VGPR_COUNT + VGPR_PAD; reg++) {
        for (int i = 0; i < LANES; i++) {
            wave->v[reg][i] = (uint32_t) (next() >> 9);
        }
    }
    for (int s = 3; s >= 1; s--) { // C first: where it lies over A or B, these are right
        const char * type = s == 3 ? t->d_type : t->type;
        int bits = bits_of(type), each = t->o[s].count * 32 / bits;
        bool halves = s == 3 && bits == 16; // one in each register
        for (int e = 0; e < (halves ? t->o[s].count : each); e++) {
            for (int lane = 0; lane < t->lanes; lane++) {
                put_element(t->o[s].reg, lane, halves ? 2 * e + t->half : e, bits,
                            drawn(type, kind));
            }
        }
        for (int g = 0; g < t->o[s].count && t->wmma && s < 3; g++) { // each 16 lanes have them
            for (int lane = 16; lane < t->lanes; lane++) {
                wave->v[t->o[s].reg + g][lane] = wave->v[t->o[s].reg + g][lane % 16];
            }
        }
    }
}

// ---- a row ----

static double c_of(const struct text * t, int g, int lane) {
    const struct operand * c = &t->o[3];
    bool halves = bits_of(t->d_type) == 16;
    uint64_t whole = (uint64_t) (int64_t) c->constant;
    double v = c->count == 0 ? c->is_bits ? value_of(t->d_type, whole, true) : c->constant
               : halves      ? value_of(t->d_type, element(c->reg, lane, 2 * g + t->half, 16), true)
                        : value_of(t->d_type, element(c->reg, lane, g, bits_of(t->d_type)), true);
    if (t->d_type[0] != 'i' && t->wmma) {
        v = t->neg_hi[2] ? fabs(v) : v;
    }
    return t->d_type[0] != 'i' && t->neg_lo[2] ? -v : v;
}

static void run_words(const struct row * r) {
    struct gfx_inst in[2], cut[2];
    memset(in, 0, sizeof in);
    gfx_decode_fn decode = r->arch >= GFX_1100 ? gfx11_decode : gfx9_decode;
    machine.config.arch = r->arch;
    if (decode(r->arch, r->words, 2, in) != 2 || !gfx_prepare(&in[0])) {
        fail_msg("%s is not decoded", r->text);
    }
    assert_int_equal(decode(r->arch, r->words, 1, cut), -1);
    set_lanes(r->lanes);
    set_exec(next()); // which nobody looks at
    in[0].step(wave, &in[0]);
}

static bool nan_of(const char * type, uint64_t v) {
    return type[0] != 'i' && isnan(value_of(type, v, true));
}

static int check_row(const struct row * r, enum kind kind) {
    struct text t = parse(r);
    int bits = bits_of(t.d_type), words = bits == 64 ? 2 : 1;
    fill(&t, kind);
    memcpy(before, wave->v, sizeof wave->v);
    run_words(r);
    take_ab(&t, 1, a);
    take_ab(&t, 2, b);
    for (int g = 0; g < t.o[0].count / words; g++) {
        for (int lane = 0; lane < t.lanes; lane++) {
            struct place p = place_of(&t, g, lane);
            int of_a = (p.block >> t.cbsz << t.cbsz) + (t.cbsz ? t.abid : 0);
            struct sum want = sum_of(r, &t, a[of_a][p.i], b[p.block][p.j], c_of(&t, g, lane));
            uint64_t got = wave->v[t.o[0].reg + g * words][lane], rest = 0;
            if (bits == 16) {
                rest = (got ^ before[t.o[0].reg + g][lane]) & (t.half ? 0xffff : 0xffff0000);
                got = got >> 16 * t.half & 0xffff;
            } else if (bits == 64) {
                got |= (uint64_t) wave->v[t.o[0].reg + g * 2 + 1][lane] << 32;
            }
            double v = value_of(t.d_type, got, true);
            bool nan = nan_of(t.d_type, got) && nan_of(t.d_type, want.bits);
            bool near = kind == SPECIAL || nan || fabs(v - want.near) <= want.within;
            if (rest || (got != want.bits && !nan) || !near) {
                fprintf(stderr,
                        "%s %s: D[%d][%d] of block %d (register %d, lane %d): %llx (%g) instead of "
                        "%llx; doubles: %g +- %g%s\n",
                        gfx_arch_name(r->arch), r->text, p.i, p.j, p.block, g, lane,
                        (unsigned long long) got, v, (unsigned long long) want.bits, want.near,
                        want.within, rest ? "; the other half changed" : "");
                return 1;
            }
        }
    }
    for (int reg = 0; reg < GFX_VGPR_COUNT + VGPR_PAD; reg++) { // nothing else was touched
        bool of_d = reg >= t.o[0].reg && reg < t.o[0].reg + t.o[0].count;
        size_t from = of_d ? (size_t) t.lanes : 0;
        if (memcmp(&before[reg][from], &wave->v[reg][from], (LANES - from) * 4)) {
            fprintf(stderr, "%s: register %d changed\n", r->text, reg);
            return 1;
        }
    }
    return 0;
}

static void products(void ** unused) {
    (void) unused;
    int bad = 0;
    for (int i = 0; i < N_ROWS; i++) {
        int wrong = 0;
        for (int kind = 0; kind < KINDS && !wrong; kind++) {
            struct row r = rows[i];
            wrong += check_row(&r, (enum kind) kind);
            r.arch = r.arch == GFX_1100 ? GFX_1151 : r.arch;
            wrong += r.arch == GFX_1151 && check_row(&r, (enum kind) kind);
        }
        bad += wrong;
    }
    assert_int_equal(bad, 0);
    assert_false(worker->failed);
}

// Every row of matrix.def is one that was tried.
static void all_forms(void ** unused) {
    (void) unused;
    int seen[3][GFX_OP_COUNT] = {{0}};
    static const struct {
        const char * name;
        int op, on[3]; // opcodes of gfx90a, gfx942, gfx11
    } forms[] = {
#define MFMA(name, gfx90a, gfx942, ab, d, m, n, k, blocks) {#name, GFX_##name, {gfx90a, gfx942, 0}},
#define WMMA(name, gfx11, ab, d, m, n, k, blocks)          {#name, GFX_##name, {0, 0, gfx11}},
#include "emu/gfx/matrix.def"
    };
    for (int i = 0; i < N_ROWS; i++) {
        struct gfx_inst in[2];
        memset(in, 0, sizeof in);
        (rows[i].arch >= GFX_1100 ? gfx11_decode : gfx9_decode)(rows[i].arch, rows[i].words, 2, in);
        seen[rows[i].arch][in[0].op]++;
    }
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        for (int on = 0; on < 3; on++) {
            if (!!forms[i].on[on] != !!seen[on][forms[i].op]) {
                fail_msg("%s on %s", forms[i].name, gfx_arch_name((enum gfx_arch) on));
            }
        }
    }
}

// ---- denormals, zeros and rounding, number by number ----

static const struct row * row_of(enum gfx_arch arch, const char * name) {
    for (int i = 0; i < N_ROWS; i++) {
        size_t n = strlen(name);
        if (rows[i].arch == arch && !strncmp(rows[i].text, name, n) && rows[i].text[n] == ' ') {
            return &rows[i];
        }
    }
    fail_msg("no %s", name);
    return NULL;
}

// A, B: elements [0][0] and [0][1] and of B the same; every other one is 0.
static void known_values(void ** unused) {
    (void) unused;
    static const struct {
        enum gfx_arch arch;
        const char * name;
        uint16_t a[2], b[2];
        uint32_t c, d;
    } cases[] = {
        // gfx90a: a denormal half is 0, a denormal sum is 0, C is flushed, -0 is 0
        {GFX_90A, "v_mfma_f32_32x32x8f16", {0x0001, 0}, {0x3c00, 0}, 0, 0},
        {GFX_90A, "v_mfma_f32_32x32x8f16", {0x0400, 0}, {0x3c00, 0}, 0, 0x38800000},
        {GFX_90A, "v_mfma_f32_32x32x8f16", {0, 0}, {0, 0}, 0x00000001, 0},
        {GFX_90A, "v_mfma_f32_32x32x8f16", {0, 0}, {0, 0}, 0x80000000, 0},
        {GFX_90A, "v_mfma_f32_32x32x8bf16_1k", {0x0080, 0}, {0x3f00, 0}, 0, 0},
        {GFX_90A, "v_mfma_f32_32x32x8bf16_1k", {0x0080, 0}, {0x3f80, 0}, 0, 0x00800000},
        {GFX_90A, "v_mfma_f32_32x32x4bf16", {0x007f, 0}, {0x4f80, 0}, 0, 0},
        // the pair is summed before C is added: 1 + (2^-24 + 2^-24), and 1 + 2^-24 + 2^-24
        // elsewhere
        {GFX_90A,
         "v_mfma_f32_32x32x8f16",
         {0x0c00, 0x0c00},
         {0x0c00, 0x0c00},
         0x3f800000,
         0x3f800001},
        {GFX_942,
         "v_mfma_f32_32x32x8_f16",
         {0x0c00, 0x0c00},
         {0x0c00, 0x0c00},
         0x3f800000,
         0x3f800000},
        // gfx942 and gfx11 keep denormals
        {GFX_942, "v_mfma_f32_32x32x8_f16", {0x0001, 0}, {0x3c00, 0}, 0, 0x33800000},
        {GFX_942, "v_mfma_f32_32x32x8_f16", {0, 0}, {0, 0}, 0x00000001, 0x00000001},
        {GFX_942, "v_mfma_f32_32x32x8_bf16", {0x0080, 0}, {0x3f00, 0}, 0, 0x00400000},
        {GFX_1100, "v_wmma_f32_16x16x16_f16", {0x0001, 0}, {0x3c00, 0}, 0, 0x33800000},
        {GFX_1100, "v_wmma_f32_16x16x16_bf16", {0x0080, 0}, {0x3f00, 0}, 0, 0x00400000},
        // -0 and -0; infinities; an infinity times 0
        {GFX_942, "v_mfma_f32_32x32x8_f16", {0x8000, 0x3c00}, {0x3c00, 0x7c00}, 0, 0x7f800000},
        {GFX_90A, "v_mfma_f32_32x32x8f16", {0x7c00, 0x3c00}, {0x3c00, 0xfc00}, 0, 0x7fc00000},
        {GFX_1100, "v_wmma_f32_16x16x16_f16", {0x7c00, 0}, {0, 0}, 0, 0x7fc00000},
        // 2048 + 1 is halfway between two halves, 256 + 1 between two bf16: to the even one
        {GFX_1100, "v_wmma_f16_16x16x16_f16", {0x3c00, 0}, {0x3c00, 0}, 0x6800, 0x6800},
        {GFX_1100, "v_wmma_f16_16x16x16_f16", {0x3c00, 0x3c00}, {0x3c00, 0x4000}, 0x6800, 0x6802},
        {GFX_1100, "v_wmma_bf16_16x16x16_bf16", {0x3f80, 0}, {0x3f80, 0}, 0x4380, 0x4380},
        {GFX_1100, "v_wmma_bf16_16x16x16_bf16", {0x3f80, 0}, {0x4040, 0}, 0x4380, 0x4382},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct row * r = row_of(cases[i].arch, cases[i].name);
        struct text t = parse(r);
        memset(wave->v, 0, sizeof wave->v);
        for (int copy = 0; copy < (t.wmma ? t.lanes : 1); copy += 16) {
            wave->v[t.o[1].reg][copy] = cases[i].a[0] | (uint32_t) cases[i].a[1] << 16;
            wave->v[t.o[2].reg][copy] = cases[i].b[0] | (uint32_t) cases[i].b[1] << 16;
        }
        wave->v[t.o[3].reg][0] = cases[i].c;
        run_words(r);
        uint32_t got = wave->v[t.o[0].reg][0];
        bool nan = cases[i].d == 0x7fc00000 && isnan(f_bits(got));
        if (got != cases[i].d && !nan) {
            fail_msg("case %zu, %s: %x instead of %x", i, r->text, got, cases[i].d);
        }
    }
}

// ---- what cannot be ----

static void refused(void ** unused) {
    (void) unused;
    static const struct {
        enum gfx_arch arch;
        uint32_t words[2];
    } none[] = {
        {GFX_90A, {0xd3c000f0, 0x04ea1db6}},  // 32 registers from v240 on
        {GFX_90A, {0xd3c00086, 0x07c21db6}},  // C from v240 on
        {GFX_90A, {0xd3c00086, 0x04ea1cb6}},  // A is a scalar
        {GFX_90A, {0xd3c00086, 0x00521db6}},  // C is a scalar
        {GFX_942, {0xd3d40086, 0x04ea1db6}},  // v_mfma_i32_32x32x8i8 is gfx90a's
        {GFX_90A, {0xd3be0086, 0x04ea1db6}},  // xf32 is gfx942's
        {GFX_1100, {0xcc4040fd, 0x1c160701}}, // 4 registers from v253 on
        {GFX_1100, {0xcc404010, 0x1c1607fd}}, // 8 from v253 on
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        struct gfx_inst in[2];
        memset(in, 0, sizeof in);
        int n = (none[i].arch >= GFX_1100 ? gfx11_decode : gfx9_decode)(none[i].arch, none[i].words,
                                                                        2, in);
        if (n != 0) {
            fail_msg("%08x %08x: %d", none[i].words[0], none[i].words[1], n);
        }
    }
    // D of a wave of 32 has 8 registers, of which 4 are not there
    static const struct row last = {
        GFX_1100, 32, "v_wmma_f32_16x16x16_f16", {0xcc4040fc, 0x1c620701}};
    run_words(&last);
    assert_true(worker->failed);
    assert_non_null(strstr(worker->error.text, "8 vector registers from 252 on"));
    worker->failed = false;
}

// A kernel that forgets that WMMA wants its rows in every 16 lanes is told so on a strict GPU.
static void rows_not_repeated(void ** unused) {
    (void) unused;
    const struct row * r = row_of(GFX_1100, "v_wmma_f32_16x16x16_f16");
    struct text t = parse(r);
    for (int strict = 0; strict < 2; strict++) {
        machine.config.strict = strict;
        fill(&t, SMALL);
        run_words(r);
        assert_false(worker->failed);
        wave->v[t.o[2].reg + 3][21] ^= 1;
        run_words(r);
        assert_int_equal(worker->failed, strict);
        assert_true(!strict || strstr(worker->error.text, "of lane 21 is not what lane 5 has"));
        worker->failed = false;
    }
    machine.config.strict = false;
}

static int start_all(void ** state) {
    before = malloc(sizeof wave->v);
    return before ? start(state) : 1;
}

static int finish_all(void ** state) {
    free(before);
    return finish(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),          cmocka_unit_test(all_forms),
        cmocka_unit_test(known_values),      cmocka_unit_test(refused),
        cmocka_unit_test(rows_not_repeated),
    };
    return cmocka_run_group_tests(tests, start_all, finish_all);
}

// test-gfx-ops: operations one by one with random operands, against reference.def; all lanes on and
// some of them off, vectors and scalars as sources, signs on floats, two widths of waves. Then
// every compare, scalar arithmetic, and atomics, each against its meaning.
#include "base/cmocka-all.h"

#include "emu/gfx/impl.h"

#include <math.h>

enum { ROUNDS = 8, A = 0, B = 2, C = 4, D = 6 }; // rounds of up to 64 operand sets; registers

// ---- random bits that are interesting ----

static uint64_t state = 0x2545f4914f6cdd1du;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1du;
}

static uint32_t word(enum gfx_type t, int high) {
    static const uint32_t words[] = {0,          1,          ~0u,        0x80000000, 0x7fffffff,
                                     0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000,
                                     0x00000001, 0x00800000, 0x007fffff, 0x4f000000, 0xcf000000,
                                     0x3c003c00, 0x7c00fc00, 0x00010001, 0x80008000, 0xffff0001};
    uint64_t r = next();
    if (r % 6 == 0) {
        return words[(r >> 8) % (sizeof words / sizeof *words)];
    }
    uint32_t v = (uint32_t) (r >> 20);
    if (r % 6 < 4) { // everyday numbers
        if (t == GFX_T_F32 || t == GFX_T_P32) {
            return (v & 0x807fffff) | (uint32_t) (117 + (r >> 52) % 20) << 23;
        }
        if (t == GFX_T_F64 && high) {
            return (v & 0x800fffff) | (uint32_t) (1003 + (r >> 52) % 40) << 20;
        }
        if (t == GFX_T_F16 || t == GFX_T_P16) {
            return (v & 0x83ff83ff) | (uint32_t) (8 + (r >> 52) % 14) << 10 |
                   (uint32_t) (8 + (r >> 56) % 14) << 26;
        }
        if (t == GFX_T_B32 && r % 6 == 3) {
            return v >> (r >> 58) % 32;
        }
    }
    return v;
}

// ---- helpers of the references ----

static uint64_t bits_f(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float f_bits(uint64_t u) {
    uint32_t w = (uint32_t) u;
    float f;
    memcpy(&f, &w, 4);
    return f;
}

static uint64_t bits_d(double f) {
    uint64_t u;
    memcpy(&u, &f, 8);
    return u;
}

static double d_bits(uint64_t u) {
    double f;
    memcpy(&f, &u, 8);
    return f;
}

__extension__ typedef _Float16 half;
__extension__ typedef unsigned __int128 wide;

static uint64_t bits_h(half h) {
    uint16_t u;
    memcpy(&u, &h, 2);
    return u;
}

static half h_bits(uint64_t u) {
    uint16_t w = (uint16_t) u;
    half h;
    memcpy(&h, &w, 2);
    return h;
}

static uint32_t reversed(uint32_t v) {
    uint32_t r = 0;
    for (int i = 0; i < 32; i++) {
        r = r << 1 | (v >> i & 1);
    }
    return r;
}

static int64_t low24(int32_t v) {
    int64_t w = v & 0xffffff;
    return w >= 0x800000 ? w - 0x1000000 : w;
}

static uint64_t middle_of(int64_t a, int64_t b, int64_t c, int which) {
    int64_t v[3] = {a, b, c};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++) {
            if (v[k] > v[k + 1]) {
                int64_t t = v[k];
                v[k] = v[k + 1];
                v[k + 1] = t;
            }
        }
    }
    return (uint64_t) v[which];
}

static uint32_t permuted(uint32_t a, uint32_t b, uint32_t c) {
    uint8_t bytes[8];
    memcpy(bytes, &b, 4);
    memcpy(bytes + 4, &a, 4);
    uint32_t r = 0;
    for (int k = 0; k < 4; k++) {
        unsigned s = c >> 8 * k & 255;
        uint32_t v = s < 8     ? bytes[s]
                     : s < 12  ? (bytes[(s - 8) * 2 + 1] & 128 ? 255u : 0)
                     : s == 12 ? 0
                               : 255;
        r |= v << 8 * k;
    }
    return r;
}

static uint64_t bytes_apart(uint32_t a, uint32_t b) {
    uint64_t s = 0;
    for (int k = 0; k < 4; k++) {
        s += (uint64_t) abs((int) (a >> 8 * k & 255) - (int) (b >> 8 * k & 255));
    }
    return s;
}

static int64_t dotted(uint32_t a, uint32_t b, int width, bool is_signed) {
    int64_t s = 0;
    for (int k = 0; k < 32; k += width) {
        int64_t x = a >> k & ((1 << width) - 1), y = b >> k & ((1 << width) - 1);
        if (is_signed) {
            x -= x >> (width - 1) << width;
            y -= y >> (width - 1) << width;
        }
        s += x * y;
    }
    return s;
}

static double mantissa(double v) {
    int e;
    return frexp(v, &e);
}

static int64_t exponent(double v) {
    int e;
    return frexp(v, &e), e;
}

static uint64_t toward_zero(float f) {
    half h = (half) f;
    uint64_t u = bits_h(h);
    if (f == f && fabsf((float) h) > fabsf(f)) { // one step back
        u--;
    }
    return u;
}

// Minimum in IEEE mode: a signalling NaN wins, a quiet one loses.
static bool signalling(double v, uint64_t quiet_bit, uint64_t bits) {
    return v != v && !(bits & quiet_bit);
}

static bool half_signals(uint16_t u) {
    return (u & 0x7fff) > 0x7c00 && !(u & 0x200);
}

static float least(float a, float b) {
    if (signalling((double) a, 1 << 22, bits_f(a)) || signalling((double) b, 1 << 22, bits_f(b))) {
        return NAN;
    }
    return a == 0 && b == 0 ? (signbit(a) ? a : b) : fminf(a, b);
}

static float most(float a, float b) {
    return -least(-a, -b);
}

static double least_d(double a, double b) {
    uint64_t quiet = UINT64_C(1) << 51;
    if (signalling(a, quiet, bits_d(a)) || signalling(b, quiet, bits_d(b))) {
        return NAN;
    }
    return a == 0 && b == 0 ? (signbit(a) ? a : b) : fmin(a, b);
}

struct operands {
    uint64_t a, b, c, old;
    bool bit;
    int i;
};

#define REF(op, ...)                                                                               \
    static uint64_t ref_##op(const struct operands * o, bool * carry_out) {                        \
        const uint64_t a = o->a, b = o->b, c = o->c, old = o->old;                                 \
        const uint32_t au = (uint32_t) a, bu = (uint32_t) b, cu = (uint32_t) c;                    \
        const int32_t ai = (int32_t) au, bi = (int32_t) bu, ci = (int32_t) cu;                     \
        const int64_t al = (int64_t) a, bl = (int64_t) b, cl = (int64_t) c;                        \
        const uint16_t aw = (uint16_t) a, bw = (uint16_t) b, cw = (uint16_t) c;                    \
        const int16_t as = (int16_t) aw, bs = (int16_t) bw, cs = (int16_t) cw;                     \
        const float af = f_bits(a), bf = f_bits(b), cf = f_bits(c);                                \
        const double ad = d_bits(a), bd = d_bits(b), cd = d_bits(c);                               \
        const half ah = h_bits(a), bh = h_bits(b), ch = h_bits(c);                                 \
        const bool bit = o->bit;                                                                   \
        const int i = o->i;                                                                        \
        bool carry = false;                                                                        \
        (void) al, (void) bl, (void) cl, (void) aw, (void) bw, (void) cw, (void) as, (void) bs;    \
        (void) cs, (void) af, (void) bf, (void) cf, (void) ad, (void) bd, (void) cd, (void) ah;    \
        (void) bh, (void) ch, (void) bit, (void) i, (void) old, (void) ai, (void) bi, (void) ci;   \
        (void) au, (void) bu, (void) cu;                                                           \
        const uint64_t r = (uint64_t) (__VA_ARGS__);                                               \
        *carry_out = carry;                                                                        \
        return r;                                                                                  \
    }
#include "emu/gfx/reference.def"
#undef REF

static const struct reference {
    enum gfx_op op;
    uint64_t (*fn)(const struct operands * o, bool * carry);
} references[] = {
#define REF(op, ...) {GFX_##op, ref_##op},
#include "emu/gfx/reference.def"
};

// ---- a machine with one wave ----

static struct gfx machine;
static struct gfx_worker * worker;
static struct gfx_wave * wave;

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) user, (void) len, (void) write;
    return (void *) (uintptr_t) addr;
}

static int start(void ** unused) {
    (void) unused;
    machine.config.resolve = resolve;
    worker = aligned_alloc(64, (sizeof *worker + 63) & ~(size_t) 63);
    wave = aligned_alloc(64, sizeof *wave);
    memset(worker, 0, sizeof *worker);
    memset(wave, 0, sizeof *wave);
    worker->gpu = &machine;
    wave->worker = worker;
    gfx_tlb_clear(worker);
    return 0;
}

static int finish(void ** unused) {
    (void) unused;
    free(worker);
    free(wave);
    return 0;
}

static void set_lanes(int lanes) {
    wave->lanes = lanes;
    wave->all = lanes == 64 ? ~UINT64_C(0) : 0xffffffff;
}

static void set_exec(uint64_t exec) {
    sgpr_put64(wave, GFX_SGPR_EXEC, exec);
}

static uint64_t lane(unsigned reg, int i, enum gfx_type t) {
    return wave->v[reg][i] | (gfx_type_words(t) == 2 ? (uint64_t) wave->v[reg + 1][i] << 32 : 0);
}

static uint64_t width_mask(enum gfx_type t) {
    return gfx_type_words(t) == 2             ? ~UINT64_C(0)
           : t == GFX_T_F16 || t == GFX_T_B16 ? 0xffff
                                              : 0xffffffff;
}

static bool is_nan(enum gfx_type t, uint64_t v) {
    return t == GFX_T_F16   ? (v & 0x7fff) > 0x7c00
           : t == GFX_T_F32 ? (v & 0x7fffffff) > 0x7f800000
                            : t == GFX_T_F64 && (v & INT64_MAX) > UINT64_C(0x7ff) << 52;
}

static bool same(enum gfx_op op, enum gfx_type t, uint64_t got, uint64_t want) {
    bool approximate =
        op == GFX_v_exp_f32 || op == GFX_v_log_f32 || op == GFX_v_sin_f32 || op == GFX_v_cos_f32;
    if (got == want || (is_nan(t, got) && is_nan(t, want))) {
        return true;
    }
    if (t == GFX_T_P16) {
        return same(op, GFX_T_F16, got & 0xffff, want & 0xffff) &&
               same(op, GFX_T_F16, got >> 16, want >> 16);
    }
    if (t == GFX_T_P32) {
        return same(op, GFX_T_F32, (uint32_t) got, (uint32_t) want) &&
               same(op, GFX_T_F32, got >> 32, want >> 32);
    }
    if (approximate) { // a unit in the last place, and what is absolutely small for sines
        float g = f_bits(got), w = f_bits(want);
        return llabs((int64_t) got - (int64_t) want) <= 1 ||
               (op != GFX_v_exp_f32 && fabsf(g - w) < 1e-7f);
    }
    return false;
}

static struct gfx_inst instruction(enum gfx_op op) {
    struct gfx_inst in;
    memset(&in, 0, sizeof in);
    in.op = (uint16_t) op;
    in.op_sel_hi = 7;
    in.sdst = GFX_SGPR_NULL;
    in.dst = (struct gfx_operand){.kind = GFX_K_VGPR, .reg = D};
    for (int k = 0; k < 3; k++) {
        in.src[k] = (struct gfx_operand){.kind = GFX_K_VGPR, .reg = (uint16_t) (A + 2 * k)};
    }
    return in;
}

static void randomise(enum gfx_op op) {
    const struct gfx_op_info * info = &gfx_op_info[op];
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 2 * LANES; i++) {
            wave->v[A + 2 * k + i / LANES][i % LANES] = word(info->src[k], i / LANES);
        }
    }
    for (int i = 0; i < 2 * LANES; i++) {
        wave->v[D + i / LANES][i % LANES] = word(info->dst, i / LANES);
    }
}

static uint64_t signed_as(enum gfx_type t, uint64_t v, const struct gfx_operand * o) {
    uint64_t top = t == GFX_T_F16 ? 0x8000 : t == GFX_T_F32 ? 0x80000000 : UINT64_C(1) << 63;
    v = o->abs ? v & ~top : v;
    return o->neg ? v ^ top : v;
}

static int check(const struct reference * ref, int round, int lanes) {
    const struct gfx_op_info * info = &gfx_op_info[ref->op];
    struct gfx_inst in = instruction(ref->op);
    uint64_t exec = round % 2 ? next() : ~UINT64_C(0), mask = next();
    static uint32_t before[2][LANES];
    set_lanes(lanes);
    set_exec(exec);
    exec &= wave->all;
    randomise(ref->op);
    uint64_t constant = 0;
    bool is_float =
        info->src[1] == GFX_T_F16 || info->src[1] == GFX_T_F32 || info->src[1] == GFX_T_F64;
    if (info->src[2] == GFX_T_M) {
        in.src[2] = (struct gfx_operand){.kind = GFX_K_SGPR, .reg = 20};
        sgpr_put64(wave, 20, mask);
    }
    if (round % 4 == 2 && info->src[1] != GFX_T_N && info->src[1] != GFX_T_P16) { // from a scalar
        constant = word(info->src[1], 0) | (uint64_t) word(info->src[1], 1) << 32;
        sgpr_put64(wave, 30, constant);
        in.src[1] = (struct gfx_operand){.kind = GFX_K_SGPR, .reg = 30};
    }
    if (round % 4 == 3 && is_float) {
        in.src[0].neg = 1;
        in.src[1].abs = 1;
    }
    if (info->flags & GFX_O_CARRY) {
        in.sdst = 40;
    }
    if (info->dst == GFX_T_F16 || info->dst == GFX_T_B16) {
        in.flags |= round & 4 ? GFX_F_KEEP : 0;
    }
    assert_true(gfx_prepare(&in));
    memcpy(before, wave->v[D], sizeof before);
    in.step(wave, &in);
    uint64_t carries = sgpr_mask(wave, 40);
    for (int i = 0; i < lanes; i++) {
        struct operands o = {.a = lane(A, i, info->src[0]),
                             .b = lane(B, i, info->src[1]),
                             .c = lane(C, i, info->src[2]),
                             .old = before[0][i],
                             .bit = mask >> i & 1,
                             .i = i};
        if (in.src[1].kind == GFX_K_SGPR) {
            o.b = constant & (gfx_type_words(info->src[1]) == 2 ? ~UINT64_C(0) : 0xffffffff);
        }
        if (is_float) {
            o.a = signed_as(info->src[0], o.a, &in.src[0]);
            o.b = signed_as(info->src[1], o.b, &in.src[1]);
        }
        uint64_t got = lane(D, i, info->dst), keep = ~width_mask(info->dst) & 0xffffffff;
        bool carry = false, on = exec >> i & 1;
        uint64_t want = ref->fn(&o, &carry) & width_mask(info->dst);
        if (keep && gfx_type_words(info->dst) == 1) { // the other half
            uint64_t rest = got & keep,
                     expected = on && !(in.flags & GFX_F_KEEP) ? 0 : before[0][i] & keep;
            if (rest != expected) {
                fprintf(stderr, "%s: the other half is %llx\n", info->name,
                        (unsigned long long) rest);
                return 1;
            }
            got &= width_mask(info->dst);
        }
        if (!on) {
            want = (before[0][i] |
                    (gfx_type_words(info->dst) == 2 ? (uint64_t) before[1][i] << 32 : 0)) &
                   width_mask(info->dst);
            carry = false;
        }
        bool good = on ? same(ref->op, info->dst, got, want) : got == want;
        if (!good || (info->flags & GFX_O_CARRY && (carries >> i & 1) != carry)) {
            fprintf(stderr, "%s: lane %d (%s): a %llx b %llx c %llx: %llx instead of %llx\n",
                    info->name, i, on ? "on" : "off", (unsigned long long) o.a,
                    (unsigned long long) o.b, (unsigned long long) o.c, (unsigned long long) got,
                    (unsigned long long) want);
            return 1;
        }
    }
    return 0;
}

static void arithmetic(void ** unused) {
    (void) unused;
    int bad = 0;
    for (size_t k = 0; k < sizeof references / sizeof *references; k++) {
        int wrong = 0;
        for (int round = 0; round < ROUNDS && !wrong; round++) {
            wrong += check(&references[k], round, round < 6 ? 64 : 32);
        }
        bad += wrong;
    }
    assert_int_equal(bad, 0);
}

// ---- compares: what the name says ----

static int order(const char * type, uint64_t a, uint64_t b) { // -1, 0, 1; 2: unordered
    double x, y;
    int64_t i, j;
    if (type[0] == 'f') {
        x = !strcmp(type, "f16")   ? (double) h_bits(a)
            : !strcmp(type, "f32") ? f_bits(a)
                                   : d_bits(a);
        y = !strcmp(type, "f16")   ? (double) h_bits(b)
            : !strcmp(type, "f32") ? f_bits(b)
                                   : d_bits(b);
        return isnan(x) || isnan(y) ? 2 : x < y ? -1 : x > y;
    }
    if (!strcmp(type, "u64")) {
        return a < b ? -1 : a > b;
    }
    bool is_signed = type[0] == 'i';
    int width = atoi(type + 1);
    i = (int64_t) (a << (64 - width));
    j = (int64_t) (b << (64 - width));
    i = is_signed ? i >> (64 - width) : (int64_t) ((uint64_t) i >> (64 - width));
    j = is_signed ? j >> (64 - width) : (int64_t) ((uint64_t) j >> (64 - width));
    return i < j ? -1 : i > j;
}

static bool holds(const char * name, int o) { // "lt_f32"
    static const struct {
        const char * name;
        bool less, equal, more, unordered;
    } conditions[] = {
        {"f_", 0, 0, 0, 0},   {"lt_", 1, 0, 0, 0},  {"eq_", 0, 1, 0, 0},  {"le_", 1, 1, 0, 0},
        {"gt_", 0, 0, 1, 0},  {"lg_", 1, 0, 1, 0},  {"ge_", 0, 1, 1, 0},  {"o_", 1, 1, 1, 0},
        {"u_", 0, 0, 0, 1},   {"nge_", 1, 0, 0, 1}, {"nlg_", 0, 1, 0, 1}, {"ngt_", 1, 1, 0, 1},
        {"nle_", 0, 0, 1, 1}, {"neq_", 1, 0, 1, 1}, {"nlt_", 0, 1, 1, 1}, {"t_", 1, 1, 1, 1},
        {"ne_", 1, 0, 1, 1},
    };
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++) {
        if (!strncmp(name, conditions[i].name, strlen(conditions[i].name))) {
            return o == -1  ? conditions[i].less
                   : o == 0 ? conditions[i].equal
                   : o == 1 ? conditions[i].more
                            : conditions[i].unordered;
        }
    }
    fail_msg("no condition in %s", name);
    return false;
}

// ---- floats of scalars: as those of lanes ----

static const struct reference * reference_of(const char * name) {
    for (size_t k = 0; k < sizeof references / sizeof *references; k++) {
        if (!strcmp(gfx_op_info[references[k].op].name, name)) {
            return &references[k];
        }
    }
    fail_msg("no reference of %s", name);
    return NULL;
}

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

static void compares(void ** unused) {
    (void) unused;
    for (int op = GFX_v_cmp_f_f16; op <= GFX_v_cmp_t_u64; op++) {
        const struct gfx_op_info * info = &gfx_op_info[op];
        const char *condition = info->name + 6, *type = strrchr(info->name, '_') + 1;
        for (int round = 0; round < ROUNDS; round++) {
            struct gfx_inst in = instruction((enum gfx_op) op);
            in.sdst = 50;
            in.flags = round & 1 ? GFX_F_CMPX : 0;
            uint64_t exec = round & 2 ? next() : ~UINT64_C(0);
            set_lanes(64);
            set_exec(exec);
            randomise((enum gfx_op) op);
            for (int i = 0; i < LANES; i += 3) { // equal ones are rare by chance
                wave->v[B][i] = wave->v[A][i];
                wave->v[B + 1][i] = wave->v[A + 1][i];
            }
            assert_true(gfx_prepare(&in));
            in.step(wave, &in);
            uint64_t got = sgpr64(wave, 50);
            for (int i = 0; i < LANES; i++) {
                uint64_t a = lane(A, i, info->src[0]), b = lane(B, i, info->src[1]);
                bool want = exec >> i & 1 && holds(condition, order(type, a, b));
                if ((got >> i & 1) != want) {
                    fail_msg("%s: %llx %llx", info->name, (unsigned long long) a,
                             (unsigned long long) b);
                }
            }
            assert_true(sgpr64(wave, GFX_SGPR_EXEC) == (round & 1 ? got : exec));
        }
    }
}

static void classes(void ** unused) {
    (void) unused;
    static const struct {
        uint32_t word, class;
    } floats[] = {
        {0x7f800001, 0}, {0xffc00000, 1}, {0xff800000, 2}, {0xbf800000, 3}, {0x80000001, 4},
        {0x80000000, 5}, {0x00000000, 6}, {0x007fffff, 7}, {0x3f800000, 8}, {0x7f800000, 9},
    };
    set_lanes(64);
    set_exec(~UINT64_C(0));
    for (size_t k = 0; k < 10; k++) {
        for (int i = 0; i < LANES; i++) {
            wave->v[A][i] = floats[k].word;
            wave->v[B][i] = 1u << i % 10;
        }
        struct gfx_inst in = instruction(GFX_v_cmp_class_f32);
        in.sdst = 50;
        assert_true(gfx_prepare(&in));
        in.step(wave, &in);
        for (int i = 0; i < LANES; i++) {
            assert_int_equal(sgpr64(wave, 50) >> i & 1, i % 10 == (int) floats[k].class);
        }
    }
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
    worker->lds_bytes = 4096;
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
                uint8_t * p = lds ? worker->lds + i * bytes : (uint8_t *) memory + i * bytes;
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
                const uint8_t * p = lds ? worker->lds + i * bytes : (uint8_t *) memory + i * bytes;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic), cmocka_unit_test(compares), cmocka_unit_test(scalar_floats),
        cmocka_unit_test(classes),    cmocka_unit_test(scalar),   cmocka_unit_test(atomics),
    };
    return cmocka_run_group_tests(tests, start, finish);
}

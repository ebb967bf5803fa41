// salu: scalar arithmetic. An operation is a row: what becomes of d, and of SCC where it changes.
//
// Kept true: s_addk, s_cmovk and the like read their destination, which decoders give as src[0];
// 32-bit results leave the upper half of d alone, and only d's words are written.
#include "emu/gfx/salu.h"

uint64_t gfx_scalar(const struct gfx_wave * w, const struct gfx_operand * o, int words) {
    switch (o->kind) {
    case GFX_K_SGPR:
        return words == 2 ? sgpr64(w, o->reg) : sgpr(w, o->reg);
    case GFX_K_CONST:
        return o->value;
    case GFX_K_VGPR:
        return w->v[o->reg][0]; // only v_readlane and the like take vectors, and ask elsewhere
    case GFX_K_SPECIAL:
        break;
    default:
        return 0;
    }
    uint64_t exec = exec_of(w), vcc = sgpr64(w, GFX_SGPR_VCC) & w->all;
    switch (o->reg) { // apertures: as a word their high half, as a pair the whole address
    case GFX_S_SHARED_BASE:
        return words == 2 ? (uint64_t) GFX_APERTURE_SHARED << 32 : GFX_APERTURE_SHARED;
    case GFX_S_SHARED_LIMIT:
        return words == 2 ? (uint64_t) GFX_APERTURE_SHARED << 32 | ~0u : GFX_APERTURE_SHARED;
    case GFX_S_PRIVATE_BASE:
        return words == 2 ? (uint64_t) GFX_APERTURE_PRIVATE << 32 : GFX_APERTURE_PRIVATE;
    case GFX_S_PRIVATE_LIMIT:
        return words == 2 ? (uint64_t) GFX_APERTURE_PRIVATE << 32 | ~0u : GFX_APERTURE_PRIVATE;
    case GFX_S_VCCZ:
        return vcc == 0;
    case GFX_S_EXECZ:
        return exec == 0;
    case GFX_S_SCC:
        return w->scc;
    default:
        return 0;
    }
}

// ---- helpers ----

static unsigned bits_set(uint64_t v) {
    v -= v >> 1 & 0x5555555555555555;
    v = (v & 0x3333333333333333) + (v >> 2 & 0x3333333333333333);
    v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0f;
    return (unsigned) (v * 0x0101010101010101 >> 56);
}

static unsigned trailing_zeros(uint64_t v) { // v is not 0
    return bits_set((v & (0 - v)) - 1);
}

static unsigned leading_zeros(uint64_t v, unsigned width) { // v is not 0
    unsigned n = 0;
    while (!(v >> (width - 1 - n) & 1)) {
        n++;
    }
    return n;
}

static uint64_t reversed(uint64_t v, unsigned width) {
    uint64_t r = 0;
    for (unsigned i = 0; i < width; i++) {
        r |= (v >> i & 1) << (width - 1 - i);
    }
    return r;
}

// Position of the first bit that differs from the sign; all ones when none does.
static uint32_t sign_run(uint64_t v, unsigned width) {
    uint64_t all = width == 64 ? ~UINT64_C(0) : (UINT64_C(1) << width) - 1;
    uint64_t x = v >> (width - 1) & 1 ? ~v & all : v & all;
    return x ? leading_zeros(x, width) : ~0u;
}

static uint64_t quads(uint64_t v, unsigned width) { // a bit for each group of four
    uint64_t r = 0;
    for (unsigned i = 0; i < width / 4; i++) {
        r |= (uint64_t) ((v >> 4 * i & 15) != 0) << i;
    }
    return r;
}

static uint64_t whole_quads(uint64_t v, unsigned width) {
    uint64_t r = 0, q = quads(v, width);
    for (unsigned i = 0; i < width / 4; i++) {
        r |= (q >> i & 1 ? UINT64_C(15) : 0) << 4 * i;
    }
    return r;
}

// b holds an offset in its low bits and a width in bits 22:16.
static uint64_t field(uint64_t a, uint64_t b, unsigned width, bool is_signed) {
    unsigned from = (unsigned) b & (width - 1), n = (unsigned) (b >> 16) & 127;
    if (n == 0) {
        return 0;
    }
    int64_t v = width == 32 && is_signed ? (int64_t) (int32_t) a : (int64_t) a;
    uint64_t shifted = is_signed ? (uint64_t) (v >> from) : a >> from;
    if (n >= width - from) {
        return shifted;
    }
    shifted &= (UINT64_C(1) << n) - 1;
    return is_signed && shifted >> (n - 1) & 1 ? shifted | ~UINT64_C(0) << n : shifted;
}

static uint64_t mask_of(uint64_t a, uint64_t b, unsigned width) {
    uint64_t ones = (UINT64_C(1) << (a & (width - 1))) - 1;
    return ones << (b & (width - 1));
}

static uint64_t twice_each_bit(uint32_t v) {
    uint64_t r = 0;
    for (int i = 0; i < 32; i++) {
        r |= (uint64_t) (v >> i & 1) * 3 << 2 * i;
    }
    return r;
}

// ---- the rows ----

#define ROW(name, ...)                                                                             \
    void gfx_salu_##name(struct salu * x) {                                                        \
        const uint64_t a64 = x->a, b64 = x->b;                                                     \
        const uint32_t a = (uint32_t) a64, b = (uint32_t) b64;                                     \
        const int32_t sa = (int32_t) a, sb = (int32_t) b;                                          \
        (void) a64, (void) b64, (void) a, (void) b, (void) sa, (void) sb;                          \
        __VA_ARGS__;                                                                               \
    }
#define D(value)   x->d = (uint64_t) (value)
#define SCC(value) x->scc = (value)
// Logic: SCC says whether the result is not 0.
#define LOGIC32(name, value) ROW(name, uint32_t r = (value); D(r); SCC(r != 0))
#define LOGIC64(name, value) ROW(name, uint64_t r = (value); D(r); SCC(r != 0))

ROW(s_add_u32, uint64_t r = (uint64_t) a + b; D((uint32_t) r); SCC(r >> 32))
ROW(s_sub_u32, D(a - b); SCC(a < b))
ROW(s_add_i32, uint32_t r = a + b; D(r); SCC((~(a ^ b) & (a ^ r)) >> 31))
ROW(s_sub_i32, uint32_t r = a - b; D(r); SCC(((a ^ b) & (a ^ r)) >> 31))
ROW(s_addc_u32, uint64_t r = (uint64_t) a + b + x->scc; D((uint32_t) r); SCC(r >> 32))
ROW(s_subb_u32, uint64_t r = (uint64_t) b + x->scc; D((uint32_t) (a - r)); SCC(a < r))
ROW(s_absdiff_i32, uint32_t r = a - b; r = r >> 31 ? 0 - r : r; D(r); SCC(r != 0))
ROW(s_min_i32, D(sa < sb ? a : b); SCC(sa < sb))
ROW(s_min_u32, D(a < b ? a : b); SCC(a < b))
ROW(s_max_i32, D(sa > sb ? a : b); SCC(sa > sb))
ROW(s_max_u32, D(a > b ? a : b); SCC(a > b))
ROW(s_cselect_b32, D(x->scc ? a : b))
ROW(s_cselect_b64, D(x->scc ? a64 : b64))
LOGIC32(s_and_b32, a & b)
LOGIC64(s_and_b64, a64 & b64)
LOGIC32(s_or_b32, a | b)
LOGIC64(s_or_b64, a64 | b64)
LOGIC32(s_xor_b32, a ^ b)
LOGIC64(s_xor_b64, a64 ^ b64)
LOGIC32(s_and_not1_b32, a & ~b)
LOGIC64(s_and_not1_b64, a64 & ~b64)
LOGIC32(s_or_not1_b32, a | ~b)
LOGIC64(s_or_not1_b64, a64 | ~b64)
LOGIC32(s_nand_b32, ~(a & b))
LOGIC64(s_nand_b64, ~(a64 & b64))
LOGIC32(s_nor_b32, ~(a | b))
LOGIC64(s_nor_b64, ~(a64 | b64))
LOGIC32(s_xnor_b32, ~(a ^ b))
LOGIC64(s_xnor_b64, ~(a64 ^ b64))
LOGIC32(s_lshl_b32, a << (b & 31))
LOGIC64(s_lshl_b64, a64 << (b & 63))
LOGIC32(s_lshr_b32, a >> (b & 31))
LOGIC64(s_lshr_b64, a64 >> (b & 63))
LOGIC32(s_ashr_i32, (uint32_t) (sa >> (b & 31)))
LOGIC64(s_ashr_i64, (uint64_t) ((int64_t) a64 >> (b & 63)))
LOGIC32(s_bfe_u32, (uint32_t) field(a, b, 32, false))
LOGIC32(s_bfe_i32, (uint32_t) field(a, b, 32, true))
LOGIC64(s_bfe_u64, field(a64, b, 64, false))
LOGIC64(s_bfe_i64, field(a64, b, 64, true))
ROW(s_bfm_b32, D((uint32_t) mask_of(a, b, 32)))
ROW(s_bfm_b64, D(mask_of(a, b, 64)))
ROW(s_mul_i32, D(a * b))
ROW(s_mul_hi_u32, D((uint64_t) a * b >> 32))
ROW(s_mul_hi_i32, D((uint32_t) ((int64_t) sa * sb >> 32)))
ROW(s_lshl1_add_u32, uint64_t r = ((uint64_t) a << 1) + b; D((uint32_t) r); SCC(r >> 32))
ROW(s_lshl2_add_u32, uint64_t r = ((uint64_t) a << 2) + b; D((uint32_t) r); SCC(r >> 32))
ROW(s_lshl3_add_u32, uint64_t r = ((uint64_t) a << 3) + b; D((uint32_t) r); SCC(r >> 32))
ROW(s_lshl4_add_u32, uint64_t r = ((uint64_t) a << 4) + b; D((uint32_t) r); SCC(r >> 32))
ROW(s_pack_ll_b32_b16, D((a & 0xffff) | b << 16))
ROW(s_pack_lh_b32_b16, D((a & 0xffff) | (b & 0xffff0000)))
ROW(s_pack_hh_b32_b16, D(a >> 16 | (b & 0xffff0000)))
ROW(s_pack_hl_b32_b16, D(a >> 16 | b << 16))
ROW(s_mov_b32, D(a))
ROW(s_mov_b64, D(a64))
ROW(s_cmov_b32, if (x->scc) D(a))
ROW(s_cmov_b64, if (x->scc) D(a64))
LOGIC32(s_not_b32, ~a)
LOGIC64(s_not_b64, ~a64)
LOGIC32(s_wqm_b32, (uint32_t) whole_quads(a, 32))
LOGIC64(s_wqm_b64, whole_quads(a64, 64))
ROW(s_brev_b32, D(reversed(a, 32)))
ROW(s_brev_b64, D(reversed(a64, 64)))
LOGIC32(s_bcnt0_i32_b32, 32 - bits_set(a))
LOGIC32(s_bcnt0_i32_b64, 64 - bits_set(a64))
LOGIC32(s_bcnt1_i32_b32, bits_set(a))
LOGIC32(s_bcnt1_i32_b64, bits_set(a64))
ROW(s_ff0_i32_b32, uint32_t z = ~a; D(z ? trailing_zeros(z) : ~0u))
ROW(s_ff0_i32_b64, uint64_t z = ~a64; D(z ? trailing_zeros(z) : ~0u))
ROW(s_ctz_i32_b32, D(a ? trailing_zeros(a) : ~0u))
ROW(s_ctz_i32_b64, D(a64 ? trailing_zeros(a64) : ~0u))
ROW(s_clz_i32_u32, D(a ? leading_zeros(a, 32) : ~0u))
ROW(s_clz_i32_u64, D(a64 ? leading_zeros(a64, 64) : ~0u))
ROW(s_cls_i32, D(sign_run(a, 32)))
ROW(s_cls_i32_i64, D(sign_run(a64, 64)))
ROW(s_sext_i32_i8, D((uint32_t) (int8_t) a))
ROW(s_sext_i32_i16, D((uint32_t) (int16_t) a))
ROW(s_bitset0_b32, x->d &= ~(UINT64_C(1) << (a & 31)))
ROW(s_bitset0_b64, x->d &= ~(UINT64_C(1) << (a & 63)))
ROW(s_bitset1_b32, x->d |= UINT64_C(1) << (a & 31))
ROW(s_bitset1_b64, x->d |= UINT64_C(1) << (a & 63))
LOGIC32(s_quadmask_b32, (uint32_t) quads(a, 32))
LOGIC64(s_quadmask_b64, quads(a64, 64))
ROW(s_abs_i32, uint32_t r = sa < 0 ? 0 - a : a; D(r); SCC(r != 0))
ROW(s_bitreplicate_b64_b32, D(twice_each_bit(a)))
ROW(s_cmp_eq_i32, SCC(a == b))
ROW(s_cmp_lg_i32, SCC(a != b))
ROW(s_cmp_gt_i32, SCC(sa > sb))
ROW(s_cmp_ge_i32, SCC(sa >= sb))
ROW(s_cmp_lt_i32, SCC(sa < sb))
ROW(s_cmp_le_i32, SCC(sa <= sb))
ROW(s_cmp_eq_u32, SCC(a == b))
ROW(s_cmp_lg_u32, SCC(a != b))
ROW(s_cmp_gt_u32, SCC(a > b))
ROW(s_cmp_ge_u32, SCC(a >= b))
ROW(s_cmp_lt_u32, SCC(a < b))
ROW(s_cmp_le_u32, SCC(a <= b))
ROW(s_bitcmp0_b32, SCC(!(a >> (b & 31) & 1)))
ROW(s_bitcmp1_b32, SCC(a >> (b & 31) & 1))
ROW(s_bitcmp0_b64, SCC(!(a64 >> (b & 63) & 1)))
ROW(s_bitcmp1_b64, SCC(a64 >> (b & 63) & 1))
ROW(s_cmp_eq_u64, SCC(a64 == b64))
ROW(s_cmp_lg_u64, SCC(a64 != b64))
ROW(s_movk_i32, D(b))
ROW(s_cmovk_i32, if (x->scc) D(b))
ROW(s_addk_i32, uint32_t r = a + b; D(r); SCC((~(a ^ b) & (a ^ r)) >> 31))
ROW(s_mulk_i32, D(a * b))
ROW(s_cmpk_eq_i32, gfx_salu_s_cmp_eq_i32(x))
ROW(s_cmpk_lg_i32, gfx_salu_s_cmp_lg_i32(x))
ROW(s_cmpk_gt_i32, gfx_salu_s_cmp_gt_i32(x))
ROW(s_cmpk_ge_i32, gfx_salu_s_cmp_ge_i32(x))
ROW(s_cmpk_lt_i32, gfx_salu_s_cmp_lt_i32(x))
ROW(s_cmpk_le_i32, gfx_salu_s_cmp_le_i32(x))
ROW(s_cmpk_eq_u32, gfx_salu_s_cmp_eq_u32(x))
ROW(s_cmpk_lg_u32, gfx_salu_s_cmp_lg_u32(x))
ROW(s_cmpk_gt_u32, gfx_salu_s_cmp_gt_u32(x))
ROW(s_cmpk_ge_u32, gfx_salu_s_cmp_ge_u32(x))
ROW(s_cmpk_lt_u32, gfx_salu_s_cmp_lt_u32(x))
ROW(s_cmpk_le_u32, gfx_salu_s_cmp_le_u32(x))

static const struct salu_row {
    salu_fn fn;
    uint8_t d, a, b; // words
} rows[GFX_OP_COUNT] = {
#define WORDS_N          0
#define WORDS_B32        1
#define WORDS_B64        2
#define WORDS_I64        2
#define WORDS_F16        1
#define WORDS_F32        1
#define SALU(n, d, a, b) [GFX_##n] = {gfx_salu_##n, WORDS_##d, WORDS_##a, WORDS_##b},
#include "emu/gfx/ops.def"
};

void gfx_step_salu(struct gfx_wave * w, const struct gfx_inst * in) {
    const struct salu_row * row = &rows[in->op];
    struct salu x = {.scc = w->scc};
    x.a = row->a ? gfx_scalar(w, &in->src[0], row->a) : 0;
    x.b = row->b ? gfx_scalar(w, &in->src[1], row->b) : 0;
    x.c = in->src[2].kind ? (uint32_t) gfx_scalar(w, &in->src[2], 1) : 0;
    if (row->d) {
        x.d = sgpr64(w, in->dst.reg); // s_cmov and s_bitset leave what they do not change
    }
    row->fn(&x);
    w->scc = x.scc;
    if (row->d == 2) {
        sgpr_put64(w, in->dst.reg, x.d);
    } else if (row->d == 1) {
        sgpr_put(w, in->dst.reg, (uint32_t) x.d);
    }
}

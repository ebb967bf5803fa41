// valu: how a lane instruction gets its sources and where its result goes. Sources become rows:
// registers are rows already, everything else is written into a temporary one, with modifiers,
// parts of words (SDWA, op_sel) and other lanes (DPP) applied on the way. The function of the
// operation then sees nothing but rows.
//
// Kept true: with every lane on and nothing special about the result, it is computed in place;
// otherwise into a temporary row, and lanes that are on are copied.
#include "emu/gfx/lanes.h"

static void fill(uint32_t * row, uint32_t v, int n) {
    for (int i = 0; i < n; i++) {
        row[i] = v;
    }
}

const uint32_t * gfx_exec_row(struct gfx_temp * t, uint64_t exec) {
    if (t->exec_of != exec) {
        row_of_mask(t->exec_row, exec, LANES);
        t->exec_of = exec;
    }
    return t->exec_row;
}

static void gfx_fetch(struct gfx_wave * w, const struct gfx_operand * o, int words, int slot,
                      const uint32_t * rows[2]) {
    if (o->kind == GFX_K_VGPR) {
        rows[0] = w->v[o->reg];
        rows[1] = w->v[o->reg + 1];
        return;
    }
    uint64_t v = gfx_scalar(w, o, words);
    uint32_t(*t)[LANES] = w->worker->t.src[slot];
    fill(t[0], (uint32_t) v, w->lanes);
    if (words == 2) {
        fill(t[1], (uint32_t) (v >> 32), w->lanes);
    }
    rows[0] = t[0];
    rows[1] = t[1];
}

// ---- DPP: the first source comes from another lane ----

// The lane that lane i reads, or -1 when there is none.
static int dpp_source(unsigned control, int i, int n) {
    int row = i & ~15, at = i & 15, by = (int) (control & 15);
    if (control < 0x100) {
        return (i & ~3) | (control >> 2 * (i & 3) & 3);
    }
    switch (control & 0x1f0) {
    case 0x100:
        return at + by < 16 ? i + by : -1;
    case 0x110:
        return at >= by ? i - by : -1;
    case 0x120:
        return row | ((at - by) & 15);
    case 0x150:
        return row | by;
    case 0x160:
        return row | (at ^ by);
    }
    switch (control) {
    case 0x130:
        return i + 1 < n ? i + 1 : -1;
    case 0x134:
        return (i + 1) % n;
    case 0x138:
        return i - 1;
    case 0x13c:
        return (i + n - 1) % n;
    case 0x140:
        return row | (15 - at);
    case 0x141:
        return (i & ~7) | (7 - (i & 7));
    case 0x142:
        return i >= 16 ? row - 1 : -1;
    case 0x143:
        return i >= 32 ? (i & ~31) - 1 : -1;
    default:
        return -1;
    }
}

// Returns the lanes that may be written.
static uint64_t dpp_fetch(struct gfx_wave * w, const struct gfx_inst * in, uint64_t exec, int words,
                          const uint32_t * rows[2]) {
    uint32_t moved[2][LANES];
    uint64_t on = 0;
    for (int i = 0; i < w->lanes; i++) {
        int from;
        bool allowed = true;
        if (in->flags & GFX_F_DPP8) {
            from = (i & ~7) | (int) (in->dpp.lanes >> 3 * (i & 7) & 7);
        } else {
            from = dpp_source(in->dpp.control, i, w->lanes);
            allowed = in->dpp.row_mask >> (i >> 4) & 1 && in->dpp.bank_mask >> (i >> 2 & 3) & 1;
        }
        bool there = from >= 0 && (in->dpp.fetch_inactive || exec >> from & 1);
        for (int k = 0; k < words; k++) {
            moved[k][i] = there ? rows[k][from] : 0;
        }
        bool zero = in->dpp.bound_ctrl || in->flags & GFX_F_DPP8;
        on |= (uint64_t) (allowed && (there || zero)) << i;
    }
    uint32_t(*t)[LANES] = w->worker->t.src[0];
    memcpy(t[0], moved[0], sizeof moved[0]);
    if (words == 2) {
        memcpy(t[1], moved[1], sizeof moved[1]);
    }
    rows[0] = t[0];
    rows[1] = t[1];
    return on;
}

// ---- parts of words, signs ----

static void sdwa_select(uint32_t * to, const uint32_t * from, unsigned sel, bool sext, int n) {
    unsigned shift = sel <= GFX_SEL_BYTE3 ? 8 * sel : sel == GFX_SEL_WORD1 ? 16 : 0;
    unsigned width = sel <= GFX_SEL_BYTE3 ? 8 : sel <= GFX_SEL_WORD1 ? 16 : 32;
    for (int i = 0; i < n; i++) {
        uint32_t v = from[i] >> shift << (32 - width);
        to[i] = sext ? (uint32_t) ((int32_t) v >> (32 - width)) : v >> (32 - width);
    }
}

// Low and high halves as op_sel and op_sel_hi choose them, with their own signs.
static void arrange_halves(uint32_t * to, const uint32_t * from, const struct gfx_inst * in, int k,
                           bool is_float, int n) {
    unsigned low = in->op_sel >> k & 1 ? 16 : 0, high = in->op_sel_hi >> k & 1 ? 16 : 0;
    uint32_t flip =
        is_float ? (in->src[k].neg ? 0x8000u : 0) | (in->neg_hi >> k & 1 ? 0x80000000u : 0) : 0;
    for (int i = 0; i < n; i++) {
        uint32_t v = from[i];
        to[i] = ((v >> low & 0xffff) | (v >> high & 0xffff) << 16) ^ flip;
    }
}

static void arrange_words(struct gfx_wave * w, const struct gfx_inst * in, int k,
                          const uint32_t * rows[2]) {
    const uint32_t *low = rows[in->op_sel >> k & 1], *high = rows[in->op_sel_hi >> k & 1];
    uint32_t flip_low = in->src[k].neg ? 0x80000000u : 0;
    uint32_t flip_high = in->neg_hi >> k & 1 ? 0x80000000u : 0;
    if (flip_low || flip_high) {
        uint32_t both[2][LANES];
        for (int i = 0; i < w->lanes; i++) {
            both[0][i] = low[i] ^ flip_low;
            both[1][i] = high[i] ^ flip_high;
        }
        memcpy(w->worker->t.src[k], both, sizeof both);
        low = w->worker->t.src[k][0];
        high = w->worker->t.src[k][1];
    }
    rows[0] = low;
    rows[1] = high;
}

static void signs(struct gfx_wave * w, const struct gfx_operand * o, enum gfx_type type, int k,
                  const uint32_t * rows[2]) {
    uint32_t top = type == GFX_T_F16 ? 0x8000u : 0x80000000u;
    int word = type == GFX_T_F64;
    uint32_t keep = o->abs ? ~top : ~0u, flip = o->neg ? top : 0;
    uint32_t(*t)[LANES] = w->worker->t.src[k];
    for (int i = 0; i < w->lanes; i++) {
        t[word][i] = (rows[word][i] & keep) ^ flip;
    }
    if (word && rows[0] != t[0]) {
        memcpy(t[0], rows[0], sizeof t[0]);
    }
    rows[0] = t[0];
    rows[1] = t[1];
}

// Source k with everything that the instruction says of it. *on loses lanes that DPP turns off.
static void fetch_modified(struct gfx_wave * w, const struct gfx_inst * in, int k, uint64_t exec,
                           const uint32_t * rows[2], uint64_t * on) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    enum gfx_type type = info->src[k];
    int words = gfx_type_words(type);
    gfx_fetch(w, &in->src[k], words, k, rows);
    uint32_t(*t)[LANES] = w->worker->t.src[k];
    if (k == 0 && in->flags & (GFX_F_DPP | GFX_F_DPP8)) {
        *on &= dpp_fetch(w, in, exec, words, rows);
    }
    if (k < 2 && in->flags & GFX_F_SDWA && in->sdwa.src_sel[k] != GFX_SEL_DWORD) {
        sdwa_select(t[0], rows[0], in->sdwa.src_sel[k], in->sdwa.sext[k], w->lanes);
        rows[0] = t[0];
    }
    if (info->flags & GFX_O_HALVES) {
        return;
    }
    bool is_float = type == GFX_T_F16 || type == GFX_T_F32 || type == GFX_T_F64;
    if (type == GFX_T_P16) {
        arrange_halves(t[0], rows[0], in, k, info->dst != GFX_T_B32, w->lanes);
        rows[0] = t[0];
    } else if (type == GFX_T_P32) {
        arrange_words(w, in, k, rows);
    } else if (in->op_sel >> k & 1 && (type == GFX_T_F16 || type == GFX_T_B16)) {
        sdwa_select(t[0], rows[0], GFX_SEL_WORD1, false, w->lanes);
        rows[0] = t[0];
    }
    if (is_float && (in->src[k].neg || in->src[k].abs)) {
        signs(w, &in->src[k], type, k, rows);
    }
}

// ---- results ----

static GFX_INLINE float finish_f(float v, float times, bool clamp) {
    v *= times;
    return clamp ? (v > 0 ? (v > 1 ? 1 : v) : 0) : v;
}

// Output modifiers of float results.
static void finish(const struct gfx_inst * in, enum gfx_type type, uint32_t * d0, uint32_t * d1,
                   int n) {
    static const float factors[] = {1, 2, 4, 0.5f};
    const float times = factors[in->omod & 3];
    const bool clamp = in->flags & GFX_F_CLAMP;
    for (int i = 0; i < n; i++) {
        switch (type) {
        case GFX_T_F16:
            d0[i] = u16(finish_f(f16(d0[i]), times, clamp));
            break;
        case GFX_T_P16:
            d0[i] = u16(finish_f(f16(d0[i] & 0xffff), times, clamp)) |
                    u16(finish_f(f16(d0[i] >> 16), times, clamp)) << 16;
            break;
        case GFX_T_P32:
            d1[i] = u32(finish_f(f32(d1[i]), times, clamp));
            d0[i] = u32(finish_f(f32(d0[i]), times, clamp));
            break;
        case GFX_T_F32:
            d0[i] = u32(finish_f(f32(d0[i]), times, clamp));
            break;
        case GFX_T_F64: {
            double v = f64(join(d0[i], d1[i])) * (double) times;
            v = clamp ? (v > 0 ? (v > 1 ? 1 : v) : 0) : v;
            d0[i] = (uint32_t) u64(v);
            d1[i] = (uint32_t) (u64(v) >> 32);
            break;
        }
        default:
            break;
        }
    }
}

// The part of the register that the result goes to; what becomes of the rest.
static void place(const struct gfx_inst * in, uint32_t * d, const uint32_t * old, int n) {
    if (in->flags & GFX_F_SDWA) {
        unsigned sel = in->sdwa.dst_sel;
        if (sel == GFX_SEL_DWORD) {
            return;
        }
        unsigned shift = sel <= GFX_SEL_BYTE3 ? 8 * sel : sel == GFX_SEL_WORD1 ? 16 : 0;
        uint32_t mask = sel <= GFX_SEL_BYTE3 ? 255 : 0xffff, top = (mask >> 1) + 1;
        for (int i = 0; i < n; i++) {
            uint32_t v = d[i] & mask, rest = 0;
            if (in->sdwa.dst_unused == GFX_UNUSED_KEEP) {
                rest = old[i] & ~(mask << shift);
            } else if (in->sdwa.dst_unused == GFX_UNUSED_SEXT && v & top) {
                rest = ~(((mask << shift) | ((1u << shift) - 1)));
            }
            d[i] = v << shift | rest;
        }
    } else if (in->flags & GFX_F_HIGH) {
        for (int i = 0; i < n; i++) {
            d[i] = (old[i] & 0xffff) | d[i] << 16;
        }
    } else if (in->flags & GFX_F_KEEP) {
        for (int i = 0; i < n; i++) {
            d[i] = (old[i] & 0xffff0000) | (d[i] & 0xffff);
        }
    }
}

static void commit(struct gfx_wave * w, uint32_t * to, const uint32_t * from, uint64_t on) {
    const uint32_t * row = gfx_exec_row(&w->worker->t, on);
    EACH_LANE(w->lanes) {
        to[i] = (from[i] & row[i]) | (to[i] & ~row[i]);
    }
}

// Runs the operation into rows d; returns the lanes that are to be written.
static uint64_t compute(struct gfx_wave * w, const struct gfx_inst * in,
                        const struct gfx_op_info * info, uint32_t * d0, uint32_t * d1,
                        uint64_t exec) {
    struct gfx_lanes x = {.d = {d0, d1}, .n = w->lanes, .clamp = in->flags & GFX_F_CLAMP, .in = in};
    uint64_t on = exec;
    for (int k = 0; k < 3; k++) {
        enum gfx_type type = info->src[k];
        if (type == GFX_T_N) {
            break;
        }
        if (type == GFX_T_M) {
            x.mask = gfx_scalar(w, &in->src[k], w->lanes == 64 ? 2 : 1);
        } else if (in->plain) {
            gfx_fetch(w, &in->src[k], gfx_type_words(type), k, x.s[k]);
        } else {
            fetch_modified(w, in, k, exec, x.s[k], &on);
        }
    }
    if (info->flags & GFX_O_VCC) {
        x.mask = sgpr_mask(w, GFX_SGPR_VCC);
    } else if (info->flags & GFX_O_HALVES && gfx_type_words(info->dst) == 1) {
        x.d[1] = w->v[in->dst.reg]; // these write a part of it
    } else if (info->flags & GFX_O_ALIAS) {
        x.s[1][0] = w->v[in->dst.reg];
    }
    in->lanes(&x);
    if (info->flags & GFX_O_CARRY || info->class == GFX_C_VCMP) {
        uint64_t mask = x.mask & on;
        sgpr_put_mask(w, in->sdst, mask);
        if (in->flags & GFX_F_CMPX) {
            sgpr_put_mask(w, GFX_SGPR_EXEC, mask);
        }
    }
    return on;
}

static void finish_all(struct gfx_wave * w, const struct gfx_inst * in,
                       const struct gfx_op_info * info, uint32_t * d0, uint32_t * d1) {
    if (in->plain) {
        return;
    }
    if (!(info->flags & GFX_O_HALVES) && (in->omod || in->flags & GFX_F_CLAMP)) {
        finish(in, info->dst, d0, d1, w->lanes);
    }
    place(in, d0, w->v[in->dst.reg], w->lanes);
}

// s_set_gpr_idx: the instruction with its registers moved by the index.
static GFX_COLD void step_indexed(struct gfx_wave * w, const struct gfx_inst * in) {
    uint32_t m0 = sgpr(w, GFX_SGPR_M0), index = m0 & 255, which = m0 >> 12 & 15;
    struct gfx_inst moved = *in;
    struct gfx_operand * operands[] = {&moved.src[0], &moved.src[1], &moved.src[2], &moved.dst};
    for (int k = 0; k < 4; k++) {
        if (which >> k & 1 && operands[k]->kind == GFX_K_VGPR) {
            operands[k]->reg = (uint16_t) ((operands[k]->reg + index) & (GFX_VGPR_COUNT - 1));
        }
    }
    w->indexed = false;
    gfx_step_valu(w, &moved);
    w->indexed = true;
}

void gfx_step_valu(struct gfx_wave * w, const struct gfx_inst * in) {
    if (w->indexed) {
        step_indexed(w, in);
        return;
    }
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    uint64_t exec = exec_of(w);
    uint32_t *d0 = w->v[in->dst.reg], *d1 = w->v[in->dst.reg + 1];
    if (GFX_LIKELY(in->plain && exec == w->all)) {
        compute(w, in, info, d0, d1, exec);
        return;
    }
    if (!exec && !(info->flags & GFX_O_CARRY)) {
        return;
    }
    struct gfx_temp * t = &w->worker->t;
    uint64_t on = compute(w, in, info, t->dst[0], t->dst[1], exec);
    if (info->dst == GFX_T_N) {
        return;
    }
    finish_all(w, in, info, t->dst[0], t->dst[1]);
    commit(w, d0, t->dst[0], on);
    if (info->flags & GFX_O_ALIAS) {
        commit(w, w->v[in->src[0].reg], t->dst[1], on);
    } else if (gfx_type_words(info->dst) == 2) {
        commit(w, d1, t->dst[1], on);
    }
}

void gfx_step_pair(struct gfx_wave * w, const struct gfx_inst * first,
                   const struct gfx_inst * second) {
    const struct gfx_op_info * info = &gfx_op_info[first->op];
    struct gfx_temp * t = &w->worker->t;
    uint64_t exec = exec_of(w);
    if (!exec) {
        return;
    }
    uint64_t on = compute(w, first, info, t->pair[0], t->pair[1], exec);
    finish_all(w, first, info, t->pair[0], t->pair[1]);
    gfx_step_valu(w, second);
    commit(w, w->v[first->dst.reg], t->pair[0], on);
}

void gfx_step_vcmp(struct gfx_wave * w, const struct gfx_inst * in) {
    compute(w, in, &gfx_op_info[in->op], NULL, NULL, exec_of(w));
}

// lane: instructions whose lanes see each other: one lane's value for all, and permutations within
// the vector unit. (DPP is in valu.c, the permutes of the LDS unit are in lds.c.)
#include "emu/gfx/impl.h"

static unsigned first_lane(uint64_t exec) { // lane 0 when none is on
    unsigned i = 0;
    while (i < 63 && !(exec >> i & 1)) {
        i++;
    }
    return exec ? i : 0;
}

static uint32_t lane_of(const struct gfx_wave * w, const struct gfx_operand * o, unsigned lane) {
    return o->kind == GFX_K_VGPR ? w->v[o->reg][lane] : (uint32_t) gfx_scalar(w, o, 1);
}

// Lane i of each row of 16 reads the lane that its four bits of `low` and `high` name, in its own
// row or in the neighbour.
static void permute_rows(struct gfx_wave * w, const struct gfx_inst * in, bool cross) {
    uint64_t sel = (uint32_t) gfx_scalar(w, &in->src[1], 1) |
                   (uint64_t) (uint32_t) gfx_scalar(w, &in->src[2], 1) << 32;
    uint64_t exec = exec_of(w);
    bool fetch_inactive = in->op_sel & 1, bound_ctrl = in->op_sel >> 1 & 1;
    uint32_t moved[LANES];
    memcpy(moved, w->v[in->dst.reg], sizeof moved);
    for (int i = 0; i < w->lanes; i++) {
        int row = (i & ~15) ^ (cross ? 16 : 0);
        int from = row | (int) (sel >> 4 * (i & 15) & 15);
        if (exec >> i & 1) {
            if (fetch_inactive || exec >> from & 1) {
                moved[i] = lane_of(w, &in->src[0], (unsigned) from);
            } else if (bound_ctrl) {
                moved[i] = 0;
            }
        }
    }
    memcpy(w->v[in->dst.reg], moved, sizeof moved);
}

static void swap_halves(struct gfx_wave * w, const struct gfx_inst * in) {
    uint64_t exec = exec_of(w);
    uint32_t old[LANES];
    if (w->lanes != 64) {
        return;
    }
    for (unsigned i = 0; i < LANES; i++) {
        old[i] = lane_of(w, &in->src[0], i);
    }
    for (unsigned i = 0; i < LANES; i++) {
        if (exec >> i & 1) {
            w->v[in->dst.reg][i] = old[i ^ 32];
        }
    }
}

// VGPR[d + to] = VGPR[s + from]
static void move_indexed(struct gfx_wave * w, const struct gfx_inst * in, uint32_t from,
                         uint32_t to) {
    struct gfx_operand s = in->src[0];
    uint64_t exec = exec_of(w);
    if (s.kind == GFX_K_VGPR) {
        s.reg = (uint16_t) ((s.reg + from) & (GFX_VGPR_COUNT - 1));
    }
    uint32_t * d = w->v[(in->dst.reg + to) & (GFX_VGPR_COUNT - 1)];
    for (unsigned i = 0; i < (unsigned) w->lanes; i++) {
        if (exec >> i & 1) {
            d[i] = lane_of(w, &s, i);
        }
    }
}

void gfx_step_lane(struct gfx_wave * w, const struct gfx_inst * in) {
    unsigned lane;
    switch (in->op) {
    case GFX_v_readfirstlane_b32:
        sgpr_put(w, in->dst.reg, lane_of(w, &in->src[0], first_lane(exec_of(w))));
        break;
    case GFX_v_readlane_b32:
        lane = (unsigned) gfx_scalar(w, &in->src[1], 1) & (unsigned) (w->lanes - 1);
        sgpr_put(w, in->dst.reg, lane_of(w, &in->src[0], lane));
        break;
    case GFX_v_writelane_b32: // whatever EXEC says
        lane = (unsigned) gfx_scalar(w, &in->src[1], 1) & (unsigned) (w->lanes - 1);
        w->v[in->dst.reg][lane] = (uint32_t) gfx_scalar(w, &in->src[0], 1);
        break;
    case GFX_v_permlane16_b32:
        permute_rows(w, in, false);
        break;
    case GFX_v_permlanex16_b32:
        permute_rows(w, in, true);
        break;
    case GFX_v_movrels_b32:
        move_indexed(w, in, sgpr(w, GFX_SGPR_M0), 0);
        break;
    case GFX_v_movreld_b32:
        move_indexed(w, in, 0, sgpr(w, GFX_SGPR_M0));
        break;
    default: // v_permlane64_b32
        swap_halves(w, in);
    }
}

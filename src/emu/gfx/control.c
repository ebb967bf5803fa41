// control: scalar instructions that see the wave: branches, EXEC, barriers, modes; and scalar
// memory.
//
// Kept true: w->pc is the address behind the instruction when its function runs. Waits are over as
// soon as they begin, since memory is done in order; a wait for stores still orders them before
// what follows, for other host threads to see.
#include "emu/gfx/impl.h"

#include <time.h>

#define STEP(name) void gfx_do_##name(struct gfx_wave * w, const struct gfx_inst * in)

// ---- EXEC ----

// EXEC = value(s, EXEC), and d = what `to` names: EXEC as it was, or as it is now; SCC = EXEC != 0
#define CHANGES_EXEC(name, value, to)                                                              \
    STEP(name##_b64) {                                                                             \
        uint64_t s = gfx_scalar(w, &in->src[0], 2), exec = sgpr64(w, GFX_SGPR_EXEC);               \
        uint64_t now = (value);                                                                    \
        sgpr_put64(w, in->dst.reg, to);                                                            \
        sgpr_put64(w, GFX_SGPR_EXEC, now);                                                         \
        w->scc = now != 0;                                                                         \
    }                                                                                              \
    STEP(name##_b32) {                                                                             \
        uint32_t s = (uint32_t) gfx_scalar(w, &in->src[0], 1), exec = sgpr(w, GFX_SGPR_EXEC);      \
        uint32_t now = (value);                                                                    \
        sgpr_put(w, in->dst.reg, to);                                                              \
        sgpr_put(w, GFX_SGPR_EXEC, now);                                                           \
        w->scc = now != 0;                                                                         \
    }
#define SAVEEXEC(name, value) CHANGES_EXEC(name, value, exec)
#define WREXEC(name, value)   CHANGES_EXEC(name, value, now)

SAVEEXEC(s_and_saveexec, s & exec)
SAVEEXEC(s_or_saveexec, s | exec)
SAVEEXEC(s_xor_saveexec, s ^ exec)
SAVEEXEC(s_nand_saveexec, ~(s & exec))
SAVEEXEC(s_nor_saveexec, ~(s | exec))
SAVEEXEC(s_xnor_saveexec, ~(s ^ exec))
SAVEEXEC(s_and_not0_saveexec, ~s & exec)
SAVEEXEC(s_or_not0_saveexec, ~s | exec)
SAVEEXEC(s_and_not1_saveexec, s & ~exec)
SAVEEXEC(s_or_not1_saveexec, s | ~exec)

WREXEC(s_and_not0_wrexec, ~s & exec)
WREXEC(s_and_not1_wrexec, s & ~exec)

// ---- where to go ----

static void branch(struct gfx_wave * w, const struct gfx_inst * in, bool taken) {
    if (taken) {
        w->pc += (uint64_t) ((int64_t) in->imm * 4);
    }
}

static bool vcc_zero(const struct gfx_wave * w) {
    return (sgpr64(w, GFX_SGPR_VCC) & w->all) == 0;
}

STEP(s_branch) {
    branch(w, in, true);
}
STEP(s_cbranch_scc0) {
    branch(w, in, !w->scc);
}
STEP(s_cbranch_scc1) {
    branch(w, in, w->scc);
}
STEP(s_cbranch_vccz) {
    branch(w, in, vcc_zero(w));
}
STEP(s_cbranch_vccnz) {
    branch(w, in, !vcc_zero(w));
}
STEP(s_cbranch_execz) {
    branch(w, in, exec_of(w) == 0);
}
STEP(s_cbranch_execnz) {
    branch(w, in, exec_of(w) != 0);
}

STEP(s_getpc_b64) {
    sgpr_put64(w, in->dst.reg, w->pc);
}
STEP(s_setpc_b64) {
    w->pc = gfx_scalar(w, &in->src[0], 2);
}
STEP(s_swappc_b64) {
    uint64_t to = gfx_scalar(w, &in->src[0], 2);
    sgpr_put64(w, in->dst.reg, w->pc);
    w->pc = to;
}
STEP(s_call_b64) {
    sgpr_put64(w, in->dst.reg, w->pc);
    branch(w, in, true);
}

STEP(s_endpgm) {
    (void) in;
    w->state = WAVE_DONE;
}
STEP(s_barrier) {
    (void) in;
    w->state = WAVE_BARRIER;
}
STEP(s_trap) {
    gfx_fault(w, "the kernel trapped (%d)", in->imm);
}

// ---- waits, hints, messages ----

static void order_stores(struct gfx_wave * w) {
    if (w->stored) {
        gfx_fence(w);
        w->stored = false;
    }
}

STEP(s_nop) {
    (void) w, (void) in;
}
STEP(s_singleuse_vdst) { // a hint: values that are read once
    (void) w, (void) in;
}
STEP(s_sleep) { // the others of the group come first
    (void) in;
    order_stores(w);
    w->state = WAVE_ASLEEP;
}
STEP(s_sendmsg) { // to the host, which does not listen
    (void) w, (void) in;
}
STEP(s_waitcnt) {
    (void) in;
    order_stores(w);
}
STEP(s_waitcnt_vscnt) {
    (void) in;
    order_stores(w);
}
STEP(s_sendmsg_rtn_b32) {
    sgpr_put(w, in->dst.reg, 0);
}
STEP(s_sendmsg_rtn_b64) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); // the only one that kernels ask for is the time
    sgpr_put64(w, in->dst.reg, (uint64_t) t.tv_sec * 100000000u + (uint64_t) t.tv_nsec / 10);
}

// ---- registers by index ----

STEP(s_movrels_b32) {
    unsigned from = (in->src[0].reg + sgpr(w, GFX_SGPR_M0)) & 127;
    sgpr_put(w, in->dst.reg, sgpr(w, from));
}
STEP(s_movrels_b64) {
    unsigned from = (in->src[0].reg + sgpr(w, GFX_SGPR_M0)) & 127;
    sgpr_put64(w, in->dst.reg, sgpr64(w, from));
}
STEP(s_movreld_b32) {
    unsigned to = (in->dst.reg + sgpr(w, GFX_SGPR_M0)) & 127;
    sgpr_put(w, to, (uint32_t) gfx_scalar(w, &in->src[0], 1));
}
STEP(s_movreld_b64) {
    unsigned to = (in->dst.reg + sgpr(w, GFX_SGPR_M0)) & 127;
    sgpr_put64(w, to, gfx_scalar(w, &in->src[0], 2));
}

// s_set_gpr_idx: while on, M0 holds an index in bits 7:0 and in bits 15:12 the operands that it is
// added to (valu.c).

static void set_index(struct gfx_wave * w, uint32_t index, uint32_t operands) {
    uint32_t m0 = sgpr(w, GFX_SGPR_M0) & 0xffff0f00;
    sgpr_put(w, GFX_SGPR_M0, m0 | (index & 255) | (operands & 15) << 12);
}

STEP(s_set_gpr_idx_on) {
    set_index(w, (uint32_t) gfx_scalar(w, &in->src[0], 1), (uint32_t) in->imm);
    w->indexed = true;
}
STEP(s_set_gpr_idx_off) {
    (void) in;
    w->indexed = false;
}
STEP(s_set_gpr_idx_mode) {
    set_index(w, sgpr(w, GFX_SGPR_M0), (uint32_t) in->imm);
}
STEP(s_set_gpr_idx_idx) {
    set_index(w, (uint32_t) gfx_scalar(w, &in->src[0], 1), sgpr(w, GFX_SGPR_M0) >> 12);
}

// ---- modes: kept for s_getreg; arithmetic always rounds to nearest and keeps denormals ----

enum { HWREG_MODE = 1, HWREG_SHADER_CYCLES = 29 };

// imm: id in bits 5:0, offset in 10:6, width - 1 in 15:11
static uint32_t hwreg_mask(const struct gfx_inst * in, unsigned * from) {
    unsigned width = ((uint32_t) in->imm >> 11 & 31) + 1;
    *from = (uint32_t) in->imm >> 6 & 31;
    return width == 32 ? ~0u : (1u << width) - 1;
}

STEP(s_getreg_b32) {
    unsigned from, id = (uint32_t) in->imm & 63;
    uint32_t mask = hwreg_mask(in, &from);
    uint32_t v = id == HWREG_MODE ? w->mode : id == HWREG_SHADER_CYCLES ? (uint32_t) w->count : 0;
    sgpr_put(w, in->dst.reg, v >> from & mask);
}

static void setreg(struct gfx_wave * w, const struct gfx_inst * in) {
    unsigned from;
    uint32_t mask = hwreg_mask(in, &from), v = (uint32_t) gfx_scalar(w, &in->src[0], 1);
    if (((uint32_t) in->imm & 63) == HWREG_MODE) {
        w->mode = (w->mode & ~(mask << from)) | (v & mask) << from;
    }
}

STEP(s_setreg_b32) {
    setreg(w, in);
}
STEP(s_setreg_imm32_b32) {
    setreg(w, in);
}
STEP(s_round_mode) {
    w->mode = (w->mode & ~15u) | ((uint32_t) in->imm & 15);
}
STEP(s_denorm_mode) {
    w->mode = (w->mode & ~0xf0u) | ((uint32_t) in->imm & 15) << 4;
}

// ---- scalar memory ----

static void scalar_buffer(struct gfx_wave * w, const struct gfx_inst * in, uint64_t offset,
                          uint32_t bytes) {
    uint64_t base = sgpr64(w, in->src[0].reg) & 0xffffffffffff;
    uint32_t size = sgpr(w, in->src[0].reg + 2);
    uint32_t stride = sgpr(w, in->src[0].reg + 1) >> 16 & 0x3fff;
    uint64_t end = stride ? (uint64_t) size * stride : size;
    for (uint32_t k = 0; k < bytes / 4; k++) { // words beyond the end read 0
        uint32_t v = 0;
        if (offset + 4 * k + 4 <= end) {
            const uint8_t * p = gfx_at(w, (base + offset + 4 * k) & ~UINT64_C(3), 4, false);
            if (!p) {
                return;
            }
            memcpy(&v, p, 4);
        }
        sgpr_put(w, in->dst.reg + k, v);
    }
}

void gfx_step_smem(struct gfx_wave * w, const struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    uint32_t bytes = info->bytes;
    if (info->kind == GFX_M_FENCE) {
        gfx_fence(w);
        return;
    }
    if (info->kind == GFX_M_TIME) {
        gfx_do_s_sendmsg_rtn_b64(w, in);
        return;
    }
    if (in->dst.reg + bytes / 4 > GFX_SGPR_COUNT || in->src[0].reg + 4 > GFX_SGPR_COUNT) {
        gfx_fault(w, "scalar registers %u and %u up are not there", in->dst.reg, in->src[0].reg);
        return;
    }
    uint64_t offset = (uint64_t) (int64_t) in->imm;
    if (in->src[1].kind != GFX_K_NONE) {
        offset += (uint32_t) gfx_scalar(w, &in->src[1], 1);
    }
    if (in->op >= GFX_s_buffer_load_b32 && in->op <= GFX_s_buffer_load_b512) {
        scalar_buffer(w, in, offset, bytes);
        return;
    }
    uint64_t addr = (sgpr64(w, in->src[0].reg) + offset) & ~UINT64_C(3); // hardware drops the bits
    uint8_t * p = gfx_at(w, addr, bytes, info->kind == GFX_M_STORE);
    if (!p) {
        return;
    }
    if (info->kind == GFX_M_STORE) {
        memcpy(p, &w->s[in->dst.reg], bytes);
    } else {
        memcpy(&w->s[in->dst.reg], p, bytes);
        w->s[GFX_SGPR_NULL] = 0;
    }
}

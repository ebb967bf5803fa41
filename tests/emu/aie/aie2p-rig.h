// aie2p-rig: a strict core of aie2p, and its registers as words.
#pragma once

#include "emu/aie/core-rig.h"

#define DM(n)  AIE_REG(AIE_DM, n)
#define BM4(n) AIE_REG(AIE_BM4, n)
#define CRP(n) AIE_REG(AIE_CRP, AIE_CRP_##n)
#define E(n)   AIE_REG(AIE_E, n)

static inline struct rig * rig_aie2p(void) {
    return rig_new_arch(AIE_ARCH_AIE2P, (struct core_env){.strict = true});
}

static inline uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline void put_words(struct rig * r, aie_reg reg, const uint32_t * words, int n) {
    uint8_t bytes[256] = {0};
    for (int i = 0; i < n; i++) {
        store_u32(bytes + 4 * i, words[i]);
    }
    assert_true(core_reg_set(r->core, reg, bytes) >= 4 * n);
}

static inline void get_words(struct rig * r, aie_reg reg, uint32_t * words, int n) {
    uint8_t bytes[256];
    assert_true(core_reg_get(r->core, reg, bytes) >= 4 * n);
    for (int i = 0; i < n; i++) {
        words[i] = load_u32(bytes + 4 * i);
    }
}

static inline void run(struct rig * r) {
    nops(r, 12);
    emit_done(r);
    run_to(r, CORE_DONE);
}

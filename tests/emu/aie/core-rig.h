// core-rig: a core with 64 KiB of memory at 0x70000, locks and ports under the test's control, and
// a way to write programs instruction by instruction.
#pragma once

#include "base/cmocka-all.h"
#include "emu/aie/clock.h"
#include "emu/aie/core-target.h"

#define R(n)  AIE_REG(AIE_R, n)
#define P(n)  AIE_REG(AIE_P, n)
#define X(n)  AIE_REG(AIE_X, n)
#define W(n)  AIE_REG(AIE_W, n)
#define S(n)  AIE_REG(AIE_S, n)
#define BM(n) AIE_REG(AIE_BM, n)
#define CM(n) AIE_REG(AIE_CM, n)
#define AM(n) AIE_REG(AIE_AM, n)
#define LC    AIE_REG(AIE_SPC, AIE_SPC_LC)
#define LS    AIE_REG(AIE_SPC, AIE_SPC_LS)
#define LE    AIE_REG(AIE_SPC, AIE_SPC_LE)
#define LR    AIE_REG(AIE_SPC, AIE_SPC_LR)

enum { RIG_BASE = 0x70000, RIG_WORDS = 64, RIG_TILE = 0x1d000, RIG_REGISTERS = 1024 };

struct rig {
    struct core * core;
    const struct aie_isa * isa;
    uint8_t * memory;
    int lock[64];
    uint32_t in[RIG_WORDS], out[RIG_WORDS]; // stream words, read and written
    bool out_last[RIG_WORDS];
    int n_in, at_in, n_out, room; // room: how many words the output port takes
    uint32_t tile[RIG_REGISTERS]; // registers of the tile, from RIG_TILE on
    uint8_t cascade_in[64], cascade_out[64];
    int n_cascade_in, n_cascade_out;
    char last_trace[256];
    int n_trace;
    uint32_t at; // where the next bundle goes
};

// The semantic function of a record, or NULL.
static inline core_semantic_fn semantic_of(enum aie_arch arch, const char * record) {
    int op = aie_isa_find(aie_isa_get(arch), record);
    const struct core_meaning * m = op >= 0 ? core_meaning_of(core_target_of(arch), op) : NULL;
    return m ? m->fn : NULL;
}

static uint8_t * rig_memory(void * user, uint32_t addr, uint32_t len) {
    struct rig * r = user;
    return addr >= RIG_BASE && addr + len <= RIG_BASE + 0x10000 ? r->memory + (addr - RIG_BASE)
                                                                : NULL;
}

static int rig_acquire(void * user, int id, int value) {
    struct rig * r = user;
    if (id < 48 || id > 63) {
        return -1;
    }
    int need = value < 0 ? -value : value;
    if (value < 0 ? r->lock[id] >= need : r->lock[id] == need) {
        r->lock[id] -= need;
        return 1;
    }
    return 0;
}

static int rig_release(void * user, int id, int value) {
    struct rig * r = user;
    if (id < 48 || id > 63) {
        return -1;
    }
    r->lock[id] += value;
    return 1;
}

static int rig_stream_read(void * user, uint32_t * word, bool * tlast) {
    struct rig * r = user;
    if (r->at_in == r->n_in) {
        return 0;
    }
    *word = r->in[r->at_in++];
    *tlast = r->at_in == r->n_in;
    return 1;
}

static int rig_stream_write(void * user, uint32_t word, bool tlast) {
    struct rig * r = user;
    if (r->n_out == r->room) {
        return 0;
    }
    r->out_last[r->n_out] = tlast;
    r->out[r->n_out++] = word;
    return 1;
}

static int rig_cascade_read(void * user, uint8_t bits512[64]) {
    struct rig * r = user;
    if (r->n_cascade_in == 0) {
        return 0;
    }
    r->n_cascade_in--;
    memcpy(bits512, r->cascade_in, 64);
    return 1;
}

static int rig_cascade_write(void * user, const uint8_t bits512[64]) {
    struct rig * r = user;
    r->n_cascade_out++;
    memcpy(r->cascade_out, bits512, 64);
    return 1;
}

static int rig_tile_read(void * user, uint32_t offset, uint32_t * value) {
    struct rig * r = user;
    if (offset < RIG_TILE || offset >= RIG_TILE + 4 * RIG_REGISTERS) {
        return -1;
    }
    *value = r->tile[(offset - RIG_TILE) / 4];
    return 1;
}

static int rig_tile_write(void * user, uint32_t offset, uint32_t value) {
    struct rig * r = user;
    if (offset < RIG_TILE || offset >= RIG_TILE + 4 * RIG_REGISTERS) {
        return -1;
    }
    r->tile[(offset - RIG_TILE) / 4] = value;
    return 1;
}

static inline void rig_trace(void * user, uint64_t cycle, uint32_t pc, const char * text) {
    struct rig * r = user;
    r->n_trace++;
    snprintf(r->last_trace, sizeof r->last_trace, "%llu %x %s", (unsigned long long) cycle, pc,
             text);
}

static inline struct rig * rig_new_arch(enum aie_arch arch, struct core_env env) {
    struct rig * r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->memory = aligned_alloc(64, 0x10000);
    memset(r->memory, 0, 0x10000);
    r->room = RIG_WORDS;
    r->isa = aie_isa_get(arch);
    env.user = r;
    env.memory = rig_memory;
    env.acquire = rig_acquire;
    env.release = rig_release;
    env.stream_read = rig_stream_read;
    env.stream_write = rig_stream_write;
    env.cascade_read = rig_cascade_read;
    env.cascade_write = rig_cascade_write;
    env.tile_read = rig_tile_read;
    env.tile_write = rig_tile_write;
    assert_int_equal(core_new(arch, &env, &r->core), ST_OK);
    return r;
}

static inline struct rig * rig_new_env(struct core_env env) {
    return rig_new_arch(AIE_ARCH_AIE2, env);
}

// A core that shares its prepared programs; NULL: with nobody. clock NULL: nothing ever stalls.
static inline struct rig * rig_new_at(struct core_cache * cache, bool traced,
                                      const struct emu_clock * clock) {
    return rig_new_env((struct core_env){.cache = cache,
                                         .trace = traced ? rig_trace : NULL,
                                         .bank_bit = clock ? clock->bank_bit : 0,
                                         .lock_stall = clock ? clock->lock_stall : 0});
}

static inline struct rig * rig_new_in(struct core_cache * cache, bool traced) {
    return rig_new_at(cache, traced, NULL);
}

static inline struct rig * rig_new(bool traced) {
    return rig_new_at(NULL, traced, NULL);
}

static inline struct rig * rig_new_strict(uint32_t seed) {
    return rig_new_env((struct core_env){.strict = true, .seed = seed});
}

static inline void rig_free(struct rig * r) {
    core_free(r->core);
    free(r->memory);
    free(r);
}

// An instruction by record name and its operands by letter: ins(r, "ADD", "dab", R(0), R(1), R(2)).
static inline struct aie_inst ins(struct rig * r, const char * name, const char * letters, ...) {
    int op = aie_isa_find(r->isa, name);
    if (op < 0) {
        fail_msg("no instruction %s", name);
    }
    struct aie_inst i = {.op = (uint16_t) op};
    va_list args;
    va_start(args, letters);
    for (const char * l = letters; *l; l++) {
        int k = aie_instr_operand(aie_isa_instr(r->isa, op), *l);
        if (k < 0) {
            fail_msg("%s has no operand %c", name, *l);
        }
        i.values[k] = va_arg(args, int);
    }
    va_end(args);
    return i;
}

// One 16-byte bundle of n instructions.
static inline void emit_n(struct rig * r, int n, const struct aie_inst * insts) {
    struct aie_bundle b = {.size = 16};
    for (int i = 0; i < n; i++) {
        enum aie_slot slot = aie_isa_instr(r->isa, insts[i].op)->slot;
        assert_false(b.present >> slot & 1);
        b.present |= (uint8_t) (1u << slot);
        b.slot[slot] = insts[i];
    }
    uint8_t bytes[AIE_MAX_BUNDLE_BYTES];
    int size = 0;
    struct error err;
    if (aie_bundle_encode(r->isa, &b, bytes, &size, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    assert_true(r->at + (uint32_t) size <= CORE_PM_BYTES);
    memcpy(core_program(r->core) + r->at, bytes, (size_t) size);
    r->at += (uint32_t) size;
    core_program_changed(r->core, 0, CORE_PM_BYTES);
}

#define EMIT(r, ...)                                                                               \
    emit_n(r, (int) (sizeof((struct aie_inst[]){__VA_ARGS__}) / sizeof(struct aie_inst)),          \
           (struct aie_inst[]){__VA_ARGS__})

static inline void nops(struct rig * r, int n) {
    while (n-- > 0) {
        emit_n(r, 0, NULL);
    }
}

static inline void emit_done(struct rig * r) {
    EMIT(r, ins(r, "DONE", ""));
}

// Runs from pc 0 to its end, expecting state.
static inline void run_to(struct rig * r, enum core_state want) {
    core_enable(r->core, true, 0);
    enum core_state got = core_run(r->core, UINT64_MAX, 5000000);
    if (got != want) {
        fail_msg("state %d, not %d: %s", got, want, core_fault(r->core));
    }
}

static inline uint32_t get(struct rig * r, aie_reg reg) {
    uint8_t bytes[128] = {0};
    assert_true(core_reg_get(r->core, reg, bytes) > 0);
    return load_u32(bytes);
}

static inline void set(struct rig * r, aie_reg reg, uint32_t value) {
    uint8_t bytes[128] = {0};
    store_u32(bytes, value);
    assert_true(core_reg_set(r->core, reg, bytes) > 0);
}

// All 32-bit lanes of a vector register.
static inline void set_lanes(struct rig * r, aie_reg reg, uint32_t value) {
    uint8_t bytes[128];
    for (int i = 0; i < 32; i++) {
        store_u32(bytes + 4 * i, value);
    }
    assert_true(core_reg_set(r->core, reg, bytes) > 0);
}

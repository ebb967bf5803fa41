// pipes: the smallest array in which a stream decides when its transfers move. Two pipes lead from
// host memory into the memtile of column 0 and back; no core is in them, so a read stalls until the
// stream itself has the memtile take its words. And a machine to run such streams on, with guard
// zones around every operand.
#pragma once

#include "aie/array/array.h"
#include "aie/verify/verify.h"
#include "emu/aie/machine.h"

#include <stdlib.h>
#include <string.h>

enum { PIPES = 2, PIPE_OPERANDS = 3, PIPE_A = 0, PIPE_B = 1, PIPE_OUT = 2, PIPE_CYCLES = 1000000 };

// Of very different sizes, so that what fits one leaves another.
static const struct verify_operand pipe_operands[PIPE_OPERANDS] = {
    [PIPE_A] = {64 * 4, VERIFY_IN},
    [PIPE_B] = {4096 * 4, VERIFY_IN},
    [PIPE_OUT] = {4096 * 4, VERIFY_OUT},
};

// The caller frees it; the same for both architectures, but for what the array builder knows.
static inline uint8_t * pipes_pdi(enum aie_arch arch, size_t * size) {
    struct array a;
    uint8_t * pdi;
    array_begin(&a, arch);
    array_token_route(&a, 0);
    for (int p = 0; p < PIPES; p++) {
        struct array_port shim = {0, ARRAY_ROW_SHIM, p}, mem = {0, ARRAY_ROW_MEM, p};
        array_route(&a, shim, &mem, 1);
        array_route(&a, mem, &shim, 1);
    }
    if (array_end(&a, &pdi, size, NULL) != ST_OK) {
        abort();
    }
    return pdi;
}

// ---- streams ----

static inline uint32_t pipe_bd_at(int bd, int word) {
    return image_addr(0, ARRAY_ROW_SHIM, SHIM_BD + 0x20 * (uint32_t) bd + 4 * (uint32_t) word);
}

static inline struct array_bd pipe_row(uint32_t words) {
    return (struct array_bd){.words = words, .next = -1, .acquire = -1, .release = -1};
}

static inline void pipes_begin(struct txn * t, enum aie_arch arch) {
    txn_begin(t, 1, (int) txn_generation(arch));
    for (int p = 0; p < PIPES; p++) {
        array_token_controller(t, 0, p);
        txn_mask_write(t, image_addr(0, ARRAY_ROW_SHIM, SHIM_MM2S_QUEUE - 4 + 8 * (uint32_t) p),
                       0x1f00, array_token_control());
    }
}

static inline void pipe_bd(struct txn * t, enum aie_arch arch, int bd, const struct array_bd * d) {
    uint32_t w[8];
    array_shim_bd(d, aie_target(arch), w);
    txn_block_write(t, pipe_bd_at(bd, 0), w, 8);
}

static inline void pipe_patch(struct txn * t, int bd, int operand, uint32_t offset) {
    txn_patch_address(t, pipe_bd_at(bd, 1), operand, offset);
}

static inline void pipe_start(struct txn * t, int pipe, bool read, int bd, int runs, bool token) {
    uint32_t queue = read ? SHIM_MM2S_QUEUE : SHIM_S2MM_QUEUE;
    txn_write(t, image_addr(0, ARRAY_ROW_SHIM, queue + 8 * (uint32_t) pipe),
              array_queue_word(bd, runs, token));
}

static inline void pipe_sync(struct txn * t, int pipe, bool read) {
    txn_wait(t, 0, 0, read, pipe);
}

// The memtile takes so many words of a pipe, or sends so many (whatever they are). Each task has a
// descriptor of its own, of the twelve that a pipe has for either way.
static inline void pipe_move(struct txn * t, int pipe, bool take, int nth, uint32_t words) {
    struct array_bd d = pipe_row(words);
    uint32_t w[8], queue = take ? MEM_S2MM_QUEUE : MEM_MM2S_QUEUE;
    int bd = (pipe ? ARRAY_MEM_BD_ODD : 0) + (take ? 0 : 12) + nth % 12;
    d.address = (uint32_t) pipe * 0x20000 + (take ? 0 : 0x10000);
    array_mem_bd(&d, w);
    txn_block_write(t, image_addr(0, ARRAY_ROW_MEM, MEM_BD + 0x20 * (uint32_t) bd), w, 8);
    txn_write(t, image_addr(0, ARRAY_ROW_MEM, queue + 8 * (uint32_t) pipe),
              array_queue_word(bd, 1, false));
}

static inline enum status pipes_verify(enum aie_arch arch, const uint8_t * pdi, size_t size,
                                       const uint32_t * insts, size_t n, struct error * err) {
    struct verify_job job = {.arch = arch,
                             .pdi = pdi,
                             .pdi_size = size,
                             .insts = (const uint8_t *) insts,
                             .insts_size = 4 * n,
                             .operands = pipe_operands,
                             .n_operands = PIPE_OPERANDS};
    return aie_verify(&job, err);
}

// ---- the machine ----

// Operands lie far above 2^32, with memory of others on both sides of each.
#define PIPE_ADDRESS UINT64_C(0x400000000000)
#define PIPE_STEP    UINT64_C(0x10000000)
enum { PIPE_ROOM = 16 * 1024, PIPE_GUARD = 256 * 1024 };

struct pipe_machine {
    struct emu_machine * machine;
    bool strayed;   // it read or wrote what is no operand's, or in the wrong direction
    bool near_zero; // it read below 2^32, where a descriptor points that was not yet patched
    uint64_t addr;
    uint8_t memory[PIPE_OPERANDS][PIPE_GUARD + PIPE_ROOM + PIPE_GUARD];
};

static inline uint64_t pipe_address(int operand) {
    return PIPE_ADDRESS + (uint64_t) operand * PIPE_STEP;
}

static inline void * pipe_resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    struct pipe_machine * m = user;
    for (int i = 0; i < PIPE_OPERANDS; i++) {
        uint64_t from = pipe_address(i) - PIPE_GUARD, at = addr - from;
        if (addr >= from && at <= sizeof m->memory[i] && len <= sizeof m->memory[i] - at) {
            bool inside = at >= PIPE_GUARD && at + len <= PIPE_GUARD + pipe_operands[i].bytes;
            bool right = pipe_operands[i].access & (write ? VERIFY_OUT : VERIFY_IN);
            m->addr = inside && right ? m->addr : addr;
            m->strayed |= !inside || !right;
            return m->memory[i] + at;
        }
    }
    bool low = !write && addr >> 32 == 0;
    m->near_zero |= low;
    m->strayed |= !low;
    m->addr = addr;
    return NULL;
}

static inline struct pipe_machine * pipe_machine_new(enum aie_arch arch) {
    struct pipe_machine * m = calloc(1, sizeof *m);
    struct emu_config config = {.arch = arch,
                                .columns = aie_target(arch)->columns,
                                .user = m,
                                .resolve = pipe_resolve,
                                .max_cycles = PIPE_CYCLES,
                                .threads = 1,
                                .trace_col = -1,
                                .trace_row = -1};
    if (!m || emu_machine_new(&config, &m->machine, NULL) != ST_OK) {
        abort();
    }
    return m;
}

static inline void pipe_machine_free(struct pipe_machine * m) {
    emu_machine_free(m->machine);
    free(m);
}

// The array begins anew each time.
static inline enum status pipe_machine_run(struct pipe_machine * m, const uint8_t * pdi,
                                           size_t size, const uint32_t * insts, size_t n,
                                           struct error * err) {
    struct emu_operand operands[PIPE_OPERANDS];
    for (int i = 0; i < PIPE_OPERANDS; i++) {
        operands[i] = (struct emu_operand){pipe_address(i), pipe_operands[i].bytes};
    }
    struct error ignored;
    emu_machine_run(m->machine, NULL, 0, NULL, 0, NULL, 0, &ignored);
    m->strayed = m->near_zero = false;
    return emu_machine_run(m->machine, pdi, size, insts, n, operands, PIPE_OPERANDS, err);
}

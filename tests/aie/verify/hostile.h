// hostile: one kernel that is right, and what tests say about the same with one thing that is not.
// Streams are written with the compiler's writers, over a PDI of the compiler.
#pragma once

#include "aie/verify/verify.h"

#include "aie/aie.h"
#include "aie/array/array.h"
#include "base/cmocka-all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 4096, N = BYTES / 4, A = 0, B = 1, OUT = 2 };

static enum aie_arch arch;
static uint8_t * pdi;
static size_t pdi_size;
static char said[sizeof(struct error)];

static inline int set_up(void ** state) {
    (void) state;
    struct tensor t = tensor_contiguous(DTYPE_F32, (const int64_t[4]){N, 1, 1, 1});
    struct kernel_spec spec = {
        .op = KERNEL_OP_ADD, .arch = arch, .n_inputs = 2, .inputs = {t, t}, .output = t};
    return aie_compile_pdi(&spec, &pdi, &pdi_size, NULL) != ST_OK;
}

static inline int tear_down(void ** state) {
    (void) state;
    free(pdi);
    pdi = NULL;
    return 0;
}

// ---- streams ----

static inline uint32_t shim(int col, uint32_t offset) {
    return image_addr(col, 0, offset);
}

static inline uint32_t bd_at(int bd, int word) {
    return shim(0, SHIM_BD + 0x20 * (uint32_t) bd + 4 * (uint32_t) word);
}

static inline struct array_bd plain(uint32_t words) {
    return (struct array_bd){.words = words, .next = -1, .acquire = -1, .release = -1};
}

static inline void put_bd(struct txn * t, int bd, const struct array_bd * d) {
    uint32_t w[8];
    array_shim_bd(d, aie_target(arch), w);
    txn_block_write(t, bd_at(bd, 0), w, 8);
}

// With some bits of a word as they are told.
static inline void put_words(struct txn * t, int bd, const struct array_bd * d, int word,
                             uint32_t mask, uint32_t value) {
    uint32_t w[8];
    array_shim_bd(d, aie_target(arch), w);
    w[word] = (w[word] & ~mask) | value;
    txn_block_write(t, bd_at(bd, 0), w, 8);
}

static inline void put(struct txn * t, int bd, struct array_bd d, int operand, uint32_t offset) {
    put_bd(t, bd, &d);
    txn_patch_address(t, bd_at(bd, 1), operand, offset);
}

static inline void start(struct txn * t, bool in, int bd, int runs) {
    txn_write(t, shim(0, in ? SHIM_MM2S_QUEUE : SHIM_S2MM_QUEUE), array_queue_word(bd, runs, !in));
}

static inline void begin(struct txn * t) {
    txn_begin(t, 1, (int) txn_generation(arch));
    array_token_controller(t, 0, 0);
}

static inline void sync_out(struct txn * t) {
    txn_wait(t, 0, 0, 0, 0);
}

// Both transfers of a kernel that is right.
static inline void feed(struct txn * t) {
    put(t, 0, plain(N), A, 0);
    start(t, true, 0, 1);
}

static inline void take(struct txn * t) {
    put(t, 1, plain(N), OUT, 0);
    start(t, false, 1, 1);
    sync_out(t);
}

static inline enum status verify_over(struct txn * t, const uint8_t * image, size_t size) {
    uint32_t * insts;
    size_t n;
    struct error err = {0};
    assert_int_equal(txn_end(t, &insts, &n, &err), ST_OK);
    const struct verify_operand operands[] = {
        {BYTES, VERIFY_IN}, {BYTES, VERIFY_IN}, {BYTES, VERIFY_OUT}};
    struct verify_job job = {.arch = arch,
                             .pdi = image,
                             .pdi_size = size,
                             .insts = (const uint8_t *) insts,
                             .insts_size = n * 4,
                             .operands = operands,
                             .n_operands = 3};
    enum status st = aie_verify(&job, &err);
    memcpy(said, err.text, sizeof err.text);
    free(insts);
    return st;
}

static inline void passes(struct txn * t) {
    if (verify_over(t, pdi, pdi_size) != ST_OK) {
        fail_msg("%s: %s", kernel_arch_name(arch), said);
    }
}

static inline void check_said(enum status st, const char * words) {
    if (st != ST_CORRUPT || !strstr(said, words) || !strstr(said, "; ")) {
        fail_msg("%s: status %d, \"%s\", not \"%s\"", kernel_arch_name(arch), (int) st, said,
                 words);
    }
    if (arch == AIE_ARCH_AIE2) {
        printf("    %s\n", said);
    }
}

static inline void refused(struct txn * t, const char * words) {
    check_said(verify_over(t, pdi, pdi_size), words);
}

// A stream that is right but for what `wrong` writes into it.
#define REFUSED(words, ...)                                                                        \
    do {                                                                                           \
        struct txn t_, *t = &t_;                                                                   \
        begin(t);                                                                                  \
        feed(t);                                                                                   \
        __VA_ARGS__;                                                                               \
        take(t);                                                                                   \
        refused(t, words);                                                                         \
    } while (0)

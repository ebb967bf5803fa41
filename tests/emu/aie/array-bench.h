// array-bench: one machine of four columns with three host buffers, for the array tests. Buffers A
// and B may only be read, OUT may be written; their device addresses need all 48 bits.
#pragma once

#include "array-design.h"
#include "base/cmocka-all.h"

enum { HOST_BUFFERS = 3, HOST_WORDS = 32768 };
static const uint64_t host_base[HOST_BUFFERS] = {0x7f0010000000, 0x7f0020000000, 0x200001000};

enum { A, B, OUT }; // operands

struct bench {
    struct emu_machine * machine;
    uint32_t * host[HOST_BUFFERS];
    struct words cdo;
    struct stream txn;
    struct error err;
};

static inline void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    struct bench * b = user;
    for (int i = 0; i < HOST_BUFFERS; i++) {
        uint64_t size = HOST_WORDS * 4;
        if (addr >= host_base[i] && addr - host_base[i] <= size &&
            len <= size - (addr - host_base[i])) {
            return (write && i != OUT) ? NULL : (uint8_t *) b->host[i] + (addr - host_base[i]);
        }
    }
    return NULL;
}

static inline uint32_t pattern(uint32_t buffer, uint32_t i) {
    return (buffer + 1) << 24 | (i * 2654435761u) >> 8;
}

// What the machines of these tests are made with; b answers for host memory.
static inline struct emu_config bench_config(struct bench * b) {
    return (struct emu_config){.arch = AIE_ARCH_AIE2,
                               .columns = 4,
                               .resolve = resolve,
                               .user = b,
                               .max_cycles = 2000000,
                               .trace_col = -1,
                               .trace_row = -1};
}

static inline bool bench_open(struct bench * b, const struct emu_config * config) {
    if (emu_machine_new(config, &b->machine, &b->err) != ST_OK) {
        print_error("%s\n", b->err.text);
        return false;
    }
    for (uint32_t i = 0; i < HOST_BUFFERS; i++) {
        b->host[i] = calloc(HOST_WORDS, 4);
        for (uint32_t j = 0; j < HOST_WORDS; j++) {
            b->host[i][j] = i == OUT ? 0xdeadbeef : pattern(i, j);
        }
    }
    txn_begin(&b->txn);
    return true;
}

static inline void bench_close(struct bench * b) {
    emu_machine_free(b->machine);
    for (int i = 0; i < HOST_BUFFERS; i++) {
        free(b->host[i]);
    }
}

static inline int setup(void ** state) {
    struct bench * b = calloc(1, sizeof(*b));
    struct emu_config config = bench_config(b);
    *state = b;
    return bench_open(b, &config) ? 0 : -1;
}

static inline int teardown(void ** state) {
    struct bench * b = *state;
    bench_close(b);
    free(b);
    return 0;
}

static const struct emu_operand operands[HOST_BUFFERS] = {{0x7f0010000000, HOST_WORDS * 4},
                                                          {0x7f0020000000, HOST_WORDS * 4},
                                                          {0x200001000, HOST_WORDS * 4}};

static inline enum status run_pdi(struct bench * b, const uint8_t * pdi, size_t size) {
    b->err.text[0] = 0;
    return emu_machine_run(b->machine, pdi, size, b->txn.s.w, b->txn.s.n, operands, HOST_BUFFERS,
                           &b->err);
}

static inline enum status run(struct bench * b) {
    txn_end(&b->txn);
    size_t size;
    uint8_t * pdi = pdi_make(&b->cdo, &size);
    enum status st = run_pdi(b, pdi, size);
    free(pdi);
    return st;
}

static inline void run_ok(struct bench * b) {
    if (run(b) != ST_OK) {
        fail_msg("dispatch failed: %s", b->err.text);
    }
}

static inline void expect_error(struct bench * b, enum status want, const char * text) {
    enum status st = run(b);
    if (st != want || !strstr(b->err.text, text)) {
        fail_msg("got %s \"%s\", want %s \"%s\"", status_name(st), b->err.text, status_name(want),
                 text);
    }
}

// Shim MM2S0 to memtile S2MM0 and memtile MM2S0 to shim S2MM0, all in one column.
static inline void loop_routes(struct bench * b, int col, bool token_route) {
    shim_ends(&b->cdo, col, token_route);
    circuit(&b->cdo, col, 0, SHIM_MM2S0, 12); // to North0
    circuit(&b->cdo, col, 1, 7, 0);           // South0 to DMA0
    circuit(&b->cdo, col, 1, 0, 7);           // DMA0 to South0
    circuit(&b->cdo, col, 0, 14, SHIM_S2MM0); // North0 to the shim DMA
}

// A memtile that fills a buffer of `words` with BD 0 and empties it with BD 1, in turns.
static inline void loop_memtile(struct bench * b, int col, uint32_t words, struct bd_desc out) {
    struct bd_desc in = {.length = words,
                         .address = 0x20000,
                         .next = 1 + 0,
                         .acquire = 64,
                         .acquire_value = -1,
                         .release = 65,
                         .release_value = 1};
    out.next = 1 + 1;
    out.acquire = 65;
    out.acquire_value = -1;
    out.release = 64;
    out.release_value = 1;
    set_lock(&b->cdo, col, 1, 0, 1);
    set_lock(&b->cdo, col, 1, 1, 0);
    mem_bd(&b->cdo, col, 0, &in);
    mem_bd(&b->cdo, col, 1, &out);
    push_task(&b->cdo, col, 1, false, 0, 0);
    push_task(&b->cdo, col, 1, true, 0, 1);
}

static inline void in_and_out(struct bench * b, int col, uint32_t in_words, uint32_t out_words) {
    struct shim_desc in = {.length = in_words, .operand = A};
    struct shim_desc out = {.length = out_words, .operand = OUT, .token = true};
    txn_transfer(&b->txn, col, true, 0, 0, &in);
    txn_transfer(&b->txn, col, false, 0, 1, &out);
    txn_sync(&b->txn, col, false, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

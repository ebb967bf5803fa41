// fuzz-stream: streams from a grammar, on an array in which the stream decides when its transfers
// move (pipes.h). An input is a list of what to do: write a descriptor, patch, start, stall, let
// go, wait. Most of it is legal, so that what is looked for is not a broken stream but one that
// passes and leaves its operands: the emulator's memory has guard zones around each, and reads or
// writes outside, or in the wrong direction, end the fuzzer. Below 2^32, where a descriptor points
// that is not yet patched, there is no memory.
#include "fuzz.h"

#include "aie/verify/pipes.h"

#include <stdio.h>

#ifndef ARCH
#    define ARCH AIE_ARCH_AIE2
#endif

const int fuzz_rounds = 150;
const int fuzz_longest = 192;

enum {
    OWN_BDS = 6, // that an input may do anything with
    READ_BD = 10,
    WRITE_BD = 12,
    SMALL = 16,
    REST = 32768, // words, more than anything leaves behind
};

struct input {
    struct fuzz_input from;
    struct txn txn;
    int moves[PIPES][2]; // tasks of the memtile
};

static uint32_t next(struct input * in) {
    return fuzz_next(&in->from);
}

#define PICK(in, table) FUZZ_PICK(&(in)->from, table)

// ---- what a stream does ----

static void shape(struct input * in, uint32_t w[8]) {
    static const uint32_t words[] = {4, 16, 60, 64, 256, 1024, 2048, 4096};
    static const uint32_t addresses[] = {0, 0, 0, 0, 64, 240, 8192, 0x12345678};
    struct array_bd d = pipe_row(PICK(in, words));
    uint32_t kind = next(in);
    if (kind % 8 == 1) {
        d.wrap[0] = 4;
        d.step[0] = 1;
        d.step[1] = 4u << kind / 8 % 8;
    } else if (kind % 8 == 2) {
        d.iterations = 2 + kind / 8;
        d.iteration_step = 4u << next(in) % 12;
    } else if (kind % 8 == 3) {
        d.next = (int) (kind / 8 % OWN_BDS);
    }
    array_shim_bd(&d, aie_target(ARCH), w);
    w[1] = PICK(in, addresses);
    if (kind == 0xff) { // beyond its end, and somewhere else
        w[6] |= 40u << 26;
    } else if (kind == 0xfe) {
        w[2] |= 0x4000;
    }
}

static void write_bd(struct input * in, int bd) {
    uint32_t w[16];
    bool two = bd + 1 < OWN_BDS && next(in) % 8 == 7;
    shape(in, w);
    if (two) {
        shape(in, w + 8);
    }
    txn_block_write(&in->txn, pipe_bd_at(bd, 0), w, two ? 16 : 8);
}

static void write_word(struct input * in) {
    static const uint32_t values[] = {4, 64, 4096, 0x12345678, 0x4000, 63u << 20, 0x02000000};
    int bd = (int) (next(in) % OWN_BDS), word = (int) (next(in) % 8);
    uint32_t value = PICK(in, values), mask = next(in);
    if (mask % 2) {
        txn_write(&in->txn, pipe_bd_at(bd, word), value);
    } else {
        txn_mask_write(&in->txn, pipe_bd_at(bd, word), mask % 4 ? 0 : UINT32_MAX, value);
    }
}

static void patch(struct input * in, int bd) {
    static const uint32_t offsets[] = {0, 0, 0, 64, 128, 240, 8192, 16320};
    int operand = (int) (next(in) % PIPE_OPERANDS);
    pipe_patch(&in->txn, bd, operand, PICK(in, offsets));
}

static void start(struct input * in, bool read) {
    int pipe = (int) (next(in) % PIPES), bd = (int) (next(in) % OWN_BDS);
    uint32_t more = next(in);
    pipe_start(&in->txn, pipe, read, bd, 1 + (int) (more % 4 == 1), more / 4 % 4 != (read ? 0 : 1));
}

static void move(struct input * in, int pipe, bool take, uint32_t words) {
    pipe_move(&in->txn, pipe, take, in->moves[pipe][take]++, words);
}

static void move_some(struct input * in) {
    static const uint32_t words[] = {4, 16, 64, 256, 1024, 2048, 4096, REST};
    int pipe = (int) (next(in) % PIPES);
    bool take = next(in) % 2;
    move(in, pipe, take, PICK(in, words));
}

// A transfer through a pipe and the wait for it, with descriptors of its own.
static void transfer(struct input * in, int pipe, bool take) {
    struct array_bd d = pipe_row(SMALL);
    pipe_bd(&in->txn, ARCH, READ_BD + pipe, &d);
    pipe_patch(&in->txn, READ_BD + pipe, PIPE_B, 0);
    pipe_bd(&in->txn, ARCH, WRITE_BD + pipe, &d);
    pipe_patch(&in->txn, WRITE_BD + pipe, PIPE_OUT, 0);
    if (take) {
        move(in, pipe, true, SMALL);
    }
    move(in, pipe, false, SMALL);
    pipe_start(&in->txn, pipe, false, WRITE_BD + pipe, 1, true);
    pipe_start(&in->txn, pipe, true, READ_BD + pipe, 1, false);
    pipe_sync(&in->txn, pipe, false);
}

static void act(struct input * in) {
    uint32_t what = next(in) % 16;
    if (what < 8) {
        int bd = (int) (next(in) % OWN_BDS);
        if (what < 6) {
            write_bd(in, bd);
        }
        if (what < 4 || what > 5) {
            patch(in, bd);
        }
    } else if (what < 11) {
        start(in, true);
    } else if (what == 11) {
        start(in, false);
    } else if (what == 12) {
        move_some(in);
    } else if (what == 13) {
        pipe_sync(&in->txn, (int) (next(in) % PIPES), next(in) % 2);
    } else if (what == 14) {
        transfer(in, (int) (next(in) % PIPES), true);
    } else {
        write_word(in);
    }
}

// ---- does it stay ----

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    static uint8_t * pdi;
    static size_t pdi_size;
    static struct pipe_machine * machine;
    if (!pdi) {
        pdi = pipes_pdi(ARCH, &pdi_size);
        machine = pipe_machine_new(ARCH);
    }
    struct input in = {.from = {data, size}};
    uint32_t * insts;
    size_t n;
    struct error err = {0};
    pipes_begin(&in.txn, ARCH);
    while (in.from.left) {
        act(&in);
    }
    for (int pipe = 0; pipe < PIPES; pipe++) { // whatever waits is let go
        move(&in, pipe, true, REST);
    }
    transfer(&in, 1, false);
    if (txn_end(&in.txn, &insts, &n, NULL) != ST_OK) {
        abort();
    }
    enum status st = pipes_verify(ARCH, pdi, pdi_size, insts, n, &err);
    if (st != ST_OK && (st != ST_CORRUPT || !err.text[0])) {
        abort();
    }
    if (st == ST_OK) {
        pipe_machine_run(machine, pdi, pdi_size, insts, n, &err);
        if (machine->strayed) {
            fprintf(stderr, "it passes and strays to 0x%llx\n", (unsigned long long) machine->addr);
            abort();
        }
    }
    free(insts);
    return 0;
}

// ---- seeds ----

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    // A descriptor: 0, its number, 0, its words, its kind, its address, an operand, an offset. A
    // read: 8, a pipe, a descriptor, 0. A write: 11 and the same, with 8 for a token.
    static const uint8_t nothing[] = {14, 0};
    static const uint8_t read[] = {0, 0, 0, 1, 0, 0, 0, 0, 8, 0, 0, 0};
    static const uint8_t both[] = {0, 0, 0,  1, 0, 0, 1,  0, 0, 1, 0,  1, 0, 0, 2,  0, 8, 0,
                                   0, 0, 11, 0, 1, 8, 12, 0, 1, 1, 12, 0, 0, 1, 13, 0, 0};
    static const uint8_t stalled[] = {0, 0, 0, 6, 0, 0, 1, 0,  0, 1, 0, 1, 0, 0, 0, 0, 8,
                                      0, 0, 0, 8, 0, 1, 0, 14, 1, 0, 1, 0, 1, 0, 0, 0, 3};
    static const struct {
        const uint8_t * bytes;
        size_t n;
    } seeds[] = {{nothing, sizeof nothing},
                 {read, sizeof read},
                 {both, sizeof both},
                 {stalled, sizeof stalled}};
    return (size_t) i < sizeof seeds / sizeof seeds[0] &&
           fuzz_bytes(seeds[i].bytes, seeds[i].n, data, size);
}

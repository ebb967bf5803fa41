// check: a program as the checker reads it from its bytes (check-read.c), for the walk along its
// paths (check.c).
#pragma once

#include "asm.h"

// A unit that an instruction reads or writes.
struct check_access {
    uint8_t unit;
    uint8_t cycle;  // in which it is read, or from which it is there
    uint8_t bypass; // enum aie_bypass
    uint8_t port;   // bit of the write port, of the first unit of a result; else CHECK_NO_PORT
    uint8_t part;   // which of its operand's units
    bool is_loop;   // a register of loops
};

enum { CHECK_NO_PORT = 0xff };

// The instruction in a slot. Equal bits in the same slot are the same instruction, wherever they
// are: it is decoded once.
struct check_word {
    uint64_t bits;
    int next; // with the same hash, -1 = none
    uint8_t slot;
    bool memory, stores, locks, branches;
    bool idle;           // it does nothing
    int uses, defs, end; // in accesses: those from the one to the next
    struct aie_inst inst;
    const struct aie_instr * instr;
};

struct check_bundle {
    int pc;
    uint8_t size;
    uint8_t n;                 // instructions that do anything
    bool apart;                // one of them has to do with memory, locks or branches
    int branch;                // word, -1 = none
    int words[AIE_SLOT_COUNT]; // in the order of slots
};

enum { CHECK_HASHES = 1024 };

struct check_code {
    const struct aie_target * target;
    const struct aie_isa * isa;
    const uint8_t * bytes;
    size_t size;
    struct check_bundle * bundles;
    int n;
    int * indices; // of the bundle at a pc, by pc / 2; -1 = none begins there
    int n_indices;
    struct check_word * words;
    int n_words, cap_words;
    int heads[CHECK_HASHES]; // of words, -1 = none
    struct check_access * accesses;
    int n_accesses, cap_accesses;
    int * longs; // bundles with a long instruction: what immediates that name code are in
    int n_longs;
};

// The checker's error about an instruction of a bundle.
enum status check_fail(const struct check_code * c, int at, const char * what,
                       const struct aie_inst * inst, struct error * err);

// check-flow.c: whether operands of a late loop see the writes that they are meant to see.
enum status check_flow(const struct check_code * c, const struct asm_flow * f, struct error * err);

// Fails on bytes that are no program; c is to be freed either way.
enum status check_read(struct check_code * c, enum aie_arch arch, const uint8_t * bytes,
                       size_t size, struct error * err);
void check_free(struct check_code * c);

// The bundle that begins at an address which is aligned as a target has to be, -1 if none does.
int check_target_at(const struct check_code * c, int32_t pc);
// The long instruction of a bundle that has one.
const struct check_word * check_long_in(const struct check_code * c, int at);

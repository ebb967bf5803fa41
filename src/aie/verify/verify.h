// verify: whether a kernel may be sent to hardware. A PDI and its instruction stream are walked
// from end to end with a model of the array that is this room's own (neither the compiler's nor the
// emulator's), and every write, transfer and wait is held against it:
//
//   - a write lands in a tile of the partition, in a register that a kernel may write;
//   - a transfer of a shim has the address of an operand, stays inside it by its size, and goes in
//     the direction that the operand is declared for; nothing is written to memory behind the end;
//   - descriptors of memtiles and cores stay inside the memory of tiles of the partition;
//   - no stream leaves the partition or looks like a token, and none but a kernel's of ours reaches
//     a control port;
//   - every SYNC has a task that reports to it.
//
// docs/verifier.md says what this does and does not prove.
#pragma once

#include "base/sha256.h"
#include "kernel/kernel.h"

enum verify_access { VERIFY_IN = 1, VERIFY_OUT = 2, VERIFY_BOTH = 3 };

#define VERIFY_UNKNOWN UINT64_MAX // an operand's size is not known: it is not checked

struct verify_operand {
    uint64_t bytes; // DMA moves words: rounded up to a multiple of 4
    enum verify_access access;
};

struct verify_job {
    enum aie_arch arch;
    int columns; // of the partition; 0: as many as the architecture has
    const uint8_t * pdi;
    size_t pdi_size;
    const uint8_t * insts;
    size_t insts_size;
    const struct verify_operand * operands; // in the order of a dispatch
    int n_operands;
    // A stream of our compiler: it holds no input back, so that reads are over when a SYNC has
    // passed, and a descriptor may be written then for an operand of any size. Its packets may go
    // to control ports.
    bool own;
};

// ST_OK, or ST_CORRUPT (ST_NO_MEMORY) with the file and offset, the reason and the mend. The bytes
// may be anything. Never writes, never executes what it reads.
enum status aie_verify(const struct verify_job * job, struct error * err);
// The PDI alone, for streams that are known to be right.
enum status aie_verify_pdi(enum aie_arch arch, int columns, const uint8_t * pdi, size_t size,
                           struct error * err);
// Whether a refusal is about the instruction stream, else about the PDI.
bool aie_verify_blames_stream(const struct error * err);

enum { VERIFY_KERNEL_OPERANDS = KERNEL_MAX_INPUTS + 1 };

// The operands of a kernel: its inputs, which are read, then its output, which is written.
int aie_verify_operands(const struct kernel_spec * spec,
                        struct verify_operand out[VERIFY_KERNEL_OPERANDS]);
// Two files as a kernel of this spec.
enum status aie_verify_files(const struct kernel_spec * spec, const uint8_t * pdi, size_t pdi_size,
                             const uint8_t * insts, size_t insts_size, struct error * err);

// What a kept verdict is about: this verifier, the bytes of both files, the architecture, the
// columns and the operands. A verdict that was kept counts only where this is equal.
void aie_verify_digest(const struct kernel_spec * spec, const uint8_t pdi[SHA256_BYTES],
                       const uint8_t insts[SHA256_BYTES], uint8_t out[SHA256_BYTES]);

// hsa-aie-abi: the packets of ROCr's AIE queues. Distributions ship headers without them or with
// other layouts under the same names, so these are our own, under names of our own.
//   A  ROCm 6.4: carries no PDI and cannot run kernels
//   B  ROCm 7.0 to 7.2: struct aie_ert_packet with a payload in host memory
//   C  B with a completion signal
//   D  struct aie_dispatch_packet (ROCm's hsa_ext_amd_aie.h)
#pragma once

#include <hsa/hsa.h> // LITTLEENDIAN_CPU comes with the target hsa_headers
#include <stddef.h>

enum {
    AIE_ABI_DEVICE_TYPE = 3,       // HSA_DEVICE_TYPE_AIE
    AIE_ABI_POOL_REC_GRANULE = 18, // HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE
    AIE_ABI_QUEUE_PACKETS = 64,    // the only queue size
    AIE_ABI_CONTEXT_PDIS = 32,     // bits of a hardware context's compute-unit mask
};

// ROCr forms the device address of a stream with a mask that lacks this bit: one that has it set in
// its address would be fetched from elsewhere in the heap.
#define AIE_LOST_ADDRESS_BIT 0x01000000u

// The driver copies the commands of a batch into one buffer, each behind a header of its own.
enum { AIE_CHAIN_BYTES = 4096, AIE_CHAIN_HEADER = 52 }; // 8 with firmware before 5.8

// ---- B and C ----

struct aie_ert_packet {
    uint16_t header; // 0: vendor specific, and no fence bit, which ROCr 7.2 refuses
    uint8_t format;  // AIE_ERT_FORMAT
    uint8_t reserved0;
    uint32_t command; // AIE_ERT_COMMAND(count)
    uint64_t reserved1[5];
    hsa_signal_t completion_signal; // C; reserved in B
    uint64_t payload;               // address of struct aie_ert_payload
};
_Static_assert(sizeof(struct aie_ert_packet) == 64, "one slot of the ring");
_Static_assert(offsetof(struct aie_ert_packet, command) == 4, "ABI");
_Static_assert(offsetof(struct aie_ert_packet, completion_signal) == 48, "ABI");
_Static_assert(offsetof(struct aie_ert_packet, payload) == 56, "ABI");

enum { AIE_ERT_FORMAT = 3, AIE_ERT_STATE_NEW = 1 };

// state:4 custom:8 count:11 opcode:5 type:4; the opcode START_CU is 0.
#define AIE_ERT_COMMAND(count) ((uint32_t) AIE_ERT_STATE_NEW | (uint32_t) (count) << 12)
// Words that count: three for the instructions and three for each operand, n of them. Short
// commands get more, all 0, which by ROCr's rule (count / 3 - 1) are no operands:
//   - ROCr copies as many words as are counted, but begins two words before those that count, so
//   that
//     of one operand alone the upper half of its address would stay behind; of none, the number of
//     instructions, and nothing helps.
//   - Firmware aborts a command of fewer than 15 words (ROCr's two included) when their number is
//   odd.
#define AIE_ERT_COUNT(n_operands)                                                                  \
    ((n_operands) == 1 ? 8 : (n_operands) == 2 ? 10 : 3 + 3 * (n_operands))
enum { AIE_ERT_LEAST_OPERANDS = 1 };

struct aie_ert_payload {
    uint64_t pdi;
    uint32_t transaction[2]; // 3, 0
    uint32_t insts_low;      // ROCr overwrites it with the device address
    uint32_t insts_high;
    uint32_t n_insts;     // 32-bit words
    uint32_t arguments[]; // n addresses (low, high), then n sizes in bytes
};
_Static_assert(offsetof(struct aie_ert_payload, insts_low) == 16, "ABI");
_Static_assert(offsetof(struct aie_ert_payload, arguments) == 28, "ABI");

// ---- D ----

struct aie_dispatch_packet {
    uint16_t header; // 0: ready
    uint16_t opcode; // 0
    uint16_t count;  // AIE_DISPATCH_COUNT
    uint8_t reserved0[2];
    hsa_signal_t completion_signal;
    uint32_t reserved1;
    uint32_t insts_low;
    uint32_t insts_high;
    uint16_t n_kernargs;
    uint16_t reserved2;
    uint64_t kernargs;   // address of u64[2n]: n addresses, then n sizes in bytes
    uint64_t insts_size; // bytes
    uint64_t pdi;
    uint64_t pdi_patch_offset; // 0: PDI and instructions
};
_Static_assert(sizeof(struct aie_dispatch_packet) == 64, "one slot of the ring");
_Static_assert(offsetof(struct aie_dispatch_packet, completion_signal) == 8, "ABI");
_Static_assert(offsetof(struct aie_dispatch_packet, insts_low) == 20, "ABI");
_Static_assert(offsetof(struct aie_dispatch_packet, n_kernargs) == 28, "ABI");
_Static_assert(offsetof(struct aie_dispatch_packet, kernargs) == 32, "ABI");
_Static_assert(offsetof(struct aie_dispatch_packet, pdi) == 48, "ABI");

enum { AIE_DISPATCH_COUNT = 24 };

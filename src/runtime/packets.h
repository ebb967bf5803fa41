// packets: the 64-byte packets of an AIE queue, in the three layouts that ROCr has had.
//   B  ROCm 7.0-7.2: an ERT command; what to run stands in a payload in host memory
//   C  B with a completion signal
//   D  the dispatch packet of hsa_ext_amd_aie.h
// Byte 2 tells them apart: 3 in B and C, 0 in D. Packets and payloads come from outside and are
// believed only after every field and address was checked.
#pragma once

#include "runtime.h"

enum { RT_PACKET_BYTES = 64, RT_MAX_OPERANDS = 64 };

struct rt_dispatch {
    const uint8_t * pdi;
    size_t pdi_size; // to the end of its allocation: packets do not say how long a PDI is
    const uint32_t * insts;
    size_t n_insts;
    struct emu_operand operands[RT_MAX_OPERANDS];
    int n_operands;
    uint32_t words;          // of the command that ROCr makes of it
    hsa_signal_t completion; // handle 0: none
};

// rocr72.c: the faults of ROCr 7.2, as errors. A batch before it runs, and what it took.
hsa_status_t rt_rocr72_submit(struct rt_queue * q, const struct rt_dispatch * d, uint64_t n,
                              struct error * err);
hsa_status_t rt_rocr72_waited(uint64_t us, struct error * err);
hsa_status_t rt_rocr72_find(struct rt_runtime * rt, const struct rt_agent * agent, uint64_t addr,
                            uint64_t base, struct error * err);

// Decodes and checks one packet. On an error the status is HSA_STATUS_ERROR_* and err says why.
hsa_status_t rt_packet_decode(struct rt_runtime * rt, const struct rt_agent * agent,
                              const uint8_t packet[RT_PACKET_BYTES], struct rt_dispatch * out,
                              struct error * err);

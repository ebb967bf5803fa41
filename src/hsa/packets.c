// packets: writes one dispatch in each packet ABI. A payload is written whole every time, because
// ROCr changes it while it reads it.
#include "hsac-impl.h"

#include <string.h>

_Static_assert(offsetof(struct aie_ert_payload, insts_low) + 4 * AIE_ERT_COUNT(HSAC_MAX_OPERANDS) <=
                   HSAC_PAYLOAD_BYTES,
               "fits");
_Static_assert(16 * HSAC_MAX_OPERANDS <= HSAC_PAYLOAD_BYTES, "fits");

static uint64_t address(const void * p) {
    return (uint64_t) (uintptr_t) p;
}

// The header goes last: until then the slot holds what a reader must not take for a packet.
static void publish(void * slot, const void * packet) {
    uint16_t header;
    memcpy(&header, packet, sizeof header);
    memcpy((uint8_t *) slot + sizeof header, (const uint8_t *) packet + sizeof header,
           64 - sizeof header);
    __atomic_store_n((uint16_t *) slot, header, __ATOMIC_RELEASE);
}

static void write_c(const struct hsac_dispatch * d, bool declares, hsa_signal_t completion,
                    void * slot, void * payload) {
    struct aie_ert_payload * p = payload;
    uint32_t n = (uint32_t) d->n_operands;
    p->pdi = address(d->pdi);
    p->transaction[0] = 3;
    p->transaction[1] = 0;
    p->insts_low = (uint32_t) address(d->insts);
    p->insts_high = (uint32_t) (address(d->insts) >> 32);
    p->n_insts = d->n_insts;
    for (uint32_t i = 0; i < n; i++) {
        p->arguments[2 * i] = (uint32_t) address(d->operands[i].addr);
        p->arguments[2 * i + 1] = (uint32_t) (address(d->operands[i].addr) >> 32);
        p->arguments[2 * n + i] = declares ? (uint32_t) d->operands[i].size : 0;
    }
    for (uint32_t i = 3 + 3 * n; i < AIE_ERT_COUNT(n); i++) {
        p->arguments[i - 3] = 0;
    }
    const struct aie_ert_packet packet = {
        .format = AIE_ERT_FORMAT,
        .command = AIE_ERT_COMMAND(AIE_ERT_COUNT(n)),
        .completion_signal = completion,
        .payload = address(payload),
    };
    publish(slot, &packet);
}

static void write_b(const struct hsac_dispatch * d, bool declares, hsa_signal_t completion,
                    void * slot, void * payload) {
    (void) completion;
    write_c(d, declares, (hsa_signal_t){0}, slot, payload);
}

static const char * refuse_lost(const struct hsac_dispatch * d) {
    return address(d->insts) & AIE_LOST_ADDRESS_BIT
               ? "its instruction stream lies in a part of the device heap that ROCr cannot name"
               : NULL;
}

static const char * refuse_ert(const struct hsac_dispatch * d) {
    if (d->n_operands < AIE_ERT_LEAST_OPERANDS) {
        return "a kernel without operands, which this packet ABI cannot say";
    }
    for (int i = 0; i < d->n_operands; i++) {
        if (d->operands[i].size > UINT32_MAX) {
            return "an operand is larger than 4 GiB, which this packet ABI cannot say";
        }
    }
    return refuse_lost(d);
}

static void write_d(const struct hsac_dispatch * d, bool declares, hsa_signal_t completion,
                    void * slot, void * payload) {
    uint64_t * args = payload;
    for (int i = 0; i < d->n_operands; i++) {
        args[i] = address(d->operands[i].addr);
        args[d->n_operands + i] = declares ? d->operands[i].size : 0;
    }
    const struct aie_dispatch_packet packet = {
        .count = AIE_DISPATCH_COUNT,
        .completion_signal = completion,
        .insts_low = (uint32_t) address(d->insts),
        .insts_high = (uint32_t) (address(d->insts) >> 32),
        .n_kernargs = (uint16_t) d->n_operands,
        .kernargs = address(payload),
        .insts_size = 4 * (uint64_t) d->n_insts,
        .pdi = address(d->pdi),
    };
    publish(slot, &packet);
}

static const struct hsac_abi abis[] = {
    // name, signals
    {'B', false, write_b, refuse_ert},
    {'C', true, write_c, refuse_ert},
    {'D', true, write_d, refuse_lost},
};

// The driver's command for D is no longer than its command for B.
uint32_t hsac_chain_bytes(int n_operands) {
    return AIE_CHAIN_HEADER + 4 * (AIE_ERT_COUNT((uint32_t) n_operands) + 2);
}

const struct hsac_abi * hsac_abi_find(char name) {
    for (size_t i = 0; i < sizeof abis / sizeof abis[0]; i++) {
        if (abis[i].name == name) {
            return &abis[i];
        }
    }
    return NULL;
}

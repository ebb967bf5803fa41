// packets: from 64 bytes to a checked dispatch; see packets.h for the layouts.
#include "packets.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    // fields of every layout
    OFF_HEADER = 0,
    OFF_FORMAT = 2,
    // B and C
    OFF_ERT = 4, // state:4 custom:8 count:11 opcode:5 type:4
    OFF_SIGNAL_C = 48,
    OFF_PAYLOAD = 56,
    FORMAT_ERT = 3,
    ERT_STATE_NEW = 1,
    ERT_OPCODE_START_CU = 0,
    // the payload of B and C: u64 pdi, then 32-bit words
    PAYLOAD_DATA = 8,
    DATA_TRANSACTION = 3,
    DATA_INSTS = 2, // word index of the address, then the count
    DATA_OPERANDS = 5,
    // D
    OFF_COUNT_D = 4,
    OFF_RESERVED_D = 6,
    OFF_SIGNAL_D = 8,
    OFF_INSTS_D = 20,
    OFF_NUM_KERNARGS = 28,
    OFF_KERNARG = 32,
    OFF_INSTS_SIZE = 40,
    OFF_PDI_D = 48,
    OFF_PATCH_D = 56,
    DWORDS_D = 24,
};

// Device addresses of the heap as ROCr 7.2 makes them. The mask loses bit 24: that is its bug.
#define DEV_ADDR_BASE 0x04000000u
#define DEV_ADDR_MASK 0x02FFFFFFu

static uint16_t load_u16(const uint8_t * p) {
    return (uint16_t) (p[0] | p[1] << 8);
}

#define REFUSE(status, ...) (error_set(err, ST_INVALID, __VA_ARGS__), (status))
#define BAD_FORMAT          HSA_STATUS_ERROR_INVALID_PACKET_FORMAT
#define BAD_ADDRESS         HSA_STATUS_ERROR_INVALID_ALLOCATION

// Payloads may lie in any memory of the process. Inside an allocation its bounds count; elsewhere
// every page must be there, so that a stray pointer is an error and not the end.
static bool readable(struct rt_runtime * rt, uint64_t addr, uint64_t len) {
    uint64_t base, size;
    if (addr == 0 || addr > UINT64_MAX - len) {
        return false;
    }
    if (rt_memory_find(rt, &rt->agents[0], addr, NULL, &base, &size)) {
        return len <= size - (addr - base);
    }
    for (uint64_t at = addr; at < addr + len; at = (at / RT_PAGE + 1) * RT_PAGE) {
        if (!rt_host_has(at, 1)) {
            return false;
        }
    }
    return true;
}

static hsa_status_t find_in_heap(struct rt_runtime * rt, const struct rt_agent * agent,
                                 const char * what, uint64_t addr, uint64_t * left,
                                 struct error * err) {
    struct rt_pool * pool;
    uint64_t base, size;
    if (!rt_memory_find(rt, agent, addr, &pool, &base, &size)) {
        return REFUSE(BAD_ADDRESS, "%s at 0x%" PRIx64 " lies in no allocation of the agent", what,
                      addr);
    }
    if (!pool || pool->rec_granule) {
        return REFUSE(BAD_ADDRESS,
                      "%s at 0x%" PRIx64 " is not in the device heap (the pool whose "
                      "recommended granule is 0)",
                      what, addr);
    }
    *left = size - (addr - base);
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t set_pdi(struct rt_runtime * rt, const struct rt_agent * agent, uint64_t addr,
                            struct rt_dispatch * out, struct error * err) {
    uint64_t left;
    hsa_status_t status = find_in_heap(rt, agent, "PDI", addr, &left, err);
    if (status == HSA_STATUS_SUCCESS) {
        out->pdi = (const uint8_t *) (uintptr_t) addr;
        out->pdi_size = left;
    }
    return status;
}

static hsa_status_t set_insts(struct rt_runtime * rt, const struct rt_agent * agent, uint64_t addr,
                              uint64_t bytes, struct rt_dispatch * out, struct error * err) {
    uint64_t left;
    hsa_status_t status = find_in_heap(rt, agent, "instruction stream", addr, &left, err);
    if (status != HSA_STATUS_SUCCESS) {
        return status;
    }
    if (addr % 4 || bytes % 4 || bytes == 0) {
        return REFUSE(BAD_FORMAT,
                      "instruction stream at 0x%" PRIx64 ", %" PRIu64 " bytes: expected "
                      "whole, aligned 32-bit words",
                      addr, bytes);
    }
    if (bytes > left) {
        return REFUSE(BAD_ADDRESS,
                      "instruction stream at 0x%" PRIx64 ": %" PRIu64 " bytes, but its "
                      "allocation ends after %" PRIu64,
                      addr, bytes, left);
    }
    out->insts = (const uint32_t *) (uintptr_t) addr;
    out->n_insts = bytes / 4;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t add_operand(struct rt_runtime * rt, const struct rt_agent * agent,
                                uint64_t addr, uint64_t bytes, struct rt_dispatch * out,
                                struct error * err) {
    uint64_t base, size;
    int i = out->n_operands;
    if (!rt_memory_find(rt, agent, addr, NULL, &base, &size)) {
        return REFUSE(BAD_ADDRESS, "operand %d at 0x%" PRIx64 " lies in no allocation of the agent",
                      i, addr);
    }
    if (bytes > size - (addr - base)) {
        return REFUSE(BAD_ADDRESS,
                      "operand %d at 0x%" PRIx64 ": %" PRIu64 " bytes, but its allocation "
                      "ends after %" PRIu64,
                      i, addr, bytes, size - (addr - base));
    }
    out->operands[out->n_operands++] = (struct emu_operand){addr, bytes};
    return rt->rocr_bugs ? rt_rocr72_find(rt, agent, addr, base, err) : HSA_STATUS_SUCCESS;
}

// The payload was found to be readable only; a page that may not be written is left as it is. The
// kernel writes, so that a fault is an error number.
static void write_word(uint8_t * word, uint32_t value) {
    uint8_t bytes[4];
    store_u32(bytes, value);
    struct iovec from = {bytes, sizeof bytes}, to = {word, sizeof bytes};
    if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) != (ssize_t) sizeof bytes &&
        (errno == EPERM || errno == ENOSYS)) { // a sandbox: as ROCr would
        store_u32(word, value);
    }
}

// ROCr puts the device address where the host address stood, so a payload works only once.
static uint64_t rewrite_insts(struct rt_runtime * rt, const struct rt_agent * agent, uint8_t * word,
                              uint64_t addr) {
    uint32_t device = DEV_ADDR_BASE | ((uint32_t) addr & DEV_ADDR_MASK);
    write_word(word, device);
    if (!rt->rocr_bugs) {
        return addr;
    }
    uint64_t heap = 0; // the firmware knows only the device address
    for (int i = 0; i < agent->n_pools; i++) {
        heap |= (uint64_t) (uintptr_t) agent->pools[i].heap;
    }
    return heap + (device & (RT_DEV_HEAP_BYTES - 1));
}

static hsa_status_t decode_ert(struct rt_runtime * rt, const struct rt_agent * agent,
                               const uint8_t * packet, struct rt_dispatch * out,
                               struct error * err) {
    uint32_t ert = load_u32(packet + OFF_ERT);
    uint32_t state = bits(ert, 3, 0), count = bits(ert, 22, 12), opcode = bits(ert, 27, 23);
    if (state != ERT_STATE_NEW || opcode != ERT_OPCODE_START_CU) {
        return REFUSE(BAD_FORMAT,
                      "ERT command in state %u with opcode %u: expected 1 (new) and 0 "
                      "(start)",
                      state, opcode);
    }
    uint32_t n = count / 3 - 1;
    if (count < 3 || n > RT_MAX_OPERANDS) { // one or two words more are no operand
        return REFUSE(BAD_FORMAT,
                      "ERT command counts %u words: expected 3 and 3 for each of at most "
                      "%d operands",
                      count, RT_MAX_OPERANDS);
    }
    out->words = count + 2;
    uint64_t payload = load_u64(packet + OFF_PAYLOAD);
    uint64_t bytes = PAYLOAD_DATA + 4 * (2 + (uint64_t) count);
    if (payload % 4 || !readable(rt, payload, bytes)) {
        return REFUSE(BAD_ADDRESS, "payload at 0x%" PRIx64 ": no %" PRIu64 " bytes there", payload,
                      bytes);
    }
    uint8_t * data = (uint8_t *) (uintptr_t) payload + PAYLOAD_DATA;
    if (load_u32(data) != DATA_TRANSACTION || load_u32(data + 4) != 0) {
        return REFUSE(BAD_FORMAT,
                      "payload begins with 0x%x, 0x%x: expected the transaction opcode 3, 0",
                      load_u32(data), load_u32(data + 4));
    }
    hsa_status_t status = set_pdi(rt, agent, load_u64(data - PAYLOAD_DATA), out, err);
    uint64_t insts = load_u64(data + 4 * DATA_INSTS);
    uint64_t insts_bytes = 4 * (uint64_t) load_u32(data + 4 * (DATA_INSTS + 2));
    if (status == HSA_STATUS_SUCCESS) {
        status = set_insts(rt, agent, insts, insts_bytes, out, err);
    }
    if (status == HSA_STATUS_SUCCESS) {
        insts = rewrite_insts(rt, agent, data + 4 * DATA_INSTS, insts);
        status = set_insts(rt, agent, insts, insts_bytes, out, err);
    }
    const uint8_t * addresses = data + 4 * DATA_OPERANDS;
    for (uint32_t i = 0; i < n && status == HSA_STATUS_SUCCESS; i++) {
        status = add_operand(rt, agent, load_u64(addresses + 8 * i),
                             load_u32(addresses + 8 * n + 4 * i), out, err);
        // ROCr 7.2 copies as many words as are counted, from two words before those that count.
        if (rt->rocr_bugs && status == HSA_STATUS_SUCCESS && DATA_OPERANDS + 2 * i + 1 >= count) {
            out->operands[i].addr &= UINT32_MAX;
        }
    }
    if (rt->rocr_bugs && DATA_INSTS + 2 >= count) {
        out->n_insts = 0;
    }
    // A runtime with the old faults is older than C and does not look at that word.
    out->completion.handle = rt->rocr_bugs ? 0 : load_u64(packet + OFF_SIGNAL_C);
    return status;
}

static hsa_status_t decode_dispatch(struct rt_runtime * rt, const struct rt_agent * agent,
                                    const uint8_t * packet, struct rt_dispatch * out,
                                    struct error * err) {
    uint32_t opcode = load_u16(packet + OFF_FORMAT), count = load_u16(packet + OFF_COUNT_D);
    if (opcode != 0 || count != DWORDS_D || load_u16(packet + OFF_RESERVED_D) != 0) {
        return REFUSE(BAD_FORMAT, "dispatch packet with opcode %u and count %u: expected 0 and %d",
                      opcode, count, DWORDS_D);
    }
    if (load_u64(packet + OFF_PATCH_D) != 0) {
        return REFUSE(BAD_FORMAT,
                      "dispatch packet names a PDI patch offset: full-ELF kernels are not "
                      "emulated");
    }
    uint32_t n = load_u16(packet + OFF_NUM_KERNARGS);
    if (n > RT_MAX_OPERANDS) {
        return REFUSE(BAD_FORMAT, "dispatch packet with %u operands: at most %d", n,
                      RT_MAX_OPERANDS);
    }
    uint64_t kernarg = load_u64(packet + OFF_KERNARG);
    if (n && (kernarg % 8 || !readable(rt, kernarg, 16 * (uint64_t) n))) {
        return REFUSE(BAD_ADDRESS, "kernel arguments at 0x%" PRIx64 ": no %u bytes there", kernarg,
                      16 * n);
    }
    hsa_status_t status = set_pdi(rt, agent, load_u64(packet + OFF_PDI_D), out, err);
    if (status == HSA_STATUS_SUCCESS) {
        status = set_insts(rt, agent, load_u64(packet + OFF_INSTS_D),
                           load_u64(packet + OFF_INSTS_SIZE), out, err);
    }
    const uint8_t * args = (const uint8_t *) (uintptr_t) kernarg;
    for (uint32_t i = 0; i < n && status == HSA_STATUS_SUCCESS; i++) {
        status =
            add_operand(rt, agent, load_u64(args + 8 * i), load_u64(args + 8 * (n + i)), out, err);
    }
    out->completion.handle = load_u64(packet + OFF_SIGNAL_D);
    return status;
}

hsa_status_t rt_packet_decode(struct rt_runtime * rt, const struct rt_agent * agent,
                              const uint8_t packet[RT_PACKET_BYTES], struct rt_dispatch * out,
                              struct error * err) {
    memset(out, 0, sizeof *out);
    uint16_t header = load_u16(packet + OFF_HEADER);
    if ((header & 0xff) != HSA_PACKET_TYPE_VENDOR_SPECIFIC || (rt->rocr_bugs && header != 0)) {
        return REFUSE(BAD_FORMAT,
                      "invalid packet header 0x%04x: expected type 0 (vendor specific)%s", header,
                      rt->rocr_bugs ? " and no other bit" : "");
    }
    hsa_status_t status;
    if (packet[OFF_FORMAT] == FORMAT_ERT) {
        status = decode_ert(rt, agent, packet, out, err);
    } else if (packet[OFF_FORMAT] == 0 && !rt->rocr_bugs) {
        status = decode_dispatch(rt, agent, packet, out, err);
    } else {
        return REFUSE(BAD_FORMAT, "packet format %u: expected 3 (ERT command)%s",
                      packet[OFF_FORMAT],
                      rt->rocr_bugs ? ", the only one that ROCr 7.2 knows" : " or 0 (dispatch)");
    }
    if (status == HSA_STATUS_SUCCESS && out->completion.handle &&
        !rt_signal_is_live(rt, out->completion)) {
        return REFUSE(HSA_STATUS_ERROR_INVALID_SIGNAL,
                      "completion signal 0x%" PRIx64 " is no live signal", out->completion.handle);
    }
    return status;
}

// pm4: commands of the packet processor's own language. ROCr sends them in a buffer, to which a
// vendor packet points, when code was loaded: caches are to be invalidated, of which there are none
// here. Anything else is refused by its number.
#include "emu/kfd/kfd.h"

#include <inttypes.h>

enum {
    FORMAT_PM4_IB = 1,
    OP_NOP = 0x10,
    OP_INDIRECT_BUFFER = 0x3f,
    OP_ACQUIRE_MEM = 0x58,
    MAX_WORDS = 1024, // ROCr's buffer is a page
};

// A command is a word with its kind in the highest two bits, then how many words follow but one,
// then what it does.
static bool is_command(uint32_t word, uint32_t * op, uint32_t * words) {
    *op = word >> 8 & 0xff;
    *words = (word >> 16 & 0x3fff) + 2;
    return word >> 30 == 3;
}

enum aql_fault kfd_pm4_run(struct kfd_memory * m, const uint8_t packet[AQL_PACKET_BYTES],
                           struct error * err) {
    uint32_t format = packet[2] | (uint32_t) packet[3] << 8, op, words;
    if (format != FORMAT_PM4_IB) {
        error_set(err, ST_UNSUPPORTED, "a vendor packet of format %" PRIu32, format);
        return AQL_BAD_VENDOR;
    }
    if (!is_command(load_u32(packet + 4), &op, &words) || op != OP_INDIRECT_BUFFER || words != 4) {
        error_set(err, ST_INVALID, "a PM4 packet that begins with 0x%08" PRIx32 ", no jump",
                  load_u32(packet + 4));
        return AQL_BAD_VENDOR;
    }
    uint64_t address = (load_u64(packet + 8) & UINT64_C(0xfffffffffffc));
    uint32_t n = load_u32(packet + 16) & 0xfffff;
    const uint8_t * buffer =
        n <= MAX_WORDS ? kfd_memory_at(m, address, (uint64_t) n * 4, false, NULL) : NULL;
    if (!buffer) {
        error_set(err, ST_INVALID, "%" PRIu32 " words of PM4 at 0x%" PRIx64 " are not there", n,
                  address);
        return AQL_BAD_VENDOR;
    }
    for (uint32_t at = 0; at < n; at += words) {
        uint32_t word = load_u32(buffer + 4 * at);
        if (!is_command(word, &op, &words) || (op != OP_NOP && op != OP_ACQUIRE_MEM) ||
            words > n - at) {
            error_set(err, ST_UNSUPPORTED, "PM4 command 0x%08" PRIx32 ", word %" PRIu32, word, at);
            return AQL_BAD_VENDOR;
        }
    }
    return AQL_OK;
}

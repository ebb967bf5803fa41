// slots: the driver's part of a command. Commands are copied into a chain buffer of 4 KiB, one slot
// each, a single command like those of a chain. What is malformed, mixed, too long or of a kind
// that the driver does not have is dropped as a whole: its state stays NEW, and the wait for it
// succeeds.
#include "accel.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    OLD_NPU_SLOT = 24, // START_NPU before slots were uniform
    OLD_MAX_ARGS = 34,
    MAX_ARGS = 26, // of 20 to 22
    ELF_ARGS = 1,  // that the driver puts there
};

bool accel_lose(struct accel_outcome * out, enum xdna_state state, const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(out->why, sizeof out->why, fmt, args);
    va_end(args);
    out->state = state;
    return false;
}

static bool drop(struct accel_slots * k, const char * fmt, ...) BASE_PRINTF(2, 3);
static bool drop(struct accel_slots * k, const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(k->out->why, sizeof k->out->why, fmt, args);
    va_end(args);
    k->out->state = XDNA_STATE_NEW;
    return false;
}

// Words before the arguments, of the kinds of commands; -1: the driver does not have it.
static int fixed_words(const struct accel_settings * s, uint32_t opcode) {
    bool preempt = s->kernel->preempt && s->model->whole_array;
    switch (opcode) {
    case XDNA_OP_START_CU:
        return 0;
    case XDNA_OP_START_NPU:
        return s->kernel->upstream ? (int) sizeof(struct xdna_start_npu) / 4 : -1;
    case XDNA_OP_START_NPU_PREEMPT:
    case XDNA_OP_START_NPU_PREEMPT_ELF:
        return preempt ? (int) sizeof(struct xdna_start_preempt) / 4 : -1;
    default:
        return -1;
    }
}

static uint64_t slot_bytes(const struct accel_settings * s, uint32_t opcode, uint32_t n_args) {
    bool old_npu = opcode == XDNA_OP_START_NPU && !s->kernel->npu_command;
    return (old_npu ? OLD_NPU_SLOT : s->slot_bytes) +
           4 * (opcode == XDNA_OP_START_NPU_PREEMPT_ELF ? ELF_ARGS : n_args);
}

static void fill(struct accel_slot * slot, const uint8_t * fixed) {
    if (slot->opcode == XDNA_OP_START_NPU) {
        struct xdna_start_npu a;
        memcpy(&a, fixed, sizeof a);
        slot->insts = a.insts;
        slot->insts_bytes = a.insts_bytes;
        slot->properties = a.properties;
    } else if (slot->opcode != XDNA_OP_START_CU) {
        struct xdna_start_preempt a;
        memcpy(&a, fixed, sizeof a);
        slot->insts = a.insts;
        slot->insts_bytes = a.insts_bytes;
        slot->properties = a.properties;
        slot->save = a.save;
        slot->save_bytes = a.save_bytes;
        slot->restore = a.restore;
        slot->restore_bytes = a.restore_bytes;
    }
}

static bool check_words(struct accel_slots * k, uint32_t handle, uint32_t opcode, uint32_t words,
                        int fixed) {
    const struct accel_kernel * kernel = k->dev->settings.kernel;
    uint32_t max = kernel->npu_command ? MAX_ARGS : OLD_MAX_ARGS;
    if (fixed < 0) {
        return drop(k, "buffer %u: the driver has no opcode %u for this device", handle, opcode);
    }
    if (words < (uint32_t) fixed || (fixed && words - (uint32_t) fixed > max)) {
        return drop(k, "buffer %u: %u words of opcode %u: expected %d and at most %u arguments",
                    handle, words, opcode, fixed, max);
    }
    return true;
}

// The program may write to the buffer at any time, so each word is read once.
static bool add_slot(struct accel_slots * k, uint32_t handle, const struct accel_bo * bo) {
    const struct accel_settings * s = &k->dev->settings;
    uint32_t header = load_u32(bo->bytes), count = XDNA_COMMAND_COUNT(header);
    uint32_t masks = 1 + XDNA_COMMAND_MASKS(header), opcode = XDNA_COMMAND_OPCODE(header);
    if (k->n && opcode != k->slots[0]->opcode) {
        return drop(k, "buffer %u: opcode %u in a chain of opcode %u", handle, opcode,
                    k->slots[0]->opcode);
    }
    if (count <= masks || 4 + 4 * (uint64_t) count > bo->size) {
        return drop(k, "buffer %u: %u words in a command of %" PRIu64 " bytes", handle, count,
                    bo->size);
    }
    int fixed = fixed_words(s, opcode);
    if (!check_words(k, handle, opcode, count - masks, fixed)) {
        return false;
    }
    uint32_t n_args = count - masks - (uint32_t) fixed, mask = 0;
    for (uint32_t i = 0; i < masks && !mask; i++) {
        mask = load_u32(bo->bytes + 4 + 4 * i);
    }
    if (!mask && opcode != XDNA_OP_START_NPU_PREEMPT_ELF) {
        return drop(k, "buffer %u: a command for no CU", handle);
    }
    uint64_t bytes = k->out->chain_bytes + slot_bytes(s, opcode, n_args);
    if (bytes > s->chain_bytes) {
        return drop(k,
                    "the chain is too long: slot %u would end at byte %" PRIu64 " of %" PRIu64
                    " (slots of %" PRIu64 " bytes and %u arguments); nothing of it is run",
                    k->n, bytes, s->chain_bytes, slot_bytes(s, opcode, 0), n_args);
    }
    struct accel_slot * slot = calloc(1, sizeof *slot + 4 * n_args);
    if (!slot) {
        return drop(k, "no memory for a slot");
    }
    const uint8_t * data = bo->bytes + 4 + 4 * masks;
    slot->opcode = opcode;
    slot->cu = mask ? (uint32_t) __builtin_ctz(mask) : 0;
    slot->n_args = n_args;
    fill(slot, data);
    memcpy(slot->args, data + 4 * fixed, 4 * n_args);
    k->slots[k->n++] = slot;
    k->out->chain_bytes = bytes;
    return true;
}

static bool read_chain(struct accel_slots * k, const struct accel_bo * bo) {
    uint32_t words = XDNA_COMMAND_COUNT(load_u32(bo->bytes));
    const uint8_t * data = bo->bytes + 4;
    uint32_t count = load_u32(data);
    if (words == 0 || 4 + 4 * (uint64_t) words > bo->size || count == 0 ||
        4 * (uint64_t) words < sizeof(struct xdna_chain) + 8 * (uint64_t) count) {
        return drop(k, "a chain of %u commands in %u words, in a buffer of %" PRIu64 " bytes",
                    count, words, bo->size);
    }
    k->slots = calloc(count, sizeof *k->slots);
    if (!k->slots) {
        return drop(k, "no memory for a chain");
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t handle =
            (uint32_t) load_u64(data + offsetof(struct xdna_chain, handles) + 8 * (size_t) i);
        const struct accel_bo * part = accel_bo_get(k->job->context->file, handle);
        if (!part || !accel_is_command(k->dev, part)) {
            return drop(k, "command %u of the chain, buffer %u, is %s", i, handle,
                        part ? "no buffer for commands" : "not there");
        }
        if (!add_slot(k, handle, part)) {
            return false;
        }
    }
    return true;
}

bool accel_slots_read(struct accel_slots * k) {
    const struct accel_bo * bo = k->job->command;
    if (XDNA_COMMAND_OPCODE(load_u32(bo->bytes)) == XDNA_OP_CHAIN) {
        return read_chain(k, bo);
    }
    k->slots = calloc(1, sizeof *k->slots);
    return k->slots ? add_slot(k, 0, bo) : drop(k, "no memory for a slot");
}

void accel_slots_free(struct accel_slots * k) {
    for (uint32_t i = 0; i < k->n; i++) {
        free(k->slots[i]);
    }
    free(k->slots);
}

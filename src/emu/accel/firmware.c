// firmware: what becomes of a command. First the driver's part: commands are copied into the chain
// buffer, one slot each; a chain that is malformed or too long is dropped as a whole, and its state
// stays NEW. Then the firmware's: slots run one after the other, and the first that fails ends the
// chain. The device reaches the buffers that were named with the command and no others; every other
// address is a fault of its IOMMU.
#include "accel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 0x7ff, ODD_LIMIT = 15 };

struct slot {
    uint32_t cu;
    uint32_t n_args;
    uint32_t args[]; // of a START_CU command
};

struct chain {
    struct accel_device * dev;
    struct accel_job * job;
    struct accel_outcome * out;
    struct slot ** slots;
    uint32_t n;
};

static bool lose(struct chain * k, enum xdna_state state, const char * fmt, ...) BASE_PRINTF(3, 4);
static bool lose(struct chain * k, enum xdna_state state, const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(k->out->why, sizeof k->out->why, fmt, args);
    va_end(args);
    k->out->state = state;
    return false;
}

// ---- the driver's part; the lock is held ----

// The program may write to the buffer at any time, so each word is read once.
static bool add_slot(struct chain * k, uint32_t handle, const struct accel_bo * bo) {
    const struct accel_settings * s = &k->dev->settings;
    uint32_t header = load_u32(bo->bytes), count = XDNA_COMMAND_COUNT(header);
    uint32_t masks = 1 + XDNA_COMMAND_MASKS(header);
    if (XDNA_COMMAND_OPCODE(header) != XDNA_OP_START_CU) {
        return lose(k, XDNA_STATE_NEW, "buffer %u: opcode %u is not played", handle,
                    XDNA_COMMAND_OPCODE(header));
    }
    if (count <= masks || 4 + 4 * (uint64_t) count > bo->size) {
        return lose(k, XDNA_STATE_NEW, "buffer %u: %u words in a command of %" PRIu64 " bytes",
                    handle, count, bo->size);
    }
    uint32_t n_args = count - masks, mask = 0;
    for (uint32_t i = 0; i < masks && !mask; i++) {
        mask = load_u32(bo->bytes + 4 + 4 * i);
    }
    if (!mask) {
        return lose(k, XDNA_STATE_NEW, "buffer %u: a command for no CU", handle);
    }
    uint64_t bytes = k->out->chain_bytes + s->slot_bytes + 4 * n_args;
    if (bytes > s->chain_bytes) {
        return lose(k, XDNA_STATE_NEW,
                    "the chain is too long: slot %u would end at byte %" PRIu64 " of %" PRIu64
                    " (slots of %" PRIu64 " bytes and %u arguments); nothing of it is run",
                    k->n, bytes, s->chain_bytes, s->slot_bytes, n_args);
    }
    struct slot * slot = malloc(sizeof *slot + 4 * n_args);
    if (!slot) {
        return lose(k, XDNA_STATE_NEW, "no memory for a slot");
    }
    slot->cu = (uint32_t) __builtin_ctz(mask);
    slot->n_args = n_args;
    memcpy(slot->args, bo->bytes + 4 + 4 * masks, 4 * n_args);
    k->slots[k->n++] = slot;
    k->out->chain_bytes = bytes;
    return true;
}

static bool read_chain(struct chain * k, const struct accel_bo * bo) {
    uint32_t words = XDNA_COMMAND_COUNT(load_u32(bo->bytes));
    const uint8_t * data = bo->bytes + 4;
    uint32_t count = load_u32(data);
    if (words == 0 || 4 + 4 * (uint64_t) words > bo->size || count == 0 ||
        4 * (uint64_t) words < sizeof(struct xdna_chain) + 8 * (uint64_t) count) {
        return lose(k, XDNA_STATE_NEW,
                    "a chain of %u commands in %u words, in a buffer of %" PRIu64 " bytes", count,
                    words, bo->size);
    }
    k->slots = calloc(count, sizeof *k->slots);
    if (!k->slots) {
        return lose(k, XDNA_STATE_NEW, "no memory for a chain");
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t handle =
            (uint32_t) load_u64(data + offsetof(struct xdna_chain, handles) + 8 * (size_t) i);
        const struct accel_bo * part = accel_bo_get(k->job->context->file, handle);
        if (!part || !accel_is_command(k->dev, part)) {
            return lose(k, XDNA_STATE_NEW, "command %u of the chain, buffer %u, is %s", i, handle,
                        part ? "no buffer for commands" : "not there");
        }
        if (!add_slot(k, handle, part)) {
            return false;
        }
    }
    return true;
}

static bool read_command(struct chain * k) {
    const struct accel_bo * bo = k->job->command;
    if (XDNA_COMMAND_OPCODE(load_u32(bo->bytes)) == XDNA_OP_CHAIN) {
        return read_chain(k, bo);
    }
    k->slots = calloc(1, sizeof *k->slots);
    return k->slots ? add_slot(k, 0, bo) : lose(k, XDNA_STATE_NEW, "no memory for a slot");
}

// ---- the firmware's part; the lock is not held ----

static bool named(const struct accel_job * job, const struct accel_bo * bo) {
    bool found = false;
    for (uint32_t i = 0; i < job->n_arguments; i++) {
        found |= job->arguments[i] == bo;
    }
    return found;
}

// The named DEV buffer that has these bytes of the heap.
static const struct accel_bo * named_piece(const struct accel_job * job, uint64_t at,
                                           uint64_t size) {
    for (uint32_t i = 0; i < job->n_arguments; i++) {
        const struct accel_bo * bo = job->arguments[i];
        if (bo->type == XDNA_BO_DEV && at >= bo->at && size <= bo->size &&
            at - bo->at <= bo->size - size) {
            return bo;
        }
    }
    return NULL;
}

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) write;
    struct accel_context * x = user;
    const struct accel_job * job = x->running;
    struct accel_device * dev = accel_device();
    uint8_t * bytes = NULL;
    pthread_mutex_lock(&dev->lock);
    const struct accel_mapping * m = accel_mapping_of(dev, addr);
    if (m && m->bo->file == x->file) {
        uint64_t at = addr - m->va;
        if (m->bo->type == XDNA_BO_HEAP) { // its chunks lie one behind the other
            at += m->bo->heap_at;
            bytes = named_piece(job, at, len) ? x->file->heap_bytes + at : NULL;
        } else if (len <= m->size && at <= m->size - len && named(job, m->bo)) {
            bytes = m->bo->bytes + at;
        }
    }
    pthread_mutex_unlock(&dev->lock);
    return bytes;
}

static bool pdi_of(struct chain * k, uint32_t cu, const uint8_t ** pdi, size_t * size) {
    const struct accel_context * x = k->job->context;
    if (cu >= x->n_cus) {
        return lose(k, XDNA_STATE_ERROR, "CU %u: the context was configured with %u", cu, x->n_cus);
    }
    const struct accel_cu * u = &x->cus[cu];
    pthread_mutex_lock(&k->dev->lock);
    const struct accel_bo * bo = accel_bo_get(x->file, u->handle);
    bool alive = u->held || (bo && bo->serial == u->serial);
    pthread_mutex_unlock(&k->dev->lock);
    if (!alive) {
        return lose(k, XDNA_STATE_ERROR, "CU %u: buffer %u with its PDI was closed", cu, u->handle);
    }
    *pdi = x->file->heap_bytes + u->at;
    *size = u->size;
    return true;
}

static bool ready_machine(struct chain * k) {
    struct accel_context * x = k->job->context;
    const struct accel_settings * s = &k->dev->settings;
    if (x->machine) {
        return true;
    }
    struct emu_config config = {
        .arch = s->model->arch,
        .clock = &s->clock,
        .columns = (int) x->columns,
        .resolve = resolve,
        .user = x,
        .max_cycles = s->watchdog_ms * s->mhz * 1000,
        .strict = s->strict,
        .trace_col = -1,
        .trace_row = -1,
    };
    struct error err = {0};
    if (x->columns > s->model->machine_columns) {
        return lose(k, XDNA_STATE_ERROR, "%s: the array machine plays %u of its columns, not %u",
                    s->model->name, s->model->machine_columns, x->columns);
    }
    return emu_machine_new(&config, &x->machine, &err) == ST_OK ||
           lose(k, XDNA_STATE_ERROR, "%s", err.text);
}

static void trace_slot(const struct chain * k, const struct slot * slot) {
    char text[400] = "";
    for (uint32_t i = 0, n = 0; i < slot->n_args && n + 12 < sizeof text; i++) {
        n += (uint32_t) snprintf(text + n, sizeof text - n, " %x", slot->args[i]);
    }
    accel_trace(k->dev, "  CU %u, %u arguments:%s", slot->cu, slot->n_args, text);
}

static bool run_slot(struct chain * k, const struct slot * slot) {
    const struct accel_settings * s = &k->dev->settings;
    struct accel_context * x = k->job->context;
    const uint32_t * args = slot->args;
    trace_slot(k, slot);
    if (s->odd_args && slot->n_args % 2 && slot->n_args < ODD_LIMIT) {
        return lose(k, XDNA_STATE_ABORT, "%u arguments: the firmware wants an even number below %d",
                    slot->n_args, ODD_LIMIT);
    }
    if (slot->n_args < XDNA_ARG_OPERANDS || args[XDNA_ARG_OPCODE] != XDNA_KERNEL_STREAM ||
        args[XDNA_ARG_OPCODE + 1] != 0) {
        return lose(k, XDNA_STATE_ERROR, "%u arguments that do not name an instruction stream",
                    slot->n_args);
    }
    const uint8_t * pdi = NULL;
    size_t pdi_size = 0;
    if (!pdi_of(k, slot->cu, &pdi, &pdi_size) || !ready_machine(k)) {
        return false;
    }
    // Streams lie in the heap, so the firmware looks at the low word of the address only.
    uint64_t at = args[XDNA_ARG_INSTS] - ACCEL_HEAP_BASE;
    uint64_t words = args[XDNA_ARG_N_INSTS];
    if (args[XDNA_ARG_INSTS] < ACCEL_HEAP_BASE || at % 4 || words == 0 ||
        !named_piece(k->job, at, 4 * words)) {
        return lose(k, XDNA_STATE_ERROR,
                    "an instruction stream of %" PRIu64
                    " words at device address 0x%x, which is in "
                    "no DEV buffer that was named",
                    words, args[XDNA_ARG_INSTS]);
    }
    struct emu_operand operands[MAX_WORDS / 2];
    int n = 0;
    for (uint32_t i = XDNA_ARG_OPERANDS; i + 1 < slot->n_args; i += 2) {
        operands[n++] = (struct emu_operand){args[i] | (uint64_t) args[i + 1] << 32, 0};
    }
    struct error err = {0};
    struct emu_counters counters;
    emu_machine_pdi_at(x->machine, pdi);
    enum status st =
        emu_machine_run(x->machine, pdi, pdi_size, (const uint32_t *) (x->file->heap_bytes + at),
                        words, operands, n, &err);
    emu_machine_counters(x->machine, &counters);
    k->out->ms += (double) emu_account_cycles(&counters.last_account) / (double) s->mhz / 1000;
    if (st == ST_OK) {
        return true;
    }
    // The firmware refuses what it can read and cannot do. What goes wrong in the array itself, be
    // it a deadlock or a fault of the IOMMU, means a token that never comes, until the driver's
    // watchdog ends it.
    bool stuck = st == ST_DEVICE;
    if (stuck) {
        k->out->ms += (double) s->watchdog_ms;
    }
    return lose(k, stuck ? XDNA_STATE_TIMEOUT : XDNA_STATE_ERROR, "%s", err.text);
}

void accel_firmware_run(struct accel_device * dev, struct accel_job * job,
                        struct accel_outcome * out) {
    struct chain k = {.dev = dev, .job = job, .out = out};
    bool ok = read_command(&k);
    int fault = 0;
    for (uint32_t i = 0; i < k.n && ok; i++) {
        fault = accel_fault(dev, "COMMAND");
        pthread_mutex_unlock(&dev->lock);
        ok = fault ? lose(&k, XDNA_STATE_ERROR, "a fault is played: %s", strerrorname_np(fault))
                   : run_slot(&k, k.slots[i]);
        pthread_mutex_lock(&dev->lock);
        out->index = i;
        out->commands += ok;
    }
    if (ok) {
        out->state = XDNA_STATE_COMPLETED;
    }
    for (uint32_t i = 0; i < k.n; i++) {
        free(k.slots[i]);
    }
    free(k.slots);
}

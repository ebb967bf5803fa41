// firmware: what becomes of the slots of a command. They run one after the other, and the first
// that fails ends the chain. The device reaches the buffers that were named with the command and no
// others; every other address is a fault of its IOMMU. Streams and PDIs are fetched from memory as
// the device sees it.
//
// Three kinds of commands carry a stream that the host has patched itself: its addresses have the
// shim's aperture in them. Of these the last, with control code out of an ELF, brings its PDI along
// as the first operation of the stream; its saving and restoring streams are never run, for no
// command of ours is interrupted.
#include "accel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 0x7ff, ODD_LIMIT = 15 };

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
    addr -= x->aperture;
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
    return bytes ? accel_device_memory(dev, bytes, len) : NULL;
}

// The PDI of a CU: where it lies in the heap, and how long its buffer is.
static bool pdi_of(struct accel_slots * k, uint32_t cu, uint64_t * at, size_t * size) {
    const struct accel_context * x = k->job->context;
    if (cu >= x->n_cus) {
        return accel_lose(k->out, XDNA_STATE_ERROR, "CU %u: the context was configured with %u", cu,
                          x->n_cus);
    }
    const struct accel_cu * u = &x->cus[cu];
    pthread_mutex_lock(&k->dev->lock);
    const struct accel_bo * bo = accel_bo_get(x->file, u->handle);
    bool alive = u->held || (bo && bo->serial == u->serial);
    pthread_mutex_unlock(&k->dev->lock);
    if (!alive) {
        return accel_lose(k->out, XDNA_STATE_ERROR, "CU %u: buffer %u with its PDI was closed", cu,
                          u->handle);
    }
    *at = u->at;
    *size = u->size;
    return true;
}

static bool ready_machine(struct accel_slots * k) {
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
    if (emu_plant_get(s->model->arch, &config.plant, &err) != ST_OK) {
        return accel_lose(k->out, XDNA_STATE_ERROR, "%s", err.text);
    }
    if (x->columns > s->model->machine_columns) {
        return accel_lose(k->out, XDNA_STATE_ERROR,
                          "%s: the array machine plays %u of its columns, not %u", s->model->name,
                          s->model->machine_columns, x->columns);
    }
    return emu_machine_new(&config, &x->machine, &err) == ST_OK ||
           accel_lose(k->out, XDNA_STATE_ERROR, "%s", err.text);
}

static void trace_slot(const struct accel_slots * k, const struct accel_slot * slot) {
    char text[400] = "";
    for (uint32_t i = 0, n = 0; i < slot->n_args && n + 12 < sizeof text; i++) {
        n += (uint32_t) snprintf(text + n, sizeof text - n, " %x", slot->args[i]);
    }
    accel_trace(k->dev, "  opcode %u, CU %u, %u arguments:%s", slot->opcode, slot->cu, slot->n_args,
                text);
}

// ---- what a slot asks for ----

struct program {
    uint64_t pdi_at; // in the heap
    size_t pdi_size;
    uint64_t insts_at, words;
    struct emu_operand operands[MAX_WORDS / 2];
    int n_operands;
};

// A device address in the heap, of bytes that were named.
static bool in_heap(const struct accel_slots * k, uint64_t address, uint64_t bytes, uint64_t * at) {
    *at = address - ACCEL_HEAP_BASE;
    return address >= ACCEL_HEAP_BASE && bytes && named_piece(k->job, *at, bytes);
}

static bool find_insts(struct accel_slots * k, uint64_t address, uint64_t words,
                       struct program * p) {
    p->words = words;
    if (address % 4 || !in_heap(k, address, 4 * words, &p->insts_at)) {
        return accel_lose(k->out, XDNA_STATE_ERROR,
                          "an instruction stream of %" PRIu64 " words at device address 0x%" PRIx64
                          ", which is in no DEV buffer that was named",
                          words, address);
    }
    return true;
}

// A PDI as CU, and a stream whose address patches the firmware applies.
static bool start_cu(struct accel_slots * k, const struct accel_slot * slot, struct program * p) {
    const uint32_t * args = slot->args;
    if (k->dev->settings.odd_args && slot->n_args % 2 && slot->n_args < ODD_LIMIT) {
        return accel_lose(k->out, XDNA_STATE_ABORT,
                          "%u arguments: the firmware wants an even number below %d", slot->n_args,
                          ODD_LIMIT);
    }
    if (slot->n_args < XDNA_ARG_OPERANDS || args[XDNA_ARG_OPCODE] != XDNA_KERNEL_STREAM ||
        args[XDNA_ARG_OPCODE + 1] != 0) {
        return accel_lose(k->out, XDNA_STATE_ERROR,
                          "%u arguments that do not name an instruction stream", slot->n_args);
    }
    for (uint32_t i = XDNA_ARG_OPERANDS; i + 1 < slot->n_args; i += 2) {
        p->operands[p->n_operands++] =
            (struct emu_operand){args[i] | (uint64_t) args[i + 1] << 32, 0};
    }
    // Streams lie in the heap, so the firmware looks at the low word of the address only.
    return pdi_of(k, slot->cu, &p->pdi_at, &p->pdi_size) &&
           find_insts(k, args[XDNA_ARG_INSTS], args[XDNA_ARG_N_INSTS], p);
}

static bool check_patched(struct accel_slots * k, const struct accel_slot * slot,
                          struct program * p) {
    uint64_t at;
    if (slot->properties) {
        return accel_lose(k->out, XDNA_STATE_ERROR, "%u properties: they are not played",
                          slot->properties);
    }
    if ((slot->save && !in_heap(k, slot->save, slot->save_bytes, &at)) ||
        (slot->restore && !in_heap(k, slot->restore, slot->restore_bytes, &at))) {
        return accel_lose(k->out, XDNA_STATE_ERROR,
                          "a saving or restoring stream that is in no DEV buffer that was named");
    }
    if (slot->insts_bytes % 4) {
        return accel_lose(k->out, XDNA_STATE_ERROR, "a stream of %u bytes", slot->insts_bytes);
    }
    return find_insts(k, slot->insts, slot->insts_bytes / 4, p);
}

static bool start_npu(struct accel_slots * k, const struct accel_slot * slot, struct program * p) {
    if (slot->n_args < 1 || slot->args[0] != XDNA_KERNEL_STREAM) {
        return accel_lose(k->out, XDNA_STATE_ERROR, "%u arguments, of which the first is not %d",
                          slot->n_args, XDNA_KERNEL_STREAM);
    }
    return check_patched(k, slot, p) && pdi_of(k, slot->cu, &p->pdi_at, &p->pdi_size);
}

// The control code's first operation, behind the header of four words, names the PDI: its number,
// its bytes, and its device address.
static bool start_elf(struct accel_slots * k, const struct accel_slot * slot, struct program * p) {
    enum { HEADER_WORDS = 4, LOAD_PDI = 8, LOAD_WORDS = 4 };
    if (slot->insts % XDNA_ELF_ALIGN) {
        return accel_lose(k->out, XDNA_STATE_TIMEOUT,
                          "control code at device address 0x%" PRIx64
                          ", which is no multiple of 16 KiB: the command never ends",
                          slot->insts);
    }
    if (!check_patched(k, slot, p)) {
        return false;
    }
    const uint8_t * code = accel_device_memory(
        k->dev, k->job->context->file->heap_bytes + p->insts_at, 4 * (size_t) p->words);
    const uint8_t * load = code + 4 * HEADER_WORDS;
    if (p->words < HEADER_WORDS + LOAD_WORDS || (load_u32(load) & 0xffff) != LOAD_PDI) {
        return accel_lose(k->out, XDNA_STATE_ERROR, "control code that does not begin with a PDI");
    }
    p->pdi_size = load_u32(load + 4);
    uint64_t address = load_u64(load + 8);
    if (!in_heap(k, address, p->pdi_size, &p->pdi_at)) {
        return accel_lose(k->out, XDNA_STATE_ERROR,
                          "control code with a PDI of %zu bytes at device address 0x%" PRIx64
                          ", which is in no DEV buffer that was named",
                          p->pdi_size, address);
    }
    return true;
}

static bool read_slot(struct accel_slots * k, const struct accel_slot * slot, struct program * p) {
    switch (slot->opcode) {
    case XDNA_OP_START_CU:
        return start_cu(k, slot, p);
    case XDNA_OP_START_NPU_PREEMPT_ELF:
        return start_elf(k, slot, p);
    default:
        return start_npu(k, slot, p);
    }
}

// ---- running it ----

static bool run_slot(struct accel_slots * k, const struct accel_slot * slot) {
    const struct accel_settings * s = &k->dev->settings;
    struct accel_context * x = k->job->context;
    struct program p = {.n_operands = 0};
    trace_slot(k, slot);
    if (!read_slot(k, slot, &p) || !ready_machine(k)) {
        return false;
    }
    uint8_t * heap = x->file->heap_bytes;
    const uint8_t * pdi = accel_device_memory(k->dev, heap + p.pdi_at, p.pdi_size);
    const uint8_t * insts = accel_device_memory(k->dev, heap + p.insts_at, 4 * (size_t) p.words);
    struct error err = {0};
    struct emu_counters counters;
    x->aperture = slot->opcode == XDNA_OP_START_CU ? 0 : XDNA_SHIM_APERTURE;
    emu_machine_pdi_at(x->machine, heap + p.pdi_at);
    enum status st =
        emu_machine_run(x->machine, pdi, p.pdi_size, (const uint32_t *) (const void *) insts,
                        p.words, p.operands, p.n_operands, &err);
    emu_machine_counters(x->machine, &counters);
    uint64_t cycles = emu_account_cycles(&counters.last_account);
    k->out->ms += (double) cycles / (double) s->mhz / 1000;
    accel_time_pass(cycles * 1000 / s->mhz);
    if (st == ST_OK) {
        return true;
    }
    // The firmware refuses what it can read and cannot do. What goes wrong in the array itself, be
    // it a deadlock or a fault of the IOMMU, means a token that never comes, until the driver's
    // watchdog ends it.
    bool stuck = st == ST_DEVICE;
    k->out->operation = counters.last_ended;
    return accel_lose(k->out, stuck ? XDNA_STATE_TIMEOUT : XDNA_STATE_ERROR, "%s", err.text);
}

// ETIME is a command that is stuck, ECANCELED a channel to the firmware that is gone.
static bool play_fault(struct accel_outcome * out, int fault) {
    return accel_lose(out,
                      fault == ETIME       ? XDNA_STATE_TIMEOUT
                      : fault == ECANCELED ? XDNA_STATE_ABORT
                                           : XDNA_STATE_ERROR,
                      "a fault is played: %s", strerrorname_np(fault));
}

void accel_firmware_run(struct accel_device * dev, struct accel_job * job,
                        struct accel_outcome * out) {
    struct accel_slots k = {.dev = dev, .job = job, .out = out};
    bool ok = accel_slots_read(&k);
    int fault = 0;
    accel_time_pass(dev->settings.clock.submit_ns);
    for (uint32_t i = 0; i < k.n && ok; i++) {
        fault = accel_fault(dev, "COMMAND");
        pthread_mutex_unlock(&dev->lock);
        ok = fault ? play_fault(out, fault) : run_slot(&k, k.slots[i]);
        pthread_mutex_lock(&dev->lock);
        out->index = i;
        out->commands += ok;
    }
    if (ok) {
        out->state = XDNA_STATE_COMPLETED;
    } else if (out->state == XDNA_STATE_TIMEOUT) {
        out->ms += (double) dev->settings.watchdog_ms;
    }
    accel_slots_free(&k);
}

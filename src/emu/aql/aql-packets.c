// aql-packets: what each kind of packet asks for: kernels, and barriers on signals. A packet that
// fails changes nothing; what it wanted is refused with the field and the limit.
#include "emu/aql/aql.h"

#include <hsa/hsa_ext_amd.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPS = 5, FORMAT_BARRIER_VALUE = 2, MAX_GROUP = 1024 };

// ---- barriers ----

struct barrier {
    struct aql * queue;
    uint64_t signals[MAX_DEPS];
    int n;
    bool any; // one of them is enough
    int64_t mask, compare;
    uint32_t condition;
};

bool aql_condition_holds(uint32_t condition, int64_t value, int64_t compare) {
    switch (condition) {
    case HSA_SIGNAL_CONDITION_EQ:
        return value == compare;
    case HSA_SIGNAL_CONDITION_NE:
        return value != compare;
    case HSA_SIGNAL_CONDITION_LT:
        return value < compare;
    case HSA_SIGNAL_CONDITION_GTE:
        return value >= compare;
    default:
        return true; // no such condition: waiting for it would never end
    }
}

static bool barrier_holds(void * arg) {
    const struct barrier * b = arg;
    const struct aql_config * c = aql_config_of(b->queue);
    int done = 0;
    for (int i = 0; i < b->n; i++) {
        int64_t value;
        // One that was destroyed meanwhile had been satisfied for someone.
        done += !c->owner->peek(c->user, b->signals[i], &value) ||
                aql_condition_holds(b->condition, value & b->mask, b->compare);
    }
    return (b->any ? done > 0 || b->n == 0 : done == b->n) || aql_stopping(b->queue);
}

static enum aql_fault add_signal(struct barrier * b, uint64_t signal, struct error * err) {
    const struct aql_config * c = aql_config_of(b->queue);
    if (signal == 0) {
        return AQL_OK;
    }
    if (!c->owner->is_signal(c->user, signal)) {
        error_set(err, ST_INVALID, "dependent signal 0x%" PRIx64 " is none", signal);
        return AQL_BAD_SIGNAL;
    }
    b->signals[b->n++] = signal;
    return AQL_OK;
}

static enum aql_fault wait_at(struct barrier * b, enum aql_fault fault) {
    const struct aql_config * c = aql_config_of(b->queue);
    if (fault == AQL_OK) {
        c->owner->sleep(c->user, barrier_holds, b);
    }
    return fault;
}

static enum aql_fault run_barrier(struct aql * q, const hsa_barrier_and_packet_t * p, bool any,
                                  struct error * err) {
    struct barrier b = {.queue = q, .any = any, .mask = -1, .condition = HSA_SIGNAL_CONDITION_EQ};
    enum aql_fault fault = AQL_OK;
    for (int i = 0; i < MAX_DEPS && fault == AQL_OK; i++) {
        fault = add_signal(&b, p->dep_signal[i].handle, err);
    }
    return wait_at(&b, fault);
}

static enum aql_fault run_vendor(struct aql * q, const hsa_amd_barrier_value_packet_t * p,
                                 struct error * err) {
    const struct aql_config * c = aql_config_of(q);
    if (p->header.AmdFormat != FORMAT_BARRIER_VALUE) {
        if (c->owner->vendor) {
            return c->owner->vendor(c->user, (const uint8_t *) p, err);
        }
        error_set(err, ST_UNSUPPORTED,
                  "vendor packet of format %d; only barriers on a value (%d) "
                  "are emulated",
                  p->header.AmdFormat, FORMAT_BARRIER_VALUE);
        return AQL_BAD_VENDOR;
    }
    if (p->cond > HSA_SIGNAL_CONDITION_GTE) {
        error_set(err, ST_INVALID, "barrier on condition %" PRIu32, p->cond);
        return AQL_BAD_VENDOR;
    }
    struct barrier b = {.queue = q, .mask = p->mask, .compare = p->value, .condition = p->cond};
    return wait_at(&b, add_signal(&b, p->signal.handle, err));
}

// ---- kernels ----

static enum aql_fault check_dispatch(const struct aql_config * c,
                                     const hsa_kernel_dispatch_packet_t * p, struct error * err) {
    uint32_t group[3] = {p->workgroup_size_x, p->workgroup_size_y, p->workgroup_size_z};
    uint32_t grid[3] = {p->grid_size_x, p->grid_size_y, p->grid_size_z};
    uint32_t dims = p->setup & 3;
    uint64_t items = 1;
    for (int i = 0; i < 3; i++) {
        if (group[i] == 0 || grid[i] == 0) {
            error_set(err, ST_INVALID, "dimension %d: a grid of %" PRIu32 " in groups of %" PRIu32,
                      i, grid[i], group[i]);
            return AQL_BAD_DIMENSIONS;
        }
        items *= group[i];
    }
    if (dims == 0) {
        error_set(err, ST_INVALID, "a grid of no dimensions; there are 1 to 3");
        return AQL_BAD_DIMENSIONS;
    }
    if (items > MAX_GROUP) {
        error_set(err, ST_INVALID, "groups of %" PRIu64 " work-items; at most %d fit", items,
                  MAX_GROUP);
        return AQL_BAD_GROUP;
    }
    if (p->group_segment_size > c->lds_bytes) {
        error_set(err, ST_INVALID, "%" PRIu32 " bytes of group memory; a group has %" PRIu32,
                  p->group_segment_size, c->lds_bytes);
        return AQL_BAD_GROUP_MEMORY;
    }
    return AQL_OK;
}

uint64_t aql_fault_address(const char * text) {
    const char * at = strstr(text, " bytes at 0x");
    return at ? strtoull(at + strlen(" bytes at "), NULL, 16) : UINT64_MAX;
}

// The machine says in words what the code did wrong; only accesses name an address.
static enum aql_fault fault_of(enum status st, const struct error * err) {
    switch (st) {
    case ST_OK:
        return AQL_OK;
    case ST_INVALID:
        return AQL_BAD_CODE;
    case ST_NO_MEMORY:
        return AQL_NO_RESOURCES;
    default:
        return aql_fault_address(err->text) != UINT64_MAX ? AQL_MEMORY_FAULT : AQL_ILLEGAL;
    }
}

static enum aql_fault run_kernel(struct aql * q, const hsa_kernel_dispatch_packet_t * p,
                                 const uint8_t * slot, struct error * err) {
    const struct aql_config * c = aql_config_of(q);
    enum aql_fault fault = check_dispatch(c, p, err);
    if (fault == AQL_OK && c->owner->before) {
        fault = c->owner->before(c->user, p, err);
    }
    if (fault != AQL_OK || aql_stopping(q)) {
        return fault;
    }
    const struct gfx_dispatch d = {
        .kernel_object = p->kernel_object,
        .kernarg = (uint64_t) (uintptr_t) p->kernarg_address,
        .packet = c->address + (uint64_t) (slot - c->ring),
        .grid = {p->grid_size_x, p->grid_size_y, p->grid_size_z},
        .group = {p->workgroup_size_x, p->workgroup_size_y, p->workgroup_size_z},
        .group_bytes = p->group_segment_size,
        .private_bytes = p->private_segment_size,
    };
    fault = fault_of(gfx_run(c->gpu, &d, err), err);
    if (c->owner->after) {
        c->owner->after(c->user, p);
    }
    return fault;
}

// ---- all of them ----

enum aql_fault aql_run(struct aql * q, const uint8_t * slot, uint32_t type, uint64_t * completion,
                       struct error * err) {
    const struct aql_config * c = aql_config_of(q);
    union { // a copy: what was checked must be what is used
        hsa_kernel_dispatch_packet_t kernel;
        hsa_barrier_and_packet_t barrier;
        hsa_amd_barrier_value_packet_t value;
        uint8_t bytes[AQL_PACKET_BYTES];
    } p;
    memcpy(p.bytes, slot, sizeof p);
    *completion = p.kernel.completion_signal.handle; // all kinds have it in the same place
    if (*completion && !c->owner->is_signal(c->user, *completion)) {
        error_set(err, ST_INVALID, "completion signal 0x%" PRIx64 " is none", *completion);
        return AQL_BAD_SIGNAL;
    }
    switch (type) {
    case HSA_PACKET_TYPE_KERNEL_DISPATCH:
        return run_kernel(q, &p.kernel, slot, err);
    case HSA_PACKET_TYPE_BARRIER_AND:
    case HSA_PACKET_TYPE_BARRIER_OR:
        return run_barrier(q, &p.barrier, type == HSA_PACKET_TYPE_BARRIER_OR, err);
    case HSA_PACKET_TYPE_VENDOR_SPECIFIC:
        return run_vendor(q, &p.value, err);
    default:
        error_set(err, ST_INVALID, "a packet of type %" PRIu32 " in a GPU queue", type);
        return AQL_BAD_FORMAT;
    }
}

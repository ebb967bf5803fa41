// dispatch: kernels sent to a NPU. Code that a dispatch may still read is pinned, and shadows are
// held, until the queue has drained.
#include "dispatch.h"

#include "aie/image/image.h"
#include "steps.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static enum status set_idle(struct hsac_agent * agent, enum aie_arch arch, struct error * err) {
    uint32_t * insts;
    size_t n;
    enum status st = txn_idle(arch, &insts, &n, err);
    if (st == ST_OK) {
        st = hsac_agent_set_idle(agent, insts, n, err);
        free(insts);
    }
    return st;
}

enum status npu_stream_begin(struct hsa_stream * s, struct error * err) {
    enum status st = set_idle(s->device->agent, s->device->npu->arch, err);
    if (st != ST_OK) {
        return st;
    }
    s->npu = calloc(1, sizeof *s->npu);
    if (!s->npu) {
        return error_set(err, ST_NO_MEMORY, "no memory for a stream");
    }
    s->npu->names =
        hsac_agent_traces(s->device->agent) ? calloc(MAX_IN_FLIGHT, sizeof *s->npu->names) : NULL;
    s->npu->kept = kept_new();
    s->npu->route = route_new();
    s->npu->join = env_flag("GGML_HSA_JOIN", true) ? join_new() : NULL;
    return ST_OK;
}

void npu_stream_end(struct hsa_stream * s) {
    steps_room_free(s);
    kept_free(s->npu->kept);
    route_free(s->npu->route);
    join_free(s->npu->join, s->device->agent);
    free(s->npu->names);
    free(s->npu);
}

enum status npu_stream_flush(struct hsa_stream * s, struct error * err) {
    return join_send(s, err);
}

void npu_stream_settled(struct hsa_stream * s) {
    struct npu_stream * sent = s->npu;
    join_settled(s);
    kept_void(sent->kept); // who waits has the host do something, or scratch is given back
    code_release(&s->device->npu->code, sent->pins, sent->n_pins);
    for (size_t i = 0; i < sent->n_pins; i++) {
        store_put(s->device->npu->store, sent->kernels[i]);
    }
    sent->n_pins = 0;
    for (size_t i = 0; i < sent->n_held; i++) {
        shadow_release(sent->held[i]);
    }
    sent->n_held = 0;
    sent->n_written = 0;
    for (size_t i = 0; i < sent->n_shared; i++) {
        hsac_host_begin(s->device->agent, sent->shared[i].at, sent->shared[i].size);
    }
    sent->n_shared = 0;
}

// Programs write and read memory of the host type without telling us. It is treated as if they did
// so just before a kernel that uses it is sent, and again when that kernel is complete.
static void share(struct hsa_stream * s, const struct hsac_dispatch * d) {
    struct npu_stream * sent = s->npu;
    for (int i = 0; i < d->n_operands; i++) {
        if (hsac_agent_is_host(s->device->agent, d->operands[i].addr)) {
            hsac_host_end(s->device->agent, d->operands[i].addr, d->operands[i].size);
            if (i == d->n_operands - 1) { // the result
                sent->shared[sent->n_shared].at = d->operands[i].addr;
                sent->shared[sent->n_shared++].size = d->operands[i].size;
            }
        }
    }
}

void npu_written(struct hsa_stream * s, const void * begin, size_t bytes) {
    struct npu_stream * sent = s->npu;
    if (s->in_flight) {
        if (sent->n_written < MAX_WRITTEN) {
            sent->written[sent->n_written].begin = begin;
            sent->written[sent->n_written].end = (const char *) begin + bytes;
        }
        sent->n_written++;
    }
    mat_forget(s, begin, bytes);
    rope_forget(s, begin, bytes);
}

bool npu_is_pending(const struct hsa_stream * s, const void * begin, size_t bytes) {
    const struct npu_stream * sent = s->npu;
    const char * at = begin;
    bool pending = sent->n_written > MAX_WRITTEN;
    for (size_t i = 0; i < sent->n_written && !pending; i++) {
        pending = at < sent->written[i].end && sent->written[i].begin < at + bytes;
    }
    return pending;
}

void npu_hold(struct hsa_stream * s, struct shadow * shadow) {
    if (shadow) {
        assert(s->npu->n_held < MAX_HELD); // a dispatch was sent, and left room
        s->npu->held[s->npu->n_held++] = shadow;
    }
}

// "MUL_MAT ffn_up-3", and behind a line end the kernel.
static const char * name_of(struct hsa_stream * s, struct store_kernel * kernel, size_t i) {
    char program[KERNEL_NAME_MAX];
    if (!s->npu->names) {
        return NULL;
    }
    store_program_name(kernel, program);
    snprintf(s->npu->names[i], sizeof s->npu->names[i], "%s%s%.48s\n%.100s",
             s->node ? op_label(s->node) : "kernel", s->node && s->node->name[0] ? " " : "",
             s->node ? s->node->name : "", program);
    return s->npu->names[i];
}

enum status npu_send(struct hsa_stream * s, struct store_kernel * kernel, struct hsac_dispatch * d,
                     uint64_t us, struct error * err) {
    struct npu * npu = s->device->npu;
    struct npu_stream * sent = s->npu;
    bool full = sent->n_pins == MAX_IN_FLIGHT || sent->n_shared == MAX_SHARED ||
                sent->n_held + JOIN_MOST_PARTS > MAX_HELD;
    enum status st = full ? stream_wait(s, err) : ST_OK;
    struct code_stream * pin;
    st = st == ST_OK && sent->gather ? join_room(s, err) : st;
    if (st == ST_OK) {
        st = code_acquire(&npu->code, kernel, sent->n_pins > 0, d, &pin, err);
        if (st == ST_NO_MEMORY && sent->n_pins > 0) {
            st = stream_wait(s, err);
            join_forget(sent->join, s->device->agent);
            st = st == ST_OK ? code_acquire(&npu->code, kernel, false, d, &pin, err) : st;
        }
    }
    if (st != ST_OK) {
        store_put(npu->store, kernel);
        return st;
    }
    share(s, d);
    d->us += us;
    d->name = name_of(s, kernel, sent->n_pins);
    sent->kernels[sent->n_pins] = kernel;
    sent->pins[sent->n_pins++] = pin;
    s->in_flight = true; // both pins are given back when the stream is waited for
    st = join_add(s, kernel, d, sent->gather, err);
    if (st == ST_OK) { // one that was refused has touched nothing: the CPU may compute the node
        s->sent++;
        sent->on_decoder = kernel->decoder != STORE_NO_DECODER;
        atomic_fetch_add(&s->device->dispatches, 1);
    }
    return st;
}

// "mul_mat_blocks 2048x512 of 288x2048 i32, 2048x512 bf16: mul_mat_bf16_gemm"
static uint32_t row_of(struct profile * p, const struct kernel_spec * spec,
                       struct store_kernel * kernel) {
    char name[128], program[KERNEL_NAME_MAX];
    int n = snprintf(name, sizeof name, "%s", kernel_op_name(spec->op));
    for (int i = -1; i < spec->n_inputs; i++) {
        const struct tensor * t = i < 0 ? &spec->output : &spec->inputs[i];
        int dims = TENSOR_DIMS;
        while (dims > 1 && t->ne[dims - 1] == 1) {
            dims--;
        }
        for (int d = 0; d < dims && n < (int) sizeof name; d++) {
            const char * before = d ? "x" : i < 0 ? " " : i ? ", " : " of ";
            n += snprintf(name + n, sizeof name - (size_t) n, "%s%lld", before,
                          (long long) t->ne[d]);
        }
        if (i >= 0 && n < (int) sizeof name) {
            n += snprintf(name + n, sizeof name - (size_t) n, " %s", dtype_name(t->dtype));
        }
    }
    store_program_name(kernel, program);
    if (n < (int) sizeof name) {
        snprintf(name + n, sizeof name - (size_t) n, ": %s", program);
    }
    return profile_kernel(p, name);
}

// Bytes of an operand. What is taken of a panel's rows is chunks that follow each other, where rows
// that go on behind it would lie apart.
static uint64_t bytes_of(const struct kernel_spec * spec, int operand) {
    const struct tensor * t = operand < spec->n_inputs ? &spec->inputs[operand] : &spec->output;
    bool blocks = spec->op == KERNEL_OP_MUL_MAT_BLOCKS && operand == 0;
    int64_t rows = blocks ? kernel_panel_of(spec).rows : 0, bytes = tensor_bytes(t);
    if (rows && t->ne[1] > 1) {
        bytes -= (rows - 1) * (t->nb[1] - t->ne[0] * dtype_size(t->dtype));
    }
    return GGML_PAD((uint64_t) bytes, DMA_WORD);
}

enum status npu_dispatch(struct hsa_stream * s, const struct kernel_spec * spec,
                         char * const addr[PLAN_OPERANDS], struct error * err) {
    struct store_kernel * kernel;
    enum status st = store_get(s->device->npu->store, spec, &kernel, err);
    if (st != ST_OK) {
        return st;
    }
    struct hsac_dispatch d = {.n_operands = spec->n_inputs + 1, .tag = s->row};
    if (profile_is_each(s->device->profile)) {
        d.tag = row_of(s->device->profile, spec, kernel);
    }
    for (int i = 0; i < d.n_operands; i++) {
        const struct tensor * t = i < spec->n_inputs ? &spec->inputs[i] : &spec->output;
        // The address of an absent input is never read, but must be a valid one.
        bool absent = tensor_elements(t) == 0;
        d.operands[i].addr = addr[absent ? 0 : i];
        d.operands[i].size = absent ? DMA_WORD : bytes_of(spec, i);
    }
    uint64_t us = kernel->us; // who sends it may give it back
    st = npu_send(s, kernel, &d, us, err);
    if (st == ST_OK) {
        kept_sent(s->npu->kept, kernel, &d, us);
    }
    return st;
}

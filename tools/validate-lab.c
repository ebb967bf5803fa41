// validate-lab: the device as a laboratory. Streams and PDIs of our own go to it through the same
// client as kernels do, and the time that passes meanwhile is asked of HSA's clock and of nothing
// else.
//
// Kept true: a measurement is the median of `repeats` runs, each behind one that is not counted, so
// that what has to be loaded is there.
#include "validate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUFFER_BYTES = 16 << 20,
    TOUCHED_BYTES = 64 << 10, // by all but those that measure memory
    STREAM_BYTES = 256 << 10,
    REPEATS = 9, // on a device whose times vary
    MOST_REPEATS = 16,
    ENOUGH = 2, // of them, if they are equal
};
#define EQUAL 0.0005

static enum status find_agent(struct validate * v, struct error * err) {
    int n = hsac_agent_count(v->lab.h);
    if (v->device >= n) {
        return error_set(err, ST_NOT_FOUND,
                         "there is no device %d: this runtime has %d, from 0 on; ggml-hsa info "
                         "shows them",
                         v->device, n);
    }
    v->lab.agent = hsac_agent_get(v->lab.h, v->device);
    return ST_OK;
}

static enum status open_npu(struct validate * v, struct error * err) {
    struct lab * l = &v->lab;
    if (!kernel_arch_parse(hsac_agent_name(l->agent), &l->arch)) {
        return error_set(err, ST_UNSUPPORTED, "%s: no kernels are made for this NPU",
                         hsac_agent_name(l->agent));
    }
    l->target = aie_target(l->arch);
    int columns = hsac_agent_columns(l->agent);
    l->columns = columns && columns < l->target->columns ? columns : l->target->columns;
    l->repeats = v->emulated ? 1 : REPEATS;
    enum status st = hsac_agent_check(l->agent, err);
    if (st == ST_OK) {
        st = hsac_queue_new(l->agent, &l->queue, err);
    }
    l->buffer_bytes = BUFFER_BYTES;
    l->touched = TOUCHED_BYTES;
    l->stream_bytes = STREAM_BYTES;
    for (int i = 0; i < LAB_BUFFERS && st == ST_OK; i++) {
        l->buffers[i] = hsac_alloc(l->agent, HSAC_POOL_DATA, l->buffer_bytes);
        st = l->buffers[i]
                 ? hsac_fill(l->agent, l->buffers[i], 0, l->buffer_bytes, err)
                 : error_set(err, ST_NO_MEMORY, "no device memory for %d MiB", BUFFER_BYTES >> 20);
    }
    if (st == ST_OK) {
        l->stream = hsac_alloc(l->agent, HSAC_POOL_STREAM, l->stream_bytes);
        uint32_t * idle = NULL;
        size_t n = 0;
        st = !l->stream ? error_set(err, ST_NO_MEMORY, "no device memory for streams")
                        : txn_idle(l->arch, &idle, &n, err);
        if (st == ST_OK) {
            st = hsac_agent_set_idle(l->agent, idle, n, err);
        }
        free(idle);
    }
    return st;
}

enum status lab_open(struct validate * v, struct error * err) {
    struct lab * l = &v->lab;
    enum status st = hsac_open(&l->h, err);
    if (st == ST_OK) {
        st = find_agent(v, err);
    }
    if (st != ST_OK) {
        return st;
    }
    struct hsac_driver driver;
    v->emulated = hsac_is_emulated(l->h);
    v->native = hsac_is_native(l->h);
    v->gpu = hsac_agent_kind(l->agent) == HSAC_GPU;
    snprintf(v->runtime, sizeof v->runtime, "%s", hsac_runtime_path(l->h));
    snprintf(v->known_as, sizeof v->known_as, "%s", hsac_runtime_known_as(l->h));
    snprintf(v->agent, sizeof v->agent, "%s", hsac_agent_name(l->agent));
    snprintf(v->product, sizeof v->product, "%s", hsac_agent_product(l->agent));
    if (hsac_agent_driver(l->agent, &driver)) {
        snprintf(v->driver, sizeof v->driver, "%s, %s", driver.path, driver.driver);
    }
    st = v->gpu ? ST_OK : open_npu(v, err);
    v->arch = l->arch;
    v->columns = l->columns;
    return st;
}

void lab_close(struct lab * l) {
    if (l->queue) {
        hsac_queue_free(l->queue);
    }
    for (int i = 0; i < LAB_BUFFERS && l->agent; i++) {
        hsac_free(l->agent, l->buffers[i]);
    }
    if (l->agent) {
        hsac_free(l->agent, l->stream);
    }
    if (l->h) {
        hsac_close(l->h);
    }
    *l = (struct lab){0};
}

// ---- PDIs ----

static bool count(void * user, const struct image_command * c) {
    struct lab_pdi * p = user;
    p->commands++;
    // Words behind the command's own: address, value and mask; of a block two and its content.
    p->words += c->op == IMAGE_WRITE         ? 2
                : c->op == IMAGE_MASK_WRITE  ? 3
                : c->op == IMAGE_BLOCK_WRITE ? 2 + c->n_words
                                             : c->n_words;
    return true;
}

enum status lab_place(struct lab * l, uint8_t * pdi, size_t size, struct lab_pdi * out,
                      struct error * err) {
    *out = (struct lab_pdi){.bytes = pdi, .size = size};
    enum status st = pdi_read(pdi, size, count, out, err);
    out->at = st == ST_OK ? hsac_alloc(l->agent, HSAC_POOL_DEV, size) : NULL;
    if (st == ST_OK && !out->at) {
        st = error_set(err, ST_NO_MEMORY, "no device memory for a PDI of %zu bytes", size);
    }
    if (st == ST_OK) {
        st = hsac_write(l->agent, out->at, pdi, size, err);
    }
    if (st != ST_OK) {
        lab_unplace(l, out);
    }
    return st;
}

void lab_unplace(struct lab * l, struct lab_pdi * p) {
    if (p->at && hsac_agent_forget_pdi(l->agent, p->at)) {
        hsac_free(l->agent, p->at);
    }
    free(p->bytes);
    *p = (struct lab_pdi){0};
}

// ---- runs ----

void lab_begin(const struct lab * l, struct txn * t) {
    txn_begin(t, l->columns, l->target->device_generation);
}

static enum status once(struct lab * l, const struct lab_pdi * const * pdis, int n_pdis,
                        size_t n_words, int n, double * ns, struct error * err) {
    struct hsac_dispatch d = {
        .insts = l->stream,
        .n_insts = (uint32_t) n_words,
        .us = 10,
        .tag = 1,
        .n_operands = LAB_BUFFERS,
    };
    for (int i = 0; i < LAB_BUFFERS; i++) {
        d.operands[i].addr = l->buffers[i];
        d.operands[i].size = l->touched;
    }
    enum status st = ST_OK;
    uint64_t start = hsac_time_ns(l->h);
    for (int i = 0; i < n && st == ST_OK; i++) {
        d.pdi = pdis[i % n_pdis]->at;
        d.pdi_size = pdis[i % n_pdis]->size;
        st = hsac_queue_dispatch(l->queue, &d, err);
    }
    enum status waited = hsac_queue_wait(l->queue, st == ST_OK ? err : NULL);
    *ns = (double) (hsac_time_ns(l->h) - start);
    return st == ST_OK ? waited : st;
}

static int by_size(const void * a, const void * b) {
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static enum status put_stream(struct lab * l, struct txn * t, size_t * n_words,
                              struct error * err) {
    uint32_t * insts = NULL;
    enum status st = txn_end(t, &insts, n_words, err);
    if (st == ST_OK && 4 * *n_words > l->stream_bytes) {
        st = error_set(err, ST_INVALID, "a stream of %zu words is too long", *n_words);
    }
    if (st == ST_OK) {
        st = hsac_write(l->agent, l->stream, insts, 4 * *n_words, err);
    }
    free(insts);
    return st;
}

enum status lab_cold(struct lab * l, const struct lab_pdi * pdi, struct txn * t, double * ns,
                     struct error * err) {
    size_t n_words = 0;
    enum status st = put_stream(l, t, &n_words, err);
    return st == ST_OK ? once(l, &pdi, 1, n_words, 1, ns, err) : st;
}

enum status lab_turns(struct lab * l, const struct lab_pdi * const * pdis, int n_pdis,
                      struct txn * t, int n, double * ns, struct error * err) {
    size_t n_words = 0;
    double all[MOST_REPEATS];
    size_t n_all = 0;
    enum status st = put_stream(l, t, &n_words, err);
    // The first run has the PDI loaded, and whatever else is slow the first time.
    for (int i = 0; i <= l->repeats && st == ST_OK; i++) {
        double took;
        st = once(l, pdis, n_pdis, n_words, n, &took, err);
        all[i ? i - 1 : 0] = took;
        n_all = i ? i : 1;
        if (i >= ENOUGH && fabs(took - all[0]) <= EQUAL * took) {
            break;
        }
    }
    if (st == ST_OK) {
        qsort(all, n_all, sizeof all[0], by_size);
        *ns = all[n_all / 2];
    }
    return st;
}

enum status lab_run(struct lab * l, const struct lab_pdi * pdi, struct txn * t, int n, double * ns,
                    struct error * err) {
    return lab_turns(l, &pdi, 1, t, n, ns, err);
}

enum status lab_fill(struct lab * l, int buffer, uint8_t value, size_t bytes, struct error * err) {
    return hsac_fill(l->agent, l->buffers[buffer], value, bytes, err);
}

enum status lab_get(struct lab * l, int buffer, void * to, size_t bytes, struct error * err) {
    return hsac_read(l->agent, to, l->buffers[buffer], bytes, err);
}

// async: copies to, from and between devices that ggml need not wait for, and its events. On a GPU
// they go through the stream's queue (hsa/async.c): behind what was sent before, ahead of what is
// sent after, on the device's own time. A graph is another matter: it is complete when
// graph_compute returns, so that a fault is the status of the graph that had it, and a copy that
// fails ahead of it as well.
//
// A NPU shares its memory with the host, so that a copy is done at once, and an event is recorded
// when everything before it is complete.
//
// Kept true: memory of the program is its own again on return. Only a buffer of the device's host
// type is read and written while a copy is under way, until the stream, or an event that was
// recorded behind the copy, is synchronized.
#include "backend/stream.h"

#include <stdlib.h>

static struct hsa_stream * stream_of(ggml_backend_t backend) {
    return (struct hsa_stream *) backend;
}

// ggml has no way to say that these failed. The bytes are lost (hsa/lost.c): a graph that uses them
// says so.
static void complain(const struct hsa_stream * s, const char * what, const char * of,
                     const struct error * err) {
    log_error("%s: %s%s: %s", s->device->name, what, of, err->text);
}

// Does the tensor lie in memory of the stream's GPU that the host does not see?
static bool is_own(const struct hsa_stream * s, const struct ggml_tensor * tensor) {
    struct hsac_agent * agent = NULL;
    return s->device->gpu && buffer_find(tensor, &agent) && agent == s->device->agent;
}

// ---- copies ----

// Where the queue is not asked, what it was sent comes first.
static void settle(ggml_backend_t backend) {
    if (stream_of(backend)->in_flight) {
        ggml_backend_synchronize(backend);
    }
}

void stream_set_tensor_async(ggml_backend_t backend, struct ggml_tensor * tensor, const void * data,
                             size_t offset, size_t size) {
    struct hsa_stream * s = stream_of(backend);
    struct error err = {0};
    if (!is_own(s, tensor)) {
        settle(backend);
        buffer_set_tensor(NULL, tensor, data, offset, size);
        return;
    }
    s->in_flight = true;
    buffer_written(tensor, offset, size);
    if (hsac_queue_write(s->queue, (char *) tensor->data + offset, data, size, &err) != ST_OK) {
        complain(s, "writing ", tensor->name, &err);
    }
}

void stream_get_tensor_async(ggml_backend_t backend, const struct ggml_tensor * tensor, void * data,
                             size_t offset, size_t size) {
    struct hsa_stream * s = stream_of(backend);
    struct error err = {0};
    if (!is_own(s, tensor)) {
        settle(backend);
        buffer_get_tensor(NULL, tensor, data, offset, size);
        return;
    }
    s->in_flight = true;
    if (hsac_queue_read(s->queue, data, (const char *) tensor->data + offset, size, &err) !=
        ST_OK) {
        complain(s, "reading ", tensor->name, &err);
    }
}

// What `to` is sent from now on begins when what `from` was sent so far is complete.
static enum status hand_over(struct hsa_stream * from, struct hsa_stream * to, struct error * err) {
    struct hsac_mark * m = NULL;
    enum status st = from == to ? ST_OK : hsac_queue_mark(from->queue, &m, err);
    st = st == ST_OK ? hsac_queue_after(to->queue, m, err) : st;
    to->in_flight = to->in_flight || m;
    hsac_mark_free(m);
    return st;
}

// Memory of the CPU backend, which computes at once, may be overwritten by its next graph: the
// bytes are taken before this returns.
static bool copy_from_host(ggml_backend_t from, struct hsa_stream * to,
                           const struct ggml_tensor * src, struct ggml_tensor * dst) {
    struct error err = {0};
    struct hsac_agent * agent = NULL;
    if (ggml_backend_dev_type(ggml_backend_get_device(from)) != GGML_BACKEND_DEVICE_TYPE_CPU ||
        !buffer_find(src, &agent) || agent || buffer_npu(src)) {
        return false;
    }
    to->in_flight = true;
    buffer_written(dst, 0, ggml_nbytes(src));
    if (hsac_queue_take(to->queue, dst->data, src->data, ggml_nbytes(src), &err) != ST_OK) {
        complain(to, "writing ", dst->name, &err);
    }
    return true;
}

// False: ggml waits for both, and copies then. What the source's stream is sent afterwards may
// overwrite the source, and so waits for the copy.
bool stream_cpy_tensor_async(ggml_backend_t backend_src, ggml_backend_t backend_dst,
                             const struct ggml_tensor * src, struct ggml_tensor * dst) {
    struct hsa_stream * to = stream_of(backend_dst);
    struct error err = {0};
    size_t size = ggml_nbytes(src);
    if (!ggml_backend_is_hsa(backend_dst) || !is_own(to, dst)) {
        return false;
    }
    if (!ggml_backend_is_hsa(backend_src)) {
        return copy_from_host(backend_src, to, src, dst);
    }
    struct hsa_stream * from = stream_of(backend_src);
    bool apart = (char *) dst->data + size <= (char *) src->data ||
                 (char *) src->data + size <= (char *) dst->data;
    if (!is_own(from, src) || !apart) { // a copy engine may begin anywhere
        return false;
    }
    enum status st = hand_over(from, to, &err);
    st = st == ST_OK
             ? hsac_queue_copy(to->queue, dst->data, from->device->agent, src->data, size, &err)
             : st;
    if (st == ST_UNSUPPORTED) {
        return false;
    }
    to->in_flight = true;
    buffer_written(dst, 0, size);
    st = st == ST_OK ? hand_over(to, from, &err) : st;
    if (st != ST_OK) {
        complain(to, "copying ", dst->name, &err);
    }
    return true;
}

// ---- events: the mark of what was sent before them; none is one that was reached ----

void stream_event_record(ggml_backend_t backend, ggml_backend_event_t event) {
    struct hsa_stream * s = stream_of(backend);
    struct hsac_mark * m = NULL;
    struct error err = {0};
    if (!s->device->gpu) {
        settle(backend);
    } else if (hsac_queue_mark(s->queue, &m, &err) != ST_OK) {
        complain(s, "recording an event", "", &err);
    }
    hsac_mark_free(event->context);
    event->context = m;
}

void stream_event_wait(ggml_backend_t backend, ggml_backend_event_t event) {
    struct hsa_stream * s = stream_of(backend);
    struct error err = {0};
    s->in_flight = s->in_flight || (s->device->gpu && event->context);
    if (hsac_queue_after(s->queue, event->context, &err) != ST_OK) {
        complain(s, "waiting for an event", "", &err);
    }
}

ggml_backend_event_t event_new(ggml_backend_dev_t dev) {
    ggml_backend_event_t event = calloc(1, sizeof *event);
    if (event) {
        event->device = dev;
    }
    return event;
}

void event_free(ggml_backend_dev_t dev, ggml_backend_event_t event) {
    (void) dev;
    hsac_mark_free(event->context);
    free(event);
}

void event_synchronize(ggml_backend_dev_t dev, ggml_backend_event_t event) {
    struct error err = {0};
    if (hsac_mark_wait(event->context, &err) != ST_OK) {
        log_error("%s: what is before an event failed: %s", ggml_backend_dev_name(dev), err.text);
    }
}

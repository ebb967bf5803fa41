// buffer: memory of a device, as ggml sees it. Both buffer types of a NPU hand out memory that it
// shares with the host. The device's own type still says that it is not host memory: ggml then
// never lets the CPU backend write into it behind the device's back. The host type says that it is.
// A GPU has memory of its own behind the one, and behind the other the host's, which it can reach.
//
// A tensor starts at a multiple of BUFFER_ALIGNMENT and a buffer ends at one, so that the words
// which hold a tensor's odd tail hold nothing else. A graph is complete when graph_compute returns,
// so that reading and writing here waits for nothing. With a buffer goes what was made of the
// weights in it (shadow.c): every write here says so.
#include "backend/npu/mat.h"
#include "backend/npu/panels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hsa_buffer {
    struct hsa_device * device;
    struct hsac_agent * agent; // whose memory it is: the device's, unless it is shared (share.c)
    void * base;
    bool is_host;
    struct shadows shadows;
    struct panels panels;
};

// ---- buffers ----

static void buffer_give_back(struct hsa_buffer * b) {
    if (b->is_host) {
        hsac_free(b->agent, b->base);
    } else {
        share_free(b->device, b->base);
    }
}

static void buffer_free(ggml_backend_buffer_t buffer) {
    struct hsa_buffer * b = buffer->context;
    shadows_free(&b->shadows);
    panels_free(&b->panels);
    buffer_give_back(b);
    free(b);
}

static void * buffer_get_base(ggml_backend_buffer_t buffer) {
    return ((struct hsa_buffer *) buffer->context)->base;
}

// The one that holds the tensor, where it is ours. One of no bytes, as programs make it to ask what
// is supported, has nothing behind it.
static ggml_backend_buffer_t buffer_of(const struct ggml_tensor * tensor) {
    ggml_backend_buffer_t buffer = tensor->view_src ? tensor->view_src->buffer : tensor->buffer;
    return buffer && buffer->iface.get_base == buffer_get_base ? buffer : NULL;
}

struct shadows * buffer_shadows(const struct ggml_tensor * tensor) {
    ggml_backend_buffer_t buffer = buffer_of(tensor);
    struct hsa_buffer * b = buffer ? buffer->context : NULL;
    return b && !b->is_host ? &b->shadows : NULL;
}

struct panels * buffer_panels(const struct ggml_tensor * tensor) {
    ggml_backend_buffer_t buffer = buffer_of(tensor);
    struct hsa_buffer * b = buffer ? buffer->context : NULL;
    return b && !b->is_host && b->device->npu ? &b->panels : NULL;
}

static bool may_be_paneled(const struct ggml_tensor * tensor) {
    struct panels * panels = buffer_panels(tensor);
    return panels && (atomic_load(&panels->count) || buffer_holds_weights(tensor));
}

// Weights are laid out when they are written first: a part of them, or all.
static struct panels * upload_to(const struct ggml_tensor * tensor, size_t size) {
    struct panels * panels = buffer_panels(tensor);
    ggml_backend_buffer_t buffer = buffer_of(tensor);
    if (panels && !tensor->view_src && buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS) {
        struct hsa_buffer * b = buffer->context;
        panels_upload(panels, b->device->npu, tensor, size == ggml_nbytes(tensor));
    }
    return panels;
}

bool buffer_holds_weights(const struct ggml_tensor * tensor) {
    ggml_backend_buffer_t buffer = buffer_of(tensor);
    return buffer && buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

void buffer_written(const struct ggml_tensor * tensor, size_t offset, size_t size) {
    struct shadows * shadows = buffer_shadows(tensor);
    if (shadows) {
        shadows_drop(shadows, (const char *) tensor->data + offset, size);
    }
}

// ggml has no way to say that these failed.
static void complain(const struct ggml_tensor * tensor, const struct error * err) {
    log_error("tensor \"%s\": %s", tensor->name, err->text);
}

// The agent that owns a tensor's memory; NULL for host memory, which the host writes itself.
static struct hsac_agent * agent_of(const struct ggml_tensor * tensor) {
    ggml_backend_buffer_t buffer = buffer_of(tensor);
    struct hsa_buffer * b = buffer ? buffer->context : NULL;
    return b && !b->is_host ? b->agent : NULL;
}

static void buffer_memset_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor,
                                 uint8_t value, size_t offset, size_t size) {
    struct hsac_agent * agent = agent_of(tensor);
    struct panels * panels = size ? upload_to(tensor, size) : NULL;
    struct error err = {0};
    (void) buffer;
    buffer_written(tensor, offset, size);
    if (panels && panels_fill(panels, (char *) tensor->data + offset, value, size)) {
        return;
    }
    if (!agent) {
        memset((char *) tensor->data + offset, value, size);
    } else if (hsac_fill(agent, (char *) tensor->data + offset, value, size, &err) != ST_OK) {
        complain(tensor, &err);
    }
}

void buffer_set_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, const void * data,
                       size_t offset, size_t size) {
    struct hsac_agent * agent = agent_of(tensor);
    struct panels * panels = size ? upload_to(tensor, size) : NULL;
    struct error err = {0};
    (void) buffer;
    buffer_written(tensor, offset, size);
    if (panels && panels_write(panels, (char *) tensor->data + offset, data, size)) {
        return;
    }
    if (!agent) {
        memcpy((char *) tensor->data + offset, data, size);
    } else if (hsac_write(agent, (char *) tensor->data + offset, data, size, &err) != ST_OK) {
        complain(tensor, &err);
    }
}

void buffer_get_tensor(ggml_backend_buffer_t buffer, const struct ggml_tensor * tensor, void * data,
                       size_t offset, size_t size) {
    struct hsac_agent * agent = agent_of(tensor);
    struct panels * panels = buffer_panels(tensor);
    struct error err = {0};
    (void) buffer;
    if (panels && panels_read(panels, (const char *) tensor->data + offset, data, size)) {
        return;
    }
    if (!agent) {
        memcpy(data, (const char *) tensor->data + offset, size);
    } else if (hsac_read(agent, data, (const char *) tensor->data + offset, size, &err) != ST_OK) {
        complain(tensor, &err);
    }
}

// Can the host read what is in the buffer?
static bool host_sees(ggml_backend_buffer_t buffer) {
    if (buffer->iface.get_base != buffer_get_base) {
        return ggml_backend_buffer_is_host(buffer);
    }
    const struct hsa_buffer * b = buffer->context;
    return b->is_host || hsac_agent_kind(b->agent) == HSAC_NPU;
}

bool buffer_find(const struct ggml_tensor * tensor, struct hsac_agent ** agent) {
    ggml_backend_buffer_t buffer = tensor->view_src ? tensor->view_src->buffer : tensor->buffer;
    bool ours = buffer && buffer->iface.get_base == buffer_get_base;
    bool seen = !buffer || host_sees(buffer); // without a buffer it is memory of the program
    *agent = seen || !ours ? NULL : ((struct hsa_buffer *) buffer->context)->agent;
    return seen || ours;
}

// Also of a buffer without bytes, which programs make to ask.
bool buffer_is_on(const struct ggml_tensor * tensor, struct hsa_device * device) {
    ggml_backend_buffer_t buffer = tensor->view_src ? tensor->view_src->buffer : tensor->buffer;
    return buffer && buffer->buft == buft_handle(&device->buft);
}

struct hsac_agent * buffer_npu(const struct ggml_tensor * tensor) {
    ggml_backend_buffer_t buffer = buffer_of(tensor);
    struct hsa_buffer * b = buffer ? buffer->context : NULL;
    return b && hsac_agent_kind(b->agent) == HSAC_NPU ? b->agent : NULL;
}

// They may overlap.
static void move_on_host(const struct ggml_tensor * src, struct ggml_tensor * dst, size_t size) {
    struct hsac_agent *from = buffer_npu(src), *to = buffer_npu(dst);
    if (from) {
        hsac_host_begin(from, src->data, size);
    }
    if (to) {
        hsac_host_begin(to, dst->data, size);
    }
    memmove(dst->data, src->data, size);
    if (to) {
        hsac_host_end(to, dst->data, size);
    }
}

// What comes from another device, by us or by ggml where we say no.
static void count_copy(ggml_backend_buffer_t from, ggml_backend_buffer_t to, size_t size) {
    const struct hsa_buffer *a = from->context, *b = to->context;
    if (from->iface.get_base == buffer_get_base && !a->is_host && a->device != b->device) {
        atomic_fetch_add(&b->device->copied_bytes, size);
    }
}

static bool buffer_cpy_tensor(ggml_backend_buffer_t buffer, const struct ggml_tensor * src,
                              struct ggml_tensor * dst) {
    ggml_backend_buffer_t from = src->view_src ? src->view_src->buffer : src->buffer;
    size_t size = ggml_nbytes(src);
    count_copy(from, buffer, size);
    if (may_be_paneled(src) || may_be_paneled(dst)) {
        return false; // ggml goes through get_tensor and set_tensor
    }
    if (host_sees(from)) {
        // An NPU's own, or the host's: they may even overlap.
        if (host_sees(buffer)) {
            buffer_written(dst, 0, size);
            move_on_host(src, dst, size);
        } else {
            struct hsac_agent * npu = buffer_npu(src);
            if (npu) {
                hsac_host_begin(npu, src->data, size);
            }
            buffer_set_tensor(buffer, dst, src->data, 0, size);
        }
        return true;
    }
    if (from->iface.get_base != buffer_get_base) {
        return false; // memory of another device: ggml goes through the host
    }
    if (host_sees(buffer)) {
        struct hsac_agent * npu = buffer_npu(dst);
        buffer_written(dst, 0, size);
        if (npu) {
            hsac_host_begin(npu, dst->data, size);
        }
        buffer_get_tensor(from, src, dst->data, 0, size);
        if (npu) {
            hsac_host_end(npu, dst->data, size);
        }
        return true;
    }
    struct hsa_device *a = ((struct hsa_buffer *) from->context)->device,
                      *b = ((struct hsa_buffer *) buffer->context)->device;
    struct error err = {0};
    bool apart = (char *) dst->data + size <= (char *) src->data ||
                 (char *) src->data + size <= (char *) dst->data;
    if (a != b || !apart) { // a copy engine may begin anywhere
        return false;
    }
    if (hsac_copy(a->agent, dst->data, src->data, size, &err) != ST_OK) {
        complain(dst, &err);
    }
    return true;
}

static void buffer_clear(ggml_backend_buffer_t buffer, uint8_t value) {
    struct hsa_buffer * b = buffer->context;
    struct error err = {0};
    shadows_drop(&b->shadows, b->base, buffer->size);
    if (b->is_host) {
        memset(b->base, value, buffer->size);
    } else if (hsac_fill(b->agent, b->base, value, buffer->size, &err) != ST_OK) {
        log_error("%s: clearing a buffer: %s", b->device->name, err.text);
    }
}

static const struct ggml_backend_buffer_i buffer_iface = {
    /* .free_buffer   = */ buffer_free,
    /* .get_base      = */ buffer_get_base,
    /* .init_tensor   = */ NULL,
    /* .memset_tensor = */ buffer_memset_tensor,
    /* .set_tensor    = */ buffer_set_tensor,
    /* .get_tensor    = */ buffer_get_tensor,
    /* .set_tensor_2d = */ NULL, // ggml's own loop over set_tensor is as good
    /* .get_tensor_2d = */ NULL,
    /* .cpy_tensor    = */ buffer_cpy_tensor,
    /* .clear         = */ buffer_clear,
    /* .reset         = */ NULL,
};

// ---- buffer types ----

static struct hsa_buft * buft_of(ggml_backend_buffer_type_t buft) {
    return (struct hsa_buft *) buft; // abi is its first member
}

static const char * buft_get_name(ggml_backend_buffer_type_t buft) {
    return buft_of(buft)->name;
}

static ggml_backend_buffer_t buft_alloc_buffer(ggml_backend_buffer_type_t buft, size_t size) {
    struct hsa_device * device = buft_of(buft)->device;
    if (size > SIZE_MAX - BUFFER_ALIGNMENT) {
        return NULL;
    }
    struct hsa_buffer * b = malloc(sizeof *b);
    if (!b) {
        return NULL;
    }
    b->device = device;
    b->is_host = buft_of(buft)->is_host;
    b->agent = b->is_host ? device->agent : share_agent(device);
    size_t bytes = GGML_PAD(size, BUFFER_ALIGNMENT);
    b->base = b->is_host ? hsac_alloc(b->agent, HSAC_POOL_HOST, bytes) : share_alloc(device, bytes);
    if (!b->base || (uintptr_t) b->base % BUFFER_ALIGNMENT != 0) {
        log_error("%s: no memory for a buffer of %zu bytes", device->name, size);
        if (b->base) {
            buffer_give_back(b);
        }
        free(b);
        return NULL;
    }
    shadows_init(&b->shadows, b->agent);
    panels_init(&b->panels, b->agent);
    return ggml_backend_buffer_init(buft, buffer_iface, b, size);
}

static size_t buft_get_alignment(ggml_backend_buffer_type_t buft) {
    (void) buft;
    return BUFFER_ALIGNMENT;
}

static bool buft_is_host(ggml_backend_buffer_type_t buft) {
    return buft_of(buft)->is_host;
}

void buft_init(struct hsa_buft * buft, int api, struct hsa_device * device, bool is_host) {
    *buft = (struct hsa_buft){.device = device, .is_host = is_host};
    snprintf(buft->name, sizeof buft->name, "%s%s", device->name, is_host ? "_Host" : "");
    if (api == 3) {
        buft->abi.v3 = (struct ggml_backend_buffer_type_v3){
            .iface = {
                /* .get_name         = */ buft_get_name,
                /* .alloc_buffer     = */ buft_alloc_buffer,
                /* .alloc_buffer_n   = */ NULL,
                /* .get_alignment    = */ buft_get_alignment,
                /* .get_max_size     = */ NULL,
                /* .get_alloc_size   = */ NULL, // ggml lets no result be larger than its elements
                /* .get_alloc_size_n = */ NULL,
                /* .is_host          = */ buft_is_host,
            },
            .device = &device->base,
            .context = buft,
        };
    } else {
        buft->abi.v2 = (struct ggml_backend_buffer_type_v2){
            .iface = {
                /* .get_name       = */ buft_get_name,
                /* .alloc_buffer   = */ buft_alloc_buffer,
                /* .get_alignment  = */ buft_get_alignment,
                /* .get_max_size   = */ NULL,
                /* .get_alloc_size = */ NULL,
                /* .is_host        = */ buft_is_host,
            },
            .device = &device->base,
            .context = buft,
        };
    }
}

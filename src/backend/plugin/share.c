// share: one memory for a NPU and the GPUs beside it, GGML_HSA_SHARE=1. The memory is the NPU's,
// which the GPUs are given by a dma-buf (hsac_share): whatever either allocates lies there, both
// take the other's buffer type, and ggml's scheduler makes no copy where a graph goes from one to
// the other. Whether it can be is tried once with a page; where a runtime refuses, each device
// keeps its own memory and the scheduler copies.
//
// Who takes a buffer type is asked by the scheduler, too, when it looks for the device that a
// tensor belongs to, and the first one that says yes has it. So a node whose weights or whose
// result are another's is refused here (share_is_others): layers stay where they were put, and
// weights that a NPU has laid out for itself are read by no GPU.
#include "backend/backend.h"

#include "base/base.h"

#include <stdlib.h>

enum { PAGE = 4096 };

static bool asked(void) {
    const char * value = getenv("GGML_HSA_SHARE");
    return value && *value == '1' && !value[1];
}

static bool can(struct hsa_device * npu, struct hsa_device * gpu, struct error * err) {
    void * page = hsac_alloc(npu->agent, HSAC_POOL_DATA, PAGE);
    if (!page) {
        error_set(err, ST_NO_MEMORY, "no memory of %s", npu->name);
        return false;
    }
    bool ok = hsac_share(npu->agent, gpu->agent, page, PAGE, err) == ST_OK;
    if (ok) {
        hsac_unshare(gpu->agent, page);
    }
    hsac_free(npu->agent, page);
    return ok;
}

void share_devices(struct hsa_device ** devices, int n) {
    struct hsa_device * npu = NULL;
    for (int i = 0; i < n && !npu; i++) {
        npu = devices[i]->npu ? devices[i] : NULL;
    }
    for (int i = 0; i < n && npu && asked(); i++) {
        struct hsa_device * gpu = devices[i];
        struct error err = {0};
        if (!gpu->gpu) {
            continue;
        }
        if (npu->n_guests == SHARE_MOST || !can(npu, gpu, &err)) {
            log_warn("%s has memory of its own, and what it shares with %s is copied: %s",
                     gpu->name, npu->name, err.text);
            continue;
        }
        gpu->host = npu;
        npu->guests[npu->n_guests++] = gpu;
        log_info("%s computes in the memory of %s", gpu->name, npu->name);
    }
}

static struct hsa_device * host_of(struct hsa_device * device) {
    return device->host ? device->host : device;
}

void * share_alloc(struct hsa_device * device, size_t size) {
    struct hsa_device * host = host_of(device);
    void * ptr = hsac_alloc(host->agent, HSAC_POOL_DATA, size);
    for (int i = 0; i < host->n_guests && ptr; i++) {
        struct error err = {0};
        if (hsac_share(host->agent, host->guests[i]->agent, ptr, size, &err) != ST_OK) {
            log_error("%s: %s", host->guests[i]->name, err.text);
            share_free(device, ptr);
            ptr = NULL;
        }
    }
    return ptr;
}

void share_free(struct hsa_device * device, void * ptr) {
    struct hsa_device * host = host_of(device);
    for (int i = 0; i < host->n_guests; i++) {
        hsac_unshare(host->guests[i]->agent, ptr);
    }
    hsac_free(host->agent, ptr);
}

struct hsac_agent * share_agent(struct hsa_device * device) {
    return host_of(device)->agent;
}

bool share_takes(struct hsa_device * device, ggml_backend_buffer_type_t buft) {
    struct hsa_device * host = host_of(device);
    bool takes = buft == buft_handle(&host->buft);
    for (int i = 0; i < host->n_guests; i++) {
        takes |= buft == buft_handle(&host->guests[i]->buft);
    }
    return takes;
}

static bool is_anothers(struct hsa_device * device, const struct ggml_tensor * t) {
    struct hsa_device * host = host_of(device);
    bool is = host != device && buffer_is_on(t, host);
    for (int i = 0; i < host->n_guests; i++) {
        is |= host->guests[i] != device && buffer_is_on(t, host->guests[i]);
    }
    return is;
}

bool share_is_others(struct hsa_device * device, const struct ggml_tensor * op) {
    if (!device->host && !device->n_guests) {
        return false;
    }
    bool others = is_anothers(device, op);
    for (int i = 0; i < GGML_MAX_SRC && !others; i++) {
        others = op->src[i] && buffer_holds_weights(op->src[i]) && is_anothers(device, op->src[i]);
    }
    return others;
}

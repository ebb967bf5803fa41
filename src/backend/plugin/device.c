// device: one NPU or GPU as ggml sees it. It is made once when the plugin is loaded and never
// changes after, apart from its counters and its kernels, which lock themselves.
#include "backend/gpu/gpu.h"
#include "backend/npu/npu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hsa_device * device_of(ggml_backend_dev_t dev) {
    return (struct hsa_device *) dev; // base is its first member
}

static const char * device_get_name(ggml_backend_dev_t dev) {
    return device_of(dev)->name;
}

static const char * device_get_description(ggml_backend_dev_t dev) {
    return device_of(dev)->description;
}

static void device_get_memory(ggml_backend_dev_t dev, size_t * free_bytes, size_t * total_bytes) {
    uint64_t free64 = 0, total64 = 0;
    hsac_agent_memory(device_of(dev)->agent, &free64, &total64);
    *free_bytes = (size_t) free64;
    *total_bytes = (size_t) total64;
}

// ggml's in-tree NPUs all say GPU: the type that obeys the usual device and offload options. A GPU
// beside the NPU in one chip is integrated: programs then leave it alone unless they are told.
static enum ggml_backend_dev_type device_get_type(ggml_backend_dev_t dev) {
    return hsac_agent_is_integrated(device_of(dev)->agent) ? GGML_BACKEND_DEVICE_TYPE_IGPU
                                                           : GGML_BACKEND_DEVICE_TYPE_GPU;
}

static void device_get_props(ggml_backend_dev_t dev, struct ggml_backend_dev_props * props) {
    memset(props, 0, sizeof *props);
    props->name = device_get_name(dev);
    props->description = device_get_description(dev);
    props->type = device_get_type(dev);
    device_get_memory(dev, &props->memory_free, &props->memory_total);
    props->device_id = hsac_agent_bus(device_of(dev)->agent);
    // Copies need not be waited for, but graphs are complete when graph_compute returns, and who
    // asks this plans to have several of them under way.
    props->caps.async = false;
    props->caps.host_buffer = true;
    props->caps.events = true;
    props->caps.mmap_support = true;
}

static ggml_backend_t device_init_backend(ggml_backend_dev_t dev, const char * params) {
    (void) params;
    return stream_new(device_of(dev));
}

static ggml_backend_buffer_type_t device_get_buffer_type(ggml_backend_dev_t dev) {
    return buft_handle(&device_of(dev)->buft);
}

static ggml_backend_buffer_type_t device_get_host_buffer_type(ggml_backend_dev_t dev) {
    return buft_handle(&device_of(dev)->host_buft);
}

// Does the node write or read memory of the device?
static bool touches(struct hsa_device * device, const struct ggml_tensor * op) {
    bool ours = buffer_is_on(op, device);
    for (int i = 0; i < GGML_MAX_SRC && !ours; i++) {
        ours = op->src[i] && buffer_is_on(op->src[i], device);
    }
    return ours;
}

static bool device_supports_op(ggml_backend_dev_t dev, const struct ggml_tensor * op) {
    struct hsa_device * device = device_of(dev);
    // In a forked child another device shall have what it can. What lies here it could not read
    // and does not get: the graph fails with the reason.
    if (hsac_check_fork(device->agent, NULL) != ST_OK) {
        return touches(device, op);
    }
    if (share_is_others(device, op)) {
        return false;
    }
    // What writes to a tensor in memory of ours, as llama.cpp's cache is, no other device can do:
    // ggml's scheduler ends the process over one that we refuse.
    bool by_cpu = device->fallback == FALLBACK_PROMISED ||
                  (device->fallback == FALLBACK_ABLE && buffer_is_on(op, device));
    struct error why = {0};
    bool asked = explain_asked();
    if (device->kind->computes(device, op, asked ? &why : NULL)) {
        return true;
    }
    bool on_cpu = by_cpu && fallback_supports(op);
    if (asked) {
        explain_refusal(device, op, on_cpu, &why);
    }
    return on_cpu;
}

static bool device_supports_buft(ggml_backend_dev_t dev, ggml_backend_buffer_type_t buft) {
    return share_takes(device_of(dev), buft) || buft == device_get_host_buffer_type(dev);
}

static bool device_offload_op(ggml_backend_dev_t dev, const struct ggml_tensor * op) {
    const struct device_kind * kind = device_of(dev)->kind;
    return kind->offloads && kind->offloads(op);
}

static const struct ggml_backend_device_i device_iface = {
    /* .get_name             = */ device_get_name,
    /* .get_description      = */ device_get_description,
    /* .get_memory           = */ device_get_memory,
    /* .get_type             = */ device_get_type,
    /* .get_props            = */ device_get_props,
    /* .init_backend         = */ device_init_backend,
    /* .get_buffer_type      = */ device_get_buffer_type,
    /* .get_host_buffer_type = */ device_get_host_buffer_type,
    /* .buffer_from_host_ptr = */ NULL,
    /* .supports_op          = */ device_supports_op,
    /* .supports_buft        = */ device_supports_buft,
    /* .offload_op           = */ device_offload_op,
    /* .event_new            = */ event_new,
    /* .event_free           = */ event_free,
    /* .event_synchronize    = */ event_synchronize,
};

static bool device_is_ours(ggml_backend_dev_t dev) {
    return dev && dev->iface.get_name == device_get_name;
}

struct hsa_device * device_new(ggml_backend_reg_t reg, int api, int index, struct hsac * runtime,
                               struct hsac_agent * agent, struct error * err) {
    struct hsa_device * device = calloc(1, sizeof *device);
    if (!device) {
        error_set(err, ST_NO_MEMORY, "no memory for a device");
        return NULL;
    }
    bool is_gpu = hsac_agent_kind(agent) == HSAC_GPU;
    device->kind = is_gpu ? &gpu_kind : &npu_kind;
    device->agent = agent;
    enum status st =
        is_gpu ? gpu_new(runtime, agent, &device->gpu, err) : npu_new(agent, &device->npu, err);
    if (st != ST_OK) {
        free(device);
        return NULL;
    }
    device->base =
        (struct ggml_backend_device){.iface = device_iface, .reg = reg, .context = device};
    pthread_rwlock_init(&device->layout, NULL);
    device->index = index;
    device->fallback = fallback_asked();
    snprintf(device->name, sizeof device->name, "%s%d", GGML_HSA_NAME, index % 1000);
    snprintf(device->description, sizeof device->description, "%s (%s%s)",
             hsac_agent_product(agent), hsac_agent_name(agent),
             hsac_is_emulated(runtime) ? ", emulated" : "");
    device->profile = profile_new(agent, device->name);
    buft_init(&device->buft, api, device, false);
    buft_init(&device->host_buft, api, device, true);
    return device;
}

// ---- why it does not compute a node ----

bool ggml_backend_hsa_why_not(ggml_backend_dev_t dev, const struct ggml_tensor * op, char * text,
                              size_t size) {
    struct error why = {0};
    struct hsa_device * device = device_of(dev);
    if (size) {
        *text = '\0';
    }
    if (!device_is_ours(dev) || hsac_check_fork(device->agent, NULL) != ST_OK ||
        device->kind->computes(device, op, &why)) {
        return false;
    }
    snprintf(text, size, "%s", why.text);
    return true;
}

void ggml_backend_hsa_clear_profile(ggml_backend_dev_t dev) {
    if (device_is_ours(dev)) {
        profile_clear(device_of(dev)->profile);
    }
}

// ---- what the device did ----

bool ggml_backend_hsa_get_stats(ggml_backend_dev_t dev, struct ggml_backend_hsa_stats * out) {
    *out = (struct ggml_backend_hsa_stats){0};
    if (!device_is_ours(dev) || hsac_check_fork(device_of(dev)->agent, NULL) != ST_OK) {
        return false;
    }
    struct hsa_device * device = device_of(dev);
    struct store_stats stats = {0};
    if (device->gpu) {
        stats.compiles = gpu_compiles(device->gpu);
    } else {
        store_get_stats(device->npu->store, &stats);
    }
    *out = (struct ggml_backend_hsa_stats){
        .kernels_compiled = stats.compiles,
        .compile_ns = stats.compile_ns,
        .pack_hits = stats.pack_hits,
        .memory_hits = stats.memory_hits,
        .dispatches = atomic_load(&device->dispatches),
        .host_copies = atomic_load(&device->host_copies),
        .staged_operands = atomic_load(&device->staged_operands),
        .cpu_nodes = atomic_load(&device->cpu_nodes),
        .streams_made = stats.streams,
        .kept_nodes = atomic_load(&device->kept_nodes),
        .operations = atomic_load(&device->operations),
        .waits = atomic_load(&device->waits),
        .packets = atomic_load(&device->packets),
        .flushed_bytes = hsac_agent_flushed(device->agent),
        .graphs = atomic_load(&device->graphs),
        .copied_bytes = atomic_load(&device->copied_bytes),
    };
    struct hsac_driver driver;
    if (hsac_agent_driver(device->agent, &driver)) {
        out->driver_calls = driver.calls;
        out->driver_contexts = driver.contexts;
        out->flushed_bytes += driver.flushed_bytes;
    }
    return true;
}

bool ggml_backend_hsa_get_counters(ggml_backend_dev_t dev, struct ggml_backend_hsa_counters * out) {
    struct hsac_counters c = {0};
    *out = (struct ggml_backend_hsa_counters){0};
    if (!device_is_ours(dev) || !hsac_agent_counters(device_of(dev)->agent, &c)) {
        return false;
    }
    *out = (struct ggml_backend_hsa_counters){
        .dispatches = c.dispatches,
        .pdi_loads = c.pdi_loads,
        .cycles = c.cycles,
        .last_cycles = c.last_cycles,
        .bundles = c.bundles,
        .core_stalls = c.core_stalls,
        .stream_words = c.stream_words,
    };
    return true;
}

HSAC_ACCOUNT_IS(ggml_backend_hsa_account);

bool ggml_backend_hsa_get_account(ggml_backend_dev_t dev, struct ggml_backend_hsa_account * out) {
    struct hsac_account c;
    if (out->size < sizeof *out) {
        return false;
    }
    *out = (struct ggml_backend_hsa_account){.size = sizeof *out, .clock = ""};
    if (!device_is_ours(dev) || !hsac_agent_account(device_of(dev)->agent, &c)) {
        return false;
    }
    memcpy(out, &c, sizeof c);
    return true;
}

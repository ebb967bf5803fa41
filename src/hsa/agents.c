// agents: the NPUs and GPUs of a runtime and their memory pools.
#include "hsac-impl.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char * const pool_names[HSAC_POOLS] = {
    [HSAC_POOL_DATA] = "data",
    [HSAC_POOL_HOST] = "host",
    [HSAC_POOL_DEV] = "device heap",
    [HSAC_POOL_STREAM] = "instruction stream",
    [HSAC_POOL_KERNARG] = "kernel argument",
};

struct visit {
    struct hsac * h;
    uint32_t device_type; // of the agents that are looked at now
    struct error * err;
    enum status st;
    struct buf others; // names of agents that are none of ours
};

struct pools { // of one agent
    const struct hsac * h;
    hsa_amd_memory_pool_t pools[HSAC_POOLS];
    uint64_t sizes[HSAC_POOLS]; // 0: there is none
    hsa_status_t failed;
};

// ---- pools ----

static hsa_status_t ask_pool(const struct hsac * h, hsa_amd_memory_pool_t pool, uint32_t * flags,
                             size_t * size) {
    hsa_status_t status =
        h->api.hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, flags);
    return status == HSA_STATUS_SUCCESS
               ? h->api.hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, size)
               : status;
}

static void take_pool(struct pools * p, enum hsac_pool kind, hsa_amd_memory_pool_t pool,
                      size_t size) {
    if (!p->sizes[kind]) {
        p->pools[kind] = pool;
        p->sizes[kind] = size;
    }
}

static hsa_status_t visit_npu_pool(hsa_amd_memory_pool_t pool, void * data) {
    struct pools * p = data;
    uint32_t flags = 0;
    size_t size = 0, rec_granule = 0;
    hsa_status_t status = ask_pool(p->h, pool, &flags, &size);
    if (status == HSA_STATUS_SUCCESS) {
        status = p->h->api.hsa_amd_memory_pool_get_info(
            pool, (hsa_amd_memory_pool_info_t) AIE_ABI_POOL_REC_GRANULE, &rec_granule);
    }
    if (status != HSA_STATUS_SUCCESS) {
        p->failed = status;
        return status;
    }
    if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT) {
        take_pool(p, HSAC_POOL_KERNARG, pool, size);
    } else if (rec_granule == 0) {
        take_pool(p, HSAC_POOL_DEV, pool, size);
        take_pool(p, HSAC_POOL_STREAM, pool, size);
    } else {
        take_pool(p, HSAC_POOL_DATA, pool, size);
        take_pool(p, HSAC_POOL_HOST, pool, size); // the host sees all of it
    }
    return HSA_STATUS_SUCCESS;
}

// Takes a GPU's own memory, and the host's pool that every GPU can be given access to.
static hsa_status_t visit_gpu_pool(hsa_amd_memory_pool_t pool, void * data) {
    struct pools * p = data;
    hsa_amd_segment_t segment = HSA_AMD_SEGMENT_GROUP;
    bool allowed = false;
    uint32_t flags = 0;
    size_t size = 0;
    p->h->api.hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
    p->h->api.hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED,
                                           &allowed);
    if (segment == HSA_AMD_SEGMENT_GLOBAL && allowed &&
        ask_pool(p->h, pool, &flags, &size) == HSA_STATUS_SUCCESS) {
        if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT) {
            take_pool(p, HSAC_POOL_KERNARG, pool, size);
        }
        if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED) {
            take_pool(p, HSAC_POOL_HOST, pool, size);
        } else if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED) {
            take_pool(p, HSAC_POOL_DATA, pool, size);
        }
    }
    return HSA_STATUS_SUCCESS;
}

static void set_pool(struct hsac_agent * a, enum hsac_pool kind, const struct pools * from) {
    a->pools[kind] = from->pools[kind];
    a->pool_size[kind] = from->sizes[kind];
}

// ---- agents ----

static struct hsac_agent * add_agent(struct hsac * h, enum hsac_kind kind, hsa_agent_t handle,
                                     const char * name, struct error * err) {
    struct hsac_agent * agents = realloc(h->agents, ((size_t) h->n_agents + 1) * sizeof *agents);
    if (!agents) {
        error_set(err, ST_NO_MEMORY, "no memory for agent %s", name);
        return NULL;
    }
    h->agents = agents;
    struct hsac_agent * a = &agents[h->n_agents++];
    *a = (struct hsac_agent){.h = h, .kind = kind, .handle = handle};
    snprintf(a->name, sizeof a->name, "%.63s", name);
    char product[65] = {0};
    h->api.hsa_agent_get_info(handle, (hsa_agent_info_t) HSA_AMD_AGENT_INFO_PRODUCT_NAME, product);
    // ROCr says nothing of a GPU that libdrm has no name for.
    snprintf(a->product, sizeof a->product, "%.63s", *product ? product : name);
    return a;
}

// The columns that a context gets. The first column of XDNA has no shim, so ROCr asks for one less
// of them.
static void find_columns(struct hsac_agent * a) {
    uint32_t columns = 0;
    if (a->h->ours) {
        a->h->api.hsa_emu_columns(a->handle, &columns);
    } else if (a->device) {
        columns = amdxdna_info(a->device)->columns;
        columns -= columns > 0 && !strcmp(a->name, "aie2");
    }
    a->columns = (int) columns;
}

static enum status add_npu(struct hsac * h, hsa_agent_t handle, const char * name,
                           struct error * err) {
    struct hsac_agent * a = add_agent(h, HSAC_NPU, handle, name, err);
    if (!a) {
        return ST_NO_MEMORY;
    }
    struct pools p = {.h = h};
    h->api.hsa_amd_agent_iterate_memory_pools(handle, visit_npu_pool, &p);
    for (int i = 0; i < HSAC_POOLS; i++) {
        set_pool(a, (enum hsac_pool) i, &p);
        if (!p.sizes[i]) {
            return error_set(err, ST_UNSUPPORTED, "agent %s of %s has no %s pool%s%s", a->name,
                             h->path, pool_names[i], p.failed ? ": " : "",
                             p.failed ? hsac_status_text(h, p.failed) : "");
        }
    }
    a->device = h->ours ? NULL : hsac_device_open();
    find_columns(a);
    return ST_OK;
}

// By this programs see that another backend has the same GPU. An emulated one has a place on no
// bus.
static void find_bus(struct hsac_agent * a) {
    const struct hsac_api * api = &a->h->api;
    uint32_t domain = 0, place = 0;
    if (!a->h->ours &&
        api->hsa_agent_get_info(a->handle, (hsa_agent_info_t) HSA_AMD_AGENT_INFO_BDFID, &place) ==
            HSA_STATUS_SUCCESS &&
        api->hsa_agent_get_info(a->handle, (hsa_agent_info_t) GPU_PCI_DOMAIN, &domain) ==
            HSA_STATUS_SUCCESS) {
        snprintf(a->bus, sizeof a->bus, "%04x:%02x:%02x.%x", domain & 0xffff, place >> 8 & 0xff,
                 place >> 3 & 0x1f, place & 7);
    }
}

// A GPU that we cannot use is left out: the others, and the NPUs, are none the worse for it.
static enum status add_gpu(struct visit * v, hsa_agent_t handle, const char * name) {
    struct hsac * h = v->h;
    struct pools own = {.h = h}, host = {.h = h};
    h->api.hsa_amd_agent_iterate_memory_pools(handle, visit_gpu_pool, &own);
    if (h->has_cpu) {
        h->api.hsa_amd_agent_iterate_memory_pools(h->cpu, visit_gpu_pool, &host);
    }
    if (!own.sizes[HSAC_POOL_DATA] || !host.sizes[HSAC_POOL_HOST] ||
        !host.sizes[HSAC_POOL_KERNARG]) {
        buf_printf(&v->others, "%s%s (it lacks a memory pool)", v->others.size ? ", " : "", name);
        return ST_OK;
    }
    struct hsac_agent * a = add_agent(h, HSAC_GPU, handle, name, v->err);
    if (!a) {
        return ST_NO_MEMORY;
    }
    set_pool(a, HSAC_POOL_DATA, &own);
    set_pool(a, HSAC_POOL_HOST, &host);
    set_pool(a, HSAC_POOL_KERNARG, &host);
    uint8_t properties[8] = {0}; // a runtime that does not know the question leaves it alone
    h->api.hsa_agent_get_info(handle, (hsa_agent_info_t) GPU_MEMORY_PROPERTIES, properties);
    a->integrated = properties[0] & GPU_MEMORY_IS_APU;
    find_bus(a);
    return ST_OK;
}

static hsa_status_t visit_agent(hsa_agent_t handle, void * data) {
    struct visit * v = data;
    struct hsac * h = v->h;
    uint32_t device = 0;
    char name[65] = {0};
    if (h->api.hsa_agent_get_info(handle, HSA_AGENT_INFO_DEVICE, &device) != HSA_STATUS_SUCCESS ||
        h->api.hsa_agent_get_info(handle, HSA_AGENT_INFO_NAME, name) != HSA_STATUS_SUCCESS ||
        device != v->device_type) {
        return HSA_STATUS_SUCCESS; // an agent that cannot say what it is, is none of ours
    }
    if (device == AIE_ABI_DEVICE_TYPE && h->no_npus) {
        return HSA_STATUS_SUCCESS;
    }
    if (device == AIE_ABI_DEVICE_TYPE) {
        v->st = add_npu(h, handle, name, v->err);
    } else if (device == HSA_DEVICE_TYPE_GPU) {
        v->st = add_gpu(v, handle, name);
    } else {
        buf_printf(&v->others, "%s%s", v->others.size ? ", " : "", name);
        if (!h->has_cpu) {
            h->cpu = handle;
            h->has_cpu = true;
        }
    }
    return v->st == ST_OK ? HSA_STATUS_SUCCESS : HSA_STATUS_INFO_BREAK;
}

enum status hsac_agents_find(struct hsac * h, struct error * err) {
    // Hosts before GPUs, which need their memory; NPUs first, because they are what we are for.
    static const uint32_t order[] = {AIE_ABI_DEVICE_TYPE, HSA_DEVICE_TYPE_CPU, HSA_DEVICE_TYPE_GPU};
    struct visit v = {.h = h, .err = err, .st = ST_OK};
    for (size_t i = 0; i < sizeof order / sizeof order[0] && v.st == ST_OK; i++) {
        v.device_type = order[i];
        hsa_status_t status = h->api.hsa_iterate_agents(visit_agent, &v);
        if (v.st == ST_OK && status != HSA_STATUS_SUCCESS) {
            v.st = error_set(err, ST_DEVICE, "%s: hsa_iterate_agents: %s", h->path,
                             hsac_status_text(h, status));
        }
    }
    if (v.st == ST_OK && h->n_agents == 0) {
        v.st = error_set(err, ST_NOT_FOUND,
                         "no NPU: %s lists %.100s, and no GPU; %s (`ggml-hsa doctor` says more)",
                         h->path, v.others.data ? (const char *) v.others.data : "no agent",
                         h->emulated ? "set GGML_HSA_EMULATE=aie2"
                                     : "load the amdxdna driver, or set GGML_HSA_EMULATE=aie2");
    }
    buf_free(&v.others);
    // Only now do agents stay where they are.
    for (int i = 0; i < h->n_agents; i++) {
        pthread_mutex_init(&h->agents[i].driver, NULL);
        pthread_mutex_init(&h->agents[i].lock, NULL);
        pthread_mutex_init(&h->agents[i].ring.lock, NULL);
        pthread_mutex_init(&h->agents[i].stage.lock, NULL);
        pthread_mutex_init(&h->agents[i].lost_lock, NULL);
    }
    return v.st;
}

void hsac_agents_free(struct hsac * h) {
    for (int i = 0; i < h->n_agents; i++) {
        struct hsac_agent * a = &h->agents[i];
        assert(!a->ring.handles && "a queue outlives its runtime");
        hsac_ring_free(a);
        hsac_stage_free(a);
        hsac_memory_release(a);
        amdxdna_close(a->device);
        pthread_mutex_destroy(&a->driver);
        pthread_mutex_destroy(&a->lock);
        pthread_mutex_destroy(&a->ring.lock);
        pthread_mutex_destroy(&a->stage.lock);
        pthread_mutex_destroy(&a->lost_lock);
    }
    free(h->agents);
    h->agents = NULL;
    h->n_agents = 0;
}

int hsac_agent_count(const struct hsac * h) {
    return h->n_agents;
}

struct hsac_agent * hsac_agent_get(struct hsac * h, int i) {
    return i >= 0 && i < h->n_agents ? &h->agents[i] : NULL;
}

enum hsac_kind hsac_agent_kind(const struct hsac_agent * a) {
    return a->kind;
}

bool hsac_agent_is_integrated(const struct hsac_agent * a) {
    return a->integrated;
}

const char * hsac_agent_bus(const struct hsac_agent * a) {
    return *a->bus ? a->bus : NULL;
}

uint64_t hsac_agent_handle(const struct hsac_agent * a) {
    return a->handle.handle;
}

const char * hsac_agent_name(const struct hsac_agent * a) {
    return a->name;
}

int hsac_agent_columns(const struct hsac_agent * a) {
    return a->columns;
}

const char * hsac_agent_product(const struct hsac_agent * a) {
    return a->product;
}

void hsac_agent_memory(const struct hsac_agent * a, uint64_t * free_bytes, uint64_t * total_bytes) {
    pthread_mutex_t * lock = &((struct hsac_agent *) a)->lock;
    if (hsac_forked(a->h)) {
        *total_bytes = a->pool_size[HSAC_POOL_DATA];
        *free_bytes = 0;
        return;
    }
    pthread_mutex_lock(lock);
    uint64_t total = a->pool_size[HSAC_POOL_DATA], used = a->used[HSAC_POOL_DATA];
    pthread_mutex_unlock(lock);
    *total_bytes = total;
    *free_bytes = used < total ? total - used : 0;
    // Other programs use a GPU too; newer runtimes know what is left.
    uint64_t left;
    if (a->kind == HSAC_GPU &&
        a->h->api.hsa_agent_get_info(a->handle, (hsa_agent_info_t) GPU_MEMORY_AVAILABLE, &left) ==
            HSA_STATUS_SUCCESS) {
        *free_bytes = left < total ? left : total;
    }
}

enum status hsac_agent_check(const struct hsac_agent * a, struct error * err) {
    const struct hsac * h = a->h;
    if (a->kind == HSAC_GPU || (h->abi && !a->device)) {
        return ST_OK;
    }
    if (a->device) {
        enum status st = hsac_device_fits(h, amdxdna_info(a->device), err);
        if (st != ST_OK || h->abi) {
            return st;
        }
    }
    return h->runtime->abi
               ? error_set(
                     err, ST_UNSUPPORTED,
                     "%s (%s) is %s: its packets cannot carry kernels to an NPU; install ROCr "
                     "7 or later",
                     h->path, h->says, h->runtime->name)
               : error_set(err, ST_UNSUPPORTED,
                           "%s (%s): it is not known which packets this ROCr takes, and the wrong "
                           "ones end the process; GGML_HSA_AIE_ABI=B, C or D says so",
                           h->path, h->says);
}

uint64_t hsac_agent_pool_size(const struct hsac_agent * a, enum hsac_pool pool) {
    return a->pool_size[pool]; // never changes
}

bool hsac_agent_driver(const struct hsac_agent * a, struct hsac_driver * out) {
    struct hsa_emu_native n = {.size = sizeof n};
    *out = (struct hsac_driver){0};
    if (!a->h->ours || a->h->emulated || hsac_forked(a->h) ||
        a->h->api.hsa_emu_native(a->handle, &n) != HSA_STATUS_SUCCESS) {
        return false;
    }
    *out = (struct hsac_driver){
        .dispatches = n.dispatches,
        .pdi_switches = n.pdi_switches,
        .calls = n.calls,
        .waits = n.waits,
        .contexts = n.contexts,
        .chains = n.chains,
        .failed = n.failed,
        .heap_bytes = n.heap_bytes,
        .flushed_bytes = n.flushed_bytes,
    };
    memcpy(out->path, n.path, sizeof out->path);
    memcpy(out->driver, n.driver, sizeof out->driver);
    return true;
}

bool hsac_agent_counters(const struct hsac_agent * a, struct hsac_counters * out) {
    *out = (struct hsac_counters){0};
    struct hsa_emu_counters c;
    if (!a->h->emulated || hsac_forked(a->h) ||
        a->h->api.hsa_emu_counters(a->handle, &c) != HSA_STATUS_SUCCESS) {
        return false;
    }
    *out = (struct hsac_counters){
        .dispatches = c.dispatches,
        .pdi_loads = c.pdi_loads,
        .cycles = c.cycles,
        .bundles = c.bundles,
        .core_stalls = c.core_stalls,
        .stream_words = c.stream_words,
        .last_cycles = c.last_cycles,
    };
    return true;
}

// agents: the NPUs of a runtime, their memory pools, and what was allocated from them.
//
// Kept true: every live allocation stands in agent->blocks. ROCr ends the process when a packet
// names an address that it does not know, so the queue asks here first.
#include "hsac-impl.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct visit {
    struct hsac * h;
    struct error * err;
    enum status st;
    struct buf others; // names of agents that are no NPU
};

struct pool_visit {
    struct hsac_agent * agent;
    hsa_status_t failed;
};

static hsa_status_t visit_pool(hsa_amd_memory_pool_t pool, void * data) {
    struct pool_visit * v = data;
    const struct hsac_api * api = &v->agent->h->api;
    uint32_t flags = 0;
    size_t size = 0, rec_granule = 0;
    hsa_status_t status =
        api->hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
    if (status == HSA_STATUS_SUCCESS) {
        status = api->hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, &size);
    }
    if (status == HSA_STATUS_SUCCESS) {
        status = api->hsa_amd_memory_pool_get_info(
            pool, (hsa_amd_memory_pool_info_t) AIE_ABI_POOL_REC_GRANULE, &rec_granule);
    }
    if (status != HSA_STATUS_SUCCESS) {
        v->failed = status;
        return status;
    }
    enum hsac_pool kind = HSAC_POOL_DATA;
    if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT) {
        kind = HSAC_POOL_KERNARG;
    } else if (rec_granule == 0) {
        kind = HSAC_POOL_DEV;
    }
    if (!v->agent->pool_size[kind]) {
        v->agent->pools[kind] = pool;
        v->agent->pool_size[kind] = size;
    }
    return HSA_STATUS_SUCCESS;
}

static enum status add_agent(struct hsac * h, hsa_agent_t handle, const char * name,
                             struct error * err) {
    struct hsac_agent * agents = realloc(h->agents, ((size_t) h->n_agents + 1) * sizeof *agents);
    if (!agents) {
        return error_set(err, ST_NO_MEMORY, "no memory for agent %s", name);
    }
    h->agents = agents;
    struct hsac_agent * a = &agents[h->n_agents++];
    *a = (struct hsac_agent){.h = h, .handle = handle};
    snprintf(a->name, sizeof a->name, "%.63s", name);
    char product[65] = {0};
    h->api.hsa_agent_get_info(handle, (hsa_agent_info_t) HSA_AMD_AGENT_INFO_PRODUCT_NAME, product);
    snprintf(a->product, sizeof a->product, "%.63s", product);
    struct pool_visit v = {a, HSA_STATUS_SUCCESS};
    h->api.hsa_amd_agent_iterate_memory_pools(handle, visit_pool, &v);
    static const char * const pool_names[] = {"data", "device heap", "kernel argument"};
    for (int i = 0; i < HSAC_POOLS; i++) {
        if (!a->pool_size[i]) {
            return error_set(err, ST_UNSUPPORTED, "agent %s of %s has no %s pool%s%s", a->name,
                             h->path, pool_names[i], v.failed ? ": " : "",
                             v.failed ? hsac_status_text(h, v.failed) : "");
        }
    }
    return ST_OK;
}

static hsa_status_t visit_agent(hsa_agent_t handle, void * data) {
    struct visit * v = data;
    struct hsac * h = v->h;
    uint32_t device = 0;
    char name[65] = {0};
    if (h->api.hsa_agent_get_info(handle, HSA_AGENT_INFO_DEVICE, &device) != HSA_STATUS_SUCCESS ||
        h->api.hsa_agent_get_info(handle, HSA_AGENT_INFO_NAME, name) != HSA_STATUS_SUCCESS) {
        return HSA_STATUS_SUCCESS; // an agent that cannot say what it is, is none of ours
    }
    if (device != AIE_ABI_DEVICE_TYPE) {
        buf_printf(&v->others, "%s%s", v->others.size ? ", " : "", name);
        return HSA_STATUS_SUCCESS;
    }
    v->st = add_agent(h, handle, name, v->err);
    return v->st == ST_OK ? HSA_STATUS_SUCCESS : HSA_STATUS_INFO_BREAK;
}

enum status hsac_agents_find(struct hsac * h, struct error * err) {
    struct visit v = {.h = h, .err = err, .st = ST_OK};
    hsa_status_t status = h->api.hsa_iterate_agents(visit_agent, &v);
    enum status st = v.st;
    if (st == ST_OK && status != HSA_STATUS_SUCCESS) {
        st = error_set(err, ST_DEVICE, "%s: hsa_iterate_agents: %s", h->path,
                       hsac_status_text(h, status));
    }
    if (st == ST_OK && h->n_agents == 0) {
        st = error_set(err, ST_NOT_FOUND,
                       "no NPU: %s lists %.100s; %s (`ggml-hsa doctor` says more)", h->path,
                       v.others.data ? (const char *) v.others.data : "no agent",
                       h->emulated ? "set GGML_HSA_EMULATE=aie2"
                                   : "load the amdxdna driver, or set GGML_HSA_EMULATE=aie2");
    }
    buf_free(&v.others);
    // Only now do agents stay where they are.
    for (int i = 0; i < h->n_agents; i++) {
        pthread_mutex_init(&h->agents[i].lock, NULL);
        pthread_mutex_init(&h->agents[i].ring.lock, NULL);
    }
    return st;
}

void hsac_agents_free(struct hsac * h) {
    for (int i = 0; i < h->n_agents; i++) {
        struct hsac_agent * a = &h->agents[i];
        assert(!a->ring.handles && "a queue outlives its runtime");
        for (size_t k = 0; k < a->n_blocks; k++) {
            h->api.hsa_amd_memory_pool_free((void *) a->blocks[k].base);
        }
        free(a->blocks);
        pthread_mutex_destroy(&a->lock);
        pthread_mutex_destroy(&a->ring.lock);
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

const char * hsac_agent_name(const struct hsac_agent * a) {
    return a->name;
}

const char * hsac_agent_product(const struct hsac_agent * a) {
    return a->product;
}

void hsac_agent_memory(const struct hsac_agent * a, uint64_t * free_bytes, uint64_t * total_bytes) {
    pthread_mutex_t * lock = &((struct hsac_agent *) a)->lock;
    pthread_mutex_lock(lock);
    uint64_t total = a->pool_size[HSAC_POOL_DATA], used = a->used[HSAC_POOL_DATA];
    pthread_mutex_unlock(lock);
    *total_bytes = total;
    *free_bytes = used < total ? total - used : 0;
}

uint64_t hsac_agent_pool_size(const struct hsac_agent * a, enum hsac_pool pool) {
    return a->pool_size[pool]; // never changes
}

bool hsac_agent_counters(const struct hsac_agent * a, struct hsac_counters * out) {
    *out = (struct hsac_counters){0};
    struct hsa_emu_counters c;
    if (!a->h->emulated || a->h->api.hsa_emu_counters(a->handle, &c) != HSA_STATUS_SUCCESS) {
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

// ---- allocations ----

// Index of the first block above addr.
static size_t upper(const struct hsac_agent * a, uintptr_t addr) {
    size_t lo = 0, hi = a->n_blocks;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (a->blocks[mid].base <= addr) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static bool remember(struct hsac_agent * a, struct hsac_block block) {
    if (a->n_blocks == a->max_blocks) {
        size_t max = a->max_blocks ? 2 * a->max_blocks : 64;
        struct hsac_block * blocks = realloc(a->blocks, max * sizeof *blocks);
        if (!blocks) {
            return false;
        }
        a->blocks = blocks;
        a->max_blocks = max;
    }
    size_t at = upper(a, block.base);
    memmove(a->blocks + at + 1, a->blocks + at, (a->n_blocks - at) * sizeof *a->blocks);
    a->blocks[at] = block;
    a->n_blocks++;
    a->used[block.pool] += block.size;
    return true;
}

void * hsac_alloc(struct hsac_agent * a, enum hsac_pool pool, size_t size) {
    void * ptr = NULL;
    if (size == 0 || a->h->api.hsa_amd_memory_pool_allocate(a->pools[pool], size, 0, &ptr) !=
                         HSA_STATUS_SUCCESS) {
        return NULL;
    }
    pthread_mutex_lock(&a->lock);
    bool ok = remember(a, (struct hsac_block){(uintptr_t) ptr, size, pool});
    pthread_mutex_unlock(&a->lock);
    if (!ok) {
        a->h->api.hsa_amd_memory_pool_free(ptr);
        return NULL;
    }
    return ptr;
}

void hsac_free(struct hsac_agent * a, void * ptr) {
    if (!ptr) {
        return;
    }
    pthread_mutex_lock(&a->lock);
    size_t at = upper(a, (uintptr_t) ptr);
    bool ours = at > 0 && a->blocks[at - 1].base == (uintptr_t) ptr;
    if (ours) {
        struct hsac_block * block = &a->blocks[at - 1];
        a->used[block->pool] -= block->size;
        memmove(block, block + 1, (a->n_blocks - at) * sizeof *block);
        a->n_blocks--;
    }
    pthread_mutex_unlock(&a->lock);
    assert(ours && "hsac_free of memory that hsac_alloc did not give");
    a->h->api.hsa_amd_memory_pool_free(ptr);
}

bool hsac_agent_owns(struct hsac_agent * a, const void * addr, uint64_t size,
                     enum hsac_pool * pool) {
    pthread_mutex_lock(&a->lock);
    size_t at = upper(a, (uintptr_t) addr);
    const struct hsac_block * block = at > 0 ? &a->blocks[at - 1] : NULL;
    uint64_t offset = block ? (uintptr_t) addr - block->base : 0;
    bool owned = block && offset < block->size && size <= block->size - offset;
    if (owned) {
        *pool = block->pool;
    }
    pthread_mutex_unlock(&a->lock);
    return owned;
}

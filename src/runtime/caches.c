// caches: the host's CPU has caches, and NPUs do not snoop them. With GGML_HSA_EMU_CACHES each NPU
// sees its memory behind them (emu/cache): what the program wrote and did not flush is not there,
// or comes at a random moment, and what the NPU wrote the program sees once it has flushed that.
// GPUs snoop.
//
// What is flushed is in the account, with caches or without: by the program, which calls us, and by
// the runtime that we play, which flushes what each operand of a packet declares, one line at
// least, before and after each dispatch.
#include "packets.h"

#include "hsa-emu.h"

#include <stdlib.h>

uint64_t rt_caches_asked(bool fallback) {
    const char * text = secure_getenv("GGML_HSA_EMU_CACHES");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 0;
    return seed ? seed : env_flag("GGML_HSA_EMU_CACHES", fallback);
}

bool rt_caches_add(struct rt_block * block, void * host, size_t size) {
    struct rt_agent * agent = block->agent;
    if (!agent->rt->caches || !agent->model || agent->native) {
        return true;
    }
    if (!agent->cache) {
        __atomic_store_n(&agent->cache, emu_cache_new(agent->rt->caches + agent->node),
                         __ATOMIC_RELEASE);
    }
    if (!agent->cache || emu_cache_add(agent->cache, host, size, NULL) != ST_OK) {
        return false;
    }
    block->memory = emu_cache_memory(agent->cache, host, size);
    return true;
}

void rt_caches_remove(struct rt_block * block, void * host) {
    if (block->memory) {
        emu_cache_remove(block->agent->cache, host);
    }
}

const void * rt_caches_memory(const struct rt_agent * agent, const void * at, uint64_t size) {
    return agent->cache ? emu_cache_memory(agent->cache, at, size) : at;
}

void rt_caches_charge(struct rt_agent * agent) {
    if (agent->machine) {
        emu_machine_flush(agent->machine,
                          __atomic_exchange_n(&agent->flushed, 0, __ATOMIC_RELAXED));
    }
}

// In whole lines.
static uint64_t lines_of(uint64_t addr, uint64_t size) {
    const uint64_t line = EMU_CACHE_LINE;
    return ((addr + size + line - 1) / line - addr / line) * line;
}

void rt_caches_operands(struct rt_agent * agent, const struct rt_dispatch * d) {
    for (int i = 0; i < d->n_operands; i++) {
        const struct emu_operand * o = &d->operands[i];
        uint64_t size = o->size ? o->size : 1;
        if (agent->cache) {
            emu_cache_flush(agent->cache, (const void *) (uintptr_t) o->addr, size);
        }
        emu_machine_flush(agent->machine, lines_of(o->addr, size));
    }
    if (agent->cache) {
        emu_cache_evict(agent->cache);
    }
}

hsa_status_t hsa_emu_flushed(hsa_agent_t handle, const void * at, size_t size) {
    struct rt_agent * agent = rt_agent_find(handle);
    if (!agent || !agent->model) {
        return rt_runtime() ? HSA_STATUS_ERROR_INVALID_AGENT : HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (size == 0) {
        return HSA_STATUS_SUCCESS;
    }
    __atomic_fetch_add(&agent->flushed, lines_of((uint64_t) (uintptr_t) at, size),
                       __ATOMIC_RELAXED);
    struct emu_cache * cache = __atomic_load_n(&agent->cache, __ATOMIC_ACQUIRE);
    if (cache) {
        emu_cache_flush(cache, at, size);
    }
    return HSA_STATUS_SUCCESS;
}

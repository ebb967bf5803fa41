// bench: kernels on a GPU, over HSA alone: kernel arguments in a kernarg pool, an AQL packet, a
// signal. Memory is the host's fine-grained pool, which every GPU can reach.
#include "bench.h"

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH_FUNCTIONS(X)                                                                         \
    X(hsa_iterate_agents)                                                                          \
    X(hsa_agent_get_info)                                                                          \
    X(hsa_amd_agent_iterate_memory_pools)                                                          \
    X(hsa_amd_memory_pool_get_info)                                                                \
    X(hsa_amd_memory_pool_allocate)                                                                \
    X(hsa_amd_memory_pool_free)                                                                    \
    X(hsa_amd_agents_allow_access)                                                                 \
    X(hsa_queue_create)                                                                            \
    X(hsa_queue_destroy)                                                                           \
    X(hsa_queue_add_write_index_relaxed)                                                           \
    X(hsa_signal_create)                                                                           \
    X(hsa_signal_destroy)                                                                          \
    X(hsa_signal_store_relaxed)                                                                    \
    X(hsa_signal_store_screlease)                                                                  \
    X(hsa_signal_wait_scacquire)

#define WAIT_S      600
#define MAX_KERNARG 1024

struct hip_hsa_bench {
    struct hip_bench bench; // first: what callers see
    struct rocm_kernels * k;
#define FIELD(name) __typeof__(name) * name;
    BENCH_FUNCTIONS(FIELD)
#undef FIELD
    hsa_agent_t gpu;
    char agent_name[65];
    int skip; // GPUs before the wanted one
    bool found_gpu, found_data, found_kernarg;
    hsa_amd_memory_pool_t data_pool, kernarg_pool;
    hsa_queue_t * queue;
    hsa_signal_t done;
    void * kernarg;
    int queue_error; // hsa_status_t; atomic
    struct rocm_module * module;
    char module_name[64];
};

// ---- finding ----

static hsa_status_t visit_pool(hsa_amd_memory_pool_t pool, void * user) {
    struct hip_hsa_bench * b = user;
    hsa_amd_segment_t segment;
    uint32_t flags = 0;
    bool allowed = false;
    b->hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
    b->hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
    b->hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed);
    if (segment == HSA_AMD_SEGMENT_GLOBAL && allowed) {
        if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT && !b->found_kernarg) {
            b->kernarg_pool = pool;
            b->found_kernarg = true;
        }
        if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED && !b->found_data) {
            b->data_pool = pool;
            b->found_data = true;
        }
    }
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t visit_agent(hsa_agent_t agent, void * user) {
    struct hip_hsa_bench * b = user;
    hsa_device_type_t type;
    if (b->hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type) != HSA_STATUS_SUCCESS) {
        return HSA_STATUS_SUCCESS;
    }
    if (type == HSA_DEVICE_TYPE_CPU) {
        b->hsa_amd_agent_iterate_memory_pools(agent, visit_pool, b);
    } else if (type == HSA_DEVICE_TYPE_GPU && !b->found_gpu && b->skip-- == 0) {
        b->gpu = agent;
        b->found_gpu = true;
        b->hsa_agent_get_info(agent, HSA_AGENT_INFO_NAME, b->agent_name);
    }
    return HSA_STATUS_SUCCESS;
}

static void on_queue_error(hsa_status_t status, hsa_queue_t * queue, void * user) {
    struct hip_hsa_bench * b = user;
    (void) queue;
    __atomic_store_n(&b->queue_error, (int) status, __ATOMIC_RELEASE);
}

// ---- memory ----

static void * allocate(struct hip_hsa_bench * b, hsa_amd_memory_pool_t pool, size_t size) {
    void * p = NULL;
    if (b->hsa_amd_memory_pool_allocate(pool, size, 0, &p) != HSA_STATUS_SUCCESS) {
        return NULL;
    }
    if (b->hsa_amd_agents_allow_access(1, &b->gpu, NULL, p) != HSA_STATUS_SUCCESS) {
        b->hsa_amd_memory_pool_free(p);
        return NULL;
    }
    return p;
}

static void * alloc(void * user, size_t size) {
    struct hip_hsa_bench * b = user;
    return allocate(b, b->data_pool, size);
}

static void release(void * user, void * memory) {
    struct hip_hsa_bench * b = user;
    b->hsa_amd_memory_pool_free(memory);
}

// ---- starting ----

// The module of a kernel; the last one stays loaded, because its neighbours come next.
static enum status load(struct hip_hsa_bench * b, const char * kernel,
                        const struct rocm_function ** out, struct error * err) {
    const char * name = rocm_modules_find(kernel);
    struct rocm_error why = {0};
    if (!name) {
        return error_set(err, ST_NOT_FOUND, "no such kernel in this library");
    }
    if (strcmp(name, b->module_name)) {
        rocm_module_release(b->module);
        b->module = NULL;
        b->module_name[0] = '\0';
        if (rocm_module_load(b->k, b->gpu.handle, name, NULL, &b->module, &why) != ROCM_OK) {
            return error_set(err, (enum status) why.status, "%.450s", why.text);
        }
        snprintf(b->module_name, sizeof b->module_name, "%s", name);
    }
    return rocm_module_function(b->module, kernel, out, &why) == ROCM_OK
               ? ST_OK
               : error_set(err, (enum status) why.status, "%.450s", why.text);
}

static void write_packet(struct hip_hsa_bench * b, const struct rocm_function * f,
                         const uint32_t groups[3], uint32_t group_size) {
    uint64_t index = b->hsa_queue_add_write_index_relaxed(b->queue, 1);
    hsa_kernel_dispatch_packet_t * p =
        (hsa_kernel_dispatch_packet_t *) b->queue->base_address + (index & (b->queue->size - 1));
    memset((uint8_t *) p + 4, 0, sizeof *p - 4);
    p->workgroup_size_x = (uint16_t) group_size;
    p->workgroup_size_y = p->workgroup_size_z = 1;
    p->grid_size_x = groups[0] * group_size;
    p->grid_size_y = groups[1];
    p->grid_size_z = groups[2];
    p->private_segment_size = f->private_bytes;
    p->group_segment_size = f->group_bytes;
    p->kernel_object = f->object;
    p->kernarg_address = b->kernarg;
    p->completion_signal = b->done;
    uint32_t header = HSA_PACKET_TYPE_KERNEL_DISPATCH << HSA_PACKET_HEADER_TYPE |
                      HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                      HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
    uint32_t setup = 3 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS;
    // The header makes the packet valid: it is written last, in one piece.
    __atomic_store_n((uint32_t *) (void *) p, setup << 16 | header, __ATOMIC_RELEASE);
    b->hsa_signal_store_screlease(b->queue->doorbell_signal, (hsa_signal_value_t) index);
}

static enum status wait(struct hip_hsa_bench * b, struct error * err) {
    // In slices, because a queue that stopped does not complete anything.
    for (int i = 0; i < WAIT_S * 20; i++) {
        if (b->hsa_signal_wait_scacquire(b->done, HSA_SIGNAL_CONDITION_LT, 1, 50000000,
                                         HSA_WAIT_STATE_BLOCKED) < 1) {
            return ST_OK;
        }
        int status = __atomic_load_n(&b->queue_error, __ATOMIC_ACQUIRE);
        if (status) {
            return error_set(err, ST_DEVICE, "the queue stopped with status 0x%x",
                             (unsigned) status);
        }
    }
    return error_set(err, ST_DEVICE, "no end after %d seconds", WAIT_S);
}

static enum status open_queue(struct hip_hsa_bench * b, struct error * err) {
    if (b->queue && __atomic_load_n(&b->queue_error, __ATOMIC_ACQUIRE)) {
        b->hsa_queue_destroy(b->queue); // it stopped: the next kernel gets a new one
        b->queue = NULL;
        b->queue_error = 0;
    }
    if (!b->queue && b->hsa_queue_create(b->gpu, 64, HSA_QUEUE_TYPE_SINGLE, on_queue_error, b,
                                         UINT32_MAX, UINT32_MAX, &b->queue) != HSA_STATUS_SUCCESS) {
        b->queue = NULL;
        return error_set(err, ST_DEVICE, "hsa_queue_create failed");
    }
    return ST_OK;
}

static enum status launch(void * user, const char * kernel, const void * args, size_t args_size,
                          const uint32_t groups[3], uint32_t group_size, struct error * err) {
    struct hip_hsa_bench * b = user;
    const struct rocm_function * f;
    enum status st = load(b, kernel, &f, err);
    if (st == ST_OK && (f->kernarg_bytes < args_size || f->kernarg_bytes > MAX_KERNARG)) {
        st = error_set(err, ST_CORRUPT, "it takes %u bytes of arguments, its struct has %zu",
                       f->kernarg_bytes, args_size);
    }
    if (st == ST_OK) {
        st = open_queue(b, err);
    }
    if (st != ST_OK) {
        return st;
    }
    memset(b->kernarg, 0, MAX_KERNARG);
    memcpy(b->kernarg, args, args_size);
    b->hsa_signal_store_relaxed(b->done, 1);
    write_packet(b, f, groups, group_size);
    return wait(b, err);
}

// ---- opening ----

static enum status open_all(struct hip_hsa_bench * b, struct error * err) {
    b->hsa_iterate_agents(visit_agent, b);
    if (!b->found_gpu) {
        return error_set(err, ST_NOT_FOUND, "the HSA runtime has no GPU, or no such one");
    }
    if (!b->found_data || !b->found_kernarg) {
        return error_set(err, ST_UNSUPPORTED, "the HSA runtime has no memory for the host and %s",
                         b->agent_name);
    }
    b->kernarg = allocate(b, b->kernarg_pool, MAX_KERNARG);
    if (!b->kernarg || b->hsa_signal_create(1, 0, NULL, &b->done) != HSA_STATUS_SUCCESS) {
        return error_set(err, ST_NO_MEMORY, "%s: no memory for arguments, or no signal",
                         b->agent_name);
    }
    return ST_OK;
}

enum status hip_bench_open(struct rocm_kernels * k,
                           void * (*symbol)(void * user, const char * name), void * user, int nth,
                           struct hip_hsa_bench ** out, struct error * err) {
    struct hip_hsa_bench * b = calloc(1, sizeof *b);
    const char * missing = NULL;
    void * p;
    *out = NULL;
    if (!b) {
        return error_set(err, ST_NO_MEMORY, "no memory for a bench");
    }
    b->bench = (struct hip_bench){b, alloc, release, launch};
    b->k = k;
    b->skip = nth;
#define FIND(name)                                                                                 \
    p = symbol(user, #name);                                                                       \
    memcpy(&b->name, &p, sizeof p);                                                                \
    missing = p ? missing : #name;
    BENCH_FUNCTIONS(FIND)
#undef FIND
    enum status st = missing
                         ? error_set(err, ST_UNSUPPORTED, "no HSA runtime, or it lacks %s", missing)
                         : open_all(b, err);
    if (st != ST_OK) {
        if (missing) {
            free(b);
        } else {
            hip_bench_close(b);
        }
        return st;
    }
    *out = b;
    return ST_OK;
}

void hip_bench_close(struct hip_hsa_bench * b) {
    if (!b) {
        return;
    }
    rocm_module_release(b->module);
    if (b->queue) {
        b->hsa_queue_destroy(b->queue);
    }
    if (b->done.handle) {
        b->hsa_signal_destroy(b->done);
    }
    if (b->kernarg) {
        b->hsa_amd_memory_pool_free(b->kernarg);
    }
    free(b);
}

const struct hip_bench * hip_bench_of(struct hip_hsa_bench * b) {
    return &b->bench;
}

const char * hip_bench_name(const struct hip_hsa_bench * b) {
    return b->agent_name;
}

// gpu-bench: kernels on a GPU, through the HSA client. Memory is the host's, which every GPU can
// reach.
#include "gpu-bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hip_hsa_bench {
    struct hip_bench bench; // first: what callers see
    struct rocm_kernels * k;
    struct hsac_agent * gpu;
    struct hsac_queue * queue;
    struct rocm_module * module;
    char module_name[64];
};

static void * alloc(void * user, size_t size) {
    struct hip_hsa_bench * b = user;
    return hsac_alloc(b->gpu, HSAC_POOL_HOST, size);
}

static void release(void * user, void * memory) {
    struct hip_hsa_bench * b = user;
    hsac_free(b->gpu, memory);
}

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
        if (rocm_module_load(b->k, hsac_agent_handle(b->gpu), name, NULL, &b->module, &why) !=
            ROCM_OK) {
            return error_set(err, (enum status) why.status, "%.450s", why.text);
        }
        snprintf(b->module_name, sizeof b->module_name, "%s", name);
    }
    return rocm_module_function(b->module, kernel, out, &why) == ROCM_OK
               ? ST_OK
               : error_set(err, (enum status) why.status, "%.450s", why.text);
}

static enum status launch(void * user, const char * kernel, const void * args, size_t args_size,
                          const uint32_t groups[3], uint32_t group_size, struct error * err) {
    struct hip_hsa_bench * b = user;
    const struct rocm_function * f;
    enum status st = load(b, kernel, &f, err);
    if (st != ST_OK) {
        return st;
    }
    struct hsac_launch l = {
        .object = f->object,
        .group_bytes = f->group_bytes,
        .private_bytes = f->private_bytes,
        .args = args,
        .args_size = (uint32_t) args_size,
        .kernarg_bytes = f->kernarg_bytes,
        .grid = {groups[0] * group_size, groups[1], groups[2]},
        .group = {(uint16_t) group_size, 1, 1},
    };
    st = hsac_queue_launch(b->queue, &l, err);
    return st == ST_OK ? hsac_queue_wait(b->queue, err) : st;
}

enum status hip_bench_open(struct rocm_kernels * k, struct hsac * runtime, int nth,
                           struct hip_hsa_bench ** out, struct error * err) {
    *out = NULL;
    struct hsac_agent * gpu = NULL;
    for (int i = 0; i < hsac_agent_count(runtime) && !gpu; i++) {
        struct hsac_agent * a = hsac_agent_get(runtime, i);
        if (hsac_agent_kind(a) == HSAC_GPU && nth-- == 0) {
            gpu = a;
        }
    }
    if (!gpu) {
        return error_set(err, ST_NOT_FOUND, "the HSA runtime has no GPU, or no such one");
    }
    struct hip_hsa_bench * b = calloc(1, sizeof *b);
    if (!b) {
        return error_set(err, ST_NO_MEMORY, "no memory for a bench");
    }
    *b = (struct hip_hsa_bench){.bench = {b, alloc, release, launch}, .k = k, .gpu = gpu};
    enum status st = hsac_queue_new(gpu, &b->queue, err);
    if (st != ST_OK) {
        free(b);
        return st;
    }
    *out = b;
    return ST_OK;
}

void hip_bench_close(struct hip_hsa_bench * b) {
    if (!b) {
        return;
    }
    hsac_queue_free(b->queue); // before its kernels go
    rocm_module_release(b->module);
    free(b);
}

const struct hip_bench * hip_bench_of(struct hip_hsa_bench * b) {
    return &b->bench;
}

const char * hip_bench_name(const struct hip_hsa_bench * b) {
    return hsac_agent_name(b->gpu);
}

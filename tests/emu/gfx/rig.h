// rig: kernels compiled at test time and run on the emulated GPU, which may touch what the test
// allows and nothing else.
#pragma once

#include "base/cmocka-all.h"
#include "emu/gfx/loader.h"

#include <unistd.h>

// ---- memory that kernels may touch ----

enum { RIG_REGIONS = 32 };

struct region {
    uint64_t base, size;
    bool writable;
};

struct rig {
    struct gfx * gpu;
    struct image image;
    struct region regions[RIG_REGIONS];
    int n_regions;
};

static void * rig_resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    const struct rig * r = user;
    for (int i = 0; i < r->n_regions; i++) {
        const struct region * g = &r->regions[i];
        if (addr >= g->base && len <= g->size && addr - g->base <= g->size - len) {
            return write && !g->writable ? NULL : (void *) (uintptr_t) addr;
        }
    }
    return NULL;
}

static inline void rig_allow(struct rig * r, const void * p, size_t size, bool writable) {
    assert_true(r->n_regions < RIG_REGIONS);
    r->regions[r->n_regions++] = (struct region){(uintptr_t) p, size, writable};
}

static inline void rig_forbid_all(struct rig * r, int keep) {
    r->n_regions = keep;
}

// ---- running ----

static inline bool rig_open(struct rig * r, enum gfx_arch arch, const char * code, int threads,
                            uint64_t budget) {
    memset(r, 0, sizeof *r);
    struct error err;
    struct gfx_config c = {
        .arch = arch, .threads = threads, .resolve = rig_resolve, .user = r, .wave_budget = budget};
    if (gfx_new(&c, &r->gpu, &err) != ST_OK) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    assert_true(image_load(&r->image, code));
    rig_allow(r, r->image.memory, r->image.size, false);
    return true;
}

static inline void rig_close(struct rig * r) {
    gfx_free(r->gpu);
    image_free(&r->image);
}

static inline enum status rig_launch(struct rig * r, const char * kernel, const uint32_t grid[3],
                                     const uint32_t group[3], uint32_t dynamic_lds,
                                     const void * args, size_t size, struct error * err) {
    char name[96];
    snprintf(name, sizeof name, "%s.kd", kernel);
    uint64_t object = image_symbol(&r->image, name);
    if (!object) {
        return error_set(err, ST_NOT_FOUND, "no kernel %s", kernel);
    }
    _Alignas(64) struct aql packet = {.header = 2, .setup = 3, .kernel = object};
    _Alignas(64) uint8_t kernarg[256] = {0};
    assert_true(size <= sizeof kernarg);
    memcpy(kernarg, args, size);
    const uint8_t * kd = (const uint8_t *) (uintptr_t) object;
    packet.kernarg = (uintptr_t) kernarg;
    packet.group_bytes = load_u32(kd) + dynamic_lds;
    // A kernel that calls through what the compiler cannot count on asks for what it likes.
    packet.private_bytes = load_u32(kd + 4) ? load_u32(kd + 4) + 2048 : 0;
    struct gfx_dispatch d = {.kernel_object = object,
                             .kernarg = packet.kernarg,
                             .packet = (uintptr_t) &packet,
                             .group_bytes = packet.group_bytes,
                             .private_bytes = packet.private_bytes};
    for (int k = 0; k < 3; k++) {
        packet.grid[k] = d.grid[k] = grid[k];
        packet.group[k] = d.group[k] = (uint16_t) group[k];
    }
    int keep = r->n_regions;
    rig_allow(r, &packet, sizeof packet, false);
    rig_allow(r, kernarg, sizeof kernarg, false);
    enum status st = gfx_run(r->gpu, &d, err);
    r->n_regions = keep;
    return st;
}

static inline enum status rig_launch_1d(struct rig * r, const char * kernel, uint32_t items,
                                        uint32_t group, const void * args, size_t size,
                                        struct error * err) {
    uint32_t g[3] = {items, 1, 1}, l[3] = {group, 1, 1};
    return rig_launch(r, kernel, g, l, 0, args, size, err);
}

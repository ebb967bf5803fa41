// launches: what the kernels of an emulated GPU were and executed, the last ones of each agent. A
// launch is noted when it is complete, by the thread that ran it.
#include "executables.h"
#include "packets.h"

#include "hsa-emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rt_launches {
    uint64_t n;
    struct gfx_counters before; // the next one
    struct hsa_emu_launch recent[HSA_EMU_LAUNCHES];
};

_Static_assert((int) HSA_EMU_KINDS == (int) GFX_KINDS, "one of each kind");

// Kernels are called by their descriptor, which ends in ".kd".
static void name_of(struct rt_agent * agent, uint64_t object, char * out, size_t size) {
    struct rt_runtime * rt = agent->rt;
    pthread_mutex_lock(&rt->code.lock);
    const struct rt_loaded * l = rt_loaded_at(rt, object);
    for (size_t i = 0; l && i < l->n_symbols; i++) {
        const struct code_symbol * s = &l->symbols[i].info;
        if (s->is_kernel && s->address == object) {
            snprintf(out, size, "%.*s", (int) strcspn(s->name, "."), s->name);
        }
    }
    pthread_mutex_unlock(&rt->code.lock);
}

void rt_launch_note(struct rt_agent * agent, const hsa_kernel_dispatch_packet_t * p) {
    struct gfx_counters now;
    char name[sizeof((struct hsa_emu_launch *) 0)->kernel] = "";
    name_of(agent, p->kernel_object, name, sizeof name);
    gfx_counters_get(agent->gfx, &now);
    pthread_mutex_lock(&agent->lock);
    struct rt_launches * all = agent->launches;
    all = agent->launches = all ? all : calloc(1, sizeof *all);
    if (all) {
        struct hsa_emu_launch * l = &all->recent[all->n % HSA_EMU_LAUNCHES];
        *l = (struct hsa_emu_launch){
            .size = sizeof *l,
            .number = ++all->n,
            .grid = {p->grid_size_x, p->grid_size_y, p->grid_size_z},
            .group = {p->workgroup_size_x, p->workgroup_size_y, p->workgroup_size_z},
            .lanes = now.lanes,
            .vgprs = now.vgprs,
            .group_bytes = p->group_segment_size,
            .private_bytes = p->private_segment_size,
            .waves = now.waves - all->before.waves,
            .instructions = now.instructions - all->before.instructions,
        };
        memcpy(l->kernel, name, sizeof name);
        for (int i = 0; i < GFX_KINDS; i++) {
            l->kinds[i].name = gfx_kind_name((enum gfx_kind) i);
            l->kinds[i].instructions = now.kinds[i] - all->before.kinds[i];
            l->kinds[i].bytes = now.bytes[i] - all->before.bytes[i];
        }
        all->before = now;
    }
    pthread_mutex_unlock(&agent->lock);
}

hsa_status_t hsa_emu_launch(hsa_agent_t handle, uint64_t number, struct hsa_emu_launch * out) {
    struct rt_agent * agent = rt_agent_find(handle);
    if (!agent || !agent->gpu) {
        return rt_runtime() ? HSA_STATUS_ERROR_INVALID_AGENT : HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!out || out->size < sizeof *out) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    pthread_mutex_lock(&agent->lock);
    const struct rt_launches * all = agent->launches;
    uint64_t n = all ? all->n : 0, wanted = number ? number : n;
    bool is_there = wanted >= 1 && wanted <= n && n - wanted < HSA_EMU_LAUNCHES;
    if (is_there) {
        *out = all->recent[(wanted - 1) % HSA_EMU_LAUNCHES];
    }
    pthread_mutex_unlock(&agent->lock);
    return is_there ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_INDEX;
}

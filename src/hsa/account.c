// account: what an emulated NPU says of its time, for all dispatches and for each packet of a
// batch. The emulated runtime numbers dispatches in the order in which they run and remembers as
// many as a queue holds; nobody else dispatches to the agent between a batch's doorbell and its
// end, so that packet i of a batch is dispatch i + 1 behind those that were before it.
#include "hsac-impl.h"

#include <stdlib.h>
#include <string.h>

HSAC_ACCOUNT_IS(hsa_emu_account);

static bool ask(const struct hsac_agent * a, uint64_t dispatch, struct hsac_account * out) {
    struct hsa_emu_account c = {.size = sizeof c};
    *out = (struct hsac_account){.clock = ""};
    if (!a->h->emulated || a->kind == HSAC_GPU || hsac_forked(a->h) ||
        a->h->api.hsa_emu_account(a->handle, dispatch, &c) != HSA_STATUS_SUCCESS) {
        return false;
    }
    memcpy(out, &c, sizeof c);
    return true;
}

bool hsac_agent_account(const struct hsac_agent * a, struct hsac_account * out) {
    return ask(a, 0, out);
}

void hsac_agent_watch(struct hsac_agent * a,
                      void (*watch)(void * user, uint32_t tag, const struct hsac_account * account),
                      void * user) {
    if (hsac_forked(a->h)) {
        return;
    }
    pthread_mutex_lock(&a->ring.lock);
    a->ring.watch = watch;
    a->ring.watch_user = user;
    pthread_mutex_unlock(&a->ring.lock);
}

bool hsac_agent_traces(const struct hsac_agent * a) {
    const char * path = secure_getenv("GGML_HSA_TRACE"); // as the runtime reads it
    return a->h->emulated && a->kind == HSAC_NPU && path && *path;
}

uint64_t hsac_account_count(const struct hsac_agent * a, bool named) {
    struct hsac_account now;
    return (a->ring.watch || named) && ask(a, 0, &now) ? now.dispatches : 0;
}

void hsac_account_name(struct hsac_agent * a, uint64_t before, uint64_t first_index,
                       uint32_t n_packets) {
    for (uint32_t i = 0; i < n_packets; i++) {
        char ** name = &a->ring.names[(first_index + i) % AIE_ABI_QUEUE_PACKETS];
        if (*name) {
            a->h->api.hsa_emu_name(a->handle, before + i + 1, *name);
        }
        free(*name);
        *name = NULL;
    }
}

void hsac_account_tell(struct hsac_agent * a, uint64_t before, uint64_t first_index,
                       uint32_t n_packets) {
    struct hsac_ring * ring = &a->ring;
    struct hsac_account account;
    for (uint32_t i = 0; ring->watch && i < n_packets; i++) {
        if (ask(a, before + i + 1, &account)) {
            ring->watch(ring->watch_user, ring->tags[(first_index + i) % AIE_ABI_QUEUE_PACKETS],
                        &account);
        }
    }
}

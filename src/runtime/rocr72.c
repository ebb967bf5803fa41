// rocr72: what ROCr 7.2 and the driver below it cannot bear. There such a batch ends the process
// (an assertion of ROCr's), or runs a kernel on another kernel's PDI without a word; here it stops
// the queue with a message that says which of the faults it was.
//
// ROCr makes a hardware context for each batch that has a PDI which it does not find on its list,
// and keeps the list under the id of the context before; the driver hands ids out in a circle.
#include "packets.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONTEXT_PDIS = 32,  // bits of a context's mask of compute units
    CONTEXT_IDS = 255,  // 1 to this
    CHAIN_BYTES = 4096, // the driver's buffer for the commands of a batch
    CHAIN_HEADER = 52,  // of each command, with firmware 5.8 or later
    EVEN_BELOW = 15,    // words: firmware aborts a shorter command when their number is odd
    WAIT_US = 50000,
};

struct list {
    uint64_t pdis[CONTEXT_PDIS];
    int n; // 0: there is none
};

struct rt_rocr72 {
    struct list kept[CONTEXT_IDS + 1]; // by id; 0 is that of a queue without a context
    struct list configured;            // what the live context was made with
    uint32_t ids, next;                // the driver's
};

#define REFUSE(status, ...) (error_set(err, ST_INVALID, __VA_ARGS__), (status))

static struct rt_rocr72 * state_of(struct rt_agent * agent) {
    if (!agent->rocr72) {
        agent->rocr72 = calloc(1, sizeof *agent->rocr72);
        if (agent->rocr72) {
            const char * text =
                getenv("GGML_HSA_EMU_CONTEXT_IDS"); // a small circle comes round soon
            uint32_t ids = text ? (uint32_t) strtoul(text, NULL, 10) : 0;
            agent->rocr72->ids = ids > 0 && ids < CONTEXT_IDS ? ids : CONTEXT_IDS;
            agent->rocr72->next = 1;
        }
    }
    return agent->rocr72;
}

static int find(const struct list * l, uint64_t pdi) {
    int i = 0;
    while (i < l->n && l->pdis[i] != pdi) {
        i++;
    }
    return i;
}

static hsa_status_t check_chain(const struct rt_dispatch * d, uint64_t n, struct error * err) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (d[i].words < EVEN_BELOW && d[i].words % 2) {
            return REFUSE(HSA_STATUS_ERROR_EXCEPTION,
                          "packet %" PRIu64 " of the batch has %u words: firmware aborts a command "
                          "of fewer than %d when their number is odd",
                          i, d[i].words, EVEN_BELOW);
        }
        bytes += CHAIN_HEADER + 4 * (uint64_t) d[i].words;
    }
    return bytes <= CHAIN_BYTES
               ? HSA_STATUS_SUCCESS
               : REFUSE(HSA_STATUS_ERROR_OUT_OF_RESOURCES,
                        "a batch of %" PRIu64 " packets takes %" PRIu64 " bytes in the driver's "
                        "buffer of %d, and ROCr 7.2 ends the process",
                        n, bytes, CHAIN_BYTES);
}

// Two users of one runtime share lists; a buffer that is gone may stand on them.
static hsa_status_t make_context(struct rt_agent * agent, struct rt_queue * q,
                                 const struct list * list, struct error * err) {
    struct rt_rocr72 * r = agent->rocr72;
    for (int i = 0; i < list->n; i++) {
        struct rt_pool * pool;
        if (!rt_memory_find(agent->rt, agent, list->pdis[i], &pool, NULL, NULL) || !pool ||
            !pool->heap) {
            return REFUSE(HSA_STATUS_ERROR_INVALID_ALLOCATION,
                          "a hardware context with the PDI at 0x%" PRIx64 ", which was freed: ROCr "
                          "7.2 keeps it on its list and ends the process",
                          list->pdis[i]);
        }
    }
    r->kept[q->context] = *list; // under the old id: that is the fault
    r->configured = *list;
    q->context = r->next;
    r->next = r->next % r->ids + 1;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t rt_rocr72_submit(struct rt_queue * q, const struct rt_dispatch * d, uint64_t n,
                              struct error * err) {
    struct rt_rocr72 * r = state_of(q->agent);
    if (!r) {
        return REFUSE(HSA_STATUS_ERROR_OUT_OF_RESOURCES, "no memory for a hardware context");
    }
    hsa_status_t status = check_chain(d, n, err);
    if (status != HSA_STATUS_SUCCESS) {
        return status;
    }
    struct list list = r->kept[q->context];
    bool grown = false;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t pdi = (uint64_t) (uintptr_t) d[i].pdi;
        if (find(&list, pdi) < list.n) {
            continue;
        }
        if (list.n == CONTEXT_PDIS) {
            return REFUSE(HSA_STATUS_ERROR_OUT_OF_RESOURCES,
                          "more than %d PDIs in one hardware context", CONTEXT_PDIS);
        }
        list.pdis[list.n++] = pdi;
        grown = true;
    }
    if (grown) {
        return make_context(q->agent, q, &list, err);
    }
    if (q->context == 0) {
        return REFUSE(HSA_STATUS_ERROR_INVALID_QUEUE,
                      "a queue that has no hardware context: all its PDIs are on the list of an "
                      "earlier queue, and ROCr 7.2 ends the process");
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t pdi = (uint64_t) (uintptr_t) d[i].pdi;
        int at = find(&list, pdi);
        if (at >= r->configured.n || r->configured.pdis[at] != pdi) {
            return REFUSE(HSA_STATUS_ERROR_EXCEPTION,
                          "packet %" PRIu64 " of the batch runs on PDI %d of hardware context %u, "
                          "which is another one: ROCr 7.2 found a list of an earlier context with "
                          "the same id",
                          i, at, q->context);
        }
    }
    return HSA_STATUS_SUCCESS;
}

hsa_status_t rt_rocr72_waited(uint64_t us, struct error * err) {
    return us <= WAIT_US
               ? HSA_STATUS_SUCCESS
               : REFUSE(HSA_STATUS_ERROR_EXCEPTION,
                        "a batch of %" PRIu64 " us, modelled: ROCr 7.2 waits 50 ms and ends the "
                        "process",
                        us);
}

// Whether ROCr 7.2 finds the buffer around an address: by the next one above.
hsa_status_t rt_rocr72_find(struct rt_runtime * rt, const struct rt_agent * agent, uint64_t addr,
                            uint64_t base, struct error * err) {
    return addr == base || rt_memory_has_above(rt, agent, addr)
               ? HSA_STATUS_SUCCESS
               : REFUSE(HSA_STATUS_ERROR_INVALID_ALLOCATION,
                        "0x%" PRIx64 " lies inside the agent's topmost buffer, and ROCr 7.2 finds "
                        "only what has a buffer above it",
                        addr);
}

// account: where a NPU's modelled time went, in all and for each of its last dispatches. What is
// remembered are the machine's counters after each dispatch; one dispatch is the difference of two
// of them, so that nothing is lost between: what was spent before a batch belongs to its first.
#include "runtime.h"

#include "hsa-emu.h"
#include "timeline.h"

_Static_assert((int) HSA_EMU_CAUSES == (int) EMU_CAUSES, "the header counts them");
_Static_assert((int) HSA_EMU_RUNS == (int) EMU_RUN_KINDS, "the header counts them");

enum { REMEMBERED = sizeof((struct rt_agent *) 0)->recent / sizeof(struct emu_counters) };

void rt_account_note(struct rt_agent * agent) {
    struct emu_counters c;
    emu_machine_counters(agent->machine, &c);
    agent->recent[c.dispatches % REMEMBERED] = c;
}

static void fill(const struct rt_agent * agent, const struct emu_counters * from,
                 const struct emu_counters * to, struct hsa_emu_account * out) {
    const struct emu_clock * clock = agent->machine ? emu_machine_clock(agent->machine) : NULL;
    uint64_t cycles = 0;
    *out = (struct hsa_emu_account){
        .size = sizeof *out,
        .dispatches = to->dispatches - from->dispatches,
        .pdi_loads = to->pdi_loads - from->pdi_loads,
        .cycles = to->cycles - from->cycles,
        .bundles = to->bundles - from->bundles,
        .core_stalls = to->core_stalls - from->core_stalls,
        .bank_stalls = to->bank_stalls - from->bank_stalls,
        .stream_words = to->stream_words - from->stream_words,
        .flushed = to->flushed - from->flushed,
        .clock = clock ? clock->name : "",
        .mhz = clock ? clock->mhz : 0,
    };
    for (int i = 0; i < EMU_CAUSES; i++) {
        out->causes[i].name = emu_cause_names[i];
        out->causes[i].cycles = to->account.cycles[i] - from->account.cycles[i];
        cycles += out->causes[i].cycles;
    }
    for (int i = 0; i < EMU_RUN_KINDS; i++) {
        out->runs[i].below = emu_run_limits[i];
        out->runs[i].read = to->runs.read[i] - from->runs.read[i];
        out->runs[i].written = to->runs.written[i] - from->runs.written[i];
    }
    out->ns = clock ? cycles * 1000 / clock->mhz : 0;
}

// What the program flushed before its NPU had a machine, whose account it will be in.
static uint64_t flushing_ns(const struct rt_agent * agent) {
    struct emu_clock clock;
    uint64_t bytes = __atomic_load_n(&agent->flushed, __ATOMIC_RELAXED);
    return bytes && agent->model && emu_clock_get(agent->model->arch, &clock, NULL) == ST_OK
               ? bytes * clock.flush_mb_ns / 1000000
               : 0;
}

// The modelled time is the sum over the accounts of all NPUs, each by its own clock.
uint64_t rt_time_ns(struct rt_runtime * rt, struct rt_agent * locked) {
    if (!rt->modelled) {
        return rt_now_ns();
    }
    uint64_t ns = rt->born_ns;
    for (int i = 0; i < rt->n_agents; i++) {
        struct rt_agent * agent = &rt->agents[i];
        if (agent != locked) {
            pthread_mutex_lock(&agent->lock);
        }
        if (!agent->machine) {
            ns += flushing_ns(agent);
        } else {
            struct emu_counters c;
            rt_caches_charge(agent);
            emu_machine_counters(agent->machine, &c);
            ns += emu_account_cycles(&c.account) * 1000 / emu_machine_clock(agent->machine)->mhz;
        }
        if (agent != locked) {
            pthread_mutex_unlock(&agent->lock);
        }
    }
    return ns;
}

hsa_status_t hsa_emu_name(hsa_agent_t handle, uint64_t dispatch, const char * text) {
    struct rt_agent * agent = rt_agent_find(handle);
    if (!agent || !agent->model) {
        return rt_runtime() ? HSA_STATUS_ERROR_INVALID_AGENT : HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!text) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (!agent->rt->timeline) {
        return HSA_STATUS_SUCCESS;
    }
    struct emu_counters now = {0};
    pthread_mutex_lock(&agent->lock);
    if (agent->machine) {
        emu_machine_counters(agent->machine, &now);
    }
    bool waits = dispatch > now.dispatches && dispatch - now.dispatches < REMEMBERED;
    if (waits) {
        rt_timeline_name(agent, dispatch, text);
    }
    pthread_mutex_unlock(&agent->lock);
    return waits ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_INDEX;
}

hsa_status_t hsa_emu_account(hsa_agent_t handle, uint64_t dispatch, struct hsa_emu_account * out) {
    struct rt_agent * agent = rt_agent_find(handle);
    if (!agent || !agent->model) {
        return rt_runtime() ? HSA_STATUS_ERROR_INVALID_AGENT : HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!out || out->size < sizeof *out) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    struct emu_counters now = {0}, none = {0};
    hsa_status_t status = HSA_STATUS_SUCCESS;
    pthread_mutex_lock(&agent->lock);
    if (agent->machine) {
        rt_caches_charge(agent);
        emu_machine_counters(agent->machine, &now);
    }
    if (dispatch == 0) {
        fill(agent, &none, &now, out);
    } else if (dispatch > now.dispatches || now.dispatches - dispatch >= REMEMBERED - 1) {
        status = HSA_STATUS_ERROR_INVALID_INDEX;
    } else {
        fill(agent, &agent->recent[(dispatch - 1) % REMEMBERED],
             &agent->recent[dispatch % REMEMBERED], out);
    }
    pthread_mutex_unlock(&agent->lock);
    return status;
}

// timeline: see timeline.c.
#pragma once

#include "runtime.h"

// NULL: none is asked for.
struct emu_timeline * emu_timeline_new(void);
void emu_timeline_free(struct emu_timeline * t); // NULL is fine
// For emu_config.event; user is the agent, whose lock is held.
void emu_timeline_event(void * user, const struct emu_event * event);
// After each dispatch, under the agent's lock.
void emu_timeline_dispatched(struct emu_agent * agent);

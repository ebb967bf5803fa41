// timeline: see timeline.c.
#pragma once

#include "runtime.h"

// NULL: none is asked for.
struct emu_timeline * emu_timeline_new(void);
// NULL is fine to both. The first gives the file its name; other threads may go on as before.
void emu_timeline_end(struct emu_timeline * t);
void emu_timeline_free(struct emu_timeline * t);
// For emu_config.event; user is the agent, whose lock is held.
void emu_timeline_event(void * user, const struct emu_event * event);
// After each dispatch, under the agent's lock.
void emu_timeline_dispatched(struct emu_agent * agent);

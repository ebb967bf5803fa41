// timeline: see timeline.c.
#pragma once

#include "runtime.h"

// NULL: none is asked for.
struct rt_timeline * rt_timeline_new(void);
// NULL is fine to both. The first gives the file its name; other threads may go on as before.
void rt_timeline_end(struct rt_timeline * t);
void rt_timeline_free(struct rt_timeline * t);
// For emu_config.event; user is the agent, whose lock is held.
void rt_timeline_event(void * user, const struct emu_event * event);
// After each dispatch, under the agent's lock.
void rt_timeline_dispatched(struct rt_agent * agent);
// What a dispatch to come is called, by its number: a line, and behind a line end what else is to
// be known of it. Under the agent's lock.
void rt_timeline_name(struct rt_agent * agent, uint64_t dispatch, const char * text);
void rt_timeline_forget(struct rt_agent * agent); // all names

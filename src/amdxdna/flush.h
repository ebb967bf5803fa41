// flush: lines of the CPU's caches written back and dropped, by hand. NPUs do not snoop, so whoever
// wrote bytes for one flushes them before it is started, and whoever reads what it wrote flushes
// them before that.
#pragma once

#include "base/base.h"

enum { AMDXDNA_LINE = 64 };

// True where this CPU has an instruction for it that programs may use.
bool amdxdna_can_flush(void);
// The lines around [at, at + size). Fenced on both sides: without that stale reads were seen.
void amdxdna_flush(const void * at, size_t size);
uint64_t amdxdna_flushed(void); // bytes since the process began, in whole lines

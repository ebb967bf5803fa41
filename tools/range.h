// range: the three clocks of a run with --range. What a device's memory does is known within
// bounds, and each device has a low, a likely and a high memory; a headline is at likely.
#pragma once

#include "emu/aie/clock.h"

#define RANGE_TEXT 160
// What GGML_HSA_EMU_CLOCK must be for it: the clock that was asked for, or where that is NULL or
// empty the one of that name, with the range behind. A clock that has a memory already is refused.
enum status range_clock(const char * asked, const char * name, enum emu_range range,
                        char out[RANGE_TEXT], struct error * err);

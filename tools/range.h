// range: the three clocks of a run with --range. What a device's memory does is known within
// bounds: each clock has a low, a likely and a high figure for it, and a headline is at likely.
#pragma once

#include "base/base.h"

enum range { RANGE_LOW, RANGE_LIKELY, RANGE_HIGH, RANGES };
extern const char * const range_names[RANGES];

#define RANGE_TEXT 160
// What GGML_HSA_EMU_CLOCK must be for it: the clock that was asked for, or where that is NULL or
// empty the one of that name, with the range behind.
enum status range_clock(const char * asked, const char * name, enum range range,
                        char out[RANGE_TEXT], struct error * err);

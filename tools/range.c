// range: see range.h.
#include "range.h"

#include <stdio.h>
#include <string.h>

enum status range_clock(const char * asked, const char * name, enum emu_range range,
                        char out[RANGE_TEXT], struct error * err) {
    const char * clock = asked && *asked ? asked : name;
    if (strstr(clock, ",range=") || strstr(clock, ",ddr=")) {
        return error_set(err, ST_INVALID,
                         "clock: '%.80s' says which memory, and --range goes through all three; "
                         "leave one of the two out",
                         clock);
    }
    int n = snprintf(out, RANGE_TEXT, "%s,range=%s", clock, emu_range_names[range]);
    return n < RANGE_TEXT ? ST_OK
                          : error_set(err, ST_INVALID, "clock: '%.80s...' is too long", clock);
}

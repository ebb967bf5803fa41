// range: see range.h.
#include "range.h"

#include <stdio.h>
#include <string.h>

const char * const range_names[RANGES] = {"low", "likely", "high"};

enum status range_clock(const char * asked, const char * name, enum range range,
                        char out[RANGE_TEXT], struct error * err) {
    const char * clock = asked && *asked ? asked : name;
    if (strstr(clock, ",range=")) {
        return error_set(err, ST_INVALID,
                         "clock: '%.80s' names one range already, and --range takes all three; "
                         "leave one of the two out",
                         clock);
    }
    int n = snprintf(out, RANGE_TEXT, "%s,range=%s", clock, range_names[range]);
    return n < RANGE_TEXT ? ST_OK
                          : error_set(err, ST_INVALID, "clock: '%.80s...' is too long", clock);
}

// runs: how the account of bytes by the length of their runs is reported: a run is what a transfer
// moves at addresses that follow each other, and host memory is slow where runs are short.
#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define RUN_SHORT 512 // bytes: runs below that are what a layout is to be rid of

// "< 64 B", "< 4 KiB"; 0: "longer".
static inline const char * run_label(uint64_t below, char text[16]) {
    if (!below) {
        return "longer";
    }
    bool kib = below >= 1024 && below % 1024 == 0;
    snprintf(text, 16, "< %" PRIu64 " %s", (kib ? below / 1024 : below) % 100000,
             kib ? "KiB" : "B");
    return text;
}

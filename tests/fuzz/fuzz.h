// fuzz: what a target gives. libFuzzer calls the first function with inputs of its own; smoke.c
// calls it with the target's seeds and fixed mutations of them.
#pragma once

#include "base/base.h"

// Feeds one input to the code under test and aborts when a property does not hold. Returns 0.
int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size);

// Seed number i (from 0). Returns false when there are no more; a seed whose file is not there has
// no data (NULL). The caller frees *data.
bool fuzz_seed(int i, uint8_t ** data, size_t * size);

extern const int fuzz_rounds; // mutations of each seed in the smoke test

// Reads a golden file as a seed.
static inline void fuzz_golden(const char * path, uint8_t ** data, size_t * size) {
    if (file_read(path, 1 << 24, data, size, NULL) != ST_OK) {
        *data = NULL;
    }
}

// fuzz: what a target gives. libFuzzer calls the first function with inputs of its own; smoke.c
// calls it with the target's seeds and fixed mutations of them.
#pragma once

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

// Feeds one input to the code under test and aborts when a property does not hold. Returns 0.
int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size);

// Seed number i (from 0). Returns false when there are no more; a seed whose file is not there has
// no data (NULL). The caller frees *data.
bool fuzz_seed(int i, uint8_t ** data, size_t * size);

extern const int fuzz_rounds;  // mutations of each seed in the smoke test
extern const int fuzz_longest; // bytes of an input beyond which libFuzzer need not look

// Reads a golden file as a seed.
static inline void fuzz_golden(const char * path, uint8_t ** data, size_t * size) {
    if (file_read(path, 1 << 24, data, size, NULL) != ST_OK) {
        *data = NULL;
    }
}

// The input as a string, which ends at its first zero byte. The caller frees it; it has no byte to
// spare, so that a sanitizer sees who reads too far.
static inline char * fuzz_text(const uint8_t * data, size_t size) {
    char * text = malloc(size + 1);
    if (!text) {
        abort();
    }
    if (size) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    return text;
}

// Seed number i of a table, as fuzz_seed gives it.
static inline bool fuzz_bytes(const void * from, size_t n, uint8_t ** data, size_t * size) {
    *data = malloc(n ? n : 1);
    if (!*data) {
        abort();
    }
    memcpy(*data, from, n);
    *size = n;
    return true;
}

static inline bool fuzz_texts(const char * const * texts, size_t n, int i, uint8_t ** data,
                              size_t * size) {
    return (size_t) i < n && fuzz_bytes(texts[i], strlen(texts[i]), data, size);
}

// ---- grammars: an input as a list of choices ----

struct fuzz_input {
    const uint8_t * data;
    size_t left;
};

// The next byte, zeros behind the end.
static inline uint32_t fuzz_next(struct fuzz_input * in) {
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->data++;
}

static inline uint64_t fuzz_number(struct fuzz_input * in, int bytes) {
    uint64_t n = 0;
    for (int i = 0; i < bytes; i++) {
        n |= (uint64_t) fuzz_next(in) << 8 * i;
    }
    return n;
}

#define FUZZ_PICK(in, table) (table)[fuzz_next(in) % (sizeof(table) / sizeof((table)[0]))]

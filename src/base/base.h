// base: what every other room stands on. Errors are values: a function that can fail returns an
// enum status and, when the caller gave one, fills a struct error with what failed, on which input,
// and how to mend it. Nothing in here prints, exits or keeps state.
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum status {
    ST_OK = 0,
    ST_INVALID,     // the input is malformed or outside what its format allows
    ST_UNSUPPORTED, // well-formed, but nothing here can do it
    ST_NOT_FOUND,   // a file, kernel, device or symbol is not there
    ST_NO_MEMORY,   // an allocation failed, or a fixed limit is used up
    ST_IO,          // the operating system refused
    ST_CORRUPT,     // bytes from outside do not hold together
    ST_DEVICE,      // the device or its runtime reported an error
    ST_BUSY,        // another process is at it, and did not come to an end in time
};

struct error {
    enum status status;
    char text[480];
};

#if defined(__GNUC__)
#    define BASE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#    define BASE_PRINTF(fmt, args)
#endif

// Fills err (may be NULL) and returns st, so that `return error_set(err, ST_INVALID, ...)` is one
// line. The text is one line too, and plain (plain.h), whatever it quotes.
enum status error_set(struct error * err, enum status st, const char * fmt, ...) BASE_PRINTF(3, 4);
// The same for a text of several lines, which shows a place in one of them. What it quotes has
// none.
enum status error_set_lines(struct error * err, enum status st, const char * fmt, ...)
    BASE_PRINTF(3, 4);

// Puts "prefix: " before the text that err (may be NULL) already holds, and returns st: what a
// caller learns must not depend on whether he asked for a text.
enum status error_prefix(struct error * err, enum status st, const char * fmt, ...)
    BASE_PRINTF(3, 4);

const char * status_name(enum status st);

// True for 1, true, on, yes, false for 0, false, off, no, in any case; anything else, and what is
// not set, gives fallback (variables.h says that it is wrong).
bool env_flag(const char * name, bool fallback);
// A number from 0 to most in decimal; whatever else it is gives fallback.
int env_number(const char * name, int most, int fallback);

// A growing byte buffer. Zero-initialised is empty and valid. After a failed growth `failed` is
// set, later appends do nothing, and the caller checks once at the end. A zero byte always stands
// behind what was appended, so that data is also a C string.
struct buf {
    uint8_t * data;
    size_t size;
    size_t capacity;
    bool failed;
};

void buf_append(struct buf * b, const void * data, size_t size);
void buf_append_u32(struct buf * b, uint32_t word); // little-endian
void buf_printf(struct buf * b, const char * fmt, ...) BASE_PRINTF(2, 3);
void buf_free(struct buf * b);

// Reads a whole regular file of at most max bytes. On success *data is malloc'ed (never NULL) and
// the caller frees it.
enum status file_read(const char * path, size_t max, uint8_t ** data, size_t * size,
                      struct error * err);

// Unaligned little-endian access; every format that we read or write is little-endian.
static inline uint32_t load_u32(const void * p) {
    const uint8_t * b = p;
    return (uint32_t) b[0] | (uint32_t) b[1] << 8 | (uint32_t) b[2] << 16 | (uint32_t) b[3] << 24;
}

static inline uint64_t load_u64(const void * p) {
    return (uint64_t) load_u32(p) | (uint64_t) load_u32((const uint8_t *) p + 4) << 32;
}

static inline void store_u32(void * p, uint32_t v) {
    uint8_t * b = p;
    b[0] = (uint8_t) v;
    b[1] = (uint8_t) (v >> 8);
    b[2] = (uint8_t) (v >> 16);
    b[3] = (uint8_t) (v >> 24);
}

static inline void store_u64(void * p, uint64_t v) {
    store_u32(p, (uint32_t) v);
    store_u32((uint8_t *) p + 4, (uint32_t) (v >> 32));
}

// FNV-1a, for tables of this process: not for what strangers choose, nor for what is kept. `hash`
// is of what came before, and FNV_BEGIN where nothing did.
#define FNV_BEGIN 0xcbf29ce484222325u

static inline uint64_t fnv_add(uint64_t hash, const void * data, size_t size) {
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ ((const uint8_t *) data)[i]) * 0x100000001b3u;
    }
    return hash;
}

// Bits hi..lo of v.
static inline uint32_t bits(uint32_t v, unsigned hi, unsigned lo) {
    return (v >> lo) & (uint32_t) ((1ull << (hi - lo + 1)) - 1);
}

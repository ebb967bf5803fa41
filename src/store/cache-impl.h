// cache-impl: what the files of the cache share.
#pragma once

#include "cache-entry.h"
#include "cache.h"

struct cache {
    int root; // the directory
    char * path;
    uint64_t max;
};

// Three files and a lock make a kernel; the suffix says which.
enum cache_part { PART_META, PART_PDI, PART_INSTS, PART_LOCK, CACHE_PARTS };
extern const char * const cache_suffix[CACHE_PARTS];

#define CACHE_FILE_MAX (CACHE_NAME_MAX + 16)
void cache_file_name(const char * kernel, enum cache_part part, char out[CACHE_FILE_MAX]);

// <dir>/shared holds each PDI once, by its SHA-256; <dir>/quarantine what was damaged.
#define CACHE_SHARED     "shared"
#define CACHE_QUARANTINE KEEP_QUARANTINE

// Reads and tests a kernel by its name in an open arch directory. With `key` the description must
// begin with it: ST_NOT_FOUND otherwise. `out` may be NULL.
enum status cache_read(int dir, const char * name, const struct buf * key,
                       bool (*have_pdi)(void * user, const uint8_t digest[SHA256_BYTES]),
                       void * user, struct cache_kernel * out, struct error * err);

// Where the kernel of this compiler is: reads and tests it under its plain name, and where another
// compiler has that, under that with a sign behind it. *name is the one that was found, or damaged.
enum status cache_find(int dir, const struct kernel_spec * spec, const char * identity,
                       const struct buf * key,
                       bool (*have_pdi)(void * user, const uint8_t digest[SHA256_BYTES]),
                       void * user, char name[CACHE_NAME_MAX], struct cache_kernel * out,
                       struct error * err);
enum { CACHE_SIGN = 12 };                                           // digits, behind an @
void cache_plain_name(const char * name, char out[CACHE_NAME_MAX]); // without the sign

// Takes the files of a kernel away, the description first. The lock is the caller's.
int cache_remove(int dir, const char * name); // 0, or the errno that keeps it

// Notes that so many blocks came in, and trims where that is due.
void cache_grown(struct cache * c, uint64_t blocks);

// keep: what the caches of this project have in common, whatever they keep: where a cache is, how
// large it may grow, texts that describe files and cannot be altered unseen, how an entry is got or
// made by one process for all, and the note of how much came in. dir.h of base gives the rest:
// trusted directories, whole files, locks.
#pragma once

#include "base/base.h"
#include "base/sha256.h"

// ---- where and how large (place.c) ----

struct keep_place {
    char * base;         // levels that lead there
    char * own;          // levels that must be ours alone
    const char * reason; // the variable that named it
};

struct keep_names {
    const char * variable; // names the directory; its last level is the cache's own
    const char * own;      // else this, below $XDG_CACHE_HOME or $HOME/.cache
    const char * nowhere;  // else this, below /tmp; NULL: then there is no cache
};

// ST_NOT_FOUND: nothing says where, and names->nowhere is NULL.
enum status keep_place_find(const struct keep_names * names, struct keep_place * out,
                            struct error * err);
void keep_place_free(struct keep_place * p);

// Bytes, or with K, M, G, T behind, from a variable; fallback where it is not set.
enum status keep_size(const char * variable, uint64_t fallback, uint64_t * out, struct error * err);

// ---- sealed texts (seal.c) ----

struct keep_file { // what a described file must be
    size_t size;
    uint8_t digest[SHA256_BYTES];
};

// A sealed text is lines: a magic one, "format N", more of the key up to the line that begins with
// last_word, then "NAME SIZE SHA256" for each file, and "check SHA256" of all lines above.
struct keep_form {
    const char * magic; // with its newline
    int format;
    const char * last_word; // of the key: "\ncompiler "
    int n_files;
    const char * files[3];
};

// The whole text for a key.
void keep_seal(const struct keep_form * form, const struct buf * key,
               const struct keep_file * files, struct buf * out);
// Strict: a text is accepted only when sealing what was read gives the same text again, so there is
// one way to say a thing and no byte that does not count. ST_CORRUPT: nothing of it is to be
// believed. ST_UNSUPPORTED: of another format. A zero byte stands behind the text.
enum status keep_unseal(const struct keep_form * form, const uint8_t * text, size_t size,
                        size_t * key_size, struct keep_file * files, struct error * err);

// Reads a file and compares it with what it must be; ST_CORRUPT where it is not that, or not there.
enum status keep_read(int dir, const char * name, size_t max, const struct keep_file * want,
                      uint8_t ** data, struct error * err);

// ---- get or make (get.c) ----

// What a cache does with one of its entries. `user` is the caller's: the entry, and what it
// becomes.
struct keep_entry {
    enum status (*load)(void * user, struct error * err); // ST_CORRUPT: it is there and damaged
    // The entry's lock between processes. ST_BUSY: another process makes it, or nothing is kept.
    enum status (*lock)(void * user, struct error * err);
    void (*unlock)(void * user);
    enum status (*make)(void * user, struct error * err);
    // With the lock: a damaged entry goes out of the way, one that was made is kept.
    void (*put_aside)(void * user);
    enum status (*publish)(void * user, struct error * err);
    void (*unkept)(void * user, enum status st, struct error * why); // not an error: it was made
};
// Loads the entry; else takes its lock and looks again, makes it and keeps it. Without the lock it
// is made for this process alone. Fails only where `make` does.
enum status keep_get(const struct keep_entry * e, void * user, struct error * err);

// ---- growth (growth.c) ----

#define KEEP_BLOCK 4096u
static inline uint64_t keep_blocks(uint64_t bytes) {
    return (bytes + KEEP_BLOCK - 1) / KEEP_BLOCK;
}

// <dir>/growth has one byte for each block that was published since the cache was last measured, so
// that nobody has to measure it at every entry. Its lock is the one for trimming. True: a trim is
// due, from more than keep_high down to keep_low.
bool keep_grown(int root, uint64_t max, uint64_t blocks);
uint64_t keep_high(uint64_t max);
uint64_t keep_low(uint64_t max);

// ST_BUSY when another process is trimming. *lock may be -1: a read-only or full disk gives none.
enum status keep_trim_begin(int root, bool dry_run, int * lock, struct error * err);
void keep_trim_end(int lock);

// What came of removing: ST_IO where entries stayed that should have gone, with the first errno.
enum status keep_removed(uint64_t removed, uint64_t of, uint64_t stayed, int code,
                         const char * what, struct error * err);

// Nobody works at one file for longer than that; not even on a slow disk.
#define KEEP_STALE_SECONDS      600
#define KEEP_QUARANTINE_SECONDS (7 * 24 * 3600)
#define KEEP_QUARANTINE         "quarantine"

// Notes that an entry was used, in the time of its description, once an hour.
void keep_touch(int dir, const char * name);
// Moves a damaged entry's files to <dir>/quarantine under "prefix-name", of which a bounded number
// is kept, and takes away what could not be moved. The first file, its description, goes first.
void keep_quarantine(int root, int dir, const char * prefix, const char * const * files, int n);

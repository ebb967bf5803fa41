// cache: kernels on disk, for this user. <dir>/<arch>/<name>.pdi and <name>_insts.bin are the plain
// files that the upstream backend reads too; <name>.meta beside them says what they are: the key
// (what is computed, by which compiler), their lengths and SHA-256. It is written last and taken
// away first, so that a kernel counts only while all three agree. Where another compiler has kept
// its kernel of that name, ours is <name>@<12 digits that stand for our compiler>.
//
//   GGML_HSA_KERNEL_CACHE_DIR        the directory; else $XDG_CACHE_HOME/ggml, $HOME/.cache/ggml,
//                                    /tmp/ggml/ggml-hsa, the first that is defined
//   GGML_HSA_KERNEL_CACHE_MAX_SIZE   bytes, or with K, M, G behind; 1G if not set, 0: no cache
//   GGML_HSA_KERNEL_CACHE_CLEAR      1: begin with an empty one (also GGML_HSA_JIT_CLEAR_CACHE)
//
// All functions are thread safe and safe against other processes that use the same directory.
#pragma once

#include "keep/keep.h"
#include "kernel/kernel.h"

struct cache;

// The caller frees it with keep_place_free.
enum status cache_place_find(struct keep_place * out, struct error * err);

#define CACHE_DEFAULT_MAX ((uint64_t) 1 << 30)
// From the environment; ST_INVALID where the number is none.
enum status cache_max_size(uint64_t * out, struct error * err);

// ST_NOT_FOUND: the user wants none, or there is none yet and `create` is not set. Other statuses:
// there is one but it is not to be used, and why. Does not clear.
enum status cache_open(bool create, struct cache ** out, struct error * err);
void cache_close(struct cache * c);
const char * cache_path(const struct cache * c);
uint64_t cache_max(const struct cache * c);

// ---- kernels ----

struct cache_kernel {
    uint8_t pdi_digest[SHA256_BYTES], insts_digest[SHA256_BYTES];
    uint8_t verdict[SHA256_BYTES]; // as it was published
    uint8_t * pdi;                 // malloc'ed; NULL where have_pdi said so
    size_t pdi_size;
    uint32_t * insts; // malloc'ed
    size_t n_insts;
};

// ST_NOT_FOUND: not there, or made by another compiler; ST_CORRUPT: it does not hold together. With
// have_pdi (may be NULL) a PDI that the caller has already is not read again. The name of the
// kernel and its arch are the file, so `spec` must be valid; `identity` is store_compiler.identity.
enum status cache_load(struct cache * c, const struct kernel_spec * spec, const char * identity,
                       bool (*have_pdi)(void * user, const uint8_t digest[SHA256_BYTES]),
                       void * user, struct cache_kernel * out, struct error * err);

struct cache_lock {
    int dir, fd;
    char name[KERNEL_NAME_MAX + 8];
};

// The right to make this kernel, for one thread of one process at a time. Waits a bounded time.
enum status cache_lock(struct cache * c, const struct kernel_spec * spec, struct cache_lock * out,
                       struct error * err);
void cache_unlock(struct cache_lock * lock);

// Both need the lock. Writes the kernel; where that fails nothing of it stays that could be taken
// for a kernel. `verified`: the verifier passed it, and that is kept (aie/verify). Trims the cache
// when it has grown.
enum status cache_publish(struct cache * c, const struct kernel_spec * spec, const char * identity,
                          const struct kernel_code * code, const uint8_t pdi_digest[SHA256_BYTES],
                          bool verified, struct error * err);
// Moves a damaged kernel to <dir>/quarantine, of which a bounded number is kept.
void cache_quarantine(struct cache * c, const struct kernel_spec * spec, const char * identity);

// ---- keeping house ----

enum cache_state {
    CACHE_GOOD,    // of the compiler that was asked for, and whole
    CACHE_STALE,   // whole, but of another compiler or another version of this format
    CACHE_DAMAGED, // does not hold together
    CACHE_FOREIGN, // has no .meta: not made by us, or not to the end
    CACHE_STATES
};

#define CACHE_NAME_MAX 256 // other programs' names may be longer than ours

struct cache_item {
    enum aie_arch arch;
    char name[CACHE_NAME_MAX];
    uint64_t bytes; // of its files, each rounded up to a block; a shared PDI counts for each
    int64_t used;   // seconds since 1970
    enum cache_state state;
    struct error why; // when not good
};

struct cache_totals {
    uint64_t kernels, files, bytes; // a shared PDI counts once
    uint64_t foreign;               // kernels of other programs: not in the above, never removed
    uint64_t quarantined;           // files there, part of the above
    uint64_t skipped;               // kernels that another process is working on
    uint64_t removed_kernels, removed_bytes;
};

// Calls visit for each kernel, in the order of arch and name; with `check` each is read and tested
// against identity (NULL: any is good), otherwise state is FOREIGN or GOOD. Stops when visit says
// false.
enum status cache_walk(struct cache * c, const char * identity, bool check,
                       bool (*visit)(void * user, const struct cache_item * item), void * user,
                       struct cache_totals * totals, struct error * err);

// Drops what was not used for longest until the cache has at most `max` bytes, and sweeps up what
// killed processes left. ST_BUSY when another process is at it. ST_IO, with all totals, when
// kernels stay that should have gone.
enum status cache_trim(struct cache * c, uint64_t max, bool dry_run, struct cache_totals * totals,
                       struct error * err);
// Removes all kernels that are ours, and nothing else; statuses as above.
enum status cache_clear(struct cache * c, struct cache_totals * totals, struct error * err);

// Tells in `text` why a lookup of this kernel would miss, and which part of the key differs; true
// when it would hit.
bool cache_explain(struct cache * c, const struct kernel_spec * spec, const char * identity,
                   struct buf * text);

// hip-impl: what the files of this room share. The room knows base and keep; of HSA it knows the
// headers. Everything that reads the environment, runs programs or touches the disk is behind the
// functions here, each in the file that is named above it.
#pragma once

#include "keep/keep.h"
#include "rocm-kernels.h"

#include <pthread.h>

#define HIP_ARCH_MAX    16 // "gfx1100"
#define HIP_VERSION_MAX 16 // "6.4"
#define HIP_NAME_MAX    65
#define HIP_STEM_MAX    (HIP_NAME_MAX + 17) // name_hash
#define HIP_FILE_MAX    (HIP_STEM_MAX + 8)

#define HIP_MAX_SOURCE ((size_t) 16 << 20)
#define HIP_MAX_CODE   ((size_t) 256 << 20)

// ---- names.c: strings that become file names, and what others print ----

// Spaces around it and the features behind it (":sramecc+:xnack-") are left out.
enum status hip_arch_parse(const char * text, char arch[HIP_ARCH_MAX], struct error * err);
enum status hip_version_parse(const char * text, char version[HIP_VERSION_MAX], struct error * err);
enum status hip_name_check(const char * name, struct error * err);
// The first GPU in what rocminfo printed, the first two numbers of what hipcc --version did, and
// the first of clang's.
bool hip_arch_from_rocminfo(const char * text, char arch[HIP_ARCH_MAX]);
bool hip_version_from_hipcc(const char * text, char version[HIP_VERSION_MAX]);
bool hip_version_from_clang(const char * text, char version[HIP_VERSION_MAX]);

// ---- bundle.c: what compilers make ----

// Finds the code object for arch in the bytes of a compiler: they are one, or an offload bundle
// that holds one. ST_CORRUPT, ST_NOT_FOUND.
enum status hip_find_code(const uint8_t * data, size_t size, const char * arch, size_t * at,
                          size_t * length, struct error * err);

// ---- compiler.c ----

enum hip_compiler_kind { HIP_HIPCC, HIP_CLANG };

struct hip_compiler {
    enum hip_compiler_kind kind;
    char * path;     // as it is called
    char * identity; // one line: changes when the compiler does
};

struct hip_compilers {
    struct hip_compiler list[2]; // in the order in which to try them
    int n;
    struct error why; // n is 0: why
};

// What was asked from programs once, and need not be asked again; root is the cache's, or -1.
struct hip_toolchain {
    int root;
    uint64_t runs;
    char hipcc_version[HIP_VERSION_MAX]; // "" where there is no hipcc, or it does not say
    uint8_t hipcc_text[SHA256_BYTES];    // of all that --version printed
    char * hipcc;                        // path, or NULL
    char * clang;                        // path, or NULL
    bool hipcc_asked;
};

// Looks along PATH; `choice` is NULL, "hipcc", "clang" or a path.
// What was asked for, else ROCM_KERNELS_COMPILER; NULL: whichever there is.
const char * hip_compiler_choice(const char * asked);
enum status hip_toolchain_find(struct hip_toolchain * t, const char * choice, struct error * err);
void hip_toolchain_free(struct hip_toolchain * t);
// hipcc --version, from the memory of the cache where hipcc is still the same file.
void hip_toolchain_ask(struct hip_toolchain * t);
// Clang's own version, "19": from its path, or else it is run. False: no clang, or it does not say.
bool hip_toolchain_clang(struct hip_toolchain * t, char version[HIP_VERSION_MAX]);
// Those that can be tried for arch; without any, why.
void hip_toolchain_compilers(struct hip_toolchain * t, const char * arch,
                             struct hip_compilers * out);
void hip_compilers_free(struct hip_compilers * c);

void hip_compiler_flags(enum hip_compiler_kind kind, const char * arch, struct buf * out);

// ---- compile.c ----

struct hip_job {
    const char *arch, *name, *source;
};

// Tries the compilers in turn until one knows the architecture. On success *by is the one that did
// it and *data is malloc'ed. *log gets what the last one printed, its end at most. *runs counts.
enum status hip_compile(const struct hip_compilers * compilers, const struct hip_job * job,
                        const struct hip_compiler ** by, uint8_t ** data, size_t * size,
                        struct buf * log, uint64_t * runs, struct error * err);

// ---- cache.c ----

struct hip_cache {
    int root;
    char * path;
    uint64_t max;
};

// ST_NOT_FOUND: none is wanted, or there is none yet and `create` is not set.
enum status hip_cache_open(bool create, struct hip_cache * out, struct error * err);
void hip_cache_close(struct hip_cache * c);

struct hip_entry { // one code object
    const char *arch, *version, *name;
    uint8_t source[SHA256_BYTES];
};

void hip_entry_stem(const struct hip_entry * e, char stem[HIP_STEM_MAX]);
void hip_entry_path(const struct hip_cache * c, const struct hip_entry * e, struct buf * path);

// ST_NOT_FOUND: not there, or of a compiler that is not one of these (where there are any);
// ST_CORRUPT: it does not hold together.
enum status hip_cache_load(struct hip_cache * c, const struct hip_entry * e,
                           const struct hip_compilers * compilers, uint8_t ** data, size_t * size,
                           struct error * err);

// The version under which an entry is kept, of several the highest; e->version does not count.
bool hip_cache_find_version(struct hip_cache * c, const struct hip_entry * e,
                            char version[HIP_VERSION_MAX]);

struct hip_lock {
    int dir, fd;
    char name[HIP_FILE_MAX];
};
enum status hip_cache_lock(struct hip_cache * c, const struct hip_entry * e, struct hip_lock * out,
                           struct error * err);
void hip_cache_unlock(struct hip_lock * lock);

// Both need the lock.
enum status hip_cache_publish(struct hip_cache * c, const struct hip_entry * e,
                              const struct hip_compiler * by, const uint8_t * data, size_t size,
                              struct error * err);
void hip_cache_quarantine(struct hip_cache * c, const struct hip_entry * e);

// ---- cache-keep.c ----

enum hip_state { HIP_GOOD, HIP_STALE, HIP_DAMAGED, HIP_FOREIGN, HIP_STATES };

struct hip_item {
    char dir[HIP_ARCH_MAX + HIP_VERSION_MAX];
    char stem[128];
    uint64_t bytes;
    int64_t used;
    enum hip_state state;
    struct error why; // when not good
};

struct hip_totals {
    uint64_t items, bytes, removed, removed_bytes, skipped;
    uint64_t quarantine_bytes; // damaged ones, part of bytes
};

// In the order of directory and name. With `check` each is read; STALE is reported only where
// `current` is given (may be NULL).
enum status hip_cache_walk(struct hip_cache * c, bool check, struct hip_toolchain * current,
                           bool (*visit)(void * user, const struct hip_item * item), void * user,
                           struct hip_totals * totals, struct error * err);
enum status hip_cache_trim(struct hip_cache * c, uint64_t max, struct hip_totals * totals,
                           struct error * err);
// Code objects and their descriptions, and nothing that is not one.
enum status hip_cache_clear(struct hip_cache * c, struct hip_totals * totals, struct error * err);
void hip_cache_grown(struct hip_cache * c, uint64_t blocks);

// The seal of a code object's description.
extern const struct keep_form hip_form;
#define HIP_META_MAX 8192
extern const char hip_meta_suffix[], hip_code_suffix[], hip_lock_suffix[];
// Is the description one of this code object, by one of the compilers of the toolchain?
enum status hip_meta_read(int dir, const char * stem, char ** text, size_t * key_size,
                          struct keep_file * code, struct error * err);

// ---- modules.c and what embed.cmake makes ----

struct hip_source {
    const char *name, *text;
};
extern const struct hip_source hip_sources[]; // ends with a NULL name
extern const char hip_grids[];                // ggml's tables as macros; "": the build had none
bool hip_module_exists(const char * name);    // also where there is no memory for its source

// ---- manager.c, device.c ----

struct hip_code; // one code object in memory
struct hip_hsa;  // the runtime's functions, and loaded modules

struct rocm_kernels {
    char * arch_wanted;
    char * version_wanted;
    char * compiler_wanted;
    void (*warn)(void * user, const char * text);
    void * (*hsa_symbol)(void * user, const char * name);
    void * user;
    bool force, read_only;

    pthread_mutex_t lock; // what follows
    pthread_cond_t made;
    char arch[HIP_ARCH_MAX], version[HIP_VERSION_MAX]; // "": not known yet
    bool place_known, cache_usable, toolchain_known, publish_warned;
    struct hip_cache cache;
    struct hip_toolchain toolchain;
    struct hip_code * codes;
    int n_codes;
    struct rocm_counters counters;

    struct hip_hsa * hsa; // device.c; NULL until it is needed
};

enum rocm_status hip_fail(const struct error * from, const struct buf * log,
                          struct rocm_error * to);
enum rocm_status hip_missing(const char * function, const char * argument, struct rocm_error * err);
// The first GPU's; ST_NOT_FOUND.
enum status hip_hsa_arch(struct rocm_kernels * k, char arch[HIP_ARCH_MAX], struct error * err);
// A load did not end: a thread is in the runtime, and whatever it uses must stay.
bool hip_hsa_is_lost(struct rocm_kernels * k);
void hip_hsa_free(struct rocm_kernels * k);

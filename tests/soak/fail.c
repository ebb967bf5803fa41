// fail: see fail.h.
#include "fail.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// ---- whose call it is ----

enum { MOST_RANGES = 32 };

static struct { uintptr_t from, to; } ranges[MOST_RANGES];
static int n_ranges;

static int learn_one(struct dl_phdr_info * info, size_t size, void * user) {
    static const char * const ours[] = {"libggml-hsa", "libhsa-npu", "libjansson"};
    (void) size;
    bool is = info->dlpi_name[0] == '\0' && *(const bool *) user; // the program itself
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        is |= strstr(info->dlpi_name, ours[i]) != NULL;
    }
    for (int i = 0; is && i < info->dlpi_phnum && n_ranges < MOST_RANGES; i++) {
        const ElfW(Phdr) * h = &info->dlpi_phdr[i];
        if (h->p_type == PT_LOAD && h->p_flags & PF_X) {
            uintptr_t from = info->dlpi_addr + h->p_vaddr;
            ranges[n_ranges].from = from;
            ranges[n_ranges++].to = from + h->p_memsz;
        }
    }
    return 0;
}

void fail_learn(bool program) {
    n_ranges = 0;
    dl_iterate_phdr(learn_one, &program);
}

static bool is_ours(const void * caller) {
#ifdef FAIL_WRAPS
    (void) caller;
    return true; // the linker saw to it
#else
    uintptr_t at = (uintptr_t) caller;
    for (int i = 0; i < n_ranges; i++) {
        if (at >= ranges[i].from && at < ranges[i].to) {
            return true;
        }
    }
    return false;
#endif
}

// ---- when ----

static atomic_int armed;
static enum fail_mode how;
static uint64_t when;
static atomic_uint_fast64_t calls, failed;

uint64_t * fail_noted;

static void note(uint64_t n) {
    void * stack[FAIL_DEPTH + 2]; // this function and its caller are the same for all
    int depth = backtrace(stack, FAIL_DEPTH + 2);
    uint64_t hash = 14695981039346656037u;
    for (int i = 2; i < depth; i++) {
        hash = (hash ^ (uintptr_t) stack[i]) * 1099511628211u;
    }
    fail_noted[n] = hash;
}

void fail_begin(enum fail_mode mode, uint64_t n) {
    how = mode;
    when = n;
    atomic_store(&calls, 0);
    atomic_store(&failed, 0);
    atomic_store(&armed, 1);
}

uint64_t fail_end(void) {
    atomic_store(&armed, 0);
    return atomic_load(&calls);
}

uint64_t fail_failed(void) {
    return atomic_load(&failed);
}

static bool fails(const void * caller) {
    if (!atomic_load_explicit(&armed, memory_order_acquire) || !is_ours(caller)) {
        return false;
    }
    uint64_t n = atomic_fetch_add(&calls, 1) + 1;
    bool now = how == FAIL_ONCE ? n == when : how == FAIL_ON ? n >= when : false;
    if (how == FAIL_SOMETIMES) {
        static _Thread_local uint64_t state;
        state = state ? state : (uintptr_t) &state ^ (uint64_t) getpid();
        state = state * 6364136223846793005u + 1442695040888963407u;
        now = (state >> 33) % when == 0;
    }
    if (how == FAIL_NEVER && fail_noted && n <= FAIL_MOST_NOTED) {
        note(n - 1);
    }
    if (now) {
        atomic_fetch_add(&failed, 1);
        errno = ENOMEM;
    }
    return now;
}

#define CALLER __builtin_return_address(0)

// ---- the functions ----

#ifdef FAIL_WRAPS
#    define NAME(f) __wrap_##f
#    define REAL(f) __real_##f
#    define DECLARE(type, f, parameters)                                                           \
        type __real_##f parameters;                                                                \
        type __wrap_##f parameters;
#else
#    define NAME(f) f
#    define REAL(f) real_##f()
#    define DECLARE(type, f, parameters)                                                           \
        static type(*real_##f(void)) parameters {                                                  \
            static type(*found) parameters;                                                        \
            if (!found) {                                                                          \
                void * address = dlsym(RTLD_NEXT, #f);                                             \
                memcpy(&found, &address, sizeof found);                                            \
            }                                                                                      \
            return found;                                                                          \
        }
// dlsym allocates: these are known by name.
void * __libc_malloc(size_t size);
void * __libc_calloc(size_t n, size_t size);
void * __libc_realloc(void * p, size_t size);
void * __libc_memalign(size_t align, size_t size);
#    define real_malloc()  __libc_malloc
#    define real_calloc()  __libc_calloc
#    define real_realloc() __libc_realloc
#endif

#ifdef FAIL_WRAPS
DECLARE(void *, malloc, (size_t))
DECLARE(void *, calloc, (size_t, size_t))
DECLARE(void *, realloc, (void *, size_t))
DECLARE(void *, aligned_alloc, (size_t, size_t))
DECLARE(int, posix_memalign, (void **, size_t, size_t))
DECLARE(char *, strdup, (const char *) )
DECLARE(char *, strndup, (const char *, size_t))
#endif
DECLARE(char *, getcwd, (char *, size_t))
DECLARE(DIR *, opendir, (const char *) )
DECLARE(DIR *, fdopendir, (int) )
DECLARE(FILE *, fopen, (const char *, const char *) )
DECLARE(FILE *, fdopen, (int, const char *) )
DECLARE(int, pthread_create, (pthread_t *, const pthread_attr_t *, void * (*) (void *), void *) )

#pragma GCC visibility push(default) // for the plugin and the runtime to find

void * NAME(malloc)(size_t size) {
    return fails(CALLER) ? NULL : REAL(malloc)(size);
}

void * NAME(calloc)(size_t n, size_t size) {
    return fails(CALLER) ? NULL : REAL(calloc)(n, size);
}

void * NAME(realloc)(void * p, size_t size) {
    return fails(CALLER) ? NULL : REAL(realloc)(p, size);
}

void * NAME(aligned_alloc)(size_t align, size_t size) {
#ifdef FAIL_WRAPS
    return fails(CALLER) ? NULL : REAL(aligned_alloc)(align, size);
#else
    return fails(CALLER) ? NULL : __libc_memalign(align, size);
#endif
}

int NAME(posix_memalign)(void ** out, size_t align, size_t size) {
    if (fails(CALLER)) {
        return ENOMEM;
    }
#ifdef FAIL_WRAPS
    return REAL(posix_memalign)(out, align, size);
#else
    void * p = __libc_memalign(align, size);
    *out = p ? p : *out;
    return p ? 0 : ENOMEM;
#endif
}

char * NAME(strdup)(const char * text) {
    if (fails(CALLER)) {
        return NULL;
    }
#ifdef FAIL_WRAPS
    return REAL(strdup)(text);
#else
    size_t n = strlen(text) + 1;
    char * copy = __libc_malloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
#endif
}

char * NAME(strndup)(const char * text, size_t most) {
    if (fails(CALLER)) {
        return NULL;
    }
#ifdef FAIL_WRAPS
    return REAL(strndup)(text, most);
#else
    size_t n = strnlen(text, most);
    char * copy = __libc_malloc(n + 1);
    if (copy) {
        memcpy(copy, text, n);
        copy[n] = '\0';
    }
    return copy;
#endif
}

char * NAME(getcwd)(char * buffer, size_t size) {
    return fails(CALLER) ? NULL : REAL(getcwd)(buffer, size);
}

DIR * NAME(opendir)(const char * path) {
    return fails(CALLER) ? NULL : REAL(opendir)(path);
}

DIR * NAME(fdopendir)(int fd) {
    return fails(CALLER) ? NULL : REAL(fdopendir)(fd);
}

FILE * NAME(fopen)(const char * path, const char * mode) {
    return fails(CALLER) ? NULL : REAL(fopen)(path, mode);
}

FILE * NAME(fdopen)(int fd, const char * mode) {
    return fails(CALLER) ? NULL : REAL(fdopen)(fd, mode);
}

int NAME(pthread_create)(pthread_t * thread, const pthread_attr_t * attributes,
                         void * (*run)(void *), void * user) {
    return fails(CALLER) ? EAGAIN : REAL(pthread_create)(thread, attributes, run, user);
}

// Memory of emulated devices.
#ifndef FAIL_WRAPS
void * mmap(void * at, size_t size, int protection, int flags, int fd, off_t offset) {
    if (flags & MAP_ANONYMOUS && fails(CALLER)) {
        return MAP_FAILED;
    }
    return (void *) syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}
#endif

#pragma GCC visibility pop

#ifdef FAIL_PRELOAD
__attribute__((constructor)) static void begin(void) {
    static uint64_t noted[FAIL_MOST_NOTED];
    const char *at = getenv("NO_MEMORY_AT"), *on = getenv("NO_MEMORY_ON");
    uint64_t n = at ? strtoull(at, NULL, 10) : 0;
    if (at) {
        fail_learn(true);
        fail_noted = noted;
        fail_begin(n == 0 ? FAIL_NEVER : on ? FAIL_ON : FAIL_ONCE, n);
    }
}

// The calls that counted, and which way they came, for who started the program.
__attribute__((destructor)) static void tell(void) {
    const char * fd = getenv("NO_MEMORY_TELL");
    uint64_t n = fail_end(), most = n < FAIL_MOST_NOTED ? n : FAIL_MOST_NOTED;
    FILE * f = fd && fail_noted ? fdopen(dup(atoi(fd)), "w") : NULL;
    if (f) {
        fwrite(&n, sizeof n, 1, f);
        fwrite(fail_noted, sizeof *fail_noted, most, f);
        fclose(f);
    }
}
#endif

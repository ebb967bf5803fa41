// preload: ways around three faults of ROCr 7.2 with a model. They work where this library is
// preloaded as well (LD_PRELOAD, or --preload of ld.so); without that all is right but for the
// third, and slow.
//
// It takes the number of nodes from a variable that nobody has set, where the lower half of a stack
// address happens to lie: hsa_init then clears that many bytes, up to 4 GiB, and hsa_shut_down
// walks over eight times as many. Here main runs on a stack whose addresses have a small lower
// half.
//
// The threads in which it waits for events do not sleep: an event that did not happen has age 0
// afterwards, and waiting for age 0 is over at once. Here its threads get what others leave.
//
// When a queue ends, its handler stores a last value into the queue's signal and then sets the
// signal's event; who destroys the queue waits for the value alone, and may destroy the event
// before it is set. A driver refuses that with a number, ROCr's model aborts. Here a queue is not
// removed before the threads of ROCr have come to rest.
#include "emu/kfd/kfd.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static void * next_symbol(const char * name) {
    return dlsym(RTLD_NEXT, name);
}

// ---- the stack ----

typedef int main_fn(int, char **, char **);
typedef int start_fn(main_fn *, int, char **, void (*)(void), void (*)(void), void (*)(void),
                     void *);

enum { STACK_BYTES = 8 << 20 };
static const uint64_t first_place = UINT64_C(0x200000000000), last_place = UINT64_C(0x5f0000000000);

static struct {
    main_fn * main;
    int argc, result;
    char **argv, **envp;
} program;

static void * run(void * unused) {
    (void) unused;
    program.result = program.main(program.argc, program.argv, program.envp);
    return NULL;
}

static void * stack_new(void) {
    for (uint64_t at = first_place; at < last_place; at += UINT64_C(1) << 40) {
        void * p = mmap((void *) (uintptr_t) at, STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (p == (void *) (uintptr_t) at) {
            return p;
        }
        if (p != MAP_FAILED) { // an old kernel takes the address for a wish
            munmap(p, STACK_BYTES);
        }
    }
    return NULL;
}

static int main_elsewhere(int argc, char ** argv, char ** envp) {
    program.argc = argc;
    program.argv = argv;
    program.envp = envp;
    pthread_attr_t attributes;
    pthread_t thread;
    void * stack = stack_new();
    if (!stack || pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstack(&attributes, stack, STACK_BYTES) != 0 ||
        pthread_create(&thread, &attributes, run, NULL) != 0) {
        run(NULL); // slower, and no worse
    } else {
        pthread_join(thread, NULL);
    }
    return program.result;
}

EXPORT int __libc_start_main(main_fn * main, int argc, char ** argv, void (*init)(void),
                             void (*fini)(void), void (*end)(void), void * stack);

int __libc_start_main(main_fn * main, int argc, char ** argv, void (*init)(void),
                      void (*fini)(void), void (*end)(void), void * stack) {
    void * symbol = next_symbol("__libc_start_main");
    start_fn * start;
    memcpy(&start, &symbol, sizeof start);
    program.main = main;
    return start(main_elsewhere, argc, argv, init, fini, end, stack);
}

// ---- threads of ROCr ----

typedef int create_fn(pthread_t *, const pthread_attr_t *, void * (*) (void *), void *);

struct thread {
    void * (*run)(void *);
    void * arg;
};

enum { MAX_THREADS = 64 };
static pid_t threads[MAX_THREADS]; // atomic; 0: a free place

static pid_t * remember(pid_t id) {
    for (int i = 0; i < MAX_THREADS; i++) {
        pid_t none = 0;
        if (__atomic_compare_exchange_n(&threads[i], &none, id, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            return &threads[i];
        }
    }
    return NULL;
}

static void * run_behind(void * data) {
    struct thread t = *(struct thread *) data;
    free(data);
    setpriority(PRIO_PROCESS, (id_t) gettid(), 19); // of this thread alone
    pid_t * place = remember(gettid());
    void * result = t.run(t.arg);
    if (place) {
        __atomic_store_n(place, 0, __ATOMIC_RELEASE);
    }
    return result;
}

// Runs, or would if there were a processor for it. One that is not there any more does not.
static bool is_busy(pid_t id) {
    char path[64], line[128];
    snprintf(path, sizeof path, "/proc/self/task/%ld/stat", (long) id);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
    if (fd >= 0) {
        close(fd);
    }
    line[n > 0 ? n : 0] = 0;
    const char * state = strrchr(line, ')'); // behind the name, which may hold anything
    return state && state[1] == ' ' && state[2] != 'S';
}

void kfd_rocr_rest(void) {
    enum { PAUSE_NS = 200 * 1000, MOST = 5000 }; // a second at most: a way around, not a promise
    int left = MOST;
    for (int i = 0; i < MAX_THREADS; i++) {
        pid_t id;
        while ((id = __atomic_load_n(&threads[i], __ATOMIC_ACQUIRE)) && id != gettid() &&
               is_busy(id) && left-- > 0) {
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        }
    }
}

static bool is_rocr(const void * code) {
    Dl_info info;
    return dladdr(code, &info) && info.dli_fname && strstr(info.dli_fname, "libhsa-runtime64");
}

EXPORT int pthread_create(pthread_t * thread, const pthread_attr_t * attributes,
                          void * (*run)(void *), void * arg) {
    void * symbol = next_symbol("pthread_create");
    create_fn * create;
    memcpy(&create, &symbol, sizeof create);
    void * code;
    memcpy(&code, &run, sizeof code);
    struct thread * t = is_rocr(code) ? malloc(sizeof *t) : NULL;
    if (!t) {
        return create(thread, attributes, run, arg);
    }
    *t = (struct thread){run, arg};
    int error = create(thread, attributes, run_behind, t);
    if (error) {
        free(t);
    }
    return error;
}

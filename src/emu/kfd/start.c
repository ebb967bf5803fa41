// start: a way around a fault of ROCr 7.2. With a model it takes the number of nodes from a
// variable that nobody has set, where the lower half of a stack address happens to lie: hsa_init
// then clears that many bytes, of which there are up to 4 Gi, and hsa_shut_down walks over eight
// times as many.
//
// Where this library is preloaded as well (LD_PRELOAD, or --preload of ld.so), it runs main on a
// stack whose addresses have a small lower half. Nothing else changes.
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

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

__attribute__((visibility("default"))) int __libc_start_main(main_fn * main, int argc, char ** argv,
                                                             void (*init)(void), void (*fini)(void),
                                                             void (*end)(void), void * stack);

int __libc_start_main(main_fn * main, int argc, char ** argv, void (*init)(void),
                      void (*fini)(void), void (*end)(void), void * stack) {
    void * symbol = dlsym(RTLD_NEXT, "__libc_start_main");
    start_fn * start;
    memcpy(&start, &symbol, sizeof start);
    program.main = main;
    return start(main_elsewhere, argc, argv, init, fini, end, stack);
}

// A HIP program in C for any version of HIP's library, run by test-hsa-hip: it opens the library
// that argv[1] names, and calls what has kept its name and its arguments from HIP 5 to HIP 7.
// argv[2] is a code object of our kernels unary_f32 for the first device: no compiler is needed
// where it runs. Memory, copies in all directions, fills, pinned, registered and managed memory, a
// module from memory and from a file, launches with arguments in both forms, streams, events,
// callbacks, a graph, memory in the order of a stream, and memory that is reserved and mapped by
// hand. Prints one line for each step and ends with 0 when all of them gave what they should.
#include "hip/kernels/kernels.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// ---- HIP as far as it is used here ----

enum { TO_DEVICE = 1, TO_HOST = 2, ON_DEVICE = 3 };
enum { ATTRIBUTE_POOLS = 88, ATTRIBUTE_VMM = 89 }; // hipDeviceAttribute_t of HIP 6 and 7
enum { MAPPED = 2, CAPTURE_GLOBAL = 0, ATTACH_GLOBAL = 1 };

typedef void * handle;
typedef void (*callback)(handle stream, int status, void * data);

struct location {
    int type, id; // 1: a device
};

struct allocation { // hipMemAllocationProp
    int type, handle_type;
    struct location location;
    void * win32;
    unsigned char flags[4];
};

struct access {
    struct location location;
    int flags; // 3: read and write
};

// clang-format off
#define FUNCTIONS(X)                                                                              \
    X(hipInit, (unsigned))                                                                        \
    X(hipRuntimeGetVersion, (int *))                                                              \
    X(hipGetDeviceCount, (int *))                                                                 \
    X(hipSetDevice, (int))                                                                        \
    X(hipDeviceGetName, (char *, int, int))                                                       \
    X(hipDeviceTotalMem, (size_t *, int))                                                         \
    X(hipMemGetInfo, (size_t *, size_t *))                                                        \
    X(hipMalloc, (void *, size_t))                                                                \
    X(hipFree, (void *))                                                                          \
    X(hipHostMalloc, (void *, size_t, unsigned))                                                  \
    X(hipHostFree, (void *))                                                                      \
    X(hipMallocManaged, (void *, size_t, unsigned))                                               \
    X(hipHostRegister, (void *, size_t, unsigned))                                                \
    X(hipHostUnregister, (void *))                                                                \
    X(hipHostGetDevicePointer, (void *, void *, unsigned))                                        \
    X(hipMemcpy, (void *, const void *, size_t, int))                                             \
    X(hipMemcpyAsync, (void *, const void *, size_t, int, handle))                                \
    X(hipMemcpy2D, (void *, size_t, const void *, size_t, size_t, size_t, int))                   \
    X(hipMemcpyHtoD, (void *, void *, size_t))                                                    \
    X(hipMemcpyDtoH, (void *, void *, size_t))                                                    \
    X(hipMemset, (void *, int, size_t))                                                           \
    X(hipMemsetAsync, (void *, int, size_t, handle))                                              \
    X(hipMemsetD32, (void *, int, size_t))                                                        \
    X(hipModuleLoad, (handle *, const char *))                                                    \
    X(hipModuleLoadData, (handle *, const void *))                                                \
    X(hipModuleUnload, (handle))                                                                  \
    X(hipModuleGetFunction, (handle *, handle, const char *))                                     \
    X(hipModuleLaunchKernel, (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                              unsigned, handle, void **, void **))                                \
    X(hipDeviceSynchronize, (void))                                                               \
    X(hipStreamCreate, (handle *))                                                                \
    X(hipStreamDestroy, (handle))                                                                 \
    X(hipStreamSynchronize, (handle))                                                             \
    X(hipStreamQuery, (handle))                                                                   \
    X(hipStreamWaitEvent, (handle, handle, unsigned))                                             \
    X(hipStreamAddCallback, (handle, callback, void *, unsigned))                                 \
    X(hipEventCreate, (handle *))                                                                 \
    X(hipEventDestroy, (handle))                                                                  \
    X(hipEventRecord, (handle, handle))                                                           \
    X(hipEventSynchronize, (handle))                                                              \
    X(hipEventElapsedTime, (float *, handle, handle))                                             \
    X(hipStreamBeginCapture, (handle, int))                                                       \
    X(hipStreamEndCapture, (handle, handle *))                                                    \
    X(hipGraphInstantiate, (handle *, handle, handle *, char *, size_t))                          \
    X(hipGraphLaunch, (handle, handle))                                                           \
    X(hipGraphExecDestroy, (handle))                                                              \
    X(hipGraphDestroy, (handle))                                                                  \
    X(hipDeviceGetAttribute, (int *, int, int))                                                   \
    X(hipDeviceCanAccessPeer, (int *, int, int))                                                  \
    X(hipDeviceEnablePeerAccess, (int, unsigned))                                                 \
    X(hipMemcpyPeer, (void *, int, const void *, int, size_t))

// Newer than HIP 5.2.
#define NEWER(X)                                                                                  \
    X(hipMallocAsync, (void *, size_t, handle))                                                   \
    X(hipFreeAsync, (void *, handle))                                                             \
    X(hipMemGetAllocationGranularity, (size_t *, const struct allocation *, int))                 \
    X(hipMemAddressReserve, (void *, size_t, size_t, void *, unsigned long long))                 \
    X(hipMemAddressFree, (void *, size_t))                                                        \
    X(hipMemCreate, (handle *, size_t, const struct allocation *, unsigned long long))            \
    X(hipMemRelease, (handle))                                                                    \
    X(hipMemMap, (void *, size_t, size_t, handle, unsigned long long))                            \
    X(hipMemUnmap, (void *, size_t))                                                              \
    X(hipMemSetAccess, (void *, size_t, const struct access *, size_t))
// clang-format on

#define DECLARE(name, arguments) static int(*name) arguments;
FUNCTIONS(DECLARE)
NEWER(DECLARE)
static const char * (*hipGetErrorString)(int);

static void * library;

static void find(void * function, const char * name, bool needed) {
    void * p = dlsym(library, name);
    if (!p && needed) {
        printf("no %s: %s\n", name, dlerror());
        exit(2);
    }
    memcpy(function, &p, sizeof p);
}

// ---- steps ----

static int failures;

static void check(int error, const char * what, int line) {
    if (error) {
        printf("line %d: %s: %d, %s\n", line, what, error, hipGetErrorString(error));
        exit(2);
    }
}
#define CHECK(call) check(call, #call, __LINE__)

static void expect(bool ok, const char * what) {
    printf("%s %s\n", ok ? "ok  " : "FAIL", what);
    fflush(stdout);
    failures += !ok;
}

// HIP 6 has another struct of properties under another name, and keeps the old one.
static void properties(const char * arch) {
    static const struct {
        const char * function;
        size_t memory, wavefront, units, arch; // offsets
    } layouts[] = {
        {"hipGetDeviceProperties", 256, 276, 336, 396},
        {"hipGetDevicePropertiesR0600", 288, 308, 388, 1160},
    };
    size_t total = 0;
    CHECK(hipDeviceTotalMem(&total, 0));
    for (int i = 0; i < 2; i++) {
        static union {
            char bytes[4096];
            uint64_t aligned;
        } p;
        int (*get)(void *, int) = NULL;
        find(&get, layouts[i].function, false);
        if (!get) {
            continue;
        }
        CHECK(get(&p, 0));
        uint64_t memory;
        int wavefront, units;
        memcpy(&memory, p.bytes + layouts[i].memory, sizeof memory);
        memcpy(&wavefront, p.bytes + layouts[i].wavefront, sizeof wavefront);
        memcpy(&units, p.bytes + layouts[i].units, sizeof units);
        expect(*p.bytes && memory == total && units > 0 &&
                   wavefront == (strncmp(arch, "gfx9", 4) ? 32 : 64) &&
                   !strncmp(p.bytes + layouts[i].arch, arch, strlen(arch)),
               layouts[i].function);
    }
}

static void memory(void) {
    enum { N = 1 << 18 };
    static int a[N], b[N];
    for (int i = 0; i < N; i++) {
        a[i] = i * 7919;
    }
    int *d, *e;
    CHECK(hipMalloc(&d, sizeof a));
    CHECK(hipMalloc(&e, sizeof a));
    CHECK(hipMemcpy(d, a, sizeof a, TO_DEVICE));
    CHECK(hipMemcpy(e, d, sizeof a, ON_DEVICE));
    CHECK(hipMemcpy(b, e, sizeof a, TO_HOST));
    expect(!memcmp(a, b, sizeof a), "copies: host, device, device, host");
    CHECK(hipMemcpyDtoH(b + 1, e + 3, 12));
    expect(b[0] == a[0] && b[1] == a[3] && b[3] == a[5] && b[4] == a[4], "a small copy");
    CHECK(hipMemset(d, 0xab, sizeof a - 3));
    CHECK(hipMemcpy(b, d, sizeof a, TO_HOST));
    bool ok = true;
    for (int i = 0; i < N - 1; i++) {
        ok = ok && b[i] == (int) 0xabababab;
    }
    expect(ok && (b[N - 1] & 0xff) == 0xab && b[N - 1] >> 8 == a[N - 1] >> 8, "hipMemset");
    CHECK(hipMemsetD32(d, 12345, N));
    CHECK(hipMemcpy(b, d, sizeof a, TO_HOST));
    expect(b[0] == 12345 && b[N - 1] == 12345, "hipMemsetD32");
    // 100 rows of 50 ints out of rows of 64 and 80.
    CHECK(hipMemset(d, 0, sizeof a));
    CHECK(hipMemcpy2D(d, 64 * 4, a, 80 * 4, 50 * 4, 100, TO_DEVICE));
    CHECK(hipMemcpy(b, d, sizeof a, TO_HOST));
    ok = true;
    for (int y = 0; y < 100; y++) {
        for (int x = 0; x < 64; x++) {
            ok = ok && b[y * 64 + x] == (x < 50 ? a[y * 80 + x] : 0);
        }
    }
    expect(ok, "hipMemcpy2D");
    size_t unused = 0, all = 0, total = 0;
    CHECK(hipMemGetInfo(&unused, &all));
    CHECK(hipDeviceTotalMem(&total, 0));
    expect(unused && unused <= all && total == all, "hipMemGetInfo");
    CHECK(hipFree(d));
    CHECK(hipFree(e));
}

static handle square, negate; // y = x * x, y = -x

static void launch(handle kernel, const void * x, void * y, uint32_t n, handle stream) {
    struct rk_unary arguments = {.shape.n = n, .x = x, .y = y};
    void * list[] = {&arguments};
    CHECK(hipModuleLaunchKernel(kernel, (n + RK_BLOCK - 1) / RK_BLOCK, 1, 1, RK_BLOCK, 1, 1, 0,
                                stream, list, NULL));
}

enum { COUNT = 5000 };

static void fill(float * x, float first) {
    for (int i = 0; i < COUNT; i++) {
        x[i] = first + (float) i;
    }
}

static bool all_are(const float * y, float first, int squares, float sign) {
    for (int i = 0; i < COUNT; i++) {
        float x = first + (float) i;
        if (y[i] != sign * (squares ? x * x : x)) {
            printf("element %d: %g of %g\n", i, y[i], x);
            return false;
        }
    }
    return true;
}

static void * file_bytes(const char * path, size_t * size) {
    FILE * f = fopen(path, "rb");
    void * bytes = malloc(1 << 20);
    *size = f && bytes ? fread(bytes, 1, 1 << 20, f) : 0;
    if (*size == 0 || *size == 1 << 20) {
        printf("%s: not readable, or too long\n", path);
        exit(2);
    }
    fclose(f);
    return bytes;
}

static void modules(const char * path) {
    size_t size;
    void * bytes = file_bytes(path, &size);
    static float x[COUNT], y[COUNT];
    fill(x, -1000);
    void *dx, *dy;
    CHECK(hipMalloc(&dx, sizeof x));
    CHECK(hipMalloc(&dy, sizeof y));
    CHECK(hipMemcpyHtoD(dx, x, sizeof x));
    handle m;
    CHECK(hipModuleLoad(&m, path));
    CHECK(hipModuleGetFunction(&square, m, "unary_sqr_f32"));
    launch(square, dx, dy, COUNT, NULL);
    CHECK(hipMemcpyDtoH(y, dy, sizeof y));
    expect(all_are(y, -1000, 1, 1), "a module from a file");
    CHECK(hipModuleUnload(m));
    CHECK(hipModuleLoadData(&m, bytes)); // stays: the kernels are used by what follows
    CHECK(hipModuleGetFunction(&square, m, "unary_sqr_f32"));
    CHECK(hipModuleGetFunction(&negate, m, "unary_neg_f32"));
    // All arguments as one piece of memory.
    struct rk_unary arguments = {.shape.n = COUNT, .x = dx, .y = dy};
    size_t length = sizeof arguments;
    void * extra[] = {(void *) 1, &arguments, (void *) 2, &length, (void *) 3};
    CHECK(hipModuleLaunchKernel(negate, (COUNT + RK_BLOCK - 1) / RK_BLOCK, 1, 1, RK_BLOCK, 1, 1, 0,
                                NULL, NULL, extra));
    CHECK(hipDeviceSynchronize());
    CHECK(hipMemcpyDtoH(y, dy, sizeof y));
    expect(all_are(y, -1000, 0, -1), "a module from memory, arguments in one piece");
    handle none;
    expect(hipModuleGetFunction(&none, m, "no_such_kernel") != 0, "a kernel that is not there");
    CHECK(hipFree(dx));
    CHECK(hipFree(dy));
    free(bytes);
}

static void done(handle stream, int status, void * data) {
    (void) stream;
    __atomic_store_n((int *) data, status == 0 ? 1 : -1, __ATOMIC_RELEASE);
}

static void streams(void) {
    enum { STREAMS = 4, ROUNDS = 5 }; // an odd number of rounds changes the sign
    const size_t bytes = COUNT * sizeof(float);
    handle s[STREAMS];
    void * d[STREAMS];
    float * h[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        CHECK(hipStreamCreate(&s[i]));
        CHECK(hipMalloc(&d[i], bytes));
        CHECK(hipHostMalloc(&h[i], bytes, 0));
        fill(h[i], (float) (i * COUNT));
        CHECK(hipMemcpyAsync(d[i], h[i], bytes, TO_DEVICE, s[i]));
        for (int r = 0; r < ROUNDS; r++) {
            launch(negate, d[i], d[i], COUNT, s[i]);
        }
        CHECK(hipMemcpyAsync(h[i], d[i], bytes, TO_HOST, s[i]));
    }
    bool ok = true;
    for (int i = 0; i < STREAMS; i++) {
        CHECK(hipStreamSynchronize(s[i]));
        ok = ok && all_are(h[i], (float) (i * COUNT), 0, -1);
    }
    expect(ok, "four streams");
    // One stream waits for an event of another; times pass between events.
    handle before, after;
    CHECK(hipEventCreate(&before));
    CHECK(hipEventCreate(&after));
    CHECK(hipEventRecord(before, s[0]));
    CHECK(hipMemsetAsync(d[0], 0, bytes, s[0]));
    fill(h[0], 7);
    CHECK(hipMemcpyAsync(d[0], h[0], bytes, TO_DEVICE, s[0]));
    launch(square, d[0], d[0], COUNT, s[0]);
    CHECK(hipEventRecord(after, s[0]));
    CHECK(hipStreamWaitEvent(s[1], after, 0));
    CHECK(hipMemcpyAsync(h[1], d[0], bytes, TO_HOST, s[1]));
    int called = 0;
    CHECK(hipStreamAddCallback(s[1], done, &called, 0));
    CHECK(hipStreamSynchronize(s[1]));
    expect(all_are(h[1], 7, 1, 1), "hipStreamWaitEvent");
    for (int i = 0; i < 1000 && !__atomic_load_n(&called, __ATOMIC_ACQUIRE); i++) {
        hipStreamQuery(s[1]);
        const struct timespec moment = {0, 10000000};
        nanosleep(&moment, NULL);
    }
    expect(called == 1, "hipStreamAddCallback");
    float ms = -1;
    CHECK(hipEventSynchronize(after));
    CHECK(hipEventElapsedTime(&ms, before, after));
    expect(ms > 0 && ms < 60000, "hipEventElapsedTime");
    CHECK(hipEventDestroy(before));
    CHECK(hipEventDestroy(after));
    // A graph of two kernels, three times: the sign stays.
    handle graph, run;
    fill(h[2], 3);
    CHECK(hipMemcpy(d[2], h[2], bytes, TO_DEVICE));
    CHECK(hipStreamBeginCapture(s[2], CAPTURE_GLOBAL));
    launch(negate, d[2], d[3], COUNT, s[2]);
    launch(negate, d[3], d[2], COUNT, s[2]);
    CHECK(hipStreamEndCapture(s[2], &graph));
    CHECK(hipGraphInstantiate(&run, graph, NULL, NULL, 0));
    for (int i = 0; i < 3; i++) {
        CHECK(hipGraphLaunch(run, s[2]));
    }
    CHECK(hipStreamSynchronize(s[2]));
    CHECK(hipMemcpy(h[2], d[2], bytes, TO_HOST));
    CHECK(hipMemcpy(h[3], d[3], bytes, TO_HOST));
    expect(all_are(h[2], 3, 0, 1) && all_are(h[3], 3, 0, -1), "a graph");
    CHECK(hipGraphExecDestroy(run));
    CHECK(hipGraphDestroy(graph));
    for (int i = 0; i < STREAMS; i++) {
        CHECK(hipStreamDestroy(s[i]));
        CHECK(hipFree(d[i]));
        CHECK(hipHostFree(h[i]));
    }
}

// Kernels that work on the host's memory: what was allocated for it, what was not, and managed.
static void host_memory(void) {
    const size_t bytes = COUNT * sizeof(float);
    static float plain[COUNT];
    float *pinned, *managed, *mapped;
    CHECK(hipHostMalloc(&pinned, bytes, 0));
    CHECK(hipMallocManaged(&managed, bytes, ATTACH_GLOBAL));
    CHECK(hipHostRegister(plain, bytes, MAPPED));
    CHECK(hipHostGetDevicePointer(&mapped, plain, 0));
    fill(pinned, 5);
    fill(plain, 50);
    launch(negate, pinned, managed, COUNT, NULL);
    launch(square, mapped, mapped, COUNT, NULL);
    CHECK(hipDeviceSynchronize());
    expect(all_are(managed, 5, 0, -1) && all_are(plain, 50, 1, 1),
           "pinned, managed and registered host memory");
    CHECK(hipHostUnregister(plain));
    CHECK(hipFree(managed));
    CHECK(hipHostFree(pinned));
}

// The first device works on memory of the last.
static void peers(int last) {
    const size_t bytes = COUNT * sizeof(float);
    static float x[COUNT];
    void *here, *there;
    int can = 0;
    CHECK(hipDeviceCanAccessPeer(&can, 0, last));
    CHECK(hipDeviceEnablePeerAccess(last, 0));
    CHECK(hipMalloc(&here, bytes));
    CHECK(hipSetDevice(last));
    CHECK(hipMalloc(&there, bytes));
    fill(x, 70);
    CHECK(hipMemcpyHtoD(there, x, bytes));
    CHECK(hipSetDevice(0));
    launch(negate, there, there, COUNT, NULL);
    CHECK(hipDeviceSynchronize());
    CHECK(hipMemcpyPeer(here, 0, there, last, bytes));
    CHECK(hipMemcpyDtoH(x, here, bytes));
    expect(can && all_are(x, 70, 0, -1), "two devices");
    CHECK(hipFree(here));
    CHECK(hipFree(there));
}

// Memory that is allocated and freed in the order of a stream.
static void stream_memory(void) {
    const size_t bytes = COUNT * sizeof(float);
    static float x[COUNT], y[COUNT];
    handle s;
    CHECK(hipStreamCreate(&s));
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        void *dx, *dy;
        fill(x, (float) i);
        CHECK(hipMallocAsync(&dx, bytes, s));
        CHECK(hipMallocAsync(&dy, bytes, s));
        CHECK(hipMemcpyAsync(dx, x, bytes, TO_DEVICE, s));
        launch(square, dx, dy, COUNT, s);
        CHECK(hipMemcpyAsync(y, dy, bytes, TO_HOST, s));
        CHECK(hipFreeAsync(dx, s));
        CHECK(hipFreeAsync(dy, s));
        CHECK(hipStreamSynchronize(s));
        ok = ok && all_are(y, (float) i, 1, 1);
    }
    expect(ok, "hipMallocAsync");
    CHECK(hipStreamDestroy(s));
}

// Addresses first, memory behind them later, in two pieces that meet in the middle of the numbers.
static void mapped_memory(void) {
    static float x[COUNT], y[COUNT];
    const struct allocation what = {.type = 1, .location = {1, 0}};
    const struct access access = {{1, 0}, 3};
    size_t granule = 0;
    CHECK(hipMemGetAllocationGranularity(&granule, &what, 0));
    granule = (COUNT * sizeof *x + granule - 1) / granule * granule;
    char * base = NULL;
    handle parts[2];
    CHECK(hipMemAddressReserve(&base, 2 * granule, 0, NULL, 0));
    for (int i = 0; i < 2; i++) {
        CHECK(hipMemCreate(&parts[i], granule, &what, 0));
        CHECK(hipMemMap(base + i * granule, granule, 0, parts[i], 0));
    }
    CHECK(hipMemSetAccess(base, 2 * granule, &access, 1));
    float * middle = (float *) (void *) (base + granule) - COUNT / 2;
    fill(x, 9);
    CHECK(hipMemcpy(middle, x, COUNT / 2 * sizeof *x, TO_DEVICE));
    CHECK(hipMemcpy(middle + COUNT / 2, x + COUNT / 2, COUNT / 2 * sizeof *x, TO_DEVICE));
    launch(square, middle, middle, COUNT, NULL);
    CHECK(hipMemcpy(y, middle, COUNT / 2 * sizeof *x, TO_HOST));
    CHECK(hipMemcpy(y + COUNT / 2, middle + COUNT / 2, COUNT / 2 * sizeof *x, TO_HOST));
    expect(all_are(y, 9, 1, 1), "mapped memory");
    for (int i = 0; i < 2; i++) {
        CHECK(hipMemUnmap(base + i * granule, granule));
        CHECK(hipMemRelease(parts[i]));
    }
    CHECK(hipMemAddressFree(base, 2 * granule));
}

int main(int argc, char ** argv) {
    if (argc != 4) {
        printf("usage: hip-module <libamdhip64.so.N> <code object> <gfx name>\n");
        return 2;
    }
    library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        printf("%s\n", dlerror());
        return 2;
    }
    find(&hipGetErrorString, "hipGetErrorString", true);
#define FIND(name, arguments) find(&name, #name, true);
    FUNCTIONS(FIND)
    CHECK(hipInit(0));
    int version = 0, count = 0;
    char name[256] = "";
    CHECK(hipRuntimeGetVersion(&version));
    CHECK(hipGetDeviceCount(&count));
    CHECK(hipSetDevice(0));
    CHECK(hipDeviceGetName(name, sizeof name, 0));
    printf("HIP %d.%d, %d device(s), %s\n", version / 10000000, version / 100000 % 100, count,
           name);
    expect(count >= 1 && *name, "devices");
    properties(argv[3]);
    memory();
    modules(argv[2]);
    streams();
    host_memory();
    if (count > 1) {
        peers(count - 1);
    }
    int pools = 0, vmm = 0;
    if (version >= 60000000) {
#define FIND_NEWER(name, arguments) find(&name, #name, true);
        NEWER(FIND_NEWER)
        CHECK(hipDeviceGetAttribute(&pools, ATTRIBUTE_POOLS, 0));
        CHECK(hipDeviceGetAttribute(&vmm, ATTRIBUTE_VMM, 0));
        printf("memory pools: %d, mapped memory: %d\n", pools, vmm);
    }
    if (pools) {
        stream_memory();
    }
    if (vmm) {
        mapped_memory();
    }
    printf("%d failures\n", failures);
    return failures != 0;
}

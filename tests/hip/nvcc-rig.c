// nvcc-rig: see nvcc-rig.h.
#include "nvcc-rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MODULES = 128, REPEATS = 7, MAX_SETS = 16 };

CUstream bench_stream;
double bench_bandwidth;
int bench_wrong;
static CUmodule modules[MAX_MODULES];
static int n_modules;
static size_t l2_bytes;
static char device_name[128];

void bench_must(CUresult result, const char * what) {
    const char * text = "unknown";
    if (result != CUDA_SUCCESS) {
        cuGetErrorString(result, &text);
        fprintf(stderr, "nvcc-bench: %s: %s\n", what, text);
        exit(1);
    }
}

void bench_open(int n_files, char ** files) {
    CUdevice device;
    CUcontext context;
    int bytes = 0;
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS) {
        fprintf(stderr, "nvcc-bench: no NVIDIA GPU\n");
        exit(1);
    }
    bench_must(cuDeviceGetName(device_name, sizeof device_name, device), "name");
    bench_must(cuDeviceGetAttribute(&bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device), "L2");
    l2_bytes = (size_t) bytes;
    bench_must(cuStreamCreate(&bench_stream, 0), "stream");
    for (int i = 0; i < n_files && n_modules < MAX_MODULES; i++) {
        bench_must(cuModuleLoad(&modules[n_modules++], files[i]), files[i]);
    }
}

void bench_describe(void) {
    printf("%s, L2 of %.0f MB, %d modules\n", device_name, (double) l2_bytes / 1e6, n_modules);
}

static CUfunction find(const char * kernel) {
    CUfunction f;
    for (int i = 0; i < n_modules; i++) {
        if (cuModuleGetFunction(&f, modules[i], kernel) == CUDA_SUCCESS) {
            return f;
        }
    }
    return NULL;
}

bool bench_has(const char * kernel) {
    bool has = find(kernel) != NULL;
    if (!has) {
        printf("%-44s left out: no module has it\n", kernel);
    }
    return has;
}

void bench_launch(const char * kernel, const void * args, size_t size, unsigned x, unsigned y,
                  unsigned z, unsigned group) {
    void * extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *) (uintptr_t) args,
                      CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    bench_must(cuLaunchKernel(find(kernel), x, y, z, group, 1, 1, 0, bench_stream, NULL, extra),
               kernel);
}

CUdeviceptr bench_room(size_t size) {
    CUdeviceptr p;
    bench_must(cuMemAlloc(&p, size), "memory");
    return p;
}

CUdeviceptr bench_put(const void * from, size_t size) {
    CUdeviceptr p = bench_room(size);
    bench_must(cuMemcpyHtoD(p, from, size), "copy");
    return p;
}

CUdeviceptr bench_fill(size_t floats) {
    CUdeviceptr p = bench_room(floats * 4);
    bench_must(cuMemsetD32(p, 0x7fc00000, floats), "set");
    return p;
}

// Calls go to the streams in turn, which begin and end with bench_stream.
static CUgraph capture(void (*call)(void * user, int turn), void * user, int turns, int n) {
    CUstream first = bench_stream, streams[BENCH_BESIDE] = {first};
    CUgraph graph;
    CUevent event;
    bench_must(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "event");
    for (int i = 1; i < n; i++) {
        bench_must(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "stream");
    }
    bench_must(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED), "capture");
    bench_must(cuEventRecord(event, first), "event");
    for (int i = 1; i < n; i++) {
        bench_must(cuStreamWaitEvent(streams[i], event, 0), "event");
    }
    for (int i = 0; i < turns; i++) {
        bench_stream = streams[i % n];
        call(user, i);
    }
    bench_stream = first;
    for (int i = 1; i < n; i++) {
        bench_must(cuEventRecord(event, streams[i]), "event");
        bench_must(cuStreamWaitEvent(first, event, 0), "event");
    }
    bench_must(cuStreamEndCapture(first, &graph), "capture");
    for (int i = 1; i < n; i++) {
        cuStreamDestroy(streams[i]);
    }
    cuEventDestroy(event);
    return graph;
}

static double time_of(CUgraph graph, int turns) {
    CUgraphExec exec;
    CUevent from, to;
    float ms[REPEATS];
    bench_must(cuEventCreate(&from, 0), "event");
    bench_must(cuEventCreate(&to, 0), "event");
    bench_must(cuGraphInstantiate(&exec, graph, 0), "graph");
    bench_must(cuGraphLaunch(exec, bench_stream), "graph");
    for (int i = 0; i < REPEATS; i++) {
        bench_must(cuEventRecord(from, bench_stream), "event");
        bench_must(cuGraphLaunch(exec, bench_stream), "graph");
        bench_must(cuEventRecord(to, bench_stream), "event");
        bench_must(cuStreamSynchronize(bench_stream), "kernel");
        bench_must(cuEventElapsedTime(&ms[i], from, to), "event");
        for (int j = i; j > 0 && ms[j] < ms[j - 1]; j--) {
            float t = ms[j];
            ms[j] = ms[j - 1];
            ms[j - 1] = t;
        }
    }
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    cuEventDestroy(from);
    cuEventDestroy(to);
    return ms[REPEATS / 2] / 1e3 / turns;
}

double bench_time(void (*call)(void * user, int turn), void * user, int turns) {
    return time_of(capture(call, user, turns, 1), turns);
}

double bench_time_beside(void (*call)(void * user, int turn), void * user, int turns) {
    return time_of(capture(call, user, turns, BENCH_BESIDE), turns);
}

int bench_sets(size_t size) {
    size_t n = (4 * l2_bytes + size - 1) / size;
    return n > MAX_SETS ? MAX_SETS : n < 1 ? 1 : (int) n;
}

// ---- reading ----

struct read_args {
    const void * x;
    uint32_t n; // of 16 bytes
    uint32_t * y;
};
struct read_job {
    CUdeviceptr from, to;
    size_t size;
    int sets;
};

static void call_read(void * user, int turn) {
    struct read_job * j = user;
    struct read_args a = {(const void *) (j->from + (size_t) (turn % j->sets) * j->size),
                          (uint32_t) (j->size / 16), (uint32_t *) j->to};
    bench_launch("bench_read", &a, sizeof a, 132 * 16, 1, 1, RK_BLOCK);
}

static double read_time(size_t size, double (*time)(void (*)(void *, int), void *, int)) {
    struct read_job j = {.size = size & ~(size_t) 15, .sets = bench_sets(size)};
    j.from = bench_room(j.size * (size_t) j.sets);
    j.to = bench_room(132 * 16 * RK_BLOCK * 4);
    bench_must(cuMemsetD32(j.from, 0x3f9d70a4, j.size * (size_t) j.sets / 4), "set");
    double took = time(call_read, &j, 4 * j.sets);
    cuMemFree(j.from), cuMemFree(j.to);
    return took;
}

double bench_read_time(size_t size) {
    return read_time(size, bench_time);
}

double bench_read_time_beside(size_t size) {
    return read_time(size, bench_time_beside);
}

// ---- numbers ----

static uint64_t state = 88172645463325252u;
uint64_t bench_draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}
float bench_draw_float(void) {
    return (float) (int32_t) (bench_draw() >> 32) / 2147483648.0f;
}

struct bench_type bench_type_of(const char * name) {
    struct bench_type t = {.name = name, .blocks = check_format(name)};
    const char * text = name;
    t.floats = t.blocks ? T_COUNT : check_parse_type(&text);
    return t;
}

size_t bench_bytes(const struct bench_type * t, size_t numbers) {
    const struct check_format * f = t->blocks;
    return f ? numbers / (size_t) f->length * (size_t) f->bytes : numbers * check_size(t->floats);
}

static uint16_t draw_half(void) { // in (-1, 1), no subnormals
    return (uint16_t) ((bench_draw() & 0x83ff) | (11 + bench_draw() % 4) << 10);
}

// Random bits, but for the scales.
static void draw_block(const struct check_format * f, uint8_t * p) {
    for (int i = 0; i < f->bytes; i++) {
        p[i] = (uint8_t) (bench_draw() >> 32);
    }
    for (int i = 0; i < 2 && f->halves[i] >= 0; i++) {
        uint16_t d = draw_half();
        memcpy(p + f->halves[i], &d, sizeof d);
    }
    if (!strcmp(f->name, "iq1_m")) { // the high four bits of a float, behind three others
        p[f->bytes - 1] = (uint8_t) (0x30 | (p[f->bytes - 1] & 15));
    } else if (!strcmp(f->name, "mxfp4")) { // a power of two
        p[0] = (uint8_t) (120 + p[0] % 16);
    } else if (!strcmp(f->name, "nvfp4")) { // floats of 8 bits, none of them NaN
        for (int i = 0; i < 4; i++) {
            p[i] &= 0x77;
        }
    }
}

void * bench_random(const struct bench_type * t, size_t numbers) {
    size_t size = bench_bytes(t, numbers);
    uint8_t * p = malloc(size);
    const struct check_format * f = t->blocks;
    if (!p) {
        fprintf(stderr, "nvcc-bench: no memory\n");
        exit(1);
    }
    for (size_t i = 0; f && i < size; i += (size_t) f->bytes) {
        draw_block(f, p + i);
    }
    for (size_t i = 0; !f && i < numbers; i++) {
        float v = bench_draw_float();
        uint16_t half = draw_half();
        if (t->floats == T_F32) {
            memcpy(p + i * 4, &v, 4);
        } else { // the upper half of a float is one of bf16
            memcpy(p + i * 2, t->floats == T_F16 ? (char *) &half : (char *) &v + 2, 2);
        }
    }
    return p;
}

void bench_decode(const struct bench_type * t, const void * p, size_t first, size_t n,
                  double * out) {
    const struct check_format * f = t->blocks;
    for (size_t i = 0; i < n && !f; i++) {
        out[i] = check_get(t->floats, p, first + i);
    }
    for (size_t i = 0; f && i < n; i += (size_t) f->length) {
        const uint8_t * block = p;
        f->decode(block + (first + i) / (size_t) f->length * (size_t) f->bytes, out + i);
    }
}

void bench_line(const char * what, double seconds, double amount, enum bench_unit unit, double best,
                const char * of, double wrong, double allowed) {
    bool right = wrong <= allowed; // not of a NaN
    bench_wrong += !right;
    printf("%-50s %9.2f us %7.2f %s %5.1f %% of %-12s %s (%.1e)\n", what, seconds * 1e6,
           amount / seconds / 1e12, unit == BENCH_FLOPS ? "TFLOP/s" : "TB/s   ",
           100 * amount / seconds / best, of, right ? "right" : "WRONG", wrong);
}

// A HIP program for the emulated gfx90a, run by test-hsa-hip with the unmodified HIP library:
// memory, copies in all directions, fills, launches, modules, streams, events, callbacks,
// variables, graphs, printf and a second device. argv[1] is a module (hipcc --genco) of this file,
// argv[2] unary_f32 as the kernel cache keeps it.
// Prints one line for each step and ends with 0 when all of them gave what they should.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "hip/kernels/kernels.h"

static int failures;

static void check(hipError_t e, const char * what, int line) {
    if (e != hipSuccess) {
        printf("line %d: %s: %s\n", line, what, hipGetErrorString(e));
        exit(2);
    }
}
#define CHECK(call) check(call, #call, __LINE__)

static void expect(bool ok, const char * what) {
    printf("%s %s\n", ok ? "ok  " : "FAIL", what);
    fflush(stdout);
    failures += !ok;
}

extern "C" __global__ void saxpy(float a, const float * x, float * y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a * x[i] + y[i];
    }
}

__global__ void row_sums(const float * in, float * out, int n) {
    __shared__ float part[256];
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        sum += in[blockIdx.x * n + i];
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half) {
            part[threadIdx.x] += part[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        out[blockIdx.x] = part[0];
    }
}

__global__ void transpose(const int * in, int * out, int w, int h) {
    extern __shared__ int tile[]; // dynamic
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < w && y < h) {
        tile[threadIdx.y * 17 + threadIdx.x] = in[y * w + x];
    }
    __syncthreads();
    int tx = blockIdx.y * 16 + threadIdx.x, ty = blockIdx.x * 16 + threadIdx.y;
    if (tx < h && ty < w) {
        out[ty * h + tx] = tile[threadIdx.x * 17 + threadIdx.y];
    }
}

__global__ void histogram(const unsigned char * in, unsigned * bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&bins[in[i]], 1u);
    }
}

__global__ void increment(int * p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        p[i]++;
    }
}

__constant__ int weights[4];
__device__ int total;

__global__ void weigh(const int * in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&total, in[i] * weights[i & 3]);
    }
}

__global__ void lanes(int * out) {
    int sum = threadIdx.x;
    for (int m = 32; m; m /= 2) {
        sum += __shfl_xor(sum, m);
    }
    unsigned long long thirds = __ballot(threadIdx.x % 3 == 0);
    if (threadIdx.x == 0) {
        out[0] = sum;
        out[1] = __popcll(thirds);
    }
}

__global__ void functions(double * d, float * f) {
    int i = threadIdx.x;
    d[i] = sin(i * 0.1) + exp(i * 0.01) + pow(i + 1.0, 1.5) + log(i + 1.0) + tanh(i * 0.1);
    f[i] = sinf(i * 0.1f) + expf(i * 0.01f) + powf(i + 1.0f, 1.5f) + logf(i + 1.0f) +
           tanhf(i * 0.1f);
}

__global__ void hello(int n) {
    printf("hello %d from %d.%d\n", n, (int) blockIdx.x, (int) threadIdx.x);
}

static void memory() {
    enum { N = 1 << 18 };
    std::vector<int> a(N), b(N);
    for (int i = 0; i < N; i++) {
        a[i] = i * 7919;
    }
    int *d, *e;
    CHECK(hipMalloc(&d, N * 4));
    CHECK(hipMalloc(&e, N * 4));
    CHECK(hipMemcpy(d, a.data(), N * 4, hipMemcpyHostToDevice));
    CHECK(hipMemcpy(e, d, N * 4, hipMemcpyDeviceToDevice));
    CHECK(hipMemcpy(b.data(), e, N * 4, hipMemcpyDeviceToHost));
    expect(a == b, "copies: host, device, device, host");
    CHECK(hipMemcpy(b.data() + 1, e + 3, 12, hipMemcpyDeviceToHost));
    expect(b[0] == a[0] && b[1] == a[3] && b[3] == a[5] && b[4] == a[4], "a small copy");
    CHECK(hipMemset(d, 0xab, N * 4 - 3));
    CHECK(hipMemcpy(b.data(), d, N * 4, hipMemcpyDeviceToHost));
    bool ok = true;
    for (int i = 0; i < N - 1; i++) {
        ok = ok && b[i] == (int) 0xabababab;
    }
    expect(ok && (b[N - 1] & 0xff) == 0xab && b[N - 1] >> 8 == a[N - 1] >> 8, "hipMemset");
    CHECK(hipMemsetD32(d, 12345, N));
    CHECK(hipMemcpy(b.data(), d, N * 4, hipMemcpyDeviceToHost));
    expect(b[0] == 12345 && b[N - 1] == 12345, "hipMemsetD32");
    // 100 rows of 50 ints out of rows of 64 and 80.
    CHECK(hipMemset(d, 0, N * 4));
    CHECK(hipMemcpy2D(d, 64 * 4, a.data(), 80 * 4, 50 * 4, 100, hipMemcpyHostToDevice));
    CHECK(hipMemcpy(b.data(), d, N * 4, hipMemcpyDeviceToHost));
    ok = true;
    for (int y = 0; y < 100; y++) {
        for (int x = 0; x < 64; x++) {
            ok = ok && b[y * 64 + x] == (x < 50 ? a[y * 80 + x] : 0);
        }
    }
    expect(ok, "hipMemcpy2D");
    size_t free = 0, all = 0;
    CHECK(hipMemGetInfo(&free, &all));
    expect(free && free <= all, "hipMemGetInfo");
    CHECK(hipFree(d));
    CHECK(hipFree(e));
}

static void launches() {
    enum { N = 100000, ROWS = 33, COLS = 1000 };
    std::vector<float> x(N), y(N), z(N);
    for (int i = 0; i < N; i++) {
        x[i] = (float) i;
        y[i] = 1.0f;
    }
    float *dx, *dy;
    CHECK(hipMalloc(&dx, N * 4));
    CHECK(hipMalloc(&dy, N * 4));
    CHECK(hipMemcpy(dx, x.data(), N * 4, hipMemcpyHostToDevice));
    CHECK(hipMemcpy(dy, y.data(), N * 4, hipMemcpyHostToDevice));
    saxpy<<<(N + 255) / 256, 256>>>(2.0f, dx, dy, N);
    CHECK(hipGetLastError());
    CHECK(hipMemcpy(z.data(), dy, N * 4, hipMemcpyDeviceToHost));
    bool ok = true;
    for (int i = 0; i < N; i++) {
        ok = ok && z[i] == 2.0f * (float) i + 1.0f;
    }
    expect(ok, "saxpy <<<>>>");
    row_sums<<<ROWS, 256>>>(dx, dy, COLS);
    CHECK(hipDeviceSynchronize());
    CHECK(hipMemcpy(z.data(), dy, ROWS * 4, hipMemcpyDeviceToHost));
    ok = true;
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int i = 0; i < COLS; i++) {
            sum += x[r * COLS + i];
        }
        ok = ok && z[r] > sum * 0.99999 && z[r] < sum * 1.00001;
    }
    expect(ok, "row sums with __shared__");
    enum { W = 50, H = 37 };
    std::vector<int> in(W * H), out(W * H);
    for (int i = 0; i < W * H; i++) {
        in[i] = i;
    }
    CHECK(hipMemcpy(dx, in.data(), W * H * 4, hipMemcpyHostToDevice));
    transpose<<<dim3(4, 3), dim3(16, 16), 16 * 17 * 4>>>((int *) dx, (int *) dy, W, H);
    CHECK(hipMemcpy(out.data(), dy, W * H * 4, hipMemcpyDeviceToHost));
    ok = true;
    for (int i = 0; i < W * H; i++) {
        ok = ok && out[i % W * H + i / W] == i;
    }
    expect(ok, "transpose with dynamic shared memory");
    std::vector<unsigned char> bytes(N);
    std::vector<unsigned> bins(256), counted(256);
    for (int i = 0; i < N; i++) {
        bytes[i] = (unsigned char) (i * 2654435761u >> 24);
        bins[bytes[i]]++;
    }
    CHECK(hipMemcpy(dx, bytes.data(), N, hipMemcpyHostToDevice));
    CHECK(hipMemset(dy, 0, 1024));
    histogram<<<(N + 127) / 128, 128>>>((unsigned char *) dx, (unsigned *) dy, N);
    CHECK(hipMemcpy(counted.data(), dy, 1024, hipMemcpyDeviceToHost));
    expect(bins == counted, "histogram with atomicAdd");
    CHECK(hipFree(dx));
    CHECK(hipFree(dy));
}

static void variables() {
    const int w[4] = {1, -2, 3, 5}, zero = 0;
    int in[1000], sum = 0, got = 0;
    for (int i = 0; i < 1000; i++) {
        in[i] = i;
        sum += i * w[i & 3];
    }
    int * d;
    CHECK(hipMalloc(&d, sizeof in));
    CHECK(hipMemcpy(d, in, sizeof in, hipMemcpyHostToDevice));
    CHECK(hipMemcpyToSymbol(HIP_SYMBOL(weights), w, sizeof w));
    CHECK(hipMemcpyToSymbol(HIP_SYMBOL(total), &zero, sizeof zero));
    weigh<<<8, 128>>>(d, 1000);
    CHECK(hipMemcpyFromSymbol(&got, HIP_SYMBOL(total), sizeof got));
    expect(got == sum, "__constant__ and __device__ variables");
    CHECK(hipFree(d));
}

static void done(hipStream_t stream, hipError_t status, void * data) {
    (void) stream;
    __atomic_store_n((int *) data, status == hipSuccess ? 1 : -1, __ATOMIC_RELEASE);
}

static void streams() {
    enum { STREAMS = 4, N = 5000, ROUNDS = 10 };
    hipStream_t s[STREAMS];
    int *d[STREAMS], *h[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        CHECK(hipStreamCreate(&s[i]));
        CHECK(hipMalloc(&d[i], N * 4));
        CHECK(hipHostMalloc(&h[i], N * 4));
        for (int k = 0; k < N; k++) {
            h[i][k] = i * N + k;
        }
        CHECK(hipMemcpyAsync(d[i], h[i], N * 4, hipMemcpyHostToDevice, s[i]));
        for (int r = 0; r < ROUNDS; r++) {
            increment<<<(N + 63) / 64, 64, 0, s[i]>>>(d[i], N);
        }
        CHECK(hipMemcpyAsync(h[i], d[i], N * 4, hipMemcpyDeviceToHost, s[i]));
    }
    bool ok = true;
    for (int i = 0; i < STREAMS; i++) {
        CHECK(hipStreamSynchronize(s[i]));
        for (int k = 0; k < N; k++) {
            ok = ok && h[i][k] == i * N + k + ROUNDS;
        }
    }
    expect(ok, "four streams");
    // One stream waits for an event of another; times pass between events.
    hipEvent_t before, after;
    CHECK(hipEventCreate(&before));
    CHECK(hipEventCreate(&after));
    CHECK(hipEventRecord(before, s[0]));
    CHECK(hipMemsetAsync(d[0], 0, N * 4, s[0]));
    for (int r = 0; r < ROUNDS; r++) {
        increment<<<(N + 63) / 64, 64, 0, s[0]>>>(d[0], N);
    }
    CHECK(hipEventRecord(after, s[0]));
    CHECK(hipStreamWaitEvent(s[1], after, 0));
    CHECK(hipMemcpyAsync(h[1], d[0], N * 4, hipMemcpyDeviceToHost, s[1]));
    int called = 0;
    CHECK(hipStreamAddCallback(s[1], done, &called, 0));
    CHECK(hipStreamSynchronize(s[1]));
    ok = true;
    for (int k = 0; k < N; k++) {
        ok = ok && h[1][k] == ROUNDS;
    }
    expect(ok, "hipStreamWaitEvent");
    for (int i = 0; i < 1000 && !__atomic_load_n(&called, __ATOMIC_ACQUIRE); i++) {
        hipStreamQuery(s[1]);
        struct timespec ms = {0, 10000000};
        nanosleep(&ms, NULL);
    }
    expect(called == 1, "hipStreamAddCallback");
    float ms = -1;
    CHECK(hipEventSynchronize(after));
    CHECK(hipEventElapsedTime(&ms, before, after));
    expect(ms > 0 && ms < 60000, "hipEventElapsedTime");
    // A kernel that works on the host's memory.
    static int plain[N];
    int * mapped;
    CHECK(hipHostRegister(plain, sizeof plain, hipHostRegisterMapped));
    CHECK(hipHostGetDevicePointer((void **) &mapped, plain, 0));
    increment<<<(N + 63) / 64, 64, 0, s[2]>>>(mapped, N);
    increment<<<(N + 63) / 64, 64, 0, s[2]>>>(h[2], N);
    CHECK(hipStreamSynchronize(s[2]));
    expect(plain[0] == 1 && plain[N - 1] == 1 && h[2][7] == 2 * N + 7 + ROUNDS + 1,
           "registered and pinned host memory");
    CHECK(hipHostUnregister(plain));
    CHECK(hipEventDestroy(before));
    CHECK(hipEventDestroy(after));
    for (int i = 0; i < STREAMS; i++) {
        CHECK(hipStreamDestroy(s[i]));
        CHECK(hipFree(d[i]));
        CHECK(hipHostFree(h[i]));
    }
}

static void library() {
    int *m, sums[2];
    CHECK(hipMallocManaged(&m, 4096));
    lanes<<<1, 64>>>(m);
    CHECK(hipDeviceSynchronize());
    expect(m[0] == 2016 && m[1] == 22, "shuffles, ballots, managed memory");
    double *d, hd[64], worst = 0;
    float *f, hf[64];
    CHECK(hipMalloc(&d, sizeof hd));
    CHECK(hipMalloc(&f, sizeof hf));
    functions<<<1, 64>>>(d, f);
    CHECK(hipMemcpy(hd, d, sizeof hd, hipMemcpyDeviceToHost));
    CHECK(hipMemcpy(hf, f, sizeof hf, hipMemcpyDeviceToHost));
    bool ok = true;
    for (int i = 0; i < 64; i++) {
        double r = sin(i * 0.1) + exp(i * 0.01) + pow(i + 1.0, 1.5) + log(i + 1.0) + tanh(i * 0.1);
        double e = fabs(hd[i] - r) / r;
        worst = e > worst ? e : worst;
        ok = ok && fabs(hf[i] - r) < 1e-6 * r;
    }
    expect(ok && worst < 1e-14, "mathematical functions");
    hello<<<2, 2>>>(42);
    CHECK(hipDeviceSynchronize());
    // A graph of two kernels, five times.
    hipStream_t s;
    hipGraph_t g;
    hipGraphExec_t run;
    CHECK(hipStreamCreate(&s));
    CHECK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
    increment<<<1, 64, 0, s>>>((int *) f, 64);
    increment<<<1, 64, 0, s>>>((int *) f, 64);
    CHECK(hipStreamEndCapture(s, &g));
    CHECK(hipGraphInstantiate(&run, g, NULL, NULL, 0));
    CHECK(hipMemset(f, 0, sizeof hf));
    for (int i = 0; i < 5; i++) {
        CHECK(hipGraphLaunch(run, s));
    }
    CHECK(hipStreamSynchronize(s));
    CHECK(hipMemcpy(sums, f, sizeof sums, hipMemcpyDeviceToHost));
    expect(sums[0] == 10 && sums[1] == 10, "a graph");
    CHECK(hipGraphExecDestroy(run));
    CHECK(hipGraphDestroy(g));
    CHECK(hipStreamDestroy(s));
    CHECK(hipFree(d));
    CHECK(hipFree(f));
    CHECK(hipFree(m));
}

static void peers() {
    int *here, *there, can = 0, got[100];
    CHECK(hipMalloc(&here, sizeof got));
    CHECK(hipSetDevice(1));
    CHECK(hipMalloc(&there, sizeof got));
    CHECK(hipMemset(there, 0, sizeof got));
    increment<<<1, 100>>>(there, 100);
    CHECK(hipDeviceCanAccessPeer(&can, 1, 0));
    CHECK(hipDeviceEnablePeerAccess(0, 0));
    CHECK(hipMemcpyPeer(here, 0, there, 1, sizeof got));
    increment<<<1, 100>>>(here, 100); // from the second device
    CHECK(hipDeviceSynchronize());
    CHECK(hipSetDevice(0));
    CHECK(hipMemcpy(got, here, sizeof got, hipMemcpyDeviceToHost));
    expect(can && got[0] == 2 && got[99] == 2, "two devices");
}

static std::vector<char> read_file(const char * path) {
    std::vector<char> bytes;
    FILE * f = fopen(path, "rb");
    char part[4096];
    for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;) {
        bytes.insert(bytes.end(), part, part + n);
    }
    if (f) {
        fclose(f);
    }
    return bytes;
}

// A code object of the library: its kernels take their one struct by value.
static void kept_code(const char * path) {
    std::vector<char> bytes = read_file(path);
    hipModule_t m;
    hipFunction_t fn;
    CHECK(hipModuleLoadData(&m, bytes.data()));
    CHECK(hipModuleGetFunction(&fn, m, "unary_sqr_f32"));
    const int n = 1001;
    float x[n], y[n];
    for (int k = 0; k < n; k++) {
        x[k] = (float) (k - 500);
    }
    float *dx, *dy;
    CHECK(hipMalloc(&dx, sizeof x));
    CHECK(hipMalloc(&dy, sizeof y));
    CHECK(hipMemcpyHtoD(dx, x, sizeof x));
    rk_unary arguments = {};
    arguments.shape.n = n;
    arguments.x = dx;
    arguments.y = dy;
    void * args[] = {&arguments};
    CHECK(hipModuleLaunchKernel(fn, 4, 1, 1, RK_BLOCK, 1, 1, 0, 0, args, NULL));
    CHECK(hipMemcpyDtoH(y, dy, sizeof y));
    bool ok = true;
    for (int k = 0; k < n; k++) {
        ok = ok && y[k] == x[k] * x[k];
    }
    expect(ok, "a kept code object");
    CHECK(hipModuleUnload(m));
    CHECK(hipFree(dx));
    CHECK(hipFree(dy));
}

static void module(const char * path) {
    std::vector<char> bytes = read_file(path);
    for (int i = 0; i < 2; i++) { // from memory, then from the file
        hipModule_t m;
        hipFunction_t fn;
        CHECK(i ? hipModuleLoad(&m, path) : hipModuleLoadData(&m, bytes.data()));
        CHECK(hipModuleGetFunction(&fn, m, "saxpy"));
        int n = 1000;
        float a = 3.0f, x[1000], y[1000];
        for (int k = 0; k < n; k++) {
            x[k] = (float) k;
            y[k] = 0.5f;
        }
        float *dx, *dy;
        CHECK(hipMalloc(&dx, sizeof x));
        CHECK(hipMalloc(&dy, sizeof y));
        CHECK(hipMemcpyHtoD(dx, x, sizeof x));
        CHECK(hipMemcpyHtoD(dy, y, sizeof y));
        void * args[] = {&a, &dx, &dy, &n};
        CHECK(hipModuleLaunchKernel(fn, 8, 1, 1, 128, 1, 1, 0, 0, args, NULL));
        CHECK(hipMemcpyDtoH(y, dy, sizeof y));
        bool ok = true;
        for (int k = 0; k < n; k++) {
            ok = ok && y[k] == 3.0f * (float) k + 0.5f;
        }
        expect(ok, i ? "a module from a file" : "a module from memory");
        CHECK(hipModuleUnload(m));
        CHECK(hipFree(dx));
        CHECK(hipFree(dy));
    }
}

int main(int argc, char ** argv) {
    int n = 0;
    CHECK(hipGetDeviceCount(&n));
    hipDeviceProp_t p;
    CHECK(hipGetDeviceProperties(&p, 0));
    printf("%d device(s), %s, %s, %d compute units\n", n, p.name, p.gcnArchName,
           p.multiProcessorCount);
    expect(n >= 1 && p.warpSize == 64 && !strncmp(p.gcnArchName, "gfx90a", 6), "properties");
    memory();
    launches();
    variables();
    streams();
    library();
    if (n > 1) {
        peers();
    }
    if (argc > 1) {
        module(argv[1]);
    }
    if (argc > 2) {
        kept_code(argv[2]);
    }
    printf("%d failures\n", failures);
    return failures != 0;
}

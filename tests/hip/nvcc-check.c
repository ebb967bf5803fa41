// nvcc-check: the kernels as CUDA, on an NVIDIA GPU: a third opinion on their logic, from another
// compiler and another machine. nvcc-check.sh builds and runs it; it is no part of the test suite.
//
//   nvcc-check FILE.cubin...
#include "../../tools/hip-check/check.h"
#include "rocm-kernels.h"

#include <cuda.h>
#include <stdio.h>
#include <string.h>

enum { MAX_MODULES = 64 };

static CUmodule modules[MAX_MODULES];
static int n_modules;

static void * alloc(void * user, size_t size) {
    (void) user;
    CUdeviceptr p;
    return cuMemAllocManaged(&p, size, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS ? (void *) p : NULL;
}

static void release(void * user, void * memory) {
    (void) user;
    cuMemFree((CUdeviceptr) memory);
}

static enum status launch(void * user, const char * kernel, const void * args, size_t args_size,
                          const uint32_t groups[3], uint32_t group_size, struct error * err) {
    (void) user;
    CUfunction f = NULL;
    for (int i = 0; i < n_modules && !f; i++) {
        if (cuModuleGetFunction(&f, modules[i], kernel) != CUDA_SUCCESS) {
            f = NULL;
        }
    }
    if (!f) {
        return error_set(err, ST_NOT_FOUND, "no such kernel in the modules");
    }
    void * extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *) (uintptr_t) args,
                      CU_LAUNCH_PARAM_BUFFER_SIZE, &args_size, CU_LAUNCH_PARAM_END};
    CUresult result =
        cuLaunchKernel(f, groups[0], groups[1], groups[2], group_size, 1, 1, 0, NULL, NULL, extra);
    result = result == CUDA_SUCCESS ? cuCtxSynchronize() : result;
    const char * text = "unknown";
    cuGetErrorString(result, &text);
    return result == CUDA_SUCCESS ? ST_OK : error_set(err, ST_DEVICE, "%s", text);
}

static struct hip_check total;
static int n_kernels, n_wrong;

static bool check(void * user, const char * kernel) {
    struct error err = {0};
    n_kernels++;
    if (hip_check_kernel(user, kernel, &total, &err) != ST_OK) {
        n_wrong++;
        printf("%s\n", err.text);
    }
    return true;
}

int main(int argc, char ** argv) {
    CUdevice device;
    CUcontext context;
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS) {
        fprintf(stderr, "nvcc-check: no NVIDIA GPU\n");
        return 1;
    }
    for (int i = 1; i < argc && n_modules < MAX_MODULES; i++) {
        if (cuModuleLoad(&modules[n_modules], argv[i]) != CUDA_SUCCESS) {
            fprintf(stderr, "nvcc-check: %s cannot be loaded\n", argv[i]);
            return 1;
        }
        n_modules++;
    }
    struct hip_bench bench = {.alloc = alloc, .release = release, .launch = launch};
    for (int i = 0; i < rocm_modules_count(); i++) {
        rocm_modules_kernels(rocm_modules_name(i), check, &bench);
    }
    printf("%d of %d kernels are right; %llu launches, %llu elements\n", n_kernels - n_wrong,
           n_kernels, (unsigned long long) total.cases, (unsigned long long) total.elements);
    return n_wrong != 0;
}

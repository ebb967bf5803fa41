// gpu-bench: a GPU of a HSA runtime as a bench for check.h: one queue, one kernel at a time.
#pragma once

#include "hip-check/check.h"
#include "hsa/hsac.h"
#include "rocm-kernels.h"

struct hip_hsa_bench;

// The nth GPU of the runtime; k is a manager that was opened with its functions. ST_NOT_FOUND:
// there are fewer.
enum status hip_bench_open(struct rocm_kernels * k, struct hsac * runtime, int nth,
                           struct hip_hsa_bench ** out, struct error * err);
void hip_bench_close(struct hip_hsa_bench * b);
const struct hip_bench * hip_bench_of(struct hip_hsa_bench * b);
const char * hip_bench_name(const struct hip_hsa_bench * b); // of the GPU

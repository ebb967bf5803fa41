// compile: kernels.hip for a GPU, made by clang when a test runs.
#pragma once

#include "base/base.h"
#include "base/cmocka-all.h"
#include "skip.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COMPILE_WITH "clang++-19"

// The kernels for one GPU. Leaves the test where there is no compiler.
static inline uint8_t * compile_kernels(const char * arch, size_t * size) {
    if (system("command -v " COMPILE_WITH
               " >/dev/null 2>&1 && command -v ld.lld-19 >/dev/null 2>&1") != 0) {
        skip_test("no " COMPILE_WITH " or no ld.lld-19");
    }
    char path[] = "/tmp/hsa-kernels-XXXXXX", command[1024];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(command, sizeof command,
             COMPILE_WITH
             " -x hip --cuda-device-only --no-gpu-bundle-output --offload-arch=%s -nogpulib "
             "-nogpuinc -O3 -mcode-object-version=4 -o %s %s/kernels.hip",
             arch, path, SOURCE_DIRECTORY);
    assert_int_equal(system(command), 0);
    uint8_t * data = NULL;
    assert_int_equal(file_read(path, 1 << 20, &data, size, NULL), ST_OK);
    unlink(path);
    return data;
}

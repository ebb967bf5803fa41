// check: does a kernel compute what it should? Each kernel of the library is started on whatever
// device a bench stands for, on small tensors with edges, strides and special numbers, and its
// results are compared with the same in double precision, computed here.
#pragma once

#include "base/base.h"

struct hip_bench {
    void * user;
    // Memory that host and device both see; NULL: none left.
    void * (*alloc)(void * user, size_t size);
    void (*release)(void * user, void * memory);
    // Starts groups[0] x groups[1] x groups[2] groups of group_size x 1 x 1 work-items and waits.
    enum status (*launch)(void * user, const char * kernel, const void * args, size_t args_size,
                          const uint32_t groups[3], uint32_t group_size, struct error * err);
};

struct hip_check {
    uint64_t cases, elements;
    double worst; // error, as a share of what is allowed
};

// ST_CORRUPT: a result is wrong; err names the kernel, the case, the element, what it is and what
// it should be. ST_NOT_FOUND: no such kernel. *out is added to.
enum status hip_check_kernel(const struct hip_bench * bench, const char * kernel,
                             struct hip_check * out, struct error * err);

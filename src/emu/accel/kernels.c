// kernels: the drivers that can be played, one row each: what a call does, and with which error it
// does not. The rows of Linux are what its own releases have, the last one what AMD's package has
// shipped since; `legacy` is the module of that package until May 2026, for the ROCr that works
// with no other.
#include "accel.h"

#include <errno.h>
#include <string.h>

static const struct accel_kernel kernels[] = {
    {.name = "6.14",
     .major = 0,
     .minor = 0,
     .upstream = true,
     .wait_cmd = EINVAL,
     .command_bytes = 32 << 10,
     .early_piece = EINVAL,
     .second_heap = EBUSY,
     .cus_first = true,
     .device_ids = true,
     .context_ids = 255,
     .chain_bytes = 4095, // the comparison was off by one
     .idle_ms = 5000},
    {.name = "6.18",
     .major = 0,
     .minor = 1,
     .upstream = true,
     .wait_cmd = EINVAL,
     .get_array = true,
     .entry_bytes = 144,
     .command_bytes = 32 << 10,
     .early_piece = EINVAL,
     .second_heap = EBUSY,
     .watchdog = true,
     .cus_first = true,
     .device_ids = true,
     .context_ids = 255,
     .chain_bytes = 4096,
     .idle_ms = 5000},
    {.name = "7.0",
     .major = 0,
     .minor = 6,
     .upstream = true,
     .firmware7 = true,
     .wait_cmd = EINVAL,
     .get_array = true,
     .entry_bytes = 144,
     .preempt = true,
     .npu_command = true,
     .command_bytes = 32 << 10,
     .early_piece = EINVAL,
     .second_heap = EBUSY,
     .watchdog = true,
     .overwrites = true,
     .device_ids = true,
     .context_ids = 1024,
     .chain_bytes = 4096,
     .idle_ms = 5000},
    {.name = "7.2",
     .major = 0,
     .minor = 16,
     .upstream = true,
     .firmware7 = true,
     .wait_cmd = EOPNOTSUPP,
     .get_array = true,
     .entry_bytes = 160,
     .sensors = true,
     .preempt = true,
     .npu_command = true,
     .one_buffer_type = true,
     .heap_grows = true,
     .early_piece = EAGAIN,
     .second_heap = ENOSPC,
     .watchdog = true,
     .health = true,
     .overwrites = true,
     .holds_cus = true,
     .device_ids = true,
     .context_ids = 1024,
     .chain_bytes = 4096,
     .idle_ms = 5000},
    {.name = "legacy",
     .major = 1,
     .minor = 0,
     .get_array = true,
     .npu_command = true,
     .early_piece = EINVAL,
     .second_heap = EBUSY,
     .watchdog = true,
     .context_ids = 255,
     .chain_bytes = 4096,
     .idle_ms = 0},
};

const struct accel_kernel * accel_kernel_find(const char * name) {
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (!strcmp(kernels[i].name, name)) {
            return &kernels[i];
        }
    }
    return NULL;
}

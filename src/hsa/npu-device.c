// npu-device: the NPU below ROCr, seen from beside. ROCr up to 7.2 ends the process when the driver
// fails in the middle of a batch, so we ask the driver first, through a file of our own: a device
// that was unplugged, reset for good or suspended away is then an error of the graph. What is lost
// while a batch runs cannot be caught this way.
//
// And which driver it is: ROCr does not ask, and ends the process with one that it does not fit.
#include "hsac-impl.h"

struct amdxdna * hsac_device_open(void) {
    struct amdxdna * device = NULL;
    for (int i = 0; i < AMDXDNA_DEVICES && !device; i++) {
        amdxdna_open(i, &device, NULL);
    }
    return device;
}

enum status hsac_device_fits(const struct hsac * h, const struct amdxdna_info * info,
                             struct error * err) {
    char driver[96];
    if (!h->runtime->wants_legacy || info->legacy) {
        return ST_OK;
    }
    amdxdna_describe(info, driver, sizeof driver);
    return error_set(
        err, ST_UNSUPPORTED,
        "%s (%s) does not work with %s: it waits with a call, or makes a context, that "
        "the driver in Linux does not have; unset GGML_HSA_RUNTIME, and the NPU is used "
        "without ROCr",
        h->path, h->runtime->name, driver);
}

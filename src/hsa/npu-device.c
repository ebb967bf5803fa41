// npu-device: whether the NPU is still there. ROCr up to 7.2 ends the process when the driver fails
// in the middle of a batch, so we ask the driver first, through a file of our own: a device that
// was unplugged, reset for good or suspended away is then an error of the graph. What is lost while
// a batch runs cannot be caught this way.
#include "hsac-impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DEVICES = 64, QUERY_AIE_METADATA = 1, QUERY_AIE_VERSION = 2 }; // as many as ROCr tries

struct get_info { // the driver's DRM_IOCTL_AMDXDNA_GET_INFO
    uint32_t question;
    uint32_t size;
    uint64_t buffer;
};
#define GET_INFO _IOWR('d', 0x40 + 7, struct get_info)

static bool ask_device(int device, uint32_t question, void * answer, uint32_t size, int * why) {
    struct get_info ask = {question, size, (uint64_t) (uintptr_t) answer};
    int rc;
    do {
        rc = ioctl(device, GET_INFO, &ask);
    } while (rc != 0 && errno == EINTR);
    *why = rc ? errno : 0;
    return rc == 0;
}

bool hsac_device_lives(int device, int * why) {
    uint32_t version[2] = {0};
    return ask_device(device, QUERY_AIE_VERSION, version, sizeof version, why);
}

int hsac_device_columns(int device) {
    struct { // what it says of its array
        uint32_t column_bytes;
        uint16_t columns, rows;
        uint32_t version[2];
        uint16_t tiles[3][8];
    } metadata = {0};
    int why;
    return ask_device(device, QUERY_AIE_METADATA, &metadata, sizeof metadata, &why)
               ? metadata.columns
               : 0;
}

// The first that answers, which is the one that ROCr takes too.
int hsac_device_open(void) {
    for (int i = 0; i < DEVICES; i++) {
        char path[32];
        int why;
        snprintf(path, sizeof path, "/dev/accel/accel%d", i);
        int device = open(path, O_RDWR | O_CLOEXEC);
        if (device >= 0 && hsac_device_lives(device, &why)) {
            return device;
        }
        hsac_device_close(device);
    }
    return -1;
}

void hsac_device_close(int device) {
    if (device >= 0) {
        close(device);
    }
}

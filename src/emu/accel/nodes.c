// nodes: the files that a driver makes outside of itself, as paths of one table: the device, what
// sysfs says of it, and that the GPU's driver is loaded, without which ROCr does not start. They
// are nowhere on disk; preload.c asks this table first.
#include "accel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CLASS "/sys/class/accel"
#define PCI   CLASS "/accel0/device"

// A directory stands before what is in it.
static const struct accel_node nodes[] = {
    {"/dev/accel", ACCEL_NODE_DIR, NULL},
    {"/dev/accel/accel0", ACCEL_NODE_DEVICE, NULL},
    {"/dev/kfd", ACCEL_NODE_NULL, NULL},
    {CLASS, ACCEL_NODE_DIR, NULL},
    {CLASS "/accel0", ACCEL_NODE_DIR, NULL},
    {CLASS "/accel0/dev", ACCEL_NODE_TEXT, "261:0\n"},
    {PCI, ACCEL_NODE_DIR, NULL},
    {PCI "/vendor", ACCEL_NODE_TEXT, "0x1022\n"},
    {PCI "/device", ACCEL_NODE_TEXT, NULL},
    {PCI "/revision", ACCEL_NODE_TEXT, NULL},
    {PCI "/vbnv", ACCEL_NODE_TEXT, NULL},
    {PCI "/fw_version", ACCEL_NODE_TEXT, NULL},
    {PCI "/device_type", ACCEL_NODE_TEXT, "0\n"},
    {PCI "/driver", ACCEL_NODE_LINK, "../../../../bus/pci/drivers/amdxdna"},
    {"/sys/module/amdxdna", ACCEL_NODE_DIR, NULL},
    {"/sys/module/amdxdna/initstate", ACCEL_NODE_TEXT, "live\n"},
    {"/sys/module/amdgpu", ACCEL_NODE_DIR, NULL},
    {"/sys/module/amdgpu/initstate", ACCEL_NODE_TEXT, "live\n"},
};
enum { N_NODES = sizeof nodes / sizeof nodes[0] };

const struct accel_node * accel_node_find(const char * path) {
    if (path && (!strncmp(path, "/dev/", 5) || !strncmp(path, "/sys/", 5))) {
        for (int i = 0; i < N_NODES; i++) {
            if (!strcmp(path, nodes[i].path)) {
                return &nodes[i];
            }
        }
    }
    return NULL;
}

const struct accel_node * accel_node_entry(const struct accel_node * dir, size_t i,
                                           const char ** name) {
    size_t n = strlen(dir->path);
    for (const struct accel_node * e = dir + 1; e < nodes + N_NODES; e++) {
        bool inside = !strncmp(e->path, dir->path, n) && e->path[n] == '/';
        if (inside && !strchr(e->path + n + 1, '/') && i-- == 0) {
            *name = e->path + n + 1;
            return e;
        }
    }
    return NULL;
}

// While no file is open the settings are those that the next one will find.
static void now(struct accel_settings * s) {
    struct accel_device * dev = accel_device();
    struct error err = {0};
    pthread_mutex_lock(&dev->lock);
    *s = dev->settings;
    bool live = dev->files != NULL;
    pthread_mutex_unlock(&dev->lock);
    if (!live && accel_settings_read(s, &err) != ST_OK) {
        fprintf(stderr, "accel-emu: %s\n", err.text);
        memset(s, 0, sizeof *s);
    }
}

static void accel_node_text(const struct accel_node * n, char * text, size_t size) {
    const char * name = strrchr(n->path, '/') + 1;
    struct accel_settings s;
    *text = '\0';
    if (n->text) {
        snprintf(text, size, "%s", n->text);
        return;
    }
    now(&s);
    if (!s.model) {
        return;
    }
    if (!strcmp(name, "device")) {
        snprintf(text, size, "0x%04x\n", s.model->pci);
    } else if (!strcmp(name, "revision")) {
        snprintf(text, size, "0x%02x\n", s.model->revision);
    } else if (!strcmp(name, "vbnv")) {
        snprintf(text, size, "%s\n", s.model->product[s.kernel->firmware7]);
    } else {
        snprintf(text, size, "%s\n", s.firmware);
    }
}

unsigned accel_node_mode(const struct accel_node * n) {
    static const unsigned modes[] = {
        [ACCEL_NODE_DIR] = S_IFDIR | 0755,  [ACCEL_NODE_TEXT] = S_IFREG | 0444,
        [ACCEL_NODE_LINK] = S_IFLNK | 0777, [ACCEL_NODE_DEVICE] = S_IFCHR | 0666,
        [ACCEL_NODE_NULL] = S_IFCHR | 0666,
    };
    return modes[n->kind];
}

static int open_text(const struct accel_node * n, int flags) {
    char text[128];
    accel_node_text(n, text, sizeof text);
    if ((flags & O_ACCMODE) != O_RDONLY) {
        return -EACCES;
    }
    int fd = memfd_create("accel0-text", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
    if (fd < 0) {
        return -errno;
    }
    if (pwrite(fd, text, strlen(text), 0) != (ssize_t) strlen(text)) {
        accel_libc()->close(fd);
        return -EIO;
    }
    return fd;
}

int accel_node_open(const struct accel_node * n, int flags) {
    int fd;
    switch (n->kind) {
    case ACCEL_NODE_DEVICE:
        return accel_open(flags);
    case ACCEL_NODE_TEXT:
        return open_text(n, flags);
    case ACCEL_NODE_NULL:
        fd = accel_libc()->open("/dev/null", flags);
        return fd < 0 ? -errno : fd;
    case ACCEL_NODE_LINK:
        return -ENOENT;
    default:
        return -EISDIR;
    }
}

// device: the open files, and the way of an ioctl from its number to its handler.
//
// A program's descriptor is an empty memfd, so that it can be dup'ed, passed on and closed like any
// other; its inode shows whose it is. The memory of its buffers is another memfd that no
// descriptor of the program leads to.
#include "accel.h"
#include "start.h"

#include "base/out.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct accel_device * accel_device(void) {
    static struct accel_device device = {
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
    };
    return &device;
}

// ---- forks ----

// A child has neither the device's thread nor its own memory there: for it the device is closed.
// Its descriptors are empty files that answer nothing.
static void before_fork(void) {
    pthread_mutex_lock(&accel_device()->lock);
}

static void after_fork(void) {
    pthread_mutex_unlock(&accel_device()->lock);
}

static void in_child(void) {
    struct accel_device * dev = accel_device();
    dev->files = NULL;
    dev->exports = NULL;
    dev->jobs = NULL;
    dev->n_mappings = 0;
    dev->has_worker = false;
    dev->opened = false;
    dev->cache = NULL; // of the parent, whose threads may be in it
    dev->stuck = false;
    dev->changed = (pthread_cond_t) PTHREAD_COND_INITIALIZER; // nobody waits here
    pthread_mutex_unlock(&dev->lock);
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork, in_child);
}

// ---- the program's memory ----

static bool user_copy(void * ours, uint64_t theirs, size_t size, bool write) {
    struct iovec here = {ours, size}, there = {(void *) (uintptr_t) theirs, size};
    if (size == 0) {
        return true;
    }
    ssize_t n = write ? process_vm_writev(getpid(), &here, 1, &there, 1, 0)
                      : process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    if (n < 0 && (errno == ENOSYS || errno == EPERM) && theirs) { // a sandbox: trust the caller
        memcpy(write ? (void *) (uintptr_t) theirs : ours,
               write ? ours : (void *) (uintptr_t) theirs, size);
        return true;
    }
    return n == (ssize_t) size;
}

bool accel_user_read(void * to, uint64_t from, size_t size) {
    return user_copy(to, from, size, false);
}

bool accel_user_write(uint64_t to, const void * from, size_t size) {
    return user_copy((void *) (uintptr_t) from, to, size, true);
}

// ---- open files ----

struct accel_file * accel_file_of(struct accel_device * dev, int fd) {
    struct stat info;
    if (!dev->files || fd < 0 || fstat(fd, &info) != 0) {
        return NULL;
    }
    struct accel_file * f = dev->files;
    while (f && (f->closed || f->ino != info.st_ino || f->dev != info.st_dev)) {
        f = f->next;
    }
    return f;
}

// How many descriptors of this process lead to the file.
static int descriptors(const struct accel_file * f) {
    const struct accel_libc * libc = accel_libc();
    DIR * dir = libc->opendir("/proc/self/fd");
    int n = dir ? 0 : 1;
    for (struct dirent * e; dir && (e = libc->readdir(dir));) {
        struct stat info;
        n += fstat(atoi(e->d_name), &info) == 0 && info.st_ino == f->ino && info.st_dev == f->dev;
    }
    if (dir) {
        libc->closedir(dir);
    }
    return n;
}

static void file_free(struct accel_device * dev, struct accel_file * f) {
    struct accel_file ** link = &dev->files;
    while (*link != f) {
        link = &(*link)->next;
    }
    *link = f->next;
    while (f->contexts) {
        dev->counts.left_contexts++;
        accel_context_free(dev, f->contexts);
    }
    accel_file_drop_syncobjs(dev, f);
    accel_file_drop_buffers(dev, f);
    accel_libc()->close(f->memory);
    free(f);
}

static void file_leave(struct accel_device * dev, struct accel_file * f) {
    if (--f->users == 0 && f->closed) {
        file_free(dev, f);
        accel_report(dev);
    }
}

static int first_open(struct accel_device * dev) {
    struct error err = {0};
    if (accel_settings_read(&dev->settings, &err) != ST_OK) {
        fprintf(stderr, "accel-emu: %s\n", err.text);
        return -EINVAL;
    }
    accel_time_begin(dev->settings.modelled_time);
    if (dev->trace) {
        fclose(dev->trace);
        dev->trace = NULL;
    }
    if (*dev->settings.trace) {
        int fd;
        if (out_open(dev->settings.trace, O_WRONLY | O_APPEND, &fd, &err) != ST_OK) {
            fprintf(stderr, "accel-emu: ACCEL_EMU_TRACE=%s\n", err.text);
            return -EINVAL;
        }
        if (!(dev->trace = fdopen(fd, "ae"))) {
            accel_libc()->close(fd);
            return -ENOMEM;
        }
    }
    int error = accel_shared_open(dev);
    if (error == 0) {
        error = accel_caches_open(dev);
    }
    if (error != 0) {
        return error;
    }
    memset(dev->calls, 0, sizeof dev->calls);
    dev->pid = getpid();
    dev->opened = true;
    if (dev->settings.no_caches) {
        accel_say(dev, "ACCEL_EMU_CACHES: off with the legacy kernel, for ROCr flushes without "
                       "telling anybody");
    }
    return 0;
}

static int open_locked(struct accel_device * dev, int flags) {
    int error = dev->files ? 0 : first_open(dev);
    if (error == 0) {
        error = -accel_fault(dev, "OPEN");
    }
    if (error != 0) {
        return error;
    }
    struct accel_file * f = calloc(1, sizeof *f);
    int fd = memfd_create("accel0", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
    int memory = memfd_create("accel0-memory", MFD_CLOEXEC);
    struct stat info;
    const off_t end = (off_t) 1 << 40; // sparse; what is not written takes no memory
    if (!f || fd < 0 || memory < 0 || fstat(fd, &info) != 0 || ftruncate(memory, end) != 0) {
        error = errno ? -errno : -ENOMEM;
        free(f);
        if (fd >= 0) {
            accel_libc()->close(fd);
        }
        if (memory >= 0) {
            accel_libc()->close(memory);
        }
        return error;
    }
    f->dev = info.st_dev;
    f->ino = info.st_ino;
    f->memory = memory;
    f->used = (struct accel_ranges){.end = (uint64_t) end};
    f->next = dev->files;
    dev->files = f;
    return fd;
}

int accel_open(int flags) {
    struct accel_device * dev = accel_device();
    accel_start_release();
    pthread_mutex_lock(&dev->lock);
    int fd = open_locked(dev, flags);
    accel_trace(dev, "open -> %d", fd);
    accel_report(dev);
    pthread_mutex_unlock(&dev->lock);
    return fd;
}

void accel_close(int fd) {
    struct accel_device * dev = accel_device();
    pthread_mutex_lock(&dev->lock);
    struct accel_file * f = accel_file_of(dev, fd);
    if (f && descriptors(f) <= 1) {
        accel_trace(dev, "close %d", fd);
        f->closed = true;
        f->users++;
        file_leave(dev, f);
    }
    pthread_mutex_unlock(&dev->lock);
}

// ---- calls ----

// Linux's driver has no WAIT_CMD for these devices, and older ones no GET_ARRAY.
static int absent(const struct accel_kernel * k, unsigned nr) {
    switch (nr) {
    case XDNA_WAIT_CMD:
        return k->wait_cmd;
    case XDNA_GET_ARRAY:
        return k->get_array ? 0 : EINVAL;
    case XDNA_SYNCOBJ_CREATE:
    case XDNA_SYNCOBJ_DESTROY:
    case XDNA_SYNCOBJ_TIMELINE_WAIT:
    case XDNA_SYNCOBJ_QUERY:
    case XDNA_SYNCOBJ_EVENTFD: // the package's module has them; who waits there has WAIT_CMD
        return k->upstream ? 0 : EINVAL;
    default:
        return 0;
    }
}

static const struct ioctl_row {
    unsigned nr;
    size_t size;
    const char * name; // that ACCEL_EMU_FAIL and the trace use
    int (*handler)(struct accel_call * c);
} ioctls[] = {
    {XDNA_VERSION, sizeof(struct xdna_version), "VERSION", accel_version},
    {XDNA_GEM_CLOSE, sizeof(struct xdna_gem_close), "GEM_CLOSE", accel_gem_close},
    {XDNA_PRIME_HANDLE_TO_FD, sizeof(struct xdna_prime), "PRIME_EXPORT", accel_prime_export},
    {XDNA_PRIME_FD_TO_HANDLE, sizeof(struct xdna_prime), "PRIME_IMPORT", accel_prime_import},
    {XDNA_CREATE_HWCTX, sizeof(struct xdna_create_hwctx), "CREATE_HWCTX", accel_create_hwctx},
    {XDNA_DESTROY_HWCTX, sizeof(struct xdna_destroy_hwctx), "DESTROY_HWCTX", accel_destroy_hwctx},
    {XDNA_CONFIG_HWCTX, sizeof(struct xdna_config_hwctx), "CONFIG_HWCTX", accel_config_hwctx},
    {XDNA_CREATE_BO, sizeof(struct xdna_create_bo), "CREATE_BO", accel_create_bo},
    {XDNA_GET_BO_INFO, sizeof(struct xdna_get_bo_info), "GET_BO_INFO", accel_get_bo_info},
    {XDNA_SYNC_BO, sizeof(struct xdna_sync_bo), "SYNC_BO", accel_sync_bo},
    {XDNA_EXEC_CMD, sizeof(struct xdna_exec_cmd), "EXEC_CMD", accel_exec_cmd},
    {XDNA_GET_INFO, sizeof(struct xdna_get_info), "GET_INFO", accel_get_info},
    {XDNA_SET_STATE, sizeof(struct xdna_get_info), "SET_STATE", accel_set_state},
    {XDNA_WAIT_CMD, sizeof(struct xdna_wait_cmd), "WAIT_CMD", accel_wait_cmd},
    {XDNA_GET_ARRAY, sizeof(struct xdna_get_array), "GET_ARRAY", accel_get_array},
    {XDNA_SYNCOBJ_CREATE, sizeof(struct xdna_syncobj), "SYNCOBJ_CREATE", accel_syncobj_create},
    {XDNA_SYNCOBJ_DESTROY, sizeof(struct xdna_syncobj), "SYNCOBJ_DESTROY", accel_syncobj_destroy},
    {XDNA_SYNCOBJ_TIMELINE_WAIT, sizeof(struct xdna_timeline_wait), "TIMELINE_WAIT",
     accel_timeline_wait},
    {XDNA_SYNCOBJ_QUERY, sizeof(struct xdna_timeline_query), "SYNCOBJ_QUERY", accel_syncobj_query},
    {XDNA_SYNCOBJ_EVENTFD, sizeof(struct xdna_syncobj_eventfd), "SYNCOBJ_EVENTFD",
     accel_syncobj_eventfd},
};

// mmap is no call that a signal interrupts.
static bool hits(const struct accel_fault * f, const char * name) {
    bool any = !strcmp(f->name, "ANY") && strcmp(name, "COMMAND") != 0 &&
               !(f->error == EINTR && !strcmp(name, "MMAP"));
    return any || !strcmp(f->name, name);
}

int accel_fault(struct accel_device * dev, const char * name) {
    int error = 0;
    for (int i = 0; i < dev->settings.n_faults; i++) {
        const struct accel_fault * f = &dev->settings.faults[i];
        if (hits(f, name)) {
            uint64_t call = ++dev->calls[i];
            bool now =
                f->every ? call % f->call == 0 : call == f->call || (f->stays && call > f->call);
            error = now ? f->error : error;
        }
    }
    if (error) {
        dev->counts.faults++;
        if (error == EINTR) { // not worth a line for people
            accel_trace(dev, "%s: a fault is played: EINTR", name);
        } else {
            accel_say(dev, "%s: a fault is played: %s", name, strerrorname_np(error));
        }
    }
    return error;
}

// DRM takes structs of any size: what the caller's has more is not looked at, and what it has less
// is 0. The package's module is played as it was first written, with equal sizes.
static int call(struct accel_device * dev, struct accel_file * f, unsigned long request,
                uint64_t arg) {
    const struct accel_kernel * k = dev->settings.kernel;
    unsigned nr = _IOC_NR(request);
    size_t size = _IOC_SIZE(request), row = 0;
    struct accel_call c = {.dev = dev, .file = f, .name = "ioctl"};
    while (row < sizeof ioctls / sizeof ioctls[0] && ioctls[row].nr != nr) {
        row++;
    }
    if (row == sizeof ioctls / sizeof ioctls[0]) {
        return accel_refuse(&c, EINVAL, "number 0x%x of the DRM: the driver has no such call", nr);
    }
    c.name = ioctls[row].name;
    if (absent(k, nr)) {
        return accel_refuse(&c, absent(k, nr),
                            "the driver of Linux %s does not have it for this "
                            "device",
                            k->name);
    }
    if (!k->upstream && size != ioctls[row].size) {
        return accel_refuse(&c, EINVAL, "a struct of %zu bytes: this driver's has %zu", size,
                            ioctls[row].size);
    }
    size = size < ioctls[row].size ? size : ioctls[row].size;
    uint64_t copy[8] = {0};
    _Static_assert(sizeof copy >= sizeof(struct xdna_version), "the largest");
    int result = -accel_fault(dev, c.name);
    if (result == 0 && !accel_user_read(copy, arg, size)) {
        result = accel_refuse(&c, EFAULT, "its struct at 0x%llx cannot be read",
                              (unsigned long long) arg);
    }
    if (result == 0) {
        c.arg = copy;
        result = ioctls[row].handler(&c);
    }
    if (result == 0 && !accel_user_write(arg, copy, size)) {
        result = accel_refuse(&c, EFAULT, "its struct at 0x%llx cannot be written",
                              (unsigned long long) arg);
    }
    accel_trace(dev, "%s: %s -> %s", c.name, c.words, result ? strerrorname_np(-result) : "0");
    return result;
}

bool accel_ioctl(int fd, unsigned long request, void * arg, int * result) {
    if (_IOC_TYPE(request) != XDNA_IOCTL_TYPE) {
        return false;
    }
    struct accel_device * dev = accel_device();
    pthread_mutex_lock(&dev->lock);
    struct accel_file * f = accel_file_of(dev, fd);
    if (f) {
        f->users++;
        *result = call(dev, f, request, (uint64_t) (uintptr_t) arg);
        file_leave(dev, f);
        accel_report(dev);
    }
    pthread_mutex_unlock(&dev->lock);
    return f != NULL;
}

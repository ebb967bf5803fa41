// report: what the driver tells people. Reasons of refusals and failures go to stderr as they
// happen, for the kernel's driver tells its caller a number at most; each call goes to the trace;
// and one line of counts is the report. The report's file is kept up to date all the time, so that
// a program that ends in an assert leaves it as well.
#include "accel.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void accel_say(struct accel_device * dev, const char * fmt, ...) {
    char text[700];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!dev->settings.quiet) {
        fprintf(stderr, "accel-emu: %s\n", text);
    }
    accel_trace(dev, "! %s", text);
}

void accel_words(struct accel_call * c, const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->words, sizeof c->words, fmt, args);
    va_end(args);
}

int accel_refuse(struct accel_call * c, int error, const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->words, sizeof c->words, fmt, args);
    va_end(args);
    c->dev->counts.refused++;
    accel_say(c->dev, "%s: %s: %s", c->name, strerrorname_np(error), c->words);
    return -error;
}

void accel_trace(struct accel_device * dev, const char * fmt, ...) {
    if (!dev->trace) {
        return;
    }
    va_list args;
    va_start(args, fmt);
    fprintf(dev->trace, "%d ", (int) gettid());
    vfprintf(dev->trace, fmt, args);
    fputc('\n', dev->trace);
    fflush(dev->trace);
    va_end(args);
}

// ---- the line of counts ----

static void left(const struct accel_device * dev, uint64_t * buffers, uint64_t * contexts,
                 uint64_t * files) {
    *buffers = dev->counts.left_buffers;
    *contexts = dev->counts.left_contexts;
    *files = 0;
    for (const struct accel_file * f = dev->files; f; f = f->next) {
        ++*files;
        for (uint32_t h = 1; h < f->max_handles; h++) {
            *buffers += f->handles[h] != NULL;
        }
        for (const struct accel_context * x = f->contexts; x; x = x->next) {
            ++*contexts;
        }
    }
}

static int line(const struct accel_device * dev, char * text, size_t size) {
    const struct accel_counts * n = &dev->counts;
    uint64_t buffers, contexts, files;
    left(dev, &buffers, &contexts, &files);
    return snprintf(text, size,
                    "device=%s execs=%" PRIu64 " commands=%" PRIu64 " contexts=%" PRIu64
                    " buffers=%" PRIu64 " longest_chain=%" PRIu64 " chain_bytes=%" PRIu64
                    " heap_bytes=%" PRIu64 " worst_ms=%.3f failed=%" PRIu64 " timeouts=%" PRIu64
                    " refused=%" PRIu64 " faults=%" PRIu64 " left_buffers=%" PRIu64
                    " left_contexts=%" PRIu64 " left_files=%" PRIu64 "\n",
                    dev->settings.model->name, n->execs, n->commands, n->contexts, n->buffers,
                    n->longest_chain, n->most_chain_bytes, n->most_heap_bytes, n->worst_ms,
                    n->failed, n->timeouts, n->refused, n->faults, buffers, contexts, files);
}

void accel_report(struct accel_device * dev) {
    if (!dev->opened || !*dev->settings.report || dev->pid != getpid()) {
        return;
    }
    char text[600];
    int n = line(dev, text, sizeof text);
    int fd = accel_libc()->open(dev->settings.report, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || pwrite(fd, text, (size_t) n, 0) != n || ftruncate(fd, n) != 0) {
        accel_say(dev, "ACCEL_EMU_REPORT=%s: %s", dev->settings.report, strerror(errno));
        *dev->settings.report = '\0';
    }
    if (fd >= 0) {
        accel_libc()->close(fd);
    }
}

__attribute__((destructor)) static void at_exit(void) {
    struct accel_device * dev = accel_device();
    if (!dev->opened || dev->pid != getpid()) {
        return;
    }
    // A job may still run in its thread, and may hold the lock for long if the program is wild.
    const struct timespec soon = {.tv_sec = time(NULL) + 2};
    if (pthread_mutex_timedlock(&dev->lock, &soon) != 0) {
        return;
    }
    char text[600];
    if (*dev->settings.report) {
        accel_report(dev);
    } else if (!dev->settings.quiet) {
        line(dev, text, sizeof text);
        fprintf(stderr, "accel-emu: %s", text);
    }
    pthread_mutex_unlock(&dev->lock);
}

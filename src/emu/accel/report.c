// report: what the driver says to people. Reasons of refusals and failures go to stderr as they
// happen, for the kernel's driver gives its caller a number at most; each call goes to the trace;
// and one line of counts is the report. The report's file is kept up to date all the time, so that
// a program that ends in an assert leaves it as well.
#include "accel.h"

#include "base/out.h"
#include "base/plain.h"

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
    plain_make(text, false);
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

// "device=npu1 execs=1 ...": a word and a number each, for people and for tests.
static int line(const struct accel_device * dev, char * text, size_t size) {
    const struct accel_counts * n = &dev->counts;
    uint64_t files = 0;
    for (const struct accel_file * f = dev->files; f; f = f->next) {
        files++;
    }
    const struct {
        const char * name;
        uint64_t value;
    } rows[] = {
        {"execs", n->execs},
        {"commands", n->commands},
        {"contexts", n->contexts},
        {"buffers", n->buffers},
        {"longest_chain", n->longest_chain},
        {"chain_bytes", n->most_chain_bytes},
        {"heap_bytes", n->most_heap_bytes},
        {"failed", n->failed},
        {"timeouts", n->timeouts},
        {"refused", n->refused},
        {"faults", n->faults},
        {"cleared", n->cleared},
        {"flushed_bytes", accel_caches_flushed(dev)},
        {"left_buffers", n->left_buffers + n->live_buffers},
        {"left_contexts", n->left_contexts + accel_context_count(dev)},
        {"left_files", files},
        {"left_syncobjs", n->live_syncobjs},
        {"kept_bytes", n->kept_bytes},
    };
    int at =
        snprintf(text, size, "device=%s worst_ms=%.3f", dev->settings.model->name, n->worst_ms);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        at += snprintf(text + at, size - (size_t) at, " %s=%" PRIu64, rows[i].name, rows[i].value);
    }
    return at + snprintf(text + at, size - (size_t) at, "\n");
}

void accel_report(struct accel_device * dev) {
    if (!dev->opened || !*dev->settings.report || dev->pid != getpid()) {
        return;
    }
    char text[900];
    int n = line(dev, text, sizeof text), fd;
    struct error err;
    if (out_open(dev->settings.report, O_WRONLY, &fd, &err) != ST_OK) {
        accel_say(dev, "ACCEL_EMU_REPORT=%s", err.text);
        *dev->settings.report = '\0';
        return;
    }
    if (pwrite(fd, text, (size_t) n, 0) != n || ftruncate(fd, n) != 0) {
        accel_say(dev, "ACCEL_EMU_REPORT=%s: %s", dev->settings.report, strerror(errno));
        *dev->settings.report = '\0';
    }
    accel_libc()->close(fd);
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
    char text[900];
    if (*dev->settings.report) {
        accel_report(dev);
    } else if (!dev->settings.quiet) {
        line(dev, text, sizeof text);
        fprintf(stderr, "accel-emu: %s", text);
    }
    pthread_mutex_unlock(&dev->lock);
}

// compile: one run of a compiler. Its files are in a workplace, it is called without a shell, it
// has a time limit, and nothing of it stays.
#include "hip-impl.h"

#include "base/dir.h"
#include "base/process.h"
#include "base/quiet.h"
#include "base/workplace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The largest source here takes seconds with hipcc; a machine that swaps takes minutes.
#define TIME_LIMIT_S 300
// The end of what it prints: the errors are there.
#define KEEP_OUTPUT 65536

// ---- the source ----

static enum status write_source(const struct workplace * w, const char * name, const char * text,
                                struct error * err) {
    int fd = openat(w->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    size_t size = strlen(text), n = 0;
    struct quiet quiet; // a limit on the size of files is no reason to end the host program
    quiet_begin(&quiet);
    while (fd >= 0 && n < size) {
        ssize_t put = write(fd, text + n, size - n);
        if (put < 0 && errno != EINTR) {
            break;
        }
        n += put > 0 ? (size_t) put : 0;
    }
    quiet_end(&quiet);
    int e = errno;
    if (fd >= 0 && close(fd) != 0 && n == size) {
        e = errno;
        n = 0;
    }
    return fd >= 0 && n == size
               ? ST_OK
               : error_set(err, ST_IO, "%.200s/%.80s: %s", w->path, name, strerror(e));
}

// ---- running ----

// Words that are separated by one space each; they are cut in place.
static void split(char * text, char ** argv, int * n, int max) {
    for (char * word = strtok_r(text, " ", &text); word && *n < max;
         word = strtok_r(NULL, " ", &text)) {
        argv[(*n)++] = word;
    }
}

// A message is about a file of the user's, not about where a copy of it lay for a moment.
static void forget_path(struct buf * log, const char * path) {
    size_t n = strlen(path);
    for (char * p = (char *) log->data; p && (p = strstr(p, path));) {
        size_t cut = n + (p[n] == '/');
        size_t rest = log->size - (size_t) (p - (char *) log->data) - cut;
        memmove(p, p + cut, rest + 1);
        log->size -= cut;
    }
}

static enum status judge(const struct hip_compiler * c, const struct process_end * end,
                         const char * arch, struct error * err) {
    if (end->timed_out) {
        return error_set(err, ST_IO, "%s: not done after %d seconds", c->path, TIME_LIMIT_S);
    }
    if (!end->known) {
        return error_set(err, ST_IO,
                         "%s: its exit status was taken by another part of this program", c->path);
    }
    if (end->signal) {
        return error_set(err, ST_IO, "%s: ended by signal %d", c->path, end->signal);
    }
    if (end->exit_status) {
        static const char * const ignorant[] = {
            "invalid target ID", "unsupported HIP gpu architecture", "unknown target CPU",
            "unsupported CUDA gpu architecture"};
        const char * text = end->output.data ? (const char *) end->output.data : "";
        for (size_t i = 0; i < sizeof ignorant / sizeof ignorant[0]; i++) {
            if (strstr(text, ignorant[i])) {
                return error_set(err, ST_UNSUPPORTED, "%s does not know %s", c->path, arch);
            }
        }
        if (strstr(text, "cannot find ROCm device library")) {
            return error_set(err, ST_UNSUPPORTED,
                             "%s does not know %s, or lacks its device libraries: install "
                             "rocm-device-libs, or clang-19 and lld-19, which need none",
                             c->path, arch);
        }
        if (strstr(text, "Executable \"lld\" doesn't exist")) {
            return error_set(err, ST_UNSUPPORTED,
                             "%s has no linker: install lld of its version, such as lld-19",
                             c->path);
        }
        // HIP's headers are not there, or of a HIP that this compiler does not go with.
        if (c->kind == HIP_CLANG &&
            (strstr(text, "hip_runtime.h") || strstr(text, "hip/amd_detail/"))) {
            return error_set(err, ST_INVALID,
                             "the source includes headers of HIP, but %s is called without HIP, as "
                             "no hipcc that knows %s was found or asked for. Install one, or write "
                             "the source for clang alone: __attribute__((global)) and "
                             "__builtin_amdgcn_workitem_id_x() need no header",
                             c->path, arch);
        }
        return error_set(err, ST_INVALID, "%s gave up with status %d", c->path, end->exit_status);
    }
    return ST_OK;
}

static enum status take_output(const struct workplace * w, const struct hip_compiler * c,
                               const char * arch, uint8_t ** data, size_t * size,
                               struct error * err) {
    // A user whose umask lets others write does not mean this file. By its descriptor, because a
    // name may be a link to somebody else's; a link, a pipe or nothing is told below.
    int out = openat(w->dir, "out", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat info;
    if (out >= 0 && fstat(out, &info) == 0 && S_ISREG(info.st_mode) && fchmod(out, 0600) != 0) {
        int e = errno;
        close(out);
        return error_set(err, ST_IO, "what %s made: its mode cannot be changed: %s", c->path,
                         strerror(e));
    }
    if (out >= 0) {
        close(out);
    }
    uint8_t * bytes;
    size_t n, at, length;
    enum status st = dir_read(w->dir, "out", HIP_MAX_CODE, &bytes, &n, err);
    if (st != ST_OK) {
        return error_prefix(err, st == ST_NOT_FOUND ? ST_CORRUPT : st, "%s said all is well, but",
                            c->path);
    }
    st = hip_find_code(bytes, n, arch, &at, &length, err);
    if (st != ST_OK) {
        free(bytes);
        return error_prefix(err, ST_CORRUPT, "%s made", c->path);
    }
    memmove(bytes, bytes + at, length);
    *data = bytes;
    *size = length;
    return ST_OK;
}

static enum status run_compiler(const struct workplace * w, const struct hip_compiler * c,
                                const struct hip_job * job, const char * source, uint8_t ** data,
                                size_t * size, struct buf * log, struct error * err) {
    struct buf flags = {0}, in = {0}, out = {0};
    hip_compiler_flags(c->kind, job->arch, &flags);
    buf_printf(&in, "%s/%s", w->path, source);
    buf_printf(&out, "%s/out", w->path);
    enum status st = ST_OK;
    if (flags.failed || in.failed || out.failed) {
        st = error_set(err, ST_NO_MEMORY, "no memory for a command line");
    } else {
        char * argv[32] = {c->path};
        int n = 1;
        split((char *) flags.data, argv, &n, 24);
        argv[n++] = (char[]){"-o"};
        argv[n++] = (char *) out.data;
        argv[n++] = (char *) in.data;
        struct process p = {.argv = argv,
                            .place = w, // hipcc leaves a directory there
                            .time_limit_s = TIME_LIMIT_S,
                            .capture = true,
                            .keep = KEEP_OUTPUT};
        struct process_end end;
        unlinkat(w->dir, "out", 0);
        st = process_run(&p, &end, err);
        if (st == ST_OK) {
            st = judge(c, &end, job->arch, err);
        }
        buf_free(log);
        *log = end.output;
        forget_path(log, w->path);
        if (st == ST_OK) {
            st = take_output(w, c, job->arch, data, size, err);
        }
    }
    buf_free(&flags);
    buf_free(&in);
    buf_free(&out);
    return st;
}

enum status hip_compile(const struct hip_compilers * compilers, const struct hip_job * job,
                        const struct hip_compiler ** by, uint8_t ** data, size_t * size,
                        struct buf * log, uint64_t * runs, struct error * err) {
    struct workplace w;
    char source[HIP_NAME_MAX + 8];
    snprintf(source, sizeof source, "%s.hip", job->name);
    enum status st = workplace_make("rocm-kernels", &w, err);
    if (st != ST_OK) {
        return st;
    }
    st = write_source(&w, source, job->source, err);
    for (int i = 0; st == ST_OK && i < compilers->n; i++) {
        *by = &compilers->list[i];
        ++*runs;
        st = run_compiler(&w, *by, job, source, data, size, log, err);
        if (st == ST_UNSUPPORTED && i + 1 < compilers->n) {
            st = ST_OK; // the next one may know it
        } else {
            break;
        }
    }
    workplace_remove(&w);
    return st == ST_OK ? st : error_prefix(err, st, "%s for %s", job->name, job->arch);
}

// process: see process.h. The child between fork and exec calls only what is safe there while other
// threads of the parent hold locks; everything it needs is prepared before. Its group is killed
// while its zombie still holds the number, so that never a stranger is hit.
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#    include <sys/prctl.h>
#endif

extern char ** environ;

// ---- finding ----

static bool is_program(const char * path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

char * process_find(const char * name) {
    if (!*name) {
        return NULL;
    }
    if (strchr(name, '/')) {
        return is_program(name) ? strdup(name) : NULL;
    }
    const char * path = getenv("PATH");
    for (const char * p = path && *path ? path : "/usr/local/bin:/usr/bin:/bin";;) {
        size_t n = strcspn(p, ":");
        struct buf file = {0};
        // An empty part would mean the working directory: nobody who wants that today says it so.
        if (n) {
            buf_printf(&file, "%.*s/%s", (int) n, p, name);
        }
        if (file.size && !file.failed && is_program((char *) file.data)) {
            return (char *) file.data;
        }
        buf_free(&file);
        if (!p[n]) {
            return NULL;
        }
        p += n + 1;
    }
}

// ---- the environment ----

#define TMPDIR "TMPDIR="

// Ours, with another TMPDIR, which is put into `entry`.
static char ** environment(const char * tmpdir, struct buf * entry) {
    size_t n = 0, kept = 0;
    while (environ[n]) {
        n++;
    }
    char ** env = malloc((n + 2) * sizeof *env);
    buf_printf(entry, TMPDIR "%s", tmpdir);
    if (!env || entry->failed) {
        free(env);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (strncmp(environ[i], TMPDIR, strlen(TMPDIR)) != 0) {
            env[kept++] = environ[i];
        }
    }
    env[kept++] = (char *) entry->data;
    env[kept] = NULL;
    return env;
}

// ---- the child ----

struct launch {
    const char * path;
    char * const * argv;
    char * const * env;
    pid_t parent;
    int input;  // of /dev/null
    int output; // write end of the pipe, or -1
    int report; // an errno goes here when exec fails; exec closes it
    int max_files;
};

static void close_above(int first, int max_files) {
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned) first, UINT_MAX, 0u) == 0) {
        return;
    }
#endif
    for (int fd = first; fd < max_files; fd++) {
        close(fd);
    }
}

// Moves a descriptor to one of ours without stepping on another one that is still needed.
static int lift(int fd, int least) {
    return fd < 0 || fd >= least ? fd : fcntl(fd, F_DUPFD_CLOEXEC, least);
}

static _Noreturn void child(const struct launch * l) {
    enum { REPORT = 3, FREE = 4 };
    int failed = 0;
    setpgid(0, 0);
#ifdef __linux__
    // Without a caller nobody is left to use the result, or to enforce the limit.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != l->parent) {
        _exit(127);
    }
#endif
    int input = lift(l->input, FREE), output = lift(l->output, FREE);
    int report = lift(l->report, FREE);
    if (dup2(input, STDIN_FILENO) < 0 ||
        (l->output >= 0 && (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0)) ||
        dup2(report, REPORT) < 0 || fcntl(REPORT, F_SETFD, FD_CLOEXEC) < 0) {
        failed = errno;
    }
    close_above(FREE, l->max_files);
    for (int s = 1; s < NSIG; s++) {
        signal(s, SIG_DFL); // KILL, STOP and libc's own refuse, and are right already
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!failed) {
        execve(l->path, l->argv, l->env);
        failed = errno;
    }
    ssize_t ignored = write(REPORT, &failed, sizeof failed);
    (void) ignored;
    _exit(127);
}

// The child's number, or -1 with errno. Returns when the child runs its program or has failed to.
static pid_t start(struct launch * l) {
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0) {
        return -1;
    }
    l->report = report[1];
    l->parent = getpid();
    struct rlimit files;
    l->max_files = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < 65536
                       ? (int) files.rlim_cur
                       : 65536;
    // A handler of the host program must not run in the child.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        child(l);
    }
    int failed = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(report[1]);
    if (pid > 0) {
        ssize_t n;
        do {
            n = read(report[0], &failed, sizeof failed);
        } while (n < 0 && errno == EINTR);
        if (n == (ssize_t) sizeof failed) {
            while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
            }
            pid = -1;
        }
    }
    close(report[0]);
    errno = failed;
    return pid;
}

// ---- the parent ----

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// Keeps the end of all that was printed: up to twice `keep` bytes, so that moving is rare.
static void keep_output(const struct process * p, struct process_end * end, const char * data,
                        size_t n) {
    end->printed += n;
    if (p->show) {
        for (size_t done = 0; done < n;) {
            ssize_t w = write(STDERR_FILENO, data + done, n - done);
            if (w < 0 && errno != EINTR) {
                break; // nobody reads: the work goes on
            }
            done += w > 0 ? (size_t) w : 0;
        }
    }
    struct buf * out = &end->output;
    if (n > p->keep) {
        data += n - p->keep;
        n = p->keep;
    }
    if (out->size + n > 2 * p->keep) {
        size_t old = p->keep - n;
        memmove(out->data, out->data + out->size - old, old);
        out->size = old;
    }
    buf_append(out, data, n);
}

// Reads what is there; false at its end.
static bool drain(const struct process * p, struct process_end * end, int fd) {
    char data[16384];
    for (int rounds = 0; rounds < 64; rounds++) { // the clock must be looked at now and then
        ssize_t n = read(fd, data, sizeof data);
        if (n > 0) {
            keep_output(p, end, data, (size_t) n);
        } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
            return false;
        } else if (errno == EAGAIN) {
            return true;
        }
    }
    return true;
}

enum alive { RUNNING, ENDED, LOST };

static enum alive look(pid_t pid) {
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t) pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
        return errno == EINTR ? RUNNING : LOST; // the host program ignores or takes its children
    }
    return info.si_pid == pid ? ENDED : RUNNING;
}

// Waits for the end of the program, its output or its time, whichever makes us go on.
static void watch(const struct process * p, struct process_end * end, pid_t pid, int fd) {
    int64_t deadline = p->time_limit_s ? now_ms() + (int64_t) p->time_limit_s * 1000 : INT64_MAX;
    enum alive alive = RUNNING;
    int tick = 1; // output wakes us at once, an end without it soon enough
    while ((alive = look(pid)) == RUNNING) {
        int64_t left = deadline - now_ms();
        if (left <= 0) {
            end->timed_out = true;
            break;
        }
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        int n = poll(&poll_fd, fd >= 0 ? 1 : 0, (int) (left < tick ? left : tick));
        if (n > 0 && !drain(p, end, fd)) {
            fd = -1;
        }
        tick = n > 0 ? 1 : tick < 32 ? 2 * tick : 50;
    }
    if (fd >= 0) {
        drain(p, end, fd);
    }
    if (alive == LOST) {
        return;
    }
    kill(-pid, SIGKILL);
    int status;
    pid_t got;
    while ((got = waitpid(pid, &status, 0)) < 0 && errno == EINTR) {
    }
    end->known = got == pid;
    if (end->known && WIFSIGNALED(status)) {
        end->signal = WTERMSIG(status);
    } else if (end->known) {
        end->exit_status = WEXITSTATUS(status);
    }
}

enum status process_run(const struct process * p, struct process_end * end, struct error * err) {
    *end = (struct process_end){0};
    char * path = process_find(p->argv[0]);
    if (!path) {
        return error_set(err, ST_NOT_FOUND, "%s: no such program, or it is not executable",
                         p->argv[0]);
    }
    struct buf tmpdir = {0};
    char ** env = p->tmpdir ? environment(p->tmpdir, &tmpdir) : NULL;
    if (p->tmpdir && !env) {
        buf_free(&tmpdir);
        free(path);
        return error_set(err, ST_NO_MEMORY, "no memory for the environment of %s", p->argv[0]);
    }
    int output[2] = {-1, -1}, input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    enum status st = ST_OK;
    pid_t pid = -1;
    if (input >= 0 && (!p->capture || pipe2(output, O_CLOEXEC) == 0)) {
        struct launch l = {.path = path,
                           .argv = p->argv,
                           .env = env ? env : environ,
                           .input = input,
                           .output = output[1]};
        pid = start(&l);
    }
    if (pid < 0) {
        int e = errno;
        st =
            error_set(err, e == ENOENT || e == ENOEXEC ? ST_NOT_FOUND : ST_IO, "%s: %s", path,
                      e == ENOENT ? "no such program, or its interpreter is missing" : strerror(e));
    }
    if (input >= 0) {
        close(input);
    }
    if (output[1] >= 0) {
        close(output[1]);
    }
    if (pid > 0) {
        if (output[0] >= 0) {
            fcntl(output[0], F_SETFL, O_NONBLOCK);
        }
        watch(p, end, pid, output[0]);
        struct buf * out = &end->output;
        if (out->size > p->keep) {
            memmove(out->data, out->data + out->size - p->keep, p->keep);
            out->size = p->keep;
            out->data[out->size] = 0;
        }
    }
    if (output[0] >= 0) {
        close(output[0]);
    }
    buf_free(&tmpdir);
    free(env);
    free(path);
    return st;
}

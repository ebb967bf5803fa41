// process: see process.h. The child between fork and exec calls only what is safe there while other
// threads of the parent hold locks; everything it needs is prepared before. Nobody is killed by a
// number that a stranger may have by now: the keeper ends its own children, and we end the keeper's
// work by closing a pipe.
#include "process.h"

#include "keeper.h"
#include "quiet.h"

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
    const char * path = secure_getenv("PATH");
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
    int input;  // of /dev/null
    int output; // write end of the pipe, or -1
    int report; // an errno goes here when exec fails; exec closes it
};

void process_close_from(int first) {
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned) first, UINT_MAX, 0u) == 0) {
        return;
    }
#endif
    struct rlimit files;
    int most = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < 65536
                   ? (int) files.rlim_cur
                   : 65536;
    for (int fd = first; fd < most; fd++) {
        close(fd);
    }
}

// Moves a descriptor to one of ours without stepping on another one that is still needed.
static int lift(int fd, int least) {
    return fd < 0 || fd >= least ? fd : fcntl(fd, F_DUPFD_CLOEXEC, least);
}

static void child(void * user, pid_t keeper) {
    const struct launch * l = user;
    enum { REPORT = 3, FREE = 4 };
    int failed = 0;
    setpgid(0, 0);
#ifdef __linux__
    // The keeper ends us; whoever ends the keeper ends us too.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) {
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
    process_close_from(FREE);
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

struct running {
    pid_t keeper;
    int lifeline; // closing it ends the program
    int told;     // its wait status comes here when it has ended and all its children with it
};

// 0, or -1 with errno. Returns when the program runs or has failed to.
static int start(struct launch * l, const struct workplace * place, struct running * out) {
    int report[2] = {-1, -1}, lifeline[2] = {-1, -1}, told[2] = {-1, -1}, failed = 0;
    if (pipe2(report, O_CLOEXEC) != 0 || pipe2(lifeline, O_CLOEXEC) != 0 ||
        pipe2(told, O_CLOEXEC) != 0) {
        failed = errno;
    }
    l->report = report[1];
    const struct keeper k = {.lifeline = lifeline[0],
                             .told = told[1],
                             .report = report[1],
                             .place = place ? place->dir : -1,
                             .path = place ? place->path : NULL,
                             .caller = getpid()};
    // A handler of the host program must not run in the child.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = failed ? -1 : fork();
    if (pid == 0) {
        close(lifeline[1]); // the program must not hold its own lifeline
        keeper_run(&k, child, l);
    }
    failed = pid < 0 && !failed ? errno : failed;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    int theirs[] = {report[1], lifeline[0], told[1]};
    for (int i = 0; i < 3; i++) {
        if (theirs[i] >= 0) {
            close(theirs[i]);
        }
    }
    if (pid > 0) {
        ssize_t n;
        do {
            n = read(report[0], &failed, sizeof failed);
        } while (n < 0 && errno == EINTR);
        if (n != (ssize_t) sizeof failed) {
            failed = 0;
        }
    }
    if (report[0] >= 0) {
        close(report[0]);
    }
    *out = (struct running){pid, lifeline[1], told[0]};
    errno = failed;
    return failed ? -1 : 0;
}

// Takes the keeper in. Where the host program collects every child itself it is gone already.
static void finish(struct running * r) {
    if (r->lifeline >= 0) {
        close(r->lifeline);
    }
    while (r->keeper > 0 && waitpid(r->keeper, NULL, 0) < 0 && errno == EINTR) {
    }
    if (r->told >= 0) {
        close(r->told);
    }
}

// ---- the parent ----

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// Passes output on to standard error. False when nobody reads there, or not for a second: the work
// must not wait for a pipe that is never emptied.
static bool pass_on(const char * data, size_t n) {
    enum { PART = 4096, PATIENCE_MS = 1000 }; // a pipe that polls as writable takes a part at once
    struct quiet quiet;
    quiet_begin(&quiet);
    size_t done = 0;
    while (done < n) {
        struct pollfd to = {.fd = STDERR_FILENO, .events = POLLOUT};
        int ready = poll(&to, 1, PATIENCE_MS);
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        size_t part = n - done < PART ? n - done : PART;
        ssize_t w = ready > 0 ? write(STDERR_FILENO, data + done, part) : -1;
        if (w < 0 && (ready <= 0 || errno != EINTR)) {
            break;
        }
        done += w > 0 ? (size_t) w : 0;
    }
    quiet_end(&quiet);
    return done == n;
}

// Keeps the end of all that was printed: up to twice `keep` bytes, so that moving is rare.
static void keep_output(const struct process * p, struct process_end * end, const char * data,
                        size_t n) {
    end->printed += n;
    if (p->show && !end->unheard) {
        end->unheard = !pass_on(data, n);
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

// The program's status, once all is over: 1 when it is there, 0 when not yet, -1 when it will not
// come because somebody ended the keeper.
static int ask(int told, int * status) {
    struct pollfd p = {.fd = told, .events = POLLIN};
    if (poll(&p, 1, 0) <= 0) {
        return 0;
    }
    ssize_t n = read(told, status, sizeof *status);
    return n == (ssize_t) sizeof *status ? 1 : n < 0 && errno == EINTR ? 0 : -1;
}

// Waits for the end of the program, its output or its time, whichever makes us go on.
static void watch(const struct process * p, struct process_end * end, struct running * r, int fd) {
    int64_t deadline = p->time_limit_s ? now_ms() + (int64_t) p->time_limit_s * 1000 : INT64_MAX;
    int status = 0, answer;
    while ((answer = ask(r->told, &status)) == 0) {
        int64_t left = end->timed_out ? 1000 : deadline - now_ms();
        if (left <= 0) {
            end->timed_out = true;
            close(r->lifeline); // and wait for the end of all of them
            r->lifeline = -1;
            continue;
        }
        struct pollfd fds[2] = {{.fd = r->told, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
        poll(fds, 2, (int) (left < 1000 ? left : 1000));
        if (fds[1].revents && !drain(p, end, fd)) {
            fd = -1; // poll passes over it
        }
    }
    if (fd >= 0) {
        drain(p, end, fd);
    }
    end->known = answer == 1;
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
    const char * own_tmpdir = p->place ? p->place->path : p->tmpdir;
    char ** env = own_tmpdir ? environment(own_tmpdir, &tmpdir) : NULL;
    if (own_tmpdir && !env) {
        buf_free(&tmpdir);
        free(path);
        return error_set(err, ST_NO_MEMORY, "no memory for the environment of %s", p->argv[0]);
    }
    int output[2] = {-1, -1}, input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    enum status st = ST_OK;
    struct running running = {-1, -1, -1};
    bool runs = false;
    if (input >= 0 && (!p->capture || pipe2(output, O_CLOEXEC) == 0)) {
        struct launch l = {.path = path,
                           .argv = p->argv,
                           .env = env ? env : environ,
                           .input = input,
                           .output = output[1]};
        runs = start(&l, p->place, &running) == 0;
    }
    if (!runs) {
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
    if (runs) {
        if (output[0] >= 0) {
            fcntl(output[0], F_SETFL, O_NONBLOCK);
        }
        watch(p, end, &running, output[0]);
        struct buf * out = &end->output;
        if (out->size > p->keep) {
            memmove(out->data, out->data + out->size - p->keep, p->keep);
            out->size = p->keep;
            out->data[out->size] = 0;
        }
    }
    finish(&running);
    if (output[0] >= 0) {
        close(output[0]);
    }
    buf_free(&tmpdir);
    free(env);
    free(path);
    return st;
}

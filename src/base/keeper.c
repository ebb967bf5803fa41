// keeper: see keeper.h.
#include "keeper.h"

#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#    include <sys/prctl.h>
#endif

// A program that forks faster than it can be ended is left to the system after this many rounds.
enum { MAX_ROUNDS = 2000, PAUSE_NS = 1000000 };

static void woken(int signal_number) {
    (void) signal_number; // poll returns
}

// ---- ending what is below us ----

// Kills the direct children. The list may be missing (the kernel can be built without); then the
// program's group has to do.
static void kill_children(pid_t program) {
    if (program > 0) {
        kill(-program, SIGKILL);
    }
#ifdef __linux__
    // The keeper has one thread, and "self" means its process.
    char path[] = "/proc/thread-self/children";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[4096];
    pid_t pid = 0;
    for (ssize_t n; fd >= 0 && (n = read(fd, text, sizeof text)) > 0;) {
        for (ssize_t i = 0; i < n; i++) { // numbers, each with a blank behind it
            if (text[i] >= '0' && text[i] <= '9') {
                pid = 10 * pid + (text[i] - '0');
            } else if (pid > 0) {
                kill(pid, SIGKILL);
                pid = 0;
            }
        }
    }
    if (fd >= 0) {
        close(fd);
    }
#endif
}

// Takes in all that has ended; false when nobody is left. The program's status goes to *status.
static bool reap(pid_t * program, int * status) {
    for (;;) {
        int s;
        pid_t pid = waitpid(-1, &s, WNOHANG);
        if (pid > 0 && pid == *program) {
            *program = -1;
            *status = s;
        } else if (pid == 0) {
            return true;
        } else if (pid < 0 && errno != EINTR) {
            return false;
        }
    }
}

// Children of what was killed become ours and are killed in the next round.
static void end_all(pid_t * program, int * status) {
    kill_children(*program);
    for (int round = 0; round < MAX_ROUNDS && reap(program, status); round++) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        kill_children(*program);
    }
}

// ---- the keeper ----

static void close_all_but(const int * kept, int n) {
    int highest = -1;
    for (int i = 0; i < n; i++) {
        highest = kept[i] > highest ? kept[i] : highest;
    }
    for (int fd = 0; fd <= highest; fd++) {
        bool keep = false;
        for (int i = 0; i < n; i++) {
            keep |= fd == kept[i];
        }
        if (!keep) {
            close(fd);
        }
    }
    process_close_from(highest + 1);
}

_Noreturn void keeper_run(const struct keeper * k, keeper_program program_fn, void * user) {
    setpgid(0, 0); // an interrupt at the terminal is for the caller
    struct sigaction wake = {.sa_handler = woken};
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (int s = 1; s < NSIG; s++) {
        signal(s, SIG_DFL);
    }
    sigaction(SIGCHLD, &wake, NULL);
    sigaction(SIGTERM, &wake, NULL);
#ifdef __linux__
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM); // the lifeline may have been inherited by others
#endif
    int status = 0;
    pid_t self = getpid(), program = fork();
    if (program == 0) {
        program_fn(user, self);
        _exit(127);
    }
    bool started = program > 0;
    if (!started) {
        int why = errno;
        ssize_t ignored = write(k->report, &why, sizeof why);
        (void) ignored;
    }
    // Nothing of ours may keep the caller's pipes open: it waits for their ends.
    int kept[] = {k->lifeline, k->told, k->place};
    close_all_but(kept, sizeof kept / sizeof kept[0]);
    bool cut = getppid() != k->caller;
    while (started && program > 0 && !cut) {
        struct pollfd line = {.fd = k->lifeline, .events = POLLIN};
        int n = ppoll(&line, 1, NULL, &none);
        // Nobody writes into the lifeline: it can only end.
        cut = n > 0 || getppid() != k->caller;
        // It stays a zombie until its group is killed: so long nobody else has its number.
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t) program, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) {
            break;
        }
    }
    end_all(&program, &status);
    if (k->place >= 0 && getppid() != k->caller) {
        workplace_empty(k->place);
        rmdir(k->path);
    }
    if (started) {
        ssize_t ignored = write(k->told, &status, sizeof status);
        (void) ignored;
    }
    _exit(0);
}

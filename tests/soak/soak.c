// soak [seconds] [seed], soak graph NUMBER: see soak.h. Ends by itself, and with status 1 when a
// result was wrong, a graph failed, a process crashed or hung, or memory or descriptors of a
// process grew. The seed is printed: the graphs are the same with it, what meets what is not.
#include "soak.h"

#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    RECORDED = 40, // graphs of each thread whose kernels become the pack
    RECORDED_SEED = 1,
    MOST_GROWTH_KIB = 64 << 10,
    MOST_NEW_FDS = 8,
    PATIENCE_S = 300,      // for a graph in flight, at the end
    SMALL_FILE = 12 << 10, // what one process may write into one file, less than a PDI
};

struct soak {
    struct soak_shared * shared;
    struct world world;
    pid_t workers[SOAK_WORKERS];
    uint32_t lives; // of all workers
    unsigned crashed, hung;
    unsigned long killed, cleared, trimmed, damaged, filled, limited, no_memory;
    long growth_kib, growth_fds; // the most of any worker
};

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pause_ms(uint32_t ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long) (ms % 1000) * 1000000},
              NULL);
}

// ---- workers ----

// Files of a worker may have SMALL_FILE bytes. ggml's own lines in a log that is a file would end
// it, as they would end any program of ggml's: such a log goes nowhere.
static void limit_files(void) {
    struct stat log;
    if (fstat(STDERR_FILENO, &log) == 0 && S_ISREG(log.st_mode)) {
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(nowhere, STDERR_FILENO);
        close(nowhere);
    }
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){SMALL_FILE, RLIM_INFINITY});
}

// An attacker's pack has the kernels of the graphs that were recorded.
static void start_worker(struct soak * s, int i) {
    enum soak_kind kind = (enum soak_kind)(s->lives % SOAK_KINDS);
    uint32_t seed = s->world.random + 104729u * s->lives++;
    s->shared->workers[i] = (struct soak_worker){0};
    s->limited += kind == SOAK_SMALL;
    fflush(NULL);
    s->workers[i] = fork();
    if (s->workers[i] == 0) {
        if (kind == SOAK_SMALL) {
            limit_files();
        } else if (kind == SOAK_HOSTILE) {
            setenv("GGML_HSA_KERNEL_DIR", s->world.hostile, 1);
            seed = RECORDED_SEED;
        }
        _exit(graphs_run(s->shared, i, kind, seed, 0));
    }
}

// What it was like at the end of its life.
static void note_growth(struct soak * s, int i) {
    struct soak_worker * w = &s->shared->workers[i];
    s->no_memory += atomic_load(&w->no_memory);
    long kib = w->now_kib - w->first_kib, fds = w->now_fds - w->first_fds;
    s->growth_kib = kib > s->growth_kib ? kib : s->growth_kib;
    s->growth_fds = fds > s->growth_fds ? fds : s->growth_fds;
}

static void note_end(struct soak * s, int i, int status, bool by_us) {
    if (!by_us && (!WIFEXITED(status) || WEXITSTATUS(status))) {
        s->crashed++;
        fprintf(stderr, "soak: a worker ended with %s %d\n",
                WIFSIGNALED(status) ? "signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    note_growth(s, i);
    s->workers[i] = 0;
}

static void look_after(struct soak * s) {
    for (int i = 0; i < SOAK_WORKERS; i++) {
        int status;
        if (s->workers[i] > 0 && waitpid(s->workers[i], &status, WNOHANG) == s->workers[i]) {
            note_end(s, i, status, false); // nobody ends before he is told to
            start_worker(s, i);
        }
    }
}

static bool kill_one(struct soak * s) {
    int i = (int) world_random(&s->world, SOAK_WORKERS), status;
    if (s->workers[i] <= 0 || kill(s->workers[i], SIGKILL) != 0) {
        return false;
    }
    waitpid(s->workers[i], &status, 0);
    note_end(s, i, status, WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    start_worker(s, i);
    return true;
}

static void end_all(struct soak * s) {
    atomic_store(&s->shared->stop, true);
    int64_t until = now_ms() + PATIENCE_S * 1000;
    for (int i = 0; i < SOAK_WORKERS; i++) {
        int status = 0;
        pid_t got = 0;
        while ((got = waitpid(s->workers[i], &status, WNOHANG)) == 0 && now_ms() < until) {
            pause_ms(20);
        }
        if (got == 0) {
            fprintf(stderr, "soak: a worker does not end\n");
            s->hung++;
            kill(s->workers[i], SIGKILL);
            waitpid(s->workers[i], &status, 0);
        }
        note_end(s, i, status, got == 0);
    }
}

// ---- the pack ----

// The kernels that a first run asks for. GPU code, which takes a compiler seconds, is made by it
// too.
static bool make_pack(struct soak * s) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("GGML_HSA_RECORD", s->world.record, 1);
        _exit(graphs_run(s->shared, 0, SOAK_KINDS, RECORDED_SEED, RECORDED));
    }
    int status = 1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        return false;
    }
    char * argv[] = {GEN_KERNELS, "--config", s->world.record, "--output-dir", s->world.pack, NULL};
    struct process p = {.argv = argv, .time_limit_s = 600, .capture = true, .keep = 2000};
    struct process_end end = {0};
    struct error err = {0};
    bool ok = process_run(&p, &end, &err) == ST_OK && end.exit_status == 0 && !end.signal;
    if (!ok) {
        fprintf(stderr, "soak: no pack: %s%s\n", err.text,
                end.output.data ? (char *) end.output.data : "");
    }
    buf_free(&end.output);
    if (ok && world_make_hostile(&s->world) == 0) {
        fprintf(stderr, "soak: no hostile pack\n");
        ok = false;
    }
    setenv("GGML_HSA_KERNEL_DIR", s->world.pack, 1);
    memset(s->shared, 0, sizeof *s->shared);
    return ok;
}

// ---- faults ----

static void one_fault(struct soak * s) {
    struct world * w = &s->world;
    switch (world_random(w, 16)) {
    case 0:
        s->cleared += world_clear(w);
        break;
    case 1:
    case 2:
        s->trimmed += world_trim(w);
        break;
    case 3:
        if (world_fill(w)) {
            s->filled++;
            pause_ms(50 + world_random(w, 300));
        }
        world_empty(w);
        break;
    case 4:
        if (world_random(w, 3) == 0) {
            s->killed += kill_one(s);
        }
        break;
    default:
        s->damaged += world_damage(w);
        break;
    }
}

static int report(const struct soak * s, int64_t ms, unsigned seed) {
    unsigned long graphs = 0;
    const struct soak_shared * h = s->shared;
    for (int i = 0; i < SOAK_DEVICES; i++) {
        if (h->devices[i][0]) {
            printf("%9lu graphs on %s\n", atomic_load(&h->graphs[i]), h->devices[i]);
            graphs += atomic_load(&h->graphs[i]);
        }
    }
    unsigned long no_memory = s->no_memory, forks = atomic_load(&h->forks),
                  refused = atomic_load(&h->refused);
    unsigned long faults = s->killed + s->cleared + s->trimmed + s->damaged + s->filled +
                           s->limited + no_memory + forks + refused;
    printf("%9lu graphs in %lld s, by %d processes of %d threads; seed %u\n", graphs,
           (long long) ms / 1000, SOAK_WORKERS, SOAK_THREADS, seed);
    printf("%9lu faults: %lu files damaged, %lu times cleared, %lu trimmed, %lu times the disk "
           "full%s, %lu "
           "processes that may write 12 KiB, %lu killed\n",
           faults, s->damaged, s->cleared, s->trimmed, s->filled,
           s->world.can_fill ? "" : " (no file system of our own here)", s->limited, s->killed);
    printf("%9lu of these: %lu allocations that failed, %lu forks, %lu kernels of an attacker that "
           "were refused\n",
           no_memory + forks + refused, no_memory, forks, refused);
    printf("%9lu wrong results%s%s; the others differ by %.3f of the bound at most\n",
           atomic_load(&h->wrong), h->first_wrong[0] ? ", the first: " : "", h->first_wrong,
           (double) atomic_load(&h->worst) * 1e-3);
    printf(
        "%9lu graphs failed, %lu where memory did, %lu left out for want of a kernel, %u crashes, "
        "%u hung, %lu forked ones ended badly\n",
        atomic_load(&h->failed), atomic_load(&h->starved), atomic_load(&h->left_out), s->crashed,
        s->hung, atomic_load(&h->forks_bad));
    printf("%9ld KiB and %ld descriptors were the most that a process grew by\n", s->growth_kib,
           s->growth_fds);
    bool grew = s->growth_fds > MOST_NEW_FDS;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // they keep what was freed
    grew |= s->growth_kib > MOST_GROWTH_KIB;
#endif
    bool spared = !forks || !refused;
#ifndef FAIL_WRAPS // then the plugin's calls cannot be told to fail
    spared |= !no_memory;
#endif
    bool bad = spared || atomic_load(&h->forks_bad) || atomic_load(&h->wrong) ||
               atomic_load(&h->failed) || s->crashed || s->hung || grew || !graphs || !faults;
    printf("soak: %s\n", bad ? "FAILED" : "passed");
    return bad;
}

int main(int argc, char ** argv) {
    static struct soak s;
    if (argc == 3 && !strcmp(argv[1], "graph")) {
        setenv("GGML_HSA_EMULATE", "aie2,aie2p,gfx90a,gfx1100", 0);
        return graphs_show((uint32_t) atol(argv[2]));
    }
    long seconds = argc > 1 ? atol(argv[1]) : 300;
    uint32_t seed = argc > 2 ? (uint32_t) atol(argv[2]) : (uint32_t) time(NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    s.shared =
        mmap(NULL, sizeof *s.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seconds <= 0 || s.shared == MAP_FAILED || !world_make(&s.world, seed)) {
        fprintf(stderr, "soak: %s\n", seconds <= 0 ? "soak [seconds] [seed]" : strerror(errno));
        return 2;
    }
    setenv("GGML_HSA_EMU_ROCR_BUGS", "0", 0);
    setenv("GGML_HSA_EMULATE", "aie2,aie2p,gfx90a,gfx1100", 0);
    int status = 2;
    if (make_pack(&s)) {
        int64_t start = now_ms();
        for (int i = 0; i < SOAK_WORKERS; i++) {
            start_worker(&s, i);
        }
        while (now_ms() - start < 1000 * (int64_t) seconds) {
            pause_ms(10 + world_random(&s.world, 120));
            one_fault(&s);
            look_after(&s);
        }
        end_all(&s);
        status = report(&s, now_ms() - start, seed);
    }
    world_free(&s.world);
    return status;
}

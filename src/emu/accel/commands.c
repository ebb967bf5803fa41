// commands: from EXEC_CMD to the end of a command. As in the kernel, EXEC_CMD only looks at handles
// and puts the command into a queue; whether it can be run, and how it went, shows later, in the
// state word of the command buffer alone. Until the scheduler takes a command from the queue that
// word says what an earlier run left there. Waits succeed for commands that failed; they fail when
// the caller's patience, in modelled time, was shorter than the work.
#include "accel.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// ---- the device's own thread ----

static void job_free(struct accel_device * dev, struct accel_job * job) {
    for (uint32_t i = 0; i < job->n_arguments; i++) {
        accel_bo_put(dev, job->arguments[i]);
    }
    if (job->command) {
        accel_bo_put(dev, job->command);
    }
    free(job->arguments);
    free(job);
}

static void set_word(struct accel_bo * bo, enum xdna_state state) {
    store_u32(bo->bytes, (load_u32(bo->bytes) & ~0xfu) | state);
}

// Newer drivers leave nothing of a command that failed but its header: behind it stand 0xff, or
// what the firmware says of a program that is stuck. Of a chain that is the first command.
static void overwrite(struct accel_device * dev, const struct accel_job * job,
                      const struct accel_outcome * out) {
    struct accel_bo * bo = job->command;
    if (XDNA_COMMAND_OPCODE(load_u32(bo->bytes)) == XDNA_OP_CHAIN) {
        uint32_t first = (uint32_t) load_u64(bo->bytes + 4 + offsetof(struct xdna_chain, handles));
        bo = accel_bo_get(job->context->file, first);
        if (!bo || !accel_is_command(dev, bo)) {
            return;
        }
    }
    memset(bo->bytes + 4, 0xff, bo->size - 4);
    const struct accel_settings * s = &dev->settings;
    if (out->state == XDNA_STATE_TIMEOUT && s->kernel->health && s->model->health) {
        const struct xdna_health health = {.version = 1, .operation = out->operation};
        memcpy(bo->bytes + 4, &health, sizeof health);
    }
}

static void set_state(struct accel_device * dev, struct accel_job * job,
                      const struct accel_outcome * out) {
    uint32_t header = load_u32(job->command->bytes);
    bool failed = out->state != XDNA_STATE_COMPLETED;
    bool dropped = out->state == XDNA_STATE_NEW && dev->settings.kernel->upstream;
    if (XDNA_COMMAND_OPCODE(header) == XDNA_OP_CHAIN && failed && !dropped) {
        store_u32(job->command->bytes + 4 + offsetof(struct xdna_chain, error_index), out->index);
    }
    if (failed && !dropped && dev->settings.kernel->overwrites) {
        overwrite(dev, job, out);
    }
    set_word(job->command, out->state);
}

static void count(struct accel_device * dev, const struct accel_outcome * out) {
    struct accel_counts * n = &dev->counts;
    n->commands += out->commands;
    n->longest_chain = out->commands > n->longest_chain ? out->commands : n->longest_chain;
    n->most_chain_bytes =
        out->chain_bytes > n->most_chain_bytes ? out->chain_bytes : n->most_chain_bytes;
    n->worst_ms = out->ms > n->worst_ms ? out->ms : n->worst_ms;
    n->failed += out->state != XDNA_STATE_COMPLETED;
}

// Without the driver's watchdog a command that is stuck stays so until its context goes.
static void stay_stuck(struct accel_device * dev, struct accel_context * x,
                       struct accel_outcome * out) {
    dev->stuck = true;
    pthread_cond_broadcast(&dev->changed); // who waits looks at the clock now
    while (!x->leaving) {
        pthread_cond_wait(&dev->changed, &dev->lock);
    }
    dev->stuck = false;
    out->state = XDNA_STATE_ABORT;
}

// The code is the status word that the firmware has for it.
static void note_error(struct accel_device * dev, const struct accel_outcome * out) {
    enum { COMMAND_INVALID = 0x4000002, OPERATION_FAILED = 0x4000006 };
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out->state != XDNA_STATE_NEW) {
        *accel_shared_error(dev) = (struct xdna_last_error){
            .code = out->state == XDNA_STATE_ERROR ? COMMAND_INVALID : OPERATION_FAILED,
            .time_us = (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000,
        };
    }
}

// A context whose command is stuck is made anew, and its way to the firmware with it: what else was
// on that way is lost.
static void abort_others(struct accel_device * dev, const struct accel_context * x) {
    for (struct accel_job * j = dev->jobs; j && dev->settings.kernel->upstream; j = j->next) {
        j->aborted |= j->context == x;
    }
}

static void run_job(struct accel_device * dev, struct accel_job * job) {
    struct accel_context * x = job->context;
    struct accel_timeline * t = x->timeline;
    struct accel_outcome out = {.state = XDNA_STATE_NEW};
    set_word(job->command, XDNA_STATE_NEW);
    if (!accel_turn_begin(dev, x) && x->machine) {
        accel_trace(dev, "  context %u: the array held nothing any more", x->id);
        dev->counts.cleared++;
        emu_machine_free(x->machine);
        x->machine = NULL;
    }
    accel_caches_evict(dev);
    x->running = job;
    if (job->aborted) {
        accel_lose(&out, XDNA_STATE_ABORT,
                   "the one before it was stuck, and its context restarted");
    } else {
        accel_firmware_run(dev, job, &out);
    }
    x->running = NULL;
    accel_caches_evict(dev);
    accel_turn_end(dev);
    if (out.state == XDNA_STATE_TIMEOUT) {
        abort_others(dev, x);
    }
    if (out.state == XDNA_STATE_TIMEOUT && !dev->settings.kernel->watchdog) {
        accel_say(dev, "context %u, command %llu: %s; it is stuck, and this kernel has no watchdog",
                  x->id, (unsigned long long) job->seq, out.why);
        stay_stuck(dev, x, &out);
    }
    set_state(dev, job, &out);
    count(dev, &out);
    bool failed = out.state != XDNA_STATE_COMPLETED;
    if (failed) {
        x->errors++;
        note_error(dev, &out);
        accel_say(dev, "context %u, command %llu: %s; the caller is not told", x->id,
                  (unsigned long long) job->seq, out.why);
    } else {
        accel_trace(dev, "  context %u, command %llu: %llu of %llu bytes done in %.3f modelled ms",
                    x->id, (unsigned long long) job->seq, (unsigned long long) out.commands,
                    (unsigned long long) out.chain_bytes, out.ms);
    }
    t->results[job->seq % ACCEL_RESULTS] = (struct accel_result){job->seq, out.ms, failed};
    t->ended++;
    accel_shared_tell(dev, x);
    accel_timeline_tell(t);
    job_free(dev, job);
    accel_report(dev);
    pthread_cond_broadcast(&dev->changed);
}

static uint64_t now_ns(void) {
    struct timespec t;
    accel_libc()->clock_gettime(CLOCK_MONOTONIC, &t); // the machine's, whatever is modelled
    return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

// The kernel's scheduler is another thread too, and comes when it comes.
static void be_late(struct accel_device * dev, const struct accel_job * job) {
    uint64_t at = job->sent_ns + 1000 * dev->settings.late_us, now = now_ns();
    if (now < at) {
        const struct timespec rest = {(time_t) ((at - now) / 1000000000),
                                      (long) ((at - now) % 1000000000)};
        pthread_mutex_unlock(&dev->lock);
        nanosleep(&rest, NULL);
        pthread_mutex_lock(&dev->lock);
    }
}

static void * worker(void * data) {
    struct accel_device * dev = data;
    pthread_mutex_lock(&dev->lock);
    for (;;) { // as long as the process
        struct accel_job * job = dev->jobs;
        if (!job) {
            pthread_cond_wait(&dev->changed, &dev->lock);
            continue;
        }
        dev->jobs = job->next;
        be_late(dev, job);
        run_job(dev, job);
    }
    return NULL;
}

static bool start_worker(struct accel_device * dev) {
    if (dev->has_worker) {
        return true;
    }
    // Signals are the program's business.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    dev->has_worker = pthread_create(&thread, NULL, worker, dev) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (dev->has_worker) {
        pthread_detach(thread);
    }
    return dev->has_worker;
}

// ---- EXEC_CMD ----

static int take_argument(struct accel_call * c, struct accel_job * job, uint32_t handle) {
    struct accel_bo * bo = accel_bo_get(c->file, handle);
    if (!bo) {
        return accel_refuse(c, ENOENT, "there is no buffer %u, of %u that were named", handle,
                            job->n_arguments + 1);
    }
    for (uint32_t i = 0; i < job->n_arguments; i++) {
        if (job->arguments[i] == bo) {
            return accel_refuse(c, EALREADY, "buffer %u was named twice", handle);
        }
    }
    bo->refs++;
    job->arguments[job->n_arguments++] = bo;
    return 0;
}

static int take_arguments(struct accel_call * c, struct accel_job * job,
                          const struct xdna_exec_cmd * a) {
    uint32_t * handles = calloc(a->argument_count + 1, sizeof *handles);
    job->arguments = calloc(a->argument_count + 1, sizeof *job->arguments);
    int result = 0;
    if (!handles || !job->arguments) {
        result = accel_refuse(c, ENOMEM, "no memory for %u buffers", a->argument_count);
    } else if (!accel_user_read(handles, a->arguments, a->argument_count * sizeof *handles)) {
        result = accel_refuse(c, EFAULT, "%u handles at 0x%llx cannot be read", a->argument_count,
                              (unsigned long long) a->arguments);
    }
    for (uint32_t i = 0; i < a->argument_count && result == 0; i++) {
        result = take_argument(c, job, handles[i]);
    }
    free(handles);
    return result;
}

static int check_exec(struct accel_call * c, const struct xdna_exec_cmd * a) {
    if (a->ext || a->ext_flags) {
        return accel_refuse(c, EINVAL, "ext or ext_flags is not 0");
    }
    if (a->type != XDNA_SUBMIT_COMMAND) {
        return accel_refuse(c, EINVAL, "type %u: expected 0", a->type);
    }
    if (a->command_count != 1 || a->argument_count > ACCEL_MAX_ARGUMENTS) {
        return accel_refuse(c, EINVAL, "%u commands, %u buffers: expected 1, and at most %d",
                            a->command_count, a->argument_count, ACCEL_MAX_ARGUMENTS);
    }
    const struct accel_bo * bo = accel_bo_get(c->file, (uint32_t) a->commands);
    if (!bo || !accel_is_command(c->dev, bo)) {
        return accel_refuse(c, EINVAL, "command %u is %s", (uint32_t) a->commands,
                            bo ? "no buffer for commands" : "no buffer");
    }
    return 0;
}

// The queue of a context has few places; who comes later waits.
static struct accel_context * enter(struct accel_call * c, uint32_t id) {
    struct accel_context * x;
    while ((x = accel_context_get(c->file, id)) &&
           x->timeline->submitted - x->timeline->ended == ACCEL_JOBS) {
        pthread_cond_wait(&c->dev->changed, &c->dev->lock);
    }
    return x;
}

int accel_exec_cmd(struct accel_call * c) {
    struct xdna_exec_cmd * a = c->arg;
    struct accel_device * dev = c->dev;
    int result = check_exec(c, a);
    struct accel_job * job = result == 0 ? calloc(1, sizeof *job) : NULL;
    if (!job) {
        return result ? result : accel_refuse(c, ENOMEM, "no memory for a command");
    }
    job->command = accel_bo_get(c->file, (uint32_t) a->commands);
    job->command->refs++;
    result = take_arguments(c, job, a);
    if (result == 0 && !(job->context = enter(c, a->hwctx))) {
        result = accel_refuse(c, EINVAL, "there is no context %u", a->hwctx);
    }
    if (result == 0 && dev->settings.kernel->cus_first && job->context->n_cus == 0) {
        result = accel_refuse(c, EINVAL, "context %u has no CUs yet", a->hwctx);
    }
    if (result == 0 && !start_worker(dev)) {
        result = accel_refuse(c, ENOMEM, "no thread to run commands in");
    }
    if (result != 0) {
        job_free(dev, job);
        return result;
    }
    struct accel_timeline * t = job->context->timeline;
    a->seq = job->seq = t->submitted++;
    t->has_fence = true;
    job->sent_ns = now_ns();
    accel_shared_tell(dev, job->context);
    accel_timeline_tell(t);
    struct accel_job ** link = &dev->jobs;
    while (*link) {
        link = &(*link)->next;
    }
    *link = job;
    dev->counts.execs++;
    accel_words(c, "context %u, command in buffer %u, %u buffers: number %llu", a->hwctx,
                (uint32_t) a->commands, a->argument_count, (unsigned long long) a->seq);
    pthread_cond_broadcast(&dev->changed);
    return 0;
}

// ---- WAIT_CMD ----

int accel_wait_cmd(struct accel_call * c) {
    const struct xdna_wait_cmd * a = c->arg;
    struct accel_device * dev = c->dev;
    struct accel_context * x = accel_context_get(c->file, a->hwctx);
    if (!x || a->seq >= x->timeline->submitted) {
        return accel_refuse(c, EINVAL, "context %u has no command %llu", a->hwctx,
                            (unsigned long long) a->seq);
    }
    while (x->timeline->ended <= a->seq) { // a context runs its commands in their order
        pthread_cond_wait(&dev->changed, &dev->lock);
        x = accel_context_get(c->file, a->hwctx);
        if (!x) {
            return accel_refuse(c, EINVAL, "context %u was destroyed meanwhile", a->hwctx);
        }
    }
    const struct accel_result * r = &x->timeline->results[a->seq % ACCEL_RESULTS];
    accel_words(c, "context %u, command %llu, at most %u ms", a->hwctx, (unsigned long long) a->seq,
                a->timeout);
    if (r->seq != a->seq) {
        return 0; // long ago
    }
    uint64_t limit = a->timeout && dev->settings.wait_ms ? dev->settings.wait_ms : a->timeout;
    if (limit && r->ms > (double) limit) {
        dev->counts.timeouts++;
        return accel_refuse(c, ETIME, "command %llu takes %.3f modelled ms, the caller waits %llu",
                            (unsigned long long) a->seq, r->ms, (unsigned long long) limit);
    }
    if (r->failed && dev->settings.wait_failed) {
        return accel_refuse(c, dev->settings.wait_failed,
                            "command %llu failed (a kernel's driver would not say so)",
                            (unsigned long long) a->seq);
    }
    return 0;
}

// command: work for the array. Each command starts a PDI with a stream of instructions; what fits
// into the driver's 4 KiB goes as one chain, which costs one call and one message to the firmware.
//
// The state word of a command is all that can be believed. The driver drops what it does not like
// without a word: the call succeeds, the wait succeeds, and the word says NEW. It also says what
// the last run left until the scheduler gets there, so NEW is written before each submission.
#include "impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    FIXED_WORDS = 5,     // 3, 0, the stream's address and its length
    SPIN_LOOKS = 100000, // whatever the clock says
    SPIN_NS = 60000,     // looking at the word is cheaper than a call, for so long
    HEALTH_VERSION = 1,
};

struct chain {                      // one submission
    struct command_buffer * buffer; // the chain's, or the only command's
    struct command_buffer * parts;  // the commands'; NULL: there is one only
    size_t first, n;                // of the caller's commands
    uint64_t seq;
};

// ---- words ----

// An even number of arguments: firmware aborts a short command with an odd one in a chain.
static uint32_t arguments_of(const struct amdxdna_command * c) {
    return FIXED_WORDS + 2 * c->n_operands + 1;
}

static uint32_t slot_bytes(const struct amdxdna_command * c) {
    return SLOT_BYTES + 4 * arguments_of(c);
}

static void write_command(const struct amdxdna_command * c, uint8_t * page) {
    uint32_t n = arguments_of(c);
    uint8_t * args = page + 8;
    store_u32(page + 4, 1u << c->pdi);
    memset(args, 0, 4 * (size_t) n);
    store_u32(args + 4 * XDNA_ARG_OPCODE, XDNA_KERNEL_STREAM);
    store_u64(args + 4 * XDNA_ARG_INSTS, c->stream);
    store_u32(args + 4 * XDNA_ARG_N_INSTS, c->n_words);
    for (unsigned i = 0; i < c->n_operands; i++) {
        store_u64(args + 4 * XDNA_ARG_OPERANDS + 8 * (size_t) i, c->operands[i]);
    }
    store_u32(page, XDNA_COMMAND(XDNA_OP_START_CU, n + 1));
}

static void write_chain(const struct chain * k, uint8_t * page) {
    uint8_t * data = page + 4;
    size_t i = 0;
    memset(data, 0, sizeof(struct xdna_chain));
    store_u32(data, (uint32_t) k->n);
    for (const struct command_buffer * c = k->parts; c; c = c->next, i++) {
        store_u64(data + sizeof(struct xdna_chain) + 8 * i, c->b.handle);
    }
    store_u32(page,
              XDNA_COMMAND(XDNA_OP_CHAIN, sizeof(struct xdna_chain) / 4 + 2 * (uint32_t) k->n));
}

static uint32_t state_of(const struct chain * k) {
    return XDNA_COMMAND_STATE(
        __atomic_load_n((const uint32_t *) (const void *) k->buffer->b.host, __ATOMIC_ACQUIRE));
}

// ---- submitting ----

static size_t how_many(const struct amdxdna_command * commands, size_t n) {
    uint32_t bytes = 0;
    size_t k = 0;
    while (k < n && bytes + slot_bytes(&commands[k]) <= CHAIN_BYTES) {
        bytes += slot_bytes(&commands[k++]);
    }
    return k;
}

static void keep(struct amdxdna_context * x, struct command_buffer * c) {
    while (c) {
        struct command_buffer * next = c->next;
        c->next = x->held;
        x->held = c;
        c = next;
    }
}

// Commands first .. first + n of the caller's into buffers.
static enum status make_chain(struct amdxdna_context * x, const struct amdxdna_command * commands,
                              struct chain * k, struct error * err) {
    struct command_buffer ** last = &k->parts;
    for (size_t i = 0; i < k->n; i++) {
        struct command_buffer * c = amdxdna_command_take(x->d, err);
        if (!c) {
            return err && err->status != ST_OK ? err->status : ST_NO_MEMORY;
        }
        c->next = NULL;
        *last = c;
        last = &c->next;
        write_command(&commands[k->first + i], c->b.host);
    }
    if (k->n == 1) {
        k->buffer = k->parts;
        k->parts = NULL;
        return ST_OK;
    }
    k->buffer = amdxdna_command_take(x->d, err);
    if (!k->buffer) {
        return err && err->status != ST_OK ? err->status : ST_NO_MEMORY;
    }
    k->buffer->next = NULL;
    write_chain(k, k->buffer->b.host);
    return ST_OK;
}

static enum status submit(struct amdxdna_context * x, struct chain * k, const uint32_t * buffers,
                          size_t n_buffers, struct error * err) {
    struct xdna_exec_cmd c = {
        .hwctx = x->id,
        .type = XDNA_SUBMIT_COMMAND,
        .commands = k->buffer->b.handle,
        .arguments = (uint64_t) (uintptr_t) buffers,
        .command_count = 1,
        .argument_count = (uint32_t) n_buffers,
    };
    int error = amdxdna_call(x->d, XDNA_IOCTL(XDNA_EXEC_CMD, struct xdna_exec_cmd), &c);
    k->seq = c.seq;
    amdxdna_count(&x->d->counts.chains, 1);
    return error ? amdxdna_refused(x->d, "EXEC_CMD", error, err) : ST_OK;
}

// ---- waiting ----

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

// True: it ended while we looked.
static bool spin(const struct chain * k) {
    int64_t end = now_ns() + SPIN_NS;
    for (int looks = 0; state_of(k) == XDNA_STATE_NEW; looks++) {
        if (looks == SPIN_LOOKS || now_ns() > end) {
            return false;
        }
    }
    return true;
}

// Chains of a context end in their order, so waiting for the last is enough.
static int wait_for(struct amdxdna_context * x, const struct chain * k, uint64_t limit_ms) {
    amdxdna_count(&x->d->counts.waits, 1);
    if (x->d->info.legacy) {
        struct xdna_wait_cmd w = {.hwctx = x->id,
                                  .timeout = limit_ms > UINT32_MAX ? 0 : (uint32_t) limit_ms,
                                  .seq = k->seq};
        return amdxdna_call(x->d, _IOW(XDNA_IOCTL_TYPE, XDNA_WAIT_CMD, struct xdna_wait_cmd), &w);
    }
    // Point 0 means the newest, which is none other here.
    struct xdna_timeline_wait w = {
        .handles = (uint64_t) (uintptr_t) &x->syncobj,
        .points = (uint64_t) (uintptr_t) &k->seq,
        .timeout_ns = limit_ms ? now_ns() + (int64_t) limit_ms * 1000000 : INT64_MAX,
        .count = 1,
    };
    return amdxdna_call(x->d, XDNA_IOCTL(XDNA_SYNCOBJ_TIMELINE_WAIT, struct xdna_timeline_wait),
                        &w);
}

// ---- what became of it ----

static enum status timed_out(const struct amdxdna_context * x, const struct chain * k,
                             struct error * err) {
    const uint8_t * page = (k->parts ? k->parts : k->buffer)->b.host;
    struct xdna_health h;
    memcpy(&h, page + 4, sizeof h);
    // Older firmware does not report it; the command is there as it was then, or all ones.
    if (h.version != HEALTH_VERSION || h.app != 0) {
        return error_set(err, ST_DEVICE,
                         "%s: a command made no progress, and the driver ended it (timeout)",
                         x->d->info.path);
    }
    return error_set(err, ST_DEVICE,
                     "%s: a command made no progress at operation %u of its stream, and the driver "
                     "ended it (fatal type %u, exception %u at 0x%x, module %u)",
                     x->d->info.path, h.operation, h.fatal_type, h.exception_type, h.exception_pc,
                     h.module);
}

static enum status failed(struct amdxdna_context * x, const struct chain * k, size_t * done,
                          struct error * err) {
    struct amdxdna_state now;
    uint32_t state = state_of(k), index = 0;
    x->broken = true;
    amdxdna_count(&x->d->counts.failed, 1);
    switch (state) {
    case XDNA_STATE_NEW:
        return error_set(err, ST_DEVICE,
                         "%s: the driver dropped a chain of %zu commands without a word",
                         x->d->info.path, k->n);
    case XDNA_STATE_TIMEOUT:
        return timed_out(x, k, err);
    case XDNA_STATE_ABORT:
        return error_set(err, ST_DEVICE, "%s: a command was aborted (the context was taken away)",
                         x->d->info.path);
    default:
        if (k->parts) {
            index = load_u32(k->buffer->b.host + 4 + offsetof(struct xdna_chain, error_index));
            index = index < k->n ? index : 0;
        }
        *done += index;
        amdxdna_state(x->d, &now);
        return error_set(
            err, ST_DEVICE,
            "%s: the firmware failed command %u of %zu (state %u, last error 0x%" PRIx64 ")",
            x->d->info.path, index, k->n, state, now.last_error.code);
    }
}

static enum status look(struct amdxdna_context * x, const struct chain * chains, size_t n,
                        size_t * done, struct error * err) {
    for (size_t i = 0; i < n; i++) {
        if (state_of(&chains[i]) != XDNA_STATE_COMPLETED) {
            return failed(x, &chains[i], done, err);
        }
        *done += chains[i].n;
        amdxdna_count(&x->d->counts.commands, chains[i].n);
    }
    return ST_OK;
}

static enum status wait_all(struct amdxdna_context * x, const struct chain * chains, size_t n,
                            uint64_t limit_ms, size_t * done, struct error * err) {
    const struct chain * last = &chains[n - 1];
    int error = spin(last) ? 0 : wait_for(x, last, limit_ms);
    if (error == ETIME || error == ETIMEDOUT) {
        // Nothing ends it: kernels before 6.17 have no watchdog. Its buffers are never free again.
        x->broken = true;
        __atomic_store_n(&x->d->lost, ETIME, __ATOMIC_RELEASE);
        return error_set(err, ST_DEVICE, "%s did not answer for %" PRIu64 " ms", x->d->info.path,
                         limit_ms);
    }
    if (error) {
        x->broken = true;
        return amdxdna_refused(x->d, "waiting for a command", error, err);
    }
    return look(x, chains, n, done, err);
}

// ---- for callers ----

static int by_number(const void * a, const void * b) {
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
    return (x > y) - (x < y);
}

// Each handle once: the driver refuses a list that names one twice.
static uint32_t * unique(const uint32_t * handles, size_t * n) {
    uint32_t * list = malloc((*n + 1) * sizeof *list);
    size_t k = 0;
    if (!list) {
        return NULL;
    }
    memcpy(list, handles, *n * sizeof *list);
    qsort(list, *n, sizeof *list, by_number);
    for (size_t i = 0; i < *n; i++) {
        if (list[i] && (k == 0 || list[k - 1] != list[i])) {
            list[k++] = list[i];
        }
    }
    *n = k;
    return list;
}

static enum status check(const struct amdxdna_context * x, const struct amdxdna_command * commands,
                         size_t n, struct error * err) {
    if (x->broken) {
        return error_set(err, ST_DEVICE, "%s: a command of this context failed before",
                         x->d->info.path);
    }
    for (size_t i = 0; i < n; i++) {
        if (commands[i].pdi >= x->n_pdis || commands[i].n_operands > AMDXDNA_OPERANDS ||
            slot_bytes(&commands[i]) > CHAIN_BYTES) {
            return error_set(err, ST_INVALID, "command %zu: PDI %u of %u, %u operands", i,
                             commands[i].pdi, x->n_pdis, commands[i].n_operands);
        }
    }
    return ST_OK;
}

static enum status run_some(struct amdxdna_context * x, const struct amdxdna_command * commands,
                            size_t n, const uint32_t * buffers, size_t n_buffers, uint64_t limit_ms,
                            size_t * done, struct error * err) {
    struct chain chains[IN_FLIGHT];
    size_t sent = 0, at = *done, before = *done;
    enum status st = ST_OK;
    while (sent < IN_FLIGHT && at < n && st == ST_OK) {
        struct chain * k = &chains[sent];
        *k = (struct chain){.first = at, .n = how_many(commands + at, n - at)};
        st = make_chain(x, commands, k, err);
        st = st == ST_OK ? submit(x, k, buffers, n_buffers, err) : st;
        if (st != ST_OK) { // it never came to the driver
            amdxdna_command_give(x->d, k->parts);
            amdxdna_command_give(x->d, k->buffer);
            x->broken = true;
            break;
        }
        at += k->n;
        sent++;
    }
    enum status waited =
        sent ? wait_all(x, chains, sent, limit_ms, done, st == ST_OK ? err : NULL) : ST_OK;
    bool quiet = !x->broken || (waited == ST_OK && *done - before == at - before);
    for (size_t i = 0; i < sent; i++) {
        if (quiet) {
            amdxdna_command_give(x->d, chains[i].parts);
            amdxdna_command_give(x->d, chains[i].buffer);
        } else { // until the context is gone
            keep(x, chains[i].parts);
            keep(x, chains[i].buffer);
        }
    }
    return st != ST_OK ? st : waited;
}

enum status amdxdna_run(struct amdxdna_context * x, const struct amdxdna_command * commands,
                        size_t n, const uint32_t * buffers, size_t n_buffers, uint64_t limit_ms,
                        size_t * done, struct error * err) {
    *done = 0;
    enum status st = check(x, commands, n, err);
    if (st != ST_OK) {
        return st;
    }
    uint32_t * list = unique(buffers, &n_buffers);
    if (!list) {
        return error_set(err, ST_NO_MEMORY, "no memory for a list of buffers");
    }
    while (*done < n && st == ST_OK) {
        st = run_some(x, commands, n, list, n_buffers, limit_ms, done, err);
    }
    free(list);
    return st;
}

// The HSA client with GPUs beside the NPU: who is listed, memory that the host does not see, and
// queues that are flooded, shared, broken and freed too early. Kernels are made by hand, so that no
// compiler is needed.
#include "runtime/rig.h"

#include "bytes.h"
#include "gpu-bench.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- agents ----

static void test_agents(void ** state) {
    (void) state;
    struct hsac * h = open_agents("gfx90a,aie2,gfx1100");
    static const struct {
        enum hsac_kind kind;
        const char *name, *product;
    } expected[] = {{HSAC_NPU, "aie2", "RyzenAI-npu1"},
                    {HSAC_GPU, "gfx90a", "AMD Instinct MI210"},
                    {HSAC_GPU, "gfx1100", "AMD Radeon RX 7900 XTX"}};
    assert_int_equal(hsac_agent_count(h), 3);
    assert_null(hsac_agent_get(h, 3));
    for (int i = 0; i < 3; i++) {
        struct hsac_agent * a = hsac_agent_get(h, i);
        uint64_t left = 0, left_then, total = 0;
        assert_int_equal(hsac_agent_kind(a), expected[i].kind);
        assert_string_equal(hsac_agent_name(a), expected[i].name);
        assert_string_equal(hsac_agent_product(a), expected[i].product);
        assert_false(hsac_agent_is_integrated(a));
        assert_true(hsac_agent_handle(a));
        hsac_agent_memory(a, &left, &total);
        assert_true(total >= 64 << 20 && left <= total);
        assert_int_equal(hsac_agent_pool_size(a, HSAC_POOL_DATA), total);
        assert_true(hsac_agent_pool_size(a, HSAC_POOL_HOST) &&
                    hsac_agent_pool_size(a, HSAC_POOL_KERNARG));
        assert_int_equal(hsac_agent_pool_size(a, HSAC_POOL_DEV),
                         expected[i].kind == HSAC_NPU ? 64 << 20 : 0);
        void * block = hsac_alloc(a, HSAC_POOL_DATA, 3 << 20);
        assert_non_null(block);
        hsac_agent_memory(a, &left_then, &total);
        assert_int_equal(left - left_then, 3 << 20);
        hsac_free(a, block);
        hsac_agent_memory(a, &left_then, &total);
        assert_int_equal(left, left_then);
        struct hsac_counters c = {.dispatches = 9};
        assert_true(hsac_agent_counters(a, &c));
        assert_int_equal(c.dispatches, 0);
    }
    hsac_close(h);
    h = open_agents("gfx942");
    assert_int_equal(hsac_agent_count(h), 1);
    assert_string_equal(hsac_agent_name(hsac_agent_get(h, 0)), "gfx942");
    hsac_close(h);
    h = open_agents("aie2");
    assert_int_equal(hsac_agent_count(h), 1);
    assert_int_equal(hsac_agent_kind(hsac_agent_get(h, 0)), HSAC_NPU);
    hsac_close(h);
}

static void test_pools(void ** state) {
    (void) state;
    struct hsac * h = open_agents("gfx90a,aie2");
    struct hsac_agent *npu = hsac_agent_get(h, 0), *gpu = hsac_agent_get(h, 1);
    static const enum hsac_pool pools[] = {HSAC_POOL_DATA, HSAC_POOL_HOST, HSAC_POOL_DEV,
                                           HSAC_POOL_KERNARG};
    for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++) {
        assert_null(hsac_alloc(gpu, pools[i], 0));
        assert_null(hsac_alloc(gpu, pools[i], SIZE_MAX));
        void *of_npu = hsac_alloc(npu, pools[i], 1001), *of_gpu = hsac_alloc(gpu, pools[i], 1001);
        assert_non_null(of_npu);
        assert_true(pools[i] == HSAC_POOL_DEV ? !of_gpu : of_gpu != NULL);
        hsac_free(npu, of_npu);
        if (pools[i] == HSAC_POOL_HOST || pools[i] == HSAC_POOL_KERNARG) {
            memset(of_gpu, 1, 1001); // the host's own
        }
        hsac_free(gpu, of_gpu);
    }
    hsac_close(h);
}

// ---- bytes ----

static void test_bytes(void ** state) {
    (void) state;
    struct hsac * h = open_agents("aie2,gfx1100");
    struct hsac_agent *npu = hsac_agent_get(h, 0), *gpu = hsac_agent_get(h, 1);
    bytes_check(npu, HSAC_POOL_DATA);
    bytes_check(gpu, HSAC_POOL_DATA);
    bytes_check(gpu, HSAC_POOL_HOST);
    hsac_close(h);
}

// What the copy engine refuses is a status, and the next copy works.
static void test_bytes_of_nobody(void ** state) {
    (void) state;
    struct hsac * h = open_agents("gfx90a");
    struct hsac_agent * a = hsac_agent_get(h, 0);
    uint8_t * device = hsac_alloc(a, HSAC_POOL_DATA, 4096);
    uint8_t local[64] = {1, 2, 3}, back[64] = {0};
    struct error err = {0};
    assert_int_equal(hsac_write(a, back, local, 64, &err), ST_DEVICE);
    assert_says(&err, "gfx90a: copying 64 bytes");
    assert_int_equal(hsac_read(a, back, local, 64, &err), ST_DEVICE);
    assert_int_equal(hsac_fill(a, back, 1, 64, NULL), ST_DEVICE);
    assert_int_equal(hsac_copy(a, device, local, 64, &err), ST_DEVICE);
    assert_int_equal(hsac_copy(a, device + 4000, device, 97, &err), ST_DEVICE); // behind the end
    assert_int_equal(back[0], 0);
    OK(hsac_write(a, device + 4032, local, 64, &err));
    OK(hsac_read(a, back, device + 4032, 64, &err));
    assert_memory_equal(local, back, 64);
    hsac_close(h); // frees the block
}

// ---- queues ----

static void test_wrong_kernels(void ** state) {
    (void) state;
    struct hsac * h = open_agents("gfx90a,aie2");
    struct hsac_queue *npu, *gpu;
    struct error err = {0};
    OK(hsac_queue_new(hsac_agent_get(h, 0), &npu, &err));
    OK(hsac_queue_new(hsac_agent_get(h, 1), &gpu, &err));
    const struct hsac_dispatch d = {.pdi_size = 1};
    const struct hsac_launch l = {.grid = {1, 1, 1}, .group = {1, 1, 1}};
    assert_int_equal(hsac_queue_dispatch(gpu, &d, &err), ST_INVALID);
    assert_says(&err, "gfx90a takes no kernels of a NPU");
    assert_int_equal(hsac_queue_launch(npu, &l, &err), ST_INVALID);
    assert_says(&err, "aie2 takes no kernels of a GPU");
    assert_int_equal(hsac_queue_dispatch(gpu, &d, NULL), ST_INVALID);
    assert_int_equal(hsac_queue_launch(npu, &l, NULL), ST_INVALID);
    OK(hsac_queue_wait(npu, &err));
    OK(hsac_queue_wait(gpu, &err));
    hsac_queue_free(gpu);
    hsac_queue_free(npu);
    hsac_close(h);
}

// More than the ring holds, without waiting, several times; then a look at every launch's argument.
static void test_flood(void ** state) {
    (void) state;
    for (int k = 0; k < N_ARCHS; k++) {
        struct bench b = bench_open(&archs[k]);
        struct code end = code_load(b.h, b.gpu, archs[k].flags, archs[k].end, 1);
        struct hsac_launch nothing = launch_of(&end, NULL);
        nothing.args_size = 0;
        uint32_t want = 0;
        for (int round = 0; round < 3; round++) {
            for (uint32_t i = 0; i < 1000; i++) {
                OK(hsac_queue_launch(b.queue, &nothing, &err));
            }
            OK(hsac_queue_wait(b.queue, &err));
            for (uint32_t i = 0; i < 1000 + (uint32_t) round; i++) {
                OK(bench_step(&b, 7 * i + 1, &err));
                want = step(want, 7 * i + 1);
            }
            OK(hsac_queue_wait(b.queue, &err));
            OK(hsac_queue_wait(b.queue, &err));
            assert_int_equal(bench_word(&b), want);
        }
        struct hsac_counters c;
        assert_true(hsac_agent_counters(b.gpu, &c));
        assert_int_equal(c.dispatches, 3 * 2000 + 3);
        code_unload(b.h, &end);
        bench_close(&b);
    }
}

static void test_arguments(void ** state) {
    (void) state;
    struct bench b = bench_open(&archs[0]);
    struct error err = {0};
    struct step_args args[HSAC_MAX_KERNARG / sizeof(struct step_args) + 1] = {{b.at, 5, 0, 100}};
    struct hsac_launch l = launch_of(&b.step, args);
    OK(hsac_queue_launch(b.queue, &l, &err));
    OK(hsac_queue_wait(b.queue, &err));
    assert_int_equal(bench_word(&b), 105);
    // What is not given is 0, also where an earlier launch had something in the same slot: all of
    // them get a hundred, and then none.
    for (int i = 0; i < 600; i++) {
        OK(hsac_queue_launch(b.queue, &l, &err));
    }
    OK(hsac_queue_wait(b.queue, &err));
    OK(hsac_fill(b.gpu, b.at, 0, 4, &err));
    uint32_t want = 0;
    l.args_size = offsetof(struct step_args, more);
    for (int i = 0; i < 600; i++) {
        OK(hsac_queue_launch(b.queue, &l, &err));
        want = step(want, 5);
    }
    args[0] = (struct step_args){NULL, 0, 0, 0}; // they were copied
    OK(hsac_queue_wait(b.queue, &err));
    assert_int_equal(bench_word(&b), want);
    args[0] = (struct step_args){b.at, 5, 0, 0};

    l.args_size = sizeof args[0];
    l.kernarg_bytes = HSAC_MAX_KERNARG + 1;
    assert_int_equal(hsac_queue_launch(b.queue, &l, &err), ST_CORRUPT);
    assert_says(&err, "513 bytes of arguments");
    l.kernarg_bytes = sizeof args[0] - 1;
    assert_int_equal(hsac_queue_launch(b.queue, &l, &err), ST_CORRUPT);
    assert_says(&err, "expected 24 to 512");
    l.args_size = UINT32_MAX;
    l.kernarg_bytes = UINT32_MAX;
    assert_int_equal(hsac_queue_launch(b.queue, &l, NULL), ST_CORRUPT);
    OK(hsac_queue_wait(b.queue, &err));
    assert_int_equal(bench_word(&b), want);
    l.args_size = l.kernarg_bytes = HSAC_MAX_KERNARG;
    OK(hsac_queue_launch(b.queue, &l, &err));
    OK(hsac_queue_wait(b.queue, &err));
    assert_int_equal(bench_word(&b), step(want, 5));
    bench_close(&b);
}

// ---- faults ----

static void check_fault(struct bench * b, const struct hsac_launch * bad, const char * what) {
    struct error err = {0};
    uint32_t before = bench_word(b);
    OK(bench_step(b, 1, &err));
    OK(hsac_queue_launch(b->queue, bad, &err));
    OK(bench_step(b, 2, &err)); // behind the fault: never runs
    assert_int_equal(hsac_queue_wait(b->queue, &err), ST_DEVICE);
    assert_says(&err, hsac_agent_name(b->gpu));
    assert_says(&err, what);
    assert_int_equal(bench_word(b), step(before, 1));
    OK(hsac_queue_wait(b->queue, &err)); // told once
    OK(bench_step(b, 3, &err));
    OK(hsac_queue_wait(b->queue, &err));
    assert_int_equal(bench_word(b), step(step(before, 1), 3));
}

static void test_faults(void ** state) {
    (void) state;
    for (int k = 0; k < N_ARCHS; k++) {
        struct bench b = bench_open(&archs[k]);
        struct hsac_queue * other;
        struct error err = {0};
        OK(hsac_queue_new(b.gpu, &other, &err));
        struct code broken = code_load(b.h, b.gpu, archs[k].flags, junk, 2);
        struct step_args args = {b.at, 0, 0, 0}, nowhere = {(uint32_t *) 0x1000, 0, 0, 0};
        struct hsac_launch illegal = launch_of(&broken, &args), lost = launch_of(&b.step, &args),
                           stray = launch_of(&b.step, &nowhere), empty = launch_of(&b.step, &args);
        lost.object = 0x1000;
        empty.grid[1] = 0;
        struct hsac_launch wait_before = launch_of(&b.step, &args);
        OK(hsac_queue_launch(other, &wait_before, &err));
        OK(hsac_queue_wait(other, &err));
        check_fault(&b, &illegal, "no instruction");
        check_fault(&b, &lost, "0x1000");
        check_fault(&b, &stray, "0x1000");
        check_fault(&b, &empty, "grid of 0");
        // A launch that finds the ring full waits, and meets the fault itself.
        OK(hsac_queue_launch(b.queue, &illegal, &err));
        enum status st = ST_OK;
        int n = 0;
        for (; n < 300 && st == ST_OK; n++) {
            st = bench_step(&b, 1, &err);
        }
        assert_int_equal(st, ST_DEVICE);
        assert_between(n, 200, 256);
        assert_int_equal(hsac_queue_launch(b.queue, &illegal, NULL), ST_OK);
        assert_int_equal(hsac_queue_wait(b.queue, NULL), ST_DEVICE);
        // The other queue is as good as ever; one that failed can be freed as it is.
        uint32_t before = bench_word(&b);
        args.value = 9;
        OK(hsac_queue_launch(other, &wait_before, &err));
        OK(hsac_queue_wait(other, &err));
        assert_int_equal(bench_word(&b), step(before, 9));
        OK(hsac_queue_launch(other, &illegal, &err));
        hsac_queue_free(other);
        code_unload(b.h, &broken);
        bench_close(&b);
    }
}

// ---- silence ----

static int slices; // that were waited

static hsa_signal_value_t wait_in_vain(hsa_signal_t signal, hsa_signal_condition_t condition,
                                       hsa_signal_value_t value, uint64_t timeout,
                                       hsa_wait_state_t state) {
    (void) signal, (void) condition, (void) value, (void) state;
    const struct timespec slice = {.tv_nsec = (long) timeout};
    nanosleep(&slice, NULL);
    slices++;
    return 1;
}

// 1.6 s in all, but never long without a step ahead.
static hsa_signal_value_t wait_long(hsa_signal_t signal, hsa_signal_condition_t condition,
                                    hsa_signal_value_t value, uint64_t timeout,
                                    hsa_wait_state_t state) {
    wait_in_vain(signal, condition, value, timeout, state);
    return slices < 80;
}

static uint64_t step_ahead(const hsa_queue_t * queue) {
    (void) queue;
    return (uint64_t) slices;
}

static hsa_status_t lose_copy(void * to, hsa_agent_t to_agent, const void * from,
                              hsa_agent_t from_agent, size_t size, uint32_t n_deps,
                              const hsa_signal_t * deps, hsa_signal_t completion) {
    (void) to, (void) to_agent, (void) from, (void) from_agent, (void) size, (void) n_deps;
    (void) deps, (void) completion;
    return HSA_STATUS_SUCCESS;
}

// A GPU that neither completes nor fails: who waits gets an error that names the setting, and the
// GPU is used again as if nothing had been.
static void test_silence(void ** state) {
    (void) state;
    alarm(60); // without a limit this would take for ever
    struct bench b = bench_open(&archs[2]);
    const struct hsac_api real = b.h->api;
    struct error err = {0};
    setenv("GGML_HSA_WAIT_LIMIT", "1", 1);
    b.h->api.hsa_signal_wait_scacquire = wait_in_vain;
    OK(bench_step(&b, 1, &err));
    assert_int_equal(hsac_queue_wait(b.queue, &err), ST_DEVICE);
    assert_says(&err, "gfx1100: kernels");
    assert_says(&err, "no sign of life for 1 s");
    assert_says(&err, "GGML_HSA_WAIT_LIMIT");
    OK(hsac_queue_wait(b.queue, &err)); // told once

    b.h->api = real;
    b.h->api.hsa_amd_memory_async_copy = lose_copy;
    uint32_t word = 5;
    assert_int_equal(hsac_write(b.gpu, b.at, &word, sizeof word, &err), ST_DEVICE);
    assert_says(&err, "gfx1100: a copy: no sign of life for 1 s");
    assert_int_equal(hsac_copy(b.gpu, b.at + 1, b.at, sizeof word, &err), ST_DEVICE);
    assert_says(&err, "gfx1100: a copy: no sign of life for 1 s");

    b.h->api = real;
    OK(hsac_write(b.gpu, b.at, &word, sizeof word, &err));
    OK(bench_step(&b, 2, &err));
    OK(hsac_queue_wait(b.queue, &err));
    assert_int_equal(bench_word(&b), step(5, 2));

    // Longer than the limit in all.
    slices = 0;
    b.h->api.hsa_signal_wait_scacquire = wait_long;
    b.h->api.hsa_queue_load_read_index_scacquire = step_ahead;
    OK(bench_step(&b, 3, &err));
    OK(hsac_queue_wait(b.queue, &err));
    // Without the setting an emulated GPU has no limit, and what is no number is none.
    static const char * const settings[] = {"0", "", "-1", "1x", "99999999999999999999"};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        setenv("GGML_HSA_WAIT_LIMIT", settings[i], 1);
        assert_int_equal(hsac_watch_start(b.h).limit_s, 0);
    }
    unsetenv("GGML_HSA_WAIT_LIMIT");
    b.h->emulated = false;
    assert_int_equal(hsac_watch_start(b.h).limit_s, 60);
    b.h->emulated = true;
    b.h->api = real;
    bench_close(&b);
    alarm(0);
}

// ---- threads ----

struct worker {
    struct bench * b;
    struct hsac_queue * shared; // NULL: one of its own
    uint32_t * at;
    bool failed;
    pthread_t thread;
};

static void * work(void * data) {
    struct worker * w = data;
    struct hsac_agent * a = w->b->gpu;
    uint32_t want = 0, got = 0;
    w->failed = false;
    for (uint32_t round = 0; round < 5 && !w->failed; round++) {
        struct hsac_queue * q = w->shared;
        w->failed |= !q && hsac_queue_new(a, &q, NULL) != ST_OK;
        for (uint32_t i = 0; i < 300 && !w->failed; i++) {
            struct step_args args = {w->at, i, 0, round};
            struct hsac_launch l = launch_of(&w->b->step, &args);
            w->failed |= hsac_queue_launch(q, &l, NULL) != ST_OK;
            want = step(want, i + round);
        }
        w->failed |= w->failed || hsac_queue_wait(q, NULL) != ST_OK ||
                     hsac_read(a, &got, w->at, sizeof got, NULL) != ST_OK || got != want;
        if (!w->shared) {
            hsac_queue_free(q);
        }
        void * block = hsac_alloc(a, HSAC_POOL_DATA, 100 + round);
        w->failed |= !block || hsac_fill(a, block, 1, 100, NULL) != ST_OK;
        hsac_free(a, block);
    }
    return NULL;
}

static void test_threads(void ** state) {
    (void) state;
    enum { N = 4 };
    for (int shared = 0; shared < 2; shared++) {
        struct bench b = bench_open(&archs[2]);
        struct worker workers[N];
        for (int i = 0; i < N; i++) {
            workers[i] = (struct worker){&b, shared ? b.queue : NULL, b.at + i, true, 0};
            assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        for (int i = 0; i < N; i++) {
            pthread_join(workers[i].thread, NULL);
        }
        for (int i = 0; i < N; i++) {
            assert_false(workers[i].failed);
        }
        bench_close(&b);
    }
}

// Memory may be freed behind the queue: what was sent is complete then.
static void test_free_in_flight(void ** state) {
    (void) state;
    struct bench b = bench_open(&archs[1]);
    for (uint32_t round = 0; round < 20; round++) {
        struct hsac_queue * q;
        OK(hsac_queue_new(b.gpu, &q, &err));
        uint32_t *block = hsac_alloc(b.gpu, HSAC_POOL_DATA, 64), got, want = 0;
        OK(hsac_fill(b.gpu, block, 0, 64, &err));
        for (uint32_t i = 0; i < 254; i++) {
            struct step_args args = {block, i, 0, round};
            struct hsac_launch l = launch_of(&b.step, &args);
            OK(hsac_queue_launch(q, &l, &err));
            want = step(want, i + round);
        }
        hsac_queue_free(q);
        OK(hsac_read(b.gpu, &got, block, sizeof got, &err));
        assert_int_equal(got, want);
        hsac_free(b.gpu, block);
    }
    bench_close(&b);
}

// Silence is what was listened to: a pause in which nobody looked, as of a process that was
// stopped, is none. Afterwards it is heard as ever. Time passes by having looked earlier.
static void test_a_pause_is_no_silence(void ** state) {
    (void) state;
    const struct hsac real = {.emulated = false};
    setenv("GGML_HSA_WAIT_LIMIT", "1", 1);
    struct hsac_watch w = hsac_watch_start(&real);
    unsetenv("GGML_HSA_WAIT_LIMIT");
    assert_false(hsac_watch_silent(&w, 1));
    w.looked_ms -= 1500;
    assert_false(hsac_watch_silent(&w, 1));
    int looks = 0;
    do {
        w.looked_ms -= 10;
        looks++;
    } while (!hsac_watch_silent(&w, 1) && looks < 1000);
    assert_between(looks, 2, 101);          // of a second, of which the pause was a part
    assert_false(hsac_watch_silent(&w, 2)); // it moved
}

// A forked child has none of the threads that would do its work: whatever it asks for is refused
// with the reason, and what it closes is not waited for. Nor is any lock that a thread of the
// parent had, which nobody gives back there. A child that takes a minute counts as hung.
static int in_the_child(struct bench * b, struct hsac_queue * npu) {
    struct step_args args = {b->at, 1, 0, 0};
    struct hsac_launch l = launch_of(&b->step, &args);
    struct hsac_dispatch d = {0};
    struct hsac_queue * fresh = NULL;
    uint32_t word = 0;
    struct error err = {0};
    struct hsac_agent * agents[] = {b->gpu, npu->agent};
    const enum status got[] = {
        hsac_queue_launch(b->queue, &l, &err),
        hsac_queue_wait(b->queue, NULL),
        hsac_write(b->gpu, b->at, &word, 4, NULL),
        hsac_read(b->gpu, &word, b->at, 4, NULL),
        hsac_fill(b->gpu, b->at, 0, 4, NULL),
        hsac_queue_new(agents[0], &fresh, NULL),
        hsac_queue_new(agents[1], &fresh, NULL),
        hsac_queue_dispatch(npu, &d, NULL),
        hsac_queue_wait(npu, NULL),
    };
    int wrong = strstr(err.text, "forked") == NULL;
    for (size_t i = 0; i < sizeof got / sizeof got[0]; i++) {
        wrong += got[i] != ST_DEVICE;
    }
    // What has no status says no.
    const uint32_t idle[4] = {0};
    struct hsac_counters counters;
    struct hsac_account account;
    char * base;
    uint64_t left, total, size;
    enum hsac_pool pool;
    for (int i = 0; i < 2; i++) {
        struct hsac_agent * a = agents[i];
        hsac_agent_memory(a, &left, &total);
        wrong += hsac_agent_set_idle(a, idle, 4, NULL) != ST_DEVICE;
        wrong += left != 0 || total == 0;
        wrong += hsac_alloc(a, HSAC_POOL_DATA, 64) != NULL;
        wrong += hsac_agent_block(a, b->at, &base, &size);
        wrong += hsac_agent_owns(a, b->at, 4, &pool) || hsac_agent_forget_pdi(a, b->at);
        wrong += hsac_agent_counters(a, &counters) || hsac_agent_account(a, &account);
        hsac_agent_watch(a, NULL, NULL);
    }
    hsac_free(b->gpu, b->at);
    hsac_queue_free(npu);
    hsac_queue_free(b->queue);
    wrong += !hsac_in_use(b->h);
    hsac_close(b->h);
    return wrong;
}

// Every lock of an agent, as other threads may have them at the moment of a fork.
static void lock_all(struct hsac_agent * a, struct hsac_queue * q, bool lock) {
    pthread_mutex_t * locks[] = {&a->ring.lock, &a->stage.lock, &a->driver, &a->lock,
                                 q->gpu ? &q->gpu->lock : NULL};
    for (int i = 0; i < 5; i++) {
        if (locks[i]) {
            assert_int_equal(lock ? pthread_mutex_lock(locks[i]) : pthread_mutex_unlock(locks[i]),
                             0);
        }
    }
}

static void test_fork(void ** state) {
    (void) state;
    const struct arch * arch = &archs[2];
    struct bench b = {.h = open_agents("aie2,gfx1100")};
    struct hsac_queue * npu;
    b.gpu = hsac_agent_get(b.h, 1);
    OK(hsac_queue_new(hsac_agent_get(b.h, 0), &npu, &err));
    OK(hsac_queue_new(b.gpu, &b.queue, &err));
    b.step = code_load(b.h, b.gpu, arch->flags, arch->step, CODE_STEP_WORDS);
    b.at = hsac_alloc(b.gpu, HSAC_POOL_DATA, 64);
    OK(hsac_fill(b.gpu, b.at, 0, 64, &err));
    OK(bench_step(&b, 3, &err));
    OK(hsac_queue_wait(b.queue, &err));
    lock_all(npu->agent, npu, true);
    lock_all(b.gpu, b.queue, true);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        _exit(in_the_child(&b, npu));
    }
    lock_all(npu->agent, npu, false);
    lock_all(b.gpu, b.queue, false);
    assert_true(pid >= 0);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    OK(bench_step(&b, 4, &err)); // the parent goes on as before
    OK(hsac_queue_wait(b.queue, &err));
    assert_int_equal(bench_word(&b), step(step(0, 3), 4));
    hsac_queue_free(npu);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agents),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_bytes_of_nobody),
        cmocka_unit_test(test_wrong_kernels),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_free_in_flight),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_a_pause_is_no_silence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

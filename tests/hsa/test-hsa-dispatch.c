// Dispatches through the client: a real kernel (bf16 C = A + B, 4096 elements) in every packet ABI,
// in numbers that wear out what ROCr 7.2 can bear, from two handles and two threads.
#include "runtime/rig.h"

#include "aie/image/image.h"
#include "hsa/hsac.h"
#include <pthread.h>

enum { ELEMENTS = 4096, BYTES = 2 * ELEMENTS };

static uint8_t *pdi_file, *insts_file;
static size_t pdi_bytes, insts_bytes;

struct bench {
    struct hsac * h;
    struct hsac_agent * agent;
    uint8_t * pdi;
    uint8_t * insts;
    uint16_t *a, *b;
};

// k / 8 with |k| < 128 is exact in bf16, and so is every sum that is below 16.
static uint16_t eighths(int k) {
    float f = (float) k / 8;
    uint32_t word;
    memcpy(&word, &f, 4);
    return (uint16_t) (word >> 16);
}

static int a_of(int i, int seed) {
    return (i * 7 + seed) % 64;
}

static int b_of(int i) {
    return (i * 3) % 61 - 30;
}

static uint8_t * upload(struct hsac_agent * agent, const uint8_t * data, size_t size) {
    uint8_t * p = hsac_alloc(agent, HSAC_POOL_DEV, size);
    assert_non_null(p);
    memcpy(p, data, size);
    return p;
}

static void fill_a(uint16_t * a, int seed) {
    for (int i = 0; i < ELEMENTS; i++) {
        a[i] = eighths(a_of(i, seed));
    }
}

static void bench_open(struct bench * t, const char * abi, const char * bugs) {
    if (!pdi_file || !insts_file) {
        skip_golden(GOLDEN_DIR "/aie2-kernels");
    }
    struct error err;
    rig_env("aie2", abi, bugs);
    if (hsac_open(&t->h, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    t->agent = hsac_agent_get(t->h, 0);
    t->pdi = upload(t->agent, pdi_file, pdi_bytes);
    t->insts = upload(t->agent, insts_file, insts_bytes);
    t->a = hsac_alloc(t->agent, HSAC_POOL_DATA, BYTES);
    t->b = hsac_alloc(t->agent, HSAC_POOL_DATA, BYTES);
    assert_non_null(t->a);
    assert_non_null(t->b);
    fill_a(t->a, 0);
    for (int i = 0; i < ELEMENTS; i++) {
        t->b[i] = eighths(b_of(i));
    }
}

static struct hsac_queue * queue_new(struct bench * t) {
    struct hsac_queue * q;
    struct error err;
    if (hsac_queue_new(t->agent, &q, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return q;
}

static uint16_t * output_new(struct bench * t) {
    uint16_t * c = hsac_alloc(t->agent, HSAC_POOL_DATA, BYTES);
    assert_non_null(c);
    memset(c, 0xff, BYTES);
    return c;
}

static struct hsac_dispatch add(struct bench * t, const uint8_t * pdi, uint16_t * a, uint16_t * c) {
    return (struct hsac_dispatch){
        .pdi = pdi,
        .pdi_size = pdi_bytes,
        .insts = t->insts,
        .n_insts = (uint32_t) (insts_bytes / 4),
        .n_operands = 3,
        .operands = {{a, BYTES}, {t->b, BYTES}, {c, BYTES}},
    };
}

static void must(enum status st, const struct error * err) {
    if (st != ST_OK) {
        fail_msg("%s: %s", status_name(st), err->text);
    }
}

// Not an assert in a thread: cmocka may only fail in the main one.
static int wrong(const uint16_t * c, int seed) {
    int n = 0;
    for (int i = 0; i < ELEMENTS; i++) {
        n += c[i] != eighths(a_of(i, seed) + b_of(i));
    }
    return n;
}

static bool untouched(const uint16_t * c) {
    for (int i = 0; i < ELEMENTS; i++) {
        if (c[i] != 0xffff) {
            return false;
        }
    }
    return true;
}

static void run_once(const char * abi, const char * bugs) {
    struct bench t;
    struct error err = {0};
    bench_open(&t, abi, bugs);
    struct hsac_queue * q = queue_new(&t);
    uint16_t * c = output_new(&t);
    struct hsac_dispatch d = add(&t, t.pdi, t.a, c);
    must(hsac_queue_dispatch(q, &d, &err), &err);
    assert_true(untouched(c)); // kept back until someone waits
    must(hsac_queue_wait(q, &err), &err);
    assert_int_equal(wrong(c, 0), 0);
    must(hsac_queue_wait(q, &err), &err); // nothing more to wait for
    struct hsac_counters n;
    assert_true(hsac_agent_counters(t.agent, &n));
    assert_int_equal(n.dispatches, 1);
    assert_int_equal(n.pdi_loads, 1);
    hsac_queue_free(q);
    hsac_close(t.h);
}

static void test_abis(void ** state) {
    (void) state;
    run_once("B", NULL);
    run_once("C", NULL);
    run_once("D", NULL);
    run_once(NULL, NULL); // D by its version
    run_once(NULL, "1");  // B by its version
    run_once("B", "1");
}

// More packets than the ring has slots, each to an output of its own.
static void run_many(const char * abi, const char * bugs) {
    enum { N = 200 };
    struct bench t;
    struct error err = {0};
    bench_open(&t, abi, bugs);
    struct hsac_queue * q = queue_new(&t);
    uint16_t *inputs[4], *outputs[N];
    for (int i = 0; i < 4; i++) {
        inputs[i] = output_new(&t);
        fill_a(inputs[i], i);
    }
    for (int i = 0; i < N; i++) {
        outputs[i] = output_new(&t);
        struct hsac_dispatch d = add(&t, t.pdi, inputs[i % 4], outputs[i]);
        must(hsac_queue_dispatch(q, &d, &err), &err);
    }
    must(hsac_queue_wait(q, &err), &err);
    for (int i = 0; i < N; i++) {
        assert_int_equal(wrong(outputs[i], i % 4), 0);
    }
    struct hsac_counters n;
    assert_true(hsac_agent_counters(t.agent, &n));
    assert_int_equal(n.dispatches, N);
    hsac_queue_free(q);
    hsac_close(t.h);
}

static void test_200_packets(void ** state) {
    (void) state;
    run_many("B", "1");
    run_many("C", NULL);
    run_many("D", NULL);
}

// One doorbell for each packet wears the ring out in another way.
static void test_66_doorbells(void ** state) {
    (void) state;
    struct bench t;
    struct error err = {0};
    bench_open(&t, NULL, "1");
    struct hsac_queue * q = queue_new(&t);
    uint16_t * c = output_new(&t);
    for (int i = 0; i < 66; i++) {
        memset(c, 0xff, BYTES);
        struct hsac_dispatch d = add(&t, t.pdi, t.a, c);
        must(hsac_queue_dispatch(q, &d, &err), &err);
        must(hsac_queue_wait(q, &err), &err);
        assert_int_equal(wrong(c, 0), 0);
    }
    hsac_queue_free(q);
    hsac_close(t.h);
}

static void set_idle(struct bench * t) {
    uint32_t * insts;
    size_t n;
    struct error err = {0};
    must(txn_idle(AIE_ARCH_AIE2, &insts, &n, &err), &err);
    must(hsac_agent_set_idle(t->agent, insts, n, &err), &err);
    free(insts);
}

// More PDIs than one hardware context can hold: a new queue has a new one. ROCr 7.2 never forgets a
// PDI, and there they are all that a process can have.
static void test_40_pdis(void ** state) {
    (void) state;
    enum { N = 40 };
    for (int bugs = 0; bugs < 2; bugs++) {
        struct bench t;
        struct error err = {0};
        bench_open(&t, NULL, bugs ? "1" : NULL);
        set_idle(&t);
        struct hsac_queue * q = queue_new(&t);
        uint16_t * outputs[N];
        int most = bugs ? 32 : N;
        for (int i = 0; i < N; i++) {
            outputs[i] = output_new(&t);
            struct hsac_dispatch d = add(&t, upload(t.agent, pdi_file, pdi_bytes), t.a, outputs[i]);
            enum status st = hsac_queue_dispatch(q, &d, &err);
            if (i < most) {
                must(st, &err);
            } else {
                assert_int_equal(st, ST_UNSUPPORTED);
                assert_non_null(strstr(err.text, "32 PDIs"));
            }
        }
        must(hsac_queue_wait(q, &err), &err);
        for (int i = 0; i < most; i++) {
            assert_int_equal(wrong(outputs[i], 0), 0);
        }
        hsac_queue_free(q);
        hsac_close(t.h);
    }
}

// ROCr 7.2 believes lists of PDIs that it kept for another hardware context with the same id.
// Batches with these and those PDIs, in this and that order, until ids came round often.
static void test_stale_lists(void ** state) {
    (void) state;
    enum { PDIS = 5, BATCHES = 60 };
    struct bench t;
    struct error err = {0};
    setenv("GGML_HSA_EMU_CONTEXT_IDS", "3", 1);
    bench_open(&t, NULL, "1");
    set_idle(&t);
    uint8_t * pdis[PDIS];
    for (int i = 0; i < PDIS; i++) {
        pdis[i] = upload(t.agent, pdi_file, pdi_bytes);
    }
    struct hsac_queue * q = queue_new(&t);
    uint16_t *c = output_new(&t), *d = output_new(&t);
    for (int i = 0; i < BATCHES; i++) {
        struct hsac_dispatch first = add(&t, pdis[i * 7 % PDIS], t.a, c);
        struct hsac_dispatch second = add(&t, pdis[i * i % (1 + i / 10 % PDIS)], t.a, d);
        memset(c, 0xff, BYTES);
        memset(d, 0xff, BYTES);
        must(hsac_queue_dispatch(q, &first, &err), &err);
        must(hsac_queue_dispatch(q, &second, &err), &err);
        must(hsac_queue_wait(q, &err), &err);
        assert_int_equal(wrong(c, 0) + wrong(d, 0), 0);
    }
    unsetenv("GGML_HSA_EMU_CONTEXT_IDS");
    hsac_queue_free(q);
    hsac_close(t.h);
}

// A second queue of ROCr 7.2's has no hardware context: the first one outlives its last handle.
static void test_handles_come_and_go(void ** state) {
    (void) state;
    struct bench t;
    struct error err = {0};
    bench_open(&t, NULL, "1");
    for (int i = 0; i < 3; i++) {
        struct hsac_queue * q = queue_new(&t);
        uint16_t * c = output_new(&t);
        struct hsac_dispatch d = add(&t, t.pdi, t.a, c);
        must(hsac_queue_dispatch(q, &d, &err), &err);
        must(hsac_queue_wait(q, &err), &err);
        assert_int_equal(wrong(c, 0), 0);
        hsac_free(t.agent, c);
        hsac_queue_free(q);
    }
    hsac_close(t.h);
}

// Operands inside of buffers, of which one is always the topmost.
static void test_inside_of_buffers(void ** state) {
    (void) state;
    struct bench t;
    struct error err = {0};
    bench_open(&t, NULL, "1");
    struct hsac_queue * q = queue_new(&t);
    for (size_t size = BYTES; size < 64u << 20; size *= 5) {
        uint8_t * block = hsac_alloc(t.agent, HSAC_POOL_DATA, 2 * size + BYTES);
        assert_non_null(block);
        uint16_t *a = (uint16_t *) (block + size / 64 * 64),
                 *c = (uint16_t *) (block + 2 * size / 64 * 64);
        fill_a(a, 3);
        struct hsac_dispatch d = add(&t, t.pdi, a, c);
        must(hsac_queue_dispatch(q, &d, &err), &err);
        must(hsac_queue_wait(q, &err), &err);
        assert_int_equal(wrong(c, 3), 0);
        hsac_free(t.agent, block);
    }
    hsac_queue_free(q);
    hsac_close(t.h);
}

static uint64_t doorbells(struct bench * t) {
    struct hsa_emu_counters n;
    hsa_status_t (*counters)(hsa_agent_t, struct hsa_emu_counters *);
    void * symbol = hsac_symbol(t->h, "hsa_emu_counters");
    memcpy(&counters, &symbol, sizeof counters);
    assert_int_equal(counters((hsa_agent_t){hsac_agent_handle(t->agent)}, &n), 0);
    return n.doorbells;
}

struct told {
    int n;
    uint32_t tags[256];
    struct hsac_account sum;
};

static void on_told(void * user, uint32_t tag, const struct hsac_account * a) {
    struct told * told = user;
    assert_true(told->n < 256);
    assert_int_equal(a->dispatches, 1);
    told->tags[told->n++] = tag;
    told->sum.dispatches += a->dispatches;
    told->sum.pdi_loads += a->pdi_loads;
    told->sum.cycles += a->cycles;
    told->sum.bundles += a->bundles;
    told->sum.stream_words += a->stream_words;
    for (int i = 0; i < HSAC_CAUSES; i++) {
        told->sum.causes[i].cycles += a->causes[i].cycles;
    }
}

// Each packet of batches, some with packets of the client's own in them, has its account; together
// they are the account of all, and its causes are the whole time.
static void run_accounts(const char * bugs) {
    enum { N = 150 };
    struct bench t;
    struct error err = {0};
    bench_open(&t, NULL, bugs);
    set_idle(&t);
    uint8_t * second = upload(t.agent, pdi_file, pdi_bytes); // another place, so another PDI
    struct told told = {0};
    hsac_agent_watch(t.agent, on_told, &told);
    struct hsac_queue * q = queue_new(&t);
    uint16_t * c = output_new(&t);
    for (int i = 0; i < N; i++) {
        struct hsac_dispatch d = add(&t, i < N / 2 ? t.pdi : second, t.a, c);
        d.tag = (uint32_t) i + 1;
        must(hsac_queue_dispatch(q, &d, &err), &err);
    }
    must(hsac_queue_wait(q, &err), &err);
    uint32_t next = 1;
    for (int i = 0; i < told.n; i++) { // in order, every one once
        assert_true(told.tags[i] == 0 || told.tags[i] == next);
        next += told.tags[i] != 0;
    }
    assert_int_equal(next, N + 1);
    assert_int_equal(told.n > N, bugs != NULL); // ROCr 7.2 is shown PDIs
    struct hsac_account all;
    assert_true(hsac_agent_account(t.agent, &all));
    assert_int_equal(all.dispatches, told.n);
    assert_int_equal(all.dispatches, told.sum.dispatches);
    assert_int_equal(all.pdi_loads, told.sum.pdi_loads);
    assert_int_equal(all.cycles, told.sum.cycles);
    assert_int_equal(all.bundles, told.sum.bundles);
    assert_int_equal(all.stream_words, told.sum.stream_words);
    assert_string_equal(all.clock, "phoenix");
    uint64_t cycles = 0;
    for (int i = 0; i < HSAC_CAUSES; i++) {
        assert_true(all.causes[i].name && *all.causes[i].name);
        assert_int_equal(all.causes[i].cycles, told.sum.causes[i].cycles);
        cycles += all.causes[i].cycles;
    }
    assert_true(cycles >= all.cycles);
    assert_int_equal(all.ns, cycles * 1000 / all.mhz);

    hsa_status_t (*account)(hsa_agent_t, uint64_t, struct hsa_emu_account *);
    void * symbol = hsac_symbol(t.h, "hsa_emu_account");
    memcpy(&account, &symbol, sizeof account);
    hsa_agent_t npu = {hsac_agent_handle(t.agent)};
    struct hsa_emu_account one = {.size = sizeof one};
    assert_int_equal(account(npu, all.dispatches, &one), 0);
    assert_int_equal(account(npu, all.dispatches - 63, &one), 0);
    assert_int_equal(account(npu, all.dispatches - 64, &one), HSA_STATUS_ERROR_INVALID_INDEX);
    assert_int_equal(account(npu, all.dispatches + 1, &one), HSA_STATUS_ERROR_INVALID_INDEX);
    assert_int_equal(account(npu, UINT64_MAX, &one), HSA_STATUS_ERROR_INVALID_INDEX);
    one.size = 8;
    assert_int_equal(account(npu, 0, &one), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(account((hsa_agent_t){1}, 0, &one), HSA_STATUS_ERROR_INVALID_AGENT);
    hsac_queue_free(q);
    hsac_close(t.h);
}

static void test_accounts(void ** state) {
    (void) state;
    run_accounts(NULL);
    run_accounts("1");
}

// What is sent together takes no longer than a runtime waits for it.
static void run_batches(const char * bugs, uint64_t batch_us, uint64_t most_us) {
    struct bench t;
    struct error err = {0};
    bench_open(&t, NULL, bugs);
    assert_int_equal(hsac_batch_us(t.agent), batch_us);
    assert_int_equal(hsac_most_us(t.agent), most_us);
    struct hsac_queue * q = queue_new(&t);
    uint16_t * c = output_new(&t);
    struct hsac_dispatch d = add(&t, t.pdi, t.a, c);
    d.us = batch_us / 3 - HSAC_PDI_US - HSAC_DISPATCH_US;
    for (int i = 0; i < 7; i++) {
        must(hsac_queue_dispatch(q, &d, &err), &err);
    }
    must(hsac_queue_wait(q, &err), &err);
    assert_int_equal(doorbells(&t), 3);
    d.us = batch_us - HSAC_PDI_US - HSAC_DISPATCH_US + 1;
    assert_int_equal(hsac_queue_dispatch(q, &d, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "microseconds"));
    hsac_queue_free(q);
    hsac_close(t.h);
}

static void test_batches_are_short(void ** state) {
    (void) state;
    run_batches("1", HSAC_BATCH_US, HSAC_MOST_US); // ROCr 7.2
    run_batches(NULL, HSAC_LONG_BATCH_US, HSAC_LONG_MOST_US);
}

// Three handles in one batch; the second one's packet is broken. The first is complete, the third
// did not run and must hear of it; afterwards all of them work again.
static void run_failure(const char * abi) {
    struct bench t;
    struct error err = {0};
    bench_open(&t, abi, NULL);
    struct hsac_queue *first = queue_new(&t), *second = queue_new(&t), *third = queue_new(&t);
    uint16_t *c1 = output_new(&t), *c3 = output_new(&t);
    uint32_t * garbage = hsac_alloc(t.agent, HSAC_POOL_DEV, 64);
    for (int i = 0; i < 16; i++) {
        garbage[i] = i == 0 ? 0xdead : 0xffffffff;
    }
    struct hsac_dispatch d1 = add(&t, t.pdi, t.a, c1), d3 = add(&t, t.pdi, t.a, c3), bad = d1;
    bad.insts = garbage;
    bad.n_insts = 16;
    must(hsac_queue_dispatch(first, &d1, &err), &err);
    must(hsac_queue_dispatch(second, &bad, &err), &err);
    must(hsac_queue_dispatch(third, &d3, &err), &err);
    must(hsac_queue_wait(first, &err), &err);
    assert_int_equal(wrong(c1, 0), 0);
    // Between the failure and the wait that reports it, nothing more is taken.
    assert_int_equal(hsac_queue_dispatch(third, &d3, &err), ST_DEVICE);
    assert_int_equal(hsac_queue_wait(third, &err), ST_DEVICE);
    assert_int_equal(hsac_queue_wait(second, &err), ST_DEVICE);
    assert_non_null(strstr(err.text, "aie2"));
    assert_true(strlen(err.text) > 20);
    assert_true(untouched(c3));
    must(hsac_queue_wait(second, &err), &err); // told once
    must(hsac_queue_dispatch(third, &d3, &err), &err);
    must(hsac_queue_wait(third, &err), &err);
    assert_int_equal(wrong(c3, 0), 0);
    hsac_queue_free(first);
    hsac_queue_free(second);
    hsac_queue_free(third);
    hsac_close(t.h);
}

static void test_failure(void ** state) {
    (void) state;
    run_failure("B");
    run_failure("D");
}

// A handle that is freed with packets kept back runs them: their memory may be freed next.
static void test_free_flushes(void ** state) {
    (void) state;
    struct bench t;
    struct error err = {0};
    bench_open(&t, NULL, NULL);
    struct hsac_queue * q = queue_new(&t);
    uint16_t * c = output_new(&t);
    struct hsac_dispatch d = add(&t, t.pdi, t.a, c);
    must(hsac_queue_dispatch(q, &d, &err), &err);
    hsac_queue_free(q);
    assert_int_equal(wrong(c, 0), 0);
    hsac_close(t.h);
}

struct worker {
    struct bench * t;
    struct hsac_queue * queue;
    uint16_t *a, *c;
    int seed;
    int failures;
};

static void * work(void * data) {
    struct worker * w = data;
    struct error err;
    for (int i = 0; i < 20; i++) {
        memset(w->c, 0xff, BYTES);
        struct hsac_dispatch d = add(w->t, w->t->pdi, w->a, w->c);
        for (int k = 0; k <= i % 3; k++) {
            w->failures += hsac_queue_dispatch(w->queue, &d, &err) != ST_OK;
        }
        w->failures += hsac_queue_wait(w->queue, &err) != ST_OK;
        w->failures += wrong(w->c, w->seed) != 0;
    }
    return NULL;
}

static void * allocate(void * data) {
    struct worker * w = data;
    for (int i = 0; i < 4000; i++) {
        void * block = hsac_alloc(w->t->agent, HSAC_POOL_DATA, 4096 + (size_t) i);
        w->failures += !block;
        hsac_free(w->t->agent, block);
    }
    return NULL;
}

static void run_threads(const char * abi, const char * bugs, bool share) {
    struct bench t;
    bench_open(&t, abi, bugs);
    struct worker w[2];
    struct hsac_queue * shared = share ? queue_new(&t) : NULL;
    for (int i = 0; i < 2; i++) {
        w[i] = (struct worker){
            &t, share ? shared : queue_new(&t), output_new(&t), output_new(&t), i, 0};
        fill_a(w[i].a, i);
    }
    pthread_t threads[2], third;
    struct worker allocator = {.t = &t};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]), 0);
    }
    assert_int_equal(pthread_create(&third, NULL, allocate, &allocator), 0);
    pthread_join(third, NULL);
    assert_int_equal(allocator.failures, 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(w[i].failures, 0);
        if (!share) {
            hsac_queue_free(w[i].queue);
        }
    }
    hsac_queue_free(shared);
    hsac_close(t.h);
}

static void test_two_threads(void ** state) {
    (void) state;
    run_threads(NULL, "1", false);
    run_threads("D", NULL, false);
    run_threads("D", NULL, true);
}

// A design for aie2p beside an aie2: AMD's compiler made it, and it copies 4096 words.
static void test_aie2p(void ** state) {
    (void) state;
    enum { WORDS = 4096 };
    struct hsac * h;
    struct error err = {0};
    uint8_t *pdi = NULL, *insts = NULL;
    size_t pdi_size = 0, insts_size = 0;
    const char * folder = GOLDEN_DIR "/aie2p-kernels/i32-copy";
    if (file_read(GOLDEN_DIR "/aie2p-kernels/i32-copy/design.pdi", 1 << 20, &pdi, &pdi_size,
                  &err) ||
        file_read(GOLDEN_DIR "/aie2p-kernels/i32-copy/insts.bin", 1 << 20, &insts, &insts_size,
                  &err)) {
        skip_golden(folder);
    }
    rig_env("aie2,npu5,aie2p", NULL, NULL);
    must(hsac_open(&h, &err), &err);
    static const char * const names[][2] = {
        {"aie2", "RyzenAI-npu1"}, {"aie2p", "RyzenAI-npu5"}, {"aie2p", "RyzenAI-npu4"}};
    assert_int_equal(hsac_agent_count(h), 3);
    for (int i = 0; i < 3; i++) {
        struct hsac_agent * agent = hsac_agent_get(h, i);
        assert_string_equal(hsac_agent_name(agent), names[i][0]);
        assert_string_equal(hsac_agent_product(agent), names[i][1]);
        uint32_t * data = hsac_alloc(agent, HSAC_POOL_DATA, 4 * WORDS);
        uint32_t * copy = hsac_alloc(agent, HSAC_POOL_DATA, 4 * WORDS);
        for (uint32_t k = 0; k < WORDS; k++) {
            data[k] = k * 2654435761u + (uint32_t) i;
        }
        const struct hsac_dispatch d = {
            .pdi = upload(agent, pdi, pdi_size),
            .pdi_size = pdi_size,
            .insts = upload(agent, insts, insts_size),
            .n_insts = (uint32_t) (insts_size / 4),
            .n_operands = 2,
            .operands = {{data, 4 * WORDS}, {copy, 4 * WORDS}},
        };
        struct hsac_queue * q;
        must(hsac_queue_new(agent, &q, &err), &err);
        for (int turn = 0; turn < 2; turn++) {
            memset(copy, 0xff, 4 * WORDS);
            must(hsac_queue_dispatch(q, &d, &err), &err);
            enum status st = hsac_queue_wait(q, &err);
            if (i == 0) { // not for this one
                assert_int_not_equal(st, ST_OK);
                assert_non_null(strstr(err.text, "generation 4"));
                break;
            }
            must(st, &err);
            assert_memory_equal(copy, data, 4 * WORDS);
        }
        hsac_queue_free(q);
    }
    hsac_close(h);
    free(pdi);
    free(insts);
}

int main(void) {
    struct error err;
    // Left NULL where there are none: each test then skips with a word.
    file_read(GOLDEN_DIR "/aie2-kernels/single-add.pdi", 1 << 20, &pdi_file, &pdi_bytes, &err);
    file_read(GOLDEN_DIR "/aie2-kernels/single-add_insts.bin", 1 << 20, &insts_file, &insts_bytes,
              &err);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_abis),
        cmocka_unit_test(test_aie2p),
        cmocka_unit_test(test_200_packets),
        cmocka_unit_test(test_66_doorbells),
        cmocka_unit_test(test_40_pdis),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_free_flushes),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_stale_lists),
        cmocka_unit_test(test_handles_come_and_go),
        cmocka_unit_test(test_inside_of_buffers),
        cmocka_unit_test(test_accounts),
        cmocka_unit_test(test_batches_are_short),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(pdi_file);
    free(insts_file);
    return rc;
}

// Copies in a GPU's queue, and marks: that they happen in the order in which they were sent, that
// nobody waits for them who need not, and what becomes of them when something before them fails.
//
// A program is a string of steps for two queues. What it must leave behind is found by doing the
// same at once, in plain C. It is sent behind a mark that the test reaches by hand: until then
// nothing may have happened, though every call has returned.
#include "gpu-bench.h"

#include <pthread.h>
#include <time.h>

// A mark of nobody's queue, which the test reaches.
static struct hsac_mark * gate_new(struct hsac_agent * a) {
    struct hsac_mark * m = calloc(1, sizeof *m);
    m->agent = a;
    m->refs = 1;
    assert_int_equal(a->h->api.hsa_signal_create(1, 0, NULL, &m->signal), HSA_STATUS_SUCCESS);
    return m;
}

static void gate_open(struct hsac_mark * m) {
    m->agent->h->api.hsa_signal_store_screlease(m->signal, 0);
    hsac_mark_free(m);
}

// ---- order ----

// Two queues, each with a word in its GPU's memory, its own host memory, which it may use as it is,
// and memory of the program. Steps are a letter and, for the most part, a digit; those in capitals
// are the second queue's.
//
//   w5  5 is written to the word, out of the host pool    p5  out of the program's memory
//   s5  a kernel: three times the word, and 5             r   the word is read to the host pool
//   c   the other's word is copied here                   m   the other waits for what was sent so
//   far n   300 kernels, more than the queue has packets for
struct place {
    struct hsac_agent * agent;
    struct hsac_queue * queue;
    struct code step;
    uint32_t *word, *host; // host: 0 is what was read, and what is written comes behind it
    uint32_t n_host;
};

struct model { // the same at once
    uint32_t word, read;
};

enum { HOST_WORDS = 64 };

static struct place place_open(struct hsac * h, int index, const struct arch * arch) {
    struct place p = {.agent = hsac_agent_get(h, index)};
    OK(hsac_queue_new(p.agent, &p.queue, &err));
    p.step = code_load(h, p.agent, arch->flags, arch->step, CODE_STEP_WORDS);
    p.word = hsac_alloc(p.agent, HSAC_POOL_DATA, 64);
    p.host = hsac_alloc(p.agent, HSAC_POOL_HOST, HOST_WORDS * sizeof *p.host);
    assert_true(p.word && p.host);
    OK(hsac_fill(p.agent, p.word, 0, 64, &err));
    p.n_host = 1;
    p.host[0] = 0;
    return p;
}

static void place_close(struct hsac * h, struct place * p) {
    hsac_queue_free(p->queue);
    code_unload(h, &p->step);
    hsac_free(p->agent, p->word);
    hsac_free(p->agent, p->host);
}

static enum status send_step(struct place * p, uint32_t value, struct error * err) {
    struct step_args args = {p->word, value, 0, 0};
    struct hsac_launch l = launch_of(&p->step, &args);
    return hsac_queue_launch(p->queue, &l, err);
}

static void hand_over(struct place * from, struct place * to) {
    struct hsac_mark * m;
    OK(hsac_queue_mark(from->queue, &m, &err));
    OK(hsac_queue_after(to->queue, m, &err));
    hsac_mark_free(m);
}

static void copy_here(struct place * from, struct place * to) {
    hand_over(from, to);
    OK(hsac_queue_copy(to->queue, to->word, from->agent, from->word, sizeof *to->word, &err));
    hand_over(to, from);
}

static void run(const char * program, struct place places[2], struct model models[2]) {
    for (const char * at = program; *at; at++) {
        if (*at == ' ') {
            continue;
        }
        int second = *at < 'a';
        struct place *p = &places[second], *other = &places[!second];
        struct model *m = &models[second], *that = &models[!second];
        char step_name = second ? (char) (*at + 32) : *at;
        uint32_t value = strchr("wps", step_name) ? (uint32_t) (*++at - '0') : 0, local = value;
        switch (step_name) {
        case 'w':
            assert_true(p->n_host < HOST_WORDS);
            p->host[p->n_host] = value;
            OK(hsac_queue_write(p->queue, p->word, &p->host[p->n_host++], sizeof value, &err));
            m->word = value;
            break;
        case 'p':
            OK(hsac_queue_write(p->queue, p->word, &local, sizeof local, &err));
            local = 0xbad; // the caller's again
            m->word = value;
            break;
        case 's':
            OK(send_step(p, value, &err));
            m->word = step(m->word, value);
            break;
        case 'n':
            for (uint32_t i = 0; i < 300; i++) {
                OK(send_step(p, i, &err));
                m->word = step(m->word, i);
            }
            break;
        case 'r':
            OK(hsac_queue_read(p->queue, p->host, p->word, sizeof *p->host, &err));
            m->read = m->word;
            break;
        case 'c':
            copy_here(other, p);
            m->word = that->word;
            break;
        case 'm':
            hand_over(p, other);
            break;
        default:
            fail_msg("'%c' in '%s'", *at, program);
        }
    }
}

static void check(const char * program, struct place * p, const struct model * m) {
    uint32_t word;
    OK(hsac_queue_wait(p->queue, &err));
    OK(hsac_read(p->agent, &word, p->word, sizeof word, &err));
    if (word != m->word || p->host[0] != m->read) {
        fail_msg("'%s' on %s: the word is %u and not %u, %u was read and not %u", program,
                 hsac_agent_name(p->agent), word, m->word, p->host[0], m->read);
    }
}

static const struct {
    const char * program;
    bool waits; // for want of packets, or to hand over more than a barrier takes: not held up
} programs[] = {
    {"w5 r", false},
    {"w5 s1 r", false},
    {"p5 s1 r", false},
    {"s1 w5 r s2", false},
    {"w5 s1 r w6 s2", false},       // what was read is not what came then
    {"w1 w2 w3 r p4 p5 s6", false}, // copies in a row
    {"s1 s2 p7 s3 s4 r s5", false}, // kernel, copy, kernel
    {"w5 s1 C R", false},           // to the other GPU
    {"w5 s1 C S2 R c s3 r", false}, // and back
    {"w5 W6 C S1 c r w7 C R", false},
    {"w5 m S1 M s2 m S3 M r", false}, // marks alone
    {"w3 C w4 s1 R r", false},        // what the other still reads is not overwritten
    {"m m m m m S1 M M M M s1 C", false},
    {"n w5 n r", true},
    {"w5 n C N R c r", true},
};

static void one_program(struct hsac * h, struct place places[2], size_t i, bool held_up) {
    struct model models[2] = {{0}};
    struct hsac_mark * gate = gate_new(places[0].agent);
    const struct timespec moment = {.tv_nsec = 2000000};
    for (int k = 0; k < 2; k++) {
        OK(hsac_fill(places[k].agent, places[k].word, 0, 4, &err));
        places[k].host[0] = 0;
        places[k].n_host = 1;
        if (held_up) {
            OK(hsac_queue_after(places[k].queue, gate, &err));
        }
    }
    run(programs[i].program, places, models);
    if (held_up) {
        nanosleep(&moment, NULL);
        for (int k = 0; k < 2; k++) {
            uint32_t word = 1;
            OK(hsac_read(places[k].agent, &word, places[k].word, sizeof word, &err));
            if (word || places[k].host[0]) {
                fail_msg("'%s' was not held up", programs[i].program);
            }
        }
    }
    gate_open(gate);
    check(programs[i].program, &places[1], &models[1]); // which may wait for the first
    check(programs[i].program, &places[0], &models[0]);
    (void) h;
}

static void test_order(void ** state) {
    (void) state;
    static const struct {
        const char * names;
        int first, second; // of archs
    } pairs[] = {{"gfx90a,gfx1100", 0, 2}, {"gfx942,gfx942", 1, 1}};
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        struct hsac * h = open_agents(pairs[k].names);
        struct place places[2] = {place_open(h, 0, &archs[pairs[k].first]),
                                  place_open(h, 1, &archs[pairs[k].second])};
        for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
            one_program(h, places, i, !programs[i].waits);
            one_program(h, places, i, false);
        }
        place_close(h, &places[0]);
        place_close(h, &places[1]);
        hsac_close(h);
    }
}

// Many bytes in pieces of many sizes, through the slots and past them, and back.
static void test_many_bytes(void ** state) {
    (void) state;
    enum { N = 9 << 20 };
    static const size_t sizes[] = {
        1, 63, 64, 65, 4096, 100000, HSAC_SLOT_BYTES, HSAC_SLOT_BYTES + 1, 5 * HSAC_SLOT_BYTES + 7};
    struct hsac * h = open_agents("gfx1100");
    struct place p = place_open(h, 0, &archs[2]);
    uint8_t *device = hsac_alloc(p.agent, HSAC_POOL_DATA, N), *source = malloc(N),
            *want = calloc(1, N), *got = malloc(N);
    OK(hsac_fill(p.agent, device, 0, N, &err));
    uint32_t seed = 7;
    size_t n_sizes = sizeof sizes / sizeof sizes[0];
    for (int i = 0; i < 400; i++) {
        seed = seed * 1664525u + 1013904223u;
        size_t n = sizes[i % 40 ? (seed >> 8) % 6 : (size_t) i / 40 % n_sizes], at = seed % (N - n);
        memset(source, i + 1, n);
        OK(hsac_queue_write(p.queue, device + at, source, n, &err));
        memset(source, 0xee, n);
        memset(want + at, i + 1, n);
    }
    OK(hsac_queue_read(p.queue, got, device, N, &err)); // it has waited
    assert_memory_equal(got, want, N);
    OK(hsac_queue_write(p.queue, device, source, 0, &err)); // nothing
    OK(hsac_queue_wait(p.queue, &err));
    hsac_free(p.agent, device);
    free(source);
    free(want);
    free(got);
    place_close(h, &p);
    hsac_close(h);
}

// A mark outlives its queue, and is waited for by any thread.
static void * wait_for(void * mark) {
    return hsac_mark_wait(mark, NULL) == ST_OK ? mark : NULL;
}

static void test_marks(void ** state) {
    (void) state;
    struct hsac * h = open_agents("aie2,gfx1100");
    struct place p = place_open(h, 1, &archs[2]);
    struct hsac_mark *m, *none, *gate = gate_new(p.agent);
    struct hsac_queue * npu;
    pthread_t thread;
    void * waited;
    OK(hsac_queue_mark(p.queue, &none, &err));
    assert_null(none); // nothing is before it
    OK(hsac_mark_wait(none, &err));
    OK(hsac_queue_after(p.queue, gate, &err));
    OK(send_step(&p, 1, &err));
    OK(hsac_queue_mark(p.queue, &m, &err));
    assert_non_null(m);
    assert_int_equal(pthread_create(&thread, NULL, wait_for, m), 0);
    gate_open(gate);
    pthread_join(thread, &waited);
    assert_ptr_equal(waited, m);
    OK(hsac_queue_new(hsac_agent_get(h, 0), &npu, &err));
    OK(hsac_queue_after(npu, m, &err));
    OK(hsac_queue_mark(npu, &none, &err));
    assert_null(none);
    struct error err = {0};
    assert_int_equal(hsac_queue_write(npu, p.word, p.host, 4, &err), ST_INVALID);
    assert_int_equal(hsac_queue_copy(p.queue, p.word, hsac_agent_get(h, 0), p.host, 4, &err),
                     ST_UNSUPPORTED);
    hsac_queue_free(npu);
    place_close(h, &p);
    OK(hsac_mark_wait(m, &err));
    hsac_mark_free(m);
    hsac_mark_free(NULL);
    hsac_close(h);
}

// ---- errors ----

static hsa_status_t copy_refused(void * to, hsa_agent_t to_agent, const void * from,
                                 hsa_agent_t from_agent, size_t size, uint32_t n_deps,
                                 const hsa_signal_t * deps, hsa_signal_t completion) {
    (void) to, (void) to_agent, (void) from, (void) from_agent, (void) size, (void) n_deps;
    (void) deps, (void) completion;
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

static const struct hsac_api * real_api;

static hsa_status_t copy_fails(void * to, hsa_agent_t to_agent, const void * from,
                               hsa_agent_t from_agent, size_t size, uint32_t n_deps,
                               const hsa_signal_t * deps, hsa_signal_t completion) {
    (void) to, (void) to_agent, (void) from, (void) from_agent, (void) size, (void) n_deps;
    (void) deps;
    real_api->hsa_signal_store_screlease(completion, -1);
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t copy_lost(void * to, hsa_agent_t to_agent, const void * from,
                              hsa_agent_t from_agent, size_t size, uint32_t n_deps,
                              const hsa_signal_t * deps, hsa_signal_t completion) {
    (void) to, (void) to_agent, (void) from, (void) from_agent, (void) size, (void) n_deps;
    (void) deps, (void) completion;
    return HSA_STATUS_SUCCESS;
}

enum mishap { KERNEL, REFUSED, FAILS, LOST };

// "w5 s1 [the mishap] s2 r", and on the other queue, which waits for the first, "C R".
static void one_mishap(enum mishap mishap) {
    static const char * const says[] = {"no instruction", "copying 4 bytes", "a copy failed",
                                        "no sign of life for 1 s"};
    static __typeof__(hsa_amd_memory_async_copy) * const copies[] = {NULL, copy_refused, copy_fails,
                                                                     copy_lost};
    struct hsac * h = open_agents("gfx1100,gfx1100");
    struct place places[2] = {place_open(h, 0, &archs[2]), place_open(h, 1, &archs[2])};
    struct place *p = &places[0], *other = &places[1];
    static const uint32_t junk[] = {0xffffffff, 0xffffffff};
    struct code broken = code_load(h, p->agent, archs[2].flags, junk, 2);
    struct step_args args = {p->word, 1, 0, 0};
    struct hsac_launch illegal = launch_of(&broken, &args);
    const struct hsac_api real = h->api;
    struct error err = {0};
    struct hsac_mark * m;
    real_api = &real;
    p->host[1] = 5;
    if (mishap == LOST) {
        setenv("GGML_HSA_WAIT_LIMIT", "1", 1);
    }
    OK(hsac_queue_write(p->queue, p->word, &p->host[1], 4, &err));
    OK(hsac_queue_wait(p->queue, &err));
    OK(send_step(p, 1, &err));
    if (mishap == KERNEL) {
        OK(hsac_queue_launch(p->queue, &illegal, &err));
    } else {
        h->api.hsa_amd_memory_async_copy = copies[mishap];
        enum status st = hsac_queue_write(p->queue, p->word, &p->host[1], 4, &err);
        assert_int_equal(st, mishap == REFUSED ? ST_DEVICE : ST_OK);
        h->api = real;
    }
    OK(send_step(p, 2, &err));
    OK(hsac_queue_mark(p->queue, &m, &err));
    OK(hsac_queue_after(other->queue, m, &err));
    if (mishap == REFUSED) { // what is lost is not copied on
        assert_int_equal(hsac_queue_copy(other->queue, other->word, p->agent, p->word, 4, &err),
                         ST_DEVICE);
        assert_says(&err, "could not be written");
    } else {
        OK(hsac_queue_copy(other->queue, other->word, p->agent, p->word, 4, &err));
    }
    OK(hsac_queue_read(p->queue, p->host, p->word, 4, &err));
    // Who waits for the other first learns it as well, and nobody waits for ever.
    alarm(60);
    bool later = mishap != REFUSED; // it is told with the wait
    struct hsac_queue * order[] = {other->queue, p->queue};
    for (int i = 0; i < 2; i++) { // silence takes its time, for each that meets it
        struct hsac_queue * q = order[mishap == LOST ? !i : i];
        assert_int_equal(hsac_queue_wait(q, &err), later ? ST_DEVICE : ST_OK);
        if (later && q == p->queue) {
            assert_says(&err, says[mishap]);
        }
        assert_int_equal(hsac_mark_wait(m, &err), later ? ST_DEVICE : ST_OK);
    }
    alarm(0);
    unsetenv("GGML_HSA_WAIT_LIMIT");
    hsac_mark_free(m);
    // What the copies were to bring is lost, and is told to who uses it.
    assert_int_equal(hsac_agent_may_use(other->agent, other->word, 4, false, &err), ST_DEVICE);
    assert_int_equal(hsac_agent_may_use(p->agent, p->word, 4, false, &err), ST_DEVICE);
    // Told once, and then all is as ever.
    OK(hsac_queue_wait(p->queue, &err));
    OK(hsac_queue_wait(other->queue, &err));
    struct model models[2] = {{0}};
    for (int k = 0; k < 2; k++) {
        places[k].n_host = 1;
        OK(hsac_fill(places[k].agent, places[k].word, 0, 4, &err));
    }
    run("w5 s1 C S2 R c s3 r", places, models);
    check("after a mishap", other, &models[1]);
    check("after a mishap", p, &models[0]);
    assert_false(hsac_agent_has_lost(other->agent));
    code_unload(h, &broken);
    place_close(h, p);
    place_close(h, other);
    hsac_close(h);
}

static void test_a_kernel_fails(void ** state) {
    (void) state;
    one_mishap(KERNEL);
}

static void test_a_copy_is_refused(void ** state) {
    (void) state;
    one_mishap(REFUSED);
}

static void test_a_copy_fails(void ** state) {
    (void) state;
    one_mishap(FAILS);
}

static void test_a_copy_is_silent(void ** state) {
    (void) state;
    one_mishap(LOST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_many_bytes),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_a_kernel_fails),
        cmocka_unit_test(test_a_copy_is_refused),
        cmocka_unit_test(test_a_copy_fails),
        cmocka_unit_test(test_a_copy_is_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

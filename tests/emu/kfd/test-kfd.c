// The GPU below ROCr by itself: doorbells, queues, memory, errors, scratch, PM4, copy engines and
// the topology, with the test in the place of ROCr.
#include "base/stand-ins.h"
#include "host.h"

#include <ftw.h>
#include <pthread.h>

static struct host h;

// ---- doorbells ----

// A packet runs when it is rung for and not before, however often the same value is rung.
static void test_doorbell(void ** state) {
    (void) state;
    struct host_queue q = host_queue(&h);
    struct host_kernel k = host_kernel(&h);
    amd_signal_t * done = host_signal(&h, 3, 5);
    uint32_t * word = host_alloc(&h, 4);
    hsa_kernel_dispatch_packet_t p = host_packet(&k, 0, word, 7, done);
    // The page of doorbells is found when a 0, which may mean packet 0, was taken out of it.
    host_await((volatile int64_t *) &h.doorbells[q.slot], INT64_MIN);
    host_nap(20000);
    host_write(&q, &p);
    host_nap(20000);
    assert_int_equal(*word, 0);
    assert_int_equal(q.amd->read_dispatch_id, 0);
    host_ring(&h, &q, 0);
    host_await(&done->value, 2);
    assert_int_equal(*word, 7);
    assert_int_equal(q.amd->read_dispatch_id, 1);
    assert_int_equal(q.ring[0], HSA_PACKET_TYPE_INVALID);
    assert_true(__atomic_load_n(&h.events[5], __ATOMIC_RELAXED) > 0);
    assert_true(done->start_ts && done->end_ts >= done->start_ts);
    for (int64_t i = 1; i >= 0; i--) {
        host_write(&q, &p);
        host_ring(&h, &q, 0);
        host_await(&done->value, i);
    }
    assert_int_equal(*word, 3 * (3 * 7 + 7) + 7);
    host_queue_end(&h, &q);
}

// Queues take the lowest number that is free, as ROCr counts them; each has its own doorbell.
static void test_numbers(void ** state) {
    (void) state;
    struct host_queue q[3] = {host_queue(&h), host_queue(&h), host_queue(&h)};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(q[i].slot, i);
    }
    host_queue_end(&h, &q[1]);
    q[1] = host_queue(&h);
    assert_int_equal(q[1].slot, 1);
    amd_signal_t * s[4];
    for (int i = 0; i < 4; i++) {
        s[i] = host_signal(&h, 1, 0);
    }
    for (int i = 2; i >= 0; i--) { // each waits for the one before it
        hsa_barrier_and_packet_t p = {.header = HSA_PACKET_TYPE_BARRIER_AND,
                                      .dep_signal = {{0}, host_handle(s[i])},
                                      .completion_signal = host_handle(s[i + 1])};
        host_send(&h, &q[i], &p);
    }
    host_nap(5000);
    assert_int_equal(s[3]->value, 1);
    __atomic_store_n(&s[0]->value, 0, __ATOMIC_SEQ_CST);
    host_await(&s[3]->value, 0);
    // Removed while it stands before a barrier.
    hsa_barrier_and_packet_t p = {.header = HSA_PACKET_TYPE_BARRIER_OR,
                                  .dep_signal = {host_handle(host_signal(&h, 1, 0))}};
    host_send(&h, &q[0], &p);
    host_nap(5000);
    for (int i = 0; i < 3; i++) {
        host_queue_end(&h, &q[i]);
    }
}

// Of kernels without a barrier bit a strict GPU runs the last first.
static void test_order(void ** state) {
    (void) state;
    struct host_queue q = host_queue(&h);
    struct host_kernel k = host_kernel(&h);
    uint32_t * word = host_alloc(&h, 4);
    for (int barrier = 0; barrier < 2; barrier++) {
        amd_signal_t * done = host_signal(&h, 3, 0);
        uint32_t want = 0;
        *word = 0;
        for (uint32_t i = 0; i < 3; i++) {
            hsa_kernel_dispatch_packet_t p = host_packet(&k, (int) i, word, i + 1, done);
            p.header &= (uint16_t) (barrier ? 0xffff : ~(1 << HSA_PACKET_HEADER_BARRIER));
            host_write(&q, &p);
            want = 3 * want + (barrier ? i + 1 : 3 - i);
        }
        host_ring(&h, &q, 0);
        host_await(&done->value, 0);
        assert_int_equal(*word, want);
    }
    host_queue_end(&h, &q);
}

// ---- errors ----

static void expect_code(struct host_queue * q, const void * packet, amd_signal_t * done,
                        int64_t code) {
    host_send(&h, q, packet);
    host_await(&q->inactive->value, code);
    host_nap(2000);
    assert_int_equal(done->value, 1);
    assert_int_equal(q->amd->read_dispatch_id, 0);
    host_queue_end(&h, q);
}

// Memory that is allocated and not mapped to the GPU is not the GPU's; nor is it when the mapping
// was taken back.
static void test_memory(void ** state) {
    (void) state;
    struct host_kernel k = host_kernel(&h);
    amd_signal_t * done = host_signal(&h, 1, 0);
    uint32_t * word = host_memory(&h, HOST_PAGE, HOST_FLAG_WRITABLE);
    uint32_t * constant = host_memory(&h, HOST_PAGE, 0);
    host_grant(&h, constant, HOST_PAGE);
    uint32_t * const bad[] = {NULL, word, constant, word + HOST_PAGE / 4,
                              (uint32_t *) (uintptr_t) (HOST_APERTURE + 4096)};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct host_queue q = host_queue(&h);
        hsa_kernel_dispatch_packet_t p = host_packet(&k, 0, bad[i], 1, done);
        expect_code(&q, &p, done, 0x20000000);
    }
    host_grant(&h, word, HOST_PAGE);
    struct host_queue q = host_queue(&h);
    hsa_kernel_dispatch_packet_t p = host_packet(&k, 0, word, 5, done);
    host_send(&h, &q, &p);
    host_await(&done->value, 0);
    assert_int_equal(*word, 5);
    host_queue_end(&h, &q);
    host_revoke(&h, word, HOST_PAGE);
    done->value = 1;
    q = host_queue(&h);
    expect_code(&q, &p, done, 0x20000000);
    h.f->freed(h.gpu, word, HOST_PAGE);
    host_grant(&h, word, HOST_PAGE); // whoever maps it now: it is not allocated
    q = host_queue(&h);
    expect_code(&q, &p, done, 0x20000000);
}

// What the hardware reports for bad packets, as ROCr reads it.
static void test_errors(void ** state) {
    (void) state;
    struct host_kernel k = host_kernel(&h);
    amd_signal_t * done = host_signal(&h, 1, 0);
    uint32_t * word = host_alloc(&h, 4);
    hsa_kernel_dispatch_packet_t p[9];
    for (int i = 0; i < 9; i++) {
        p[i] = host_packet(&k, 0, word, 1, done);
    }
    p[0].header = HSA_PACKET_TYPE_AGENT_DISPATCH;
    p[1].workgroup_size_x = 0;
    p[2].grid_size_z = 0;
    p[3].workgroup_size_y = 1025;
    p[4].group_segment_size = 65537;
    p[5].kernel_object += 4;
    p[6].kernel_object = 64;
    p[7].completion_signal.handle = (uint64_t) (uintptr_t) word; // there, and no signal
    p[8].kernel_object = (uint64_t) (uintptr_t) k.args;          // there, and no code
    static const int64_t codes[] = {32, 2, 2, 64, 4, 8, 8, 0x20000000, 0x40000000};
    for (int i = 0; i < 9; i++) {
        struct host_queue q = host_queue(&h);
        expect_code(&q, &p[i], done, codes[i]);
    }
    assert_int_equal(*word, 0);
    // Nothing behind it runs, and another queue is none the worse.
    struct host_queue q = host_queue(&h), other = host_queue(&h);
    host_write(&q, &p[0]);
    hsa_kernel_dispatch_packet_t good = host_packet(&k, 1, word, 1, done);
    host_send(&h, &q, &good);
    host_await(&q.inactive->value, 32);
    host_nap(2000);
    assert_int_equal(*word, 0);
    host_send(&h, &other, &good);
    host_await(&done->value, 0);
    assert_int_equal(*word, 1);
    host_queue_end(&h, &q);
    host_queue_end(&h, &other);
}

// ---- scratch ----

// A kernel that needs scratch waits until ROCr gave it; what is to be used once goes back.
static void test_scratch(void ** state) {
    (void) state;
    struct host_queue q = host_queue(&h);
    struct host_kernel k = host_kernel(&h);
    amd_signal_t * done = host_signal(&h, 1, 0);
    uint32_t * word = host_alloc(&h, 4);
    hsa_kernel_dispatch_packet_t p = host_packet(&k, 0, word, 1, done);
    p.private_segment_size = 100;
    host_send(&h, &q, &p);
    host_await(&q.inactive->value, 0x400); // waves of 32
    host_nap(5000);
    assert_int_equal(*word, 0);
    q.amd->scratch_wave64_lane_byte_size = 50; // enough for half as many lanes
    __atomic_store_n(&q.inactive->value, 0, __ATOMIC_SEQ_CST);
    host_await(&done->value, 0);
    assert_int_equal(*word, 1);
    // Enough is there already.
    done->value = 1;
    host_send(&h, &q, &p);
    host_await(&done->value, 0);
    // Waves of 64 need twice as much, and ROCr wants it back.
    done->value = 1;
    code_u16(k.code + 56, 8);
    host_send(&h, &q, &p);
    host_await(&q.inactive->value, 1);
    q.amd->scratch_wave64_lane_byte_size = 100;
    q.amd->queue_properties = AMD_QUEUE_PROPERTIES_USE_SCRATCH_ONCE;
    __atomic_store_n(&q.inactive->value, 0, __ATOMIC_SEQ_CST);
    host_await(&q.inactive->value, 512);
    assert_int_equal(done->value, 1);
    q.amd->scratch_wave64_lane_byte_size = 0;
    __atomic_store_n(&q.amd->queue_properties, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&q.inactive->value, 0, __ATOMIC_SEQ_CST);
    host_await(&done->value, 0);
    // ROCr answers and gives nothing.
    done->value = 1;
    host_send(&h, &q, &p);
    host_await(&q.inactive->value, 1);
    __atomic_store_n(&q.inactive->value, 0, __ATOMIC_SEQ_CST);
    host_await(&q.inactive->value, 128);
    assert_int_equal(done->value, 1);
    host_queue_end(&h, &q);
}

// ---- PM4 ----

static void test_pm4(void ** state) {
    (void) state;
    struct host_queue q = host_queue(&h);
    amd_signal_t * done = host_signal(&h, 1, 0);
    uint32_t * buffer = host_alloc(&h, HOST_PAGE);
    uint64_t at = (uint64_t) (uintptr_t) buffer;
    // What ROCr sends when code was loaded: a jump to ACQUIRE_MEM, eight words of it.
    buffer[0] = 3u << 30 | 6u << 16 | 0x58 << 8;
    uint32_t packet[16] = {
        HSA_PACKET_TYPE_VENDOR_SPECIFIC | 1u << 16,
        3u << 30 | 2u << 16 | 0x3f << 8,
        (uint32_t) at,
        (uint32_t) (at >> 32),
        8 | 1u << 23,
        0xa,
    };
    memcpy(&packet[14], &done, 8);
    host_send(&h, &q, packet);
    host_await(&done->value, 0);
    host_queue_end(&h, &q);
    done->value = 1;
    static const struct {
        int word;
        uint32_t value;
    } bad[] = {
        {-1, 3u << 30 | 6u << 16 | 0x37 << 8}, // another command
        {-1, 3u << 30 | 7u << 16 | 0x58 << 8}, // longer than the buffer
        {-1, 0},
        {0, 0x30000}, // another format
        {1, 0},       // no jump
        {3, 0x12},    // to nowhere
        {4, 0xfffff}, // too long
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint32_t broken[16];
        memcpy(broken, packet, sizeof broken);
        buffer[0] = bad[i].word < 0 ? bad[i].value : 3u << 30 | 6u << 16 | 0x58 << 8;
        if (bad[i].word >= 0) {
            broken[bad[i].word] = bad[i].value;
        }
        struct host_queue other = host_queue(&h);
        expect_code(&other, broken, done, 256);
    }
}

// ---- copies ----

struct engine {
    struct kfd_queue * queue;
    uint32_t * ring;
    volatile uint64_t *read, *write;
    int slot;
};

enum { ENGINE_BYTES = 4096 };

static struct engine engine_new(void) {
    uint64_t * indices = host_alloc(&h, 16);
    struct engine e = {.ring = host_alloc(&h, ENGINE_BYTES), .read = indices, .write = indices + 1};
    struct kfd_queue_info info = {
        .ring = (uint64_t) (uintptr_t) e.ring,
        .write_index = (uint64_t) (uintptr_t) e.write,
        .read_index = (uint64_t) (uintptr_t) e.read,
        .ring_bytes = ENGINE_BYTES,
        .type = KFD_QUEUE_SDMA,
    };
    e.queue = h.f->add_queue(h.gpu, &info);
    assert_non_null(e.queue);
    e.slot = host_slot(&h);
    host_doorbells(&h);
    return e;
}

static void engine_end(struct engine * e) {
    h.f->remove_queue(h.gpu, e->queue);
    h.taken[e->slot] = false;
}

static void engine_put(struct engine * e, uint64_t * at, const uint32_t * words, int n) {
    for (int i = 0; i < n; i++, *at += 4) {
        e->ring[*at % ENGINE_BYTES / 4] = words[i];
    }
}

static void engine_ring(struct engine * e, uint64_t at) {
    __atomic_store_n(e->write, at, __ATOMIC_SEQ_CST);
    __atomic_store_n(&h.doorbells[e->slot], at, __ATOMIC_SEQ_CST);
}

#define LO(p) ((uint32_t) (uintptr_t) (p))
#define HI(p) ((uint32_t) ((uint64_t) (uintptr_t) (p) >> 32))
#define PUT(...)                                                                                   \
    engine_put(&e, &at, (const uint32_t[]){__VA_ARGS__},                                           \
               (int) (sizeof((const uint32_t[]){__VA_ARGS__}) / 4))

static void test_copies(void ** state) {
    (void) state;
    enum { N = 100000 };
    struct engine e = engine_new();
    uint8_t *a = host_alloc(&h, N), *b = host_alloc(&h, N);
    uint64_t * time = host_alloc(&h, 8);
    amd_signal_t *gate = host_signal(&h, 1, 0), *done = host_signal(&h, 1, 6);
    for (int i = 0; i < N; i++) {
        a[i] = (uint8_t) (i * 7 >> 3);
    }
    uint64_t at = 0;
    // As ROCr has it: wait for a signal, the time, flushes, the copy, take 1 from a signal.
    PUT(8 | 3u << 28 | 1u << 31, LO(&gate->value), HI(&gate->value), 0, ~0u, 0xfff0004);
    PUT(13 | 2 << 8, LO(time), HI(time));
    PUT(8, 0, 0x80000000, 0, 0, 0);
    PUT(17 | 1 << 8, 0, 0, 0, 0);
    PUT(1, N - 3 - 1, 0, LO(a + 1), HI(a + 1), LO(b + 2), HI(b + 2));
    PUT(10 | 47u << 25, LO(&done->value), HI(&done->value), ~0u, ~0u, 0, 0, 0);
    PUT(0, 2 << 16, 0, 0); // nothing, in two ways
    engine_ring(&e, at);
    host_nap(5000);
    assert_int_equal(done->value, 1);
    __atomic_store_n(&gate->value, 0, __ATOMIC_SEQ_CST);
    host_await(&done->value, 0);
    assert_memory_equal(b + 2, a + 1, N - 3);
    assert_true(*time && b[0] == 0 && b[1] == 0 && b[N - 1] == 0);
    assert_true(__atomic_load_n(&h.events[6], __ATOMIC_RELAXED) > 0);
    // Around the ring: words filled, a word written, an interrupt.
    done->value = 50;
    uint32_t * fence = host_alloc(&h, 4);
    for (uint32_t i = 0; i < 50; i++) {
        if (at % ENGINE_BYTES > ENGINE_BYTES - 100) {
            while (at % ENGINE_BYTES) {
                PUT(0);
            }
        }
        PUT(11 | 2u << 30, LO(b + 4 * i), HI(b + 4 * i), 0x01010101 * i, 4 * 10 - 4);
        PUT(5 | 3 << 16, LO(fence), HI(fence), 1000 + i);
        PUT(10 | 47u << 25, LO(&done->value), HI(&done->value), ~0u, ~0u, 0, 0, 0);
        PUT(6, 7);
        engine_ring(&e, at);
        host_await(&done->value, 49 - (int64_t) i);
        host_await((volatile int64_t *) e.read, (int64_t) at);
        assert_int_equal(*fence, 1000 + i);
        assert_true(b[4 * i + 39] == i && b[4 * i + 40] != i + 1);
    }
    assert_true(__atomic_load_n(&h.events[7], __ATOMIC_RELAXED) >= 50);
    engine_end(&e);
    // What it does not know, and memory that is not the GPU's, stop it; others go on.
    uint8_t * theirs = host_memory(&h, HOST_PAGE, HOST_FLAG_WRITABLE);
    for (int i = 0; i < 4; i++) {
        e = engine_new();
        at = 0;
        done->value = 1;
        if (i == 0) {
            PUT(99);
        } else if (i == 1) {
            PUT(1 | 4 << 8, 0, 0, 0, 0, 0, 0);
        } else {
            uint8_t *from = i == 2 ? theirs : a, *to = i == 2 ? b : theirs;
            PUT(1, 15, 0, LO(from), HI(from), LO(to), HI(to));
        }
        PUT(10 | 47u << 25, LO(&done->value), HI(&done->value), ~0u, ~0u, 0, 0, 0);
        engine_ring(&e, at);
        host_nap(5000);
        assert_true(done->value == 1 && *e.read == 0 && theirs[0] == 0);
        engine_end(&e);
    }
    // One that waits can be removed.
    e = engine_new();
    at = 0;
    PUT(8 | 3u << 28 | 1u << 31, LO(&done->value), HI(&done->value), 0, ~0u, 0xfff0004);
    engine_ring(&e, at);
    host_nap(5000);
    engine_end(&e);
}

// ---- topology ----

static int remove_one(const char * path, const struct stat * info, int kind, struct FTW * at) {
    (void) info, (void) kind, (void) at;
    return remove(path);
}

static void test_topology(void ** state) {
    (void) state;
    char dir[] = "/tmp/test-kfd-XXXXXX", path[128];
    assert_non_null(mkdtemp(dir));
    struct error err = {0};
    const struct emu_gpu_model * found;
    assert_int_equal(kfd_topology_gpu(dir, &found, &err), ST_NOT_FOUND);
    assert_non_null(strstr(err.text, dir));
    for (int i = 0; i < EMU_GPU_MODELS; i++) {
        assert_int_equal(kfd_topology_write(dir, &emu_gpu_models[i], &err), ST_OK);
        assert_int_equal(kfd_topology_gpu(dir, &found, &err), ST_OK);
        assert_ptr_equal(found, &emu_gpu_models[i]);
    }
    snprintf(path, sizeof path, "%s/nodes/1/properties", dir);
    FILE * f = fopen(path, "w");
    assert_true(f && fputs("simd_count 4\ngfx_target_version 120000\n", f) > 0 && fclose(f) == 0);
    assert_int_equal(kfd_topology_gpu(dir, &found, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "120000"));
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(kfd_topology_gpu(dir, &found, &err), ST_UNSUPPORTED);
    for (int kind = 0; stand_ins[kind]; kind++) {
        struct stand_in s;
        unlink(path);
        if (stand_in_make(&s, kind, path)) {
            assert_int_equal(kfd_topology_write(dir, &emu_gpu_models[0], &err), ST_IO);
            stand_in_check(&s, kind, "kfd-topology");
            assert_non_null(strstr(err.text, path));
        }
    }
    assert_int_equal(kfd_topology_write(dir, &emu_gpu_models[0], &err), ST_OK);
    snprintf(path, sizeof path, "%s/nodes/1/properties/more", dir);
    assert_int_equal(kfd_topology_write(path, &emu_gpu_models[0], &err), ST_IO);
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int open_all(void ** state) {
    (void) state;
    static char dir[] = "/tmp/test-kfd-XXXXXX";
    const struct emu_gpu_model * const gpu = emu_gpu_model("gfx1100", 7);
    assert_non_null(mkdtemp(dir));
    assert_int_equal(kfd_topology_write(dir, gpu, NULL), ST_OK);
    setenv("HSA_MODEL_TOPOLOGY", dir, 1);
    setenv("GGML_HSA_EMU_STRICT", "1", 1);
    host_open(&h);
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doorbell), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_order),    cmocka_unit_test(test_memory),
        cmocka_unit_test(test_errors),   cmocka_unit_test(test_scratch),
        cmocka_unit_test(test_pm4),      cmocka_unit_test(test_copies),
        cmocka_unit_test(test_topology),
    };
    return cmocka_run_group_tests(tests, open_all, NULL);
}

// Kernels that clang compiles, through the HSA API, on each of the emulated GPUs: arithmetic, LDS
// and barriers, atomics, three dimensions, scratch memory, variables, and stores that hardware
// faults on.
#include "gpu.h"

#include "compile.h"

static const char * const archs[] = {"gfx90a", "gfx942", "gfx1100"};

struct setup {
    struct rig r;
    hsa_agent_t gpu;
    struct gpu_code code;
    uint8_t * data;
    hsa_queue_t * queue;
    struct gpu_failure failure;
    hsa_signal_t done;
    void * kernarg;
};

static void open_setup_env(struct setup * s, const char * arch, bool strict) {
    memset(s, 0, sizeof *s);
    size_t size;
    s->data = compile_kernels(arch, &size);
    rig_env(arch, NULL, NULL);
    setenv("GGML_HSA_EMU_STRICT", strict ? "1" : "0", 1);
    rig_open(&s->r);
    s->gpu = s->r.gpus[0].agent;
    gpu_load(&s->r, s->gpu, s->data, size, &s->code);
    s->queue = gpu_queue(&s->r, s->gpu, &s->failure);
    assert_int_equal(s->r.hsa_signal_create(1, 0, NULL, &s->done), 0);
    s->kernarg = gpu_shared(&s->r, s->gpu, s->r.cpu_kernarg, 4096);
}

static void open_setup(struct setup * s, const char * arch) {
    open_setup_env(s, arch, false);
}

static void close_setup(struct setup * s) {
    rig_close(&s->r);
    free(s->data);
}

static void * shared(struct setup * s, size_t size) {
    return gpu_shared(&s->r, s->gpu, s->r.system, size);
}

static hsa_kernel_dispatch_packet_t packet(struct setup * s, const char * name, const void * args,
                                           size_t size, uint32_t grid, uint16_t group) {
    struct gpu_kernel k = gpu_find(&s->r, s->gpu, &s->code, name);
    assert_true(size >= k.kernarg && k.kernarg > size - 8);
    memcpy(s->kernarg, args, size);
    s->r.hsa_signal_store_relaxed(s->done, 1);
    return gpu_packet(&k, s->kernarg, grid, group, s->done);
}

static void finish(struct setup * s) {
    for (int i = 0; i < 1200; i++) { // a minute
        if (s->r.hsa_signal_wait_scacquire(s->done, HSA_SIGNAL_CONDITION_LT, 1, 50000000,
                                           HSA_WAIT_STATE_BLOCKED) == 0) {
            return;
        }
        if (__atomic_load_n(&s->failure.status, __ATOMIC_ACQUIRE)) {
            break;
        }
    }
    fail_msg("%s", s->r.hsa_emu_last_error(s->gpu));
}

static void run(struct setup * s, const char * name, const void * args, size_t size, uint32_t grid,
                uint16_t group) {
    hsa_kernel_dispatch_packet_t p = packet(s, name, args, size, grid, group);
    gpu_send(&s->r, s->queue, &p);
    finish(s);
}

static void check_add(struct setup * s) {
    enum { N = 100003 };
    float *a = shared(s, 4 * N), *b = shared(s, 4 * N), *c = shared(s, 4 * N);
    for (int i = 0; i < N; i++) {
        a[i] = (float) i * 0.25f;
        b[i] = (float) (N - i) * 1.5f;
    }
    struct {
        const float *a, *b;
        float * c;
        uint32_t n;
    } args = {a, b, c, N};
    run(s, "add.kd", &args, sizeof args, (N + 255) / 256 * 256, 256);
    for (int i = 0; i < N; i++) {
        assert_true(c[i] == a[i] + b[i]);
    }
    // A grid that is not whole groups.
    memset(c, 0, 4 * N);
    run(s, "add.kd", &args, sizeof args, 1000, 96);
    for (int i = 0; i < N; i++) {
        assert_true(c[i] == (i < 1000 ? a[i] + b[i] : 0.0f));
    }
    hsa_amd_profiling_dispatch_time_t time = {0};
    assert_int_equal(s->r.hsa_amd_profiling_get_dispatch_time(s->gpu, s->done, &time), 0);
    assert_true(time.end > time.start);
}

static void check_reduce(struct setup * s) {
    enum { N = 10000, GROUPS = (N + 255) / 256 };
    uint32_t * in = shared(s, 4 * N);
    uint64_t * out = shared(s, 8 * GROUPS);
    for (uint32_t i = 0; i < N; i++) {
        in[i] = i * 2654435761u >> 3;
    }
    struct {
        const uint32_t * in;
        uint64_t * out;
        uint32_t n;
    } args = {in, out, N};
    run(s, "reduce.kd", &args, sizeof args, GROUPS * 256, 256);
    for (int g = 0; g < GROUPS; g++) {
        uint64_t sum = 0;
        for (int i = g * 256; i < N && i < g * 256 + 256; i++) {
            sum += (uint64_t) in[i] * in[i];
        }
        assert_int_equal(out[g], sum);
    }
}

static void check_count(struct setup * s) {
    enum { N = 20000 };
    uint32_t *in = shared(s, 4 * N), *bins = shared(s, 64), *max = shared(s, 4);
    uint64_t * total = shared(s, 8);
    memset(bins, 0, 64);
    *max = 0;
    *total = 0;
    uint32_t expected[16] = {0}, most = 0;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < N; i++) {
        in[i] = i * 2654435761u >> 5;
        expected[in[i] % 16]++;
        sum += in[i];
        most = in[i] > most ? in[i] : most;
    }
    struct {
        const uint32_t * in;
        uint32_t * bins;
        uint64_t * total;
        uint32_t * max;
        uint32_t n;
    } args = {in, bins, total, max, N};
    run(s, "count.kd", &args, sizeof args, (N + 127) / 128 * 128, 128);
    assert_memory_equal(bins, expected, sizeof expected);
    assert_int_equal(*total, sum);
    assert_int_equal(*max, most);
}

static void check_volume(struct setup * s) {
    enum { W = 19, H = 7, D = 5 };
    uint32_t * out = shared(s, 4 * W * H * D);
    struct {
        uint32_t * out;
        uint32_t w, h, d, turn;
    } args = {out, W, H, D, 3};
    hsa_kernel_dispatch_packet_t p = packet(s, "volume.kd", &args, sizeof args, W, 8);
    p.setup = 3;
    p.grid_size_y = H;
    p.grid_size_z = D;
    p.workgroup_size_y = 4;
    p.workgroup_size_z = 2;
    gpu_send(&s->r, s->queue, &p);
    finish(s);
    for (uint32_t z = 0; z < D; z++) {
        for (uint32_t y = 0; y < H; y++) {
            for (uint32_t x = 0; x < W; x++) {
                assert_int_equal(out[(z * H + y) * W + x], 2 * (x * 10000 + y * 100 + z) + 7);
            }
        }
    }
}

static void check_variables(struct setup * s) {
    uint32_t * out = shared(s, 4);
    run(s, "variables.kd", &out, sizeof out, 1, 1);
    assert_int_equal(*out, 42);
    run(s, "variables.kd", &out, sizeof out, 1, 1);
    assert_int_equal(*out, 102);
    hsa_executable_symbol_t symbol;
    uint64_t address;
    assert_int_equal(
        s->r.hsa_executable_get_symbol_by_name(s->code.executable, "counter", &s->gpu, &symbol), 0);
    assert_int_equal(s->r.hsa_executable_symbol_get_info(
                         symbol, HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS, &address),
                     0);
    *(uint32_t *) (uintptr_t) address = 7;
    run(s, "variables.kd", &out, sizeof out, 1, 1);
    assert_int_equal(*out, 9);
}

static void test_kernels(void ** state) {
    (void) state;
    for (int i = 0; i < 3; i++) {
        struct setup s;
        open_setup(&s, archs[i]);
        check_add(&s);
        check_reduce(&s);
        check_count(&s);
        check_volume(&s);
        check_variables(&s);
        struct hsa_emu_counters c;
        assert_int_equal(s.r.hsa_emu_counters(s.gpu, &c), 0);
        assert_int_equal(c.dispatches, 8);
        assert_int_equal(c.errors, 0);
        uint64_t sum = 0;
        struct hsa_emu_launch l = {.size = sizeof l};
        for (uint64_t n = 1; n <= 8; n++) {
            assert_int_equal(s.r.hsa_emu_launch(s.gpu, n, &l), 0);
            assert_int_equal(l.number, n);
            uint64_t kinds = 0;
            for (int k = 0; k < HSA_EMU_KINDS; k++) {
                kinds += strcmp(l.kinds[k].name, "dual") ? l.kinds[k].instructions : 0;
            }
            assert_int_equal(kinds, l.instructions);
            sum += l.instructions;
        }
        assert_int_equal(sum, c.bundles);
        assert_string_equal(l.kernel, "variables");
        assert_int_equal(l.grid[0] * l.group[0], 1);
        assert_int_equal(s.r.hsa_emu_launch(s.gpu, 9, &l), HSA_STATUS_ERROR_INVALID_INDEX);
        print_message("%s: %llu instructions of waves\n", archs[i], (unsigned long long) c.bundles);
        close_setup(&s);
    }
}

static uint64_t faulted; // atomic

static hsa_status_t on_event(const hsa_amd_event_t * event, void * data) {
    assert_int_equal(event->memory_fault.agent.handle, *(uint64_t *) data);
    __atomic_store_n(&faulted, event->memory_fault.virtual_address, __ATOMIC_RELEASE);
    return HSA_STATUS_SUCCESS;
}

// Stores that the queue must not survive, one for each kind of memory that a kernel cannot write.
static void test_faults(void ** state) {
    (void) state;
    for (int i = 0; i < 3; i++) {
        struct setup s;
        open_setup(&s, archs[i]);
        assert_int_equal(s.r.hsa_amd_register_system_event_handler(on_event, &s.gpu.handle), 0);
        uint32_t * ours = shared(&s, 4096);
        uint32_t * theirs = rig_alloc(&s.r, s.r.system, 4096); // nobody granted it
        uint32_t * freed = rig_alloc(&s.r, s.r.gpus[0].vram, 4096);
        assert_int_equal(s.r.hsa_amd_memory_pool_free(freed), 0);
        static uint32_t plain;
        struct gpu_kernel k = gpu_find(&s.r, s.gpu, &s.code, "poke.kd");
        uint32_t * const bad[] = {
            NULL,        theirs, freed,
            ours + 1024, &plain, (uint32_t *) (uintptr_t) k.object}; // the last is read only
        for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
            __atomic_store_n(&faulted, 1, __ATOMIC_RELAXED);
            s.failure.status = HSA_STATUS_SUCCESS;
            hsa_kernel_dispatch_packet_t p = packet(&s, "poke.kd", &bad[n], 8, 64, 64);
            gpu_send(&s.r, s.queue, &p);
            assert_int_equal(gpu_await_failure(&s.failure), HSA_STATUS_ERROR_MEMORY_FAULT);
            assert_int_equal(__atomic_load_n(&faulted, __ATOMIC_ACQUIRE), (uintptr_t) bad[n]);
            assert_int_equal(s.r.hsa_signal_load_scacquire(s.done), 1);
            assert_int_equal(s.r.hsa_queue_destroy(s.queue), 0);
            s.queue = gpu_queue(&s.r, s.gpu, &s.failure);
        }
        assert_int_equal(plain, 0);
        // Locked, it may be written; and the agent is none the worse for it all.
        void * locked;
        s.failure.status = HSA_STATUS_SUCCESS;
        assert_int_equal(s.r.hsa_amd_memory_lock(&plain, sizeof plain, &s.gpu, 1, &locked), 0);
        assert_ptr_not_equal(locked, &plain);
        run(&s, "poke.kd", &locked, 8, 64, 64);
        assert_int_equal(plain, 1);
        plain = 0;
        close_setup(&s);
    }
}

// Two queues of one GPU, each waiting for the other's work by turns.
static void test_two_queues(void ** state) {
    (void) state;
    struct setup s;
    open_setup(&s, "gfx90a");
    enum { TURNS = 20 };
    hsa_queue_t * queues[2] = {s.queue, gpu_queue(&s.r, s.gpu, &s.failure)};
    hsa_signal_t turns[TURNS];
    uint32_t * out = shared(&s, 4);
    memcpy(s.kernarg, &out, 8);
    struct gpu_kernel k = gpu_find(&s.r, s.gpu, &s.code, "variables.kd");
    for (int i = 0; i < TURNS; i++) {
        assert_int_equal(s.r.hsa_signal_create(1, 0, NULL, &turns[i]), 0);
    }
    for (int i = TURNS - 1; i >= 0; i--) { // the last ones first
        hsa_barrier_and_packet_t wait = {.header = HSA_PACKET_TYPE_BARRIER_AND |
                                                   1 << HSA_PACKET_HEADER_BARRIER};
        if (i > 0) {
            wait.dep_signal[2] = turns[i - 1];
        }
        if (i < 2) {
            hsa_kernel_dispatch_packet_t p = gpu_packet(&k, s.kernarg, 1, 1, turns[i]);
            gpu_send(&s.r, queues[i % 2], &wait);
            gpu_send(&s.r, queues[i % 2], &p);
        } else {
            wait.completion_signal = turns[i];
            hsa_queue_t * q = gpu_queue(&s.r, s.gpu, &s.failure);
            gpu_send(&s.r, q, &wait);
        }
    }
    assert_int_equal(gpu_wait(&s.r, turns[TURNS - 1]), 0);
    assert_int_equal(*out, 102);
    close_setup(&s);
}

// b = a + a, then c = b + a. Without a barrier bit a strict GPU runs the second one first.
static float chain(struct setup * s, bool barrier) {
    enum { N = 64 };
    struct {
        const float *a, *b;
        float * c;
        uint32_t n;
    } * args[2];
    float *a = shared(s, 4 * N), *b = shared(s, 4 * N), *c = shared(s, 4 * N);
    struct gpu_kernel k = gpu_find(&s->r, s->gpu, &s->code, "add.kd");
    for (int i = 0; i < N; i++) {
        a[i] = 1;
        b[i] = c[i] = 0;
    }
    s->r.hsa_signal_store_relaxed(s->done, 2);
    // The second is there before the first can be seen.
    uint64_t first = s->r.hsa_queue_add_write_index_relaxed(s->queue, 2);
    for (int i = 1; i >= 0; i--) {
        args[i] = gpu_shared(&s->r, s->gpu, s->r.cpu_kernarg, sizeof **args);
        args[i]->a = a;
        args[i]->b = i ? b : a;
        args[i]->c = i ? c : b;
        args[i]->n = N;
        hsa_kernel_dispatch_packet_t p = gpu_packet(&k, args[i], N, N, s->done);
        p.header &= (uint16_t) ~(barrier ? 0 : 1 << HSA_PACKET_HEADER_BARRIER);
        gpu_put(&s->r, s->queue, first + (uint64_t) i, &p);
    }
    s->r.hsa_signal_store_screlease(s->queue->doorbell_signal, (hsa_signal_value_t) first + 1);
    finish(s);
    assert_int_equal(s->r.hsa_queue_load_read_index_scacquire(s->queue), first + 2);
    assert_true(b[N - 1] == 2);
    return c[N - 1];
}

static void test_strict(void ** state) {
    (void) state;
    for (int strict = 0; strict < 2; strict++) {
        struct setup s;
        open_setup_env(&s, "gfx1100", strict);
        assert_true(chain(&s, true) == 3);
        assert_true(chain(&s, false) == (strict ? 1 : 3));
        assert_true(chain(&s, true) == 3);
        uint8_t got[2], *fresh = rig_alloc(&s.r, s.r.gpus[0].vram, 10000);
        assert_int_equal(s.r.hsa_memory_copy(got, fresh + 9998, 2), 0);
        assert_int_equal(got[1], strict ? 0xff : 0);
        // What asks for nothing that is not promised is right all the same.
        check_reduce(&s);
        check_count(&s);
        check_volume(&s);
        close_setup(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_two_queues),
        cmocka_unit_test(test_strict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

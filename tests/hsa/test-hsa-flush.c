// flush: what the client flushes is what the host touched, and the packets' operands declare
// nothing; both are in the account. With caches that are real and an array that forgets, mistakes
// of each kind show: bytes of host and NPU in one line, and a dispatch that relies on what the one
// before it left behind. Each case has a process of its own, because the client reads what is asked
// of it once.
#include "runtime/rig.h"

#include "aie/aie.h"
#include "aie/image/image.h"
#include "hsa/hsac.h"

#include <sys/wait.h>
#include <unistd.h>

enum { ELEMENTS = 1024, BYTES = 4 * ELEMENTS, LINE = 64, OPERANDS = 3 };

static const char * const archs[] = {"aie2", "aie2p"};

struct bench {
    struct hsac * h;
    struct hsac_agent * agent;
    struct hsac_queue * q;
    struct kernel_code code;
    struct hsac_dispatch d;
    char * memory; // of the operands, and room for more
};

// In a child, where asserts of cmocka's have no place.
#define CHECK(ok)                                                                                  \
    do {                                                                                           \
        if (!(ok)) {                                                                               \
            fprintf(stderr, "line %d: %s\n", __LINE__, #ok);                                       \
            _exit(3);                                                                              \
        }                                                                                          \
    } while (0)

static void must(enum status st, const struct error * err) {
    if (st != ST_OK) {
        fprintf(stderr, "%s\n", err->text);
        _exit(2);
    }
}

static void * upload(struct bench * t, enum hsac_pool pool, const void * from, size_t size) {
    void * to = hsac_alloc(t->agent, pool, size);
    CHECK(to);
    must(hsac_write(t->agent, to, from, size, NULL), NULL);
    return to;
}

static void open_bench(struct bench * t, const char * arch) {
    struct error err = {0};
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .n_inputs = 2};
    rig_env(arch, NULL, NULL);
    CHECK(kernel_arch_parse(arch, &spec.arch));
    spec.inputs[0] = spec.inputs[1] = spec.output =
        tensor_contiguous(DTYPE_F32, (const int64_t[TENSOR_DIMS]){ELEMENTS, 1, 1, 1});
    must(hsac_open(&t->h, &err), &err);
    t->agent = hsac_agent_get(t->h, 0);
    must(aie_compile(&spec, &t->code, &err), &err);
    must(hsac_queue_new(t->agent, &t->q, &err), &err);
    t->memory = hsac_alloc(t->agent, HSAC_POOL_DATA, 4 * BYTES);
    CHECK(t->memory);
    t->d = (struct hsac_dispatch){
        .pdi = upload(t, HSAC_POOL_DEV, t->code.pdi, t->code.pdi_size),
        .pdi_size = t->code.pdi_size,
        .insts = upload(t, HSAC_POOL_STREAM, t->code.insts, 4 * t->code.n_insts),
        .n_insts = (uint32_t) t->code.n_insts,
        .n_operands = OPERANDS,
    };
    for (int i = 0; i < OPERANDS; i++) {
        t->d.operands[i].addr = t->memory + (size_t) i * BYTES;
        t->d.operands[i].size = BYTES;
    }
    float values[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        values[i] = (float) (i + 1);
    }
    must(hsac_write(t->agent, t->memory, values, BYTES, &err), &err);
    must(hsac_write(t->agent, t->memory + BYTES, values, BYTES, &err), &err);
}

static void close_bench(struct bench * t) {
    kernel_code_free(&t->code);
    hsac_queue_free(t->q);
    hsac_close(t->h);
}

// 0: all are what they should be.
static int wrong(struct bench * t, const char * at) {
    float values[ELEMENTS];
    int n = 0;
    must(hsac_read(t->agent, values, at, BYTES, NULL), NULL);
    for (int i = 0; i < ELEMENTS; i++) {
        n += values[i] != 2 * (float) (i + 1);
    }
    return n;
}

static uint64_t flushed(const struct bench * t, double * us) {
    struct hsac_account a;
    CHECK(hsac_agent_account(t->agent, &a));
    for (int i = 0; i < HSAC_CAUSES; i++) {
        if (us && a.causes[i].name && !strcmp(a.causes[i].name, "flush")) {
            *us = (double) a.causes[i].cycles / (double) a.mhz;
        }
    }
    return a.flushed;
}

// ---- what is flushed ----

static int counts(const char * arch) {
    struct bench t;
    struct error err = {0};
    open_bench(&t, arch);
    must(hsac_queue_dispatch(t.q, &t.d, &err), &err);
    must(hsac_queue_wait(t.q, &err), &err);
    CHECK(wrong(&t, t.memory + 2 * BYTES) == 0);
    uint64_t own = hsac_agent_flushed(t.agent), all = flushed(&t, NULL);
    for (int i = 0; i < 4; i++) {
        must(hsac_queue_dispatch(t.q, &t.d, &err), &err);
    }
    must(hsac_queue_wait(t.q, &err), &err);
    CHECK(hsac_agent_flushed(t.agent) == own); // nobody touched anything
    CHECK(flushed(&t, NULL) - all == 4 * OPERANDS * 2 * LINE);
    CHECK(wrong(&t, t.memory + 2 * BYTES) == 0);
    CHECK(hsac_agent_flushed(t.agent) - own == BYTES);
    // 9 us for 10^6 bytes.
    enum { MANY = 1000 };
    double before = 0, after = 0;
    flushed(&t, &before);
    for (int i = 0; i < MANY; i++) {
        hsac_host_begin(t.agent, t.memory, BYTES);
    }
    flushed(&t, &after);
    CHECK(after - before > 0.99 * MANY * BYTES * 9e-6 &&
          after - before < 1.01 * MANY * BYTES * 9e-6);
    close_bench(&t);
    return 0;
}

// What it would be: all that operands own, before and after.
static int declared(const char * arch) {
    struct bench t;
    struct error err = {0};
    setenv("GGML_HSA_FLUSH", "declared", 1);
    open_bench(&t, arch);
    must(hsac_queue_dispatch(t.q, &t.d, &err), &err);
    must(hsac_queue_wait(t.q, &err), &err);
    uint64_t all = flushed(&t, NULL);
    CHECK(wrong(&t, t.memory + 2 * BYTES) == 0); // the runtime has flushed it
    must(hsac_queue_dispatch(t.q, &t.d, &err), &err);
    must(hsac_queue_wait(t.q, &err), &err);
    CHECK(flushed(&t, NULL) - all == OPERANDS * 2 * BYTES);
    close_bench(&t);
    return 0;
}

static int unknown(const char * arch) {
    struct hsac * h;
    struct hsac_queue * q;
    struct error err = {0};
    rig_env(arch, NULL, NULL);
    setenv("GGML_HSA_FLUSH", "often", 1);
    must(hsac_open(&h, &err), &err);
    CHECK(hsac_queue_new(hsac_agent_get(h, 0), &q, &err) == ST_INVALID);
    CHECK(strstr(err.text, "GGML_HSA_FLUSH=often"));
    hsac_close(h);
    return 0;
}

// ---- mistakes ----

// The host writes bytes behind the result while a dispatch is in flight. It says so, but where they
// are in one line with the result's end, that does not help.
static int writes_behind(struct bench * t, size_t apart) {
    struct error err = {0};
    char * result = t->memory + 2 * BYTES + LINE / 2;
    char * beside = result + BYTES + apart;
    t->d.operands[2].addr = result;
    must(hsac_fill(t->agent, result, 0, BYTES, &err), &err);
    must(hsac_queue_dispatch(t->q, &t->d, &err), &err);
    hsac_host_begin(t->agent, beside, 4);
    ++*(uint32_t *) (void *) beside;
    must(hsac_queue_wait(t->q, &err), &err);
    hsac_host_end(t->agent, beside, 4);
    return wrong(t, result);
}

enum { TRIES = 20 };

static int line_apart(const char * arch) {
    struct bench t;
    open_bench(&t, arch);
    for (int i = 0; i < TRIES; i++) {
        CHECK(writes_behind(&t, LINE / 2) == 0);
    }
    close_bench(&t);
    return 0;
}

static int line_shared(const char * arch) {
    struct bench t;
    open_bench(&t, arch);
    int caught = 0; // not where the line happened to go by itself before
    for (int i = 0; i < TRIES; i++) {
        int n = writes_behind(&t, 0);
        CHECK(n == 0 || n == LINE / 2 / 4);
        caught += n != 0;
    }
    close_bench(&t);
    return caught > TRIES / 4;
}

// The second half of two kernels that were made one stream, without the first: what that one left
// in the array is not written again.
static uint32_t * second_half(const struct kernel_code * code, size_t * n) {
    struct txn_part parts[2] = {{.insts = code->insts, .n_words = code->n_insts},
                                {.insts = code->insts, .n_words = code->n_insts}};
    uint32_t *first = malloc(8 * code->n_insts), *both = malloc(8 * code->n_insts), size;
    struct txn_aim *aims, *again;
    size_t n_first, n_both, n_aims, n_again;
    struct error err = {0};
    must(txn_join(parts, 1, false, first, &n_first, &aims, &n_aims, &err), &err);
    must(txn_join(parts, 2, false, both, &n_both, &again, &n_again, &err), &err);
    for (size_t i = 0; i < n_again; i++) {
        txn_aim(both, &again[i], again[i].operand, again[i].byte_offset, &size);
    }
    enum { HEADER = 4, OPERATIONS = 2, BYTE_COUNT = 3 };
    CHECK(n_both - n_first < n_first - HEADER); // else there is nothing to be missed
    both[OPERATIONS] -= first[OPERATIONS];
    memmove(both + HEADER, both + n_first, 4 * (n_both - n_first));
    *n = HEADER + n_both - n_first;
    both[BYTE_COUNT] = (uint32_t) (4 * *n);
    free(aims), free(again), free(first);
    return both;
}

static int carries_state(const char * arch) {
    struct bench t;
    struct error err = {0};
    size_t n;
    open_bench(&t, arch);
    uint32_t * half = second_half(&t.code, &n);
    struct hsac_dispatch again = t.d;
    again.insts = upload(&t, HSAC_POOL_STREAM, half, 4 * n);
    again.n_insts = (uint32_t) n;
    again.operands[2].addr = t.memory + 3 * BYTES;
    must(hsac_queue_dispatch(t.q, &t.d, &err), &err);
    must(hsac_queue_wait(t.q, &err), &err);
    CHECK(wrong(&t, t.memory + 2 * BYTES) == 0);
    must(hsac_queue_dispatch(t.q, &again, &err), &err);
    bool ok = hsac_queue_wait(t.q, &err) == ST_OK && wrong(&t, t.memory + 3 * BYTES) == 0;
    free(half);
    close_bench(&t);
    return ok ? 0 : 1;
}

// ---- processes ----

static const struct {
    const char * name;
    int (*run)(const char * arch);
    int caches, rest;
    int want; // exit status: 0, or 1 where the mistake is caught
} cases[] = {
    {"what is counted", counts, 1, 0, 0},
    {"what is counted, without caches", counts, 0, 0, 0},
    {"what packets would declare", declared, 1, 0, 0},
    {"an unknown way", unknown, 0, 0, 0},
    {"host and NPU a line apart", line_apart, 1, 0, 0},
    {"host and NPU in one line", line_shared, 1, 0, 1},
    {"state that is still there", carries_state, 1, 0, 0},
    {"state after a rest", carries_state, 1, 1, 1},
};

static void test_cases(void ** state) {
    (void) state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        size_t n = i / 2;
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            setenv("GGML_HSA_EMU_CACHES", cases[n].caches ? "7" : "0", 1);
            setenv("GGML_HSA_EMU_REST", cases[n].rest ? "1" : "0", 1);
            _exit(cases[n].run(archs[i % 2]));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != cases[n].want) {
            fail_msg("%s on %s: status 0x%x, not %d", cases[n].name, archs[i % 2], status,
                     cases[n].want);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

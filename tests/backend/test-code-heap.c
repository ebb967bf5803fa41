// test-code-heap: the device heap when it is full. A real one takes thousands of kernels to fill,
// so this program brings an hsac_alloc with a heap of a few hundred bytes.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "backend/npu/npu.h"

#define HEAP_SIZE 400

static size_t heap_used;
static int n_allocs;

void * hsac_alloc(struct hsac_agent * a, enum hsac_pool pool, size_t size) {
    (void) a;
    assert_true(pool == HSAC_POOL_DEV || pool == HSAC_POOL_STREAM);
    if (heap_used + size > HEAP_SIZE) {
        return NULL;
    }
    size_t * p = malloc(sizeof *p + size);
    *p = size;
    heap_used += size;
    n_allocs++;
    return p + 1;
}

void hsac_free(struct hsac_agent * a, void * ptr) {
    (void) a;
    size_t * p = (size_t *) ptr - 1;
    heap_used -= *p;
    free(p);
}

// What was flushed, and the sum of what lay there then: bytes that came later would be missing.
static uint64_t flushed_bytes, flushed_sum;

static uint64_t sum_of(const void * at, size_t size) {
    uint64_t sum = 0;
    for (size_t i = 0; i < size; i++) {
        sum += ((const uint8_t *) at)[i];
    }
    return sum;
}

void hsac_host_end(struct hsac_agent * a, const void * at, size_t size) {
    (void) a;
    flushed_bytes += size;
    flushed_sum += sum_of(at, size);
}

static const void * forgotten;
static bool must_keep;

bool hsac_agent_forget_pdi(struct hsac_agent * a, const void * address) {
    (void) a;
    forgotten = address;
    return !must_keep;
}

static const uint8_t pdi_bytes[100] = {1, 2, 3};
static const uint32_t inst_words[3][25] = {{10}, {20}, {30}}; // 100 bytes each

static struct store_pdi pdi;
static struct store_kernel kernels[3];
static struct code_heap heap;

static int setup(void ** state) {
    (void) state;
    heap_used = 0;
    n_allocs = 0;
    flushed_bytes = flushed_sum = 0;
    pdi = (struct store_pdi){.data = pdi_bytes, .size = sizeof pdi_bytes};
    for (int i = 0; i < 3; i++) {
        kernels[i] = (struct store_kernel){.pdi = &pdi, .insts = inst_words[i], .n_insts = 25};
    }
    code_heap_init(&heap, NULL, AIE_ARCH_AIE2);
    return 0;
}

static int teardown(void ** state) {
    (void) state;
    code_heap_free(&heap);
    if (pdi.device) {
        hsac_free(NULL, pdi.device);
    }
    return heap_used == 0 ? 0 : -1;
}

static struct code_stream * acquire(int i, bool holds_pins, enum status want) {
    struct hsac_dispatch d = {0};
    struct code_stream * pin = NULL;
    struct error err = {0};
    assert_int_equal(code_acquire(&heap, &kernels[i], holds_pins, &d, &pin, &err), want);
    if (want == ST_OK) {
        assert_ptr_equal(d.pdi, pdi.device);
        assert_int_equal(d.pdi_size, sizeof pdi_bytes);
        assert_memory_equal(d.pdi, pdi_bytes, sizeof pdi_bytes);
        assert_int_equal(d.n_insts, 25);
        assert_memory_equal(d.insts, inst_words[i], sizeof inst_words[i]);
    } else {
        assert_non_null(strstr(err.text, "no room"));
    }
    return pin;
}

static void uploaded_once(void ** state) {
    (void) state;
    struct code_stream * pins[3] = {acquire(0, false, ST_OK), acquire(0, true, ST_OK),
                                    acquire(1, true, ST_OK)};
    assert_int_equal(n_allocs, 3); // the PDI and two streams
    assert_int_equal(flushed_bytes, sizeof pdi_bytes + 2 * sizeof inst_words[0]);
    assert_int_equal(flushed_sum, sum_of(pdi_bytes, sizeof pdi_bytes) +
                                      sum_of(inst_words, 2 * sizeof inst_words[0]));
    code_release(&heap, pins, 3);
}

static void longest_unused_goes_first(void ** state) {
    (void) state;
    void * ballast = hsac_alloc(NULL, HSAC_POOL_DEV, 100); // room for the PDI and two streams
    struct code_stream * pin = acquire(0, false, ST_OK);
    code_release(&heap, &pin, 1);
    pin = acquire(1, false, ST_OK);
    code_release(&heap, &pin, 1);
    pin = acquire(0, false, ST_OK); // now 1 is the older
    code_release(&heap, &pin, 1);
    pin = acquire(2, false, ST_OK);
    code_release(&heap, &pin, 1);
    assert_non_null(kernels[0].device);
    assert_null(kernels[1].device);
    assert_non_null(kernels[2].device);
    hsac_free(NULL, ballast);
}

static void pinned_code_stays(void ** state) {
    (void) state;
    void * ballast = hsac_alloc(NULL, HSAC_POOL_DEV, 100);
    struct code_stream * pins[2] = {acquire(0, false, ST_OK), acquire(1, true, ST_OK)};
    acquire(2, true, ST_NO_MEMORY);
    assert_non_null(kernels[0].device);
    assert_non_null(kernels[1].device);
    code_release(&heap, pins, 2);
    pins[0] = acquire(2, false, ST_OK);
    code_release(&heap, pins, 1);
    hsac_free(NULL, ballast);
}

static void too_large_for_the_heap(void ** state) {
    (void) state;
    void * ballast = hsac_alloc(NULL, HSAC_POOL_DEV, 250);
    acquire(0, false, ST_NO_MEMORY);
    hsac_free(NULL, ballast);
}

static void * release_later(void * pin) {
    struct code_stream * p = pin;
    usleep(20000);
    code_release(&heap, &p, 1);
    return NULL;
}

static void waits_for_another_thread(void ** state) {
    (void) state;
    void * ballast = hsac_alloc(NULL, HSAC_POOL_DEV, 200);
    struct code_stream * pin = acquire(0, false, ST_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release_later, pin), 0);
    pin = acquire(1, false, ST_OK); // only once kernel 0 may go
    assert_null(kernels[0].device);
    assert_int_equal(pthread_join(thread, NULL), 0);
    code_release(&heap, &pin, 1);
    hsac_free(NULL, ballast);
}

// What the store drops goes from the heap too, but for a PDI that the queue cannot forget.
static void dropped_by_the_store(void ** state) {
    (void) state;
    struct code_stream * pins[2] = {acquire(0, false, ST_OK), acquire(1, true, ST_OK)};
    code_release(&heap, pins, 2);
    void * address = pdi.device;
    code_forget_kernel(&heap, &kernels[0]);
    assert_null(kernels[0].device);
    assert_int_equal(heap_used, 200);
    code_forget_kernel(&heap, &kernels[0]); // nothing is there
    code_forget_kernel(&heap, &kernels[2]);
    code_forget_kernel(&heap, &kernels[1]);
    assert_int_equal(heap_used, 100);
    must_keep = true;
    assert_false(code_forget_pdi(&heap, &pdi));
    assert_ptr_equal(forgotten, address);
    assert_ptr_equal(pdi.device, address);
    must_keep = false;
    assert_true(code_forget_pdi(&heap, &pdi));
    assert_null(pdi.device);
    assert_int_equal(heap_used, 0);
    assert_true(code_forget_pdi(&heap, &pdi));
    struct code_stream * pin = acquire(0, false, ST_OK); // as if for the first time
    code_release(&heap, &pin, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(uploaded_once, setup, teardown),
        cmocka_unit_test_setup_teardown(longest_unused_goes_first, setup, teardown),
        cmocka_unit_test_setup_teardown(pinned_code_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(too_large_for_the_heap, setup, teardown),
        cmocka_unit_test_setup_teardown(waits_for_another_thread, setup, teardown),
        cmocka_unit_test_setup_teardown(dropped_by_the_store, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

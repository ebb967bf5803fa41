// test-shadow: what is kept of weights, when it is dropped and when its memory goes. The device's
// memory is the host's here, with a limit that a test can set.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/npu/mat.h"

enum { K = 20, PADDED = 24, ROWS = 6 };

static atomic_int n_allocs, n_live, n_warnings;
static bool is_full;

void * hsac_alloc(struct hsac_agent * a, enum hsac_pool pool, size_t size) {
    (void) a;
    assert_int_equal(pool, HSAC_POOL_DATA);
    if (is_full) {
        return NULL;
    }
    n_allocs++;
    n_live++;
    return malloc(size);
}

void hsac_free(struct hsac_agent * a, void * ptr) {
    (void) a;
    n_live--;
    free(ptr);
}

static uint64_t flushed;

void hsac_host_begin(struct hsac_agent * a, const void * at, size_t size) {
    (void) a, (void) at, (void) size;
}

void hsac_host_end(struct hsac_agent * a, const void * at, size_t size) {
    (void) a, (void) at;
    flushed += size;
}

void log_warn(const char * fmt, ...) {
    (void) fmt;
    n_warnings++;
}

static float weights[ROWS * K];
static struct shadows all;

static int setup(void ** state) {
    (void) state;
    for (int i = 0; i < ROWS * K; i++) {
        weights[i] = (float) i;
    }
    n_allocs = n_live = n_warnings = 0;
    is_full = false;
    shadows_init(&all, NULL);
    return 0;
}

static int teardown(void ** state) {
    (void) state;
    shadows_free(&all);
    return n_live;
}

static struct mat_source rows(int first, int n) {
    return (struct mat_source){
        .view = view_contiguous(GGML_TYPE_F32, (int64_t[]){K, n, 1, 1}, weights + first * K)};
}

static void assert_made_of(const struct shadow * s, int first) {
    struct view v = shadow_view(s);
    const uint16_t * at = (const uint16_t *) (const void *) v.data;
    assert_int_equal(v.ne[0], PADDED);
    for (int64_t i = 0; i < v.ne[0] * v.ne[1]; i++) {
        int64_t k = i % PADDED, r = first + i / PADDED;
        assert_int_equal(at[i], k < K ? ggml_fp32_to_bf16(weights[r * K + k]).bits : 0);
    }
}

static struct shadow * make(int first, int n) {
    struct mat_source s = rows(first, n);
    int before = n_allocs;
    flushed = 0;
    struct shadow * out = shadow_make(&all, &s, MAT_HI, NULL);
    assert_non_null(out);
    assert_int_equal(flushed, n_allocs > before ? (uint64_t) n * PADDED * 2 : 0);
    return out;
}

static bool is_kept(int first, int n) {
    struct mat_source s = rows(first, n);
    struct shadow * out = shadow_find(&all, &s, MAT_HI);
    if (out) {
        shadow_release(out);
    }
    return out;
}

static void made_once(void ** state) {
    (void) state;
    assert_false(is_kept(0, ROWS));
    struct shadow * s = make(0, ROWS);
    assert_made_of(s, 0);
    assert_ptr_equal(make(0, ROWS), s);
    assert_int_equal(n_allocs, 1);
    shadow_release(s);
    shadow_release(s);
    assert_true(is_kept(0, ROWS)); // though nobody holds it
    assert_int_equal(n_live, 1);
}

// Each way to look at the same bytes has its own.
static void known_by_what_it_is_made_of(void ** state) {
    (void) state;
    struct mat_source s = rows(0, ROWS);
    shadow_release(make(0, ROWS));
    shadow_release(make(0, ROWS - 1));
    assert_null(shadow_find(&all, &s, MAT_LEFT));
    struct shadow * precise = shadow_make(&all, &s, MAT_LEFT, NULL);
    assert_int_equal(shadow_view(precise).ne[0], 3 * PADDED);
    shadow_release(precise);
    s = mat_source_of(s.view, true);
    assert_null(shadow_find(&all, &s, MAT_HI));
    s = rows(0, ROWS);
    s.view.type = GGML_TYPE_F16;
    assert_null(shadow_find(&all, &s, MAT_HI));
    assert_int_equal(n_live, 3);
}

// Any overlap drops, even of one byte, and nothing else does.
static void dropped_by_writes(void ** state) {
    (void) state;
    shadow_release(make(0, 2));
    shadow_release(make(2, 2));
    shadow_release(make(4, 2));
    shadows_drop(&all, weights + 2 * K, 0);
    shadows_drop(&all, weights + ROWS * K, 100); // behind
    assert_int_equal(n_live, 3);
    shadows_drop(&all, (char *) (weights + 4 * K) - 1, 1); // the last byte of the second
    assert_true(is_kept(0, 2) && !is_kept(2, 2) && is_kept(4, 2));
    assert_int_equal(n_live, 2);
    shadow_release(make(0, ROWS)); // overlaps both
    shadows_drop(&all, weights, 1);
    assert_true(!is_kept(0, 2) && is_kept(4, 2) && !is_kept(0, ROWS));

    weights[4 * K] = -1;
    shadows_drop(&all, &weights[4 * K], sizeof weights[0]);
    struct shadow * s = make(4, 2);
    assert_made_of(s, 4); // of the new bytes
    shadow_release(s);
}

// A dispatch may read it still.
static void dropped_while_held(void ** state) {
    (void) state;
    struct shadow * old = make(0, ROWS);
    uint16_t before = *(const uint16_t *) (const void *) shadow_view(old).data;
    weights[0] = 77;
    shadows_drop(&all, weights, sizeof weights);
    assert_false(is_kept(0, ROWS));
    assert_int_equal(n_live, 1);
    struct shadow * new = make(0, ROWS);
    assert_ptr_not_equal(new, old);
    assert_made_of(new, 0);
    assert_int_equal(*(const uint16_t *) (const void *) shadow_view(old).data, before);
    shadow_release(old);
    assert_int_equal(n_live, 1);
    shadow_release(new);
    assert_true(is_kept(0, ROWS));
}

static void without_memory(void ** state) {
    (void) state;
    struct mat_source s = rows(0, ROWS);
    is_full = true;
    assert_null(shadow_make(&all, &s, MAT_HI, NULL));
    assert_null(shadow_make(&all, &s, MAT_HI, NULL));
    assert_int_equal(n_warnings, 1);
    is_full = false;
    shadow_release(make(0, ROWS)); // later there may be some
}

static void * use_and_drop(void * user) {
    for (int i = 0; i < 2000; i++) {
        int first = i % 3 * 2;
        struct mat_source s = rows(first, 2);
        struct shadow * shadow = shadow_find(&all, &s, MAT_HI);
        shadow = shadow ? shadow : shadow_make(&all, &s, MAT_HI, NULL);
        assert_made_of(shadow, first);
        shadow_release(shadow);
        if (user && i % 7 == 0) {
            shadows_drop(&all, weights + first * K, 4);
        }
    }
    return NULL;
}

static void two_threads(void ** state) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, use_and_drop, state), 0);
    use_and_drop(NULL);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(n_live <= 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(made_once, setup, teardown),
        cmocka_unit_test_setup_teardown(known_by_what_it_is_made_of, setup, teardown),
        cmocka_unit_test_setup_teardown(dropped_by_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(dropped_while_held, setup, teardown),
        cmocka_unit_test_setup_teardown(without_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(two_threads, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

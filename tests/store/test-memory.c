// memory: what a store holds is bounded by GGML_HSA_KERNEL_MEMORY. The kernel that nobody has for
// longest goes first, one that somebody has never; a PDI goes with the last kernel on it, unless
// the device cannot do without it; who uploaded something is told once, before it goes.
#include "aie/image/image.h"
#include "store/small-kernel.h"
#include "store/store.h"
#include "base/cmocka-all.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { WORDS = 500 }; // of each stream, and of each PDI about

static atomic_int n_pdis, n_streams;

static struct kernel_spec make_spec(int program, int64_t n) {
    static const enum dtype types[] = {DTYPE_F32, DTYPE_I16, DTYPE_I8, DTYPE_BF16};
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    spec.inputs[0] = spec.inputs[1] = spec.output =
        tensor_contiguous(types[program], (int64_t[]){n, 1, 1, 1});
    return spec;
}

static enum status make_pdi(const struct aie_program * program, enum aie_arch arch, int columns,
                            uint8_t ** pdi, size_t * size, struct error * err) {
    (void) arch, (void) columns;
    (void) err;
    atomic_fetch_add(&n_pdis, 1);
    *size = 4 * WORDS;
    *pdi = malloc(*size);
    memset(*pdi, (int) program->dtype + 1, *size);
    return ST_OK;
}

static enum status make_stream(const struct aie_plan * plan, uint32_t ** insts, size_t * n_words,
                               struct error * err) {
    atomic_fetch_add(&n_streams, 1);
    int64_t n = plan->spec.output.ne[0];
    if (n % 1000 == 999) {
        return error_set(err, ST_NO_MEMORY, "no luck with %lld", (long long) n);
    }
    *n_words = WORDS;
    *insts = malloc(WORDS * sizeof **insts);
    for (int i = 0; i < WORDS; i++) {
        (*insts)[i] = (uint32_t) (n + i);
    }
    return ST_OK;
}

static const struct store_compiler small = {
    .plan = small_kernel_plan, .pdi = make_pdi, .stream = make_stream};

static struct store * open_store(const char * memory) {
    struct store * s;
    setenv("GGML_HSA_KERNEL_MEMORY", memory, 1);
    assert_int_equal(store_new_with(&small, &s, NULL), ST_OK);
    atomic_store(&n_pdis, 0);
    atomic_store(&n_streams, 0);
    return s;
}

static struct store_kernel * get(struct store * s, int program, int64_t n) {
    struct kernel_spec spec = make_spec(program, n);
    struct store_kernel * k;
    struct error err = {0};
    if (store_get(s, &spec, &k, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return k;
}

static bool is_whole(const struct store_kernel * k, int program, int64_t n) {
    struct kernel_spec spec = make_spec(program, n);
    bool ok = k->n_insts == WORDS && k->pdi->size == 4 * WORDS;
    for (int i = 0; ok && i < WORDS; i++) {
        ok = k->insts[i] == (uint32_t) (n + i) &&
             k->pdi->data[4 * i] == (uint8_t) (spec.output.dtype + 1);
    }
    return ok;
}

static struct store_stats stats_of(struct store * s) {
    struct store_stats stats;
    store_get_stats(s, &stats);
    return stats;
}

static void test_bounded(void ** state) {
    (void) state;
    struct store * s = open_store("100K");
    for (int n = 1; n <= 900; n++) {
        struct store_kernel * k = get(s, n % 3, n);
        assert_true(is_whole(k, n % 3, n));
        store_put(s, k);
        assert_true(stats_of(s).bytes <= 100 << 10);
    }
    // Room for some dozens of these; most of the 900 went, and what is left is found.
    struct store_stats stats = stats_of(s);
    assert_in_range(stats.dropped, 800, 890);
    assert_true(stats.bytes > 50 << 10);
    assert_int_equal(atomic_load(&n_pdis), 3);
    store_put(s, get(s, 0, 900));
    assert_int_equal(atomic_load(&n_streams), 900);
    store_put(s, get(s, 1, 1)); // one of the first: made again
    assert_int_equal(atomic_load(&n_streams), 901);
    store_free(s);
}

static void test_the_oldest_goes(void ** state) {
    (void) state;
    struct store * s = open_store("100K");
    store_put(s, get(s, 0, 7));
    for (int n = 100; n < 400; n++) {
        store_put(s, get(s, 0, n));
        store_put(s, get(s, 0, 7)); // used all the time
    }
    assert_int_equal(atomic_load(&n_streams), 301);
    for (int n = 400; n < 700; n++) {
        store_put(s, get(s, 0, n));
    }
    store_put(s, get(s, 0, 7));
    assert_int_equal(atomic_load(&n_streams), 602);
    store_free(s);
}

static void test_pinned_ones_stay(void ** state) {
    (void) state;
    struct store * s = open_store("10K");
    struct store_kernel * held[50];
    for (int i = 0; i < 50; i++) { // ten times more than fit
        held[i] = get(s, i % 4, 100 + i);
    }
    for (int n = 200; n < 300; n++) {
        store_put(s, get(s, n % 4, n));
    }
    for (int i = 0; i < 50; i++) {
        assert_true(is_whole(held[i], i % 4, 100 + i));
        assert_ptr_equal(get(s, i % 4, 100 + i), held[i]);
        store_put(s, held[i]); // one of two pins
    }
    assert_int_equal(atomic_load(&n_streams), 150);
    assert_true(stats_of(s).bytes > 100000);
    for (int i = 0; i < 50; i++) {
        store_put(s, held[i]);
    }
    assert_true(stats_of(s).bytes <= 10 << 10);
    store_free(s);
}

static void test_pdis_go_with_their_kernels(void ** state) {
    (void) state;
    struct store * s = open_store("0");
    struct store_kernel *a = get(s, 0, 10), *b = get(s, 0, 20);
    assert_ptr_equal(a->pdi, b->pdi);
    store_put(s, a);
    assert_true(is_whole(b, 0, 20));
    store_put(s, b);
    assert_int_equal(stats_of(s).bytes, 0);
    assert_int_equal(stats_of(s).dropped, 2);
    store_put(s, get(s, 0, 30));
    assert_int_equal(atomic_load(&n_pdis), 2);
    store_free(s);
}

static void test_failures_are_dropped_too(void ** state) {
    (void) state;
    struct store * s = open_store("20K");
    for (int n = 0; n < 300; n++) {
        struct kernel_spec spec = make_spec(0, 1000 * n + 999);
        struct store_kernel * k;
        struct error err = {0};
        assert_int_equal(store_get(s, &spec, &k, &err), ST_NO_MEMORY);
        assert_non_null(strstr(err.text, "no luck"));
        assert_true(stats_of(s).bytes <= 20 << 10);
    }
    store_free(s);
}

// ---- what hangs on them on the device ----

struct device {
    int kernels, pdis; // that were dropped
    bool keeps_pdis;
};

static void drop_kernel(void * user, struct store_kernel * k) {
    struct device * d = user;
    d->kernels += k->device != NULL;
    k->device = NULL;
}

static bool drop_pdi(void * user, struct store_pdi * p) {
    struct device * d = user;
    d->pdis += p->device != NULL && !d->keeps_pdis;
    return !d->keeps_pdis;
}

static void test_uploads(void ** state) {
    (void) state;
    struct store * s = open_store("0");
    struct device d = {0};
    store_set_uploads(s, &(struct store_uploads){&d, drop_kernel, drop_pdi});
    struct store_kernel *a = get(s, 0, 10), *b = get(s, 0, 20), *c = get(s, 1, 10);
    a->device = b->device = c->device = a->pdi->device = c->pdi->device = &d;
    store_put(s, a);
    assert_int_equal(d.kernels, 1);
    assert_int_equal(d.pdis, 0);
    store_put(s, b);
    assert_int_equal(d.pdis, 1);
    d.keeps_pdis = true;
    struct store_pdi * kept = c->pdi;
    store_put(s, c);
    assert_int_equal(d.kernels, 3);
    assert_int_equal(d.pdis, 1);
    c = get(s, 1, 30); // finds it where it was
    assert_ptr_equal(c->pdi, kept);
    assert_ptr_equal(kept->device, &d);
    assert_int_equal(atomic_load(&n_pdis), 2);
    store_free(s);
}

static char said[480];

static void hear(const char * text) {
    snprintf(said, sizeof said, "%s", text);
}

static void test_a_bad_size_is_said(void ** state) {
    (void) state;
    struct store * s = open_store("5 apples");
    store_set_log(s, hear);
    assert_non_null(strstr(said, "GGML_HSA_KERNEL_MEMORY=5 apples"));
    assert_non_null(strstr(said, "64M"));
    store_put(s, get(s, 0, 10));
    assert_true(stats_of(s).bytes > 0);
    store_free(s);
}

// ---- threads ----

enum { THREADS = 4, ROUNDS = 3000, SHAPES = 60 };

struct runner {
    struct store * store;
    unsigned seed;
    int wrong;
};

static void * run(void * arg) {
    struct runner * r = arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct store_kernel * held[3];
        int64_t n[3];
        for (int k = 0; k < 3; k++) {
            n[k] = 1 + rand_r(&r->seed) % SHAPES;
            struct kernel_spec spec = make_spec((int) n[k] % 4, n[k]);
            if (store_get(r->store, &spec, &held[k], NULL) != ST_OK) {
                r->wrong++;
                return NULL;
            }
        }
        for (int k = 0; k < 3; k++) {
            r->wrong += !is_whole(held[k], (int) n[k] % 4, n[k]);
            store_put(r->store, held[k]);
        }
    }
    return NULL;
}

static void test_threads(void ** state) {
    (void) state;
    struct store * s = open_store("30K"); // a dozen of the sixty
    struct runner runners[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (struct runner){s, (unsigned) i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &runners[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(runners[i].wrong, 0);
    }
    assert_true(stats_of(s).bytes <= 30 << 10);
    assert_true(stats_of(s).dropped > 100);
    store_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_the_oldest_goes),
        cmocka_unit_test(test_pinned_ones_stay),
        cmocka_unit_test(test_pdis_go_with_their_kernels),
        cmocka_unit_test(test_failures_are_dropped_too),
        cmocka_unit_test(test_uploads),
        cmocka_unit_test(test_a_bad_size_is_said),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

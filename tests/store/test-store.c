// store: memory, packs and compiler in their order; one object for equal PDIs; one compile for each
// kernel and program however many threads ask; broken packs are refused with the file's name.
#include "store/store.h"
#include "base/cmocka-all.h"
#include "store/small-kernel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct kernel_spec make_spec(enum dtype t, int64_t n) {
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    spec.inputs[0] = spec.inputs[1] = spec.output = tensor_contiguous(t, (int64_t[]){n, 1, 1, 1});
    return spec;
}

// ---- a small compiler: kernels that only carry their dtype and length, but in real images ----

static atomic_int n_pdis, n_streams;
static atomic_bool broken;

static enum status small_plan(const struct kernel_spec * spec, struct aie_plan * out,
                              struct error * err) {
    return spec->output.ne[0] < 1000000 ? small_kernel_plan(spec, out, err)
                                        : error_set(err, ST_UNSUPPORTED, "too long");
}

static enum status small_pdi(const struct aie_program * program, enum aie_arch arch, int columns,
                             uint8_t ** pdi, size_t * size, struct error * err) {
    (void) arch, (void) columns;
    atomic_fetch_add(&n_pdis, 1);
    nanosleep(&(struct timespec){.tv_nsec = 2000000},
              NULL); // long enough for others to come and wait
    // f32 and i32 share one configuration here, under two names.
    return small_kernel_pdi((uint32_t) dtype_size(program->dtype), pdi, size, err);
}

static enum status small_stream(const struct aie_plan * plan, uint32_t ** insts, size_t * n_words,
                                struct error * err) {
    atomic_fetch_add(&n_streams, 1);
    if (atomic_load(&broken)) {
        return error_set(err, ST_NO_MEMORY, "no luck today");
    }
    return small_kernel_stream(&plan->spec, 2, txn_generation(plan->spec.arch), insts, n_words,
                               err);
}

static const struct store_compiler small = {
    .plan = small_plan, .pdi = small_pdi, .stream = small_stream};

static int reset(void ** state) {
    (void) state;
    atomic_store(&n_pdis, 0);
    atomic_store(&n_streams, 0);
    atomic_store(&broken, false);
    unsetenv("GGML_HSA_KERNEL_DIR");
    return 0;
}

static struct store * open_store(const struct store_compiler * compiler) {
    struct store * s;
    assert_int_equal(store_new_with(compiler, &s, NULL), ST_OK);
    return s;
}

static struct store_kernel * must_get(struct store * s, const struct kernel_spec * spec) {
    struct store_kernel * k;
    struct error err = {0};
    if (store_get(s, spec, &k, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return k;
}

static void test_compile(void ** state) {
    (void) state;
    struct store * s = open_store(&small);
    struct kernel_spec a = make_spec(DTYPE_F32, 64), b = make_spec(DTYPE_F32, 128);
    struct kernel_spec c = make_spec(DTYPE_I32, 64), d = make_spec(DTYPE_I16, 64);
    struct store_kernel *ka = must_get(s, &a), *kb = must_get(s, &b);
    assert_ptr_equal(must_get(s, &a), ka);
    assert_ptr_not_equal(ka, kb);
    assert_ptr_equal(ka->pdi, kb->pdi);
    assert_ptr_equal(must_get(s, &c)->pdi, ka->pdi); // another name, equal bytes
    assert_ptr_not_equal(must_get(s, &d)->pdi, ka->pdi);
    assert_int_equal(load_u32(&kb->insts[4 + 4]), 128);

    a.inputs[0].nb[1] = 12345; // of a dimension of one element: the same kernel
    assert_ptr_equal(must_get(s, &a), ka);
    a.arch = AIE_ARCH_AIE2P;
    assert_ptr_not_equal(must_get(s, &a), ka);

    struct store_stats stats;
    store_get_stats(s, &stats);
    assert_int_equal(stats.memory_hits, 2);
    assert_int_equal(stats.compiles, 5);
    assert_int_equal(stats.pack_hits, 0);
    assert_true(stats.compile_ns > 0);
    assert_int_equal(atomic_load(&n_pdis), 4); // f32, i32, i16 on aie2, f32 on aie2p
    store_free(s);
}

static void test_refusals(void ** state) {
    (void) state;
    struct store * s = open_store(&small);
    struct store_kernel * k;
    struct error err = {0};
    struct kernel_spec spec = make_spec(DTYPE_F32, 2000000);
    assert_false(store_can(s, &spec));
    assert_int_equal(store_get(s, &spec, &k, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "add_f32_2000000x1x1x1"));
    assert_non_null(strstr(err.text, "too long"));
    assert_int_equal(store_get(s, &spec, &k, NULL), ST_UNSUPPORTED);

    spec = make_spec(DTYPE_F32, 100);
    atomic_store(&broken, true);
    assert_int_equal(store_get(s, &spec, &k, &err), ST_NO_MEMORY);
    atomic_store(&broken, false);
    must_get(s, &spec); // it tries again
    assert_int_equal(atomic_load(&n_pdis), 1);

    spec.n_inputs = KERNEL_MAX_INPUTS + 1;
    assert_int_equal(store_get(s, &spec, &k, &err), ST_INVALID);
    assert_false(store_can(s, &spec));
    spec.n_inputs = -1;
    assert_int_equal(store_get(s, &spec, &k, &err), ST_INVALID);
    store_free(s);

    s = open_store(NULL);
    spec = make_spec(DTYPE_F32, 100);
    assert_false(store_can(s, &spec));
    assert_int_equal(store_get(s, &spec, &k, &err), ST_NOT_FOUND);
    assert_non_null(strstr(err.text, "GGML_HSA_KERNEL_DIR"));
    store_free(s);
    store_free(NULL);
}

// ---- threads ----

enum { THREADS = 8, SPECS = 40 };

struct race {
    struct store * store;
    struct store_kernel * got[SPECS];
    int seed;
};

static void * race_thread(void * user) {
    struct race * r = user;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < SPECS; i++) {
            int n = (i * 7 + r->seed * (round + 1)) % SPECS;
            struct kernel_spec spec = make_spec(n % 2 ? DTYPE_F32 : DTYPE_I16, 16 + n);
            struct store_kernel * k = NULL;
            if (store_get(r->store, &spec, &k, NULL) != ST_OK || (r->got[n] && r->got[n] != k)) {
                return r;
            }
            r->got[n] = k;
            if (!store_can(r->store, &spec)) {
                return r;
            }
        }
    }
    return NULL;
}

static void test_race(void ** state) {
    (void) state;
    struct store * s = open_store(&small);
    static struct race races[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        races[i] = (struct race){.store = s, .seed = i};
        assert_int_equal(pthread_create(&threads[i], NULL, race_thread, &races[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void * failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
        assert_memory_equal(races[i].got, races[0].got, sizeof races[0].got);
    }
    struct store_stats stats;
    store_get_stats(s, &stats);
    assert_int_equal(stats.compiles, SPECS);
    assert_int_equal(atomic_load(&n_streams), SPECS);
    assert_int_equal(atomic_load(&n_pdis), 2);
    assert_int_equal(stats.memory_hits, THREADS * 20 * SPECS - SPECS);
    store_free(s);
}

// ---- packs ----

struct pack {
    char dir[64];
    char pdi[400], insts[400];
};

static void write_file(const char * path, const void * data, size_t size) {
    FILE * f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void pack_open(struct pack * p, const struct kernel_spec * spec) {
    char path[128], name[KERNEL_NAME_MAX];
    strcpy(p->dir, "/tmp/test-store-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(path, sizeof path, "%s/aie2", p->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    kernel_name(spec, name);
    snprintf(p->pdi, sizeof p->pdi, "%s/%s.pdi", path, name);
    snprintf(p->insts, sizeof p->insts, "%s/%s_insts.bin", path, name);
}

static void pack_fill(const struct pack * p, const struct kernel_spec * spec) {
    uint8_t * pdi;
    uint32_t * insts;
    size_t size, n;
    struct aie_plan plan;
    assert_int_equal(small_plan(spec, &plan, NULL), ST_OK);
    assert_int_equal(small_pdi(plan.program, spec->arch, 0, &pdi, &size, NULL), ST_OK);
    assert_int_equal(small_stream(&plan, &insts, &n, NULL), ST_OK);
    write_file(p->pdi, pdi, size);
    write_file(p->insts, insts, n * 4);
    free(pdi);
    free(insts);
}

static void pack_remove(struct pack * p) {
    char path[128];
    unlink(p->pdi);
    unlink(p->insts);
    snprintf(path, sizeof path, "%s/aie2", p->dir);
    rmdir(path);
    rmdir(p->dir);
}

static void test_packs(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec(DTYPE_F32, 77), other = make_spec(DTYPE_F32, 78);
    struct pack p;
    char list[256];
    pack_open(&p, &spec);
    pack_fill(&p, &spec);
    snprintf(list, sizeof list, "::/nonexistent:%s:", p.dir);
    setenv("GGML_HSA_KERNEL_DIR", list, 1);

    struct store * s = open_store(NULL); // packs alone
    assert_true(store_can(s, &spec));
    assert_false(store_can(s, &other));
    struct store_kernel * k = must_get(s, &spec);
    assert_int_equal(load_u32(&k->insts[8]), 77);
    struct store_stats stats;
    store_get_stats(s, &stats);
    assert_int_equal(stats.pack_hits, 1);
    store_free(s);

    s = open_store(&small); // packs before the compiler, and one PDI for both
    atomic_store(&n_streams, 0);
    k = must_get(s, &spec);
    assert_int_equal(atomic_load(&n_streams), 1); // the pack's was held against it
    assert_false(k->foreign);
    assert_ptr_equal(must_get(s, &other)->pdi, k->pdi);
    store_get_stats(s, &stats);
    assert_int_equal(stats.pack_hits, 1);
    assert_int_equal(stats.compiles, 1);
    store_free(s);
    pack_remove(&p);
}

// A stream that is not ours has a PDI of its own, though it is equal; two of them share it.
static void test_foreign(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec(DTYPE_F32, 77), other = make_spec(DTYPE_F32, 78);
    struct pack packs[2];
    const struct kernel_spec * specs[] = {&spec, &other};
    char list[256];
    for (int i = 0; i < 2; i++) {
        pack_open(&packs[i], specs[i]);
        pack_fill(&packs[i], specs[i]);
        uint8_t * insts;
        size_t size;
        assert_int_equal(file_read(packs[i].insts, 1 << 16, &insts, &size, NULL), ST_OK);
        insts = realloc(insts, size + 24);
        const uint32_t write[] = {0, 0, image_addr(0, ARRAY_ROW_CORE, 0x100), 0, 1, 24};
        for (int w = 0; w < 6; w++) {
            store_u32(insts + size + 4 * w, write[w]);
        }
        store_u32(insts + 8, load_u32(insts + 8) + 1);
        store_u32(insts + 12, (uint32_t) size + 24);
        write_file(packs[i].insts, insts, size + 24);
        free(insts);
    }
    snprintf(list, sizeof list, "%s:%s", packs[0].dir, packs[1].dir);
    setenv("GGML_HSA_KERNEL_DIR", list, 1);
    struct kernel_spec own = make_spec(DTYPE_F32, 79);
    struct store * s = open_store(&small);
    struct store_kernel *a = must_get(s, &spec), *b = must_get(s, &other), *c = must_get(s, &own);
    assert_true(a->foreign && b->foreign && !c->foreign);
    assert_ptr_equal(a->pdi, b->pdi);
    assert_ptr_not_equal(a->pdi, c->pdi);
    assert_int_equal(a->pdi->size, c->pdi->size);
    assert_memory_equal(a->pdi->data, c->pdi->data, a->pdi->size);
    store_free(s);
    pack_remove(&packs[0]);
    pack_remove(&packs[1]);
}

static int n_warned;
static char warned[600];

static void note_warning(const char * text) {
    n_warned++;
    snprintf(warned, sizeof warned, "%s", text);
}

static void expect_refused(const struct pack * p, const struct kernel_spec * spec,
                           const char * file) {
    setenv("GGML_HSA_KERNEL_DIR", p->dir, 1);
    struct store_kernel * k;
    struct error err = {0};
    struct store * s = open_store(NULL);
    assert_false(store_can(s, spec));
    assert_int_not_equal(store_get(s, spec, &k, &err), ST_OK);
    if (!strstr(err.text, file)) {
        fail_msg("no %s in: %s", file, err.text);
    }
    store_free(s);
    s = open_store(&small); // a broken pack does not stand in the compiler's way, but is told of
    n_warned = 0;
    store_set_log(s, note_warning);
    assert_non_null(must_get(s, spec));
    assert_non_null(must_get(s, spec));
    if (n_warned != 1 || strncmp(warned, "kernel pack: ", 13) || !strstr(warned, file)) {
        fail_msg("%d warnings, the last: %s", n_warned, warned);
    }
    struct store_stats stats;
    store_get_stats(s, &stats);
    assert_int_equal(stats.compiles, 1);
    store_free(s);
}

static void test_broken_packs(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec(DTYPE_F32, 77);
    struct pack p;
    pack_open(&p, &spec);

    pack_fill(&p, &spec);
    unlink(p.insts);
    expect_refused(&p, &spec, p.insts);

    pack_fill(&p, &spec);
    write_file(p.pdi, "", 0);
    expect_refused(&p, &spec, p.pdi);

    pack_fill(&p, &spec);
    assert_int_equal(truncate(p.insts, 42), 0); // not a multiple of 4
    expect_refused(&p, &spec, p.insts);

    pack_fill(&p, &spec);
    assert_int_equal(truncate(p.pdi, (off_t) 64 << 20), 0); // sparse and too large
    expect_refused(&p, &spec, p.pdi);

    pack_fill(&p, &spec);
    struct kernel_spec longer = make_spec(DTYPE_F32, 78);
    const struct {
        const struct kernel_spec * spec;
        int result;
        unsigned generation;
    } hostile[] = {
        {&spec, 3, 3},   // operands are 0, 1, 2
        {&spec, 1, 3},   // an input as the result
        {&longer, 2, 3}, // more than the operands hold
        {&spec, 2, 4},   // another generation of the device
    };
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        uint32_t * insts;
        size_t n;
        assert_int_equal(small_kernel_stream(hostile[i].spec, hostile[i].result,
                                             hostile[i].generation, &insts, &n, NULL),
                         ST_OK);
        write_file(p.insts, insts, n * 4);
        free(insts);
        expect_refused(&p, &spec, p.insts);
    }

    unlink(p.pdi);
    assert_int_equal(mkdir(p.pdi, 0700), 0);
    expect_refused(&p, &spec, p.pdi);
    rmdir(p.pdi);
    pack_remove(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_compile, reset),
        cmocka_unit_test_setup(test_refusals, reset),
        cmocka_unit_test_setup(test_race, reset),
        cmocka_unit_test_setup(test_packs, reset),
        cmocka_unit_test_setup(test_foreign, reset),
        cmocka_unit_test_setup(test_broken_packs, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

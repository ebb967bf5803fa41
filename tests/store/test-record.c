// record: what a run needed becomes a configuration, also when threads and processes write at once;
// files that are no recordings stay as they are; a full disk costs the entry and nothing else.
#include "base/cmocka-all.h"
#include "base/stand-ins.h"
#include "kernel/config.h"
#include "store/record.h"
#include "store/small-kernel.h"
#include "store/store.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char home[] = "/tmp/test-record-XXXXXX";
static char path[64];

static struct kernel_spec make_spec(int64_t n) {
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    spec.inputs[0] = spec.inputs[1] = spec.output =
        tensor_contiguous(DTYPE_F32, (int64_t[]){n, 1, 1, 1});
    return spec;
}

static int setup(void ** state) {
    (void) state;
    if (!mkdtemp(home)) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/rec.json", home);
    setenv("GGML_HSA_RECORD", path, 1);
    return 0;
}

static int teardown(void ** state) {
    (void) state;
    unlink(path);
    return rmdir(home);
}

static int fresh(void ** state) {
    (void) state;
    unlink(path);
    return 0;
}

// How many entries the file has; each must be a kernel.
static int count(void) {
    json_t *root, *k;
    struct error err = {0};
    if (json_read_file(path, &root, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    size_t i;
    int n = (int) json_array_size(json_object_get(root, "kernels"));
    json_array_foreach(json_object_get(root, "kernels"), i, k) {
        struct kernel_config config;
        if (kernel_config_parse(k, NULL, &config, &err) != ST_OK) {
            fail_msg("%s", err.text);
        }
        char name[KERNEL_NAME_MAX];
        kernel_name(&config.spec, name);
        assert_string_equal(name, config.exported_name);
    }
    json_decref(root);
    return n;
}

static void add(struct record * r, int64_t n) {
    struct kernel_spec spec = make_spec(n);
    struct error err = {0};
    if (record_add(r, &spec, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
}

static void once_each(void ** state) {
    (void) state;
    struct record *r, *s;
    assert_int_equal(record_open(&r, NULL), ST_OK);
    assert_int_equal(record_open(&s, NULL), ST_OK);
    for (int i = 0; i < 30; i++) {
        add(r, 1 + i % 10);
        add(s, 1 + i % 15);
        assert_int_equal(count(), i < 15 ? i + 1 : 15);
    }
    record_close(r);
    record_close(s);
    assert_int_equal(record_open(&r, NULL), ST_OK); // another run
    add(r, 3);
    add(r, 300);
    record_close(r);
    assert_int_equal(count(), 16);

    unsetenv("GGML_HSA_RECORD");
    assert_int_equal(record_open(&r, NULL), ST_OK);
    assert_null(r);
    struct kernel_spec spec = make_spec(1);
    assert_int_equal(record_add(r, &spec, NULL), ST_OK);
    record_close(r);
    setenv("GGML_HSA_RECORD", path, 1);
}

static void relative_path(void ** state) {
    (void) state;
    char * here = getcwd(NULL, 0);
    struct record * r;
    assert_int_equal(chdir(home), 0);
    setenv("GGML_HSA_RECORD", "rec.json", 1);
    assert_int_equal(record_open(&r, NULL), ST_OK);
    assert_int_equal(chdir("/"), 0);
    add(r, 5);
    record_close(r);
    assert_int_equal(chdir(here), 0);
    free(here);
    setenv("GGML_HSA_RECORD", path, 1);
    assert_int_equal(count(), 1);
}

static void * thread(void * user) {
    struct record * r = user;
    for (int i = 0; i < 40; i++) {
        struct kernel_spec spec = make_spec(1 + i);
        if (record_add(r, &spec, NULL) != ST_OK) {
            return r;
        }
    }
    return NULL;
}

static void at_once(void ** state) {
    (void) state;
    enum { PROCESSES = 6, THREADS = 3 };
    pid_t pids[PROCESSES];
    for (int p = 0; p < PROCESSES; p++) {
        pids[p] = fork();
        if (pids[p] == 0) {
            struct record * r;
            pthread_t ids[THREADS];
            void * failed = NULL;
            bool ok = record_open(&r, NULL) == ST_OK;
            for (int t = 0; t < THREADS; t++) {
                ok = ok && pthread_create(&ids[t], NULL, thread, r) == 0;
            }
            for (int t = 0; ok && t < THREADS; t++) {
                void * one;
                pthread_join(ids[t], &one);
                failed = failed ? failed : one;
            }
            for (int i = 0; ok && i < 5; i++) { // and some of its own
                struct kernel_spec spec = make_spec(1000 + 10 * p + i);
                ok = record_add(r, &spec, NULL) == ST_OK;
            }
            _exit(ok && !failed ? 0 : 1);
        }
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        assert_int_equal(waitpid(pids[p], &status, 0), pids[p]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count(), 40 + 5 * PROCESSES);
}

// An editor may have put blanks into an empty list: the first entry has no comma before it.
static void blank_list(void ** state) {
    (void) state;
    static const char * const texts[] = {"{\"kernels\": [\n]}\n", "{\"kernels\": [\n\n]}\n",
                                         "{\"kernels\": [ \t\r\n]}\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        FILE * f = fopen(path, "w");
        fputs(texts[i], f);
        fclose(f);
        struct record * r;
        assert_int_equal(record_open(&r, NULL), ST_OK);
        add(r, 1);
        add(r, 2);
        record_close(r);
        assert_int_equal(count(), 2);
    }
}

static void not_a_recording(void ** state) {
    (void) state;
    static const char * const texts[] = {"precious\n", "{}", "{\"kernels\": [", "\n]}\n",
                                         "{\"kernels\": [\n{}\n]}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        FILE * f = fopen(path, "w");
        fputs(texts[i], f);
        fclose(f);
        struct record * r;
        struct error err = {0};
        struct kernel_spec spec = make_spec(1);
        assert_int_equal(record_open(&r, NULL), ST_OK);
        assert_int_equal(record_add(r, &spec, &err), ST_INVALID);
        assert_non_null(strstr(err.text, path));
        spec = make_spec(2);
        assert_int_equal(record_add(r, &spec, NULL), ST_OK); // it was said once
        record_close(r);
        char back[100] = "";
        f = fopen(path, "r");
        assert_int_equal(fread(back, 1, sizeof back, f), strlen(texts[i]));
        fclose(f);
        assert_string_equal(back, texts[i]);
    }
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    struct record * r;
    struct kernel_spec spec = make_spec(1);
    assert_int_equal(record_open(&r, NULL), ST_OK);
    assert_int_equal(record_add(r, &spec, NULL), ST_IO);
    record_close(r);
    rmdir(path);
}

// What is no regular file is not written, and no link is followed to one.
static void no_file(void ** state) {
    (void) state;
    for (int kind = 0; stand_ins[kind]; kind++) {
        struct stand_in s;
        if (!stand_in_make(&s, kind, path)) {
            continue;
        }
        struct record * r;
        struct error err = {0};
        struct kernel_spec spec = make_spec(1);
        assert_int_equal(record_open(&r, NULL), ST_OK);
        assert_int_equal(record_add(r, &spec, &err), ST_IO);
        record_close(r);
        stand_in_check(&s, kind, "GGML_HSA_RECORD");
        if (!strstr(err.text, path) || !strstr(err.text, "regular file")) {
            fail_msg("%s: '%s' was said", stand_ins[kind], err.text);
        }
    }
}

// A limit on the size of files stands in for a full disk: the write stops halfway.
static void full_disk(void ** state) {
    (void) state;
    struct record * r;
    struct stat before, after;
    assert_int_equal(record_open(&r, NULL), ST_OK);
    add(r, 1);
    add(r, 2);
    assert_int_equal(stat(path, &before), 0);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGXFSZ, SIG_IGN);
        struct rlimit limit = {(rlim_t) before.st_size + 20, (rlim_t) before.st_size + 20};
        setrlimit(RLIMIT_FSIZE, &limit);
        struct kernel_spec spec = make_spec(3);
        struct error err = {0};
        _exit(record_add(r, &spec, &err) == ST_IO && strstr(err.text, path) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    assert_int_equal(count(), 2);
    add(r, 3);
    record_close(r);
    assert_int_equal(count(), 3);
}

// A store records what was asked of it, also what it could not give; what nobody can make it does
// not.
static enum status refuse(const struct kernel_spec * spec, struct aie_plan * out,
                          struct error * err) {
    return spec->output.ne[0] == 7 ? error_set(err, ST_UNSUPPORTED, "seven")
                                   : small_kernel_plan(spec, out, err);
}

static enum status refuse_pdi(const struct aie_program * program, enum aie_arch arch, int columns,
                              uint8_t ** pdi, size_t * size, struct error * err) {
    (void) program, (void) arch, (void) columns, (void) pdi, (void) size;
    return error_set(err, ST_NO_MEMORY, "not today");
}

static void by_a_store(void ** state) {
    (void) state;
    static const struct store_compiler compiler = {.plan = refuse, .pdi = refuse_pdi};
    struct store * s;
    struct store_kernel * k;
    assert_int_equal(store_new_with(&compiler, &s, NULL), ST_OK);
    struct kernel_spec spec = make_spec(7);
    assert_false(store_can(s, &spec));
    assert_int_equal(store_get(s, &spec, &k, NULL), ST_UNSUPPORTED);
    assert_int_not_equal(access(path, F_OK), 0);
    spec = make_spec(8);
    assert_true(store_can(s, &spec));
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(store_get(s, &spec, &k, NULL), ST_NO_MEMORY);
    store_free(s);
    assert_int_equal(count(), 1);
}

// Another program may hold the lock for ever: an entry is lost, nobody waits with it.
static void locked(void ** state) {
    (void) state;
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    struct record * r;
    struct error err = {0};
    assert_int_equal(record_open(&r, &err), ST_OK);
    struct kernel_spec spec = make_spec(3);
    alarm(60);
    assert_int_equal(record_add(r, &spec, &err), ST_BUSY);
    alarm(0);
    assert_non_null(strstr(err.text, path));
    record_close(r);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(once_each, fresh), cmocka_unit_test_setup(relative_path, fresh),
        cmocka_unit_test_setup(at_once, fresh),   cmocka_unit_test_setup(not_a_recording, fresh),
        cmocka_unit_test_setup(full_disk, fresh), cmocka_unit_test_setup(by_a_store, fresh),
        cmocka_unit_test_setup(locked, fresh),    cmocka_unit_test_setup(blank_list, fresh),
        cmocka_unit_test_setup(no_file, fresh),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

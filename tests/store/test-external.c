// external: kernels from another program, which here is a shell script of a few lines: what it is
// given, what is taken from it, and what happens when it is missing, hangs, floods, lies or
// litters.
#include "store/small-kernel.h"
#include "base/cmocka-all.h"
#include "store/external.h"
#include "store/store.h"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char home[] =
    "/tmp/test-external-XXXXXX"; // the script, good files, and tmp/ for the directories

static const char * in_home(const char * name) {
    static char paths[4][256];
    static int next;
    char * path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", home, name);
    return path;
}

static void write_file(const char * path, const void * data, size_t size, mode_t mode) {
    FILE * f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
}

// The body sees $out (directory) and $name; good files are $good.pdi and $good.bin.
static void script(const char * body) {
    char text[4096];
    int n =
        snprintf(text, sizeof text,
                 "#!/bin/sh\n"
                 "printf '%%s\\n' \"$@\" >'%s/arguments'\n"
                 "while [ $# -gt 0 ]; do case $1 in --output_directory) out=$2;; --exported_name) "
                 "name=$2;; esac; shift; done\n"
                 "good='%s/good'\n%s\n",
                 home, home, body);
    write_file(in_home("compiler"), text, (size_t) n, 0700);
    setenv("GGML_HSA_JIT_COMMAND", in_home("compiler"), 1);
}

#define COPY "cp $good.pdi $out/$name.pdi; cp $good.bin ${out}/${name}_insts.bin"

static struct kernel_spec make_spec(void) {
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    spec.inputs[0] = spec.output = tensor_contiguous(DTYPE_F32, (int64_t[]){64, 3, 1, 1});
    spec.inputs[1] = tensor_contiguous(DTYPE_F32, (int64_t[]){64, 1, 1, 1});
    return spec;
}

static void make_good_files(int operand, int generation) {
    uint8_t * pdi;
    uint32_t * insts;
    size_t size, n;
    struct kernel_spec spec = make_spec();
    assert_int_equal(small_kernel_pdi(1, &pdi, &size, NULL), ST_OK);
    write_file(in_home("good.pdi"), pdi, size, 0600);
    assert_int_equal(small_kernel_stream(&spec, operand, (unsigned) generation, &insts, &n, NULL),
                     ST_OK);
    write_file(in_home("good.bin"), insts, n * 4, 0600);
    free(pdi);
    free(insts);
}

static int setup(void ** state) {
    (void) state;
    if (!mkdtemp(home) || mkdir(in_home("tmp"), 0700) != 0) {
        return -1;
    }
    setenv("TMPDIR", in_home("tmp"), 1);
    return 0;
}

static int teardown(void ** state) {
    (void) state;
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    return system(command);
}

static int each(void ** state) {
    (void) state;
    static const char * const variables[] = {"GGML_HSA_JIT_COMMAND", "GGML_HSA_JIT_TIMEOUT",
                                             "GGML_HSA_JIT_VERBOSE"};
    for (int i = 0; i < 3; i++) {
        unsetenv(variables[i]);
    }
    make_good_files(2, 3);
    return 0;
}

static void assert_nothing_left(void) {
    DIR * dir = opendir(in_home("tmp"));
    assert_non_null(dir);
    for (struct dirent * e; (e = readdir(dir));) {
        if (e->d_name[0] != '.') {
            fail_msg("%s is left in the temporary directory", e->d_name);
        }
    }
    closedir(dir);
}

static void must_fail(enum status want, const char * const texts[]) {
    struct kernel_spec spec = make_spec();
    struct kernel_code code;
    struct error err = {0};
    enum status st = external_compile(&spec, &code, &err);
    if (st != want) {
        fail_msg("%s, not %s: %s", status_name(st), status_name(want), err.text);
    }
    assert_int_equal(err.status, want);
    assert_null(code.pdi);
    assert_null(code.insts);
    for (int i = 0; texts[i]; i++) {
        if (!strstr(err.text, texts[i])) {
            fail_msg("no '%s' in: %s", texts[i], err.text);
        }
    }
    assert_nothing_left();
    assert_int_equal(external_compile(&spec, &code, NULL), want);
}

#define MUST_FAIL(want, ...) must_fail(want, (const char * const[]){__VA_ARGS__, NULL})

static void must_work(const struct kernel_spec * spec) {
    struct kernel_code code;
    struct error err = {0};
    if (external_compile(spec, &code, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(load_u32(code.pdi + 0x38), 0x50504449);
    assert_int_equal(load_u32(code.insts), 0x06030100);
    kernel_code_free(&code);
    assert_nothing_left();
}

static void assert_file(const char * path, const char * want) {
    uint8_t * data;
    size_t size;
    assert_int_equal(file_read(path, 100000, &data, &size, NULL), ST_OK);
    data[size] = 0;
    if (strcmp((char *) data, want)) {
        fail_msg("%s holds\n%s, not\n%s", path, (char *) data, want);
    }
    free(data);
}

static void arguments(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec();
    char command[512];
    script("stat -c %a $out >$good.mode; ls -A $out >$good.list; echo noise; " COPY);
    // Words, no shell: quotes and variables are what they are.
    snprintf(command, sizeof command, "  %s  --fixed 'one  $two` ", in_home("compiler"));
    setenv("GGML_HSA_JIT_COMMAND", command, 1);
    assert_true(external_available());
    assert_true(external_supports(&spec));
    must_work(&spec);
    uint8_t * data;
    size_t size;
    assert_int_equal(file_read(in_home("arguments"), 100000, &data, &size, NULL), ST_OK);
    data[size] = 0;
    const char * want =
        "--fixed\n'one\n$two`\n--op_name\nADD\n--arch\naie2\n--input_tensors\n"
        "(64,3,1,1)/f32\n(64,1,1,1)/f32\n--output_tensor\n(64,3,1,1)/f32\n"
        "--exported_name\nadd_f32_64x3x1x1_f32_64x1x1x1_f32_64x3x1x1\n--output_directory\n";
    if (strncmp((char *) data, want, strlen(want))) {
        fail_msg("got\n%s", (char *) data);
    }
    assert_null(strstr((char *) data, "--verbose"));
    assert_null(strstr((char *) data, "--op_params"));
    free(data);
    assert_file(in_home("good.mode"), "700\n");
    assert_file(in_home("good.list"), "");
    // A kernel that cannot be written down for it.
    spec.inputs[0].nb[1] += 4;
    assert_false(external_supports(&spec));
}

static void missing(void ** state) {
    (void) state;
    assert_false(external_available());
    MUST_FAIL(ST_UNSUPPORTED, "GGML_HSA_JIT_COMMAND is not set");
    setenv("GGML_HSA_JIT_COMMAND", "   ", 1);
    assert_false(external_available());
    MUST_FAIL(ST_UNSUPPORTED, "GGML_HSA_JIT_COMMAND is not set");
    static const char iron[] = "IRON environment is not active. Run source env_setup.sh first.";
    setenv("GGML_HSA_JIT_COMMAND", "/nonexistent/build.py --x", 1);
    assert_false(external_available());
    MUST_FAIL(ST_NOT_FOUND, iron, "/nonexistent/build.py");
    setenv("GGML_HSA_JIT_COMMAND", "/tmp", 1);
    MUST_FAIL(ST_NOT_FOUND, iron, "/tmp");
    script("echo \"ModuleNotFoundError: No module named 'aie'\" >&2; exit 1");
    assert_true(external_available());
    MUST_FAIL(ST_NOT_FOUND, iron, "No module named 'aie'");
    char * many = calloc(1, 20000);
    for (int i = 0; i < 9000; i++) {
        memcpy(many + 2 * i, "x ", 2);
    }
    setenv("GGML_HSA_JIT_COMMAND", many, 1);
    MUST_FAIL(ST_INVALID, "words");
    memset(many, 'y', 19999);
    setenv("GGML_HSA_JIT_COMMAND", many, 1);
    MUST_FAIL(ST_NOT_FOUND, iron);
    free(many);
}

static void failures(void ** state) {
    (void) state;
    script("echo first line; printf 'the \\033[31mreason\\n' >&2; exit 3");
    MUST_FAIL(ST_UNSUPPORTED, in_home("compiler"), "exit status 3", "first line | the ?[31mreason");
    script("kill -ABRT $$");
    MUST_FAIL(ST_IO, "signal 6");
    script("exit 0");
    MUST_FAIL(ST_NOT_FOUND, "ended well", ".pdi");
    script("cp $good.pdi $out/$name.pdi");
    MUST_FAIL(ST_NOT_FOUND, "_insts.bin");
    script("head -c 104857600 /dev/zero | tr '\\0' z; echo; echo flooded; exit 1");
    MUST_FAIL(ST_UNSUPPORTED, "exit status 1", "flooded");
    // An only line that is too long shows that its front is missing.
    script("printf '%0400d is the end' 7; exit 1");
    MUST_FAIL(ST_UNSUPPORTED, "it said: ...000", "7 is the end");
}

static void hangs(void ** state) {
    (void) state;
    setenv("GGML_HSA_JIT_TIMEOUT", "1", 1);
    script("echo going to sleep; mkdir $out/x; sleep 300");
    time_t start = time(NULL);
    MUST_FAIL(ST_UNSUPPORTED, "killed after 1 s", "GGML_HSA_JIT_TIMEOUT", "going to sleep");
    assert_true(time(NULL) - start < 30);
    // Nonsense is the default, not an endless or an immediate end.
    static const char * const odd[] = {"0", "-1", "abc", "", "99999999999999999999999", "5x", " 5"};
    script(COPY);
    struct kernel_spec spec = make_spec();
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        setenv("GGML_HSA_JIT_TIMEOUT", odd[i], 1);
        must_work(&spec);
    }
}

static void bad_files(void ** state) {
    (void) state;
    script(COPY "; echo garbage >$out/$name.pdi");
    MUST_FAIL(ST_CORRUPT, ".pdi is broken");
    script(COPY "; echo garbage >${out}/${name}_insts.bin");
    MUST_FAIL(ST_CORRUPT, "_insts.bin is broken");
    script(COPY "; : >$out/$name.pdi");
    MUST_FAIL(ST_CORRUPT, "0 bytes");
    script(COPY "; truncate -s 17M $out/$name.pdi");
    MUST_FAIL(ST_CORRUPT, "17825792 bytes");
    script(COPY "; truncate -s 5M ${out}/${name}_insts.bin");
    MUST_FAIL(ST_CORRUPT, "5242880 bytes");
    script(COPY "; ln -sf $good.pdi $out/$name.pdi");
    MUST_FAIL(ST_CORRUPT, ".pdi", "symbolic link");
    script(COPY "; rm $out/$name.pdi; mkfifo $out/$name.pdi");
    MUST_FAIL(ST_CORRUPT, "not a regular file");
    script(COPY "; rm $out/$name.pdi; mkdir $out/$name.pdi");
    MUST_FAIL(ST_CORRUPT, "not a regular file");
    // The directory itself put elsewhere.
    script("mv $out $good.moved; mkdir -p $good.other; out=$good.other; " COPY
           "; ln -s $good.other "
           "$(sed -n '/^--output_directory$/{n;p}' $(dirname $good)/arguments)");
    struct kernel_spec spec = make_spec();
    struct kernel_code code;
    struct error err = {0};
    assert_int_equal(external_compile(&spec, &code, &err), ST_NOT_FOUND);
    assert_int_equal(access(in_home("good.other"), F_OK), 0); // the link was not followed
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s'/tmp/* '%s'/good.moved '%s'/good.other", home,
             home, home);
    assert_int_equal(system(command), 0);
    script(COPY);
    make_good_files(3, 3); // a fourth operand
    MUST_FAIL(ST_CORRUPT, "operand 3");
    make_good_files(1, 3); // an input in the place of the result
    MUST_FAIL(ST_CORRUPT, "_insts.bin is broken", "operand 1");
    make_good_files(2, 4);
    MUST_FAIL(ST_CORRUPT, "generation 4");
}

// Everything goes, and only what is in the directory.
static void litter(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec();
    write_file(in_home("precious"), "x", 1, 0600);
    script(COPY
           "; mkdir -p $out/a/b/c $out/locked/in; echo x >$out/a/b/c/d; ln -s \"$(dirname $good)\" "
           "$out/a/link; ln -s $good.pdi $out/locked/in/l; chmod 0 $out/locked/in; chmod 500 "
           "$out/locked");
    must_work(&spec);
    assert_int_equal(access(in_home("precious"), F_OK), 0);
    assert_int_equal(access(in_home("good.pdi"), F_OK), 0);
    struct stat info;
    assert_int_equal(stat(in_home("good.pdi"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

static void shown(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec();
    char path[64], got[256] = "";
    snprintf(path, sizeof path, "%s/shown", home);
    script("echo out loud; " COPY);
    for (int verbose = 0; verbose < 2; verbose++) {
        FILE * f = fopen(path, "w+");
        int err = dup(STDERR_FILENO);
        dup2(fileno(f), STDERR_FILENO);
        setenv("GGML_HSA_JIT_VERBOSE", verbose ? "YES" : "0", 1);
        must_work(&spec);
        dup2(err, STDERR_FILENO);
        close(err);
        ssize_t n = pread(fileno(f), got, sizeof got - 1, 0);
        assert_int_equal(n, verbose ? 9 : 0);
        fclose(f);
    }
    assert_string_equal(got, "out loud\n");
    uint8_t * data;
    size_t size;
    assert_int_equal(file_read(in_home("arguments"), 100000, &data, &size, NULL), ST_OK);
    assert_true(size > 10 && !memcmp(data + size - 10, "--verbose\n", 10));
    free(data);
}

static void no_room_for_temporaries(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec();
    script(COPY);
    char before[256];
    snprintf(before, sizeof before, "%s", getenv("TMPDIR"));
    setenv("TMPDIR", "/nonexistent", 1); // /tmp serves
    must_work(&spec);
    setenv("TMPDIR", before, 1);
}

// ---- in a store ----

static enum status plans_nothing(const struct kernel_spec * spec, struct aie_plan * out,
                                 struct error * err) {
    (void) spec, (void) out;
    return error_set(err, ST_UNSUPPORTED, "not by this one");
}

static enum status makes_nothing(const struct aie_program * program, enum aie_arch arch,
                                 int columns, uint8_t ** pdi, size_t * size, struct error * err) {
    (void) program, (void) arch, (void) columns, (void) pdi, (void) size;
    return error_set(err, ST_UNSUPPORTED, "not by this one");
}

// The command is asked for what our compiler cannot do, promised only while it is there, and not
// promised again for a kernel that it refused.
static void in_a_store(void ** state) {
    (void) state;
    static const struct store_compiler unable = {.plan = plans_nothing, .pdi = makes_nothing};
    static const struct store_compiler streams = {.plan = plans_nothing};
    struct kernel_spec spec = make_spec(), strided = make_spec();
    strided.inputs[0].nb[1] += 4;
    struct store * s;
    struct store_kernel * k;
    struct error err = {0};
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
    assert_int_equal(store_new_with(&unable, &s, NULL), ST_OK);
    assert_false(store_has_command(s));
    assert_false(store_can(s, &spec));
    store_free(s);

    script("exit 3");
    assert_int_equal(store_new_with(&streams, &s, NULL), ST_OK); // a build that compiles nothing
    assert_false(store_has_command(s));
    assert_false(store_can(s, &spec));
    store_free(s);
    assert_int_equal(store_new_with(&unable, &s, NULL), ST_OK);
    assert_true(store_has_command(s));
    assert_true(store_can(s, &spec));
    assert_false(store_can_itself(s, &spec));
    assert_false(store_can(s, &strided));
    assert_int_equal(store_get(s, &spec, &k, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "exit status 3"));
    assert_false(store_can(s, &spec));
    script(COPY);
    assert_int_equal(store_get(s, &spec, &k, &err), ST_OK); // who insists, gets it tried again
    assert_true(store_can(s, &spec));
    assert_true(store_can_itself(s, &spec)); // it is in memory now
    struct store_stats stats;
    store_get_stats(s, &stats);
    assert_int_equal(stats.compiles, 1);
    spec.output.ne[3] = spec.inputs[0].ne[3] = 2;
    assert_true(store_can(s, &spec));
    unlink(in_home("compiler"));
    assert_false(store_can(s, &spec));
    store_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(arguments, each),
        cmocka_unit_test_setup(missing, each),
        cmocka_unit_test_setup(failures, each),
        cmocka_unit_test_setup(hangs, each),
        cmocka_unit_test_setup(bad_files, each),
        cmocka_unit_test_setup(litter, each),
        cmocka_unit_test_setup(shown, each),
        cmocka_unit_test_setup(no_room_for_temporaries, each),
        cmocka_unit_test_setup(in_a_store, each),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

// packs and manifests: a kernel is found whatever its files are called, and only if they are the
// files that the manifest means; broken and hostile manifests are refused with a reason; packs
// without one are found by our name or by upstream's.
#include "store/small-kernel.h"
#include "base/cmocka-all.h"
#include "store/manifest.h"
#include "store/packs.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static char home[] = "/tmp/test-manifest-XXXXXX";

static const char * in_home(const char * name) {
    static char paths[8][512];
    static int next;
    char * path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/aie2/%s", home, name);
    return path;
}

static void put(const char * name, const void * data, size_t size) {
    FILE * f = fopen(in_home(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static struct kernel_spec make_spec(int64_t n) {
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    spec.inputs[0] = spec.inputs[1] = spec.output =
        tensor_contiguous(DTYPE_F32, (int64_t[]){n, 1, 1, 1});
    return spec;
}

// Files of a kernel that only carries a number; the entry that belongs to them.
static struct manifest_entry put_kernel(const struct kernel_spec * spec, const char * name) {
    struct manifest_entry e = {0};
    uint8_t * pdi;
    uint32_t * insts;
    size_t size, n;
    char file[300];
    assert_int_equal(small_kernel_pdi(1, &pdi, &size, NULL), ST_OK);
    assert_int_equal(small_kernel_stream(spec, spec->n_inputs, 3, &insts, &n, NULL), ST_OK);
    snprintf(file, sizeof file, "%s.pdi", name);
    put(file, pdi, size);
    snprintf(file, sizeof file, "%s_insts.bin", name);
    put(file, insts, 4 * n);
    kernel_name(spec, e.kernel);
    snprintf(e.exported_name, sizeof e.exported_name, "%s", name);
    e.pdi.size = size;
    sha256(pdi, size, e.pdi.sha256);
    e.insts.size = 4 * n;
    sha256(insts, 4 * n, e.insts.sha256);
    free(pdi);
    free(insts);
    return e;
}

static void put_manifest(const struct manifest * m) {
    struct buf text = {0};
    assert_int_equal(manifest_print(m, AIE_ARCH_AIE2, &text, NULL), ST_OK);
    put(MANIFEST_FILE, text.data, text.size);
    buf_free(&text);
}

static int setup(void ** state) {
    (void) state;
    return mkdtemp(home) && mkdir(in_home(""), 0700) == 0 ? 0 : -1;
}

static int empty(void ** state) {
    (void) state;
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'/aie2/*", home);
    return system(command);
}

static int teardown(void ** state) {
    (void) state;
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    return system(command);
}

static enum status load(const struct kernel_spec * spec, struct error * err) {
    struct packs packs;
    struct kernel_code code = {0};
    assert_int_equal(packs_open(home, &packs, NULL), ST_OK);
    enum status st = packs_load(&packs, spec, &code, err);
    if (st == ST_OK) {
        assert_true(packs_have(&packs, spec));
        assert_int_equal(code.insts[4 + 4], (tensor_bytes(&spec->output) + 3) / 4);
    }
    kernel_code_free(&code);
    packs_close(&packs);
    return st;
}

static void whatever_its_name(void ** state) {
    (void) state;
    struct manifest m = {0};
    struct manifest_entry entries[50];
    for (int i = 0; i < 50; i++) {
        struct kernel_spec spec = make_spec(i + 1);
        char name[32];
        snprintf(name, sizeof name, "k%d", 97 * i % 50);
        entries[i] = put_kernel(&spec, name);
    }
    assert_int_equal(manifest_merge(&m, entries, 50, NULL), ST_OK);
    put_manifest(&m);
    for (int i = 0; i < 50; i++) {
        struct kernel_spec spec = make_spec(i + 1);
        struct error err = {0};
        if (load(&spec, &err) != ST_OK) {
            fail_msg("%s", err.text);
        }
    }
    struct kernel_spec spec = make_spec(51);
    assert_int_equal(load(&spec, NULL), ST_NOT_FOUND);
    manifest_free(&m);
}

static void merging(void ** state) {
    (void) state;
    struct manifest m = {0};
    struct manifest_entry a = {
        .kernel = "a", .exported_name = "x", .pdi = {1, {1}}, .insts = {2, {2}}};
    struct manifest_entry b = {
        .kernel = "b", .exported_name = "y", .pdi = {1, {1}}, .insts = {2, {2}}};
    assert_int_equal(manifest_merge(&m, (struct manifest_entry[]){b, a}, 2, NULL), ST_OK);
    assert_int_equal(m.n_entries, 2);
    assert_string_equal(manifest_find(&m, "a")->exported_name, "x");

    struct manifest_entry c = {
        .kernel = "c", .exported_name = "x", .pdi = {3, {3}}, .insts = {4, {4}}};
    assert_int_equal(manifest_merge(&m, &c, 1, NULL), ST_OK); // the files of a are gone
    assert_null(manifest_find(&m, "a"));
    assert_int_equal(m.n_entries, 2);

    struct manifest_entry d = {
        .kernel = "b", .exported_name = "z", .pdi = {5, {5}}, .insts = {6, {6}}};
    struct manifest_entry e = d;
    strcpy(e.exported_name, "q");
    assert_int_equal(manifest_merge(&m, (struct manifest_entry[]){d, e}, 2, NULL), ST_OK);
    assert_string_equal(manifest_find(&m, "b")->exported_name, "q");
    assert_int_equal(m.n_entries, 2);
    assert_int_equal(manifest_merge(&m, NULL, 0, NULL), ST_OK);

    struct buf text = {0};
    struct manifest back;
    assert_int_equal(manifest_print(&m, AIE_ARCH_AIE2P, &text, NULL), ST_OK);
    assert_int_equal(manifest_parse((char *) text.data, text.size, AIE_ARCH_AIE2P, &back, NULL),
                     ST_OK);
    assert_int_equal(back.n_entries, 2);
    assert_memory_equal(&back.entries[0], &m.entries[0], sizeof back.entries[0]);
    manifest_free(&back);
    assert_int_equal(manifest_parse((char *) text.data, text.size, AIE_ARCH_AIE2, &back, NULL),
                     ST_INVALID);
    for (size_t n = 0; n + 1 < text.size; n++) { // no prefix passes for a manifest
        char * cut = malloc(n + 1);
        memcpy(cut, text.data, n);
        assert_int_equal(manifest_parse(cut, n, AIE_ARCH_AIE2P, &back, NULL), ST_INVALID);
        free(cut);
    }
    buf_free(&text);
    manifest_free(&m);
}

// One byte of either file, a byte more, a byte less, a missing file, another kernel's file.
static void changed_files(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec(64);
    struct manifest m = {0};
    struct manifest_entry entry = put_kernel(&spec, "some");
    assert_int_equal(manifest_merge(&m, &entry, 1, NULL), ST_OK);
    put_manifest(&m);
    static const char * const files[] = {"some.pdi", "some_insts.bin"};
    for (int f = 0; f < 2; f++) {
        uint8_t * data;
        size_t size;
        struct error err = {0};
        assert_int_equal(file_read(in_home(files[f]), 1 << 24, &data, &size, NULL), ST_OK);
        for (size_t at = 0; at < size; at += size / 61 + 1) {
            data[at] ^= 0x10;
            put(files[f], data, size);
            assert_int_equal(load(&spec, &err), ST_CORRUPT);
            assert_non_null(strstr(err.text, files[f]));
            assert_non_null(strstr(err.text, "SHA-256"));
            data[at] ^= 0x10;
        }
        put(files[f], data, size - 1);
        assert_int_equal(load(&spec, &err), ST_CORRUPT);
        assert_non_null(strstr(err.text, "its manifest says"));
        put(files[f], data, size);
        assert_int_equal(load(&spec, NULL), ST_OK);
        unlink(in_home(files[f]));
        assert_int_equal(load(&spec, &err), ST_CORRUPT);
        assert_non_null(strstr(err.text, "missing"));
        put(files[f], data, size);
        free(data);
    }
    // Also under its canonical name it is not taken past the manifest.
    char name[KERNEL_NAME_MAX];
    kernel_name(&spec, name);
    put_kernel(&spec, name);
    unlink(in_home("some.pdi"));
    assert_int_equal(load(&spec, NULL), ST_CORRUPT);
    manifest_free(&m);
}

static void hostile_manifests(void ** state) {
    (void) state;
#define HEAD "{\"format\": \"ggml-hsa-pack\", \"version\": 1, \"arch\": \"aie2\", \"kernels\": "
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define FILES_OF(name)                                                                             \
    "{\"exported_name\": \"" name "\", \"pdi_size\": 1, \"pdi_sha256\": \"" HASH                   \
    "\", \"insts_size\": 1, \"insts_sha256\": \"" HASH "\"}"
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "JSON syntax: line 1, column 1"},
        {"[]", "no manifest"},
        {"{\"format\": \"other\"}", "no manifest"},
        {"{\"format\": \"ggml-hsa-pack\", \"version\": 2}", "version 1"},
        {"{\"format\": \"ggml-hsa-pack\", \"version\": 1, \"arch\": \"aie2p\"}", "not for aie2"},
        {HEAD "[]}", "must be an object"},
        {HEAD "{\"a\": 1}}", "exported_name"},
        {HEAD "{\"a\": " FILES_OF("../x") "}}", "no file name"},
        {HEAD "{\"a\": " FILES_OF("/etc/passwd") "}}", "no file name"},
        {HEAD "{\"a\": " FILES_OF(".x") "}}", "no file name"},
        {HEAD "{\"a\": " FILES_OF("") "}}", "no file name"},
        {HEAD "{\"a/b\": " FILES_OF("x") "}}", "no name of a kernel"},
        {HEAD "{\"a\": " FILES_OF("x") ", \"a\": " FILES_OF("y") "}}", "duplicate object key"},
        {HEAD "{\"a\": {\"exported_name\": \"x\", \"pdi_size\": 0}}}", "pdi_size"},
        {HEAD "{\"a\": {\"exported_name\": \"x\", \"pdi_size\": -1}}}", "pdi_size"},
        {HEAD "{\"a\": {\"exported_name\": \"x\", \"pdi_size\": 1e3}}}", "a: 'pdi_size' must be"},
        {HEAD "{\"a\": {\"exported_name\": \"x\", \"pdi_size\": 9999999999999999999}}}",
         "too big integer"},
        {HEAD "{\"a\": {\"exported_name\": \"x\", \"pdi_size\": 1, \"pdi_sha256\": \"12\"}}}",
         "pdi_sha256"},
        {HEAD "{}, \"programs\": []}", "'programs' must be an object"},
        {HEAD "{}, \"programs\": {\"a/b\": {}}}", "no name of a program"},
        {HEAD "{}, \"programs\": {\"../b\": {}}}", "no name of a program"},
        {HEAD "{}, \"programs\": {\"a\": {\"pdi_size\": 1}}}", "a: 'compiler' must be"},
        {HEAD "{}, \"programs\": {\"a\": {\"compiler\": \"\"}}}", "a: 'compiler' must be"},
        {HEAD "{}, \"programs\": {\"a\": {\"compiler\": \"c\", \"pdi_size\": 0}}}", "pdi_size"},
    };
    struct kernel_spec spec = make_spec(64), other = make_spec(65);
    char name[KERNEL_NAME_MAX];
    kernel_name(&other, name);
    put_kernel(&other, name);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error err = {0};
        put(MANIFEST_FILE, rows[i].text, strlen(rows[i].text));
        assert_int_equal(load(&spec, &err), ST_CORRUPT);
        if (!strstr(err.text, rows[i].why) || !strstr(err.text, in_home(MANIFEST_FILE))) {
            fail_msg("%s: %s", rows[i].text, err.text);
        }
        assert_int_equal(load(&other, &err), ST_OK); // files that need no manifest still count
    }
    unlink(in_home(MANIFEST_FILE));
    assert_int_equal(mkdir(in_home(MANIFEST_FILE), 0700), 0);
    assert_int_equal(load(&spec, NULL), ST_IO);
    rmdir(in_home(MANIFEST_FILE));
    assert_int_equal(load(&spec, NULL), ST_NOT_FOUND);
}

static void next_pack(void ** state) { // a broken pack does not hide a good one behind it
    (void) state;
    struct kernel_spec spec = make_spec(64);
    struct manifest_entry entry = put_kernel(&spec, "some");
    struct manifest m = {0};
    assert_int_equal(manifest_merge(&m, &entry, 1, NULL), ST_OK);
    put_manifest(&m);
    manifest_free(&m);
    char broken[200], list[500], sub[300];
    snprintf(broken, sizeof broken, "%s/aie2/broken", home);
    snprintf(sub, sizeof sub, "%s/aie2", broken);
    assert_int_equal(mkdir(broken, 0700), 0);
    assert_int_equal(mkdir(sub, 0700), 0);
    put("broken/aie2/" MANIFEST_FILE, "{", 1);
    snprintf(list, sizeof list, ":%s::%s:", broken, home);
    struct packs packs;
    struct kernel_code code = {0};
    assert_int_equal(packs_open(list, &packs, NULL), ST_OK);
    assert_int_equal(packs_load(&packs, &spec, &code, NULL), ST_OK);
    kernel_code_free(&code);
    packs_close(&packs);
}

// ---- upstream ----

static void upstream_names(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec(1024);
    char name[KERNEL_NAME_MAX];
    assert_true(packs_upstream_name(&spec, false, name));
    assert_string_equal(name, "add-1024f32-1024f32-1024f32");
    spec.inputs[0] = spec.output = tensor_contiguous(DTYPE_BF16, (int64_t[]){3, 3, 4, 1});
    spec.inputs[1] = tensor_contiguous(DTYPE_BF16, (int64_t[]){3, 1, 1, 1});
    assert_true(packs_upstream_name(&spec, false, name));
    assert_string_equal(name, "add-3x3x4bf16-3x3x4bf16-3bf16");
    assert_false(packs_upstream_name(&spec, true, name));
    put_kernel(&spec, "add-3x3x4bf16-3x3x4bf16-3bf16");
    assert_int_equal(load(&spec, NULL), ST_OK);

    spec.inputs[1] = spec.output; // of one shape: upstream makes it for one dimension
    put_kernel(&spec, "add-36bf16-36bf16-36bf16");
    assert_int_equal(load(&spec, NULL), ST_OK);
    spec.inputs[1].nb[1] += 64;
    assert_false(packs_upstream_name(&spec, false, name));
    assert_int_equal(load(&spec, NULL), ST_NOT_FOUND);
}

// ---- threads ----

static void * read_thread(void * user) {
    struct packs * packs = user;
    for (int i = 0; i < 20; i++) {
        struct kernel_spec spec = make_spec(1 + i);
        struct kernel_code code = {0};
        if (packs_load(packs, &spec, &code, NULL) != ST_OK) {
            return packs;
        }
        kernel_code_free(&code);
    }
    return NULL;
}

static void threads(void ** state) {
    (void) state;
    struct manifest m = {0};
    for (int i = 0; i < 20; i++) {
        struct kernel_spec spec = make_spec(1 + i);
        char name[32];
        snprintf(name, sizeof name, "t%d", i);
        struct manifest_entry e = put_kernel(&spec, name);
        assert_int_equal(manifest_merge(&m, &e, 1, NULL), ST_OK);
    }
    put_manifest(&m);
    manifest_free(&m);
    struct packs packs;
    pthread_t ids[8];
    assert_int_equal(packs_open(home, &packs, NULL), ST_OK);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(pthread_create(&ids[i], NULL, read_thread, &packs), 0);
    }
    for (int i = 0; i < 8; i++) {
        void * failed;
        pthread_join(ids[i], &failed);
        assert_null(failed);
    }
    packs_close(&packs);
}

// What would be written but not read again is refused while the old one is still there.
static void too_many_kernels(void ** state) {
    (void) state;
    enum { N = 250000 };
    struct manifest m = {.entries = calloc(N, sizeof *m.entries), .n_entries = N};
    assert_non_null(m.entries);
    for (int i = 0; i < N; i++) {
        snprintf(m.entries[i].kernel, sizeof m.entries[i].kernel, "%0100d", i);
        snprintf(m.entries[i].exported_name, sizeof m.entries[i].exported_name, "k%d", i);
    }
    struct buf text = {0};
    struct error err = {0};
    assert_int_equal(manifest_print(&m, AIE_ARCH_AIE2, &text, &err), ST_UNSUPPORTED);
    assert_int_equal(text.size, 0);
    assert_non_null(strstr(err.text, "250000 kernels"));
    print_message("  %s\n", err.text);
    m.n_entries = 1000;
    assert_int_equal(manifest_print(&m, AIE_ARCH_AIE2, &text, &err), ST_OK);
    buf_free(&text);
    manifest_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(whatever_its_name, empty),
        cmocka_unit_test_setup(merging, empty),
        cmocka_unit_test_setup(changed_files, empty),
        cmocka_unit_test_setup(hostile_manifests, empty),
        cmocka_unit_test_setup(next_pack, empty),
        cmocka_unit_test_setup(upstream_names, empty),
        cmocka_unit_test_setup(threads, empty),
        cmocka_unit_test(too_many_kernels),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

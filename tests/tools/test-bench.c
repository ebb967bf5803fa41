// ggml-hsa bench, as people run it. What it says is held against what an op must move and multiply:
// words through the shim, products, the streams of the array. No wall-clock times.
#include "base/json.h"
#include "tool-run.h"

#include "skip.h"

#include <sys/stat.h>
#include <unistd.h>

static struct result run_bench(const char * arguments) {
    char words[1000];
    snprintf(words, sizeof words, "bench %s", arguments);
    return run(words);
}

static void expect(const char * arguments, int status, const char * text) {
    struct result r = run_bench(arguments);
    if (r.status != status || !strstr((char *) r.text.data, text)) {
        fail_msg("ggml-hsa bench %s: exit status %d, not %d with '%s':\n%s", arguments, r.status,
                 status, text, (char *) r.text.data);
    }
    buf_free(&r.text);
}

static json_t * run_json(const char * arguments) {
    struct result r = run_bench(arguments);
    struct error err = {0};
    json_t * root = NULL;
    if (r.status || json_read((char *) r.text.data, r.text.size - 1, &root, &err) != ST_OK) {
        fail_msg("ggml-hsa bench %s: exit status %d, %s:\n%s", arguments, r.status, err.text,
                 (char *) r.text.data);
    }
    buf_free(&r.text);
    return root;
}

static int64_t number(const json_t * object, const char * key) {
    const json_t * v = json_object_get(object, key);
    assert_true(json_is_integer(v));
    return json_integer_value(v);
}

// The causes are the whole time; returns the kernel.
static const json_t * check_kernel(const json_t * root, int i) {
    const json_t * k = json_array_get(json_object_get(root, "kernels"), (size_t) i);
    int64_t sum = 0;
    static const char * const causes[] = {"core", "bank",    "lock",     "stream", "start-up",
                                          "DDR",  "control", "reconfig", "host",   "flush"};
    const json_t * by_cause = json_object_get(k, "causes");
    assert_int_equal(json_object_size(by_cause), 10);
    for (int c = 0; c < 10; c++) {
        sum += number(by_cause, causes[c]);
    }
    assert_int_equal(number(k, "ns"), sum * 1000 / number(root, "mhz"));
    assert_int_equal(number(by_cause, "reconfig"), 0); // the array was configured by the first run
    assert_true(number(k, "first_ns") >= number(k, "ns"));
    assert_true(number(k, "bundles") > 0);
    return k;
}

static void add(void ** state) {
    (void) state;
    json_t * root = run_json("ADD f32 512x256 --clock ideal --json");
    const json_t * k = check_kernel(root, 0);
    assert_int_equal(number(root, "mhz"), 1000);
    // Three tensors pass the shim once each; two come in through 8 channels of a word a cycle.
    assert_int_equal(number(k, "shim_words"), 3 * 512 * 256);
    assert_int_equal(number(root, "bound_cycles"), 2 * 512 * 256 / 8);
    assert_string_equal(json_string_value(json_object_get(root, "bound_by")), "streams in");
    assert_true(number(k, "cycles") >= number(root, "bound_cycles"));
    assert_int_equal(number(k, "bank_stalls"), 0); // ideal banks are never busy
    json_decref(root);
}

// The other architecture has a clock of its own, eight columns and streams of two words.
static void add_aie2p(void ** state) {
    (void) state;
    json_t * root = run_json("ADD f32 512x256 --arch aie2p --json");
    const json_t * k = check_kernel(root, 0);
    assert_string_equal(json_string_value(json_object_get(root, "arch")), "aie2p");
    assert_string_equal(json_string_value(json_object_get(root, "clock")), "strix");
    assert_int_equal(number(k, "shim_words"), 3 * 512 * 256);
    assert_true(number(k, "cycles") >= number(root, "bound_cycles"));
    json_decref(root);
    root = run_json("ADD f32 512x256 --arch aie2p --clock strix,ddr=0 --json");
    assert_int_equal(number(root, "bound_cycles"), 2 * 512 * 256 / 32);
    assert_string_equal(json_string_value(json_object_get(root, "bound_by")), "streams in");
    json_decref(root);
    assert_int_equal(setenv("GGML_HSA_EMULATE", "aie2p,aie2", 1), 0);
    expect("ADD f32 64", 0, "on aie2p, modelled, clock strix");
    assert_int_equal(setenv("GGML_HSA_EMULATE", "aie2", 1), 0);
    expect("ADD f32 64 --arch aie9", 1, "no architecture 'aie9': aie2 or aie2p");
}

static void product(void ** state) {
    (void) state;
    json_t * root = run_json("mul_mat bf16 128,128,512 --json --clock phoenix,mhz=2000");
    const json_t * k = check_kernel(root, 0);
    assert_int_equal(number(root, "mhz"), 2000);
    assert_int_equal(number(root, "macs"), 128 * 128 * 512);
    assert_true(number(k, "cycles") > 128 * 128 * 512 / 2048);
    assert_true(number(json_object_get(k, "first_causes"), "reconfig") > 0);
    assert_true(number(json_object_get(k, "causes"), "host") > 0);
    json_decref(root);
}

static void others(void ** state) {
    (void) state;
    expect("SOFT_MAX f32 64x8", 0, "where the time went");
    expect("ARGMAX f32 64x8", 0, "bound ");
    expect("ggml_op_sum f32 64", 0, "shim words");
    expect("--help", 0, "usage: ggml-hsa bench OP TYPE SHAPE");
}

// Every byte is in a run; the memory of a range is slow, likely and fast, and the kernel the same.
static void range(void ** state) {
    (void) state;
    json_t * root = run_json("ADD f32 1024x1024 --range --json");
    const json_t * k = check_kernel(root, 0);
    const json_t * three = json_object_get(k, "range");
    int64_t low = number(json_object_get(three, "low"), "ns"),
            likely = number(json_object_get(three, "likely"), "ns"),
            high = number(json_object_get(three, "high"), "ns");
    assert_true(low > likely && likely > high);
    assert_int_equal(likely, number(k, "ns"));
    const json_t * runs = json_object_get(k, "runs");
    int64_t read = 0, written = 0, before = 0;
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t * one = json_array_get(runs, i);
        bool last = i + 1 == json_array_size(runs);
        assert_true(last ? number(one, "below") == 0 : number(one, "below") > before);
        before = number(one, "below");
        read += number(one, "read");
        written += number(one, "written");
    }
    assert_int_equal(read, 2 * 1024 * 1024 * 4);
    assert_int_equal(written, 1024 * 1024 * 4);
    json_decref(root);
    root = run_json("ADD f32 1024x1024 --clock phoenix,range=low --json");
    assert_int_equal(number(check_kernel(root, 0), "ns"), low);
    assert_null(json_object_get(json_array_get(json_object_get(root, "kernels"), 0), "range"));
    json_decref(root);
    expect("ADD f32 64 --range --clock phoenix,mhz=2000", 0, "by host memory");
    expect("ADD f32 64 --range --clock phoenix,ddr=3", 1, "'phoenix,ddr=3' says which memory");
    expect("ADD f32 64 --range --clock phoenix,range=low", 1, "leave one of the two out");
}

// A pack that was made with our own compiler holds the same kernel.
static void compare(void ** state) {
    (void) state;
    char directory[] = "/tmp/test-bench-XXXXXX", command[1024], arguments[256];
    assert_non_null(mkdtemp(directory));
    snprintf(command, sizeof command,
             "cd %s && echo '{\"kernels\":[{\"kernel_name\":\"ggml_op_add\",\"kernel_source\":"
             "\"binary_ops\",\"arch\":\"aie2\",\"input_tensors\":[\"(256,1,1,1)/f32\","
             "\"(256,1,1,1)/f32\"],\"output_tensor\":\"(256,1,1,1)/f32\",\"exported_name\":"
             "\"add_f32_256x1x1x1_f32_256x1x1x1_f32_256x1x1x1\"}]}' >c.json && %s --config c.json "
             "--output-dir . >log 2>&1",
             directory, GENERATOR);
    assert_int_equal(system(command), 0);
    snprintf(arguments, sizeof arguments, "ADD f32 256 --json --compare %s", directory);
    json_t * root = run_json(arguments);
    const json_t *ours = check_kernel(root, 0), *theirs = check_kernel(root, 1);
    assert_int_equal(number(ours, "ns"), number(theirs, "ns"));
    assert_string_equal(json_string_value(json_object_get(theirs, "source")), "from a pack");
    assert_string_equal(json_string_value(json_object_get(theirs, "pack")), directory);
    assert_true(json_is_true(json_object_get(root, "same_result")));
    json_decref(root);
    snprintf(arguments, sizeof arguments, "ADD f32 256 --compare %s", directory);
    expect(arguments, 0, "both gave the same 1024 bytes");
    snprintf(arguments, sizeof arguments, "ADD f32 257 --compare %s", directory);
    expect(arguments, 1, "no kernel add_f32_257x1x1x1");
    snprintf(command, sizeof command, "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
}

static void mistakes(void ** state) {
    (void) state;
    expect("", 2, "OP, TYPE and SHAPE are wanted");
    expect("ADD f32 4 5", 2, "'5' is one word too many");
    expect("ADD f32 4 --fast", 2, "no option '--fast'");
    expect("ADD f32 4 --clock", 2, "--clock wants a value");
    expect("POLISH f32 4", 2, "no op 'POLISH'");
    expect("SOFTMAX f32 4", 2, "did you mean 'SOFT_MAX'?");
    expect("ADD q8_9 4", 2, "no datatype 'q8_9'");
    expect("ADD f32 4,4", 2, "no shape of ADD '4,4'");
    expect("ADD f32 0x4", 2, "no shape");
    expect("ADD f32 1x1x1x1x1", 2, "no shape");
    expect("ADD f32 99999999999999999999", 2, "no shape");
    expect("MUL_MAT bf16 4x4x4", 2, "m,n,k");
    expect("ADD f32 4 --clock sundial", 1, "there is no device 'sundial'");
}

// One pack and one cache for both: each finds its own kernel, and never the other's.
static void both_architectures(void ** state) {
    (void) state;
    static const char * const archs[] = {"aie2", "aie2p"};
    char directory[] = "/tmp/test-bench-XXXXXX", command[1024], arguments[256], cache[64];
    assert_non_null(mkdtemp(directory));
    snprintf(command, sizeof command,
             "cd %s && echo '{\"kernels\":[{\"kernel_name\":\"ggml_op_add\",\"kernel_source\":"
             "\"binary_ops\",\"input_tensors\":[\"(256,1,1,1)/f32\",\"(256,1,1,1)/f32\"],"
             "\"output_tensor\":\"(256,1,1,1)/f32\",\"exported_name\":"
             "\"add_f32_256x1x1x1_f32_256x1x1x1_f32_256x1x1x1\"}]}' >c.json && %s --config c.json "
             "--output-dir . --arch aie2 >log 2>&1 && %s --config c.json --output-dir . --arch "
             "aie2p >log 2>&1",
             directory, GENERATOR, GENERATOR);
    assert_int_equal(system(command), 0);
    snprintf(cache, sizeof cache, "%s/cache", directory);
    setenv("GGML_HSA_KERNEL_CACHE_DIR", cache, 1);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "100M", 1);
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < 2; i++) {
            snprintf(arguments, sizeof arguments, "ADD f32 256 --arch %s", archs[i]);
            expect(arguments, 0, again ? "from the cache" : "compiled");
        }
    }
    setenv("GGML_HSA_KERNEL_DIR", directory, 1);
    for (int i = 0; i < 2; i++) {
        snprintf(arguments, sizeof arguments, "ADD f32 256 --arch %s", archs[i]);
        expect(arguments, 0, "from a pack");
    }
    unsetenv("GGML_HSA_KERNEL_DIR");
    unsetenv("GGML_HSA_KERNEL_CACHE_DIR");
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
}

// What is not one kernel: nodes of ggml, of every type, alone and for several numbers of rows.
static void nodes(void ** state) {
    (void) state;
    expect("ADD F32 64", 0, "add f32 64");
    if (!WITH_GGML) {
        return;
    }
    static const char * const some[] = {
        "MUL_MAT q4_0 256,1,256", "MUL_MAT iq2_xxs 64,2,256", "MUL_MAT f32 64,4,64",
        "ROPE f32 64x4x2",        "GET_ROWS f32 64,16,4",     "SET_ROWS f16 64,16,4",
        "CPY f32-f16 64x8",       "MUL_MAT_ID q8_0 64,2,64",  "gelu f32 64 --sweep rows=1..1"};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        expect(some[i], 0, "a node of ggml, modelled");
    }
    expect("GET_ROWS q4_0 256,16,4", 1, "the host computes this one");
    expect("MUL_MAT q4_0 64,1,65", 2, "a row of q4_0 is a multiple of 32");
    expect("MUL_MAT q4_9 64,1,64", 2, "types: f32 f16 q4_0");
    expect("ROEP f32 64", 2, "did you mean 'ROPE'?");
    expect("ADD f32 64 --sweep rows=8..1", 2, "rows=A..B");
    expect("ADD f32 64 --svg x.svg", 2, "--svg draws a --sweep");
    // Twice as many rows of b as one go brings are two kernels, and each point has its time.
    char directory[] = "/tmp/test-bench-XXXXXX", arguments[256], path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/sweep.svg", directory);
    snprintf(arguments, sizeof arguments,
             "MUL_MAT q4_0 256,1,256 --sweep rows=1..24 --json --svg %s", path);
    json_t * root = run_json(arguments);
    const json_t * points = json_object_get(root, "points");
    static const int rows[] = {1, 2, 4, 8, 16, 24};
    assert_int_equal(json_array_size(points), 6);
    for (size_t i = 0; i < 6; i++) {
        const json_t * p = json_array_get(points, i);
        assert_int_equal(number(p, "rows"), rows[i]);
        assert_true(number(p, "ns") > 1000 && number(p, "kernels") >= 1);
        assert_int_equal(number(p, "pdi_loads"), 0);
    }
    json_decref(root);
    uint8_t * svg;
    size_t size;
    assert_int_equal(file_read(path, 1 << 20, &svg, &size, NULL), ST_OK);
    int circles = 0;
    const char *at = (char *) svg, *end = at + size;
    while ((at = memmem(at, (size_t) (end - at), "<circle", 7))) {
        circles++;
        at++;
    }
    assert_int_equal(circles, 6);
    free(svg);
    unlink(path);
    rmdir(directory);
}

// A product on emulated GPUs, by its kernels. What it must read, write and multiply is known, and
// so is what chips differ in; how many instructions that takes is the compiler's matter.
static void gpus(void ** state) {
    (void) state;
    if (!WITH_GGML) {
        return;
    }
    expect("MUL_MAT f32 32,1,64 --arch gfx1030", 2, "no figures of 'gfx1030': gfx90a, gfx942");
    expect("MUL_MAT f32 32,1,64 --arch gfx1100 --sweep rows=1..2", 2, "are of NPUs");
    if (!clang_has_linker("clang++-19")) {
        skip_test("no clang++-19 with its lld to compile GPU kernels with");
    }
    static const struct {
        const char *arch, *emulated;
        int64_t memory_ps; // of a byte
        bool guessed;      // is one of the chip's figures, which AMD does not name?
    } chips[] = {{"gfx1100", "gfx1100", 1000000 / 960, false},
                 {"gfx1103", "gfx1100", 1000000 / 120, true},
                 {"gfx90a", "gfx90a", 1000000 / 1638, false}};
    const int64_t bytes = 4 * (32 * 64 + 64 + 32);
    for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++) {
        char arguments[128];
        snprintf(arguments, sizeof arguments, "MUL_MAT f32 32,1,64 --json --arch %s",
                 chips[i].arch);
        json_t * root = run_json(arguments);
        const json_t * estimated = json_object_get(root, "estimated_ns");
        const json_t * l = json_array_get(json_object_get(root, "launches"), 0);
        assert_int_equal(number(root, "bytes"), bytes);
        assert_int_equal(number(root, "flops"), 2 * 32 * 64);
        assert_string_equal(json_string_value(json_object_get(root, "emulated")),
                            chips[i].emulated);
        assert_true(json_string_length(json_object_get(root, "chip_source")) > 0);
        assert_int_equal(json_string_length(json_object_get(root, "chip_estimated")) > 0,
                         chips[i].guessed);
        assert_int_equal(number(estimated, "memory"), bytes * chips[i].memory_ps / 1000000);
        assert_int_equal(number(root, "launches_count"), 1);
        assert_true(number(l, "vgprs") > 0 && number(l, "occupancy") > 0 &&
                    number(l, "occupancy") <= number(l, "occupancy_most"));
        const json_t * kinds = json_object_get(l, "kinds");
        // Weights and activations are read at least once, results written once.
        assert_true(number(json_object_get(kinds, "load"), "bytes") >= 4 * (32 * 64 + 64));
        assert_int_equal(number(json_object_get(kinds, "store"), "bytes"), 4 * 32);
        json_decref(root);
    }
}

int main(void) {
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
    unsetenv("GGML_HSA_EMU_CLOCK");
    setenv("ROCM_KERNELS_COMPILER", "clang", 1);
    setenv("CANDLE_ROCM_VERSION", "0", 1);
    setenv("CANDLE_ROCM_CACHE_DIR", GPU_CACHE, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(add),
                                       cmocka_unit_test(add_aie2p),
                                       cmocka_unit_test(both_architectures),
                                       cmocka_unit_test(product),
                                       cmocka_unit_test(others),
                                       cmocka_unit_test(range),
                                       cmocka_unit_test(compare),
                                       cmocka_unit_test(nodes),
                                       cmocka_unit_test(gpus),
                                       cmocka_unit_test(mistakes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test-gen-kernels: the tool as users run it. Each wrong entry is named, the others are made; what
// is written is whole and is found by a store without a compiler; nothing temporary stays, whatever
// stops the run.
#include "aie/aie.h"
#include "base/cmocka-all.h"
#include "base/stand-ins.h"
#include "store/manifest.h"
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char home[] = "/tmp/test-gen-kernels-XXXXXX";
static char said[1 << 16], complained[1 << 16]; // by the last run

static const char * in_home(const char * name) {
    static char paths[8][512];
    static int next;
    char * path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", home, name);
    return path;
}

static void put(const char * name, const char * text) {
    FILE * f = fopen(in_home(name), "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void get(const char * name, char * text, size_t size) {
    FILE * f = fopen(in_home(name), "rb");
    assert_non_null(f);
    text[fread(text, 1, size - 1, f)] = '\0';
    fclose(f);
}

static bool exists(const char * name) {
    struct stat info;
    return lstat(in_home(name), &info) == 0;
}

// The exit status of a shell command, run in `home`, where $T is the tool.
static int shell(const char * fmt, ...) BASE_PRINTF(1, 2);
static int shell(const char * fmt, ...) {
    char command[4096];
    va_list args;
    int n = snprintf(command, sizeof command, "cd '%s' && T='%s' && { ", home, TOOL);
    va_start(args, fmt);
    n += vsnprintf(command + n, sizeof command - (size_t) n, fmt, args);
    va_end(args);
    snprintf(command + n, sizeof command - (size_t) n, "\n} >said 2>complained");
    int status = system(command);
    get("said", said, sizeof said);
    get("complained", complained, sizeof complained);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void must_say(const char * where, const char * what) {
    if (!strstr(where, what)) {
        fail_msg("'%s' is not in '%s'", what, where);
    }
}

static int clean(void ** state) {
    (void) state;
    unsetenv("GGML_HSA_JIT_COMMAND");
    unsetenv("GGML_HSA_KERNEL_DIR");
    unsetenv("GGML_HSA_RECORD");
    return shell("rm -rf out out2; mkdir -p .");
}

static int setup(void ** state) {
    (void) state;
    return mkdtemp(home) ? 0 : -1;
}

static int teardown(void ** state) {
    (void) state;
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    return system(command);
}

// How many files of a directory have this in their names.
static int count(const char * dir, const char * part) {
    DIR * d = opendir(in_home(dir));
    int n = 0;
    for (struct dirent * e; d && (e = readdir(d));) {
        n += strstr(e->d_name, part) != NULL;
    }
    if (d) {
        closedir(d);
    }
    return n;
}

// ---- configurations ----

static void entry(struct buf * b, const char * name, const char * tensor) {
    buf_printf(b,
               "{\"kernel_name\": \"ggml_op_add\", \"kernel_source\": \"binary_ops.py\", \"arch\": "
               "\"aie2\", \"input_tensors\": [\"%s\", \"%s\"], \"output_tensor\": \"%s\", "
               "\"exported_name\": \"%s\"}",
               tensor, tensor, tensor, name);
}

static void put_many(const char * file, const char * prefix, int n, int first) {
    static const char * const types[] = {"f32", "f16", "bf16", "i8", "i16", "i32"};
    struct buf b = {0};
    buf_printf(&b, "{\"kernels\": [\n");
    for (int i = 0; i < n; i++) {
        char name[64], tensor[64];
        snprintf(name, sizeof name, "%s%d", prefix, i);
        snprintf(tensor, sizeof tensor, "(%d,1,1,1)/%s", 16 * (first + i), types[i % 6]);
        buf_printf(&b, i ? ",\n" : "");
        entry(&b, name, tensor);
    }
    buf_printf(&b, "]}\n");
    put(file, (char *) b.data);
    buf_free(&b);
}

// Two good entries around what is given.
static void put_between(const char * middle) {
    struct buf b = {0};
    buf_printf(&b, "{\"kernels\": [");
    entry(&b, "first", "(64,1,1,1)/f32");
    buf_printf(&b, ",\n%s,\n", middle);
    entry(&b, "last", "(128,1,1,1)/i16");
    buf_printf(&b, "]}");
    put("c.json", (char *) b.data);
    buf_free(&b);
}

// ---- errors ----

#define NAME     "\"kernel_name\": \"ggml_op_add\", "
#define FROM     "\"kernel_source\": \"binary_ops.py\", "
#define ARCH     "\"arch\": \"aie2\", "
#define IN       "\"input_tensors\": [\"(64,1,1,1)/f32\", \"(64,1,1,1)/f32\"], "
#define OUT      "\"output_tensor\": \"(64,1,1,1)/f32\", "
#define BAD      "\"exported_name\": \"bad\""
#define IN_OF(t) "\"input_tensors\": [\"" t "\", \"(64,1,1,1)/f32\"], "
#define X50      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static const struct {
    const char *entry, *label, *text;
} wrong[] = {
    {"{" NAME "\"kernel_source\": \"nowhere.py\", " ARCH IN OUT BAD "}", "'bad'",
     "Kernel source not found: 'nowhere.py'"},
    {"{" NAME "\"kernel_source\": \"../binary_ops.py\", " ARCH IN OUT BAD "}", "'bad'",
     "Kernel source not found"},
    {"{" NAME "\"kernel_source\": \"\", " ARCH IN OUT BAD "}", "'bad'", "Kernel source not found"},
    {"{\"kernel_name\": \"ggml_op_mul_mat\", \"kernel_source\": \"mul_mat_ops.py\", " ARCH
     "\"input_tensors\": [\"(64,8,1,1)/f32\", \"(64,4,1,1)/f32\"], "
     "\"output_tensor\": \"(8,4,1,1)/f32\", " BAD "}",
     "'bad'", "no mul_mat of f32 and f32 to f32 on aie2; there are bf16 or f16 with bf16 or f32"},
    {"{\"kernel_name\": \"ggml_op_nothing\", " FROM ARCH IN OUT BAD "}", "'bad'",
     "Kernel not found: 'ggml_op_nothing'"},
    {"{" NAME FROM "\"arch\": \"aie9\", " IN OUT BAD "}", "'bad'",
     "Unknown arch 'aie9' (known: aie2, aie2p)"},
    {"{" NAME FROM ARCH IN_OF("64,1,1,1/f32") OUT BAD "}", "'bad'",
     "Invalid tensor descriptor: '64,1,1,1/f32'"},
    {"{" NAME FROM ARCH IN_OF("(64,1,1,1)") OUT BAD "}", "'bad'", "Invalid tensor descriptor"},
    {"{" NAME FROM ARCH IN_OF("") OUT BAD "}", "'bad'", "Invalid tensor descriptor"},
    {"{" NAME FROM ARCH IN_OF("(-1,1,1,1)/f32") OUT BAD "}", "'bad'", "Invalid tensor descriptor"},
    {"{" NAME FROM ARCH IN_OF("(9223372036854775807,2,1,1)/f32") OUT BAD "}", "'bad'",
     "Invalid tensor descriptor"},
    {"{" NAME FROM ARCH IN_OF("(99999999999999999999,1,1,1)/f32") OUT BAD "}", "'bad'",
     "Invalid tensor descriptor"},
    {"{" NAME FROM ARCH IN_OF("(64,1,1,1)/f32/(4,256)") OUT BAD "}", "'bad'",
     "Invalid tensor descriptor"},
    {"{" NAME FROM ARCH IN_OF("(64,1,1)/f32") OUT BAD "}", "'bad'",
     "Shape must have exactly 4 dimensions, got 3"},
    {"{" NAME FROM ARCH IN "\"output_tensor\": \"(64)/f32\", " BAD "}", "'bad'",
     "Shape must have exactly 4 dimensions, got 1"},
    {"{" NAME FROM ARCH IN_OF("(64,1,1,1)/f64") OUT BAD "}", "'bad'", "Unknown dtype 'f64'"},
    {"{" NAME FROM ARCH IN OUT "\"exported_name\": \"first\"}", "'first'",
     "duplicate exported_name: kernels[0]"},
    {"{" FROM ARCH IN OUT BAD "}", "'bad'", "'kernel_name' is missing"},
    {"{" NAME ARCH IN OUT BAD "}", "'bad'", "'kernel_source' is missing"},
    {"{" NAME FROM IN OUT BAD "}", "'bad'", "'arch' is missing"},
    {"{" NAME FROM ARCH OUT BAD "}", "'bad'", "'input_tensors' is missing"},
    {"{" NAME FROM ARCH IN BAD "}", "'bad'", "'output_tensor' is missing"},
    {"{" NAME FROM ARCH IN OUT "\"comment\": \"\"}", "''", "'exported_name' is missing"},
    {"{\"kernel_name\": 1, " FROM ARCH IN OUT BAD "}", "'bad'",
     "'kernel_name' must be a string, this is an integer"},
    {"{" NAME FROM "\"arch\": null, " IN OUT BAD "}", "'bad'",
     "'arch' must be a string, this is null"},
    {"{" NAME FROM ARCH "\"input_tensors\": \"(64,1,1,1)/f32\", " OUT BAD "}", "'bad'",
     "must be an array"},
    {"{" NAME FROM ARCH "\"input_tensors\": [1, 2], " OUT BAD "}", "'bad'",
     "input_tensors[0] must be a string"},
    {"{" NAME FROM ARCH "\"input_tensors\": [], " OUT BAD "}", "'bad'",
     "takes 2 input tensors, here are 0"},
    {"{" NAME FROM ARCH "\"input_tensors\": "
     "[\"(1,1,1,1)/f32\",\"(1,1,1,1)/f32\",\"(1,1,1,1)/f32\",\"(1,1,1,1)/"
     "f32\",\"(1,1,1,1)/f32\",\"(1,1,1,1)/f32\"], " OUT BAD "}",
     "'bad'", "here are 6"},
    {"{" NAME FROM ARCH IN OUT BAD ", \"op_params\": [1]}", "'bad'",
     "takes 0 op_params, here are 1"},
    {"{" NAME FROM ARCH IN OUT BAD ", \"op_params\": [1e39]}", "'bad'", "op_params[0]"},
    {"{" NAME FROM ARCH IN OUT BAD ", \"op_params\": {}}", "'bad'", "'op_params' must be an array"},
    {"{" NAME FROM ARCH IN OUT BAD ", \"op_parms\": []}", "'bad'", "unknown field 'op_parms'"},
    {"{" NAME FROM ARCH IN OUT "\"exported_name\": \"../bad\"}", "''", "is no file name"},
    {"{" NAME FROM ARCH IN OUT "\"exported_name\": \"/tmp/bad\"}", "''", "is no file name"},
    {"{" NAME FROM ARCH IN OUT "\"exported_name\": \".bad\"}", "''", "is no file name"},
    {"{" NAME FROM ARCH IN OUT "\"exported_name\": \"\"}", "''", "is no file name"},
    {"{" NAME FROM ARCH IN OUT "\"exported_name\": \"b\\nad\"}", "''", "is no file name"},
    {"{" NAME FROM ARCH IN OUT "\"exported_name\": \"" X50 X50 X50 X50 "\"}", "''",
     "is no file name"},
    {"{" NAME FROM ARCH IN "\"output_tensor\": \"(63,1,1,1)/f32\", " BAD "}", "'bad'", "output"},
    {"{" NAME FROM "\"arch\": \"a\\nggml-hsa: forged\", " IN OUT BAD "}", "'bad'",
     "Unknown arch 'a?ggml"},
    {"{" NAME FROM ARCH IN OUT BAD ", \"a\\u001b[2J\\u202e\\u009b\": []}", "'bad'",
     "unknown field 'a?[2J?"
     "?"
     "?"
     "?"
     "?'"},
    {"{" NAME FROM ARCH IN_OF("(64,1,1,1)/f\\nggml-hsa: forged") OUT BAD "}", "'bad'", "f?ggml"},
    {"7", "''", "an entry must be an object, this is an integer"},
    {"null", "''", "an entry must be an object, this is null"},
    {"[[]]", "''", "an entry must be an object, this is an array"},
};

static void wrong_entries(void ** state) {
    (void) state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char label[64];
        put_between(wrong[i].entry);
        assert_int_equal(shell("rm -rf out; $T --config c.json --output-dir out"), 1);
        snprintf(label, sizeof label, "kernels[1] %s: ", wrong[i].label);
        must_say(complained, label);
        must_say(complained, wrong[i].text);
        must_say(said, "2 of 3 kernels made");
        must_say(said, "1 failed");
        assert_true(exists("out/aie2/first.pdi") && exists("out/aie2/first_insts.bin"));
        assert_true(exists("out/aie2/last.pdi") && exists("out/aie2/last_insts.bin"));
        assert_int_equal(count("out/aie2", ""),
                         2 + 6); // ".", "..", two kernels, programs, manifest
    }
    assert_false(exists("bad.pdi"));
}

static void wrong_files(void ** state) {
    (void) state;
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "c.json: JSON syntax: line 1, column 1"},
        {"{\"kernels\": [\n  {\"a\" 1}]}",
         "c.json: JSON syntax: line 2, column 8: ':' expected near '1'"},
        {"{\"kernels\": [1,]}", "JSON syntax: line 1, column 16"},
        {"{\"kernels\": [}", "JSON syntax: line 1, column 14"},
        {"[]", "must be an object"},
        {"{}", "'kernels' is missing"},
        {"{\"kernels\": {}}", "'kernels' must be an array"},
        {"{\"kernels\": [], \"kernels\": []}",
         "JSON syntax: line 1, column 25: duplicate object key near '\"kernels\"'"},
        {"{\"kernels\": [\n{" NAME NAME FROM ARCH IN OUT BAD "}]}",
         "JSON syntax: line 2, column 44: duplicate object key near '\"kernel_name\"'"},
        {"{\"kernels\": [\n{" NAME FROM ARCH IN OUT BAD ", " BAD "}]}",
         "duplicate object key near '\"exported_name\"'"},
        {"{\"kernels\": [{\"op_params\": [1e999]}]}", "real number overflow near '1e999'"},
        {"{\"kernels\": [{\"op_params\": [99999999999999999999]}]}", "too big integer"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put("c.json", rows[i].text);
        assert_int_equal(shell("$T --config c.json --output-dir out"), 1);
        must_say(complained, rows[i].why);
        assert_false(exists("out"));
    }
    assert_int_equal(shell("$T --config nowhere.json --output-dir out"), 1);
    must_say(complained, "nowhere.json");
    assert_int_equal(shell("$T --config . --output-dir out"), 1);
    put("c.json", "{\"kernels\": []}");
    assert_int_equal(shell("$T --config c.json --output-dir out"), 0);
    must_say(said, "0 of 0 kernels made");
    assert_int_equal(shell("head -c 1000000 /dev/zero | tr '\\0' '[' >c.json; $T --config c.json "
                           "--output-dir out"),
                     1);
    must_say(complained, "nested too deeply");
    assert_int_equal(
        shell("{ printf '{\"kernels\": ['; yes '1,' | head -n 200000; echo 1]}; } >c.json; "
              "$T --config c.json --output-dir out"),
        1);
    must_say(complained, "200001 entries");
    assert_false(exists("out"));
}

// An op or shape that our compiler does not make is asked of the external command, where one is
// set.
static void external_command(void ** state) {
    (void) state;
    static const char other[] =
        "{" NAME FROM ARCH IN "\"output_tensor\": \"(96,1,1,1)/f32\", " BAD "}";
    static const char shorter[] =
        "{" NAME FROM ARCH IN "\"output_tensor\": \"(32,1,1,1)/f32\", " BAD "}";
    put_between(other);
    assert_int_equal(
        shell("GGML_HSA_JIT_COMMAND=/nowhere/build.py $T --config c.json --output-dir out"), 1);
    must_say(complained, "kernels[1] 'bad': ");
    must_say(complained, "IRON environment is not active. Run source env_setup.sh first.");
    must_say(said, "2 of 3 kernels made");
    assert_false(exists("out/aie2/bad.pdi"));

    put("build.sh", "#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in --output_directory) out=$2;; "
                    "--exported_name) name=$2;; esac; shift; done\n"
                    "cp out/aie2/first.pdi $out/$name.pdi\n"
                    "cp out/aie2/first_insts.bin ${out}/${name}_insts.bin\n");
    assert_int_equal(
        shell("chmod +x build.sh; GGML_HSA_JIT_COMMAND=./build.sh $T --config c.json --output-dir "
              "out --verbose && cmp out/aie2/bad.pdi out/aie2/first.pdi"),
        0);
    must_say(said, "3 of 3 kernels made");
    must_say(said, "by GGML_HSA_JIT_COMMAND");
    assert_int_equal(shell("$T --list --output-dir out"), 0);

    put_between(shorter); // for which that kernel would write behind the result
    assert_int_equal(shell("GGML_HSA_JIT_COMMAND=./build.sh $T --config c.json --output-dir out2"),
                     1);
    must_say(complained, "its _insts.bin is broken: instruction stream at offset ");
    must_say(complained, "reaches byte 256 of operand 2, which has 128");
    assert_false(exists("out2/aie2/bad.pdi"));
}

// ---- what is made ----

static void found_by_a_store(void ** state) {
    (void) state;
    assert_int_equal(shell("$T --config '%s/minimal-kernel-config.json' --output-dir out && "
                           "$T --config '%s/example-kernel-config.json' --output-dir out --verbose",
                           EXAMPLES, EXAMPLES),
                     0);
    must_say(said, "aie2/add_f32_4096: add_f32_4096x1x1x1_f32_4096x1x1x1_f32_4096x1x1x1");
    setenv("GGML_HSA_KERNEL_DIR", in_home("out"), 1);
    struct store * s;
    struct store_kernel * k;
    struct store_stats stats;
    struct error err = {0};
    assert_int_equal(store_new_with(NULL, &s, NULL), ST_OK);
    static const int64_t sizes[] = {1024, 4096};
    for (int i = 0; i < 2; i++) {
        struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
        spec.inputs[0] = spec.inputs[1] = spec.output =
            tensor_contiguous(DTYPE_F32, (int64_t[]){sizes[i], 1, 1, 1});
        assert_true(store_can(s, &spec));
        if (store_get(s, &spec, &k, &err) != ST_OK) {
            fail_msg("%s", err.text);
        }
    }
    store_get_stats(s, &stats);
    assert_int_equal(stats.pack_hits, 2);
    assert_int_equal(stats.compiles, 0);
    store_free(s);
    assert_int_equal(shell("$T --list --output-dir out"), 0);
    must_say(said, "good   aie2/add_f32_1024 ");
    assert_int_equal(shell("printf x >>out/aie2/add_f32_1024.pdi; $T --list --output-dir out"), 1);
    must_say(said, "broken aie2/add_f32_1024 ");
    must_say(complained, "its manifest says");
}

static struct kernel_spec product_spec(int64_t k, int64_t m, int64_t n) {
    return (struct kernel_spec){.op = KERNEL_OP_MUL_MAT,
                                .arch = AIE_ARCH_AIE2,
                                .n_inputs = 2,
                                .inputs = {tensor_contiguous(DTYPE_BF16, (int64_t[]){k, m, 1, 1}),
                                           tensor_contiguous(DTYPE_BF16, (int64_t[]){k, n, 1, 1})},
                                .output = tensor_contiguous(DTYPE_F32, (int64_t[]){m, n, 1, 1})};
}

// One product in the pack, of few columns: every product, what sums up its parts and what brings
// operands to bf16 is then there for a store that cannot compile; another op is not.
static void programs_for_other_shapes(void ** state) {
    (void) state;
    struct kernel_spec few = product_spec(64, 64, 1), many = product_spec(128, 200, 77);
    struct kernel_spec add = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    add.inputs[0] = add.inputs[1] = add.output =
        tensor_contiguous(DTYPE_F32, (int64_t[]){777, 1, 1, 1});
    struct kernel_spec div = add; // of another program
    div.op = KERNEL_OP_DIV;
    struct buf text = {0};
    buf_printf(&text, "{\"kernels\": [");
    kernel_config_print(&few, "few", &text);
    buf_printf(&text, "]}");
    put("c.json", (char *) text.data);
    buf_free(&text);
    assert_int_equal(shell("$T --config c.json --output-dir out"), 0);

    struct store_compiler streams = *store_own_compiler(), other = streams;
    streams.pdi = other.pdi = NULL;
    other.identity = "aie another";
    setenv("GGML_HSA_KERNEL_DIR", in_home("out"), 1);
    struct store * s;
    struct store_kernel *a, *b;
    struct store_stats stats;
    struct error err = {0};
    assert_int_equal(store_new_with(&streams, &s, NULL), ST_OK);
    assert_false(store_has_compiler(s));
    assert_true(store_can(s, &few) && store_can(s, &many) && store_can(s, &add));
    assert_int_equal(store_get(s, &few, &a, &err), ST_OK);
    assert_int_equal(store_get(s, &many, &b, &err), ST_OK);
    assert_int_equal(store_get(s, &add, &a, &err), ST_OK);
    struct kernel_code whole;
    assert_int_equal(aie_compile(&many, &whole, &err), ST_OK);
    assert_int_equal(b->pdi->size, whole.pdi_size);
    assert_memory_equal(b->pdi->data, whole.pdi, whole.pdi_size);
    assert_int_equal(b->n_insts, whole.n_insts);
    assert_memory_equal(b->insts, whole.insts, 4 * whole.n_insts);
    kernel_code_free(&whole);
    store_get_stats(s, &stats);
    assert_int_equal(stats.pack_hits, 1);
    assert_int_equal(stats.streams, 2);
    assert_int_equal(stats.compiles, 0);
    assert_int_equal(stats.absent, 0);
    assert_false(store_can(s, &div));
    assert_int_equal(store_get(s, &div, &a, &err), ST_NOT_FOUND);
    assert_non_null(strstr(err.text, "does not hold program math_f32"));
    store_get_stats(s, &stats);
    assert_int_equal(stats.absent, 2);
    store_free(s);

    // Another version of the compiler: the kernel, and nothing made of its program.
    assert_int_equal(store_new_with(&other, &s, NULL), ST_OK);
    assert_true(store_can(s, &few));
    assert_false(store_can(s, &many));
    store_why_not(s, &many, &err);
    assert_non_null(strstr(err.text, "by another version of the compiler; make the pack again"));
    store_free(s);

    // A file that is not what the manifest says is no program.
    assert_int_equal(shell("printf x >>out/aie2/programs/mul_mat_bf16_gemm.pdi"), 0);
    assert_int_equal(store_new_with(&streams, &s, NULL), ST_OK);
    assert_false(store_can(s, &many));
    assert_int_equal(store_get(s, &many, &a, &err), ST_CORRUPT);
    assert_true(store_can(s, &few));
    store_free(s);
    assert_int_equal(shell("$T --list --output-dir out"), 1);
    must_say(said, "good   aie2/programs/decoder for every shape");
    must_say(said, "broken aie2/programs/mul_mat_bf16_gemm for every shape");
    assert_int_equal(shell("$T --config c.json --output-dir out && $T --list --output-dir out"), 0);
}

static void dry_run(void ** state) {
    (void) state;
    put_between("{" NAME FROM ARCH IN OUT "\"exported_name\": \"third\"}");
    assert_int_equal(shell("$T --config c.json --output-dir out --dry-run"), 0);
    must_say(said, "3 of 3 kernels can be made");
    assert_false(exists("out"));
    assert_int_equal(shell("$T --config c.json --dry-run"), 0);
    put_between("{" NAME FROM ARCH IN "\"output_tensor\": \"(63,1,1,1)/f32\", " BAD "}");
    assert_int_equal(shell("$T --config c.json --output-dir out --dry-run --verbose"), 1);
    must_say(complained, "kernels[1] 'bad'");
    must_say(said, "2 of 3 kernels can be made, 1 failed");
    assert_false(exists("out"));
}

static void architectures(void ** state) {
    (void) state;
    put_between("{" NAME FROM IN OUT "\"exported_name\": \"any\"}");
    assert_int_equal(shell("$T --config c.json --output-dir out --arch aie2"), 0);
    assert_true(exists("out/aie2/any.pdi"));
    put_between("{" NAME FROM "\"arch\": \"aie2p\", " IN OUT "\"exported_name\": \"first\"}");
    assert_int_equal(shell("$T --config c.json --output-dir out2 --arch aie2 --verbose"), 0);
    must_say(said, "2 of 2 kernels made"); // the same name for two architectures is no duplicate
    must_say(said, "1 of other architectures left out");
    assert_false(exists("out2/aie2p"));
    assert_int_equal(shell("$T --config c.json --output-dir out2 --arch aie9"), 2);
    must_say(complained, "Unknown arch 'aie9'");
    // Side by side in one pack: what names no architecture is made for each, and differs.
    put_between("{" NAME FROM IN OUT "\"exported_name\": \"any\"}");
    assert_int_equal(shell("$T --config c.json --output-dir out --arch aie2p"), 0);
    assert_true(exists("out/aie2/any.pdi") && exists("out/aie2p/any.pdi"));
    assert_int_equal(shell("cmp -s out/aie2/any.pdi out/aie2p/any.pdi"), 1);
    assert_int_equal(shell("$T --list --output-dir out"), 0);
    must_say(said, "good   aie2/any");
    must_say(said, "good   aie2p/any");
}

// However many threads make them and whatever was there before, the files are the same.
static void jobs_and_reruns(void ** state) {
    (void) state;
    put_many("c.json", "k", 120, 1);
    assert_int_equal(shell("$T --config c.json --output-dir out --jobs 1"), 0);
    assert_int_equal(shell("$T --config c.json --output-dir out2 --jobs 16 && diff -r out out2"),
                     0);
    assert_int_equal(count("out/aie2", ".pdi"), 120);
    assert_int_equal(count("out/aie2", ".tmp"), 0);
    assert_int_equal(shell("$T --config c.json --output-dir out --jobs 16 && diff -r out out2"), 0);
    must_say(said, "120 of them as they were");
    assert_int_equal(
        shell(
            "rm out/aie2/k7.pdi out/aie2/k9_insts.bin out/aie2/k3.pdi; printf x >out/aie2/k7.pdi; "
            "$T --config c.json --output-dir out && diff -r out out2"),
        0);
    must_say(said, "117 of them as they were");
    // PDIs are shared on disk, so that writing into one spoils others: they are mended as well.
    assert_int_equal(shell("printf x >out/aie2/k0.pdi; $T --list --output-dir out"), 1);
    assert_int_equal(shell("$T --config c.json --output-dir out && diff -r out out2"), 0);
}

static void two_at_once(void ** state) {
    (void) state;
    put_many("a.json", "a", 60, 1);
    put_many("b.json", "b", 60, 100);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(
            shell("rm -rf out; $T --config a.json --output-dir out & $T --config b.json "
                  "--output-dir out && wait $! && $T --list --output-dir out | "
                  "grep -c '^good   aie2/[ab]' >n"),
            0);
        char n[16];
        get("n", n, sizeof n);
        assert_int_equal(atoi(n), 120);
    }
}

static void manifests_merge(void ** state) {
    (void) state;
    put_many("a.json", "k", 10, 1);
    put_many("b.json", "k", 5, 50); // other kernels for the first five names
    assert_int_equal(
        shell("$T --config a.json --output-dir out && $T --config b.json --output-dir out && "
              "$T --list --output-dir out"),
        0);
    struct manifest m;
    assert_int_equal(manifest_read(in_home("out/aie2/manifest.json"), AIE_ARCH_AIE2, &m, NULL),
                     ST_OK);
    assert_int_equal(m.n_entries, 10);
    assert_null(manifest_find(&m, "add_f32_16x1x1x1_f32_16x1x1x1_f32_16x1x1x1"));
    assert_string_equal(
        manifest_find(&m, "add_f32_800x1x1x1_f32_800x1x1x1_f32_800x1x1x1")->exported_name, "k0");
    manifest_free(&m);
    assert_int_equal(
        shell("printf '{' >out/aie2/manifest.json; $T --config a.json --output-dir out"), 0);
    must_say(complained, "manifest.json");
    must_say(complained, "it is replaced");
    assert_int_equal(shell("$T --list --output-dir out"), 0);
}

// ---- a disk that will not, a run that is stopped ----

static void disk_errors(void ** state) {
    (void) state;
    put_many("c.json", "k", 12, 1);
    put("file", "");
    assert_int_equal(shell("$T --config c.json --output-dir file/out"), 1);
    must_say(complained, "file: ");
    assert_int_equal(shell("$T --config c.json --output-dir file"), 1);
    assert_int_equal(shell("$T --config c.json --output-dir /proc/self/out"), 1);
    must_say(complained, "/proc/self/out");
    if (geteuid() != 0) {
        assert_int_equal(
            shell("mkdir -p out/aie2; chmod 555 out/aie2; $T --config c.json --output-dir out; "
                  "code=$?; chmod 755 out/aie2; exit $code"),
            1);
        must_say(complained, "kernels[0] 'k0': cannot write: ");
    }
    // A name that cannot be replaced: the other file of the pair must not stay either.
    assert_int_equal(
        shell("rm -rf out; mkdir -p out/aie2/k5.pdi/x; $T --config c.json --output-dir out"), 1);
    must_say(complained, "kernels[5] 'k5': cannot write k5.pdi");
    must_say(said, "11 of 12 kernels made");
    assert_false(exists("out/aie2/k5_insts.bin"));
    assert_int_equal(count("out/aie2", ".tmp"), 0);
    assert_int_equal(shell("$T --list --output-dir out"), 0);
    // Files end after 3 blocks, as if the disk were full: no kernel, no manifest, no rest.
    assert_int_equal(
        shell("rm -rf out; (trap '' XFSZ; ulimit -f 3; exec $T --config c.json --output-dir out)"),
        1);
    must_say(complained, "kernels[11] 'k11': cannot write: ");
    must_say(complained, strerror(EFBIG));
    assert_false(exists("out/aie2"));
}

// Where a file is to go there is something else: it stays, and the run says so.
static void no_file(void ** state) {
    (void) state;
    static const char * const names[] = {"out/aie2/k0.pdi", "out/aie2/k0_insts.bin",
                                         "out/aie2/manifest.json"};
    put_many("c.json", "k", 1, 1);
    for (int n = 0; n < 3; n++) {
        for (int kind = 0; stand_ins[kind]; kind++) {
            struct stand_in s;
            assert_int_equal(shell("rm -rf out; mkdir -p out/aie2"), 0);
            if (!stand_in_make(&s, kind, in_home(names[n]))) {
                continue;
            }
            int status = shell("$T --config c.json --output-dir out");
            stand_in_check(&s, kind, names[n]);
            assert_int_equal(status, 1);
            must_say(complained, strrchr(names[n], '/') + 1);
            if (n < 2) { // a manifest is read first, and that fails in its own way
                must_say(complained, "regular file");
            }
            assert_int_equal(count("out/aie2", ".tmp"), 0);
        }
    }
    // Programs have a directory of their own, which is no link to another one.
    assert_int_equal(shell("rm -rf out other; mkdir -p out/aie2 other; ln -s ../../other "
                           "out/aie2/programs"),
                     0);
    assert_int_equal(shell("$T --config c.json --output-dir out"), 1);
    must_say(complained, "programs");
    assert_int_equal(count("other", ".pdi"), 0);
}

static void leftovers(void ** state) {
    (void) state;
    put_many("c.json", "k", 3, 1);
    assert_int_equal(
        shell("mkdir -p out/aie2; (exit 0) & dead=$!; wait $dead; touch "
              "out/aie2/.tmp-gen-$dead-0.pdi "
              "out/aie2/.tmp-gen-$$-0.pdi; $T --config c.json --output-dir out; "
              "test ! -e out/aie2/.tmp-gen-$dead-0.pdi && test -e out/aie2/.tmp-gen-$$-0.pdi"),
        0);
}

// Starts a long run and signals it somewhere in it.
static int stopped_run(int number, int delay_us) {
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execl(TOOL, TOOL, "--config", in_home("c.json"), "--output-dir", in_home("out"),
              (char *) NULL);
        _exit(99);
    }
    usleep((useconds_t) delay_us);
    kill(pid, number);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void stopped(void ** state) {
    (void) state;
    put_many("c.json", "k", 1500, 1);
    bool cut_short = false;
    int delay_us = 2000; // grows until one run is met in the middle, however slow the machine is
    for (int i = 0; i < 28 && !(cut_short && i > 8); i++, delay_us = delay_us * 4 / 3) {
        assert_int_equal(shell("rm -rf out"), 0);
        int status = stopped_run(SIGTERM, delay_us);
        if (WIFSIGNALED(status)) {
            assert_int_equal(WTERMSIG(status), SIGTERM); // before it had begun
            continue;
        }
        assert_between(WEXITSTATUS(status), 0, 1);
        cut_short |= WEXITSTATUS(status) == 1;
        assert_int_equal(count("out/aie2", ".tmp"), 0);
        assert_int_equal(count("out/aie2", ".pdi"), count("out/aie2", "_insts.bin"));
        if (count("out/aie2", ".pdi")) {
            assert_int_equal(shell("$T --list --output-dir out"), 0);
        }
    }
    assert_true(cut_short);
    for (int i = 0; i < 8; i++) {
        stopped_run(SIGKILL, 5000 + 20000 * i);
        if (exists("out/aie2/manifest.json")) { // what it lists is there
            assert_int_equal(shell("$T --list --output-dir out"), 0);
        }
    }
    assert_int_equal(shell("$T --config c.json --output-dir out && $T --list --output-dir out"), 0);
    assert_int_equal(count("out/aie2", ".tmp"), 0);
    assert_int_equal(count("out/aie2", ".pdi"), 1500);
}

// ---- the rest of the command line ----

static void terminal(void ** state) {
    (void) state;
    put_many("c.json", "k", 20, 1);
    assert_int_equal(shell("$T --config c.json --output-dir out"), 0);
    assert_string_equal(complained, "");
    assert_null(strchr(said, '\r'));
    int master;
    pid_t pid = forkpty(&master, NULL, NULL, NULL);
    if (pid < 0) {
        skip_test("no pseudo-terminal: %s", strerror(errno));
    }
    if (pid == 0) {
        execl(TOOL, TOOL, "--config", in_home("c.json"), "--output-dir", in_home("out2"),
              (char *) NULL);
        _exit(99);
    }
    size_t n = 0;
    for (ssize_t got; (got = read(master, said + n, sizeof said - 1 - n)) > 0;) {
        n += (size_t) got;
    }
    said[n] = '\0';
    close(master);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    must_say(said, "\r[");
    must_say(said, "/20");
    must_say(said, "20 of 20 kernels made");
}

static void command_line(void ** state) {
    (void) state;
    assert_int_equal(shell("$T --confg c.json"), 2);
    must_say(complained, "no option '--confg'; did you mean '--config'?");
    assert_int_equal(shell("$T --config"), 2);
    must_say(complained, "--config wants a value");
    static const char * const bad[] = {"",
                                       "--config c.json",
                                       "--output-dir out",
                                       "--nonsense",
                                       "--config c.json --output-dir out extra",
                                       "--config c.json --output-dir out --jobs 0",
                                       "--config c.json --output-dir out --jobs many",
                                       "--config c.json --output-dir out --jobs 257",
                                       "--record x",
                                       "--record x --config c.json -- true",
                                       "--config"};
    put_many("c.json", "k", 1, 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(shell("$T %s", bad[i]), 2);
        assert_true(strlen(complained) > 0);
        assert_false(exists("out"));
    }
    assert_int_equal(shell("$T --help"), 0);
    must_say(said, "--output-dir D");
    assert_int_equal(shell("$T --version"), 0);
    must_say(said, "ggml-hsa-gen-kernels ");
    assert_int_equal(shell("$T --list"), 0);
    must_say(said, "ggml_op_add");
    must_say(said, "binary_ops.py");
    assert_int_equal(shell("$T --list --output-dir nowhere"), 1);
    must_say(complained, "nowhere: no manifest");
    assert_int_equal(shell("$T --config c.json --output-dir out >/dev/full"), 1);
}

static void recording(void ** state) {
    (void) state;
    assert_int_equal(
        shell(
            "$T --record rec.json -- sh -c 'cd /; printf %%s \"$GGML_HSA_RECORD\" >\"$0/seen\"' %s",
            home),
        1);
    char seen[512];
    get("seen", seen, sizeof seen);
    assert_string_equal(seen, in_home("rec.json"));
    must_say(complained, "rec.json was not written");
    put_many("c.json", "k", 4, 1);
    assert_int_equal(shell("$T --record rec.json --output-dir out -- cp c.json rec.json"), 0);
    must_say(said, "4 kernels in rec.json");
    must_say(said, "4 of 4 kernels made");
    assert_true(exists("out/aie2/k3.pdi"));
    // One that cannot be made keeps none of the others from being made.
    assert_int_equal(shell("sed '0,/binary_ops/s//nowhere_ops/' c.json >bad.json; "
                           "$T --record rec2.json --output-dir out2 -- cp bad.json rec2.json"),
                     1);
    must_say(complained, "Kernel source not found: 'nowhere_ops");
    must_say(said, "3 of 4 kernels made");
    assert_true(exists("out2/aie2/k3.pdi"));
    assert_int_equal(shell("$T --record rec.json -- sh -c 'exit 7'"), 7);
    assert_int_equal(shell("$T --record rec.json --output-dir out -- sh -c 'exit 7'"), 7);
    must_say(complained, "no kernels are made");
    assert_int_equal(shell("$T --record rec.json -- sh -c 'kill -9 $$'"), 137);
    assert_int_equal(shell("$T --record rec.json -- /nowhere/program"), 127);
    assert_int_equal(shell("echo broken >rec.json; $T --record rec.json -- true"), 1);
    must_say(complained, "JSON syntax");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(wrong_entries, clean),
        cmocka_unit_test_setup(wrong_files, clean),
        cmocka_unit_test_setup(external_command, clean),
        cmocka_unit_test_setup(found_by_a_store, clean),
        cmocka_unit_test_setup(programs_for_other_shapes, clean),
        cmocka_unit_test_setup(dry_run, clean),
        cmocka_unit_test_setup(architectures, clean),
        cmocka_unit_test_setup(jobs_and_reruns, clean),
        cmocka_unit_test_setup(two_at_once, clean),
        cmocka_unit_test_setup(manifests_merge, clean),
        cmocka_unit_test_setup(disk_errors, clean),
        cmocka_unit_test_setup(no_file, clean),
        cmocka_unit_test_setup(leftovers, clean),
        cmocka_unit_test_setup(stopped, clean),
        cmocka_unit_test_setup(terminal, clean),
        cmocka_unit_test_setup(command_line, clean),
        cmocka_unit_test_setup(recording, clean),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

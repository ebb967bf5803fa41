// bench: what one kernel costs on the emulated array, and what bounds it. Here are the command line
// and how an op, a datatype and a shape become the spec of a kernel: results are tried, as ggml's
// ops have them, until there is a kernel.
#include "bench.h"
#include "probe.h"
#include "words.h"

#include "aie/target/target.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- from words to a spec ----

// "add", "ADD", "ggml_op_add"
static bool op_parse(const char * text, enum kernel_op * out, struct nearest * near) {
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        const struct kernel_op_info * info = kernel_op_info((enum kernel_op) op);
        if (!strcasecmp(text, info->name) || !strcasecmp(text, info->ggml_name)) {
            *out = (enum kernel_op) op;
            return true;
        }
        char upper[48] = "";
        for (size_t i = 0; info->name[i] && i + 1 < sizeof upper; i++) {
            upper[i] = (char) toupper((unsigned char) info->name[i]);
        }
        words_consider(text, islower((unsigned char) *text) ? info->name : upper, near);
    }
    return false;
}

// n numbers from 1 on with that sign between them, and no more.
static int numbers(const char * text, char between, int64_t * out, int most) {
    int n = 0;
    for (;;) {
        char * end;
        if (n == most || !isdigit((unsigned char) *text)) {
            return 0;
        }
        long long v = strtoll(text, &end, 10);
        if (v < 1 || v > INT32_MAX) {
            return 0;
        }
        out[n++] = v;
        if (!*end) {
            return n;
        }
        if (*end != between) {
            return 0;
        }
        text = end + 1;
    }
}

static bool make_product(struct store * store, struct bench_task * t, enum dtype type) {
    static const enum dtype results[] = {DTYPE_F32, DTYPE_I32, DTYPE_BF16, DTYPE_I16, DTYPE_I8};
    struct kernel_spec * s = &t->spec;
    s->n_inputs = 2;
    s->inputs[0] = tensor_contiguous(type, (const int64_t[]){t->k, t->m, 1, 1});
    s->inputs[1] = tensor_contiguous(type, (const int64_t[]){t->k, t->n, 1, 1});
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        s->output = tensor_contiguous(results[i], (const int64_t[]){t->m, t->n, 1, 1});
        if (store_can(store, s)) {
            t->macs = (uint64_t) t->m * (uint64_t) t->n * (uint64_t) t->k;
            return true;
        }
    }
    return false;
}

// Quantized keys and values, as the kernel has them: words, so many for d numbers. False: others.
static bool blocks_parse(const char * type, int64_t d, enum dtype * out, int64_t * words) {
    static const enum kernel_blocks known[] = {KERNEL_Q8_0, KERNEL_Q4_0};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (!strcmp(type, kernel_block_name(known[i]))) {
            *out = DTYPE_I32;
            *words = d / kernel_block_k(known[i]) * kernel_block_bytes(known[i]) / 4;
            return true;
        }
    }
    return false;
}

// d,heads,kv_heads,queries,keys, with a mask, of keys and values of that type (and row), a cache's
// layout.
static bool make_attention(struct store * store, struct bench_task * t, enum dtype type,
                           int64_t row, const int64_t n[5]) {
    const int64_t d = n[0], heads = n[1], kv_heads = n[2], queries = n[3], keys = n[4];
    const float scale = 0.125f;
    struct kernel_spec * s = &t->spec;
    s->n_inputs = 4;
    s->inputs[0] = tensor_contiguous(DTYPE_F32, (const int64_t[]){d, queries, heads, 1});
    s->inputs[1] = tensor_contiguous(type, (const int64_t[]){row, kv_heads, keys, 1});
    int64_t step = s->inputs[1].nb[1];
    s->inputs[1].ne[1] = keys;
    s->inputs[1].ne[2] = kv_heads;
    s->inputs[1].nb[1] = s->inputs[1].nb[2];
    s->inputs[1].nb[2] = step;
    s->inputs[2] = s->inputs[1];
    s->inputs[3] = tensor_contiguous(DTYPE_F16, (const int64_t[]){keys, queries, 1, 1});
    s->output = tensor_contiguous(DTYPE_F32, (const int64_t[]){d, heads, queries, 1});
    memcpy(s->params, &scale, 4);
    return store_can(store, s);
}

static bool make_rows(struct store * store, struct bench_task * t, enum dtype type,
                      const int64_t ne[4]) {
    struct kernel_spec * s = &t->spec;
    const struct {
        enum dtype type;
        int64_t ne[4];
    } results[] = {
        {type, {ne[0], ne[1], ne[2], ne[3]}},
        {type, {1, ne[1], ne[2], ne[3]}},
        {type, {ne[0] / 2, ne[1], ne[2], ne[3]}},
        {type, {1, 1, 1, 1}},
        {DTYPE_I32, {ne[1], 1, 1, 1}},
        {DTYPE_I32, {ne[0], ne[1], ne[2], ne[3]}},
        {DTYPE_I32, {1, 1, 1, 1}},
        {DTYPE_BF16, {ne[0], ne[1], ne[2], ne[3]}},
        {DTYPE_F32, {ne[0], ne[1], ne[2], ne[3]}},
    };
    const struct kernel_op_info * info = kernel_op_info(s->op);
    const float one = 1.0f;
    for (int i = 0; i < info->n_params; i++) {
        memcpy(&s->params[i], &one, 4);
    }
    if (kernel_has_place(s->op)) {
        s->params[0] = KERNEL_BEST_ALONE;
    }
    for (size_t r = 0; r < sizeof results / sizeof results[0]; r++) {
        s->output = tensor_contiguous(results[r].type, results[r].ne);
        for (s->n_inputs = info->n_inputs; s->n_inputs > 0; s->n_inputs--) { // later ones optional
            for (int i = 0; i < s->n_inputs; i++) {
                s->inputs[i] = tensor_contiguous(type, ne);
            }
            if (store_can(store, s)) {
                return true;
            }
        }
    }
    return false;
}

enum status bench_task_make(const char * op, const char * type, const char * shape,
                            struct bench_task * t, struct error * err) {
    enum dtype dtype;
    int64_t ne[5] = {1, 1, 1, 1, 1};
    t->shape = shape;
    if (!kernel_precision_asked(&t->spec.precision)) {
        return error_set(err, ST_INVALID, "GGML_HSA_PRECISION must be fast or exact, not '%.40s'",
                         getenv("GGML_HSA_PRECISION"));
    }
    struct nearest near = {0};
    char hint[WORDS_HINT];
    if (!op_parse(op, &t->spec.op, &near)) {
        words_hint(&near, hint);
        return error_set(err, ST_INVALID, "no op '%.40s'%s", op,
                         *hint ? hint : "; ggml-hsa-gen-kernels --list has them");
    }
    bool product = t->spec.op == KERNEL_OP_MUL_MAT || t->spec.op == KERNEL_OP_MUL_MAT_SHARED;
    bool attention = t->spec.op == KERNEL_OP_FLASH_ATTN_EXT;
    int wanted = product ? 3 : attention ? 5 : 4;
    int n = numbers(shape, product || attention ? ',' : 'x', ne, wanted);
    if (product || attention ? n != wanted : n == 0) {
        return error_set(err, ST_INVALID, "no shape of %s '%.60s': %s", op, shape,
                         product ? "m,n,k as in 512,512,512"
                         : attention
                             ? "size of a head, heads, those of keys, queries and keys, as in "
                               "64,32,8,1,4096"
                             : "up to four numbers, innermost first, as in 1024x1024");
    }
    int64_t row = ne[0];
    char lower[16] = "";
    for (size_t i = 0; type[i] && i + 1 < sizeof lower; i++) {
        lower[i] = (char) tolower((unsigned char) type[i]);
    }
    type = lower;
    if (!(attention && blocks_parse(type, ne[0], &dtype, &row)) && !dtype_parse(type, &dtype)) {
        return error_set(err, ST_INVALID, "no datatype '%.40s': f32, f16, bf16, i8, i16 or i32%s",
                         type, attention ? ", q8_0 or q4_0" : "");
    }
    t->m = ne[0];
    t->n = ne[1];
    t->k = ne[2];
    struct store * store;
    enum status st = store_new(&store, err);
    if (st != ST_OK) {
        return st;
    }
    bool found = product     ? make_product(store, t, dtype)
                 : attention ? make_attention(store, t, dtype, row, ne)
                             : make_rows(store, t, dtype, ne);
    store_free(store);
    return found ? ST_OK
                 : error_set(err, ST_UNSUPPORTED,
                             "there is no kernel for %s of %s %s, and no pack in "
                             "GGML_HSA_KERNEL_DIR has one; docs/ops.md has what there is",
                             op, type, shape);
}

// ---- the command line ----

struct options {
    const char * words[3]; // op, type, shape
    const char *compare, *clock, *arch, *sweep, *svg;
    bool json, range;
};

// "aie2p", or "aie2p:4" for so many of its columns.
static bool parse_device(const char * text, size_t n, struct kernel_spec * out) {
    char name[16];
    const char * colon = memchr(text, ':', n);
    size_t length = colon ? (size_t) (colon - text) : n;
    snprintf(name, sizeof name, "%.*s", (int) length, text);
    if (length >= sizeof name || !kernel_arch_parse(name, &out->arch)) {
        return false;
    }
    int all = aie_target(out->arch)->columns;
    int columns = !colon ? all : n == length + 2 ? colon[1] - '0' : 0;
    out->columns = columns < all ? columns : 0;
    return columns >= 1 && columns <= all;
}

// By --arch, else by what is emulated anyway, else the first that there is.
static enum status find_device(const struct options * o, struct kernel_spec * out,
                               struct error * err) {
    const char * emulated = getenv("GGML_HSA_EMULATE");
    out->arch = AIE_ARCH_AIE2;
    if (o->arch) {
        return parse_device(o->arch, strlen(o->arch), out)
                   ? ST_OK
                   : error_set(err, ST_INVALID,
                               "no architecture '%.40s': aie2 or aie2p, or aie2p:4 for so many of "
                               "its columns",
                               o->arch);
    }
    if (emulated && !parse_device(emulated, strcspn(emulated, ", "), out)) {
        out->arch = AIE_ARCH_AIE2;
        out->columns = 0;
    }
    return ST_OK;
}

static int parse(int argc, char ** argv, struct options * o) {
    int n = 0;
    for (int i = 1; i < argc; i++) {
        const char ** value = !strcmp(argv[i], "--compare") ? &o->compare
                              : !strcmp(argv[i], "--clock") ? &o->clock
                              : !strcmp(argv[i], "--arch")  ? &o->arch
                              : !strcmp(argv[i], "--sweep") ? &o->sweep
                              : !strcmp(argv[i], "--svg")   ? &o->svg
                                                            : NULL;
        if (value && i + 1 == argc) {
            return tool_usage(&bench_subcommand, "%s wants a value", argv[i]);
        }
        if (value) {
            *value = argv[++i];
        } else if (!strcmp(argv[i], "--json")) {
            o->json = true;
        } else if (!strcmp(argv[i], "--range")) {
            o->range = true;
        } else if (argv[i][0] == '-') {
            return tool_usage(&bench_subcommand, "no option '%s'", argv[i]);
        } else if (n == 3) {
            return tool_usage(&bench_subcommand, "'%s' is one word too many", argv[i]);
        } else {
            o->words[n++] = argv[i];
        }
    }
    return n == 3 ? EXIT_OK : tool_usage(&bench_subcommand, "OP, TYPE and SHAPE are wanted");
}

// *words: it is op, type and shape that no kernel has.
static enum status run_task(const struct options * o, struct buf * b, bool * words,
                            struct error * err) {
    struct bench_task t = {.range = o->range};
    struct bench_result results[2] = {0};
    int n = o->compare ? 2 : 1;
    if (o->clock) {
        setenv("GGML_HSA_EMU_CLOCK", o->clock, 1);
    }
    enum status st = find_device(o, &t.spec, err);
    if (st == ST_OK) {
        st = emu_clock_get(t.spec.arch, &t.clock, err);
    }
    if (st == ST_OK) {
        st = bench_task_make(o->words[0], o->words[1], o->words[2], &t, err);
        *words = st != ST_OK;
    }
    for (int i = 0; i < n && st == ST_OK; i++) {
        st = bench_run(&t, i ? o->compare : NULL, &results[i], err);
        if (st != ST_OK && i) {
            error_prefix(err, st, "%s", o->compare);
        }
    }
    if (st == ST_OK) {
        (o->json ? bench_print_json : bench_print)(&t, results, n, b);
    }
    for (int i = 0; i < n; i++) {
        bench_result_free(&results[i]);
    }
    return st;
}

static bool is_gpu(const struct options * o) {
    return o->arch && !strncmp(o->arch, "gfx", 3);
}

// What is not one kernel is a node of ggml, which a program that has ggml computes (bench-op.c).
// False: there is none, or it was not asked for in a way that this could answer.
static bool run_node(const struct options * o, int * status) {
    char plugin[512], helper[512];
    struct kernel_spec spec = {0};
    struct error err;
    bool gpu = is_gpu(o);
    if (o->compare || o->range || !probe_find("libggml-hsa.so", plugin) ||
        !probe_find("ggml-hsa-bench-op", helper) ||
        (!gpu && find_device(o, &spec, &err) != ST_OK)) {
        return false;
    }
    const char * words[11] = {helper, plugin, o->words[0], o->words[1], o->words[2]};
    int n = 5;
    if (o->sweep) {
        words[n++] = "--sweep";
        words[n++] = o->sweep;
    }
    if (o->svg) {
        words[n++] = "--svg";
        words[n++] = o->svg;
    }
    if (o->json) {
        words[n++] = "--json";
    }
    if (gpu) { // it names what is emulated for it
        words[n++] = "--gpu";
        words[n++] = o->arch;
    }
    setenv("GGML_HSA_EMULATE", o->arch ? o->arch : kernel_arch_name(spec.arch), 1);
    unsetenv("GGML_HSA_RUNTIME");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execv(helper, (char **) (uintptr_t) words);
        _exit(127);
    }
    int ended = 0;
    if (pid < 0 || waitpid(pid, &ended, 0) != pid) {
        return false;
    }
    *status = WIFEXITED(ended) ? WEXITSTATUS(ended) : EXIT_BAD_INPUT;
    if (!WIFEXITED(ended)) {
        fprintf(stderr, "ggml-hsa bench: computing it ended with signal %d\n", WTERMSIG(ended));
    }
    return true;
}

static int run(int argc, char ** argv) {
    struct options o = {0};
    struct error err = {0};
    struct buf b = {0};
    int status = parse(argc, argv, &o);
    if (status != EXIT_OK) {
        return status;
    }
    if (o.svg && !o.sweep) {
        return tool_usage(&bench_subcommand, "--svg draws a --sweep");
    }
    if (is_gpu(&o) && (o.sweep || o.compare || o.clock || o.range)) {
        return tool_usage(&bench_subcommand,
                          "--sweep, --compare, --clock and --range are of NPUs: a GPU has no "
                          "modelled time");
    }
    bool words = o.sweep != NULL || is_gpu(&o);
    enum status st =
        is_gpu(&o) ? error_set(&err, ST_UNSUPPORTED, "a node on a GPU wants a build with ggml")
        : o.sweep  ? error_set(&err, ST_UNSUPPORTED,
                               "--sweep wants a build with ggml, and neither --compare nor --range")
                   : run_task(&o, &b, &words, &err);
    if (words && run_node(&o, &status)) {
        buf_free(&b);
        return status;
    }
    if (st == ST_OK && b.failed) {
        st = error_set(&err, ST_NO_MEMORY, "no memory for the report");
    }
    if (st == ST_OK) {
        fwrite(b.data, 1, b.size, stdout);
    } else {
        fprintf(stderr, "ggml-hsa bench: %s\n", err.text);
    }
    buf_free(&b);
    return st == ST_OK ? EXIT_OK : words && st == ST_INVALID ? EXIT_USAGE : EXIT_BAD_INPUT;
}

const struct subcommand bench_subcommand = {
    .name = "bench",
    .summary = "what one kernel costs on the emulated NPU, and why",
    // clang-format off
    .help =
        "usage: ggml-hsa bench OP TYPE SHAPE [--arch ARCH] [--compare PACK] [--clock CLOCK] [--range] [--json]\n"
        "       ggml-hsa bench OP TYPE SHAPE --sweep rows=A..B [--svg FILE] [--arch ARCH] [--clock CLOCK] [--json]\n"
        "       ggml-hsa bench OP TYPE SHAPE --arch gfxN [--json]\n\n"
        "Makes one kernel, or takes it from GGML_HSA_KERNEL_DIR or the cache as the backend would, runs\n"
        "it on the emulated NPU and tells its modelled time, what bounds it, and where the time went.\n"
        "It runs twice; what is told is of the second run, which finds the array configured.\n"
        "What is not one kernel (MUL_MAT of quantized weights, ROPE, GET_ROWS, SET_ROWS, CPY ...) is\n"
        "computed as a graph of one node, by the plugin: all its kernels are told together.\n\n"
        "  OP            as ggml calls it: ADD, SOFT_MAX, MUL_MAT ...\n"
        "  TYPE          of its inputs: f32, f16, bf16, i8, i16, i32; of a node any of ggml's, as q4_0\n"
        "                (of MUL_MAT: the weights'); CPY f32-q8_0: from one to another\n"
        "  SHAPE         of its inputs, innermost first: 1024x1024; of MUL_MAT: m,n,k; of FLASH_ATTN_EXT:\n"
        "                size of a head, heads, heads of keys, queries, keys (TYPE: that of keys, q8_0 or q4_0, too);\n"
        "                of GET_ROWS and SET_ROWS: length, rows, how many are got or set\n"
        "  --arch A      aie2 or aie2p, or aie2p:4 for so many of its columns; else what\n"
        "                GGML_HSA_EMULATE names first, else aie2. gfx90a, gfx942, gfx1100, gfx1103, gfx1150,\n"
        "                gfx1151, gfx1152: a node on an emulated GPU, with what its kernels are and executed;\n"
        "                a GPU has no modelled time, what is told is estimated from a real one's figures\n"
        "  --compare P   the same kernel of the pack in directory P beside it\n"
        "  --clock C     device whose figures are used: phoenix (aie2's), strix (aie2p's) or ideal, and\n"
        "                settings behind it: phoenix,mhz=1600,ddr=0 (ddr in GB/s, 0: no limit)\n"
        "  --range       under three clocks, of which the memory is slow, likely and fast: what is known of\n"
        "                a device's memory differs by so much. The rest is told at likely\n"
        "  --sweep S     rows=1..512: the node with 1, 2, 4 ... 512 rows (n of MUL_MAT, tokens of ROPE,\n"
        "                queries of FLASH_ATTN_EXT, else the second number of SHAPE)\n"
        "  --svg FILE    draws the sweep\n"
        "  --json        for programs\n\n"
        "bound: what the hardware could do at best: every operand once through the shim's channels and\n"
        "from or to host memory, every multiplication in its cycle.\n\n"
        "examples: ggml-hsa bench MUL_MAT bf16 512,512,512\n"
        "          ggml-hsa bench MUL_MAT q4_0 4096,1,4096 --sweep rows=1..64 --svg sweep.svg\n\n"
        "exit status: 0 shown, 1 there is no such kernel or it failed, 2 wrong usage\n",
    // clang-format on
    .run = run,
};

// rocm-kernels: the tool for people: what is found here, which kernels there are, compiling them
// ahead of time, and the cache. This file knows the subcommands, and does the two short ones.
#include "rocm-kernels.h"

#include "base/plain.h"

#include "hsa/hsac.h"
#include "words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char environment[] =
    "environment:\n"
    "  CANDLE_ROCM_ARCH (ROCM_GFX_ARCH), CANDLE_ROCM_VERSION   in place of what is found\n"
    "  CANDLE_ROCM_CACHE_DIR         the cache; else hanzo-ml-rocm below $XDG_CACHE_HOME or "
    "~/.cache\n"
    "  CANDLE_ROCM_FORCE_RECOMPILE   1: what is kept is not read\n"
    "  ROCM_KERNELS_CACHE_MAX_SIZE   bytes, or with K, M, G; 1G if not set, 0: nothing is kept\n"
    "  ROCM_KERNELS_COMPILER         as --compiler\n\n"
    "Exit status: 0 all is well, 1 something failed, 2 the command line is not understood.\n";

// ---- what all subcommands use ----

bool in_json;
json_t * answer;

int say_usage(const char * fmt, ...) {
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    plain_make(text, false); // words may be names of files
    fprintf(stderr, PROGRAM ": %s (see " PROGRAM " --help)\n", text);
    return EXIT_USAGE;
}

int say_failed(const char * text) {
    fprintf(stderr, PROGRAM ": %s\n", text);
    return EXIT_BAD_INPUT;
}

void say_warning(void * user, const char * text) {
    (void) user;
    fprintf(stderr, PROGRAM ": warning: %s\n", text);
}

double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

// The runtime stays open until the process ends: modules may be on it.
static struct hsac * runtime;
static struct error no_runtime;

struct hsac * open_runtime(struct error * err) {
    if (!runtime && no_runtime.status == ST_OK) {
        hsac_open_gpus(&runtime, &no_runtime);
    }
    if (!runtime && err) {
        *err = no_runtime;
    }
    return runtime;
}

static void * hsa_symbol(void * user, const char * name) {
    (void) user;
    return open_runtime(NULL) ? hsac_symbol(runtime, name) : NULL;
}

struct rocm_kernels * open_manager(const char * arch, const char * compiler) {
    struct rocm_options options = {
        .arch = arch, .compiler = compiler, .warn = say_warning, .hsa_symbol = hsa_symbol};
    struct rocm_kernels * k;
    struct rocm_error err;
    if (rocm_kernels_open(&options, &k, &err) != ROCM_OK) {
        say_failed(err.text);
        return NULL;
    }
    return k;
}

// ---- info ----

static void tell(const char * key, const char * title, const char * value) {
    if (in_json) {
        json_put(&answer, key, value ? json_string(value) : json_null());
    } else {
        printf("%-10s %s\n", title, value ? value : "none");
    }
}

static void tell_or(const char * key, const char * title, const char * value,
                    const struct rocm_error * err) {
    char text[sizeof err->text + 8];
    if (in_json && !value) {
        char error_key[40];
        snprintf(error_key, sizeof error_key, "%s_error", key);
        json_put(&answer, error_key, json_string(err->text));
    }
    snprintf(text, sizeof text, "none: %s", err->text);
    tell(key, title, value || in_json ? value : text);
}

static int run_info(int argc, char ** argv) {
    if (argc > 1) {
        return say_usage("info takes no '%s'", argv[1]);
    }
    struct rocm_kernels * k = open_manager(NULL, NULL);
    if (!k) {
        return EXIT_BAD_INPUT;
    }
    struct rocm_error err = {0};
    const char * arch = rocm_kernels_arch(k, &err);
    tell_or("arch", "GPU", arch, &err);
    tell_or("version", "ROCm", rocm_kernels_version(k, &err), &err);
    tell("runtime", "runtime", runtime ? hsac_runtime_path(runtime) : NULL);
#ifdef ROCM_KERNELS_TARGETS
    tell("targets", "targets", ROCM_KERNELS_TARGETS);
#endif
    struct hip_compilers compilers;
    hip_toolchain_compilers(&k->toolchain, arch ? arch : "gfx90a", &compilers);
    json_t * list = in_json ? json_array() : NULL;
    for (int i = 0; i < compilers.n; i++) {
        if (in_json) {
            json_append(&list, json_string(compilers.list[i].identity));
        } else {
            // The rest of an identity, sizes and digests, is for programs: --json.
            printf("%-10s %s %s\n", i ? "" : "compiler",
                   compilers.list[i].kind == HIP_HIPCC ? "hipcc" : "clang", compilers.list[i].path);
        }
    }
    if (in_json) {
        json_put(&answer, "compilers", list);
    }
    if (!compilers.n) {
        tell("compiler_error", "compiler", compilers.why.text);
    }
    tell("cache", "cache", rocm_kernels_directory(k));
    if (in_json) {
        json_put(&answer, "modules", json_integer(rocm_modules_count()));
    } else {
        printf("%-10s %d\n", "modules", rocm_modules_count());
    }
    int status = arch && compilers.n ? EXIT_OK : EXIT_BAD_INPUT;
    hip_compilers_free(&compilers);
    rocm_kernels_close(k);
    return status;
}

// ---- list ----

static bool print_kernel(void * user, const char * kernel) {
    if (in_json) {
        json_append(user, json_string(kernel));
    } else {
        printf("%s\n", kernel);
    }
    return true;
}

static bool count_kernel(void * user, const char * kernel) {
    (void) kernel;
    ++*(int *) user;
    return true;
}

static int list_module(const char * name) {
    if (!rocm_modules_source(name)) {
        struct nearest near = {0};
        char hint[WORDS_HINT];
        for (int i = 0; i < rocm_modules_count(); i++) {
            words_consider(name, rocm_modules_name(i), &near);
        }
        return say_usage("no module '%s'%s", name, words_hint(&near, hint));
    }
    json_t * kernels = in_json ? json_array() : NULL;
    rocm_modules_kernels(name, print_kernel, &kernels);
    if (in_json) {
        json_put(&answer, "module", json_string(name));
        json_put(&answer, "kernels", kernels);
    }
    return EXIT_OK;
}

static int run_list(int argc, char ** argv) {
    if (argc > 2) {
        return say_usage("list takes one module");
    }
    if (argc == 2) {
        return list_module(argv[1]);
    }
    int all = 0;
    json_t * modules = in_json ? json_object() : NULL;
    for (int i = 0; i < rocm_modules_count(); i++) {
        const char * name = rocm_modules_name(i);
        int n = 0;
        rocm_modules_kernels(name, count_kernel, &n);
        if (in_json) {
            json_put(&modules, name, json_integer(n));
        } else {
            printf("%-16s %3d kernels\n", name, n);
        }
        all += n;
    }
    if (in_json) {
        json_put(&answer, "modules", modules);
        json_put(&answer, "kernels", json_integer(all));
    } else {
        printf("%d kernels in %d modules\n", all, rocm_modules_count());
    }
    return EXIT_OK;
}

// ---- command line ----

// " gfx908 gfx90a ..."
#define NAME_true(name)  " " #name
#define NAME_false(name) ""
static const struct {
    const char * name;
    const char * summary;
    const char * help;
    int (*run)(int argc, char ** argv); // argv[0] is the subcommand's name
} subcommands[] = {
    {"info", "the GPU, the ROCm version, the compilers and the cache that are used here, and why",
     "usage: " PROGRAM " info [--json]\n\n"
     "The GPU, the ROCm version, the runtime, the compilers and the cache that are used here; what "
     "is\n"
     "not there is told with the reason. Status 1 where there is no GPU or no compiler.\n\n"
     "  --json         the same for programs\n",
     run_info},
    {"list", "modules, or the kernels of one",
     "usage: " PROGRAM " list [MODULE] [--json]\n\n"
     "All modules with the number of their kernels, or the kernels of one. Whole families have "
     "names\n"
     "too: unary, binary, compare, ternary, cast, reduce, indexing.\n\n"
     "  --json         the same for programs\n",
     run_list},
    {"compile", "makes code objects, so that no program has to wait for them",
     "usage: " PROGRAM " compile [MODULE | FILE.hip]... [--all] [--arch A[,B...]] [--jobs N]\n"
     "                    [--compiler C] [--force] [--output-dir D] [--json]\n\n"
     "  --all          every module of the library\n"
     "  --arch         gfx90a, gfx1100 ...; `all` is, where a compiler here knows them,\n"
     "                "
#define GPU(name, mach, hip, clang, in_all) NAME_##in_all(name)
#include "base/gpus.def"
#undef GPU
     ";\n"
     "                 if not given, the GPU_TARGETS that this was built with, else the GPU that "
     "is\n"
     "                 here\n"
     "  --jobs N       compilers at a time; as many as there are cores if not given\n"
     "  --compiler C   hipcc, clang, or the path of one; if not given, hipcc where it knows the\n"
     "                 architecture, else clang++ 19 or newer\n"
     "  --force        compile also what is kept already\n"
     "  --output-dir D put a copy of each at D/ARCH/NAME.co\n"
     "  --json         what was made, and what failed, for programs\n",
     run_compile},
    {"run", "starts kernels on a GPU and compares what they compute with double precision",
     "usage: " PROGRAM " run [KERNEL | MODULE]... [--all] [--device N] [--compiler C] [--verbose]\n"
     "                    [--json]\n\n"
     "Starts kernels on a GPU and compares what they compute with double precision;\n"
     "GGML_HSA_EMULATE=gfx90a makes an emulated one. Status 1 where one is wrong or cannot run.\n\n"
     "  --all          every kernel of the library\n"
     "  --device N     the Nth GPU, from 0\n"
     "  --compiler C   as for compile\n"
     "  --verbose      a line for each kernel\n"
     "  --json         the counts for programs\n",
     run_run},
    {"cache", "where it is and how full; what is in it; checking, trimming and emptying it",
     "usage: " PROGRAM " cache [stat | list | verify | trim | clear] [--json]\n\n"
     "  stat           where it is and how full; the same without a word\n"
     "  list           what is in it\n"
     "  verify         reads all of it; status 1 if something is damaged\n"
     "  trim [[--max-size] N]\n"
     "                 drops what was not used for longest until N is left (bytes, or 500M, 2G;\n"
     "                 else ROCM_KERNELS_CACHE_MAX_SIZE)\n"
     "  clear          removes all that was made here, and nothing else\n"
     "  --json         the answer for programs\n",
     run_cache},
};
enum { SUBCOMMANDS = sizeof subcommands / sizeof subcommands[0] };

static void print_help(void) {
    printf(PROGRAM ": GPU kernels that are compiled once and kept\n\n"
                   "usage: " PROGRAM " SUBCOMMAND [ARGUMENTS]\n"
                   "       " PROGRAM " SUBCOMMAND --help\n\n");
    for (int i = 0; i < SUBCOMMANDS; i++) {
        printf("  %-12s %s\n", subcommands[i].name, subcommands[i].summary);
    }
    printf("\n  --help       this text\n  --version    version of the tool\n\n%s", environment);
}

// Takes --json out of the arguments; how many are left, or -1 after an error was told.
static int check_options(const char * help, int argc, char ** argv) {
    int n = 1;
    for (int i = 1; i < argc; i++) {
        struct nearest near;
        char hint[WORDS_HINT];
        if (!strcmp(argv[i], "--json")) {
            in_json = true;
            continue;
        }
        if (!strncmp(argv[i], "--", 2) && !words_know_option(help, argv[i], &near)) {
            say_usage("no option '%s' of %s%s", argv[i], argv[0], words_hint(&near, hint));
            return -1;
        }
        argv[n++] = argv[i];
    }
    argv[n] = NULL;
    return n;
}

static int run_sub(int i, int argc, char ** argv) {
    for (int k = 1; k < argc; k++) {
        if (!strcmp(argv[k], "--help") || !strcmp(argv[k], "-h")) {
            fputs(subcommands[i].help, stdout);
            return EXIT_OK;
        }
    }
    argc = check_options(subcommands[i].help, argc, argv);
    if (argc < 0) {
        return EXIT_USAGE;
    }
    struct error err = {0};
    if (in_json && json_library(&err) != ST_OK) {
        return say_failed(err.text);
    }
    answer = in_json ? json_object() : NULL;
    int status = subcommands[i].run(argc, argv);
    if (in_json && status != EXIT_USAGE) {
        struct buf text = {0};
        json_print(answer, JSON_INDENT(2), &text);
        if (text.failed) {
            status = say_failed(json_trouble());
        } else {
            printf("%s\n", (const char *) text.data);
        }
        buf_free(&text);
    }
    json_decref(answer);
    return status;
}

static int run(int argc, char ** argv) {
    if (argc < 2) {
        return say_usage("a subcommand is missing: info, list, compile, run or cache");
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help();
        return EXIT_OK;
    }
    if (!strcmp(argv[1], "--version")) {
        printf(PROGRAM " %s\n", GGML_HSA_VERSION);
        return EXIT_OK;
    }
    struct nearest near = {0};
    char hint[WORDS_HINT];
    for (int i = 0; i < SUBCOMMANDS; i++) {
        if (!strcmp(argv[1], subcommands[i].name)) {
            return run_sub(i, argc - 1, argv + 1);
        }
        words_consider(argv[1], subcommands[i].name, &near);
    }
    return say_usage("no subcommand '%s'%s", argv[1], words_hint(&near, hint));
}

int main(int argc, char ** argv) {
    int status = run(argc, argv);
    if ((fflush(stdout) || ferror(stdout)) && errno != EPIPE) { // a closed pager is no error
        return say_failed(strerror(errno));
    }
    return status;
}

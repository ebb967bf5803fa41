// rocm-kernels: the tool for people: what is found here, which kernels there are, compiling them
// ahead of time, and the cache. This file knows the subcommands, and does the two short ones.
#include "rocm-kernels.h"

#include "hsa/hsac.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char help[] = PROGRAM
    ": GPU kernels that are compiled once and kept\n\n"
    "usage: " PROGRAM " info\n"
    "       " PROGRAM " list [MODULE]\n"
    "       " PROGRAM " compile [MODULE | FILE.hip]... [--all] [--arch A[,B...]] [--jobs N]\n"
    "                    [--compiler C] [--force] [--output-dir D]\n"
    "       " PROGRAM " run [KERNEL | MODULE]... [--all] [--device N] [--compiler C] [--verbose]\n"
    "       " PROGRAM " cache [stat | list | verify | trim SIZE | clear]\n\n"
    "  info       the GPU, the ROCm version, the compilers and the cache that are used here, and "
    "why\n"
    "  list       modules, or the kernels of one\n"
    "  compile    makes code objects, so that no program has to wait for them\n"
    "    --all          every module of the library\n"
    "    --arch         gfx90a, gfx1100 ...; `all` is "
    "gfx908,gfx90a,gfx942,gfx1100,gfx1101,gfx1102;\n"
    "                   if not given, the GPU that is here\n"
    "    --jobs N       compilers at a time; as many as there are cores if not given\n"
    "    --compiler C   hipcc, clang, or the path of one; if not given, hipcc where it knows the\n"
    "                   architecture, else clang++ 19 or newer\n"
    "    --force        compile also what is kept already\n"
    "    --output-dir D put a copy of each at D/ARCH/NAME.co\n"
    "  run        starts kernels on a GPU and compares what they compute with double precision;\n"
    "             --device N is the Nth GPU, from 0; GGML_HSA_EMULATE=gfx90a makes an emulated "
    "one\n"
    "  cache      where it is and how full; what is in it; whether it is whole (status 1 if not);\n"
    "             dropping what was not used for longest; emptying it\n"
    "  --help     this text\n"
    "  --version  version of the tool\n\n"
    "environment:\n"
    "  CANDLE_ROCM_ARCH (ROCM_GFX_ARCH), CANDLE_ROCM_VERSION   in place of what is found\n"
    "  CANDLE_ROCM_CACHE_DIR         the cache; else hanzo-ml-rocm below $XDG_CACHE_HOME or "
    "~/.cache\n"
    "  CANDLE_ROCM_FORCE_RECOMPILE   1: what is kept is not read\n"
    "  ROCM_KERNELS_CACHE_MAX_SIZE   bytes, or with K, M, G; 1G if not set, 0: nothing is kept\n"
    "  ROCM_KERNELS_COMPILER         as --compiler\n\n"
    "Exit status: 0 all is well, 1 something failed, 2 the command line is not understood.\n";

// ---- what all subcommands use ----

int say_usage(const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, PROGRAM ": ");
    vfprintf(stderr, fmt, args);
    fprintf(stderr, " (see " PROGRAM " --help)\n");
    va_end(args);
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
        hsac_open(&runtime, &no_runtime);
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

static void print_or(const char * title, const char * value, const struct rocm_error * err) {
    printf("%-10s %s%s\n", title, value ? value : "none: ", value ? "" : err->text);
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
    print_or("GPU", arch, &err);
    print_or("ROCm", rocm_kernels_version(k, &err), &err);
    printf("%-10s %s\n", "runtime", runtime ? hsac_runtime_path(runtime) : "none");
    struct hip_compilers compilers;
    hip_toolchain_compilers(&k->toolchain, arch ? arch : "gfx90a", &compilers);
    for (int i = 0; i < compilers.n; i++) {
        printf("%-10s %s\n", i ? "" : "compiler", compilers.list[i].identity);
    }
    if (!compilers.n) {
        printf("%-10s %s\n", "compiler", compilers.why.text);
    }
    const char * dir = rocm_kernels_directory(k);
    printf("%-10s %s\n", "cache", dir ? dir : "none");
    int n = 0;
    for (int i = 0; i < rocm_modules_count(); i++) {
        n++;
    }
    printf("%-10s %d\n", "modules", n);
    int status = arch && compilers.n ? EXIT_OK : EXIT_BAD_INPUT;
    hip_compilers_free(&compilers);
    rocm_kernels_close(k);
    return status;
}

// ---- list ----

static bool print_kernel(void * user, const char * kernel) {
    (void) user;
    printf("%s\n", kernel);
    return true;
}

static bool count_kernel(void * user, const char * kernel) {
    (void) kernel;
    ++*(int *) user;
    return true;
}

static int run_list(int argc, char ** argv) {
    if (argc > 2) {
        return say_usage("list takes one module");
    }
    if (argc == 2) {
        if (!rocm_modules_source(argv[1])) {
            return say_usage("no module '%s'", argv[1]);
        }
        rocm_modules_kernels(argv[1], print_kernel, NULL);
        return EXIT_OK;
    }
    int all = 0;
    for (int i = 0; i < rocm_modules_count(); i++) {
        const char * name = rocm_modules_name(i);
        int n = 0;
        rocm_modules_kernels(name, count_kernel, &n);
        printf("%-16s %3d kernels\n", name, n);
        all += n;
    }
    printf("%d kernels in %d modules\n", all, rocm_modules_count());
    return EXIT_OK;
}

// ---- command line ----

static const struct {
    const char * name;
    int (*run)(int argc, char ** argv); // argv[0] is the subcommand's name
} subcommands[] = {{"info", run_info},
                   {"list", run_list},
                   {"compile", run_compile},
                   {"run", run_run},
                   {"cache", run_cache}};

static int run(int argc, char ** argv) {
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            fputs(help, stdout);
            return EXIT_OK;
        }
    }
    if (argc < 2) {
        return say_usage("a subcommand is missing: info, list, compile, run or cache");
    }
    if (!strcmp(argv[1], "--version")) {
        printf(PROGRAM " %s\n", GGML_HSA_VERSION);
        return EXIT_OK;
    }
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++) {
        if (!strcmp(argv[1], subcommands[i].name)) {
            return subcommands[i].run(argc - 1, argv + 1);
        }
    }
    return say_usage("no subcommand '%s'", argv[1]);
}

int main(int argc, char ** argv) {
    int status = run(argc, argv);
    if ((fflush(stdout) || ferror(stdout)) && errno != EPIPE) { // a closed pager is no error
        return say_failed(strerror(errno));
    }
    return status;
}

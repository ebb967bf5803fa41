// ggml-hsa-gen-kernels: makes the kernels of a configuration ahead of time, for machines that
// cannot compile or must not wait. Errors go to standard error, each with the entry it belongs to;
// what was done goes to standard output.
#include "gen-kernels.h"

#include "base/plain.h"

#include "store/store.h"
#include "tool.h"
#include "words.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "ggml-hsa-gen-kernels"

static const char help[] = PROGRAM
    ": makes NPU kernels ahead of time\n\n"
    "usage: " PROGRAM " --config C --output-dir D [--arch A] [--jobs N] [--dry-run] [--verbose]\n"
    "       " PROGRAM " --record FILE [--output-dir D] -- COMMAND [ARGUMENTS]\n"
    "       " PROGRAM " --list [--output-dir D]\n\n"
    "  --config C      what to make: JSON {\"kernels\": [{kernel_name, kernel_source, arch,\n"
    "                  input_tensors, output_tensor, exported_name, op_params?,\n"
    "                  precision?}]}\n"
    "  --output-dir D  where to: D/<arch>/<exported_name>.pdi, _insts.bin and manifest.json;\n"
    "                  run programs with GGML_HSA_KERNEL_DIR=D; programs/ holds what other\n"
    "                  shapes of the same ops run on\n"
    "  --arch A        only entries for A (aie2, aie2p); entries that name none are for A\n"
    "  --jobs N        threads, as many as there are cores if not given\n"
    "  --dry-run       check everything, write nothing\n"
    "  --verbose       a line for each kernel\n"
    "  --record FILE   run COMMAND with GGML_HSA_RECORD=FILE: FILE becomes a configuration of\n"
    "                  every kernel that it needed; with --output-dir they are then made\n"
    "  --list          the kernels that can be asked for, or those that D holds\n"
    "  --help          this text\n"
    "  --version       version of the tool\n\n"
    "Tensors are written (d0,d1,d2,d3)/dtype or (d0,d1,d2,d3)/dtype/(s0,s1,s2,s3), with dimension "
    "0\n"
    "innermost and strides in bytes (in elements where one is no multiple of the dtype's size);\n"
    "dtypes are f32 f16 bf16 i8 i16 i32.\n"
    "Exit status: 0 all made, 1 something failed, 2 the command line is not understood.\n";

static atomic_bool stop; // the one thing that a signal may touch

static void on_signal(int number) {
    (void) number;
    atomic_store(&stop, true);
}

static int usage(const char * fmt, ...) BASE_PRINTF(1, 2);
static int usage(const char * fmt, ...) {
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    plain_make(text, false); // words may be names of files
    fprintf(stderr, PROGRAM ": %s (see " PROGRAM " --help)\n", text);
    return EXIT_USAGE;
}

static int complain(const char * text) {
    fprintf(stderr, PROGRAM ": %s\n", text);
    return EXIT_BAD_INPUT;
}

// ---- making ----

static void print_job(const struct job * job, const struct gen_options * options) {
    const char * arch = kernel_arch_name(job->config.spec.arch);
    const char * name = job->config.exported_name;
    if (job->error.status != ST_OK) {
        fprintf(stderr, PROGRAM ": kernels[%d] '%s': %s\n", job->index, name, job->error.text);
    } else if (options->verbose && job->skipped) {
        printf("kernels[%d] %s/%s: left out, --arch %s\n", job->index, arch, name, options->arch);
    } else if (options->verbose && options->dry_run) {
        printf("kernels[%d] %s/%s: %s, can be made%s\n", job->index, arch, name, job->entry.kernel,
               job->external ? " by GGML_HSA_JIT_COMMAND" : "");
    } else if (options->verbose && job->published) {
        printf("kernels[%d] %s/%s: %s, %llu + %llu bytes in %.2f ms%s\n", job->index, arch, name,
               job->entry.kernel, (unsigned long long) job->entry.pdi.size,
               (unsigned long long) job->entry.insts.size, job->seconds * 1e3,
               job->external ? ", by GGML_HSA_JIT_COMMAND" : "");
    }
}

static int generate(const struct gen_options * options) {
    double start = seconds_now();
    struct jobs jobs;
    struct error err = {0};
    if (jobs_read(options->config, options->arch, &jobs, &err) != ST_OK) {
        return complain(err.text);
    }
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    enum status st = jobs_build(&jobs, options, &err);
    int made = 0, failed = 0, skipped = 0, unchanged = 0;
    unsigned long long bytes = 0;
    for (int i = 0; i < jobs.n; i++) {
        const struct job * job = &jobs.list[i];
        print_job(job, options);
        failed += job->error.status != ST_OK;
        skipped += job->skipped;
        unchanged += job->published && job->unchanged;
        if (job->published || (options->dry_run && job->entry.kernel[0] && !job->error.status)) {
            made++;
            bytes += job->entry.pdi.size + job->entry.insts.size;
        }
    }
    if (st != ST_OK) {
        complain(err.text);
    }
    int left = jobs.n - made - failed - skipped;
    printf("%d of %d kernels %s", made, jobs.n - skipped,
           options->dry_run ? "can be made" : "made");
    if (!options->dry_run) {
        printf(" in %.2f s, %.1f MB in %s", seconds_now() - start, (double) bytes * 1e-6,
               options->output_dir);
    }
    if (unchanged) {
        printf(", %d of them as they were", unchanged);
    }
    if (failed) {
        printf(", %d failed", failed);
    }
    if (skipped) {
        printf(", %d of other architectures left out", skipped);
    }
    if (left && st == ST_OK) {
        printf(", %d not begun", left);
    }
    printf("\n");
    jobs_free(&jobs);
    return st != ST_OK || failed || left ? EXIT_BAD_INPUT : EXIT_OK;
}

// ---- listing ----

static void list_kernels(void) {
    printf("%-28s %-16s %6s %9s\n", "kernel_name", "kernel_source", "inputs", "op_params");
    for (int i = 0; i < KERNEL_OP_COUNT; i++) {
        const struct kernel_op_info * info = kernel_op_info((enum kernel_op) i);
        char source[64];
        snprintf(source, sizeof source, "%s.py", info->source);
        char inputs[32];
        int n = snprintf(inputs, sizeof inputs, "%d", info->least_inputs);
        if (info->least_inputs < info->n_inputs) {
            snprintf(inputs + n, sizeof inputs - (size_t) n, "-%d", info->n_inputs);
        }
        printf("%-28s %-16s %6s %9d\n", info->ggml_name, source, inputs, info->n_params);
    }
}

// Prints what is wrong with a file of a pack; true when nothing is.
static bool check_file(const char * dir, enum aie_arch arch, const char * file, const char * suffix,
                       const struct manifest_file * said) {
    struct buf path = {0};
    struct error err = {0};
    uint8_t * data = NULL;
    size_t size;
    buf_printf(&path, "%s/%s/%s%s", dir, kernel_arch_name(arch), file, suffix);
    const char * name = path.failed ? "" : (const char *) path.data;
    bool ok = file_read(name, (size_t) 64 << 20, &data, &size, &err) == ST_OK &&
              manifest_check(said, data, size, name, &err) == ST_OK;
    if (!ok) {
        complain(err.text);
    }
    free(data);
    buf_free(&path);
    return ok;
}

// Kernels and programs of one architecture; true when all are what the manifest says.
static bool list_manifest(const char * dir, enum aie_arch arch, const struct manifest * m) {
    bool all = true;
    for (size_t i = 0; i < m->n_entries; i++) {
        const struct manifest_entry * e = &m->entries[i];
        bool ok = check_file(dir, arch, e->exported_name, ".pdi", &e->pdi);
        ok = check_file(dir, arch, e->exported_name, "_insts.bin", &e->insts) && ok;
        printf("%s %s/%s %s\n", ok ? "good  " : "broken", kernel_arch_name(arch), e->exported_name,
               e->kernel);
        all &= ok;
    }
    const char * ours = store_own_compiler()->identity;
    for (size_t i = 0; i < m->n_programs; i++) {
        const struct manifest_program * p = &m->programs[i];
        char file[KERNEL_NAME_MAX + 16];
        snprintf(file, sizeof file, MANIFEST_PROGRAMS "/%s", p->name);
        bool ok = check_file(dir, arch, file, ".pdi", &p->pdi);
        printf("%s %s/%s for every shape%s\n", ok ? "good  " : "broken", kernel_arch_name(arch),
               file, strcmp(p->compiler, ours) ? ", by another version of the compiler" : "");
        all &= ok;
    }
    return all;
}

static int list_pack(const char * dir) {
    int packs = 0, status = EXIT_OK;
    for (int a = 0; a < AIE_ARCH_COUNT; a++) {
        enum aie_arch arch = (enum aie_arch) a;
        struct buf path = {0};
        struct manifest m = {0};
        struct error err = {0};
        buf_printf(&path, "%s/%s/" MANIFEST_FILE, dir, kernel_arch_name(arch));
        enum status st = path.failed ? error_set(&err, ST_NO_MEMORY, "no memory for a path")
                                     : manifest_read((char *) path.data, arch, &m, &err);
        if (st != ST_OK && st != ST_NOT_FOUND) {
            status = complain(err.text);
        }
        packs += st == ST_OK;
        if (!list_manifest(dir, arch, &m)) {
            status = EXIT_BAD_INPUT;
        }
        manifest_free(&m);
        buf_free(&path);
    }
    if (packs == 0 && status == EXIT_OK) {
        fprintf(stderr, PROGRAM ": %s: no manifest in it\n", dir);
        status = EXIT_BAD_INPUT;
    }
    return status;
}

// ---- recording ----

// Runs the command with the recording switched on; its exit status as a shell would say it.
static int run_recorded(const char * file, char ** command) {
    struct buf path = {0};
    if (*file != '/') { // the command may go elsewhere before it loads the plugin
        char * here = getcwd(NULL, 0);
        buf_printf(&path, "%s/", here ? here : ".");
        free(here);
    }
    buf_printf(&path, "%s", file);
    pid_t child = path.failed ? -1 : fork();
    if (child == 0) {
        if (setenv("GGML_HSA_RECORD", (char *) path.data, 1) == 0) {
            execvp(command[0], command);
        }
        fprintf(stderr, PROGRAM ": %s: %s\n", command[0], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    buf_free(&path);
    if (child < 0) {
        return complain(strerror(errno));
    }
    // The terminal sends these to both; the command decides.
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return complain(strerror(errno));
        }
    }
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int record(struct gen_options * options, const char * file, char ** command) {
    int status = run_recorded(file, command);
    struct jobs jobs;
    struct error err = {0};
    if (access(file, F_OK) != 0) {
        fprintf(stderr,
                PROGRAM
                ": %s was not written: the command ran no kernel on an NPU (does it load the "
                "ggml-hsa plugin?)\n",
                file);
        return status ? status : EXIT_BAD_INPUT;
    }
    if (jobs_read(file, NULL, &jobs, &err) != ST_OK) {
        complain(err.text);
        return status ? status : EXIT_BAD_INPUT;
    }
    int good = 0;
    bool make = options->output_dir && status == 0;
    for (int i = 0; i < jobs.n; i++) {
        good += jobs.list[i].error.status == ST_OK;
        if (!make) { // else making says it
            print_job(&jobs.list[i], &(struct gen_options){0});
        }
    }
    printf("%d kernels in %s\n", good, file);
    bool whole = good == jobs.n;
    jobs_free(&jobs);
    if (make) { // what can be made is made, whatever else was recorded
        options->config = file;
        return generate(options);
    }
    if (options->output_dir) {
        fprintf(stderr, PROGRAM ": the command failed (status %d), no kernels are made of %s\n",
                status, file);
    }
    return status ? status : whole ? EXIT_OK : EXIT_BAD_INPUT;
}

// ---- command line ----

enum option_id {
    CONFIG = 1,
    OUTPUT_DIR,
    ARCH,
    JOBS,
    DRY_RUN,
    VERBOSE,
    RECORD,
    LIST,
    HELP,
    VERSION
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, CONFIG},
    {"output-dir", required_argument, NULL, OUTPUT_DIR},
    {"arch", required_argument, NULL, ARCH},
    {"jobs", required_argument, NULL, JOBS},
    {"dry-run", no_argument, NULL, DRY_RUN},
    {"verbose", no_argument, NULL, VERBOSE},
    {"record", required_argument, NULL, RECORD},
    {"list", no_argument, NULL, LIST},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {NULL, 0, NULL, 0},
};

static int unknown_option(const char * option) {
    struct nearest near;
    char hint[WORDS_HINT];
    (void) words_know_option(help, option, &near);
    return usage("no option '%s'%s", option, words_hint(&near, hint));
}

static bool parse_count(const char * text, int * out) {
    char * end;
    errno = 0;
    long n = strtol(text, &end, 10);
    *out = (int) n;
    return !errno && end != text && !*end && n >= 1 && n <= 256;
}

struct asked {
    struct gen_options options;
    const char * recording;
    bool list;
};

// EXIT_OK, and *over where nothing is left to do; else what usage() gave.
static int read_option(int c, char ** argv, struct asked * a, bool * over) {
    struct gen_options * options = &a->options;
    enum aie_arch arch;
    switch (c) {
    case CONFIG:
        options->config = optarg;
        break;
    case OUTPUT_DIR:
        options->output_dir = optarg;
        break;
    case ARCH:
        if (!kernel_arch_parse(optarg, &arch)) {
            return usage("--arch: Unknown arch '%s'", optarg);
        }
        options->arch = optarg;
        break;
    case JOBS:
        if (!parse_count(optarg, &options->threads)) {
            return usage("--jobs: '%s' is not a number from 1 to 256", optarg);
        }
        break;
    case DRY_RUN:
        options->dry_run = true;
        break;
    case 'v':
    case VERBOSE:
        options->verbose = true;
        break;
    case RECORD:
        a->recording = optarg;
        break;
    case LIST:
        a->list = true;
        break;
    case 'h':
    case HELP:
        fputs(help, stdout);
        *over = true;
        break;
    case VERSION:
        printf(PROGRAM " %s\n", GGML_HSA_VERSION);
        *over = true;
        break;
    case ':':
        return usage("%s wants a value", argv[optind - 1]);
    default:
        return unknown_option(argv[optind - 1]);
    }
    return EXIT_OK;
}

// What the words come to; `rest` is what stands behind the options, NULL at its end.
static int do_asked(struct asked * a, char ** rest) {
    struct gen_options * options = &a->options;
    if (a->recording) {
        if (options->config || a->list) {
            return usage("--record goes with a command, not with --config or --list");
        }
        return *rest ? record(options, a->recording, rest)
                     : usage("--record needs a command: --record FILE -- COMMAND");
    }
    if (*rest) {
        return usage("'%s' is not understood", *rest);
    }
    if (a->list && options->output_dir) {
        return list_pack(options->output_dir);
    }
    if (a->list) {
        list_kernels();
        return EXIT_OK;
    }
    if (!options->config) {
        return usage("--config is missing");
    }
    if (!options->output_dir && !options->dry_run) {
        return usage("--output-dir is missing");
    }
    return generate(options);
}

static int run(int argc, char ** argv) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int threads = cores < 1 ? 1 : cores > 256 ? 256 : (int) cores;
    struct asked asked = {.options = {.threads = threads, .stop = &stop}};
    bool over = false;
    opterr = 0; // its messages know no better word
    for (int c; (c = getopt_long(argc, argv, "+:hv", long_options, NULL)) != -1;) {
        int status = read_option(c, argv, &asked, &over);
        if (status != EXIT_OK || over) {
            return status;
        }
    }
    return do_asked(&asked, argv + optind);
}

int main(int argc, char ** argv) {
    int status = run(argc, argv);
    if ((fflush(stdout) || ferror(stdout)) && errno != EPIPE) {
        fprintf(stderr, PROGRAM ": standard output: %s\n", strerror(errno));
        return EXIT_BAD_INPUT;
    }
    return status;
}

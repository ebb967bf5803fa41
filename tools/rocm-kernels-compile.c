// rocm-kernels-compile: code objects ahead of time, several compilers at once.
#include "rocm-kernels.h"

#include "base/gpus.h"
#include "base/out.h"
#include "progress-line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char all_archs[] = "all";

struct job {
    char arch[HIP_ARCH_MAX]; // "": that of the GPU here
    const char *name, *source;
    // afterwards
    bool done;
    double seconds;
    const struct rocm_code * code;
    struct rocm_error error;
};

struct compile {
    const char *arch, *compiler, *output_dir;
    struct buf archs; // the text that arch is, where it was not given
    bool all, force;
    int n_threads;
    char ** files; // sources that were read, to be freed
    int n_files;
    struct job * jobs;
    int n_jobs;
    struct rocm_kernels * k;
    atomic_int next, ended;
    struct progress_line progress;
};

// ---- what is to be done ----

// "dir/my-kernel.hip" is called my-kernel.
static bool add_file(struct compile * c, const char * path, char ** name) {
    uint8_t * text;
    size_t size;
    struct error err;
    const char * slash = strrchr(path, '/');
    const char * start = slash ? slash + 1 : path;
    if (file_read(path, HIP_MAX_SOURCE, &text, &size, &err) != ST_OK) {
        say_failed(err.text);
        return false;
    }
    text[size] = 0; // file_read leaves room for it
    c->files[c->n_files++] = (char *) text;
    *name = strndup(start, strcspn(start, "."));
    c->files[c->n_files++] = *name;
    const uint8_t * nul = memchr(text, 0, size);
    if (!*name || nul) {
        nul ? error_set(&err, ST_INVALID,
                        "%.300s: byte %zu is NUL, which no source has: is it UTF-16, or a code "
                        "object?",
                        path, (size_t) (nul - text))
            : error_set(&err, ST_NO_MEMORY, "no memory");
        say_failed(err.text);
        return false;
    }
    return true;
}

static bool add_job(struct compile * c, const char * name, const char * source) {
    const char * p = c->arch;
    do {
        size_t n = p ? strcspn(p, ",") : 0;
        struct job * grown = realloc(c->jobs, (size_t) (c->n_jobs + 1) * sizeof *grown);
        char text[64];
        struct error err = {0};
        if (!grown) {
            return false;
        }
        c->jobs = grown;
        struct job * job = &c->jobs[c->n_jobs++];
        *job = (struct job){.name = name, .source = source};
        snprintf(text, sizeof text, "%.*s", (int) n, p ? p : "");
        if (p && hip_arch_parse(text, job->arch, &err) != ST_OK) {
            say_usage("--arch: %s", err.text);
            return false;
        }
        p = p && p[n] ? p + n + 1 : NULL;
    } while (p);
    return true;
}

// For all: those of the table that a compiler here knows; of the others it is said why not. For
// none: that of the GPU here; where there is none, each job will tell.
static int name_archs(struct compile * c) {
    struct hip_toolchain toolchain = {.root = -1};
    bool all = c->arch && !strcmp(c->arch, all_archs);
    const char * here = c->arch ? NULL : rocm_kernels_arch(c->k, NULL);
    if (here) {
        buf_printf(&c->archs, "%s", here);
    }
    if (all) {
        hip_toolchain_find(&toolchain, hip_compiler_choice(c->compiler), NULL);
    }
    for (int i = 0; all && i < GPU_NAMES; i++) {
        struct hip_compilers compilers;
        if (!gpu_names[i].in_all) {
            continue;
        }
        hip_toolchain_compilers(&toolchain, gpu_names[i].name, &compilers);
        if (compilers.why.status == ST_UNSUPPORTED) {
            fprintf(stderr, PROGRAM ": left out: %s\n", compilers.why.text);
        } else {
            buf_printf(&c->archs, "%s%s", c->archs.size ? "," : "", gpu_names[i].name);
        }
        hip_compilers_free(&compilers);
    }
    hip_toolchain_free(&toolchain);
    if (c->archs.failed) {
        return say_failed("no memory");
    }
    c->arch = c->archs.size ? (const char *) c->archs.data : c->arch;
    return EXIT_OK;
}

// ---- doing it ----

static void write_copy(const struct compile * c, struct job * job) {
    struct buf path = {0};
    const char * arch = job->arch[0] ? job->arch : rocm_kernels_arch(c->k, &job->error);
    struct error why = {0};
    buf_printf(&path, "%s/%s", c->output_dir, arch);
    struct out out;
    if (!path.failed) {
        mkdir((const char *) path.data, 0777);
    }
    buf_printf(&path, "/%s.co", job->name);
    if (path.failed) {
        error_set(&why, ST_NO_MEMORY, "no memory");
    } else if (out_begin((const char *) path.data, &out, &why) == ST_OK) {
        (void) fwrite(job->code->data, 1, job->code->size, out.file); // out_end tells
        (void) out_end(&out, &why);
    }
    if (why.status != ST_OK) {
        job->error.status = ROCM_IO;
        snprintf(job->error.text, sizeof job->error.text, "%.1000s: %s",
                 path.data ? (const char *) path.data : "", why.text);
    }
    buf_free(&path);
}

static void * work(void * user) {
    struct compile * c = user;
    for (int i; (i = atomic_fetch_add(&c->next, 1)) < c->n_jobs;) {
        struct job * job = &c->jobs[i];
        double start = seconds_now();
        enum rocm_status st = rocm_kernels_get_or_compile_for(
            c->k, job->arch[0] ? job->arch : NULL, job->name, job->source, &job->code, &job->error);
        job->seconds = seconds_now() - start;
        if (st == ROCM_OK && c->output_dir) {
            write_copy(c, job);
        }
        job->done = true;
        int ended = atomic_fetch_add(&c->ended, 1) + 1;
        progress_line_tell(&c->progress, seconds_now(), "%d of %d", ended, c->n_jobs);
    }
    return NULL;
}

static void run_threads(struct compile * c) {
    pthread_t threads[64];
    int n = 0;
    progress_line_begin(&c->progress, stderr, PROGRAM, seconds_now());
    for (; n < c->n_threads - 1 && n < 64; n++) {
        if (pthread_create(&threads[n], NULL, work, c) != 0) {
            break;
        }
    }
    work(c);
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    progress_line_end(&c->progress);
}

// What is wrong, without what it is wrong with: "unary_f32 for gfx90a: no compiler" of 37 modules
// is one thing to say.
static const char * reason_of(const struct job * job) {
    const char * text = job->error.text;
    size_t n = strlen(job->name);
    const char * colon = !strncmp(text, job->name, n) ? strstr(text + n, ": ") : NULL;
    return colon ? colon + 2 : text;
}

static void report_failures(const struct compile * c) {
    for (int i = 0; i < c->n_jobs; i++) {
        const struct job * job = &c->jobs[i];
        if (job->error.status == ROCM_OK) {
            continue;
        }
        int same = 0;
        bool told = false;
        for (int k = 0; k < c->n_jobs; k++) {
            bool is_same = k != i && c->jobs[k].error.status != ROCM_OK &&
                           !strcmp(reason_of(&c->jobs[k]), reason_of(job));
            same += is_same;
            told |= is_same && k < i;
        }
        if (!told) {
            fprintf(stderr, PROGRAM ": %s\n", job->error.text);
        }
        if (!told && same) {
            fprintf(stderr, PROGRAM ": the same for %d more\n", same);
        }
    }
}

static json_t * job_json(const struct job * job) {
    json_t * entry = json_object();
    json_put(&entry, "name", json_string(job->name));
    json_put(&entry, "arch", json_string(job->arch));
    if (job->error.status != ROCM_OK) {
        json_put(&entry, "error", json_string(job->error.text));
        return entry;
    }
    json_put(&entry, "bytes", json_size(job->code->size));
    json_put(&entry, "microseconds", json_size((uint64_t) (job->seconds * 1e6)));
    json_put(&entry, "compiled", json_boolean(job->code->compiled));
    json_put(&entry, "path", job->code->path ? json_string(job->code->path) : json_null());
    return entry;
}

static int report(const struct compile * c, double seconds) {
    int failed = 0, compiled = 0;
    size_t bytes = 0;
    json_t * list = in_json ? json_array() : NULL;
    for (int i = 0; i < c->n_jobs; i++) {
        const struct job * job = &c->jobs[i];
        if (in_json) {
            json_append(&list, job_json(job));
        }
        if (job->error.status != ROCM_OK) {
            failed++;
            continue;
        }
        if (!in_json) {
            printf("%-8s %-16s %7zu bytes  %7.1f ms  %s\n", job->arch, job->name, job->code->size,
                   job->seconds * 1e3, job->code->compiled ? "compiled" : "was kept");
        }
        compiled += job->code->compiled;
        bytes += job->code->size;
    }
    report_failures(c);
    struct rocm_counters n;
    rocm_kernels_counters(c->k, &n);
    if (in_json) {
        json_put(&answer, "code_objects", list);
        json_put(&answer, "compiled", json_integer(compiled));
        json_put(&answer, "kept", json_integer(c->n_jobs - compiled - failed));
        json_put(&answer, "failed", json_integer(failed));
        json_put(&answer, "compiler_runs", json_size(n.compiles));
    } else {
        printf("%d compiled, %d were kept, %d failed; %.1f MB in %.2f s; %llu compiler runs\n",
               compiled, c->n_jobs - compiled - failed, failed, (double) bytes * 1e-6, seconds,
               (unsigned long long) n.compiles);
    }
    return failed ? EXIT_BAD_INPUT : EXIT_OK;
}

// ---- command line ----

static int parse(struct compile * c, int argc, char ** argv) {
    static const struct {
        const char * name;
        int field;
    } valued[] = {{"--arch", 0}, {"--compiler", 1}, {"--output-dir", 2}, {"--jobs", 3}};
    for (int i = 1; i < argc; i++) {
        const char * word = argv[i];
        int field = -1;
        for (size_t v = 0; v < sizeof valued / sizeof valued[0]; v++) {
            field = strcmp(word, valued[v].name) ? field : valued[v].field;
        }
        if (field >= 0) {
            const char * value = i + 1 < argc ? argv[++i] : NULL;
            if (!value || !*value) {
                return say_usage("%s wants a value", word);
            }
            c->arch = field == 0 ? value : c->arch;
            c->compiler = field == 1 ? value : c->compiler;
            c->output_dir = field == 2 ? value : c->output_dir;
            c->n_threads = field == 3 ? atoi(value) : c->n_threads;
            if (c->n_threads < 1 || c->n_threads > 64) {
                return say_usage("--jobs wants a number from 1 to 64");
            }
        } else if (!strcmp(word, "--all")) {
            c->all = true;
        } else if (!strcmp(word, "--force")) {
            c->force = true;
        } else if (word[0] == '-') {
            return say_usage("no option '%s' of compile", word);
        }
    }
    return EXIT_OK;
}

static int collect(struct compile * c, int argc, char ** argv) {
    for (int i = 0; c->all && i < rocm_modules_count(); i++) {
        const char * name = rocm_modules_name(i);
        if (!add_job(c, name, rocm_modules_source(name))) {
            return EXIT_USAGE;
        }
    }
    for (int i = 1; i < argc; i++) {
        const char * word = argv[i];
        if (word[0] == '-') {
            i += strcmp(word, "--all") && strcmp(word, "--force");
            continue;
        }
        char * name = argv[i];
        const char * source = rocm_modules_source(word);
        if (!source) {
            if (!strchr(word, '.') && !strchr(word, '/')) {
                return say_usage("no module '%s'; a source of your own is a file, e.g. %s.hip",
                                 word, word);
            }
            if (!add_file(c, word, &name)) {
                return EXIT_BAD_INPUT;
            }
            source = c->files[c->n_files - 2];
        }
        if (!add_job(c, name, source)) {
            return EXIT_USAGE;
        }
    }
    for (int i = 0; c->output_dir && i < c->n_jobs; i++) {
        for (int k = 0; k < i; k++) {
            const struct job *a = &c->jobs[k], *b = &c->jobs[i];
            if (!strcmp(a->name, b->name) && !strcmp(a->arch, b->arch)) {
                return say_usage("two sources would both become %s.co in --output-dir; give one "
                                 "of them another name",
                                 a->name);
            }
        }
    }
    return c->n_jobs ? EXIT_OK : say_usage("compile what? a module, a file, or --all");
}

int run_compile(int argc, char ** argv) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct compile c = {.n_threads = cores < 1    ? 1
                                     : cores > 64 ? 64
                                                  : (int) cores,
                        .files = calloc((size_t) argc * 2, sizeof *c.files)};
    int status = c.files ? parse(&c, argc, argv) : EXIT_BAD_INPUT;
#ifdef ROCM_KERNELS_TARGETS
    c.arch = c.arch ? c.arch : ROCM_KERNELS_TARGETS;
#endif
    if (status == EXIT_OK && c.force) {
        setenv("CANDLE_ROCM_FORCE_RECOMPILE", "1", 1);
    }
    if (status == EXIT_OK && c.output_dir && mkdir(c.output_dir, 0777) != 0 &&
        access(c.output_dir, W_OK) != 0) {
        status = say_failed("--output-dir cannot be written");
    }
    if (status == EXIT_OK) {
        c.k = open_manager(NULL, c.compiler);
        status = c.k ? name_archs(&c) : EXIT_BAD_INPUT;
    }
    if (status == EXIT_OK) {
        status = collect(&c, argc, argv);
    }
    if (status == EXIT_OK) {
        double start = seconds_now();
        run_threads(&c);
        status = report(&c, seconds_now() - start);
    }
    rocm_kernels_close(c.k);
    for (int i = 0; i < c.n_files; i++) {
        free(c.files[i]);
    }
    buf_free(&c.archs);
    free(c.files);
    free(c.jobs);
    return status;
}

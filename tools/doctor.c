// doctor: is everything there to compute on an NPU or GPU, and if not, what is to be done? Checks
// are made in the order in which things depend on each other, and all are made whatever the first
// ones say. Nothing is changed, no right is needed, and a machine that has nothing is a case like
// others.
#include "doctor.h"
#include "tool.h"

#include "base/variables.h"
#include "store/cache.h"
#include "store/external.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- reporting ----

static const char * const verdict_names[] = {[PASS] = "PASS", [WARN] = "WARN", [FAIL] = "FAIL"};
static const char * const verdict_json[] = {[PASS] = "pass", [WARN] = "warn", [FAIL] = "fail"};

static void add_finding(struct doctor * d, enum verdict v, const char * check, const char * mend,
                        const char * text) {
    static const char * const colours[] = {
        [PASS] = "\033[32m", [WARN] = "\033[33m", [FAIL] = "\033[31m"};
    bool colour = *tool_colours().off && !d->issue;
    struct buf * b = &d->out;
    if (d->json) {
        json_append(&d->checks,
                    json_pack("{s:o, s:s, s:o, s:o}", "check", json_text(check), "result",
                              verdict_json[v], "text", json_text(text), "mend", json_text(mend)));
    } else {
        buf_printf(b, "%s%s%s  %s: ", colour ? colours[v] : "", verdict_names[v],
                   colour ? "\033[0m" : "", check);
        plain_text(b, text);
        if (*mend && !d->issue) {
            buf_printf(b, "\n      -> ");
            plain_text(b, mend);
        }
        buf_printf(b, "\n");
    }
    d->n[v]++;
}

void report(struct doctor * d, enum verdict v, const char * check, const char * mend,
            const char * fmt, ...) {
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    add_finding(d, v, check, mend, text);
}

void report_need(struct doctor * d, enum verdict v, const char * check, const char * mend,
                 const char * fmt, ...) {
    bool gpu = probe_has(&d->runtime, HSAC_GPU) && !probe_has(&d->runtime, HSAC_NPU);
    bool no_npu = gpu && d->machine.bus && d->machine.n_npus == 0;
    char text[1024];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n >= 0 && (size_t) n < sizeof text) {
        snprintf(text + n, sizeof text - (size_t) n, "%s",
                 d->emulated         ? "; an emulated NPU does not need it"
                 : d->runtime.native ? "; the NPU does without"
                 : no_npu            ? "; the GPU does without"
                                     : "");
    }
    if (d->emulated && !d->json && !d->issue) { // one line says it of all of them
        buf_printf(&d->unneeded, "%s%s", d->unneeded.size ? ", " : "", check);
        return;
    }
    bool needed = !d->emulated && !d->runtime.native && !no_npu;
    add_finding(d, !needed ? PASS : gpu ? WARN : v, check, needed ? mend : "", text);
}

// ---- checks ----

static void check_emulation(struct doctor * d) {
    const char * value = getenv("GGML_HSA_EMULATE");
    if (d->emulated) {
        report(d, PASS, "emulation", "", "asked for: GGML_HSA_EMULATE=%s", value);
    } else {
        report(d, PASS, "emulation", "",
               "not asked for; GGML_HSA_EMULATE=aie2 would bring an emulated NPU");
    }
}

// Pieces of ggml that the plugin knows; what it says itself decides.
static const char known_ggml[] = "use ggml 0.23 to 0.27, or a ggml-hsa that knows this one";

static void check_plugin(struct doctor * d) {
    const struct probe_plugin * p = &d->plugin;
    const char * path = getenv("GGML_BACKEND_PATH");
    if (p->err.status == ST_NOT_FOUND) {
        report(d, WARN, "plugin", "build with GGML_HSA=ON, or install the plugin beside this tool",
               "%s", p->err.text);
    } else if (p->err.status == ST_UNSUPPORTED) {
        report(d, FAIL, "plugin", known_ggml, "%s: %s", p->path, p->err.text);
    } else if (p->err.status != ST_OK) {
        report(d, FAIL, "plugin",
               "a missing libggml-base: put ggml's library directory into LD_LIBRARY_PATH",
               "%s does not load: %s", p->path, p->err.text);
    } else {
        bool all = p->devices >= d->runtime.n_agents;
        report(d,
               all          ? PASS
               : p->devices ? WARN
                            : FAIL,
               "plugin", all ? "" : "mend what is said above of the device",
               "%s loads in ggml %s (backend API %d) and offers %d device%s%s%s", p->path,
               p->ggml_version, p->api, p->devices, p->devices == 1 ? "" : "s",
               all ? "" : "; it says: ", all ? "" : p->said);
    }
    if (p->err.status == ST_OK && p->devices && p->missing >= 0) {
        report(d, PASS, "ops", "to learn why a node is on the CPU: GGML_HSA_EXPLAIN=1 PROGRAM",
               "HSA0 leaves %d of ggml's ops to the CPU%s%s", p->missing, p->missing ? ": " : "",
               p->missing_ops);
    }
    if (!path || !*path) {
        char mend[600];
        snprintf(mend, sizeof mend,
                 "to make ggml programs load the plugin, set GGML_BACKEND_PATH=%s",
                 *p->path ? p->path : "<path of libggml-hsa.so>");
        report(d, PASS, "GGML_BACKEND_PATH", p->err.status == ST_OK ? mend : "", "not set");
    } else if (access(path, R_OK) != 0) {
        report(d, WARN, "GGML_BACKEND_PATH", "it must be the path of one file, libggml-hsa.so",
               "%s: %s", path, strerror(errno));
    } else {
        struct stat info;
        bool file = stat(path, &info) == 0 && S_ISREG(info.st_mode);
        report(d, file ? PASS : WARN, "GGML_BACKEND_PATH",
               file ? "" : "it must be the path of one file, libggml-hsa.so", "%s%s", path,
               file ? "" : " is no file");
    }
}

static bool has_kernels(const char * dir) {
    static const char * const archs[] = {"aie2", "aie2p"};
    bool found = false;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        char * path = NULL;
        if (asprintf(&path, "%s/%s", dir, archs[i]) >= 0) {
            found |= access(path, R_OK | X_OK) == 0;
            free(path);
        }
    }
    return found;
}

// How many kernel directories can be used.
static int check_kernel_dirs(struct doctor * d) {
    const char * list = getenv("GGML_HSA_KERNEL_DIR");
    int n = 0, good = 0;
    for (const char * p = list ? list : ""; *p;) {
        size_t size = strcspn(p, ":");
        char * dir = size ? strndup(p, size) : NULL;
        struct stat info;
        errno = 0;
        if (dir &&
            (stat(dir, &info) != 0 || !S_ISDIR(info.st_mode) || access(dir, R_OK | X_OK) != 0)) {
            report(d, WARN, "kernel directory",
                   "correct GGML_HSA_KERNEL_DIR, or make the directory readable", "%s: %s", dir,
                   errno ? strerror(errno) : "not a directory");
        } else if (dir && !has_kernels(dir)) {
            report(d, WARN, "kernel directory",
                   "GGML_HSA_KERNEL_DIR wants the directory above aie2/, as ggml-hsa-gen-kernels "
                   "--output-dir made it",
                   "%s holds neither aie2/ nor aie2p/", dir);
        } else if (dir) {
            report(d, PASS, "kernel directory", "", "%s", dir);
            good++;
        }
        n += dir != NULL;
        free(dir);
        p += size + (p[size] == ':');
    }
    if (n == 0) {
        report(d, PASS, "kernel directory", "", "none set");
    }
    return good;
}

static void check_compilers(struct doctor * d, int kernel_dirs) {
    bool own = false;
    for (int i = 0; i < probe_n_options; i++) {
        own |= !strcmp(probe_options[i].name, "GGML_HSA_JIT_COMPILE") && probe_options[i].on;
    }
    const char * command = getenv("GGML_HSA_JIT_COMMAND");
    if (command && *command && !own) {
        report(d, WARN, "external compiler", "build with GGML_HSA_JIT_COMPILE=ON",
               "GGML_HSA_JIT_COMMAND is set, but this build compiles nothing");
    } else if (command && *command && !external_available()) {
        report(d, WARN, "external compiler",
               "IRON environment is not active. Run source env_setup.sh first.",
               "GGML_HSA_JIT_COMMAND=%s: there is no such program", command);
    } else if (command && *command) {
        report(d, PASS, "external compiler", "", "%s", command);
    }
    if (own) {
        report(d, PASS, "kernel compiler", "", "built in");
    } else if (kernel_dirs) {
        report(d, PASS, "kernel compiler", "",
               "not built in; kernels come from the kernel directories");
    } else {
        report(
            d, FAIL, "kernel compiler",
            "build with GGML_HSA_JIT_COMPILE=ON, or set GGML_HSA_KERNEL_DIR to a pack of kernels",
            "not built in, and there is no kernel directory");
    }
}

struct health {
    uint64_t damaged;
    char name[256]; // of a damaged one
};

static bool count(void * user, const struct cache_item * item) {
    struct health * h = user;
    if (item->state == CACHE_DAMAGED && h->damaged++ == 0) {
        snprintf(h->name, sizeof h->name, "%s", item->name);
    }
    return true;
}

static void check_cache(struct doctor * d) {
    struct cache * cache = NULL;
    struct cache_totals totals = {0};
    struct health h = {0};
    struct error err = {0};
    enum status st = cache_open(false, &cache, &err);
    if (st == ST_NOT_FOUND) {
        report(d, PASS, "kernel cache", "", "none: %s", err.text);
        return;
    }
    if (st == ST_OK) {
        st = cache_walk(cache, NULL, true, count, &h, &totals, &err);
    }
    if (st != ST_OK) {
        report(d, WARN, "kernel cache",
               "make the directory yours alone (chmod 700), or set GGML_HSA_KERNEL_CACHE_DIR to "
               "another; until "
               "then kernels are compiled anew in each process",
               "%s", err.text);
    } else {
        struct buf size = {0};
        size_text(&size, totals.bytes);
        const char * text = size.data ? (char *) size.data : "?";
        unsigned long long n = totals.kernels;
        if (h.damaged) {
            report(d, WARN, "kernel cache",
                   "nothing needs to be done: damaged kernels are compiled again when asked for; "
                   "`ggml-hsa cache clear` removes all",
                   "%s, %llu kernels, %s; %llu are damaged, e.g. %s", cache_path(cache), n, text,
                   (unsigned long long) h.damaged, h.name);
        } else {
            report(d, PASS, "kernel cache", "", "%s, %llu kernels, %s", cache_path(cache), n, text);
        }
        buf_free(&size);
    }
    cache_close(cache);
}

static void check_variable(void * user, const struct probe_variable * v) {
    struct doctor * d = user;
    char mend[160];
    if (v->meaning) {
        return;
    }
    snprintf(mend, sizeof mend,
             v->alike ? "did you mean %s?" : "unset it; `ggml-hsa info` lists what is set%s",
             v->alike ? v->alike : "");
    report(d, WARN, "environment", mend, "%.*s is no variable of ggml-hsa", (int) v->name_size,
           v->name);
}

static void check_value(void * user, const struct variable * v, const char * value) {
    char phrase[256], mend[320];
    variable_phrase(v, phrase, sizeof phrase);
    snprintf(mend, sizeof mend, "it takes %s; or unset it", phrase);
    report(user, WARN, "environment", mend, "%s=%.40s is not understood", v->name, value);
}

// What depends on nothing comes first.
static void check_all(struct doctor * d) {
    check_emulation(d);
    check_system(d);
    check_access(d);
    check_runtime(d);
    if (d->unneeded.size) {
        report(d, PASS, "this machine", "", "an emulated NPU does without: %s",
               (const char *) d->unneeded.data);
        buf_free(&d->unneeded);
    }
    check_plugin(d);
    check_compilers(d, check_kernel_dirs(d));
    check_cache(d);
    probe_environment(check_variable, d);
    variables_wrong(check_value, d);
}

// ---- output ----

static void add_variable(void * user, const struct probe_variable * v) {
    struct buf * b = user;
    struct buf name = {0};
    buf_append(&name, v->name, v->name_size);
    plain_text(b, name.data ? (char *) name.data : "");
    buf_printf(b, "=");
    plain_text(b, v->value);
    buf_printf(b, "\n");
    buf_free(&name);
}

static void add_summary(struct doctor * d, bool usable) {
    buf_printf(&d->out, "\n%s: %d passed, %d warning%s, %d failure%s\n",
               usable ? "usable" : "NOT usable", d->n[PASS], d->n[WARN], d->n[WARN] == 1 ? "" : "s",
               d->n[FAIL], d->n[FAIL] == 1 ? "" : "s");
}

// A block of text for the markdown of an issue.
static void run_report(struct doctor * d) {
    buf_printf(&d->out, "```\nggml-hsa %s", GGML_HSA_VERSION);
    for (int i = 0; i < probe_n_options; i++) {
        buf_printf(&d->out, " %s=%s", probe_options[i].name, probe_options[i].on ? "ON" : "OFF");
    }
    buf_printf(&d->out, "\n");
    check_all(d);
    add_summary(d, d->n[FAIL] == 0);
    buf_printf(&d->out, "\n");
    probe_environment(add_variable, &d->out);
    buf_printf(&d->out, "```\n");
    hide_personal(&d->out);
}

static void run_json(struct doctor * d) {
    d->checks = json_array();
    check_all(d);
    json_t * root =
        json_pack("{s:s, s:o, s:b, s:i, s:i}", "version", GGML_HSA_VERSION, "checks", d->checks,
                  "usable", d->n[FAIL] == 0, "warnings", d->n[WARN], "failures", d->n[FAIL]);
    json_print(root, JSON_INDENT(2), &d->out);
    buf_printf(&d->out, "\n");
    json_decref(root);
}

static int run(int argc, char ** argv) {
    struct doctor d = {0};
    const char * root = "";
    for (int k = 1; k < argc; k++) {
        if (!strcmp(argv[k], "--json")) {
            d.json = true;
        } else if (!strcmp(argv[k], "--report")) {
            d.issue = true;
        } else if (!strcmp(argv[k], "--root") && k + 1 < argc) {
            root = argv[++k];
        } else {
            return tool_usage(&doctor_subcommand, "no option '%s'", argv[k]);
        }
    }
    if (d.json && d.issue) {
        return tool_usage(&doctor_subcommand, "--json and --report exclude each other");
    }
    const char * emulate = getenv("GGML_HSA_EMULATE");
    d.emulated = emulate && *emulate;
    machine_look(&d.machine, root);
    probe_runtime(&d.runtime);
    probe_plugin(&d.plugin);
    if (d.json) {
        run_json(&d);
    } else if (d.issue) {
        run_report(&d);
    } else {
        check_all(&d);
        add_summary(&d, d.n[FAIL] == 0);
    }
    if (d.out.failed) {
        fprintf(stderr, "ggml-hsa doctor: %s\n", json_trouble());
        return EXIT_BAD_INPUT;
    }
    fwrite(d.out.data, 1, d.out.size, stdout);
    buf_free(&d.out);
    return d.n[FAIL] == 0 ? EXIT_OK : EXIT_BAD_INPUT;
}

const struct subcommand doctor_subcommand = {
    .name = "doctor",
    .summary = "check what an NPU needs on this machine, and say how to mend it",
    .help = "usage: ggml-hsa doctor [--json | --report] [--root DIR]\n\n"
            "Checks the kernel, the NPU on its bus, its driver, firmware and device files, rights\n"
            "and limits, the HSA runtimes and which one is opened, the plugin and its ggml, where\n"
            "kernels come from, and the cache. One line a finding, PASS, WARN or FAIL, and under\n"
            "it what to do. Nothing is changed, no rights are needed.\n\n"
            "  --json      the same as one JSON object\n"
            "  --report    text to paste into an issue: no mends, the variables that are set, and\n"
            "              neither home directories nor names of users and hosts\n"
            "  --root DIR  look at DIR/sys, DIR/dev and so on, a copy of another machine's\n\n"
            "exit status: 0 usable, 1 not usable, 2 wrong usage\n",
    .run = run,
};

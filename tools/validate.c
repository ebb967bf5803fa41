// validate: `ggml-hsa validate`, the first thing to do with an NPU. Steps prove what it computes,
// and figures tell what it takes; beside each figure stands what the model has of it. Whatever step
// fails, the next ones are done, and the exit status says that one did.
//
// Kept true: an interrupt ends the step under way between two dispatches, and what was found so far
// is reported.
#include "validate.h"

#include "base/plain.h"
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    (void) number;
    if (interrupted) { // twice: at once
        _exit(130);
    }
    interrupted = 1;
}

bool validate_interrupted(void) {
    return interrupted;
}

// ---- steps ----

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t); // of the wall: what is measured comes from HSA
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static void add_line(struct buf * b, const char * fmt, va_list args) {
    char text[600];
    vsnprintf(text, sizeof text, fmt, args);
    plain_make(text, false);
    buf_printf(b, "%s\n", text);
}

void validate_progress(const struct validate * v, const char * fmt, ...) {
    char text[120];
    if (!v->progress) {
        return;
    }
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "\r\033[K%s", text);
    fflush(stderr);
}

struct step * validate_step(struct validate * v, const char * name) {
    static struct step none;
    struct step * s = v->n_steps < VALIDATE_STEPS ? &v->steps[v->n_steps++] : &none;
    *s = (struct step){.seconds = seconds()};
    snprintf(s->name, sizeof s->name, "%s", name);
    validate_progress(v, "%s ...", name);
    return s;
}

void validate_bad(struct step * s, const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    add_line(&s->bad, fmt, args);
    va_end(args);
    s->outcome = STEP_BAD;
}

void validate_say(struct step * s, const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    add_line(&s->say, fmt, args);
    va_end(args);
}

static void print_lines(const char * lines, const char * head) {
    for (const char * p = lines; p && *p;) {
        size_t n = strcspn(p, "\n");
        printf("%s%.*s\n", head, (int) n, p);
        p += n + (p[n] == '\n');
    }
}

void validate_done(struct validate * v, struct step * s) {
    static const char * const words[] = {"ok", "WRONG", "left out"};
    s->seconds = seconds() - s->seconds;
    buf_append(&s->bad, "", 1); // texts end
    buf_append(&s->say, "", 1);
    if (interrupted && s->outcome == STEP_OK) {
        s->outcome = STEP_SKIPPED;
    }
    if (v->quiet) {
        return;
    }
    if (v->progress) {
        fprintf(stderr, "\r\033[K");
    }
    printf("  %-13s %-8s %6.1f s  %s\n", s->name, words[s->outcome], s->seconds, s->detail);
    print_lines((const char *) s->bad.data, "                wrong: ");
    print_lines((const char *) s->say.data, "                ");
    fflush(stdout);
}

int validate_failures(const struct validate * v) {
    int n = 0;
    for (int i = 0; i < v->n_steps; i++) {
        n += v->steps[i].outcome == STEP_BAD;
    }
    return n;
}

// ---- figures ----

void validate_figure(struct validate * v, const char * name, const char * key, const char * unit,
                     double measured, const char * depends) {
    if (v->n_figures < VALIDATE_FIGURES) {
        v->figures[v->n_figures++] = (struct figure){
            .name = name, .key = key, .unit = unit, .measured = measured, .depends = depends};
    }
}

const struct figure * validate_find(const struct validate * v, const char * key) {
    for (int i = 0; i < v->n_figures; i++) {
        const struct figure * f = &v->figures[i];
        if ((f->key && !strcmp(f->key, key)) || !strcmp(f->name, key)) {
            return f;
        }
    }
    return NULL;
}

// ---- children ----

int validate_run(const char * program, const char * const * words, struct buf * said) {
    int pipes[2], status = 0;
    if (pipe2(pipes, O_CLOEXEC) != 0) {
        return -1;
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        dup2(pipes[1], STDERR_FILENO);
        execv(program, (char **) (uintptr_t) words);
        _exit(127);
    }
    close(pipes[1]);
    char part[1024];
    for (ssize_t n; pid > 0 && (n = read(pipes[0], part, sizeof part)) != 0;) {
        if (n > 0) {
            buf_append(said, part, (size_t) n);
        } else if (errno != EINTR) {
            break;
        }
    }
    close(pipes[0]);
    buf_append(said, "", 1);
    if (pid <= 0) {
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int validate_child(const struct validate * v, const char * word, struct buf * said) {
    char device[16], exe[512];
    ssize_t size = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (size <= 0) {
        return -1;
    }
    exe[size] = '\0';
    snprintf(device, sizeof device, "%d", v->device);
    const char * words[] = {"ggml-hsa", "validate", word, "--device", device, NULL};
    return validate_run(exe, words, said);
}

// ---- the command ----

// In their order. Those of NPUs alone are left out on a GPU.
static const struct {
    const char * name;
    void (*run)(struct validate * v);
    bool npu;
} steps[] = {
    {"add", step_add, true},
    {"tiles", step_tiles, true},
    {"instructions", step_instructions, true},
    {"ops", step_ops, false},
    {"decoder", step_decoder, false},
    {"prices", step_measure, true},
    {"speed", step_speed, true},
    {"rest", step_rest, false},
    {"processes", step_processes, true},
    {"fault", step_fault, true},
};
enum { STEPS = sizeof steps / sizeof steps[0] };

static const struct {
    const char * word;
    int (*run)(struct validate * v);
} parts[] = {{"@add", part_add}, {"@fault", part_fault}, {"@context", part_context}};

bool validate_wants(const struct validate * v, const char * name) {
    size_t n = strlen(name);
    for (const char * p = v->only; p && *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ',')) {
        if (strcspn(p, ",") == n && !strncmp(p, name, n)) {
            return true;
        }
    }
    return !v->only;
}

static int check_only(const struct validate * v) {
    for (const char * p = v->only; p && *p;) {
        size_t n = strcspn(p, ",");
        int i = 0;
        while (i < STEPS && (strlen(steps[i].name) != n || strncmp(steps[i].name, p, n))) {
            i++;
        }
        if (i == STEPS) {
            return tool_usage(&validate_subcommand, "--only: there is no step '%.*s'", (int) n, p);
        }
        p += n + (p[n] == ',');
    }
    return EXIT_OK;
}

static int read_options(int argc, char ** argv, struct validate * v, const char ** part) {
    static const char * const takes[] = {"--device", "--json", "--html",
                                         "--clock",  "--only", "--rest"};
    const char * values[6] = {0};
    for (int i = 1; i < argc; i++) {
        int k = 0;
        while (k < 6 && strcmp(takes[k], argv[i])) {
            k++;
        }
        if (k < 6 && i + 1 == argc) {
            return tool_usage(&validate_subcommand, "%s wants a value", argv[i]);
        }
        if (k < 6) {
            values[k] = argv[++i];
        } else if (!strcmp(argv[i], "@model")) {
            v->is_model = true;
        } else if (argv[i][0] == '@') {
            *part = argv[i];
        } else if (!strcmp(argv[i], "whole") || !strcmp(argv[i], "quick")) {
            v->whole = !strcmp(argv[i], "whole");
        } else {
            return tool_usage(&validate_subcommand, "'%s' is neither quick nor whole", argv[i]);
        }
    }
    char * end = NULL;
    long device = values[0] ? strtol(values[0], &end, 10) : 0;
    if (values[0] && (*end || end == values[0] || device < 0 || device > 63)) {
        return tool_usage(&validate_subcommand, "--device %s: a number from 0 on", values[0]);
    }
    v->device = (int) device;
    v->json = values[1];
    v->html = values[2];
    v->clock = values[3];
    v->only = values[4];
    v->rest_s = values[5] ? strtod(values[5], &end) : 6;
    if (values[5] && (*end || end == values[5] || !(v->rest_s >= 0 && v->rest_s <= 3600))) {
        return tool_usage(&validate_subcommand, "--rest %s: seconds, 0 to 3600", values[5]);
    }
    return check_only(v);
}

// An emulated NPU computes in its own time, which its runtime tells when it is asked to.
static void ask_modelled_time(void) {
    if (getenv("GGML_HSA_EMULATE") && !getenv("GGML_HSA_EMU_TIME")) {
        setenv("GGML_HSA_EMU_TIME", "modelled", 1);
    }
}

static void step_device(struct validate * v, const struct error * err) {
    struct step * s = validate_step(v, "device");
    snprintf(s->detail, sizeof s->detail, "%.40s%s%.40s", v->agent, *v->product ? ", " : "",
             v->product);
    if (err->status != ST_OK) {
        validate_bad(s, "%s", err->text);
    }
    if (*v->runtime) {
        validate_say(s, "runtime %s, %s%s", v->runtime, v->known_as,
                     v->emulated && !v->gpu ? "; it is emulated, and its times are modelled" : "");
    }
    if (*v->driver) {
        validate_say(s, "driver %s", v->driver);
    }
    if (!v->gpu && v->columns) {
        validate_say(s, "%d columns of %d cores", v->columns, v->lab.target->core_rows);
    }
    validate_done(v, s);
}

static int run_part(struct validate * v, const char * word) {
    struct error err = {0};
    int status = EXIT_USAGE;
    if (lab_open(v, &err) != ST_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_BAD_INPUT;
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!strcmp(parts[i].word, word)) {
            status = parts[i].run(v);
        }
    }
    lab_close(&v->lab);
    return status;
}

static int write_files(struct validate * v) {
    const struct {
        const char * path;
        enum status (*write)(const struct validate * v, const char * path, struct error * err);
    } files[] = {{v->json, report_json}, {v->html, report_html}, {v->clock, model_write_clock}};
    int status = EXIT_OK;
    for (int i = 0; i < 3; i++) {
        struct error err = {0};
        if (files[i].path && files[i].write(v, files[i].path, &err) != ST_OK) {
            fprintf(stderr, "ggml-hsa validate: %s\n", err.text);
            status = EXIT_BAD_INPUT;
        }
    }
    return status;
}

static void free_all(struct validate * v) {
    for (int i = 0; i < v->n_steps; i++) {
        buf_free(&v->steps[i].bad);
        buf_free(&v->steps[i].say);
    }
    buf_free(&v->report);
}

static int run_validate(int argc, char ** argv) {
    static struct validate all;
    struct validate * v = &all;
    const char * part = NULL;
    int status = read_options(argc, argv, v, &part);
    if (status != EXIT_OK) {
        return status;
    }
    ask_modelled_time();
    if (part) {
        return run_part(v, part);
    }
    struct sigaction act = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    v->progress = isatty(STDERR_FILENO) && isatty(STDOUT_FILENO);
    v->quiet = v->json && !strcmp(v->json, "-");
    probe_find("libggml-hsa.so", v->plugin);
    if (!probe_find("ggml-hsa-validate-ops", v->helper)) {
        v->helper[0] = '\0';
    }
    struct error err = {0};
    if (!v->quiet) {
        printf("ggml-hsa validate, %s\n\n", v->whole ? "whole" : "quick");
    }
    enum status st = lab_open(v, &err);
    step_device(v, &err);
    for (int i = 0; i < STEPS && st == ST_OK && !interrupted; i++) {
        if (validate_wants(v, steps[i].name) && !(steps[i].npu && v->gpu)) {
            steps[i].run(v);
        }
    }
    lab_close(&v->lab);
    model_compare(v);
    if (!v->quiet) {
        report_terminal(v);
    }
    status = write_files(v);
    int failures = validate_failures(v);
    free_all(v);
    return interrupted ? 130 : failures ? EXIT_BAD_INPUT : status;
}

const struct subcommand validate_subcommand = {
    .name = "validate",
    .summary = "prove a device, measure it, and compare it with the model",
    .help =
        "usage: ggml-hsa validate [quick | whole] [--device N] [--only STEP,...] [--rest SECONDS]\n"
        "                         [--json FILE] [--html FILE] [--clock FILE]\n\n"
        "Is what this NPU or GPU computes right, and what does it take? In this order, each with\n"
        "its result: the driver and runtime that are found; an ADD, twice; every tile and lock;\n"
        "each instruction that our kernels use and that was not measured on silicon; every family\n"
        "of ops against the CPU; products, attention and a layer of a decoder; what dispatches,\n"
        "PDI loads, the controller, host memory and cores take, beside what the model has of it;\n"
        "kernels' speed; the state after a rest; two processes at once; a fault, and that the\n"
        "device is there afterwards. A GPU has the shorter list. quick, the default, takes a\n"
        "minute, whole goes through more operands and shapes.\n\n"
        "  --device N      which one, as ggml-hsa info counts them; 0\n"
        "  --only STEPS    of add, tiles, instructions, ops, decoder, prices, speed, rest,\n"
        "                  processes and fault, with commas\n"
        "  --rest SECONDS  that the device rests; 6\n"
        "  --json FILE     the same for programs; - is standard output, and nothing else is said\n"
        "  --html FILE     a page with pictures, for any browser; nothing in it is personal\n"
        "  --clock FILE    a clock of this very device: GGML_HSA_EMU_CLOCK=FILE has bench,\n"
        "                  bench-llm and model speak of it\n\n"
        "Times come from HSA's clock. An emulated NPU is asked for modelled time there\n"
        "(GGML_HSA_EMU_TIME=modelled).\n\n"
        "example: GGML_HSA_EMULATE=aie2 ggml-hsa validate --html page.html\n\n"
        "Ends with 0 when all is well, 1 when something is wrong, 130 after an interrupt.\n",
    .run = run_validate,
};

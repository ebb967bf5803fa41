// model: `ggml-hsa model FILE`. What it does needs ggml, and this tool must run where there is
// none: a program beside it does the work, and this one finds it, reads the command line, and says
// what became of it.
#include "kernel/kernel.h"
#include "probe.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CONTEXT = 1 << 20 };

enum { JSON, RANGE, COUNT, LAYERS, WHOLE, FLAGS };
static const char * const flags[FLAGS] = {"--json", "--range", "--count", "--layers", "--whole"};

struct options {
    const char *file, *arch, *context, *llama;
    bool has[FLAGS];
};

static int flag_of(const char * word) {
    int i = 0;
    while (i < FLAGS && strcmp(flags[i], word) != 0) {
        i++;
    }
    return i;
}

static int read_options(int argc, char ** argv, struct options * o) {
    enum aie_arch arch;
    *o = (struct options){.arch = "aie2", .context = "512"};
    for (int i = 1; i < argc; i++) {
        bool takes = !strcmp(argv[i], "--arch") || !strcmp(argv[i], "--context") ||
                     !strcmp(argv[i], "--llama");
        if (takes && i + 1 == argc) {
            return tool_usage(&model_subcommand, "%s wants a value", argv[i]);
        }
        if (!strcmp(argv[i], "--arch")) {
            o->arch = argv[++i];
        } else if (!strcmp(argv[i], "--context")) {
            o->context = argv[++i];
        } else if (!strcmp(argv[i], "--llama")) {
            o->llama = argv[++i];
        } else if (flag_of(argv[i]) < FLAGS) {
            o->has[flag_of(argv[i])] = true;
        } else if (o->file) {
            return tool_usage(&model_subcommand, "one file at a time, not '%s' too", argv[i]);
        } else {
            o->file = argv[i];
        }
    }
    if (!o->file) {
        return tool_usage(&model_subcommand, "the name of a GGUF file is missing");
    }
    if (o->has[COUNT] + o->has[LAYERS] + o->has[WHOLE] > 1) {
        return tool_usage(&model_subcommand, "one of --count, --layers and --whole, not two");
    }
    if (!kernel_arch_parse(o->arch, &arch)) {
        return tool_usage(&model_subcommand, "no architecture '%s'; aie2 and aie2p are known",
                          o->arch);
    }
    char * end;
    errno = 0;
    long n = strtol(o->context, &end, 10);
    if (errno || *end || n < 1 || n > MOST_CONTEXT) {
        return tool_usage(&model_subcommand, "a context of '%s'; it may be 1 to %d", o->context,
                          MOST_CONTEXT);
    }
    return EXIT_OK;
}

static bool has_terminal(void) {
    const char * term = getenv("TERM");
    return isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
}

// Which part is computed, of how many, as the program beside this one last told.
static void tell_part(int told, char text[32]) {
    uint8_t part[2];
    while (told >= 0 && read(told, part, sizeof part) == sizeof part) {
        snprintf(text, 32, ", part %d of %d", part[0], part[1]);
    }
}

// On a terminal a line says that it computes, and for how long: a large model takes a minute.
static bool wait_for(pid_t pid, int told, int * status) {
    enum { TICK_MS = 250 };
    if (!has_terminal()) {
        return waitpid(pid, status, 0) == pid;
    }
    pid_t ended = 0;
    char part[32] = "";
    for (int tick = 0; !ended; tick++) {
        ended = waitpid(pid, status, WNOHANG);
        if (!ended) {
            // What is printed next begins at the line's beginning, and is longer.
            tell_part(told, part);
            fprintf(stderr, "ggml-hsa model: computing%s, %d s\r", part, tick * TICK_MS / 1000);
            nanosleep(&(struct timespec){.tv_nsec = TICK_MS * 1000 * 1000}, NULL);
        }
    }
    fprintf(stderr, "\033[K");
    return ended == pid;
}

static int run_helper(const char * helper, const char * plugin, const struct options * o,
                      bool quiet) {
    setenv("GGML_HSA_EMULATE", o->arch, 1);
    unsetenv("GGML_HSA_RUNTIME");
    const char * words[9 + FLAGS] = {helper, plugin, o->file, o->context};
    int n = 4;
    for (int i = 0; i < FLAGS; i++) {
        if (o->has[i]) {
            words[n++] = flags[i];
        }
    }
    if (o->llama) {
        words[n++] = "--llama";
        words[n++] = o->llama;
    }
    char number[16];
    int ends[2] = {-1, -1};
    if (has_terminal() && pipe(ends) == 0) {
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        snprintf(number, sizeof number, "%d", ends[1]);
        words[n++] = "--progress";
        words[n] = number;
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (quiet && !freopen("/dev/null", "w", stdout)) {
            _exit(127);
        }
        execv(helper, (char **) (uintptr_t) words);
        _exit(127);
    }
    int status = 0;
    bool ended = pid > 0 && wait_for(pid, ends[0], &status);
    int why = errno;
    for (int i = 0; i < 2 && ends[i] >= 0; i++) {
        close(ends[i]);
    }
    if (!ended) {
        fprintf(stderr, "ggml-hsa model: %s: %s\n", helper, strerror(why));
        return EXIT_BAD_INPUT;
    }
    if (WIFSIGNALED(status)) {
        struct error err;
        error_set(&err, ST_CORRUPT, "%.300s: reading it ended with signal %d; is the file whole?",
                  o->file, WTERMSIG(status));
        fprintf(stderr, "ggml-hsa model: %s\n", err.text);
        return EXIT_BAD_INPUT;
    }
    return WEXITSTATUS(status);
}

static int run_model(int argc, char ** argv) {
    struct options o;
    char plugin[512], helper[512];
    int status = read_options(argc, argv, &o);
    if (status != EXIT_OK) {
        return status;
    }
    if (!probe_find("libggml-hsa.so", plugin) || !probe_find("ggml-hsa-model", helper)) {
        fprintf(stderr, "ggml-hsa model: libggml-hsa.so and ggml-hsa-model are not beside this "
                        "tool; install the plugin, or build with -DGGML_HSA=ON\n");
        return EXIT_BAD_INPUT;
    }
    // A profile has each kernel sent by itself, which takes longer: it is a run of its own, and its
    // figures are not the ones to be expected.
    const char * profile = getenv("GGML_HSA_PROFILE");
    char * asked = profile && *profile && !o.has[COUNT] ? strdup(profile) : NULL;
    unsetenv("GGML_HSA_PROFILE");
    status = run_helper(helper, plugin, &o, false);
    if (asked && status == EXIT_OK) {
        setenv("GGML_HSA_PROFILE", asked, 1);
        status = run_helper(helper, plugin, &o, true);
    }
    free(asked);
    return status;
}

const struct subcommand model_subcommand = {
    .name = "model",
    .summary = "what a language model would do on an NPU, without its weights",
    .help =
        "usage: ggml-hsa model FILE [--context N] [--arch ARCH] [--range]\n"
        "                      [--count | --layers | --whole] [--llama DIR] [--json]\n\n"
        "Reads what the file says of the model, and tells what of a token's graph runs where, in\n"
        "how many splits, what memory it takes, how many kernels, and how many tokens a second to\n"
        "expect. The token is computed on the emulated NPU with made-up weights, all layers and\n"
        "the head in one graph: all times are modelled. Where its weights are more than 3 GB, one\n"
        "layer of each kind and the head are, each by itself, and the rest is multiplied. The\n"
        "file's weights are not read.\n\n"
        "Where llama.cpp's library is, the graph is llama.cpp's own, and every architecture that\n"
        "it knows is known. Else the graph is made from the file's sizes: llama, qwen2, qwen3,\n"
        "qwen3moe, gpt-oss, phi3, granite, gemma, gemma2, gemma3.\n\n"
        "A file of what sees (mmproj-*.gguf, with the projectors mlp, gemma3, idefics3, internvl,\n"
        "lfm2, janus_pro, phi4) is told by the picture, one of whisper.cpp's by 30 seconds of "
        "sound\n"
        "and by a token of its text; their graphs are made of the file's tensors.\n\n"
        "  --context N   tokens that attention looks back at; 512\n"
        "  --arch ARCH   aie2 or aie2p\n"
        "  --range       under three clocks: what is known of the device's memory differs by so\n"
        "                much. It takes three times as long; what is told first is likely\n"
        "  --count       compute nothing: sizes, splits and bounds alone\n"
        "  --layers      one layer of each kind and the head, whatever the size: quicker\n"
        "  --whole       all layers in one graph, whatever the size: a quarter of an hour for 8B\n"
        "  --llama DIR   where libllama.so is, of the llama.cpp that this was built beside; where\n"
        "                the dynamic linker looks, if not told. `none`: do without it\n"
        "  --json        the same for programs\n\n"
        "example: ggml-hsa model stories260K.gguf --context 256\n\n"
        "Ends with 0, or 1 when the file cannot be read or computed.\n",
    .run = run_model,
};

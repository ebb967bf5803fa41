// mnist-eval: how well a network reads the 10,000 test digits of MNIST on a device of ggml, and
// whether ggml's CPU backend agrees. Ends with 0 when the accuracies are within 0.1 % of each
// other.
#include "report.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char usage[] =
    "usage: mnist-eval [options]\n"
    "\n"
    "Reads handwritten digits (MNIST's test set) with a small neural network on a device of ggml, "
    "and\n"
    "once more on the CPU. Tells how many were read rightly on each, how long it took, what an "
    "emulated\n"
    "NPU's cycle model says, which digit was taken for which, and draws some of those that were "
    "wrong.\n"
    "\n"
    "  --device NAME     device to run on; --list shows them           [HSA0]\n"
    "  --reference NAME  device to compare with, or none               [CPU]\n"
    "  --limit N         only the first N digits                       [all]\n"
    "  --batch N         digits per graph                              [1000]\n"
    "  --show N          draw up to N wrong digits                     [6]\n"
    "  --style S         auto, plain (ASCII), blocks or color          [auto]\n"
    "  --html FILE       also write a report with all wrong digits, as one HTML file\n"
    "  --model FILE      the network, made by mnist-train\n"
    "                    [" MNIST_MODEL "]\n"
    "  --data DIR        directory with t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte\n"
    "                    [" MNIST_DIR "]\n"
    "  --threads N       of the CPU backend                            [one per core]\n"
    "  --plugin FILE     libggml-hsa.so                                [beside this program]\n"
    "  --list            list the devices and end\n"
    "  -v, --verbose     show what ggml and the plugin have to say\n"
    "  -h, --help        this text\n"
    "\n"
    "Examples\n"
    "  GGML_HSA_EMULATE=aie2 mnist-eval --html mnist.html   on an emulated NPU\n"
    "  mnist-eval                                           on the NPU of this machine\n"
    "  mnist-eval --device CPU --reference none             how fast is the CPU alone?\n"
    "  mnist-eval --style color | less -R\n"
    "\n"
    "Exit status: 0 the accuracies agree to 0.1 %, 1 they do not or something failed, 2 wrong "
    "usage.\n";

struct options {
    const char *device, *reference, *html, *model, *data, *plugin, *style;
    long limit, batch, show, threads;
    bool list, verbose;
};

static void show_progress(void * user, int64_t done, int64_t all) {
    fprintf(stderr, "\r%s: %lld of %lld digits \033[K", (const char *) user, (long long) done,
            (long long) all);
}

// ---- one device ----

static enum status evaluate(struct report * r, struct outcome * o, const char * name,
                            const struct options * opt, bool profile, struct error * err) {
    const struct digits * d = r->digits;
    struct device device;
    struct net net = {0};
    struct evaluator e = {0};
    enum status st = device_open(&device, name, (int) opt->threads, err);
    if (st != ST_OK) {
        return st;
    }
    snprintf(o->name, sizeof o->name, "%s", ggml_backend_dev_name(device.dev));
    snprintf(o->description, sizeof o->description, "%s", ggml_backend_dev_description(device.dev));
    o->predicted = malloc((size_t) d->n * sizeof *o->predicted);
    o->probabilities = malloc((size_t) d->n * MNIST_CLASSES * sizeof *o->probabilities);
    if (!o->predicted || !o->probabilities) {
        st = error_set(err, ST_NO_MEMORY, "no memory for %lld answers", (long long) d->n);
    }
    if (st == ST_OK) {
        st = net_load(&net, opt->model, device.weights, err);
    }
    if (st == ST_OK) {
        ggml_backend_buffer_set_usage(net.buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        const char * file = strrchr(opt->model, '/');
        snprintf(r->network, sizeof r->network, "%d-%lld-%d, %s, %.50s", MNIST_PIXELS,
                 (long long) net.hidden, MNIST_CLASSES,
                 ggml_type_name(net.tensors[FC1_WEIGHT]->type), file ? file + 1 : opt->model);
        r->macs = (uint64_t) (net.hidden * (MNIST_PIXELS + MNIST_CLASSES));
        st = evaluator_new(&e, &net, &device, r->batch, err);
    }
    if (st == ST_OK) {
        bool terminal = isatty(STDERR_FILENO);
        evaluator_nodes(&e, &o->nodes, &o->nodes_on_device);
        struct ggml_backend_hsa_account before;
        device_account(&device, &before);
        double start = seconds_now();
        st = evaluator_run(&e, d, o->predicted, o->probabilities, terminal ? show_progress : NULL,
                           o->name, err);
        o->seconds = seconds_now() - start;
        o->has_counters = device_account(&device, &o->account);
        o->account.cycles -= before.cycles;
        o->account.ns -= before.ns;
        for (int i = 0; i < GGML_BACKEND_HSA_CAUSES; i++) {
            o->account.causes[i].cycles -= before.causes[i].cycles;
        }
        if (terminal) {
            fprintf(stderr, "\r\033[K");
        }
    }
    struct ggml_backend_hsa_stats stats;
    if (st == ST_OK && device_stats(&device, &stats)) {
        o->has_stats = true;
        o->kernels_compiled = stats.kernels_compiled;
        o->compile_seconds = (double) stats.compile_ns * 1e-9;
        o->dispatches = stats.dispatches;
    }
    if (st == ST_OK && profile) {
        r->n_nodes = evaluator_profile(&e, d, r->nodes, REPORT_NODES);
    }
    evaluator_free(&e);
    net_free(&net);
    device_close(&device);
    return st;
}

// ---- the program ----

static void list_devices(void) {
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        size_t free_bytes, total;
        ggml_backend_dev_memory(dev, &free_bytes, &total);
        printf("%-6s %s, %zu MiB\n", ggml_backend_dev_name(dev), ggml_backend_dev_description(dev),
               total >> 20);
    }
}

static int terminal_width(void) {
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static enum status run(const struct options * o, enum style style, bool * agrees,
                       struct error * err) {
    struct digits digits = {0};
    struct report r = {.digits = &digits};
    bool only_cpu = !o->list && strcmp(o->device, "CPU") == 0 &&
                    (strcmp(o->reference, "CPU") == 0 || strcmp(o->reference, "none") == 0);
    const char * plugin = only_cpu && !o->plugin ? "" : o->plugin;
    enum status st = devices_load(plugin, o->verbose, err);
    if (st == ST_OK && o->list) {
        list_devices();
        *agrees = true;
        return ST_OK;
    }
    if (st == ST_OK) {
        st = digits_read(o->data, "t10k", &digits, err);
    }
    digits.n = o->limit && o->limit < digits.n ? o->limit : digits.n;
    r.batch = o->batch < digits.n ? o->batch : digits.n;
    if (st == ST_OK) {
        st = evaluate(&r, &r.device, o->device, o, true, err);
    }
    if (st == ST_OK && strcmp(o->reference, "none") != 0 && strcmp(o->reference, o->device) != 0) {
        st = evaluate(&r, &r.reference, o->reference, o, false, err);
    }
    if (st == ST_OK && !report_conclude(&r)) {
        st = error_set(err, ST_NO_MEMORY, "no memory for the report");
    }
    if (st == ST_OK) {
        report_print(stdout, &r, style, terminal_width(), (int) o->show);
        *agrees = report_agrees(&r);
        if (o->html) {
            st = report_html(&r, o->html, err);
        }
        if (o->html && st == ST_OK) {
            printf("report: %s\n", o->html);
        }
    }
    report_free(&r);
    digits_free(&digits);
    return st;
}

static long number(const char * option, const char * text, long min, long max) {
    char * end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (errno || end == text || *end || v < min || v > max) {
        fprintf(stderr, "mnist-eval: --%s %s: must be a whole number from %ld to %ld\n", option,
                text, min, max);
        exit(2);
    }
    return v;
}

static enum style style_by_name(const char * name) {
    static const char * const names[] = {
        [STYLE_PLAIN] = "plain", [STYLE_BLOCKS] = "blocks", [STYLE_COLOR] = "color"};
    if (strcmp(name, "auto") == 0) {
        return style_detect();
    }
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) == 0) {
            return (enum style) i;
        }
    }
    fprintf(stderr, "mnist-eval: --style %s: must be auto, plain, blocks or color\n", name);
    exit(2);
}

int main(int argc, char ** argv) {
    enum {
        DEVICE = 1,
        REFERENCE,
        LIMIT,
        BATCH,
        SHOW,
        STYLE,
        HTML,
        MODEL,
        DATA,
        THREADS,
        PLUGIN,
        LIST
    };
    static const struct option table[] = {
        {"device", required_argument, 0, DEVICE},
        {"reference", required_argument, 0, REFERENCE},
        {"limit", required_argument, 0, LIMIT},
        {"batch", required_argument, 0, BATCH},
        {"show", required_argument, 0, SHOW},
        {"style", required_argument, 0, STYLE},
        {"html", required_argument, 0, HTML},
        {"model", required_argument, 0, MODEL},
        {"data", required_argument, 0, DATA},
        {"threads", required_argument, 0, THREADS},
        {"plugin", required_argument, 0, PLUGIN},
        {"list", no_argument, 0, LIST},
        {"verbose", no_argument, 0, 'v'},
        {"help", no_argument, 0, 'h'},
        {0},
    };
    struct options o = {.device = "HSA0",
                        .reference = "CPU",
                        .model = MNIST_MODEL,
                        .data = MNIST_DIR,
                        .style = "auto",
                        .batch = 1000,
                        .show = 6};
    for (int c; (c = getopt_long(argc, argv, "hv", table, NULL)) != -1;) {
        switch (c) {
        case DEVICE:
            o.device = optarg;
            break;
        case REFERENCE:
            o.reference = optarg;
            break;
        case LIMIT:
            o.limit = number("limit", optarg, 1, 1000000);
            break;
        case BATCH:
            o.batch = number("batch", optarg, 1, MNIST_MAX_BATCH);
            break;
        case SHOW:
            o.show = number("show", optarg, 0, 10000);
            break;
        case STYLE:
            o.style = optarg;
            break;
        case HTML:
            o.html = optarg;
            break;
        case MODEL:
            o.model = optarg;
            break;
        case DATA:
            o.data = optarg;
            break;
        case THREADS:
            o.threads = number("threads", optarg, 1, 64);
            break;
        case PLUGIN:
            o.plugin = optarg;
            break;
        case LIST:
            o.list = true;
            break;
        case 'v':
            o.verbose = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            fprintf(stderr, "mnist-eval --help tells the options\n");
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "mnist-eval: '%s' is not an option; mnist-eval --help tells them\n",
                argv[optind]);
        return 2;
    }
    enum style style = style_by_name(o.style);
    bool agrees = false;
    struct error err = {0};
    if (run(&o, style, &agrees, &err) != ST_OK) {
        fprintf(stderr, "mnist-eval: %s\n", err.text);
        return 1;
    }
    return agrees ? 0 : 1;
}

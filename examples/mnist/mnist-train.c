// mnist-train: trains the network of mnist-eval on the 60,000 training digits and writes it as
// GGUF. Forward pass, gradients and the AdamW step are one ggml graph, whose nodes run on the
// device where it can compute them and on the CPU where it cannot. Equal arguments on an equal
// machine give equal weights: all that is random comes from --seed.
#include "mnist.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GRAPH_NODES = 256 };

static const char usage[] =
    "usage: mnist-train [options]\n"
    "\n"
    "Trains a network with one hidden layer to read handwritten digits, and writes it to a GGUF "
    "file\n"
    "for mnist-eval, in the form of ggml's own example of that name.\n"
    "\n"
    "  --out FILE      where the network goes                             [mnist-fc.gguf]\n"
    "  --device NAME   device to train on: CPU, HSA0 ...                  [CPU]\n"
    "  --epochs N      how often every digit is seen                      [20]\n"
    "  --batch N       digits per step                                    [200]\n"
    "  --limit N       train with the first N digits only                 [all]\n"
    "  --validate N    digits at the end of the set that are not trained\n"
    "                  with, but checked after each epoch; 0: none        [5000]\n"
    "  --hidden N      size of the hidden layer                           [500]\n"
    "  --rate X        step size of AdamW; it falls to 0 along a cosine   [0.002]\n"
    "  --decay X       weight decay                                       [0.05]\n"
    "  --shift N       move each digit by up to N pixels, another way in\n"
    "                  each epoch; 0: not at all                          [1]\n"
    "  --seed N        of all that is random                              [1]\n"
    "  --type T        weights in the file: f32 or f16                    [f32]\n"
    "  --data DIR      directory with the four IDX files of MNIST\n"
    "                  [" MNIST_DIR "]\n"
    "  --threads N     of the CPU backend                                 [one per core]\n"
    "  --plugin FILE   libggml-hsa.so                                     [beside this program]\n"
    "  -v, --verbose   show what ggml and the plugin have to say\n"
    "  -h, --help      this text\n"
    "\n"
    "What the network of `make demo` was trained with: no options but --out.\n"
    "On an emulated NPU every digit costs milliseconds; a short trial is\n"
    "\n"
    "  GGML_HSA_EMULATE=aie2 mnist-train --device HSA0 --limit 2000 --validate 500 --epochs 3\n";

struct options {
    const char *out, *device, *data, *plugin;
    long epochs, batch, limit, validate, hidden, shift, seed, threads;
    double rate, decay;
    enum ggml_type type;
    bool verbose;
};

// ---- random numbers (splitmix64) ----

static uint64_t random_bits(uint64_t * state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static int64_t random_below(uint64_t * state, int64_t n) {
    return (int64_t) (random_bits(state) % (uint64_t) n);
}

static double random_unit(uint64_t * state) { // [-1, 1)
    return (double) (random_bits(state) >> 11) * 0x1p-52 - 1.0;
}

// ---- the training graph ----

struct trainer {
    struct device * device;
    struct net net;
    int64_t batch;
    struct ggml_context * state_ctx;
    ggml_backend_buffer_t state;
    struct ggml_tensor *m[NET_TENSORS], *v[NET_TENSORS]; // what AdamW remembers of each tensor
    struct ggml_tensor *loss_grad, *adamw;
    struct ggml_context * ctx;
    struct ggml_cgraph * graph;
    ggml_backend_sched_t sched;
    struct ggml_tensor *images, *labels, *loss;
    float *image_staging, *label_staging;
    int64_t step;
};

static void trainer_free(struct trainer * t) {
    ggml_backend_sched_free(t->sched);
    ggml_free(t->ctx);
    ggml_backend_buffer_free(t->state);
    ggml_free(t->state_ctx);
    net_free(&t->net);
    free(t->image_staging);
    free(t->label_staging);
}

// Weights are uniform in the range that keeps the size of signals and of gradients (Glorot); biases
// 0.
static void init_net(struct net * net, uint64_t * rng) {
    ggml_backend_buffer_clear(net->buffer, 0);
    static const int weights[] = {FC1_WEIGHT, FC2_WEIGHT};
    for (int i = 0; i < 2; i++) {
        struct ggml_tensor * w = net->tensors[weights[i]];
        double range = sqrt(6.0 / (double) (w->ne[0] + w->ne[1]));
        float * row = malloc((size_t) w->ne[0] * sizeof *row);
        for (int64_t r = 0; row && r < w->ne[1]; r++) {
            for (int64_t c = 0; c < w->ne[0]; c++) {
                row[c] = (float) (range * random_unit(rng));
            }
            ggml_backend_tensor_set(w, row, (size_t) r * w->nb[1], (size_t) w->ne[0] * sizeof *row);
        }
        free(row);
    }
}

// Tensors that outlive a step. They lie in memory that both the device and the CPU reach.
static bool make_state(struct trainer * t) {
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * (2 * NET_TENSORS + 2),
                                      .no_alloc = true};
    t->state_ctx = ggml_init(params);
    if (!t->state_ctx) {
        return false;
    }
    for (int i = 0; i < NET_TENSORS; i++) {
        t->m[i] = ggml_dup_tensor(t->state_ctx, t->net.tensors[i]);
        t->v[i] = ggml_dup_tensor(t->state_ctx, t->net.tensors[i]);
    }
    t->loss_grad = ggml_new_tensor_1d(t->state_ctx, GGML_TYPE_F32, 1);
    t->adamw = ggml_new_tensor_1d(t->state_ctx, GGML_TYPE_F32, 7);
    t->state = ggml_backend_alloc_ctx_tensors_from_buft(t->state_ctx, t->device->shared);
    if (!t->state) {
        return false;
    }
    ggml_backend_buffer_clear(t->state, 0);
    const float one = 1.0f;
    ggml_backend_tensor_set(t->loss_grad, &one, 0, sizeof one);
    return true;
}

// The loss is the one node whose gradient is given (1) and not computed.
static bool make_graph(struct trainer * t) {
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * GRAPH_NODES +
                                                  ggml_graph_overhead_custom(GRAPH_NODES, true),
                                      .no_alloc = true};
    t->ctx = ggml_init(params);
    if (!t->ctx) {
        return false;
    }
    for (int i = 0; i < NET_TENSORS; i++) {
        ggml_set_param(t->net.tensors[i]);
    }
    t->images = ggml_new_tensor_2d(t->ctx, GGML_TYPE_F32, MNIST_PIXELS, t->batch);
    t->labels = ggml_new_tensor_2d(t->ctx, GGML_TYPE_F32, MNIST_CLASSES, t->batch);
    ggml_set_input(t->images);
    ggml_set_input(t->labels);
    struct ggml_tensor * outputs = net_forward(t->ctx, &t->net, t->images);
    t->loss = ggml_cross_entropy_loss(t->ctx, outputs, t->labels);
    ggml_set_loss(t->loss);
    ggml_set_output(t->loss);
    t->graph = ggml_new_graph_custom(t->ctx, GRAPH_NODES, true);
    ggml_build_forward_expand(t->graph, t->loss);

    struct ggml_tensor * given[GRAPH_NODES] = {0};
    for (int i = 0; i < ggml_graph_n_nodes(t->graph); i++) {
        given[i] = ggml_graph_node(t->graph, i) == t->loss ? t->loss_grad : NULL;
    }
    ggml_build_backward_expand(t->ctx, t->graph, given);
    for (int i = 0; i < NET_TENSORS; i++) {
        struct ggml_tensor * grad = ggml_graph_get_grad(t->graph, t->net.tensors[i]);
        struct ggml_tensor * step =
            ggml_opt_step_adamw(t->ctx, t->net.tensors[i], grad, t->m[i], t->v[i], t->adamw);
        ggml_build_forward_expand(t->graph, step);
    }
    t->sched = device_schedule(t->device, t->graph, true);
    return t->sched != NULL;
}

static enum status trainer_new(struct trainer * t, struct device * device, const struct options * o,
                               int64_t batch, uint64_t * rng, struct error * err) {
    *t = (struct trainer){.device = device, .batch = batch};
    enum status st = net_new(&t->net, o->hidden, GGML_TYPE_F32, device->shared, err);
    if (st != ST_OK) {
        return st;
    }
    init_net(&t->net, rng);
    t->image_staging = malloc((size_t) batch * MNIST_PIXELS * sizeof(float));
    t->label_staging = malloc((size_t) batch * MNIST_CLASSES * sizeof(float));
    if (!t->image_staging || !t->label_staging || !make_state(t) || !make_graph(t)) {
        trainer_free(t);
        return error_set(err, ST_NO_MEMORY, "no memory on %s to train with batches of %lld digits",
                         ggml_backend_dev_name(device->dev), (long long) batch);
    }
    return ST_OK;
}

// ---- training ----

static void put_shifted(float * out, const uint8_t * image, int dx, int dy) {
    for (int y = 0; y < MNIST_SIDE; y++) {
        for (int x = 0; x < MNIST_SIDE; x++) {
            int sx = x - dx, sy = y - dy;
            bool inside = sx >= 0 && sx < MNIST_SIDE && sy >= 0 && sy < MNIST_SIDE;
            *out++ = inside ? (float) image[sy * MNIST_SIDE + sx] / 255.0f : 0.0f;
        }
    }
}

static void set_batch(struct trainer * t, const struct digits * d, const int32_t * order, int shift,
                      uint64_t * rng) {
    memset(t->label_staging, 0, (size_t) t->batch * MNIST_CLASSES * sizeof(float));
    for (int64_t i = 0; i < t->batch; i++) {
        int dx = (int) random_below(rng, 2 * shift + 1) - shift;
        int dy = (int) random_below(rng, 2 * shift + 1) - shift;
        put_shifted(t->image_staging + i * MNIST_PIXELS,
                    d->pixels + (int64_t) order[i] * MNIST_PIXELS, dx, dy);
        t->label_staging[i * MNIST_CLASSES + d->labels[order[i]]] = 1.0f;
    }
    ggml_backend_tensor_set(t->images, t->image_staging, 0, ggml_nbytes(t->images));
    ggml_backend_tensor_set(t->labels, t->label_staging, 0, ggml_nbytes(t->labels));
}

// One step; the loss of the batch before it goes to *loss.
static enum status train_step(struct trainer * t, double rate, double decay, float * loss,
                              struct error * err) {
    const double beta1 = 0.9, beta2 = 0.999;
    t->step++;
    const float adamw[7] = {
        (float) rate,
        (float) beta1,
        (float) beta2,
        1e-8f,
        (float) decay,
        (float) (1.0 / (1.0 - pow(beta1, (double) t->step))),
        (float) (1.0 / (1.0 - pow(beta2, (double) t->step))),
    };
    ggml_backend_tensor_set(t->adamw, adamw, 0, sizeof adamw);
    enum ggml_status computed = ggml_backend_sched_graph_compute(t->sched, t->graph);
    if (computed != GGML_STATUS_SUCCESS) {
        return error_set(err, ST_DEVICE, "%s: the graph did not compute: %s",
                         ggml_backend_dev_name(t->device->dev), ggml_status_to_string(computed));
    }
    ggml_backend_tensor_get(t->loss, loss, 0, sizeof *loss);
    if (!isfinite(*loss)) {
        return error_set(err, ST_DEVICE,
                         "the loss is %g after %lld steps; a smaller --rate may help",
                         (double) *loss, (long long) t->step);
    }
    return ST_OK;
}

static enum status accuracy(struct trainer * t, const struct digits * d, double * percent,
                            struct error * err) {
    struct evaluator e;
    int32_t * predicted = malloc((size_t) d->n * sizeof *predicted);
    if (!predicted) {
        return error_set(err, ST_NO_MEMORY, "no memory for %lld answers", (long long) d->n);
    }
    enum status st = evaluator_new(&e, &t->net, t->device, d->n < 1000 ? d->n : 1000, err);
    if (st == ST_OK) {
        st = evaluator_run(&e, d, predicted, NULL, NULL, NULL, err);
        evaluator_free(&e);
    }
    int64_t right = 0;
    for (int64_t i = 0; i < d->n && st == ST_OK; i++) {
        right += predicted[i] == d->labels[i];
    }
    *percent = 100.0 * (double) right / (double) d->n;
    free(predicted);
    return st;
}

static enum status train(struct trainer * t, const struct options * o, const struct digits * d,
                         const struct digits * held_out, uint64_t * rng, struct error * err) {
    int32_t * order = malloc((size_t) d->n * sizeof *order);
    if (!order) {
        return error_set(err, ST_NO_MEMORY, "no memory for %lld digits", (long long) d->n);
    }
    for (int64_t i = 0; i < d->n; i++) {
        order[i] = (int32_t) i;
    }
    const bool terminal = isatty(STDERR_FILENO);
    const int64_t per_epoch = d->n / t->batch, all = per_epoch * o->epochs;
    enum status st = ST_OK;
    for (long epoch = 1; epoch <= o->epochs && st == ST_OK; epoch++) {
        double start = seconds_now(), sum = 0.0;
        for (int64_t i = d->n - 1; i > 0; i--) {
            int64_t j = random_below(rng, i + 1);
            int32_t swapped = order[i];
            order[i] = order[j];
            order[j] = swapped;
        }
        for (int64_t b = 0; b < per_epoch && st == ST_OK; b++) {
            double done = (double) t->step / (double) all, pi = acos(-1.0);
            double rate = o->rate * 0.5 * (1.0 + cos(pi * done));
            float loss = 0.0f;
            set_batch(t, d, order + b * t->batch, (int) o->shift, rng);
            st = train_step(t, rate, o->decay, &loss, err);
            sum += (double) loss;
            if (terminal) {
                fprintf(stderr, "\repoch %ld of %ld: %lld of %lld digits, loss %.4f \033[K", epoch,
                        o->epochs, (long long) ((b + 1) * t->batch),
                        (long long) (per_epoch * t->batch), sum / (double) (b + 1));
            }
        }
        if (terminal) {
            fprintf(stderr, "\r\033[K");
        }
        double seconds = seconds_now() - start, percent = 0.0;
        if (st == ST_OK && held_out->n > 0) {
            st = accuracy(t, held_out, &percent, err);
        }
        if (st == ST_OK) {
            printf("epoch %2ld of %ld  loss %.4f", epoch, o->epochs, sum / (double) per_epoch);
            if (held_out->n > 0) {
                printf("  validation %.2f %%", percent);
            }
            printf("  %.1f s\n", seconds);
            fflush(stdout);
        }
    }
    free(order);
    return st;
}

static void print_placement(struct trainer * t) {
    int all = 0, on = 0;
    char others[256] = "";
    for (int i = 0; i < ggml_graph_n_nodes(t->graph); i++) {
        struct ggml_tensor * node = ggml_graph_node(t->graph, i);
        if (node->op == GGML_OP_NONE || node->op == GGML_OP_TRANSPOSE ||
            node->op == GGML_OP_RESHAPE) {
            continue;
        }
        all++;
        if (ggml_backend_sched_get_tensor_backend(t->sched, node) == t->device->backends[0]) {
            on++;
        } else if (!strstr(others, ggml_op_desc(node))) {
            size_t used = strlen(others);
            snprintf(others + used, sizeof others - used, "%s%s", used ? ", " : "",
                     ggml_op_desc(node));
        }
    }
    printf("%d of the graph's %d nodes on %s", on, all, ggml_backend_dev_name(t->device->dev));
    printf("%s%s\n", on < all ? ", on the CPU: " : "", others);
}

// ---- the program ----

// Writes the trained network, in f16 when that was asked for.
static enum status save(const struct trainer * t, const struct options * o, const struct digits * d,
                        struct error * err) {
    char text[160];
    snprintf(text, sizeof text,
             "%d-%lld-%d, trained by mnist-train on %lld digits of MNIST in %ld epochs",
             MNIST_PIXELS, (long long) t->net.hidden, MNIST_CLASSES, (long long) d->n, o->epochs);
    if (o->type == GGML_TYPE_F32) {
        return net_save(&t->net, o->out, text, err);
    }
    struct net small;
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    enum status st =
        net_new(&small, t->net.hidden, o->type, ggml_backend_dev_buffer_type(cpu), err);
    for (int i = 0; i < NET_TENSORS && st == ST_OK; i++) {
        struct ggml_tensor *from = t->net.tensors[i], *to = small.tensors[i];
        size_t n = (size_t) ggml_nelements(from);
        float * values = malloc(n * sizeof *values);
        if (!values) {
            st = error_set(err, ST_NO_MEMORY, "no memory to convert %s", ggml_get_name(from));
            break;
        }
        ggml_backend_tensor_get(from, values, 0, n * sizeof *values);
        if (to->type == GGML_TYPE_F16) {
            ggml_fp32_to_fp16_row(values, to->data, (int64_t) n);
        } else {
            ggml_backend_tensor_set(to, values, 0, n * sizeof *values);
        }
        free(values);
    }
    if (st == ST_OK) {
        st = net_save(&small, o->out, text, err);
    }
    net_free(&small);
    return st;
}

static enum status run(const struct options * o, struct error * err) {
    struct device device = {0};
    struct digits digits = {0};
    const char * plugin = !o->plugin && strcmp(o->device, "CPU") == 0 ? "" : o->plugin;
    enum status st = devices_load(plugin, o->verbose, err);
    if (st == ST_OK) {
        st = device_open(&device, o->device, (int) o->threads, err);
    }
    if (st == ST_OK) {
        st = digits_read(o->data, "train", &digits, err);
    }
    struct digits part = digits, held_out = digits;
    held_out.n = o->validate < digits.n ? o->validate : digits.n - 1;
    part.n = digits.n - held_out.n;
    held_out.pixels = digits.pixels ? digits.pixels + part.n * MNIST_PIXELS : NULL;
    held_out.labels = digits.labels ? digits.labels + part.n : NULL;
    part.n = o->limit && o->limit < part.n ? o->limit : part.n;

    uint64_t rng = (uint64_t) o->seed;
    struct trainer t;
    if (st == ST_OK) {
        st = trainer_new(&t, &device, o, o->batch < part.n ? o->batch : part.n, &rng, err);
    }
    if (st == ST_OK) {
        printf("training %d-%ld-%d on %s (%s), %lld digits, batches of %lld\n", MNIST_PIXELS,
               o->hidden, MNIST_CLASSES, o->device, ggml_backend_dev_description(device.dev),
               (long long) part.n, (long long) t.batch);
        print_placement(&t);
        double start = seconds_now();
        st = train(&t, o, &part, &held_out, &rng, err);
        struct ggml_backend_hsa_counters counters;
        if (st == ST_OK && device_counters(&device, &counters)) {
            printf("modelled NPU: %llu cycles in %llu dispatches\n",
                   (unsigned long long) counters.cycles, (unsigned long long) counters.dispatches);
        }
        if (st == ST_OK) {
            st = save(&t, o, &part, err);
        }
        if (st == ST_OK) {
            printf("%s: written after %.1f s\n", o->out, seconds_now() - start);
        }
        trainer_free(&t);
    }
    digits_free(&digits);
    device_close(&device);
    return st;
}

static long number(const char * option, const char * text, long min, long max) {
    char * end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (errno || end == text || *end || v < min || v > max) {
        fprintf(stderr, "mnist-train: --%s %s: must be a whole number from %ld to %ld\n", option,
                text, min, max);
        exit(2);
    }
    return v;
}

static double fraction(const char * option, const char * text, double max) {
    char * end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= 0.0 && v <= max)) {
        fprintf(stderr, "mnist-train: --%s %s: must be a number from 0 to %g\n", option, text, max);
        exit(2);
    }
    return v;
}

int main(int argc, char ** argv) {
    enum {
        OUT = 1,
        DEVICE,
        EPOCHS,
        BATCH,
        LIMIT,
        VALIDATE,
        HIDDEN,
        RATE,
        DECAY,
        SHIFT,
        SEED,
        TYPE,
        DATA,
        THREADS,
        PLUGIN
    };
    static const struct option table[] = {
        {"out", required_argument, 0, OUT},
        {"device", required_argument, 0, DEVICE},
        {"epochs", required_argument, 0, EPOCHS},
        {"batch", required_argument, 0, BATCH},
        {"limit", required_argument, 0, LIMIT},
        {"validate", required_argument, 0, VALIDATE},
        {"hidden", required_argument, 0, HIDDEN},
        {"rate", required_argument, 0, RATE},
        {"decay", required_argument, 0, DECAY},
        {"shift", required_argument, 0, SHIFT},
        {"seed", required_argument, 0, SEED},
        {"type", required_argument, 0, TYPE},
        {"data", required_argument, 0, DATA},
        {"threads", required_argument, 0, THREADS},
        {"plugin", required_argument, 0, PLUGIN},
        {"verbose", no_argument, 0, 'v'},
        {"help", no_argument, 0, 'h'},
        {0},
    };
    struct options o = {.out = "mnist-fc.gguf",
                        .device = "CPU",
                        .data = MNIST_DIR,
                        .epochs = 20,
                        .batch = 200,
                        .validate = 5000,
                        .hidden = 500,
                        .shift = 1,
                        .seed = 1,
                        .rate = 0.002,
                        .decay = 0.05,
                        .type = GGML_TYPE_F32};
    const long many = 1000000;
    for (int c, i = 0; (c = getopt_long(argc, argv, "hv", table, &i)) != -1;) {
        const char * name = c < 'h' && c > 0 ? table[i].name : "";
        switch (c) {
        case OUT:
            o.out = optarg;
            break;
        case DEVICE:
            o.device = optarg;
            break;
        case EPOCHS:
            o.epochs = number(name, optarg, 1, 10000);
            break;
        case BATCH:
            o.batch = number(name, optarg, 1, MNIST_MAX_BATCH);
            break;
        case LIMIT:
            o.limit = number(name, optarg, 1, many);
            break;
        case VALIDATE:
            o.validate = number(name, optarg, 0, many);
            break;
        case HIDDEN:
            o.hidden = number(name, optarg, 1, MNIST_MAX_HIDDEN);
            break;
        case RATE:
            o.rate = fraction(name, optarg, 1.0);
            break;
        case DECAY:
            o.decay = fraction(name, optarg, 1.0);
            break;
        case SHIFT:
            o.shift = number(name, optarg, 0, 8);
            break;
        case SEED:
            o.seed = number(name, optarg, 0, many);
            break;
        case DATA:
            o.data = optarg;
            break;
        case THREADS:
            o.threads = number(name, optarg, 1, 64);
            break;
        case PLUGIN:
            o.plugin = optarg;
            break;
        case TYPE:
            o.type = strcmp(optarg, "f16") == 0 ? GGML_TYPE_F16 : GGML_TYPE_F32;
            if (o.type == GGML_TYPE_F32 && strcmp(optarg, "f32") != 0) {
                fprintf(stderr, "mnist-train: --type %s: must be f32 or f16\n", optarg);
                return 2;
            }
            break;
        case 'v':
            o.verbose = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            fprintf(stderr, "mnist-train --help tells the options\n");
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "mnist-train: '%s' is not an option; mnist-train --help tells them\n",
                argv[optind]);
        return 2;
    }
    struct error err = {0};
    if (run(&o, &err) != ST_OK) {
        fprintf(stderr, "mnist-train: %s\n", err.text);
        return 1;
    }
    return 0;
}

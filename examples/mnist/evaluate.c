// evaluate: the network as a graph over a batch of digits, and the loop that takes all digits
// through it. A graph is built and placed once; the last batch is filled up with empty images.
#include "mnist.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPH_NODES = 64 };

struct ggml_tensor * net_forward(struct ggml_context * ctx, const struct net * net,
                                 struct ggml_tensor * images) {
    struct ggml_tensor * const * t = net->tensors;
    struct ggml_tensor * x = ggml_add(ctx, ggml_mul_mat(ctx, t[FC1_WEIGHT], images), t[FC1_BIAS]);
    x = ggml_relu(ctx, x);
    return ggml_add(ctx, ggml_mul_mat(ctx, t[FC2_WEIGHT], x), t[FC2_BIAS]);
}

enum status evaluator_new(struct evaluator * out, const struct net * net, struct device * device,
                          int64_t batch, struct error * err) {
    *out = (struct evaluator){.net = net, .device = device, .batch = batch};
    if (batch < 1 || batch > MNIST_MAX_BATCH) {
        return error_set(err, ST_INVALID, "a batch of %lld: it may have 1 to %d digits",
                         (long long) batch, MNIST_MAX_BATCH);
    }
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * GRAPH_NODES +
                                                  ggml_graph_overhead_custom(GRAPH_NODES, false),
                                      .no_alloc = true};
    out->ctx = ggml_init(params);
    out->staging = malloc((size_t) batch * MNIST_PIXELS * sizeof *out->staging);
    if (!out->ctx || !out->staging) {
        evaluator_free(out);
        return error_set(err, ST_NO_MEMORY, "no memory for a batch of %lld digits",
                         (long long) batch);
    }
    out->images = ggml_new_tensor_2d(out->ctx, GGML_TYPE_F32, MNIST_PIXELS, batch);
    ggml_set_name(out->images, "images");
    ggml_set_input(out->images);
    struct ggml_tensor * outputs = net_forward(out->ctx, net, out->images);
    out->probabilities = ggml_soft_max(out->ctx, outputs);
    out->predicted = ggml_argmax(out->ctx, outputs);
    ggml_set_output(out->probabilities);
    ggml_set_output(out->predicted);
    out->graph = ggml_new_graph_custom(out->ctx, GRAPH_NODES, false);
    ggml_build_forward_expand(out->graph, out->probabilities);
    ggml_build_forward_expand(out->graph, out->predicted);

    out->sched = device_schedule(device, out->graph, false);
    if (!out->sched) {
        evaluator_free(out);
        return error_set(err, ST_NO_MEMORY, "no memory on %s for a batch of %lld digits",
                         ggml_backend_dev_name(device->dev), (long long) batch);
    }
    return ST_OK;
}

void evaluator_free(struct evaluator * e) {
    ggml_backend_sched_free(e->sched);
    ggml_free(e->ctx);
    free(e->staging);
    *e = (struct evaluator){0};
}

static bool computes(const struct ggml_tensor * node) {
    switch (node->op) {
    case GGML_OP_NONE:
    case GGML_OP_VIEW:
    case GGML_OP_RESHAPE:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE:
        return false;
    default:
        return true;
    }
}

static bool on_device(const struct evaluator * e, struct ggml_tensor * node) {
    return ggml_backend_sched_get_tensor_backend(e->sched, node) == e->device->backends[0];
}

void evaluator_nodes(const struct evaluator * e, int * all, int * on) {
    *all = *on = 0;
    for (int i = 0; i < ggml_graph_n_nodes(e->graph); i++) {
        struct ggml_tensor * node = ggml_graph_node(e->graph, i);
        *all += computes(node);
        *on += computes(node) && on_device(e, node);
    }
}

static void set_batch(struct evaluator * e, const struct digits * d, int64_t first) {
    int64_t n = d->n - first < e->batch ? d->n - first : e->batch;
    const uint8_t * pixels = d->pixels + first * MNIST_PIXELS;
    for (int64_t i = 0; i < e->batch * MNIST_PIXELS; i++) {
        e->staging[i] = i < n * MNIST_PIXELS ? (float) pixels[i] / 255.0f : 0.0f;
    }
    ggml_backend_tensor_set(e->images, e->staging, 0, ggml_nbytes(e->images));
}

// An output that is not of this world (no digit, not a number) means a broken device or network.
static enum status check_outputs(const struct evaluator * e, const int32_t * predicted,
                                 const float * probabilities, int64_t n, struct error * err) {
    for (int64_t i = 0; i < n; i++) {
        if (predicted[i] < 0 || predicted[i] >= MNIST_CLASSES) {
            return error_set(err, ST_DEVICE, "%s: the answer for a digit is %d",
                             ggml_backend_dev_name(e->device->dev), (int) predicted[i]);
        }
    }
    for (int64_t i = 0; i < n * MNIST_CLASSES; i++) {
        if (!(probabilities[i] >= 0.0f && probabilities[i] <= 1.001f)) {
            return error_set(err, ST_DEVICE,
                             "%s: the probability of an answer is %g; are the weights numbers?",
                             ggml_backend_dev_name(e->device->dev), (double) probabilities[i]);
        }
    }
    return ST_OK;
}

enum status evaluator_run(struct evaluator * e, const struct digits * d, int32_t * predicted,
                          float * probabilities, progress_fn progress, void * user,
                          struct error * err) {
    float * batch = malloc((size_t) e->batch * MNIST_CLASSES * sizeof *batch);
    if (!batch) {
        return error_set(err, ST_NO_MEMORY, "no memory for a batch of %lld digits",
                         (long long) e->batch);
    }
    enum status st = ST_OK;
    for (int64_t first = 0; first < d->n && st == ST_OK; first += e->batch) {
        int64_t n = d->n - first < e->batch ? d->n - first : e->batch;
        set_batch(e, d, first);
        enum ggml_status computed = ggml_backend_sched_graph_compute(e->sched, e->graph);
        if (computed != GGML_STATUS_SUCCESS) {
            st = error_set(err, ST_DEVICE, "%s: the graph did not compute: %s",
                           ggml_backend_dev_name(e->device->dev), ggml_status_to_string(computed));
            break;
        }
        ggml_backend_tensor_get(e->predicted, predicted + first, 0, (size_t) n * sizeof *predicted);
        ggml_backend_tensor_get(e->probabilities, batch, 0,
                                (size_t) n * MNIST_CLASSES * sizeof *batch);
        st = check_outputs(e, predicted + first, batch, n, err);
        if (probabilities) {
            memcpy(probabilities + first * MNIST_CLASSES, batch,
                   (size_t) n * MNIST_CLASSES * sizeof *batch);
        }
        if (progress && st == ST_OK) {
            progress(user, first + n, d->n);
        }
    }
    free(batch);
    return st;
}

// ---- what each node costs ----

struct profile {
    struct evaluator * e;
    struct node_cost * out;
    int n, max;
    uint64_t cycles;
    double start;
};

static bool profile_node(struct ggml_tensor * node, bool before, void * user) {
    struct profile * p = user;
    struct ggml_backend_hsa_counters counters;
    device_counters(p->e->device, &counters);
    if (before) {
        p->cycles = counters.cycles;
        p->start = seconds_now();
        return true;
    }
    if (p->n == p->max || !computes(node)) {
        return true;
    }
    struct node_cost * c = &p->out[p->n++];
    *c = (struct node_cost){.on_device = on_device(p->e, node),
                            .cycles = counters.cycles - p->cycles,
                            .seconds = seconds_now() - p->start};
    snprintf(c->what, sizeof c->what, "%s", ggml_op_desc(node));
    snprintf(c->shape, sizeof c->shape, "%lld x %lld", (long long) node->ne[0],
             (long long) node->ne[1]);
    if (node->op == GGML_OP_MUL_MAT) {
        c->macs = (uint64_t) (node->src[0]->ne[0] * node->ne[0] * node->ne[1]);
    }
    return true;
}

int evaluator_profile(struct evaluator * e, const struct digits * d, struct node_cost * out,
                      int max) {
    struct profile p = {.e = e, .out = out, .max = max};
    set_batch(e, d, 0);
    ggml_backend_sched_set_eval_callback(e->sched, profile_node, &p);
    enum ggml_status st = ggml_backend_sched_graph_compute(e->sched, e->graph);
    ggml_backend_sched_set_eval_callback(e->sched, NULL, NULL);
    return st == GGML_STATUS_SUCCESS ? p.n : 0;
}

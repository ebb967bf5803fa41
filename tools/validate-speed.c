// validate-speed: kernels of ours by themselves, compiled here and sent as the backend sends them:
// an ADD whose result is known, and products, of which the time of one in a chain counts, less what
// a dispatch takes that does nothing.
#include "validate.h"
#include "validate-kernel.h"

#include "aie/aie.h"
#include "aie/target/times.h"
#include "amdxdna/amdxdna.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- one kernel ----

enum status kernel_open(struct lab * l, const struct kernel_spec * spec, struct lab_kernel * k,
                        struct error * err) {
    struct kernel_code code = {0};
    *k = (struct lab_kernel){.spec = *spec};
    enum status st = aie_compile(spec, &code, err);
    if (st != ST_OK) {
        return st;
    }
    k->n_insts = (uint32_t) code.n_insts;
    k->n_operands = spec->n_inputs + 1;
    st = lab_place(l, code.pdi, code.pdi_size, &k->pdi, err);
    if (st == ST_OK) {
        k->insts = hsac_alloc(l->agent, HSAC_POOL_STREAM, 4 * code.n_insts);
        st = k->insts ? hsac_write(l->agent, k->insts, code.insts, 4 * code.n_insts, err)
                      : error_set(err, ST_NO_MEMORY, "no device memory for a stream");
    }
    free(code.insts);
    for (int i = 0; i < k->n_operands && st == ST_OK; i++) {
        const struct tensor * t = i < spec->n_inputs ? &spec->inputs[i] : &spec->output;
        k->bytes[i] = ((size_t) tensor_bytes(t) + 3) / 4 * 4;
        k->operands[i] = hsac_alloc(l->agent, HSAC_POOL_DATA, k->bytes[i]);
        st = k->operands[i]
                 ? hsac_fill(l->agent, k->operands[i], 0, k->bytes[i], err)
                 : error_set(err, ST_NO_MEMORY, "no device memory for %zu bytes", k->bytes[i]);
    }
    return st;
}

void kernel_close(struct lab * l, struct lab_kernel * k) {
    lab_unplace(l, &k->pdi);
    hsac_free(l->agent, k->insts);
    for (int i = 0; i < k->n_operands; i++) {
        hsac_free(l->agent, k->operands[i]);
    }
    *k = (struct lab_kernel){0};
}

enum status kernel_run(struct lab * l, const struct lab_kernel * k, int n, double * ns,
                       struct error * err) {
    struct hsac_dispatch d = {.pdi = k->pdi.at,
                              .pdi_size = k->pdi.size,
                              .insts = k->insts,
                              .n_insts = k->n_insts,
                              .us = aie_us(k->spec.arch, aie_cycles(&k->spec)),
                              .tag = 1,
                              .n_operands = k->n_operands};
    enum status st = ST_OK;
    for (int i = 0; i < k->n_operands; i++) {
        d.operands[i].addr = k->operands[i];
        d.operands[i].size = k->bytes[i];
    }
    uint64_t start = hsac_time_ns(l->h);
    for (int i = 0; i < n && st == ST_OK; i++) {
        st = hsac_queue_dispatch(l->queue, &d, err);
    }
    enum status waited = hsac_queue_wait(l->queue, st == ST_OK ? err : NULL);
    *ns = (double) (hsac_time_ns(l->h) - start);
    return st == ST_OK ? waited : st;
}

// ---- ADD ----

enum { ADD_N = 4096 };

static struct kernel_spec add_spec(const struct lab * l) {
    struct tensor t = tensor_contiguous(DTYPE_F32, (const int64_t[4]){ADD_N, 1, 1, 1});
    return (struct kernel_spec){.op = KERNEL_OP_ADD,
                                .arch = l->arch,
                                .columns = l->columns < l->target->columns ? l->columns : 0,
                                .n_inputs = 2,
                                .inputs = {t, t},
                                .output = t};
}

enum status kernel_add(struct lab * l, uint32_t seed, int times, struct error * err) {
    struct kernel_spec spec = add_spec(l);
    struct lab_kernel k;
    static float in[2][ADD_N], out[ADD_N];
    double ns;
    enum status st = kernel_open(l, &spec, &k, err);
    for (int turn = 0; turn < times && st == ST_OK; turn++) {
        for (int i = 0; i < 2 * ADD_N; i++) { // numbers whose sums are exact
            seed = seed * 1664525u + 1013904223u;
            in[i / ADD_N][i % ADD_N] = (float) (int) (seed >> 16) - 32768;
        }
        for (int i = 0; i < 2 && st == ST_OK; i++) {
            st = hsac_write(l->agent, k.operands[i], in[i], sizeof in[i], err);
        }
        st = st == ST_OK ? kernel_run(l, &k, 1, &ns, err) : st;
        st = st == ST_OK ? hsac_read(l->agent, out, k.operands[2], sizeof out, err) : st;
        for (int i = 0; i < ADD_N && st == ST_OK; i++) {
            if (out[i] != in[0][i] + in[1][i]) {
                st = error_set(err, ST_DEVICE, "ADD, run %d, element %d: %g + %g is %g here",
                               turn + 1, i, (double) in[0][i], (double) in[1][i], (double) out[i]);
            }
        }
    }
    kernel_close(l, &k);
    return st;
}

void step_add(struct validate * v) {
    struct step * s = validate_step(v, "add");
    struct error err = {0};
    if (kernel_add(&v->lab, 1, 2, &err) != ST_OK) {
        validate_bad(s, "%s", err.text);
    }
    snprintf(s->detail, sizeof s->detail, "%d sums, twice", ADD_N);
    validate_done(v, s);
}

// ---- products ----

static const struct product {
    const char * name;
    enum kernel_op op;
    enum dtype type, result;
    int64_t m, n, k;
    bool rate; // GB/s of the weights counts
    bool whole;
} products[] = {
    {"product, bf16, 512 x 512 x 512", KERNEL_OP_MUL_MAT, DTYPE_BF16, DTYPE_F32, 512, 512, 512,
     false, false},
    {"product, i8, 512 x 512 x 512", KERNEL_OP_MUL_MAT, DTYPE_I8, DTYPE_I32, 512, 512, 512, false,
     false},
    {"product, block floats, 512 x 512 x 512", KERNEL_OP_MUL_MAT_SHARED, DTYPE_BF16, DTYPE_F32, 512,
     512, 512, false, false},
    {"product, bf16, 1024 x 1024 x 1024", KERNEL_OP_MUL_MAT, DTYPE_BF16, DTYPE_F32, 1024, 1024,
     1024, false, true},
    {"product by a row, bf16, 2048 x 2048", KERNEL_OP_MUL_MAT, DTYPE_BF16, DTYPE_F32, 2048, 1, 2048,
     true, false},
    {"product by a row, q4_0, 2048 x 2048", KERNEL_OP_MUL_MAT_BLOCKS, DTYPE_I32, DTYPE_F32, 2048, 1,
     2048, true, false},
};

static struct kernel_spec product_spec(const struct lab * l, const struct product * p) {
    bool blocks = p->op == KERNEL_OP_MUL_MAT_BLOCKS;
    int64_t row =
        blocks ? p->k / kernel_block_k(KERNEL_Q4_0) * kernel_block_bytes(KERNEL_Q4_0) / 4 : p->k;
    return (struct kernel_spec){
        .op = p->op,
        .arch = l->arch,
        .columns = l->columns < l->target->columns ? l->columns : 0,
        .n_inputs = 2,
        .inputs = {tensor_contiguous(p->type, (const int64_t[4]){row, p->m, 1, 1}),
                   tensor_contiguous(blocks ? DTYPE_F32 : p->type,
                                     (const int64_t[4]){p->k, p->n, 1, 1})},
        .output = tensor_contiguous(p->result, (const int64_t[4]){p->m, p->n, 1, 1}),
        .params[0] = blocks ? KERNEL_Q4_0 : 0,
    };
}

// One of a chain, less an empty dispatch.
static enum status product_ns(struct validate * v, const struct kernel_spec * spec, double * out,
                              struct error * err) {
    struct lab_kernel k;
    double ns[2] = {0}, best[2] = {0};
    const struct figure * empty = validate_find(v, "empty dispatch, in a chain");
    enum status st = kernel_open(&v->lab, spec, &k, err);
    st = st == ST_OK ? kernel_run(&v->lab, &k, 1, &ns[0], err) : st; // loads what it needs
    bool same = false;                                               // as the turn before
    for (int turn = 0; turn < v->lab.repeats && st == ST_OK && !same; turn++) {
        same = turn > 0;
        for (int i = 0; i < 2 && st == ST_OK; i++) {
            st = kernel_run(&v->lab, &k, 1 + i, &ns[i], err);
            same = same && ns[i] == best[i];
            best[i] = turn == 0 || ns[i] < best[i] ? ns[i] : best[i];
        }
    }
    *out = best[1] - best[0] - (empty ? empty->measured * 1000 : 0);
    kernel_close(&v->lab, &k);
    return st;
}

// What the driver's sensor tells while products run, and what a token's layer takes of it.
static void measure_power(struct validate * v, struct step * s) {
    enum { LOADS = 50, LAYERS = 24 /* of Qwen2.5-0.5B */ };
    struct kernel_spec spec = product_spec(&v->lab, &products[0]);
    struct lab_kernel k = {0};
    struct amdxdna * device = NULL;
    struct amdxdna_state state = {.watts = -1};
    struct error err = {0};
    double ns;
    bool tells = false; // at rest it is little, and no sensor says less than nothing
    if (!v->emulated && amdxdna_open(0, &device, &err) == ST_OK) {
        amdxdna_state(device, &state);
        tells = state.watts >= 0;
    }
    if (tells && kernel_open(&v->lab, &spec, &k, &err) == ST_OK) {
        for (int i = 0; i < LOADS && !validate_interrupted(); i++) {
            if (kernel_run(&v->lab, &k, 8, &ns, &err) != ST_OK) {
                break;
            }
            struct amdxdna_state now;
            amdxdna_state(device, &now);
            state = now.watts > state.watts ? now : state;
        }
        kernel_close(&v->lab, &k);
    }
    amdxdna_close(device);
    if (state.watts <= 0) {
        validate_say(s, "no sensor tells power");
        return;
    }
    const struct figure * layer = validate_find(v, "decoder layer, q4_0, a token");
    v->watts = state.watts;
    validate_figure(v, "power under load", NULL, "W", state.watts, "a laptop's battery");
    if (layer) {
        validate_figure(v, "energy of a token: 24 such layers", NULL, "J",
                        LAYERS * state.watts * layer->measured * 1e-6, "a laptop's battery");
    }
}

void step_speed(struct validate * v) {
    struct step * s = validate_step(v, "speed");
    const struct figure * mhz = validate_find(v, "mhz");
    // The fastest product of numbers that are floats to whoever asks.
    const struct aie_target * g = v->lab.target;
    const struct aie_mac * mac = g->mac_block.m ? &g->mac_block : &g->mac_bf16;
    v->peak_of = g->mac_block.m ? "block floats" : "bf16";
    int before = v->n_figures;
    v->peak_flops = 2.0 * mac->m * mac->k * mac->n * v->columns * v->lab.target->core_rows *
                    (mhz ? mhz->measured : 0) * 1e6;
    for (size_t i = 0; i < sizeof products / sizeof products[0] && !validate_interrupted(); i++) {
        const struct product * p = &products[i];
        struct kernel_spec spec = product_spec(&v->lab, p);
        struct error err = {0};
        double ns = 0;
        if ((p->whole && !v->whole) || aie_supports(&spec, NULL) != ST_OK) {
            continue;
        }
        validate_progress(v, "%s ...", p->name);
        if (product_ns(v, &spec, &ns, &err) != ST_OK || ns <= 0) {
            validate_bad(s, "%s: %s", p->name, ns <= 0 ? "it took no time" : err.text);
            continue;
        }
        double flops = 2.0 * (double) (p->m * p->n * p->k), bytes = 0;
        for (int k = 0; k < 3; k++) {
            bytes += (double) tensor_bytes(k < 2 ? &spec.inputs[k] : &spec.output);
        }
        double weights = (double) tensor_bytes(&spec.inputs[0]);
        validate_figure(v, p->name, NULL, p->rate ? "GB/s" : "TFLOP/s",
                        p->rate ? weights / ns : flops / ns / 1000,
                        p->rate ? "tokens a second" : "prompts");
        if (v->n_points < VALIDATE_POINTS) {
            struct kernel_point * point = &v->points[v->n_points++];
            *point = (struct kernel_point){.flops = flops, .bytes = bytes, .ns = ns};
            snprintf(point->name, sizeof point->name, "%s", p->name + 8);
        }
    }
    snprintf(s->detail, sizeof s->detail, "%d kernels", v->n_figures - before);
    measure_power(v, s);
    validate_done(v, s);
}

// test-route: on which PDI the nodes of a graph are computed. Paths through stops whose cost can be
// seen at once, and layers of a language model on emulated devices, which compute nothing: how many
// PDIs a prompt of so many tokens loads, and that one token more never costs much more.
#include "base/cmocka-all.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/npu/panels.h"
#include "backend/npu/route.h"
#include "tools/decoder.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"

// ---- paths ----

#define A &aie_programs[AIE_PROGRAM_DECODER]
#define B &aie_programs[AIE_PROGRAM_GEMM_BLOCKS]
#define C &aie_programs[AIE_PROGRAM_LAYER_F32]

static void paths(void ** state) {
    (void) state;
    enum { MOST = 5, LOAD = 100 };
    static const struct {
        const char * what;
        struct route_stop stops[MOST];
        uint64_t cycles;
        int loads;
        uint8_t chosen[MOST];
    } cases[] = {
        {"nothing", {{0}}, 0, 0, {0}},
        {"the cheaper of two", {{2, {{{A, A}, 9}, {{B, B}, 8}}}}, 8, 0, {1}},
        {"all stay, though each would be cheaper elsewhere",
         {{1, {{{A, A}, 1}}}, {2, {{{A, A}, 90}, {{B, B}, 1}}}, {1, {{{A, A}, 1}}}},
         92,
         0,
         {0, 0, 0}},
        {"two that go together pay for both loads",
         {{1, {{{A, A}, 1}}},
          {2, {{{A, A}, 150}, {{B, B}, 1}}},
          {2, {{{A, A}, 150}, {{B, B}, 1}}},
          {1, {{{A, A}, 1}}}},
         204,
         2,
         {0, 1, 1, 0}},
        {"one that is dearer there stays with its neighbours",
         {{2, {{{A, A}, 300}, {{B, B}, 1}}},
          {2, {{{A, A}, 10}, {{B, B}, 150}}},
          {2, {{{A, A}, 300}, {{B, B}, 1}}}},
         152,
         0,
         {1, 1, 1}},
        {"who comes by another PDI, and leaves by a third",
         {{1, {{{A, A}, 1}}}, {2, {{{B, A}, 5}, {{C, C}, 50}}}, {1, {{{A, A}, 1}}}},
         107,
         1,
         {0, 0, 0}},
        {"a node without a PDI changes nothing",
         {{1, {{{A, A}, 1}}}, {0}, {2, {{{B, B}, 1}, {{A, A}, 60}}}, {0}, {1, {{{B, B}, 1}}}},
         103,
         1,
         {0, 0, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t chosen[MOST];
        int loads;
        uint64_t cycles = route_solve(cases[i].stops, MOST, LOAD, chosen, &loads);
        if (cycles != cases[i].cycles || loads != cases[i].loads ||
            memcmp(chosen, cases[i].chosen, sizeof chosen)) {
            fail_msg("%s: %d cycles, %d loads", cases[i].what, (int) cycles, loads);
        }
    }
}

// Of two ways with the same PDIs one is kept, and decoders are one PDI.
static void ways(void ** state) {
    (void) state;
    struct route_stop s = {0};
    route_add(&s, (struct route_way){{A, A}, 7});
    route_add(&s, (struct route_way){{B, A}, 3});
    route_add(&s, (struct route_way){{&aie_programs[AIE_PROGRAM_DECODER_PLANES], A}, 5});
    route_add(&s, (struct route_way){{A, A}, 6});
    route_add(&s, (struct route_way){{NULL, A}, 1});
    assert_int_equal(s.n, 2);
    assert_int_equal(s.ways[0].cycles, 5);
    assert_int_equal(s.ways[1].cycles, 3);
}

// ---- prompts ----

enum { LAYERS = 3 };

struct model { // layers with the same weights, on a device
    struct hsa_device * device;
    struct decoder sizes;
    struct decoder_tensors tensors;
    struct ggml_context * weights;
    ggml_backend_buffer_t buffer;
};

enum { DEVICES = 2 }; // aie2, aie2p
static struct model models[DEVICES];

static const struct decoder llama_1b = {.layers = 16,
                                        .embd = 2048,
                                        .heads = 32,
                                        .kv_heads = 8,
                                        .head_dim = 64,
                                        .ff = 8192,
                                        .vocab = 128256,
                                        .rope_base = 5e5f,
                                        .eps = 1e-5f,
                                        .rope_dims = 64,
                                        .rope_scale = 1,
                                        .kv = GGML_TYPE_F16};

ggml_backend_reg_t ggml_backend_init(void); // the plugin's entry

static bool model_new(struct model * m, ggml_backend_dev_t dev) {
    struct ggml_init_params params = {.mem_size = 64 * ggml_tensor_overhead(), .no_alloc = true};
    m->device = (struct hsa_device *) dev;
    m->sizes = llama_1b;
    for (int i = 0; i < DECODER_WEIGHTS; i++) {
        m->sizes.types[i] = GGML_TYPE_Q4_0;
        m->sizes.has[i] = i <= DECODER_DOWN;
    }
    m->sizes.types[DECODER_ATTN_NORM] = m->sizes.types[DECODER_FFN_NORM] = GGML_TYPE_F32;
    m->weights = ggml_init(params);
    decoder_add_layer(m->weights, &m->sizes, &m->tensors);
    m->buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(m->weights, ggml_backend_dev_buffer_type(dev));
    if (!m->buffer) {
        return false;
    }
    ggml_backend_buffer_set_usage(m->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    for (struct ggml_tensor * t = ggml_get_first_tensor(m->weights); t;
         t = ggml_get_next_tensor(m->weights, t)) {
        panels_upload(buffer_panels(t), m->device->npu, t, true); // no bytes are looked at
    }
    return true;
}

static int setup(void ** state) {
    (void) state;
    setenv("GGML_HSA_EMULATE", "aie2,aie2p", 1);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
    ggml_backend_reg_t reg = ggml_backend_init();
    bool ok = reg && ggml_backend_reg_dev_count(reg) == DEVICES;
    for (size_t i = 0; ok && i < DEVICES; i++) {
        ok = model_new(&models[i], ggml_backend_reg_dev_get(reg, i));
    }
    return ok ? 0 : -1;
}

static int teardown(void ** state) {
    (void) state;
    for (int i = 0; i < DEVICES; i++) {
        ggml_backend_buffer_free(models[i].buffer);
        ggml_free(models[i].weights);
    }
    return 0;
}

// Cycles and loads of a prompt through layers that follow each other. Its tensors have places that
// nobody looks at, each its own.
static uint64_t prompt(struct model * m, int64_t tokens, int * loads) {
    enum { NODES = 64 * LAYERS };
    struct ggml_init_params params = {.mem_size = 4 * NODES * ggml_tensor_overhead() +
                                                  ggml_graph_overhead_custom(NODES, false),
                                      .no_alloc = true};
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, NODES, false);
    struct decoder_tensors t = m->tensors;
    decoder_add_inputs(ctx, tokens, tokens, &t);
    struct ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, m->sizes.embd, tokens);
    for (int i = 0; i < LAYERS; i++) {
        decoder_add_cache(ctx, &m->sizes, tokens, &t);
        x = decoder_layer(ctx, graph, &m->sizes, &t, x, true);
    }
    ggml_build_forward_expand(graph, x);
    uintptr_t at = (uintptr_t) 1 << 40;
    for (struct ggml_tensor * n = ggml_get_first_tensor(ctx); n; n = ggml_get_next_tensor(ctx, n)) {
        n->data = n->view_src ? (char *) n->view_src->data + n->view_offs : (void *) at;
        at += n->view_src ? 0 : GGML_PAD(ggml_nbytes(n), 4096);
    }
    struct route * r = route_new();
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        ggml_graph_node(graph, i)->flags |= GGML_TENSOR_FLAG_COMPUTE;
    }
    uint64_t cycles = route_graph(r, m->device, graph, loads);
    route_free(r);
    ggml_free(ctx);
    return cycles;
}

// Loads of three layers, and what one token more may cost, in tenths.
static void prompts(void ** state) {
    (void) state;
    static const struct {
        int64_t tokens;
        struct {
            int loads, more;
        } on[DEVICES];
    } cases[] = {
        {1, {{0, 13}, {0, 13}}},    {8, {{0, 14}, {0, 13}}},   {16, {{6, 13}, {0, 13}}},
        {24, {{5, 13}, {0, 13}}},   {32, {{5, 13}, {0, 13}}},  {48, {{6, 13}, {1, 13}}},
        {64, {{9, 13}, {5, 13}}},   {92, {{9, 13}, {5, 13}}},  {127, {{9, 13}, {6, 13}}},
        {128, {{9, 13}, {9, 13}}},  {136, {{9, 13}, {9, 13}}}, {192, {{9, 13}, {9, 13}}},
        {256, {{9, 14}, {9, 13}}},  {320, {{9, 13}, {9, 13}}}, {512, {{9, 14}, {9, 13}}},
        {600, {{15, 13}, {9, 13}}},
    };
    int wrong = 0;
    for (int arch = 0; arch < DEVICES; arch++) {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            int loads, then;
            uint64_t cycles = prompt(&models[arch], cases[i].tokens, &loads);
            uint64_t more = prompt(&models[arch], cases[i].tokens + 1, &then);
            if (loads != cases[i].on[arch].loads ||
                10 * more > (uint64_t) cases[i].on[arch].more * cycles) {
                print_error("%s, %d tokens: %d loads; one token more: %.2f times as long\n",
                            kernel_arch_name((enum aie_arch) arch), (int) cases[i].tokens, loads,
                            (double) more / (double) cycles);
                wrong++;
            }
        }
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths),
        cmocka_unit_test(ways),
        cmocka_unit_test(prompts),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

// test-mat-plan: how products are laid out for kernels and cut into parts, with a compiler that
// takes what MUL_MAT's and CONVERT's contracts say, up to a size that a test sets.
#include "base/cmocka-all.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aie/plan/plan.h"
#include "backend/npu/mat.h"
#include "never-compile.h"

// ---- the compiler ----

static int64_t most_elements; // of a result
static int64_t most_k, most_rows = 16;
static bool has_convert, has_unpack, packed_only, cores_convert;
static bool as_ours; // what our own compiler takes

static bool has_words(const struct tensor * t) {
    bool ok = t->nb[0] == dtype_size(t->dtype);
    for (int d = 1; d < TENSOR_DIMS; d++) {
        ok &= t->ne[d] == 1 || t->nb[d] % 4 == 0;
    }
    return ok;
}

static bool takes_product(const struct kernel_spec * s) {
    const struct tensor *a = &s->inputs[0], *b = &s->inputs[1], *out = &s->output;
    bool raw = a->dtype == DTYPE_F16 || b->dtype == DTYPE_F32; // for the cores to make bf16
    bool is_bf16 = a->dtype == DTYPE_BF16 || a->dtype == DTYPE_F16;
    bool b_fits = b->dtype == (is_bf16 ? DTYPE_BF16 : a->dtype) || (is_bf16 && raw);
    bool ok = s->n_inputs == 2 && b_fits &&
              (is_bf16 || a->dtype == DTYPE_I8 || a->dtype == DTYPE_I16) &&
              out->dtype == (is_bf16 ? DTYPE_F32 : DTYPE_I32);
    ok = ok && has_words(a) && has_words(b) && has_words(out) && a->ne[0] % 8 == 0 &&
         a->ne[0] > 0 && a->ne[0] == b->ne[0] && a->ne[1] == out->ne[0] && b->ne[1] == out->ne[1];
    for (int d = 2; d < TENSOR_DIMS && ok; d++) {
        ok = b->ne[d] == out->ne[d] && b->ne[d] % a->ne[d] == 0;
    }
    if (!ok) {
        char name[KERNEL_NAME_MAX];
        kernel_name(s, name);
        fail_msg("%s is not what the kernel takes", name);
    }
    if (raw && (!cores_convert || b->ne[1] > 16)) {
        return false;
    }
    bool packed = tensor_is_contiguous(a) && tensor_is_contiguous(b) && tensor_is_contiguous(out);
    return tensor_elements(out) <= most_elements && a->ne[0] <= most_k && (packed || !packed_only);
}

// Rows of quantized blocks are given as words.
static bool takes_blocks(const struct kernel_spec * s) {
    const struct tensor *a = &s->inputs[0], *b = &s->inputs[1];
    int bytes = kernel_block_bytes((enum kernel_blocks) s->params[0]);
    bool ok =
        s->n_inputs == 2 && bytes > 0 && a->dtype == DTYPE_I32 && has_words(a) && has_words(b) &&
        has_words(&s->output) && b->ne[0] % 64 == 0 &&
        a->ne[0] * 4 == b->ne[0] / kernel_block_k((enum kernel_blocks) s->params[0]) * bytes &&
        a->ne[1] == s->output.ne[0];
    if (!ok) {
        fail_msg("blocks of %d bytes, rows of %d words are not what the kernel takes", bytes,
                 (int) a->ne[0]);
    }
    return cores_convert && b->ne[1] <= 16 && b->ne[1] <= most_rows &&
           tensor_elements(&s->output) <= most_elements;
}

static bool takes_conversion(const struct kernel_spec * s) {
    const struct tensor *in = &s->inputs[0], *out = &s->output;
    int64_t padded = (in->ne[0] + 7) / 8 * 8;
    bool three = s->params[0] == MAT_LEFT || s->params[0] == MAT_RIGHT;
    bool ok = s->n_inputs == 1 && (in->dtype == DTYPE_F32 || in->dtype == DTYPE_F16) &&
              out->dtype == DTYPE_BF16 && has_words(in) && tensor_is_contiguous(out) &&
              s->params[0] <= MAT_HI_BLOCKS && out->ne[0] == padded * (three ? 3 : 1) &&
              !memcmp(in->ne + 1, out->ne + 1, 3 * sizeof *in->ne);
    if (!ok) {
        char name[KERNEL_NAME_MAX];
        kernel_name(s, name);
        fail_msg("%s is not what the kernel takes", name);
    }
    return has_convert && s->params[0] < MAT_HI_MANY;
}

static bool takes_unpacking(const struct kernel_spec * s) {
    const struct tensor *in = &s->inputs[0], *out = &s->output;
    enum kernel_blocks kind = (enum kernel_blocks) s->params[0];
    int64_t words = out->ne[0] / kernel_block_k(kind) * kernel_block_bytes(kind) / 4;
    bool ok = s->n_inputs == 1 && in->dtype == DTYPE_I32 && out->dtype == DTYPE_BF16 &&
              has_words(in) && tensor_is_contiguous(out) && in->ne[0] == words &&
              !memcmp(in->ne + 1, out->ne + 1, 3 * sizeof *in->ne);
    if (!ok) {
        fail_msg("rows of %d words to %d numbers are not what the kernel takes", (int) in->ne[0],
                 (int) out->ne[0]);
    }
    return has_unpack;
}

static bool takes_sum(const struct kernel_spec * s) {
    assert_true(s->op == KERNEL_OP_ADD && s->n_inputs == 2);
    for (int i = 0; i < 2; i++) {
        assert_true(s->inputs[i].dtype == s->output.dtype && has_words(&s->inputs[i]));
        assert_true(tensor_same_shape(&s->inputs[i], &s->output));
    }
    return true;
}

// A plan of which nothing is asked.
static enum status plans(const struct kernel_spec * s, struct aie_plan * plan, struct error * err) {
    if (as_ours) {
        return aie_plan(s, plan, err);
    }
    bool ok = s->op == KERNEL_OP_MUL_MAT          ? takes_product(s)
              : s->op == KERNEL_OP_MUL_MAT_BLOCKS ? takes_blocks(s)
              : s->op == KERNEL_OP_CONVERT        ? takes_conversion(s)
              : s->op == KERNEL_OP_UNPACK         ? takes_unpacking(s)
                                                  : takes_sum(s);
    return ok ? ST_OK : error_set(err, ST_UNSUPPORTED, "too much for this test");
}

static const struct store_compiler compiler = {
    .plan = plans, .pdi = never_pdi, .stream = never_stream};

void log_warn(const char * fmt, ...) {
    (void) fmt;
}

// ---- worlds ----

static struct mat_world world;
static struct ggml_context * ctx;

static int setup(void ** state) {
    (void) state;
    struct ggml_init_params params = {.mem_size = 96 << 20};
    ctx = ggml_init(params);
    world = (struct mat_world){.arch = AIE_ARCH_AIE2};
    most_elements = most_k = INT64_MAX;
    has_convert = true;
    packed_only = cores_convert = has_unpack = as_ours = false;
    setenv("GGML_HSA_KERNEL_MEMORY", "0", 1); // this compiler changes its mind: no promise is kept
    return ctx && store_new_with(&compiler, &world.store, NULL) == ST_OK ? 0 : -1;
}

static int teardown(void ** state) {
    (void) state;
    store_free(world.store);
    ggml_free(ctx);
    return 0;
}

static struct ggml_tensor * tensor(enum ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2,
                                   int64_t ne3) {
    return ggml_new_tensor_4d(ctx, type, ne0, ne1, ne2, ne3);
}

static struct mat_plan plan(const struct ggml_tensor * node) {
    struct mat_plan p;
    struct error err = {0};
    if (mat_plan_node(world, node, &p, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return p;
}

static void assert_ways(const struct mat_plan * p, enum mat_way a, enum mat_way b, bool staged) {
    assert_int_equal(p->a.way, a);
    assert_int_equal(p->b.way, b);
    assert_int_equal(p->result.staged, staged);
}

static void assert_ne(const struct view * v, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
    const int64_t want[] = {ne0, ne1, ne2, ne3};
    for (int d = 0; d < 4; d++) {
        assert_int_equal(v->ne[d], want[d]);
    }
}

// ---- ways ----

static void as_it_stands(void ** state) {
    (void) state;
    struct ggml_tensor * a = tensor(GGML_TYPE_BF16, 64, 5, 1, 1);
    struct ggml_tensor * b = tensor(GGML_TYPE_BF16, 64, 7, 1, 1);
    struct ggml_tensor * node = ggml_mul_mat(ctx, a, b);
    struct mat_plan p = plan(node);
    assert_ways(&p, MAT_AS_IT_STANDS, MAT_AS_IT_STANDS, false);
    assert_ptr_equal(p.a.kernel.data, a->data);
    assert_ptr_equal(p.b.kernel.data, b->data);
    assert_ptr_equal(p.result.kernel.data, node->data);
    assert_ptr_equal(p.a.weights, a);
    assert_ne(&p.result.kernel, 5, 7, 1, 1);

    // Rows of larger ones, which begin at whole words.
    struct ggml_tensor * part = ggml_view_2d(ctx, a, 48, 4, a->nb[1], 8);
    p = plan(ggml_mul_mat(ctx, part, ggml_view_2d(ctx, b, 48, 7, b->nb[1], 0)));
    assert_ways(&p, MAT_AS_IT_STANDS, MAT_AS_IT_STANDS, false);
    assert_int_equal(p.a.kernel.nb[1], 128);
    part = ggml_view_2d(ctx, a, 48, 4, a->nb[1], 2); // at half ones
    p = plan(ggml_mul_mat(ctx, part, ggml_view_2d(ctx, b, 48, 7, b->nb[1], 0)));
    assert_ways(&p, MAT_BY_HOST, MAT_AS_IT_STANDS, false);
}

static void by_kernel_or_by_host(void ** state) {
    (void) state;
    static const struct {
        enum ggml_type a, b;
        int64_t k;
        enum mat_way way_a, way_b;
    } cases[] = {
        {GGML_TYPE_F32, GGML_TYPE_F32, 64, MAT_BY_KERNEL, MAT_BY_KERNEL},
        {GGML_TYPE_F32, GGML_TYPE_F32, 1, MAT_BY_KERNEL, MAT_BY_KERNEL},
        {GGML_TYPE_F16, GGML_TYPE_F32, 62, MAT_BY_KERNEL, MAT_BY_KERNEL},
        {GGML_TYPE_F16, GGML_TYPE_F16, 63, MAT_BY_HOST, MAT_BY_HOST}, // rows at half words
        {GGML_TYPE_BF16, GGML_TYPE_F32, 64, MAT_AS_IT_STANDS, MAT_BY_KERNEL},
        {GGML_TYPE_BF16, GGML_TYPE_F32, 60, MAT_BY_HOST, MAT_BY_KERNEL},
        {GGML_TYPE_Q4_0, GGML_TYPE_F32, 64, MAT_BY_HOST, MAT_BY_KERNEL},
        {GGML_TYPE_IQ2_XS, GGML_TYPE_F32, 256, MAT_BY_HOST, MAT_BY_KERNEL},
        {GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 64, MAT_BY_HOST, MAT_BY_HOST},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ggml_tensor * a = tensor(cases[i].a, cases[i].k, 5, 1, 1);
        struct ggml_tensor * b = tensor(cases[i].b, cases[i].k, 7, 1, 1);
        struct ggml_tensor * node = ggml_mul_mat(ctx, a, b);
        has_convert = true;
        struct mat_plan p = plan(node);
        assert_ways(&p, cases[i].way_a, cases[i].way_b, false);
        assert_int_equal(p.a.kernel.ne[0], (cases[i].k + 7) / 8 * 8);
        has_convert = false;
        p = plan(node);
        assert_true(p.a.way != MAT_BY_KERNEL && p.b.way != MAT_BY_KERNEL);
    }
    has_convert = true;
    // One row of an odd length begins nowhere but at its beginning.
    struct mat_plan p = plan(
        ggml_mul_mat(ctx, tensor(GGML_TYPE_F16, 63, 9, 1, 1), tensor(GGML_TYPE_F16, 63, 1, 1, 1)));
    assert_ways(&p, MAT_BY_HOST, MAT_BY_KERNEL, false);
}

static void views_of_a_cache(void ** state) {
    (void) state;
    // Keys: f16, heads before tokens.
    struct ggml_tensor * k = ggml_permute(ctx, tensor(GGML_TYPE_F16, 8, 4, 32, 1), 0, 2, 1, 3);
    struct ggml_tensor * q = ggml_permute(ctx, tensor(GGML_TYPE_F32, 8, 8, 3, 1), 0, 2, 1, 3);
    struct mat_plan p = plan(ggml_mul_mat(ctx, k, q));
    assert_ways(&p, MAT_BY_KERNEL, MAT_BY_KERNEL, false);
    assert_ne(&p.a.kernel, 8, 32, 4, 1);
    assert_ne(&p.result.kernel, 32, 3, 8, 1); // two heads share a key
    // Values: their tokens are contiguous.
    struct ggml_tensor * v = ggml_permute(ctx, tensor(GGML_TYPE_F16, 32, 8, 4, 1), 0, 1, 2, 3);
    p = plan(ggml_mul_mat(ctx, v, tensor(GGML_TYPE_F32, 32, 3, 8, 1)));
    assert_ways(&p, MAT_BY_KERNEL, MAT_BY_KERNEL, false);
    // Elements that do not follow each other.
    struct ggml_tensor * b = ggml_permute(ctx, tensor(GGML_TYPE_F32, 5, 16, 1, 1), 1, 0, 2, 3);
    p = plan(ggml_mul_mat(ctx, tensor(GGML_TYPE_F32, 16, 4, 1, 1), b));
    assert_ways(&p, MAT_BY_KERNEL, MAT_BY_HOST, false);
}

// Few rows: the cores make f16 and f32 bf16. Weights that are kept as bf16 are taken so, many rows
// and rows of odd lengths are converted.
static void made_by_cores(void ** state) {
    (void) state;
    cores_convert = true;
    struct ggml_tensor * k = ggml_permute(ctx, tensor(GGML_TYPE_F16, 8, 4, 32, 1), 0, 2, 1, 3);
    struct ggml_tensor * q = ggml_permute(ctx, tensor(GGML_TYPE_F32, 8, 8, 3, 1), 0, 2, 1, 3);
    struct mat_plan p = plan(ggml_mul_mat(ctx, k, q));
    assert_ways(&p, MAT_AS_IT_STANDS, MAT_AS_IT_STANDS, false);
    assert_int_equal(p.a.kernel.type, GGML_TYPE_F16);
    assert_int_equal(p.b.kernel.type, GGML_TYPE_F32);
    p = plan(ggml_mul_mat(ctx, tensor(GGML_TYPE_Q4_0, 64, 5, 1, 1),
                          tensor(GGML_TYPE_F32, 64, 16, 1, 1)));
    assert_ways(&p, MAT_AS_IT_STANDS, MAT_AS_IT_STANDS, false);
    // Blocks go to the cores, 16 rows or fewer at a time, where no other kernel takes them; rows of
    // 96 are no words.
    p = plan(ggml_mul_mat(ctx, tensor(GGML_TYPE_Q8_0, 128, 5, 1, 1),
                          tensor(GGML_TYPE_F32, 128, 100, 1, 1)));
    assert_ways(&p, MAT_AS_IT_STANDS, MAT_AS_IT_STANDS, false);
    assert_int_equal(p.chunk[1], 16);
    most_rows = 4;
    p = plan(ggml_mul_mat(ctx, tensor(GGML_TYPE_Q8_0, 128, 5, 1, 1),
                          tensor(GGML_TYPE_F32, 128, 3, 1, 1)));
    assert_int_equal(p.chunk[1], 3);
    p = plan(ggml_mul_mat(ctx, tensor(GGML_TYPE_Q8_0, 128, 5, 1, 1),
                          tensor(GGML_TYPE_F32, 128, 9, 1, 1)));
    assert_int_equal(p.chunk[1], 4);
    most_rows = 16;
    p = plan(ggml_mul_mat(ctx, tensor(GGML_TYPE_Q8_0, 128, 5, 1, 1),
                          tensor(GGML_TYPE_F32, 128, 129, 1, 1)));
    assert_ways(&p, MAT_AS_IT_STANDS, MAT_AS_IT_STANDS, false);
    assert_int_equal(p.chunk[1], 16);
    p = plan(ggml_mul_mat(ctx, tensor(GGML_TYPE_Q4_0, 96, 5, 1, 1),
                          tensor(GGML_TYPE_F32, 96, 16, 1, 1)));
    assert_ways(&p, MAT_BY_HOST, MAT_AS_IT_STANDS, false);
    p = plan(ggml_mul_mat(ctx, tensor(GGML_TYPE_BF16, 64, 5, 1, 1),
                          tensor(GGML_TYPE_F32, 64, 17, 1, 1)));
    assert_ways(&p, MAT_AS_IT_STANDS, MAT_BY_KERNEL, false);
    p = plan(
        ggml_mul_mat(ctx, tensor(GGML_TYPE_F16, 60, 50, 1, 1), tensor(GGML_TYPE_F32, 60, 2, 1, 1)));
    assert_ways(&p, MAT_BY_KERNEL, MAT_BY_KERNEL, false);
    // One query: the heads that share a key are rows.
    q = ggml_permute(ctx, tensor(GGML_TYPE_F32, 8, 8, 1, 1), 0, 2, 1, 3);
    p = plan(ggml_mul_mat(ctx, k, q));
    assert_ways(&p, MAT_AS_IT_STANDS, MAT_AS_IT_STANDS, false);
    assert_ne(&p.b.kernel, 8, 2, 4, 1);
    assert_ne(&p.result.kernel, 32, 2, 4, 1);
    most_elements = 64 * 1024; // what is cut is not cut into few
    p = plan(ggml_mul_mat(ctx, tensor(GGML_TYPE_BF16, 64, 1024, 1, 1),
                          tensor(GGML_TYPE_F32, 64, 256, 1, 1)));
    assert_ways(&p, MAT_AS_IT_STANDS, MAT_BY_KERNEL, false);
    p = plan(ggml_mul_mat(ctx, tensor(GGML_TYPE_BF16, 64, 16384, 1, 1),
                          tensor(GGML_TYPE_F32, 64, 8, 1, 1)));
    assert_ways(&p, MAT_AS_IT_STANDS, MAT_AS_IT_STANDS, false);
    most_elements = INT64_MAX;
    cores_convert = false;
}

// Quantized weights and many rows of b: bf16 is made of one piece of them after the other, each for
// all of b, in the same place.
static void unpacked(void ** state) {
    (void) state;
    has_unpack = true;
    struct ggml_tensor * b = tensor(GGML_TYPE_F32, 4096, 300, 2, 1);
    struct mat_plan p = plan(ggml_mul_mat(ctx, tensor(GGML_TYPE_Q4_K, 4096, 5000, 1, 1), b));
    assert_ways(&p, MAT_BY_KERNEL, MAT_BY_KERNEL, false);
    assert_int_equal(p.a.convert.op, KERNEL_OP_UNPACK);
    assert_true(p.by_pieces);
    assert_int_equal(p.chunk[0], 2048);
    assert_int_equal(p.a.packed.ne[1], 2048);
    p.chunk[1] = 150; // as if that were all that a kernel takes
    char *addr[PLAN_OPERANDS], *first = NULL;
    struct mat_at at = {0};
    int parts = 0, pieces = 0;
    int64_t rows = 0;
    p.a.kernel.data = (char *) ctx;
    do {
        struct kernel_spec s = mat_part(&p, world.arch, &at, addr);
        bool begins = mat_begins_piece(&p, &at);
        assert_int_equal(begins, parts % 4 == 0);
        first = first ? first : addr[0];
        assert_ptr_equal(addr[0], first);
        pieces += begins;
        rows += begins ? s.output.ne[0] : 0;
        parts++;
    } while (mat_next(&p, &at));
    assert_int_equal(parts, 12);
    assert_int_equal(pieces, 3);
    assert_int_equal(rows, 5000);
    // Several matrices, and one that is packed already, are taken as a whole.
    p = plan(ggml_mul_mat(ctx, tensor(GGML_TYPE_Q8_0, 64, 200, 2, 1),
                          tensor(GGML_TYPE_F32, 64, 300, 2, 1)));
    assert_ways(&p, MAT_BY_KERNEL, MAT_BY_KERNEL, false);
    assert_false(p.by_pieces);
    p = plan(ggml_mul_mat(ctx, tensor(GGML_TYPE_Q4_0, 96, 200, 1, 1), // no whole slices
                          tensor(GGML_TYPE_F32, 96, 300, 1, 1)));
    assert_ways(&p, MAT_BY_HOST, MAT_BY_KERNEL, false);
    // A long product of few rows is cut, and not unpacked.
    cores_convert = true;
    most_elements = 10000; // a piece of 8M numbers has 8192 rows here
    p = plan(ggml_mul_mat(ctx, tensor(GGML_TYPE_Q4_0, 1024, 12000, 1, 1),
                          tensor(GGML_TYPE_F32, 1024, 1, 1, 1)));
    assert_ways(&p, MAT_AS_IT_STANDS, MAT_AS_IT_STANDS, false);
    assert_true(p.chunk[0] >= 6000 && p.chunk[0] <= 10000);
    most_elements = INT64_MAX;
    cores_convert = false;
    has_unpack = false;
}

// Of our own kernels the cheapest: few rows at a time over the blocks as they are, many with the
// blocks as they are, b as well or in bf16, or blocks that are unpacked before. Where a product is
// to be computed somewhere (route.h), it is, if that does not cost more than coming from there.
static void cheapest_way(void ** state) {
    (void) state;
    enum {
        ANYWHERE = -1,
        DECODER = AIE_PROGRAM_DECODER,
        GEMM = AIE_PROGRAM_GEMM_BF16,
        BLOCKS = AIE_PROGRAM_GEMM_BY_BLOCKS,
        QUANTS = AIE_PROGRAM_GEMM_QUANTS
    };
    static const struct {
        enum aie_arch arch;
        enum ggml_type type;
        int64_t m, k, n;
        int place;
        int64_t at_once;
        enum mat_way a, b;
    } cases[] = {
        {AIE_ARCH_AIE2, GGML_TYPE_Q4_0, 2048, 2048, 16, ANYWHERE, 16, MAT_AS_IT_STANDS,
         MAT_AS_IT_STANDS},
        {AIE_ARCH_AIE2, GGML_TYPE_Q4_0, 2048, 2048, 17, ANYWHERE, 17, MAT_AS_IT_STANDS,
         MAT_AS_IT_STANDS},
        {AIE_ARCH_AIE2, GGML_TYPE_Q4_0, 2048, 2048, 17, DECODER, 12, MAT_AS_IT_STANDS,
         MAT_AS_IT_STANDS},
        {AIE_ARCH_AIE2, GGML_TYPE_Q4_0, 2048, 2048, 40, DECODER, 16, MAT_AS_IT_STANDS,
         MAT_AS_IT_STANDS},
        {AIE_ARCH_AIE2, GGML_TYPE_Q4_0, 2048, 2048, 512, DECODER, 512, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2, GGML_TYPE_Q4_0, 2048, 2048, 24, GEMM, 24, MAT_AS_IT_STANDS, MAT_BY_KERNEL},
        {AIE_ARCH_AIE2, GGML_TYPE_Q4_0, 2048, 2048, 64, ANYWHERE, 64, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2, GGML_TYPE_Q4_0, 2048, 2048, 128, ANYWHERE, 128, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2, GGML_TYPE_Q4_0, 512, 2048, 128, ANYWHERE, 128, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2, GGML_TYPE_Q4_0, 64, 64, 100, DECODER, 16, MAT_AS_IT_STANDS,
         MAT_AS_IT_STANDS},
        {AIE_ARCH_AIE2, GGML_TYPE_Q4_0, 8192, 2048, 513, GEMM, 496, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2, GGML_TYPE_Q4_0, 8192, 2048, 600, GEMM, 304, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2, GGML_TYPE_Q4_K, 2048, 2048, 32, DECODER, 16, MAT_AS_IT_STANDS,
         MAT_AS_IT_STANDS},
        {AIE_ARCH_AIE2, GGML_TYPE_Q4_K, 2048, 2048, 64, ANYWHERE, 64, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2, GGML_TYPE_Q4_K, 2048, 2048, 512, ANYWHERE, 512, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2, GGML_TYPE_Q8_0, 8192, 2048, 24, QUANTS, 24, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2, GGML_TYPE_Q6_K, 2048, 2048, 64, ANYWHERE, 64, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2, GGML_TYPE_Q6_K, 512, 2048, 17, QUANTS, 17, MAT_AS_IT_STANDS, MAT_BY_KERNEL},
        {AIE_ARCH_AIE2, GGML_TYPE_Q5_K, 2048, 2048, 64, ANYWHERE, 64, MAT_AS_IT_STANDS,
         MAT_AS_IT_STANDS},
        {AIE_ARCH_AIE2, GGML_TYPE_Q5_K, 2048, 2048, 512, ANYWHERE, 512, MAT_BY_KERNEL,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2P, GGML_TYPE_Q4_0, 2048, 2048, 16, ANYWHERE, 16, MAT_AS_IT_STANDS,
         MAT_AS_IT_STANDS},
        {AIE_ARCH_AIE2P, GGML_TYPE_Q4_0, 2048, 2048, 17, ANYWHERE, 17, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2P, GGML_TYPE_Q4_0, 2048, 8192, 64, DECODER, 32, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2P, GGML_TYPE_Q4_0, 2048, 2048, 40, DECODER, 20, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2P, GGML_TYPE_Q4_0, 2048, 2048, 40, BLOCKS, 40, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2P, GGML_TYPE_Q8_0, 8192, 2048, 96, ANYWHERE, 96, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2P, GGML_TYPE_Q4_0, 8192, 2048, 128, ANYWHERE, 128, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2P, GGML_TYPE_Q4_0, 2048, 2048, 512, ANYWHERE, 512, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2P, GGML_TYPE_Q4_K, 2048, 2048, 17, DECODER, 17, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2P, GGML_TYPE_Q6_K, 2048, 2048, 17, DECODER, 8, MAT_AS_IT_STANDS,
         MAT_AS_IT_STANDS},
        {AIE_ARCH_AIE2P, GGML_TYPE_Q4_K, 2048, 2048, 64, ANYWHERE, 64, MAT_AS_IT_STANDS,
         MAT_BY_KERNEL},
        {AIE_ARCH_AIE2P, GGML_TYPE_Q6_K, 2048, 2048, 512, ANYWHERE, 512, MAT_BY_KERNEL,
         MAT_BY_KERNEL},
    };
    struct ggml_init_params params = {.mem_size = 1 << 16, .no_alloc = true};
    struct ggml_context * none = ggml_init(params);
    as_ours = true;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        world.arch = cases[i].arch;
        const struct aie_program * at = cases[i].place < 0 ? NULL : &aie_programs[cases[i].place];
        world.place = (struct route_place){at, at};
        struct ggml_tensor * a = ggml_new_tensor_2d(none, cases[i].type, cases[i].k, cases[i].m);
        struct view weights = view_of(a);
        mat_panel(&world, &weights, &world.panel);
        struct mat_plan p = plan(
            ggml_mul_mat(none, a, ggml_new_tensor_2d(none, GGML_TYPE_F32, cases[i].k, cases[i].n)));
        if (p.chunk[1] != cases[i].at_once || p.a.way != cases[i].a || p.b.way != cases[i].b) {
            fail_msg("case %d: %d rows at once, ways %d and %d", (int) i, (int) p.chunk[1], p.a.way,
                     p.b.way);
        }
        if (p.b.way == MAT_BY_KERNEL) { // where the product is
            struct mat_at first = {0};
            char * addr[PLAN_OPERANDS];
            struct kernel_spec product = mat_part(&p, world.arch, &first, addr);
            struct aie_plan of_product, of_b;
            assert_int_equal(aie_plan(&product, &of_product, NULL), ST_OK);
            assert_int_equal(aie_plan(&p.b.convert, &of_b, NULL), ST_OK);
            assert_ptr_equal(of_product.program, of_b.program);
        }
    }
    world.arch = AIE_ARCH_AIE2;
    world.panel = (struct kernel_panel){0};
    world.place = (struct route_place){0};
    as_ours = false;
    ggml_free(none);
}

static void integers(void ** state) {
    (void) state;
    for (int wide = 0; wide < 2; wide++) {
        enum ggml_type type = wide ? GGML_TYPE_I16 : GGML_TYPE_I8;
        for (int64_t k = 15; k <= 16; k++) {
            struct ggml_tensor * node =
                ggml_mul_mat(ctx, tensor(type, k, 5, 1, 1), tensor(type, k, 7, 1, 1));
            struct mat_plan p;
            assert_int_equal(mat_plan_node(world, node, &p, NULL), ST_UNSUPPORTED); // to f32
            node->type = GGML_TYPE_I32;
            world.precision = MAT_ALWAYS_PRECISE; // which integers are anyway
            p = plan(node);
            world.precision = MAT_AS_ASKED;
            enum mat_way way = k == 16 ? MAT_AS_IT_STANDS : MAT_BY_HOST;
            assert_ways(&p, way, way, false);
            assert_int_equal(p.a.kernel.type, type);
            assert_int_equal(p.a.kernel.ne[0], 16);
        }
    }
}

static void results_that_no_kernel_writes(void ** state) {
    (void) state;
    struct ggml_tensor * a = tensor(GGML_TYPE_BF16, 64, 5, 1, 1);
    struct ggml_tensor * b = tensor(GGML_TYPE_BF16, 64, 7, 1, 1);
    struct ggml_tensor * node = ggml_mul_mat(ctx, a, b);
    node->data = a->data; // over its own operand
    struct mat_plan p = plan(node);
    assert_ways(&p, MAT_AS_IT_STANDS, MAT_AS_IT_STANDS, true);
    assert_null(p.result.kernel.data);
    node->src[0] = tensor(GGML_TYPE_F32, 64, 5, 1, 1);
    node->data = node->src[0]->data; // which is read before, by CONVERT
    p = plan(node);
    assert_ways(&p, MAT_BY_KERNEL, MAT_AS_IT_STANDS, false);

    node = ggml_mul_mat(ctx, a, b);
    node->nb[0] = 8;
    node->nb[1] = 80;
    p = plan(node);
    assert_ways(&p, MAT_AS_IT_STANDS, MAT_AS_IT_STANDS, true);

    // A kernel that wants everything packed gets it.
    packed_only = true;
    p = plan(ggml_mul_mat(ctx, ggml_view_2d(ctx, a, 48, 5, a->nb[1], 0),
                          tensor(GGML_TYPE_F32, 48, 7, 1, 1)));
    assert_ways(&p, MAT_BY_HOST, MAT_BY_KERNEL, false);
    node = ggml_mul_mat(ctx, a, b);
    node->nb[1] = 40;
    p = plan(node);
    assert_ways(&p, MAT_BY_HOST, MAT_BY_HOST, true);
    packed_only = false;
}

static void outer_products(void ** state) {
    (void) state;
    // [m, k] and [n, k]
    struct ggml_tensor * a = tensor(GGML_TYPE_F32, 6, 20, 2, 1);
    struct mat_plan p = plan(ggml_out_prod(ctx, a, tensor(GGML_TYPE_F32, 9, 20, 4, 1)));
    assert_ways(&p, MAT_BY_HOST, MAT_BY_HOST, false);
    assert_ne(&p.a.kernel, 24, 6, 2, 1);
    assert_ne(&p.b.kernel, 24, 9, 4, 1);
    // What is transposed twice lies right.
    struct ggml_tensor * b = ggml_transpose(ctx, tensor(GGML_TYPE_F32, 20, 9, 4, 1));
    p = plan(ggml_out_prod(ctx, a, b));
    assert_ways(&p, MAT_BY_HOST, MAT_BY_KERNEL, false);
    a = tensor(GGML_TYPE_Q4_0, 64, 20, 1, 1);
    p = plan(ggml_out_prod(ctx, a, tensor(GGML_TYPE_F32, 9, 20, 1, 1)));
    assert_ways(&p, MAT_BY_HOST, MAT_BY_HOST, false);
    assert_true(p.a.source.columns);
    assert_ne(&p.a.kernel, 24, 64, 1, 1);
}

// ---- shapes ----

static void batches_of_one_matrix(void ** state) {
    (void) state;
    struct ggml_tensor * a = tensor(GGML_TYPE_BF16, 16, 5, 1, 1);
    struct mat_plan p = plan(ggml_mul_mat(ctx, a, tensor(GGML_TYPE_BF16, 16, 3, 4, 2)));
    assert_ne(&p.b.kernel, 16, 24, 1, 1);
    assert_ne(&p.result.kernel, 5, 24, 1, 1);
    // Also when the rows are permuted, because they are packed first.
    struct ggml_tensor * b = ggml_permute(ctx, tensor(GGML_TYPE_F32, 16, 4, 3, 2), 0, 2, 1, 3);
    p = plan(ggml_mul_mat(ctx, a, b));
    assert_ways(&p, MAT_AS_IT_STANDS, MAT_BY_KERNEL, false);
    assert_ne(&p.b.packed, 16, 3, 4, 2);
    assert_ne(&p.b.kernel, 16, 24, 1, 1);
    // But not where they are not at one distance and need no packing.
    b = ggml_permute(ctx, tensor(GGML_TYPE_BF16, 16, 4, 3, 2), 0, 2, 1, 3);
    p = plan(ggml_mul_mat(ctx, a, b));
    assert_ne(&p.b.kernel, 16, 3, 4, 2);
    // One row a batch: at one distance, though not packed.
    b = tensor(GGML_TYPE_BF16, 32, 4, 1, 1);
    b = ggml_view_3d(ctx, b, 16, 1, 4, b->nb[1], b->nb[1], 0);
    p = plan(ggml_mul_mat(ctx, a, b));
    assert_ne(&p.b.kernel, 16, 4, 1, 1);
    assert_int_equal(p.b.kernel.nb[1], 64);
}

static void one_row_times_many(void ** state) {
    (void) state;
    struct ggml_tensor * a = tensor(GGML_TYPE_Q8_0, 64, 1, 2, 1);
    struct ggml_tensor * b = tensor(GGML_TYPE_F32, 64, 300, 2, 1);
    struct mat_plan p = plan(ggml_mul_mat(ctx, a, b));
    assert_ways(&p, MAT_BY_KERNEL, MAT_BY_HOST, false);
    assert_ptr_equal(p.b.weights, a);
    assert_null(p.a.weights);
    assert_ne(&p.result.kernel, 300, 1, 2, 1);
    p = plan(ggml_mul_mat(ctx, a, tensor(GGML_TYPE_F32, 64, 300, 4, 1))); // a repeats: not so
    assert_ne(&p.result.kernel, 1, 300, 4, 1);
}

static void nothing(void ** state) {
    (void) state;
    // ggml_mul_mat takes rows of no elements for transposed ones.
    struct ggml_tensor * node =
        ggml_mul_mat(ctx, tensor(GGML_TYPE_F32, 8, 3, 1, 1), tensor(GGML_TYPE_F32, 8, 4, 1, 1));
    node->src[0]->ne[0] = node->src[1]->ne[0] = 0;
    struct mat_plan p = plan(node);
    assert_true(p.nothing_to_add);
    p = plan(
        ggml_mul_mat(ctx, tensor(GGML_TYPE_F32, 8, 3, 1, 1), tensor(GGML_TYPE_F32, 8, 0, 1, 1)));
    assert_false(p.nothing_to_add);
}

static void precise(void ** state) {
    (void) state;
    struct ggml_tensor * b = tensor(GGML_TYPE_F32, 20, 7, 1, 1);
    struct ggml_tensor * node = ggml_mul_mat(ctx, tensor(GGML_TYPE_F16, 20, 5, 1, 1), b);
    assert_int_equal(plan(node).a.kernel.ne[0], 24);
    ggml_prec_set_acc(node, GGML_PREC_F32);
    struct mat_plan p = plan(node);
    assert_int_equal(p.a.kernel.ne[0], 72);
    assert_int_equal(p.b.kernel.ne[0], 72);
    assert_int_equal(p.a.convert.params[0], MAT_LEFT);
    assert_int_equal(p.b.convert.params[0], MAT_RIGHT);
    world.precision = MAT_ALWAYS_BF16;
    assert_int_equal(plan(node).a.kernel.ne[0], 24);
    world.precision = MAT_ALWAYS_PRECISE;
    node =
        ggml_mul_mat(ctx, tensor(GGML_TYPE_Q4_0, 32, 5, 1, 1), tensor(GGML_TYPE_F32, 32, 7, 1, 1));
    assert_int_equal(plan(node).a.kernel.ne[0], 96);
    node = ggml_mul_mat(ctx, tensor(GGML_TYPE_BF16, 32, 5, 1, 1),
                        tensor(GGML_TYPE_BF16, 32, 7, 1, 1)); // nothing is left of either
    assert_int_equal(plan(node).a.kernel.ne[0], 32);
    world.precision = MAT_AS_ASKED;
    node = ggml_mul_mat(ctx, tensor(GGML_TYPE_BF16, 20, 5, 1, 1), b);
    ggml_prec_set_src(node, GGML_PREC_F32, 1);
    assert_int_equal(plan(node).a.kernel.ne[0], 72);
    ggml_prec_set_src(node, GGML_PREC_BF16, 1);
    assert_int_equal(plan(node).a.kernel.ne[0], 24);
}

// A few sums of f32 by f32 are precise without a wish; more of them, or of less precise numbers,
// are not.
static void few_dots(void ** state) {
    (void) state;
    static const struct {
        enum ggml_type type;
        int64_t m, n, batches;
        bool precise;
    } cases[] = {
        {GGML_TYPE_F32, 1, 1, 1, true},   {GGML_TYPE_F32, 16, 1, 1, true},
        {GGML_TYPE_F32, 4, 2, 2, true},   {GGML_TYPE_F32, 17, 1, 1, false},
        {GGML_TYPE_F32, 4, 3, 2, false},  {GGML_TYPE_F16, 1, 1, 1, false},
        {GGML_TYPE_BF16, 1, 1, 1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ggml_tensor * node =
            ggml_mul_mat(ctx, tensor(cases[i].type, 20, cases[i].m, cases[i].batches, 1),
                         tensor(GGML_TYPE_F32, 20, cases[i].n, cases[i].batches, 1));
        assert_int_equal(plan(node).a.kernel.ne[0], cases[i].precise ? 72 : 24);
        world.precision = MAT_ALWAYS_BF16;
        assert_int_equal(plan(node).a.kernel.ne[0], 24);
        world.precision = MAT_AS_ASKED;
    }
}

// ---- parts ----

// Every sum is made once, by a part whose operands are its own rows.
static void check_parts(const struct ggml_tensor * node, int64_t most, int64_t at_least) {
    most_elements = most;
    struct mat_plan p = plan(node);
    most_elements = INT64_MAX;
    const struct view *a = &p.a.kernel, *b = &p.b.kernel, *out = &p.result.kernel;
    int64_t n = ggml_nelements(node), n_parts = 0;
    uint8_t * seen = calloc(1, (size_t) n);
    struct mat_at at = {0};
    do {
        char * addr[PLAN_OPERANDS];
        struct kernel_spec s = mat_part(&p, AIE_ARCH_AIE2, &at, addr);
        assert_true(tensor_elements(&s.output) <= most);
        for (int64_t i = 0; i < tensor_elements(&s.output); i++) {
            const int64_t * ne = s.output.ne;
            int64_t i0 = i % ne[0], i1 = i / ne[0] % ne[1], i2 = i / ne[0] / ne[1] % ne[2],
                    i3 = i / ne[0] / ne[1] / ne[2];
            int64_t sum = (addr[2] + i0 * 4 + i1 * s.output.nb[1] + i2 * s.output.nb[2] +
                           i3 * s.output.nb[3] - out->data) /
                          4;
            assert_between(sum, 0, n - 1);
            assert_int_equal(seen[sum], 0);
            seen[sum] = 1;
            // Which rows the kernel reads for it, and which it should.
            char * row_a = addr[0] + i0 * s.inputs[0].nb[1] +
                           i2 / (ne[2] / s.inputs[0].ne[2]) * s.inputs[0].nb[2] +
                           i3 / (ne[3] / s.inputs[0].ne[3]) * s.inputs[0].nb[3];
            char * row_b =
                addr[1] + i1 * s.inputs[1].nb[1] + i2 * s.inputs[1].nb[2] + i3 * s.inputs[1].nb[3];
            int64_t j0 = sum % out->ne[0], j1 = sum / out->ne[0] % out->ne[1],
                    j2 = sum / out->ne[0] / out->ne[1] % out->ne[2],
                    j3 = sum / out->ne[0] / out->ne[1] / out->ne[2];
            assert_ptr_equal(row_a, a->data + (size_t) j0 * a->nb[1] +
                                        (size_t) (j2 / (out->ne[2] / a->ne[2])) * a->nb[2] +
                                        (size_t) (j3 / (out->ne[3] / a->ne[3])) * a->nb[3]);
            assert_ptr_equal(row_b, b->data + (size_t) j1 * b->nb[1] + (size_t) j2 * b->nb[2] +
                                        (size_t) j3 * b->nb[3]);
        }
        n_parts++;
    } while (mat_next(&p, &at));
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(seen[i], 1);
    }
    assert_true(n_parts >= at_least);
    if (most >= n) {
        assert_int_equal(n_parts, 1);
    }
    free(seen);
}

static void parts(void ** state) {
    (void) state;
    const enum ggml_type t = GGML_TYPE_BF16;
    struct ggml_tensor * node = ggml_mul_mat(ctx, tensor(t, 8, 100, 1, 1), tensor(t, 8, 37, 1, 1));
    for (int64_t most = 256; most < 5000; most = most * 5 / 3) {
        check_parts(node, most, 3700 / most);
    }
    node = ggml_mul_mat(ctx, tensor(t, 8, 33, 2, 3), tensor(t, 8, 18, 10, 3));
    for (int64_t most = 256; most < 20000; most = most * 7 / 3) {
        check_parts(node, most, 17820 / most);
    }
    node = ggml_mul_mat(ctx, tensor(t, 8, 1000, 1, 1), tensor(t, 8, 1, 1, 1));
    check_parts(node, 300, 4);
    node = ggml_mul_mat(ctx, tensor(t, 8, 3, 7, 2), tensor(t, 8, 2, 7, 6));
    check_parts(node, 6, 42);
    // Not even the least part fits.
    struct mat_plan p;
    most_elements = 5;
    assert_int_equal(mat_plan_node(world, node, &p, NULL), ST_UNSUPPORTED);
    most_elements = INT64_MAX;
}

// Of a k that no kernel takes: the first part makes the sums, the others are added.
static void long_k(void ** state) {
    (void) state;
    for (int64_t k = 3000; k <= 10008; k += 1752) {
        for (int64_t most = 1000; most < 20000; most *= 3) {
            struct ggml_tensor * a = tensor(GGML_TYPE_BF16, k, 40, 2, 1);
            struct ggml_tensor * node = ggml_mul_mat(ctx, a, tensor(GGML_TYPE_BF16, k, 20, 2, 1));
            most_k = most;
            most_elements = 500;
            struct mat_plan p = plan(node);
            most_k = most_elements = INT64_MAX;
            char sums[4000];
            p.partial.data = sums;
            assert_true(view_bytes(&p.partial) <= sizeof sums);
            struct mat_at at = {0};
            int64_t done = 0, n_sums = 0;
            char * out = NULL;
            bool more;
            do {
                char * addr[PLAN_OPERANDS];
                struct kernel_spec s = mat_part(&p, AIE_ARCH_AIE2, &at, addr);
                if (at.add) {
                    assert_int_equal(s.op, KERNEL_OP_ADD);
                    assert_ptr_equal(addr[0], out);
                    assert_ptr_equal(addr[1], sums);
                    assert_ptr_equal(addr[2], out);
                } else {
                    assert_int_equal(s.op, KERNEL_OP_MUL_MAT);
                    assert_between(s.inputs[0].ne[0], 8, most);
                    assert_int_equal((size_t) (addr[0] - (char *) a->data) % a->nb[1],
                                     (size_t) done * 2);
                    out = done ? out : addr[2];
                    assert_ptr_equal(addr[2], done ? sums : out);
                    done += s.inputs[0].ne[0];
                    n_sums += done == k ? tensor_elements(&s.output) : 0;
                }
                more = mat_next(&p, &at);
                if (at.k == 0) {
                    assert_int_equal(done, k);
                    done = 0;
                }
            } while (more);
            assert_int_equal(n_sums, ggml_nelements(node));
        }
    }
    struct mat_plan p;
    most_k = 100;
    assert_int_equal(mat_plan_node(world,
                                   ggml_mul_mat(ctx, tensor(GGML_TYPE_BF16, 800, 4, 1, 1),
                                                tensor(GGML_TYPE_BF16, 800, 4, 1, 1)),
                                   &p, NULL),
                     ST_UNSUPPORTED);
    most_k = INT64_MAX;
}

static void padded_rows(void ** state) {
    (void) state;
    int sizes = 0;
    for (int64_t n = 1, last = 0; n <= 4096; n++) {
        int64_t padded = mat_padded_rows(n);
        assert_true(padded >= n && padded >= last);
        assert_true(n > 16 ? padded < n + (n / 4 > 8 ? n / 4 : 8) : padded == n);
        assert_int_equal(mat_padded_rows(padded), padded);
        sizes += padded != last;
        last = padded;
    }
    assert_true(sizes <= 50);
}

// ---- refusals ----

static void refused(void ** state) {
    (void) state;
    struct mat_plan p;
    struct error err = {0};
    struct ggml_tensor * a = tensor(GGML_TYPE_F32, 8, 3, 1, 1);
    struct ggml_tensor * node = ggml_mul_mat(ctx, a, tensor(GGML_TYPE_F32, 8, 4, 1, 1));
    node->src[1] = tensor(GGML_TYPE_F32, 9, 4, 1, 1);
    assert_int_equal(mat_plan_node(world, node, &p, &err), ST_INVALID);
    node->src[1] = tensor(GGML_TYPE_F32, 8, 5, 1, 1);
    assert_int_equal(mat_plan_node(world, node, &p, &err), ST_INVALID);
    node->src[1] = tensor(GGML_TYPE_F32, 8, 4, 1, 1);
    node->src[0] = tensor(GGML_TYPE_F32, 8, 3, 0, 1);
    assert_int_equal(mat_plan_node(world, node, &p, &err), ST_INVALID);
    node->src[0] = NULL;
    assert_int_equal(mat_plan_node(world, node, &p, &err), ST_INVALID);
    node->src[0] = tensor(GGML_TYPE_I32, 8, 3, 1, 1);
    assert_int_equal(mat_plan_node(world, node, &p, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "i32"));
    node->src[0] = tensor(GGML_TYPE_I8, 8, 3, 1, 1);
    assert_int_equal(mat_plan_node(world, node, &p, &err), ST_UNSUPPORTED);
    node->src[0] = a;
    node->type = GGML_TYPE_F16;
    assert_int_equal(mat_plan_node(world, node, &p, &err), ST_UNSUPPORTED);
    node->type = GGML_TYPE_F32;
    assert_int_equal(mat_plan_node(world, node, &p, &err), ST_OK);

    struct store * empty;
    assert_int_equal(store_new_with(NULL, &empty, &err), ST_OK);
    struct mat_world none = {.store = empty, .arch = AIE_ARCH_AIE2};
    assert_int_equal(mat_plan_node(none, node, &p, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "mul_mat_bf16_24x3x1x1_bf16_24x4x1x1_f32_3x4x1x1"));
    store_free(empty);
}

// As programs ask before there is any memory.
static void without_addresses(void ** state) {
    (void) state;
    struct ggml_init_params params = {.mem_size = 1 << 16, .no_alloc = true};
    struct ggml_context * none = ggml_init(params);
    struct ggml_tensor * w = ggml_new_tensor_2d(none, GGML_TYPE_Q6_K, 4096, 32000);
    struct ggml_tensor * b = ggml_new_tensor_2d(none, GGML_TYPE_F32, 4096, 512);
    struct mat_plan p = plan(ggml_mul_mat(none, w, b));
    assert_ways(&p, MAT_BY_HOST, MAT_BY_KERNEL, false);
    ggml_free(none);
}

int main(void) {
    setenv("GGML_HSA_PLANES", "1", 1); // every type of blocks.def as it is
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_it_stands),
        cmocka_unit_test(by_kernel_or_by_host),
        cmocka_unit_test(views_of_a_cache),
        cmocka_unit_test(made_by_cores),
        cmocka_unit_test(unpacked),
        cmocka_unit_test(cheapest_way),
        cmocka_unit_test(integers),
        cmocka_unit_test(results_that_no_kernel_writes),
        cmocka_unit_test(outer_products),
        cmocka_unit_test(batches_of_one_matrix),
        cmocka_unit_test(one_row_times_many),
        cmocka_unit_test(nothing),
        cmocka_unit_test(precise),
        cmocka_unit_test(few_dots),
        cmocka_unit_test(parts),
        cmocka_unit_test(long_k),
        cmocka_unit_test(padded_rows),
        cmocka_unit_test(refused),
        cmocka_unit_test(without_addresses),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

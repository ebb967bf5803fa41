// test-programs: how many programs (PDIs) the kernels of the table run on. A program that is not
// the one in the array has to be loaded before a kernel runs, so that few are better; the numbers
// here may become smaller, never larger. A new op is no failure, neither in a program that there is
// nor in one of its own, which is printed. Equal names mean equal PDIs and the other way round: a
// kernel that ran on another's program under the same name would compute something else. And no PDI
// brings a descriptor: kernels that are issued ahead are given any number that no kernel in flight
// uses (txn-ahead.h), so that it might be gone when a kernel wants it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sha256.h"
#include "aie/image/txn-tile.h"
#include "aie/tune/every-kernel.h"

enum {
    MAX_PROGRAMS = 128,
    // What is reached.
    MOST_SHARED = 17,    // that several ops run on
    MOST_SHARED_F32 = 7, // of ops whose first input is f32: gemm's, for its tasks; of long sorts
    MOST_DECODER = 1,    // of what a decoder layer has, and its products of few rows
};

// Of ops that have programs to themselves.
static const struct {
    const char * op;
    int most;
} alone[] = {{"mul_mat", 5}, {"flash_attn_ext", 3}, {"unpack", 2}};

struct program {
    char name[KERNEL_NAME_MAX], digest[SHA256_TEXT];
    size_t size; // of the PDI
    bool f32, decoder;
    char ops[1024];
};

struct list {
    struct program programs[MAX_PROGRAMS];
    int n;
};

static bool is_of_decoder(const struct kernel_spec * spec) {
    static const enum kernel_op ops[] = {
        KERNEL_OP_NORM,   KERNEL_OP_RMS_NORM,   KERNEL_OP_L2_NORM, KERNEL_OP_SOFT_MAX,
        KERNEL_OP_SWIGLU, KERNEL_OP_GEGLU,      KERNEL_OP_ADD,     KERNEL_OP_MUL,
        KERNEL_OP_SCALE,  KERNEL_OP_SWIGLU_OAI,
    };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        if (ops[i] == spec->op) {
            return spec->inputs[0].dtype == DTYPE_F32;
        }
    }
    return spec->op == KERNEL_OP_MUL_MAT && spec->inputs[0].dtype == DTYPE_BF16 &&
           spec->inputs[1].ne[1] <= 16;
}

static bool has_no_descriptor(void * user, const struct image_command * c) {
    int tile = c->op <= IMAGE_BLOCK_WRITE ? txn_tile(c->addr) : -1;
    if (tile >= 0) {
        const struct txn_kind * k = txn_kind_of(tile);
        uint32_t at = txn_offset(c->addr), n = c->op == IMAGE_BLOCK_WRITE ? c->n_words : 1;
        uint32_t end = k->bds + k->n_bds * IMAGE_BD_STEP;
        if (at < end && at + 4 * n > k->bds) {
            fail_msg("%s: the PDI writes a descriptor, at 0x%x", (const char *) user, c->addr);
        }
    }
    return true;
}

static void visit(void * user, const struct kernel_spec * spec) {
    struct list * list = user;
    char name[KERNEL_NAME_MAX], digest[SHA256_TEXT];
    uint8_t *pdi, bytes[SHA256_BYTES];
    size_t size;
    struct error err;
    aie_program_name(spec, name);
    if (aie_compile_pdi(spec, &pdi, &size, &err) != ST_OK) {
        fail_msg("%s: %s", name, err.text);
    }
    assert_int_equal(pdi_read(pdi, size, has_no_descriptor, name, &err), ST_OK);
    sha256(pdi, size, bytes);
    sha256_print(bytes, digest);
    free(pdi);
    struct program * p = list->programs;
    for (; p < list->programs + list->n && strcmp(p->name, name); p++) {
        assert_string_not_equal(p->digest, digest);
    }
    if (p == list->programs + list->n) {
        assert_true(list->n++ < MAX_PROGRAMS);
        snprintf(p->name, sizeof p->name, "%s", name);
        snprintf(p->digest, sizeof p->digest, "%s", digest);
        p->size = size;
    }
    assert_string_equal(p->digest, digest);
    p->f32 |= spec->inputs[0].dtype == DTYPE_F32;
    p->decoder |= is_of_decoder(spec);
    char word[64];
    snprintf(word, sizeof word, " %s", kernel_op_name(spec->op));
    if (!strstr(p->ops, word)) {
        snprintf(p->ops + strlen(p->ops), sizeof p->ops - strlen(p->ops), "%s", word);
    }
}

// What brings an operand of a product to bf16; its parameter is no number as that of other ops.
static void visit_conversions(visit_fn fn, void * user) {
    static const enum dtype sources[] = {DTYPE_F32, DTYPE_F16};
    const int64_t ne[4] = {64, 1, 1, 1};
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        struct kernel_spec spec = {.op = KERNEL_OP_CONVERT,
                                   .arch = AIE_ARCH_AIE2,
                                   .n_inputs = 1,
                                   .inputs = {tensor_contiguous(sources[i], ne)},
                                   .output = tensor_contiguous(DTYPE_BF16, ne)};
        assert_int_equal(aie_supports(&spec, NULL), ST_OK);
        fn(user, &spec);
    }
}

// The mixed PDI is for what is small; what is large has its program in all cores.
static void visit_large(visit_fn fn, void * user) {
    static const enum kernel_op ops[] = {KERNEL_OP_MUL, KERNEL_OP_RMS_NORM};
    struct tensor t = tensor_contiguous(DTYPE_F32, (int64_t[]){1024, 16384, 1, 1});
    for (int i = 0; i < 2; i++) {
        struct kernel_spec spec = {.op = ops[i],
                                   .arch = AIE_ARCH_AIE2,
                                   .n_inputs = kernel_op_info(ops[i])->n_inputs,
                                   .inputs = {t, t},
                                   .output = t};
        char name[KERNEL_NAME_MAX];
        aie_program_name(&spec, name);
        assert_string_not_equal(name, "decoder");
        fn(user, &spec);
    }
}

// What saves less than a load takes stays on it: 1,000 digits of MNIST load 12 PDIs, not 16.
static void digits_stay(void ** state) {
    (void) state;
    static const struct {
        enum kernel_op op;
        int64_t ne[2], b; // b: elements of the second input
    } kernels[] = {{KERNEL_OP_ADD, {500, 1000}, 500},
                   {KERNEL_OP_RELU, {500, 1000}, 0},
                   {KERNEL_OP_ADD, {10, 1000}, 10},
                   {KERNEL_OP_SOFT_MAX, {10, 1000}, 0}};
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        int64_t ne[4] = {kernels[i].ne[0], kernels[i].ne[1], 1, 1};
        struct tensor t = tensor_contiguous(DTYPE_F32, ne);
        struct kernel_spec spec = {
            .op = kernels[i].op,
            .arch = AIE_ARCH_AIE2,
            .n_inputs = kernels[i].b ? 2 : 1,
            .inputs = {t, tensor_contiguous(DTYPE_F32, (int64_t[]){kernels[i].b, 1, 1, 1})},
            .output = t};
        spec.params[0] = spec.op == KERNEL_OP_SOFT_MAX ? 0x3f800000 : 0; // a scale of 1
        char name[KERNEL_NAME_MAX];
        aie_program_name(&spec, name);
        assert_string_equal(name, "decoder");
    }
}

static void few_programs(void ** state) {
    (void) state;
    static struct list list;
    int shared = 0, f32 = 0, decoder = 0;
    visit_all(visit, &list);
    visit_conversions(visit, &list);
    for (int i = 0; i < list.n; i++) {
        decoder += list.programs[i].decoder;
    }
    visit_large(visit, &list);
    for (const struct program * p = list.programs; p < list.programs + list.n; p++) {
        print_message("%-18s %6zu bytes:%s\n", p->name, p->size, p->ops);
        bool is_shared = strchr(p->ops + 1, ' ');
        shared += is_shared;
        f32 += is_shared && p->f32;
    }
    print_message("%d programs; several ops share %d, of f32 %d, of a decoder layer %d\n", list.n,
                  shared, f32, decoder);
    assert_true(shared <= MOST_SHARED);
    assert_true(f32 <= MOST_SHARED_F32);
    assert_true(decoder <= MOST_DECODER);
    for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++) {
        int n = 0;
        for (const struct program * p = list.programs; p < list.programs + list.n; p++) {
            n += strcmp(p->ops + 1, alone[i].op) == 0;
        }
        assert_true(n <= alone[i].most);
    }
}

// What is large has other PDIs, on each target: there, too, a name is one of them.
struct large {
    struct list list;
    enum aie_arch arch;
};

static void visit_larger(void * user, const struct kernel_spec * spec) {
    struct large * l = user;
    struct kernel_spec s = *spec;
    enum kernel_family family = kernel_op_info(s.op)->family;
    s.arch = l->arch;
    for (int i = 0; i <= s.n_inputs; i++) {
        struct tensor * t = i < s.n_inputs ? &s.inputs[i] : &s.output;
        *t = tensor_contiguous(t->dtype, (int64_t[]){1024, 4096, 1, 1});
    }
    if ((family == KERNEL_ELEMENTWISE || family == KERNEL_MOVE) &&
        aie_supports(&s, NULL) == ST_OK) {
        visit(&l->list, &s);
    }
}

// A product of many rows, and what makes its operands bf16.
static void visit_with_conversions(struct large * l) {
    const int64_t ne[4] = {1024, 512, 1, 1}, words[4] = {1024 / 32 * 18 / 4, 512, 1, 1};
    const struct tensor bf16 = tensor_contiguous(DTYPE_BF16, ne);
    const struct kernel_spec specs[] = {
        {.op = KERNEL_OP_MUL_MAT,
         .n_inputs = 2,
         .inputs = {bf16, bf16},
         .output = tensor_contiguous(DTYPE_F32, (int64_t[]){512, 512, 1, 1})},
        {.op = KERNEL_OP_CONVERT,
         .n_inputs = 1,
         .inputs = {tensor_contiguous(DTYPE_F32, ne)},
         .output = bf16},
        {.op = KERNEL_OP_UNPACK,
         .n_inputs = 1,
         .inputs = {tensor_contiguous(DTYPE_I32, words)},
         .output = bf16,
         .params[0] = KERNEL_Q4_0},
    };
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct kernel_spec s = specs[i];
        s.arch = l->arch;
        assert_int_equal(aie_supports(&s, NULL), ST_OK);
        visit(&l->list, &s);
    }
}

static void names_of_large_ones(void ** state) {
    (void) state;
    static struct large large[AIE_ARCH_COUNT];
    for (int arch = 0; arch < AIE_ARCH_COUNT; arch++) {
        large[arch].arch = (enum aie_arch) arch;
        visit_all(visit_larger, &large[arch]);
        visit_with_conversions(&large[arch]);
        assert_true(large[arch].list.n > 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(few_programs),
                                       cmocka_unit_test(digits_stay),
                                       cmocka_unit_test(names_of_large_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

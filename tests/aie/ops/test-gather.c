// test-gather: products whose matrices may lie anywhere, as the experts that a token chose do. Each
// descriptor of a shim that reads the first operand is taken from the instruction stream and must
// stay within one matrix: of a product of several batches always, and of one with the rows of all
// where the compiler says so (aie_reads_by). Where it says no, one must reach further.
#include "base/cmocka-all.h"

#include "aie/aie.h"
#include "aie/array/array.h"
#include "aie/image/bd-fields.h"
#include "aie/image/image.h"
#include "kernel/kernel.h"

#include <stdlib.h>
#include <string.h>

enum { BDS = 16, ADDRESS_WORD = 4 }; // of a shim; bytes from a descriptor to its address

struct walk {
    uint32_t words[ARRAY_COLUMNS_MOST][BDS][IMAGE_BD_WORDS];
    int64_t unit; // bytes of a matrix
    int read, across;
};

static uint32_t field(const uint32_t * words, enum image_bd_field f) {
    return image_bd_get(IMAGE_SHIM, words, f);
}

// Words from the first one that it reads to behind the last.
static uint64_t reach(const uint32_t * w) {
    uint64_t wrap0 = field(w, BD_WRAP0), wrap1 = field(w, BD_WRAP1), n = field(w, BD_WORDS);
    uint64_t last = 0, inner = wrap0 ? wrap0 : n, middle = wrap0 && wrap1 ? wrap1 : n / inner;
    uint64_t outer = n / (inner * middle);
    last += (inner - 1) * (field(w, BD_STEP0) + 1);
    last += (middle - 1) * (field(w, BD_STEP1) + 1);
    last += (outer - 1) * (field(w, BD_STEP2) + 1);
    last += (uint64_t) field(w, BD_ITERATIONS) * (field(w, BD_ITERATION_STEP) + 1);
    return last + 1;
}

static bool visit(void * user, const struct image_command * c) {
    struct walk * walk = user;
    uint32_t at = c->addr - (c->op == IMAGE_PATCH ? ADDRESS_WORD : 0);
    for (int col = 0; col < ARRAY_COLUMNS_MOST; col++) {
        for (int bd = 0; bd < BDS; bd++) {
            uint32_t * words = walk->words[col][bd];
            uint32_t addr =
                image_addr(col, ARRAY_ROW_SHIM, SHIM_BD + IMAGE_BD_STEP * (uint32_t) bd);
            for (uint32_t i = 0; c->op == IMAGE_BLOCK_WRITE && i < c->n_words; i++) {
                uint32_t to = c->addr + 4 * i - addr;
                if (to < 4 * IMAGE_BD_WORDS) {
                    memcpy(&words[to / 4], c->data + 4 * i, 4);
                }
            }
            if (c->op == IMAGE_PATCH && at == addr && c->operand == 0) {
                int64_t first = c->byte_offset, last = first + 4 * (int64_t) reach(words) - 1;
                walk->read++;
                walk->across += first / walk->unit != last / walk->unit;
            }
        }
    }
    return true;
}

static struct walk walk_of(const struct kernel_spec * spec, int64_t unit) {
    struct walk walk = {.unit = unit};
    struct error err = {0};
    uint32_t * insts = NULL;
    size_t n = 0;
    if (aie_compile_insts(spec, &insts, &n, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(txn_read((const uint8_t *) insts, 4 * n, visit, &walk, &err), ST_OK);
    free(insts);
    assert_true(walk.read > 0);
    return walk;
}

struct shape {
    enum kernel_blocks blocks;
    int64_t k, m, n; // of a matrix; how many
    bool panels;     // or row behind row
    bool by;         // may the rows of all be one matrix's?
};

static struct kernel_spec product(enum aie_arch arch, const struct shape * s, bool together) {
    int64_t words = s->k / kernel_block_k(s->blocks) * kernel_block_bytes(s->blocks) / 4;
    int64_t m = together ? s->m * s->n : s->m, n = together ? 1 : s->n;
    struct kernel_spec spec = {
        .op = KERNEL_OP_MUL_MAT_BLOCKS,
        .arch = arch,
        .n_inputs = 2,
        .inputs = {tensor_contiguous(DTYPE_I32, (const int64_t[4]){words, m, n, 1}),
                   tensor_contiguous(DTYPE_F32, (const int64_t[4]){s->k, 1, n, 1})},
        .output = tensor_contiguous(DTYPE_F32, (const int64_t[4]){m, 1, n, 1}),
    };
    struct kernel_panel panel = {0};
    spec.params[0] = kernel_blocks_param(s->blocks, panel);
    if (s->panels) {
        assert_true(aie_panel(&spec, &panel));
        spec.params[0] = kernel_blocks_param(s->blocks, panel);
    }
    return spec;
}

static void no_descriptor_reads_two(void ** state) {
    (void) state;
    static const struct shape shapes[] = {
        {KERNEL_Q4_0, 2048, 768, 8, true, true}, // Qwen3-30B-A3B: up and gate
        {KERNEL_Q4_0, 768, 2048, 8, true, true},  {KERNEL_Q4_0, 2048, 768, 8, false, true},
        {KERNEL_Q8_0, 512, 1024, 2, false, true}, {KERNEL_Q4_0, 512, 72, 5, false, false},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (enum aie_arch arch = 0; arch < AIE_ARCH_COUNT; arch++) {
            const struct shape * s = &shapes[i];
            struct kernel_spec batches = product(arch, s, false), all = product(arch, s, true);
            int64_t unit = batches.inputs[0].nb[2];
            assert_int_equal(walk_of(&batches, unit).across, 0);
            assert_true(aie_reads_by(&batches, s->m));
            bool by = aie_reads_by(&all, s->m);
            assert_int_equal(by, s->by);
            assert_int_equal(walk_of(&all, unit).across == 0, by);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_descriptor_reads_two)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

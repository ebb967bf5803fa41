// test-emitted: the list of instructions that `ggml-hsa validate` tries
// (tools/validate-emitted.def) is that of the programs which the compiler makes. `test-emitted
// --write FILE` writes it anew.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aie/image/image.h"
#include "aie/isa/isa.h"
#include "aie/tune/every-kernel.h"

enum { MOST_OPS = 1024, MOST_PROGRAMS = 256, ARCHS = 2 };

static const struct {
    enum aie_arch arch;
    const char * name;
} archs[ARCHS] = {{AIE_ARCH_AIE2, "AIE2"}, {AIE_ARCH_AIE2P, "AIE2P"}};

static struct {
    bool seen[MOST_OPS];
    char programs[MOST_PROGRAMS][KERNEL_NAME_MAX]; // equal names mean equal PDIs
    int n_programs;
} all[ARCHS], *now;

static bool of_command(void * user, const struct image_command * c) {
    const struct aie_isa * isa = aie_isa_get(every_arch);
    (void) user;
    if (c->op != IMAGE_BLOCK_WRITE || (c->addr & 0xfffff) != CORE_PROGRAM ||
        (c->addr >> 20 & 31) < ARRAY_ROW_CORE) {
        return true;
    }
    struct aie_bundle b;
    for (size_t pc = 0, n = 4 * (size_t) c->n_words;
         pc < n && aie_bundle_decode(isa, c->data + pc, n - pc, &b, NULL) == ST_OK; pc += b.size) {
        for (int s = 0; s < AIE_SLOT_COUNT; s++) {
            if (b.present >> s & 1 && b.slot[s].op != aie_isa_nop(isa, (enum aie_slot) s)) {
                now->seen[b.slot[s].op] = true;
            }
        }
    }
    return true;
}

static void of_kernel(void * user, const struct kernel_spec * spec) {
    char name[KERNEL_NAME_MAX];
    uint8_t * pdi;
    size_t size;
    (void) user;
    aie_program_name(spec, name);
    for (int i = 0; i < now->n_programs; i++) {
        if (!strcmp(now->programs[i], name)) {
            return;
        }
    }
    if (now->n_programs == MOST_PROGRAMS || aie_compile_pdi(spec, &pdi, &size, NULL) != ST_OK) {
        abort();
    }
    memcpy(now->programs[now->n_programs++], name, sizeof name);
    pdi_read(pdi, size, of_command, NULL, NULL);
    free(pdi);
}

// The table of all kernels has no products of block floats.
static void look(void) {
    for (int a = 0; a < ARCHS; a++) {
        now = &all[a];
        every_arch = archs[a].arch;
        visit_all(of_kernel, NULL);
        for (int64_t n = 1; n <= 512; n *= 2) {
            struct kernel_spec s = {
                .op = KERNEL_OP_MUL_MAT_SHARED,
                .arch = every_arch,
                .n_inputs = 2,
                .inputs = {tensor_contiguous(DTYPE_BF16, (const int64_t[4]){512, 512, 1, 1}),
                           tensor_contiguous(DTYPE_BF16, (const int64_t[4]){512, n, 1, 1})},
                .output = tensor_contiguous(DTYPE_F32, (const int64_t[4]){512, n, 1, 1})};
            int found;
            visit_one(of_kernel, NULL, &s, &found);
        }
    }
}

static void print(FILE * f) {
    fprintf(f,
            "// Instructions that the kernels of our compiler consist of: X(architecture, name). "
            "Written by\n// `test-emitted --write`, which as a test compares it.\n");
    for (int a = 0; a < ARCHS; a++) {
        const struct aie_isa * isa = aie_isa_get(archs[a].arch);
        for (int op = 0; op < aie_isa_count(isa); op++) {
            if (all[a].seen[op] && op != aie_isa_nop(isa, AIE_SLOT_NOP)) {
                fprintf(f, "X(%s, %s)\n", archs[a].name, aie_isa_instr(isa, op)->name);
            }
        }
    }
}

static void the_list_is_whole(void ** state) {
    (void) state;
    uint8_t * data;
    size_t size, n = 0;
    char * text = NULL;
    assert_int_equal(file_read(EMITTED, 1 << 20, &data, &size, NULL), ST_OK);
    look();
    FILE * f = open_memstream(&text, &n);
    assert_non_null(f);
    print(f);
    fclose(f);
    if (n != size || memcmp(text, data, n)) {
        fail_msg("the compiler emits other instructions than %s has; write it anew with "
                 "test-emitted --write, and look at the difference",
                 EMITTED);
    }
    free(text);
    free(data);
}

int main(int argc, char ** argv) {
    if (argc == 3 && !strcmp(argv[1], "--write")) {
        FILE * f = fopen(argv[2], "we");
        if (!f) {
            perror(argv[2]);
            return 1;
        }
        look();
        print(f);
        return fclose(f) != 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_list_is_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test-digests: the bytes of the compiler's kernels, pinned. A change that is meant to change the
// code of kernels writes the list anew (test-digests --write FILE) and shows the difference in its
// commit; one that is meant to change the compiler alone leaves it as it is.
//
// Kernels of an op that is newer than the list have no line there yet and are counted only.
//
// digests.txt has a line for each kernel: its name, the digest of the PDI, that of the instruction
// stream, 64 bits of each.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "aie/aie.h"
#include "base/sha256.h"

#ifndef DIGESTS
#    define DIGESTS "digests.txt"
#endif

enum { DIGEST_CHARS = 16, LINE = KERNEL_NAME_MAX + sizeof(struct error) };

typedef void (*visit_fn)(void * user, const struct kernel_spec * spec);

static void visit_one(visit_fn visit, void * user, const struct kernel_spec * spec, int * n) {
    if (aie_supports(spec, NULL) == ST_OK) {
        visit(user, spec);
        ++*n;
    }
}

// The op on rows of one type, with each result and number of inputs that it may have.
static int visit_op(enum kernel_op op, enum dtype t, const int64_t ne[4], visit_fn visit,
                    void * user) {
    const struct tensor results[] = {
        tensor_contiguous(t, ne),
        tensor_contiguous(t, (const int64_t[4]){1, ne[1], ne[2], ne[3]}),
        tensor_contiguous(t, (const int64_t[4]){ne[0] / 2, ne[1], ne[2], ne[3]}),
        tensor_contiguous(t, (const int64_t[4]){1, 1, 1, 1}),
        tensor_contiguous(DTYPE_I32, (const int64_t[4]){ne[1], 1, 1, 1}),
        tensor_contiguous(DTYPE_BF16, ne),
    };
    const float half = 0.5f;
    int n = 0;
    for (int inputs = 1; inputs <= kernel_op_info(op)->n_inputs; inputs++) {
        for (size_t r = 0; r < sizeof results / sizeof results[0]; r++) {
            bool seen = false; // a row of one is its own sum
            for (size_t before = 0; before < r; before++) {
                seen |= memcmp(&results[before], &results[r], sizeof results[r]) == 0;
            }
            struct kernel_spec s = {
                .op = op, .arch = AIE_ARCH_AIE2, .n_inputs = inputs, .output = results[r]};
            for (int i = 0; i < inputs; i++) {
                s.inputs[i] = tensor_contiguous(t, ne);
            }
            for (int i = 0; i < KERNEL_MAX_PARAMS; i++) {
                memcpy(&s.params[i], &half, 4);
            }
            if (!seen) {
                visit_one(visit, user, &s, &n);
            }
        }
    }
    return n;
}

static int visit_product(enum dtype t, int64_t m, int64_t n, int64_t k, visit_fn visit,
                         void * user) {
    int count = 0;
    for (int result = 0; result < 2; result++) {
        struct kernel_spec s = {
            .op = KERNEL_OP_MUL_MAT,
            .arch = AIE_ARCH_AIE2,
            .n_inputs = 2,
            .inputs = {tensor_contiguous(t, (const int64_t[4]){k, m, 1, 1}),
                       tensor_contiguous(t, (const int64_t[4]){k, n, 1, 1})},
            .output =
                tensor_contiguous(result ? DTYPE_I32 : DTYPE_F32, (const int64_t[4]){m, n, 1, 1}),
        };
        visit_one(visit, user, &s, &count);
    }
    return count;
}

static int visit_all(visit_fn visit, void * user) {
    static const int64_t shapes[][4] = {{1024, 16, 1, 1}, {33, 5, 3, 2}, {1, 1, 1, 1}};
    static const int64_t products[][3] = {
        {512, 512, 512}, {100, 37, 200}, {4096, 1, 512}, {5, 3, 8}};
    int n = 0;
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        for (int t = 0; t < DTYPE_COUNT; t++) {
            for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
                n += visit_op((enum kernel_op) op, (enum dtype) t, shapes[i], visit, user);
            }
        }
    }
    for (int t = 0; t < DTYPE_COUNT; t++) {
        for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
            const int64_t * p = products[i];
            n += visit_product((enum dtype) t, p[0], p[1], p[2], visit, user);
        }
    }
    return n;
}

static void digest(const void * data, size_t size, char text[SHA256_TEXT]) {
    uint8_t bytes[SHA256_BYTES];
    sha256(data, size, bytes);
    sha256_print(bytes, text);
}

static void line_of(const struct kernel_spec * spec, char line[LINE]) {
    char name[KERNEL_NAME_MAX], pdi[SHA256_TEXT], insts[SHA256_TEXT];
    struct kernel_code code = {0};
    struct error err = {0};
    kernel_name(spec, name);
    if (aie_compile(spec, &code, &err) != ST_OK) {
        snprintf(line, LINE, "%s: %s", name, err.text);
        return;
    }
    digest(code.pdi, code.pdi_size, pdi);
    digest(code.insts, code.n_insts * sizeof *code.insts, insts);
    kernel_code_free(&code);
    snprintf(line, LINE, "%s %.*s %.*s", name, DIGEST_CHARS, pdi, DIGEST_CHARS, insts);
}

struct compare {
    struct buf text; // of the whole list
    const char * at; // the line that comes next
    int different, unknown;
};

// A kernel that the list does not know: of an op that came after it was written.
static bool is_unknown(const struct compare * c, const char * line) {
    char name[KERNEL_NAME_MAX + 2];
    snprintf(name, sizeof name, "\n%.*s ", (int) strcspn(line, " :"), line);
    return strncmp((const char *) c->text.data, name + 1, strlen(name + 1)) != 0 &&
           !strstr((const char *) c->text.data, name);
}

static void compare_one(void * user, const struct kernel_spec * spec) {
    struct compare * c = user;
    char line[LINE];
    line_of(spec, line);
    if (is_unknown(c, line)) {
        c->unknown++;
        return;
    }
    size_t length = strcspn(c->at, "\n");
    if ((strlen(line) != length || memcmp(line, c->at, length) != 0) && c->different++ < 5) {
        print_message("is  %s\nwas %.*s\n", line, (int) length, c->at);
    }
    c->at += length + (c->at[length] == '\n');
}

static void same_bytes(void ** state) {
    (void) state;
    struct compare c = {0};
    char part[4096];
    FILE * file = fopen(DIGESTS, "re");
    assert_non_null(file);
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) {
        buf_append(&c.text, part, n);
    }
    fclose(file);
    buf_append(&c.text, "", 1);
    assert_false(c.text.failed);
    c.at = (const char *) c.text.data;
    int n = visit_all(compare_one, &c);
    print_message("%d kernels, %d different, %d not in the list\n", n, c.different, c.unknown);
    assert_int_equal(c.different, 0);
    assert_int_equal(*c.at, 0); // none has gone
    buf_free(&c.text);
}

static void write_one(void * user, const struct kernel_spec * spec) {
    char line[LINE];
    line_of(spec, line);
    fprintf(user, "%s\n", line);
}

int main(int argc, char ** argv) {
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        FILE * f = fopen(argv[2], "we");
        if (!f) {
            perror(argv[2]);
            return 1;
        }
        printf("%d kernels\n", visit_all(write_one, f));
        return fclose(f) != 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test-digests: the bytes of the compiler's kernels, pinned. A change that is meant to change the
// code of kernels writes the list anew (test-digests --write FILE) and shows the difference in its
// commit; one that is meant to change the compiler alone leaves it as it is.
//
// Kernels of an op that is newer than the list have no line there yet and are counted only.
//
// digests.txt has a line for each kernel: its name, the digest of the PDI, that of the instruction
// stream, 64 bits of each. Behind all of aie2 comes one in five of aie2p: most streams differ there
// in numbers only, and five kernels of a program have one PDI.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "aie/tune/every-kernel.h"
#include "base/sha256.h"

#ifndef DIGESTS
#    define DIGESTS "digests.txt"
#endif

enum { DIGEST_CHARS = 16, LINE = KERNEL_NAME_MAX + sizeof(struct error) + 16 };

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
    const char * before = spec->arch == AIE_ARCH_AIE2 ? "" : "aie2p/";
    if (aie_compile(spec, &code, &err) != ST_OK) {
        snprintf(line, LINE, "%s%s: %s", before, name, err.text);
        return;
    }
    digest(code.pdi, code.pdi_size, pdi);
    digest(code.insts, code.n_insts * sizeof *code.insts, insts);
    kernel_code_free(&code);
    snprintf(line, LINE, "%s%s %.*s %.*s", before, name, DIGEST_CHARS, pdi, DIGEST_CHARS, insts);
}

// ---- which kernels ----

enum { ONE_IN = 5 };

struct some {
    visit_fn visit;
    void * user;
    int seen, taken;
};

static void visit_some(void * user, const struct kernel_spec * spec) {
    struct some * s = user;
    if (s->seen++ % ONE_IN == 0) {
        s->visit(s->user, spec);
        s->taken++;
    }
}

static int visit_both(visit_fn visit, void * user) {
    struct some some = {.visit = visit, .user = user};
    int n = visit_all(visit, user);
    every_arch = AIE_ARCH_AIE2P;
    visit_all(visit_some, &some);
    every_arch = AIE_ARCH_AIE2;
    return n + some.taken;
}

// ---- the list ----

struct compare {
    struct buf text; // of the whole list
    const char * at; // the line that comes next
    int different, unknown;
};

// A kernel that the list does not know: of an op that came after it was written.
static bool is_unknown(const struct compare * c, const char * line) {
    char name[KERNEL_NAME_MAX + 16];
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
    int n = visit_both(compare_one, &c);
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
        printf("%d kernels\n", visit_both(write_one, f));
        return fclose(f) != 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

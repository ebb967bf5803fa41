// The text form of programs: every program of the compiler, printed and read again, is the same
// program and becomes the same bytes; so are its bundles. What single programs become is in text/.
// With aie2p as its argument, the programs are those of that target.
#include "aie/asm/text.h"
#include "aie/tune/every-kernel.h"
#include "base/cmocka-all.h"

#include <stdlib.h>

enum { MAX_PROGRAMS = 256 };

struct texts { // of one program, by pass
    char * of[ASM_PASS_COUNT];
};

static void keep(void * user, enum asm_pass pass, const char * text) {
    struct texts * t = user;
    free(t->of[pass]);
    t->of[pass] = strdup(text);
}

static void free_texts(struct texts * t) {
    for (int i = 0; i < ASM_PASS_COUNT; i++) {
        free(t->of[i]);
        t->of[i] = NULL;
    }
}

static void same(const char * program, const char * what, const char * is, const char * was) {
    if (!is || !was || strcmp(is, was) != 0) {
        size_t at = 0;
        while (is && was && is[at] && is[at] == was[at]) {
            at++;
        }
        fail_msg("%s: %s differs at byte %zu:\nis  %.80s\nwas %.80s", program, what, at,
                 is ? is + at : "(nothing)", was ? was + at : "(nothing)");
    }
}

// Reads the text, finishes the program and returns what the passes said.
static void again(const char * program, const char * text, struct texts * out) {
    const struct asm_listener to = {keep, out};
    struct asm_program * p = NULL;
    struct asm_code code = {0};
    struct error err = {0};
    asm_listen(&to);
    enum status st = asm_read(text, &p, &err);
    if (st == ST_OK) {
        st = asm_finish(p, &code, &err);
    }
    asm_listen(NULL);
    if (st != ST_OK) {
        fail_msg("%s: %s", program, err.text);
    }
    free(code.bytes);
    asm_free(p);
}

struct seen {
    char names[MAX_PROGRAMS][KERNEL_NAME_MAX];
    int n;
};

// The programs that a compile finished one after the other.
struct programs {
    struct texts of[16];
    int n;
};

static void collect(void * user, enum asm_pass pass, const char * text) {
    struct programs * all = user;
    if (pass == ASM_PASS_BUILT) {
        assert_true(all->n < (int) (sizeof all->of / sizeof all->of[0]));
        all->n++;
    }
    keep(&all->of[all->n - 1], pass, text);
}

static void read_again(void * user, const struct kernel_spec * spec) {
    struct seen * seen = user;
    char name[KERNEL_NAME_MAX];
    aie_program_name(spec, name);
    for (int i = 0; i < seen->n; i++) {
        if (!strcmp(seen->names[i], name)) {
            return;
        }
    }
    assert_true(seen->n < MAX_PROGRAMS);
    strcpy(seen->names[seen->n++], name);

    struct programs all = {0};
    const struct asm_listener to = {collect, &all};
    uint8_t * pdi = NULL;
    size_t size;
    struct error err = {0};
    asm_listen(&to);
    enum status st = aie_compile_pdi(spec, &pdi, &size, &err);
    asm_listen(NULL);
    assert_int_equal(st, ST_OK);
    free(pdi);
    assert_true(all.n > 0);
    for (int i = 0; i < all.n; i++) {
        struct texts * was = &all.of[i];
        struct texts is = {0};
        again(name, was->of[ASM_PASS_BUILT], &is);
        for (int pass = 0; pass < ASM_PASS_COUNT; pass++) {
            same(name, asm_pass_name((enum asm_pass) pass), is.of[pass], was->of[pass]);
        }
        free_texts(&is);
        // Bundles do not say which values late loops mean: the checker refuses them as they are.
        if (!strstr(was->of[ASM_PASS_BUILT], " late {")) {
            again(name, was->of[ASM_PASS_BUNDLES], &is);
            same(name, "bundles of bundles", is.of[ASM_PASS_BUNDLES], was->of[ASM_PASS_BUNDLES]);
            same(name, "bytes of bundles", is.of[ASM_PASS_BYTES], was->of[ASM_PASS_BYTES]);
        }
        free_texts(&is);
        free_texts(was);
    }
}

static void every_program_is_read_again(void ** state) {
    (void) state;
    static struct seen seen;
    visit_all(read_again, &seen);
    print_message("%d programs\n", seen.n);
    assert_true(seen.n > 10);
}

// Nobody listens: nothing is told, also when somebody did before.
static void silence(void ** state) {
    (void) state;
    struct texts none = {0};
    const struct asm_listener to = {keep, &none};
    struct asm_program * p = NULL;
    struct asm_code code = {0};
    asm_listen(&to);
    asm_listen(NULL);
    assert_int_equal(asm_read("target aie2\nL0:\n  j #L0\n", &p, NULL), ST_OK);
    assert_int_equal(asm_finish(p, &code, NULL), ST_OK);
    for (int i = 0; i < ASM_PASS_COUNT; i++) {
        assert_null(none.of[i]);
    }
    free(code.bytes);
    asm_free(p);
}

int main(int argc, char ** argv) {
    every_arch = argc > 1 && !strcmp(argv[1], "aie2p") ? AIE_ARCH_AIE2P : AIE_ARCH_AIE2;
    const struct CMUnitTest tests[] = {cmocka_unit_test(silence),
                                       cmocka_unit_test(every_program_is_read_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

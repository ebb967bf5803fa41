// skip: how a test says that it was not run. Every reason is one line "skipped: <reason>" on
// standard output, which tests/make/skips.sh collects behind `make test`; a program of which
// nothing was run ends with SKIPPED, which ctest shows as skipped and not as passed. A program of
// which a part was run passes, and its reasons are listed all the same.
//
// Golden data is a reason by itself: with GGML_HSA_GOLDEN_REQUIRED=1, as where the data is known to
// lie beside the sources, its absence is a failure.
#pragma once

#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SKIPPED = 77 }; // SKIP_RETURN_CODE in tests/CMakeLists.txt

static inline bool golden_required(void) {
    const char * value = getenv("GGML_HSA_GOLDEN_REQUIRED");
    return value && *value && strcmp(value, "0") != 0;
}

// For programs and parts of tests that are no cmocka tests; the result is for main to return.
__attribute__((format(printf, 1, 2))) static inline int skip_say(const char * format, ...) {
    va_list args;
    va_start(args, format);
    printf("skipped: ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    fflush(stdout);
    return SKIPPED;
}

// Can this clang make code for GPUs? It may be installed without the linker of its version.
static inline bool clang_has_linker(const char * clang) {
    char command[4200], path[4096] = "";
    snprintf(command, sizeof command, "'%s' --print-prog-name=lld 2>/dev/null", clang);
    FILE * f = popen(command, "r");
    bool told = f && fgets(path, sizeof path, f);
    if (f) {
        pclose(f);
    }
    path[strcspn(path, "\n")] = 0;
    return told && access(path, X_OK) == 0;
}

#ifdef CMOCKA_H_
static int skip_count;

// Leaves a cmocka test.
#    define skip_test(...) (skip_say(__VA_ARGS__), skip_count++, _skip(__FILE__, __LINE__))

// Leaves a cmocka test that wants this golden file. One reason for all of them, which are listed by
// reason.
#    define skip_golden(path)                                                                      \
        do {                                                                                       \
            if (golden_required()) {                                                               \
                fail_msg("no golden data at %s, and GGML_HSA_GOLDEN_REQUIRED is set", path);       \
            }                                                                                      \
            print_message("there is no %s\n", path);                                               \
            skip_test("no golden data in %s", GOLDEN_DIR);                                         \
        } while (0)

#    undef skip
#    define skip() _Static_assert(0, "say why: skip_test(reason)")

// The status of a group, and so of a program: SKIPPED when every test of it was skipped. A count of
// failures must not look like that.
static inline int skip_run(const char * name, const struct CMUnitTest * tests, size_t n,
                           CMFixtureFunction setup, CMFixtureFunction teardown) {
    skip_count = 0;
    int failed = _cmocka_run_group_tests(name, tests, n, setup, teardown);
    return failed ? 1 : n > 0 && skip_count == (int) n ? SKIPPED : 0;
}

#    undef cmocka_run_group_tests
#    define cmocka_run_group_tests(tests, setup, teardown)                                         \
        skip_run(#tests, tests, sizeof(tests) / sizeof(tests)[0], setup, teardown)
#endif

// inspect-rig: runs ggml-hsa inspect, as people do, on a file that the test writes.
#pragma once

#include "aie/image/golden.h"
#include "tool-run.h"

#include <unistd.h>

// Runs and wants a status and, in the output, each of the texts (up to NULL).
static inline void expect(const char * arguments, int status, const char * const texts[]) {
    struct result r = run(arguments);
    if (r.status != status) {
        fail_msg("ggml-hsa %s: exit status %d\n%s", arguments, r.status, (char *) r.text.data);
    }
    for (int i = 0; texts[i]; i++) {
        if (!strstr((char *) r.text.data, texts[i])) {
            fail_msg("ggml-hsa %s: no '%s' in\n%s", arguments, texts[i], (char *) r.text.data);
        }
    }
    assert_null(strchr((char *) r.text.data, '\033')); // a pipe is no terminal
    buf_free(&r.text);
}

#define EXPECT(arguments, status, ...)                                                             \
    expect(arguments, status, (const char * const[]){__VA_ARGS__, NULL})

static char file[] = "/tmp/test-inspect-XXXXXX";

static inline int make_file(void ** state) {
    (void) state;
    // A sanitizer's leak check at exit can take seconds; the tool is run some sixty times.
    setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
    int fd = mkstemp(file);
    close(fd);
    return fd < 0;
}

static inline int remove_file(void ** state) {
    (void) state;
    return unlink(file);
}

static inline void write_file(const void * data, size_t size) {
    FILE * f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static inline const char * inspect(const char * options) {
    static char arguments[256];
    snprintf(arguments, sizeof arguments, "inspect %s %s", file, options);
    return arguments;
}

// log: one place where the backend speaks. Lines go to ggml's log, so that a program which
// installed a callback sees them; a ggml without that entry gets them on stderr. Faults and
// warnings are always said, the rest with GGML_HSA_ENABLE_LOG=1, in debug builds unless it is 0. A
// log that cannot be written is lost and no more: it ends no program.
#include "backend.h"
#include "base/plain.h"
#include "base/quiet.h"

#include <stdio.h>

// Exported by libggml-base, declared in none of its installed headers.
#pragma weak ggml_log_internal
GGML_API void ggml_log_internal(enum ggml_log_level level, const char * format, ...);

static void say(enum ggml_log_level level, const char * fmt, va_list args) {
    char line[640];
    vsnprintf(line, sizeof line, fmt, args);
    plain_make(line, false); // tensors are named by others
    struct quiet quiet;
    quiet_begin(&quiet);
    if (ggml_log_internal) {
        ggml_log_internal(level, "ggml-hsa: %s\n", line);
    } else {
        fprintf(stderr, "ggml-hsa: %s\n", line);
    }
    quiet_end(&quiet);
}

void log_stderr(const char * fmt, ...) {
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    plain_make(line, false);
    struct quiet quiet;
    quiet_begin(&quiet);
    fprintf(stderr, "ggml-hsa: %s\n", line);
    quiet_end(&quiet);
}

void log_error(const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    say(GGML_LOG_LEVEL_ERROR, fmt, args);
    va_end(args);
}

void log_warn(const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    say(GGML_LOG_LEVEL_WARN, fmt, args);
    va_end(args);
}

void log_info(const char * fmt, ...) {
#ifdef GGML_HSA_DEBUG
    const bool by_default = true;
#else
    const bool by_default = false;
#endif
    if (!env_flag("GGML_HSA_ENABLE_LOG", by_default)) {
        return;
    }
    va_list args;
    va_start(args, fmt);
    say(GGML_LOG_LEVEL_INFO, fmt, args);
    va_end(args);
}

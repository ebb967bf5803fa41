// Preloaded before libggml-base, it makes one of ggml's names another: OTHER_GGML_NAME is
// "op:ADD=SUB", or with unary, glu or type before the colon.
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// What the next library of that function says, unless it is the doctored one.
static const char * name_of(const char * function, const char * kind, int value) {
    void * address = dlsym(RTLD_NEXT, function);
    const char * (*real)(int);
    memcpy(&real, &address, sizeof real);
    const char *name = real(value), *rule = getenv("OTHER_GGML_NAME");
    size_t n = strlen(kind), m = strlen(name);
    bool hit = rule && !strncmp(rule, kind, n) && !strncmp(rule + n, name, m) && rule[n + m] == '=';
    return hit ? rule + n + m + 1 : name;
}

#define DOCTORED(function, kind)                                                                   \
    __attribute__((visibility("default"))) const char * function(int value);                       \
    const char * function(int value) {                                                             \
        return name_of(#function, kind, value);                                                    \
    }

DOCTORED(ggml_op_name, "op:")
DOCTORED(ggml_unary_op_name, "unary:")
DOCTORED(ggml_glu_op_name, "glu:")
DOCTORED(ggml_type_name, "type:")

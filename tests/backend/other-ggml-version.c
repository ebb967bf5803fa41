// Preloaded before libggml-base, it makes a process believe in a ggml that we never tested.
#include <stdlib.h>

__attribute__((visibility("default"))) const char * ggml_version(void);

const char * ggml_version(void) {
    const char * version = getenv("OTHER_GGML_VERSION");
    return version ? version : "9.8.7";
}

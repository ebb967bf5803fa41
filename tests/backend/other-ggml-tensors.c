// Preloaded before libggml-base, it gives tensors longer names than the headers say, as a ggml that
// was built with another GGML_MAX_NAME does: OTHER_GGML_MAX_NAME is that number.
#include "ggml.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) struct ggml_tensor *
ggml_set_name(struct ggml_tensor * tensor, const char * name) {
    const char * value = getenv("OTHER_GGML_MAX_NAME");
    size_t most = value ? (size_t) atoi(value) : GGML_MAX_NAME, n = strlen(name);
    char * at = (char *) tensor + offsetof(struct ggml_tensor, name);
    n = n < most ? n : most - 1;
    memcpy(at, name, n);
    at[n] = '\0';
    return tensor;
}

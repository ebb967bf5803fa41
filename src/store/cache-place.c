// cache-place: where the cache is and how large it may grow, from the environment.
#include "cache.h"

enum status cache_place_find(struct keep_place * out, struct error * err) {
    static const struct keep_names names = {"GGML_HSA_KERNEL_CACHE_DIR", "ggml", "ggml/ggml-hsa"};
    return keep_place_find(&names, out, err);
}

enum status cache_max_size(uint64_t * out, struct error * err) {
    return keep_size("GGML_HSA_KERNEL_CACHE_MAX_SIZE", CACHE_DEFAULT_MAX, out, err);
}

// probe-plugin <path>: loads a plugin as any ggml program would and says what came of it.
#include <stdio.h>

#include "ggml-backend.h"

int main(int argc, char ** argv) {
    ggml_backend_reg_t reg = argc == 2 ? ggml_backend_load(argv[1]) : NULL;
    if (!reg) {
        printf("not loaded\n");
        return 0;
    }
    printf("loaded %s, devices %zu\n", ggml_backend_reg_name(reg), ggml_backend_reg_dev_count(reg));
    for (size_t i = 0; i < ggml_backend_reg_dev_count(reg); i++) {
        ggml_backend_dev_t dev = ggml_backend_reg_dev_get(reg, i);
        printf("%s: %s\n", ggml_backend_dev_name(dev), ggml_backend_dev_description(dev));
    }
    // Unloading and loading again gives the same devices.
    size_t count = ggml_backend_reg_dev_count(reg);
    ggml_backend_unload(reg);
    reg = ggml_backend_load(argv[1]);
    printf("again %s\n", reg && ggml_backend_reg_dev_count(reg) == count ? "same" : "different");
    return 0;
}

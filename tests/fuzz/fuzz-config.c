// fuzz-config: arbitrary bytes as a configuration. Whatever is accepted is printed and read again,
// and is then the same.
#include "fuzz.h"

#include "base/json.h"
#include "kernel/config.h"

const int fuzz_rounds = 5000;
const int fuzz_longest = 1000;

static void check_entry(json_t * entry) {
    struct kernel_config config, back;
    struct error err;
    json_t * root;
    if (kernel_config_parse(entry, "aie2", &config, &err) != ST_OK) {
        return;
    }
    struct buf text = {0};
    kernel_config_print(&config.spec, config.exported_name, &text);
    if (!exported_name_valid(config.exported_name) || text.failed ||
        json_read((char *) text.data, text.size, &root, &err) != ST_OK ||
        kernel_config_parse(root, NULL, &back, &err) != ST_OK) {
        abort();
    }
    char before[KERNEL_NAME_MAX], after[KERNEL_NAME_MAX];
    kernel_name(&config.spec, before);
    kernel_name(&back.spec, after);
    if (strcmp(before, after) || strcmp(config.exported_name, back.exported_name)) {
        abort();
    }
    json_decref(root);
    buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    json_t *root, *entry;
    struct error err;
    const char * text = size ? (const char *) data : "";
    if (json_read(text, size, &root, &err) == ST_OK) {
        size_t i;
        json_array_foreach(json_object_get(root, "kernels"), i, entry) {
            check_entry(entry);
        }
        json_decref(root);
    }
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const texts[] = {
        "{\"kernels\": [{\"kernel_name\": \"ggml_op_add\", \"kernel_source\": \"binary_ops.py\", "
        "\"arch\": \"aie2\", \"input_tensors\": [\"(64,2,1,1)/f32\", "
        "\"(64,1,1,1)/f32/(4,256,256,256)\"], \"output_tensor\": \"(64,2,1,1)/f32\", "
        "\"exported_name\": \"add\", \"op_params\": []}]}",
        "{\"kernels\": [{\"kernel_name\": \"ggml_op_scale\", \"kernel_source\": \"scale\", "
        "\"input_tensors\": [\"(64,1,1,1)/bf16\"], \"output_tensor\": \"(64,1,1,1)/bf16\", "
        "\"exported_name\": \"s\", \"op_params\": [0.5, 7], \"precision\": \"exact\"}]}",
        "{\"a\": [1, -2.5e-3, true, null, \"\\ud83d\\ude00\\n\xc3\xa9\"], \"b\": {}}",
    };
    return fuzz_texts(texts, sizeof texts / sizeof texts[0], i, data, size);
}

// fuzz-config: arbitrary bytes as a configuration and as a manifest. Whatever is accepted is
// printed and read again, and is then the same.
#include "fuzz.h"

#include "store/manifest.h"

#include <stdlib.h>
#include <string.h>

const int fuzz_rounds = 5000;

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

static void check_manifest(const char * data, size_t size) {
    struct manifest m, back;
    struct error err;
    if (manifest_parse(data, size, AIE_ARCH_AIE2, &m, &err) != ST_OK) {
        return;
    }
    struct buf text = {0};
    manifest_print(&m, AIE_ARCH_AIE2, &text, NULL);
    if (text.failed ||
        manifest_parse((char *) text.data, text.size, AIE_ARCH_AIE2, &back, &err) != ST_OK ||
        back.n_entries != m.n_entries ||
        (m.n_entries && memcmp(back.entries, m.entries, m.n_entries * sizeof *m.entries))) {
        abort();
    }
    buf_free(&text);
    manifest_free(&m);
    manifest_free(&back);
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
    check_manifest(text, size);
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
#define HASH "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\""
    static const char * const texts[] = {
        "{\"kernels\": [{\"kernel_name\": \"ggml_op_add\", \"kernel_source\": \"binary_ops.py\", "
        "\"arch\": "
        "\"aie2\", \"input_tensors\": [\"(64,2,1,1)/f32\", \"(64,1,1,1)/f32/(4,256,256,256)\"], "
        "\"output_tensor\": \"(64,2,1,1)/f32\", \"exported_name\": \"add\", \"op_params\": []}]}",
        "{\"format\": \"ggml-hsa-pack\", \"version\": 1, \"arch\": \"aie2\", \"kernels\": "
        "{\"add\": "
        "{\"exported_name\": \"x\", \"pdi_size\": 1, \"pdi_sha256\": " HASH
        ", \"insts_size\": 20, \"insts_sha256\": " HASH "}, \"b\": {\"exported_name\": \"y\", "
        "\"pdi_size\": 1, \"pdi_sha256\": " HASH ", \"insts_size\": 20, \"insts_sha256\": " HASH
        "}}}",
        "{\"a\": [1, -2.5e-3, true, null, \"\\ud83d\\ude00\\n\xc3\xa9\"], \"b\": {}}",
    };
    if ((size_t) i >= sizeof texts / sizeof texts[0]) {
        return false;
    }
    *size = strlen(texts[i]);
    *data = malloc(*size);
    if (*data) {
        memcpy(*data, texts[i], *size);
    }
    return true;
}

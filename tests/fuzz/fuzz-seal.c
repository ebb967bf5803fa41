// fuzz-seal: arbitrary bytes as a sealed text of a cache, of kernels and of code objects; and as
// its lines, with the check that belongs to them, since nobody guesses a SHA-256. What is accepted
// says what it was sealed with, and no byte of it can be changed.
#include "fuzz.h"

#include "hip/hip-impl.h"
#include "store/cache-scan.h"

const int fuzz_rounds = 2000;
const int fuzz_longest = 640;

typedef enum status (*unseal_fn)(const char * text, size_t size, size_t * key, struct error * err);

static enum status unseal_kernel(const char * text, size_t size, size_t * key, struct error * err) {
    struct entry_meta meta = {0};
    enum status st = entry_parse((const uint8_t *) text, size, &meta, err);
    *key = meta.key_size;
    return st;
}

static enum status unseal_code(const char * text, size_t size, size_t * key, struct error * err) {
    struct keep_file code;
    return keep_unseal(&hip_form, (const uint8_t *) text, size, key, &code, err);
}

static void check_text(unseal_fn unseal, char * text, size_t size) {
    size_t key = 0;
    struct error err = {0};
    enum status st = unseal(text, size, &key, &err);
    if (st != ST_OK) {
        if ((st != ST_CORRUPT && st != ST_UNSUPPORTED) || !err.text[0]) {
            abort();
        }
        return;
    }
    if (!key || key >= size || text[key - 1] != '\n') {
        abort();
    }
    size_t at = (size_t) (unsigned char) text[size / 2] * 131 % size;
    text[at] ^= 1;
    if (unseal(text, size, &key, &err) == ST_OK) {
        abort();
    }
    text[at] ^= 1;
}

// The lines with the check line that keep_seal would put behind them.
static void check_sealed(unseal_fn unseal, const uint8_t * data, size_t size) {
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_TEXT];
    struct buf text = {0};
    sha256(data, size, digest);
    sha256_print(digest, hex);
    buf_append(&text, data, size);
    buf_printf(&text, "check %s\n", hex);
    if (text.failed) {
        abort();
    }
    check_text(unseal, (char *) text.data, text.size);
    buf_free(&text);
}

static void check_names(const char * text) {
    enum cache_part part;
    size_t stem;
    if (scan_is_kernel_file(text, &part, &stem)) {
        char kernel[CACHE_NAME_MAX], file[CACHE_FILE_MAX];
        if (stem >= sizeof kernel || strchr(text, '/') || text[0] == '.') {
            abort();
        }
        memcpy(kernel, text, stem);
        kernel[stem] = '\0';
        cache_file_name(kernel, part, file);
        if (strcmp(file, text)) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    char * text = fuzz_text(data, size);
    static const unseal_fn unseal[] = {unseal_kernel, unseal_code};
    for (int i = 0; i < 2; i++) {
        check_text(unseal[i], text, size);
        check_sealed(unseal[i], data, size);
    }
    check_names(text);
    struct buf diff = {0};
    size_t half = size / 2;
    if (entry_key_diff(text, half, text + half, size - half, &diff) < 0 ||
        entry_key_diff(text, size, text, size, &diff) != 0) {
        abort();
    }
    buf_free(&diff);
    free(text);
    return 0;
}

static void kernel_seed(bool sealed, uint8_t ** data, size_t * size) {
    struct kernel_spec spec = {.op = KERNEL_OP_SCALE, .n_inputs = 1, .params = {0x3f000000}};
    spec.inputs[0] = spec.output = tensor_contiguous(DTYPE_F32, (const int64_t[]){1024, 2, 1, 1});
    const struct keep_file pdi = {20480, {1, 2, 3}}, insts = {1234, {4, 5, 6}};
    const uint8_t verdict[SHA256_BYTES] = {7, 8, 9};
    struct buf key = {0}, text = {0};
    entry_print_key(&spec, "aie 0123456789abcdef", &key);
    entry_print(&key, &pdi, &insts, verdict, &text);
    *data = text.data;
    *size = text.size - (sealed ? 0 : 7 + 2 * SHA256_BYTES); // without its check line
    buf_free(&key);
}

static void code_seed(uint8_t ** data, size_t * size) {
    struct buf key = {0}, text = {0};
    buf_printf(&key,
               "%sformat %d\narch gfx90a\nversion 5.2\nname unary_f32\nsource 00\nflags -O3\n"
               "compiler hipcc /usr/bin/hipcc\n",
               hip_form.magic, hip_form.format);
    keep_seal(&hip_form, &key, &(struct keep_file){4096, {7, 8, 9}}, &text);
    *data = text.data;
    *size = text.size - 7 - 2 * SHA256_BYTES;
    buf_free(&key);
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const texts[] = {"add_f32.meta", "add_f32_insts.bin", "a.pdi", ".b.lock"};
    if (i < 2) {
        kernel_seed(i == 0, data, size);
        return true;
    }
    if (i == 2) {
        code_seed(data, size);
        return true;
    }
    return fuzz_texts(texts, 4, i - 3, data, size);
}

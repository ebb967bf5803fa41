// fuzz-record: arbitrary bytes as a recording that is there already. Either it is refused and stays
// as it is, or the kernel is in it afterwards; and what could be read as a configuration before can
// still be read.
#include "fuzz.h"

#include "base/json.h"
#include "kernel/config.h"
#include "store/record.h"

#include <stdlib.h>
#include <unistd.h>

const int fuzz_rounds = 1500;
const int fuzz_longest = 400;

static int file = -1;
static char variable[64] = "GGML_HSA_RECORD=/dev/shm/fuzz-record-XXXXXX";

static struct kernel_spec example(void) {
    struct kernel_spec spec = {.op = KERNEL_OP_RELU, .n_inputs = 1};
    spec.inputs[0] = spec.output = tensor_contiguous(DTYPE_F32, (const int64_t[]){64, 1, 1, 1});
    return spec;
}

static const char * path(void) {
    return strchr(variable, '=') + 1;
}

static void leave(void) {
    unlink(path());
}

// In memory where there is such a place; a file, for a recording follows no link to another.
static void begin(void) {
    if (file >= 0) {
        return;
    }
    file = mkstemp(strchr(variable, '=') + 1);
    if (file < 0) {
        strcpy(variable, "GGML_HSA_RECORD=/tmp/fuzz-record-XXXXXX");
        file = mkstemp(strchr(variable, '=') + 1);
    }
    if (file < 0 || putenv(variable) || atexit(leave)) {
        abort();
    }
}

static void write_all(const uint8_t * data, size_t size) {
    if (ftruncate(file, 0) || (size && pwrite(file, data, size, 0) != (ssize_t) size)) {
        abort();
    }
}

static char * read_all(size_t * size) {
    off_t n = lseek(file, 0, SEEK_END);
    char * text = malloc((size_t) n + 1);
    if (n < 0 || !text || pread(file, text, (size_t) n, 0) != (ssize_t) n) {
        abort();
    }
    *size = (size_t) n;
    return text;
}

static enum status add(struct error * err) {
    struct record * r;
    struct kernel_spec spec = example();
    if (record_open(&r, err) != ST_OK || !r) {
        abort();
    }
    enum status st = record_add(r, &spec, err);
    record_close(r);
    return st;
}

// Is it a configuration, of how many kernels?
static bool configuration(const char * text, size_t size, size_t * n) {
    json_t * root;
    if (json_read(text, size, &root, NULL) != ST_OK) {
        return false;
    }
    const json_t * kernels = json_object_get(root, "kernels");
    bool is = json_is_array(kernels);
    *n = json_array_size(kernels);
    json_decref(root);
    return is;
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    struct error err = {0};
    size_t before = 0, after = 0, now;
    begin();
    write_all(data, size);
    enum status st = add(&err);
    char * text = read_all(&now);
    bool same = now == size && !memcmp(text, data, size);
    if (st != ST_OK) {
        if (!same || !err.text[0]) {
            abort();
        }
    } else if (!size || configuration((const char *) data, size, &before)) {
        if (!configuration(text, now, &after) || after != before + !same ||
            !memmem(text, now, "relu", 4)) {
            abort();
        }
    }
    free(text);
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const texts[] = {"", "{\"kernels\": [\n]}\n", "{\"kernels\": [\n{}\n]}\n"};
    if (i > 0) {
        return fuzz_texts(texts, sizeof texts / sizeof texts[0], i - 1, data, size);
    }
    begin();
    write_all(NULL, 0);
    if (add(NULL) != ST_OK) {
        abort();
    }
    *data = (uint8_t *) read_all(size);
    return true;
}

// fuzz-tensor: arbitrary bytes as the text of a tensor. What is read has a size that can be told,
// and printed and read again it is the same tensor.
#include "fuzz.h"

#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

const int fuzz_rounds = 20000;
const int fuzz_longest = 160;

static struct tensor read_back(const struct tensor * t) {
    struct buf text = {0};
    struct tensor back;
    tensor_print(t, &text);
    if (text.failed || tensor_parse((char *) text.data, &back, NULL) != ST_OK) {
        abort();
    }
    buf_free(&text);
    return back;
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    char * text = fuzz_text(data, size);
    struct tensor t;
    struct error err = {0};
    enum status st = tensor_parse(text, &t, &err);
    if (st != ST_OK && (st != ST_INVALID || err.status != st || !err.text[0])) {
        abort();
    }
    if (st == ST_OK) {
        int64_t bytes = tensor_bytes(&t), n = tensor_elements(&t);
        if (bytes < 0 || n < 0 || (n && bytes < dtype_size(t.dtype))) {
            abort();
        }
        // Strides that nothing follows may be told otherwise; all else is told as it is.
        struct tensor back = read_back(&t);
        struct tensor a = tensor_canonical(&t), b = tensor_canonical(&back);
        if (back.dtype != t.dtype || !tensor_same_shape(&t, &back) ||
            tensor_bytes(&back) != bytes ||
            tensor_is_contiguous(&t) != tensor_is_contiguous(&back) ||
            (n && memcmp(a.nb, b.nb, sizeof a.nb)) || !tensor_can_repeat(&t, &back)) {
            abort();
        }
    }
    free(text);
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const texts[] = {
        "(1024,1,1,1)/f32",
        "(64,2,3,4)/bf16/(2,128,256,1024)",
        " ( 7 , 5 , 1 , 1 ) / i8 / ( 1 , 7 , 35 , 35 ) ",
        "(0,1,2,3)/f16/(1,4,4,8)",
        "(9223372036854775807,1,1,1)/i16",
        "(3,1,1,1)/i32/(4,9223372036854775807,1,0)",
    };
    return fuzz_texts(texts, sizeof texts / sizeof texts[0], i, data, size);
}

// fuzz-svg: a PDI and an instruction stream as a picture of the array, as `ggml-hsa inspect --svg`
// draws it. However far the two can be read, and whatever the file is called, it is an SVG with
// nothing in it but what a picture has. Input: a length and so many bytes of a title, then what
// dispatch.h tells.
#include "dispatch.h"
#include "xml.h"

#include "inspect.h"

const int fuzz_rounds = 20;
const int fuzz_longest = 4096;

enum { MOST_TITLE = 63, SEEDS = 8 };

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    static struct view v;
    struct dispatch d = {0};
    size_t title = size ? data[0] & MOST_TITLE : 0;
    title = title < size ? title : size ? size - 1 : 0;
    if (size < 1 || !dispatch_read(data + 1 + title, size - 1 - title, &d)) {
        return 0;
    }
    char * text = fuzz_text(data + 1, title);
    struct buf b = {0};
    v = (struct view){0};
    pdi_read(d.pdi, d.pdi_size, view_apply, &v, NULL);
    txn_read((const uint8_t *) d.insts, 4 * d.n_insts, view_apply, &v, NULL);
    svg_print(&v, text, &b);
    if (b.failed) {
        abort();
    }
    xml_check((char *) b.data, b.size);
    buf_free(&b);
    free(text);
    free(d.pdi);
    free(d.insts);
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const titles[] = {"a.pdi", "<b> & \"c\"", "\xc3\xa4\xef\xbf\xbe\x1b[m",
                                          "]]></svg>"};
    const char * title = titles[i % 4];
    uint8_t * rest;
    size_t n = strlen(title), rest_size = 0;
    if (i == SEEDS || !dispatch_seed(i, &rest, &rest_size)) {
        return false;
    }
    *data = rest ? malloc(1 + n + rest_size) : NULL;
    if (*data) {
        (*data)[0] = (uint8_t) n;
        memcpy(*data + 1, title, n);
        memcpy(*data + 1 + n, rest, rest_size);
    }
    *size = 1 + n + rest_size;
    free(rest);
    return true;
}

// tensor: datatypes, shapes, strides and their text form. Every product is checked: a shape comes
// from graphs and configuration files, so a dimension may be any 64-bit number.
#include "tensor.h"

#include <ctype.h>
#include <string.h>

static const struct {
    const char * name;
    int size;
} dtypes[DTYPE_COUNT] = {
    [DTYPE_F32] = {"f32", 4}, [DTYPE_F16] = {"f16", 2}, [DTYPE_BF16] = {"bf16", 2},
    [DTYPE_I8] = {"i8", 1},   [DTYPE_I16] = {"i16", 2}, [DTYPE_I32] = {"i32", 4},
};

const char * dtype_name(enum dtype t) {
    return (unsigned) t < DTYPE_COUNT ? dtypes[t].name : "invalid";
}

bool dtype_parse(const char * text, enum dtype * out) {
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (!strcmp(text, dtypes[i].name)) {
            *out = (enum dtype) i;
            return true;
        }
    }
    return false;
}

int dtype_size(enum dtype t) {
    return (unsigned) t < DTYPE_COUNT ? dtypes[t].size : 0;
}

// ---- arithmetic on shapes: operands are not negative ----

static bool mul_overflows(int64_t a, int64_t b, int64_t * out) {
    if (a < 0 || b < 0 || (b && a > INT64_MAX / b)) {
        return true;
    }
    *out = a * b;
    return false;
}

// Saturates, so that a stride which cannot be told is never mistaken for one that can be reached.
static int64_t next_stride(int64_t stride, int64_t ne) {
    int64_t next;
    return mul_overflows(stride, ne, &next) ? INT64_MAX : next;
}

struct tensor tensor_contiguous(enum dtype t, const int64_t ne[TENSOR_DIMS]) {
    struct tensor out = {.dtype = t};
    int64_t stride = dtype_size(t);
    for (int i = 0; i < TENSOR_DIMS; i++) {
        out.ne[i] = ne[i];
        out.nb[i] = stride;
        stride = next_stride(stride, ne[i]);
    }
    return out;
}

struct tensor tensor_canonical(const struct tensor * t) {
    struct tensor out = *t;
    int64_t packed = dtype_size(t->dtype);
    for (int i = 0; i < TENSOR_DIMS; i++) {
        if (out.ne[i] == 1) {
            out.nb[i] = packed;
        }
        packed = next_stride(out.nb[i], out.ne[i]);
    }
    return out;
}

int64_t tensor_elements(const struct tensor * t) {
    bool empty = false;
    for (int i = 0; i < TENSOR_DIMS; i++) {
        if (t->ne[i] < 0) {
            return -1;
        }
        empty |= t->ne[i] == 0;
    }
    int64_t n = empty ? 0 : 1;
    for (int i = 0; i < TENSOR_DIMS; i++) {
        if (mul_overflows(n, t->ne[i], &n)) {
            return -1;
        }
    }
    return n;
}

int64_t tensor_bytes(const struct tensor * t) {
    int64_t span = dtype_size(t->dtype);
    bool empty = false;
    for (int i = 0; i < TENSOR_DIMS; i++) {
        if (t->ne[i] < 0 || t->nb[i] < 0) {
            return -1;
        }
        empty |= t->ne[i] == 0;
    }
    if (empty) {
        return 0;
    }
    for (int i = 0; i < TENSOR_DIMS; i++) {
        int64_t reach;
        if (mul_overflows(t->ne[i] - 1, t->nb[i], &reach) || reach > INT64_MAX - span) {
            return -1;
        }
        span += reach;
    }
    return span;
}

bool tensor_is_contiguous(const struct tensor * t) {
    struct tensor packed = tensor_contiguous(t->dtype, t->ne);
    for (int i = 0; i < TENSOR_DIMS; i++) {
        if (t->ne[i] != 1 && t->nb[i] != packed.nb[i]) {
            return false;
        }
    }
    return true;
}

bool tensor_same_shape(const struct tensor * a, const struct tensor * b) {
    return !memcmp(a->ne, b->ne, sizeof a->ne);
}

static bool is_empty(const struct tensor * t) {
    for (int i = 0; i < TENSOR_DIMS; i++) {
        if (t->ne[i] == 0) {
            return true;
        }
    }
    return false;
}

bool tensor_can_repeat(const struct tensor * b, const struct tensor * a) {
    if (is_empty(b)) {
        return is_empty(a);
    }
    for (int i = 0; i < TENSOR_DIMS; i++) {
        if (b->ne[i] < 0 || a->ne[i] < 0 || a->ne[i] % b->ne[i]) {
            return false;
        }
    }
    return true;
}

// ---- text ----

#define SHOWN "%.160s" // of the descriptor in an error; the rest of a longer one tells no more

static enum status invalid(struct error * err, const char * text, const char * reason) {
    return error_set(err, ST_INVALID,
                     "Invalid tensor descriptor: '" SHOWN "' (%s; write (d0,d1,d2,d3)/dtype or "
                     "(d0,d1,d2,d3)/dtype/(s0,s1,s2,s3))",
                     text, reason);
}

static const char * skip_space(const char * p) {
    while (isspace((unsigned char) *p)) {
        p++;
    }
    return p;
}

// "(n,n,...)" of any count; the first four are kept. Returns a reason on failure, else NULL.
static const char * parse_list(const char ** at, int64_t values[TENSOR_DIMS], int * count) {
    const char * p = skip_space(*at);
    if (*p != '(') {
        return "'(' is missing";
    }
    p = skip_space(p + 1);
    for (*count = 0;; p = skip_space(p + 1)) {
        if (!isdigit((unsigned char) *p)) {
            return "a number of 0 or more is missing";
        }
        int64_t n = 0;
        for (; isdigit((unsigned char) *p); p++) {
            int digit = *p - '0';
            if (n > (INT64_MAX - digit) / 10) {
                return "a number is beyond 64 bits";
            }
            n = n * 10 + digit;
        }
        if (*count < TENSOR_DIMS) {
            values[*count] = n;
        }
        ++*count;
        p = skip_space(p);
        if (*p == ')') {
            *at = skip_space(p + 1);
            return NULL;
        }
        if (*p != ',') {
            return "',' or ')' is missing";
        }
    }
}

static enum status parse_dtype(const char ** at, const char * text, enum dtype * out,
                               struct error * err) {
    const char * start = skip_space(*at);
    size_t n = 0;
    while (start[n] && start[n] != '/' && !isspace((unsigned char) start[n])) {
        n++;
    }
    if (n == 0) {
        return invalid(err, text, "the dtype is missing");
    }
    char name[8] = "";
    if (n < sizeof name) {
        memcpy(name, start, n);
    }
    if (!dtype_parse(name, out)) {
        return error_set(err, ST_INVALID,
                         "Unknown dtype '%.*s' in '" SHOWN
                         "' (known: f32, f16, bf16, i8, i16, i32)",
                         n > 40 ? 40 : (int) n, start, text);
    }
    *at = skip_space(start + n);
    return ST_OK;
}

// Strides are bytes. Of a datatype that is larger than a byte they are multiples of its size, so
// that a list in which one is not (the 1 of elements that follow each other) counts elements. Those
// of dimensions of one element may be anything, and tell nothing.
static bool strides_to_bytes(const int64_t ne[TENSOR_DIMS], int64_t nb[TENSOR_DIMS], int64_t size) {
    bool in_bytes = true;
    for (int i = 0; i < TENSOR_DIMS; i++) {
        in_bytes &= ne[i] <= 1 || nb[i] % size == 0;
    }
    for (int i = 0; i < TENSOR_DIMS && !in_bytes; i++) {
        if (mul_overflows(nb[i], size, &nb[i])) {
            return false;
        }
    }
    return true;
}

enum status tensor_parse(const char * text, struct tensor * out, struct error * err) {
    const char * p = text;
    int64_t ne[TENSOR_DIMS] = {0}, nb[TENSOR_DIMS] = {0};
    int count;
    enum dtype dtype = DTYPE_F32;

    const char * reason = parse_list(&p, ne, &count);
    if (reason) {
        return invalid(err, text, reason);
    }
    if (*p != '/') {
        return invalid(err, text, "'/dtype' is missing");
    }
    if (count != TENSOR_DIMS) {
        return error_set(err, ST_INVALID,
                         "Shape must have exactly 4 dimensions, got %d in '" SHOWN
                         "' (use 1 for those that are not needed)",
                         count, text);
    }
    p++;
    enum status st = parse_dtype(&p, text, &dtype, err);
    if (st != ST_OK) {
        return st;
    }
    struct tensor t = tensor_contiguous(dtype, ne);
    if (*p == '/') {
        p++;
        reason = parse_list(&p, nb, &count);
        if (reason) {
            return invalid(err, text, reason);
        }
        if (count != TENSOR_DIMS) {
            return invalid(err, text, "there must be exactly 4 strides");
        }
        if (!strides_to_bytes(ne, nb, dtype_size(dtype))) {
            return invalid(err, text, "a stride is beyond 64 bits");
        }
        memcpy(t.nb, nb, sizeof nb);
    }
    if (*p) {
        return invalid(err, text, "there is something behind its end");
    }
    if (tensor_elements(&t) < 0 || tensor_bytes(&t) < 0) {
        return invalid(err, text, "its size is beyond 64 bits");
    }
    *out = t;
    return ST_OK;
}

static void print_list(const int64_t v[TENSOR_DIMS], struct buf * b) {
    buf_printf(b, "(%lld,%lld,%lld,%lld)", (long long) v[0], (long long) v[1], (long long) v[2],
               (long long) v[3]);
}

void tensor_print(const struct tensor * t, struct buf * b) {
    print_list(t->ne, b);
    buf_printf(b, "/%s", dtype_name(t->dtype));
    if (!tensor_is_contiguous(t)) {
        buf_printf(b, "/");
        print_list(t->nb, b);
    }
}

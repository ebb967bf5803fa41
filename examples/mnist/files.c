// files: digits from IDX files, networks from and to GGUF files. Both are bytes from outside: every
// length is checked against what is there before it is used, and an error names the file, what is
// wrong with it, and how to mend it.
#include "mnist.h"

#include "base/out.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf.h"

#define MAX_IDX_BYTES  ((size_t) 64 << 20) // the largest file of the set has 47 MB
#define MAX_GGUF_BYTES ((size_t) 64 << 20)
#define ARCHITECTURE   "mnist-fc"
#define TO_MEND        "sh cmake/mnist.sh .deps gets the files of MNIST"

// ---- IDX ----
// Big-endian words: a magic number whose last byte is the number of dimensions, then the
// dimensions, then the bytes themselves.

static uint32_t big_u32(const uint8_t * p) {
    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
}

// The file must have exactly the dimensions n, dims[0], dims[1] ...; the bytes behind the header
// are moved to its front.
static enum status idx_read(const char * path, const uint32_t * dims, uint32_t n_dims,
                            uint8_t ** data, int64_t * n, struct error * err) {
    uint8_t * bytes = NULL;
    size_t size = 0;
    enum status st = file_read(path, MAX_IDX_BYTES, &bytes, &size, err);
    if (st == ST_NOT_FOUND) {
        return error_set(err, st, "%s: not there; " TO_MEND, path);
    }
    if (st != ST_OK) {
        return st;
    }
    size_t header = 8 + 4 * (size_t) n_dims, each = 1;
    uint32_t magic = 0x800 + n_dims + 1;
    if (size < header) {
        st = error_set(err, ST_CORRUPT, "%s: %zu bytes are less than a header; " TO_MEND, path,
                       size);
    } else if (big_u32(bytes) != magic) {
        st = error_set(
            err, ST_CORRUPT, "%s: starts with 0x%08x, an IDX file of %u dimensions with 0x%08x%s",
            path, (unsigned) big_u32(bytes), (unsigned) n_dims + 1, (unsigned) magic,
            bytes[0] == 0x1f && bytes[1] == 0x8b ? "; it is compressed: gunzip it first" : "");
    }
    for (uint32_t i = 0; i < n_dims && st == ST_OK; i++) {
        each *= dims[i];
        if (big_u32(bytes + 8 + 4 * i) != dims[i]) {
            st =
                error_set(err, ST_INVALID, "%s: dimension %u is %u, not %u", path, (unsigned) i + 1,
                          (unsigned) big_u32(bytes + 8 + 4 * i), (unsigned) dims[i]);
        }
    }
    if (st == ST_OK) {
        uint64_t count = big_u32(bytes + 4);
        if (count == 0) {
            st = error_set(err, ST_INVALID, "%s: holds no digits", path);
        } else if ((uint64_t) (size - header) != count * each) {
            st = error_set(err, ST_CORRUPT,
                           "%s: %llu digits need %llu bytes, the file has %zu; " TO_MEND, path,
                           (unsigned long long) count, (unsigned long long) (count * each + header),
                           size);
        }
        *n = (int64_t) count;
    }
    if (st != ST_OK) {
        free(bytes);
        return st;
    }
    memmove(bytes, bytes + header, size - header);
    *data = bytes;
    return ST_OK;
}

enum status digits_read(const char * dir, const char * set, struct digits * out,
                        struct error * err) {
    static const uint32_t image[] = {MNIST_SIDE, MNIST_SIDE};
    *out = (struct digits){0};
    char images[4096], labels[4096];
    if (snprintf(images, sizeof images, "%s/%s-images-idx3-ubyte", dir, set) >=
            (int) sizeof images ||
        snprintf(labels, sizeof labels, "%s/%s-labels-idx1-ubyte", dir, set) >=
            (int) sizeof labels) {
        return error_set(err, ST_INVALID, "%.64s...: the path is too long", dir);
    }
    struct digits d = {0};
    int64_t n_labels = 0;
    enum status st = idx_read(images, image, 2, &d.pixels, &d.n, err);
    if (st == ST_OK) {
        st = idx_read(labels, NULL, 0, &d.labels, &n_labels, err);
    }
    if (st == ST_OK && n_labels != d.n) {
        st = error_set(err, ST_CORRUPT, "%s: %lld labels for %lld images; " TO_MEND, labels,
                       (long long) n_labels, (long long) d.n);
    }
    for (int64_t i = 0; st == ST_OK && i < d.n; i++) {
        if (d.labels[i] >= MNIST_CLASSES) {
            st = error_set(err, ST_CORRUPT, "%s: label %lld is %d, not a digit; " TO_MEND, labels,
                           (long long) i, d.labels[i]);
        }
    }
    if (st != ST_OK) {
        digits_free(&d);
        return st;
    }
    *out = d;
    return ST_OK;
}

void digits_free(struct digits * d) {
    free(d->pixels);
    free(d->labels);
    *d = (struct digits){0};
}

// ---- networks ----

// The shape of each tensor; HIDDEN stands for the size of the hidden layer.
#define HIDDEN (-1)
static const struct {
    const char * name;
    bool is_weight;
    int64_t ne[2];
} tensor_table[NET_TENSORS] = {
    [FC1_WEIGHT] = {"fc1.weight", true, {MNIST_PIXELS, HIDDEN}},
    [FC1_BIAS] = {"fc1.bias", false, {HIDDEN, 1}},
    [FC2_WEIGHT] = {"fc2.weight", true, {HIDDEN, MNIST_CLASSES}},
    [FC2_BIAS] = {"fc2.bias", false, {MNIST_CLASSES, 1}},
};

static int64_t extent(int tensor, int dim, int64_t hidden) {
    int64_t n = tensor_table[tensor].ne[dim];
    return n == HIDDEN ? hidden : n;
}

enum status net_new(struct net * out, int64_t hidden, enum ggml_type type,
                    ggml_backend_buffer_type_t buft, struct error * err) {
    *out = (struct net){0};
    if (hidden < 1 || hidden > MNIST_MAX_HIDDEN) {
        return error_set(err, ST_INVALID, "a hidden layer of %lld: it may have 1 to %d",
                         (long long) hidden, MNIST_MAX_HIDDEN);
    }
    struct net net = {.hidden = hidden};
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * NET_TENSORS,
                                      .no_alloc = true};
    net.ctx = ggml_init(params);
    if (!net.ctx) {
        return error_set(err, ST_NO_MEMORY, "no memory for a network");
    }
    for (int i = 0; i < NET_TENSORS; i++) {
        enum ggml_type t = tensor_table[i].is_weight ? type : GGML_TYPE_F32;
        int64_t ne0 = extent(i, 0, hidden), ne1 = extent(i, 1, hidden);
        net.tensors[i] = tensor_table[i].is_weight ? ggml_new_tensor_2d(net.ctx, t, ne0, ne1)
                                                   : ggml_new_tensor_1d(net.ctx, t, ne0);
        ggml_set_name(net.tensors[i], tensor_table[i].name);
    }
    net.buffer = ggml_backend_alloc_ctx_tensors_from_buft(net.ctx, buft);
    if (!net.buffer) {
        ggml_free(net.ctx);
        return error_set(err, ST_NO_MEMORY, "no memory for a network in %s",
                         ggml_backend_buft_name(buft));
    }
    *out = net;
    return ST_OK;
}

void net_free(struct net * net) {
    ggml_backend_buffer_free(net->buffer);
    ggml_free(net->ctx);
    *net = (struct net){0};
}

static enum status check_architecture(const struct gguf_context * gguf, const char * path,
                                      struct error * err) {
    int64_t key = gguf_find_key(gguf, "general.architecture");
    if (key < 0 || gguf_get_kv_type(gguf, key) != GGUF_TYPE_STRING) {
        return error_set(err, ST_INVALID,
                         "%s: does not say what network it holds (general.architecture)", path);
    }
    const char * value = gguf_get_val_str(gguf, key);
    if (strcmp(value, ARCHITECTURE) != 0) {
        return error_set(err, ST_UNSUPPORTED, "%s: holds a network of the kind '%.40s', not '%s'",
                         path, value, ARCHITECTURE);
    }
    return ST_OK;
}

// Finds tensor i of a network with the given hidden layer; its bytes lie inside the file.
static enum status find_tensor(const struct gguf_context * gguf, size_t file_size,
                               const char * path, int i, int64_t hidden, int64_t * id, size_t * at,
                               struct error * err) {
    const char * name = tensor_table[i].name;
    *id = gguf_find_tensor(gguf, name);
    if (*id < 0) {
        return error_set(err, ST_INVALID, "%s: has no tensor '%s'", path, name);
    }
    const int64_t * ne = gguf_get_tensor_ne(gguf, *id);
    int64_t ne0 = extent(i, 0, hidden), ne1 = extent(i, 1, hidden);
    if (ne[0] != ne0 || ne[1] != ne1 || ne[2] != 1 || ne[3] != 1) {
        return error_set(err, ST_INVALID, "%s: %s is [%lld, %lld, %lld, %lld], not [%lld, %lld]",
                         path, name, (long long) ne[0], (long long) ne[1], (long long) ne[2],
                         (long long) ne[3], (long long) ne0, (long long) ne1);
    }
    enum ggml_type type = gguf_get_tensor_type(gguf, *id);
    bool fits = type == GGML_TYPE_F32 ||
                (tensor_table[i].is_weight && (type == GGML_TYPE_F16 || type == GGML_TYPE_BF16));
    if (!fits) {
        return error_set(err, ST_UNSUPPORTED,
                         "%s: %s is of type %s; weights may be f32, f16 or bf16, biases f32", path,
                         name, ggml_type_name(type));
    }
    size_t data = gguf_get_data_offset(gguf), offset = gguf_get_tensor_offset(gguf, *id);
    size_t bytes = gguf_get_tensor_size(gguf, *id);
    if (data > file_size || offset > file_size - data || bytes > file_size - data - offset) {
        return error_set(err, ST_CORRUPT, "%s: ends within %s; copy the file anew", path, name);
    }
    *at = data + offset;
    return ST_OK;
}

enum status net_load(struct net * out, const char * path, ggml_backend_buffer_type_t buft,
                     struct error * err) {
    *out = (struct net){0};
    uint8_t * bytes = NULL;
    size_t size = 0;
    enum status st = file_read(path, MAX_GGUF_BYTES, &bytes, &size, err);
    if (st == ST_NOT_FOUND) {
        return error_set(err, st, "%s: not there; mnist-train makes one", path);
    }
    if (st != ST_OK) {
        return st;
    }
    struct gguf_init_params params = {.no_alloc = true, .ctx = NULL};
    struct gguf_context * gguf = size ? gguf_init_from_file(path, params) : NULL;
    struct net net = {0};
    if (!gguf) {
        st = error_set(err, ST_CORRUPT, "%s: not a GGUF file, or a damaged one", path);
    } else {
        st = check_architecture(gguf, path, err);
    }

    // The hidden layer is as large as the first bias says, and all else must agree with that.
    int64_t hidden = 0, id, ids[NET_TENSORS];
    size_t at[NET_TENSORS] = {0};
    if (st == ST_OK) {
        id = gguf_find_tensor(gguf, tensor_table[FC1_BIAS].name);
        hidden = id < 0 ? 1 : gguf_get_tensor_ne(gguf, id)[0];
        if (hidden < 1 || hidden > MNIST_MAX_HIDDEN) {
            st = error_set(err, ST_INVALID, "%s: a hidden layer of %lld: it may have 1 to %d", path,
                           (long long) hidden, MNIST_MAX_HIDDEN);
        }
    }
    for (int i = 0; i < NET_TENSORS && st == ST_OK; i++) {
        st = find_tensor(gguf, size, path, i, hidden, &ids[i], &at[i], err);
    }
    if (st == ST_OK && gguf_get_tensor_type(gguf, ids[FC1_WEIGHT]) !=
                           gguf_get_tensor_type(gguf, ids[FC2_WEIGHT])) {
        st = error_set(err, ST_UNSUPPORTED, "%s: the weights are of different types", path);
    }
    if (st == ST_OK) {
        st = net_new(&net, hidden, gguf_get_tensor_type(gguf, ids[FC1_WEIGHT]), buft, err);
    }
    for (int i = 0; i < NET_TENSORS && st == ST_OK; i++) {
        ggml_backend_tensor_set(net.tensors[i], bytes + at[i], 0, ggml_nbytes(net.tensors[i]));
    }
    gguf_free(gguf);
    free(bytes);
    *out = net;
    return st;
}

// As gguf_write_to_file does, which takes a path and would follow what lies there.
static enum status write_gguf(const struct gguf_context * gguf, const struct net * net, FILE * f,
                              struct error * err) {
    size_t meta = gguf_get_meta_size(gguf), align = gguf_get_alignment(gguf), most = meta;
    for (int i = 0; i < NET_TENSORS; i++) {
        size_t n = ggml_nbytes(net->tensors[i]) + align;
        most = n > most ? n : most;
    }
    uint8_t * bytes = malloc(most);
    if (!bytes) {
        return error_set(err, ST_NO_MEMORY, "no memory for %zu bytes", most);
    }
    gguf_get_meta_data(gguf, bytes);
    (void) fwrite(bytes, 1, meta, f); // out_end tells
    for (int i = 0; i < NET_TENSORS; i++) {
        size_t n = ggml_nbytes(net->tensors[i]), padded = (n + align - 1) / align * align;
        memset(bytes, 0, padded);
        ggml_backend_tensor_get(net->tensors[i], bytes, 0, n);
        (void) fwrite(bytes, 1, padded, f);
    }
    free(bytes);
    return ST_OK;
}

enum status net_save(const struct net * net, const char * path, const char * description,
                     struct error * err) {
    struct gguf_context * gguf = gguf_init_empty();
    gguf_set_val_str(gguf, "general.architecture", ARCHITECTURE);
    gguf_set_val_str(gguf, "general.description", description);
    for (int i = 0; i < NET_TENSORS; i++) {
        gguf_add_tensor(gguf, net->tensors[i]);
    }
    struct out out;
    enum status st = out_begin(path, &out, err);
    if (st == ST_OK && (st = write_gguf(gguf, net, out.file, err)) != ST_OK) {
        out_drop(&out);
    } else if (st == ST_OK) {
        st = out_end(&out, err);
    }
    if (st != ST_OK) {
        error_prefix(err, st, "%s: cannot be written", path);
    }
    gguf_free(gguf);
    return st;
}

// fuzz-mnist: arbitrary bytes as the files that the MNIST examples read: a network in GGUF, or
// digits in IDX. What is accepted is whole, and saved again it is the same network.
//
// Input: 1 byte, even: a GGUF file; odd: the size of the images' file (2 bytes), that file, and the
// labels.
#include "fuzz.h"

#include "gguf.h"
#include "mnist.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

const int fuzz_rounds = 500;
const int fuzz_longest = 8192;

static int files[2] = {-1, -1}; // in memory; links to them have the names that are asked for
static char dir[] = "/tmp/fuzz-mnist-XXXXXX";
static const char * const names[2] = {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

static void leave(void) {
    for (int i = 0; i < 2; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

static void silent(enum ggml_log_level level, const char * text, void * user) {
    (void) level, (void) text, (void) user;
}

static void begin(void) {
    if (files[0] >= 0) {
        return;
    }
    ggml_log_set(silent, NULL);
    if (!mkdtemp(dir) || atexit(leave)) {
        abort();
    }
    for (int i = 0; i < 2; i++) {
        char link[128], to[64];
        files[i] = memfd_create(names[i], MFD_CLOEXEC);
        snprintf(to, sizeof to, "/proc/self/fd/%d", files[i]);
        snprintf(link, sizeof link, "%s/%s", dir, names[i]);
        if (files[i] < 0 || symlink(to, link)) {
            abort();
        }
    }
}

static void put(int i, const uint8_t * data, size_t size) {
    if (ftruncate(files[i], 0) || (size && pwrite(files[i], data, size, 0) != (ssize_t) size)) {
        abort();
    }
}

static void check_network(void) {
    struct net net;
    struct error err = {0};
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, names[0]);
    enum status st = net_load(&net, path, ggml_backend_cpu_buffer_type(), &err);
    if (st != ST_OK) {
        if (net.ctx || net.buffer || !strstr(err.text, path)) {
            abort();
        }
        return;
    }
    if (net.hidden < 1 || net.hidden > MNIST_MAX_HIDDEN ||
        net.tensors[FC1_BIAS]->ne[0] != net.hidden ||
        net.tensors[FC1_WEIGHT]->ne[0] != MNIST_PIXELS) {
        abort();
    }
    net_free(&net);
}

static void check_digits(void) {
    struct digits d;
    struct error err = {0};
    enum status st = digits_read(dir, "t10k", &d, &err);
    if (st != ST_OK ? d.n || d.pixels || d.labels || !err.text[0] : d.n < 1) {
        abort();
    }
    for (int64_t i = 0; i < d.n; i++) {
        if (d.labels[i] >= MNIST_CLASSES) {
            abort();
        }
    }
    digits_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    begin();
    if (size < 3) {
        return 0;
    }
    if (data[0] % 2 == 0) {
        put(0, data + 1, size - 1);
        check_network();
        return 0;
    }
    size_t first = data[1] | (size_t) data[2] << 8;
    first = first < size - 3 ? first : size - 3;
    put(0, data + 3, first);
    put(1, data + 3 + first, size - 3 - first);
    check_digits();
    return 0;
}

// ---- seeds ----

static void network(enum ggml_type type, struct buf * b) {
    struct net net;
    char path[128];
    uint8_t * bytes;
    size_t size;
    snprintf(path, sizeof path, "%s/net", dir);
    if (net_new(&net, 1, type, ggml_backend_cpu_buffer_type(), NULL) != ST_OK) {
        abort();
    }
    memset(ggml_backend_buffer_get_base(net.buffer), 0, ggml_backend_buffer_get_size(net.buffer));
    if (net_save(&net, path, "a seed", NULL) != ST_OK ||
        file_read(path, 1 << 20, &bytes, &size, NULL) != ST_OK) {
        abort();
    }
    buf_append(b, "\0", 1);
    buf_append(b, bytes, size);
    unlink(path);
    free(bytes);
    net_free(&net);
}

static void digits(uint8_t n, struct buf * b) {
    const uint8_t images[16] = {0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, MNIST_SIDE, 0, 0, 0, MNIST_SIDE};
    const uint8_t labels[8] = {0, 0, 8, 1, 0, 0, 0, n}, pixels[MNIST_PIXELS] = {0};
    size_t size = sizeof images + n * sizeof pixels;
    const uint8_t head[3] = {1, (uint8_t) size, (uint8_t) (size >> 8)};
    buf_append(b, head, 3);
    buf_append(b, images, sizeof images);
    for (int i = 0; i < n; i++) {
        buf_append(b, pixels, sizeof pixels);
    }
    buf_append(b, labels, sizeof labels);
    for (uint8_t i = 0; i < n; i++) {
        buf_append(b, &i, 1);
    }
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};
    struct buf b = {0};
    begin();
    if (i < 3) {
        network(types[i], &b);
    } else if (i < 5) {
        digits((uint8_t) (i - 2), &b);
    } else {
        return false;
    }
    *data = b.data;
    *size = b.size;
    return true;
}

// The readers of the MNIST example against files that are short, damaged or made to mislead.
// Nothing that is wrong may load, and nothing may be read outside of a file; run under ASan as
// well.
#include "base/cmocka-all.h"
#include "base/stand-ins.h"
#include "mnist.h"

#include <sys/stat.h>
#include <unistd.h>

#include "gguf.h"

static char dir[64], images[128], labels[128], model[128];

static void put(const char * path, const void * data, size_t size) {
    FILE * f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void expect(enum status st, enum status wanted, const struct error * err, const char * file,
                   const char * word) {
    if (st != wanted || !strstr(err->text, file) || !strstr(err->text, word)) {
        fail_msg("%s (wanted %s with '%s'): %s", status_name(st), status_name(wanted), word,
                 err->text);
    }
}

// ---- IDX ----

enum { N = 3, IMAGE_BYTES = 16 + N * MNIST_PIXELS, LABEL_BYTES = 8 + N };
static uint8_t image_file[IMAGE_BYTES], label_file[LABEL_BYTES];

static void good_idx(void) {
    static const uint8_t image_head[16] = {0, 0, 8, 3,          0, 0, 0, N,
                                           0, 0, 0, MNIST_SIDE, 0, 0, 0, MNIST_SIDE};
    static const uint8_t label_head[LABEL_BYTES] = {0, 0, 8, 1, 0, 0, 0, N, 7, 0, 9};
    memcpy(image_file, image_head, sizeof image_head);
    for (int i = 16; i < IMAGE_BYTES; i++) {
        image_file[i] = (uint8_t) (i * 37);
    }
    memcpy(label_file, label_head, sizeof label_head);
    put(images, image_file, IMAGE_BYTES);
    put(labels, label_file, LABEL_BYTES);
}

static enum status read_idx(struct error * err) {
    struct digits d;
    *err = (struct error){0};
    enum status st = digits_read(dir, "t10k", &d, err);
    if (st == ST_OK) {
        assert_int_equal(d.n, N);
        assert_memory_equal(d.pixels, image_file + 16, IMAGE_BYTES - 16);
        assert_memory_equal(d.labels, label_file + 8, N);
    } else {
        assert_null(d.pixels);
        assert_null(d.labels);
        assert_int_equal(d.n, 0);
    }
    digits_free(&d);
    return st;
}

static void test_idx(void ** state) {
    (void) state;
    struct error err;
    good_idx();
    assert_int_equal(read_idx(&err), ST_OK);
}

static void test_idx_truncated(void ** state) {
    (void) state;
    struct error err;
    good_idx();
    for (size_t n = 0; n < IMAGE_BYTES; n += n < 20 ? 1 : 97) {
        put(images, image_file, n);
        expect(read_idx(&err), ST_CORRUPT, &err, images, "bytes");
    }
    put(images, image_file, IMAGE_BYTES - 1);
    expect(read_idx(&err), ST_CORRUPT, &err, images, "bytes");
    good_idx();
    for (size_t n = 0; n < LABEL_BYTES; n++) {
        put(labels, label_file, n);
        expect(read_idx(&err), ST_CORRUPT, &err, labels, "bytes");
    }
    // One byte too many is as wrong as one too few.
    good_idx();
    uint8_t longer[LABEL_BYTES + 1];
    memcpy(longer, label_file, LABEL_BYTES);
    longer[LABEL_BYTES] = 1;
    put(labels, longer, sizeof longer);
    expect(read_idx(&err), ST_CORRUPT, &err, labels, "bytes");
}

static void test_idx_damaged(void ** state) {
    (void) state;
    static const struct {
        bool in_labels;
        int at;
        uint8_t bytes[4];
        enum status status;
        const char * word;
    } damage[] = {
        {false, 0, {0, 0, 8, 1}, ST_CORRUPT, "starts with 0x00000801"},
        {false, 0, {0x1f, 0x8b, 8, 0}, ST_CORRUPT, "gunzip"},
        {false, 4, {0, 0, 0, 0}, ST_INVALID, "no digits"},
        {false, 4, {0, 0, 0, N + 1}, ST_CORRUPT, "bytes"},
        {false, 4, {0xff, 0xff, 0xff, 0xff}, ST_CORRUPT, "4294967295 digits"},
        {false, 4, {0, 0x53, 0x97, 0x82}, ST_CORRUPT, "bytes"}, // times 784 just above 2^32
        {false, 8, {0, 0, 0, 27}, ST_INVALID, "dimension 1 is 27, not 28"},
        {false, 12, {0xff, 0xff, 0xff, 0xff}, ST_INVALID, "dimension 2 is 4294967295"},
        {true, 0, {0, 0, 8, 3}, ST_CORRUPT, "starts with 0x00000803"},
        {true, 4, {0, 0, 0, 0}, ST_INVALID, "no digits"},
        {true, 4, {0x80, 0, 0, 0}, ST_CORRUPT, "bytes"},
        {true, 7, {N, 10, 0, 9}, ST_CORRUPT, "label 0 is 10"},
        {true, 7, {N, 7, 0, 255}, ST_CORRUPT, "label 2 is 255"},
    };
    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        struct error err;
        good_idx();
        uint8_t * file = damage[i].in_labels ? label_file : image_file;
        memcpy(file + damage[i].at, damage[i].bytes, 4);
        put(images, image_file, IMAGE_BYTES);
        put(labels, label_file, LABEL_BYTES);
        expect(read_idx(&err), damage[i].status, &err, damage[i].in_labels ? labels : images,
               damage[i].word);
    }
    // Both files hold together, but not with each other.
    struct error err;
    good_idx();
    static const uint8_t two[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 2};
    put(labels, two, sizeof two);
    expect(read_idx(&err), ST_CORRUPT, &err, labels, "2 labels for 3 images");
}

static void test_idx_missing(void ** state) {
    (void) state;
    struct error err;
    good_idx();
    remove(labels);
    expect(read_idx(&err), ST_NOT_FOUND, &err, labels, "mnist.sh");
    remove(images);
    expect(read_idx(&err), ST_NOT_FOUND, &err, images, "mnist.sh");
    assert_int_equal(mkdir(images, 0700), 0);
    expect(read_idx(&err), ST_IO, &err, images, "regular");
    assert_int_equal(rmdir(images), 0);
    assert_int_equal(mkfifo(images, 0600), 0); // must not wait for a writer
    expect(read_idx(&err), ST_IO, &err, images, "regular");
    remove(images);
}

// ---- GGUF ----

enum { HIDDEN = 3, HEADER = 320 };

static ggml_backend_buffer_type_t host(void) {
    return ggml_backend_cpu_buffer_type();
}

static enum status load(struct error * err) {
    struct net net;
    *err = (struct error){0};
    enum status st = net_load(&net, model, host(), err);
    if (st != ST_OK) {
        assert_null(net.ctx);
        assert_null(net.buffer);
    }
    net_free(&net);
    return st;
}

static void fill(struct net * net) {
    for (int i = 0; i < NET_TENSORS; i++) {
        uint8_t * data = net->tensors[i]->data;
        for (size_t k = 0; k < ggml_nbytes(net->tensors[i]); k++) {
            data[k] = (uint8_t) (k * 31 + (size_t) i);
        }
    }
}

static void good_model(enum ggml_type type) {
    struct net net;
    struct error err = {0};
    assert_int_equal(net_new(&net, HIDDEN, type, host(), &err), ST_OK);
    fill(&net);
    assert_int_equal(net_save(&net, model, "a test", &err), ST_OK);
    net_free(&net);
}

static void test_model(void ** state) {
    (void) state;
    static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};
    for (int t = 0; t < 3; t++) {
        struct net made, net;
        struct error err = {0};
        good_model(types[t]);
        assert_int_equal(net_new(&made, HIDDEN, types[t], host(), &err), ST_OK);
        fill(&made);
        assert_int_equal(net_load(&net, model, host(), &err), ST_OK);
        assert_int_equal(net.hidden, HIDDEN);
        for (int i = 0; i < NET_TENSORS; i++) {
            assert_int_equal(net.tensors[i]->type, made.tensors[i]->type);
            assert_memory_equal(net.tensors[i]->data, made.tensors[i]->data,
                                ggml_nbytes(made.tensors[i]));
        }
        net_free(&net);
        net_free(&made);
    }
}

static void test_model_truncated(void ** state) {
    (void) state;
    struct error err;
    uint8_t * bytes;
    size_t size;
    good_model(GGML_TYPE_F16);
    assert_int_equal(file_read(model, 1 << 20, &bytes, &size, &err), ST_OK);
    // The last tensor has 40 bytes; what pads it to the alignment does not matter.
    size_t needed = size - (32 - 40 % 32);
    for (size_t n = 0; n < needed; n += n < 352 ? 1 : 89) {
        put(model, bytes, n);
        expect(load(&err), ST_CORRUPT, &err, model, n < 128 ? "GGUF" : "");
    }
    put(model, bytes, needed - 1);
    expect(load(&err), ST_CORRUPT, &err, model, "ends within fc2.bias");
    put(model, bytes, needed);
    assert_int_equal(load(&err), ST_OK);
    free(bytes);
}

// Whatever a byte of the header becomes, the file loads or is refused with a word.
static void test_model_damaged(void ** state) {
    (void) state;
    struct error err;
    uint8_t * bytes;
    size_t size, refused = 0;
    good_model(GGML_TYPE_F32);
    assert_int_equal(file_read(model, 1 << 20, &bytes, &size, &err), ST_OK);
    for (size_t at = 0; at < HEADER; at++) {
        static const uint8_t flips[] = {0x01, 0x80};
        for (size_t k = 0; k < sizeof flips; k++) {
            bytes[at] ^= flips[k];
            put(model, bytes, size);
            bytes[at] ^= flips[k];
            if (load(&err) != ST_OK) {
                assert_true(strstr(err.text, model) != NULL);
                refused++;
            }
        }
    }
    print_message("  %zu of %d damaged headers were refused\n", refused, HEADER * 2);
    assert_true(refused > HEADER);
    free(bytes);
}

// A file that is a good GGUF, but not our network. replaced: index of a tensor that is of another
// type or shape; left_out: index of one that is missing.
static void other_model(const char * architecture, int left_out, int replaced, enum ggml_type type,
                        int64_t ne0, int64_t ne1) {
    static const char * const names[] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};
    static const int64_t shapes[][2] = {
        {MNIST_PIXELS, HIDDEN}, {HIDDEN, 1}, {HIDDEN, MNIST_CLASSES}, {MNIST_CLASSES, 1}};
    struct ggml_init_params params = {.mem_size = 1 << 20};
    struct ggml_context * ctx = ggml_init(params);
    struct gguf_context * gguf = gguf_init_empty();
    if (architecture) {
        gguf_set_val_str(gguf, "general.architecture", architecture);
    } else {
        gguf_set_val_u32(gguf, "general.architecture", 1);
    }
    for (int i = 0; i < NET_TENSORS; i++) {
        if (i != left_out) {
            struct ggml_tensor * t =
                i == replaced ? ggml_new_tensor_2d(ctx, type, ne0, ne1)
                              : ggml_new_tensor_2d(ctx, GGML_TYPE_F32, shapes[i][0], shapes[i][1]);
            memset(t->data, 0, ggml_nbytes(t));
            ggml_set_name(t, names[i]);
            gguf_add_tensor(gguf, t);
        }
    }
    assert_true(gguf_write_to_file(gguf, model, false));
    gguf_free(gguf);
    ggml_free(ctx);
}

static void test_model_other(void ** state) {
    (void) state;
    static const struct {
        const char * architecture;
        int left_out, replaced;
        enum ggml_type type;
        int64_t ne0, ne1;
        enum status status;
        const char * word;
    } others[] = {
        {"mnist-fc", -1, -1, 0, 0, 0, ST_OK, ""},
        {"mnist-cnn", -1, -1, 0, 0, 0, ST_UNSUPPORTED, "'mnist-cnn'"},
        {NULL, -1, -1, 0, 0, 0, ST_INVALID, "general.architecture"},
        {"mnist-fc", FC1_WEIGHT, -1, 0, 0, 0, ST_INVALID, "no tensor 'fc1.weight'"},
        {"mnist-fc", FC1_BIAS, -1, 0, 0, 0, ST_INVALID, "fc1"},
        {"mnist-fc", FC2_BIAS, -1, 0, 0, 0, ST_INVALID, "no tensor 'fc2.bias'"},
        {"mnist-fc", -1, FC1_WEIGHT, GGML_TYPE_F32, MNIST_PIXELS, HIDDEN + 1, ST_INVALID,
         "fc1.weight is [784, 4, 1, 1]"},
        {"mnist-fc", -1, FC1_WEIGHT, GGML_TYPE_F32, HIDDEN, MNIST_PIXELS, ST_INVALID,
         "fc1.weight is [3, 784"},
        {"mnist-fc", -1, FC1_BIAS, GGML_TYPE_F32, HIDDEN + 5, 1, ST_INVALID, "fc1.weight"},
        {"mnist-fc", -1, FC1_BIAS, GGML_TYPE_F32, 5000, 1, ST_INVALID, "hidden layer of 5000"},
        {"mnist-fc", -1, FC2_BIAS, GGML_TYPE_F32, MNIST_CLASSES, 2, ST_INVALID, "fc2.bias"},
        {"mnist-fc", -1, FC2_BIAS, GGML_TYPE_F16, MNIST_CLASSES, 1, ST_UNSUPPORTED, "f16"},
        {"mnist-fc", -1, FC2_WEIGHT, GGML_TYPE_F16, HIDDEN, MNIST_CLASSES, ST_UNSUPPORTED,
         "different types"},
        {"mnist-fc", -1, FC2_WEIGHT, GGML_TYPE_I32, HIDDEN, MNIST_CLASSES, ST_UNSUPPORTED, "i32"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct error err;
        other_model(others[i].architecture, others[i].left_out, others[i].replaced, others[i].type,
                    others[i].ne0, others[i].ne1);
        enum status st = load(&err);
        if (others[i].status == ST_OK) {
            assert_int_equal(st, ST_OK);
        } else {
            expect(st, others[i].status, &err, model, others[i].word);
        }
    }
}

static void test_model_not_written(void ** state) {
    (void) state;
    struct net net;
    struct error err = {0};
    char path[160], part[192];
    assert_int_equal(net_new(&net, 0, GGML_TYPE_F32, host(), &err), ST_INVALID);
    assert_int_equal(net_new(&net, MNIST_MAX_HIDDEN + 1, GGML_TYPE_F32, host(), &err), ST_INVALID);
    assert_int_equal(net_new(&net, HIDDEN, GGML_TYPE_F32, host(), &err), ST_OK);
    fill(&net);
    snprintf(path, sizeof path, "%s/nowhere/model.gguf", dir);
    expect(net_save(&net, path, "", &err), ST_IO, &err, path, "cannot be written");
    // A directory stands where the file should go: nothing half done is left beside it.
    snprintf(path, sizeof path, "%s/there", dir);
    snprintf(part, sizeof part, "%s.part", path);
    assert_int_equal(mkdir(path, 0700), 0);
    expect(net_save(&net, path, "", &err), ST_IO, &err, path, "cannot be written");
    assert_int_not_equal(access(part, F_OK), 0);
    assert_int_equal(rmdir(path), 0);
    net_free(&net);
    remove(model);
    expect(load(&err), ST_NOT_FOUND, &err, model, "mnist-train");
}

static void test_model_no_file(void ** state) {
    (void) state;
    struct net net;
    struct error err = {0};
    assert_int_equal(net_new(&net, HIDDEN, GGML_TYPE_F32, host(), &err), ST_OK);
    fill(&net);
    remove(model);
    for (int kind = 0; stand_ins[kind]; kind++) {
        struct stand_in s;
        if (stand_in_make(&s, kind, model)) {
            expect(net_save(&net, model, "", &err), ST_IO, &err, model, "regular file");
            stand_in_check(&s, kind, "--out");
        }
    }
    net_free(&net);
}

static void silent(enum ggml_log_level level, const char * text, void * user) {
    (void) level;
    (void) text;
    (void) user;
}

int main(void) {
    snprintf(dir, sizeof dir, "/tmp/test-mnist-XXXXXX");
    if (!mkdtemp(dir)) {
        return 1;
    }
    snprintf(images, sizeof images, "%s/t10k-images-idx3-ubyte", dir);
    snprintf(labels, sizeof labels, "%s/t10k-labels-idx1-ubyte", dir);
    snprintf(model, sizeof model, "%s/model.gguf", dir);
    ggml_log_set(silent, NULL); // ggml has a line for every file that it refuses
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idx),
        cmocka_unit_test(test_idx_truncated),
        cmocka_unit_test(test_idx_damaged),
        cmocka_unit_test(test_idx_missing),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_model_truncated),
        cmocka_unit_test(test_model_damaged),
        cmocka_unit_test(test_model_other),
        cmocka_unit_test(test_model_not_written),
        cmocka_unit_test(test_model_no_file),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(images);
    remove(labels);
    remove(model);
    rmdir(dir);
    return failed;
}

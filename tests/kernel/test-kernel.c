// kernel: names are canonical, injective, short enough and safe as file names; SHA-256 is SHA-256.
#include "kernel/kernel.h"
#include "base/sha256.h"
#include "base/cmocka-all.h"

static struct kernel_spec add_spec(const char * a, const char * b, const char * out) {
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    assert_int_equal(tensor_parse(a, &spec.inputs[0], NULL), ST_OK);
    assert_int_equal(tensor_parse(b, &spec.inputs[1], NULL), ST_OK);
    assert_int_equal(tensor_parse(out, &spec.output, NULL), ST_OK);
    return spec;
}

static void assert_name(const char * a, const char * b, const char * out, const char * want) {
    char name[KERNEL_NAME_MAX];
    struct kernel_spec spec = add_spec(a, b, out);
    kernel_name(&spec, name);
    assert_string_equal(name, want);
}

static void test_names(void ** state) {
    (void) state;
    assert_name("(1024,1,1,1)/f32", "(1024,1,1,1)/f32", "(1024,1,1,1)/f32",
                "add_f32_1024x1x1x1_f32_1024x1x1x1_f32_1024x1x1x1");
    assert_name("(8,4,1,1)/bf16/(2,32,0,0)", "(8,1,1,1)/f16", "(8,4,1,1)/i8",
                "add_bf16_8x4x1x1s2x32x128x128_f16_8x1x1x1_i8_8x4x1x1");
    // Strides of dimensions of one element do not count.
    assert_name("(8,4,1,1)/bf16/(2,32,7,9)", "(8,1,1,1)/f16/(2,5,5,5)", "(8,4,1,1)/i8",
                "add_bf16_8x4x1x1s2x32x128x128_f16_8x1x1x1_i8_8x4x1x1");
}

static void assert_safe(const char * name) {
    size_t n = strlen(name);
    assert_between(n, 1, KERNEL_NAME_MAX - 1);
    for (size_t i = 0; i < n; i++) {
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", name[i])) {
            fail_msg("'%c' in %s", name[i], name);
        }
    }
    assert_true(name[0] != '.' && name[0] != '-');
}

static int compare(const void * a, const void * b) {
    return strcmp(a, b);
}

// Every change of one number of a spec changes the name: for small numbers, where the name is
// plain, and for huge ones, where it is cut and hashed.
static void test_injective(void ** state) {
    (void) state;
    enum { COUNT = 4 * (1 + 5 + 3 * 8) };
    static char names[COUNT][KERNEL_NAME_MAX];
    int n = 0;
    for (int size = 0; size < 4; size++) {
        static const int64_t bases[] = {2, 1000003, INT64_MAX - 20, INT64_MIN};
        struct kernel_spec base = {.op = KERNEL_OP_ADD, .n_inputs = 2};
        struct tensor * tensors[] = {&base.inputs[0], &base.inputs[1], &base.output};
        for (int t = 0; t < 3; t++) {
            for (int d = 0; d < 4; d++) {
                tensors[t]->ne[d] = bases[size] + 1;
                tensors[t]->nb[d] = bases[size] + d;
            }
        }
        kernel_name(&base, names[n++]);
        for (int t = 0; t < 3; t++) {
            for (int d = 0; d < 4; d++) {
                tensors[t]->ne[d]++;
                kernel_name(&base, names[n++]);
                tensors[t]->ne[d]--;
                tensors[t]->nb[d] += 7;
                kernel_name(&base, names[n++]);
                tensors[t]->nb[d] -= 7;
            }
        }
        for (int k = 0; k < 5; k++) {
            struct kernel_spec other = base;
            other.n_inputs = k < 3 ? (int[]){1, 3, 4}[k] : 2;
            other.inputs[2] = base.inputs[0];
            other.inputs[3] = base.inputs[0];
            if (k == 3) {
                other.inputs[0].dtype = DTYPE_BF16;
            }
            if (k == 4) {
                other.output.dtype = DTYPE_BF16;
            }
            kernel_name(&other, names[n++]);
        }
    }
    assert_true(n <= COUNT);
    for (int i = 0; i < n; i++) {
        assert_safe(names[i]);
    }
    qsort(names, (size_t) n, sizeof names[0], compare);
    for (int i = 1; i < n; i++) {
        if (!strcmp(names[i - 1], names[i])) {
            fail_msg("twice: %s", names[i]);
        }
    }
}

static void test_hostile_spec(void ** state) {
    (void) state;
    char name[KERNEL_NAME_MAX];
    struct kernel_spec spec;
    memset(&spec, 0x80, sizeof spec);
    kernel_name(&spec, name);
    assert_safe(name);
    memset(&spec, 0x7f, sizeof spec);
    kernel_name(&spec, name);
    assert_safe(name);
    assert_int_equal(strlen(name), KERNEL_NAME_MAX - 1);
}

static void test_arch(void ** state) {
    (void) state;
    enum aie_arch arch;
    assert_true(kernel_arch_parse("aie2", &arch));
    assert_int_equal(arch, AIE_ARCH_AIE2);
    assert_true(kernel_arch_parse("aie2p", &arch));
    assert_int_equal(arch, AIE_ARCH_AIE2P);
    assert_false(kernel_arch_parse("aie", &arch));
    assert_string_equal(kernel_arch_name(AIE_ARCH_AIE2P), "aie2p");
    assert_string_equal(kernel_op_name(KERNEL_OP_ADD), "add");
}

static void test_sha256(void ** state) {
    (void) state;
    static const struct {
        const char *text, *hex;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t digest[SHA256_BYTES];
        char hex[2 * SHA256_BYTES + 1];
        sha256(cases[i].text, strlen(cases[i].text), digest);
        for (int k = 0; k < SHA256_BYTES; k++) {
            snprintf(hex + 2 * k, 3, "%02x", digest[k]);
        }
        assert_string_equal(hex, cases[i].hex);
    }
    // A million 'a', the standard's long case.
    char * many = malloc(1000000);
    memset(many, 'a', 1000000);
    uint8_t digest[SHA256_BYTES];
    sha256(many, 1000000, digest);
    free(many);
    static const uint8_t want[4] = {0xcd, 0xc7, 0x6e, 0x5c};
    assert_memory_equal(digest, want, 4);
    // Every length around the ends of blocks: the digest of 300 digests, by Python's hashlib.
    uint8_t data[300], digests[300 * SHA256_BYTES];
    for (int n = 0; n < 300; n++) {
        data[n] = (uint8_t) (7 * n + 3);
    }
    for (size_t n = 0; n < 300; n++) {
        sha256(data, n, digests + n * SHA256_BYTES);
    }
    char text[SHA256_TEXT];
    sha256(digests, sizeof digests, digest);
    sha256_print(digest, text);
    assert_string_equal(text, "7b074096cabb18dd0d1b468a173cb2f97f80e952525bca29542e606fd6d0753a");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),        cmocka_unit_test(test_injective),
        cmocka_unit_test(test_hostile_spec), cmocka_unit_test(test_arch),
        cmocka_unit_test(test_sha256),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test-gfx-elementwise: every row of elementwise.def, compiled for each GPU, against the same
// expression compiled for the host: random numbers, special ones, strides, and a last group that is
// not full.
#include "emu/gfx/rig.h"

#include <math.h>

typedef unsigned uint;
typedef unsigned char uchar;
typedef signed char schar;
typedef unsigned short ushort;
typedef long long llong;
typedef unsigned long long ullong;

enum { N = 1000, STRIDE = 3, GROUP = 256 };

// ---- the host's own halves ----

__extension__ typedef _Float16 half;

static float bf16_value(ushort h) {
    uint32_t u = (uint32_t) h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static ushort bf16_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return f != f ? (ushort) (u >> 16 | 64) : (ushort) ((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static int saturated(int a, int b) {
    llong s = (llong) a + b;
    return s > INT32_MAX ? INT32_MAX : s < INT32_MIN ? INT32_MIN : (int) s;
}

static int dot_bytes(uint a, uint b) {
    int s = 0;
    for (int k = 0; k < 4; k++) {
        s += (schar) (a >> 8 * k) * (schar) (b >> 8 * k);
    }
    return s;
}

// ---- numbers ----

static uint64_t state = 88172645463325252u;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

// Most are of everyday size, some span the whole range, some are special.
static double number(int i) {
    static const double specials[] = {0.0,      -0.0,   1.0,    -1.0,  INFINITY, -INFINITY, NAN,
                                      1e-310,   3e38,   1e-40,  0.5,   1.5,      2.5,       -2.5,
                                      65504.0,  65520., 6e-8,   1e-45, 1e300,    -1e-300,   127.5,
                                      16777217, 1e10,   -1e-20, 3e-39, 8e37};
    enum { SPECIALS = sizeof specials / sizeof *specials };
    if (i < SPECIALS * SPECIALS / 2) {
        return specials[next() % SPECIALS];
    }
    double v = (double) (int64_t) next() / 9.2e18;
    return i % 3 ? v * 30 : ldexp(v, (int) (next() % 240) - 120);
}

static void fill_bits(void * p, size_t size) {
    for (size_t i = 0; i < size; i++) {
        uint64_t r = next();
        ((uint8_t *) p)[i] = r % 5 == 0 ? (uint8_t) (r & 256 ? 255 : 0) : (uint8_t) (r >> 20);
    }
}

#define FILL_INT(T)                                                                                \
    static void fill_##T(T * p, int n) {                                                           \
        fill_bits(p, (size_t) n * sizeof *p);                                                      \
    }
#define FILL_FLOAT(T)                                                                              \
    static void fill_##T(T * p, int n) {                                                           \
        for (int i = 0; i < n; i++) {                                                              \
            p[i] = (T) number(i % N);                                                              \
        }                                                                                          \
    }
FILL_INT(uint)
FILL_INT(int)
FILL_INT(uchar)
FILL_INT(schar)
FILL_INT(ushort)
FILL_INT(short)
FILL_INT(llong)
FILL_INT(ullong)
FILL_FLOAT(float)
FILL_FLOAT(double)
FILL_FLOAT(half)

// Units in the last place between two results: 0 for equal bits and for two NaNs. Of floats and
// doubles both zeros are one: C leaves open which of them fmin and fmax give, and compilers differ.
static uint64_t apart_int(const void * a, const void * b, size_t size) {
    return memcmp(a, b, size) ? UINT64_MAX : 0;
}

static uint64_t apart_bits(int64_t a, int64_t b, int64_t sign) {
    a = a & sign ? -(a & ~sign) : a;
    b = b & sign ? -(b & ~sign) : b;
    return a > b ? (uint64_t) (a - b) : (uint64_t) (b - a);
}

static uint64_t apart_float(const float * a, const float * b) {
    int32_t x, y;
    if (*a != *a && *b != *b) {
        return 0;
    }
    memcpy(&x, a, 4);
    memcpy(&y, b, 4);
    return x == y ? 0 : apart_bits((uint32_t) x, (uint32_t) y, INT64_C(1) << 31);
}

static uint64_t apart_double(const double * a, const double * b) {
    if (*a == *b || (*a != *a && *b != *b)) {
        return 0;
    }
    return apart_int(a, b, 8);
}

static uint64_t apart_half(const half * a, const half * b) {
    if (*a != *a && *b != *b) {
        return 0;
    }
    return apart_int(a, b, 2);
}

// clang-format off
#define APART(x, y)                                                                                \
    _Generic(*(x),                                                                                 \
        float: apart_float((const void *) (x), (const void *) (y)),                                \
        double: apart_double((const void *) (x), (const void *) (y)),                              \
        half: apart_half((const void *) (x), (const void *) (y)),                                  \
        default: apart_int((x), (y), sizeof *(x)))
// clang-format on

// ---- a row ----

struct args {
    const void *x, *y;
    void * z;
    int32_t n, stride;
};

static int run_row(struct rig * r, const char * name, const void * x, size_t x_size, const void * y,
                   size_t y_size, void * z, size_t z_size) {
    char kernel[64];
    struct error err;
    struct args a = {x, y, z, N, STRIDE};
    snprintf(kernel, sizeof kernel, "el_%s", name);
    rig_allow(r, x, x_size, false);
    rig_allow(r, y, y_size, false);
    rig_allow(r, z, z_size, true);
    enum status st =
        rig_launch_1d(r, kernel, (N + GROUP - 1) / GROUP * GROUP, GROUP, &a, sizeof a, &err);
    rig_forbid_all(r, 1);
    if (st != ST_OK) {
        fprintf(stderr, "%s: %s\n", name, err.text);
        return 1;
    }
    return 0;
}

#define ROW(name, A, B, R, units, ...)                                                             \
    static int row_##name(struct rig * r) {                                                        \
        A * x = malloc(sizeof(A) * N * STRIDE);                                                    \
        B * y = malloc(sizeof(B) * N);                                                             \
        R * z = calloc(N, sizeof(R));                                                              \
        fill_##A(x, N * STRIDE);                                                                   \
        fill_##B(y, N);                                                                            \
        int bad =                                                                                  \
            run_row(r, #name, x, sizeof(A) * N * STRIDE, y, sizeof(B) * N, z, sizeof(R) * N);      \
        for (int i = 0; i < N && !bad; i++) {                                                      \
            volatile A va = x[i * STRIDE];                                                         \
            volatile B vb = y[i];                                                                  \
            A a = va;                                                                              \
            B b = vb;                                                                              \
            (void) a, (void) b;                                                                    \
            R want = (R) (__VA_ARGS__);                                                            \
            uint64_t apart = APART(&z[i], &want);                                                  \
            if (apart > (units)) {                                                                 \
                fprintf(stderr, "%s: %d: a %g b %g: %.9g instead of %.9g\n", #name, i, (double) a, \
                        (double) b, (double) z[i], (double) want);                                 \
                bad = 1;                                                                           \
            }                                                                                      \
        }                                                                                          \
        free(x);                                                                                   \
        free(y);                                                                                   \
        free(z);                                                                                   \
        return bad;                                                                                \
    }
#include "emu/gfx/elementwise.def"
#undef ROW

static int (*const rows[])(struct rig *) = {
#define ROW(name, A, B, R, units, ...) row_##name,
#include "emu/gfx/elementwise.def"
};

static void elementwise(enum gfx_arch arch) {
    if (!rig_have_compiler()) {
        skip_test("no " RIG_COMPILER " or no lld of its version");
    }
    char out[] = "/tmp/gfx-corpus-XXXXXX";
    int fd = mkstemp(out);
    assert_true(fd >= 0);
    close(fd);
    struct rig r;
    assert_true(rig_compile(gfx_arch_name(arch), CORPUS, out));
    assert_true(rig_open(&r, arch, out, 1, 0));
    unlink(out);
    int bad = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bad += rows[i](&r);
    }
    rig_close(&r);
    assert_int_equal(bad, 0);
}

static void gfx90a(void ** unused) {
    (void) unused;
    elementwise(GFX_90A);
}

static void gfx942(void ** unused) {
    (void) unused;
    elementwise(GFX_942);
}

static void gfx1100(void ** unused) {
    (void) unused;
    elementwise(GFX_1100);
}

static void gfx1151(void ** unused) {
    (void) unused;
    elementwise(GFX_1151);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gfx90a),
        cmocka_unit_test(gfx942),
        cmocka_unit_test(gfx1100),
        cmocka_unit_test(gfx1151),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Products of AMD's rocBLAS, run by rocblas.sh: it opens the libraries of HIP and of rocBLAS that
// argv names, multiplies matrices of several shapes and types on the first device, and compares
// each element with a sum in doubles. Whole numbers must be right to the bit, others within the
// rounding of their type. Prints one line for each product and ends with 0 when all of them are
// right.
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TO_DEVICE = 1, TO_HOST = 2 };
enum { NONE = 111, TRANSPOSED = 112 };                                     // rocblas_operation
enum { F16 = 150, F32 = 151, F64 = 152, I8 = 160, I32 = 162, BF16 = 168 }; // rocblas_datatype

typedef void * handle;
static int (*hipMalloc)(void *, size_t);
static int (*hipFree)(void *);
static int (*hipMemcpy)(void *, const void *, size_t, int);
static int (*hipDeviceSynchronize)(void);
static int (*rocblas_create_handle)(handle *);
static int (*rocblas_destroy_handle)(handle);
static int (*rocblas_gemm_ex)(handle, int, int, int, int, int, const void *, const void *, int, int,
                              const void *, int, int, const void *, const void *, int, int, void *,
                              int, int, int, int, int32_t, uint32_t);

static void * symbol(void * library, const char * name) {
    void * p = dlsym(library, name);
    if (!p) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return p;
}

static void open_libraries(const char * hip, const char * blas) {
    void * h = dlopen(hip, RTLD_NOW | RTLD_GLOBAL);
    void * b = h ? dlopen(blas, RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (!b) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **) &hipMalloc = symbol(h, "hipMalloc");
    *(void **) &hipFree = symbol(h, "hipFree");
    *(void **) &hipMemcpy = symbol(h, "hipMemcpy");
    *(void **) &hipDeviceSynchronize = symbol(h, "hipDeviceSynchronize");
    *(void **) &rocblas_create_handle = symbol(b, "rocblas_create_handle");
    *(void **) &rocblas_destroy_handle = symbol(b, "rocblas_destroy_handle");
    *(void **) &rocblas_gemm_ex = symbol(b, "rocblas_gemm_ex");
}

static void check(int status, const char * what) {
    if (status) {
        fprintf(stderr, "%s: status %d\n", what, status);
        exit(1);
    }
}

// ---- numbers ----

static size_t size_of(int type) {
    return type == F64 ? 8 : type == F32 || type == I32 ? 4 : type == I8 ? 1 : 2;
}

static double half_value(uint16_t h) {
    int e = h >> 10 & 31, m = h & 1023;
    double v = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return e == 31 ? NAN : h & 0x8000 ? -v : v;
}

static uint16_t half_of(double v) { // to the nearest; what would be denormal is 0
    int e;
    v = fabs(v) < 0x1p-14 ? 0 : v;
    double m = frexp(fabs(v), &e);
    unsigned bits = v == 0 ? 0 : ((unsigned) (e + 13) << 10) + (unsigned) lrint(m * 2048);
    return (uint16_t) (bits | (v < 0 ? 0x8000 : 0));
}

static void put(void * p, size_t i, int type, double v) {
    float f = (float) v;
    uint32_t u;
    memcpy(&u, &f, 4);
    switch (type) {
    case F64:
        ((double *) p)[i] = v;
        break;
    case F32:
        ((float *) p)[i] = f;
        break;
    case I32:
        ((int32_t *) p)[i] = (int32_t) v;
        break;
    case I8:
        ((int8_t *) p)[i] = (int8_t) v;
        break;
    case BF16:
        ((uint16_t *) p)[i] = (uint16_t) (u >> 16);
        break;
    default:
        ((uint16_t *) p)[i] = half_of(v);
    }
}

static double get(const void * p, size_t i, int type) {
    uint32_t u;
    float f;
    switch (type) {
    case F64:
        return ((const double *) p)[i];
    case F32:
        return ((const float *) p)[i];
    case I32:
        return ((const int32_t *) p)[i];
    case I8:
        return ((const int8_t *) p)[i];
    case BF16:
        u = (uint32_t) ((const uint16_t *) p)[i] << 16;
        memcpy(&f, &u, 4);
        return f;
    default:
        return half_value(((const uint16_t *) p)[i]);
    }
}

static double drawn(bool whole) {
    int v = rand() / 7 % 9 - 4;
    return whole ? v : v + rand() / (double) RAND_MAX;
}

// ---- a product ----

static const struct product {
    const char * name;
    int in, out, compute;
    double unit; // of rounding; 0: none
} products[] = {
    {"sgemm", F32, F32, F32, 0x1p-23},      {"hgemm", F16, F16, F16, 0x1p-10},
    {"f16 in f32", F16, F16, F32, 0x1p-10}, {"f16 to f32", F16, F32, F32, 0x1p-22},
    {"bf16 gemm", BF16, BF16, F32, 0x1p-7}, {"bf16 to f32", BF16, F32, F32, 0x1p-22},
    {"i8 gemm", I8, I32, I32, 0},           {"dgemm", F64, F64, F64, 0x1p-52},
};

static void * on_device(const void * data, size_t bytes) {
    void * p = NULL;
    check(hipMalloc(&p, bytes), "hipMalloc");
    check(hipMemcpy(p, data, bytes, TO_DEVICE), "hipMemcpy");
    return p;
}

static int multiply(handle blas, const struct product * p, const int size[3], int ta, int tb,
                    bool whole) {
    int m = size[0], n = size[1], k = size[2], lda = ta ? k : m, ldb = tb ? n : k, wrong = 0;
    size_t n_a = (size_t) m * (size_t) k, n_b = (size_t) k * (size_t) n,
           n_c = (size_t) m * (size_t) n;
    void *a = calloc(n_a, 8), *b = calloc(n_b, 8), *c = calloc(n_c, 8), *d = calloc(n_c, 8);
    unsigned char alpha[8], beta[8];
    double al = whole ? 2 : 0.75, be = whole ? -1 : 0.5;
    whole |= p->unit == 0;
    al = p->unit == 0 ? 2 : al;
    be = p->unit == 0 ? -1 : be;
    put(alpha, 0, p->compute, al);
    put(beta, 0, p->compute, be);
    for (size_t i = 0; i < n_a; i++) {
        put(a, i, p->in, drawn(whole));
    }
    for (size_t i = 0; i < n_b; i++) {
        put(b, i, p->in, drawn(whole));
    }
    for (size_t i = 0; i < n_c; i++) {
        put(c, i, p->out, drawn(whole));
    }
    void *da = on_device(a, n_a * size_of(p->in)), *db = on_device(b, n_b * size_of(p->in));
    void *dc = on_device(c, n_c * size_of(p->out)), *dd = on_device(d, n_c * size_of(p->out));
    int st = rocblas_gemm_ex(blas, ta ? TRANSPOSED : NONE, tb ? TRANSPOSED : NONE, m, n, k, alpha,
                             da, p->in, lda, db, p->in, ldb, beta, dc, p->out, m, dd, p->out, m,
                             p->compute, 0, 0, 0);
    check(st, p->name);
    check(hipDeviceSynchronize(), "hipDeviceSynchronize");
    check(hipMemcpy(d, dd, n_c * size_of(p->out), TO_HOST), "hipMemcpy");
    for (int j = 0; j < n; j++) { // columns one behind the other
        for (int i = 0; i < m; i++) {
            size_t at = (size_t) j * (size_t) m + (size_t) i;
            double sum = 0, most = 0;
            for (int l = 0; l < k; l++) {
                double x = get(a, (size_t) (ta ? i * lda + l : l * lda + i), p->in);
                double y = get(b, (size_t) (tb ? l * ldb + j : j * ldb + l), p->in);
                sum += x * y;
                most += fabs(x * y);
            }
            double old = get(c, at, p->out), want = al * sum + be * old, got = get(d, at, p->out);
            double within = whole ? 0 : (fabs(al) * most + fabs(be * old)) * p->unit * 4;
            if (!(fabs(got - want) <= within) && wrong++ < 3) {
                printf("wrong: [%d][%d]: %g instead of %g +- %g\n", i, j, got, want, within);
            }
        }
    }
    printf("%s %s %dx%dx%d%s%s, %s\n", wrong ? "FAIL" : "ok  ", p->name, m, n, k, ta ? " A^T" : "",
           tb ? " B^T" : "", whole ? "whole numbers" : "fractions");
    hipFree(da);
    hipFree(db);
    hipFree(dc);
    hipFree(dd);
    free(a);
    free(b);
    free(c);
    free(d);
    return wrong != 0;
}

int main(int argc, char ** argv) {
    // whole numbers: |sum| stays below what halves and bf16 have exactly
    static const int sizes[][3] = {{128, 128, 32}, {64, 96, 16}, {33, 17, 21}, {256, 64, 8}};
    static const int bf16_sizes[][3] = {{128, 128, 4}, {64, 96, 4}, {33, 17, 4}, {256, 64, 4}};
    if (argc != 3) {
        fprintf(stderr, "usage: rocblas <libamdhip64.so> <librocblas.so>\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_libraries(argv[1], argv[2]);
    handle blas;
    check(rocblas_create_handle(&blas), "rocblas_create_handle");
    int failures = 0;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        for (int s = 0; s < 4; s++) {
            bool narrow = products[i].out == BF16;
            failures += multiply(blas, &products[i], narrow ? bf16_sizes[s] : sizes[s], s & 1,
                                 s >> 1 & 1, true);
            failures += multiply(blas, &products[i], sizes[s], s & 1, s >> 1 & 1, false);
        }
    }
    check(rocblas_destroy_handle(blas), "rocblas_destroy_handle");
    printf("%d failures\n", failures);
    return failures != 0;
}

// test-gfx-corpus: kernels that work together: LDS, barriers, lanes that see each other, atomics,
// scratch, calls, divergence. Each against plain C, on each GPU, with one thread and with several.
#include "emu/gfx/rig.h"

#include <math.h>

enum { N = 4096, GROUP = 256 };

static struct rig rig;
static int wave;

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint32_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t) (state >> 16);
}

static float real(void) {
    return (float) (int32_t) next() / 3e8f;
}

static void * memory(size_t size, bool writable) {
    void * p = aligned_alloc(64, (size + 63) & ~(size_t) 63);
    assert_non_null(p);
    memset(p, 0, size);
    rig_allow(&rig, p, size, writable);
    return p;
}

static int * integers(int n) {
    int * p = memory(sizeof(int) * (size_t) n, false);
    for (int i = 0; i < n; i++) {
        p[i] = (int) next();
    }
    return p;
}

static float * reals(int n) {
    float * p = memory(sizeof(float) * (size_t) n, false);
    for (int i = 0; i < n; i++) {
        p[i] = real();
    }
    return p;
}

static void launch(const char * kernel, uint32_t items, uint32_t group, const void * args,
                   size_t size) {
    struct error err = {0};
    if (rig_launch_1d(&rig, kernel, items, group, args, size, &err) != ST_OK) {
        fail_msg("%s: %s", kernel, err.text);
    }
}

// Everything that a test allowed is its own again.
static void done(void * a, void * b, void * c, void * d, void * e) {
    free(a);
    free(b);
    free(c);
    free(d);
    free(e);
    rig_forbid_all(&rig, 1);
}

static void near(float got, double want, double tolerance) {
    if (!(fabs((double) got - want) <= tolerance * (1 + fabs(want)))) {
        fail_msg("%.9g instead of %.9g", (double) got, want);
    }
}

// ---- the four of the bench ----

static void bench_kernels(void) {
    float *a = reals(N + 5), *b = reals(N + 5), *c = memory(sizeof(float) * N, true);
    int n = N - 5;
    struct {
        const void *a, *b;
        void * c;
        int n;
    } add = {a + 3, b + 1, c, n};
    launch("add", N, GROUP, &add, sizeof add);
    for (int i = 0; i < N; i++) {
        assert_true(c[i] == (i < n ? a[i + 3] + b[i + 1] : 0));
    }
    struct {
        const void * a;
        void * c;
        int n;
    } gelu = {a, c, n};
    launch("gelu", N, GROUP, &gelu, sizeof gelu);
    for (int i = 0; i < n; i++) {
        double x = a[i], t = 0.7978845608 * (x + 0.044715 * x * x * x);
        near(c[i], 0.5 * x * (1 + tanh(t)), 1e-6);
    }
    struct {
        const void * a;
        void * c;
        int columns;
    } softmax = {a, c, 500};
    launch("softmax", 8 * GROUP, GROUP, &softmax, sizeof softmax);
    for (int row = 0; row < 8; row++) {
        double most = -INFINITY, sum = 0;
        for (int i = 0; i < 500; i++) {
            most = a[row * 500 + i] > most ? a[row * 500 + i] : most;
        }
        for (int i = 0; i < 500; i++) {
            sum += exp(a[row * 500 + i] - most);
        }
        for (int i = 0; i < 500; i++) {
            near(c[row * 500 + i], exp(a[row * 500 + i] - most) / sum, 1e-6);
        }
    }
    done(a, b, c, NULL, NULL);
}

static void matmul(void) {
    enum { M = 37, K = 50, C = 45 };
    float *a = reals(M * K), *b = reals(K * C), *c = memory(sizeof(float) * M * C, true);
    struct {
        const void *a, *b;
        void * c;
        int m, n, k;
    } args = {a, b, c, M, C, K};
    struct error err;
    uint32_t grid[3] = {48, 48, 1}, group[3] = {16, 16, 1};
    assert_int_equal(rig_launch(&rig, "matmul", grid, group, 0, &args, sizeof args, &err), ST_OK);
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < C; j++) {
            float sum = 0;
            for (int k = 0; k < K; k++) {
                sum = fmaf(a[i * K + k], b[k * C + j], sum);
            }
            assert_true(c[i * C + j] == sum);
        }
    }
    done(a, b, c, NULL, NULL);
}

// ---- lanes ----

static void lanes(void) {
    int *a = integers(N), *c = memory(sizeof(int) * N, true);
    struct {
        const void * a;
        void * c;
        int n;
    } args = {a, c, N - 3};
    launch("wave_sum", N, GROUP, &args, sizeof args);
    for (int i = 0; i < N / wave; i++) {
        uint32_t sum = 0;
        for (int k = 0; k < wave; k++) {
            sum += i * wave + k < N - 3 ? (uint32_t) a[i * wave + k] : 0;
        }
        assert_int_equal(c[i], (int) sum);
    }
    launch("row_sum_dpp", N, GROUP, &args, 16);
    for (int i = 0; i < N; i++) {
        uint32_t sum = 0;
        for (int k = i & ~15; k <= i; k++) {
            sum += (uint32_t) a[k];
        }
        assert_int_equal(c[i], (int) sum);
    }
    launch("quad_dpp", N, GROUP, &args, 16);
    for (int i = 0; i < N; i++) {
        int row = i / 16 % (wave / 16);
        uint32_t q = (uint32_t) a[i ^ 3], m = 5 >> row & 1 ? (uint32_t) a[i ^ 15] : ~0u;
        uint32_t r = (uint32_t) a[(i & ~15) | ((i - 3) & 15)];
        assert_int_equal(c[i], (int) (q * 3 + m * 5 + r));
    }
    launch("swizzle", N, GROUP, &args, 16);
    for (int i = 0; i < N; i++) {
        uint32_t s = (uint32_t) a[i ^ 16] + 3 * (uint32_t) a[i ^ 1] + 7 * (uint32_t) a[i & ~7];
        assert_int_equal(c[i], (int) s);
    }
    launch("lanes", N, GROUP, &args, 16);
    for (int i = 0; i < N; i++) {
        int base = i / wave * wave;
        uint32_t s = (uint32_t) a[base] + 3 * (uint32_t) a[base + 5] +
                     5 * (uint32_t) a[base + (i - base + wave - 3) % wave];
        assert_int_equal(c[i], (int) s);
    }
    launch("scan", N, GROUP, &args, 16);
    for (int i = 0, sum = 0; i < N; i++) {
        sum = i % GROUP ? (int) ((uint32_t) sum + (uint32_t) a[i]) : a[i];
        assert_int_equal(c[i], sum);
    }
    uint64_t * m = memory(sizeof *m * N, true);
    args.c = m;
    launch("ballot", N, GROUP, &args, sizeof args);
    for (int i = 0; i < N - 3; i++) {
        int base = i / wave * wave;
        uint64_t want = 0;
        for (int k = 0; k < wave; k++) {
            want |= (uint64_t) (base + k < N - 3 && a[base + k] % 3 == 0) << k;
        }
        assert_true(m[i] == (a[i] % 3 ? 0 : want));
    }
    done(a, c, m, NULL, NULL);
}

// ---- atomics ----

static void atomics(void) {
    int *a = integers(N), *c = memory(sizeof(int) * (N + 8), true);
    uint32_t * bins = memory(sizeof *bins * 64, true);
    struct {
        const void * a;
        void * bins;
        int n;
    } h = {a, bins, N};
    launch("histogram", 8 * GROUP, GROUP, &h, sizeof h);
    uint32_t want[64] = {0};
    for (int i = 0; i < N; i++) {
        want[a[i] & 63]++;
    }
    assert_memory_equal(bins, want, sizeof want);

    uint64_t * d = memory(sizeof *d * 2, true);
    struct {
        float f;
        double e;
    } * sums = memory(sizeof *sums, true);
    struct {
        const void * a;
        void *c, *d, *f, *e;
        int n;
    } args = {a, c, d, &sums->f, &sums->e, N};
    c[2] = -1;
    launch("atomics", N, GROUP, &args, sizeof args);
    int low = 0, high = 0, and = -1, or = 0, xor = 0;
    uint32_t less = 0, chain = 0;
    uint64_t sum = 0, most = 0;
    char * seen = calloc(N, 1);
    for (int i = 0; i < N; i++) {
        low = a[i] < low ? a[i] : low;
        high = a[i] > high ? a[i] : high;
        and &= a[i] | 0xff;
        or |= a[i] & 0xffff;
        xor ^= a[i];
        less -= (uint32_t) a[i];
        sum += (uint32_t) a[i];
        most = (uint64_t) (uint32_t) a[i] << 7 > most ? (uint64_t) (uint32_t) a[i] << 7 : most;
        chain = chain * 3 + 1;
        assert_between(c[8 + i], 0, N - 1);
        assert_int_equal(seen[c[8 + i]]++, 0);
    }
    int results[] = {low, high, and, or, xor, (int) less, (int) chain, N};
    assert_memory_equal(c, results, sizeof results);
    assert_true(d[0] == sum && d[1] == most);
    assert_true(sums->f == 0.25f * N && sums->e == 0.125 * N);
    free(seen);
    done(a, c, bins, d, sums);
}

static void between_groups(void) {
    enum { GROUPS = 64 };
    int *a = integers(GROUPS * 64), *part = memory(sizeof(int) * GROUPS, true);
    for (int round = 0; round < 20; round++) {
        uint32_t * arrived = memory(64, true);
        struct {
            const void * a;
            void *part, *arrived, *out;
            int groups;
        } args = {a, part, arrived, arrived + 1, GROUPS};
        launch("last_group", GROUPS * 64, 64, &args, sizeof args);
        uint32_t sum = 0;
        for (int i = 0; i < GROUPS * 64; i++) {
            sum += (uint32_t) a[i];
        }
        assert_int_equal((int) arrived[1], (int) sum);
        free(arrived);
        rig_forbid_all(&rig, 3);
    }
    done(a, part, NULL, NULL, NULL);
}

// ---- scratch ----

static int called(int v, const int * table, int depth) {
    if (depth) {
        return (
            int) ((uint32_t) called((int) ((uint32_t) v * 5 + (uint32_t) depth), table, depth - 1) +
                  (uint32_t) v);
    }
    uint32_t own[8];
    for (int k = 0; k < 8; k++) {
        own[k] = (uint32_t) table[(v + k) & 31];
    }
    return (int) (own[v & 7] * 2 + own[v >> 3 & 7]);
}

static void scratch(void) {
    int *a = integers(1000), *c = memory(sizeof(int) * 1024, true);
    struct {
        const void * a;
        void * c;
        int n;
    } args = {a, c, 1000};
    launch("scratch", 1024, GROUP, &args, sizeof args);
    for (int i = 0; i < 1024; i++) {
        int own[24];
        uint32_t s = 0;
        for (int k = 0; k < 24; k++) {
            own[k] = a[(i * 24 + k) % 1000];
        }
        for (int k = 0; k < 24; k++) {
            int j = own[k] & 15, t = own[k];
            own[k] = own[j + 8];
            own[j + 8] = t;
        }
        for (int k = 0; k < 24; k++) {
            s = s * 31 + (uint32_t) own[(k * 7 + i) % 24];
        }
        assert_int_equal(c[i], (int) s);
    }
    uint8_t *bytes = (uint8_t *) a, *out = (uint8_t *) c;
    launch("scratch_bytes", 1024, GROUP, &args, sizeof args);
    for (int i = 0; i < 1024; i++) {
        int s = 0;
        for (int k = 0; k < 16; k++) {
            int at = (k * 5 + i) & 15;
            s += (short) (bytes[(i + (at * 3 & 63)) % 1000] * 257 - 30000) *
                 (bytes[(i + ((k + i) & 63)) % 1000] + 1);
        }
        assert_int_equal(out[i], (uint8_t) (s >> 3));
    }
    int * table = integers(32);
    struct {
        const void *a, *table;
        void * c;
        int n;
    } calls = {a, table, c, 999};
    launch("calls", 1024, GROUP, &calls, sizeof calls);
    for (int i = 0; i < 999; i++) {
        assert_int_equal(c[i], called(a[i] & 1023, table, a[i] & 3));
    }
    launch("flat_pointer", 1024, 64, &args, sizeof args);
    for (int i = 0; i < 1024; i++) {
        int own[4] = {i, i * 2, i * 3, i * 5};
        int v = i % 3 == 0 ? a[i % 1000] : i % 3 == 1 ? i ^ 21 : own[i & 3];
        assert_int_equal(c[i], (int) ((uint32_t) v + (uint32_t) own[i >> 2 & 3]));
    }
    done(a, c, table, NULL, NULL);
}

static void registers_by_index(void) {
    float *a = reals(16 * 256), *c = memory(sizeof(float) * 256, true);
    for (int k = 0; k < 16; k++) {
        struct {
            const void * a;
            void * c;
            int k;
        } args = {a, c, k};
        launch("vector_index", 256, 64, &args, sizeof args);
        for (int i = 0; i < 256; i++) {
            float x = k == ((k + 3) & 15) ? 7.0f : a[i * 16 + k], y = a[i * 16 + (k * 5 & 15)];
            y = (k * 5 & 15) == ((k + 3) & 15) ? 7.0f : y;
            assert_true(c[i] == x + y);
        }
    }
    done(a, c, NULL, NULL, NULL);
}

// ---- packed ----

static void packed(void) {
    int n = 777;
    float *a = reals(4 * n), *b = reals(4 * n), *c = memory(sizeof(float) * 4 * (size_t) n, true);
    struct {
        const void *a, *b;
        void * c;
        int n;
    } args = {a, b, c, n};
    launch("packed_float", 1024, GROUP, &args, sizeof args);
    for (int i = 0; i < n; i++) {
        float x[2], y[2], s[2];
        for (int k = 0; k < 2; k++) {
            x[k] = a[2 * i + k];
            y[k] = b[2 * i + k];
            s[k] = x[k] * y[k] + y[k];
        }
        for (int k = 0; k < 2; k++) {
            assert_true(c[2 * i + k] == s[k] * s[1 - k] + x[k] * 3.0f);
        }
    }
    struct {
        const void * a;
        void * c;
        int n;
    } copy = {a, c, n};
    launch("copy16", 1024, GROUP, &copy, sizeof copy);
    for (int i = 0; i < 4 * n; i++) {
        assert_true(c[i] == a[4 * (n - 1 - i / 4) + i % 4] * 2.0f);
    }
    int16_t *sa = (int16_t *) a, *sb = (int16_t *) b, *sc = (int16_t *) c;
    launch("packed_short", 1024, GROUP, &args, sizeof args);
    for (int i = 0; i < 2 * n; i++) {
        int16_t u = (int16_t) (sa[i] * sb[i] + sb[i]), v = (int16_t) (sa[i] - sb[i]);
        assert_int_equal(sc[i], (int16_t) ((u > v ? u : v) * 2));
    }
    done(a, b, c, NULL, NULL);
}

#if HAVE_HALF // the host's own
__extension__ typedef _Float16 half;

static half half_max(half a, half b) {
    return a > b ? a : b;
}

static half half_min(half a, half b) {
    return a < b ? a : b;
}

static void halves(void) {
    int n = 777;
    half * a = memory(sizeof(half) * 2 * (size_t) n, false);
    half * b = memory(sizeof(half) * 2 * (size_t) n, false);
    half * c = memory(sizeof(half) * 2 * (size_t) n, true);
    for (int i = 0; i < 2 * n; i++) {
        a[i] = (half) real();
        b[i] = (half) real();
    }
    struct {
        const void *a, *b;
        void * c;
        int n;
    } args = {a, b, c, n};
    launch("packed_half", 1024, GROUP, &args, sizeof args);
    for (int i = 0; i < n; i++) {
        half s[2];
        for (int k = 0; k < 2; k++) {
            half x = a[2 * i + k], y = b[2 * i + k];
            s[k] = (half) ((half) (x * y) + x);
            s[k] = half_min(half_max(s[k], (half) -y), (half) 100);
        }
        for (int k = 0; k < 2; k++) {
            half want = (half) (s[1 - k] - a[2 * i + k]);
            assert_memory_equal(&c[2 * i + k], &want, 2);
        }
    }
    done(a, b, c, NULL, NULL);

    enum { BLOCKS = 150, ROWS = 5 };
    struct q4 {
        half d;
        uint8_t q[16];
    } * p = memory(sizeof *p * BLOCKS * ROWS, false);
    struct q8 {
        half d;
        int8_t q[32];
    } * q = memory(sizeof *q * BLOCKS, false);
    float * out = memory(sizeof(float) * ROWS, true);
    for (int i = 0; i < BLOCKS * ROWS; i++) {
        p[i].d = (half) real();
        for (int k = 0; k < 16; k++) {
            p[i].q[k] = (uint8_t) next();
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        q[i].d = (half) real();
        for (int k = 0; k < 32; k++) {
            q[i].q[k] = (int8_t) next();
        }
    }
    struct {
        const void *a, *b;
        void * c;
        int blocks;
    } dot = {p, q, out, BLOCKS};
    launch("q4_dot", (uint32_t) (ROWS * wave), (uint32_t) wave, &dot, sizeof dot);
    for (int row = 0; row < ROWS; row++) {
        double sum = 0, size = 0;
        for (int k = 0; k < BLOCKS; k++) {
            const struct q4 * x = &p[row * BLOCKS + k];
            int s = 0;
            for (int j = 0; j < 16; j++) {
                s += ((x->q[j] & 15) - 8) * q[k].q[j] + ((x->q[j] >> 4) - 8) * q[k].q[j + 16];
            }
            sum += (double) x->d * (double) q[k].d * s;
            size += fabs((double) x->d * (double) q[k].d * s);
        }
        assert_true(fabs(out[row] - sum) <= 1e-5 * size);
    }
    done(p, q, out, NULL, NULL);
}
#else
static void halves(void) {
    skip_say("the host compiler has no _Float16");
}
#endif

static void bytes(void) {
    int n = 1000;
    uint8_t *a = memory((size_t) n, false), *c = memory((size_t) n * 3, true);
    uint16_t *b = memory((size_t) n * 2, false), *d = memory((size_t) n * 4, true);
    for (int i = 0; i < n; i++) {
        a[i] = (uint8_t) next();
        b[i] = (uint16_t) next();
    }
    struct {
        const void * a;
        void * c;
        const void * b;
        void * d;
        int n;
    } args = {a, c, b, d, n};
    launch("copy_bytes", 1024, GROUP, &args, sizeof args);
    for (int i = 0; i < n; i++) {
        assert_true(c[3 * i] == a[i] && c[3 * i + 1] == 255 - a[i] && c[3 * i + 2] == 0);
        assert_true(d[2 * i] == 0 && d[2 * i + 1] == (uint16_t) (b[i] + (int8_t) a[i]));
    }
    done(a, c, b, d, NULL);
}

// ---- control ----

static int compare(const void * a, const void * b) {
    int x = *(const int *) a, y = *(const int *) b;
    return (x > y) - (x < y);
}

static void control(void) {
    int *a = integers(N), *c = memory(sizeof(int) * N, true);
    struct {
        const void * a;
        void * c;
        int n;
    } args = {a, c, N - 7};
    launch("diverge", N, GROUP, &args, sizeof args);
    for (int i = 0; i < N - 7; i++) {
        uint32_t u = (uint32_t) a[i] & 0xffff;
        int steps = 0;
        while (u > 1 && steps < 500) {
            u = u & 1 ? u * 3 + 1 : u >> 1;
            steps++;
            if (u == 4096) {
                break;
            }
        }
        switch (a[i] & 7) {
        case 0:
            steps *= 3;
            break;
        case 1:
            steps = (int) ((uint32_t) steps + (uint32_t) a[i]);
            break;
        case 2:
            steps ^= a[i];
            break;
        case 5:
            steps = -steps;
            break;
        default:
            steps -= 1;
        }
        assert_int_equal(c[i], steps);
    }
    memcpy(c, a, sizeof(int) * N);
    void * sorted = c;
    launch("bitonic", N, GROUP, &sorted, sizeof sorted);
    for (int i = 0; i < N; i += GROUP) {
        qsort(a + i, GROUP, sizeof(int), compare);
    }
    assert_memory_equal(a, c, sizeof(int) * N);

    memset(c, 0xff, sizeof(int) * N);
    struct error err;
    void * out = c;
    uint32_t grid[3] = {7, 5, 6}, group[3] = {4, 2, 3}; // partial groups in x and y
    assert_int_equal(rig_launch(&rig, "grid3", grid, group, 0, &out, sizeof out, &err), ST_OK);
    for (int z = 0; z < 6; z++) {
        for (int y = 0; y < 5; y++) {
            for (int x = 0; x < 7; x++) {
                assert_int_equal(c[(z * 5 + y) * 7 + x], x | y << 8 | z << 16);
            }
        }
    }
    uint32_t items[3] = {N, 1, 1}, block[3] = {128, 1, 1};
    assert_int_equal(rig_launch(&rig, "dynamic_lds", items, block, 128 * 4, &args, 16, &err),
                     ST_OK);
    for (int i = 0; i < N; i++) {
        assert_int_equal(c[i], a[(i & ~127) + 127 - (i & 127)]);
    }
    done(a, c, NULL, NULL, NULL);
}

static void rope(void) {
    float *a = reals(2048), *c = memory(sizeof(float) * 2048, true);
    struct {
        const void * a;
        void * c;
        int half_width;
    } args = {a, c, 32};
    launch("rope", 1024, GROUP, &args, sizeof args);
    for (int i = 0; i < 1024; i++) {
        float angle = (float) (i % 128) * expf(-0.1f * (float) (i % 32));
        double s = sin(angle), o = cos(angle);
        near(c[2 * i], a[2 * i] * o - a[2 * i + 1] * s, 2e-4);
        near(c[2 * i + 1], a[2 * i] * s + a[2 * i + 1] * o, 2e-4);
    }
    done(a, c, NULL, NULL, NULL);
}

// ---- what goes wrong must end the dispatch, name the place, and leave the machine usable ----

static void expect(const char * kernel, const void * args, size_t size, const char * word) {
    struct error err = {0};
    assert_int_equal(rig_launch_1d(&rig, kernel, 512, 64, args, size, &err), ST_CORRUPT);
    if (!strstr(err.text, word) || !strstr(err.text, "from its entry")) {
        fail_msg("%s: the error does not say '%s': %s", kernel, word, err.text);
    }
}

static void wrong(void) {
    int *a = integers(100), *c = memory(400, true);
    void * out = c;
    expect("bad_store", &out, sizeof out, "not allocated");
    expect("forever", &out, sizeof out, "still runs after");
    expect("trap", &out, sizeof out, "trapped");
    void * readonly = a;
    struct {
        const void * a;
        void * c;
        int n;
    } args = {a, a, 100};
    (void) readonly;
    expect("masked", &args, sizeof args, "may not be written");
    args.n = 101;
    args.c = c;
    expect("masked", &args, sizeof args, "not allocated"); // one lane beyond the end
    args.n = 100;
    launch("masked", 512, 64, &args, sizeof args);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(c[i], a[i] ? a[i] + 1 : 0);
    }
    struct error err;
    struct gfx_dispatch d = {.kernel_object = (uintptr_t) c & ~UINT64_C(63),
                             .grid = {1, 1, 1},
                             .group = {1, 1, 1}}; // data as a kernel descriptor
    assert_int_not_equal(gfx_run(rig.gpu, &d, &err), ST_OK);
    d.kernel_object = 0;
    assert_int_equal(gfx_run(rig.gpu, &d, &err), ST_INVALID);
    d.group[0] = 0;
    assert_int_equal(gfx_run(rig.gpu, &d, &err), ST_INVALID);
    done(a, c, NULL, NULL, NULL);
}

// Other code at the same addresses between dispatches must be seen.
static void replaced_code(void) {
    int *a = integers(64), *c = memory(256, true);
    struct {
        const void * a;
        void * c;
        int n;
    } args = {a, c, 64};
    launch("masked", 64, 64, &args, sizeof args);
    assert_int_equal(c[5], a[5] ? a[5] + 1 : 0);
    uint64_t kd = image_symbol(&rig.image, "masked.kd");
    uint64_t entry = kd + load_u64((void *) (uintptr_t) (kd + 16));
    uint32_t old = load_u32((void *) (uintptr_t) entry);
    store_u32((void *) (uintptr_t) entry, wave == 32 ? 0xbfb00000 : 0xbf810000);
    memset(c, 0, 256);
    launch("masked", 64, 64, &args, sizeof args); // ends at once
    assert_int_equal(c[5], 0);
    store_u32((void *) (uintptr_t) entry, old);
    launch("masked", 64, 64, &args, sizeof args);
    assert_int_equal(c[5], a[5] ? a[5] + 1 : 0);
    done(a, c, NULL, NULL, NULL);
}

static void all(enum gfx_arch arch, int threads) {
    if (!rig_have_compiler()) {
        skip_test("no " RIG_COMPILER " or no lld of its version");
    }
    char out[] = "/tmp/gfx-corpus-XXXXXX";
    int fd = mkstemp(out);
    assert_true(fd >= 0);
    close(fd);
    assert_true(rig_compile(gfx_arch_name(arch), CORPUS, out));
    assert_true(rig_open(&rig, arch, out, threads, 2000000));
    unlink(out);
    wave = arch >= GFX_1100 ? 32 : 64;
    static void (*const tests[])(void) = {
        bench_kernels, matmul, lanes, atomics, between_groups, scratch, registers_by_index,
        packed,        halves, bytes, control, rope,           wrong,   replaced_code,
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        tests[i]();
    }
    struct gfx_counters n;
    gfx_counters_get(rig.gpu, &n);
    assert_true(n.dispatches > 30 && n.waves > n.dispatches && n.instructions > 10 * n.waves);
    rig_close(&rig);
}

#define ON(arch, name)                                                                             \
    static void name##_alone(void ** unused) {                                                     \
        (void) unused;                                                                             \
        all(arch, 1);                                                                              \
    }                                                                                              \
    static void name##_threads(void ** unused) {                                                   \
        (void) unused;                                                                             \
        all(arch, 4);                                                                              \
    }
ON(GFX_90A, gfx90a)
ON(GFX_942, gfx942)
ON(GFX_1100, gfx1100)
ON(GFX_1151, gfx1151)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gfx90a_alone),  cmocka_unit_test(gfx90a_threads),
        cmocka_unit_test(gfx942_alone),  cmocka_unit_test(gfx942_threads),
        cmocka_unit_test(gfx1100_alone), cmocka_unit_test(gfx1100_threads),
        cmocka_unit_test(gfx1151_alone), cmocka_unit_test(gfx1151_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

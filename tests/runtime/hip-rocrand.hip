// Debian's librocrand on a GPU: code objects that AMD's compiler made of AMD's sources long ago. Of
// Philox and Sobol every number is known; of MRG32k3a the distribution.
#include <hip/hip_runtime.h>
#include <rocrand/rocrand.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

static const size_t N = 8192;
static const uint64_t SEED = 0x123456789abcULL;
static int failures;

static void check(bool ok, const char * generator, const char * what) {
    printf("%s %s: %s\n", ok ? "ok  " : "FAIL", generator, what);
    failures += !ok;
}

static void must(int status, const char * what) {
    if (status != 0) {
        printf("FAIL %s: status %d\n", what, status);
        exit(1);
    }
}

// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3": ten rounds.
static void philox(uint64_t block, uint32_t c[4]) {
    uint32_t k0 = (uint32_t) SEED, k1 = (uint32_t) (SEED >> 32);
    c[0] = (uint32_t) block, c[1] = (uint32_t) (block >> 32), c[2] = c[3] = 0;
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
        uint64_t a = (uint64_t) 0xD2511F53 * c[0], b = (uint64_t) 0xCD9E8D57 * c[2];
        c[0] = (uint32_t) (b >> 32) ^ c[1] ^ k0;
        c[1] = (uint32_t) b;
        c[2] = (uint32_t) (a >> 32) ^ c[3] ^ k1;
        c[3] = (uint32_t) a;
    }
}

// The first dimension: the bits of the number's Gray code, reversed.
static uint32_t sobol(uint32_t i) {
    uint32_t gray = i ^ i >> 1, out = 0;
    for (int bit = 0; bit < 32; bit++) {
        out |= (gray >> bit & 1) << (31 - bit);
    }
    return out;
}

template <typename T, typename F> static std::vector<T> generate(const char * what, F make) {
    T * device;
    std::vector<T> host(N);
    must(hipMalloc((void **) &device, N * sizeof(T)), "hipMalloc");
    must(make(device), what);
    must(hipMemcpy(host.data(), device, N * sizeof(T), hipMemcpyDeviceToHost), "hipMemcpy");
    must(hipFree(device), "hipFree");
    return host;
}

template <typename T> static bool near(const std::vector<T> & v, double mean, double variance) {
    double sum = 0, squares = 0;
    for (T x : v) {
        sum += x;
        squares += ((double) x - mean) * ((double) x - mean);
    }
    // Five standard errors; the kurtosis of neither distribution is above 3.
    double error = 5 / sqrt((double) N);
    return fabs(sum / N - mean) < error * sqrt(variance) &&
           fabs(squares / N - variance) < error * variance * sqrt(2);
}

// Chi-square over 64 equal parts: 63 on average, 150 once in 10^9 runs.
static bool even(const std::vector<uint32_t> & v) {
    double count[64] = {0}, sum = 0;
    for (uint32_t x : v) {
        count[x >> 26]++;
    }
    for (double n : count) {
        sum += (n - N / 64.0) * (n - N / 64.0) / (N / 64.0);
    }
    return sum < 150;
}

static void run(rocrand_rng_type type, const char * name) {
    rocrand_generator g;
    must(rocrand_create_generator(&g, type), name);
    bool quasi = type >= ROCRAND_RNG_QUASI_DEFAULT;
    if (!quasi) {
        must(rocrand_set_seed(g, SEED), name);
    }
    auto words = generate<uint32_t>(name, [&](uint32_t * p) { return rocrand_generate(g, p, N); });
    check(even(words), name, "all parts are as likely");
    if (type == ROCRAND_RNG_PSEUDO_PHILOX4_32_10 || quasi) {
        bool same = true;
        for (size_t i = 0; i < N; i++) {
            uint32_t c[4];
            philox(i / 4, c);
            same &= words[i] == (quasi ? sobol((uint32_t) i) : c[i % 4]);
        }
        check(same, name, "each number");
    }
    auto uniform = generate<float>(
        name, [&](float * p) { return rocrand_generate_uniform(g, p, N); });
    check(near(uniform, 0.5, 1 / 12.0), name, "uniform");
    auto normal = generate<float>(
        name, [&](float * p) { return rocrand_generate_normal(g, p, N, 2.0f, 3.0f); });
    check(near(normal, 2, 9), name, "normal");
    auto doubles = generate<double>(
        name, [&](double * p) { return rocrand_generate_normal_double(g, p, N, -1.0, 0.5); });
    check(near(doubles, -1, 0.25), name, "normal, double precision");
    must(rocrand_destroy_generator(g), name);
}

int main() {
    run(ROCRAND_RNG_PSEUDO_PHILOX4_32_10, "philox");
    run(ROCRAND_RNG_QUASI_SOBOL32, "sobol32");
    run(ROCRAND_RNG_PSEUDO_MRG32K3A, "mrg32k3a");
    printf("%d failures\n", failures);
    return failures != 0;
}

// rocPRIM's sorts, scans and choices on a GPU, which live on what our own kernels do without: lanes
// that read each other's registers, votes, blocks that wait for the block before. Against the
// standard library.
#include <hip/hip_runtime.h>
#include <rocprim/rocprim.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

static int failures;

static void must(hipError_t e, const char * what) {
    if (e != hipSuccess) {
        printf("FAIL %s: %s\n", what, hipGetErrorString(e));
        exit(1);
    }
}

static void check(bool ok, const char * what, size_t n) {
    printf("%s %s of %zu\n", ok ? "ok  " : "FAIL", what, n);
    failures += !ok;
}

template <typename T> struct array { // on the device
    T * data;
    explicit array(const std::vector<T> & from) {
        must(hipMalloc((void **) &data, from.size() * sizeof(T)), "hipMalloc");
        must(hipMemcpy(data, from.data(), from.size() * sizeof(T), hipMemcpyHostToDevice),
             "hipMemcpy");
    }
    ~array() { (void) hipFree(data); }
    std::vector<T> get(size_t n) const {
        std::vector<T> out(n);
        must(hipMemcpy(out.data(), data, n * sizeof(T), hipMemcpyDeviceToHost), "hipMemcpy");
        return out;
    }
};

// Every primitive says first how much room it needs.
template <typename F> static void twice(F primitive) {
    size_t size = 0;
    must(primitive(nullptr, size), "size");
    void * room;
    must(hipMalloc(&room, size + 1), "hipMalloc");
    must(primitive(room, size), "primitive");
    must(hipDeviceSynchronize(), "hipDeviceSynchronize");
    must(hipFree(room), "hipFree");
}

template <typename T> static void run(size_t n) {
    std::mt19937_64 random(n);
    std::vector<T> a(n), want(n);
    for (T & x : a) {
        x = (T) ((int64_t) (random() % 2000) - 1000);
    }
    array<T> in(a), out(a);

    twice([&](void * room, size_t & size) {
        return rocprim::inclusive_scan(room, size, in.data, out.data, n, rocprim::plus<T>());
    });
    std::partial_sum(a.begin(), a.end(), want.begin());
    check(out.get(n) == want, "inclusive scan", n);

    twice([&](void * room, size_t & size) {
        return rocprim::reduce(room, size, in.data, out.data, (T) 5, n, rocprim::plus<T>());
    });
    check(out.get(1)[0] == std::accumulate(a.begin(), a.end(), (T) 5), "reduction", n);

    twice([&](void * room, size_t & size) {
        return rocprim::radix_sort_keys(room, size, in.data, out.data, n);
    });
    want = a;
    std::sort(want.begin(), want.end());
    check(out.get(n) == want, "radix sort", n);

    twice([&](void * room, size_t & size) {
        return rocprim::merge_sort(room, size, in.data, out.data, n, rocprim::less<T>());
    });
    check(out.get(n) == want, "merge sort", n);

    std::vector<uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0u);
    array<uint32_t> keys(order), sorted(order);
    twice([&](void * room, size_t & size) {
        return rocprim::radix_sort_pairs_desc(room, size, in.data, out.data, keys.data,
                                              sorted.data, n);
    });
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t x, uint32_t y) { return a[x] > a[y]; });
    check(sorted.get(n) == order, "descending sort with values", n);

    array<size_t> count(std::vector<size_t>(1));
    twice([&](void * room, size_t & size) {
        return rocprim::select(room, size, in.data, out.data, count.data, n,
                               [] __device__(T x) { return x > (T) 0; });
    });
    want.clear();
    std::copy_if(a.begin(), a.end(), std::back_inserter(want), [](T x) { return x > (T) 0; });
    size_t kept = count.get(1)[0];
    check(kept == want.size() && out.get(kept) == want, "choice", n);
}

int main() {
    for (size_t n : {1, 63, 64, 65, 1000, 4097, 100003}) {
        run<int>(n);
        run<double>(std::min(n, (size_t) 5000)); // whole numbers: their sums are exact
    }
    printf("%d failures\n", failures);
    return failures != 0;
}

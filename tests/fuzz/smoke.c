// smoke: a fuzz target without libFuzzer. Runs every seed as it is, cut off at many lengths, and
// with pseudo-random mutations; the generator is seeded with constants, so every run is the same
// run. A failure is an abort or a sanitizer's report.
//
//   smoke-NAME                 the run that ctest does
//   smoke-NAME --seeds DIR     writes the seeds to files there, for libFuzzer, and prints the
//   length
//                              that its inputs should keep to
//   smoke-NAME FILE...         feeds these files, as libFuzzer's own programs do
#include "fuzz.h"
#include "skip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t next_random(uint64_t * state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

// An allocation of exactly size bytes lets a sanitizer see the first byte too far.
static void feed(const uint8_t * data, size_t size) {
    uint8_t * copy = malloc(size ? size : 1);
    if (!copy) {
        abort();
    }
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void mutate(uint8_t * data, size_t size, uint64_t * random) {
    static const uint32_t hostile[] = {0,          1,          4,          0xff,
                                       0xffffffff, 0x80000000, 0x7fffffff, 0xfffffffc,
                                       0x40000000, 0x00ff0105, 0x00ff0111};
    size_t n = 1 + next_random(random) % 6;
    for (size_t i = 0; i < n; i++) {
        size_t at = next_random(random) % size;
        uint64_t choice = next_random(random);
        switch (choice % 4) {
        case 0:
            data[at] ^= (uint8_t) (1u << (choice >> 8) % 8);
            break;
        case 1:
            data[at] = (uint8_t) (choice >> 8);
            break;
        case 2:
            if (size >= 4) {
                store_u32(data + at % (size - 3) / 4 * 4,
                          hostile[(choice >> 8) % (sizeof hostile / sizeof hostile[0])]);
            }
            break;
        default: { // one part over another
            size_t from = (choice >> 8) % size, room = size - (from > at ? from : at);
            memmove(data + at, data + from, room < 64 ? room : 64);
        }
        }
    }
}

static int write_seeds(const char * dir) {
    uint8_t * seed;
    size_t size;
    for (int i = 0; fuzz_seed(i, &seed, &size); i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/seed-%d", dir, i);
        FILE * f = seed ? fopen(path, "wb") : NULL;
        bool ok = !seed || (f && fwrite(seed, 1, size, f) == size);
        if ((f && fclose(f)) || !ok) {
            fprintf(stderr, "%s: cannot be written\n", path);
            return 1;
        }
        free(seed);
    }
    printf("%d\n", fuzz_longest);
    return 0;
}

static int feed_file(const char * path) {
    uint8_t * data;
    size_t size;
    struct error err;
    if (file_read(path, (size_t) 1 << 30, &data, &size, &err) != ST_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    feed(data, size);
    free(data);
    printf("%s: nothing was found\n", path);
    return 0;
}

static int feed_seeds(void) {
    uint8_t * seed;
    size_t size;
    int n_missing = 0, n_seeds = 0;
    long n_inputs = 0;
    for (int i = 0; fuzz_seed(i, &seed, &size); i++) {
        if (!seed) {
            n_missing++;
            continue;
        }
        uint64_t random = 0x2545f4914f6cdd1dull + (uint64_t) i;
        feed(seed, size);
        size_t step = size / 97 + 1; // an odd stride meets every alignment
        for (size_t n = 0; n < size; n += step, n_inputs++) {
            feed(seed, n);
        }
        uint8_t * copy = malloc(size ? size : 1);
        for (int round = 0; copy && size && round < fuzz_rounds; round++, n_inputs++) {
            memcpy(copy, seed, size);
            mutate(copy, size, &random);
            feed(copy, size);
        }
        free(copy);
        free(seed);
        n_seeds++;
    }
    printf("%ld inputs from %d seeds\n", n_inputs, n_seeds);
    if (n_missing && golden_required()) {
        printf("%d seeds are not in %s, and GGML_HSA_GOLDEN_REQUIRED is set\n", n_missing,
               GOLDEN_DIR);
        return 1;
    }
    if (n_missing) {
        printf("%d seeds are not there\n", n_missing);
        skip_say("no golden data in %s", GOLDEN_DIR);
    }
    return n_seeds ? 0 : n_missing ? SKIPPED : 1;
}

int main(int argc, char ** argv) {
    if (argc == 3 && !strcmp(argv[1], "--seeds")) {
        return write_seeds(argv[2]);
    }
    int failed = argc > 1 ? 0 : feed_seeds();
    for (int i = 1; i < argc; i++) {
        failed |= feed_file(argv[i]);
    }
    return failed;
}

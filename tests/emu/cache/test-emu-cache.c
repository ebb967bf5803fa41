// cache: what a program that forgets a flush sees. Each case is a program of a few steps over a
// region of lines, and says what the device and the program find afterwards.
#include "base/cmocka-all.h"
#include "emu/cache/cache.h"

#include <pthread.h>
#include <sys/mman.h>

enum { LINE = EMU_CACHE_LINE, LINES = 4, SIZE = LINES * LINE };

// Steps, one letter each, with the line that they are of:
// h: the program writes the first byte of line n; H: all of it
// d: the device writes the second byte; D: all of it
// f: the line is flushed; F: everything is; e: lines go by themselves, many times over
// Then the bytes 0 and 1 of line 0 as the program and as the device sees them: '0' as they began,
// 'h' or 'd' for who wrote them.
static const struct scene {
    const char *name, *steps, *program, *device;
} scenes[] = {
    {"nothing happens", "F", "00", "00"},
    {"a write that nobody flushed", "Fh0", "h0", "00"},
    {"a write that was flushed", "Fh0f0", "h0", "h0"},
    {"the flush of another line", "Fh0f1", "h0", "00"},
    {"a write that went by itself", "Fh0e", "h0", "h0"},
    {"a result that nobody flushed", "FD0", "00", "dd"},
    {"a result that was flushed", "FD0f0", "dd", "dd"},
    {"a stale copy does not go by itself", "FD0e", "00", "dd"},
    {"a result beside a write", "Fd0f0h0f0", "hd", "hd"},
    {"a result lost to the line that the program wrote in part", "Fd0h0f0", "h0", "h0"},
    {"a result lost to such a line that went by itself", "Fh0d0e", "h0", "h0"},
    {"a result in a fresh buffer that was flushed", "FD0ef0", "dd", "dd"},
    {"a result in a fresh buffer that was not, lost at the flush", "D0f0", "00", "00"},
    {"and by itself", "D0ef0", "00", "00"},
    {"a line written whole over a result", "FD0H0f0", "hh", "hh"},
};

static uint8_t seen(const struct scene * s, uint8_t byte) {
    if (byte != 0 && byte != 'h' && byte != 'd') {
        fail_msg("%s: a byte is %d, which nobody wrote", s->name, byte);
    }
    return byte ? byte : '0';
}

static void play(const struct scene * s, uint8_t * host) {
    struct emu_cache * c = emu_cache_new(28);
    assert_non_null(c);
    memset(host, 0, SIZE);
    assert_int_equal(emu_cache_add(c, host, SIZE, NULL), ST_OK);
    uint8_t * memory = emu_cache_memory(c, host, SIZE);
    assert_non_null(memory);
    for (const char * at = s->steps; *at; at++) {
        bool of_all = *at == 'F' || *at == 'e';
        size_t line = of_all ? 0 : (size_t) (at[1] - '0') * LINE;
        switch (*at) {
        case 'h':
            host[line] = 'h';
            break;
        case 'H':
            memset(host + line, 'h', LINE);
            break;
        case 'd':
            memory[line + 1] = 'd';
            break;
        case 'D':
            memset(memory + line, 'd', LINE);
            break;
        case 'f':
            emu_cache_flush(c, host + line + 7, 1);
            break;
        case 'F':
            emu_cache_flush(c, host, SIZE);
            break;
        case 'e':
            for (int i = 0; i < 100; i++) {
                emu_cache_evict(c);
            }
            break;
        default:
            fail_msg("no such step: %s", at);
        }
        at += !of_all;
    }
    char program[3] = {(char) seen(s, host[0]), (char) seen(s, host[1]), 0};
    char device[3] = {(char) seen(s, memory[0]), (char) seen(s, memory[1]), 0};
    if (strcmp(program, s->program) != 0 || strcmp(device, s->device) != 0) {
        fail_msg("%s: the program sees %s, the device %s, not %s and %s", s->name, program, device,
                 s->program, s->device);
    }
    emu_cache_free(c);
}

static void test_scenes(void ** state) {
    (void) state;
    static _Alignas(LINE) uint8_t host[SIZE];
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        play(&scenes[i], host);
    }
}

// Regions need not begin or end with a line; each has its own bytes of one that they share.
static void test_edges(void ** state) {
    (void) state;
    static _Alignas(LINE) uint8_t host[SIZE];
    struct emu_cache * c = emu_cache_new(1);
    memset(host, 1, sizeof host);
    assert_int_equal(emu_cache_add(c, host + 10, 100, NULL), ST_OK);
    assert_int_equal(emu_cache_add(c, host + 110, 50, NULL), ST_OK);
    assert_int_equal(emu_cache_add(c, host + 109, 2, NULL), ST_INVALID);
    assert_int_equal(emu_cache_add(c, host + 159, 2, NULL), ST_INVALID);
    assert_int_equal(emu_cache_add(c, host, 200, NULL), ST_INVALID);
    assert_int_equal(emu_cache_add(c, host + 200, 0, NULL), ST_INVALID);
    assert_null(emu_cache_memory(c, host + 9, 1));
    assert_null(emu_cache_memory(c, host + 160, 1));
    assert_null(emu_cache_memory(c, host + 109, 2)); // in two
    assert_null(emu_cache_memory(c, host + 10, SIZE_MAX));
    uint8_t * first = emu_cache_memory(c, host + 10, 100);
    uint8_t * second = emu_cache_memory(c, host + 110, 50);
    assert_ptr_equal(emu_cache_memory(c, host + 159, 1), second + 49);
    assert_int_equal(first[0], 1);
    assert_int_equal(second[49], 1);

    memset(host, 2, sizeof host);
    emu_cache_flush(c, host, 63); // the first line alone
    assert_int_equal(first[53], 2);
    assert_int_equal(first[54], 1);
    assert_int_equal(emu_cache_flushed(c), LINE);
    emu_cache_flush(c, host + 63, 2); // two lines, the second in both regions
    assert_int_equal(first[99], 2);
    assert_int_equal(second[17], 2);
    assert_int_equal(second[18], 1);
    assert_int_equal(emu_cache_flushed(c), 4 * LINE);
    emu_cache_flush(c, host + 160, 32); // a line of which a part is in no region
    assert_int_equal(second[49], 2);
    emu_cache_flush(c, host + 192, 64);
    emu_cache_flush(c, host, 0);
    assert_int_equal(emu_cache_flushed(c), 5 * LINE);

    emu_cache_remove(c, host + 11); // no region begins there
    assert_non_null(emu_cache_memory(c, host + 10, 100));
    emu_cache_remove(c, host + 10);
    assert_null(emu_cache_memory(c, host + 10, 1));
    assert_ptr_equal(emu_cache_memory(c, host + 110, 1), second);
    assert_int_equal(emu_cache_add(c, host, 100, NULL), ST_OK);
    emu_cache_free(c);
}

static long resident_pages(void) {
    FILE * f = fopen("/proc/self/statm", "r");
    long size = 0, resident = -1;
    if (f) {
        if (fscanf(f, "%ld %ld", &size, &resident) != 2) {
            resident = -1;
        }
        fclose(f);
    }
    return resident;
}

// Weights are hundreds of megabytes, of which a test may use one.
static void test_large(void ** state) {
    (void) state;
    size_t size = (size_t) 512 << 20;
    uint8_t * host = mmap(NULL, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(host, MAP_FAILED);
    struct emu_cache * c = emu_cache_new(3);
    long before = resident_pages();
    assert_int_equal(emu_cache_add(c, host, size, NULL), ST_OK);
    emu_cache_flush(c, host, size);
    long after = resident_pages();
#if defined(__SANITIZE_THREAD__)
    before = 0; // it keeps pages of its own for those that are touched
#endif
    if (before > 0 && after - before > 16384) { // 64 MiB
        fail_msg("%ld pages for a region in which nothing lies", after - before);
    }
    uint8_t * memory = emu_cache_memory(c, host, size);
    host[size - 1] = 5;
    emu_cache_flush(c, host + size - 1, 1);
    assert_int_equal(memory[size - 1], 5);
    emu_cache_free(c);
    munmap(host, size);
}

// A program writes while lines go: nothing that it wrote may be lost.
struct writer {
    struct emu_cache * cache;
    _Atomic bool done;
};

static void * evict_all(void * arg) {
    struct writer * w = arg;
    while (!w->done) {
        emu_cache_evict(w->cache);
    }
    return NULL;
}

static void test_writer(void ** state) {
    (void) state;
    static _Alignas(LINE) uint32_t host[SIZE / 4];
    struct writer w = {.cache = emu_cache_new(4)};
    memset(host, 0, sizeof host);
    assert_int_equal(emu_cache_add(w.cache, host, sizeof host, NULL), ST_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, evict_all, &w), 0);
    for (uint32_t i = 1; i < 200000; i++) {
        __atomic_store_n(&host[i % (SIZE / 4)], i, __ATOMIC_RELAXED);
    }
    w.done = true;
    pthread_join(thread, NULL);
    for (uint32_t i = 200000 - SIZE / 4; i < 200000; i++) {
        assert_int_equal(host[i % (SIZE / 4)], i);
    }
    emu_cache_flush(w.cache, host, sizeof host);
    assert_memory_equal(host, emu_cache_memory(w.cache, host, sizeof host), sizeof host);
    emu_cache_free(w.cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scenes),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

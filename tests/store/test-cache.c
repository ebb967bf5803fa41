// cache: what is found again and what is not; every byte of an entry counts; a table of what is in
// the key; the size stays within its bound; clearing takes kernels and nothing else.
#include "store/cache-rig.h"
#include "store/cache-entry.h"
#include "store/cache.h"
#include "store/external.h"

// ---- found again ----

static void test_order(void ** state) {
    (void) state;
    struct kernel_spec a = make_spec(DTYPE_F32, 64), b = make_spec(DTYPE_F32, 128);
    struct kernel_spec c = make_spec(DTYPE_I16, 64);
    struct store * s = open_store();
    assert_true(got_right(s, &a) && got_right(s, &b) && got_right(s, &c) && got_right(s, &a));
    assert_int_equal(stats_of(s).compiles, 3);
    assert_int_equal(stats_of(s).memory_hits, 1);
    assert_int_equal(stats_of(s).cache_publishes, 3);
    assert_int_equal(stats_of(s).cache_hits, 0);
    store_free(s);
    assert_int_equal(n_warnings, 0);

    s = open_store();
    assert_true(got_right(s, &a) && got_right(s, &b) && got_right(s, &c) && got_right(s, &b));
    assert_int_equal(stats_of(s).compiles, 0);
    assert_int_equal(stats_of(s).cache_hits, 3);
    assert_int_equal(stats_of(s).memory_hits, 1);
    store_free(s);
    assert_int_equal(atomic_load(&shared->compiles), 3);

    // The plain files are what other programs read: as a pack they come before the cache.
    setenv("GGML_HSA_KERNEL_DIR", cache_dir, 1);
    s = open_store();
    assert_true(got_right(s, &a));
    assert_int_equal(stats_of(s).pack_hits, 1);
    assert_int_equal(stats_of(s).cache_hits, 0);
    store_free(s);

    // One PDI for both f32 kernels, on disk too.
    char pa[512], pb[512];
    struct stat ia, ib;
    path_of(&a, ".pdi", pa);
    path_of(&b, ".pdi", pb);
    assert_int_equal(stat(pa, &ia) | stat(pb, &ib), 0);
    assert_int_equal(ia.st_ino, ib.st_ino);
    assert_int_equal(ia.st_nlink, 3);
    assert_int_equal(count_entries("shared", ".pdi"), 2);
    assert_int_equal(count_entries("aie2", ".lock"), 0);
    assert_int_equal(count_entries("aie2", ""), 9);
}

static void test_off(void ** state) {
    (void) state;
    struct kernel_spec a = make_spec(DTYPE_F32, 64);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
    expect_compile(&a);
    assert_int_not_equal(access(cache_dir, F_OK), 0);
    assert_int_equal(n_warnings, 0);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "lots", 1);
    expect_compile(&a);
    assert_int_equal(n_warnings, 1);
    assert_non_null(strstr(last_warning, "GGML_HSA_KERNEL_CACHE_MAX_SIZE=lots"));
    unsetenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE");

    struct store_compiler nameless = rig_compiler; // one that says nothing of itself is not cached
    nameless.identity = NULL;
    assert_int_equal(get_once(&nameless, &a).compiles, 1);
    assert_int_equal(get_once(&nameless, &a).compiles, 1);
    assert_int_not_equal(access(cache_dir, F_OK), 0);
}

static void test_sizes(void ** state) {
    (void) state;
    static const struct {
        const char * text;
        uint64_t bytes;
    } good[] = {{"", CACHE_DEFAULT_MAX}, {"0", 0},
                {"4096", 4096},          {"3K", 3072},
                {"5m", 5u << 20},        {"2G", 2ull << 30},
                {"1T", 1ull << 40},      {"18446744073709551615", UINT64_MAX}};
    static const char * const bad[] = {"-1", " 1",       "K", "1KB", "1.5G", "99999999999999999999",
                                       "x",  "99999999T"};
    uint64_t bytes;
    struct error err;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", good[i].text, 1);
        assert_int_equal(cache_max_size(&bytes, &err), ST_OK);
        assert_true(bytes == good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", bad[i], 1);
        assert_int_equal(cache_max_size(&bytes, &err), ST_INVALID);
    }
}

static void test_places(void ** state) {
    (void) state;
    static const struct {
        const char *named, *xdg, *home, *base, *own;
    } cases[] = {
        {"/a/b/c/", "/x", "/", "/a/b", "c"},
        {"/c", NULL, NULL, "/", "c"},
        {NULL, "/x", "/", "/x", "ggml"},
        {"", "/x", "/", "/x", "ggml"},
        {NULL, "relative", "/", "//.cache", "ggml"},
        {NULL, NULL, "/", "//.cache", "ggml"},
        {NULL, NULL, "/nonexistent", "/tmp", "ggml/ggml-hsa"},
        {NULL, NULL, "", "/tmp", "ggml/ggml-hsa"},
        {NULL, NULL, NULL, "/tmp", "ggml/ggml-hsa"},
    };
    const char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
    char *old_home = home ? strdup(home) : NULL, *old_xdg = xdg ? strdup(xdg) : NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct {
            const char *name, *value;
        } vars[] = {{"GGML_HSA_KERNEL_CACHE_DIR", cases[i].named},
                    {"XDG_CACHE_HOME", cases[i].xdg},
                    {"HOME", cases[i].home}};
        for (int k = 0; k < 3; k++) {
            vars[k].value ? setenv(vars[k].name, vars[k].value, 1) : unsetenv(vars[k].name);
        }
        struct keep_place place;
        assert_int_equal(cache_place_find(&place, NULL), ST_OK);
        assert_string_equal(place.base, cases[i].base);
        assert_string_equal(place.own, cases[i].own);
        keep_place_free(&place);
    }
    old_home ? setenv("HOME", old_home, 1) : unsetenv("HOME");
    old_xdg ? setenv("XDG_CACHE_HOME", old_xdg, 1) : unsetenv("XDG_CACHE_HOME");
    free(old_home);
    free(old_xdg);
}

// ---- every byte ----

static void flip_each(const struct kernel_spec * spec, const char * suffix, uint8_t mask) {
    char path[512];
    uint8_t * bytes;
    size_t size;
    path_of(spec, suffix, path);
    expect_hit(spec);
    assert_int_equal(file_read(path, 1 << 20, &bytes, &size, NULL), ST_OK);
    assert_true(size > 40);
    int damaged = 0;
    for (size_t i = 0; i < size; i++) {
        // Into the file itself: a link of other kernels is then damaged for them as well.
        int fd = open(path, O_WRONLY);
        uint8_t flipped = bytes[i] ^ mask;
        assert_int_equal(pwrite(fd, &flipped, 1, (off_t) i), 1);
        close(fd);
        struct store_stats stats = get_once(&rig_compiler, spec);
        if (stats.cache_hits != 0 || stats.compiles != 1 || stats.cache_publishes != 1) {
            fail_msg("byte %zu of %s: a flip by 0x%02x is not noticed", i, suffix, mask);
        }
        damaged += (int) stats.cache_damaged;
        if (i % 16 == 0) { // it has healed
            expect_hit(spec);
        }
    }
    free(bytes);
    print_message("%s: %zu bytes flipped by 0x%02x, each noticed, %d times quarantined\n", suffix,
                  size, mask, damaged);
    assert_true(damaged + 9 >= (int) size); // "format 2" with another number is no damage
    assert_between(count_entries("quarantine", ""), 1, 48);
}

static void test_flips(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec(DTYPE_F32, 77), other = make_spec(DTYPE_F32, 78);
    expect_compile(&spec);
    expect_compile(&other);
    for (int i = 0; i < 2; i++) {
        flip_each(&spec, ".meta", i ? 0x01 : 0xff);
        flip_each(&spec, "_insts.bin", i ? 0x80 : 0xff);
        flip_each(&spec, ".pdi", i ? 0x01 : 0xff);
    }
    // The PDI was shared: the other kernel was damaged with it, and heals as well.
    get_once(&rig_compiler, &other);
    expect_hit(&other);
}

static void test_wrong_files(void ** state) {
    (void) state;
    static const char * const suffixes[] = {".meta", ".pdi", "_insts.bin"};
    struct kernel_spec spec = make_spec(DTYPE_F32, 77), other = make_spec(DTYPE_F32, 78);
    char path[512], from[512], target[128];
    snprintf(target, sizeof target, "%s/target", rig_dir);
    for (int i = 0; i < 3; i++) {
        path_of(&spec, suffixes[i], path);
        get_once(&rig_compiler, &spec);
        expect_hit(&spec);
        assert_int_equal(truncate(path, 0), 0);
        expect_compile(&spec);
        expect_hit(&spec);
        struct stat info;
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(truncate(path, info.st_size + 1), 0); // a zero byte more
        expect_compile(&spec);
        expect_hit(&spec);
        assert_int_equal(truncate(path, (off_t) 64 << 20), 0);
        expect_compile(&spec);
        expect_hit(&spec);
        assert_int_equal(unlink(path), 0);
        expect_compile(&spec);
        expect_hit(&spec);
        assert_int_equal(chmod(path, 0666), 0); // anybody could have written it
        expect_compile(&spec);
        expect_hit(&spec);
        assert_int_equal(rename(path, target), 0); // a link, to the right bytes even
        assert_int_equal(symlink(target, path), 0);
        expect_compile(&spec);
        expect_hit(&spec);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkfifo(path, 0600), 0); // would stop a reader
        expect_compile(&spec);
        expect_hit(&spec);
        // The files of another kernel under this name.
        get_once(&rig_compiler, &other);
        path_of(&other, suffixes[i], from);
        assert_int_equal(rename(from, path), 0);
        if (i != 1) { // which has the same PDI
            expect_compile(&spec);
        }
        expect_hit(&spec);
        unlink(target);
    }
    // Two good files of another program without a description are not of this cache.
    path_of(&spec, ".meta", path);
    assert_int_equal(unlink(path), 0);
    expect_compile(&spec);
}

// ---- size ----

static void set_age(const struct kernel_spec * spec, int64_t seconds) {
    char path[512];
    struct timespec t[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    path_of(spec, ".meta", path);
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static bool on_disk(const struct kernel_spec * spec) {
    char path[512];
    path_of(spec, ".meta", path);
    return access(path, F_OK) == 0;
}

static struct cache_totals totals_of(void) {
    struct cache * c;
    struct cache_totals totals;
    assert_int_equal(cache_open(false, &c, NULL), ST_OK);
    assert_int_equal(cache_walk(c, NULL, false, NULL, NULL, &totals, NULL), ST_OK);
    cache_close(c);
    return totals;
}

static void test_bound(void ** state) {
    (void) state;
    enum { MAX = 256 << 10, COUNT = 300 };
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "256K", 1);
    struct store * s = open_store();
    uint64_t most = 0;
    for (int i = 0; i < COUNT; i++) {
        struct kernel_spec spec = make_spec(i % 3 ? DTYPE_F32 : DTYPE_I16, 1 + i);
        assert_true(got_right(s, &spec));
        uint64_t bytes = totals_of().bytes;
        most = bytes > most ? bytes : most;
    }
    assert_int_equal(stats_of(s).cache_publishes, COUNT);
    store_free(s);
    print_message(
        "%d kernels went through a cache of %d bytes; at most %llu were used, at the end %llu "
        "kernels are there\n",
        COUNT, MAX, (unsigned long long) most, (unsigned long long) totals_of().kernels);
    assert_true(most <= MAX);
    assert_true(totals_of().kernels >= 20);
    struct kernel_spec last = make_spec((COUNT - 1) % 3 ? DTYPE_F32 : DTYPE_I16, COUNT);
    expect_hit(&last);
    assert_int_equal(n_warnings, 0);
}

static void test_least_recently_used(void ** state) {
    (void) state;
    struct kernel_spec specs[20];
    struct store * s = open_store();
    for (int i = 0; i < 20; i++) {
        specs[i] = make_spec(DTYPE_F32, 1 + i);
        assert_true(got_right(s, &specs[i]));
    }
    store_free(s);
    for (int i = 0; i < 20; i++) {
        set_age(&specs[i], 100000 - i * 1000);
    }
    expect_hit(&specs[0]); // the oldest is now the youngest
    struct cache * c;
    struct cache_totals totals, dry;
    uint64_t bytes = totals_of().bytes;
    assert_int_equal(cache_open(false, &c, NULL), ST_OK);
    assert_int_equal(cache_trim(c, bytes / 2, true, &dry, NULL), ST_OK);
    assert_true(totals_of().bytes == bytes);
    assert_int_equal(cache_trim(c, bytes / 2, false, &totals, NULL), ST_OK);
    assert_memory_equal(&dry, &totals, sizeof dry);
    assert_true(totals_of().bytes <= bytes / 2);
    assert_true(totals_of().bytes == bytes - totals.removed_bytes);
    for (int i = 1; i < 20; i++) {
        assert_int_equal(on_disk(&specs[i]), i > (int) totals.removed_kernels);
    }
    assert_true(on_disk(&specs[0]));
    expect_hit(&specs[0]);
    assert_int_equal(cache_trim(c, 0, false, &totals, NULL), ST_OK);
    assert_int_equal(totals_of().files, 0);
    assert_int_equal(count_entries("shared", ""), 0); // a PDI goes with its last kernel
    cache_close(c);
}

static void test_sweep(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec(DTYPE_F32, 1);
    expect_compile(&spec);
    static const char * const left[] = {"aie2/.tmp-0123456789abcdef", "shared/.tmp-00",
                                        "aie2/a.lock"};
    char path[256];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof path, "%s/%s", cache_dir, left[i]);
            write_file(path, "x", 1);
            struct timespec t[2] = {{.tv_sec = time(NULL) - 700 * round},
                                    {.tv_sec = time(NULL) - 700 * round}};
            assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
        }
        struct cache * c;
        struct cache_totals totals;
        assert_int_equal(cache_open(false, &c, NULL), ST_OK);
        assert_int_equal(cache_trim(c, CACHE_DEFAULT_MAX, false, &totals, NULL), ST_OK);
        cache_close(c);
        for (int i = 0; i < 3; i++) { // the young ones may be in use
            snprintf(path, sizeof path, "%s/%s", cache_dir, left[i]);
            assert_int_equal(access(path, F_OK) == 0, round == 0);
        }
    }
    expect_hit(&spec);
}

// ---- clearing ----

static bool count_states(void * user, const struct cache_item * item) {
    ++((int *) user)[item->state];
    return true;
}

// Two versions in one directory, each with the kernels of its own compiler: neither makes one
// twice, damage of one is not damage of the other, and both are listed and cleared.
static void test_two_versions(void ** state) {
    (void) state;
    enum { KERNELS = 3 };
    struct store_compiler versions[2] = {rig_compiler, rig_compiler};
    versions[1].identity = "rig 2";
    for (int round = 0; round < 3; round++) {
        for (int v = 0; v < 2; v++) {
            for (int i = 0; i < KERNELS; i++) {
                struct kernel_spec spec = make_spec(DTYPE_F32, 50 + i);
                struct store_stats stats = get_once(&versions[v], &spec);
                assert_int_equal(stats.compiles, round == 0);
                assert_int_equal(stats.cache_hits, round > 0);
                assert_int_equal(stats.cache_failures, 0);
            }
        }
    }
    assert_int_equal(count_entries("aie2", ".meta"), 2 * KERNELS);
    assert_int_equal(count_entries("aie2", ".lock"), 0);

    struct cache * c;
    struct cache_totals totals;
    int states[CACHE_STATES] = {0};
    assert_int_equal(cache_open(false, &c, NULL), ST_OK);
    assert_int_equal(cache_walk(c, "rig 2", true, count_states, states, &totals, NULL), ST_OK);
    assert_int_equal(states[CACHE_GOOD], KERNELS);
    assert_int_equal(states[CACHE_STALE], KERNELS);
    assert_int_equal(states[CACHE_DAMAGED], 0);

    // Each half of a pair is damaged in its turn.
    struct kernel_spec spec = make_spec(DTYPE_F32, 50);
    char name[KERNEL_NAME_MAX], path[512];
    kernel_name(&spec, name);
    char dir[256];
    snprintf(dir, sizeof dir, "%s/aie2", cache_dir);
    for (int v = 0; v < 2; v++) {
        DIR * d = opendir(dir);
        path[0] = '\0';
        for (struct dirent * e; (e = readdir(d));) {
            bool side = strchr(e->d_name, '@') != NULL;
            if (!strncmp(e->d_name, name, strlen(name)) && strstr(e->d_name, "_insts.bin") &&
                side == (v == 1)) {
                snprintf(path, sizeof path, "%.200s/%.250s", dir, e->d_name);
            }
        }
        closedir(d);
        assert_int_equal(truncate(path, 4), 0);
        assert_int_equal(get_once(&versions[!v], &spec).cache_hits, 1);
        struct store_stats stats = get_once(&versions[v], &spec);
        assert_int_equal(stats.compiles, 1);
        assert_int_equal(stats.cache_damaged, 1);
        assert_int_equal(get_once(&versions[0], &spec).cache_hits, 1);
        assert_int_equal(get_once(&versions[1], &spec).cache_hits, 1);
    }
    struct buf text = {0};
    assert_true(cache_explain(c, &spec, "rig 1", &text));
    assert_true(cache_explain(c, &spec, "rig 2", &text));
    assert_false(cache_explain(c, &spec, "rig 3", &text));
    assert_non_null(strstr((char *) text.data, "rig 3"));
    buf_free(&text);
    assert_int_equal(cache_clear(c, &totals, NULL), ST_OK);
    assert_int_equal(totals.removed_kernels, 2 * KERNELS);
    assert_int_equal(count_entries("aie2", ""), 0);
    cache_close(c);
}

static void test_clear(void ** state) {
    (void) state;
    static const char * const variables[] = {"GGML_HSA_KERNEL_CACHE_CLEAR",
                                             "GGML_HSA_JIT_CLEAR_CACHE"};
    static const char * const truths[] = {"1", "true", "TRUE", "on", "Yes"};
    static const char * const lies[] = {"", "0", "false", "off", "no"};
    struct kernel_spec spec = make_spec(DTYPE_F32, 5);
    char outside[128], path[512];
    snprintf(outside, sizeof outside, "%s/outside", rig_dir);
    mkdir(outside, 0700);
    for (int v = 0; v < 2; v++) {
        for (int i = 0; i < 5; i++) {
            get_once(&rig_compiler, &spec);
            setenv(variables[v], lies[i], 1);
            expect_hit(&spec);
        }
        // The older name says yes with whatever does not say no.
        static const char * const words[] = {"2", "x", "00"};
        for (int i = 0; i < 3; i++) {
            setenv(variables[v], words[i], 1);
            if (v == 0) {
                expect_hit(&spec);
            } else {
                expect_compile(&spec);
                expect_compile(&spec);
            }
        }
        for (int i = 0; i < 5; i++) {
            setenv(variables[v], truths[i], 1);
            expect_compile(&spec);
            expect_compile(&spec);
        }
        unsetenv(variables[v]);
    }

    // What was cut short goes; kernels of other programs stay, and so do what is no kernel and what
    // links lead to.
    static const char * const kernels[] = {"aie2/add_f32_4x1x1x1_f32_4x1x1x1.pdi",
                                           "aie2/add_f32_4x1x1x1_f32_4x1x1x1_insts.bin",
                                           "aie2/orphan.meta", "quarantine/aie2-x.meta"};
    static const char * const others[] = {"notes.txt",
                                          "aie2/notes.txt",
                                          "aie2/pdi",
                                          "aie2/.pdi",
                                          "x.pdi",
                                          "gfx942/x.pdi",
                                          "shared/notes",
                                          "aie2/sub/x.pdi",
                                          "aie2/add-4f32.pdi",
                                          "aie2/add-4f32_insts.bin",
                                          "aie2/other.pdi",
                                          "aie2p/x.pdi",
                                          "aie2/add_f32.pdi",
                                          "aie2/add_f32_1024.pdi"};
    enum { KERNELS = 4, OTHERS = sizeof others / sizeof others[0] };
    static const char * const dirs[] = {"aie2p", "quarantine", "gfx942", "aie2/sub"};
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", cache_dir, dirs[i]);
        mkdir(path, 0700);
    }
    for (int i = 0; i < KERNELS + OTHERS; i++) {
        snprintf(path, sizeof path, "%s/%s", cache_dir,
                 i < KERNELS ? kernels[i] : others[i - KERNELS]);
        write_file(path, "x", 1);
    }
    char victim[160];
    snprintf(victim, sizeof victim, "%s/victim.pdi", outside);
    write_file(victim, "x", 1);
    snprintf(path, sizeof path, "%s/aie2/link.pdi", cache_dir);
    assert_int_equal(symlink(victim, path), 0);
    snprintf(path, sizeof path, "%s/aie2/directory.pdi", cache_dir);
    assert_int_equal(mkdir(path, 0700), 0);
    setenv(variables[0], "1", 1);
    struct store * s = open_store();
    store_free(s);
    unsetenv(variables[0]);
    for (int i = 0; i < KERNELS + OTHERS; i++) {
        snprintf(path, sizeof path, "%s/%s", cache_dir,
                 i < KERNELS ? kernels[i] : others[i - KERNELS]);
        if ((access(path, F_OK) == 0) != (i >= KERNELS)) {
            fail_msg("%s %s", path, i < KERNELS ? "is still there" : "is gone");
        }
    }
    assert_false(on_disk(&spec));
    assert_int_equal(access(victim, F_OK), 0);
    assert_int_equal(count_entries("shared", ".pdi"), 0);

    // A directory that is a link is not entered.
    snprintf(path, sizeof path, "%s/aie2p/x.pdi", cache_dir);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/aie2p", cache_dir);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink(outside, path), 0);
    setenv(variables[0], "1", 1);
    s = open_store();
    store_free(s);
    unsetenv(variables[0]);
    assert_int_equal(access(victim, F_OK), 0);
    expect_compile(&spec);
    assert_int_equal(unlink(victim) | rmdir(outside), 0);
}

// Other programs' files may be linked to each other: they count for nothing, and no kernel of ours
// goes for their sake.
static void test_linked_by_others(void ** state) {
    (void) state;
    static const uint8_t bytes[9000];
    struct kernel_spec spec = make_spec(DTYPE_F32, 5);
    char first[512], path[512];
    struct cache * c;
    struct cache_totals before, after;
    struct error err;
    expect_compile(&spec);
    assert_int_equal(cache_open(false, &c, &err), ST_OK);
    assert_int_equal(cache_trim(c, 1 << 20, true, &before, &err), ST_OK);
    snprintf(first, sizeof first, "%s/aie2/theirs.pdi", cache_dir);
    write_file(first, bytes, sizeof bytes);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/aie2/theirs%d.pdi", cache_dir, i);
        assert_int_equal(link(first, path), 0);
    }
    assert_int_equal(cache_trim(c, 1 << 20, false, &after, &err), ST_OK);
    assert_int_equal(after.kernels, 1);
    assert_int_equal(after.foreign, 4);
    assert_int_equal(after.bytes, before.bytes);
    assert_int_equal(after.removed_kernels, 0);
    assert_int_equal(after.removed_bytes, 0);
    cache_close(c);
    expect_hit(&spec);
}

static void test_explain(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec(DTYPE_F32, 5), other = make_spec(DTYPE_F32, 6);
    expect_compile(&spec);
    struct cache * c;
    assert_int_equal(cache_open(false, &c, NULL), ST_OK);
    struct buf text = {0};
    assert_true(cache_explain(c, &spec, "rig 1", &text));
    assert_int_equal(text.size, 0);
    assert_false(cache_explain(c, &spec, "rig 2", &text));
    assert_string_equal((char *) text.data, "compiler: the cache has rig 1, wanted is rig 2\n");
    buf_free(&text);
    other.inputs[1] = spec.inputs[1];
    assert_false(cache_explain(c, &other, "rig 1", &text));
    assert_non_null(strstr((char *) text.data, "not in the cache"));
    assert_non_null(strstr((char *) text.data,
                           "input 0: the cache has (5,1,1,1)/f32, wanted is (6,1,1,1)/f32\n"));
    assert_non_null(strstr((char *) text.data, "output: the cache has (5,1,1,1)/f32"));
    assert_null(strstr((char *) text.data, "input 1"));
    buf_free(&text);
    char path[512];
    path_of(&spec, ".pdi", path);
    assert_int_equal(truncate(path, 3), 0);
    assert_false(cache_explain(c, &spec, "rig 1", &text));
    assert_non_null(strstr((char *) text.data, "its length has changed"));
    buf_free(&text);
    path_of(&spec, ".meta", path);
    assert_int_equal(unlink(path), 0);
    assert_false(cache_explain(c, &spec, "rig 1", &text));
    assert_non_null(strstr((char *) text.data, "without a .meta"));
    buf_free(&text);
    cache_close(c);
}

// ---- what the command of GGML_HSA_JIT_COMMAND makes ----

static enum status plans_nothing(const struct kernel_spec * spec, struct aie_plan * out,
                                 struct error * err) {
    (void) spec, (void) out;
    return error_set(err, ST_UNSUPPORTED, "not by this one");
}

static void write_script(const char * path, const char * first_line) {
    char text[1024];
    snprintf(text, sizeof text,
             "#!/bin/sh\n# %s\n"
             "while [ $# -gt 0 ]; do case $1 in --exported_name) n=$2;; --output_directory) d=$2;; "
             "esac; "
             "shift; done\n"
             "cp %s/made.pdi $d/$n.pdi && cp %s/made.bin $d/${n}_insts.bin && echo x >> %s/runs\n",
             first_line, rig_dir, rig_dir, rig_dir);
    write_file(path, text, strlen(text));
    assert_int_equal(chmod(path, 0700), 0);
}

// What the command copies.
static void write_made(const struct kernel_spec * spec) {
    char path[128];
    struct kernel_code code;
    assert_int_equal(rig_make(spec, &code), ST_OK);
    snprintf(path, sizeof path, "%s/made.pdi", rig_dir);
    write_file(path, code.pdi, code.pdi_size);
    snprintf(path, sizeof path, "%s/made.bin", rig_dir);
    write_file(path, code.insts, code.n_insts * 4);
    kernel_code_free(&code);
}

static void test_command(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec(DTYPE_F32, 31);
    struct store_compiler unable = rig_compiler;
    unable.plan = plans_nothing;
    char path[128], script[128];
    write_made(&spec);
    snprintf(script, sizeof script, "%s/build.sh", rig_dir);
    write_script(script, "one");
    setenv("GGML_HSA_JIT_COMMAND", script, 1);
    for (int i = 0; i < 6; i++) { // it runs for the first, and again when it has changed
        if (i == 3) {
            write_script(script, "two");
        }
        struct store_stats stats = get_once(&unable, &spec);
        assert_int_equal(stats.compiles, i % 3 == 0);
        assert_int_equal(stats.cache_hits, i % 3 != 0);
    }
    snprintf(path, sizeof path, "%s/runs", rig_dir);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 4); // two lines
    expect_compile(&spec);             // our compiler has another identity, and comes first
    unsetenv("GGML_HSA_JIT_COMMAND");
    struct store * s = open_with(&unable);
    struct store_kernel * k;
    assert_false(store_can(s, &spec));
    assert_int_equal(store_get(s, &spec, &k, NULL), ST_UNSUPPORTED);
    store_free(s);
}

// An entry of the command's kernel with a stream for a longer tensor or the right one, sealed as
// one that is whole, with this verdict.
static void forge(const struct kernel_spec * spec, const struct kernel_spec * stream_of,
                  const uint8_t verdict[SHA256_BYTES]) {
    char path[512], identity[EXTERNAL_IDENTITY_MAX];
    uint8_t * pdi;
    struct kernel_code code;
    struct keep_file a = {0}, b = {0};
    struct buf key = {0}, meta = {0};
    path_of(spec, ".pdi", path);
    assert_int_equal(file_read(path, 1 << 20, &pdi, &a.size, NULL), ST_OK);
    assert_int_equal(rig_make(stream_of, &code), ST_OK);
    b.size = code.n_insts * 4;
    sha256(pdi, a.size, a.digest);
    sha256(code.insts, b.size, b.digest);
    assert_true(external_identity(identity));
    entry_print_key(spec, identity, &key);
    entry_print(&key, &a, &b, verdict, &meta);
    path_of(spec, "_insts.bin", path);
    write_file(path, code.insts, b.size);
    path_of(spec, ".meta", path);
    write_file(path, meta.data, meta.size);
    buf_free(&key);
    buf_free(&meta);
    free(pdi);
    kernel_code_free(&code);
}

// The verdict on a command's kernel: it is kept with the entry, and nobody gains by changing it.
static void test_verdict(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec(DTYPE_F32, 31), longer = make_spec(DTYPE_F32, 32);
    struct store_compiler unable = rig_compiler;
    unable.plan = plans_nothing;
    char script[128];
    write_made(&spec);
    snprintf(script, sizeof script, "%s/build.sh", rig_dir);
    write_script(script, "one");
    setenv("GGML_HSA_JIT_COMMAND", script, 1);
    assert_int_equal(get_once(&unable, &spec).compiles, 1);
    assert_int_equal(get_once(&unable, &spec).cache_hits, 1);

    char path[512];
    uint8_t *text, verdict[SHA256_BYTES] = {0};
    size_t size;
    struct entry_meta meta;
    path_of(&spec, ".meta", path);
    assert_int_equal(file_read(path, 4096, &text, &size, NULL), ST_OK);
    assert_int_equal(entry_parse(text, size, &meta, NULL), ST_OK);
    assert_memory_not_equal(meta.verdict, verdict, sizeof verdict);

    char * line = strstr((char *) text, "verdict 0 "); // a digit of it, and the seal is broken
    assert_non_null(line);
    line[10] = line[10] == '0' ? '1' : '0';
    write_file(path, text, size);
    free(text);
    struct store_stats stats = get_once(&unable, &spec);
    assert_int_equal(stats.cache_damaged, 1);
    assert_int_equal(stats.compiles, 1);

    forge(&spec, &spec, verdict); // none, with a good seal: it is looked at again, and good
    assert_int_equal(get_once(&unable, &spec).cache_hits, 1);

    const uint8_t * const verdicts[] = {verdict, meta.verdict};
    for (int i = 0; i < 2; i++) { // a bad stream, without a verdict and with that of the good one
        forge(&spec, &longer, verdicts[i]);
        stats = get_once(&unable, &spec);
        assert_int_equal(stats.cache_hits, 0);
        assert_int_equal(stats.cache_damaged, 1);
        assert_int_equal(stats.compiles, 1);
        assert_int_equal(get_once(&unable, &spec).cache_hits, 1);
    }

    write_made(&longer); // a command that makes a bad kernel is not asked for it twice
    write_script(script, "two");
    struct store * s = open_with(&unable);
    struct store_kernel * k;
    struct error err = {0};
    assert_true(store_can(s, &spec));
    assert_int_equal(store_get(s, &spec, &k, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "of operand 2, which has 124"));
    assert_false(store_can(s, &spec));
    store_free(s);
    unsetenv("GGML_HSA_JIT_COMMAND");
}

// While one is shown, another process clears the rest.
struct witness {
    struct cache * c;
    int seen, damaged;
};

static bool clear_rest(void * user, const struct cache_item * item) {
    struct witness * w = user;
    struct cache_totals totals;
    w->damaged += item->state != CACHE_GOOD;
    return w->seen++ || cache_clear(w->c, &totals, NULL) == ST_OK;
}

static void test_removed_meanwhile(void ** state) {
    (void) state;
    struct witness w = {0};
    struct cache_totals totals;
    for (int i = 0; i < 4; i++) {
        struct kernel_spec spec = make_spec(DTYPE_F32, 1 + i);
        get_once(&rig_compiler, &spec);
    }
    assert_int_equal(cache_open(false, &w.c, NULL), ST_OK);
    assert_int_equal(cache_walk(w.c, "rig 1", true, clear_rest, &w, &totals, NULL), ST_OK);
    cache_close(w.c);
    assert_int_equal(w.seen, 1);
    assert_int_equal(w.damaged, 0);
    assert_int_equal(count_entries("aie2", ".lock"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_order, rig_reset),
        cmocka_unit_test_setup(test_off, rig_reset),
        cmocka_unit_test_setup(test_sizes, rig_reset),
        cmocka_unit_test_setup(test_places, rig_reset),
        cmocka_unit_test_setup(test_flips, rig_reset),
        cmocka_unit_test_setup(test_wrong_files, rig_reset),
        cmocka_unit_test_setup(test_bound, rig_reset),
        cmocka_unit_test_setup(test_least_recently_used, rig_reset),
        cmocka_unit_test_setup(test_sweep, rig_reset),
        cmocka_unit_test_setup(test_two_versions, rig_reset),
        cmocka_unit_test_setup(test_clear, rig_reset),
        cmocka_unit_test_setup(test_removed_meanwhile, rig_reset),
        cmocka_unit_test_setup(test_linked_by_others, rig_reset),
        cmocka_unit_test_setup(test_explain, rig_reset),
        cmocka_unit_test_setup(test_command, rig_reset),
        cmocka_unit_test_setup(test_verdict, rig_reset),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}

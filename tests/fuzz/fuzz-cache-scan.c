// fuzz-cache-scan: a directory of the cache with whatever may lie there: kernels of ours, whole or
// in part, other programs' files, links to one another and out of it, directories and pipes with
// our names, damage. Looking, trimming and clearing count what is there, once; take away nothing
// that is not ours; and touch nothing outside.
//
// Input: a list of files, then how the cache is trimmed.
#include "place.h"

#include "store/cache-scan.h"

#include <fcntl.h>

const int fuzz_rounds = 40;
const int fuzz_longest = 200;

enum { MOST_FILES = 24, OUTSIDE_BYTES = 5000 };

static char root[96], outside[96];

static const struct kernel_code code = {
    .pdi = (uint8_t *) "PDI",
    .pdi_size = 3,
    .insts = (uint32_t *) (uint32_t[]){1, 2, 3, 4},
    .n_insts = 4,
};

// ---- what lies there ----

static const char * const places[] = {"aie2", "aie2", "aie2p", "shared", "quarantine", ""};
enum { N_PLACES = sizeof places / sizeof places[0] };

static void place_path(const char * where, const char * name, char path[400]) {
    snprintf(path, 400, "%s/%s/%s", root, where, name);
}

static void file_name(struct fuzz_input * in, char name[200]) {
    static const char * const stems[] = {"add_f32_64x1x1x1",
                                         "add_f32_64x1x1x1@0123456789ab",
                                         "theirs",
                                         ".tmp-1-2",
                                         "relu_f32_1x2x3",
                                         "relu_f32_1x2x3x4",
                                         "a b",
                                         "0123456789abcdef"};
    static const char * const suffixes[] = {".pdi", "_insts.bin", ".meta", ".lock", "", ".txt"};
    uint32_t stem = fuzz_next(in);
    const char * suffix = FUZZ_PICK(in, suffixes);
    if (stem < 224) {
        snprintf(name, 200, "%s%s", stems[stem % 8], suffix);
        return;
    }
    uint32_t n = stem == 255 ? 180 : stem % 16 + 1, at = 0;
    while (at < n) {
        char c = (char) fuzz_next(in);
        name[at++] = c == '/' || c == '\0' ? 'x' : c;
    }
    snprintf(name + at, 200 - at, "%s", suffix);
}

static void put_file(struct fuzz_input * in, char made[MOST_FILES][400], int n) {
    static const uint16_t sizes[] = {0, 1, 16, 4095, 4096, 4097, 20000, 3};
    char name[200];
    const char * where = FUZZ_PICK(in, places);
    file_name(in, name);
    uint32_t kind = fuzz_next(in), other = fuzz_next(in);
    char * path = made[n];
    place_path(where, name, path);
    struct stat info;
    if (!name[0] || !strcmp(name, ".") || !strcmp(name, "..") || lstat(path, &info) == 0) {
        return;
    }
    static const uint8_t bytes[20000];
    int failed = 0;
    switch (kind % 8) {
    case 0: // to one of those before, or out of it
        failed = link(n && other % 4 ? made[other % (uint32_t) n] : outside, path);
        break;
    case 1:
        failed = symlink(other % 4 ? outside : "..", path);
        break;
    case 2:
        failed = mkdir(path, 0700);
        break;
    case 3:
        failed = mkfifo(path, 0600);
        break;
    default:
        place_write(path, bytes, sizes[other % 8]);
        failed = kind / 8 % 8 == 1 ? chmod(path, 0666) : 0;
        if (kind / 64 == 1) { // long ago
            const struct timespec times[2] = {{1000000, 0}, {1000000, 0}};
            failed |= utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
        }
    }
    (void) failed; // of a name that is too long, a link to what is not there
}

static struct kernel_spec spec_of(uint32_t i) {
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = (enum aie_arch)(i & 1), .n_inputs = 2};
    const int64_t ne[4] = {64 + i / 2 % 4, 1, 1, 1};
    spec.inputs[0] = spec.inputs[1] = spec.output = tensor_contiguous(DTYPE_F32, ne);
    return spec;
}

static void publish(struct cache * c, uint32_t i) {
    struct kernel_spec spec = spec_of(i);
    struct cache_lock lock;
    uint8_t digest[SHA256_BYTES];
    struct error err;
    sha256(code.pdi, code.pdi_size, digest);
    if (cache_lock(c, &spec, &lock, &err) == ST_OK) {
        cache_publish(c, &spec, i & 64 ? "other 1" : "fuzz 1", &code, digest, i & 32, &err);
        cache_unlock(&lock);
    }
}

// ---- what is asked of it ----

static int list_one(const char * path, const struct stat * info, int kind, struct FTW * at) {
    (void) kind, (void) at;
    fprintf(stderr, "%7o %8lld %s\n", (unsigned) info->st_mode, (long long) info->st_size, path);
    return 0;
}

_Noreturn static void fail(const char * what) {
    fprintf(stderr, "%s; there is:\n", what);
    nftw(place, list_one, 16, FTW_PHYS);
    abort();
}

struct walked {
    uint64_t kernels, foreign;
    bool check;
};

static bool visit(void * user, const struct cache_item * item) {
    struct walked * w = user;
    if (!item->name[0] || strchr(item->name, '/') ||
        (item->state != CACHE_GOOD && !item->why.text[0])) {
        fail("a kernel without a name or a reason");
    }
    w->kernels++;
    w->foreign += item->state == CACHE_FOREIGN;
    return true;
}

static struct cache_totals walk(struct cache * c, bool check) {
    struct cache_totals t = {0};
    struct walked w = {.check = check};
    struct error err = {0};
    if (cache_walk(c, "fuzz 1", check, visit, &w, &t, &err) != ST_OK) {
        fail("looking failed");
    }
    if (w.kernels != t.kernels + t.foreign || w.foreign < t.foreign) {
        fail("kernels were counted twice or not");
    }
    return t;
}

static uint64_t files_seen, blocks_seen, foreign_seen, steady_seen;

// A name that no kernel has, or a kernel of another program: a PDI that is linked to nothing, with
// no description beside it.
static bool is_foreign(const char * path, const struct stat * info) {
    const char *suffix = strrchr(path, '.'), *name = strrchr(path, '/') + 1;
    char meta[400];
    struct stat described;
    if (!strncmp(name, ".tmp-", 5)) {
        return false;
    }
    if (suffix && !strcmp(suffix, ".txt")) {
        return true;
    }
    snprintf(meta, sizeof meta, "%.*s.meta", (int) (strlen(path) - 4), path);
    return !strcmp(name, "theirs.pdi") && strstr(path, "/aie2") && info->st_nlink == 1 &&
           (lstat(meta, &described) != 0 || !S_ISREG(described.st_mode));
}

// Regular files, each as if it were the only one; those that surely are nobody's kernel; and those
// that no call makes by itself, as locks and the note of growth.
static int count_one(const char * path, const struct stat * info, int kind, struct FTW * at) {
    (void) kind;
    if (at->level > 0 && S_ISREG(info->st_mode)) {
        size_t n = strlen(path);
        files_seen++;
        steady_seen += at->level > 1 && (n < 5 || strcmp(path + n - 5, ".lock"));
        blocks_seen += ((uint64_t) info->st_size + KEEP_BLOCK - 1) / KEEP_BLOCK;
        foreign_seen += is_foreign(path, info);
    }
    return 0;
}

static void count(void) {
    files_seen = blocks_seen = foreign_seen = steady_seen = 0;
    nftw(root, count_one, 16, FTW_PHYS);
}

static void check_totals(const struct cache_totals * t) {
    if (t->files > files_seen || t->bytes > blocks_seen * KEEP_BLOCK || t->quarantined > t->files ||
        t->removed_kernels > t->kernels || t->removed_bytes > t->bytes) {
        fail("more than there is");
    }
}

static void check_outside(void) {
    struct stat info;
    uint8_t bytes[OUTSIDE_BYTES], want[OUTSIDE_BYTES];
    memset(want, 0x5a, sizeof want);
    int fd = open(outside, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0 || info.st_size != OUTSIDE_BYTES ||
        (info.st_mode & 07777) != 0600 || read(fd, bytes, sizeof bytes) != OUTSIDE_BYTES ||
        memcmp(bytes, want, sizeof want)) {
        fail("what lies outside was touched");
    }
    close(fd);
}

// A trial tells what trimming does; what is not ours stays.
static void house(struct cache * c, struct fuzz_input * in) {
    static const uint64_t sizes[] = {0, 1, 4096, 8192, 40960, 1 << 20, UINT64_MAX};
    struct cache_totals t = {0}, dry = {0}, after;
    struct error err = {0};
    uint64_t max = FUZZ_PICK(in, sizes);
    count();
    after = walk(c, false);
    check_totals(&after);
    walk(c, true); // quarantines nothing, and may wait for nobody
    uint64_t before = steady_seen;
    if (cache_trim(c, max, true, &dry, &err) != ST_OK) {
        fail("a trial failed");
    }
    check_totals(&dry);
    count();
    if (steady_seen != before) { // it was to change nothing
        fail("a trial changed something");
    }
    enum status st = cache_trim(c, max, false, &t, &err);
    if (st != ST_OK && (st != ST_IO || !err.text[0])) {
        fail("trimming failed");
    }
    check_totals(&t);
    if (st == ST_OK && (t.removed_kernels != dry.removed_kernels ||
                        t.removed_bytes != dry.removed_bytes || t.kernels != dry.kernels)) {
        fail("a trial is not as the act");
    }
    count();
    after = walk(c, false);
    if (st == ST_OK && !t.skipped && after.bytes > max && after.kernels) {
        fail("it is larger than was asked for");
    }
    uint64_t foreign = foreign_seen;
    st = cache_clear(c, &t, &err);
    if (st != ST_OK && (st != ST_IO || !err.text[0])) {
        fail("clearing failed");
    }
    check_totals(&t);
    after = walk(c, false);
    count();
    if ((st == ST_OK && !t.skipped && after.kernels) || foreign_seen < foreign) {
        fail("kernels stayed, or what is not ours went");
    }
}

static void begin(void) {
    if (!place_make()) {
        place_empty(root);
        return;
    }
    uint8_t bytes[OUTSIDE_BYTES];
    memset(bytes, 0x5a, sizeof bytes);
    umask(077);
    snprintf(root, sizeof root, "%s/cache", place);
    snprintf(outside, sizeof outside, "%s/outside", place);
    place_write(outside, bytes, sizeof bytes);
    if (mkdir(root, 0700) || setenv("GGML_HSA_KERNEL_CACHE_DIR", root, 1) ||
        unsetenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE")) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    static char made[MOST_FILES][400];
    struct fuzz_input in = {data, size};
    struct cache * c;
    struct error err;
    begin();
    for (int i = 1; i + 1 < N_PLACES; i++) {
        char path[400];
        place_path(places[i], "", path);
        mkdir(path, 0700);
    }
    if (cache_open(true, &c, &err) != ST_OK) {
        abort();
    }
    for (int n = 0; in.left > 1 && n < MOST_FILES;) {
        uint32_t what = fuzz_next(&in);
        made[n][0] = '\0';
        if (what % 4 == 0) {
            publish(c, fuzz_next(&in));
        } else {
            put_file(&in, made, n++);
        }
    }
    house(c, &in);
    check_outside();
    cache_close(c);
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    // A kernel: 0, which. A file: 1, a place, a stem, a suffix, a kind, a size or what it links to.
    static const uint8_t kernels[] = {0, 0, 0, 1, 0, 2, 0, 64, 2};
    static const uint8_t theirs[] = {1, 0, 2, 0, 4, 6, 1, 0, 2, 1, 4, 2, 0, 0,
                                     1, 5, 2, 5, 4, 1, 1, 0, 0, 5, 4, 1, 0};
    static const uint8_t linked[] = {1, 0, 2, 0, 4, 6, 1, 0, 4, 0, 0, 1, 1,
                                     3, 7, 0, 0, 1, 1, 2, 4, 0, 0, 1, 0};
    static const uint8_t broken[] = {0, 0,  1, 4, 0, 2, 4, 3, 1, 0, 0, 2, 4, 2, 1, 0, 3,
                                     4, 68, 1, 1, 0, 5, 2, 1, 1, 1, 2, 0, 0, 2, 0, 0};
    static const struct {
        const uint8_t * bytes;
        size_t n;
    } seeds[] = {{kernels, sizeof kernels},
                 {theirs, sizeof theirs},
                 {linked, sizeof linked},
                 {broken, sizeof broken}};
    return (size_t) i < sizeof seeds / sizeof seeds[0] &&
           fuzz_bytes(seeds[i].bytes, seeds[i].n, data, size);
}

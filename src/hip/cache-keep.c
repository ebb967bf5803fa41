// cache-keep: the cache stays within its size, and people can look at it. Only directories and
// files whose names could be ours are looked at; whatever else lies there is neither counted nor
// touched.
#include "hip-impl.h"

#include "base/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct found { // one code object
    int dir;   // index of its directory
    char stem[128];
    uint64_t blocks;
    int64_t used;
    bool meta, code;
};

struct scan {
    char (*names)[HIP_ARCH_MAX + HIP_VERSION_MAX];
    int * dirs;
    int n_dirs;
    struct found * list;
    size_t n, room;
    uint64_t blocks;
    bool failed;
};

// ---- looking ----

// "gfx90a-5.2"
static bool is_our_dir(const char * name) {
    char copy[HIP_ARCH_MAX + HIP_VERSION_MAX], arch[HIP_ARCH_MAX], version[HIP_VERSION_MAX];
    if (strlen(name) >= sizeof copy) {
        return false;
    }
    snprintf(copy, sizeof copy, "%s", name);
    char * dash = strchr(copy, '-');
    if (!dash) {
        return false;
    }
    *dash = '\0';
    // Parsing is lenient to blanks and features; a name is not.
    return hip_arch_parse(copy, arch, NULL) == ST_OK && !strcmp(arch, copy) &&
           hip_version_parse(dash + 1, version, NULL) == ST_OK && !strcmp(version, dash + 1);
}

// Length of what stands before the suffix, for names of the form name_0123456789abcdef.suffix.
static size_t stem_length(const char * file, const char * suffix) {
    size_t n = strlen(file), s = strlen(suffix);
    if (n <= s + 17 || n - s >= 128 || strcmp(file + n - s, suffix)) {
        return 0;
    }
    n -= s;
    return file[n - 17] == '_' && strspn(file + n - 16, "0123456789abcdef") >= 16 &&
                   strspn(file,
                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") >= n
               ? n
               : 0;
}

// One file of an entry, as if it were all of it; gather puts them together when all are known.
static struct found * add_file(struct scan * s, int dir, const char * file, size_t n) {
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        struct found * grown = realloc(s->list, room * sizeof *grown);
        if (!grown) {
            s->failed = true;
            return NULL;
        }
        s->list = grown;
        s->room = room;
    }
    struct found * f = &s->list[s->n++];
    *f = (struct found){.dir = dir};
    memcpy(f->stem, file, n);
    return f;
}

static void look_at(struct scan * s, int dir, const char * file) {
    struct stat info;
    size_t meta = stem_length(file, hip_meta_suffix), code = stem_length(file, hip_code_suffix);
    size_t lock = stem_length(file, hip_lock_suffix);
    bool stray = !strncmp(file, DIR_TEMP_PREFIX, sizeof DIR_TEMP_PREFIX - 1);
    if ((!meta && !code && !lock && !stray) ||
        fstatat(s->dirs[dir], file, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) {
        return;
    }
    if (stray) { // of a process that was killed
        if (time(NULL) - info.st_mtime > KEEP_STALE_SECONDS) {
            dir_remove(s->dirs[dir], file);
        }
        return;
    }
    if (lock) { // of a process that was killed; who holds one keeps it
        int fd;
        if (dir_lock(s->dirs[dir], file, 0, &fd, NULL) == ST_OK) {
            dir_unlock(s->dirs[dir], file, fd);
        }
        return;
    }
    struct found * f = add_file(s, dir, file, meta ? meta : code);
    if (f) {
        f->meta = meta;
        f->code = code;
        f->used = info.st_mtime;
        f->blocks = keep_blocks((uint64_t) info.st_size);
        s->blocks += f->blocks;
    }
}

static void scan_dir(struct scan * s, int dir) {
    int fd = openat(s->dirs[dir], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR * d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    for (struct dirent * e; !s->failed && (e = readdir(d));) {
        look_at(s, dir, e->d_name);
    }
    closedir(d);
}

bool hip_cache_find_version(struct hip_cache * c, const struct hip_entry * e,
                            char version[HIP_VERSION_MAX]) {
    char stem[HIP_STEM_MAX], file[HIP_FILE_MAX + HIP_ARCH_MAX + HIP_VERSION_MAX];
    size_t arch = strlen(e->arch);
    int fd = openat(c->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR * d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0) {
        close(fd);
    }
    version[0] = '\0';
    hip_entry_stem(e, stem);
    for (struct dirent * found; d && (found = readdir(d));) {
        const char * name = found->d_name;
        if (!is_our_dir(name) || strncmp(name, e->arch, arch) || name[arch] != '-') {
            continue;
        }
        snprintf(file, sizeof file, "%.31s/%s%s", name, stem, hip_meta_suffix);
        if (faccessat(c->root, file, F_OK, 0) == 0 &&
            (!version[0] || strverscmp(name + arch + 1, version) > 0)) {
            snprintf(version, HIP_VERSION_MAX, "%.15s", name + arch + 1);
        }
    }
    if (d) {
        closedir(d);
    }
    return version[0];
}

static void add_dir(struct scan * s, int root, const char * name) {
    int fd;
    if (!is_our_dir(name) || dir_open_child(root, name, false, &fd, NULL) != ST_OK) {
        return;
    }
    void * names = realloc(s->names, (size_t) (s->n_dirs + 1) * sizeof *s->names);
    s->names = names ? names : s->names;
    void * dirs = realloc(s->dirs, (size_t) (s->n_dirs + 1) * sizeof *s->dirs);
    s->dirs = dirs ? dirs : s->dirs;
    if (!names || !dirs) {
        s->failed = true;
        close(fd);
        return;
    }
    snprintf(s->names[s->n_dirs], sizeof s->names[0], "%.31s", name);
    s->dirs[s->n_dirs++] = fd;
}

static int by_name(const void * a, const void * b) {
    const struct found *x = a, *y = b;
    return x->dir != y->dir ? x->dir - y->dir : strcmp(x->stem, y->stem);
}

static int by_use(const void * a, const void * b) {
    const struct found *x = a, *y = b;
    return (x->used > y->used) - (x->used < y->used);
}

static int by_dir(const struct dirent ** a, const struct dirent ** b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

// Sorts by name and makes one entry of the files of each.
static void gather(struct scan * s) {
    if (!s->n) {
        return;
    }
    qsort(s->list, s->n, sizeof *s->list, by_name);
    size_t last = 0;
    for (size_t i = 1; i < s->n; i++) {
        const struct found * f = &s->list[i];
        struct found * e = &s->list[last];
        if (by_name(e, f)) {
            s->list[++last] = *f;
            continue;
        }
        e->used = f->meta ? f->used : e->used; // the description's time is that of the last use
        e->meta = e->meta || f->meta;
        e->code = e->code || f->code;
        e->blocks += f->blocks;
    }
    s->n = last + 1;
}

static void scan_free(struct scan * s) {
    for (int i = 0; i < s->n_dirs; i++) {
        close(s->dirs[i]);
    }
    free(s->names);
    free(s->dirs);
    free(s->list);
}

static enum status scan_cache(struct hip_cache * c, struct scan * s, struct error * err) {
    *s = (struct scan){0};
    struct dirent ** names;
    int n = scandirat(c->root, ".", &names, NULL, by_dir);
    for (int i = 0; i < n; i++) {
        add_dir(s, c->root, names[i]->d_name);
        free(names[i]);
    }
    if (n >= 0) {
        free(names);
    }
    for (int i = 0; i < s->n_dirs; i++) {
        scan_dir(s, i);
    }
    if (s->failed || n < 0) {
        scan_free(s);
        return error_set(err, ST_NO_MEMORY, "no memory to list the cache");
    }
    gather(s);
    return ST_OK;
}

// ---- what was set aside ----

// What was damaged is kept a week for those who want to know. Blocks in it, and with `sweep` those
// that are left when old ones, or `all`, are gone.
static uint64_t quarantine_blocks(int root, bool sweep, bool all) {
    int dir;
    uint64_t blocks = 0;
    if (dir_open_child(root, KEEP_QUARANTINE, false, &dir, NULL) != ST_OK) {
        return 0;
    }
    struct dirent ** names;
    int n = scandirat(dir, ".", &names, NULL, NULL);
    for (int i = 0; i < n; i++) {
        const char * dash = strchr(names[i]->d_name, '-');
        dash = dash ? strchr(dash + 1, '-') : NULL; // gfx90a-5.2-name_hash.cso
        struct stat info;
        if (dash &&
            (stem_length(dash + 1, hip_meta_suffix) || stem_length(dash + 1, hip_code_suffix)) &&
            fstatat(dir, names[i]->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
            bool old = all || time(NULL) - info.st_mtime > KEEP_QUARANTINE_SECONDS;
            if (!sweep || !old || dir_remove(dir, names[i]->d_name) != 0) {
                blocks += keep_blocks((uint64_t) info.st_size);
            }
        }
        free(names[i]);
    }
    if (n >= 0) {
        free(names);
    }
    close(dir);
    return blocks;
}

// ---- for people ----

static bool by_current(struct hip_toolchain * current, const char * dir, const char * text) {
    char arch[HIP_ARCH_MAX];
    snprintf(arch, sizeof arch, "%.*s", (int) strcspn(dir, "-"), dir);
    struct hip_compilers compilers;
    hip_toolchain_compilers(current, arch, &compilers);
    bool same = compilers.n == 0; // nobody could make it better
    for (int i = 0; i < compilers.n; i++) {
        struct buf line = {0};
        buf_printf(&line, "flags ");
        hip_compiler_flags(compilers.list[i].kind, arch, &line);
        buf_printf(&line, "\ncompiler %s\n", compilers.list[i].identity);
        same = same || (!line.failed && strstr(text, (const char *) line.data));
        buf_free(&line);
    }
    hip_compilers_free(&compilers);
    return same;
}

// ST_NO_MEMORY: nothing is known of it.
static enum status check_once(const struct scan * s, const struct found * f,
                              struct hip_toolchain * current, enum hip_state * state,
                              struct error * why) {
    char file[160], *text;
    size_t key_size;
    struct keep_file code;
    uint8_t * data;
    *state = HIP_FOREIGN;
    if (!f->meta) {
        error_set(why, ST_NOT_FOUND, "no %s file: made by another program, or not to the end",
                  hip_meta_suffix);
        return ST_OK;
    }
    enum status st = hip_meta_read(s->dirs[f->dir], f->stem, &text, &key_size, &code, why);
    *state = HIP_DAMAGED;
    if (st != ST_OK) {
        *state = st == ST_NOT_FOUND ? HIP_STALE : HIP_DAMAGED;
        return st == ST_NO_MEMORY ? st : ST_OK;
    }
    bool fresh = !current || by_current(current, s->names[f->dir], text);
    free(text);
    snprintf(file, sizeof file, "%s%s", f->stem, hip_code_suffix);
    st = keep_read(s->dirs[f->dir], file, HIP_MAX_CODE, &code, &data, why);
    if (st != ST_OK) {
        return st == ST_NO_MEMORY ? st : ST_OK;
    }
    free(data);
    if (!fresh) {
        error_set(why, ST_NOT_FOUND, "made by another compiler, or with other flags");
    }
    *state = fresh ? HIP_GOOD : HIP_STALE;
    return ST_OK;
}

// What looks damaged or made by nobody may be on its way: another process is removing it, or making
// it anew. Under its lock nobody is; a disk that gives no lock is one that nobody else writes to
// either. *gone: it is no code object any more, or not yet.
static enum status check(const struct scan * s, const struct found * f,
                         struct hip_toolchain * current, enum hip_state * state, bool * gone,
                         struct error * why) {
    enum { WAIT_MS = 2000 };
    char lock_file[160], meta[160];
    struct stat info;
    int lock = -1, dir = s->dirs[f->dir];
    snprintf(lock_file, sizeof lock_file, "%s%s", f->stem, hip_lock_suffix);
    snprintf(meta, sizeof meta, "%s%s", f->stem, hip_meta_suffix);
    enum status st = check_once(s, f, current, state, why);
    *gone = false;
    if (st != ST_OK || !f->meta || *state == HIP_GOOD ||
        (*state == HIP_STALE && fstatat(dir, meta, &info, AT_SYMLINK_NOFOLLOW) == 0)) {
        return st;
    }
    enum status locked = dir_lock(dir, lock_file, WAIT_MS, &lock, NULL);
    *gone = locked == ST_BUSY ||
            (fstatat(dir, meta, &info, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT);
    if (!*gone) {
        *why = (struct error){0};
        st = check_once(s, f, current, state, why);
    }
    if (locked == ST_OK) {
        dir_unlock(dir, lock_file, lock);
    }
    return st;
}

enum status hip_cache_walk(struct hip_cache * c, bool read, struct hip_toolchain * current,
                           bool (*visit)(void * user, const struct hip_item * item), void * user,
                           struct hip_totals * totals, struct error * err) {
    struct scan s;
    enum status st = scan_cache(c, &s, err);
    if (st != ST_OK) {
        return st;
    }
    uint64_t set_aside = quarantine_blocks(c->root, false, false);
    *totals = (struct hip_totals){.items = s.n,
                                  .bytes = (s.blocks + set_aside) * KEEP_BLOCK,
                                  .quarantine_bytes = set_aside * KEEP_BLOCK};
    for (size_t i = 0; i < s.n; i++) {
        const struct found * f = &s.list[i];
        struct hip_item item = {.bytes = f->blocks * KEEP_BLOCK, .used = f->used};
        memcpy(item.dir, s.names[f->dir], sizeof item.dir);
        memcpy(item.stem, f->stem, sizeof item.stem);
        bool gone = false;
        item.state = f->meta ? HIP_GOOD : HIP_FOREIGN;
        if (read && (st = check(&s, f, current, &item.state, &gone, &item.why)) != ST_OK) {
            error_set(err, st, "%s", item.why.text);
            break;
        }
        totals->items -= gone;
        if (!gone && visit && !visit(user, &item)) {
            break;
        }
    }
    scan_free(&s);
    return st;
}

// ---- removing ----

// 0, EBUSY where somebody is making it anew, or the errno that keeps it.
static int remove_entry(const struct scan * s, const struct found * f) {
    char file[160];
    int lock, dir = s->dirs[f->dir];
    snprintf(file, sizeof file, "%s%s", f->stem, hip_lock_suffix);
    enum status st = dir_lock(dir, file, 0, &lock, NULL);
    if (st == ST_BUSY) {
        return EBUSY;
    }
    char name[160];
    snprintf(name, sizeof name, "%s%s", f->stem, hip_meta_suffix);
    int code = dir_remove(dir, name);
    snprintf(name, sizeof name, "%s%s", f->stem, hip_code_suffix);
    code = code ? code : dir_remove(dir, name);
    if (st == ST_OK) {
        dir_unlock(dir, file, lock);
    }
    return code;
}

// Removes what was not used for longest until `low` blocks are left, where there are more than
// `high`.
static enum status cut(struct hip_cache * c, uint64_t high, uint64_t low,
                       struct hip_totals * totals, struct error * err) {
    int lock;
    struct scan s;
    enum status st = keep_trim_begin(c->root, false, &lock, err);
    if (st != ST_OK) {
        return st;
    }
    st = scan_cache(c, &s, err);
    if (st == ST_OK) {
        // One without a description is of another program that shares the directory, and stays.
        for (size_t i = 0; i < s.n;) {
            if (s.list[i].meta) {
                i++;
                continue;
            }
            s.blocks -= s.list[i].blocks;
            s.list[i] = s.list[--s.n];
        }
        // What was set aside is the first to go where room is wanted.
        uint64_t set_aside = quarantine_blocks(c->root, false, false);
        uint64_t before = s.blocks + set_aside;
        bool over = before > high / KEEP_BLOCK;
        uint64_t left = s.blocks + quarantine_blocks(c->root, true, over);
        *totals = (struct hip_totals){
            .items = s.n, .bytes = before * KEEP_BLOCK, .quarantine_bytes = set_aside * KEEP_BLOCK};
        if (s.n) {
            qsort(s.list, s.n, sizeof *s.list, by_use);
        }
        over = left > high / KEEP_BLOCK;
        uint64_t stayed = 0;
        int why = 0;
        for (size_t i = 0; over && i < s.n && left > low / KEEP_BLOCK; i++) {
            int code = remove_entry(&s, &s.list[i]);
            if (code == EBUSY) {
                totals->skipped++;
            } else if (code) {
                why = stayed++ ? why : code;
            } else {
                left -= s.list[i].blocks;
                totals->removed++;
            }
        }
        totals->removed_bytes = (before - left) * KEEP_BLOCK;
        st = keep_removed(totals->removed, totals->items, stayed, why, "code objects", err);
        scan_free(&s);
    }
    keep_trim_end(lock);
    return st;
}

enum status hip_cache_trim(struct hip_cache * c, uint64_t max, struct hip_totals * totals,
                           struct error * err) {
    return cut(c, max, max, totals, err);
}

enum status hip_cache_clear(struct hip_cache * c, struct hip_totals * totals, struct error * err) {
    return cut(c, 0, 0, totals, err);
}

void hip_cache_grown(struct hip_cache * c, uint64_t blocks) {
    if (keep_grown(c->root, c->max, blocks)) {
        struct hip_totals totals;
        cut(c, keep_high(c->max), keep_low(c->max), &totals, NULL);
    }
}

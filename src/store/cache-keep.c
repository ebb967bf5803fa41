// cache-keep: the cache stays within its size, and what killed processes left goes away. A kernel
// is removed under its lock, the description first, so that nobody is ever given half of one;
// kernels that are in use are in their users' memory and do not mind.
#include "cache-scan.h"

#include "base/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

// ---- removing ----

// What a round of removing has come to.
struct removing {
    uint64_t left;   // blocks
    uint64_t stayed; // kernels that could not be removed
    int code;        // why the first of them
};

// 0, EBUSY where another process has its hands on it, or the errno that keeps it. Without a lock (a
// disk so full that there is not even room for its name) it is removed all the same: who meets the
// rest of it sees a miss.
static int remove_kernel(const struct scan * s, const struct scan_kernel * k) {
    char plain[CACHE_NAME_MAX], lock_name[CACHE_FILE_MAX];
    int lock = -1, dir = s->dirs[k->arch];
    cache_plain_name(k->name, plain); // whoever writes any of that name holds its lock
    cache_file_name(plain, PART_LOCK, lock_name);
    enum status st = dir_lock(dir, lock_name, 0, &lock, NULL);
    if (st == ST_BUSY) {
        return EBUSY;
    }
    int code = cache_remove(dir, k->name);
    if (st == ST_OK) {
        dir_unlock(dir, lock_name, lock);
    }
    return code;
}

static bool sweep_stray(const struct scan * s, const struct scan_stray * stray) {
    int lock, dir = s->dirs[stray->place];
    size_t n = strlen(stray->name), suffix = strlen(cache_suffix[PART_LOCK]);
    if (n <= suffix || strcmp(stray->name + n - suffix, cache_suffix[PART_LOCK])) {
        return dir_remove(dir, stray->name) == 0;
    }
    if (dir_lock(dir, stray->name, 0, &lock, NULL) == ST_OK) {
        dir_unlock(dir, stray->name, lock); // nobody holds it
    }
    return true;
}

static int by_use(const void * a, const void * b) {
    const struct scan_kernel *x = a, *y = b;
    return (x->used > y->used) - (x->used < y->used);
}

// Blocks that go with the kernel: a PDI goes with the last one that has it.
static uint64_t leave(struct scan * s, const struct scan_kernel * k) {
    struct scan_inode * pdi = k->pdi_inode ? scan_find_inode(s, k->pdi_inode) : NULL;
    return k->blocks + (pdi && --pdi->kernels == 0 ? pdi->blocks : 0);
}

// Takes the kernel away, or only counts it.
static void let_go(struct scan * s, const struct scan_kernel * k, bool dry_run, struct removing * r,
                   struct cache_totals * totals) {
    int code = dry_run ? 0 : remove_kernel(s, k);
    if (code == EBUSY) {
        totals->skipped++;
    } else if (code) {
        r->code = r->stayed++ ? r->code : code;
    } else {
        r->left -= leave(s, k);
        totals->removed_kernels++;
    }
}

// PDIs without kernels: of a process that was killed, or of kernels that were removed.
static void remove_shared(const struct scan * s) {
    for (size_t i = 0; i < s->n_inodes; i++) {
        if (s->inodes[i].kernels == 0 && s->inodes[i].shared) {
            dir_remove(s->dirs[PLACE_SHARED], s->inodes[i].shared);
        }
    }
}

static void sweep_strays(const struct scan * s, bool all, bool dry_run, struct removing * r) {
    int64_t now = time(NULL);
    for (size_t i = 0; i < s->n_strays; i++) {
        const struct scan_stray * stray = &s->strays[i];
        int64_t age = now - stray->changed;
        if (age > (stray->quarantined ? KEEP_QUARANTINE_SECONDS : KEEP_STALE_SECONDS) ||
            (all && stray->quarantined)) {
            bool gone = dry_run || sweep_stray(s, stray);
            r->left -= gone && stray->quarantined ? stray->blocks : 0;
        }
    }
}

static enum status end_removing(const struct scan * s, const struct removing * r,
                                struct cache_totals * totals, struct error * err) {
    totals->removed_bytes = (s->blocks - r->left) * KEEP_BLOCK;
    return keep_removed(totals->removed_kernels, totals->kernels, r->stayed, r->code, "kernels",
                        err);
}

static enum status trim_scan(struct scan * s, uint64_t high, uint64_t low, bool dry_run,
                             struct cache_totals * totals, struct error * err) {
    struct removing r = {.left = s->blocks};
    uint64_t goal = low / KEEP_BLOCK;
    bool over = r.left > high / KEEP_BLOCK;
    sweep_strays(s, over, dry_run, &r);
    for (size_t i = 0; i < s->n_inodes; i++) {
        const struct scan_inode * pdi = &s->inodes[i];
        r.left -= pdi->kernels == 0 && pdi->shared ? pdi->blocks : 0;
    }
    if (s->n_kernels) {
        qsort(s->kernels, s->n_kernels, sizeof *s->kernels, by_use);
    }
    for (size_t i = 0; over && i < s->n_kernels && r.left > goal; i++) {
        if (s->kernels[i].ours) {
            let_go(s, &s->kernels[i], dry_run, &r, totals);
        }
    }
    if (!dry_run) {
        remove_shared(s);
    }
    return end_removing(s, &r, totals, err);
}

static void count_scan(const struct scan * s, struct cache_totals * totals) {
    *totals = (struct cache_totals){.kernels = s->n_kernels - s->n_foreign,
                                    .foreign = s->n_foreign,
                                    .files = s->files,
                                    .bytes = s->blocks * KEEP_BLOCK,
                                    .quarantined = s->quarantined};
}

// ---- growth ----

// Removes down to `low` if there is more than `high`.
static enum status trim(struct cache * c, uint64_t high, uint64_t low, bool dry_run,
                        struct cache_totals * totals, struct error * err) {
    int lock;
    enum status st = keep_trim_begin(c->root, dry_run, &lock, err);
    if (st != ST_OK) {
        return st;
    }
    struct scan s;
    st = scan_cache(c, &s, err);
    if (st == ST_OK) {
        count_scan(&s, totals);
        st = trim_scan(&s, high, low, dry_run, totals, err);
        scan_free(&s);
    }
    keep_trim_end(lock);
    return st;
}

enum status cache_trim(struct cache * c, uint64_t max, bool dry_run, struct cache_totals * totals,
                       struct error * err) {
    return trim(c, max, max, dry_run, totals, err);
}

void cache_grown(struct cache * c, uint64_t blocks) {
    if (keep_grown(c->root, c->max, blocks)) {
        struct cache_totals totals;
        trim(c, keep_high(c->max), keep_low(c->max), false, &totals, NULL);
    }
}

// ---- all ----

enum status cache_clear(struct cache * c, struct cache_totals * totals, struct error * err) {
    struct scan s;
    enum status st = scan_cache(c, &s, err);
    if (st != ST_OK) {
        return st;
    }
    count_scan(&s, totals);
    struct removing r = {.left = s.blocks};
    for (size_t i = 0; i < s.n_kernels; i++) {
        if (s.kernels[i].ours) {
            let_go(&s, &s.kernels[i], false, &r, totals);
        }
    }
    remove_shared(&s);
    sweep_strays(&s, true, false, &r);
    st = end_removing(&s, &r, totals, err);
    scan_free(&s);
    return st;
}

// ---- looking ----

static bool value_of(const uint8_t * text, const char * word, const char * want) {
    const char * at = strstr((const char *) text, word);
    size_t n = strlen(want);
    return at && !strncmp(at + strlen(word), want, n) && at[strlen(word) + n] == '\n';
}

// A kernel by its files alone, without knowing what it computes. *why says why it is not good.
// ST_NO_MEMORY: nothing is known of it.
static enum status check_kernel(int dir, const struct cache_item * item, const char * identity,
                                enum cache_state * state, struct error * why) {
    char file[CACHE_FILE_MAX];
    uint8_t * text;
    size_t size;
    struct entry_meta meta;
    cache_file_name(item->name, PART_META, file);
    enum status st = dir_read(dir, file, ENTRY_MAX_BYTES, &text, &size, why);
    *state = CACHE_DAMAGED;
    if (st != ST_OK) {
        return st == ST_NO_MEMORY ? st : ST_OK;
    }
    st = entry_parse(text, size, &meta, why);
    char plain[CACHE_NAME_MAX];
    cache_plain_name(item->name, plain);
    if (st == ST_OK && (!value_of(text, "\nname ", plain) ||
                        !value_of(text, "\narch ", kernel_arch_name(item->arch)))) {
        st = error_set(why, ST_CORRUPT, "its description is of another kernel");
    }
    bool stale = st == ST_UNSUPPORTED;
    if (st == ST_OK && identity && !value_of(text, "\ncompiler ", identity)) {
        stale = true;
        error_set(why, ST_NOT_FOUND, "made by another compiler");
    }
    free(text);
    if (st == ST_OK) {
        struct error broken;
        st = cache_read(dir, item->name, NULL, NULL, NULL, NULL, &broken);
        *why = st == ST_OK ? *why : broken;
    }
    if (st == ST_OK || st == ST_UNSUPPORTED) {
        *state = stale ? CACHE_STALE : CACHE_GOOD;
    }
    return st == ST_NO_MEMORY ? st : ST_OK;
}

// What looks damaged may be on its way: another process is removing it, or making it anew. Under
// its lock nobody is; a disk that gives no lock is one that nobody else writes to either. *gone: it
// is no kernel any more, or not yet.
static enum status check_again(int dir, const struct cache_item * item, const char * identity,
                               enum cache_state * state, bool * gone, struct error * why) {
    enum { WAIT_MS = 2000 };
    char plain[CACHE_NAME_MAX], lock_name[CACHE_FILE_MAX], meta[CACHE_FILE_MAX];
    struct stat info;
    int lock = -1;
    cache_plain_name(item->name, plain);
    cache_file_name(plain, PART_LOCK, lock_name);
    cache_file_name(item->name, PART_META, meta);
    enum status locked = dir_lock(dir, lock_name, WAIT_MS, &lock, NULL), st = ST_OK;
    *gone = locked == ST_BUSY ||
            (fstatat(dir, meta, &info, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT);
    if (!*gone) {
        *why = (struct error){0};
        st = check_kernel(dir, item, identity, state, why);
    }
    if (locked == ST_OK) {
        dir_unlock(dir, lock_name, lock);
    }
    return st;
}

enum status cache_walk(struct cache * c, const char * identity, bool check,
                       bool (*visit)(void * user, const struct cache_item * item), void * user,
                       struct cache_totals * totals, struct error * err) {
    struct scan s;
    enum status st = scan_cache(c, &s, err);
    if (st != ST_OK) {
        return st;
    }
    count_scan(&s, totals);
    for (size_t i = 0; i < s.n_kernels && st == ST_OK; i++) {
        const struct scan_kernel * k = &s.kernels[i];
        struct cache_item item = {.arch = k->arch,
                                  .bytes = (k->blocks + k->pdi_blocks) * KEEP_BLOCK,
                                  .used = k->used,
                                  .state = CACHE_GOOD};
        bool gone = false;
        memcpy(item.name, k->name, strlen(k->name) + 1);
        if (!k->parts[PART_META]) {
            item.state = CACHE_FOREIGN;
            error_set(&item.why, ST_NOT_FOUND, "no %s file: not made by this cache, or cut short",
                      cache_suffix[PART_META]);
        } else if (check) {
            int dir = s.dirs[k->arch];
            st = check_kernel(dir, &item, identity, &item.state, &item.why);
            if (st == ST_OK && item.state == CACHE_DAMAGED) {
                st = check_again(dir, &item, identity, &item.state, &gone, &item.why);
            }
        }
        totals->kernels -= gone;
        if (st != ST_OK) {
            error_set(err, st, "%s", item.why.text);
        } else if (!gone && visit && !visit(user, &item)) {
            break;
        }
    }
    scan_free(&s);
    return st;
}

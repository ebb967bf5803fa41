// cache: finding, making and keeping one kernel on disk. Readers take no lock: a kernel that
// changes under their eyes fails its checks, and is looked at again with the lock before it is
// called damaged. Writers hold the lock of the kernel's name from before they compile until all is
// written, so of many processes that want one kernel one makes it.
#include "cache-impl.h"

#include "aie/verify/verify.h"
#include "base/dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// How long to wait for another process that makes the same kernel. Our own compiler needs a
// millisecond; an external one may take minutes, and then both of us making it costs less patience.
#define LOCK_WAIT_MS 10000

const char * const cache_suffix[CACHE_PARTS] = {
    [PART_META] = ".meta", [PART_PDI] = ".pdi", [PART_INSTS] = "_insts.bin", [PART_LOCK] = ".lock"};

void cache_file_name(const char * kernel, enum cache_part part, char out[CACHE_FILE_MAX]) {
    snprintf(out, CACHE_FILE_MAX, "%s%s", kernel, cache_suffix[part]);
}

// ---- names ----

// Several versions may share a cache. The first that keeps a kernel has its plain name; for another
// compiler the name goes on with a sign of its own, so that they do not push each other out.
static void side_name(const char * name, const char * identity, char out[CACHE_NAME_MAX]) {
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT];
    sha256(identity, strlen(identity), digest);
    sha256_print(digest, text);
    snprintf(out, CACHE_NAME_MAX, "%.*s@%.*s", KERNEL_NAME_MAX, name, CACHE_SIGN, text);
}

void cache_plain_name(const char * name, char out[CACHE_NAME_MAX]) {
    size_t n = strlen(name), sign = CACHE_SIGN + 1;
    bool side = n > sign && name[n - sign] == '@' &&
                strspn(name + n - CACHE_SIGN, "0123456789abcdef") == CACHE_SIGN;
    snprintf(out, CACHE_NAME_MAX, "%.*s", (int) (side ? n - sign : n), name);
}

static bool is_of(const uint8_t * text, const struct entry_meta * meta, const struct buf * key) {
    return meta->key_size == key->size && !memcmp(text, key->data, key->size);
}

// Has another compiler a kernel under the plain name? One of another format of this cache is
// replaced.
static bool is_taken(int dir, const char * name, const struct buf * key) {
    char file[CACHE_FILE_MAX];
    uint8_t * text;
    size_t size;
    struct entry_meta meta;
    cache_file_name(name, PART_META, file);
    if (dir_read(dir, file, ENTRY_MAX_BYTES, &text, &size, NULL) != ST_OK) {
        return false;
    }
    // The same kernel, up to the line of its compiler; anything else there is out of place.
    const char * compiler = strstr((const char *) key->data, "\ncompiler ");
    size_t same = compiler ? (size_t) (compiler - (const char *) key->data) : key->size;
    bool other = entry_parse(text, size, &meta, NULL) == ST_OK && meta.key_size > same &&
                 !memcmp(text, key->data, same) && !is_of(text, &meta, key);
    free(text);
    return other;
}

// ---- the directory ----

enum status cache_open(bool create, struct cache ** out, struct error * err) {
    uint64_t max;
    struct keep_place place;
    enum status st = cache_max_size(&max, err);
    if (st == ST_OK && max == 0) {
        st = error_set(err, ST_NOT_FOUND, "GGML_HSA_KERNEL_CACHE_MAX_SIZE is 0");
    }
    if (st != ST_OK || (st = cache_place_find(&place, err)) != ST_OK) {
        return st;
    }
    struct cache * c = calloc(1, sizeof *c);
    struct buf path = {0};
    buf_printf(&path, "%s/%s", strcmp(place.base, "/") ? place.base : "", place.own);
    if (!c || path.failed) {
        st = error_set(err, ST_NO_MEMORY, "no memory for the kernel cache");
    } else if ((st = dir_open(place.base, place.own, create, &c->root, err)) != ST_OK &&
               st != ST_NOT_FOUND) {
        error_prefix(err, st, "kernel cache (%s)", place.reason);
    }
    keep_place_free(&place);
    if (st != ST_OK) {
        buf_free(&path);
        free(c);
        return st;
    }
    c->path = (char *) path.data;
    c->max = max;
    *out = c;
    return ST_OK;
}

void cache_close(struct cache * c) {
    if (c) {
        close(c->root);
        free(c->path);
        free(c);
    }
}

const char * cache_path(const struct cache * c) {
    return c->path;
}

uint64_t cache_max(const struct cache * c) {
    return c->max;
}

// ---- reading ----

static enum status read_part(int dir, const char * name, enum cache_part part, size_t max,
                             const struct keep_file * want, uint8_t ** data, struct error * err) {
    char file[CACHE_FILE_MAX];
    cache_file_name(name, part, file);
    return keep_read(dir, file, max, want, data, err);
}

enum status cache_read(int dir, const char * name, const struct buf * key,
                       bool (*have_pdi)(void * user, const uint8_t digest[SHA256_BYTES]),
                       void * user, struct cache_kernel * out, struct error * err) {
    char file[CACHE_FILE_MAX];
    uint8_t * text;
    size_t size;
    cache_file_name(name, PART_META, file);
    enum status st = dir_read(dir, file, ENTRY_MAX_BYTES, &text, &size, err);
    if (st != ST_OK) {
        return st;
    }
    struct entry_meta meta;
    st = entry_parse(text, size, &meta, err);
    if (st == ST_OK && key && !is_of(text, &meta, key)) {
        st = error_set(err, ST_NOT_FOUND, "made by another compiler");
    }
    free(text);
    if (st != ST_OK) {
        return st == ST_UNSUPPORTED ? ST_NOT_FOUND : st;
    }
    if (meta.insts.size % 4) {
        return error_set(err, ST_CORRUPT, "an instruction stream of %zu bytes", meta.insts.size);
    }
    uint8_t *insts = NULL, *pdi = NULL;
    st = read_part(dir, name, PART_INSTS, ENTRY_MAX_INSTS_BYTES, &meta.insts, &insts, err);
    if (st == ST_OK && !(have_pdi && have_pdi(user, meta.pdi.digest))) {
        st = read_part(dir, name, PART_PDI, ENTRY_MAX_PDI_BYTES, &meta.pdi, &pdi, err);
    }
    if (st != ST_OK || !out) {
        free(insts);
        free(pdi);
        return st;
    }
    *out = (struct cache_kernel){.pdi = pdi,
                                 .pdi_size = meta.pdi.size,
                                 .insts = (uint32_t *) (void *) insts,
                                 .n_insts = meta.insts.size / 4};
    memcpy(out->pdi_digest, meta.pdi.digest, sizeof out->pdi_digest);
    memcpy(out->insts_digest, meta.insts.digest, sizeof out->insts_digest);
    memcpy(out->verdict, meta.verdict, sizeof out->verdict);
    return ST_OK;
}

enum status cache_find(int dir, const struct kernel_spec * spec, const char * identity,
                       const struct buf * key,
                       bool (*have_pdi)(void * user, const uint8_t digest[SHA256_BYTES]),
                       void * user, char name[CACHE_NAME_MAX], struct cache_kernel * out,
                       struct error * err) {
    char plain[KERNEL_NAME_MAX];
    kernel_name(spec, plain);
    snprintf(name, CACHE_NAME_MAX, "%s", plain);
    enum status st = cache_read(dir, name, key, have_pdi, user, out, err);
    if (st == ST_NOT_FOUND) {
        char side[CACHE_NAME_MAX];
        side_name(plain, identity, side);
        enum status other = cache_read(dir, side, key, have_pdi, user, out, NULL);
        if (other != ST_NOT_FOUND) {
            memcpy(name, side, sizeof side);
            st = other == ST_OK ? ST_OK : error_set(err, other, "%s is damaged", side);
        }
    }
    return st;
}

enum status cache_load(struct cache * c, const struct kernel_spec * spec, const char * identity,
                       bool (*have_pdi)(void * user, const uint8_t digest[SHA256_BYTES]),
                       void * user, struct cache_kernel * out, struct error * err) {
    int dir;
    enum status st = dir_open_child(c->root, kernel_arch_name(spec->arch), false, &dir, err);
    if (st != ST_OK) {
        return st;
    }
    char name[CACHE_NAME_MAX];
    struct buf key = {0};
    entry_print_key(spec, identity, &key);
    st = key.failed ? error_set(err, ST_NO_MEMORY, "no memory for a key")
                    : cache_find(dir, spec, identity, &key, have_pdi, user, name, out, err);
    buf_free(&key);
    if (st == ST_OK) {
        char file[CACHE_FILE_MAX];
        cache_file_name(name, PART_META, file);
        keep_touch(dir, file);
    }
    close(dir);
    return st;
}

// ---- writing ----

enum status cache_lock(struct cache * c, const struct kernel_spec * spec, struct cache_lock * out,
                       struct error * err) {
    enum status st = dir_open_child(c->root, kernel_arch_name(spec->arch), true, &out->dir, err);
    if (st != ST_OK) {
        return st;
    }
    char name[KERNEL_NAME_MAX];
    kernel_name(spec, name);
    // The lock belongs to the name, not to the key: two compilers must not mix the files of a name.
    snprintf(out->name, sizeof out->name, "%s%s", name, cache_suffix[PART_LOCK]);
    st = dir_lock(out->dir, out->name, LOCK_WAIT_MS, &out->fd, err);
    if (st != ST_OK) {
        close(out->dir);
    }
    return st;
}

void cache_unlock(struct cache_lock * lock) {
    dir_unlock(lock->dir, lock->name, lock->fd);
    close(lock->dir);
}

// While its description stays the rest of it does, too.
int cache_remove(int dir, const char * name) {
    char file[CACHE_FILE_MAX];
    int failed = 0;
    for (int part = PART_META; part < PART_LOCK && !failed; part++) {
        cache_file_name(name, (enum cache_part) part, file);
        failed = dir_remove(dir, file);
    }
    return failed;
}

// Many shapes share one PDI, some ten times the size of the rest of a kernel. Its bytes are kept
// once in <dir>/shared and each kernel has a hard link to them: readers of the plain layout see a
// file like any other, and the second shape of an op costs neither the space nor the wait for the
// disk. What is there is compared before it is used, because a foreign program may write into its
// link. *blocks counts what came in.
static enum status write_pdi(struct cache * c, int dir, const char * file,
                             const struct kernel_code * code, const uint8_t digest[SHA256_BYTES],
                             uint64_t * blocks, struct error * err) {
    char text[SHA256_TEXT], shared_file[SHA256_TEXT + 8];
    int shared;
    sha256_print(digest, text);
    snprintf(shared_file, sizeof shared_file, "%s%s", text, cache_suffix[PART_PDI]);
    if (dir_open_child(c->root, CACHE_SHARED, true, &shared, NULL) == ST_OK) {
        uint8_t * old = NULL;
        size_t size = 0;
        bool there =
            dir_read(shared, shared_file, ENTRY_MAX_PDI_BYTES, &old, &size, NULL) == ST_OK &&
            size == code->pdi_size && !memcmp(old, code->pdi, size);
        free(old);
        enum status st =
            there ? ST_OK : dir_write(shared, shared_file, code->pdi, code->pdi_size, err);
        if (st == ST_OK) {
            *blocks += there ? 0 : keep_blocks(code->pdi_size);
            st = dir_link(shared, shared_file, dir, file, err);
        }
        close(shared);
        if (st == ST_OK) {
            return ST_OK;
        }
    }
    // No links on this file system, or too many on this file.
    *blocks += keep_blocks(code->pdi_size);
    return dir_write(dir, file, code->pdi, code->pdi_size, err);
}

static enum status write_parts(struct cache * c, int dir, const char * name,
                               const struct buf * meta, const struct kernel_code * code,
                               const uint8_t digest[SHA256_BYTES], uint64_t * blocks,
                               struct error * err) {
    char file[CACHE_FILE_MAX];
    cache_file_name(name, PART_META, file);
    dir_remove(dir, file); // it is no longer true from here on
    cache_file_name(name, PART_PDI, file);
    enum status st = write_pdi(c, dir, file, code, digest, blocks, err);
    if (st == ST_OK) {
        cache_file_name(name, PART_INSTS, file);
        *blocks += keep_blocks(code->n_insts * 4);
        st = dir_write(dir, file, code->insts, code->n_insts * 4, err);
    }
    if (st == ST_OK) {
        cache_file_name(name, PART_META, file);
        *blocks += keep_blocks(meta->size);
        st = dir_write(dir, file, meta->data, meta->size, err);
    }
    return st == ST_OK ? dir_sync(dir, err) : st;
}

enum status cache_publish(struct cache * c, const struct kernel_spec * spec, const char * identity,
                          const struct kernel_code * code, const uint8_t pdi_digest[SHA256_BYTES],
                          bool verified, struct error * err) {
    struct keep_file pdi = {.size = code->pdi_size}, insts = {.size = code->n_insts * 4};
    if (pdi.size > ENTRY_MAX_PDI_BYTES || insts.size > ENTRY_MAX_INSTS_BYTES) {
        return error_set(err, ST_UNSUPPORTED, "too large to keep");
    }
    memcpy(pdi.digest, pdi_digest, sizeof pdi.digest);
    sha256(code->insts, insts.size, insts.digest);
    uint8_t verdict[SHA256_BYTES] = {0};
    if (verified) {
        aie_verify_digest(spec, pdi.digest, insts.digest, verdict);
    }
    struct buf key = {0}, meta = {0};
    entry_print_key(spec, identity, &key);
    entry_print(&key, &pdi, &insts, verdict, &meta);
    int dir = -1;
    uint64_t blocks = 0;
    enum status st = ST_OK;
    if (key.failed || meta.failed || meta.size > ENTRY_MAX_BYTES) {
        st = error_set(err, ST_NO_MEMORY, "no memory for its description");
    } else if ((st = dir_open_child(c->root, kernel_arch_name(spec->arch), true, &dir, err)) ==
               ST_OK) {
        char plain[KERNEL_NAME_MAX], name[CACHE_NAME_MAX];
        kernel_name(spec, plain);
        snprintf(name, sizeof name, "%s", plain);
        if (is_taken(dir, plain, &key)) {
            side_name(plain, identity, name);
        }
        st = write_parts(c, dir, name, &meta, code, pdi_digest, &blocks, err);
        if (st != ST_OK) {
            cache_remove(dir, name);
        }
        close(dir);
    }
    buf_free(&key);
    buf_free(&meta);
    if (blocks) {
        cache_grown(c, blocks);
    }
    return st;
}

// ---- what is damaged ----

void cache_quarantine(struct cache * c, const struct kernel_spec * spec, const char * identity) {
    int dir;
    const char * arch = kernel_arch_name(spec->arch);
    if (dir_open_child(c->root, arch, false, &dir, NULL) != ST_OK) {
        return;
    }
    char name[CACHE_NAME_MAX], files[PART_LOCK][CACHE_FILE_MAX];
    const char * list[PART_LOCK];
    struct buf key = {0};
    entry_print_key(spec, identity, &key);
    if (key.failed ||
        cache_find(dir, spec, identity, &key, NULL, NULL, name, NULL, NULL) != ST_CORRUPT) {
        buf_free(&key);
        close(dir);
        return; // somebody was faster
    }
    buf_free(&key);
    for (int part = PART_META; part < PART_LOCK; part++) {
        cache_file_name(name, (enum cache_part) part, files[part]);
        list[part] = files[part];
    }
    keep_quarantine(c->root, dir, arch, list, PART_LOCK);
    close(dir);
}

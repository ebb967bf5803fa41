// cache: code objects on disk, for this user. {arch}-{version}/{name}_{hash}.cso is the layout of
// the hanzo-ml-rocm crate, which may read and write there too: a .cso without a .meta is never
// used, and replaced. The .meta is written last and taken away first, so a code object counts only
// while the two agree.
#include "hip-impl.h"

#include "base/dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A process waits for another one as long as a compile may take: two compiles of one thing are
// slower than one.
#define LOCK_WAIT_MS 300000
#define DEFAULT_MAX  ((uint64_t) 1 << 30)

// A description:
//
//   rocm-kernels code object
//   format 1
//   arch gfx90a
//   version 5.2
//   name unary_f32
//   source 4a7d...                 SHA-256
//   flags --offload-arch=gfx90a -O3 ...
//   compiler hipcc /usr/bin/hipcc ...   all up to here is the key
//   code 20480 5be0...             bytes and SHA-256
//   check 9b05...
const struct keep_form hip_form = {.magic = "rocm-kernels code object\n",
                                   .format = 1,
                                   .last_word = "\ncompiler ",
                                   .n_files = 1,
                                   .files = {"code"}};
const char hip_meta_suffix[] = ".meta", hip_code_suffix[] = ".cso", hip_lock_suffix[] = ".lock";

// ---- the directory ----

enum status hip_cache_open(bool create, struct hip_cache * out, struct error * err) {
    static const struct keep_names names = {"CANDLE_ROCM_CACHE_DIR", "hanzo-ml-rocm", NULL};
    struct keep_place place;
    enum status st = keep_size("ROCM_KERNELS_CACHE_MAX_SIZE", DEFAULT_MAX, &out->max, err);
    if (st == ST_OK && out->max == 0) {
        st = error_set(err, ST_NOT_FOUND, "ROCM_KERNELS_CACHE_MAX_SIZE is 0");
    }
    if (st != ST_OK || (st = keep_place_find(&names, &place, err)) != ST_OK) {
        return st;
    }
    struct buf path = {0};
    buf_printf(&path, "%s/%s", strcmp(place.base, "/") ? place.base : "", place.own);
    if (path.failed) {
        st = error_set(err, ST_NO_MEMORY, "no memory for a path");
    } else if ((st = dir_open(place.base, place.own, create, &out->root, err)) != ST_OK) {
        error_prefix(err, st, "kernel cache (%s)", place.reason);
    }
    keep_place_free(&place);
    if (st != ST_OK) {
        buf_free(&path);
        return st;
    }
    out->path = (char *) path.data;
    return ST_OK;
}

void hip_cache_close(struct hip_cache * c) {
    close(c->root);
    free(c->path);
}

// ---- names ----

void hip_entry_stem(const struct hip_entry * e, char stem[HIP_STEM_MAX]) {
    char hash[SHA256_TEXT];
    sha256_print(e->source, hash);
    snprintf(stem, HIP_STEM_MAX, "%s_%.16s", e->name, hash);
}

static void dir_name(const struct hip_entry * e, char name[HIP_ARCH_MAX + HIP_VERSION_MAX]) {
    snprintf(name, HIP_ARCH_MAX + HIP_VERSION_MAX, "%s-%s", e->arch, e->version);
}

void hip_entry_path(const struct hip_cache * c, const struct hip_entry * e, struct buf * path) {
    char stem[HIP_STEM_MAX], dir[HIP_ARCH_MAX + HIP_VERSION_MAX];
    hip_entry_stem(e, stem);
    dir_name(e, dir);
    buf_printf(path, "%s/%s/%s%s", c->path, dir, stem, hip_code_suffix);
}

static void file_name(const struct hip_entry * e, const char * suffix, char file[HIP_FILE_MAX]) {
    char stem[HIP_STEM_MAX];
    hip_entry_stem(e, stem);
    snprintf(file, HIP_FILE_MAX, "%s%s", stem, suffix);
}

static enum status open_dir(struct hip_cache * c, const struct hip_entry * e, bool create,
                            int * dir, struct error * err) {
    char name[HIP_ARCH_MAX + HIP_VERSION_MAX];
    dir_name(e, name);
    return dir_open_child(c->root, name, create, dir, err);
}

// ---- keys ----

static void print_what(const struct hip_entry * e, struct buf * out) {
    char hash[SHA256_TEXT];
    sha256_print(e->source, hash);
    buf_printf(out, "%sformat %d\narch %s\nversion %s\nname %s\nsource %s\n", hip_form.magic,
               hip_form.format, e->arch, e->version, e->name, hash);
}

static void print_key(const struct hip_entry * e, const struct hip_compiler * by,
                      struct buf * out) {
    print_what(e, out);
    buf_printf(out, "flags ");
    hip_compiler_flags(by->kind, e->arch, out);
    buf_printf(out, "\ncompiler %s\n", by->identity);
}

// Any compiler that is here may have made it. Where none is, nobody could make it better.
static bool key_matches(const struct hip_entry * e, const struct hip_compilers * compilers,
                        const char * text, size_t size) {
    bool same = false;
    for (int i = 0; i < compilers->n + (compilers->n == 0) && !same; i++) {
        struct buf key = {0};
        if (compilers->n) {
            print_key(e, &compilers->list[i], &key);
            same = !key.failed && key.size == size && !memcmp(text, key.data, size);
        } else {
            print_what(e, &key);
            same = !key.failed && key.size < size && !memcmp(text, key.data, key.size);
        }
        buf_free(&key);
    }
    return same;
}

// ---- reading ----

enum status hip_meta_read(int dir, const char * stem, char ** text, size_t * key_size,
                          struct keep_file * code, struct error * err) {
    char file[256];
    uint8_t * bytes;
    size_t size;
    snprintf(file, sizeof file, "%s%s", stem, hip_meta_suffix);
    enum status st = dir_read(dir, file, HIP_META_MAX, &bytes, &size, err);
    if (st != ST_OK) {
        return st;
    }
    st = keep_unseal(&hip_form, bytes, size, key_size, code, err);
    if (st != ST_OK) {
        free(bytes);
        return st == ST_UNSUPPORTED ? ST_NOT_FOUND : st;
    }
    *text = (char *) bytes;
    return ST_OK;
}

enum status hip_cache_load(struct hip_cache * c, const struct hip_entry * e,
                           const struct hip_compilers * compilers, uint8_t ** data, size_t * size,
                           struct error * err) {
    int dir;
    enum status st = open_dir(c, e, false, &dir, err);
    if (st != ST_OK) {
        return st;
    }
    char stem[HIP_STEM_MAX], file[HIP_FILE_MAX], *text;
    size_t key_size;
    struct keep_file code;
    hip_entry_stem(e, stem);
    st = hip_meta_read(dir, stem, &text, &key_size, &code, err);
    if (st == ST_OK) {
        bool matches = key_matches(e, compilers, text, key_size);
        free(text);
        file_name(e, hip_code_suffix, file);
        st = matches ? keep_read(dir, file, HIP_MAX_CODE, &code, data, err)
                     : error_set(err, ST_NOT_FOUND, "made by another compiler");
    }
    if (st == ST_OK) {
        *size = code.size;
        file_name(e, hip_meta_suffix, file);
        keep_touch(dir, file);
    }
    close(dir);
    return st;
}

// ---- writing ----

enum status hip_cache_lock(struct hip_cache * c, const struct hip_entry * e, struct hip_lock * out,
                           struct error * err) {
    enum status st = open_dir(c, e, true, &out->dir, err);
    if (st != ST_OK) {
        return st;
    }
    file_name(e, hip_lock_suffix, out->name);
    st = dir_lock(out->dir, out->name, LOCK_WAIT_MS, &out->fd, err);
    if (st != ST_OK) {
        close(out->dir);
    }
    return st;
}

void hip_cache_unlock(struct hip_lock * lock) {
    dir_unlock(lock->dir, lock->name, lock->fd);
    close(lock->dir);
}

static enum status write_files(int dir, const struct hip_entry * e, const struct buf * meta,
                               const uint8_t * data, size_t size, struct error * err) {
    char file[HIP_FILE_MAX], meta_file[HIP_FILE_MAX];
    file_name(e, hip_code_suffix, file);
    file_name(e, hip_meta_suffix, meta_file);
    dir_remove(dir, meta_file); // of another compiler: no longer true from here on
    enum status st = dir_write(dir, file, data, size, err);
    if (st == ST_OK) {
        st = dir_write(dir, meta_file, meta->data, meta->size, err);
    }
    if (st == ST_OK) {
        st = dir_sync(dir, err);
    }
    if (st != ST_OK) {
        dir_remove(dir, meta_file);
        dir_remove(dir, file);
    }
    return st;
}

enum status hip_cache_publish(struct hip_cache * c, const struct hip_entry * e,
                              const struct hip_compiler * by, const uint8_t * data, size_t size,
                              struct error * err) {
    struct keep_file code = {.size = size};
    struct buf key = {0}, meta = {0};
    int dir;
    sha256(data, size, code.digest);
    print_key(e, by, &key);
    keep_seal(&hip_form, &key, &code, &meta);
    enum status st = key.failed || meta.failed || meta.size > HIP_META_MAX
                         ? error_set(err, ST_NO_MEMORY, "no memory for its description")
                         : open_dir(c, e, true, &dir, err);
    if (st == ST_OK) {
        st = write_files(dir, e, &meta, data, size, err);
        close(dir);
    }
    uint64_t blocks = keep_blocks(size) + keep_blocks(meta.size);
    buf_free(&key);
    buf_free(&meta);
    if (st == ST_OK) {
        hip_cache_grown(c, blocks);
    }
    return st;
}

void hip_cache_quarantine(struct hip_cache * c, const struct hip_entry * e) {
    int dir;
    if (open_dir(c, e, false, &dir, NULL) == ST_OK) {
        char meta[HIP_FILE_MAX], code[HIP_FILE_MAX], prefix[HIP_ARCH_MAX + HIP_VERSION_MAX];
        file_name(e, hip_meta_suffix, meta);
        file_name(e, hip_code_suffix, code);
        dir_name(e, prefix);
        keep_quarantine(c->root, dir, prefix, (const char * const[]){meta, code}, 2);
        close(dir);
    }
}

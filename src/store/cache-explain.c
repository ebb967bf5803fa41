// cache-explain: why a kernel would not be found. It follows the way of cache_load and says where
// that ends; where there is nothing at all it shows the kernel that comes nearest.
#include "cache-scan.h"

#include "base/dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct nearest {
    int differences;
    char name[CACHE_NAME_MAX];
    struct buf text;
};

static void compare(int dir, const char * name, const struct buf * key, struct nearest * best) {
    char file[CACHE_FILE_MAX];
    uint8_t * text;
    size_t size;
    struct entry_meta meta;
    cache_file_name(name, PART_META, file);
    if (dir_read(dir, file, ENTRY_MAX_BYTES, &text, &size, NULL) != ST_OK) {
        return;
    }
    if (entry_parse(text, size, &meta, NULL) == ST_OK) {
        struct buf lines = {0};
        int n = entry_key_diff((const char *) text, meta.key_size, (const char *) key->data,
                               key->size, &lines);
        if (!best->text.data || n < best->differences) {
            buf_free(&best->text);
            best->text = lines;
            best->differences = n;
            snprintf(best->name, sizeof best->name, "%s", name);
        } else {
            buf_free(&lines);
        }
    }
    free(text);
}

// Nothing of that name: the kernel of any architecture whose key differs least.
static void explain_absent(struct cache * c, const struct kernel_spec * spec, const char * name,
                           const struct buf * key, struct buf * text) {
    struct scan s;
    struct nearest best = {0};
    bool half = false;
    if (scan_cache(c, &s, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < s.n_kernels; i++) {
        half = half || (s.kernels[i].arch == spec->arch && !strcmp(s.kernels[i].name, name));
        if (s.kernels[i].parts[PART_META]) {
            compare(s.dirs[s.kernels[i].arch], s.kernels[i].name, key, &best);
        }
    }
    scan_free(&s);
    if (half) {
        buf_printf(text,
                   "there are files of that name without a %s beside them: another program "
                   "made them, or it was cut short; they count only in GGML_HSA_KERNEL_DIR\n",
                   cache_suffix[PART_META]);
    } else {
        buf_printf(text, "it is not in the cache: it was never compiled here, or trimmed since\n");
    }
    if (best.text.size) {
        buf_printf(text, "the nearest kernel that is there: %s\n", best.name);
        buf_append(text, best.text.data, best.text.size);
    }
    buf_free(&best.text);
}

// The key of what is there differs, or cannot be read.
static void explain_key(int dir, const char * name, const struct buf * key,
                        const struct error * why, struct buf * text) {
    struct nearest here = {0};
    compare(dir, name, key, &here);
    if (here.text.size) {
        buf_append(text, here.text.data, here.text.size);
    } else {
        buf_printf(text, "%s\n", why->text);
    }
    buf_free(&here.text);
}

bool cache_explain(struct cache * c, const struct kernel_spec * spec, const char * identity,
                   struct buf * text) {
    char name[CACHE_NAME_MAX], file[CACHE_FILE_MAX];
    struct buf key = {0};
    struct error why = {0};
    int dir = -1;
    kernel_name(spec, name);
    entry_print_key(spec, identity, &key);
    if (key.failed) {
        return false;
    }
    enum status st = dir_open_child(c->root, kernel_arch_name(spec->arch), false, &dir, &why);
    if (st == ST_OK) {
        st = cache_find(dir, spec, identity, &key, NULL, NULL, name, NULL, &why);
    }
    cache_file_name(name, PART_META, file);
    if (st == ST_NOT_FOUND && (dir < 0 || faccessat(dir, file, F_OK, AT_SYMLINK_NOFOLLOW) != 0)) {
        explain_absent(c, spec, name, &key, text);
    } else if (st == ST_NOT_FOUND) {
        explain_key(dir, name, &key, &why, text);
    } else if (st == ST_CORRUPT) {
        buf_printf(text, "it is damaged and will be made again: %s\n", why.text);
    } else if (st != ST_OK) {
        buf_printf(text, "%s\n", why.text);
    }
    if (dir >= 0) {
        close(dir);
    }
    buf_free(&key);
    return st == ST_OK;
}

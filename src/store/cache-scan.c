// cache-scan: see the header. Names that are not ours are not looked at twice: whatever else lies
// there is neither counted nor touched. A .pdi or _insts.bin alone may be of another program.
#include "cache-scan.h"

#include "base/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct scan_file { // of one arch directory, before files become kernels
    char * name;   // of the kernel
    enum cache_part part;
    uint64_t inode, blocks;
    int64_t changed;
};

bool scan_is_kernel_file(const char * file, enum cache_part * part, size_t * stem) {
    size_t n = strlen(file);
    for (int i = 0; i < CACHE_PARTS; i++) {
        size_t suffix = strlen(cache_suffix[i]);
        if (n <= suffix || n - suffix >= CACHE_NAME_MAX ||
            strcmp(file + n - suffix, cache_suffix[i])) {
            continue;
        }
        *part = (enum cache_part) i;
        *stem = n - suffix;
        return file[0] != '.' && strspn(file, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                              "0123456789_-.+=,@") >= *stem;
    }
    return false;
}

// Room for one more in *array, which doubles. Where there is no memory the array stays as it is,
// and the scan has failed. What was moved is known at once: a later failure must find it, not what
// was freed.
static bool more(struct scan * s, void * array, size_t n, size_t size) {
    enum { FIRST = 16 };
    void * now;
    memcpy(&now, array, sizeof now); // whatever it points to
    bool full = n == 0 || (n >= FIRST && (n & (n - 1)) == 0);
    if (full) {
        void * grown = realloc(now, (n < FIRST ? FIRST : 2 * n) * size);
        if (!grown) {
            s->failed = true;
            return false;
        }
        memcpy(array, &grown, sizeof grown);
    }
    return true;
}

static void add_stray(struct scan * s, int place, const char * name, const struct stat * info,
                      bool quarantined) {
    char * copy = strdup(name);
    if (!copy || !more(s, &s->strays, s->n_strays, sizeof *s->strays)) {
        s->failed = true;
        free(copy);
        return;
    }
    s->strays[s->n_strays++] = (struct scan_stray){
        place, copy, keep_blocks((uint64_t) info->st_size), info->st_mtime, quarantined};
}

static void add_inode(struct scan * s, uint64_t inode, uint64_t blocks, const char * shared) {
    char * copy = shared ? strdup(shared) : NULL;
    if ((shared && !copy) || !more(s, &s->inodes, s->n_inodes, sizeof *s->inodes)) {
        s->failed = true;
        free(copy);
        return;
    }
    s->inodes[s->n_inodes++] = (struct scan_inode){inode, blocks, shared ? 0 : 1, copy};
}

static int by_name(const void * a, const void * b) {
    const struct scan_file *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (int) x->part - (int) y->part;
}

// Files of one name, sorted, become one kernel.
static void add_kernels(struct scan * s, enum aie_arch arch, struct scan_file * files, size_t n) {
    qsort(files, n, sizeof *files, by_name);
    for (size_t i = 0; i < n && !s->failed;) {
        if (!more(s, &s->kernels, s->n_kernels, sizeof *s->kernels)) {
            return;
        }
        struct scan_kernel * k = &s->kernels[s->n_kernels++];
        *k = (struct scan_kernel){.arch = arch, .name = strdup(files[i].name)};
        s->failed = s->failed || !k->name;
        // The description's time is the kernel's: a shared PDI has that of its first.
        k->used = files[i].changed;
        size_t first = i;
        for (; i < n && !strcmp(files[i].name, files[first].name); i++) {
            k->parts[files[i].part] = true;
            if (files[i].part == PART_PDI) {
                k->pdi_inode = files[i].inode;
                k->pdi_blocks = files[i].blocks;
                add_inode(s, files[i].inode, files[i].blocks, NULL);
            } else {
                k->blocks += files[i].blocks;
                s->blocks += files[i].blocks;
            }
            s->files++;
        }
    }
}

static bool is_temp(const char * name) {
    return !strncmp(name, DIR_TEMP_PREFIX, sizeof DIR_TEMP_PREFIX - 1);
}

// One file of directory `place`; files of kernels are collected in *files.
static void look_at(struct scan * s, int place, const char * name, struct scan_file ** files,
                    size_t * n_files) {
    enum cache_part part;
    size_t stem;
    struct stat info;
    bool temp = is_temp(name), ours = scan_is_kernel_file(name, &part, &stem);
    if ((!temp && !ours) || fstatat(s->dirs[place], name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode)) {
        return;
    }
    if (place == PLACE_QUARANTINE && ours) {
        add_stray(s, place, name, &info, true);
        s->blocks += keep_blocks((uint64_t) info.st_size);
        s->files++;
        s->quarantined++;
    } else if (temp || part == PART_LOCK) {
        add_stray(s, place, name, &info, false);
    } else if (place == PLACE_SHARED) {
        if (part == PART_PDI) {
            add_inode(s, info.st_ino, keep_blocks((uint64_t) info.st_size), name);
        }
    } else {
        char * copy = strndup(name, stem);
        if (!copy || !more(s, files, *n_files, sizeof **files)) {
            s->failed = true;
            free(copy);
            return;
        }
        (*files)[(*n_files)++] = (struct scan_file){
            copy, part, info.st_ino, keep_blocks((uint64_t) info.st_size), info.st_mtime};
    }
}

static void scan_place(struct scan * s, int place) {
    struct scan_file * files = NULL;
    size_t n_files = 0;
    int fd = openat(s->dirs[place], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR * d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        s->failed = s->failed || errno == ENOMEM; // else it is not ours to read
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    for (struct dirent * entry; !s->failed && (entry = readdir(d));) {
        look_at(s, place, entry->d_name, &files, &n_files);
    }
    closedir(d);
    if (place < AIE_ARCH_COUNT && n_files && !s->failed) {
        add_kernels(s, (enum aie_arch) place, files, n_files);
    }
    for (size_t i = 0; i < n_files; i++) {
        free(files[i].name);
    }
    free(files);
}

static int by_inode(const void * a, const void * b) {
    const struct scan_inode *x = a, *y = b;
    return (x->inode > y->inode) - (x->inode < y->inode);
}

static void merge_inodes(struct scan * s) {
    if (s->n_inodes == 0) {
        return;
    }
    qsort(s->inodes, s->n_inodes, sizeof *s->inodes, by_inode);
    size_t n = 0;
    for (size_t i = 0; i < s->n_inodes; i++) {
        if (n && s->inodes[n - 1].inode == s->inodes[i].inode) {
            s->inodes[n - 1].kernels += s->inodes[i].kernels;
            if (s->inodes[i].shared) {
                free(s->inodes[n - 1].shared);
                s->inodes[n - 1].shared = s->inodes[i].shared;
            }
            continue;
        }
        s->inodes[n++] = s->inodes[i];
    }
    s->n_inodes = n;
}

struct scan_inode * scan_find_inode(struct scan * s, uint64_t inode) {
    struct scan_inode key = {.inode = inode};
    return s->n_inodes ? bsearch(&key, s->inodes, s->n_inodes, sizeof key, by_inode) : NULL;
}

// ---- whose it is ----

// Does it begin as kernel_name writes it: "<op>_<dtype>_<n>x<n>x<n>x<n>"?
static bool has_our_name(const char * name) {
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        size_t n = strlen(kernel_op_name((enum kernel_op) op));
        if (strncmp(name, kernel_op_name((enum kernel_op) op), n) || name[n] != '_') {
            continue;
        }
        for (int t = 0; t < DTYPE_COUNT; t++) {
            const char *type = dtype_name((enum dtype) t), *p = name + n + 1;
            size_t length = strlen(type);
            bool ok = !strncmp(p, type, length) && p[length] == '_';
            p += ok ? length + 1 : 0;
            for (int d = 0; ok && d < TENSOR_DIMS; d++) {
                size_t digits = strspn(p, "0123456789");
                ok = digits > 0 && (d == TENSOR_DIMS - 1 || p[digits] == 'x');
                p += ok ? digits + (d < TENSOR_DIMS - 1) : 0;
            }
            if (ok) {
                return true;
            }
        }
    }
    return false;
}

// A description makes a kernel ours. One that was cut short before it has a PDI that is a link to a
// shared one, or at least our name. A PDI counts once, and where one of ours has it: other programs
// may have linked theirs to each other, and to ours.
static void tell_ours(struct scan * s) {
    for (size_t i = 0; i < s->n_kernels; i++) {
        struct scan_kernel * k = &s->kernels[i];
        struct scan_inode * pdi = k->pdi_inode ? scan_find_inode(s, k->pdi_inode) : NULL;
        k->ours = k->parts[PART_META] || (pdi && pdi->shared) || has_our_name(k->name);
        if (!k->ours) {
            s->n_foreign++;
            s->blocks -= k->blocks;
            for (int part = 0; part < PART_LOCK; part++) {
                s->files -= k->parts[part];
            }
            if (pdi) {
                pdi->kernels--;
            }
        }
    }
    for (size_t i = 0; i < s->n_inodes; i++) {
        s->blocks += s->inodes[i].kernels || s->inodes[i].shared ? s->inodes[i].blocks : 0;
    }
}

enum status scan_cache(struct cache * c, struct scan * out, struct error * err) {
    *out = (struct scan){0};
    for (int place = 0; place < PLACES; place++) {
        const char * name = place == PLACE_SHARED       ? CACHE_SHARED
                            : place == PLACE_QUARANTINE ? CACHE_QUARANTINE
                                                        : kernel_arch_name((enum aie_arch) place);
        if (dir_open_child(c->root, name, false, &out->dirs[place], NULL) != ST_OK) {
            out->dirs[place] = -1;
            continue;
        }
        scan_place(out, place);
    }
    merge_inodes(out);
    if (!out->failed) {
        tell_ours(out);
    }
    if (out->failed) {
        scan_free(out);
        return error_set(err, ST_NO_MEMORY, "no memory to list the cache");
    }
    return ST_OK;
}

void scan_free(struct scan * s) {
    for (int i = 0; i < PLACES; i++) {
        if (s->dirs[i] >= 0) {
            close(s->dirs[i]);
        }
    }
    for (size_t i = 0; i < s->n_kernels; i++) {
        free(s->kernels[i].name);
    }
    for (size_t i = 0; i < s->n_inodes; i++) {
        free(s->inodes[i].shared);
    }
    for (size_t i = 0; i < s->n_strays; i++) {
        free(s->strays[i].name);
    }
    free(s->kernels);
    free(s->inodes);
    free(s->strays);
    *s = (struct scan){0};
}

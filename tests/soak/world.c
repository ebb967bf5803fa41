// world: the disk of the soak, and what may befall it. The cache lies on a small file system of its
// own where this process may have one (a mount namespace, with a user namespace below it where it
// is not root), so that it can be filled without harm to anybody else.
#include "soak.h"

#include "aie/image/image.h"
#include "store/cache.h"
#include "store/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

uint32_t world_random(struct world * w, uint32_t below) {
    w->random = w->random * 1664525u + 1013904223u;
    return (uint32_t) (((uint64_t) (w->random >> 8) * below) >> 24);
}

// ---- the disk ----

static bool put(const char * path, const char * text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text);
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

// Everybody keeps his number: the cache asks whose its files are.
static bool own_namespace(void) {
    char map[2][64];
    snprintf(map[0], sizeof map[0], "%u %u 1", (unsigned) getuid(), (unsigned) getuid());
    snprintf(map[1], sizeof map[1], "%u %u 1", (unsigned) getgid(), (unsigned) getgid());
    if (unshare(CLONE_NEWNS) == 0) {
        return true;
    }
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && put("/proc/self/setgroups", "deny") &&
           put("/proc/self/uid_map", map[0]) && put("/proc/self/gid_map", map[1]);
}

static bool mount_small(const char * path) {
    return own_namespace() && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("soak", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=32m,mode=0700") == 0;
}

bool world_make(struct world * w, uint32_t seed) {
    *w = (struct world){.dir = "/tmp/ggml-hsa-soak-XXXXXX", .random = seed};
    if (!mkdtemp(w->dir)) {
        return false;
    }
    char gpu[128];
    snprintf(w->cache, sizeof w->cache, "%s/cache", w->dir);
    snprintf(w->pack, sizeof w->pack, "%s/pack", w->dir);
    snprintf(w->hostile, sizeof w->hostile, "%s/hostile", w->dir);
    snprintf(w->record, sizeof w->record, "%s/record.json", w->dir);
    snprintf(gpu, sizeof gpu, "%s/gpu", w->cache);
    if (mkdir(w->cache, 0700) != 0 || mkdir(w->pack, 0700) != 0 || mkdir(w->hostile, 0700) != 0) {
        return false;
    }
    w->can_fill = mount_small(w->cache);
    setenv("GGML_HSA_KERNEL_CACHE_DIR", w->cache, 1);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "6M", 1); // it is trimmed by its users, too
    setenv("GGML_HSA_KERNEL_MEMORY", "3M", 1);
    setenv("CANDLE_ROCM_CACHE_DIR", gpu, 1);
    unsetenv("GGML_HSA_KERNEL_DIR");
    return true;
}

static int remove_one(const char * path, const struct stat * info, int kind, struct FTW * at) {
    (void) info, (void) kind, (void) at;
    return remove(path) == 0 || errno == EBUSY ? 0 : 0;
}

void world_free(struct world * w) {
    if (w->can_fill) {
        umount2(w->cache, MNT_DETACH);
    }
    nftw(w->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

// ---- a pack of an attacker ----

// Behind what the kernel does: an address and a length of its own in a descriptor, bits beside a
// mask, a word of a core's program, a tile of another partition, a wait that nothing ends.
static void attack(struct txn * t, int how) {
    switch (how % 6) {
    case 0:
        txn_write(t, image_addr(0, 0, 0x1d004), 0x12345678);
        break;
    case 1:
        txn_write(t, image_addr(0, 0, 0x1d000), 1 << 20);
        break;
    case 2:
        txn_mask_write(t, image_addr(0, 0, 0x1d200), 0x1f00, 0x0f0c);
        break;
    case 3:
        txn_write(t, image_addr(0, 2, 0x20000), 0);
        break;
    case 4:
        txn_write(t, image_addr(30, 0, 0x1d004), 0);
        break;
    default:
        txn_wait(t, 0, 0, 1, 1);
    }
}

static bool copy_file(const char * from, const char * to, int how) {
    uint8_t * bytes;
    size_t size, n = 0;
    uint32_t * insts = NULL;
    if (file_read(from, 1 << 24, &bytes, &size, NULL) != ST_OK) {
        return false;
    }
    if (how >= 0) {
        struct txn t = {.n_ops =
                            size < 16 ? 0 : txn_header_operations((uint32_t *) (void *) bytes)};
        buf_append(&t.words, bytes, size);
        attack(&t, how);
        if (txn_end(&t, &insts, &n, NULL) != ST_OK) {
            n = 0;
        }
    }
    size_t length = how >= 0 ? 4 * n : size;
    FILE * f = fopen(to, "wb");
    bool ok = f && length && fwrite(how >= 0 ? (void *) insts : bytes, 1, length, f) == length;
    ok = f && fclose(f) == 0 && ok;
    free(insts);
    free(bytes);
    return ok;
}

// Without a manifest files go by the names of their kernels, and nobody has sealed them.
int world_make_hostile(struct world * w) {
    int n = 0;
    for (int arch = 0; arch < AIE_ARCH_COUNT; arch++) {
        const char * name = kernel_arch_name((enum aie_arch) arch);
        char from[512], to[512];
        struct manifest m = {0};
        snprintf(from, sizeof from, "%s/%s/" MANIFEST_FILE, w->pack, name);
        snprintf(to, sizeof to, "%s/%s", w->hostile, name);
        if (manifest_read(from, (enum aie_arch) arch, &m, NULL) != ST_OK || mkdir(to, 0700) != 0) {
            continue;
        }
        for (size_t i = 0; i < m.n_entries; i++) {
            const struct manifest_entry * e = &m.entries[i];
            static const char * const suffixes[] = {".pdi", "_insts.bin"};
            bool ok = true;
            for (int k = 0; k < 2; k++) {
                snprintf(from, sizeof from, "%s/%s/%s%s", w->pack, name, e->exported_name,
                         suffixes[k]);
                snprintf(to, sizeof to, "%s/%s/%s%s", w->hostile, name, e->kernel, suffixes[k]);
                ok = copy_file(from, to, k ? (int) i : -1) && ok;
            }
            n += ok;
        }
        manifest_free(&m);
    }
    return n;
}

// ---- what befalls it ----

bool world_clear(struct world * w) {
    (void) w;
    struct cache * c;
    struct cache_totals totals;
    bool ok = cache_open(false, &c, NULL) == ST_OK;
    if (ok) {
        cache_clear(c, &totals, NULL);
        cache_close(c);
    }
    return ok;
}

bool world_trim(struct world * w) {
    struct cache * c;
    struct cache_totals totals;
    bool ok = cache_open(false, &c, NULL) == ST_OK;
    if (ok) {
        cache_trim(c, world_random(w, 2 << 20), false, &totals, NULL);
        cache_close(c);
    }
    return ok;
}

// One of the files, each as likely as the other. GPU code takes a compiler seconds to make again,
// and is spared mostly.
static struct {
    uint32_t seen, seed;
    bool gpu_too;
    char path[512];
} choice;

static int choose(const char * path, const struct stat * info, int kind, struct FTW * at) {
    (void) at;
    if (kind == FTW_F && S_ISREG(info->st_mode) && (choice.gpu_too || !strstr(path, "/gpu/")) &&
        strlen(path) < sizeof choice.path) {
        choice.seed = choice.seed * 1664525u + 1013904223u;
        if ((choice.seed >> 8) % ++choice.seen == 0) {
            memcpy(choice.path, path, strlen(path) + 1);
        }
    }
    return 0;
}

static bool flip(struct world * w, const char * path) {
    struct stat info;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    uint8_t byte;
    bool ok = fd >= 0 && fstat(fd, &info) == 0 && info.st_size > 0;
    off_t at = ok ? (off_t) world_random(w, (uint32_t) info.st_size) : 0;
    ok = ok && pread(fd, &byte, 1, at) == 1;
    if (ok) {
        byte ^= (uint8_t) (1u << world_random(w, 8));
        ok = pwrite(fd, &byte, 1, at) == 1;
    }
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

static bool garbage(struct world * w, const char * path) {
    uint8_t bytes[512];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t) world_random(w, 256);
    }
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    bool ok = fd >= 0 && pwrite(fd, bytes, sizeof bytes, 0) > 0;
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

bool world_damage(struct world * w) {
    choice.seen = 0;
    choice.seed = world_random(w, UINT32_MAX);
    choice.gpu_too = world_random(w, 30) == 0;
    bool pack = world_random(w, 4) == 0;
    nftw(pack ? w->pack : w->cache, choose, 16, FTW_PHYS);
    if (!choice.seen) {
        return false;
    }
    switch (world_random(w, 5)) {
    case 0:
        return truncate(choice.path, (off_t) world_random(w, 64)) == 0;
    case 1:
        return unlink(choice.path) == 0;
    case 2:
        return garbage(w, choice.path);
    case 3:
        return chmod(choice.path, 0666) == 0; // anybody could have written it
    default:
        return flip(w, choice.path);
    }
}

static void fill_path(const struct world * w, char path[128]) {
    snprintf(path, 128, "%s/full", w->cache);
}

bool world_fill(struct world * w) {
    static const char zeros[1 << 16];
    char path[128];
    fill_path(w, path);
    int fd = w->can_fill ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0) {
        return false;
    }
    while (write(fd, zeros, sizeof zeros) > 0) {
    }
    bool full = errno == ENOSPC;
    close(fd);
    return full;
}

void world_empty(struct world * w) {
    char path[128];
    fill_path(w, path);
    unlink(path);
}

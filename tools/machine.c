// machine: see machine.h.
#include "machine.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- files below the root ----

static void path_of(const struct machine * m, char path[MACHINE_PATH], const char * fmt,
                    va_list args) {
    int n = snprintf(path, MACHINE_PATH, "%s", m->root);
    if (n >= 0 && n < MACHINE_PATH) {
        int more = vsnprintf(path + n, (size_t) (MACHINE_PATH - n), fmt, args);
        n = more < 0 ? MACHINE_PATH : n + more;
    }
    if (n < 0 || n >= MACHINE_PATH) {
        path[0] = '\0';
    }
}

#define PATH_OF(path)                                                                              \
    char path[MACHINE_PATH];                                                                       \
    va_list args;                                                                                  \
    va_start(args, fmt);                                                                           \
    path_of(m, path, fmt, args);                                                                   \
    va_end(args)

void machine_path(const struct machine * m, char path[MACHINE_PATH], const char * fmt, ...) {
    PATH_OF(found);
    memcpy(path, found, sizeof found);
}

// All that fits of a file, as text.
static void read_text(const char * path, char * text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    size_t n = 0;
    for (ssize_t got = 1; fd >= 0 && got > 0 && n<size - 1; n += got> 0 ? (size_t) got : 0) {
        got = read(fd, text + n, size - 1 - n);
    }
    if (fd >= 0) {
        close(fd);
    }
    text[n] = '\0';
}

void machine_line(const struct machine * m, char * line, size_t size, const char * fmt, ...) {
    PATH_OF(path);
    read_text(path, line, size);
    line[strcspn(line, "\r\n")] = '\0';
}

void machine_link(const struct machine * m, char * name, size_t size, const char * fmt, ...) {
    PATH_OF(path);
    char target[MACHINE_PATH];
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    const char * slash = strrchr(target, '/');
    snprintf(name, size, "%s", slash ? slash + 1 : target);
}

bool machine_has(const struct machine * m, const char * fmt, ...) {
    PATH_OF(path);
    return *path && access(path, F_OK) == 0;
}

// ---- system ----

int machine_version(const char * text, int numbers[], int n) {
    enum { LARGEST = 1000000 };
    int found = 0;
    for (int i = 0; i < n; i++) {
        char * end = (char *) text;
        bool digit = *text >= '0' && *text <= '9';
        long value = digit ? strtol(text, &end, 10) : 0;
        numbers[i] = value < LARGEST ? (int) value : LARGEST;
        found += digit;
        text = digit && *end == '.' ? end + 1 : ""; // nothing more to read
    }
    return found;
}

// The value behind "key" and its sign on a line of its own, without the quotes that os-release has.
static void find_value(const char * text, const char * key, char sign, char * value, size_t size) {
    value[0] = '\0';
    for (const char * line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t n = strlen(key);
        if (strncmp(line, key, n)) {
            continue;
        }
        const char * p = line + n + strspn(line + n, " \t");
        if (*p++ != sign) {
            continue;
        }
        p += strspn(p, " \t\"'");
        snprintf(value, size, "%.*s", (int) strcspn(p, "\n\"'"), p);
        return;
    }
}

static void look_at_system(struct machine * m) {
    char path[MACHINE_PATH], text[4096];
    machine_path(m, path, "/etc/os-release");
    read_text(path, text, sizeof text);
    find_value(text, "PRETTY_NAME", '=', m->system, sizeof m->system);
    machine_path(m, path, "/proc/cpuinfo");
    read_text(path, text, sizeof text);
    find_value(text, "model name", ':', m->processor, sizeof m->processor);
    machine_line(m, m->release, sizeof m->release, "/proc/sys/kernel/osrelease");
    machine_version(m->release, m->kernel, 2);
}

static void look_at_driver(struct machine * m) {
    char taint[16];
    m->driver = machine_has(m, "/sys/module/amdxdna");
    machine_line(m, m->driver_version, sizeof m->driver_version, "/sys/module/amdxdna/version");
    machine_line(m, taint, sizeof taint, "/sys/module/amdxdna/taint");
    m->out_of_tree = strchr(taint, 'O') != NULL;
}

// ---- NPUs ----

enum { AMD = 0x1022, ANY = ~0 };

// What the driver binds to, and where it looks for firmware. The runtime ends the process on a
// device that is not aie2 or aie2p.
static const struct {
    unsigned device, revision;
    const char *family, *arch, *firmware;
} npus[] = {
    {0x1502, ANY, "Phoenix or Hawk Point", "aie2", "amdnpu/1502_00"},
    {0x17f0, 0x10, "Strix Point", "aie2p", "amdnpu/17f0_10"},
    {0x17f0, 0x11, "Strix Halo", "aie2p", "amdnpu/17f0_11"},
    {0x17f0, 0x20, "Krackan Point", "aie2p", "amdnpu/17f0_10"},
    {0x17f0, ANY, "of the Strix family", "aie2p", "amdnpu/17f0_10"},
    {0x17f1, ANY, "newer than XDNA 2", NULL, NULL},
    {0x17f2, ANY, "newer than XDNA 2", NULL, NULL},
    {0x17f3, ANY, "newer than XDNA 2", NULL, NULL},
    {0x1b0a, ANY, "newer than XDNA 2", NULL, NULL},
    {0x1b0b, ANY, "newer than XDNA 2", NULL, NULL},
    {0x1b0c, ANY, "newer than XDNA 2", NULL, NULL},
};
enum { NPUS = sizeof npus / sizeof npus[0] };

const char * machine_arch(unsigned device) {
    for (int i = 0; i < NPUS; i++) {
        if (npus[i].device == device) {
            return npus[i].arch;
        }
    }
    return NULL;
}

static unsigned read_number(const struct machine * m, const char * bus, const char * file) {
    char line[32];
    machine_line(m, line, sizeof line, "/sys/bus/pci/devices/%.31s/%s", bus, file);
    return (unsigned) strtoul(line, NULL, 16);
}

static void look_at_device(struct machine * m, const char * bus) {
    unsigned device = read_number(m, bus, "device"), revision = read_number(m, bus, "revision");
    int row = 0;
    while (row < NPUS && (npus[row].device != device || (npus[row].revision != (unsigned) ANY &&
                                                         npus[row].revision != revision))) {
        row++;
    }
    if (row == NPUS || read_number(m, bus, "vendor") != AMD || m->n_npus == MACHINE_MAX_NPUS) {
        return;
    }
    struct machine_npu * npu = &m->npus[m->n_npus++];
    *npu = (struct machine_npu){.device = device,
                                .revision = revision,
                                .family = npus[row].family,
                                .arch = npus[row].arch,
                                .firmware_dir = npus[row].firmware};
    snprintf(npu->bus, sizeof npu->bus, "%.31s", bus);
    machine_link(m, npu->driver, sizeof npu->driver, "/sys/bus/pci/devices/%s/driver", npu->bus);
    machine_line(m, npu->firmware, sizeof npu->firmware, "/sys/bus/pci/devices/%s/fw_version",
                 npu->bus);
    if (machine_has(m, "/sys/bus/pci/devices/%s/iommu_group", npu->bus)) {
        machine_line(m, npu->iommu, sizeof npu->iommu, "/sys/bus/pci/devices/%s/iommu_group/type",
                     npu->bus);
        if (!*npu->iommu) {
            snprintf(npu->iommu, sizeof npu->iommu, "of a kind that is not told");
        }
    }
}

void machine_look(struct machine * m, const char * root) {
    *m = (struct machine){.root = root};
    look_at_system(m);
    look_at_driver(m);
    char path[MACHINE_PATH];
    machine_path(m, path, "/sys/bus/pci/devices");
    DIR * dir = opendir(path);
    m->bus = dir != NULL;
    for (struct dirent * e; dir && (e = readdir(dir));) {
        if (e->d_name[0] != '.') {
            look_at_device(m, e->d_name);
        }
    }
    if (dir) {
        closedir(dir);
    }
}

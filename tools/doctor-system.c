// doctor-system: what of the machine an NPU needs: the driver, its device files and the right to
// open them, lockable memory, firmware. Only looks, needs no rights, and changes nothing. For an
// emulated NPU all of it is told but nothing is missed.
#include "doctor.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

// What a real NPU lacks is a failure, or a warning where a GPU is there to compute on; an emulated
// one does not miss it.
static enum verdict missing(const struct doctor * d, enum verdict v) {
    bool gpu = probe_has(&d->runtime, HSAC_GPU) && !probe_has(&d->runtime, HSAC_NPU);
    return d->emulated ? PASS : gpu ? WARN : v;
}

static const char * mend(const struct doctor * d, const char * text) {
    return d->emulated ? "" : text;
}

static const char * unless_emulated(const struct doctor * d) {
    return d->emulated ? "; an emulated NPU does not need it" : "";
}

// First line of a small file, without its end; "" when there is none.
static void read_line(const char * path, char * line, size_t size) {
    line[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, line, size - 1);
    if (fd >= 0) {
        close(fd);
    }
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
}

static bool module_loaded(const char * name) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/sys/module/%s", name);
    if (access(path, F_OK) == 0) {
        return true;
    }
    FILE * f = fopen("/proc/modules", "re");
    bool found = false;
    size_t n = strlen(name);
    while (f && !found && fgets(line, sizeof line, f)) {
        found = !strncmp(line, name, n) && line[n] == ' ';
    }
    if (f) {
        fclose(f);
    }
    return found;
}

static void check_driver(struct doctor * d) {
    if (module_loaded("amdxdna")) {
        char version[64];
        read_line("/sys/module/amdxdna/version", version, sizeof version);
        report(d, PASS, "kernel driver", "", "amdxdna%s%s is loaded", *version ? " " : "", version);
        return;
    }
    report(d, missing(d, FAIL), "kernel driver",
           mend(d, "run `sudo modprobe amdxdna`; Linux 6.14 and later have the driver, for older "
                   "ones install "
                   "AMD's xdna-driver package, and enable the NPU (IPU) in the firmware setup"),
           "amdxdna is not loaded%s", unless_emulated(d));
}

static void group_name(gid_t gid, char text[32]) {
    const struct group * g = getgrgid(gid);
    if (g) {
        snprintf(text, 32, "%s", g->gr_name);
    } else {
        snprintf(text, 32, "%lu", (unsigned long) gid);
    }
}

static void report_no_right(struct doctor * d, const char * check, const char * path, int e) {
    struct stat info;
    char group[32] = "render", text[256];
    if (stat(path, &info) == 0) {
        group_name(info.st_gid, group);
    }
    snprintf(text, sizeof text, "run `sudo usermod -aG %s $USER`, then log in again", group);
    report(d, missing(d, FAIL), check, mend(d, text), "%s cannot be opened: %s%s", path,
           strerror(e), unless_emulated(d));
}

// Which NPU it is, from its PCI device number; only these are known to the runtime.
static const struct {
    unsigned id;
    const char * name;
} npus[] = {{0x1502, "aie2"}, {0x17f0, "aie2p"}};

static void report_node(struct doctor * d, const char * path, const char * entry) {
    char file[320], product[64], id_text[32], firmware[64];
    snprintf(file, sizeof file, "/sys/class/accel/%.64s/device/vbnv", entry);
    read_line(file, product, sizeof product);
    snprintf(file, sizeof file, "/sys/class/accel/%.64s/device/device", entry);
    read_line(file, id_text, sizeof id_text);
    snprintf(file, sizeof file, "/sys/class/accel/%.64s/device/fw_version", entry);
    read_line(file, firmware, sizeof firmware);
    unsigned id = (unsigned) strtoul(id_text, NULL, 16);
    const char * arch = NULL;
    for (size_t i = 0; i < sizeof npus / sizeof npus[0]; i++) {
        arch = npus[i].id == id ? npus[i].name : arch;
    }
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        report_no_right(d, "device node", path, errno);
        return;
    }
    close(fd);
    if (*id_text && !arch) {
        report(d, missing(d, WARN), "device node",
               mend(d, "no kernels are made for this device; GGML_HSA_EMULATE=aie2 brings an "
                       "emulated one"),
               "%s is device %s %s, not a known NPU", path, id_text, product);
        return;
    }
    report(d, PASS, "device node", "", "%s can be opened%s%s%s%s%s%s", path, *product ? ", " : "",
           product, arch ? ", " : "", arch ? arch : "", *firmware ? ", firmware " : "", firmware);
}

static void check_nodes(struct doctor * d) {
    DIR * dir = opendir("/dev/accel");
    int n = 0;
    for (struct dirent * e; dir && (e = readdir(dir));) {
        if (!strncmp(e->d_name, "accel", 5) && isdigit((unsigned char) e->d_name[5])) {
            char path[300];
            snprintf(path, sizeof path, "/dev/accel/%s", e->d_name);
            report_node(d, path, e->d_name);
            n++;
        }
    }
    if (dir) {
        closedir(dir);
    }
    if (n == 0) {
        report(
            d, missing(d, FAIL), "device node",
            mend(
                d,
                "load the driver (see above); in a container pass the device: --device /dev/accel"),
            "there is no /dev/accel/accel*%s", unless_emulated(d));
    }
}

static void check_kfd(struct doctor * d) {
    int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        report(d, PASS, "/dev/kfd", "", "it can be opened");
    } else if (errno == ENOENT) {
        report(d, missing(d, FAIL), "/dev/kfd",
               mend(d, "load the amdgpu driver: the HSA runtime needs this file even for an NPU; "
                       "in a container "
                       "pass --device /dev/kfd"),
               "it is not there%s", unless_emulated(d));
    } else {
        report_no_right(d, "/dev/kfd", "/dev/kfd", errno);
    }
}

static void check_group(struct doctor * d) {
    const struct group * render = getgrnam("render");
    if (geteuid() == 0) {
        report(d, PASS, "render group", "", "not needed, this is root");
        return;
    }
    if (!render) {
        report(d, missing(d, WARN), "render group",
               mend(d, "look at the group of /dev/accel/accel0 and join that one"),
               "this system has no group of that name%s", unless_emulated(d));
        return;
    }
    gid_t gid = render->gr_gid;
    int n = getgroups(0, NULL);
    gid_t * groups = n > 0 ? malloc((size_t) n * sizeof *groups) : NULL;
    n = groups ? getgroups(n, groups) : 0;
    bool member = getegid() == gid;
    for (int i = 0; i < n; i++) {
        member |= groups[i] == gid;
    }
    free(groups);
    if (member) {
        report(d, PASS, "render group", "", "this user is in it");
    } else {
        report(d, missing(d, WARN), "render group",
               mend(d, "run `sudo usermod -aG render $USER`, then log in again"),
               "this user is not in it%s", unless_emulated(d));
    }
}

// The driver pins what the device reaches: the heap of 64 MiB at least, and all tensors.
static void check_memlock(struct doctor * d) {
    static const char text[] =
        "add `* - memlock unlimited` to /etc/security/limits.conf and log in again, or run "
        "`ulimit -l unlimited` before the program; the driver reports the lack as EAGAIN";
    const rlim_t heap = (rlim_t) 64 << 20;
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
        return;
    }
    if (limit.rlim_cur == RLIM_INFINITY) {
        report(d, PASS, "memlock limit", "", "unlimited");
        return;
    }
    struct buf size = {0};
    size_text(&size, (uint64_t) limit.rlim_cur);
    if (limit.rlim_cur < heap) {
        report(d, missing(d, FAIL), "memlock limit", mend(d, text),
               "%s, the device heap alone takes 64 MiB%s", size.data ? (char *) size.data : "?",
               unless_emulated(d));
    } else {
        report(d, missing(d, WARN), "memlock limit", mend(d, text),
               "%s, tensors beyond that cannot be given to the NPU%s",
               size.data ? (char *) size.data : "?", unless_emulated(d));
    }
    buf_free(&size);
}

static void check_firmware(struct doctor * d) {
    static const char * const dirs[] = {"/lib/firmware/amdnpu", "/usr/lib/firmware/amdnpu",
                                        "/lib/firmware/updates/amdnpu"};
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        if (access(dirs[i], F_OK) == 0) {
            report(d, PASS, "firmware", "", "%s is there", dirs[i]);
            return;
        }
    }
    report(d, missing(d, WARN), "firmware",
           mend(d, "install linux-firmware (Debian: firmware-amd-graphics or "
                   "firmware-misc-nonfree) of the "
                   "driver's age; `sudo dmesg | grep amdxdna` tells what the driver wants"),
           "there is no amdnpu directory in /lib/firmware%s", unless_emulated(d));
}

void check_system(struct doctor * d) {
    check_driver(d);
    check_nodes(d);
    check_kfd(d);
    check_group(d);
    check_memlock(d);
    check_firmware(d);
}

// doctor-access: may this user open what the runtime opens, and how much memory may be locked? The
// device files are opened and closed again, nothing is sent to them.
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

static void group_name(gid_t gid, char text[32]) {
    const struct group * g = getgrgid(gid);
    if (g) {
        snprintf(text, 32, "%.31s", g->gr_name);
    } else {
        snprintf(text, 32, "%lu", (unsigned long) gid);
    }
}

// "mode 0660, group render" of a file; *right is the mend where that is what keeps users out.
static void describe(const char * path, const char * subsystem, char text[80], char right[400]) {
    struct stat info = {0};
    char group[32];
    if (stat(path, &info) != 0) {
        snprintf(text, 80, "its rights cannot be read");
        snprintf(right, 400, "look at the rights of the directories above it");
        return;
    }
    group_name(info.st_gid, group);
    snprintf(text, 80, "mode %04o, group %s", (unsigned) (info.st_mode & 07777), group);
    if ((info.st_mode & 060) == 060 && info.st_gid != 0) {
        snprintf(right, 400, "run `sudo usermod -aG %s $USER`, then log in again", group);
    } else { // udev of systemd 252 has no rule for accel and leaves the file to root; 257 has one
        snprintf(right, 400,
                 "no group may open it: put the line SUBSYSTEM==\"%s\", GROUP=\"render\", "
                 "MODE=\"0660\" into /etc/udev/rules.d/70-npu.rules, run `sudo usermod -aG render "
                 "$USER`, and reboot",
                 subsystem);
    }
}

// What the driver answers when it cannot bind the process's addresses to the device.
static bool wants_iommu(int e) {
    return e == EINVAL || e == ENODEV || e == EOPNOTSUPP || e == ENOSPC;
}

static void report_closed(struct doctor * d, const char * check, const char * name,
                          const char * rights, const char * right, int e) {
    bool forbidden = e == EACCES || e == EPERM;
    d->refused |= forbidden;
    report_need(d, FAIL, check,
                forbidden ? right
                : wants_iommu(e)
                    ? "enable the IOMMU (AMD-Vi) in the firmware setup and boot without "
                      "amd_iommu=off and iommu=pt; `sudo dmesg | grep amdxdna` says more"
                    : "`sudo dmesg | tail` may say why",
                "%s (%s) cannot be opened: %s", name, rights, strerror(e));
}

// ---- device files of NPUs ----

// False: the file belongs to the driver of something else.
static bool check_node(struct doctor * d, const char * entry) {
    const struct machine * m = &d->machine;
    char name[96], path[MACHINE_PATH], driver[32], product[64], id[32], firmware[32];
    snprintf(name, sizeof name, "/dev/accel/%.64s", entry);
    machine_path(m, path, "%s", name);
    machine_link(m, driver, sizeof driver, "/sys/class/accel/%.64s/device/driver", entry);
    if (*driver && strncmp(driver, "amdxdna", 7)) {
        return false;
    }
    machine_line(m, product, sizeof product, "/sys/class/accel/%.64s/device/vbnv", entry);
    machine_line(m, id, sizeof id, "/sys/class/accel/%.64s/device/device", entry);
    machine_line(m, firmware, sizeof firmware, "/sys/class/accel/%.64s/device/fw_version", entry);
    char rights[80], right[400];
    describe(path, "accel", rights, right);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        report_closed(d, "device node", name, rights, right, errno);
        return true;
    }
    close(fd);
    const char * arch = machine_arch((unsigned) strtoul(id, NULL, 16));
    if (*id && !arch) {
        report_need(d, WARN, "device node",
                    "no kernels are made for this device; GGML_HSA_EMULATE=aie2 brings an "
                    "emulated one",
                    "%s is device %s %s, not a known NPU", name, id, product);
        return true;
    }
    report(d, PASS, "device node", "", "%s (%s) can be opened%s%s%s%s%s%s", name, rights,
           *product ? ", " : "", product, arch ? ", " : "", arch ? arch : "",
           *firmware ? ", firmware " : "", firmware);
    return true;
}

static void check_nodes(struct doctor * d) {
    char path[MACHINE_PATH];
    machine_path(&d->machine, path, "/dev/accel");
    DIR * dir = opendir(path);
    int n = 0;
    for (struct dirent * e; dir && (e = readdir(dir));) {
        if (!strncmp(e->d_name, "accel", 5) && isdigit((unsigned char) e->d_name[5])) {
            n += check_node(d, e->d_name);
        }
    }
    if (dir) {
        closedir(dir);
    }
    if (n == 0) {
        report_need(d, FAIL, "device node",
                    "the driver makes it when it takes the device, see above; in a container pass "
                    "it: --device /dev/accel",
                    "there is no /dev/accel/accel*");
    }
}

static void check_kfd(struct doctor * d) {
    char path[MACHINE_PATH], rights[80], right[400];
    machine_path(&d->machine, path, "/dev/kfd");
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY), e = errno;
    describe(path, "kfd", rights, right);
    if (fd >= 0) {
        close(fd);
        report(d, PASS, "/dev/kfd", "", "it can be opened (%s)", rights);
    } else if (e == ENOENT) {
        report_need(d, FAIL, "/dev/kfd",
                    "load the amdgpu driver: the HSA runtime needs this file even for an NPU "
                    "alone; in a container pass --device /dev/kfd",
                    "it is not there");
    } else {
        report_closed(d, "/dev/kfd", "/dev/kfd", rights, right, e);
    }
}

// ---- rights and limits ----

static bool in_group(gid_t gid) {
    int n = getgroups(0, NULL);
    gid_t * groups = n > 0 ? malloc((size_t) n * sizeof *groups) : NULL;
    n = groups ? getgroups(n, groups) : 0;
    bool member = getegid() == gid;
    for (int i = 0; i < n; i++) {
        member |= groups[i] == gid;
    }
    free(groups);
    return member;
}

// Being in it is a means only: what counts is whether the files can be opened.
static void check_group(struct doctor * d) {
    const struct group * render = getgrnam("render");
    if (geteuid() == 0) {
        report(d, PASS, "render group", "", "not needed, this is root");
    } else if (!render) {
        report(d, PASS, "render group", "", "this system has no group of that name");
    } else if (in_group(render->gr_gid)) {
        report(d, PASS, "render group", "", "this user is in it");
    } else if (d->refused) {
        report_need(d, WARN, "render group",
                    "run `sudo usermod -aG render $USER`, then log in again",
                    "this user is not in it");
    } else {
        report(d, PASS, "render group", "", "this user is not in it, and nothing asked for it");
    }
}

// XRT locks every buffer that it maps, the device heap of 64 MiB first, and fails with EAGAIN. By
// its sources ROCr locks nothing, and the driver counts only buffers that it did not make itself.
static void check_memlock(struct doctor * d) {
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
    const char * text = size.data ? (char *) size.data : "?";
    if (limit.rlim_cur < heap) {
        report_need(d, WARN, "memlock limit",
                    "should memory run out in the NPU, put `* - memlock unlimited` into "
                    "/etc/security/limits.d/99-npu.conf and log in again, or run `ulimit -l "
                    "unlimited` before the program",
                    "%s; XRT locks 64 MiB and more, ROCr by its source nothing", text);
    } else {
        report(d, PASS, "memlock limit", "", "%s", text);
    }
    buf_free(&size);
}

void check_access(struct doctor * d) {
    check_nodes(d);
    check_kfd(d);
    check_group(d);
    check_memlock(d);
}

// doctor-system: the parts of the machine that an NPU needs before a program can open it: a kernel
// that has the driver, the device on its bus, the driver bound to it, firmware of the driver's age,
// an IOMMU. What each needs was read in the driver's source.
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_kernel(struct doctor * d) {
    const struct machine * m = &d->machine;
    if (*m->root) {
        report(d, WARN, "root", "leave --root out to look at this machine",
               "files of %s are looked at; runtime, limits and groups are this machine's", m->root);
    }
    report(d, PASS, "system", "", "%s, Linux %s%s%s", *m->system ? m->system : "unknown system",
           *m->release ? m->release : "of an unknown version", *m->processor ? ", " : "",
           m->processor);
}

static void check_bus(struct doctor * d) {
    const struct machine * m = &d->machine;
    for (int i = 0; i < m->n_npus; i++) {
        const struct machine_npu * npu = &m->npus[i];
        if (npu->arch) {
            report(d, PASS, "NPU on the bus", "", "%s is 1022:%04x revision %02x, %s (%s)",
                   npu->bus, npu->device, npu->revision, npu->family, npu->arch);
        } else {
            report_need(d, FAIL, "NPU on the bus",
                        "set GGML_HSA_EMULATE=aie2 for an emulated one; real runtimes may end the "
                        "process on this device",
                        "%s is 1022:%04x revision %02x, %s: no kernels are made for it", npu->bus,
                        npu->device, npu->revision, npu->family);
        }
    }
    if (m->n_npus == 0 && !m->bus) {
        report_need(d, WARN, "NPU on the bus", "in a container mount /sys",
                    "there is no /sys/bus/pci to look at");
    } else if (m->n_npus == 0 && machine_has(m, "/sys/class/accel/accel0/device/device")) {
        report(d, WARN, "NPU on the bus", "nothing, if the node works",
               "there is none, though there is a device node: a container, or a driver that is "
               "played");
    } else if (m->n_npus == 0) {
        report_need(d, FAIL, "NPU on the bus",
                    "enable the NPU (also called IPU or Ryzen AI) in the firmware setup, if this "
                    "processor has one; GGML_HSA_EMULATE=aie2 brings an emulated one",
                    "there is none");
    }
}

// The driver is in the kernel since 6.14. AMD's own builds from 6.10 on, which has what it needs of
// the IOMMU.
static const char * driver_mend(const struct machine * m) {
    if (machine_kernel_has(m, 6, 14) || !*m->release) {
        return "run `sudo modprobe amdxdna`; a kernel without that module was built without "
               "CONFIG_DRM_ACCEL_AMDXDNA";
    }
    if (machine_kernel_has(m, 6, 10)) {
        return "install Linux 6.14 or later, which has the driver, or AMD's xdna-driver package "
               "for this one";
    }
    return "install Linux 6.14 or later, which has the driver; AMD's xdna-driver package needs "
           "6.10";
}

static void check_driver(struct doctor * d) {
    const struct machine * m = &d->machine;
    if (!m->driver) {
        report_need(d, FAIL, "kernel driver", driver_mend(m), "amdxdna is not loaded");
        return;
    }
    for (int i = 0; i < m->n_npus; i++) {
        const struct machine_npu * npu = &m->npus[i];
        if (!*npu->driver) {
            report_need(d, FAIL, "kernel driver",
                        "`sudo dmesg | grep amdxdna` says why; most often firmware is missing or "
                        "of another age, see below; virtual machines are refused",
                        "amdxdna is loaded and did not take %s", npu->bus);
            return;
        }
        if (strncmp(npu->driver, "amdxdna", 7)) {
            report_need(d, FAIL, "kernel driver",
                        "unbind it from there, or do not reserve it for virtual machines",
                        "%s is held by %s, not by amdxdna", npu->bus, npu->driver);
            return;
        }
    }
    report(d, PASS, "kernel driver", "", "amdxdna%s%s is loaded, %s", *m->driver_version ? " " : "",
           m->driver_version, m->out_of_tree ? "built out of tree" : "the kernel's own");
}

// ---- firmware ----

static const char * const firmware_roots[] = {"/lib/firmware/updates", "/lib/firmware",
                                              "/usr/lib/firmware"};
// In the driver's order; drivers before Linux 7.0 ask for the last alone.
static const char * const firmware_files[] = {"npu.dev.sbin", "npu_7.sbin", "npu.sbin"};
static const char * const packings[] = {"", ".xz", ".zst"};
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

// The file that the driver would take, and its version where the link to it tells.
struct firmware {
    char path[160];
    int version[2]; // 0: not known
};

static bool find_firmware(const struct machine * m, const struct machine_npu * npu,
                          struct firmware * f) {
    char target[64];
    bool plain_only = !m->out_of_tree && !machine_kernel_has(m, 7, 0);
    *f = (struct firmware){0};
    for (size_t i = plain_only ? COUNT(firmware_files) - 1 : 0; i < COUNT(firmware_files); i++) {
        for (size_t k = 0; k < COUNT(firmware_roots) * COUNT(packings); k++) {
            snprintf(f->path, sizeof f->path, "%s/%s/%s%s", firmware_roots[k / COUNT(packings)],
                     npu->firmware_dir, firmware_files[i], packings[k % COUNT(packings)]);
            if (machine_has(m, "%s", f->path)) {
                machine_link(m, target, sizeof target, "%s", f->path);
                const char * version = strstr(target, ".sbin.");
                if (version) {
                    machine_version(version + strlen(".sbin."), f->version, 2);
                }
                return true;
            }
        }
    }
    return false;
}

// XDNA 2's firmware 1.1 speaks protocol 7, the kernel's own driver before 7.0 only 6.
static bool too_new(const struct machine * m, const struct machine_npu * npu,
                    const struct firmware * f) {
    return npu->device == 0x17f0 && !m->out_of_tree && !machine_kernel_has(m, 7, 0) &&
           (f->version[0] > 1 || (f->version[0] == 1 && f->version[1] >= 1));
}

static void check_firmware(struct doctor * d, const struct machine_npu * npu) {
    bool bound = *npu->driver != '\0';
    struct firmware f;
    if (*npu->firmware) {
        report(d, PASS, "firmware", "", "version %s runs on %s", npu->firmware, npu->bus);
    } else if (!find_firmware(&d->machine, npu, &f)) {
        report_need(
            d, bound ? WARN : FAIL, "firmware",
            "install linux-firmware (Debian: firmware-amd-graphics of non-free-firmware) and "
            "reboot",
            "there is no %s/npu.sbin in /lib/firmware", npu->firmware_dir);
    } else if (!bound && too_new(&d->machine, npu, &f)) {
        report_need(d, FAIL, "firmware",
                    "install Linux 7.0 or later, or a linux-firmware in which npu.sbin is 1.0 "
                    "again and the new one is called npu_7.sbin",
                    "%s is version %d.%d; Linux before 7.0 takes 1.0 only", f.path, f.version[0],
                    f.version[1]);
    } else {
        report(d, PASS, "firmware", "", "%s is there", f.path);
    }
}

// ---- IOMMU ----

// The driver gives the device the addresses of the process, which only an IOMMU can translate.
static void check_iommu(struct doctor * d, const struct machine_npu * npu) {
    if (!*npu->iommu) {
        report_need(d, WARN, "IOMMU",
                    "enable the IOMMU (AMD-Vi) in the firmware setup, and boot without "
                    "amd_iommu=off",
                    "%s is in no IOMMU group: the driver refuses to open it", npu->bus);
    } else if (!strcmp(npu->iommu, "identity") && !machine_kernel_has(&d->machine, 7, 1)) {
        report_need(d, WARN, "IOMMU", "boot without iommu=pt, or with Linux 7.1 or later",
                    "%s is passed through: drivers before Linux 7.1 want it translated", npu->bus);
    } else {
        report(d, PASS, "IOMMU", "", "%s is in a group, %s", npu->bus, npu->iommu);
    }
}

void check_system(struct doctor * d) {
    check_kernel(d);
    check_bus(d);
    check_driver(d);
    for (int i = 0; i < d->machine.n_npus; i++) {
        const struct machine_npu * npu = &d->machine.npus[i];
        if (npu->arch) {
            check_firmware(d, npu);
            check_iommu(d, npu);
        }
    }
}

// ggml-hsa doctor on machines that are not there: laptops with an NPU of each generation, and each
// thing that such a laptop can lack. The files have the layout that the kernel's sysfs has; what is
// in them is what the driver's source and reports of users say.
#include "doctor-rig.h"

#define BUS "0000:c4:00.1"
#define PCI "/sys/devices/pci0000:00/" BUS

// ---- laptops ----

struct laptop {
    const char *device, *revision, *product, *firmware; // as sysfs has them
    const char *kernel, *system, *processor;
};

static const struct laptop phoenix = {"0x1502",
                                      "0x00",
                                      "RyzenAI-npu1",
                                      "1.5.2.380",
                                      "6.14.0-15-generic",
                                      "Ubuntu 25.04",
                                      "AMD Ryzen 7 7840U w/ Radeon 780M Graphics"};
static const struct laptop strix = {"0x17f0",
                                    "0x10",
                                    "NPU Strix",
                                    "1.1.2.64",
                                    "7.2.12+deb13-amd64",
                                    "Debian GNU/Linux 13 (trixie)",
                                    "AMD Ryzen AI 9 HX 370 w/ Radeon 890M"};

static void put_device(const char * name, const struct laptop * l) {
    char text[256];
    snprintf(text, sizeof text, "NAME=\"x\"\nPRETTY_NAME=\"%s\"\n", l->system);
    put(name, "/etc/os-release", text);
    snprintf(text, sizeof text, "processor\t: 0\nmodel name\t: %s\nflags\t: fpu\n", l->processor);
    put(name, "/proc/cpuinfo", text);
    put(name, "/proc/sys/kernel/osrelease", l->kernel);
    put(name, PCI "/vendor", "0x1022\n");
    put(name, PCI "/device", l->device);
    put(name, PCI "/revision", l->revision);
    put_link(name, "/sys/bus/pci/devices/" BUS, "../../../devices/pci0000:00/" BUS);
    put(name, "/sys/bus/pci/devices/0000:00:00.0/vendor", "0x1022\n");
    put(name, "/sys/bus/pci/devices/0000:00:00.0/device", "0x14e8\n");
    put(name, "/sys/kernel/iommu_groups/12/type", "DMA-FQ\n");
    put_link(name, PCI "/iommu_group", "../../../kernel/iommu_groups/12");
    put(name, "/dev/kfd", "");
}

static void put_driver(const char * name, const char * driver) {
    char target[128];
    snprintf(target, sizeof target, "/sys/bus/pci/drivers/%s/bind", driver);
    put(name, target, "");
    snprintf(target, sizeof target, "../../../bus/pci/drivers/%s", driver);
    put_link(name, PCI "/driver", target);
}

// All that the driver makes when it takes the device.
static void put_bound(const char * name, const struct laptop * l) {
    put(name, "/sys/module/amdxdna/taint", "\n");
    put_driver(name, "amdxdna");
    put(name, PCI "/vbnv", l->product);
    put(name, PCI "/fw_version", l->firmware);
    put_link(name, PCI "/accel/accel0/device", "../../../" BUS);
    put_link(name, "/sys/class/accel/accel0", "../../devices/pci0000:00/" BUS "/accel/accel0");
    put(name, "/dev/accel/accel0", "");
}

// The arguments that look at it.
static const char * doctor(const char * name) {
    static char arguments[256];
    snprintf(arguments, sizeof arguments, "doctor --root '%s/%s'", home, name);
    return arguments;
}

// A runtime that has an NPU, so that the machine alone decides.
static const char good[] = "GGML_HSA_RUNTIME='" NEW_ROCR
                           "' GGML_HSA_SKIP_DRIVER_CHECK=1 LD_LIBRARY_PATH='" NEW_ROCR_DIR "'";

// ---- tests ----

static void whole_machines(void ** state) {
    (void) state;
    put_device("phoenix", &phoenix);
    put_bound("phoenix", &phoenix);
    EXPECT(good, doctor("phoenix"), 0,
           "WARN  root: ", "PASS  system: Ubuntu 25.04, Linux 6.14.0-15-generic, AMD Ryzen 7 7840U",
           "PASS  NPU on the bus: " BUS " is 1022:1502 revision 00, Phoenix or Hawk Point (aie2)",
           "PASS  kernel driver: amdxdna is loaded, the kernel's own",
           "PASS  firmware: version 1.5.2.380 runs on " BUS,
           "PASS  IOMMU: " BUS " is in a group, DMA-FQ",
           "PASS  device node: /dev/accel/accel0 (mode ",
           ") can be opened, RyzenAI-npu1, aie2, firmware 1.5.2.380", "PASS  /dev/kfd: ",
           "PASS  ROCr: " NEW_ROCR ", named by GGML_HSA_RUNTIME: build 1.18.0, ROCm 7",
           "PASS  HSA runtime: ", ", build 1.18.0-played, interface 1.18, AMD extension 1.15",
           "PASS  packet ABI: B, by what the runtime says", "PASS  NPU: HSA0: RyzenAI-npu1 (aie2)",
           " 0 failures", "!newer");

    put_device("strix", &strix);
    put_bound("strix", &strix);
    put("strix", "/sys/module/amdxdna/version", "2.23.0\n");
    put("strix", "/sys/module/amdxdna/taint", "OE\n");
    EXPECT(good, doctor("strix"), 0, "PASS  system: Debian GNU/Linux 13 (trixie), Linux 7.2.12",
           "is 1022:17f0 revision 10, Strix Point (aie2p)",
           "PASS  kernel driver: amdxdna 2.23.0 is loaded, built out of tree",
           "NPU Strix, aie2p, firmware 1.1.2.64", " 0 failures");
}

static void kernels_and_drivers(void ** state) {
    (void) state;
    static const struct {
        const char *kernel, *mend;
    } rows[] = {{"6.1.0-32-amd64", "xdna-driver package needs 6.10"},
                {"6.12.107+deb13-amd64", "or AMD's xdna-driver package for this one"},
                {"6.18.1", "run `sudo modprobe amdxdna`"},
                {"7.0", "run `sudo modprobe amdxdna`"}};
    put_device("bare", &phoenix);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put("bare", "/proc/sys/kernel/osrelease", rows[i].kernel);
        EXPECT(good, doctor("bare"), 1, "FAIL  kernel driver: amdxdna is not loaded", rows[i].mend,
               "FAIL  device node: there is no /dev/accel/accel*");
    }
    put("bare", "/sys/module/vfio_pci/taint", "");
    put("bare", "/sys/module/amdxdna/taint", "");
    put_driver("bare", "vfio-pci");
    EXPECT(good, doctor("bare"), 1, "FAIL  kernel driver: " BUS " is held by vfio-pci");
    // What an emulated NPU does not need is one line, and told in full in a report.
    EXPECT("GGML_HSA_EMULATE=aie2", doctor("bare"), 0,
           "an emulated NPU does without: kernel driver", " 0 failures");
    char report[300];
    snprintf(report, sizeof report, "%s --report", doctor("bare"));
    EXPECT("GGML_HSA_EMULATE=aie2", report, 0,
           "is held by vfio-pci, not by amdxdna; an emulated NPU does not need it", " 0 failures");

    put("none", "/sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086\n");
    put("none", "/sys/bus/pci/devices/0000:00:00.0/device", "0x1502\n"); // another maker's
    EXPECT(good, doctor("none"), 1, "FAIL  NPU on the bus: there is none",
           "unknown system, Linux of");
    EXPECT(good, doctor("nowhere"), 1, "WARN  NPU on the bus: there is no /sys/bus/pci");
    struct laptop next = strix;
    next.device = "0x17f1";
    put_device("next", &next);
    put_bound("next", &next);
    EXPECT(good, doctor("next"), 1, "FAIL  NPU on the bus: " BUS " is 1022:17f1",
           "newer than XDNA 2", "WARN  device node: /dev/accel/accel0 is device 0x17f1");
    // Accelerators of others are none of ours.
    put_device("intel", &phoenix);
    put_bound("intel", &phoenix);
    put("intel", "/dev/accel/accel1", "");
    put_link("intel", "/sys/class/accel/accel1/device/driver",
             "../../../bus/pci/drivers/intel_vpu");
    EXPECT(good, doctor("intel"), 0, "!accel1", "/dev/accel/accel0");
}

static void firmware(void ** state) {
    (void) state;
    put_device("cold", &phoenix);
    put("cold", "/sys/module/amdxdna/taint", "");
    EXPECT(good, doctor("cold"), 1, "FAIL  kernel driver: amdxdna is loaded and did not take " BUS,
           "FAIL  firmware: there is no amdnpu/1502_00/npu.sbin in /lib/firmware",
           "firmware-amd-graphics");
    put("cold", "/lib/firmware/amdnpu/1502_00/npu.sbin.zst", "x");
    EXPECT(good, doctor("cold"), 1, "PASS  firmware: /lib/firmware/amdnpu/1502_00/npu.sbin.zst is");

    struct laptop krackan = strix;
    krackan.revision = "0x20";
    put_device("krackan", &krackan);
    put("krackan", "/sys/module/amdxdna/taint", "");
    put("krackan", "/lib/firmware/amdnpu/17f0_10/npu_7.sbin", "x");
    EXPECT(good, doctor("krackan"), 1, "revision 20, Krackan Point (aie2p)",
           "PASS  firmware: /lib/firmware/amdnpu/17f0_10/npu_7.sbin is there");

    // What users met in spring 2026: a firmware that kernels before 7.0 refuse.
    put_device("ahead", &strix);
    put("ahead", "/sys/module/amdxdna/taint", "");
    put("ahead", "/proc/sys/kernel/osrelease", "6.19.6+deb14+1-amd64");
    put("ahead", "/usr/lib/firmware/amdnpu/17f0_10/npu.sbin.1.1.2.64", "x");
    put_link("ahead", "/usr/lib/firmware/amdnpu/17f0_10/npu.sbin", "npu.sbin.1.1.2.64");
    EXPECT(good, doctor("ahead"), 1,
           "FAIL  firmware: /usr/lib/firmware/amdnpu/17f0_10/npu.sbin is version 1.1; Linux before",
           "npu_7.sbin");
    put("ahead", "/usr/lib/firmware/amdnpu/17f0_10/npu.sbin.1.0.0.63", "x");
    put_link("ahead", "/usr/lib/firmware/amdnpu/17f0_10/npu.sbin", "npu.sbin.1.0.0.63");
    put_link("ahead", "/usr/lib/firmware/amdnpu/17f0_10/npu_7.sbin", "npu.sbin.1.1.2.64");
    EXPECT(good, doctor("ahead"), 1,
           "PASS  firmware: /usr/lib/firmware/amdnpu/17f0_10/npu.sbin is");
    put("ahead", "/proc/sys/kernel/osrelease", "7.0.1");
    EXPECT(good, doctor("ahead"), 1,
           "PASS  firmware: /usr/lib/firmware/amdnpu/17f0_10/npu_7.sbin is");
}

static void iommu(void ** state) {
    (void) state;
    put_device("pt", &phoenix);
    put_bound("pt", &phoenix);
    put("pt", "/sys/kernel/iommu_groups/12/type", "identity\n");
    EXPECT(good, doctor("pt"), 0, "WARN  IOMMU: " BUS " is passed through", "without iommu=pt");
    put("pt", "/proc/sys/kernel/osrelease", "7.1.2");
    EXPECT(good, doctor("pt"), 0, "PASS  IOMMU: " BUS " is in a group, identity");
    take_away("pt", PCI "/iommu_group");
    EXPECT(good, doctor("pt"), 0, "WARN  IOMMU: " BUS " is in no IOMMU group", "amd_iommu=off");
}

// Root may open everything, so that it has to become someone else first.
static void rights(void ** state) {
    (void) state;
    const char * other = geteuid() ? "" : "setpriv --reuid 65534 --regid 65534 --clear-groups";
    struct result r = run_as(other, "", "--version");
    bool able = r.status == 0;
    buf_free(&r.text);
    if (!able) {
        skip_test("no other user can run the tool here");
    }
    put_device("locked", &phoenix);
    put_bound("locked", &phoenix);
    put_rights("locked", "/dev/kfd", 0, 0);
    put_rights("locked", "/dev/accel/accel0", 0, 0);
    EXPECT_AS(other, good, doctor("locked"), 1,
              "FAIL  device node: /dev/accel/accel0 (mode 0000, group ",
              "cannot be opened: Permission",
              "no group may open it: put the line SUBSYSTEM==\"accel\", GROUP=\"render\"",
              "FAIL  /dev/kfd: ", "SUBSYSTEM==\"kfd\"", "!usermod -aG root");
    if (geteuid() == 0) {
        put_rights("locked", "/dev/accel/accel0", 0660, 54321);
        EXPECT_AS(other, good, doctor("locked"), 1, "(mode 0660, group 54321) cannot be opened",
                  "sudo usermod -aG 54321 $USER");
        put_rights("locked", "/dev/accel/accel0", 0660, 0);
        EXPECT_AS(other, good, doctor("locked"), 1, "no group may open it: put the line SUBSYSTEM",
                  "!usermod -aG root");
    }
}

static void low_memlock(void ** state) {
    (void) state;
    EXPECT_AS("ulimit -l 64;", good, doctor("phoenix"), 0, "WARN  memlock limit: 64 KiB; ",
              "ulimit -l unlimited");
}

static void no_memlock_limit(void ** state) {
    (void) state;
    struct result r = run_as("ulimit -l unlimited 2>/dev/null || exit 77;", "", "--version");
    bool able = r.status == 0;
    buf_free(&r.text);
    if (!able) {
        skip_test("this user may not raise the limit");
    }
    EXPECT_AS("ulimit -l unlimited;", good, doctor("phoenix"), 0, "PASS  memlock limit: unlimited");
}

// A distribution's runtime before AMD's own.
static void runtimes(void ** state) {
    (void) state;
    static const char old[] =
        "LD_LIBRARY_PATH='" OLD_ROCR_DIR "' GGML_HSA_SKIP_DRIVER_CHECK=1 DIE=init";
    static const char new[] = "LD_LIBRARY_PATH='" NEW_ROCR_DIR "' GGML_HSA_SKIP_DRIVER_CHECK=1";
    put_device("two", &phoenix);
    put_bound("two", &phoenix);
    put_link("two", "/opt/rocm-7.2.0/lib/libhsa-runtime64.so.1", NEW_ROCR);
    put_link("two", "/opt/rocm", "rocm-7.2.0");
    EXPECT(old, doctor("two"), 1,
           "FAIL  ROCr: " OLD_ROCR
           ", opened first: build 1.15.0, ROCm 6.4; it takes no NPU kernels",
           "WARN  ROCr: /opt/rocm/lib/libhsa-runtime64.so.1 is newer and not opened: build 1.18.0",
           "set GGML_HSA_RUNTIME=/opt/rocm/lib/libhsa-runtime64.so.1",
           "!/opt/rocm-7.2.0/"); // the same file
    EXPECT(new, doctor("two"), 0, "PASS  ROCr: " NEW_ROCR ", opened first: build 1.18.0", "!newer",
           "!/opt/rocm/lib");
    put_link("two", "/opt/rocm-6.4.1/lib/libhsa-runtime64.so.1", OLD_ROCR);
    EXPECT(
        new, doctor("two"), 0,
        "PASS  ROCr: /opt/rocm-6.4.1/lib/libhsa-runtime64.so.1 is there too and not opened: build "
        "1.15.0, ROCm 6.4",
        "!newer");
    // Without its bytes a build is known by the file's full name.
    put("two", "/opt/rocm-9/lib/libhsa-runtime64.so.1.23.90000", "x");
    put_link("two", "/opt/rocm-9/lib/libhsa-runtime64.so.1", "libhsa-runtime64.so.1.23.90000");
    EXPECT(new, doctor("two"), 0,
           "WARN  ROCr: /opt/rocm-9/lib/libhsa-runtime64.so.1 is newer and not opened: build 1.23.",
           "later than ROCm 7.2");
    // Who named one has chosen.
    EXPECT(good, doctor("two"), 0, "PASS  ROCr: " NEW_ROCR ", named by GGML_HSA_RUNTIME", "!newer");
    EXPECT("GGML_HSA_RUNTIME=/nonexistent.so", doctor("two"), 1,
           "FAIL  ROCr: GGML_HSA_RUNTIME=/nonexistent.so: there is no such library");
    EXPECT(new, doctor("phoenix"), 0, "!rocm-9");
}

// Where there is a GPU to compute on, an NPU is not all.
static void gpus(void ** state) {
    (void) state;
    char env[1024];
    snprintf(env, sizeof env, "%s PLAY=gpu", good);
    // The played GPU takes no code, so that the plugin leaves it out.
    EXPECT(env, doctor("none"), 1, "PASS  NPU on the bus: there is none; the GPU does without",
           "PASS  kernel driver: amdxdna is not loaded; the GPU does without",
           "PASS  GPU: a GPU (gfx1100), 4 GiB", "GPU compiler: ", "it has no kernels", " failure",
           "!packet ABI"); // one, or two without a compiler for it
    put("gpu", "/proc/sys/kernel/osrelease", "6.18.1");
    put_device("gpu", &phoenix);
    EXPECT(env, doctor("gpu"), 1, "PASS  NPU on the bus: " BUS,
           "WARN  kernel driver: amdxdna is not loaded", "WARN  NPU: the runtime lists none");
}

// ---- reports ----

static void reports(void ** state) {
    (void) state;
    char env[2048], host[256] = "", text[600];
    snprintf(env, sizeof env,
             "%s USER=alice LOGNAME=alice SUDO_USER=carol GGML_HSA_KERNEL_DIR='%s/pack:/home/bob/x:"
             "/media/alice/y:/srv/malice:/mnt/carol-old/carol' GGML_HSA_RECORD='%s'",
             good, home, home);
    snprintf(text, sizeof text, "%s --report", doctor("phoenix"));
    EXPECT(env, text, 0, "```\nggml-hsa 0.", " GGML_HSA_JIT_COMPILE=", "PASS  system: Ubuntu 25.04",
           "PASS  packet ABI: B", "\nusable: ",
           "GGML_HSA_KERNEL_DIR=~/pack:/home/USER/x:/media/USER/y:"
           "/srv/malice:/mnt/carol-old/USER\n",
           "GGML_HSA_RECORD=~\n", "files of ~/phoenix", "!bob", "!alice/", "! -> ",
           "!/tmp/test-doctor");
    struct result r = run(env, text);
    assert_int_equal(strncmp(text_of_result(&r), "```\n", 4), 0);
    assert_string_equal(text_of_result(&r) + r.text.size - 4, "```\n");
    buf_free(&r.text);
    // A host's name is hidden where it stands alone.
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    snprintf(env, sizeof env, "GGML_HSA_EMULATE=aie2 GGML_HSA_RECORD='/srv/%s/x%s'", host, host);
    snprintf(text, sizeof text, "\nGGML_HSA_RECORD=/srv/%s/x%s\n",
             strcmp(host, "localhost") ? "HOST" : host, host);
    EXPECT(env, "doctor --report", 0, text);
    EXPECT("GGML_HSA_RUNTIME=/nonexistent.so", "doctor --report", 1, "\nNOT usable: ");
}

// Text from a device, which a report or terminal must survive.
static void hostile_files(void ** state) {
    (void) state;
    struct laptop bad = phoenix;
    bad.product = "\033[31m\"`\\\nnext";
    bad.firmware = "%s%n";
    put_device("bad", &bad);
    put_bound("bad", &bad);
    EXPECT(good, doctor("bad"), 0, "?[31m\"`\\, aie2, firmware %s%n", "version %s%n runs on");
    char text[1024] = "doctor --root ";
    for (int i = 0; i < 60; i++) {
        strcat(text, "/123456789");
    }
    EXPECT(good, text, 1, "there is no /sys/bus/pci");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_machines),
        cmocka_unit_test(kernels_and_drivers),
        cmocka_unit_test(firmware),
        cmocka_unit_test(iommu),
        cmocka_unit_test(rights),
        cmocka_unit_test(low_memlock),
        cmocka_unit_test(no_memlock_limit),
        cmocka_unit_test(runtimes),
        cmocka_unit_test(gpus),
        cmocka_unit_test(reports),
        cmocka_unit_test(hostile_files),
    };
    if (!WITH_COMPILER) {
        print_message("without a kernel compiler no machine is usable\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, make_home, remove_home);
}

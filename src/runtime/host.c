// host: what the CPU agent says of the machine that we run on, and whether memory of the process is
// there.
#include "runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

// Arm's kernels print part numbers instead of a name; these are the ones that servers use.
static const struct {
    unsigned implementer, part;
    const char * name;
} arm_parts[] = {
    {0x41, 0xd03, "Arm Cortex-A53"},  {0x41, 0xd08, "Arm Cortex-A72"},
    {0x41, 0xd0b, "Arm Cortex-A76"},  {0x41, 0xd0c, "Arm Neoverse-N1"},
    {0x41, 0xd40, "Arm Neoverse-V1"}, {0x41, 0xd49, "Arm Neoverse-N2"},
    {0x41, 0xd4f, "Arm Neoverse-V2"}, {0xc0, 0xac3, "Ampere-1"},
};

// The text behind "key   : " in a line of /proc/cpuinfo, or NULL.
static const char * field(const char * line, const char * key) {
    size_t n = strlen(key);
    if (strncmp(line, key, n) != 0) {
        return NULL;
    }
    line += n;
    line += strspn(line, " \t");
    return *line == ':' ? line + 1 + strspn(line + 1, " \t") : NULL;
}

void rt_host_cpu_name(char name[64]) {
    name[0] = '\0';
    unsigned implementer = 0, part = 0;
    FILE * f = fopen("/proc/cpuinfo", "re");
    char line[1024];
    while (f && !name[0] && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        const char * text;
        if ((text = field(line, "model name"))) {
            snprintf(name, 64, "%.63s", text);
        } else if ((text = field(line, "CPU implementer"))) {
            implementer = (unsigned) strtoul(text, NULL, 0);
        } else if ((text = field(line, "CPU part"))) {
            part = (unsigned) strtoul(text, NULL, 0);
        }
    }
    if (f) {
        fclose(f);
    }
    for (size_t i = 0; !name[0] && i < sizeof arm_parts / sizeof arm_parts[0]; i++) {
        if (arm_parts[i].implementer == implementer && arm_parts[i].part == part) {
            snprintf(name, 64, "%s", arm_parts[i].name);
        }
    }
    if (!name[0]) {
        struct utsname host;
        snprintf(name, 64, "%.40s processor", uname(&host) == 0 ? host.machine : "unknown");
    }
}

uint64_t rt_host_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t) pages * (uint64_t) page : (uint64_t) 1 << 30;
}

uint32_t rt_host_clock_mhz(void) {
    unsigned long khz = 0;
    FILE * f = fopen("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "re");
    if (f) {
        if (fscanf(f, "%lu", &khz) != 1) {
            khz = 0;
        }
        fclose(f);
    }
    return (uint32_t) (khz / 1000);
}

// One byte of a page that may not be there. The kernel copies it, so that a fault is an error
// number.
static bool page_readable(uint64_t addr) {
    char byte;
    struct iovec to = {&byte, 1}, from = {(void *) (uintptr_t) addr, 1};
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1) {
        return true;
    }
    // Sandboxes may forbid that call; this one at least knows whether the page is mapped.
    uint64_t page = addr / RT_PAGE * RT_PAGE;
    return (errno == EPERM || errno == ENOSYS) &&
           msync((void *) (uintptr_t) page, RT_PAGE, MS_ASYNC) == 0;
}

// Pages in between are not read, for there may be many that nobody has needed yet.
bool rt_host_has(uint64_t addr, uint64_t size) {
    uint64_t first = addr / RT_PAGE * RT_PAGE, last = addr + size - 1;
    return page_readable(addr) && (last / RT_PAGE * RT_PAGE == first ||
                                   (page_readable(last) && msync((void *) (uintptr_t) first,
                                                                 last - first + 1, MS_ASYNC) == 0));
}

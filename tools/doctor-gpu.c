// doctor-gpu: can kernels be had for a GPU? A compiler that is there need not work, so it is made
// to compile one of ours; nothing of that stays. Without a compiler, what was kept from one may do.
#include "doctor.h"

#include "hip/hip-impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char first_module[] = "set_rows"; // the plugin tries the same

// How many of the library's modules are in the cache.
static int count_kept(const char * arch) {
    struct rocm_options options = {.arch = arch};
    struct rocm_kernels * k;
    int kept = 0;
    setenv("ROCM_KERNELS_CACHE_READ_ONLY", "1", 1); // looking changes nothing
    if (rocm_kernels_open(&options, &k, NULL) != ROCM_OK) {
        return 0;
    }
    for (int i = 0; i < rocm_modules_count(); i++) {
        const char * name = rocm_modules_name(i);
        const struct rocm_code * code;
        kept +=
            rocm_kernels_get_or_compile(k, name, rocm_modules_source(name), &code, NULL) == ROCM_OK;
    }
    rocm_kernels_close(k);
    return kept;
}

static void report_none(struct doctor * d, enum verdict bad, const char * arch,
                        const struct error * why) {
    int kept = count_kept(arch), all = rocm_modules_count();
    if (kept == all) {
        report(d, PASS, "GPU compiler", "", "none, but all kernels for %s are kept", arch);
    } else if (kept) {
        report(d, WARN, "GPU compiler",
               "install hipcc, or clang-19 and lld-19; until then the CPU computes the rest",
               "%s; %d of %d modules for %s are kept", why->text, kept, all, arch);
    } else {
        report(d, bad, "GPU compiler",
               "install hipcc, or clang-19 and lld-19; until then this GPU is not offered", "%s",
               why->text);
    }
}

void check_gpu_compiler(struct doctor * d, const char * arch) {
    const char * choice = getenv("ROCM_KERNELS_COMPILER");
    // A GPU is not missed where there is an NPU to compute on.
    enum verdict bad = probe_has(&d->runtime, HSAC_NPU) ? WARN : FAIL;
    struct hip_toolchain toolchain = {.root = -1};
    struct hip_compilers compilers = {0};
    struct error err = {0};
    if (hip_toolchain_find(&toolchain, choice && *choice ? choice : NULL, &err) == ST_OK) {
        hip_toolchain_compilers(&toolchain, arch, &compilers);
        err = compilers.why;
    }
    if (!compilers.n) {
        report_none(d, bad, arch, &err);
        hip_toolchain_free(&toolchain);
        return;
    }
    struct hip_job job = {arch, first_module, rocm_modules_source(first_module)};
    const struct hip_compiler * by;
    struct buf log = {0};
    uint8_t * code = NULL;
    size_t size;
    uint64_t runs = 0;
    if (hip_compile(&compilers, &job, &by, &code, &size, &log, &runs, &err) == ST_OK) {
        report(d, PASS, "GPU compiler", "", "%s makes kernels for %s", by->path, arch);
    } else {
        struct rocm_error full = {0};
        hip_fail(&err, &log, &full);
        for (char * p = full.text; *p; p++) { // the compiler's own words have lines
            *p = *p == '\n' ? ' ' : *p;
        }
        report(d, bad, "GPU compiler",
               "mend what it says, or install clang-19 and lld-19; until then this GPU is not "
               "offered",
               "%.900s", full.text);
    }
    free(code);
    buf_free(&log);
    hip_compilers_free(&compilers);
    hip_toolchain_free(&toolchain);
}

// runtimes: which packets a runtime takes, and what it is known to do wrong. No runtime says so; it
// says two versions of itself, and this table holds what is known of them.
//
// The build version is that of the library (1.15 in ROCm 6.4, 1.18 in 7.0 to 7.2); the version of
// AMD's extensions grows with each addition to hsa_ext_amd.h. HSA_SYSTEM_INFO_VERSION is of no use:
// a build without rocprofiler-register, such as Debian's, answers 1.1 whatever it is.
//
// Kept true: packets are sent only to a runtime that has a row here, or when GGML_HSA_AIE_ABI says
// which. A runtime that is sent the wrong ones ends the process.
#include "hsac-impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    INFO_BUILD_VERSION = 0x200, // const char *; quotes included in some builds
    INFO_EXT_VERSION_MAJOR = 0x207,
    INFO_EXT_VERSION_MINOR = 0x208,
    ANY = 0xffff,
};

struct row {
    uint16_t build[2], ext[2]; // minor versions, from and to
    struct hsac_runtime runtime;
};

// The first row that fits. Public sources: extension 1.15 is ROCm 7.2; 1.16 to 1.18 came up to
// March 2026, when packets got a completion signal (C, which takes B as well); the dispatch packet
// (D) came between 1.18 and 1.26, so what 1.19 to 1.25 take is not known. Waits have had no limit
// since March or April 2026. Up to April 2026 ROCr waits with a call that the driver in Linux
// lacks, up to August it makes a context of one tile, which that driver refuses; 1.33 came in
// September, when it asked for the whole array.
static const struct row rows[] = {
    {{0, 15}, {0, ANY}, {.name = "ROCr 6.4 or older", .abi = 'A', .waits_briefly = true}},
    {{16, 18},
     {0, 15},
     {.name = "ROCr 7.0 to 7.2",
      .abi = 'B',
      .never_wraps = true,
      .stale_lists = true,
      .wants_guard = true,
      .leaves_mappings = true,
      .waits_briefly = true,
      .wants_legacy = true}},
    {{18, ANY},
     {16, 18},
     {.name = "ROCr between 7.2 and March 2026",
      .abi = 'B',
      .also = 'C',
      .never_wraps = true,
      .stale_lists = true,
      .wants_guard = true,
      .waits_briefly = true,
      .wants_legacy = true}},
    {{18, ANY},
     {19, 25},
     {.name = "ROCr of April or May 2026",
      .never_wraps = true,
      .stale_lists = true,
      .wants_guard = true,
      .wants_legacy = true}},
    {{18, ANY},
     {26, 32},
     {.name = "ROCr of June to August 2026", .abi = 'D', .wants_legacy = true}},
    {{18, ANY}, {33, ANY}, {.name = "ROCr of September 2026 or newer", .abi = 'D'}},
};

// Ours takes all of them, unless it plays ROCr 7.2 and calls itself so.
static const struct hsac_runtime ours = {.name = "emulated runtime", .abi = 'D'};
static const struct hsac_runtime native = {.name = "ggml-hsa's own runtime", .abi = 'D'};
enum { OURS_FROM = 19 };

static const struct hsac_runtime unknown = {.name = "unknown ROCr",
                                            .never_wraps = true,
                                            .stale_lists = true,
                                            .wants_guard = true,
                                            .waits_briefly = true};

// "1.18.0-…", perhaps in quotes.
static bool parse_version(const char * text, uint16_t * major, uint16_t * minor) {
    unsigned a, b;
    if (!text || sscanf(text + (*text == '"'), "%5u.%5u", &a, &b) != 2 || a > ANY || b >= ANY) {
        return false;
    }
    *major = (uint16_t) a;
    *minor = (uint16_t) b;
    return true;
}

static bool ask(const struct hsac * h, int what, void * answer) {
    return h->api.hsa_system_get_info((hsa_system_info_t) what, answer) == HSA_STATUS_SUCCESS;
}

static bool fits(const uint16_t range[2], uint16_t version) {
    return range[0] <= version && version <= range[1];
}

const struct hsac_runtime * hsac_runtime_find(const struct hsac * h, char * says, size_t size) {
    const char * build = NULL;
    uint16_t build_major = 0, build_minor = 0, ext_major = 0, ext_minor = 0;
    bool built =
        ask(h, INFO_BUILD_VERSION, &build) && parse_version(build, &build_major, &build_minor);
    bool extended =
        ask(h, INFO_EXT_VERSION_MAJOR, &ext_major) && ask(h, INFO_EXT_VERSION_MINOR, &ext_minor);
    if (!built) { // a question that ROCr 5 does not know
        snprintf(says, size, "no build version");
        return &rows[0].runtime;
    }
    snprintf(says, size, "build %.60s, extensions %u.%u", build, ext_major, ext_minor);
    if (build_major != 1 || (extended && ext_major != 1)) {
        return &unknown;
    }
    if (h->ours && build_minor >= OURS_FROM) {
        return h->emulated ? &ours : &native;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (fits(rows[i].build, build_minor) && fits(rows[i].ext, ext_minor)) {
            return &rows[i].runtime;
        }
    }
    return &unknown;
}

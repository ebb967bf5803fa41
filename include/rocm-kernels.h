/* rocm-kernels: HIP kernels, compiled for the GPU at hand the first time they are needed, and kept.
 *
 *   struct rocm_kernels * k;
 *   struct rocm_error err;
 *   const struct rocm_code * code;
 *   if (rocm_kernels_open(NULL, &k, &err) ||
 *       rocm_kernels_get_or_compile(k, "add", text, &code, &err))
 *       puts(err.text);
 *   else
 *       hipModuleLoadData(&module, code->data);
 *
 * Code objects lie at <cache>/hanzo-ml-rocm/{arch}-{version}/{name}_{hash}.cso, where <cache> is
 * $XDG_CACHE_HOME or ~/.cache and hash the first 16 digits of the SHA-256 of the source. They are
 * raw ELF files, for hipModuleLoadData and for HSA. A .meta file beside each records the compiler,
 * its flags and a checksum: what does not match is compiled again.
 *
 *   CANDLE_ROCM_ARCH             gfx90a, gfx1100 ...; also ROCM_GFX_ARCH. Else the first GPU of the
 *                                HSA runtime, else the first that `rocminfo` tells
 *   CANDLE_ROCM_VERSION          5.2, 6.4 ...; else that of `hipcc --version`, else clang's, 19
 *   CANDLE_ROCM_CACHE_DIR        the directory in place of <cache>/hanzo-ml-rocm
 *   CANDLE_ROCM_FORCE_RECOMPILE  1: what is kept is not read (it is still written)
 *   ROCM_KERNELS_CACHE_MAX_SIZE  1G if not set; 0: nothing is kept
 *   ROCM_KERNELS_CACHE_READ_ONLY 1: what is kept is used, and nothing is written
 *   ROCM_KERNELS_COMPILER        hipcc, clang, or the path of one of them
 *
 * All functions are thread safe. Strings are UTF-8 and end in a zero byte. err may be NULL; a NULL
 * where something else is needed is ROCM_INVALID, or the answer that there is no such thing. */
#ifndef ROCM_KERNELS_H
#define ROCM_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#    define ROCM_API __attribute__((visibility("default")))
#else
#    define ROCM_API
#endif

enum rocm_status {
    ROCM_OK = 0,
    ROCM_INVALID,     /* a name, source or variable is not as it must be */
    ROCM_UNSUPPORTED, /* no compiler at hand knows the architecture */
    ROCM_NOT_FOUND,   /* no GPU, no compiler, no such kernel */
    ROCM_NO_MEMORY,
    ROCM_IO,      /* the operating system refused */
    ROCM_CORRUPT, /* a compiler gave bytes that are no code object */
    ROCM_DEVICE,  /* the HSA runtime reported an error */
    ROCM_BUSY,
};

struct rocm_error {
    enum rocm_status status;
    char text[4000]; /* what failed, why, and the mend; with what a compiler said */
};

/* ---- the manager ---- */

struct rocm_kernels;

struct rocm_options {      /* all zero is the default */
    const char * arch;     /* NULL: as told above */
    const char * version;  /* NULL: as told above */
    const char * compiler; /* NULL: hipcc where it knows the architecture, else clang++ */

    /* Called for what is worth knowing but no error, e.g. a home that cannot be written; once for
     * each reason. NULL: nobody wants to know. */
    void (*warn)(void * user, const char * text);
    /* The functions of a HSA runtime, on which hsa_init was called, by their names: dlsym, mostly.
     * NULL: architectures are not asked from HSA, and no modules can be loaded. */
    void * (*hsa_symbol)(void * user, const char * name);
    void * user;
};

/* Neither looks for devices nor runs programs: that is done when it is needed. The strings of
 * options are copied. */
ROCM_API enum rocm_status rocm_kernels_open(const struct rocm_options * options,
                                            struct rocm_kernels ** out, struct rocm_error * err);
/* Modules must be released before. NULL is allowed. */
ROCM_API void rocm_kernels_close(struct rocm_kernels * k);

/* The architecture and version that are used; NULL and err when they cannot be found. */
ROCM_API const char * rocm_kernels_arch(struct rocm_kernels * k, struct rocm_error * err);
ROCM_API const char * rocm_kernels_version(struct rocm_kernels * k, struct rocm_error * err);
/* Where code objects are kept; NULL: nowhere, they live in memory. */
ROCM_API const char * rocm_kernels_directory(struct rocm_kernels * k);

struct rocm_code { /* lives until rocm_kernels_close */
    const void * data;
    size_t size;
    const char * path; /* of the .cso; NULL: it could not be kept */
    bool compiled;     /* by this manager, just now */
};

/* name is [A-Za-z0-9][A-Za-z0-9_-]*, at most 64 bytes. Of many threads and processes that want one
 * code object at once, one compiles it. */
ROCM_API enum rocm_status rocm_kernels_get_or_compile(struct rocm_kernels * k, const char * name,
                                                      const char * source,
                                                      const struct rocm_code ** out,
                                                      struct rocm_error * err);
/* For another architecture than the manager's own. */
ROCM_API enum rocm_status rocm_kernels_get_or_compile_for(struct rocm_kernels * k,
                                                          const char * arch, const char * name,
                                                          const char * source,
                                                          const struct rocm_code ** out,
                                                          struct rocm_error * err);

struct rocm_counters {
    uint64_t memory_hits, disk_hits;
    uint64_t compiles;   /* programs that were run to compile */
    uint64_t other_runs; /* programs that were run for other ends: rocminfo, --version */
    uint64_t damaged;    /* kept files that did not match their description */
};
ROCM_API void rocm_kernels_counters(struct rocm_kernels * k, struct rocm_counters * out);

/* ---- the kernels that come with the library ---- */

/* Whole families by name, for rocm_modules_source(); the rest by the names of their modules. */
#define ROCM_SOURCE_UNARY      "unary"
#define ROCM_SOURCE_BINARY     "binary"
#define ROCM_SOURCE_COMPARE    "compare"
#define ROCM_SOURCE_TERNARY    "ternary"
#define ROCM_SOURCE_CAST       "cast"
#define ROCM_SOURCE_FILL       "fill"
#define ROCM_SOURCE_AFFINE     "affine"
#define ROCM_SOURCE_REDUCE     "reduce"
#define ROCM_SOURCE_INDEXING   "indexing"
#define ROCM_SOURCE_SOFTMAX    "softmax"
#define ROCM_SOURCE_RMS_NORM   "rms_norm"
#define ROCM_SOURCE_LAYER_NORM "layer_norm"
#define ROCM_SOURCE_ROPE       "rope"

/* They are sorted into modules: unary_f32, matmul_f32 ... Sources may be given to
 * rocm_kernels_get_or_compile; they need no header and no library. What arguments a kernel takes is
 * told in rocm-kernels-args.h. */
ROCM_API int rocm_modules_count(void);
ROCM_API const char * rocm_modules_name(int i); /* NULL: i is out of range */
ROCM_API const char *
rocm_modules_source(const char * name); /* NULL: no such module, or no memory */
/* The module that a kernel is in, e.g. unary_f32 for unary_exp_f32; NULL: no such kernel. */
ROCM_API const char * rocm_modules_find(const char * kernel);
/* Calls visit with each kernel's name, in order, until it returns false. */
ROCM_API void rocm_modules_kernels(const char * module,
                                   bool (*visit)(void * user, const char * kernel), void * user);

/* ---- kernels on a device ---- */

struct rocm_module;

/* agent is hsa_agent_t.handle. Compiles for the agent's architecture and loads, once for each agent
 * and source: who asks again gets the same module. source NULL: the library's own of that name. */
ROCM_API enum rocm_status rocm_module_load(struct rocm_kernels * k, uint64_t agent,
                                           const char * name, const char * source,
                                           struct rocm_module ** out, struct rocm_error * err);
/* As often as it was loaded; the last one unloads it. NULL is allowed. */
ROCM_API void rocm_module_release(struct rocm_module * m);

struct rocm_function {
    uint64_t object; /* for hsa_kernel_dispatch_packet_t.kernel_object */
    uint32_t kernarg_bytes, group_bytes, private_bytes;
};

/* Looked up once, then remembered. *out lives as long as the module. */
ROCM_API enum rocm_status rocm_module_function(struct rocm_module * m, const char * kernel,
                                               const struct rocm_function ** out,
                                               struct rocm_error * err);

#ifdef __cplusplus
}
#endif
#endif

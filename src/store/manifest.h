// manifest: what a pack holds. <dir>/<arch>/manifest.json maps the canonical name of each kernel to
// the files that hold it, with their sizes and SHA-256:
//
//   {"format": "ggml-hsa-pack", "version": 1, "arch": "aie2", "kernels": {
//    "<canonical name>": {"exported_name": "<files>", "pdi_size": 1, "pdi_sha256": "<hex>",
//                         "insts_size": 1, "insts_sha256": "<hex>"}},
//    "programs": {
//    "<name>": {"compiler": "<identity>", "pdi_size": 1, "pdi_sha256": "<hex>"}}}
//
// A program is a PDI by its compiler's name for it, programs/<name>.pdi: who has the same
// compiler's maker of instruction streams drives it for shapes that are not among the kernels. It
// is checked as a whole when it is read: names are safe file names, no kernel is there twice.
#pragma once

#include "base/sha256.h"
#include "kernel/config.h"

#define MANIFEST_FILE         "manifest.json"
#define MANIFEST_VERSION      1
#define MANIFEST_PROGRAMS     "programs" // the directory that they lie in
#define MANIFEST_COMPILER_MAX 513        // with its end

struct manifest_file {
    uint64_t size;
    uint8_t sha256[SHA256_BYTES];
};

struct manifest_entry {
    char kernel[KERNEL_NAME_MAX];
    char exported_name[EXPORTED_NAME_MAX];
    struct manifest_file pdi, insts;
};

struct manifest_program {
    char name[KERNEL_NAME_MAX];
    char compiler[MANIFEST_COMPILER_MAX]; // the identity of what made it
    struct manifest_file pdi;
};

struct manifest {                    // zero-initialised is empty and valid
    struct manifest_entry * entries; // by kernel, in order
    size_t n_entries;
    struct manifest_program * programs; // by name, in order
    size_t n_programs;
};

// ST_NOT_FOUND without a file; ST_INVALID when it is no manifest, or one of another architecture or
// a later version. Errors begin with the path.
enum status manifest_read(const char * path, enum aie_arch arch, struct manifest * out,
                          struct error * err);
enum status manifest_parse(const char * text, size_t size, enum aie_arch arch,
                           struct manifest * out, struct error * err);
void manifest_free(struct manifest * m);

const struct manifest_entry * manifest_find(const struct manifest * m, const char * kernel);
const struct manifest_program * manifest_find_program(const struct manifest * m, const char * name);

// Adds the entries, in any order; no two have the same files, and of equal kernels the one with the
// first exported_name counts. They take the place of those that have the same kernel or whose files
// they overwrote. On failure (memory) m is unchanged.
enum status manifest_merge(struct manifest * m, const struct manifest_entry * entries, size_t n,
                           struct error * err);
// Takes the place of one of the same name. On failure (memory) m is unchanged.
enum status manifest_put_program(struct manifest * m, const struct manifest_program * program,
                                 struct error * err);
// ST_UNSUPPORTED: it would be too large to be read again, and nothing is printed.
enum status manifest_print(const struct manifest * m, enum aie_arch arch, struct buf * b,
                           struct error * err);

// The bytes against what the manifest says of them; `what` names the file in the error.
enum status manifest_check(const struct manifest_file * file, const void * data, size_t size,
                           const char * what, struct error * err);

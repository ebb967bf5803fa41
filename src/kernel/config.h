// config: kernels as configuration files name them. An entry is a JSON object
//
//   {"kernel_name": "ggml_op_add", "kernel_source": "binary_ops.py", "arch": "aie2",
//    "input_tensors": ["(64,1,1,1)/f32", "(64,1,1,1)/f32"], "output_tensor": "(64,1,1,1)/f32",
//    "exported_name": "add_f32_64", "op_params": [0.5]}
//
// and a configuration is {"kernels": [entry, ...]}. op_params is there where the op has parameters:
// each an integer (the 32-bit word itself) or a real number (a float, by its bits). "precision" may
// be "fast" or "exact"; without it, fast.
#pragma once

#include "base/json.h"
#include "kernel.h"

// A file name that leaves room for the suffixes of a kernel's files everywhere.
#define EXPORTED_NAME_MAX 200 // with its end

struct kernel_config {
    struct kernel_spec spec;
    char exported_name[EXPORTED_NAME_MAX];
};

// Letters, digits and "_-.+=,@" (no '.' first), from 1 to EXPORTED_NAME_MAX - 1 of them: a name in
// this directory on every system, and no other place.
bool exported_name_valid(const char * name);

// Reads one entry. default_arch (may be NULL) stands in where the entry names none. Nothing is
// asked of any compiler: the kernel may still be one that nobody can make.
enum status kernel_config_parse(json_t * entry, const char * default_arch,
                                struct kernel_config * out, struct error * err);

// The exported_name of an entry for messages, or "" when it has none that could be shown.
const char * kernel_config_label(const json_t * entry);

// One entry on one line; parsing it gives the spec back. exported_name must be valid.
void kernel_config_print(const struct kernel_spec * spec, const char * exported_name,
                         struct buf * b);

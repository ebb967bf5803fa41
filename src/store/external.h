// external: a kernel compiler that is another program, for users with an IRON environment.
//
//   GGML_HSA_JIT_COMMAND   the program and its first arguments, split at spaces; there is no
//   quoting and
//                          no shell, so that neither may contain a space
//   GGML_HSA_JIT_TIMEOUT   seconds that one kernel may take, 600 if not set
//   GGML_HSA_JIT_VERBOSE   1: ask it to say more, and show what it says
//
// It is called like the build.py of upstream's ggml-hsa: --op_name ADD --arch aie2 --input_tensors
// T...
// --output_tensor T --exported_name N --output_directory D [--verbose], and for ops that have
// parameters also --op_params with their words in hexadecimal: a program that does not know the
// option refuses, where it would otherwise make a kernel for other parameters. It has to leave
// D/N.pdi and D/N_insts.bin.
#pragma once

#include "kernel/kernel.h"

// True when a command is set and its program is there. Cheap: a few calls to stat.
bool external_available(void);

// True when it is available and the kernel can be written down for it: it takes packed tensors
// alone.
bool external_supports(const struct kernel_spec * spec);

// Runs the command in a directory of its own, checks both files and reads them; nothing stays on
// disk. The caller owns *out (kernel_code_free). Thread safe.
enum status external_compile(const struct kernel_spec * spec, struct kernel_code * out,
                             struct error * err);

// One line for the key of a cache (store_compiler.identity): a hash of the command and of the files
// that it names, the program and e.g. a script. What those load in their turn is not in it. False
// when no command is set.
#define EXTERNAL_IDENTITY_MAX 80
bool external_identity(char out[EXTERNAL_IDENTITY_MAX]);

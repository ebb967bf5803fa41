// packs: read-only directories of kernels made ahead of time, <dir>/<arch>/<files>.pdi and
// <files>_insts.bin beside it. Which files hold a kernel is told, in this order, by
//
//   <dir>/<arch>/manifest.json   whatever the files are called (store/manifest.h)
//   the kernel's canonical name  <name>.pdi
//   upstream's name              "add-1024f32-1024f32-1024f32": packs that upstream's ggml-hsa made
#pragma once

#include "kernel/kernel.h"

struct pack;

struct packs {
    struct pack * list;
    int n_packs;
};

// Splits a colon list (NULL: none); empty parts are skipped. Nothing is read before a kernel is
// asked for; each manifest is read once, by the first who asks for its architecture.
enum status packs_open(const char * list, struct packs * out, struct error * err);
void packs_close(struct packs * p);

// True when a pack holds files for it; they may still turn out to be broken. Thread safe, like
// packs_load.
bool packs_have(const struct packs * p, const struct kernel_spec * spec);

// Reads and checks the kernel from the first pack that has it whole. ST_NOT_FOUND when none has it;
// another status when one has it but broken, or has a broken manifest. The caller owns *out.
enum status packs_load(const struct packs * p, const struct kernel_spec * spec,
                       struct kernel_code * out, struct error * err);

// The PDI of the spec's program by its name, from the first pack that has it whole and by that very
// compiler: the instruction streams of another one need not fit. As packs_load; the caller owns
// *data.
enum status packs_load_program(const struct packs * p, const struct kernel_spec * spec,
                               const char * name, const char * compiler, uint8_t ** data,
                               size_t * size, struct error * err);

// What is wrong with directory i as a whole, for a warning: it is not there, or holds no kernels
// for the architecture. True when there is something to say.
bool packs_complain(const struct packs * p, int i, enum aie_arch arch, struct error * out);

// What upstream's ggml-hsa calls the kernel, of at most KERNEL_NAME_MAX characters. False where it
// has no name that tells this kernel from all others: strides and op parameters are not told apart
// by it. `flat`: as it names elementwise kernels of one shape, which it makes for one dimension.
bool packs_upstream_name(const struct kernel_spec * spec, bool flat, char name[KERNEL_NAME_MAX]);

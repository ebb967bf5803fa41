// packs: read-only directories of kernels made ahead of time, <dir>/<arch>/<name>.pdi and
// <name>_insts.bin beside it.
#pragma once

#include "kernel/kernel.h"

struct packs {
    char ** dirs;
    int n_dirs;
};

// Splits a colon list (NULL: none); empty parts are skipped.
enum status packs_open(const char * list, struct packs * out, struct error * err);
void packs_close(struct packs * p);

// True when a pack holds files of that name; they may still turn out to be broken.
bool packs_have(const struct packs * p, const struct kernel_spec * spec);

// Reads and checks the kernel from the first pack that has it whole. ST_NOT_FOUND when none has it;
// another status when one has it but broken. The caller owns *out.
enum status packs_load(const struct packs * p, const struct kernel_spec * spec,
                       struct kernel_code * out, struct error * err);

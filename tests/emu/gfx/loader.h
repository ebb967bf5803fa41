// loader: compiles kernels and loads them, for tests and benches. It knows only what the corpus
// needs: load segments into one piece of memory and find "<kernel>.kd" among the symbols.
#pragma once

#include "base/process.h"
#include "emu/gfx/gfx.h"
#include "skip.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RIG_COMPILER "clang++-19"

struct image {
    uint8_t * memory; // of the loaded segments
    size_t size;
    uint8_t * file;
    size_t file_size;
};

// As the packet processor sees it; kernels read the sizes of groups from it.
struct aql {
    uint16_t header, setup, group[3], reserved;
    uint32_t grid[3], private_bytes, group_bytes;
    uint64_t kernel, kernarg, reserved2, signal;
};

static inline bool rig_have_compiler(void) {
    char * path = process_find(RIG_COMPILER);
    bool have = path && clang_has_linker(path);
    free(path);
    return have;
}

static inline bool rig_compile(const char * arch, const char * source, const char * out) {
    char flag[64];
    snprintf(flag, sizeof flag, "--offload-arch=%s", arch);
    char * argv[] = {RIG_COMPILER,
                     "-x",
                     "hip",
                     "--cuda-device-only",
                     "--no-gpu-bundle-output",
                     flag,
                     "-nogpulib",
                     "-nogpuinc",
                     "-O3",
                     "-mcode-object-version=4",
                     "-munsafe-fp-atomics",
                     "-ffp-contract=off",
                     "-o",
                     (char *) out,
                     (char *) source,
                     NULL};
    struct process p = {.argv = argv, .time_limit_s = 300, .capture = true, .keep = 4000};
    struct process_end end;
    struct error err;
    if (process_run(&p, &end, &err) != ST_OK) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    bool good = end.known && !end.signal && end.exit_status == 0;
    if (!good) {
        fprintf(stderr, "%s\n", end.output.data ? (char *) end.output.data : "");
    }
    buf_free(&end.output);
    return good;
}

static inline bool image_load(struct image * m, const char * path) {
    struct error err;
    memset(m, 0, sizeof *m);
    if (file_read(path, 64 << 20, &m->file, &m->file_size, &err) != ST_OK) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    const Elf64_Ehdr * h = (const void *) m->file;
    if (m->file_size < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG)) {
        return false;
    }
    const Elf64_Phdr * ph = (const void *) (m->file + h->e_phoff);
    for (int i = 0; i < h->e_phnum; i++) {
        if (ph[i].p_type == PT_LOAD && ph[i].p_vaddr + ph[i].p_memsz > m->size) {
            m->size = ph[i].p_vaddr + ph[i].p_memsz;
        }
    }
    m->size = (m->size + 4095) & ~(size_t) 4095;
    m->memory = aligned_alloc(4096, m->size);
    if (!m->memory) {
        return false;
    }
    memset(m->memory, 0, m->size);
    for (int i = 0; i < h->e_phnum; i++) {
        if (ph[i].p_type == PT_LOAD) {
            memcpy(m->memory + ph[i].p_vaddr, m->file + ph[i].p_offset, ph[i].p_filesz);
        }
    }
    return true;
}

static inline void image_free(struct image * m) {
    free(m->memory);
    free(m->file);
    memset(m, 0, sizeof *m);
}

// Address of a symbol, 0 when there is none.
static inline uint64_t image_symbol(const struct image * m, const char * name) {
    const Elf64_Ehdr * h = (const void *) m->file;
    const Elf64_Shdr * sh = (const void *) (m->file + h->e_shoff);
    for (int i = 0; i < h->e_shnum; i++) {
        if (sh[i].sh_type != SHT_DYNSYM) {
            continue;
        }
        const char * strings = (const char *) m->file + sh[sh[i].sh_link].sh_offset;
        const Elf64_Sym * s = (const void *) (m->file + sh[i].sh_offset);
        for (size_t k = 0; k < sh[i].sh_size / sizeof *s; k++) {
            if (!strcmp(strings + s[k].st_name, name)) {
                return (uintptr_t) m->memory + s[k].st_value;
            }
        }
    }
    return 0;
}

// packs: finds and checks kernels on disk. The files are from outside: a kernel leaves here only
// when the verifier passed both of its files for the wanted architecture and operands, and they are
// the very files that the manifest means, where there is one. A kernel that a manifest names is
// never taken from other files of the same pack.
#include "packs.h"

#include "aie/verify/verify.h"
#include "manifest.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The largest arrays (8 columns of 4 cores with 80 KiB and a memory tile of 512 KiB each)
// configured to the last byte make less than 8 MiB; a stream has some 200 bytes for each transfer.
#define MAX_PDI_BYTES   ((size_t) 16 << 20)
#define MAX_INSTS_BYTES ((size_t) 4 << 20)

struct pack {
    char * dir;
    pthread_mutex_t lock; // held while a manifest is read
    struct {
        bool read; // what follows stays as it is from then on
        struct manifest manifest;
        struct error error; // status ST_OK: the manifest is good, or there is none
    } archs[AIE_ARCH_COUNT];
};

static enum status add_pack(struct packs * p, const char * dir, size_t n, struct error * err) {
    struct pack * list = realloc(p->list, (size_t) (p->n_packs + 1) * sizeof *list);
    char * name = strndup(dir, n);
    if (list) {
        p->list = list;
    }
    if (!list || !name) {
        free(name);
        return error_set(err, ST_NO_MEMORY, "no memory for the list of kernel directories");
    }
    list[p->n_packs++] = (struct pack){.dir = name};
    return ST_OK;
}

enum status packs_open(const char * list, struct packs * out, struct error * err) {
    enum status st = ST_OK;
    *out = (struct packs){0};
    for (const char * p = list ? list : ""; *p && st == ST_OK;) {
        size_t n = strcspn(p, ":");
        if (n) {
            st = add_pack(out, p, n, err);
        }
        p += n + (p[n] == ':');
    }
    for (int i = 0; i < out->n_packs; i++) { // now that the list has its place
        pthread_mutex_init(&out->list[i].lock, NULL);
    }
    if (st != ST_OK) {
        packs_close(out);
    }
    return st;
}

void packs_close(struct packs * p) {
    for (int i = 0; i < p->n_packs; i++) {
        for (int k = 0; k < AIE_ARCH_COUNT; k++) {
            manifest_free(&p->list[i].archs[k].manifest);
        }
        pthread_mutex_destroy(&p->list[i].lock);
        free(p->list[i].dir);
    }
    free(p->list);
    *p = (struct packs){0};
}

// ---- which files ----

bool packs_upstream_name(const struct kernel_spec * spec, bool flat, char name[KERNEL_NAME_MAX]) {
    static const char * const prefixes[] = {"ggml_unary_op_", "ggml_op_"};
    const struct kernel_op_info * info = kernel_op_info(spec->op);
    bool exact = spec->precision == KERNEL_EXACT && kernel_has_exact(spec);
    if (info->n_params > 0 || exact) { // of which those names say nothing
        return false;
    }
    struct buf b = {0};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0] && !b.size; i++) {
        if (!strncmp(info->ggml_name, prefixes[i], strlen(prefixes[i]))) {
            buf_printf(&b, "%s", info->ggml_name + strlen(prefixes[i]));
        }
    }
    bool ok = b.size > 0;
    for (int i = -1; i < spec->n_inputs && ok; i++) { // the result comes first
        const struct tensor * t = i < 0 ? &spec->output : &spec->inputs[i];
        ok = tensor_is_contiguous(t) && (!flat || tensor_same_shape(t, &spec->output));
        int dims = TENSOR_DIMS;
        while (dims > 1 && t->ne[dims - 1] == 1) {
            dims--;
        }
        buf_printf(&b, "-%lld", (long long) (flat ? tensor_elements(t) : t->ne[0]));
        for (int k = 1; k < dims && !flat; k++) {
            buf_printf(&b, "x%lld", (long long) t->ne[k]);
        }
        buf_printf(&b, "%s", dtype_name(t->dtype));
    }
    ok = ok && !b.failed && b.size < KERNEL_NAME_MAX;
    if (ok) {
        memcpy(name, b.data, b.size + 1);
    }
    buf_free(&b);
    return ok;
}

// Ops of these sources are the same whatever the shape, and upstream makes them for one dimension.
static bool is_elementwise(const struct kernel_spec * spec) {
    const char * source = kernel_op_info(spec->op)->source;
    return !strcmp(source, "binary_ops") || !strcmp(source, "unary_ops");
}

// The caller frees it; NULL without memory.
static char * file_path(const char * dir, enum aie_arch arch, const char * name,
                        const char * suffix) {
    struct buf path = {0};
    buf_printf(&path, "%s/%s/%s%s", dir, kernel_arch_name(arch), name, suffix);
    if (path.failed) {
        buf_free(&path);
        return NULL;
    }
    return (char *) path.data;
}

static bool is_there(const struct pack * pack, enum aie_arch arch, const char * name) {
    char * pdi = file_path(pack->dir, arch, name, ".pdi");
    bool there = pdi && access(pdi, R_OK) == 0;
    free(pdi);
    return there;
}

// The manifest of the pack, or why it cannot be used; a pack without one has an empty one.
static const struct manifest * get_manifest(struct pack * pack, enum aie_arch arch,
                                            struct error * err) {
    pthread_mutex_lock(&pack->lock);
    if (!pack->archs[arch].read) {
        char * path = file_path(pack->dir, arch, MANIFEST_FILE, "");
        struct error * why = &pack->archs[arch].error;
        enum status st = path ? manifest_read(path, arch, &pack->archs[arch].manifest, why)
                              : error_set(why, ST_NO_MEMORY, "no memory for a path");
        if (st == ST_OK || st == ST_NOT_FOUND) {
            *why = (struct error){0};
        } else if (st == ST_INVALID) {
            why->status = ST_CORRUPT; // it is the pack that is broken, not the question
        }
        pack->archs[arch].read = true;
        free(path);
    }
    struct error error = pack->archs[arch].error;
    pthread_mutex_unlock(&pack->lock);
    if (err) {
        *err = error;
    }
    return &pack->archs[arch].manifest;
}

static_assert(EXPORTED_NAME_MAX <= KERNEL_NAME_MAX, "a name of files fits where a kernel's does");

struct files {
    char name[KERNEL_NAME_MAX];
    const struct manifest_entry * entry; // NULL: no manifest names it
};

// ST_OK, ST_NOT_FOUND, or what is wrong with the manifest when nothing else tells.
static enum status find_files(struct pack * pack, const struct kernel_spec * spec,
                              struct files * out, struct error * err) {
    struct error broken;
    char name[KERNEL_NAME_MAX];
    kernel_name(spec, name);
    const struct manifest * m = get_manifest(pack, spec->arch, &broken);
    out->entry = manifest_find(m, name);
    if (out->entry) {
        memcpy(out->name, out->entry->exported_name, EXPORTED_NAME_MAX);
        return ST_OK;
    }
    memcpy(out->name, name, sizeof name);
    if (is_there(pack, spec->arch, out->name) ||
        (packs_upstream_name(spec, false, out->name) && is_there(pack, spec->arch, out->name)) ||
        (is_elementwise(spec) && packs_upstream_name(spec, true, out->name) &&
         is_there(pack, spec->arch, out->name))) {
        return ST_OK;
    }
    if (broken.status != ST_OK) {
        return error_set(err, broken.status, "%s", broken.text);
    }
    return error_set(err, ST_NOT_FOUND, "%s/%s does not hold it", pack->dir,
                     kernel_arch_name(spec->arch));
}

bool packs_have(const struct packs * p, const struct kernel_spec * spec) {
    struct files files;
    for (int i = 0; i < p->n_packs; i++) {
        if (find_files(&p->list[i], spec, &files, NULL) == ST_OK) {
            return true;
        }
    }
    return false;
}

// ---- checks ----

// Reads one of the two files, as the manifest has it; errors begin with the file's path.
static enum status load_file(const struct pack * pack, const struct kernel_spec * spec,
                             const struct files * files, bool is_pdi, uint8_t ** data,
                             size_t * size, struct error * err) {
    char * path = file_path(pack->dir, spec->arch, files->name, is_pdi ? ".pdi" : "_insts.bin");
    if (!path) {
        return error_set(err, ST_NO_MEMORY, "no memory for a path in %s", pack->dir);
    }
    enum status st = file_read(path, is_pdi ? MAX_PDI_BYTES : MAX_INSTS_BYTES, data, size, err);
    if (st == ST_NOT_FOUND) {
        st = error_set(err, ST_CORRUPT, "%s is missing", path); // half a kernel
    } else if (st == ST_OK) {
        if (files->entry) {
            st = manifest_check(is_pdi ? &files->entry->pdi : &files->entry->insts, *data, *size,
                                path, err);
        }
        if (st != ST_OK) {
            free(*data);
            *data = NULL;
        }
    }
    free(path);
    return st;
}

static enum status verify(const struct pack * pack, const struct kernel_spec * spec,
                          const struct files * files, const uint8_t * pdi, size_t pdi_size,
                          const uint8_t * insts, size_t insts_size, struct error * err) {
    struct error why = {0};
    enum status st = aie_verify_files(spec, pdi, pdi_size, insts, insts_size, &why);
    if (st != ST_OK) {
        error_set(err, st, "%s/%s/%s%s: %s", pack->dir, kernel_arch_name(spec->arch), files->name,
                  aie_verify_blames_stream(&why) ? "_insts.bin" : ".pdi", why.text);
    }
    return st;
}

static enum status pack_load(struct pack * pack, const struct kernel_spec * spec,
                             struct kernel_code * out, struct error * err) {
    struct files files;
    uint8_t *pdi = NULL, *insts = NULL;
    size_t pdi_size, insts_size;
    enum status st = find_files(pack, spec, &files, err);
    if (st == ST_OK) {
        st = load_file(pack, spec, &files, true, &pdi, &pdi_size, err);
    }
    if (st == ST_OK) {
        st = load_file(pack, spec, &files, false, &insts, &insts_size, err);
    }
    if (st == ST_OK) {
        st = verify(pack, spec, &files, pdi, pdi_size, insts, insts_size, err);
    }
    if (st == ST_OK) { // the verifier made sure of whole words
        *out = (struct kernel_code){pdi, pdi_size, (uint32_t *) (void *) insts, insts_size / 4};
    } else {
        free(pdi);
        free(insts);
    }
    return st;
}

enum status packs_load(const struct packs * p, const struct kernel_spec * spec,
                       struct kernel_code * out, struct error * err) {
    enum status worst = error_set(err, ST_NOT_FOUND, "no kernel directory holds it");
    for (int i = 0; i < p->n_packs; i++) {
        struct error why = {0};
        enum status st = pack_load(&p->list[i], spec, out, &why);
        if (st == ST_OK) {
            return ST_OK;
        }
        if (st != ST_NOT_FOUND && worst == ST_NOT_FOUND) {
            worst = error_set(err, st, "%s", why.text);
        }
    }
    return worst;
}

// ---- programs ----

static enum status load_program(struct pack * pack, const struct kernel_spec * spec,
                                const char * name, const char * compiler, uint8_t ** data,
                                size_t * size, struct error * err) {
    struct error broken;
    enum aie_arch arch = spec->arch;
    const struct manifest * m = get_manifest(pack, arch, &broken);
    const struct manifest_program * program = manifest_find_program(m, name);
    if (!program) {
        return broken.status != ST_OK
                   ? error_set(err, broken.status, "%s", broken.text)
                   : error_set(err, ST_NOT_FOUND, "%s/%s does not hold program %s", pack->dir,
                               kernel_arch_name(arch), name);
    }
    if (strcmp(program->compiler, compiler)) {
        return error_set(err, ST_NOT_FOUND,
                         "%s/%s has program %s by another version of the compiler; make the pack "
                         "again with the ggml-hsa-gen-kernels of this version",
                         pack->dir, kernel_arch_name(arch), name);
    }
    struct buf file = {0};
    buf_printf(&file, MANIFEST_PROGRAMS "/%s", name);
    char * path = file.failed ? NULL : file_path(pack->dir, arch, (const char *) file.data, ".pdi");
    buf_free(&file);
    if (!path) {
        return error_set(err, ST_NO_MEMORY, "no memory for a path in %s", pack->dir);
    }
    enum status st = file_read(path, MAX_PDI_BYTES, data, size, err);
    if (st == ST_NOT_FOUND) {
        st = error_set(err, ST_CORRUPT, "%s is missing", path);
    } else if (st == ST_OK) {
        st = manifest_check(&program->pdi, *data, *size, path, err);
        if (st == ST_OK && (st = aie_verify_pdi(arch, spec->columns, *data, *size, err)) != ST_OK) {
            error_prefix(err, st, "%s", path);
        }
        if (st != ST_OK) {
            free(*data);
            *data = NULL;
        }
    }
    free(path);
    return st;
}

enum status packs_load_program(const struct packs * p, const struct kernel_spec * spec,
                               const char * name, const char * compiler, uint8_t ** data,
                               size_t * size, struct error * err) {
    enum status worst =
        p->n_packs ? ST_NOT_FOUND
                   : error_set(err, ST_NOT_FOUND, "GGML_HSA_KERNEL_DIR names no kernel pack");
    for (int i = 0; i < p->n_packs; i++) {
        struct error why = {0};
        enum status st = load_program(&p->list[i], spec, name, compiler, data, size, &why);
        if (st == ST_OK) {
            return ST_OK;
        }
        if (i == 0 || (st != ST_NOT_FOUND && worst == ST_NOT_FOUND)) {
            worst = error_set(err, st, "%s", why.text);
        }
    }
    return worst;
}

// ---- the list as a whole ----

bool packs_complain(const struct packs * p, int i, enum aie_arch arch, struct error * out) {
    const char * dir = p->list[i].dir;
    struct stat info;
    int wrong = stat(dir, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
    if (wrong) {
        error_set(out, ST_NOT_FOUND, "GGML_HSA_KERNEL_DIR: %.300s: %s; it is left out", dir,
                  strerror(wrong));
        return true;
    }
    char * sub = file_path(dir, arch, "", "");
    bool there = sub && access(sub, R_OK | X_OK) == 0;
    wrong = errno;
    free(sub);
    if (!there) {
        error_set(out, ST_NOT_FOUND,
                  "GGML_HSA_KERNEL_DIR: %.300s holds no kernels for %s (%s/: %s); it must be the "
                  "directory that ggml-hsa-gen-kernels --output-dir had",
                  dir, kernel_arch_name(arch), kernel_arch_name(arch), strerror(wrong));
    }
    return !there;
}

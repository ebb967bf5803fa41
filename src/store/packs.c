// packs: finds and checks kernels on disk. The files are from outside: a kernel leaves here only
// when both of its files were walked from end to end, belong to the wanted architecture, and ask
// for no operand that the dispatch does not have.
#include "packs.h"

#include "aie/image/image.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The largest arrays (8 columns of 4 cores with 80 KiB and a memory tile of 512 KiB each)
// configured to the last byte make less than 8 MiB; a stream has some 200 bytes for each transfer.
#define MAX_PDI_BYTES   ((size_t) 16 << 20)
#define MAX_INSTS_BYTES ((size_t) 4 << 20)

enum status packs_open(const char * list, struct packs * out, struct error * err) {
    *out = (struct packs){0};
    for (const char * p = list ? list : ""; *p;) {
        size_t n = strcspn(p, ":");
        if (n) {
            char ** dirs = realloc(out->dirs, (size_t) (out->n_dirs + 1) * sizeof *dirs);
            char * dir = strndup(p, n);
            if (dirs) {
                out->dirs = dirs;
            }
            if (!dirs || !dir) {
                free(dir);
                packs_close(out);
                return error_set(err, ST_NO_MEMORY, "no memory for the list of kernel directories");
            }
            dirs[out->n_dirs++] = dir;
        }
        p += n + (p[n] == ':');
    }
    return ST_OK;
}

void packs_close(struct packs * p) {
    for (int i = 0; i < p->n_dirs; i++) {
        free(p->dirs[i]);
    }
    free(p->dirs);
    *p = (struct packs){0};
}

// The caller frees it; NULL without memory.
static char * file_path(const char * dir, const struct kernel_spec * spec, const char * suffix) {
    char name[KERNEL_NAME_MAX];
    struct buf path = {0};
    kernel_name(spec, name);
    buf_printf(&path, "%s/%s/%s%s", dir, kernel_arch_name(spec->arch), name, suffix);
    if (path.failed) {
        buf_free(&path);
        return NULL;
    }
    return (char *) path.data;
}

bool packs_have(const struct packs * p, const struct kernel_spec * spec) {
    for (int i = 0; i < p->n_dirs; i++) {
        char * pdi = file_path(p->dirs[i], spec, ".pdi");
        bool have = pdi && access(pdi, R_OK) == 0;
        free(pdi);
        if (have) {
            return true;
        }
    }
    return false;
}

// ---- checks ----

static bool accept_all(void * user, const struct image_command * command) {
    (void) user;
    (void) command;
    return true;
}

struct operand_check {
    int n_operands;
    int bad; // first operand that does not exist, -1 if all do
    uint32_t offset;
};

static bool check_operand(void * user, const struct image_command * command) {
    struct operand_check * check = user;
    if (command->op == IMAGE_PATCH && command->operand >= check->n_operands) {
        check->bad = command->operand;
        check->offset = command->offset;
        return false;
    }
    return true;
}

static enum status check_insts(const uint8_t * data, size_t size, const struct kernel_spec * spec,
                               struct error * err) {
    struct operand_check check = {.n_operands = spec->n_inputs + 1, .bad = -1};
    enum status st = txn_read(data, size, check_operand, &check, err);
    if (st != ST_OK) {
        return st;
    }
    if (check.bad >= 0) {
        return error_set(err, ST_CORRUPT, "operand %d at offset 0x%x, the kernel has %d", check.bad,
                         check.offset, check.n_operands);
    }
    unsigned generation = spec->arch == AIE_ARCH_AIE2 ? 3 : 4;
    if (data[2] != generation) {
        return error_set(err, ST_CORRUPT, "it is for device generation %u, %s is %u", data[2],
                         kernel_arch_name(spec->arch), generation);
    }
    return ST_OK;
}

// Reads one of the two files and checks it; errors begin with the file's path.
static enum status load_file(const char * dir, const struct kernel_spec * spec, bool is_pdi,
                             uint8_t ** data, size_t * size, struct error * err) {
    char * path = file_path(dir, spec, is_pdi ? ".pdi" : "_insts.bin");
    if (!path) {
        return error_set(err, ST_NO_MEMORY, "no memory for a path in %s", dir);
    }
    enum status st = file_read(path, is_pdi ? MAX_PDI_BYTES : MAX_INSTS_BYTES, data, size, err);
    if (st == ST_OK) {
        st = is_pdi ? pdi_read(*data, *size, accept_all, NULL, err)
                    : check_insts(*data, *size, spec, err);
        if (st != ST_OK) {
            free(*data);
            *data = NULL;
            error_prefix(err, "%s", path);
        }
    }
    free(path);
    return st;
}

enum status packs_load(const struct packs * p, const struct kernel_spec * spec,
                       struct kernel_code * out, struct error * err) {
    enum status worst = error_set(err, ST_NOT_FOUND, "no kernel directory holds it");
    for (int i = 0; i < p->n_dirs; i++) {
        struct error why = {0};
        uint8_t *pdi = NULL, *insts = NULL;
        size_t pdi_size, insts_size;
        enum status st = load_file(p->dirs[i], spec, true, &pdi, &pdi_size, &why);
        if (st == ST_NOT_FOUND) {
            continue;
        }
        if (st == ST_OK) {
            st = load_file(p->dirs[i], spec, false, &insts, &insts_size, &why);
            st = st == ST_NOT_FOUND ? ST_CORRUPT : st; // half a kernel
        }
        if (st == ST_OK) {
            *out = (struct kernel_code){pdi, pdi_size, (uint32_t *) (void *) insts, insts_size / 4};
            return ST_OK;
        }
        free(pdi);
        if (worst == ST_NOT_FOUND) {
            worst = error_set(err, st, "%s", why.text);
        }
    }
    return worst;
}

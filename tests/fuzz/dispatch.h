// dispatch: an input as what the emulated NPU gets, a PDI and an instruction stream; and seeds that
// are such inputs.
//
// Input: a size (4 bytes), so many bytes, and the rest. These are a PDI and a stream; or, with the
// size's highest bit, the commands of a CDO and the operations of a stream, and the headers and
// checksums are put around them, since nobody guesses those.
#pragma once

#include "kernel-seeds.h"

#include "aie/image/cdo.h"
#include "aie/image/packed.h"

#ifndef ARCH
#    define ARCH AIE_ARCH_AIE2
#endif

struct dispatch { // in memory of exactly their sizes, for a sanitizer
    uint8_t * pdi;
    size_t pdi_size;
    uint32_t * insts; // they arrive as aligned words, as in the queue's packet
    size_t n_insts;
};

static void dispatch_raw(const uint8_t * pdi, size_t pdi_size, const uint8_t * insts, size_t size,
                         struct dispatch * d) {
    *d = (struct dispatch){malloc(pdi_size ? pdi_size : 1), pdi_size, malloc(size ? size : 1),
                           size / 4};
    if (!d->pdi || !d->insts) {
        abort();
    }
    memcpy(d->pdi, pdi, pdi_size);
    memcpy(d->insts, insts, size / 4 * 4);
}

static uint32_t count_operations(const uint8_t * ops, size_t n_words) {
    uint32_t n = 0;
    for (size_t at = 0, words; at < n_words; at += words, n++) {
        switch (load_u32(ops + 4 * at)) {
        case 0:
            words = 6;
            break;
        case 1:
            words = at + 3 < n_words ? load_u32(ops + 4 * at + 12) / 4 : 0;
            break;
        case 3:
            words = 7;
            break;
        case 0x81:
            words = 12;
            break;
        default:
            words = 4;
        }
        if (!words || words > n_words - at) {
            return n + 1; // the machine says what is wrong with it
        }
    }
    return n;
}

static void dispatch_made(const uint8_t * commands, size_t n, const uint8_t * ops, size_t size,
                          struct dispatch * d) {
    struct cdo c;
    struct txn t;
    cdo_begin(&c);
    buf_append(&c.words, commands, n / 4 * 4);
    txn_begin(&t, 1, (int) txn_generation(ARCH));
    buf_append(&t.words, ops, size / 4 * 4);
    t.n_ops = count_operations(ops, size / 4);
    if (pdi_write(&c, 1, &d->pdi, &d->pdi_size, NULL) != ST_OK ||
        txn_end(&t, &d->insts, &d->n_insts, NULL) != ST_OK) {
        abort();
    }
    cdo_free(&c);
}

// The caller frees both parts. False: the input is too short to be anything.
static bool dispatch_read(const uint8_t * data, size_t size, struct dispatch * d) {
    if (size < 4) {
        return false;
    }
    uint32_t word = load_u32(data);
    size_t first = word & 0x7fffffff;
    data += 4;
    size -= 4;
    first = first < size ? first : size;
    (word >> 31 ? dispatch_made : dispatch_raw)(data, first, data + first, size - first, d);
    return true;
}

// ---- seeds ----

static void join(const uint8_t * pdi, size_t pdi_size, const uint8_t * insts, size_t insts_size,
                 uint8_t ** data, size_t * size) {
    *size = 4 + pdi_size + insts_size;
    *data = malloc(*size);
    if (!*data) {
        abort();
    }
    store_u32(*data, (uint32_t) pdi_size);
    memcpy(*data + 4, pdi, pdi_size);
    memcpy(*data + 4 + pdi_size, insts, insts_size);
}

// The same without headers.
static void join_bare(const uint8_t * pdi, const uint8_t * insts, size_t insts_size,
                      uint8_t ** data, size_t * size) {
    size_t words = load_u32(pdi + PDI_DATA + 12), skipped = 16;
    join(pdi + PDI_DATA + 4 * CDO_HEADER_WORDS, 4 * words, insts + skipped, insts_size - skipped,
         data, size);
    (*data)[3] |= 0x80;
}

enum seed_form { SEED_WHOLE, SEED_BARE, SEED_PACKED, SEED_FORMS };

// From the host through the switches of column 0 and back, no core: BDs, queues, patches and a
// token.
static void loop_seed(enum seed_form form, uint8_t ** data, size_t * size) {
    struct cdo c;
    cdo_begin(&c);
    cdo_write(&c, image_addr(0, 0, 0x3f010), 0x80000005); // master S2 <- slave S3
    cdo_write(&c, image_addr(0, 0, 0x3f10c + 8), 0x80000000);
    cdo_write(&c, image_addr(0, 0, 0x3f008), 0xc0000045); // the token's way out
    cdo_write(&c, image_addr(0, 0, 0x3f100), 0xc0000000);
    cdo_write(&c, image_addr(0, 0, 0x3f200), 0x0f1f0135);
    cdo_mask_write(&c, image_addr(0, 0, 0x1f000), 0xc00, 0x400);
    cdo_mask_write(&c, image_addr(0, 0, 0x1f004), 0x30, 0x10);
    uint8_t * pdi;
    size_t pdi_size, n;
    if (pdi_write(&c, 1, &pdi, &pdi_size, NULL) != ST_OK) {
        abort();
    }
    cdo_free(&c);
    if (form == SEED_PACKED) {
        uint8_t * packed = packed_make(pdi, false, &pdi_size);
        free(pdi);
        pdi = packed;
    }
    static const uint32_t bd[8] = {64, 0, 0, 0, 0x80000000, 0x02000000, 0, 0x02000000};
    struct txn t;
    uint32_t * insts;
    txn_begin(&t, 1, (int) txn_generation(ARCH));
    for (uint32_t i = 0; i < 2; i++) {
        txn_block_write(&t, 0x1d000 + 0x20 * i, bd, 8);
        txn_patch_address(&t, 0x1d004 + 0x20 * i, (int) i, 0);
    }
    txn_mask_write(&t, 0x1d200, 0x1f00, 0xf00);
    txn_write(&t, 0x1d204, 0x80000001);
    txn_write(&t, 0x1d214, 0);
    txn_wait(&t, 0, 0, 0, 0);
    if (txn_end(&t, &insts, &n, NULL) != ST_OK) {
        abort();
    }
    if (form == SEED_BARE) {
        join_bare(pdi, (uint8_t *) insts, n * 4, data, size);
    } else {
        join(pdi, pdi_size, (uint8_t *) insts, n * 4, data, size);
    }
    free(pdi);
    free(insts);
}

// A kernel has a program for each core of a column, which is more than a fuzzer can look at: of the
// tiles this keeps the first three, and of each program the beginning.
enum { MAX_BLOCK = 150 };

static bool keep(void * user, const struct image_command * command) {
    struct cdo * c = user;
    if ((command->addr >> 20 & 31) > 2) {
        return true;
    }
    switch (command->op) {
    case IMAGE_WRITE:
        cdo_write(c, command->addr, command->value);
        break;
    case IMAGE_MASK_WRITE:
        cdo_mask_write(c, command->addr, command->mask, command->value);
        break;
    case IMAGE_BLOCK_WRITE: {
        uint32_t words[MAX_BLOCK];
        size_t n = command->n_words < MAX_BLOCK ? command->n_words : MAX_BLOCK;
        memcpy(words, command->data, 4 * n);
        cdo_block_write(c, command->addr, words, n);
        break;
    }
    default:
        break;
    }
    return true;
}

static void cut_seed(const struct kernel_code * code, uint8_t ** data, size_t * size) {
    struct cdo c;
    uint8_t * pdi;
    size_t pdi_size;
    cdo_begin(&c);
    if (pdi_read(code->pdi, code->pdi_size, keep, &c, NULL) != ST_OK ||
        pdi_write(&c, 1, &pdi, &pdi_size, NULL) != ST_OK) {
        abort();
    }
    join_bare(pdi, (uint8_t *) code->insts, 4 * code->n_insts, data, size);
    cdo_free(&c);
    free(pdi);
}

static void golden_seed(const char * name, uint8_t ** data, size_t * size) {
    struct buf path = {0};
    uint8_t *pdi, *insts;
    size_t pdi_size, insts_size;
    buf_printf(&path, "%s/aie2-kernels/%s.pdi", GOLDEN_DIR, name);
    fuzz_golden((char *) path.data, &pdi, &pdi_size);
    path.size = 0;
    buf_printf(&path, "%s/aie2-kernels/%s_insts.bin", GOLDEN_DIR, name);
    fuzz_golden((char *) path.data, &insts, &insts_size);
    *data = NULL;
    if (pdi && insts) {
        join_bare(pdi, insts, insts_size, data, size);
    }
    buf_free(&path);
    free(pdi);
    free(insts);
}

static bool dispatch_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const golden[] = {"single-add", "fused-add-add", "gemm-i16-256-1core"};
    enum { GOLDEN = ARCH == AIE_ARCH_AIE2 ? sizeof golden / sizeof golden[0] : 0 };
    struct kernel_code code;
    if (i < SEED_FORMS) {
        loop_seed((enum seed_form) i, data, size);
    } else if (i - SEED_FORMS < GOLDEN) {
        golden_seed(golden[i - SEED_FORMS], data, size);
    } else if (kernel_seed(ARCH, i - SEED_FORMS - GOLDEN, &code)) {
        cut_seed(&code, data, size);
        kernel_code_free(&code);
    } else {
        return false;
    }
    return true;
}

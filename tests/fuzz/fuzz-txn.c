// fuzz-txn: arbitrary bytes as an instruction stream. Whatever is accepted was understood in full:
// the commands that were read, written again, are the input again.
#include "fuzz.h"

#include "aie/image/image.h"

const int fuzz_rounds = 5000;
const int fuzz_longest = 512;

static bool write_again(void * user, const struct image_command * c) {
    struct txn * t = user;
    switch (c->op) {
    case IMAGE_WRITE:
        txn_write(t, c->addr, c->value);
        return true;
    case IMAGE_MASK_WRITE:
        txn_mask_write(t, c->addr, c->mask, c->value);
        return true;
    case IMAGE_BLOCK_WRITE: {
        uint32_t * words = malloc((size_t) c->n_words * 4 + 1);
        if (!words) {
            abort();
        }
        memcpy(words, c->data, (size_t) c->n_words * 4);
        txn_block_write(t, c->addr, words, c->n_words);
        free(words);
        return true;
    }
    case IMAGE_PATCH:
        txn_patch_address(t, c->addr, c->operand, c->byte_offset);
        return true;
    case IMAGE_WAIT:
        txn_wait(t, c->col, c->row, c->direction, c->channel);
        return true;
    default:
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    struct txn t;
    struct error err;
    txn_begin(&t, size > 4 ? data[4] : 0, size > 2 ? data[2] : 0);
    enum status st = txn_read(data, size, write_again, &t, &err);
    uint32_t * insts;
    size_t n;
    if (txn_end(&t, &insts, &n, &err) != ST_OK) {
        abort();
    }
    if (st == ST_OK && (n * 4 != size || memcmp(insts, data, size))) {
        abort();
    }
    free(insts);
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const files[] = {
        GOLDEN_DIR "/aie2-kernels/single-add_insts.bin",
        GOLDEN_DIR "/aie2-kernels/gemm-i16-512-16core_insts.bin",
        GOLDEN_DIR "/aie2p-project/insts.bin",
    };
    if (i == 0) {
        static const uint32_t bd[8] = {16, 0, 0, 0, 0x80000000, 0x02000000, 0, 0x02000000};
        struct txn t;
        uint32_t * insts;
        size_t n;
        txn_begin(&t, 4, 3);
        txn_block_write(&t, image_addr(1, 0, 0x1d000), bd, 8);
        txn_patch_address(&t, image_addr(1, 0, 0x1d004), 1, 64);
        txn_mask_write(&t, image_addr(1, 0, 0x1d200), 0x1f00, 0xf00);
        txn_write(&t, image_addr(1, 0, 0x1d204), 0x80000000);
        txn_wait(&t, 1, 0, 0, 0);
        if (txn_end(&t, &insts, &n, NULL) != ST_OK) {
            abort();
        }
        *data = (uint8_t *) insts;
        *size = n * 4;
        return true;
    }
    if (i - 1 < (int) (sizeof files / sizeof files[0])) {
        fuzz_golden(files[i - 1], data, size);
        return true;
    }
    return false;
}

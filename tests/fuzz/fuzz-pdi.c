// fuzz-pdi: arbitrary bytes as a PDI and as a CDO. Every command that is told lies within the
// input, and a CDO that is accepted can be put into a PDI that is accepted.
#include "fuzz.h"

#include "aie/image/image.h"

const int fuzz_rounds = 3000;
const int fuzz_longest = 2048;

struct input {
    const uint8_t * data;
    size_t size;
    uint32_t last; // offset of the last command: they come in order
};

static bool check(void * user, const struct image_command * c) {
    struct input * in = user;
    if (c->offset >= in->size || (in->last && c->offset <= in->last)) {
        abort();
    }
    in->last = c->offset;
    if (c->op == IMAGE_BLOCK_WRITE) {
        size_t at = (size_t) (c->data - in->data);
        if (c->data < in->data || at > in->size || (size_t) c->n_words * 4 > in->size - at) {
            abort();
        }
    }
    if (c->op == IMAGE_WAIT || c->op == IMAGE_PATCH) {
        abort(); // not in a PDI
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    struct input in = {data, size, 0};
    struct error err;
    pdi_read(data, size, check, &in, &err);

    struct cdo c;
    if (cdo_read_file_form(data, size, &c, &err) == ST_OK) {
        uint8_t * pdi;
        size_t pdi_size;
        if (pdi_write(&c, 1, &pdi, &pdi_size, &err) == ST_OK) {
            in = (struct input){pdi, pdi_size, 0};
            if (pdi_read(pdi, pdi_size, check, &in, &err) != ST_OK) {
                abort();
            }
            free(pdi);
        }
        cdo_free(&c);
    }
    return 0;
}

static void own_seed(bool as_pdi, uint8_t ** data, size_t * size) {
    static const uint32_t block[260] = {1, 2, 3, 4, 5, 6};
    struct cdo c;
    cdo_begin(&c);
    cdo_mask_write(&c, image_addr(0, 2, 0x32000), 1, 0);
    cdo_block_write(&c, image_addr(0, 2, 0x20000), block, 260);
    cdo_write(&c, image_addr(0, 2, 0x1f000), 2);
    cdo_block_write(&c, image_addr(0, 2, 0x1d004), block, 6);
    if (!as_pdi) {
        *data = c.words.data;
        *size = c.words.size;
        return;
    }
    if (pdi_write(&c, 1, data, size, NULL) != ST_OK) {
        abort();
    }
    cdo_free(&c);
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const files[] = {
        GOLDEN_DIR "/aie2-kernels/single-add.pdi",
        GOLDEN_DIR "/aie2-kernels/gemm-i16-256-1core.pdi",
        GOLDEN_DIR "/aie2p-project/main_aie_cdo_elfs.bin",
        GOLDEN_DIR "/aie2p-project/main_aie_cdo_init.bin",
    };
    enum { FILES = sizeof files / sizeof files[0] };
    if (i < 2) {
        own_seed(i == 0, data, size);
        return true;
    }
    if (i - 2 < FILES) {
        fuzz_golden(files[i - 2], data, size);
        return true;
    }
    return false;
}

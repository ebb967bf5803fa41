// fuzz-pdi: arbitrary bytes as a PDI, plain or packed, and as a CDO. Every command that is told
// lies within the input, and a CDO that is accepted can be put into a PDI that is accepted. Headers
// have checksums and packed ones a mark, which nobody guesses: an input is also read with these set
// right.
#include "fuzz.h"

#include "aie/image/cdo.h"
#include "aie/image/packed.h"

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

static void read_it(const uint8_t * data, size_t size) {
    struct input in = {data, size, 0};
    struct pdi_packing packing;
    struct error err;
    pdi_read(data, size, check, &in, &err);
    if (pdi_packing(data, size, &packing) && packing.data &&
        packing.commands + packing.data != size - PACKED_COMMANDS) {
        abort();
    }
}

// The same with headers that are right, of exactly its size.
static void read_mended(const uint8_t * data, size_t size) {
    static const struct {
        size_t at, n_words;
    } sums[] = {{PDI_TABLE, PDI_TABLE_WORDS},
                {PDI_IMAGE, PDI_IMAGE_WORDS},
                {PDI_PARTITION, PDI_PARTITION_WORDS - PDI_PARTITION_TAIL},
                {PDI_DATA, 4}};
    uint8_t * copy = malloc(size);
    if (!copy) {
        abort();
    }
    memcpy(copy, data, size);
    store_u32(copy + PDI_IDENT_AT, PDI_IDENT);
    if (load_u32(copy + PDI_PACKED)) {
        store_u32(copy + PDI_PACKED, PDI_PACKING);
        store_u32(copy + PDI_PACKED_MARK,
                  pdi_packed_mark(PDI_PACKING, load_u32(copy + PDI_PACKED_BYTES)));
    }
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        size_t n = sums[i].n_words,
               sum = n + (sums[i].at == PDI_PARTITION ? PDI_PARTITION_TAIL : 0);
        store_u32(copy + sums[i].at + 4 * sum, image_checksum(copy + sums[i].at, n));
    }
    read_it(copy, size);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    struct input in;
    struct error err;
    read_it(data, size);
    if (size >= PDI_DATA + 4 * CDO_HEADER_WORDS) {
        read_mended(data, size);
    }

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

enum own { OWN_PDI, OWN_CDO, OWN_PACKED, OWN_CUT, OWN_SEEDS };

static void own_seed(enum own kind, uint8_t ** data, size_t * size) {
    static const uint32_t block[260] = {1, 2, 3, 4, 5, 6};
    struct cdo c;
    cdo_begin(&c);
    cdo_mask_write(&c, image_addr(0, 2, 0x32000), 1, 0);
    cdo_block_write(&c, image_addr(0, 2, 0x20000), block, 260);
    cdo_write(&c, image_addr(0, 2, 0x1f000), 2);
    cdo_block_write(&c, image_addr(0, 2, 0x1d004), block, 6);
    if (kind == OWN_CDO) {
        *data = c.words.data;
        *size = c.words.size;
        return;
    }
    if (pdi_write(&c, 1, data, size, NULL) != ST_OK) {
        abort();
    }
    cdo_free(&c);
    if (kind != OWN_PDI) {
        uint8_t * packed = packed_make(*data, kind == OWN_CUT, size);
        free(*data);
        *data = packed;
    }
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const files[] = {
        GOLDEN_DIR "/aie2-kernels/single-add.pdi",
        GOLDEN_DIR "/aie2-kernels/gemm-i16-256-1core.pdi",
        GOLDEN_DIR "/aie2p-project/main_aie_cdo_elfs.bin",
        GOLDEN_DIR "/aie2p-project/main_aie_cdo_init.bin",
    };
    enum { FILES = sizeof files / sizeof files[0] };
    if (i < OWN_SEEDS) {
        own_seed((enum own) i, data, size);
        return true;
    }
    if (i - OWN_SEEDS < FILES) {
        fuzz_golden(files[i - OWN_SEEDS], data, size);
        return true;
    }
    return false;
}

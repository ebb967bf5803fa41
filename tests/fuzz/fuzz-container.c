// fuzz-container: arbitrary bytes as an xclbin and as an ELF. Every part that is told lies within
// the input and has a name that ends, and PDIs and streams among them are walked like files.
#include "fuzz.h"

#include "aie/image/image.h"
#include "aie/image/containers.h"

const int fuzz_rounds = 6000;
const int fuzz_longest = 1500;

struct input {
    const uint8_t * data;
    size_t size;
    int parts;
};

static bool accept_all(void * user, const struct image_command * c) {
    (void) user;
    (void) c;
    return true;
}

static bool check(void * user, const struct image_part * part) {
    struct input * in = user;
    size_t at = (size_t) (part->data - in->data);
    if (part->data < in->data || at > in->size || part->size > in->size - at ||
        !memchr(part->name, 0, sizeof part->name)) {
        abort();
    }
    for (const char * c = part->name; *c; c++) {
        if (*c < 0x20 || *c > 0x7e) {
            abort();
        }
    }
    struct error err;
    if (part->kind == IMAGE_PART_PDI) {
        pdi_read(part->data, part->size, accept_all, NULL, &err);
    } else if (part->kind == IMAGE_PART_TXN) {
        txn_read(part->data, part->size, accept_all, NULL, &err);
    }
    return ++in->parts < 1000; // few bytes can list many parts
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    struct error err;
    xclbin_read(data, size, check, &(struct input){data, size, 0}, &err);
    elf_read(data, size, check, &(struct input){data, size, 0}, &err);
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const uint8_t code[64] = {0x01, 0x00, 0x01, 0x00};
    static const uint32_t txn[4] = {0x06030100, 0x104, 0, 16};
    uint8_t pdi[0x40] = {0};
    store_u32(pdi + 0x38, 0x50504449);
    switch (i) {
    case 0:
        *data = xclbin_make(pdi, sizeof pdi, size);
        return true;
    case 1:
    case 2:
        *data = elf_core_make(i == 2, code, sizeof code, size);
        return true;
    case 3:
        *data = elf_control_make((const uint8_t *) txn, sizeof txn, pdi, sizeof pdi, size);
        return true;
    case 4:
        fuzz_golden(GOLDEN_DIR "/aie2p-project/main_core_0_2.elf", data, size);
        return true;
    default:
        return false;
    }
}

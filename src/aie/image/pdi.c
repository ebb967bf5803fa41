// pdi: writes CDOs and the PDI around them, to the byte as the vendor's tools do: the firmware that
// reads them is closed, so nothing here is left to taste. A CDO is kept as a valid file after every
// append; a PDI holds one CDO, which is the commands of all given ones in a row. The NOPs that
// align block payloads were counted within each file, not within the PDI: that is how the real ones
// look.
#include "cdo.h"

#include <stdlib.h>
#include <string.h>

// ---- CDO ----

enum { HEADER_BYTES = 4 * CDO_HEADER_WORDS };

// In front of `bytes` of commands.
static void write_cdo_header(uint8_t h[HEADER_BYTES], size_t bytes) {
    const uint32_t header[] = {4, CDO_MAGIC, CDO_VERSION, (uint32_t) (bytes / 4)};
    for (int i = 0; i < 4; i++) {
        store_u32(h + 4 * i, header[i]);
    }
    store_u32(h + 16, image_checksum(h, 4));
}

static void seal(struct cdo * c) {
    if (!c->words.failed) {
        write_cdo_header(c->words.data, c->words.size - HEADER_BYTES);
    }
}

static void begin_empty(struct cdo * c) {
    const uint8_t nothing[HEADER_BYTES] = {0};
    *c = (struct cdo){0};
    buf_append(&c->words, nothing, sizeof nothing);
    seal(c);
}

static void append_nop(struct cdo * c, uint32_t n_zeros) {
    if (n_zeros < CDO_LONG) {
        buf_append_u32(&c->words, n_zeros << 16 | CDO_NOP);
    } else {
        buf_append_u32(&c->words, CDO_LONG << 16 | CDO_NOP);
        buf_append_u32(&c->words, n_zeros);
    }
    for (uint32_t i = 0; i < n_zeros && !c->words.failed; i++) {
        buf_append_u32(&c->words, 0);
    }
}

void cdo_begin(struct cdo * c) {
    begin_empty(c);
    append_nop(c, 0); // real files open with one
    seal(c);
}

void cdo_write(struct cdo * c, uint32_t addr, uint32_t value) {
    buf_append_u32(&c->words, 2 << 16 | CDO_WRITE);
    buf_append_u32(&c->words, addr);
    buf_append_u32(&c->words, value);
    seal(c);
}

void cdo_mask_write(struct cdo * c, uint32_t addr, uint32_t mask, uint32_t value) {
    buf_append_u32(&c->words, 3 << 16 | CDO_MASK_WRITE);
    buf_append_u32(&c->words, addr);
    buf_append_u32(&c->words, mask);
    buf_append_u32(&c->words, value);
    seal(c);
}

// Appends the block's command up to its payload, which stands at the same place within 16 bytes of
// the file as of the destination.
static void append_block_head(struct cdo * c, uint32_t addr, size_t n) {
    if (n > UINT32_MAX / 4 - 2) {
        c->words.failed = true;
        return;
    }
    uint32_t length = (uint32_t) n + 2;
    bool is_long = length >= CDO_LONG;
    size_t payload = c->words.size / 4 + (is_long ? 4 : 3);
    uint32_t gap = (addr / 4 - (uint32_t) payload) & 3;
    if (gap) {
        append_nop(c, gap - 1);
    }
    if (is_long) {
        buf_append_u32(&c->words, CDO_LONG << 16 | CDO_BLOCK_WRITE);
        buf_append_u32(&c->words, length);
    } else {
        buf_append_u32(&c->words, length << 16 | CDO_BLOCK_WRITE);
    }
    buf_append_u32(&c->words, 0);
    buf_append_u32(&c->words, addr);
}

void cdo_block_write(struct cdo * c, uint32_t addr, const uint32_t * words, size_t n) {
    uint8_t bytes[1024]; // programs are long: many words at a time
    size_t filled = 0;
    append_block_head(c, addr, n);
    for (size_t i = 0; i < n && !c->words.failed; i++) {
        store_u32(bytes + filled, words[i]);
        filled += 4;
        if (filled == sizeof bytes || i + 1 == n) {
            buf_append(&c->words, bytes, filled);
            filled = 0;
        }
    }
    seal(c);
}

void cdo_block_write_bytes(struct cdo * c, uint32_t addr, const uint8_t * bytes, size_t n) {
    append_block_head(c, addr, n);
    if (!c->words.failed) {
        buf_append(&c->words, bytes, 4 * n);
    }
    seal(c);
}

void cdo_free(struct cdo * c) {
    buf_free(&c->words);
}

static bool take_command(void * user, const struct image_command * command) {
    struct cdo * c = user;
    switch (command->op) {
    case IMAGE_WRITE:
        cdo_write(c, command->addr, command->value);
        break;
    case IMAGE_MASK_WRITE:
        cdo_mask_write(c, command->addr, command->mask, command->value);
        break;
    case IMAGE_BLOCK_WRITE:
        cdo_block_write_bytes(c, command->addr, command->data, command->n_words);
        break;
    case IMAGE_NOP:
        append_nop(c, command->n_words);
        break;
    default:
        abort(); // a CDO has no other commands
    }
    return !c->words.failed;
}

enum status cdo_read_file_form(const uint8_t * data, size_t size, struct cdo * out,
                               struct error * err) {
    *out = (struct cdo){0};
    size_t n_words;
    enum status st = cdo_header_read(data, size, 0, &n_words, err);
    if (st != ST_OK) {
        return st;
    }
    size_t offset = CDO_HEADER_WORDS * 4;
    if (size != offset + n_words * 4) {
        return error_set(err, ST_CORRUPT, "CDO: the header tells %zu bytes, the file has %zu",
                         offset + n_words * 4, size);
    }
    begin_empty(out);
    st = cdo_walk(data + offset, n_words, offset, take_command, out, err);
    if (st == ST_OK && out->words.failed) {
        st = error_set(err, ST_NO_MEMORY, "CDO: no memory for %zu bytes", size);
    }
    if (st != ST_OK) {
        cdo_free(out);
        return st;
    }
    seal(out);
    return ST_OK;
}

// ---- PDI ----

// Every word of the header that is not 0 and does not depend on the contents.
static const struct {
    uint32_t offset, value;
} pdi_constants[] = {
    {0x000, 0x000000dd}, // bus width detection
    {0x004, 0x11223344},
    {0x008, 0x55667788},
    {0x00c, 0x99aabbcc},
    {0x010, 0x00040000}, // image header table: version
    {0x014, 1},          // images
    {0x018, PDI_IMAGE / 4},
    {0x01c, 1}, // partitions
    {0x020, PDI_PARTITION / 4},
    {0x028, 0x14ca8093}, // id code, the same for every NPU
    {PDI_IDENT_AT, PDI_IDENT},
    {0x03c, 0x00201020},        // header sizes
    {0x040, 0x30},              // length of all headers
    {0x054, 1},                 // extended id code
    {0x090, PDI_PARTITION / 4}, // image header: its first partition
    {0x094, 1},                 // data sections
    {0x0a0, 0x5f656961},        // "aie_image"
    {0x0a4, 0x67616d69},
    {0x0a8, 0x00000065},
    {0x0b0, 0x1c000000}, // image id
    {0x0e8, 0xffffffff}, // partition header: no load address
    {0x0ec, 0xffffffff},
    {0x0f0, PDI_DATA / 4},
    {0x0f4, 0x02000006}, // attributes
    {0x0f8, 1},          // sections
};

static void write_headers(uint8_t * pdi, uint32_t cdo_words) {
    for (size_t i = 0; i < sizeof pdi_constants / sizeof pdi_constants[0]; i++) {
        store_u32(pdi + pdi_constants[i].offset, pdi_constants[i].value);
    }
    uint32_t padded = (cdo_words + 3) & ~3u;
    store_u32(pdi + PDI_PARTITION + 0, padded);
    store_u32(pdi + PDI_PARTITION + 4, cdo_words);
    store_u32(pdi + PDI_PARTITION + 8, padded);
    static const struct {
        uint32_t at, n_words;
    } headers[] = {{PDI_TABLE, PDI_TABLE_WORDS},
                   {PDI_IMAGE, PDI_IMAGE_WORDS},
                   {PDI_PARTITION, PDI_PARTITION_WORDS}};
    for (int i = 0; i < 3; i++) {
        uint8_t * h = pdi + headers[i].at;
        store_u32(h + 4 * headers[i].n_words, image_checksum(h, headers[i].n_words));
    }
}

enum status pdi_write(const struct cdo * cdos, int n, uint8_t ** pdi, size_t * size,
                      struct error * err) {
    size_t commands = 0; // bytes
    bool failed = false;
    for (int i = 0; i < n; i++) {
        const struct buf * part = &cdos[i].words;
        // it was never begun, or ran out of memory on the way
        failed |= part->failed || part->size < HEADER_BYTES;
        commands += failed ? 0 : part->size - HEADER_BYTES;
    }
    size_t cdo = HEADER_BYTES + commands, total = PDI_DATA + ((cdo + 15) & ~(size_t) 15);
    uint8_t * bytes = failed || total > UINT32_MAX ? NULL : calloc(1, total);
    if (!bytes) {
        return error_set(err, ST_NO_MEMORY, "PDI: no memory for its %d CDOs (%zu bytes)", n, total);
    }
    write_headers(bytes, (uint32_t) (cdo / 4));
    uint8_t * to = bytes + PDI_DATA;
    write_cdo_header(to, commands);
    to += HEADER_BYTES;
    for (int i = 0; i < n; i++) {
        const struct buf * part = &cdos[i].words;
        memcpy(to, part->data + HEADER_BYTES, part->size - HEADER_BYTES);
        to += part->size - HEADER_BYTES;
    }
    *pdi = bytes;
    *size = total;
    return ST_OK;
}

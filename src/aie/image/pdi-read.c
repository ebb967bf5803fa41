// pdi-read: walks the commands of a PDI or of a CDO. The bytes are from outside: every offset and
// length is checked before it is used, and an error tells the offset in the file.
#include "cdo.h"

// ---- CDO commands ----

// Where the fields of each command lie in its payload (in words, -1: none).
static const struct shape {
    uint32_t opcode;
    enum image_op op;
    uint32_t min_words, max_words;
    int high, addr, mask, value; // high: upper half of a 64-bit address, must be 0
    const char * name;
} shapes[] = {
    {CDO_WRITE, IMAGE_WRITE, 2, 2, -1, 0, -1, 1, "WRITE"},
    {CDO_MASK_WRITE, IMAGE_MASK_WRITE, 3, 3, -1, 0, 1, 2, "MASK_WRITE"},
    {CDO_WRITE64, IMAGE_WRITE, 3, 3, 0, 1, -1, 2, "WRITE64"},
    {CDO_MASK_WRITE64, IMAGE_MASK_WRITE, 4, 4, 0, 1, 2, 3, "MASK_WRITE64"},
    {CDO_BLOCK_WRITE, IMAGE_BLOCK_WRITE, 2, UINT32_MAX, 0, 1, -1, -1, "DMA_WRITE"},
    {CDO_NOP, IMAGE_NOP, 0, UINT32_MAX, -1, -1, -1, -1, "NOP"},
};

static const struct shape * find_shape(uint32_t opcode) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        if (shapes[i].opcode == opcode) {
            return &shapes[i];
        }
    }
    return NULL;
}

static uint32_t field(const uint8_t * payload, int index) {
    return index < 0 ? 0 : load_u32(payload + 4 * index);
}

enum status cdo_walk(const uint8_t * words, size_t n_words, size_t offset, image_visit visit,
                     void * user, struct error * err) {
    size_t at = 0;
    while (at < n_words) {
        size_t where = offset + at * 4;
        uint32_t word = load_u32(words + at * 4);
        size_t length = word >> 16;
        at++;
        const struct shape * s = find_shape(word & 0xffff);
        if (!s) {
            return error_set(err, ST_UNSUPPORTED, "CDO command 0x%08x at offset 0x%zx is not known",
                             word, where);
        }
        if (length == CDO_LONG) {
            if (at == n_words) {
                return error_set(err, ST_CORRUPT, "%s at offset 0x%zx ends before its length",
                                 s->name, where);
            }
            length = load_u32(words + at * 4);
            at++;
        }
        if (length > n_words - at) {
            return error_set(err, ST_CORRUPT, "%s at offset 0x%zx wants %zu words, %zu are left",
                             s->name, where, length, n_words - at);
        }
        if (length < s->min_words || length > s->max_words) {
            return error_set(err, ST_CORRUPT, "%s at offset 0x%zx cannot have %zu words", s->name,
                             where, length);
        }
        const uint8_t * payload = words + at * 4;
        if (field(payload, s->high)) {
            return error_set(err, ST_UNSUPPORTED,
                             "%s at offset 0x%zx: address 0x%x%08x is beyond 32 bits", s->name,
                             where, field(payload, s->high), field(payload, s->addr));
        }
        struct image_command command = {
            .op = s->op,
            .offset = (uint32_t) where,
            .addr = field(payload, s->addr),
            .mask = field(payload, s->mask),
            .value = field(payload, s->value),
        };
        if (s->op == IMAGE_BLOCK_WRITE) {
            command.data = payload + 8;
            command.n_words = (uint32_t) length - 2;
        } else if (s->op == IMAGE_NOP) {
            command.n_words = (uint32_t) length;
        }
        if (!visit(user, &command)) {
            return ST_OK;
        }
        at += length;
    }
    return ST_OK;
}

enum status cdo_header_read(const uint8_t * data, size_t size, size_t offset, size_t * n_words,
                            struct error * err) {
    if (size < CDO_HEADER_WORDS * 4 || size > UINT32_MAX) {
        return error_set(err, ST_CORRUPT, "CDO at offset 0x%zx: %zu bytes cannot hold one", offset,
                         size);
    }
    if (load_u32(data) != 4 || load_u32(data + 4) != CDO_MAGIC) {
        return error_set(err, ST_INVALID, "no CDO at offset 0x%zx (its header is 0x%x 0x%x)",
                         offset, load_u32(data), load_u32(data + 4));
    }
    if (load_u32(data + 8) != CDO_VERSION) {
        return error_set(err, ST_UNSUPPORTED,
                         "CDO at offset 0x%zx has version 0x%x, 0x200 is known", offset,
                         load_u32(data + 8));
    }
    if (load_u32(data + 16) != image_checksum(data, 4)) {
        return error_set(err, ST_CORRUPT, "CDO at offset 0x%zx: wrong header checksum", offset);
    }
    *n_words = load_u32(data + 12);
    if (*n_words > size / 4 - CDO_HEADER_WORDS) {
        return error_set(err, ST_CORRUPT,
                         "CDO at offset 0x%zx: %zu words of commands, %zu are left", offset,
                         *n_words, size / 4 - CDO_HEADER_WORDS);
    }
    return ST_OK;
}

// ---- PDI ----

// Words of a header at offset, all within size; NULL with an error otherwise. Its checksum may
// leave out the last `tail` words.
static const uint8_t * header(const uint8_t * pdi, size_t size, size_t offset, size_t n_words,
                              size_t tail, const char * name, struct error * err) {
    size_t bytes = (n_words + 1) * 4;
    if (offset > size || bytes > size - offset) {
        error_set(err, ST_CORRUPT, "PDI: its %s at offset 0x%zx ends behind the file's %zu bytes",
                  name, offset, size);
        return NULL;
    }
    const uint8_t * h = pdi + offset;
    uint32_t sum = load_u32(h + n_words * 4);
    if (sum != image_checksum(h, n_words) && sum != image_checksum(h, n_words - tail)) {
        error_set(err, ST_CORRUPT, "PDI: wrong checksum of its %s at offset 0x%zx", name, offset);
        return NULL;
    }
    return h;
}

enum status pdi_read(const uint8_t * pdi, size_t size, image_visit visit, void * user,
                     struct error * err) {
    if (size < PDI_DATA || size > UINT32_MAX) {
        return error_set(err, ST_CORRUPT, "PDI: %zu bytes cannot hold one", size);
    }
    if (load_u32(pdi + PDI_IDENT_AT) != PDI_IDENT) {
        return error_set(err, ST_INVALID, "not a PDI (no identification at offset 0x%x)",
                         PDI_IDENT_AT);
    }
    const uint8_t * table =
        header(pdi, size, PDI_TABLE, PDI_TABLE_WORDS, 0, "image header table", err);
    if (!table) {
        return ST_CORRUPT;
    }
    if (load_u32(table + 4) != 1 || load_u32(table + 12) != 1) {
        return error_set(err, ST_UNSUPPORTED,
                         "PDI: %u images and %u partitions, one of each is known",
                         load_u32(table + 4), load_u32(table + 12));
    }
    size_t image_at = (size_t) load_u32(table + 8) * 4;
    if (!header(pdi, size, image_at, PDI_IMAGE_WORDS, 0, "image header", err)) {
        return ST_CORRUPT;
    }
    size_t partition_at = (size_t) load_u32(table + 16) * 4;
    const uint8_t * p = header(pdi, size, partition_at, PDI_PARTITION_WORDS, PDI_PARTITION_TAIL,
                               "partition header", err);
    if (!p) {
        return ST_CORRUPT;
    }
    size_t padded = (size_t) load_u32(p) * 4, used = (size_t) load_u32(p + 4) * 4;
    size_t data = (size_t) load_u32(p + 32) * 4;
    if (data > size || padded > size - data || used > padded) {
        return error_set(err, ST_CORRUPT,
                         "PDI: partition of %zu bytes at offset 0x%zx, the file has %zu", padded,
                         data, size);
    }
    size_t n_words;
    enum status st = cdo_header_read(pdi + data, used, data, &n_words, err);
    if (st != ST_OK) {
        return st;
    }
    size_t commands = data + CDO_HEADER_WORDS * 4;
    return cdo_walk(pdi + commands, n_words, commands, visit, user, err);
}

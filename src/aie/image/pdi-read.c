// pdi-read: walks the commands of a PDI, plain or packed, or of a CDO. The bytes are from outside:
// every offset and length is checked before it is used, and an error tells the offset in the file.
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

// The address, and what a single word gets.
static enum status read_fields(const struct shape * s, const uint8_t * payload, size_t where,
                               struct image_command * out, struct error * err) {
    if (field(payload, s->high)) {
        return error_set(err, ST_UNSUPPORTED,
                         "%s at offset 0x%zx: address 0x%x%08x is beyond 32 bits", s->name, where,
                         field(payload, s->high), field(payload, s->addr));
    }
    *out = (struct image_command){
        .op = s->op,
        .offset = (uint32_t) where,
        .addr = field(payload, s->addr),
        .mask = field(payload, s->mask),
        .value = field(payload, s->value),
    };
    return ST_OK;
}

enum status cdo_walk(const uint8_t * words, size_t n_words, size_t offset, image_visit visit,
                     void * user, struct error * err) {
    size_t at = 0;
    while (at < n_words) {
        size_t where = offset + at * 4;
        uint32_t word = load_u32(words + at * 4);
        size_t length = word >> 16;
        at++;
        const struct shape * s = word >> 24 ? NULL : find_shape(word & 0xffff); // of 8 bits
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
        struct image_command command;
        enum status st = read_fields(s, payload, where, &command, err);
        if (st != ST_OK) {
            return st;
        }
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

static enum status check_cdo_header(const uint8_t * data, size_t size, size_t offset,
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
    return ST_OK;
}

enum status cdo_header_read(const uint8_t * data, size_t size, size_t offset, size_t * n_words,
                            struct error * err) {
    enum status st = check_cdo_header(data, size, offset, err);
    if (st != ST_OK) {
        return st;
    }
    *n_words = load_u32(data + 12);
    if (*n_words > size / 4 - CDO_HEADER_WORDS) {
        return error_set(err, ST_CORRUPT,
                         "CDO at offset 0x%zx: %zu words of commands, %zu are left", offset,
                         *n_words, size / 4 - CDO_HEADER_WORDS);
    }
    return ST_OK;
}

// ---- packed commands ----

enum { RUN_BYTES = 8, PACKED_AT = PDI_DATA + 4 * CDO_HEADER_WORDS, PACKED_ZEROS = 1 };

// A run is the command's number, how many there are, and their fields as a plain command has them;
// a block has its place in the data and its words instead of them, the latter with a flag that says
// that all are 0.
struct packed_run {
    const struct shape * shape;
    uint32_t count;
    size_t item_bytes;
};

static enum status read_run(const uint8_t * at, size_t left, size_t where, struct packed_run * run,
                            struct error * err) {
    if (left < RUN_BYTES) {
        return error_set(err, ST_CORRUPT, "packed CDO: %zu bytes at offset 0x%zx are no command",
                         left, where);
    }
    uint32_t id = load_u32(at);
    const struct shape * s = id < 0x100 ? find_shape(0x100 | id) : NULL;
    if (!s || s->op == IMAGE_NOP) {
        return error_set(err, ST_UNSUPPORTED,
                         "packed CDO command 0x%x at offset 0x%zx is not known", id, where);
    }
    *run = (struct packed_run){s, load_u32(at + 4),
                               s->op == IMAGE_BLOCK_WRITE ? 16 : 4 * (size_t) s->min_words};
    if (run->count == 0 || run->count > PDI_PACKED_MOST) {
        return error_set(err, ST_CORRUPT,
                         "packed CDO: a run of %u %s at offset 0x%zx, 1 to %d are known",
                         run->count, s->name, where, PDI_PACKED_MOST);
    }
    if (run->count > (left - RUN_BYTES) / run->item_bytes) {
        return error_set(err, ST_CORRUPT,
                         "packed CDO: a run of %u %s at offset 0x%zx wants %zu bytes, %zu are left",
                         run->count, s->name, where, run->count * run->item_bytes,
                         left - RUN_BYTES);
    }
    return ST_OK;
}

static enum status read_packed_block(const uint8_t * item, const uint8_t * data,
                                     const struct pdi_packing * p, struct image_command * c,
                                     struct error * err) {
    uint32_t from = load_u32(item + 8), n = load_u32(item + 12) & 0xffff;
    uint32_t flags = load_u32(item + 12) >> 16;
    if (flags > PACKED_ZEROS) {
        return error_set(err, ST_UNSUPPORTED, "DMA_WRITE at offset 0x%x: flags 0x%x are not known",
                         c->offset, flags);
    }
    if (n == 0 || from % 4 || from + 4 * (uint64_t) n > p->data + p->missing) {
        return error_set(err, ST_CORRUPT,
                         "DMA_WRITE at offset 0x%x: %u words at byte 0x%x of the data, which has "
                         "0x%zx bytes",
                         c->offset, n, from, p->data + p->missing);
    }
    size_t there = from < p->data ? (p->data - from) / 4 : 0;
    c->n_words = there < n ? (uint32_t) there : n;
    c->missing = n - c->n_words;
    c->data = data + (from < p->data ? from : p->data);
    for (uint32_t i = 0; i < c->n_words && flags; i++) {
        if (load_u32(c->data + 4 * i)) {
            return error_set(err, ST_CORRUPT,
                             "DMA_WRITE at offset 0x%x is marked as zeros, but word %u is 0x%x",
                             c->offset, i, load_u32(c->data + 4 * i));
        }
    }
    return ST_OK;
}

static enum status walk_packed(const uint8_t * pdi, const struct pdi_packing * p, image_visit visit,
                               void * user, struct error * err) {
    const uint8_t * data = pdi + PACKED_AT + p->commands;
    for (size_t at = PACKED_AT, end = PACKED_AT + p->commands; at < end;) {
        struct packed_run run = {0};
        enum status st = read_run(pdi + at, end - at, at, &run, err);
        at += RUN_BYTES;
        for (uint32_t i = 0; st == ST_OK && i < run.count; i++, at += run.item_bytes) {
            struct image_command command;
            st = read_fields(run.shape, pdi + at, at, &command, err);
            if (st == ST_OK && command.op == IMAGE_BLOCK_WRITE) {
                st = read_packed_block(pdi + at, data, p, &command, err);
            }
            if (st == ST_OK && !visit(user, &command)) {
                return ST_OK;
            }
        }
        if (st != ST_OK) {
            return st;
        }
    }
    return ST_OK;
}

// Where the data of the last block end, in bytes from their beginning, as far as runs can be read.
static uint64_t packed_end(const uint8_t * pdi, size_t commands) {
    uint64_t end = 0;
    struct packed_run run;
    for (size_t at = PACKED_AT, stop = PACKED_AT + commands;
         at < stop && read_run(pdi + at, stop - at, at, &run, NULL) == ST_OK;
         at += RUN_BYTES + run.count * run.item_bytes) {
        for (uint32_t i = 0; i < run.count && run.shape->op == IMAGE_BLOCK_WRITE; i++) {
            const uint8_t * item = pdi + at + RUN_BYTES + i * run.item_bytes;
            uint64_t here = load_u32(item + 8) + 4 * (uint64_t) (load_u32(item + 12) & 0xffff);
            end = here > end ? here : end;
        }
    }
    return end;
}

bool pdi_packing(const uint8_t * pdi, size_t size, struct pdi_packing * out) {
    if (size < PACKED_AT) {
        return false;
    }
    uint32_t form = load_u32(pdi + PDI_PACKED), bytes = load_u32(pdi + PDI_PACKED_BYTES);
    if (form != PDI_PACKING || load_u32(pdi + PDI_PACKED_MARK) != pdi_packed_mark(form, bytes)) {
        return false; // firmware takes it for a plain one, too
    }
    *out = (struct pdi_packing){bytes, 0, 0};
    if (bytes <= size - PACKED_AT) {
        out->data = size - PACKED_AT - bytes;
        bool cut = packed_end(pdi, bytes) == (uint64_t) out->data + 4 * CDO_HEADER_WORDS;
        out->missing = cut ? 4 * CDO_HEADER_WORDS : 0;
    }
    return true;
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

static enum status read_packed(const uint8_t * pdi, size_t size, const struct pdi_packing * p,
                               image_visit visit, void * user, struct error * err) {
    enum status st = check_cdo_header(pdi + PDI_DATA, size - PDI_DATA, PDI_DATA, err);
    if (st == ST_OK && (p->commands % 4 || p->commands > size - PACKED_AT)) {
        st = error_set(err, ST_CORRUPT, "PDI: %zu bytes of packed commands, %zu are left",
                       p->commands, size - PACKED_AT);
    }
    return st == ST_OK ? walk_packed(pdi, p, visit, user, err) : st;
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
    struct pdi_packing packing;
    if (partition_at == PDI_PARTITION && data == PDI_DATA && pdi_packing(pdi, size, &packing)) {
        return read_packed(pdi, size, &packing, visit, user, err); // lengths are of the plain one
    }
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

// array-config: reads a PDI as the firmware gets it and applies the CDO inside. The header is
// checked in full before the first command touches the array; every command is checked against the
// end of the stream. The form is the one that NPU tools write: one image, one partition, one CDO,
// which may be packed: runs of like commands with their counts, and all data behind them.
#include "emu/aie/array-model.h"

#include <stdlib.h>

enum {
    PDI_HEADER_BYTES = 0x150,
    CDO_HEADER_WORDS = 5,
    AT_TABLE_SUM = 0x08C,
    AT_IMAGE_SUM = 0x0CC,
    AT_ENCRYPTED_WORDS = 0x0D0,
    AT_PLAIN_WORDS = 0x0D4,
    AT_TOTAL_WORDS = 0x0D8,
    AT_PACKED = 0x140,
    AT_PACKED_BYTES = 0x144, // of commands
    AT_PACKED_MARK = 0x148,
    AT_PARTITION_SUM = 0x14C,
    AT_COMMANDS = PDI_HEADER_BYTES + 4 * CDO_HEADER_WORDS,

    PACKED_BLOCK = 5,
    PACKED_MOST = 65535, // of a run: the firmware keeps what is left of it in 16 bits
    PACKED_ZEROS = 1,    // flag of a block
};

// Words of the header whose value is fixed.
static const struct {
    uint16_t at;
    uint32_t value;
    const char * what;
} fixed_words[] = {
    {0x000, 0x000000DD, "bus width word 0 (magic)"},
    {0x004, 0x11223344, "bus width word 1 (magic)"},
    {0x008, 0x55667788, "bus width word 2 (magic)"},
    {0x00C, 0x99AABBCC, "bus width word 3 (magic)"},
    {0x010, 0x00040000, "image header table version"},
    {0x014, 1, "number of images"},
    {0x018, 0x24, "image header offset"},
    {0x01C, 1, "number of partitions"},
    {0x020, 0x34, "partition header offset"},
    {0x038, 0x50504449, "identification (magic)"},
    {0x090, 0x34, "image's partition header offset"},
    {0x094, 1, "number of data sections"},
    {0x0E8, 0xFFFFFFFF, "load address"},
    {0x0EC, 0xFFFFFFFF, "load address, high"},
    {0x0F0, 0x54, "data offset"},
    {0x0F8, 1, "number of sections"},
};

// A checksum word holds the complement of the sum of the words from `first` up to itself.
static const struct {
    uint16_t first, at;
    const char * what;
} checksums[] = {
    {0x010, AT_TABLE_SUM, "image header table"},
    {0x090, AT_IMAGE_SUM, "image header"},
    {0x0D0, AT_PARTITION_SUM, "partition header"},
};

static uint32_t sum_words(const uint8_t * p, size_t bytes) {
    uint32_t sum = 0;
    for (size_t i = 0; i < bytes; i += 4) {
        sum += load_u32(p + i);
    }
    return sum;
}

static enum status check_cdo_header(const uint8_t * cdo, uint32_t words, struct error * err) {
    if (load_u32(cdo) != 4 || load_u32(cdo + 4) != 0x004F4443 || load_u32(cdo + 8) != 0x200) {
        return error_set(err, ST_CORRUPT,
                         "PDI: the partition does not begin with a CDO 2.0 header");
    }
    if (load_u32(cdo + 16) != ~sum_words(cdo, 16)) {
        return error_set(err, ST_CORRUPT,
                         "PDI: checksum of the CDO header is 0x%08x, the words give 0x%08x",
                         load_u32(cdo + 16), ~sum_words(cdo, 16));
    }
    if (load_u32(cdo + 12) != words - CDO_HEADER_WORDS) {
        return error_set(err, ST_CORRUPT, "PDI: the CDO says %u words, the partition holds %u",
                         load_u32(cdo + 12), words - CDO_HEADER_WORDS);
    }
    return ST_OK;
}

static bool is_packed(const uint8_t * pdi) {
    uint32_t form = load_u32(pdi + AT_PACKED), bytes = load_u32(pdi + AT_PACKED_BYTES);
    uint32_t mark = 0x8966 | bytes << 16 | bytes >> 16;
    return form == 1 && load_u32(pdi + AT_PACKED_MARK) == mark;
}

// Fields of a command within a run; 0: there is none of that number.
static uint32_t packed_words(uint32_t id) {
    static const uint8_t words[] = {[2] = 3, [3] = 2, [PACKED_BLOCK] = 4, [7] = 4, [8] = 3};
    return id < sizeof words ? words[id] : 0;
}

static enum status check_block(const uint8_t * item, size_t at, uint64_t * end,
                               struct error * err) {
    uint32_t from = load_u32(item + 8), n = load_u32(item + 12) & 0xffff;
    uint32_t flags = load_u32(item + 12) >> 16;
    if (n == 0 || from % 4 || flags > PACKED_ZEROS) {
        return error_set(err, ST_CORRUPT,
                         "PDI: packed block at 0x%zx has %u words at byte 0x%x of the data and "
                         "flags 0x%x",
                         at, n, from, flags);
    }
    uint64_t here = from + 4ull * n;
    *end = here > *end ? here : *end;
    return ST_OK;
}

// All runs, and how much of the file they and their data take.
static enum status check_packed(const uint8_t * pdi, size_t size, size_t * used,
                                struct error * err) {
    uint32_t bytes = load_u32(pdi + AT_PACKED_BYTES);
    if (bytes % 4 || bytes > size - AT_COMMANDS) {
        return error_set(err, ST_CORRUPT, "PDI: %u bytes of packed commands, %zu are left", bytes,
                         size - AT_COMMANDS);
    }
    size_t at = AT_COMMANDS, stop = AT_COMMANDS + bytes;
    uint64_t end = 0;
    while (at < stop) {
        uint32_t id = load_u32(pdi + at), n = stop - at < 8 ? 0 : load_u32(pdi + at + 4);
        size_t item = 4 * (size_t) packed_words(id);
        if (item == 0) {
            return error_set(err, ST_UNSUPPORTED, "PDI: unknown packed command 0x%x at 0x%zx", id,
                             at);
        }
        if (n == 0 || n > PACKED_MOST || n > (stop - at - 8) / item) {
            return error_set(err, ST_CORRUPT,
                             "PDI: a run of %u packed commands 0x%x at 0x%zx, %zu bytes are left",
                             n, id, at, stop - at);
        }
        at += 8;
        for (uint32_t i = 0; i < n; i++, at += item) {
            enum status st = id == PACKED_BLOCK ? check_block(pdi + at, at, &end, err) : ST_OK;
            if (st != ST_OK) {
                return st;
            }
        }
    }
    if (end > size - stop) {
        return error_set(err, ST_CORRUPT,
                         "PDI: truncated, %zu bytes of %llu (AMD's packer leaves the last 20 out)",
                         size, (unsigned long long) (stop + end));
    }
    *used = stop + (size_t) end;
    return ST_OK;
}

enum status pdi_check(const uint8_t * pdi, size_t size, size_t * used, struct error * err) {
    if (!pdi || size < PDI_HEADER_BYTES + 4 * CDO_HEADER_WORDS) {
        return error_set(err, ST_CORRUPT, "PDI: %zu bytes are less than its headers", size);
    }
    for (size_t i = 0; i < sizeof(fixed_words) / sizeof(fixed_words[0]); i++) {
        uint32_t word = load_u32(pdi + fixed_words[i].at);
        if (word != fixed_words[i].value) {
            return error_set(err, ST_CORRUPT, "PDI: %s at 0x%03x is 0x%08x, must be 0x%08x",
                             fixed_words[i].what, fixed_words[i].at, word, fixed_words[i].value);
        }
    }
    bool packed = is_packed(pdi);
    for (size_t i = 0; i < sizeof(checksums) / sizeof(checksums[0]); i++) {
        uint32_t said = load_u32(pdi + checksums[i].at);
        uint32_t is = ~sum_words(pdi + checksums[i].first, checksums[i].at - checksums[i].first);
        // whoever packs a PDI leaves this sum as it was
        bool before = packed && checksums[i].at == AT_PARTITION_SUM &&
                      said == ~sum_words(pdi + checksums[i].first, AT_PACKED - checksums[i].first);
        if (said != is && !before) {
            return error_set(err, ST_CORRUPT,
                             "PDI: checksum of the %s is 0x%08x, the words give 0x%08x",
                             checksums[i].what, said, is);
        }
    }
    uint32_t encrypted = load_u32(pdi + AT_ENCRYPTED_WORDS), plain = load_u32(pdi + AT_PLAIN_WORDS);
    if (plain < CDO_HEADER_WORDS || plain > UINT32_MAX - 3 || encrypted != ((plain + 3) & ~3u) ||
        load_u32(pdi + AT_TOTAL_WORDS) != encrypted) {
        return error_set(err, ST_CORRUPT, "PDI: partition lengths %u, %u, %u do not agree",
                         encrypted, plain, load_u32(pdi + AT_TOTAL_WORDS));
    }
    if (packed) { // lengths are of the plain one
        enum status st = check_packed(pdi, size, used, err);
        return st == ST_OK ? check_cdo_header(pdi + PDI_HEADER_BYTES, plain, err) : st;
    }
    uint64_t end = PDI_HEADER_BYTES + 4ull * encrypted;
    if (end > size) {
        return error_set(err, ST_CORRUPT, "PDI: truncated, %zu bytes of %llu", size,
                         (unsigned long long) end);
    }
    *used = (size_t) end;
    return check_cdo_header(pdi + PDI_HEADER_BYTES, plain, err);
}

// ---- commands ----

struct command {
    struct array * array;
    const uint32_t * words;
    uint32_t n;
};

static uint64_t address64(const uint32_t * hi_lo) {
    return (uint64_t) hi_lo[0] << 32 | hi_lo[1];
}

static bool do_mask_write(const struct command * c) {
    return array_mask_write(c->array, c->words[0], c->words[1], c->words[2]);
}

static bool do_write(const struct command * c) {
    return array_write(c->array, c->words[0], &c->words[1], 1);
}

static bool do_dma_write(const struct command * c) {
    return array_write(c->array, address64(c->words), c->words + 2, c->n - 2);
}

static bool do_mask_write64(const struct command * c) {
    return array_mask_write(c->array, address64(c->words), c->words[2], c->words[3]);
}

static bool do_write64(const struct command * c) {
    return array_write(c->array, address64(c->words), &c->words[2], 1);
}

static bool do_nop(const struct command * c) {
    (void) c;
    return true;
}

static const struct {
    uint32_t opcode;
    uint32_t min, max; // payload words
    bool (*run)(const struct command * c);
} commands[] = {
    {0x102, 3, 3, do_mask_write},   {0x103, 2, 2, do_write},   {0x105, 3, UINT32_MAX, do_dma_write},
    {0x107, 4, 4, do_mask_write64}, {0x108, 3, 3, do_write64}, {0x111, 0, UINT32_MAX, do_nop},
};

static bool run_command(struct array * a, uint32_t opcode, const uint32_t * payload, uint32_t n,
                        size_t at) {
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (commands[i].opcode != opcode) {
            continue;
        }
        if (n < commands[i].min || n > commands[i].max) {
            return array_fail(a, ST_CORRUPT,
                              "CDO: command 0x%x at word %zu has %u words of payload", opcode, at,
                              n);
        }
        struct command c = {a, payload, n};
        if (!commands[i].run(&c)) {
            error_prefix(&a->error, a->error.status, "CDO command 0x%x at word %zu", opcode, at);
            return false;
        }
        return true;
    }
    return array_fail(a, ST_UNSUPPORTED, "CDO: unknown command 0x%x at word %zu", opcode, at);
}

static bool run_commands(struct array * a, const uint32_t * words, size_t n) {
    for (size_t i = 0; i < n;) {
        size_t at = i;
        uint32_t opcode = words[i] & 0xffff, length = words[i] >> 16;
        i++;
        if (length > 255) { // firmware takes eight bits, and would go on elsewhere
            return array_fail(a, ST_CORRUPT, "CDO: command 0x%08x at word %zu is not known",
                              words[at], at);
        }
        if (length == 255) { // the real length follows
            if (i == n) {
                return array_fail(a, ST_CORRUPT, "CDO: ends inside the command at word %zu", at);
            }
            length = words[i++];
        }
        if (length > n - i) {
            return array_fail(a, ST_CORRUPT, "CDO: command at word %zu has %u words, %zu are left",
                              at, length, n - i);
        }
        if (!run_command(a, opcode, words + i, length, at)) {
            return false;
        }
        i += length;
        a->cdo_commands++;
        a->cdo_words += length;
    }
    return true;
}

// A block of a run, from the data.
static bool run_block(struct array * a, const uint32_t * item, const uint32_t * data, size_t at) {
    uint32_t n = item[3] & 0xffff;
    const uint32_t * words = data + item[2] / 4;
    for (uint32_t i = 0; i < n && item[3] >> 16 == PACKED_ZEROS; i++) {
        if (words[i]) { // firmware may leave such a block out
            return array_fail(a, ST_CORRUPT,
                              "CDO: block at word %zu is marked as zeros, but word %u is 0x%x", at,
                              i, words[i]);
        }
    }
    a->cdo_words += n;
    if (!array_write(a, address64(item), words, n)) {
        error_prefix(&a->error, a->error.status, "CDO block at word %zu", at);
        return false;
    }
    return true;
}

// Runs and data lie within the words, by check_packed.
static bool run_packed(struct array * a, const uint32_t * words, size_t n) {
    for (size_t i = 0; i < n;) {
        uint32_t id = words[i], count = words[i + 1], item = packed_words(id);
        i += 2;
        for (uint32_t k = 0; k < count; k++, i += item, a->cdo_commands++) {
            bool ok = id == PACKED_BLOCK ? run_block(a, words + i, words + n, i)
                                         : run_command(a, 0x100 | id, words + i, item, i);
            if (!ok) {
                return false;
            }
            a->cdo_words += item;
        }
    }
    return true;
}

bool pdi_load(struct array * a, const uint8_t * pdi, size_t used) {
    bool packed = is_packed(pdi);
    size_t n = packed ? (used - AT_COMMANDS) / 4
                      : (size_t) load_u32(pdi + AT_PLAIN_WORDS) - CDO_HEADER_WORDS;
    size_t again = used;
    bool same = !packed || (check_packed(pdi, used, &again, NULL) == ST_OK && again == used);
    if (!same || AT_COMMANDS + 4 * n > used) {
        return array_fail(a, ST_CORRUPT, "PDI: changed while it was read");
    }
    uint32_t * words = malloc(n ? n * 4 : 4); // the bytes may lie unaligned
    if (!words) {
        return array_fail(a, ST_NO_MEMORY, "out of memory for a CDO of %zu words", n);
    }
    for (size_t i = 0; i < n; i++) {
        words[i] = load_u32(pdi + PDI_HEADER_BYTES + 4 * (CDO_HEADER_WORDS + i));
    }
    bool ok = packed ? run_packed(a, words, load_u32(pdi + AT_PACKED_BYTES) / 4)
                     : run_commands(a, words, n);
    free(words);
    return ok;
}

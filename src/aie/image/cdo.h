// cdo: what the writer and the reader of CDO commands both know. A command is one word, length of
// its payload << 16 | opcode, then the payload; a length of 255 means that the next word has the
// length.
#pragma once

#include "image.h"

enum {
    CDO_HEADER_WORDS = 5,
    CDO_LONG = 255,
    CDO_VERSION = 0x200,
    CDO_MAGIC = 0x004f4443, // "CDO"

    CDO_MASK_WRITE = 0x102,
    CDO_WRITE = 0x103,
    CDO_BLOCK_WRITE = 0x105,
    CDO_MASK_WRITE64 = 0x107, // these two only in files that were not yet put into a PDI
    CDO_WRITE64 = 0x108,
    CDO_NOP = 0x111,
};

enum { // byte offsets in a PDI
    PDI_TABLE = 0x10,
    PDI_TABLE_WORDS = 31,
    PDI_IDENT_AT = 0x38,
    PDI_IMAGE = 0x90,
    PDI_IMAGE_WORDS = 15,
    PDI_PARTITION = 0xd0,
    PDI_PARTITION_WORDS = 31,
    PDI_PARTITION_TAIL = 3, // last words of it: of packing, which its checksum may leave out
    PDI_PACKED = 0x140,
    PDI_PACKED_BYTES = 0x144, // of commands
    PDI_PACKED_MARK = 0x148,
    PDI_DATA = 0x150,
};

#define PDI_IDENT 0x50504449u

enum {
    PDI_PACKING = 1,         // the one form there is
    PDI_PACKED_MOST = 65535, // commands of a run: the firmware counts what is left in 16 bits
};

// The packer of a PDI is named in its partition header; this mark says that the name was meant.
static inline uint32_t pdi_packed_mark(uint32_t form, uint32_t bytes) {
    return 0x8866u | (form & 0xff) << 8 | form >> 8 | bytes << 16 | bytes >> 16;
}

// Complement of the sum of n words: every header of these formats ends with it.
static inline uint32_t image_checksum(const uint8_t * words, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += load_u32(words + 4 * i);
    }
    return ~sum;
}

// Walks n_words words of commands that lie offset bytes into a file (for messages and offsets).
enum status cdo_walk(const uint8_t * words, size_t n_words, size_t offset, image_visit visit,
                     void * user, struct error * err);

// Checks a CDO header and gives the number of command words behind it, all within size bytes.
enum status cdo_header_read(const uint8_t * data, size_t size, size_t offset, size_t * n_words,
                            struct error * err);

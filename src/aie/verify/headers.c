// headers: what a PDI and a stream say of themselves besides their commands. Firmware that we do
// not know reads them, and another offset, count or form could have it read other commands than we
// did. So each word of a PDI's headers is what every tool writes there, and the counts agree.
#include "model.h"

#include "aie/image/cdo.h"

#include <stdio.h>

enum {
    AT_REVOCATION = 0x098, // some tools fill it
    AT_COPY = 0x0c8,       // 0 or all ones
    AT_PADDED = PDI_PARTITION,
    AT_WORDS = PDI_PARTITION + 4,
    AT_TOTAL = PDI_PARTITION + 8,
    AT_COUNT = PDI_DATA + 12,
};

// Words that are not 0; those of the table below are looked at by themselves.
static const struct {
    uint16_t at;
    uint32_t value;
} fixed[] = {
    {0x000, 0x000000dd}, // bus width
    {0x004, 0x11223344},
    {0x008, 0x55667788},
    {0x00c, 0x99aabbcc},
    {0x010, 0x00040000}, // image header table: version
    {0x014, 1},
    {0x018, PDI_IMAGE / 4},
    {0x01c, 1},
    {0x020, PDI_PARTITION / 4},
    {0x028, 0x14ca8093}, // id code
    {PDI_IDENT_AT, PDI_IDENT},
    {0x03c, 0x00201020}, // sizes of headers
    {0x040, 0x30},
    {0x054, 1},
    {0x090, PDI_PARTITION / 4}, // image header
    {0x094, 1},
    {0x0a0, 0x5f656961}, // "aie_image"
    {0x0a4, 0x67616d69},
    {0x0a8, 0x00000065},
    {0x0b0, 0x1c000000},
    {0x0e8, 0xffffffff}, // partition header
    {0x0ec, 0xffffffff},
    {0x0f0, PDI_DATA / 4},
    {0x0f4, 0x02000006},
    {0x0f8, 1},
};

// Sums are the reader's, lengths and packing come below.
static const uint16_t others[] = {
    0x08c,    0x0cc,    0x14c,      AT_REVOCATION,    AT_COPY,         AT_PADDED,
    AT_WORDS, AT_TOTAL, PDI_PACKED, PDI_PACKED_BYTES, PDI_PACKED_MARK,
};

static bool is_other(uint32_t at) {
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i] == at) {
            return true;
        }
    }
    return false;
}

static uint32_t wanted(uint32_t at) {
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        if (fixed[i].at == at) {
            return fixed[i].value;
        }
    }
    return 0;
}

static bool refuse_word(struct verifier * v, uint32_t at, uint32_t word, const char * known) {
    v->offset = at;
    return verify_refuse(v, "make the PDI again", "its header has 0x%08x there, only %s is known",
                         word, known);
}

static bool check_counts(struct verifier * v) {
    const uint8_t * pdi = v->job->pdi;
    uint32_t words = load_u32(pdi + AT_WORDS), padded = load_u32(pdi + AT_PADDED);
    v->offset = AT_PADDED;
    if (words > UINT32_MAX - 3 || padded != ((words + 3) & ~3u) ||
        load_u32(pdi + AT_TOTAL) != padded) {
        return verify_refuse(v, "make the PDI again",
                             "its partition has %u words, %u with padding and %u in all, which do "
                             "not agree",
                             words, padded, load_u32(pdi + AT_TOTAL));
    }
    v->offset = AT_COUNT;
    uint32_t count = load_u32(pdi + AT_COUNT);
    return words - CDO_HEADER_WORDS == count ||
           verify_refuse(v, "make the PDI again",
                         "the CDO counts %u words of commands, its partition has %u", count,
                         words - CDO_HEADER_WORDS);
}

bool verify_pdi_header(struct verifier * v) {
    const uint8_t * pdi = v->job->pdi;
    struct pdi_packing packing;
    for (uint32_t at = 0; at < PDI_DATA; at += 4) { // the reader has seen that it is there
        char known[16];
        snprintf(known, sizeof known, "0x%08x", wanted(at));
        if (!is_other(at) && load_u32(pdi + at) != wanted(at)) {
            return refuse_word(v, at, load_u32(pdi + at), known);
        }
    }
    uint32_t revocation = load_u32(pdi + AT_REVOCATION), copy = load_u32(pdi + AT_COPY);
    if (revocation > UINT16_MAX) {
        return refuse_word(v, AT_REVOCATION, revocation, "a number of 16 bits");
    }
    if (copy && copy != UINT32_MAX) {
        return refuse_word(v, AT_COPY, copy, "0 or 0xffffffff");
    }
    bool plain = !load_u32(pdi + PDI_PACKED) && !load_u32(pdi + PDI_PACKED_BYTES) &&
                 !load_u32(pdi + PDI_PACKED_MARK);
    if (!plain && !pdi_packing(pdi, v->job->pdi_size, &packing)) {
        return refuse_word(v, PDI_PACKED, load_u32(pdi + PDI_PACKED), "packing with its mark");
    }
    return check_counts(v);
}

bool verify_stream_header(struct verifier * v) {
    const uint8_t * h = v->job->insts;
    if (h[2] != v->map->generation) {
        return verify_refuse(v, "make it again for this device",
                             "it is for device generation %u, %s is %u", h[2], v->map->name,
                             v->map->generation);
    }
    return h[4] <= v->columns ||
           verify_refuse(v, "make it again for this device",
                         "it is for %u columns, the partition has %d", h[4], v->columns);
}

// xclbin: finds the PDIs in an xclbin. The file is an AXLF container: a header of 456 bytes, a
// table of sections, their bytes. What configures an NPU lies in sections of kind AIE_PARTITION: a
// header, a list of PDIs, each with an identifier and a range within the section.
#include "container.h"

#include <stdio.h>

enum { // byte offsets
    AXLF_LENGTH = 304,
    AXLF_N_SECTIONS = 448,
    AXLF_SECTIONS = 456,

    SECTION_BYTES = 40, // kind, name[16], padding, offset, size
    SECTION_NAME = 4,
    SECTION_OFFSET = 24,
    SECTION_SIZE = 32,

    PARTITION_BYTES = 184,
    PARTITION_PDIS = 120, // how many, and where in the section
    PDI_ENTRY_BYTES = 96, // identifier[16], bytes and place of the PDI, more
    PDI_ENTRY_IMAGE = 16,
};

enum { KIND_PDI = 18, KIND_AIE_PARTITION = 32 };

static const char * const kinds[] = {
    [0] = "BITSTREAM",
    [2] = "EMBEDDED_METADATA",
    [6] = "MEM_TOPOLOGY",
    [7] = "CONNECTIVITY",
    [8] = "IP_LAYOUT",
    [14] = "BUILD_METADATA",
    [15] = "KEYVALUE_METADATA",
    [16] = "USER_METADATA",
    [KIND_PDI] = "PDI",
    [20] = "PARTITION_METADATA",
    [22] = "SYSTEM_METADATA",
    [23] = "SOFT_KERNEL",
    [25] = "AIE_METADATA",
    [26] = "GROUP_TOPOLOGY",
    [27] = "GROUP_CONNECTIVITY",
    [29] = "AIE_RESOURCES",
    [31] = "VENDER_METADATA", // as its makers spell it
    [KIND_AIE_PARTITION] = "AIE_PARTITION",
    [33] = "IP_METADATA",
    [34] = "AIE_RESOURCES_BIN",
    [35] = "AIE_TRACE_METADATA",
};

bool image_is_xclbin(const uint8_t * data, size_t size) {
    return size >= 8 && memcmp(data, "xclbin2", 8) == 0;
}

struct visitor {
    image_part_visit visit;
    void * user;
    bool stopped;
};

static void tell(struct visitor * v, const struct image_part * part) {
    v->stopped = v->stopped || !v->visit(v->user, part);
}

static enum status read_partition(const uint8_t * s, size_t size, struct visitor * v,
                                  struct error * err) {
    if (size < PARTITION_BYTES) {
        return error_set(err, ST_CORRUPT, "AIE_PARTITION of %zu bytes, its header has %d", size,
                         PARTITION_BYTES);
    }
    uint32_t n = load_u32(s + PARTITION_PDIS), at = load_u32(s + PARTITION_PDIS + 4);
    if (!range_fits(at, (uint64_t) n * PDI_ENTRY_BYTES, size)) {
        return error_set(err, ST_CORRUPT,
                         "AIE_PARTITION: %u PDIs listed from 0x%x on, the section has %zu bytes", n,
                         at, size);
    }
    for (uint32_t i = 0; i < n && !v->stopped; i++) {
        const uint8_t * entry = s + at + (size_t) i * PDI_ENTRY_BYTES;
        uint32_t bytes = load_u32(entry + PDI_ENTRY_IMAGE);
        uint32_t from = load_u32(entry + PDI_ENTRY_IMAGE + 4);
        if (!range_fits(from, bytes, size)) {
            return error_set(err, ST_CORRUPT,
                             "AIE_PARTITION: PDI %u of %u bytes at 0x%x, the section has %zu", i,
                             bytes, from, size);
        }
        struct image_part part = {.kind = IMAGE_PART_OTHER, .data = s + from, .size = bytes};
        part.kind = image_is_pdi(part.data, bytes) ? IMAGE_PART_PDI : IMAGE_PART_OTHER;
        int used = snprintf(part.name, sizeof part.name, "PDI %u, ", i);
        for (int k = 0; k < 16; k++) {
            used += snprintf(part.name + used, sizeof part.name - (size_t) used, "%02x", entry[k]);
        }
        tell(v, &part);
    }
    return ST_OK;
}

enum status xclbin_read(const uint8_t * data, size_t size, image_part_visit visit, void * user,
                        struct error * err) {
    if (!image_is_xclbin(data, size)) {
        return error_set(err, ST_INVALID, "not an xclbin (no \"xclbin2\" at its start)");
    }
    if (size < AXLF_SECTIONS) {
        return error_set(err, ST_CORRUPT, "xclbin: %zu bytes, its header has %d", size,
                         AXLF_SECTIONS);
    }
    if (load_u64(data + AXLF_LENGTH) > size) {
        return error_set(err, ST_CORRUPT, "xclbin: truncated, %zu bytes of %llu", size,
                         (unsigned long long) load_u64(data + AXLF_LENGTH));
    }
    uint32_t n = load_u32(data + AXLF_N_SECTIONS);
    if (!range_fits(AXLF_SECTIONS, (uint64_t) n * SECTION_BYTES, size)) {
        return error_set(err, ST_CORRUPT, "xclbin: %u sections do not fit into %zu bytes", n, size);
    }
    struct visitor v = {visit, user, false};
    for (uint32_t i = 0; i < n && !v.stopped; i++) {
        const uint8_t * h = data + AXLF_SECTIONS + (size_t) i * SECTION_BYTES;
        uint32_t kind = load_u32(h);
        uint64_t offset = load_u64(h + SECTION_OFFSET), bytes = load_u64(h + SECTION_SIZE);
        if (!range_fits(offset, bytes, size)) {
            return error_set(
                err, ST_CORRUPT,
                "xclbin: section %u (kind %u) of %llu bytes at 0x%llx, the file has %zu", i, kind,
                (unsigned long long) bytes, (unsigned long long) offset, size);
        }
        struct image_part part = {
            .kind = IMAGE_PART_OTHER, .data = data + offset, .size = (size_t) bytes};
        const char * known = kind < sizeof kinds / sizeof kinds[0] ? kinds[kind] : NULL;
        char name[17];
        printable_name(name, sizeof name, h + SECTION_NAME, 16);
        if (known) {
            snprintf(part.name, sizeof part.name, "%s%s%s", known, *name ? ", " : "", name);
        } else {
            snprintf(part.name, sizeof part.name, "kind %u%s%s", kind, *name ? ", " : "", name);
        }
        if (kind == KIND_PDI && image_is_pdi(part.data, part.size)) {
            part.kind = IMAGE_PART_PDI;
        }
        tell(&v, &part);
        if (kind == KIND_AIE_PARTITION && !v.stopped) {
            enum status st = read_partition(part.data, part.size, &v, err);
            if (st != ST_OK) {
                return error_prefix(err, st, "xclbin: section %u", i);
            }
        }
    }
    return ST_OK;
}

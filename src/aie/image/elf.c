// elf: two kinds of ELF files, of 32 or 64 bits. The program of one core, as a compiler links it
// (machine 264): its loadable segments, or, before linking, its sections of code. And control code
// as the vendor's assembler wraps it: instruction streams in sections named .ctrltext, perhaps with
// PDIs beside them.
#include "container.h"

#include <stdio.h>

enum {
    EM_AIE = 264,
    PT_LOAD = 1,
    PF_X = 1,
    SHT_NOBITS = 8,
    SHF_EXECINSTR = 4,
};

// Where fields lie, for 32 and 64 bits; what is an address, an offset or a size is a word.
static const struct layout {
    uint8_t header, word;
    uint8_t phoff, shoff, phentsize; // then phnum, shentsize, shnum, shstrndx, 2 bytes each
    uint8_t ph_bytes, p_flags, p_offset, p_vaddr, p_filesz;
    uint8_t sh_bytes, sh_flags, sh_addr, sh_offset, sh_size;
} layouts[2] = {
    {52, 4, 28, 32, 42, 32, 24, 4, 8, 16, 40, 8, 12, 16, 20},
    {64, 8, 32, 40, 54, 56, 4, 8, 16, 32, 64, 8, 16, 24, 32},
};

struct elf {
    const uint8_t * data;
    size_t size;
    const struct layout * l;
    uint32_t machine;
    uint64_t ph, sh;
    uint32_t n_ph, n_sh, strings;
};

static uint64_t load_word(const struct elf * e, const uint8_t * p) {
    return e->l->word == 4 ? load_u32(p) : load_u64(p);
}

static uint32_t load_half(const uint8_t * p) {
    return p[0] | (uint32_t) p[1] << 8;
}

bool image_is_elf(const uint8_t * data, size_t size) {
    return size >= 4 && memcmp(data, "\177ELF", 4) == 0;
}

static enum status open_elf(struct elf * e, const uint8_t * data, size_t size, struct error * err) {
    if (!image_is_elf(data, size)) {
        return error_set(err, ST_INVALID, "not an ELF file");
    }
    if (size < 52 || (data[4] != 1 && data[4] != 2) || data[5] != 1) {
        return error_set(err, ST_CORRUPT, "ELF: not a little-endian file of 32 or 64 bits");
    }
    *e = (struct elf){.data = data, .size = size, .l = &layouts[data[4] - 1]};
    const struct layout * l = e->l;
    if (size < l->header) {
        return error_set(err, ST_CORRUPT, "ELF: %zu bytes, its header has %d", size, l->header);
    }
    e->machine = load_half(data + 18);
    e->ph = load_word(e, data + l->phoff);
    e->sh = load_word(e, data + l->shoff);
    e->n_ph = load_half(data + l->phentsize + 2);
    e->n_sh = load_half(data + l->phentsize + 6);
    e->strings = load_half(data + l->phentsize + 8);
    if (e->n_ph && (load_half(data + l->phentsize) != l->ph_bytes ||
                    !range_fits(e->ph, (uint64_t) e->n_ph * l->ph_bytes, size))) {
        return error_set(err, ST_CORRUPT, "ELF: %u segments at 0x%llx do not fit into %zu bytes",
                         e->n_ph, (unsigned long long) e->ph, size);
    }
    if (e->n_sh && (load_half(data + l->phentsize + 4) != l->sh_bytes ||
                    !range_fits(e->sh, (uint64_t) e->n_sh * l->sh_bytes, size))) {
        return error_set(err, ST_CORRUPT, "ELF: %u sections at 0x%llx do not fit into %zu bytes",
                         e->n_sh, (unsigned long long) e->sh, size);
    }
    return ST_OK;
}

static const uint8_t * section(const struct elf * e, uint32_t i) {
    return e->data + e->sh + (size_t) i * e->l->sh_bytes;
}

// The bytes of a section as a part, with its name; false with an error when they are not there.
static bool section_part(const struct elf * e, uint32_t i, struct image_part * part,
                         struct error * err) {
    const uint8_t * h = section(e, i);
    uint64_t offset = load_word(e, h + e->l->sh_offset), bytes = load_word(e, h + e->l->sh_size);
    *part = (struct image_part){.kind = IMAGE_PART_OTHER};
    if (e->strings < e->n_sh) {
        const uint8_t * s = section(e, e->strings);
        uint64_t at = load_word(e, s + e->l->sh_offset), n = load_word(e, s + e->l->sh_size);
        uint32_t name = load_u32(h);
        if (range_fits(at, n, e->size) && name < n) {
            printable_name(part->name, sizeof part->name, e->data + at + name, (size_t) n - name);
        }
    }
    if (load_u32(h + 4) == SHT_NOBITS || load_u32(h + 4) == 0) {
        offset = bytes = 0;
    }
    if (!range_fits(offset, bytes, e->size)) {
        error_set(err, ST_CORRUPT, "ELF: section %u (%s) of %llu bytes at 0x%llx, the file has %zu",
                  i, part->name, (unsigned long long) bytes, (unsigned long long) offset, e->size);
        return false;
    }
    part->data = e->data + offset;
    part->size = (size_t) bytes;
    part->address = (uint32_t) load_word(e, h + e->l->sh_addr);
    return true;
}

static enum status read_segments(const struct elf * e, image_part_visit visit, void * user,
                                 struct error * err) {
    for (uint32_t i = 0; i < e->n_ph; i++) {
        const uint8_t * h = e->data + e->ph + (size_t) i * e->l->ph_bytes;
        uint64_t offset = load_word(e, h + e->l->p_offset);
        uint64_t bytes = load_word(e, h + e->l->p_filesz);
        if (load_u32(h) != PT_LOAD) {
            continue;
        }
        if (!range_fits(offset, bytes, e->size)) {
            return error_set(err, ST_CORRUPT,
                             "ELF: segment %u of %llu bytes at 0x%llx, the file has %zu", i,
                             (unsigned long long) bytes, (unsigned long long) offset, e->size);
        }
        bool code = load_u32(h + e->l->p_flags) & PF_X;
        struct image_part part = {.kind = code ? IMAGE_PART_PROGRAM : IMAGE_PART_OTHER,
                                  .address = (uint32_t) load_word(e, h + e->l->p_vaddr),
                                  .data = e->data + offset,
                                  .size = (size_t) bytes};
        snprintf(part.name, sizeof part.name, "segment %u%s", i, code ? ", code" : ", data");
        if (!visit(user, &part)) {
            break;
        }
    }
    return ST_OK;
}

static enum status read_sections(const struct elf * e, image_part_visit visit, void * user,
                                 struct error * err) {
    for (uint32_t i = 1; i < e->n_sh; i++) {
        struct image_part part;
        if (!section_part(e, i, &part, err)) {
            return ST_CORRUPT;
        }
        bool code = load_word(e, section(e, i) + e->l->sh_flags) & SHF_EXECINSTR;
        if (e->machine == EM_AIE && code) {
            part.kind = IMAGE_PART_PROGRAM;
        } else if (image_is_pdi(part.data, part.size)) {
            part.kind = IMAGE_PART_PDI;
        } else if (strncmp(part.name, ".ctrltext", 9) == 0 && image_is_txn(part.data, part.size)) {
            part.kind = IMAGE_PART_TXN;
        }
        if (!visit(user, &part)) {
            break;
        }
    }
    return ST_OK;
}

static bool has_control_code(const struct elf * e) {
    for (uint32_t i = 1; i < e->n_sh; i++) {
        struct image_part part;
        if (section_part(e, i, &part, NULL) && strncmp(part.name, ".ctrltext", 9) == 0) {
            return true;
        }
    }
    return false;
}

enum status elf_read(const uint8_t * data, size_t size, image_part_visit visit, void * user,
                     struct error * err) {
    struct elf e;
    enum status st = open_elf(&e, data, size, err);
    if (st != ST_OK) {
        return st;
    }
    if (e.machine != EM_AIE && !has_control_code(&e)) {
        return error_set(err, ST_UNSUPPORTED,
                         "ELF for machine %u without sections named .ctrltext: neither the program "
                         "of a core (machine %d) nor control code",
                         e.machine, EM_AIE);
    }
    return e.machine == EM_AIE && e.n_ph ? read_segments(&e, visit, user, err)
                                         : read_sections(&e, visit, user, err);
}

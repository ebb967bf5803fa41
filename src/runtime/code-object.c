// code-object: the ELF reader and loader behind code-object.h. Positions inside the file and
// virtual addresses are checked where they are turned into pointers, in file_at() and image_at(),
// and nowhere else are pointers made of them.
#include "code-object.h"

#include "base/gpus.h"

#include <inttypes.h>
#include <string.h>

enum {
    // ELF header
    EHDR_BYTES = 64,
    EI_OSABI = 7,
    EI_ABIVERSION = 8,
    E_TYPE = 16,
    E_MACHINE = 18,
    E_VERSION = 20,
    E_PHOFF = 32,
    E_FLAGS = 48,
    E_EHSIZE = 52,
    E_PHENTSIZE = 54,
    E_PHNUM = 56,
    ET_DYN = 3,
    EM_AMDGPU = 224,
    OSABI_AMDGPU_HSA = 64,
    // program headers
    PHDR_BYTES = 56,
    MAX_PHDRS = 64,
    PT_LOAD = 1,
    PT_DYNAMIC = 2,
    // dynamic section
    DYN_BYTES = 16,
    DT_NULL = 0,
    DT_PLTRELSZ = 2,
    DT_HASH = 4,
    DT_STRTAB = 5,
    DT_SYMTAB = 6,
    DT_RELA = 7,
    DT_RELASZ = 8,
    DT_RELAENT = 9,
    DT_STRSZ = 10,
    DT_SYMENT = 11,
    DT_REL = 17,
    DT_PLTREL = 20,
    DT_JMPREL = 23,
    DT_KNOWN = 24, // one past the last tag that we look at
    // symbols and relocations
    SYM_BYTES = 24,
    STT_OBJECT = 1,
    STB_GLOBAL = 1,
    STB_WEAK = 2,
    RELA_BYTES = 24,
    // kernel descriptor
    KD_GROUP = 0,
    KD_PRIVATE = 4,
    KD_KERNARG = 8,
    KD_ENTRY = 16,
    KD_PROPERTIES = 56,
    KD_DYNAMIC_STACK = 1 << 11,
};

// Relocations that may be left for the loader, by their numbers in the ABI.
enum reloc {
    R_NONE = 0,
    R_ABS32_LO = 1,
    R_ABS32_HI = 2,
    R_ABS64 = 3,
    R_REL32 = 4,
    R_REL64 = 5,
    R_ABS32 = 6,
    R_REL32_LO = 10,
    R_REL32_HI = 11,
    R_RELATIVE64 = 13,
};

#define BAD(...) error_set(err, ST_CORRUPT, "code object: " __VA_ARGS__)

const char * code_mach_name(uint32_t mach) {
    const struct gpu_name * gpu = gpu_by_mach(mach);
    return gpu ? gpu->name : NULL;
}

static uint32_t load_u16(const uint8_t * p) {
    return (uint32_t) p[0] | (uint32_t) p[1] << 8;
}

static const uint8_t * file_at(const struct code_object * co, uint64_t offset, uint64_t len) {
    return offset <= co->size && len <= co->size - offset ? co->data + offset : NULL;
}

// ---- opening ----

static enum status read_features(struct code_object * co, uint32_t flags, struct error * err) {
    co->mach = flags & 0xff;
    if (co->version == 3) { // two bits; what is not on is off
        co->xnack = flags & 0x100 ? CODE_FEATURE_ON : CODE_FEATURE_ANY;
        co->sramecc = flags & 0x200 ? CODE_FEATURE_ON : CODE_FEATURE_ANY;
    } else {
        co->xnack = (enum code_feature) bits(flags, 9, 8);
        co->sramecc = (enum code_feature) bits(flags, 11, 10);
    }
    return co->mach ? ST_OK : BAD("e_flags 0x%" PRIx32 " name no processor", flags);
}

static enum status add_segment(struct code_object * co, const uint8_t * ph, struct error * err) {
    struct code_segment s = {
        .flags = load_u32(ph + 4) & (CODE_R | CODE_W | CODE_X),
        .offset = load_u64(ph + 8),
        .vaddr = load_u64(ph + 16),
        .file_size = load_u64(ph + 32),
        .size = load_u64(ph + 40),
    };
    uint64_t align = load_u64(ph + 48);
    if (s.size == 0) {
        return ST_OK;
    }
    if (co->n_segments == CODE_MAX_SEGMENTS) {
        return BAD("more than %d segments to load", CODE_MAX_SEGMENTS);
    }
    if (s.file_size > s.size || !file_at(co, s.offset, s.file_size)) {
        return BAD("segment %d: %" PRIu64 " bytes at offset %" PRIu64 " for %" PRIu64
                   " in memory, in a file of %zu",
                   co->n_segments, s.file_size, s.offset, s.size, co->size);
    }
    if (align > CODE_PAGE || (align & (align - 1)) ||
        (align && (s.vaddr - s.offset) & (align - 1))) {
        return BAD("segment %d: aligned to %" PRIu64 "; powers of two up to %d are loaded",
                   co->n_segments, align, CODE_PAGE);
    }
    uint64_t before = 0;
    if (co->n_segments) {
        before = co->segments[co->n_segments - 1].vaddr + co->segments[co->n_segments - 1].size;
    } else {
        co->low = s.vaddr / CODE_PAGE * CODE_PAGE;
    }
    if (s.vaddr < before || s.vaddr > UINT64_MAX - s.size) {
        return BAD("segment %d: address 0x%" PRIx64 " overlaps the one before or wraps around",
                   co->n_segments, s.vaddr);
    }
    uint64_t span = s.vaddr + s.size - co->low;
    if (span > CODE_MAX_SPAN) {
        return BAD("segment %d ends %" PRIu64 " bytes behind the first; at most %d are loaded",
                   co->n_segments, span, CODE_MAX_SPAN);
    }
    co->span = (span + CODE_PAGE - 1) / CODE_PAGE * CODE_PAGE;
    co->segments[co->n_segments++] = s;
    return ST_OK;
}

static enum status read_headers(struct code_object * co, struct error * err) {
    const uint8_t * e = co->data;
    uint64_t phoff = load_u64(e + E_PHOFF);
    uint32_t n = load_u16(e + E_PHNUM);
    if (load_u16(e + E_PHENTSIZE) != PHDR_BYTES || n == 0 || n > MAX_PHDRS) {
        return BAD("%" PRIu32 " program headers of %" PRIu32 " bytes", n,
                   load_u16(e + E_PHENTSIZE));
    }
    const uint8_t * ph = file_at(co, phoff, (uint64_t) n * PHDR_BYTES);
    if (!ph) {
        return BAD("program headers at offset %" PRIu64 ", behind the end", phoff);
    }
    for (uint32_t i = 0; i < n; i++, ph += PHDR_BYTES) {
        enum status st = ST_OK;
        if (load_u32(ph) == PT_LOAD) {
            st = add_segment(co, ph, err);
        } else if (load_u32(ph) == PT_DYNAMIC) {
            if (co->dynamic_size) {
                return BAD("two dynamic sections");
            }
            co->dynamic = load_u64(ph + 16);
            co->dynamic_size = load_u64(ph + 40);
        }
        if (st != ST_OK) {
            return st;
        }
    }
    return co->n_segments ? ST_OK : BAD("no segment to load");
}

enum status code_object_open(const uint8_t * data, size_t size, struct code_object * co,
                             struct error * err) {
    *co = (struct code_object){.data = data, .size = size};
    static const uint8_t ident[7] = {0x7f, 'E', 'L', 'F', 2, 1, 1}; // 64 bits, little-endian
    static const char bundle[] = "__CLANG_OFFLOAD_BUNDLE__";
    if (size >= sizeof bundle - 1 && !memcmp(data, bundle, sizeof bundle - 1)) {
        return error_set(err, ST_UNSUPPORTED,
                         "code object: an offload bundle, not an ELF file; take "
                         "the code object out of it (clang-offload-bundler)");
    }
    if (size < EHDR_BYTES || memcmp(data, ident, sizeof ident) != 0) {
        return BAD("not a little-endian ELF64 file (%zu bytes)", size);
    }
    if (load_u16(data + E_MACHINE) != EM_AMDGPU || data[EI_OSABI] != OSABI_AMDGPU_HSA) {
        return BAD("machine %" PRIu32 ", OS ABI %d; an AMD GPU with HSA has %d, %d",
                   load_u16(data + E_MACHINE), data[EI_OSABI], EM_AMDGPU, OSABI_AMDGPU_HSA);
    }
    if (load_u16(data + E_TYPE) != ET_DYN || load_u32(data + E_VERSION) != 1 ||
        load_u16(data + E_EHSIZE) != EHDR_BYTES) {
        return BAD("ELF type %" PRIu32 ", version %" PRIu32 "; only linked objects (type %d, "
                   "version 1) can be loaded",
                   load_u16(data + E_TYPE), load_u32(data + E_VERSION), ET_DYN);
    }
    co->version = data[EI_ABIVERSION] + 2;
    if (co->version < 3 || co->version > 6) {
        return error_set(err, ST_UNSUPPORTED, "code object: format version %d; 3 to 6 are loaded",
                         co->version);
    }
    enum status st = read_features(co, load_u32(data + E_FLAGS), err);
    return st == ST_OK ? read_headers(co, err) : st;
}

// ---- loading ----

static const struct code_segment * segment_at(const struct code_object * co, uint64_t vaddr,
                                              uint64_t len) {
    for (int i = 0; i < co->n_segments; i++) {
        const struct code_segment * s = &co->segments[i];
        if (vaddr >= s->vaddr && vaddr - s->vaddr <= s->size &&
            len <= s->size - (vaddr - s->vaddr)) {
            return s;
        }
    }
    return NULL;
}

static uint8_t * image_at(const struct code_image * im, uint64_t vaddr, uint64_t len) {
    return segment_at(im->co, vaddr, len) ? im->memory + (vaddr - im->co->low) : NULL;
}

static enum status read_dynamic(struct code_image * im, uint64_t tags[DT_KNOWN],
                                struct error * err) {
    const struct code_object * co = im->co;
    const uint8_t * p = image_at(im, co->dynamic, co->dynamic_size);
    if (!p) {
        return BAD("the dynamic section lies outside the segments");
    }
    for (uint64_t i = 0; i < co->dynamic_size / DYN_BYTES; i++, p += DYN_BYTES) {
        uint64_t tag = load_u64(p);
        if (tag == DT_NULL) {
            break;
        }
        if (tag < DT_KNOWN) {
            tags[tag] = load_u64(p + 8);
        }
    }
    if (tags[DT_REL] || (tags[DT_RELAENT] && tags[DT_RELAENT] != RELA_BYTES) ||
        (tags[DT_SYMENT] && tags[DT_SYMENT] != SYM_BYTES) ||
        (tags[DT_JMPREL] && tags[DT_PLTREL] != DT_RELA)) {
        return BAD("relocations or symbols in a form that AMD GPUs do not use");
    }
    return ST_OK;
}

static enum status find_symbols(struct code_image * im, const uint64_t tags[DT_KNOWN],
                                struct error * err) {
    if (!tags[DT_SYMTAB]) {
        return ST_OK; // nothing to find by name
    }
    const uint8_t * hash = tags[DT_HASH] ? image_at(im, tags[DT_HASH], 8) : NULL;
    if (!hash) { // it alone says how many symbols there are
        return BAD("symbols without a hash table (link with --hash-style=both)");
    }
    im->symbols = tags[DT_SYMTAB];
    im->n_symbols = load_u32(hash + 4);
    im->strings = tags[DT_STRTAB];
    im->n_strings = tags[DT_STRSZ];
    const uint8_t * strings = image_at(im, im->strings, im->n_strings);
    if (!image_at(im, im->symbols, im->n_symbols * SYM_BYTES) || !strings || !im->n_strings ||
        strings[im->n_strings - 1] != '\0') {
        return BAD("%" PRIu64 " symbols at 0x%" PRIx64 " with %" PRIu64
                   " bytes of names at 0x%" PRIx64 " lie outside the segments",
                   im->n_symbols, im->symbols, im->n_strings, im->strings);
    }
    return ST_OK;
}

static const char * symbol_name(const struct code_image * im, const uint8_t * sym) {
    uint32_t at = load_u32(sym);
    return at < im->n_strings ? (const char *) image_at(im, im->strings, im->n_strings) + at : NULL;
}

// Device address of symbol number i; 0 stands for "no symbol".
static enum status symbol_address(const struct code_image * im, uint64_t i, code_define * define,
                                  void * user, uint64_t * address, struct error * err) {
    *address = 0;
    if (i == 0) {
        return ST_OK;
    }
    if (i >= im->n_symbols) {
        return BAD("a relocation names symbol %" PRIu64 " of %" PRIu64, i, im->n_symbols);
    }
    const uint8_t * sym = image_at(im, im->symbols + i * SYM_BYTES, SYM_BYTES);
    if (load_u16(sym + 6) != 0) { // section 0: undefined
        *address = load_u64(sym + 8) + im->delta;
        return ST_OK;
    }
    const char * name = symbol_name(im, sym);
    if (!name) {
        return BAD("symbol %" PRIu64 " has no name", i);
    }
    if (define && define(user, name, address)) {
        return ST_OK;
    }
    return sym[4] >> 4 == STB_WEAK
               ? ST_OK
               : error_set(err, ST_NOT_FOUND, "code object: variable '%.200s' is not defined",
                           name);
}

static enum status relocate_one(const struct code_image * im, const uint8_t * rela,
                                code_define * define, void * user, struct error * err) {
    uint64_t at = load_u64(rela), info = load_u64(rela + 8), addend = load_u64(rela + 16);
    uint32_t type = (uint32_t) info;
    uint64_t s, place = at + im->delta;
    enum status st = symbol_address(im, info >> 32, define, user, &s, err);
    if (st != ST_OK || type == R_NONE) {
        return st;
    }
    bool wide = type == R_ABS64 || type == R_REL64 || type == R_RELATIVE64;
    uint8_t * p = image_at(im, at, wide ? 8 : 4);
    if (!p) {
        return BAD("a relocation at 0x%" PRIx64 ", outside the segments", at);
    }
    s += addend;
    switch (type) {
    case R_ABS64:
        store_u64(p, s);
        return ST_OK;
    case R_REL64:
        store_u64(p, s - place);
        return ST_OK;
    case R_RELATIVE64:
        store_u64(p, addend + im->delta);
        return ST_OK;
    case R_ABS32:
    case R_ABS32_LO:
        store_u32(p, (uint32_t) s);
        return ST_OK;
    case R_ABS32_HI:
        store_u32(p, (uint32_t) (s >> 32));
        return ST_OK;
    case R_REL32:
    case R_REL32_LO:
        store_u32(p, (uint32_t) (s - place));
        return ST_OK;
    case R_REL32_HI:
        store_u32(p, (uint32_t) ((s - place) >> 32));
        return ST_OK;
    default:
        return BAD("relocation type %" PRIu32 " at 0x%" PRIx64 " is for linkers", type, at);
    }
}

static enum status relocate(const struct code_image * im, uint64_t table, uint64_t bytes,
                            code_define * define, void * user, struct error * err) {
    if (bytes % RELA_BYTES || (bytes && !image_at(im, table, bytes))) {
        return BAD("%" PRIu64 " bytes of relocations at 0x%" PRIx64 ", outside the segments", bytes,
                   table);
    }
    for (uint64_t i = 0; i < bytes; i += RELA_BYTES) {
        // A relocation may overwrite a later one: each is read when its turn comes.
        uint8_t rela[RELA_BYTES];
        memcpy(rela, image_at(im, table + i, RELA_BYTES), RELA_BYTES);
        enum status st = relocate_one(im, rela, define, user, err);
        if (st != ST_OK) {
            return st;
        }
    }
    return ST_OK;
}

enum status code_object_load(const struct code_object * co, uint8_t * memory, uint64_t base,
                             code_define * define, void * user, struct code_image * image,
                             struct error * err) {
    *image = (struct code_image){.co = co, .memory = memory, .delta = base - co->low};
    for (int i = 0; i < co->n_segments; i++) {
        const struct code_segment * s = &co->segments[i];
        if (s->file_size) {
            memcpy(memory + (s->vaddr - co->low), co->data + s->offset, s->file_size);
        }
    }
    if (co->dynamic_size == 0) {
        return ST_OK;
    }
    uint64_t tags[DT_KNOWN] = {0};
    enum status st = read_dynamic(image, tags, err);
    if (st == ST_OK) {
        st = find_symbols(image, tags, err);
    }
    if (st == ST_OK) {
        st = relocate(image, tags[DT_RELA], tags[DT_RELASZ], define, user, err);
    }
    if (st == ST_OK) {
        st = relocate(image, tags[DT_JMPREL], tags[DT_PLTRELSZ], define, user, err);
    }
    // Relocations may have been aimed at the names.
    if (st == ST_OK && image->n_strings &&
        *image_at(image, image->strings + image->n_strings - 1, 1) != '\0') {
        st = BAD("relocations overwrite the symbol names");
    }
    return st;
}

// ---- symbols ----

static enum status read_kernel(const struct code_image * im, uint64_t vaddr,
                               struct code_symbol * symbol, struct error * err) {
    const uint8_t * kd = image_at(im, vaddr, CODE_DESCRIPTOR_BYTES);
    if (!kd || symbol->size != CODE_DESCRIPTOR_BYTES || vaddr % CODE_DESCRIPTOR_BYTES) {
        return BAD("the descriptor of kernel '%.100s' is %" PRIu64 " bytes at 0x%" PRIx64,
                   symbol->name, symbol->size, vaddr);
    }
    uint64_t entry = vaddr + load_u64(kd + KD_ENTRY);
    const struct code_segment * text = segment_at(im->co, entry, 4);
    if (!text || !(text->flags & CODE_X) || entry % 4) {
        return BAD("kernel '%.100s' starts at 0x%" PRIx64 ", where no code lies", symbol->name,
                   entry);
    }
    symbol->group_bytes = load_u32(kd + KD_GROUP);
    symbol->private_bytes = load_u32(kd + KD_PRIVATE);
    symbol->kernarg_bytes = load_u32(kd + KD_KERNARG);
    symbol->dynamic_stack = load_u16(kd + KD_PROPERTIES) & KD_DYNAMIC_STACK;
    return ST_OK;
}

enum status code_image_symbols(const struct code_image * im,
                               bool (*visit)(void * user, const struct code_symbol * symbol),
                               void * user, struct error * err) {
    for (uint64_t i = 1; i < im->n_symbols; i++) {
        const uint8_t * sym = image_at(im, im->symbols + i * SYM_BYTES, SYM_BYTES);
        int type = sym[4] & 15, binding = sym[4] >> 4;
        if (type != STT_OBJECT || load_u16(sym + 6) == 0 ||
            (binding != STB_GLOBAL && binding != STB_WEAK)) {
            continue;
        }
        uint64_t vaddr = load_u64(sym + 8);
        struct code_symbol out = {
            .name = symbol_name(im, sym),
            .is_global = binding == STB_GLOBAL,
            .address = vaddr + im->delta,
            .size = load_u64(sym + 16),
        };
        const struct code_segment * s = segment_at(im->co, vaddr, out.size);
        if (!out.name || !s) {
            return BAD("symbol %" PRIu64 " lies outside the segments or has no name", i);
        }
        out.is_readonly = !(s->flags & CODE_W);
        size_t n = strlen(out.name);
        out.is_kernel = n > 3 && !strcmp(out.name + n - 3, ".kd");
        if (out.is_kernel) {
            enum status st = read_kernel(im, vaddr, &out, err);
            if (st != ST_OK) {
                return st;
            }
        }
        if (!visit(user, &out)) {
            break;
        }
    }
    return ST_OK;
}

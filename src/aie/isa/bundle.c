// bundle: slots to bytes and back. The low bits of the first byte give the size, the fixed bits the
// format among those of that size. What decodes encodes to the same bytes (ignored bits as zero),
// because no two formats of a size hold the same slots.
#include "aie/isa/target.h"

#include <string.h>

struct bits128 {
    uint64_t at[2];
};

static uint64_t extract(const struct bits128 * b, int lsb, int width) {
    uint64_t v = b->at[lsb / 64] >> lsb % 64;
    if (lsb < 64 && lsb + width > 64 && lsb) {
        v |= b->at[1] << (64 - lsb);
    }
    return v & ((1ull << width) - 1);
}

// Turns over the bits of v.
static void turn(uint64_t b[2], int lsb, int width, uint64_t v) {
    b[lsb / 64] ^= v << lsb % 64;
    if (lsb < 64 && lsb + width > 64) {
        b[1] ^= v >> (64 - lsb);
    }
}

static enum status not_decoded(struct error * err, const uint8_t * bytes, size_t n,
                               const char * why) {
    char hex[3 * AIE_MAX_BUNDLE_BYTES + 1] = "";
    for (size_t i = 0; i < n && i < AIE_MAX_BUNDLE_BYTES; i++) {
        static const char digits[] = "0123456789abcdef";
        hex[3 * i] = i ? ' ' : '[';
        hex[3 * i + 1] = digits[bytes[i] >> 4];
        hex[3 * i + 2] = digits[bytes[i] & 15];
        hex[3 * i + 3] = 0;
    }
    return error_set(err, ST_INVALID, "bundle %s]: %s", n ? hex : "[", why);
}

int aie_bundle_size(const struct aie_isa * isa, uint8_t first_byte) {
    return isa->target->size_of_nibble[first_byte & 15];
}

static const struct isa_format * find_format(const struct aie_isa * isa, int size,
                                             const struct bits128 * b) {
    for (int i = isa->formats_from[size / 2]; i < isa->formats_from[size / 2 + 1]; i++) {
        const struct isa_format * f = &isa->formats[i];
        if ((b->at[0] & f->mask[0]) == f->value[0] && (b->at[1] & f->mask[1]) == f->value[1]) {
            return f;
        }
    }
    return NULL;
}

enum status aie_bundle_split(const struct aie_isa * isa, const uint8_t * bytes, size_t available,
                             struct aie_words * out, struct error * err) {
    out->size = out->present = 0;
    if (!available) {
        return not_decoded(err, bytes, 0, "no bytes left");
    }
    size_t size = (size_t) aie_bundle_size(isa, bytes[0]);
    if (available < size) {
        return not_decoded(err, bytes, available, "cut off: its first byte asks for more");
    }
    uint8_t padded[16] = {0};
    memcpy(padded, bytes, size);
    struct bits128 b = {{load_u64(padded), load_u64(padded + 8)}};
    const struct isa_format * f = find_format(isa, (int) size, &b);
    if (!f) {
        return not_decoded(err, bytes, size, "no format of this size has these bits");
    }
    out->size = (uint8_t) size;
    out->present = f->slots;
    for (unsigned left = f->slots; left; left &= left - 1) {
        int s = __builtin_ctz(left);
        out->word[s] = extract(&b, f->lsb[s], isa->target->slot_bits[s]);
    }
    return ST_OK;
}

enum status aie_bundle_decode(const struct aie_isa * isa, const uint8_t * bytes, size_t available,
                              struct aie_bundle * out, struct error * err) {
    struct aie_words words;
    enum status st = aie_bundle_split(isa, bytes, available, &words, err);
    out->size = words.size;
    out->present = words.present;
    for (unsigned left = words.present; left; left &= left - 1) {
        int s = __builtin_ctz(left);
        struct error inner;
        if (aie_slot_decode(isa, (enum aie_slot) s, words.word[s], &out->slot[s], &inner)) {
            return not_decoded(err, bytes, words.size, inner.text);
        }
    }
    return st;
}

// The format for these slots: exact before larger, shorter before longer.
static const struct isa_format * choose_format(const struct aie_isa * isa, int size,
                                               unsigned present) {
    const struct isa_format * best = NULL;
    int from = size ? isa->formats_from[size / 2] : 0;
    int end = size ? isa->formats_from[size / 2 + 1] : isa->target->n_formats;
    for (int i = from; i < end; i++) {
        const struct isa_format * f = &isa->formats[i];
        if ((f->slots & present) != present) {
            continue;
        }
        if (f->slots == present && (size || !best || f->bytes <= best->bytes)) {
            return f; // rows are in order of size
        }
        if (!best || f->bytes < best->bytes) {
            best = f;
        }
    }
    return best;
}

void isa_build_formats(struct aie_isa * isa) {
    for (int size = 0; size <= AIE_MAX_BUNDLE_BYTES; size += 2) {
        for (unsigned present = 0; present < 1u << AIE_SLOT_COUNT; present++) {
            const struct isa_format * f = choose_format(isa, size, present);
            isa->format_for[size / 2][present] = f ? (uint8_t) (f - isa->formats + 1) : 0;
        }
    }
    for (int s = 0; s < AIE_SLOT_COUNT; s++) {
        struct error err;
        struct aie_inst nop = {.op = isa->target->nops[s]};
        if (aie_slot_encode(isa, &nop, &isa->nop_words[s], &err) != ST_OK) {
            isa->nop_words[s] = 0; // no format has this slot without an instruction
        }
    }
    for (int i = 0; i < isa->target->n_formats; i++) {
        struct isa_format * f = &isa->formats[i];
        memcpy(f->idle, f->value, sizeof f->idle);
        for (unsigned left = f->slots; left; left &= left - 1) {
            int s = __builtin_ctz(left);
            turn(f->idle, f->lsb[s], isa->target->slot_bits[s], isa->nop_words[s]);
        }
    }
}

unsigned aie_bundle_sizes(const struct aie_isa * isa, unsigned present) {
    unsigned sizes = 0;
    for (int half = 1; half <= AIE_MAX_BUNDLE_BYTES / 2; half++) {
        sizes |= isa->format_for[half][present] ? 1u << half : 0;
    }
    return sizes;
}

enum status aie_bundle_join(const struct aie_isa * isa, const struct aie_words * in,
                            uint8_t bytes[AIE_MAX_BUNDLE_BYTES], int * size, struct error * err) {
    bool is_size = in->size <= AIE_MAX_BUNDLE_BYTES && in->size % 2 == 0;
    int chosen = is_size ? isa->format_for[in->size / 2][in->present] : 0;
    if (!chosen) {
        return error_set(err, ST_INVALID,
                         "no bundle of %d bytes holds slots 0x%02x (bits of enum aie_slot)",
                         in->size, in->present);
    }
    const struct isa_format * f = &isa->formats[chosen - 1];
    uint64_t b[2] = {f->idle[0], f->idle[1]};
    for (unsigned left = in->present; left; left &= left - 1) {
        int s = __builtin_ctz(left);
        turn(b, f->lsb[s], isa->target->slot_bits[s], in->word[s] ^ isa->nop_words[s]);
    }
    store_u64(bytes, b[0]);
    store_u64(bytes + 8, b[1]);
    *size = f->bytes;
    return ST_OK;
}

enum status aie_bundle_encode(const struct aie_isa * isa, const struct aie_bundle * in,
                              uint8_t bytes[AIE_MAX_BUNDLE_BYTES], int * size, struct error * err) {
    struct aie_words words = {.size = in->size, .present = in->present};
    for (unsigned left = in->present; left; left &= left - 1) {
        int s = __builtin_ctz(left);
        const struct aie_inst * inst = &in->slot[s];
        if (inst->op < isa->target->n_rows && (int) isa->instrs[inst->op].slot != s) {
            return error_set(err, ST_INVALID, "%s is in a slot that is not its own",
                             isa->instrs[inst->op].name);
        }
        enum status st = aie_slot_encode(isa, inst, &words.word[s], err);
        if (st) {
            return st;
        }
    }
    return aie_bundle_join(isa, &words, bytes, size, err);
}

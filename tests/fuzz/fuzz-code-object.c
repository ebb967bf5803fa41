// fuzz-code-object: arbitrary bytes as a code object for AMD GPUs. What is accepted is loaded into
// memory of exactly the size that it asks for, and every symbol lies inside that memory.
#include "fuzz.h"

#include "runtime/code-object.h"
#include "runtime/code.h"

const int fuzz_rounds = 20000;
const int fuzz_longest = 1200;

enum { MAX_SPAN = 1 << 20 }; // larger ones are left alone, for speed

struct place {
    uint64_t base, span;
};

static bool check(void * user, const struct code_symbol * s) {
    const struct place * p = user;
    uint64_t at = s->address - p->base;
    if (at > p->span || s->size > p->span - at || !memchr(s->name, 0, p->span) ||
        (s->is_kernel && s->size != CODE_DESCRIPTOR_BYTES)) {
        abort();
    }
    return true;
}

static bool define(void * user, const char * name, uint64_t * address) {
    (void) user;
    *address = 0x1122334455667788;
    return name[0] == 'o';
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    struct code_object co;
    struct error err;
    if (code_object_open(data, size, &co, &err) != ST_OK || co.span > MAX_SPAN) {
        return 0;
    }
    uint8_t * memory = calloc(1, co.span);
    if (!memory) {
        abort();
    }
    struct place place = {0x7f0000000000, co.span};
    struct code_image image;
    if (code_object_load(&co, memory, place.base, define, NULL, &image, &err) == ST_OK) {
        code_image_symbols(&image, check, &place, &err);
    }
    free(memory);
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const uint32_t text[] = {CODE_END_GFX9, 0, 0, 0};
    if (i >= 2) {
        return false;
    }
    *data = code_new(i ? CODE_MACH_GFX1100 : CODE_MACH_GFX90A, text, 4, i == 1);
    *size = CODE_BYTES;
    return true;
}

// fuzz-gfx: arbitrary words as the code of a GPU kernel, decoded and run. Every dispatch ends, with
// an error that says why or without, touches only the memory that it was given, leaves its code as
// it was, and does the same when it is run again.
//
// Input: GPU and mode (1 byte), work-items (1), properties (2) and registers (4) of the kernel
// descriptor, then code.
#include "fuzz.h"

#include "runtime/code.h"
#include "emu/gfx/gfx.h"

const int fuzz_rounds = 80;
const int fuzz_longest = 8 + 40 * 4;

enum { HEAD = 8, MAX_WORDS = 64, BUDGET = 200, DATA = 4096, LDS = 1024, SCRATCH = 64 };

static struct memory {
    _Alignas(4096) uint8_t descriptor[64];
    uint8_t packet[64];
    uint64_t arguments[8];
    _Alignas(4096) uint8_t before[256]; // whoever leaves the code meets one of these
    uint32_t code[MAX_WORDS];
    _Alignas(4096) uint8_t data[DATA];
    uint8_t behind[256];
    size_t n_words;
} memory;

static bool within(uint64_t addr, uint64_t len, const void * p, uint64_t size) {
    uint64_t base = (uintptr_t) p;
    return addr >= base && len <= size && addr - base <= size - len;
}

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    const struct memory * m = user;
    bool there = within(addr, len, m->data, DATA) ||
                 (!write && (within(addr, len, m->code, m->n_words * 4) ||
                             within(addr, len, m->descriptor, sizeof m->descriptor) ||
                             within(addr, len, m->packet, sizeof m->packet) ||
                             within(addr, len, m->arguments, sizeof m->arguments)));
    return there ? (void *) (uintptr_t) addr : NULL;
}

static struct gfx * gpu(enum gfx_arch arch) {
    static struct gfx * gpus[3];
    if (!gpus[arch]) {
        struct gfx_config config = {.arch = arch,
                                    .threads = 1,
                                    .resolve = resolve,
                                    .user = &memory,
                                    .strict = true, // else registers hold what the last run left
                                    .wave_budget = BUDGET};
        if (gfx_new(&config, &gpus[arch], NULL) != ST_OK) {
            abort();
        }
    }
    return gpus[arch];
}

static enum status run(enum gfx_arch arch, const uint8_t * head) {
    uint32_t items = 1 + head[1] % 100;
    struct gfx_dispatch d = {.kernel_object = (uintptr_t) memory.descriptor,
                             .kernarg = (uintptr_t) memory.arguments,
                             .packet = (uintptr_t) memory.packet,
                             .grid = {items, 1, 1},
                             .group = {(uint16_t) items, 1, 1},
                             .group_bytes = LDS,
                             .private_bytes = head[0] & 0x80 ? SCRATCH : 0};
    struct error err = {0};
    memset(memory.data, 0x3f, DATA);
    enum status st = gfx_run(gpu(arch), &d, &err);
    if (st != ST_OK && !err.text[0]) {
        abort();
    }
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    static const uint8_t untouched[sizeof memory.before];
    static uint8_t once[DATA];
    if (size < HEAD + 4) {
        return 0;
    }
    enum gfx_arch arch = (enum gfx_arch)(data[0] % 3);
    memory.n_words = (size - HEAD) / 4 < MAX_WORDS ? (size - HEAD) / 4 : MAX_WORDS;
    memcpy(memory.code, data + HEAD, memory.n_words * 4);
    code_u64(memory.descriptor + 16, (uintptr_t) memory.code - (uintptr_t) memory.descriptor);
    store_u32(memory.descriptor + 48, 0x00af0000);
    memcpy(memory.descriptor + 52, data + 4, 4);
    memcpy(memory.descriptor + 56, data + 2, 2);
    for (int i = 0; i < 8; i++) {
        memory.arguments[i] = i < 4 ? (uintptr_t) (memory.data + i * (DATA / 4)) : (uint64_t) i;
    }
    enum status st = run(arch, data);
    if (data[0] & 0x40) {
        memcpy(once, memory.data, DATA);
        if (run(arch, data) != st || memcmp(once, memory.data, DATA)) {
            abort();
        }
    }
    if (memcmp(memory.code, data + HEAD, memory.n_words * 4) ||
        memcmp(memory.before, untouched, sizeof untouched) ||
        memcmp(memory.behind, untouched, sizeof untouched)) {
        abort();
    }
    return 0;
}

// ---- seeds ----

#define ROW1(text, a)             {1, {a}},
#define ROW2(text, a, b)          {2, {a, b}},
#define ROW3(text, a, b, c)       {3, {a, b, c}},
#define ROW4(text, a, b, c, d)    {4, {a, b, c, d}},
#define ROW5(text, a, b, c, d, e) {5, {a, b, c, d, e}},
static const struct {
    int n;
    uint32_t words[5];
} gfx11[] = {
#include "emu/gfx/gfx11-compiled.def"
#include "emu/gfx/gfx11-random.def"
};
enum { GFX11 = sizeof gfx11 / sizeof gfx11[0], EACH = 8, PIECES = (GFX11 + EACH - 1) / EACH };

static void put(struct buf * b, uint32_t mode, const uint32_t * words, size_t n) {
    if (!b->size) {
        buf_append_u32(b, mode | 32u << 8 | 0x0408u << 16); // arguments' address; waves of 32
        buf_append_u32(b, 2 << 1 | 0x80);
    }
    for (size_t i = 0; i < n; i++) {
        buf_append_u32(b, words[i]);
    }
}

// Whole kernels, and for gfx11 one instruction of each kind, some of them together.
bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    struct buf b = {0};
    if (i < 3) {
        put(&b, (uint32_t) i, i == 2 ? code_step_gfx11 : code_step_gfx9, CODE_STEP_WORDS);
        b.data[0] = (uint8_t) (0xc0 + i);
    } else if (i < 3 + PIECES) {
        static const uint32_t end[] = {CODE_END_GFX11};
        for (int k = (i - 3) * EACH; k < (i - 2) * EACH && k < GFX11; k++) {
            put(&b, 0x83, gfx11[k].words, (size_t) gfx11[k].n);
        }
        put(&b, 0x83, end, 1);
    } else {
        return false;
    }
    *data = b.data;
    *size = b.size;
    return true;
}

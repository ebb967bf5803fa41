// fuzz-core: arbitrary bytes as the program of one core, run for some cycles. The core stops or
// goes on within them, touches only its own data memory, says why it faulted, and does what another
// core does.
#include "isa-seeds.h"

#include "emu/aie/core.h"

#ifndef ARCH
#    define ARCH AIE_ARCH_AIE2
#endif

const int fuzz_rounds = 80;
const int fuzz_longest = 256;

enum { MEMORY = 0x10000, BASE = 0x70000, CYCLES = 100, MOST = 1024 };

static struct {
    struct core * core;
    uint8_t * memory;
    size_t programmed; // bytes of the program that are not zero
    int locks[16];
    int words; // that streams and cascade still give and take
} rig;

static uint8_t * memory(void * user, uint32_t addr, uint32_t len) {
    (void) user;
    return addr >= BASE && len <= MEMORY && addr - BASE <= MEMORY - len ? rig.memory + (addr - BASE)
                                                                        : NULL;
}

static int acquire(void * user, int id, int value) {
    (void) user;
    if (id < 48 || id > 63) {
        return -1;
    }
    int need = value < 0 ? -value : value, *lock = &rig.locks[id - 48];
    if (value < 0 ? *lock < need : *lock != need) {
        return 0;
    }
    *lock -= need;
    return 1;
}

static int release(void * user, int id, int value) {
    (void) user;
    if (id < 48 || id > 63) {
        return -1;
    }
    rig.locks[id - 48] = (rig.locks[id - 48] + value) & 63;
    return 1;
}

static int stream_read(void * user, uint32_t * word, bool * last) {
    (void) user;
    *word = 0x01020304u * (uint32_t) rig.words;
    *last = rig.words % 4 == 0;
    return rig.words > 0 && rig.words--;
}

static int stream_write(void * user, uint32_t word, bool last) {
    (void) user, (void) word, (void) last;
    return rig.words > 0 && rig.words--;
}

static int cascade_read(void * user, uint8_t bits[64]) {
    (void) user;
    memset(bits, rig.words, 64);
    return rig.words > 0 && rig.words--;
}

static int cascade_write(void * user, const uint8_t bits[64]) {
    (void) user, (void) bits;
    return rig.words > 0 && rig.words--;
}

static struct core * new_core(void) {
    static struct core_cache * cache;
    cache = cache ? cache : core_cache_new(1 << 20);
    struct core_env env = {.memory = memory,
                           .acquire = acquire,
                           .release = release,
                           .stream_read = stream_read,
                           .stream_write = stream_write,
                           .cascade_read = cascade_read,
                           .cascade_write = cascade_write,
                           .cache = cache};
    struct core * core;
    if (!cache || core_new(ARCH, &env, &core) != ST_OK) {
        abort();
    }
    return core;
}

static void begin(void) {
    if (!rig.core) {
        rig.core = new_core();
        rig.memory = aligned_alloc(64, MEMORY);
        if (!rig.memory) {
            abort();
        }
    }
}

struct left { // what a run leaves
    enum core_state state;
    uint32_t pc;
    uint8_t words[32][4];
    uint8_t lanes[12][64];
};

static void run(struct core * core, struct left * left) {
    static uint8_t fresh[MEMORY];
    static bool made;
    if (!made) {
        core_garbage(fresh, MEMORY, 7); // floats, integers, NaNs and all
        made = true;
    }
    memcpy(rig.memory, fresh, MEMORY);
    memset(rig.locks, 0, sizeof rig.locks);
    rig.locks[3] = 1;
    rig.words = 16;
    core_reset(core);
    for (int i = 0; i < 12; i++) {
        core_reg_set(core, AIE_REG(AIE_X, i), fresh + 64 * i);
        core_reg_set(core, AIE_REG(ARCH == AIE_ARCH_AIE2 ? AIE_BM : AIE_BM4, i), fresh + 64 * i);
    }
    // Pointers that lead somewhere, else every access is a stray one.
    for (int i = 0; i < 8; i++) {
        uint8_t bytes[4];
        store_u32(bytes, BASE + 0x1000 * (uint32_t) i + 0x400);
        core_reg_set(core, AIE_REG(AIE_P, i), bytes);
        store_u32(bytes, (uint32_t) i);
        core_reg_set(core, AIE_REG(AIE_R, i), bytes);
    }
    core_enable(core, true, 0);
    uint64_t limit = core_now(core) + CYCLES;
    left->state = core_run(core, limit, limit);
    left->pc = core_pc(core);
    if (left->state == CORE_FAULT && !core_fault(core)[0]) {
        abort();
    }
    for (int i = 0; i < 32; i++) {
        core_reg_get(core, AIE_REG(AIE_R, i), left->words[i]);
    }
    for (int i = 0; i < 12; i++) {
        core_reg_get(core, AIE_REG(AIE_X, i), left->lanes[i]);
    }
    core_enable(core, false, core_now(core));
}

// Two that are new: a core has a counter of cycles, which programs can read.
static void compare(const uint8_t * data, size_t size) {
    static uint8_t before[MEMORY];
    struct left left[2];
    memset(left, 0, sizeof left);
    for (int i = 0; i < 2; i++) {
        struct core * core = new_core();
        memcpy(core_program(core), data, size);
        core_program_changed(core, 0, (uint32_t) size);
        run(core, &left[i]);
        core_free(core);
        if (i == 0) {
            memcpy(before, rig.memory, MEMORY);
        }
    }
    if (memcmp(&left[0], &left[1], sizeof left[0]) || memcmp(before, rig.memory, MEMORY)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    begin();
    size = size < MOST ? size : MOST;
    uint8_t * program = core_program(rig.core);
    memset(program, 0, rig.programmed);
    if (size) {
        memcpy(program, data, size);
    }
    size_t changed = size > rig.programmed ? size : rig.programmed;
    core_program_changed(rig.core, 0, (uint32_t) changed);
    rig.programmed = size;
    struct left left;
    run(rig.core, &left);
    if (size % 16 == 15) {
        compare(data, size);
    }
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    return isa_seed(ARCH, i, data, size);
}

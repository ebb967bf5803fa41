// fuzz-core: arbitrary bytes as the program of one core, run for some cycles. The core stops or
// goes on within them, touches only its own data memory, says why it faulted, and does the same
// when it is run again.
#include "isa-seeds.h"

#include "emu/aie/core.h"

#ifndef ARCH
#    define ARCH AIE_ARCH_AIE2
#endif

const int fuzz_rounds = 150;
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

static void begin(void) {
    if (rig.core) {
        return;
    }
    struct core_env env = {.memory = memory,
                           .acquire = acquire,
                           .release = release,
                           .stream_read = stream_read,
                           .stream_write = stream_write,
                           .cascade_read = cascade_read,
                           .cascade_write = cascade_write,
                           .cache = core_cache_new(1 << 20)};
    rig.memory = aligned_alloc(64, MEMORY);
    if (!env.cache || !rig.memory || core_new(ARCH, &env, &rig.core) != ST_OK) {
        abort();
    }
    memset(rig.memory, 0, MEMORY);
}

struct left { // what a run leaves
    enum core_state state;
    uint32_t pc;
    uint8_t words[32][4];
    uint8_t lanes[12][64];
};

static void run(struct left * left) {
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
    core_reset(rig.core);
    for (int i = 0; i < 12; i++) {
        core_reg_set(rig.core, AIE_REG(AIE_X, i), fresh + 64 * i);
        core_reg_set(rig.core, AIE_REG(ARCH == AIE_ARCH_AIE2 ? AIE_BM : AIE_BM4, i),
                     fresh + 64 * i);
    }
    // Pointers that lead somewhere, else every access is a stray one.
    for (int i = 0; i < 8; i++) {
        uint8_t bytes[4];
        store_u32(bytes, BASE + 0x1000 * (uint32_t) i + 0x400);
        core_reg_set(rig.core, AIE_REG(AIE_P, i), bytes);
        store_u32(bytes, (uint32_t) i);
        core_reg_set(rig.core, AIE_REG(AIE_R, i), bytes);
    }
    core_enable(rig.core, true, 0);
    uint64_t limit = core_now(rig.core) + CYCLES;
    left->state = core_run(rig.core, limit, limit);
    left->pc = core_pc(rig.core);
    if (left->state == CORE_FAULT && !core_fault(rig.core)[0]) {
        abort();
    }
    for (int i = 0; i < 32; i++) {
        core_reg_get(rig.core, AIE_REG(AIE_R, i), left->words[i]);
    }
    for (int i = 0; i < 12; i++) {
        core_reg_get(rig.core, AIE_REG(AIE_X, i), left->lanes[i]);
    }
    core_enable(rig.core, false, core_now(rig.core));
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
    struct left once, twice;
    run(&once);
    if (size && data[0] & 0x80) {
        static uint8_t memory_once[MEMORY];
        memcpy(memory_once, rig.memory, MEMORY);
        run(&twice);
        if (once.state != twice.state || once.pc != twice.pc ||
            memcmp(once.words, twice.words, sizeof once.words) ||
            memcmp(once.lanes, twice.lanes, sizeof once.lanes) ||
            memcmp(memory_once, rig.memory, MEMORY)) {
            abort();
        }
    }
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    return isa_seed(ARCH, i, data, size);
}

// test-gemm: the matrix multiplication that was traced on a Strix (test-listing walks it), executed
// by the emulated aie2p core. Between its two events it takes 1,385 cycles and one more for each
// pair of loads that meet in a bank, which is a matter of where its operands lie; and what it
// leaves in C is the product, to the bit, of numbers that block floats can hold.
#include "base/cmocka-all.h"
#include "emu/aie/clock.h"
#include "emu/aie/core.h"
#include "emu/aie/timing/listing.h"

static const char * const file = "aie2p-gemm/matmul_bf16_f32_bfp16_64x64x48.objdump.txt";

enum { PROGRAM = 0, BASE = 0x70000, RETURN = 0x2000, M = 64, K = 64, N = 48 };

struct world {
    uint8_t memory[0x10000];
    uint64_t event[2]; // cycles in which they issued
};

static uint8_t * memory(void * user, uint32_t addr, uint32_t len) {
    struct world * w = user;
    return addr >= BASE && addr + len <= BASE + 0x10000 ? w->memory + (addr - BASE) : NULL;
}

static void trace(void * user, uint64_t cycle, uint32_t pc, const char * text) {
    struct world * w = user;
    (void) pc;
    for (int i = 0; i < 2; i++) {
        if (strstr(text, i ? "event #1" : "event #0")) {
            w->event[i] = cycle;
        }
    }
}

static void set(struct core * c, aie_reg reg, uint32_t value) {
    uint8_t bytes[4];
    store_u32(bytes, value);
    assert_int_equal(core_reg_set(c, reg, bytes), 4);
}

// The four places that the reference says are to be linked: an absolute address each, encoded anew.
static void link_at(uint8_t * program, const struct aie_isa * isa, uint32_t at, uint32_t value) {
    struct aie_bundle b;
    struct error err;
    int size = 0;
    assert_int_equal(aie_bundle_decode(isa, program + at, 16, &b, &err), ST_OK);
    struct aie_inst * inst = &b.slot[AIE_SLOT_LNG];
    assert_true(b.present >> AIE_SLOT_LNG & 1);
    inst->values[aie_instr_operand(aie_isa_instr(isa, inst->op), 'i')] = (int32_t) value;
    uint8_t bytes[AIE_MAX_BUNDLE_BYTES];
    assert_int_equal(aie_bundle_encode(isa, &b, bytes, &size, &err), ST_OK);
    memcpy(program + at, bytes, (size_t) size);
}

static int tile_index(int row, int col, int cols) { // 8 x 8 tiles, row by row
    return (row / 8 * (cols / 8) + col / 8) * 64 + row % 8 * 8 + col % 8;
}

static uint16_t bf16_of(int v) { // exact for small integers
    float f = (float) v;
    uint32_t u;
    memcpy(&u, &f, 4);
    return (uint16_t) (u >> 16);
}

static void runs(uint32_t a, uint32_t b, uint32_t c_at, uint64_t conflicts) {
    static struct world w;
    struct listing l;
    struct core * c = NULL;
    const struct emu_clock * clock = emu_clock_default(AIE_ARCH_AIE2P);
    const struct aie_isa * isa = aie_isa_get(AIE_ARCH_AIE2P);
    const struct core_env env = {
        .user = &w, .memory = memory, .trace = trace, .bank_bit = clock->bank_bit, .strict = true};
    listing_read(&l, file, "matmul_bf16_f32");
    memset(&w, 0, sizeof w);
    assert_int_equal(core_new(AIE_ARCH_AIE2P, &env, &c), ST_OK);
    uint8_t * program = core_program(c);
    memcpy(program + PROGRAM, l.bytes, (size_t) l.size);
    link_at(program, isa, PROGRAM + 0x1a6, PROGRAM + 0x1f0);
    link_at(program, isa, PROGRAM + 0x1e0, PROGRAM + 0x250);
    link_at(program, isa, PROGRAM + 0x31a, PROGRAM + 0xc0);
    link_at(program, isa, PROGRAM + 0x340, PROGRAM + 0x70);
    struct aie_bundle done = {.present = 1 << AIE_SLOT_ALU};
    struct error err;
    int size = 0;
    done.slot[AIE_SLOT_ALU].op = (uint16_t) aie_isa_find(isa, "DONE");
    assert_int_equal(aie_bundle_encode(isa, &done, program + RETURN, &size, &err), ST_OK);
    core_program_changed(c, 0, CORE_PM_BYTES);

    static int va[M][K], vb[K][N];
    uint32_t seed = a + b;
    for (int i = 0; i < M * K; i++) {
        seed = seed * 1664525 + 1013904223;
        va[i / K][i % K] = (int) (seed >> 24) % 17 - 8;
        uint16_t v = bf16_of(va[i / K][i % K]);
        memcpy(w.memory + a + 2 * tile_index(i / K, i % K, K), &v, 2);
    }
    for (int i = 0; i < K * N; i++) {
        seed = seed * 1664525 + 1013904223;
        vb[i / N][i % N] = (int) (seed >> 24) % 17 - 8;
        uint16_t v = bf16_of(vb[i / N][i % N]);
        memcpy(w.memory + b + 2 * tile_index(i / N, i % N, N), &v, 2);
    }
    for (int i = 0; i < M * N; i++) {
        float f = (float) i;
        memcpy(w.memory + c_at + 4 * i, &f, 4);
    }
    set(c, AIE_REG(AIE_P, 0), BASE + a);
    set(c, AIE_REG(AIE_P, 1), BASE + b);
    set(c, AIE_REG(AIE_P, 2), BASE + c_at);
    set(c, AIE_REG(AIE_SPC, AIE_SPC_SP), BASE);
    set(c, AIE_REG(AIE_SPC, AIE_SPC_LR), RETURN);
    core_enable(c, true, 0);
    enum core_state state = core_run(c, UINT64_MAX, 100000);
    if (state != CORE_DONE) {
        fail_msg("%s", core_fault(c));
    }
    print_message("A 0x%x, B 0x%x: %d cycles between the events, %d of them at banks\n", a, b,
                  (int) (w.event[1] - w.event[0]), (int) core_bank_stalls(c));
    assert_int_equal(core_bank_stalls(c), conflicts);
    assert_int_equal(w.event[1] - w.event[0], 1385 + conflicts);
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            float want = (float) tile_index(i, j, N), got;
            for (int k = 0; k < K; k++) {
                want += (float) (va[i][k] * vb[k][j]);
            }
            memcpy(&got, w.memory + c_at + 4 * tile_index(i, j, N), 4);
            if (got != want) {
                fail_msg("C[%d][%d] is %g, expected %g", i, j, (double) got, (double) want);
            }
        }
    }
    core_free(c);
}

static void operands_that_meet(void ** state) {
    (void) state;
    runs(0x6d00, 0xad00, 0xd00, 84);
}

static void operands_apart(void ** state) {
    (void) state;
    runs(0x8d00, 0xc500, 0xd00, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_that_meet),
        cmocka_unit_test(operands_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

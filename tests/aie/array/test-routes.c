// test-routes: designs built with the array builder, played by the emulator; the cores' tiles only
// pass words on by DMA. One has every stream of a matrix product at once: broadcast along rows and
// up columns, zeros added on the way, the results of a column joined in its memtile. What must
// arrive is computed with plain loops. A reader of the PDI checks what the emulator does not know:
// which joints a memtile's switch has.
#include "base/cmocka-all.h"

#include "aie/array/array.h"
#include "emu/aie/machine.h"

enum { COLS = 4, CORE_ROWS = 4, OPERANDS = 3, HOST_WORDS = 8192 };

enum { A, B, OUT };

struct rig {
    struct emu_machine * machine;
    uint32_t host[OPERANDS][HOST_WORDS];
};

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    struct rig * r = user;
    for (int i = 0; i < OPERANDS; i++) {
        uint64_t base = (uint64_t) (uintptr_t) r->host[i], size = sizeof(r->host[i]);
        if (addr >= base && len <= size && addr - base <= size - len) {
            return write && i != OUT ? NULL : (void *) (uintptr_t) addr;
        }
    }
    return NULL;
}

static int setup(void ** state) {
    struct rig * r = calloc(1, sizeof(*r));
    struct emu_config config = {.arch = AIE_ARCH_AIE2,
                                .columns = COLS,
                                .resolve = resolve,
                                .user = r,
                                .max_cycles = 200000,
                                .trace_col = -1,
                                .trace_row = -1};
    struct error err = {0};
    *state = r;
    return emu_machine_new(&config, &r->machine, &err) == ST_OK ? 0 : -1;
}

static int teardown(void ** state) {
    struct rig * r = *state;
    emu_machine_free(r->machine);
    free(r);
    return 0;
}

static void fill(struct rig * r, uint32_t seed) {
    for (int i = 0; i < OPERANDS; i++) {
        for (uint32_t j = 0; j < HOST_WORDS; j++) {
            r->host[i][j] = i == OUT ? 0xdeadbeef : seed << 28 | (uint32_t) i << 24 | (j + 1);
        }
    }
}

struct design {
    uint8_t * pdi;
    uint32_t * insts;
    size_t pdi_size, n_insts;
};

static void play(struct rig * r, const struct design * d) {
    struct emu_operand operands[OPERANDS];
    struct error err = {0};
    for (int i = 0; i < OPERANDS; i++) {
        operands[i] = (struct emu_operand){(uint64_t) (uintptr_t) r->host[i], sizeof(r->host[i])};
    }
    if (emu_machine_run(r->machine, d->pdi, d->pdi_size, d->insts, d->n_insts, operands, OPERANDS,
                        &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
}

static void design_free(struct design * d) {
    free(d->pdi);
    free(d->insts);
}

// ---- writing the instruction stream ----

enum direction { S2MM, MM2S };

static void start(struct txn * t, int col, int row, enum direction dir, int channel, int bd,
                  int repeat, bool token) {
    static const uint32_t queues[3][2] = {{SHIM_S2MM_QUEUE, SHIM_MM2S_QUEUE},
                                          {MEM_S2MM_QUEUE, MEM_MM2S_QUEUE},
                                          {CORE_S2MM_QUEUE, CORE_MM2S_QUEUE}};
    uint32_t queue = queues[row < 2 ? row : 2][dir] + 8 * (uint32_t) channel;
    txn_write(t, image_addr(col, row, queue), array_queue_word(bd, repeat, token));
}

static void core_bd(struct txn * t, int col, int row, int bd, struct array_bd d) {
    uint32_t w[6];
    array_core_bd(&d, w);
    txn_block_write(t, image_addr(col, row, CORE_BD + 0x20 * (uint32_t) bd), w, 6);
}

static void mem_bd(struct txn * t, int col, int bd, struct array_bd d) {
    uint32_t w[8];
    array_mem_bd(&d, w);
    txn_block_write(t, image_addr(col, ARRAY_ROW_MEM, MEM_BD + 0x20 * (uint32_t) bd), w, 8);
}

// `rounds` times `words` words one behind the other, from or to word `at` of an operand.
static void shim(struct txn * t, int col, enum direction dir, int channel, int operand, uint32_t at,
                 uint32_t words, uint32_t rounds) {
    int bd = 2 * channel + (int) dir;
    uint32_t w[8];
    array_shim_bd(&(struct array_bd){.words = words,
                                     .next = -1,
                                     .acquire = -1,
                                     .release = -1,
                                     .iterations = rounds,
                                     .iteration_step = words},
                  aie_target(AIE_ARCH_AIE2), w);
    uint32_t addr = image_addr(col, ARRAY_ROW_SHIM, SHIM_BD + 0x20 * (uint32_t) bd);
    txn_block_write(t, addr, w, 8);
    txn_patch_address(t, addr + 4, operand, 4 * at);
    if (dir == S2MM) {
        array_token_controller(t, col, channel);
    }
    start(t, col, ARRAY_ROW_SHIM, dir, channel, bd, (int) rounds, dir == S2MM);
}

static void set_core_lock(struct txn * t, int col, int row, int lock, uint32_t value) {
    txn_write(t, image_addr(col, row, CORE_LOCK + 0x10 * (uint32_t) lock), value);
}

// ---- what silicon can do and the emulator does not check ----

enum { MEM_MASTERS = 17 };

// A memtile's switch passes on only between wires of one number, and from channel to channel only
// between equal ones.
static bool memtile_joint(void * user, const struct image_command * c) {
    static const struct {
        int slave_first, slave_end, master_first, master_end;
    } same_number[] = {
        {7, 13, 11, 17}, {13, 17, 7, 11}, {7, 13, 7, 11}, {13, 17, 11, 17}, {0, 6, 0, 6}};
    uint32_t row = c->addr >> 20 & 31, offset = c->addr & 0xfffff;
    if (c->op != IMAGE_BLOCK_WRITE || row != ARRAY_ROW_MEM || offset != MEM_MASTER) {
        return true;
    }
    assert_int_equal(c->n_words, MEM_MASTERS);
    for (int master = 0; master < MEM_MASTERS; master++) {
        uint32_t value = load_u32(c->data + 4 * master);
        int slave = (int) (value & 0x7f);
        for (size_t i = 0; i < sizeof(same_number) / sizeof(same_number[0]) && value; i++) {
            if (slave >= same_number[i].slave_first && slave < same_number[i].slave_end &&
                master >= same_number[i].master_first && master < same_number[i].master_end) {
                assert_int_equal(slave - same_number[i].slave_first,
                                 master - same_number[i].master_first);
            }
        }
        *(int *) user += value != 0;
    }
    return true;
}

static void finish(struct array * a, struct txn * t, struct design * d) {
    struct error err = {0};
    if (array_end(a, &d->pdi, &d->pdi_size, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(txn_end(t, &d->insts, &d->n_insts, &err), ST_OK);
    int joints = 0;
    assert_int_equal(pdi_read(d->pdi, d->pdi_size, memtile_joint, &joints, &err), ST_OK);
    assert_true(joints > 0);
}

// ---- the streams of a matrix product ----

enum {
    ROUNDS = 2,
    A_WORDS = 160, // of a column, from the host
    A_SENT = 2 * 4 * (3 + 2) * 2,
    B_WORDS = 48,
    B_SENT = (1 + 5) * (3 + 1),
    CORE_SENT = A_SENT + B_SENT,
};

static const uint32_t a_wrap[3] = {2, 4, 3}, a_step[4] = {1, 20, 6, 80}, a_zeros = 2; // after D2

// Memtile: a lock pair for each core's results, then for a and b; byte addresses.
enum { LOCK_A = 8, LOCK_B = 10, MEM_A = 0x10000, MEM_B = 0x20000, MEM_OUT = 0x40000 };
// Core: the same.
enum { CORE_LOCK_A = 0, CORE_LOCK_B = 2, CORE_A = 0x2000, CORE_B = 0x8000 };

static void product_routes(struct array * a) {
    for (int c = 0; c < COLS; c++) {
        struct array_port row[COLS], column[CORE_ROWS];
        for (int i = 0; i < 4; i++) {
            row[i] = (struct array_port){i, ARRAY_ROW_CORE + c, 0};
            column[i] = (struct array_port){c, ARRAY_ROW_CORE + i, 1};
        }
        for (int channel = 0; channel < 2; channel++) {
            array_route(a, (struct array_port){c, ARRAY_ROW_SHIM, channel},
                        &(struct array_port){c, ARRAY_ROW_MEM, channel}, 1);
        }
        array_route(a, (struct array_port){c, ARRAY_ROW_MEM, 0}, row, COLS);
        array_route(a, (struct array_port){c, ARRAY_ROW_MEM, 1}, column, CORE_ROWS);
        for (int i = 0; i < CORE_ROWS; i++) {
            array_route(a, (struct array_port){c, ARRAY_ROW_CORE + i, 0},
                        &(struct array_port){c, ARRAY_ROW_MEM, 2 + i}, 1);
        }
        for (int i = 0; i < 2; i++) {
            array_route(a, (struct array_port){c, ARRAY_ROW_MEM, 2 + i},
                        &(struct array_port){c, ARRAY_ROW_SHIM, i}, 1);
        }
        array_token_route(a, c);
    }
}

// A descriptor that takes one lock of a pair and gives the other; fills: the pair's first.
static struct array_bd locked(int pair, bool fills, uint32_t address, uint32_t words,
                              uint32_t spread) {
    return (struct array_bd){.address = address,
                             .words = words,
                             .next = -1,
                             .acquire = fills ? pair : pair + 1,
                             .acquire_value = -1,
                             .release = fills ? pair + 1 : pair,
                             .release_value = 1,
                             .iterations = ROUNDS,
                             .iteration_step = spread};
}

static void product_core(struct txn * t, int col, int row) {
    for (int lock = 0; lock < 4; lock++) {
        set_core_lock(t, col, row, lock, lock % 2 ? 0 : 1);
    }
    struct array_bd in = locked(CORE_LOCK_A, true, CORE_A, A_SENT, A_SENT);
    in.wrap[0] = 8; // a permutation of the 80 words
    in.wrap[1] = 5;
    in.step[1] = 16;
    in.step[2] = 8;
    core_bd(t, col, row, 0, in);
    core_bd(t, col, row, 1, locked(CORE_LOCK_B, true, CORE_B, B_SENT, B_SENT));
    struct array_bd out = locked(CORE_LOCK_A, false, CORE_A, A_SENT, A_SENT);
    out.next = 3;
    core_bd(t, col, row, 2, out);
    core_bd(t, col, row, 3, locked(CORE_LOCK_B, false, CORE_B, B_SENT, B_SENT));
    start(t, col, row, S2MM, 0, 0, ROUNDS, false);
    start(t, col, row, S2MM, 1, 1, ROUNDS, false);
    start(t, col, row, MM2S, 0, 2, ROUNDS, false);
}

static void product_mem(struct txn * t, int col) {
    enum { ODD = ARRAY_MEM_BD_ODD };
    mem_bd(t, col, 0, locked(LOCK_A, true, MEM_A, A_WORDS, A_WORDS));
    mem_bd(t, col, ODD, locked(LOCK_B, true, MEM_B, B_WORDS, B_WORDS));
    struct array_bd a = locked(LOCK_A, false, MEM_A, A_SENT, A_WORDS);
    memcpy(a.wrap, a_wrap, sizeof(a_wrap));
    memcpy(a.step, a_step, sizeof(a_step));
    a.after[2] = a_zeros;
    mem_bd(t, col, 1, a);
    struct array_bd b = locked(LOCK_B, false, MEM_B, B_SENT, B_WORDS);
    b.wrap[0] = 5;
    b.wrap[1] = 3;
    b.step[0] = 3;
    b.step[1] = 17;
    b.before[0] = 1;
    b.after[1] = 1;
    mem_bd(t, col, ODD + 1, b);
    for (int i = 0; i < CORE_ROWS; i++) {
        uint32_t at = MEM_OUT + 4 * (uint32_t) i * CORE_SENT;
        mem_bd(t, col, i % 2 * ODD + 2 + i / 2, locked(2 * i, true, at, CORE_SENT, 4 * CORE_SENT));
        struct array_bd out = locked(2 * i, false, at, CORE_SENT, 4 * CORE_SENT);
        out.wrap[0] = 4; // a permutation of the 104 words
        out.wrap[1] = 13;
        out.step[1] = 8;
        out.step[2] = 4;
        int bd = i / 2 * ODD + 4 + i % 2; // channel 2 sends cores 0 and 1, channel 3 cores 2 and 3
        out.next = i % 2 ? -1 : bd + 1;
        mem_bd(t, col, bd, out);
        start(t, col, ARRAY_ROW_MEM, S2MM, 2 + i, i % 2 * ODD + 2 + i / 2, ROUNDS, false);
    }
    for (int i = 0; i < 2; i++) {
        start(t, col, ARRAY_ROW_MEM, S2MM, i, i * ODD, ROUNDS, false);
        start(t, col, ARRAY_ROW_MEM, MM2S, i, i * ODD + 1, ROUNDS, false);
        start(t, col, ARRAY_ROW_MEM, MM2S, 2 + i, i * ODD + 4, ROUNDS, false);
    }
}

static uint32_t out_at(int col, int half) { // in words of the operand
    return (uint32_t) (2 * col + half) * ROUNDS * 2 * CORE_SENT;
}

static struct design product_design(void) {
    static const uint8_t locks[] = {1, 0, 1, 0, 1, 0, 1, 0, 2, 0, 2, 0};
    struct array a;
    struct txn t;
    struct design d;
    array_begin(&a, AIE_ARCH_AIE2);
    product_routes(&a);
    txn_begin(&t, COLS, aie_target(AIE_ARCH_AIE2)->device_generation);
    for (int c = 0; c < COLS; c++) {
        array_mem(&a, c, locks, sizeof(locks));
        product_mem(&t, c);
        for (int i = 0; i < CORE_ROWS; i++) {
            product_core(&t, c, ARRAY_ROW_CORE + i);
        }
        for (int half = 0; half < 2; half++) {
            shim(&t, c, S2MM, half, OUT, out_at(c, half), 2 * CORE_SENT, ROUNDS);
        }
    }
    for (int c = 0; c < COLS; c++) {
        shim(&t, c, MM2S, 0, A, (uint32_t) c * ROUNDS * A_WORDS, A_WORDS, ROUNDS);
        shim(&t, c, MM2S, 1, B, (uint32_t) c * ROUNDS * B_WORDS, B_WORDS, ROUNDS);
    }
    for (int c = 0; c < COLS; c++) {
        txn_wait(&t, c, ARRAY_ROW_SHIM, 0, 0);
        txn_wait(&t, c, ARRAY_ROW_SHIM, 0, 1);
    }
    finish(&a, &t, &d);
    return d;
}

// What core (col, row) sends in a round.
static void core_words(const struct rig * r, int col, int row, int round, uint32_t out[CORE_SENT]) {
    const uint32_t * a = r->host[A] + (row * ROUNDS + round) * A_WORDS;
    const uint32_t * b = r->host[B] + (col * ROUNDS + round) * B_WORDS;
    uint32_t i = 0;
    for (uint32_t d3 = 0; d3 < 2; d3++) {
        for (uint32_t d2 = 0; d2 < a_wrap[2] + a_zeros; d2++) {
            for (uint32_t d1 = 0; d1 < a_wrap[1]; d1++) {
                for (uint32_t d0 = 0; d0 < a_wrap[0]; d0++, i++) {
                    uint32_t from =
                        d0 * a_step[0] + d1 * a_step[1] + d2 * a_step[2] + d3 * a_step[3];
                    out[i % 8 + i / 8 % 5 * 16 + i / 40 * 8] = d2 < a_wrap[2] ? a[from] : 0;
                }
            }
        }
    }
    for (uint32_t y = 0; y < 4; y++) {
        for (uint32_t x = 0; x < 6; x++, i++) {
            out[i] = x >= 1 && y < 3 ? b[(x - 1) * 3 + y * 17] : 0;
        }
    }
}

static void product(void ** state) {
    struct rig * r = *state;
    struct design d = product_design();
    for (uint32_t turn = 0; turn < 2; turn++) { // locks must be as before, so it runs again
        fill(r, turn + 1);
        play(r, &d);
        for (int c = 0; c < COLS; c++) {
            for (int row = 0; row < CORE_ROWS; row++) {
                for (int round = 0; round < ROUNDS; round++) {
                    uint32_t want[CORE_SENT];
                    core_words(r, c, row, round, want);
                    const uint32_t * got =
                        r->host[OUT] + out_at(c, row / 2) + (2 * round + row % 2) * CORE_SENT;
                    for (uint32_t i = 0; i < CORE_SENT; i++) {
                        assert_int_equal(got[i], want[i % 4 + i / 4 % 13 * 8 + i / 52 * 4]);
                    }
                }
            }
        }
        assert_int_equal(r->host[OUT][out_at(COLS, 0)], 0xdeadbeef);
    }
    struct emu_counters counters;
    emu_machine_counters(r->machine, &counters);
    assert_int_equal(counters.pdi_loads, 1);
    design_free(&d);
}

// ---- the streams of a matrix-vector product, past the memtile ----

enum { N = 64 };

// Each column has two cores with a stream in and one out. A third core and the memtile are joined
// first, so that the wires below and above the memtile are not taken alike.
static void past_the_memtile(void ** state) {
    struct rig * r = *state;
    struct array a;
    struct txn t;
    struct design d;
    array_begin(&a, AIE_ARCH_AIE2);
    txn_begin(&t, COLS, aie_target(AIE_ARCH_AIE2)->device_generation);
    for (int c = 0; c < COLS; c++) {
        array_route(&a, (struct array_port){c, ARRAY_ROW_MEM, 3}, &(struct array_port){c, 4, 0}, 1);
        array_route(&a, (struct array_port){c, 4, 0}, &(struct array_port){c, ARRAY_ROW_MEM, 4}, 1);
        for (int i = 0; i < 2; i++) {
            int row = ARRAY_ROW_CORE + i;
            array_route(&a, (struct array_port){c, ARRAY_ROW_SHIM, i},
                        &(struct array_port){c, row, 0}, 1);
            array_route(&a, (struct array_port){c, row, 0},
                        &(struct array_port){c, ARRAY_ROW_SHIM, i}, 1);
            set_core_lock(&t, c, row, 0, 1);
            struct array_bd bd = {.address = 0x400,
                                  .words = N,
                                  .next = -1,
                                  .acquire = 0,
                                  .acquire_value = -1,
                                  .release = 1,
                                  .release_value = 1};
            core_bd(&t, c, row, 0, bd);
            bd.acquire = 1;
            bd.release = 0;
            core_bd(&t, c, row, 1, bd);
            start(&t, c, row, S2MM, 0, 0, 1, false);
            start(&t, c, row, MM2S, 0, 1, 1, false);
            shim(&t, c, S2MM, i, OUT, (uint32_t) (2 * c + i) * N, N, 1);
            shim(&t, c, MM2S, i, i, (uint32_t) c * N, N, 1);
        }
        array_token_route(&a, c);
    }
    for (int c = 0; c < COLS; c++) {
        txn_wait(&t, c, ARRAY_ROW_SHIM, 0, 0);
        txn_wait(&t, c, ARRAY_ROW_SHIM, 0, 1);
    }
    finish(&a, &t, &d);
    fill(r, 5);
    play(r, &d);
    for (int c = 0; c < COLS; c++) {
        for (int i = 0; i < 2; i++) {
            assert_memory_equal(r->host[OUT] + (2 * c + i) * N, r->host[i] + c * N, 4 * N);
        }
    }
    design_free(&d);
}

// ---- misuse ----

static void expect_misuse(struct array * a, const char * text) {
    struct error err = {0};
    uint8_t * pdi = NULL;
    size_t size;
    assert_int_equal(array_end(a, &pdi, &size, &err), ST_INVALID);
    assert_null(pdi);
    if (!strstr(err.text, text)) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, text);
    }
}

static void one_route(struct array_port from, struct array_port to, const char * text) {
    struct array a;
    array_begin(&a, AIE_ARCH_AIE2);
    array_route(&a, from, &to, 1);
    expect_misuse(&a, text);
}

static void misuse(void ** state) {
    (void) state;
    one_route((struct array_port){0, 2, 0}, (struct array_port){1, 1, 0},
              "tile 0,1 has no stream left to the east");
    one_route((struct array_port){0, 2, 0}, (struct array_port){4, 2, 0}, "no such DMA channel");
    one_route((struct array_port){0, 0, 2}, (struct array_port){0, 2, 0}, "no such DMA channel");
    one_route((struct array_port){0, 6, 0}, (struct array_port){0, 2, 0}, "no such DMA channel");
    one_route((struct array_port){0, 1, 0}, (struct array_port){0, 1, 1}, "channels of one number");

    struct array a;
    array_begin(&a, AIE_ARCH_AIE2);
    array_route(&a, (struct array_port){0, 2, 0}, &(struct array_port){0, 1, 0}, 1);
    array_route(&a, (struct array_port){0, 3, 0}, &(struct array_port){0, 1, 0}, 1);
    expect_misuse(&a, "two streams end in one S2MM channel (tile 0,1 channel 0)");

    array_begin(&a, AIE_ARCH_AIE2); // six to one side, and only four back
    for (int i = 0; i < 5; i++) {
        array_route(&a, (struct array_port){0, 2 + i % 4, i / 4}, &(struct array_port){0, 1, i}, 1);
    }
    expect_misuse(&a, "tile 0,2 has no stream left to the south");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(product, setup, teardown),
        cmocka_unit_test_setup_teardown(past_the_memtile, setup, teardown),
        cmocka_unit_test(misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test-gather-packets: rows of a table, chosen by numbers that are data, without the host. The
// instruction stream writes a shim's descriptor for the whole table and never starts it: it has one
// run for each row. A core reads the numbers and sends control packets to the shim: which run is
// next, and the task. The row comes to the core's tile and goes out as the result; then the core
// sends for the next. The design is made with the array builder, the program with the assembler;
// the emulator plays it and the verifier looks at it, on both architectures.
#include "base/cmocka-all.h"

#include "aie/array/flow.h"
#include "aie/verbs/verbs.h"
#include "aie/verify/verify.h"
#include "emu/aie/machine.h"

#include <stdlib.h>
#include <string.h>

enum { IDS = 6, ROWS = 40, ROW_WORDS = 48, PACKET_ID = 3 };
enum { OPERAND_IDS, OPERAND_TABLE, OPERAND_OUT, OPERANDS };
enum { LOCK_IDS, LOCK_GO, LOCK_FREE, LOCK_FULL, LOCK_DONE, LOCKS };
enum { AT_PACKETS = 0x400, AT_IDS = 0x800, AT_ROW = 0x1000 }; // in the core's memory
enum { BD_IDS, BD_ROW_IN, BD_ROW_OUT, BD_WHICH, BD_START };   // of the core
enum { SHIM_IDS, SHIM_OUT, SHIM_TABLE };                      // of the shim
enum { RUN_WORD = 6, RUN_SHIFT = 26 };                        // of a shim's descriptor

struct rig {
    enum aie_arch arch;
    struct emu_machine * machine;
    uint32_t ids[IDS], table[ROWS * ROW_WORDS], out[IDS * ROW_WORDS];
    uint8_t * pdi;
    size_t pdi_size;
    uint32_t * insts;
    size_t n_insts;
};

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    struct rig * r = user;
    const struct {
        void * at;
        uint64_t bytes;
        bool write;
    } operands[] = {{r->ids, sizeof r->ids, false},
                    {r->table, sizeof r->table, false},
                    {r->out, sizeof r->out, true}};
    for (int i = 0; i < OPERANDS; i++) {
        uint64_t base = (uint64_t) (uintptr_t) operands[i].at;
        if (addr >= base && len <= operands[i].bytes && addr - base <= operands[i].bytes - len) {
            return write == operands[i].write ? (void *) (uintptr_t) addr : NULL;
        }
    }
    return NULL;
}

static struct array_bd plain(uint32_t address, uint32_t words) {
    return (struct array_bd){
        .address = address, .words = words, .next = -1, .acquire = -1, .release = -1};
}

static struct array_bd table_bd(void) {
    struct array_bd d = plain(0, ROW_WORDS);
    d.iterations = ROWS;
    d.iteration_step = ROW_WORDS;
    return d;
}

// ---- the core ----

static void acquire(struct asm_program * p, int lock, struct asm_reg value) {
    asm_lock_acquire(p, asm_target(p)->own_locks + lock, value);
}

static void release(struct asm_program * p, int lock, struct asm_reg value) {
    asm_lock_release(p, asm_target(p)->own_locks + lock, value);
}

// Of the two packets only one word is not the same each time.
static void write_program(struct asm_program * p, uint32_t runs) {
    enum { MEMORY_IDS = 1, MEMORY_PACKETS };
    struct asm_reg minus = asm_global(p, ASM_R), one = asm_global(p, ASM_R);
    struct asm_reg left = asm_global(p, ASM_R), shift = asm_global(p, ASM_R);
    struct asm_reg rest = asm_global(p, ASM_R);
    struct asm_reg ids = asm_global(p, ASM_P), packets = asm_global(p, ASM_P);
    int begin = asm_label_new(p), next = asm_label_new(p);
    int32_t window = (int32_t) asm_target(p)->own_window;
    emit_set_small(p, minus, -1);
    emit_set_small(p, one, 1);
    emit_set_small(p, shift, RUN_SHIFT);
    emit_set(p, rest, (int32_t) runs);
    emit_set(p, packets, window + AT_PACKETS);
    asm_label(p, begin);
    acquire(p, LOCK_IDS, minus);
    emit_set(p, ids, window + AT_IDS);
    emit_set_small(p, left, IDS);
    asm_label(p, next);
    struct asm_reg id = asm_local(p, ASM_R), word = asm_local(p, ASM_R);
    emit_load_word_next(p, MEMORY_IDS, id, ids);
    emit_alu(p, AIE_BASIC_SHIFT, word, id, shift);
    emit_alu(p, AIE_BASIC_OR, word, word, rest);
    emit_store_word(p, MEMORY_PACKETS, word, packets, 4);
    release(p, LOCK_GO, one);
    acquire(p, LOCK_DONE, minus);
    release(p, LOCK_FREE, one);
    emit_add_small(p, left, left, -1);
    asm_jump_if_nonzero(p, left, next);
    asm_jump(p, begin);
}

// ---- the design ----

static void make_pdi(struct rig * r) {
    static const uint8_t locks[LOCKS] = {[LOCK_FREE] = 1};
    uint32_t words[8], packets[4];
    struct asm_program * p;
    struct asm_code code;
    struct error err = {0};
    struct array_bd table = table_bd();
    array_shim_bd(&table, aie_target(r->arch), words);
    assert_int_equal(asm_new(r->arch, &p), ST_OK);
    write_program(p, words[RUN_WORD]);
    if (asm_finish(p, &code, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    asm_free(p);
    packets[0] = array_control_header(SHIM_BD + 0x20 * SHIM_TABLE + 4 * RUN_WORD, 1);
    packets[2] = array_control_header(SHIM_MM2S_QUEUE + 8, 1);
    packets[1] = 0;
    packets[3] = array_queue_word(SHIM_TABLE, 1, false);
    uint8_t bytes[sizeof packets];
    for (int i = 0; i < 4; i++) {
        store_u32(bytes + 4 * i, packets[i]);
    }
    struct array_program program = {
        .code = code.bytes, .size = code.size, .locks = locks, .n_locks = LOCKS};
    assert_int_equal(array_program_data(&program, AT_PACKETS, bytes, sizeof bytes, &err), ST_OK);
    struct array a;
    array_begin(&a, r->arch);
    array_core(&a, 0, 2, &program);
    array_token_route(&a, 0);
    array_route(&a, (struct array_port){0, 0, 0}, &(struct array_port){0, 2, 0}, 1); // numbers
    array_route(&a, (struct array_port){0, 0, 1}, &(struct array_port){0, 2, 1}, 1); // rows
    array_route(&a, (struct array_port){0, 2, 0}, &(struct array_port){0, 0, 0}, 1);
    array_control_route(&a, (struct array_port){0, 2, 1}, PACKET_ID, 0, 0);
    if (array_end(&a, &r->pdi, &r->pdi_size, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    array_program_free(&program);
}

static void make_stream(struct rig * r) {
    struct txn t;
    struct flow f = {&t, aie_target(r->arch)};
    struct flow_tile core = {0, 2}, shim = {0, 0};
    struct error err = {0};
    txn_begin(&t, 1, (int) txn_generation(r->arch));
    flow_expect(&f, 0, 0);
    struct array_bd ids = plain(AT_IDS, IDS), in = plain(AT_ROW, ROW_WORDS);
    struct array_bd out = plain(AT_ROW, ROW_WORDS), table = table_bd();
    struct array_bd which = plain(AT_PACKETS, 2), start = plain(AT_PACKETS + 8, 2);
    ids.release = LOCK_IDS;
    ids.release_value = 1;
    in.acquire = LOCK_FREE;
    in.release = LOCK_FULL;
    out.acquire = LOCK_FULL;
    out.release = LOCK_DONE;
    which.acquire = LOCK_GO;
    in.acquire_value = out.acquire_value = which.acquire_value = -1;
    in.release_value = out.release_value = 1;
    which.next = BD_START;
    which.packet = start.packet = 1 + PACKET_ID;
    flow_core_bd(&f, core, BD_IDS, &ids);
    flow_core_bd(&f, core, BD_ROW_IN, &in);
    flow_core_bd(&f, core, BD_ROW_OUT, &out);
    flow_core_bd(&f, core, BD_WHICH, &which);
    flow_core_bd(&f, core, BD_START, &start);
    flow_push(&f, core, CORE_S2MM_QUEUE, BD_IDS, 1, false);
    flow_push(&f, core, CORE_S2MM_QUEUE + 8, BD_ROW_IN, IDS, false);
    flow_push(&f, core, CORE_MM2S_QUEUE, BD_ROW_OUT, IDS, false);
    flow_push(&f, core, CORE_MM2S_QUEUE + 8, BD_WHICH, IDS, false);
    flow_shim_bd(&f, 0, SHIM_TABLE, &table, OPERAND_TABLE, 0); // which the core starts
    struct array_bd host_ids = plain(0, IDS), host_out = plain(0, IDS * ROW_WORDS);
    flow_shim_bd(&f, 0, SHIM_OUT, &host_out, OPERAND_OUT, 0);
    flow_push(&f, shim, SHIM_S2MM_QUEUE, SHIM_OUT, 1, true);
    flow_shim_bd(&f, 0, SHIM_IDS, &host_ids, OPERAND_IDS, 0);
    flow_push(&f, shim, SHIM_MM2S_QUEUE, SHIM_IDS, 1, false);
    flow_wait(&f, 0, 0);
    assert_int_equal(txn_end(&t, &r->insts, &r->n_insts, &err), ST_OK);
}

static struct rig * open_rig(enum aie_arch arch, bool strict, bool single) {
    struct rig * r = calloc(1, sizeof *r);
    struct error err = {0};
    struct emu_config config = {.arch = arch,
                                .columns = 4,
                                .resolve = resolve,
                                .user = r,
                                .max_cycles = 400000,
                                .strict = strict,
                                .single_cycles = single,
                                .trace_col = -1,
                                .trace_row = -1};
    r->arch = arch;
    if (emu_machine_new(&config, &r->machine, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    make_pdi(r);
    make_stream(r);
    return r;
}

static void close_rig(struct rig * r) {
    emu_machine_free(r->machine);
    free(r->pdi);
    free(r->insts);
    free(r);
}

// ---- tests ----

static void dispatch(struct rig * r) {
    struct error err = {0};
    const struct emu_operand operands[OPERANDS] = {
        {(uint64_t) (uintptr_t) r->ids, sizeof r->ids},
        {(uint64_t) (uintptr_t) r->table, sizeof r->table},
        {(uint64_t) (uintptr_t) r->out, sizeof r->out}};
    if (emu_machine_run(r->machine, r->pdi, r->pdi_size, r->insts, r->n_insts, operands, OPERANDS,
                        &err) != ST_OK) {
        fail_msg("%s: %s", kernel_arch_name(r->arch), err.text);
    }
}

static void run(struct rig * r, const uint32_t ids[IDS], uint32_t seed) {
    memcpy(r->ids, ids, sizeof r->ids);
    memset(r->out, 0xee, sizeof r->out);
    for (uint32_t i = 0; i < ROWS * ROW_WORDS; i++) {
        r->table[i] = seed * 0x9e3779b1u + i * 2654435761u;
    }
    dispatch(r);
    for (uint32_t k = 0; k < IDS; k++) {
        for (uint32_t j = 0; j < ROW_WORDS; j++) {
            uint32_t i = ids[k] * ROW_WORDS + j;
            assert_int_equal(r->out[k * ROW_WORDS + j], seed * 0x9e3779b1u + i * 2654435761u);
        }
    }
}

static void rows_by_numbers(void ** state) {
    (void) state;
    static const uint32_t ids[][IDS] = {
        {7, 0, 39, 7, 31, 32}, {1, 2, 3, 5, 8, 13}, {39, 39, 39, 39, 39, 0}};
    for (int i = 0; i < AIE_ARCH_COUNT * 4; i++) {
        struct rig * r = open_rig((enum aie_arch)(i / 4), i & 1, i >> 1 & 1);
        struct emu_counters counters;
        for (uint32_t k = 0; k < 3; k++) {
            run(r, ids[k], k + 1);
        }
        emu_machine_counters(r->machine, &counters);
        assert_int_equal(counters.pdi_loads, 1);
        close_rig(r);
    }
}

static void verified_as_ours_alone(void ** state) {
    (void) state;
    static const struct verify_operand operands[OPERANDS] = {
        {IDS * 4, VERIFY_IN}, {ROWS * ROW_WORDS * 4, VERIFY_IN}, {IDS * ROW_WORDS * 4, VERIFY_OUT}};
    for (int i = 0; i < AIE_ARCH_COUNT; i++) {
        struct rig * r = open_rig((enum aie_arch) i, false, false);
        struct error err = {0};
        struct verify_job job = {.arch = r->arch,
                                 .pdi = r->pdi,
                                 .pdi_size = r->pdi_size,
                                 .insts = (const uint8_t *) r->insts,
                                 .insts_size = r->n_insts * 4,
                                 .operands = operands,
                                 .n_operands = OPERANDS,
                                 .own = true};
        if (aie_verify(&job, &err) != ST_OK) {
            fail_msg("%s", err.text);
        }
        job.own = false;
        assert_int_equal(aie_verify(&job, &err), ST_CORRUPT);
        assert_non_null(strstr(err.text, "control port of shim (0,0)"));
        close_rig(r);
    }
}

// The builder's ways to control ports of other tiles: packets of the shim write two words into a
// tile's memory, then open the lock at which the channel waits that sends them back.
static void ports_of_tiles(void ** state) {
    (void) state;
    enum { WORDS = 2, AT = 0x100, LOCK = 7 };
    static const struct flow_tile tiles[] = {{0, 1}, {0, 2}, {0, 5}, {2, 3}};
    for (int i = 0; i < AIE_ARCH_COUNT * 4; i++) {
        struct rig * r = open_rig((enum aie_arch)(i / 4), false, false);
        struct flow_tile to = tiles[i % 4];
        bool mem = to.row == ARRAY_ROW_MEM;
        struct array a;
        struct error err = {0};
        array_begin(&a, r->arch);
        array_token_route(&a, 0);
        array_control_route(&a, (struct array_port){0, 0, 1}, 31, to.col, to.row);
        array_route(&a, (struct array_port){to.col, to.row, 0}, &(struct array_port){0, 0, 0}, 1);
        free(r->pdi);
        assert_int_equal(array_end(&a, &r->pdi, &r->pdi_size, &err), ST_OK);
        struct txn t;
        struct flow f = {&t, aie_target(r->arch)};
        txn_begin(&t, 4, (int) txn_generation(r->arch));
        flow_expect(&f, 0, 0);
        struct array_bd back = plain(AT, WORDS), out = plain(0, WORDS);
        struct array_bd words = plain(0, 1 + WORDS), lock = plain(0, 2);
        back.acquire = LOCK;
        back.acquire_value = -1;
        words.packet = lock.packet = 1 + 31;
        if (mem) {
            flow_mem_bd(&f, to.col, 0, &back);
        } else {
            flow_core_bd(&f, to, 0, &back);
        }
        flow_push(&f, to, mem ? MEM_MM2S_QUEUE : CORE_MM2S_QUEUE, 0, 1, false);
        flow_shim_bd(&f, 0, 0, &out, OPERAND_OUT, 0);
        flow_push(&f, (struct flow_tile){0, 0}, SHIM_S2MM_QUEUE, 0, 1, true);
        flow_shim_bd(&f, 0, 1, &words, OPERAND_IDS, 0);
        flow_shim_bd(&f, 0, 2, &lock, OPERAND_IDS, 4 * (1 + WORDS));
        flow_push(&f, (struct flow_tile){0, 0}, SHIM_MM2S_QUEUE + 8, 1, 1, false);
        flow_push(&f, (struct flow_tile){0, 0}, SHIM_MM2S_QUEUE + 8, 2, 1, false);
        flow_wait(&f, 0, 0);
        free(r->insts);
        assert_int_equal(txn_end(&t, &r->insts, &r->n_insts, &err), ST_OK);
        const uint32_t sent[] = {
            array_control_header(AT, WORDS), 0x11111111u + (uint32_t) i, 0x22222222,
            array_control_header((mem ? MEM_LOCK : CORE_LOCK) + 0x10 * LOCK, 1), 1};
        memcpy(r->ids, sent, sizeof sent);
        dispatch(r);
        assert_memory_equal(r->out, sent + 1, 4 * WORDS);
        close_rig(r);
    }
}

// Ways that the builder cannot make.
static void misuse(void ** state) {
    (void) state;
    static const struct {
        int id, col, row;
        const char * words;
    } cases[] = {{32, 0, 0, "ids from 0 to 31"}, {0, 9, 0, "no such"}, {0, 0, 6, "no such"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct array a;
        struct error err = {0};
        uint8_t * pdi = NULL;
        size_t size;
        array_begin(&a, AIE_ARCH_AIE2);
        array_control_route(&a, (struct array_port){0, 2, 1}, cases[i].id, cases[i].col,
                            cases[i].row);
        assert_int_equal(array_end(&a, &pdi, &size, &err), ST_INVALID);
        assert_non_null(strstr(err.text, cases[i].words));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_by_numbers),
                                       cmocka_unit_test(verified_as_ours_alone),
                                       cmocka_unit_test(ports_of_tiles), cmocka_unit_test(misuse)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

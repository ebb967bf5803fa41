// validate-design: the few configurations of the array that everything is measured with, the
// streams that drive them, and programs of single bundles. A core's program and what it works on
// come by the stream, so that hundreds of programs need one PDI.
//
// Kept true: what two streams of a measurement differ in is one thing; so they are made of the same
// pieces here.
#include "validate.h"

#include "aie/array/array.h"

#include <string.h>

enum {
    SINK_WORDS = 16384,
    SINK_AT = 0,
    SOURCE_AT = SINK_WORDS * 4,
    IDLE_BD = 15, // of the shims: nobody starts it
    SHIM_LOCK = 0x14000,
    SHIM_CONTROL = 0x1d200, // + 0x10 of channels that read, + 8 * channel
};

// ---- configurations ----

// Channel by channel: descriptors that follow themselves.
static void pipe_memtile(struct array * a, int col, int channel) {
    uint32_t words[8], base = image_addr(col, ARRAY_ROW_MEM, 0);
    for (int sends = 0; sends < 2; sends++) {
        int bd = (channel ? ARRAY_MEM_BD_ODD : 0) + sends;
        struct array_bd d = {
            .address =
                (uint32_t) (sends ? SOURCE_AT : SINK_AT) + (uint32_t) channel * 4 * SOURCE_AT,
            .words = SINK_WORDS,
            .next = bd,
            .acquire = -1,
            .release = -1,
        };
        array_mem_bd(&d, words);
        cdo_block_write(&a->setup, base + MEM_BD + 0x20 * (uint32_t) bd, words, 8);
        // When the switches are set: they are the last of the set-up.
        cdo_write(&a->enable,
                  base + (sends ? MEM_MM2S_QUEUE : MEM_S2MM_QUEUE) + 8 * (uint32_t) channel,
                  array_queue_word(bd, 1, false));
    }
}

static void pipe(const struct lab * l, struct array * a) {
    array_begin(a, l->arch);
    for (int col = 0; col < l->columns; col++) {
        array_token_route(a, col);
        for (int channel = 0; channel < 2; channel++) {
            struct array_port shim = {col, ARRAY_ROW_SHIM, channel},
                              mem = {col, ARRAY_ROW_MEM, channel};
            array_route(a, shim, &mem, 1);
            array_route(a, mem, &shim, 1);
        }
    }
    for (int col = 0; col < l->columns; col++) {
        pipe_memtile(a, col, 0);
        pipe_memtile(a, col, 1);
    }
}

enum status design_pipe(const struct lab * l, uint8_t ** pdi, size_t * size, struct error * err) {
    struct array a;
    pipe(l, &a);
    return array_end(&a, pdi, size, err);
}

enum status design_padded(const struct lab * l, int commands, int words, uint8_t ** pdi,
                          size_t * size, struct error * err) {
    enum { BLOCK = 8192 };
    static const uint32_t zeros[BLOCK];
    struct array a;
    pipe(l, &a);
    uint32_t memory = image_addr(0, ARRAY_ROW_CORE, 0);
    for (int i = 0; i < commands; i++) {
        cdo_write(&a.setup, memory + 4 * (uint32_t) (i % BLOCK), 0);
    }
    for (int i = 0; i < words; i += BLOCK) {
        cdo_block_write(&a.setup, memory, zeros, (size_t) (words - i < BLOCK ? words - i : BLOCK));
    }
    return array_end(&a, pdi, size, err);
}

enum status design_cells(const struct lab * l, int row, uint8_t ** pdi, size_t * size,
                         struct error * err) {
    struct code idle;
    struct array a;
    uint8_t bytes[64 * 4];
    code_begin(&idle, l);
    int done = aie_isa_find(aie_isa_get(l->arch), "DONE");
    code_put(&idle, done, NULL, 0);
    code_end(&idle);
    code_nops(&idle, 6);
    if (idle.err.status != ST_OK) {
        *err = idle.err;
        return err->status;
    }
    for (uint32_t i = 0; i < idle.n; i++) {
        store_u32(bytes + 4 * i, idle.words[i]);
    }
    struct array_program p = {.code = bytes, .size = 4 * idle.n};
    array_begin(&a, l->arch);
    for (int col = 0; col < l->columns; col++) {
        struct array_port core = {col, row, 0}, shim = {col, ARRAY_ROW_SHIM, 0};
        array_core(&a, col, row, &p);
        array_token_route(&a, col);
        array_route(&a, core, &shim, 1);
    }
    return array_end(&a, pdi, size, err);
}

// ---- streams ----

void design_task(const struct lab * l, struct txn * t, const struct task * k) {
    uint32_t words[8], shim = image_addr(k->col, ARRAY_ROW_SHIM, 0);
    uint32_t bd = shim + SHIM_BD + 0x20 * (uint32_t) k->bd;
    uint32_t control = shim + SHIM_CONTROL + (k->reads ? 0x10 : 0) + 8 * (uint32_t) k->channel;
    struct array_bd d = {
        .words = k->words,
        .next = -1,
        .acquire = k->lock,
        .acquire_value = -1,
        .release = -1,
    };
    if (k->run) {
        d.wrap[0] = k->run;
        d.step[0] = 1;
        d.step[1] = 2 * k->run;
    }
    array_shim_bd(&d, l->target, words);
    txn_block_write(t, bd, words, 8);
    txn_patch_address(t, bd + 4, k->reads ? LAB_READ : LAB_WRITTEN, k->offset);
    txn_mask_write(t, control, 0x1f00, array_token_control());
    txn_write(t, control + 4, array_queue_word(k->bd, k->repeat ? k->repeat : 1, k->token));
}

void design_gate(struct txn * t, int col, int lock, int value) {
    txn_write(t, image_addr(col, ARRAY_ROW_SHIM, SHIM_LOCK + 0x10 * (uint32_t) lock),
              (uint32_t) value);
}

void design_sync(struct txn * t, int col, bool reads, int channel) {
    txn_wait(t, col, ARRAY_ROW_SHIM, reads, channel);
}

static uint32_t idle_bd(void) {
    return image_addr(0, ARRAY_ROW_SHIM, SHIM_BD + 0x20 * IDLE_BD);
}

void design_writes(struct txn * t, int n) {
    while (n-- > 0) {
        txn_write(t, idle_bd(), 0);
    }
}

void design_masks(struct txn * t, int n) {
    while (n-- > 0) {
        txn_mask_write(t, image_addr(0, ARRAY_ROW_SHIM, SHIM_CONTROL), 0x1f00,
                       array_token_control());
    }
}

void design_blocks(struct txn * t, int n, int words) {
    static const uint32_t zeros[8];
    while (n-- > 0) {
        txn_block_write(t, idle_bd(), zeros, (size_t) words);
    }
}

void design_patches(struct txn * t, int n) {
    while (n-- > 0) {
        txn_patch_address(t, idle_bd() + 4, LAB_READ, 0);
    }
}

// ---- programs ----

void code_begin(struct code * c, const struct lab * l) {
    *c = (struct code){.l = l, .bundle = {.size = AIE_MAX_BUNDLE_BYTES}};
}

void code_put(struct code * c, int op, const int32_t * values, int n) {
    const struct aie_isa * isa = aie_isa_get(c->l->arch);
    if (op < 0) {
        error_set(&c->err, ST_UNSUPPORTED, "this architecture lacks an instruction");
        return;
    }
    int slot = aie_isa_instr(isa, op)->slot;
    c->bundle.present |= (uint8_t) (1u << slot);
    c->bundle.slot[slot].op = (uint16_t) op;
    for (int i = 0; i < n; i++) {
        c->bundle.slot[slot].values[i] = values[i];
    }
}

void code_end(struct code * c) {
    uint8_t bytes[AIE_MAX_BUNDLE_BYTES];
    int size = 0;
    struct error err;
    if (c->err.status == ST_OK &&
        aie_bundle_encode(aie_isa_get(c->l->arch), &c->bundle, bytes, &size, &err) != ST_OK) {
        c->err = err;
    }
    if (c->err.status == ST_OK && c->n + 4 > sizeof c->words / sizeof c->words[0]) {
        error_set(&c->err, ST_INVALID, "a program is too long");
    }
    for (int i = 0; i < 4 && c->err.status == ST_OK; i++) {
        c->words[c->n++] = load_u32(bytes + 4 * i);
    }
    c->bundle = (struct aie_bundle){.size = AIE_MAX_BUNDLE_BYTES};
}

void code_nops(struct code * c, int n) {
    while (n-- > 0) {
        code_end(c);
    }
}

static void put_basic(struct code * c, enum aie_basic b, const int32_t * values, int n) {
    code_put(c, c->l->target->basic[b], values, n);
    code_end(c);
}

void code_set(struct code * c, aie_reg reg, int32_t value) {
    put_basic(c, AIE_BASIC_SET, (const int32_t[]){reg, value}, 2);
}

void code_lock(struct code * c, bool acquire, int lock, aie_reg value) {
    code_nops(c, c->l->target->lock_margin);
    put_basic(c, acquire ? AIE_BASIC_ACQUIRE : AIE_BASIC_RELEASE,
              (const int32_t[]){c->l->target->own_locks + lock, value}, 2);
    code_nops(c, c->l->target->lock_margin);
}

uint32_t code_loop(struct code * c, int32_t trips) {
    code_set(c, AIE_REG(AIE_R, 0), trips);
    code_nops(c, 2);
    return c->n;
}

int code_loop_end(struct code * c, uint32_t start) {
    int32_t r0 = AIE_REG(AIE_R, 0);
    put_basic(c, AIE_BASIC_ADD_SMALL, (const int32_t[]){r0, r0, -1}, 3);
    code_nops(c, 2);
    put_basic(c, AIE_BASIC_JUMP_IF_NONZERO, (const int32_t[]){r0, (int32_t) (4 * start)}, 2);
    code_nops(c, c->l->target->delay_slots);
    return (int) (c->n - start) / 4;
}

void code_finish(struct code * c) {
    code_nops(c, 12); // until all has landed
    code_set(c, AIE_REG(AIE_R, 1), 1);
    code_nops(c, 2);
    code_lock(c, false, CODE_DONE_LOCK, AIE_REG(AIE_R, 1));
    code_put(c, aie_isa_find(aie_isa_get(c->l->arch), "DONE"), NULL, 0);
    code_end(c);
    code_nops(c, 6);
}

enum { ENABLE = 1, RESET = 2 };

void design_program_at(const struct lab * l, struct txn * t, int col, int row,
                       const struct code * c, uint32_t in_at, const uint32_t * in, size_t n_in,
                       uint32_t out_words) {
    uint32_t words[6], tile = image_addr(col, row, 0);
    struct task out = {.col = col, .words = out_words, .token = true, .lock = -1};
    struct array_bd d = {
        .address = CODE_OUT,
        .words = out_words,
        .next = -1,
        .acquire = CODE_DONE_LOCK,
        .acquire_value = -1,
        .release = -1,
    };
    txn_mask_write(t, tile + CORE_CONTROL, ENABLE, 0);
    txn_mask_write(t, tile + CORE_CONTROL, RESET, RESET);
    txn_block_write(t, tile + CORE_PROGRAM, c->words, c->n);
    if (n_in) {
        txn_block_write(t, tile + in_at, in, n_in);
    }
    txn_write(t, tile + CORE_LOCK + 0x10 * CODE_DONE_LOCK, 0);
    array_core_bd(&d, words);
    txn_block_write(t, tile + CORE_BD, words, 6);
    txn_write(t, tile + CORE_MM2S_QUEUE, array_queue_word(0, 1, false));
    design_task(l, t, &out);
    txn_mask_write(t, tile + CORE_CONTROL, RESET, 0);
    txn_mask_write(t, tile + CORE_CONTROL, ENABLE, ENABLE);
    design_sync(t, col, false, 0);
}

void design_program(const struct lab * l, struct txn * t, int col, int row, const struct code * c,
                    uint32_t out_words) {
    design_program_at(l, t, col, row, c, 0, NULL, 0, out_words);
}

// array/config: the three CDOs of a PDI. First the programs, with the tiles' DMA held in reset;
// then locks and switches (route.c); last the cores are let go.
#include "array.h"

#include <stdlib.h>
#include <string.h>

enum {
    CORE_ENABLE = 1,
    CORE_RESET = 2,
    DMA_RESET = 2,
};

enum { SHIM_S_CTRL = 0, SHIM_M_SOUTH = 2 }; // switch ports on the tokens' way

static const uint32_t core_dma_controls[4] = {0x1de10, 0x1de18, 0x1de00, 0x1de08};

void array_begin(struct array * a, enum aie_arch arch) {
    *a = (struct array){.arch = arch};
    cdo_begin(&a->programs);
    cdo_begin(&a->setup);
    cdo_begin(&a->enable);
}

enum status array_program_data(struct array_program * p, uint32_t at, const uint8_t * bytes,
                               size_t size, struct error * err) {
    struct array_data * d = p->data;
    while (d->size) {
        d++;
    }
    *d = (struct array_data){.at = at, .bytes = malloc(size), .size = size};
    if (!d->bytes) {
        d->size = 0;
        return error_set(err, ST_NO_MEMORY, "array: out of memory");
    }
    memcpy(d->bytes, bytes, size);
    return ST_OK;
}

void array_program_free(struct array_program * p) {
    free(p->code);
    for (int i = 0; i < ARRAY_PROGRAM_DATA; i++) {
        free(p->data[i].bytes);
    }
}

void array_data(struct array * a, int col, int row, uint32_t address, const uint8_t * bytes,
                size_t size) {
    cdo_block_write_bytes(&a->setup, image_addr(col, row, address), bytes, size / 4);
}

void array_core(struct array * a, int col, int row, const struct array_program * p) {
    uint32_t base = image_addr(col, row, 0);
    cdo_mask_write(&a->programs, base + CORE_CONTROL, CORE_ENABLE, 0);
    for (int i = 0; i < 4; i++) {
        cdo_mask_write(&a->programs, base + core_dma_controls[i], DMA_RESET, DMA_RESET);
    }
    cdo_block_write_bytes(&a->programs, base + CORE_PROGRAM, p->code, p->size / 4);
    for (int i = 0; i < 4; i++) {
        cdo_mask_write(&a->programs, base + core_dma_controls[i], DMA_RESET, 0);
    }

    cdo_mask_write(&a->setup, base + CORE_CONTROL, CORE_RESET, CORE_RESET);
    cdo_mask_write(&a->setup, base + CORE_CONTROL, CORE_RESET, 0);
    for (int i = 0; i < p->n_locks; i++) { // nobody looks at the others
        cdo_write(&a->setup, base + CORE_LOCK + 0x10 * (uint32_t) i, p->locks[i]);
    }
    for (int i = 0; i < ARRAY_PROGRAM_DATA && p->data[i].size; i++) {
        array_data(a, col, row, p->data[i].at, p->data[i].bytes, p->data[i].size);
    }
    cdo_mask_write(&a->enable, base + CORE_CONTROL, CORE_ENABLE, CORE_ENABLE);
}

void array_mem(struct array * a, int col, const uint8_t * lock_values, int n_locks) {
    for (int i = 0; i < n_locks; i++) {
        cdo_write(&a->setup, image_addr(col, ARRAY_ROW_MEM, MEM_LOCK + 0x10 * (uint32_t) i),
                  lock_values[i]);
    }
}

// Tokens are packets with id 15 that the shim's control port sends; every real kernel routes them
// with exactly these words.
#define TOKEN_SLAVE  0xc0000000u
#define TOKEN_SLOT   0x0f1f0135u
#define TOKEN_MASTER 0xc0000045u
enum { TOKEN_CONTROLLER_MASK = 0x1f00, TOKEN_CONTROLLER = 0x0f00 };

void array_token_route(struct array * a, int col) {
    uint32_t shim = image_addr(col, ARRAY_ROW_SHIM, 0);
    cdo_write(&a->setup, shim + SHIM_SLAVE + 4 * SHIM_S_CTRL, TOKEN_SLAVE);
    cdo_write(&a->setup, shim + SHIM_SLAVE_SLOT + 0x10 * SHIM_S_CTRL, TOKEN_SLOT);
    cdo_write(&a->setup, shim + SHIM_MASTER + 4 * SHIM_M_SOUTH, TOKEN_MASTER);
}

void array_token_controller(struct txn * t, int col, int channel) {
    txn_mask_write(t, image_addr(col, ARRAY_ROW_SHIM, SHIM_S2MM_CONTROL + 8 * (uint32_t) channel),
                   TOKEN_CONTROLLER_MASK, TOKEN_CONTROLLER);
}

uint32_t array_token_control(void) {
    return TOKEN_CONTROLLER;
}

enum status array_end(struct array * a, uint8_t ** pdi, size_t * size, struct error * err) {
    array_write_switches(a);
    struct cdo cdos[3] = {a->programs, a->setup, a->enable};
    enum status st = a->misuse.status != ST_OK
                         ? error_set(err, a->misuse.status, "%s", a->misuse.text)
                         : pdi_write(cdos, 3, pdi, size, err);
    cdo_free(&a->programs);
    cdo_free(&a->setup);
    cdo_free(&a->enable);
    return st;
}

// validate-tiles: every core of the array by itself. A program gives each lock of its tile back and
// takes it again, and leaves a word that tells the tile; so a core that does not run, a lock that
// does not open and a way that leads elsewhere are found, and named: where a tile does not come to
// its end, its locks are tried one by one.
#include "validate.h"

#include <stdio.h>
#include <string.h>

enum { LOCKS = 16, ALL_LOCKS = -1, WORDS = 16 };

static uint32_t word_of(int col, int row) {
    return 0x600d0000u | (uint32_t) col << 8 | (uint32_t) row;
}

// The locks one after the other, or one of them alone. The last one ends every program.
static void write_program(struct code * c, const struct lab * l, int col, int row, int only) {
    aie_reg take = AIE_REG(AIE_R, 4), give = AIE_REG(AIE_R, 5), word = AIE_REG(AIE_R, 6);
    int store = aie_isa_find(aie_isa_get(l->arch), "ST_dms_sts_idx_imm");
    code_begin(c, l);
    code_set(c, take, -1);
    code_set(c, give, 1);
    code_set(c, word, (int32_t) word_of(col, row));
    code_set(c, AIE_REG(AIE_P, 0), (int32_t) (l->target->own_window + CODE_OUT));
    code_nops(c, 4);
    for (int lock = 0; lock < LOCKS; lock++) {
        if (lock != CODE_DONE_LOCK && (only == ALL_LOCKS || only == lock)) {
            code_lock(c, false, lock, give);
            code_lock(c, true, lock, take);
        }
    }
    code_put(c, store, (const int32_t[]){word, AIE_REG(AIE_P, 0), 0}, 3);
    code_end(c);
    code_finish(c);
}

// ST_OK: it ran, and the word is its own.
static enum status try_tile(struct lab * l, const struct lab_pdi * pdi, int col, int row, int only,
                            struct error * err) {
    static struct code c;
    struct txn t;
    uint8_t bytes[4 * WORDS];
    double ns;
    write_program(&c, l, col, row, only);
    if (c.err.status != ST_OK) {
        *err = c.err;
        return err->status;
    }
    lab_begin(l, &t);
    for (int lock = 0; lock < LOCKS; lock++) {
        txn_write(&t, image_addr(col, row, CORE_LOCK + 0x10 * (uint32_t) lock), 0);
    }
    design_program(l, &t, col, row, &c, WORDS);
    enum status st = lab_fill(l, LAB_WRITTEN, 0, sizeof bytes, err);
    st = st == ST_OK ? lab_cold(l, pdi, &t, &ns, err) : st;
    st = st == ST_OK ? lab_get(l, LAB_WRITTEN, bytes, sizeof bytes, err) : st;
    if (st == ST_OK && load_u32(bytes) != word_of(col, row)) {
        st = error_set(err, ST_DEVICE, "it left %08x, expected %08x", load_u32(bytes),
                       word_of(col, row));
    }
    return st;
}

static void name_locks(struct lab * l, const struct lab_pdi * pdi, int col, int row,
                       struct step * s, const struct error * why) {
    bool found = false;
    for (int lock = 0; lock < LOCKS && !validate_interrupted(); lock++) {
        struct error err = {0};
        if (lock != CODE_DONE_LOCK && try_tile(l, pdi, col, row, lock, &err) != ST_OK) {
            validate_bad(s,
                         "lock %d of the core in column %d, row %d does not open when it is "
                         "given back",
                         lock, col, row);
            found = true;
        }
    }
    if (!found) {
        validate_bad(s, "the core in column %d, row %d: %.300s", col, row, why->text);
    }
}

void step_tiles(struct validate * v) {
    struct step * s = validate_step(v, "tiles");
    struct lab * l = &v->lab;
    int rows = l->target->core_rows, tested = 0;
    for (int r = 0; r < rows && r < VALIDATE_CORES && s->outcome == STEP_OK; r++) {
        struct lab_pdi pdi = {0};
        struct error err = {0};
        uint8_t * bytes = NULL;
        size_t size = 0;
        int row = ARRAY_ROW_CORE + r;
        enum status st = design_cells(l, row, &bytes, &size, &err);
        st = st == ST_OK ? lab_place(l, bytes, size, &pdi, &err) : st;
        if (st != ST_OK) {
            validate_bad(s, "%s", err.text);
        }
        for (int col = 0; col < v->columns && st == ST_OK && !validate_interrupted(); col++) {
            struct error why = {0};
            bool works = try_tile(l, &pdi, col, row, ALL_LOCKS, &why) == ST_OK;
            v->tiles[col][r] = works ? TILE_WORKS : TILE_FAILS;
            tested++;
            if (!works) {
                name_locks(l, &pdi, col, row, s, &why);
            }
        }
        lab_unplace(l, &pdi);
    }
    snprintf(s->detail, sizeof s->detail, "%d cores with %d locks each", tested, LOCKS);
    validate_done(v, s);
}

// verify: walks the two files and asks the other parts of this room about each command; see
// verify.h. Nothing of the files is believed: the readers of aie/image check every length.
#include "model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHIM_BD_ADDRESS = 1 };

static const char by_compiler[] = "the compiler that made it must be mended";
static const char stream_name[] = "instruction stream";

bool verify_refuse(struct verifier * v, const char * mend, const char * fmt, ...) {
    if (v->error.status == ST_OK) {
        char reason[320];
        va_list args;
        va_start(args, fmt);
        vsnprintf(reason, sizeof reason, fmt, args);
        va_end(args);
        error_set(&v->error, ST_CORRUPT, "%s at offset 0x%x: %s; %s",
                  v->in_stream ? stream_name : "PDI", v->offset, reason, mend);
    }
    return false;
}

// ---- commands ----

static struct tile * tile_at(struct verifier * v, uint32_t addr, const char * what) {
    int col = (int) bits(addr, 31, 25), row = (int) bits(addr, 24, 20);
    if (col >= v->columns || row >= ROWS) {
        verify_refuse(v, "make it again for this device",
                      "%s column %d, row %d, outside the partition of %d columns and %d rows", what,
                      col, row, v->columns, ROWS);
        return NULL;
    }
    return &v->tiles[col][row];
}

static bool find_reg(struct verifier * v, const struct tile * t, uint32_t addr, struct reg * reg) {
    uint32_t offset = bits(addr, 19, 0);
    if (offset % 4) {
        return verify_refuse(v, by_compiler,
                             "a write to byte 0x%x of tile (%d,%d), which is no word", offset,
                             t->col, t->row);
    }
    return verify_reg_find(map_of(v, t), offset, reg) ||
           verify_refuse(
               v, "a kernel may write memories, locks, descriptors, queues and switches only",
               "a write to register 0x%05x of %s (%d,%d), which is not for kernels", offset,
               map_of(v, t)->name, t->col, t->row);
}

static bool is_memory(const struct reg * reg) {
    return reg->class == REG_DATA || reg->class == REG_PROGRAM;
}

// A stream writes a shim's descriptor as a whole, in one command: what a task finds there that
// looks at it in between is then one or the other. What a PDI leaves there never counts.
static bool in_part(struct verifier * v, const struct tile * t, const struct reg * reg) {
    return verify_refuse(v, "write all of it by one block",
                         "descriptor %d of shim (%d,0) is written in part", reg->index, t->col);
}

static bool is_shim_bd(const struct verifier * v, const struct tile * t, const struct reg * reg) {
    return v->in_stream && t->kind == TILE_SHIM && reg->class == REG_BD;
}

// Some tools end a push with a 1 under no mask to the control of a memtile's or core's channel: a
// bit that says nothing there, however it is read.
static bool is_idle_form(const struct verifier * v, const struct tile * t, const struct reg * reg,
                         uint32_t mask, uint32_t value) {
    bool control = reg->class == REG_S2MM_CONTROL || reg->class == REG_MM2S_CONTROL;
    return !v->in_stream && t->kind != TILE_SHIM && control && mask == 0 && value == 1;
}

static bool one_word(struct verifier * v, const struct image_command * c) {
    struct tile * t = tile_at(v, c->addr, "a write to");
    struct reg reg;
    uint32_t mask = c->op == IMAGE_WRITE ? UINT32_MAX : c->mask;
    if (!t || !find_reg(v, t, c->addr, &reg)) {
        return false;
    }
    if (is_shim_bd(v, t, &reg)) {
        return in_part(v, t, &reg);
    }
    if (c->value & ~mask && !is_idle_form(v, t, &reg, mask, c->value)) {
        return verify_refuse(v, by_compiler,
                             "0x%x is written under mask 0x%x, with bits beside its mask: whether "
                             "these count is not known",
                             c->value, mask);
    }
    bool nothing = mask == 0 && reg.class != REG_S2MM_QUEUE && reg.class != REG_MM2S_QUEUE;
    return nothing || (verify_tile_write(v, t, &reg, mask, c->value) && verify_tile_settle(v, t));
}

static bool block(struct verifier * v, const struct image_command * c) {
    struct tile * t = tile_at(v, c->addr, "a write to");
    uint32_t n;
    if (c->missing) {
        return verify_refuse(v, "make the PDI again, without packing it",
                             "a block of %u words, but the file ends before its last %u: what "
                             "would be written is not known",
                             c->n_words + c->missing, c->missing);
    }
    for (uint32_t i = 0; t && i < c->n_words; i += n) {
        uint64_t addr = c->addr + 4 * (uint64_t) i;
        struct reg reg;
        if (addr >> 20 != c->addr >> 20) {
            return verify_refuse(v, by_compiler, "a block of %u words leaves tile (%d,%d)",
                                 c->n_words, t->col, t->row);
        }
        if (!find_reg(v, t, (uint32_t) addr, &reg)) {
            return false;
        }
        if (is_shim_bd(v, t, &reg)) {
            uint32_t words[BD_WORDS];
            n = BD_WORDS;
            if (reg.word != 0 || c->n_words - i < BD_WORDS) {
                return in_part(v, t, &reg);
            }
            for (uint32_t k = 0; k < BD_WORDS; k++) {
                words[k] = load_u32(c->data + 4 * (size_t) (i + k));
            }
            if (!verify_shim_block(v, t, reg.index, words)) {
                return false;
            }
            continue;
        }
        n = is_memory(&reg) ? verify_reg_room(map_of(v, t), &reg) / 4 : 1;
        if (!verify_tile_write(v, t, &reg, UINT32_MAX, load_u32(c->data + 4 * (size_t) i))) {
            return false;
        }
    }
    return t && verify_tile_settle(v, t);
}

static bool patch(struct verifier * v, const struct image_command * c) {
    struct tile * t = tile_at(v, c->addr, "an address is patched into");
    struct reg reg;
    if (!t) {
        return false;
    }
    if (t->kind != TILE_SHIM || c->addr % 4 ||
        !verify_reg_find(map_of(v, t), bits(c->addr, 19, 0), &reg) || reg.class != REG_BD ||
        reg.word != SHIM_BD_ADDRESS) {
        return verify_refuse(
            v, by_compiler,
            "an address is patched into register 0x%05x of %s (%d,%d), which is not the "
            "address of a shim's descriptor",
            bits(c->addr, 19, 0), map_of(v, t)->name, t->col, t->row);
    }
    return verify_shim_patch(v, t, reg.index, c->operand, c->byte_offset);
}

static bool wait(struct verifier * v, const struct image_command * c) {
    if (c->col >= v->columns || c->row != 0 || c->channel >= SHIM_CHANNELS) {
        return verify_refuse(
            v, "make it again for this device",
            "a SYNC waits for %s%d of tile (%d,%d), which is no channel of a shim of %d "
            "columns: it can never be met",
            c->direction ? "MM2S" : "S2MM", c->channel, c->col, c->row, v->columns);
    }
    return verify_shim_sync(v, &v->tiles[c->col][0], queue_of(c->direction, c->channel));
}

// Blocks of a shim's descriptors, and patches.
static bool is_descriptor(const struct image_command * c) {
    uint32_t row = bits(c->addr, 24, 20), offset = bits(c->addr, 19, 0);
    return c->op == IMAGE_PATCH ||
           (c->op == IMAGE_BLOCK_WRITE && row == 0 && offset - SHIM_BD < 0x20 * SHIM_BDS);
}

static bool visit(void * user, const struct image_command * c) {
    struct verifier * v = user;
    v->offset = c->offset;
    if (!is_descriptor(c) && !verify_late_settled(v)) {
        return false;
    }
    switch (c->op) {
    case IMAGE_WRITE:
    case IMAGE_MASK_WRITE:
        return one_word(v, c);
    case IMAGE_BLOCK_WRITE:
        return block(v, c);
    case IMAGE_PATCH:
        return patch(v, c);
    case IMAGE_WAIT:
        return wait(v, c);
    default:
        return true;
    }
}

// ---- the whole ----

static bool begin(struct verifier * v, const struct verify_job * job) {
    v->job = job;
    v->map = verify_array_map(job->arch);
    v->columns = job->columns ? job->columns : v->map->columns;
    if (v->columns < 1 || v->columns > v->map->columns || job->n_operands < 0 ||
        job->n_operands > MOST_OPERANDS) {
        error_set(&v->error, ST_INVALID,
                  "%d columns of %s and %d operands: 1 to %d and up to %d are known", v->columns,
                  v->map->name, job->n_operands, v->map->columns, MOST_OPERANDS);
        return false;
    }
    for (int col = 0; col < v->columns; col++) {
        for (int row = 0; row < ROWS; row++) {
            struct tile * t = &v->tiles[col][row];
            t->kind = row == 0 ? TILE_SHIM : row == 1 ? TILE_MEM : TILE_CORE;
            t->col = col;
            t->row = row;
        }
    }
    return true;
}

static bool walk_pdi(struct verifier * v) {
    const struct verify_job * job = v->job;
    struct error unread = {0};
    enum status st = pdi_read(job->pdi, job->pdi_size, visit, v, &unread);
    v->offset = v->error.status == ST_OK ? (uint32_t) job->pdi_size : v->offset;
    if (st != ST_OK && v->error.status == ST_OK) {
        error_set(&v->error, ST_CORRUPT, "%s; make the PDI again", unread.text);
    }
    bool ok = v->error.status == ST_OK && verify_wires_check(v) && verify_pdi_header(v);
    for (int i = 0; i < v->columns * ROWS && ok; i++) {
        v->offset = (uint32_t) job->pdi_size;
        ok = verify_tile_configured(v, &v->tiles[i / ROWS][i % ROWS]);
    }
    return ok;
}

static void walk_stream(struct verifier * v) {
    const struct verify_job * job = v->job;
    struct error unread = {0};
    v->in_stream = true;
    v->offset = 0;
    if (image_is_txn(job->insts, job->insts_size) && !verify_stream_header(v)) {
        return;
    }
    enum status st = txn_read(job->insts, job->insts_size, visit, v, &unread);
    if (v->error.status != ST_OK) {
        return;
    }
    if (st != ST_OK) {
        error_set(&v->error, ST_CORRUPT, "%s: %s; make it again", stream_name, unread.text);
        return;
    }
    v->offset = (uint32_t) job->insts_size;
    if (verify_late_settled(v)) {
        verify_shim_end(v);
    }
}

static enum status verify(const struct verify_job * job, bool stream, struct error * err) {
    if ((unsigned) job->arch >= AIE_ARCH_COUNT) {
        return error_set(err, ST_INVALID, "architecture %d is not known", (int) job->arch);
    }
    struct verifier * v = calloc(1, sizeof *v);
    if (!v) {
        return error_set(err, ST_NO_MEMORY, "no memory to verify a kernel");
    }
    if (begin(v, job) && walk_pdi(v) && stream) {
        walk_stream(v);
    }
    enum status st = v->error.status;
    if (st != ST_OK) {
        error_set(err, st, "%s", v->error.text);
    }
    free(v);
    return st;
}

enum status aie_verify(const struct verify_job * job, struct error * err) {
    return verify(job, true, err);
}

enum status aie_verify_pdi(enum aie_arch arch, int columns, const uint8_t * pdi, size_t size,
                           struct error * err) {
    struct verify_job job = {.arch = arch, .columns = columns, .pdi = pdi, .pdi_size = size};
    return verify(&job, false, err);
}

bool aie_verify_blames_stream(const struct error * err) {
    return !strncmp(err->text, stream_name, strlen(stream_name));
}

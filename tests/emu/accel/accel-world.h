// accel-world: what tests of commands share: two kernels that our compiler made, in a file with
// operands and a context.
#pragma once

#include "accel-rig.h"

#include "aie/aie.h"
#include "base/base.h"
#include <math.h>

enum { ELEMENTS = 1024, BYTES = 4 * ELEMENTS, MAX_CHAIN = 80 };

static struct kernel_code code[2]; // of f32, with different PDIs
static enum aie_arch world_arch = AIE_ARCH_AIE2;
static const enum kernel_op ops[2] = {KERNEL_OP_ADD, KERNEL_OP_DIV};
enum { ADD, DIV }; // of two programs

static inline int compile(void ** state) {
    (void) state;
    for (int i = 0; i < 2; i++) {
        const int64_t ne[4] = {ELEMENTS, 1, 1, 1};
        struct kernel_spec spec = {.op = ops[i], .arch = world_arch, .n_inputs = 2};
        spec.inputs[0] = spec.inputs[1] = spec.output = tensor_contiguous(DTYPE_F32, ne);
        struct error err = {0};
        if (aie_compile(&spec, &code[i], &err) != ST_OK) {
            print_message("%s\n", err.text);
            return -1;
        }
    }
    return 0;
}

static inline int discard(void ** state) {
    (void) state;
    kernel_code_free(&code[0]);
    kernel_code_free(&code[1]);
    return 0;
}

// ---- a file with the two kernels, operands and a context ----

struct world {
    struct rig_file f;
    uint32_t pdi[2], insts[2], operand[3], context, syncobj;
    float * data[3];
};

static inline uint32_t upload(struct rig_file * f, const void * bytes, size_t size) {
    uint32_t h = rig_bo(f->fd, XDNA_BO_DEV, size);
    memcpy((void *) (uintptr_t) rig_info(f->fd, h).vaddr, bytes, size);
    return h;
}

// The PDIs are the context's CUs, the second first when swapped.
static inline struct world world_new(bool swapped) {
    struct world w = {.f = rig_file()};
    for (int i = 0; i < 2; i++) {
        w.pdi[i] = upload(&w.f, code[i].pdi, code[i].pdi_size);
        w.insts[i] = upload(&w.f, code[i].insts, 4 * code[i].n_insts);
    }
    for (int i = 0; i < 3; i++) {
        w.operand[i] = rig_bo(w.f.fd, XDNA_BO_SHARE, BYTES);
        w.data[i] = rig_map(w.f.fd, w.operand[i], BYTES);
        for (int k = 0; k < ELEMENTS; k++) {
            w.data[i][k] = (float) (i == 0 ? k : i == 1 ? k % 7 + 1 : -1); // sums are exact
        }
    }
    assert_int_equal(rig_create_timed(w.f.fd, RIG_TILES, &w.context, &w.syncobj), 0);
    const uint32_t cus[] = {w.pdi[swapped], w.pdi[!swapped]};
    assert_int_equal(rig_configure(w.f.fd, w.context, cus, 2), 0);
    return w;
}

static inline void world_free(struct world * w) {
    for (int i = 0; i < 3; i++) {
        munmap(w->data[i], BYTES);
    }
    rig_file_close(&w->f);
}

static inline int wrong(const struct world * w, int op) {
    int n = 0;
    for (int k = 0; k < ELEMENTS; k++) {
        double want = op == ADD ? k + k % 7 + 1 : (double) k / (k % 7 + 1);
        double off = op == ADD ? 0 : 1e-3 * want; // a quotient is near enough, a sum exact
        n += fabs((double) w->data[2][k] - want) > off;
    }
    return n;
}

static inline bool untouched(const struct world * w) {
    int n = 0;
    for (int k = 0; k < ELEMENTS; k++) {
        n += w->data[2][k] == -1;
    }
    return n == ELEMENTS;
}

// ---- commands ----

struct command {
    uint32_t handle;
    uint32_t * words;
};

static inline struct command command_new(int fd, size_t bytes) {
    struct command c = {.handle = rig_bo(fd, XDNA_BO_CMD, bytes)};
    c.words = rig_map(fd, c.handle, bytes);
    return c;
}

// data[2] = data[0] op data[1], by CU number cu with the stream of kernel k, as ROCr writes it.
static inline struct command start(const struct world * w, int cu, int k) {
    struct command c = command_new(w->f.fd, 4096);
    uint32_t * d = c.words + 1;
    c.words[0] = XDNA_COMMAND(XDNA_OP_START_CU, 15);
    d[0] = 1u << cu;
    d[1] = XDNA_KERNEL_STREAM;
    d[3] = (uint32_t) rig_info(w->f.fd, w->insts[k]).xdna_addr;
    d[4] = 0x7f12; // what is left of a host address
    d[5] = (uint32_t) code[k].n_insts;
    for (int i = 0; i < 3; i++) {
        uint64_t address = (uint64_t) (uintptr_t) w->data[i];
        d[6 + 2 * i] = (uint32_t) address;
        d[7 + 2 * i] = (uint32_t) (address >> 32);
    }
    return c;
}

static inline struct command chain(const struct world * w, const struct command * parts,
                                   uint32_t n) {
    struct command c = command_new(w->f.fd, 4096);
    c.words[0] = XDNA_COMMAND(XDNA_OP_CHAIN, 6 + 2 * n);
    c.words[1] = n;
    c.words[3] = 99; // error_index
    for (uint32_t i = 0; i < n; i++) {
        c.words[7 + 2 * i] = parts[i].handle;
    }
    return c;
}

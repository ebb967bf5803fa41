// text-impl: what the files of the text form share. text-match.c knows how registers and
// instructions are written, text-print.c writes programs, text-read.c reads them, text-trace.c
// remembers what the passes did.
#pragma once

#include "pipeline.h"
#include "text.h"

// ---- how things are written ----

extern const char * const text_class_names[ASM_CLASS_COUNT];
extern const char * const text_part_names[6]; // of asm_reg's part
bool text_arch_parse(const char * name, size_t length, enum aie_arch * out);

// A piece of a line.
struct text_token {
    const char * at;
    size_t length;
};

// "$p3", "%x4.lo=wl2": false when it is none.
struct text_vreg {
    enum asm_class cls;
    bool global;
    struct asm_reg reg;
    struct text_token phys; // behind the =, else empty
};
bool text_vreg_parse(struct text_token t, struct text_vreg * out);

// The instruction at the beginning of a text, its explicit operands as they stand there, and where
// it ends; the first record whose text and operands fit, or the one that `named` is. -1: none.
struct text_match {
    struct text_token operands[AIE_MAX_OPERANDS];
    const char * end;
};
int text_find(const struct asm_program * p, const char * text, int named, struct text_match * out);

// ---- what the passes did ----

struct trace_edge {
    int from, to; // nodes of the program
    int16_t latency;
    uint8_t trips;
};

struct trace_loop { // by the first node of its region
    int first, ii, copies, stages, resource_ii, recurrence_ii;
};

struct asm_trace {
    const struct asm_listener * to;
    int n_nodes, n_vregs; // of the program as it was built
    int * cycle;          // by node: bundle of its region, -1 = not placed
    uint16_t * op;        // and the record that carries it
    int * time;           // by node: bundle of its trip in a loop whose trips overlap
    uint16_t * time_op;
    int * shown;        // by node: the instruction in whose form it was laid out
    int near, first, n; // those from `near` on are those from `first` on, n of them
    struct trace_edge * edges;
    int n_edges, cap_edges;
    struct trace_loop * loops;
    int n_loops, cap_loops;
};

// The items of a program as far as that pass has come; trace is only for those behind
// ASM_PASS_BUILT.
void text_print_items(const struct asm_program * p, enum asm_pass pass,
                      const struct asm_trace * trace, struct buf * b);
void text_print_bundles(const struct asm_program * p, struct buf * b);
void text_print_bytes(const struct asm_program * p, const uint8_t * bytes, size_t size,
                      struct buf * b);

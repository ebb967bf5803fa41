// validate: what its parts share. One run is a list of steps, each with a result, and a list of
// figures that were measured. Times come from HSA's timestamps alone (validate-lab.c); what the
// model says is put beside them afterwards, and by validate-model.c alone.
#pragma once

#include "aie/image/image.h"
#include "aie/target/target.h"
#include "hsa/hsac.h"
#include "kernel/kernel.h"
#include "tool.h"

// ---- results ----

enum outcome { STEP_OK, STEP_BAD, STEP_SKIPPED };

struct step {
    char name[48];   // "instructions"
    char detail[96]; // of what it consists: "142 of them, on less than silicon"
    enum outcome outcome;
    double seconds; // of the wall
    struct buf bad; // a line for each thing that is wrong, "" where all is well
    struct buf say; // lines worth knowing
};

// A figure that was measured. `key` is the figure of a clock that it is (docs/emulator.md), or NULL
// for what follows from several.
struct figure {
    const char *name, *key, *unit;
    const char * depends; // what an error in it makes wrong
    double measured;
    double modelled; // 0: nothing is known
    bool rule;       // no rate or time, but how something is done: equal or not
};

enum { VALIDATE_STEPS = 24, VALIDATE_FIGURES = 80, VALIDATE_COLUMNS = 8, VALIDATE_CORES = 4 };

// What became of a tile: 0 not tested, 1 works, 2 does not.
enum tile_state { TILE_UNTESTED, TILE_WORKS, TILE_FAILS };

// A kernel of ours, for the roofline.
struct kernel_point {
    char name[40];
    double flops, bytes, ns; // of one dispatch; what the dispatch itself takes is not in ns
};
enum { VALIDATE_POINTS = 12 };

// ---- the device ----

struct lab_pdi {
    void * at;
    size_t size;
    uint8_t * bytes;          // malloc'ed
    uint64_t commands, words; // of its CDOs
};

enum { LAB_BUFFERS = 2, LAB_READ = 0, LAB_WRITTEN = 1 }; // operands

struct lab {
    struct hsac * h;
    struct hsac_agent * agent;
    struct hsac_queue * queue;
    enum aie_arch arch;
    const struct aie_target * target;
    int columns;
    int repeats; // of a measurement, of which the median counts
    void * buffers[LAB_BUFFERS];
    size_t buffer_bytes;
    size_t touched; // of either, by the streams that follow: caches are flushed for so many
    void * stream;  // where streams are placed
    size_t stream_bytes;
};

struct validate {
    bool whole, progress, quiet;
    bool is_model; // the child of another one, on the emulated device: nobody is left to ask
    int device;
    double rest_s;
    const char *json, *html, *clock, *only;
    char runtime[512], known_as[160], agent[64], product[64], driver[160], helper[512], plugin[512];
    bool emulated, native, gpu;
    enum aie_arch arch;
    int columns;
    struct lab lab;
    struct step steps[VALIDATE_STEPS];
    int n_steps;
    struct figure figures[VALIDATE_FIGURES];
    int n_figures;
    enum tile_state tiles[VALIDATE_COLUMNS][VALIDATE_CORES];
    struct kernel_point points[VALIDATE_POINTS];
    int n_points;
    double peak_flops;    // by the measured clock: products of all cores,
    const char * peak_of; // of these numbers
    double watts;         // under load; 0: no sensor tells
    struct buf report;    // doctor --report
};

// ---- validate.c ----

// Ends a child's step and begins another one; the progress line says which.
struct step * validate_step(struct validate * v, const char * name);
void validate_done(struct validate * v, struct step * s);
void validate_bad(struct step * s, const char * fmt, ...) BASE_PRINTF(2, 3);
void validate_say(struct step * s, const char * fmt, ...) BASE_PRINTF(2, 3);
void validate_progress(const struct validate * v, const char * fmt, ...) BASE_PRINTF(2, 3);
bool validate_interrupted(void);
bool validate_wants(const struct validate * v, const char * step); // as --only has it
int validate_failures(const struct validate * v);

// Another program, and what it prints; its exit status, or -1. `words` ends with NULL.
int validate_run(const char * program, const char * const * words, struct buf * said);
// This tool once more with another word.
int validate_child(const struct validate * v, const char * word, struct buf * said);

void validate_figure(struct validate * v, const char * name, const char * key, const char * unit,
                     double measured, const char * depends);
// The figure of that clock key, or of that name; NULL: it was not measured.
const struct figure * validate_find(const struct validate * v, const char * key);

// ---- validate-lab.c ----

enum status lab_open(struct validate * v, struct error * err);
void lab_close(struct lab * l);
enum status lab_place(struct lab * l, uint8_t * pdi, size_t size, struct lab_pdi * out,
                      struct error * err); // takes over pdi
void lab_unplace(struct lab * l, struct lab_pdi * p);
void lab_begin(const struct lab * l, struct txn * t);
// Runs a stream n times in one go; *ns is what HSA's clock says of it. The stream is freed.
enum status lab_run(struct lab * l, const struct lab_pdi * pdi, struct txn * t, int n, double * ns,
                    struct error * err);
// Once, and the first time counts.
enum status lab_cold(struct lab * l, const struct lab_pdi * pdi, struct txn * t, double * ns,
                     struct error * err);
// The same with PDIs taking turns.
enum status lab_turns(struct lab * l, const struct lab_pdi * const * pdis, int n_pdis,
                      struct txn * t, int n, double * ns, struct error * err);
enum status lab_fill(struct lab * l, int buffer, uint8_t value, size_t bytes, struct error * err);
enum status lab_get(struct lab * l, int buffer, void * to, size_t bytes, struct error * err);

// ---- validate-design.c ----

// Every column's shim and memtile joined by two streams either way; memtiles swallow all that comes
// and always have something to send.
enum status design_pipe(const struct lab * l, uint8_t ** pdi, size_t * size, struct error * err);
// A core of each column, in one row, which sends to its shim what a program leaves.
enum status design_cells(const struct lab * l, int row, uint8_t ** pdi, size_t * size,
                         struct error * err);
// The pipe, with so many commands and words more.
enum status design_padded(const struct lab * l, int commands, int words, uint8_t ** pdi,
                          size_t * size, struct error * err);

struct task { // of a shim's channel
    int col, channel, bd, repeat;
    bool reads;
    uint32_t words, offset; // of the buffer that it reads or writes, bytes
    uint32_t run; // words at addresses that follow each other, as many are left out; 0: all
    bool token;
    int lock; // of the shim that it waits for; -1: none
};
void design_task(const struct lab * l, struct txn * t, const struct task * task);
void design_gate(struct txn * t, int col, int lock, int value); // opens the shim's lock
void design_sync(struct txn * t, int col, bool reads, int channel);
void design_writes(struct txn * t, int n); // that do nothing
void design_masks(struct txn * t, int n);
void design_blocks(struct txn * t, int n, int words);
void design_patches(struct txn * t, int n);

// A program, bundle by bundle.
struct code {
    const struct lab * l;
    uint32_t words[4096];
    uint32_t n;
    struct aie_bundle bundle; // being filled
    struct error err;
};
enum { CODE_OUT = 0x8000, CODE_DONE_LOCK = 1 };
void code_begin(struct code * c, const struct lab * l);
void code_put(struct code * c, int op, const int32_t * values, int n); // into the open bundle
void code_end(struct code * c);                                        // closes it
void code_nops(struct code * c, int n);
void code_set(struct code * c, aie_reg reg, int32_t value);
void code_lock(struct code * c, bool acquire, int lock, aie_reg value);
// A loop of r0 trips: code_loop_end adds what counts and jumps, and returns the bundles of a trip.
uint32_t code_loop(struct code * c, int32_t trips);
int code_loop_end(struct code * c, uint32_t start);
void code_finish(struct code * c); // gives what lies at CODE_OUT away, and ends

// Loads the program into the core of that tile, and words into its memory; what it left at CODE_OUT
// comes to LAB_WRITTEN.
void design_program_at(const struct lab * l, struct txn * t, int col, int row,
                       const struct code * c, uint32_t in_at, const uint32_t * in, size_t n_in,
                       uint32_t out_words);
void design_program(const struct lab * l, struct txn * t, int col, int row, const struct code * c,
                    uint32_t out_words); // without words

// ---- the steps: validate-*.c ----

void step_add(struct validate * v);
void step_tiles(struct validate * v);
void step_instructions(struct validate * v);
void step_ops(struct validate * v);     // those of the op table, by the helper with ggml
void step_decoder(struct validate * v); // products, attention and a layer, by the same
void step_rest(struct validate * v);
void step_processes(struct validate * v);
void step_fault(struct validate * v);
int part_add(struct validate * v);     // what a child of step_processes does,
int part_fault(struct validate * v);   // one of step_fault,
int part_context(struct validate * v); // and one of step_measure

void step_measure(struct validate * v);
void step_speed(struct validate * v);

// ---- validate-model.c ----

// Puts the model's figure beside each that was measured; what a clock says of this device.
void model_compare(struct validate * v);
const char * model_name(const struct validate * v);
enum status model_write_clock(const struct validate * v, const char * path, struct error * err);

// ---- validate-report.c, validate-html.c ----

double figure_ratio(const struct figure * f); // 0: nothing to compare with
bool figure_off(const struct figure * f);     // by more than a tenth
void report_terminal(const struct validate * v);
enum status report_json(const struct validate * v, const char * path, struct error * err);
enum status report_html(const struct validate * v, const char * path, struct error * err);

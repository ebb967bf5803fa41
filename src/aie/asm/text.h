// text: programs as text, to be looked at after each pass and to be read again.
//
// Before they are placed, programs are instructions on virtual registers:
//
//     target aie2
//     memory @1 bank 2                what is known of a buffer: the bank that it lies in
//     spill @5 40                     values without a register go there, in so many vectors
//     global $p0=p7 $r1=r31           registers that live from here on, and which they are
//     L0:
//             acq #6, $r1             locks and branches stand by themselves
//             lda %r2, [$p0], #4 @1   %: a local; @1: it touches buffer 1
//     loop $r1 {                      around one region
//             vadd.32 %x4, %x3, %x3
//             vst %x4.lo, [$p0], #32
//     }
//     loop $r1 rolling {              whose trips may begin early and end late (asm.h)
//     }
//     loop $r1 every 4 {              the author, or the search, has placed each instruction:
//       -2:   vadd.32 %x6, %x5, %x5   in this bundle of its trip
//     }
//     loop $r1 every 4 late {         the same, or a rolling one, with asm_loop_late
//     release $r1                     from here on it may be another's
//     section                         what is used from here on has nothing to do with the above
//             j #L0
//
// A virtual register is $ or %, its class and its number; .lo and .hi are halves, .q0 to .q3
// quarters. "=x3" behind it says which register it got. An instruction is written as the ISA's
// tables print it; where two records print alike, "!RECORD" behind it says which one is meant. Once
// placed, a program is bundles, one a line, on the registers of the core:
//
//     target aie2
//     bundles
//     L0:
//        0: lda r2, [p7], #4; mov r0, r1
//        1: idle 6
//
// "small" on a line of its own keeps loops in their plain form; "ready", that loops load again and
// hand on what they should (remat.c, split-lives.c). A comment begins with //.
#pragma once

#include "asm.h"

// The passes of asm_finish, in their order. Each prints the program in a form that asm_read takes,
// but for the last.
enum asm_pass {
    ASM_PASS_BUILT,    // as the author wrote it
    ASM_PASS_DEPS,     // which instruction waits for which, as comments
    ASM_PASS_SCHEDULE, // the bundle of its region or trip in which each issues, and its registers
    ASM_PASS_LOOPS,    // loops whose trips overlap, as loops that are placed by hand
    ASM_PASS_BUNDLES,  // all of it laid out
    ASM_PASS_BYTES,    // and encoded
    ASM_PASS_COUNT,
};

const char * asm_pass_name(enum asm_pass pass);
bool asm_pass_parse(const char * name, enum asm_pass * out);

// The listener of this thread: of each program that is begun while it is set it gets the text after
// each pass, when asm_finish has come that far.
struct asm_listener {
    void (*pass)(void * user, enum asm_pass pass, const char * text);
    void * user;
};
void asm_listen(const struct asm_listener * to); // it is kept by address; NULL: nobody

// Reads a program; *out is to be freed. An error names the line and shows it.
enum status asm_read(const char * text, struct asm_program ** out, struct error * err);

// The program as it was built, or, when it came as bundles, those.
void asm_print(const struct asm_program * p, struct buf * b);

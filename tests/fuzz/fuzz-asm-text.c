// fuzz-asm-text: arbitrary bytes as a program. What is read is printed and read again, and is then
// the same; finishing it makes code or says why not.
#include "fuzz.h"

#include "aie/asm/text.h"

const int fuzz_rounds = 600;
const int fuzz_longest = 600;

static char * printed(const struct asm_program * p) {
    struct buf b = {0};
    asm_print(p, &b);
    if (b.failed) {
        abort();
    }
    return (char *) b.data;
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    struct asm_program *p = NULL, *back = NULL;
    struct asm_code code = {0};
    struct error err = {0};
    char * text = fuzz_text(data, size);
    if (asm_read(text, &p, &err) == ST_OK) {
        char * once = printed(p);
        if (asm_read(once, &back, &err) == ST_OK) { // not of one that asm_finish will refuse
            char * twice = printed(back);
            if (strcmp(once, twice) != 0) {
                abort();
            }
            free(twice);
        }
        enum status st = asm_finish(p, &code, &err), st_back = ST_OK;
        if (st == ST_OK) {
            struct asm_code again = {0};
            st_back = back ? asm_finish(back, &again, &err) : ST_INVALID;
            if (st_back != ST_OK || again.size != code.size ||
                memcmp(again.bytes, code.bytes, code.size) != 0) {
                abort();
            }
            free(again.bytes);
        }
        free(once);
        free(code.bytes);
    }
    asm_free(p);
    asm_free(back);
    free(text);
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const texts[] = {
        "target aie2\nglobal $p0=p7 $p1 $r2\nloop $r2 {\n vlda %x3.lo, [$p0], #32 @1\n"
        " vlda %x3.hi, [$p0], #32 @1\n vadd.32 %x4, %x3, %x3\n vst %x4.lo, [$p1], #32 @2\n}\n"
        "L0:\n j #L0 // ever\n",
        "target aie2\nsmall\nglobal $r0 $p1\n mova $r0, #3\n movxm $p1, #last\nagain:\n"
        " add $r0, $r0, #-1\n jz $r0, #out\n acq #2, $r0\n jnz $r0, #again\nout:\n j $p1\nlast:\n"
        " j #last\n",
        "target aie2\nglobal $p0 $p1 $r2\nloop $r2 every 2 {\n 0: vlda %x3.lo, [$p0], #32 @1\n"
        " 7: vadd.32 %x4, %x3, %x3\n 9: vst %x4.lo, [$p1], #32 @2 !VST_dmw_sts_w_ag_pstm_nrm_imm\n"
        "}\nL0:\n j #L0\n",
        "target aie2p\nsmall\nglobal $r0 $p1\n mova $r0, #3\nagain:\n add $r0, $r0, #-1\n"
        " jnz $r0, #again\nL1:\n j #L1\n",
        "target aie2p\nglobal $p0 $p1 $r2\nloop $r2 {\n lda %r3, [$p0], #4 @1\n"
        " add %r4, %r3, %r3\n st %r4, [$p1], #4 @2\n}\nL0:\n j #L0\n",
        "target aie2\nbundles\nL0:\n 0: mova r1, #1; movx r2, #2\n 1: j #L0\n idle 5\n",
    };
    return fuzz_texts(texts, sizeof texts / sizeof texts[0], i, data, size);
}

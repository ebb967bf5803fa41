// passes: built bundles
// The record of an instruction may be named; where it is the first that is written so, it need not be.
target aie2
global $p0
        lda %r1, [$p0, #4]
        mov %r2, %r1 !MOV_mv_scl
        st %r2, [$p0, #8]
L0:
        j #L0

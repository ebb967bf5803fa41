// passes: dependences schedule
// Straight code: what waits for a load stands behind it, what does not goes before.
target aie2
global $p0
        lda %r1, [$p0], #4 @1
        add %r2, %r1, #1
        mova %r3, #5
        add %r4, %r3, #6
        add %r5, %r2, %r4
        st %r5, [$p0], #4 @1
L0:
        j #L0

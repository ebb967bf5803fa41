// passes:
// The load lands seven bundles later; it is read after three.
target aie2
bundles
L0:
        lda r1, [p0], #4
        idle 2
        add r2, r1, #1
        j #L0
        idle 5

// passes:
target aie2
bundles
        lda r1, [p0], #4; lda r2, [p1], #4

// passes:
target aie2
        mova %r1, #1
        add %r2, %x1, #1

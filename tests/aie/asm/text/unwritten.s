// passes:
target aie2
        add %r1, %r0, #1

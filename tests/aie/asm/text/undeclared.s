// passes:
target aie2
        mova $r0, #7

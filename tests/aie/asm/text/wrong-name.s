// passes:
target aie2
        vload %x1.lo, #33

// passes:
target aie2
global $p0
        vlda %x1.lo, [$p0], #33

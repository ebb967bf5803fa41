// passes: built bundles
// The author places each instruction of a trip; one begins every second bundle.
target aie2
global $p0 $p1 $r2
loop $r2 every 2 {
    0:  vlda %x3.lo, [$p0], #32 @1
    7:  vadd.32 %x4, %x3, %x3
    9:  vst %x4.lo, [$p1], #32 @2
}
L0:
        j #L0

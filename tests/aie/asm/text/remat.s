// passes: built
// Rematerialisation: what is loaded from memory that the loop does not store to, and wanted again
// much later, is loaded again instead of kept.
target aie2
global $p0 $p1 $r2
loop $r2 {
        vlda %x3.lo, [$p0, #0] @1
        vlda %x3.hi, [$p0, #32] @1
        vadd.32 %x4, %x3, %x3
        vadd.32 %x5, %x4, %x4
        vadd.32 %x6, %x5, %x5
        vadd.32 %x7, %x6, %x6
        vadd.32 %x8, %x7, %x7
        vadd.32 %x9, %x8, %x8
        vadd.32 %x10, %x9, %x9
        vadd.32 %x11, %x10, %x10
        vadd.32 %x12, %x11, %x11
        vadd.32 %x13, %x12, %x12
        vadd.32 %x14, %x13, %x13
        vadd.32 %x15, %x14, %x14
        vadd.32 %x16, %x15, %x15
        vadd.32 %x17, %x16, %x16
        vadd.32 %x18, %x17, %x17
        vadd.32 %x19, %x18, %x3
        vst %x19.lo, [$p1, #0] @2
        vst %x19.hi, [$p1, #32] @2
        padda [$p0], #64
        padda [$p1], #64
}
L0:
        j #L0

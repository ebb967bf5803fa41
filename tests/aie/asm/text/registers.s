// passes:
// The vector that is loaded last is wanted first: more of them live at once than there are registers.
target aie2
global $p0
        vlda %x1.lo, [$p0], #32 @1
        vlda %x2.lo, [$p0], #32 @1
        vlda %x3.lo, [$p0], #32 @1
        vlda %x4.lo, [$p0], #32 @1
        vlda %x5.lo, [$p0], #32 @1
        vlda %x6.lo, [$p0], #32 @1
        vlda %x7.lo, [$p0], #32 @1
        vlda %x8.lo, [$p0], #32 @1
        vlda %x9.lo, [$p0], #32 @1
        vlda %x10.lo, [$p0], #32 @1
        vlda %x11.lo, [$p0], #32 @1
        vlda %x12.lo, [$p0], #32 @1
        vlda %x13.lo, [$p0], #32 @1
        vlda %x14.lo, [$p0], #32 @1
        vadd.32 %x20, %x14, %x14
        vadd.32 %x20, %x20, %x13
        vadd.32 %x20, %x20, %x12
        vadd.32 %x20, %x20, %x11
        vadd.32 %x20, %x20, %x10
        vadd.32 %x20, %x20, %x9
        vadd.32 %x20, %x20, %x8
        vadd.32 %x20, %x20, %x7
        vadd.32 %x20, %x20, %x6
        vadd.32 %x20, %x20, %x5
        vadd.32 %x20, %x20, %x4
        vadd.32 %x20, %x20, %x3
        vadd.32 %x20, %x20, %x2
        vadd.32 %x20, %x20, %x1
        vst %x20.lo, [$p0], #32 @1
L0:
        j #L0

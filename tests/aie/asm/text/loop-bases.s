// passes: loops
// Constants that only one load unit reaches by their offsets: the loop has a pointer of its own to
// them, and either unit loads.
target aie2
global $p0 $p1 $r2 $p3
loop $r2 {
        vlda %x4.lo, [$p3, #480] @3
        vlda %x4.hi, [$p3, #512] @3
        vlda %x5.lo, [$p3, #544] @3
        vlda %x5.hi, [$p3, #576] @3
        vlda %x6.lo, [$p3, #608] @3
        vlda %x6.hi, [$p3, #640] @3
        vlda %x7.lo, [$p3, #672] @3
        vlda %x7.hi, [$p3, #704] @3
        vlda %x8.lo, [$p3, #736] @3
        vlda %x8.hi, [$p3, #768] @3
        vlda %x9.lo, [$p3, #800] @3
        vlda %x9.hi, [$p3, #832] @3
        vlda %x10.lo, [$p3, #864] @3
        vlda %x10.hi, [$p3, #896] @3
        vlda %x11.lo, [$p3, #928] @3
        vlda %x11.hi, [$p3, #960] @3
        vlda %x20.lo, [$p0], #32 @1
        vlda %x20.hi, [$p0], #32 @1
        vadd.32 %x21, %x20, %x4
        vadd.32 %x22, %x21, %x5
        vadd.32 %x23, %x22, %x6
        vadd.32 %x24, %x23, %x7
        vadd.32 %x25, %x24, %x8
        vadd.32 %x26, %x25, %x9
        vadd.32 %x27, %x26, %x10
        vadd.32 %x28, %x27, %x11
        vst %x28.lo, [$p1], #32 @2
        vst %x28.hi, [$p1], #32 @2
}
L0:
        j #L0

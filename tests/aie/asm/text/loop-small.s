// passes: loops bundles
// The same in the plain form, because the program is to be small.
target aie2
small
global $p0 $p1 $r2
loop $r2 {
        vlda %x3.lo, [$p0], #32 @1
        vlda %x3.hi, [$p0], #32 @1
        vadd.32 %x4, %x3, %x3
        vst %x4.lo, [$p1], #32 @2
        vst %x4.hi, [$p1], #32 @2
}
L0:
        j #L0

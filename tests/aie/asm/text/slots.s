// passes: schedule bundles
// Two loads in one bundle: the second is carried by the other load slot.
target aie2
global $p0 $p1 $p2
        vlda %x3.lo, [$p0], #32 @1
        vlda %x3.hi, [$p1], #32 @2
        vst %x3.lo, [$p2], #32 @3
        vst %x3.hi, [$p2], #32 @3
L0:
        j #L0

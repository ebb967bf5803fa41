// passes:
// With a trip every two bundles, bundles 0 and 2 are the same place.
target aie2
global $p0 $r1
loop $r1 every 2 {
    0:  vlda %x2.lo, [$p0], #32 @1
    2:  vlda %x3.lo, [$p0], #32 @1
}

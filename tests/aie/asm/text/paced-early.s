// passes:
// A load takes seven bundles; this one is given six.
target aie2
global $p0 $p1 $r2
loop $r2 every 2 {
    0:  vlda %x3.lo, [$p0], #32 @1
    6:  vadd.32 %x4, %x3, %x3
    9:  vst %x4.lo, [$p1], #32 @2
}

// passes: dependences schedule
// One buffer is read and written: what one trip stores the next may load, so that they do not overlap
// as far as with two buffers.
target aie2
global $p0 $p1 $r2
loop $r2 {
        vlda %x3.lo, [$p0], #32 @1
        vadd.32 %x4, %x3, %x3
        vst %x4.lo, [$p1], #32 @1
}
L0:
        j #L0

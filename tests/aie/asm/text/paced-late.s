// passes: loops
// A register may be read while its next value is on the way: two vectors serve loads
// that come every bundle and take seven.
target aie2p
global $p0 $p1 $r2
loop $r2 every 1 late {
   -7:  vlda %x3, [$p0], #64 @1
    0:  vadd.32 %x4, %x3, %x3
    2:  vst %x4, [$p1], #64 @2
}
L0:
        j #L0

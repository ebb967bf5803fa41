// passes: dependences loops
// A sum in a global: each trip waits for the one before it, whatever slots there are.
target aie2
global $p0 $r1 $x2
loop $r1 {
        vlda %x3.lo, [$p0], #32 @1
        vlda %x3.hi, [$p0], #32 @1
        vadd.32 $x2, $x2, %x3
        vadd.32 $x2, $x2, %x3
        vadd.32 $x2, $x2, %x3
}
L0:
        j #L0

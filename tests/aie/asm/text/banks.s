// passes: built loops
// Two buffers in one bank: a load from each in one bundle would cost a cycle, so they are kept apart.
target aie2
memory @1 bank 0
memory @2 bank 0
memory @3 bank 1 again 64 16384
global $p0 $p1 $p2 $r3
loop $r3 {
        vlda %x4.lo, [$p0], #32 @1
        vlda %x5.lo, [$p1], #32 @2
        vadd.32 %x6, %x4, %x5
        vst %x6.lo, [$p2], #32 @3
}
L0:
        j #L0

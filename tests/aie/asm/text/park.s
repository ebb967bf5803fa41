// passes: built
// Values wait for the end of a long chain, more than there are vectors for the trips in flight: some
// do so in accumulators.
target aie2
global $p0 $p1 $r2 $r3
loop $r2 {
        vlda %x4.lo, [$p0, #0] @1
        vlda %x4.hi, [$p0, #32] @1
        vadd.32 %x5, %x4, %x4
        vadd.32 %x6, %x5, %x4
        vadd.32 %x7, %x6, %x4
        vadd.32 %x8, %x7, %x4
        vadd.32 %x9, %x8, %x4
        vadd.32 %x10, %x9, %x4
        vadd.32 %x11, %x10, %x4
        vadd.32 %x12, %x11, %x4
        vadd.32 %x13, %x12, %x4
        vmov %bm14, %x13
        vadd.f %bm15, %bm14, %bm14, $r3
        vadd.f %bm16, %bm15, %bm15, $r3
        vadd.f %bm17, %bm16, %bm16, $r3
        vadd.f %bm18, %bm17, %bm17, $r3
        vadd.f %bm19, %bm18, %bm18, $r3
        vadd.f %bm20, %bm19, %bm19, $r3
        vadd.f %bm21, %bm20, %bm20, $r3
        vadd.f %bm22, %bm21, %bm21, $r3
        vadd.f %bm23, %bm22, %bm22, $r3
        vadd.f %bm24, %bm23, %bm23, $r3
        vadd.f %bm25, %bm24, %bm24, $r3
        vadd.f %bm26, %bm25, %bm25, $r3
        vadd.f %bm27, %bm26, %bm26, $r3
        vadd.f %bm28, %bm27, %bm27, $r3
        vadd.f %bm29, %bm28, %bm28, $r3
        vadd.f %bm30, %bm29, %bm29, $r3
        vadd.f %bm31, %bm30, %bm30, $r3
        vadd.f %bm32, %bm31, %bm31, $r3
        vadd.f %bm33, %bm32, %bm32, $r3
        vadd.f %bm34, %bm33, %bm33, $r3
        vadd.f %bm35, %bm34, %bm34, $r3
        vadd.f %bm36, %bm35, %bm35, $r3
        vadd.f %bm37, %bm36, %bm36, $r3
        vadd.f %bm38, %bm37, %bm37, $r3
        vmov %x39, %bm38
        vadd.32 %x40, %x39, %x5
        vadd.32 %x41, %x40, %x6
        vadd.32 %x42, %x41, %x7
        vadd.32 %x43, %x42, %x8
        vadd.32 %x44, %x43, %x9
        vadd.32 %x45, %x44, %x10
        vadd.32 %x46, %x45, %x11
        vadd.32 %x47, %x46, %x12
        vadd.32 %x48, %x47, %x13
        vst %x48.lo, [$p1, #0] @2
        vst %x48.hi, [$p1, #32] @2
        padda [$p0], #64
        padda [$p1], #64
}
L0:
        j #L0

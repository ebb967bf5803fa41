// passes: built schedule
// More vectors than there are registers: those that are wanted again last wait in memory.
target aie2p
spill @5 8
global $p0 $p1
        vlda %x3, [$p0], #64 @1
        vlda %x4, [$p0], #64 @1
        vlda %x5, [$p0], #64 @1
        vlda %x6, [$p0], #64 @1
        vlda %x7, [$p0], #64 @1
        vlda %x8, [$p0], #64 @1
        vlda %x9, [$p0], #64 @1
        vlda %x10, [$p0], #64 @1
        vlda %x11, [$p0], #64 @1
        vlda %x12, [$p0], #64 @1
        vlda %x13, [$p0], #64 @1
        vlda %x14, [$p0], #64 @1
        vlda %x15, [$p0], #64 @1
        vlda %x16, [$p0], #64 @1
        vadd.32 %x17, %x3, %x4
        vadd.32 %x18, %x4, %x5
        vadd.32 %x19, %x5, %x6
        vadd.32 %x20, %x6, %x7
        vadd.32 %x21, %x7, %x8
        vadd.32 %x22, %x8, %x9
        vadd.32 %x23, %x9, %x10
        vadd.32 %x24, %x10, %x11
        vadd.32 %x25, %x11, %x12
        vadd.32 %x26, %x12, %x13
        vadd.32 %x27, %x13, %x14
        vadd.32 %x28, %x14, %x15
        vadd.32 %x29, %x15, %x16
        vadd.32 %x30, %x16, %x3
        vst %x17, [$p1], #64 @2
        vst %x18, [$p1], #64 @2
        vst %x19, [$p1], #64 @2
        vst %x20, [$p1], #64 @2
        vst %x21, [$p1], #64 @2
        vst %x22, [$p1], #64 @2
        vst %x23, [$p1], #64 @2
        vst %x24, [$p1], #64 @2
        vst %x25, [$p1], #64 @2
        vst %x26, [$p1], #64 @2
        vst %x27, [$p1], #64 @2
        vst %x28, [$p1], #64 @2
        vst %x29, [$p1], #64 @2
        vst %x30, [$p1], #64 @2
L0:
        j #L0

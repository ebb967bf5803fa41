// passes: loops bundles
// More than a few instructions, reached by offsets from pointers that move once a trip: the repeated
// part alone, with pointers set back by the trips that come before the first.
target aie2
memory @1 bank 0 margin 256
memory @2 bank 1 margin 256
global $p0 $p1 $r2
L0:
loop $r2 rolling {
        vlda %x3.lo, [$p0, #0] @1
        vlda %x3.hi, [$p0, #32] @1
        vadd.32 %x4, %x3, %x3
        vadd.32 %x5, %x4, %x3
        vadd.32 %x6, %x5, %x4
        vadd.32 %x7, %x6, %x5
        vadd.32 %x8, %x7, %x6
        vadd.32 %x9, %x8, %x7
        vadd.32 %x10, %x9, %x8
        vadd.32 %x11, %x10, %x9
        vadd.32 %x12, %x11, %x10
        vadd.32 %x13, %x12, %x11
        vadd.32 %x14, %x13, %x12
        vadd.32 %x15, %x14, %x13
        vadd.32 %x16, %x15, %x14
        vadd.32 %x17, %x16, %x15
        vadd.32 %x18, %x17, %x16
        vadd.32 %x19, %x18, %x17
        vadd.32 %x20, %x19, %x18
        vadd.32 %x21, %x20, %x19
        vadd.32 %x22, %x21, %x20
        vadd.32 %x23, %x22, %x21
        vadd.32 %x24, %x23, %x22
        vadd.32 %x25, %x24, %x23
        vadd.32 %x26, %x25, %x24
        vadd.32 %x27, %x26, %x25
        vadd.32 %x28, %x27, %x26
        vadd.32 %x29, %x28, %x27
        vadd.32 %x30, %x29, %x28
        vadd.32 %x31, %x30, %x29
        vadd.32 %x32, %x31, %x30
        vadd.32 %x33, %x32, %x31
        vadd.32 %x34, %x33, %x32
        vadd.32 %x35, %x34, %x33
        vadd.32 %x36, %x35, %x34
        vadd.32 %x37, %x36, %x35
        vadd.32 %x38, %x37, %x36
        vadd.32 %x39, %x38, %x37
        vadd.32 %x40, %x39, %x38
        vadd.32 %x41, %x40, %x39
        vadd.32 %x42, %x41, %x40
        vadd.32 %x43, %x42, %x41
        vadd.32 %x44, %x43, %x42
        vadd.32 %x45, %x44, %x43
        vadd.32 %x46, %x45, %x44
        vst %x46.lo, [$p1, #0] @2
        vst %x46.hi, [$p1, #32] @2
        padda [$p0], #64
        padda [$p1], #64
}
        j #L0

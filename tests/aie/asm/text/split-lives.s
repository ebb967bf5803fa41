// passes: built
// A value of a loop that rolls lives longer than trips are apart: it is handed on by copies, from
// register to register.
target aie2
memory @1 bank 0 margin 4096
memory @2 bank 1 margin 4096
global $p0 $p1 $r2 $r3
loop $r2 rolling {
        vlda.conv.fp32.bf16 %bm5, [$p0, #0] @1
        vadd.f %bm6, %bm5, %bm5, $r3
        vadd.f %bm7, %bm6, %bm6, $r3
        vadd.f %bm8, %bm6, %bm6, $r3
        vadd.f %bm9, %bm6, %bm6, $r3
        vadd.f %bm10, %bm7, %bm7, $r3
        vadd.f %bm11, %bm8, %bm8, $r3
        vadd.f %bm12, %bm9, %bm9, $r3
        vadd.f %bm13, %bm10, %bm10, $r3
        vadd.f %bm14, %bm11, %bm11, $r3
        vadd.f %bm15, %bm12, %bm12, $r3
        vadd.f %bm16, %bm13, %bm13, $r3
        vadd.f %bm17, %bm14, %bm14, $r3
        vadd.f %bm18, %bm15, %bm15, $r3
        vadd.f %bm19, %bm16, %bm16, $r3
        vadd.f %bm20, %bm17, %bm17, $r3
        vadd.f %bm21, %bm18, %bm18, $r3
        vadd.f %bm22, %bm19, %bm19, $r3
        vadd.f %bm23, %bm20, %bm20, $r3
        vadd.f %bm24, %bm21, %bm21, $r3
        vadd.f %bm25, %bm22, %bm22, $r3
        vadd.f %bm26, %bm23, %bm23, $r3
        vadd.f %bm27, %bm24, %bm24, $r3
        vadd.f %bm28, %bm25, %bm25, $r3
        vadd.f %bm29, %bm26, %bm26, $r3
        vadd.f %bm30, %bm27, %bm27, $r3
        vadd.f %bm31, %bm28, %bm28, $r3
        vadd.f %bm32, %bm29, %bm29, $r3
        vadd.f %bm33, %bm30, %bm30, $r3
        vadd.f %bm34, %bm31, %bm31, $r3
        vadd.f %bm35, %bm32, %bm32, $r3
        vadd.f %bm36, %bm33, %bm33, $r3
        vadd.f %bm37, %bm34, %bm34, $r3
        vadd.f %bm38, %bm35, %bm35, $r3
        vadd.f %bm39, %bm36, %bm36, $r3
        vadd.f %bm40, %bm37, %bm37, $r3
        vadd.f %bm41, %bm38, %bm38, $r3
        vadd.f %bm42, %bm39, %bm39, $r3
        vadd.f %bm43, %bm40, %bm40, $r3
        vadd.f %bm44, %bm41, %bm41, $r3
        vadd.f %bm45, %bm42, %bm42, $r3
        vadd.f %bm46, %bm43, %bm43, $r3
        vadd.f %bm47, %bm44, %bm44, $r3
        vadd.f %bm48, %bm45, %bm45, $r3
        vadd.f %bm49, %bm46, %bm46, $r3
        vadd.f %bm50, %bm47, %bm47, $r3
        vadd.f %bm51, %bm48, %bm48, $r3
        vadd.f %bm52, %bm49, %bm49, $r3
        vadd.f %bm53, %bm50, %bm50, $r3
        vadd.f %bm54, %bm51, %bm51, $r3
        vadd.f %bm55, %bm52, %bm6, $r3
        vadd.f %bm56, %bm53, %bm6, $r3
        vadd.f %bm57, %bm54, %bm6, $r3
        vst.conv.bf16.fp32 %bm55, [$p1, #0] @2
        vst.conv.bf16.fp32 %bm56, [$p1, #32] @2
        vst.conv.bf16.fp32 %bm57, [$p1, #64] @2
        padda [$p0], #32
        padda [$p1], #96
}
L0:
        j #L0

// passes:
// There are four shift registers.
target aie2
global $s0 $s1 $s2 $s3 $s4
L0:
        j #L0

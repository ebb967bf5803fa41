// passes: built bundles
// Branches forth and back, and through a pointer that holds a label. Delay slots stay empty.
target aie2
global $r0 $p1
        mova $r0, #3
        movxm $p1, #last
again:
        add $r0, $r0, #-1
        jz $r0, #out
        jnz $r0, #again
out:
        j $p1
last:
        j #last

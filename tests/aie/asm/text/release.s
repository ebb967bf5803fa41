// passes: built bundles
// A global that is released gives its register to the next one.
target aie2
global $r0 $p1
        mova $r0, #7
        st $r0, [$p1], #4 @1
release $r0
global $r2
        mova $r2, #8
        st $r2, [$p1], #4 @1
L0:
        j #L0

// passes:
// What was released is not named again.
target aie2
global $r0
        mova $r0, #7
release $r0
        add $r0, $r0, #1

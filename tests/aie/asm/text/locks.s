// passes: bundles
// A row of lock operations has one margin on each side in which nothing touches memory: what does not may
// stand in it, and so does a jump with its delay slots.
target aie2
global $r0 $r1
        mova $r0, #-1
        mova $r1, #1
L0:
        acq #2, $r0
        acq #3, $r0
        rel #4, $r1
        j #L0

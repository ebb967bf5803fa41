// passes: bundles bytes
// A program that is placed already: encoded and checked, never changed.
target aie2
bundles
L0:
    0:  mova r1, #1; movx r2, #2
    1:  add r3, r1, r2
    2:  j #L0
    3:  idle 5

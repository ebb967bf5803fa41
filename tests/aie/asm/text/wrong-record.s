// passes:
target aie2
        mova %r1, #1 !MOVE_IT

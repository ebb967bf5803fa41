// passes:
target aie2
memory @1 bank 9

// passes:
target aie3

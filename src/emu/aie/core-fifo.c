// core-fifo: the load and store fifos of aie2p.
#include "emu/aie/core-impl.h"

bool core_prepare_fifo(struct core * c, struct core_op * op) {
    (void) c;
    (void) op;
    return false;
}

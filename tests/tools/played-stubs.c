// Every function that a client looks for and that played-runtime.c does not have: it refuses. They
// come from the client's own list, and give way to what played-runtime.c defines.
#include "hsa/hsac-impl.h"

hsa_status_t played_refuse(void);

hsa_status_t played_refuse(void) {
    return HSA_STATUS_ERROR;
}

#define STUB(name)                                                                                 \
    __asm__(".weak " #name "\n.type " #name ", %function\n.set " #name ", played_refuse\n");
HSAC_SYMBOLS(STUB)

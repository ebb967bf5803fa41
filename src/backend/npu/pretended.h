// pretended: addresses for operands that have no place yet, or that lie in several. Kernels are
// planned with them; what is sent has real ones instead.
//
// Kept true: each is apart from the others by more than any operand has bytes, and as well aligned
// as a page. All lie from 4 to 64 TiB, where Linux puts nothing of a 64-bit process unless asked:
// no operand that has a place overlaps one that has none.
#pragma once

#include "ggml.h"

#include <stdint.h>

enum pretended {
    PRETENDED_RESULT,                                 // of a node that is asked about
    PRETENDED_SOURCE,                                 // its first; the others follow
    PRETENDED_ROOM = PRETENDED_SOURCE + GGML_MAX_SRC, // of what is between a node's steps
    PRETENDED_EXPERTS, // weights of experts whose padded forms lie in different places
    PRETENDED_PAIR,    // two results that lie apart
    N_PRETENDED,
};

enum { PRETENDED_APART = 42 }; // bits
_Static_assert(N_PRETENDED < 1 << (46 - PRETENDED_APART), "where Linux puts libraries");

static inline char * pretended(int which) {
    return (char *) (uintptr_t) ((uint64_t) (which + 1) << PRETENDED_APART);
}

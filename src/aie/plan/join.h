// join: instruction streams of kernels that follow each other on one PDI, as one stream, so that
// the controller need not be told of each. What is left out of them, and where operands are, is
// txn_join's (image/image.h).
//
// Only streams of our compiler are joined. One that others made is sent as it was verified: it may
// leave locks and memories as no stream of ours expects them, and what was proved of its bytes and
// operands would not be true of others. Joined streams of ours are verified by tests
// (test-verify-joined, test-joined).
#pragma once

#include "aie/image/image.h"

struct aie_stream_part {
    const uint32_t * insts;
    size_t n_words;
    int n_operands;
    uint32_t ready; // operands that no part before it writes, by bit
    bool foreign;   // not made by our compiler
    bool beside;    // on a decoder's PDI: it may run beside the part before it (txn_part)
};

struct aie_joined {
    uint32_t * insts; // malloc'ed
    size_t n_words;
    struct txn_aim * aims; // malloc'ed: its address patches, in its order (txn_aim)
    size_t n_aims;
};

// The caller owns *out (aie_joined_free). ST_UNSUPPORTED where a part is foreign, of another array,
// or leaves a token behind; ST_CORRUPT where it names an operand that its kernel does not have.
enum status aie_stream_join(const struct aie_stream_part * parts, int n, struct aie_joined * out,
                            struct error * err);
void aie_joined_free(struct aie_joined * j);

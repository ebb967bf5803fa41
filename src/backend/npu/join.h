// join: kernels of a stream that follow each other on one PDI, sent as one dispatch. A dispatch
// costs what a small kernel takes ten times over, and the controller beside the array does not mind
// how long its instruction stream is.
#pragma once

#include "npu.h"

struct hsa_stream;
struct join;

// Operands whose parts lie elsewhere, as the experts that a token chose do, or the results of
// several products. A kernel has one as if they lay one behind the other from base on; its
// descriptors, none of which reaches from one part into the next, are aimed at each where it is.
enum { JOIN_MOST_PARTS = 16 };
struct join_parts {
    char * base; // NULL: the operand lies as it says
    size_t unit; // bytes from part to part of what the kernel sees
    char * at[JOIN_MOST_PARTS];
};
struct join_gather {
    int n;                     // parts of either
    struct join_parts in, out; // the first operand, and the result
};

struct join * join_new(void); // NULL without memory; then, or where none is, none are joined
void join_free(struct join * j, struct hsac_agent * agent);

// Takes the kernel in behind those that wait; what cannot be one dispatch with it is sent before.
// d is complete, and its code and the kernel stay until join_settled. Where it is refused nothing
// of it was taken. With `gather`, which may be NULL, that is where those operands lie which begin
// in it; ST_UNSUPPORTED: this kernel or these places are not for that.
enum status join_add(struct hsa_stream * s, struct store_kernel * kernel,
                     const struct hsac_dispatch * d, const struct join_gather * gather,
                     struct error * err);
// Called before a kernel with an operand in parts, which needs a stream of its own chain: waits
// until there is room for one more.
enum status join_room(struct hsa_stream * s, struct error * err);
// Sends what waits.
enum status join_send(struct hsa_stream * s, struct error * err);
// All that was sent is complete, or will never be; nothing waits any more.
void join_settled(struct hsa_stream * s);
// Gives the memory of streams back; nothing is in flight.
void join_forget(struct join * j, struct hsac_agent * agent);

// join: kernels of a stream that follow each other on one PDI, sent as one dispatch. A dispatch
// costs what a small kernel takes ten times over, and the controller beside the array does not mind
// how long its instruction stream is.
#pragma once

#include "npu.h"

struct hsa_stream;
struct join;

struct join * join_new(void); // NULL without memory; then, or where none is, none are joined
void join_free(struct join * j, struct hsac_agent * agent);

// Takes the kernel in behind those that wait; what cannot be one dispatch with it is sent before.
// d is complete, and its code and the kernel stay until join_settled. Where it is refused nothing
// of it was taken.
enum status join_add(struct hsa_stream * s, struct store_kernel * kernel,
                     const struct hsac_dispatch * d, struct error * err);
// Sends what waits.
enum status join_send(struct hsa_stream * s, struct error * err);
// All that was sent is complete, or will never be; nothing waits any more.
void join_settled(struct hsa_stream * s);
// Gives the memory of streams back; nothing is in flight.
void join_forget(struct join * j, struct hsac_agent * agent);

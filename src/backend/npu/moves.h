// moves: tensors that the array moves about, so that their data stay away from the host: copies,
// casts, repetitions, and rows by an index that the host reads. What descriptors of whole words
// cannot walk, and quantized numbers that become others, are left to host-ops.
#pragma once

#include "dispatch.h"

// Can the array bring `from` to `to`? It has the same shape, or one that repeats to it. Looks at
// addresses only where there are some.
bool moves_can(struct npu * npu, const struct view * from, const struct view * to);
// The same, and why not.
enum status moves_check(struct npu * npu, const struct view * from, const struct view * to,
                        struct error * err);
// Sends what does it, where moves_can says so.
enum status moves_send(struct hsa_stream * s, const struct view * from, const struct view * to,
                       struct error * err);

// A node of host-nodes.c, by the array where that can do it; *done tells.
enum status moves_node(struct hsa_stream * s, const struct ggml_tensor * node, bool * done,
                       struct error * err);

// The ways of such a node, as if its rows followed each other.
void moves_ways(struct npu * npu, const struct ggml_tensor * node, struct route_stop * out);

// The rows of `from` that an index [rows, matrices] names, one behind the other in `to`; the host
// reads the index. *done is false where it names too many runs of rows, and nothing was sent then.
enum status moves_rows(struct hsa_stream * s, const struct view * from,
                       const struct ggml_tensor * index, const struct view * to, bool * done,
                       struct error * err);

// kept: what a node came to the last time, so that it is not planned again. While a node is
// computed the kernels that it sends are written down, each operand as a place in one of the node's
// tensors; a node that is like it in everything that a plan looks at sends them again, with its own
// addresses.
#pragma once

#include "npu.h"

struct hsa_stream;
struct kept;

struct kept * kept_new(void); // NULL without memory, which all others take and do nothing
void kept_free(struct kept * k);
uint64_t kept_hash(const struct ggml_tensor * node); // of all that its plan depends on

// Sends the kernels that a node like it sent before. *done tells whether there was such a node. If
// not, all kernels up to kept_end are recorded.
enum status kept_node(struct hsa_stream * s, const struct ggml_tensor * node, bool * done,
                      struct error * err);
void kept_end(struct hsa_stream * s, bool ok);

// ---- told while a node is computed ----

struct hsac_dispatch;

// A kernel was sent.
void kept_sent(struct kept * k, struct store_kernel * kernel, const struct hsac_dispatch * d,
               uint64_t us);
// The node must be planned each time: the host computed a part of it, or its kernels depend on
// data.
void kept_void(struct kept * k);
// Operands in these bytes are the node's table of ROPE, which rope_table_kept finds again.
void kept_table(struct kept * k, const void * table, size_t bytes);
// Operands in these bytes are in the room of its steps, which may lie elsewhere the next time.
void kept_room(struct kept * k, const void * room, size_t bytes);
// Operands in src, the node itself where it is negative, begin at the row that the one element of
// src[1] names.
void kept_row(struct kept * k, int src, int64_t row);

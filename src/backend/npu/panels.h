// panels: weights that lie in memory as the array reads them. ggml has row behind row; a product
// reads a part of many rows, then the next part, in runs of a hundred bytes, and memory is paid by
// the run. Quantized weights are therefore laid out in panels (kernel.h) when they are uploaded,
// and given back byte for byte.
//
// A cache of keys or values has a row of all heads for each token, and attention reads one head of
// all tokens. It is a panel of all rows, with a head's part of a row as chunk: heads lie apart, and
// rows of one follow each other. That is a matter of strides for attention, and for SET_ROWS, which
// adds a token.
//
// Who sees a tensor's bytes comes through here: uploads and downloads of any range, and products,
// which take panels as they are. Everything else that reads or writes such a tensor, a GET_ROWS, a
// view, the CPU, finds row behind row: it is laid out so before, once and for good.
#pragma once

#include "backend/view.h"
#include "kernel/kernel.h"

#include <pthread.h>
#include <stdatomic.h>

struct error;
struct hsac_agent;
struct hsa_stream;
struct npu;

// Tensors of one buffer, by their addresses.
struct panels {
    pthread_mutex_t lock;
    struct paneled * list;
    size_t n, room;
    atomic_size_t count; // as n, so that where there are none nobody locks
    struct hsac_agent * agent;
};

void panels_init(struct panels * all, struct hsac_agent * agent);
void panels_free(struct panels * all);

// A tensor of weights is about to be written: from now on it may lie in panels. npu: whose memory
// it is. A tensor that is not the first at its place, or of which only a part is written, is what
// it was in all other bytes.
void panels_upload(struct panels * all, struct npu * npu, const struct ggml_tensor * tensor,
                   bool whole);

// Bytes of a tensor, which may be a view. False: no tensor in panels is there, nothing was done.
bool panels_write(struct panels * all, char * at, const void * data, size_t size);
bool panels_fill(struct panels * all, char * at, uint8_t value, size_t size);
bool panels_read(struct panels * all, const char * at, void * data, size_t size);

// Whether weights may lie so at all (GGML_HSA_PANELS).
bool panels_asked(void);
// Rows of memory to panels and back, in place; false: no memory for it.
bool panels_arrange(const struct kernel_panel * panel, char * data, size_t size, size_t row_bytes,
                    bool to_panels);

// How a tensor, or one of its matrices, lies; rows 0: row behind row.
struct kernel_panel panels_of(struct panels * all, const struct view * v);
// Does one lie there? Lays them all out row behind row; false: no memory for it.
bool panels_any(struct panels * all, const char * data, size_t size);
bool panels_plain(struct panels * all, char * data, size_t size);
// One row of it, by its number among all rows.
void panels_row(const struct kernel_panel * p, const char * data, size_t row_bytes, int64_t row,
                char * out);

// ---- caches ----

// Can a node's keys or values be read with heads apart, and is it worth while? Then a cache that is
// not laid out so can be: false where it may not, because somebody wanted it row behind row.
bool panels_wants_heads(struct panels * all, const struct ggml_tensor * keys, bool * there);
bool panels_make_heads(struct panels * all, const struct ggml_tensor * keys);

// A node as it is computed: operands in caches whose heads lie apart have other strides.
struct panels_node {
    struct ggml_tensor node, src[3];
};
const struct ggml_tensor * panels_restride(const struct ggml_tensor * node,
                                           struct panels_node * room);

// ---- graphs ----

// Before a graph is computed: caches are laid out for its attention, and what a node does not take
// in panels row behind row. Waits for graphs of others if there is anything to do.
enum status panels_begin(struct hsa_stream * s, struct ggml_cgraph * graph, struct error * err);
// Before a node is left to the CPU, which takes nothing in panels.
enum status panels_by_cpu(struct hsa_stream * s, const struct ggml_tensor * node,
                          struct error * err);

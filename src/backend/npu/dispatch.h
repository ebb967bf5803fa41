// dispatch: kernels sent to a NPU, and what must stay until they are complete.
#pragma once

#include "backend/stream.h"
#include "join.h"
#include "kept.h"
#include "mat.h"
#include "route.h"

// Dispatches between two waits: bounds the pins that one stream holds. A token of the largest
// models has some 3,000, and is waited for once: the queue lets the host go on while it has room.
#define MAX_IN_FLIGHT 4096
#define MAX_HELD      (MAX_IN_FLIGHT + JOIN_MOST_PARTS) // shadows, likewise
#define NPU_NAME      192                               // of a dispatch in a trace
#define RECENT_PACKED 4
#define RECENT_ROPES  4
#define RECENT_PAIRS  8
#define MAX_WRITTEN   4096 // results between two waits that are told apart
#define MAX_SHARED    64   // results between two waits in memory that programs read as they like

// The angles of ROPE that a stream made lately, and what they were made of.
struct rope_recent {
    enum ggml_op op;
    int32_t params[16];
    const void *positions, *factors;
    size_t positions_bytes, factors_bytes;
    int64_t ne0, tokens;
    float * table; // in scratch; NULL: nothing
};

struct pair_shape { // of two products that are no pair; k is 0: of none
    enum ggml_type type;
    int64_t k, m, n;
    int rows; // of a panel
};

struct npu_stream {
    size_t n_pins; // dispatches that are not known to be complete
    struct code_stream * pins[MAX_IN_FLIGHT];
    struct store_kernel * kernels[MAX_IN_FLIGHT]; // likewise, of the store
    char (*names)[NPU_NAME];                      // of a trace, likewise; NULL: there is none
    size_t n_held;                                // shadows that these dispatches may read
    struct shadow * held[MAX_HELD];
    struct mat_recent recent[RECENT_PACKED]; // in scratch
    unsigned next_recent;
    struct rope_recent ropes[RECENT_ROPES];
    unsigned next_rope;
    struct pair_shape refused[RECENT_PAIRS];
    unsigned next_refused;
    char * room; // of nodes that are made of steps (steps.h); NULL: none yet
    size_t room_size;
    bool room_busy;                    // a node uses it
    struct kept * kept;                // plans of nodes; NULL: none are kept
    struct join * join;                // kernels that wait to be sent together; NULL: none do
    const struct join_gather * gather; // of what is sent now (join_add); NULL: none
    bool on_decoder;          // the last kernel of this graph was one of the decoder's PDIs
    struct route * route;     // of the graph at hand; NULL: none
    struct route_place place; // where the node at hand is to be computed
    size_t n_written; // what was written since the last wait; more than there is room for: anything
    struct {
        const char *begin, *end;
    } written[MAX_WRITTEN];
    size_t n_shared;
    struct {
        void * at;
        size_t size;
    } shared[MAX_SHARED];
};

enum status npu_stream_begin(struct hsa_stream * s, struct error * err);
void npu_stream_end(struct hsa_stream * s);
enum status npu_stream_flush(struct hsa_stream * s, struct error * err);
void npu_stream_settled(struct hsa_stream * s);
// Sends a kernel; the addresses are those of its inputs, then of its output.
enum status npu_dispatch(struct hsa_stream * s, const struct kernel_spec * spec,
                         char * const addr[PLAN_OPERANDS], struct error * err);
// The same for a kernel that the caller already has from the store. It is taken over, also after a
// failure; d lacks only the code.
enum status npu_send(struct hsa_stream * s, struct store_kernel * kernel, struct hsac_dispatch * d,
                     uint64_t us, struct error * err);
// npu_written notes that a node's result lies in the bytes from begin on; npu_is_pending tells
// whether a kernel may still write there.
void npu_written(struct hsa_stream * s, const void * begin, size_t bytes);
bool npu_is_pending(const struct hsa_stream * s, const void * begin, size_t bytes);
// host_copy, with the flushes of caches around it. No kernel that touches either tensor may be in
// flight.
enum status npu_copy_by_host(struct hsa_stream * s, const struct view * from,
                             const struct view * to, struct error * err);
// Takes over what the caller holds and has sent a dispatch for, until the next wait; for one
// dispatch JOIN_MOST_PARTS at most. NULL is fine.
void npu_hold(struct hsa_stream * s, struct shadow * shadow);

// ---- compute.c ----

// The ways in which a node can be computed, as route.h wants them. shares: its second operand is
// that of the product before it.
void npu_ways(struct hsa_device * device, const struct ggml_tensor * node, bool shares,
              struct route_stop * out);

// ---- rope.c ----

bool rope_is(const struct ggml_tensor * node);
enum status rope_check(struct hsa_device * device, const struct ggml_tensor * node,
                       struct error * err);
enum status rope_run(struct hsa_stream * s, struct ggml_tensor * node, struct error * err);
void rope_ways(struct hsa_device * device, const struct ggml_tensor * node, bool shares,
               struct route_stop * out);
// The table of angles of a ROPE node, where it was made recently.
const char * rope_table_kept(struct hsa_stream * s, const struct ggml_tensor * node);
void rope_forget(struct hsa_stream * s, const void * begin, size_t bytes); // as mat_forget

// ---- attention.c ----

bool attention_is(const struct ggml_tensor * node);
enum status attention_check(struct hsa_device * device, const struct ggml_tensor * node,
                            struct error * err);
enum status attention_run(struct hsa_stream * s, struct ggml_tensor * node, struct error * err);
void attention_ways(struct hsa_device * device, const struct ggml_tensor * node, bool shares,
                    struct route_stop * out);

// ---- fuse.c ----

// Have these nodes, which follow each other, one kernel? And that one as a node.
bool fuse_nodes(const struct ggml_tensor * const nodes[], int n, struct ggml_tensor * out);
int fuse_longest(const struct ggml_tensor * first); // how many could be one that begin with it

// ---- pair.c ----

// Computes two products of one tensor as one kernel; false: they are none, and nothing was done.
bool pair_products(struct hsa_stream * s, const struct ggml_tensor * first,
                   const struct ggml_tensor * second);

// ---- add-id.c ----

bool add_id_is(const struct ggml_tensor * node);
enum status add_id_check(struct hsa_device * device, const struct ggml_tensor * node,
                         struct error * err);
enum status add_id_run(struct hsa_stream * s, struct ggml_tensor * node, struct error * err);

// ---- tasks.c ----

// Has the plan's kernel run where products are, if that is the node's place.
void task_place(const struct hsa_stream * s, struct plan * p);
// The ways of a node of one kernel: as it is, and as a task.
void task_ways(struct npu * npu, const struct plan * p, struct route_stop * out);

// ---- small.c ----

// Would loading another PDI for the node, after the decoder's kernels, take longer than computing
// it on the host?
bool small_is_hosts(const struct hsa_stream * s, const struct ggml_tensor * node);
enum status small_run(struct hsa_stream * s, struct ggml_tensor * node, struct error * err);

// ---- top-k.c ----

bool top_k_is(const struct ggml_tensor * node);
enum status top_k_check(struct hsa_device * device, const struct ggml_tensor * node,
                        struct error * err);
enum status top_k_run(struct hsa_stream * s, struct ggml_tensor * node, struct error * err);

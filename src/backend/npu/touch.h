// touch: what the host reads and writes of a NPU's memory while a graph is computed. The NPU does
// not snoop the CPU's caches: each place that touches its memory says so, before and after
// (hsac_host_begin, hsac_host_end). Who touches a few rows of a large tensor says which.
#pragma once

#include "backend/view.h"
#include "hsa/hsac.h"

void touch_begin(struct hsac_agent * a, const struct view * v);
void touch_end(struct hsac_agent * a, const struct view * v);
void touch_tensor(struct hsac_agent * a, const struct ggml_tensor * t); // before it is read

// Around host_compute: what the node reads and writes. Nothing is in flight that does.
void touch_node_begin(struct hsac_agent * a, const struct ggml_tensor * node);
void touch_node_end(struct hsac_agent * a, const struct ggml_tensor * node);

// attention-parts: results of attention that kernels made of some keys each, put together by the
// host. Of a row each part has the sums of values over its sum of exponentials, the largest score
// that these are relative to, and the sum (AT_PART_WORDS of aie/ops/attention/attention.h); they
// count by what their sums are, relative to the largest score of all.
#pragma once

#include "backend/view.h"

// n parts, `step` bytes from one to the next. Each has the rows of `out` behind each other: all
// heads of a query, then the next query's. A row of which no part saw anything becomes zeros.
void attention_merge(const char * parts, size_t n, size_t step, const struct view * out);

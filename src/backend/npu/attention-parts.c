// attention-parts: see the header.
#include "attention-parts.h"

#include "aie/ops/attention/attention.h"

#include <math.h>
#include <string.h>

static const float * row_of(const char * parts, size_t step, size_t part, size_t row) {
    return (const float *) (const void *) (parts + part * step) + row;
}

static double sum_of(const float * end) {
    double sum = 0;
    for (int i = 0; i < AT_LANES; i++) {
        sum += (double) end[AT_LANES + i];
    }
    return sum;
}

// row: where it begins in each part, in words.
static void merge_row(const char * parts, size_t n, size_t step, size_t row, int64_t dv,
                      float * out) {
    double most = -INFINITY, all = 0;
    for (size_t i = 0; i < n; i++) {
        const float * end = row_of(parts, step, i, row) + dv;
        most = sum_of(end) != 0 ? fmax(most, (double) end[0]) : most;
    }
    memset(out, 0, (size_t) dv * sizeof *out);
    for (size_t i = 0; i < n; i++) {
        const float * end = row_of(parts, step, i, row) + dv;
        double sum = sum_of(end);
        all += sum != 0 ? sum * exp((double) end[0] - most) : 0;
    }
    for (size_t i = 0; i < n; i++) {
        const float *values = row_of(parts, step, i, row), *end = values + dv;
        double sum = sum_of(end);
        float by = sum != 0 ? (float) (sum * exp((double) end[0] - most) / all) : 0;
        for (int64_t d = 0; d < dv && sum != 0; d++) {
            out[d] += by * values[d];
        }
    }
}

void attention_merge(const char * parts, size_t n, size_t step, const struct view * out) {
    size_t words = (size_t) (out->ne[0] + AT_PART_WORDS), row = 0;
    for (int64_t query = 0; query < out->ne[2]; query++) {
        for (int64_t head = 0; head < out->ne[1]; head++, row += words) {
            char * to = out->data + (size_t) query * out->nb[2] + (size_t) head * out->nb[1];
            merge_row(parts, n, step, row, out->ne[0], (float *) (void *) to);
        }
    }
}

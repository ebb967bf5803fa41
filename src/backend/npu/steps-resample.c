// steps-resample: UPSCALE, an image with another number of elements along its dimensions. Each
// dimension is a step of its own: an element of the result is a sum of a few elements of the
// source, which have weights. Elements that lie equally far apart and have the same weights are
// made at once, by kernels on views that leave out what is between: of twice as many that is every
// second one.
#include "steps.h"

#include <math.h>

enum { MOST_TAPS = 16, MOST_RUNS = 512 };

struct taps { // what an element of the result is made of
    int n;
    int64_t from; // the first element of the source, the others follow it
    float weight[MOST_TAPS];
};

struct scaling { // along one dimension
    int64_t in, out;
    bool linear, antialias, cubic;
    float factor, offset;
};

static struct scaling scaling_of(const struct ggml_tensor * node, int dim) {
    int32_t flags = node->op_params[0];
    int64_t in = node->src[0]->ne[dim], out = node->ne[dim];
    bool corners = flags & GGML_SCALE_FLAG_ALIGN_CORNERS && dim < 2;
    bool ends = corners && in > 1 && out > 1;
    int32_t mode = dim < 2 ? flags & 0xff : GGML_SCALE_MODE_NEAREST;
    bool linear = mode == GGML_SCALE_MODE_BILINEAR;
    return (struct scaling){
        .in = in,
        .out = out,
        .linear = linear,
        .antialias = linear && flags & GGML_SCALE_FLAG_ANTIALIAS,
        .cubic = mode == GGML_SCALE_MODE_BICUBIC,
        .factor = ends ? (float) (out - 1) / (float) (in - 1) : (float) out / (float) in,
        .offset = corners ? 0 : 0.5f,
    };
}

static int64_t within(int64_t i, int64_t n) {
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

// All that lie less than `support` away, the nearer the more.
static bool wide_taps(const struct scaling * c, int64_t i, struct taps * out) {
    float at = ((float) i + c->offset) / c->factor, all = 0;
    float support = fmaxf(1, 1 / c->factor);
    int64_t first = (int64_t) (at - support + c->offset),
            end = (int64_t) (at + support + c->offset);
    first = first < 0 ? 0 : first;
    end = end < c->in ? end : c->in;
    *out = (struct taps){.from = first};
    for (int64_t k = first; k < end; k++) {
        float weight = fmaxf(1 - fabsf(((float) k - at + c->offset) / support), 0);
        if (weight <= 0 && out->n == 0) {
            out->from++;
        } else if (out->n == MOST_TAPS) {
            return false;
        } else {
            out->weight[out->n++] = weight;
            all += weight;
        }
    }
    for (int k = 0; k < out->n; k++) {
        out->weight[k] /= all;
    }
    return out->n > 0;
}

// The weight of what lies x away, in cubic convolution with ggml's -0.75.
static float cubic_weight(float x) {
    const float a = -0.75f;
    return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

// The two elements on either side; at an end the last one is there more than once.
static void cubic_taps(const struct scaling * c, int64_t i, struct taps * out) {
    float at = ((float) i + c->offset) / c->factor - c->offset, low = floorf(at);
    int64_t before = (int64_t) low - 1, first = within(before, c->in);
    *out = (struct taps){.n = (int) (within(before + 3, c->in) - first) + 1, .from = first};
    for (int k = 0; k < 4; k++) {
        float away = fabsf(at - (low + (float) (k - 1)));
        out->weight[within(before + k, c->in) - first] += cubic_weight(away);
    }
}

static bool taps_of(const struct scaling * c, int64_t i, struct taps * out) {
    if (c->antialias) {
        return wide_taps(c, i, out);
    }
    if (c->cubic) {
        cubic_taps(c, i, out);
        return true;
    }
    if (!c->linear) {
        *out = (struct taps){1, within((int64_t) ((float) i / c->factor), c->in), {1}};
        return true;
    }
    float at = ((float) i + c->offset) / c->factor - c->offset;
    int64_t low = (int64_t) floorf(at), first = within(low, c->in), second = within(low + 1, c->in);
    float part = fminf(fmaxf(at - (float) first, 0), 1);
    bool one = first == second || part == 0;
    *out = one ? (struct taps){1, first, {1}} : (struct taps){2, first, {1 - part, part}};
    return true;
}

static bool alike(const struct taps * a, const struct taps * b) {
    bool same = a->n == b->n;
    for (int i = 0; i < a->n && same; i++) {
        same = fabsf(a->weight[i] - b->weight[i]) <= 1e-6f;
    }
    return same;
}

// n elements, `apart` from each other, of which the first is made of t and the next of what lies
// `along` further.
static void make_run(struct steps * s, int dim, const struct taps * t, struct view from,
                     int64_t along, struct view to) {
    size_t used = s->used;
    struct view sum = steps_like(s, &to), term = steps_like(s, &to);
    for (int k = 0; k < t->n; k++) {
        struct view part = steps_row(from, dim, t->from + k, to.ne[dim]);
        part.nb[dim] *= (size_t) along;
        if (t->n == 1) {
            steps_move(s, part, to);
            break;
        }
        steps_params(s, KERNEL_OP_SCALE, part, k ? term : sum, t->weight[k], 0);
        if (k) {
            steps_binary(s, KERNEL_OP_ADD, sum, term, k == t->n - 1 ? to : sum);
        }
    }
    s->used = used;
}

static int64_t divisor(int64_t a, int64_t b) {
    return b ? divisor(b, a % b) : a;
}

static void resample(struct steps * s, const struct scaling * c, int dim, struct view from,
                     struct view to) {
    bool ends = c->offset == 0 && c->in > 1 && c->out > 1;
    int64_t in = c->in - ends, out = c->out - ends, common = divisor(in, out);
    int64_t apart = out / common, along = in / common, runs = 0;
    for (int64_t phase = 0; phase < apart && phase < c->out && s->status == ST_OK; phase++) {
        for (int64_t i = phase, n; i < c->out && s->status == ST_OK; i += n * apart) {
            struct taps first, next;
            bool sound = taps_of(c, i, &first);
            for (n = 1; sound && i + n * apart < c->out; n++) {
                if (!taps_of(c, i + n * apart, &next) || !alike(&first, &next) ||
                    next.from != first.from + n * along) {
                    break;
                }
            }
            steps_need(s, sound && ++runs <= MOST_RUNS, "too many different weights");
            if (s->status == ST_OK) {
                struct view part = steps_row(to, dim, i, n);
                part.nb[dim] *= (size_t) apart;
                make_run(s, dim, &first, from, along, part);
            }
        }
    }
}

void steps_upscale(struct steps * s, const struct ggml_tensor * node) {
    struct view from = steps_src(s, 0), to = steps_dst(s);
    int32_t flags = node->op_params[0], mode = flags & 0xff;
    int32_t known = GGML_SCALE_FLAG_ALIGN_CORNERS | GGML_SCALE_FLAG_ANTIALIAS | 0xff;
    steps_need(s, from.type == GGML_TYPE_F32 && to.type == GGML_TYPE_F32, "datatypes");
    steps_need(s, mode <= GGML_SCALE_MODE_BICUBIC && !(flags & ~known), "a mode that is not known");
    int last = -1;
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        last = last < 0 && from.ne[d] != to.ne[d] ? d : last;
    }
    if (s->status == ST_OK && last < 0) {
        steps_move(s, from, to);
    }
    // The last dimensions first: their runs are long, and the first one's steps leave words out.
    for (int d = GGML_MAX_DIMS - 1; d >= 0 && s->status == ST_OK; d--) {
        if (from.ne[d] == to.ne[d]) {
            continue;
        }
        struct scaling c = scaling_of(node, d);
        struct view next = from;
        next.ne[d] = to.ne[d];
        next = d == last ? to : steps_like(s, &next);
        resample(s, &c, d, from, next);
        from = next;
    }
}

// rope: the angles of ROPE. Where ggml's CPU multiplies its way from one angle to the next in
// floats, these are powers in double precision; which position a pair turns by is counted as ggml
// counts it (sections of multi-dimensional positions).
#include "rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float rope_param(const struct ggml_tensor * node, int word) {
    float v;
    memcpy(&v, &node->op_params[word], sizeof v);
    return v;
}

static bool is_known_mode(int32_t mode) {
    return mode == GGML_ROPE_TYPE_NORMAL || mode == GGML_ROPE_TYPE_NEOX ||
           mode == GGML_ROPE_TYPE_MROPE || mode == GGML_ROPE_TYPE_VISION ||
           mode == GGML_ROPE_TYPE_IMROPE;
}

bool rope_is_sound(const struct ggml_tensor * node) {
    const struct ggml_tensor *x = node->src[0], *positions = node->src[1], *factors = node->src[2];
    int32_t mode = node->op_params[ROPE_MODE], n = node->op_params[ROPE_N_DIMS];
    int32_t first = node->op_params[ROPE_N_OFFSET];
    bool multi = mode & GGML_ROPE_TYPE_MROPE;
    const int32_t * sections = node->op_params + ROPE_SECTIONS;
    int64_t sum = 0;
    if (!x || !positions) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        if (multi && (sections[i] < 0 || sections[i] > INT16_MAX)) {
            return false;
        }
        sum += multi ? sections[i] : 1;
    }
    return is_known_mode(mode) && ggml_are_same_shape(node, x) && x->ne[0] % 2 == 0 && n > 0 &&
           n % 2 == 0 && first >= 0 && first % 2 == 0 && n <= x->ne[0] - first &&
           (mode != GGML_ROPE_TYPE_VISION || (n == x->ne[0] / 2 && first == 0)) && sum > 0 &&
           positions->type == GGML_TYPE_I32 && ggml_is_contiguous(positions) &&
           positions->ne[0] >= x->ne[2] * (multi ? 4 : 1) &&
           (!factors || (factors->type == GGML_TYPE_F32 && ggml_is_contiguous(factors) &&
                         factors->ne[0] >= (mode == GGML_ROPE_TYPE_VISION ? n : n / 2)));
}

// ---- which position a pair turns by, and how often its angle was divided before ----

struct turn {
    int which; // of the four positions
    int64_t steps;
};

// The four angles go down together with every pair; of images each begins anew at its section.
struct count {
    int64_t steps[4];
};

static int which_position(int32_t mode, const int32_t sections[4], int64_t sector) {
    if (mode == GGML_ROPE_TYPE_IMROPE) {
        int at = (int) (sector % 3);
        return sector < 3 * sections[at] ? at : 3;
    }
    int64_t w = sections[0] + sections[1];
    return sector < sections[0] ? 0 : sector < w ? 1 : sector < w + sections[2] ? 2 : 3;
}

static struct turn next_turn(const struct ggml_tensor * node, int64_t pair, struct count * c) {
    int32_t mode = node->op_params[ROPE_MODE];
    const int32_t * sections = node->op_params + ROPE_SECTIONS;
    struct turn t = {.which = 0};
    if (mode & GGML_ROPE_TYPE_MROPE) {
        int64_t starts[4] = {0}, sum = 0;
        for (int i = 0; i < 4; i++) {
            starts[i] = sum;
            sum += sections[i];
        }
        int64_t sector = pair % sum;
        for (int i = 0; i < 4 && mode == GGML_ROPE_TYPE_VISION; i++) {
            if (sector == starts[i]) { // the first alone, where sections are empty
                c->steps[i] = 0;
                break;
            }
        }
        t.which = which_position(mode, sections, sector);
    }
    t.steps = c->steps[t.which];
    for (int i = 0; i < 4; i++) {
        c->steps[i]++;
    }
    return t;
}

// ---- angles ----

struct scaling {
    double scale, extend, factor;
    float ramp[2];
};

static struct scaling scaling_of(const struct ggml_tensor * node) {
    struct scaling s = {.scale = rope_param(node, ROPE_FREQ_SCALE),
                        .extend = rope_param(node, ROPE_EXT_FACTOR),
                        .factor = rope_param(node, ROPE_ATTN_FACTOR)};
    ggml_rope_yarn_corr_dims(node->op_params[ROPE_N_DIMS], node->op_params[ROPE_N_CTX_ORIG],
                             rope_param(node, ROPE_FREQ_BASE), rope_param(node, ROPE_BETA_FAST),
                             rope_param(node, ROPE_BETA_SLOW), s.ramp);
    if (s.extend != 0) {
        s.factor *= 1 + 0.1 * log(1 / s.scale);
    }
    return s;
}

static double angle_of(const struct scaling * s, double theta, int64_t pair) {
    double interpolated = s->scale * theta;
    if (s->extend == 0) {
        return interpolated;
    }
    double y = ((double) pair - s->ramp[0]) / fmax(0.001, s->ramp[1] - s->ramp[0]);
    double mix = (1 - fmin(1, fmax(0, y))) * s->extend;
    return interpolated * (1 - mix) + theta * mix;
}

void rope_table(const struct ggml_tensor * node, int64_t n_pairs, float * out) {
    const int32_t * positions = node->src[1]->data;
    const float * factors = node->src[2] ? node->src[2]->data : NULL;
    const struct scaling s = scaling_of(node);
    double base = rope_param(node, ROPE_FREQ_BASE), n = node->op_params[ROPE_N_DIMS];
    double back = node->op == GGML_OP_ROPE_BACK ? -1 : 1;
    int64_t tokens = node->ne[2];
    struct count count = {{0}};
    for (int64_t pair = 0; pair < n_pairs; pair++) {
        struct turn turn = next_turn(node, pair, &count);
        double frequency = pow(base, -2.0 * (double) turn.steps / n);
        frequency /= factors ? factors[pair] : 1.0;
        for (int64_t t = 0; t < tokens; t++) {
            double angle = angle_of(&s, positions[t + turn.which * tokens] * frequency, pair);
            float * at = out + 2 * (t * n_pairs + pair);
            at[0] = (float) (cos(angle) * s.factor);
            at[1] = (float) (back * sin(angle) * s.factor);
        }
    }
}

// ggml_rope: pairs of elements turned by an angle of their position and of their place in the row.
// Positions go up to a hundred thousand and more, so an angle is computed and reduced in f64, and
// its sine and cosine from there on in f32. ROWS: y's rows are those that ids name, as SET_ROWS has
// them; an id comes from data, so it is compared with the number of rows before it is used.
#include "math.h"

// Which of the four positions turns pair p, and in *exponent which power of the step does.
DEVICE u32 find_section(const rk_ggml_rope & args, u32 p, u32 * exponent) {
    const uint32_t * n = args.sections;
    u32 place = p % (n[0] + n[1] + n[2] + n[3]), section = place % 3;
    if (args.mode == RK_ROPE_IMROPE) {
        return place < 3 * (section == 0 ? n[0] : section == 1 ? n[1] : n[2]) ? section : 3;
    }
    for (u32 s = 0, start = 0; s < 4; start += n[s++]) {
        if (place >= start) {
            section = s;
            // VISION's powers begin anew with each section; ggml's do not behind an empty one.
            bool anew = args.mode == RK_ROPE_VISION && (s == 0 || n[s - 1]);
            *exponent = anew ? place - start : p;
        }
    }
    return section;
}

DEVICE f64 find_angle(const rk_ggml_rope & args, u32 p, u32 i2) {
    u32 exponent = p, section = 0;
    if (args.mode & RK_ROPE_MROPE) {
        section = find_section(args, p, &exponent);
    }
    f64 angle = args.positions[section * args.dims[2] + i2] * m_exp(exponent * args.log_step);
    if (args.factors) {
        angle /= args.factors[p];
    }
    f64 mix = 0;
    if (args.extend != 0) {
        f64 width = (f64) args.ramp[1] - args.ramp[0];
        f64 place = (p - (f64) args.ramp[0]) / (width > 0.001 ? width : 0.001);
        mix = (1 - (place < 0 ? 0 : place > 1 ? 1 : place)) * args.extend;
    }
    return angle * (args.freq_scale * (1 - mix) + mix);
}

template <class Y, class T> struct stored {
    static __device__ Y from(T v) {
        return narrow<Y>(widen(v));
    }
};
template <class T> struct stored<T, T> { // what is not turned keeps its bits
    static __device__ T from(T v) {
        return v;
    }
};

template <class T, class Y, bool ROWS> DEVICE void ggml_rope(const rk_ggml_rope & args) {
    u32 i = global_index();
    if (i >= args.n_pairs) {
        return;
    }
    u32 row = i / (args.dims[0] / 2), p = i - row * (args.dims[0] / 2);
    u32 plane = row / args.dims[1], i1 = row - plane * args.dims[1];
    u32 i3 = plane / args.dims[2], i2 = plane - i3 * args.dims[2], to = i2;
    if (ROWS) {
        uint64_t id = (uint64_t) args.ids[i2]; // unsigned: below 0 is very large
        if (id >= args.n_rows) {
            return;
        }
        to = (u32) id;
    }
    u32 turned = args.mode == RK_ROPE_VISION ? args.n_rotated : args.n_rotated / 2;
    bool turn = p < turned;
    u32 at, other;
    if (turn) {
        bool apart = args.mode != RK_ROPE_NORMAL;
        at = args.first + (apart ? p : 2 * p);
        other = at + (apart ? turned : 1);
    } else { // what lies before the turned ones and behind
        at = 2 * (p - turned);
        at += at < args.first ? 0 : args.n_rotated;
        other = at + 1;
    }
    const T * x =
        (const T *) args.x + i1 * args.x_stride[1] + i2 * args.x_stride[2] + i3 * args.x_stride[3];
    Y * y = (Y *) args.y + i1 * args.y_stride[1] + to * args.y_stride[2] + i3 * args.y_stride[3];
    T first = x[at * args.x_stride[0]], second = x[other * args.x_stride[0]];
    if (turn) {
        f32 a = widen(first), b = widen(second), sin, cos;
        m_sin_cos(find_angle(args, p, i2), &sin, &cos);
        sin *= args.sin_scale;
        cos *= args.cos_scale;
        first = narrow<T>(a * cos - b * sin);
        second = narrow<T>(a * sin + b * cos);
    }
    y[at * args.y_stride[0]] = stored<Y, T>::from(first);
    y[other * args.y_stride[0]] = stored<Y, T>::from(second);
}

#define GGML_ROPE(t)                                                                               \
    KERNEL(ggml_rope_##t, rk_ggml_rope) {                                                          \
        ggml_rope<t, t, false>(args);                                                              \
    }
#define GGML_ROPE_ROWS(t)                                                                          \
    KERNEL(ggml_rope_rows_##t, rk_ggml_rope) {                                                     \
        ggml_rope<f32, t, true>(args);                                                             \
    }

GGML_ROPE(f32)
GGML_ROPE(f16)
GGML_ROPE_ROWS(f32)
GGML_ROPE_ROWS(f16)
GGML_ROPE_ROWS(bf16)

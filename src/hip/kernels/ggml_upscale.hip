// ggml_upscale: images made larger or smaller: by the nearest pixel, by straight lines or by cubic
// ones between pixels, or, smaller, by a triangle over all pixels that fall on the new one. The
// arithmetic is ggml's own, for where a pixel comes from depends on each rounding.
#include "math.h"
#include "node.h"

enum { NEAREST, BILINEAR, BICUBIC, MODE = 0xff, ALIGN_CORNERS = 1 << 8, ANTIALIAS = 1 << 9 };

struct image {
    const rk_tensor * x;
    u32 i2, i3;
    // Beyond the edge is the edge.
    __device__ f32 at(i32 i0, i32 i1) const {
        i32 n0 = (i32) x->ne[0] - 1, n1 = (i32) x->ne[1] - 1;
        u32 a = (u32) (i0 < 0 ? 0 : i0 > n0 ? n0 : i0), b = (u32) (i1 < 0 ? 0 : i1 > n1 ? n1 : i1);
        return element<f32>(*x, a, b, i2, i3);
    }
};

DEVICE f32 limit(f32 v, f32 least, f32 most) {
    return v < least ? least : v > most ? most : v;
}

DEVICE f32 bilinear(const image & m, f32 x, f32 y) {
    f32 last0 = (f32) (m.x->ne[0] - 1), last1 = (f32) (m.x->ne[1] - 1);
    f32 x0 = m_floor(x), y0 = m_floor(y);
    i32 ix = (i32) x0, iy = (i32) y0;
    f32 dx = limit(x - limit(x0, 0, last0), 0, 1), dy = limit(y - limit(y0, 0, last1), 0, 1);
    f32 a = m.at(ix, iy), b = m.at(ix + 1, iy), c = m.at(ix, iy + 1), d = m.at(ix + 1, iy + 1);
    return a * (1 - dx) * (1 - dy) + b * dx * (1 - dy) + c * (1 - dx) * dy + d * dx * dy;
}

DEVICE f32 triangles(const image & m, f32 x, f32 y, f32 reach0, f32 reach1, f32 half) {
    i32 x_min = (i32) (x - reach0 + half), y_min = (i32) (y - reach1 + half);
    i32 x_max = (i32) (x + reach0 + half), y_max = (i32) (y + reach1 + half);
    x_min = x_min < 0 ? 0 : x_min;
    y_min = y_min < 0 ? 0 : y_min;
    x_max = x_max > (i32) m.x->ne[0] ? (i32) m.x->ne[0] : x_max;
    y_max = y_max > (i32) m.x->ne[1] ? (i32) m.x->ne[1] : y_max;
    f32 sum = 0, weights = 0;
    for (i32 sy = y_min; sy < y_max; sy++) {
        f32 wy = 1 - m_abs(((f32) sy - y + half) / reach1);
        for (i32 sx = x_min; sx < x_max; sx++) {
            f32 wx = 1 - m_abs(((f32) sx - x + half) / reach0);
            f32 w = wx > 0 && wy > 0 ? wx * wy : 0;
            sum += w * m.at(sx, sy);
            weights += w;
        }
    }
    return weights > 0 ? sum / weights : sum;
}

struct cubic { // weights of four pixels in a row for a place dx behind the second, with a = -3/4
    f32 w[4];
    __device__ cubic(f32 dx) {
        const f32 a = -0.75f;
        for (int k = 0; k < 4; k++) {
            f32 t = m_abs(dx + 1 - (f32) k);
            w[k] = t <= 1 ? ((a + 2) * t - (a + 3)) * t * t + 1
                          : ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
        }
    }
};

DEVICE f32 bicubic(const image & m, f32 x, f32 y) {
    i32 x0 = (i32) m_floor(x), y0 = (i32) m_floor(y);
    cubic wx(x - (f32) x0), wy(y - (f32) y0);
    f32 sum = 0;
    for (int r = 0; r < 4; r++) {
        f32 line = 0;
        for (int c = 0; c < 4; c++) {
            line += wx.w[c] * m.at(x0 - 1 + c, y0 - 1 + r);
        }
        sum += wy.w[r] * line;
    }
    return sum;
}

DEVICE f32 upscale(const rk_node & args, const place4 & p) {
    const rk_tensor &x = args.x[0], &y = args.y;
    u32 mode = (u32) args.param[0];
    f32 scale[4], half = 0.5f;
    for (int d = 0; d < 4; d++) {
        scale[d] = (f32) y.ne[d] / (f32) x.ne[d];
    }
    if (mode & ALIGN_CORNERS) {
        half = 0;
        for (int d = 0; d < 2; d++) {
            bool many = y.ne[d] > 1 && x.ne[d] > 1;
            scale[d] = many ? (f32) (y.ne[d] - 1) / (f32) (x.ne[d] - 1) : scale[d];
        }
    }
    image m = {&x, (u32) ((f32) p.i[2] / scale[2]), (u32) ((f32) p.i[3] / scale[3])};
    if ((mode & MODE) == NEAREST) {
        return m.at((i32) ((f32) p.i[0] / scale[0]), (i32) ((f32) p.i[1] / scale[1]));
    }
    f32 at0 = ((f32) p.i[0] + half) / scale[0], at1 = ((f32) p.i[1] + half) / scale[1];
    if ((mode & MODE) == BICUBIC) {
        return bicubic(m, at0 - half, at1 - half);
    }
    if (mode & ANTIALIAS) {
        f32 reach0 = scale[0] < 1 ? 1 / scale[0] : 1, reach1 = scale[1] < 1 ? 1 / scale[1] : 1;
        return triangles(m, at0, at1, reach0, reach1, half);
    }
    return bilinear(m, at0 - half, at1 - half);
}

EACH_ELEMENT(ggml_upscale, f32, upscale)

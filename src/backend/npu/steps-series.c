// steps-series: numbers that go on by a rule. 0, 1, 2 ... is made by doubling what is there; sums
// of all elements up to each by adding what lies 1, 2, 4 ... before; triangles by comparing the
// number of a row with that of a column; the rows that solve a triangle one after the other.
// ARANGE, CUMSUM, TRI, DIAG_MASK_INF, TIMESTEP_EMBEDDING, SOLVE_TRI.
#include "steps.h"

#include <math.h>

// 0 to n - 1, which are exact up to 2^24.
struct view steps_count(struct steps * s, int64_t n) {
    struct view v = steps_temp(s, GGML_TYPE_F32, n, 1, 1, 1);
    steps_need(s, n <= 1 << 24, "more numbers than are exact");
    steps_fill(s, steps_row(v, 0, 0, 1), 0);
    for (int64_t done = 1, take; done < n && s->status == ST_OK; done += take) {
        take = n - done < done ? n - done : done;
        steps_params(s, KERNEL_OP_SCALE, steps_row(v, 0, 0, take), steps_row(v, 0, done, take), 1,
                     (float) done);
    }
    return v;
}

void steps_arange(struct steps * s, const struct ggml_tensor * node) {
    struct view to = steps_dst(s);
    steps_need(s, to.type == GGML_TYPE_F32 && node->ne[0] == ggml_nelements(node),
               "datatypes or shapes");
    if (s->status == ST_OK) {
        steps_params(s, KERNEL_OP_SCALE, steps_count(s, to.ne[0]), to, steps_float(node, 2),
                     steps_float(node, 0));
    }
}

void steps_cumsum(struct steps * s, const struct ggml_tensor * node) {
    struct view from = steps_src(s, 0), to = steps_dst(s);
    steps_need(s,
               from.type == GGML_TYPE_F32 && to.type == GGML_TYPE_F32 &&
                   ggml_are_same_shape(node, node->src[0]),
               "datatypes or shapes");
    int64_t n = from.ne[0];
    if (s->status != ST_OK || n == 1) {
        steps_move(s, from, to);
        return;
    }
    struct view both[2] = {steps_like(s, &to), steps_like(s, &to)};
    for (int64_t apart = 1, i = 0; apart < n && s->status == ST_OK; apart *= 2, i ^= 1) {
        struct view next = 2 * apart < n ? both[i] : to;
        steps_move(s, steps_row(from, 0, 0, apart), steps_row(next, 0, 0, apart));
        steps_binary(s, KERNEL_OP_ADD, steps_row(from, 0, apart, n - apart),
                     steps_row(from, 0, 0, n - apart), steps_row(next, 0, apart, n - apart));
        from = next;
    }
}

// ---- triangles ----

// 1 where sign * (column - row - diagonal) > 0, else 0; never at 0 with a diagonal between numbers.
static struct view triangle(struct steps * s, int64_t columns, int64_t rows, float sign,
                            float diagonal) {
    struct view across = steps_count(s, columns > rows ? columns : rows);
    struct view down = steps_temp(s, GGML_TYPE_F32, 1, rows, 1, 1);
    struct view mask = steps_temp(s, GGML_TYPE_F32, columns, rows, 1, 1);
    struct view number = steps_as(&across, 1, rows, 1, 1);
    steps_params(s, KERNEL_OP_SCALE, number, down, 1, diagonal);
    steps_binary(s, KERNEL_OP_SUB, steps_as(&across, columns, 1, 1, 1), down, mask);
    steps_params(s, KERNEL_OP_SCALE, mask, mask, sign, 0);
    steps_unary(s, KERNEL_OP_STEP, mask, mask);
    return mask;
}

// REGLU is a choice: its gate says whether the other input is seen, or 0, whatever it was.
void steps_tri(struct steps * s, const struct ggml_tensor * node) {
    struct view a = steps_src(s, 0), to = steps_dst(s);
    static const struct {
        float sign, diagonal;
    } kinds[] = {
        [GGML_TRI_TYPE_UPPER_DIAG] = {1, -0.5F},
        [GGML_TRI_TYPE_UPPER] = {1, 0.5F},
        [GGML_TRI_TYPE_LOWER_DIAG] = {-1, 0.5F},
        [GGML_TRI_TYPE_LOWER] = {-1, -0.5F},
    };
    int32_t kind = node->op_params[0];
    steps_need(s,
               kind >= 0 && kind < (int) (sizeof kinds / sizeof kinds[0]) &&
                   a.type == GGML_TYPE_F32 && to.type == GGML_TYPE_F32 &&
                   ggml_are_same_shape(node, node->src[0]),
               "datatypes, shapes or kind");
    if (s->status == ST_OK) {
        struct view mask = triangle(s, to.ne[0], to.ne[1], kinds[kind].sign, kinds[kind].diagonal);
        steps_binary(s, KERNEL_OP_REGLU, mask, a, to);
    }
}

// The logarithm of 1 and 0 is 0 and -infinity.
void steps_diag_mask(struct steps * s, const struct ggml_tensor * node) {
    struct view a = steps_src(s, 0), to = steps_dst(s);
    int32_t past = node->op_params[0];
    steps_need(s,
               past >= 0 && past < 1 << 20 && a.type == GGML_TYPE_F32 && to.type == GGML_TYPE_F32 &&
                   ggml_are_same_shape(node, node->src[0]),
               "datatypes, shapes or parameters");
    if (s->status == ST_OK) {
        struct view mask = triangle(s, to.ne[0], to.ne[1], -1, (float) past + 0.5F);
        struct view seen = steps_like(s, &to);
        steps_binary(s, KERNEL_OP_REGLU, mask, a, seen);
        steps_unary(s, KERNEL_OP_LOG, mask, mask);
        steps_binary(s, KERNEL_OP_ADD, seen, mask, to);
    }
}

// ---- TIMESTEP_EMBEDDING ----

// Cosines, then sines, of the time by frequencies that fall from 1 to 1 / period.
void steps_timestep(struct steps * s, const struct ggml_tensor * node) {
    struct view a = steps_src(s, 0), to = steps_dst(s);
    int64_t dim = node->op_params[0], half = dim / 2, n = a.ne[0];
    int32_t period = node->op_params[1];
    steps_need(s,
               a.type == GGML_TYPE_F32 && to.type == GGML_TYPE_F32 && half > 0 && period > 0 &&
                   to.ne[0] == dim && to.ne[1] == n && ggml_nelements(node) == dim * n &&
                   ggml_nelements(node->src[0]) == n && view_is_packed(&a),
               "datatypes, shapes or parameters");
    if (s->status != ST_OK) {
        return;
    }
    struct view f = steps_count(s, half), angle = steps_temp(s, GGML_TYPE_F32, half, n, 1, 1);
    steps_params(s, KERNEL_OP_SCALE, f, f, -logf((float) period) / (float) half, 0);
    steps_unary(s, KERNEL_OP_EXP, f, f);
    // Both repeated: of two inputs one alone may be.
    steps_move(s, steps_as(&a, 1, n, 1, 1), angle);
    steps_binary(s, KERNEL_OP_MUL, angle, f, angle);
    steps_unary(s, KERNEL_OP_COS, angle, steps_row(to, 0, 0, half));
    steps_unary(s, KERNEL_OP_SIN, angle, steps_row(to, 0, half, half));
    if (dim % 2) {
        steps_fill(s, steps_row(to, 0, dim - 1, 1), 0);
    }
}

// ---- SOLVE_TRI ----

static struct view inverse_of_diagonal(struct steps * s, struct view a) {
    a.ne[0] = 1;
    a.nb[1] += a.nb[0];
    struct view out = steps_like(s, &a);
    steps_fill(s, out, 1);
    steps_binary(s, KERNEL_OP_DIV, out, a, out);
    return out;
}

// The lower triangle a times the result is b. A row that is known is taken from all below it, as
// often as their columns of a say; then the next one is known.
void steps_solve_tri(struct steps * s, const struct ggml_tensor * node) {
    enum { MOST_ROWS = 1024 }; // a few kernels each
    struct view a = steps_src(s, 0), b = steps_src(s, 1), to = steps_dst(s);
    int64_t n = to.ne[1];
    steps_need(s,
               a.type == GGML_TYPE_F32 && b.type == GGML_TYPE_F32 && to.type == GGML_TYPE_F32 &&
                   a.ne[0] == n && a.ne[1] == n && a.ne[2] == to.ne[2] && a.ne[3] == to.ne[3] &&
                   ggml_are_same_shape(node, node->src[1]),
               "datatypes or shapes");
    steps_need(s, n <= MOST_ROWS, "more than 1024 rows, which follow from each other");
    // Each row is made of those before it, so that the error of a division grows from row to row.
    // The precise DIV has a PDI of its own, which is loaded once for all rows.
    s->precision = KERNEL_EXACT;
    struct view scale = inverse_of_diagonal(s, a);
    steps_move(s, b, to);
    for (int64_t i = 0; i < n && s->status == ST_OK; i++) {
        size_t used = s->used;
        struct view known = steps_row(to, 1, i, 1), below = steps_row(to, 1, i + 1, n - i - 1),
                    column = steps_row(a, 0, i, 1);
        steps_binary(s, KERNEL_OP_MUL, known, steps_row(scale, 1, i, 1), known);
        if (below.ne[1] > 0) {
            struct view each = steps_like(s, &below);
            steps_move(s, known, each);
            steps_binary(s, KERNEL_OP_MUL, each, steps_row(column, 1, i + 1, n - i - 1), each);
            steps_binary(s, KERNEL_OP_SUB, below, each, below);
        }
        s->used = used;
    }
}

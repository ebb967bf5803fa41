// mul-mat-shim: what the shims do in a step: point descriptors at rows of a, b and dst.
#include "mul-mat-design.h"

enum { OPERAND_A, OPERAND_B, OPERAND_OUT };

// Descriptors of a shim, one set for every other step.
enum {
    SHIM_FIRST,                 // gemm: chunks of a; gemv: a by channel 0
    SHIM_SECOND,                // gemm: chunks of b; gemv: a by channel 1
    SHIM_LAST,                  // + SHIM_FIRST or SHIM_SECOND: the last chunk, where it is shorter
    SHIM_TILES = SHIM_LAST + 2, // up to four
    SHIM_SET = 8,
    SHIM_X = 0, // gemv: b, and the others behind it
    SHIM_BEHIND_X = SHIM_X + 1,
};

static void shim_bd(const struct design * d, int bd, const struct array_bd * desc, int operand,
                    int64_t offset) {
    struct array_bd plain = *desc;
    plain.acquire = plain.release = -1;
    array_shim_bd(&plain, d->flow.target, d->sheet->words[bd]);
    d->sheet->operand[bd] = operand;
    d->sheet->offset[bd] = (uint32_t) offset;
    d->sheet->set |= 1ull << bd;
}

static void push_shim(const struct design * d, int col, bool in, int channel, int bd,
                      int64_t runs) {
    flow_push(&d->flow, (struct flow_tile){col, ARRAY_ROW_SHIM},
              (in ? SHIM_MM2S_QUEUE : SHIM_S2MM_QUEUE) + 8 * (uint32_t) channel, bd, runs, !in);
}

static uint32_t row_step(const struct tensor * t) {
    return t->ne[1] > 1 ? (uint32_t) (t->nb[1] / 4) : 1;
}

// A place in an operand, and how it moves on from tile to tile of a step.
struct place {
    int operand;
    int64_t offset;
    uint32_t iterations, step;
};

static int64_t batch_offset(const struct kernel_spec * spec, const struct tensor * t,
                            const struct mm_step * s) {
    int64_t i2 = s->batch2 / (spec->output.ne[2] / t->ne[2]);
    int64_t i3 = s->batch3 / (spec->output.ne[3] / t->ne[3]);
    return i2 * t->nb[2] + i3 * t->nb[3];
}

static struct place place_of(const struct design * d, int operand, const struct mm_step * s,
                             int64_t row) {
    const struct kernel_spec * spec = d->spec;
    const struct tensor * t = operand == OPERAND_OUT ? &spec->output : &spec->inputs[operand];
    struct place at = {.operand = operand, .offset = batch_offset(spec, t, s) + row * t->nb[1]};
    const struct mm_plan * p = &d->plan;
    bool along_m = p->m_pass > 1;
    if (s->tiles > 1 && operand != (along_m ? OPERAND_B : OPERAND_A)) {
        int64_t rows = mm_plan_m_far(p); // of a; columns of the output
        at.iterations = (uint32_t) s->tiles;
        at.step = (uint32_t) (!along_m                 ? p->n_step * t->nb[1] / 4
                              : operand == OPERAND_OUT ? rows
                                                       : rows * t->nb[1] / 4);
    }
    return at;
}

// Chunks of rows: all but the last one, which is shorter, in one descriptor.
static void write_rows(const struct design * d, int bd, const struct place * at,
                       const struct mm_cut * cut, int n_rows) {
    bool is_y = at->operand == OPERAND_A;
    uint32_t words = mm_words(d, is_y, cut->chunk_k), last = mm_words(d, is_y, cut->last_k);
    uint32_t rows = (uint32_t) n_rows, step = row_step(&d->spec->inputs[at->operand]);
    bool shorter = last < words;
    uint32_t panel = is_y ? (uint32_t) d->plan.panel.rows : 0;
    if (panel) { // whose chunks are one run, and are all equal
        words *= panel;
        last *= panel;
        rows /= panel;
        step *= panel;
    }
    uint32_t full = (uint32_t) (cut->rounds * cut->chunks) - shorter;
    struct array_bd first = {
        .words = full * rows * words,
        .next = shorter ? bd + SHIM_LAST : -1,
        .wrap = {words, rows},
        .step = {1, step, words},
        .iterations = at->iterations,
        .iteration_step = at->step,
    };
    shim_bd(d, bd, &first, at->operand, at->offset);
    if (shorter) {
        struct array_bd second = first;
        second.words = rows * last;
        second.next = -1;
        second.wrap[0] = last;
        shim_bd(d, bd + SHIM_LAST, &second, at->operand, at->offset + 4 * (int64_t) (full * words));
    }
}

// One tile, or a second one `apart` elements of a row behind it as well.
static void write_tile_bd(const struct design * d, int bd, const struct place * at, int64_t apart,
                          int next) {
    const struct mm_plan * p = &d->plan;
    uint32_t rows = (uint32_t) p->x_rows, tile = rows * (uint32_t) p->y_rows;
    shim_bd(d, bd,
            &(struct array_bd){.words = apart ? 2 * tile : tile,
                               .next = next,
                               .wrap = {(uint32_t) p->y_rows, apart ? rows : 0},
                               .step = {1, row_step(&d->spec->output), (uint32_t) apart},
                               .iterations = at->iterations,
                               .iteration_step = at->step},
            at->operand, at->offset);
}

static void gemm_inputs(const struct design * d, int col, const struct mm_step * s, int set) {
    const struct mm_plan * p = &d->plan;
    int64_t n = s->n_first * p->n_step + p->n_start[col];
    struct place a = place_of(d, OPERAND_A, s, mm_plan_m(p, s->m_step, col));
    struct place b = place_of(d, OPERAND_B, s, n);
    if (mm_plan_brings_y(p, col)) {
        write_rows(d, set + SHIM_FIRST, &a, &p->y, p->y_rows);
    }
    if (mm_plan_x_comes(p, s)) {
        write_rows(d, set + SHIM_SECOND, &b, &p->x, mm_x_taken(p));
    }
    mm_write_sheet(d, col, ARRAY_ROW_SHIM);
    if (mm_plan_brings_y(p, col)) {
        push_shim(d, col, true, 0, set + SHIM_FIRST, p->y_stays ? 1 : s->tiles);
    }
    if (mm_plan_x_comes(p, s)) {
        push_shim(d, col, true, 1, set + SHIM_SECOND, p->x_held ? 1 : s->tiles);
    }
}

// A channel brings the tiles of two cores, whose rows are the same and begin apart, unless the
// second one makes the first one's tile again.
static void gemm_outputs(const struct design * d, int col, const struct mm_step * s, int set) {
    const struct mm_plan * p = &d->plan;
    int first[2] = {set + SHIM_TILES, set + SHIM_TILES + 1};
    int64_t m[MMP_CORE_ROWS_GEMM];
    for (int i = 0; i < p->core_rows; i++) {
        m[i] = mm_plan_m(p, s->m_step, i);
    }
    int each = mm_plan_each(p);
    bool together = each == 2 && p->core_rows == 4 && m[0] < m[1] && m[2] < m[3];
    for (int i = 0; i < p->core_rows; i += together ? 2 : 1) {
        struct place c = place_of(d, OPERAND_OUT, s, s->n_first * p->n_step + p->n_start[col]);
        int bd = set + SHIM_TILES + (together ? i / 2 : i);
        bool follows = !together && i % each + 1 < each && i + 1 < p->core_rows;
        c.offset += 4 * m[i];
        if (p->many > 1) { // a step has one tile, of which a core makes these
            c.iterations = (uint32_t) p->many;
            c.step = (uint32_t) (p->x_rows * d->spec->output.nb[1] / 4);
        }
        write_tile_bd(d, bd, &c, together ? m[i + 1] - m[i] : 0, follows ? bd + 1 : -1);
        first[i / each] = i % each ? first[i / each] : bd;
    }
    mm_write_sheet(d, col, ARRAY_ROW_SHIM);
    for (int i = 0; i < mm_plan_ways(p); i++) {
        push_shim(d, col, false, i, first[i], s->tiles * mm_tiles_each(p));
    }
}

// A step as a column has it: of batches beside each other its own.
static struct mm_step step_of(const struct design * d, int col, const struct mm_step * s) {
    struct mm_step own = *s;
    own.batch2 += mm_plan_batch(&d->plan, MMP_CORE_ROWS_GEMV * col);
    return own;
}

static void gemv_inputs(const struct design * d, int col, const struct mm_step * s, int set) {
    const struct mm_plan * p = &d->plan;
    struct mm_step own = step_of(d, col, s);
    uint32_t piece = mm_x_row(p) / (uint32_t) p->x_pieces;
    struct place b = place_of(d, OPERAND_B, &own, 0);
    const bool behind = !p->x_stays && !p->joint; // a follows it in one chain
    struct array_bd x = {
        .words = (uint32_t) p->x_rows * mm_x_row(p),
        .next = behind ? set + SHIM_BEHIND_X + SHIM_FIRST : -1,
        .wrap = {piece, (uint32_t) p->x_pieces},
        .step = {1, piece, row_step(&d->spec->inputs[OPERAND_B])},
    };
    shim_bd(d, set + SHIM_X, &x, b.operand, b.offset);
    for (int i = 0; i < (p->joint ? 1 : p->core_rows); i++) {
        int64_t m = mm_plan_m(p, s->m_step, MMP_CORE_ROWS_GEMV * col + i);
        struct place a = place_of(d, OPERAND_A, &own, m);
        write_rows(d, set + SHIM_BEHIND_X + (i ? SHIM_SECOND : SHIM_FIRST), &a, &p->y,
                   mm_plan_rows(p));
    }
    mm_write_sheet(d, col, ARRAY_ROW_SHIM);
    int first = set + SHIM_X, second = set + SHIM_BEHIND_X + SHIM_SECOND;
    if (p->joint) {
        mm_push_pair(d, (struct flow_tile){col, ARRAY_ROW_SHIM}, SHIM_MM2S_QUEUE,
                     (const int[]){first, set + SHIM_BEHIND_X + SHIM_FIRST},
                     (const int64_t[]){p->x_stays ? 1 : s->tiles, s->tiles});
        return;
    }
    if (p->x_stays) {
        push_shim(d, col, true, 0, first, 1);
        first = set + SHIM_BEHIND_X + SHIM_FIRST;
    }
    mm_push_pair(d, (struct flow_tile){col, ARRAY_ROW_SHIM}, SHIM_MM2S_QUEUE,
                 (const int[]){first, second}, (const int64_t[]){s->tiles, s->tiles});
}

static void gemv_outputs(const struct design * d, int col, const struct mm_step * s, int set) {
    const struct mm_plan * p = &d->plan;
    int first = set + SHIM_BEHIND_X + SHIM_TILES;
    struct mm_step own = step_of(d, col, s);
    int64_t m = mm_plan_m(p, s->m_step, MMP_CORE_ROWS_GEMV * col);
    int64_t apart = mm_plan_m(p, s->m_step, MMP_CORE_ROWS_GEMV * col + 1) - m;
    bool together = apart && apart <= MMP_STEP_LIMIT;
    for (int i = 0; i < (together ? 1 : MMP_CORE_ROWS_GEMV); i++) {
        struct place c = place_of(d, OPERAND_OUT, &own, 0);
        c.offset += 4 * (m + i * apart);
        write_tile_bd(d, first + i, &c, together ? apart : 0, together || i ? -1 : first + 1);
    }
    mm_write_sheet(d, col, ARRAY_ROW_SHIM);
    push_shim(d, col, false, 0, first, s->tiles);
}

void mm_shim_inputs(const struct design * d, int col, const struct mm_step * s, bool odd) {
    (d->plan.is_vector ? gemv_inputs : gemm_inputs)(d, col, s, odd ? SHIM_SET : 0);
}

void mm_shim_outputs(const struct design * d, int col, const struct mm_step * s, bool odd) {
    (d->plan.is_vector ? gemv_outputs : gemm_outputs)(d, col, s, odd ? SHIM_SET : 0);
}

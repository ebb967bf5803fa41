// aie2-quant-inreg: slices of quantized blocks that are multiplied out of the registers in which
// they are unpacked. Numbers come word by word, [8 words][64 rows], and a word is eight halves of
// bytes of a row: eight k of the multiplier, which takes them in any order, as long as b's rows
// come in the same. It makes two sums of four words each, [4 rows of a][4 rows of b].
//
//     q4_0     d0 | b0 b1 . b2 ... b5 . ... . b14 b15 | d1 . b0 ... b3 . ...      9 words as they
//     come
//              w4 and w0 change halves, which leaves words 1 to 8 of numbers, a sum for each block,
//              and both scales of a row together. Rows of b: (k, k + 16).
//     q4_K     8 words as they come, of which the lower halves of bytes are one group, the upper
//              another: two passes, with (b, 0) and with (0, b), both sums with the same scale;
//              one where b is one row (aie2-quant-onerow.c)
//     others   two passes of 32 numbers, which stand as bytes: q is its lower half and 16 times its
//              upper, and b's rows are (b, b)
//
// Numbers stay whole: 128 + q is 0x4300 | q in bf16, and 2048 + 16 q is 0x4500 | q. What is too
// much, a constant times the sum of b's numbers, was in the accumulator before. Sums are rounded to
// bf16 and multiplied with their scales, so that the roundings are: b, scales and sums to bf16.
// Minima are taken away from the tile, times the sum of b's numbers of their group in bf16. All
// else is f32.
#include "aie2-quant-inreg.h"

#include "aie/ops/lanes/f16.h"

enum { UPPER_HALVES = (int) 0xaaaaaaaa, NUMBERS_AT = WORD /* w1 */ };

// ---- scales ----

// f16 to bf16 in 32 lanes (f16.h); normal numbers are rounded as integers.
static struct asm_reg where_less(struct writer * w, struct asm_reg a, struct asm_reg than,
                                 struct asm_reg no, struct asm_reg yes) {
    struct asm_reg d = asm_local(w->p, ASM_X), mask = asm_local(w->p, ASM_MASK);
    emit_compare(w->p, LANE_LESS, LANE_16, mask, a, than);
    emit_select(w->p, LANE_16, d, no, yes, mask);
    return d;
}

struct asm_reg quant_half_to_bf16(struct writer * w, const struct half_numbers * c,
                                  struct asm_reg a) {
    struct asm_program * p = w->p;
    struct asm_reg m = lanes_16(w, LANE_AND, a, c->magnitude), raised = asm_local(p, ASM_CM);
    struct asm_reg sum[3], normal = asm_local(p, ASM_X), denormal = asm_local(p, ASM_X);
    for (int i = 0; i < 3; i++) {
        sum[i] = asm_local(p, ASM_CM);
    }
    emit_widen_16(p, raised, m, c->raise);
    emit_acc_add(p, sum[0], raised, c->rebias, c->add_bits);
    emit_narrow_16(p, normal, sum[0], c->lower);
    emit_acc_add(p, sum[1], raised, c->smallest, c->add_bits);
    emit_f_sub(p, sum[2], sum[1], c->smallest, c->add);
    for (int half = 0; half < 2; half++) {
        emit_to_bf16(p, asm_half(denormal, half), asm_half(sum[2], half));
    }
    // The upper and the lower bits: a NaN has some of them set, so that it stays one.
    struct asm_reg beyond = lanes_16(w, LANE_OR, lanes_16(w, LANE_OR, m, c->bf16_inf), normal);
    struct asm_reg number = where_less(w, m, c->normal, normal, denormal);
    number = where_less(w, m, c->inf, beyond, number);
    return lanes_16(w, LANE_OR, number, lanes_16(w, LANE_SUB, a, m));
}

void quant_take_half_numbers(struct writer * w, struct half_numbers * c) {
    struct asm_program * p = w->p;
    c->magnitude = take_splat(w, LANE_16, F16_MAGNITUDE);
    c->inf = take_splat(w, LANE_16, F16_INF);
    c->normal = take_splat(w, LANE_16, F16_NORMAL);
    c->bf16_inf = take_splat(w, LANE_16, BF16_INF);
    c->rebias = take(w, ASM_CM);
    c->smallest = take(w, ASM_CM);
    c->raise = take(w, ASM_S);
    c->lower = take(w, ASM_S);
    c->add_bits = take(w, ASM_R);
    c->add = take(w, ASM_R);
    quant_ready(w);
    for (int i = 0; i < 2; i++) {
        struct asm_reg r = asm_local(p, ASM_R), x = asm_local(p, ASM_X);
        emit_set(p, r, i ? F16_SMALLEST : F16_REBIAS);
        emit_splat(p, LANE_32, x, r);
        for (int half = 0; half < 2; half++) {
            emit_move(p, asm_half(i ? c->smallest : c->rebias, half), x);
        }
    }
    emit_set_shift(p, c->raise, F16_RAISE);
    emit_set_shift(p, c->lower, F16_LOWER);
    emit_set_small(p, c->add_bits, 0);
    emit_set_small(p, c->add, (int32_t) asm_target(p)->add_config);
}

// Both scales of each row to the page, those of four rows together; the numbers of w0 to w4. All 64
// rows, whether they are there or not: a loop would take longer.
static void gather(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct half_numbers c;
    struct asm_reg at = q->pointers[0], scales = q->pointers[1];
    struct asm_reg upper = take_set(w, ASM_MASK, UPPER_HALVES);
    quant_take_half_numbers(w, &c);
    struct asm_reg together = small(w, ASM_R, T16_4X2);
    emit_copy(p, at, sum_of(w, raw_of(w), 2 * WORD));
    emit_set(p, scales, address(w, MM_FUSED_PAGE));
    for (int i = 0; i < 4; i++) {
        struct asm_reg word[2], numbers = asm_local(p, ASM_X), both = asm_local(p, ASM_X);
        for (int n = 0; n < 2; n++) {
            word[n] = asm_local(p, ASM_X);
            emit_load(p, MEM_WORDS, word[n], at, (n ? 2 : -2) * WORD + VECTOR * i);
        }
        emit_select(p, LANE_16, numbers, word[1], word[0], upper);
        emit_store(p, MEM_JOINED, numbers, at, 2 * WORD + VECTOR * i);
        emit_select(p, LANE_16, both, word[0], word[1], upper);
        both = quant_half_to_bf16(w, &c, shuffled(w, both, both, together));
        emit_store(p, MEM_SCALES, both, scales, VECTOR * i);
    }
    store_param(w, sum_of(w, raw_of(w), NUMBERS_AT - address(w, 0)), MM_PARAM_NUMBERS, at);
    quant_end(w);
}

// ---- factors ----

// Two planes of factors, [64 rows], as a page: those of four rows together.
static void write_page(struct writer * w, const struct asm_reg planes[2],
                       const struct asm_reg zip[2]) {
    struct asm_program * p = w->p;
    const struct asm_reg *from = w->q->pointers, to = w->q->pointers[2];
    emit_set(p, to, address(w, MM_FUSED_PAGE));
    for (int i = 0; i < 2; i++) {
        emit_copy(p, from[i], planes[i]);
    }
    for (int rows = 0; rows < 2; rows++) {
        struct asm_reg v[2];
        for (int i = 0; i < 2; i++) {
            v[i] = asm_local(p, ASM_X);
            emit_load_next(p, MEM_TABLE, v[i], from[i]);
        }
        for (int i = 0; i < 2; i++) {
            emit_store_next(p, MEM_SCALES, shuffled(w, v[0], v[1], zip[i]), to);
        }
    }
}

// The page of a pass.
static void pass_page(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg zip[2] = {take_set(w, ASM_MASK, ZIP_64), take_set(w, ASM_MASK, ZIP_64 + 1)};
    quant_ready(w);
    struct asm_reg planes[2], n[3];
    static const int params[3] = {MM_PARAM_PASS, MM_PARAM_PLANES_SHIFT, MM_PARAM_PLANES_NEXT};
    planes[0] = planes_of(w);
    for (int i = 0; i < 3; i++) {
        n[i] = asm_local(p, ASM_R);
        read_param(w, n[i], params[i], q->pointers[3 + i % 2]);
    }
    planes[1] = asm_local(p, ASM_R);
    emit_alu(p, AIE_BASIC_SHIFT, n[0], n[0], n[1]);
    emit_alu(p, AIE_BASIC_ADD, planes[0], planes[0], n[0]);
    emit_alu(p, AIE_BASIC_ADD, planes[1], planes[0], n[2]);
    write_page(w, planes, zip);
    quant_end(w);
}

// ---- products ----

static void take_shuffles(struct writer * w, struct constants * c) {
    c->turn = take_set(w, ASM_MASK, T16_4X4);
    for (int i = 0; i < 2; i++) {
        c->zip_64[i] = take_set(w, ASM_MASK, ZIP_64 + i);
        c->zip_128[i] = take_set(w, ASM_MASK, ZIP_128 + i);
    }
}

// The next 8 k of four rows of b, [8 k][4 rows].
static struct asm_reg next_block(struct writer * w, const struct fused * f, struct asm_reg from) {
    struct asm_reg x = asm_local(w->p, ASM_X);
    emit_load(w->p, MEM_X, asm_half(x, 1), from, K_BLOCK / 2);
    emit_load_by(w->p, MEM_X, asm_half(x, 0), from, STEP(STEP_X));
    return shuffled(w, x, x, f->turn);
}

// Four rows of b, [k-block of 8][row], in the order in which the numbers of q4_0 come: [8 k][4
// rows] for each word, k and k + 16 in turn.
static void order_blocks(struct writer * w, const struct fused * f, const struct constants * c,
                         struct asm_reg from, struct asm_reg to) {
    for (int b = 0; b < 2; b++) {
        struct asm_reg turned[4];
        for (int i = 0; i < 4; i++) {
            turned[i] = next_block(w, f, from);
        }
        for (int i = 0; i < 4; i++) { // of k and k + 16 in turn eight each
            struct asm_reg d = shuffled(w, turned[i / 2], turned[i / 2 + 2], c->zip_64[i % 2]);
            for (int half = 0; half < 2; half++) { // the first block begins in the middle of w4
                int at = b ? 2 * i + half : (2 * i + half + 7) % 8;
                emit_store(w->p, MEM_FACTORS, asm_half(d, half), to, b * BLOCK + at * K_BLOCK / 2);
            }
        }
    }
}

// The rows of a pass, each for both halves of a byte, or for one of them.
static void order_pairs(struct writer * w, const struct fused * f, const struct constants * c,
                        struct asm_reg from, struct asm_reg to, struct asm_reg scratch) {
    struct asm_program * p = w->p;
    struct asm_reg pass = asm_local(p, ASM_R), bits[2], both = asm_local(p, ASM_R);
    read_param(w, pass, MM_PARAM_PASS, scratch);
    struct asm_reg far = shifted(w, pass, 2);
    emit_set(p, both, address(w, MM_PARAMS + 4 * MM_PARAM_PAIR));
    for (int i = 0; i < 2; i++) {
        struct asm_reg at = asm_local(p, ASM_R), n = asm_local(p, ASM_R);
        emit_alu(p, i ? AIE_BASIC_SUB : AIE_BASIC_ADD, at, i ? sum_of(w, both, 4) : both, far);
        emit_copy(p, scratch, at);
        emit_load_scalar(p, MEM_PARAMS, LANE_32, A_REG(n), scratch, 0);
        bits[i] = asm_local(p, ASM_X);
        emit_splat(p, LANE_32, bits[i], n);
    }
    for (int i = 0; i < 4; i++) {
        struct asm_reg turned = next_block(w, f, from), of[2];
        for (int half = 0; half < 2; half++) {
            of[half] = lanes_16(w, LANE_AND, turned, bits[half]);
        }
        for (int n = 0; n < 2; n++) {
            emit_store(p, MEM_FACTORS, shuffled(w, of[0], of[1], c->zip_64[n]), to,
                       (2 * i + n) * K_BLOCK);
        }
    }
}

// The correction that both sums begin with: a negative constant times the sum of b's numbers.
static void find_rest(struct writer * w, const struct fused * f, const struct constants * c,
                      struct asm_reg factors, struct asm_reg scratch) {
    struct asm_program * p = w->p;
    struct asm_reg n = asm_local(p, ASM_R), minus = asm_local(p, ASM_X);
    read_param(w, n, MM_PARAM_MINUS, scratch);
    emit_splat(p, LANE_16, minus, n);
    for (int b = 0; b < 2; b++) {
        struct asm_reg sum = asm_local(p, ASM_BM);
        for (int i = 0; i < 4; i++) {
            struct asm_reg d = asm_local(p, ASM_X);
            struct asm_reg next = i == 3 ? c->rest[b] : asm_local(p, ASM_BM);
            emit_load(p, MEM_ORDERED, d, factors, b * BLOCK + i * K_BLOCK);
            if (i == 0) {
                emit_mul(p, next, minus, d, f->conf);
            } else {
                emit_mac(p, next, sum, minus, d, f->conf);
            }
            sum = next;
        }
    }
}

// The products of eight rows, a word of each, with all four rows of b, in two halves.
static void multiply(struct writer * w, const struct fused * f, const struct constants * c,
                     struct asm_reg bytes, struct asm_reg b, int word, struct asm_reg sum[2][2]) {
    for (int half = 0; half < 2; half++) {
        struct asm_reg *of = &sum[half][word / 4], next = asm_local(w->p, ASM_BM);
        emit_mac(w->p, next, word % 4 ? *of : c->rest[word / 4],
                 shuffled(w, bytes, c->top, c->zip_8[half]), b, f->conf);
        *of = next;
    }
}

// The sums of eight rows in bf16, which may be the same for all of them, times their factors s, to
// the tile.
static void add_scaled(struct writer * w, const struct constants * c, struct asm_reg s,
                       const struct asm_reg turned[2]) {
    struct asm_program * p = w->p;
    const struct asm_reg * at = w->q->pointers;
    struct asm_reg twice = shuffled(w, s, s, c->zip_64[0]);
    for (int half = 0; half < 2; half++) {
        struct asm_reg old = asm_local(p, ASM_BM), all = asm_local(p, ASM_BM);
        emit_load_next(p, MEM_C_IN, old, at[3]);
        emit_mac(p, all, old, turned[half], shuffled(w, twice, twice, c->zip_128[half]), c->scale);
        emit_store_next(p, MEM_C_OUT, all, at[4]);
    }
}

// Both sums, [4 rows of b][4 rows of a] each.
static struct asm_reg turned_sums(struct writer * w, const struct constants * c,
                                  const struct asm_reg sum[2]) {
    struct asm_reg t = asm_local(w->p, ASM_X);
    for (int b = 0; b < 2; b++) {
        emit_to_bf16(w->p, asm_half(t, b), sum[b]);
    }
    return shuffled(w, t, t, c->turn);
}

// Sixteen rows of a: of eight, b's numbers would be loaded twice as often.
static void trip(struct writer * w, const struct fused * f, const struct constants * c) {
    struct asm_program * p = w->p;
    const struct asm_reg words = w->q->pointers[0], x = w->q->pointers[1];
    struct asm_reg sum[2][2][2];
    for (int i = 0; i < WORDS; i++) {
        struct asm_reg b = asm_local(p, ASM_X);
        int next = i + 1 < WORDS ? STEP_WORD : STEP_ROWS;
        emit_load(p, MEM_FACTORS, b, x, i * K_BLOCK);
        for (int part = 0; part < 2; part++) {
            struct asm_reg bytes = asm_local(p, ASM_X);
            emit_load_nibbles_by(p, MEM_WORDS, bytes, words, STEP(part ? next : STEP_PART));
            multiply(w, f, c, bytes, b, i, sum[part]);
        }
    }
    for (int part = 0; part < 2; part++) {
        struct asm_reg turned[2], s = asm_local(p, ASM_X);
        // 32 bytes twice, or 64
        emit_load_by(p, MEM_SCALES, asm_half(s, 0), w->q->pointers[2], STEP(STEP_PAGE));
        emit_load_next(p, MEM_SCALES, asm_half(s, 1), w->q->pointers[2]);
        for (int half = 0; half < 2; half++) {
            turned[half] = turned_sums(w, c, sum[part][half]);
        }
        add_scaled(w, c, s, turned);
    }
}

static void set_x_step(struct writer * w, struct asm_reg scratch) {
    emit_set(w->p, scratch, address(w, MM_PARAMS + 4 * MM_PARAM_X_STEP));
    emit_load_scalar(w->p, MEM_PARAMS, LANE_32, STEP(STEP_X), scratch, 0);
}

// ---- all of it ----

// Sections of the products, and registers that all of them share.
struct product_sections {
    int again, next_rows;            // the next four rows of b
    int pairs, ordered;              // b's numbers in pairs; b stands as the multiplier wants it
    int to_tile;                     // the loop over the tile's rows
    int order, two, unit, next_unit; // by columns: b's order, two slices, a unit of them
    int upper, lower;                // halves of bytes
    int done;                        // outside
    struct asm_reg trips, x, tile, passes;
};

// What a slice is multiplied with: the configuration of its first multiplication has one bit more,
// in its first pass; the second pass has the second four k-blocks.
static void begin_products(struct writer * w, struct fused * f, struct constants * c,
                           const struct product_sections * s) {
    struct asm_program * p = w->p;
    const struct asm_reg * at = w->q->pointers;
    read_param(w, f->groups, MM_PARAM_FUSED, at[0]);
    read_param(w, s->trips, MM_PARAM_ROWS, at[1]); // of sixteen
    read_param(w, s->passes, MM_PARAM_PASSES, at[2]);
    struct asm_reg pass = asm_local(p, ASM_R), top = asm_local(p, ASM_R), n[4];
    read_param(w, pass, MM_PARAM_PASS, at[3]);
    read_param(w, top, MM_PARAM_TOP, at[4]);
    emit_splat(p, LANE_16, c->top, top);
    emit_add_small(p, s->passes, s->passes, -1);
    for (int i = 0; i < 4; i++) {
        n[i] = asm_local(p, ASM_R);
    }
    emit_set(p, n[0], (int32_t) asm_target(p)->mul_config);
    emit_add_small(p, n[1], pass, -1);
    emit_alu(p, AIE_BASIC_XOR, n[2], f->first, f->conf);
    emit_alu(p, AIE_BASIC_AND, n[2], n[2], n[1]);
    emit_alu(p, AIE_BASIC_OR, c->scale, n[0], n[2]);
    read_param(w, n[3], MM_PARAM_X_STEP, at[0]);
    emit_set(p, n[0], -1);
    emit_alu(p, AIE_BASIC_XOR, n[1], n[1], n[0]); // all bits or none
    emit_alu(p, AIE_BASIC_AND, n[3], shifted(w, n[3], 2), n[1]);
    emit_copy(p, s->x, sum_of(w, f->x, -f->x_offset));
    emit_alu(p, AIE_BASIC_ADD, s->x, s->x, n[3]);
    emit_copy(p, s->tile, sum_of(w, f->c, -f->c_offset));
    set_steps(w, 0);
    set_x_step(w, at[2]);
    emit_set_label(p, f->back, s->next_rows);
}

// One row of b by columns: b is ordered once for a slice, or for each half of a byte.
static void products_by_columns(struct writer * w, struct fused * f, struct constants * c,
                                struct one_row * one, const struct product_sections * s) {
    struct asm_program * p = w->p;
    const struct asm_reg * at = w->q->pointers;
    asm_label(p, f->columns);
    columns_begin(w);
    emit_copy(p, s->tile, sum_of(w, f->c, -f->c_offset));
    emit_set_label(p, f->back, s->done);
    read_param(w, f->groups, MM_PARAM_PASSES, at[0]);
    emit_add_small(p, f->groups, f->groups, -MM_BY_COLUMNS);
    asm_jump_if_nonzero(p, f->groups, s->two);
    columns_slice(w, f, one);
    asm_label(p, s->order);
    emit_set(p, at[1], address(w, MM_FUSED_FACTORS));
    columns_order(w, f, c, one, (struct asm_reg[]){at[3], at[2]}, at[1]);
    read_param(w, s->trips, MM_PARAM_ROWS, at[4]); // of sixteen
    columns_scale(w, f, c);
    asm_jump_if_zero(p, one->by, s->upper);
    columns_lead(w, c);
    asm_jump(p, s->to_tile);
    asm_label(p, s->two);
    emit_set_small(p, f->groups, 0);
    asm_label(p, s->unit);
    columns_unit(w, f, c, one, f->groups);
    asm_jump(p, s->order);
    asm_label(p, s->upper);
    columns_lead_upper(w, f, c, f->groups);
    emit_set_label(p, f->back, s->lower);
    asm_jump(p, s->to_tile);
    asm_label(p, s->lower);
    emit_set_label(p, f->back, s->done);
    columns_lead_lower(w, f, c, f->groups);
    asm_jump_if_nonzero(p, f->groups, s->ordered);
    emit_set_label(p, f->back, s->next_unit);
    asm_jump(p, s->ordered);
    asm_label(p, s->next_unit);
    emit_set_small(p, f->groups, 1);
    asm_jump(p, s->unit);
}

// The tile's rows, sixteen a trip; then back to who came here.
static void products_of_tile(struct writer * w, struct fused * f, struct constants * c,
                             const struct product_sections * s) {
    struct asm_program * p = w->p;
    const struct asm_reg * at = w->q->pointers;
    asm_label(p, s->ordered);
    find_rest(w, f, c, at[1], at[4]);
    struct asm_reg numbers = asm_local(p, ASM_R), next = asm_local(p, ASM_R),
                   which = asm_local(p, ASM_R);
    read_param(w, numbers, MM_PARAM_NUMBERS, at[0]);
    read_param(w, next, MM_PARAM_NUMBERS_NEXT, at[3]);
    read_param(w, which, MM_PARAM_PASS, at[4]);
    emit_alu(p, AIE_BASIC_AND, next, next, shifted(w, which, 11));
    emit_alu(p, AIE_BASIC_ADD, numbers, numbers, next);
    emit_copy(p, at[0], sum_of(w, numbers, address(w, 0)));
    asm_label(p, s->to_tile);
    emit_copy(p, at[3], s->tile);
    emit_copy(p, at[4], s->tile);
    asm_loop_begin(p, s->trips);
    asm_loop_alone(p); // 65 bundles; overlapping 54, for 500 bytes more and four trips
    trip(w, f, c);
    asm_loop_end(p);
    asm_jump_pointer(p, f->back);
}

// Four rows of b at a time; where one goes by columns, the loop goes on to the label.
static void products(struct quant * q, struct fused * f, int done) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg * at = q->pointers;
    struct product_sections s = {.done = done};
    s.trips = take(w, ASM_R);
    s.x = take(w, ASM_R);
    s.tile = take(w, ASM_R);
    s.passes = take(w, ASM_R);
    struct constants c = {.top = take(w, ASM_X), .scale = take(w, ASM_R)};
    struct one_row one = {{s.x, c.scale}, s.passes}; // which mean something else by then
    int * const sections[] = {&s.again, &s.pairs, &s.ordered, &s.next_rows, &s.order,  &s.two,
                              &s.unit,  &s.upper, &s.lower,   &s.next_unit, &s.to_tile};
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        *sections[i] = asm_label_new(p);
    }
    take_shuffles(w, &c);
    for (int i = 0; i < 2; i++) {
        c.zip_8[i] = take_set(w, ASM_MASK, ZIP_8 + i);
        c.rest[i] = take(w, ASM_BM);
    }
    quant_ready(w);
    emit_nibbles_begin(p);
    begin_products(w, f, &c, &s);
    asm_label(p, s.again);
    emit_copy(p, at[0], s.x);
    emit_set(p, at[1], address(w, MM_FUSED_FACTORS));
    asm_jump_if_nonzero(p, s.passes, s.pairs);
    order_blocks(w, f, &c, at[0], at[1]);
    emit_set(p, at[2], address(w, MM_FUSED_PAGE));
    asm_jump(p, s.ordered);
    products_by_columns(w, f, &c, &one, &s);
    asm_label(p, s.pairs);
    order_pairs(w, f, &c, at[0], at[1], at[2]);
    emit_set(p, at[2], address(w, MM_FUSED_PAGE));
    products_of_tile(w, f, &c, &s);
    asm_label(p, s.next_rows);
    emit_copy(p, s.x, sum_of(w, s.x, K_BLOCK));
    emit_alu(p, AIE_BASIC_ADD, s.tile, s.tile, f->row);
    emit_add_small(p, f->groups, f->groups, -1);
    asm_jump_if_nonzero(p, f->groups, s.again);
    asm_jump_if_zero(p, s.passes, done);
    struct asm_reg next_pass = asm_local(p, ASM_R);
    read_param(w, next_pass, MM_PARAM_PASS, at[1]);
    emit_add_small(p, next_pass, next_pass, 1);
    emit_alu(p, AIE_BASIC_AND, f->groups, s.passes, next_pass);
    store_param(w, f->groups, MM_PARAM_PASS, at[2]);
    quant_end(w);
}

// Minima of both groups of a slice, times the sums of b's numbers.
static void take_away(struct quant * q, struct fused * f, int none) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg * at = q->pointers;
    int again = asm_label_new(p);
    read_param(w, f->groups, MM_PARAM_MINIMA, at[0]);
    asm_jump_if_zero(p, f->groups, none);
    struct asm_reg trips = take(w, ASM_R), x = take(w, ASM_R), tile = take(w, ASM_R);
    struct constants c = {.scale = take_set(w, ASM_R, (int32_t) asm_target(p)->mul_config)};
    struct asm_reg minus = take_splat(w, LANE_16, MINUS_ONE), sums = take(w, ASM_X);
    take_shuffles(w, &c);
    quant_ready(w);
    struct asm_reg planes[2] = {planes_of(w), asm_local(p, ASM_R)};
    emit_alu(p, AIE_BASIC_ADD, planes[0], planes[0], f->groups);
    emit_copy(p, planes[1], sum_of(w, planes[0], PLANE));
    write_page(w, planes, c.zip_64);
    set_x_step(w, at[2]);
    read_param(w, f->groups, MM_PARAM_FUSED, at[0]);
    read_param(w, trips, MM_PARAM_ROWS, at[1]);
    emit_copy(p, trips, shifted(w, trips, 1)); // of eight
    emit_copy(p, x, sum_of(w, f->x, -f->x_offset));
    emit_copy(p, tile, sum_of(w, f->c, -f->c_offset));
    asm_label(p, again);
    struct asm_reg sum[2];
    emit_copy(p, at[0], x);
    for (int b = 0; b < 2; b++) {
        for (int i = 0; i < 4; i++) {
            struct asm_reg next = asm_local(p, ASM_BM), turned = next_block(w, f, at[0]);
            if (i == 0) {
                emit_mul(p, next, minus, turned, f->conf);
            } else {
                emit_mac(p, next, sum[b], minus, turned, f->conf);
            }
            sum[b] = next;
        }
    }
    emit_move(p, sums, turned_sums(w, &c, sum));
    emit_set(p, at[2], address(w, MM_FUSED_PAGE));
    emit_copy(p, at[3], tile);
    emit_copy(p, at[4], tile);
    asm_loop_begin(p, trips);
    struct asm_reg s = asm_local(p, ASM_X);
    emit_load_next(p, MEM_SCALES, asm_half(s, 0), at[2]);
    add_scaled(w, &c, s, (struct asm_reg[]){sums, sums});
    asm_loop_end(p);
    emit_copy(p, x, sum_of(w, x, K_BLOCK));
    emit_alu(p, AIE_BASIC_ADD, tile, tile, f->row);
    emit_add_small(p, f->groups, f->groups, -1);
    asm_jump_if_nonzero(p, f->groups, again);
    quant_end(w);
}

static struct quant quant_of(const struct fused * f) {
    struct quant q = {.p = f->p, .base = f->y, .fused = true, .left = f->left};
    const struct {
        int memory;
        uint32_t at;
    } places[] = {
        {MEM_FACTORS, MM_FUSED_FACTORS}, {MEM_C_IN, MM_C},       {MEM_C_OUT, MM_C}, {MEM_X, MM_X},
        {MEM_WORDS, MM_BLOCKS},          {MEM_JOINED, MM_BLOCKS}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        asm_place(f->p, places[i].memory, places[i].at);
    }
    for (int i = 0; i < 5; i++) {
        q.pointers[i] = f->pointers[i];
    }
    return q;
}

void fused_gather(struct fused * f) {
    struct quant q = quant_of(f);
    gather(&q);
}

// A pass behind the other.
void fused_products(struct fused * f) {
    struct asm_program * p = f->p;
    struct quant q = quant_of(f);
    struct writer writer = {.q = &q, .p = p}, *w = &writer;
    int again = asm_label_new(p), multiply = asm_label_new(p), done = asm_label_new(p);
    read_param(w, f->groups, MM_PARAM_PASSES, q.pointers[0]);
    emit_add_small(p, f->groups, f->groups, -1);
    asm_jump_if_zero(p, f->groups, multiply); // its page is there
    asm_label(p, again);
    pass_page(&q);
    asm_label(p, multiply);
    products(&q, f, done);
    asm_jump_if_nonzero(p, f->groups, again);
    take_away(&q, f, done);
    asm_label(p, done);
}

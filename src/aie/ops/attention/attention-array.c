// attention-array: the array around the core program, and the instruction stream of a shape. Item
// after item goes to column after column, and a column's next one begins when the results of the
// last are there. Descriptors of cores and memtiles are written once, those of the shims point at
// each item's operands. Prompts in matrix mode have routes and streams of their own
// (attention-matrix-stream.c).
#include "attention-matrix.h"

#include "aie/ops/mixed.h"
#include "aie/plan/plan.h"

#include <string.h>

// Descriptors.
enum {
    CORE_SINKS,
    CORE_Q,
    CORE_V,
    CORE_V_LAST,
    CORE_OUT,
    CORE_MASK, // and k behind it, as many times as there are blocks
    CORE_K,
    CORE_MASK_LAST = CORE_K + AT_MASK_BLOCKS,
    CORE_K_LAST, // the last of these has the last block
};
enum { SHIM_SINKS, SHIM_Q, SHIM_K, SHIM_V = SHIM_K + 6, SHIM_OUT }; // each k has its mask before it
enum { MEM_OUT_BD = 4, MEM_LOCK_OUT = 0, MEM_LOCKS = 2 };           // one of each half
enum { MEM_STATE_BD = 8 };                                          // behind that of a core

enum { IN_FIRST, IN_SECOND }; // channels into a column
// Descriptors where a column has two items: those of a shim for each item, and those of a core in
// the place of the sinks'.
enum { HALF_Q, HALF_TURN, HALF_LAST = HALF_TURN + 3, HALF_BDS = HALF_LAST + 3, HALF_OUT = 14 };
enum { HALF_SINKS = HALF_LAST }; // there is no last block of another kind then
enum { CORE_PASSING = CORE_SINKS, CORE_PASSING_REST = 15 };
// The descriptor of an open part's state. It has the last place, or the place of a second k where
// the last is taken: there is no second k then.
enum { CORE_STATE = CORE_PASSING_REST, CORE_STATE_PASSING = CORE_K + 1 };
_Static_assert(CORE_K_LAST + AT_MASK_BLOCKS <= CORE_PASSING_REST && 2 * HALF_BDS <= HALF_OUT, "");

// ---- front door ----

enum status attention_plan(struct aie_plan * p, struct error * err) {
    enum status st = at_plan_make(&p->spec, &p->of.attention, err);
    const struct at_plan * of = &p->of.attention;
    bool halves = of->matrix && mx_halves(of) > 1;
    p->program = &aie_programs[halves       ? AIE_PROGRAM_ATTENTION_HALVES
                               : of->matrix ? AIE_PROGRAM_ATTENTION_MATRIX
                               : of->mixed  ? AIE_PROGRAM_DECODER
                                            : AIE_PROGRAM_ATTENTION];
    return st;
}

// ---- configuration ----

// Of a head, in the program that this is; 0: products are lane by lane.
static int matrix_halves(const struct aie_program * of) {
    return of->code == AIE_CODE_ATTENTION_HALVES ? 2 : of->code == AIE_CODE_ATTENTION_MATRIX;
}

enum status attention_image(const struct aie_program * of, enum aie_arch arch,
                            struct array_program * out, struct error * err) {
    struct at_code program = {0};
    int matrix = matrix_halves(of);
    enum status st =
        matrix ? mx_program(arch, matrix, &program, err) : at_program(arch, &program, err);
    *out = (struct array_program){.code = program.code.bytes,
                                  .size = program.code.size,
                                  .locks = at_lock_init,
                                  .n_locks = AT_LOCK_COUNT,
                                  .mem_locks = matrix ? MX_MEM_LOCKS : MEM_LOCKS};
    return st == ST_OK ? array_program_data(out, AT_POOL, program.pool, sizeof program.pool, err)
                       : st;
}

static void route(struct array * a, int col) {
    for (int channel = 0; channel < 2; channel++) {
        struct array_port to[AT_CORES];
        for (int i = 0; i < AT_CORES; i++) {
            to[i] = (struct array_port){col, ARRAY_ROW_CORE + i, channel};
        }
        array_route(a, (struct array_port){col, ARRAY_ROW_SHIM, channel}, to, AT_CORES);
    }
    for (int i = 0; i < AT_CORES; i++) {
        array_route(a, (struct array_port){col, ARRAY_ROW_CORE + i, 0},
                    &(struct array_port){col, ARRAY_ROW_MEM, i}, 1);
    }
    array_route(a, (struct array_port){col, ARRAY_ROW_MEM, 0},
                &(struct array_port){col, ARRAY_ROW_SHIM, 0}, 1);
    array_token_route(a, col);
}

enum status attention_pdi(const struct aie_program * of, enum aie_arch arch, int columns,
                          const struct array_program * program, uint8_t ** pdi, size_t * size,
                          struct error * err) {
    static const uint8_t mem_locks[MEM_LOCKS] = {0};
    bool matrix = matrix_halves(of) > 0;
    struct array a;
    array_begin(&a, arch);
    for (int col = 0; col < columns; col++) {
        for (int i = 0; i < AT_CORES; i++) {
            array_core(&a, col, ARRAY_ROW_CORE + i, program);
        }
        array_mem(&a, col, matrix ? mx_mem_locks : mem_locks, program->mem_locks);
        (matrix ? mx_route : route)(&a, col);
    }
    return array_end(&a, pdi, size, err);
}

// ---- the stream ----

struct design {
    const struct kernel_spec * spec;
    struct at_plan plan;
    struct flow flow;
};

static struct flow_tile core_at(const struct design * d, int col, int core) {
    return (struct flow_tile){col, ARRAY_ROW_CORE + (d->plan.mixed ? MIXED_ATTENTION : 0) + core};
}

void at_set_rows(struct array_bd * bd, uint32_t rows, uint32_t words, uint32_t apart) {
    bd->words = rows * words;
    if (rows > 1 && words != apart) {
        bd->wrap[0] = words;
        bd->step[0] = 1;
        bd->step[1] = apart;
    }
}

static struct array_bd core_bd(uint32_t address, int acquire, int release) {
    return (struct array_bd){.address = address,
                             .next = -1,
                             .acquire = acquire,
                             .acquire_value = -1,
                             .release = release,
                             .release_value = 1};
}

// The words of a chunk of quantized numbers, and of the room whose end it fills.
enum { ROOM = AT_CHUNK / 2 };

static uint32_t chunk_words(int bits) {
    return (uint32_t) (AT_CHUNK * bits / 32 + 1);
}

// k of so many keys, transposed: each word of a key goes to a row of its own.
static struct array_bd keys_bd(const struct at_plan * p, int64_t keys, int next) {
    enum { MOST_WRAP = 255 };
    struct array_bd bd = core_bd(p->k, AT_LOCK_K_EMPTY, AT_LOCK_K_FULL);
    uint32_t words = (uint32_t) p->dk / 2, apart = (uint32_t) p->keys;
    bd.words = (uint32_t) keys * words;
    bd.next = next;
    if (p->k_bits) {
        uint32_t chunk = chunk_words(p->k_bits);
        bd.address += 4 * apart * (ROOM - chunk);
        bd.words = (uint32_t) (keys * p->k_words);
        bd.wrap[0] = chunk;
        bd.step[0] = apart;
        bd.wrap[1] = (uint32_t) p->dk / AT_CHUNK;
        bd.step[1] = ROOM * apart;
        bd.step[2] = 1;
    } else if (words <= MOST_WRAP) {
        bd.wrap[0] = words;
        bd.step[0] = apart;
        bd.step[1] = 1;
    } else {
        bd.wrap[0] = words / 2;
        bd.step[0] = apart;
        bd.wrap[1] = 2;
        bd.step[1] = words / 2 * apart;
        bd.step[2] = 1;
    }
    return bd;
}

// The mask of a turn, then k of its blocks.
static void write_turn(const struct flow * f, struct flow_tile at, const struct at_plan * p,
                       bool last) {
    int64_t blocks = last ? p->blocks - p->turns * p->mask_blocks : p->mask_blocks;
    int64_t keys = (blocks - 1) * p->keys + (last ? p->last_keys : p->keys);
    int first = last ? CORE_K_LAST : CORE_K;
    if (p->mask) {
        struct array_bd mask = core_bd(p->masks, AT_LOCK_MASK_EMPTY, AT_LOCK_MASK_FULL);
        at_set_rows(&mask, (uint32_t) at_mask_rows(p), (uint32_t) (keys + 1) / 2, p->mask_row / 4);
        mask.next = first;
        flow_core_bd(f, at, first - 1, &mask);
    }
    for (int64_t i = 0; i < blocks; i++) {
        bool end = i + 1 == blocks;
        int behind = !p->one_channel ? -1 : last ? CORE_V_LAST : CORE_V;
        struct array_bd k =
            keys_bd(p, last && end ? p->last_keys : p->keys, end ? behind : first + (int) i + 1);
        flow_core_bd(f, at, first + (int) i, &k);
    }
}

static struct array_bd values_bd(const struct at_plan * p, int64_t keys) {
    struct array_bd bd = core_bd(p->v, AT_LOCK_V_EMPTY, AT_LOCK_V_FULL);
    if (p->v_bits) {
        uint32_t chunk = chunk_words(p->v_bits);
        bd.address += 4 * (ROOM - chunk);
        at_set_rows(&bd, (uint32_t) (keys * p->dv / AT_CHUNK), chunk, ROOM);
    } else {
        at_set_rows(&bd, (uint32_t) keys, (uint32_t) p->dv / 2, p->v_row / 4);
    }
    return bd;
}

// One kind where all turns are alike, two where the last one differs.
static int turn_kinds(const struct at_plan * p) {
    return p->even ? 1 : 2;
}

static void write_core_bds(const struct design * d, struct flow_tile at, int rows) {
    const struct at_plan * p = &d->plan;
    struct array_bd q = core_bd(AT_FREE, p->sinks ? -1 : AT_LOCK_Q_EMPTY, AT_LOCK_Q_FULL);
    at_set_rows(&q, (uint32_t) p->rows, (uint32_t) p->dk, p->q_raw_row / 4);
    flow_core_bd(&d->flow, at, CORE_Q, &q);
    if (p->sinks) {
        struct array_bd sinks = core_bd(AT_SINKS_AT, AT_LOCK_Q_EMPTY, -1);
        sinks.words = (uint32_t) p->item_heads;
        sinks.next = CORE_Q;
        flow_core_bd(&d->flow, at, CORE_SINKS, &sinks);
    }
    for (int last = p->turns > 0 ? 0 : 1; last < turn_kinds(p); last++) {
        write_turn(&d->flow, at, p, last);
    }
    for (int last = p->blocks > 1 || p->even ? 0 : 1; last < turn_kinds(p); last++) {
        struct array_bd v = values_bd(p, last ? p->last_keys : p->keys);
        flow_core_bd(&d->flow, at, last ? CORE_V_LAST : CORE_V, &v);
    }
    if (rows) {
        struct array_bd out = core_bd(p->o, AT_LOCK_OUT_FULL, AT_LOCK_OUT_EMPTY);
        at_set_rows(&out, (uint32_t) rows, (uint32_t) p->dv, p->o_row / 4);
        if (p->part) {
            int then = p->halves > 1 ? CORE_STATE_PASSING : CORE_STATE;
            struct array_bd state = core_bd(p->state, -1, AT_LOCK_OUT_EMPTY);
            at_set_rows(&state, (uint32_t) rows, AT_PART_WORDS, AT_STATE_STEP / 4);
            flow_core_bd(&d->flow, at, then, &state);
            out.release = -1;
            out.next = then;
        }
        flow_core_bd(&d->flow, at, CORE_OUT, &out);
    }
}

static void push_core(const struct design * d, struct flow_tile at, int half, int rows) {
    const struct at_plan * p = &d->plan;
    const struct flow * f = &d->flow;
    uint32_t queue = CORE_S2MM_QUEUE + 8 * (uint32_t) half;
    flow_push(f, at, queue, p->sinks ? CORE_SINKS : CORE_Q, 1, false);
    flow_push(f, at, queue, p->mask ? CORE_MASK : CORE_K, p->turns, false);
    flow_push(f, at, queue, p->mask ? CORE_MASK_LAST : CORE_K_LAST, !p->even, false);
    if (!p->one_channel) {
        flow_push(f, at, CORE_S2MM_QUEUE + 8, CORE_V, p->blocks - 1, false);
        flow_push(f, at, CORE_S2MM_QUEUE + 8, CORE_V_LAST, 1, false);
    }
    if (rows) {
        flow_push(f, at, CORE_MM2S_QUEUE, CORE_OUT, 1, false);
    }
}

// What comes for the other half of a column goes past a core.
static void let_pass(const struct design * d, struct flow_tile at, int half, bool first) {
    const struct at_plan * p = &d->plan;
    int64_t words = at_item_words(p);
    struct array_bd bd = core_bd(p->passing, -1, -1);
    if (first) {
        bd.words = AT_PASSING;
        flow_core_bd(&d->flow, at, CORE_PASSING, &bd);
        if (words % AT_PASSING) {
            bd.words = (uint32_t) (words % AT_PASSING);
            flow_core_bd(&d->flow, at, CORE_PASSING_REST, &bd);
        }
    }
    uint32_t queue = CORE_S2MM_QUEUE + 8 * (uint32_t) half;
    flow_push(&d->flow, at, queue, CORE_PASSING, words / AT_PASSING, false);
    flow_push(&d->flow, at, queue, CORE_PASSING_REST, words % AT_PASSING != 0, false);
}

// ---- parameters ----

static uint32_t vectors_of(int64_t n) {
    return (uint32_t) ((n + AT_LANES - 1) / AT_LANES);
}

static float float_param(const struct kernel_spec * spec, int i) {
    float v;
    memcpy(&v, &spec->params[i], 4);
    return v;
}

static uint32_t float_bits(float v) {
    uint32_t bits;
    memcpy(&bits, &v, 4);
    return bits;
}

// Numbers of 16 bits that trips make bf16.
static uint32_t convert_trips(enum dtype t, int64_t numbers) {
    enum { TRIP = 32 };
    return t == DTYPE_F16 ? (uint32_t) ((numbers + TRIP - 1) / TRIP) : 0;
}

// Trips that make scales bf16. A word holds two scales.
static uint32_t scale_trips(int64_t words) {
    return (uint32_t) ((words + AT_LANES - 1) / AT_LANES);
}

static void write_params(const struct design * d, struct flow_tile at, int core, uint32_t items) {
    const struct at_plan * p = &d->plan;
    const struct kernel_spec * spec = d->spec;
    uint32_t window = d->flow.target->own_window, rows = (uint32_t) at_core_rows(p, core);
    uint32_t first = (uint32_t) (core * p->core_rows), heads = (uint32_t) p->item_heads;
    uint32_t mask_first = p->head_masks ? first : first / heads;
    int lanes_last = (int) ((p->last_keys - 1) % AT_LANES + 1);
    uint32_t row = (uint32_t) (4 * p->keys), k_half = (uint32_t) p->k_bits; // rows of a block of k
    int64_t k_chunks = p->dk / AT_CHUNK, v_chunks = p->keys * p->dv / AT_CHUNK;
    float cap = float_param(spec, AT_ARG_SOFTCAP), scale = float_param(spec, AT_ARG_SCALE);
    const uint32_t words[AT_PARAM_TOLD] = {
        [AT_PARAM_ITEMS] = items,
        [AT_PARAM_ROWS] = rows,
        [AT_PARAM_PAIRED] = (rows + 1) / 2,
        [AT_PARAM_BLOCKS] = (uint32_t) p->blocks,
        [AT_PARAM_VECTORS] = vectors_of(p->keys),
        [AT_PARAM_VECTORS_LAST] = vectors_of(p->last_keys),
        [AT_PARAM_PAIRS] = (uint32_t) p->keys / 2,
        [AT_PARAM_PAIRS_LAST] = (uint32_t) (p->last_keys + 1) / 2,
        [AT_PARAM_LANES_LAST] = (1u << lanes_last) - 1,
        [AT_PARAM_EMPTY] =
            p->last_keys % 2 ? window + p->v + (uint32_t) p->last_keys * p->v_row : 0,
        [AT_PARAM_K] = window + p->k,
        [AT_PARAM_K_STEP] = (uint32_t) (4 * p->keys),
        [AT_PARAM_K_TRIPS] = convert_trips(spec->inputs[AT_K].dtype, p->keys * p->dk),
        [AT_PARAM_K_PAIRS] = (uint32_t) p->dk / 2,
        [AT_PARAM_V] = window + p->v,
        [AT_PARAM_V_STEP] = p->v_row,
        [AT_PARAM_V_TRIPS] = convert_trips(spec->inputs[AT_V].dtype, p->keys * p->v_row / 2),
        [AT_PARAM_V_VECTORS] = vectors_of(p->dv),
        [AT_PARAM_K_BITS] = (uint32_t) p->k_bits,
        [AT_PARAM_K_CHUNKS] = (uint32_t) k_chunks,
        [AT_PARAM_K_SCALES] = scale_trips(k_chunks * p->keys),
        [AT_PARAM_K_CHUNK] = ROOM * row,
        [AT_PARAM_K_RAW] = (ROOM - chunk_words(p->k_bits)) * row,
        [AT_PARAM_K_SECOND] = k_half * row,
        [AT_PARAM_K_FIRST] = 2 * k_half * row,
        [AT_PARAM_K_NINTH] = (p->k_bits == 4 ? 16 : 8) * row,
        [AT_PARAM_V_BITS] = (uint32_t) p->v_bits,
        [AT_PARAM_V_CHUNKS] = (uint32_t) v_chunks,
        [AT_PARAM_V_SCALES] = scale_trips(2 * v_chunks),
        [AT_PARAM_V_RAW] = 4 * (ROOM - chunk_words(p->v_bits)),
        [AT_PARAM_V_SECOND] = 4 * (uint32_t) p->v_bits,
        [AT_PARAM_Q_RAW] = window + AT_FREE + first * p->q_raw_row,
        [AT_PARAM_Q_RAW_STEP] = p->q_raw_row,
        [AT_PARAM_Q] = window + p->q,
        [AT_PARAM_Q_STEP] = p->q_row,
        [AT_PARAM_Q_VECTORS] = vectors_of(p->dk),
        [AT_PARAM_S] = window + p->s,
        [AT_PARAM_S_STEP] = p->s_row,
        [AT_PARAM_O] = window + p->o,
        [AT_PARAM_O_STEP] = p->o_row,
        [AT_PARAM_STATE] = window + p->state,
        [AT_PARAM_MASK] = p->mask ? window + p->masks + mask_first * p->mask_row : 0,
        [AT_PARAM_MASK_STEP] = p->head_masks ? 0 : p->mask_row,
        [AT_PARAM_MASK_HEAD] = p->head_masks ? p->mask_row : 0,
        [AT_PARAM_MASK_BLOCKS] = (uint32_t) p->mask_blocks,
        [AT_PARAM_MASK_NEXT] = (uint32_t) (2 * p->keys),
        [AT_PARAM_MASKS] = !p->mask || p->queries < 2 || rows == 0 ? 0
                           : p->head_masks                         ? rows
                                           : (first % heads + rows + heads - 1) / heads,
        [AT_PARAM_HEADS] = heads,
        [AT_PARAM_HEAD] = first % heads,
        [AT_PARAM_SINKS] = p->sinks ? (1u << AT_LANES) - 1 : 0,
        [AT_PARAM_SCALE] = float_bits(cap != 0 ? scale / cap : scale),
        [AT_PARAM_CAP] = float_bits(cap),
        [AT_PARAM_SLOPES] = float_param(spec, AT_ARG_MAX_BIAS) > 0,
    };
    txn_block_write(d->flow.t, image_addr(at.col, at.row, AT_POOL + 32 * AT_SLOT_PARAMS), words,
                    AT_PARAM_TOLD);
}

static void write_slopes(const struct design * d, struct flow_tile at,
                         const struct at_item * item) {
    uint32_t words[AT_MOST_GROUP];
    for (int64_t i = 0; i < d->plan.item_heads; i++) {
        words[i] = float_bits(rows_slope(d->spec, item->head + i));
    }
    txn_block_write(d->flow.t, image_addr(at.col, at.row, AT_SLOPES_AT), words,
                    (size_t) d->plan.item_heads);
}

// ---- memtile: what cores made, one behind the other ----

static int mem_bd(int core) {
    return (core % 2 ? ARRAY_MEM_BD_ODD : 0) + core / 2;
}

static void write_memtile(const struct design * d, int col, int half) {
    const struct at_plan * p = &d->plan;
    int cores = 0, first = half * p->cores;
    uint32_t row = (uint32_t) (4 * p->out_words);
    for (int i = 0; i < p->cores && at_core_rows(p, i); i++, cores++) {
        uint32_t rows = (uint32_t) at_core_rows(p, i), words = (uint32_t) p->out_words;
        struct array_bd bd = {.address = (uint32_t) ((first + i) * p->core_rows) * row,
                              .next = -1,
                              .acquire = -1,
                              .release = MEM_LOCK_OUT + half,
                              .release_value = 1};
        if (p->part) {
            struct array_bd state = bd;
            state.address += (uint32_t) (4 * p->dv);
            at_set_rows(&state, rows, AT_PART_WORDS, words);
            flow_mem_bd(&d->flow, col, mem_bd(first + i) + MEM_STATE_BD, &state);
            bd.release = -1;
            bd.next = mem_bd(first + i) + MEM_STATE_BD;
        }
        at_set_rows(&bd, rows, (uint32_t) p->dv, words);
        flow_mem_bd(&d->flow, col, mem_bd(first + i), &bd);
    }
    flow_mem_bd(&d->flow, col, MEM_OUT_BD + half,
                &(struct array_bd){.address = (uint32_t) (first * p->core_rows) * row,
                                   .words = (uint32_t) p->rows * row / 4,
                                   .next = -1,
                                   .acquire = MEM_LOCK_OUT + half,
                                   .acquire_value = -cores,
                                   .release = -1});
}

static void push_memtile(const struct design * d, int col, int half) {
    const struct at_plan * p = &d->plan;
    struct flow_tile at = {col, ARRAY_ROW_MEM};
    for (int i = 0; i < p->cores && at_core_rows(p, i); i++) {
        int core = half * p->cores + i;
        flow_push(&d->flow, at, MEM_S2MM_QUEUE + 8 * (uint32_t) core, mem_bd(core), 1, false);
    }
    flow_push(&d->flow, at, MEM_MM2S_QUEUE, MEM_OUT_BD + half, 1, false);
}

// ---- memtile among other programs: all that a core wants passes through ----

// Channels and locks are those that spread.c has for a core's first stream and its results. All
// that belongs to a core has the core's number, and so the descriptors of its half. Results of both
// cores leave by one channel.
enum {
    RESULT_IN = 2, // behind it the second core's
    RESULT_OUT = 4,
    FILL_BD = 0, // full blocks and the rest
    SEND_BD = 2,
    RESULT_IN_BD = 4,
    RESULT_OUT_BD = 5, // and the second core's
    EACH_AT = ARRAY_MEM_BYTES / 4,
    RESULT_AT = ARRAY_MEM_BYTES / 2,
};

static int pass_lock(int half, int stream) {
    return 2 * (SPREAD_STREAMS * (MIXED_ATTENTION + half) + stream);
}

static struct array_bd pass_bd(bool fills, uint32_t address, uint32_t words, int lock) {
    return (struct array_bd){.address = address,
                             .words = words,
                             .next = -1,
                             .acquire = fills ? lock : lock + 1,
                             .acquire_value = -1,
                             .release = fills ? lock + 1 : lock,
                             .release_value = 1};
}

// Two buffers take turns. Where an item does not end with the second one, descriptors are written
// anew for each item, so that each begins with the first buffer.
static void pass_item(const struct design * d, int col, int half, bool first) {
    const struct at_plan * p = &d->plan;
    struct flow_tile at = {col, ARRAY_ROW_MEM};
    int64_t words = at_item_words(p), block = p->pass_blocks ? words / p->pass_blocks : 512;
    int lock = pass_lock(half, SPREAD_A);
    while (words / block > ARRAY_MAX_REPEAT) {
        block *= 2;
    }
    int64_t full = words / block, rest = words % block;
    for (int fills = 1; fills >= 0; fills--) {
        int bd = half * ARRAY_MEM_BD_ODD + (fills ? FILL_BD : SEND_BD);
        uint32_t queue = (fills ? MEM_S2MM_QUEUE : MEM_MM2S_QUEUE) + 8 * (uint32_t) half;
        uint32_t address = (uint32_t) half * EACH_AT;
        struct array_bd desc = pass_bd(fills, address, (uint32_t) block, lock);
        desc.iterations = 2;
        desc.iteration_step = (uint32_t) block;
        if (full && (first || !p->pass_blocks)) {
            flow_mem_bd(&d->flow, col, bd, &desc);
        }
        flow_push(&d->flow, at, queue, bd, full, false);
        if (rest) {
            address += (uint32_t) (full % 2 * 4 * block);
            desc = pass_bd(fills, address, (uint32_t) rest, lock);
            flow_mem_bd(&d->flow, col, bd + 1, &desc);
            flow_push(&d->flow, at, queue, bd + 1, 1, false);
        }
    }
}

static void pass_result(const struct design * d, int col, int half, bool first) {
    const struct at_plan * p = &d->plan;
    struct flow_tile at = {col, ARRAY_ROW_MEM};
    uint32_t address = RESULT_AT + (uint32_t) half * EACH_AT;
    int in = half * ARRAY_MEM_BD_ODD + RESULT_IN_BD, out = RESULT_OUT_BD + half;
    for (int fills = 1; fills >= 0 && first; fills--) {
        struct array_bd desc =
            pass_bd(fills, address, (uint32_t) (p->rows * p->dv), pass_lock(half, SPREAD_OUT));
        flow_mem_bd(&d->flow, col, fills ? in : out, &desc);
    }
    flow_push(&d->flow, at, MEM_S2MM_QUEUE + 8 * (uint32_t) (RESULT_IN + half), in, 1, false);
    flow_push(&d->flow, at, MEM_MM2S_QUEUE + 8 * RESULT_OUT, out, 1, false);
}

// ---- shims ----

static void shim_bd(const struct design * d, int col, int bd, const struct array_bd * desc,
                    int operand, int64_t offset) {
    flow_shim_bd(&d->flow, col, bd, desc, operand, (uint32_t) offset);
}

uint32_t at_step_words(const struct tensor * t, int dim) {
    return t->ne[dim] > 1 ? (uint32_t) (t->nb[dim] / 4) : 1;
}

// Rows of k or v from a key on.
static void keys_from(const struct design * d, int col, int bd, int operand, int64_t offset,
                      int64_t first, int64_t keys, int64_t runs, int next) {
    const struct tensor * t = &d->spec->inputs[operand];
    struct array_bd desc = {.next = next};
    at_set_rows(&desc, (uint32_t) keys,
                (uint32_t) (operand == AT_K ? d->plan.k_words : d->plan.v_words),
                at_step_words(t, 1));
    if (runs > 1) {
        desc.iterations = (uint32_t) runs;
        desc.iteration_step = (uint32_t) keys * at_step_words(t, 1);
    }
    shim_bd(d, col, bd, &desc, operand, offset + first * t->nb[1]);
}

static void masks_from(const struct design * d, int col, int bd, int64_t offset, int64_t first,
                       int64_t keys, int64_t runs) {
    const struct tensor * t = &d->spec->inputs[AT_MASK];
    struct array_bd desc = {.next = bd + 1};
    uint32_t words = (uint32_t) (keys + 1) / 2;
    if (d->plan.head_masks) { // those of a query's heads, then the next query's
        desc.words = (uint32_t) at_mask_rows(&d->plan) * words;
        desc.wrap[0] = words;
        desc.wrap[1] = (uint32_t) d->plan.item_heads;
        desc.step[0] = 1;
        desc.step[1] = at_step_words(t, 2);
        desc.step[2] = at_step_words(t, 1);
    } else {
        at_set_rows(&desc, (uint32_t) d->plan.item_queries, words, at_step_words(t, 1));
    }
    if (runs > 1) {
        desc.iterations = (uint32_t) runs;
        desc.iteration_step = (uint32_t) keys / 2;
    }
    shim_bd(d, col, bd, &desc, AT_MASK, offset + 2 * first);
}

static void push_shim(const struct design * d, int col, int channel, int bd, int64_t runs) {
    flow_push(&d->flow, (struct flow_tile){col, ARRAY_ROW_SHIM},
              SHIM_MM2S_QUEUE + 8 * (uint32_t) channel, bd, runs, false);
}

// The mask and k take turns; k alone is one run.
static void bring_keys(const struct design * d, int col, int64_t k_offset, int64_t mask_offset) {
    const struct at_plan * p = &d->plan;
    if (!p->mask) {
        keys_from(d, col, SHIM_K, AT_K, k_offset, 0, p->n_kv, 1, -1);
        push_shim(d, col, IN_FIRST, SHIM_K, 1);
        return;
    }
    int64_t each = p->keys * p->mask_blocks;
    for (int64_t done = 0, bd = SHIM_K; done <= p->turns; bd += 2) {
        int64_t left = p->turns - done, runs = left > AT_MOST_RUNS ? AT_MOST_RUNS : left ? left : 1;
        int64_t first = done * each, keys = left ? each : p->n_kv - first;
        masks_from(d, col, (int) bd, mask_offset, first, keys, runs);
        keys_from(d, col, (int) bd + 1, AT_K, k_offset, first, keys, runs, -1);
        push_shim(d, col, IN_FIRST, (int) bd, runs);
        done += runs;
    }
}

// One channel brings mask, k and v of block after block. A second set of descriptors serves turns
// beyond what one descriptor repeats, or the last block where it is shorter.
static void bring_turns(const struct design * d, int col, int half, int64_t k_offset,
                        int64_t v_offset, int64_t mask_offset) {
    const struct at_plan * p = &d->plan;
    int64_t repeated = p->turns < AT_MOST_RUNS ? p->turns : AT_MOST_RUNS;
    const int64_t runs[] = {repeated, p->even ? p->turns - repeated : 1};
    for (int last = 0; last < 2; last++) {
        int bd = half * HALF_BDS + (last ? HALF_LAST : HALF_TURN);
        int64_t first = last ? repeated * p->keys : 0;
        int64_t keys = last && !p->even ? p->last_keys : p->keys;
        if (runs[last] == 0) {
            continue;
        }
        if (p->mask) {
            masks_from(d, col, bd, mask_offset, first, keys, runs[last]);
        }
        keys_from(d, col, bd + 1, AT_K, k_offset, first, keys, runs[last], bd + 2);
        keys_from(d, col, bd + 2, AT_V, v_offset, first, keys, runs[last], -1);
        push_shim(d, col, half, p->mask ? bd : bd + 1, runs[last]);
    }
}

static void bring(const struct design * d, int col, int half, const struct at_item * item) {
    const struct at_plan * p = &d->plan;
    const struct tensor *in = d->spec->inputs, *q = &in[AT_Q], *mask = &in[AT_MASK];
    int64_t shared = item->batch / (p->batches / in[AT_K].ne[3]);
    int64_t k_offset = shared * in[AT_K].nb[3] + item->kv_head * in[AT_K].nb[2];
    int64_t v_offset = shared * in[AT_V].nb[3] + item->kv_head * in[AT_V].nb[2];
    int64_t mask_offset =
        p->mask ? item->batch % mask->ne[3] * mask->nb[3] + item->query * mask->nb[1] : 0;
    mask_offset += p->head_masks ? item->head * mask->nb[2] : 0;
    struct array_bd rows = {.words = (uint32_t) (p->rows * p->dk),
                            .next = -1,
                            .wrap = {(uint32_t) p->dk, (uint32_t) p->item_heads},
                            .step = {1, at_step_words(q, 2), at_step_words(q, 1)}};
    int q_bd = p->one_channel ? half * HALF_BDS + HALF_Q : SHIM_Q;
    int sinks_bd = p->one_channel ? half * HALF_BDS + HALF_SINKS : SHIM_SINKS;
    if (p->sinks) {
        struct array_bd sinks = {.words = (uint32_t) p->item_heads, .next = q_bd};
        shim_bd(d, col, sinks_bd, &sinks, AT_SINKS, 4 * item->head);
    }
    shim_bd(d, col, q_bd, &rows, AT_Q,
            item->batch * q->nb[3] + item->head * q->nb[2] + item->query * q->nb[1]);
    push_shim(d, col, half, p->sinks ? sinks_bd : q_bd, 1);
    if (p->one_channel) {
        bring_turns(d, col, half, k_offset, v_offset, mask_offset);
        return;
    }
    bring_keys(d, col, k_offset, mask_offset);
    keys_from(d, col, SHIM_V, AT_V, v_offset, 0, p->n_kv, 1, -1);
    push_shim(d, col, IN_SECOND, SHIM_V, 1);
}

static void fetch(const struct design * d, int col, int half, const struct at_item * item) {
    const struct at_plan * p = &d->plan;
    int bd = p->one_channel ? HALF_OUT + half : SHIM_OUT;
    const struct tensor * to = &d->spec->output;
    uint32_t words = (uint32_t) p->out_words, heads = (uint32_t) p->heads;
    struct array_bd out = {
        .words = (uint32_t) p->rows * words,
        .next = -1,
        .wrap = {words, (uint32_t) p->item_heads},
        .step = {1, words, p->queries > 1 ? at_step_words(to, 2) : heads * words}};
    shim_bd(d, col, bd, &out, d->spec->n_inputs,
            item->batch * to->nb[3] + item->query * to->nb[2] + item->head * 4 * p->out_words);
    flow_push(&d->flow, (struct flow_tile){col, ARRAY_ROW_SHIM}, SHIM_S2MM_QUEUE, bd, 1, true);
}

// ---- steps ----

// Item i goes to a half of a column: first to that of all columns, then to the other.
static int slots_of(const struct at_plan * p) {
    return p->halves * p->columns;
}

static void start_item(const struct design * d, int64_t i, bool first) {
    const struct at_plan * p = &d->plan;
    struct at_item item = at_plan_item(p, i);
    int slots = slots_of(p), slot = (int) (i % slots), col = p->first_column + slot % p->columns;
    int half = slot / p->columns;
    bring(d, col, half, &item);
    for (int core = 0; core < p->cores; core++) {
        struct flow_tile at = core_at(d, col, half * p->cores + core);
        int rows = at_core_rows(p, core);
        if (first) {
            write_params(d, at, core, (uint32_t) ((p->items - slot + slots - 1) / slots));
            write_core_bds(d, at, rows);
        }
        if (rows && float_param(d->spec, AT_ARG_MAX_BIAS) > 0) {
            write_slopes(d, at, &item);
        }
        push_core(d, at, p->mixed ? 0 : half, rows);
        if (first) {
            flow_go(&d->flow, at, AT_LOCK_GO);
        }
    }
    for (int core = 0; core < p->cores && p->halves > 1 && !p->mixed; core++) {
        let_pass(d, core_at(d, col, (1 - half) * p->cores + core), half, first);
    }
    if (first && !p->mixed) {
        write_memtile(d, col, half);
    }
    if (first && half == 0) {
        flow_expect(&d->flow, col, 0);
    }
    if (p->mixed) {
        pass_item(d, col, half, first);
        pass_result(d, col, half, first);
    } else {
        push_memtile(d, col, half);
    }
    fetch(d, col, half, &item);
}

enum status attention_stream(const struct aie_plan * plan, uint32_t ** insts, size_t * n_words,
                             struct error * err) {
    struct txn t;
    struct design d = {.spec = &plan->spec,
                       .plan = plan->of.attention,
                       .flow = {.t = &t, .target = aie_target(plan->spec.arch)}};
    const struct at_plan * p = &d.plan;
    if (p->matrix) {
        return mx_stream(&plan->spec, p, insts, n_words, err);
    }
    txn_begin(&t, p->array_columns, d.flow.target->device_generation);
    int64_t slots = slots_of(p);
    for (int64_t i = 0; i < p->items + slots; i++) { // beyond the last: its end is waited for
        if (i >= slots && i - slots < p->items) {
            flow_wait(&d.flow, p->first_column + (int) (i % slots % p->columns), 0);
        }
        if (i < p->items) {
            start_item(&d, i, i < slots);
        }
    }
    return txn_end(&t, insts, n_words, err);
}

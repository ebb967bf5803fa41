// cost: about how long the array computes a kernel, for keeping what is sent at once short; the
// price of its instruction stream comes on top (txn_cycles). Not a model: figures of the
// benchmarks, rounded up, for the whole class of an op, so that no kernel takes longer than is said
// here by much. A kernel from elsewhere may take what it likes.
#include "kernel.h"

enum {
    COLUMNS = 4,   // that share the words of an op; more make it faster
    CORES = 4,     // of a column
    START = 60000, // cycles before the first word and behind the last
    ROW = 1000,    // cycles for a row, however short
    SCATTERED = 8, // for a word that a descriptor takes by itself
    WORDS_PER_CYCLE = 4,
    TILE = 64,        // a product is computed in whole ones
    KEPT = 2016,      // words of a row that a core keeps,
    HELD = 8192,      // that a memtile holds
    EVEN_K = 128,     // a row of a multiple of these ends in no zeros
    CHAINED_K = 4096, // up to which other rows end in zeros but once
};

// Cycles for a word of the largest operand in one column.
struct price {
    int f32, f16, bf16, integer;
};
static const struct price plain = {4, 8, 5, 2}, heavy = {14, 30, 21, 7};

// Elementwise ops of one loop that is no series; CONVERT is like them.
static bool is_plain(enum kernel_op op) {
    static const bool plain_ops[KERNEL_OP_COUNT] = {
#define LANES(name, vectors)                                               true
#define BITS(name)                                                         true
#define STAGES(name)                                                       false
#define FAST(name)                                                         false
#define BOTH(name)                                                         false
#define ELEMENTWISE(id, name, ggml_name, source, inputs, params, npu, ...) [KERNEL_OP_##id] = npu,
#include "kernel/elementwise.def"
#undef LANES
#undef BITS
#undef STAGES
#undef FAST
#undef BOTH
#undef ELEMENTWISE
        [KERNEL_OP_CONVERT] = true, [KERNEL_OP_COPY] = true,     [KERNEL_OP_TO_F16] = true,
        [KERNEL_OP_TO_BF16] = true, [KERNEL_OP_FROM_F16] = true, [KERNEL_OP_FROM_BF16] = true,
    };
    return plain_ops[op];
}

static int price_of(const struct price * p, enum dtype t) {
    return t == DTYPE_F32    ? p->f32
           : t == DTYPE_F16  ? p->f16
           : t == DTYPE_BF16 ? p->bf16
                             : p->integer;
}

// Bytes that host memory brings or takes in a cycle at the least, 12 GB/s on aie2, 45 on aie2p; in
// runs that are short it takes twice as long.
enum { SHORT_RUNS = 2 };
static const int memory[AIE_ARCH_COUNT] = {[AIE_ARCH_AIE2] = 11, [AIE_ARCH_AIE2P] = 24};

// Bytes of a tensor as memory is paid for them: by the run, and for a short one as for RUN.
static uint64_t paid(const struct tensor * t) {
    enum { RUN = 270 };
    uint64_t size = (uint64_t) dtype_size(t->dtype), run = size;
    uint64_t bytes = (uint64_t) tensor_elements(t) * size + 4;
    for (int d = 0; d < TENSOR_DIMS && (t->ne[d] == 1 || (uint64_t) t->nb[d] == run); d++) {
        run *= (uint64_t) (t->ne[d] > 0 ? t->ne[d] : 1);
    }
    run = run < 4 ? 4 : run;
    return run < RUN ? bytes / run * RUN + RUN : bytes;
}

static uint64_t words(const struct tensor * t) {
    return (uint64_t) tensor_elements(t) * dtype_size(t->dtype) / 4 + 1;
}

// That share an op's words; a device may have fewer.
static uint64_t columns_of(const struct kernel_spec * spec) {
    return spec->columns && spec->columns < COLUMNS ? (uint64_t) spec->columns : COLUMNS;
}

static uint64_t padded(int64_t n) {
    return (uint64_t) (n + TILE - 1) / TILE * TILE;
}

// Four rows of cores, or as many as there are columns, have 64 rows each at a time, a column up to
// 128 rows of b; 64 k of that take so many cycles. Tiles of more rows may overlap.
static uint64_t product_of_many(const struct kernel_spec * spec) {
    enum { SLICE = 6000, ROWS_OF_B = 128 };
    const struct tensor *out = &spec->output, *b = &spec->inputs[1];
    uint64_t columns = spec->columns ? (uint64_t) spec->columns : COLUMNS;
    uint64_t rows = 64 * (columns < CORES ? columns : CORES), of_b = ROWS_OF_B * columns;
    uint64_t rounds = ((uint64_t) out->ne[0] + rows - 1) / rows;
    uint64_t turns = ((uint64_t) out->ne[1] + of_b - 1) / of_b;
    return rounds * (turns + (turns > 1)) * (uint64_t) (b->ne[0] / 64 + 2) * SLICE *
           (uint64_t) (out->ne[2] * out->ne[3]);
}

// Two cores a column have 64 rows each at a time; what of 64 k they unpack and multiply by four
// rows at a time is a matter of so many cycles. Numbers that are looked up take longer.
static uint64_t product_of_blocks(const struct kernel_spec * spec) {
    enum { FEW = 16 };
    if (spec->output.ne[1] > FEW) {
        return product_of_many(spec);
    }
    static const int columns[AIE_ARCH_COUNT] = {[AIE_ARCH_AIE2] = 4, [AIE_ARCH_AIE2P] = 8};
    static const int slice[AIE_ARCH_COUNT] = {[AIE_ARCH_AIE2] = 1600, [AIE_ARCH_AIE2P] = 4800};
    static const int four[AIE_ARCH_COUNT] = {[AIE_ARCH_AIE2] = 900};
    static const int look_up[AIE_ARCH_COUNT] = {[AIE_ARCH_AIE2] = 4400, [AIE_ARCH_AIE2P] = 8000};
    const struct tensor *out = &spec->output, *b = &spec->inputs[1];
    uint64_t rows = 64 * 2 * (uint64_t) (spec->columns ? spec->columns : columns[spec->arch]);
    uint64_t rounds = ((uint64_t) out->ne[0] + rows - 1) / rows;
    bool tabled = kernel_blocks_of(spec) == KERNEL_IQ4_NL || kernel_blocks_of(spec) == KERNEL_MXFP4;
    uint64_t each = (uint64_t) (slice[spec->arch] + (tabled ? look_up[spec->arch] : 0)) +
                    (uint64_t) ((out->ne[1] + 3) / 4 * four[spec->arch]);
    // A batch begins and ends a run, of which the stream tells in more time than it computes.
    enum { BATCH = 30000 };
    return (rounds * (uint64_t) (b->ne[0] / 64 + 1) * each + BATCH) *
           (uint64_t) (out->ne[2] * out->ne[3]);
}

// Each column has its share of 64 rows at a time. What slices take where one core of it works, for
// the shape may leave no turns to the others.
static uint64_t unpacking(const struct kernel_spec * spec) {
    static const int columns[AIE_ARCH_COUNT] = {[AIE_ARCH_AIE2] = 4, [AIE_ARCH_AIE2P] = 8};
    enum { SLICE = 7000, LOOK_UP = 9000, UNITS = 4, FEW = 3000, FEW_LOOK_UP = 3000 };
    const struct tensor * out = &spec->output;
    enum kernel_blocks kind = kernel_blocks_of(spec);
    uint64_t n = (uint64_t) (spec->columns ? spec->columns : columns[spec->arch]);
    uint64_t all = (uint64_t) (out->ne[1] * out->ne[2] * out->ne[3]);
    bool tabled = kind == KERNEL_IQ4_NL || kind == KERNEL_MXFP4;
    int once = kernel_block_once(kind);
    bool turns = n >= UNITS && once > 0 && out->ne[0] % (UNITS * once) == 0;
    int slice = turns ? FEW + (tabled ? FEW_LOOK_UP : 0) : SLICE + (tabled ? LOOK_UP : 0);
    return ((all + 64 * n - 1) / (64 * n) * (uint64_t) (out->ne[0] / 64) + UNITS) *
           (uint64_t) slice;
}

static uint64_t product(const struct kernel_spec * spec) {
    const struct tensor * out = &spec->output;
    uint64_t results =
        padded(out->ne[0]) * padded(out->ne[1]) * (uint64_t) (out->ne[2] * out->ne[3]);
    enum dtype t = spec->inputs[0].dtype;
    uint64_t k = (uint64_t) (spec->inputs[0].ne[0] + EVEN_K - 1) / EVEN_K * EVEN_K;
    static const int rates[AIE_ARCH_COUNT][3] = {
        [AIE_ARCH_AIE2] = {4096, 1024, 2048}, // of all cores: i8, i16, bf16
        [AIE_ARCH_AIE2P] = {16384, 4096, 2048},
    };
    uint64_t macs = results * k /
                    (uint64_t) rates[spec->arch][t == DTYPE_I8    ? 0
                                                 : t == DTYPE_I16 ? 1
                                                                  : 2];
    if (k > CHAINED_K && (int64_t) k != spec->inputs[0].ne[0]) { // each piece ends in zeros
        macs *= 3;
    }
    uint64_t moved =
        (words(&spec->inputs[0]) + words(&spec->inputs[1]) + words(out)) / WORDS_PER_CYCLE;
    if (t == DTYPE_F16) { // which the cores make bf16; on aie2p always 64 rows, a k in 64 cycles
        uint64_t rounds = (uint64_t) (out->ne[0] + 64 * 16 - 1) / (64 * 16);
        moved *= 2;
        moved += spec->arch == AIE_ARCH_AIE2P
                     ? rounds * 64 * k * (uint64_t) (out->ne[2] * out->ne[3])
                     : 0;
    }
    // Both operands come for each tile. Eight columns want 512 rows of the one and 256 of the other
    // for as many results, and multiply i8 much faster than memory brings it; four want 256 of
    // both.
    uint64_t brought =
        results * k * (uint64_t) dtype_size(t) * SHORT_RUNS / 128 / (uint64_t) memory[spec->arch];
    uint64_t most = brought > macs * 7 / 4 ? brought : macs * 7 / 4;
    if (spec->columns) { // of which there are as many rows of cores, up to four
        static const int columns[AIE_ARCH_COUNT] = {[AIE_ARCH_AIE2] = 4, [AIE_ARCH_AIE2P] = 8};
        uint64_t rows = spec->columns < CORES ? (uint64_t) spec->columns : CORES;
        return (most + moved) * (uint64_t) columns[spec->arch] * CORES /
               (rows * (uint64_t) spec->columns);
    }
    return most + moved;
}

// One run of elements: no row begins anew.
static bool is_flat(const struct kernel_spec * spec) {
    bool flat = tensor_is_contiguous(&spec->output);
    for (int i = 0; i < spec->n_inputs; i++) {
        flat &= tensor_is_contiguous(&spec->inputs[i]) &&
                tensor_elements(&spec->inputs[i]) == tensor_elements(&spec->output);
    }
    return flat;
}

// The same for row ops: rows that a core keeps, that a memtile does, and longer ones, which one
// core of a column works through.
struct row_price {
    int kept, held, streamed;
};

static uint64_t row_cycles(const struct kernel_spec * spec, uint64_t most) {
    enum { SORT = 5 };
    static const struct row_price soft = {7, 13, 28}, loss = {18, 18, 18}, other = {4, 5, 9};
    const struct row_price * p = spec->op == KERNEL_OP_SOFT_MAX             ? &soft
                                 : spec->op == KERNEL_OP_CROSS_ENTROPY_LOSS ? &loss
                                                                            : &other;
    const struct tensor * x = &spec->inputs[0];
    uint64_t rows = (uint64_t) (x->ne[1] * x->ne[2] * x->ne[3]), n = (uint64_t) x->ne[0];
    int price = n <= KEPT ? p->kept : n <= HELD ? p->held : p->streamed;
    price = spec->op == KERNEL_OP_ARGSORT ? SORT + (int) (n / 8) : price; // each with each
    if (rows) { // a row stays with one core, and the last ones leave some idle
        uint64_t workers = columns_of(spec) * (n <= HELD && p != &loss ? CORES : 1);
        most = most / rows * ((rows + workers - 1) / workers * workers);
    }
    return START + (most * (uint64_t) price + rows * ROW) / columns_of(spec);
}

// Keys and values pass all cores of a column, for so many rows at a time at least; each row then
// has its products and exponentials.
static uint64_t attention(const struct kernel_spec * spec) {
    enum { ITEM = 4, SHORT_HEADS = 256, A_STEP = 40000, FEW_ROWS = 8, MOST_LONE = 4 << 20 };
    const struct tensor *q = &spec->inputs[0], *k = &spec->inputs[1], *out = &spec->output;
    uint64_t columns = spec->columns ? (uint64_t) spec->columns : COLUMNS;
    uint64_t size = (uint64_t) (q->ne[0] + out->ne[0]), keys = (uint64_t) (k->ne[1] + TILE);
    uint64_t groups = (uint64_t) (k->ne[2] * q->ne[3]);
    uint64_t rows = k->ne[2] > 0 ? (uint64_t) (q->ne[1] * q->ne[2] / k->ne[2]) : 0;
    uint64_t at_once = size <= SHORT_HEADS ? 4 * ITEM : ITEM;
    uint64_t items = groups * ((rows + at_once - 1) / at_once);
    uint64_t rows_each = (rows < at_once ? rows : at_once) / CORES + 1;
    uint64_t cycles =
        (items + columns - 1) / columns * (A_STEP + keys * (size + rows_each * (size / 12 + 24)));
    // Of few rows and not too many keys it is done by half of the columns, by two cores of each.
    uint64_t few = columns / 2 > 0 ? columns / 2 * 2 : 1;
    uint64_t lone =
        (items + few - 1) / few * (A_STEP + keys * (2 * size + (rows + 1) * (size / 12 + 24)));
    lone = rows <= FEW_ROWS ? (lone < MOST_LONE ? lone : MOST_LONE) : 0;
    return cycles > lone ? cycles : lone;
}

// Rows of softmax that are longer than HELD, on aie2p: one core of each column that has the
// program, among other programs half of them, works through them, and makes x * scale + slope *
// mask anew in each of three passes. Measured, in cycles a word: 33.0 and 44.7 (200000x1, fast and
// exact).
static bool is_long_soft_2p(const struct kernel_spec * spec) {
    return spec->arch == AIE_ARCH_AIE2P && spec->op == KERNEL_OP_SOFT_MAX &&
           spec->inputs[0].ne[0] > HELD;
}

static uint64_t long_soft_2p(const struct kernel_spec * spec) {
    enum { COLUMNS_2P = 8, BARE = 36, MASKED = 44, EXACT = 13 /* more */ };
    const struct tensor * x = &spec->inputs[0];
    uint64_t rows = (uint64_t) (x->ne[1] * x->ne[2] * x->ne[3]);
    uint64_t columns = ((spec->columns ? (uint64_t) spec->columns : COLUMNS_2P) + 1) / 2;
    bool masked = spec->n_inputs > 1 && tensor_elements(&spec->inputs[1]) > 0;
    int price = (masked ? MASKED : BARE) + (spec->precision == KERNEL_EXACT ? EXACT : 0);
    return START + (rows + columns - 1) / columns * ((uint64_t) (x->ne[0] * price) + ROW);
}

// In all columns.
static uint64_t spread_cycles(const struct kernel_spec * spec) {
    const struct price * p = is_plain(spec->op) ? &plain : &heavy;
    uint64_t most = words(&spec->output);
    int price = price_of(p, spec->output.dtype);
    for (int i = 0; i < spec->n_inputs; i++) {
        const struct tensor * in = &spec->inputs[i];
        most = words(in) > most ? words(in) : most;
        price = price_of(p, in->dtype) > price ? price_of(p, in->dtype) : price;
    }
    if (kernel_op_info(spec->op)->family == KERNEL_ROWS) {
        return row_cycles(spec, most);
    }
    if (spec->op == KERNEL_OP_ROTATE || kernel_op_info(spec->op)->family == KERNEL_MOVE) {
        return START +
               most * (uint64_t) (is_flat(spec) ? price : price + SCATTERED) / columns_of(spec);
    }
    const struct tensor * first = &spec->inputs[0];
    uint64_t rows = is_flat(spec) ? 0 : (uint64_t) (first->ne[1] * first->ne[2] * first->ne[3]);
    return START + (most * (uint64_t) price + rows * ROW) / columns_of(spec);
}

static uint64_t cycles_of(const struct kernel_spec * spec) {
    enum { MIXED = 400000 };
    if (spec->op == KERNEL_OP_FLASH_ATTN_EXT) {
        return START + attention(spec);
    }
    if (spec->op == KERNEL_OP_MUL_MAT || spec->op == KERNEL_OP_MUL_MAT_SHARED) {
        return START + product(spec);
    }
    if (spec->op == KERNEL_OP_MUL_MAT_BLOCKS) {
        return START + product_of_blocks(spec);
    }
    if (spec->op == KERNEL_OP_UNPACK) {
        return START + unpacking(spec);
    }
    if (is_long_soft_2p(spec)) {
        return long_soft_2p(spec);
    }
    // Among other programs half of the columns have its own; what would lose much by that is not.
    uint64_t cycles = spread_cycles(spec);
    return cycles + (cycles < MIXED ? cycles : MIXED);
}

// Megahertz of the lowest level in the driver's table: an array begins with it, and no runtime that
// there is asks for more.
uint64_t kernel_us_of(enum aie_arch arch, uint64_t cycles) {
    static const int slowest[AIE_ARCH_COUNT] = {[AIE_ARCH_AIE2] = 800, [AIE_ARCH_AIE2P] = 792};
    return (cycles + (uint64_t) slowest[arch] - 1) / (uint64_t) slowest[arch];
}

uint64_t kernel_us(const struct kernel_spec * spec) {
    return kernel_us_of(spec->arch, kernel_cycles(spec));
}

uint64_t kernel_cycles(const struct kernel_spec * spec) {
    // The figures are aie2's. A core of aie2p has fewer accumulators and waits for memory instead.
    static const int times[AIE_ARCH_COUNT] = {[AIE_ARCH_AIE2] = 1, [AIE_ARCH_AIE2P] = 4};
    bool own = spec->op == KERNEL_OP_MUL_MAT || spec->op == KERNEL_OP_MUL_MAT_SHARED ||
               spec->op == KERNEL_OP_UNPACK || is_long_soft_2p(spec); // these have their own
    uint64_t passed = paid(&spec->output);
    for (int i = 0; i < spec->n_inputs; i++) {
        passed += paid(&spec->inputs[i]);
    }
    bool long_runs = spec->op == KERNEL_OP_MUL_MAT_BLOCKS && kernel_panel_of(spec).rows;
    uint64_t cores = cycles_of(spec) * (uint64_t) (own ? 1 : times[spec->arch]);
    uint64_t host =
        START + passed * (uint64_t) (long_runs ? 1 : SHORT_RUNS) / (uint64_t) memory[spec->arch];
    return cores > host ? cores : host;
}

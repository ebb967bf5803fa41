// mul-mat-plan: see the header. Nothing here knows of descriptors beyond their limits.
#include "mul-mat-plan.h"

#include "aie/ops/ops.h"
#include "kernel/shared.h"

enum {
    ITERATIONS = 64, // of a descriptor
    SHIM_WRAP = 1023,
    MEM_WRAP = 1023,
    STAY_TILES = 63,  // a lock counts no further
    HELD_CHUNKS = 63, // nor tokens of chunks that have come
    STAY_LEAST = 8,   // tiles of a core, for which telling of all chunks pays
    X_STAYS = 31,     // tiles of a step: the lock counts those of two
    LONG_SLICES = 16, // from so many on two come at once, in longer bursts of host memory
    MOST_STEPS = 96,  // of an instruction stream, which then takes less than 1 ms to make
    TILE_BYTES = MM_TILE * MM_TILE * 4,
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// ---- batches ----

// Batches of which each may have columns of its own: then all of them begin and end together, and
// no step waits for another's. Each column's shim brings its own b, one for all or one of each
// batch.
static int batches_beside(const struct kernel_spec * spec, int columns) {
    int64_t n = spec->output.ne[2];
    bool each = spec->inputs[0].ne[2] == n && spec->inputs[1].ne[2] == n;
    int beside = each && n > 1 ? columns : 1;
    while (beside > 1 && (n % beside || columns % beside)) {
        beside--;
    }
    return beside;
}

int64_t mm_plan_turns(const struct mm_plan * p, const struct kernel_spec * spec) {
    return spec->output.ne[2] / p->beside * spec->output.ne[3];
}

// ---- k ----

uint32_t mm_chunk_zeros(const struct mm_plan * p, uint32_t k) {
    uint32_t slice = (uint32_t) mm_slice_k(p->t);
    return ((k + slice - 1) / slice * slice - k) / (uint32_t) mm_block_k(p->t);
}

// Bytes of a memtile that rows may take, for each byte of chunk.
static int64_t chunk_room(const struct mm_plan * p) {
    int64_t x_rows = p->x_groups * p->t->x_group, y_rows = p->y_groups * p->t->y_group;
    int64_t bytes = ARRAY_MEM_BYTES;
    if (p->is_vector) { // x lies there in full, twice
        int64_t tile = p->n > MM_FEW_ROWS ? TILE_BYTES / 2 : TILE_BYTES / 4;
        bytes -= 2 * tile + 2 * 4 * (int64_t) mm_x_words(p);
        return bytes / (4 * y_rows);
    }
    if (p->wide || mm_is_made(p)) { // of x so much for each byte of y, where it is f32
        int64_t much = p->x_raw ? 4 * p->block_k : 2 * p->block_k;
        bytes -= p->wide ? p->core_rows * mm_rows_of_few(p) * MM_TILE * 4
                         : p->core_rows * TILE_BYTES + MM_BEFORE;
        return bytes / (2 * (y_rows + x_rows * ops_parts(much, p->block_bytes)));
    }
    bytes -= p->core_rows * TILE_BYTES;
    return bytes / (2 * (x_rows + y_rows));
}

// What chunks of q slices cost, in words: the cores wait for the first one, and at the end of each
// tile for what the next one's first chunk takes longer than the last one lasts.
static int64_t chunk_cost(const struct mm_plan * p, int64_t tiles, int64_t q, int64_t slices) {
    int64_t last = slices - (ops_parts(slices, q) - 1) * q;
    int64_t words = p->y_groups * p->t->y_group * MM_SLICE_BYTES / 4;
    return words * (q + tiles * (q - last));
}

static struct mm_cut chain_of(const struct mm_plan * p, int64_t chunk_slices) {
    int64_t chunk_k = least(chunk_slices * mm_slice_k(p->t), p->k), n = ops_parts(p->k, chunk_k);
    return (struct mm_cut){
        .rounds = 1,
        .chunks = (int) n,
        .chunk_k = (uint32_t) chunk_k,
        .last_k = (uint32_t) (p->k - (n - 1) * chunk_k),
    };
}

static struct mm_cut equal(int64_t rounds, int64_t chunk_k) {
    return (struct mm_cut){.rounds = (int) rounds,
                           .chunks = 1,
                           .chunk_k = (uint32_t) chunk_k,
                           .last_k = (uint32_t) chunk_k};
}

// An even number of chunks, so that two buffers take turns; few enough for their descriptors.
static bool chain_of_chunks(struct mm_plan * p, int64_t tiles, int64_t most_k) {
    int64_t slice = mm_slice_k(p->t), slices = ops_parts(p->k, slice), best = 0;
    int64_t once = p->block_bytes ? p->cut_k / slice : 1;
    for (int64_t q = once; q * slice <= most_k && q <= slices; q += once) {
        int64_t chunks = ops_parts(slices, q);
        if (chunks <= MMP_CHUNKS && (chunks % 2 == 0 || chunks == 1) &&
            (!best || chunk_cost(p, tiles, q, slices) < chunk_cost(p, tiles, best, slices))) {
            best = q;
        }
    }
    if (!best) {
        return false;
    }
    p->x = p->y = chain_of(p, best);
    p->slices = (uint32_t) slices;
    return true;
}

// Equal chunks, each with its zeros; those that make the fewest slices.
static bool equal_chunks(struct mm_plan * p, int64_t most_k) {
    int64_t slice = mm_slice_k(p->t), whole = p->block_bytes ? p->cut_k : MM_WHOLE_K;
    int64_t best = 0, best_slices = 0, blocks = p->k / whole;
    for (int64_t b = 1; b <= blocks && b * whole <= most_k; b++) {
        int64_t slices = blocks % b ? 0 : blocks / b * ops_parts(b * whole, slice);
        if (slices && (!best || slices <= best_slices)) {
            best = b;
            best_slices = slices;
        }
    }
    if (!best || best_slices > MMP_RUNS) {
        return false;
    }
    p->x = p->y = equal(blocks / best, best * whole);
    p->slices = (uint32_t) best_slices;
    return true;
}

// Rows that are whole slices: all chunks are equal, and one descriptor each way does for them.
static bool whole_slices(struct mm_plan * p, int64_t most_k) {
    int64_t slice = mm_slice_k(p->t), slices = p->k / slice;
    int64_t q = slices >= LONG_SLICES && slices % 2 == 0 && 2 * slice <= most_k ? 2 : 1;
    if (p->is_vector || p->k % slice || slice > most_k) {
        return false;
    }
    p->x = p->y = equal(slices / q, q * slice);
    p->slices = (uint32_t) slices;
    return true;
}

// Gemv whose x stays: chunks of whole slices that are all equal, so that one descriptor each way
// does for them. As few slices as there may be chunks for: the cores wait for the first one.
static bool equal_slices(struct mm_plan * p, int64_t most_k) {
    int64_t slice = mm_slice_k(p->t), slices = p->k / slice;
    int64_t once = p->block_bytes ? p->cut_k / slice : 1;
    for (int64_t q = once; p->k % slice == 0 && q <= slices && q * slice <= most_k; q += once) {
        if (slices % q == 0 && slices / q <= MMP_CHUNKS) {
            p->x = p->y = equal(slices / q, q * slice);
            p->slices = (uint32_t) slices;
            return true;
        }
    }
    return false;
}

// Gemv has whole rows of x one after the other; a descriptor's first dimension is too short for
// long ones, which are cut into equal pieces.
static bool cut_x_rows(struct mm_plan * p) {
    int64_t words = mm_x_row(p);
    for (int64_t pieces = 1; pieces <= SHIM_WRAP && pieces <= words; pieces++) {
        if (words % pieces == 0 && words / pieces <= SHIM_WRAP) {
            p->x_pieces = (int) pieces;
            return true;
        }
    }
    return false;
}

int mm_x_parts(const struct mm_plan * p) {
    int64_t blocks = p->k / mm_block_k(p->t);
    for (int parts = 1; parts <= MMP_CHUNKS; parts++) {
        if (blocks / parts <= MEM_WRAP && (parts == 1 || p->k % (parts * mm_slice_k(p->t)) == 0)) {
            return parts;
        }
    }
    return 0;
}

// Gemv: one descriptor of the memtile sends all of x, and counts no further than this, nor more
// zeros behind its third dimension, which it has where rows and blocks want one each.
static bool sends_x(const struct mm_plan * p) {
    enum { MOST_WORDS = (1 << 17) - 1, MOST_ZEROS = 15 };
    int64_t k = p->y.chunks > 1 ? p->k : p->y.last_k, zeros = mm_chunk_zeros(p, p->y.last_k);
    int64_t blocks = k / mm_block_k(p->t) + zeros, block = mm_x_block(p);
    return p->x_groups * p->t->x_group * blocks * p->y.rounds * block <= MOST_WORDS &&
           (p->x_rows == 1 || block == 1 || zeros <= MOST_ZEROS);
}

// Gemm with blocks: rows are whole slices. Two of b come at once, and more of a, which are short.
static bool many_slices(struct mm_plan * p) {
    enum { MOST_AT_ONCE = 8 };
    int64_t slice = mm_slice_k(p->t), slices = p->k / slice, q = slices % 2 ? 1 : 2, y = q;
    while (y < MOST_AT_ONCE && slices % (2 * y) == 0) {
        y *= 2;
    }
    if (p->k % slice || slices * p->many > MMP_RUNS) {
        return false;
    }
    p->x = equal(slices / q, q * slice);
    p->y = equal(slices / y, y * slice);
    p->slices = (uint32_t) slices;
    return true;
}

// Gemv's program on gemm's array: rows are whole blocks and slices, and come by some of them.
static bool wide_slices(struct mm_plan * p, int64_t most_k) {
    enum { LEAST_K = 256 }; // for the sake of runs in host memory
    int64_t slice = mm_slice_k(p->t), chunk_k = p->cut_k;
    while (chunk_k < LEAST_K && p->k % (2 * chunk_k) == 0) {
        chunk_k *= 2;
    }
    if (p->k % slice || chunk_k % slice || chunk_k > most_k) {
        return false;
    }
    p->x = p->y = equal(p->k / chunk_k, chunk_k);
    p->slices = (uint32_t) (p->k / slice);
    return true;
}

// Blocks that lie in panels come in the panels' chunks.
static bool panel_chunks(struct mm_plan * p, int64_t most_k) {
    int64_t slice = mm_slice_k(p->t), slices = p->k / slice;
    int64_t chunk_k = (int64_t) p->panel.words * 4 / p->block_bytes * p->block_k;
    if (p->k % slice || chunk_k % slice || chunk_k > most_k ||
        p->panel.rows * p->panel.words > SHIM_WRAP) {
        return false;
    }
    struct mm_cut cut = equal(p->k / chunk_k, chunk_k);
    if (!p->many) {
        p->x = cut;
    } else if (!many_slices(p)) {
        return false;
    }
    p->y = cut;
    p->slices = (uint32_t) slices;
    return true;
}

static enum status plan_k(struct mm_plan * p, const struct kernel_spec * spec, struct error * err) {
    int64_t cut_bytes = p->block_bytes ? mm_chunk_bytes(p, (uint32_t) p->cut_k) : 1;
    int64_t most_k = least(chunk_room(p), (int64_t) SHIM_WRAP * 4);
    most_k = p->block_bytes ? least(most_k / cut_bytes * p->cut_k, MEM_WRAP * mm_block_k(p->t))
                            : most_k / p->t->element_bytes;
    int64_t tiles = p->m_steps * p->n_tiles * mm_plan_turns(p, spec);
    bool wide = p->is_vector && mm_x_parts(p) == 0; // x's walk has no chunks then
    if (p->many && !p->panel.rows && many_slices(p)) {
        return ST_OK;
    }
    if (p->wide) {
        most_k = least(most_k, (int64_t) SHIM_WRAP * (p->x_raw ? 1 : 2)); // words of a row of b
    }
    if ((!p->is_vector || cut_x_rows(p)) && ops_parts(p->k, mm_slice_k(p->t)) <= MMP_RUNS &&
        most_k >= MM_WHOLE_K &&
        (p->panel.rows ? panel_chunks(p, most_k)
         : p->wide     ? wide_slices(p, most_k)
                       : whole_slices(p, most_k) || (p->x_stays && equal_slices(p, most_k)) ||
                         (!wide && chain_of_chunks(p, tiles, most_k)) || equal_chunks(p, most_k)) &&
        (!p->is_vector || sends_x(p))) {
        return ST_OK;
    }
    return error_set(err, ST_UNSUPPORTED, "rows of %lld elements are too long for the memtiles",
                     (long long) p->k);
}

// ---- m and n ----

// What one row of b takes in so many columns, in cycles, about, where a core takes as long for few
// rows as for 64 (aie2p). Each column is told for itself: of what it gets, and while it works, of
// where its tiles go; and its word that they are there has its price.
static int64_t vector_cost(const struct mm_plan * p, int columns) {
    enum { TELL = 4600, TELL_ALL = 10000, MEMORY_BYTES = 28 /* a cycle */ };
    int64_t slice = p->blocks == KERNEL_BLOCKS ? 2100 : kernel_block(p->blocks)->cycles;
    int64_t m = p->m * p->beside, tiles = ops_parts(m, columns * MMP_CORE_ROWS_GEMV * MM_TILE);
    int64_t work = tiles * ops_parts(p->k, mm_slice_k(p->t)) * slice;
    int64_t memory = m * mm_chunk_bytes(p, (uint32_t) p->k) / MEMORY_BYTES;
    int64_t told = columns * TELL + (work > memory ? work : memory), all = columns * TELL_ALL;
    return told > all ? told : all;
}

// Gemv has as many columns as pay: half as many, and so on.
static int vector_columns(const struct mm_plan * p, int columns) {
    int best = columns;
    while (p->t->y_group == MM_TILE && columns > 1 && columns / 2 % p->beside == 0) {
        // for all rows at once
        bool wanted = p->m * p->beside > columns / 2 * MMP_CORE_ROWS_GEMV * MM_TILE;
        columns /= 2;
        if (!wanted || (p->n == 1 && vector_cost(p, columns) < vector_cost(p, best))) {
            best = columns;
        }
    }
    return best;
}

static void plan_m(struct mm_plan * p) {
    int64_t streams = p->is_vector ? mm_plan_streams(p) : p->core_rows;
    p->m_steps = ops_parts(p->m, streams * MM_TILE);
    p->y_rows = (int) ops_parts(p->m, streams * p->m_steps);
    if (p->panel.rows) {
        // what block floats are made of is eights of rows that are there
        const int whole =
            mm_is_made(p) && p->panel.rows < SHARED_EIGHT ? SHARED_EIGHT : p->panel.rows;
        p->y_rows = (int) ops_parts(p->y_rows, whole) * whole;
    }
    p->y_groups = (int) ops_parts(p->y_rows, p->t->y_group);
}

int64_t mm_plan_m(const struct mm_plan * p, int64_t m_step, int stream) {
    if (p->joint) { // a column's tiles follow each other, of its cores by turns
        int64_t rows = p->m_steps * mm_plan_rows(p);
        int64_t col = stream % mm_plan_streams(p) / p->core_rows, core = stream % p->core_rows;
        return least(col * rows, p->m - rows) + m_step * mm_plan_rows(p) + core * p->y_rows;
    }
    if (p->is_vector) { // a stream's tiles follow each other, so that a step can go along them
        int64_t rows = p->m_steps * p->y_rows;
        return least(stream % mm_plan_streams(p) * rows, p->m - rows) + m_step * p->y_rows;
    }
    return least((m_step * p->core_rows + stream) * p->y_rows, p->m - p->y_rows);
}

static void take_span(struct mm_plan * p, int64_t tiles, int64_t span, int64_t step) {
    p->n_tiles = tiles;
    p->n_step = step;
    p->x_rows = (int) ops_parts(span, p->columns * mm_tiles_each(p));
    p->x_groups = (int) ops_parts(p->x_rows, p->t->x_group);
    for (int c = 0; c < p->columns; c++) {
        p->n_start[c] = least(c * mm_x_taken(p), span - mm_x_taken(p));
    }
}

// Tiles of all columns together span up to 64 rows for each, and are equally far apart.
static void plan_n(struct mm_plan * p) {
    p->many = !p->block_bytes || p->t->stored || mm_is_few(p) ? 0
              : p->n > p->columns * MM_TILE                   ? 2
                                                              : 1;
    const int64_t each = p->wide ? mm_rows_of_few(p) : MM_TILE;
    const int64_t most = p->columns * each * mm_tiles_each(p);
    if (p->is_vector) {
        p->n_tiles = 1;
        p->x_rows = (int) p->n;
        p->x_groups = (int) ops_parts(p->n, p->t->x_group);
        return;
    }
    if (p->n <= most) {
        take_span(p, 1, p->n, 0);
        return;
    }
    for (int64_t tiles = ops_parts(p->n, most);; tiles++) {
        // Gemv's program takes longer for more rows: there the fewest that will do.
        const int64_t few = ops_parts(p->n, tiles);
        for (int64_t i = 0; i < (p->wide ? most - few + 1 : most - most / 2); i++) {
            int64_t span = p->wide ? few + i : most - i, rest = p->n - span;
            if (rest % (tiles - 1) == 0 && rest / (tiles - 1) <= span) {
                take_span(p, tiles, span, rest / (tiles - 1));
                return;
            }
        }
    }
}

// Tiles along m that a step of gemv may have, and whether x comes once for all of them. In more
// batches than one each must end with its step: what the last tiles leave in a lock is cleared at
// the end of all.
static int64_t vector_pass(const struct mm_plan * p) {
    return least(X_STAYS, MMP_RUNS / ops_parts(p->k, mm_slice_k(p->t)));
}

static bool may_stay(const struct mm_plan * p, const struct kernel_spec * spec) {
    int64_t far = mm_plan_m_far(p) * spec->inputs[0].nb[1] / 4, pass = vector_pass(p);
    bool one = mm_plan_turns(p, spec) == 1;
    return p->is_vector && (one || p->m_steps > 1) && (one || p->m_steps <= pass) && pass > 0 &&
           (far <= MMP_STEP_LIMIT || p->m_steps == 1);
}

static void plan_pass(struct mm_plan * p, const struct kernel_spec * spec) {
    int64_t runs = (int64_t) p->slices > p->x.rounds ? (int64_t) p->slices : p->x.rounds;
    p->pass = p->many || p->x_held ? 1 : least(least(ITERATIONS, MMP_RUNS / runs), p->n_tiles);
    // the walks from n tile to n tile
    int64_t x = p->n_step * spec->inputs[1].nb[1] / 4, out = p->n_step * spec->output.nb[1] / 4;
    if (p->n_tiles > 1 && (x > MMP_STEP_LIMIT || out > MMP_STEP_LIMIT)) {
        p->pass = 1;
    }
    // Where all of n is one tile of each column, or b is held for it, a step goes along m, as far
    // as its tiles are equally far apart: many columns would wait for being told of the next one.
    // Those of gemv are; of gemm the last ones may begin earlier, and are a step for themselves.
    int64_t far = mm_plan_m_far(p) * spec->inputs[0].nb[1] / 4, rows = mm_plan_m_far(p);
    int64_t even = p->is_vector || p->m_steps == 1 || p->m == rows * p->m_steps ? p->m_steps
                   : p->m >= rows * (p->m_steps - 1)                            ? p->m_steps - 1
                                                                                : 1;
    bool along =
        p->is_vector ? p->x_stays : p->columns > p->core_rows && (p->n_tiles == 1 || p->x_held);
    along &= far <= MMP_STEP_LIMIT;
    int64_t most = p->is_vector ? X_STAYS : ITERATIONS;
    p->m_pass = along ? least(least(most, MMP_RUNS / runs), even) : 1;
    while (even < p->m_steps && even % p->m_pass) {
        p->m_pass--;
    }
    if (p->m_steps % p->m_pass && mm_plan_turns(p, spec) > 1 && p->is_vector) {
        p->x_stays = false; // zeros made it more slices than may_stay knew of
        p->m_pass = 1;
    }
}

// Rows of b serve all tiles along m. Where there are more columns than rows of cores, much of what
// host memory brings is b, again and again; where a memtile has room for its column's rows in full,
// they can come once for all of these, in chunks of whole slices, and the memtile sends them anew.
// Then there is room for longer runs of a, too. Gemv's program takes longer than memory does.
static bool hold(struct mm_plan * p) {
    const int64_t y_rows = p->y_groups * p->t->y_group;
    if (mm_is_few(p) || p->many || p->columns <= p->core_rows || p->m_steps < 2 ||
        p->m_steps > STAY_TILES || p->x.chunks > 1 || p->x.rounds < 2 ||
        p->x.rounds > HELD_CHUNKS || p->k % mm_slice_k(p->t) || !mm_x_parts(p)) {
        return false;
    }
    if (!p->block_bytes && p->y.rounds % 2 == 0) {
        p->y = equal(p->y.rounds / 2, 2 * p->y.chunk_k);
    }
    p->x_held = (int) p->m_steps;
    const int64_t before = mm_is_made(p) ? MM_BEFORE : 0;
    return before + p->core_rows * TILE_BYTES + 2 * y_rows * mm_chunk_bytes(p, p->y.chunk_k) +
               4 * (int64_t) mm_x_row(p) * mm_x_room(p) <=
           ARRAY_MEM_BYTES;
}

// Rows of a that serve several tiles of a step come from host memory once where there is room for
// them. Their chunks have descriptors and locks of their own, so that the next step's first chunk
// comes while this one's last tile takes the others.
static void plan_stay(struct mm_plan * p) {
    enum { SLICE_CYCLES = 2048, CHUNK_CYCLES = 1632 }; // to come; to tell four memtiles of one
    int64_t slice = mm_slice_k(p->t), slices = p->slices, best = 0, best_cost = 0;
    int64_t y_rows = p->y_groups * p->t->y_group, x_rows = p->x_groups * p->t->x_group;
    int64_t room =
        ARRAY_MEM_BYTES - p->core_rows * TILE_BYTES - 2 * x_rows * mm_chunk_bytes(p, p->x.chunk_k);
    bool alike = p->n_tiles % p->pass == 0 && slices == ops_parts(p->k, slice);
    if (mm_is_few(p) || p->t->stored || p->x_held || !alike || p->pass < 2 ||
        p->pass > STAY_TILES || p->steps * p->pass < STAY_LEAST) {
        return;
    }
    for (int64_t q = 1; q < slices && mm_chunk_bytes(p, (uint32_t) (q * slice)) / 4 <= SHIM_WRAP;
         q++) {
        int64_t chunks = ops_parts(slices, q), cost = q * SLICE_CYCLES + chunks * CHUNK_CYCLES;
        int64_t bytes = y_rows * chunks * q * slice * p->t->element_bytes;
        if (chunks <= MMP_CHUNKS && bytes <= room && (!best || cost < best_cost)) {
            best = q;
            best_cost = cost;
        }
    }
    if (best) {
        p->y = chain_of(p, best);
        p->y_stays = true;
    }
}

// Where the multiplier goes lane by lane there are eight columns, and one channel of each brings
// more than host memory has.
static bool may_be_joint(const struct mm_plan * p, int columns) {
    return p->is_vector && p->t->by_lanes && p->block_bytes && p->columns == columns &&
           mm_plan_streams(p) % p->core_rows == 0 && p->m >= p->m_steps * p->core_rows * p->y_rows;
}

// Chunks have as many places as there is room for, and as come out even: then the next kernel finds
// its descriptors as they are, and its chunks may come while this one's last are multiplied.
static void plan_places(struct mm_plan * p, enum aie_arch arch) {
    int64_t bytes = p->y_groups * p->t->y_group * mm_chunk_bytes(p, p->y.chunk_k);
    int64_t chunks = p->y.rounds * p->m_steps;
    p->places = 2;
    p->joint &= p->y.chunks == 1 && p->y.last_k == p->y.chunk_k && 2 * bytes <= MMP_PLACES_BYTES;
    for (int n = mm_places(arch); p->joint && p->places == 2 && n > 2; n /= 2) {
        p->places = chunks % n == 0 && n * bytes <= MMP_PLACES_BYTES ? n : 2;
    }
}

static void plan_steps(struct mm_plan * p, const struct kernel_spec * spec) {
    plan_pass(p, spec);
    p->steps =
        mm_plan_turns(p, spec) * ops_parts(p->n_tiles, p->pass) * ops_parts(p->m_steps, p->m_pass);
    plan_stay(p);
}

// What a plan takes, about. Each step is told to all columns, while the one before is multiplied;
// and what is held has to pay for being told of.
static int64_t cost(const struct kernel_spec * spec, const struct mm_plan * p) {
    enum { TELL_STEP = 9400, TELL_HELD = 30000, HOLDS_UP = 4 }; // a column; all of them
    const struct mm_likely l = mm_likely(spec, p);
    // the longer of the two; the other holds it up now and then
    const int64_t most = l.work > l.memory ? l.work : l.memory, other = l.work + l.memory - most;
    const int64_t told = p->steps * p->columns * TELL_STEP;
    const int64_t done = mm_plan_turns(p, spec) * (most + other / HOLDS_UP);
    return (told > done ? told : done) + (p->x_held ? TELL_HELD : 0);
}

// ---- steps ----

struct mm_step mm_plan_step(const struct mm_plan * p, const struct kernel_spec * spec, int64_t i) {
    int64_t passes = ops_parts(p->n_tiles, p->pass);
    int64_t m_passes = ops_parts(p->m_steps, p->m_pass);
    struct mm_step s = {.m_step = i % m_passes * p->m_pass};
    i /= m_passes;
    s.n_first = i % passes * p->pass;
    s.tiles = p->m_pass > 1 ? least(p->m_pass, p->m_steps - s.m_step)
                            : least(p->pass, p->n_tiles - s.n_first);
    i /= passes;
    s.batch2 = i * p->beside % spec->output.ne[2];
    s.batch3 = i * p->beside / spec->output.ne[2];
    return s;
}

// ---- the whole ----

// Stored block floats are groups of rows that lie chunk by chunk, in as long chunks as come out
// even.
static void stored_panels(struct mm_plan * p) {
    enum { MOST_SLICES = 4 };
    int slices = MOST_SLICES;
    while (p->k % (slices * SHARED_SLICE)) {
        slices /= 2;
    }
    p->block_bytes = SHARED_BLOCK_BYTES / SHARED_EIGHT;
    p->block_k = SHARED_EIGHT;
    p->once_k = p->cut_k = SHARED_SLICE;
    p->panel = (struct kernel_panel){.rows = SHARED_EIGHT, .words = slices * MM_STORED_WORDS};
}

// What a spec says itself.
static struct mm_plan plan_of(const struct kernel_spec * spec) {
    bool blocks = spec->op == KERNEL_OP_MUL_MAT_BLOCKS;
    enum kernel_blocks kind = blocks ? kernel_blocks_of(spec) : KERNEL_BLOCKS;
    return (struct mm_plan){
        .t = mm_type_for(spec),
        .block_bytes = kernel_block_bytes(kind),
        .block_k = kernel_block_k(kind),
        .once_k = kernel_block_once(kind),
        .cut_k = kernel_block_cut(kind),
        .blocks = kind,
        .panel = blocks ? kernel_panel_of(spec) : (struct kernel_panel){0},
        .x_raw = spec->inputs[1].dtype == DTYPE_F32,
        .y_raw = spec->inputs[0].dtype == DTYPE_F16,
        .m = spec->output.ne[0],
        .n = spec->output.ne[1],
        .k = spec->inputs[1].ne[0],
    };
}

// Tiles and chunks, for a program and columns that are chosen.
static enum status plan_tiles(struct mm_plan * p, const struct kernel_spec * spec,
                              struct error * err) {
    plan_n(p);
    plan_m(p);
    p->joint = may_be_joint(p, ops_columns(spec));
    p->x_stays = may_stay(p, spec);
    enum status st = plan_k(p, spec, err);
    if (st == ST_OK) {
        plan_places(p, spec->arch);
    }
    return st;
}

enum status mm_plan_make(const struct kernel_spec * spec, struct mm_plan * p, struct error * err) {
    enum status st = mm_check(spec, err);
    if (st != ST_OK) {
        return st;
    }
    *p = plan_of(spec);
    bool blocks = spec->op == KERNEL_OP_MUL_MAT_BLOCKS;
    if (p->t->stored && !blocks) {
        stored_panels(p);
    }
    const int columns = ops_columns(spec), gemm_rows = (int) least(MMP_CORE_ROWS_GEMM, columns);
    p->is_vector = p->n <= mm_few_rows(p->t, p->blocks, p->x_raw) && !p->t->shared;
    p->beside = p->is_vector ? batches_beside(spec, columns) : 1;
    p->columns = p->is_vector ? vector_columns(p, columns) : columns;
    const bool takes_many = blocks && mm_takes_many(p->t, p->blocks, p->panel.pair != 0);
    p->wide = blocks && !p->is_vector && !p->t->shared && !mm_by_planes(p->blocks) &&
              (p->x_raw || !takes_many);
    if (p->wide && p->t->gemm_by_blocks && p->x_raw) {
        return error_set(err, ST_UNSUPPORTED,
                         "more than %d rows of b are taken as bf16 where a is blocks", MM_FEW_ROWS);
    }
    p->fused = blocks && mm_is_few(p) && mm_fuses(p->t, p->blocks);
    if (p->fused) {
        p->t = &mm_aie2_fused;
    }
    p->core_rows = p->is_vector ? MMP_CORE_ROWS_GEMV : gemm_rows;
    if (mm_is_longer(p) && p->is_vector && p->n > MMP_LONGER_N) {
        return error_set(err, ST_UNSUPPORTED, "%s takes up to %d rows of b, not %lld",
                         kernel_block_name(p->blocks), MMP_LONGER_N, (long long) p->n);
    }
    st = plan_tiles(p, spec, err);
    bool takes = p->t->stored || mm_is_few(p) || (p->many && !p->x_raw && takes_many);
    if ((p->x_raw || p->y_raw || p->block_bytes) && (st != ST_OK || !takes)) {
        return error_set(err, ST_UNSUPPORTED,
                         "f32, f16 and some blocks are made bf16 in products of up to %d "
                         "rows of b, and where these fit a memtile and its descriptors",
                         MM_FEW_ROWS);
    }
    if (st != ST_OK && p->is_vector) { // x may be too much for one memtile
        p->is_vector = p->x_stays = p->joint = false;
        p->beside = 1;
        p->columns = columns;
        p->core_rows = gemm_rows;
        st = plan_tiles(p, spec, err);
    }
    if (st != ST_OK) {
        return st;
    }
    struct mm_plan held = *p;
    plan_steps(p, spec);
    if (hold(&held)) {
        plan_steps(&held, spec);
        *p = cost(spec, &held) < cost(spec, p) ? held : *p;
    }
    if (p->steps > MOST_STEPS) {
        return error_set(err, ST_UNSUPPORTED, "%lld steps are too many for one instruction stream",
                         (long long) p->steps);
    }
    return ST_OK;
}

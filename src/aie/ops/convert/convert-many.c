// convert-many: conversions of many numbers, on the PDI of the products that want them. What packs
// an operand for a product of many rows would else load the decoder's PDI before it, and the
// product its own again. The first core of each column makes chunks of 2,048 numbers bf16, which
// come as b's slices do and leave as tiles do; the stream of words is what it waits for. The other
// cores of the column let them pass, into memory that nobody reads. All columns have an even number
// of chunks, for they take turns; the last column begins earlier where they are too many, and makes
// some numbers again.
#include "convert.h"

#include "aie/ops/mul-mat/mul-mat-design.h"
#include "aie/ops/ops.h"
#include "aie/plan/plan.h"

enum {
    LEAST = 1 << 20,    // elements of which nobody says where: fewer are done faster than a PDI
                        // is loaded
    MOST_CHUNKS = 1024, // of a column: four tasks
    CHUNK = CV_CHUNK,   // elements
    OPERAND_IN = 0,
    OPERAND_OUT = 1,
    CHANNEL = MEM_IN + 1,         // of a shim and a memtile: b's
    BUFFER = 0x0000,              // of a memtile: two chunks as they come,
    BUFFER_OUT = 8 * CHUNK,       // and two as they go
    MEM_BD_IN = ARRAY_MEM_BD_ODD, // the one that goes out behind it
    SHIM_BD_IN = 0,
    SHIM_BD_OUT = 1,
    CORE_BD_IN = CORE_BDS, // of a core; behind gemm's
    CORE_BD_OUT,
};

static int64_t chunks_of(const struct kernel_spec * spec) { // of a column
    int64_t all = tensor_elements(&spec->inputs[0]);
    return 2 * ops_parts(all, (int64_t) ops_columns(spec) * 2 * CHUNK);
}

bool convert_is_many(const struct kernel_spec * spec) {
    const struct tensor *in = &spec->inputs[0], *out = &spec->output;
    int64_t all = tensor_elements(in);
    bool fits = convert_is_placed(spec) ? all >= 2 * CHUNK && all % 2 == 0
                                        : spec->params[0] == CV_HI && all >= LEAST &&
                                              all % (2 * CHUNK * ops_columns(spec)) == 0;
    return fits && mm_beside(spec->arch, convert_beside(spec)) && in->dtype == DTYPE_F32 &&
           tensor_is_contiguous(in) && tensor_is_contiguous(out) && all == tensor_elements(out) &&
           chunks_of(spec) <= MOST_CHUNKS;
}

// ---- one column ----

static void write_memtile(const struct flow * f, int col, int64_t chunks) {
    int empty = LOCK_IN_EMPTY + 2 * CHANNEL, tile = mm_gemm_ways.tiles_in;
    struct flow_tile at = {col, ARRAY_ROW_MEM};
    struct mm_turns turns = mm_by_turns(BUFFER, CHUNK, empty);
    flow_mem_bd(f, col, MEM_BD_IN, &turns.in);
    flow_mem_bd(f, col, MEM_BD_IN + 1, &turns.out);
    for (int i = 0; i < 2; i++) { // two buffers, with the locks of two cores' tiles
        struct array_bd half = {.address = BUFFER_OUT + 2 * CHUNK * (uint32_t) i,
                                .words = CHUNK / 2,
                                .next = i ? -1 : 1,
                                .acquire = LOCK_TILE_EMPTY + 2 * i,
                                .acquire_value = -1,
                                .release = LOCK_TILE_FULL + 2 * i,
                                .release_value = 1};
        flow_mem_bd(f, col, i, &half);
        int full = half.release;
        half.release = half.acquire;
        half.acquire = full;
        half.next = i ? -1 : 3;
        flow_mem_bd(f, col, 2 + i, &half);
    }
    flow_push(f, at, MEM_S2MM_QUEUE + 8 * CHANNEL, MEM_BD_IN, chunks, false);
    flow_push(f, at, MEM_MM2S_QUEUE + 8 * (uint32_t) (mm_gemm_ways.out + 1), MEM_BD_IN + 1, chunks,
              false);
    flow_push(f, at, MEM_S2MM_QUEUE + 8 * (uint32_t) tile, 0, chunks / 2, false);
    flow_push(f, at, MEM_MM2S_QUEUE + 8 * (uint32_t) mm_gemm_ways.tiles_out, 2, chunks / 2, false);
}

static void write_core(const struct flow * f, struct flow_tile at, bool works, int64_t chunks) {
    struct array_bd x = {.address = MM_X, .words = CHUNK, .next = -1, .acquire = -1, .release = -1};
    if (works) {
        uint32_t params[MM_PARAM_MANY + 1] = {
            [MM_PARAM_TILES] = (uint32_t) chunks, [MM_PARAM_MANY] = MM_MANY_CONVERTS};
        struct array_bd out = {.address = MM_C,
                               .words = CHUNK / 2,
                               .next = -1,
                               .acquire = MM_LOCK_C_FULL,
                               .acquire_value = -1,
                               .release = MM_LOCK_C_EMPTY,
                               .release_value = 1,
                               .iterations = 2,
                               .iteration_step = MM_C_OTHER / 4};
        x.acquire = MM_LOCK_X_EMPTY;
        x.acquire_value = -1;
        x.release = MM_LOCK_X_FULL;
        x.release_value = 1;
        x.iterations = 2;
        x.iteration_step = MM_XY_OTHER / 4;
        txn_block_write(f->t, image_addr(at.col, at.row, MM_PARAMS), params, MM_PARAM_MANY + 1);
        flow_core_bd(f, at, CORE_BD_OUT, &out);
        flow_push(f, at, CORE_MM2S_QUEUE, CORE_BD_OUT, chunks, false);
    }
    flow_core_bd(f, at, CORE_BD_IN, &x);
    flow_push(f, at, CORE_S2MM_QUEUE + 8, CORE_BD_IN, chunks, false);
}

enum status convert_many_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                                struct error * err) {
    const struct aie_target * target = aie_target(p->spec.arch);
    int64_t chunks = chunks_of(&p->spec), all = tensor_elements(&p->spec.inputs[0]);
    int columns = (int) ops_parts(all, chunks * CHUNK);
    int rows = p->columns < MMP_CORE_ROWS_GEMM ? p->columns : MMP_CORE_ROWS_GEMM;
    uint32_t words = (uint32_t) (chunks * CHUNK);
    struct txn t;
    struct flow flow = {&t, target};
    txn_begin(&t, p->columns, target->device_generation);
    for (int col = 0; col < columns; col++) {
        struct flow_tile shim = {col, ARRAY_ROW_SHIM};
        struct array_bd in = {.words = words, .next = -1}, out = {.words = words / 2, .next = -1};
        flow_expect(&flow, col, 0);
        for (int row = 0; row < rows; row++) {
            write_core(&flow, (struct flow_tile){col, ARRAY_ROW_CORE + row}, row == 0, chunks);
        }
        write_memtile(&flow, col, chunks);
        int64_t first = col * chunks * CHUNK, last = all - chunks * CHUNK;
        uint32_t at = (uint32_t) (first < last ? first : last);
        flow_shim_bd(&flow, col, SHIM_BD_IN, &in, OPERAND_IN, 4 * at);
        flow_shim_bd(&flow, col, SHIM_BD_OUT, &out, OPERAND_OUT, 2 * at);
        flow_push(&flow, shim, SHIM_S2MM_QUEUE, SHIM_BD_OUT, 1, true);
        flow_push(&flow, shim, SHIM_MM2S_QUEUE + 8 * CHANNEL, SHIM_BD_IN, 1, false);
    }
    for (int col = 0; col < columns; col++) {
        flow_wait(&flow, col, 0);
    }
    return txn_end(&t, insts, n_words, err);
}

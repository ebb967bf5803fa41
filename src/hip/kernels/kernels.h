// kernels: what a host gives to the kernels of this directory. Every kernel takes one struct by
// value, so the struct is its kernarg segment, byte for byte. The header is for both sides: C11 on
// the host, HIP or CUDA in the kernels.
//
// Kept true: counts, dims and strides are in elements, never bytes, and are 32 bits wide; a tensor
// spans less than 2^32 elements, and a host splits a larger one. Dimension 0 is the innermost.
// A stride may be 0 (broadcast), of an input only. Pointers that a struct calls optional may be
// NULL. A grid is a multiple of the group's size. A kernel's kernarg segment may be longer than the
// struct, by what hipcc adds and does not use here: the rest is 0.
//
// In place: y may begin where x, a or b does, if it is of the same type and layout, for unary,
// activation, affine, binary, glu, where, rope, ggml_rope, softmax and the norms. Each element of
// such an input is read by one work-item alone, the one that writes y there, and before it does.
// Any other overlap of y with an input is not allowed, nor with a mask, sinks, a weight or a bias.
//
// Names: <family>_<op>_<type>, e.g. binary_add_f32; types are f32 f16 bf16 f64 i32 i64 u8 u32.
// f16 and bf16 are computed in f32 and rounded once, to nearest even.
#ifndef ROCM_KERNELS_ARGS_H
#define ROCM_KERNELS_ARGS_H

#ifdef ROCM_KERNELS_FREESTANDING // no C library is at hand, and none is needed
typedef __INT8_TYPE__ int8_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __INT16_TYPE__ int16_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __INT32_TYPE__ int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
#else
#    include <stdint.h>
#endif

enum {
    RK_DIMS = 6,
    RK_BLOCK = 256,     // no kernel may be started with more work-items in a group
    RK_TILE = 64,       // of matmul: rows and columns of the output that one group computes
    RK_TILE_WIDE = 128, // of matmul_wide
};

// ---- one work-item for each element: grid.x >= n, any group size up to RK_BLOCK ----

// n_dims 0: all tensors are contiguous, and the rest does not matter. Otherwise n is the product of
// the first n_dims dims, and element (i0, i1, ...) of a tensor lies at the sum of i[d] * stride[d].
struct rk_shape {
    uint32_t n;
    uint32_t n_dims;
    uint32_t dims[RK_DIMS];
};

// unary_{copy,neg,recip,exp,log,sin,cos,tanh,erf,ceil,floor,round,abs,sqr,sqrt,gelu,gelu_erf,relu,
// silu,sigmoid,sign,elu,powf}_{f32,f16,bf16,f64}. gelu is the tanh approximation; round goes away
// from zero at a half; sign of NaN is 0.
struct rk_unary {
    struct rk_shape shape;
    uint32_t x_stride[RK_DIMS], y_stride[RK_DIMS];
    const void * x;
    void * y;
    double param; // elu: alpha; powf: the exponent
};

// activation_<op>_{f32,f16,bf16}, ops of one input that activation.hip lists (step, gelu_quick,
// clamp ...), as ggml's CPU computes them, NaN and infinities too: step, hardsigmoid and leaky_relu
// make 0 of a NaN, and clamp its maximum; softplus is x above 20.
struct rk_activation {
    struct rk_shape shape;
    uint32_t x_stride[RK_DIMS], y_stride[RK_DIMS];
    const void * x;
    void * y;
    // leaky_relu: the slope below 0; clamp: minimum, maximum; xielu: alpha_n, alpha_p, beta, eps
    float param[4];
};

// affine_{f32,f16,bf16,f64,i32,i64,u8,u32}: y = x * mul + add; integers compute in f64.
struct rk_affine {
    struct rk_shape shape;
    uint32_t x_stride[RK_DIMS], y_stride[RK_DIMS];
    const void * x;
    void * y;
    double mul, add;
};

// cast_<from>_<to>, all types to all. To an integer: towards zero, at most its limits; NaN gives 0.
struct rk_cast {
    struct rk_shape shape;
    uint32_t x_stride[RK_DIMS], y_stride[RK_DIMS];
    const void * x;
    void * y;
};

// bits_{8,16,32,64}: elements of so many bits as they are. unpack_<quantized>: x's strides count
// blocks, its first is 0; dims[0] and y_stride[0] count four elements. pack_<quantized>: y's
// strides and dims[0] count blocks; the elements of one lie one behind the other.
// binary_{add,sub,mul,div,minimum,maximum}_<type>, all types. Integers wrap around; x / 0 is 0 for
// them. minimum and maximum of a NaN and a number are NaN.
// compare_{eq,ne,lt,le,gt,ge}_<type>: y holds u8, 0 or 1.
struct rk_binary {
    struct rk_shape shape;
    uint32_t a_stride[RK_DIMS], b_stride[RK_DIMS], y_stride[RK_DIMS];
    const void *a, *b;
    void * y;
};

// glu_<op>_{f32,f16,bf16}, ops of two inputs that glu.hip lists. reglu, geglu, swiglu, geglu_erf,
// geglu_quick: y = act(a) * b, where act is relu, gelu, silu, ...: a is the gate. It is 0
// whatever b is where reglu's a is not above 0, and geglu's a is -10 or less.
// swiglu_oai: y = a' / (1 + exp(-alpha a')) * (b' + 1), swiglu_clamp: y = silu(a') * b', with
// a' = min(a, limit) and b' = b within [-limit, limit].
struct rk_glu {
    struct rk_shape shape;
    uint32_t a_stride[RK_DIMS], b_stride[RK_DIMS], y_stride[RK_DIMS];
    const void *a, *b;
    void * y;
    float param[2]; // swiglu_oai: alpha, limit; swiglu_clamp: nothing, limit
};

// where_<condition>_<type>: y = condition ? a : b; conditions are u8, u32 or i64.
struct rk_where {
    struct rk_shape shape;
    uint32_t condition_stride[RK_DIMS], a_stride[RK_DIMS], b_stride[RK_DIMS], y_stride[RK_DIMS];
    const void *condition, *a, *b;
    void * y;
};

// fill_<type>: y = value.
struct rk_fill {
    struct rk_shape shape;
    uint32_t y_stride[RK_DIMS];
    void * y;
    uint64_t value; // the bits of one element, in the low bytes
};

// get_rows_{f32,f16,bf16}: y[i0][i1][...] = x[i0][id][...] with id = ids[i1][...]. x is of the
// type, y f32, ids i32; an id that is out of range gives 0. f32 is moved bit for bit, so it does
// for every type of 4 bytes. Of quantized types dims[0] and y_stride[0] count four elements, x's
// strides blocks, and its first is 0.
struct rk_get_rows {
    struct rk_shape shape; // of y; n_dims is at least 2
    // x's stride of dimension 1 and ids' of dimension 0 are 0: row_stride is x's of an id
    uint32_t x_stride[RK_DIMS], ids_stride[RK_DIMS], y_stride[RK_DIMS];
    uint32_t n_rows; // ids are less
    uint32_t row_stride;
    const void *x, *ids;
    void * y;
};

// set_rows_<index>_{f32,f16,bf16}: y[i0][id][...] = x[i0][i1][...] with id = ids[i1][...]. x is
// f32, y of the type, ids i32 or i64; an id that is out of range writes nothing, and of equal ones
// any may stay. ggml's ids repeat over dimensions 2 and 3 of x. Where such a dimension of x is not
// as long as that of ids, it becomes two: the first as long, the second with an ids' stride of 0.
// To quantized types: dims[0] and y's strides count blocks; the elements of one lie one behind the
// other.
struct rk_set_rows {
    struct rk_shape shape; // of x; n_dims is at least 2
    // y's stride of dimension 1 and ids' of dimension 0 are 0: row_stride is y's of an id
    uint32_t x_stride[RK_DIMS], ids_stride[RK_DIMS], y_stride[RK_DIMS];
    uint32_t n_rows; // ids are less
    uint32_t row_stride;
    const void *x, *ids;
    void * y;
};

// ---- one group for each row: the group's size is a power of two, at most RK_BLOCK; grid.x is the
// number of rows times it ----

// Row r of x begins at i1 * stride[0] + i2 * stride[1] + i3 * stride[2], where r counts
// i1 < dims[0], i2 < dims[1] and then i3. Elements within a row are `step` apart.
struct rk_rows {
    uint32_t n_columns;
    uint32_t dims[2];
    uint32_t stride[3];
    uint32_t step;
};

// reduce_{sum,min,max}_<type>: y[r], of the same type. reduce_{argmin,argmax}_<type>: y[r] is u32,
// the first of equals. A NaN is less than every number for min and greater for max: it wins.
struct rk_reduce {
    struct rk_rows rows;
    const void * x;
    void * y; // contiguous
};

// softmax_{f32,f16,bf16,f64}: y[r][c] = exp(v - max v) / sum, with v = x * scale + slope * mask.
// softmax_mask16_f32: the same with a mask of f16. The mask's row for (i1, i2, i3) is at the sum of
// i1 * mask_stride[0], i2 % mask_dims[0] * mask_stride[1] and i3 % mask_dims[1] * mask_stride[2].
// slope is 1, or with n_heads_log2 > 0 that of ALiBi: m0^(i2 + 1) for i2 < n_heads_log2, and
// m1^(2 * (i2 - n_heads_log2) + 1) behind. A sink is one more v of each row of its i2: it counts in
// the greatest and in the sum, and has no y. A row whose v are all -inf is NaN, and 0 if its sink
// is greater.
struct rk_softmax {
    struct rk_rows rows;
    uint32_t mask_dims[2];
    uint32_t mask_stride[3];
    uint32_t n_heads_log2;
    float scale, m0, m1;
    const void * x;
    const void * mask;   // optional; of x's type
    void * y;            // contiguous
    const float * sinks; // optional; dims[1] of them
};

// rms_norm_{f32,f16,bf16,f64}: y = x / sqrt(mean of x^2 + eps) * weight + bias.
// layer_norm_{f32,f16,bf16,f64}: y = (x - mean) / sqrt(variance + eps) * weight + bias.
struct rk_norm {
    struct rk_rows rows;
    float eps;
    const void * x;
    const void *weight, *bias; // optional, n_columns each; of x's type
    void * y;                  // contiguous
    uint32_t bias_stride;      // of rows: 0 where they share one, n_columns where it is a tensor
};

// sort_runs: the columns of each row of f32 in the order of their numbers, the first of equals
// first, of RK_RUN columns at a time; groups of RK_BLOCK, grid in groups x = columns / RK_RUN,
// rounded up, y = rows. sort_merge: of two sorted runs of `run` columns one; grid.x >= columns,
// y = rows. The last of them has no `to` and writes n_wanted columns of each row to y; those
// before it write words to `to` for the next one's `from`, as many as x has elements.
enum { RK_RUN = 2048 };
struct rk_sort {
    struct rk_rows rows;
    uint32_t n_wanted, descending;
    uint32_t run;
    const void * x;
    int32_t * y; // contiguous
    const uint64_t * from;
    uint64_t * to;
};

// ---- rope: one work-item for each pair: grid.x >= n_pairs ----

// rope_{f32,f16,bf16,f64}: pairs are (d, d + n_columns / 2); rope_i_<type>: (2 d, 2 d + 1).
// x and y are [batch * heads][positions][n_columns], contiguous; cos and sin are
// [positions][n_columns / 2], and of each batch its own where batch_stride is not 0.
struct rk_rope {
    uint32_t n_pairs;   // of all of x
    uint32_t n_columns; // even
    uint32_t n_positions;
    uint32_t n_heads;      // rows of positions that share the tables of one batch
    uint32_t batch_stride; // from the tables of one batch to the next, in elements
    const void *x, *cos, *sin;
    void * y;
};

enum { // ggml's numbers
    RK_ROPE_NORMAL = 0,
    RK_ROPE_NEOX = 2,
    RK_ROPE_MROPE = 8,
    RK_ROPE_VISION = 24,
    RK_ROPE_IMROPE = 40,
};

// ggml_rope_{f32,f16}: ggml's ROPE and ROPE_BACK. In each row n_rotated elements from `first` on
// are turned in pairs, and the others copied. Pair p is (2 p, 2 p + 1) from `first` for NORMAL,
// else (p, p + n_rotated / 2); for VISION n_rotated is dims[0] / 2, `first` is 0, and pair p of
// the whole row is (p, p + n_rotated).
//
// Pair p turns by position * exp(p * log_step) / factors[p]. NORMAL and NEOX have one position for
// each i2. The others have four, and `sections` says how many pairs each of them turns, one section
// behind the other and from the first again; VISION counts p anew in each. IMROPE's first three
// take pairs in turn, 3 times as far as their section is long, and the fourth has what they leave.
//
// YaRN: the angle is multiplied by freq_scale * (1 - m) + m, where m goes from `extend` at
// p = ramp[0] down to 0 at ramp[1].
//
// ggml_rope_rows_{f32,f16,bf16}: the same of f32, and rows by their numbers behind it, ggml's
// SET_ROWS: what would be at i2 of y, which is of the type, is at ids[i2] instead. dims[3] is 1. An
// id that is out of range writes nothing.
struct rk_ggml_rope {
    uint32_t n_pairs; // elements of x / 2
    uint32_t dims[4]; // dims[0] is even
    uint32_t x_stride[4], y_stride[4];
    uint32_t n_rotated;   // ggml's n_dims; even
    uint32_t first;       // even; first + n_rotated <= dims[0]
    uint32_t mode;        // RK_ROPE_*
    uint32_t sections[4]; // their sum is not 0, except for NORMAL and NEOX
    float ramp[2];        // of ggml_rope_yarn_corr_dims
    float freq_scale;
    float extend; // ggml's ext_factor; 0: no YaRN
    // attn_factor, times 1 + 0.1 * log(1 / freq_scale) where extend is not 0. Of ROPE_BACK
    // sin_scale is the negative.
    float cos_scale, sin_scale;
    double log_step; // log(freq_base) * -2 / n_rotated
    const void * x;
    const int32_t * positions; // dims[2] of them, or dims[2] for each of the four
    const float * factors;     // optional; as many as pairs of a row are turned
    void * y;
    const int64_t * ids; // of ggml_rope_rows: dims[2] of them, each below n_rows
    uint32_t n_rows;
};

// ---- nodes of a ggml graph ----

// ggml_<op>, with datatypes behind it where there are several: a node as ggml has it. Strides count
// elements, or blocks where the type is quantized; the stride of a dimension of one is 0. An input
// that is left out has no data. What each op's params are is ggml's matter (ggml_<op> of ggml.c).
// Groups are of RK_BLOCK work-items. One work-item for each of n where n is not 0; else the
// kernel's file says what a group does.
enum { RK_SOURCES = 8, RK_PARAMS = 16 };
enum { RK_STATE_ROWS = 16, RK_STATE_COLUMNS = 256 }; // of a state: those of a group; at most
struct rk_tensor {
    uint32_t ne[4], stride[4];
    void * data;
};
struct rk_node {
    struct rk_tensor y;
    struct rk_tensor x[RK_SOURCES];
    uint32_t n;
    int32_t param[RK_PARAMS]; // floats by their bits
};

// ---- matmul ----

// matmul_{f32,f16,bf16,f64}; matmul_{f16_f32,bf16_f32}: a of the first type, b and y f32;
// matmul_{f16_f16_f32,bf16_bf16_f32,f32_f16_f32}: types of a, of b, and of y.
// matmul_<quantized>_f32, of ggml's formats that blocks.h and blocks_grids.h have: rows of a are
// blocks, and its strides and batches count these; the stride of k is 1, of b too. y[i][j] = sum
// over k of a[i][k] * b[k][j]. Groups of RK_BLOCK x 1 x 1, grid in groups: x = columns / RK_TILE, y
// = rows / RK_TILE, both rounded up, z = batches. matmul_wide_*: the same with RK_TILE_WIDE, of all
// but f64 and quantized types. matmul_matrix_*, matmul_matrix_wide_*: the same by matrix
// instructions where the GPU has them, of f16_f32, bf16_f32, f16_f16_f32, bf16_bf16_f32 and
// quantized types; a b of f32 is then rounded to a's type, or to f16 as quantized rows are.
// matvec_*: the same for few columns: grid in groups x = rows, y = columns, z = batches; groups are
// a power of two up to RK_BLOCK. Batch z is (z % dims[0], z / dims[0]); a's is each divided by
// a_share, so that one matrix a may serve several b.
struct rk_matmul {
    uint32_t n_rows, n_columns, n_inner;
    uint32_t dim;         // batches in the first of the two batch dimensions
    uint32_t a_share[2];  // 1: a has as many batches as b
    uint32_t a_stride[2]; // of i and of k
    uint32_t b_stride[2]; // of k and of j
    uint32_t y_stride[2]; // of i and of j
    // strides of the two batch dimensions
    uint32_t a_batch[2], b_batch[2], y_batch[2];
    const void *a, *b;
    void * y;
};

// columns_q8: b of f32 to bytes, as ggml's CPU has it for products with quantized rows: of each 32
// numbers along k the scale d is their greatest size / 127, and a byte is a number / d, rounded. y
// holds all columns, batch by batch, each RK_Q8_BYTES long: of each 32 bytes the first 16, of each
// the others, and an rk_scale for each. Grid: x >= n_inner / 4, y = columns, z = batches; groups
// are a multiple of 32. matvec_<quantized>_q8: the product of up to RK_COLUMNS of such columns,
// which b holds; a's rows are read once. matvec_one_<quantized>_q8 the same for one column. Groups
// of RK_BLOCK; grid in groups x = rows / RK_ROWS, y = columns / RK_COLUMNS, both rounded up, z =
// batches. matvec_direct_<quantized>_q8, of blocks of 32 numbers: one column too; groups of
// RK_DIRECT_GROUP have RK_ROWS_DIRECT rows each. 16 bytes that hold a byte of a are there as a
// whole.
enum { RK_COLUMNS = 8, RK_ROWS = 16, RK_ROWS_DIRECT = 4 };
#define RK_DIRECT_GROUP(inner) ((inner) > 4096 ? 128 : 64)
#define RK_Q8_BYTES(inner)     (((inner) / 32 * 40 + 15) / 16 * 16)
struct rk_scale {
    float d;
    int16_t sums[2]; // of the first 16 bytes, and of the others
};

// matmul_id_<a>_f32, matvec_id_<a>_f32: the same for b and y of f32 where each column has a matrix
// of its own, a's batch ids[slot][token]. Columns are pairs of slot and token, n_columns of them:
// b_stride[1] and y_stride[1] are those of slots, b_batch[0] and y_batch[0] of tokens, a_batch[0]
// of matrices. matvec_id: grid in groups x = rows, y = n_columns. matmul_id: groups of RK_BLOCK, x
// = n_columns / RK_TILE, y = rows / RK_TILE, rounded up, z = n_experts, behind matmul_id_lists with
// n_experts + 1 groups of RK_BLOCK, which fills lists.
struct rk_matmul_id {
    struct rk_matmul m;
    uint32_t n_slots, b_slots; // of ids and y; of b, whose slots repeat
    uint32_t n_experts;
    uint32_t ids_stride[2];
    const int32_t * ids;
    uint32_t * lists; // n_experts counts, then n_columns words for each expert
};

// ---- attention ----

// attention_<type>, attention_few_<type>, attention_one_<type>: ggml's FLASH_ATTN_EXT, K and V of
// the type, which is a float or quantized, Q and y of f32. y = softmax(scale * Q K + slope * mask)
// V, with cap * tanh(scale * Q K) where cap is not 0. Slopes and sinks are softmax's. Strides are
// of keys or queries, heads and batches (y: heads, queries, batches), in elements or blocks; rows
// are contiguous. Groups of RK_BLOCK; grid in groups: x = n_queries * share / 8, rounded up, or /
// RK_FEW_ROWS, rounded up, for attention_few, or n_queries * share for attention_one; y =
// n_kv_heads * batches; z = n_splits.
// attention_join: behind any where n_splits is more than 1; a group for each of all rows.
#define RK_PART(v_size) ((v_size) + 4) // floats of a split of a row: sums, maximum, share
enum {
    RK_HEAD = 576,     // k_size and v_size are multiples of 4 up to it
    RK_FEW_HEAD = 256, // and of 8 up to it of attention_few and attention_one
    RK_FEW_ROWS = 4,
    RK_SPLITS = 64, // n_splits at most
};
struct rk_attention {
    uint32_t k_size, v_size;
    uint32_t n_queries, n_keys;
    uint32_t n_kv_heads, share; // heads of Q for each head of K and V
    uint32_t kv_repeats;        // batches of Q for each of K and V
    uint32_t q_stride[3], k_stride[3], v_stride[3], y_stride[3];
    uint32_t mask_dims[2], mask_stride[3];
    uint32_t n_splits, split_keys; // split z has the keys from z * split_keys on
    uint32_t n_heads_log2;
    float scale, cap, m0, m1;
    const void *q, *k, *v;
    const void * mask;   // optional; f16
    const float * sinks; // optional
    void * y;
    float * parts; // with several splits: RK_PART for each of each row, aligned to 16 bytes
};

// ---- index: one work-item for each (left, index, right) of the output, or see below ----

// Tensors are contiguous, seen as [n_left][dim][n_right]; `dim` is the one that is indexed.
// Indices are u8, u32 or i64; one that is out of range gives 0, or is left out by scatter_add.
// index_select_<index>_<type>: y[l][i][r] = x[l][ids[i]][r]; grid.x >= n_left * n_ids * n_right.
// gather_<index>_<type>: y[l][i][r] = x[l][ids[l][i][r]][r]; same grid.
// scatter_add_<index>_<type>: y[l][ids[l][i][r]][r] += x[l][i][r], in the order of i, for x of
// [n_left][n_ids][n_right] and y of [n_left][dim][n_right]; grid.x >= n_left * n_right.
struct rk_index {
    uint32_t n_left, n_ids, n_right;
    uint32_t dim;
    const void *ids, *x;
    void * y;
};

#endif

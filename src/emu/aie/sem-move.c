// sem-move: bytes moved within x registers: broadcast, extract, insert, push, shift, shuffle. Plain
// vmov is the core's.
//
// Kept true: an index counts modulo the number of lanes; nothing here looks at values.
#include "emu/aie/sem.h"

#include <pthread.h>
#include <string.h>

enum { X_BYTES = 64 };

static void broadcast(uint8_t * out, const uint8_t * lane, int width) {
    for (int i = 0; i < X_BYTES; i += width) {
        memcpy(out + i, lane, (size_t) width);
    }
}

// ---- shuffle ----

// Mode m sees s1 and s2 as one row of bytes and cuts it into blocks; each block is a matrix of
// rows x cols elements and is transposed; the result is half `half` of it.
struct shuffle_mode {
    uint8_t element, rows, cols, half;
};

static const struct shuffle_mode shuffle_modes[] = {
    {1, 64, 2, 0},
    {1, 64, 2, 1},
    {2, 32, 2, 0},
    {2, 32, 2, 1}, // 0
    {4, 16, 2, 0},
    {4, 16, 2, 1},
    {8, 8, 2, 0},
    {8, 8, 2, 1}, // 4
    {16, 4, 2, 0},
    {16, 4, 2, 1},
    {32, 2, 2, 0},
    {32, 2, 2, 1}, // 8
    {16, 2, 4, 0},
    {16, 2, 4, 1},
    {8, 2, 8, 0},
    {8, 2, 8, 1}, // 12
    {4, 2, 16, 0},
    {4, 2, 16, 1},
    {2, 2, 32, 0},
    {2, 2, 32, 1}, // 16
    {1, 2, 64, 0},
    {1, 2, 64, 1},
    {64, 1, 2, 0},
    {64, 1, 2, 1}, // 20
    {2, 16, 4, 0},
    {2, 16, 4, 1},
    {2, 4, 16, 0},
    {2, 4, 16, 1}, // 24
    {2, 8, 4, 0},
    {2, 4, 8, 0},
    {4, 8, 4, 0},
    {4, 8, 4, 1}, // 28
    {4, 4, 8, 0},
    {4, 4, 8, 1},
    {4, 4, 4, 0},
    {1, 8, 8, 0}, // 32
    {1, 16, 4, 0},
    {1, 4, 16, 0},
    {0, 0, 0, 0},
    {2, 4, 4, 0}, // 36: 38 is the flip
    {2, 4, 2, 0},
    {2, 2, 4, 0},
    {2, 8, 2, 0},
    {2, 2, 8, 0}, // 40
    {2, 16, 2, 0},
    {2, 2, 16, 0},
    {1, 8, 4, 0},
    {1, 4, 8, 0}, // 44
    // aie2p only; 48 to 51 have a published name, but nobody has seen what they do
    {1, 0, 0, 0},
    {1, 0, 0, 0},
    {1, 0, 0, 0},
    {1, 0, 0, 0}, // 48
    {2, 8, 8, 0},
    {2, 8, 8, 1}, // 52
};

enum {
    N_MODES = sizeof(shuffle_modes) / sizeof(shuffle_modes[0]),
    FIRST_NEW_MODE = 48
}; // aie2p's alone

// Source byte (0-63 s1, 64-127 s2) of each result byte; built once, from the modes.
static uint8_t routes[N_MODES][X_BYTES];
static pthread_once_t routes_once = PTHREAD_ONCE_INIT;

static void build_routes(void) {
    for (int mode = 0; mode < N_MODES; mode++) {
        const struct shuffle_mode * m = &shuffle_modes[mode];
        int block = m->element * m->rows * m->cols;
        for (int i = 0; i < X_BYTES; i++) {
            if (m->element == 0) { // swaps the 16-bit halves of each 32-bit lane
                routes[mode][i] = (uint8_t) (i ^ 2);
                continue;
            }
            if (block == 0) {
                continue;
            }
            int to = i + m->half * X_BYTES, element = to % block / m->element;
            int r = element % m->rows, c = element / m->rows;
            routes[mode][i] =
                (uint8_t) (to / block * block + (r * m->cols + c) * m->element + to % m->element);
        }
    }
}

// ---- shuffle, fast: a register seen as one matrix ----

// Element i of the first half, then element i of the second half: in the number of an element the
// highest bit becomes the lowest. log2(rows) of these transpose rows x cols.
typedef uint8_t v16b __attribute__((vector_size(16)));
typedef uint16_t v8h __attribute__((vector_size(16)));
typedef uint32_t v4w __attribute__((vector_size(16)));

static inline void interleave(v16b v[4], int element) {
    v16b from[4] = {v[0], v[1], v[2], v[3]};
    for (int i = 0; i < 2; i++) {
        v16b a = from[i], b = from[i + 2];
        if (element == 1) {
            v[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                               22, 7, 23);
            v[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                                   29, 14, 30, 15, 31);
        } else if (element == 2) {
            v8h c = (v8h) a, d = (v8h) b;
            v[2 * i] = (v16b) __builtin_shufflevector(c, d, 0, 8, 1, 9, 2, 10, 3, 11);
            v[2 * i + 1] = (v16b) __builtin_shufflevector(c, d, 4, 12, 5, 13, 6, 14, 7, 15);
        } else {
            v4w c = (v4w) a, d = (v4w) b;
            v[2 * i] = (v16b) __builtin_shufflevector(c, d, 0, 4, 1, 5);
            v[2 * i + 1] = (v16b) __builtin_shufflevector(c, d, 2, 6, 3, 7);
        }
    }
}

// False: not a mode of this kind.
static bool transpose(uint8_t * out, const uint8_t * s1, uint32_t mode) {
    v16b v[4];
    memcpy(v, s1, sizeof(v));
#define TIMES2(element) interleave(v, element), interleave(v, element)
    switch (mode) {
    case 28: // 8 x 4 of 16 bits
        TIMES2(2), interleave(v, 2);
        break;
    case 29: // 4 x 8 of 16 bits
        TIMES2(2);
        break;
    case 34: // 4 x 4 of 32 bits
        TIMES2(4);
        break;
    case 35: // 8 x 8 of 8 bits
        TIMES2(1), interleave(v, 1);
        break;
    case 36: // 16 x 4 of 8 bits
        TIMES2(1), TIMES2(1);
        break;
    case 37: // 4 x 16 of 8 bits
        TIMES2(1);
        break;
    default:
        return false;
    }
#undef TIMES2
    memcpy(out, v, sizeof(v));
    return true;
}

// Whole elements, or pieces of large ones.
#define GATHER(width)                                                                              \
    for (int i = 0; i < X_BYTES; i += (width)) {                                                   \
        memcpy(out + i, both + (routes[mode][i] & 127), (width));                                  \
    }

// A mode below N_MODES.
static void route(uint8_t * out, const uint8_t * s1, const uint8_t * s2, uint32_t mode) {
    uint8_t both[2 * X_BYTES];
    if (transpose(out, s1, mode)) {
        return;
    }
    pthread_once(&routes_once, build_routes);
    memcpy(both, s1, X_BYTES);
    memcpy(both + X_BYTES, s2, X_BYTES);
    switch (shuffle_modes[mode].element) {
    case 1:
        GATHER(1);
        break;
    case 0: // the flip
    case 2:
        GATHER(2);
        break;
    case 4:
        GATHER(4);
        break;
    default:
        GATHER(8);
    }
}

static void shuffle(uint8_t * out, const uint8_t * s1, const uint8_t * s2, uint32_t mode) {
    mode &= 63;
    if (mode >= FIRST_NEW_MODE) { // silicon routes one byte and zeroes the rest
        uint8_t first = s1[0];
        memset(out, 0, X_BYTES);
        out[0] = first;
        return;
    }
    route(out, s1, s2, mode);
}

static bool vshuffle(struct core_exec * x) {
    shuffle(x->out[0], x->in[1], x->in[2], load_u32(x->in[3]));
    return true;
}

// ---- shift ----

// Bytes from s1 on, n further, with s2 behind it; zero behind that.
static void shift_bytes(uint8_t * out, const uint8_t * s1, const uint8_t * s2, uint32_t pre,
                        uint32_t n) {
    uint8_t both[3 * X_BYTES] = {0};
    memset(out, 0, X_BYTES);
    if (n >= 2 * X_BYTES) {
        return;
    }
    memcpy(both + X_BYTES, s2, X_BYTES);
    memcpy(out, both + n, X_BYTES);
    if (n < X_BYTES) {
        for (uint32_t i = 0; i < X_BYTES - n; i++) {
            out[i] = i + pre < X_BYTES ? s1[i + pre] : 0;
        }
    }
}

static bool vshift(struct core_exec * x) {
    uint32_t n = load_u32(x->in[3]);
    shift_bytes(x->out[0], x->in[1], x->in[2], n, n);
    return true;
}

// The bytes of s1 start at 4 * pre instead of the shift. Seen on silicon for pre = 1.
static bool vshift_align(struct core_exec * x) {
    uint32_t pre = load_u32(x->in[2]), n = load_u32(x->in[4]);
    if (pre > 15 && n < X_BYTES) {
        return false;
    }
    shift_bytes(x->out[0], x->in[1], x->in[3], 4 * (pre & 15), n);
    return true;
}

// ---- one lane in, one lane out ----

static bool vbcst(struct core_exec * x, int width) {
    broadcast(x->out[0], x->in[1], width);
    return true;
}

static bool vbcstshfl(struct core_exec * x, int width) {
    static const uint8_t zero[X_BYTES];
    uint8_t s1[X_BYTES];
    broadcast(s1, x->in[1], width);
    shuffle(x->out[0], s1, zero, sem_implicit(x, AIE_REG(AIE_R, 29), 0));
    return true;
}

static int lane_offset(uint32_t index, int width) {
    return (int) (index % (uint32_t) (X_BYTES / width)) * width;
}

static bool vextbcst(struct core_exec * x, int width) {
    uint32_t index = x->in[2] ? load_u32(x->in[2]) : (uint32_t) x->imm[2];
    broadcast(x->out[0], x->in[1] + lane_offset(index, width), width);
    return true;
}

// not seen on silicon: index modulo the lane count, as vextbcst does
static bool vextract_at(struct core_exec * x, int width, bool is_signed, uint32_t index) {
    const uint8_t * lane = x->in[1] + lane_offset(index, width);
    uint32_t v = 0;
    switch (width) {
    case 1:
        v = is_signed ? (uint32_t) (int8_t) lane[0] : lane[0];
        break;
    case 2:
        v = (uint32_t) lane[0] | (uint32_t) lane[1] << 8;
        v = is_signed ? (uint32_t) (int16_t) v : v;
        break;
    case 8:
        memcpy(x->out[0] + 4, lane + 4, 4);
        v = load_u32(lane);
        break;
    default:
        v = load_u32(lane);
    }
    store_u32(x->out[0], v);
    return true;
}

static bool vextract(struct core_exec * x, int width, bool is_signed) {
    return vextract_at(x, width, is_signed, load_u32(x->in[2]));
}

static bool vinsert(struct core_exec * x, int width) {
    memcpy(x->out[0], x->in[1], X_BYTES);
    memcpy(x->out[0] + lane_offset(sem_implicit(x, AIE_REG(AIE_R, 29), 0), width), x->in[2],
           (size_t) width);
    return true;
}

static bool vpush_hi(struct core_exec * x, int width) {
    memcpy(x->out[0], x->in[1] + width, (size_t) (X_BYTES - width));
    memcpy(x->out[0] + X_BYTES - width, x->in[2], (size_t) width);
    return true;
}

static bool vpush_lo(struct core_exec * x, int width) {
    memcpy(x->out[0] + width, x->in[2], (size_t) (X_BYTES - width));
    memcpy(x->out[0], x->in[1], (size_t) width);
    return true;
}

static bool vclr(struct core_exec * x, int width) {
    memset(x->out[0], 0, (size_t) width);
    sem_status(x, 0);
    return true;
}

// ---- records ----

#define WIDTHS(name)                                                                               \
    static bool name##_8(struct core_exec * x) {                                                   \
        return name(x, 1);                                                                         \
    }                                                                                              \
    static bool name##_16(struct core_exec * x) {                                                  \
        return name(x, 2);                                                                         \
    }                                                                                              \
    static bool name##_32(struct core_exec * x) {                                                  \
        return name(x, 4);                                                                         \
    }                                                                                              \
    static bool name##_64(struct core_exec * x) {                                                  \
        return name(x, 8);                                                                         \
    }

#define WIDTH_ROWS(NAME, tail, name)                                                               \
    {NAME "8" tail, name##_8}, {NAME "16" tail, name##_16}, {NAME "32" tail, name##_32}, {         \
        NAME "64" tail, name##_64                                                                  \
    }

WIDTHS(vbcst)
WIDTHS(vbcstshfl)
WIDTHS(vextbcst)
WIDTHS(vinsert)
WIDTHS(vpush_hi)
WIDTHS(vpush_lo)

static bool vextract_signed(struct core_exec * x, int width) {
    return vextract(x, width, true);
}

static bool vextract_dynamic(struct core_exec * x, int width) {
    return vextract(x, width, sem_control(x, AIE_CR_VADD_SIGN) & 1);
}

WIDTHS(vextract_signed)
WIDTHS(vextract_dynamic)

static bool vclr_cm(struct core_exec * x) {
    return vclr(x, 128);
}

static bool vclr_bm(struct core_exec * x) {
    return vclr(x, 64);
}

static const struct core_semantic rows[] = {
    WIDTH_ROWS("VBCST_", "", vbcst),
    WIDTH_ROWS("VBCSTSHFL_", "", vbcstshfl),
    WIDTH_ROWS("VEXTBCST_", "_mExtractIdxImm", vextbcst),
    WIDTH_ROWS("VEXTBCST_", "_mRm", vextbcst),
    WIDTH_ROWS("VEXTRACT_S", "", vextract_signed),
    WIDTH_ROWS("VEXTRACT_D", "", vextract_dynamic),
    WIDTH_ROWS("VINSERT_", "", vinsert),
    WIDTH_ROWS("VPUSH_HI_", "", vpush_hi),
    WIDTH_ROWS("VPUSH_LO_", "", vpush_lo),
    {"VSHUFFLE", vshuffle},
    {"VSHIFT", vshift},
    {"VSHIFT_ALIGN", vshift_align},
    {"VCLR_vclr", vclr_cm},
    {"VCLR_vclr_BF", vclr_bm},
};

const struct sem_family sem_moves = SEM_FAMILY(rows);

// ---- aie2p ----

// Modes that no program was seen to use are refused, not guessed.
static bool shuffle_aie2p(uint8_t * out, const uint8_t * s1, const uint8_t * s2, uint32_t mode) {
    if (mode >= N_MODES || (mode >= FIRST_NEW_MODE && shuffle_modes[mode].rows == 0)) {
        return false;
    }
    route(out, s1, s2, mode);
    return true;
}

static bool vshuffle_aie2p(struct core_exec * x) {
    return shuffle_aie2p(x->out[0], x->in[1], x->in[2], load_u32(x->in[3]));
}

static bool vbcstshfl_aie2p(struct core_exec * x, int width) {
    static const uint8_t zero[X_BYTES];
    uint8_t s1[X_BYTES];
    broadcast(s1, x->in[1], width);
    return shuffle_aie2p(x->out[0], s1, zero, sem_implicit(x, AIE_REG(AIE_R, 29), 0));
}

// One lane everywhere, then a shuffle of that with itself.
static bool vextbcstshfl(struct core_exec * x, int width) {
    uint8_t s1[X_BYTES];
    broadcast(s1, x->in[1] + lane_offset(load_u32(x->in[2]), width), width);
    return shuffle_aie2p(x->out[0], s1, s1, sem_implicit(x, AIE_REG(AIE_R, 29), 0));
}

static bool vextbcst_128(struct core_exec * x) {
    return vextbcst(x, 16);
}

static bool vextbcstshfl_16(struct core_exec * x) {
    return vextbcstshfl(x, 2);
}

static bool vextbcstshfl_32(struct core_exec * x) {
    return vextbcstshfl(x, 4);
}

static bool vextbcstshfl_64(struct core_exec * x) {
    return vextbcstshfl(x, 8);
}

static bool vextbcstshfl_128(struct core_exec * x) {
    return vextbcstshfl(x, 16);
}

static bool vextract_aie2p(struct core_exec * x, int width) {
    uint32_t index = x->in[2] ? load_u32(x->in[2]) : (uint32_t) x->imm[2];
    return vextract_at(x, width, sem_sign(x), index);
}

WIDTHS(vbcstshfl_aie2p)
WIDTHS(vextract_aie2p)

static bool vclr_dm(struct core_exec * x) {
    return vclr(x, 256);
}

// The upper half of w: not seen, nothing depends on it.
static bool vmov_w_q(struct core_exec * x) {
    memcpy(x->out[0], x->in[1], 16);
    memset(x->out[0] + 16, 0, 16);
    return true;
}

static bool vmov_q_w(struct core_exec * x) {
    memcpy(x->out[0], x->in[1], 16);
    return true;
}

static const struct core_semantic rows_aie2p[] = {
    WIDTH_ROWS("VBCST_", "", vbcst),
    WIDTH_ROWS("VBCSTSHFL_", "_*", vbcstshfl_aie2p),
    WIDTH_ROWS("VEXTBCST_", "_*", vextbcst),
    {"VEXTBCST_128_*", vextbcst_128},
    {"VEXTBCSTSHFL_16", vextbcstshfl_16},
    {"VEXTBCSTSHFL_32", vextbcstshfl_32},
    {"VEXTBCSTSHFL_64", vextbcstshfl_64},
    {"VEXTBCSTSHFL_128", vextbcstshfl_128},
    WIDTH_ROWS("VEXTRACT_", "_*", vextract_aie2p),
    WIDTH_ROWS("VINSERT_", "_*", vinsert),
    WIDTH_ROWS("VPUSH_hi_", "", vpush_hi),
    WIDTH_ROWS("VPUSH_lo_", "", vpush_lo),
    {"VSHUFFLE_vec_shuffle_x", vshuffle_aie2p},
    {"VSHUFFLE_vec_shuffle_bm", vshuffle_aie2p},
    {"VSHIFT", vshift},
    {"VSHIFT_ALIGN", vshift_align},
    {"VCLR", vclr_dm},
    {"VMOV_alu_mv_mv_q_to_w", vmov_w_q},
    {"VMOV_alu_mv_mv_w_to_q", vmov_q_w},
};

const struct sem_family sem_moves_aie2p = SEM_FAMILY(rows_aie2p);

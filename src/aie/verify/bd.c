// bd: descriptors. Each kind of tile keeps its fields elsewhere; a table says where, and reading
// one also gives how far its words lie from its address, over all dimensions and iterations.
#include "model.h"

// clang-format off
enum field {
    WORDS, ADDRESS, VALID, CHAINED, NEXT, OUT_OF_ORDER, COMPRESSED, SECURE, STREAM_ID,
    STEP0, STEP1, STEP2, STEP3, WRAP0, WRAP1, WRAP2,
    BEFORE0, BEFORE1, BEFORE2, AFTER0, AFTER1, AFTER2,
    ITERATION, ITERATIONS, ITERATION_STEP,
    ACQUIRES, ACQUIRE, RELEASE_VALUE, RELEASE, HEADER,
    FIELDS
};

struct place {
    uint8_t word, high, low; // high 0: it has no such field, and 0 stands for it
};

static const struct place layout[TILE_KINDS][FIELDS] = {
    [TILE_SHIM] = {
        [WORDS] = {0, 31, 0}, [VALID] = {7, 25, 25}, [CHAINED] = {7, 26, 26}, [NEXT] = {7, 30, 27},
        [OUT_OF_ORDER] = {2, 29, 24}, [SECURE] = {3, 30, 30}, [STREAM_ID] = {5, 31, 28},
        [STEP0] = {3, 19, 0}, [STEP1] = {4, 19, 0}, [STEP2] = {5, 19, 0},
        [WRAP0] = {3, 29, 20}, [WRAP1] = {4, 29, 20},
        [ITERATION] = {6, 31, 26}, [ITERATIONS] = {6, 25, 20}, [ITERATION_STEP] = {6, 19, 0},
        [ACQUIRES] = {7, 12, 12}, [ACQUIRE] = {7, 3, 0},
        [RELEASE_VALUE] = {7, 24, 18}, [RELEASE] = {7, 16, 13}, [HEADER] = {2, 30, 30},
    },
    [TILE_MEM] = {
        [WORDS] = {0, 16, 0}, [ADDRESS] = {1, 18, 0},
        [VALID] = {7, 31, 31}, [CHAINED] = {1, 19, 19}, [NEXT] = {1, 25, 20},
        [OUT_OF_ORDER] = {0, 22, 17}, [COMPRESSED] = {4, 31, 31},
        [STEP0] = {2, 16, 0}, [STEP1] = {3, 16, 0}, [STEP2] = {4, 16, 0}, [STEP3] = {5, 16, 0},
        [WRAP0] = {2, 26, 17}, [WRAP1] = {3, 26, 17}, [WRAP2] = {4, 26, 17},
        [BEFORE0] = {1, 31, 26}, [BEFORE1] = {3, 31, 27}, [BEFORE2] = {4, 30, 27},
        [AFTER0] = {5, 22, 17}, [AFTER1] = {5, 27, 23}, [AFTER2] = {5, 31, 28},
        [ITERATION] = {6, 28, 23}, [ITERATIONS] = {6, 22, 17}, [ITERATION_STEP] = {6, 16, 0},
        [ACQUIRES] = {7, 15, 15}, [ACQUIRE] = {7, 7, 0},
        [RELEASE_VALUE] = {7, 30, 24}, [RELEASE] = {7, 23, 16}, [HEADER] = {0, 31, 31},
    },
    [TILE_CORE] = {
        [WORDS] = {0, 13, 0}, [ADDRESS] = {0, 27, 14},
        [VALID] = {5, 25, 25}, [CHAINED] = {5, 26, 26}, [NEXT] = {5, 30, 27},
        [OUT_OF_ORDER] = {1, 29, 24}, [COMPRESSED] = {1, 31, 31},
        [STEP0] = {2, 12, 0}, [STEP1] = {2, 25, 13}, [STEP2] = {3, 12, 0},
        [WRAP0] = {3, 20, 13}, [WRAP1] = {3, 28, 21},
        [ITERATION] = {4, 24, 19}, [ITERATIONS] = {4, 18, 13}, [ITERATION_STEP] = {4, 12, 0},
        [ACQUIRES] = {5, 12, 12}, [ACQUIRE] = {5, 3, 0},
        [RELEASE_VALUE] = {5, 24, 18}, [RELEASE] = {5, 16, 13}, [HEADER] = {1, 30, 30},
    },
};
// clang-format on

static uint32_t get(enum tile_kind kind, const uint32_t * words, int f) {
    const struct place * p = &layout[kind][f];
    return p->high ? bits(words[p->word], p->high, p->low) : 0;
}

// ---- how far ----

struct walk {
    uint64_t wrap[3], step[4], before[3], after[3];
};

// The furthest of the first n words over dimensions 0 to d, in words from the start. A dimension
// without a wrap takes all that is left, those above it are never reached.
static uint64_t furthest(const struct walk * w, uint64_t n, int d) {
    uint64_t block = 1; // words until dimension d moves on
    for (int i = 0; i < d; i++) {
        block *= w->wrap[i];
    }
    if (d == 0) {
        return (n - 1) * w->step[0];
    }
    if (block == 0 || n <= block) {
        return furthest(w, n, d - 1);
    }
    uint64_t top = (n - 1) / block, rest = n - top * block; // rest: 1 to block
    uint64_t at_top = top * w->step[d] + furthest(w, rest, d - 1);
    uint64_t below = (top - 1) * w->step[d] + furthest(w, block, d - 1);
    return at_top > below ? at_top : below;
}

// With zeros around the data, which count among the words: a last cube is taken as whole.
static uint64_t furthest_padded(const struct walk * w, uint64_t n) {
    uint64_t cube = 1, far = 0;
    int d = 0;
    for (; d < 3 && w->wrap[d]; d++) {
        cube *= w->before[d] + w->wrap[d] + w->after[d];
        far += (w->wrap[d] - 1) * w->step[d];
    }
    return far + (n - 1) / cube * w->step[d];
}

uint64_t verify_bd_reach(enum tile_kind kind, const uint32_t words[BD_WORDS]) {
    struct walk w;
    uint64_t n = get(kind, words, WORDS);
    bool pads = false;
    for (int d = 0; d < 4; d++) { // steps are kept less one
        w.step[d] = (uint64_t) get(kind, words, STEP0 + d) + 1;
    }
    for (int d = 0; d < 3; d++) {
        w.wrap[d] = get(kind, words, WRAP0 + d);
        w.before[d] = get(kind, words, BEFORE0 + d);
        w.after[d] = get(kind, words, AFTER0 + d);
        pads |= w.before[d] || w.after[d];
    }
    // The count of runs may stand anywhere between 0 and its end, or where it was put.
    uint64_t run = get(kind, words, ITERATION), last = get(kind, words, ITERATIONS);
    uint64_t start = (run > last ? run : last) * ((uint64_t) get(kind, words, ITERATION_STEP) + 1);
    return n == 0 ? 0 : start + (pads ? furthest_padded(&w, n) : furthest(&w, n, 3)) + 1;
}

void verify_bd_read(enum tile_kind kind, const uint32_t words[BD_WORDS], struct bd * out) {
    uint32_t n = get(kind, words, WORDS);
    *out = (struct bd){
        .valid = get(kind, words, VALID),
        .chained = get(kind, words, CHAINED),
        .next = (int) get(kind, words, NEXT),
        .out_of_order = get(kind, words, OUT_OF_ORDER),
        .compressed = get(kind, words, COMPRESSED),
        .secure = get(kind, words, SECURE),
        .stream_id = get(kind, words, STREAM_ID),
        .words = n,
        .address = get(kind, words, ADDRESS),
        .reach = verify_bd_reach(kind, words),
        .run = get(kind, words, ITERATION),
        .last_run = get(kind, words, ITERATIONS),
        .acquires = get(kind, words, ACQUIRES),
        .acquire = get(kind, words, ACQUIRE),
        .releases = get(kind, words, RELEASE_VALUE),
        .lock = get(kind, words, RELEASE),
        .packet = get(kind, words, HEADER),
    };
    for (int d = 0; d < 3; d++) {
        bool pads = get(kind, words, BEFORE0 + d) || get(kind, words, AFTER0 + d);
        out->pads |= pads;
        out->pads_unwrapped |= pads && !get(kind, words, WRAP0 + d);
    }
}

// test-sem: the short ways through the vector semantics against the rules that they stand for: bf16
// products on the host's float unit (in plain C, and with the instructions that the host has)
// against the adder spelled out, integer products against loops, and every shuffle mode against its
// table.
#include "emu/aie/sem-x86.h"
#include "emu/aie/core-rig.h"

#include <inttypes.h>
#include <math.h>

// The same sources once more, without host instructions. Their short names are theirs alone.
#define SEM_PLAIN
#define sem_bf16_mac_4x8x4    plain_4x8x4
#define sem_bf16_mac_pairs    plain_pairs
#define sem_bf16_mac_elements plain_elements
#define sem_bf16_mac_lanes    plain_lanes
#include "emu/aie/sem-bf16.c"
#undef sem_bf16_mac_4x8x4
#undef sem_bf16_mac_pairs
#undef sem_bf16_mac_elements
#undef sem_bf16_mac_lanes

#define sem_mac_int plain_mac_int
#define sem_macs    plain_macs
#undef SPLAT
#undef EACH_K
#include "emu/aie/sem-mac.c"
#undef sem_mac_int
#undef sem_macs

typedef bool (*lanes_fn)(uint8_t *, const uint8_t *, const uint8_t *, const uint8_t *);

// The bf16 ways that this host can go, first what the emulator takes: {4x8x4, pairs}.
static int bf16_ways(lanes_fn fns[4][2]) {
    int n = 0;
    fns[n][0] = sem_bf16_mac_4x8x4;
    fns[n++][1] = sem_bf16_mac_pairs;
    fns[n][0] = plain_4x8x4;
    fns[n++][1] = plain_pairs;
#if SEM_X86
    if (sem_x86_has_256()) {
        fns[n][0] = sem_x86_256_bf16_4x8x4;
        fns[n++][1] = sem_x86_256_bf16_pairs;
    }
    if (sem_x86_has_512()) {
        fns[n][0] = sem_x86_512_bf16_4x8x4;
        fns[n++][1] = sem_x86_512_bf16_pairs;
    }
#endif
    return n;
}

static uint64_t state64 = 88172645463325252u;

static uint32_t random32(void) {
    state64 ^= state64 << 13;
    state64 ^= state64 >> 7;
    state64 ^= state64 << 17;
    return (uint32_t) (state64 >> 16);
}

static uint32_t below(uint32_t n) {
    return random32() % n;
}

struct tile {
    uint32_t acc[16];
    uint16_t x[32], y[32];
};

// A sign, a mantissa that often ends in zeros, an exponent from a range of `spread`.
static uint32_t random_number(uint32_t lowest, uint32_t spread) {
    uint32_t e = lowest + below(spread), v = random32();
    v &= below(4) ? 0xffffffff : ~0u << below(23);
    return (v & 0x807fffff) | e << 23;
}

static void random_tile(struct tile * t, uint32_t lowest, uint32_t spread, uint32_t acc_lowest,
                        uint32_t acc_spread, uint32_t zeros) {
    for (int i = 0; i < 32; i++) {
        t->x[i] = below(8) < zeros ? 0 : (uint16_t) (random_number(lowest, spread) >> 16);
        t->y[i] = below(8) < zeros ? 0x8000 : (uint16_t) (random_number(lowest, spread) >> 16);
    }
    for (int i = 0; i < 16; i++) {
        t->acc[i] = below(8) < zeros ? 0 : random_number(acc_lowest, acc_spread);
    }
}

static void check_tile(const struct tile * t, bool pairs, const uint32_t * got) {
    for (int i = 0; i < 16; i++) {
        uint16_t vx[8], vy[8];
        int n = pairs ? 2 : 8;
        for (int k = 0; k < n; k++) {
            vx[k] = pairs ? t->x[16 * k + i] : t->x[i / 4 * 8 + k];
            vy[k] = pairs ? t->y[16 * k + i] : t->y[4 * k + i % 4];
        }
        uint32_t want = sem_bf16_mac(vx, vy, n, t->acc[i], 0);
        if (got[i] != want) {
            fail_msg("%s lane %d, acc %08x: got %08x, rule %08x", pairs ? "pairs" : "4x8x4", i,
                     t->acc[i], got[i], want);
        }
    }
}

// Returns how many of the tiles were answered.
static int run_tiles(int n, uint32_t lowest, uint32_t spread, uint32_t acc_lowest,
                     uint32_t acc_spread) {
    lanes_fn fns[4][2];
    int ways = bf16_ways(fns);
    int answered = 0;
    for (int i = 0; i < n; i++) {
        struct tile t;
        bool pairs = i & 1;
        random_tile(&t, lowest, spread, acc_lowest, acc_spread, (uint32_t) i / 2 % 8);
        for (int cancel = 0; cancel < 16 && i % 5 == 0; cancel += 3) { // leave only the last bits
            uint32_t p = (uint32_t) t.x[cancel] << 16;
            float a, b;
            memcpy(&a, &p, 4);
            p = (uint32_t) t.y[cancel] << 16;
            memcpy(&b, &p, 4);
            a *= -b;
            memcpy(&t.acc[cancel], &a, 4);
        }
        bool with_acc = i % 7 != 3, ok[4];
        if (!with_acc) {
            memset(t.acc, 0, sizeof t.acc);
        }
        for (int way = 0; way < ways; way++) {
            uint32_t out[16];
            ok[way] = fns[way][pairs]((uint8_t *) out, with_acc ? (const uint8_t *) t.acc : NULL,
                                      (const uint8_t *) t.x, (const uint8_t *) t.y);
            if (ok[way]) {
                check_tile(&t, pairs, out);
            }
            assert_int_equal(ok[way], ok[0]);
        }
        answered += ok[0];
    }
    return answered;
}

static void bf16_in_range(void ** state) {
    (void) state;
    enum { N = 40000 };
    assert_int_equal(run_tiles(N, 120, 4, 118, 6), N);
    assert_int_equal(run_tiles(N, 110, 24, 100, 40), N);
    assert_int_equal(run_tiles(N, 80, 100, 60, 120), N);
    // at the ends of the range
    assert_int_equal(run_tiles(N, 76, 2, 25, 4), N);
    assert_int_equal(run_tiles(N, 185, 4, 248, 4), N);
    assert_true(run_tiles(N, 186, 4, 248, 4) > N / 2); // a cancelled product may lie beyond
}

static void bf16_anywhere(void ** state) {
    (void) state;
    enum { N = 40000 };
    assert_true(run_tiles(N, 0, 256, 0, 256) < N);
    assert_true(run_tiles(N, 70, 12, 0, 40) < N);
    assert_true(run_tiles(N, 184, 12, 240, 16) < N);
    assert_true(run_tiles(N, 100, 50, 0, 256) < N);
}

// Eight lanes at a time leave to the rule what four do, and are right elsewhere.
static void eight_lanes(const struct tile * t, uint32_t flip, const uint32_t want[32]) {
#if SEM_X86
    uint32_t lanes[2][32];
    for (int k = 0; k < 32; k++) {
        lanes[0][k] = lanes[1][k] = t->acc[k % 16];
    }
    uint8_t *four = (uint8_t *) lanes[0], *eight = (uint8_t *) lanes[1];
    const uint8_t *x = (const uint8_t *) t->x, *y = (const uint8_t *) t->y;
    if (sem_x86_has_256()) {
        uint64_t left = elements_4(four, four, x, y, 32, 16, flip);
        assert_int_equal(sem_x86_256_bf16_elements(eight, eight, x, y, 32, 16, flip), left);
        for (int k = 0; k < 32; k++) {
            assert_int_equal(lanes[1][k], left >> k & 1 ? t->acc[k % 16] : want[k]);
        }
    }
#else
    (void) t;
    (void) flip;
    (void) want;
#endif
}

// The same over the accumulator, with products in the first half of the lanes.
static void lanes_in_place(const struct tile * t, uint32_t flip) {
    uint32_t lanes[2][32], want[32];
    for (int k = 0; k < 32; k++) {
        uint16_t x = k < 16 ? t->x[k] : 0, y = (uint16_t) ((k < 16 ? t->y[k] : 0) ^ flip >> 16);
        lanes[0][k] = lanes[1][k] = t->acc[k % 16];
        want[k] = sem_bf16_mac(&x, &y, 1, t->acc[k % 16], 0);
    }
    uint8_t *fast = (uint8_t *) lanes[0], *plain = (uint8_t *) lanes[1];
    const uint8_t *x = (const uint8_t *) t->x, *y = (const uint8_t *) t->y;
    sem_bf16_mac_lanes(fast, fast, x, y, 32, 16, flip);
    plain_lanes(plain, plain, x, y, 32, 16, flip);
    assert_memory_equal(fast, want, sizeof want);
    assert_memory_equal(plain, want, sizeof want);
    eight_lanes(t, flip, want);
}

// One product to each lane, as aie2p's multiplier has it: all lanes, wherever their numbers lie.
static void bf16_elements(void ** state) {
    (void) state;
    static const uint32_t ranges[][4] = {{120, 4, 118, 6},  {80, 100, 60, 120}, {0, 256, 0, 256},
                                         {58, 12, 0, 20},   {180, 20, 235, 21}, {62, 4, 0, 3},
                                         {110, 40, 252, 4}, {165, 16, 253, 3}};
    for (int i = 0; i < 200000; i++) {
        const uint32_t * at = ranges[i % 8];
        struct tile t;
        uint32_t out[16], plain[16], second[16];
        random_tile(&t, at[0], at[1], at[2], at[3], (uint32_t) i / 8 % 8);
        for (int k = 0; k < 16; k++) {
            uint32_t p = (uint32_t) t.x[k] << 16, q = (uint32_t) t.y[k] << 16;
            float a, b;
            memcpy(&a, &p, 4);
            memcpy(&b, &q, 4);
            a *= -b;
            if (i % 5 == 0 && k % 3 == 0 && isfinite(a)) { // leave only the last bits
                memcpy(&t.acc[k], &a, 4);
                t.acc[k] ^= below(4);
            }
            second[k] = i % 7 ? 0 : random_number(at[2], at[3]);
        }
        sem_bf16_mac_elements(out, t.acc, i % 7 ? NULL : second, t.x, t.y, 16);
        plain_elements(plain, t.acc, second, t.x, t.y, 16);
        lanes_in_place(&t, i % 3 ? 0 : 0x80000000);
        for (int k = 0; k < 16; k++) {
            uint32_t want = sem_bf16_mac(&t.x[k], &t.y[k], 1, t.acc[k], second[k]);
            assert_int_equal(plain[k], want);
            if (out[k] != want) {
                fail_msg("lane %d, %08x + %04x * %04x: got %08x, rule %08x", k, t.acc[k], t.x[k],
                         t.y[k], out[k], want);
            }
        }
    }
}

// ---- integers ----

// What the short ways of vmac know: acc + x * y, rows x inner times inner x cols.
static const struct int_mode {
    uint32_t mode;
    int x_bits, rows, inner, cols, acc_bits;
    bool any_sign;
} int_modes[] = {
    {0 | 1 << 2, 8, 4, 8, 8, 32, true},            // amode 0, bmode 1
    {0 | 3 << 2, 16, 4, 2, 8, 32, false},          // amode 0, bmode 3
    {1 | 1 << 2, 16, 2, 4, 8, 64, false},          // amode 1, bmode 1
    {1 | 3 << 2, 16, 2, 4, 8, 64, false},          // amode 1, bmode 3
    {1 | 1 << 2 | 1 << 4, 16, 4, 4, 4, 64, false}, // ... variant 1
    {1 | 3 << 2 | 1 << 4, 16, 4, 4, 4, 64, false},
};

static int64_t int_lane(const uint8_t * v, int i, int bits, bool is_signed) {
    if (bits == 8) {
        return is_signed ? (int8_t) v[i] : v[i];
    }
    int16_t w;
    memcpy(&w, v + 2 * i, 2);
    return w;
}

static void check_int(const struct int_mode * m, uint32_t conf, const uint8_t * acc,
                      const uint8_t * x, const uint8_t * y, const uint8_t * got) {
    for (int l = 0; l < m->rows * m->cols; l++) {
        uint64_t want = 0, have = 0;
        size_t bytes = (size_t) m->acc_bits / 8;
        if (!(conf & 1)) {
            memcpy(&want, acc + bytes * (size_t) l, bytes);
        }
        for (int k = 0; k < m->inner; k++) {
            int64_t a = int_lane(x, l / m->cols * m->inner + k, m->x_bits, conf >> 9 & 1);
            int64_t b = int_lane(y, k * m->cols + l % m->cols, m->x_bits, conf >> 8 & 1);
            want += (uint64_t) (a * b);
        }
        memcpy(&have, got + bytes * (size_t) l, bytes);
        want &= m->acc_bits == 32 ? 0xffffffff : UINT64_MAX;
        if (have != want) {
            fail_msg("mode %u, conf %x, lane %d: got %016" PRIx64 ", want %016" PRIx64, m->mode,
                     conf, l, have, want);
        }
    }
}

static void int_products(void ** state) {
    (void) state;
    static const core_mac_fn ways[] = {sem_mac_int, plain_mac_int};
    for (int i = 0; i < 120000; i++) {
        const struct int_mode * m = &int_modes[i % 6];
        uint8_t acc[128], x[64], y[64], out[128];
        for (int k = 0; k < 64; k++) {
            x[k] = (uint8_t) random32();
            y[k] = (uint8_t) random32();
            acc[k] = (uint8_t) random32();
            acc[64 + k] = (uint8_t) random32();
            if (i / 6 % 4 == 0 && below(4)) { // the largest products, of either sign
                x[k] = m->x_bits == 8 || k % 2 ? (below(8) ? 0x80 : 0x7f) : 0;
                y[k] = m->x_bits == 8 || k % 2 ? (below(8) ? 0x80 : 0x7f) : 0;
            }
        }
        uint32_t signs = m->any_sign ? below(4) : 3;
        uint32_t conf = m->mode << 1 | signs << 8 | below(2);
        for (int way = 0; way < 2; way++) {
            assert_true(ways[way](out, acc, x, y, conf));
            check_int(m, conf, acc, x, y, out);
        }
    }
}

// ---- shuffles ----

static void shuffle_modes(void ** state) {
    (void) state;
    char path[1024], line[256];
    snprintf(path, sizeof path, "%s/silicon/shuffle-routing.tsv", GOLDEN_DIR);
    FILE * f = fopen(path, "r");
    if (!f) {
        skip_golden(path);
    }
    const struct aie_isa * isa = aie_isa_get(AIE_ARCH_AIE2);
    core_semantic_fn fn = semantic_of(AIE_ARCH_AIE2, "VSHUFFLE");
    int modes = 0;
    while (fgets(line, sizeof line, f)) {
        uint32_t mode;
        char routing[130];
        if (sscanf(line, "%u %129s", &mode, routing) != 2 || strlen(routing) != 128) {
            continue;
        }
        uint8_t both[128], out[64];
        for (int i = 0; i < 128; i++) {
            both[i] = (uint8_t) (37 * i + 11);
        }
        struct core_exec x = {.instr = aie_isa_instr(isa, aie_isa_find(isa, "VSHUFFLE"))};
        x.in[1] = both;
        x.in[2] = both + 64;
        x.in[3] = (const uint8_t *) &mode;
        x.out[0] = out;
        assert_true(fn(&x));
        for (int i = 0; i < 64; i++) {
            unsigned from;
            assert_int_equal(sscanf(routing + 2 * i, "%2x", &from), 1);
            if (out[i] != both[from & 127]) {
                fail_msg("mode %u, byte %d: %02x, want byte %u: %02x", mode, i, out[i], from,
                         both[from & 127]);
            }
        }
        modes++;
    }
    fclose(f);
    assert_int_equal(modes, 48);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_in_range), cmocka_unit_test(bf16_anywhere),
        cmocka_unit_test(bf16_elements), cmocka_unit_test(int_products),
        cmocka_unit_test(shuffle_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test-gfx-ops: operations of lanes one by one with random operands, against reference.def; all
// lanes on and some of them off, vectors and scalars as sources, signs on floats, two widths of
// waves. Then every compare against the meaning of its name.
#include "emu/gfx/ops-reference.h"

static void randomise(enum gfx_op op) {
    const struct gfx_op_info * info = &gfx_op_info[op];
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 2 * LANES; i++) {
            wave->v[A + 2 * k + i / LANES][i % LANES] = word(info->src[k], i / LANES);
        }
    }
    for (int i = 0; i < 2 * LANES; i++) {
        wave->v[D + i / LANES][i % LANES] = word(info->dst, i / LANES);
    }
}

static uint64_t signed_as(enum gfx_type t, uint64_t v, const struct gfx_operand * o) {
    uint64_t top = t == GFX_T_F16 ? 0x8000 : t == GFX_T_F32 ? 0x80000000 : UINT64_C(1) << 63;
    v = o->abs ? v & ~top : v;
    return o->neg ? v ^ top : v;
}

static int check(const struct reference * ref, int round, int lanes) {
    const struct gfx_op_info * info = &gfx_op_info[ref->op];
    struct gfx_inst in = instruction(ref->op);
    uint64_t exec = round % 2 ? next() : ~UINT64_C(0), mask = next();
    static uint32_t before[2][LANES];
    set_lanes(lanes);
    set_exec(exec);
    exec &= wave->all;
    randomise(ref->op);
    uint64_t constant = 0;
    bool is_float =
        info->src[1] == GFX_T_F16 || info->src[1] == GFX_T_F32 || info->src[1] == GFX_T_F64;
    if (info->src[2] == GFX_T_M) {
        in.src[2] = (struct gfx_operand){.kind = GFX_K_SGPR, .reg = 20};
        sgpr_put64(wave, 20, mask);
    }
    if (round % 4 == 2 && info->src[1] != GFX_T_N && info->src[1] != GFX_T_P16) { // from a scalar
        constant = word(info->src[1], 0) | (uint64_t) word(info->src[1], 1) << 32;
        sgpr_put64(wave, 30, constant);
        in.src[1] = (struct gfx_operand){.kind = GFX_K_SGPR, .reg = 30};
    }
    if (round % 4 == 3 && is_float) {
        in.src[0].neg = 1;
        in.src[1].abs = 1;
    }
    if (info->flags & GFX_O_CARRY) {
        in.sdst = 40;
    }
    if (info->dst == GFX_T_F16 || info->dst == GFX_T_B16) {
        in.flags |= round & 4 ? GFX_F_KEEP : 0;
    }
    assert_true(gfx_prepare(&in));
    memcpy(before, wave->v[D], sizeof before);
    in.step(wave, &in);
    uint64_t carries = sgpr_mask(wave, 40);
    for (int i = 0; i < lanes; i++) {
        struct operands o = {.a = lane(A, i, info->src[0]),
                             .b = lane(B, i, info->src[1]),
                             .c = lane(C, i, info->src[2]),
                             .old = before[0][i],
                             .bit = mask >> i & 1,
                             .i = i};
        if (in.src[1].kind == GFX_K_SGPR) {
            o.b = constant & (gfx_type_words(info->src[1]) == 2 ? ~UINT64_C(0) : 0xffffffff);
        }
        if (is_float) {
            o.a = signed_as(info->src[0], o.a, &in.src[0]);
            o.b = signed_as(info->src[1], o.b, &in.src[1]);
        }
        uint64_t got = lane(D, i, info->dst), keep = ~width_mask(info->dst) & 0xffffffff;
        bool carry = false, on = exec >> i & 1;
        uint64_t want = ref->fn(&o, &carry) & width_mask(info->dst);
        if (keep && gfx_type_words(info->dst) == 1) { // the other half
            uint64_t rest = got & keep,
                     expected = on && !(in.flags & GFX_F_KEEP) ? 0 : before[0][i] & keep;
            if (rest != expected) {
                fprintf(stderr, "%s: the other half is %llx\n", info->name,
                        (unsigned long long) rest);
                return 1;
            }
            got &= width_mask(info->dst);
        }
        if (!on) {
            want = (before[0][i] |
                    (gfx_type_words(info->dst) == 2 ? (uint64_t) before[1][i] << 32 : 0)) &
                   width_mask(info->dst);
            carry = false;
        }
        bool good = on ? same(ref->op, info->dst, got, want) : got == want;
        if (!good || (info->flags & GFX_O_CARRY && (carries >> i & 1) != carry)) {
            fprintf(stderr, "%s: lane %d (%s): a %llx b %llx c %llx: %llx instead of %llx\n",
                    info->name, i, on ? "on" : "off", (unsigned long long) o.a,
                    (unsigned long long) o.b, (unsigned long long) o.c, (unsigned long long) got,
                    (unsigned long long) want);
            return 1;
        }
    }
    return 0;
}

static void arithmetic(void ** unused) {
    (void) unused;
    int bad = 0;
    for (size_t k = 0; k < sizeof references / sizeof *references; k++) {
        int wrong = 0;
        for (int round = 0; round < ROUNDS && !wrong; round++) {
            wrong += check(&references[k], round, round < 6 ? 64 : 32);
        }
        bad += wrong;
    }
    assert_int_equal(bad, 0);
}

static void compares(void ** unused) {
    (void) unused;
    for (int op = GFX_v_cmp_f_f16; op <= GFX_v_cmp_t_u64; op++) {
        const struct gfx_op_info * info = &gfx_op_info[op];
        const char *condition = info->name + 6, *type = strrchr(info->name, '_') + 1;
        for (int round = 0; round < ROUNDS; round++) {
            struct gfx_inst in = instruction((enum gfx_op) op);
            in.sdst = 50;
            in.flags = round & 1 ? GFX_F_CMPX : 0;
            uint64_t exec = round & 2 ? next() : ~UINT64_C(0);
            set_lanes(64);
            set_exec(exec);
            randomise((enum gfx_op) op);
            for (int i = 0; i < LANES; i += 3) { // equal ones are rare by chance
                wave->v[B][i] = wave->v[A][i];
                wave->v[B + 1][i] = wave->v[A + 1][i];
            }
            assert_true(gfx_prepare(&in));
            in.step(wave, &in);
            uint64_t got = sgpr64(wave, 50);
            for (int i = 0; i < LANES; i++) {
                uint64_t a = lane(A, i, info->src[0]), b = lane(B, i, info->src[1]);
                bool want = exec >> i & 1 && holds(condition, order(type, a, b));
                if ((got >> i & 1) != want) {
                    fail_msg("%s: %llx %llx", info->name, (unsigned long long) a,
                             (unsigned long long) b);
                }
            }
            assert_true(sgpr64(wave, GFX_SGPR_EXEC) == (round & 1 ? got : exec));
        }
    }
}

static void classes(void ** unused) {
    (void) unused;
    static const struct {
        uint32_t word, class;
    } floats[] = {
        {0x7f800001, 0}, {0xffc00000, 1}, {0xff800000, 2}, {0xbf800000, 3}, {0x80000001, 4},
        {0x80000000, 5}, {0x00000000, 6}, {0x007fffff, 7}, {0x3f800000, 8}, {0x7f800000, 9},
    };
    set_lanes(64);
    set_exec(~UINT64_C(0));
    for (size_t k = 0; k < 10; k++) {
        for (int i = 0; i < LANES; i++) {
            wave->v[A][i] = floats[k].word;
            wave->v[B][i] = 1u << i % 10;
        }
        struct gfx_inst in = instruction(GFX_v_cmp_class_f32);
        in.sdst = 50;
        assert_true(gfx_prepare(&in));
        in.step(wave, &in);
        for (int i = 0; i < LANES; i++) {
            assert_int_equal(sgpr64(wave, 50) >> i & 1, i % 10 == (int) floats[k].class);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(compares),
        cmocka_unit_test(classes),
    };
    return cmocka_run_group_tests(tests, start, finish);
}

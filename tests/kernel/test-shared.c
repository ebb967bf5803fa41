// Block floats as they lie in memory: what a row of eight becomes, where it lies, and what cannot
// be one.
#include "kernel/shared.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_numbers(void ** state) {
    (void) state;
    static const struct {
        float in[8], out[8];
    } cases[] = {
        {{0, -0.0f, 0, 0, 0, 0, 0, 0}, {0}},
        {{1, -1, 0.5f, 0.25f, 1.5f, -0.015625f, 0, 0}, {1, -1, 0.5f, 0.25f, 1.5f, -0.015625f}},
        // half a unit of 2^-6 goes to the even one, more than half away
        {{1, 0x1p-7f, 3 * 0x1p-7f, 5 * 0x1p-7f, -0x1p-7f, 0x1.02p-7f, 0, 0},
         {1, 0, 0x1p-5f, 0x1p-5f, 0, 0x1p-6f}},
        // 127.5 units are 128, for which there is no mantissa: all have the next exponent
        {{0x1.ffp0f, 0x1p-6f, 3 * 0x1p-6f, 1, 0, 0, 0, 0}, {2, 0, 0x1p-4f, 1}},
        {{-0x1.ffp0f, 0, 0, 0, 0, 0, 0, 0}, {-2}},
        {{100, 1, 0.1f, 0, 0, 0, 0, 0}, {100, 1, 0}},
        {{0x1p-126f, 0x1p-127f, 0, 0, 0, 0, 0, 0}, {0x1p-126f, 0}}, // the second is no normal one
        {{0x1p127f, 0, 0, 0, 0, 0, 0, 0}, {0x1p127f}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int row = 0; row < 8; row += 7) {
            uint8_t group[2 * SHARED_BLOCK_BYTES];
            float two[16] = {0};
            memcpy(two + 8, cases[i].in, sizeof cases[i].in);
            memset(group, 0xa5, sizeof group);
            assert_true(shared_put_row(two, 16, row, group));
            for (int k = 0; k < 16; k++) {
                float want = k < 8 ? 0 : cases[i].out[k - 8];
                assert_true(shared_get(group, row, k) == want);
            }
            for (int b = 0; b < 2 * SHARED_BLOCK_BYTES; b++) { // other rows stay
                int at = b % SHARED_BLOCK_BYTES;
                bool own = at < 64 ? at / 8 == row : at - 64 == row;
                assert_true(own || group[b] == 0xa5);
            }
        }
    }
}

static void test_refused(void ** state) {
    (void) state;
    static const float bad[] = {INFINITY, -INFINITY, NAN, 0x1.ffp127f};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint8_t group[SHARED_BLOCK_BYTES];
        float eight[8] = {1, 2, bad[i], 4};
        assert_false(shared_put_row(eight, 8, 3, group));
    }
    assert_int_equal(shared_row_bytes(64), 72);
    assert_int_equal(8 * shared_row_bytes(2048), 2048 / 8 * SHARED_BLOCK_BYTES);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test-tuned: the table of schedules (src/aie/asm/schedules.def) against the loops of the
// compiler's kernels. Loops that it has no schedule for are printed and no failure: a kernel that
// was changed or added is right at once, and build/bin/aie-tune makes it fast. What fails is a
// table that does not serve: rows out of order, or more than a tenth of them that no loop has.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "aie/tune/tune.h"

static enum status tune(void * user, const char * name, const char * text, struct error * err) {
    return tune_program(user, name, text, err);
}

static void rows_are_in_order(void ** state) {
    (void) state;
    assert_true(asm_own_schedules.n > 0);
    for (size_t i = 0; i < asm_own_schedules.n; i++) {
        const struct asm_schedule * row = &asm_own_schedules.rows[i];
        assert_true(i == 0 || asm_schedule_order(row - 1, row) < 0);
        assert_true(row->name[0]);
        assert_true(row->plain > row->ii);
        assert_int_equal(row->placement != NULL, row->ii > 0);
    }
}

// A tuner without patience takes what the table has, where that holds, and notes all else.
static void loops_have_rows(void ** state) {
    (void) state;
    struct tune t;
    struct error err = {0};
    int untuned = 0, unused = 0;
    tune_init(&t, TUNE_QUICK, &asm_own_schedules);
    enum status st = tune_every_program(tune, &t, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(st, ST_OK);
    for (int i = 0; i < t.n; i++) {
        if (!schedules_find(&asm_own_schedules, t.rows[i].loop)) {
            print_message("wants tuning: %s\n", t.rows[i].name);
            untuned++;
        }
    }
    for (size_t i = 0; i < asm_own_schedules.n; i++) {
        bool used = false;
        for (int k = 0; k < t.n && !used; k++) {
            used = t.rows[k].loop == asm_own_schedules.rows[i].loop;
        }
        unused += !used;
    }
    print_message("%zu schedules, %d of no loop; %d loops want tuning%s\n", asm_own_schedules.n,
                  unused, untuned,
                  untuned ? ": build/bin/aie-tune --write src/aie/asm/schedules.def" : "");
    assert_true((size_t) unused * 10 <= asm_own_schedules.n);
    tune_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_in_order),
                                       cmocka_unit_test(loops_have_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

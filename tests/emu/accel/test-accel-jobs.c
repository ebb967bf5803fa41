// test-accel-jobs: commands on Linux's driver as it is played, with kernels that our compiler
// makes: what runs, how the program learns of it, and what is left of what failed.
#include "accel-world.h"

#include <pthread.h>
#include <time.h>

static int64_t in_ms(int64_t ms) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec + ms * 1000000;
}

static uint64_t send(const struct world * w, struct command c) {
    const uint32_t named[] = {w->insts[0], w->insts[1], w->operand[0], w->operand[1],
                              w->operand[2]};
    uint64_t seq = 99;
    assert_int_equal(rig_exec(w->f.fd, w->context, c.handle, named, 5, &seq), 0);
    return seq;
}

static uint32_t run(const struct world * w, struct command c) {
    assert_int_equal(rig_wait_point(w->f.fd, w->syncobj, send(w, c), INT64_MAX), 0);
    return XDNA_COMMAND_STATE(c.words[0]);
}

static void test_runs(void ** state) {
    (void) state;
    static const char * const kernels[] = {"6.14", "6.18", "7.0", "7.2"};
    for (int k = 0; k < 4; k++) {
        rig_settings("KERNEL", kernels[k], NULL);
        struct world w = world_new(false);
        struct command c = start(&w, 0, ADD);
        assert_int_equal(run(&w, c), XDNA_STATE_COMPLETED);
        assert_int_equal(wrong(&w, ADD), 0);
        const struct command parts[] = {c, start(&w, 1, DIV)};
        assert_int_equal(run(&w, chain(&w, parts, 2)), XDNA_STATE_COMPLETED);
        assert_int_equal(wrong(&w, DIV), 0);
        assert_int_equal(rig_wait_point(w.f.fd, w.syncobj, 5, in_ms(1)), EINVAL); // nobody sent it
        assert_int_equal(rig_wait_point(w.f.fd, 77, 0, 0), ENOENT);
        world_free(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
    };
    return cmocka_run_group_tests(tests, compile, discard);
}

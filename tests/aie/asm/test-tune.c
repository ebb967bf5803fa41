// Schedules that are looked up (asm/schedules.c) and the tuner that makes them (src/aie/tune): a
// loop is known by what it is, however its dependences were found; what a table says is taken only
// where it holds.
#include "aie/asm/text.h"
#include "aie/tune/tune.h"
#include "base/cmocka-all.h"

#include <stdlib.h>

static const char loop[] = "target aie2\n"
                           "global $p0 $p1 $r2\n"
                           "loop $r2 {\n"
                           "  vlda %x3.lo, [$p0], #32 @1\n"
                           "  vlda %x3.hi, [$p0], #32 @1\n"
                           "  vadd.32 %x4, %x3, %x3\n"
                           "  vst %x4.lo, [$p1], #32 @2\n"
                           "  vst %x4.hi, [$p1], #32 @2\n"
                           "}\n"
                           "L0:\n"
                           "  j #L0\n";

static struct asm_code finish(const char * text, const struct asm_schedules * schedules,
                              struct asm_tuner * tuner) {
    struct asm_program * p = NULL;
    struct asm_code code = {0};
    struct error err = {0};
    enum status st = asm_read(text, &p, &err);
    if (st == ST_OK) {
        p->tuner = tuner;
        asm_use_schedules(p, schedules);
        st = asm_finish(p, &code, &err);
    }
    assert_string_equal(err.text, "");
    assert_int_equal(st, ST_OK);
    asm_free(p);
    return code;
}

// ---- what a loop is ----

// A tuner that looks at the loop and finds nothing.
struct looker {
    struct asm_tuner tuner;
    int looked;
};

// All edges once more, in the opposite order.
static void turn_round(struct deps * d) {
    int n = d->n_edges;
    struct dep * edges = malloc((size_t) n * sizeof *edges);
    assert_non_null(edges);
    memcpy(edges, d->edges, (size_t) n * sizeof *edges);
    deps_take_away(d, 0);
    for (int e = n - 1; e >= 0; e--) {
        deps_add(d, edges[e].from, edges[e].to, edges[e].latency, edges[e].trips);
    }
    assert_int_equal(d->n_edges, n);
    free(edges);
}

static bool look(struct asm_tuner * tuner, struct search * s, int plain) {
    struct looker * l = (struct looker *) tuner;
    struct deps * d = &s->q->deps;
    (void) plain;
    uint64_t digest = schedules_digest(s);
    assert_true(d->n_edges > 4);
    turn_round(d);
    assert_int_equal(schedules_digest(s), digest);
    // said twice, or once more with less to say
    struct dep first = d->edges[0];
    int n = d->n_edges;
    deps_add(d, first.from, first.to, first.latency - 1, first.trips);
    deps_add(d, first.from, first.to, first.latency, first.trips);
    assert_int_equal(d->n_edges, n + 2);
    assert_int_equal(schedules_digest(s), digest);
    // another distance is another loop,
    deps_take_away(d, n);
    d->edges[0].latency++;
    assert_int_not_equal(schedules_digest(s), digest);
    d->edges[0].latency--;
    assert_int_equal(schedules_digest(s), digest);
    // and so are other instructions, other registers and another form
    struct search_node node = s->nodes[2];
    s->nodes[2] = s->nodes[3];
    assert_int_not_equal(schedules_digest(s), digest);
    s->nodes[2] = node;
    s->q->p->global_taken[ASM_X] ^= 1;
    assert_int_not_equal(schedules_digest(s), digest);
    s->q->p->global_taken[ASM_X] ^= 1;
    s->q->rolling++;
    assert_int_not_equal(schedules_digest(s), digest);
    s->q->rolling--;
    // Registers that no value of it can have are nothing to it, whatever their class is called.
    s->q->p->global_taken[ASM_CM] ^= 1;
    assert_int_equal(schedules_digest(s), digest);
    s->q->p->global_taken[ASM_CM] ^= 1;
    l->looked++;
    return false;
}

static void digest_is_of_the_loop(void ** state) {
    (void) state;
    struct looker l = {.tuner = {look}};
    struct asm_code code = finish(loop, &asm_own_schedules, &l.tuner);
    assert_true(l.looked > 0);
    free(code.bytes);
}

// ---- what is looked up ----

static void same(const struct asm_code * a, const struct asm_code * b) {
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->bytes, b->bytes, a->size);
}

static void tuned_rows_are_taken(void ** state) {
    (void) state;
    const struct asm_schedules none = {0};
    struct tune t;
    struct error err = {0};
    tune_init(&t, TUNE_NEW, &none);
    assert_int_equal(tune_program(&t, "test", loop, &err), ST_OK);
    assert_int_equal(t.n, 1);
    assert_string_equal(t.rows[0].name, "test/0");
    const struct asm_schedules one = {t.rows, 1};
    struct asm_code quick = finish(loop, &none, NULL), tuned = finish(loop, &one, NULL);
    assert_true(quick.stats.loop_untuned[0]);
    assert_false(tuned.stats.loop_untuned[0]);
    assert_int_equal(tuned.stats.loop_ii[0], t.rows[0].ii);
    assert_true(tuned.stats.loop_ii[0] <= quick.stats.loop_ii[0]);
    free(quick.bytes);
    free(tuned.bytes);
    // what is there stays
    struct tune again;
    tune_init(&again, TUNE_NEW, &one);
    assert_int_equal(tune_program(&again, "test", loop, &err), ST_OK);
    assert_int_equal(again.n, 1);
    assert_string_equal(again.rows[0].placement, t.rows[0].placement);
    tune_free(&again);
    tune_free(&t);
}

// A row under the right digest with something wrong in it.
static void rows_that_do_not_hold_are_not_taken(void ** state) {
    (void) state;
    const struct asm_schedules none = {0};
    struct tune t;
    struct error err = {0};
    tune_init(&t, TUNE_NEW, &none);
    assert_int_equal(tune_program(&t, "test", loop, &err), ST_OK);
    struct asm_code quick = finish(loop, &none, NULL);
    size_t length = strlen(t.rows[0].placement);
    int refused = 0, tried = 0;
    for (size_t at = 0; at < length + 4; at++) {
        struct asm_schedule row = t.rows[0];
        char placement[200];
        snprintf(placement, sizeof placement, "%s", row.placement);
        row.placement = placement;
        if (at < length) {
            placement[at] = placement[at] == 'B' ? 'A' : 'B'; // another time, or another register
        } else if (at < length + 2) {
            placement[at == length ? length - 1 : 3] = 0; // too short
        } else if (at == length + 2) {
            row.ii--;
        } else {
            row.copies = 0;
        }
        const struct asm_schedules wrong = {&row, 1};
        struct asm_code code = finish(loop, &wrong, NULL); // the checker has gone through it
        if (code.stats.loop_untuned[0]) {
            same(&code, &quick);
            refused++;
        }
        tried++;
        free(code.bytes);
    }
    print_message("%d of %d changed rows do not hold\n", refused, tried);
    assert_true(refused > tried / 2);
    free(quick.bytes);
    tune_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(digest_is_of_the_loop),
                                       cmocka_unit_test(tuned_rows_are_taken),
                                       cmocka_unit_test(rows_that_do_not_hold_are_not_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

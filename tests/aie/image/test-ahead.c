// ahead: what a joined stream does before a wait, and what behind it. Parts are issued while those
// before them run, and what they read begins early where it is ready; descriptors, queues, memory
// and cores that are in use are left alone.
#include "aie/image/image.h"
#include "base/cmocka-all.h"

#include <stdlib.h>

// A part as kernels are: the shim reads into a memtile, which passes on to a core; the core's
// parameters; and a result that is waited for. What a stream does is written down, a letter each.
struct small {
    int row;         // of the core that works
    uint32_t words;  // of a chunk
    int more_tasks;  // of the memtile's channel from the shim
    bool with_next;  // the next channel's task by the same command
    bool lock;       // of the memtile: written
    int more_params; // of the core
    uint32_t at;     // in the memtile
    uint32_t ready;  // operands, by bit; of one that is not 0 there is another one, number 2
    bool params_last;
};

static struct txn_part small_part(const struct small * x) {
    const uint32_t mem = 1u << 20, core = (uint32_t) x->row << 20, valid = 1u << 25;
    const uint32_t shim_bds[24] = {x->words, 0, 0, 0,     0, 0, 0, valid, x->words, 0, 0, 0,
                                   0,        0, 0, valid, 1, 0, 0, 0,     0,        0, 0, valid};
    const uint32_t taking = 1u << 31 | 1u << 15 | 0x7fu << 8, giving = 1u << 24; // own locks
    const uint32_t mem_bds[16] = {
        x->words, x->at, 0, 0, 0, 0, 0, taking | 64 | giving | 65 << 16,
        x->words, x->at, 0, 0, 0, 0, 0, taking | 65 | giving | 64 << 16,
    };
    const uint32_t next_bd[8] = {x->words, x->at + 0x10000, 0, 0, 0, 0, 0, taking | 66};
    const uint32_t core_bd[6] = {x->words, 0, 0, 0, 0, valid | 1u << 12};
    const uint32_t params[1000] = {x->words, 1, 2, 3}, both[3] = {0, 0, 24};
    struct txn_part p = {0};
    struct txn t;
    uint32_t * insts;
    txn_begin(&t, 4, 3);
    txn_block_write(&t, 0x1d000, shim_bds, x->ready ? 24 : 16);
    txn_patch_address(&t, 0x1d004, 0, 0);
    txn_patch_address(&t, 0x1d024, 1, 0);
    if (x->ready) {
        txn_patch_address(&t, 0x1d044, 2, 0);
    }
    txn_write(&t, 0x1d214, 0);
    if (x->ready) {
        txn_write(&t, 0x1d21c, 2);
    }
    if (x->lock) {
        txn_write(&t, mem + 0xc0000, 1);
    }
    txn_block_write(&t, mem + 0xa0000, mem_bds, 16);
    txn_block_write(&t, mem + 0xa0000 + 24 * 0x20, next_bd, 8); // an odd channel's
    if (x->with_next) {
        txn_block_write(&t, mem + 0xa0604, both, 3);
    } else {
        txn_write(&t, mem + 0xa060c, 24);
    }
    for (int i = 0; i < (x->with_next ? 0 : 1) + x->more_tasks; i++) {
        txn_write(&t, mem + 0xa0604, 0);
    }
    txn_write(&t, mem + 0xa0634, 1);
    if (!x->params_last) {
        txn_block_write(&t, core + 0x400, params, 4 + (size_t) x->more_params);
    }
    txn_block_write(&t, core + 0x1d000, core_bd, 6);
    txn_write(&t, core + 0x1de04, 0);
    if (x->params_last) {
        txn_block_write(&t, core + 0x400, params, 4);
    }
    txn_write(&t, 0x1d204, 0x80000001u);
    txn_wait(&t, 0, 0, 0, 0);
    assert_int_equal(txn_end(&t, &insts, &p.n_words, NULL), ST_OK);
    p.insts = insts;
    p.ready = x->ready;
    return p;
}

struct story {
    bool cores; // T: the memtile's task to the core; C: the core's
    bool ends;  // O: the shim's task for results
    char text[128];
    int n, shim_bds[16], n_shim, reads[16], n_reads;
};

// S: the shim's descriptors, R and r: it reads, and another operand, M and m: the memtile's task
// from the shim, the next channel's (B: both), P: parameters, W: a wait.
static bool tell_story(void * user, const struct image_command * c) {
    struct story * s = user;
    uint32_t row = c->addr >> 20 & 31, offset = c->addr & 0xfffff;
    char what = c->op == IMAGE_WAIT ? 'W' : 0;
    if (c->op == IMAGE_BLOCK_WRITE && row == 0) {
        what = 'S';
        s->shim_bds[s->n_shim++] = (int) (offset - 0x1d000) / 0x20;
    } else if (c->op == IMAGE_WRITE && row == 0 && offset == 0x1d214) {
        what = 'R';
        s->reads[s->n_reads++] = (int) c->value & 63;
    } else if (c->op == IMAGE_WRITE && row == 0 && offset == 0x1d21c) {
        what = 'r';
    } else if (row == 1 && offset == 0xa0604) {
        what = c->op == IMAGE_BLOCK_WRITE ? 'B' : 'M';
    } else if (row == 1 && offset == 0xa060c) {
        what = 'm';
    } else if (row == 1 && offset == 0xa0634 && s->cores) {
        what = 'T';
    } else if (row > 1 && offset == 0x400) {
        what = 'P';
    } else if (row > 1 && offset == 0x1de04 && s->cores) {
        what = 'C';
    } else if (row == 0 && offset == 0x1d204 && s->ends) {
        what = 'O';
    }
    if (what) {
        assert_true(s->n + 1 < (int) sizeof s->text);
        s->text[s->n++] = what;
    }
    return true;
}

static void test_ahead(void ** state) {
    (void) state;
    static const struct {
        struct small parts[3];
        int n;
        const char *in_order, *ahead;
    } cases[] = {
        // Another core: all is told before the wait but that the shim reads.
        {{{.row = 2, .words = 16}, {.row = 3, .words = 32}}, 2, "SRmMPWSRmMPW", "SRmMPSmMPWRW"},
        // The same core reads its parameters still.
        {{{.row = 2, .words = 16}, {.row = 2, .words = 32}}, 2, "SRmMPWSRmMPW", "SRmMPSmMWRPW"},
        // Behind a short one the next is told as well.
        {{{.row = 2, .words = 16}, {.row = 3, .words = 32}, {.row = 4, .words = 8}},
         3,
         "SRmMPWSRmMPWSRmMPW",
         "SRmMPSmMPSmMPWRWRW"},
        // And not behind one that takes as long to issue as the first one runs,
        {{{.row = 2, .words = 16},
          {.row = 3, .words = 32, .more_params = 700},
          {.row = 4, .words = 8}},
         3,
         "SRmMPWSRmMPWSRmMPW",
         "SRmMPSmMPWRSmMPWRW"},
        // or in part, as far as the time lasts.
        {{{.row = 2, .words = 16},
          {.row = 3, .words = 32, .more_params = 300},
          {.row = 4, .words = 8}},
         3,
         "SRmMPWSRmMPWSRmMPW",
         "SRmMPSmMPSWRmMPWRW"},
        // Locks of a memtile are not written while another part has them.
        {{{.row = 2, .words = 16}, {.row = 3, .words = 32, .lock = true}},
         2,
         "SRmMPWSRmMPW",
         "SRmMPWSRmMPW"},
        // A queue of four tasks.
        {{{.row = 2, .words = 16, .more_tasks = 2}, {.row = 3, .words = 32, .more_tasks = 1}},
         2,
         "SRmMMMPWSRmMMPW",
         "SRmMMMPSmPWRMMW"},
        // What a later part pushes does not overtake a task that waits for room, nor one that the
        // same command pushes; it comes as soon as there is room, and not when the part starts.
        {{{.row = 2, .words = 16, .more_tasks = 3},
          {.row = 3, .words = 32, .with_next = true},
          {.row = 4, .words = 8}},
         3,
         "SRmMMMMPWSRBPWSRmMPW",
         "SRmMMMMPSPSPWRBmMWRW"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct txn_part parts[3];
        for (int p = 0; p < cases[i].n; p++) {
            parts[p] = small_part(&cases[i].parts[p]);
        }
        for (int ahead = 0; ahead < 2; ahead++) {
            uint32_t out[4000];
            size_t n, n_aims;
            struct txn_aim * aims;
            struct story s = {.n = 0};
            assert_int_equal(txn_join(parts, cases[i].n, ahead, out, &n, &aims, &n_aims, NULL),
                             ST_OK);
            assert_int_equal(txn_read((const uint8_t *) out, 4 * n, tell_story, &s, NULL), ST_OK);
            print_message("case %d: %s\n", (int) i, s.text);
            assert_string_equal(s.text, ahead ? cases[i].ahead : cases[i].in_order);
            assert_int_equal(n_aims, 2 * cases[i].n);
            for (int p = 0; p < cases[i].n; p++) { // each reads by its own descriptor
                assert_int_equal(s.reads[p], s.shim_bds[p]);
                assert_int_equal(aims[2 * p].part, p);
            }
            if (ahead && i < 3) { // which are not those that are in use
                assert_int_not_equal(s.shim_bds[0], s.shim_bds[1]);
            }
            free(aims);
        }
        for (int p = 0; p < cases[i].n; p++) {
            free((void *) (uintptr_t) parts[p].insts);
        }
    }
}

// A shim's sixteen descriptors are those of eight parts. A ninth is told ahead as well, but of the
// shim, and of that as soon as the first part has given its own back.
static void test_many(void ** state) {
    (void) state;
    enum { MANY = 12, NAMES = 8 };
    struct txn_part parts[MANY];
    for (int i = 0; i < MANY; i++) {
        parts[i] = small_part(
            &(struct small){.row = 2 + i % 4, .words = i ? 16 + 4 * (uint32_t) i : 200000});
    }
    uint32_t out[4000];
    size_t n, n_aims;
    struct txn_aim * aims;
    struct story s = {.n = 0};
    assert_int_equal(txn_join(parts, MANY, true, out, &n, &aims, &n_aims, NULL), ST_OK);
    assert_int_equal(txn_read((const uint8_t *) out, 4 * n, tell_story, &s, NULL), ST_OK);
    print_message("many: %s\n", s.text);
    int told = 0, reads = 0, done = 0;
    for (int i = 0; i < s.n; i++) {
        for (int p = done; s.text[i] == 'S' && p < told; p++) { // nobody else's
            assert_int_not_equal(s.shim_bds[p], s.shim_bds[told]);
        }
        told += s.text[i] == 'S';
        reads += s.text[i] == 'R';
        done += s.text[i] == 'W';
        assert_true(reads <= told && reads <= done + 1);
        if (s.text[i] == 'W') {
            int most = NAMES + done - 1; // of those in flight, and of what was complete before
            assert_int_equal(told, most < MANY ? most : MANY);
        }
    }
    assert_int_equal(done, MANY);
    for (int p = 0; p < MANY; p++) {
        assert_int_equal(s.reads[p], s.shim_bds[p]);
        free((void *) (uintptr_t) parts[p].insts);
    }
    free(aims);
}

// What is ready is read before the part starts.
static void test_early(void ** state) {
    (void) state;
    static const struct {
        struct small parts[3];
        int n;
        const char * text;
    } cases[] = {
        // Memory of its own: it reads before the wait.
        {{{.row = 2, .words = 16, .at = 0x1000}, {.row = 3, .words = 32, .at = 0x2000, .ready = 1}},
         2,
         "SRmMTPCSmMTPCRWrW"},
        // All that it reads is ready: its core would have results before the part starts.
        {{{.row = 2, .words = 16, .at = 0x1000}, {.row = 3, .words = 32, .at = 0x2000, .ready = 5}},
         2,
         "SRmMTPCSmMTPCWRrW"},
        // Not ready.
        {{{.row = 2, .words = 16, .at = 0x1000}, {.row = 3, .words = 32, .at = 0x2000}},
         2,
         "SRmMTPCSmMTPCWRW"},
        // Memory that the part before still reads, by another descriptor.
        {{{.row = 2, .words = 16, .at = 0x1000}, {.row = 3, .words = 32, .at = 0x1008, .ready = 1}},
         2,
         "SRmMTPCSmMTPCWRrW"},
        // By the same one, whose locks tell when it is free; the same core gets its parameters, and
        // the task that fills its memory, when the part before is over.
        {{{.row = 2, .words = 16, .at = 0x1000}, {.row = 2, .words = 16, .at = 0x1000, .ready = 1}},
         2,
         "SRmMTPCSmMTRWrPCW"},
        // Behind the reads of a part that has not started: when that one has.
        {{{.row = 2, .words = 16, .at = 0x1000},
          {.row = 3, .words = 32, .at = 0x2000},
          {.row = 4, .words = 8, .at = 0x3000, .ready = 1}},
         3,
         "SRmMTPCSmMTPCSmMTPCWRRWrW"},
        // A core that would find its parameters after its first words.
        {{{.row = 2, .words = 16, .at = 0x1000},
          {.row = 3, .words = 32, .at = 0x2000, .params_last = true, .ready = 1}},
         2,
         "SRmMTPCSmMTCPWRrW"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct txn_part parts[3];
        uint32_t out[1000];
        size_t n, n_aims;
        struct txn_aim * aims;
        struct story s = {.cores = true};
        for (int p = 0; p < cases[i].n; p++) {
            parts[p] = small_part(&cases[i].parts[p]);
        }
        assert_int_equal(txn_join(parts, cases[i].n, true, out, &n, &aims, &n_aims, NULL), ST_OK);
        assert_int_equal(txn_read((const uint8_t *) out, 4 * n, tell_story, &s, NULL), ST_OK);
        print_message("case %d: %s\n", (int) i, s.text);
        assert_string_equal(s.text, cases[i].text);
        assert_int_equal(s.n_reads, cases[i].n);
        for (int p = 0; p < cases[i].n; p++) { // each reads by its own descriptor
            assert_int_equal(s.reads[p], s.shim_bds[p]);
            free((void *) (uintptr_t) parts[p].insts);
        }
        free(aims);
    }
}

// What leads words to the cores is told before the wait, whatever it takes. What takes results away
// comes when the part runs, where there was no time.
static void test_ends(void ** state) {
    (void) state;
    static const struct {
        struct small parts[4];
        int n;
        const char * text;
    } cases[] = {
        {{{.row = 2, .words = 16}, {.row = 3, .words = 32}}, 2, "SRmMPOSmMPOWRW"},
        {{{.row = 2, .words = 16}, {.row = 3, .words = 32, .more_params = 700}},
         2,
         "SRmMPOSmMPWROW"},
        // Tasks that waited for room, and parameters for a core, come when the first part is
        // complete, as far as the time lasts: those of the last part with the one before it.
        {{{.row = 2, .words = 40000, .more_tasks = 2},
          {.row = 3, .words = 32},
          {.row = 2, .words = 8},
          {.row = 4, .words = 8}},
         4,
         "SRmMMMPOSmMPOSmOSmPOWRMPMWRWRW"},
        {{{.row = 2, .words = 40000, .more_tasks = 2},
          {.row = 3, .words = 32},
          {.row = 2, .words = 8, .more_params = 900},
          {.row = 4, .words = 8}},
         4,
         "SRmMMMPOSmMPOSmOSmPOWRMPWRMWRW"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct txn_part parts[4];
        uint32_t out[4000];
        size_t n, n_aims;
        struct txn_aim * aims;
        struct story s = {.ends = true};
        for (int p = 0; p < cases[i].n; p++) {
            parts[p] = small_part(&cases[i].parts[p]);
        }
        assert_int_equal(txn_join(parts, cases[i].n, true, out, &n, &aims, &n_aims, NULL), ST_OK);
        assert_int_equal(txn_read((const uint8_t *) out, 4 * n, tell_story, &s, NULL), ST_OK);
        print_message("ends %d: %s\n", (int) i, s.text);
        assert_string_equal(s.text, cases[i].text);
        for (int p = 0; p < cases[i].n; p++) {
            assert_int_equal(s.reads[p], s.shim_bds[p]);
            free((void *) (uintptr_t) parts[p].insts);
        }
        free(aims);
    }
}

// What may run beside the part before it goes to a column of its own, as many as are alike, and is
// waited for with it.
struct columns {
    int commands[8], waits[8], n; // n: those that wait before all is told
};

static bool count_columns(void * user, const struct image_command * c) {
    struct columns * s = user;
    int col = c->op == IMAGE_WAIT ? c->col : (int) (c->addr >> 25);
    s->commands[col]++;
    s->waits[col] += c->op == IMAGE_WAIT;
    s->n += c->op != IMAGE_WAIT && s->waits[0] > 0;
    return true;
}

static void test_beside(void ** state) {
    (void) state;
    static const struct {
        struct small parts[3];
        int beside[3], columns;
        const char * text;
    } cases[] = {
        {{{.row = 2, .words = 16}, {.row = 2, .words = 32}, {.row = 2, .words = 8}},
         {0, 3, 3},
         3,
         "SRmMPSRmMPSRmMPWWW"},
        // Two columns are alike: the third part comes when these are complete,
        {{{.row = 2, .words = 16}, {.row = 2, .words = 32}, {.row = 2, .words = 8}},
         {0, 2, 2},
         2,
         "SRmMPSRmMPSmMWWRPW"},
        // and so does one that asks for it,
        {{{.row = 2, .words = 16}, {.row = 2, .words = 32}, {.row = 2, .words = 8}},
         {0, 3, 0},
         2,
         "SRmMPSRmMPSmMWWRPW"},
        // or that writes locks of a memtile.
        {{{.row = 2, .words = 16}, {.row = 2, .words = 32}, {.row = 2, .words = 8, .lock = true}},
         {0, 3, 3},
         2,
         "SRmMPSRmMPWWSRmMPW"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum { N = 3 };
        struct txn_part parts[N];
        uint32_t out[1000];
        size_t n, n_aims;
        struct txn_aim * aims;
        struct story s = {.n = 0};
        struct columns seen = {.n = 0};
        for (int p = 0; p < N; p++) {
            parts[p] = small_part(&cases[i].parts[p]);
            parts[p].beside = cases[i].beside[p];
        }
        assert_int_equal(txn_join(parts, N, true, out, &n, &aims, &n_aims, NULL), ST_OK);
        assert_int_equal(txn_read((const uint8_t *) out, 4 * n, tell_story, &s, NULL), ST_OK);
        assert_int_equal(txn_read((const uint8_t *) out, 4 * n, count_columns, &seen, NULL), ST_OK);
        print_message("beside %d: %s\n", (int) i, s.text);
        assert_string_equal(s.text, cases[i].text);
        int waits = 0;
        for (int col = 0; col < 8; col++) {
            assert_int_equal(seen.commands[col] > 0, col < cases[i].columns);
            waits += seen.waits[col];
        }
        assert_int_equal(waits, N);
        assert_int_equal(seen.n > 0, cases[i].columns < N);
        int of[N] = {0};
        for (size_t a = 0; a < n_aims; a++) { // an aim is its own part's
            assert_true(aims[a].part < N);
            of[aims[a].part]++;
            assert_int_equal(out[aims[a].word], 0x81);
        }
        for (int p = 0; p < N; p++) {
            assert_int_equal(of[p], 2);
            free((void *) (uintptr_t) parts[p].insts);
        }
        free(aims);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ahead), cmocka_unit_test(test_many),   cmocka_unit_test(test_early),
        cmocka_unit_test(test_ends),  cmocka_unit_test(test_beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

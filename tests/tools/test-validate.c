// ggml-hsa validate, as people run it, on emulated NPUs. What it measures is held against the clock
// that the emulator was given and that it was not told; differences that are planted are found and
// named; with the emulator's account and clock taken away its figures stay the same.
#include "base/json.h"
#include "emu/aie/clock.h"
#include "sanitized.h"
#include "tool-run.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define NEAR 0.02 // every figure, of the clock's

static char dir[64];

static const char * file_in(const char * name) {
    static char paths[4][160];
    static int n;
    char * path = paths[n++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

// The tool, or another one, with variables before it.
static struct result run_with(const char * tool, const char * world, const char * arguments) {
    char command[1400];
    snprintf(command, sizeof command, "env %s %s validate %s 2>%s", world, tool, arguments,
             file_in("errors"));
    FILE * pipe = popen(command, "r");
    assert_non_null(pipe);
    struct result r = {0};
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0;) {
        buf_append(&r.text, part, n);
    }
    buf_append(&r.text, "", 1);
    int status = pclose(pipe);
    r.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return r;
}

static json_t * run_json(const char * tool, const char * world, const char * arguments) {
    char words[400];
    struct error err = {0};
    json_t * root = NULL;
    snprintf(words, sizeof words, "%s --json -", arguments);
    struct result r = run_with(tool, world, words);
    if (json_read((char *) r.text.data, r.text.size - 1, &root, &err) != ST_OK) {
        fail_msg("%s validate %s: exit status %d, %s:\n%s", world, words, r.status, err.text,
                 (char *) r.text.data);
    }
    buf_free(&r.text);
    return root;
}

// ---- prices ----

// A clock with every figure of phoenix changed but burst_words, which the measurement of burst_gap
// takes to be 128.
static const struct {
    const char * name;
    unsigned value;
} odd[] = {
    {"mhz", 1310},
    {"bank_bit", 5},
    {"lock_stall", 2},
    {"dma_granule", 32},
    {"dma_wins_sparse", 150},
    {"dma_wins_dense", 60},
    {"lock_to_core", 6},
    {"lock_to_s2mm", 9},
    {"lock_to_mm2s", 14},
    {"mem_to_mm2s", 23},
    {"fetch", 12},
    {"bd_gap", 2},
    {"task_start", 14},
    {"stream_words", 2},
    {"hop_local", 4},
    {"hop_outside", 5},
    {"fifo_local", 8},
    {"fifo_outside", 10},
    {"fifo_in", 24},
    {"fifo_out", 16},
    {"mm2s_cold", 1700},
    {"mm2s_steady", 410},
    {"mm2s_decay", 420},
    {"s2mm_cold", 330},
    {"s2mm_steady", 230},
    {"s2mm_decay", 100},
    {"burst_words", 128},
    {"burst_gap", 9},
    {"ddr_read", 19000},
    {"ddr_write", 17000},
    {"ddr_both", 23000},
    {"run_bytes", 320},
    {"txn_write", 120},
    {"txn_block", 130},
    {"txn_block_word", 17},
    {"txn_mask", 250},
    {"txn_patch", 700},
    {"txn_sync", 140},
    {"token", 9100},
    {"txn_token", 1500},
    {"submit_ns", 61000},
    {"dispatch_ns", 19000},
    {"pdi_ns", 31000},
    {"pdi_command_ns", 750},
    {"pdi_word_ns", 2},
    {"context_ns", 1900000},
    {"flush_mb_ns", 14000},
};

static const char * write_odd_clock(void) {
    const char * path = file_in("odd.clock");
    FILE * f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "device = phoenix\nname = odd\n");
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        fprintf(f, "%s = %u\n", odd[i].name, odd[i].value);
    }
    fclose(f);
    return path;
}

static double value_of(const struct emu_clock * c, const char * key) {
    for (int i = 0; i < emu_clock_figures(); i++) {
        if (!strcmp(emu_clock_figure(i), key)) {
            return emu_clock_value(c, i);
        }
    }
    fail_msg("no figure %s", key);
    return 0;
}

static void check_prices(const char * world, const char * clock) {
    struct emu_clock c;
    struct error err;
    int n = 0;
    assert_int_equal(emu_clock_parse(clock, &c, &err), ST_OK);
    json_t * root = run_json(TOOL, world, "--only prices");
    json_t * list = json_object_get(root, "figures");
    assert_int_equal(json_integer_value(json_object_get(root, "wrong")), 0);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t * row = json_array_get(list, i);
        const char * key = json_string_value(json_object_get(row, "key"));
        if (!key) {
            continue;
        }
        double measured = json_real_value(json_object_get(row, "measured"));
        double want = value_of(&c, key);
        n++;
        if (fabs(measured - want) > NEAR * want + 1e-2) {
            fail_msg("%s: %s is measured as %g, the clock has %g", world, key, measured, want);
        }
    }
    assert_int_equal(n, 30);
    json_decref(root);
}

static void prices(void ** state) {
    (void) state;
    char world[300];
    const char * clock = write_odd_clock();
    check_prices("GGML_HSA_EMULATE=aie2", "phoenix");
    if (!SANITIZED) {
        check_prices("GGML_HSA_EMULATE=aie2p", "strix");
    }
    for (int p = 0; p < 2 - SANITIZED; p++) {
        snprintf(world, sizeof world, "GGML_HSA_EMULATE=aie2%s GGML_HSA_EMU_CLOCK=%s", p ? "p" : "",
                 clock);
        check_prices(world, clock);
    }
}

// The same through our runtime for NPUs of this machine, on the driver that is played.
static void prices_through_the_driver(void ** state) {
    (void) state;
    if (!*ACCEL) {
        skip_test("a driver to preload does not go with sanitizers");
    }
    check_prices("GGML_HSA_RUNTIME=native ACCEL_EMU_QUIET=1 ACCEL_EMU_MODELLED_TIME=1 "
                 "LD_PRELOAD=" ACCEL,
                 "phoenix");
}

// ---- what was planted ----

static void expect_wrong(const char * world, const char * only, const char * text) {
    char words[80];
    snprintf(words, sizeof words, "--only %s", only);
    struct result r = run_with(TOOL, world, words);
    if (r.status != 1 || !strstr((char *) r.text.data, text)) {
        fail_msg("%s: exit status %d, not 1 with '%s':\n%s", world, r.status, text,
                 (char *) r.text.data);
    }
    buf_free(&r.text);
}

// Of all prices these, and no other, are off.
static void expect_off(const char * world, const char * keys) {
    json_t * root = run_json(TOOL, world, "--only prices");
    json_t * list = json_object_get(root, "figures");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t * row = json_array_get(list, i);
        const char * key = json_string_value(json_object_get(row, "key"));
        bool off = json_is_true(json_object_get(row, "off"));
        if (key && off != (strstr(keys, key) != NULL)) {
            fail_msg("%s: %s is %sto be off", world, key, off ? "not " : "");
        }
    }
    json_decref(root);
}

static const char * world_with(const char * line) {
    static char world[300];
    FILE * f = fopen(file_in("one.clock"), "w");
    assert_non_null(f);
    fprintf(f, "device = phoenix\n%s\n", line);
    fclose(f);
    snprintf(world, sizeof world, "GGML_HSA_EMULATE=aie2 GGML_HSA_EMU_CLOCK=%s",
             file_in("one.clock"));
    return world;
}

static void another_instruction(void ** state) {
    (void) state;
    expect_wrong("GGML_HSA_EMULATE=aie2p GGML_HSA_EMU_PLANT=VADD_8=VSUB_8", "instructions",
                 "wrong: VADD_8: vadd.8 x0, x1, x2 with wl0=");
}

static void another_adder(void ** state) {
    (void) state;
    expect_wrong("GGML_HSA_EMULATE=aie2p GGML_HSA_EMU_ADDER=ieee", "instructions",
                 "which is how IEEE 754 adds");
}

static void stuck_lock(void ** state) {
    (void) state;
    expect_wrong("GGML_HSA_EMULATE=aie2 GGML_HSA_EMU_PLANT=lock=2,4,7", "tiles",
                 "wrong: lock 7 of the core in column 2, row 4 does not open");
}

static void another_memory(void ** state) {
    (void) state;
    expect_off("GGML_HSA_EMULATE=aie2 GGML_HSA_EMU_CLOCK=phoenix,ddr=12",
               "ddr_read ddr_write ddr_both");
}

static void another_bank_rule(void ** state) {
    (void) state;
    expect_off(world_with("bank_bit = 5"), "bank_bit");
}

static void another_pdi_price(void ** state) {
    (void) state;
    expect_off(world_with("pdi_command_ns = 900"), "pdi_command_ns");
}

// ---- nothing of the model ----

static void blind(void ** state) {
    (void) state;
    const char * world = "GGML_HSA_EMULATE=aie2";
    json_t * with = run_json(TOOL, world, "--only prices");
    json_t * without = run_json(BLIND, world, "--only prices");
    json_t *a = json_object_get(with, "figures"), *b = json_object_get(without, "figures");
    assert_true(json_array_size(a) > 40);
    assert_int_equal(json_array_size(a), json_array_size(b));
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *x = json_array_get(a, i), *y = json_array_get(b, i);
        assert_string_equal(json_string_value(json_object_get(x, "name")),
                            json_string_value(json_object_get(y, "name")));
        double m = json_real_value(json_object_get(x, "measured"));
        assert_true(m == json_real_value(json_object_get(y, "measured")));
        bool key = json_object_get(y, "key") != NULL; // then there is a place for it, and it is 0
        assert_true(json_real_value(json_object_get(y, "modelled")) == 0 || !key);
    }
    json_decref(with);
    json_decref(without);
}

// ---- files ----

static void clock_of_the_device(void ** state) {
    (void) state;
    char world[300], words[300];
    struct emu_clock c;
    struct error err;
    const char * path = file_in("measured.clock");
    snprintf(world, sizeof world, "GGML_HSA_EMULATE=aie2 GGML_HSA_EMU_CLOCK=%s", write_odd_clock());
    snprintf(words, sizeof words, "--only prices --clock %s", path);
    struct result r = run_with(TOOL, world, words);
    assert_int_equal(r.status, 0);
    buf_free(&r.text);
    assert_int_equal(emu_clock_parse(path, &c, &err), ST_OK);
    assert_string_equal(c.name, "RyzenAI-npu1-measured");
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        bool small = !strncmp(odd[i].name, "lock_to", 7) || !strncmp(odd[i].name, "hop", 3) ||
                     !strncmp(odd[i].name, "fifo", 4) || !strncmp(odd[i].name, "dma", 3) ||
                     !strcmp(odd[i].name, "fetch") || !strcmp(odd[i].name, "bd_gap") ||
                     !strcmp(odd[i].name, "task_start") || !strcmp(odd[i].name, "mem_to_mm2s");
        double got = value_of(&c, odd[i].name), want = odd[i].value;
        if (!small && fabs(got - want) > NEAR * want + 0.5) {
            fail_msg("%s was %g and is written as %g", odd[i].name, want, got);
        }
    }
    snprintf(words, sizeof words, "bench ADD f32 1024 --arch aie2 --clock %s", path);
    r = run(words);
    assert_int_equal(r.status, 0);
    assert_non_null(strstr((char *) r.text.data, "clock RyzenAI-npu1-measured (1310 MHz)"));
    buf_free(&r.text);
}

static void page(void ** state) {
    (void) state;
    char words[300];
    uint8_t * data;
    size_t size;
    struct error err;
    const char * path = file_in("page.html");
    snprintf(words, sizeof words, "--only tiles,prices%s --html %s", SANITIZED ? "" : ",speed",
             path);
    struct result r =
        run_with(TOOL, "USER=somebody-else HOME=/home/somebody-else GGML_HSA_EMULATE=aie2", words);
    assert_int_equal(r.status, 0);
    assert_null(strchr((char *) r.text.data, '\r')); // no progress where nobody looks
    assert_null(strchr((char *) r.text.data, '\033'));
    buf_free(&r.text);
    assert_int_equal(file_read(path, 1 << 20, &data, &size, &err), ST_OK);
    char * text = strndup((char *) data, size);
    free(data);
    static const char * const there[] = {"<!doctype html>", "prefers-color-scheme:dark",
                                         "max-width:34rem", ">The array<",
                                         ">Figures<",       SANITIZED ? ">Figures<" : ">Roofline<",
                                         "doctor --report", "</html>"};
    static const char * const not_there[] = {"http:", "https:",  "<script",
                                             "<img",  "@import", "somebody-else"};
    for (size_t i = 0; i < sizeof there / sizeof there[0]; i++) {
        if (!strstr(text, there[i])) {
            fail_msg("the page has no %s", there[i]);
        }
    }
    for (size_t i = 0; i < sizeof not_there / sizeof not_there[0]; i++) {
        if (strstr(text, not_there[i])) {
            fail_msg("the page has %s", not_there[i]);
        }
    }
    free(text);
}

// ---- the command ----

static void usage(void ** state) {
    (void) state;
    static const char * const wrong[] = {"quickly",   "--device x", "--only nothing",
                                         "--rest -1", "--device",   "--device 9"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct result r = run_with(TOOL, "GGML_HSA_EMULATE=aie2", wrong[i]);
        assert_int_equal(r.status, i < 5 ? 2 : 1);
        buf_free(&r.text);
    }
    struct result r =
        run_with(TOOL, "GGML_HSA_EMULATE=aie2 GGML_HSA_EMU_CLOCK=./nowhere.clock", "--only add");
    assert_int_equal(r.status, 1);
    buf_free(&r.text);
}

// How long the tool takes to listen to signals is the host's matter: who was too early tries again.
static void interrupted(void ** state) {
    (void) state;
    static const char * const seconds[] = {"0.5", "4", "16"};
    char text[4096] = "";
    for (int i = 0; i < 3 && !strstr(text, "interrupted"); i++) {
        char command[600];
        snprintf(command, sizeof command,
                 "env GGML_HSA_EMULATE=aie2 timeout -s INT %s %s validate --only rest,add --rest "
                 "60",
                 seconds[i], TOOL);
        FILE * pipe = popen(command, "r");
        size_t n = fread(text, 1, sizeof text - 1, pipe);
        text[n] = '\0';
        int status = pclose(pipe);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 124); // timeout's own; it ended by the signal
    }
    assert_non_null(strstr(text, "interrupted"));
}

static void the_rest_of_the_steps(void ** state) {
    (void) state;
    static const char * const worlds[] = {"GGML_HSA_EMULATE=aie2", "GGML_HSA_EMULATE=aie2p:4"};
    for (int i = 0; i < 2; i++) {
        struct result r = run_with(TOOL, worlds[i],
                                   "--only add,tiles,instructions,rest,processes,fault --rest 0.1");
        if (r.status != 0 || !strstr((char *) r.text.data, "all is well")) {
            fail_msg("%s: %s", worlds[i], (char *) r.text.data);
        }
        assert_non_null(strstr((char *) r.text.data, "deadlock")); // the fault was told
        buf_free(&r.text);
    }
}

// Against ggml's CPU; and a difference in the core is one in the ops that use it.
static void ops(void ** state) {
    (void) state;
    if (!WITH_GGML || SANITIZED) {
        skip_test("ggml-hsa-validate-ops is not built, or slow");
    }
    struct result r = run_with(TOOL, "GGML_HSA_EMULATE=aie2", "--only ops");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr((char *) r.text.data, "63 as the CPU has it, 0 not, 0 the device has"));
    buf_free(&r.text);
    expect_wrong("GGML_HSA_EMULATE=aie2 GGML_HSA_EMU_PLANT=VADD_F=VSUB_F", "ops",
                 "wrong: elementwise, ADD f32 261x7x1x1: NMSE");
}

static int setup(void ** state) {
    (void) state;
    snprintf(dir, sizeof dir, "/tmp/test-validate-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void ** state) {
    char command[100];
    (void) state;
    snprintf(command, sizeof command, "rm -r '%s'", dir);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prices),
        cmocka_unit_test(prices_through_the_driver),
        cmocka_unit_test(another_instruction),
        cmocka_unit_test(another_adder),
        cmocka_unit_test(stuck_lock),
        cmocka_unit_test(another_memory),
        cmocka_unit_test(another_bank_rule),
        cmocka_unit_test(another_pdi_price),
        cmocka_unit_test(blind),
        cmocka_unit_test(clock_of_the_device),
        cmocka_unit_test(page),
        cmocka_unit_test(usage),
        cmocka_unit_test(interrupted),
        cmocka_unit_test(the_rest_of_the_steps),
        cmocka_unit_test(ops),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

// test-clock: the tables of docs/emulator.md say what clock.c says, figure by figure and for both
// devices, and leave none out.
#include "emu/aie/clock.h"

#include "base/base.h"
#include "base/cmocka-all.h"

#include <stddef.h>

#define FIGURE(name)                                                                               \
    { #name, offsetof(struct emu_clock, name), sizeof((struct emu_clock *) NULL)->name }

// In the order of struct emu_clock, so that one left out leaves a hole.
static const struct {
    const char * name;
    size_t at, size;
} figures[] = {
    FIGURE(mhz),          FIGURE(bank_bit),        FIGURE(lock_stall),
    FIGURE(dma_granule),  FIGURE(dma_wins_sparse), FIGURE(dma_wins_dense),
    FIGURE(lock_to_core), FIGURE(lock_to_s2mm),    FIGURE(lock_to_mm2s),
    FIGURE(mem_to_mm2s),  FIGURE(fetch),           FIGURE(bd_gap),
    FIGURE(task_start),   FIGURE(stream_words),    FIGURE(hop_local),
    FIGURE(hop_outside),  FIGURE(fifo_local),      FIGURE(fifo_outside),
    FIGURE(fifo_in),      FIGURE(fifo_out),        FIGURE(packet_word),
    FIGURE(mm2s_cold),    FIGURE(mm2s_steady),     FIGURE(mm2s_decay),
    FIGURE(s2mm_cold),    FIGURE(s2mm_steady),     FIGURE(s2mm_decay),
    FIGURE(burst_words),  FIGURE(burst_gap),       FIGURE(ddr_read),
    FIGURE(ddr_write),    FIGURE(ddr_both),        FIGURE(run_bytes),
    FIGURE(txn_write),    FIGURE(txn_block),       FIGURE(txn_block_word),
    FIGURE(txn_mask),     FIGURE(txn_patch),       FIGURE(txn_sync),
    FIGURE(token),        FIGURE(txn_token),       FIGURE(submit_ns),
    FIGURE(dispatch_ns),  FIGURE(pdi_ns),          FIGURE(pdi_command_ns),
    FIGURE(pdi_word_ns),  FIGURE(context_ns),      FIGURE(flush_mb_ns),
};
enum { FIGURES = sizeof figures / sizeof figures[0], IN_A_ROW = 4 };

static uint32_t value_of(const struct emu_clock * c, int figure) {
    const char * at = (const char *) c + figures[figure].at;
    uint8_t byte;
    uint16_t half;
    uint32_t word;
    memcpy(&byte, at, 1);
    memcpy(&half, at, 2);
    memcpy(&word, at, 4);
    return figures[figure].size == 1 ? byte : figures[figure].size == 2 ? half : word;
}

static void no_figure_is_missing_here(void ** state) {
    (void) state;
    size_t end = offsetof(struct emu_clock, mhz);
    for (int i = 0; i < FIGURES; i++) {
        size_t start = (end + figures[i].size - 1) / figures[i].size * figures[i].size;
        if (figures[i].at != start) {
            fail_msg("there is a figure in front of %s that this test does not know",
                     figures[i].name);
        }
        end = figures[i].at + figures[i].size;
    }
    size_t align = _Alignof(struct emu_clock);
    assert_int_equal((end + align - 1) / align * align, sizeof(struct emu_clock));
}

// The cells of a row "| a | b | c |", cut in place; returns how many.
static int cells_of(char * line, char ** cells, int max) {
    int n = 0;
    for (char * at = strchr(line, '|'); at && n < max; n++) {
        char * end = strchr(at + 1, '|');
        if (!end) {
            break;
        }
        *end = 0;
        cells[n] = at + 1;
        at = end;
    }
    return n;
}

static int numbers_of(const char * text, uint32_t * numbers) {
    int n = 0, read;
    for (; n < IN_A_ROW && sscanf(text, " %u%n", &numbers[n], &read) == 1; n++) {
        text += read;
        text += strspn(text, " ,");
    }
    return n;
}

// A faster array does not have faster host memory, in whatever order the settings come.
static void host_memory_keeps_its_pace(void ** state) {
    (void) state;
    struct emu_clock plain, fast, before, behind;
    assert_int_equal(emu_clock_parse("phoenix", &plain, NULL), ST_OK);
    assert_int_equal(emu_clock_parse("phoenix,mhz=2056", &fast, NULL), ST_OK);
    assert_int_equal(fast.ddr_read, plain.ddr_read / 2);
    assert_int_equal(emu_clock_parse("phoenix,ddr=20,mhz=2000", &before, NULL), ST_OK);
    assert_int_equal(emu_clock_parse("phoenix,mhz=2000,ddr=20", &behind, NULL), ST_OK);
    assert_int_equal(behind.ddr_read, 10000);
    assert_in_range(before.ddr_read, 9999, 10000);
}

// 0 is no limit: a memory that is slow beyond words does not become one without, and one that is
// fast beyond words not a slow one.
static void host_memory_at_its_ends(void ** state) {
    (void) state;
    static const struct {
        const char * text;
        uint32_t least, most;
    } cases[] = {
        {"phoenix,ddr=0", 0, 0},
        {"phoenix,ddr=0.0000001", 1, 1},
        {"phoenix,ddr=0.001,mhz=100000", 1, 10},
        {"phoenix,mhz=1,ddr=100000", UINT32_MAX, UINT32_MAX},
        {"phoenix,ddr=100000,mhz=1", UINT32_MAX, UINT32_MAX},
        {"ideal,mhz=1", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct emu_clock clock;
        assert_int_equal(emu_clock_parse(cases[i].text, &clock, NULL), ST_OK);
        assert_in_range(clock.ddr_read, cases[i].least, cases[i].most);
        assert_in_range(clock.ddr_write, cases[i].least, cases[i].most);
    }
}

static void the_page_says_the_same(void ** state) {
    (void) state;
    const struct emu_clock * devices[] = {emu_clock_default(AIE_ARCH_AIE2),
                                          emu_clock_default(AIE_ARCH_AIE2P)};
    FILE * f = fopen(DOCS_DIR "/emulator.md", "r");
    assert_non_null(f);
    char line[512], *cells[4];
    bool told[FIGURES] = {false};
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "| `", 3) != 0 || cells_of(line, cells, 4) < 3) {
            continue;
        }
        uint32_t numbers[2][IN_A_ROW];
        int n[2], k = 0;
        for (int d = 0; d < 2; d++) {
            n[d] = numbers_of(cells[1 + d], numbers[d]);
        }
        for (char * name = strtok(cells[0], " ,`"); name; name = strtok(NULL, " ,`"), k++) {
            int i = 0;
            while (i < FIGURES && strcmp(figures[i].name, name) != 0) {
                i++;
            }
            if (i == FIGURES) {
                fail_msg("the page tells of %s, which is no figure", name);
            }
            for (int d = 0; d < 2; d++) {
                if (k >= n[d] || numbers[d][k] != value_of(devices[d], i)) {
                    fail_msg("%s of %s is %u, the page says otherwise", name, devices[d]->name,
                             value_of(devices[d], i));
                }
            }
            told[i] = true;
        }
    }
    fclose(f);
    for (int i = 0; i < FIGURES; i++) {
        if (!told[i]) {
            fail_msg("the page does not tell of %s", figures[i].name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_figure_is_missing_here),
        cmocka_unit_test(host_memory_keeps_its_pace),
        cmocka_unit_test(host_memory_at_its_ends),
        cmocka_unit_test(the_page_says_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

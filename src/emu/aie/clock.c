// clock: the devices. Each figure has its source beside it; trust in brackets:
//   [S] measured on silicon   [T] read off a silicon trace, cycle by cycle   [D] AMD's manuals
//   [C] vendor code           [?] inferred, or one measurement that others dispute
#include "emu/aie/clock.h"

#include "emu/aie/core-target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char * const emu_cause_names[EMU_CAUSES] = {
    [EMU_CORE] = "core",       [EMU_BANK] = "bank",         [EMU_LOCK] = "lock",
    [EMU_STREAM] = "stream",   [EMU_START] = "start-up",    [EMU_DDR] = "DDR",
    [EMU_CONTROL] = "control", [EMU_RECONFIG] = "reconfig", [EMU_HOST] = "host",
    [EMU_FLUSH] = "flush",
};

// clang-format off
static const struct emu_clock clocks[] = {
{
    .name = "phoenix",   // aie2: Ryzen 7040 and 8040
    .mhz = 1028,         // [S] default and "performance" of a Phoenix; the driver's level is 1024 [C]
    .bank_bit = 4,       // [S] conflict counters of single banks
    .lock_stall = 1,     // [T] 31 of 31 acquires and releases of one trace
    .dma_granule = 16,   // [S] by two methods
    .dma_wins_sparse = 220, .dma_wins_dense = 37, // [S] 22 % at 0.15 accesses a cycle and bank; 19 in
                                                  // 1,024 granules when a word is stored every cycle
    .lock_to_core = 5,   // [T] the stall ends 9 cycles after a descriptor's last word, and an acquire
                         // that finds its lock open is 4 cycles old when its stall ends
    .lock_to_s2mm = 8,   // [T] 8 or 9
    .lock_to_mm2s = 12,  // [T] 12 or 13
    .mem_to_mm2s = 20,   // [T] once; 19 cycles between the two words
    .fetch = 11,         // [?] of the 12: [S] 256 words are fetched 244 cycles after the start, and
                         // [T] a memtile's buffer is filled again while its words still leave
    .bd_gap = 1,         // [T] 16 on 1 off, 8 on 1 off
    .task_start = 12,    // [?] descriptor, lock and memory
    .stream_words = 1,   // [S]
    .hop_local = 3, .hop_outside = 4,    // [D]
    .fifo_local = 6, .fifo_outside = 8,  // [D]
    .fifo_in = 16,       // [S] 15 or 16 in 39 windows
    .fifo_out = 12,      // [D] and [S], as above
    .packet_word = 4,    // [?] as Strix
    .mm2s_cold = 1330, .mm2s_steady = 319, .mm2s_decay = 310, // [S] medians of 50; very noisy
    .s2mm_cold = 260, .s2mm_steady = 185, .s2mm_decay = 0,    // [S]
    .burst_words = 128,  // [D] 512 bytes
    .burst_gap = 6,      // [S] 1.05 cycles a word in steady state
    .ddr_read = 15564, .ddr_write = 15564, .ddr_both = 15564, // 16 GB/s, see memories[]
    // [S] 6.9 GB/s in runs of 112 bytes, 12.1 in runs of 212, 16.7 in runs of 448, by two sources:
    // 16 to 18 ns for each address whatever is behind it, if that is less than 270 bytes.
    .run_bytes = 270,
    .txn_write = 100,    // [S] 87 and 114 in turn
    .txn_block = 99, .txn_block_word = 13, // [S] 203 for 8 words
    .txn_mask = 210,     // [S] +-25
    // The rest of a whole transfer, which was measured as 1,094 cycles without a token and 1,056 with
    // one, up to a write behind it, and as 1,086 with one from queue to queue [S]. Less the writes that
    // are known this is 691, 443 and 573: the three cannot all be right, so their mean. [?]
    .txn_patch = 570,
    .txn_sync = 100,     // [?] as a write
    .token = 7980,       // [S] one design
    // Eight transfers in a row that all give a token are 1,086 cycles apart until the first token has
    // come, and 3,024 to 3,347 from then on (medians of 50, each within 7 to 134) [S]. That it is the
    // tokens which hold up the controller is inferred. [?]
    .txn_token = 1970,
    .submit_ns = 82300,  // [S] 110 us a call, less a chained dispatch
    .dispatch_ns = 27700, // [S] chained dispatches of xrt-smi
    .pdi_ns = 25000, .pdi_command_ns = 600, .pdi_word_ns = 1, // [?] as Strix
    .context_ns = 2600000, // [S] 3.4 ms for a GEMM of 16 cores, less the load of such a PDI
    .flush_mb_ns = 9000, // [?] as Strix
},
{
    .name = "strix",     // aie2p: Ryzen AI 300
    .mhz = 1800,         // [S] 1.8, 1.808
    .bank_bit = 5,       // [D] 32-byte banks; [T] for 64-byte accesses
    .lock_stall = 1,     // [T] 4 in every uncontended gap
    .dma_granule = 32,   // [?] from widths
    .dma_wins_sparse = 120, .dma_wins_dense = 100, // [?] from a mean of 14 in 1,385 cycles [T]
    .lock_to_core = 5,   // [T] as Phoenix: 8 in two of three cases, else 9
    .lock_to_s2mm = 8,   // [T] 5 or 6 after the pulse, which is 3 after the request
    .lock_to_mm2s = 11,  // [T] 11 or 12: 7 or 8 behind the pulse, which ends 4 after the request
    .mem_to_mm2s = 20, .fetch = 11, // [?] as Phoenix
    .bd_gap = 1,         // [T]
    .task_start = 12,    // [?]
    .stream_words = 2,   // [T] 8 KiB in 1,024 cycles
    .hop_local = 3, .hop_outside = 4,   // [D]
    .fifo_local = 12, .fifo_outside = 16, // [D] 6 and 8 of 64 bits
    .fifo_in = 32,       // [T] 16 of 64 bits
    .fifo_out = 24,      // [?]
    // [?] 730 packets of six words load the programs of an array in 17 us more than one packet takes
    // (iree-amd-aie #1187, 82 and 99 us); five transfers less, which were about 10 us, this leaves 17
    // cycles for a packet: one for each of its words and a good two for each of the four it writes. With
    // two transfers, if others overlap, it is 31 and six. Between them.
    .packet_word = 4,
    .mm2s_cold = 1330, .mm2s_steady = 319, .mm2s_decay = 310, // [?] as Phoenix
    .s2mm_cold = 260, .s2mm_steady = 185, .s2mm_decay = 0,    // [?] as Phoenix
    .burst_words = 128,  // [D]
    .burst_gap = 0,      // [?]
    .ddr_read = 27778, .ddr_write = 27778, .ddr_both = 31111, // 50 and 56 GB/s, see memories[]
    .run_bytes = 270,    // [?] as Phoenix
    // [S] Four int8 GEMMs on a Strix Halo that wait for their controller take 2.12 to 2.20 us for a
    // block, a patch, a mask, a write, a sync and a token. How that is shared out among the six [?]:
    // as on Phoenix.
    .txn_write = 143, .txn_block = 143, .txn_block_word = 15, .txn_mask = 286, .txn_patch = 680,
    .txn_sync = 143,
    .token = 7980,       // [?] as Phoenix
    .txn_token = 2350,   // [S], as above
    .submit_ns = 43200,  // [S] 52 us a call, less a chained dispatch
    .dispatch_ns = 8800, // [S]
    // [?] 25 us and 7.2 us a lock in six designs [S], which have about a dozen commands for each lock
    // (descriptors, channels, routes); our designs keep descriptors in the stream, so commands are
    // what compares.
    .pdi_ns = 25000, .pdi_command_ns = 600, .pdi_word_ns = 1,
    // [S] 4.9 ms for a GEMM of 32 cores, less the load of such a PDI; 2.4 and 2.67 ms elsewhere
    .context_ns = 2600000,
    .flush_mb_ns = 9000, // [S] 18 us a MB for two passes, by a decoder with and without (Triton-XDNA #112)
},
{
    .name = "ideal",     // no bank is busy, no memory slow, no host there: what a design could reach
    .mhz = 1000,
    .dma_granule = 16,
    .lock_to_core = 1, .lock_to_s2mm = 1, .lock_to_mm2s = 1, .mem_to_mm2s = 1, .bd_gap = 1, .task_start = 1,
    .stream_words = 1,
    .hop_local = 2, .hop_outside = 2, .fifo_local = 4, .fifo_outside = 4, .fifo_in = 16, .packet_word = 1,
    .burst_words = 128,
    .txn_write = 16, .txn_block = 16, .txn_mask = 16, .txn_patch = 16, .txn_sync = 16, .token = 1,
},
};
// clang-format on
enum { N_CLOCKS = sizeof clocks / sizeof clocks[0] };

const char * const emu_range_names[EMU_RANGES] = {"low", "likely", "high"};

// Host memory as the array sees it, MB/s: one way, both ways together.
//
// phoenix: [S] AMD (arXiv 2512.13282, 5.2) finds about 15 GB/s for whole designs, both ways
// together; its memory-bound case comes to 16.7. 12.1 was read by four columns, with one channel
// each. 23 follows from a 27B model of 12.6 GiB at 1.72 tokens/s, in which the CPU may have helped.
// [?] 22.6 to 24 were published, too, for a harness that could not have carried it. strix: [S] AMD,
// as above: about 50. 47 to 57 reading alone, 45 to 58 by whole decoders; copies 47.1, 55.5,
// and 66.6 with AxCACHE 2, which we do not set.
static const struct {
    const char * name;
    struct {
        uint32_t one_way, both;
    } range[EMU_RANGES];
} memories[] = {
    {"phoenix", {{12000, 12000}, {16000, 16000}, {23000, 23000}}},
    {"strix", {{45000, 50000}, {50000, 56000}, {58000, 62000}}},
};

const struct emu_clock * emu_clock_default(enum aie_arch arch) {
    const char * name = core_target_of(arch)->clock;
    int i = 0;
    while (i < N_CLOCKS - 1 && strcmp(clocks[i].name, name) != 0) {
        i++;
    }
    return &clocks[i];
}

// Bytes in 1000 cycles, from any number of them. 0 says that there is no limit, so that a memory
// which is ever so slow still moves a byte.
static uint32_t ddr_rate(double bytes) {
    return bytes <= 0 ? 0 : bytes < 1 ? 1 : bytes < UINT32_MAX ? (uint32_t) bytes : UINT32_MAX;
}

static void set_memory(struct emu_clock * c, double one_way, double both) { // MB/s
    double k = 1e3 / c->mhz, half = 0.5;
    c->ddr_read = c->ddr_write = ddr_rate(one_way > 0 ? one_way * k + half : 0);
    c->ddr_both = ddr_rate(both > 0 ? both * k + half : 0);
}

// False: there is no such range. Of the ideal clock all three are the same: it has no limits.
static bool set_range(struct emu_clock * c, const char * name, size_t n) {
    int r = 0;
    while (r < EMU_RANGES &&
           (strlen(emu_range_names[r]) != n || strncmp(emu_range_names[r], name, n) != 0)) {
        r++;
    }
    for (size_t i = 0; i < sizeof memories / sizeof memories[0] && r < EMU_RANGES; i++) {
        if (strcmp(memories[i].name, c->name) == 0) {
            set_memory(c, memories[i].range[r].one_way, memories[i].range[r].both);
        }
    }
    return r < EMU_RANGES;
}

static enum status set(struct emu_clock * c, const char * text, size_t n, struct error * err) {
    const char * equals = memchr(text, '=', n);
    size_t key = equals ? (size_t) (equals - text) : n;
    char * end = NULL;
    double value = equals ? strtod(equals + 1, &end) : 0;
    bool number = equals && end == text + n && end > equals + 1 && value >= 0;
    if (key == 3 && strncmp(text, "mhz", 3) == 0 && number && value >= 1 && value <= 100000) {
        double before = c->mhz;
        c->mhz = (uint32_t) value;
        // Host memory does not become faster with the array.
        c->ddr_read = ddr_rate(c->ddr_read * before / c->mhz);
        c->ddr_write = ddr_rate(c->ddr_write * before / c->mhz);
        c->ddr_both = ddr_rate(c->ddr_both * before / c->mhz);
    } else if (key == 3 && strncmp(text, "ddr", 3) == 0 && number && value <= 100000) {
        set_memory(c, value * 1000, value * 1000);
    } else if (!(key == 5 && strncmp(text, "range", 5) == 0 && equals &&
                 set_range(c, equals + 1, n - 6))) {
        return error_set(err, ST_INVALID,
                         "clock: '%.*s' is no setting: mhz=<array clock>, ddr=<GB/s>, 0 for no "
                         "limit, or range=low, likely, high",
                         (int) n, text);
    }
    return ST_OK;
}

// ",mhz=1600,ddr=30", or nothing.
static enum status set_all(struct emu_clock * out, const char * text, struct error * err) {
    enum status st = ST_OK;
    while (*text && st == ST_OK) {
        size_t n = strcspn(++text, ",");
        st = set(out, text, n, err);
        text += n;
    }
    return st;
}

enum status emu_clock_parse(const char * text, struct emu_clock * out, struct error * err) {
    size_t n = strcspn(text, ",");
    const struct emu_clock * found = NULL;
    if (memchr(text, '/', n) || memchr(text, '.', n)) {
        char path[512];
        snprintf(path, sizeof path, "%.*s", (int) (n < sizeof path ? n : sizeof path - 1), text);
        enum status st = n < sizeof path
                             ? emu_clock_file(path, out, err)
                             : error_set(err, ST_INVALID, "clock: the path of a file is too long");
        return st == ST_OK ? set_all(out, text + n, err) : st;
    }
    for (int i = 0; i < N_CLOCKS; i++) {
        if (strlen(clocks[i].name) == n && strncmp(text, clocks[i].name, n) == 0) {
            found = &clocks[i];
        }
    }
    if (!found) {
        return error_set(err, ST_INVALID,
                         "clock: there is no device '%.*s': phoenix, strix, ideal or a file, "
                         "as ./my.clock",
                         (int) n, text);
    }
    *out = *found;
    return set_all(out, text + n, err);
}

enum status emu_clock_get(enum aie_arch arch, struct emu_clock * out, struct error * err) {
    const char * text = getenv("GGML_HSA_EMU_CLOCK");
    if (!text || !*text) {
        *out = *emu_clock_default(arch);
        return ST_OK;
    }
    enum status st = emu_clock_parse(text, out, err);
    if (st != ST_OK) {
        error_prefix(err, st, "GGML_HSA_EMU_CLOCK=%.80s", text);
    }
    return st;
}

uint64_t emu_account_cycles(const struct emu_account * account) {
    uint64_t sum = 0;
    for (int i = 0; i < EMU_CAUSES; i++) {
        sum += account->cycles[i];
    }
    return sum;
}

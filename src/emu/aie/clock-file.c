// clock-file: a clock that comes from a file, such as the one that `ggml-hsa validate --clock`
// writes of a device that it measured. Lines are "figure = number"; "device" comes first and says
// whose figures those are that the file leaves out; "#" begins a comment.
//
//     device = phoenix
//     name = my-laptop
//     mhz = 1024
//
// The bytes are hostile: every figure is known, comes once, is a whole number and within what the
// machine can play.
#include "emu/aie/clock.h"

#include "base/plain.h"

#include <ctype.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 64 << 10, NAME_MOST = 32, NAMES = 16 };

#define FIGURE(name, min, max)                                                                     \
    { #name, offsetof(struct emu_clock, name), sizeof((struct emu_clock *) NULL)->name, min, max }

// Least and largest: what the array can be played with, not what is likely.
static const struct {
    const char * name;
    size_t at, size;
    uint32_t min, max;
} figures[] = {
    FIGURE(mhz, 1, 100000),
    FIGURE(bank_bit, 0, 13),
    FIGURE(lock_stall, 0, 255),
    FIGURE(dma_granule, 4, 128),
    FIGURE(dma_wins_sparse, 0, 1000),
    FIGURE(dma_wins_dense, 0, 1000),
    FIGURE(lock_to_core, 1, 255),
    FIGURE(lock_to_s2mm, 1, 255),
    FIGURE(lock_to_mm2s, 1, 255),
    FIGURE(mem_to_mm2s, 1, 255),
    FIGURE(fetch, 0, 255),
    FIGURE(bd_gap, 0, 255),
    FIGURE(task_start, 1, 255),
    FIGURE(stream_words, 1, 8),
    FIGURE(hop_local, 1, 255),
    FIGURE(hop_outside, 1, 255),
    FIGURE(fifo_local, 1, 255),
    FIGURE(fifo_outside, 1, 255),
    FIGURE(fifo_in, 1, 255),
    FIGURE(fifo_out, 0, 255),
    FIGURE(packet_word, 1, 255),
    FIGURE(mm2s_cold, 0, 65535),
    FIGURE(mm2s_steady, 0, 65535),
    FIGURE(mm2s_decay, 0, 1000),
    FIGURE(s2mm_cold, 0, 65535),
    FIGURE(s2mm_steady, 0, 65535),
    FIGURE(s2mm_decay, 0, 1000),
    FIGURE(burst_words, 0, 65535),
    FIGURE(burst_gap, 0, 65535),
    FIGURE(ddr_read, 0, 100000000),
    FIGURE(ddr_write, 0, 100000000),
    FIGURE(ddr_both, 0, 100000000),
    FIGURE(run_bytes, 0, 1 << 20),
    FIGURE(txn_write, 1, 65535),
    FIGURE(txn_block, 1, 65535),
    FIGURE(txn_block_word, 0, 65535),
    FIGURE(txn_mask, 1, 65535),
    FIGURE(txn_patch, 1, 65535),
    FIGURE(txn_sync, 1, 65535),
    FIGURE(token, 1, 65535),
    FIGURE(txn_token, 0, 65535),
    FIGURE(submit_ns, 0, 1000000000),
    FIGURE(dispatch_ns, 0, 1000000000),
    FIGURE(pdi_ns, 0, 1000000000),
    FIGURE(pdi_command_ns, 0, 1000000),
    FIGURE(pdi_word_ns, 0, 1000000),
    FIGURE(context_ns, 0, 1000000000),
    FIGURE(flush_mb_ns, 0, 1000000000),
};
enum { FIGURES = sizeof figures / sizeof figures[0] };

int emu_clock_figures(void) {
    return FIGURES;
}

const char * emu_clock_figure(int i) {
    return figures[i].name;
}

uint32_t emu_clock_value(const struct emu_clock * c, int i) {
    const char * at = (const char *) c + figures[i].at;
    uint8_t byte;
    uint16_t half;
    uint32_t word;
    switch (figures[i].size) {
    case 1:
        memcpy(&byte, at, 1);
        return byte;
    case 2:
        memcpy(&half, at, 2);
        return half;
    default:
        memcpy(&word, at, 4);
        return word;
    }
}

static void set_value(struct emu_clock * c, int i, uint32_t value) {
    char * at = (char *) c + figures[i].at;
    uint8_t byte = (uint8_t) value;
    uint16_t half = (uint16_t) value;
    memcpy(at,
           figures[i].size == 1   ? (const void *) &byte
           : figures[i].size == 2 ? (const void *) &half
                                  : (const void *) &value,
           figures[i].size);
}

bool emu_clock_set(struct emu_clock * c, const char * name, uint64_t value) {
    for (int i = 0; i < FIGURES; i++) {
        if (!strcmp(figures[i].name, name)) {
            bool fits = value >= figures[i].min && value <= figures[i].max;
            bool odd = !strcmp(name, "stream_words") && (value & (value - 1)); // ticks of a cycle
            if (fits && !odd) {
                set_value(c, i, (uint32_t) value);
            }
            return fits && !odd;
        }
    }
    return false;
}

// Names outlive the clocks that point to them. Further ones than there is room for are "measured".
static const char * keep_name(const char * name, size_t n) {
    static char names[NAMES][NAME_MOST];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char * kept = "measured";
    pthread_mutex_lock(&lock);
    for (int i = 0; i < NAMES; i++) {
        if (!names[i][0]) {
            memcpy(names[i], name, n);
        }
        if (strlen(names[i]) == n && !memcmp(names[i], name, n)) {
            kept = names[i];
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return kept;
}

struct line {
    const char *key, *value;
    size_t key_size, value_size;
    int number;
};

static enum status refuse(const struct line * l, const char * why, struct error * err) {
    return error_set(err, ST_INVALID, "line %d: '%.*s = %.*s': %s", l->number,
                     (int) (l->key_size < 40 ? l->key_size : 40), l->key,
                     (int) (l->value_size < 40 ? l->value_size : 40), l->value, why);
}

static size_t trimmed(const char ** text, size_t n) {
    while (n && isblank((unsigned char) **text)) {
        ++*text;
        n--;
    }
    while (n && (isblank((unsigned char) (*text)[n - 1]) || (*text)[n - 1] == '\r')) {
        n--;
    }
    return n;
}

// Digits alone, at most ten of them.
static bool number_of(const struct line * l, uint64_t * out) {
    *out = 0;
    for (size_t i = 0; i < l->value_size; i++) {
        if (!isdigit((unsigned char) l->value[i])) {
            return false;
        }
        *out = *out * 10 + (uint64_t) (l->value[i] - '0');
    }
    return l->value_size > 0 && l->value_size <= 10;
}

static bool is_key(const struct line * l, const char * key) {
    return l->key_size == strlen(key) && !memcmp(l->key, key, l->key_size);
}

static enum status set_name(const struct line * l, struct emu_clock * out, struct error * err) {
    bool plain = l->value_size > 0 && l->value_size < NAME_MOST;
    for (size_t i = 0; plain && i < l->value_size; i++) {
        plain = isalnum((unsigned char) l->value[i]) || strchr("-_.+", l->value[i]);
    }
    if (!plain) {
        return refuse(l, "a name has 1 to 31 letters, digits, '-', '_', '.' or '+'", err);
    }
    out->name = keep_name(l->value, l->value_size);
    return ST_OK;
}

// `seen` has a bit for each figure, and one for the name.
static enum status take(const struct line * l, bool * has_device, uint64_t * seen,
                        struct emu_clock * out, struct error * err) {
    char name[NAME_MOST];
    uint64_t value;
    if (!*has_device) {
        snprintf(name, sizeof name, "%.*s", (int) (l->value_size < 31 ? l->value_size : 31),
                 l->value);
        *has_device = is_key(l, "device") && !strchr(name, ',') && !strchr(name, '/') &&
                      !strchr(name, '.') && emu_clock_parse(name, out, NULL) == ST_OK;
        return *has_device ? ST_OK
                           : refuse(l, "the first line is 'device = phoenix' or 'strix'", err);
    }
    if (is_key(l, "name")) {
        return *seen & UINT64_C(1) << 63 ? refuse(l, "the name came before", err)
                                         : (*seen |= UINT64_C(1) << 63, set_name(l, out, err));
    }
    int i = 0;
    while (i < FIGURES && !is_key(l, figures[i].name)) {
        i++;
    }
    if (i == FIGURES) {
        return refuse(l, "there is no such figure; docs/emulator.md has them", err);
    }
    if (*seen & UINT64_C(1) << i) {
        return refuse(l, "it came before", err);
    }
    *seen |= UINT64_C(1) << i;
    if (!number_of(l, &value) || !emu_clock_set(out, figures[i].name, value)) {
        char why[96];
        snprintf(why, sizeof why, "a whole number from %u to %u%s", figures[i].min, figures[i].max,
                 strcmp(figures[i].name, "stream_words") ? "" : ", a power of two");
        return refuse(l, why, err);
    }
    return ST_OK;
}

enum status emu_clock_read(const char * text, size_t size, struct emu_clock * out,
                           struct error * err) {
    _Static_assert(FIGURES < 63, "a bit each");
    bool has_device = false;
    uint64_t seen = 0;
    enum status st = ST_OK;
    struct line l = {0};
    for (const char *at = text, *end = text + size; at < end && st == ST_OK;) {
        const char * stop = memchr(at, '\n', (size_t) (end - at));
        size_t n = (size_t) ((stop ? stop : end) - at);
        const char *comment = memchr(at, '#', n), *line = at;
        at += n + 1;
        n = comment ? (size_t) (comment - line) : n;
        n = trimmed(&line, n);
        l.number++;
        if (n == 0) {
            continue;
        }
        const char * equals = memchr(line, '=', n);
        if (!equals) {
            return error_set(err, ST_INVALID, "line %d: expected 'figure = number'", l.number);
        }
        l.key = line;
        l.key_size = trimmed(&l.key, (size_t) (equals - line));
        l.value = equals + 1;
        l.value_size = trimmed(&l.value, n - (size_t) (equals + 1 - line));
        st = take(&l, &has_device, &seen, out, err);
    }
    if (st == ST_OK && !has_device) {
        return error_set(err, ST_INVALID, "it names no device; its first line is 'device = ...'");
    }
    return st;
}

enum status emu_clock_file(const char * path, struct emu_clock * out, struct error * err) {
    uint8_t * data = NULL;
    size_t size = 0;
    enum status st = file_read(path, FILE_BYTES, &data, &size, err);
    if (st == ST_OK) {
        st = emu_clock_read((const char *) data, size, out, err);
        if (st != ST_OK && err) {
            plain_make(err->text, false);
            error_prefix(err, st, "clock: %.200s", path);
        }
    }
    free(data);
    return st;
}

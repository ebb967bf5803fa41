// fuzz-clock: arbitrary bytes as the file of a clock. Whatever is accepted was understood in full:
// the figures that were read, written again, are read as the same.
#include "fuzz.h"

#include "emu/aie/clock.h"

const int fuzz_rounds = 3000;
const int fuzz_longest = 600;

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    struct emu_clock c, again;
    struct error err = {0};
    struct buf b = {0};
    if (emu_clock_read((const char *) data, size, &c, &err) != ST_OK) {
        if (!*err.text) {
            abort();
        }
        return 0;
    }
    buf_printf(&b, "device = phoenix\nname = %s\n", c.name);
    for (int i = 0; i < emu_clock_figures(); i++) {
        buf_printf(&b, "%s = %u\n", emu_clock_figure(i), emu_clock_value(&c, i));
    }
    // "ideal" has figures that no file may have.
    if (emu_clock_read((const char *) b.data, b.size, &again, &err) == ST_OK) {
        for (int i = 0; i < emu_clock_figures(); i++) {
            if (emu_clock_value(&c, i) != emu_clock_value(&again, i)) {
                abort();
            }
        }
    }
    buf_free(&b);
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const seeds[] = {
        "device = phoenix\nname = laptop\nmhz = 1310\nddr_read = 19000\ntoken = 9100\n",
        "# measured\ndevice = strix\nstream_words = 2\nbank_bit = 5 # halves\n",
        "device = ideal\n",
    };
    if (i >= (int) (sizeof seeds / sizeof seeds[0])) {
        return false;
    }
    *size = strlen(seeds[i]);
    *data = (uint8_t *) strdup(seeds[i]);
    return true;
}

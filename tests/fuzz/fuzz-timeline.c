// fuzz-timeline: a trace as a picture, as `ggml-hsa inspect --svg trace.json` draws it: bytes as
// they are, or events with names, times and threads that no trace has. It is refused with a reason,
// or it is an SVG with nothing in it but what a picture has.
//
// Input: the part that is shown, of two tables; then 0 and a text, or 1 and events.
#include "place.h"
#include "xml.h"

#include "inspect.h"

const int fuzz_rounds = 300;
const int fuzz_longest = 400;

// ---- events ----

static void print_text(struct fuzz_input * in, struct buf * b) {
    static const char * const names[] = {"core (0,2)", "shim (0,0) MM2S0", "host", "dispatch",
                                         "bundles",    "waits: lock",      "",     "thread_name"};
    uint32_t what = fuzz_next(in);
    if (what < 192) {
        buf_printf(b, "\"%s\"", names[what % 8]);
        return;
    }
    buf_printf(b, "\"");
    for (uint32_t n = what % 64; n > 0 && in->left; n--) {
        uint32_t c = fuzz_next(in);
        if (c >= 0x80) { // any character of two bytes, and some of three
            buf_printf(b, "\\u%02x%02x", c & 1 ? 0x20 : 0xff, c);
        } else {
            buf_printf(b, "\\u%04x", c);
        }
    }
    buf_printf(b, "\"");
}

static void print_number(struct fuzz_input * in, struct buf * b) {
    static const char * const numbers[] = {"0",
                                           "1",
                                           "2.5",
                                           "1000",
                                           "-1",
                                           "1e-300",
                                           "1e300",
                                           "-1e300",
                                           "1e308",
                                           "1.7976931348623157e308",
                                           "1e18",
                                           "-1e-18",
                                           "4294967296",
                                           "9223372036854775807",
                                           "-9223372036854775808",
                                           "\"7\"",
                                           "null",
                                           "true",
                                           "[]",
                                           "{}"};
    uint32_t what = fuzz_next(in);
    if (what < 200) {
        buf_printf(b, "%s", numbers[what % (sizeof numbers / sizeof numbers[0])]);
    } else {
        buf_printf(b, "%u.%03u", fuzz_next(in), what);
    }
}

static void print_event(struct fuzz_input * in, struct buf * b) {
    static const char * const kinds[] = {"X", "X", "X", "M", "M", "C", "B", ""};
    static const char * const fields[] = {"tid", "ts", "dur", "pid"};
    const char * kind = FUZZ_PICK(in, kinds);
    uint32_t without = fuzz_next(in); // mostly nothing
    buf_printf(b, "{\"ph\":\"%s\"", kind);
    if (without != 1) {
        buf_printf(b, ",\"name\":");
        *kind == 'M' && without < 128 ? buf_printf(b, "\"thread_name\"") : print_text(in, b);
    }
    for (uint32_t i = 0; i < 4; i++) {
        if (without != 2 + i) {
            buf_printf(b, ",\"%s\":", fields[i]);
            print_number(in, b);
        }
    }
    if (*kind == 'M') {
        buf_printf(b, ",\"args\":{\"name\":");
        print_text(in, b);
        buf_printf(b, "}");
    }
    buf_printf(b, "}");
}

static void print_trace(struct fuzz_input * in, struct buf * b) {
    buf_printf(b, "{\"otherData\":{\"clock\":");
    print_text(in, b);
    buf_printf(b, ",\"mhz\":");
    print_number(in, b);
    buf_printf(b, "},\"traceEvents\":[");
    for (int i = 0; in->left; i++) {
        buf_printf(b, i ? ",\n" : "\n");
        print_event(in, b);
    }
    buf_printf(b, "]}\n");
}

// ---- the picture ----

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    static const double from[] = {0, 0, 0, 1, 2.25, 1e18, 1e300, -1},
                        to[] = {0, 0, 0, 1, 2.5, 1e18, 1e308, 1e-300};
    static char path[128];
    struct fuzz_input in = {data, size};
    struct buf text = {0}, b = {0};
    struct error err = {0};
    if (place_make()) {
        snprintf(path, sizeof path, "%s/trace<&>.json", place);
    }
    double first = FUZZ_PICK(&in, from), last = FUZZ_PICK(&in, to);
    if (fuzz_next(&in) % 2) {
        print_trace(&in, &text);
    } else {
        buf_append(&text, in.data, in.left);
    }
    place_write(path, text.size ? (const char *) text.data : "", text.size);
    enum status st = timeline_print(path, first, last, &b, &err);
    if (st == ST_OK) {
        xml_check((char *) b.data, b.size);
    } else if (!err.text[0] || b.size) {
        abort();
    }
    buf_free(&text);
    buf_free(&b);
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char whole[] = "\0\0\0{\"traceEvents\":[\n"
                                "{\"ph\":\"M\",\"pid\":1,\"tid\":64,\"name\":\"thread_name\","
                                "\"args\":{\"name\":\"core\"}},\n"
                                "{\"ph\":\"X\",\"pid\":1,\"tid\":64,\"name\":\"bundles\",\"ts\":1."
                                "0,\"dur\":5.5,\"args\":{}}\n"
                                "],\"otherData\":{\"clock\":\"phoenix\",\"mhz\":1028}}\n";
    // A kind, what it lacks, [a name,] four numbers: thread, time, length, process.
    static const uint8_t events[] = {0, 0, 1,   0, 3,   3, 0, 0, 0, 0, 0,   0, // a thread's name
                                     0, 0, 4,   0, 1,   3, 0, 1, 0, 5, 0,   2, 2, 0,
                                     1, 0, 200, 7, 220, 9, 0, 2, 0, 0, 200, 3, 1, 0};
    static const uint8_t odd[] = {5,   6,    1,    0,    3,    3,    0,    0,    0,    0, 0, 0,
                                  208, 0x3c, 0x26, 0x9b, 0xae, 0xfe, 0x00, 0x1b, 0x0a, 0, 0, 4,
                                  0,   6,    6,    0,    1,    0,    5,    8,    9,    4, 0};
    static const struct {
        const void * bytes;
        size_t n;
    } seeds[] = {{whole, sizeof whole - 1}, {events, sizeof events}, {odd, sizeof odd}};
    return (size_t) i < sizeof seeds / sizeof seeds[0] &&
           fuzz_bytes(seeds[i].bytes, seeds[i].n, data, size);
}

// inspect-timeline: a trace of the emulated runtime (GGML_HSA_TRACE) as a picture, for those who
// have no Perfetto at hand, and for documents. A thread is a row; each pixel of it has the colour
// of what filled the most of it, and what filled little is pale. So the picture stays small,
// however long the trace is.
#include "inspect-svg.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1100, LEFT = 190, TOP = 84, ROW = 16, BAR_HEIGHT = 10, MAX_ROWS = 400, STEPS = 4 };

enum { MAX_LOADS = 256, MAX_NAMES = 2048, NAME_LETTER = 5, NAME_LEAST = 4 };
#define MOST_US 1e12 // eleven days: no trace is longer, and all that follows from it is in bounds

// What an event is, by how its name begins and where it stands.
enum kind { KIND_CORE, KIND_WAIT, KIND_DMA, KIND_CONTROL, KIND_HOST, KIND_DISPATCH, KINDS };
static const struct {
    const char *colour, *text;
} kinds[KINDS] = {
    [KIND_CORE] = {"#2f9e44", "core computes"},  [KIND_WAIT] = {"#e8b30c", "waits"},
    [KIND_DMA] = {"#3b82f6", "words move"},      [KIND_CONTROL] = {"#9c6ade", "instruction stream"},
    [KIND_HOST] = {"#c2255c", "host, firmware"}, [KIND_DISPATCH] = {"#868e96", "dispatch"},
};

struct row {
    int64_t tid;
    char name[48];
    float filled[KINDS][WIDTH]; // of a pixel
};

struct named { // a dispatch
    const struct row * row;
    double start, end;
    char name[96];
};

struct timeline {
    struct row * rows[MAX_ROWS];
    int n;
    double from, to; // microseconds
    double first;    // when the first dispatch began; less than 0: none did
    double loads[MAX_LOADS];
    int n_loads; // PDIs, by the end of their loading
    struct named names[MAX_NAMES];
    int n_names;
};

static struct row * row_of(struct timeline * t, int64_t tid) {
    for (int i = 0; i < t->n; i++) {
        if (t->rows[i]->tid == tid) {
            return t->rows[i];
        }
    }
    struct row * r = t->n < MAX_ROWS ? calloc(1, sizeof *r) : NULL;
    if (r) {
        r->tid = tid;
        t->rows[t->n++] = r;
    }
    return r;
}

static double real(const json_t * v) {
    return json_is_real(v) ? json_real_value(v) : (double) json_integer_value(v);
}

static enum kind kind_of(const struct row * r, const char * name) {
    if (!strncmp(name, "waits", 5)) {
        return KIND_WAIT;
    }
    return !strcmp(name, "bundles")                             ? KIND_CORE
           : strstr(r->name, "S2MM") || strstr(r->name, "MM2S") ? KIND_DMA
           : !strncmp(r->name, "host", 4)                       ? KIND_HOST
           : !strcmp(r->name, "dispatch")                       ? KIND_DISPATCH
                                                                : KIND_CONTROL;
}

static void fill(struct timeline * t, struct row * r, enum kind kind, double start, double end) {
    double scale = WIDTH / (t->to - t->from);
    double a = (start - t->from) * scale, b = (end - t->from) * scale;
    a = a > 0 ? a : 0;
    a = a < WIDTH ? a : WIDTH;
    b = b < WIDTH ? b : WIDTH;
    for (int x = (int) a; x < WIDTH && x < b; x++) {
        double from = a > x ? a : x, to = b < x + 1 ? b : x + 1;
        r->filled[kind][x] += (float) (to - from);
    }
}

// Names come before the events of their threads.
static bool read_event(struct timeline * t, const json_t * e, bool measure) {
    const char *ph = json_string_value(json_object_get(e, "ph")),
               *name = json_string_value(json_object_get(e, "name"));
    const json_t *ts = json_object_get(e, "ts"), *dur = json_object_get(e, "dur");
    int64_t tid = json_integer_value(json_object_get(e, "tid"));
    if (!ph || !name) {
        return false;
    }
    if (!measure && !strcmp(ph, "M") && !strcmp(name, "thread_name")) {
        struct row * r = row_of(t, tid);
        const char * text = json_string_value(json_object_get(json_object_get(e, "args"), "name"));
        if (r && text) {
            snprintf(r->name, sizeof r->name, "%s", text);
        }
    }
    if (strcmp(ph, "X") || !ts || !dur) {
        return !strcmp(ph, "M") || !strcmp(ph, "C") || !strcmp(ph, "i");
    }
    double start = real(ts), end = start + real(dur);
    if (!(start >= 0 && start <= end && end <= MOST_US)) {
        return false;
    }
    if (measure) {
        bool dispatch = svg_is_dispatch(e, name);
        t->to = end > t->to ? end : t->to;
        t->first = dispatch && (t->first < 0 || start < t->first) ? start : t->first;
        if (!strcmp(name, "PDI is loaded") && t->n_loads < MAX_LOADS) {
            t->loads[t->n_loads++] = end;
        }
    } else {
        struct row * r = row_of(t, tid);
        if (r) {
            fill(t, r, kind_of(r, name), start, end);
        }
        if (r && svg_is_dispatch(e, name) && t->n_names < MAX_NAMES && start < t->to) {
            struct named * named = &t->names[t->n_names++];
            *named = (struct named){.row = r, .start = start, .end = end};
            snprintf(named->name, sizeof named->name, "%s", name);
        }
    }
    return true;
}

static enum status read_events(struct timeline * t, const json_t * root, bool measure,
                               struct error * err) {
    const json_t * events = json_object_get(root, "traceEvents");
    if (!json_is_array(events)) {
        return error_set(err, ST_INVALID, "no \"traceEvents\": not a file of GGML_HSA_TRACE");
    }
    for (size_t i = 0; i < json_array_size(events); i++) {
        if (!read_event(t, json_array_get(events, i), measure)) {
            return error_set(err, ST_INVALID, "event %zu is none of GGML_HSA_TRACE", i);
        }
    }
    return ST_OK;
}

static int by_tid(const void * a, const void * b) {
    const struct row *x = *(struct row *const *) a, *y = *(struct row *const *) b;
    return (x->tid > y->tid) - (x->tid < y->tid);
}

// ---- drawing ----

// The kind that fills most of a pixel, and how much in steps; 0: nothing does.
static int look(const struct row * r, int x, enum kind * kind) {
    float most = 0, all = 0;
    for (int k = 0; k < KINDS; k++) {
        all += r->filled[k][x];
        if (r->filled[k][x] > most) {
            most = r->filled[k][x];
            *kind = (enum kind) k;
        }
    }
    all = all > 1 ? 1 : all;
    return most > 0 ? 1 + (int) (all * (STEPS - 0.01f)) : 0;
}

static void draw_row(const struct row * r, int y, struct buf * b) {
    buf_printf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LEFT - 8, y + 9);
    svg_escape(r->name, b);
    buf_printf(b, "</text>\n<path class=\"m\" d=\"M%d %dh%d\"/>\n", LEFT, y + BAR_HEIGHT, WIDTH);
    for (int k = 0; k < KINDS; k++) {
        for (int step = 1; step <= STEPS; step++) {
            bool open = false;
            for (int x = 0; x < WIDTH;) {
                enum kind kind = KIND_CORE;
                int from = x;
                bool mine = look(r, x, &kind) == step && kind == (enum kind) k;
                for (x++;
                     mine && x < WIDTH && look(r, x, &kind) == step && kind == (enum kind) k;) {
                    x++;
                }
                if (mine) {
                    if (!open) {
                        buf_printf(b, "<path class=\"k%d o%d\" d=\"", k, step);
                        open = true;
                    }
                    buf_printf(b, "M%d %dh%d", LEFT + from, y + BAR_HEIGHT / 2, x - from);
                }
            }
            if (open) {
                buf_printf(b, "\"/>\n");
            }
        }
    }
}

static void draw_axis(const struct timeline * t, int bottom, struct buf * b) {
    double span = t->to - t->from, step = 1e-3;
    for (int i = 0; span / step > 12; i++) { // 1, 2, 5, 10 ...
        step *= i % 3 == 1 ? 2.5 : 2;
    }
    // Counted, for a step may be less than what a large time can grow by.
    for (int64_t i = (int64_t) (t->from / step + 0.999999); (double) i * step <= t->to; i++) {
        double at = (double) i * step;
        int x = LEFT + (int) ((at - t->from) / span * WIDTH);
        buf_printf(b,
                   "<path class=\"g\" d=\"M%d %dV%d\"/><text class=\"d\" x=\"%d\" y=\"%d\" "
                   "text-anchor=\"middle\">%g</text>\n",
                   x, TOP - 6, bottom, x, TOP - 10, at);
    }
}

// Names of dispatches on their bars, as far as they fit; all of it where the mouse is.
static void draw_names(const struct timeline * t, struct buf * b) {
    double scale = WIDTH / (t->to - t->from);
    for (int i = 0; i < t->n_names; i++) {
        const struct named * n = &t->names[i];
        double from = n->start > t->from ? n->start : t->from, to = n->end < t->to ? n->end : t->to;
        int at = 0, width = (int) ((to - from) * scale);
        while (at < t->n && t->rows[at] != n->row) {
            at++;
        }
        if (to <= from || !strcmp(n->name, "dispatch")) {
            continue;
        }
        double x = LEFT + (from - t->from) * scale;
        int y = TOP + ROW * at;
        buf_printf(b, "<rect x=\"%.1f\" y=\"%d\" width=\"%d\" height=\"%d\" opacity=\"0\"><title>",
                   x, y, width > 1 ? width : 1, BAR_HEIGHT);
        svg_escape(n->name, b);
        buf_printf(b, "</title></rect>\n");
        int room = (width - 4) / NAME_LETTER;
        if (room >= NAME_LEAST) {
            char text[sizeof n->name];
            snprintf(text, sizeof text, "%.*s", room, n->name);
            buf_printf(b, "<text class=\"n\" x=\"%.1f\" y=\"%d\">", x + 2, y + 9);
            svg_escape(text, b);
            buf_printf(b, "</text>\n");
        }
    }
}

// A line where a PDI was loaded: what follows runs on another configuration of the array.
static void draw_loads(const struct timeline * t, int bottom, struct buf * b) {
    for (int i = 0; i < t->n_loads; i++) {
        if (t->loads[i] >= t->from && t->loads[i] <= t->to) {
            double x = LEFT + (t->loads[i] - t->from) / (t->to - t->from) * WIDTH;
            buf_printf(b,
                       "<path class=\"pdi\" d=\"M%.1f %dV%d\"><title>a PDI was loaded until %g us"
                       "</title></path><text class=\"d\" x=\"%.1f\" y=\"%d\">PDI</text>\n",
                       x, TOP - 4, bottom, t->loads[i], x + 2, bottom + 8);
        }
    }
}

static void draw(const struct timeline * t, const json_t * root, const char * title,
                 struct buf * b) {
    const json_t * other = json_object_get(root, "otherData");
    const char * clock = json_string_value(json_object_get(other, "clock"));
    int bottom = TOP + ROW * t->n, height = bottom + 44;
    svg_begin(title, LEFT + WIDTH + SVG_MARGIN, height, b);
    buf_printf(
        b, "<style type=\"text/css\">\n.g{stroke:#8c959f;stroke-width:.5;opacity:.5}"
           ".pdi{stroke:#cf222e;stroke-width:1;stroke-dasharray:4 3}.n{font-size:8px;fill:#fff}\n");
    for (int k = 0; k < KINDS; k++) {
        buf_printf(b, ".k%d{stroke:%s;stroke-width:%d}", k, kinds[k].colour, BAR_HEIGHT);
    }
    buf_printf(b, "\n.o1{opacity:.3}.o2{opacity:.5}.o3{opacity:.75}\n</style>\n");
    buf_printf(b, "<text class=\"d\" x=\"%d\" y=\"54\">microseconds of modelled time", SVG_MARGIN);
    if (clock) {
        buf_printf(b, ", clock ");
        svg_escape(clock, b);
        buf_printf(b, " (%lld MHz)", (long long) json_integer_value(json_object_get(other, "mhz")));
    }
    buf_printf(b, "</text>\n");
    draw_axis(t, bottom, b);
    for (int i = 0; i < t->n; i++) {
        draw_row(t->rows[i], TOP + ROW * i, b);
    }
    draw_names(t, b);
    draw_loads(t, bottom, b);
    for (int k = 0, x = LEFT; k < KINDS; k++) {
        buf_printf(b, "<path class=\"k%d\" d=\"M%d %dh18\"/><text x=\"%d\" y=\"%d\">%s</text>\n", k,
                   x, bottom + 22, x + 24, bottom + 26, kinds[k].text);
        x += 24 + 6 * (int) strlen(kinds[k].text) + 24;
    }
    buf_printf(b, "</svg>\n");
}

enum status timeline_print(const char * path, double from, double to, struct buf * b,
                           struct error * err) {
    static struct timeline t;
    t = (struct timeline){.first = -1};
    json_t * root = NULL;
    enum status st = json_read_file(path, &root, err);
    if (st != ST_OK) {
        return st;
    }
    st = read_events(&t, root, true, err);
    t.to = to > 0 && to < t.to ? to : t.to;
    // Not said: what the host did before the first dispatch is longer than all that follows, and is
    // cut but for its end.
    double lead = (t.to - t.first) / 20;
    t.from = from >= 0 ? from : t.first > lead ? t.first - lead : 0;
    if (st == ST_OK && t.to <= t.from) {
        st = error_set(err, ST_INVALID, "nothing between %g and %g microseconds", t.from, t.to);
    }
    if (st == ST_OK) {
        st = read_events(&t, root, false, err);
    }
    if (st == ST_OK) {
        const char * slash = strrchr(path, '/');
        qsort(t.rows, (size_t) t.n, sizeof t.rows[0], by_tid);
        draw(&t, root, slash ? slash + 1 : path, b);
    } else {
        error_prefix(err, st, "%s", path);
    }
    for (int i = 0; i < t.n; i++) {
        free(t.rows[i]);
    }
    json_decref(root);
    return st;
}

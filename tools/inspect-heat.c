// inspect-heat: a trace of the emulated runtime (GGML_HSA_TRACE) as a map of the array: how much of
// the time in which dispatches ran each tile worked. Of a core that is the time in which it
// executed bundles, of a memtile or shim that in which its busiest channel moved words. Tiles that
// did nothing are pale.
#include "inspect-svg.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLS = 8, ROWS = 6, CHANNELS = 32, CELL_W = 92, CELL_H = 56, GAP = 6, LEFT = 84, TOP = 84 };

struct heat {
    double busy[COLS][ROWS][CHANNELS]; // microseconds; of a core the first
    double dispatches;
    double from, to;
    int cols;
    struct {
        int64_t tid;
        int col, row, channel;
    } threads[COLS * ROWS * CHANNELS];
    int n_threads;
};

static double real(const json_t * v) {
    return json_is_real(v) ? json_real_value(v) : (double) json_integer_value(v);
}

// "core (0,2)", "mem (1,1) S2MM3": which tile and channel a thread is.
static void add_thread(struct heat * h, int64_t tid, const char * name) {
    int col, row, n = 0, channel = 0;
    char kind[8];
    if (sscanf(name, "%7[a-z] (%d,%d)%n", kind, &col, &row, &n) != 3 || !n || col < 0 ||
        col >= COLS || row < 0 || row >= ROWS ||
        h->n_threads == (int) (sizeof h->threads / sizeof h->threads[0])) {
        return;
    }
    if (!strncmp(name + n, " S2MM", 5) || !strncmp(name + n, " MM2S", 5)) {
        channel = (name[n + 1] == 'M' ? 16 : 1) + atoi(name + n + 5) % 15;
    }
    h->threads[h->n_threads].tid = tid;
    h->threads[h->n_threads].col = col;
    h->threads[h->n_threads].row = row;
    h->threads[h->n_threads++].channel = channel;
    h->cols = col + 1 > h->cols ? col + 1 : h->cols;
}

static void add_event(struct heat * h, const json_t * e) {
    const char *ph = json_string_value(json_object_get(e, "ph")),
               *name = json_string_value(json_object_get(e, "name"));
    int64_t tid = json_integer_value(json_object_get(e, "tid"));
    if (ph && name && !strcmp(ph, "M") && !strcmp(name, "thread_name")) {
        const char * text = json_string_value(json_object_get(json_object_get(e, "args"), "name"));
        add_thread(h, tid, text ? text : "");
    }
    const json_t *ts = json_object_get(e, "ts"), *dur = json_object_get(e, "dur");
    if (!ph || !name || strcmp(ph, "X") || !ts || !dur) {
        return;
    }
    double start = real(ts), end = start + real(dur);
    start = start > h->from ? start : h->from;
    end = h->to > 0 && end > h->to ? h->to : end;
    if (!(end > start)) {
        return;
    }
    if (svg_is_dispatch(e, name)) {
        h->dispatches += end - start;
    }
    for (int i = 0; i < h->n_threads && strncmp(name, "waits", 5); i++) {
        if (h->threads[i].tid == tid) {
            h->busy[h->threads[i].col][h->threads[i].row][h->threads[i].channel] += end - start;
        }
    }
}

static double share_of(const struct heat * h, int col, int row) {
    double most = h->busy[col][row][0];
    for (int c = 1; c < CHANNELS && row < 2; c++) { // channels of a core are not its work
        most = h->busy[col][row][c] > most ? h->busy[col][row][c] : most;
    }
    double share = most / h->dispatches;
    return share < 1 ? share : 1;
}

static void draw(const struct heat * h, const char * title, struct buf * b) {
    static const char * const names[] = {"shim", "memtile", "core"};
    int height = TOP + ROWS * (CELL_H + GAP) + 40;
    int width = LEFT + h->cols * (CELL_W + GAP) + SVG_MARGIN;
    svg_begin(title, width > 520 ? width : 520, height, b);
    buf_printf(b,
               "<text class=\"d\" x=\"%d\" y=\"54\">share of %.1f us of dispatches in which a tile "
               "worked</text>\n",
               SVG_MARGIN, h->dispatches);
    for (int row = 0; row < ROWS; row++) {
        int y = TOP + (ROWS - 1 - row) * (CELL_H + GAP);
        buf_printf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 10,
                   y + CELL_H / 2 + 4, names[row < 2 ? row : 2]);
        for (int col = 0; col < h->cols; col++) {
            double share = share_of(h, col, row);
            buf_printf(b,
                       "<g><title>%s (%d,%d): %.1f %%</title><rect x=\"%d\" y=\"%d\" width=\"%d\" "
                       "height=\"%d\" rx=\"6\" fill=\"%s\" fill-opacity=\"%.3f\" "
                       "stroke=\"#8c959f\" stroke-opacity=\".4\"/><text x=\"%d\" y=\"%d\" "
                       "text-anchor=\"middle\" opacity=\"%s\">%.1f %%</text></g>\n",
                       names[row < 2 ? row : 2], col, row, 100 * share, LEFT + col * (CELL_W + GAP),
                       y, CELL_W, CELL_H, row < 2 ? "#3b82f6" : "#2f9e44",
                       share > 0 ? 0.08 + 0.8 * share : 0, LEFT + col * (CELL_W + GAP) + CELL_W / 2,
                       y + CELL_H / 2 + 4, share > 0 ? "1" : ".35", 100 * share);
        }
    }
    for (int col = 0; col < h->cols; col++) {
        buf_printf(b, "<text class=\"d\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%d</text>\n",
                   LEFT + col * (CELL_W + GAP) + CELL_W / 2, height - 20, col);
    }
    buf_printf(b, "</svg>\n");
}

enum status heat_print(const char * path, double from, double to, struct buf * b,
                       struct error * err) {
    json_t * root = NULL;
    struct heat * h = calloc(1, sizeof *h);
    enum status st =
        h ? json_read_file(path, &root, err) : error_set(err, ST_NO_MEMORY, "no memory");
    const json_t * events = json_object_get(root, "traceEvents");
    if (st == ST_OK && !json_is_array(events)) {
        st = error_set(err, ST_INVALID, "%s: no \"traceEvents\": not a file of GGML_HSA_TRACE",
                       path);
    }
    if (st == ST_OK) {
        h->from = from > 0 ? from : 0;
        h->to = to;
        for (size_t i = 0; i < json_array_size(events); i++) {
            add_event(h, json_array_get(events, i));
        }
        st = h->dispatches > 0 && h->cols
                 ? ST_OK
                 : error_set(err, ST_INVALID, "%s: no dispatch between these times", path);
    }
    if (st == ST_OK) {
        const char * slash = strrchr(path, '/');
        draw(h, slash ? slash + 1 : path, b);
    }
    json_decref(root);
    free(h);
    return st;
}

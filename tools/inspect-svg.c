// inspect-svg: the array as a picture, SVG 1.1 without scripts. What a tile holds is written as
// text lines first, which gives the tile its size; then rows of tiles are stacked, the shim below,
// and the wires are drawn between them (inspect-svg-wires.c). All that comes from a file's bytes is
// numbers; the title is escaped.
#include "inspect-svg.h"

#include "base/plain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MM2S = 6, CHAR_WIDTH = 6 };

// What a tile's memory looks like: so many bars of so many bytes.
static const struct {
    int banks;
    uint32_t bank_bytes, own; // own: first byte of the tile's own memory in a BD's addresses
    int own_locks;            // number of its first own lock in a BD
} memories[TILE_KINDS] = {
    [TILE_MEM] = {8, 64 << 10, 512 << 10, 64},
    [TILE_CORE] = {4, 16 << 10, 0, 0},
};

// ---- text ----

static void line(struct svg_tile * at, enum svg_line_kind kind, int local, const char * fmt, ...)
    BASE_PRINTF(4, 5);
static void line(struct svg_tile * at, enum svg_line_kind kind, int local, const char * fmt, ...) {
    if (at->n_lines == SVG_LINES) {
        return;
    }
    if (at->n_lines == SVG_LINES - 1) {
        kind = LINE_PLAIN;
        fmt = "... and more";
    }
    va_list args;
    va_start(args, fmt);
    at->lines[at->n_lines].kind = kind;
    at->lines[at->n_lines].local = local;
    vsnprintf(at->lines[at->n_lines].text, sizeof at->lines[0].text, fmt, args);
    va_end(args);
    at->n_lines++;
}

static void lock_text(enum tile_kind kind, const uint32_t * bd, char * out, size_t size) {
    int own = memories[kind].own_locks, at = 0;
    out[0] = 0;
    for (int i = 0; i < 2; i++) {
        int value = (int) bd_field(kind, bd, i ? "release value" : "acquire value");
        int lock = (int) bd_field(kind, bd, i ? "release lock" : "acquire lock");
        if (i ? value == 0 : !bd_field(kind, bd, "acquires")) {
            continue;
        }
        const char * where = lock < own ? "W" : own && lock >= 2 * own ? "E" : "";
        // An acquire of a negative value takes as many when at least so many are there.
        at += snprintf(out + at, size - (size_t) at, "  %s %s%d:%d", i ? "give" : "take", where,
                       own ? lock % own : lock, abs(value));
        if ((size_t) at >= size) {
            return;
        }
    }
}

static void bd_line(struct svg_tile * at, const struct view_tile * t, enum tile_kind kind, int bd) {
    const uint32_t * words = t->bd[bd];
    char locks[48], next[12] = "";
    lock_text(kind, words, locks, sizeof locks);
    if (bd_field(kind, words, "chained")) {
        snprintf(next, sizeof next, "  \xe2\x86\x92%d", (int) bd_field(kind, words, "next BD"));
    }
    uint32_t from, to, own = memories[kind].own;
    view_bd_reach(kind, words, &from, &to);
    line(at, LINE_BD, -1, "BD %-2d %5d w @%s%05x%s%s", bd, (int) bd_field(kind, words, "words"),
         from < own               ? "W"
         : own && from >= 2 * own ? "E"
                                  : "",
         own ? from % own : from, locks, next);
}

// The channel behind a port, -1 when it is no DMA's.
static int channel_of(const struct view_tile * t, enum tile_kind kind, bool is_master, int port) {
    struct port p;
    if (!port_find(kind, is_master, port, &p)) {
        return -1;
    }
    int channel = !strcmp(p.group, "DMA") ? p.index
                  : kind == TILE_SHIM && !strcmp(p.group, "S")
                      ? shim_dma_channel(is_master, p.index, t->mux, t->demux)
                      : -1;
    return channel < 0 ? -1 : channel + (is_master ? 0 : MM2S);
}

static void channel_lines(struct svg_tile * at, const struct view_tile * t, enum tile_kind kind,
                          int channel, int local) {
    const struct view_channel * c = &t->channels[channel];
    const char * name = channel < MM2S ? "S2MM" : "MM2S";
    int number = channel % MM2S;
    if (!c->tasks) {
        line(at, LINE_CHANNEL, local, "%s%d  (not started)", name, number);
        return;
    }
    char operands[64] = "";
    for (int i = 0, n = 0; i < 32 && n < 48; i++) {
        if (c->operands >> i & 1) {
            const char * first = channel < MM2S ? "  to operand" : "  from operand";
            n += snprintf(operands + n, sizeof operands - (size_t) n, "%s %d", n ? "" : first, i);
        }
    }
    if (kind != TILE_SHIM && c->tasks == 1) {
        line(at, LINE_CHANNEL, local, "%s%d%s", name, number, operands);
    } else {
        line(at, LINE_CHANNEL, local, "%s%d  %d task%s  %llu words%s%s", name, number, c->tasks,
             c->tasks == 1 ? "" : "s", (unsigned long long) c->words, operands,
             c->token ? "  token" : "");
    }
    uint64_t bds = kind == TILE_SHIM ? 0 : view_channel_bds(kind, t, channel);
    for (int bd = 0; bd < VIEW_BDS; bd++) {
        if (bds >> bd & 1) {
            bd_line(at, t, kind, bd);
        }
    }
}

static void tile_lines(struct svg * s, int col, int row) {
    const struct view_tile * t = &s->v->tiles[col][row];
    struct svg_tile * at = &s->tiles[col][row];
    enum tile_kind kind = tile_kind_of(row);
    uint32_t shown = 0;
    for (int i = 0; i < at->n_locals; i++) {
        const struct svg_local * l = &at->locals[i];
        int channel = channel_of(t, kind, l->is_master, l->port);
        struct port p;
        if (channel >= 0) {
            shown |= 1u << channel;
            channel_lines(at, t, kind, channel, i);
        } else if (port_find(kind, l->is_master, l->port, &p)) {
            bool controller = kind == TILE_SHIM && l->is_master && p.group[0] == 'S' && !p.index;
            line(at, LINE_CHANNEL, i, "%s%s", controller ? "to the controller" : p.group,
                 controller     ? ""
                 : l->is_master ? " port, in"
                                : " port, out");
        }
    }
    for (int c = 0; c < 2 * MM2S; c++) { // started, but no stream leads there
        if (t->channels[c].tasks && !(shown >> c & 1)) {
            channel_lines(at, t, kind, c, -1);
        }
    }
    char text[64] = "locks";
    size_t n = strlen(text);
    bool zeros = false;
    for (int i = 0; i < 64; i++) {
        int v = (int) (t->lock[i] & 0x3f); // signed
        if (!(t->lock_written >> i & 1) || !v) {
            zeros |= t->lock_written >> i & 1;
            continue;
        }
        if (n > 40) {
            line(at, LINE_PLAIN, -1, "%s", text);
            n = (size_t) snprintf(text, sizeof text, "     ");
        }
        n += (size_t) snprintf(text + n, sizeof text - n, " %d=%d", i, v & 0x20 ? v - 0x40 : v);
    }
    if (t->lock_written) {
        line(at, LINE_PLAIN, -1, "%s%s", text, !zeros ? "" : n > 5 ? " others 0" : " all 0");
    }
}

// A PDI that serves many kernels has streams for all of them; a dispatch uses some. What its source
// does not send is not the picture's matter. Without an instruction stream nothing is started by
// the host, and nothing can be said.
static void find_idle(struct svg * s) {
    bool started = false;
    for (int col = 0; col < VIEW_COLS; col++) {
        for (int c = 0; c < 2 * MM2S; c++) {
            started |= s->v->tiles[col][0].channels[c].tasks > 0;
        }
    }
    for (int col = 0; col < VIEW_COLS && started; col++) {
        for (int row = 0; row < VIEW_ROWS; row++) {
            const struct view_tile * t = &s->v->tiles[col][row];
            for (int i = 0; i < s->tiles[col][row].n_locals; i++) {
                const struct svg_local * l = &s->tiles[col][row].locals[i];
                int channel = l->is_master ? -1 : channel_of(t, tile_kind_of(row), false, l->port);
                if (channel >= 0 && l->net >= 0 && l->net < SVG_NETS) {
                    s->idle[l->net] = !t->channels[channel].tasks;
                }
            }
        }
    }
}

// ---- places ----

// Bars are drawn in a row where some tile's memory is used.
static int memory_height(const struct svg * s, int row) {
    bool used = false;
    for (int col = s->first_col; col < s->first_col + s->n_cols; col++) {
        const struct view_tile * t = &s->v->tiles[col][row];
        used |= t->bd_written || t->n_ranges || t->core_on;
    }
    return used && row ? memories[tile_kind_of(row)].banks * (SVG_BAR + 3) + 6 : 0;
}

static void plan(struct svg * s) {
    int first = VIEW_COLS, last = 0;
    for (int col = 0; col < VIEW_COLS; col++) {
        for (int row = 0; row < VIEW_ROWS; row++) {
            if (s->v->tiles[col][row].used) {
                first = col < first ? col : first;
                last = col;
                s->n_rows = row + 1 > s->n_rows ? row + 1 : s->n_rows;
            }
        }
    }
    s->first_col = first > last ? 0 : first;
    s->n_cols = last - s->first_col + 1;
    svg_wires_plan(s);
    find_idle(s);
    int y = SVG_HEAD + SVG_MARGIN;
    for (int row = s->n_rows - 1; row >= 0; row--) {
        int most = 0, x = SVG_MARGIN;
        for (int col = s->first_col; col < s->first_col + s->n_cols; col++) {
            tile_lines(s, col, row);
            most = s->tiles[col][row].n_lines > most ? s->tiles[col][row].n_lines : most;
        }
        int memory = memory_height(s, row);
        for (int col = s->first_col; col < s->first_col + s->n_cols; col++) {
            struct svg_tile * at = &s->tiles[col][row];
            at->x = x;
            at->y = y;
            at->content_height = SVG_TITLE + memory + SVG_LINE * most + 8;
            at->height = at->content_height + at->strip;
            x += at->lane + SVG_CONTENT + SVG_GAP;
            int ly = y + SVG_TITLE + memory + 10;
            for (int i = 0; i < at->n_lines; i++, ly += SVG_LINE) {
                if (at->lines[i].kind == LINE_CHANNEL && at->lines[i].local >= 0) {
                    at->locals[at->lines[i].local].y = ly - 3;
                }
            }
        }
        s->width = x - SVG_GAP + SVG_MARGIN;
        y += s->tiles[s->first_col][row].height + SVG_GAP;
    }
    s->width = s->width < SVG_WIDTH_LEAST ? SVG_WIDTH_LEAST : s->width;
    s->height = y + 88; // the legend
}

// ---- drawing ----

void svg_escape(const char * text, struct buf * b) {
    for (size_t n; *text; text += n) {
        bool shown = plain_character(text, &n);
        if (*text == '<' || *text == '&' || *text == '>' || *text == '"') {
            buf_printf(b, "&#%d;", *text);
        } else {
            buf_append(b, shown ? text : "?", shown ? n : 1);
        }
    }
}

enum use { USE_IN = 1, USE_OUT = 2 };

static void segment(int x, int y, int width, enum tile_kind kind, uint32_t from, uint32_t to,
                    const char * class, const char * what, struct buf * b) {
    uint32_t size = memories[kind].bank_bytes;
    for (int bank = 0; bank < memories[kind].banks; bank++) {
        uint32_t base = size * (uint32_t) bank;
        uint32_t f = from > base ? from : base, t = to < base + size ? to : base + size;
        if (f >= t) {
            continue;
        }
        double x0 = x + (double) width * (f - base) / size, w = (double) width * (t - f) / size;
        buf_printf(b,
                   "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\">"
                   "<title>%s, 0x%05x to 0x%05x, %u bytes</title></rect>\n",
                   class, x0, y + bank * (SVG_BAR + 3), w < 1.5 ? 1.5 : w, SVG_BAR, what, from,
                   to - 1, to - from);
    }
}

static int bd_uses(const struct view_tile * t, enum tile_kind kind, int bd) {
    int uses = 0;
    for (int c = 0; c < 2 * MM2S; c++) {
        if (view_channel_bds(kind, t, c) >> bd & 1) {
            uses |= c < MM2S ? USE_IN : USE_OUT;
        }
    }
    return uses;
}

static void draw_memory(const struct view_tile * t, enum tile_kind kind, int x, int y, int width,
                        struct buf * b) {
    uint32_t own = memories[kind].own;
    for (int bank = 0; bank < memories[kind].banks; bank++) {
        int top = y + bank * (SVG_BAR + 3);
        buf_printf(b,
                   "<text class=\"d\" x=\"%d\" y=\"%d\">%d</text>"
                   "<rect class=\"m\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
                   x, top + 9, bank, x + 12, top, width - 12, SVG_BAR);
    }
    for (int i = 0; i < t->n_ranges; i++) {
        segment(x + 12, y, width - 12, kind, t->ranges[i].from, t->ranges[i].to, "u4",
                "written by the files", b);
    }
    static const char * const classes[] = {"u0", "u1", "u2", "u3"};
    static const char * const words[] = {"of a descriptor that nothing starts", "streams come in",
                                         "streams go out", "streams come in and go out"};
    struct {
        uint32_t from, to;
        int uses;
    } seen[VIEW_BDS];
    int n = 0;
    for (int bd = 0; bd < VIEW_BDS; bd++) {
        uint32_t from, to;
        view_bd_reach(kind, t->bd[bd], &from, &to);
        if (!(t->bd_written >> bd & 1) || !bd_field(kind, t->bd[bd], "words") ||
            !bd_field(kind, t->bd[bd], "valid") || from < own || (own && from >= 2 * own)) {
            continue;
        }
        int k = 0, uses = bd_uses(t, kind, bd);
        while (k < n && (seen[k].from != from - own || seen[k].to != to - own)) {
            k++;
        }
        if (k == n) {
            seen[n].from = from - own;
            seen[n].to = to - own;
            seen[n++].uses = uses;
        } else {
            seen[k].uses |= uses;
        }
    }
    for (int k = 0; k < n; k++) {
        segment(x + 12, y, width - 12, kind, seen[k].from, seen[k].to, classes[seen[k].uses],
                words[seen[k].uses], b);
    }
}

static void draw_tile(const struct svg * s, int col, int row, struct buf * b) {
    const struct view_tile * t = &s->v->tiles[col][row];
    const struct svg_tile * at = &s->tiles[col][row];
    enum tile_kind kind = tile_kind_of(row);
    int x = at->x + at->lane + 8, width = SVG_CONTENT - 16;
    buf_printf(b, "<rect class=\"t%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\"/>\n",
               t->used ? "" : " e", at->x, at->y, at->lane + SVG_CONTENT, at->height);
    buf_printf(b, "<rect class=\"s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", at->x,
               at->y + at->content_height, at->lane, at->strip);
    buf_printf(b, "<text class=\"h\" x=\"%d\" y=\"%d\">%s (%d,%d)</text>\n", x, at->y + 14,
               tile_kind_names[kind], col, row);
    if (kind == TILE_CORE && t->used) {
        buf_printf(b,
                   "<text class=\"%s\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%s, program %u "
                   "bytes</text>\n",
                   t->core_on ? "on" : "d", x + width, at->y + 14, t->core_on ? "on" : "off",
                   t->program);
    }
    int memory = memory_height(s, row);
    if (memory) {
        draw_memory(t, kind, x, at->y + SVG_TITLE, width, b);
    }
    int y = at->y + SVG_TITLE + memory + 10;
    for (int i = 0; i < at->n_lines; i++, y += SVG_LINE) {
        buf_printf(b, "<text class=\"%s\" x=\"%d\" y=\"%d\" xml:space=\"preserve\">",
                   strstr(at->lines[i].text, "(not started)") ? "c e"
                   : at->lines[i].kind == LINE_CHANNEL        ? "c"
                   : at->lines[i].kind == LINE_BD             ? "b"
                                                              : "d",
                   x + (at->lines[i].kind == LINE_BD ? 8 : 0), y);
        svg_escape(at->lines[i].text, b);
        buf_printf(b, "</text>\n");
    }
}

static void draw_legend(const struct svg * s, struct buf * b) {
    static const struct {
        const char * class, *text;
    } items[] = {
        {"u1", "streams come in (S2MM)"}, {"u2", "streams go out (MM2S)"}, {"u3", "both"},
        {"u0", "descriptor not started"}, {"u4", "written by the files"},
    };
    int x = SVG_MARGIN, y = s->height - 74;
    buf_printf(b, "<text class=\"h\" x=\"%d\" y=\"%d\">memory</text>\n", x, y);
    x += 64;
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        buf_printf(b,
                   "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"18\" height=\"%d\"/>"
                   "<text class=\"b\" x=\"%d\" y=\"%d\">%s</text>\n",
                   items[i].class, x, y - 9, SVG_BAR, x + 24, y, items[i].text);
        x += 24 + CHAR_WIDTH * (int) strlen(items[i].text) + 24;
    }
    x = SVG_MARGIN;
    buf_printf(b,
               "<text class=\"h\" x=\"%d\" y=\"%d\">streams</text>"
               "<path class=\"w k\" d=\"M%d %dh40\"/><text class=\"b\" x=\"%d\" "
               "y=\"%d\">circuit</text>"
               "<path class=\"w k p\" d=\"M%d %dh40\"/><text class=\"b\" x=\"%d\" "
               "y=\"%d\">packets; one colour is one source; dim: not started</text>\n",
               x, y + 22, x + 64, y + 18, x + 110, y + 22, x + 176, y + 18, x + 222, y + 22);
    buf_printf(b,
               "<text class=\"h\" x=\"%d\" y=\"%d\">words</text><text class=\"b\" x=\"%d\" "
               "y=\"%d\">BD n, words moved, @ byte address; take L:n waits until lock L holds n; "
               "give L:n adds n; \xe2\x86\x92 next BD.</text>\n"
               "<text class=\"b\" x=\"%d\" y=\"%d\">locks L=n: value that the files give; W, E "
               "before an address or a lock: of the tile to the west or east.</text>\n",
               x, y + 44, x + 64, y + 44, x + 64, y + 60);
}

static const char style[] =
    "<style type=\"text/css\">\n"
    "text{font:10px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#1f2328}\n"
    ".bg{fill:#fff}.t{fill:#f6f8fa;stroke:#8c959f}.e{opacity:.45}\n"
    ".s{fill:#eaeef2;stroke:#8c959f;stroke-width:.6}.m{fill:#fff;stroke:#afb8c1;stroke-width:.6}\n"
    ".h{font-weight:bold;font-size:11px}.title{font-size:17px;font-weight:bold}\n"
    ".d{fill:#59636e}.on{fill:#1a7f37;font-weight:bold}.c{font-weight:bold}\n"
    ".w{fill:none;stroke-width:1.7}.p{stroke-dasharray:5 3}.k{stroke:#59636e}\n"
    ".u0{fill:none;stroke:#8c959f;stroke-dasharray:2 2}.u1{fill:#3b82f6}.u2{fill:#e8590c}\n"
    ".u3{fill:#9c6ade}.u4{fill:#2f9e44}.u1,.u2,.u3,.u4{stroke:#fff;stroke-width:.5}\n"
    "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.bg{fill:#0d1117}\n"
    ".t{fill:#161b22;stroke:#6e7681}.s{fill:#21262d;stroke:#6e7681}\n"
    ".m{fill:#0d1117;stroke:#484f58}.d{fill:#9198a1}.on{fill:#3fb950}.k{stroke:#9198a1}\n"
    ".u1,.u2,.u3,.u4{stroke:#0d1117}}\n"
    "</style>\n";

void svg_begin(const char * title, int width, int height, struct buf * b) {
    buf_printf(b,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
               "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%d\" "
               "height=\"%d\" viewBox=\"0 0 %d %d\">\n<title>",
               width, height, width, height);
    svg_escape(title, b);
    buf_printf(b, "</title>\n%s<rect class=\"bg\" width=\"%d\" height=\"%d\"/>\n", style, width,
               height);
    buf_printf(b, "<text class=\"title\" x=\"%d\" y=\"36\">", SVG_MARGIN);
    svg_escape(title, b);
    buf_printf(b, "</text>\n");
}

void svg_print(const struct view * v, const char * title, struct buf * b) {
    struct svg * s = calloc(1, sizeof *s);
    if (!s) {
        b->failed = true;
        return;
    }
    s->v = v;
    plan(s);
    char unused[48] = "";
    if (s->n_rows && s->n_rows < VIEW_ROWS) {
        snprintf(unused, sizeof unused, "; rows from %d on not used", s->n_rows);
    }
    int on = 0;
    for (int col = 0; col < VIEW_COLS; col++) {
        for (int row = 0; row < VIEW_ROWS; row++) {
            on += v->tiles[col][row].core_on;
        }
    }
    svg_begin(title, s->width, s->height, b);
    buf_printf(
        b,
        "<text class=\"d\" x=\"%d\" y=\"56\">%d column%s, %d core%s on, %d "
        "streams; memory: %d banks of 16 KiB a core, %d bars of 64 KiB a memtile%s%s</text>\n",
        SVG_MARGIN, s->n_cols, s->n_cols == 1 ? "" : "s", on, on == 1 ? "" : "s", s->n_nets,
        memories[TILE_CORE].banks, memories[TILE_MEM].banks, unused,
        v->outside ? "; some tiles lie outside the picture" : "");
    for (int col = s->first_col; col < s->first_col + s->n_cols; col++) {
        for (int row = 0; row < s->n_rows; row++) {
            draw_tile(s, col, row, b);
        }
    }
    svg_wires_print(s, b);
    draw_legend(s, b);
    buf_printf(b, "</svg>\n");
    free(s);
}

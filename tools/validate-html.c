// validate-html: one page for people, with pictures and without a network: steps, the array with
// what was tested, figures as bars beside the model's, a roofline with kernels on it, and what
// doctor says. Colours follow the browser's, day or night; on a phone rows stand below each other.
//
// Kept true: all text from outside is escaped, and what is personal is taken out of the whole.
#include "validate.h"

#include "base/out.h"
#include "doctor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char style[] =
    ":root{--bg:#fbfaf7;--fg:#1d2327;--dim:#5c666d;--card:#fff;--line:#dcdfdd;--ok:#1d7a4c;"
    "--bad:#b3261e;--off:#a15c00;--model:#9aa7b1;--seen:#2b6cb0}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#14181b;--fg:#e6e9ea;--dim:#9fabb2;--card:#"
    "1d2327;"
    "--line:#343c42;--ok:#5fd39b;--bad:#ff8a80;--off:#f0b35a;--model:#65727c;--seen:#78b2f0}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);"
    "font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}\n"
    "main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 4rem}h1{font-size:1.6rem;margin:0 0 "
    ".2rem}"
    "h2{font-size:1.15rem;margin:2.2rem 0 .6rem}p{margin:.3rem 0}.dim{color:var(--dim)}\n"
    ".verdict{display:inline-block;padding:.2rem .7rem;border-radius:1rem;border:1px solid;"
    "font-weight:600;margin:.6rem "
    "0}.ok{color:var(--ok)}.bad{color:var(--bad)}.off{color:var(--off)}\n"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:.6rem;"
    "padding:.7rem .9rem;margin:.4rem 0}\n"
    ".step{display:flex;flex-wrap:wrap;gap:.2rem 1rem;align-items:baseline}.step b{min-width:8rem}"
    ".step .t{margin-left:auto;color:var(--dim);font-variant-numeric:tabular-nums}\n"
    ".step ul{flex-basis:100%;margin:.2rem 0 0;padding-left:1.1rem;font-size:.9rem}\n"
    ".fig{display:grid;grid-template-columns:1.5fr 2fr 13rem;gap:.2rem .8rem;"
    "align-items:center;padding:.35rem 0;border-bottom:1px solid var(--line);font-size:.93rem}"
    ".fig:last-child{border:0}.fig .v{font-variant-numeric:tabular-nums}\n"
    ".bars{display:grid;gap:2px}.bar{height:.5rem;border-radius:.25rem;min-width:2px}"
    ".bar.m{background:var(--seen)}.bar.s{background:var(--model)}\n"
    "svg{width:100%;height:auto;display:block}svg text{fill:var(--fg);font:12px "
    "system-ui,sans-serif}"
    "svg.roof text{font-size:15px}svg "
    ".dim{fill:var(--dim)}pre{white-space:pre-wrap;font-size:.82rem;margin:.4rem 0}\n"
    ".key span{display:inline-block;width:.8rem;height:.8rem;border-radius:.2rem;margin:0 .3rem 0 "
    "1rem;"
    "vertical-align:-.1rem}\n"
    "@media(max-width:34rem){.fig{grid-template-columns:1fr}.step b{min-width:0}"
    "main{padding:1rem .7rem 3rem}}\n";

static void escaped(struct buf * b, const char * text) {
    for (const char * p = text; *p; p++) {
        const char * by = *p == '<'   ? "&lt;"
                          : *p == '>' ? "&gt;"
                          : *p == '&' ? "&amp;"
                          : *p == '"' ? "&quot;"
                                      : NULL;
        buf_append(b, by ? by : p, by ? strlen(by) : 1);
    }
}

static const char * number(double value, char text[24]) {
    double size = fabs(value);
    snprintf(text, 24, size >= 1000 ? "%.0f" : size >= 100 ? "%.1f" : "%.3g", value);
    return text;
}

// ---- steps ----

static void put_lines(struct buf * b, const struct buf * lines, const char * kind) {
    for (const char * p = (const char *) lines->data; p && *p;) {
        size_t n = strcspn(p, "\n");
        char text[600];
        snprintf(text, sizeof text, "%.*s", (int) (n < sizeof text ? n : sizeof text - 1), p);
        buf_printf(b, "<li class=%s>", kind);
        escaped(b, text);
        buf_printf(b, "</li>");
        p += n + (p[n] == '\n');
    }
}

static void put_steps(struct buf * b, const struct validate * v) {
    static const char * const words[] = {"ok", "wrong", "left out"};
    static const char * const kinds[] = {"ok", "bad", "dim"};
    buf_printf(b, "<h2>Steps</h2>\n");
    for (int i = 0; i < v->n_steps; i++) {
        const struct step * s = &v->steps[i];
        buf_printf(b, "<div class='card step'><b>");
        escaped(b, s->name);
        buf_printf(b, "</b><span class=%s>%s</span><span>", kinds[s->outcome], words[s->outcome]);
        escaped(b, s->detail);
        buf_printf(b, "</span><span class=t>%.1f s</span>", s->seconds);
        bool lines = (s->bad.data && *s->bad.data) || (s->say.data && *s->say.data);
        if (lines) {
            buf_printf(b, "<ul>");
            put_lines(b, &s->bad, "bad");
            put_lines(b, &s->say, "dim");
            buf_printf(b, "</ul>");
        }
        buf_printf(b, "</div>\n");
    }
}

// ---- the array ----

static void put_tile(struct buf * b, int x, int y, const char * colour, const char * name) {
    buf_printf(b,
               "<rect x=%d y=%d width=62 height=34 rx=6 fill='%s' stroke='var(--line)'/>"
               "<text x=%d y=%d text-anchor=middle style='fill:%s'>%s</text>\n",
               x, y, colour, x + 31, y + 22,
               strcmp(colour, "var(--card)") ? "var(--bg)" : "var(--fg)", name);
}

static void put_array(struct buf * b, const struct validate * v) {
    static const char * const colours[] = {"var(--card)", "var(--ok)", "var(--bad)"};
    int rows = VALIDATE_CORES, width = 70 * v->columns + 8, height = 42 * (rows + 2) + 8;
    if (v->gpu || v->columns == 0) {
        return;
    }
    bool moved = validate_find(v, "ddr_read") != NULL;
    buf_printf(b,
               "<h2>The array</h2><div class=card><svg viewBox='0 0 %d %d' style='max-width:%dpx' "
               "role=img aria-label='tiles that were tested'>\n",
               width, height, width * 3 / 2);
    for (int col = 0; col < v->columns; col++) {
        char name[32];
        for (int row = 0; row < rows; row++) {
            snprintf(name, sizeof name, "%d,%d", col, row + ARRAY_ROW_CORE);
            put_tile(b, 8 + 70 * col, 8 + 42 * (rows - 1 - row), colours[v->tiles[col][row]], name);
        }
        put_tile(b, 8 + 70 * col, 8 + 42 * rows, colours[moved], "memtile");
        put_tile(b, 8 + 70 * col, 8 + 42 * (rows + 1), colours[moved], "shim");
    }
    buf_printf(b, "</svg><p class=dim>Green: did what it should. Red: did not. Cores by column and "
                  "row, with their sixteen locks; memtiles and shims moved words both ways.</p>"
                  "</div>\n");
}

// ---- figures ----

static void put_figure(struct buf * b, const struct figure * f) {
    char m[24], s[24];
    double most = fmax(fabs(f->measured), f->modelled), ratio = figure_ratio(f);
    buf_printf(b, "<div class=fig><span>");
    escaped(b, f->name);
    if (figure_off(f)) {
        buf_printf(b, "<br><span class=off>off; it tells of: ");
        escaped(b, f->depends);
        buf_printf(b, "</span>");
    }
    buf_printf(b, "</span><span class=bars><span class='bar m' style='width:%.1f%%'></span>",
               most > 0 ? 100 * fabs(f->measured) / most : 0);
    buf_printf(b, "<span class='bar s' style='width:%.1f%%'></span></span><span class=v>",
               most > 0 ? 100 * f->modelled / most : 0);
    buf_printf(b, "<b>%s</b> ", number(f->measured, m));
    escaped(b, f->unit);
    if (f->modelled > 0) {
        buf_printf(b, "<br><span class=%s>modelled %s, ratio %.3f</span>",
                   figure_off(f) ? "off" : "dim", number(f->modelled, s), ratio);
    }
    buf_printf(b, "</span></div>\n");
}

static void put_figures(struct buf * b, const struct validate * v) {
    if (v->n_figures == 0) {
        return;
    }
    buf_printf(b,
               "<h2>Figures</h2><p class='dim key'><span style='background:var(--seen);"
               "margin-left:0'></span>measured, by HSA's clock%s"
               "<span style='background:var(--model)'></span>modelled, clock ",
               v->emulated ? ", which is the model's on an emulated device" : "");
    escaped(b, model_name(v));
    buf_printf(b, "</p><div class=card>\n");
    for (int i = 0; i < v->n_figures; i++) {
        put_figure(b, &v->figures[i]);
    }
    buf_printf(b, "</div>\n");
}

// ---- roofline ----

enum { ROOF_W = 640, ROOF_H = 360, LEFT = 64, RIGHT = 32, TOP = 16, BOTTOM = 44 };

struct axes {
    double x0, x1, y0, y1; // logarithms of flop a byte, and of flop a second
};

static double at_x(const struct axes * a, double x) {
    return LEFT + (log10(x) - a->x0) / (a->x1 - a->x0) * (ROOF_W - LEFT - RIGHT);
}

static double at_y(const struct axes * a, double y) {
    return ROOF_H - BOTTOM - (log10(y) - a->y0) / (a->y1 - a->y0) * (ROOF_H - TOP - BOTTOM);
}

static void put_points(struct buf * b, const struct validate * v, const struct axes * a) {
    for (int i = 0; i < v->n_points; i++) {
        const struct kernel_point * p = &v->points[i];
        double x = at_x(a, p->flops / p->bytes), y = at_y(a, p->flops / p->ns * 1e9);
        // Names of neighbours stand on other sides of their points.
        static const int8_t dx[3] = {0, 0, -16}, dy[3] = {-11, 22, 5};
        buf_printf(b,
                   "<circle cx=%.1f cy=%.1f r=6 fill='var(--seen)' stroke='var(--bg)'/>"
                   "<text x=%.1f y=%.1f text-anchor=middle>%c</text>\n",
                   x, y, x + dx[i % 3], y + dy[i % 3], 'A' + i);
    }
    buf_printf(b, "</svg><p>");
    for (int i = 0; i < v->n_points; i++) {
        const struct kernel_point * p = &v->points[i];
        buf_printf(b, "<b>%c</b> ", 'A' + i);
        escaped(b, p->name);
        buf_printf(b, ", %.3g TFLOP/s<br>", p->flops / p->ns / 1000);
    }
    buf_printf(b, "</p></div>\n");
}

static void put_roofline(struct buf * b, const struct validate * v) {
    const struct figure *bytes = validate_find(v, "ddr_both"), *mhz = validate_find(v, "mhz");
    struct axes a = {-1, 4, 8, 14};
    if (!bytes || !mhz || v->n_points == 0 || v->peak_flops <= 0) {
        return;
    }
    double rate = bytes->measured * mhz->measured * 1e3; // bytes a second
    double knee = v->peak_flops / rate;
    buf_printf(b,
               "<h2>Roofline</h2><div class=card><svg class=roof viewBox='0 0 %d %d' role=img "
               "aria-label='kernels below what memory and multipliers allow'>\n",
               ROOF_W, ROOF_H);
    for (int e = 8; e <= 14; e++) {
        buf_printf(
            b,
            "<line x1=%d x2=%d y1=%.1f y2=%.1f stroke='var(--line)'/><text class=dim x=%d "
            "y=%.1f text-anchor=end>%s</text>\n",
            LEFT, ROOF_W - RIGHT, at_y(&a, pow(10, e)), at_y(&a, pow(10, e)), LEFT - 6,
            at_y(&a, pow(10, e)) + 4,
            (const char *[]){"0.1 G", "1 G", "10 G", "0.1 T", "1 T", "10 T", "100 T"}[e - 8]);
    }
    for (int e = -1; e <= 4; e++) {
        buf_printf(b, "<text class=dim x=%.1f y=%d text-anchor=middle>%g</text>\n",
                   at_x(&a, pow(10, e)), ROOF_H - BOTTOM + 18, pow(10, e));
    }
    buf_printf(b,
               "<text class=dim x=%d y=%d text-anchor=middle>operations for each byte of host "
               "memory</text>\n",
               ROOF_W / 2 + 20, ROOF_H - 6);
    buf_printf(b,
               "<polyline points='%.1f,%.1f %.1f,%.1f %.1f,%.1f' fill=none stroke='var(--off)' "
               "stroke-width=2.5 />\n",
               at_x(&a, 0.1), at_y(&a, 0.1 * rate), at_x(&a, knee), at_y(&a, v->peak_flops),
               at_x(&a, 10000), at_y(&a, v->peak_flops));
    buf_printf(b,
               "<text x=%d y=%.1f text-anchor=end>%s, %.1f TFLOP/s</text><text x=%.1f y=%.1f>"
               "%.1f GB/s</text>\n",
               ROOF_W - RIGHT - 4, at_y(&a, v->peak_flops) - 8, v->peak_of, v->peak_flops / 1e12,
               at_x(&a, 0.3), at_y(&a, 0.3 * rate) + 26, rate / 1e9);
    put_points(b, v, &a);
}

// ---- the page ----

static void put_doctor(struct buf * b) {
    char exe[512];
    struct buf said = {0};
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    const char * words[] = {"ggml-hsa", "doctor", "--report", NULL};
    exe[n > 0 ? n : 0] = '\0';
    if (n > 0 && validate_run(exe, words, &said) >= 0 && said.data) {
        buf_printf(b, "<h2>The machine</h2><div class=card><details><summary>ggml-hsa doctor "
                      "--report</summary><pre>");
        escaped(b, (const char *) said.data);
        buf_printf(b, "</pre></details></div>\n");
    }
    buf_free(&said);
}

static void put_page(struct buf * b, const struct validate * v) {
    int failures = validate_failures(v);
    buf_printf(b,
               "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
               "content='width=device-width,initial-scale=1'><title>ggml-hsa validate</title>"
               "<style>\n%s</style></head><body><main>\n<h1>",
               style);
    escaped(b, *v->product ? v->product : v->agent);
    buf_printf(b, "</h1><p class=dim>");
    escaped(b, v->agent);
    buf_printf(b, ", %s, ", v->emulated ? "emulated" : "of this machine");
    escaped(b, v->known_as);
    escaped(b, *v->driver ? ", " : "");
    escaped(b, v->driver);
    buf_printf(b, "; ggml-hsa %s</p><p class='verdict %s'>", GGML_HSA_VERSION,
               failures ? "bad" : "ok");
    if (failures) {
        buf_printf(b, "%d of %d steps found something wrong", failures, v->n_steps);
    } else {
        buf_printf(b, "%s", validate_interrupted() ? "interrupted" : "all is well");
    }
    buf_printf(b, "</p>\n");
    put_steps(b, v);
    put_array(b, v);
    put_figures(b, v);
    put_roofline(b, v);
    put_doctor(b);
    buf_printf(b, "</main></body></html>\n");
}

enum status report_html(const struct validate * v, const char * path, struct error * err) {
    struct buf b = {0};
    struct out out = {0};
    put_page(&b, v);
    buf_append(&b, "", 1);
    hide_personal(&b);
    enum status st = b.failed ? error_set(err, ST_NO_MEMORY, "no memory for a page")
                              : out_begin(path, &out, err);
    if (st == ST_OK) {
        fputs((const char *) b.data, out.file);
        st = out_end(&out, err);
    }
    if (st != ST_OK) {
        error_prefix(err, st, "%s", path);
    }
    buf_free(&b);
    return st;
}

// report-text: the report on a terminal or in a pipe. In a pipe it is plain ASCII without a control
// character; on a terminal digits are drawn in half-block characters, two pixels to a cell, and in
// shades of grey where there are colours.
#include "report.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The ink of a digit fits into a box of 20x20 pixels; the paper around it is not drawn.
enum { BOX = 20, GAP = 2, SHADES = 24, GREY_CODES = 232 };

enum style style_detect(void) {
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    setlocale(LC_CTYPE, "");
    if (!isatty(STDOUT_FILENO) || !term || strcmp(term, "dumb") == 0 ||
        strcmp(nl_langinfo(CODESET), "UTF-8") != 0) {
        return STYLE_PLAIN;
    }
    return no_color && *no_color ? STYLE_BLOCKS : STYLE_COLOR;
}

// ---- digits ----

// Where the box must lie to hold the ink.
static void find_box(const uint8_t * image, int * left, int * top) {
    int x0 = MNIST_SIDE, x1 = -1, y0 = MNIST_SIDE, y1 = -1;
    for (int i = 0; i < MNIST_PIXELS; i++) {
        if (image[i] > 0) {
            int x = i % MNIST_SIDE, y = i / MNIST_SIDE;
            x0 = x < x0 ? x : x0;
            x1 = x > x1 ? x : x1;
            y0 = y < y0 ? y : y0;
            y1 = y > y1 ? y : y1;
        }
    }
    *left = x1 < 0 ? 4 : (x0 + x1 + 1 - BOX) / 2;
    *top = y1 < 0 ? 4 : (y0 + y1 + 1 - BOX) / 2;
}

static int pixel(const uint8_t * image, int x, int y) {
    return x >= 0 && x < MNIST_SIDE && y >= 0 && y < MNIST_SIDE ? image[y * MNIST_SIDE + x] : 0;
}

// One line of cells: two rows of pixels.
static void draw_line(FILE * out, const uint8_t * image, int left, int y, enum style style) {
    for (int x = left; x < left + BOX; x++) {
        int upper = pixel(image, x, y), lower = pixel(image, x, y + 1);
        if (style == STYLE_PLAIN) {
            static const char ramp[] = " .:-=+*#%@";
            fputc(ramp[(upper + lower) * 9 / 510], out);
        } else if (style == STYLE_BLOCKS) {
            static const char * const cells[] = {" ", "▀", "▄", "█"};
            fputs(cells[(upper > 110) + 2 * (lower > 110)], out);
        } else {
            fprintf(out, "\033[38;5;%d;48;5;%dm▀", GREY_CODES + upper * (SHADES - 1) / 255,
                    GREY_CODES + lower * (SHADES - 1) / 255);
        }
    }
    if (style == STYLE_COLOR) {
        fputs("\033[0m", out);
    }
}

static void print_wrong(FILE * out, const struct report * r, enum style style, int width,
                        int show) {
    int64_t n = r->n_wrong < show ? r->n_wrong : show;
    int across = (width - 2 + GAP) / (BOX + GAP);
    across = across < 1 ? 1 : across;
    if (n == 0) {
        return;
    }
    fprintf(out, "\nwrong digits, the surest first (%lld of %lld)\n", (long long) n,
            (long long) r->n_wrong);
    for (int64_t first = 0; first < n; first += across) {
        int64_t end = first + across < n ? first + across : n;
        fputc('\n', out);
        for (int line = 0; line < BOX; line += 2) {
            for (int64_t i = first; i < end; i++) {
                const uint8_t * image = r->digits->pixels + r->wrong[i] * MNIST_PIXELS;
                int left, top;
                find_box(image, &left, &top);
                fprintf(out, "%*s", i == first ? 2 : GAP, "");
                draw_line(out, image, left, top + line, style);
            }
            fputc('\n', out);
        }
        for (int64_t i = first; i < end; i++) {
            int64_t digit = r->wrong[i];
            int answer = r->device.predicted[digit];
            char text[64];
            snprintf(text, sizeof text, "%d taken for %d, %.0f %%", r->digits->labels[digit],
                     answer, 100.0 * report_probability(r, digit, answer));
            fprintf(out, "%*s%-*s", i == first ? 2 : GAP, "", BOX, text);
        }
        fputc('\n', out);
    }
}

// ---- tables ----

// How strong a cell is: the right answers by their share, the mistakes by their order of magnitude.
static int heat_code(int64_t count, int64_t row_sum, bool right) {
    static const int green[] = {22, 28, 34}, red[] = {52, 88, 124, 160};
    if (right) {
        double share = row_sum ? (double) count / (double) row_sum : 0.0;
        return green[share > 0.98 ? 2 : share > 0.95 ? 1 : 0];
    }
    return red[count < 3 ? 0 : count < 6 ? 1 : count < 12 ? 2 : 3];
}

static void print_confusion(FILE * out, const struct report * r, enum style style) {
    fprintf(out, "\nconfusion on %s\n\n  digit  taken for\n        ", r->device.name);
    for (int k = 0; k < MNIST_CLASSES; k++) {
        fprintf(out, "%6d", k);
    }
    fprintf(out, "   right\n");
    for (int i = 0; i < MNIST_CLASSES; i++) {
        int64_t sum = 0;
        for (int k = 0; k < MNIST_CLASSES; k++) {
            sum += r->confusion[i][k];
        }
        fprintf(out, "  %4d  ", i);
        for (int k = 0; k < MNIST_CLASSES; k++) {
            int64_t n = r->confusion[i][k];
            if (n == 0) {
                fprintf(out, "%6s", ".");
            } else if (style == STYLE_COLOR) {
                fprintf(out, " \033[38;5;255;48;5;%dm%5lld\033[0m", heat_code(n, sum, i == k),
                        (long long) n);
            } else {
                fprintf(out, "%6lld", (long long) n);
            }
        }
        if (sum) {
            fprintf(out, "  %5.1f %%\n", 100.0 * (double) r->confusion[i][i] / (double) sum);
        } else {
            fprintf(out, "       -\n");
        }
    }
}

static void print_outcome(FILE * out, const struct report * r, const struct outcome * o) {
    fprintf(out, "  %-6s %6.2f %% %7lld %9.2f s  %3d of %-3d %s\n", o->name, report_percent(o, r),
            (long long) (r->digits->n - o->right), o->seconds, o->nodes_on_device, o->nodes,
            o->description);
}

static void print_costs(FILE * out, const struct report * r) {
    const struct outcome * o = &r->device;
    if (o->has_stats) {
        fprintf(out, "\nkernels: %llu compiled in %.1f ms, %llu dispatches\n",
                (unsigned long long) o->kernels_compiled, o->compile_seconds * 1e3,
                (unsigned long long) o->dispatches);
    }
    const struct ggml_backend_hsa_account * a = &o->account;
    if (!o->has_counters || a->ns == 0) {
        return; // a real NPU has no counters; its wall time is above
    }
    fprintf(out, "modelled NPU, clock %s (%llu MHz): %.2f ms, %.0f digits/s%s\n", a->clock,
            (unsigned long long) a->mhz, (double) a->ns * 1e-6,
            (double) r->digits->n * 1e9 / (double) a->ns,
            o->nodes_on_device < o->nodes ? ", without the nodes on the CPU" : "");
    fprintf(out, "where it went:");
    for (int i = 0; i < GGML_BACKEND_HSA_CAUSES; i++) {
        fprintf(out, "%s %s %.1f %%", i ? "," : "", a->causes[i].name, report_share(o, i));
    }
    fprintf(out, "\n");
    fprintf(out, "\n  one batch of %lld                 cycles  MAC/cycle (peak %d)\n",
            (long long) r->batch, NPU_PEAK_MACS);
    for (int i = 0; i < r->n_nodes; i++) {
        const struct node_cost * c = &r->nodes[i];
        fprintf(out, "  %-10s %12s  ", c->what, c->shape);
        if (!c->on_device) {
            fprintf(out, "%13s\n", "on the CPU");
            continue;
        }
        fprintf(out, "%13llu", (unsigned long long) c->cycles);
        if (c->macs && c->cycles) {
            fprintf(out, " %10.0f", (double) c->macs / (double) c->cycles);
        }
        fputc('\n', out);
    }
}

void report_print(FILE * out, const struct report * r, enum style style, int width, int show) {
    fprintf(out, "MNIST: %lld handwritten digits, network %s\n\n", (long long) r->digits->n,
            r->network);
    fprintf(out, "  device accuracy   wrong       time  nodes on it\n");
    print_outcome(out, r, &r->device);
    if (report_has_reference(r)) {
        print_outcome(out, r, &r->reference);
    }
    print_costs(out, r);
    print_confusion(out, r, style);
    print_wrong(out, r, style, width, show);
    if (report_has_reference(r)) {
        double apart = fabs(report_percent(&r->device, r) - report_percent(&r->reference, r));
        fprintf(out,
                "\n%s: the accuracies on %s and %s differ by %.2f %% (allowed: 0.10 %%); the same "
                "answer for\n"
                "%lld of %lld digits, probabilities apart by at most %.1e\n",
                report_agrees(r) ? "ok" : "WRONG", r->device.name, r->reference.name, apart,
                (long long) r->agree, (long long) r->digits->n, r->difference);
    }
}

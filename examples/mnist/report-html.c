// report-html: the report as one HTML file. Pictures, style and script are inside, nothing is
// fetched, and without a script it still shows everything. Text that comes from outside is escaped.
#include "page.h"
#include "report.h"

#include "base/out.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void escape(struct buf * b, const char * text) {
    for (; *text; text++) {
        switch (*text) {
        case '&':
            buf_printf(b, "&amp;");
            break;
        case '<':
            buf_printf(b, "&lt;");
            break;
        case '>':
            buf_printf(b, "&gt;");
            break;
        case '"':
            buf_printf(b, "&quot;");
            break;
        default:
            buf_append(b, text, 1);
        }
    }
}

// 1234567 as 1,234,567.
static const char * grouped(uint64_t v, char out[32]) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long) v), at = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) {
            out[at++] = ',';
        }
        out[at++] = digits[i];
    }
    out[at] = 0;
    return out;
}

static void tile(struct buf * b, const char * value, const char * meaning) {
    buf_printf(b, "<div class=tile><b>");
    escape(b, value);
    buf_printf(b, "</b><span>");
    escape(b, meaning);
    buf_printf(b, "</span></div>\n");
}

static void put_head(struct buf * b, const struct report * r) {
    const struct outcome * o = &r->device;
    char right[32], all[32];
    buf_printf(b, "<!doctype html>\n<html lang=en><meta charset=utf-8>\n"
                  "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n"
                  "<title>MNIST on ");
    escape(b, o->name);
    buf_printf(b, "</title>\n<style>\n");
    buf_append(b, page_style, sizeof page_style);
    buf_printf(b, "</style>\n<main>\n<h1>MNIST on ");
    escape(b, o->name);
    buf_printf(b,
               "</h1>\n<div class=hero>%.2f<small>&thinsp;%%</small></div>\n"
               "<p class=lead>%s of %s handwritten digits were read correctly by ",
               report_percent(o, r), grouped((uint64_t) o->right, right),
               grouped((uint64_t) r->digits->n, all));
    escape(b, o->description);
    buf_printf(b, ".</p>\n");
}

static void put_tiles(struct buf * b, const struct report * r) {
    const struct outcome *o = &r->device, *ref = &r->reference;
    char value[64], meaning[160], n[32];
    buf_printf(b, "<div class=tiles>\n");
    if (report_has_reference(r)) {
        double apart = report_percent(o, r) - report_percent(ref, r);
        snprintf(value, sizeof value, "%.2f %%", report_percent(ref, r));
        snprintf(meaning, sizeof meaning, "accuracy on %s; %s is %.2f %% %s", ref->name, o->name,
                 fabs(apart), apart < 0 ? "below" : "above");
        if (o->right == ref->right) {
            snprintf(meaning, sizeof meaning, "accuracy on %s, the same", ref->name);
        }
        tile(b, value, meaning);
        snprintf(meaning, sizeof meaning,
                 "answers are those of %s; probabilities differ by at most %.1e", ref->name,
                 r->difference);
        tile(b, grouped((uint64_t) r->agree, n), meaning);
    }
    snprintf(value, sizeof value, "%.2f s", o->seconds);
    snprintf(meaning, sizeof meaning, "of wall time%s",
             o->has_counters ? ", the NPU being emulated" : "");
    if (report_has_reference(r)) {
        size_t used = strlen(meaning);
        snprintf(meaning + used, sizeof meaning - used, "; %s: %.2f s", ref->name, ref->seconds);
    }
    tile(b, value, meaning);
    if (o->has_counters && o->account.ns) {
        double seconds = (double) o->account.ns * 1e-9;
        snprintf(value, sizeof value, "%.2f ms", seconds * 1e3);
        snprintf(meaning, sizeof meaning, "of modelled NPU time: clock %s, %llu MHz",
                 o->account.clock, (unsigned long long) o->account.mhz);
        tile(b, value, meaning);
        snprintf(meaning, sizeof meaning, "digits a second, modelled%s",
                 o->nodes_on_device < o->nodes ? ", without what the CPU did" : "");
        tile(b, grouped((uint64_t) ((double) r->digits->n / seconds), n), meaning);
    }
    buf_printf(b, "</div>\n");
}

// One cell of the heat map. most is the largest number of equal mistakes.
static void put_cell(struct buf * b, const struct report * r, int i, int k, int64_t sum,
                     int64_t most) {
    int64_t n = r->confusion[i][k];
    if (n == 0) {
        buf_printf(b, "<td class=none>0</td>");
    } else if (i == k) {
        // Nearly all is right: the last tenth fills the scale.
        double share = (double) n / (double) sum,
               strength = 0.25 + 0.65 * fmax(0.0, share * 10 - 9);
        buf_printf(b, "<td class=right style=\"--a:%.2f\" title=\"%.2f %% of all %ds\">%lld</td>",
                   strength, 100.0 * share, i, (long long) n);
    } else {
        double strength = 0.15 + 0.75 * log1p((double) n) / log1p((double) most);
        buf_printf(b,
                   "<td class=wrong data-k=%d%d style=\"--a:%.2f\" "
                   "title=\"%lld of %lld %ds taken for %d\">%lld</td>",
                   i, k, strength, (long long) n, (long long) sum, i, k, (long long) n);
    }
}

static void put_confusion(struct buf * b, const struct report * r) {
    buf_printf(b, "<h2>What was taken for what</h2>\n"
                  "<p class=note>A row is what was written, a column what was read. "
                  "Click a mistake to see its digits.</p>\n"
                  "<div class=scroll><table class=heat><tr><th></th>");
    int64_t most = 1;
    for (int k = 0; k < MNIST_CLASSES; k++) {
        buf_printf(b, "<th>%d</th>", k);
        for (int i = 0; i < MNIST_CLASSES; i++) {
            most = i != k && r->confusion[i][k] > most ? r->confusion[i][k] : most;
        }
    }
    buf_printf(b, "<th>right</th></tr>\n");
    for (int i = 0; i < MNIST_CLASSES; i++) {
        int64_t sum = 0;
        for (int k = 0; k < MNIST_CLASSES; k++) {
            sum += r->confusion[i][k];
        }
        buf_printf(b, "<tr><th>%d</th>", i);
        for (int k = 0; k < MNIST_CLASSES; k++) {
            put_cell(b, r, i, k, sum, most);
        }
        buf_printf(b, "<td class=sum>%.2f %%</td></tr>\n",
                   sum ? 100.0 * (double) r->confusion[i][i] / (double) sum : 0.0);
    }
    buf_printf(b, "</table></div>\n");
}

static void put_costs(struct buf * b, const struct report * r) {
    uint64_t most = 1;
    for (int i = 0; i < r->n_nodes; i++) {
        most = r->nodes[i].cycles > most ? r->nodes[i].cycles : most;
    }
    if (r->n_nodes == 0 || !r->device.has_counters) {
        return;
    }
    char n[32];
    buf_printf(
        b,
        "<h2>Where the cycles go</h2>\n"
        "<p class=note>One batch of %lld digits, node by node, as the cycle model counts it. "
        "The array&rsquo;s sixteen cores can do %d multiplications a cycle.</p>\n"
        "<div class=costs>\n",
        (long long) r->batch, NPU_PEAK_MACS);
    for (int i = 0; i < r->n_nodes; i++) {
        const struct node_cost * c = &r->nodes[i];
        buf_printf(b, "<span>%s</span><i>%s</i>", c->what, c->shape);
        if (!c->on_device) {
            buf_printf(b, "<div class=\"bar cpu\"></div><i>on the CPU</i>\n");
            continue;
        }
        buf_printf(b, "<div class=bar style=\"width:%.2f%%\"></div><i>%s",
                   100.0 * (double) c->cycles / (double) most, grouped(c->cycles, n));
        if (c->macs && c->cycles) {
            double rate = (double) c->macs / (double) c->cycles;
            buf_printf(b, " &middot; %.0f MAC/cycle, %.0f %%", rate, 100.0 * rate / NPU_PEAK_MACS);
        }
        buf_printf(b, "</i>\n");
    }
    buf_printf(b, "</div>\n");
}

// What the causes mean, in the words of a page.
static const char * const meanings[GGML_BACKEND_HSA_CAUSES] = {
    "cores compute",
    "cores wait for a memory bank",
    "inside the array, on the way",
    "streams are full",
    "transfers start",
    "host memory is slow",
    "the instruction stream",
    "the array is configured",
    "host and driver hand over",
    "the CPU's caches are flushed",
};

static void put_causes(struct buf * b, const struct report * r) {
    const struct outcome * o = &r->device;
    if (!o->has_counters || !o->account.ns) {
        return;
    }
    buf_printf(b,
               "<h2>Where the time went</h2>\n"
               "<p class=note>All %lld digits: %.2f ms, modelled, by cause.</p>\n"
               "<div class=costs>\n",
               (long long) r->digits->n, (double) o->account.ns * 1e-6);
    double most = 0.1;
    for (int i = 0; i < GGML_BACKEND_HSA_CAUSES; i++) {
        most = fmax(most, report_share(o, i));
    }
    for (int i = 0; i < GGML_BACKEND_HSA_CAUSES; i++) {
        double share = report_share(o, i);
        buf_printf(b,
                   "<span>%s</span><i>%s</i><div class=bar style=\"width:%.2f%%\"></div>"
                   "<i>%.1f %% &middot; %.2f ms</i>\n",
                   o->account.causes[i].name, meanings[i], 100.0 * share / most, share,
                   share * (double) o->account.ns * 1e-8);
    }
    buf_printf(b, "</div>\n");
}

// The second most likely answer for a digit.
static int second_guess(const struct report * r, int64_t digit) {
    int first = r->device.predicted[digit], best = -1;
    for (int k = 0; k < MNIST_CLASSES; k++) {
        if (k != first &&
            (best < 0 || report_probability(r, digit, k) > report_probability(r, digit, best))) {
            best = k;
        }
    }
    return best;
}

static void put_gallery(struct buf * b, const struct report * r) {
    char n[32];
    buf_printf(b,
               "<h2 id=wrong>%s digits that were read wrongly</h2>\n"
               "<p class=note>What was written, and what it was taken for; the bar tells how sure "
               "the network was. The surest come first. "
               "<button id=all hidden>show all</button></p>\n<div class=gallery>\n",
               r->n_wrong ? grouped((uint64_t) r->n_wrong, n) : "No");
    for (int64_t i = 0; i < r->n_wrong; i++) {
        int64_t digit = r->wrong[i];
        int label = r->digits->labels[digit], answer = r->device.predicted[digit];
        double sure = 100.0 * report_probability(r, digit, answer);
        int second = second_guess(r, digit);
        buf_printf(b,
                   "<figure class=digit data-k=%d%d title=\"digit %lld of the set\">"
                   "<img alt=\"%d\" src=\"data:image/png;base64,",
                   label, answer, (long long) digit, label);
        png_base64(b, r->digits->pixels + digit * MNIST_PIXELS, MNIST_SIDE, MNIST_SIDE);
        buf_printf(b,
                   "\"><b>%d &rarr; <em>%d</em></b>"
                   "<div class=sure><s style=\"width:%.0f%%\"></s></div>"
                   "%.0f %% sure<br>then %d, %.0f %%</figure>\n",
                   label, answer, sure, sure, second, 100.0 * report_probability(r, digit, second));
    }
    buf_printf(b, "</div>\n");
}

static void put_foot(struct buf * b, const struct report * r) {
    const struct outcome * o = &r->device;
    char n[32];
    buf_printf(b, "<footer>Network ");
    escape(b, r->network);
    buf_printf(b,
               "; %s multiplications a digit, batches of %lld. %d of the graph's %d nodes ran on ",
               grouped(r->macs, n), (long long) r->batch, o->nodes_on_device, o->nodes);
    escape(b, o->name);
    if (o->has_stats) {
        buf_printf(b, "; %llu kernels were compiled in %.1f ms and dispatched %s times",
                   (unsigned long long) o->kernels_compiled, o->compile_seconds * 1e3,
                   grouped(o->dispatches, n));
    }
    buf_printf(b, ". The digits are MNIST&rsquo;s test set by Yann LeCun and Corinna Cortes."
                  "</footer>\n</main>\n<script>\n");
    buf_append(b, page_script, sizeof page_script);
    buf_printf(b, "</script>\n</html>\n");
}

enum status report_html(const struct report * r, const char * path, struct error * err) {
    struct buf b = {0};
    put_head(&b, r);
    put_tiles(&b, r);
    put_confusion(&b, r);
    put_costs(&b, r);
    put_causes(&b, r);
    put_gallery(&b, r);
    put_foot(&b, r);

    struct out out;
    enum status st = b.failed ? error_set(err, ST_NO_MEMORY, "no memory for the report")
                              : out_begin(path, &out, err);
    if (st == ST_OK) {
        (void) fwrite(b.data, 1, b.size, out.file); // out_end tells
        st = out_end(&out, err);
    }
    if (st != ST_OK) {
        error_prefix(err, st, "%s: cannot be written", path);
    }
    buf_free(&b);
    return st;
}

// validate-report: what was found, for people and for programs. Figures that are off by more than a
// tenth are marked, with what depends on them.
#include "validate.h"

#include "base/json.h"
#include "base/out.h"
#include "doctor.h"
#include "probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFF_BY 0.10

double figure_ratio(const struct figure * f) {
    return f->modelled > 0 ? f->measured / f->modelled : 0;
}

bool figure_off(const struct figure * f) {
    bool none = f->modelled == 0;
    if (f->rule) {
        return f->measured != f->modelled;
    }
    // What the model has as nothing is off when it is a cycle or a nanosecond.
    return none ? f->key && fabs(f->measured) > 1 : fabs(figure_ratio(f) - 1) > OFF_BY;
}

// ---- terminal ----

static const char * number(double value, char text[24]) {
    snprintf(text, 24, fabs(value) >= 1000 ? "%.0f" : fabs(value) >= 100 ? "%.1f" : "%.2f", value);
    return text;
}

static void print_figures(const struct validate * v, const struct colours * c) {
    char a[24], b[24], r[24];
    if (v->n_figures == 0) {
        return;
    }
    printf("\n%sfigures%s%s%s%s\n  %-46s %12s %12s %7s\n", c->head, c->off,
           v->gpu ? "" : ", modelled: clock ", v->gpu ? "" : model_name(v),
           v->emulated ? " (this device is emulated)" : "", "", "measured", "modelled", "ratio");
    for (int i = 0; i < v->n_figures; i++) {
        const struct figure * f = &v->figures[i];
        double ratio = figure_ratio(f);
        snprintf(r, sizeof r, "%.3f", ratio);
        printf("%s %-46s %12s %12s %7s  %s\n", figure_off(f) ? " !" : "  ", f->name,
               number(f->measured, a), f->modelled > 0 || f->key ? number(f->modelled, b) : "",
               ratio > 0 ? r : "", f->unit);
    }
    for (int i = 0, first = 1; i < v->n_figures; i++) {
        const struct figure * f = &v->figures[i];
        if (figure_off(f)) {
            if (first) {
                printf("\n  ! off by more than a tenth, and what is wrong with it:\n");
            }
            first = 0;
            printf("    %-46s %s\n", f->name, f->depends);
        }
    }
}

void report_terminal(const struct validate * v) {
    struct colours c = tool_colours();
    int failures = validate_failures(v);
    print_figures(v, &c);
    if (v->watts > 0) {
        printf("\n  %.2f W under load\n", v->watts);
    }
    if (failures) {
        printf("\n%d of %d steps found something wrong\n", failures, v->n_steps);
    } else if (validate_interrupted()) {
        printf("\ninterrupted; what is shown was found before\n");
    } else {
        printf("\nall is well\n");
    }
}

// ---- JSON ----

static json_t * lines(const struct buf * b) {
    json_t * list = json_array();
    for (const char * p = (const char *) b->data; p && *p;) {
        size_t n = strcspn(p, "\n");
        char text[600];
        snprintf(text, sizeof text, "%.*s", (int) (n < sizeof text ? n : sizeof text - 1), p);
        json_append(&list, json_text(text));
        p += n + (p[n] == '\n');
    }
    return list;
}

static json_t * steps(const struct validate * v) {
    static const char * const words[] = {"ok", "wrong", "left out"};
    json_t * list = json_array();
    for (int i = 0; i < v->n_steps; i++) {
        const struct step * s = &v->steps[i];
        json_t * row = json_object();
        json_put(&row, "name", json_text(s->name));
        json_put(&row, "detail", json_text(s->detail));
        json_put(&row, "outcome", json_text(words[s->outcome]));
        json_put(&row, "seconds", json_real(s->seconds));
        json_put(&row, "wrong", lines(&s->bad));
        json_put(&row, "notes", lines(&s->say));
        json_append(&list, row);
    }
    return list;
}

static json_t * figures(const struct validate * v) {
    json_t * list = json_array();
    for (int i = 0; i < v->n_figures; i++) {
        const struct figure * f = &v->figures[i];
        json_t * row = json_object();
        json_put(&row, "name", json_text(f->name));
        if (f->key) {
            json_put(&row, "key", json_text(f->key));
        }
        json_put(&row, "unit", json_text(f->unit));
        json_put(&row, "measured", json_real(f->measured));
        if (f->modelled > 0 || f->key) {
            json_put(&row, "modelled", json_real(f->modelled));
            json_put(&row, "off", json_boolean(figure_off(f)));
        }
        json_put(&row, "depends", json_text(f->depends));
        json_append(&list, row);
    }
    return list;
}

static json_t * tiles(const struct validate * v) {
    json_t * list = json_array();
    for (int col = 0; col < v->columns; col++) {
        json_t * column = json_array();
        for (int row = 0; row < VALIDATE_CORES; row++) {
            json_append(&column, json_integer(v->tiles[col][row]));
        }
        json_append(&list, column);
    }
    return list;
}

enum status report_json(const struct validate * v, const char * path, struct error * err) {
    json_t * root = json_object();
    struct buf b = {0};
    struct out out = {0};
    json_put(&root, "version", json_text(GGML_HSA_VERSION));
    json_put(&root, "agent", json_text(v->agent));
    json_put(&root, "product", json_text(v->product));
    json_put(&root, "runtime", json_text(v->known_as));
    json_put(&root, "driver", json_text(v->driver));
    json_put(&root, "emulated", json_boolean(v->emulated));
    json_put(&root, "columns", json_integer(v->columns));
    json_put(&root, "clock", json_text(model_name(v)));
    json_put(&root, "steps", steps(v));
    json_put(&root, "figures", figures(v));
    json_put(&root, "tiles", tiles(v));
    json_put(&root, "wrong", json_integer(validate_failures(v)));
    json_print(root, JSON_INDENT(2), &b);
    json_decref(root);
    hide_personal(&b);
    buf_append(&b, "\n", 1);
    enum status st = b.failed ? error_set(err, ST_NO_MEMORY, "%s", json_trouble()) : ST_OK;
    if (st == ST_OK && !strcmp(path, "-")) {
        fwrite(b.data, 1, b.size, stdout);
    } else if (st == ST_OK) {
        st = out_begin(path, &out, err);
        if (st == ST_OK) {
            fwrite(b.data, 1, b.size, out.file);
            st = out_end(&out, err);
        }
        if (st != ST_OK) {
            error_prefix(err, st, "%s", path);
        }
    }
    buf_free(&b);
    return st;
}

// validate-model: what the model says of the device at hand, and a clock of what was measured. This
// is the one part of validate that knows the emulator's clock; nothing that is measured passes
// here. Prices are figures of the clock's table. What follows from many of them is measured again,
// on the emulated device, by this same tool in a process of its own.
#include "validate.h"

#include "base/json.h"
#include "base/out.h"
#include "emu/aie/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char * model_name(const struct validate * v) {
    return v->gpu ? "" : emu_clock_default(v->arch)->name;
}

static bool is_rule(const char * key) {
    return !strcmp(key, "bank_bit");
}

static void from_table(struct validate * v) {
    const struct emu_clock * c = emu_clock_default(v->arch);
    for (int i = 0; i < v->n_figures; i++) {
        struct figure * f = &v->figures[i];
        for (int k = 0; f->key && k < emu_clock_figures(); k++) {
            if (!strcmp(emu_clock_figure(k), f->key)) {
                f->modelled = emu_clock_value(c, k);
                f->rule = is_rule(f->key);
            }
        }
    }
}

// ---- the same on the emulated device ----

// Once, before other threads are there.
static void set_world(const struct validate * v) {
    static const char * const others[] = {"GGML_HSA_EMU_CLOCK", "GGML_HSA_EMU_TIME",
                                          "GGML_HSA_EMU_PLANT", "GGML_HSA_EMU_ADDER",
                                          "GGML_HSA_RUNTIME",   "LD_PRELOAD"};
    char device[96];
    snprintf(device, sizeof device, "%s:%d", v->agent, v->columns);
    setenv("GGML_HSA_EMULATE", device, 1);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        unsetenv(others[i]);
    }
}

static bool run_child(const struct validate * v, struct buf * said) {
    static const char * const steps[] = {"prices", "speed", "decoder"};
    char exe[512], only[40] = "";
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    for (int i = 0; i < 3; i++) {
        if (validate_wants(v, steps[i])) {
            snprintf(only + strlen(only), sizeof only - strlen(only), "%s%s", *only ? "," : "",
                     steps[i]);
        }
    }
    exe[n > 0 ? n : 0] = '\0';
    const char * words[] = {"ggml-hsa", "validate", v->whole ? "whole" : "quick",
                            "@model",   "--only",   only,
                            "--json",   "-",        NULL};
    set_world(v);
    int status = validate_run(exe, words, said);
    return n > 0 && status == EXIT_OK && !said->failed && said->data;
}

static void from_model(struct validate * v) {
    struct buf said = {0};
    json_t *root = NULL, *list;
    validate_progress(v, "the same on the model ...");
    if (run_child(v, &said) &&
        json_read((const char *) said.data, said.size - 1, &root, NULL) == ST_OK) {
        list = json_object_get(root, "figures");
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t * row = json_array_get(list, i);
            const char * name = json_string_value(json_object_get(row, "name"));
            for (int k = 0; name && k < v->n_figures; k++) {
                struct figure * f = &v->figures[k];
                if (!f->key && !strcmp(f->name, name)) {
                    f->modelled = json_real_value(json_object_get(row, "measured"));
                }
            }
        }
    }
    if (root) {
        json_decref(root);
    }
    buf_free(&said);
    validate_progress(v, "%s", "");
}

// On an emulated device with its own clock the measured time is the model's.
static bool is_the_model(const struct validate * v) {
    const char * clock = getenv("GGML_HSA_EMU_CLOCK");
    return v->emulated && !(clock && *clock);
}

void model_compare(struct validate * v) {
    if (v->gpu || v->n_figures == 0) {
        return;
    }
    from_table(v);
    if (is_the_model(v)) {
        for (int i = 0; i < v->n_figures; i++) {
            struct figure * f = &v->figures[i];
            f->modelled = f->key ? f->modelled : f->measured;
        }
    } else if (!v->is_model && !validate_interrupted()) {
        from_model(v);
    }
}

// ---- a clock of this device ----

static void print_clock(const struct validate * v, const struct emu_clock * c, FILE * f) {
    char name[32];
    size_t n = 0;
    const char * from = *v->product ? v->product : v->agent;
    for (const char * p = from; *p && n + 10 < sizeof name; p++) {
        name[n++] = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.", *p)
                        ? *p
                        : '-';
    }
    name[n] = '\0';
    fprintf(f,
            "# What ggml-hsa validate measured of a %s; GGML_HSA_EMU_CLOCK=<this file> uses it.\n"
            "device = %s\nname = %s-measured\n",
            v->agent, emu_clock_default(v->arch)->name, name);
    for (int i = 0; i < emu_clock_figures(); i++) {
        const struct figure * m = validate_find(v, emu_clock_figure(i));
        fprintf(f, "%s = %u%s\n", emu_clock_figure(i), emu_clock_value(c, i),
                m ? "" : " # not measured: as the device above");
    }
}

enum status model_write_clock(const struct validate * v, const char * path, struct error * err) {
    struct emu_clock c = v->gpu ? (struct emu_clock){0} : *emu_clock_default(v->arch);
    struct out out;
    if (v->gpu || !validate_find(v, "mhz")) {
        return error_set(err, ST_INVALID, "%s: no clock to write: prices were not measured", path);
    }
    for (int i = 0; i < v->n_figures; i++) {
        const struct figure * f = &v->figures[i];
        double value = round(f->measured);
        if (f->key && !strcmp(f->key, "stream_words")) { // a power of two
            value = exp2(round(log2(f->measured > 0.5 ? f->measured : 1)));
        }
        if (f->key && !(value >= 0 && emu_clock_set(&c, f->key, (uint64_t) value))) {
            return error_set(err, ST_INVALID, "%s: %s was measured as %g, which no clock has", path,
                             f->name, f->measured);
        }
    }
    enum status st = out_begin(path, &out, err);
    if (st == ST_OK) {
        print_clock(v, &c, out.file);
        st = out_end(&out, err);
    }
    return st == ST_OK ? st : error_prefix(err, st, "%s", path), st;
}

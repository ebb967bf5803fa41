// rows: measurements on silicon, from the table of golden data, by their id: what was measured, on
// what, and the value with its unit.
#pragma once

#include "base/base.h"
#include "base/cmocka-all.h"

enum { ROW_TEXT = 1024 };

struct row {
    char line[ROW_TEXT];
    const char *id, *arch, *device, *quantity, *program, *configuration, *value, *unit, *spread;
};

// Skips the test where the table is missing, fails it where the table lacks the row.
static inline void row_find(struct row * r, const char * id) {
    static const char path[] = GOLDEN_DIR "/timing/timing-silicon.tsv";
    FILE * f = fopen(path, "r");
    if (!f) {
        skip_golden(path);
    }
    size_t n = strlen(id);
    bool found = false;
    while (!found && fgets(r->line, sizeof r->line, f)) {
        found = strncmp(r->line, id, n) == 0 && r->line[n] == '\t';
    }
    fclose(f);
    if (!found) {
        fail_msg("%s has no row %s", path, id);
    }
    const char ** fields[] = {&r->id,       &r->arch,    &r->device,
                              &r->quantity, &r->program, &r->configuration,
                              &r->value,    &r->unit,    &r->spread};
    char * at = r->line;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        *fields[i] = at;
        at += strcspn(at, "\t\n");
        if (*at) {
            *at++ = 0;
        }
    }
}

// The numbers of a text, whatever stands between them; returns how many. "1854 / 830" has two, and
// "1056-1094" has too.
static inline int row_numbers(const char * text, double * numbers, int max) {
    int n = 0;
    while (*text && n < max) {
        char * end;
        double value = strtod(text, &end);
        if (end == text || *text == '-' || *text == '+') {
            text++;
        } else {
            numbers[n++] = value;
            text = end;
        }
    }
    return n;
}

static inline double row_value(const char * id) {
    struct row r;
    double value = 0;
    row_find(&r, id);
    assert_int_equal(row_numbers(r.value, &value, 1), 1);
    return value;
}

// listing: one function of an objdump listing as bytes, with the places that a linker would fill.
// The bytes are what counts; of the text only labels and relocations are read. Zeros that objdump
// leaves out ("...") are zeros here too, which on aie2p are empty bundles of two bytes.
#pragma once

#include "aie/isa/isa.h"
#include "base/cmocka-all.h"

enum { LISTING_BYTES = 4096, LISTING_MARKS = 32 };

struct listing_mark {
    char name[32];
    uint32_t at;
};

struct listing {
    uint8_t bytes[LISTING_BYTES];
    uint32_t size;
    struct listing_mark labels[LISTING_MARKS], relocations[LISTING_MARKS]; // of a symbol, at
    int n_labels, n_relocations;
};

static inline void listing_mark(struct listing_mark * marks, int * n, const char * name,
                                size_t length, uint32_t at) {
    assert_true(*n < LISTING_MARKS && length < sizeof marks[0].name);
    memcpy(marks[*n].name, name, length);
    marks[*n].name[length] = 0;
    marks[(*n)++].at = at;
}

// One line: a label "000001f0 <.LBB0_3>:", a relocation "\t\t000001a6:  R_AIE_41\t.LBB0_3" or code
// "     1f0: 8b a0 ...\ttext".
static inline void listing_line(struct listing * l, const char * line) {
    char * end;
    uint32_t at = (uint32_t) strtoul(line, &end, 16);
    const char * name;
    if (end == line) {
        return;
    }
    if (strncmp(end, " <", 2) == 0 && strchr(end, '>')) {
        name = end + 2;
        listing_mark(l->labels, &l->n_labels, name, strcspn(name, ">"), at);
    } else if (*end == ':' && strstr(end, "R_AIE_") && (name = strrchr(end, '\t'))) {
        listing_mark(l->relocations, &l->n_relocations, name + 1, strcspn(name + 1, "\r\n"), at);
    } else if (*end == ':') {
        unsigned byte;
        int read;
        for (const char * c = end + 1; sscanf(c, " %2x%n", &byte, &read) == 1 && read <= 3;) {
            assert_true(at < LISTING_BYTES);
            l->bytes[at++] = (uint8_t) byte;
            c += read;
            if (*c != ' ') {
                break;
            }
        }
        l->size = at > l->size ? at : l->size;
    }
}

// The section .text.<function> of a listing below the golden data.
static inline void listing_read(struct listing * l, const char * file, const char * function) {
    char path[1024], title[128];
    snprintf(path, sizeof path, "%s/timing/%s", GOLDEN_DIR, file);
    snprintf(title, sizeof title, "Disassembly of section .text.%s:", function);
    FILE * f = fopen(path, "r");
    if (!f) {
        skip_golden(path);
    }
    memset(l, 0, sizeof *l);
    char line[1024];
    bool inside = false;
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "Disassembly of section", 22) == 0) {
            inside = strncmp(line, title, strlen(title)) == 0;
        } else if (inside) {
            listing_line(l, line);
        }
    }
    fclose(f);
    if (!l->size) {
        fail_msg("%s has no section .text.%s", path, function);
    }
}

static inline uint32_t listing_label(const struct listing * l, const char * name) {
    for (int i = 0; i < l->n_labels; i++) {
        if (strcmp(l->labels[i].name, name) == 0) {
            return l->labels[i].at;
        }
    }
    fail_msg("the listing has no label %s", name);
    return 0;
}

// grids <out>: writes ggml's tables of the types iq1, iq2 and iq3 as macros, for GPU kernels and
// their check (src/hip). They are read out of the ggml that this is linked with, by its function
// that makes floats of blocks: a block is all zeros, but for a scale of 1 and an index.
//
// Such a table has four or eight numbers an entry, which are few kinds. An entry becomes a word of
// 16 bits, two or three bits for each number, the first lowest; what the kinds are is known to
// blocks_grids.h, and this ends with an error where ggml has others.
#include <stdio.h>
#include <string.h>

#include "ggml.h"

enum { NUMBERS = 256, BYTES = 128, ONE = 0x3c /* of 1 as an f16, the second byte */ };

static const struct grid {
    const char * name;
    enum ggml_type type;
    int entries, numbers, bits; // of a number
    int high;                   // of the index: the byte of its bits above 255; the others' is 2
    float scale, delta;         // a number is (what ggml says - delta) * scale
    int n_kinds, kinds[8];
} grids[] = {
    {"iq2_xxs", GGML_TYPE_IQ2_XXS, 256, 8, 2, 3, 8, 0, 3, {8, 25, 43}},
    {"iq2_xs", GGML_TYPE_IQ2_XS, 512, 8, 2, 3, 8, 0, 3, {8, 25, 43}},
    {"iq2_s", GGML_TYPE_IQ2_S, 1024, 8, 2, 66, 8, 0, 3, {8, 25, 43}},
    {"iq3_xxs", GGML_TYPE_IQ3_XXS, 256, 4, 3, 3, 4, 0, 8, {4, 12, 20, 28, 36, 44, 52, 62}},
    {"iq3_s", GGML_TYPE_IQ3_S, 512, 4, 3, 66, 1, 0, 8, {1, 3, 5, 7, 9, 11, 13, 15}},
    {"iq1_s", GGML_TYPE_IQ1_S, 2048, 8, 2, 34, 1, 0.125f, 3, {-1, 0, 1}},
};

// Of which kind is it? -1: of none.
static int kind_of(const struct grid * g, float number) {
    for (int k = 0; k < g->n_kinds; k++) {
        if ((number - g->delta) * g->scale == (float) g->kinds[k]) {
            return k;
        }
    }
    return -1;
}

static int entry_of(const struct grid * g, int index) {
    const struct ggml_type_traits * traits = ggml_get_type_traits(g->type);
    unsigned char block[BYTES] = {0};
    float numbers[NUMBERS];
    int entry = 0;
    if (!traits->to_float || traits->blck_size != NUMBERS || traits->type_size > BYTES) {
        return -1;
    }
    block[1] = ONE;
    block[2] = (unsigned char) index;
    block[g->high] = (unsigned char) (index >> 8);
    traits->to_float(block, numbers, NUMBERS);
    for (int i = 0; i < g->numbers; i++) {
        int kind = kind_of(g, numbers[i]);
        if (kind < 0) {
            return -1;
        }
        entry |= kind << g->bits * i;
    }
    return entry;
}

int main(int argc, char ** argv) {
    FILE * out = argc == 2 ? fopen(argv[1], "w") : NULL;
    if (!out) {
        fprintf(stderr, "usage: grids <out>, a file that can be written\n");
        return 1;
    }
    for (size_t t = 0; t < sizeof grids / sizeof grids[0]; t++) {
        const struct grid * g = &grids[t];
        fprintf(out, "#define RK_GRID_%s ", g->name);
        for (int i = 0; i < g->entries; i++) {
            int entry = entry_of(g, i);
            if (entry < 0) {
                fprintf(stderr, "grids: entry %d of ggml's %s is not what blocks_grids.h knows\n",
                        i, g->name);
                fclose(out);
                remove(argv[1]);
                return 1;
            }
            fprintf(out, "%s%d", i ? "," : "", entry);
        }
        fprintf(out, "\n");
    }
    return fclose(out) ? 1 : 0;
}

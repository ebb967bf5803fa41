// join: see join.h.
#include "join.h"

#include "aie/ops/mixed.h"

#include <stdlib.h>

enum { MOST_PARTS = UINT16_MAX }; // parts that an aim can name

void aie_joined_free(struct aie_joined * j) {
    free(j->insts);
    free(j->aims);
    *j = (struct aie_joined){0};
}

static enum status check_operands(const struct aie_stream_part * parts, const struct aie_joined * j,
                                  struct error * err) {
    for (size_t i = 0; i < j->n_aims; i++) {
        const struct txn_aim * a = &j->aims[i];
        if (a->operand >= parts[a->part].n_operands) {
            return error_set(err, ST_CORRUPT, "stream %d has operand %d, its kernel has %d",
                             a->part, a->operand, parts[a->part].n_operands);
        }
    }
    return ST_OK;
}

enum status aie_stream_join(const struct aie_stream_part * parts, int n, struct aie_joined * out,
                            struct error * err) {
    *out = (struct aie_joined){0};
    if (n < 1 || n > MOST_PARTS) {
        return error_set(err, ST_INVALID, "%d streams to join", n);
    }
    size_t words = 0;
    struct txn_part * list = malloc((size_t) n * sizeof *list);
    for (int i = 0; list && i < n; i++) {
        if (parts[i].foreign) {
            free(list);
            return error_set(err, ST_UNSUPPORTED, "stream %d was made by others: it goes alone", i);
        }
        bool beside = parts[i].beside && parts[i].n_words > 1;
        list[i] = (struct txn_part){
            .insts = parts[i].insts,
            .n_words = parts[i].n_words,
            .ready = parts[i].ready,
            .beside = beside ? mixed_columns((int) txn_header_columns(parts[i].insts)) : 0};
        words += parts[i].n_words;
    }
    out->insts = malloc(words ? 2 * 4 * words : 1);
    enum status st = list && out->insts ? txn_join(list, n, true, out->insts, &out->n_words,
                                                   &out->aims, &out->n_aims, err)
                                        : error_set(err, ST_NO_MEMORY, "no memory to join streams");
    st = st == ST_OK ? check_operands(parts, out, err) : st;
    free(list);
    if (st != ST_OK) {
        aie_joined_free(out);
    }
    return st;
}

// txn-tile: see the header.
#include "txn-tile.h"

const struct txn_kind txn_shim = {
    .tile = IMAGE_SHIM,
    .bds = SHIM_BD,
    .n_bds = 16,
    .n_words = IMAGE_BD_WORDS,
    .queues = SHIM_S2MM_QUEUE,
    .n_queues = 4,
};
const struct txn_kind txn_core = {
    .tile = IMAGE_CORE,
    .bds = CORE_BD,
    .n_bds = 16,
    .n_words = IMAGE_CORE_BD_WORDS,
    .queues = CORE_S2MM_QUEUE,
    .n_queues = 4,
};
const struct txn_kind txn_mem = {
    .tile = IMAGE_MEM,
    .bds = MEM_BD,
    .n_bds = TXN_BDS,
    .n_words = IMAGE_BD_WORDS,
    .half = TXN_BDS / 2,
    .queues = MEM_S2MM_QUEUE,
    .n_queues = TXN_QUEUES,
    .first_lock = 64,
};

uint32_t txn_whole_bds(const struct txn_kind * k, uint32_t offset, uint32_t n_words) {
    uint32_t at = offset - k->bds, n = n_words / k->n_words;
    bool whole = at % IMAGE_BD_STEP == 0 && n_words && n_words % k->n_words == 0 &&
                 (n_words == k->n_words || 4 * k->n_words == IMAGE_BD_STEP);
    return whole && at / IMAGE_BD_STEP < k->n_bds && n <= k->n_bds - at / IMAGE_BD_STEP ? n : 0;
}

int txn_queue_at(const struct txn_kind * k, uint32_t offset) {
    uint32_t at = offset - k->queues;
    return at < k->n_queues * TXN_QUEUE_STEP && at % TXN_QUEUE_STEP == 0
               ? (int) (at / TXN_QUEUE_STEP)
               : -1;
}

// flow: descriptors, queues, tokens and the chunks of a core's stream; see flow.h.
#include "flow.h"

#include <assert.h>

enum { BD_BYTES = 0x20, LOCK_BYTES = 0x10 };

static uint32_t addr_of(struct flow_tile at, uint32_t offset) {
    return image_addr(at.col, at.row, offset);
}

// ---- descriptors and queues ----

void flow_core_bd(const struct flow * f, struct flow_tile at, int bd, const struct array_bd * d) {
    uint32_t w[6];
    array_core_bd(d, w);
    txn_block_write(f->t, addr_of(at, CORE_BD + BD_BYTES * (uint32_t) bd), w, 6);
}

void flow_mem_bd(const struct flow * f, int col, int bd, const struct array_bd * d) {
    uint32_t w[8];
    array_mem_bd(d, w);
    txn_block_write(f->t, image_addr(col, ARRAY_ROW_MEM, MEM_BD + BD_BYTES * (uint32_t) bd), w, 8);
}

static uint32_t shim_bd_at(int col, int bd) {
    return image_addr(col, ARRAY_ROW_SHIM, SHIM_BD + BD_BYTES * (uint32_t) bd);
}

void flow_shim_bds(const struct flow * f, int col, int first, const struct array_bd * d, int n) {
    uint32_t w[ARRAY_SHIM_BDS][8];
    assert(first + n <= ARRAY_SHIM_BDS);
    for (int i = 0; i < n; i++) {
        struct array_bd free_running = d[i];
        free_running.acquire = free_running.release = -1;
        array_shim_bd(&free_running, f->target, w[i]);
    }
    txn_block_write(f->t, shim_bd_at(col, first), w[0], 8 * (size_t) n);
}

void flow_shim_aim(const struct flow * f, int col, int bd, int operand, uint32_t offset) {
    txn_patch_address(f->t, shim_bd_at(col, bd) + 4, operand, offset);
}

void flow_shim_bd(const struct flow * f, int col, int bd, const struct array_bd * d, int operand,
                  uint32_t offset) {
    flow_shim_bds(f, col, bd, d, 1);
    flow_shim_aim(f, col, bd, operand, offset);
}

void flow_push(const struct flow * f, struct flow_tile at, uint32_t queue, int bd, int64_t runs,
               bool token) {
    for (; runs > 0; runs -= ARRAY_MAX_REPEAT) {
        bool more = runs > ARRAY_MAX_REPEAT;
        txn_write(f->t, addr_of(at, queue),
                  array_queue_word(bd, more ? ARRAY_MAX_REPEAT : (int) runs, token && !more));
    }
}

void flow_task(struct flow_tasks * t, int queue, int bd, int64_t runs, bool token) {
    for (; runs > 0; runs -= ARRAY_MAX_REPEAT) {
        bool more = runs > ARRAY_MAX_REPEAT;
        assert(t->n[queue] < FLOW_QUEUE_TASKS);
        t->words[queue][t->n[queue]++] =
            array_queue_word(bd, more ? ARRAY_MAX_REPEAT : (int) runs, token && !more);
    }
}

enum { QUEUE_BYTES = 8, TOKEN_BIT = 31 };

// The tasks with a number of so many queues in a row.
static void push_row(const struct flow * f, const struct flow_tasks * t, int queue, int queues,
                     int number) {
    uint32_t words[2 * FLOW_QUEUES];
    int n = 0;
    bool tells = false;
    for (int i = queue; i < queue + queues; i++) {
        uint32_t task = t->words[i][number];
        bool token = task >> TOKEN_BIT;
        tells |= token && i == queue;
        if (i > queue || tells) {
            words[n++] = token ? array_token_control() : 0;
        }
        words[n++] = task;
    }
    uint32_t at = addr_of(t->at, t->first + QUEUE_BYTES * (uint32_t) queue - (tells ? 4 : 0));
    if (n == 1) {
        txn_write(f->t, at, words[0]);
    } else {
        txn_block_write(f->t, at, words, (size_t) n);
    }
}

void flow_push_all(const struct flow * f, const struct flow_tasks * t) {
    for (int number = 0; number < FLOW_QUEUE_TASKS; number++) {
        for (int i = 0, n; i < FLOW_QUEUES; i += n ? n : 1) {
            for (n = 0; i + n < FLOW_QUEUES && t->n[i + n] > number; n++) {
            }
            if (n) {
                push_row(f, t, i, n, number);
            }
        }
    }
}

// ---- cores ----

void flow_go(const struct flow * f, struct flow_tile at, int lock) {
    txn_write(f->t, addr_of(at, CORE_LOCK + LOCK_BYTES * (uint32_t) lock), 1);
}

// ---- the end of a run ----

void flow_expect(const struct flow * f, int col, int channel) {
    array_token_controller(f->t, col, channel);
}

void flow_wait(const struct flow * f, int col, int channel) {
    txn_wait(f->t, col, ARRAY_ROW_SHIM, 0, channel);
}

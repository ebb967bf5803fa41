// shim: transfers between the array and host memory. A descriptor may be started only when this
// very stream wrote all of it and a patch gave it an operand's address behind the last write to
// that; then it must stay inside the operand, in the operand's direction. What an earlier dispatch
// or the PDI left in a descriptor never counts.
//
// A task that writes memory is known to be over when its token, or a later one of its channel, was
// waited for. Until then its descriptors must not change, and the stream must not end. A task that
// reads memory needs no token of its own: as every compiler for these arrays does, a SYNC that
// follows is taken as its end. It is believed and not known, so late.c sees to what the read could
// do if it were not over. Where it has a token, nobody need wait for it, unless the stream waits
// for another one of that channel.
#include "model.h"

enum { ALL_WORDS = 0xff, QUEUE_TOKEN = 31, ADDRESS_LOW = 1, ADDRESS_HIGH = 2 };

static const char by_compiler[] = "the compiler that made it must be mended";

static const char * way(int queue) {
    return queue_reads(queue) ? "MM2S" : "S2MM";
}

static int channel_of(int queue) {
    return queue % SHIM_CHANNELS;
}

// ---- descriptors ----

// Bytes that its operand may have for DMA, which moves words.
static uint64_t verify_room(const struct verifier * v, const struct binding * b) {
    uint64_t bytes = v->job->operands[b->operand].bytes;
    return bytes > UINT64_MAX - 3 ? bytes : (bytes + 3) & ~UINT64_C(3);
}

// A change of a descriptor that a queue may still use is refused; one that only a read uses, which
// is believed over, is noted.
static bool check_idle(struct verifier * v, const struct tile * t, int bd, bool * late) {
    const struct shim * s = &v->shims[t->col];
    *late = false;
    for (int q = 0; q < SHIM_QUEUES; q++) {
        const struct bd_use * use = &s->uses[bd][q];
        if (use->task <= s->queues[q].done) {
            continue;
        }
        if (!queue_reads(q) || use->syncs == v->syncs) {
            return verify_refuse(
                v, "wait for its token before",
                "descriptor %d of shim (%d,0) is changed while the task of %s%d that was "
                "started at offset 0x%x may still use it",
                bd, t->col, way(q), channel_of(q), use->offset);
        }
        *late = !v->job->own;
    }
    return true;
}

uint64_t verify_largest_room(const struct verifier * v) {
    uint64_t most = 0;
    for (int i = 0; i < v->job->n_operands; i++) {
        uint64_t room = verify_room(v, &(struct binding){true, i, 0});
        most = room > most ? room : most;
    }
    return most;
}

// The address that it holds until it is patched is 0, or the patch's offset, as some tools have it:
// whoever may read there meanwhile gets nothing of the file's choice.
static bool check_raw(struct verifier * v, const struct tile * t, int bd,
                      const uint32_t fresh[BD_WORDS]) {
    uint64_t high = bits(fresh[ADDRESS_HIGH], 15, 0), low = fresh[ADDRESS_LOW];
    return (high == 0 && (low == 0 || low < verify_largest_room(v))) ||
           verify_refuse(v, "write 0 there and have an operand's address patched in",
                         "descriptor %d of shim (%d,0) holds the address 0x%llx, which is no "
                         "operand's",
                         bd, t->col, (unsigned long long) (high << 32 | low));
}

// Checks whose memory a descriptor reaches, and that it goes in order. One that this stream never
// starts is checked too: the read of another one might use it.
static bool check_reach(struct verifier * v, const struct tile * t, int id, const struct bd * bd) {
    if (bd->secure || bd->stream_id) {
        return verify_refuse(
            v, by_compiler,
            "descriptor %d of shim (%d,0) asks for memory of others (secure %d, stream "
            "%u)",
            id, t->col, bd->secure, bd->stream_id);
    }
    if (bd->out_of_order) {
        return verify_refuse(v, by_compiler,
                             "descriptor %d of shim (%d,0) goes out of order, which is not known",
                             id, t->col);
    }
    return true;
}

bool verify_shim_block(struct verifier * v, struct tile * t, int bd,
                       const uint32_t fresh[BD_WORDS]) {
    bool late;
    struct bd what;
    verify_bd_read(TILE_SHIM, fresh, &what);
    if (!check_idle(v, t, bd, &late) || !check_raw(v, t, bd, fresh) ||
        !check_reach(v, t, bd, &what) || (late && !verify_late_block(v, t, bd, fresh))) {
        return false;
    }
    for (int i = 0; i < BD_WORDS; i++) {
        t->bds[bd][i] = fresh[i];
    }
    t->fresh[bd] = ALL_WORDS;
    v->shims[t->col].bound[bd].there = false;
    return true;
}

static bool check_fresh(struct verifier * v, const struct tile * t, int bd) {
    return t->fresh[bd] == ALL_WORDS ||
           verify_refuse(v, "write it in the stream before",
                         "descriptor %d of shim (%d,0) is used, of which this stream did not write "
                         "all words",
                         bd, t->col);
}

bool verify_shim_patch(struct verifier * v, struct tile * t, int bd, int operand, uint32_t offset) {
    if (operand >= v->job->n_operands) {
        return verify_refuse(v, "make it again with the operands of this kernel",
                             "a patch names operand %d, the kernel has %d", operand,
                             v->job->n_operands);
    }
    if (offset % 4) {
        return verify_refuse(v, by_compiler,
                             "operand %d is patched in at byte %u, which is no word", operand,
                             offset);
    }
    // Some tools leave the offset there too, and a patch takes its place.
    uint32_t low = t->bds[bd][ADDRESS_LOW], high = bits(t->bds[bd][ADDRESS_HIGH], 15, 0);
    if (high || (low && low != offset)) {
        return verify_refuse(
            v, "write 0 there",
            "operand %d is patched into descriptor %d of shim (%d,0), which holds the "
            "address 0x%llx already",
            operand, bd, t->col, (unsigned long long) high << 32 | low);
    }
    bool late;
    struct binding b = {true, operand, offset};
    if (!check_idle(v, t, bd, &late) || !check_fresh(v, t, bd)) {
        return false;
    }
    v->shims[t->col].bound[bd] = b;
    // Whoever starts it: a read that nobody knows of might.
    uint64_t end = offset + 4 * verify_bd_reach(TILE_SHIM, t->bds[bd]);
    if (end > verify_room(v, &b)) {
        return verify_refuse(
            v, "make it again for operands of these sizes",
            "descriptor %d of shim (%d,0) reaches byte %llu of operand %d, which has %llu", bd,
            t->col, (unsigned long long) end, operand,
            (unsigned long long) v->job->operands[operand].bytes);
    }
    return !late || verify_late_patch(v, t, bd);
}

// ---- tasks ----

static bool check_range(struct verifier * v, const struct tile * t, int queue, int id,
                        const struct bd * bd) {
    const struct binding * b = &v->shims[t->col].bound[id];
    const struct verify_operand * o = &v->job->operands[b->operand];
    bool reads = queue_reads(queue);
    if (!(o->access & (reads ? VERIFY_IN : VERIFY_OUT))) {
        return verify_refuse(
            v, "make it again with operands in the order of the kernel",
            "descriptor %d of shim (%d,0), started by %s%d, %s operand %d, which is %s", id, t->col,
            way(queue), channel_of(queue), reads ? "reads" : "writes", b->operand,
            reads ? "a result" : "an input");
    }
    uint64_t end = b->offset + 4 * bd->reach; // both far below 2^63
    if (end > verify_room(v, b)) {
        return verify_refuse(
            v, "make it again for operands of these sizes",
            "descriptor %d of shim (%d,0), started by %s%d, %s byte %llu of operand %d, "
            "which has %llu",
            id, t->col, way(queue), channel_of(queue), reads ? "reads up to" : "writes up to",
            (unsigned long long) end, b->operand, (unsigned long long) o->bytes);
    }
    v->written[b->operand] |= !reads;
    return true;
}

bool verify_shim_check_kind(struct verifier * v, const struct tile * t, int queue, int id,
                            const struct bd * bd) {
    if (!check_reach(v, t, id, bd)) {
        return false;
    }
    if (!bd->valid || bd->words == 0) {
        return verify_refuse(
            v, by_compiler, "%s%d of shim (%d,0) is started with descriptor %d, which is %s",
            way(queue), channel_of(queue), t->col, id, bd->valid ? "empty" : "not valid");
    }
    if (bd->run > bd->last_run) {
        return verify_refuse(v, by_compiler,
                             "descriptor %d of shim (%d,0) begins at run %u of %u: where that ends "
                             "is not known",
                             id, t->col, bd->run, bd->last_run + 1);
    }
    return true;
}

bool verify_shim_check_bd(struct verifier * v, const struct tile * t, int queue, int id,
                          struct bd * bd) {
    const struct shim * s = &v->shims[t->col];
    verify_bd_read(TILE_SHIM, t->bds[id], bd);
    if (!check_fresh(v, t, id)) {
        return false;
    }
    if (!s->bound[id].there) {
        return verify_refuse(
            v, "have an operand's address patched in",
            "%s%d of shim (%d,0) is started with descriptor %d, which holds an address "
            "that is no operand's (0x%llx)",
            way(queue), channel_of(queue), t->col, id,
            (unsigned long long) bits(t->bds[id][ADDRESS_HIGH], 15, 0) << 32 |
                t->bds[id][ADDRESS_LOW]);
    }
    return verify_shim_check_kind(v, t, queue, id, bd) && check_range(v, t, queue, id, bd);
}

// Those of reads may be left over where nobody waits for them: then they need a way out, and their
// number does not matter.
static bool owe_token(struct verifier * v, const struct tile * t, int queue) {
    struct queue * q = &v->shims[t->col].queues[queue];
    if (queue_reads(queue) && !verify_wires_token_way(v, t, queue)) {
        return verify_refuse(
            v, "name the controller before, or ask for no token",
            "a task of %s%d of shim (%d,0) reports, but its tokens have no way to the controller",
            way(queue), channel_of(queue), t->col);
    }
    if (q->n_tokens < MOST_TOKENS) {
        q->tokens[q->n_tokens++] = q->tasks;
        return true;
    }
    q->untold = true;
    return queue_reads(queue) ||
           verify_refuse(v, "wait for some before",
                         "%d tasks of %s%d of shim (%d,0) were not waited for", MOST_TOKENS,
                         way(queue), channel_of(queue), t->col);
}

bool verify_shim_push(struct verifier * v, struct tile * t, int queue, uint32_t value) {
    struct shim * s = &v->shims[t->col];
    struct queue * q = &s->queues[queue];
    if (!verify_late_settled(v)) { // a block may go on from descriptors to queues
        return false;
    }
    if (!v->in_stream) {
        return verify_refuse(
            v, "start it in the instruction stream",
            "%s%d of shim (%d,0) is started by the configuration, which has no operands",
            way(queue), channel_of(queue), t->col);
    }
    if (value & 0x7f00fff0) {
        return verify_refuse(v, by_compiler,
                             "a task of %s%d of shim (%d,0) is 0x%08x, which says nothing",
                             way(queue), channel_of(queue), t->col, value);
    }
    if (!queue_reads(queue) && !verify_wires_source(v, t, channel_of(queue))) {
        return verify_refuse(
            v, "make the PDI again",
            "S2MM%d of shim (%d,0) is started, but no stream leads there: it would never "
            "end",
            channel_of(queue), t->col);
    }
    uint32_t over = q->believed > q->done ? q->believed : q->done;
    if (q->tasks - over == QUEUE_TASKS) {
        return verify_refuse(
            v, "wait for one of them before",
            "more tasks of %s%d of shim (%d,0) than its queue holds: %d may not be "
            "over",
            way(queue), channel_of(queue), t->col, QUEUE_TASKS);
    }
    q->tasks++;
    q->last_offset = v->offset;
    uint32_t seen = 0;
    struct bd bd = {.chained = true, .next = (int) bits(value, 3, 0)};
    while (bd.chained) {
        int id = bd.next;
        if (seen >> id & 1) {
            return verify_refuse(v, by_compiler,
                                 "%s%d of shim (%d,0) is started with a chain that comes back to "
                                 "descriptor %d and never ends",
                                 way(queue), channel_of(queue), t->col, id);
        }
        if (!verify_shim_check_bd(v, t, queue, id, &bd) ||
            (queue_reads(queue) && !verify_packets_sent(v, t, channel_of(queue), id, &bd))) {
            return false;
        }
        seen |= 1u << id;
        s->uses[id][queue] = (struct bd_use){q->tasks, v->offset, v->syncs};
    }
    return !(value >> QUEUE_TOKEN) || owe_token(v, t, queue);
}

// ---- waiting ----

bool verify_shim_sync(struct verifier * v, struct tile * t, int queue) {
    struct queue * q = &v->shims[t->col].queues[queue];
    if (q->n_tokens == 0) {
        return verify_refuse(
            v, "start a task with a token before, or leave it out",
            "a SYNC waits for %s%d of shim (%d,0), of which no task reports: it can never "
            "be met",
            way(queue), channel_of(queue), t->col);
    }
    if (!verify_wires_token_way(v, t, queue)) {
        return verify_refuse(
            v, "route the column's control port to its South 0 and name the controller",
            "a SYNC waits for %s%d of shim (%d,0), whose tokens have no way to the "
            "controller: it can never be met",
            way(queue), channel_of(queue), t->col);
    }
    if (q->untold) {
        return verify_refuse(v, "wait for each token",
                             "a SYNC waits for a task of shim (%d,0), but more than %d tasks of "
                             "%s%d reported before",
                             t->col, MOST_TOKENS, way(queue), channel_of(queue));
    }
    q->waited = true;
    q->done = q->tokens[0];
    q->n_tokens--;
    for (int i = 0; i < q->n_tokens; i++) {
        q->tokens[i] = q->tokens[i + 1];
    }
    v->syncs++;
    for (int i = 0; i < v->columns * SHIM_QUEUES; i++) {
        struct queue * read = &v->shims[i / SHIM_QUEUES].queues[i % SHIM_QUEUES];
        read->believed = queue_reads(i % SHIM_QUEUES) ? read->tasks : 0;
    }
    return true;
}

static bool check_queue(struct verifier * v, int col, int queue) {
    const struct queue * q = &v->shims[col].queues[queue];
    if (q->n_tokens && (q->waited || !queue_reads(queue))) {
        return verify_refuse(
            v, "wait for each token",
            "the stream ends with %d tokens of %s%d of shim (%d,0) that were not waited "
            "for: the next dispatch would take them for its own",
            q->n_tokens, way(queue), channel_of(queue), col);
    }
    if (q->done < q->tasks && q->believed < q->tasks) {
        return verify_refuse(
            v, "wait for its token",
            "the stream ends while the task of %s%d of shim (%d,0) that was started at "
            "offset 0x%x may still %s memory",
            way(queue), channel_of(queue), col, q->last_offset,
            queue_reads(queue) ? "read" : "write");
    }
    return true;
}

bool verify_shim_end(struct verifier * v) {
    uint32_t tasks = 0;
    for (int i = 0; i < v->columns * SHIM_QUEUES; i++) {
        tasks += v->shims[i / SHIM_QUEUES].queues[i % SHIM_QUEUES].tasks;
    }
    bool ok =
        tasks || verify_refuse(v, "make it again", "the stream is empty: it starts no transfer");
    for (int i = 0; i < v->columns * SHIM_QUEUES && ok; i++) {
        ok = check_queue(v, i / SHIM_QUEUES, i % SHIM_QUEUES);
    }
    bool any = false;
    for (int i = 0; i < v->job->n_operands && ok; i++) {
        any |= v->written[i];
        if (v->job->operands[i].access == VERIFY_OUT && !v->written[i]) {
            ok = verify_refuse(v, "make it again", "the stream never writes operand %d, the result",
                               i);
        }
    }
    return ok && (any || verify_refuse(v, "make it again", "the stream writes no result"));
}

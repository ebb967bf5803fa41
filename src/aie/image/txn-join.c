// txn-join: several instruction streams as one, so that a controller need not be told of each.
// Every part finds the array as it would alone: a part ends when all its transfers are complete,
// which is looked at here by their tokens, because one that is left over would end the next part's
// wait too early.
#include "txn-beside.h"
#include "txn-early.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEADER_WORDS = 4,
    HEADER_OPERATIONS = 2,
    HEADER_BYTES = 3,
    WRITE_REGISTER = 2, // words of a write of any kind,
    WAIT_COLUMN = 2,    // of a wait,
    PATCH_REGISTER = 6, // and of an address patch
    PATCH_OPERAND = 8,
    PATCH_OFFSET = 10,
    DIRECTIONS = 2,
    CHANNELS = 2,
    WRITE_OP = 0, // what a write begins with
    WRITE_WORDS = 6,
    BLOCK_OP = 1, // what a block write begins with
    BLOCK_WORDS = 4,
    SPENT_WORD = 16, // cycles for a word of a block
};
#define ISSUES_TOKEN 0x80000000u

// What is being told, or was and is not complete: a part, or several beside each other.
struct told {
    struct beside_list list;
    size_t room, at; // at: the first command that was not looked at ahead
    bool * late;     // of each before that, whether it was; has room for so many
    uint32_t ready;  // operands, by bit; of several parts none
    struct ahead_part uses;
};

struct joiner {
    const struct txn_part * parts;
    int n_parts, n_taken; // parts, and those that were read
    int n_read, n_named;  // as they are told; n_named: with their descriptors' numbers, told or not
    bool ahead;
    struct told told[AHEAD_PARTS + 1]; // number i stands at i modulo their number
    struct told * now;                 // whose commands are written
    uint32_t * out;
    size_t n, n_ops;   // words and operations so far
    uint64_t spent;    // about the cycles that they take
    uint64_t moves_at; // the same, when what runs began
    struct txn_aim * aims;
    size_t n_aims, room;
    int tokens[AIE_MOST_COLUMNS][DIRECTIONS][CHANNELS];
    struct shim_said said;
    struct bd_state bds;
    struct ahead_part alone; // of a part that is looked at by itself
    bool known, failed;
};

// ---- tokens ----

static int * tokens_of(struct joiner * j, int col, int direction, int channel) {
    bool ok = col >= 0 && col < AIE_MOST_COLUMNS && direction < DIRECTIONS && channel < CHANNELS;
    j->known &= ok;
    return ok ? &j->tokens[col][direction][channel] : &j->tokens[0][0][0];
}

static void count_write(struct joiner * j, uint32_t addr, uint32_t value) {
    int tile = txn_tile(addr), queue = txn_queue_at(&txn_shim, txn_offset(addr));
    if (tile >= 0 && tile % AIE_ROWS == ARRAY_ROW_SHIM && queue >= 0 && value & ISSUES_TOKEN) {
        ++*tokens_of(j, tile / AIE_ROWS, queue / CHANNELS, queue % CHANNELS);
    }
}

static void count(struct joiner * j, const struct image_command * c) {
    if (c->op == IMAGE_WRITE) {
        count_write(j, c->addr, c->value);
    }
    for (uint32_t i = 0; c->op == IMAGE_BLOCK_WRITE && i < c->n_words; i++) {
        count_write(j, c->addr + 4 * i, load_u32(c->data + 4 * i));
    }
    if (c->op == IMAGE_WAIT) {
        j->known &= c->row == 0;
        --*tokens_of(j, c->col, c->direction, c->channel);
    }
}

static bool is_quiet(const struct joiner * j) {
    static const int none[AIE_MOST_COLUMNS][DIRECTIONS][CHANNELS];
    return !memcmp(j->tokens, none, sizeof none);
}

// ---- writing ----

static void aim_at(struct joiner * j, const struct image_command * c) {
    if (j->n_aims == j->room) {
        size_t room = j->room ? 2 * j->room : 64;
        struct txn_aim * more = realloc(j->aims, room * sizeof *more);
        if (!more) {
            j->failed = true;
            return;
        }
        j->aims = more;
        j->room = room;
    }
    j->known &= c->operand <= UINT16_MAX;
    j->aims[j->n_aims++] = (struct txn_aim){
        .word = (uint32_t) j->n,
        .part = j->now->list.of[c - j->now->list.ops],
        .operand = (uint16_t) c->operand,
        .byte_offset = c->byte_offset,
    };
}

// About what the controller takes, less than txn_price says, which is a bound: a budget that is not
// used up is time in which it waits.
static void spend(struct joiner * j, enum image_op op, size_t block_words) {
    enum { WRITE = 150, MASK_WRITE = 300, PATCH = 700 };
    j->spent += op == IMAGE_PATCH        ? PATCH
                : op == IMAGE_MASK_WRITE ? MASK_WRITE
                                         : WRITE + SPENT_WORD * block_words;
}

static size_t words_of(const struct image_command * c) {
    switch (c->op) {
    case IMAGE_WRITE:
        return 6;
    case IMAGE_MASK_WRITE:
        return 7;
    case IMAGE_BLOCK_WRITE:
        return BLOCK_WORDS + (size_t) c->n_words;
    case IMAGE_PATCH:
        return 12;
    default:
        return 4;
    }
}

// The operation as it stands in its part, but for the column; returns where it stands now.
static uint32_t * put(struct joiner * j, const struct image_command * c) {
    uint32_t * at = j->out + j->n;
    const struct txn_part * part = &j->parts[j->now->list.of[c - j->now->list.ops]];
    memcpy(at, part->insts + c->offset / 4, 4 * words_of(c));
    if (c->op == IMAGE_WAIT) {
        at[WAIT_COLUMN] = (at[WAIT_COLUMN] & 0xffff) | (uint32_t) c->col << 16;
    } else {
        at[c->op == IMAGE_PATCH ? PATCH_REGISTER : WRITE_REGISTER] = c->addr;
    }
    j->n += words_of(c);
    j->n_ops++;
    spend(j, c->op, c->op == IMAGE_BLOCK_WRITE ? c->n_words : 0);
    return at;
}

// ---- with other names for descriptors ----

static uint32_t renamed(const struct ahead_tile * t, uint32_t bd) {
    return t->to[bd < TXN_BDS ? bd : 0];
}

static void lead_on(const struct ahead_tile * t, const struct txn_kind * k, uint32_t * words) {
    if (txn_field(k, words, BD_CHAINED)) {
        image_bd_set(k->tile, words, BD_NEXT, renamed(t, txn_field(k, words, BD_NEXT)));
    }
}

// Descriptors that stand already are left out, and neighbours are written at once.
static void put_bds(struct joiner * j, const struct image_command * c, int tile, uint32_t n) {
    const struct txn_kind * k = txn_kind_of(tile);
    const struct ahead_tile * t = &j->now->uses.tiles[tile];
    uint32_t first = (txn_offset(c->addr) - k->bds) / IMAGE_BD_STEP, *block = NULL, next = 0;
    bool shim = k == &txn_shim, apart = 4 * k->n_words != IMAGE_BD_STEP;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t words[8], bd = renamed(t, first + i);
        memcpy(words, c->data + (size_t) (4 * k->n_words) * i, 4 * k->n_words);
        lead_on(t, k, words);
        bd_state_want(&j->bds, tile, bd);
        if (!shim && (t->stands >> (first + i) & 1 || bd_state_holds(&j->bds, tile, bd, words))) {
            continue;
        }
        uint32_t addr = (c->addr & ~0xfffffu) + k->bds + bd * IMAGE_BD_STEP;
        if (!block || apart || bd != next) {
            block = j->out + j->n;
            j->n += BLOCK_WORDS;
            j->n_ops++;
            block[0] = BLOCK_OP;
            block[1] = 0;
            block[2] = addr;
            block[3] = 4 * BLOCK_WORDS;
            spend(j, IMAGE_BLOCK_WRITE, 0);
        }
        j->spent += SPENT_WORD * k->n_words;
        memcpy(j->out + j->n, words, 4 * k->n_words);
        j->n += k->n_words;
        block[3] += 4 * k->n_words;
        next = bd + 1;
        bd_state_is_current(&j->bds, &(struct image_command){.op = IMAGE_BLOCK_WRITE,
                                                             .addr = addr,
                                                             .data = (const uint8_t *) words,
                                                             .n_words = k->n_words});
    }
}

static uint32_t task_named(const struct joiner * j, uint32_t addr, uint32_t word) {
    int tile = txn_tile(addr);
    bool task = tile >= 0 && txn_queue_at(txn_kind_of(tile), txn_offset(addr)) >= 0;
    return task ? (word & ~63u) | renamed(&j->now->uses.tiles[tile], word & 63) : word;
}

static void put_words(struct joiner * j, const struct image_command * c) {
    uint32_t * at = put(j, c);
    struct image_command told = *c;
    if (c->op == IMAGE_WRITE) {
        told.value = at[4] = task_named(j, c->addr, c->value);
    }
    for (uint32_t i = 0; c->op == IMAGE_BLOCK_WRITE && i < c->n_words; i++) {
        at[BLOCK_WORDS + i] = task_named(j, c->addr + 4 * i, at[BLOCK_WORDS + i]);
    }
    told.data = (const uint8_t *) (at + BLOCK_WORDS);
    bd_state_is_current(&j->bds, &told);
}

static void put_patch(struct joiner * j, const struct image_command * c) {
    int tile = txn_tile(c->addr);
    uint32_t bd = (txn_offset(c->addr) - SHIM_BD) / IMAGE_BD_STEP;
    aim_at(j, c);
    uint32_t * at = put(j, c);
    if (tile >= 0 && bd < txn_shim.n_bds) {
        at[PATCH_REGISTER] += (renamed(&j->now->uses.tiles[tile], bd) - bd) * IMAGE_BD_STEP;
    }
}

static void tell(struct joiner * j, const struct image_command * c) {
    int tile = c->op == IMAGE_WAIT ? -1 : txn_tile(c->addr);
    uint32_t n = c->op == IMAGE_BLOCK_WRITE && tile >= 0
                     ? txn_whole_bds(txn_kind_of(tile), txn_offset(c->addr), c->n_words)
                     : 0;
    shim_unsay(&j->said, c);
    if (n) {
        put_bds(j, c, tile, n);
    } else if (c->op == IMAGE_WRITE || c->op == IMAGE_BLOCK_WRITE) {
        put_words(j, c);
    } else if (c->op == IMAGE_PATCH) {
        put_patch(j, c);
    } else if (c->op == IMAGE_WAIT) {
        put(j, c);
    } else if (!shim_is_said(&j->said, c)) {
        bd_state_is_current(&j->bds, c);
        put(j, c);
    }
}

// Those tasks that a command pushes into some of its queues, one by one.
static void tell_tasks(struct joiner * j, const struct image_command * c, uint32_t queues) {
    const struct txn_kind * k = txn_kind_of(txn_tile(c->addr));
    uint32_t n = c->op == IMAGE_BLOCK_WRITE ? c->n_words : c->op == IMAGE_WRITE;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t addr = c->addr + 4 * i;
        uint32_t value = c->op == IMAGE_WRITE ? c->value : load_u32(c->data + 4 * i);
        int queue = txn_queue_at(k, txn_offset(addr));
        if (queue >= 0 && queues >> queue & 1) {
            const uint32_t op[WRITE_WORDS] = {
                WRITE_OP, 0, addr, 0, task_named(j, addr, value), 4 * WRITE_WORDS};
            memcpy(j->out + j->n, op, sizeof op);
            j->n += WRITE_WORDS;
            j->n_ops++;
            spend(j, IMAGE_WRITE, 0);
        }
    }
}

// ---- parts ----

static struct told * told_at(struct joiner * j, int i) {
    return &j->told[i % (AHEAD_PARTS + 1)];
}

// Room for one more; false: there is no memory.
static bool has_room(struct told * t) {
    size_t room = t->list.room;
    if (t->room == room) {
        return true;
    }
    bool * late = realloc(t->late, room * sizeof *late);
    t->late = late ? late : t->late;
    t->room = late ? room : t->room;
    return late != NULL;
}

static bool keep(void * user, const struct image_command * c) {
    struct joiner * j = user;
    if (!beside_keep(&j->now->list, c, j->n_taken) || !has_room(j->now)) {
        j->failed = true;
        return false;
    }
    count(j, c);
    return j->known;
}

// The next part is looked at, behind what is there.
static enum status read_part(struct joiner * j, struct error * err) {
    const struct txn_part * p = &j->parts[j->n_taken];
    enum status st = txn_read((const uint8_t *) p->insts, 4 * p->n_words, keep, j, err);
    if (st == ST_OK && j->failed) {
        st = error_set(err, ST_NO_MEMORY, "TXN: no memory to join streams");
    }
    if (st == ST_OK && (!j->known || !is_quiet(j) || memcmp(p->insts, j->parts[0].insts, 8))) {
        st = error_set(err, ST_UNSUPPORTED, "TXN: it leaves tokens behind, or is of another array");
    }
    return st;
}

// Those behind it that may run beside it, as many as there are columns for.
static enum status read_beside(struct joiner * j, struct error * err) {
    struct beside_list * l = &j->now->list;
    enum status st = ST_OK;
    int columns = 0;
    for (bool more = true; more && st == ST_OK;) {
        size_t from = l->n;
        int most = j->n_taken < j->n_parts ? j->parts[j->n_taken].beside : 0;
        columns = columns || !most ? columns : beside_columns(l, 0, &j->alone);
        more = most && columns;
        st = more ? read_part(j, err) : ST_OK;
        int own = more && st == ST_OK ? beside_columns(l, from, &j->alone) : 0;
        more = own && columns + own <= most;
        if (more) {
            beside_merge(l, from, columns);
            columns += own;
            j->now->ready = 0;
            j->n_taken++;
        } else { // it is read again by itself
            l->n = from;
        }
    }
    return st;
}

// What comes next is looked at.
static enum status read(struct joiner * j, struct error * err) {
    struct told * t = j->now = told_at(j, j->n_read++);
    t->list.n = t->at = 0;
    t->ready = j->parts[j->n_taken].ready;
    enum status st = read_part(j, err);
    j->n_taken++;
    if (st == ST_OK && j->ahead) {
        st = read_beside(j, err);
    }
    if (st == ST_OK) {
        ahead_scan(&t->uses, t->list.ops, t->list.n, t->ready);
        t->uses.rigid |= !j->ahead;
    }
    return st;
}

static bool is_there(const struct joiner * j, int i) {
    return i < j->n_read || j->n_taken < j->n_parts;
}

static void tell_those(struct joiner * j, struct told * t, enum ahead_when when) {
    j->now = t;
    for (size_t i = 0; i < t->at; i++) {
        const struct image_command * c = &t->list.ops[i];
        uint32_t begun = t->uses.tiles[txn_tile(c->addr)].begun;
        if (ahead_when(&t->uses, c) != when) {
            continue;
        }
        if (ahead_reached(c) & begun) {
            tell_tasks(j, c, ~begun);
        } else {
            tell(j, c);
        }
    }
}

// What of a part is not late any more, and was not told yet.
static void find_due(struct told * t) {
    for (int tile = 0; tile < TXN_TILES; tile++) {
        t->uses.tiles[tile].due = false;
    }
    for (size_t op = 0; op < t->at; op++) {
        int tile = txn_tile(t->list.ops[op].addr);
        t->uses.tiles[tile].due |=
            t->late[op] && ahead_when(&t->uses, &t->list.ops[op]) == AHEAD_NOW;
    }
}

// Reads of a part that is told, and is not running, which begin now.
static void begin_early(struct joiner * j, int runs, int i) {
    struct ahead_part * flight[AHEAD_PARTS];
    struct told * t = j->now = told_at(j, i);
    for (int f = runs; f < i; f++) {
        flight[f - runs] = &told_at(j, f)->uses;
    }
    find_due(t);
    bool any = early_begins(&t->uses, flight, i - runs);
    for (size_t op = 0; any && op < t->uses.n_told; op++) {
        tell_tasks(j, &t->list.ops[op], t->uses.tiles[txn_tile(t->list.ops[op].addr)].begins);
    }
}

static void tell_early(struct joiner * j, int runs, int next) {
    for (int i = runs + 1; i < next; i++) {
        begin_early(j, runs, i);
    }
}

static void tell_from(struct joiner * j, struct told * t, size_t from, size_t to) {
    j->now = t;
    for (size_t i = from; i < to; i++) {
        tell(j, &t->list.ops[i]);
    }
}

// Whether it can be told while those from `first` on, up to the one before it, run.
static bool fits(struct joiner * j, int first, int i) {
    struct ahead_part * flight[AHEAD_PARTS];
    struct told * t = told_at(j, i);
    if (t->uses.rigid) {
        return false;
    }
    for (int f = first; f < i; f++) {
        flight[f - first] = &told_at(j, f)->uses;
    }
    bool ok = ahead_fits(&t->uses, flight, i - first, &j->bds, t->list.ops);
    if (!ok) { // its own names again
        ahead_scan(&t->uses, t->list.ops, t->list.n, t->ready);
    }
    return ok;
}

// Cycles that a part runs at the least: its shims read a word a cycle together with each column,
// and the end of its last transfer is told as late as a wait is long. One that was read early has
// begun before that.
static uint64_t run_cycles(const struct joiner * j, const struct told * t) {
    enum { END = 10000 };
    bool begun = false;
    for (int tile = ARRAY_ROW_SHIM; tile < TXN_TILES; tile += AIE_ROWS) {
        begun |= t->uses.tiles[tile].begun != 0;
    }
    return (begun ? 0 : END) + t->uses.n_shim / (txn_header_columns(j->parts[0].insts));
}

// The last command of a part that leads words to its cores, or something else that they read: what
// stands behind it takes their results away, and is told in time when the part runs.
static size_t feeds_until(const struct told * t) {
    size_t last = 0;
    for (size_t i = 0; i < t->uses.n_told; i++) {
        last = ahead_feeds(&t->list.ops[i]) ? i + 1 : last;
    }
    return last;
}

// What was late and is not any more, while the cycles last; false: some is left, which comes before
// anything else is told ahead.
static bool tell_due(struct joiner * j, struct told * t, uint64_t * cycles) {
    j->now = t;
    for (size_t op = 0; op < t->at; op++) {
        if (!t->late[op] || ahead_when(&t->uses, &t->list.ops[op]) != AHEAD_NOW) {
            continue;
        }
        if (!*cycles) {
            return false;
        }
        uint64_t from = j->spent;
        t->late[op] = false;
        tell(j, &t->list.ops[op]);
        uint64_t took = j->spent - from;
        *cycles -= took < *cycles ? took : *cycles;
    }
    return true;
}

// Tells what a part may be told while others run, from where it was left, as long as the cycles
// last, and up to `must` anyhow.
static bool tell_now(struct joiner * j, struct told * t, uint64_t * cycles, size_t must) {
    tell_due(j, t, &(uint64_t){UINT64_MAX});
    for (; t->at < t->uses.n_told && (t->at < must || *cycles); t->at++) {
        uint64_t from = j->spent;
        t->late[t->at] = ahead_when(&t->uses, &t->list.ops[t->at]) != AHEAD_NOW;
        if (!t->late[t->at]) {
            tell(j, &t->list.ops[t->at]);
        }
        uint64_t took = j->spent - from;
        *cycles -= took < *cycles ? took : *cycles;
    }
    return t->at == t->uses.n_told;
}

// What was late for a part may be told now that one before it is complete; and what it reads early
// before that, where it is told wholly.
static bool tell_again(struct joiner * j, int runs, int next, uint64_t * cycles) {
    struct ahead_part * flight[AHEAD_PARTS + 1];
    bool all = true;
    for (int i = runs + 1; i < j->n_named && *cycles && all; i++) {
        struct told * t = told_at(j, i);
        flight[i - runs - 1] = &told_at(j, i - 1)->uses;
        ahead_fits_again(&t->uses, flight, i - runs, &j->bds, t->list.ops);
        if (i < next) {
            begin_early(j, runs, i);
        }
        all = tell_due(j, t, cycles);
    }
    return all;
}

// Parts behind one that runs, as many as are told meanwhile, the last one perhaps in part: the next
// one, and more while the controller would wait. Returns the first that was not told wholly.
static int tell_ahead(struct joiner * j, int runs, int next, enum status * st, struct error * err) {
    uint64_t cycles = run_cycles(j, told_at(j, runs)), since = j->spent - j->moves_at;
    cycles -= since < cycles ? since : cycles;
    bool all = tell_again(j, runs, next, &cycles);
    tell_early(j, runs, next);
    if (!all && next > runs + 1) {
        return next;
    }
    for (; is_there(j, next) && next - runs <= AHEAD_PARTS; next++) {
        struct told * t = told_at(j, next);
        if (next > runs + 1 && !cycles) {
            return next;
        }
        if (j->n_named <= next) {
            *st = j->n_read > next ? ST_OK : read(j, err);
            if (*st != ST_OK || !fits(j, runs, next)) {
                return next;
            }
            j->n_named = next + 1;
        }
        if (!tell_now(j, t, &cycles, next == runs + 1 ? feeds_until(t) : 0)) {
            return next;
        }
        tell_early(j, runs, next + 1);
    }
    return next;
}

// What was told of one while others ran is completed, and it runs. Where cores get their parameters
// before the tasks that fill their memory, words may be on their way before either. What was not
// looked at comes in its own order.
static void start(struct joiner * j, struct told * t) {
    tell_due(j, t, &(uint64_t){UINT64_MAX});
    tell_those(j, t, AHEAD_FIRST);
    j->moves_at = j->spent;
    tell_those(j, t, t->uses.fills_first ? AHEAD_LATER : AHEAD_MOVES);
    tell_those(j, t, t->uses.fills_first ? AHEAD_MOVES : AHEAD_LATER);
    tell_from(j, t, t->at, t->uses.n_told);
}

static enum status join(struct joiner * j, struct error * err) {
    enum status st = ST_OK;
    for (int i = 0, next = 0; is_there(j, i) && st == ST_OK; i++) {
        struct told * t = told_at(j, i);
        if (j->n_named > i) {
            start(j, t);
        } else {
            st = j->n_read > i ? ST_OK : read(j, err);
            if (st == ST_OK) {
                fits(j, i, i);
                tell_from(j, t, 0, t->uses.n_told);
                j->moves_at = j->spent;
            }
        }
        next = next > i ? next : i + 1;
        ahead_started(&t->uses);
        if (st == ST_OK && !t->uses.rigid) {
            next = tell_ahead(j, i, next, &st, err);
        }
        if (st == ST_OK) {
            tell_from(j, t, t->uses.n_told, t->list.n);
        }
        if (st == ST_OK && j->failed) {
            st = error_set(err, ST_NO_MEMORY, "TXN: no memory to join streams");
        }
    }
    return st;
}

enum status txn_join(const struct txn_part * parts, int n, bool ahead, uint32_t * out,
                     size_t * n_words, struct txn_aim ** aims, size_t * n_aims,
                     struct error * err) {
    struct joiner * j = calloc(1, sizeof *j);
    if (!j) {
        return error_set(err, ST_NO_MEMORY, "TXN: no memory for what stands in descriptors");
    }
    j->ahead = ahead;
    j->parts = parts;
    j->n_parts = n;
    j->out = out;
    j->n = HEADER_WORDS;
    j->known = true;
    enum status st = join(j, err);
    if (st == ST_OK) {
        memcpy(out, parts[0].insts, 8);
        out[HEADER_OPERATIONS] = (uint32_t) j->n_ops;
        out[HEADER_BYTES] = (uint32_t) (4 * j->n);
        *n_words = j->n;
        *aims = j->aims;
        *n_aims = j->n_aims;
    } else {
        free(j->aims);
    }
    for (int i = 0; i <= AHEAD_PARTS; i++) {
        free(j->told[i].list.ops);
        free(j->told[i].late);
        free(j->told[i].list.of);
    }
    free(j);
    return st;
}

uint32_t * txn_aim(uint32_t * insts, const struct txn_aim * aim, int operand, uint32_t byte_offset,
                   uint32_t * size) {
    uint32_t * patch = insts + aim->word;
    bool same = patch[PATCH_OPERAND] == (uint32_t) operand && patch[PATCH_OFFSET] == byte_offset;
    *size = same ? 0 : 4 * (PATCH_OFFSET - PATCH_OPERAND + 1);
    if (!same) {
        patch[PATCH_OPERAND] = (uint32_t) operand;
        patch[PATCH_OFFSET] = byte_offset;
    }
    return patch + PATCH_OPERAND;
}

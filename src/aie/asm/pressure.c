// asm/pressure: register pressure, how many registers a schedule takes. A local lives from its
// first write to its last read; trips overlap, so bundle r of the interval holds all lives that
// pass any cycle r modulo ii. Lives that would need a register where all are taken cost far more
// than long ones.
#include "modulo.h"

#include <string.h>

struct life pressure_life(const struct search * s, int l, int without) {
    const struct search_local * local = &s->locals[l];
    int written = 1 << 20, read = 1 << 20, to = -(1 << 20);
    for (int m = local->first; m < local->first + local->count; m++) {
        const struct mention * by = &s->mentions[m];
        int t = s->q->time[by->node];
        if (by->node == without || t == UNPLACED) {
            continue;
        }
        to = t + by->settles > to ? t + by->settles : to;
        read = t < read ? t : read;
        written = by->writes && t + by->arrives < written ? t + by->arrives : written;
    }
    if (written == 1 << 20) {
        written = read - s->q->p->target->load_latency; // it will come from memory
    }
    return to < 0 && read == 1 << 20 ? (struct life){0, 0} : (struct life){written, to};
}

static void count(struct search * s, enum asm_class cls, struct life life, int by) {
    for (int t = life.from, r = modulo(t, s->ii); t < life.to; t++) {
        int n = s->alive[r][cls] += (int16_t) by;
        s->crowds += by > 0 ? n == s->registers[cls] + 1 : -(n == s->registers[cls]);
        uint64_t bit = 1ull << r % 64;
        uint64_t * word = &s->full[cls][r / 64];
        *word = n >= s->registers[cls] ? *word | bit : *word & ~bit;
        word = &s->crowded[cls][r / 64];
        *word = n > s->registers[cls] ? *word | bit : *word & ~bit;
        r = r + 1 == s->ii ? 0 : r + 1;
    }
    s->work += (life.to - life.from) / 2;
}

static void pressure_reset(struct search * s) {
    memset(s->alive, 0, (size_t) s->ii * sizeof *s->alive);
    memset(s->full, 0, sizeof s->full);
    memset(s->crowded, 0, sizeof s->crowded);
    s->crowds = 0;
    for (int c = 0; c < ASM_CLASS_COUNT; c++) {
        if (s->registers[c] == 0) {
            memset(s->full[c], 0xff, sizeof s->full[c]);
        }
    }
}

int pressure_count(struct search * s) {
    long sum[ASM_CLASS_COUNT] = {0};
    bool crowded[ASM_CLASS_COUNT] = {false};
    int excess = 0;
    pressure_reset(s);
    for (int l = 0; l < s->n_locals; l++) {
        struct life life = pressure_life(s, l, -1);
        count(s, s->locals[l].cls, life, 1);
        sum[s->locals[l].cls] += life.to - life.from;
    }
    for (int c = 0; c < ASM_CLASS_COUNT; c++) {
        for (int r = 0; r < s->ii; r++) {
            crowded[c] |= s->alive[r][c] > s->registers[c];
        }
        int least = s->registers[c] ? (int) (sum[c] / s->registers[c]) + 1 - s->ii : 1;
        least = least < 1 ? 1 : least;
        excess = crowded[c] && least > excess ? least : excess;
    }
    return excess;
}

bool pressure_fit(const struct search * s) {
    // Locals that live from a bundle on, less those that do no longer; and those that live there.
    int16_t more[MODULO_MAX_II + 1][ASM_CLASS_COUNT];
    int alive[ASM_CLASS_COUNT] = {0};
    bool fit = true;
    memset(more, 0, (size_t) (s->ii + 1) * sizeof more[0]);
    for (int l = 0; l < s->n_locals; l++) {
        struct life life = pressure_life(s, l, -1);
        int length = life.to - life.from, from = modulo(life.from, s->ii), cls = s->locals[l].cls;
        if (length <= 0) {
            continue;
        }
        int rounds = length / s->ii, end = from + length % s->ii;
        bool over = end > s->ii; // it lives in the first bundle, too
        alive[cls] += rounds + over;
        more[from][cls]++;
        more[over ? end - s->ii : end][cls]--;
    }
    for (int r = 0; r < s->ii; r++) {
        for (int c = 0; c < ASM_CLASS_COUNT; c++) {
            alive[c] += more[r][c];
            fit &= alive[c] <= s->registers[c];
        }
    }
    return fit;
}

static int bits_between(const uint64_t * words, int from, int to) {
    int n = 0;
    for (int w = from / 64; from < to; w++) {
        int end = to < 64 * (w + 1) ? to : 64 * (w + 1);
        uint64_t mask = ~0ull << from % 64;
        mask &= end % 64 ? ~(~0ull << end % 64) : ~0ull;
        n += __builtin_popcountll(words[w] & mask);
        from = end;
    }
    return n;
}

// Bundles of the life that are marked.
static int marked_within(const struct search * s, const uint64_t * words, struct life life) {
    int length = life.to - life.from, from = modulo(life.from, s->ii), n = 0;
    if (length >= s->ii) {
        n = length / s->ii * bits_between(words, 0, s->ii);
        length %= s->ii;
    }
    int end = from + length;
    return end <= s->ii
               ? n + bits_between(words, from, end)
               : n + bits_between(words, from, s->ii) + bits_between(words, 0, end - s->ii);
}

// Takes the locals that node i names out of the count, as they are without it; afterwards
// pressure_cost says what they take with i at a cycle, and pressure_enter counts them again.
static void pressure_leave(struct search * s, int i) {
    struct search_node * n = &s->nodes[i];
    for (int k = 0; k < n->n_mentions; k++) {
        int l = n->mentions[k].local;
        enum asm_class cls = s->locals[l].cls;
        count(s, cls, pressure_life(s, l, -1), -1);
        n->rest[k] = pressure_life(s, l, i);
        s->work += 4 * s->locals[l].count;
    }
}

static void pressure_enter(struct search * s, int i) {
    const struct search_node * n = &s->nodes[i];
    for (int k = 0; k < n->n_mentions; k++) {
        int l = n->mentions[k].local;
        count(s, s->locals[l].cls, pressure_life(s, l, -1), 1);
        s->work += 2 * s->locals[l].count;
    }
}

// The life of a local with one that names it at a cycle, beside the rest.
static struct life with(const struct search * s, struct life rest, const struct mention * m,
                        int cycle) {
    struct life life = rest;
    if (life.from == life.to) { // nobody else is placed
        life = (struct life){m->writes ? cycle : cycle - s->q->p->target->load_latency, cycle};
    }
    life.from = m->writes && cycle < life.from ? cycle : life.from;
    life.to = cycle + m->settles > life.to ? cycle + m->settles : life.to;
    return life;
}

// Whether node i stands where something that it names has no register: where more live than there
// are, or, with what pressure_cost counts beyond its life, where all are taken.
static bool is_crowded(const struct search * s, int i) {
    const struct search_node * n = &s->nodes[i];
    for (int k = 0; k < n->n_mentions; k++) {
        const struct mention * m = &n->mentions[k];
        enum asm_class cls = s->locals[m->local].cls;
        struct life life = pressure_life(s, m->local, -1);
        struct life seen = with(s, pressure_life(s, m->local, i), m, s->q->time[i]);
        if (marked_within(s, s->crowded[cls], life) ||
            (seen.from < life.from &&
             marked_within(s, s->full[cls], (struct life){seen.from, life.from})) ||
            (seen.to > life.to &&
             marked_within(s, s->full[cls], (struct life){life.to, seen.to}))) {
            return true;
        }
    }
    return false;
}

// A bundle without a register costs as much as so many cycles of life.
enum { PRESSURE_FULL = 64 };

// *full: bundles without a register; returns the length of lives, weighted.
static int pressure_cost(const struct search * s, int i, int cycle, int * full) {
    const struct search_node * n = &s->nodes[i];
    const struct aie_target * t = s->q->p->target;
    int sum = 0;
    *full = 0;
    for (int k = 0; k < n->n_mentions; k++) {
        const struct mention * m = &n->mentions[k];
        enum asm_class cls = s->locals[m->local].cls;
        struct life life = with(s, n->rest[k], m, cycle);
        sum += t->classes[cls].weight * (life.to - life.from);
        *full += marked_within(s, s->full[cls], life);
    }
    return sum;
}

static bool improve(struct search * s, int i, bool only_full) {
    int * time = &s->q->time[i];
    const int home = *time;
    int lo = home - 2 * s->ii, hi = home + 2 * s->ii, best = home, full;
    uint8_t carrier = s->nodes[i].carrier;
    if (only_full && !is_crowded(s, i)) {
        return false; // it stands well
    }
    modulo_bounds(s, i, &lo, &hi);
    if (lo >= hi) {
        return false;
    }
    bool followed = hi < home + 2 * s->ii;
    pressure_leave(s, i);
    modulo_occupy(s, i, false);
    int least = pressure_cost(s, i, home, &full);
    least += PRESSURE_FULL * full;
    if (only_full && !full) {
        hi = lo - 1; // it stands well
    }
    for (int t = lo; t <= hi; t++) {
        int cost = pressure_cost(s, i, t, &full);
        cost += PRESSURE_FULL * full;
        // no gain, but later: makes room for what comes before to follow
        if ((cost < least || (cost == least && t > best && followed)) && modulo_fits(s, i, t)) {
            least = cost;
            best = t;
            carrier = s->nodes[i].carrier;
        }
    }
    s->work += 8 * (hi - lo + 1);
    *time = best;
    s->nodes[i].carrier = carrier;
    modulo_occupy(s, i, true);
    pressure_enter(s, i);
    return best != home;
}

static void improve_all(struct search * s, int rounds, bool only_full) {
    bool moved = true;
    for (int round = 0; moved && round < rounds && s->work < s->work_limit; round++) {
        int before = s->crowds;
        moved = false;
        for (int i = s->n - 1; i >= 0 && (!only_full || s->crowds > 0); i--) {
            moved |= s->nodes[i].n_mentions > 0 && improve(s, i, only_full);
        }
        moved &= !only_full || s->crowds < before;
    }
}

void pressure_improve(struct search * s, int rounds) {
    improve_all(s, rounds, true);
}

void pressure_shorten(struct search * s, int rounds) {
    improve_all(s, rounds, false);
}

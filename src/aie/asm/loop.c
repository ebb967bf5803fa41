// asm/loop: zero-overhead loops as they stand in the program. A loop whose trips gain from
// overlapping has a lead in, which starts trips, a repeated part, and a lead out, which ends them.
// With two trips in flight that covers all counts; the repeated part is skipped for a single trip:
//
//         lead in                                if count - 1 = 0 goto out
//         repeated part
//     out:
//         lead out
//
// With more, the body stands there once more, plain, for counts too small to fill the pipeline and
// for the remainder when the repeated part holds several trips:
//
//         if count < least goto plain            (the set-up of the loop stands in the delay slots)
//         lead in, repeated part, lead out
//         if no remainder goto end
//     plain:
//         body, as often as is left
//     end:
//
// A loop that may roll (asm.h) has neither: its repeated part runs some trips more.
//
// No other form reads or writes beyond the trips that were asked for.
#include "pipeline.h"

#include <stdlib.h>
#include <string.h>

enum {
    SCALARS = 6, // registers that counting takes
};

#define PUT(p, op, ...)                                                                            \
    asm_node_new((p), (p)->target->basic[AIE_BASIC_##op], 0,                                       \
                 (const struct asm_arg[]){__VA_ARGS__},                                            \
                 (int) (sizeof((const struct asm_arg[]){__VA_ARGS__}) / sizeof(struct asm_arg)))
#define SPECIAL(n) A_FIXED(AIE_REG(AIE_SPC, (n)))

static void set_bounds(struct asm_program * p, int first, int last) {
    asm_alone(p, PUT(p, SET, SPECIAL(AIE_SPC_LS), A_LABEL(first)));
    asm_alone(p, PUT(p, SET, SPECIAL(AIE_SPC_LE), A_LABEL(last)));
}

static void set_count(struct asm_program * p, struct asm_reg count, int more) {
    asm_alone(p, PUT(p, COUNT, SPECIAL(AIE_SPC_LC), A_REG(count), A_IMM(more)));
}

// Idle bundles until a loop of `length` bundles that begins here ends far enough from its set-up,
// the last of which was at `set_up`.
static void keep_margin(struct asm_program * p, int set_up, int length) {
    asm_idle(p, p->target->loop_distance - (p->n_bundles + length - 1 - set_up));
}

void asm_insert(struct asm_program * p, int at, int n) {
    int moved = p->n_bundles - at;
    asm_idle(p, n);
    if (!p->no_memory) {
        memmove(&p->bundles[at + n], &p->bundles[at], (size_t) moved * sizeof *p->bundles);
        for (int b = at; b < at + n; b++) {
            p->bundles[b].present = p->bundles[b].kinds = 0;
        }
    }
}

static void write_plain(struct asm_program * p, const struct asm_item * loop, struct asm_reg count,
                        const struct asm_bundle * body, int length) {
    set_bounds(p, loop->label, loop->label_end);
    set_count(p, count, 0);
    keep_margin(p, p->n_bundles - 1, length);
    p->labels[loop->label] = p->n_bundles;
    asm_append(p, body, length);
    p->labels[loop->label_end] = p->n_bundles - 1;
}

// A branch whose delay slots are bundles that are there already, not before bundle `from`.
static void branch_early(struct asm_program * p, int node, int from) {
    int at = p->n_bundles - 1 - p->target->delay_slots;
    at = at < from ? from : at;
    while (at < p->n_bundles && (p->bundles[at].present & asm_excludes(AIE_SLOT_LNG))) {
        at++;
    }
    if (at < p->n_bundles) {
        asm_put(p, at, node, p->nodes[node].op);
    } else {
        asm_alone(p, node);
    }
    asm_idle(p, p->target->delay_slots + 1 - (p->n_bundles - at));
}

// The registers between the parts of one pipelined loop.
struct counting {
    struct asm_reg count; // the author's
    struct asm_reg rest;  // trips for the plain loop; lives across the pipelined one
    struct asm_reg few;   // not zero: too few trips
    struct asm_reg turns; // times of the repeated part, less one; with several copies only
    struct asm_reg left;  // trips that these leave
};

static int free_scalars(const struct asm_program * p) {
    return __builtin_popcountll(asm_class_set(p, ASM_R) & ~p->global_taken[ASM_R]);
}

static int least_trips(const struct pipeline * q) {
    return q->stages - 1 + q->copies;
}

static void count_trips(struct asm_program * p, const struct pipeline * q, struct counting * c) {
    struct asm_reg least = asm_local(p, ASM_R), shift = asm_local(p, ASM_R);
    struct asm_reg over = asm_local(p, ASM_R), mask = asm_local(p, ASM_R);
    struct asm_item region = {.kind = ASM_ITEM_REGION, .first = p->n_nodes};
    uint64_t taken = p->global_taken[ASM_R];
    c->few = asm_global(p, ASM_R); // they are read behind the region
    PUT(p, SET_SMALL, A_REG(least), A_IMM(least_trips(q)));
    PUT(p, LESS, A_REG(c->few), A_REG(c->count), A_REG(least));
    if (q->copies > 1) {
        c->turns = asm_global(p, ASM_R);
        c->left = asm_global(p, ASM_R);
        // With only two registers for the four each is set when the last is done with.
        bool few = free_scalars(p) < 4;
        int power = __builtin_ctz((unsigned) q->copies);
        if (!few) {
            PUT(p, SET_SMALL, A_REG(shift), A_IMM(-power));
            PUT(p, SET_SMALL, A_REG(mask), A_IMM(q->copies - 1));
        }
        PUT(p, SUB, A_REG(over), A_REG(c->count), A_REG(least));
        if (few) {
            PUT(p, SET_SMALL, A_REG(shift), A_IMM(-power));
        }
        PUT(p, SHIFT_SIGNED, A_REG(c->turns), A_REG(over), A_REG(shift));
        if (few) {
            PUT(p, SET_SMALL, A_REG(mask), A_IMM(q->copies - 1));
        }
        PUT(p, AND, A_REG(c->left), A_REG(over), A_REG(mask));
    }
    region.count = p->n_nodes - region.first;
    asm_schedule_region(p, &region, false);
    p->global_taken[ASM_R] = taken;
}

// One trip or two in flight, all counts.
static void write_compact(struct asm_program * p, struct pipeline * q, struct counting * c) {
    int first = asm_label_new(p), last = asm_label_new(p), out = asm_label_new(p);
    int skip = -1, at_first = 0, at_last = 0;
    set_bounds(p, first, last);
    int set_up = p->n_bundles;
    set_count(p, c->count, 1 - q->stages);
    if (q->stages > 1) {
        struct asm_reg more = asm_local(p, ASM_R);
        p->vregs[more.id].phys = p->vregs[c->rest.id].phys;
        asm_alone(p, PUT(p, ADD_SMALL, A_REG(more), A_REG(c->count), A_IMM(-1)));
        skip = PUT(p, JUMP_IF_ZERO, A_REG(more), A_LABEL(out));
    }
    keep_margin(p, set_up, pipeline_lead_in(q) + q->copies * q->ii);
    int before = p->n_bundles;
    if (!pipeline_write(q, &at_first, &at_last)) {
        return;
    }
    if (skip >= 0) {
        // Bundles more in the lead in: what is in flight lands earlier, which nothing minds.
        int lead_in = at_first - before,
            idle = lead_in < p->target->delay_slots ? p->target->delay_slots - lead_in : 0;
        asm_insert(p, at_first, idle);
        int at = at_first + idle - p->target->delay_slots;
        asm_insert(p, at, 1);
        asm_put(p, at, skip, p->nodes[skip].op);
        at_first += idle + 1;
        at_last += idle + 1;
    }
    p->labels[first] = at_first;
    p->labels[last] = at_last;
    p->labels[out] = at_last + 1;
}

static void write_pipelined(struct asm_program * p, struct pipeline * q, struct counting * c,
                            int plain, int end) {
    bool rests = q->copies > 1;
    int first = asm_label_new(p), last = asm_label_new(p), at_first = 0, at_last = 0;
    count_trips(p, q, c);
    int jump = p->n_bundles;
    asm_alone(p, PUT(p, JUMP_IF_NONZERO, A_REG(c->few), A_LABEL(plain)));
    if (rests) {
        asm_alone(p, PUT(p, COPY, A_REG(c->rest), A_REG(c->count)));
    }
    set_bounds(p, first, last);
    int set_up = p->n_bundles;
    set_count(p, rests ? c->turns : c->count, rests ? 1 : 1 - q->stages);
    asm_idle(p, p->target->delay_slots + 1 - (p->n_bundles - jump));
    if (rests) { // behind the delay slots: the plain loop alone takes all
        asm_alone(p, PUT(p, COPY, A_REG(c->rest), A_REG(c->left)));
    }
    keep_margin(p, set_up, pipeline_lead_in(q) + q->copies * q->ii);
    if (!pipeline_write(q, &at_first, &at_last)) {
        return;
    }
    p->labels[first] = at_first;
    p->labels[last] = at_last;
    branch_early(
        p, rests ? PUT(p, JUMP_IF_ZERO, A_REG(c->rest), A_LABEL(end)) : PUT(p, JUMP, A_LABEL(end)),
        at_last + 1);
}

// ---- loops that roll ----

static bool moves(const struct asm_program * p, const struct asm_node * n) {
    const struct aie_instr * instr = asm_instr(p, n->op);
    return n->n_args == 2 && !instr->loads && !instr->stores && n->args[0].kind == ASM_ARG_REG &&
           n->args[1].kind == ASM_ARG_IMM && p->vregs[n->args[0].reg.id].cls == ASM_P &&
           instr->operands[0].role == (AIE_DEF | AIE_USE);
}

// By how much the region moves each pointer in a trip, by register: so many.
enum { MOST_MOVED = 8 };
struct steps {
    int pointer[MOST_MOVED];
    int32_t step[MOST_MOVED];
    int n;
};

static bool find_steps(const struct asm_program * p, const struct asm_item * region,
                       struct steps * s) {
    s->n = 0;
    for (int i = region->first; i < region->first + region->count; i++) {
        if (moves(p, &p->nodes[i])) {
            if (s->n == MOST_MOVED) {
                return false;
            }
            s->pointer[s->n] = p->nodes[i].args[0].reg.id;
            s->step[s->n++] = p->nodes[i].args[1].value;
        }
    }
    return true;
}

static int32_t step_of(const struct steps * s, int pointer) {
    int32_t step = 0;
    for (int i = 0; i < s->n; i++) {
        step += s->pointer[i] == pointer ? s->step[i] : 0;
    }
    return step;
}

// How many trips may be in flight for the margins of what one of them reads or writes.
static int most_in_flight(const struct asm_program * p, const struct steps * s,
                          const struct asm_node * n) {
    const struct aie_instr * instr = asm_instr(p, n->op);
    for (int k = 0; k < n->n_args; k++) {
        int id = n->args[k].reg.id;
        int32_t step =
            n->args[k].kind == ASM_ARG_REG && p->vregs[id].cls == ASM_P ? step_of(s, id) : 0;
        if (step) {
            return 1 + p->memories[n->memory % ASM_MIRROR].margin / (step < 0 ? -step : step);
        }
    }
    return instr->stores && !(p->spills && n->memory == p->spill_memory) ? 0 : PIPELINE_MAX_STAGES;
}

// How many trips may be in flight where the loop rolls; 0 = it cannot.
static int may_roll(const struct asm_program * p, const struct asm_item * region) {
    struct steps steps;
    int most = find_steps(p, region, &steps) ? PIPELINE_MAX_STAGES : 0;
    for (int i = region->first; most && i < region->first + region->count; i++) {
        const struct asm_node * n = &p->nodes[i];
        const struct aie_instr * instr = asm_instr(p, n->op);
        for (int k = 0; k < n->n_args; k++) {
            bool stays = n->args[k].kind == ASM_ARG_FIXED ||
                         (n->args[k].kind == ASM_ARG_REG && p->vregs[n->args[k].reg.id].global);
            if (stays && (instr->operands[k].role & AIE_DEF) && !moves(p, n)) {
                return 0;
            }
        }
        int here = instr->loads || instr->stores ? most_in_flight(p, &steps, n) : most;
        most = here < most ? here : most;
    }
    return most;
}

// Pointers as they would be had the trips before the first one moved them.
static void set_back(struct asm_program * p, const struct pipeline * q) {
    for (int i = 0; i < q->deps.count; i++) {
        struct asm_node n = p->nodes[q->deps.first + i];
        int32_t left = -(q->time[i] / q->ii) * (moves(p, &n) ? n.args[1].value : 0);
        while (left) {
            int32_t step = left;
            while (!aie_operand_fits(p->isa, n.op, 1, step)) {
                step = step / 2 / 4 * 4;
            }
            n.args[1].value = step;
            asm_alone(p, asm_node_copy(p, &n));
            left -= step;
        }
    }
}

static void write_rolling(struct asm_program * p, struct pipeline * q, struct asm_reg count) {
    int first = asm_label_new(p), last = asm_label_new(p), at_first = 0, at_last = 0, landing = 0;
    set_back(p, q);
    set_bounds(p, first, last);
    set_count(p, count, q->stages - 1);
    keep_margin(p, p->n_bundles - 1, q->ii);
    if (pipeline_write_rolling(q, &at_first, &at_last, &landing)) {
        p->labels[first] = at_first;
        p->labels[last] = at_last;
        asm_idle(p, landing);
    }
}

struct asm_known * asm_known_of(struct asm_program * p, int n, int least, int plain) {
    enum { MAX = sizeof p->known / sizeof p->known[0] };
    for (int i = 0; i < p->n_known && i < MAX; i++) {
        struct asm_known * k = &p->known[i];
        if (k->n == n && k->least == least && k->plain == plain) {
            return k;
        }
    }
    struct asm_known * k = &p->known[p->n_known++ % MAX];
    *k = (struct asm_known){.n = n, .least = least, .plain = plain};
    return k;
}

static void note(struct asm_program * p, const struct pipeline * q, bool pipelined, int ops,
                 int start, int length) {
    struct asm_stats * s = &p->stats;
    int n = s->n_loops;
    if (n < ASM_STATS_LOOPS) {
        s->loop_ops[n] = ops;
        s->loop_bundles[n] = length;
        s->loop_ii[n] = pipelined ? q->ii : length;
        s->loop_stages[n] = pipelined ? q->stages : 1;
        s->loop_unroll[n] = pipelined ? q->copies : 1;
        s->loop_resource_ii[n] = q->resource_ii;
        s->loop_recurrence_ii[n] = q->recurrence_ii;
        s->loop_register_ii[n] = q->register_ii;
        s->loop_life_ii[n] = q->life_ii;
        s->loop_rolls[n] = q->rolling > 0;
        s->loop_untuned[n] = q->untuned;
        p->loop_spans[n].first = start;
        p->loop_spans[n].end = p->n_bundles;
        s->n_loops++;
    }
}

// One trip by itself; NULL when that cannot be.
static struct asm_bundle * schedule_body(struct asm_program * p, struct asm_item * region,
                                         int * length) {
    int start = p->n_bundles;
    struct asm_bundle * body = NULL;
    if (asm_schedule_region(p, region, true)) {
        *length = p->n_bundles - start;
        body = malloc((size_t) *length * sizeof *body);
        p->no_memory |= !body;
    }
    if (body) {
        memcpy(body, p->bundles + start, (size_t) *length * sizeof *body);
    }
    p->n_bundles = start;
    return body;
}

// How its trips overlap; length 0: if that is known.
static bool find_pipeline(struct asm_program * p, const struct asm_item * loop,
                          const struct asm_item * region, int length, struct pipeline * q) {
    // short ones gain more from several registers for a value than they take room
    int rolling = loop->rolls && region->count > ASM_FEW ? may_roll(p, region) : 0;
    pipeline_free(q);
    if (loop->interval) {
        p->late = loop->late;
        bool taken = pipeline_take(q, p, region, loop->interval);
        p->late = false;
        q->rolling = taken && q->copies == 1 && q->stages <= rolling ? rolling : 0;
        return taken;
    }
    if (rolling > 1) {
        p->late = loop->late;
        bool found = pipeline_find(q, p, region, length, rolling);
        p->late = false;
        if (found) {
            return true;
        }
        if (q->wanted) { // before another form of it is taken
            return false;
        }
    }
    bool untuned = q->untuned; // in its better form
    pipeline_free(q);
    bool found = pipeline_find(q, p, region, length, 0);
    q->untuned |= untuned;
    return found;
}

static void lay_out(struct asm_program * p, struct asm_item * loop, struct asm_item * region) {
    int start = p->n_bundles, length = 0;
    struct asm_bundle * body = NULL;
    struct counting c = {.count = p->nodes[loop->first].args[1].reg};
    struct pipeline q = {0};
    uint64_t taken = p->global_taken[ASM_R];
    bool may = !loop->plain && free_scalars(p) >= SCALARS;
    if (may) {
        c.rest = asm_global(p, ASM_R);
    }
    bool pipelined = may && !loop->interval && find_pipeline(p, loop, region, 0, &q);
    if (pipelined && (q.rolling || pipeline_covers_all(&q)) && !p->trace) {
        length = q.plain; // the body will not stand there
    } else {
        // registers for the count are the pipelined loop's
        uint64_t with_rest = p->global_taken[ASM_R];
        p->global_taken[ASM_R] = taken;
        region->window = q.window ? q.window : region->window;
        body = schedule_body(p, region, &length);
        p->global_taken[ASM_R] = with_rest;
        if (!body) {
            pipeline_free(&q);
            return;
        }
        pipelined = pipelined || (may && !q.hopeless && find_pipeline(p, loop, region, length, &q));
    }
    asm_trace_loop(p, region, pipelined ? &q : NULL);
    int plain = asm_label_new(p), end = asm_label_new(p);
    if (pipelined && q.rolling) {
        write_rolling(p, &q, c.count);
        p->labels[plain] = p->labels[loop->label] = p->labels[loop->label_end] = start; // not named
        loop->extra = p->n_bundles - start - length;
    } else if (pipelined && pipeline_covers_all(&q) &&
               !(loop->late && loop->interval)) { // a late one bears no other bundles
        write_compact(p, &q, &c);
        p->labels[plain] = p->labels[loop->label] = p->labels[loop->label_end] = start; // not named
        loop->extra = p->n_bundles - start - length;
    } else {
        if (pipelined) {
            write_pipelined(p, &q, &c, plain, end);
        }
        loop->extra = p->n_bundles - start;
        p->labels[plain] = p->n_bundles;
        write_plain(p, loop, pipelined && q.copies > 1 ? c.rest : c.count, body, length);
    }
    p->labels[end] = p->n_bundles;
    p->global_taken[ASM_R] = taken;
    note(p, &q, pipelined, region->count, start, length);
    asm_flow_free(loop->flow);
    loop->flow = q.flow;
    q.flow = NULL;
    pipeline_free(&q);
    free(body);
}

void asm_lay_out_loop(struct asm_program * p, struct asm_item * loop, struct asm_item * region) {
    uint64_t taken = p->global_taken[ASM_P];
    if (loop->interval) {
        lay_out(p, loop, region);
        return;
    }
    struct asm_item near = asm_add_base_pointers(p, region);
    asm_trace_bases(p, region, &near);
    lay_out(p, loop, &near);
    region->window = near.window;
    p->global_taken[ASM_P] = taken;
}

// core-turns: executes the steps of a hot loop; see core-turns.h.
#include "emu/aie/core-turns.h"

#include "emu/aie/core-access.h"
#include "emu/aie/core-flight.h"

// Turns of a loop after which a plan is worth making: that costs about what these cost.
enum { HOT = 1024 };

// ---- steps ----

// asked: the banks that the loads of this bundle have asked for, where nobody else asks for any.
static inline void load(struct core * c, const struct core_step * s, uint32_t addr, uint32_t bytes,
                        uint32_t * asked) {
    if (s->shares_banks) {
        ask_banks(c, addr, bytes, 0);
    } else if (c->env.bank_bit) {
        uint32_t mask = bank_mask(c->env.bank_bit, addr, bytes);
        c->bank_hits[addr >> 14 & 15] += mask & (mask - 1) ? 2 : 1;
        if (mask & *asked) {
            stall(c, 1);
            c->bank_stalls++;
        }
        *asked = mask;
    }
    memcpy(c->regs + s->to, locate_unasked(c, s->op, addr, bytes), bytes); // it finds something
}

static inline uint32_t pointer_moves(struct core * c, const struct core_step * s, uint32_t by) {
    uint32_t p = reg_u32(c, s->ptr);
    reg_put_u32(c, s->ptr, p + by);
    return p;
}

// As it would have gone: the sources are what they were at issue.
CORE_COLD static void mac_by_rule(struct core * c, const struct core_step * s, const uint8_t * x,
                                  const uint8_t * y) {
    if (s->ago == 0) {
        core_issue_mac(c, s->op);
        return;
    }
    struct core_late l = {.op = s->op, .issued = c->cycle - s->ago, .stage = 1};
    const struct core_in * first = &s->op->in[s->op->n_fixed_in];
    memcpy(l.data + first[0].capture, x, s->op->mac.bytes);
    memcpy(l.data + first[1].capture, y, s->op->mac.bytes);
    memcpy(l.data + first[2].capture, c->regs + s->conf, 4);
    core_execute(c, s->op, &l);
}

static inline void mac(struct core * c, const struct core_step * s, const uint8_t * x,
                       const uint8_t * y) {
    const uint8_t * acc = c->regs + s->acc;
    const struct core_in * in = &s->op->mac.acc;
    if (c->due[(c->cycle + 1) % RING].bypass && in->bypass) {
        acc = read_bypassed(c, in->offset, in->size, in->bypass, c->scratch[0]);
    }
    uint32_t conf;
    memcpy(&conf, c->regs + s->conf, 4);
    if (c->env.ieee || !s->mac(c->regs + s->to, acc, x, y, conf)) {
        mac_by_rule(c, s, x, y);
    }
}

static inline uint8_t (*held_by(struct core * c, const struct core_step * s))[128] {
    return c->held[(c->cycle - s->ago) % RING];
}

static inline void hold(struct core * c, const struct core_step * s) {
    uint8_t(*to)[128] = c->held[c->cycle % RING];
    if (s->op->mac.bytes == 64) {
        memcpy(to[0], c->regs + s->x, 64);
        memcpy(to[1], c->regs + s->y, 64);
    } else {
        memcpy(to[0], c->regs + s->x, 128);
        memcpy(to[1], c->regs + s->y, 128);
    }
}

static inline void single_via(struct core * c, const struct core_step * s) {
    _Alignas(64) uint8_t made[256];
    execute_single(c, s->op, made);
    memcpy(c->regs + s->to, made, s->op->out[0].span.size);
}

// Neither results nor late sources in the next cycle.
static inline bool nothing_lands(const struct core * c) {
    uint64_t due;
    memcpy(&due, &c->due[(c->cycle + 1) % RING], sizeof due);
    return (due | c->n_write1) == 0;
}
_Static_assert(sizeof(struct core_due) == sizeof(uint64_t), "looked at in one go");

// After a fault: in the bundle that is being executed.
CORE_COLD static int stop(struct core * c, const struct core_step * s, int bundles) {
    while (s->kind != STEP_CYCLE && s->kind != STEP_END) {
        s++;
    }
    c->pc = s->to;
    return bundles;
}

// The end of a cycle: -1, or where it faulted how many steps behind this one the core stops.
static inline int end_cycle(struct core * c) {
    stall_at_banks(c);
    if (nothing_lands(c) && !c->faulted) {
        c->cycle++;
        return -1;
    }
    tick(c);
    if (c->faulted) {
        return 0;
    }
    if (c->due[c->cycle % RING].lates) {
        core_run_late(c, (int) (c->cycle % RING));
    }
    return c->faulted ? 1 : -1;
}

#define LOADS(name, at)                                                                            \
    case STEP_##name##_32:                                                                         \
        load(c, s, at, 32, &asked);                                                                \
        break;                                                                                     \
    case STEP_##name##_64:                                                                         \
        load(c, s, at, 64, &asked);                                                                \
        break;

// Returns at the end of the list, or when the core has faulted; the bundles that it has executed.
static int execute(struct core * c, const struct core_step * s) {
    int bundles = 0;
    int fault;
    uint32_t asked = 0;
    for (;; s++) {
        switch ((enum core_step_kind) s->kind) {
        case STEP_ISSUE:
            s->op->issue(c, s->op);
            break;
            LOADS(LOAD, (reg_u32(c, s->ptr) + (uint32_t) (int32_t) s->imm) & 0xfffff)
            LOADS(POST, pointer_moves(c, s, (uint32_t) (int32_t) s->imm))
            LOADS(MOVE, pointer_moves(c, s, reg_u32(c, s->mod)))
            LOADS(WALK, address(c, s->op))
        case STEP_MAC:
            mac(c, s, c->regs + s->x, c->regs + s->y);
            if (c->faulted) { // before its cycle's bundle issues
                return stop(c, s, bundles);
            }
            break;
        case STEP_HOLD:
            hold(c, s);
            break;
        case STEP_HELD:
            mac(c, s, held_by(c, s)[0], held_by(c, s)[1]);
            if (c->faulted) {
                return stop(c, s, bundles);
            }
            break;
        case STEP_SINGLE:
            execute_single(c, s->op, c->regs + s->to);
            break;
        case STEP_SINGLE_VIA:
            single_via(c, s);
            break;
        case STEP_STORES:
            if (c->due[c->cycle % RING].stores) {
                core_stores_flush(c, (int) (c->cycle % RING));
            }
            break;
        case STEP_CYCLE:
            bundles++;
            asked = 0;
            fault = end_cycle(c);
            if (fault >= 0) {
                return stop(c, s + fault, bundles);
            }
            break;
        case STEP_END:
            stall_at_banks(c);
            tick(c);
            c->pc = s->to; // for a fault
            return bundles + 1;
        }
    }
}

// ---- the loop ----

// Whether the core stands at the beginning of so many turns, with nothing about them that the plan
// has not thought of.
static bool fits(const struct core * c, const struct core_turns * t, uint64_t limit) {
    return reg_u32(c, AIE_UNIT_SPC + AIE_SPC_LS) == t->first &&
           reg_u32(c, AIE_UNIT_SPC + AIE_SPC_LE) == t->last &&
           reg_u32(c, AIE_UNIT_SPC + AIE_SPC_LC) >= t->turns && c->delay == 0 &&
           (c->loop_setup == 0 ||
            c->cycle + t->bundles / t->turns - 1 - c->loop_setup >= c->traits->loop_distance) &&
           core_now(c) + 3 * (uint64_t) t->bundles <= limit; // two stalls to each, at most
}

static bool nothing_in_flight(const struct core * c) {
    uint64_t any = 0;
    for (int i = 0; i < RING; i++) {
        uint64_t due;
        memcpy(&due, &c->due[i], sizeof due);
        any |= due;
    }
    return any == 0;
}

bool core_turns_run(struct core * c, const struct core_turns * t, uint64_t pause, uint64_t limit) {
    bool linked = nothing_in_flight(c), ran = false;
    while (core_now(c) <= pause && fits(c, t, limit)) {
        if (ran && c->due[c->cycle % RING].lates) {
            core_run_late(c, (int) (c->cycle % RING));
            if (c->faulted) {
                return true;
            }
        }
        int bundles = execute(c, linked ? t->linked : t->cold);
        c->bundles += (uint64_t) bundles;
        if (c->faulted) {
            return true;
        }
        uint32_t left = reg_u32(c, AIE_UNIT_SPC + AIE_SPC_LC) - t->turns;
        reg_put_u32(c, AIE_UNIT_SPC + AIE_SPC_LC, left);
        c->pc = left ? t->first : t->next;
        linked = ran = true;
        if (left == 0) {
            break;
        }
    }
    return ran;
}

void core_turns_count(struct core * c, const struct core_bundle * last, uint32_t ls) {
    struct core_bundle * first =
        atomic_load_explicit(&c->code->map[ls / 2 % (CORE_PM_BYTES / 2)], memory_order_acquire);
    unsigned hot = c->env.hot ? c->env.hot : HOT;
    if (first == NULL || atomic_load_explicit(&first->seen, memory_order_relaxed) >= hot ||
        atomic_fetch_add_explicit(&first->seen, 1, memory_order_relaxed) != hot - 1) {
        return;
    }
    struct core_turns * turns = core_turns_plan(c, first, last);
    if (turns) {
        core_code_add_turns(c->cache, c->code, first, turns, turns->bytes);
    }
}

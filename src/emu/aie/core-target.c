// core-target: what the rows of a target make of each of its opcodes, once for all cores.
//
// Kept true: an exact name counts before a beginning, a longer beginning before a shorter one; a
// row that names no instruction is a mistake in the table and ends the process (a test looks).
#include "emu/aie/core-target.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPS = 1024 };

static const struct core_target * const targets[AIE_ARCH_COUNT] = {
    [AIE_ARCH_AIE2] = &core_target_aie2,
    [AIE_ARCH_AIE2P] = &core_target_aie2p,
};

static struct core_meaning meanings[AIE_ARCH_COUNT][MAX_OPS];
static uint8_t lengths[AIE_ARCH_COUNT][MAX_OPS]; // of the name that the meaning came from

// Puts the meaning where the name says; the short way of a mac only adds to what is there.
static void place(enum aie_arch arch, const char * name, const struct core_meaning * meaning) {
    const struct aie_isa * isa = aie_isa_get(arch);
    size_t length = strlen(name);
    bool begins = length && name[length - 1] == '*', found = false;
    for (int op = 0; op < aie_isa_count(isa) && op < MAX_OPS; op++) {
        const char * record = aie_isa_instr(isa, op)->name;
        if (begins ? strncmp(record, name, length - 1) != 0 : strcmp(record, name) != 0) {
            continue;
        }
        found = true;
        size_t rank = begins ? length - 1 : UINT8_MAX;
        if (meaning->mac) {
            meanings[arch][op].mac = meaning->mac;
        } else if (rank >= lengths[arch][op]) {
            lengths[arch][op] = (uint8_t) rank;
            meanings[arch][op] = *meaning;
        }
    }
    if (!found) {
        fprintf(stderr, "core: the table of meanings names %s, which is no instruction\n", name);
        abort();
    }
}

static void build(enum aie_arch arch) {
    const struct core_target * t = targets[arch];
    for (int i = 0; i < t->n_rows; i++) {
        const struct core_row * r = &t->rows[i];
        place(arch, r->name,
              &(struct core_meaning){.family = r->family, .what = r->what, .part = r->part});
    }
    for (int f = 0; t->families[f]; f++) {
        for (int i = 0; i < t->families[f]->count; i++) {
            const struct core_semantic * r = &t->families[f]->rows[i];
            place(arch, r->name, &(struct core_meaning){.family = CORE_LANES, .fn = r->fn});
        }
    }
    for (int i = 0; i < t->n_macs; i++) {
        place(arch, t->macs[i].name, &(struct core_meaning){.mac = t->macs[i].fn});
    }
}

static void build_aie2(void) {
    build(AIE_ARCH_AIE2);
}

static void build_aie2p(void) {
    build(AIE_ARCH_AIE2P);
}

const struct core_target * core_target_of(enum aie_arch arch) {
    static pthread_once_t aie2 = PTHREAD_ONCE_INIT, aie2p = PTHREAD_ONCE_INIT;
    switch (arch) {
    case AIE_ARCH_AIE2:
        pthread_once(&aie2, build_aie2);
        return targets[arch];
    case AIE_ARCH_AIE2P:
        pthread_once(&aie2p, build_aie2p);
        return targets[arch];
    default:
        return NULL;
    }
}

const struct core_meaning * core_meaning_of(const struct core_target * target, int op) {
    const struct core_meaning * m = &meanings[target->arch][op];
    return m->family == CORE_UNKNOWN ? NULL : m;
}

const char * core_refusal_of(const struct core_target * target, const char * name) {
    for (int i = 0; i < target->n_refusals; i++) {
        if (strstr(name, target->refusals[i].name)) {
            return target->refusals[i].why;
        }
    }
    return "what it does with these operands is not known";
}

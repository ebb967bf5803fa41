// inspect-code: core programs as assembly. Bytes that are no instruction are shown as bytes with
// the reason, and the listing goes on behind them: data may lie among code.
#include "inspect.h"

#include "kernel/kernel.h"

#include <string.h>

static size_t without_zeros(const uint8_t * code, size_t size) {
    while (size && code[size - 1] == 0) {
        size--;
    }
    return size;
}

// ---- which instruction set ----

struct tally {
    size_t bundles, bad;
};

// The vendor's linker writes functions one by one and fills the last word of each up with what it
// has at hand: two bytes before another write, or before nothing, that are no bundle.
static bool is_filling(const struct aie_isa * isa, const struct stats_program * p, size_t at,
                       size_t end) {
    struct aie_bundle bundle;
    bool last = end - at <= 2 || p->mark[at / 2 + 1] == STATS_BEGINS;
    return last && end - at >= 2 && aie_bundle_decode(isa, p->code + at, 2, &bundle, NULL) != ST_OK;
}

// Counts from the start of a written range to its end, which is returned. Zeros behind the last
// byte are no bundles.
static size_t tally_range(const struct aie_isa * isa, const struct stats_program * p, size_t at,
                          struct tally * t) {
    size_t end = at;
    while (end < p->size && p->mark[end / 2] != STATS_UNWRITTEN) {
        end += 2;
    }
    end = end < p->size ? end : p->size;
    size_t used = at + without_zeros(p->code + at, end - at);
    while (at < used) {
        struct aie_bundle bundle;
        if (is_filling(isa, p, at, end)) {
            at += 2;
            continue;
        }
        bool good = aie_bundle_decode(isa, p->code + at, end - at, &bundle, NULL) == ST_OK;
        t->bundles++;
        t->bad += !good;
        at += good ? bundle.size : (size_t) aie_bundle_size(isa, p->code[at]);
    }
    return end;
}

static struct tally tally_programs(enum aie_arch arch, const struct stats * s) {
    struct tally t = {0};
    for (int i = 0; i < s->n; i++) {
        const struct stats_program * p = &s->programs[i];
        for (size_t at = 0; at < p->size;) {
            at = p->mark[at / 2] ? tally_range(aie_isa_get(arch), p, at, &t) : at + 2;
        }
    }
    return t;
}

bool code_find_arch(const struct stats * s, enum aie_arch * out, struct buf * b) {
    struct tally t[AIE_ARCH_COUNT];
    int all = 0, best = 0;
    for (int i = 0; i < AIE_ARCH_COUNT; i++) {
        t[i] = tally_programs((enum aie_arch) i, s);
        all += t[i].bad == 0;
        best = t[i].bad * t[best].bundles < t[best].bad * t[i].bundles ? i : best;
    }
    if (t[best].bundles == 0) {
        return false; // no programs
    }
    *out = (enum aie_arch) best;
    bool found = t[best].bad <= t[best].bundles / 8;
    if (all > 1) {
        buf_printf(b,
                   "  programs may be of more than one kind, shown as %s:", kernel_arch_name(*out));
    } else {
        buf_printf(b, "  programs are %s:", found ? kernel_arch_name(*out) : "of no known kind");
    }
    for (int i = 0; i < AIE_ARCH_COUNT; i++) {
        buf_printf(b, "%s as %s %zu of %zu bundles decode", i ? "," : "",
                   kernel_arch_name((enum aie_arch) i), t[i].bundles - t[i].bad, t[i].bundles);
    }
    buf_printf(b, "\n");
    return found;
}

// ---- listing ----

// A line of bytes that are no instruction.
static void print_bytes(const uint8_t * code, size_t n, const char * reason, struct buf * b) {
    buf_printf(b, ".byte");
    for (size_t i = 0; i < n; i++) {
        buf_printf(b, " %02x", code[i]);
    }
    buf_printf(b, "%s%s\n", *reason ? "  // " : "", reason);
}

void code_print(enum aie_arch arch, uint32_t address, const uint8_t * code, size_t size,
                struct buf * b) {
    const struct aie_isa * isa = aie_isa_get(arch);
    size_t used = without_zeros(code, size), at = 0;
    while (at < used) {
        struct aie_bundle bundle;
        struct error err = {.text = ""};
        size_t n = size - at < AIE_MAX_BUNDLE_BYTES ? size - at : AIE_MAX_BUNDLE_BYTES;
        buf_printf(b, "    %04zx: ", address + at);
        if (aie_bundle_decode(isa, code + at, size - at, &bundle, &err) == ST_OK) {
            aie_bundle_print(isa, &bundle, b);
            buf_printf(b, "\n");
            n = bundle.size;
        } else {
            if ((size_t) aie_bundle_size(isa, code[at]) < n) {
                n = (size_t) aie_bundle_size(isa, code[at]);
            }
            print_bytes(code + at, n, err.text, b);
        }
        at += n;
    }
    if (at < size) {
        buf_printf(b, "    %04zx: %zu bytes of zeros\n", address + at, size - at);
    }
}

// bench-report: what a kernel took beside what bounds it, for people and as JSON. With two kernels
// the second stands beside the first, and whether they gave the same.
#include "bench.h"

#include "aie/target/target.h"
#include "base/json.h"
#include "base/runs.h"
#include "probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// ---- bounds ----

int bench_columns(const struct kernel_spec * spec) {
    return spec->columns ? spec->columns : aie_target(spec->arch)->columns;
}

// From the shapes of its MAC instructions; where bf16 has none for matrices, a product for each
// lane of an accumulator.
int bench_macs(const struct kernel_spec * spec) {
    const struct aie_target * target = aie_target(spec->arch);
    const enum dtype t = spec->inputs[0].dtype;
    const bool shared = spec->op == KERNEL_OP_MUL_MAT_SHARED;
    const struct aie_mac none = {0}, mac = shared            ? target->mac_block
                                           : t == DTYPE_BF16 ? target->mac_bf16
                                           : t == DTYPE_I8   ? target->mac_i8
                                           : t == DTYPE_I16  ? target->mac_i16
                                                             : none;
    bool by_lanes = t == DTYPE_BF16 && !shared && !mac.m;
    return by_lanes ? BENCH_LANES : mac.m * mac.k * mac.n;
}

static uint64_t divide_up(uint64_t a, uint64_t b) {
    return b ? (a + b - 1) / b : 0;
}

static uint64_t bytes_in(const struct kernel_spec * s) {
    uint64_t sum = 0;
    for (int i = 0; i < s->n_inputs; i++) {
        sum += (uint64_t) tensor_bytes(&s->inputs[i]);
    }
    return sum;
}

// Every operand passes the shim once.
uint64_t bench_bound(const struct bench_task * t, const char ** what) {
    const uint64_t words_a_cycle =
        (uint64_t) (bench_columns(&t->spec) * BENCH_CHANNELS) * t->clock.stream_words;
    const uint64_t in = bytes_in(&t->spec), out = (uint64_t) tensor_bytes(&t->spec.output);
    const uint64_t macs =
        (uint64_t) bench_macs(&t->spec) * BENCH_ROWS * (uint64_t) bench_columns(&t->spec);
    const struct {
        const char * what;
        uint64_t cycles;
    } bounds[] = {
        {"streams in", divide_up(divide_up(in, 4), words_a_cycle)},
        {"streams out", divide_up(divide_up(out, 4), words_a_cycle)},
        {"DDR reads", divide_up(in * 1000, t->clock.ddr_read)},
        {"DDR writes", divide_up(out * 1000, t->clock.ddr_write)},
        {"DDR", divide_up((in + out) * 1000, t->clock.ddr_both)},
        {"MACs", t->macs ? divide_up(t->macs, macs) : 0},
    };
    size_t most = 0;
    for (size_t i = 1; i < sizeof bounds / sizeof bounds[0]; i++) {
        most = bounds[i].cycles > bounds[most].cycles ? i : most;
    }
    *what = bounds[most].what;
    return bounds[most].cycles;
}

static uint64_t all_cycles(const struct hsac_account * a) {
    uint64_t sum = 0;
    for (int i = 0; i < HSAC_CAUSES; i++) {
        sum += a->causes[i].cycles;
    }
    return sum;
}

static double per(double a, double b) {
    return b > 0 ? a / b : 0;
}

// GB/s while the array is at it.
static double rate(const struct hsac_account * a) {
    return per((double) a->stream_words * 4 * (double) a->mhz, (double) a->cycles * 1e3);
}

// ---- for people ----

enum { COLUMN = 34 };

static void put(struct buf * b, const char * label, const char cells[2][64], int n) {
    buf_printf(b, "  %-16s", label);
    for (int i = 0; i < n; i++) {
        buf_printf(b, "%-*s", i + 1 < n ? COLUMN : 0, cells[i]);
    }
    buf_printf(b, "\n");
}

// "1,234,567"
static const char * grouped(uint64_t v, char text[32]) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, v), at = 0;
    for (int i = 0; i < n; i++) {
        text[at++] = digits[i];
        if ((n - 1 - i) % 3 == 0 && i + 1 < n) {
            text[at++] = ',';
        }
    }
    text[at] = 0;
    return text;
}

#define ROW(label, ...)                                                                            \
    do {                                                                                           \
        char cells[2][64] = {{0}};                                                                 \
        for (int i = 0; i < n; i++) {                                                              \
            const struct hsac_account * a = &r[i].again;                                           \
            (void) a;                                                                              \
            snprintf(cells[i], sizeof cells[i], __VA_ARGS__);                                      \
        }                                                                                          \
        put(b, label, (const char(*)[64]) cells, n);                                               \
    } while (0)

static void put_same(const struct bench_result * r, struct buf * b) {
    size_t differ = 0;
    for (size_t i = 0; i < r[0].output_bytes && i < r[1].output_bytes; i++) {
        differ += r[0].output[i] != r[1].output[i];
    }
    if (differ) {
        buf_printf(b, "\nthe results differ in %zu of %zu bytes\n", differ, r[0].output_bytes);
    } else {
        buf_printf(b, "\nboth gave the same %zu bytes\n", r[0].output_bytes);
    }
}

static void put_runs(const struct bench_result * r, int n, struct buf * b) {
    buf_printf(b, "\n  bytes through the shim, by the length of their runs\n");
    for (int k = 0; k < HSAC_RUNS; k++) {
        char label[16], in[32], out[32];
        ROW(run_label(r[0].again.runs[k].below, label), "%s read, %s written",
            grouped(a->runs[k].read, in), grouped(a->runs[k].written, out));
    }
}

static void put_range(const struct bench_result * r, int n, struct buf * b) {
    buf_printf(b, "\n  by host memory\n");
    for (int k = 0; k < EMU_RANGES; k++) {
        char g[32];
        ROW(emu_range_names[k], "%.3f us, %s cycles", (double) r[i].range[k].ns / 1e3,
            grouped(r[i].range[k].cycles, g));
    }
}

void bench_print(const struct bench_task * t, const struct bench_result * r, int n,
                 struct buf * b) {
    char g[32];
    const char * what;
    uint64_t bound = bench_bound(t, &what);
    int lanes = bench_columns(&t->spec) * BENCH_CHANNELS * 2 * t->clock.stream_words;
    buf_printf(b, "%s %s %s on %s, modelled, clock %s (%u MHz)\n\n", kernel_op_name(t->spec.op),
               dtype_name(t->spec.inputs[0].dtype), t->shape, kernel_arch_name(t->spec.arch),
               t->clock.name, (unsigned) t->clock.mhz);
    ROW("kernel", "%s", r[i].source);
    ROW("size", "PDI %zu, stream %zu bytes", r[i].pdi_bytes, 4 * r[i].insts_words);
    ROW("time", "%.3f us", (double) a->ns / 1e3);
    ROW("array", "%s cycles", grouped(a->cycles, g));
    buf_printf(b, "  %-16s%s cycles, by %s\n", "bound", grouped(bound, g), what);
    ROW("reached", "%.1f %%", 100 * per((double) bound, (double) a->cycles));
    if (t->macs) {
        int macs = bench_macs(&t->spec) * BENCH_ROWS * bench_columns(&t->spec);
        ROW("MACs", "%.0f a cycle of %d", per((double) t->macs, (double) a->cycles), macs);
    }
    ROW("shim words", "%s, %.2f a cycle of %d", grouped(a->stream_words, g),
        per((double) a->stream_words, (double) a->cycles), lanes);
    ROW("DDR", "%.2f GB/s both ways", rate(a));
    ROW("bundles", "%s", grouped(a->bundles, g));
    ROW("core stalls", "%s", grouped(a->core_stalls, g));
    ROW("bank stalls", "%s", grouped(a->bank_stalls, g));
    ROW("with its PDI", "%.3f us, the PDI %.3f", (double) r[i].first.ns / 1e3,
        per((double) r[i].first.causes[EMU_RECONFIG].cycles, (double) a->mhz));
    ROW("emulated in", "%.3f s, %.1f M words/s", r[i].wall_seconds,
        per((double) a->stream_words * 1e-6, r[i].wall_seconds));
    buf_printf(b, "\n  where the time went\n");
    for (int k = 0; k < HSAC_CAUSES; k++) {
        ROW(emu_cause_names[k], "%5.1f %% %12.3f us",
            100 * per((double) a->causes[k].cycles, (double) all_cycles(a)),
            per((double) a->causes[k].cycles, (double) a->mhz));
    }
    put_runs(r, n, b);
    if (t->range) {
        put_range(r, n, b);
    }
    if (n > 1) {
        buf_printf(b, "\n  %-16s%.3f times the time of the first\n", "the second",
                   per((double) r[1].again.ns, (double) r[0].again.ns));
        put_same(r, b);
    }
}

// ---- for programs ----

static json_t * causes_json(const struct hsac_account * a) {
    json_t * causes = json_object();
    for (int i = 0; i < HSAC_CAUSES; i++) {
        json_put(&causes, emu_cause_names[i], json_size(a->causes[i].cycles));
    }
    return causes;
}

static json_t * runs_json(const struct hsac_account * a) {
    json_t * list = json_array();
    for (int i = 0; i < HSAC_RUNS; i++) {
        json_t * o = json_object();
        json_put(&o, "below", json_size(a->runs[i].below));
        json_put(&o, "read", json_size(a->runs[i].read));
        json_put(&o, "written", json_size(a->runs[i].written));
        json_append(&list, o);
    }
    return list;
}

static json_t * range_json(const struct bench_result * r) {
    json_t * range = json_object();
    for (int i = 0; i < EMU_RANGES; i++) {
        json_t * o = json_object();
        json_put(&o, "ns", json_size(r->range[i].ns));
        json_put(&o, "cycles", json_size(r->range[i].cycles));
        json_put(&range, emu_range_names[i], o);
    }
    return range;
}

static json_t * result_json(const struct bench_task * t, const struct bench_result * r) {
    const struct hsac_account * a = &r->again;
    json_t * o = json_object();
    json_put(&o, "source", json_text(r->source));
    if (*r->pack) {
        json_put(&o, "pack", json_text(r->pack));
    }
    json_put(&o, "pdi_bytes", json_size(r->pdi_bytes));
    json_put(&o, "stream_bytes", json_size(4 * r->insts_words));
    json_put(&o, "ns", json_size(a->ns));
    json_put(&o, "cycles", json_size(a->cycles));
    json_put(&o, "shim_words", json_size(a->stream_words));
    json_put(&o, "bundles", json_size(a->bundles));
    json_put(&o, "core_stalls", json_size(a->core_stalls));
    json_put(&o, "bank_stalls", json_size(a->bank_stalls));
    json_put(&o, "causes", causes_json(a));
    json_put(&o, "runs", runs_json(a));
    if (t->range) {
        json_put(&o, "range", range_json(r));
    }
    json_put(&o, "wall_ns", json_size((uint64_t) (r->wall_seconds * 1e9)));
    json_put(&o, "first_ns", json_size(r->first.ns));
    json_put(&o, "first_causes", causes_json(&r->first));
    return o;
}

void bench_print_json(const struct bench_task * t, const struct bench_result * r, int n,
                      struct buf * b) {
    const char * what;
    json_t *root = json_object(), *list = json_array();
    json_put(&root, "op", json_text(kernel_op_name(t->spec.op)));
    json_put(&root, "type", json_text(dtype_name(t->spec.inputs[0].dtype)));
    json_put(&root, "shape", json_text(t->shape));
    json_put(&root, "arch", json_text(kernel_arch_name(t->spec.arch)));
    json_put(&root, "modelled", json_true());
    json_put(&root, "clock", json_text(t->clock.name));
    json_put(&root, "mhz", json_size(t->clock.mhz));
    json_put(&root, "bound_cycles", json_size(bench_bound(t, &what)));
    json_put(&root, "bound_by", json_text(what));
    json_put(&root, "macs", json_size(t->macs));
    for (int i = 0; i < n; i++) {
        json_append(&list, result_json(t, &r[i]));
    }
    json_put(&root, "kernels", list);
    if (n > 1) {
        bool same = r[0].output_bytes == r[1].output_bytes &&
                    !memcmp(r[0].output, r[1].output, r[0].output_bytes);
        json_put(&root, "same_result", same ? json_true() : json_false());
    }
    json_print(root, JSON_INDENT(2), b);
    buf_printf(b, "\n");
    json_decref(root);
}

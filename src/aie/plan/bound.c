// bound: see bound.h.
#include "bound.h"

uint64_t bound_columns(const struct kernel_spec * spec) {
    return spec->columns && spec->columns < BOUND_COLUMNS ? (uint64_t) spec->columns
                                                          : BOUND_COLUMNS;
}

uint64_t bound_most_words(const struct kernel_spec * spec) {
    uint64_t most = bound_words(&spec->output);
    for (int i = 0; i < spec->n_inputs; i++) {
        uint64_t words = bound_words(&spec->inputs[i]);
        most = words > most ? words : most;
    }
    return most;
}

static int word_of(const struct aie_word_times * p, enum dtype t) {
    return t == DTYPE_F32    ? p->f32
           : t == DTYPE_F16  ? p->f16
           : t == DTYPE_BF16 ? p->bf16
                             : p->integer;
}

// The most that a word of any operand takes.
static int bound_word(const struct kernel_spec * spec, const struct aie_word_times * times) {
    int most = word_of(times, spec->output.dtype);
    for (int i = 0; i < spec->n_inputs; i++) {
        int word = word_of(times, spec->inputs[i].dtype);
        most = word > most ? word : most;
    }
    return most;
}

// One run of elements: no row begins anew.
static bool bound_is_flat(const struct kernel_spec * spec) {
    bool flat = tensor_is_contiguous(&spec->output);
    for (int i = 0; i < spec->n_inputs; i++) {
        flat &= tensor_is_contiguous(&spec->inputs[i]) &&
                tensor_elements(&spec->inputs[i]) == tensor_elements(&spec->output);
    }
    return flat;
}

static uint64_t mixed(const struct kernel_spec * spec, uint64_t cycles) {
    uint64_t most = (uint64_t) aie_times(spec->arch)->mixed_penalty;
    return cycles + (cycles < most ? cycles : most);
}

uint64_t bound_cores(const struct kernel_spec * spec, uint64_t cycles) {
    const struct aie_times * t = aie_times(spec->arch);
    uint64_t start = mixed(spec, (uint64_t) t->start);
    uint64_t all = mixed(spec, (uint64_t) t->start + cycles);
    return start + (all - start) * (uint64_t) t->core_factor;
}

static uint64_t spread(const struct kernel_spec * spec, uint64_t cycles) {
    return bound_cores(spec, cycles / bound_columns(spec));
}

uint64_t bound_elements(const struct kernel_spec * spec, const struct aie_word_times * times) {
    const struct tensor * first = &spec->inputs[0];
    uint64_t rows =
        bound_is_flat(spec) ? 0 : (uint64_t) (first->ne[1] * first->ne[2] * first->ne[3]);
    return spread(spec, bound_most_words(spec) * (uint64_t) bound_word(spec, times) +
                            rows * (uint64_t) aie_times(spec->arch)->row);
}

uint64_t bound_scattered(const struct kernel_spec * spec, const struct aie_word_times * times) {
    int more = bound_is_flat(spec) ? 0 : aie_times(spec->arch)->scattered;
    return spread(spec, bound_most_words(spec) * (uint64_t) (bound_word(spec, times) + more));
}

bool bound_looks_up(enum kernel_blocks b) {
    return kernel_block(b)->table[15] != 0;
}

// ---- host memory ----

// In runs that are short it takes twice as long.
enum { SHORT_RUNS = 2 };

// Bytes of a tensor as memory is paid for them: by the run, and for a short one as for RUN.
static uint64_t paid(const struct tensor * t) {
    enum { RUN = 270 };
    uint64_t size = (uint64_t) dtype_size(t->dtype), run = size;
    uint64_t bytes = (uint64_t) tensor_elements(t) * size + 4;
    for (int d = 0; d < TENSOR_DIMS && (t->ne[d] == 1 || (uint64_t) t->nb[d] == run); d++) {
        run *= (uint64_t) (t->ne[d] > 0 ? t->ne[d] : 1);
    }
    run = run < 4 ? 4 : run;
    return run < RUN ? bytes / run * RUN + RUN : bytes;
}

uint64_t bound_host(const struct kernel_spec * spec) {
    const struct aie_times * t = aie_times(spec->arch);
    uint64_t passed = paid(&spec->output);
    for (int i = 0; i < spec->n_inputs; i++) {
        passed += paid(&spec->inputs[i]);
    }
    bool long_runs = spec->op == KERNEL_OP_MUL_MAT_BLOCKS && kernel_panel_of(spec).rows;
    return (uint64_t) t->start +
           passed * (uint64_t) (long_runs ? 1 : SHORT_RUNS) / (uint64_t) t->memory_bytes;
}

uint64_t bound_likely(const struct kernel_spec * spec, int edges) {
    int64_t bytes = tensor_elements(&spec->output) * dtype_size(spec->output.dtype);
    for (int i = 0; i < spec->n_inputs; i++) {
        bytes += tensor_elements(&spec->inputs[i]) * dtype_size(spec->inputs[i].dtype);
    }
    return (uint64_t) (bytes * 10 / aie_times(spec->arch)->likely.memory_tenths + edges);
}

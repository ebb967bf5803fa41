// config: one table of fields, and for each a check that says what was expected. A misspelt field
// would silently make another kernel, so that every field must be known.
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum field {
    KERNEL_NAME,
    KERNEL_SOURCE,
    ARCH,
    INPUT_TENSORS,
    OUTPUT_TENSOR,
    EXPORTED_NAME,
    OP_PARAMS,
    PRECISION,
    DESCRIPTION, // for people
    COMMENT,
    FIELDS,
};

static const struct {
    const char * name;
    json_type type;
    bool required;
} fields[FIELDS] = {
    [KERNEL_NAME] = {"kernel_name", JSON_STRING, true},
    [KERNEL_SOURCE] = {"kernel_source", JSON_STRING, true},
    [ARCH] = {"arch", JSON_STRING, false}, // unless there is a default
    [INPUT_TENSORS] = {"input_tensors", JSON_ARRAY, true},
    [OUTPUT_TENSOR] = {"output_tensor", JSON_STRING, true},
    [EXPORTED_NAME] = {"exported_name", JSON_STRING, true},
    [OP_PARAMS] = {"op_params", JSON_ARRAY, false},
    [PRECISION] = {"precision", JSON_STRING, false},
    [DESCRIPTION] = {"description", JSON_STRING, false},
    [COMMENT] = {"comment", JSON_STRING, false},
};

bool exported_name_valid(const char * name) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.+=,@";
    size_t n = strlen(name);
    return n > 0 && n < EXPORTED_NAME_MAX && name[0] != '.' && strspn(name, allowed) == n;
}

const char * kernel_config_label(const json_t * entry) {
    const char * name = json_string_value(json_object_get(entry, fields[EXPORTED_NAME].name));
    return name && exported_name_valid(name) ? name : "";
}

static enum status collect(json_t * entry, json_t * found[FIELDS], struct error * err) {
    if (!json_is_object(entry)) {
        return error_set(err, ST_INVALID, "an entry must be an object, this is %s",
                         json_kind(entry));
    }
    const char * key;
    json_t * value;
    json_object_foreach(entry, key, value) {
        int f = 0;
        while (f < FIELDS && strcmp(key, fields[f].name)) {
            f++;
        }
        if (f == FIELDS) {
            return error_set(err, ST_INVALID,
                             "unknown field '%.60s' (known: kernel_name, kernel_source, arch, "
                             "input_tensors, output_tensor, exported_name, op_params, precision, "
                             "description, comment)",
                             key);
        }
        if (json_typeof(value) != fields[f].type) {
            return error_set(err, ST_INVALID, "'%s' must be %s, this is %s", key,
                             fields[f].type == JSON_ARRAY ? "an array" : "a string",
                             json_kind(value));
        }
        found[f] = value;
    }
    for (int f = 0; f < FIELDS; f++) {
        if (fields[f].required && !found[f]) {
            return error_set(err, ST_INVALID, "'%s' is missing", fields[f].name);
        }
    }
    return ST_OK;
}

// ---- which op ----

// Appends what rows of the table have, each once: sources, or the kernels of one source.
static void list_ops(const char * source, char * text, size_t size) {
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < KERNEL_OP_COUNT; i++) {
        const struct kernel_op_info * info = kernel_op_info((enum kernel_op) i);
        bool shown = false;
        for (int k = 0; k < i && !source; k++) {
            shown |= !strcmp(kernel_op_info((enum kernel_op) k)->source, info->source);
        }
        if (shown || (source && strcmp(source, info->source)) || at >= size) {
            continue;
        }
        at += (size_t) snprintf(text + at, size - at, "%s%s", at ? ", " : "",
                                source ? info->ggml_name : info->source);
    }
}

// Names of files that other collections of kernels have for a family of ours, or for one op.
static const struct {
    const char * source;
    const char * stands_for;
} aliases[] = {
    {"softmax", "soft_max"},
    {"mat_mul", "mul_mat"},
    {"gemm", "mul_mat"},
};

static bool is_called(const char * name, const char * source, size_t n) {
    return strlen(name) == n && !memcmp(name, source, n);
}

// Is the op in a source of that name? It may be the family's, with or without "_ops" at its end, or
// the op's own.
static bool op_is_in(const struct kernel_op_info * info, const char * source, size_t n) {
    static const char ops[] = "_ops";
    size_t short_source = strlen(info->source) - (sizeof ops - 1); // they all end so
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        if (is_called(aliases[i].source, source, n)) {
            source = aliases[i].stands_for;
            n = strlen(source);
        }
    }
    return is_called(info->source, source, n) || is_called(info->name, source, n) ||
           (n == short_source && !memcmp(info->source, source, n));
}

static enum status find_op(const char * name, const char * source, enum kernel_op * out,
                           struct error * err) {
    size_t n = strlen(source);
    if (n > 3 && !strcmp(source + n - 3, ".py")) {
        n -= 3;
    }
    const char * found = NULL;
    for (int i = 0; i < KERNEL_OP_COUNT; i++) {
        const struct kernel_op_info * info = kernel_op_info((enum kernel_op) i);
        if (!op_is_in(info, source, n)) {
            continue;
        }
        found = info->source;
        if (!strcmp(info->ggml_name, name)) {
            *out = (enum kernel_op) i;
            return ST_OK;
        }
    }
    char known[280];
    list_ops(found, known, sizeof known);
    return found ? error_set(err, ST_UNSUPPORTED, "Kernel not found: '%.60s' in %s (it has: %s)",
                             name, found, known)
                 : error_set(err, ST_UNSUPPORTED, "Kernel source not found: '%.60s' (known: %s)",
                             source, known);
}

static enum status find_arch(const char * name, enum aie_arch * out, struct error * err) {
    if (kernel_arch_parse(name, out)) {
        return ST_OK;
    }
    char known[80];
    size_t at = 0;
    for (int i = 0; i < AIE_ARCH_COUNT && at < sizeof known; i++) {
        at += (size_t) snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "",
                                kernel_arch_name((enum aie_arch) i));
    }
    return error_set(err, ST_INVALID, "Unknown arch '%.60s' (known: %s)", name, known);
}

// ---- operands and parameters ----

static enum status parse_inputs(const json_t * list, struct kernel_spec * spec,
                                struct error * err) {
    const struct kernel_op_info * info = kernel_op_info(spec->op);
    int least = info->least_inputs, most = info->n_inputs, n = (int) json_array_size(list);
    size_t i;
    json_t * t;
    json_array_foreach(list, i, t) {
        if (!json_is_string(t)) {
            return error_set(err, ST_INVALID, "input_tensors[%zu] must be a string, this is %s", i,
                             json_kind(t));
        }
        struct tensor ignored;
        enum status st = tensor_parse(json_string_value(t),
                                      i < KERNEL_MAX_INPUTS ? &spec->inputs[i] : &ignored, err);
        if (st != ST_OK) {
            error_prefix(err, st, "input_tensors[%zu]", i);
            return st;
        }
    }
    spec->n_inputs = n;
    if (n >= least && n <= most) {
        return ST_OK;
    }
    return least == most
               ? error_set(err, ST_INVALID, "%s takes %d input tensor%s, here are %d",
                           info->ggml_name, most, most == 1 ? "" : "s", n)
               : error_set(err, ST_INVALID, "%s takes %d to %d input tensors, here are %d",
                           info->ggml_name, least, most, n);
}

static enum status parse_param(const json_t * v, size_t index, uint32_t * out, struct error * err) {
    json_int_t word = json_integer_value(v);
    if (json_is_integer(v) && word >= INT32_MIN && word <= (json_int_t) UINT32_MAX) {
        *out = (uint32_t) word;
        return ST_OK;
    }
    double real = json_real_value(v);
    if (json_is_real(v) && fabs(real) <= 3.4028234663852886e38) { // largest float
        float f = (float) real;
        memcpy(out, &f, sizeof *out);
        return ST_OK;
    }
    return error_set(
        err, ST_INVALID,
        "op_params[%zu] must be an integer of 32 bits, or a real number that a float holds", index);
}

// Without a list there are none.
static enum status parse_params(const json_t * list, struct kernel_spec * spec,
                                struct error * err) {
    int wanted = kernel_op_info(spec->op)->n_params, n = (int) json_array_size(list);
    size_t i;
    json_t * v;
    json_array_foreach(list, i, v) {
        uint32_t word = 0;
        enum status st = parse_param(v, i, &word, err);
        if (st != ST_OK) {
            return st;
        }
        if (i < (size_t) wanted) {
            spec->params[i] = word;
        }
    }
    return n == wanted ? ST_OK
                       : error_set(err, ST_INVALID, "%s takes %d op_params, here are %d",
                                   kernel_op_info(spec->op)->ggml_name, wanted, n);
}

enum status kernel_config_parse(json_t * entry, const char * default_arch,
                                struct kernel_config * out, struct error * err) {
    json_t * found[FIELDS] = {0};
    *out = (struct kernel_config){0};
    enum status st = collect(entry, found, err);
    if (st != ST_OK) {
        return st;
    }
    const char * arch = found[ARCH] ? json_string_value(found[ARCH]) : default_arch;
    if (!arch) {
        return error_set(err, ST_INVALID, "'arch' is missing");
    }
    const char * name = json_string_value(found[EXPORTED_NAME]);
    if (!exported_name_valid(name)) {
        return error_set(err, ST_INVALID,
                         "exported_name '%.60s' is no file name (1 to %d letters, digits and "
                         "_-.+=,@, not with '.' first)",
                         name, EXPORTED_NAME_MAX - 1);
    }
    memcpy(out->exported_name, name, strlen(name) + 1);
    struct kernel_spec * spec = &out->spec;
    st = find_op(json_string_value(found[KERNEL_NAME]), json_string_value(found[KERNEL_SOURCE]),
                 &spec->op, err);
    if (st == ST_OK) {
        st = find_arch(arch, &spec->arch, err);
    }
    if (st == ST_OK) {
        st = parse_inputs(found[INPUT_TENSORS], spec, err);
    }
    if (st == ST_OK &&
        (st = tensor_parse(json_string_value(found[OUTPUT_TENSOR]), &spec->output, err)) != ST_OK) {
        error_prefix(err, st, "output_tensor");
    }
    if (st == ST_OK) {
        st = parse_params(found[OP_PARAMS], spec, err);
    }
    const char * precision = json_string_value(found[PRECISION]);
    if (st == ST_OK && precision && !kernel_precision_parse(precision, &spec->precision)) {
        st = error_set(err, ST_INVALID, "'precision' must be \"fast\" or \"exact\", not '%.40s'",
                       precision);
    }
    return st;
}

static json_t * tensor_text(const struct tensor * raw) {
    struct tensor t = tensor_canonical(raw);
    struct buf text = {0};
    tensor_print(&t, &text);
    json_t * value = text.failed ? NULL : json_string((const char *) text.data);
    buf_free(&text);
    return value;
}

void kernel_config_print(const struct kernel_spec * spec, const char * exported_name,
                         struct buf * b) {
    const struct kernel_op_info * info = kernel_op_info(spec->op);
    json_t *entry = json_object(), *inputs = json_array(), *params = json_array();
    for (int i = 0; i < spec->n_inputs; i++) {
        json_append(&inputs, tensor_text(&spec->inputs[i]));
    }
    for (int i = 0; i < info->n_params; i++) {
        json_append(&params, json_integer(spec->params[i]));
    }
    json_put(&entry, fields[KERNEL_NAME].name, json_string(info->ggml_name));
    json_put(&entry, fields[KERNEL_SOURCE].name, json_sprintf("%s.py", info->source));
    json_put(&entry, fields[ARCH].name, json_string(kernel_arch_name(spec->arch)));
    json_put(&entry, fields[INPUT_TENSORS].name, inputs);
    json_put(&entry, fields[OUTPUT_TENSOR].name, tensor_text(&spec->output));
    if (info->n_params) {
        json_put(&entry, fields[OP_PARAMS].name, json_incref(params));
    }
    if (spec->precision == KERNEL_EXACT && kernel_has_exact(spec)) {
        json_put(&entry, fields[PRECISION].name, json_string(kernel_precision_name(KERNEL_EXACT)));
    }
    json_put(&entry, fields[EXPORTED_NAME].name, json_string(exported_name));
    json_print(entry, 0, b);
    json_decref(params);
    json_decref(entry);
}

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
    DESCRIPTION, // for people
    COMMENT,
    FIELDS,
};

static const struct {
    const char * name;
    enum json_type type;
    bool required;
} fields[FIELDS] = {
    [KERNEL_NAME] = {"kernel_name", JSON_STRING, true},
    [KERNEL_SOURCE] = {"kernel_source", JSON_STRING, true},
    [ARCH] = {"arch", JSON_STRING, false}, // unless there is a default
    [INPUT_TENSORS] = {"input_tensors", JSON_ARRAY, true},
    [OUTPUT_TENSOR] = {"output_tensor", JSON_STRING, true},
    [EXPORTED_NAME] = {"exported_name", JSON_STRING, true},
    [OP_PARAMS] = {"op_params", JSON_ARRAY, false},
    [DESCRIPTION] = {"description", JSON_STRING, false},
    [COMMENT] = {"comment", JSON_STRING, false},
};

bool exported_name_valid(const char * name) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.+=,@";
    size_t n = strlen(name);
    return n > 0 && n < EXPORTED_NAME_MAX && name[0] != '.' && strspn(name, allowed) == n;
}

const char * kernel_config_label(const struct json * entry) {
    const struct json * name = json_member(entry, fields[EXPORTED_NAME].name, NULL);
    return name && name->type == JSON_STRING && exported_name_valid(name->string) ? name->string
                                                                                  : "";
}

static enum status collect(const struct json * entry, const struct json * found[FIELDS],
                           struct error * err) {
    if (entry->type != JSON_OBJECT) {
        return error_set(err, ST_INVALID, "an entry must be an object, this is %s",
                         json_type_name(entry->type));
    }
    for (const struct json * m = entry->first; m; m = m->next) {
        int f = 0;
        while (f < FIELDS && strcmp(m->key, fields[f].name)) {
            f++;
        }
        if (f == FIELDS) {
            return error_set(err, ST_INVALID,
                             "unknown field '%.60s' (known: kernel_name, kernel_source, arch, "
                             "input_tensors, output_tensor, exported_name, op_params, description, "
                             "comment)",
                             m->key);
        }
        if (found[f]) {
            return error_set(err, ST_INVALID, "'%s' is there twice", m->key);
        }
        if (m->type != fields[f].type) {
            return error_set(err, ST_INVALID, "'%s' must be %s, this is %s", m->key,
                             json_type_name(fields[f].type), json_type_name(m->type));
        }
        found[f] = m;
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
            shown |= !strcmp(kernel_op_info((enum kernel_op) k)->family, info->family);
        }
        if (shown || (source && strcmp(source, info->family)) || at >= size) {
            continue;
        }
        at += (size_t) snprintf(text + at, size - at, "%s%s", at ? ", " : "",
                                source ? info->ggml_name : info->family);
    }
}

static enum status find_op(const char * name, const char * source, enum kernel_op * out,
                           struct error * err) {
    size_t n = strlen(source);
    if (n > 3 && !strcmp(source + n - 3, ".py")) {
        n -= 3;
    }
    const char * family = NULL;
    for (int i = 0; i < KERNEL_OP_COUNT; i++) {
        const struct kernel_op_info * info = kernel_op_info((enum kernel_op) i);
        if (strlen(info->family) != n || memcmp(info->family, source, n)) {
            continue;
        }
        family = info->family;
        if (!strcmp(info->ggml_name, name)) {
            *out = (enum kernel_op) i;
            return ST_OK;
        }
    }
    char known[280];
    list_ops(family, known, sizeof known);
    return family ? error_set(err, ST_UNSUPPORTED, "Kernel not found: '%.60s' in %s (it has: %s)",
                              name, family, known)
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

static enum status parse_inputs(const struct json * list, struct kernel_spec * spec,
                                struct error * err) {
    int wanted = kernel_op_info(spec->op)->n_inputs, n = 0;
    for (const struct json * t = list->first; t; t = t->next, n++) {
        if (t->type != JSON_STRING) {
            return error_set(err, ST_INVALID, "input_tensors[%d] must be a string, this is %s", n,
                             json_type_name(t->type));
        }
        struct tensor ignored;
        enum status st =
            tensor_parse(t->string, n < KERNEL_MAX_INPUTS ? &spec->inputs[n] : &ignored, err);
        if (st != ST_OK) {
            error_prefix(err, "input_tensors[%d]", n);
            return st;
        }
    }
    spec->n_inputs = n;
    return n == wanted
               ? ST_OK
               : error_set(err, ST_INVALID, "%s takes %d input tensor%s, here are %d",
                           kernel_op_info(spec->op)->ggml_name, wanted, wanted == 1 ? "" : "s", n);
}

static enum status parse_param(const struct json * v, int index, uint32_t * out,
                               struct error * err) {
    if (v->type == JSON_INTEGER && v->integer >= INT32_MIN && v->integer <= (int64_t) UINT32_MAX) {
        *out = (uint32_t) v->integer;
        return ST_OK;
    }
    if (v->type == JSON_REAL && fabs(v->real) <= 3.4028234663852886e38) { // largest float
        float f = (float) v->real;
        memcpy(out, &f, sizeof *out);
        return ST_OK;
    }
    return error_set(
        err, ST_INVALID,
        "op_params[%d] must be an integer of 32 bits, or a real number that a float holds", index);
}

static enum status parse_params(const struct json * list, struct kernel_spec * spec,
                                struct error * err) {
    int wanted = kernel_op_info(spec->op)->n_params, n = 0;
    for (const struct json * v = list ? list->first : NULL; v; v = v->next, n++) {
        uint32_t word = 0;
        enum status st = parse_param(v, n, &word, err);
        if (st != ST_OK) {
            return st;
        }
        if (n < wanted) {
            spec->params[n] = word;
        }
    }
    return n == wanted ? ST_OK
                       : error_set(err, ST_INVALID, "%s takes %d op_params, here are %d",
                                   kernel_op_info(spec->op)->ggml_name, wanted, n);
}

enum status kernel_config_parse(const struct json * entry, const char * default_arch,
                                struct kernel_config * out, struct error * err) {
    const struct json * found[FIELDS] = {0};
    *out = (struct kernel_config){0};
    enum status st = collect(entry, found, err);
    if (st != ST_OK) {
        return st;
    }
    const char * arch = found[ARCH] ? found[ARCH]->string : default_arch;
    if (!arch) {
        return error_set(err, ST_INVALID, "'arch' is missing");
    }
    const char * name = found[EXPORTED_NAME]->string;
    if (!exported_name_valid(name)) {
        return error_set(err, ST_INVALID,
                         "exported_name '%.60s' is no file name (1 to %d letters, digits and "
                         "_-.+=,@, not with '.' first)",
                         name, EXPORTED_NAME_MAX - 1);
    }
    memcpy(out->exported_name, name, strlen(name) + 1);
    struct kernel_spec * spec = &out->spec;
    st = find_op(found[KERNEL_NAME]->string, found[KERNEL_SOURCE]->string, &spec->op, err);
    if (st == ST_OK) {
        st = find_arch(arch, &spec->arch, err);
    }
    if (st == ST_OK) {
        st = parse_inputs(found[INPUT_TENSORS], spec, err);
    }
    if (st == ST_OK &&
        (st = tensor_parse(found[OUTPUT_TENSOR]->string, &spec->output, err)) != ST_OK) {
        error_prefix(err, "output_tensor");
    }
    return st == ST_OK ? parse_params(found[OP_PARAMS], spec, err) : st;
}

static void print_tensor(const struct tensor * raw, struct buf * b) {
    struct tensor t = tensor_canonical(raw);
    buf_printf(b, "\"");
    tensor_print(&t, b);
    buf_printf(b, "\"");
}

void kernel_config_print(const struct kernel_spec * spec, const char * exported_name,
                         struct buf * b) {
    const struct kernel_op_info * info = kernel_op_info(spec->op);
    buf_printf(b, "{\"kernel_name\": \"%s\", \"kernel_source\": \"%s.py\", \"arch\": \"%s\", ",
               info->ggml_name, info->family, kernel_arch_name(spec->arch));
    buf_printf(b, "\"input_tensors\": [");
    for (int i = 0; i < spec->n_inputs; i++) {
        buf_printf(b, "%s", i ? ", " : "");
        print_tensor(&spec->inputs[i], b);
    }
    buf_printf(b, "], \"output_tensor\": ");
    print_tensor(&spec->output, b);
    if (info->n_params) {
        buf_printf(b, ", \"op_params\": [");
        for (int i = 0; i < info->n_params; i++) {
            buf_printf(b, "%s%u", i ? ", " : "", spec->params[i]);
        }
        buf_printf(b, "]");
    }
    buf_printf(b, ", \"exported_name\": \"%s\"}", exported_name);
}

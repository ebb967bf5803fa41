// cache-why: `ggml-hsa cache why`. A kernel can be named by its canonical name, by what it
// computes, or by an entry of a configuration; then the cache says what keeps it from being found.
#include "cache.h"

#include "kernel/config.h"
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- names ----

static bool parse_list(const char ** at, int64_t out[TENSOR_DIMS]) {
    for (int i = 0; i < TENSOR_DIMS; i++) {
        char * end;
        if (i && *(*at)++ != 'x') {
            return false;
        }
        out[i] = strtoll(*at, &end, 10);
        if (end == *at) {
            return false;
        }
        *at = end;
    }
    return true;
}

// "_f32_8x1x1x1" or "_f32_8x1x1x1s4x32x32x32"; *at moves behind it.
static bool parse_tensor(const char ** at, struct tensor * out) {
    char dtype[8];
    size_t n = **at == '_' ? strcspn(*at + 1, "_") : 0;
    enum dtype type;
    if (n == 0 || n >= sizeof dtype || (*at)[1 + n] != '_') {
        return false;
    }
    memcpy(dtype, *at + 1, n);
    dtype[n] = '\0';
    int64_t ne[TENSOR_DIMS];
    const char * p = *at + n + 2;
    if (!dtype_parse(dtype, &type) || !parse_list(&p, ne)) {
        return false;
    }
    *out = tensor_contiguous(type, ne);
    if (*p == 's') {
        p++;
        if (!parse_list(&p, out->nb)) {
            return false;
        }
    }
    *at = p;
    return true;
}

static bool parse_params(const char ** at, struct kernel_spec * out) {
    int n = kernel_op_info(out->op)->n_params;
    for (int i = 0; i < n; i++) {
        char * end;
        size_t skip = i ? 1 : 2;
        if (strncmp(*at, i ? "x" : "_p", skip)) {
            return false;
        }
        out->params[i] = (uint32_t) strtoul(*at + skip, &end, 16);
        *at = end;
    }
    if (!strcmp(*at, "_exact")) {
        out->precision = KERNEL_EXACT;
        *at += strlen(*at);
    }
    return **at == '\0';
}

static bool parse_as(const char * name, enum kernel_op op, int n_inputs, enum aie_arch arch,
                     struct kernel_spec * out) {
    const struct kernel_op_info * info = kernel_op_info(op);
    size_t n = strlen(info->name);
    const char * at = name + n;
    *out = (struct kernel_spec){.op = op, .arch = arch, .n_inputs = n_inputs};
    if (strncmp(name, info->name, n)) {
        return false;
    }
    for (int i = 0; i < n_inputs; i++) {
        if (!parse_tensor(&at, &out->inputs[i])) {
            return false;
        }
    }
    if (!parse_tensor(&at, &out->output) || !parse_params(&at, out)) {
        return false;
    }
    char again[KERNEL_NAME_MAX];
    kernel_name(out, again);
    return !strcmp(again, name); // whatever was read generously
}

bool cache_parse_name(const char * name, enum aie_arch arch, struct kernel_spec * out) {
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        const struct kernel_op_info * info = kernel_op_info((enum kernel_op) op);
        for (int n = info->least_inputs; n <= info->n_inputs; n++) {
            if (parse_as(name, (enum kernel_op) op, n, arch, out)) {
                return true;
            }
        }
    }
    return false;
}

// ---- answers ----

// True when it would be found.
static bool answer(struct cache * cache, struct cache_command * cmd,
                   const struct kernel_spec * spec, json_t ** answers) {
    char name[KERNEL_NAME_MAX];
    struct buf why = {0}, *b = &cmd->out;
    kernel_name(spec, name);
    bool hit = cache_explain(cache, spec, cache_own_identity(), &why);
    const char * text = why.data ? (const char *) why.data : "";
    if (cmd->json) {
        json_t * reasons = json_array();
        for (const char * line = text; *line;) {
            size_t n = strcspn(line, "\n");
            char * copy = strndup(line, n);
            json_append(&reasons, copy ? json_text(copy) : NULL);
            free(copy);
            line += n + (line[n] == '\n');
        }
        json_append(answers, json_pack("{s:s, s:s, s:b, s:o}", "arch", kernel_arch_name(spec->arch),
                                       "name", name, "hit", hit, "reasons", reasons));
    } else {
        buf_printf(b, "%s%s/%s%s: %s\n", cmd->c.name, kernel_arch_name(spec->arch), name,
                   cmd->c.off, hit ? "a hit" : "a miss");
        for (const char * line = text; *line;) {
            size_t n = strcspn(line, "\n");
            buf_printf(b, "    %.*s\n", (int) n, line);
            line += n + (line[n] == '\n');
        }
    }
    buf_free(&why);
    return hit;
}

static bool spec_of_words(struct cache_command * cmd, struct kernel_spec * out,
                          struct error * err) {
    if (cmd->n_words == 1) {
        return cache_parse_name(cmd->words[0], cmd->arch, out) ||
               (error_set(
                    err, ST_INVALID,
                    "%.200s: not the name of a kernel; name its operation and tensors instead",
                    cmd->words[0]),
                false);
    }
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        const struct kernel_op_info * info = kernel_op_info((enum kernel_op) op);
        if (strcmp(cmd->words[0], info->name) && strcmp(cmd->words[0], info->ggml_name)) {
            continue;
        }
        if (cmd->n_words != info->n_inputs + 2) {
            error_set(err, ST_INVALID, "%s has %d inputs and an output, %d tensors are given",
                      info->name, info->n_inputs, cmd->n_words - 1);
            return false;
        }
        if (info->n_params) {
            error_set(err, ST_INVALID, "%s has parameters; name it by its name or with --config",
                      info->name);
            return false;
        }
        *out = (struct kernel_spec){
            .op = (enum kernel_op) op, .arch = cmd->arch, .n_inputs = info->n_inputs};
        for (int i = 1; i < cmd->n_words; i++) {
            struct tensor * t = i == info->n_inputs + 1 ? &out->output : &out->inputs[i - 1];
            if (tensor_parse(cmd->words[i], t, err) != ST_OK) {
                error_prefix(err, ST_INVALID, "%.100s", cmd->words[i]);
                return false;
            }
        }
        return true;
    }
    error_set(err, ST_INVALID, "%.100s: no operation has that name", cmd->words[0]);
    return false;
}

static int answer_config(struct cache * cache, struct cache_command * cmd, json_t ** answers) {
    json_t *root, *entry;
    struct error err = {0};
    if (json_read_file(cmd->config, &root, &err) != ST_OK) {
        return cache_failed(&err);
    }
    const json_t * kernels = json_object_get(root, "kernels");
    int n = 0, misses = 0, bad = 0;
    size_t i;
    json_array_foreach(kernels, i, entry) {
        struct kernel_config config;
        const char * label = kernel_config_label(entry);
        if (cmd->n_words && strcmp(label, cmd->words[0])) {
            continue;
        }
        if (kernel_config_parse(entry, kernel_arch_name(cmd->arch), &config, &err) != ST_OK) {
            error_prefix(&err, err.status, "%.200s: kernels[%zu] '%s'", cmd->config, i, label);
            (void) cache_failed(&err);
            bad++;
            continue;
        }
        misses += !answer(cache, cmd, &config.spec, answers);
        n++;
    }
    json_decref(root);
    if (n + bad == 0) {
        error_set(&err, ST_NOT_FOUND, "%.200s: no such kernel in it", cmd->config);
        return cache_failed(&err);
    }
    return misses + bad ? EXIT_BAD_INPUT : EXIT_OK;
}

int cache_why(struct cache * cache, struct cache_command * cmd) {
    struct kernel_spec spec;
    struct error err = {0};
    if (!cmd->config && cmd->n_words == 0) {
        return tool_usage(&cache_subcommand, "why wants a kernel");
    }
    if (!cache_own_identity()) {
        error_set(&err, ST_UNSUPPORTED, "this build has no kernel compiler, so it uses no cache");
        return cache_failed(&err);
    }
    json_t * answers = json_array();
    int status;
    if (cmd->config) {
        status = answer_config(cache, cmd, &answers);
    } else if (!spec_of_words(cmd, &spec, &err)) {
        status = cache_failed(&err);
    } else {
        status = answer(cache, cmd, &spec, &answers) ? EXIT_OK : EXIT_BAD_INPUT;
    }
    if (cmd->json) {
        json_put(&cmd->answer, "kernels", json_incref(answers));
    }
    json_decref(answers);
    return status;
}

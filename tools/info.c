// info: what this installation is and finds, without judging it: `ggml-hsa doctor` does that. Ends
// with 0 also where there is no NPU; what could not be found out stands in the output with its
// reason.
#include "probe.h"
#include "tool.h"

#include "store/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One writer for people and one for programs, over the same findings.
struct info {
    struct buf b;
    bool json;
    struct colours c;
    bool first; // in the list that is being written
};

static void text(struct info * i, const char * value) {
    if (i->json) {
        json_text(&i->b, value);
    } else {
        plain_text(&i->b, value);
    }
}

static void head(struct info * i, const char * title) {
    buf_printf(&i->b, "%s%-20s%s", i->c.head, title, i->c.off);
}

// ---- parts ----

static void add_runtime(struct info * i, const struct probe_runtime * r) {
    if (i->json) {
        if (r->err.status != ST_OK) {
            buf_printf(&i->b, ",\n \"runtime\": null, \"runtime_error\": ");
            json_text(&i->b, r->err.text);
        } else {
            buf_printf(&i->b, ",\n \"runtime\": {\"path\": ");
            json_text(&i->b, r->path);
            buf_printf(&i->b, ", \"emulated\": %s, \"abi\": \"%c\"}",
                       r->emulated ? "true" : "false", r->abi);
        }
        buf_printf(&i->b, ",\n \"devices\": [");
        for (int k = 0; k < r->n_agents; k++) {
            const struct probe_agent * a = &r->agents[k];
            buf_printf(&i->b, "%s\n  {\"name\": \"HSA%d\", \"arch\": ", k ? "," : "", k);
            json_text(&i->b, a->name);
            buf_printf(&i->b, ", \"product\": ");
            json_text(&i->b, a->product);
            buf_printf(&i->b,
                       ", \"memory\": %llu, \"memory_free\": %llu, \"pools\": {\"data\": %llu, "
                       "\"device_heap\": %llu, \"kernel_arguments\": %llu}}",
                       (unsigned long long) a->data_total, (unsigned long long) a->data_free,
                       (unsigned long long) a->data_total, (unsigned long long) a->device_heap,
                       (unsigned long long) a->kernel_arguments);
        }
        buf_printf(&i->b, "]");
        return;
    }
    head(i, "runtime");
    if (r->err.status != ST_OK) {
        buf_printf(&i->b, "none: ");
        plain_text(&i->b, r->err.text);
        buf_printf(&i->b, "\n");
        return;
    }
    plain_text(&i->b, r->path);
    buf_printf(&i->b, "%s, packet ABI %c\n", r->emulated ? " (emulated)" : "", r->abi);
    for (int k = 0; k < r->n_agents; k++) {
        const struct probe_agent * a = &r->agents[k];
        buf_printf(&i->b, "%sHSA%-17d%s", i->c.head, k, i->c.off);
        plain_text(&i->b, a->product);
        buf_printf(&i->b, " (");
        plain_text(&i->b, a->name);
        buf_printf(&i->b, "), memory ");
        size_text(&i->b, a->data_free);
        buf_printf(&i->b, " free of ");
        size_text(&i->b, a->data_total);
        buf_printf(&i->b, ", device heap ");
        size_text(&i->b, a->device_heap);
        buf_printf(&i->b, ", kernel arguments ");
        size_text(&i->b, a->kernel_arguments);
        buf_printf(&i->b, "\n");
    }
}

static void add_plugin(struct info * i, const struct probe_plugin * p) {
    bool ok = p->err.status == ST_OK;
    if (i->json) {
        buf_printf(&i->b, ",\n \"plugin\": ");
        if (*p->path) {
            json_text(&i->b, p->path);
        } else {
            buf_printf(&i->b, "null");
        }
        buf_printf(&i->b, ", \"ggml_version\": ");
        json_text(&i->b, ok ? p->ggml_version : "");
        buf_printf(&i->b, ", \"ggml_api\": %d", p->api);
        return;
    }
    head(i, "plugin");
    plain_text(&i->b, *p->path ? p->path : "none");
    if (ok) {
        buf_printf(&i->b, " in ggml %s, backend API %d\n", p->ggml_version, p->api);
    } else {
        buf_printf(&i->b, ": ");
        plain_text(&i->b, p->err.text);
        buf_printf(&i->b, "\n");
    }
}

static void add_kernel_dirs(struct info * i) {
    const char * list = getenv("GGML_HSA_KERNEL_DIR");
    if (i->json) {
        buf_printf(&i->b, ",\n \"kernel_dirs\": [");
    } else {
        head(i, "kernel directories");
    }
    int n = 0;
    for (const char * p = list ? list : ""; *p;) {
        size_t size = strcspn(p, ":");
        char * dir = size ? strndup(p, size) : NULL;
        if (dir) {
            buf_printf(&i->b, n ? (i->json ? ", " : ", ") : "");
            text(i, dir);
            n++;
        }
        free(dir);
        p += size + (p[size] == ':');
    }
    buf_printf(&i->b, i->json ? "]" : n ? "\n" : "none\n");
}

static bool count_only(void * user, const struct cache_item * item) {
    (void) user;
    (void) item;
    return true;
}

static void add_cache(struct info * i) {
    struct cache * cache = NULL;
    struct cache_totals totals = {0};
    struct error err = {0};
    enum status st = cache_open(false, &cache, &err);
    if (st == ST_OK) {
        st = cache_walk(cache, NULL, false, count_only, NULL, &totals, &err);
    }
    if (i->json) {
        buf_printf(&i->b, ",\n \"cache\": ");
        if (cache) {
            buf_printf(&i->b, "{\"path\": ");
            json_text(&i->b, cache_path(cache));
            buf_printf(&i->b, ", \"kernels\": %llu, \"bytes\": %llu, \"max\": %llu}",
                       (unsigned long long) totals.kernels, (unsigned long long) totals.bytes,
                       (unsigned long long) cache_max(cache));
        } else {
            buf_printf(&i->b, "null, \"cache_error\": ");
            json_text(&i->b, err.text);
        }
    } else {
        head(i, "cache");
        if (cache) {
            plain_text(&i->b, cache_path(cache));
            buf_printf(&i->b, ", %llu kernels, ", (unsigned long long) totals.kernels);
            size_text(&i->b, totals.bytes);
            buf_printf(&i->b, " of ");
            size_text(&i->b, cache_max(cache));
        } else {
            buf_printf(&i->b, "none: ");
        }
        if (st != ST_OK) {
            buf_printf(&i->b, cache ? "; " : "");
            plain_text(&i->b, err.text);
        }
        buf_printf(&i->b, "\n");
    }
    cache_close(cache);
}

static void add_options(struct info * i) {
    if (i->json) {
        buf_printf(&i->b, ",\n \"options\": {");
    } else {
        head(i, "build options");
    }
    for (int k = 0; k < probe_n_options; k++) {
        const struct probe_option * o = &probe_options[k];
        buf_printf(&i->b, i->json ? "%s\"%s\": %s" : "%s%s=%s", k ? i->json ? ", " : " " : "",
                   o->name,
                   i->json ? o->on ? "true" : "false"
                   : o->on ? "ON"
                           : "OFF");
    }
    buf_printf(&i->b, i->json ? "}" : "\n");
}

static void add_variable(void * user, const struct probe_variable * v) {
    struct info * i = user;
    if (i->json) {
        buf_printf(&i->b, "%s\"%.*s\": ", i->first ? "" : ", ", (int) v->name_size, v->name);
        json_text(&i->b, v->value);
    } else {
        buf_printf(&i->b, "  %s%.*s%s=", i->c.name, (int) v->name_size, v->name, i->c.off);
        plain_text(&i->b, v->value);
        buf_printf(&i->b, "  %s(%s)%s\n", i->c.dim,
                   v->meaning ? v->meaning : "not a variable of ggml-hsa", i->c.off);
    }
    i->first = false;
}

// A variable's name is from outside too: one that is no identifier is left out of JSON keys.
static void add_named_variable(void * user, const struct probe_variable * v) {
    for (size_t k = 0; k < v->name_size; k++) {
        char ch = v->name[k];
        if (!(ch == '_' || (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z') ||
              (ch >= '0' && ch <= '9'))) {
            return;
        }
    }
    add_variable(user, v);
}

static int run(int argc, char ** argv) {
    struct info i = {.c = tool_colours(), .first = true};
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "--json")) {
            return tool_usage(&info_subcommand, "no option '%s'", argv[k]);
        }
        i.json = true;
    }
    struct probe_runtime runtime;
    struct probe_plugin plugin;
    probe_runtime(&runtime);
    probe_plugin(&plugin);

    buf_printf(&i.b, i.json ? "{\"version\": \"%s\"" : "ggml-hsa %s\n", GGML_HSA_VERSION);
    add_runtime(&i, &runtime);
    add_plugin(&i, &plugin);
    add_kernel_dirs(&i);
    add_cache(&i);
    add_options(&i);
    if (i.json) {
        buf_printf(&i.b, ",\n \"environment\": {");
    } else {
        head(&i, "environment");
        buf_printf(&i.b, "\n");
    }
    probe_environment(add_named_variable, &i);
    buf_printf(&i.b, i.json ? "}}\n" : i.first ? "  nothing set\n" : "");
    if (i.b.failed) {
        fprintf(stderr, "ggml-hsa info: out of memory\n");
        return EXIT_BAD_INPUT;
    }
    fwrite(i.b.data, 1, i.b.size, stdout);
    buf_free(&i.b);
    return EXIT_OK;
}

const struct subcommand info_subcommand = {
    .name = "info",
    .summary = "show the runtime, the devices, where kernels are, and what is set",
    .help = "usage: ggml-hsa info [--json]\n\n"
            "Shows the version, the HSA runtime and its NPUs with their memory, the plugin, the\n"
            "directories of kernels, the cache, the build options and the variables that are set.\n"
            "`ggml-hsa doctor` says what is wrong and how to mend it.\n\n"
            "  --json  the same as one JSON object\n\n"
            "exit status: 0, also without an NPU; 2 wrong usage\n",
    .run = run,
};

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
    json_t *root, *environment; // with `json`: the findings
    struct colours c;
    bool any_variable;
};

static void head(struct info * i, const char * title) {
    buf_printf(&i->b, "%s%-20s%s", i->c.head, title, i->c.off);
}

// ---- parts ----

static json_t * device_json(const struct probe_agent * a, int index) {
    json_t * pools = json_object();
    json_put(&pools, "data", json_size(a->data_total));
    json_put(&pools, "device_heap", json_size(a->device_heap));
    json_put(&pools, "kernel_arguments", json_size(a->kernel_arguments));
    json_t * device = json_object();
    json_put(&device, "name", json_sprintf("HSA%d", index));
    json_put(&device, "kind", json_text(a->kind == HSAC_GPU ? "GPU" : "NPU"));
    json_put(&device, "arch", json_text(a->name));
    json_put(&device, "product", json_text(a->product));
    if (*a->driver) {
        json_put(&device, "driver", json_text(a->driver));
    }
    json_put(&device, "memory", json_size(a->data_total));
    json_put(&device, "memory_free", json_size(a->data_free));
    json_put(&device, "pools", pools);
    return device;
}

static void put_runtime(json_t ** root, const struct probe_runtime * r) {
    if (r->err.status != ST_OK) {
        json_put(root, "runtime", json_null());
        json_put(root, "runtime_error", json_text(r->err.text));
    } else {
        json_put(root, "runtime",
                 json_pack("{s:o, s:b, s:b, s:o, s:s#, s:o, s:[ii], s:[ii]}", "path",
                           json_text(r->path), "emulated", r->emulated, "native", r->native,
                           "second", *r->second ? json_text(r->second) : json_null(), "abi",
                           &r->abi, 1, "build", json_text(r->build), "interface", r->interface[0],
                           r->interface[1], "extension", r->extension[0], r->extension[1]));
    }
    json_t * devices = json_array();
    for (int k = 0; k < r->n_agents; k++) {
        json_append(&devices, device_json(&r->agents[k], k));
    }
    json_put(root, "devices", devices);
}

static void add_runtime(struct info * i, const struct probe_runtime * r) {
    if (i->json) {
        put_runtime(&i->root, r);
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
    buf_printf(&i->b, "%s, packet ABI %c, build ",
               r->emulated ? " (emulated)"
               : r->native ? " (this machine's NPU, without ROCr)"
                           : "",
               r->abi);
    plain_text(&i->b, *r->build ? r->build : "unknown");
    buf_printf(&i->b, ", interface %d.%d, AMD extension %d.%d\n", r->interface[0], r->interface[1],
               r->extension[0], r->extension[1]);
    if (*r->second) {
        head(i, "for GPUs");
        plain_text(&i->b, r->second);
        buf_printf(&i->b, "\n");
    }
    for (int k = 0; k < r->n_agents; k++) {
        const struct probe_agent * a = &r->agents[k];
        buf_printf(&i->b, "%sHSA%-17d%s", i->c.head, k, i->c.off);
        plain_text(&i->b, a->product);
        buf_printf(&i->b, " (");
        plain_text(&i->b, a->name);
        if (a->columns) {
            buf_printf(&i->b, ", %d column%s", a->columns, a->columns == 1 ? "" : "s");
        }
        buf_printf(&i->b, "), memory ");
        size_text(&i->b, a->data_free);
        buf_printf(&i->b, " free of ");
        size_text(&i->b, a->data_total);
        if (a->kind == HSAC_NPU) {
            buf_printf(&i->b, ", device heap ");
            size_text(&i->b, a->device_heap);
            buf_printf(&i->b, ", kernel arguments ");
            size_text(&i->b, a->kernel_arguments);
        }
        if (*a->driver) {
            buf_printf(&i->b, "; ");
            plain_text(&i->b, a->driver);
        }
        buf_printf(&i->b, "\n");
    }
}

static void add_plugin(struct info * i, const struct probe_plugin * p,
                       const struct probe_runtime * r) {
    bool ok = p->err.status == ST_OK;
    // What is said of the runtime need not be said twice.
    bool same = r->err.status != ST_OK && r->err.text[0] && strstr(p->said, r->err.text);
    const char * said = same ? "that there is none, as above" : p->said;
    if (i->json) {
        json_put(&i->root, "plugin", *p->path ? json_text(p->path) : json_null());
        json_put(&i->root, "ggml_version", json_text(ok ? p->ggml_version : ""));
        json_put(&i->root, "ggml_api", json_integer(p->api));
        json_put(&i->root, "devices_offered", json_integer(p->devices));
        json_put(&i->root, "plugin_says", json_text(p->said));
        return;
    }
    head(i, "plugin");
    plain_text(&i->b, *p->path ? p->path : "none");
    if (ok) {
        buf_printf(&i->b, " in ggml %s, backend API %d, offers %d device%s%s", p->ggml_version,
                   p->api, p->devices, p->devices == 1 ? "" : "s", *said ? "; it says: " : "");
        plain_text(&i->b, said);
        buf_printf(&i->b, "\n");
    } else {
        buf_printf(&i->b, ": ");
        plain_text(&i->b, p->err.text);
        buf_printf(&i->b, "\n");
    }
}

static void add_kernel_dirs(struct info * i) {
    const char * list = getenv("GGML_HSA_KERNEL_DIR");
    json_t * dirs = i->json ? json_array() : NULL;
    if (!i->json) {
        head(i, "kernel directories");
    }
    int n = 0;
    for (const char * p = list ? list : ""; *p;) {
        size_t size = strcspn(p, ":");
        char * dir = size ? strndup(p, size) : NULL;
        if (dir && i->json) {
            json_append(&dirs, json_text(dir));
        } else if (dir) {
            buf_printf(&i->b, n++ ? ", " : "");
            plain_text(&i->b, dir);
        }
        free(dir);
        p += size + (p[size] == ':');
    }
    if (i->json) {
        json_put(&i->root, "kernel_dirs", dirs);
    } else {
        buf_printf(&i->b, n ? "\n" : "none\n");
    }
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
        json_t * found = cache ? json_object() : json_null();
        if (cache) {
            json_put(&found, "path", json_text(cache_path(cache)));
            json_put(&found, "kernels", json_size(totals.kernels));
            json_put(&found, "bytes", json_size(totals.bytes));
            json_put(&found, "max", json_size(cache_max(cache)));
        }
        json_put(&i->root, "cache", found);
        if (!cache) {
            json_put(&i->root, "cache_error", json_text(err.text));
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
    json_t * options = i->json ? json_object() : NULL;
    if (!i->json) {
        head(i, "build options");
    }
    for (int k = 0; k < probe_n_options; k++) {
        const struct probe_option * o = &probe_options[k];
        if (i->json) {
            json_put(&options, o->name, json_boolean(o->on));
        } else {
            buf_printf(&i->b, "%s%s=%s", k ? " " : "", o->name, o->on ? "ON" : "OFF");
        }
    }
    if (i->json) {
        json_put(&i->root, "options", options);
    } else {
        buf_printf(&i->b, "\n");
    }
}

// A variable's name is from outside too: one that is no identifier is left out.
static bool is_identifier(const struct probe_variable * v) {
    for (size_t k = 0; k < v->name_size; k++) {
        char ch = v->name[k];
        if (!(ch == '_' || (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z') ||
              (ch >= '0' && ch <= '9'))) {
            return false;
        }
    }
    return true;
}

static void add_variable(void * user, const struct probe_variable * v) {
    struct info * i = user;
    if (!is_identifier(v)) {
        return;
    }
    if (i->json) {
        char * name = strndup(v->name, v->name_size);
        json_put(&i->environment, name, json_text(v->value));
        free(name);
        return;
    }
    buf_printf(&i->b, "  %s%.*s%s=", i->c.name, (int) v->name_size, v->name, i->c.off);
    plain_text(&i->b, v->value);
    buf_printf(&i->b, "  %s(%s)%s\n", i->c.dim,
               v->meaning ? v->meaning : "not a variable of ggml-hsa", i->c.off);
    i->any_variable = true;
}

static int run(int argc, char ** argv) {
    struct info i = {.c = tool_colours()};
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

    if (i.json) {
        i.root = json_pack("{s:s}", "version", GGML_HSA_VERSION);
        i.environment = json_object();
    } else {
        buf_printf(&i.b, "ggml-hsa %s\n", GGML_HSA_VERSION);
    }
    add_runtime(&i, &runtime);
    add_plugin(&i, &plugin, &runtime);
    add_kernel_dirs(&i);
    add_cache(&i);
    add_options(&i);
    if (!i.json) {
        head(&i, "environment");
        buf_printf(&i.b, "\n");
    }
    probe_environment(add_variable, &i);
    if (i.json) {
        json_put(&i.root, "environment", i.environment);
        json_print(i.root, JSON_INDENT(2), &i.b);
        json_decref(i.root);
    }
    buf_printf(&i.b, i.json ? "\n" : i.any_variable ? "" : "  nothing set\n");
    if (i.b.failed) {
        fprintf(stderr, "ggml-hsa info: %s\n", json_trouble());
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

// llama-graph: see llama-graph.h. llama.cpp passes structs by value whose fields differ from one
// release to the next: a library of another release than the header's is refused, and so is one
// that has a ggml of its own inside, for whose structs ours would be others.
#include "llama-graph.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef WITH_LLAMA

#    include "gguf.h"
#    include "llama.h"

// ---- the library ----

struct api {
    void (*log_set)(ggml_log_callback callback, void * user);
    void (*load_backends)(const char * directory);
    ggml_backend_dev_t (*device_by_type)(enum ggml_backend_dev_type type);
    struct llama_model_params (*model_params)(void);
    struct llama_context_params (*context_params)(void);
    struct llama_model * (*model_load)(const char * path, struct llama_model_params params);
    struct llama_model * (*model_load_open)(FILE * file, struct llama_model_params params);
    void (*model_free)(struct llama_model * model);
    struct llama_context * (*context_new)(struct llama_model * model,
                                          struct llama_context_params params);
    void (*context_free)(struct llama_context * context);
    llama_memory_t (*memory)(const struct llama_context * context);
    struct ggml_cgraph * (*reserve)(struct llama_context * context, uint32_t tokens,
                                    uint32_t sequences, uint32_t outputs);
    uint32_t (*n_ctx)(const struct llama_context * context);
    int32_t (*n_layer)(const struct llama_model * model);
    int32_t (*n_embd)(const struct llama_model * model);
    const struct llama_vocab * (*vocab)(const struct llama_model * model);
    int32_t (*n_tokens)(const struct llama_vocab * vocab);
    const char * (*version)(void);
};

// In the struct's order. The one that gives the graph is C++'s: its name is as g++ and clang++
// write it.
static const char * const symbols[] = {
    "llama_log_set",
    "ggml_backend_load_all_from_path",
    "ggml_backend_dev_by_type",
    "llama_model_default_params",
    "llama_context_default_params",
    "llama_model_load_from_file",
    "llama_model_load_from_file_ptr",
    "llama_model_free",
    "llama_init_from_model",
    "llama_free",
    "llama_get_memory",
    "_Z19llama_graph_reserveP13llama_contextjjj",
    "llama_n_ctx",
    "llama_model_n_layer",
    "llama_model_n_embd",
    "llama_model_get_vocab",
    "llama_vocab_n_tokens",
    "llama_version",
};
enum { SYMBOLS = sizeof symbols / sizeof symbols[0] };
_Static_assert(sizeof(struct api) == SYMBOLS * sizeof(void *), "a name for each function");

static enum status load_symbols(void * library, struct api * out, struct error * err) {
    for (int i = 0; i < SYMBOLS; i++) {
        void * address = dlsym(library, symbols[i]);
        if (!address) {
            return error_set(err, ST_UNSUPPORTED,
                             "its library has no %s, as that of llama.cpp " LLAMA_BUILT
                             " has, which this tool was built beside; --llama DIR names another",
                             symbols[i]);
        }
        memcpy((char *) out + (size_t) i * sizeof address, &address, sizeof address);
    }
    return ST_OK;
}

// "0.5.0-dev" is of the release 0.5.
static enum status check_release(const struct api * api, void * library, struct error * err) {
    const char *has = api->version(), *wants = LLAMA_BUILT;
    size_t n = strlen(wants);
    if (strncmp(has, wants, n) != 0 || (has[n] && has[n] != '.')) {
        return error_set(err, ST_UNSUPPORTED,
                         "its library is of release %s, and this tool was built beside %s: "
                         "build it beside yours, -DGGML_SOURCE_DIR=<llama.cpp>",
                         has, wants);
    }
    void * ours = dlsym(RTLD_DEFAULT, "ggml_graph_n_nodes");
    if (dlsym(library, "ggml_graph_n_nodes") != ours) {
        return error_set(err, ST_UNSUPPORTED,
                         "its library has a ggml of its own inside; build llama.cpp with shared "
                         "libraries, -DBUILD_SHARED_LIBS=ON");
    }
    return ST_OK;
}

// A directory's library, the file that is named, or what the dynamic linker finds.
static void * open_library(const struct llama_way * way, char * path, size_t size) {
    static const char * const names[] = {"libllama.so.0", "libllama.so"};
    struct stat info;
    void * library = NULL;
    if (way->library && (stat(way->library, &info) != 0 || !S_ISDIR(info.st_mode))) {
        snprintf(path, size, "%s", way->library);
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !library; i++) {
        snprintf(path, size, "%s%s%s", way->library ? way->library : "", way->library ? "/" : "",
                 names[i]);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

static enum status open_api(const struct llama_way * way, void ** library, struct api * api,
                            struct error * err) {
    char path[512];
    *library = open_library(way, path, sizeof path);
    if (!*library) {
        const char * why = dlerror();
        return error_set(err, ST_NOT_FOUND,
                         "its library was not found, %s; --llama DIR says where libllama.so is",
                         why ? why : path);
    }
    enum status st = load_symbols(*library, api, err);
    return st == ST_OK ? check_release(api, *library, err) : st;
}

bool llama_graph_there(const struct llama_way * way, struct error * err) {
    struct api api;
    void * library = NULL;
    bool there = open_api(way, &library, &api, err) == ST_OK;
    if (library) {
        dlclose(library);
    }
    return there;
}

// ---- what it says ----

// The first error that llama.cpp logs, without the function that it comes from: those behind it
// say only that what called it failed as well.
static void keep_error(enum ggml_log_level level, const char * line, void * user) {
    static const char before[] = "error loading model: ";
    char * said = user;
    if (level != GGML_LOG_LEVEL_ERROR || *said) {
        return;
    }
    const char * reason = strstr(line, before);
    const char * name = strstr(line, ": ");
    reason = reason ? reason + sizeof before - 1 : name ? name + 2 : line;
    snprintf(said, 200, "%.*s", (int) strcspn(reason, "\n"), reason);
}

// llama.cpp wants a CPU: a backend beside its own library, or where ggml has its backends.
static enum status load_cpu(const struct api * api, struct error * err) {
    if (api->device_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)) {
        return ST_OK;
    }
    Dl_info info;
    char directory[512] = "";
    void * address;
    memcpy(&address, &api->version, sizeof address);
    if (dladdr(address, &info) && info.dli_fname) {
        snprintf(directory, sizeof directory, "%s", info.dli_fname);
        char * end = strrchr(directory, '/');
        *(end ? end : directory) = '\0';
    }
    char said[200] = "";
    ggml_log_set(keep_error, said);
    api->load_backends(*directory ? directory : NULL);
    if (!api->device_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)) {
        api->load_backends(NULL);
    }
    ggml_log_set(NULL, NULL);
    return api->device_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)
               ? ST_OK
               : error_set(err, ST_NOT_FOUND,
                           "ggml's CPU backend, which llama.cpp wants, is not beside its library "
                           "in %s; put libggml-cpu.so there",
                           directory);
}

// ---- files without weights ----

// How long the file is by its own word, and where its weights begin. False: it is no GGUF file.
static bool said_length(const char * path, uint64_t * weights_at, uint64_t * length) {
    struct gguf_context * g = gguf_init_from_file(path, (struct gguf_init_params){true, NULL});
    if (!g) {
        return false;
    }
    *weights_at = *length = gguf_get_data_offset(g);
    for (int64_t i = 0; i < gguf_get_n_tensors(g); i++) {
        uint64_t end = *weights_at + gguf_get_tensor_offset(g, i) + gguf_get_tensor_size(g, i);
        *length = end > *length ? end : *length;
    }
    gguf_free(g);
    return true;
}

// The beginning of a file says all that is asked here, and llama.cpp wants the rest to be there:
// what is missing is made of holes, in a file that goes when it is closed. NULL: nothing is
// missing, or there is no place for such a file.
static FILE * with_holes(const char * path) {
    uint64_t weights_at, length;
    struct stat info;
    if (stat(path, &info) != 0 || !said_length(path, &weights_at, &length) ||
        (uint64_t) info.st_size >= length || (uint64_t) info.st_size < weights_at) {
        return NULL;
    }
    FILE *from = fopen(path, "rb"), *to = tmpfile();
    char part[65536];
    bool ok = from && to && length <= INT64_MAX;
    for (uint64_t left = weights_at; ok && left > 0;) {
        size_t n = left < sizeof part ? (size_t) left : sizeof part;
        ok = fread(part, 1, n, from) == n && fwrite(part, 1, n, to) == n;
        left -= n;
    }
    ok = ok && fflush(to) == 0 && ftruncate(fileno(to), (off_t) length) == 0;
    if (from) {
        fclose(from);
    }
    if (to && !ok) {
        fclose(to);
    }
    if (ok) {
        rewind(to);
    }
    return ok ? to : NULL;
}

// ---- the graph ----

static struct llama_context * context_of(const struct api * api, struct llama_model * model,
                                         int64_t context, bool whole) {
    struct llama_context_params p = api->context_params();
    p.n_ctx = (uint32_t) context;
    p.n_batch = p.n_ubatch = whole ? (uint32_t) context : 1;
    p.n_seq_max = 1;
    p.embeddings = whole;
    return api->context_new(model, p);
}

static enum status build(const struct api * api, const struct llama_way * way,
                         ggml_backend_dev_t dev, int64_t context, struct llama_graph * out,
                         struct error * err) {
    char said[200] = "";
    ggml_backend_dev_t devices[] = {dev, NULL};
    api->log_set(keep_error, said);
    struct llama_model_params p = api->model_params();
    p.devices = devices;
    p.n_gpu_layers = -1; // all
    p.load_mode = LLAMA_LOAD_MODE_NONE;
    p.no_alloc = true;
    FILE * short_one = with_holes(way->file);
    struct llama_model * model =
        short_one ? api->model_load_open(short_one, p) : api->model_load(way->file, p);
    if (short_one) {
        fclose(short_one);
    }
    struct llama_context * ctx = model ? context_of(api, model, context, false) : NULL;
    bool whole = ctx && !api->memory(ctx); // what remembers nothing takes its text at once
    if (whole) {
        api->context_free(ctx);
        ctx = context_of(api, model, context, true);
    }
    int64_t tokens = whole ? context : 1;
    out->model = model;
    out->context = ctx;
    out->graph = ctx ? api->reserve(ctx, (uint32_t) tokens, 1, (uint32_t) tokens) : NULL;
    api->log_set(NULL, NULL);
    ggml_log_set(NULL, NULL);
    if (!out->graph) {
        return error_set(err, ST_INVALID,
                         "llama.cpp %s cannot use it: %s; is the file whole, and this llama.cpp no "
                         "older than it?",
                         api->version(), *said ? said : "it gives no reason");
    }
    out->facts = (struct graph_facts){.layers = api->n_layer(model),
                                      .embd = api->n_embd(model),
                                      .vocab = api->n_tokens(api->vocab(model)),
                                      .context = api->n_ctx(ctx),
                                      .tokens = tokens};
    snprintf(out->facts.version, sizeof out->facts.version, "%s", api->version());
    return ST_OK;
}

enum status llama_graph_open(const struct llama_way * way, ggml_backend_dev_t dev, int64_t context,
                             struct llama_graph * out, struct error * err) {
    struct api api;
    *out = (struct llama_graph){0};
    enum status st = open_api(way, &out->library, &api, err);
    st = st == ST_OK ? load_cpu(&api, err) : st;
    return st == ST_OK ? build(&api, way, dev, context, out, err) : st;
}

// The library stays: ggml's registry of backends, which it brought along, is not made to go.
void llama_graph_close(struct llama_graph * g) {
    struct api api;
    if (g->library && load_symbols(g->library, &api, NULL) == ST_OK) {
        if (g->context) {
            api.context_free(g->context);
        }
        if (g->model) {
            api.model_free(g->model);
        }
    }
    *g = (struct llama_graph){0};
}

#else

bool llama_graph_there(const struct llama_way * way, struct error * err) {
    (void) way;
    error_set(err, ST_UNSUPPORTED,
              "this tool was built where no llama.h was, or an older one: build it beside "
              "llama.cpp, -DGGML_SOURCE_DIR=<llama.cpp>");
    return false;
}

enum status llama_graph_open(const struct llama_way * way, ggml_backend_dev_t dev, int64_t context,
                             struct llama_graph * out, struct error * err) {
    (void) dev, (void) context;
    *out = (struct llama_graph){0};
    llama_graph_there(way, err);
    return ST_UNSUPPORTED;
}

void llama_graph_close(struct llama_graph * g) {
    (void) g;
}

#endif

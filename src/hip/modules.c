// modules: the kernels that come with the library: their sources, sorted into modules by
// modules.def, and their names.
#include "hip-impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The names that the ops of elementwise.def have in two families.
#define UNARY(name)
#define BINARY(name)
#define AFFINE(name)
#define ELEMENTWISE(id, name, ggml_name, source, inputs, params, npu, gpu, ...) gpu
#define ACTIVATION(name)                                                        #name ","
#define GLU(name)
static const char activations[] = "activation_{"
#include "kernel/elementwise.def"
                                  "}_*";
#undef ACTIVATION
#undef GLU
#define ACTIVATION(name)
#define GLU(name) #name ","
static const char gated_units[] = "glu_{"
#include "kernel/elementwise.def"
                                  "}_*";
#undef UNARY
#undef BINARY
#undef AFFINE
#undef ELEMENTWISE
#undef ACTIVATION
#undef GLU

static const struct {
    const char *name, *source, *types, *kernels;
} modules[] = {
#define MODULE(name, source, types, kernels)     {#name, #source, types, kernels},
#define WITH_GRIDS(name, source, types, kernels) {#name, #source, types, kernels},
#define FAMILY(name, source, types, kernels)     {#name, #source, types, kernels},
#include "modules.def"
#undef MODULE
#undef WITH_GRIDS
#undef FAMILY
};
enum {
#define MODULE(name, source, types, kernels) MODULE_##name,
#include "modules.def"
    WITHOUT_GRIDS, // so many where the build had no tables of ggml's
    BEFORE_GRIDS = WITHOUT_GRIDS - 1,
#undef MODULE
#define MODULE(name, source, types, kernels)
#define WITH_GRIDS(name, source, types, kernels) MODULE_##name,
#include "modules.def"
#undef MODULE
#undef WITH_GRIDS
    MODULES, // each kernel is in one of these; families follow
    ALL_MODULES = sizeof modules / sizeof modules[0],
    MAX_KERNEL = 96
};

int rocm_modules_count(void) {
    return *hip_grids ? MODULES : WITHOUT_GRIDS;
}

const char * rocm_modules_name(int i) {
    return i >= 0 && i < rocm_modules_count() ? modules[i].name : NULL;
}

static int find(const char * name) {
    for (int i = 0; name && i < ALL_MODULES; i++) {
        bool there = i < rocm_modules_count() || i >= MODULES;
        if (there && !strcmp(modules[i].name, name)) {
            return i;
        }
    }
    return -1;
}

// ---- sources ----

// A module's source is its family's, with the choice of types before it. Made when it is asked for,
// and kept.
static char * texts[ALL_MODULES];
static pthread_mutex_t texts_lock = PTHREAD_MUTEX_INITIALIZER;

static char * make_text(int i) { // NULL: no memory
    struct buf text = {0};
    const char * p = modules[i].types;
    if (*p) {
        buf_printf(&text, "#define RK_TYPES(X, ...)");
    }
    while (*p) {
        size_t n = strcspn(p, ",");
        buf_printf(&text, " X(%.*s, ##__VA_ARGS__)", (int) n, p);
        p += n + (p[n] == ',');
    }
    if (i >= WITHOUT_GRIDS && i < MODULES) {
        buf_printf(&text, "\n%s", hip_grids);
    }
    buf_printf(&text, "\n#line 1 \"%s.hip\"\n", modules[i].source);
    for (const struct hip_source * s = hip_sources; s->name; s++) {
        if (!strcmp(s->name, modules[i].source)) {
            buf_append(&text, s->text, strlen(s->text));
        }
    }
    if (text.failed) {
        buf_free(&text);
    }
    return (char *) text.data;
}

const char * rocm_modules_source(const char * name) {
    int i = find(name);
    if (i < 0) {
        return NULL;
    }
    pthread_mutex_lock(&texts_lock);
    texts[i] = texts[i] ? texts[i] : make_text(i);
    const char * text = texts[i];
    pthread_mutex_unlock(&texts_lock);
    return text;
}

bool hip_module_exists(const char * name) {
    return find(name) >= 0;
}

// ---- names ----

struct expansion {
    const char * types;
    char name[MAX_KERNEL];
    bool (*visit)(void * user, const char * kernel);
    void * user;
};

// Writes the rest of a pattern behind the n bytes that stand already, in all ways. False: enough.
static bool expand(struct expansion * e, const char * pattern, size_t n) {
    for (; *pattern && *pattern != '{' && *pattern != '*'; pattern++) {
        e->name[n++] = *pattern;
    }
    if (!*pattern) {
        e->name[n] = '\0';
        return e->visit(e->user, e->name);
    }
    const char * words = *pattern == '*' ? e->types : pattern + 1;
    const char * rest = *pattern == '*' ? pattern + 1 : strchr(pattern, '}') + 1;
    for (const char * end = *pattern == '*' ? words + strlen(words) : rest - 1; words < end;) {
        size_t length = strcspn(words, ",}");
        memcpy(e->name + n, words, length);
        if (!expand(e, rest, n + length)) {
            return false;
        }
        words += length + 1;
    }
    return true;
}

void rocm_modules_kernels(const char * module, bool (*visit)(void * user, const char * kernel),
                          void * user) {
    int i = visit ? find(module) : -1;
    if (i >= 0) {
        struct expansion e = {.types = modules[i].types, .visit = visit, .user = user};
        expand(&e, modules[i].kernels, 0);
    }
}

struct search {
    const char * kernel;
    bool found;
};

static bool compare(void * user, const char * kernel) {
    struct search * s = user;
    s->found = !strcmp(s->kernel, kernel);
    return !s->found;
}

const char * rocm_modules_find(const char * kernel) {
    for (int i = 0; kernel && i < rocm_modules_count(); i++) {
        struct search s = {.kernel = kernel};
        rocm_modules_kernels(modules[i].name, compare, &s);
        if (s.found) {
            return modules[i].name;
        }
    }
    return NULL;
}

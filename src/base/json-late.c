// json-late: the functions of jansson that are used here, under the names of its header, each a
// call into the library, which is opened when the first of them is called. So the plugin loads
// where there is no jansson (a minimal system has none): only packs with a manifest, recordings and
// the tools' JSON want it, and they say so.
//
// Kept true: without the library every function returns NULL or 0, which is what jansson itself
// returns for want of memory, and json_library says why.
#include "json.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#ifndef JANSSON_LIBRARY
#    define JANSSON_LIBRARY "libjansson.so.4"
#endif

// A row for each: what it returns, its name, its parameters, and them again as arguments. What is
// called and is not here fails to link.
#define FUNCTIONS(X)                                                                               \
    X(json_t *, json_array, (void), ())                                                            \
    X(int, json_array_append_new, (json_t * a, json_t * v), (a, v))                                \
    X(json_t *, json_array_get, (const json_t * a, size_t i), (a, i))                              \
    X(size_t, json_array_size, (const json_t * a), (a))                                            \
    X(int, json_dump_callback,                                                                     \
      (const json_t * v, json_dump_callback_t callback, void * user, size_t flags),                \
      (v, callback, user, flags))                                                                  \
    X(int, json_equal, (const json_t * a, const json_t * b), (a, b))                               \
    X(json_t *, json_false, (void), ())                                                            \
    X(json_t *, json_integer, (json_int_t n), (n))                                                 \
    X(json_int_t, json_integer_value, (const json_t * v), (v))                                     \
    X(json_t *, json_loadb, (const char * text, size_t n, size_t flags, json_error_t * why),       \
      (text, n, flags, why))                                                                       \
    X(json_t *, json_null, (void), ())                                                             \
    X(json_t *, json_object, (void), ())                                                           \
    X(json_t *, json_object_get, (const json_t * o, const char * key), (o, key))                   \
    X(void *, json_object_iter, (json_t * o), (o))                                                 \
    X(const char *, json_object_iter_key, (void * at), (at))                                       \
    X(void *, json_object_iter_next, (json_t * o, void * at), (o, at))                             \
    X(json_t *, json_object_iter_value, (void * at), (at))                                         \
    X(void *, json_object_key_to_iter, (const char * key), (key))                                  \
    X(int, json_object_set_new, (json_t * o, const char * key, json_t * v), (o, key, v))           \
    X(size_t, json_object_size, (const json_t * o), (o))                                           \
    X(json_t *, json_real, (double n), (n))                                                        \
    X(double, json_real_value, (const json_t * v), (v))                                            \
    X(json_t *, json_string, (const char * text), (text))                                          \
    X(size_t, json_string_length, (const json_t * v), (v))                                         \
    X(const char *, json_string_value, (const json_t * v), (v))                                    \
    X(json_t *, json_true, (void), ())                                                             \
    X(json_t *, json_vpack_ex,                                                                     \
      (json_error_t * why, size_t flags, const char * format, va_list args),                       \
      (why, flags, format, args))                                                                  \
    X(json_t *, json_vsprintf, (const char * format, va_list args), (format, args))

// ---- the library ----

static struct {
#define FIELD(type, name, parameters, arguments) type(*name) parameters;
    FUNCTIONS(FIELD)
#undef FIELD
    void (*json_delete)(json_t * v);
} library; // written once

static pthread_once_t opened = PTHREAD_ONCE_INIT;
static struct error failure; // status ST_OK: it is there

static void open_library(void) {
    void * handle = dlopen(JANSSON_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        error_set(&failure, ST_NOT_FOUND,
                  "JSON wants jansson, which is not here: %.300s; install libjansson4", dlerror());
        return;
    }
    const char * missing = NULL;
    void * address;
#define FIND(name)                                                                                 \
    address = dlsym(handle, #name);                                                                \
    memcpy(&library.name, &address, sizeof address);                                               \
    missing = address ? missing : #name;
#define FIND_ROW(type, name, parameters, arguments) FIND(name)
    FUNCTIONS(FIND_ROW)
    FIND(json_delete)
    if (missing) {
        error_set(&failure, ST_UNSUPPORTED,
                  JANSSON_LIBRARY " lacks %s; install jansson 2.11 or later", missing);
        memset(&library, 0, sizeof library);
        dlclose(handle);
    }
}

enum status json_library(struct error * err) {
    pthread_once(&opened, open_library);
    if (failure.status != ST_OK && err) {
        *err = failure;
    }
    return failure.status;
}

const char * json_trouble(void) {
    return json_library(NULL) == ST_OK ? "out of memory" : failure.text;
}

// ---- its functions ----

#define CALL(type, name, parameters, arguments)                                                    \
    type name parameters {                                                                         \
        return json_library(NULL) == ST_OK ? library.name arguments : (type) 0;                    \
    }
FUNCTIONS(CALL)

void json_delete(json_t * v) {
    if (json_library(NULL) == ST_OK) {
        library.json_delete(v);
    }
}

json_t * json_pack(const char * format, ...) {
    va_list args;
    va_start(args, format);
    json_t * value = json_vpack_ex(NULL, 0, format, args);
    va_end(args);
    return value;
}

json_t * json_sprintf(const char * format, ...) {
    va_list args;
    va_start(args, format);
    json_t * value = json_vsprintf(format, args);
    va_end(args);
    return value;
}

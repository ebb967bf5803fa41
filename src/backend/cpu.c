// cpu: finding ggml's CPU backend. The plugin depends on libggml-base alone; the registry is in
// libggml, which loaded us, and the CPU backend in a library of its own that may have been opened
// privately. Both are reached through what the process has already loaded; nothing is loaded here.
//
// That a copy into a quantized type agrees with the CPU backend bit by bit is not a nicety: a cache
// of keys and values in q8_0 is written by whoever computes the node. Its way of rounding depends
// on the instructions that it was built for, so it is asked for its own function instead of being
// imitated.
#include "cpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "ggml-cpu.h"

// ---- ggml's registry ----

// Found once, then never changed.
static ggml_backend_dev_t (*dev_by_type)(enum ggml_backend_dev_type type);
static pthread_once_t dev_by_type_once = PTHREAD_ONCE_INIT;

static void find_registry(void) {
    static const char symbol[] = "ggml_backend_dev_by_type";
    void * address = dlsym(RTLD_DEFAULT, symbol);
    if (!address) { // a host that keeps its libraries to itself, as scripting languages do
        void * ggml = dlopen("libggml.so.0", RTLD_NOW | RTLD_NOLOAD);
        address = ggml ? dlsym(ggml, symbol) : NULL;
    }
    memcpy(&dev_by_type, &address, sizeof address);
}

ggml_backend_dev_t cpu_device(void) {
    pthread_once(&dev_by_type_once, find_registry);
    return dev_by_type ? dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) : NULL;
}

// ---- its conversions ----

typedef const struct ggml_type_traits_cpu * (*traits_fn)(enum ggml_type type);

// Goes from an address that the backend gives out to the library that holds it, and to the function
// there. Of several builds in one process this is the registered one. The library stays open from
// here on, so that the function outlives an unloaded backend.
static traits_fn find_traits(ggml_backend_dev_t device) {
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(device);
    void * inside =
        reg ? ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads") : NULL;
    Dl_info info;
    void * library = inside && dladdr(inside, &info) && info.dli_fname
                         ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD)
                         : NULL;
    // A program with the backend linked in has no library of that name, and may export the
    // function.
    void * address = dlsym(library ? library : RTLD_DEFAULT, "ggml_get_type_traits_cpu");
    traits_fn traits;
    memcpy(&traits, &address, sizeof address);
    return traits;
}

ggml_from_float_t cpu_from_float(enum ggml_type type) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static ggml_backend_dev_t known; // the device that these are of
    static traits_fn traits;
    ggml_backend_dev_t device = cpu_device();
    ggml_from_float_t found = NULL;
    pthread_mutex_lock(&lock);
    if (device != known) {
        known = device;
        traits = device ? find_traits(device) : NULL;
    }
    found = traits ? traits(type)->from_float : NULL;
    pthread_mutex_unlock(&lock);
    return found ? found : ggml_get_type_traits(type)->from_float_ref;
}

// registry: the door through which ggml comes in. It makes sure that the ggml in this process has a
// layout that we know, opens the HSA runtime once and lists its NPUs and GPUs. What it builds is
// the one piece of state that ggml wants to live as long as the process; after the first call it
// never changes.
#include "backend/backend.h"
#include "base/variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- which ggml is this? ----

// Weak: a ggml that lacks the first is too old to be asked, the second came with backend API 3.
#pragma weak ggml_version
#pragma weak ggml_backend_buft_alloc_buffer_n
GGML_API ggml_backend_buffer_t ggml_backend_buft_alloc_buffer_n(ggml_backend_buffer_type_t buft,
                                                                struct ggml_tensor ** tensors,
                                                                int n);

// What each of them rests on is in docs/hosts.md.
static const struct {
    int major, minor, api;
} known[] = {
    {0, 23, 2}, {0, 24, 2}, {0, 25, 2}, {0, 26, 3}, {0, 27, 3},
};

static bool numbers_agree(const char * version) {
    struct error why;
    if (enums_check(&why) == ST_OK && enums_check_tensor(&why) == ST_OK) {
        return true;
    }
    log_error("ggml %s is not as its headers have it: %s; build the plugin with the headers of "
              "the ggml that loads it",
              version, why.text);
    return false;
}

// The backend API version, or 0 and a logged line when this ggml is not one that we know: its
// structs may be laid out otherwise, and then the process would crash where it could go on without
// us.
static int abi_detect(void) {
    const char * version = ggml_version ? ggml_version() : "of unknown version";
    int api = ggml_backend_buft_alloc_buffer_n ? 3 : 2;
    int major, minor;
    if (sscanf(version, "%d.%d", &major, &minor) == 2) {
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            if (known[i].major == major && known[i].minor == minor && known[i].api == api) {
                return numbers_agree(version) ? api : 0;
            }
        }
    }
    log_error(
        "ggml %s (backend API %d) is not supported; this plugin knows the layouts of ggml 0.23 to "
        "0.25 (API 2) and of 0.26 and 0.27 (API 3), and does not load into another",
        version, api);
    return 0;
}

// ---- the registry entry ----

struct hsa_registry {
    struct ggml_backend_reg base; // first: ggml's handle is this address
    struct hsac * runtimes[HSAC_RUNTIMES];
    int n_runtimes;
    int n_devices;
    struct hsa_device * devices[GGML_HSA_MAX_DEVICES];
};

static struct hsa_registry registry;
static pthread_once_t registry_once = PTHREAD_ONCE_INIT;

static const char * reg_get_name(ggml_backend_reg_t reg) {
    (void) reg;
    return GGML_HSA_NAME;
}

static size_t reg_get_device_count(ggml_backend_reg_t reg) {
    return (size_t) ((struct hsa_registry *) reg)->n_devices;
}

static ggml_backend_dev_t reg_get_device(ggml_backend_reg_t reg, size_t index) {
    struct hsa_registry * r = (struct hsa_registry *) reg;
    return index < (size_t) r->n_devices ? &r->devices[index]->base : NULL;
}

static void * reg_get_proc_address(ggml_backend_reg_t reg, const char * name) {
    static const struct {
        const char * name;
        void (*function)(void);
    } functions[] = {
        {"ggml_backend_hsa_get_stats", (void (*)(void)) ggml_backend_hsa_get_stats},
        {"ggml_backend_hsa_get_counters", (void (*)(void)) ggml_backend_hsa_get_counters},
        {"ggml_backend_hsa_get_account", (void (*)(void)) ggml_backend_hsa_get_account},
        {"ggml_backend_hsa_why_not", (void (*)(void)) ggml_backend_hsa_why_not},
        {"ggml_backend_hsa_clear_profile", (void (*)(void)) ggml_backend_hsa_clear_profile},
    };
    (void) reg;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (!strcmp(name, functions[i].name)) {
            void * address; // POSIX lets a function pointer pass as data pointer, ISO C has no cast
                            // for it
            memcpy(&address, &functions[i].function, sizeof address);
            return address;
        }
    }
    return NULL;
}

// Hardware contexts and buffers go before the process does, unless the program still holds some.
// Registered behind hsa_init, so that it runs before what the runtime itself does at exit.
static void close_at_exit(void) {
    if (registry.n_devices && hsac_check_fork(registry.devices[0]->agent, NULL) != ST_OK) {
        return; // the parent does it
    }
    for (int i = 0; i < registry.n_devices; i++) {
        profile_print(registry.devices[i]->profile); // of streams that nobody freed
    }
    for (int i = 0; i < registry.n_runtimes; i++) {
        if (registry.runtimes[i] && !hsac_in_use(registry.runtimes[i])) {
            hsac_close(registry.runtimes[i]);
            registry.runtimes[i] = NULL;
        }
    }
}

static void registry_add_agents(int api, struct hsac * runtime) {
    struct error err = {0};
    log_info("runtime %s%s", hsac_runtime_path(runtime),
             hsac_is_emulated(runtime) ? " (emulated)"
             : hsac_is_native(runtime) ? " (this machine's NPU, without ROCr)"
                                       : "");
    int n = hsac_agent_count(runtime);
    for (int i = 0; i < n && registry.n_devices < GGML_HSA_MAX_DEVICES; i++) {
        struct hsa_device * device = device_new(&registry.base, api, registry.n_devices, runtime,
                                                hsac_agent_get(runtime, i), &err);
        if (!device) {
            log_warn("a device is left out: %s", err.text);
            continue;
        }
        registry.devices[registry.n_devices++] = device;
        log_info("%s: %s%s", device->name, device->description,
                 device->fallback == FALLBACK_PROMISED ? ", unsupported ops on the CPU" : "");
    }
}

static void registry_add_devices(int api) {
    struct error err = {0};
    if (hsac_open_all(registry.runtimes, &registry.n_runtimes, &err) != ST_OK) {
        log_warn("no device: %s", err.text);
        return;
    }
    atexit(close_at_exit);
    for (int i = 0; i < registry.n_runtimes; i++) {
        registry_add_agents(api, registry.runtimes[i]);
    }
    share_devices(registry.devices, registry.n_devices);
}

static void warn_of_value(void * user, const struct variable * v, const char * value) {
    char phrase[256];
    (void) user;
    variable_phrase(v, phrase, sizeof phrase);
    if (!v->said) {
        log_warn("%s=%.40s is ignored: it takes %s", v->name, value, phrase);
    }
}

static void registry_build(void) {
    int api = abi_detect();
    if (api == 0) {
        return; // api_version stays 0: refused
    }
    variables_wrong(warn_of_value, NULL);
    registry.base = (struct ggml_backend_reg){
        .api_version = api,
        .iface = {
            /* .get_name         = */ reg_get_name,
            /* .get_device_count = */ reg_get_device_count,
            /* .get_device       = */ reg_get_device,
            /* .get_proc_address = */ reg_get_proc_address,
        },
    };
    registry_add_devices(api);
}

// ---- public interface ----

ggml_backend_reg_t ggml_backend_hsa_reg(void) {
    pthread_once(&registry_once, registry_build);
    return registry.base.api_version ? &registry.base : NULL;
}

static struct hsa_device * nth_device(int index) {
    ggml_backend_reg_t reg = ggml_backend_hsa_reg();
    return reg && index >= 0 && index < registry.n_devices ? registry.devices[index] : NULL;
}

int ggml_backend_hsa_get_device_count(void) {
    return ggml_backend_hsa_reg() ? registry.n_devices : 0;
}

int ggml_backend_hsa_missing_ops(int device, char * text, size_t size) {
    const struct hsa_device * d = nth_device(device);
    struct buf names = {0};
    int n = 0;
    for (int op = 0; d && op < GGML_OP_COUNT; op++) {
        if (!d->kind->has((enum ggml_op) op)) {
            buf_printf(&names, "%s%s", n ? " " : "", ggml_op_name((enum ggml_op) op));
            n++;
        }
    }
    snprintf(text, size, "%s", names.data ? (const char *) names.data : "");
    buf_free(&names);
    return d ? n : -1;
}

ggml_backend_t ggml_backend_hsa_init(int device) {
    struct hsa_device * d = nth_device(device);
    if (!d) {
        log_error("there is no device %d, only %d", device, ggml_backend_hsa_get_device_count());
        return NULL;
    }
    return stream_new(d);
}

ggml_backend_buffer_type_t ggml_backend_hsa_buffer_type(int device) {
    struct hsa_device * d = nth_device(device);
    return d ? buft_handle(&d->buft) : NULL;
}

ggml_backend_buffer_type_t ggml_backend_hsa_host_buffer_type(int device) {
    struct hsa_device * d = nth_device(device);
    return d ? buft_handle(&d->host_buft) : NULL;
}

// What ggml's loader looks for in a plugin.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_init(void);
GGML_BACKEND_API int ggml_backend_score(void);

ggml_backend_reg_t ggml_backend_init(void) {
    return ggml_backend_hsa_reg();
}

int ggml_backend_score(void) {
    return 1;
}

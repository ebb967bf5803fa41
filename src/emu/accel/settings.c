// settings: what is played, and how strictly. One table, read from the environment whenever the
// device goes from no open file to one; docs/rocr.md explains it. A variable that begins with
// ACCEL_EMU_ and is not in the table is an error, for a limit that was misspelt is a limit that was
// not tested.
#include "accel.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern char ** environ;

#define PREFIX "ACCEL_EMU_"

// clang-format off
#define XDNA2(id, title, version, newer)                                                           \
    {.name = id, .product = {"RyzenAI-" id, title}, .pci = 0x17f0, .revision = version,            \
     .arch = AIE_ARCH_AIE2P, .columns = 8, .machine_columns = 8, .contexts = {32, 16},             \
     .whole_array = true, .heap_max = ACCEL_HEAP_MAX, .health = true, .aie_version = "1.1",        \
     .firmware = {"1.0.0.166", newer}, .npu_mhz = 1267, .h_mhz = 1800}
// clang-format on

// The device's figures are those of the driver; the firmware's versions are ones that were shipped.
static const struct accel_model models[] = {
    {.name = "npu1",
     .product = {"RyzenAI-npu1", "RyzenAI-npu1"},
     .pci = 0x1502,
     .revision = 0x00,
     .arch = AIE_ARCH_AIE2,
     .columns = 5,
     .first_column = 1,
     .machine_columns = 4,
     .contexts = {6, 6},
     .heap_max = ACCEL_HEAP_BYTES,
     .aie_version = "1.1",
     .firmware = {"1.5.5.391", "1.5.5.391"},
     .npu_mhz = 847,
     .h_mhz = 1600},
    XDNA2("npu4", "NPU Strix", 0x10, "1.1.2.64"),
    XDNA2("npu5", "NPU Strix Halo", 0x11, "1.1.2.65"),
    XDNA2("npu6", "NPU Krackan", 0x20, "1.1.2.64"),
};

enum kind { NUMBER, TEXT, KERNEL, DEVICE, ERROR, FAULTS };

#define NUM(field) NUMBER, offsetof(struct accel_settings, field), sizeof(uint64_t)
#define TXT(field)                                                                                 \
    TEXT, offsetof(struct accel_settings, field), sizeof(((struct accel_settings *) 0)->field)

static const struct setting {
    const char * name;
    enum kind kind;
    size_t offset, size;
    const char * fallback; // NULL: the kernel's
    uint64_t min, max;
} settings[] = {
    {"KERNEL", KERNEL, 0, 0, "7.2", 0, 0},
    {"DEVICE", DEVICE, 0, 0, "npu1", 0, 0},
    {"HEAP_BYTES", NUM(heap_bytes), "64M", 4096, 64 << 20},
    {"HEAP_START", NUM(heap_start), "0", 0, 64 << 20},
    {"HEAP_ALIGN", NUM(heap_align), "32K", 4096, 1 << 20},
    {"CHAIN_BYTES", NUM(chain_bytes), NULL, 16, 1 << 20},
    {"SLOT_BYTES", NUM(slot_bytes), "0", 0, 52}, // 0: as the protocol has it
    {"ODD_ARGS", NUM(odd_args), "1", 0, 1},
    {"WAIT_MS", NUM(wait_ms), "0", 0, UINT32_MAX}, // 0: the caller's
    {"WATCHDOG_MS", NUM(watchdog_ms), "2000", 1, UINT32_MAX},
    {"MHZ", NUM(mhz), "0", 0, 100000}, // 0: the clock's
    {"CONTEXT_IDS", NUM(context_ids), NULL, 1, 1024},
    {"CONTEXTS", NUM(contexts), "0", 0, 1024}, // 0: as many as the device has
    {"FIRMWARE", TXT(firmware), "", 0, 0},     // "": the device's
    {"WAIT_FAILED", ERROR, offsetof(struct accel_settings, wait_failed), 0, "", 0, 0},
    {"FAIL", FAULTS, 0, 0, "", 0, 0},
    {"CU_PADDING", NUM(cu_padding), NULL, 0, 1},
    {"LATE_US", NUM(late_us), NULL, 0, 1000000},
    {"IDLE_MS", NUM(idle_ms), NULL, 0, UINT32_MAX},
    {"CACHES", NUM(caches), "0", 0, 1},
    {"SEED", NUM(seed), "1", 0, UINT32_MAX},
    {"SHARED", TXT(shared), "", 0, 0}, // "": this process and its children

    {"QUIET", NUM(quiet), "0", 0, 1},
    {"MODELLED_TIME", NUM(modelled_time), "0", 0, 1},
    {"REPORT", TXT(report), "", 0, 0},
    {"TRACE", TXT(trace), "", 0, 0},
};
enum { N_SETTINGS = sizeof settings / sizeof settings[0] };

static int error_number(const char * text, size_t n) {
    for (int e = 1; e < 200; e++) {
        const char * name = strerrorname_np(e);
        if (name && strlen(name) == n && !memcmp(name, text, n)) {
            return e;
        }
    }
    return 0;
}

// 4096, 4K, 64M or 0x1000.
static bool number(const char * text, uint64_t * out) {
    char * end;
    errno = 0;
    if (!isdigit((unsigned char) *text)) {
        return false;
    }
    unsigned long long v = strtoull(text, &end, 0);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : 0;
    if (errno || end[shift != 0] || v > UINT64_MAX >> shift) {
        return false;
    }
    *out = (uint64_t) v << shift;
    return true;
}

// One of NAME:N:ERROR, NAME:N+:ERROR for a fault that stays, or NAME:%N:ERROR for each N-th call.
static bool fault(const char * text, size_t n, struct accel_fault * f) {
    const char * colon = memchr(text, ':', n);
    size_t name = colon ? (size_t) (colon - text) : 0;
    if (name == 0 || name >= sizeof f->name) {
        return false;
    }
    memcpy(f->name, text, name);
    f->name[name] = '\0';
    char * end;
    f->every = colon[1] == '%';
    const char * digits = colon + 1 + f->every;
    f->call = strtoull(digits, &end, 10);
    f->stays = *end == '+' && !f->every;
    end += f->stays;
    if (!isdigit((unsigned char) *digits) || f->call == 0 || *end != ':' || end > text + n) {
        return false;
    }
    f->error = error_number(end + 1, n - (size_t) (end + 1 - text));
    return f->error != 0;
}

static enum status faults(struct accel_settings * s, const char * text, struct error * err) {
    while (*text) {
        size_t n = strcspn(text, ",");
        if (s->n_faults == ACCEL_MAX_FAULTS || !fault(text, n, &s->faults[s->n_faults])) {
            return error_set(err, ST_INVALID,
                             PREFIX "FAIL: '%.*s': expected NAME:N:ERROR, such as EXEC_CMD:17:EIO, "
                                    "NAME:N+:ERROR for a fault that stays, or NAME:%%N:ERROR for "
                                    "each N-th call; at most %d of them",
                             (int) n, text, ACCEL_MAX_FAULTS);
        }
        s->n_faults++;
        text += n + (text[n] == ',');
    }
    return ST_OK;
}

static enum status device(struct accel_settings * s, const char * text, struct error * err) {
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        if (!strcmp(models[i].name, text)) {
            s->model = &models[i];
            return ST_OK;
        }
    }
    return error_set(err, ST_INVALID, PREFIX "DEVICE=%.40s: expected npu1, npu4, npu5 or npu6",
                     text);
}

static enum status read_one(struct accel_settings * s, const struct setting * t, const char * text,
                            struct error * err) {
    void * field = (char *) s + t->offset;
    uint64_t v;
    switch (t->kind) {
    case KERNEL:
        s->kernel = accel_kernel_find(text);
        return s->kernel ? ST_OK
                         : error_set(err, ST_INVALID,
                                     PREFIX "KERNEL=%.40s: expected 6.14, 6.18, 7.0, 7.2 or legacy",
                                     text);
    case DEVICE:
        return device(s, text, err);
    case FAULTS:
        return faults(s, text, err);
    case ERROR:
        *(int *) field = *text ? error_number(text, strlen(text)) : 0;
        return !*text || *(int *) field
                   ? ST_OK
                   : error_set(err, ST_INVALID,
                               PREFIX "%s=%.40s: expected the name of an error, such as EIO",
                               t->name, text);
    case TEXT:
        return (size_t) snprintf(field, t->size, "%s", text) < t->size
                   ? ST_OK
                   : error_set(err, ST_INVALID, PREFIX "%s: longer than %zu bytes", t->name,
                               t->size - 1);
    default:
        if (!text) {
            v = ACCEL_KERNELS;
        } else if (!number(text, &v) || v < t->min || v > t->max) {
            return error_set(err, ST_INVALID,
                             PREFIX "%s=%.40s: expected a number from %llu to %llu", t->name, text,
                             (unsigned long long) t->min, (unsigned long long) t->max);
        }
        memcpy(field, &v, sizeof v);
        return ST_OK;
    }
}

static const char * unknown(void) {
    for (char ** e = environ; e && *e; e++) {
        if (strncmp(*e, PREFIX, strlen(PREFIX)) != 0) {
            continue;
        }
        const char * name = *e + strlen(PREFIX);
        bool known = false;
        for (int i = 0; i < N_SETTINGS; i++) {
            size_t n = strlen(settings[i].name);
            known |= !strncmp(name, settings[i].name, n) && name[n] == '=';
        }
        if (!known) {
            return *e;
        }
    }
    return NULL;
}

// What nobody set is as the kernel and the device have it.
static void fill_in(struct accel_settings * s) {
    const struct accel_kernel * k = s->kernel;
    const struct {
        uint64_t * setting;
        uint64_t value;
    } rows[] = {
        {&s->chain_bytes, k->chain_bytes}, {&s->context_ids, k->context_ids},
        {&s->cu_padding, k->upstream},     {&s->late_us, k->upstream ? 50 : 0},
        {&s->idle_ms, k->idle_ms},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (*rows[i].setting == ACCEL_KERNELS) {
            *rows[i].setting = rows[i].value;
        }
    }
    if (s->caches && !k->upstream) {
        s->caches = 0;
        s->no_caches = true;
    }
    if (s->slot_bytes == 0) {
        s->slot_bytes = k->npu_command ? 52 : 8;
    }
    if (s->contexts == 0) {
        s->contexts = s->model->contexts[k->upstream];
    }
    if (!*s->firmware) {
        snprintf(s->firmware, sizeof s->firmware, "%s", s->model->firmware[k->firmware7]);
    }
}

enum status accel_settings_read(struct accel_settings * s, struct error * err) {
    struct accel_settings fresh = {0};
    const char * stranger = unknown();
    if (stranger) {
        return error_set(err, ST_INVALID,
                         "%.*s: there is no such setting; docs/rocr.md has the list",
                         (int) strcspn(stranger, "="), stranger);
    }
    for (int i = 0; i < N_SETTINGS; i++) {
        char name[64];
        snprintf(name, sizeof name, PREFIX "%s", settings[i].name);
        const char * text = getenv(name);
        enum status st =
            read_one(&fresh, &settings[i], text && *text ? text : settings[i].fallback, err);
        if (st != ST_OK) {
            return st;
        }
    }
    fill_in(&fresh);
    fresh.strict = env_flag("GGML_HSA_EMU_STRICT", false);
    enum status st = emu_clock_get(fresh.model->arch, &fresh.clock, err);
    if (st != ST_OK) {
        return st;
    }
    if (fresh.mhz == 0) {
        fresh.mhz = fresh.clock.mhz;
    }
    *s = fresh;
    return ST_OK;
}

// fuzz-env: arbitrary bytes as what people and programs say in a few words: values of environment
// variables, names of GPUs and versions, and what compilers print of themselves. The first byte
// says which. A value is taken as it can be written again, or refused with its name in the message.
#include "fuzz.h"

#include "emu/accel/accel.h"
#include "emu/aie/clock.h"
#include "emu/aie/machine.h"
#include "hip/hip-impl.h"
#include "kernel/kernel.h"

#include <stdio.h>

const int fuzz_rounds = 3000;
const int fuzz_longest = 100;

// setenv keeps every value that it was ever given; a variable of ours is changed in place.
enum { NAME = 24, ROOM = NAME + 1 + 8192 };
static char variable[ROOM] = "GGML_HSA_FUZZ_VARIABLE_X=";
static char clock_variable[ROOM], adder_variable[ROOM], precision_variable[ROOM];

static void set(char * to, const char * name, const char * value) {
    bool first = !*to;
    snprintf(to, ROOM, "%s=%.4096s", name, value);
    if (first && putenv(to)) {
        abort();
    }
}

static void refused(const struct error * err, const char * name) {
    if (!strstr(err->text, name)) {
        abort();
    }
}

// ---- each takes a text that ends ----

static void size_of_cache(const char * text) {
    static bool begun;
    uint64_t out = 0;
    struct error err = {0};
    if (!begun && putenv(variable)) {
        abort();
    }
    begun = true;
    snprintf(variable + NAME, ROOM - NAME, "=%.4096s", text);
    variable[NAME] = '=';
    if (keep_size("GGML_HSA_FUZZ_VARIABLE_X", 77, &out, &err) != ST_OK) {
        refused(&err, "GGML_HSA_FUZZ_VARIABLE_X");
    } else if (!*text) {
        if (out != 77) {
            abort();
        }
    } else { // digits, and at most one letter
        static const char units[] = "KMGTkmgt";
        size_t n = strspn(text, "0123456789");
        const char * unit = text[n] ? strchr(units, text[n]) : NULL;
        int shift = unit ? 10 * (1 + (int) (unit - units) % 4) : 0;
        if (!n || (text[n] && (!unit || text[n + 1])) || out & ((UINT64_C(1) << shift) - 1) ||
            out >> shift != strtoull(text, NULL, 10)) {
            abort();
        }
    }
    bool flag = env_flag("GGML_HSA_FUZZ_VARIABLE_X", true);
    if (!*text && !flag) {
        abort();
    }
}

static void clock_setting(const char * text) {
    struct emu_clock clock;
    struct error err = {0};
    set(clock_variable, "GGML_HSA_EMU_CLOCK", text);
    if (emu_clock_get(AIE_ARCH_AIE2, &clock, &err) != ST_OK) {
        refused(&err, "GGML_HSA_EMU_CLOCK");
        return;
    }
    // 0 says that memory has no limit; nobody gets there without saying so.
    bool limitless = strstr(text, "ideal") || strstr(text, "ddr=");
    if (clock.mhz < 1 || clock.mhz > 100000 ||
        (!limitless && (!clock.ddr_read || !clock.ddr_write))) {
        abort();
    }
}

static void words(const char * text) {
    enum emu_adder adder;
    enum kernel_precision precision;
    enum aie_arch arch;
    enum dtype dtype;
    struct error err = {0};
    set(adder_variable, "GGML_HSA_EMU_ADDER", text);
    if (emu_adder_get(&adder, &err) != ST_OK) {
        refused(&err, "GGML_HSA_EMU_ADDER");
    }
    set(precision_variable, "GGML_HSA_PRECISION", text);
    if (kernel_precision_asked(&precision) && *text &&
        strcmp(kernel_precision_name(precision), text)) {
        abort();
    }
    if (kernel_arch_parse(text, &arch) && strcmp(kernel_arch_name(arch), text)) {
        abort();
    }
    if (dtype_parse(text, &dtype) && strcmp(dtype_name(dtype), text)) {
        abort();
    }
}

static void gpu_names(const char * text) {
    char arch[HIP_ARCH_MAX], again[HIP_ARCH_MAX], version[HIP_VERSION_MAX];
    struct error err = {0};
    if (hip_arch_parse(text, arch, &err) == ST_OK) {
        if (strspn(arch, "gfxabcde0123456789") != strlen(arch) || !strstr(text, arch) ||
            hip_arch_parse(arch, again, &err) != ST_OK || strcmp(arch, again)) {
            abort();
        }
    } else if (!err.text[0]) {
        abort();
    }
    if (hip_version_parse(text, version, &err) == ST_OK &&
        (strspn(version, ".0123456789") != strlen(version) || !strstr(text, version))) {
        abort();
    }
    if (hip_name_check(text, &err) == ST_OK && (strchr(text, '/') || strchr(text, '.'))) {
        abort();
    }
}

static void printed(const char * text) {
    char arch[HIP_ARCH_MAX], version[HIP_VERSION_MAX];
    if (hip_arch_from_rocminfo(text, arch) && hip_arch_parse(arch, arch, NULL) != ST_OK) {
        abort();
    }
    if (hip_version_from_hipcc(text, version) && hip_version_parse(version, version, NULL)) {
        abort();
    }
    if (hip_version_from_clang(text, version) && hip_version_parse(version, version, NULL)) {
        abort();
    }
}

// The first letter says which; the others are as nobody set them.
static void played_driver(const char * text) {
    static const char * const names[] = {"DEVICE", "HEAP_BYTES", "FIRMWARE", "FAIL", "WAIT_FAILED"};
    static char variables[5][ROOM];
    struct accel_settings settings;
    struct error err = {0};
    int which = (unsigned char) *text % 5;
    for (int i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "ACCEL_EMU_%s", names[i]);
        set(variables[i], name, i == which && *text ? text + 1 : "");
    }
    if (*clock_variable) {
        set(clock_variable, "GGML_HSA_EMU_CLOCK", "");
    }
    if (accel_settings_read(&settings, &err) != ST_OK) {
        refused(&err, names[which]);
    } else if (!settings.model || settings.heap_bytes < 4096 || settings.heap_bytes > 64 << 20 ||
               settings.n_faults < 0 || settings.n_faults > ACCEL_MAX_FAULTS ||
               !memchr(settings.firmware, 0, sizeof settings.firmware)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    static void (*const readers[])(const char *) = {size_of_cache, clock_setting, words,
                                                    gpu_names,     printed,       played_driver};
    if (size) {
        char * text = fuzz_text(data + 1, size - 1);
        readers[data[0] % 6](text);
        free(text);
    }
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const texts[] = {
        "05 ", // '0' is a multiple of 6
        "01G",
        "017179869183T",
        "0yes",
        "1phoenix",
        "1strix,mhz=1500,ddr=60.5",
        "1ideal,ddr=0",
        "2ieee",
        "2exact",
        "2aie2p",
        "2bf16",
        "3gfx90a:sramecc+:xnack-",
        "3 gfx1100 ",
        "36.4.1",
        "3unary_f32",
        "4  Name:                    gfx90a                             \n",
        "4Debian clang version 19.1.7\n",
        "4HIP version: 5.2.21153-0\n",
        "5Anpu4",
        "5B16M",
        "5C1.5.5.391",
        "5DEXEC_CMD:17:EIO,CREATE_BO:1+:ENOMEM",
        "5EETIME",
    };
    return fuzz_texts(texts, sizeof texts / sizeof texts[0], i, data, size);
}

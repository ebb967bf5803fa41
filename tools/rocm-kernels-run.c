// rocm-kernels-run: kernels on a GPU of this machine or on an emulated one, each compared with the
// same in double precision.
#include "rocm-kernels.h"

#include "gpu-bench.h"
#include "progress-line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trial {
    const struct hip_bench * bench;
    struct hip_check total;
    int n, wrong;
    bool verbose;
    struct progress_line progress;
    bool stopped;      // nothing can be run here, whatever the kernel
    const char * only; // NULL: all of the module
};

static bool try_kernel(void * user, const char * kernel) {
    struct trial * t = user;
    struct error err = {0};
    struct hip_check one = {0};
    if (t->only && strcmp(t->only, kernel)) {
        return true;
    }
    double start = seconds_now();
    enum status st = hip_check_kernel(t->bench, kernel, &one, &err);
    bool right = st == ST_OK;
    // No compiler, or none that knows the GPU: the next kernel would fare the same.
    t->stopped = st == ST_NOT_FOUND || st == ST_UNSUPPORTED;
    t->n++;
    t->wrong += !right;
    t->total.cases += one.cases;
    t->total.elements += one.elements;
    progress_line_tell(&t->progress, seconds_now(), "%d kernels, %s", t->n, kernel);
    if (!right) {
        progress_line_clear(&t->progress);
        fprintf(stderr, PROGRAM ": %s\n", err.text);
    } else if (t->verbose && !in_json) {
        printf("%-28s right in %llu cases, %.0f ms\n", kernel, (unsigned long long) one.cases,
               (seconds_now() - start) * 1e3);
    }
    return !t->stopped;
}

// A module's name, a kernel's, or nothing for all.
static int try_word(struct trial * t, const char * word) {
    const char * module = rocm_modules_source(word) ? word : rocm_modules_find(word);
    if (!module) {
        return say_usage("neither a module nor a kernel: '%s'", word);
    }
    t->only = module == word ? NULL : word;
    rocm_modules_kernels(module, try_kernel, t);
    return EXIT_OK;
}

static void show_total(const struct trial * t, const char * device) {
    if (!in_json) {
        printf("%s: %d of %d kernels right, %llu launches, %llu elements\n", device,
               t->n - t->wrong, t->n, (unsigned long long) t->total.cases,
               (unsigned long long) t->total.elements);
        return;
    }
    json_put(&answer, "device", json_string(device));
    json_put(&answer, "kernels", json_integer(t->n));
    json_put(&answer, "right", json_integer(t->n - t->wrong));
    json_put(&answer, "launches", json_size(t->total.cases));
    json_put(&answer, "elements", json_size(t->total.elements));
}

static int count_gpus(struct hsac * runtime) {
    int n = 0;
    for (int i = 0; i < hsac_agent_count(runtime); i++) {
        n += hsac_agent_kind(hsac_agent_get(runtime, i)) == HSAC_GPU;
    }
    return n;
}

// The runtime's own advice is for NPUs as well, and an emulated one would not help here.
static int say_no_gpu(int device, int gpus) {
    const char * emulate = getenv("GGML_HSA_EMULATE");
    struct error err = {0};
    if (gpus) {
        error_set(&err, ST_NOT_FOUND, "--device %d: there is no such GPU; the last is %d", device,
                  gpus - 1);
    } else if (emulate && *emulate) {
        error_set(&err, ST_NOT_FOUND,
                  "GGML_HSA_EMULATE=%.60s has no GPU to run kernels on; set it to gfx1100",
                  emulate);
    } else {
        error_set(&err, ST_NOT_FOUND,
                  "there is no GPU to run kernels on: it wants the amdgpu driver (/dev/kfd) and "
                  "ROCr (libhsa-runtime64); GGML_HSA_EMULATE=gfx1100 makes an emulated one "
                  "(`ggml-hsa doctor` says more)");
    }
    return say_failed(err.text);
}

// The kernels that the command line names; options are passed over.
static int try_words(struct trial * t, struct hip_hsa_bench * bench, int argc, char ** argv) {
    int status = EXIT_OK;
    t->bench = hip_bench_of(bench);
    progress_line_begin(&t->progress, stderr, PROGRAM, seconds_now());
    for (int i = 1; i < argc && status == EXIT_OK && !t->stopped; i++) {
        if (!strcmp(argv[i], "--all")) {
            for (int m = 0; m < rocm_modules_count() && !t->stopped; m++) {
                try_word(t, rocm_modules_name(m));
            }
        } else if (argv[i][0] != '-') {
            status = try_word(t, argv[i]);
        } else {
            i += strcmp(argv[i], "--verbose") != 0;
        }
    }
    progress_line_end(&t->progress);
    if (t->stopped) {
        fprintf(stderr, PROGRAM ": the others are not tried\n");
    }
    show_total(t, hip_bench_name(bench));
    return status == EXIT_OK && t->wrong ? EXIT_BAD_INPUT : status;
}

int run_run(int argc, char ** argv) {
    const char * compiler = NULL;
    int device = 0, words = 0;
    struct trial t = {.n = 0};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--verbose")) {
            t.verbose = true;
        } else if (!strcmp(argv[i], "--device") && i + 1 < argc) {
            device = atoi(argv[++i]);
            if (device < 0) {
                return say_usage("--device wants a number from 0");
            }
        } else if (!strcmp(argv[i], "--compiler") && i + 1 < argc) {
            compiler = argv[++i];
        } else if (argv[i][0] == '-' && strcmp(argv[i], "--all")) {
            return say_usage("no option '%s' of run, or it wants a value", argv[i]);
        } else {
            words++;
        }
    }
    if (!words) {
        return say_usage("run what? a kernel, a module, or --all");
    }
    struct rocm_kernels * k = open_manager(NULL, compiler);
    struct hip_hsa_bench * bench = NULL;
    struct error err = {0};
    if (!k) {
        return EXIT_BAD_INPUT;
    }
    int status = EXIT_OK;
    struct hsac * runtime = open_runtime(&err);
    int gpus = runtime ? count_gpus(runtime) : 0;
    if ((runtime || err.status == ST_NOT_FOUND) && device >= gpus) {
        status = say_no_gpu(device, gpus);
    } else if (!runtime || hip_bench_open(k, runtime, device, &bench, &err) != ST_OK) {
        status = say_failed(err.text);
    }
    if (bench) {
        status = try_words(&t, bench, argc, argv);
        hip_bench_close(bench);
    }
    rocm_kernels_close(k);
    return status;
}

// bench-gen: how long ggml-hsa-gen-kernels takes for a configuration of a thousand kernels of six
// datatypes, from reading it to the last byte on the disk; into an empty directory, again over the
// result, and checked alone. On two cores. Prints a table, asserts nothing.
#include "bench.h"

#include "base/process.h"

#include <sched.h>

enum { KERNELS = 1000, RUNS = 5 };

static void row(const char * what, double * times, const char * target) {
    bench_row(what, bench_median(times, RUNS), "s (median of 5)", target);
}

static bool write_config(const char * path) {
    static const char * const types[] = {"f32", "f16", "bf16", "i8", "i16", "i32"};
    FILE * f = fopen(path, "w");
    if (!f) {
        return false;
    }
    fprintf(f, "{\"kernels\": [");
    for (int i = 0; i < KERNELS; i++) {
        char t[64];
        snprintf(t, sizeof t, "(%d,%d,1,1)/%s", 64 + 16 * (i % 100), 1 + i / 100, types[i % 6]);
        fprintf(f,
                "%s\n{\"kernel_name\": \"ggml_op_add\", \"kernel_source\": \"binary_ops.py\", "
                "\"arch\": "
                "\"aie2\", \"input_tensors\": [\"%s\", \"%s\"], \"output_tensor\": \"%s\", "
                "\"exported_name\": \"k%d\"}",
                i ? "," : "", t, t, t, i);
    }
    fprintf(f, "\n]}\n");
    return fclose(f) == 0;
}

static double run(const char * config, const char * out, const char * last) {
    char * argv[] = {
        TOOL,          "--config", (char *) config, "--output-dir", (char *) out, "--jobs", "2",
        (char *) last, NULL};
    struct process p = {.argv = argv, .capture = true, .keep = 4000};
    struct process_end end;
    struct error err;
    double start = bench_seconds();
    if (process_run(&p, &end, &err) != ST_OK || end.signal || end.exit_status) {
        fprintf(stderr, "bench-gen: the tool failed\n");
        exit(1);
    }
    double time = bench_seconds() - start;
    buf_free(&end.output);
    return time;
}

int main(int argc, char ** argv) {
    bench_no_arguments(argc, argv, "bench-gen", "how fast ggml-hsa-gen-kernels makes kernels");
    char dir[512], config[600], out[600];
    bench_dir_new(dir);
    snprintf(config, sizeof config, "%s/config.json", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    if (!write_config(config)) {
        perror(config);
        return 1;
    }
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(0, &cores);
    CPU_SET(1, &cores);
    (void) sched_setaffinity(0, sizeof cores,
                             &cores); // where there are not even two: on what there is
    bench_head();
    double fresh[RUNS], again[RUNS], dry[RUNS];
    for (int i = 0; i < RUNS; i++) {
        bench_dir_remove(out);
        fresh[i] = run(config, out, NULL);
        again[i] = run(config, out, NULL);
        dry[i] = run(config, out, "--dry-run");
    }
    row("1000 kernels made and on disk, two cores", fresh, "<= 1");
    row("1000 kernels that are there already", again, "");
    row("1000 kernels checked (--dry-run)", dry, "");
    bench_dir_remove(dir);
    return 0;
}

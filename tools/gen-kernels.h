// gen-kernels: what the parts of ggml-hsa-gen-kernels share. A configuration becomes a list of
// jobs; each carries its own outcome, so that one that fails leaves the others alone.
#pragma once

#include "store/manifest.h"

#include <stdatomic.h>

struct job {
    int index;                   // in the configuration
    struct kernel_config config; // its exported_name is "" when not even that could be read
    struct error error;          // status ST_OK: nothing went wrong so far
    bool skipped;                // of an architecture that was not asked for
    bool published;              // its files have their names
    bool unchanged;              // they had them before, with the same bytes
    bool external;               // made by GGML_HSA_JIT_COMMAND
    struct manifest_entry entry; // once it was made
    double seconds;
};

struct jobs {
    struct job * list;
    int n;
};

struct gen_options {
    const char * config;
    const char * output_dir;
    const char * arch; // NULL: all
    int threads;
    bool verbose, dry_run;
    atomic_bool * stop; // set by a signal: finish what is begun, clean up
};

// Reads a configuration; fails when the file as a whole is no use. Entries that are wrong become
// jobs with an error.
enum status jobs_read(const char * path, const char * arch, struct jobs * out, struct error * err);
void jobs_free(struct jobs * jobs);

// Makes every job that has no error: compiles, writes temporary files, brings them to the disk,
// gives them their names, and lists them in the manifest. Failures of one job are in the job; the
// status is for what concerns all (a directory that cannot be made, a manifest that cannot be
// written).
enum status jobs_build(struct jobs * jobs, const struct gen_options * options, struct error * err);

// Could it be made? Asks the compiler and, where one is set, the external command.
enum status job_supported(const struct kernel_spec * spec, bool * external, struct error * err);

// ---- threads and progress ----

// Calls work(user, i) for i from 0 to n - 1 from several threads; once *stop is set no more are
// begun.
void run_parallel(int threads, int n, const atomic_bool * stop, void (*work)(void * user, int i),
                  void * user);

struct progress {
    atomic_int done;
    atomic_llong shown_ms; // when it was drawn last
    int total;
    bool on; // standard error is a terminal
};

void progress_begin(struct progress * p, int total);
void progress_step(struct progress * p);
void progress_end(struct progress * p);

double seconds_now(void);

// gen-kernels-config: from a configuration file to jobs.
#include "gen-kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ENTRIES 100000 // each is some 2 KB here and 30 KB on disk

static int by_files(const void * a, const void * b) {
    const struct job *x = *(struct job *const *) a, *y = *(struct job *const *) b;
    int order = (int) x->config.spec.arch - (int) y->config.spec.arch;
    order = order ? order : strcmp(x->config.exported_name, y->config.exported_name);
    return order ? order : x->index - y->index;
}

// Entries that would write the same files: the first one is made, the others are errors.
static enum status find_duplicates(struct jobs * jobs, struct error * err) {
    struct job ** sorted = malloc((size_t) (jobs->n ? jobs->n : 1) * sizeof *sorted);
    int n = 0;
    if (!sorted) {
        return error_set(err, ST_NO_MEMORY, "no memory for %d entries", jobs->n);
    }
    for (int i = 0; i < jobs->n; i++) {
        if (jobs->list[i].error.status == ST_OK && !jobs->list[i].skipped) {
            sorted[n++] = &jobs->list[i];
        }
    }
    qsort(sorted, (size_t) n, sizeof *sorted, by_files);
    for (int i = 1, first = 0; i < n; i++) {
        const struct kernel_config *a = &sorted[first]->config, *b = &sorted[i]->config;
        if (a->spec.arch != b->spec.arch || strcmp(a->exported_name, b->exported_name)) {
            first = i;
            continue;
        }
        error_set(&sorted[i]->error, ST_INVALID,
                  "duplicate exported_name: kernels[%d] has it for %s already",
                  sorted[first]->index, kernel_arch_name(a->spec.arch));
    }
    free(sorted);
    return ST_OK;
}

static enum status check_root(const json_t * root, struct error * err) {
    if (!json_is_object(root)) {
        return error_set(err, ST_INVALID,
                         "a configuration must be an object with 'kernels', this is %s",
                         json_kind(root));
    }
    const json_t * kernels = json_object_get(root, "kernels");
    if (!kernels) {
        return error_set(err, ST_INVALID, "'kernels' is missing");
    }
    if (!json_is_array(kernels)) {
        return error_set(err, ST_INVALID, "'kernels' must be an array, this is %s",
                         json_kind(kernels));
    }
    return ST_OK;
}

static enum status make_jobs(const json_t * kernels, const char * arch, struct jobs * out,
                             struct error * err) {
    size_t n = json_array_size(kernels), i;
    if (n > MAX_ENTRIES) {
        return error_set(err, ST_INVALID, "%zu entries, at most %d are accepted", n, MAX_ENTRIES);
    }
    *out = (struct jobs){calloc(n ? n : 1, sizeof *out->list), (int) n};
    if (!out->list) {
        return error_set(err, ST_NO_MEMORY, "no memory for %zu entries", n);
    }
    json_t * entry;
    json_array_foreach(kernels, i, entry) {
        struct job * job = &out->list[i];
        job->index = (int) i;
        if (kernel_config_parse(entry, arch, &job->config, &job->error) == ST_OK) {
            job->skipped = arch && strcmp(arch, kernel_arch_name(job->config.spec.arch));
        } else {
            snprintf(job->config.exported_name, sizeof job->config.exported_name, "%s",
                     kernel_config_label(entry));
        }
    }
    return find_duplicates(out, err);
}

enum status jobs_read(const char * path, const char * arch, struct jobs * out, struct error * err) {
    json_t * root;
    *out = (struct jobs){0};
    enum status st = json_read_file(path, &root, err);
    if (st != ST_OK) {
        return st;
    }
    st = check_root(root, err);
    if (st == ST_OK) {
        st = make_jobs(json_object_get(root, "kernels"), arch, out, err);
    }
    json_decref(root);
    if (st != ST_OK) {
        jobs_free(out);
        error_prefix(err, st, "%s", path);
    }
    return st;
}

void jobs_free(struct jobs * jobs) {
    free(jobs->list);
    *jobs = (struct jobs){0};
}

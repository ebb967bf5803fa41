// gen-kernels-config: from a configuration file to jobs.
#include "gen-kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CONFIG_BYTES ((size_t) 64 << 20)
#define MAX_ENTRIES      100000 // each is some 2 KB here and 30 KB on disk

static int by_files(const void * a, const void * b) {
    const struct job *x = *(struct job *const *) a, *y = *(struct job *const *) b;
    int order = (int) x->config.spec.arch - (int) y->config.spec.arch;
    order = order ? order : strcmp(x->config.exported_name, y->config.exported_name);
    return order ? order : x->index - y->index;
}

// Of entries that would write the same files the first is made, the others are errors.
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

static enum status check_root(const struct json * root, const struct json ** kernels,
                              struct error * err) {
    int n;
    if (root->type != JSON_OBJECT) {
        return error_set(err, ST_INVALID,
                         "a configuration must be an object with 'kernels', this is %s",
                         json_type_name(root->type));
    }
    *kernels = json_member(root, "kernels", &n);
    if (!*kernels) {
        return error_set(err, ST_INVALID, "'kernels' is missing");
    }
    if (n > 1) {
        return error_set(err, ST_INVALID, "'kernels' is there %d times", n);
    }
    if ((*kernels)->type != JSON_ARRAY) {
        return error_set(err, ST_INVALID, "'kernels' must be an array, this is %s",
                         json_type_name((*kernels)->type));
    }
    return ST_OK;
}

static enum status make_jobs(const struct json * kernels, const char * arch, struct jobs * out,
                             struct error * err) {
    int n = 0;
    for (const struct json * k = kernels->first; k; k = k->next) {
        n++;
    }
    if (n > MAX_ENTRIES) {
        return error_set(err, ST_INVALID, "%d entries, at most %d are accepted", n, MAX_ENTRIES);
    }
    *out = (struct jobs){calloc(n ? (size_t) n : 1, sizeof *out->list), n};
    if (!out->list) {
        return error_set(err, ST_NO_MEMORY, "no memory for %d entries", n);
    }
    struct job * job = out->list;
    for (const struct json * k = kernels->first; k; k = k->next, job++) {
        job->index = (int) (job - out->list);
        if (kernel_config_parse(k, arch, &job->config, &job->error) == ST_OK) {
            job->skipped = arch && strcmp(arch, kernel_arch_name(job->config.spec.arch));
        } else {
            snprintf(job->config.exported_name, sizeof job->config.exported_name, "%s",
                     kernel_config_label(k));
        }
    }
    return find_duplicates(out, err);
}

enum status jobs_read(const char * path, const char * arch, struct jobs * out, struct error * err) {
    uint8_t * text;
    size_t size;
    *out = (struct jobs){0};
    enum status st = file_read(path, MAX_CONFIG_BYTES, &text, &size, err);
    if (st != ST_OK) {
        return st;
    }
    struct json_doc doc;
    const struct json * kernels = NULL;
    st = json_parse((const char *) text, size, &doc, err);
    if (st != ST_OK) {
        error_prefix(err, "%s: JSON syntax", path);
    } else {
        st = check_root(doc.root, &kernels, err);
        if (st == ST_OK) {
            st = make_jobs(kernels, arch, out, err);
        }
        if (st != ST_OK) {
            jobs_free(out);
            error_prefix(err, "%s", path);
        }
        json_free(&doc);
    }
    free(text);
    return st;
}

void jobs_free(struct jobs * jobs) {
    free(jobs->list);
    *jobs = (struct jobs){0};
}

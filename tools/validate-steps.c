// validate-steps: the device as programs meet it: after a rest, with another process beside, and
// behind a fault.
#include "validate.h"
#include "validate-kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <pthread.h>

// ---- ops and a decoder, by the program that has ggml ----

// A line of the helper's: what became of a case, or a figure. *family counts the families.
static bool take_line(struct validate * v, struct step * s, char * line, int counts[3]) {
    char * fields[4] = {line, "", "", ""};
    for (int i = 1; i < 4; i++) {
        char * tab = strchr(fields[i - 1], '\t');
        if (!tab) {
            return false;
        }
        *tab = '\0';
        fields[i] = tab + 1;
    }
    if (!strcmp(fields[0], "ok") || !strcmp(fields[0], "absent")) {
        counts[fields[0][0] == 'a']++;
    } else if (!strcmp(fields[0], "bad")) {
        counts[2]++;
        validate_bad(s, "%s, %s: %s", fields[1], fields[2], fields[3]);
    } else if (!strcmp(fields[0], "figure")) {
        static char names[4][64];
        static int n;
        if (n < 4) {
            snprintf(names[n], sizeof names[n], "%s", fields[1]);
            validate_figure(v, names[n++], NULL, "us", strtod(fields[3], NULL), "tokens a second");
        }
    } else {
        return false;
    }
    return true;
}

static void run_helper(struct validate * v, struct step * s, const char * which) {
    char device[16];
    struct buf said = {0};
    int counts[3] = {0};
    if (!*v->helper || !*v->plugin) {
        s->outcome = STEP_SKIPPED;
        snprintf(s->detail, sizeof s->detail, "ggml-hsa-validate-ops is not beside this tool");
        return;
    }
    snprintf(device, sizeof device, "%d", v->device);
    const char * words[] = {v->helper, v->plugin, v->runtime, device, v->whole ? "whole" : "quick",
                            which,     NULL};
    int status = validate_run(v->helper, words, &said);
    char last[300] = "";
    for (char *line = (char *) said.data, *end; line && *line; line = end) {
        end = line + strcspn(line, "\n");
        end += *end ? (*end = '\0', 1) : 0;
        snprintf(last, sizeof last, "%s", line);
        take_line(v, s, line, counts);
    }
    if (status != 0 && !validate_interrupted()) {
        validate_bad(s, "it ended with %d: %s", status, last);
    }
    snprintf(s->detail, sizeof s->detail, "%d as the CPU has it, %d not, %d the device has not",
             counts[0], counts[2], counts[1]);
    buf_free(&said);
}

void step_ops(struct validate * v) {
    struct step * s = validate_step(v, "ops");
    run_helper(v, s, "ops");
    validate_done(v, s);
}

void step_decoder(struct validate * v) {
    struct step * s = validate_step(v, "decoder");
    run_helper(v, s, "decoder");
    validate_done(v, s);
}

// ---- rest ----

void step_rest(struct validate * v) {
    struct step * s = validate_step(v, "rest");
    struct error err = {0};
    snprintf(s->detail, sizeof s->detail, "%g s without work, then an ADD", v->rest_s);
    if (v->gpu || v->rest_s == 0) {
        s->outcome = STEP_SKIPPED;
        validate_done(v, s);
        return;
    }
    struct timespec left = {(time_t) v->rest_s,
                            (long) ((v->rest_s - (double) (time_t) v->rest_s) * 1e9)};
    nanosleep(&left, NULL); // an interrupt ends it
    if (!validate_interrupted() && kernel_add(&v->lab, 3, 1, &err) != ST_OK) {
        validate_bad(s, "after it: %s", err.text);
    }
    validate_done(v, s);
}

// ---- two processes ----

int part_add(struct validate * v) {
    struct error err = {0};
    if (kernel_add(&v->lab, (uint32_t) getpid(), 50, &err) != ST_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_BAD_INPUT;
    }
    return EXIT_OK;
}

struct other {
    const struct validate * v;
    struct buf said;
    int status;
};

static void * run_other(void * data) {
    struct other * o = data;
    o->status = validate_child(o->v, "@add", &o->said);
    return NULL;
}

void step_processes(struct validate * v) {
    struct step * s = validate_step(v, "processes");
    struct other others[2] = {{.v = v}, {.v = v}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, run_other, &others[i]) != 0) {
            others[i].status = -1;
            threads[i] = pthread_self();
        }
    }
    for (int i = 0; i < 2; i++) {
        if (!pthread_equal(threads[i], pthread_self())) {
            pthread_join(threads[i], NULL);
        }
        if (others[i].status != EXIT_OK) {
            validate_bad(s, "process %d of two at once ended with %d: %.300s", i + 1,
                         others[i].status, others[i].said.data ? (char *) others[i].said.data : "");
        }
        buf_free(&others[i].said);
    }
    snprintf(s->detail, sizeof s->detail, "two at once, 50 ADDs each");
    validate_done(v, s);
}

// ---- a fault ----

// A stream that waits for a token which nobody sends: 1 when the runtime said so, as it should.
int part_fault(struct validate * v) {
    struct lab_pdi pipe = {0};
    struct error err = {0};
    struct txn t;
    uint8_t * pdi = NULL;
    size_t size = 0;
    double ns;
    enum status st = design_pipe(&v->lab, &pdi, &size, &err);
    st = st == ST_OK ? lab_place(&v->lab, pdi, size, &pipe, &err) : st;
    if (st != ST_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_USAGE;
    }
    lab_begin(&v->lab, &t);
    design_sync(&t, 0, false, 0);
    st = lab_cold(&v->lab, &pipe, &t, &ns, &err);
    fprintf(stderr, "%s\n", st == ST_OK ? "it came to an end" : err.text);
    return st == ST_OK ? EXIT_OK : EXIT_BAD_INPUT;
}

void step_fault(struct validate * v) {
    struct step * s = validate_step(v, "fault");
    struct buf said = {0};
    struct error err = {0};
    const char * limit = getenv("GGML_HSA_WAIT_LIMIT");
    if (!limit) {
        setenv("GGML_HSA_WAIT_LIMIT", "10", 1);
    }
    int status = validate_child(v, "@fault", &said);
    if (!limit) {
        unsetenv("GGML_HSA_WAIT_LIMIT");
    }
    const char * text = said.data ? (const char *) said.data : "";
    if (status == EXIT_OK) {
        validate_bad(s, "a stream that waits for a token which nobody sends came to an end");
    } else if (status == EXIT_USAGE || status < 0) {
        validate_bad(s, "it could not be tried: %.300s", text);
    } else if (status != EXIT_BAD_INPUT) {
        validate_say(s, "the runtime ended the process (status %d), as older ones do", status);
    } else {
        size_t line = strcspn(text, "\n");
        validate_say(s, "told: %.*s", (int) (line < 160 ? line : 160), text);
    }
    buf_free(&said);
    if (kernel_add(&v->lab, 4, 1, &err) != ST_OK) {
        validate_bad(s, "behind the fault of another process: %s", err.text);
    }
    snprintf(s->detail, sizeof s->detail, "a stream that is stuck, then an ADD");
    validate_done(v, s);
}

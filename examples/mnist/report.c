// report: what follows from the answers of the device and of the reference. Counts and orders only;
// nothing is printed here.
#include "report.h"

#include <math.h>
#include <stdlib.h>

void outcome_free(struct outcome * o) {
    free(o->predicted);
    free(o->probabilities);
    *o = (struct outcome){0};
}

void report_free(struct report * r) {
    outcome_free(&r->device);
    outcome_free(&r->reference);
    free(r->wrong);
    *r = (struct report){0};
}

struct wrong {
    int64_t digit;
    float sure;
};

static int by_certainty(const void * a, const void * b) {
    const struct wrong *x = a, *y = b;
    if (x->sure != y->sure) {
        return x->sure > y->sure ? -1 : 1;
    }
    return x->digit < y->digit ? -1 : x->digit > y->digit;
}

static void count_right(struct outcome * o, const struct digits * d) {
    o->right = 0;
    for (int64_t i = 0; i < d->n; i++) {
        o->right += o->predicted[i] == d->labels[i];
    }
}

static void compare(struct report * r) {
    r->agree = 0;
    r->difference = 0.0;
    for (int64_t i = 0; i < r->digits->n; i++) {
        r->agree += r->device.predicted[i] == r->reference.predicted[i];
        for (int k = 0; k < MNIST_CLASSES; k++) {
            int64_t at = i * MNIST_CLASSES + k;
            double d = fabs((double) r->device.probabilities[at] -
                            (double) r->reference.probabilities[at]);
            r->difference = d > r->difference ? d : r->difference;
        }
    }
}

bool report_conclude(struct report * r) {
    const struct digits * d = r->digits;
    count_right(&r->device, d);
    if (report_has_reference(r)) {
        count_right(&r->reference, d);
        compare(r);
    }
    r->n_wrong = d->n - r->device.right;
    struct wrong * list = malloc((size_t) (r->n_wrong + 1) * sizeof *list);
    r->wrong = malloc((size_t) (r->n_wrong + 1) * sizeof *r->wrong);
    if (!list || !r->wrong) {
        free(list);
        return false;
    }
    int64_t n = 0;
    for (int64_t i = 0; i < d->n; i++) {
        int answer = r->device.predicted[i];
        r->confusion[d->labels[i]][answer]++;
        if (answer != d->labels[i]) {
            list[n++] = (struct wrong){i, (float) report_probability(r, i, answer)};
        }
    }
    qsort(list, (size_t) n, sizeof *list, by_certainty);
    for (int64_t i = 0; i < n; i++) {
        r->wrong[i] = list[i].digit;
    }
    free(list);
    return true;
}

double report_percent(const struct outcome * o, const struct report * r) {
    return 100.0 * (double) o->right / (double) r->digits->n;
}

bool report_agrees(const struct report * r) {
    int64_t apart = llabs((long long) (r->device.right - r->reference.right));
    return !report_has_reference(r) || apart * 1000 <= r->digits->n;
}

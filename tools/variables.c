// variables: what the environment has of the variables that ggml-hsa reads (base/variables.h), the
// names that are close to one included.
#include "probe.h"

#include "base/variables.h"
#include "words.h"

#include <string.h>

extern char ** environ;

void probe_environment(void (*visit)(void * user, const struct probe_variable * v), void * user) {
    for (char ** e = environ; e && *e; e++) {
        size_t n = strcspn(*e, "=");
        struct probe_variable v = {.name = *e, .name_size = n, .value = *e + n + ((*e)[n] != 0)};
        int best = 4; // closer than this is taken for a typing error
        for (const struct variable * k = variables; k->name; k++) {
            int d = words_distance(*e, n, k->name, strlen(k->name));
            if (d == 0) {
                v.meaning = k->meaning;
            } else if (d < best) {
                best = d;
                v.alike = k->name;
            }
        }
        if ((*e)[n] && (v.meaning || !strncmp(*e, "GGML_HSA_", 9))) {
            visit(user, &v);
        }
    }
}

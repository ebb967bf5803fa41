// validate-blind: what takes the model away from `ggml-hsa validate`. It is linked in the place of
// tools/validate-model.c, the one file that knows the emulator's clock, and stands before the
// client's functions that tell of the emulator's account: whoever calls one of these in this build
// ends.
#include "validate.h"

#include <stdio.h>
#include <stdlib.h>

void model_compare(struct validate * v) {
    (void) v;
}

const char * model_name(const struct validate * v) {
    (void) v;
    return "";
}

enum status model_write_clock(const struct validate * v, const char * path, struct error * err) {
    (void) v;
    return error_set(err, ST_UNSUPPORTED, "%s: there is no clock here", path);
}

static _Noreturn void ends(const char * name) {
    fprintf(stderr, "validate asked the emulator: %s\n", name);
    abort();
}

bool __wrap_hsac_agent_account(const struct hsac_agent * a, struct hsac_account * out);
bool __wrap_hsac_agent_counters(const struct hsac_agent * a, struct hsac_counters * out);
void __wrap_hsac_agent_watch(struct hsac_agent * a, void * watch, void * user);

bool __wrap_hsac_agent_account(const struct hsac_agent * a, struct hsac_account * out) {
    (void) a, (void) out;
    ends("hsac_agent_account");
}

bool __wrap_hsac_agent_counters(const struct hsac_agent * a, struct hsac_counters * out) {
    (void) a, (void) out;
    ends("hsac_agent_counters");
}

void __wrap_hsac_agent_watch(struct hsac_agent * a, void * watch, void * user) {
    (void) a, (void) watch, (void) user;
    ends("hsac_agent_watch");
}

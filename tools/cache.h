// cache: what the files of `ggml-hsa cache` share.
#pragma once

#include "tool.h"

#include "base/json.h"
#include "store/cache.h"

struct cache_command {
    bool json;
    bool dry_run;
    bool max_given;
    uint64_t max;
    const char * config; // --config
    enum aie_arch arch;  // --arch
    const char ** words; // what is no option
    int n_words;
    struct colours c;
    struct buf out;  // for people
    json_t * answer; // with `json`: an object, printed unless it stays empty
};

// What this build's kernels are made by: the identity in their keys. NULL: it has no compiler.
const char * cache_own_identity(void);

// "ggml-hsa cache: ..." to standard error; returns EXIT_BAD_INPUT.
int cache_failed(const struct error * err);

int cache_why(struct cache * cache, struct cache_command * cmd);

// "add_f32_8x1x1x1_..." back to what it says; false for a name that is not canonical, or was too
// long and ends in a hash.
bool cache_parse_name(const char * name, enum aie_arch arch, struct kernel_spec * out);

// compilers: which compiler a plain store_new uses. Apart from store.c, so that a store of packs
// alone can be linked without one. Instruction streams are made in every build: they are data, and
// a pack that has an op's programs serves all of its shapes so.
#include "store.h"

#include "aie/plan/plan.h"
#include "compiler-identity.h" // made by cmake/Identity.cmake

// With GGML_HSA_JIT=0 a store is as in a build without compilers: kernels come from packs.
static const struct store_compiler aie = {
    .plan = aie_plan,
#ifdef GGML_HSA_JIT_COMPILE
    .pdi = aie_pdi,
#endif
    .stream = aie_stream,
    .identity = AIE_COMPILER_IDENTITY,
};

static const struct store_compiler packs_alone = {
    .plan = aie_plan,
    .stream = aie_stream,
    .identity = AIE_COMPILER_IDENTITY,
};

const struct store_compiler * store_own_compiler(void) {
    return env_flag("GGML_HSA_JIT", true) ? &aie : &packs_alone;
}

enum status store_new(struct store ** out, struct error * err) {
    return store_new_with(store_own_compiler(), out, err);
}

// compilers: which compiler a plain store_new uses. Apart from store.c, so that a store of packs
// alone can be linked without one.
#include "store.h"

#ifdef GGML_HSA_JIT_COMPILE

#    include "aie/aie.h"
#    include "compiler-identity.h" // made by cmake/Identity.cmake

static const struct store_compiler aie = {
    .supports = aie_supports,
    .program_name = aie_program_name,
    .compile_pdi = aie_compile_pdi,
    .compile_insts = aie_compile_insts,
    .identity = AIE_COMPILER_IDENTITY,
};

const struct store_compiler * store_own_compiler(void) {
    return &aie;
}

#else

const struct store_compiler * store_own_compiler(void) {
    return NULL;
}

#endif

enum status store_new(struct store ** out, struct error * err) {
    return store_new_with(store_own_compiler(), out, err);
}

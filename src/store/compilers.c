// compilers: which compiler a plain store_new uses. Apart from store.c, so that a store of packs
// alone can be linked without one. Instruction streams are made in every build: they are data, and
// a pack that has an op's programs serves all of its shapes so.
#include "store.h"

#include "aie/aie.h"
#include "compiler-identity.h" // made by cmake/Identity.cmake

static const struct store_compiler aie = {
    .supports = aie_supports,
    .program_name = aie_program_name,
#ifdef GGML_HSA_JIT_COMPILE
    .compile_pdi = aie_compile_pdi,
#endif
    .compile_insts = aie_compile_insts,
    .identity = AIE_COMPILER_IDENTITY,
};

const struct store_compiler * store_own_compiler(void) {
    return &aie;
}

enum status store_new(struct store ** out, struct error * err) {
    return store_new_with(store_own_compiler(), out, err);
}

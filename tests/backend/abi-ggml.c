// abi-ggml: the offsets as ggml's own header has them.
#include "ggml-backend-impl.h"

#include "abi-offsets.h"

const struct abi_offset abi_ggml[] = {
    ABI_OFFSETS, BUFT_OFFSETS(ggml_backend_buffer_type_i, ggml_backend_buffer_type)};
const size_t abi_ggml_count = sizeof abi_ggml / sizeof abi_ggml[0];
const int abi_ggml_version = GGML_BACKEND_API_VERSION;

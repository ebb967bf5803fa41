// abi-offsets: one list of the members that we and libggml-base must agree on. It is compiled
// twice, with our declarations and with ggml's own; BUFT_I and BUFT name the buffer type's structs.
#pragma once

#include <stddef.h>

#define OFFSET(s, m)                                                                               \
    { #s "." #m, offsetof(struct s, m) }
#define SIZE(s)                                                                                    \
    { "sizeof " #s, sizeof(struct s) }

struct abi_offset {
    const char * name;
    size_t value;
};

// clang-format off
#define ABI_OFFSETS \
    OFFSET(ggml_backend_buffer_i, free_buffer), OFFSET(ggml_backend_buffer_i, get_base), \
    OFFSET(ggml_backend_buffer_i, init_tensor), OFFSET(ggml_backend_buffer_i, memset_tensor), \
    OFFSET(ggml_backend_buffer_i, set_tensor), OFFSET(ggml_backend_buffer_i, get_tensor), \
    OFFSET(ggml_backend_buffer_i, set_tensor_2d), OFFSET(ggml_backend_buffer_i, get_tensor_2d), \
    OFFSET(ggml_backend_buffer_i, cpy_tensor), OFFSET(ggml_backend_buffer_i, clear), \
    OFFSET(ggml_backend_buffer_i, reset), SIZE(ggml_backend_buffer_i), \
    OFFSET(ggml_backend_buffer, iface), OFFSET(ggml_backend_buffer, buft), \
    OFFSET(ggml_backend_buffer, context), OFFSET(ggml_backend_buffer, size), \
    OFFSET(ggml_backend_buffer, usage), SIZE(ggml_backend_buffer), \
    OFFSET(ggml_backend_i, get_name), OFFSET(ggml_backend_i, free), \
    OFFSET(ggml_backend_i, set_tensor_async), OFFSET(ggml_backend_i, get_tensor_async), \
    OFFSET(ggml_backend_i, set_tensor_2d_async), OFFSET(ggml_backend_i, get_tensor_2d_async), \
    OFFSET(ggml_backend_i, cpy_tensor_async), OFFSET(ggml_backend_i, synchronize), \
    OFFSET(ggml_backend_i, graph_plan_create), OFFSET(ggml_backend_i, graph_plan_free), \
    OFFSET(ggml_backend_i, graph_plan_update), OFFSET(ggml_backend_i, graph_plan_compute), \
    OFFSET(ggml_backend_i, graph_compute), OFFSET(ggml_backend_i, event_record), \
    OFFSET(ggml_backend_i, event_wait), OFFSET(ggml_backend_i, graph_optimize), SIZE(ggml_backend_i), \
    OFFSET(ggml_backend, guid), OFFSET(ggml_backend, iface), OFFSET(ggml_backend, device), \
    OFFSET(ggml_backend, context), SIZE(ggml_backend), \
    OFFSET(ggml_backend_event, device), OFFSET(ggml_backend_event, context), SIZE(ggml_backend_event), \
    OFFSET(ggml_backend_device_i, get_name), OFFSET(ggml_backend_device_i, get_description), \
    OFFSET(ggml_backend_device_i, get_memory), OFFSET(ggml_backend_device_i, get_type), \
    OFFSET(ggml_backend_device_i, get_props), OFFSET(ggml_backend_device_i, init_backend), \
    OFFSET(ggml_backend_device_i, get_buffer_type), OFFSET(ggml_backend_device_i, get_host_buffer_type), \
    OFFSET(ggml_backend_device_i, buffer_from_host_ptr), OFFSET(ggml_backend_device_i, supports_op), \
    OFFSET(ggml_backend_device_i, supports_buft), OFFSET(ggml_backend_device_i, offload_op), \
    OFFSET(ggml_backend_device_i, event_new), OFFSET(ggml_backend_device_i, event_free), \
    OFFSET(ggml_backend_device_i, event_synchronize), SIZE(ggml_backend_device_i), \
    OFFSET(ggml_backend_device, iface), OFFSET(ggml_backend_device, reg), \
    OFFSET(ggml_backend_device, context), SIZE(ggml_backend_device), \
    OFFSET(ggml_backend_reg_i, get_name), OFFSET(ggml_backend_reg_i, get_device_count), \
    OFFSET(ggml_backend_reg_i, get_device), OFFSET(ggml_backend_reg_i, get_proc_address), \
    SIZE(ggml_backend_reg_i), \
    OFFSET(ggml_backend_reg, api_version), OFFSET(ggml_backend_reg, iface), \
    OFFSET(ggml_backend_reg, context), SIZE(ggml_backend_reg)

#define BUFT_OFFSETS(buft_i, buft) \
    {"buft get_name", offsetof(struct buft_i, get_name)}, \
    {"buft alloc_buffer", offsetof(struct buft_i, alloc_buffer)}, \
    {"buft get_alignment", offsetof(struct buft_i, get_alignment)}, \
    {"buft get_max_size", offsetof(struct buft_i, get_max_size)}, \
    {"buft get_alloc_size", offsetof(struct buft_i, get_alloc_size)}, \
    {"buft is_host", offsetof(struct buft_i, is_host)}, \
    {"buft device", offsetof(struct buft, device)}, \
    {"buft context", offsetof(struct buft, context)}, \
    {"sizeof buft", sizeof(struct buft)}
// clang-format on

extern const struct abi_offset abi_ggml[];
extern const size_t abi_ggml_count;
extern const int abi_ggml_version;

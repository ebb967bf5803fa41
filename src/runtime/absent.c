// absent: functions of libhsa-runtime64, up to ROCm 7.2's, that nothing here plays. A program that
// was linked against the real library finds every symbol, and one that calls these gets
// HSA_STATUS_ERROR and, once per function, a line on stderr that names it. None of them pretends
// success.
//
// The prototypes are not the real ones: no argument is looked at, and all of them return a status.
// That is why this file does not include hsa.h.
#include <stdint.h>
#include <stdio.h>

enum { STATUS_ERROR = 0x1000 }; // HSA_STATUS_ERROR

// clang-format off
#define ABSENT(X)                                                                                 \
    X(hsa_agent_get_exception_policies) X(hsa_agent_iterate_regions)                              \
    X(hsa_amd_agent_set_async_scratch_limit) X(hsa_amd_ais_file_read) X(hsa_amd_ais_file_write)   \
    X(hsa_amd_coherency_get_type) X(hsa_amd_coherency_set_type)                                   \
    X(hsa_amd_deregister_deallocation_callback) X(hsa_amd_image_create)                           \
    X(hsa_amd_image_get_info_max_dim) X(hsa_amd_ipc_memory_attach) X(hsa_amd_ipc_memory_create)     \
    X(hsa_amd_ipc_memory_detach) X(hsa_amd_ipc_signal_attach) X(hsa_amd_ipc_signal_create)        \
    X(hsa_amd_memory_migrate) X(hsa_amd_memory_pool_can_migrate) \
    X(hsa_amd_portable_export_dmabuf_v2)                                                          \
    X(hsa_amd_register_deallocation_callback) X(hsa_amd_spm_acquire) X(hsa_amd_spm_release)       \
    X(hsa_amd_spm_set_dest_buffer) X(hsa_amd_svm_attributes_get) X(hsa_amd_svm_attributes_set)    \
    X(hsa_amd_svm_prefetch_async) X(hsa_amd_vmem_export_shareable_handle)                         \
    X(hsa_amd_vmem_import_shareable_handle) X(hsa_code_object_deserialize)                        \
    X(hsa_code_object_destroy) X(hsa_code_object_get_info) X(hsa_code_object_get_symbol)          \
    X(hsa_code_object_get_symbol_from_name) X(hsa_code_object_iterate_symbols)                    \
    X(hsa_code_object_serialize) X(hsa_code_symbol_get_info) X(hsa_executable_load_code_object)   \
    X(hsa_executable_load_program_code_object) X(hsa_ext_image_clear) X(hsa_ext_image_copy)       \
    X(hsa_ext_image_create) X(hsa_ext_image_create_with_layout) X(hsa_ext_image_data_get_info)    \
    X(hsa_ext_image_data_get_info_with_layout) X(hsa_ext_image_destroy) X(hsa_ext_image_export)   \
    X(hsa_ext_image_get_capability) X(hsa_ext_image_get_capability_with_layout)                   \
    X(hsa_ext_image_import) X(hsa_ext_program_add_module) X(hsa_ext_program_create)               \
    X(hsa_ext_program_destroy) X(hsa_ext_program_finalize) X(hsa_ext_program_get_info)            \
    X(hsa_ext_program_iterate_modules) X(hsa_ext_sampler_create) X(hsa_ext_sampler_create_v2)     \
    X(hsa_ext_sampler_destroy) X(hsa_isa_get_exception_policies) X(hsa_isa_get_round_method)      \
    X(hsa_memory_allocate) X(hsa_memory_assign_agent) X(hsa_memory_free) X(hsa_region_get_info)   \
    X(hsa_signal_group_create) X(hsa_signal_group_destroy) X(hsa_signal_group_wait_any_relaxed)   \
    X(hsa_signal_group_wait_any_scacquire) X(hsa_soft_queue_create) X(hsa_ven_amd_pcs_create)     \
    X(hsa_ven_amd_pcs_create_from_id) X(hsa_ven_amd_pcs_destroy) X(hsa_ven_amd_pcs_flush)         \
    X(hsa_ven_amd_pcs_iterate_configuration) X(hsa_ven_amd_pcs_start) X(hsa_ven_amd_pcs_stop)
// clang-format on

static uint32_t absent(const char * name, int * said) {
    if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED)) {
        fprintf(stderr, "hsa-npu: %s is not emulated\n", name);
    }
    return STATUS_ERROR;
}

#define DEFINE(name)                                                                               \
    __attribute__((visibility("default"))) uint32_t name(void);                                    \
    uint32_t name(void) {                                                                          \
        static int said;                                                                           \
        return absent(#name, &said);                                                               \
    }
ABSENT(DEFINE)

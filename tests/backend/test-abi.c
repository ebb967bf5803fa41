// test-abi: our declarations of the structs that a backend shares with ggml lie exactly as ggml's
// own.
#include "base/cmocka-all.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "abi-offsets.h"
#include "backend/ggml-abi.h"

static const struct abi_offset ours_v2[] = {
    ABI_OFFSETS, BUFT_OFFSETS(ggml_backend_buffer_type_i_v2, ggml_backend_buffer_type_v2)};
static const struct abi_offset ours_v3[] = {
    ABI_OFFSETS, BUFT_OFFSETS(ggml_backend_buffer_type_i_v3, ggml_backend_buffer_type_v3)};

static void offsets_agree(void ** state) {
    (void) state;
    assert_between(abi_ggml_version, 2, 3);
    const struct abi_offset * ours = abi_ggml_version == 3 ? ours_v3 : ours_v2;
    assert_int_equal(abi_ggml_count, sizeof ours_v2 / sizeof ours_v2[0]);
    for (size_t i = 0; i < abi_ggml_count; i++) {
        if (ours[i].value != abi_ggml[i].value) {
            fail_msg("%s: ours %zu, ggml's %zu", ours[i].name, ours[i].value, abi_ggml[i].value);
        }
    }
}

// Backend API 3 by the numbers that its published libraries use, for no header of it is at hand.
// The buffer type's are those of ggml 0.27 in Debian. The others were taken by a compiler from
// ggml's headers of the day after 0.26.0, for a plugin in assembly
// (host/asm/ggml-phi/ggml_layout.inc of Lasimeri/Intel-Phi-AVX512), and hold for both APIs.
static void layout_of_api_3(void ** state) {
    (void) state;
    static const struct abi_offset numbers[] = {
        {"buft alloc_buffer", 0x08},
        {"buft get_alignment", 0x18},
        {"buft get_max_size", 0x20},
        {"buft get_alloc_size", 0x28},
        {"buft is_host", 0x38},
        {"buft device", 0x40},
        {"buft context", 0x48},
        {"ggml_backend_buffer.buft", 88},
        {"sizeof ggml_backend_reg", 48},
        {"ggml_backend_reg.iface", 8},
        {"ggml_backend_reg.context", 40},
        {"sizeof ggml_backend_reg_i", 32},
        {"ggml_backend_reg_i.get_device_count", 8},
        {"ggml_backend_reg_i.get_device", 16},
        {"ggml_backend_reg_i.get_proc_address", 24},
        {"sizeof ggml_backend_device", 136},
        {"ggml_backend_device.reg", 120},
        {"ggml_backend_device.context", 128},
        {"sizeof ggml_backend_device_i", 120},
        {"ggml_backend_device_i.get_description", 8},
        {"ggml_backend_device_i.get_memory", 16},
        {"ggml_backend_device_i.get_type", 24},
        {"ggml_backend_device_i.get_props", 32},
        {"ggml_backend_device_i.init_backend", 40},
        {"ggml_backend_device_i.get_buffer_type", 48},
        {"ggml_backend_device_i.get_host_buffer_type", 56},
        {"ggml_backend_device_i.buffer_from_host_ptr", 64},
        {"ggml_backend_device_i.supports_op", 72},
        {"ggml_backend_device_i.supports_buft", 80},
        {"ggml_backend_device_i.offload_op", 88},
        {"ggml_backend_device_i.event_new", 96},
        {"ggml_backend_device_i.event_free", 104},
        {"ggml_backend_device_i.event_synchronize", 112},
        {"sizeof ggml_backend", 152},
        {"ggml_backend.iface", 8},
        {"ggml_backend.device", 136},
        {"ggml_backend.context", 144},
        {"sizeof ggml_backend_i", 128},
        {"ggml_backend_i.free", 8},
        {"ggml_backend_i.graph_compute", 96},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        size_t found = 0;
        for (size_t k = 0; k < sizeof ours_v3 / sizeof ours_v3[0]; k++) {
            if (!strcmp(ours_v3[k].name, numbers[i].name)) {
                found++;
                if (ours_v3[k].value != numbers[i].value) {
                    fail_msg("%s: ours %zu, theirs %zu", numbers[i].name, ours_v3[k].value,
                             numbers[i].value);
                }
            }
        }
        assert_int_equal(found, 1);
    }
    // What a node is has not changed either.
    assert_int_equal(sizeof(struct ggml_tensor), 336);
    assert_int_equal(offsetof(struct ggml_tensor, op_params), 84);
    assert_int_equal(offsetof(struct ggml_tensor, src), 152);
    assert_int_equal(offsetof(struct ggml_tensor, data), 248);
    assert_int_equal(GGML_OP_MUL_MAT, 29);
    assert_int_equal(GGML_OP_TRANSPOSE, 39);
    assert_int_equal(GGML_OP_GLU, 100);
    assert_int_equal(GGML_TYPE_BF16, 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_agree),
        cmocka_unit_test(layout_of_api_3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test-abi: our declarations of the structs that a backend shares with ggml lie exactly as ggml's
// own.
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "abi-offsets.h"
#include "backend/ggml-abi.h"

static const struct abi_offset ours_v2[] = {
    ABI_OFFSETS, BUFT_OFFSETS(ggml_backend_buffer_type_i_v2, ggml_backend_buffer_type_v2)};
static const struct abi_offset ours_v3[] = {
    ABI_OFFSETS, BUFT_OFFSETS(ggml_backend_buffer_type_i_v3, ggml_backend_buffer_type_v3)};

static void offsets_agree(void ** state) {
    (void) state;
    assert_in_range(abi_ggml_version, 2, 3);
    const struct abi_offset * ours = abi_ggml_version == 3 ? ours_v3 : ours_v2;
    assert_int_equal(abi_ggml_count, sizeof ours_v2 / sizeof ours_v2[0]);
    for (size_t i = 0; i < abi_ggml_count; i++) {
        if (ours[i].value != abi_ggml[i].value) {
            fail_msg("%s: ours %zu, ggml's %zu", ours[i].name, ours[i].value, abi_ggml[i].value);
        }
    }
}

// Backend API 3 by the numbers that its published library uses; no header of it is at hand.
static void layout_of_api_3(void ** state) {
    (void) state;
    assert_int_equal(offsetof(struct ggml_backend_buffer_type_i_v3, alloc_buffer), 0x08);
    assert_int_equal(offsetof(struct ggml_backend_buffer_type_i_v3, get_alignment), 0x18);
    assert_int_equal(offsetof(struct ggml_backend_buffer_type_i_v3, get_max_size), 0x20);
    assert_int_equal(offsetof(struct ggml_backend_buffer_type_i_v3, get_alloc_size), 0x28);
    assert_int_equal(offsetof(struct ggml_backend_buffer_type_i_v3, is_host), 0x38);
    assert_int_equal(offsetof(struct ggml_backend_buffer_type_v3, device), 0x40);
    assert_int_equal(offsetof(struct ggml_backend_buffer_type_v3, context), 0x48);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_agree),
        cmocka_unit_test(layout_of_api_3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

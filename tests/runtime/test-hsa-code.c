// Code objects through the HSA API: loading, relocations, symbols, the loader extension; and files
// that do not hold together, which are refused with the right status.
#include "gpu.h"

#include "code.h"

#include <hsa/hsa_ven_amd_loader.h>
#include <fcntl.h>
#include <unistd.h>

static const uint32_t end9[] = {CODE_END_GFX9};
static const uint32_t end11[] = {CODE_END_GFX11};

static hsa_status_t try_load(struct rig * r, hsa_agent_t agent, const void * data, size_t size) {
    hsa_code_object_reader_t reader;
    hsa_executable_t e;
    assert_int_equal(r->hsa_code_object_reader_create_from_memory(data, size, &reader), 0);
    assert_int_equal(r->hsa_executable_create_alt(
                         HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &e),
                     0);
    hsa_status_t status = r->hsa_executable_load_agent_code_object(e, agent, reader, NULL, NULL);
    assert_int_equal(r->hsa_executable_destroy(e), 0);
    assert_int_equal(r->hsa_code_object_reader_destroy(reader), 0);
    return status;
}

static hsa_status_t count_symbol(hsa_executable_t e, hsa_executable_symbol_t s, void * data) {
    (void) e;
    (void) s;
    ++*(int *) data;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t stop_symbol(hsa_executable_t e, hsa_agent_t a, hsa_executable_symbol_t s,
                                void * data) {
    (void) e;
    (void) a;
    (void) s;
    ++*(int *) data;
    return HSA_STATUS_INFO_BREAK;
}

static void test_load(void ** state) {
    (void) state;
    struct rig r;
    rig_env("gfx90a,gfx1100", NULL, NULL);
    rig_open(&r);
    hsa_agent_t gpu = r.gpus[0].agent;
    uint8_t * co = code_new(CODE_MACH_GFX90A, end9, 1, false);
    struct gpu_code code;
    gpu_load(&r, gpu, co, CODE_BYTES, &code);
    memset(co, 0xee, CODE_BYTES); // it was copied
    struct gpu_kernel k = gpu_find(&r, gpu, &code, "k.kd");
    assert_int_equal(k.kernarg, 24);
    assert_int_equal(k.group, 256);
    assert_int_equal(k.private, 0);
    assert_int_equal(k.object % 64, 0);
    hsa_executable_symbol_t s;
    assert_int_equal(r.hsa_executable_get_symbol_by_name(code.executable, "variable", &gpu, &s), 0);
    uint64_t address = 0;
    uint32_t word = 99;
    assert_int_equal(
        r.hsa_executable_symbol_get_info(s, HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS, &address),
        0);
    assert_int_equal(
        r.hsa_executable_symbol_get_info(s, HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE, &word), 0);
    assert_int_equal(word, 4);
    assert_int_equal(r.hsa_executable_symbol_get_info(s, HSA_EXECUTABLE_SYMBOL_INFO_TYPE, &word),
                     0);
    assert_int_equal(word, HSA_SYMBOL_KIND_VARIABLE);
    assert_int_equal(
        r.hsa_executable_symbol_get_info(s, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &address),
        HSA_STATUS_ERROR_INVALID_ARGUMENT);
    char name[16] = {0};
    assert_int_equal(r.hsa_executable_symbol_get_info(s, HSA_EXECUTABLE_SYMBOL_INFO_NAME, name), 0);
    assert_string_equal(name, "variable");
    assert_int_equal(address - k.object, CODE_VARIABLE - CODE_KD);
    const uint8_t * image = (const uint8_t *) (uintptr_t) (address - CODE_VARIABLE);
    assert_int_equal(load_u32(image + CODE_VARIABLE), 7);
    assert_int_equal(load_u64(image + CODE_POINTER), address);
    for (int i = CODE_BYTES; i < CODE_DYNAMIC + CODE_RW_BYTES; i++) {
        assert_int_equal(image[i], 0);
    }
    int n = 0;
    assert_int_equal(r.hsa_executable_iterate_symbols(code.executable, count_symbol, &n), 0);
    assert_int_equal(n, 2);
    assert_int_equal(r.hsa_executable_iterate_agent_symbols(code.executable, gpu, stop_symbol, &n),
                     HSA_STATUS_INFO_BREAK);
    assert_int_equal(n, 3);
    // What is not there.
    assert_int_equal(r.hsa_executable_get_symbol_by_name(code.executable, "k", &gpu, &s),
                     HSA_STATUS_ERROR_INVALID_SYMBOL_NAME);
    assert_int_equal(
        r.hsa_executable_get_symbol_by_name(code.executable, "k.kd", &r.gpus[1].agent, &s),
        HSA_STATUS_ERROR_INVALID_SYMBOL_NAME);
    assert_int_equal(r.hsa_executable_get_symbol_by_name(code.executable, "k.kd", NULL, &s),
                     HSA_STATUS_ERROR_INVALID_SYMBOL_NAME);
    assert_int_equal(r.hsa_executable_freeze(code.executable, NULL),
                     HSA_STATUS_ERROR_FROZEN_EXECUTABLE);
    assert_int_equal(
        r.hsa_executable_load_agent_code_object(code.executable, gpu, code.reader, NULL, NULL),
        HSA_STATUS_ERROR_FROZEN_EXECUTABLE);
    gpu_unload(&r, &code);
    assert_int_equal(r.hsa_executable_destroy(code.executable),
                     HSA_STATUS_ERROR_INVALID_EXECUTABLE);
    assert_int_equal(r.hsa_code_object_reader_destroy(code.reader),
                     HSA_STATUS_ERROR_INVALID_CODE_OBJECT_READER);
    assert_int_equal(r.hsa_executable_symbol_get_info(s, HSA_EXECUTABLE_SYMBOL_INFO_TYPE, &word),
                     HSA_STATUS_ERROR_INVALID_EXECUTABLE_SYMBOL);
    free(co);
    rig_close(&r);
}

// Before it is frozen an executable tells no addresses; variables from outside come in between.
static void test_define(void ** state) {
    (void) state;
    struct rig r;
    rig_env("gfx90a", NULL, NULL);
    rig_open(&r);
    hsa_agent_t gpu = r.gpus[0].agent;
    uint8_t * co = code_new(CODE_MACH_GFX90A, end9, 1, true);
    assert_int_equal(try_load(&r, gpu, co, CODE_BYTES), HSA_STATUS_ERROR_VARIABLE_UNDEFINED);
    hsa_code_object_reader_t reader;
    hsa_executable_t e;
    assert_int_equal(r.hsa_code_object_reader_create_from_memory(co, CODE_BYTES, &reader), 0);
    assert_int_equal(r.hsa_executable_create_alt(HSA_PROFILE_FULL,
                                                 HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &e),
                     0);
    uint8_t * outside = rig_alloc(&r, r.gpus[0].vram, 64);
    assert_int_equal(r.hsa_executable_agent_global_variable_define(e, gpu, "outside", outside), 0);
    assert_int_equal(r.hsa_executable_agent_global_variable_define(e, gpu, "outside", outside),
                     HSA_STATUS_ERROR_VARIABLE_ALREADY_DEFINED);
    assert_int_equal(r.hsa_executable_load_agent_code_object(e, gpu, reader, NULL, NULL), 0);
    hsa_executable_symbol_t s;
    uint64_t address = 1;
    assert_int_equal(r.hsa_executable_get_symbol_by_name(e, "variable", &gpu, &s), 0);
    assert_int_equal(
        r.hsa_executable_symbol_get_info(s, HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS, &address),
        0);
    assert_int_equal(address, 0);
    assert_int_equal(r.hsa_executable_freeze(e, NULL), 0);
    assert_int_equal(
        r.hsa_executable_symbol_get_info(s, HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS, &address),
        0);
    assert_int_equal(load_u64((const uint8_t *) (uintptr_t) address + CODE_OUTSIDE - CODE_VARIABLE),
                     (uintptr_t) outside + 8);
    free(co);
    rig_close(&r); // frees the rest
}

static void test_architectures(void ** state) {
    (void) state;
    struct rig r;
    rig_env("gfx90a,gfx942,gfx1100,aie2", NULL, NULL);
    rig_open(&r);
    const struct {
        uint32_t flags;
        int gpu; // that takes it; -1: none
    } cases[] = {
        {CODE_MACH_GFX90A, 0},
        {CODE_MACH_GFX942, 1},
        {CODE_MACH_GFX1100, 2},
        {0x63f, 0},  // xnack off, sramecc any
        {0xe3f, 0},  // sramecc on
        {0x73f, -1}, // xnack on
        {0xa3f, -1}, // sramecc off
        {0x52f, -1}, // gfx906
        {0x4ff, -1}, // nobody knows
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t * co = code_new(cases[i].flags, cases[i].gpu == 2 ? end11 : end9, 1, false);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(try_load(&r, r.gpus[k].agent, co, CODE_BYTES),
                             k == cases[i].gpu ? HSA_STATUS_SUCCESS
                                               : HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS);
        }
        assert_int_equal(try_load(&r, r.npu, co, CODE_BYTES),
                         HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS);
        free(co);
    }
    rig_close(&r);
}

static void test_broken(void ** state) {
    (void) state;
    static const struct {
        uint32_t at, bytes;
        uint64_t value;
    } patches[] = {
        {0, 1, 0x7e},                               // magic
        {4, 1, 1},                                  // 32 bits
        {5, 1, 2},                                  // big-endian
        {7, 1, 0},                                  // OS ABI
        {16, 2, 1},                                 // relocatable
        {18, 2, 62},                                // x86-64
        {20, 4, 2},                                 // version
        {32, 8, CODE_BYTES},                        // program headers behind the end
        {32, 8, UINT64_MAX - 100},                  //
        {52, 2, 0},                                 // size of this header
        {54, 2, 55},                                // size of a program header
        {56, 2, 0},                                 // none
        {56, 2, 65535},                             // too many
        {48, 4, 0},                                 // no processor
        {64 + 8, 8, CODE_BYTES},                    // a segment behind the end
        {64 + 8, 8, UINT64_MAX - 0xfff},            //
        {64 + 32, 8, 0x501},                        // more in the file than in memory
        {64 + 40, 8, UINT64_MAX},                   // wraps around
        {64 + 40, 8, 0x1001},                       // overlaps the next
        {64 + 48, 8, 3},                            // alignment
        {64 + 48, 8, 1 << 20},                      //
        {120 + 16, 8, 0x1800},                      // address and offset do not agree
        {176 + 40, 8, (uint64_t) 1 << 40},          // a terabyte
        {176 + 16, 8, (uint64_t) 1 << 40},          // far away
        {176, 4, 2},                                // two dynamic sections
        {232 + 16, 8, 0x9000},                      // the dynamic section is nowhere
        {232 + 40, 8, UINT64_MAX},                  //
        {CODE_DYNAMIC + 8, 8, 0x9000},              // relocations are nowhere
        {CODE_DYNAMIC + 24, 8, 25},                 // not whole ones
        {CODE_DYNAMIC + 24, 8, 24000},              // too many
        {CODE_DYNAMIC + 40, 8, 16},                 // of another size
        {CODE_DYNAMIC + 48, 8, 17},                 // of another kind
        {CODE_DYNAMIC + 56, 8, UINT64_MAX},         // symbols are nowhere
        {CODE_DYNAMIC + 72, 8, 16},                 // of another size
        {CODE_DYNAMIC + 88, 8, 0x4f8},              // names reach over the end
        {CODE_DYNAMIC + 104, 8, 0},                 // no names
        {CODE_DYNAMIC + 104, 8, 4},                 // the last name does not end
        {CODE_DYNAMIC + 120, 8, 0x4fc},             // no hash table
        {CODE_HASH + 4, 4, UINT32_MAX},             // too many symbols
        {CODE_SYMBOLS + 24, 4, 4000},               // a name behind the names
        {CODE_SYMBOLS + 32, 8, 0x4e0},              // a descriptor that reaches over the end
        {CODE_SYMBOLS + 32, 8, 0x408},              // not aligned
        {CODE_SYMBOLS + 40, 8, 63},                 // too short
        {CODE_SYMBOLS + 56, 8, 0x23fe},             // a variable that reaches over the end
        {CODE_SYMBOLS + 64, 8, UINT64_MAX},         //
        {CODE_RELOCS, 8, 0x23fc},                   // a relocation over the end
        {CODE_RELOCS, 8, UINT64_MAX},               //
        {CODE_RELOCS + 8, 4, 9},                    // for linkers
        {CODE_RELOCS + 12, 4, 4},                   // of a symbol that is not there
        {CODE_RELOCS + 12, 4, UINT32_MAX},          //
        {CODE_KD + 16, 8, 0},                       // code that is none
        {CODE_KD + 16, 8, CODE_TEXT - CODE_KD + 4}, // behind the code
        {CODE_KD + 16, 8, UINT64_MAX},              //
    };
    struct rig r;
    rig_env("gfx90a", NULL, NULL);
    rig_open(&r);
    hsa_agent_t gpu = r.gpus[0].agent;
    uint8_t * co = code_new(CODE_MACH_GFX90A, end9, 1, false);
    uint8_t * copy = malloc(CODE_BYTES);
    for (size_t i = 0; i < sizeof patches / sizeof patches[0]; i++) {
        memcpy(copy, co, CODE_BYTES);
        for (uint32_t k = 0; k < patches[i].bytes; k++) {
            copy[patches[i].at + k] = (uint8_t) (patches[i].value >> 8 * k);
        }
        hsa_status_t status = try_load(&r, gpu, copy, CODE_BYTES);
        if (status != HSA_STATUS_ERROR_INVALID_CODE_OBJECT) {
            fail_msg("patch %zu at 0x%x: status 0x%x", i, patches[i].at, status);
        }
    }
    memcpy(copy, co, CODE_BYTES);
    copy[8] = 0; // version 2
    assert_int_equal(try_load(&r, gpu, copy, CODE_BYTES), HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS);
    for (size_t size = 1; size < CODE_BYTES; size += size < 600 ? 1 : 97) {
        uint8_t * part = malloc(size); // of exactly this size, for sanitizers
        memcpy(part, co, size);
        assert_int_equal(try_load(&r, gpu, part, size), HSA_STATUS_ERROR_INVALID_CODE_OBJECT);
        free(part);
    }
    assert_int_equal(try_load(&r, gpu, "__CLANG_OFFLOAD_BUNDLE__........", 32),
                     HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS);
    hsa_code_object_reader_t reader;
    assert_int_equal(r.hsa_code_object_reader_create_from_memory(co, 0, &reader),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(try_load(&r, gpu, co, CODE_BYTES), HSA_STATUS_SUCCESS);
    free(copy);
    free(co);
    rig_close(&r);
}

static hsa_status_t keep_loaded(hsa_executable_t e, hsa_loaded_code_object_t l, void * data) {
    (void) e;
    *(hsa_loaded_code_object_t *) data = l;
    return HSA_STATUS_SUCCESS;
}

static void test_file_and_loader(void ** state) {
    (void) state;
    struct rig r;
    rig_env("gfx1100", NULL, NULL);
    rig_open(&r);
    hsa_agent_t gpu = r.gpus[0].agent;
    hsa_ven_amd_loader_1_03_pfn_t t;
    assert_int_equal(
        r.hsa_system_get_major_extension_table(HSA_EXTENSION_AMD_LOADER, 1, sizeof t, &t), 0);
    assert_int_equal(r.hsa_system_get_major_extension_table(HSA_EXTENSION_IMAGES, 1, sizeof t, &t),
                     HSA_STATUS_ERROR);
    bool supported = false;
    assert_int_equal(r.hsa_system_extension_supported(HSA_EXTENSION_AMD_LOADER, 1, 3, &supported),
                     0);
    assert_true(supported);
    uint8_t * co = code_new(CODE_MACH_GFX1100, end11, 1, false);
    char path[] = "/tmp/hsa-code-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "12345678", 8), 8);
    assert_int_equal(write(fd, co, CODE_BYTES), CODE_BYTES);
    hsa_code_object_reader_t reader;
    hsa_executable_t e;
    hsa_loaded_code_object_t loaded, seen = {0};
    assert_int_equal(r.hsa_code_object_reader_create_from_file(-1, &reader),
                     HSA_STATUS_ERROR_INVALID_FILE);
    assert_int_equal(t.hsa_ven_amd_loader_code_object_reader_create_from_file_with_offset_size(
                         fd, 8, CODE_BYTES + 1, &reader),
                     HSA_STATUS_ERROR_INVALID_FILE);
    assert_int_equal(t.hsa_ven_amd_loader_code_object_reader_create_from_file_with_offset_size(
                         fd, 8, CODE_BYTES, &reader),
                     HSA_STATUS_SUCCESS);
    assert_int_equal(r.hsa_executable_create_alt(HSA_PROFILE_FULL,
                                                 HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &e),
                     0);
    assert_int_equal(r.hsa_executable_load_agent_code_object(e, gpu, reader, NULL, &loaded), 0);
    assert_int_equal(r.hsa_executable_freeze(e, NULL), 0);
    close(fd);
    unlink(path);

    assert_int_equal(
        t.hsa_ven_amd_loader_executable_iterate_loaded_code_objects(e, keep_loaded, &seen), 0);
    assert_int_equal(seen.handle, loaded.handle);
    uint64_t base = 0, size = 0;
    uint32_t n = 0;
    assert_int_equal(t.hsa_ven_amd_loader_loaded_code_object_get_info(
                         loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_BASE, &base),
                     0);
    assert_int_equal(t.hsa_ven_amd_loader_loaded_code_object_get_info(
                         loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_SIZE, &size),
                     0);
    assert_true(size >= CODE_DYNAMIC + CODE_RW_BYTES);
    assert_int_equal(t.hsa_ven_amd_loader_loaded_code_object_get_info(
                         loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_URI_LENGTH, &n),
                     0);
    char uri[256] = {0}, expected[256];
    assert_true(n < sizeof uri);
    assert_int_equal(t.hsa_ven_amd_loader_loaded_code_object_get_info(
                         loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_URI, uri),
                     0);
    snprintf(expected, sizeof expected, "file://%s#offset=8&size=%d", path, CODE_BYTES);
    assert_string_equal(uri, expected);
    const void * host = NULL;
    hsa_executable_t owner = {0};
    const void * inside = (const void *) (uintptr_t) (base + CODE_TEXT);
    assert_int_equal(t.hsa_ven_amd_loader_query_host_address(inside, &host), 0);
    assert_int_equal(load_u32(host), CODE_END_GFX11);
    assert_int_equal(t.hsa_ven_amd_loader_query_executable(inside, &owner), 0);
    assert_int_equal(owner.handle, e.handle);
    assert_int_equal(t.hsa_ven_amd_loader_query_host_address(uri, &host),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    size_t segments = 0;
    assert_int_equal(t.hsa_ven_amd_loader_query_segment_descriptors(NULL, &segments), 0);
    assert_int_equal(segments, 1);
    hsa_ven_amd_loader_segment_descriptor_t d;
    assert_int_equal(t.hsa_ven_amd_loader_query_segment_descriptors(&d, &segments), 0);
    assert_int_equal((uintptr_t) d.segment_base, base);
    free(co);
    rig_close(&r);
}

// Kernels made by hand, through a queue: one that ends, and several that must not be run.
static void test_run(void ** state) {
    (void) state;
    static const struct {
        const char * name;
        uint32_t flags, end;
    } archs[] = {
        {"gfx90a", CODE_MACH_GFX90A, CODE_END_GFX9},
        {"gfx942", CODE_MACH_GFX942, CODE_END_GFX9},
        {"gfx1100", CODE_MACH_GFX1100, CODE_END_GFX11},
    };
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        struct rig r;
        rig_env(archs[i].name, NULL, NULL);
        rig_open(&r);
        hsa_agent_t gpu = r.gpus[0].agent;
        struct gpu_failure failure = {0};
        struct gpu_code code;
        hsa_signal_t done;
        assert_int_equal(r.hsa_signal_create(1, 0, NULL, &done), 0);
        hsa_queue_t * q = gpu_queue(&r, gpu, &failure);
        uint8_t * co = code_new(archs[i].flags, &archs[i].end, 1, false);
        gpu_load(&r, gpu, co, CODE_BYTES, &code);
        free(co);
        struct gpu_kernel k = gpu_find(&r, gpu, &code, "k.kd");
        void * kernarg = gpu_shared(&r, gpu, r.cpu_kernarg, k.kernarg);
        hsa_kernel_dispatch_packet_t p = gpu_packet(&k, kernarg, 1000, 100, done);
        gpu_send(&r, q, &p);
        assert_int_equal(gpu_wait(&r, done), 0);
        struct hsa_emu_counters c;
        assert_int_equal(r.hsa_emu_counters(gpu, &c), 0);
        assert_int_equal(c.dispatches, 1);
        // 10 groups of 2 or 4 waves, an instruction each
        assert_int_equal(c.bundles, 10 * (i == 2 ? 4 : 2));
        // A kernel object that is none.
        p.kernel_object = (uint64_t) (uintptr_t) &k;
        gpu_send(&r, q, &p);
        hsa_status_t status = gpu_await_failure(&failure);
        assert_int_not_equal(status, HSA_STATUS_SUCCESS);
        assert_int_equal(r.hsa_queue_destroy(q), 0);
        gpu_unload(&r, &code);
        // Bytes that are no instruction.
        const uint32_t junk[] = {0xffffffff, 0xffffffff, archs[i].end};
        co = code_new(archs[i].flags, junk, 3, false);
        gpu_load(&r, gpu, co, CODE_BYTES, &code);
        free(co);
        k = gpu_find(&r, gpu, &code, "k.kd");
        p = gpu_packet(&k, kernarg, 64, 64, done);
        failure.status = HSA_STATUS_SUCCESS;
        q = gpu_queue(&r, gpu, &failure);
        gpu_send(&r, q, &p);
        assert_int_equal(gpu_await_failure(&failure), HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION);
        assert_non_null(strstr(r.hsa_emu_last_error(gpu), archs[i].name));
        assert_int_equal(r.hsa_signal_load_scacquire(done), 0);
        rig_close(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_define),
        cmocka_unit_test(test_architectures),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_file_and_loader),
        cmocka_unit_test(test_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

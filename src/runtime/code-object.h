// code-object: AMDGPU ELF files, as compilers make them for AMD GPUs (code object versions 3 to 6).
// A file is opened (every header checked), copied into memory and relocated; then its symbols can
// be visited. The bytes are not trusted: whatever they hold, nothing outside them and outside the
// given memory is touched.
#pragma once

#include "base/base.h"

enum {
    CODE_MAX_SEGMENTS = 16,
    CODE_MAX_SPAN = 1 << 30, // bytes of memory that one code object may ask for
    CODE_PAGE = 4096,        // where segments may be aligned to at most
    CODE_DESCRIPTOR_BYTES = 64,
};

enum code_segment_flags { CODE_X = 1, CODE_W = 2, CODE_R = 4 }; // as in ELF

struct code_segment {
    uint64_t vaddr, size;
    uint64_t offset, file_size; // the rest reads as zero
    uint32_t flags;
};

// The processor that code is for: the low byte of e_flags, and which of two features it relies on.
enum code_feature { CODE_FEATURE_NONE, CODE_FEATURE_ANY, CODE_FEATURE_OFF, CODE_FEATURE_ON };

struct code_object {
    const uint8_t * data; // belongs to the caller
    size_t size;
    int version; // of the code object format
    uint32_t mach;
    enum code_feature xnack, sramecc;
    struct code_segment segments[CODE_MAX_SEGMENTS]; // ascending, without overlap
    int n_segments;
    uint64_t dynamic, dynamic_size; // virtual address of PT_DYNAMIC; size 0: none
    uint64_t low, span;             // what to allocate: addresses [low, low + span)
};

// ST_CORRUPT: not such a file, or it does not hold together; ST_UNSUPPORTED: one that we do not
// load.
enum status code_object_open(const uint8_t * data, size_t size, struct code_object * co,
                             struct error * err);

// The processor's name for a mach number, or NULL.
const char * code_mach_name(uint32_t mach);

// A code object in memory. Device addresses are vaddr + delta.
struct code_image {
    const struct code_object * co;
    uint8_t * memory; // span bytes, the first of them is vaddr low
    uint64_t delta;   // modulo 2^64
    // from the dynamic section, as virtual addresses that were checked
    uint64_t symbols, n_symbols, strings, n_strings;
};

// Address of a variable that the code object uses and does not define; false: there is none.
typedef bool code_define(void * user, const char * name, uint64_t * address);

// Fills memory (co->span bytes, aligned to CODE_PAGE, zero) and relocates it for device address
// `base` of its first byte. ST_NOT_FOUND: an undefined variable, whose name the text holds.
enum status code_object_load(const struct code_object * co, uint8_t * memory, uint64_t base,
                             code_define * define, void * user, struct code_image * image,
                             struct error * err);

struct code_symbol {
    const char * name; // inside the image; ends with a zero byte
    bool is_kernel;    // name ends with ".kd"; otherwise a variable
    bool is_global;    // otherwise weak
    bool is_readonly;  // lies in a segment without CODE_W
    uint64_t address;  // on the device
    uint64_t size;
    uint32_t kernarg_bytes, group_bytes, private_bytes; // of a kernel
    bool dynamic_stack;
};

// Calls visit for each kernel and variable until it returns false. ST_CORRUPT when a symbol or a
// kernel descriptor lies outside its segment.
enum status code_image_symbols(const struct code_image * image,
                               bool (*visit)(void * user, const struct code_symbol * symbol),
                               void * user, struct error * err);

// executables: code objects that were loaded for GPUs, as the files behind HSA's executables and
// AMD's loader extension share them. All of it is under code.lock.
#pragma once

#include "code-object.h"
#include "runtime.h"

#include <hsa/hsa_ven_amd_loader.h>

struct rt_reader {
    struct rt_reader * next;
    const uint8_t * data;
    size_t size;
    uint8_t * owned; // of a file; NULL when the user keeps the bytes
    char * uri;
    int file; // -1: memory
};

struct rt_symbol {
    struct rt_loaded * loaded;
    struct code_symbol info; // its name is a copy
};

// One code object in the memory of one agent.
struct rt_loaded {
    struct rt_loaded * next;
    struct rt_executable * executable;
    struct rt_agent * agent;
    struct code_object co;
    struct code_image image;
    struct rt_symbol * symbols;
    size_t n_symbols;
    char * uri;
    int file;
};

struct rt_variable { // defined from outside, by hsa_executable_*_variable_define
    struct rt_variable * next;
    struct rt_agent * agent; // NULL: for all
    uint64_t address;
    char name[];
};

struct rt_executable {
    struct rt_executable * next;
    hsa_profile_t profile;
    hsa_default_float_rounding_mode_t rounding;
    bool frozen;
    struct rt_loaded * loaded;
    struct rt_variable * variables;
};

// All of them under code.lock; NULL: no such thing.
struct rt_executable * rt_executable_find(struct rt_runtime * rt, hsa_executable_t handle);
struct rt_loaded * rt_loaded_find(struct rt_runtime * rt, uint64_t handle);
struct rt_loaded * rt_loaded_at(struct rt_runtime * rt, uint64_t address);

hsa_status_t rt_reader_from_file(hsa_file_t file, uint64_t offset, uint64_t size,
                                 hsa_code_object_reader_t * out);

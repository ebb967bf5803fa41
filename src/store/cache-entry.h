// cache-entry: the .meta file of a kernel. Text, one fact a line:
//
//   ggml-hsa kernel
//   format 2
//   arch aie2
//   name add_f32_...
//   op add
//   input (1024,1,1,1)/f32          one line each
//   output (1024,1,1,1)/f32
//   params 3f000000 0               where the op has some
//   compiler aie 4a7d...            all up to here is the key
//   pdi 20480 5be0...               bytes and SHA-256
//   insts 1234 a54f...
//   verdict 0 77e1...               of a command's kernel: aie_verify_digest; zeros: none needed
//   check 9b05...                   SHA-256 of all lines above
#pragma once

#include "keep/keep.h"
#include "kernel/kernel.h"

// Goes up when the meaning of a line or of the two files changes.
#define ENTRY_FORMAT 2

#define ENTRY_MAX_BYTES       4096
#define ENTRY_MAX_PDI_BYTES   ((size_t) 16 << 20)
#define ENTRY_MAX_INSTS_BYTES ((size_t) 4 << 20)

struct entry_meta {
    size_t key_size; // the first bytes of the text
    struct keep_file pdi, insts;
    uint8_t verdict[SHA256_BYTES];
};

void entry_print_key(const struct kernel_spec * spec, const char * identity, struct buf * out);
// The whole file for a key that entry_print_key wrote.
void entry_print(const struct buf * key, const struct keep_file * pdi,
                 const struct keep_file * insts, const uint8_t verdict[SHA256_BYTES],
                 struct buf * out);

// ST_CORRUPT: no byte of it is to be believed. ST_UNSUPPORTED: of another format.
enum status entry_parse(const uint8_t * text, size_t size, struct entry_meta * out,
                        struct error * err);

// Compares two keys line by line and writes a line for each that differs; returns how many do.
int entry_key_diff(const char * have, size_t have_size, const char * want, size_t want_size,
                   struct buf * out);

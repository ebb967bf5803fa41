// part-file: the tensors of a file, by name, datatype and shape, without their numbers: of a GGUF
// file, or of one of whisper.cpp's older format, in which the model's sizes stand before them.
#pragma once

#include "base/base.h"
#include "ggml.h"
#include "gguf.h"

#include <stdint.h>

struct part_tensor {
    char name[GGML_MAX_NAME];
    enum ggml_type type;
    int64_t ne[GGML_MAX_DIMS];
};

// In the file's order.
enum whisper_size {
    WHISPER_VOCAB,
    WHISPER_AUDIO_CONTEXT,
    WHISPER_AUDIO_STATE,
    WHISPER_AUDIO_HEADS,
    WHISPER_AUDIO_LAYERS,
    WHISPER_TEXT_CONTEXT,
    WHISPER_TEXT_STATE,
    WHISPER_TEXT_HEADS,
    WHISPER_TEXT_LAYERS,
    WHISPER_MELS,
    WHISPER_TYPE,
    WHISPER_SIZES,
};

struct part_file {
    const char * path;
    int64_t n;
    struct part_tensor * tensors;
    uint64_t bytes;                 // of all tensors
    struct gguf_context * gguf;     // NULL: of whisper.cpp
    int32_t whisper[WHISPER_SIZES]; // checked to be in bounds that no model has reached
};

// Whether the file begins as whisper.cpp's do.
bool part_file_is_whisper(const char * path);
// What was read is freed by part_file_close, whatever the result.
enum status part_file_open(const char * path, struct part_file * out, struct error * err);
void part_file_close(struct part_file * f);

const struct part_tensor * part_file_find(const struct part_file * f, const char * name);

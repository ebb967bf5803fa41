// model-file: what a GGUF file says of the model in it, without its weights.
#pragma once

#include "base/base.h"
#include "decoder.h"

struct model_file {
    char architecture[32], name[80];
    struct decoder_model model;
    uint64_t tensors, bytes; // of all weights
};

// Every number is checked: sizes are in bounds that no model has reached, heads divide, tensors are
// there and have the shapes that follow. ST_UNSUPPORTED: an architecture that is not known. The
// architecture's name, the model's and what is said of all tensors are there whenever the file is a
// GGUF file, whatever else is wrong with it.
enum status model_file_read(const char * path, struct model_file * out, struct error * err);
